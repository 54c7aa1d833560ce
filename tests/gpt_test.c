/* gpt_test.c - the GPT compared with itself: gradients with finite differences, devices with each
 * other, logits with losses; and the reach of tokens within documents and windows.
 *
 * Finite differences are in float64 on `ref`.  Along a direction v the objective's slope is
 *     (L(w + h v) - L(w - h v)) / 2h = L' + h^2 L''' / 6 + rounding / h,
 * with rounding about 1e-14 for an objective near 100.  relu2 has a second derivative that jumps:
 * where a pre-activation changes its sign within the step, the middle term is of the order h and
 * not h^2.  That is rare for small h (few elements lie within h of 0) and certain for large ones,
 * and which h is small enough depends on the direction.  So several h are tried and the closest
 * counts: a right gradient agrees at one of them, a wrong one at none, as their limit is L'.
 * Random directions depend on every element of a tensor; single elements show that none is in the
 * place of another. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clip_run.h"
#include "gpt_rig.h"
#include "model/layout.h"
#include "oracle.h"

/* ---- finite differences ---------------------------------------------------------------------- */

typedef struct slope_case {
    gpt_rig             *r;
    const gpt_stream    *s;
    const ms_gpt_pass   *pass;
    const ms_gpt_tensor *p;
    int64_t              n;
    double              *weight, *grad, *moved; /* (n) */
} slope_case;

static slope_case slope_case_make(gpt_rig *r, const gpt_stream *s, const ms_gpt_pass *pass,
                                  size_t p)
{
    const ms_gpt_tensor *t = ms_gpt_param(r->g, p);
    return (slope_case){ .r      = r,
                         .s      = s,
                         .pass   = pass,
                         .p      = t,
                         .n      = gpt_rig_elems(r, p),
                         .weight = gpt_rig_read(r, t->weight),
                         .grad   = gpt_rig_read(r, t->grad),
                         .moved  = gpt_rig_read(r, t->weight) };
}

static void slope_case_free(slope_case *c) { free(c->weight), free(c->grad), free(c->moved); }

static double objective_at(slope_case *c, double h, const double *v)
{
    for (int64_t i = 0; i < c->n; i++)
        c->moved[i] = c->weight[i] + h * v[i];
    gpt_rig_write(c->r, c->p->weight, c->moved);
    return c->pass->grad_scale * gpt_rig_loss(c->r, c->s, c->pass, NULL);
}

/* Error of the gradient along v, against the slope or, where v is nearly level, against the slope
 * that a direction of its length typically has. */
static double slope_error(slope_case *c, const double *v)
{
    static const double steps[] = { 1e-5, 1e-4, 3e-6, 1e-3 };
    double              dot = 0.0, gg = 0.0, vv = 0.0, least = INFINITY;
    for (int64_t i = 0; i < c->n; i++) {
        dot += c->grad[i] * v[i];
        gg += c->grad[i] * c->grad[i];
        vv += v[i] * v[i];
    }
    const double scale = fmax(fabs(dot), sqrt(gg * vv / (double)c->n));
    for (size_t k = 0; k < COUNT(steps) && !(least <= 1e-7); k++) {
        const double h     = steps[k];
        const double slope = (objective_at(c, h, v) - objective_at(c, -h, v)) / (2.0 * h);
        /* of a parameter that nothing reads both are 0 */
        least = fmin(least, slope == dot ? 0.0 : fabs(slope - dot) / scale);
    }
    gpt_rig_write(c->r, c->p->weight, c->weight);
    return least;
}

static double tensor_error(slope_case *c, const char *config, uint64_t seed)
{
    enum { DIRECTIONS = 2, ELEMENTS = 4 };
    double worst = 0.0;
    for (uint64_t k = 0; k < DIRECTIONS + ELEMENTS; k++) {
        double       *v     = oracle_gaussian(c->n, 1, seed + k);
        uint64_t      state = seed + k;
        const int64_t one   = (int64_t)(oracle_uniform(&state) * (double)c->n);
        for (int64_t i = 0; k >= DIRECTIONS && i < c->n; i++)
            v[i] = i == one ? 1.0 : 0.0;
        const double err = slope_error(c, v);
        CHECK(err <= 1e-6, "%s: %s, direction %d: relative error %.2g", config, c->p->name, (int)k,
              err);
        worst = fmax(worst, err);
        free(v);
    }
    return worst;
}

static void check_slopes(const char *config, const ms_gpt_config *cfg, const ms_gpt_pass *pass)
{
    enum { TOKENS = 29, ROOM = 4 };
    ms_device *ref   = check_open("ref");
    gpt_rig    r     = gpt_rig_make(ref, cfg, MUSEC_F64, TOKENS + ROOM);
    gpt_stream s     = gpt_stream_make(cfg, TOKENS, 4, 11);
    double     worst = 0.0;
    gpt_rig_run(&r, &s, TOKENS, pass);
    CHECK_OK(ref, ms_gpt_take(r.g, &(ms_gpt_result){ 0 }, NULL));
    for (size_t p = 0; p < ms_gpt_n_params(r.g); p++) {
        slope_case c = slope_case_make(&r, &s, pass, p);
        worst        = fmax(worst, tensor_error(&c, config, 100 * p));
        slope_case_free(&c);
    }
    print_message("%s: %zu tensors, largest relative error %.1e\n", config, ms_gpt_n_params(r.g),
                  worst);
    gpt_stream_free(&s);
    gpt_rig_free(&r);
    musec_ctx_destroy(ref);
}

TEST(gradients_match_finite_differences)
{
    ms_gpt_config other = gpt_full;
    check_slopes("everything on", &gpt_full, &gpt_full_pass);
    check_slopes("plain", &gpt_plain, &gpt_plain_pass);
    other.tied = 0, other.cap = MS_CAP_NONE, other.rope_adjacent = 0, other.rope_share = 0.0;
    check_slopes("untied, no cap, no positions", &other, &gpt_full_pass);
    other            = gpt_plain;
    other.activation = MS_ACTIVATION_GELU;
    check_slopes("gelu", &other, &gpt_plain_pass);
}

/* Each part of the paper's models alone, and all at once. */
TEST(gradients_of_parts_match_finite_differences)
{
    ms_gpt_config cfg  = gpt_plain;
    ms_gpt_pass   pass = gpt_plain_pass;
    cfg.layers = 3, cfg.long_layers = 6, cfg.gate_width = 5;
    ms_gpt_config base = cfg;
    cfg.smear          = 1;
    check_slopes("smear", &cfg, &pass);
    cfg = base, cfg.x0_mix = cfg.embed2 = 1;
    check_slopes("second embedding", &cfg, &pass);
    cfg = base, cfg.skip_from[1] = 1, cfg.skip_from[2] = 1;
    check_slopes("skips", &cfg, &pass);
    cfg = base, cfg.backout = 2;
    check_slopes("backout", &cfg, &pass);
    cfg = base, cfg.attn_scales = 1;
    check_slopes("scales of attention", &cfg, &pass);
    cfg = base, cfg.value_table[0] = 2, cfg.value_table[1] = 1, cfg.value_table[2] = 2;
    check_slopes("value tables", &cfg, &pass);
    cfg = base, cfg.key_offset = 1, cfg.rope_share = 0.5;
    check_slopes("key offset", &cfg, &pass);
    cfg.rope_adjacent = 1;
    check_slopes("key offset, adjacent pairs", &cfg, &pass);
    pass.n_windows = 3, pass.windows[0] = 2, pass.windows[1] = 4, pass.windows[2] = 6;
    check_slopes("YaRN", &base, &pass);
    check_slopes("everything", &gpt_parts, &gpt_parts_pass);
}

TEST(gradients_of_parts_of_small_match_finite_differences)
{
    ms_gpt_config cfg = gpt_plain, base;
    cfg.layers = 3, cfg.gate_width = 4, cfg.heads = 4, cfg.head = 4, cfg.width = 16;
    base         = cfg;
    cfg.post_mix = 1;
    check_slopes("mixes after attention and MLP", &cfg, &gpt_plain_pass);
    cfg.bigram = 17, cfg.bigram_width = 5;
    check_slopes("bigram table", &cfg, &gpt_plain_pass);
    cfg = base, cfg.paired_layers = 5;
    check_slopes("paired heads", &cfg, &gpt_plain_pass);
    cfg = base, cfg.paired_layers = 2, cfg.qk_norm = 1, cfg.rope_adjacent = 1, cfg.head_gates = 1;
    check_slopes("paired heads with norms and gates", &cfg, &gpt_plain_pass);
    cfg = base, cfg.xsa = 1;
    check_slopes("XSA", &cfg, &gpt_plain_pass);
    cfg.head_gates = cfg.attn_scales = cfg.value_table[1] = 1;
    check_slopes("XSA, gates, scales and values", &cfg, &gpt_plain_pass);
    cfg = base, cfg.bare_layers = 2, cfg.skip_from[1] = 1;
    check_slopes("a layer without attention", &cfg, &gpt_plain_pass);
    cfg = base, cfg.attn_from = 1;
    check_slopes("late attention", &cfg, &gpt_plain_pass);
    cfg = base, cfg.value_table[0] = 1, cfg.value_table[2] = 2, cfg.value_ve = 1;
    check_slopes("gates that read the row of the table", &cfg, &gpt_plain_pass);
    check_slopes("everything of small", &gpt_small, &gpt_parts_pass);
}

/* With a head and an embedding that are equal, a tied pass gives the head what an untied one gives
 * to both. */
TEST_EACH_DEVICE(tied_passes_add_the_gradient_of_the_embedding_to_that_of_the_head, dev)
{
    enum { TOKENS = 29 };
    ms_gpt_pass pass = gpt_parts_pass;
    gpt_rig     a    = gpt_rig_make(dev, &gpt_parts, MUSEC_F64, TOKENS);
    gpt_rig     b    = gpt_rig_make(dev, &gpt_parts, MUSEC_F64, TOKENS);
    gpt_stream  s    = gpt_stream_make(&gpt_parts, TOKENS, 4, 11);
    CHECK_OK(dev, ms_gpt_tie(a.g));
    CHECK_OK(dev, ms_gpt_tie(b.g));
    gpt_rig_run(&a, &s, TOKENS, &pass);
    pass.tied = true;
    gpt_rig_run(&b, &s, TOKENS, &pass);
    const size_t  head = gpt_rig_find(&a, "head"), embed = gpt_rig_find(&a, "embed");
    const int64_t n        = gpt_rig_elems(&a, head);
    double       *of_head  = gpt_rig_read(&a, ms_gpt_param(a.g, head)->grad);
    double       *of_embed = gpt_rig_read(&a, ms_gpt_param(a.g, embed)->grad);
    double       *of_both  = gpt_rig_read(&b, ms_gpt_param(b.g, head)->grad);
    double       *none     = gpt_rig_read(&b, ms_gpt_param(b.g, embed)->grad);
    double       *weight   = gpt_rig_read(&a, ms_gpt_param(a.g, head)->weight);
    double       *copy     = gpt_rig_read(&a, ms_gpt_param(a.g, embed)->weight);
    for (int64_t i = 0; i < n; i++) {
        CHECK(fabs(of_both[i] - of_head[i] - of_embed[i]) <= 1e-13, "element %d", (int)i);
        CHECK(none[i] == 0.0 && copy[i] == weight[i], "element %d", (int)i);
    }
    free(of_head), free(of_embed), free(of_both), free(none), free(weight), free(copy);
    gpt_stream_free(&s);
    gpt_rig_free(&a), gpt_rig_free(&b);
}

/* ---- devices --------------------------------------------------------------------------------- */

/* The vocabulary is so large that the logits of a pass take several chunks on `ref`, with targets
 * in the next one; on other devices they are one chunk.  No size is a multiple of another. */
enum { MANY = 30011, LONG = 141 };

static ms_gpt_config chunked_config(void)
{
    ms_gpt_config cfg = gpt_full;
    cfg.vocab = MANY, cfg.width = 19, cfg.mlp = 37, cfg.layers = 2, cfg.heads = 3, cfg.head = 10;
    CHECK(2 * ms_gpt_chunk(&cfg, LONG, 1 << 21) < LONG, "chunks of %d",
          (int)ms_gpt_chunk(&cfg, LONG, 1 << 21));
    return cfg;
}

static const ms_gpt_pass chunked_pass = { .window_short = 7,
                                          .window_long  = 70,
                                          .n_weights    = 3,
                                          .weights      = { 1.0, 0.5, 0.25 },
                                          .grad_scale   = 0.125 };

TEST_EACH_DEVICE(float32_agrees_with_ref, dev)
{
    const ms_gpt_config cfg = chunked_config();
    if (strcmp(dev->name, "ref") == 0) return;
    ms_device *ref  = check_open("ref");
    gpt_rig    a    = gpt_rig_make(dev, &cfg, MUSEC_F32, LONG + 2),
            b       = gpt_rig_make(ref, &cfg, MUSEC_F32, LONG);
    gpt_stream    s = gpt_stream_make(&cfg, LONG, 5, 3);
    ms_gpt_result x, y;
    double        max_a[6], max_b[6];
    gpt_rig_run(&a, &s, LONG, &chunked_pass);
    gpt_rig_run(&b, &s, LONG, &chunked_pass);
    CHECK_OK(dev, ms_gpt_take(a.g, &x, max_a));
    CHECK_OK(ref, ms_gpt_take(b.g, &y, max_b));
    CHECK(fabs(x.loss / y.loss - 1.0) <= 1e-5, "loss %g, not %g", x.loss, y.loss);
    CHECK(fabs(x.objective / y.objective - 1.0) <= 1e-5, "%g, not %g", x.objective, y.objective);
    CHECK(x.tokens == LONG && y.tokens == LONG, "%d tokens", (int)x.tokens);
    for (int i = 0; i < 6; i++)
        CHECK(fabs(max_a[i] / max_b[i] - 1.0) <= 1e-4, "logit %g, not %g", max_a[i], max_b[i]);
    gpt_rig_check_gradients(&a, &b, 1e-4);
    gpt_stream_free(&s);
    gpt_rig_free(&a), gpt_rig_free(&b);
    musec_ctx_destroy(ref);
}

TEST_EACH_DEVICE(parts_agree_with_ref_in_float32, dev)
{
    ms_gpt_config cfg = gpt_parts;
    cfg.width = 52, cfg.heads = 4, cfg.head = 16, cfg.mlp = 37, cfg.gate_width = 12;
    if (strcmp(dev->name, "ref") == 0) return;
    ms_device *ref  = check_open("ref");
    gpt_rig    a    = gpt_rig_make(dev, &cfg, MUSEC_F32, LONG + 2),
            b       = gpt_rig_make(ref, &cfg, MUSEC_F32, LONG);
    gpt_stream    s = gpt_stream_make(&cfg, LONG, 5, 3);
    ms_gpt_result x, y;
    gpt_rig_run(&a, &s, LONG, &gpt_parts_pass);
    gpt_rig_run(&b, &s, LONG, &gpt_parts_pass);
    CHECK_OK(dev, ms_gpt_take(a.g, &x, NULL));
    CHECK_OK(ref, ms_gpt_take(b.g, &y, NULL));
    CHECK(fabs(x.objective / y.objective - 1.0) <= 1e-5, "%g, not %g", x.objective, y.objective);
    for (size_t p = 0; p < ms_gpt_n_params(a.g); p++) /* spare is 0, and has no relative error */
        CHECK_OK(dev, strcmp(ms_gpt_param(a.g, p)->name, "spare") != 0
                          ? MUSEC_OK
                          : dev->ops->fill(dev, 1.0, ms_gpt_param(a.g, p)->grad));
    CHECK_OK(ref, ref->ops->fill(ref, 1.0, ms_gpt_param(b.g, gpt_rig_find(&b, "spare"))->grad));
    gpt_rig_check_gradients(&a, &b, 1e-4);
    gpt_stream_free(&s);
    gpt_rig_free(&a), gpt_rig_free(&b);
    musec_ctx_destroy(ref);
}

/* The tensors are the head, to whose gradient every chunk adds, and one further back. */
TEST_EACH_DEVICE(gradients_by_chunks_match_finite_differences, dev)
{
    static const char *const names[] = { "head", "layer.1.attn.o" };
    const ms_gpt_config      cfg     = chunked_config();
    if (strcmp(dev->name, "ref") == 0) return; /* too slow */
    gpt_rig    r = gpt_rig_make(dev, &cfg, MUSEC_F64, LONG);
    gpt_stream s = gpt_stream_make(&cfg, LONG, 5, 3);
    gpt_rig_run(&r, &s, LONG, &chunked_pass);
    CHECK_OK(dev, ms_gpt_take(r.g, &(ms_gpt_result){ 0 }, NULL));
    for (size_t i = 0; i < COUNT(names); i++) {
        slope_case c   = slope_case_make(&r, &s, &chunked_pass, gpt_rig_find(&r, names[i]));
        double    *v   = oracle_gaussian(c.n, 1, i);
        double     err = slope_error(&c, v);
        CHECK(err <= 1e-6, "%s: relative error %.2g", names[i], err);
        free(v);
        slope_case_free(&c);
    }
    gpt_stream_free(&s);
    gpt_rig_free(&r);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static double log_sum_exp(const double *z, int64_t n)
{
    double max = z[0], sum = 0.0;
    for (int64_t i = 1; i < n; i++)
        max = fmax(max, z[i]);
    for (int64_t i = 0; i < n; i++)
        sum += exp(z[i] - max);
    return max + log(sum);
}

/* The loss of a pass is computed from the logits that ms_gpt_next gives for each prefix. */
TEST_EACH_DEVICE(next_gives_the_last_row_of_a_run, dev)
{
    const ms_gpt_config cfg  = chunked_config();
    double              loss = 0.0, objective = 0.0;
    ms_gpt_result       result;
    if (strcmp(dev->name, "ref") == 0) return; /* too slow */
    double    *z = check_alloc(MANY * sizeof *z);
    gpt_rig    r = gpt_rig_make(dev, &cfg, MUSEC_F64, LONG);
    gpt_stream s = gpt_stream_make(&cfg, LONG, 1, 5);
    for (int64_t t = 0; t < LONG; t++) {
        CHECK_OK(dev, ms_gpt_next(r.g, s.inputs, t + 1, &chunked_pass, z));
        const double all = log_sum_exp(z, MANY);
        for (int64_t k = 0; k < chunked_pass.n_weights && t + k < LONG; k++)
            objective += chunked_pass.weights[k] * (all - z[s.targets[t + k]]);
        loss += all - z[s.targets[t]];
    }
    CHECK_OK(dev, ms_gpt_take(r.g, &result, NULL));
    CHECK(result.tokens == 0 && result.loss == 0.0, "ms_gpt_next counted");
    gpt_rig_loss(&r, &s, &chunked_pass, &result);
    CHECK(fabs(result.loss / loss - 1.0) <= 1e-12, "%.17g, not %.17g", result.loss, loss);
    CHECK(fabs(result.objective / objective - 1.0) <= 1e-12, "%.17g, not %.17g", result.objective,
          objective);
    gpt_stream_free(&s);
    gpt_rig_free(&r);
    free(z);
}

/* A loss is a difference of the logits that ms_gpt_next gives. */
TEST_EACH_DEVICE(next_agrees_with_losses_for_every_cap, dev)
{
    enum { N = 13 };
    for (int64_t cap = MS_CAP_NONE; cap <= MS_CAP_SIGMOID; cap++) {
        ms_gpt_config cfg = gpt_plain;
        double        z[32];
        cfg.cap = cap, cfg.cap_width = 2.0, cfg.cap_shift = 1.0;
        gpt_rig    r    = gpt_rig_make(dev, &cfg, MUSEC_F64, N);
        gpt_stream s    = gpt_stream_make(&cfg, N, 1, 5);
        double    *rows = gpt_rig_rows(&r, &s, &gpt_plain_pass);
        for (int64_t t = 0; t < N; t++) {
            CHECK_OK(dev, ms_gpt_next(r.g, s.inputs, t + 1, &gpt_plain_pass, z));
            const double want = log_sum_exp(z, cfg.vocab) - z[s.targets[t]];
            CHECK(fabs(rows[t] - want) <= 1e-12, "cap %d, row %d: %.17g, not %.17g", (int)cap,
                  (int)t, rows[t], want);
        }
        CHECK(ms_gpt_next(r.g, s.inputs, N + 1, &gpt_plain_pass, z) == MUSEC_EINVAL, "too many");
        CHECK(ms_gpt_next(r.g, s.inputs, 0, &gpt_plain_pass, z) == MUSEC_EINVAL, "none");
        free(rows);
        gpt_stream_free(&s);
        gpt_rig_free(&r);
    }
}

/* Also of a single token, which has none before it. */
TEST_EACH_DEVICE(next_agrees_with_losses_of_parts, dev)
{
    enum { N = 11 };
    double     z[32];
    gpt_rig    r    = gpt_rig_make(dev, &gpt_parts, MUSEC_F64, N);
    gpt_stream s    = gpt_stream_make(&gpt_parts, N, 1, 5);
    double    *rows = gpt_rig_rows(&r, &s, &gpt_parts_pass);
    for (int64_t t = 0; t < N; t++) {
        CHECK_OK(dev, ms_gpt_next(r.g, s.inputs, t + 1, &gpt_parts_pass, z));
        const double want = log_sum_exp(z, gpt_parts.vocab) - z[s.targets[t]];
        CHECK(fabs(rows[t] - want) <= 1e-12, "row %d: %.17g, not %.17g", (int)t, rows[t], want);
    }
    gpt_rig_run(&r, &s, 1, &gpt_parts_pass); /* a gradient of one token */
    CHECK_OK(dev, ms_gpt_take(r.g, &(ms_gpt_result){ 0 }, NULL));
    free(rows);
    gpt_stream_free(&s);
    gpt_rig_free(&r);
}

/* ---- documents and windows ------------------------------------------------------------------- */

enum { FIRST = 9, SECOND = 14, BOTH = FIRST + SECOND };

/* The two documents of `s` in the other order: row t of the second becomes row t - FIRST. */
static gpt_stream swapped(const ms_gpt_config *cfg, const gpt_stream *s)
{
    gpt_stream out = gpt_stream_make(cfg, BOTH, 1, 1);
    for (int64_t t = 0; t < BOTH; t++) {
        const int64_t from = t < SECOND ? t + FIRST : t - SECOND;
        out.inputs[t]      = s->inputs[from];
        out.targets[t]     = s->targets[from];
        out.doc[t]         = t < SECOND ? 0 : SECOND;
    }
    return out;
}

/* Positions count from the start of the stream, but only their differences matter. */
TEST_EACH_DEVICE(losses_and_gradients_do_not_depend_on_the_order_of_documents, dev)
{
    const ms_gpt_config *configs[] = { &gpt_full, &gpt_plain };
    for (size_t c = 0; c < COUNT(configs); c++) {
        ms_gpt_pass pass = gpt_full_pass;
        gpt_rig     a    = gpt_rig_make(dev, configs[c], MUSEC_F64, BOTH),
                b        = gpt_rig_make(dev, configs[c], MUSEC_F64, BOTH);
        gpt_stream s     = gpt_stream_make(configs[c], BOTH, 1, 9);
        for (int64_t t = FIRST; t < BOTH; t++)
            s.doc[t] = FIRST;
        gpt_stream other = swapped(configs[c], &s);
        pass.n_weights   = 1; /* with more, rows would have targets in the next document */
        double *x = gpt_rig_rows(&a, &s, &pass), *y = gpt_rig_rows(&b, &other, &pass);
        for (int64_t t = 0; t < BOTH; t++) {
            const int64_t to = t < FIRST ? t + SECOND : t - FIRST;
            CHECK(fabs(x[t] - y[to]) <= 1e-11, "row %d: %.17g, then %.17g", (int)t, x[t], y[to]);
        }
        gpt_rig_run(&a, &s, BOTH, &pass), gpt_rig_run(&b, &other, BOTH, &pass);
        gpt_rig_check_gradients(&a, &b, 1e-11);
        free(x), free(y);
        gpt_stream_free(&s), gpt_stream_free(&other);
        gpt_rig_free(&a), gpt_rig_free(&b);
    }
}

/* A change of the input of row `at` must change the losses of the rows at..last and no others. */
static void check_reach(gpt_rig *r, gpt_stream *s, const ms_gpt_pass *pass, int64_t at,
                        int64_t last)
{
    const int64_t vocab = ms_gpt_config_of(r->g)->vocab;
    double       *was   = gpt_rig_rows(r, s, pass);
    s->inputs[at]       = (int32_t)((s->inputs[at] + 1) % vocab);
    double *now         = gpt_rig_rows(r, s, pass);
    s->inputs[at]       = (int32_t)((s->inputs[at] + vocab - 1) % vocab);
    for (int64_t t = 0; t < s->tokens; t++) {
        const double moved = fabs(now[t] - was[t]);
        if (t < at || t > last)
            CHECK(moved <= 1e-11, "token %d reached row %d: %.2g", (int)at, (int)t, moved);
        else
            CHECK(moved >= 1e-9, "token %d did not reach row %d: %.2g", (int)at, (int)t, moved);
    }
    free(was), free(now);
}

TEST_EACH_DEVICE(a_token_reaches_its_document_alone, dev)
{
    ms_gpt_pass pass  = gpt_full_pass;
    gpt_rig     r     = gpt_rig_make(dev, &gpt_full, MUSEC_F64, 24);
    gpt_stream  s     = gpt_stream_make(&gpt_full, 24, 4, 9);
    pass.window_short = pass.window_long = 24;
    for (int64_t at = 0; at < 24; at += 5) {
        int64_t last = at;
        while (last + 1 < 24 && s.doc[last + 1] == s.doc[at])
            last++;
        check_reach(&r, &s, &pass, at, last);
    }
    gpt_stream_free(&s);
    gpt_rig_free(&r);
}

TEST_EACH_DEVICE(a_token_reaches_as_far_as_the_sum_of_the_windows, dev)
{
    static const struct {
        int64_t  layers;
        uint64_t long_layers;
        int64_t  reach;
    } cases[] = { { 1, 0, 3 }, { 1, 1, 8 }, { 2, 2, 11 }, { 2, 0, 6 }, { 3, 0xa, 14 } };
    for (size_t c = 0; c < COUNT(cases); c++) {
        ms_gpt_config cfg = gpt_full;
        cfg.layers        = cases[c].layers;
        cfg.long_layers   = cases[c].long_layers;
        gpt_rig    r      = gpt_rig_make(dev, &cfg, MUSEC_F64, 26);
        gpt_stream s      = gpt_stream_make(&cfg, 26, 1, 2);
        check_reach(&r, &s, &gpt_full_pass, 4, 4 + cases[c].reach);
        gpt_stream_free(&s);
        gpt_rig_free(&r);
    }
}

/* ---- accumulation ---------------------------------------------------------------------------- */

TEST_EACH_DEVICE(losses_and_gradients_accumulate_until_they_are_taken, dev)
{
    gpt_rig       r = gpt_rig_make(dev, &gpt_full, MUSEC_F64, 20);
    gpt_stream    s = gpt_stream_make(&gpt_full, 20, 3, 4);
    ms_gpt_result one, two, none;
    double        seen[6], again[6];
    gpt_rig       twice   = gpt_rig_make(dev, &gpt_full, MUSEC_F64, 20);
    ms_gpt_pass   doubled = gpt_full_pass;
    doubled.grad_scale *= 2.0;
    gpt_rig_run(&twice, &s, 20, &doubled);
    gpt_rig_run(&r, &s, 20, &gpt_full_pass);
    CHECK_OK(dev, ms_gpt_take(r.g, &one, seen));
    CHECK_OK(dev, ms_gpt_zero_grad(r.g));
    gpt_rig_run(&r, &s, 20, &gpt_full_pass);
    gpt_rig_run(&r, &s, 20, &gpt_full_pass);
    gpt_rig_check_gradients(&r, &twice, 1e-11);
    CHECK_OK(dev, ms_gpt_take(r.g, &two, again));
    CHECK(two.tokens == 40 && fabs(two.loss / one.loss - 2.0) <= 1e-13 &&
              fabs(two.objective / one.objective - 2.0) <= 1e-13,
          "%.17g after %.17g", two.loss, one.loss);
    CHECK(run_same_bits(seen, again, 6), "the maxima were added");
    gpt_rig_loss(&r, &s, &gpt_full_pass, &two);
    CHECK(two.loss == one.loss && two.objective == one.objective, "a loss alone is another");
    CHECK_OK(dev, ms_gpt_take(r.g, &none, seen));
    CHECK(none.tokens == 0 && none.loss == 0.0 && seen[0] == -INFINITY, "something was left");
    gpt_stream_free(&s);
    gpt_rig_free(&r), gpt_rig_free(&twice);
}
