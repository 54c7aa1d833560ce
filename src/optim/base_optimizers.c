/* base_optimizers.c - update directions: momentum, its sign, or Adam's moments.
 *
 * sgdm
 *     M <- (1 - beta) M + beta G                         (heavy-ball: M <- (1 - beta) M + G)
 *     direction M, or with Nesterov (1 - beta) M + beta G   (heavy-ball: (1 - beta) M + G)
 *
 * signum
 *     the sign of the direction of sgdm
 *
 * adamw
 *     m <- b1 m + (1 - b1) g,   v <- b2 v + (1 - b2) g^2
 *     direction (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
 *
 * ademamix
 *     adds alpha_t s to the numerator of adamw, s <- b3_t s + (1 - b3_t) g, which is not corrected
 *     for its start.  alpha_t grows linearly, and so does the half-life of b3_t, from that of b1.
 *
 * lion
 *     direction sign(b1 M + (1 - b1) G),   then M <- b2 M + (1 - b2) G, from zero
 *
 * soap, shampoo, kl-shampoo, dion2: files of their own
 *
 * At the first step the momentum of sgdm and signum is G itself (momentum-init first) or follows
 * from zero.  With heavy-ball momentum both are G. */
#include <math.h>
#include <string.h>

#include "core/names.h"
#include "optim/bases.h"
#include "optim/precondition.h"

/* ---- momentum -------------------------------------------------------------------------------- */

ms_momentum_coefs ms_momentum_coefs_at(const musec_optim_config *cfg, int64_t t)
{
    const bool heavy = cfg->momentum_form == MUSEC_MOMENTUM_HEAVY;
    const bool first = t == 1 && cfg->momentum_init == MUSEC_INIT_FIRST;
    return (ms_momentum_coefs){ .keep = t == 1 ? 0.0 : 1.0 - cfg->beta,
                                .add  = heavy || first ? 1.0 : cfg->beta };
}

/* Nesterov's direction from the momentum of this step. */
static ms_momentum_coefs look_ahead_coefs(const musec_optim_config *cfg)
{
    const bool heavy = cfg->momentum_form == MUSEC_MOMENTUM_HEAVY;
    return (ms_momentum_coefs){ .keep = 1.0 - cfg->beta, .add = heavy ? 1.0 : cfg->beta };
}

/* out <- keep M + add (G + coupled decay W); out may be M. */
static musec_status average(ms_device *d, const ms_direction *p, ms_momentum_coefs c, ms_mat out)
{
    const ms_device_ops *op   = d->ops;
    const double         add  = c.add * p->grad_factor;
    const ms_term        term = { .x_coef = ms_const(c.keep), .y_coef = ms_const(add), .out = out };
    const ms_term        alone = { .x_coef = ms_const(add), .out = out };
    musec_status         st    = MUSEC_OK;
    if (c.keep == 0.0 && p->grad.dtype == out.dtype) /* not even a NaN in the state must matter */
        TRY(op->axpby(d, ms_const(add), p->grad, ms_const(0.0), out));
    else if (c.keep == 0.0)
        TRY(op->combine(d, p->grad, (ms_mat){ 0 }, &alone, 1));
    else
        TRY(op->combine(d, p->state[0], p->grad, &term, 1));
    if (p->coupled_decay != 0.0)
        TRY(op->axpby(d, ms_const(c.add * p->coupled_decay), p->weight, ms_const(1.0), out));
done:
    return st;
}

/* Gives the coefficients of the direction times the scale of p->scaled, which is written there. */
static musec_status scaled_coefs(ms_device *d, const ms_direction *p, ms_momentum_coefs c,
                                 ms_num *keep, ms_num *add)
{
    ms_average_scale_vecs out = { .scale = p->scaled.scale };
    musec_status          st  = MUSEC_OK;
    TRY(ms_scratch_vec(d, p->scaled.mat.count, &out.m_coef));
    TRY(ms_scratch_vec(d, p->scaled.mat.count, &out.g_coef));
    TRY(ms_scalar_average_scale(
        d,
        (ms_average_scale_nums){ .m_weight  = ms_const(c.keep),
                                 .g_weight  = ms_const(c.add * p->grad_factor),
                                 .m_absmax  = p->momentum_bound,
                                 .g_absmax  = p->grad_absmax,
                                 .threshold = ms_const(p->zero_scale) },
        out));
    *keep = ms_each(out.m_coef);
    *add  = ms_each(out.g_coef);
done:
    return st;
}

/* Writes the direction of coefficients `c` in 16 bits and, in the same pass, in full where that is
 * wanted and the state, which is of coefficients `stored`. */
static musec_status average_scaled(ms_device *d, const ms_direction *p, ms_momentum_coefs stored,
                                   ms_momentum_coefs c)
{
    const ms_mat  none = { 0 }, m = p->state[0];
    const double  add      = c.add * p->grad_factor;
    const ms_mark mark     = ms_arena_mark(&d->scratch);
    ms_term       terms[3] = { { .out = p->scaled.mat, .mask = p->redo } };
    int           n        = 1;
    musec_status  st       = MUSEC_OK;

    if (p->redo.data != NULL)
        terms[0].x_coef = ms_each(p->m_coef), terms[0].y_coef = ms_each(p->g_coef);
    else
        TRY(scaled_coefs(d, p, c, &terms[0].x_coef, &terms[0].y_coef));
    if (p->mode == MS_PREDICTED) {
        TRY(d->ops->average(d, terms[0].x_coef, m, terms[0].y_coef, p->grad, p->scaled.mat,
                            p->observed));
        goto done;
    }
    if (p->out.data != NULL && p->out.data != m.data)
        terms[n++] =
            (ms_term){ .x_coef = ms_const(c.keep), .y_coef = ms_const(add), .out = p->out };
    if (p->mode == MS_UPDATE_STATE)
        terms[n++] = (ms_term){ .x_coef = ms_const(stored.keep),
                                .y_coef = ms_const(stored.add * p->grad_factor),
                                .out    = m };
    if (c.keep != 0.0) {
        TRY(d->ops->combine(d, m, p->grad, terms, n));
    } else { /* what the state holds must not matter, not even a NaN */
        for (int i = 0; i < n; i++)
            terms[i].x_coef = terms[i].y_coef;
        TRY(d->ops->combine(d, p->grad, none, terms, n));
    }
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

static musec_status sgdm_direction(ms_device *d, const ms_direction *p)
{
    const musec_optim_config *cfg    = p->cfg;
    const ms_momentum_coefs   stored = ms_momentum_coefs_at(cfg, p->t);
    const ms_momentum_coefs   ahead  = look_ahead_coefs(cfg);
    musec_status              st     = MUSEC_OK;
    if (p->scaled.mat.data != NULL) {
        ms_momentum_coefs c = p->mode == MS_LOOK_AHEAD ? ahead : stored;
        if (p->mode == MS_UPDATE_STATE && cfg->nesterov) /* from M as it will be */
            c = (ms_momentum_coefs){ ahead.keep * stored.keep,
                                     ahead.keep * stored.add + ahead.add };
        return average_scaled(d, p, stored, c);
    }
    if (p->mode == MS_KEEP_STATE) return average(d, p, stored, p->out);
    if (p->mode == MS_LOOK_AHEAD) return average(d, p, ahead, p->out);
    TRY(average(d, p, stored, p->state[0]));
    if (cfg->nesterov)
        TRY(average(d, p, ahead, p->out));
    else if (p->out.data != p->state[0].data)
        TRY(d->ops->copy(d, p->state[0], p->out));
done:
    return st;
}

/* Heavy-ball momentum sums up to 1 / beta times the gradient, but starts from what is stored; an
 * average is never more than its gradients. */
static double sgdm_max_grad(const musec_optim_config *cfg, double threshold, double dtype_max)
{
    const double keep = 1.0 - cfg->beta;
    if (cfg->momentum_form != MUSEC_MOMENTUM_HEAVY || cfg->beta == 0.0) return dtype_max;
    return fmax(cfg->beta * dtype_max, dtype_max - keep * threshold); /* with beta 0 it grows on */
}

static musec_status signum_direction(ms_device *d, const ms_direction *p)
{
    musec_status st = MUSEC_OK;
    TRY(sgdm_direction(d, p));
    TRY(d->ops->unary(d, MS_UNARY_SIGN, p->out, p->out));
done:
    return st;
}

/* ---- moments --------------------------------------------------------------------------------- */

/* Above, v would be infinite, and the weight would never move again. */
static double moments_max_grad(const musec_optim_config *cfg, double threshold, double dtype_max)
{
    (void)cfg, (void)threshold;
    return sqrt(dtype_max);
}

/* The gradient g, times its factor and in the dtype of the state, or g + decay w where decay is
 * coupled: by way of the output, which is written last. */
static musec_status gradient(ms_device *d, const ms_direction *p, ms_mat *g)
{
    const ms_mat  none    = { 0 };
    const bool    coupled = p->coupled_decay != 0.0;
    const ms_term term    = { .x_coef = ms_const(p->grad_factor),
                              .y_coef = ms_const(p->coupled_decay),
                              .out    = p->out };
    musec_status  st      = MUSEC_OK;
    *g                    = p->grad;
    if (!coupled && p->grad_factor == 1.0 && p->grad.dtype == p->out.dtype) return MUSEC_OK;
    TRY(d->ops->combine(d, p->grad, coupled ? p->weight : none, &term, 1));
    *g = p->out;
done:
    return st;
}

static ms_moments moments_of(const ms_direction *p)
{
    const musec_optim_config *cfg = p->cfg;
    return (ms_moments){ .correct1_at = p->correct,
                         .correct2_at = p->correct == NULL ? NULL : p->correct + p->correct_step,
                         .beta1       = cfg->beta1,
                         .beta2       = cfg->beta2,
                         .eps         = cfg->eps,
                         .correct1    = 1.0 - pow(cfg->beta1, (double)p->t),
                         .correct2    = 1.0 - pow(cfg->beta2, (double)p->t) };
}

static musec_status adamw_direction(ms_device *d, const ms_direction *p)
{
    ms_mat       g;
    musec_status st = MUSEC_OK;
    TRY(gradient(d, p, &g));
    TRY(d->ops->moments(d, moments_of(p), g, p->state[0], p->state[1], (ms_mat){ 0 }, p->out));
done:
    return st;
}

/* A rate as the half-life that it stands for, and back. */
static double half_life(double beta) { return log(0.5) / log(beta + 1e-8) - 1.0; }
static double rate(double life) { return pow(0.5, 1.0 / (life + 1.0)); }

static musec_status ademamix_direction(ms_device *d, const ms_direction *p)
{
    const musec_optim_config *cfg = p->cfg;
    const double              t   = (double)p->t;
    ms_moments                m   = moments_of(p);
    ms_mat                    g;
    musec_status              st = MUSEC_OK;
    m.alpha                      = cfg->alpha;
    m.beta3                      = cfg->beta3;
    if (cfg->alpha_warmup > 0) m.alpha *= fmin(1.0, t / (double)cfg->alpha_warmup);
    if (cfg->beta3_warmup > 0 && p->t < cfg->beta3_warmup) {
        const double s = t / (double)cfg->beta3_warmup;
        m.beta3        = rate((1.0 - s) * half_life(cfg->beta1) + s * half_life(cfg->beta3));
    }
    TRY(gradient(d, p, &g));
    TRY(d->ops->moments(d, m, g, p->state[0], p->state[1], p->state[2], p->out));
done:
    return st;
}

/* ---- Lion ------------------------------------------------------------------------------------ */

/* An average is never more than its gradients. */
static double lion_max_grad(const musec_optim_config *cfg, double threshold, double dtype_max)
{
    (void)cfg, (void)threshold;
    return dtype_max;
}

static musec_status lion_direction(ms_device *d, const ms_direction *p)
{
    const double beta1 = p->cfg->beta1, beta2 = p->cfg->beta2;
    ms_mat       g;
    musec_status st = MUSEC_OK;
    TRY(gradient(d, p, &g));
    const ms_term terms[] = {
        { .x_coef = ms_const(beta1), .y_coef = ms_const(1.0 - beta1), .out = p->out },
        { .x_coef = ms_const(beta2), .y_coef = ms_const(1.0 - beta2), .out = p->state[0] },
    };
    TRY(d->ops->combine(d, p->state[0], g, terms, 2));
    TRY(d->ops->unary(d, MS_UNARY_SIGN, p->out, p->out));
done:
    return st;
}

/* ---- the table ------------------------------------------------------------------------------- */

#define MOMENTUM_OPTIONS "beta|momentum-form|momentum-init|nesterov"
#define MOMENT_OPTIONS   "beta1|beta2|eps"
#define PRECOND_OPTIONS  "precondition-every|precondition-beta|max-precond-dim"

const char ms_base_choices[] = "sgdm|adamw|signum|ademamix|lion|soap|shampoo|kl-shampoo|dion2";

static const ms_base bases[] = {
    { .name                  = "sgdm",
      .states                = { "momentum" },
      .options               = MOMENTUM_OPTIONS,
      .direction             = sgdm_direction,
      .direction_is_momentum = true,
      .max_grad              = sgdm_max_grad },
    { .name      = "adamw",
      .states    = { "m", "v" },
      .options   = MOMENT_OPTIONS,
      .direction = adamw_direction,
      .max_grad  = moments_max_grad },
    { .name      = "signum",
      .states    = { "momentum" },
      .options   = MOMENTUM_OPTIONS,
      .direction = signum_direction,
      .max_grad  = sgdm_max_grad },
    { .name      = "ademamix",
      .states    = { "m", "v", "slow" },
      .options   = MOMENT_OPTIONS "|beta3|alpha|alpha-warmup|beta3-warmup",
      .direction = ademamix_direction,
      .max_grad  = moments_max_grad },
    { .name      = "lion",
      .states    = { "momentum" },
      .options   = "beta1|beta2",
      .direction = lion_direction,
      .max_grad  = lion_max_grad },
    { .name        = "soap",
      .states      = { "m", "v", "left", "right", "left-basis", "right-basis" },
      .options     = MOMENT_OPTIONS "|" PRECOND_OPTIONS,
      .direction   = ms_soap_direction,
      .max_grad    = ms_precond_max_grad,
      .state_shape = ms_precond_state_shape,
      .workspace   = ms_soap_bytes,
      .waits       = true },
    { .name        = "shampoo",
      .states      = { "m", "v", "left", "right", "left-root", "right-root" },
      .options     = MOMENT_OPTIONS "|" PRECOND_OPTIONS "|precondition-eps|graft",
      .direction   = ms_shampoo_direction,
      .max_grad    = ms_precond_max_grad,
      .state_shape = ms_precond_state_shape,
      .workspace   = ms_shampoo_bytes,
      .waits       = true },
    { .name        = "kl-shampoo",
      .states      = { "m", "left", "right", "left-basis", "right-basis", "left-values",
                       "right-values" },
      .options     = MOMENT_OPTIONS "|" PRECOND_OPTIONS,
      .direction   = ms_kl_shampoo_direction,
      .max_grad    = ms_kl_shampoo_max_grad,
      .state_shape = ms_precond_state_shape,
      .workspace   = ms_kl_shampoo_bytes,
      .waits       = true },
    { .name      = "dion2",
      .states    = { "momentum" },
      .options   = "beta|fraction",
      .direction = ms_dion2_direction,
      .max_grad  = ms_dion2_max_grad,
      .workspace = ms_dion2_bytes,
      .waits     = true },
};

const ms_base *ms_base_find(const char *name)
{
    for (size_t i = 0; name != NULL && i < COUNT(bases); i++)
        if (strcmp(bases[i].name, name) == 0) return &bases[i];
    return NULL;
}

bool ms_base_reads(const ms_base *base, const char *option)
{
    for (size_t i = 0; i < COUNT(bases); i++)
        if ((base == NULL || base == &bases[i]) && ms_choice_index(bases[i].options, option) >= 0)
            return true;
    return false;
}
