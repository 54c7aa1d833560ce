/* verdict_rig.c - see verdict_rig.h. */
#include "verdict_rig.h"

#include <stdio.h>
#include <string.h>

#include "check.h"
#include "scratch.h"

const double world_rates[WORLD_RATES] = { 0.01, 0.1, 0.2, 0.5 };

/* ---- the world ------------------------------------------------------------------------------- */

fake *world_add(world *w, const char *optimizer, double lr, double loss, const char *more)
{
    fake *f = &w->at[w->n++];
    CHECK(w->n <= MOST_FAKES, "the world is too small");
    *f = (fake){ .optimizer = optimizer, .lr = lr, .loss = loss, .spike = 0.1, .recover = 10.0 };
    snprintf(f->more, sizeof f->more, "%s", more);
    return f;
}

void fake_groups(fake *f, double qk, double vo, double mlp, double rank)
{
    f->norm[MS_RUN_QK]  = qk;
    f->norm[MS_RUN_VO]  = vo;
    f->norm[MS_RUN_MLP] = mlp;
    for (int g = 0; g < MS_RUN_GROUPS; g++)
        f->rank[g] = rank;
}

static void add_soft(world *w)
{
    static const double losses[]     = { 3.00, 2.90, 2.90, 2.95 };
    static const char  *thresholds[] = { "threshold=0.05", "threshold=0.5", "threshold=1" };
    for (size_t i = 0; i < WORLD_RATES; i++)
        for (size_t t = 0; t < COUNT(thresholds); t++) {
            const double worse = t == 1 ? 0.0 : t == 2 && world_rates[i] == 0.5 ? 0.1 : 0.01;
            fake *f = world_add(w, "soft-musec", world_rates[i], losses[i] + worse, thresholds[t]);
            fake_groups(f, 4.0, 4.0, 6.0, 0.5);
            f->ms   = 10.1;
            f->late = t == 2 && world_rates[i] == 0.5 ? 0.2 : 0.0;
        }
    for (size_t i = 1; i < WORLD_RATES; i++) {
        world_add(w, "soft-musec", world_rates[i], losses[i] + 0.03, "threshold=0.05 ns_iters=3");
        world_add(w, "soft-musec", world_rates[i], losses[i] + 0.005, "threshold=0.05 ns_iters=8");
    }
    world_add(w, "soft-musec", 0.2, 2.89, "ns_mode=exact");
    world_add(w, "soft-musec", 0.2, 2.91, "ns_mode=fast");
}

static void add_others(world *w)
{
    static const double muon[] = { 3.01, 3.05, 3.30, 3.40 }, clip[] = { 3.01, 3.04, 3.20, 3.60 };
    static const double spectra[] = { 3.01, 2.91, 2.91, 2.96 };
    for (size_t i = 0; i < WORLD_RATES; i++) {
        fake *f = world_add(w, "spectra", world_rates[i], spectra[i], "");
        fake_groups(f, 5.0, 5.0, 7.0, 0.6);
        f           = world_add(w, "muon", world_rates[i], muon[i], "");
        f->spike    = 0.3;
        f->recover  = 50.0;
        f->diverged = world_rates[i] == 0.5;
        fake_groups(f, 60.0, 60.0, 80.0, 0.95);
        f         = world_add(w, "muonclip", world_rates[i], clip[i], "");
        f->wobble = 0.01;
        f->ms     = 10.2;
        fake_groups(f, 20.0, 58.0, 79.0, 0.95);
    }
    world_add(w, "muon", 0.25, 3.60, "");
    world_add(w, "adam", 0.001, 3.20, "");
    world_add(w, "adamw", 0.001, 3.18, "");
}

void world_make(world *w)
{
    w->n = 0;
    add_soft(w);
    add_others(w);
}

void world_repeat(world *w, const char *fields, double worse)
{
    const size_t n = w->n;
    for (size_t i = 0; i < n; i++) {
        char  more[FAKE_SETTINGS / 2];
        fake *f = &w->at[w->n++];
        CHECK(w->n <= MOST_FAKES, "the world is too small");
        *f = w->at[i];
        snprintf(more, sizeof more, "%s", f->more);
        snprintf(f->more, sizeof f->more, "%s%s%s", more, more[0] != '\0' ? " " : "", fields);
        if (strcmp(f->optimizer, "muon") == 0 && f->lr >= 0.2) f->loss *= worse;
    }
}

/* ---- judging it ------------------------------------------------------------------------------ */

/* Worlds differ in a few runs: each run is written once. */
static const char *dir_of(const fake *f)
{
    static struct {
        fake made;
        char dir[512];
    } cache[1024];
    static char   root[256] = "";
    static size_t n         = 0;

    for (size_t i = 0; i < n; i++)
        if (memcmp(&cache[i].made, f, sizeof *f) == 0) return cache[i].dir;
    CHECK(n < COUNT(cache), "too many runs");
    if (n == 0) snprintf(root, sizeof root, "%s", fresh_dir());
    cache[n].made = *f;
    snprintf(cache[n].dir, sizeof cache[n].dir, "%s", fake_run(root, f));
    return cache[n++].dir;
}

size_t find_all(const ms_compare *c, bool omit_times, ms_finding findings[MOST_CLAIMS])
{
    static ms_finding last[MOST_CLAIMS];
    static size_t     n_last = 0;

    ms_verdict_free(last, n_last);
    n_last = c != NULL ? ms_verdict_find(c, omit_times, NULL) : 0;
    CHECK(n_last <= MOST_CLAIMS, "%zu claims", n_last);
    if (c == NULL) return 0;
    CHECK(ms_verdict_find(c, omit_times, last) == n_last, "another number of claims");
    memcpy(findings, last, sizeof last);
    return n_last;
}

size_t judge_with(const world *w, bool omit_times, ms_finding findings[MOST_CLAIMS])
{
    ms_runset  set = { 0 };
    ms_compare c;
    ms_error   e = { "" };
    size_t     n;

    for (size_t i = 0; i < w->n; i++)
        if (!w->at[i].gone) CHECK_OK_ERR(&e, ms_runset_add(&e, &set, dir_of(&w->at[i])));
    CHECK_OK_ERR(&e, ms_compare_build(&e, &set, &c));
    n = find_all(&c, omit_times, findings);
    fake_free(&set, &c);
    return n;
}

size_t judge(const world *w, ms_finding findings[MOST_CLAIMS])
{
    return judge_with(w, false, findings);
}

const ms_finding *find(const ms_finding *findings, size_t n, const char *id)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(findings[i].id, id) == 0) return &findings[i];
    check_failed(__FILE__, __LINE__, "find", "there is no claim %s", id);
}

void expect(const ms_finding *f, ms_verdict want, const char *after)
{
    CHECK(f->verdict == want, "%s %s%s: %s, wanted: %s", f->id, after, ms_verdict_word(f->verdict),
          f->result, ms_verdict_word(want));
    CHECK(strlen(f->result) > 0, "%s: no result", f->id);
}

void check_words(const ms_finding *f, const char *words)
{
    CHECK(strstr(f->result, words) != NULL, "%s: \"%s\" is not in \"%s\"", f->id, words, f->result);
}
