/* weights.c - weights of 16 bits, whose steps are those of float32 weights.
 *
 * What 16 bits lack is kept beside the weight, in its layout (`rest` of a parameter):
 *
 *     bf16   the lower halves of float32 numbers whose upper halves the weight is (core/halves.h).
 *            Reading and writing both moves 8 bytes an element, a float32 beside the bf16 number
 *            10; and 2 bytes are kept, not 4.
 *     f16    the float32 numbers, for f16 has another exponent; the weight is their compute copy.
 *
 * Whoever needs float32 numbers to read gets them dense, in scratch. */
#include "optim/optim.h"

ms_mat ms_param_operand(const ms_param *p, ms_operand what)
{
    const bool master = p->rest.data != NULL && p->weight.dtype == MUSEC_F16;
    if (what == MS_WEIGHTS) return master ? p->rest : p->weight;
    if (p->rest.data == NULL) return p->copy;
    return master ? p->weight : p->rest;
}

const char *ms_rest_name(const ms_param *p)
{
    return p->weight.dtype == MUSEC_BF16 ? "low" : p->weight.dtype == MUSEC_F16 ? "master" : NULL;
}

uint64_t ms_rest_bytes(const ms_param *p)
{
    const ms_mat w = p->weight;
    if (ms_rest_name(p) == NULL) return 0;
    return (uint64_t)((w.count - 1) * w.stride + (w.rows - 1) * w.ld + w.cols) *
           ms_dtype_bytes(w.dtype == MUSEC_BF16 ? MUSEC_I16 : MUSEC_F32);
}

musec_status ms_take_rest(musec_optim *opt, ms_param *p)
{
    const ms_device_ops *op = opt->d->ops;
    musec_status         st = MUSEC_OK;
    if (ms_rest_name(p) == NULL) return MUSEC_OK;
    p->rest       = p->weight;
    p->rest.data  = NULL;
    p->rest.dtype = p->weight.dtype == MUSEC_BF16 ? MUSEC_I16 : MUSEC_F32;
    TRY(op->alloc(opt->d, (size_t)ms_rest_bytes(p), &p->rest.data));
    TRY(op->fill(opt->d, 0.0, p->rest));
    if (p->weight.dtype == MUSEC_F16) TRY(op->copy(opt->d, p->weight, p->rest));
done:
    return st;
}

/* Group k of a part of the weight, to rows of `dense`. */
static musec_status widen_group(musec_optim *opt, ms_part weight, ms_part rest, bool halves,
                                int64_t k, ms_mat dense)
{
    const ms_device_ops *op = opt->d->ops;
    const ms_mat         to = ms_dense_group(dense, weight, k);
    if (!halves) return op->copy(opt->d, ms_part_group(weight, k), to);
    return op->join_halves(opt->d, ms_part_group(weight, k), ms_part_group(rest, k), to);
}

musec_status ms_widen_member(musec_optim *opt, const ms_member *m, ms_mat dense)
{
    const ms_param    *p      = &opt->params[m->param];
    const musec_block *b      = &p->blocks[m->block];
    const bool         halves = p->weight.dtype == MUSEC_BF16;
    const ms_part      weight = ms_block_part(ms_param_operand(p, MS_WEIGHTS), b, m->index);
    const ms_part rest = halves ? ms_block_part(p->rest, b, m->index) : (ms_part){ .groups = 0 };
    musec_status  st   = MUSEC_OK;
    for (int64_t k = 0; k < weight.groups; k++)
        TRY(widen_group(opt, weight, rest, halves, k, dense));
done:
    return st;
}

musec_status ms_widen(musec_optim *opt, ms_mat weight, ms_mat rest, ms_mat dense)
{
    if (weight.dtype == MUSEC_BF16) return opt->d->ops->join_halves(opt->d, weight, rest, dense);
    return opt->d->ops->copy(opt->d, rest, dense);
}

musec_status ms_narrow(musec_optim *opt, ms_mat dense, ms_mat weight, ms_mat rest)
{
    const ms_device_ops *op = opt->d->ops;
    musec_status         st = MUSEC_OK;
    if (rest.dtype == MUSEC_I16) return op->split_halves(opt->d, dense, weight, rest);
    TRY(op->copy(opt->d, dense, rest));
    if (weight.data != NULL) TRY(op->copy(opt->d, dense, weight));
done:
    return st;
}

/* ---- to and from files ---------------------------------------------------------------------- */

musec_status ms_fetch_weight(musec_optim *opt, const ms_param *p, void *host)
{
    const ms_mark mark = ms_arena_mark(&opt->d->scratch);
    const size_t  each = (size_t)(p->weight.rows * p->weight.cols) * sizeof(float);
    ms_mat        wide;
    musec_status  st = MUSEC_OK;
    TRY(ms_scratch_mat(opt->d, MUSEC_F32, 1, p->weight.rows, p->weight.cols, &wide));
    for (int64_t b = 0; b < p->weight.count; b++) {
        TRY(ms_widen(opt, ms_mat_slice(p->weight, b, 1), ms_mat_slice(p->rest, b, 1), wide));
        TRY(opt->d->ops->download(opt->d, wide.data, each, (char *)host + (size_t)b * each));
    }
done:
    ms_arena_reset(&opt->d->scratch, mark);
    return st;
}

musec_status ms_put_weight(musec_optim *opt, const void *host, const ms_param *p)
{
    const ms_mark mark = ms_arena_mark(&opt->d->scratch);
    const size_t  each = (size_t)(p->weight.rows * p->weight.cols) * sizeof(float);
    ms_mat        wide;
    musec_status  st = MUSEC_OK;
    TRY(ms_scratch_mat(opt->d, MUSEC_F32, 1, p->weight.rows, p->weight.cols, &wide));
    for (int64_t b = 0; b < p->weight.count; b++) {
        TRY(opt->d->ops->upload(opt->d, (const char *)host + (size_t)b * each, each, wide.data));
        TRY(ms_narrow(opt, wide, (ms_mat){ 0 }, ms_mat_slice(p->rest, b, 1)));
    }
done:
    ms_arena_reset(&opt->d->scratch, mark);
    return st;
}
