/* op_updates.h - what the rows of op_kinds.c need for the ops of optimizers. */
#ifndef MS_BENCH_OP_UPDATES_H
#define MS_BENCH_OP_UPDATES_H

#include "op_cases.h"

void         op_sign_operands(op_args *a);
musec_status op_sign_run(op_args *a);

void         op_moments_operands(op_args *a);
musec_status op_moments_run(op_args *a);
double       op_moments_rounding(const op_case *c);

void         op_decay_add_operands(op_args *a);
musec_status op_decay_add_run(op_args *a);
musec_status op_decay_add_grad(op_args *a, const op_cotangent *g, int by, ms_mat out);

#endif
