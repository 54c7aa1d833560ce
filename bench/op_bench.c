/* op_bench.c - times in one run:
 *
 *   products: the op table beside direct calls of CBLAS, and symmetric products
 *   operators: each way to clip beside the literal form of the paper, 3K + 2 full products through
 *       the same op table
 *   ops: FLOP/s and bytes of each op as a share of the fastest product and of the fastest copy in
 *       this run, and which of the two bounds it
 *
 * On a GPU an op rotates through several copies of its operands, so that they come from memory and
 * not from a cache. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include "linalg/linalg.h"
#include "op_cases.h"
#include "timing.h"

enum { ITERS = 5 };

/* ---- products -------------------------------------------------------------------------------- */

static musec_status run_symmetric(ms_device *d, const ms_bench_product *p, ms_mat b)
{
    return d->ops->product(
        d,
        &(ms_product){ .a = p->a, .b = b, .alpha = ms_const(1.0), .c = p->c, .symmetric = true });
}

static musec_status run_polynomials(ms_device *d, void *state)
{
    const ms_bench_product *p = state;
    return run_symmetric(d, p, p->b);
}

static musec_status run_square(ms_device *d, void *state)
{
    const ms_bench_product *p = state;
    return run_symmetric(d, p, p->a);
}

static musec_status run_gram(ms_device *d, void *state)
{
    const ms_bench_product *p = state;
    return run_symmetric(d, p, ms_t(p->a));
}

static musec_status bench_product(ms_bench *b, int64_t batch, int64_t m, int64_t n, int64_t k)
{
    static const char *const names[] = { "cblas_sgemm", "gemm", "symmetric a b", "symmetric a a",
                                         "symmetric a a^T" };
    const ms_mark            mark    = ms_arena_mark(&b->d->scratch);
    const bool               cpu     = strcmp(b->d->ops->name, "cpu") == 0;
    const bool               square  = m == n && n == k;
    const double             flops   = 2.0 * (double)(batch * m * n * k);
    ms_bench_product         p;
    ms_candidate             c[] = {
                    { .run = cpu ? ms_bench_cblas : ms_bench_gemm, .state = &p, .warm_up = true },
                    { .run = ms_bench_gemm, .state = &p, .warm_up = true },
                    { .run = run_polynomials, .state = &p },
                    { .run = run_square, .state = &p },
                    { .run = run_gram, .state = &p }
    };
    char         shape[64];
    musec_status st = MUSEC_OK;

    snprintf(shape, sizeof shape, "%lldx%lldx%lld f32, batch %lld", (long long)m, (long long)n,
             (long long)k, (long long)batch);
    if (!ms_bench_wanted(b, "products", "gemm", shape)) return MUSEC_OK;
    ms_log_progress(b->log, "products: %s", shape);
    TRY(ms_bench_random(b, MUSEC_F32, batch, m, k, 1.0, &p.a));
    TRY(ms_bench_random(b, MUSEC_F32, batch, k, n, 1.0, &p.b));
    TRY(ms_bench_random(b, MUSEC_F32, batch, m, n, 1.0, &p.c));
    TRY(ms_time_group(b->d, c, square ? 5 : 2, b->rounds + 4));
    for (int i = cpu ? 0 : 1; i < (square ? 5 : 2); i++) {
        const double done = i >= 2 ? flops / 2 : flops; /* a symmetric product needs half */
        ms_bench_row(b, &(ms_bench_figure){ .section = "products",
                                            .name    = names[i],
                                            .shape   = shape,
                                            .ms      = c[i].ms,
                                            .dtype   = MUSEC_F32,
                                            .flops   = done,
                                            .ratio   = c[i].ratio,
                                            .against = cpu ? "CBLAS directly" : "gemm" });
    }
done:
    ms_arena_reset(&b->d->scratch, mark);
    return st;
}

/* ---- operators ------------------------------------------------------------------------------- */

typedef struct clip_job {
    const char *name;
    musec_status (*run)(ms_device *d, const struct clip_job *job);
    const ms_poly_plan *plan;
    int                 half, full; /* r x r x r products */
    ms_mat              in, out;
    double              threshold;
    musec_dtype         operands; /* of products */
} clip_job;

static musec_status clip_literal(ms_device *d, const clip_job *j)
{
    return ms_ssc_literal(d, ms_stack(ms_unscaled(j->in), j->out), ms_const(j->threshold), ITERS,
                          j->operands, NULL);
}

static musec_status clip_plan(ms_device *d, const clip_job *j)
{
    return ms_ssc_plan(d, ms_stack(ms_unscaled(j->in), j->out), ms_const(j->threshold), j->plan,
                       j->operands, NULL);
}

static musec_status clip_fast(ms_device *d, const clip_job *j)
{
    return ms_soft_fast(d, ms_stack(ms_unscaled(j->in), j->out), ms_const(j->threshold),
                        j->operands, NULL);
}

static musec_status clip_accurate(ms_device *d, const clip_job *j)
{
    return ms_soft_accurate(d, ms_stack(ms_unscaled(j->in), j->out), ms_const(j->threshold), 1e-3,
                            j->operands, NULL);
}

static musec_status clip_ns5(ms_device *d, const clip_job *j)
{
    return ms_newton_schulz(d, ms_unscaled(j->in), ms_quintic_list_find("keller"), ITERS,
                            j->operands, j->out);
}

static musec_status run_clip(ms_device *d, void *state)
{
    const clip_job *job = state;
    return job->run(d, job);
}

static musec_status bench_operators(ms_bench *b, int64_t batch, int64_t r, int64_t n)
{
    const ms_mark mark = ms_arena_mark(&b->d->scratch);
    ms_poly_plan  paper, paper7;
    ms_mat        in, out;
    char          shape[64];
    clip_job      jobs[] = {
             { .name = "ssc --literal", .run = clip_literal, .half = 0, .full = 3 * ITERS },
             { .name = "ssc", .run = clip_plan, .plan = &paper, .half = 6, .full = 4 },
             { .name = "paper7", .run = clip_plan, .plan = &paper7, .half = 5, .full = 2 },
             { .name = "fast", .run = clip_fast, .half = 5, .full = 2 },
             { .name = "accurate --tol 1e-3", .run = clip_accurate },
             { .name = "ns5", .run = clip_ns5 },
    };
    ms_candidate c[COUNT(jobs)] = { { 0 } };
    musec_status st             = MUSEC_OK;

    snprintf(shape, sizeof shape, "%lldx%lld f32, batch %lld", (long long)r, (long long)n,
             (long long)batch);
    if (!ms_bench_wanted(b, "operators", "ssc paper7 fast accurate ns5", shape)) return MUSEC_OK;
    ms_log_progress(b->log, "operators: %s", shape);
    ms_plan_newton_schulz(ITERS, &paper);
    ms_poly_plan_paper7(&paper7);
    TRY(ms_bench_random(b, MUSEC_F32, batch, r, n, 0.02,
                        &in)); /* the largest singular value is about 1 to 2 */
    TRY(ms_bench_random(b, MUSEC_F32, batch, r, n, 0.02, &out));
    for (size_t i = 0; i < COUNT(jobs); i++) {
        jobs[i].in        = in;
        jobs[i].out       = out;
        jobs[i].threshold = 0.25;
        jobs[i].operands  = b->d->kind->compute_dtype;
        c[i]              = (ms_candidate){ .run = run_clip, .state = &jobs[i] };
    }
    TRY(ms_time_group(b->d, c, COUNT(jobs), b->rounds));
    for (size_t i = 0; i < COUNT(jobs); i++) {
        const double r3 = (double)(r * r * r), n_r2 = (double)(n * r * r);
        const double flop = jobs[i].full > 0
                                ? (double)batch * (r3 * (jobs[i].half + 2 * jobs[i].full) +
                                                   n_r2 * (i == 0 ? 4.0 : 3.0))
                                : 0.0;
        ms_bench_row(b, &(ms_bench_figure){ .section = "operators",
                                            .name    = jobs[i].name,
                                            .shape   = shape,
                                            .ms      = c[i].ms,
                                            .dtype   = jobs[i].operands,
                                            .flops   = flop,
                                            .ratio   = c[i].ratio,
                                            .against = "literal" });
    }
done:
    ms_arena_reset(&b->d->scratch, mark);
    return st;
}

/* ---- every op of the case list --------------------------------------------------------------- */

enum { MAX_COPIES = 16 };

static const double min_bytes = 256e6; /* more than any cache holds */

typedef struct case_copies { /* copies of a case that take turns */
    op_args args[MAX_COPIES];
    int     n, next;
} case_copies;

static musec_status run_next_copy(ms_device *d, void *state)
{
    case_copies *t = state;
    (void)d;
    t->next = (t->next + 1) % t->n;
    return op_run(&t->args[t->next]);
}

static musec_status make_copies(ms_bench *b, const op_case *c, case_copies *t)
{
    musec_status st = MUSEC_OK;
    do {
        TRY(op_setup(&t->args[t->n], b->d, c, 0));
        t->n++;
    } while (!ms_is_on_host(b->d) && t->n < MAX_COPIES && t->n * op_bytes(&t->args[0]) < min_bytes);
done:
    return st;
}

static musec_status bench_case(ms_bench *b, const op_case *c)
{
    case_copies *t   = calloc(1, sizeof *t);
    ms_candidate one = { .run = run_next_copy, .state = t };
    char         name[128];
    musec_status st = MUSEC_OK;
    op_case_name(c, name, sizeof name);
    if (t == NULL) TRY(ms_fail(&b->d->error, MUSEC_ENOMEM, "no memory for a case"));
    if (!ms_bench_wanted(b, "ops", name, "")) goto done;
    ms_log_progress(b->log, "ops: %s", name);
    TRY(make_copies(b, c, t));
    TRY(ms_time_group(b->d, &one, 1, b->rounds));
    const char *shape = strchr(name, ' ');
    ms_bench_row(b, &(ms_bench_figure){ .section = "ops",
                                        .name    = c->op,
                                        .shape   = shape == NULL ? "" : shape + 1,
                                        .ms      = one.ms,
                                        .dtype   = c->dtype,
                                        .flops   = op_flops(&t->args[0]),
                                        .bytes   = op_bytes(&t->args[0]) });
done:
    for (int i = 0; t != NULL && i < t->n; i++)
        op_teardown(&t->args[i]);
    free(t);
    return st;
}

static musec_status bench_cases(ms_bench *b)
{
    size_t       n     = 0;
    op_case     *cases = op_timings(b->d, &n);
    musec_status st    = MUSEC_OK;
    if (cases == NULL) TRY(ms_fail(&b->d->error, MUSEC_ENOMEM, "no memory for the list of cases"));
    for (size_t i = 0; i < n; i++)
        if ((!cases[i].slow || b->opt->all) && op_fits(b->d, &cases[i]))
            TRY(bench_case(b, &cases[i]));
done:
    free(cases);
    return st;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Batches that fill the device; a GPU gets all matrices of a model at once. */
static const struct {
    int64_t rows, cols, batch, on_gpu; /* batch 0: on a GPU only */
} sizes[] = {
    { 768, 768, 4, 44 },   { 768, 3072, 4, 22 },  { 1024, 4096, 4, 32 },
    { 1024, 1024, 0, 64 }, { 2048, 2048, 0, 64 }, { 2048, 8192, 0, 32 },
};

static musec_status run_all(ms_bench *b)
{
    const bool    host  = ms_is_on_host(b->d);
    const int64_t parts = b->opt->quick ? 4 : 1;
    musec_status  st    = MUSEC_OK;
    TRY(ms_bench_begin(b));
    ms_bench_heading(b, "products");
    for (size_t i = 0; i < COUNT(sizes); i++) {
        const int64_t r = sizes[i].rows / parts, n = sizes[i].cols / parts;
        const int64_t batch = host ? sizes[i].batch : sizes[i].on_gpu;
        if (batch > 0) TRY(bench_product(b, batch, r, n, r));
        if (host && r != n && sizes[i].cols == 4096) TRY(bench_product(b, batch, r, r, r));
    }
    for (size_t i = 0; i < COUNT(sizes) && !host; i++)
        TRY(ms_bench_epilogues(b, sizes[i].on_gpu, sizes[i].rows / parts, sizes[i].cols / parts));
    ms_bench_heading(b, "operators, five steps where they have steps");
    for (size_t i = 0; i < COUNT(sizes); i++) {
        const int64_t batch = host ? sizes[i].batch : sizes[i].on_gpu;
        if (batch > 0) TRY(bench_operators(b, batch, sizes[i].rows / parts, sizes[i].cols / parts));
    }
    if (!b->opt->quick) {
        ms_bench_heading(b, "ops");
        TRY(bench_cases(b));
    }
done:
    return st;
}

musec_status ms_bench_ops(const ms_bench_options *opt, ms_log *log, FILE *out, ms_error *error)
{
    return ms_bench_run(opt, log, out, run_all, error);
}
