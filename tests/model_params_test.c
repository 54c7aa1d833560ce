/* model_params_test.c - the parameters of a GPT: names, roles, memory, initial values. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clip_run.h"
#include "gpt_rig.h"

/* Parameters large enough for their standard deviation to be known within about a percent. */
static ms_gpt_config wide_config(void)
{
    ms_gpt_config cfg = gpt_full;
    cfg.width = 96, cfg.heads = 4, cfg.head = 20, cfg.mlp = 128, cfg.vocab = 301, cfg.layers = 2;
    cfg.gate_width = 12;
    return cfg;
}

static gpt_rig started(ms_device *dev, const ms_gpt_config *cfg, musec_dtype dtype, uint64_t seed)
{
    gpt_rig r = { .dev = dev };
    CHECK_OK(dev, ms_gpt_create(&r.g, dev, cfg, dtype, 4));
    for (size_t p = 0; p < ms_gpt_n_params(r.g); p++) /* of which none may stay */
        CHECK_OK(dev, dev->ops->fill(dev, NAN, ms_gpt_param(r.g, p)->weight));
    CHECK_OK(dev, ms_gpt_init(r.g, seed));
    return r;
}

/* ---- the list -------------------------------------------------------------------------------- */

static musec_role role_of(const char *name)
{
    static const struct {
        const char *end;
        musec_role  role;
    } roles[] = {
        { "alpha", MUSEC_ROLE_VECTOR },   { ".bigram", MUSEC_ROLE_VECTOR },
        { "mudd.", MUSEC_ROLE_VECTOR },   { "bigram", MUSEC_ROLE_EMBED },
        { "_gate", MUSEC_ROLE_VECTOR },   { "attn.gate", MUSEC_ROLE_VECTOR },
        { "scales", MUSEC_ROLE_VECTOR },  { "mix", MUSEC_ROLE_VECTOR },
        { "skip", MUSEC_ROLE_VECTOR },    { "smear", MUSEC_ROLE_VECTOR },
        { "backout", MUSEC_ROLE_VECTOR }, { "spare", MUSEC_ROLE_VECTOR },
        { "attn.q", MUSEC_ROLE_QK },      { "attn.k", MUSEC_ROLE_QK },
        { "attn.v", MUSEC_ROLE_VO },      { "attn.o", MUSEC_ROLE_VO },
        { "mlp.up", MUSEC_ROLE_MLP },     { "down", MUSEC_ROLE_MLP },
        { "value.", MUSEC_ROLE_EMBED },   { "head", MUSEC_ROLE_HEAD },
        { "embed", MUSEC_ROLE_EMBED },
    };
    for (size_t i = 0; i < COUNT(roles); i++)
        if (strstr(name, roles[i].end) != NULL) return roles[i].role;
    check_failed(__FILE__, __LINE__, "role_of", "no role is known for %s", name);
}

/* No two parameters share a byte, neither as weights nor as gradients. */
static void check_apart(const gpt_rig *r, size_t p, size_t q)
{
    const ms_gpt_tensor *a = ms_gpt_param(r->g, p), *b = ms_gpt_param(r->g, q);
    const char  *w = a->weight.data, *x = b->weight.data, *g = a->grad.data, *h = b->grad.data;
    const size_t n = (size_t)gpt_rig_elems(r, p) * ms_dtype_bytes(a->weight.dtype);
    const size_t m = (size_t)gpt_rig_elems(r, q) * ms_dtype_bytes(a->weight.dtype);
    CHECK(strcmp(a->name, b->name) != 0, "%s twice", a->name);
    CHECK(w + n <= x || x + m <= w, "%s and %s share weights", a->name, b->name);
    CHECK(g + n <= h || h + m <= g, "%s and %s share gradients", a->name, b->name);
}

static void check_list(ms_device *dev, const ms_gpt_config *cfg)
{
    int64_t      of_role[7] = { 0 };
    ms_gpt_sizes sizes;
    ms_error     e;
    gpt_rig      r = gpt_rig_make(dev, cfg, MUSEC_F32, 8);
    CHECK_OK_ERR(&e, ms_gpt_measure(&e, cfg, MUSEC_F32, 8, 1 << 21, &sizes));
    for (size_t p = 0; p < ms_gpt_n_params(r.g); p++) {
        const ms_gpt_tensor *t = ms_gpt_param(r.g, p);
        CHECK(t->role == role_of(t->name), "%s has role %d", t->name, (int)t->role);
        CHECK(t->grad.rows == t->weight.rows && t->grad.cols == t->weight.cols &&
                  t->weight.ld == t->weight.cols && t->weight.count == 1,
              "%s: shape", t->name);
        of_role[t->role] += gpt_rig_elems(&r, p);
        for (size_t q = 0; q < p; q++)
            check_apart(&r, p, q);
    }
    CHECK(of_role[MUSEC_ROLE_QK] + of_role[MUSEC_ROLE_VO] + of_role[MUSEC_ROLE_MLP] ==
              sizes.n_matrix,
          "matrices");
    CHECK(of_role[MUSEC_ROLE_HEAD] == sizes.n_head, "head");
    CHECK(of_role[MUSEC_ROLE_EMBED] == sizes.n_embed, "embed");
    CHECK(of_role[MUSEC_ROLE_VECTOR] == sizes.n_vector, "vectors");
    CHECK(sizes.weights >= sizeof(float) * (size_t)(sizes.n_matrix + sizes.n_head + sizes.n_embed +
                                                    sizes.n_vector) &&
              sizes.grads == sizes.weights,
          "bytes");
    gpt_rig_free(&r);
}

/* For every combination of the optional parts. */
TEST_EACH_DEVICE(parameters_have_their_roles_shapes_and_own_memory, dev)
{
    for (int64_t which = 0; which < 8; which++) {
        ms_gpt_config cfg = gpt_full;
        cfg.tied = which & 1, cfg.head_gates = which >> 1 & 1, cfg.x0_mix = which >> 2 & 1;
        check_list(dev, &cfg);
    }
    check_list(dev, &gpt_parts);
    check_list(dev, &gpt_small);
}

/* ---- initial values -------------------------------------------------------------------------- */

/* The standard deviation of n normal draws has a relative error of about 1 / sqrt(2 n), that of
 * uniform draws a smaller one; four times that is allowed. */
static void check_drawn(gpt_rig *r, const char *name, double sd, bool uniform)
{
    const size_t  p = gpt_rig_find(r, name);
    const int64_t n = gpt_rig_elems(r, p);
    double *w = gpt_rig_read(r, ms_gpt_param(r->g, p)->weight), sum = 0.0, squares = 0.0, top = 0.0;
    for (int64_t i = 0; i < n; i++) {
        sum += w[i];
        squares += w[i] * w[i];
        top = fmax(top, fabs(w[i]));
    }
    const double room = 4.0 / sqrt(2.0 * (double)n), rms = sqrt(squares / (double)n);
    CHECK(fabs(rms - sd) <= room * sd, "%s: deviation %g, not %g", name, rms, sd);
    CHECK(fabs(sum / (double)n) <= 4.0 * sd / sqrt((double)n), "%s: mean %g", name,
          sum / (double)n);
    if (uniform)
        CHECK(top <= sqrt(3.0) * sd * 1.000001 && top >= 0.99 * sqrt(3.0) * sd,
              "%s: up to %g, not %g", name, top, sqrt(3.0) * sd);
    else if (sd > 0.0)
        CHECK(top >= 3.0 * sd && top <= 6.0 * sd, "%s: up to %g", name, top);
    free(w);
}

TEST_EACH_DEVICE(initial_values_have_the_configured_distributions, dev)
{
    ms_gpt_config cfg  = wide_config();
    const double  unit = 1.0 / sqrt((double)cfg.width);
    for (int dtype = 0; dtype < 2; dtype++) {
        cfg.tied = 0, cfg.init_out = cfg.init_down = 0.0;
        gpt_rig r   = started(dev, &cfg, dtype == 0 ? MUSEC_F32 : MUSEC_F64, 5);
        double *mix = gpt_rig_read(&r, ms_gpt_param(r.g, gpt_rig_find(&r, "layer.1.mix"))->weight);
        check_drawn(&r, "layer.0.attn.q", cfg.init_qkv * unit, true);
        check_drawn(&r, "layer.1.attn.k", cfg.init_qkv * unit, true);
        check_drawn(&r, "layer.1.attn.v", cfg.init_qkv * unit, true);
        check_drawn(&r, "layer.0.mlp.up", cfg.init_up * unit, true);
        check_drawn(&r, "layer.0.attn.o", 0.0, false);
        check_drawn(&r, "layer.1.mlp.down", 0.0, false);
        check_drawn(&r, "layer.1.attn.gate", 0.0, false);
        check_drawn(&r, "embed", cfg.init_embed, false);
        check_drawn(&r, "head", cfg.init_head, false);
        CHECK(fabs(mix[0] - cfg.init_residual) <= 1e-7 && mix[1] == 0.0, "mix %g, %g", mix[0],
              mix[1]);
        free(mix);
        gpt_rig_free(&r);
        cfg.init_out = 0.25, cfg.init_down = 0.75, cfg.tied = 1;
        r = started(dev, &cfg, dtype == 0 ? MUSEC_F32 : MUSEC_F64, 6);
        check_drawn(&r, "layer.0.attn.o", 0.25 * unit, true);
        check_drawn(&r, "layer.1.mlp.down", 0.75 * unit, true);
        check_drawn(&r, "head", cfg.init_head, false);
        gpt_rig_free(&r);
    }
}

static void check_scalars(gpt_rig *r, const char *name, const double *want, int64_t n)
{
    double *w = gpt_rig_read(r, ms_gpt_param(r->g, gpt_rig_find(r, name))->weight);
    CHECK(gpt_rig_elems(r, gpt_rig_find(r, name)) == n, "%s: size", name);
    for (int64_t i = 0; i < n; i++)
        CHECK(fabs(w[i] - want[i]) <= 1e-7, "%s: %g, not %g", name, w[i], want[i]);
    free(w);
}

TEST_EACH_DEVICE(parts_start_as_configured, dev)
{
    ms_gpt_config cfg = gpt_parts;
    cfg.vocab         = 901;
    gpt_rig r         = started(dev, &cfg, MUSEC_F32, 5);
    check_drawn(&r, "embed2", cfg.init_embed2, false);
    check_drawn(&r, "value.0", cfg.init_values, false);
    check_drawn(&r, "value.1", cfg.init_values, false);
    check_drawn(&r, "smear_gate", 0.0, false);
    check_drawn(&r, "layer.2.skip_gate", 0.0, false);
    check_drawn(&r, "layer.3.attn.value_gate", 0.0, false);
    check_scalars(&r, "layer.1.mix", (const double[]){ cfg.init_residual, 0.0, 0.0 }, 3);
    check_scalars(&r, "layer.1.attn.scales", (const double[]){ 0.5, 1.0 }, 2);
    check_scalars(&r, "layer.3.skip", (const double[]){ -1.5 }, 1);
    check_scalars(&r, "smear", (const double[]){ 0.0 }, 1);
    check_scalars(&r, "backout", (const double[]){ 0.5 }, 1);
    gpt_rig_free(&r);
    cfg.init_values = 0.0;
    r               = started(dev, &cfg, MUSEC_F32, 5);
    check_drawn(&r, "value.0", 0.0, false);
    gpt_rig_free(&r);
}

TEST_EACH_DEVICE(parts_of_small_start_as_configured, dev)
{
    const double r     = gpt_small.init_residual;
    const double m[14] = { 0, 0, 0, 0, 0, 0, 20.0, 20.0, 10.0 * r, 10.0, 0, 0.5, 10.0 * r, 10.0 };
    gpt_rig      g     = started(dev, &gpt_small, MUSEC_F32, 5);
    check_scalars(&g, "layer.1.attn.mix", (const double[]){ r, 1.0, 0.0 }, 3);
    check_scalars(&g, "layer.2.mlp.mix", (const double[]){ r, 1.0 }, 2);
    check_scalars(&g, "layer.0.bigram", (const double[]){ 0.05 }, 1);
    check_scalars(&g, "layer.3.bigram", (const double[]){ 0.05 }, 1);
    check_scalars(&g, "layer.1.attn.alpha", (const double[]){ 0.0, 0.0, 0.0, 0.0 }, 4);
    check_scalars(&g, "mudd.0.bias", m, 14);
    check_scalars(&g, "mudd.1.bias", (const double[]){ 0.0, -5.0, 0.0, 0.0, 0.0 }, 5);
    check_drawn(&g, "bigram", 0.0, false);
    check_drawn(&g, "mudd.0.down", 0.0, false);
    gpt_rig_free(&g);
}

static bool same_start(gpt_rig *a, gpt_rig *b, const char *name)
{
    const ms_mat x = ms_gpt_param(a->g, gpt_rig_find(a, name))->weight;
    const ms_mat y = ms_gpt_param(b->g, gpt_rig_find(b, name))->weight;
    double      *v = gpt_rig_read(a, x), *w = gpt_rig_read(b, y);
    const bool same = x.rows == y.rows && x.cols == y.cols && run_same_bits(v, w, x.rows * x.cols);
    free(v), free(w);
    return same;
}

/* They do not depend on the rest of the model or on the device. */
TEST_EACH_DEVICE(initial_values_depend_on_seed_name_and_place_alone, dev)
{
    static const char *const drawn[] = { "layer.0.attn.q", "layer.1.attn.k", "layer.0.mlp.up",
                                         "head" };
    ms_gpt_config            cfg = wide_config(), other = cfg;
    ms_device               *ref = NULL;
    CHECK(musec_ctx_create(&ref, "ref") == MUSEC_OK, "ref is always there");
    other.layers = 5, other.head_gates = 0, other.x0_mix = 0, other.tied = 0;
    other.cap = MS_CAP_NONE, other.qk_norm = 0, other.init_down = 0.7;
    gpt_rig a = started(dev, &cfg, MUSEC_F32, 5), same = started(dev, &cfg, MUSEC_F32, 5);
    gpt_rig apart = started(dev, &cfg, MUSEC_F32, 6), more = started(dev, &other, MUSEC_F32, 5);
    gpt_rig there = started(ref, &cfg, MUSEC_F32, 5);
    for (size_t i = 0; i < COUNT(drawn); i++) {
        CHECK(same_start(&a, &same, drawn[i]), "%s: the same seed", drawn[i]);
        CHECK(!same_start(&a, &apart, drawn[i]), "%s: another seed", drawn[i]);
        CHECK(same_start(&a, &more, drawn[i]), "%s: another model", drawn[i]);
        CHECK(same_start(&a, &there, drawn[i]), "%s: another device", drawn[i]);
    }
    double *q = gpt_rig_read(&a, ms_gpt_param(a.g, gpt_rig_find(&a, "layer.0.attn.q"))->weight);
    double *k = gpt_rig_read(&a, ms_gpt_param(a.g, gpt_rig_find(&a, "layer.0.attn.k"))->weight);
    CHECK(!run_same_bits(q, k, 100), "q and k start as the same");
    free(q), free(k);
    gpt_rig_free(&a), gpt_rig_free(&same), gpt_rig_free(&apart), gpt_rig_free(&more);
    gpt_rig_free(&there);
    musec_ctx_destroy(ref);
}
