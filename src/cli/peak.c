/* peak.c - the best of a few tries: noise on a busy machine only ever makes them slower.
 *
 * Copies are of 64 MiB, beyond most caches, and on a GPU of 1 GiB.  Products double in size until
 * the next one would overrun its share of time, so that a slow device answers as soon as a fast
 * one.  A GPU gets numbers that differ: it is faster on such as are all alike. */
#include "cli/peak.h"

#include "cli/cli.h"
#include "cli/stack.h"
#include "timing.h"

enum { TRIES = 3, GEMM_FIRST = 128 };

static const double gemm_budget_ms = 200.0; /* for each dtype */

static musec_status fill(ms_error *error, ms_device *d, double value, musec_view out)
{
    const ms_device_ops *op = d->ops;
    return ms_cli_check(error, d,
                        ms_is_on_host(d) ? op->fill(d, value, ms_mat_of(out))
                                         : op->uniform(d, 1, -value, value, ms_mat_of(out)));
}

static musec_status measure_copy(ms_error *error, ms_device *d, double *gb_s)
{
    const int64_t        side  = ms_is_on_host(d) ? 4096 : 16384;
    const ms_stack_shape shape = { 1, side, side };
    const double         bytes = 2.0 * sizeof(float) * (double)(side * side);
    musec_view           from = { 0 }, to = { 0 };
    musec_status         st;

    TRY(ms_stack_alloc(error, d, MUSEC_F32, shape, &from));
    TRY(ms_stack_alloc(error, d, MUSEC_F32, shape, &to));
    TRY(fill(error, d, 1.0, from)); /* pages come on first touch */
    TRY(fill(error, d, 0.0, to));
    *gb_s = 0.0;
    for (int i = 0; i < TRIES; i++) {
        double begin = 0.0, end = 0.0;
        TRY(ms_cli_check(error, d, d->ops->now_ms(d, &begin)));
        TRY(ms_cli_check(error, d, d->ops->copy(d, ms_mat_of(from), ms_mat_of(to))));
        TRY(ms_cli_check(error, d, d->ops->now_ms(d, &end)));
        if (end > begin && bytes / (end - begin) / 1e6 > *gb_s) *gb_s = bytes / (end - begin) / 1e6;
    }
done:
    ms_stack_free(d, &to);
    ms_stack_free(d, &from);
    return st;
}

/* The best time of an n x n x n product.  Tries again until a larger one would fit into what is
 * left of `budget_ms`, of which it takes what it used: one slow try never ends the search. */
static musec_status time_gemm(ms_error *error, ms_device *d, musec_dtype dtype, int64_t n,
                              double *budget_ms, double *best_ms)
{
    const ms_stack_shape shape = { 1, n, n };
    musec_view           a = { 0 }, b = { 0 }, c = { 0 };
    musec_status         st;

    TRY(ms_stack_alloc(error, d, dtype, shape, &a));
    TRY(ms_stack_alloc(error, d, dtype, shape, &b));
    TRY(ms_stack_alloc(error, d, dtype, shape, &c));
    TRY(fill(error, d, 0.5, a));
    TRY(fill(error, d, 0.25, b));
    /* the first product of its kind opens libraries and finds a way */
    if (!ms_is_on_host(d))
        TRY(ms_cli_check(error, d,
                         d->ops->gemm(d, 1.0, ms_mat_of(a), ms_mat_of(b), 0.0, ms_mat_of(c))));
    *best_ms = 0.0;
    for (int i = 0; i < TRIES || (*budget_ms > 0.0 && 8.0 * TRIES * *best_ms > *budget_ms); i++) {
        double begin = 0.0, end = 0.0;
        TRY(ms_cli_check(error, d, d->ops->now_ms(d, &begin)));
        TRY(ms_cli_check(error, d,
                         d->ops->gemm(d, 1.0, ms_mat_of(a), ms_mat_of(b), 0.0, ms_mat_of(c))));
        TRY(ms_cli_check(error, d, d->ops->now_ms(d, &end)));
        if (i == 0 || end - begin < *best_ms) *best_ms = end - begin;
        *budget_ms -= end - begin;
    }
done:
    ms_stack_free(d, &c);
    ms_stack_free(d, &b);
    ms_stack_free(d, &a);
    return st;
}

static musec_status measure_gemm(ms_error *error, ms_device *d, musec_dtype dtype, double *gflop_s)
{
    const int64_t last      = ms_is_on_host(d) ? 2048 : 8192;
    double        budget_ms = gemm_budget_ms;
    musec_status  st        = MUSEC_OK;

    *gflop_s = 0.0;
    for (int64_t n = GEMM_FIRST; n <= last && budget_ms > 0.0; n *= 2) {
        const double flop = 2.0 * (double)n * (double)n * (double)n;
        double       ms   = 0.0;
        TRY(time_gemm(error, d, dtype, n, &budget_ms, &ms));
        if (ms > 0.0 && flop / ms / 1e6 > *gflop_s) *gflop_s = flop / ms / 1e6;
    }
done:
    return st;
}

musec_status ms_peak_measure(ms_error *error, ms_device *d, ms_peak *out)
{
    musec_status st;

    TRY(measure_copy(error, d, &out->copy_gb_s));
    for (musec_dtype t = MUSEC_F32; t <= MUSEC_F16; t = (musec_dtype)(t + 1)) {
        out->gemm_gflop_s[t] = 0.0;
        if (ms_device_has(d, t)) TRY(measure_gemm(error, d, t, &out->gemm_gflop_s[t]));
    }
done:
    return st;
}
