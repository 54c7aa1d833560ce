/* precondition_test.c - base optimizers that precondition both sides of a gradient, by what does
 * not depend on the signs of eigenvectors and on how an eigensolver turns equal ones: bases are
 * orthonormal, they find eigenvectors, and rotated gradients make rotated steps.  What is computed
 * is held to NumPy in optim_reference_test.c. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "optim/precondition.h"
#include "optim_rig.h"
#include "oracle.h"

/* ---- bases ----------------------------------------------------------------------------------- */

/* |E E^T - I| of a basis, largest entry. */
static double check_basis(rig *r, size_t p, const char *name, int64_t n)
{
    double      *e     = rig_state(r, p, 0, name, n * n);
    const double error = oracle_orthogonality(e, MUSEC_F64, n, n);
    free(e);
    return error;
}

/* Gradients that leave factors without full rank, with rows and columns of zeros among them. */
static void poor_gradient(rig *r, size_t p, int64_t step, int kind)
{
    const int64_t rows = r->params[p].rows, cols = r->params[p].cols;
    double       *g = rig_normal(r, p, step);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            double *x = &g[i * cols + j];
            if (kind == 1 && (i == 2 || j == 0)) *x = 0.0;
            if (kind == 2) *x = (double)(i + 1) * (double)(j % 3); /* rank 1 */
            if (kind == 3) *x = 0.0;
            if (kind == 4) *x *= 1e-18;
        }
    rig_set_grad(r, p, g);
    free(g);
}

/* In float64 rows are normalized to 1e-15, and Gram-Schmidt leaves no more than some 1e-14 of n
 * others in them; what is stored in float32 is rounded by 6e-8, in n products. */
TEST_EACH_DEVICE(bases_stay_orthonormal, dev)
{
    static const rig_param params[] = {
        { .name = "wide", .rows = 7, .cols = 12 },
        { .name = "tall", .rows = 12, .cols = 7 },
        { .name = "panels", .rows = 40, .cols = 70 },
        { .name = "row", .rows = 1, .cols = 9 },
    };
    for (int dtype = 0; dtype < 2; dtype++)
        for (int kind = 0; kind < 5; kind++) {
            rig r = rig_make(dev, kind % 2 == dtype ? "soap" : "kl-shampoo",
                             "precondition-every=1 lr=0.1", dtype == 0 ? MUSEC_F64 : MUSEC_F32,
                             params, COUNT(params), 3);
            for (int64_t t = 0; t < 5; t++) {
                for (size_t p = 0; p < r.n; p++)
                    poor_gradient(&r, p, t, kind);
                rig_go(&r);
            }
            for (size_t p = 0; p < r.n; p++) {
                const double bound = dtype == 0 ? 1e-12 : 1e-6;
                const double left  = check_basis(&r, p, "left-basis", params[p].rows);
                const double right = check_basis(&r, p, "right-basis", params[p].cols);
                double      *w     = rig_weight(&r, p);
                CHECK(left <= bound && right <= bound, "%s, gradients %d: %g and %g",
                      params[p].name, kind, left, right);
                for (int64_t i = 0; i < rig_elems(&r, p); i++)
                    CHECK(isfinite(w[i]), "%s, gradients %d: %g", params[p].name, kind, w[i]);
                free(w);
            }
            rig_free(&r);
        }
}

/* Off the diagonal of E L E^T over its largest entry; -1: the diagonal rises. */
static double off_diagonal(rig *r, int64_t n)
{
    double *e = rig_state(r, 0, 0, "left-basis", n * n), *l = rig_state(r, 0, 0, "left", n * n);
    double *t = oracle_transpose(e, n, n), *el = oracle_product(e, l, n, n, n);
    double *d = oracle_product(el, t, n, n, n), most = 0.0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            if (i != j) most = fmax(most, fabs(d[i * n + j]) / d[0]);
    for (int64_t i = 1; i < n; i++)
        if (!(d[i * n + i] <= d[(i - 1) * n + i - 1])) most = -1.0;
    free(e), free(l), free(t), free(el), free(d);
    return most;
}

/* From the eigenvectors of one gradient to those of another, whose singular values have a ratio of
 * 1.6: 40 steps of orthogonal iteration reduce what is wrong by 1.6^-80, and what is left of the
 * first one by 2^-40. */
TEST_EACH_DEVICE(orthogonal_iteration_finds_eigenvectors, dev)
{
    enum { SIZE = 6 };
    static const rig_param param  = { .name = "w", .rows = SIZE, .cols = SIZE };
    const double           last   = 4.0 / pow(1.6, SIZE - 1);
    oracle                 first  = oracle_make(SIZE, SIZE, ORACLE_LINEAR, 2.0, 1.0, 5);
    oracle                 second = oracle_make(SIZE, SIZE, ORACLE_GEOMETRIC, 4.0, last, 6);
    rig r = rig_make(dev, "soap", "beta2=0.5 precondition-every=1", MUSEC_F64, &param, 1, 1);
    rig_set_grad(&r, 0, first.x);
    rig_go(&r);
    CHECK(off_diagonal(&r, SIZE) >= 0.0 && off_diagonal(&r, SIZE) <= 1e-12, "at the start");
    rig_set_grad(&r, 0, second.x);
    rig_go(&r);
    CHECK(fabs(off_diagonal(&r, SIZE)) > 1e-3, "there is nothing to find");
    for (int t = 0; t < 40; t++)
        rig_go(&r);
    const double off = off_diagonal(&r, SIZE);
    CHECK(off >= 0.0 && off <= 1e-10, "%g", off);
    rig_free(&r);
    oracle_free(&first), oracle_free(&second);
}

/* ---- steps ----------------------------------------------------------------------------------- */

enum { N = 8 };
static const rig_param square = { .name = "w", .rows = N, .cols = N };

/* P X Q^T of a matrix, malloc'ed. */
static double *turned(const double *p, const double *x, const double *q)
{
    double *qt = oracle_transpose(q, N, N), *px = oracle_product(p, x, N, N, N);
    double *out = oracle_product(px, qt, N, N, N);
    free(qt), free(px);
    return out;
}

static void start_at(rig *r, const double *w) { rig_set_weight(r, 0, w); }

/* The steps of P G Q^T are P times those of G times Q^T: sums of G G^T turn with it, and so do
 * their eigenvectors.  The spectra of such gradients have gaps of some 1e-3 at least, so rounding
 * grows to some 1e-11 in a dozen steps. */
TEST_EACH_DEVICE(rotated_gradients_make_rotated_steps, dev)
{
    static const struct {
        const char *name, *options;
    } cases[] = {
        { "soap", "precondition-every=3" },
        { "soap", "precondition-every=3 max-precond-dim=8 weight-decay=0.1" },
        { "spectra", "base=soap precondition-every=2 threshold=1 ns-mode=exact" },
        { "shampoo", "graft=none precondition-every=3 precondition-eps=1e-4" },
        { "kl-shampoo", "precondition-every=3 eps=1e-4" },
    };
    double *p = oracle_orthogonal(N, 11), *q = oracle_orthogonal(N, 12);
    for (size_t c = 0; c < COUNT(cases); c++) {
        rig a =
            rig_makef(dev, MUSEC_F64, &square, 1, 2, cases[c].name, "lr=0.1 %s", cases[c].options);
        rig b =
            rig_makef(dev, MUSEC_F64, &square, 1, 2, cases[c].name, "lr=0.1 %s", cases[c].options);
        double *w = rig_start(&a, 0), *turned_w = turned(p, w, q);
        start_at(&b, turned_w);
        for (int64_t t = 0; t < 12; t++) {
            double *g = rig_normal(&a, 0, t), *turned_g = turned(p, g, q);
            rig_set_grad(&a, 0, g), rig_set_grad(&b, 0, turned_g);
            rig_go(&a), rig_go(&b);
            free(g), free(turned_g);
        }
        double      *end = rig_weight(&a, 0), *want = turned(p, end, q), *got = rig_weight(&b, 0);
        const double error = oracle_rel_err(got, MUSEC_F64, want, N * N);
        CHECK(error <= 1e-9, "%s %s: %g", cases[c].name, cases[c].options, error);
        CHECK(oracle_rel_err(end, MUSEC_F64, w, N * N) > 0.1, "%s: no steps", cases[c].name);
        free(w), free(turned_w), free(end), free(want), free(got);
        rig_free(&a), rig_free(&b);
    }
    free(p), free(q);
}

/* Without a side that is preconditioned, SOAP is Adam from the second gradient on, but for where
 * eps is added. */
TEST_EACH_DEVICE(soap_without_sides_is_adam, dev)
{
    static const rig_param param = { .name = "w", .rows = 5, .cols = 9 };
    rig soap = rig_make(dev, "soap", "max-precond-dim=4 lr=0.1 eps=1e-20", MUSEC_F64, &param, 1, 4);
    rig adam =
        rig_make(dev, "adamw", "beta1=0.95 beta2=0.95 lr=0.1 eps=1e-20", MUSEC_F64, &param, 1, 4);
    rig_step(&soap, 0, 1.0);
    CHECK(rig_unmoved(&soap, 0), "the first gradient moved it");
    rig_steps(&soap, 1, 25), rig_steps(&adam, 1, 25);
    CHECK(rig_apart(&soap, 0, &adam, 0) <= 1e-13, "%g", rig_apart(&soap, 0, &adam, 0));
    double *left = rig_state(&soap, 0, 0, "left", 1);
    CHECK(left[0] == 0.0, "a factor of a side that has none: %g", left[0]);
    free(left);
    rig_free(&soap), rig_free(&adam);
}

/* (G G^T)^(-1/4) G (G^T G)^(-1/4) is the polar factor of G, and without sides it is G.  eps is
 * 1e-20 of the smallest eigenvalue; eigenvalues err by 1e-16 of the largest, here 16 of the
 * smallest. */
TEST_EACH_DEVICE(shampoo_without_memory_is_the_polar_factor, dev)
{
    static const rig_param param   = { .name = "w", .rows = 6, .cols = 6 };
    static const char     *sides[] = { "max-precond-dim=6", "max-precond-dim=5" };
    oracle                 o       = oracle_make(6, 6, ORACLE_LINEAR, 4.0, 1.0, 8);
    for (size_t i = 0; i < COUNT(sides); i++) {
        rig     r = rig_makef(dev, MUSEC_F64, &param, 1, 6, "shampoo",
                              "graft=none precondition-every=1 beta1=0 beta2=0 lr=1 "
                                  "precondition-eps=1e-20 %s",
                              sides[i]);
        double *w = rig_start(&r, 0), want[36];
        for (int t = 0; t < 2; t++) {
            rig_set_grad(&r, 0, o.x);
            rig_go(&r);
        }
        for (int64_t a = 0; a < 6; a++)
            for (int64_t b = 0; b < 6; b++) {
                want[a * 6 + b] = w[a * 6 + b];
                for (int64_t l = 0; l < 6; l++) /* without any side: the gradient */
                    want[a * 6 + b] -=
                        2.0 * (i == 0 ? 1.0 : o.s[l]) * o.u[l * 6 + a] * o.v[l * 6 + b];
            }
        double *got = rig_weight(&r, 0);
        CHECK(oracle_rel_err(got, MUSEC_F64, want, 36) <= 1e-12, "%s: %g", sides[i],
              oracle_rel_err(got, MUSEC_F64, want, 36));
        free(w), free(got);
        rig_free(&r);
    }
    oracle_free(&o);
}

/* One gradient again and again: in eigenvectors it is diag(s), and a_i c_i tends to s_i^2 / N,
 * quadratically once it is near.  The step is s_i over the root of that for every i: sqrt(N) times
 * the polar factor. */
TEST_EACH_DEVICE(kl_shampoo_whitens_a_steady_gradient, dev)
{
    oracle o = oracle_make(N, N, ORACLE_LINEAR, 4.0, 1.0, 9);
    rig    r =
        rig_make(dev, "kl-shampoo", "beta1=0 beta2=0.5 eps=1e-30 lr=1", MUSEC_F64, &square, 1, 2);
    double s[N], update[N * N];
    rig_set_grad(&r, 0, o.x);
    for (int t = 0; t < 60; t++)
        rig_go(&r);
    double *before = rig_weight(&r, 0);
    rig_go(&r);
    double *after = rig_weight(&r, 0);
    for (int i = 0; i < N * N; i++)
        update[i] = before[i] - after[i];
    oracle_singular_values(update, MUSEC_F64, N, N, s);
    CHECK(fabs(s[0] / s[N - 1] - 1.0) <= 1e-9, "singular values from %g to %g", s[0], s[N - 1]);
    CHECK(fabs(s[0] / sqrt((double)N) - 1.0) <= 1e-9, "they are %g", s[0]);
    free(before), free(after);
    rig_free(&r);
    oracle_free(&o);
}

/* ---- Dion2 ----------------------------------------------------------------------------------- */

/* With fraction 1 all rows are taken, and forgotten alike: heavy-ball momentum, but for what of a
 * step is forgotten before it is used.  With beta 1 each gradient is used once: Muon without
 * momentum. */
TEST_EACH_DEVICE(dion2_of_all_rows_is_muon, dev)
{
    const char *same = "ns-mode=exact ns-coeffs=keller shape-rule=keller weight-decay=0.1";
    rig         a = rig_makef(dev, MUSEC_F64, &square, 1, 5, "dion2", "beta=1 fraction=1 %s", same);
    rig         b = rig_makef(dev, MUSEC_F64, &square, 1, 5, "muon", "beta=1 %s", same);
    rig_steps(&a, 0, 5), rig_steps(&b, 0, 5);
    CHECK(rig_apart(&a, 0, &b, 0) <= 1e-14, "%g", rig_apart(&a, 0, &b, 0));
    rig_free(&a), rig_free(&b);
}

/* A row whose gradients are small is not lost: it waits until it is among the largest, and then
 * moves by all of what it has waited with.  With one row of eight at a time (fraction 1/8), rows
 * that are taken forget all (beta 1): from equal rows each is taken once in eight steps. */
TEST_EACH_DEVICE(dion2_takes_every_row_in_turn, dev)
{
    rig a =
        rig_make(dev, "dion2", "beta=1 fraction=0.125 shape-rule=none", MUSEC_F64, &square, 1, 5);
    double  g[N * N];
    double *before   = rig_weight(&a, 0);
    int     moved[N] = { 0 };
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            g[i * N + j] = 1.0 + 0.01 * (double)i + 0.1 * (double)j;
    for (int t = 0; t < N; t++) {
        rig_set_grad(&a, 0, g);
        rig_go(&a);
        double *after = rig_weight(&a, 0);
        int     n     = 0;
        for (int i = 0; i < N; i++) {
            const bool row = memcmp(before + i * N, after + i * N, N * sizeof *g) != 0;
            moved[i] += row;
            n += row;
        }
        CHECK(n == 1, "step %d moves %d rows", t, n);
        free(before);
        before = after;
    }
    for (int i = 0; i < N; i++)
        CHECK(moved[i] == 1, "row %d moved %d times", i, moved[i]);
    free(before);
    rig_free(&a);
}
