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

typedef struct world {
    fake   at[MOST_FAKES];
    size_t n;
} world;

fake *world_add(world *w, const char *optimizer, double lr, double loss, const char *more);
void  world_make(world *w);
/* The same runs again with other fields, Muon's losses from 0.2 on times `worse`. */
void world_repeat(world *w, const char *fields, double worse);
void fake_groups(fake *f, double qk, double vo, double mlp, double rank);

/* Findings hold until the next are made; c NULL: none are made. */
size_t find_all(const ms_compare *c, bool omit_times, ms_finding findings[MOST_CLAIMS]);
size_t judge_with(const world *w, bool omit_times, ms_finding findings[MOST_CLAIMS]);
size_t judge(const world *w, ms_finding findings[MOST_CLAIMS]);

const ms_finding *find(const ms_finding *findings, size_t n, const char *id);
void              expect(const ms_finding *f, ms_verdict want, const char *after);
void              check_words(const ms_finding *f, const char *words); /* they are in its result */

#endif
