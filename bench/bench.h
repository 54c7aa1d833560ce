/* bench.h - what the benches share: options, the device and its peak, rows of output. */
#ifndef MS_BENCH_BENCH_H
#define MS_BENCH_BENCH_H

#include <jansson.h>
#include <stdio.h>

#include "core/log.h"
#include "device/device.h"

typedef struct ms_bench_options {
    const char *device;  /* NULL: the best one */
    const char *filter;  /* only rows whose "section name shape" holds it; NULL: all */
    int         json;    /* one JSON object instead of tables */
    int64_t     repeats; /* rounds; 0: 9, or 3 if quick */
    int         quick;   /* small sizes */
    int         all;     /* also what takes long */
    const char *vocab;   /* tokenize: GPT-2's vocabulary; NULL: where it usually is */
    const char *text;    /* tokenize: a file of text; NULL: the built-in corpus */
} ms_bench_options;

typedef struct ms_bench {
    const ms_bench_options *opt;
    ms_log                 *log;
    FILE                   *out;
    ms_device              *d;
    json_t                 *rows; /* NULL unless JSON is wanted */
    int                     rounds;
    double                  peak; /* GFLOP/s in float32 */
} ms_bench;

/* Opens the device, finds its peak, calls `body` and prints what it put. */
musec_status ms_bench_run(const ms_bench_options *opt, ms_log *log, FILE *out,
                          musec_status (*body)(ms_bench *b), ms_error *error);

bool ms_bench_wanted(const ms_bench *b, const char *section, const char *name, const char *shape);
void ms_bench_heading(const ms_bench *b, const char *text);
/* One figure: ratio is against `against`, or none if that is NULL. */
void ms_bench_row(ms_bench *b, const char *section, const char *name, const char *shape, double ms,
                  double gflop_s, double gb_s, double ratio, const char *against);
/* Normal float32 with mean 0 in scratch. */
musec_status ms_bench_random(ms_bench *b, int64_t count, int64_t rows, int64_t cols, double sd,
                             ms_mat *out);

/* c = a b as candidates for ms_time_group: by the BLAS itself, with all its threads, and through
 * the op table. */
typedef struct ms_product {
    ms_mat a, b, c;
} ms_product;
musec_status ms_bench_cblas(ms_device *d, void *product);
musec_status ms_bench_gemm(ms_device *d, void *product);

#endif
