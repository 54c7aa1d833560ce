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
    int64_t    *matched; /* counts the rows that the filter lets pass; NULL: nobody asks */
    int         json;    /* one JSON object instead of tables */
    int64_t     repeats; /* rounds; 0: 9, or 3 if quick */
    int         quick;   /* small sizes */
    int         loose;   /* the device need not be deterministic */
    int         all;     /* also what takes long */
    const char *preset;  /* step, train: of the model; NULL: as the bench says */
    const char *run;     /* step, accuracy: a run directory of musec train; NULL: none */
    const char *vocab;   /* tokenize: GPT-2's vocabulary; NULL: where it usually is */
    const char *text;    /* tokenize: a file of text; NULL: the built-in corpus */
} ms_bench_options;

/* What the device reached before the run: the roofs that figures are held against. */
typedef struct ms_bench_peaks {
    double gemm[MUSEC_F16 + 1]; /* GFLOP/s by dtype; 0: it has none */
    double copy;                /* GB/s, read and written */
} ms_bench_peaks;

typedef struct ms_bench {
    const ms_bench_options *opt;
    ms_log                 *log;
    FILE                   *out;
    ms_device              *d;
    json_t                 *rows; /* NULL unless JSON is wanted */
    int                     rounds;
    int                     broken; /* bounds that figures are held to */
    ms_bench_peaks          peaks;
} ms_bench;

typedef struct ms_bench_figure {
    const char *section, *name, *shape;
    double      ms;
    musec_dtype dtype;        /* of the products, whose peak it is held against */
    double      flops, bytes; /* of a run; 0: not counted */
    double      ratio;        /* of its time over that of `against`, or none if that is NULL */
    const char *against;
    double      tokens; /* of a run; 0: not counted */
} ms_bench_figure;

/* Opens the device, calls `body` and prints what it put. */
musec_status ms_bench_run(const ms_bench_options *opt, ms_log *log, FILE *out,
                          musec_status (*body)(ms_bench *b), ms_error *error);
/* Finds the peaks, which takes seconds, and tells them: a body that times calls it once, when what
 * it was asked for is known to be there. */
musec_status ms_bench_begin(ms_bench *b);

bool ms_bench_wanted(const ms_bench *b, const char *section, const char *name, const char *shape);
void ms_bench_heading(const ms_bench *b, const char *text);
void ms_bench_row(ms_bench *b, const ms_bench_figure *f);
void ms_bench_memory(ms_bench *b, const char *section, const char *name, const char *shape,
                     double bytes);
void ms_bench_count(ms_bench *b, const char *section, const char *name, const char *shape,
                    int64_t count);
/* Normal with mean 0 in scratch. */
musec_status ms_bench_random(ms_bench *b, musec_dtype dtype, int64_t count, int64_t rows,
                             int64_t cols, double sd, ms_mat *out);

/* c = a b as candidates for ms_time_group: by the BLAS itself, with all its threads, and through
 * the op table. */
typedef struct ms_bench_product {
    ms_mat a, b, c;
} ms_bench_product;
musec_status ms_bench_cblas(ms_device *d, void *product);
musec_status ms_bench_gemm(ms_device *d, void *product);

#endif
