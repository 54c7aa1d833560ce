/* op_network.h - functions of op_attention.c, op_loss.c and op_blend.c for op_network.c. */
#ifndef MS_BENCH_OP_NETWORK_H
#define MS_BENCH_OP_NETWORK_H

#include "op_cases.h"

/* Variants of attention: 0 to 6 have gradients, 7 and 8 have huge logits, the others are timed:
 * documents of 256; a window of 512; then windows of 1024, 1024, 128 and 3456 in documents of 2048,
 * 4096, 4096 and 4096. */
enum { OP_ATTENTION_VARIANTS = 9, OP_ATTENTION_GRADS = 7 };

void         op_attention_operands(op_args *a);
musec_status op_attention_run(op_args *a);
double       op_attention_flops(const op_case *c);
void         op_attention_size(op_args *a);
musec_status op_attention_grad(op_args *a, const op_cotangent *g, int by, ms_mat out);

void         op_attention_grad_operands(op_args *a);
musec_status op_attention_grad_prepare(op_args *a);
musec_status op_attention_grad_run(op_args *a);
double       op_attention_grad_flops(const op_case *c);
void         op_attention_grad_size(op_args *a);

/* Variants of xent: 0 to 4 have gradients. */
enum { OP_XENT_VARIANTS = 9, OP_XENT_GRADS = 5 };

void         op_xent_operands(op_args *a);
musec_status op_xent_run(op_args *a);
void         op_xent_size(op_args *a);
musec_status op_xent_grad(op_args *a, const op_cotangent *g, int by, ms_mat out);

/* Variants of blend: 0 has gradients. */
enum { OP_BLEND_VARIANTS = 3, OP_BLEND_GRAD_VARIANTS = 3 };

void         op_blend_operands(op_args *a);
musec_status op_blend_run(op_args *a);
musec_status op_blend_gradient(op_args *a, const op_cotangent *g, int by, ms_mat out);

void         op_blend_grad_operands(op_args *a);
musec_status op_blend_grad_run(op_args *a);
double       op_blend_grad_rounding(const op_case *c);

void         op_multiply_operands(op_args *a); /* variant 1: in place */
musec_status op_multiply_run(op_args *a);
musec_status op_multiply_grad(op_args *a, const op_cotangent *g, int by, ms_mat out);

void         op_exclude_operands(op_args *a); /* variant 1: in place */
musec_status op_exclude_run(op_args *a);
void         op_exclude_size(op_args *a);
double       op_exclude_rounding(const op_case *c);
musec_status op_exclude_gradient(op_args *a, const op_cotangent *g, int by, ms_mat out);

void         op_exclude_grad_operands(op_args *a);
musec_status op_exclude_grad_run(op_args *a);
void         op_exclude_grad_size(op_args *a);

#endif
