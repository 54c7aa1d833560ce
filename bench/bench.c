/* bench.c - see bench.h.  The peak is the fastest float32 product seen before the run, one of n =
 * 2048 or four of 1024 (a quarter of that if quick), by the BLAS itself or through the op table:
 * noise only ever slows a product down. */
#include "bench.h"

#include <cblas.h>
#include <omp.h>
#include <string.h>

#include "timing.h"

/* ---- the BLAS itself ------------------------------------------------------------------------- */

/* The CPU device keeps an OpenBLAS with threads of its own sequential; a direct call
 * gets them all. */
static void blas_threads(int n)
{
#ifdef MS_HAVE_OPENBLAS
    /* NOLINTBEGIN(readability-redundant-declaration): they are not in every cblas.h */
    extern int  openblas_get_parallel(void);
    extern void openblas_set_num_threads(int threads);
    /* NOLINTEND(readability-redundant-declaration) */
    if (openblas_get_parallel() == 1) openblas_set_num_threads(n);
#else
    (void)n;
#endif
}

musec_status ms_bench_cblas(ms_device *d, void *product)
{
    const ms_product *p = product;
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

musec_status ms_bench_gemm(ms_device *d, void *product)
{
    const ms_product *p = product;
    return d->ops->gemm(d, 1.0, p->a, p->b, 0.0, p->c);
}

musec_status ms_bench_random(ms_bench *b, int64_t count, int64_t rows, int64_t cols, double sd,
                             ms_mat *out)
{
    musec_status st = MUSEC_OK;
    TRY(ms_scratch_mat(b->d, MUSEC_F32, count, rows, cols, out));
    TRY(b->d->ops->normal(b->d, 1, 0.0, sd, *out));
done:
    return st;
}

static musec_status try_peak(ms_bench *b, int64_t count, int64_t n)
{
    const ms_mark mark  = ms_arena_mark(&b->d->scratch);
    const double  gflop = 2e-9 * (double)(count * n * n * n);
    const bool    cpu   = strcmp(b->d->ops->name, "cpu") == 0;
    ms_product    p;
    ms_candidate  c[] = { { .run = ms_bench_gemm, .state = &p, .settle = true },
                          { .run = ms_bench_cblas, .state = &p, .settle = true } };
    musec_status  st  = MUSEC_OK;
    TRY(ms_bench_random(b, count, n, n, 1.0, &p.a));
    TRY(ms_bench_random(b, count, n, n, 1.0, &p.b));
    TRY(ms_bench_random(b, count, n, n, 1.0, &p.c));
    for (int i = 0; i < 6; i++) {
        TRY(ms_time_group(b->d, c, cpu ? 2 : 1, 1));
        for (int k = 0; k < (cpu ? 2 : 1); k++)
            if (1e3 * gflop / c[k].ms > b->peak) b->peak = 1e3 * gflop / c[k].ms;
    }
done:
    ms_arena_reset(&b->d->scratch, mark);
    return st;
}

static musec_status find_peak(ms_bench *b)
{
    musec_status st = MUSEC_OK;
    ms_log_progress(b->log, "peak");
    TRY(try_peak(b, 1, b->opt->quick ? 512 : 2048));
    TRY(try_peak(b, 4, b->opt->quick ? 256 : 1024));
done:
    return st;
}

/* ---- rows of output -------------------------------------------------------------------------- */

bool ms_bench_wanted(const ms_bench *b, const char *section, const char *name, const char *shape)
{
    char text[160];
    snprintf(text, sizeof text, "%s %s %s", section, name, shape);
    return b->opt->filter == NULL || strstr(text, b->opt->filter) != NULL;
}

void ms_bench_row(ms_bench *b, const char *section, const char *name, const char *shape, double ms,
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
    else if (against != NULL)
        fprintf(b->out, "%25s", "");
    if (against != NULL) fprintf(b->out, "  %6.3f x %s", ratio, against);
    fputc('\n', b->out);
}

void ms_bench_heading(const ms_bench *b, const char *text)
{
    if (b->rows == NULL) fprintf(b->out, "\n%s\n", text);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void describe(const ms_bench *b, char *text, size_t bytes)
{
    if (strcmp(b->d->ops->name, "cpu") == 0)
        ms_device_cpu_describe(text, bytes);
    else
        snprintf(text, bytes, "%s", b->d->kind->words);
}

musec_status ms_bench_run(const ms_bench_options *opt, ms_log *log, FILE *out,
                          musec_status (*body)(ms_bench *b), ms_error *error)
{
    ms_bench     b = { .opt = opt, .log = log, .out = out };
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
            "device %s: %s\npeak: %.1f GFLOP/s, the best float32 product seen first; medians of %d "
            "rounds\n",
            b.d->name, about, b.peak, b.rounds);
    TRY(body(&b));
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
