/* op_bench.h - times the ops and the operators, and compares them in the same run. */
#ifndef MS_BENCH_OP_BENCH_H
#define MS_BENCH_OP_BENCH_H

#include "bench.h"

musec_status ms_bench_ops(const ms_bench_options *opt, ms_log *log, FILE *out, ms_error *error);

#endif
