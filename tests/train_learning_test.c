/* train_learning_test.c - runs that learn: every optimizer overfits one batch, QK-Clip bounds the
 * attention logits and changes nothing but q and k, and a gradient does not depend on the number of
 * micro-batches.
 *
 * The data is one text of as many bytes as a step has tokens, so every step sees the same batch. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/optimizers.h"
#include "scratch.h"
#include "train_rig.h"

enum { TOKENS = 64 };

static const char text[TOKENS + 1] =
    "the quick brown fox jumps over the lazy dog while bright vixens s";

/* ---- runs ------------------------------------------------------------------------------------ */

/* A directory whose training text is `text`. */
static const char *data_dir(void)
{
    static char dir[512];
    if (dir[0] == '\0') {
        snprintf(dir, sizeof dir, "%s", fresh_dir());
        put_file(path_in(dir, "train.txt"), text, TOKENS);
        put_file(path_in(dir, "val.txt"), text, TOKENS);
    }
    return dir;
}

/* One layer of 32 on the text; `settings`: "key=value ..." */
static ms_train_config configure(const char *optimizer, const char *settings)
{
    char            all[512];
    ms_train_config cfg;
    snprintf(all, sizeof all,
             "layers=1 width=32 heads=2 head=16 mlp=64 max_doc=64 val_every=0 val_tokens=64 "
             "cap=none cooldown=0.5 aux_lr=0.01 device=cpu batch=64 %s",
             settings);
    cfg = train_config("pico", optimizer, all);
    train_set(&cfg, "data", data_dir());
    return cfg;
}

/* Runs to the end and stays open, so that weights and gradients can be read. */
static ms_train *run(const ms_train_config *cfg, train_watch *out)
{
    *out                     = (train_watch){ .stop_after = -1 };
    const ms_summary summary = train_run_open(cfg, out, NULL, false);
    CHECK(strcmp(summary.status, "done") == 0, "%s: %s", summary.status, summary.reason);
    CHECK(out->lines == cfg->steps, "%d steps", out->lines);
    return out->train;
}

/* A parameter or gradient, in host memory; malloc'ed. */
static float *fetch(ms_train *t, ms_mat x)
{
    const size_t bytes = (size_t)(x.rows * x.cols) * sizeof(float);
    float       *out   = malloc(bytes);
    CHECK(out != NULL && x.dtype == MUSEC_F32 && x.ld == x.cols, "not dense float32");
    CHECK_OK(t->ctx, t->ctx->ops->download(t->ctx, x.data, bytes, out));
    return out;
}

/* |a - scale b| / |b| over all elements. */
static double distance(ms_train *s, ms_mat a, ms_train *t, ms_mat b, double scale)
{
    float *x = fetch(s, a), *y = fetch(t, b);
    double diff = 0.0, size = 0.0;
    for (int64_t i = 0; i < a.rows * a.cols; i++) {
        diff += pow(x[i] - scale * y[i], 2.0);
        size += pow(scale * y[i], 2.0);
    }
    free(x), free(y);
    return size > 0.0 ? sqrt(diff / size) : sqrt(diff);
}

/* ---- every optimizer learns ------------------------------------------------------------------ */

static const char *const rates[] = {
    [MS_FAMILY_CLIPPING]        = "0.3",
    [MS_FAMILY_ORTHOGONALIZING] = "0.03",
    [MS_FAMILY_GRADIENT]        = "0.3",
    [MS_FAMILY_SIGN_LIKE]       = "0.01",
};

static double final_loss(const char *optimizer, const char *settings)
{
    const ms_train_config cfg = configure(optimizer, settings);
    static train_watch    got;
    ms_train_close(run(&cfg, &got));
    return got.line[cfg.steps].loss;
}

TEST(every_optimizer_overfits_one_batch)
{
    const ms_optimizer *row;
    for (size_t i = 0; (row = ms_optimizer_at(i)) != NULL; i++) {
        char settings[64];
        /* on the ball weights that begin at zero stay there */
        snprintf(settings, sizeof settings, "steps=150 lr=%s%s", rates[row->family],
                 strcmp(row->name, "muonh") == 0 ? " init_out=0.5 init_down=0.5" : "");
        const double loss = final_loss(row->name, settings);
        CHECK(loss < 0.05, "%s: the loss ends at %g", row->name, loss);
    }
    /* Head and embedding, which have AdamW in every run, cannot do it alone. */
    const double loss = final_loss("sgdm", "steps=150 lr=0");
    CHECK(loss > 0.5, "without the matrices the loss ends at %g", loss);
}

/* The options change the update of a matrix. */
TEST(runs_with_other_options_overfit_one_batch)
{
    static const char *const cases[][2] = {
        { "soft-musec", "ns_mode=fast lr=0.3" },
        { "soft-musec", "ns_mode=accurate lr=0.3 threshold=rms:1" },
        { "spectra", "base=adamw clip=hard lr=0.01" },
        { "spectra", "base=signum lr=0.01" },
        { "muon", "nesterov=yes ns_coeffs=polar-express lr=0.03" },
        { "soft-musec", "ns_mode=fast lr=0.3 second_moment=rows" },
        { "spectra", "base=adamw function=polar ns_mode=paper second_moment=elements lr=0.03" },
        { "muon", "lr=0.03 shape_rule=moonlight weight_decay=0.1 decay_form=cautious" },
        { "soft-musec", "lr=0.3 qk_norm=no tied=yes head_gates=yes x0_mix=yes" },
        { "adamw", "lr=0.01 batch=32 micro_batches=2 mtp=1,0.5>1,0 attn_softcap=20 cap=tanh" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char settings[160];
        snprintf(settings, sizeof settings, "steps=150 %s", cases[i][1]);
        const double loss = final_loss(cases[i][0], settings);
        CHECK(loss < 0.1, "%s %s: the loss ends at %g", cases[i][0], settings, loss);
    }
}

/* ---- QK-Clip --------------------------------------------------------------------------------- */

#define HOT "qk_norm=no cooldown=0 lr=0.5 steps=30 "

/* Logits that start far above tau are near tau one step later, and stay there while the learning
 * rate drives them up; without the clip they only grow. */
TEST(qk_clip_brings_logits_back_to_tau)
{
    static const double tau = 20.0;
    static train_watch  plain, clipped;
    ms_train_config     cfg;

    cfg = configure("muon", HOT);
    ms_train_close(run(&cfg, &plain));
    CHECK(plain.line[30].max_logit > 10.0 * tau, "only %g", plain.line[30].max_logit);
    cfg = configure("muonclip", HOT "qk_tau=20");
    ms_train_close(run(&cfg, &clipped));
    for (int i = 0; i < 30; i++)
        CHECK(clipped.line[i + 1].max_logit < 1.7 * tau, "step %d: %g", i + 1,
              clipped.line[i + 1].max_logit);

    cfg = configure("muon", HOT "init_qkv=8 lr=0.02");
    ms_train_close(run(&cfg, &plain));
    cfg = configure("muonclip", HOT "init_qkv=8 lr=0.02 qk_tau=20");
    ms_train_close(run(&cfg, &clipped));
    CHECK(clipped.line[1].max_logit > 5.0 * tau, "starts with %g", clipped.line[1].max_logit);
    for (int i = 1; i < 30; i++) {
        CHECK(plain.line[i + 1].max_logit > 5.0 * tau, "step %d: %g", i + 1,
              plain.line[i + 1].max_logit);
        CHECK(clipped.line[i + 1].max_logit < 1.2 * tau, "step %d: %g", i + 1,
              clipped.line[i + 1].max_logit);
    }
}

/* Rows of head h of q or k must be those of `plain` times the factor. */
static void check_head(ms_train *clipped, ms_train *plain, size_t param, int64_t h, double factor)
{
    const ms_mat  a = ms_gpt_param(clipped->gpt, param)->weight;
    const ms_mat  b = ms_gpt_param(plain->gpt, param)->weight;
    const int64_t n = 16 * a.cols;
    float        *x = fetch(clipped, a), *y = fetch(plain, b);
    for (int64_t i = h * n; i < (h + 1) * n; i++)
        CHECK(factor == 1.0 ? x[i] == y[i]
                            : fabs(x[i] - factor * y[i]) <= 1e-6 * fabs((double)y[i]),
              "%s, head %lld: %.9g is not %.9g times %.9g", ms_gpt_param(plain->gpt, param)->name,
              (long long)h, x[i], factor, y[i]);
    free(x), free(y);
}

/* The last step with a larger logit than all before it. */
static int last_record(const train_watch *t)
{
    int    last = 0;
    double max  = t->line[1].max_logit;
    for (int i = 1; i < t->lines; i++)
        if (t->line[i + 1].max_logit > max) {
            max  = t->line[i + 1].max_logit;
            last = i;
        }
    CHECK(last > 3, "the logits stop growing at step %d", last + 1);
    return last;
}

/* tau lies below the largest logit of the last step and above those before.  Before that step
 * muonclip has the bits of muon, so both take the last step from the same state. */
TEST(qk_clip_changes_q_and_k_alone)
{
    static train_watch plain, clipped;
    ms_train_config    cfg = configure("muon", HOT);
    ms_train          *p, *c;
    char               tau[40];
    int                heads_clipped = 0;

    ms_train_close(run(&cfg, &plain));
    const int last = last_record(&plain);
    cfg.steps      = last + 1;
    p              = run(&cfg, &plain);
    double before  = 0.0;
    for (int i = 0; i < last; i++)
        before = fmax(before, plain.line[i + 1].max_logit);
    const double t = 0.5 * (before + plain.line[last + 1].max_logit);
    cfg            = configure("muonclip", HOT);
    cfg.steps      = last + 1;
    snprintf(tau, sizeof tau, "%.17g", t);
    train_set(&cfg, "qk_tau", tau);
    c = run(&cfg, &clipped);
    for (int i = 0; i <= last; i++)
        CHECK(clipped.line[i + 1].loss == plain.line[i + 1].loss &&
                  clipped.line[i + 1].max_logit == plain.line[i + 1].max_logit,
              "step %d differs before the clip", i + 1);
    for (size_t i = 0; i < ms_gpt_n_params(p->gpt); i++) {
        const ms_gpt_tensor *x = ms_gpt_param(c->gpt, i), *y = ms_gpt_param(p->gpt, i);
        const bool qk = strstr(x->name, "attn.q") != NULL || strstr(x->name, "attn.k") != NULL;
        if (!qk) {
            CHECK(distance(c, x->weight, p, y->weight, 1.0) == 0.0, "%s was touched", x->name);
            continue;
        }
        for (int64_t h = 0; h < 2; h++) {
            const double gamma = fmin(1.0, t / p->max_logit[h]);
            heads_clipped += gamma < 1.0;
            check_head(c, p, i, h, sqrt(gamma));
        }
    }
    CHECK(heads_clipped >= 2, "only %d heads of q and k were clipped", heads_clipped);
    ms_train_close(c);
    ms_train_close(p);
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* With documents of 16 tokens none lies in two of the four micro-batches. */
TEST(accumulated_gradients_are_those_of_the_whole_batch)
{
    static train_watch    one, four;
    const ms_train_config whole = configure("sgdm", "steps=1 max_doc=16 init_out=1 init_down=1");
    const ms_train_config parts =
        configure("sgdm", "steps=1 max_doc=16 init_out=1 init_down=1 micro_batches=4");
    ms_train *a = run(&whole, &one), *b = run(&parts, &four);

    CHECK(fabs(one.line[1].loss - four.line[1].loss) <= 1e-6, "losses %.9g, %.9g", one.line[1].loss,
          four.line[1].loss);
    CHECK(one.line[1].max_logit == four.line[1].max_logit, "%g, %g", one.line[1].max_logit,
          four.line[1].max_logit);
    CHECK(one.line[1].tokens == TOKENS && four.line[1].tokens == TOKENS, "not the same tokens");
    for (size_t i = 0; i < ms_gpt_n_params(a->gpt); i++) {
        const ms_gpt_tensor *x = ms_gpt_param(a->gpt, i), *y = ms_gpt_param(b->gpt, i);
        const double         err = distance(b, y->grad, a, x->grad, 1.0);
        CHECK(err <= 2e-6, "%s: gradients differ by %g", x->name, err);
        CHECK(distance(b, y->weight, a, x->weight, 1.0) <= 2e-6, "%s: weights differ", x->name);
    }
    ms_train_close(b);
    ms_train_close(a);
}

/* The gradient of sum8 is tokens / 8 times that of the mean; 64 / 8 is a power of two, so the ratio
 * is exact.  The norm of sgdm's first update in the log has the same ratio. */
TEST(gradient_reductions_differ_by_their_scale)
{
    static train_watch    sum, mean;
    const ms_train_config by_sum  = configure("sgdm", "steps=1 report_every=1 init_out=1"),
                          by_mean = configure("sgdm", "steps=1 report_every=1 init_out=1 "
                                                      "grad_reduction=mean");
    ms_train *a = run(&by_sum, &sum), *b = run(&by_mean, &mean);

    CHECK(sum.line[1].loss == mean.line[1].loss, "the loss is another: %g, %g", sum.line[1].loss,
          mean.line[1].loss);
    for (size_t i = 0; i < ms_gpt_n_params(a->gpt); i++) {
        const ms_gpt_tensor *x = ms_gpt_param(a->gpt, i), *y = ms_gpt_param(b->gpt, i);
        CHECK(distance(a, x->grad, b, y->grad, TOKENS / 8.0) == 0.0, "%s", x->name);
    }
    CHECK(sum.line[1].has_groups && mean.line[1].has_groups, "no report");
    for (int g = 0; g < MS_GROUPS; g++) {
        const double ratio = sum.line[1].groups[g].u_norm / mean.line[1].groups[g].u_norm;
        CHECK(fabs(ratio - TOKENS / 8.0) <= 1e-6, "group %d: updates differ by %g", g, ratio);
    }
    ms_train_close(b);
    ms_train_close(a);
}
