/* second_moment.c - divides an update by its own size over time: that of each row (NorMuon), of
 * each row or column, or of each element (AdaMuon).
 *
 *     v <- b v + (1 - b) mean(U^2)          over the row, the column, or U^2 of the element itself
 *     O  = U / (sqrt(v) + eps)
 *     U <- O |U|_F / |O|_F
 *
 * v starts at zero and is not corrected for that: the norm that is given back cancels any factor
 * that all of v has in common.  Rows and columns cost a pass that sums their squares, in float64 as
 * v is, and one that scales them; what lies between are numbers of rows.  |O|_F follows from them,
 * so nothing is summed twice.  Elements cost a pass of the moments of Adam, two sums and a scale.
 *
 * Where the update is the momentum itself, as it is where that is stored clipped, a copy is
 * divided. */
#include <math.h>
#include <string.h>

#include "optim/optim.h"

#define DEFAULT_BETA 0.95
#define DEFAULT_EPS  1e-10

double ms_second_beta(const musec_optim_config *cfg)
{
    return cfg->second_beta > 0.0 ? cfg->second_beta : DEFAULT_BETA;
}

static double eps_of(const musec_optim_config *cfg)
{
    return cfg->second_eps > 0.0 ? cfg->second_eps : DEFAULT_EPS;
}

static bool by_columns(const musec_optim_config *cfg, const ms_group *g)
{
    return cfg->second_moment == MUSEC_SECOND_LONGER && g->rows < g->cols;
}

ms_mat ms_second_shape(const musec_optim *opt, const ms_group *g)
{
    ms_mat shape = { .rows = g->rows, .cols = g->cols, .dtype = g->dtype };
    if (opt->cfg.second_moment == MUSEC_SECOND_ELEMENTS) return shape;
    shape.dtype = MUSEC_F64;
    if (by_columns(&opt->cfg, g))
        shape.rows = 1;
    else
        shape.cols = 1;
    return shape;
}

uint64_t ms_second_bytes(const musec_optim *opt, const ms_group *g)
{
    enum { VECTORS = 4, FEW = 8 }; /* numbers of rows, and of the matrix */
    const uint64_t rows  = (uint64_t)(g->rows > g->cols ? g->rows : g->cols);
    const uint64_t whole = (uint64_t)(g->rows * g->cols) * ms_dtype_bytes(g->dtype);
    if (g->aux || opt->cfg.second_moment == MUSEC_SECOND_NONE) return 0;
    return 2 * whole + VECTORS * rows * sizeof(double) + (VECTORS + FEW) * MS_ARENA_ALIGN;
}

static musec_status keep_norm(ms_device *d, ms_vec before, ms_vec after)
{
    return ms_scalar_keep_norm(
        d, (ms_keep_norm_nums){ .before = ms_each(before), .after = ms_each(after) },
        (ms_keep_norm_vecs){ after });
}

/* The numbers of the rows of every matrix, as one matrix of a row for each. */
static ms_mat as_matrices(ms_vec numbers, int64_t count)
{
    const int64_t n = numbers.count / count;
    return (ms_mat){ .data   = numbers.data,
                     .rows   = 1,
                     .cols   = n,
                     .ld     = n,
                     .count  = count,
                     .stride = n,
                     .dtype  = MUSEC_F64 };
}

/* All rows of a stack, each as a matrix: matrices that follow each other without a gap, or one. */
static ms_mat as_rows(ms_mat x)
{
    ms_mat rows = x;
    rows.rows   = 1;
    rows.count  = x.rows * x.count;
    rows.stride = x.trans ? 1 : x.ld;
    return rows;
}

/* Divides the rows of u, whose second moments are v. */
static musec_status divide_rows(ms_device *d, const musec_optim_config *cfg, ms_mat u, ms_vec v)
{
    const ms_device_ops *op   = d->ops;
    const ms_mark        mark = ms_arena_mark(&d->scratch);
    const double         beta = ms_second_beta(cfg);
    const double         eps  = eps_of(cfg);
    ms_vec               sumsq, factor, scaled, before, after;
    ms_mat               by;
    musec_status         st = MUSEC_OK;
    TRY(ms_scratch_vec(d, v.count, &sumsq));
    TRY(ms_scratch_vec(d, v.count, &factor));
    TRY(ms_scratch_vec(d, v.count, &scaled));
    TRY(ms_scratch_vec(d, u.count, &before));
    TRY(ms_scratch_vec(d, u.count, &after));
    TRY(op->sumsq(d, as_rows(u), sumsq));
    TRY(ms_scalar_second_moment(d,
                                (ms_second_moment_nums){ .v     = ms_each(v),
                                                         .sumsq = ms_each(sumsq),
                                                         .inv_n = ms_const(1.0 / (double)u.cols),
                                                         .beta  = ms_const(beta),
                                                         .eps   = ms_const(eps) },
                                (ms_second_moment_vecs){ v, factor, scaled }));
    TRY(op->sum(d, as_matrices(sumsq, u.count), before));
    TRY(op->sum(d, as_matrices(scaled, u.count), after));
    TRY(keep_norm(d, before, after));
    by = as_matrices(factor, u.count);
    TRY(op->scale(d, ms_each(after), by));
    if (u.dtype != MUSEC_F64) {
        TRY(ms_scratch_mat(d, MUSEC_F32, u.count, 1, u.rows, &by));
        TRY(op->copy(d, as_matrices(factor, u.count), by));
    }
    TRY(op->scale_rows(d, by, u));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* Do the matrices of a stack follow each other without a gap? */
static bool is_dense(ms_mat x) { return x.count == 1 || x.stride == x.rows * x.cols; }

static musec_status divide_stack(ms_step *s, const ms_span *span, ms_mat state)
{
    const musec_optim_config *cfg     = &s->opt->cfg;
    const bool                columns = by_columns(cfg, span->g);
    const bool                at_once = !columns && is_dense(span->update) && is_dense(state);
    const int64_t             each    = at_once ? span->n : 1;
    musec_status              st      = MUSEC_OK;
    for (int64_t i = 0; i < span->n; i += each) {
        const ms_mat u = ms_mat_slice(span->update, i, each), v = ms_mat_slice(state, i, each);
        TRY(divide_rows(s->opt->d, cfg, columns ? ms_t(u) : u,
                        (ms_vec){ v.data, v.rows * v.cols * each }));
    }
done:
    return st;
}

static musec_status divide_elements(ms_step *s, const ms_span *span, ms_mat state)
{
    ms_device                *d     = s->opt->d;
    const ms_device_ops      *op    = d->ops;
    const musec_optim_config *cfg   = &s->opt->cfg;
    const ms_mark             mark  = ms_arena_mark(&d->scratch);
    const ms_moments          rates = {
                 .beta2    = ms_second_beta(cfg),
                 .eps      = eps_of(cfg),
                 .correct1 = 1.0,
                 .correct2 = 1.0,
    };
    const ms_mat none = { 0 }, u = span->update;
    ms_mat       first; /* the first moment, which is u itself */
    ms_vec       before, after;
    musec_status st = MUSEC_OK;
    TRY(ms_scratch_mat(d, u.dtype, u.count, u.rows, u.cols, &first));
    TRY(ms_scratch_vec(d, u.count, &before));
    TRY(ms_scratch_vec(d, u.count, &after));
    TRY(op->sumsq(d, u, before));
    TRY(op->fill(d, 0.0, first));
    TRY(op->moments(d, rates, u, first, state, none, u));
    TRY(op->sumsq(d, u, after));
    TRY(keep_norm(d, before, after));
    TRY(op->scale(d, ms_each(after), u));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

musec_status ms_divide_by_second(ms_step *s, ms_span *span)
{
    const musec_optim        *opt = s->opt;
    const musec_optim_config *cfg = &opt->cfg;
    const ms_group           *g   = span->g;
    const ms_mat              was = span->update;
    int                       k   = 0;
    musec_status              st  = MUSEC_OK;
    if (g->aux || cfg->second_moment == MUSEC_SECOND_NONE) return MUSEC_OK;
    while (strcmp(g->states[k], MS_SECOND_STATE) != 0)
        k++;
    const ms_mat state    = ms_state_of(g, k, span->first, span->n);
    const bool   elements = cfg->second_moment == MUSEC_SECOND_ELEMENTS;
    if (was.data == span->momentum.data || (elements && was.dtype != g->dtype)) {
        TRY(ms_scratch_mat(opt->d, g->dtype, span->n, g->rows, g->cols, &span->update));
        TRY(opt->d->ops->copy(opt->d, was, span->update));
    }
    TRY(elements ? divide_elements(s, span, state) : divide_stack(s, span, state));
done:
    return st;
}
