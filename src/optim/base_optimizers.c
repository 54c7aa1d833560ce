/* base_optimizers.c - what proposes an update: momentum, its sign, or Adam's moments.
 *
 *   sgdm      M <- (1 - beta) M + beta G       (ema; heavy-ball: M <- (1 - beta) M + G)
 *             proposes M, or with Nesterov (1 - beta) M + beta G (heavy-ball: (1 - beta) M + G)
 *   signum    the sign of what sgdm proposes
 *   adamw     m <- b1 m + (1 - b1) g,  v <- b2 v + (1 - b2) g^2
 *             proposes (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
 *   ademamix  adds alpha_t s to the numerator, s <- b3_t s + (1 - b3_t) g, which is not corrected
 * for its start; alpha_t grows linearly and the half-life of b3_t, from b1's, likewise
 *
 * At the first step the momentum is G itself (momentum-init first) or follows from zero.  Under
 * heavy-ball both are G. */
#include <math.h>
#include <string.h>

#include "optim/optim.h"

/* ---- momentum -------------------------------------------------------------------------------- */

/* out <- keep M + add G (+ add coupled W), out being M or another matrix. */
static musec_status average(ms_device *d, const ms_proposal *p, double keep, double add, ms_mat m,
                            ms_mat out)
{
    const ms_device_ops *op   = d->ops;
    const ms_term        term = { .x_coef = ms_const(keep), .y_coef = ms_const(add), .out = out };
    musec_status         st   = MUSEC_OK;
    if (keep == 0.0) /* what the state holds must not matter, not even a NaN */
        TRY(op->axpby(d, ms_const(add), p->g, ms_const(0.0), out));
    else
        TRY(op->combine(d, m, p->g, &term, 1));
    if (p->coupled != 0.0) TRY(op->axpby(d, ms_const(add * p->coupled), p->w, ms_const(1.0), out));
done:
    return st;
}

typedef struct weights { /* m M + g G */
    double m, g;
} weights;

/* Coefficients of the proposal times the scale of x, which is left in x.own. */
static musec_status scaled_weights(ms_device *d, const ms_proposal *p, weights look, ms_num *m,
                                   ms_num *g)
{
    ms_vec       to[3] = { { p->x.own, p->x.count } };
    musec_status st    = MUSEC_OK;
    for (int i = 1; i < 3; i++)
        TRY(ms_scratch_vec(d, p->x.count, &to[i]));
    TRY(d->ops->scalars(d, MS_SCALAR_AVERAGE, (double[]){ look.m, look.g }, 2,
                        (ms_num[]){ ms_host(p->top), ms_host(p->scale_g), ms_const(p->zero) }, to));
    *m = ms_each(to[1]);
    *g = ms_each(to[2]);
done:
    return st;
}

/* What a step keeps of M and adds of G, and the weights of what it proposes. */
static musec_status propose_narrow(ms_device *d, const ms_proposal *p, weights keep, weights look)
{
    const ms_mat  none = { 0 }, m = p->state[0];
    const ms_mark mark    = ms_arena_mark(&d->scratch);
    ms_term       term[3] = { 0 };
    int           n       = 0;
    musec_status  st      = MUSEC_OK;

    if (p->mode != MS_PROPOSE_GUESSED) {
        TRY(scaled_weights(d, p, look, &term[0].x_coef, &term[0].y_coef));
        term[n++].out = p->x;
    }
    if (p->mode == MS_PROPOSE_GUESS) {
        TRY(d->ops->average(d, term[0].x_coef, m, term[0].y_coef, p->g, p->x, p->seen));
        goto done;
    }
    if (p->u.data != NULL && p->u.data != m.data)
        term[n++] =
            (ms_term){ .x_coef = ms_const(look.m), .y_coef = ms_const(look.g), .out = p->u };
    if (p->mode == MS_PROPOSE)
        term[n++] = (ms_term){ .x_coef = ms_const(keep.m), .y_coef = ms_const(keep.g), .out = m };
    if (n > 0 && look.m != 0.0) {
        TRY(d->ops->combine(d, m, p->g, term, n));
    } else if (n > 0) { /* what the state holds must not matter, not even a NaN */
        for (int i = 0; i < n; i++)
            term[i].x_coef = term[i].y_coef;
        TRY(d->ops->combine(d, p->g, none, term, n));
    }
    for (int64_t i = 0; p->mode != MS_PROPOSE_AHEAD && i < p->x.count; i++)
        p->top[i] = (keep.m != 0.0 ? keep.m * p->top[i] : 0.0) + keep.g * p->top_g[i];
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

static musec_status propose_sgdm(ms_device *d, const ms_proposal *p)
{
    const musec_optim_config *cfg   = p->cfg;
    const bool                heavy = cfg->momentum_form == MUSEC_MOMENTUM_HEAVY;
    const bool                first = p->t == 1 && cfg->momentum_init == MUSEC_INIT_FIRST;
    const double              add   = heavy || first ? 1.0 : cfg->beta;
    const double              keep  = p->t == 1 ? 0.0 : 1.0 - cfg->beta;
    musec_status              st    = MUSEC_OK;
    const double              ahead = heavy ? 1.0 : cfg->beta;
    if (p->x.data != NULL) {
        const weights stored = { keep, add };
        weights       look   = stored;
        if (p->mode == MS_PROPOSE_AHEAD) look = (weights){ 1.0 - cfg->beta, ahead };
        if (p->mode == MS_PROPOSE && cfg->nesterov) /* from M as it will be */
            look = (weights){ (1.0 - cfg->beta) * keep, (1.0 - cfg->beta) * add + ahead };
        return propose_narrow(d, p, stored, look);
    }
    if (p->mode == MS_PROPOSE_KEEP) return average(d, p, keep, add, p->state[0], p->u);
    if (p->mode == MS_PROPOSE_AHEAD)
        return average(d, p, 1.0 - cfg->beta, ahead, p->state[0], p->u);
    TRY(average(d, p, keep, add, p->state[0], p->state[0]));
    if (cfg->nesterov)
        TRY(average(d, p, 1.0 - cfg->beta, ahead, p->state[0], p->u));
    else if (p->u.data != p->state[0].data)
        TRY(d->ops->copy(d, p->state[0], p->u));
done:
    return st;
}

/* Heavy-ball momentum sums up to 1 / beta times the gradient, but starts from what is kept; an
 * average is never more than its gradients. */
static double most_of_sgdm(const musec_optim_config *cfg, double kept, double top)
{
    const double keep = 1.0 - cfg->beta;
    if (cfg->momentum_form != MUSEC_MOMENTUM_HEAVY || cfg->beta == 0.0) return top;
    return fmax(cfg->beta * top, top - keep * kept); /* with beta 0, whatever it is goes some day */
}

static musec_status propose_signum(ms_device *d, const ms_proposal *p)
{
    musec_status st = MUSEC_OK;
    TRY(propose_sgdm(d, p));
    TRY(d->ops->sign(d, p->u, p->u));
done:
    return st;
}

/* ---- moments --------------------------------------------------------------------------------- */

/* Above, v would be infinite, and the weight would never move again. */
static double most_of_moments(const musec_optim_config *cfg, double kept, double top)
{
    (void)cfg, (void)kept;
    return sqrt(top);
}

/* g, or g + coupled w in u where there is coupled decay: u is written last. */
static musec_status gradient(ms_device *d, const ms_proposal *p, ms_mat *g)
{
    musec_status st = MUSEC_OK;
    *g              = p->g;
    if (p->coupled != 0.0) {
        const ms_term term = { .x_coef = ms_const(1.0),
                               .y_coef = ms_const(p->coupled),
                               .out    = p->u };
        TRY(d->ops->combine(d, p->g, p->w, &term, 1));
        *g = p->u;
    }
done:
    return st;
}

static ms_moments moments_of(const ms_proposal *p)
{
    const musec_optim_config *cfg = p->cfg;
    return (ms_moments){ .beta1    = cfg->beta1,
                         .beta2    = cfg->beta2,
                         .eps      = cfg->eps,
                         .correct1 = 1.0 - pow(cfg->beta1, (double)p->t),
                         .correct2 = 1.0 - pow(cfg->beta2, (double)p->t) };
}

static musec_status propose_adamw(ms_device *d, const ms_proposal *p)
{
    ms_mat       g;
    musec_status st = MUSEC_OK;
    TRY(gradient(d, p, &g));
    TRY(d->ops->moments(d, moments_of(p), g, p->state[0], p->state[1], (ms_mat){ 0 }, p->u));
done:
    return st;
}

/* A rate as the half-life that it stands for, and back. */
static double half_life(double beta) { return log(0.5) / log(beta + 1e-8) - 1.0; }
static double rate(double life) { return pow(0.5, 1.0 / (life + 1.0)); }

static musec_status propose_ademamix(ms_device *d, const ms_proposal *p)
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
    TRY(d->ops->moments(d, m, g, p->state[0], p->state[1], p->state[2], p->u));
done:
    return st;
}

const char ms_base_choices[] = "sgdm|adamw|signum|ademamix";

static const ms_base bases[] = {
    { .name   = "sgdm",
      .states = { "momentum" },
      propose_sgdm,
      .proposes_state = true,
      .most           = most_of_sgdm },
    { .name   = "adamw",
      .states = { "m", "v" },
      propose_adamw,
      .moments = true,
      .most    = most_of_moments },
    { .name = "signum", .states = { "momentum" }, propose_signum, .most = most_of_sgdm },
    { .name   = "ademamix",
      .states = { "m", "v", "slow" },
      propose_ademamix,
      .moments      = true,
      .slow_average = true,
      .most         = most_of_moments },
};

const ms_base *ms_base_find(const char *name)
{
    for (size_t i = 0; name != NULL && i < COUNT(bases); i++)
        if (strcmp(bases[i].name, name) == 0) return &bases[i];
    return NULL;
}
