/* bench.c - runs the benches: peaks, rows and output.
 *
 * The peak of a dtype is the fastest of several products: on the host one of n = 2048 or four of
 * 1024 (a quarter of that if quick), in float32 also by the BLAS itself, and on a GPU one of 8192.
 * The peak of memory is a copy far larger than any cache.  The best time counts, as noise only
 * slows things down. */
#include "bench.h"

#include <cblas.h>
#include <string.h>

#include "core/json_file.h"
#include "core/thread.h"
#include "timing.h"

enum { PEAK_ROUNDS = 6 };

/* ---- the BLAS itself ------------------------------------------------------------------------- */

/* The CPU device sets an OpenBLAS with its own threads to one thread; direct calls use all of
 * them. */
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
    const ms_bench_product *p = product;
    (void)d;
    blas_threads(ms_thread_count());
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
    const ms_bench_product *p = product;
    return d->ops->gemm(d, 1.0, p->a, p->b, 0.0, p->c);
}

musec_status ms_bench_random(ms_bench *b, musec_dtype dtype, int64_t count, int64_t rows,
                             int64_t cols, double sd, ms_mat *out)
{
    musec_status st = MUSEC_OK;
    TRY(ms_scratch_mat(b->d, dtype, count, rows, cols, out));
    TRY(b->d->ops->normal(b->d, 1, 0.0, sd, *out));
done:
    return st;
}

/* ---- peaks ----------------------------------------------------------------------------------- */

static musec_status run_copy(ms_device *d, void *state)
{
    const ms_bench_product *p = state;
    return d->ops->copy(d, p->a, p->c);
}

/* The best rate of a candidate over a few rounds, as work in 1e6 per ms. */
static musec_status best_rate(ms_bench *b, ms_candidate *c, double work, double *best)
{
    const int    rounds = b->opt->quick ? 1 : PEAK_ROUNDS;
    musec_status st     = MUSEC_OK;
    for (int i = 0; i < rounds; i++) {
        TRY(ms_time_group(b->d, c, 1, 1));
        if (1e-6 * work / c->ms > *best) *best = 1e-6 * work / c->ms;
    }
done:
    return st;
}

static musec_status try_products(ms_bench *b, musec_dtype dtype, int64_t count, int64_t n)
{
    const ms_mark    mark = ms_arena_mark(&b->d->scratch);
    const double     flop = 2.0 * (double)(count * n * n * n);
    const bool       blas = dtype == MUSEC_F32 && strcmp(b->d->ops->name, "cpu") == 0;
    ms_bench_product p;
    ms_candidate     table  = { .run = ms_bench_gemm, .state = &p, .warm_up = true };
    ms_candidate     direct = { .run = ms_bench_cblas, .state = &p, .warm_up = true };
    musec_status     st     = MUSEC_OK;
    TRY(ms_bench_random(b, dtype, count, n, n, 1.0, &p.a));
    TRY(ms_bench_random(b, dtype, count, n, n, 1.0, &p.b));
    TRY(ms_bench_random(b, dtype, count, n, n, 1.0, &p.c));
    TRY(best_rate(b, &table, flop, &b->peaks.gemm[dtype]));
    if (blas) TRY(best_rate(b, &direct, flop, &b->peaks.gemm[dtype]));
done:
    ms_arena_reset(&b->d->scratch, mark);
    return st;
}

static musec_status try_copy(ms_bench *b, int64_t n)
{
    const ms_mark    mark = ms_arena_mark(&b->d->scratch);
    ms_bench_product p;
    ms_candidate     c  = { .run = run_copy, .state = &p };
    musec_status     st = MUSEC_OK;
    TRY(ms_bench_random(b, MUSEC_F32, 1, n, n, 1.0, &p.a));
    TRY(ms_bench_random(b, MUSEC_F32, 1, n, n, 1.0, &p.c));
    TRY(best_rate(b, &c, 2.0 * sizeof(float) * (double)(n * n), &b->peaks.copy));
done:
    ms_arena_reset(&b->d->scratch, mark);
    return st;
}

static musec_status find_peaks(ms_bench *b)
{
    const bool    host = ms_is_on_host(b->d), loops = strcmp(b->d->kind->name, "ref") == 0;
    const int64_t side = host ? (b->opt->quick ? 512 : 2048) : (b->opt->quick ? 2048 : 8192);
    musec_status  st   = MUSEC_OK;
    ms_log_progress(b->log, "peaks");
    for (musec_dtype t = MUSEC_F32; t <= MUSEC_F16; t = (musec_dtype)(t + 1)) {
        if (!ms_device_has(b->d, t)) continue;
        TRY(try_products(b, t, 1, loops ? 64 : side));
        if (host && !loops) TRY(try_products(b, t, 4, side / 2));
    }
    TRY(try_copy(b, loops ? 512 : 2 * side));
done:
    return st;
}

/* ---- rows of output -------------------------------------------------------------------------- */

bool ms_bench_wanted(const ms_bench *b, const char *section, const char *name, const char *shape)
{
    char text[160];
    snprintf(text, sizeof text, "%s %s %s", section, name, shape);
    if (b->opt->filter != NULL && strstr(text, b->opt->filter) == NULL) return false;
    if (b->opt->matched != NULL) ++*b->opt->matched;
    return true;
}

/* The shares of the two peaks, and the larger one. */
typedef struct roofs {
    double      gflop_s, gb_s, of_gemm, of_copy;
    const char *bound; /* NULL: neither FLOPs nor bytes are counted */
} roofs;

static roofs roofs_of(const ms_bench *b, const ms_bench_figure *f)
{
    const double gemm = b->peaks.gemm[f->dtype];
    roofs        r    = { .gflop_s = 1e-6 * f->flops / f->ms, .gb_s = 1e-6 * f->bytes / f->ms };
    if (gemm > 0.0) r.of_gemm = r.gflop_s / gemm;
    if (b->peaks.copy > 0.0) r.of_copy = r.gb_s / b->peaks.copy;
    if (r.of_gemm > 0.0 || r.of_copy > 0.0) r.bound = r.of_gemm > r.of_copy ? "gemm" : "copy";
    return r;
}

void ms_bench_row(ms_bench *b, const ms_bench_figure *f)
{
    const roofs  r    = roofs_of(b, f);
    const bool   tera = !ms_is_on_host(b->d);
    const double unit = tera ? 1e-3 : 1.0;
    if (b->opt->json) {
        json_t *row = json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:s?, s:f, s:s?}",
                                "section", f->section, "name", f->name, "shape", f->shape, "ms",
                                f->ms, "gflop_s", r.gflop_s, "gb_s", r.gb_s, "of_gemm_peak",
                                r.of_gemm, "of_copy_peak", r.of_copy, "bound", r.bound, "ratio",
                                f->against != NULL ? f->ratio : 0.0, "against", f->against);
        if (f->tokens > 0.0) ms_json_set(&row, "tokens_s", json_real(1e3 * f->tokens / f->ms));
        ms_json_append(&b->rows, row);
        return;
    }
    fprintf(b->out, "  %-24s %-32s %10.3f ms", f->name, f->shape, f->ms);
    if (r.gflop_s > 0.0)
        fprintf(b->out, " %8.1f %cFLOP/s %5.1f %%", unit * r.gflop_s, tera ? 'T' : 'G',
                100.0 * r.of_gemm);
    else if (r.gb_s > 0.0 || f->against != NULL)
        fprintf(b->out, "%25s", "");
    if (r.gb_s > 0.0) fprintf(b->out, " %8.1f GB/s %5.1f %%", r.gb_s, 100.0 * r.of_copy);
    if (r.gb_s > 0.0 && r.bound != NULL) fprintf(b->out, "  %s", r.bound);
    if (f->tokens > 0.0) fprintf(b->out, " %9.0f tokens/s", 1e3 * f->tokens / f->ms);
    if (f->against != NULL) fprintf(b->out, "  %6.3f x %s", f->ratio, f->against);
    fputc('\n', b->out);
}

void ms_bench_memory(ms_bench *b, const char *section, const char *name, const char *shape,
                     double bytes)
{
    if (b->opt->json)
        ms_json_append(&b->rows, json_pack("{s:s, s:s, s:s, s:f}", "section", section, "name", name,
                                           "shape", shape, "bytes", bytes));
    else
        fprintf(b->out, "  %-24s %-32s %10.3f GiB\n", name, shape, bytes / 0x1p30);
}

void ms_bench_count(ms_bench *b, const char *section, const char *name, const char *shape,
                    int64_t count)
{
    if (b->opt->json)
        ms_json_append(&b->rows, json_pack("{s:s, s:s, s:s, s:I}", "section", section, "name", name,
                                           "shape", shape, "count", (json_int_t)count));
    else
        fprintf(b->out, "  %-24s %-32s %10lld\n", name, shape, (long long)count);
}

void ms_bench_heading(const ms_bench *b, const char *text)
{
    if (!b->opt->json) fprintf(b->out, "\n%s\n", text);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void describe(const ms_bench *b, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s", b->d->kind->description);
    if (b->d->kind->describe != NULL) b->d->kind->describe(b->d, text, bytes);
}

static void print_peaks(const ms_bench *b)
{
    const char *separator = "";
    fprintf(b->out, "peaks, the best seen first: ");
    for (musec_dtype t = MUSEC_F32; t <= MUSEC_F16; t = (musec_dtype)(t + 1)) {
        if (b->peaks.gemm[t] <= 0.0) continue;
        fprintf(b->out, "%sgemm %s %.1f GFLOP/s", separator, ms_dtype_name(t), b->peaks.gemm[t]);
        separator = ", ";
    }
    fprintf(b->out, ", copy %.1f GB/s; medians of %d rounds\n", b->peaks.copy, b->rounds);
}

static json_t *peaks_json(const ms_bench *b)
{
    json_t *all = json_object();
    for (musec_dtype t = MUSEC_F32; t <= MUSEC_F16; t = (musec_dtype)(t + 1))
        if (b->peaks.gemm[t] > 0.0)
            ms_json_set(&all, ms_dtype_name(t), json_real(b->peaks.gemm[t]));
    return all;
}

musec_status ms_bench_begin(ms_bench *b)
{
    char         about[512];
    musec_status st;
    TRY(find_peaks(b));
    if (!b->opt->json) {
        describe(b, about, sizeof about);
        fprintf(b->out, "device %s: %s\n", b->d->name, about);
        print_peaks(b);
    }
done:
    return st;
}

musec_status ms_bench_run(const ms_bench_options *opt, ms_log *log, FILE *out,
                          musec_status (*body)(ms_bench *b), ms_error *error)
{
    ms_bench     b = { .opt = opt, .log = log, .out = out };
    char         about[512], why[256];
    musec_status st = musec_ctx_create_why(&b.d, opt->device, why, sizeof why);
    if (st != MUSEC_OK) return ms_fail(error, st, "%s", why);
    TRY(musec_ctx_set_deterministic(b.d, !opt->loose));
    b.rounds =
        opt->repeats > 0 ? (int)(opt->repeats < 1000 ? opt->repeats : 1000) : (opt->quick ? 3 : 9);
    if (opt->json) b.rows = json_array();
    describe(&b, about, sizeof about);
    TRY(body(&b));
    ms_log_end(log);
    if (opt->json) {
        json_t *all = json_pack("{s:s, s:s, s:o, s:f, s:i, s:O}", "device", b.d->name, "about",
                                about, "peak_gflop_s", peaks_json(&b), "peak_gb_s", b.peaks.copy,
                                "rounds", b.rounds, "rows", b.rows);
        TRY(ms_json_finish(&b.d->error, all, out));
    }
    if (b.broken > 0) TRY(ms_fail(&b.d->error, MUSEC_EDEVICE, "%d bounds are broken", b.broken));
done:
    if (st != MUSEC_OK) ms_fail(error, st, "%s", b.d->error.text);
    json_decref(b.rows);
    musec_ctx_destroy(b.d);
    return st;
}
