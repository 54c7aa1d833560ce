/* soft_clip.c - soft spectral clipping without an SVD (paper: section 5, Algorithm 3): its modes.
 *
 * `paper`, in the paper's own order or as a plan of fewer products, `fast` and `accurate` differ in
 * the polynomials and in the bound alpha; what they are made of, and why it works, is in
 * soft_engine.c.  Nothing here waits for the device but `accurate` and reports. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

void ms_report_operands(ms_report *report, int64_t count, musec_dtype operands)
{
    for (int64_t i = 0; report != NULL && ms_narrow(operands) && i < count; i++) {
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
    TRY(ms_prepare(d, in, threshold, in.dtype, &p));
    TRY(ms_vector_map(d, MS_MAP_SOFT, &p, threshold, in, out));
    ms_report_path(report, in.count, "vector", 0);
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

static bool is_vector(ms_mat x) { return x.rows == 1 || x.cols == 1; }

/* ---- the modes ------------------------------------------------------------------------------- */

musec_status ms_ssc_literal(ms_device *d, ms_mat in, ms_num threshold, int iters,
                            musec_dtype operands, ms_mat out, ms_report *report)
{
    const ms_device_ops *op   = d->ops;
    const ms_mark        mark = ms_arena_mark(&d->scratch);
    ms_soft              e;
    musec_status         st = MUSEC_OK;

    if (is_vector(in)) return soft_vector(d, in, threshold, out, report);
    TRY(ms_soft_begin(d, in, threshold, ms_operands(in, operands),
                      (ms_soft_start){ .literal = true, .many = iters > MS_FEW_STEPS }, &e));
    TRY(op->fill(d, 0.0, e.z));
    TRY(op->add_diag(d, ms_const(1.0), e.z));
    for (int k = 0; k < iters; k++) { /* w is the paper's Y */
        TRY(op->gemm(d, -0.5, e.z, e.w, 0.0, e.t));
        TRY(op->add_diag(d, ms_const(1.5), e.t));
        TRY(op->gemm(d, 1.0, e.w, e.t, 0.0, e.v));
        ms_mat_swap(&e.w, &e.v);
        TRY(op->gemm(d, 1.0, e.t, e.z, 0.0, e.v));
        ms_mat_swap(&e.z, &e.v);
    }
    TRY(op->scale(d, ms_each(e.gain), e.z));
    TRY(ms_soft_finish(d, &e, out));
    ms_report_path(report, in.count, "literal", 3 * iters);
    ms_report_operands(report, in.count, e.operands);
    TRY(report_bound(d, &e, report));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* The numbers of every stage from a table of plans of the same stages: row i where
 * u_low >= key[i]. */
static musec_status pick_plan(ms_device *d, const ms_plan *plans, const double *keys, int n_plans,
                              ms_vec u_low, ms_stage_nums *nums)
{
    const ms_device_ops *op = d->ops;
    double               params[2 + 4 + 4 * MS_STAGE_NUMBERS];
    ms_vec               all;
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
        TRY(ms_take_nums(d, u_low.count, &all, &nums[s]));
        TRY(op->scalars(d, MS_SCALAR_PICK, params, (int)(at - params), (ms_num[]){ ms_each(u_low) },
                        nums[s].v));
    }
done:
    return st;
}

musec_status ms_ssc_plan(ms_device *d, ms_mat in, ms_num threshold, const ms_plan *plan,
                         musec_dtype operands, ms_mat out, ms_report *report)
{
    const ms_mark mark                 = ms_arena_mark(&d->scratch);
    ms_stage_nums nums[MS_PLAN_STAGES] = { 0 };
    int           q[MS_PLAN_STAGES];
    ms_soft       e;
    musec_status  st = MUSEC_OK;

    if (is_vector(in)) return soft_vector(d, in, threshold, out, report);
    for (int i = 0; i < plan->n_stages; i++)
        q[i] = plan->stage[i].q;
    TRY(ms_soft_begin(d, in, threshold, ms_operands(in, operands),
                      (ms_soft_start){ .many = plan->n_stages > MS_FEW_STEPS / 2 }, &e));
    TRY(pick_plan(d, plan, (double[]){ 0.0 }, 1, e.u_low, nums));
    TRY(ms_run_stages(d, q, plan->n_stages, nums, ms_const(1.0), false, &e));
    TRY(ms_soft_finish(d, &e, out));
    ms_report_path(report, in.count, plan->name, ms_plan_products(plan));
    ms_report_operands(report, in.count, e.operands);
    TRY(report_bound(d, &e, report));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

musec_status ms_soft_fast(ms_device *d, ms_mat in, ms_num threshold, musec_dtype operands,
                          ms_mat out, ms_report *report)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    ms_plan       plans[MS_FAST_PLANS];
    double        keys[MS_FAST_PLANS];
    ms_stage_nums nums[2] = { 0 };
    ms_soft       e;
    musec_status  st = MUSEC_OK;

    if (is_vector(in)) return soft_vector(d, in, threshold, out, report);
    for (int i = 0; i < MS_FAST_PLANS; i++) {
        ms_plan_fast(i, &plans[i]);
        keys[i] = plans[i].u_d;
    }
    TRY(ms_soft_begin(d, in, threshold, ms_operands(in, operands),
                      (ms_soft_start){ .moments = true }, &e));
    TRY(pick_plan(d, plans, keys, MS_FAST_PLANS, e.u_low, nums));
    TRY(ms_run_stages(d, (int[]){ 4, 4 }, 2, nums, ms_each(e.inv_a), true, &e));
    TRY(ms_soft_finish(d, &e, out));
    ms_report_path(report, in.count, "", ms_plan_products(&plans[0]));
    TRY(report_bound(d, &e, report));
    for (int64_t b = 0; report != NULL && b < in.count; b++) { /* the choice that PICK made */
        int i = 0;
        while (i < MS_FAST_PLANS - 1 && !(report[b].u_low >= keys[i]))
            i++;
        memcpy(report[b].path, plans[i].name, sizeof plans[i].name);
    }
    ms_report_operands(report, in.count, e.operands);
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* ---- accurate -------------------------------------------------------------------------------- */

#define MENU_STAGES 4

/* What rounding adds to the relative error, measured: in float32 that of the Gram matrix alone,
 * 1.5e-8 / u_low^2; with operands of 16 bits that of every product.  A tolerance below it takes
 * another way. */
static double rounding_floor(musec_dtype operands, double u_low)
{
    if (ms_narrow(operands)) return ms_dtype_eps(operands) / u_low;
    return ms_dtype_eps(operands) / 8.0 / (u_low * u_low);
}

/* Matrices first .. first + count - 1 of an engine. */
static ms_soft soft_slice(const ms_soft *e, int64_t first, int64_t count)
{
    ms_soft       one    = *e;
    ms_mat *const mats[] = { &one.p.x, &one.w, &one.q, &one.t, &one.v, &one.z, &one.square };
    ms_vec *const vecs[] = { &one.p.s,   &one.inv_a, &one.mean, &one.alpha,
                             &one.u_low, &one.gain,  &one.rest };
    for (size_t i = 0; i < COUNT(mats); i++)
        *mats[i] = ms_mat_slice(*mats[i], first, count);
    for (size_t i = 0; i < COUNT(vecs); i++)
        *vecs[i] = ms_vec_slice(*vecs[i], first, count);
    return one;
}

/* A run of matrices whose plans, different in their numbers, have the same stages. */
static musec_status accurate_run(ms_device *d, const ms_plan *plans, ms_soft e, ms_mat out)
{
    const int64_t count             = out.count;
    const size_t  bytes             = (size_t)(MS_STAGE_NUMBERS * count) * sizeof(double);
    double       *host              = malloc(bytes);
    ms_stage_nums nums[MENU_STAGES] = { 0 };
    int           q[MENU_STAGES];
    ms_vec        all;
    musec_status  st = MUSEC_OK;
    if (host == NULL) TRY(ms_fail(&d->error, MUSEC_ENOMEM, "accurate: no memory for the plans"));
    for (int s = 0; s < plans[0].n_stages; s++) {
        q[s] = plans[0].stage[s].q;
        for (int64_t b = 0; b < count; b++) {
            const ms_stage_form f                        = ms_stage_squares(&plans[b].stage[s]);
            const double        number[MS_STAGE_NUMBERS] = { f.v1, f.v0, f.q0, f.t1, f.t0 };
            for (int i = 0; i < MS_STAGE_NUMBERS; i++)
                host[i * count + b] = number[i];
        }
        TRY(ms_take_nums(d, count, &all, &nums[s]));
        TRY(d->ops->upload(d, host, bytes, all.data));
    }
    TRY(ms_run_stages(d, q, plans[0].n_stages, nums, ms_each(e.inv_a), true, &e));
    TRY(ms_soft_finish(d, &e, out));
done:
    free(host);
    return st;
}

/* The plan of each matrix; n_stages 0 where no polynomial of the menu reaches that
 * far down, or rounding would not let it. */
static musec_status choose_plans(ms_device *d, const ms_soft *e, double tol, ms_plan *plans)
{
    const int64_t count = e->w.count;
    const double  least = ms_operand_limits_of(e->operands).u_d;
    double       *u_low = malloc((size_t)count * sizeof *u_low);
    musec_status  st    = MUSEC_OK;
    if (u_low == NULL) TRY(ms_fail(&d->error, MUSEC_ENOMEM, "accurate: no memory for the plans"));
    TRY(ms_vec_download(d, e->u_low, u_low));
    for (int64_t b = 0; b < count; b++)
        if (!(u_low[b] >= least && tol >= rounding_floor(e->operands, u_low[b])) ||
            ms_plan_menu(tol, u_low[b], &plans[b]) != MUSEC_OK)
            plans[b] = (ms_plan){ .n_stages = 0 };
done:
    free(u_low);
    return st;
}

/* Matrices first .. first + n - 1 where no plan will do: products in the input's own precision, if
 * they were not, else by eigenvalues. */
static musec_status without_plan(ms_device *d, ms_mat in, ms_num threshold, double tol,
                                 musec_dtype operands, ms_mat out, ms_report *report)
{
    if (ms_narrow(operands)) return ms_soft_accurate(d, in, threshold, tol, in.dtype, out, report);
    return ms_exact(d, MS_MAP_SOFT, in, threshold, out, report);
}

musec_status ms_soft_accurate(ms_device *d, ms_mat in, ms_num threshold, double tol,
                              musec_dtype operands, ms_mat out, ms_report *report)
{
    const ms_mark mark  = ms_arena_mark(&d->scratch);
    ms_plan      *plans = NULL; /* in host memory: the choice is the host's */
    ms_soft       e;
    musec_status  st = MUSEC_OK;

    if (is_vector(in)) return soft_vector(d, in, threshold, out, report);
    plans = calloc((size_t)in.count, sizeof *plans);
    if (plans == NULL) TRY(ms_fail(&d->error, MUSEC_ENOMEM, "accurate: no memory for the plans"));
    TRY(ms_soft_begin(d, in, threshold, ms_operands(in, operands),
                      (ms_soft_start){ .moments = true }, &e));
    TRY(choose_plans(d, &e, tol, plans));
    for (int64_t first = 0, next; first < in.count; first = next) {
        const ms_plan *plan  = &plans[first];
        ms_report     *about = report == NULL ? NULL : report + first;
        for (next = first + 1; next < in.count && strcmp(plans[next].name, plan->name) == 0;)
            next++;
        const int64_t n     = next - first;
        const ms_mark inner = ms_arena_mark(&d->scratch);
        const ms_soft part  = soft_slice(&e, first, n);
        if (plan->n_stages > 0) {
            TRY(accurate_run(d, plan, part, ms_mat_slice(out, first, n)));
            /* a first stage of q = 1 has no use for the square of A that the bound took */
            ms_report_path(about, n, plan->name,
                           ms_plan_products(plan) + (plan->stage[0].q == 1 ? 1 : 0));
            ms_report_operands(about, n, e.operands);
            TRY(report_bound(d, &part, about));
        } else {
            TRY(without_plan(d, ms_mat_slice(in, first, n), ms_num_slice(threshold, first, n), tol,
                             e.operands, ms_mat_slice(out, first, n), about));
        }
        ms_arena_reset(&d->scratch, inner);
    }
done:
    free(plans);
    ms_arena_reset(&d->scratch, mark);
    return st;
}
