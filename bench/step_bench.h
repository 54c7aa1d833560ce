/* step_bench.h - times one step of the optimizers over all matrices of a model. */
#ifndef MS_BENCH_STEP_BENCH_H
#define MS_BENCH_STEP_BENCH_H

#include "bench.h"
#include "run_matrices.h"

musec_status ms_bench_step(const ms_bench_options *opt, ms_log *log, FILE *out, ms_error *error);

/* The matrices of the run or the preset that the options name, and what they are in words. */
musec_status ms_bench_matrices(ms_bench *b, ms_run_matrices *m, char *shape, size_t bytes);

#endif
