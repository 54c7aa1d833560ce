/* soft_clip.c - soft spectral clipping without an SVD (paper: section 5, Algorithm 3): its modes.
 *
 * `paper`, in the paper's own order or as a plan of fewer products, `fast` and `accurate` differ in
 * the polynomials and in the bound alpha; what they are made of, and why it works, is in
 * soft_engine.c.  Nothing here waits for the device but reports, and `accurate` where its operands
 * are wide. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/scalar_fn.h"
#include "linalg/soft_engine.h"

/* ---- reports --------------------------------------------------------------------------------- */

void ms_report_path(ms_report *report, int64_t count, const char *path, int products)
{
    for (int64_t i = 0; report != NULL && i < count; i++) {
        memset(&report[i], 0, sizeof report[i]);
        snprintf(report[i].path, sizeof report[i].path, "%s", path);
        report[i].products = products;
    }
}

void ms_report_compute_dtype(ms_report *report, int64_t count, musec_dtype operands)
{
    for (int64_t i = 0; report != NULL && ms_is_16bit(operands) && i < count; i++) {
        const size_t used = strlen(report[i].path);
        snprintf(report[i].path + used, sizeof report[i].path - used, " %s",
                 ms_dtype_name(operands));
    }
}

/* alpha and u_low in the caller's own units. */
static musec_status report_bound(ms_device *d, const ms_soft *e, ms_report *report)
{
    musec_status st = MUSEC_OK;
    for (int64_t i = 0; report != NULL && i < e->alpha.count; i++) {
        double s = 1.0;
        TRY(ms_vec_download(d, ms_vec_slice(e->s, i, 1), &s));
        TRY(ms_vec_download(d, ms_vec_slice(e->alpha, i, 1), &report[i].alpha));
        TRY(ms_vec_download(d, ms_vec_slice(e->u_low, i, 1), &report[i].u_low));
        report[i].alpha = report[i].alpha / s / s;
    }
done:
    return st;
}

/* Where r is 1 every mode is the same factor. */
static musec_status soft_vector(ms_device *d, ms_stacks x, ms_num threshold, ms_report *report)
{
    const ms_mat  in = x.in[0], out = x.out[0];
    const ms_mark mark = ms_arena_mark(&d->scratch);
    ms_prepared   p;
    musec_status  st = MUSEC_OK;
    TRY(ms_prepare(d, in, threshold, in.dtype, &p));
    TRY(ms_vector_clip(d, MS_EXACT_SOFT, &p, threshold, in, out));
    ms_report_path(report, in.count, "vector", 0);
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

static bool is_vector(ms_stacks x) { return x.n == 1 && (x.in[0].rows == 1 || x.in[0].cols == 1); }

/* ---- the modes ------------------------------------------------------------------------------- */

musec_status ms_ssc_literal(ms_device *d, ms_stacks x, ms_num threshold, int iters,
                            musec_dtype operands, ms_report *report)
{
    const ms_device_ops *op   = d->ops;
    const ms_mark        mark = ms_arena_mark(&d->scratch);
    const ms_mat         none = { 0 };
    ms_soft              e;
    musec_status         st = MUSEC_OK;

    if (is_vector(x)) return soft_vector(d, x, threshold, report);
    TRY(ms_soft_begin(d, x, threshold, ms_compute_dtype(x.in[0], operands),
                      (ms_soft_start){ .literal = true, .many = iters > MS_FEW_STEPS }, &e));
    const ms_term identity = { .diag = ms_const(1.0), .out = e.y };
    TRY(op->combine(d, none, none, &identity, 1));
    for (int k = 0; k < iters; k++) { /* b and y are the paper's Y and Z; the gain rides */
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
    ms_report_path(report, e.b.count, "literal", 3 * iters);
    ms_report_compute_dtype(report, e.b.count, e.operands);
    TRY(report_bound(d, &e, report));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

static void put_numbers(const ms_stage *stage, double *to)
{
    const ms_stage      none = { .q = 1, .wmax = 1.0 }; /* for a plan that has no such stage */
    const ms_stage_form f    = ms_stage_squares(stage->q > 0 ? stage : &none);
    memcpy(to, (double[]){ f.v1, f.v0, f.q0, f.t1, f.t0 }, MS_STAGE_NUMBERS * sizeof *to);
}

/* Columns of a table with a row for each plan, of which row i is taken where u_low >= u_d of plan
 * i, or else the last one. */
typedef struct table {
    double params[2 + MS_POLY_CANDIDATES * (1 + 2 * MS_STAGE_NUMBERS + 2)];
    int    n_params, cols;
} table;

static double *table_start(const ms_poly_plan *plans, int n_plans, int cols, table *t)
{
    t->cols      = cols;
    t->n_params  = 2 + n_plans * (1 + cols);
    t->params[0] = n_plans;
    t->params[1] = cols;
    for (int i = 0; i < n_plans; i++)
        t->params[2 + i] = plans[i].u_d;
    return t->params + 2 + n_plans;
}

static musec_status pick(ms_device *d, const table *t, ms_vec u_low, const ms_vec *out)
{
    return d->ops->scalars(d, MS_SCALAR_PICK, t->params, t->n_params, (ms_num[]){ ms_each(u_low) },
                           out);
}

/* Stage s of the plans. */
static musec_status pick_stage(ms_device *d, const ms_poly_plan *plans, int n_plans, int s,
                               ms_vec u_low, ms_stage_nums *nums)
{
    table        t;
    double      *at = table_start(plans, n_plans, MS_STAGE_NUMBERS, &t);
    musec_status st = MUSEC_OK;
    for (int i = 0; i < n_plans; i++, at += MS_STAGE_NUMBERS)
        put_numbers(&plans[i].stage[s], at);
    TRY(ms_take_nums(d, u_low.count, nums));
    TRY(pick(d, &t, u_low, nums->v));
done:
    return st;
}

/* The course of plans of the same stages: nothing depends on the matrix but numbers. */
static musec_status same_course(ms_device *d, const ms_poly_plan *plans, int n_plans, ms_vec u_low,
                                ms_stage_schedule *c)
{
    const ms_poly_plan *p     = &plans[0];
    const int           n     = p->n_stages;
    const ms_active_set do_it = { .any = true };
    musec_status        st    = MUSEC_OK;
    *c                        = (ms_stage_schedule){ .n = n, .last_q = p->stage[n - 1].q };
    c->q                      = ms_const(p->stage[0].q);
    c->count                  = ms_const(n);
    TRY(pick_stage(d, plans, n_plans, 0, u_low, &c->first));
    TRY(pick_stage(d, plans, n_plans, n - 1, u_low, &c->last));
    for (int i = 1; i < n - 1; i++) {
        TRY(pick_stage(d, plans, n_plans, i, u_low, &c->middle[i]));
        c->in_middle[i] = do_it;
    }
    if (p->stage[0].q == 4)
        c->square = do_it;
    else
        c->no_square = do_it;
    if (n == 1)
        c->single = do_it;
    else
        c->several = do_it;
    if (n > 1 && p->stage[0].q == 4) c->several_square = do_it;
    if (n > 1 && n % 2 == 0) c->even = do_it;
    if (n > 1 && n % 2 == 1) c->odd = do_it;
done:
    return st;
}

musec_status ms_ssc_plan(ms_device *d, ms_stacks x, ms_num threshold, const ms_poly_plan *plan,
                         musec_dtype operands, ms_report *report)
{
    const ms_mark     mark = ms_arena_mark(&d->scratch);
    ms_stage_schedule course;
    ms_soft           e;
    musec_status      st = MUSEC_OK;

    if (is_vector(x)) return soft_vector(d, x, threshold, report);
    TRY(ms_soft_begin(d, x, threshold, ms_compute_dtype(x.in[0], operands),
                      (ms_soft_start){ .many   = plan->n_stages > MS_FEW_STEPS / 2,
                                       .square = plan->stage[0].q > 1,
                                       .stages = plan->n_stages },
                      &e));
    TRY(same_course(d, plan, 1, e.u_low, &course));
    TRY(ms_run_stages(d, &course, ms_const(1.0), &e));
    TRY(ms_soft_finish(d, &e, x.out));
    ms_report_path(report, e.b.count, plan->name, ms_poly_plan_products(plan));
    ms_report_compute_dtype(report, e.b.count, e.operands);
    TRY(report_bound(d, &e, report));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* The plan that PICK took. */
static const ms_poly_plan *picked(const ms_poly_plan *plans, int n_plans, double u_low)
{
    int i = 0;
    while (i < n_plans - 1 && !(u_low >= plans[i].u_d))
        i++;
    return &plans[i];
}

musec_status ms_soft_fast(ms_device *d, ms_stacks x, ms_num threshold, musec_dtype operands,
                          ms_report *report)
{
    const ms_mark     mark = ms_arena_mark(&d->scratch);
    ms_poly_plan      plans[MS_FAST_PLANS];
    ms_stage_schedule course;
    ms_soft           e;
    musec_status      st = MUSEC_OK;

    if (is_vector(x)) return soft_vector(d, x, threshold, report);
    for (int i = 0; i < MS_FAST_PLANS; i++)
        ms_poly_plan_fast(i, &plans[i]);
    TRY(ms_soft_begin(d, x, threshold, ms_compute_dtype(x.in[0], operands),
                      (ms_soft_start){ .moments = true, .stages = 2 }, &e));
    TRY(same_course(d, plans, MS_FAST_PLANS, e.u_low, &course));
    TRY(ms_run_stages(d, &course, ms_each(e.inv_a), &e));
    TRY(ms_soft_finish(d, &e, x.out));
    ms_report_path(report, e.b.count, "", ms_poly_plan_products(&plans[0]));
    TRY(report_bound(d, &e, report));
    for (int64_t b = 0; report != NULL && b < e.b.count; b++)
        memcpy(report[b].path, picked(plans, MS_FAST_PLANS, report[b].u_low)->name,
               sizeof plans[0].name);
    ms_report_compute_dtype(report, e.b.count, e.operands);
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* ---- accurate -------------------------------------------------------------------------------- */

/* The course of plans of a menu, each matrix its own. */
static musec_status menu_course(ms_device *d, const ms_poly_candidates *menu, ms_vec u_low,
                                ms_stage_schedule *c)
{
    const int    cols = 2 * MS_STAGE_NUMBERS + 2;
    const int    n = menu->rows, longest = menu->longest;
    ms_vec       nums[2 * MS_STAGE_NUMBERS + 2], slots[MS_STAGE_MASKS];
    table        t;
    double      *at = table_start(menu->plan, n, cols, &t);
    musec_status st = MUSEC_OK;

    *c = (ms_stage_schedule){ .n = longest, .last_q = 4 };
    for (int i = 0; i < n; i++, at += cols) {
        const ms_poly_plan *p = &menu->plan[i];
        put_numbers(&p->stage[0], at);
        put_numbers(&p->stage[p->n_stages - 1], at + MS_STAGE_NUMBERS);
        at[cols - 2] = p->stage[0].q;
        at[cols - 1] = p->n_stages;
        c->no_square.any |= p->stage[0].q < 4;
        c->several_square.any |= p->stage[0].q == 4 && p->n_stages > 1;
        c->single.any |= p->n_stages == 1;
        c->even.any |= p->n_stages == 2 || p->n_stages == 4;
        c->odd.any |= p->n_stages == 3;
    }
    for (int i = 0; i < cols; i++)
        TRY(ms_scratch_vec(d, u_low.count, &nums[i]));
    for (int i = 0; i < MS_STAGE_MASKS; i++)
        TRY(ms_scratch_vec(d, u_low.count, &slots[i]));
    TRY(pick(d, &t, u_low, nums));
    memcpy(c->first.v, nums, sizeof c->first.v);
    memcpy(c->last.v, nums + MS_STAGE_NUMBERS, sizeof c->last.v);
    c->q     = ms_each(nums[cols - 2]);
    c->count = ms_each(nums[cols - 1]);
    TRY(d->ops->scalars(d, MS_SCALAR_STAGE_MASKS, NULL, 0, (ms_num[]){ c->q, c->count }, slots));
    c->square              = (ms_active_set){ true, slots[MS_STAGE_MASK_SQUARE] };
    c->several             = (ms_active_set){ longest > 1, slots[MS_STAGE_MASK_SEVERAL] };
    c->no_square.mask      = slots[MS_STAGE_MASK_NO_SQUARE];
    c->single.mask         = slots[MS_STAGE_MASK_SINGLE];
    c->even.mask           = slots[MS_STAGE_MASK_EVEN];
    c->odd.mask            = slots[MS_STAGE_MASK_ODD];
    c->several_square.mask = slots[MS_STAGE_MASK_SEVERAL_SQUARE];
    for (int i = 1; i < longest - 1; i++) {
        TRY(pick_stage(d, menu->plan, n, i, u_low, &c->middle[i]));
        c->in_middle[i] =
            (ms_active_set){ true, slots[i == 1 ? MS_STAGE_MASK_SECOND : MS_STAGE_MASK_THIRD] };
    }
done:
    return st;
}

/* Matrices first .. first + count - 1 of an engine of one stack. */
static ms_soft soft_slice(const ms_soft *e, int64_t first, int64_t count)
{
    ms_soft       one    = *e;
    ms_mat *const mats[] = { &one.p[0].x, &one.b, &one.q, &one.t, &one.y, &one.v, &one.gram };
    ms_vec *const vecs[] = { &one.s,     &one.inv_a, &one.mean, &one.alpha,
                             &one.u_low, &one.gain,  &one.rest };
    for (size_t i = 0; i < COUNT(mats); i++)
        *mats[i] = ms_mat_slice(*mats[i], first, count);
    for (size_t i = 0; i < COUNT(vecs); i++)
        *vecs[i] = ms_vec_slice(*vecs[i], first, count);
    return one;
}

/* All matrices of e by the plans of the menu. */
static musec_status by_menu(ms_device *d, const ms_poly_candidates *menu, ms_soft e,
                            const ms_mat *out, ms_report *report)
{
    const ms_mark     mark  = ms_arena_mark(&d->scratch);
    const int64_t     count = e.b.count;
    ms_stage_schedule course;
    musec_status      st = MUSEC_OK;
    TRY(menu_course(d, menu, e.u_low, &course));
    TRY(ms_run_stages(d, &course, ms_each(e.inv_a), &e));
    TRY(ms_soft_finish(d, &e, out));
    ms_report_path(report, count, "", 0);
    TRY(report_bound(d, &e, report));
    for (int64_t b = 0; report != NULL && b < count; b++) {
        const ms_poly_plan *p = picked(menu->plan, menu->rows, report[b].u_low);
        snprintf(report[b].path, sizeof report[b].path, "%.23s%s", p->name,
                 report[b].u_low >= p->u_d ? "" : " short");
        /* a first stage of q = 1 has no use for the square of A that the bound took */
        report[b].products = ms_poly_plan_products(p) + (p->stage[0].q == 1 ? 1 : 0);
    }
    ms_report_compute_dtype(report, count, e.operands);
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* Where no polynomial of the menu reaches that far down, or rounding would not let it, which is
 * that of the Gram matrix: about eps / 8 / u_low^2, measured. */
static bool needs_exact(const ms_poly_candidates *menu, musec_dtype operands, double u_low)
{
    return !(u_low >= menu->plan[menu->rows - 1].u_d &&
             menu->tol >= ms_dtype_eps(operands) / 8.0 / (u_low * u_low));
}

/* In the precision of the input, where tol is a promise: this waits, for a number of each matrix,
 * and does by eigenvalues what has to be. */
static musec_status by_menu_or_exact(ms_device *d, const ms_poly_candidates *menu, const ms_soft *e,
                                     ms_mat in, ms_num threshold, ms_mat out, ms_report *report)
{
    double      *u_low = malloc((size_t)in.count * sizeof *u_low);
    musec_status st    = MUSEC_OK;
    if (u_low == NULL) TRY(ms_fail(&d->error, MUSEC_ENOMEM, "accurate: no memory for the plans"));
    TRY(ms_vec_download(d, e->u_low, u_low));
    for (int64_t first = 0, next; first < in.count; first = next) {
        const bool exact = needs_exact(menu, e->operands, u_low[first]);
        ms_report *about = report == NULL ? NULL : report + first;
        for (next = first + 1;
             next < in.count && needs_exact(menu, e->operands, u_low[next]) == exact;)
            next++;
        const int64_t n    = next - first;
        const ms_mat  part = ms_mat_slice(out, first, n);
        if (exact)
            TRY(ms_exact(d, MS_EXACT_SOFT, ms_mat_slice(in, first, n),
                         ms_num_slice(threshold, first, n), part, about));
        else
            TRY(by_menu(d, menu, soft_slice(e, first, n), &part, about));
    }
done:
    free(u_low);
    return st;
}

/* A menu takes long to make: the context keeps the last one.  With operands of 16 bits it ends with
 * the plan for what lies below all others, and a tol far below rounding has no use. */
static musec_status menu_of(ms_device *d, double tol, musec_dtype operands,
                            const ms_poly_candidates **out)
{
    const ms_compute_limits limit     = ms_compute_limits_of(operands);
    const double            short_tol = 1e-2, least_tol = 1e-6;
    ms_poly_candidates     *menu = d->menu;
    musec_status            st   = MUSEC_OK;
    if (ms_is_16bit(operands) && tol < least_tol) tol = least_tol;
    if (menu == NULL) {
        menu = d->menu = calloc(1, sizeof *menu);
        if (menu == NULL) TRY(ms_fail(&d->error, MUSEC_ENOMEM, "accurate: no memory for the menu"));
    }
    if (menu->rows == 0 || menu->tol != tol || menu->operands != (int)operands) {
        bool made = ms_poly_candidates_make(tol, limit.u_d, menu) == MUSEC_OK;
        if (made && ms_is_16bit(operands)) {
            ms_poly_plan *last = &menu->plan[menu->rows++];
            made               = menu->rows <= MS_POLY_CANDIDATES &&
                   ms_poly_plan_cheapest(fmax(tol, short_tol), limit.short_u_d, last) == MUSEC_OK;
            if (made && last->n_stages > menu->longest) menu->longest = last->n_stages;
        }
        menu->operands = (int)operands;
        if (!made) menu->rows = 0;
        if (!made)
            TRY(ms_fail(&d->error, MUSEC_EINVAL, "accurate: no polynomial for a tol of %g", tol));
    }
    *out = menu;
done:
    return st;
}

musec_status ms_soft_accurate(ms_device *d, ms_stacks x, ms_num threshold, double tol,
                              musec_dtype operands, ms_report *report)
{
    const ms_mark             mark = ms_arena_mark(&d->scratch);
    const ms_poly_candidates *menu = NULL;
    ms_soft                   e;
    musec_status              st = MUSEC_OK;

    if (is_vector(x)) return soft_vector(d, x, threshold, report);
    operands = ms_compute_dtype(x.in[0], operands);
    TRY(menu_of(d, tol, operands, &menu));
    TRY(ms_soft_begin(d, x, threshold, operands,
                      (ms_soft_start){ .moments = true, .stages = menu->longest }, &e));
    TRY(ms_is_16bit(operands)
            ? by_menu(d, menu, e, x.out, report)
            : by_menu_or_exact(d, menu, &e, x.in[0], threshold, x.out[0], report));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}
