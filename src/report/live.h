/* live.h - follows runs that may still be in progress.
 *
 * A watch has one or more paths, each a run directory or a directory with runs below it, which may
 * appear later.  ms_live_update() finds new runs and reads the lines added to the logs since the
 * last call; nothing is locked or written.  A line that is still being written is read by the next
 * update; one that cannot be read is counted.
 *
 * Curves of long runs are thinned: when there are MS_LIVE_POINTS points, every second one is
 * dropped, and from then on half as many are stored. */
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
    int64_t        every; /* steps from one stored point to the next */
    ms_live_val   *vals;
    size_t         n_vals, room_vals;
    int64_t        offset; /* bytes of the log that were read */
    int64_t        bad_lines;
} ms_live_run;

typedef struct ms_live { /* { 0 } is empty */
    const char *const *paths;
    size_t             n_paths;
    ms_live_run       *at; /* in the order in which they were found */
    size_t             n, capacity;
} ms_live;

/* A path that does not exist is an error; one without runs is not, as they may appear later. */
musec_status ms_live_update(ms_error *e, ms_live *live);
void         ms_live_free(ms_live *live);

/* Is it neither ended nor silent? */
bool ms_live_is_running(const ms_live_run *run);
/* Estimates the seconds to its end from its speed; NaN: unknown, or it has ended. */
double ms_live_left_s(const ms_live_run *run);
/* {"runs": [{"dir": ..., "status": ..., "loss": [[step, loss], ...]}]}; NULL without memory. */
json_t *ms_live_json(const ms_live *live);

#endif
