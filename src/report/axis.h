/* axis.h - from values to places on an axis, and the ticks that stand there.
 *
 * A place is a share of the axis: 0 at its beginning, 1 at its end.  Whatever the values are (one,
 * none, huge, tiny, not positive on a logarithmic axis), the axis has a beginning below its end. */
#ifndef MS_REPORT_AXIS_H
#define MS_REPORT_AXIS_H

#include <stdbool.h>
#include <stddef.h>

enum { MS_TICKS = 128, MS_NUMBER_TEXT = 48 };

typedef struct ms_tick {
    double at;                    /* its place */
    char   label[MS_NUMBER_TEXT]; /* "": a small one */
} ms_tick;

typedef struct ms_span { /* { 0 } is empty */
    double lo, hi;
    bool   any;
} ms_span;

typedef struct ms_axis {
    bool    log;
    double  lo, hi;
    double  share; /* of the axis that the values have; above it lie the crosses of what diverged */
    ms_tick ticks[MS_TICKS];
    size_t  n;
} ms_axis;

/* Takes in a value; those that the axis cannot show (NaN, infinite, not positive on a logarithmic
 * one) leave it as it is. */
void ms_span_take(ms_span *span, bool log, double value);
/* An axis over the span, padded by these shares of it, without going below 0 for values above.  An
 * empty span makes an axis without ticks. */
void ms_axis_make(ms_axis *axis, bool log, ms_span span, double pad_lo, double pad_hi,
                  double share);
/* NaN stays NaN; what lies outside is at the edge. */
double ms_axis_place(const ms_axis *axis, double value);
/* The same, but what lies above the axis has a place above its share, so that a line that leaves
 * the panel does so in its own direction; infinite for an infinite value. */
double ms_axis_reach(const ms_axis *axis, double value);

/* A number for people: four digits, "2.5×10⁻⁷" where the plain form would be long. */
void ms_number_text(double value, char text[MS_NUMBER_TEXT]);

#endif
