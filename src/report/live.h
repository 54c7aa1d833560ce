/* live.h - runs that may still be going on, read again and again.
 *
 * A watch has one or more paths, each a run directory or a directory with runs below it, which may
 * appear later.  ms_live_update() looks for new runs and reads what was added to the logs since the
 * last time; nothing is locked, and nothing is written.  A line that is still being written waits
 * for the next update; one that cannot be read is counted.
 *
 * Curves are thinned so that a watch of a long run stays small: when there are MS_LIVE_POINTS of
 * them, every second one goes, and from then on half as many are kept. */
#ifndef MS_REPORT_LIVE_H
#define MS_REPORT_LIVE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/file.h"

enum { MS_LIVE_POINTS = 2000, MS_LIVE_WORD = 32 };

typedef struct ms_live_point {
    int64_t step;
    double  loss, lr, tok_s, max_logit; /* NaN: not in the log */
} ms_live_point;

typedef struct ms_live_val {
    int64_t step;
    double  loss;
} ms_live_val;

typedef struct ms_live_run {
    char           dir[MS_PATH_MAX];
    char           optimizer[MS_LIVE_WORD], preset[MS_LIVE_WORD];
    char           status[MS_LIVE_WORD]; /* running, silent, or how summary.json says it ended */
    double         lr;
    int64_t        steps, step;      /* asked for, done */
    double         time_s, silent_s; /* of training; since the log last grew */
    ms_live_point  last;
    ms_live_point *points;
    size_t         n_points, room_points;
    int64_t        every; /* a point is kept of every so many steps */
    ms_live_val   *vals;
    size_t         n_vals, room_vals;
    int64_t        offset; /* of the log: what comes before it is read */
    int64_t        bad_lines;
} ms_live_run;

typedef struct ms_live { /* { 0 } is empty */
    const char *const *paths;
    size_t             n_paths;
    ms_live_run       *at; /* in the order in which they were found */
    size_t             n, capacity;
} ms_live;

/* A path that does not exist is an error; one without runs is not: they may come. */
musec_status ms_live_update(ms_error *e, ms_live *live);
void         ms_live_free(ms_live *live);

/* Has it neither ended nor gone silent? */
bool ms_live_is_running(const ms_live_run *run);
/* Seconds to its end at the speed so far; NaN: unknown, or it has ended. */
double ms_live_left_s(const ms_live_run *run);
/* {"runs": [{"dir": ..., "status": ..., "loss": [[step, loss], ...]}]}; NULL without memory. */
json_t *ms_live_json(const ms_live *live);

#endif
