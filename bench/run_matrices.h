/* run_matrices.h - the matrices of a real run: weights, gradients and momentum of a checkpoint.
 *
 * The newest checkpoint of a run of `musec train` is loaded into a model and an optimizer.  The
 * gradients are those of the next steps, over all micro-batches of the run's own data, at the
 * weights of the checkpoint.  Nothing is written. */
#ifndef MS_BENCH_RUN_MATRICES_H
#define MS_BENCH_RUN_MATRICES_H

#include "bench.h"

enum { MS_RUN_SETS = 3 };

typedef struct ms_run_matrix {
    char       name[48];
    musec_role role;
    musec_view weight,
        copy;        /* the model's own; copy is the compute copy, without data if there is none */
    ms_mat momentum; /* as a moving average, whatever form the run stores; data NULL: none */
    double absmax;   /* of momentum */
} ms_run_matrix;

typedef struct ms_run_matrices { /* { 0 } is closed */
    struct ms_train *train;
    ms_run_matrix   *list; /* (n) */
    musec_view      *grads[MS_RUN_SETS];
    int64_t          n, elems;
    int              sets;
    int64_t          step; /* of the checkpoint */
    const char      *optimizer;
    char             threshold[32]; /* as in the run's config */
    double           beta;          /* at that step */
} ms_run_matrices;

/* Allocates lists for n matrices. */
musec_status ms_run_matrices_make(ms_error *e, int64_t n, int sets, ms_run_matrices *out);
/* Reads `sets` sets of gradients, at most MS_RUN_SETS.  The message of a failure is the
 * device's. */
musec_status ms_run_matrices_open(ms_bench *b, const char *dir, int sets, ms_run_matrices *out);
void         ms_run_matrices_close(ms_run_matrices *r);
/* step_bench.c: the matrices of the run or the preset that the options name, and a description. */
musec_status ms_bench_matrices(ms_bench *b, ms_run_matrices *m, char *shape, size_t bytes);
/* What an optimizer clips next of matrix i: (1 - beta) M + beta G, or the mean of the gradients
 * where there is no momentum. */
musec_status ms_run_proposal(ms_device *d, const ms_run_matrices *r, int64_t i, ms_mat out);

#endif
