/* linalg_search_test.c - a search for matrices on which 16-bit operands do worst.
 *
 * A matrix is its SVD: singular values, and vectors that are random, cosines (whose products have
 * many equal entries, so that their rounding errors agree) or unit vectors.  A climb moves singular
 * values and turns vectors at random, and keeps what brings the error or the norm of a result
 * nearer to its bound.  Every matrix on the way is held to the bounds of docs/operators.md.
 *
 * The error is the distance from what the operator is in exact arithmetic: that of its polynomials,
 * or for those with a tol that of their chain behind the exact soft clip, up to s_1 = 10 D, from
 * which they may be farther by tol.  The bounds are twice the largest that this search found with
 * 40 times as many steps, in ten climbs of each kind, from two seeds. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clip_law.h"
#include "clip_run.h"
#include "linalg/linalg.h"
#include "linalg/sharp_chain.h"
#include "oracle.h"

/* s_1 / D up to 1, up to 10 and above: |result - exact|_2 / D, and |result|_2 / D - 1. */
enum { RANGES = 3 };
typedef struct bounds {
    double error[RANGES], excess[RANGES];
} bounds;

typedef struct op_case {
    const char *op;
    bool        law; /* held to the exact soft clip within tol, not to polynomials */
    bounds      f16, bf16;
} op_case;

/* ---- what an operator computes in exact arithmetic ------------------------------------------- */

typedef struct exact_map {
    const op_case        *c;
    const ms_sharp_chain *chain;
    ms_poly_plan          plan;
    double                alpha, fro;
} exact_map;

static double quintic(double x)
{
    for (int k = 0; k < 5; k++)
        x = 3.4445 * x - 4.7750 * pow(x, 3) + 2.0315 * pow(x, 5);
    return x;
}

/* D is 1 throughout. */
static double exact_value(double s, const void *arg)
{
    const exact_map *m = arg;
    if (strcmp(m->c->op, "ns5") == 0) return quintic(s / (m->fro + 1e-7));
    const double gain =
        m->c->law ? 1.0 : ms_poly_plan_gain(&m->plan, hypot(s, 1.0) / sqrt(m->alpha));
    const double zeta = gain * gain / (s * s + 1.0);
    return law_soft(s, 1.0) * gain *
           (m->chain != NULL ? law_chain(m->chain, 1.0 - 2.0 * zeta) : 1.0);
}

static exact_map exact_map_of(const op_case *c, const oracle *o, const musec_clip_report *report)
{
    exact_map    m      = { .c = c, .alpha = report->alpha, .fro = run_fro(o->s, o->k) };
    const double corner = strstr(report->path, " bf16") != NULL ? 5e-2 : 3e-2;
    if (strncmp(c->op, "hard", 4) == 0) m.chain = ms_sharp_chain_find(INFINITY, corner, 5e-3);
    if (strncmp(c->op, "sharp", 5) == 0) m.chain = ms_sharp_chain_find(4.0, corner, 5e-3);
    if (strcmp(c->op, "ssc") == 0) ms_plan_newton_schulz(5, &m.plan);
    if (strcmp(c->op, "paper7") == 0) ms_poly_plan_paper7(&m.plan);
    if (strstr(c->op, "fast") != NULL)
        ms_poly_plan_fast(report->u_low >= 0.40 ? 0 : report->u_low >= 0.16 ? 1 : 2, &m.plan);
    return m;
}

/* ---- matrices -------------------------------------------------------------------------------- */

static double top_of(const oracle *o)
{
    double top = 0.0;
    for (int64_t l = 0; l < o->k; l++)
        top = fmax(top, o->s[l]);
    return top;
}

/* Makes k rows of an orthogonal n x n matrix: random, of cosines, or of the identity. */
static void draw_vectors(double *q, int64_t k, int64_t n, uint64_t *state)
{
    const double pi   = 3.14159265358979323846;
    const int    kind = (int)(3.0 * oracle_uniform(state));
    double *full = kind == 0 ? oracle_orthogonal(n, (uint64_t)(1e9 * oracle_uniform(state))) : NULL;
    for (int64_t l = 0; l < k; l++)
        for (int64_t i = 0; i < n; i++)
            q[l * n + i] = kind == 0   ? full[l * n + i]
                           : kind == 1 ? sqrt((l == 0 ? 1.0 : 2.0) / (double)n) *
                                             cos(pi * (double)l * ((double)i + 0.5) / (double)n)
                                       : (l == i ? 1.0 : 0.0);
    free(full);
}

typedef struct limits {
    double low, high; /* of s_1 */
    double floor;     /* of s / s_1 */
} limits;

static void draw(oracle *o, limits within, uint64_t *state)
{
    const double top  = within.low * pow(within.high / within.low, oracle_uniform(state));
    const double bulk = pow(10.0, -3.0 * oracle_uniform(state));
    const int    kind = (int)(5.0 * oracle_uniform(state));
    for (int64_t l = 0; l < o->k; l++) {
        const double u = oracle_uniform(state);
        const double s = kind == 0   ? pow(10.0, -3.0 * u)
                         : kind == 1 ? bulk * (0.8 + 0.2 * u)
                         : kind == 2 ? (2 * l < o->k ? 1.0 : bulk)
                         : kind == 3 ? u
                                     : pow((double)l + 1.0, -2.0 * bulk);
        o->s[l]        = top * fmax(l == 0 ? 1.0 : s, within.floor);
    }
    draw_vectors(o->u, o->k, o->rows, state);
    draw_vectors(o->v, o->k, o->cols, state);
}

/* Turns vectors l and m of n elements each into one another by an angle, or elements l and m of all
 * k vectors. */
static void turn(double *q, int64_t k, int64_t n, bool vectors, int64_t l, int64_t m, double angle)
{
    const double  c = cos(angle), s = sin(angle);
    const int64_t many = vectors ? n : k, from = vectors ? l * n : l, to = vectors ? m * n : m;
    for (int64_t i = 0; l != m && i < many; i++) {
        const int64_t at = vectors ? i : i * n;
        const double  a = q[from + at], b = q[to + at];
        q[from + at] = c * a - s * b;
        q[to + at]   = s * a + c * b;
    }
}

static int64_t draw_index(int64_t n, uint64_t *state)
{
    return (int64_t)((double)n * oracle_uniform(state)) % n;
}

static void move(oracle *o, limits within, double size, uint64_t *state)
{
    for (int moves = 1 + (int)(3.0 * oracle_uniform(state)); moves > 0; moves--) {
        const double  which = oracle_uniform(state), by = size * oracle_normal(state);
        const bool    left    = oracle_uniform(state) < 0.5;
        const bool    vectors = oracle_uniform(state) < 0.5;
        double       *q       = left ? o->u : o->v;
        const int64_t n = left ? o->rows : o->cols, many = vectors ? o->k : n;
        if (which < 0.3)
            o->s[draw_index(o->k, state)] *= exp(by);
        else if (which < 0.4)
            for (int64_t l = 0; l < o->k; l++)
                o->s[l] *= exp(by);
        else
            turn(q, o->k, n, vectors, draw_index(many, state), draw_index(many, state), by);
    }
    const double top = top_of(o), factor = fmin(fmax(top, within.low), within.high) / top;
    for (int64_t l = 0; l < o->k; l++)
        o->s[l] = factor * fmax(o->s[l], within.floor * top);
}

static void copy_svd(const oracle *from, oracle *to)
{
    memcpy(to->s, from->s, (size_t)from->k * sizeof *from->s);
    memcpy(to->u, from->u, (size_t)(from->k * from->rows) * sizeof *from->u);
    memcpy(to->v, from->v, (size_t)(from->k * from->cols) * sizeof *from->v);
}

static double itself(double s, const void *arg)
{
    (void)arg;
    return s;
}

/* ---- the climb ------------------------------------------------------------------------------- */

typedef struct worst { /* found so far */
    double error[RANGES], excess[RANGES];
} worst;

static double norm2_diff(const double *a, const double *b, const oracle *o)
{
    double *diff = check_alloc((size_t)(o->rows * o->cols) * sizeof *diff);
    for (int64_t i = 0; i < o->rows * o->cols; i++)
        diff[i] = a[i] - b[i];
    const double norm = oracle_norm2(diff, MUSEC_F64, o->rows, o->cols);
    free(diff);
    return norm;
}

static int range_of(double top) { return top <= 1.0 ? 0 : top <= 10.0 ? 1 : 2; }

/* Holds an operator to its bounds on the matrix that o's SVD makes; returns how near it came. */
static double judge(ms_device *dev, const op_case *c, musec_dtype type, const bounds *b, oracle *o,
                    worst *w)
{
    musec_clip_config cfg   = run_config(c->op, 1.0);
    const int         range = range_of(top_of(o));
    musec_clip_report report;
    cfg.operands = type;
    oracle_map(o, itself, NULL);
    memcpy(o->x, o->want, (size_t)(o->rows * o->cols) * sizeof *o->x);
    double         *got = run_clip(dev, &cfg, MUSEC_F32, o->x, o->rows, o->cols, &report);
    const exact_map map = exact_map_of(c, o, &report);
    oracle_map(o, exact_value, &map);
    const bool   clips = strcmp(c->op, "ns5") != 0;
    const double error = norm2_diff(got, o->want, o) - (c->law ? cfg.tol : 0.0);
    const double norm  = clips ? oracle_norm2(got, MUSEC_F64, o->rows, o->cols) : 0.0;
    free(got);
    CHECK(error <= b->error[range], "%s, %d x %d, s_1 = %g D: error %g D, not %g", report.path,
          (int)o->rows, (int)o->cols, top_of(o), error, b->error[range]);
    CHECK(norm <= 1.0 + b->excess[range], "%s, %d x %d, s_1 = %g D: the norm is %.4g D",
          report.path, (int)o->rows, (int)o->cols, top_of(o), norm);
    w->error[range]  = fmax(w->error[range], error);
    w->excess[range] = fmax(w->excess[range], norm - 1.0);
    return fmax(error / b->error[range], (norm - 1.0) / b->excess[range]);
}

static void climb(ms_device *dev, const op_case *c, musec_dtype type, const bounds *b, oracle *o,
                  oracle *moved, limits within, int steps, uint64_t *state, worst *w)
{
    const int starts = steps == 0 ? 1 : 3 + steps / 8;
    double    best = -INFINITY, size = 0.3;
    for (int t = 0; t < starts + steps; t++) {
        if (t < starts) {
            draw(moved, within, state);
        } else {
            copy_svd(o, moved);
            move(moved, within, size * pow(10.0, -2.0 * oracle_uniform(state)), state);
        }
        const double score = judge(dev, c, type, b, moved, w);
        if (t >= starts) size = score > best ? fmin(1.0, 1.3 * size) : fmax(1e-3, 0.985 * size);
        if (score < best) continue;
        best = score;
        copy_svd(moved, o);
    }
}

static const struct {
    int64_t rows, cols;
    int     steps;
} shapes[] = { { 2, 2, 80 },  { 4, 5, 60 },  { 12, 12, 24 },
               { 33, 20, 4 }, { 64, 64, 0 }, { 80, 96, 0 } };

static void search(ms_device *dev, const op_case *c, musec_dtype type)
{
    static const double tops[RANGES + 1] = { 0.05, 1.0, 10.0, 1000.0 };
    const bounds       *b                = type == MUSEC_F16 ? &c->f16 : &c->bf16;
    const bool          slow             = run_is_slow(dev);
    uint64_t            state            = check_seed();
    worst               w                = { 0 };
    for (int i = 0; i < (int)COUNT(shapes); i++)
        for (int range = 0; range < RANGES; range++) {
            const limits within = { tops[range] * (range > 0 ? 1.001 : 1.0), tops[range + 1],
                                    strcmp(c->op, "ns5") == 0 ? 0.1 : 0.0 };
            if (slow && shapes[i].rows > 33) continue;
            oracle o = oracle_make(shapes[i].rows, shapes[i].cols, ORACLE_FLAT, 1.0, 1.0, 1);
            oracle m = oracle_make(shapes[i].rows, shapes[i].cols, ORACLE_FLAT, 1.0, 1.0, 1);
            climb(dev, c, type, b, &o, &m, within, shapes[i].steps, &state, &w);
            oracle_free(&o), oracle_free(&m);
        }
    printf("%s in %s: errors up to %.2g %.2g %.2g D, norms to %.2g %.2g %.2g above D\n", c->op,
           ms_dtype_name(type), w.error[0], w.error[1], w.error[2], w.excess[0], w.excess[1],
           w.excess[2]);
}

#define ANY INFINITY /* they may fall short of the law there */

static const op_case cases[] = {
    { "ssc",
      false,
      { { 2e-3, 1e-2, 1.1e-2 }, { 1e-3, 2e-3, 1.1e-2 } },
      { { 1.7e-2, 7e-2, 0.11 }, { 1e-2, 4e-2, 9e-2 } } },
    { "paper7",
      false,
      { { 2e-3, 1e-2, 1.1e-2 }, { 1e-3, 2e-3, 1.1e-2 } },
      { { 1.7e-2, 7e-2, 0.11 }, { 1e-2, 4e-2, 9e-2 } } },
    { "fast",
      false,
      { { 1.5e-3, 1.4e-2, 6.5e-2 }, { 1e-3, 3e-3, 4e-2 } },
      { { 1.2e-2, 0.11, 0.7 }, { 1e-2, 7e-2, 0.5 } } },
    { "accurate",
      true,
      { { 1.5e-3, 1.4e-2, ANY }, { 1e-3, 3e-3, 0.2 } },
      { { 1.2e-2, 0.11, ANY }, { 1e-2, 7e-2, 0.2 } } },
    { "sharp-fast",
      false,
      { { 2.5e-3, 1.5e-2, 8e-2 }, { 1e-3, 1.6e-2, 3.5e-2 } },
      { { 1.8e-2, 0.11, 0.7 }, { 1e-2, 0.11, 0.5 } } },
    { "sharp-accurate",
      true,
      { { 2.5e-3, 1.5e-2, ANY }, { 1e-3, 1.6e-2, 0.22 } },
      { { 1.8e-2, 0.11, ANY }, { 1e-2, 0.11, 0.35 } } },
    { "hard-fast",
      false,
      { { 3.2e-3, 2.6e-2, 8e-2 }, { 1e-3, 1.5e-2, 5e-2 } },
      { { 2.2e-2, 2.4, 2.4 }, { 1e-2, 0.75, 0.75 } } },
    { "hard-accurate",
      true,
      { { 3.2e-3, 2.6e-2, ANY }, { 1e-3, 1.5e-2, 0.22 } },
      { { 2.2e-2, 2.4, ANY }, { 1e-2, 0.75, 0.75 } } },
    { "ns5",
      false,
      { { 3e-2, 3e-2, 3e-2 }, { ANY, ANY, ANY } },
      { { 0.26, 0.26, 0.26 }, { ANY, ANY, ANY } } },
};

TEST_EACH_DEVICE(no_matrix_is_outside_the_bounds, dev)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (ms_device_has(dev, MUSEC_F16)) search(dev, &cases[i], MUSEC_F16);
        if (ms_device_has(dev, MUSEC_BF16)) search(dev, &cases[i], MUSEC_BF16);
    }
}
