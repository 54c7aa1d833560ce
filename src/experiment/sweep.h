/* sweep.h - the runs of a grid, several at once, each in its directory below one.
 *
 * A run whose summary says done, stalled or diverged is not made again; one that was interrupted
 * goes on; one whose process fails is told with the file that has its output, and the others go on.
 * A directory gets its config.json first and is then resumed, so there is one way for new and old
 * runs.  Two sweeps into the same directory share the work: a run that another process is making is
 * waited for, not made twice. */
#ifndef MS_EXPERIMENT_SWEEP_H
#define MS_EXPERIMENT_SWEEP_H

#include "core/log.h"
#include "train/grid.h"

enum { MS_SWEEP_THREADS = 4096 }; /* of a run, at most */

typedef enum ms_sweep_state {
    MS_SWEEP_WAITING,
    MS_SWEEP_RUNNING,
    MS_SWEEP_DONE,
    MS_SWEEP_STALLED,
    MS_SWEEP_DIVERGED,
    MS_SWEEP_INTERRUPTED,
    MS_SWEEP_FAILED,
    MS_SWEEP_STATES,
} ms_sweep_state;

typedef struct ms_sweep_run { /* of the grid's run with the same number */
    ms_sweep_state state;
    bool           was_there;              /* finished before this sweep */
    int64_t        steps;                  /* made */
    double         loss, val_loss, time_s; /* NaN: none yet */
    double         tok_s;                  /* while it runs */
} ms_sweep_run;

typedef struct ms_sweep {
    const ms_grid *grid;
    const char    *out; /* holds the run directories; made if need be */
    /* at once; 0: one on each GPU if all runs go to one, else as many as cores / threads.  With
     * devices: on each, 0: 1 */
    int                jobs;
    int                threads; /* of each; 0: 1 */
    const char *const *devices; /* in place of the configs'; NULL: those */
    size_t             n_devices;
    bool               keep_checkpoints; /* else those of runs that finish are removed */
    json_t            *known; /* data that were looked at, an object; NULL: each time anew */
    ms_log            *log;   /* on a terminal a table that is redrawn, elsewhere a line a run */
    double
        expected_s; /* of all of it, for the time left until there is more to go by; 0: unknown */
} ms_sweep;

/* Takes what was asked for, 0 jobs or more and 1 thread or more, or says what can be. */
musec_status ms_sweep_budget(ms_error *e, int64_t jobs, int64_t threads, ms_sweep *s);
/* Opens each set of data that runs to be made need, once: to be asked before any is started. */
musec_status ms_sweep_try_data(ms_error *e, const ms_sweep *s, const ms_sweep_run *runs);
/* Fills runs[grid->n].  Interrupted (signals.h): an error that says how to go on.  Failed
 * runs: an error that names the first and its output.  Stalled and diverged ones are
 * results. */
musec_status ms_sweep_run_all(ms_error *e, const ms_sweep *s, ms_sweep_run *runs);
int          ms_sweep_width(const ms_sweep *s);   /* runs at once */
const char  *ms_sweep_word(ms_sweep_state state); /* "done", "diverged", ... */

/* sweep_look.c: what the directories say.  One that holds another run, or a damaged one, is an
 * error. */
musec_status ms_sweep_look(ms_error *e, const ms_sweep *s, ms_sweep_run *runs);
musec_status ms_sweep_look_at(ms_error *e, const ms_sweep *s, size_t i, ms_sweep_run *run);
/* How far a run is that is being made, by the end of its log. */
void ms_sweep_follow(const ms_sweep *s, size_t i, ms_sweep_run *run);
bool ms_sweep_is_finished(const ms_sweep_run *run);

/* sweep_table.c: a row for each run, with the fields that vary among runs of one preset and
 * optimizer, and a line that counts them. */
musec_status ms_sweep_print(ms_error *e, const ms_sweep *s, const ms_sweep_run *runs, bool json,
                            FILE *to);
json_t      *ms_sweep_json(const ms_sweep *s, const ms_sweep_run *runs); /* NULL: no memory */
void         ms_sweep_count(const ms_sweep *s, const ms_sweep_run *runs, size_t n[MS_SWEEP_STATES]);

#endif
