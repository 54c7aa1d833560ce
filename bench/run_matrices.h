/* run_matrices.h - the matrices of a real run: weights, gradients and momentum of a checkpoint.
 *
 * The newest checkpoint of a run of `musec train` is loaded, model and optimizer; the gradients are
 * those of the steps that would follow it, each by all micro-batches on the run's own data, at the
 * weights of the checkpoint.  Nothing is written, in the run directory or elsewhere. */
#ifndef MS_BENCH_RUN_MATRICES_H
#define MS_BENCH_RUN_MATRICES_H

#include "bench.h"

enum { MS_RUN_SETS = 3 };

typedef struct ms_run_matrix {
    char       name[48];
    musec_role role;
    musec_view weight, copy; /* the model's own; copy.data NULL: none */
    ms_mat     momentum;     /* as an average, whatever form the run keeps it in; data NULL: none */
    double     top;          /* its largest |entry| */
} ms_run_matrix;

typedef struct ms_run_matrices { /* { 0 } is closed */
    struct ms_train *train;
    ms_run_matrix   *list; /* (n) */
    musec_view      *grads[MS_RUN_SETS];
    int64_t          n, elems;
    int              sets;
    int64_t          step; /* of the checkpoint */
    const char      *optimizer;
    char             threshold[32]; /* as the run's config says it */
    double           beta;          /* at that step */
} ms_run_matrices;

/* Room for n matrices. */
musec_status ms_run_matrices_make(ms_error *e, int64_t n, int sets, ms_run_matrices *out);
/* sets: of gradients, at most MS_RUN_SETS.  Words of a failure are in the device's error. */
musec_status ms_run_matrices_open(ms_bench *b, const char *dir, int sets, ms_run_matrices *out);
void         ms_run_matrices_close(ms_run_matrices *r);
/* What an optimizer clips next of matrix i: (1 - beta) M + beta G, or, where there is no momentum,
 * the mean of the gradients. */
musec_status ms_run_proposal(ms_device *d, const ms_run_matrices *r, int64_t i, ms_mat out);

#endif
