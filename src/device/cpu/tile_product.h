/* tile_product.h - products of tiles in cache, for which a BLAS would spend its time packing.
 *
 *     c (m x n) <- alpha A b,  or c + alpha A b,   A(i, l) = a[i down + l across]
 *
 * b is dense, its rows padded to whole vectors with finite numbers.  GROUP rows of c by WIDE
 * vectors stay in registers while l runs; a step multiplies one vector row of b by GROUP numbers of
 * A.  So each element of c is one sum in the order of l.
 *
 * Triangles are skipped: `cols` says which columns of each row of c are wanted, `inner` which
 * elements of each row of A are not zero.  Begin and end of both must never fall from one row to
 * the next; a group of rows uses the begin of its first row and the end of its last. */
#ifndef MS_DEVICE_CPU_TILE_PRODUCT_H
#define MS_DEVICE_CPU_TILE_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* A vector of floats: load, store, the same number in all lanes, a b + c. */
#if defined(__AVX512F__)
#include <immintrin.h>
typedef __m512 vec;
#define VEC_LOAD(p)      _mm512_loadu_ps(p)
#define VEC_STORE(p, x)  _mm512_storeu_ps(p, x)
#define VEC_ALL(x)       _mm512_set1_ps(x)
#define VEC_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define VEC_MUL(a, b)    _mm512_mul_ps(a, b)
enum { GROUP = 6, WIDE = 4 };
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
typedef __m256 vec;
#define VEC_LOAD(p)      _mm256_loadu_ps(p)
#define VEC_STORE(p, x)  _mm256_storeu_ps(p, x)
#define VEC_ALL(x)       _mm256_set1_ps(x)
#define VEC_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define VEC_MUL(a, b)    _mm256_mul_ps(a, b)
enum { GROUP = 6, WIDE = 2 };
#else /* vectors of four floats by a compiler extension */
typedef float     vec __attribute__((vector_size(16)));
static inline vec vec_load(const float *p)
{
    vec x;
    memcpy(&x, p, sizeof x);
    return x;
}
#define VEC_LOAD(p)      vec_load(p)
#define VEC_STORE(p, x)  memcpy(p, &(x), sizeof(vec))
#define VEC_ALL(x)       ((vec){ (x), (x), (x), (x) })
#define VEC_FMA(a, b, c) ((a) * (b) + (c))
#define VEC_MUL(a, b)    ((a) * (b))
enum { GROUP = 4, WIDE = 2 };
#endif

enum {
    LANES = sizeof(vec) / sizeof(float),
    PAD   = 16, /* floats: a whole number of vectors on every processor */
};

typedef struct span { /* begin .. end - 1; empty if end <= begin */
    int32_t begin, end;
} span;

typedef struct tile_product {  /* what does not change from one panel to the next */
    int64_t      down, across; /* of a */
    const float *b;
    int64_t      ldb;
    float        alpha;
    bool         add;
    int64_t      ldc;
} tile_product;

/* rows <= GROUP rows of c by n <= LANES wide columns; a, b and c begin where the panel does. */
__attribute__((always_inline)) static inline void tile_panel(const int wide, const tile_product *t,
                                                             int64_t rows, int64_t n, int64_t k,
                                                             const float *a, const float *b,
                                                             float *c)
{
    vec          sum[GROUP][WIDE];
    const float *at[GROUP];
    for (int r = 0; r < GROUP; r++) {
        at[r] = a + (r < rows ? r : rows - 1) * t->down;
        for (int v = 0; v < wide; v++)
            sum[r][v] = VEC_ALL(0.0f);
    }
    for (int64_t l = 0; l < k; l++, b += t->ldb) {
        vec x[WIDE];
        for (int v = 0; v < wide; v++)
            x[v] = VEC_LOAD(b + v * LANES);
        for (int r = 0; r < GROUP; r++) {
            const vec f = VEC_ALL(at[r][l * t->across]);
            for (int v = 0; v < wide; v++)
                sum[r][v] = VEC_FMA(f, x[v], sum[r][v]);
        }
    }
    const vec alpha = VEC_ALL(t->alpha);
    for (int r = 0; r < GROUP && r < rows; r++, c += t->ldc) {
        for (int v = 0; v < wide; v++) {
            const int64_t width = n - v * LANES < LANES ? n - v * LANES : LANES;
            if (width == LANES) {
                float *o = c + v * LANES;
                vec    y = VEC_MUL(alpha, sum[r][v]);
                if (t->add) y = VEC_FMA(alpha, sum[r][v], VEC_LOAD(o));
                VEC_STORE(o, y);
            } else { /* the last columns do not fill a vector */
                float part[LANES];
                VEC_STORE(part, sum[r][v]);
                for (int64_t j = 0; j < width; j++)
                    c[v * LANES + j] = (t->add ? c[v * LANES + j] : 0.0f) + t->alpha * part[j];
            }
        }
    }
}

static void tile_multiply(const tile_product *t, int64_t m, int64_t n, int64_t k, const float *a,
                          const span *cols, const span *inner, float *c)
{
    for (int64_t i = 0; i < m; i += GROUP) {
        const int64_t rows  = m - i < GROUP ? m - i : GROUP;
        const int64_t first = cols != NULL ? cols[i].begin / LANES * LANES : 0;
        const int64_t end   = cols != NULL ? cols[i + rows - 1].end : n;
        const int64_t from  = inner != NULL ? inner[i].begin : 0;
        const int64_t left  = (inner != NULL ? inner[i + rows - 1].end : k) - from;
        const float  *ai = a + i * t->down + from * t->across, *b = t->b + from * t->ldb;
        for (int64_t j = first; j < end; j += (int64_t)WIDE * LANES) {
            float        *o      = c + i * t->ldc + j;
            const int64_t n_left = end - j;
            if (n_left > 3 * LANES)
                tile_panel(WIDE, t, rows, n_left, left, ai, b + j, o);
            else if (n_left > 2 * LANES)
                tile_panel(WIDE < 3 ? WIDE : 3, t, rows, n_left, left, ai, b + j, o);
            else if (n_left > LANES)
                tile_panel(2, t, rows, n_left, left, ai, b + j, o);
            else
                tile_panel(1, t, rows, n_left, left, ai, b + j, o);
        }
    }
}

#endif
