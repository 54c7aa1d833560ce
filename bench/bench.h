/* bench.h - the benches, and what they share: options, the device and its peaks, rows of output. */
#ifndef MS_BENCH_BENCH_H
#define MS_BENCH_BENCH_H

#include <jansson.h>
#include <stdio.h>

#include "core/log.h"
#include "device/device.h"

typedef struct ms_bench_options {
    const char *device;  /* NULL: the best one */
    const char *filter;  /* only rows whose "section name shape" contains it; NULL: all */
    int64_t    *matched; /* counts the rows that pass the filter, unless NULL */
    int         json;    /* one JSON object instead of tables */
    int64_t     repeats; /* rounds; 0: 9, or 3 if quick */
    int         quick;   /* small sizes */
    int         loose;   /* allow nondeterministic operations */
    int         all;     /* also the slow rows */
    int         ask;     /* train: time the rows that lines of the standard input name */
    const char *preset;  /* step, train: the model; NULL: the bench's default */
    const char *run;     /* step, accuracy: a run directory of musec train; NULL: none */
    const char *vocab;   /* tokenize: GPT-2's vocabulary; NULL: in its usual place */
    const char *text;    /* tokenize: a file of text; NULL: the built-in corpus */
} ms_bench_options;

/* The peaks of the device, measured before the rows: the roofs of a roofline model. */
typedef struct ms_bench_peaks {
    double gemm[MUSEC_F16 + 1]; /* GFLOP/s by dtype; 0: not supported */
    double copy;                /* GB/s, read and written */
} ms_bench_peaks;

typedef struct ms_bench {
    const ms_bench_options *opt;
    ms_log                 *log;
    FILE                   *out;
    ms_device              *d;
    json_t                 *rows; /* NULL without --json */
    int                     rounds;
    int                     broken; /* bounds that were exceeded */
    ms_bench_peaks          peaks;
} ms_bench;

typedef struct ms_bench_figure {
    const char *section, *name, *shape;
    double      ms;
    musec_dtype dtype;        /* of the products; selects the peak */
    double      flops, bytes; /* per run; 0: not counted */
    double      ratio;        /* to the row `against`; none if that is NULL */
    const char *against;
    double      tokens; /* per run; 0: not counted */
} ms_bench_figure;

/* Opens the device, calls `body` and prints its rows. */
musec_status ms_bench_run(const ms_bench_options *opt, ms_log *log, FILE *out,
                          musec_status (*body)(ms_bench *b), ms_error *error);
/* Measures the peaks, which takes seconds, and prints them.  A body that times calls it once, after
 * it has checked its arguments. */
musec_status ms_bench_begin(ms_bench *b);

bool ms_bench_wanted(const ms_bench *b, const char *section, const char *name, const char *shape);
void ms_bench_heading(const ms_bench *b, const char *text);
void ms_bench_row(ms_bench *b, const ms_bench_figure *f);
void ms_bench_memory(ms_bench *b, const char *section, const char *name, const char *shape,
                     double bytes);
void ms_bench_count(ms_bench *b, const char *section, const char *name, const char *shape,
                    int64_t count);
/* A matrix in scratch with normal entries of mean 0. */
musec_status ms_bench_random(ms_bench *b, musec_dtype dtype, int64_t count, int64_t rows,
                             int64_t cols, double sd, ms_mat *out);

/* Candidates for ms_time_group that compute c = a b: by the BLAS with all its threads, and through
 * the op table. */
typedef struct ms_bench_product {
    ms_mat a, b, c;
} ms_bench_product;
musec_status ms_bench_cblas(ms_device *d, void *product);
musec_status ms_bench_gemm(ms_device *d, void *product);

/* The benches of `musec bench`. */
typedef musec_status ms_bench_main(const ms_bench_options *opt, ms_log *log, FILE *out,
                                   ms_error *error);
ms_bench_main        ms_bench_ops;      /* op_bench.c: the ops and the operators */
ms_bench_main        ms_bench_step;     /* step_bench.c: one step of each optimizer */
ms_bench_main        ms_bench_train;    /* train_bench.c: a training step and its parts */
ms_bench_main        ms_bench_tokenize; /* tokenize_bench.c: GPT-2's tokenizer */
ms_bench_main ms_bench_accuracy; /* accuracy_bench.c: the operators' errors and their bounds */

/* op_product.c: products of 16-bit operands with epilogues beside the plain product of the same
 * size, r x r x k, `batch` at a time.  Does nothing where the device has no float16. */
musec_status ms_bench_epilogues(ms_bench *b, int64_t batch, int64_t r, int64_t k);

#endif
