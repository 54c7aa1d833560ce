/* op_updates.h - functions of op_updates.c for the rows of op_element.c. */
#ifndef MS_BENCH_OP_UPDATES_H
#define MS_BENCH_OP_UPDATES_H

#include "op_cases.h"

void         op_moments_operands(op_args *a);
musec_status op_moments_run(op_args *a);
double       op_moments_rounding(const op_case *c);
/* In 16 bits u is computed from the stored state: half of eps for m and slow, a quarter for the
 * root of v, and half for u itself. */
#define OP_MOMENTS_STORED 1.25

/* Variants from 4 on have a copy, except the last; u of the last three has 16 bits. */
enum { OP_DECAY_ADD_VARIANTS = 11 };

void         op_decay_add_operands(op_args *a);
musec_status op_decay_add_run(op_args *a);
musec_status op_decay_add_grad(op_args *a, const op_cotangent *g, int by, ms_mat out);

#endif
