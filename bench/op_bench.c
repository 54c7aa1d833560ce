/* op_bench.c - three questions, answered in one run:
 *
 *   products   what does going through the op table cost against calling CBLAS directly, and what
 * does a symmetric product save? operators  how long does each way to clip take against the literal
 * form of the paper, 3K + 2 full products through the same op table? ops        what does each op
 * of the case list reach, in bytes and FLOP/s?
 *
 * "of peak" is a share of the fastest n = 2048 product that the BLAS itself did in this run. */
#include "op_bench.h"

#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "linalg/linalg.h"
#include "op_cases.h"
#include "timing.h"

enum { BATCH = 4, ITERS = 5 };

/* ---- products -------------------------------------------------------------------------------- */

static musec_status run_gemm_sym(ms_device *d, void *state)
{
    const ms_product *p = state;
    return d->ops->gemm_sym(d, 1.0, p->a, p->b, 0.0, p->c);
}

static musec_status run_square(ms_device *d, void *state)
{
    const ms_product *p = state;
    return d->ops->gemm_sym(d, 1.0, p->a, p->a, 0.0, p->c);
}

static musec_status run_gram(ms_device *d, void *state)
{
    const ms_product *p = state;
    return d->ops->gram(d, p->a, p->c);
}

static musec_status bench_product(ms_bench *b, int64_t m, int64_t n, int64_t k)
{
    static const char *const names[] = { "cblas_sgemm", "gemm", "gemm_sym", "gemm_sym a a",
                                         "gram" };
    const ms_mark            mark    = ms_arena_mark(&b->d->scratch);
    const bool               cpu     = strcmp(b->d->ops->name, "cpu") == 0;
    const bool               square  = m == n && n == k;
    const double             gflop   = 2e-9 * BATCH * (double)m * (double)n * (double)k;
    ms_product               p;
    ms_candidate             c[] = { { cpu ? ms_bench_cblas : ms_bench_gemm, &p, true, 0, 0 },
                                     { ms_bench_gemm, &p, true, 0, 0 },
                                     { run_gemm_sym, &p, false, 0, 0 },
                                     { run_square, &p, false, 0, 0 },
                                     { run_gram, &p, false, 0, 0 } };
    char                     shape[64];
    musec_status             st = MUSEC_OK;

    snprintf(shape, sizeof shape, "%lldx%lldx%lld f32, batch %d", (long long)m, (long long)n,
             (long long)k, BATCH);
    if (!ms_bench_wanted(b, "products", "gemm", shape)) return MUSEC_OK;
    ms_log_progress(b->log, "products: %s", shape);
    TRY(ms_bench_random(b, BATCH, m, k, 1.0, &p.a));
    TRY(ms_bench_random(b, BATCH, k, n, 1.0, &p.b));
    TRY(ms_bench_random(b, BATCH, m, n, 1.0, &p.c));
    TRY(ms_time_group(b->d, c, square ? 5 : 2, b->rounds + 4));
    for (int i = cpu ? 0 : 1; i < (square ? 5 : 2); i++) {
        const double done = i >= 2 ? gflop / 2 : gflop; /* a symmetric product needs half of it */
        ms_bench_row(b, "products", names[i], shape, c[i].ms, 1e3 * done / c[i].ms, 0.0, c[i].ratio,
                     cpu ? "CBLAS directly" : "gemm");
    }
done:
    ms_arena_reset(&b->d->scratch, mark);
    return st;
}

/* ---- operators ------------------------------------------------------------------------------- */

typedef struct clip_job {
    const char *name;
    musec_status (*run)(ms_device *d, const struct clip_job *job);
    const ms_plan *plan;
    int            half, full; /* r x r x r products */
    ms_mat         in, out;
    double         threshold;
} clip_job;

static musec_status clip_literal(ms_device *d, const clip_job *j)
{
    return ms_ssc_literal(d, j->in, ms_const(j->threshold), ITERS, j->out, NULL);
}

static musec_status clip_plan(ms_device *d, const clip_job *j)
{
    return ms_ssc_plan(d, j->in, ms_const(j->threshold), j->plan, j->out, NULL);
}

static musec_status clip_fast(ms_device *d, const clip_job *j)
{
    return ms_soft_fast(d, j->in, ms_const(j->threshold), j->out, NULL);
}

static musec_status clip_accurate(ms_device *d, const clip_job *j)
{
    return ms_soft_accurate(d, j->in, ms_const(j->threshold), 1e-3, j->out, NULL);
}

static musec_status clip_ns5(ms_device *d, const clip_job *j)
{
    return ms_newton_schulz(d, j->in, ms_quintic_list_find("keller"), ITERS, j->out);
}

static musec_status run_clip(ms_device *d, void *state)
{
    const clip_job *job = state;
    return job->run(d, job);
}

static musec_status bench_operators(ms_bench *b, int64_t r, int64_t n)
{
    const ms_mark mark = ms_arena_mark(&b->d->scratch);
    ms_plan       paper, paper7;
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

    snprintf(shape, sizeof shape, "%lldx%lld f32, batch %d", (long long)r, (long long)n, BATCH);
    if (!ms_bench_wanted(b, "operators", "ssc paper7 fast accurate ns5", shape)) return MUSEC_OK;
    ms_log_progress(b->log, "operators: %s", shape);
    ms_plan_newton_schulz(ITERS, &paper);
    ms_plan_paper7(&paper7);
    TRY(ms_bench_random(b, BATCH, r, n, 0.02,
                        &in)); /* the largest singular value is about 1 to 2 */
    TRY(ms_bench_random(b, BATCH, r, n, 0.02, &out));
    for (size_t i = 0; i < COUNT(jobs); i++) {
        jobs[i].in        = in;
        jobs[i].out       = out;
        jobs[i].threshold = 0.25;
        c[i]              = (ms_candidate){ .run = run_clip, .state = &jobs[i] };
    }
    TRY(ms_time_group(b->d, c, COUNT(jobs), b->rounds));
    for (size_t i = 0; i < COUNT(jobs); i++) {
        const double r3 = (double)(r * r * r), n_r2 = (double)(n * r * r);
        const double flop =
            jobs[i].full > 0
                ? BATCH * (r3 * (jobs[i].half + 2 * jobs[i].full) + n_r2 * (i == 0 ? 4.0 : 3.0))
                : 0.0;
        ms_bench_row(b, "operators", jobs[i].name, shape, c[i].ms, 1e-6 * flop / c[i].ms, 0.0,
                     c[i].ratio, "literal");
    }
done:
    ms_arena_reset(&b->d->scratch, mark);
    return st;
}

/* ---- every op of the case list --------------------------------------------------------------- */

static musec_status run_case(ms_device *d, void *state)
{
    (void)d;
    return op_run(state);
}

static musec_status bench_case(ms_bench *b, const op_case *c)
{
    op_args      args;
    ms_candidate one = { .run = run_case, .state = &args };
    char         name[128];
    musec_status st = MUSEC_OK;
    op_case_name(c, name, sizeof name);
    if (!ms_bench_wanted(b, "ops", name, "")) return MUSEC_OK;
    ms_log_progress(b->log, "ops: %s", name);
    TRY(op_setup(&args, b->d, c, 0));
    TRY(ms_time_group(b->d, &one, 1, b->rounds));
    const char *shape = strchr(name, ' ');
    ms_bench_row(b, "ops", c->op, shape == NULL ? "" : shape + 1, one.ms,
                 1e-6 * op_flops(&args) / one.ms, 1e-6 * op_bytes(&args) / one.ms, 0.0, NULL);
done:
    op_teardown(&args);
    return st;
}

static musec_status bench_cases(ms_bench *b)
{
    size_t       n     = 0;
    op_case     *cases = op_cases(&n);
    musec_status st    = MUSEC_OK;
    if (cases == NULL) TRY(ms_fail(&b->d->error, MUSEC_ENOMEM, "no memory for the list of cases"));
    for (size_t i = 0; i < n; i++)
        if (cases[i].timing) TRY(bench_case(b, &cases[i]));
done:
    free(cases);
    return st;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static musec_status run_all(ms_bench *b)
{
    static const int64_t sizes[][2] = { { 768, 768 }, { 768, 3072 }, { 1024, 4096 } };
    musec_status         st         = MUSEC_OK;
    ms_bench_heading(b, "products");
    for (size_t i = 0; i < COUNT(sizes); i++) {
        const int64_t r = b->opt->quick ? sizes[i][0] / 4 : sizes[i][0];
        const int64_t n = b->opt->quick ? sizes[i][1] / 4 : sizes[i][1];
        TRY(bench_product(b, r, n, r));
        if (r != n && n == 4096) TRY(bench_product(b, r, r, r));
    }
    ms_bench_heading(b, "operators, five steps where they have steps");
    for (size_t i = 0; i < COUNT(sizes); i++)
        TRY(bench_operators(b, b->opt->quick ? sizes[i][0] / 4 : sizes[i][0],
                            b->opt->quick ? sizes[i][1] / 4 : sizes[i][1]));
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
