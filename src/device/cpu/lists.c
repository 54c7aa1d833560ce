/* lists.c - grouped ops on the CPU: one call per matrix, each of which uses all threads. */
#include "device/cpu/cpu.h"

static ms_mat matrix_at(ms_mat x, int64_t b) { return x.data == NULL ? x : ms_mat_slice(x, b, 1); }

static musec_status grouped_copy(ms_device *d, ms_mat x, ms_mat out)
{
    const ms_device_ops *op = &ms_cpu_of(d)->stacks;
    musec_status         st = MUSEC_OK;
    if (x.ptrs == NULL && out.ptrs == NULL) return op->copy(d, x, out);
    for (int64_t b = 0; b < out.count; b++)
        TRY(op->copy(d, matrix_at(x, b), matrix_at(out, b)));
done:
    return st;
}

static musec_status grouped_axpby(ms_device *d, ms_num alpha, ms_mat x, ms_num beta, ms_mat y)
{
    const ms_device_ops *op = &ms_cpu_of(d)->stacks;
    musec_status         st = MUSEC_OK;
    if (x.ptrs == NULL && y.ptrs == NULL) return op->axpby(d, alpha, x, beta, y);
    for (int64_t b = 0; b < y.count; b++)
        TRY(op->axpby(d, ms_num_slice(alpha, b, 1), matrix_at(x, b), ms_num_slice(beta, b, 1),
                      matrix_at(y, b)));
done:
    return st;
}

static musec_status grouped_combine(ms_device *d, ms_mat x, ms_mat y, const ms_term *terms,
                                    int n_terms)
{
    const ms_device_ops *op    = &ms_cpu_of(d)->stacks;
    bool                 lists = x.ptrs != NULL || y.ptrs != NULL;
    ms_term              of[4] = { 0 };
    musec_status         st    = MUSEC_OK;
    for (int t = 0; t < n_terms; t++)
        lists = lists || terms[t].out.ptrs != NULL;
    if (!lists) return op->combine(d, x, y, terms, n_terms);
    for (int64_t b = 0; b < terms[0].out.count; b++) {
        for (int t = 0; t < n_terms; t++)
            of[t] = (ms_term){ .x_coef = ms_num_slice(terms[t].x_coef, b, 1),
                               .y_coef = ms_num_slice(terms[t].y_coef, b, 1),
                               .diag   = ms_num_slice(terms[t].diag, b, 1),
                               .out    = matrix_at(terms[t].out, b),
                               .mask   = ms_vec_slice(terms[t].mask, b, 1) };
        TRY(op->combine(d, matrix_at(x, b), matrix_at(y, b), of, n_terms));
    }
done:
    return st;
}

static musec_status grouped_moments(ms_device *d, ms_moments rates, ms_mat g, ms_mat m, ms_mat v,
                                    ms_mat slow, ms_mat u)
{
    const ms_device_ops *op = &ms_cpu_of(d)->stacks;
    musec_status         st = MUSEC_OK;
    if (g.ptrs == NULL && u.ptrs == NULL) return op->moments(d, rates, g, m, v, slow, u);
    for (int64_t b = 0; b < g.count; b++)
        TRY(op->moments(d, rates, matrix_at(g, b), matrix_at(m, b), matrix_at(v, b),
                        matrix_at(slow, b), matrix_at(u, b)));
done:
    return st;
}

/* Halves are joined to float32, matrix by matrix, for the loops that float32 weights have. */
static musec_status decay_add_halves(ms_device *d, ms_num step, ms_mat u, ms_num decay,
                                     bool cautious, ms_mat high, ms_mat low)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    const ms_mat  none = { 0 };
    ms_mat        wide;
    musec_status  st = MUSEC_OK;
    TRY(ms_scratch_mat(d, MUSEC_F32, 1, u.rows, u.cols, &wide));
    for (int64_t b = 0; b < u.count; b++) {
        const ms_mat h = matrix_at(high, b), l = matrix_at(low, b);
        TRY(d->ops->join_halves(d, h, l, wide));
        TRY(ms_cpu_of(d)->stacks.decay_add(d, ms_num_slice(step, b, 1), matrix_at(u, b),
                                           ms_num_slice(decay, b, 1), cautious, wide, none));
        TRY(d->ops->split_halves(d, wide, h, l));
    }
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

static musec_status grouped_decay_add(ms_device *d, ms_num step, ms_mat u, ms_num decay,
                                      bool cautious, ms_mat w, ms_mat copy)
{
    const ms_device_ops *op   = &ms_cpu_of(d)->stacks;
    const ms_mat         none = { 0 };
    musec_status         st   = MUSEC_OK;
    if (copy.data != NULL && copy.dtype == MUSEC_I16)
        return decay_add_halves(d, step, u, decay, cautious, w, copy);
    if (u.ptrs == NULL && w.ptrs == NULL && copy.ptrs == NULL) {
        TRY(op->decay_add(d, step, u, decay, cautious, w, none));
        if (copy.data != NULL) TRY(op->copy(d, w, copy));
        return st;
    }
    for (int64_t b = 0; b < w.count; b++) {
        TRY(op->decay_add(d, ms_num_slice(step, b, 1), matrix_at(u, b), ms_num_slice(decay, b, 1),
                          cautious, matrix_at(w, b), none));
        if (copy.data != NULL) TRY(op->copy(d, matrix_at(w, b), matrix_at(copy, b)));
    }
done:
    return st;
}

#define REDUCTION(name)                                                    \
    static musec_status grouped_##name(ms_device *d, ms_mat x, ms_vec out) \
    {                                                                      \
        const ms_device_ops *op = &ms_cpu_of(d)->stacks;                   \
        musec_status         st = MUSEC_OK;                                \
        if (x.ptrs == NULL) return op->name(d, x, out);                    \
        for (int64_t b = 0; b < x.count && st == MUSEC_OK; b++)            \
            st = op->name(d, matrix_at(x, b), ms_vec_slice(out, b, 1));    \
        return st;                                                         \
    }

REDUCTION(sum)
REDUCTION(sumsq)
REDUCTION(absmax)
REDUCTION(count_nonfinite)

void ms_cpu_list_ops(ms_device_ops *table)
{
    table->copy            = grouped_copy;
    table->axpby           = grouped_axpby;
    table->combine         = grouped_combine;
    table->moments         = grouped_moments;
    table->decay_add       = grouped_decay_add;
    table->sum             = grouped_sum;
    table->sumsq           = grouped_sumsq;
    table->absmax          = grouped_absmax;
    table->count_nonfinite = grouped_count_nonfinite;
}
