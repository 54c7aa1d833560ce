/* device_values_test.c - what single ops promise beyond the cases of device_ops_test.c: NaN and
 * infinity, copies that keep every bit, random numbers by element index, and decompositions of
 * matrices that are hard to decompose.
 *
 * Decompositions are held to algebra, U diag(s) V^T = X and U^T U = I, and to the singular values
 * that the oracle chose.  Bounds: LAPACK's are p(n) eps with a modest polynomial p, relative to the
 * norm of the matrix (Users' Guide, section 4.9); here p(n) = 4 (rows + cols). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "device_rig.h"
#include "oracle.h"
#include "timing.h"

/* ---- not finite, and bit for bit ------------------------------------------------------------- */

/* The places are inside a vector load, at the end of a row and in the last tile. */
TEST_EACH_DEVICE(a_nan_is_found_anywhere, dev)
{
    static const int64_t places[][2] = {
        { 0, 0 }, { 0, 76 }, { 100, 33 }, { 298, 5 }, { 299, 76 }
    };
    double host[3] = { 0 };
    EACH_DTYPE_OF(dev, dtype, MUSEC_F16)
    {
        stack        x   = stack_make(dev, dtype, 3, 300, 77);
        const ms_vec out = vec_make(dev, host, 3);
        for (size_t p = 0; p < COUNT(places); p++) {
            ms_put(x.host, 1, places[p][0], places[p][1], (double)NAN);
            ms_put(x.host, 2, places[p][0], places[p][1], (double)-INFINITY);
            ms_put(x.host, 0, places[p][0], places[p][1], -3.0);
            stack_send(&x);
            CHECK_OK(dev, dev->ops->absmax(dev, x.mat, out));
            CHECK_OK(dev, ms_vec_download(dev, out, host));
            CHECK(host[0] == 3.0 && isnan(host[1]) && isinf(host[2]), "place %zu: %g %g %g", p,
                  host[0], host[1], host[2]);
            CHECK_OK(dev, dev->ops->count_nonfinite(dev, ms_t(x.mat), out));
            CHECK_OK(dev, ms_vec_download(dev, out, host));
            CHECK(host[0] == 0.0 && host[1] == 1.0 && host[2] == 1.0, "place %zu: %g %g %g", p,
                  host[0], host[1], host[2]);
            for (int64_t b = 0; b < 3; b++)
                ms_put(x.host, b, places[p][0], places[p][1], 0.0);
        }
        dev->ops->free(dev, out.data);
        stack_free(&x);
    }
}

/* Copies, transposed or not, and scaling by 1 keep the bits even of signalling NaNs. */
TEST_EACH_DEVICE(copy_and_scale_by_one_keep_every_bit, dev)
{
    enum { N = 17 };
    EACH_DTYPE_OF(dev, dtype, MUSEC_F16)
    {
        stack          x    = stack_make(dev, dtype, 1, N, N);
        stack          y    = stack_make(dev, dtype, 1, N, N);
        unsigned char *back = malloc(x.bytes);
        for (size_t i = 0; i < x.bytes; i += ms_dtype_bytes(x.mat.dtype)) {
            const uint16_t s16 = (uint16_t)(i % 2 + (dtype == MUSEC_BF16 ? 0x7f81u : 0xfc01u));
            const uint32_t s32 = 0x7f800001u + (uint32_t)i;
            const uint64_t s64 = 0xfff0000000000001u + i;
            const size_t   n   = ms_dtype_bytes(dtype);
            memcpy((char *)x.host.data + i,
                   n == 2   ? (const void *)&s16
                   : n == 4 ? (const void *)&s32
                            : &s64,
                   n);
        }
        stack_send(&x);
        CHECK_OK(dev, dev->ops->scale(dev, ms_const(1.0), x.mat));
        CHECK_OK(dev, dev->ops->copy(dev, ms_t(x.mat), ms_t(y.mat)));
        CHECK_OK(dev, dev->ops->copy(dev, ms_t(y.mat), x.mat)); /* the transpose ... */
        CHECK_OK(dev, dev->ops->copy(dev, ms_t(x.mat), y.mat)); /* ... and back */
        CHECK_OK(dev, dev->ops->download(dev, y.mat.data, y.bytes, back));
        CHECK(memcmp(back, x.host.data, x.bytes) == 0, "%s", ms_dtype_name(dtype));
        free(back);
        stack_free(&x), stack_free(&y);
    }
}

/* Few matrices of the stack have a factor other than 1. */
TEST_EACH_DEVICE(scale_multiplies_each_matrix_by_its_factor, dev)
{
    static const struct {
        int64_t count, rows, cols;
    } shapes[] = { { 600, 6, 8 }, { 3, 72, 1024 }, { 300, 3, 5 }, { 1, 40, 64 } };
    EACH_DTYPE_OF(dev, dtype, MUSEC_F16)
    {
        for (size_t s = 0; s < COUNT(shapes); s++) {
            const int64_t count = shapes[s].count, each = shapes[s].rows * shapes[s].cols;
            stack         x       = stack_make(dev, dtype, count, shapes[s].rows, shapes[s].cols);
            double       *factors = check_alloc((size_t)count * sizeof *factors);
            for (int64_t b = 0; b < count; b++)
                factors[b] = b % 299 == 0 || b == count - 1 ? 0.125 : 1.0;
            for (int64_t k = 0; k < count * each; k++)
                ms_put(x.host, 0, 0, k, (double)(k % 31 + 1));
            stack_send(&x);
            const ms_vec vec = vec_make(dev, factors, count);
            CHECK_OK(dev, dev->ops->scale(dev, ms_each(vec), x.mat));
            stack_receive(&x);
            for (int64_t k = 0; k < count * each; k++)
                CHECK(ms_at(x.host, 0, 0, k) == factors[k / each] * (double)(k % 31 + 1),
                      "%s, shape %zu: element %lld is %g", ms_dtype_name(dtype), s, (long long)k,
                      ms_at(x.host, 0, 0, k));
            free(factors);
            dev->ops->free(dev, vec.data);
            stack_free(&x);
        }
    }
}

/* Whether it scaled or not, the result is the reported factor times x, and x is unchanged. */
TEST_EACH_DEVICE(prescale_reports_the_factor_it_applied, dev)
{
    static const double factors[][2] = {
        { 0x1p-20, 4.0 }, { 0x1p-21, 1.0 }, { 3.0, 1.0 }, { 1.0, 0x1p60 }
    };
    enum { N = 300 };
    stack  x = stack_make(dev, MUSEC_F32, 2, N, N), buffer = stack_make(dev, MUSEC_F32, 2, N, N);
    void  *back         = malloc(x.bytes);
    double now[2]       = { 0 };
    const ms_vec factor = vec_make(dev, now, 2);
    for (int64_t i = 0; i < 2 * N * N; i++)
        ms_put(x.host, 0, 0, i, 1.0 + (double)i / (2 * N * N));
    stack_send(&x);
    for (size_t f = 0; f < COUNT(factors); f++) {
        ms_mat scaled;
        CHECK_OK(dev, dev->ops->upload(dev, factors[f], sizeof now, factor.data));
        CHECK_OK(dev, dev->ops->prescale(dev, x.mat, factor, buffer.mat, &scaled));
        CHECK_OK(dev, ms_vec_download(dev, factor, now));
        CHECK_OK(dev, dev->ops->download(dev, scaled.data, x.bytes, back));
        for (int64_t i = 0; i < 2 * N * N; i++) {
            const double want = now[i / (N * N)] * (double)((const float *)x.host.data)[i];
            CHECK(((const float *)back)[i] == (float)want, "factors %zu: element %lld", f,
                  (long long)i);
        }
        for (int b = 0; b < 2; b++)
            CHECK(now[b] == 1.0 || (now[b] == factors[f][b] && scaled.data != x.mat.data),
                  "factors %zu: %g became %g", f, factors[f][b], now[b]);
        CHECK_OK(dev, dev->ops->download(dev, x.mat.data, x.bytes, back));
        CHECK(memcmp(back, x.host.data, x.bytes) == 0, "factors %zu: x changed", f);
    }
    dev->ops->free(dev, factor.data);
    free(back);
    stack_free(&x), stack_free(&buffer);
}

/* ---- optimizers ------------------------------------------------------------------------------ */

static stack stack_of(ms_device *d, musec_dtype dtype, const double *row, int64_t n)
{
    stack s = stack_make(d, dtype, 1, 1, n);
    stack_set(&s, row);
    return s;
}

static void check_row(stack *got, const double *want, int64_t n, const char *what)
{
    stack_receive(got);
    for (int64_t j = 0; j < n; j++) {
        const double g   = ms_at(got->host, 0, 0, j);
        ms_mat       one = got->mat;
        double       storage;
        one.data = &storage;
        ms_put(one, 0, 0, 0, want[j]); /* rounded to the dtype */
        const double w = ms_at(one, 0, 0, 0);
        CHECK(g == w || (isnan(g) && isnan(w)), "%s, element %lld: %g, not %g", what, (long long)j,
              g, w);
    }
    stack_free(got);
}

TEST_EACH_DEVICE(sign_keeps_zero_and_nan, dev)
{
    static const double in[]   = { 0.0, -0.0, 1e-38, -1e-38, INFINITY, -INFINITY, NAN, 7.0, -0.5 };
    static const double want[] = { 0.0, 0.0, 1.0, -1.0, 1.0, -1.0, NAN, 1.0, -1.0 };
    EACH_DTYPE_OF(dev, dtype, MUSEC_BF16) /* beyond the range of f16 */
    {
        stack x = stack_of(dev, dtype, in, COUNT(in));
        CHECK_OK(dev, dev->ops->unary(dev, MS_UNARY_SIGN, x.mat, x.mat));
        check_row(&x, want, COUNT(want), "sign");
    }
}

/* All numbers are powers of two, so w - (decay w + step u) is exact.  The third and fourth products
 * u w underflow to 0 in float32, although their factors have signs. */
TEST_EACH_DEVICE(cautious_decay_compares_signs, dev)
{
    static const double u[] = { 1.0, -1.0, 0x1p-100, -0x1p-100, 0.0, -0.0, 1.0, NAN, 1.0, -1.0 };
    static const double w[] = { 2.0, 2.0, -0x1p-100, -0x1p-100, 2.0, 2.0, 0.0, 2.0, NAN, -2.0 };
    static const double plain[] = {
        1.0, 2.0, -0x1.4p-100, -0x1p-102, 1.5, 1.5, -0.5, NAN, NAN, -1.0
    };
    static const double careful[] = { 1.0, 2.5,  -0x1.8p-100, -0x1p-102, 1.5,
                                      1.5, -0.5, NAN,         NAN,       -1.0 };
    EACH_DTYPE_OF(dev, dtype, MUSEC_BF16) /* beyond the range of f16 */
    {
        for (int cautious = 0; cautious < 2; cautious++) {
            stack us = stack_of(dev, dtype, u, COUNT(u));
            stack ws = stack_of(dev, dtype, w, COUNT(w));
            CHECK_OK(dev, dev->ops->decay_add(dev, ms_const(0.5), us.mat, ms_const(0.25),
                                              cautious == 1, ws.mat, (ms_mat){ 0 }));
            check_row(&ws, cautious == 1 ? careful : plain, COUNT(w), "decay_add");
            stack_free(&us);
        }
    }
}

/* At the first step from zero u is g / |g|, exactly, as the rates are powers of two.  A NaN stays
 * in its element of every state. */
TEST_EACH_DEVICE(first_step_of_moments_is_the_sign, dev)
{
    static const ms_moments rates = {
        .beta1 = 0.5, .beta2 = 0.75, .beta3 = 0.875, .alpha = 2.0, .correct1 = 0.5, .correct2 = 0.25
    };
    static const double g[]   = { 4.0, -0.5, NAN, 0x1p-20, -0x1p10 };
    static const double m[]   = { 2.0, -0.25, NAN, 0x1p-21, -0x1p9 };
    static const double v[]   = { 4.0, 0x1p-4, NAN, 0x1p-42, 0x1p18 };
    static const double s[]   = { 0.5, -0x1p-4, NAN, 0x1p-23, -0x1p7 };
    static const double one[] = { 1.0, -1.0, NAN, 1.0, -1.0 }, zero[COUNT(g)] = { 0 };
    static const double mix[] = { 1.25, -1.25, NAN, 1.25, -1.25 }; /* 1 + alpha/8 */
    EACH_DTYPE_OF(dev, dtype, MUSEC_BF16)                          /* beyond the range of f16 */
    {
        for (int with = 0; with < 2; with++) {
            stack gs = stack_of(dev, dtype, g, COUNT(g));
            stack ms = stack_of(dev, dtype, zero, COUNT(g));
            stack vs = stack_of(dev, dtype, zero, COUNT(g));
            stack ss = stack_of(dev, dtype, zero, COUNT(g));
            CHECK_OK(dev, dev->ops->moments(dev, rates, gs.mat, ms.mat, vs.mat,
                                            with == 1 ? ss.mat : (ms_mat){ 0 }, gs.mat));
            check_row(&gs, with == 1 ? mix : one, COUNT(g), "u");
            check_row(&ms, m, COUNT(g), "m");
            check_row(&vs, v, COUNT(g), "v");
            check_row(&ss, with == 1 ? s : zero, COUNT(g), "slow");
        }
    }
}

/* ---- random numbers, memory and the clock ---------------------------------------------------- */

/* Element (b, i, j) is random number (b rows + i) cols + j, transposed or not.  Devices that use
 * the host's libm give the same bits, others differ by a few roundings of logarithm, root and
 * cosine. */
TEST_EACH_DEVICE(normal_numbers_depend_on_the_index_alone, dev)
{
    ms_device   *ref   = check_open("ref");
    const bool   host  = ms_is_on_host(dev);
    const double close = host ? 0.0 : 16.0 * 0x1p-52;
    for (int trans = 0; trans < 2; trans++) {
        stack x    = stack_make(dev, MUSEC_F64, 2, 130, 257),
              want = stack_make(ref, MUSEC_F64, 2, 130, 257);
        ms_mat out = x.mat;
        if (trans == 1) { /* 257 x 130 in memory, 130 x 257 as seen */
            out.rows = 257, out.cols = out.ld = 130;
            out = ms_t(out);
        }
        CHECK_OK(dev, dev->ops->normal(dev, 42, 0.5, 3.0, out));
        CHECK_OK(ref, ref->ops->normal(ref, 42, 0.5, 3.0, want.mat));
        stack_receive(&x);
        out.data = x.host.data;
        for (int64_t b = 0; b < 2; b++)
            for (int64_t i = 0; i < 130; i++)
                for (int64_t j = 0; j < 257; j++) {
                    const double g = ms_at(out, b, i, j), w = ms_at(want.mat, b, i, j);
                    CHECK(fabs(g - w) <= close * (1.0 + fabs(w)),
                          "(%lld, %lld, %lld): %.17g, ref %.17g", (long long)b, (long long)i,
                          (long long)j, g, w);
                }
        stack_free(&x), stack_free(&want);
    }
    musec_ctx_destroy(ref);
}

TEST_EACH_DEVICE(failed_alloc_names_its_size, dev)
{
    char  bytes[32], gib[32];
    void *p = &p;
    snprintf(bytes, sizeof bytes, "%zu", SIZE_MAX);
    snprintf(gib, sizeof gib, "%.3f GiB", (double)SIZE_MAX / 0x1p30);
    CHECK(dev->ops->alloc(dev, SIZE_MAX, &p) == MUSEC_ENOMEM, "more than there is");
    CHECK(strstr(dev->error.text, bytes) != NULL || strstr(dev->error.text, gib) != NULL,
          "the message: %s", dev->error.text);
}

TEST_EACH_DEVICE(clock_never_goes_back, dev)
{
    double before, after;
    CHECK_OK(dev, dev->ops->now_ms(dev, &before));
    for (int i = 0; i < 1000; i++) {
        CHECK_OK(dev, dev->ops->now_ms(dev, &after));
        CHECK(after >= before, "%g ms after %g ms", after, before);
        before = after;
    }
}

/* ---- decompositions -------------------------------------------------------------------------- */

static const struct { /* spectra that are hard: equal, missing, far apart, huge, tiny */
    int64_t     rows, cols;
    oracle_kind kind;
    double      top, bottom;
    bool        f32; /* within the range of float32 */
} spectra[] = {
    { 1, 1, ORACLE_FLAT, 0.0, 0.0, true },        { 5, 5, ORACLE_FLAT, 0.0, 0.0, true },
    { 1, 9, ORACLE_FLAT, 0.0, 0.0, true },        { 4, 7, ORACLE_ONE, 2.0, 0.0, true },
    { 9, 1, ORACLE_ONE, 3.0, 0.0, true },         { 7, 4, ORACLE_ONE, 2.0, 0.0, true },
    { 12, 12, ORACLE_HALF, 1.0, 0.0, true },      { 20, 11, ORACLE_HALF, 1.0, 0.0, true },
    { 16, 16, ORACLE_FLAT, 1.0, 0.0, true },      { 30, 18, ORACLE_GEOMETRIC, 1.0, 1e-14, true },
    { 18, 30, ORACLE_GEOMETRIC, 1.0, 0.0, true }, { 33, 33, ORACLE_LINEAR, 5.0, 0.1, true },
    { 9, 6, ORACLE_LINEAR, 1e30, 1e29, true },    { 6, 9, ORACLE_LINEAR, 1e-30, 1e-31, true },
    { 9, 6, ORACLE_LINEAR, 1e200, 1e199, false }, { 6, 9, ORACLE_LINEAR, 1e-200, 1e-201, false },
};

/* |x - left diag(mid) right|_F with left (rows, k) and right (k, cols), all dense */
static double residual(const double *x, const double *left, const double *mid, const double *right,
                       int64_t rows, int64_t k, int64_t cols)
{
    double off = 0.0;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < cols; j++) {
            double sum = 0.0;
            for (int64_t l = 0; l < k; l++)
                sum += left[i * k + l] * mid[l] * right[l * cols + j];
            off = hypot(off, x[i * cols + j] - sum);
        }
    }
    return off;
}

static double *received(stack *s) /* its elements as float64 */
{
    stack_receive(s);
    return oracle_loaded(s->host.data, s->mat.count * s->mat.rows * s->mat.cols, s->mat.dtype);
}

static void check_svd(ms_device *dev, const oracle *o, musec_dtype dtype, size_t at)
{
    const double tol = 4.0 * (double)(o->rows + o->cols) * ms_dtype_eps(dtype);
    stack        x   = stack_make(dev, dtype, 1, o->rows, o->cols);
    stack u = stack_make(dev, dtype, 1, o->rows, o->k), s = stack_make(dev, dtype, 1, 1, o->k);
    stack vt = stack_make(dev, dtype, 1, o->k, o->cols), only = stack_make(dev, dtype, 1, 1, o->k);
    stack_set(&x, o->x);
    CHECK_OK(dev, dev->ops->svd(dev, x.mat, u.mat, s.mat, vt.mat));
    CHECK_OK(dev, dev->ops->svd(dev, x.mat, (ms_mat){ 0 }, only.mat, (ms_mat){ 0 }));
    double *xs = received(&x), *us = received(&u), *ss = received(&s), *vs = received(&vt);
    double *alone = received(&only), *vst = oracle_transpose(vs, o->k, o->cols);
    double norm = 0.0; /* Frobenius; eps times it also bounds what rounding x moved each value by */
    for (int64_t l = 0; l < o->k; l++)
        norm = hypot(norm, o->s[l]);
    for (int64_t l = 0; l < o->k; l++) {
        CHECK(fabs(ss[l] - o->s[l]) <= tol * norm, "svd %zu: s_%lld is %g, not %g", at,
              (long long)l, ss[l], o->s[l]);
        CHECK(fabs(ss[l] - alone[l]) <= tol * norm, "svd %zu: values alone differ", at);
        CHECK(ss[l] >= 0.0 && (l == 0 || ss[l] <= ss[l - 1]), "svd %zu: s is not in order", at);
    }
    const double off = residual(xs, us, ss, vs, o->rows, o->k, o->cols);
    CHECK(off <= tol * norm, "svd %zu: |X - U S V^T| = %g |X|", at, off / norm);
    const double u_off = oracle_orthogonality(us, MUSEC_F64, o->rows, o->k);
    const double v_off = oracle_orthogonality(vst, MUSEC_F64, o->cols, o->k);
    CHECK(u_off <= tol && v_off <= tol, "svd %zu: orthogonal to %g, %g", at, u_off, v_off);
    free(xs), free(us), free(ss), free(vs), free(alone), free(vst);
    stack_free(&x), stack_free(&u), stack_free(&s), stack_free(&vt), stack_free(&only);
}

TEST_EACH_DEVICE(svd_decomposes, dev)
{
    for (size_t i = 0; i < COUNT(spectra); i++) {
        oracle o = oracle_make(spectra[i].rows, spectra[i].cols, spectra[i].kind, spectra[i].top,
                               spectra[i].bottom, i);
        check_svd(dev, &o, MUSEC_F64, i);
        if (spectra[i].f32) check_svd(dev, &o, MUSEC_F32, i);
        oracle_free(&o);
    }
}

/* A = Q diag(w) Q^T with the singular values as eigenvalues, every other one negative. */
static void check_eigh(ms_device *dev, const oracle *o, musec_dtype dtype, size_t at)
{
    const int64_t n   = o->k;
    const double  tol = 8.0 * (double)n * ms_dtype_eps(dtype);
    stack         a = stack_make(dev, dtype, 1, n, n), w = stack_make(dev, dtype, 1, 1, n);
    stack         v = stack_make(dev, dtype, 1, n, n), only = stack_make(dev, dtype, 1, 1, n);
    double       *signed_rows = oracle_loaded(o->u, n * n, MUSEC_F64); /* row l: +-s_l u_l */
    double       *ut = oracle_transpose(o->u, n, n), norm = 0.0;
    for (int64_t l = 0; l < n; l++) {
        norm = hypot(norm, o->s[l]);
        for (int64_t j = 0; j < n; j++)
            signed_rows[l * n + j] *= l % 2 == 0 ? o->s[l] : -o->s[l];
    }
    double *full = oracle_product(ut, signed_rows, n, n, n);
    for (int64_t i = 0; i < n; i++) /* symmetric to the last bit */
        for (int64_t j = 0; j < i; j++)
            full[j * n + i] = full[i * n + j];
    stack_set(&a, full);
    CHECK_OK(dev, dev->ops->eigh(dev, a.mat, w.mat, v.mat));
    CHECK_OK(dev, dev->ops->eigh(dev, a.mat, only.mat, (ms_mat){ 0 }));
    double *as = received(&a), *ws = received(&w), *vs = received(&v), *alone = received(&only);
    double *vst = oracle_transpose(vs, n, n);
    for (int64_t l = 0; l < n; l++) {
        double near = INFINITY; /* the chosen values are in another order */
        for (int64_t j = 0; j < n; j++)
            near = fmin(near, fabs(ws[l] - (j % 2 == 0 ? o->s[j] : -o->s[j])));
        CHECK(near <= tol * norm, "eigh %zu: w_%lld = %g is no eigenvalue", at, (long long)l,
              ws[l]);
        CHECK(fabs(ws[l] - alone[l]) <= tol * norm, "eigh %zu: values alone differ", at);
        CHECK(l == 0 || ws[l] >= ws[l - 1], "eigh %zu: w is not in order", at);
    }
    const double off = residual(as, vs, ws, vst, n, n, n);
    CHECK(off <= tol * norm, "eigh %zu: |A - V W V^T| = %g |A|", at, off / norm);
    const double v_off = oracle_orthogonality(vs, MUSEC_F64, n, n);
    CHECK(v_off <= tol, "eigh %zu: orthogonal to %g", at, v_off);
    free(signed_rows), free(ut), free(full), free(as), free(ws), free(vs), free(alone), free(vst);
    stack_free(&a), stack_free(&w), stack_free(&v), stack_free(&only);
}

TEST_EACH_DEVICE(eigh_decomposes, dev)
{
    for (size_t i = 0; i < COUNT(spectra); i++) {
        oracle o = oracle_make(spectra[i].rows, spectra[i].rows, spectra[i].kind, spectra[i].top,
                               spectra[i].bottom, 50 + i);
        check_eigh(dev, &o, MUSEC_F64, i);
        if (spectra[i].f32) check_eigh(dev, &o, MUSEC_F32, i);
        oracle_free(&o);
    }
}
