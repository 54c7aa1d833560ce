/* attention_dnn_graph.h - attention as cuDNN is told of it: a graph of operations, made a plan.
 *
 * A pack of documents is a batch of sequences that lie one after another: `batch` of them at most,
 * each `longest` rows at most.  A tensor (batch, heads, longest, head) says how rows and heads are
 * strided; where each sequence begins is read on the device, from offsets in elements.  How long
 * it is, too, so a plan fits all packs within its bounds. */
#ifndef MS_DEVICE_CUDA_ATTENTION_DNN_GRAPH_H
#define MS_DEVICE_CUDA_ATTENTION_DNN_GRAPH_H

#include "device/cuda/cuda.h"

#ifdef MS_HAVE_CUDNN

#include <cudnn.h>

typedef struct ms_dnn_api { /* cuDNN, opened */
    void *library;
    size_t (*version)(void);
    const char *(*error_words)(cudnnStatus_t code);
    void (*last_error)(char *text, size_t bytes);
    cudnnStatus_t (*create)(cudnnHandle_t *handle);
    cudnnStatus_t (*destroy)(cudnnHandle_t handle);
    cudnnStatus_t (*set_stream)(cudnnHandle_t handle, cudaStream_t stream);
    cudnnStatus_t (*make)(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *out);
    cudnnStatus_t (*set)(cudnnBackendDescriptor_t to, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t n, const void *values);
    cudnnStatus_t (*get)(cudnnBackendDescriptor_t from, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t capacity, int64_t *n,
                         void *values);
    cudnnStatus_t (*finalize)(cudnnBackendDescriptor_t what);
    cudnnStatus_t (*execute)(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                             cudnnBackendDescriptor_t pack);
    cudnnStatus_t (*release)(cudnnBackendDescriptor_t what);
} ms_dnn_api;

/* Plans outlive the program in files.  To be raised by one with every change of the graphs or of
 * the places below: a plan by another graph would be taken for one by this. */
enum { MS_DNN_GRAPH = 1 };

/* The tensors that have data, which is given to ms_dnn_plan_run at these places. */
enum {
    MS_DNN_Q,
    MS_DNN_K,
    MS_DNN_V,
    MS_DNN_OUT,
    MS_DNN_DOUT,
    MS_DNN_DQ,
    MS_DNN_DK,
    MS_DNN_DV,
    MS_DNN_SIDES, /* those above are strided as ms_dnn_shape says, in 16 bits */

    /* float32, (rows, heads).  Forward: a row's largest logit and the sum of exp(logit - the
     * largest).  Backward: its logsumexp and <dout, out> */
    MS_DNN_MAX = MS_DNN_SIDES,
    MS_DNN_SUM,
    MS_DNN_LSE,
    MS_DNN_DELTA,
    MS_DNN_DQ_SUM, /* float32, strided as dq */

    MS_DNN_LENGTH, /* int32, (batch): rows of each sequence */
    /* int64, (batch + 1): where each begins in the side of the same number, in elements */
    MS_DNN_OFFSET,
    MS_DNN_OFFSET_ROW = MS_DNN_OFFSET + MS_DNN_SIDES, /* in what is (rows, heads) */

    MS_DNN_SCALE, /* host memory, float32 */
    MS_DNN_ONE,
    MS_DNN_BOUND,   /* window + 1 */
    MS_DNN_OUTSIDE, /* -infinity, the logit of what is not seen */
    MS_DNN_OUTSIDE_CAUSAL,
    MS_DNN_OUTSIDE_WINDOW,
    MS_DNN_TENSORS
};

/* A plan depends on this.  All fields are of one type, so that shapes may be compared as bytes. */
typedef struct ms_dnn_shape {
    int64_t dtype; /* musec_dtype */
    int64_t batch, longest, heads, head;
    int64_t backward, windowed; /* 1 or 0 */
    struct {
        int64_t ld, stride; /* elements from row to row, from head to head */
    } side[MS_DNN_SIDES];
} ms_dnn_shape;

/* Returns whose offsets a side has: a gradient has those of its side, if it is strided as that
 * is. */
int ms_dnn_offset_of(const ms_dnn_shape *shape, int side);

typedef struct ms_dnn_plan ms_dnn_plan;

/* *out is NULL on failure; the words are cuDNN's.  MUSEC_ENOMEM: it may be possible later.
 * text: of the same plan, made by this cuDNN for this chip before, which saves time; or NULL. */
musec_status ms_dnn_plan_make(ms_error *e, const ms_dnn_api *api, cudnnHandle_t handle,
                              const ms_dnn_shape *shape, const char *text, size_t bytes,
                              ms_dnn_plan **out);
/* Gives what the plan can be made from again, to be freed in any case; false: cuDNN does not
 * say. */
bool   ms_dnn_plan_text(const ms_dnn_plan *plan, char **text, size_t *bytes);
void   ms_dnn_plan_free(ms_dnn_plan *plan);            /* accepts NULL */
size_t ms_dnn_plan_workspace(const ms_dnn_plan *plan); /* bytes */

/* data[MS_DNN_TENSORS]: those that the plan does not have are not read. */
musec_status ms_dnn_plan_run(ms_error *e, const ms_dnn_plan *plan, cudnnHandle_t handle,
                             void *const *data, void *workspace);

#endif
#endif
