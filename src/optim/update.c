/* update.c - the last phase of a step: decays the weights and subtracts the updates, where the
 * weights lie; then epoch averages. */
#include <math.h>

#include "core/rng.h"
#include "optim/optim.h"

double ms_shape_factor(int rule, int64_t rows, int64_t cols)
{
    const double m = (double)rows, n = (double)cols;
    switch (rule) {
    case MUSEC_SHAPE_KELLER: return sqrt(fmax(1.0, m / n));
    case MUSEC_SHAPE_MOONLIGHT: return 0.2 * sqrt(fmax(m, n));
    case MUSEC_SHAPE_MUP: return sqrt(m / n);
    case MUSEC_SHAPE_RMS: return sqrt(fmax(m, n));
    case MUSEC_SHAPE_FIXED_RMS: return 0.2 * sqrt(m * n); /* divided by the norm of each update */
    default: return 1.0;
    }
}

/* The share of a weight that decay takes, but for coupled decay, which is in the gradient.  lr has
 * the factor of the parameter; base_lr does not. */
static double decay_of(const musec_optim_config *cfg, double wd, double base_lr, double lr,
                       double shape)
{
    switch (cfg->decay_form) {
    case MUSEC_DECAY_DECOUPLED:
    case MUSEC_DECAY_AFTER:
    case MUSEC_DECAY_CAUTIOUS: return lr * wd;
    case MUSEC_DECAY_FRANK_WOLFE: return lr;
    case MUSEC_DECAY_INDEPENDENT: return wd;
    case MUSEC_DECAY_LR2: return lr * lr * wd;
    case MUSEC_DECAY_CAUTIOUS_LR2: return lr * shape * wd * base_lr;
    default: return 0.0; /* hyperball: as the norms require */
    }
}

/* The factor on the update of a matrix for a learning rate, but for what only the device knows, and
 * its decay.  Both are powers of the learning rate times what they are for a rate of 1, but that
 * decay after the step has a factor on the size as well. */
static void rates_for(const ms_step *s, const ms_group *g, int64_t m, double base_lr, double lr,
                      double *size, double *decay)
{
    const musec_optim_config *cfg = ms_group_config(s->opt, g);
    const double shape = g->aux ? 1.0 : ms_shape_factor(cfg->shape_rule, g->rows, g->cols);
    const double wd    = ms_step_decay(s, g->members[m].param);
    const double known = cfg->shape_rule == MUSEC_SHAPE_FIXED_RMS ? 1.0 : shape; /* beforehand */
    *decay             = decay_of(cfg, wd, base_lr, lr, known);
    *size              = cfg->decay_form == MUSEC_DECAY_HYPERBALL ? lr : lr * shape;
}

void ms_rates_of(const ms_step *s, const ms_group *g, int64_t m, double *size, double *decay)
{
    const double base_lr = ms_step_lr(s, g->members[m].param) * s->args.lr_scale;
    const double lr      = base_lr * ms_member_param(s->opt, g, m)->lr_factor;
    rates_for(s, g, m, base_lr, lr, size, decay);
    *size *= ms_group_config(s->opt, g)->decay_form == MUSEC_DECAY_AFTER ? 1.0 - *decay : 1.0;
}

/* The same where the learning rates lie on the device: vectors of them in scratch. */
static musec_status device_rates(ms_step *s, const ms_group *g, int64_t first, int64_t n,
                                 ms_num *size, ms_num *decay)
{
    musec_optim *opt     = s->opt;
    const double scale   = s->args.lr_scale;
    double      *factors = s->host->step_size, *decays = s->host->decay;
    ms_vec       lr, to[2];
    musec_status st = MUSEC_OK;
    TRY(ms_scratch_vec(opt->d, n, &lr));
    TRY(ms_scratch_vec(opt->d, n, &to[0]));
    TRY(ms_scratch_vec(opt->d, n, &to[1]));
    const int  form  = ms_group_config(opt, g)->decay_form;
    const bool once  = form == MUSEC_DECAY_INDEPENDENT,
               twice = form == MUSEC_DECAY_LR2 || form == MUSEC_DECAY_CAUTIOUS_LR2;
    const bool after = form == MUSEC_DECAY_AFTER;
    for (int64_t m = 0; m < n; m++) {
        const ms_param *param = ms_member_param(opt, g, first + m);
        TRY(ms_read_float(opt, ms_step_lr_at(s, g->members[first + m].param),
                          ms_vec_slice(lr, m, 1)));
        rates_for(s, g, first + m, scale, scale * param->lr_factor, &factors[m], &decays[m]);
    }
    TRY(ms_scalar_step_rates(
        opt->d,
        (ms_step_rates_nums){ .lr     = ms_each(lr),
                              .size   = ms_host(factors),
                              .after  = ms_const(after ? 1.0 : 0.0),
                              .decay0 = once ? ms_host(decays) : ms_const(0.0),
                              .decay1 = !once && !twice ? ms_host(decays) : ms_const(0.0),
                              .decay2 = twice ? ms_host(decays) : ms_const(0.0) },
        (ms_step_rates_vecs){ .size = to[0], .decay = to[1] }));
    *size  = ms_each(to[0]);
    *decay = ms_each(to[1]);
done:
    return st;
}

/* Divides sizes that lie on the device by what step_sizes divides by. */
static musec_status device_sizes(musec_optim *opt, const ms_group *g, ms_num threshold, ms_mat u,
                                 ms_num *size)
{
    const bool fixed_rms = opt->cfg.shape_rule == MUSEC_SHAPE_FIXED_RMS;
    const bool unit =
        opt->cfg.update_scale == MUSEC_SCALE_UNIT && ms_spectral_clips(g->spectral_fn);
    ms_vec       norm;
    musec_status st = MUSEC_OK;
    if (g->aux || (!fixed_rms && !unit)) return MUSEC_OK;
    if (fixed_rms) {
        TRY(ms_scratch_vec(opt->d, u.count, &norm));
        TRY(opt->d->ops->sumsq(opt->d, u, norm));
        TRY(ms_scalar_inv_norm(opt->d,
                               (ms_inv_norm_nums){ .sumsq  = ms_each(norm),
                                                   .factor = ms_const(1.0),
                                                   .eps    = ms_const(1e-30) },
                               (ms_inv_norm_vecs){ norm }));
        TRY(ms_scalar_divide(
            opt->d, (ms_divide_nums){ .numerator = ms_const(1.0), .denominator = ms_each(norm) },
            (ms_divide_vecs){ norm }));
        threshold = ms_each(norm);
    }
    TRY(ms_scalar_divide(opt->d, (ms_divide_nums){ .numerator = *size, .denominator = threshold },
                         (ms_divide_vecs){ size->each }));
done:
    return st;
}

/* The factors on the updates u: the sizes, divided by what only the device knows.  The sizes are
 * all 0 or none is; they are overwritten where they have to be divided. */
static musec_status step_sizes(musec_optim *opt, const ms_group *g, double *sizes, ms_num threshold,
                               ms_mat u, ms_num *step)
{
    const ms_device_ops *op        = opt->d->ops;
    const bool           fixed_rms = opt->cfg.shape_rule == MUSEC_SHAPE_FIXED_RMS;
    const bool           unit =
        opt->cfg.update_scale == MUSEC_SCALE_UNIT && ms_spectral_clips(g->spectral_fn);
    ms_vec       each;
    musec_status st = MUSEC_OK;
    *step           = ms_host(sizes);
    if (g->aux || sizes[0] == 0.0 || (!fixed_rms && !unit)) return MUSEC_OK;
    if (!fixed_rms && threshold.each.data == NULL) {
        for (int64_t i = 0; i < u.count; i++)
            sizes[i] /= threshold.value;
        return MUSEC_OK;
    }
    TRY(ms_scratch_vec(opt->d, u.count, &each));
    if (fixed_rms) { /* the norm cancels any scale, that of D too */
        for (int64_t i = 0; i < u.count; i++)
            sizes[i] = 1.0 / sizes[i];
        TRY(op->sumsq(opt->d, u, each));
        TRY(ms_scalar_inv_norm(opt->d,
                               (ms_inv_norm_nums){ .sumsq  = ms_each(each),
                                                   .factor = ms_host(sizes),
                                                   .eps    = ms_const(1e-30) },
                               (ms_inv_norm_vecs){ each }));
    } else {
        TRY(ms_scalar_divide(
            opt->d, (ms_divide_nums){ .numerator = ms_host(sizes), .denominator = threshold },
            (ms_divide_vecs){ each }));
    }
    *step = ms_each(each);
done:
    return st;
}

/* ---- the ball -------------------------------------------------------------------------------- */

uint64_t ms_ball_bytes(const musec_optim *opt, const ms_group *g)
{
    const uint64_t whole = (uint64_t)(g->rows * g->cols) * ms_dtype_bytes(g->dtype);
    if (ms_group_config(opt, g)->decay_form != MUSEC_DECAY_HYPERBALL) return 0;
    return 2 * (whole + MS_ARENA_ALIGN) + (uint64_t)4 * MS_ARENA_ALIGN;
}

/* The size and the decay by which W moves by lr |W|_F in the direction of -U, and back to the norm
 * that it had: c (W - a U) is W without 1 - c of itself, less c a U.  *size is lr. */
static musec_status ball_rates(ms_step *s, const ms_group *g, int64_t first, ms_mat u, ms_num *size,
                               ms_num *decay)
{
    ms_device           *d     = s->opt->d;
    const ms_device_ops *op    = d->ops;
    ms_term              moved = { .x_coef = ms_const(1.0) };
    ms_vec               before, after, factor;
    ms_mat               w;
    musec_status         st = MUSEC_OK;
    TRY(ms_scratch_vec(d, u.count, &before));
    TRY(ms_scratch_vec(d, u.count, &after));
    TRY(ms_scratch_vec(d, u.count, &factor));
    TRY(ms_wide_weights(s, g, first, u.count, &w));
    TRY(ms_scratch_mat(d, g->dtype, u.count, g->rows, g->cols, &moved.out));
    TRY(op->sumsq(d, w, before));
    TRY(op->sumsq(d, u, after));
    TRY(ms_scalar_on_ball(
        d, (ms_on_ball_nums){ .lr = *size, .weight = ms_each(before), .update = ms_each(after) },
        (ms_on_ball_vecs){ factor }));
    TRY(ms_scalar_divide(
        d, (ms_divide_nums){ .numerator = ms_each(factor), .denominator = ms_const(-1.0) },
        (ms_divide_vecs){ after }));
    moved.y_coef = ms_each(after);
    TRY(op->combine(d, w, u, &moved, 1));
    TRY(op->sumsq(d, moved.out, after));
    TRY(ms_scalar_to_ball(d,
                          (ms_to_ball_nums){ .size   = ms_each(factor),
                                             .before = ms_each(before),
                                             .after  = ms_each(after) },
                          (ms_to_ball_vecs){ .size = factor, .decay = after }));
    *size  = ms_each(factor);
    *decay = ms_each(after);
done:
    return st;
}

/* ---- the update ------------------------------------------------------------------------------ */

/* Says whether one call may update the weights of both members. */
static bool in_one_call(const ms_step *s, const ms_group *g, int64_t m, int64_t other)
{
    const musec_optim *opt  = s->opt;
    const ms_param    *of_x = ms_member_param(opt, g, m), *of_y = ms_member_param(opt, g, other);
    const ms_mat       x = ms_param_operand(of_x, MS_COPIES), y = ms_param_operand(of_y, MS_COPIES);
    if (ms_param_operand(of_x, MS_WEIGHTS).dtype != ms_param_operand(of_y, MS_WEIGHTS).dtype)
        return false;
    double size[2], decay[2];
    if ((ms_step_lr_at(s, g->members[m].param) == NULL) !=
        (ms_step_lr_at(s, g->members[other].param) == NULL))
        return false;
    ms_rates_of(s, g, m, &size[0], &decay[0]);
    ms_rates_of(s, g, other, &size[1], &decay[1]);
    return !ms_member_in_groups(opt, g, m) && !ms_member_in_groups(opt, g, other) &&
           (x.data == NULL) == (y.data == NULL) && (x.data == NULL || x.dtype == y.dtype) &&
           (size[0] == 0.0) == (size[1] == 0.0);
}

/* The number of matrices in the groups before this one. */
static int64_t first_matrix(const musec_optim *opt, const ms_group *g)
{
    int64_t n = 0;
    for (const ms_group *one = opt->groups; one < g; one++)
        n += one->count;
    return n;
}

/* Updates members first .. first + n - 1 of a group by one call. */
static musec_status update_some(ms_step *s, const ms_group *g, int64_t first, int64_t n,
                                ms_num threshold, ms_mat update)
{
    musec_optim         *opt  = s->opt;
    const ms_device_ops *op   = opt->d->ops;
    const int            form = ms_group_config(opt, g)->decay_form;
    const bool    cautious    = form == MUSEC_DECAY_CAUTIOUS || form == MUSEC_DECAY_CAUTIOUS_LR2;
    const bool    on_ball     = form == MUSEC_DECAY_HYPERBALL;
    const bool    copied = ms_param_operand(ms_member_param(opt, g, first), MS_COPIES).data != NULL;
    double       *sizes = s->host->step_size, *decays = s->host->decay;
    const ms_mark mark = ms_arena_mark(&opt->d->scratch);
    ms_mat        copy = { 0 };
    ms_num        step, decay = ms_host(decays);
    musec_status  st = MUSEC_OK;

    if (ms_step_lr_at(s, g->members[first].param) != NULL) {
        TRY(device_rates(s, g, first, n, &step, &decay));
        if (!on_ball) TRY(device_sizes(opt, g, threshold, update, &step));
    } else if (s->sizes.data != NULL) {
        const int64_t at = first_matrix(opt, g) + first;
        step             = ms_each(ms_vec_slice(s->sizes, at, n));
        decay            = ms_each(ms_vec_slice(s->decays, at, n));
        if (!on_ball) TRY(device_sizes(opt, g, threshold, update, &step));
    } else {
        for (int64_t i = 0; i < n; i++)
            ms_rates_of(s, g, first + i, &sizes[i], &decays[i]);
        step = ms_host(sizes);
        if (!on_ball) TRY(step_sizes(opt, g, sizes, threshold, update, &step));
    }
    if (on_ball) TRY(ball_rates(s, g, first, update, &step, &decay));
    if (!ms_member_in_groups(opt, g, first)) {
        if (copied) copy = ms_member_list(s, g, first, n, MS_COPIES);
        TRY(op->decay_add(opt->d, step, update, decay, cautious,
                          ms_member_list(s, g, first, n, MS_WEIGHTS), copy));
        goto done;
    }
    const ms_part part = ms_member_part(s, g, first, MS_WEIGHTS);
    for (int64_t k = 0; k < part.groups; k++) {
        if (copied) copy = ms_part_group(ms_member_part(s, g, first, MS_COPIES), k);
        TRY(op->decay_add(opt->d, step, ms_dense_group(update, part, k), decay, cautious,
                          ms_part_group(part, k), copy));
    }
done:
    ms_arena_reset(&opt->d->scratch, mark);
    return st;
}

musec_status ms_update_weights(ms_step *s, const ms_span *span, ms_num threshold)
{
    const int64_t first = span->first;
    musec_status  st    = MUSEC_OK;
    for (int64_t i = 0, next; i < span->n; i = next) {
        for (next = i + 1; next < span->n && in_one_call(s, span->g, first + i, first + next);)
            next++;
        TRY(update_some(s, span->g, first + i, next - i, ms_num_slice(threshold, i, next - i),
                        ms_mat_slice(span->update, i, next - i)));
    }
done:
    return st;
}

/* ---- epoch averages (paper: Algorithm 2) ----------------------------------------------------- */

int64_t ms_picked_epoch(const musec_optim *opt)
{
    const double  u = ms_rand_uniform(ms_rand_key(opt->cfg.seed, "picked epoch"), 0);
    const int64_t k = opt->cfg.avg_epochs > 0 ? opt->cfg.avg_epochs : 1;
    return (int64_t)(u * (double)k);
}

/* Matrix b of a weight in halves. */
static musec_status average_halves(musec_optim *opt, const ms_param *p, int64_t b, double share)
{
    const ms_mark mark = ms_arena_mark(&opt->d->scratch);
    ms_mat        wide;
    musec_status  st = MUSEC_OK;
    TRY(ms_scratch_mat(opt->d, MUSEC_F32, 1, p->weight.rows, p->weight.cols, &wide));
    TRY(ms_widen(opt, ms_mat_slice(p->weight, b, 1), ms_mat_slice(p->rest, b, 1), wide));
    TRY(opt->d->ops->axpby(opt->d, ms_const(share), wide, ms_const(1.0 - share),
                           ms_mat_slice(p->average, b, 1)));
done:
    ms_arena_reset(&opt->d->scratch, mark);
    return st;
}

/* Of K epochs of T steps one is picked beforehand, uniformly; while it runs, the average of its
 * weights W_0 ... W_{T-1} is kept, each as it is before a step: average += (W_t - average) / (t +
 * 1). */
musec_status ms_update_averages(musec_optim *opt)
{
    const int64_t T     = opt->cfg.avg_steps;
    const int64_t epoch = opt->t / (T > 0 ? T : 1);
    musec_status  st    = MUSEC_OK;
    if (T == 0 || epoch != ms_picked_epoch(opt)) return MUSEC_OK;
    const double share = 1.0 / (double)(opt->t % T + 1);
    for (size_t i = 0; i < opt->n_params; i++) {
        const ms_param *p = &opt->params[i];
        if (p->share.elsewhere) continue;
        for (int64_t b = 0; p->weight.dtype == MUSEC_BF16 && b < p->weight.count; b++)
            TRY(average_halves(opt, p, b, share));
        if (p->weight.dtype != MUSEC_BF16)
            TRY(opt->d->ops->axpby(opt->d, ms_const(share), ms_param_operand(p, MS_WEIGHTS),
                                   ms_const(1.0 - share), p->average));
    }
done:
    return st;
}
