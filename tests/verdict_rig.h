/* verdict_rig.h - a made-up set of runs, the world, in which every claim of the paper holds, and
 * the verdicts on it.
 *
 * The world has rates 0.01, 0.1, 0.2 and 0.5; Soft Musec at three thresholds, with K = 3, 5, 8 and
 * the exact and fast operator; Muon also at lr D.  No method's best rate is its smallest or
 * largest.  Losses are close to the bounds of the claims. */
#ifndef MS_TESTS_VERDICT_RIG_H
#define MS_TESTS_VERDICT_RIG_H

#include "fake_run.h"
#include "report/verdict.h"

enum { WORLD_RATES = 4 };
extern const double world_rates[WORLD_RATES];

enum { MOST_FAKES = 256, MOST_CLAIMS = 64 };

extern struct world {
    fake   at[MOST_FAKES];
    size_t n;
} w;
/* The findings of the last judge call. */
extern ms_finding findings[MOST_CLAIMS];
extern size_t     n_findings;

fake *world_add(const char *optimizer, double lr, double loss, const char *more);
void  world_make(void);
/* Adds every run again with further fields, Muon's losses from rate 0.2 on times `worse`. */
void world_repeat(const char *fields, double worse);
void fake_groups(fake *f, double qk, double vo, double mlp, double rank);

void judge_runs(const ms_compare *c, bool omit_times);
void judge_with(bool omit_times); /* the world */
void judge(void);

const ms_finding *find(const char *id);
void              expect(const char *id, ms_verdict want, const char *after);
void              check_words(const char *id, const char *words); /* the result contains them */

#endif
