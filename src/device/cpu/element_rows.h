/* element_rows.h - the tasks of element.c: loops over one tile, for one type.
 *
 * It is included once for float and once for double: REAL is the type, ABS and SQRT are its
 * functions, FN(name) names a function for it.  No operand is transposed, so rows are contiguous.
 * The loops are written so that GCC vectorizes them without fast-math: `omp simd` says that
 * elements do not depend on each other (also in place), and reductions keep LANES partial sums,
 * which also fixes the order of summation. */

/* One cache line of partial sums hides the latency of an addition. */
enum { FN(LANES) = 64 / sizeof(REAL) };

static REAL *FN(row)(tile t, ms_mat x, int64_t i) /* row i of the tile */
{
    return (REAL *)x.data + t.b * x.stride + (t.i + i) * x.ld + t.j;
}

static void FN(fill)(const call *c, tile t)
{
    const REAL value = (REAL)c->low;
    for (int64_t i = 0; i < t.rows; i++) {
        REAL *o = FN(row)(t, c->out, i);
#pragma omp simd
        for (int64_t j = 0; j < t.cols; j++)
            o[j] = value;
    }
}

static void FN(copy)(const call *c, tile t)
{
    for (int64_t i = 0; i < t.rows; i++)
        memcpy(FN(row)(t, c->out, i), FN(row)(t, c->x, i), (size_t)t.cols * sizeof(REAL));
}

/* Transposes x into the tile of out, by squares of one cache line's width: a line stays in L1 until
 * all of it has been read or written. */
static void FN(transpose)(const call *c, tile t)
{
    enum { N = FN(LANES) };
    const ms_mat x = c->x, out = c->out;
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

static void FN(scale)(const call *c, tile t)
{
    const double factor = ms_num_at(c->alpha, t.b);
    if (factor == 1.0 && c->x.data == c->out.data) return;
    for (int64_t i = 0; i < t.rows; i++) {
        const REAL *in = FN(row)(t, c->x, i);
        REAL       *o  = FN(row)(t, c->out, i);
#pragma omp simd
        for (int64_t j = 0; j < t.cols; j++)
            o[j] = (REAL)(factor * (double)in[j]);
    }
}

/* Multiplies row i by v[i]. */
static void FN(scale_rows)(const call *c, tile t)
{
    const REAL *factor = (const REAL *)c->v.data + t.b * c->v.stride;
    for (int64_t i = 0; i < t.rows; i++) {
        REAL      *o = FN(row)(t, c->x, i);
        const REAL f = factor[(t.i + i) * c->step];
#pragma omp simd
        for (int64_t j = 0; j < t.cols; j++)
            o[j] *= f;
    }
}

/* Multiplies column j by v[j]. */
static void FN(scale_cols)(const call *c, tile t)
{
    const REAL *factor = (const REAL *)c->v.data + t.b * c->v.stride + t.j;
    for (int64_t i = 0; i < t.rows; i++) {
        REAL *o = FN(row)(t, c->x, i);
#pragma omp simd
        for (int64_t j = 0; j < t.cols; j++)
            o[j] *= factor[j];
    }
}

/* out <- a x + b y, where a NULL x or y is absent */
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

static void FN(axpby)(const call *c, tile t)
{
    const double alpha = ms_num_at(c->alpha, t.b), beta = ms_num_at(c->beta, t.b);
    for (int64_t i = 0; i < t.rows; i++) {
        REAL *o = FN(row)(t, c->y, i);
        FN(add)(t.cols, (REAL)alpha, FN(row)(t, c->x, i), (REAL)beta, beta == 0.0 ? NULL : o, o);
    }
}

/* A row is processed in pieces that stay in L1 from one term to the next.  If an out
 * lies on x or y, pieces of these are copied before the first term is written. */
static void FN(combine)(const call *c, tile t)
{
    const ms_mat   x = c->x, y = c->y;
    const ms_term *terms   = c->terms;
    const int      n_terms = c->n_terms;
    REAL           x_kept[PIECE], y_kept[PIECE];
    for (int64_t i = 0; i < t.rows; i++) {
        for (int64_t j = 0; j < t.cols; j += PIECE) {
            const int64_t n  = t.cols - j < PIECE ? t.cols - j : PIECE;
            const REAL   *xs = x.data != NULL ? FN(row)(t, x, i) + j : NULL;
            const REAL   *ys = y.data != NULL ? FN(row)(t, y, i) + j : NULL;
            if (c->keep && xs != NULL) xs = memcpy(x_kept, xs, (size_t)n * sizeof(REAL));
            if (c->keep && ys != NULL) ys = memcpy(y_kept, ys, (size_t)n * sizeof(REAL));
            for (int k = 0; k < n_terms; k++) {
                if (!ms_is_active(terms[k].mask, t.b)) continue;
                const REAL a = (REAL)ms_num_at(terms[k].x_coef, t.b);
                const REAL b = (REAL)ms_num_at(terms[k].y_coef, t.b);
                FN(add)(n, a, xs, b, ys, FN(row)(t, terms[k].out, i) + j);
            }
        }
        const int64_t on_diag =
            t.i + i - t.j; /* the column of the diagonal element, if it is in this tile */
        for (int k = 0; k < n_terms && on_diag >= 0 && on_diag < t.cols; k++) {
            if (!ms_is_active(terms[k].mask, t.b)) continue;
            REAL *o = FN(row)(t, terms[k].out, i) + on_diag;
            *o      = (REAL)((double)*o + ms_num_at(terms[k].diag, t.b));
        }
    }
}

/* ---- functions of one number ----------------------------------------------------------------- */

/* NOLINTBEGIN(bugprone-branch-clone): the check takes the loops of different functions as equal */
/* out <- f(x) */
static void FN(unary)(const call *c, tile t)
{
    for (int64_t i = 0; i < t.rows; i++) {
        const REAL *in = FN(row)(t, c->x, i);
        REAL       *o  = FN(row)(t, c->out, i);
        switch (c->unary) {
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
static void FN(unary_grad)(const call *c, tile t)
{
    for (int64_t i = 0; i < t.rows; i++) {
        const REAL *in = FN(row)(t, c->x, i), *dy = FN(row)(t, c->y, i);
        REAL       *o = FN(row)(t, c->out, i);
        switch (c->unary) {
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

static void FN(relu2_grad_from_out)(const call *c, tile t)
{
    for (int64_t i = 0; i < t.rows; i++) {
        const REAL *in = FN(row)(t, c->x, i), *dy = FN(row)(t, c->y, i);
        REAL       *o = FN(row)(t, c->out, i);
#pragma omp simd
        for (int64_t j = 0; j < t.cols; j++)
            o[j] = in[j] <= (REAL)0 ? (REAL)0 : (REAL)2 * SQRT(in[j]) * dy[j];
    }
}

/* ---- optimizers ------------------------------------------------------------------------------ */

/* (1 - beta2) g g is evaluated from the left: the small factor first delays overflow. */
static void FN(moments)(const call *c, tile t)
{
    const ms_moments r     = c->rates;
    const REAL       keep1 = (REAL)r.beta1, new1 = (REAL)(1.0 - r.beta1);
    const REAL       keep2 = (REAL)r.beta2, new2 = (REAL)(1.0 - r.beta2);
    const REAL       keep3 = (REAL)r.beta3, new3 = (REAL)(1.0 - r.beta3);
    const REAL       scale1 = (REAL)(1.0 / r.correct1), scale2 = (REAL)(1.0 / sqrt(r.correct2));
    const REAL       alpha = (REAL)r.alpha, eps = (REAL)r.eps;
    for (int64_t i = 0; i < t.rows; i++) {
        const REAL *gs = FN(row)(t, c->x, i);
        REAL       *ms = FN(row)(t, c->m, i), *vs = FN(row)(t, c->v, i), *o = FN(row)(t, c->out, i);
        if (c->slow.data == NULL) {
#pragma omp simd
            for (int64_t j = 0; j < t.cols; j++) {
                ms[j] = keep1 * ms[j] + new1 * gs[j];
                vs[j] = keep2 * vs[j] + new2 * gs[j] * gs[j];
                o[j]  = scale1 * ms[j] / (scale2 * SQRT(vs[j]) + eps);
            }
        } else {
            REAL *ss = FN(row)(t, c->slow, i);
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

/* Row i of the tile; of a matrix of 16 bits, in `wide`. */
static const REAL *FN(read)(tile t, ms_mat x, int64_t i, REAL *wide)
{
    const uint16_t *in = ms_mat_address(x, t.b, t.i + i, t.j);
    if (!is_16bit(x)) return FN(row)(t, x, i);
    for (int64_t j = 0; j < t.cols; j++)
        wide[j] = x.dtype == MUSEC_F16 ? ms_float_of_f16(in[j]) : ms_float_of_bf16(in[j]);
    return wide;
}

static inline void FN(decay)(const call *c, tile t, const bool cautious)
{
    const REAL by = (REAL)ms_num_at(c->alpha, t.b), rate = (REAL)ms_num_at(c->beta, t.b);
    REAL       wide[TILE_COLS];
    for (int64_t i = 0; i < t.rows; i++) {
        const REAL *us = FN(read)(t, c->x, i, wide);
        REAL       *o  = FN(row)(t, c->out, i);
#pragma omp simd
        for (int64_t j = 0; j < t.cols; j++) { /* && and || would branch: no vector code */
            const bool against = ((us[j] < 0) & (o[j] > 0)) | ((us[j] > 0) & (o[j] < 0));
            o[j] -= ((cautious & against) ? 0 : rate) * o[j] + by * us[j];
        }
    }
}

static void FN(decay_add)(const call *c, tile t) { FN(decay)(c, t, false); }

static void FN(decay_add_cautious)(const call *c, tile t) { FN(decay)(c, t, true); }

/* ---- reductions: partial sums by lane, added pairwise, and the ends of rows ------------------ */

static double FN(join)(double *lane)
{
    for (int width = FN(LANES) / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++)
            lane[l] += lane[l + width];
    return lane[0];
}

static inline double FN(add_up)(tile t, ms_mat x, const bool squares)
{
    double lane[FN(LANES)] = { 0.0 }, rest = 0.0;
    for (int64_t i = 0; i < t.rows; i++) {
        const REAL *in = FN(row)(t, x, i);
        int64_t     j  = 0;
        for (; j + FN(LANES) <= t.cols; j += FN(LANES))
#pragma omp simd
            for (int l = 0; l < FN(LANES); l++) {
                const double v = (double)in[j + l];
                lane[l] += squares ? v * v : v;
            }
        for (; j < t.cols; j++)
            rest += squares ? (double)in[j] * (double)in[j] : (double)in[j];
    }
    return FN(join)(lane) + rest;
}

static double FN(sum)(tile t, ms_mat x) { return FN(add_up)(t, x, false); }

static double FN(sumsq)(tile t, ms_mat x) { return FN(add_up)(t, x, true); }

/* A vectorized maximum drops NaN, however the comparison is written.  x - x is 0 if x is finite and
 * NaN otherwise: if the sum of these is not 0, the tile is read again, element by element. */
static double FN(absmax)(tile t, ms_mat x)
{
    REAL   max[FN(LANES)] = { 0 }, nonfinite[FN(LANES)] = { 0 };
    double all    = 0.0;
    bool   finite = true;
    for (int64_t i = 0; i < t.rows; i++) {
        const REAL *in = FN(row)(t, x, i);
        int64_t     j  = 0;
        for (; j + FN(LANES) <= t.cols; j += FN(LANES)) {
#pragma omp simd
            for (int l = 0; l < FN(LANES); l++) {
                const REAL size = ABS(in[j + l]);
                max[l]          = size > max[l] ? size : max[l];
                nonfinite[l] += size - size;
            }
        }
        for (; j < t.cols; j++)
            all = larger(all, (double)ABS(in[j]));
    }
    for (int l = 0; l < FN(LANES); l++) {
        all    = larger(all, (double)max[l]);
        finite = finite && nonfinite[l] == 0;
    }
    for (int64_t i = 0; i < t.rows && !finite; i++)
        for (int64_t j = 0; j < t.cols; j++)
            all = larger(all, (double)ABS(FN(row)(t, x, i)[j]));
    return all;
}

static double FN(count_nonfinite)(tile t, ms_mat x)
{
    REAL lane[FN(LANES)] = { 0 }; /* exact: a tile has fewer than 2^24 elements */
    for (int64_t i = 0; i < t.rows; i++) {
        const REAL *in = FN(row)(t, x, i);
        int64_t     j  = 0;
        for (; j + FN(LANES) <= t.cols; j += FN(LANES)) /* x - x is NaN unless finite */
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

#undef REAL
#undef ABS
#undef SQRT
#undef FN
