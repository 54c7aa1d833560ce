/* accuracy_bench.h - how far the operators are from their maps in float64, and how far they may
 * be. */
#ifndef MS_BENCH_ACCURACY_BENCH_H
#define MS_BENCH_ACCURACY_BENCH_H

#include "bench.h"

musec_status ms_bench_accuracy(const ms_bench_options *opt, ms_log *log, FILE *out,
                               ms_error *error);

#endif
