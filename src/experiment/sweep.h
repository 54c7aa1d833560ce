/* sweep.h - the runs of a grid, several at once, each in its directory below one.
 *
 * A run whose summary says done, stalled or diverged is not made again; an interrupted one is
 * resumed.  If the process of a run fails, the message names the file with its output and the other
 * runs continue.  A directory gets its config.json first and is then resumed, so there is one way
 * for new and old runs.  Two sweeps into the same directory share the work: a run that another
 * process is making is waited for, not made twice. */
#ifndef MS_EXPERIMENT_SWEEP_H
#define MS_EXPERIMENT_SWEEP_H

#include "core/log.h"
#include "train/grid.h"

enum { MS_SWEEP_THREADS = 4096 /* the most that a run may have */ };

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

typedef struct ms_sweep_run { /* state of the grid's run with the same index */
    ms_sweep_state state;
    bool           was_there;              /* it was finished before this sweep */
    int64_t        steps;                  /* steps made so far */
    double         loss, val_loss, time_s; /* NaN if there is none yet */
    double         tok_s;                  /* tokens per second while it runs */
} ms_sweep_run;

typedef struct ms_sweep {
    const ms_grid *grid;
    const char *out; /* directory that holds the run directories; it is created if it is missing */
    /* Runs at once; 0 means one per GPU if all runs go to GPUs, else cores / threads.  With
     * `devices` it is the number on each device, where 0 means 1. */
    int                jobs;
    int                threads; /* CPU threads of each run; 0 means 1 */
    const char *const *devices; /* replace the devices of the configs; NULL keeps them */
    size_t             n_devices;
    json_t            *known; /* cache of the data sets that were read, an object; NULL for none */
    ms_log            *log;   /* shows a table on a terminal, otherwise a line per run */
    double expected_s;        /* estimate of the whole sweep until a run has ended; 0: unknown */
    double limit_s; /* no run starts that would end later than this by its estimate; 0: none */
} ms_sweep;

/* Checks and sets the number of jobs (0 or more), of threads (1 or more), and the limit of time (0:
 * none). */
musec_status ms_sweep_budget(ms_error *e, int64_t jobs, int64_t threads, double minutes,
                             ms_sweep *s);
/* Which checkpoints the runs of a grid write, unless their configs say so themselves: all, none, or
 * those of unfinished runs alone, which are removed at the end. */
void ms_sweep_checkpoints(ms_grid *grid, ms_checkpoints which);
/* Opens each data set that unfinished runs need once, to be called before any run is started. */
musec_status ms_sweep_try_data(ms_error *e, const ms_sweep *s, const ms_sweep_run *runs);
/* Makes the runs and fills runs[grid->n].  It is an error if the sweep was interrupted (signals.h)
 * or runs failed; stalled and diverged runs are results. */
musec_status ms_sweep_run_all(ms_error *e, const ms_sweep *s, ms_sweep_run *runs);
int          ms_sweep_width(const ms_sweep *s);         /* the number of runs at once */
const char  *ms_sweep_state_name(ms_sweep_state state); /* "done", "diverged", ... */

/* sweep_scan.c: reads the state of runs from their directories.  A directory that holds another
 * run, or a damaged one, is an error. */
musec_status ms_sweep_scan(ms_error *e, const ms_sweep *s, ms_sweep_run *runs);
musec_status ms_sweep_scan_run(ms_error *e, const ms_sweep *s, size_t i, ms_sweep_run *run);
/* Updates the progress of a run in the making from the end of its log. */
void ms_sweep_follow(const ms_sweep *s, size_t i, ms_sweep_run *run);
bool ms_sweep_is_finished(const ms_sweep_run *run);

/* sweep_time.c: what time runs take, by those of this sweep that have ended. */
typedef struct ms_sweep_clock ms_sweep_clock;
musec_status ms_sweep_clock_open(ms_error *e, const ms_grid *grid, ms_sweep_clock **out);
void         ms_sweep_clock_close(ms_sweep_clock *c);
/* Run i has begun, or has ended, at this time in seconds; after a failure it does not count. */
void ms_sweep_clock_begin(ms_sweep_clock *c, size_t i, double now);
void ms_sweep_clock_end(ms_sweep_clock *c, size_t i, double now, bool counts);
/* Seconds that run i takes from begin to end, or NaN as long as no run has ended. */
double ms_sweep_clock_expect(const ms_sweep_clock *c, size_t i);
/* Seconds until all have ended, `width` at once, of which some are running and have made steps. */
double ms_sweep_clock_left(const ms_sweep_clock *c, const ms_sweep_run *runs, int width,
                           double now);

/* sweep_table.c: a row for each run, with the fields that vary among runs of one preset and
 * optimizer, and a line that counts them. */
musec_status ms_sweep_print(ms_error *e, const ms_sweep *s, const ms_sweep_run *runs, bool json,
                            FILE *to);
json_t      *ms_sweep_json(const ms_sweep *s, const ms_sweep_run *runs); /* NULL without memory */
void         ms_sweep_count(const ms_sweep *s, const ms_sweep_run *runs, size_t n[MS_SWEEP_STATES]);

#endif
