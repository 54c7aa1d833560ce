/* train_bench.h - times a training step and its parts. */
#ifndef MS_BENCH_TRAIN_BENCH_H
#define MS_BENCH_TRAIN_BENCH_H

#include "bench.h"

musec_status ms_bench_train(const ms_bench_options *opt, ms_log *log, FILE *out, ms_error *error);

#endif
