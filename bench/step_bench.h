/* step_bench.h - times one step of the optimizers over all matrices of a model. */
#ifndef MS_BENCH_STEP_BENCH_H
#define MS_BENCH_STEP_BENCH_H

#include "bench.h"

musec_status ms_bench_step(const ms_bench_options *opt, ms_log *log, FILE *out, ms_error *error);

#endif
