/* linalg_spectra_test.c - every clip on 10,000 random spectra, and on spectra that a search makes
 * as bad as it can.
 *
 * A matrix H diag(s) J with Householder reflections H and J has dense entries, and costs no more
 * than they do: so has H out J, in which the image of each singular value stands on the diagonal
 * and all else is rounding.  Images are held to what docs/operators.md promises (clip_law.h), which
 * also keeps the norm: no promise exceeds D, but that of paper7 by 1.6e-6.  Threshold 1. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clip_law.h"
#include "clip_run.h"
#include "oracle.h"

/* ---- stacks of matrices with known singular vectors ------------------------------------------ */

typedef struct stack {
    int64_t count, rows, cols, r;
    double *s;     /* (count, r) */
    double *x;     /* (count, rows, cols) */
    double *a, *b; /* (rows), (cols): H = I - a a^T, J = I - b b^T; of norm sqrt(2) */
} stack;

/* x <- (I - a a^T) x (I - b b^T) */
static void reflect(const stack *k, double *x)
{
    double *ax = check_alloc((size_t)k->cols * sizeof *ax);
    for (int64_t i = 0; i < k->rows; i++)
        for (int64_t j = 0; j < k->cols; j++)
            ax[j] += k->a[i] * x[i * k->cols + j];
    for (int64_t i = 0; i < k->rows; i++) {
        double xb = 0.0;
        for (int64_t j = 0; j < k->cols; j++) {
            x[i * k->cols + j] -= k->a[i] * ax[j];
            xb += x[i * k->cols + j] * k->b[j];
        }
        for (int64_t j = 0; j < k->cols; j++)
            x[i * k->cols + j] -= xb * k->b[j];
    }
    free(ax);
}

static double *direction(int64_t n, uint64_t seed)
{
    double      *a    = oracle_gaussian(1, n, seed);
    const double size = run_fro(a, n);
    for (int64_t i = 0; i < n; i++)
        a[i] *= sqrt(2.0) / size;
    return a;
}

static stack stack_make(int64_t count, int64_t rows, int64_t cols, uint64_t seed)
{
    stack k = { .count = count, .rows = rows, .cols = cols, .r = rows < cols ? rows : cols };
    k.s     = check_alloc((size_t)(count * k.r) * sizeof *k.s);
    k.x     = check_alloc((size_t)(count * rows * cols) * sizeof *k.x);
    k.a     = direction(rows, 2 * seed);
    k.b     = direction(cols, 2 * seed + 1);
    return k;
}

static void stack_fill(stack *k) /* x from s */
{
    memset(k->x, 0, (size_t)(k->count * k->rows * k->cols) * sizeof *k->x);
    for (int64_t m = 0; m < k->count; m++) {
        double *x = k->x + m * k->rows * k->cols;
        for (int64_t i = 0; i < k->r; i++)
            x[i * k->cols + i] = k->s[m * k->r + i];
        reflect(k, x);
    }
}

static void stack_free(stack *k) { free(k->s), free(k->x), free(k->a), free(k->b); }

/* ---- judging --------------------------------------------------------------------------------- */

/* Rounding in float64, absolute (D = 1).  By products: twice the largest of the table for float32,
 * 6e-6, over 5e8 as the table says, and that of the Gram matrix, eps / 8 / u_low^2, which shows
 * where a plan lifts small values: up to 0.8 of it is seen here, and 2.1 behind a chain, whose
 * slope enters; four times as much is allowed.  By eigenvalues 2e-16 s_1^2 up to s_1 = 30, or by an
 * SVD 1e-15 s_1, and ten times that is allowed. */
static double noise_of(const musec_clip_report *report, double s1)
{
    const double unit = fmin(1.0, s1), u = report->u_low;
    const bool   sharp = strchr(report->path, ' ') != NULL; /* "p9x9 hard" */
    if (report->products == 0) return 1e-14 * unit + 1e-14 * s1 + 2e-15 * fmin(s1 * s1, 900.0);
    return (2.4e-14 + (sharp ? 8.0 : 3.0) * 0x1p-55 / (u * u)) * unit + 1e-15 * s1;
}

typedef struct verdict { /* the worst over all images */
    double outside;      /* how far outside of what is promised */
    double below, above; /* how near to the lower or upper edge, or beyond it: 1 is on it */
} verdict;

/* Judges one matrix of the stack; out is what became of it and is overwritten. */
static verdict judge(const stack *k, int64_t m, const musec_clip_config *cfg,
                     const musec_clip_report *report, double *out, const char *name)
{
    const double *s   = k->s + m * k->r;
    double        top = 0.0, off = 0.0;
    verdict       v = { -INFINITY, -INFINITY, -INFINITY };
    for (int64_t i = 0; i < k->r; i++)
        top = fmax(top, s[i]);
    const double noise = noise_of(report, top);
    reflect(k, out);
    for (int64_t i = 0; i < k->rows; i++)
        for (int64_t j = 0; j < k->cols; j++)
            if (i != j) off += out[i * k->cols + j] * out[i * k->cols + j];
    CHECK(sqrt(off) <= noise * sqrt((double)k->r), "%s, %s, %d x %d, s_1 = %g: vectors off by %g",
          name, report->path, (int)k->rows, (int)k->cols, top, sqrt(off));
    for (int64_t i = 0; i < k->r; i++) {
        const law_range want    = law_promised(cfg, report, s, k->r, i);
        const double    got     = out[i * k->cols + i];
        const double    width   = want.most - want.least + noise;
        const double    outside = fmax(want.least - got, got - want.most) - noise;
        if (!(outside <= v.outside)) v.outside = outside; /* NaN stays */
        v.below = fmax(v.below, (want.most - got) / width);
        v.above = fmax(v.above, 1.0 + (got - want.most) / noise);
    }
    return v;
}

/* Clips the stack and judges each matrix; v: (count). */
static void judge_stack(ms_device *dev, const law_case *c, const stack *k, verdict *v)
{
    const musec_clip_config cfg    = law_config(c, 1.0);
    musec_clip_report      *report = check_alloc((size_t)k->count * sizeof *report);
    char                    name[96];
    law_case_name(c, name, sizeof name);
    double *out = run_clip_in(dev, &cfg, MUSEC_F64, k->x, k->rows, k->cols,
                              (run_layout){ .more = k->count - 1 }, report);
    for (int64_t m = 0; m < k->count; m++) {
        v[m] = judge(k, m, &cfg, &report[m], out + m * k->rows * k->cols, name);
        CHECK(v[m].outside <= 0.0, "%s, %s, %d x %d, matrix %d, s_1 = %g: outside by %g", name,
              report[m].path, (int)k->rows, (int)k->cols, (int)m, k->s[m * k->r], v[m].outside);
    }
    free(out), free(report);
}

/* ---- random spectra -------------------------------------------------------------------------- */

/* How many spectra of each size: 10,000 in all, most of them small, for their work grows as r^3. */
static const struct sizes {
    int first, last, step, count;
} sizes[] = {
    { 1, 8, 1, 508 },  { 9, 16, 1, 405 }, { 17, 32, 1, 140 },
    { 33, 64, 1, 12 }, { 68, 124, 8, 6 }, { 136, 256, 40, 6 },
};

TEST(ten_thousand_spectra_are_drawn)
{
    int total = 0;
    for (size_t i = 0; i < COUNT(sizes); i++)
        total += ((sizes[i].last - sizes[i].first) / sizes[i].step + 1) * sizes[i].count;
    CHECK(total == 10000, "%d", total);
}

static void check_size(ms_device *dev, int64_t r, int64_t count, uint64_t *state)
{
    verdict      *v    = check_alloc((size_t)count * sizeof *v);
    const int64_t more = r % 3 == 0 ? 0 : 1 + r / 4;
    stack k = stack_make(count, r % 3 == 1 ? r + more : r, r % 3 == 2 ? r + more : r, (uint64_t)r);
    for (int64_t m = 0; m < count; m++) {
        run_draw_spectrum((run_spectrum)(m % RUN_SPECTRA), r, state, k.s + m * r);
        const double size = pow(10.0, -1.5 + 5.0 * oracle_uniform(state)); /* s_1 / D */
        for (int64_t i = 0; i < r; i++)
            k.s[m * r + i] *= m % 7 == 6 && i >= (r + 1) / 2 ? 0.0 : size; /* of half the rank */
    }
    stack_fill(&k);
    for (size_t i = 0; i < law_case_count; i++)
        if (check_takes_case()) judge_stack(dev, &law_cases[i], &k, v);
    stack_free(&k), free(v);
}

TEST_EACH_DEVICE(random_spectra_become_what_is_promised, dev)
{
    uint64_t state = 31 + check_seed();
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (int r = sizes[i].first; r <= sizes[i].last; r += sizes[i].step)
            if (!run_is_slow(dev) || r <= 32) /* plain loops: a tenth, and only small ones */
                check_size(dev, r, run_is_slow(dev) ? sizes[i].count / 10 : sizes[i].count, &state);
}

/* ---- a search -------------------------------------------------------------------------------- */

/* Moves of a spectrum at random, some of them far and some near; some of its threshold too. */
static void move(const double *from, int64_t r, double *to, uint64_t *state)
{
    const double size = pow(10.0, -2.0 * oracle_uniform(state));
    const double all  = exp(0.5 * size * oracle_normal(state));
    const int single  = oracle_uniform(state) < 0.5 ? (int)(oracle_uniform(state) * (double)r) : -1;
    for (int64_t i = 0; i < r; i++) {
        const double by = single < 0 || single == i ? exp(size * oracle_normal(state)) : 1.0;
        to[i]           = fmin(1e4, fmax(1e-6, from[i] * by * all));
    }
}

/* A climb: of each round's moves, the one that brings a result nearest to an edge of what is
 * promised is where the next round starts.  Returns how near that is. */
static double climb(ms_device *dev, const law_case *c, bool upwards, uint64_t seed)
{
    enum { R = 8, MOVES = 16, ROUNDS = 20 };
    uint64_t state = 1000 * seed + check_seed();
    stack    k     = stack_make(MOVES, R, R, seed);
    verdict  v[MOVES];
    double   best[R], nearest = -INFINITY;
    run_draw_spectrum(RUN_LOG_UNIFORM, R, &state, best);
    for (int round = 0; round < ROUNDS; round++) {
        for (int64_t m = 0; m < MOVES; m++)
            move(best, R, k.s + m * R, &state);
        stack_fill(&k);
        judge_stack(dev, c, &k, v);
        for (int64_t m = 0; m < MOVES; m++) {
            const double near = upwards ? v[m].above : v[m].below;
            if (near <= nearest) continue;
            nearest = near;
            memcpy(best, k.s + m * R, sizeof best);
        }
    }
    stack_free(&k);
    return nearest;
}

/* And it does search: it comes near the lower edge of every operator that has one.  (The chain of
 * an accurate operator may be much better than half of tol, which is what it must be.) */
TEST_EACH_DEVICE(a_search_finds_nothing_outside, dev)
{
    for (size_t i = 0; i < law_case_count; i++) {
        const law_case *c = &law_cases[i];
        char            name[96];
        if (!law_is_by_products(c) || !check_takes_case()) continue;
        climb(dev, c, true, 2 * i);
        const double below = climb(dev, c, false, 2 * i + 1);
        CHECK(below >= 0.25 || strcmp(c->op, "ssc") == 0, "%s: no nearer than %g",
              law_case_name(c, name, sizeof name), below);
    }
}

/* ---- the ball -------------------------------------------------------------------------------- */

/* Whatever s_1 / D is, and however far the soft stage is from its limit: the norm exceeds neither D
 * nor what it was, but by rounding and paper7's 1.6e-6.  Rounding is that of `fast` in float32,
 * twice, and twice that of the Gram matrix, eps / 8 / u_low^2, which `accurate` lifts. */
TEST_EACH_DEVICE(results_stay_in_the_ball, dev)
{
    enum { TRIALS = 12, R = 16 };
    uint64_t state = 12 + check_seed();
    for (size_t i = 0; i < TRIALS * law_case_count; i++) {
        const law_case   *c      = &law_cases[i / TRIALS];
        const musec_dtype dtype  = i % 2 ? MUSEC_F64 : MUSEC_F32;
        const double      D      = pow(10.0, -6.0 + 7.0 * oracle_uniform(&state));
        double            stated = dtype == MUSEC_F64 ? 1e-12 : 2e-5;
        musec_clip_config cfg    = law_config(c, D);
        musec_clip_report report;
        double            s[R], after[R];
        char              name[96];
        run_draw_spectrum((run_spectrum)(i % RUN_SPECTRA), R, &state, s);
        if (!check_takes_case()) continue;
        oracle  o   = oracle_make_from(R, R + 4, s, i);
        double *got = run_clip(dev, &cfg, dtype, o.x, R, R + 4, &report);
        oracle_singular_values(got, MUSEC_F64, R, R + 4, after);
        if (strcmp(c->op, "paper7") == 0) stated += 1.6e-6;
        if (strstr(c->op, "accurate") != NULL && report.products > 0)
            stated += 2.0 * ms_dtype_eps(dtype) / 8.0 / (report.u_low * report.u_low);
        CHECK(after[0] <= fmin(D, s[0]) * (1.0 + stated), "%s, D = %g: norm %g D of %g D",
              law_case_name(c, name, sizeof name), D, after[0] / D, s[0] / D);
        free(got);
        oracle_free(&o);
    }
}

/* The hard clip leaves alone what is inside the ball: to tol, in float32 as well. */
TEST_EACH_DEVICE(hard_accurate_leaves_small_matrices_alone, dev)
{
    static const double tols[] = { 1e-1, 3e-2, 1e-2, 1e-4 }; /* the latter two by eigenvalues */
    for (size_t i = 0; i < COUNT(tols) * ORACLE_KINDS * 2; i++) {
        const double      tol   = tols[i % COUNT(tols)];
        const oracle_kind kind  = (oracle_kind)(i / COUNT(tols) % ORACLE_KINDS);
        const musec_dtype dtype = i / COUNT(tols) / ORACLE_KINDS ? MUSEC_F32 : MUSEC_F64;
        if (!check_takes_case()) continue;
        oracle            o   = oracle_make(18, 24, kind, 1.0 - tol, kind % 2 ? 0.0 : 1e-3, i);
        musec_clip_config cfg = run_config("hard-accurate", 1.0);
        cfg.tol               = tol;
        double      *got      = run_clip(dev, &cfg, dtype, o.x, 18, 24, NULL);
        const double err      = run_norm2_diff(got, o.x, 18, 24, tol);
        CHECK(err <= tol, "kind %d, tol %g: off by %g", (int)kind, tol, err);
        free(got);
        oracle_free(&o);
    }
}
