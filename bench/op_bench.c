/* op_bench.c - three questions, answered in one run:
 *
 *   products   what does going through the op table cost against calling CBLAS directly, and what
 * does a symmetric product save? operators  how long does each way to clip take against the literal
 * form of the paper, 3K + 2 full products through the same op table? ops        what does each op
 * of the case list reach, in bytes and FLOP/s?
 *
 * "of peak" is a share of the fastest n = 2048 product that the BLAS itself did in this run. */
#include "op_bench.h"

#include <cblas.h>
#include <jansson.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "linalg/linalg.h"
#include "op_cases.h"
#include "timing.h"

enum { BATCH = 4, ITERS = 5 };

typedef struct bench {
    const ms_bench_options *opt;
    ms_log                 *log;
    FILE                   *out;
    ms_device              *d;
    json_t                 *rows; /* NULL unless JSON is wanted */
    int                     rounds;
    double                  peak; /* GFLOP/s in float32 */
} bench;

/* ---- the BLAS itself ------------------------------------------------------------------------- */

/* The CPU device keeps an OpenBLAS with threads of its own sequential; a direct call
 * gets them all. */
static void blas_threads(int n)
{
#ifdef MS_HAVE_OPENBLAS
    extern int  openblas_get_parallel(void);
    extern void openblas_set_num_threads(int threads);
    if (openblas_get_parallel() == 1) openblas_set_num_threads(n);
#else
    (void)n;
#endif
}

typedef struct product {
    ms_mat a, b, c;
} product;

static musec_status run_cblas(ms_device *d, void *state)
{
    const product *p = state;
    (void)d;
    blas_threads(omp_get_max_threads());
    for (int64_t i = 0; i < p->c.count; i++)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)p->c.rows, (int)p->c.cols,
                    (int)p->a.cols, 1.0f, (float *)p->a.data + i * p->a.stride, (int)p->a.ld,
                    (float *)p->b.data + i * p->b.stride, (int)p->b.ld, 0.0f,
                    (float *)p->c.data + i * p->c.stride, (int)p->c.ld);
    blas_threads(1);
    return MUSEC_OK;
}

static musec_status run_gemm(ms_device *d, void *state)
{
    const product *p = state;
    return d->ops->gemm(d, 1.0, p->a, p->b, 0.0, p->c);
}

static musec_status run_gemm_sym(ms_device *d, void *state)
{
    const product *p = state;
    return d->ops->gemm_sym(d, 1.0, p->a, p->b, 0.0, p->c);
}

static musec_status run_square(ms_device *d, void *state)
{
    const product *p = state;
    return d->ops->gemm_sym(d, 1.0, p->a, p->a, 0.0, p->c);
}

static musec_status run_gram(ms_device *d, void *state)
{
    const product *p = state;
    return d->ops->gram(d, p->a, p->c);
}

/* ---- rows of output -------------------------------------------------------------------------- */

static bool wanted(const bench *b, const char *section, const char *name, const char *shape)
{
    char text[160];
    snprintf(text, sizeof text, "%s %s %s", section, name, shape);
    return b->opt->filter == NULL || strstr(text, b->opt->filter) != NULL;
}

/* One figure: ratio is against `against`, or none if that is NULL. */
static void put_row(bench *b, const char *section, const char *name, const char *shape, double ms,
                    double gflop_s, double gb_s, double ratio, const char *against)
{
    if (b->rows != NULL) {
        json_array_append_new(b->rows,
                              json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:s?}", "section",
                                        section, "name", name, "shape", shape, "ms", ms, "gflop_s",
                                        gflop_s, "gb_s", gb_s, "ratio", ratio, "against", against));
        return;
    }
    fprintf(b->out, "  %-22s %-26s %10.3f ms", name, shape, ms);
    if (gflop_s > 0.0)
        fprintf(b->out, " %8.1f GFLOP/s %5.1f %%", gflop_s, 100.0 * gflop_s / b->peak);
    else if (gb_s > 0.0)
        fprintf(b->out, " %8.1f GB/s           ", gb_s);
    if (against != NULL) fprintf(b->out, "  %6.3f x %s", ratio, against);
    fputc('\n', b->out);
}

static void put_heading(const bench *b, const char *text)
{
    if (b->rows == NULL) fprintf(b->out, "\n%s\n", text);
}

/* ---- products -------------------------------------------------------------------------------- */

static musec_status take_random(bench *b, int64_t count, int64_t rows, int64_t cols, double sd,
                                ms_mat *out)
{
    musec_status st = MUSEC_OK;
    TRY(ms_scratch_mat(b->d, MUSEC_F32, count, rows, cols, out));
    TRY(b->d->ops->normal(b->d, 1, 0.0, sd, *out));
done:
    return st;
}

static musec_status find_peak(bench *b)
{
    const ms_mark mark = ms_arena_mark(&b->d->scratch);
    const int64_t n    = b->opt->quick ? 512 : 2048;
    product       p;
    ms_candidate  c  = { .run   = strcmp(b->d->ops->name, "cpu") == 0 ? run_cblas : run_gemm,
                         .state = &p };
    musec_status  st = MUSEC_OK;
    TRY(take_random(b, 1, n, n, 1.0, &p.a));
    TRY(take_random(b, 1, n, n, 1.0, &p.b));
    TRY(take_random(b, 1, n, n, 1.0, &p.c));
    for (int i = 0; i < 5; i++) { /* the best: noise only ever slows a product down */
        TRY(ms_time_group(b->d, &c, 1, 1));
        b->peak = 2e-6 * (double)(n * n * n) / c.ms > b->peak ? 2e-6 * (double)(n * n * n) / c.ms
                                                              : b->peak;
    }
done:
    ms_arena_reset(&b->d->scratch, mark);
    return st;
}

static musec_status bench_product(bench *b, int64_t m, int64_t n, int64_t k)
{
    static const char *const names[] = { "cblas_sgemm", "gemm", "gemm_sym", "gemm_sym a a",
                                         "gram" };
    const ms_mark            mark    = ms_arena_mark(&b->d->scratch);
    const bool               cpu     = strcmp(b->d->ops->name, "cpu") == 0;
    const bool               square  = m == n && n == k;
    const double             gflop   = 2e-9 * BATCH * (double)m * (double)n * (double)k;
    product                  p;
    ms_candidate             c[] = { { cpu ? run_cblas : run_gemm, &p, 0, 0 },
                                     { run_gemm, &p, 0, 0 },
                                     { run_gemm_sym, &p, 0, 0 },
                                     { run_square, &p, 0, 0 },
                                     { run_gram, &p, 0, 0 } };
    char                     shape[64];
    musec_status             st = MUSEC_OK;

    snprintf(shape, sizeof shape, "%lldx%lldx%lld f32, batch %d", (long long)m, (long long)n,
             (long long)k, BATCH);
    if (!wanted(b, "products", "gemm", shape)) return MUSEC_OK;
    ms_log_progress(b->log, "products: %s", shape);
    TRY(take_random(b, BATCH, m, k, 1.0, &p.a));
    TRY(take_random(b, BATCH, k, n, 1.0, &p.b));
    TRY(take_random(b, BATCH, m, n, 1.0, &p.c));
    TRY(ms_time_group(b->d, c, square ? 5 : 2, 2 * b->rounds + 1));
    for (int i = cpu ? 0 : 1; i < (square ? 5 : 2); i++) {
        const double done = i >= 2 ? gflop / 2 : gflop; /* a symmetric product needs half of it */
        put_row(b, "products", names[i], shape, c[i].ms, 1e3 * done / c[i].ms, 0.0, c[i].ratio,
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

static musec_status bench_operators(bench *b, int64_t r, int64_t n)
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
    if (!wanted(b, "operators", "ssc paper7 fast accurate ns5", shape)) return MUSEC_OK;
    ms_log_progress(b->log, "operators: %s", shape);
    ms_plan_newton_schulz(ITERS, &paper);
    ms_plan_paper7(&paper7);
    TRY(take_random(b, BATCH, r, n, 0.02, &in)); /* the largest singular value is about 1 to 2 */
    TRY(take_random(b, BATCH, r, n, 0.02, &out));
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
        put_row(b, "operators", jobs[i].name, shape, c[i].ms, 1e-6 * flop / c[i].ms, 0.0,
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

static musec_status bench_case(bench *b, const op_case *c)
{
    op_args      args;
    ms_candidate one = { .run = run_case, .state = &args };
    char         name[128];
    musec_status st = MUSEC_OK;
    op_case_name(c, name, sizeof name);
    if (!wanted(b, "ops", name, "")) return MUSEC_OK;
    ms_log_progress(b->log, "ops: %s", name);
    TRY(op_setup(&args, b->d, c, 0));
    TRY(ms_time_group(b->d, &one, 1, b->rounds));
    const char *shape = strchr(name, ' ');
    put_row(b, "ops", c->op, shape == NULL ? "" : shape + 1, one.ms,
            1e-6 * op_flops(&args) / one.ms, 1e-6 * op_bytes(&args) / one.ms, 0.0, NULL);
done:
    op_teardown(&args);
    return st;
}

static musec_status bench_cases(bench *b)
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

static musec_status run_all(bench *b)
{
    static const int64_t sizes[][2] = { { 768, 768 }, { 768, 3072 }, { 1024, 4096 } };
    musec_status         st         = MUSEC_OK;
    put_heading(b, "products");
    for (size_t i = 0; i < COUNT(sizes); i++) {
        const int64_t r = b->opt->quick ? sizes[i][0] / 4 : sizes[i][0];
        const int64_t n = b->opt->quick ? sizes[i][1] / 4 : sizes[i][1];
        TRY(bench_product(b, r, n, r));
        if (r != n && n == 4096) TRY(bench_product(b, r, r, r));
    }
    put_heading(b, "operators, five steps where they have steps");
    for (size_t i = 0; i < COUNT(sizes); i++)
        TRY(bench_operators(b, b->opt->quick ? sizes[i][0] / 4 : sizes[i][0],
                            b->opt->quick ? sizes[i][1] / 4 : sizes[i][1]));
    if (!b->opt->quick) {
        put_heading(b, "ops");
        TRY(bench_cases(b));
    }
done:
    return st;
}

static void describe(const bench *b, char *text, size_t bytes)
{
    if (strcmp(b->d->ops->name, "cpu") == 0)
        ms_device_cpu_describe(text, bytes);
    else
        snprintf(text, bytes, "%s", b->d->kind->words);
}

musec_status ms_bench_ops(const ms_bench_options *opt, ms_log *log, FILE *out, ms_error *error)
{
    bench        b = { .opt = opt, .log = log, .out = out };
    char         about[128];
    musec_status st = musec_ctx_create(&b.d, opt->device);
    if (st != MUSEC_OK) return ms_fail(error, st, "there is no device \"%s\" here", opt->device);
    b.rounds =
        opt->repeats > 0 ? (int)(opt->repeats < 1000 ? opt->repeats : 1000) : (opt->quick ? 3 : 9);
    if (opt->json) b.rows = json_array();
    describe(&b, about, sizeof about);
    TRY(find_peak(&b));
    if (b.rows == NULL)
        fprintf(
            out,
            "device %s: %s\npeak: %.1f GFLOP/s, the best float32 product of this run; medians of "
            "%d rounds\n",
            b.d->name, about, b.peak, b.rounds);
    TRY(run_all(&b));
    ms_log_end(log);
    if (b.rows != NULL) {
        json_t *all = json_pack("{s:s, s:s, s:f, s:i, s:O}", "device", b.d->name, "about", about,
                                "peak_gflop_s", b.peak, "rounds", b.rounds, "rows", b.rows);
        json_dumpf(all, out, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
        fputc('\n', out);
        json_decref(all);
    }
done:
    if (st != MUSEC_OK) ms_fail(error, st, "%s", b.d->error.text);
    json_decref(b.rows);
    musec_ctx_destroy(b.d);
    return st;
}
