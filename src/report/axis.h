/* axis.h - positions of values on an axis, and its ticks.
 *
 * A position is a share of the axis: 0 at its beginning, 1 at its end.  Whatever the values are
 * (one, none, huge, tiny, not positive on a logarithmic axis), the axis begins below its end. */
#ifndef MS_REPORT_AXIS_H
#define MS_REPORT_AXIS_H

#include <stdbool.h>
#include <stddef.h>

enum { MS_TICKS = 128, MS_NUMBER_TEXT = 48 };

typedef struct ms_tick {
    double at;                    /* position */
    char   label[MS_NUMBER_TEXT]; /* "" for a minor tick */
} ms_tick;

typedef struct ms_axis_range { /* { 0 } is empty */
    double lo, hi;
    bool   any;
} ms_axis_range;

typedef struct ms_axis {
    bool    log;
    double  lo, hi;
    double  share; /* of the axis that values use; the rest is for crosses of diverged runs */
    ms_tick ticks[MS_TICKS];
    size_t  n;
} ms_axis;

/* Extends the range to a value; one that the axis cannot show (NaN, infinite, not positive on a
 * logarithmic axis) leaves it unchanged. */
void ms_axis_range_add(ms_axis_range *span, bool log, double value);
/* Makes an axis over the range, padded by these shares of it; padding does not go below 0 where all
 * values are positive.  An empty range makes an axis without ticks. */
void ms_axis_make(ms_axis *axis, bool log, ms_axis_range span, double pad_lo, double pad_hi,
                  double share);
/* The position of a value; values outside the axis are at its edge, NaN stays NaN. */
double ms_axis_place(const ms_axis *axis, double value);
/* The position of a value that may lie above the axis, so that a line leaves the panel in the right
 * direction; infinite for an infinite value. */
double ms_axis_reach(const ms_axis *axis, double value);

/* Writes a number with four digits, as "2.5×10⁻⁷" where the plain form would be long. */
void ms_number_text(double value, char text[MS_NUMBER_TEXT]);

#endif
