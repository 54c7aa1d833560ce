/* op_product.c - times the op `product` in 16 bits, as the operators use it: squares of symmetric
 * matrices and Gram matrices with fused epilogues, each compared with the device's plain product of
 * the same size.  FLOPs are those needed: half if the result is symmetric. */
#include "bench.h"
#include "timing.h"

typedef struct epilogue_case {
    const char *name;
    bool        symmetric, source; /* source: adds a source operand */
    bool        wide;              /* a float32 result, with its sum of squares and trace */
    bool        gram, transposed;  /* x x^T; x is stored transposed */
} epilogue_case;

static const epilogue_case rows[] = {
    { .name = "square", .symmetric = true },
    { .name = "square + z", .symmetric = true, .source = true },
    { .name = "square, wide, sums", .symmetric = true, .wide = true },
    { .name = "product + z", .source = true },
    { .name = "gram, wide, sums", .symmetric = true, .wide = true, .gram = true },
    { .name       = "gram of x^T, wide, sums",
      .symmetric  = true,
      .wide       = true,
      .gram       = true,
      .transposed = true },
};

typedef struct product_operands {
    ms_mat x, transposed, source, c, wide; /* (r x k), (k x r), and three of (r x r) */
    ms_vec one, sumsq, trace;
} product_operands;

static musec_status run_product(ms_device *d, void *state)
{
    const ms_product *p = state;
    return d->ops->product(d, p);
}

static musec_status make_operands(ms_bench *b, int64_t batch, int64_t r, int64_t k,
                                  product_operands *o)
{
    ms_mat       one;
    musec_status st = MUSEC_OK;
    TRY(ms_bench_random(b, MUSEC_F16, batch, r, k, 0.02, &o->x));
    TRY(ms_bench_random(b, MUSEC_F16, batch, k, r, 0.02, &o->transposed));
    TRY(ms_bench_random(b, MUSEC_F16, batch, r, r, 0.02, &o->source));
    TRY(ms_bench_random(b, MUSEC_F16, batch, r, r, 0.02, &o->c));
    TRY(ms_bench_random(b, MUSEC_F32, batch, r, r, 0.02, &o->wide));
    TRY(ms_scratch_vec(b->d, batch, &o->one));
    TRY(ms_scratch_vec(b->d, batch, &o->sumsq));
    TRY(ms_scratch_vec(b->d, batch, &o->trace));
    one = (ms_mat){
        .data = o->one.data, .rows = 1, .cols = batch, .ld = batch, .count = 1, .dtype = MUSEC_F64
    };
    TRY(b->d->ops->fill(b->d, 1.0, one));
done:
    return st;
}

static ms_product product_of(const epilogue_case *w, const product_operands *o)
{
    const ms_mat x = w->transposed ? ms_t(o->transposed) : o->x;
    ms_product   p = { .a         = x,
                       .b         = w->gram ? ms_t(x) : x,
                       .alpha     = w->source ? ms_each(o->one) : ms_const(1.0),
                       .beta      = ms_each(o->one),
                       .diag      = w->source ? ms_each(o->one) : ms_const(0.0),
                       .c         = w->wide ? o->wide : o->c,
                       .symmetric = w->symmetric };
    if (w->source) p.source = o->source;
    if (w->wide) p.sumsq = o->sumsq, p.trace = o->trace;
    return p;
}

musec_status ms_bench_epilogues(ms_bench *b, int64_t batch, int64_t r, int64_t k)
{
    const ms_mark    mark = ms_arena_mark(&b->d->scratch);
    char             shape[64];
    product_operands o  = { 0 };
    musec_status     st = MUSEC_OK;

    snprintf(shape, sizeof shape, "%lldx%lldx%lld f16, batch %lld", (long long)r, (long long)r,
             (long long)k, (long long)batch);
    if (b->d->ops->product == NULL || !ms_device_has(b->d, MUSEC_F16) ||
        !ms_bench_wanted(b, "products", "product", shape))
        return MUSEC_OK;
    ms_log_progress(b->log, "products: %s", shape);
    TRY(make_operands(b, batch, r, k, &o));
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_product       p     = product_of(&rows[i], &o);
        ms_bench_product plain = { p.a, p.b, p.c };
        ms_candidate     c[]   = { { .run = ms_bench_gemm, .state = &plain },
                                   { .run = run_product, .state = &p } };
        if (!rows[i].gram && k != r) continue;
        TRY(ms_time_group(b->d, c, 2, b->rounds));
        ms_bench_row(b, &(ms_bench_figure){ .section = "products",
                                            .name    = rows[i].name,
                                            .shape   = shape,
                                            .ms      = c[1].ms,
                                            .dtype   = MUSEC_F16,
                                            .flops   = (rows[i].symmetric ? 1.0 : 2.0) *
                                                     (double)(batch * r * r * k),
                                            .ratio   = c[1].ratio,
                                            .against = "gemm" });
    }
done:
    ms_arena_reset(&b->d->scratch, mark);
    return st;
}
