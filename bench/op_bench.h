/* op_bench.h - times the ops and the operators, and compares them in the same run. */
#ifndef MS_BENCH_OP_BENCH_H
#define MS_BENCH_OP_BENCH_H

#include <stdio.h>

#include "core/log.h"

typedef struct ms_bench_options {
    const char *device;  /* NULL: the best one */
    const char *filter;  /* only rows whose "section name shape" holds it; NULL: all */
    int         json;    /* one JSON object instead of tables */
    int64_t     repeats; /* rounds; 0: 9, or 3 if quick */
    int         quick;   /* small sizes */
} ms_bench_options;

musec_status ms_bench_ops(const ms_bench_options *opt, ms_log *log, FILE *out, ms_error *error);

#endif
