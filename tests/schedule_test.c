/* schedule_test.c - the schedule of each step, against the tables of the runs that the presets
 * reproduce, and invalid stages. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"
#include "train_rig.h"

static ms_schedule made(const ms_train_config *cfg)
{
    ms_schedule s;
    ms_error    e;
    CHECK_OK_ERR(&e, ms_schedule_make(&e, cfg, &s));
    return s;
}

/* ---- the tables of the reference runs -------------------------------------------------------- */

/* A row holds from step `first` to the next row's first: batch, windows in blocks of 128 tokens,
 * and the weights of the next tokens at its start and towards its end. */
typedef struct row {
    int64_t first, batch, doc, short_blocks, long_blocks;
    double  from[3], to[3];
} row;

static const row small_rows[] = {
    { 0, 131072, 896, 1, 3, { 1, 0.5, 0.25 }, { 1, 0.5, 0 } },
    { 460, 262144, 2048, 3, 7, { 1, 0.5 }, { 1, 0 } },
    { 920, 393216, 2048, 5, 11, { 1 }, { 1 } },
    { 1380, 393216, 2048, 6, 13, { 1 }, { 1 } }, /* the extension */
    { 1390, 0, 0, 0, 0, { 0 }, { 0 } },
};

static const row medium_rows[] = {
    { 0, 131072, 4096, 1, 3, { 1, 0.5, 0.25 }, { 1, 0.5, 0 } },
    { 392, 262144, 4096, 3, 7, { 1, 0.5 }, { 1, 0 } },
    { 784, 393216, 4096, 5, 11, { 1 }, { 1 } },
    { 1175, 524288, 4096, 6, 13, { 1 }, { 1 } },
    { 1567, 524288, 4096, 7, 15, { 1 }, { 1 } },
    { 1959, 524288, 4096, 8, 17, { 1 }, { 1 } },
    { 2350, 524288, 4096, 9, 19, { 1 }, { 1 } },
    { 2742, 524288, 4096, 10, 21, { 1 }, { 1 } },
    { 3134, 524288, 4096, 11, 23, { 1 }, { 1 } },
    { 4740, 0, 0, 0, 0, { 0 }, { 0 } },
};

static double small_lr(int64_t step)
{
    const double stage = step < 460 ? 1.0 : step < 920 ? 1.52 : 1.73;
    const double t     = (double)(step - 552) / 828.0;
    if (step < 552) return stage;
    return step >= 1380 ? 0.15 : stage * (1.0 - t) + 0.15 * t;
}

static double medium_lr(int64_t step)
{
    if (step < 1410) return step < 392 ? 1.0 : step < 784 ? 1.52 : step <= 1175 ? 1.73 : 2.0;
    return step >= 4700 ? 0.1 : 2.0 - 1.9 * (double)(step - 1410) / 3290.0;
}

/* The weight of the new gradient, 1 - mu. */
static double paper_beta(int64_t step, int64_t steps)
{
    const double up   = step < 300 ? (double)step / 300.0 : 1.0;
    const double down = steps - 1 - step < 50 ? (double)(steps - 1 - step) / 50.0 : 1.0;
    return 1.0 - (0.85 + 0.1 * fmin(up, down));
}

static void check_step(const char *name, const ms_step_plan *p, const row *r, int64_t step)
{
    const double along     = (double)(step - r->first) / (double)(r[1].first - r->first);
    const int    n_weights = r->from[2] > 0 ? 3 : r->from[1] > 0 ? 2 : 1;
    CHECK(p->stage->batch == r->batch && p->tokens == r->batch / 8, "%s, step %d: batch %d", name,
          (int)step, (int)p->stage->batch);
    CHECK(p->stage->max_doc == r->doc, "%s, step %d: documents of %d", name, (int)step,
          (int)p->stage->max_doc);
    CHECK(p->stage->window_short == 128 * r->short_blocks &&
              p->stage->window_long == 128 * r->long_blocks,
          "%s, step %d: windows %d/%d", name, (int)step, (int)p->stage->window_short,
          (int)p->stage->window_long);
    CHECK(p->n_weights == n_weights, "%s, step %d: %d weights", name, (int)step, p->n_weights);
    for (int k = 0; k < n_weights; k++) {
        const double want = r->from[k] + (r->to[k] - r->from[k]) * along;
        CHECK(fabs(p->weights[k] - want) <= 1e-12, "%s, step %d: weight %d is %g, not %g", name,
              (int)step, k, p->weights[k], want);
    }
}

static void check_table(const char *name, const row *rows, double (*lr)(int64_t step))
{
    const ms_train_config cfg   = train_config(name, "muon", "");
    const ms_schedule     s     = made(&cfg);
    int64_t               steps = 0;
    for (const row *r = rows; r->batch > 0; r++)
        for (; steps < r[1].first; steps++) {
            const ms_step_plan p = ms_schedule_at(&s, steps);
            check_step(name, &p, r, steps);
            CHECK(fabs(p.lr_scale - lr(steps)) <= 1e-12, "%s, step %d: lr %g, not %g", name,
                  (int)steps, p.lr_scale, lr(steps));
            CHECK(fabs(p.beta - paper_beta(steps, s.steps)) <= 1e-12,
                  "%s, step %d: beta %g, not %g", name, (int)steps, p.beta,
                  paper_beta(steps, s.steps));
        }
    CHECK(steps == s.steps && s.max_tokens == ms_schedule_at(&s, steps - 1).tokens, "%s: %d steps",
          name, (int)steps);
}

TEST(preset_small_has_the_schedule_of_its_table)
{
    const ms_train_config cfg = train_config("small", "muon", "");
    const ms_schedule     s   = made(&cfg);
    check_table("small", small_rows, small_lr);
    CHECK(fabs(ms_schedule_at(&s, 919).lr_scale - 0.913) <= 1.5e-3, "before the jump");
    CHECK(fabs(ms_schedule_at(&s, 920).lr_scale - 1.028) <= 5e-4, "after the jump");
    CHECK(s.scheduled == 1380 && s.n_stages == 4, "%d stages", s.n_stages);
}

TEST(preset_medium_has_the_schedule_of_its_table) { check_table("medium", medium_rows, medium_lr); }

/* It has 8000 steps and the extension, and changes at 667, 1334 and 2000. */
TEST(preset_wide_has_twice_the_batches_of_medium)
{
    static const int64_t  first[] = { 0, 667, 1334, 2000, 8040 };
    static const int64_t  batch[] = { 262144, 524288, 786432, 1048576 };
    const ms_train_config cfg     = train_config("wide", "muon", "");
    const ms_schedule     s       = made(&cfg);
    for (int r = 0; r < 4; r++)
        for (int64_t step = first[r]; step < first[r + 1]; step++)
            CHECK(ms_schedule_at(&s, step).stage->batch == batch[r], "step %d", (int)step);
    CHECK(ms_schedule_at(&s, 8039).lr_scale == 0.1 && s.max_tokens == 65536, "the end");
}

/* ---- stages ---------------------------------------------------------------------------------- */

static ms_train_config hundred_steps(const char *stages)
{
    ms_train_config cfg = train_config("pico", "muon", "");
    train_set(&cfg, "steps", "100");
    train_set(&cfg, "stages", stages);
    return cfg;
}

TEST(a_run_without_stages_has_one)
{
    ms_train_config cfg = hundred_steps("");
    for (int blank = 0; blank < 2; blank++) {
        const ms_schedule s = made(&cfg);
        CHECK(s.n_stages == 1 && s.stage[0].first == 0 && s.stage[0].end == 100, "stages");
        CHECK(s.max_tokens == cfg.batch && ms_schedule_at(&s, 99).stage->batch == cfg.batch,
              "batch");
        CHECK(ms_schedule_at(&s, 39).lr_scale == 1.0, "before the cooldown");
        CHECK(ms_schedule_at(&s, 40).lr_scale == 1.0, "its first step");
        CHECK(fabs(ms_schedule_at(&s, 70).lr_scale - 0.55) <= 1e-12, "half-way down");
        CHECK(ms_schedule_at(&s, 0).beta == cfg.optim.beta, "beta");
        train_set(&cfg, "stages", " \t ");
    }
    train_set(&cfg, "cooldown", "0");
    const ms_schedule flat = made(&cfg);
    CHECK(ms_schedule_at(&flat, 99).lr_scale == 1.0, "no cooldown");
    train_set(&cfg, "cooldown", "1");
    const ms_schedule all = made(&cfg);
    CHECK(ms_schedule_at(&all, 0).lr_scale == 1.0, "all of it");
    CHECK(fabs(ms_schedule_at(&all, 99).lr_scale - (0.01 + 0.1 * 0.99)) <= 1e-12, "to its end");
}

TEST(lengths_are_steps_shares_or_the_rest)
{
    static const struct {
        const char *stages;
        int         n;
        int64_t     end[4];
    } cases[] = {
        { "10; 20; rest", 3, { 10, 30, 100 } },
        { "10; 20", 2, { 10, 100 } }, /* the last one is extended */
        { "25%; 33.4%; 1e1;", 3, { 25, 58, 100 } },
        { "0; 10; 0%; rest", 2, { 10, 100 } }, /* of no steps */
        { "rest", 1, { 100 } },
        { "100; rest lr=3", 1, { 100 } },
        { "60; 60; 60", 2, { 60, 100 } }, /* cut, and not reached */
        { "100%", 1, { 100 } },
        { "\n 7\tlr=2 ;\n rest ; ", 2, { 7, 100 } },
    };
    for (size_t c = 0; c < COUNT(cases); c++) {
        const ms_train_config cfg = hundred_steps(cases[c].stages);
        const ms_schedule     s   = made(&cfg);
        CHECK(s.n_stages == cases[c].n, "\"%s\": %d stages", cases[c].stages, s.n_stages);
        for (int i = 0; i < s.n_stages; i++)
            CHECK(s.stage[i].end == cases[c].end[i] &&
                      s.stage[i].first == (i > 0 ? cases[c].end[i - 1] : 0),
                  "\"%s\": stage %d ends at %d", cases[c].stages, i + 1, (int)s.stage[i].end);
    }
}

/* Stages that are not reached neither run nor take memory. */
TEST(a_short_run_stays_in_early_stages)
{
    ms_train_config cfg = train_config("small", "muon", "");
    train_set(&cfg, "steps", "100");
    const ms_schedule s = made(&cfg);
    CHECK(s.n_stages == 1 && s.max_tokens == 131072 / 8, "%d stages", s.n_stages);
    for (int64_t step = 0; step < 100; step++)
        CHECK(ms_schedule_at(&s, step).stage->batch == 131072, "step %d", (int)step);
    CHECK(ms_schedule_at(&s, 99).lr_scale == 0.15 && ms_schedule_at(&s, 36).lr_scale == 1.0, "lr");
    train_set(&cfg, "steps", "11");
    CHECK(made(&cfg).scheduled == 1, "one step and the extension");
}

TEST(the_extension_is_the_last_stage)
{
    ms_train_config cfg = hundred_steps("50 lr=2; 40 lr=3; rest lr=4 window=1/2");
    train_set(&cfg, "extension", "10");
    const ms_schedule s = made(&cfg);
    CHECK(s.n_stages == 3 && ms_schedule_at(&s, 89).stage->window_long != 2, "before it");
    CHECK(ms_schedule_at(&s, 90).stage->window_long == 2, "in it");
    for (int64_t step = 90; step < 100; step++)
        CHECK(ms_schedule_at(&s, step).lr_scale == cfg.cooldown_to, "step %d", (int)step);
    /* stages beyond the scheduled steps are not reached, however long the extension is */
    cfg = hundred_steps("50 lr=2; rest lr=4 mtp=1,0>1,0.5");
    train_set(&cfg, "extension", "80");
    const ms_schedule early = made(&cfg);
    CHECK(early.n_stages == 1 && early.stage[0].end == 100, "%d stages", early.n_stages);
    /* but rounded shares do not shift the last one */
    cfg = hundred_steps("50%; 50%; rest");
    train_set(&cfg, "steps", "5"), train_set(&cfg, "extension", "2");
    const ms_schedule odd = made(&cfg);
    CHECK(odd.n_stages == 3 && odd.stage[1].end == 3 && odd.stage[2].first == 3, "rounded");
}

TEST(momentum_warms_up_and_cools_down)
{
    ms_train_config cfg = hundred_steps("");
    train_set(&cfg, "momentum-warmup", "20"), train_set(&cfg, "momentum-cooldown", "10");
    train_set(&cfg, "momentum-from", "0.25"), train_set(&cfg, "beta", "0.05");
    const ms_schedule s = made(&cfg);
    CHECK(ms_schedule_at(&s, 0).beta == 0.25 && ms_schedule_at(&s, 99).beta == 0.25, "the ends");
    CHECK(fabs(ms_schedule_at(&s, 10).beta - 0.15) <= 1e-12, "half-way up");
    CHECK(ms_schedule_at(&s, 20).beta == 0.05 && ms_schedule_at(&s, 89).beta == 0.05, "between");
    CHECK(fabs(ms_schedule_at(&s, 94).beta - 0.15) <= 1e-12, "half-way down");
    train_set(&cfg, "steps", "12"), train_set(&cfg, "momentum-cooldown", "12"); /* they overlap */
    const ms_schedule both = made(&cfg);
    for (int64_t step = 0; step < 12; step++) {
        const double beta = ms_schedule_at(&both, step).beta;
        CHECK(beta >= 0.05 && beta <= 0.25, "step %d: %g", (int)step, beta);
    }
    CHECK(ms_schedule_at(&both, 11).beta == 0.25, "the cooldown prevails");
}

/* ---- refusals -------------------------------------------------------------------------------- */

TEST(wrong_stages_are_refused_by_number)
{
    static const struct {
        const char *stages, *stage, *what;
    } bad[] = {
        { "ten", "stage 1", "ten" },
        { "10; -5", "stage 2", "-5" },
        { "10; 5.5", "stage 2", "5.5" },
        { "10; 101%", "stage 2", "101%" },
        { "10; 5%%", "stage 2", "5%%" },
        { "10; nan", "stage 2", "nan" },
        { "10; 1e10", "stage 2", "1e10" },
        { "10; ; rest", "stage 2", "empty" },
        { "10;;rest", "stage 2", "empty" },
        { "; 10", "stage 1", "empty" },
        { "0; 0; x", "stage 3", "\"x\"" }, /* stages of no steps are numbered */
        { "10 batch", "stage 1", "\"batch\"" },
        { "10 batch=", "stage 1", "\"batch=\"" },
        { "10 batch=-8", "stage 1", "batch=-8" },
        { "10 batch=1e3", "stage 1", "batch=1e3" },
        { "10 batch=99999999999999999999", "stage 1", "batch=999" },
        { "10 size=4", "stage 1", "size=4" },
        { "10; 10 doc=x", "stage 2", "doc=x" },
        { "10 window=5", "stage 1", "window=5" },
        { "10 window=5/", "stage 1", "window=5/" },
        { "10 window=5/6/7", "stage 1", "window=5/6/7" },
        { "10 lr=-1", "stage 1", "lr=-1" },
        { "10 lr=nan", "stage 1", "lr=nan" },
        { "10 mtp=0,1", "stage 1", "mtp=0,1" },
        { "10 mtp=1,", "stage 1", "mtp=1," },
        { "10 mtp=1>", "stage 1", "mtp=1>" },
        { "10 mtp=1,2>1", "stage 1", "mtp=1,2>1" },
        { "10 mtp=1>0", "stage 1", "mtp=1>0" },
        { "10 mtp=1>1>1", "stage 1", "mtp=1>1>1" },
        { "10 mtp=1,1,1,1,1,1,1,1,1", "stage 1", "mtp=1,1" },
        { "10; 10 batch=0", "stage 2", "batch 0" },
        { "0; 10 batch=100 micro=3", "stage 2", "micro-batches 3" },
        { "10 micro=0", "stage 1", "micro-batches 0" },
        { "10; 10; 10 doc=0", "stage 3", "document 0" },
        { "10 batch=134217728", "stage 1", "2^26" },
        { "rest; 10", "stage 2", "rest" },
        { "10; 200 size=4", "stage 2", "size=4" }, /* a stage that is reached in part */
        { "100; 10 size=4", "stage 2", "size=4" }, /* a stage that is not reached */
    };
    char many[256] = "";
    for (size_t i = 0; i < COUNT(bad); i++) {
        const ms_train_config cfg = hundred_steps(bad[i].stages);
        ms_schedule           s;
        ms_error              e = { "" };
        CHECK_FAILS(&e, ms_schedule_make(&e, &cfg, &s), MUSEC_EINVAL, bad[i].stage);
        CHECK(strstr(e.text, bad[i].what) != NULL, "\"%s\": \"%s\"", bad[i].stages, e.text);
    }
    for (int i = 0; i < MS_STAGES + 1; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), "1;");
    const ms_train_config cfg = hundred_steps(many);
    ms_schedule           s;
    ms_error              e = { "" };
    CHECK_FAILS(&e, ms_schedule_make(&e, &cfg, &s), MUSEC_EINVAL, "stage 33");
}

TEST(wrong_settings_are_refused)
{
    static const struct {
        const char *key, *value, *what;
    } bad[] = {
        { "extension", "100", "extension is 100" },
        { "extension", "1000", "extension is 1000" },
        { "mtp", "", "mtp is \"\"" },
        { "mtp", "0", "mtp is \"0\"" },
        { "mtp", "1;2", "mtp is \"1;2\"" },
        { "mtp", "1>1,1", "mtp is \"1>1,1\"" },
        { "micro-batches", "3", "micro-batches" },
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        ms_train_config cfg = hundred_steps("");
        ms_schedule     s;
        ms_error        e = { "" };
        train_set(&cfg, bad[i].key, bad[i].value);
        CHECK_FAILS(&e, ms_schedule_make(&e, &cfg, &s), MUSEC_EINVAL, bad[i].what);
    }
}

/* ---- random texts ---------------------------------------------------------------------------- */

/* Up to 13 of these words, each of which ends with '|'. */
static void random_text(char *text, size_t bytes, uint64_t *draw)
{
    static const char words[] =
        "10|33%|rest|0|; |;| |batch=|micro=|doc=|window=|lr=|mtp=|1|0.5|,|>|/|=|64|"
        "1e9|-1|nan|%|99999999|\t|8/16|1,0.5|x|\x80|; 5 lr=2|; 7% batch=64|"
        " mtp=1,0.5>1,0| window=3/4|";
    const int n = (int)(oracle_uniform(draw) * 14.0);
    text[0]     = '\0';
    for (int i = 0; i < n; i++) {
        const char *word = words;
        for (int skip = (int)(oracle_uniform(draw) * 34.0); skip > 0; skip--)
            word += strcspn(word, "|") + 1;
        snprintf(text + strlen(text), bytes - strlen(text), "%.*s", (int)strcspn(word, "|"), word);
    }
}

static void check_sound(const ms_schedule *s, const char *text)
{
    CHECK(s->n_stages >= 1 && s->n_stages <= MS_STAGES, "\"%s\"", text);
    CHECK(s->stage[0].first == 0 && s->stage[s->n_stages - 1].end == s->steps, "\"%s\"", text);
    for (int i = 1; i < s->n_stages; i++)
        CHECK(s->stage[i].first == s->stage[i - 1].end, "\"%s\": a gap", text);
    for (int64_t step = 0; step < s->steps; step++) {
        const ms_step_plan p = ms_schedule_at(s, step);
        CHECK(step >= p.stage->first && step < p.stage->end, "\"%s\": another stage", text);
        CHECK(p.tokens >= 1 && p.tokens <= s->max_tokens, "\"%s\": tokens", text);
        CHECK(p.lr_scale >= 0.0 && p.lr_scale < 1e9 && p.beta >= 0.0 && p.beta <= 1.0, "\"%s\"",
              text);
        CHECK(p.n_weights >= 1 && p.n_weights <= MS_XENT_TARGETS && p.weights[0] > 0.0, "\"%s\"",
              text);
    }
}

TEST(random_texts_make_sound_stages_or_are_refused)
{
    ms_train_config cfg  = hundred_steps("");
    uint64_t        draw = 20;
    int             good = 0;
    char            text[512];
    train_set(&cfg, "extension", "9");
    for (int i = 0; i < 20000; i++) {
        ms_schedule s;
        ms_error    e = { "" };
        random_text(text, sizeof text, &draw);
        snprintf(cfg.stages, sizeof cfg.stages, "%s", text);
        if (ms_schedule_make(&e, &cfg, &s) == MUSEC_OK) {
            good++;
            check_sound(&s, text);
        } else {
            CHECK(strstr(e.text, "stage ") != NULL, "\"%s\": \"%s\"", text, e.text);
        }
    }
    CHECK(good > 200, "%d texts were stages", good);
}

TEST(two_schedules_are_the_same_until_the_first_step_that_differs)
{
    static const struct {
        const char *key, *value;
        int64_t     first; /* 0-based step that differs, of 100 without a cooldown */
    } cases[] = {
        { "steps", "200", 100 },
        { "steps", "50", 50 },
        { "cooldown", "0.5", 51 }, /* at step 50 it has only begun */
        { "momentum-warmup", "10", 0 },
        { "momentum-cooldown", "10", 90 },
        { "stages", "25% lr=1; rest lr=1.5", 25 },
        { "stages", "30 batch=4096; rest window=1/2", 0 },
        { "stages", "30; rest window=1/2", 30 },
        { "stages", "40; rest mtp=1,0.5", 40 },
        { "stages", "45; rest micro=2", 45 },
        { "stages", "46; rest doc=100", 46 },
    };
    ms_train_config cfg = train_config("nano", "muon", "");

    train_set(&cfg, "steps", "100");
    train_set(&cfg, "cooldown", "0");
    const ms_schedule plain = made(&cfg);
    for (size_t c = 0; c < COUNT(cases); c++) {
        ms_train_config other = cfg;
        train_set(&other, cases[c].key, cases[c].value);
        const ms_schedule s     = made(&other);
        const int64_t     steps = plain.steps < s.steps ? plain.steps : s.steps;
        for (int64_t n = 0; n <= steps; n++)
            CHECK(ms_schedule_same(&plain, &s, n) == (n <= cases[c].first), "%s %s: %lld steps",
                  cases[c].key, cases[c].value, (long long)n);
    }
}
