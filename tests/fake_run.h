/* fake_run.h - run directories with made-up numbers, in the formats of docs/formats.md but not
 * written by the library, for tests of what reads runs.
 *
 * A fake has FAKE_STEPS steps; validates every fifth, measures its groups every tenth; from step
 * FAKE_CHANGE on its batch is doubled and its learning rate 1.52 times as high.  Its validation
 * loss falls linearly from 1.5 times the last one; after the change it is higher by `spike` times
 * the last one, which goes linearly to nothing in `recover` steps, and alternates by `wobble`
 * times it.  Its training loss falls linearly from FAKE_FIRST by 2, to 4; the unigram loss is
 * 5.5. */
#ifndef MS_TESTS_FAKE_RUN_H
#define MS_TESTS_FAKE_RUN_H

#include <stdbool.h>

#include "report/compare.h"

enum { FAKE_STEPS = 100, FAKE_CHANGE = 41, FAKE_SETTINGS = 200 };
#define FAKE_FIRST 6.0

typedef struct fake {
    const char *optimizer;
    double      lr;
    char        more[FAKE_SETTINGS]; /* further fields: "threshold=0.5 seed=1" */
    double      loss;                /* the last validation loss */
    bool        diverged;            /* by its summary; at step 60 */
    bool        idle; /* its training loss stays where it began: stalled, by its summary */
    bool        old;  /* its summary is of an older version: done, without a unigram loss */
    double      spike, recover, wobble;
    double      late;                       /* added to the validation at step 80, times loss */
    double      norm[MS_RUN_GROUPS];        /* 0: 3 */
    double      rank[MS_RUN_GROUPS];        /* of the smaller side; 0: 0.5 */
    double      sigma, share, ms;           /* 0: 2, 0.5, 10 */
    bool        no_groups, no_change, gone; /* gone: it is not written */
} fake;

/* Writes it as the next directory below `root`; returns that, valid until the next call. */
const char *fake_run(const char *root, const fake *f);
/* Writes a text as a file in the directory. */
void fake_text(const char *dir, const char *name, const char *text);
/* Writes config.json with these fields alone, as texts: "lr=0.1 steps=3". */
void fake_config(const char *dir, const char *fields);

/* Reads all runs below a directory and sorts them. */
void fake_read(const char *root, ms_runset *set, ms_compare *c);
void fake_free(ms_runset *set, ms_compare *c);

#endif
