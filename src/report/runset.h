/* runset.h - finished and unfinished runs, read from their directories.
 *
 * A run directory holds config.json and log.jsonl, and summary.json once the run has ended
 * (docs/formats.md).  If the last line is truncated, as by a killed process, it is left out with a
 * note; any other line that cannot be read is an error that names it.  For a run that was requested
 * by its path, the error is returned; a run found below a directory is left out with a note. */
#ifndef MS_REPORT_RUNSET_H
#define MS_REPORT_RUNSET_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"

enum { MS_RUN_QK, MS_RUN_VO, MS_RUN_MLP, MS_RUN_GROUPS };

typedef struct ms_run_group { /* NaN: not measured; defined in docs/formats.md */
    double w_norm, u_norm, u_rms, u_erank, u_gain, sigma1_over_d, share_above;
} ms_run_group;

typedef struct ms_run_field { /* a double in a struct */
    const char *name;
    size_t      offset;
} ms_run_field;
extern const char *const  ms_run_group_names[MS_RUN_GROUPS]; /* "qk", "vo", "mlp" */
extern const ms_run_field ms_run_group_fields[];             /* a row with name NULL ends */
extern const ms_run_field ms_run_line_fields[];              /* those by step, ended alike */

typedef struct ms_run_line { /* missing numbers are NaN */
    int64_t      step;
    double       tokens, loss, val_loss, lr, tok_s, max_logit;
    double       ms_data, ms_model, ms_optim, ms_rest;
    bool         has_val, has_groups; /* val_loss may be NaN all the same */
    ms_run_group groups[MS_RUN_GROUPS];
} ms_run_line;

/* core/outcome.h defines stalled and diverged.  Runs of versions that did not record them are
 * judged by their log when they are read. */
typedef enum ms_run_status {
    MS_RUN_UNFINISHED,
    MS_RUN_DONE,
    MS_RUN_STALLED,
    MS_RUN_DIVERGED
} ms_run_status;

typedef struct ms_run {
    char         *dir;           /* as found */
    json_t       *config;        /* with "resumed": options that changed when it was resumed */
    const char   *optimizer;     /* this and the next two are from the config */
    double        lr, threshold; /* threshold NaN where it is a rule such as rms:2 */
    ms_run_status status;        /* no summary, interrupted, nothing validated: unfinished */
    char         *reason;        /* why it stalled or diverged, or NULL */
    json_t       *log;           /* what its summary says of its log; NULL: nothing */
    double        unigram_loss;  /* of its training data; NaN: unknown */
    bool          learned;       /* more than the frequencies of tokens (core/outcome.h) */
    json_t       *computed;      /* from the summary: values in place of `auto`; NULL: unknown */
    json_t       *made;          /* from the summary: version, machine, date; NULL: unknown */
    char         *data_sums;     /* beginnings of the data's SHA-256 sums; NULL: unknown */
    ms_run_line  *lines;
    size_t        n, capacity;
    double        val_loss;      /* the last one measured; NaN: none, or diverged */
    int64_t       steps;         /* asked for */
    uint64_t      device, inode; /* of the directory: they identify the run */
} ms_run;

typedef struct ms_runset { /* { 0 } is empty */
    ms_run *at;            /* in the order of their directories' names */
    size_t  n, capacity;
    char  **notes; /* for the reader: truncated lines, runs left out */
    size_t  n_notes, notes_room;
} ms_runset;

/* Adds the run in `path`, or all runs in the directories below it (four levels at most).  No run in
 * it is an error; one that was added before (the same directory) is not added again. */
musec_status ms_runset_add(ms_error *e, ms_runset *set, const char *path);
musec_status ms_runset_note(ms_error *e, ms_runset *set, const char *fmt, ...) MS_PRINTF(3, 4);
void         ms_runset_free(ms_runset *set);

/* run_outcome.c.  Finds from the log whether the run has learned something and, if it was not
 * judged when it ended, how it ended. */
musec_status ms_run_judge(ms_error *e, ms_run *run, bool judged);
const char  *ms_run_status_word(ms_run_status status); /* "stalled" */

/* The text of a config's field (underscores), "" if it has none or leaves it to the program. */
const char *ms_run_text(const ms_run *run, const char *field);
double      ms_run_number(const ms_run *run, const char *field); /* NaN if it is none */
/* Counts the parameters of the model's matrices: four projections of the attention and two of the
 * MLP in each layer. */
double ms_run_parameters(const ms_run *run);

/* The kind of its device, "cuda", and the dtype of its activations, "bf16"; "" if neither the
 * summary nor the config has it. */
enum { MS_RUN_KIND = 16 };
void        ms_run_device(const ms_run *run, char kind[MS_RUN_KIND]);
const char *ms_run_precision(const ms_run *run);

/* The last line with group statistics, or NULL. */
const ms_run_line *ms_run_last_groups(const ms_run *run);
/* The first step of the run's second stage, at which the tokens of a step grow or the learning rate
 * rises.  0: there is none.  (The rate of a run without stages rises too, when it is extended.) */
int64_t ms_run_stage_change(const ms_run *run);
/* The size of the applied updates: means over measured lines and groups of lr, times the group's
 * factor, times the update's norm (the largest of the group's matrices) and RMS. */
void ms_run_applied(const ms_run *run, double *norm, double *rms);
/* Median over the steps, without the first, of the wall time in ms of a step that neither
 * validated nor measured, and of its optimizer's part.  False: there is no memory. */
bool ms_run_step_ms(const ms_run *run, double *step, double *optim);

void   ms_sort_numbers(double *values, size_t n); /* ascending; none is NaN */
double ms_median(double *values, size_t n);       /* sorts them; NaN if there are none */

#endif
