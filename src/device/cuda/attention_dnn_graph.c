/* attention_dnn_graph.c - attention as a graph of cuDNN operations, and plans made from it.
 *
 * cuDNN's engines recognise attention as a pattern of small operations (S: logits, (batch, heads,
 * longest, longest), a virtual tensor without memory):
 *     S = Q K^T scale, masked: pairs outside the sequence, after the query or before its window
 *         become -infinity, by index tensors and a selection,
 *     M = max S,  E = exp(S - M),  Z = sum E,  P = E / Z,  out = P V;  lse = M + log Z
 * and backward, with lse instead of M and log Z:
 *     D = sum dout out,  P = exp(S - lse),  dV = P^T dout,
 *     dS = P (dout V^T - D) scale,  dK = dS^T Q,  dQ = dS K summed in float32, then rounded.
 * K is described as K^T, and V backward as V^T: the same memory with strides exchanged.
 *
 * Sums of dQ are added in the order in which blocks finish: backward is not deterministic. */
#include "device/cuda/attention_dnn_graph.h"

#ifdef MS_HAVE_CUDNN

#include <stdlib.h>
#include <string.h>

enum { DIMS = 4, OPS = 64, DESCRIPTORS = 256, FIRST_ID = 1, FIRST_VIRTUAL_ID = 1000, CONFIGS = 16 };
enum { TEXT_MAX = 16 << 20 }; /* bytes of a serialised plan */

typedef cudnnBackendDescriptor_t descriptor;

struct ms_dnn_plan {
    const ms_dnn_api *api;
    descriptor        made[DESCRIPTORS]; /* all descriptors of the plan, in order */
    int               n_made;
    descriptor        plan;
    int64_t           workspace;
    bool              has[MS_DNN_TENSORS];
};

/* A graph under construction.  After a failure, named by `what`, further calls do nothing. */
typedef struct graph {
    const ms_dnn_api   *api;
    const ms_dnn_shape *shape;
    ms_dnn_plan        *to;
    descriptor          tensor[MS_DNN_TENSORS]; /* NULL: not yet */
    descriptor          ops[OPS];
    int                 n_ops;
    int64_t             next_id;
    cudnnStatus_t       code;
    const char         *what;
    char                message[512];
} graph;

/* ---- descriptors ----------------------------------------------------------------------------- */

static bool went_well(graph *g, cudnnStatus_t code, const char *what)
{
    if (g->code == CUDNN_STATUS_SUCCESS && code != CUDNN_STATUS_SUCCESS) {
        g->code = code;
        g->what = what;
        g->api->last_error(g->message, sizeof g->message);
    }
    return g->code == CUDNN_STATUS_SUCCESS;
}

static descriptor make(graph *g, cudnnBackendDescriptorType_t type)
{
    descriptor d = NULL;
    if (g->code != CUDNN_STATUS_SUCCESS) return NULL;
    if (g->to->n_made == DESCRIPTORS) {
        (void)went_well(g, CUDNN_STATUS_INTERNAL_ERROR, "a graph of this size");
        return NULL;
    }
    if (went_well(g, g->api->make(type, &d), "a descriptor")) g->to->made[g->to->n_made++] = d;
    return d;
}

static void set(graph *g, descriptor d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t n, const void *values)
{
    if (g->code == CUDNN_STATUS_SUCCESS)
        (void)went_well(g, g->api->set(d, name, type, n, values), "an attribute");
}

/* Sets nothing where `of` is NULL. */
static void set_part(graph *g, descriptor d, cudnnBackendAttributeName_t name, descriptor of)
{
    if (of != NULL) set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &of);
}

static void set_type(graph *g, descriptor d, cudnnBackendAttributeName_t name, cudnnDataType_t type)
{
    set(g, d, name, CUDNN_TYPE_DATA_TYPE, 1, &type);
}

static void finalize(graph *g, descriptor d, const char *what)
{
    if (g->code == CUDNN_STATUS_SUCCESS) (void)went_well(g, g->api->finalize(d), what);
}

static void add_op(graph *g, descriptor op, const char *what)
{
    finalize(g, op, what);
    if (g->code != CUDNN_STATUS_SUCCESS) return;
    if (g->n_ops < OPS)
        g->ops[g->n_ops++] = op;
    else
        (void)went_well(g, CUDNN_STATUS_INTERNAL_ERROR, "so many operations");
}

/* ---- tensors --------------------------------------------------------------------------------- */

typedef struct layout {
    int64_t dim[DIMS], stride[DIMS];
} layout;

typedef enum place { ON_DEVICE, ON_HOST, NOWHERE } place;

static descriptor make_tensor(graph *g, int64_t id, cudnnDataType_t type, const layout *l,
                              place where, descriptor offsets)
{
    const int64_t alignment = 16; /* bytes */
    const bool    yes       = true;
    descriptor    t         = make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set_type(g, t, CUDNN_ATTR_TENSOR_DATA_TYPE, type);
    set(g, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, DIMS, l->dim);
    set(g, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, DIMS, l->stride);
    set(g, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(g, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    if (where == NOWHERE) set(g, t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
    if (where == ON_HOST) set(g, t, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes);
    set_part(g, t, CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, offsets);
    finalize(g, t, "a tensor");
    return t;
}

static layout transposed(layout l)
{
    const layout from = l;
    for (int i = 2; i < DIMS; i++) {
        l.dim[i]    = from.dim[5 - i];
        l.stride[i] = from.stride[5 - i];
    }
    return l;
}

static layout vector_of(int64_t n) { return (layout){ { n, 1, 1, 1 }, { 1, 1, 1, 1 } }; }

static layout side_layout(const ms_dnn_shape *s, int side)
{
    const int64_t ld = s->side[side].ld;
    return (layout){ { s->batch, s->heads, s->longest, s->head },
                     { s->longest * ld, s->side[side].stride, ld, 1 } };
}

/* Describes a number for each row; in memory they are (rows, heads). */
static layout row_layout(const ms_dnn_shape *s, bool in_memory)
{
    const int64_t all = s->heads * s->longest;
    return (layout){ { s->batch, s->heads, s->longest, 1 },
                     { all, in_memory ? 1 : s->longest, in_memory ? s->heads : 1, 1 } };
}

static layout logit_layout(const ms_dnn_shape *s)
{
    const int64_t n = s->longest;
    return (layout){ { s->batch, s->heads, n, n }, { s->heads * n * n, n * n, n, 1 } };
}

int ms_dnn_offset_of(const ms_dnn_shape *shape, int side)
{
    static const int like[MS_DNN_SIDES] = {
        [MS_DNN_Q] = MS_DNN_Q,      [MS_DNN_K] = MS_DNN_K,  [MS_DNN_V] = MS_DNN_V,
        [MS_DNN_OUT] = MS_DNN_OUT,  [MS_DNN_DQ] = MS_DNN_Q, [MS_DNN_DK] = MS_DNN_K,
        [MS_DNN_DOUT] = MS_DNN_OUT, [MS_DNN_DV] = MS_DNN_V,
    };
    const bool same = shape->side[like[side]].ld == shape->side[side].ld &&
                      shape->side[like[side]].stride == shape->side[side].stride;
    return same ? like[side] : side;
}

static cudnnDataType_t type_of(const graph *g)
{
    return g->shape->dtype == MUSEC_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
}

/* Returns one of the tensors that have data, made at its first use. */
static descriptor named(graph *g, int which, cudnnDataType_t type, layout l, descriptor offsets)
{
    const place where = which >= MS_DNN_SCALE ? ON_HOST : ON_DEVICE;
    if (g->tensor[which] == NULL)
        g->tensor[which] = make_tensor(g, FIRST_ID + which, type, &l, where, offsets);
    g->to->has[which] = true;
    return g->tensor[which];
}

static descriptor offsets_of(graph *g, int which)
{
    return named(g, which, CUDNN_DATA_INT64, vector_of(g->shape->batch + 1), NULL);
}

static descriptor side_offsets(graph *g, int side)
{
    return offsets_of(g, MS_DNN_OFFSET + ms_dnn_offset_of(g->shape, side));
}

static descriptor side(graph *g, int which)
{
    return named(g, which, type_of(g), side_layout(g->shape, which), side_offsets(g, which));
}

static descriptor side_transposed(graph *g, int which)
{
    return named(g, which, type_of(g), transposed(side_layout(g->shape, which)),
                 side_offsets(g, which));
}

static descriptor of_rows(graph *g, int which)
{
    return named(g, which, CUDNN_DATA_FLOAT, row_layout(g->shape, true),
                 offsets_of(g, MS_DNN_OFFSET_ROW));
}

static descriptor number(graph *g, int which)
{
    return named(g, which, CUDNN_DATA_FLOAT, vector_of(1), NULL);
}

static descriptor lengths(graph *g)
{
    return named(g, MS_DNN_LENGTH, CUDNN_DATA_INT32, vector_of(g->shape->batch), NULL);
}

static descriptor virtual_tensor(graph *g, cudnnDataType_t type, layout l, descriptor offsets)
{
    return make_tensor(g, g->next_id++, type, &l, NOWHERE, offsets);
}

static descriptor logits(graph *g, cudnnDataType_t type)
{
    return virtual_tensor(g, type, logit_layout(g->shape), NULL);
}

static descriptor row_numbers(graph *g)
{
    return virtual_tensor(g, CUDNN_DATA_FLOAT, row_layout(g->shape, false), NULL);
}

/* ---- operations ------------------------------------------------------------------------------ */

enum { NO_AXIS = -1 };

/* y <- mode(x, b, where); b and where are NULL if the mode lacks such an operand. */
static void pointwise(graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t compute, int64_t axis,
                      descriptor x, descriptor b, descriptor where, descriptor y)
{
    descriptor how = make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set_type(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC, compute);
    if (axis != NO_AXIS) set(g, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    finalize(g, how, "an operation on elements");
    descriptor op = make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, where);
    set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    add_op(g, op, "an operation on elements");
}

/* Returns new logits, mode(x, b) in float32; b may be NULL. */
static descriptor to_logits(graph *g, cudnnPointwiseMode_t mode, descriptor x, descriptor b)
{
    descriptor y = logits(g, CUDNN_DATA_FLOAT);
    pointwise(g, mode, CUDNN_DATA_FLOAT, NO_AXIS, x, b, NULL, y);
    return y;
}

static void reduce(graph *g, cudnnReduceTensorOp_t by, descriptor x, descriptor y)
{
    descriptor how = make(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set_type(g, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    set(g, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &by);
    finalize(g, how, "a reduction");
    descriptor op = make(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_part(g, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    set_part(g, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set_part(g, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    add_op(g, op, "a reduction");
}

/* Which of the sizes m, n, k of a product (m x k) (k x n) are the length of a sequence. */
typedef enum sized { SIZED_MN, SIZED_MK } sized;

static void multiply(graph *g, descriptor a, descriptor b, sized by, descriptor c)
{
    const double padding = 0.0;
    descriptor   how     = make(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set_type(g, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
    set(g, how, CUDNN_ATTR_MATMUL_PADDING_VALUE, CUDNN_TYPE_DOUBLE, 1, &padding);
    finalize(g, how, "a product");
    descriptor op = make(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, lengths(g));
    set_part(g, op,
             by == SIZED_MN ? CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC
                            : CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC,
             lengths(g));
    add_op(g, op, "a product");
}

static void reshape(graph *g, descriptor x, descriptor y)
{
    descriptor op = make(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_part(g, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    set_part(g, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    add_op(g, op, "a transposition");
}

/* ---- mask ------------------------------------------------------------------------------------ */

enum { QUERY_AXIS = 2, KEY_AXIS = 3 };

static descriptor index_of(graph *g, descriptor s, int64_t axis, cudnnDataType_t compute)
{
    descriptor y = logits(g, CUDNN_DATA_INT32);
    pointwise(g, CUDNN_POINTWISE_GEN_INDEX, compute, axis, s, NULL, NULL, y);
    return y;
}

static descriptor compare(graph *g, cudnnPointwiseMode_t how, descriptor x, descriptor y)
{
    descriptor yes = logits(g, CUDNN_DATA_BOOLEAN);
    pointwise(g, how, CUDNN_DATA_BOOLEAN, NO_AXIS, x, y, NULL, yes);
    return yes;
}

static descriptor keep_where(graph *g, descriptor s, descriptor yes, int otherwise)
{
    descriptor y = logits(g, CUDNN_DATA_FLOAT);
    pointwise(g, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, NO_AXIS, s, number(g, otherwise),
              yes, y);
    return y;
}

static descriptor inside_sequence(graph *g, descriptor s)
{
    descriptor query    = index_of(g, s, QUERY_AXIS, CUDNN_DATA_INT32);
    descriptor key      = index_of(g, s, KEY_AXIS, CUDNN_DATA_INT32);
    descriptor is_query = compare(g, CUDNN_POINTWISE_CMP_LT, query, lengths(g));
    descriptor is_key   = compare(g, CUDNN_POINTWISE_CMP_LT, key, lengths(g));
    descriptor both     = compare(g, CUDNN_POINTWISE_LOGICAL_AND, is_query, is_key);
    return keep_where(g, s, both, MS_DNN_OUTSIDE);
}

static descriptor not_after(graph *g, descriptor s)
{
    descriptor query = index_of(g, s, QUERY_AXIS, CUDNN_DATA_FLOAT);
    descriptor key   = index_of(g, s, KEY_AXIS, CUDNN_DATA_FLOAT);
    return keep_where(g, s, compare(g, CUDNN_POINTWISE_CMP_GE, query, key), MS_DNN_OUTSIDE_CAUSAL);
}

/* key + (window + 1) > query */
static descriptor in_window(graph *g, descriptor s)
{
    descriptor query = index_of(g, s, QUERY_AXIS, CUDNN_DATA_FLOAT);
    descriptor key   = index_of(g, s, KEY_AXIS, CUDNN_DATA_FLOAT);
    descriptor end   = logits(g, CUDNN_DATA_FLOAT);
    pointwise(g, CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, KEY_AXIS, key, number(g, MS_DNN_BOUND),
              NULL, end);
    return keep_where(g, s, compare(g, CUDNN_POINTWISE_CMP_GT, end, query), MS_DNN_OUTSIDE_WINDOW);
}

static descriptor seen(graph *g, descriptor s)
{
    s = not_after(g, inside_sequence(g, s));
    return g->shape->windowed ? in_window(g, s) : s;
}

/* ---- the two graphs -------------------------------------------------------------------------- */

static descriptor scaled_logits(graph *g)
{
    descriptor s = logits(g, CUDNN_DATA_FLOAT);
    multiply(g, side(g, MS_DNN_Q), side_transposed(g, MS_DNN_K), SIZED_MN, s);
    return to_logits(g, CUDNN_POINTWISE_MUL, s, number(g, MS_DNN_SCALE));
}

static void forward(graph *g)
{
    descriptor s = seen(g, scaled_logits(g));
    descriptor m = of_rows(g, MS_DNN_MAX);
    descriptor z = of_rows(g, MS_DNN_SUM);
    descriptor p = logits(g, type_of(g));

    reduce(g, CUDNN_REDUCE_TENSOR_MAX, s, m);
    descriptor below = to_logits(g, CUDNN_POINTWISE_SUB, s, m);
    descriptor e     = to_logits(g, CUDNN_POINTWISE_EXP, below, NULL);
    reduce(g, CUDNN_REDUCE_TENSOR_ADD, e, z);
    pointwise(g, CUDNN_POINTWISE_DIV, CUDNN_DATA_FLOAT, NO_AXIS, e, z, NULL, p);
    multiply(g, p, side(g, MS_DNN_V), SIZED_MK, side(g, MS_DNN_OUT));
}

/* Adds the product x^T y, x being logits, written to side `to`. */
static void transposed_product(graph *g, descriptor x, int y, int to)
{
    descriptor t = virtual_tensor(g, type_of(g), transposed(logit_layout(g->shape)), NULL);
    reshape(g, x, t);
    multiply(g, t, side(g, y), SIZED_MK, side(g, to));
}

static void backward_delta(graph *g)
{
    const ms_dnn_shape *s   = g->shape;
    const layout        all = { { s->batch, s->heads, s->longest, s->head },
                                { s->heads * s->longest * s->head, s->longest * s->head,
                                  s->heads * s->head, 1 } };
    descriptor product = virtual_tensor(g, CUDNN_DATA_FLOAT, all, NULL), sum = row_numbers(g);
    pointwise(g, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, NO_AXIS, side(g, MS_DNN_DOUT),
              side(g, MS_DNN_OUT), NULL, product);
    reduce(g, CUDNN_REDUCE_TENSOR_ADD, product, sum);
    pointwise(g, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, NO_AXIS, sum, number(g, MS_DNN_ONE), NULL,
              of_rows(g, MS_DNN_DELTA));
}

static void backward(graph *g)
{
    const ms_dnn_shape *s = g->shape;
    backward_delta(g);

    descriptor below = to_logits(g, CUDNN_POINTWISE_SUB, scaled_logits(g), of_rows(g, MS_DNN_LSE));
    descriptor p     = to_logits(g, CUDNN_POINTWISE_EXP, seen(g, below), NULL);
    transposed_product(g, p, MS_DNN_DOUT, MS_DNN_DV);

    descriptor dp = logits(g, CUDNN_DATA_FLOAT);
    multiply(g, side(g, MS_DNN_DOUT), side_transposed(g, MS_DNN_V), SIZED_MN, dp);
    descriptor over = to_logits(g, CUDNN_POINTWISE_SUB, dp, of_rows(g, MS_DNN_DELTA));
    descriptor ds   = to_logits(g, CUDNN_POINTWISE_MUL, over, p);
    ds              = to_logits(g, CUDNN_POINTWISE_MUL, ds, number(g, MS_DNN_SCALE));
    transposed_product(g, ds, MS_DNN_Q, MS_DNN_DK);

    descriptor k =
        virtual_tensor(g, type_of(g), side_layout(s, MS_DNN_K), side_offsets(g, MS_DNN_K));
    descriptor dq_sum = named(g, MS_DNN_DQ_SUM, CUDNN_DATA_FLOAT, side_layout(s, MS_DNN_DQ),
                              side_offsets(g, MS_DNN_DQ));
    reshape(g, side_transposed(g, MS_DNN_K), k);
    multiply(g, ds, k, SIZED_MK, dq_sum);
    pointwise(g, CUDNN_POINTWISE_IDENTITY, CUDNN_DATA_FLOAT, NO_AXIS, dq_sum, NULL, NULL,
              side(g, MS_DNN_DQ));
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* Lists the engine configurations of cuDNN's heuristic, best first, and returns their number. */
static int64_t find_configs(graph *g, cudnnHandle_t handle, descriptor *configs)
{
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    int64_t                      n    = 0;
    descriptor                   all  = make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(g, all, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->n_ops, g->ops);
    set(g, all, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    finalize(g, all, "the graph");
    descriptor choice = make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_part(g, choice, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, all);
    set(g, choice, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    finalize(g, choice, "the graph");
    for (int i = 0; i < CONFIGS; i++)
        configs[i] = make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (g->code == CUDNN_STATUS_SUCCESS)
        (void)went_well(g,
                        g->api->get(choice, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, CONFIGS, &n, configs),
                        "the graph");
    if (n == 0) (void)went_well(g, CUDNN_STATUS_NOT_SUPPORTED, "the graph");
    return n < CONFIGS ? n : CONFIGS;
}

static void measure(graph *g)
{
    if (g->code == CUDNN_STATUS_SUCCESS)
        (void)went_well(g,
                        g->api->get(g->to->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                    CUDNN_TYPE_INT64, 1, NULL, &g->to->workspace),
                        "a plan");
}

/* Takes the first configuration from which a plan can be made, and none where one was not for want
 * of memory or of the device: another one would give other bits. */
static void choose(graph *g, cudnnHandle_t handle)
{
    descriptor    configs[CONFIGS];
    const int64_t n = find_configs(g, handle, configs);
    if (g->code != CUDNN_STATUS_SUCCESS) return;
    for (int64_t i = 0; i < n && g->to->plan == NULL; i++) {
        if (i > 0 && ms_dnn_failure_of(g->code) != MUSEC_ENOTSUP) return;
        g->code         = CUDNN_STATUS_SUCCESS; /* forgets the failure of the one before */
        descriptor plan = make(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        set_part(g, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configs[i]);
        finalize(g, plan, "a plan");
        if (g->code == CUDNN_STATUS_SUCCESS) g->to->plan = plan;
    }
    measure(g);
}

/* Makes the plan from its serialised form; does nothing where cuDNN does not accept that. */
static void restore(graph *g, cudnnHandle_t handle, const char *text, size_t bytes)
{
    if (text == NULL || g->code != CUDNN_STATUS_SUCCESS) return;
    descriptor plan = make(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set(g, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    set(g, plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, (int64_t)bytes,
        text);
    finalize(g, plan, "a plan");
    g->to->plan = plan;
    measure(g);
    if (g->code != CUDNN_STATUS_SUCCESS) g->to->plan = NULL;
    g->code = CUDNN_STATUS_SUCCESS;
}

bool ms_dnn_plan_text(const ms_dnn_plan *plan, char **text, size_t *bytes)
{
    const cudnnBackendAttributeName_t what = CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION;
    int64_t                           size = 0, n = 0;
    *text = NULL;
    if (plan->api->get(plan->plan, what, CUDNN_TYPE_CHAR, 0, &size, NULL) != CUDNN_STATUS_SUCCESS ||
        size <= 0 || size > TEXT_MAX || (*text = malloc((size_t)size)) == NULL)
        return false;
    if (plan->api->get(plan->plan, what, CUDNN_TYPE_CHAR, size, &n, *text) != CUDNN_STATUS_SUCCESS)
        n = 0;
    *bytes = (size_t)(n < size ? n : size);
    return n > 0;
}

musec_status ms_dnn_plan_make(ms_error *e, const ms_dnn_api *api, cudnnHandle_t handle,
                              const ms_dnn_shape *shape, const char *text, size_t bytes,
                              ms_dnn_plan **out)
{
    graph g = { .api = api, .shape = shape, .next_id = FIRST_VIRTUAL_ID };
    *out    = NULL;
    g.to    = calloc(1, sizeof *g.to);
    if (g.to == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory");
    g.to->api = api;
    if (shape->backward)
        backward(&g);
    else
        forward(&g);
    restore(&g, handle, text, bytes);
    if (g.to->plan == NULL) choose(&g, handle);
    if (g.code == CUDNN_STATUS_SUCCESS) {
        *out = g.to;
        return MUSEC_OK;
    }
    ms_dnn_plan_free(g.to);
    return ms_fail(e, ms_dnn_failure_of(g.code), "cuDNN does not make %s: %s: %s", g.what,
                   api->error_string(g.code), g.message);
}

void ms_dnn_plan_free(ms_dnn_plan *plan)
{
    if (plan == NULL) return;
    while (plan->n_made > 0)
        (void)plan->api->release(plan->made[--plan->n_made]);
    free(plan);
}

size_t ms_dnn_plan_workspace(const ms_dnn_plan *plan) { return (size_t)plan->workspace; }

musec_status ms_dnn_plan_run(ms_error *e, const ms_dnn_plan *plan, cudnnHandle_t handle,
                             void *const *data, void *workspace)
{
    const ms_dnn_api *api = plan->api;
    int64_t           ids[MS_DNN_TENSORS], n = 0;
    void             *pointers[MS_DNN_TENSORS];
    descriptor        pack = NULL;
    cudnnStatus_t     code = api->make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    for (int i = 0; i < MS_DNN_TENSORS; i++)
        if (plan->has[i]) {
            ids[n]        = FIRST_ID + i;
            pointers[n++] = data[i];
        }
    if (code == CUDNN_STATUS_SUCCESS)
        code =
            api->set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, pointers);
    if (code == CUDNN_STATUS_SUCCESS)
        code = api->set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, ids);
    if (code == CUDNN_STATUS_SUCCESS)
        code =
            api->set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    if (code == CUDNN_STATUS_SUCCESS) code = api->finalize(pack);
    if (code == CUDNN_STATUS_SUCCESS) code = api->execute(handle, plan->plan, pack);
    musec_status st = MUSEC_OK;
    if (code != CUDNN_STATUS_SUCCESS) {
        char message[512] = "";
        api->last_error(message, sizeof message);
        const bool full = ms_dnn_failure_of(code) == MUSEC_ENOMEM;
        st = ms_fail(e, full ? MUSEC_ENOMEM : MUSEC_EDEVICE, "attention: cuDNN: %s: %s",
                     api->error_string(code), message);
    }
    if (pack != NULL) (void)api->release(pack);
    return st;
}
#endif
