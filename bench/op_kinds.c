/* op_kinds.c - a row for each op of ms_device_ops, which describes its cases.  This file has
 * memory, reductions and scalars; op_matrix.c, op_element.c and op_network.c have the others.
 *
 * Sizes: m x n is the result, or the matrix of an op that has one; k is the inner size of a
 * product.  Variants of an op differ in coefficients (constants or one per matrix), absent
 * operands, operands in place and dtypes; each is described where its operands are declared.
 *
 * A gradient is that of f = sum <G, output> and is computed with the ops themselves, from the
 * operands after a run: for gemm, f = <G, alpha A B + beta C>, so by A it is alpha G B^T. */
#include <math.h>
#include <string.h>

#include "linalg/scalar_programs.h"
#include "op_cases.h"

double op_coef(const op_args *a, double x) { return (a->how & OP_ABSOLUTE) != 0 ? fabs(x) : x; }

/* ---- rounding -------------------------------------------------------------------------------- */

double op_exact(const op_case *c)
{
    (void)c;
    return 0.0;
}

double op_few(const op_case *c)
{
    (void)c;
    return 4.0;
}

double op_library(const op_case *c)
{
    (void)c;
    return 16.0;
}

/* (N - 1) u |x| for N terms in any order (Higham 2002, section 4.2), squares add u. */
static double sum_rounding(const op_case *c) { return (double)(c->m * c->n) + 2.0; }

/* ---- memory and queue ------------------------------------------------------------------------ */

static void no_operands(op_args *a) { (void)a; }

static musec_status alloc_run(op_args *a)
{
    const size_t bytes = (size_t)(a->c.m * a->c.n) * ms_dtype_bytes(a->c.dtype);
    void        *p     = NULL;
    musec_status st;
    TRY(a->d->ops->alloc(a->d, bytes, &p));
    if ((uintptr_t)p % 64 != 0)
        st = ms_fail(&a->d->error, MUSEC_EDEVICE, "%zu bytes are not aligned to 64", bytes);
done:
    a->d->ops->free(a->d, p);
    a->d->ops->free(a->d, NULL); /* allowed */
    return st;
}

static void upload_operands(op_args *a)
{
    op_add_mat(a, OP_IN, a->c.m, a->c.n)->host = true;
    op_add_mat(a, OP_OUT, a->c.m, a->c.n);
}

static void download_operands(op_args *a)
{
    op_add_mat(a, OP_IN, a->c.m, a->c.n);
    op_add_mat(a, OP_OUT, a->c.m, a->c.n)->host = true;
}

static size_t dense_bytes(const op_args *a)
{
    return (size_t)a->mat[0].elems * ms_dtype_bytes(a->mat[0].mat.dtype);
}

static musec_status upload_run(op_args *a)
{
    return a->d->ops->upload(a->d, a->mat[0].buffer, dense_bytes(a), a->mat[1].buffer);
}

static musec_status download_run(op_args *a)
{
    return a->d->ops->download(a->d, a->mat[0].buffer, dense_bytes(a), a->mat[1].buffer);
}

static musec_status sync_run(op_args *a) { return a->d->ops->sync(a->d); }

static musec_status now_run(op_args *a)
{
    double ms;
    return a->d->ops->now_ms(a->d, &ms);
}

/* ---- reductions, scalars -------------------------------------------------------------------- */

static void reduce_operands(op_args *a)
{
    op_add_mat(a, OP_IN, a->c.m, a->c.n);
    op_add_vec(a, OP_OUT);
}

static musec_status reduce_run(op_args *a) /* all reductions have one signature */
{
    musec_status (*op)(ms_device * d, ms_mat x, ms_vec out);
    memcpy(&op, (const char *)a->d->ops + a->kind->row, sizeof op);
    return op(a->d, a->mat[0].mat, a->vec[0].vec);
}

static musec_status sum_grad(op_args *a, const op_cotangent *g, int by, ms_mat out)
{
    musec_status st; /* g everywhere */
    (void)by;
    TRY(a->d->ops->fill(a->d, 1.0, out));
    TRY(a->d->ops->scale(a->d, ms_each(g->vec[0]), out));
done:
    return st;
}

static musec_status sumsq_grad(op_args *a, const op_cotangent *g, int by, ms_mat out)
{
    musec_status st; /* 2 g x */
    (void)by;
    TRY(a->d->ops->copy(a->d, a->mat[0].mat, out));
    TRY(a->d->ops->scale(a->d, ms_each(g->vec[0]), out));
    TRY(a->d->ops->scale(a->d, ms_const(2.0), out));
done:
    return st;
}

static musec_status trace_grad(op_args *a, const op_cotangent *g, int by, ms_mat out)
{
    musec_status st; /* g I */
    (void)by;
    TRY(a->d->ops->fill(a->d, 0.0, out));
    TRY(a->d->ops->add_diag(a->d, ms_each(g->vec[0]), out));
done:
    return st;
}

static const struct {
    int n_in, n_out;
} programs[] = {
#define X(name, in, out)                              \
    { (int)(sizeof(ms_##name##_in) / sizeof(double)), \
      (int)(sizeof(ms_##name##_out) / sizeof(double)) },
#include "linalg/scalar_list.h"
#undef X
};

static void scalars_operands(op_args *a) /* variant: which program */
{
    for (int i = 0; i < programs[a->c.variant].n_in; i++)
        op_add_vec(a, OP_IN);
    for (int i = 0; i < programs[a->c.variant].n_out; i++)
        op_add_vec(a, OP_OUT);
}

static musec_status scalars_run(op_args *a)
{
    const int  program = a->c.variant, n_in = programs[program].n_in;
    const bool picks   = program == MS_SCALAR_pick_stage || program == MS_SCALAR_pick_ends;
    const bool reduces = program == MS_SCALAR_begin_reduction; /* has a table, too */
    double     table[MS_SCALAR_MAX_TABLE]; /* descending keys of plans, then their rows */
    ms_num     in[MS_SCALAR_MAX_IO];
    ms_vec     out[MS_SCALAR_MAX_IO];
    for (int i = 0; i < MS_SCALAR_MAX_TABLE; i++)
        table[i] = i < MS_POLY_CANDIDATES ? 1.0 - 0.3 * i : i;
    for (int i = 0; i < n_in; i++) /* one is a constant: with a table, the number of plans */
        in[i] = picks && i == 0    ? ms_const(3.0)
                : i == 1 && !picks ? ms_const(0.75)
                                   : ms_each(a->vec[i].vec);
    for (int i = n_in; i < a->n_vecs; i++)
        out[i - n_in] = a->vec[i].vec;
    return a->d->ops->scalars(
        a->d, &(ms_scalar_call){ .program = program,
                                 .table   = table,
                                 .n_table = picks || reduces ? MS_SCALAR_MAX_TABLE : 0,
                                 .in      = in,
                                 .n_in    = n_in,
                                 .out     = out,
                                 .n_out   = programs[program].n_out });
}

/* ---- the table ------------------------------------------------------------------------------- */

const op_kind *op_kind_at(size_t index)
{
    const struct {
        const op_kind *list;
        size_t         n;
    } files[] = { { op_kinds, op_kinds_count },
                  { op_matrix_kinds, op_matrix_kinds_count },
                  { op_element_kinds, op_element_kinds_count },
                  { op_network_kinds, op_network_kinds_count } };
    for (size_t f = 0; f < COUNT(files); f++) {
        if (index < files[f].n) return &files[f].list[index];
        index -= files[f].n;
    }
    return NULL;
}

const op_kind *op_kind_of(const char *name)
{
    for (size_t i = 0; op_kind_at(i) != NULL; i++)
        if (strcmp(op_kind_at(i)->name, name) == 0) return op_kind_at(i);
    return NULL;
}

const op_kind op_kinds[] = {
    { OP_ROW(alloc, 1), .operands = no_operands, .run = alloc_run, .has = op_not_in_half,
      .shapes = OP_SHAPES_MEMORY },
    { OP_ROW(free, 1), .operands = no_operands, .run = alloc_run, .has = op_not_in_half,
      .shapes = OP_SHAPES_MEMORY },
    { OP_ROW(upload, 1), .operands = upload_operands, .run = upload_run, .rounding = op_exact,
      .shapes = OP_SHAPES_MEMORY },
    { OP_ROW(download, 1), .operands = download_operands, .run = download_run, .rounding = op_exact,
      .shapes = OP_SHAPES_MEMORY },
    { OP_ROW(sync, 1), .operands = no_operands, .run = sync_run, .has = op_not_in_half,
      .shapes = OP_SHAPES_MEMORY },
    { OP_ROW(now_ms, 1), .operands = no_operands, .run = now_run, .has = op_not_in_half,
      .shapes = OP_SHAPES_MEMORY },
    { OP_ROW(sum, 1), .operands = reduce_operands, .run = reduce_run, .rounding = sum_rounding,
      .grad = sum_grad, .grad_by = 0x1, .shapes = OP_SHAPES_PLAIN },
    { OP_ROW(sumsq, 1), .operands = reduce_operands, .run = reduce_run, .rounding = sum_rounding,
      .grad = sumsq_grad, .grad_by = 0x1, .shapes = OP_SHAPES_PLAIN },
    { OP_ROW(trace, 1), .operands = reduce_operands, .run = reduce_run, .rounding = sum_rounding,
      .grad = trace_grad, .grad_by = 0x1, .shapes = OP_SHAPES_PLAIN },
    { OP_ROW(absmax, 1), .operands = reduce_operands, .run = reduce_run, .rounding = op_exact,
      .shapes = OP_SHAPES_PLAIN },
    { OP_ROW(count_nonfinite, 1), .operands = reduce_operands, .run = reduce_run,
      .rounding = op_exact, .shapes = OP_SHAPES_PLAIN },
    { OP_ROW(scalars, MS_SCALAR_PROGRAM_COUNT), .operands = scalars_operands, .run = scalars_run,
      .has = op_not_in_half, .rounding = op_library, .shapes = OP_SHAPES_ONE },
};
const size_t op_kinds_count = COUNT(op_kinds);
