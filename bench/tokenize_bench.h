/* tokenize_bench.h - times GPT-2's tokenizer. */
#ifndef MS_BENCH_TOKENIZE_BENCH_H
#define MS_BENCH_TOKENIZE_BENCH_H

#include "bench.h"

musec_status ms_bench_tokenize(const ms_bench_options *opt, ms_log *log, FILE *out,
                               ms_error *error);

#endif
