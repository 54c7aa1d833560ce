/* element_rows.h - the inner loops of element.c over one tile, for one type.
 *
 * Included once for float and once for double: REAL is the type, ABS and SQRT its functions,
 * FN(name) the name for it.  Rows are contiguous: transposition was dealt with before.  The loops
 * are written so that GCC turns them into vector code without fast-math: `omp simd` says that
 * elements do not depend on each other (in place included), and reductions keep LANES sums of
 * their own, which also fixes their order. */

/* A cache line: enough to hide the latency of an addition. */
enum { FN(LANES) = 64 / sizeof(REAL) };

static REAL *FN(row)(tile t, ms_mat x, int64_t i) /* row i of the tile */
{
    return (REAL *)x.data + t.b * x.stride + (t.i + i) * x.ld + t.j;
}

static void FN(fill)(tile t, double value, ms_mat out)
{
    for (int64_t i = 0; i < t.rows; i++) {
        REAL *o = FN(row)(t, out, i);
#pragma omp simd
        for (int64_t j = 0; j < t.cols; j++)
            o[j] = (REAL)value;
    }
}

static void FN(copy)(tile t, ms_mat x, ms_mat out)
{
    for (int64_t i = 0; i < t.rows; i++)
        memcpy(FN(row)(t, out, i), FN(row)(t, x, i), (size_t)t.cols * sizeof(REAL));
}

/* The tile of out, whose elements lie transposed in x: by squares of one cache line's width, so
 * that a line once read or written stays in L1 until all of it was. */
static void FN(transpose)(tile t, ms_mat x, ms_mat out)
{
    enum { N = FN(LANES) };
    for (int64_t j = 0; j < t.cols; j += N) {
        for (int64_t i = 0; i < t.rows; i += N) {
            const REAL *in = (const REAL *)x.data + t.b * x.stride + (t.j + j) * x.ld + t.i + i;
            REAL       *o  = FN(row)(t, out, i) + j;
            if (t.rows - i >= N && t.cols - j >= N) { /* fixed bounds: unrolled, vector stores */
                for (int k = 0; k < N; k++)
                    for (int l = 0; l < N; l++)
                        o[k * out.ld + l] = in[l * x.ld + k];
            } else {
                for (int64_t k = 0; k < N && k < t.rows - i; k++)
                    for (int64_t l = 0; l < N && l < t.cols - j; l++)
                        o[k * out.ld + l] = in[l * x.ld + k];
            }
        }
    }
}

static void FN(scale)(tile t, double factor, ms_mat x, ms_mat out)
{
    for (int64_t i = 0; i < t.rows; i++) {
        const REAL *in = FN(row)(t, x, i);
        REAL       *o  = FN(row)(t, out, i);
#pragma omp simd
        for (int64_t j = 0; j < t.cols; j++)
            o[j] = (REAL)(factor * (double)in[j]);
    }
}

/* row i times v[i] */
static void FN(scale_rows)(tile t, ms_mat v, int64_t v_step, ms_mat x)
{
    const REAL *factor = (const REAL *)v.data + t.b * v.stride;
    for (int64_t i = 0; i < t.rows; i++) {
        REAL      *o = FN(row)(t, x, i);
        const REAL f = factor[(t.i + i) * v_step];
#pragma omp simd
        for (int64_t j = 0; j < t.cols; j++)
            o[j] *= f;
    }
}

/* column j times v[j] */
static void FN(scale_cols)(tile t, ms_mat v, ms_mat x)
{
    const REAL *factor = (const REAL *)v.data + t.b * v.stride + t.j;
    for (int64_t i = 0; i < t.rows; i++) {
        REAL *o = FN(row)(t, x, i);
#pragma omp simd
        for (int64_t j = 0; j < t.cols; j++)
            o[j] *= factor[j];
    }
}

/* out <- a x + b y; x or y NULL: absent */
static void FN(add)(int64_t n, REAL a, const REAL *x, REAL b, const REAL *y, REAL *out)
{
    if (x != NULL && y != NULL) {
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            out[j] = a * x[j] + b * y[j];
    } else if (x != NULL || y != NULL) {
        const REAL  f  = x != NULL ? a : b;
        const REAL *in = x != NULL ? x : y;
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            out[j] = f * in[j];
    } else {
        memset(out, 0, (size_t)n * sizeof(REAL));
    }
}

static void FN(axpby)(tile t, double alpha, ms_mat x, double beta, ms_mat y)
{
    for (int64_t i = 0; i < t.rows; i++) {
        REAL *o = FN(row)(t, y, i);
        FN(add)(t.cols, (REAL)alpha, FN(row)(t, x, i), (REAL)beta, beta == 0.0 ? NULL : o, o);
    }
}

/* In pieces that stay in L1 from one term to the next.  `keep`: an out lies on x or y, so these are
 * set aside before the first term is written. */
static void FN(combine)(tile t, ms_mat x, ms_mat y, const ms_term *terms, int n_terms, bool keep)
{
    REAL x_kept[PIECE], y_kept[PIECE];
    for (int64_t i = 0; i < t.rows; i++) {
        for (int64_t j = 0; j < t.cols; j += PIECE) {
            const int64_t n  = t.cols - j < PIECE ? t.cols - j : PIECE;
            const REAL   *xs = x.data != NULL ? FN(row)(t, x, i) + j : NULL;
            const REAL   *ys = y.data != NULL ? FN(row)(t, y, i) + j : NULL;
            if (keep && xs != NULL) xs = memcpy(x_kept, xs, (size_t)n * sizeof(REAL));
            if (keep && ys != NULL) ys = memcpy(y_kept, ys, (size_t)n * sizeof(REAL));
            for (int k = 0; k < n_terms; k++) {
                if (!ms_is_active(terms[k].mask, t.b)) continue;
                const REAL a = (REAL)ms_num_at(terms[k].x_coef, t.b);
                const REAL b = (REAL)ms_num_at(terms[k].y_coef, t.b);
                FN(add)(n, a, xs, b, ys, FN(row)(t, terms[k].out, i) + j);
            }
        }
        const int64_t on_diag = t.i + i - t.j; /* its column in this tile, if it is there */
        for (int k = 0; k < n_terms && on_diag >= 0 && on_diag < t.cols; k++) {
            if (!ms_is_active(terms[k].mask, t.b)) continue;
            REAL *o = FN(row)(t, terms[k].out, i) + on_diag;
            *o      = (REAL)((double)*o + ms_num_at(terms[k].diag, t.b));
        }
    }
}

/* ---- functions of one number ----------------------------------------------------------------- */

/* NOLINTBEGIN(bugprone-branch-clone): loops of different functions look alike to it */
/* out <- f(x) */
static void FN(unary)(tile t, ms_unary f, ms_mat x, ms_mat out)
{
    for (int64_t i = 0; i < t.rows; i++) {
        const REAL *in = FN(row)(t, x, i);
        REAL       *o  = FN(row)(t, out, i);
        switch (f) {
#define X(NAME, name)                                                                         \
    case MS_UNARY_##NAME:                                                                     \
        _Pragma("omp simd") for (int64_t j = 0; j < t.cols; j++) o[j] = FN(ms_##name)(in[j]); \
        break;
            MS_UNARY_MAP(X)
#undef X
        }
    }
}

/* out <- f'(x) y */
static void FN(unary_grad)(tile t, ms_unary f, ms_mat x, ms_mat y, ms_mat out)
{
    for (int64_t i = 0; i < t.rows; i++) {
        const REAL *in = FN(row)(t, x, i), *dy = FN(row)(t, y, i);
        REAL       *o = FN(row)(t, out, i);
        switch (f) {
#define X(NAME, name)                                                   \
    case MS_UNARY_##NAME:                                               \
        _Pragma("omp simd") for (int64_t j = 0; j < t.cols; j++) o[j] = \
            FN(ms_##name##_grad)(in[j], dy[j]);                         \
        break;
            MS_UNARY_MAP(X)
#undef X
        }
    }
}
/* NOLINTEND(bugprone-branch-clone) */

static void FN(relu2_grad_from_out)(tile t, ms_mat x, ms_mat y, ms_mat out)
{
    for (int64_t i = 0; i < t.rows; i++) {
        const REAL *in = FN(row)(t, x, i), *dy = FN(row)(t, y, i);
        REAL       *o = FN(row)(t, out, i);
#pragma omp simd
        for (int64_t j = 0; j < t.cols; j++)
            o[j] = in[j] <= (REAL)0 ? (REAL)0 : (REAL)2 * SQRT(in[j]) * dy[j];
    }
}

/* ---- optimizers ------------------------------------------------------------------------------ */

/* (1 - beta2) g g is formed from the left, where large g overflow last. */
static void FN(moments)(tile t, ms_moments r, ms_mat g, ms_mat m, ms_mat v, ms_mat slow, ms_mat u)
{
    const REAL keep1 = (REAL)r.beta1, new1 = (REAL)(1.0 - r.beta1);
    const REAL keep2 = (REAL)r.beta2, new2 = (REAL)(1.0 - r.beta2);
    const REAL keep3 = (REAL)r.beta3, new3 = (REAL)(1.0 - r.beta3);
    const REAL scale1 = (REAL)(1.0 / r.correct1), scale2 = (REAL)(1.0 / sqrt(r.correct2));
    const REAL alpha = (REAL)r.alpha, eps = (REAL)r.eps;
    for (int64_t i = 0; i < t.rows; i++) {
        const REAL *gs = FN(row)(t, g, i);
        REAL       *ms = FN(row)(t, m, i), *vs = FN(row)(t, v, i), *o = FN(row)(t, u, i);
        if (slow.data == NULL) {
#pragma omp simd
            for (int64_t j = 0; j < t.cols; j++) {
                ms[j] = keep1 * ms[j] + new1 * gs[j];
                vs[j] = keep2 * vs[j] + new2 * gs[j] * gs[j];
                o[j]  = scale1 * ms[j] / (scale2 * SQRT(vs[j]) + eps);
            }
        } else {
            REAL *ss = FN(row)(t, slow, i);
#pragma omp simd
            for (int64_t j = 0; j < t.cols; j++) {
                ms[j] = keep1 * ms[j] + new1 * gs[j];
                vs[j] = keep2 * vs[j] + new2 * gs[j] * gs[j];
                ss[j] = keep3 * ss[j] + new3 * gs[j];
                o[j]  = (scale1 * ms[j] + alpha * ss[j]) / (scale2 * SQRT(vs[j]) + eps);
            }
        }
    }
}

static void FN(decay_add)(tile t, double step, ms_mat u, double decay, ms_mat w)
{
    const REAL by = (REAL)step, rate = (REAL)decay;
    for (int64_t i = 0; i < t.rows; i++) {
        const REAL *us = FN(row)(t, u, i);
        REAL       *o  = FN(row)(t, w, i);
#pragma omp simd
        for (int64_t j = 0; j < t.cols; j++)
            o[j] -= rate * o[j] + by * us[j];
    }
}

static void FN(decay_add_cautious)(tile t, double step, ms_mat u, double decay, ms_mat w)
{
    const REAL by = (REAL)step, rate = (REAL)decay;
    for (int64_t i = 0; i < t.rows; i++) {
        const REAL *us = FN(row)(t, u, i);
        REAL       *o  = FN(row)(t, w, i);
#pragma omp simd
        for (int64_t j = 0; j < t.cols; j++) { /* no && and ||: a branch is no vector code */
            const bool against = ((us[j] < 0) & (o[j] > 0)) | ((us[j] > 0) & (o[j] < 0));
            o[j] -= (against ? 0 : rate) * o[j] + by * us[j];
        }
    }
}

/* ---- reductions: the lanes, pairwise, then what is left at the ends of the rows -------------- */

static double FN(join)(double *lane)
{
    for (int width = FN(LANES) / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++)
            lane[l] += lane[l + width];
    return lane[0];
}

static double FN(sum)(tile t, ms_mat x)
{
    double lane[FN(LANES)] = { 0.0 }, rest = 0.0;
    for (int64_t i = 0; i < t.rows; i++) {
        const REAL *in = FN(row)(t, x, i);
        int64_t     j  = 0;
        for (; j + FN(LANES) <= t.cols; j += FN(LANES))
#pragma omp simd
            for (int l = 0; l < FN(LANES); l++)
                lane[l] += (double)in[j + l];
        for (; j < t.cols; j++)
            rest += (double)in[j];
    }
    return FN(join)(lane) + rest;
}

static double FN(sumsq)(tile t, ms_mat x)
{
    double lane[FN(LANES)] = { 0.0 }, rest = 0.0;
    for (int64_t i = 0; i < t.rows; i++) {
        const REAL *in = FN(row)(t, x, i);
        int64_t     j  = 0;
        for (; j + FN(LANES) <= t.cols; j += FN(LANES))
#pragma omp simd
            for (int l = 0; l < FN(LANES); l++)
                lane[l] += (double)in[j + l] * (double)in[j + l];
        for (; j < t.cols; j++)
            rest += (double)in[j] * (double)in[j];
    }
    return FN(join)(lane) + rest;
}

/* A maximum forgets a NaN, whichever way it is written.  x - x is 0 for numbers and NaN for what is
 * none: where the sum of these is not 0, the tile is looked at again, element by element. */
static double FN(absmax)(tile t, ms_mat x)
{
    REAL   top[FN(LANES)] = { 0 }, doubt[FN(LANES)] = { 0 };
    double all  = 0.0;
    bool   sure = true;
    for (int64_t i = 0; i < t.rows; i++) {
        const REAL *in = FN(row)(t, x, i);
        int64_t     j  = 0;
        for (; j + FN(LANES) <= t.cols; j += FN(LANES)) {
#pragma omp simd
            for (int l = 0; l < FN(LANES); l++) {
                const REAL size = ABS(in[j + l]);
                top[l]          = size > top[l] ? size : top[l];
                doubt[l] += size - size;
            }
        }
        for (; j < t.cols; j++)
            all = larger(all, (double)ABS(in[j]));
    }
    for (int l = 0; l < FN(LANES); l++) {
        all  = larger(all, (double)top[l]);
        sure = sure && doubt[l] == 0;
    }
    for (int64_t i = 0; i < t.rows && !sure; i++)
        for (int64_t j = 0; j < t.cols; j++)
            all = larger(all, (double)ABS(FN(row)(t, x, i)[j]));
    return all;
}

static double FN(count_nonfinite)(tile t, ms_mat x)
{
    REAL lane[FN(LANES)] = { 0 }; /* exact: a tile has far fewer than 2^24 elements */
    for (int64_t i = 0; i < t.rows; i++) {
        const REAL *in = FN(row)(t, x, i);
        int64_t     j  = 0;
        for (; j + FN(LANES) <= t.cols; j += FN(LANES)) /* x - x is 0 for numbers, NaN for others */
#pragma omp simd
            for (int l = 0; l < FN(LANES); l++)
                lane[l] += in[j + l] - in[j + l] == 0 ? 0 : 1;
        for (; j < t.cols; j++)
            lane[0] += in[j] - in[j] == 0 ? 0 : 1;
    }
    double all = 0.0;
    for (int l = 0; l < FN(LANES); l++)
        all += (double)lane[l];
    return all;
}
