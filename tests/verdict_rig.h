/* verdict_rig.h - a made-up world of runs in which every claim of the paper holds, and what its
 * judges say of it.
 *
 * The world: rates 0.01, 0.1, 0.2 and 0.5; Soft Musec at three thresholds, K = 3, 5, 8 and the
 * exact and fast operator; Muon also at lr D.  Losses are such that the margins of the bounds
 * show. */
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
/* What the last judgement found. */
extern ms_finding findings[MOST_CLAIMS];
extern size_t     n_findings;

fake *world_add(const char *optimizer, double lr, double loss, const char *more);
void  world_make(void);
/* The same runs again with other fields, Muon's losses from 0.2 on times `worse`. */
void world_repeat(const char *fields, double worse);
void fake_groups(fake *f, double qk, double vo, double mlp, double rank);

void judge_runs(const ms_compare *c, bool omit_times);
void judge_with(bool omit_times); /* the world */
void judge(void);

const ms_finding *find(const char *id);
void              expect(const char *id, ms_verdict want, const char *after);
void              check_words(const char *id, const char *words); /* they are in its result */

#endif
