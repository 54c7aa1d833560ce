/* op_cases.h - one list of cases for every op of the device table.
 *
 * device_ops_test.c checks their values and gradients on every device, and op_bench.c times them.
 * Neither knows an op by name: a row of the table (op_kinds.c) has the operands of an op, its call,
 * its error bound and its gradient.  To run a case:
 *
 *     op_args a;
 *     op_setup(&a, d, &cases[i], 0);   // device memory, random inputs
 *     op_run(&a);                      // one call of the op
 *     op_bytes(&a), op_flops(&a);      // what that call moves and computes
 *     op_teardown(&a);
 *
 * Every matrix operand has its own buffer, with the matrices of the stack in the layout of the
 * case. Memory outside the matrices, and outputs that an op must not read, hold a NaN of special
 * bits: a stray read shows as NaN, a stray write as a changed bit.  Ids are surrounded by numbers
 * that are far out of range. */
#ifndef MS_BENCH_OP_CASES_H
#define MS_BENCH_OP_CASES_H

#include <stddef.h>

#include "device/device.h"

enum { OP_MATS = 10, OP_VECS = 32, OP_IDS = 2 };

typedef struct op_case {
    const char *op;      /* the row's name in ms_device_ops */
    int64_t     m, n, k; /* sizes, described in op_kinds.c */
    int64_t     count;
    musec_dtype dtype;
    int64_t     pad; /* unused elements after each row and matrix and before the first; 0: dense */
    unsigned    trans;   /* bit i: matrix operand i is stored transposed */
    bool        fused;   /* heads lie side by side in the rows of a buffer three times as wide */
    int         variant; /* coefficients, absent operands, in place: op_kinds.c */
    uint64_t    seed;    /* of the values */
    bool        timing;  /* of a realistic size: to be timed, with values that the device draws */
    bool        slow;    /* to be timed only where everything is */
    unsigned    lists;   /* timing, bit i: operand i is given as a list of its matrices */
} op_case;

/* All cases, small ones first; malloc'ed, NULL if there is no memory. */
op_case *op_cases(size_t *n);
/* The cases to be timed on a device, allocated in the same way. */
op_case *op_timings(const ms_device *d, size_t *n);
/* "gemm 17x33x9 f32, 5 matrices, variant 1, trans 3, pad 3" */
void op_case_name(const op_case *c, char *text, size_t bytes);
/* Must its output, operand 1, be exactly symmetric? */
bool op_is_symmetric(const op_case *c);
/* Does the device have all dtypes of the case's operands? */
bool op_fits(const ms_device *d, const op_case *c);

typedef enum op_role { OP_IN, OP_OUT, OP_INOUT } op_role;

typedef enum op_make {                /* the values of an input */
                       OP_RANDOM,     /* uniform in (-1, 1) */
                       OP_POSITIVE,   /* uniform in (0.01, 1): normal numbers even in 16 bits */
                       OP_SYMMETRIC,  /* the same, mirrored */
                       OP_LOWER,      /* the same, with NaN in place of its strict upper triangle */
                       OP_POLYNOMIAL, /* 2 I - X / 2 of the symmetric operand 0 */
                       OP_HUGE,       /* uniform in (-1e4, 1e4) */
} op_make;

typedef struct op_mat {
    op_role role;
    ms_mat  mat; /* the operand of the call */
    op_make make;
    bool    host;   /* in host memory, for upload and download */
    bool    absent; /* data is NULL in the call */
    bool    row;    /* a row of values: never stored transposed */
    bool    basis;  /* singular or eigenvectors: unique up to a sign, so not compared */
    bool    head;   /* an operand that lies in a fused buffer if the case is fused */
    bool    column; /* one matrix for the stack: column b belongs to matrix b */
    bool    aside;  /* an output that gradients do not start from */
    int     like;   /* the operand with which it shares its memory, or -1 */
    int64_t used;   /* rows that a run reads or writes; 0: all */
    int64_t elems;  /* of the buffer */
    int64_t first;  /* where the first matrix begins in it */
    void   *buffer; /* device memory */
    void   *image;  /* host memory: what op_reset puts there; NULL if the case is timed */

    ms_mat_ptr *ptrs; /* host memory, of a list */
} op_mat;

struct op_args;

typedef struct op_vec {
    op_role role;
    ms_vec  vec;
    bool    negative; /* its numbers are negative, not positive */
    bool    aside;    /* an output that gradients do not start from */
    double *image;    /* host memory, (count) */
} op_vec;

typedef struct op_ids { /* an input, surrounded by numbers that are no valid ids or rows */
    ms_ids ids;
    int32_t (*at)(const struct op_args *a, int64_t i);
    int64_t  elems, first; /* of the buffer, and where the ids begin in it */
    void    *buffer;       /* device memory */
    int32_t *image;        /* host memory, (elems) */
} op_ids;

struct op_kind;

typedef struct op_args {
    ms_device            *d;
    op_case               c;
    const struct op_kind *kind;
    unsigned              how;
    op_mat                mat[OP_MATS];
    op_vec                vec[OP_VECS];
    op_ids                ids[OP_IDS];
    int                   n_mats, n_vecs, n_ids;
} op_args;

enum {
    OP_AS_F64 = 1, /* store the same values as float64, whatever the operands' dtypes */
    OP_ABSOLUTE =
        2, /* absolute values of inputs and coefficients, to which rounding errors are relative */
};

musec_status op_setup(op_args *a, ms_device *d, const op_case *c, unsigned how);
musec_status op_reset(op_args *a); /* all operands as after op_setup */
musec_status op_run(op_args *a);
void         op_teardown(op_args *a);
double       op_bytes(const op_args *a); /* read and written by one run, each operand once */
double       op_flops(const op_args *a);

/* An image or a downloaded buffer of operand i as a matrix in host memory. */
ms_mat       op_host_view(const op_args *a, int i, void *image);
musec_status op_download(const op_args *a, int i, void *image); /* the whole buffer: elems */
ms_ids       op_host_ids(const op_args *a, int i);              /* of the image */
double       op_rounded(double value, musec_dtype dtype);
/* The operands of matrix b: same memory, count 1.  They must not be torn down. */
op_args op_slice(const op_args *a, int64_t b);

/* The gradient of  sum <g, output>  over the outputs that have one (data not NULL). */
typedef struct op_cotangent {
    ms_mat mat[OP_MATS];
    ms_vec vec[OP_VECS];
} op_cotangent;

typedef struct op_kind {
    const char *name;
    size_t      row; /* its offset in ms_device_ops */
    void (*operands)(op_args *a);
    /* NULL, or computes inputs from others, in the images in host memory */
    musec_status (*prepare)(op_args *a);
    musec_status (*run)(op_args *a);
    double (*flops)(const op_case *c); /* of one matrix; NULL: not counted */
    bool (*has)(const op_case *c);     /* does the case exist?  NULL: in every dtype */
    /* |got - want| <= rounding(c) eps |op|, where |op| is the op on absolute values and eps that of
     * the arithmetic: of the output's dtype, or of float32 if that has 16 bits; 0: equal to the
     * rounded result of `ref`.  NULL: nothing to compare.  Rounding 16-bit outputs and intermediate
     * results adds `stored` times their eps of |op|; 0 means half of it. */
    double (*rounding)(const op_case *c);
    double stored;
    /* NULL, or computes |op| if absolute values do not give it: writes it to the outputs, which are
     * float64 and in host memory.  `bounded`: it writes the bound itself. */
    void (*size)(op_args *a);
    bool bounded;
    /* the gradient of `sum <g, output>` by operand `by`, to out, from the operands after a run */
    musec_status (*grad)(op_args *a, const op_cotangent *g, int by, ms_mat out);
    unsigned grad_by;      /* bit i: by operand i */
    int      grad_variant; /* the first variant that has these gradients */
    int      more_grads;   /* the number of variants after it that have them */
    int      shapes;       /* a list of sizes in op_cases.c */
    int      variants;     /* 0 .. variants - 1 */
    int      stacks;       /* a list of layouts in op_cases.c */
    bool     by_stack;     /* the result of a matrix depends on the stack that it is in */
} op_kind;

enum {
    OP_STACKS_ANY,
    OP_STACKS_UPRIGHT, /* not transposed */
    OP_STACKS_HEADS,   /* not transposed; matrices may interleave (fused) */
    OP_STACKS_ONE,     /* not transposed; a single matrix */
};

enum {
    OP_SHAPES_PLAIN,
    OP_SHAPES_PRODUCT,
    OP_SHAPES_SQUARE,
    OP_SHAPES_SVD,
    OP_SHAPES_ONE,    /* 1 x 1: the op has no matrix */
    OP_SHAPES_MEMORY, /* dense, a single matrix */
    OP_SHAPES_EMBED,
    OP_SHAPES_LOSS,
    OP_SHAPES_HEADS,     /* an even number of columns */
    OP_SHAPES_ATTENTION, /* the same, small; the larger ones are listed one by one */
};

/* One per row of ms_device_ops: memory, reductions and scalars; products and decompositions;
 * elements, optimizers and random numbers; networks. */
extern const op_kind op_kinds[], op_matrix_kinds[], op_element_kinds[], op_network_kinds[];
extern const size_t  op_kinds_count, op_matrix_kinds_count, op_element_kinds_count,
    op_network_kinds_count;
const op_kind *op_kind_at(size_t index);     /* 0, 1, ... until NULL */
const op_kind *op_kind_of(const char *name); /* NULL: there is none */

/* ---- for the files of rows ------------------------------------------------------------------- */

#define OP_ROW(op, n_variants) \
    .name = #op, .row = offsetof(ms_device_ops, op), .variants = (n_variants)

static inline bool op_is_half(musec_dtype dtype) { return ms_dtype_bytes(dtype) == 2; }

static inline bool op_not_in_half(const op_case *c) { return !op_is_half(c->dtype); }

/* A coefficient of the case, or its absolute value where magnitudes are computed. */
double op_coef(const op_args *a, double x);

/* rounding: factors of eps; u = eps/2 is the error of one operation */
double op_exact(const op_case *c);   /* 0 */
double op_few(const op_case *c);     /* coefficient rounded, products, sums: at most 8 u */
double op_library(const op_case *c); /* log, cos, sqrt, pow of different libraries */

static inline op_mat *op_wide(op_mat *o) /* an operand in the accumulator dtype */
{
    o->mat.dtype = ms_dtype_accum(o->mat.dtype);
    return o;
}

/* To declare operands in order. */
op_mat *op_add_mat(op_args *a, op_role role, int64_t rows, int64_t cols);
op_vec *op_add_vec(op_args *a, op_role role);
op_ids *op_add_ids(op_args *a, int64_t count, int32_t (*at)(const op_args *a, int64_t i));

#endif
