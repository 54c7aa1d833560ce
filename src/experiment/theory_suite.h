/* theory_suite.h - the runs behind the figures of musec paper theory, as experiments/theory.json
 * asks for them.  Each setting with all its seeds is one process and one file.
 *
 *   "extents": {"quick": {"seeds": 2, "steps": [500, 1000]}, "reduced": ..., "full": ...}
 *   "suites": {"polar": {"problems": ["kinks"], "sigma": [0], "rank": [4, 8],
 *      "steps": {"quick": [500], ...},
 *      "methods": [{"label": "...", "optimizer": "muon", "set": ["ns-mode=exact"], "beta": 0.5}]}}
 *   "page": {"polar": {"title", "shows", "words", "figures", "slopes"}}
 *
 * All combinations of a suite are run; suites that ask for the same setting share it.  Without
 * "rank" a problem has its own shape, without "steps" those of the extent apply.  "page" has a
 * section for each suite: its figures, whose panels are the problems or, with "panels": "fields",
 * the fields, and the caption of the table of slopes.  "takes" and "takes_in_full" tell musec paper
 * list how long all of it is. */
#ifndef MS_EXPERIMENT_THEORY_SUITE_H
#define MS_EXPERIMENT_THEORY_SUITE_H

#include "experiment/paper.h"

enum { MS_THEORY_NAME = 256 };

typedef struct ms_theory_point {           /* texts point into the item's file */
    const char   *suite, *problem, *label; /* label: the method's */
    const json_t *method;
    double        sigma;
    int64_t       rank; /* 0: the problem's own shape */
    int64_t       steps;
    char          name[MS_THEORY_NAME]; /* of its file */
    json_t       *result;               /* what musec theory run wrote; NULL: not made yet */
} ms_theory_point;

typedef struct ms_theory_suites { /* { 0 } is empty */
    ms_theory_point *at;
    size_t           n, capacity;
    int64_t          seeds;
    char             store[MS_PATH_MAX]; /* OUT/theory */
} ms_theory_suites;

/* Reads all settings, with the results that exist. */
musec_status ms_theory_suites_read(ms_error *e, const ms_paper *p, const ms_experiment *item,
                                   ms_theory_suites *out);
/* Makes the results that are missing, several at once. */
musec_status ms_theory_suites_make(ms_error *e, ms_paper *p, ms_theory_suites *s);
size_t       ms_theory_suites_missing(const ms_theory_suites *s); /* the number of files to make */
size_t       ms_theory_suites_files(const ms_theory_suites *s);
void         ms_theory_suites_free(ms_theory_suites *s);

#endif
