/* soft_clip.c - soft spectral clipping without an SVD (paper: section 5, Algorithm 3).
 *
 * For X = U diag(s) V^T (r x n, r <= n) we want U diag(h(s)) V^T, h(s) = D s / sqrt(s^2 + D^2):
 * small singular values pass, large ones saturate at D.  That is D A^(-1/2) X, A = X X^T + D^2 I.
 * Any bound alpha >= lambda_max(A) makes W = A / alpha have eigenvalues w = u^2 in (0, 1], and
 * a product Z of polynomials in W with u Z(u^2) ~ 1 gives D / sqrt(alpha) Z X.  Everything is a
 * polynomial in A, so the result is exactly h(s) times the scalar gain of the plan at u (the tests
 * use that).
 *
 * The paper iterates Y0 = A / |A|_F, Z0 = I;  T = (3 I - Z Y) / 2,  Y <- Y T,  Z <- T Z, K times:
 * 3K full products besides the Gram matrix and the last one with X.  The same Z, and better ones,
 * come from stages in congruence form,
 *     T = p(W),   W <- T (W T),   Z <- T Z,
 * where everything inside p and T (W T) is symmetric and computed as one triangle.  (Not so W T and
 * T Z: they are symmetric in exact arithmetic only, and mirroring them feeds the rounding error
 * back, growing with s_1 / D.)  A stage of degree 9 costs two squares: see ms_stage_squares.
 *
 * alpha is |A|_F for `paper`, as in the paper.  `fast` and `accurate` take the bound C4 from fourth
 * moments (scalar_fn.h), 1 to 2 times lambda_max where |A|_F is up to sqrt(r) times: the square of
 * A that it needs is the first product of the first stage.  The factor D / sqrt(alpha) rides on the
 * coefficients of the last stage.  Nothing here waits for the device but `accurate` and reports. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "linalg/linalg.h"

static const double margin = 1e-5; /* of C4 over rounding in float32 and float64 */

/* ---- the stages ------------------------------------------------------------------------------ */

typedef struct stage_nums { /* ms_stage_form, one of each per matrix */
    ms_vec v[MS_STAGE_NUMBERS];
} stage_nums;
enum { V1, V0, Q0, T1, T0 };

typedef struct engine {
    ms_prepared p;
    ms_mat      w, q, t, v, z;            /* (count, r, r) */
    ms_vec      fro2, trace, quart;       /* |A|_F^2, tr A1, |(A1 - m I)^2|_F^2 */
    ms_vec      inv_f, inv_a;             /* W = inv_a * w;  w = A / |A|_F */
    ms_vec      mean;                     /* m = tr w / r */
    ms_vec      alpha, u_low, gain, rest; /* the result is gain * rest * Z X */
} engine;

static void swap(ms_mat *a, ms_mat *b)
{
    const ms_mat c = *a;
    *a             = *b;
    *b             = c;
}

static musec_status take_nums(ms_device *d, int64_t count, stage_nums *n)
{
    musec_status st = MUSEC_OK;
    for (int i = 0; i < MS_STAGE_NUMBERS; i++)
        TRY(ms_scratch_vec(d, count, &n->v[i]));
done:
    return st;
}

/* gain * p(win (B + shift I)) as a polynomial of B, instead of p(W), in place. */
static musec_status adapt_nums(ms_device *d, ms_num win, ms_num gain, ms_num shift,
                               const stage_nums *n)
{
    ms_num in[MS_STAGE_NUMBERS + 3];
    for (int i = 0; i < MS_STAGE_NUMBERS; i++)
        in[i] = ms_each(n->v[i]);
    in[MS_STAGE_NUMBERS]     = win;
    in[MS_STAGE_NUMBERS + 1] = gain;
    in[MS_STAGE_NUMBERS + 2] = shift;
    return d->ops->scalars(d, MS_SCALAR_STAGE, NULL, 0, in, n->v);
}

/* T = p(W) of degree q into e->t.  centred: e->v holds B = w - m I and e->q holds B B, and the
 * numbers are for B. */
static musec_status stage_poly(ms_device *d, int q, const stage_nums *n, bool centred, engine *e)
{
    const ms_device_ops *op = d->ops;
    const ms_term into_t = { .x_coef = ms_each(n->v[T1]), .diag = ms_each(n->v[T0]), .out = e->t };
    const ms_mat  none = { 0 }, x = centred ? e->v : e->w;
    const ms_mark mark = ms_arena_mark(&d->scratch);
    ms_vec        sq[3];
    musec_status  st = MUSEC_OK;

    if (q == 1) {
        TRY(op->combine(d, x, none, &into_t, 1));
    } else if (q == 2 && centred) { /* all of it from B B, B and I: no product */
        for (int i = 0; i < 3; i++)
            TRY(ms_scratch_vec(d, e->w.count, &sq[i]));
        TRY(op->scalars(d, MS_SCALAR_SQUARE, NULL, 0,
                        (ms_num[]){ ms_each(n->v[V1]), ms_each(n->v[V0]), ms_each(n->v[T0]) }, sq));
        const ms_term all = {
            .x_coef = ms_each(sq[1]), .y_coef = ms_each(sq[0]), .diag = ms_each(sq[2]), .out = e->t
        };
        TRY(op->combine(d, x, e->q, &all, 1));
    } else if (q == 2) {
        const ms_term into_q = { .x_coef = ms_each(n->v[V1]),
                                 .diag   = ms_each(n->v[V0]),
                                 .out    = e->q };
        TRY(op->combine(d, x, none, (ms_term[]){ into_q, into_t }, 2));
        TRY(op->gemm_sym(d, 1.0, e->q, e->q, 1.0, e->t));
    } else if (centred) { /* V V + q0 I without V: from B B, B and I */
        for (int i = 0; i < 3; i++)
            TRY(ms_scratch_vec(d, e->w.count, &sq[i]));
        TRY(op->scalars(d, MS_SCALAR_SQUARE, NULL, 0,
                        (ms_num[]){ ms_each(n->v[V1]), ms_each(n->v[V0]), ms_each(n->v[Q0]) }, sq));
        const ms_term into_q = {
            .x_coef = ms_each(sq[1]), .y_coef = ms_each(sq[0]), .diag = ms_each(sq[2]), .out = e->q
        };
        TRY(op->combine(d, x, e->q, (ms_term[]){ into_q, into_t }, 2));
        TRY(op->gemm_sym(d, 1.0, e->q, e->q, 1.0, e->t));
    } else {
        const ms_term into_v = { .x_coef = ms_each(n->v[V1]),
                                 .diag   = ms_each(n->v[V0]),
                                 .out    = e->v };
        TRY(op->combine(d, x, none, (ms_term[]){ into_v, into_t }, 2));
        TRY(op->gemm_sym(d, 1.0, e->v, e->v, 0.0, e->q));
        TRY(op->add_diag(d, ms_each(n->v[Q0]), e->q));
        TRY(op->gemm_sym(d, 1.0, e->q, e->q, 1.0, e->t));
    }
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* All stages; the result is in e->z.  centred: as alpha_c4 left it. */
static musec_status run_stages(ms_device *d, const int *q, int n_stages, const stage_nums *nums,
                               ms_num win, bool centred, engine *e)
{
    const ms_device_ops *op = d->ops;
    musec_status         st = MUSEC_OK;
    for (int i = 0; i < n_stages; i++) {
        const bool last = i == n_stages - 1, shifted = centred && i == 0;
        TRY(adapt_nums(d, win, last ? ms_each(e->gain) : ms_const(1.0),
                       shifted ? ms_each(e->mean) : ms_const(0.0), &nums[i]));
        TRY(stage_poly(d, q[i], &nums[i], shifted, e));
        if (!last) {
            TRY(op->gemm(d, 1.0, e->w, e->t, 0.0, e->v));
            TRY(op->gemm_sym(d, 1.0, e->t, e->v, 0.0, e->w));
        }
        if (i == 0) {
            swap(&e->z, &e->t);
        } else {
            TRY(op->gemm(d, 1.0, e->t, e->z, 0.0, e->q));
            swap(&e->z, &e->q);
        }
    }
done:
    return st;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

/* Prepares in, and brings A = X X^T + D^2 I, normalised, to e->w.  r is at least 2.  literal: by
 * full products only, as the paper is written. */
static musec_status begin(ms_device *d, ms_mat in, ms_num threshold, bool literal, engine *e)
{
    const ms_device_ops *op     = d->ops;
    ms_mat *const        mats[] = { &e->w, &e->q, &e->t, &e->v, &e->z };
    ms_vec *const        vecs[] = { &e->fro2, &e->trace, &e->quart, &e->inv_f, &e->inv_a,
                                    &e->mean, &e->alpha, &e->u_low, &e->gain,  &e->rest };
    musec_status         st     = MUSEC_OK;
    TRY(ms_prepare(d, in, threshold, &e->p));
    for (size_t i = 0; i < COUNT(mats); i++)
        TRY(ms_scratch_mat(d, in.dtype, in.count, e->p.r, e->p.r, mats[i]));
    for (size_t i = 0; i < COUNT(vecs); i++)
        TRY(ms_scratch_vec(d, in.count, vecs[i]));
    TRY(literal ? op->gemm(d, 1.0, e->p.x, ms_t(e->p.x), 0.0, e->w) : op->gram(d, e->p.x, e->w));
    TRY(op->add_diag(d, ms_each(e->p.sd2), e->w));
    TRY(op->sumsq(d, e->w, e->fro2));
    TRY(op->scalars(d, MS_SCALAR_INV_SQRT, NULL, 0, (ms_num[]){ ms_each(e->fro2) }, &e->inv_f));
    const ms_term normed = { .x_coef = ms_each(e->inv_f), .out = e->w };
    TRY(op->combine(d, e->w, (ms_mat){ 0 }, &normed, 1));
done:
    return st;
}

static musec_status alpha_fro(ms_device *d, ms_num threshold, engine *e)
{
    return d->ops->scalars(
        d, MS_SCALAR_ALPHA_FRO, NULL, 0,
        (ms_num[]){ ms_each(e->fro2), ms_each(e->p.sd), ms_each(e->p.s), threshold },
        (ms_vec[]){ e->alpha, e->u_low, e->gain, e->rest });
}

/* The bound C4; leaves B = w - m I in e->v and B B in e->q.  B is formed before it is squared: the
 * fourth moments of a flat spectrum would drown in the rounding of w w, and the fourth root makes
 * much of it. */
static musec_status alpha_c4(ms_device *d, ms_num threshold, engine *e)
{
    const ms_device_ops *op   = d->ops;
    const double         r    = (double)e->p.r;
    const ms_mark        mark = ms_arena_mark(&d->scratch);
    ms_vec               minus_mean;
    musec_status         st = MUSEC_OK;
    TRY(ms_scratch_vec(d, e->w.count, &minus_mean));
    TRY(op->trace(d, e->w, e->trace));
    TRY(op->scalars(d, MS_SCALAR_MEAN_SHIFT, &r, 1, (ms_num[]){ ms_each(e->trace) },
                    (ms_vec[]){ e->mean, minus_mean }));
    const ms_term centred = { .x_coef = ms_const(1.0), .diag = ms_each(minus_mean), .out = e->v };
    TRY(op->combine(d, e->w, (ms_mat){ 0 }, &centred, 1));
    TRY(op->gemm_sym(d, 1.0, e->v, e->v, 0.0, e->q));
    TRY(op->sumsq(d, e->q, e->quart));
    TRY(op->scalars(d, MS_SCALAR_ALPHA_C4, (double[]){ r, margin }, 2,
                    (ms_num[]){ ms_each(e->fro2), ms_each(e->trace), ms_each(e->quart),
                                ms_each(e->p.sd), ms_each(e->p.s), threshold },
                    (ms_vec[]){ e->inv_a, e->alpha, e->u_low, e->gain, e->rest }));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

static musec_status finish(ms_device *d, const engine *e, ms_mat out)
{
    musec_status st = MUSEC_OK;
    TRY(ms_apply(d, &e->p, e->z, out));
    TRY(d->ops->scale(d, ms_each(e->rest), out));
done:
    return st;
}

/* ---- reports --------------------------------------------------------------------------------- */

void ms_report_path(ms_report *report, int64_t count, const char *path, int products)
{
    for (int64_t i = 0; report != NULL && i < count; i++) {
        memset(&report[i], 0, sizeof report[i]);
        snprintf(report[i].path, sizeof report[i].path, "%s", path);
        report[i].products = products;
    }
}

/* alpha and u_low in the caller's own units. */
static musec_status report_bound(ms_device *d, const engine *e, ms_report *report)
{
    musec_status st = MUSEC_OK;
    for (int64_t i = 0; report != NULL && i < e->alpha.count; i++) {
        double s = 1.0;
        TRY(ms_vec_download(d, ms_vec_slice(e->p.s, i, 1), &s));
        TRY(ms_vec_download(d, ms_vec_slice(e->alpha, i, 1), &report[i].alpha));
        TRY(ms_vec_download(d, ms_vec_slice(e->u_low, i, 1), &report[i].u_low));
        report[i].alpha = report[i].alpha / s / s;
    }
done:
    return st;
}

/* Where r is 1 every mode is the same factor. */
static musec_status soft_vector(ms_device *d, ms_mat in, ms_num threshold, ms_mat out,
                                ms_report *report)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    ms_prepared   p;
    musec_status  st = MUSEC_OK;
    TRY(ms_prepare(d, in, threshold, &p));
    TRY(ms_vector_map(d, MS_MAP_SOFT, &p, threshold, in, out));
    ms_report_path(report, in.count, "vector", 0);
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

static bool is_vector(ms_mat x) { return x.rows == 1 || x.cols == 1; }

/* ---- the modes ------------------------------------------------------------------------------- */

musec_status ms_ssc_literal(ms_device *d, ms_mat in, ms_num threshold, int iters, ms_mat out,
                            ms_report *report)
{
    const ms_device_ops *op   = d->ops;
    const ms_mark        mark = ms_arena_mark(&d->scratch);
    engine               e;
    musec_status         st = MUSEC_OK;

    if (is_vector(in)) return soft_vector(d, in, threshold, out, report);
    TRY(begin(d, in, threshold, true, &e));
    TRY(alpha_fro(d, threshold, &e));
    TRY(op->fill(d, 0.0, e.z));
    TRY(op->add_diag(d, ms_const(1.0), e.z));
    for (int k = 0; k < iters; k++) { /* w is the paper's Y */
        TRY(op->gemm(d, -0.5, e.z, e.w, 0.0, e.t));
        TRY(op->add_diag(d, ms_const(1.5), e.t));
        TRY(op->gemm(d, 1.0, e.w, e.t, 0.0, e.v));
        swap(&e.w, &e.v);
        TRY(op->gemm(d, 1.0, e.t, e.z, 0.0, e.v));
        swap(&e.z, &e.v);
    }
    TRY(op->scale(d, ms_each(e.gain), e.z));
    TRY(finish(d, &e, out));
    ms_report_path(report, in.count, "literal", 3 * iters);
    TRY(report_bound(d, &e, report));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* The numbers of every stage from a table of plans of the same stages: row i where
 * u_low >= key[i]. */
static musec_status pick_plan(ms_device *d, const ms_plan *plans, const double *keys, int n_plans,
                              ms_vec u_low, stage_nums *nums)
{
    const ms_device_ops *op = d->ops;
    double               params[2 + 4 + 4 * MS_STAGE_NUMBERS];
    musec_status         st = MUSEC_OK;
    for (int s = 0; s < plans[0].n_stages; s++) {
        double *at = params;
        *at++      = n_plans;
        *at++      = MS_STAGE_NUMBERS;
        for (int i = 0; i < n_plans; i++)
            *at++ = keys[i];
        for (int i = 0; i < n_plans; i++) {
            const ms_stage_form f = ms_stage_squares(&plans[i].stage[s]);
            memcpy(at, (double[]){ f.v1, f.v0, f.q0, f.t1, f.t0 }, MS_STAGE_NUMBERS * sizeof *at);
            at += MS_STAGE_NUMBERS;
        }
        TRY(take_nums(d, u_low.count, &nums[s]));
        TRY(op->scalars(d, MS_SCALAR_PICK, params, (int)(at - params), (ms_num[]){ ms_each(u_low) },
                        nums[s].v));
    }
done:
    return st;
}

musec_status ms_ssc_plan(ms_device *d, ms_mat in, ms_num threshold, const ms_plan *plan, ms_mat out,
                         ms_report *report)
{
    const ms_mark mark                 = ms_arena_mark(&d->scratch);
    stage_nums    nums[MS_PLAN_STAGES] = { 0 };
    int           q[MS_PLAN_STAGES];
    engine        e;
    musec_status  st = MUSEC_OK;

    if (is_vector(in)) return soft_vector(d, in, threshold, out, report);
    for (int i = 0; i < plan->n_stages; i++)
        q[i] = plan->stage[i].q;
    TRY(begin(d, in, threshold, false, &e));
    TRY(alpha_fro(d, threshold, &e));
    TRY(pick_plan(d, plan, (double[]){ 0.0 }, 1, e.u_low, nums));
    TRY(run_stages(d, q, plan->n_stages, nums, ms_const(1.0), false, &e));
    TRY(finish(d, &e, out));
    ms_report_path(report, in.count, plan->name, ms_plan_products(plan));
    TRY(report_bound(d, &e, report));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

musec_status ms_soft_fast(ms_device *d, ms_mat in, ms_num threshold, ms_mat out, ms_report *report)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    ms_plan       plans[MS_FAST_PLANS];
    double        keys[MS_FAST_PLANS];
    stage_nums    nums[2] = { 0 };
    engine        e;
    musec_status  st = MUSEC_OK;

    if (is_vector(in)) return soft_vector(d, in, threshold, out, report);
    for (int i = 0; i < MS_FAST_PLANS; i++) {
        ms_plan_fast(i, &plans[i]);
        keys[i] = plans[i].u_d;
    }
    TRY(begin(d, in, threshold, false, &e));
    TRY(alpha_c4(d, threshold, &e));
    TRY(pick_plan(d, plans, keys, MS_FAST_PLANS, e.u_low, nums));
    TRY(run_stages(d, (int[]){ 4, 4 }, 2, nums, ms_each(e.inv_a), true, &e));
    TRY(finish(d, &e, out));
    ms_report_path(report, in.count, "", ms_plan_products(&plans[0]));
    TRY(report_bound(d, &e, report));
    for (int64_t b = 0; report != NULL && b < in.count; b++) { /* the choice that PICK made */
        int i = 0;
        while (i < MS_FAST_PLANS - 1 && !(report[b].u_low >= keys[i]))
            i++;
        memcpy(report[b].path, plans[i].name, sizeof plans[i].name);
    }
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* ---- accurate -------------------------------------------------------------------------------- */

#define MENU_STAGES 4

/* What rounding of the Gram matrix alone adds to the relative error, measured: 1.5e-8 / u_low^2 in
 * float32.  A tolerance below it takes the exact path. */
static double rounding_floor(musec_dtype dtype, double u_low)
{
    return ms_dtype_eps(dtype) / 8.0 / (u_low * u_low);
}

/* Matrices first .. first + count - 1 of an engine. */
static engine engine_slice(const engine *e, int64_t first, int64_t count)
{
    engine        one    = *e;
    ms_mat *const mats[] = { &one.p.x, &one.w, &one.q, &one.t, &one.v, &one.z };
    ms_vec *const vecs[] = { &one.p.s,   &one.inv_a, &one.mean, &one.alpha,
                             &one.u_low, &one.gain,  &one.rest };
    for (size_t i = 0; i < COUNT(mats); i++)
        *mats[i] = ms_mat_slice(*mats[i], first, count);
    for (size_t i = 0; i < COUNT(vecs); i++)
        *vecs[i] = ms_vec_slice(*vecs[i], first, count);
    return one;
}

/* A run of matrices whose plans, different in their numbers, have the same stages. */
static musec_status accurate_run(ms_device *d, const ms_plan *plans, engine e, ms_mat out)
{
    const int64_t count             = out.count;
    stage_nums    nums[MENU_STAGES] = { 0 };
    int           q[MENU_STAGES];
    musec_status  st = MUSEC_OK;
    for (int s = 0; s < plans[0].n_stages; s++) {
        q[s] = plans[0].stage[s].q;
        TRY(take_nums(d, count, &nums[s]));
        for (int64_t b = 0; b < count; b++) {
            const ms_stage_form f                        = ms_stage_squares(&plans[b].stage[s]);
            const double        number[MS_STAGE_NUMBERS] = { f.v1, f.v0, f.q0, f.t1, f.t0 };
            for (int i = 0; i < MS_STAGE_NUMBERS; i++)
                TRY(d->ops->upload(d, &number[i], sizeof number[i], nums[s].v[i].data + b));
        }
    }
    TRY(run_stages(d, q, plans[0].n_stages, nums, ms_each(e.inv_a), true, &e));
    TRY(finish(d, &e, out));
done:
    return st;
}

static ms_num num_slice(ms_num n, int64_t first, int64_t count)
{
    if (n.each.data != NULL) n.each = ms_vec_slice(n.each, first, count);
    return n;
}

/* The plan of each matrix; n_stages 0 where no polynomial of the menu reaches that
 * far down, or rounding would not let it. */
static musec_status choose_plans(ms_device *d, const engine *e, double tol, ms_plan *plans)
{
    musec_status st = MUSEC_OK;
    for (int64_t b = 0; b < e->w.count; b++) {
        double u_low = 0.0;
        TRY(ms_vec_download(d, ms_vec_slice(e->u_low, b, 1), &u_low));
        if (!(tol >= rounding_floor(e->w.dtype, u_low)) ||
            ms_plan_menu(tol, u_low, &plans[b]) != MUSEC_OK)
            plans[b] = (ms_plan){ .n_stages = 0 };
    }
done:
    return st;
}

musec_status ms_soft_accurate(ms_device *d, ms_mat in, ms_num threshold, double tol, ms_mat out,
                              ms_report *report)
{
    const ms_mark mark  = ms_arena_mark(&d->scratch);
    ms_plan      *plans = NULL; /* in host memory: the choice is the host's */
    engine        e;
    musec_status  st = MUSEC_OK;

    if (is_vector(in)) return soft_vector(d, in, threshold, out, report);
    plans = calloc((size_t)in.count, sizeof *plans);
    if (plans == NULL) TRY(ms_fail(&d->error, MUSEC_ENOMEM, "accurate: no memory for the plans"));
    TRY(begin(d, in, threshold, false, &e));
    TRY(alpha_c4(d, threshold, &e));
    TRY(choose_plans(d, &e, tol, plans));
    for (int64_t first = 0, next; first < in.count; first = next) {
        const ms_plan *plan  = &plans[first];
        ms_report     *about = report == NULL ? NULL : report + first;
        for (next = first + 1; next < in.count && strcmp(plans[next].name, plan->name) == 0;)
            next++;
        const int64_t n     = next - first;
        const ms_mark inner = ms_arena_mark(&d->scratch);
        const engine  part  = engine_slice(&e, first, n);
        if (plan->n_stages > 0) {
            TRY(accurate_run(d, plan, part, ms_mat_slice(out, first, n)));
            /* a first stage of q = 1 has no use for the square of A that the bound took */
            ms_report_path(about, n, plan->name,
                           ms_plan_products(plan) + (plan->stage[0].q == 1 ? 1 : 0));
            TRY(report_bound(d, &part, about));
        } else {
            TRY(ms_exact(d, MS_MAP_SOFT, ms_mat_slice(in, first, n), num_slice(threshold, first, n),
                         ms_mat_slice(out, first, n), about));
        }
        ms_arena_reset(&d->scratch, inner);
    }
done:
    free(plans);
    ms_arena_reset(&d->scratch, mark);
    return st;
}
