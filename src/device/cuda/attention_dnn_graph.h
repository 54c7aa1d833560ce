/* attention_dnn_graph.h - attention as a graph of cuDNN operations, and plans made from it.
 *
 * A pack of documents is a batch of sequences that lie one after another: `batch` of them at most,
 * each `longest` rows at most.  A tensor (batch, heads, longest, head) says how rows and heads are
 * strided; where each sequence begins, in elements, and its length are read on the device, so a
 * plan fits all packs within its bounds. */
#ifndef MS_DEVICE_CUDA_ATTENTION_DNN_GRAPH_H
#define MS_DEVICE_CUDA_ATTENTION_DNN_GRAPH_H

#include "device/cuda/cuda.h"

#ifdef MS_HAVE_CUDNN

#include <cudnn.h>

typedef struct ms_dnn_api { /* the functions of the opened library */
    void *library;
    size_t (*version)(void);
    const char *(*error_string)(cudnnStatus_t code);
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

/* The version of cached plans.  Raise it with every change of the graphs or of the tensors below,
 * else a cached plan of another graph would be taken for one of this. */
enum { MS_DNN_GRAPH = 1 };

/* The tensors that have data: indices into `data` of ms_dnn_plan_run. */
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
    MS_DNN_OFFSET_ROW = MS_DNN_OFFSET + MS_DNN_SIDES, /* in tensors (rows, heads) */

    MS_DNN_SCALE, /* host memory, float32 */
    MS_DNN_ONE,
    MS_DNN_BOUND,   /* window + 1 */
    MS_DNN_OUTSIDE, /* -infinity, the logit of masked pairs */
    MS_DNN_OUTSIDE_CAUSAL,
    MS_DNN_OUTSIDE_WINDOW,
    MS_DNN_TENSORS
};

/* What a plan depends on.  All fields have one type, so that shapes may be compared as bytes. */
typedef struct ms_dnn_shape {
    int64_t dtype; /* musec_dtype */
    int64_t batch, longest, heads, head;
    int64_t backward, windowed; /* 1 or 0 */
    struct {
        int64_t ld, stride; /* elements from row to row, from head to head */
    } side[MS_DNN_SIDES];
} ms_dnn_shape;

/* Returns the side whose offsets `side` uses: a gradient uses those of its operand, if it has the
 * same strides. */
int ms_dnn_offset_of(const ms_dnn_shape *shape, int side);

typedef struct ms_dnn_plan ms_dnn_plan;

/* What a failure of cuDNN is: of memory, of the device, or MUSEC_ENOTSUP for all others. */
musec_status ms_dnn_failure_of(cudnnStatus_t code);

/* *out is NULL on failure; the message is cuDNN's.  After MUSEC_ENOMEM it may succeed later.
 * text: the same plan, serialised before by this cuDNN for this chip, which saves time; or NULL. */
musec_status ms_dnn_plan_make(ms_error *e, const ms_dnn_api *api, cudnnHandle_t handle,
                              const ms_dnn_shape *shape, const char *text, size_t bytes,
                              ms_dnn_plan **out);
/* Serialises the plan.  *text is to be freed in any case; false: cuDNN does not give it. */
bool   ms_dnn_plan_text(const ms_dnn_plan *plan, char **text, size_t *bytes);
void   ms_dnn_plan_free(ms_dnn_plan *plan);            /* accepts NULL */
size_t ms_dnn_plan_workspace(const ms_dnn_plan *plan); /* bytes */

/* data[MS_DNN_TENSORS]: entries that the plan does not use are not read. */
musec_status ms_dnn_plan_run(ms_error *e, const ms_dnn_plan *plan, cudnnHandle_t handle,
                             void *const *data, void *workspace);

#endif
#endif
