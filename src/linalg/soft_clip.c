/* soft_clip.c - soft spectral clipping without an SVD (paper: section 5, Algorithm 3): its modes.
 *
 * `paper`, in the paper's own order or as a plan of fewer products, `fast` and `accurate` differ in
 * the polynomials and in the bound alpha; what they are made of, and why it works, is in
 * soft_engine.c.  Each may be followed by a chain that makes the clip sharper (sharp_clip.c).
 * Nothing here waits for the device but reports, and `accurate` in full
 * precision. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "linalg/soft_engine.h"

/* The errors that modes without a tolerance allow a chain: less below D, where an optimizer that
 * stores the clipped momentum multiplies the error, than at the corner of the hard clip. */
static const double FAST_TOL = 3e-2, FAST_TOL_BELOW = 5e-3;

/* ---- reports --------------------------------------------------------------------------------- */

void ms_report_path(ms_report *report, int64_t count, const char *path, int products)
{
    for (int64_t i = 0; report != NULL && i < count; i++) {
        memset(&report[i], 0, sizeof report[i]);
        snprintf(report[i].path, sizeof report[i].path, "%s", path);
        report[i].products = products;
    }
}

void ms_report_compute_dtype(ms_report *report, int64_t count, musec_dtype compute_dtype)
{
    for (int64_t i = 0; report != NULL && ms_is_16bit(compute_dtype) && i < count; i++) {
        const size_t used = strlen(report[i].path);
        snprintf(report[i].path + used, sizeof report[i].path - used, " %s",
                 ms_dtype_name(compute_dtype));
    }
}

/* Begins a report with alpha and the lower bound on u, in the caller's units. */
static musec_status report_bound(ms_device *d, const ms_soft *e, ms_report *report)
{
    musec_status st = MUSEC_OK;
    for (int64_t i = 0; report != NULL && i < e->alpha.count; i++) {
        double s  = 1.0;
        report[i] = (ms_report){ .path = "" };
        TRY(ms_vec_download(d, ms_vec_slice(e->s, i, 1), &s));
        TRY(ms_vec_download(d, ms_vec_slice(e->alpha, i, 1), &report[i].alpha));
        TRY(ms_vec_download(d, ms_vec_slice(e->u_min, i, 1), &report[i].u_low));
        report[i].alpha = report[i].alpha / s / s;
    }
done:
    return st;
}

/* Reports how matrices were clipped by products: the plan of the soft clip, the chain behind it,
 * and the dtype of the products. */
static void report_plan(ms_report *report, int64_t count, const ms_soft *e, const char *plan,
                        int products)
{
    char sharp[16] = "";
    if (e->sharp != NULL) {
        products += ms_sharp_products(e->sharp);
        snprintf(sharp, sizeof sharp, e->sharp->sharpness == MS_HARD ? " hard" : " sharp%g",
                 e->sharp->sharpness);
    }
    for (int64_t i = 0; report != NULL && i < count; i++) {
        snprintf(report[i].path, sizeof report[i].path, "%.18s%.11s", plan, sharp);
        report[i].products = products;
    }
    ms_report_compute_dtype(report, count, e->compute_dtype);
}

/* Rounding takes the argument of a chain out of its interval, in bf16 by up to a tenth.  Out there
 * the chain of 5 steps to the hard clip, which FAST_TOL asks for, runs away; that of 4 does not. */
static double fast_tol(ms_stacks x, musec_dtype compute_dtype)
{
    const double in_bf16 = 5e-2;
    return ms_compute_dtype(x.in[0].mat, compute_dtype) == MUSEC_BF16 ? in_bf16 : FAST_TOL;
}

static const ms_sharp_chain *fast_chain(ms_stacks x, musec_dtype compute_dtype)
{
    if (x.sharpness == MS_SOFT) return NULL;
    return ms_sharp_chain_find(x.sharpness, fast_tol(x, compute_dtype), FAST_TOL_BELOW);
}

/* Where r is 1, every mode is the same factor. */
static musec_status soft_vector(ms_device *d, ms_stacks x, ms_num threshold, ms_report *report)
{
    const ms_mat  in = x.in[0].mat, out = x.out[0];
    const ms_mark mark = ms_arena_mark(&d->scratch);
    ms_prepared   p;
    musec_status  st = MUSEC_OK;
    TRY(ms_prepare(d, in, threshold, in.dtype, &p));
    TRY(ms_vector_clip(d, x.sharpness, &p, threshold, in, out));
    ms_report_path(report, in.count, "vector", 0);
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

static bool is_vector(ms_stacks x)
{
    return x.n == 1 && (x.in[0].mat.rows == 1 || x.in[0].mat.cols == 1);
}

/* ---- the modes ------------------------------------------------------------------------------- */

musec_status ms_ssc_literal(ms_device *d, ms_stacks x, ms_num threshold, int iters,
                            musec_dtype compute_dtype, ms_report *report)
{
    const ms_device_ops *op   = d->ops;
    const ms_mark        mark = ms_arena_mark(&d->scratch);
    const ms_mat         none = { 0 };
    ms_soft              e;
    musec_status         st = MUSEC_OK;

    if (is_vector(x)) return soft_vector(d, x, threshold, report);
    TRY(ms_soft_begin(d, x, threshold, ms_compute_dtype(x.in[0].mat, compute_dtype),
                      (ms_soft_start){ .literal = true,
                                       .many    = iters > MS_FEW_STEPS,
                                       .sharp   = fast_chain(x, compute_dtype) },
                      &e));
    const ms_term identity = { .diag = ms_const(1.0), .out = e.y };
    TRY(op->combine(d, none, none, &identity, 1));
    for (int k = 0; k < iters; k++) { /* b and y are the paper's Y and Z */
        const bool last = k == iters - 1;
        TRY(op->product(
            d, &(ms_product){
                   .a = e.y, .b = e.b, .alpha = ms_const(-0.5), .diag = ms_const(1.5), .c = e.t }));
        TRY(op->gemm(d, 1.0, e.b, e.t, 0.0, e.q));
        ms_mat_swap(&e.b, &e.q);
        TRY(op->product(d, &(ms_product){ .a     = e.t,
                                          .b     = e.y,
                                          .alpha = last ? ms_each(e.gain) : ms_const(1.0),
                                          .c     = e.q }));
        ms_mat_swap(&e.y, &e.q);
    }
    e.z = e.y;
    TRY(ms_soft_finish(d, &e, x.out));
    TRY(report_bound(d, &e, report));
    report_plan(report, e.b.count, &e, "literal", 3 * iters);
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* Stage i of a plan; of a plan that has no such stage, any numbers will do. */
static ms_stage_form form_of(const ms_poly_plan *plan, int i)
{
    const ms_stage none = { .q = 1, .wmax = 1.0 };
    return ms_stage_squares(plan->stage[i].q > 0 ? &plan->stage[i] : &none);
}

/* Picks stage i of the plan of each matrix: the first plan with u_d <= u_min, or else the last; of
 * matrices that have been reduced, from plan number `loose` on. */
static musec_status pick_stage(ms_device *d, const ms_poly_plan *plans, int n_plans, int i,
                               int loose, ms_num reductions, ms_vec u_min, ms_stage_coefs *coefs)
{
    ms_stage_table table;
    musec_status   st = MUSEC_OK;
    memset(&table, 0, sizeof table);
    for (int p = 0; p < n_plans; p++) {
        const ms_stage_form f = form_of(&plans[p], i);
        table.u_d[p]          = plans[p].u_d;
        table.row[p] =
            (ms_pick_stage_out){ .v1 = f.v1, .v0 = f.v0, .q0 = f.q0, .t1 = f.t1, .t0 = f.t0 };
    }
    TRY(MS_SCRATCH_VECS(d, u_min.count, coefs));
    TRY(ms_scalar_pick_stage(d, &table, sizeof table,
                             (ms_pick_stage_nums){ .n_plans    = ms_const(n_plans),
                                                   .loose      = ms_const(loose),
                                                   .reductions = reductions,
                                                   .u_min      = ms_each(u_min) },
                             *coefs));
done:
    return st;
}

musec_status ms_schedule_plans(ms_device *d, const ms_poly_plan *plans, int n_plans,
                               ms_active_set active, ms_vec u_min, ms_stage_schedule *c)
{
    const ms_poly_plan *p    = &plans[0];
    const ms_num        none = ms_const(0.0);
    const int           n    = p->n_stages;
    musec_status        st   = MUSEC_OK;
    *c                       = (ms_stage_schedule){ .n = n, .last_q = p->stage[n - 1].q };
    c->q                     = ms_const(p->stage[0].q);
    c->n_stages              = ms_const(n);
    TRY(pick_stage(d, plans, n_plans, 0, 0, none, u_min, &c->first));
    TRY(pick_stage(d, plans, n_plans, n - 1, 0, none, u_min, &c->last));
    for (int i = 1; i < n - 1; i++) {
        TRY(pick_stage(d, plans, n_plans, i, 0, none, u_min, &c->middle[i]));
        c->in_middle[i] = active;
    }
    if (p->stage[0].q == 4)
        c->square = active;
    else
        c->no_square = active;
    if (n == 1)
        c->single = active;
    else
        c->several = active;
    if (n > 1 && p->stage[0].q == 4) c->several_square = active;
    if (n > 1 && n % 2 == 0) c->even = active;
    if (n > 1 && n % 2 == 1) c->odd = active;
done:
    return st;
}

musec_status ms_ssc_plan(ms_device *d, ms_stacks x, ms_num threshold, const ms_poly_plan *plan,
                         musec_dtype compute_dtype, ms_report *report)
{
    const ms_mark       mark = ms_arena_mark(&d->scratch);
    const ms_active_set all  = { .any = true };
    ms_stage_schedule   schedule;
    ms_soft             e;
    musec_status        st = MUSEC_OK;

    if (is_vector(x)) return soft_vector(d, x, threshold, report);
    TRY(ms_soft_begin(d, x, threshold, ms_compute_dtype(x.in[0].mat, compute_dtype),
                      (ms_soft_start){ .many   = plan->n_stages > MS_FEW_STEPS / 2,
                                       .square = plan->stage[0].q > 1,
                                       .sharp  = fast_chain(x, compute_dtype),
                                       .stages = plan->n_stages },
                      &e));
    TRY(ms_schedule_plans(d, plan, 1, all, e.u_min, &schedule));
    TRY(ms_run_stages(d, &schedule, ms_const(1.0), &e));
    TRY(ms_soft_finish(d, &e, x.out));
    TRY(report_bound(d, &e, report));
    report_plan(report, e.b.count, &e, plan->name, ms_poly_plan_products(plan));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* Gives the plan that pick_stage took for this u_min. */
static const ms_poly_plan *picked(const ms_poly_plan *plans, int n_plans, double u_min)
{
    int i = 0;
    while (i < n_plans - 1 && !(u_min >= plans[i].u_d))
        i++;
    return &plans[i];
}

musec_status ms_soft_fast(ms_device *d, ms_stacks x, ms_num threshold, musec_dtype compute_dtype,
                          ms_report *report)
{
    const ms_mark       mark = ms_arena_mark(&d->scratch);
    const ms_active_set all  = { .any = true };
    ms_poly_plan        plans[MS_FAST_PLANS];
    ms_stage_schedule   schedule;
    ms_soft             e;
    musec_status        st = MUSEC_OK;

    if (is_vector(x)) return soft_vector(d, x, threshold, report);
    for (int i = 0; i < MS_FAST_PLANS; i++)
        ms_poly_plan_fast(i, &plans[i]);
    TRY(ms_soft_begin(
        d, x, threshold, ms_compute_dtype(x.in[0].mat, compute_dtype),
        (ms_soft_start){ .moments = true, .stages = 2, .sharp = fast_chain(x, compute_dtype) },
        &e));
    TRY(ms_schedule_plans(d, plans, MS_FAST_PLANS, all, e.u_min, &schedule));
    TRY(ms_run_stages(d, &schedule, ms_each(e.inv_alpha), &e));
    TRY(ms_soft_finish(d, &e, x.out));
    TRY(report_bound(d, &e, report));
    for (int64_t b = 0; report != NULL && b < e.b.count; b++) {
        const ms_poly_plan *p = picked(plans, MS_FAST_PLANS, report[b].u_low);
        report_plan(&report[b], 1, &e, p->name, ms_poly_plan_products(p));
    }
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* ---- accurate -------------------------------------------------------------------------------- */

/* The candidates of a tolerance, and what comes before them for matrices beyond their reach. */
typedef struct accurate_plans {
    musec_dtype        compute_dtype;
    ms_poly_candidates candidates; /* n is 0: none yet */
    int                loose;      /* the first candidate for matrices that were reduced */
    ms_poly_plan       reduction;
} accurate_plans;

/* Schedules the candidates, of which each matrix picks its own. */
static musec_status candidate_schedule(ms_device *d, const accurate_plans *plans, const ms_soft *e,
                                       ms_stage_schedule *c)
{
    const ms_poly_candidates *candidates = &plans->candidates;
    const ms_vec              u_min      = e->u_min;
    const int                 n = candidates->n, longest = candidates->longest;
    ms_ends_table             table;
    ms_pick_ends_vecs         ends;
    ms_stage_masks_vecs       masks;
    musec_status              st = MUSEC_OK;

    *c = (ms_stage_schedule){ .n = longest, .last_q = 4 };
    memset(&table, 0, sizeof table);
    for (int i = 0; i < n; i++) {
        const ms_poly_plan *p = &candidates->plan[i];
        const ms_stage_form f = form_of(p, 0), l = form_of(p, p->n_stages - 1);
        table.u_d[i] = p->u_d;
        table.row[i] = (ms_pick_ends_out){ .v1       = f.v1,
                                           .v0       = f.v0,
                                           .q0       = f.q0,
                                           .t1       = f.t1,
                                           .t0       = f.t0,
                                           .last_v1  = l.v1,
                                           .last_v0  = l.v0,
                                           .last_q0  = l.q0,
                                           .last_t1  = l.t1,
                                           .last_t0  = l.t0,
                                           .q        = p->stage[0].q,
                                           .n_stages = p->n_stages };
        c->no_square.any |= p->stage[0].q < 4;
        c->several_square.any |= p->stage[0].q == 4 && p->n_stages > 1;
        c->single.any |= p->n_stages == 1;
        c->even.any |= p->n_stages == 2 || p->n_stages == 4;
        c->odd.any |= p->n_stages == 3;
    }
    TRY(MS_SCRATCH_VECS(d, u_min.count, &ends));
    TRY(MS_SCRATCH_VECS(d, u_min.count, &masks));
    TRY(ms_scalar_pick_ends(d, &table, sizeof table,
                            (ms_pick_ends_nums){ .n_plans    = ms_const(n),
                                                 .loose      = ms_const(plans->loose),
                                                 .reductions = e->reductions,
                                                 .u_min      = ms_each(u_min) },
                            ends));
    c->first = (ms_stage_coefs){ ends.v1, ends.v0, ends.q0, ends.t1, ends.t0 };
    c->last =
        (ms_stage_coefs){ ends.last_v1, ends.last_v0, ends.last_q0, ends.last_t1, ends.last_t0 };
    c->q        = ms_each(ends.q);
    c->n_stages = ms_each(ends.n_stages);
    TRY(ms_scalar_stage_masks(d, (ms_stage_masks_nums){ .q = c->q, .n_stages = c->n_stages },
                              masks));
    c->square              = (ms_active_set){ true, masks.square };
    c->several             = (ms_active_set){ longest > 1, masks.several };
    c->no_square.mask      = masks.no_square;
    c->single.mask         = masks.single;
    c->even.mask           = masks.even;
    c->odd.mask            = masks.odd;
    c->several_square.mask = masks.several_square;
    for (int i = 1; i < longest - 1; i++) {
        TRY(pick_stage(d, candidates->plan, n, i, plans->loose, e->reductions, u_min,
                       &c->middle[i]));
        c->in_middle[i] = (ms_active_set){ true, i == 1 ? masks.second : masks.third };
    }
done:
    return st;
}

/* Gives the engine of matrices first .. first + count - 1 of one stack. */
static ms_soft soft_slice(const ms_soft *e, int64_t first, int64_t count)
{
    ms_soft       one    = *e;
    ms_mat *const mats[] = { &one.p[0].x, &one.b, &one.q, &one.t, &one.y, &one.v, &one.gram };
    ms_vec *const vecs[] = { &one.scale, &one.s,     &one.inv_alpha, &one.mean,
                             &one.alpha, &one.u_min, &one.gain,      &one.residual };
    for (size_t i = 0; i < COUNT(mats); i++)
        *mats[i] = ms_mat_slice(*mats[i], first, count);
    for (size_t i = 0; i < COUNT(vecs); i++)
        *vecs[i] = ms_vec_slice(*vecs[i], first, count);
    return one;
}

/* Reports the plan of matrix b and its reductions. */
static musec_status report_candidate(ms_device *d, const accurate_plans *plans, const ms_soft *e,
                                     int64_t b, ms_report *report)
{
    const ms_poly_candidates *candidates = &plans->candidates;
    const ms_poly_plan       *p;
    char                      name[sizeof report->path], before[12] = "";
    double                    u_min = report->u_low, reductions = 0.0;
    int                       loose = 0, products = 0;
    musec_status              st = MUSEC_OK;
    if (e->reductions.each.data != NULL) {
        TRY(ms_vec_download(d, ms_vec_slice(e->reductions.each, b, 1), &reductions));
        TRY(ms_vec_download(d, ms_vec_slice(e->u_min, b, 1), &u_min));
    }
    if (reductions > 0.0) {
        loose    = plans->loose;
        products = (int)reductions * ms_poly_plan_products(&plans->reduction);
        snprintf(before, sizeof before, "%d+", (int)reductions);
    }
    p = picked(candidates->plan + loose, candidates->n - loose, u_min);
    snprintf(name, sizeof name, "%.4s%.19s%s", before, p->name, u_min >= p->u_d ? "" : " short");
    /* a first stage of q = 1 has no use for the square of A that the bound took */
    products += ms_poly_plan_products(p) + (p->stage[0].q == 1 ? 1 : 0);
    report_plan(report, 1, e, name, products);
done:
    return st;
}

/* Clips all matrices of e by the candidates. */
static musec_status by_candidates(ms_device *d, const accurate_plans *plans, ms_soft e,
                                  const ms_mat *out, ms_report *report)
{
    const ms_mark     mark  = ms_arena_mark(&d->scratch);
    const int64_t     count = e.b.count;
    ms_stage_schedule schedule;
    musec_status      st = MUSEC_OK;
    TRY(candidate_schedule(d, plans, &e, &schedule));
    TRY(ms_run_stages(d, &schedule, ms_each(e.inv_alpha), &e));
    TRY(ms_soft_finish(d, &e, out));
    if (e.reductions.each.data == NULL) TRY(report_bound(d, &e, report));
    for (int64_t b = 0; report != NULL && b < count; b++)
        TRY(report_candidate(d, plans, &e, b, &report[b]));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* Is u so small that no candidate reaches that far down, or that the rounding of the Gram matrix,
 * about eps / 8 / u^2 as measured, would exceed tol? */
static bool needs_exact(const ms_poly_candidates *candidates, musec_dtype compute_dtype,
                        double u_min)
{
    return !(u_min >= candidates->plan[candidates->n - 1].u_d &&
             candidates->tol >= ms_dtype_eps(compute_dtype) / 8.0 / (u_min * u_min));
}

/* In the precision of the input, tol is a promise: this waits for a number of each matrix, and
 * takes eigenvalues where no candidate will do. */
static musec_status by_candidates_or_exact(ms_device *d, const accurate_plans *plans,
                                           const ms_soft *e, double sharpness, ms_mat in,
                                           ms_num threshold, ms_mat out, ms_report *report)
{
    const ms_poly_candidates *candidates = &plans->candidates;
    double                   *u_min      = malloc((size_t)in.count * sizeof *u_min);
    musec_status              st         = MUSEC_OK;
    if (u_min == NULL) TRY(ms_fail(&d->error, MUSEC_ENOMEM, "accurate: no memory for the plans"));
    TRY(ms_vec_download(d, e->u_min, u_min));
    for (int64_t first = 0, next; first < in.count; first = next) {
        const bool exact = needs_exact(candidates, e->compute_dtype, u_min[first]);
        ms_report *about = report == NULL ? NULL : report + first;
        for (next = first + 1;
             next < in.count && needs_exact(candidates, e->compute_dtype, u_min[next]) == exact;)
            next++;
        const int64_t n    = next - first;
        const ms_mat  part = ms_mat_slice(out, first, n);
        if (exact)
            TRY(ms_exact(d, sharpness, ms_mat_slice(in, first, n),
                         ms_num_slice(threshold, first, n), part, about));
        else
            TRY(by_candidates(d, plans, soft_slice(e, first, n), &part, about));
    }
done:
    free(u_min);
    return st;
}

/* With a 16-bit compute dtype the candidates end with two for matrices with a lower u than others
 * reach, reduced or not, and a tol far below rounding is of no use. */
static bool make_plans(double tol, musec_dtype compute_dtype, accurate_plans *out)
{
    const ms_compute_limits limits    = ms_compute_limits_of(compute_dtype);
    const double            short_tol = fmax(tol, 1e-2);
    const int               two[]     = { MS_STAGE_Q, MS_STAGE_Q };
    ms_poly_candidates     *c         = &out->candidates;
    *out                              = (accurate_plans){ .compute_dtype = compute_dtype };
    if (ms_poly_candidates_make(tol, limits.u_d, c) != MUSEC_OK) return false;
    if (!ms_is_16bit(compute_dtype)) return true;
    out->loose = c->n;
    for (int i = 0; i < 2; i++) {
        const double u_d = i == 0 ? fmax(limits.short_u_d, limits.loose_u_d) : limits.short_u_d;
        if (c->n == MS_POLY_CANDIDATES) return false;
        ms_poly_plan *plan = &c->plan[c->n++];
        if (ms_poly_plan_cheapest(short_tol, u_d, plan) != MUSEC_OK) return false;
        if (plan->n_stages > c->longest) c->longest = plan->n_stages;
    }
    return ms_poly_plan_minimax(two, 2, limits.reduction_u_d, &out->reduction) == MUSEC_OK;
}

/* The plans take long to make, so the context keeps the last ones. */
static musec_status find_plans(ms_device *d, double tol, musec_dtype compute_dtype,
                               const accurate_plans **out)
{
    const double    min_tol = 1e-5;
    accurate_plans *cache   = d->attached;
    musec_status    st      = MUSEC_OK;
    if (ms_is_16bit(compute_dtype) && tol < min_tol) tol = min_tol;
    if (cache == NULL) {
        cache = d->attached = calloc(1, sizeof *cache);
        d->free_attached    = free;
        if (cache == NULL)
            TRY(ms_fail(&d->error, MUSEC_ENOMEM, "accurate: no memory for the polynomials"));
    }
    if (cache->candidates.n == 0 || cache->candidates.tol != tol ||
        cache->compute_dtype != compute_dtype) {
        if (!make_plans(tol, compute_dtype, cache)) {
            cache->candidates.n = 0;
            TRY(ms_fail(&d->error, MUSEC_EINVAL, "accurate: no polynomial for a tol of %g", tol));
        }
    }
    *out = cache;
done:
    return st;
}

musec_status ms_soft_accurate(ms_device *d, ms_stacks x, ms_num threshold, double tol,
                              musec_dtype compute_dtype, ms_report *report)
{
    const ms_mark         mark  = ms_arena_mark(&d->scratch);
    const accurate_plans *plans = NULL;
    const ms_sharp_chain *sharp = NULL;
    ms_soft               e;
    musec_status          st = MUSEC_OK;

    if (is_vector(x)) return soft_vector(d, x, threshold, report);
    compute_dtype = ms_compute_dtype(x.in[0].mat, compute_dtype);
    if (x.sharpness != MS_SOFT) {
        /* half of tol is the chain's; an error of the soft clip counts twice at the corner */
        const bool   rounds = ms_is_16bit(compute_dtype); /* about as much as a short chain errs */
        const double half   = 0.5 * tol,
                     at_corner = rounds ? fmax(half, fast_tol(x, compute_dtype)) : half;
        sharp =
            ms_sharp_chain_find(x.sharpness, at_corner, rounds ? fmax(half, FAST_TOL_BELOW) : half);
        if (sharp->error > half && !rounds)
            return ms_exact(d, x.sharpness, x.in[0].mat, threshold, x.out[0], report);
        tol = fmax(half, tol - sharp->error) / 2.0;
    }
    TRY(find_plans(d, tol, compute_dtype, &plans));
    TRY(ms_soft_begin(
        d, x, threshold, compute_dtype,
        (ms_soft_start){ .moments = true, .stages = plans->candidates.longest, .sharp = sharp },
        &e));
    if (!ms_is_16bit(compute_dtype)) {
        TRY(by_candidates_or_exact(d, plans, &e, x.sharpness, x.in[0].mat, threshold, x.out[0],
                                   report));
        goto done;
    }
    TRY(report_bound(d, &e, report));
    for (int i = 0; i < MS_REDUCTIONS; i++)
        TRY(ms_soft_reduce(d, &plans->reduction, &threshold, &e));
    TRY(by_candidates(d, plans, e, x.out, report));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}
