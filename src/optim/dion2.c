/* dion2.c - Dion2 (microsoft/dion): a fraction of the rows of the momentum at a time, with what is
 * not taken kept for later.
 *
 *     M <- M + G
 *     direction: M with zeros but in the k = ceil(fraction rows) rows of largest 1-norm
 *     in these rows M <- (1 - beta) M
 *
 * Rows are those of the shorter side: columns, where there are fewer of them.  A polar factor of
 * the direction is that of the rows taken.  Its authors compute these rows alone, which is cheaper;
 * here the function sees all of the matrix. */
#include <math.h>
#include <stdlib.h>

#include "optim/bases.h"
#include "optim/precondition.h"

/* A row that waits has a 1-norm no larger than that of one that was taken, which grows by a step's
 * gradients in 1 / fraction steps and forgets beta of it; an entry is at most the 1-norm of its
 * row, and a row has this many at most. */
double ms_dion2_max_grad(const musec_optim_config *cfg, double threshold, double dtype_max)
{
    const double entries = 1e6;
    (void)threshold;
    return dtype_max / entries * (cfg->beta > 0.0 ? cfg->beta * cfg->fraction : 1.0);
}

uint64_t ms_dion2_bytes(const musec_optim_config *cfg, ms_mat whole)
{
    enum { MATRICES = 2, VECTORS = 6, PIECES = 8 };
    const int64_t  n   = whole.rows < whole.cols ? whole.rows : whole.cols;
    const uint64_t one = (uint64_t)(whole.rows * whole.cols) * ms_dtype_bytes(whole.dtype);
    (void)cfg;
    return MATRICES * (one + MS_ARENA_ALIGN) + VECTORS * (uint64_t)n * sizeof(double) +
           PIECES * MS_ARENA_ALIGN;
}

/* The 1-norms of the rows of every matrix; x is overwritten by signs. */
static musec_status row_norms(ms_device *d, ms_mat m, bool by_columns, ms_mat x, ms_vec norms)
{
    const ms_mat  seen = by_columns ? ms_t(x) : x;
    const int64_t n    = seen.rows;
    musec_status  st   = MUSEC_OK;
    TRY(d->ops->unary(d, MS_UNARY_SIGN, m, x));
    TRY(d->ops->multiply(d, m, x, x));
    for (int64_t b = 0; b < x.count; b++) {
        ms_mat rows = ms_mat_slice(seen, b, 1);
        rows.count  = n;
        rows.rows   = 1;
        rows.stride = rows.trans ? 1 : rows.ld;
        TRY(d->ops->sum(d, rows, ms_vec_slice(norms, b * n, n)));
    }
done:
    return st;
}

/* Factors on the rows of every matrix, (count, 1, n) in its dtype: `taken` in the first k of its
 * order, `other` in the rest. */
static musec_status row_factors(ms_device *d, const int32_t *order, int64_t n, int64_t k,
                                double taken, double other, ms_mat like, ms_mat *out)
{
    const int64_t count = like.count;
    double       *host  = malloc((size_t)(count * n) * sizeof *host);
    ms_mat        wide  = {
                .rows = 1, .cols = n, .ld = n, .count = count, .stride = n, .dtype = MUSEC_F64
    };
    musec_status st = MUSEC_OK;
    if (host == NULL) TRY(ms_no_memory(&d->error, "the rows of Dion2"));
    for (int64_t b = 0; b < count; b++)
        for (int64_t i = 0; i < n; i++)
            host[b * n + order[b * n + i]] = i < k ? taken : other;
    TRY(ms_scratch_bytes(d, (size_t)(count * n) * sizeof *host, &wide.data));
    TRY(ms_scratch_mat(d, like.dtype, count, 1, n, out));
    TRY(d->ops->upload(d, host, (size_t)(count * n) * sizeof *host, wide.data));
    TRY(d->ops->copy(d, wide, *out));
    TRY(d->ops->sync(d)); /* host goes */
done:
    free(host);
    return st;
}

musec_status ms_dion2_direction(ms_device *d, const ms_direction *p)
{
    const ms_device_ops *op         = d->ops;
    const ms_mark        mark       = ms_arena_mark(&d->scratch);
    const ms_mat         m          = p->state[0];
    const bool           by_columns = m.rows > m.cols;
    const int64_t        n          = by_columns ? m.cols : m.rows;
    const int64_t        k          = (int64_t)ceil(p->cfg->fraction * (double)n);
    int32_t             *order      = malloc((size_t)(m.count * n) * sizeof *order);
    ms_mat               g, selected, kept;
    ms_vec               norms;
    musec_status         st = MUSEC_OK;

    if (order == NULL) TRY(ms_no_memory(&d->error, "the order of rows"));
    TRY(ms_precond_gradient(d, p, &g));
    TRY(op->axpby(d, ms_const(1.0), g, ms_const(p->t == 1 ? 0.0 : 1.0), m));
    TRY(ms_scratch_vec(d, m.count * n, &norms));
    TRY(row_norms(d, m, by_columns, g, norms));
    TRY(ms_falling_order(d, norms, m.count, order));
    TRY(row_factors(d, order, n, k, 1.0, 0.0, m, &selected));
    TRY(row_factors(d, order, n, k, 1.0 - p->cfg->beta, 1.0, m, &kept));
    TRY(op->copy(d, m, p->out));
    TRY(op->scale_rows(d, selected, by_columns ? ms_t(p->out) : p->out));
    TRY(op->scale_rows(d, kept, by_columns ? ms_t(m) : m));
done:
    free(order);
    ms_arena_reset(&d->scratch, mark);
    return st;
}
