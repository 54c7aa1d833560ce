/* device_product_test.c - the row `product`, on every device.
 *
 * The oracle is three loops in float64 over the values that the operands really hold.  With s =
 * |alpha| |a| |b| + |beta z| + |diag| a result may be off by (k + 8) eps s, eps being that of the
 * arithmetic (Higham 2002, section 3.5; half of it would do where sums are rounded, the tensor
 * cores cut them), and by half an eps of its own where it is stored in 16 bits.  sumsq and trace
 * are held to the oracle's c with the bounds that follow from this.
 *
 * Memory that must not be written is filled with NaN before: the gaps between rows and matrices,
 * and all matrices that the mask leaves out.  A symmetric c must equal its transpose bit for bit,
 * and a second run the first. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "device_rig.h"
#include "oracle.h"

/* ---- operands -------------------------------------------------------------------------------- */

typedef enum filling { ANY, SYMMETRIC, NANS } filling;

typedef struct layout {
    musec_dtype dtype;
    int64_t     count, rows, cols, pad; /* pad: elements after each row and matrix */
    bool        trans;
} layout;

static stack place(ms_device *d, layout l, filling what, uint64_t seed)
{
    const int64_t lines = l.trans ? l.cols : l.rows, ld = (l.trans ? l.rows : l.cols) + l.pad;
    const int64_t stride = lines * ld + l.pad;
    stack         x = { .d = d, .bytes = (size_t)(l.count * stride) * ms_dtype_bytes(l.dtype) };
    x.mat           = (ms_mat){ .rows   = l.rows,
                                .cols   = l.cols,
                                .ld     = ld,
                                .count  = l.count,
                                .stride = stride,
                                .dtype  = l.dtype,
                                .trans  = l.trans };
    x.host          = x.mat;
    x.host.data     = check_alloc(x.bytes);
    memset(x.host.data, 0xff, x.bytes); /* NaN in every dtype */
    CHECK_OK(d, d->ops->alloc(d, x.bytes, &x.mat.data));
    if (what != NANS) {
        double *v = oracle_gaussian(l.count * l.rows, l.cols, seed);
        for (int64_t b = 0; b < l.count; b++)
            for (int64_t i = 0; i < l.rows; i++)
                for (int64_t j = 0; j < l.cols; j++) {
                    const bool    mirror = what == SYMMETRIC && j > i;
                    const int64_t row = mirror ? j : i, col = mirror ? i : j;
                    ms_put(x.host, b, i, j, v[(b * l.rows + row) * l.cols + col]);
                }
        free(v);
    }
    stack_send(&x);
    return x;
}

static void drop(stack *x)
{
    if (x->d != NULL) stack_free(x);
}

/* ---- cases ----------------------------------------------------------------------------------- */

/* The source operand z: of c's dtype, of the other one, or c itself. */
typedef enum source { NO_Z, OWN_Z, OTHER_Z, Z_IS_C } source;

typedef struct sample {
    int64_t m, n, k, count;
    bool    ta, tb, tc; /* how a, b and c are stored; symmetric: b is a^T, or a where `square` */
    bool    symmetric, square, wide;
    source  z;
    bool    each; /* each matrix has its own alpha, beta and diag */
    bool    sums, mask;
    int64_t pad;
} sample;

/* Sizes around the kernels' tiles of 64, 128 and 256, and some long sums.  With a pad of 8 rows of
 * 16 bits stay aligned to 16 bytes, with 3 they do not. */
static const sample samples[] = {
    { 1, 1, 1, 3, .sums = true, .z = OWN_Z, .each = true },
    { 8, 8, 8, 2, .wide = true },
    { 128, 128, 64, 2, .wide = true },
    { 128, 128, 64, 2, .ta = false },
    { 128, 128, 64, 2, .ta = true },
    { 128, 128, 64, 2, .tb = true },
    { 128, 128, 64, 2, .ta = true, .tb = true, .wide = true },
    { 256, 384, 200, 2, .tb = true, .sums = true, .z = OWN_Z },
    { 256, 384, 200, 2, .ta = true, .sums = true, .z = OTHER_Z, .each = true },
    { 384, 256, 136, 2, .wide = true, .sums = true, .z = OTHER_Z, .each = true, .mask = true },
    { 136, 392, 72, 3, .ta = true, .tb = true, .wide = true, .z = Z_IS_C, .each = true },
    { 384, 136, 72, 3, .z = Z_IS_C, .mask = true, .sums = true, .pad = 8 },
    { 200, 328, 264, 2, .tc = true, .sums = true, .pad = 8 },
    { 200, 328, 264, 2, .tc = true, .z = Z_IS_C, .wide = true, .each = true, .pad = 8 },
    { 129, 67, 33, 2, .sums = true, .z = OWN_Z, .each = true, .mask = true, .pad = 3 },
    { 131, 131, 40, 2, .wide = true, .sums = true, .z = OTHER_Z, .pad = 3 },
    { 64, 136, 1000, 2, .tb = true, .wide = true },
    { 256, 384, 72, 60, .z = OWN_Z, .each = true, .sums = true, .mask = true },
    { 8, 16, 24, 70000, .wide = true, .each = true, .z = OWN_Z, .sums = true, .mask = true },
    { 128, 128, 64, 2, .symmetric = true, .tb = true, .sums = true },
    { 128, 128, 64, 2, .symmetric = true, .wide = true, .sums = true, .each = true },
    { 256, 256, 64, 2, .symmetric = true },
    { 256, 256, 192, 2, .symmetric = true, .wide = true, .sums = true },
    { 256, 256, 192, 2, .symmetric = true, .ta = true, .wide = true, .sums = true },
    { 384, 384, 72, 3, .symmetric = true, .ta = true, .sums = true, .z = OWN_Z, .each = true },
    { 384, 384, 384, 2, .symmetric = true, .square = true, .z = OTHER_Z, .sums = true,
      .mask = true },
    { 512, 512, 128, 2, .symmetric = true, .z = Z_IS_C, .each = true, .pad = 8 },
    { 640, 640, 72, 1, .symmetric = true, .wide = true, .z = Z_IS_C, .sums = true, .pad = 8 },
    { 200, 200, 200, 3, .symmetric = true, .square = true, .tc = true, .mask = true, .sums = true },
    { 328, 328, 80, 2, .symmetric = true, .wide = true, .z = OWN_Z, .each = true, .mask = true,
      .sums = true },
    { 67, 67, 129, 2, .symmetric = true, .z = OWN_Z, .sums = true, .each = true, .pad = 3 },
    { 129, 129, 31, 2, .symmetric = true, .ta = true, .wide = true, .z = Z_IS_C, .mask = true,
      .pad = 3 },
    { 384, 384, 72, 30, .symmetric = true, .z = OTHER_Z, .each = true, .sums = true, .mask = true },
    { 256, 256, 136, 70, .symmetric = true, .ta = true, .wide = true, .sums = true },
    { 384, 384, 40, 2, .symmetric = true, .sums = true, .pad = 8 },
    { 392, 392, 24, 3, .symmetric = true, .ta = true, .wide = true, .z = OWN_Z, .sums = true },
    { 136, 136, 2056, 2, .symmetric = true, .z = OWN_Z, .each = true, .sums = true, .pad = 8 },
    { 264, 264, 2048, 1, .symmetric = true, .ta = true, .wide = true, .z = Z_IS_C, .sums = true },
    { 264, 264, 2048, 1, .symmetric = true, .z = OTHER_Z, .sums = true },
    { 136, 136, 2200, 3, .symmetric = true, .wide = true, .each = true, .mask = true,
      .sums = true },
    { 24, 24, 2048, 140, .symmetric = true, .z = OTHER_Z, .each = true, .sums = true,
      .mask = true },
    { 1, 1, 5, 300, .symmetric = true, .sums = true, .mask = true },
    { 8, 8, 8, 40000, .symmetric = true, .wide = true, .sums = true, .z = OWN_Z },
};

typedef struct job { /* a sample, ready to run */
    ms_product p;
    stack      a, b, z, c;
    ms_vec     sums[2], mask_vec;   /* on the device */
    double    *alpha, *beta, *diag; /* of each matrix */
    double    *mask;
} job;

enum { UNTOUCHED = -12345 }; /* in sums that are not to be written */

static double *numbers(int64_t count, bool each, uint64_t seed, double value)
{
    double *x = oracle_gaussian(1, count, seed);
    for (int64_t b = 0; !each && b < count; b++)
        x[b] = value;
    return x;
}

static ms_num number_of(ms_device *d, const double *x, int64_t count, bool each)
{
    return each ? ms_each(vec_make(d, x, count)) : ms_const(x[0]);
}

static job set_up(ms_device *d, const sample *s, musec_dtype t)
{
    const musec_dtype wide = ms_dtype_accum(t), to = s->wide ? wide : t;
    const musec_dtype other = to == wide ? t : wide;
    const filling     a = s->square ? SYMMETRIC : ANY, z = s->symmetric ? SYMMETRIC : ANY;
    job               j = { 0 };
    j.a                 = place(d, (layout){ t, s->count, s->m, s->k, s->pad, s->ta }, a, 1);
    if (!s->symmetric) j.b = place(d, (layout){ t, s->count, s->k, s->n, s->pad, s->tb }, ANY, 2);
    j.c =
        place(d, (layout){ to, s->count, s->m, s->n, s->pad, s->tc }, s->z == Z_IS_C ? z : NANS, 3);
    if (s->z == OWN_Z || s->z == OTHER_Z)
        j.z = place(d, (layout){ s->z == OWN_Z ? to : other, s->count, s->m, s->n, s->pad, s->tc },
                    z, 4);
    j.alpha = numbers(s->count, s->each, 5, 0.75);
    j.beta  = numbers(s->count, s->each, 6, -1.25);
    j.diag  = numbers(s->count, s->each, 7, s->z == NO_Z && !s->each ? 0.0 : 3.5);
    j.mask  = numbers(s->count, s->mask, 8, 1.0);
    for (int64_t b = 0; b < s->count; b++)
        if (s->mask) j.mask[b] = b % 3 == 1 ? 0.0 : j.mask[b];
    j.p = (ms_product){ .a         = j.a.mat,
                        .b         = s->symmetric ? (s->square ? j.a.mat : ms_t(j.a.mat)) : j.b.mat,
                        .alpha     = number_of(d, j.alpha, s->count, s->each),
                        .beta      = number_of(d, j.beta, s->count, s->each),
                        .diag      = number_of(d, j.diag, s->count, s->each),
                        .source    = s->z == Z_IS_C ? j.c.mat : j.z.mat,
                        .c         = j.c.mat,
                        .symmetric = s->symmetric };
    if (s->mask) j.p.mask = j.mask_vec = vec_make(d, j.mask, s->count);
    for (int i = 0; s->sums && i < 2; i++) {
        double *none = numbers(s->count, false, 0, UNTOUCHED);
        j.sums[i]    = vec_make(d, none, s->count);
        free(none);
    }
    j.p.sumsq = j.sums[0];
    j.p.trace = j.sums[1];
    return j;
}

static void tear_down(ms_device *d, job *j)
{
    const ms_vec vecs[] = { j->p.alpha.each, j->p.beta.each, j->p.diag.each,
                            j->sums[0],      j->sums[1],     j->mask_vec };
    for (size_t i = 0; i < COUNT(vecs); i++)
        d->ops->free(d, vecs[i].data);
    drop(&j->a), drop(&j->b), drop(&j->z), drop(&j->c);
    free(j->alpha), free(j->beta), free(j->diag), free(j->mask);
}

/* ---- what must come out ---------------------------------------------------------------------- */

/* Matrix b of x as dense float64 */
static double *values_of(ms_mat x, int64_t b)
{
    double *v = check_alloc((size_t)(x.rows * x.cols) * sizeof *v);
    for (int64_t i = 0; i < x.rows; i++)
        for (int64_t j = 0; j < x.cols; j++)
            v[i * x.cols + j] = ms_at(x, b, i, j);
    return v;
}

/* For matrix b: want <- alpha a b + beta z + diag I, size <- what its rounding errors scale with */
static void expect(const job *w, const sample *s, int64_t b, double *want, double *size)
{
    const ms_mat fa = w->a.host;
    const ms_mat fb = s->symmetric ? (s->square ? fa : ms_t(fa)) : w->b.host;
    const ms_mat fz = s->z == Z_IS_C ? w->c.host : w->z.host; /* c as it was */
    double      *x = values_of(fa, b), *y = values_of(ms_t(fb), b);
    for (int64_t i = 0; i < s->m; i++)
        for (int64_t j = 0; j < s->n; j++) {
            double sum = 0.0, abs = 0.0;
            for (int64_t k = 0; k < s->k; k++) {
                sum += x[i * s->k + k] * y[j * s->k + k];
                abs += fabs(x[i * s->k + k] * y[j * s->k + k]);
            }
            sum *= w->alpha[b];
            abs *= fabs(w->alpha[b]);
            if (s->z != NO_Z) {
                sum += w->beta[b] * ms_at(fz, b, i, j);
                abs += fabs(w->beta[b] * ms_at(fz, b, i, j));
            }
            if (i == j) {
                sum += w->diag[b];
                abs += fabs(w->diag[b]);
            }
            want[i * s->n + j] = sum;
            size[i * s->n + j] = abs;
        }
    free(x), free(y);
}

static void check_matrix(const job *w, const sample *s, size_t at, int64_t b, ms_mat got,
                         const double *sums)
{
    const double eps = ms_dtype_eps(ms_dtype_accum(w->a.mat.dtype)) * (double)(s->k + 8);
    const double own =
        got.dtype == MUSEC_BF16 || got.dtype == MUSEC_F16 ? ms_dtype_eps(got.dtype) : 0.0;
    const size_t n    = (size_t)(s->m * s->n);
    double      *want = check_alloc(n * sizeof *want), *size = check_alloc(n * sizeof *size);
    double       sumsq = 0.0, trace = 0.0, sumsq_off = 0.0, trace_off = 0.0;
    expect(w, s, b, want, size);
    for (int64_t i = 0; i < s->m; i++)
        for (int64_t j = 0; j < s->n; j++) {
            const double x = want[i * s->n + j], off = eps * size[i * s->n + j];
            const double bound = off + own / 2 * (fabs(x) + off) + (own > 0.0 ? 0x1p-25 : 0.0);
            const double err   = fabs(ms_at(got, b, i, j) - x);
            CHECK(err <= bound, "sample %zu, %s: (%lld, %lld, %lld) is %g, not %g: %g off, not %g",
                  at, ms_dtype_name(w->a.mat.dtype), (long long)b, (long long)i, (long long)j,
                  ms_at(got, b, i, j), x, err, bound);
            if (s->symmetric)
                CHECK(ms_at(got, b, i, j) == ms_at(got, b, j, i),
                      "sample %zu: (%lld, %lld, %lld) is not its mirror", at, (long long)b,
                      (long long)i, (long long)j);
            sumsq += x * x;
            sumsq_off += (2 * fabs(x) + off) * off + 0x1p-40 * x * x;
            if (i == j) trace += x, trace_off += off + 0x1p-40 * fabs(x);
        }
    if (s->sums) {
        CHECK(fabs(sums[b] - sumsq) <= sumsq_off, "sample %zu: sumsq of %lld is %g, not %g (%g)",
              at, (long long)b, sums[b], sumsq, sumsq_off);
        CHECK(fabs(sums[s->count + b] - trace) <= trace_off,
              "sample %zu: trace of %lld is %g, not %g (%g)", at, (long long)b, sums[s->count + b],
              trace, trace_off);
    }
    free(want), free(size);
}

/* Neither matrix b nor its sums were written. */
static void check_unwritten(const job *w, const sample *s, size_t at, int64_t b, ms_mat got,
                            const double *sums)
{
    const size_t each = ms_dtype_bytes(got.dtype);
    for (int64_t i = 0; i < s->m; i++)
        for (int64_t j = 0; j < s->n; j++)
            CHECK(memcmp(ms_mat_address(got, b, i, j), ms_mat_address(w->c.host, b, i, j), each) ==
                      0,
                  "sample %zu: matrix %lld was to be left alone", at, (long long)b);
    if (s->sums)
        CHECK(sums[b] == UNTOUCHED && sums[s->count + b] == UNTOUCHED,
              "sample %zu: the sums of matrix %lld were to be left alone", at, (long long)b);
}

/* Between rows and matrices `got` has the bytes that c had before. */
static void check_gaps(const job *w, const sample *s, size_t at, const unsigned char *got)
{
    const size_t   each = ms_dtype_bytes(w->c.mat.dtype);
    unsigned char *mine = check_alloc(w->c.bytes);
    ms_mat         to   = w->c.mat;
    memcpy(mine, got, w->c.bytes);
    to.data = mine;
    for (int64_t b = 0; b < s->count; b++)
        for (int64_t i = 0; i < s->m; i++)
            for (int64_t j = 0; j < s->n; j++)
                memcpy(ms_mat_address(to, b, i, j), ms_mat_address(w->c.host, b, i, j), each);
    CHECK(memcmp(mine, w->c.host.data, w->c.bytes) == 0, "sample %zu: what lies around c changed",
          at);
    free(mine);
}

static void run(ms_device *d, job *w, const sample *s, unsigned char *got, double *sums)
{
    stack_send(&w->c);
    CHECK_OK(d, d->ops->product(d, &w->p));
    CHECK_OK(d, d->ops->download(d, w->c.mat.data, w->c.bytes, got));
    for (int i = 0; s->sums && i < 2; i++)
        CHECK_OK(d, ms_vec_download(d, w->sums[i], sums + i * s->count));
}

static void check_sample(ms_device *d, size_t at, musec_dtype t)
{
    const sample  *s   = &samples[at];
    job            w   = set_up(d, s, t);
    unsigned char *got = check_alloc(w.c.bytes), *again = check_alloc(w.c.bytes);
    double        *sums = check_alloc((size_t)s->count * 4 * sizeof *sums);
    ms_mat         c    = w.c.mat;
    const int64_t  some = s->count > 1000 ? s->count / 50 : 1; /* of many matrices one in `some` */
    run(d, &w, s, got, sums);
    run(d, &w, s, again, sums + 2 * s->count);
    CHECK(memcmp(got, again, w.c.bytes) == 0, "sample %zu: a second run differs", at);
    CHECK(memcmp(sums, sums + 2 * s->count, (size_t)s->count * 2 * sizeof *sums) == 0,
          "sample %zu: the sums of a second run differ", at);
    c.data = got;
    for (int64_t b = 0; b < s->count; b += b + some < s->count ? some : 1)
        if (w.mask[b] != 0.0)
            check_matrix(&w, s, at, b, c, sums);
        else
            check_unwritten(&w, s, at, b, c, sums);
    check_gaps(&w, s, at, got);
    free(got), free(again), free(sums);
    tear_down(d, &w);
}

/* Many tiles and many matrices would take minutes on the host; device_ops_test.c has the cases that
 * its code paths need. */
static bool is_for(const ms_device *d, const sample *s)
{
    const double work = (double)s->m * (double)s->n * (double)s->k * (double)s->count;
    return work <= 4e6 || strcmp(d->kind->name, "cuda") == 0;
}

TEST_EACH_DEVICE(products_are_what_three_loops_give, dev)
{
    size_t done = 0;
    EACH_DTYPE_OF(dev, t, MUSEC_F16)
    for (size_t i = 0; i < COUNT(samples); i++)
        if (is_for(dev, &samples[i])) {
            if (check_takes_case()) check_sample(dev, i, t);
            done++;
        }
    CHECK(done >= COUNT(samples) / 3, "%zu samples", done);
}

/* Products of small integers are exact in float32, so a single element read from a wrong place is
 * seen. */
TEST_EACH_DEVICE(products_of_integers_are_exact, dev)
{
    enum { M = 264, N = 136, K = 200 };
    if (!ms_device_has(dev, MUSEC_F16)) return;
    for (int how = 0; how < 4; how++) {
        const bool ta = how % 2 != 0, tb = how / 2 != 0;
        stack      a = place(dev, (layout){ MUSEC_F16, 1, M, K, 0, ta }, NANS, 0);
        stack      b = place(dev, (layout){ MUSEC_F16, 1, K, N, 0, tb }, NANS, 0);
        stack      c = place(dev, (layout){ MUSEC_F32, 1, M, N, 0, false }, NANS, 0);
        for (int64_t k = 0; k < K; k++) {
            for (int64_t i = 0; i < M; i++)
                ms_put(a.host, 0, i, k, (double)((i * 7 + k * 13) % 29 - 14));
            for (int64_t j = 0; j < N; j++)
                ms_put(b.host, 0, k, j, (double)((j * 11 + k * 5) % 31 - 15));
        }
        stack_send(&a), stack_send(&b);
        const ms_product p = {
            .a = a.mat, .b = b.mat, .alpha = ms_const(1.0), .diag = ms_const(2.0), .c = c.mat
        };
        CHECK_OK(dev, dev->ops->product(dev, &p));
        stack_receive(&c);
        for (int64_t i = 0; i < M; i++)
            for (int64_t j = 0; j < N; j++) {
                double want = i == j ? 2.0 : 0.0;
                for (int64_t k = 0; k < K; k++)
                    want += ms_at(a.host, 0, i, k) * ms_at(b.host, 0, k, j);
                CHECK(ms_at(c.host, 0, i, j) == want, "layout %d: (%lld, %lld) is %g, not %g", how,
                      (long long)i, (long long)j, ms_at(c.host, 0, i, j), want);
            }
        stack_free(&a), stack_free(&b), stack_free(&c);
    }
}

TEST_EACH_DEVICE(nans_of_the_source_vanish_where_beta_is_zero, dev)
{
    enum { N = 136, K = 72, MATRICES = 2 };
    EACH_DTYPE_OF(dev, t, MUSEC_F16)
    {
        for (int how = 0; how < 4; how++) {
            const bool       symmetric = how % 2 != 0, each = how / 2 != 0;
            stack            a    = place(dev, (layout){ t, MATRICES, N, K, 0, false }, ANY, 5);
            stack            z    = place(dev, (layout){ t, MATRICES, N, N, 0, false }, NANS, 0);
            stack            c    = place(dev, (layout){ t, MATRICES, N, N, 0, false }, NANS, 0);
            const ms_vec     beta = vec_make(dev, (double[MATRICES]){ 0 }, MATRICES);
            const ms_product p    = { .a         = a.mat,
                                      .b         = ms_t(a.mat),
                                      .alpha     = ms_const(1.0),
                                      .beta      = each ? ms_each(beta) : ms_const(0.0),
                                      .source    = z.mat,
                                      .c         = c.mat,
                                      .symmetric = symmetric };
            CHECK_OK(dev, dev->ops->product(dev, &p));
            stack_receive(&c);
            for (int64_t b = 0; b < MATRICES; b++)
                for (int64_t i = 0; i < N; i++)
                    for (int64_t j = 0; j < N; j++)
                        CHECK(isfinite(ms_at(c.host, b, i, j)), "dtype %d, how %d: (%lld, %lld)",
                              (int)t, how, (long long)i, (long long)j);
            stack_free(&a), stack_free(&z), stack_free(&c);
            dev->ops->free(dev, beta.data);
        }
    }
}
