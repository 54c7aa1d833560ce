/* verdict_rig.c - see verdict_rig.h. */
#include "verdict_rig.h"

#include <stdio.h>
#include <string.h>

#include "check.h"
#include "scratch.h"

const double world_rates[WORLD_RATES] = { 0.01, 0.1, 0.2, 0.5 };

struct world w;
ms_finding   findings[MOST_CLAIMS];
size_t       n_findings;

/* ---- the world ------------------------------------------------------------------------------- */

fake *world_add(const char *optimizer, double lr, double loss, const char *more)
{
    fake *f = &w.at[w.n++];
    CHECK(w.n <= MOST_FAKES, "the world is too small");
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

static void add_soft(void)
{
    static const double losses[]     = { 3.00, 2.90, 2.90, 2.95 };
    static const char  *thresholds[] = { "threshold=0.05", "threshold=0.5", "threshold=1" };
    for (size_t i = 0; i < WORLD_RATES; i++)
        for (size_t t = 0; t < COUNT(thresholds); t++) {
            const double worse = t == 1 ? 0.0 : t == 2 && world_rates[i] == 0.5 ? 0.1 : 0.01;
            fake *f = world_add("soft-musec", world_rates[i], losses[i] + worse, thresholds[t]);
            fake_groups(f, 4.0, 4.0, 6.0, 0.5);
            f->ms   = 10.1;
            f->late = t == 2 && world_rates[i] == 0.5 ? 0.2 : 0.0;
        }
    for (size_t i = 1; i < WORLD_RATES; i++) {
        world_add("soft-musec", world_rates[i], losses[i] + 0.03, "threshold=0.05 ns_iters=3");
        world_add("soft-musec", world_rates[i], losses[i] + 0.005, "threshold=0.05 ns_iters=8");
    }
    world_add("soft-musec", 0.003, 3.30, "threshold=0.5")->ms = 10.1; /* beyond its range */
    world_add("soft-musec", 1.5, 3.50, "threshold=0.5")->ms   = 10.1;
    world_add("soft-musec", 0.2, 2.89, "ns_mode=exact");
    world_add("soft-musec", 0.2, 2.91, "ns_mode=fast");
}

static void add_others(void)
{
    static const double muon[] = { 3.01, 3.05, 3.30, 3.40 }, clip[] = { 3.01, 3.04, 3.20, 3.60 };
    static const double spectra[] = { 3.01, 2.91, 2.91, 2.96 };
    for (size_t i = 0; i < WORLD_RATES; i++) {
        fake *f = world_add("spectra", world_rates[i], spectra[i], "");
        fake_groups(f, 5.0, 5.0, 7.0, 0.6);
        f           = world_add("muon", world_rates[i], muon[i], "");
        f->spike    = 0.3;
        f->recover  = 50.0;
        f->diverged = world_rates[i] == 0.5;
        fake_groups(f, 60.0, 60.0, 80.0, 0.95);
        f         = world_add("muonclip", world_rates[i], clip[i], "");
        f->wobble = 0.01;
        f->ms     = 10.2;
        fake_groups(f, 20.0, 58.0, 79.0, 0.95);
    }
    world_add("muon", 0.25, 3.60, "");
    world_add("muon", 0.003, 3.20, ""); /* so that no optimum is at an edge */
    world_add("muonclip", 0.003, 3.20, "")->ms = 10.2;
    for (int i = 0; i < 3; i++) {
        static const double rates[] = { 0.0003, 0.001, 0.003 };
        world_add("adam", rates[i], i == 1 ? 3.20 : 3.40, "");
        world_add("adamw", rates[i], i == 1 ? 3.18 : 3.40, "");
    }
}

void world_make(void)
{
    w.n = 0;
    add_soft();
    add_others();
}

void world_repeat(const char *fields, double worse)
{
    const size_t n = w.n;
    for (size_t i = 0; i < n; i++) {
        char  more[FAKE_SETTINGS / 2];
        fake *f = &w.at[w.n++];
        CHECK(w.n <= MOST_FAKES, "the world is too small");
        *f = w.at[i];
        snprintf(more, sizeof more, "%s", f->more);
        snprintf(f->more, sizeof f->more, "%s%s%s", more, more[0] != '\0' ? " " : "", fields);
        if (strcmp(f->optimizer, "muon") == 0 && f->lr >= 0.2) f->loss *= worse;
    }
}

/* ---- judging it ------------------------------------------------------------------------------ */

/* The directory of a run.  Worlds differ in a few runs, so each run is written only once. */
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

void judge_runs(const ms_compare *c, bool omit_times)
{
    ms_verdict_free(findings, n_findings);
    ms_error e = { "" };
    n_findings = ms_verdict_count();
    CHECK(n_findings <= MOST_CLAIMS, "%zu claims", n_findings);
    CHECK_OK_ERR(&e, ms_verdict_find(&e, c, omit_times, findings));
}

void judge_with(bool omit_times)
{
    ms_runset  set = { 0 };
    ms_compare c;
    ms_error   e = { "" };

    for (size_t i = 0; i < w.n; i++)
        if (!w.at[i].gone) CHECK_OK_ERR(&e, ms_runset_add(&e, &set, dir_of(&w.at[i])));
    CHECK_OK_ERR(&e, ms_compare_build(&e, &set, &c));
    judge_runs(&c, omit_times);
    fake_free(&set, &c);
}

void judge(void) { judge_with(false); }

const ms_finding *find(const char *id)
{
    for (size_t i = 0; i < n_findings; i++)
        if (strcmp(findings[i].id, id) == 0) return &findings[i];
    check_failed(__FILE__, __LINE__, "find", "there is no claim %s", id);
}

void expect(const char *id, ms_verdict want, const char *after)
{
    const ms_finding *f = find(id);
    CHECK(f->verdict == want, "%s %s%s: %s, wanted: %s", id, after, ms_verdict_word(f->verdict),
          f->result, ms_verdict_word(want));
    CHECK(strlen(f->result) > 0, "%s: no result", id);
}

void check_words(const char *id, const char *words)
{
    const ms_finding *f = find(id);
    CHECK(strstr(f->result, words) != NULL, "%s: \"%s\" is not in \"%s\"", id, words, f->result);
}
