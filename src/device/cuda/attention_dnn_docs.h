/* attention_dnn_docs.h - kernels of our own around cuDNN's attention. */
#ifndef MS_DEVICE_CUDA_ATTENTION_DNN_DOCS_H
#define MS_DEVICE_CUDA_ATTENTION_DNN_DOCS_H

#include "device/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MS_DNN_OFFSETS = 9, MS_DNN_PARTIALS = 512 };

/* A pack of documents as a batch of sequences; all pointers are to device memory. */
typedef struct ms_dnn_docs {
    const int32_t *doc; /* (rows) as in ms_attn */
    int64_t        rows, batch;
    int32_t       *start;  /* (batch + 1) workspace */
    int32_t       *length; /* (batch) rows of each; 0 beyond the last document */
    int            n_offsets;
    int64_t        ld[MS_DNN_OFFSETS];
    int64_t       *offset[MS_DNN_OFFSETS]; /* (batch + 1) each: ld times the first row */
} ms_dnn_docs;

musec_status ms_dnn_docs_find(ms_device *d, ms_dnn_docs docs);

/* From max and sum, (rows, heads): lse(h, i) <- max + log(sum), and max_logit[h] <- its maximum
 * with all of head h; NaN stays.  partial: a workspace of MS_DNN_PARTIALS numbers for each head. */
musec_status ms_dnn_lse_from_rows(ms_device *d, const float *max, const float *sum, ms_mat lse,
                                  double *partial, ms_vec max_logit);
/* out, (rows, heads) <- lse. */
musec_status ms_dnn_lse_to_rows(ms_device *d, ms_mat lse, float *out);

#ifdef __cplusplus
}
#endif
#endif
