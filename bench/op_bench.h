/* op_bench.h - times the ops and the operators, and compares them in the same run. */
#ifndef MS_BENCH_OP_BENCH_H
#define MS_BENCH_OP_BENCH_H

#include "bench.h"

/* op_product.c: products of 16-bit operands and what rides on them against the full product of the
 * same size, r x r x k, `batch` at a time; nothing where the device has no float16. */
musec_status ms_bench_epilogues(ms_bench *b, int64_t batch, int64_t r, int64_t k);

musec_status ms_bench_ops(const ms_bench_options *opt, ms_log *log, FILE *out, ms_error *error);

#endif
