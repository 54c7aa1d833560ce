/* attention_test.c - attention on the CPU, which works in tiles, chunks and rounds and is compiled
 * once for every level of instructions.
 *
 * Heads lie interleaved in one buffer of queries, keys and values, as in the model.  Results are
 * compared with `ref` in float64; the bound is 2e-5 of the largest element, 20 times what is
 * seen. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "device/cpu/cpu.h"
#include "device/cpu/ref.h"
#include "device/cpu/tile_product.h"

static const struct {
    int64_t rows, heads, head, window, doc; /* doc: 0 is one document, -1 are random ones */
    double  softcap;
} cases[] = {
    { 1, 1, 64, 0, 0, 0.0 },          /* one pair */
    { 257, 2, 64, 1 << 30, 0, 0.0 },  /* one document in two chunks */
    { 600, 1, 16, 150, 0, 0.0 },      /* a window across chunks */
    { 300, 2, 32, 1 << 30, 7, 0.0 },  /* many documents in a tile */
    { 520, 1, 128, 64, -1, 0.0 },     /* tiles that are masked entirely */
    { 300, 3, 24, 1 << 30, -1, 8.0 }, /* a soft cap; heads of no whole number of vectors */
    { 130, 1, 10, 3, 1, 5.0 },        /* a document for every row */
};

typedef struct problem {
    ms_device *d;
    ms_attn    a;
    ms_mat     q, k, v, out, lse, dout, dq, dk, dv;
    ms_vec     max;
    float     *f32[5]; /* qkv, out, lse, dout, dqkv */
    size_t     elems[5];
    int32_t   *doc;
} problem;

/* The heads of case c, side by side from column `at` of rows of `ld` columns. */
static ms_mat heads_in(void *data, musec_dtype dtype, int64_t at, size_t c, int64_t ld)
{
    const int64_t rows = cases[c].rows, width = cases[c].heads * cases[c].head;
    const ms_mat  all = ms_mat_of(musec_view_dense(data, dtype, 1, rows, ld));
    return ms_mat_heads(ms_mat_part(all, 0, rows, at, width), cases[c].heads);
}

/* All operands of case c; the same numbers for both dtypes. */
static problem problem_make(size_t c, musec_dtype dtype)
{
    const int64_t rows = cases[c].rows, heads = cases[c].heads, width = heads * cases[c].head;
    const int64_t cols[] = { 3 * width, width, heads, width, 3 * width };
    problem       p      = { .d   = check_open(dtype == MUSEC_F32 ? "cpu" : "ref"),
                             .doc = check_alloc((size_t)rows * sizeof(int32_t)) };
    for (int i = 0; i < 5; i++) {
        p.elems[i]       = (size_t)(rows * cols[i]);
        p.f32[i]         = check_alloc(p.elems[i] * ms_dtype_bytes(dtype));
        const ms_mat all = ms_mat_of(musec_view_dense(p.f32[i], dtype, 1, 1, rows * cols[i]));
        for (size_t j = 0; j < p.elems[i]; j++)
            ms_put(all, 0, 0, (int64_t)j, (double)(float)ms_rand_normal(c + 100 * (uint64_t)i, j));
    }
    for (int64_t i = 0; i < rows; i++) {
        const int64_t len = cases[c].doc;
        const bool    begins =
            len > 0 ? i % len == 0 : len < 0 && ms_rand_u64(c, (uint64_t)i) % 40 == 0;
        p.doc[i] = (int32_t)(begins || i == 0 ? i : p.doc[i - 1]);
    }
    p.a = (ms_attn){
        .scale = 0.3, .softcap = cases[c].softcap, .window = cases[c].window, .doc = { p.doc, rows }
    };
    p.q    = heads_in(p.f32[0], dtype, 0, c, 3 * width);
    p.k    = heads_in(p.f32[0], dtype, width, c, 3 * width);
    p.v    = heads_in(p.f32[0], dtype, 2 * width, c, 3 * width);
    p.out  = heads_in(p.f32[1], dtype, 0, c, width);
    p.lse  = ms_mat_of(musec_view_dense(p.f32[2], dtype, heads, 1, rows));
    p.dout = heads_in(p.f32[3], dtype, 0, c, width);
    p.dq   = heads_in(p.f32[4], dtype, 0, c, 3 * width);
    p.dk   = heads_in(p.f32[4], dtype, width, c, 3 * width);
    p.dv   = heads_in(p.f32[4], dtype, 2 * width, c, 3 * width);
    p.max  = (ms_vec){ check_alloc((size_t)heads * sizeof(double)), heads };
    return p;
}

static void problem_free(problem *p)
{
    for (int i = 0; i < 5; i++)
        free(p->f32[i]);
    free(p->doc);
    free(p->max.data);
    musec_ctx_destroy(p->d);
}

static void run(const ms_device_ops *op, problem *p)
{
    for (int64_t h = 0; h < p->max.count; h++)
        p->max.data[h] = -INFINITY;
    CHECK_OK(p->d, op->attention(p->d, p->a, p->q, p->k, p->v, p->out, p->lse, p->max));
    CHECK_OK(p->d, op->attention_grad(p->d, p->a, p->q, p->k, p->v, p->out, p->lse, p->dout, p->dq,
                                      p->dk, p->dv));
}

/* The largest difference from the float64 result, relative to its largest element. */
static double max_error(const float *got, const float *want, size_t n)
{
    const double *exact = (const double *)(const void *)want;
    double        max = 0.0, size = 0.0;
    for (size_t i = 0; i < n; i++) {
        max  = fmax(max, fabs((double)got[i] - exact[i]));
        size = fmax(size, fabs(exact[i]));
        if (isnan(got[i])) return NAN;
    }
    return max / size;
}

TEST(every_instruction_level_agrees_with_ref)
{
    static const int levels[] = { 0, 3, 4 };
    for (size_t c = 0; c < COUNT(cases); c++) {
        problem want = problem_make(c, MUSEC_F64), got = problem_make(c, MUSEC_F32);
        run(want.d->ops, &want);
        for (size_t l = 0; l < COUNT(levels) && levels[l] <= ms_cpu_level(); l++) {
            ms_device_ops op = *got.d->ops;
            ms_cpu_level_ops(levels[l], &op);
            run(&op, &got);
            for (int i = 1; i < 5; i++) {
                const double err = max_error(got.f32[i], want.f32[i], got.elems[i]);
                CHECK(err <= 2e-5, "case %zu, level %d, result %d: %g", c, levels[l], i, err);
            }
            for (int64_t h = 0; h < got.max.count; h++)
                CHECK(fabs(got.max.data[h] - want.max.data[h]) <= 1e-5 * fabs(want.max.data[h]),
                      "case %zu, head %lld: %g, not %g", c, (long long)h, got.max.data[h],
                      want.max.data[h]);
        }
        problem_free(&want);
        problem_free(&got);
    }
}

TEST(bits_do_not_depend_on_threads)
{
    for (size_t c = 0; c < COUNT(cases); c++) {
        problem one = problem_make(c, MUSEC_F32), many = problem_make(c, MUSEC_F32);
        CHECK_OK(one.d, musec_ctx_set_threads(one.d, 1));
        run(one.d->ops, &one);
        for (int n = 2; n <= 5; n += 3) {
            CHECK_OK(many.d, musec_ctx_set_threads(many.d, n));
            run(many.d->ops, &many);
            for (int i = 1; i < 5; i++)
                CHECK(memcmp(one.f32[i], many.f32[i], one.elems[i] * sizeof(float)) == 0,
                      "case %zu, %d threads, result %d", c, n, i);
        }
        problem_free(&one);
        problem_free(&many);
    }
}

TEST(large_logits_do_not_overflow)
{
    problem p = problem_make(1, MUSEC_F32);
    p.a.scale = 1e4;
    run(p.d->ops, &p);
    for (int i = 1; i < 5; i++)
        for (size_t j = 0; j < p.elems[i]; j++)
            CHECK(isfinite(p.f32[i][j]), "result %d, element %zu: %g", i, j, (double)p.f32[i][j]);
    problem_free(&p);
}

/* The rows that see a NaN become NaN, and so does the maximum; other heads do not. */
TEST(a_nan_reaches_the_rows_that_see_it)
{
    problem       p                  = problem_make(1, MUSEC_F32);
    const int64_t at                 = 100;
    ((float *)p.k.data)[at * p.k.ld] = NAN;
    run(p.d->ops, &p);
    for (int64_t i = at; i < p.q.rows; i++) {
        CHECK(isnan(((float *)p.out.data)[i * p.out.ld]), "out, row %lld", (long long)i);
        CHECK(isnan(((float *)p.lse.data)[i]), "lse, row %lld", (long long)i);
        CHECK(isfinite(((float *)p.out.data)[p.out.stride + i * p.out.ld]), "the other head");
    }
    CHECK(isnan(p.max.data[0]) && isfinite(p.max.data[1]), "maxima");
    problem_free(&p);
}

/* ---- products of tiles, at the instruction level of the tests -------------------------------- */

/* Row i of A is zero outside inner[i], and only columns within cols[i] are computed. */
TEST(tile_products_match_plain_loops)
{
    enum { M = 23, N = 45, K = 19, LDB = 48, LDC = 50 };
    float a[M * K], b[K * LDB], c[M * LDC], before[M * LDC];
    span  inner[M], cols[M];
    for (int i = 0; i < M; i++) {
        inner[i] = (span){ i / 3, i < 12 ? K - 6 + i / 2 : K };
        cols[i]  = (span){ i, i < 5 ? 16 : N };
    }
    for (int i = 0; i < M; i++)
        for (int l = 0; l < K; l++)
            a[i * K + l] = l >= inner[i].begin && l < inner[i].end ? (float)(i + 2 * l % 7) : 0.0f;
    for (int i = 0; i < K * LDB; i++)
        b[i] = (float)(i % 11 - 5);
    for (int add = 0; add < 2; add++) {
        for (int i = 0; i < M * LDC; i++)
            c[i] = before[i] = (float)(i % 13);
        const tile_product by = { K, 1, b, LDB, 0.5f, add == 1, LDC };
        tile_multiply(&by, M, N, K, a, cols, inner, c);
        for (int i = 0; i < M; i++)
            for (int j = 0; j < LDC; j++) {
                double want = 0.0;
                for (int l = 0; l < K && j < N; l++)
                    want += 0.5 * (double)a[i * K + l] * (double)b[l * LDB + j];
                want += add == 1 ? (double)before[i * LDC + j] : 0.0;
                const double got = (double)c[i * LDC + j]; /* exact: small integers and halves */
                if (j >= N) CHECK(c[i * LDC + j] == before[i * LDC + j], "(%d, %d) touched", i, j);
                if (j >= cols[i].begin && j < cols[i].end)
                    CHECK(got == want, "add %d, (%d, %d): %g, not %g", add, i, j, got, want);
            }
    }
}
