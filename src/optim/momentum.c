/* momentum.c - what a step maps: the average of momentum and gradient, in 16 bits where it may be.
 *
 * Where the operator's products round their operands to 16 bits, the pass that averages the
 * momentum writes what is proposed in 16 bits, and in float32 only where somebody reads it so.  Its
 * scale must be known before that.  It comes from t, which stands for the largest entry of M:
 *     t <- keep t + add max|G|,   behind a clip at most D, as no entry is above the norm.
 * A clip may enlarge an entry, but not |M|_F, so |M|_F <= sqrt(rows cols) t throughout: no entry of
 * M / t is above that root, and f16 has room for it up to 2^30 elements.  From below, averages of
 * random gradients have entries of about t / 8 and more, where f16 loses none.
 *
 * max|G| is asked for anyway, for a step changes nothing if a gradient is not finite.  But a pass
 * over all gradients before the one that averages them is a pass too many.  Where the clip is
 * carried, averaging changes no state, and so it comes first: it takes max|G| to be GUESS times
 * that of the last step, and finds the true one on the way.  The guess is as good a bound as the
 * maximum while it is above it by no more than SLACK, which f16 has to spare; otherwise the group
 * is averaged again.  Whether the guess came first or was asked about later, the scale is the
 * same; but what is asked of a weight of several blocks is the largest of all of them. */
#include <math.h>

#include "optim/optim.h"

enum {
    GUESS     = 4,
    SLACK     = 16,
    MOST_UNIT = 96, /* log2; results that are far larger or smaller are numbers in float32 still */
};

/* ---- what is known of gradients -------------------------------------------------------------- */

/* max|G| at this step. */
static double grad_top(const musec_optim *opt, const ms_group *g, int64_t m)
{
    return g->guessed ? g->seen[m] : ms_optim_grad_bound(opt, &g->members[m]);
}

static double guess_of(const ms_group *g, int64_t m) { return GUESS * g->last[m]; }

static bool guess_holds(const ms_group *g, int64_t m, double top)
{
    const double guess = guess_of(g, m);
    return guess > 0.0 && guess < INFINITY && top <= guess && top >= guess / SLACK;
}

/* What the scale is taken from. */
static double scale_top(const musec_optim *opt, const ms_group *g, int64_t m)
{
    const double top = grad_top(opt, g, m);
    return ms_optim_guesses(opt, g) && guess_holds(g, m, top) ? guess_of(g, m) : top;
}

static bool all_hold(const ms_group *g)
{
    for (int64_t m = 0; m < g->count; m++)
        if (!guess_holds(g, m, g->seen[m])) return false;
    return true;
}

void ms_remember_grads(const musec_optim *opt, ms_group *g, int64_t first, int64_t n)
{
    for (int64_t m = first; ms_optim_guesses(opt, g) && m < first + n; m++)
        g->last[m] = grad_top(opt, g, m);
}

/* ---- propose --------------------------------------------------------------------------------- */

/* A part as one matrix: itself, or its groups gathered into scratch. */
static musec_status gathered(ms_device *d, ms_part part, ms_mat *out)
{
    musec_status st = MUSEC_OK;
    *out            = part.first;
    if (part.groups == 1) return MUSEC_OK;
    TRY(ms_scratch_mat(d, part.first.dtype, 1, part.first.rows * part.groups, part.first.cols,
                       out));
    for (int64_t k = 0; k < part.groups; k++)
        TRY(d->ops->copy(d, ms_part_group(part, k), ms_dense_group(*out, part, k)));
done:
    return st;
}

/* Weight decay that is a part of the gradient. */
static double coupled_decay(const musec_optim *opt, const ms_group *g, int64_t m)
{
    if (g->aux || opt->cfg.decay_form != MUSEC_DECAY_COUPLED) return 0.0;
    return ms_param_decay(opt, ms_member_param(opt, g, m));
}

static bool propose_alike(const musec_optim *opt, const ms_group *g, int64_t m, int64_t other)
{
    return !ms_member_in_groups(opt, g, m) && !ms_member_in_groups(opt, g, other) &&
           ms_member_param(opt, g, m)->t == ms_member_param(opt, g, other)->t &&
           coupled_decay(opt, g, m) == coupled_decay(opt, g, other);
}

static musec_status propose_some(musec_optim *opt, const ms_group *g, int64_t first, int64_t n,
                                 const ms_step *a, ms_proposal_mode mode, ms_mat u, ms_mat x,
                                 ms_vec seen)
{
    const ms_mark mark  = ms_arena_mark(&opt->d->scratch);
    const bool    known = mode != MS_PROPOSE_GUESS;
    double       *top_g = opt->numbers, *scale_g = opt->numbers + opt->n_ptrs;
    ms_proposal   p  = { .cfg     = ms_group_config(opt, g),
                         .t       = ms_member_param(opt, g, first)->t + 1,
                         .u       = u,
                         .x       = x,
                         .top     = g->top + first,
                         .top_g   = top_g,
                         .scale_g = scale_g,
                         .seen    = seen,
                         .zero    = ms_spectral_clips(g->spectral_fn) ? opt->cfg.threshold : 1.0,
                         .coupled = coupled_decay(opt, g, first),
                         .mode    = mode };
    musec_status  st = MUSEC_OK;

    if (mode == MS_PROPOSE_GUESSED && u.data == NULL) {
        p.g = p.w = (ms_mat){ 0 }; /* all was read */
    } else if (ms_member_in_groups(opt, g, first)) {
        TRY(gathered(opt->d, ms_member_part(opt, g, first, a, MS_GRADS), &p.g));
        if (p.coupled != 0.0)
            TRY(gathered(opt->d, ms_member_part(opt, g, first, a, MS_WEIGHTS), &p.w));
    } else {
        p.g = ms_member_list(opt, g, first, n, a, MS_GRADS);
        p.w = ms_member_list(opt, g, first, n, a, MS_WEIGHTS);
    }
    for (int s = 0; g->base->states[s] != NULL; s++)
        p.state[s] = ms_mat_slice(g->state[s], first, n);
    for (int64_t i = 0; x.data != NULL && i < n; i++) {
        top_g[i]   = known ? grad_top(opt, g, first + i) : NAN;
        scale_g[i] = known ? scale_top(opt, g, first + i) : guess_of(g, first + i);
    }
    TRY(g->base->propose(opt->d, &p));
done:
    ms_arena_reset(&opt->d->scratch, mark);
    return st;
}

/* Of u, x and seen, what has no data is not wanted. */
static musec_status propose(musec_optim *opt, const ms_group *g, int64_t first, int64_t n,
                            const ms_step *a, ms_proposal_mode mode, ms_mat u, ms_mat x,
                            ms_vec seen)
{
    musec_status st = MUSEC_OK;
    for (int64_t i = 0, next; i < n; i = next) {
        for (next = i + 1; next < n && propose_alike(opt, g, first + i, first + next);)
            next++;
        TRY(propose_some(opt, g, first + i, next - i, a, mode, ms_mat_slice(u, i, next - i),
                         ms_mat_slice(x, i, next - i), ms_vec_slice(seen, i, next - i)));
    }
done:
    return st;
}

musec_status ms_propose_ahead(musec_optim *opt, const ms_group *g, int64_t first, int64_t n,
                              const ms_step *a, ms_mat u, ms_mat x)
{
    return propose(opt, g, first, n, a, MS_PROPOSE_AHEAD, u, x, (ms_vec){ 0 });
}

/* Is the new momentum itself what is proposed?  Then nobody has to copy it. */
static bool proposes_state(const musec_optim *opt, const ms_group *g)
{
    const bool carries = opt->row->stores_clipped_momentum && !g->aux;
    return g->base->proposes_state && !carries && !opt->cfg.nesterov;
}

bool ms_optim_rounds_at_once(const musec_optim *opt, const ms_group *g)
{
    const musec_optim_config *cfg = &opt->cfg;
    if (g->aux || !g->base->proposes_state || !ms_is_16bit(g->operands) ||
        cfg->decay_form == MUSEC_DECAY_COUPLED || cfg->ns_mode == MUSEC_NS_EXACT || g->rows == 1 ||
        g->cols == 1 || g->rows > ((int64_t)1 << 30) / g->cols)
        return false;
    return g->spectral_fn == MS_SPECTRAL_POLAR || (g->spectral_fn == MS_SPECTRAL_SOFT_CLIP &&
                                                   cfg->threshold_rule == MUSEC_THRESHOLD_FIXED);
}

/* The bounds of momentum that came from a file without them. */
static musec_status know_tops(musec_optim *opt, const ms_group *g, int64_t first, int64_t n)
{
    const ms_mark mark    = ms_arena_mark(&opt->d->scratch);
    bool          unknown = false;
    ms_vec        tops;
    musec_status  st = MUSEC_OK;
    for (int64_t i = first; i < first + n; i++)
        unknown = unknown || g->top[i] < 0.0;
    if (!unknown) return MUSEC_OK;
    TRY(ms_scratch_vec(opt->d, n, &tops));
    TRY(opt->d->ops->absmax(opt->d, ms_mat_slice(g->state[0], first, n), tops));
    TRY(ms_vec_download(opt->d, tops, g->top + first));
done:
    ms_arena_reset(&opt->d->scratch, mark);
    return st;
}

static musec_status take_narrow(musec_optim *opt, const ms_group *g, int64_t n, ms_mat *x)
{
    ms_vec       own;
    musec_status st = MUSEC_OK;
    TRY(ms_scratch_vec(opt->d, n, &own));
    TRY(ms_scratch_mat(opt->d, g->operands, n, g->rows, g->cols, x));
    x->own = own.data;
done:
    return st;
}

musec_status ms_make_proposal(musec_optim *opt, const ms_group *g, int64_t first, int64_t n,
                              const ms_step *a, ms_mat *u, ms_mat *x)
{
    const bool       carries = opt->row->stores_clipped_momentum && !g->aux;
    const bool       narrow  = ms_optim_rounds_at_once(opt, g);
    ms_proposal_mode mode    = carries ? MS_PROPOSE_KEEP : MS_PROPOSE;
    musec_status     st      = MUSEC_OK;
    *u = *x = (ms_mat){ .count = n };
    if (narrow) {
        TRY(know_tops(opt, g, first, n));
        if (g->room.data != NULL)
            *x = ms_mat_slice(g->room, first, n);
        else
            TRY(take_narrow(opt, g, n, x));
    }
    if (g->guessed && all_hold(g)) mode = MS_PROPOSE_GUESSED;
    if (proposes_state(opt, g))
        *u = ms_mat_slice(g->state[0], first, n);
    else if (!narrow || (a->report && ms_spectral_clips(g->spectral_fn)))
        TRY(ms_scratch_mat(opt->d, g->dtype, n, g->rows, g->cols, u));
    TRY(propose(opt, g, first, n, a, mode, *u, *x, (ms_vec){ 0 }));
    x->own_e = g->own_e;
    for (int64_t i = first; narrow && carries && i < first + n; i++)
        g->top[i] = fmin(g->top[i], opt->cfg.threshold);
done:
    return st;
}

/* ---- on a guess ------------------------------------------------------------------------------ */

bool ms_optim_guesses(const musec_optim *opt, const ms_group *g)
{
    return opt->row->stores_clipped_momentum && opt->cfg.momentum_dtype == MUSEC_MOMENTUM_OWN &&
           ms_optim_rounds_at_once(opt, g);
}

bool ms_optim_remembers(const musec_optim *opt, const ms_group *g)
{
    const int mode = opt->cfg.ns_mode;
    return ms_optim_guesses(opt, g) && (mode == MUSEC_NS_FAST || mode == MUSEC_NS_ACCURATE);
}

static int64_t small_side(const ms_group *g) { return g->rows < g->cols ? g->rows : g->cols; }

bool ms_optim_are_kin(const musec_optim *opt, const ms_group *g, const ms_group *other)
{
    return small_side(g) == small_side(other) && g->dtype == other->dtype &&
           ms_optim_guesses(opt, g) && ms_optim_guesses(opt, other);
}

/* Is there a guess for each of the group?  With beta = 1 there is no average: the state is not to
 * be read. */
static bool may_guess(const musec_optim *opt, const ms_group *g, const ms_step *a)
{
    bool may = opt->cfg.beta < 1.0;
    for (int64_t m = 0; may && m < g->count; m++)
        may = ms_member_has_grad(g, m, a) && ms_member_param(opt, g, m)->t > 0 &&
              g->top[m] >= 0.0 && guess_holds(g, m, guess_of(g, m));
    return may;
}

musec_status ms_propose_guesses(musec_optim *opt, const ms_step *a, ms_vec tops, int64_t *at)
{
    musec_status st = MUSEC_OK;
    for (size_t i = 0; i < opt->n_params; i++)
        opt->params[i].guessed = 0;
    for (size_t i = 0; i < opt->n_groups; i++) {
        ms_group    *g    = &opt->groups[i];
        const ms_mat none = { .count = g->count };
        g->room           = (ms_mat){ 0 };
        g->guessed        = false;
        if (!opt->guesses_fit || !ms_optim_guesses(opt, g) || g->chunk < g->count) continue;
        TRY(take_narrow(opt, g, g->count, &g->room)); /* at every step: memory does not grow */
        if (!may_guess(opt, g, a)) continue;
        TRY(propose(opt, g, 0, g->count, a, MS_PROPOSE_GUESS, none, g->room,
                    ms_vec_slice(tops, *at, g->count)));
        g->guessed = true;
        g->seen    = opt->largest + *at;
        *at += g->count;
        for (int64_t m = 0; m < g->count; m++)
            opt->params[g->members[m].param].guessed += g->rows * g->cols;
    }
done:
    return st;
}

/* A product takes it as a float32, and a multiple of 4, so that the fourth root of the gain, which
 * rides on coefficients, keeps its digits. */
int ms_typical_scale(const musec_optim *opt, const ms_group *g)
{
    int64_t sum = 0, n = 0;
    for (size_t i = 0; i < opt->n_groups; i++) {
        const ms_group *one = &opt->groups[i];
        for (int64_t m = 0; (one == g || ms_optim_are_kin(opt, g, one)) && m < one->count; m++) {
            int e = 0;
            if (!(one->top[m] > 0.0 && one->top[m] < INFINITY)) continue;
            (void)frexp(one->top[m], &e);
            sum -= e > MOST_UNIT ? MOST_UNIT : e < -MOST_UNIT ? -MOST_UNIT : e;
            n++;
        }
    }
    return n > 0 ? 4 * (int)(sum / (4 * n)) : 0;
}
