/* attention_dnn.c - attention by cuDNN: which operands it supports, its plans, and its calls.
 *
 * cuDNN sees a pack of documents as a batch of sequences (attention_dnn_graph.h).  It takes a
 * second to make a plan, so packs share plans: the number of documents and the rows of the longest
 * are rounded up to powers of two, and both have to be known on the host.  Plans are cached in a
 * file in serialised form (core/cache.h), from which later processes restore them without that
 * second.
 *
 * Blocks of its kernels are launched for batch times longest rows, and most of them find nothing to
 * do; where that is many times the number of rows, kernels of our own are faster.
 *
 * cuDNN returns either logsumexps, or largest logits and sums of exponentials; we ask for the
 * latter and compute the logsumexps.  Its gradient adds up dq in any order, so deterministic
 * contexts do not use it.  Nor does it support gradients whose layout differs from that of their
 * operand: cuDNN 9.14 accepts the plan and writes wrong rows. */
#include "device/cuda/cuda.h"

#include <stdio.h>

#ifdef MS_HAVE_CUDNN

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cache.h"
#include "core/sha256.h"
#include "device/cuda/attention_dnn_docs.h"
#include "device/cuda/attention_dnn_graph.h"

enum {
    VERSION_MIN = 91400, /* cuDNN 9.14 */
    BATCH_MIN   = 16,
    LONGEST_MIN = 512,
    WASTE_MAX   = 16, /* batch times longest may be at most so many times the rows */
    PLANS       = 128,
};

struct ms_cuda_dnn {
    ms_dnn_api    api;
    cudnnHandle_t handle;
    bool          is_open;
    ms_error      message; /* why it is not open */
    int64_t       clock;   /* plans looked up so far */
    struct cached {
        ms_dnn_shape shape;
        int64_t      used; /* clock of the last look-up; 0: the entry is free */
        ms_dnn_plan *plan; /* NULL: it cannot be made, for the reason in `message` */
        char         message[256];
    } plans[PLANS];
};

/* ---- the library ----------------------------------------------------------------------------- */

static void close_library(ms_dnn_api *api)
{
    ms_cuda_library_close(api->library);
    *api = (ms_dnn_api){ 0 };
}

static musec_status open_library(ms_error *e, ms_dnn_api *api)
{
    static const char *const names[]   = { "libcudnn.so.9", NULL };
    const ms_cuda_symbol     symbols[] = {
            { "cudnnGetVersion", (void **)&api->version },
            { "cudnnGetErrorString", (void **)&api->error_string },
            { "cudnnGetLastErrorString", (void **)&api->last_error },
            { "cudnnCreate", (void **)&api->create },
            { "cudnnDestroy", (void **)&api->destroy },
            { "cudnnSetStream", (void **)&api->set_stream },
            { "cudnnBackendCreateDescriptor", (void **)&api->make },
            { "cudnnBackendSetAttribute", (void **)&api->set },
            { "cudnnBackendGetAttribute", (void **)&api->get },
            { "cudnnBackendFinalize", (void **)&api->finalize },
            { "cudnnBackendExecute", (void **)&api->execute },
            { "cudnnBackendDestroyDescriptor", (void **)&api->release },
    };
    const musec_status st = ms_cuda_library_open(e, "attention by cuDNN", names, symbols,
                                                 COUNT(symbols), &api->library);
    if (st != MUSEC_OK) return st;
    const size_t v = api->version();
    if (v >= VERSION_MIN) return MUSEC_OK;
    close_library(api);
    return ms_fail(e, MUSEC_ENOTSUP, "cuDNN %zu.%zu is too old: %d.%d or later is needed",
                   v / 10000, v / 100 % 100, VERSION_MIN / 10000, VERSION_MIN / 100 % 100);
}

musec_status ms_dnn_failure_of(cudnnStatus_t code)
{
    switch (code) {
    case CUDNN_STATUS_SUCCESS: return MUSEC_OK;
    case CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED:
    case CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED: return MUSEC_ENOMEM;
    case CUDNN_STATUS_EXECUTION_FAILED:
    case CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER:
    case CUDNN_STATUS_EXECUTION_FAILED_CUDART: return MUSEC_EDEVICE;
    default: return MUSEC_ENOTSUP;
    }
}

static musec_status open_handle(ms_device *d, struct ms_cuda_dnn *n)
{
    musec_status  st = MUSEC_OK;
    cudnnStatus_t code;
    if (ms_cuda_of(d)->capability != MS_CUDA_CHIP_DNN)
        return ms_fail(&n->message, MUSEC_ENOTSUP, "cuDNN is used on Hopper alone");
    TRY(open_library(&n->message, &n->api));
    code = n->api.create(&n->handle);
    if (code == CUDNN_STATUS_SUCCESS) code = n->api.set_stream(n->handle, ms_cuda_of(d)->stream);
    if (code != CUDNN_STATUS_SUCCESS)
        TRY(ms_fail(&n->message, ms_dnn_failure_of(code), "cuDNN: %s", n->api.error_string(code)));
done:
    return st;
}

musec_status ms_cuda_dnn_follow(ms_device *d)
{
    const ms_cuda            *c = ms_cuda_of(d);
    const struct ms_cuda_dnn *n = c->dnn;
    if (n == NULL || !n->is_open) return MUSEC_OK;
    const cudnnStatus_t code = n->api.set_stream(n->handle, c->stream);
    if (code == CUDNN_STATUS_SUCCESS) return MUSEC_OK;
    return ms_fail(&d->error, MUSEC_EDEVICE, "%s: cuDNN: changing the stream: %s", d->name,
                   n->api.error_string(code));
}

/* The library is opened once, and not tried again where it is not there or does not support the
 * device.  An error is that of memory or of the device. */
static musec_status library_of(ms_device *d, ms_error *e, struct ms_cuda_dnn **out)
{
    ms_cuda            *c  = ms_cuda_of(d);
    struct ms_cuda_dnn *n  = c->dnn;
    musec_status        st = MUSEC_OK;
    *out                   = n;
    if (n != NULL) return MUSEC_OK;
    n = calloc(1, sizeof *n);
    if (n == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory");
    st         = open_handle(d, n);
    n->is_open = st == MUSEC_OK;
    if (st == MUSEC_ENOMEM || (st == MUSEC_EDEVICE && n->api.library != NULL)) {
        *e = n->message;
        if (n->handle != NULL) (void)n->api.destroy(n->handle);
        free(n);
        return st;
    }
    *out = c->dnn = n;
    return MUSEC_OK;
}

void ms_cuda_dnn_free(ms_device *d)
{
    struct ms_cuda_dnn *n = ms_cuda_of(d)->dnn;
    if (n == NULL) return;
    for (int i = 0; i < PLANS; i++)
        ms_dnn_plan_free(n->plans[i].plan);
    if (n->handle != NULL)
        (void)n->api.destroy(n->handle); /* the library stays open: gemm_plan.c */
    free(n);
    ms_cuda_of(d)->dnn = NULL;
}

void ms_cuda_dnn_describe(ms_device *d, char *text, size_t bytes)
{
    struct ms_cuda_dnn *n = NULL;
    ms_error            why;
    if (library_of(d, &why, &n) != MUSEC_OK || !n->is_open) {
        snprintf(text, bytes, "no cuDNN: %s", n == NULL ? why.text : n->message.text);
        return;
    }
    const size_t v = n->api.version();
    snprintf(text, bytes, "cuDNN %zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
}

/* ---- plans ----------------------------------------------------------------------------------- */

static int64_t round_up(int64_t n, int64_t least)
{
    while (least < n)
        least *= 2;
    return least;
}

/* Is x a stack of heads, shaped like q, that cuDNN reads in place? */
static bool is_side(const ms_mat *x, const ms_mat *q)
{
    return x->dtype == q->dtype && !x->trans && x->ptrs == NULL && x->rows == q->rows &&
           x->cols == q->cols && x->count == q->count && x->ld % 8 == 0 && x->stride % 8 == 0 &&
           (uintptr_t)x->data % 16 == 0;
}

/* Lists the operands by their numbers in attention_dnn_graph.h; those of the gradient come last. */
static void sides_of(const ms_cuda_attn *x, const ms_mat *sides[MS_DNN_SIDES])
{
    const ms_mat *const all[MS_DNN_SIDES] = {
        [MS_DNN_Q] = &x->q,     [MS_DNN_K] = &x->k,       [MS_DNN_V] = &x->v,
        [MS_DNN_OUT] = &x->out, [MS_DNN_DOUT] = &x->dout, [MS_DNN_DQ] = &x->dq,
        [MS_DNN_DK] = &x->dk,   [MS_DNN_DV] = &x->dv,
    };
    memcpy(sides, all, sizeof all);
}

static bool lies_as(const ms_mat *x, const ms_mat *y)
{
    return x->ld == y->ld && x->stride == y->stride;
}

static int n_sides(bool backward) { return backward ? MS_DNN_SIDES : MS_DNN_OUT + 1; }

static musec_status shape_of(ms_device *d, ms_error *e, const ms_cuda_attn *x, bool backward,
                             ms_dnn_shape *shape)
{
    const ms_mat *sides[MS_DNN_SIDES];
    sides_of(x, sides);
    memset(shape, 0, sizeof *shape);
    if ((x->q.dtype != MUSEC_BF16 && x->q.dtype != MUSEC_F16) ||
        (x->q.cols != 64 && x->q.cols != 128) || x->a.softcap > 0.0)
        return ms_fail(e, MUSEC_ENOTSUP, "cuDNN takes heads of 64 or 128 in 16 bits, uncapped");
    if (backward && d->deterministic)
        return ms_fail(e, MUSEC_ENOTSUP, "cuDNN's gradient of attention is not deterministic");
    if (backward && (!lies_as(&x->dq, &x->q) || !lies_as(&x->dk, &x->k) || !lies_as(&x->dv, &x->v)))
        return ms_fail(e, MUSEC_ENOTSUP, "cuDNN wants gradients to lie as q, k and v do");
    if (x->a.docs <= 0 || x->a.longest <= 0)
        return ms_fail(e, MUSEC_ENOTSUP, "the documents are not known on the host");
    if (x->q.rows < 1 || x->q.rows > INT32_MAX || x->q.count > UINT16_MAX ||
        x->lse.dtype != MUSEC_F32 || x->lse.trans || x->lse.ptrs != NULL)
        return ms_fail(e, MUSEC_ENOTSUP, "cuDNN does not take %lld rows of %lld heads",
                       (long long)x->q.rows, (long long)x->q.count);
    shape->dtype    = x->q.dtype;
    shape->batch    = round_up(x->a.docs, BATCH_MIN);
    shape->longest  = round_up(x->a.longest, LONGEST_MIN);
    shape->heads    = x->q.count;
    shape->head     = x->q.cols;
    shape->backward = backward;
    shape->windowed = x->a.window < shape->longest - 1;
    if (shape->batch * shape->longest / WASTE_MAX > round_up(x->q.rows, LONGEST_MIN))
        return ms_fail(e, MUSEC_ENOTSUP, "cuDNN wastes time on %lld documents of up to %lld rows",
                       (long long)x->a.docs, (long long)x->a.longest);
    for (int i = 0; i < n_sides(backward); i++) {
        if (!is_side(sides[i], &x->q))
            return ms_fail(e, MUSEC_ENOTSUP, "cuDNN does not take heads that lie so");
        shape->side[i].ld     = sides[i]->ld;
        shape->side[i].stride = sides[i]->stride;
    }
    return MUSEC_OK;
}

/* *out <- the entry of this shape: its own, else the least recently used one, which is freed.  A
 * free entry is older than any. */
static musec_status place_of(ms_device *d, ms_error *e, struct ms_cuda_dnn *n,
                             const ms_dnn_shape *shape, struct cached **out)
{
    struct cached *oldest = &n->plans[0];
    musec_status   st     = MUSEC_OK;
    for (int i = 0; i < PLANS; i++) {
        *out = &n->plans[i];
        if ((*out)->used > 0 && memcmp(&(*out)->shape, shape, sizeof *shape) == 0) return st;
        if ((*out)->used < oldest->used) oldest = *out;
    }
    *out = oldest;
    if (oldest->plan != NULL) st = d->ops->sync(d); /* queued work may still be by it */
    if (st != MUSEC_OK) {
        *e = d->error;
        return st;
    }
    ms_dnn_plan_free(oldest->plan);
    *oldest = (struct cached){ .shape = *shape };
    return st;
}

/* Makes a plan of this shape, restored from the cache file if it has one. */
static musec_status make_plan(ms_device *d, ms_error *e, struct ms_cuda_dnn *n,
                              const ms_dnn_shape *shape, ms_dnn_plan **out)
{
    char         name[MS_CACHE_NAME], hex[MS_SHA256_HEX];
    ms_sha256    sha;
    void        *cached = NULL;
    char        *text   = NULL;
    size_t       bytes = 0, n_text = 0;
    musec_status st;

    ms_sha256_init(&sha);
    ms_sha256_add(&sha, shape, sizeof *shape);
    ms_sha256_end(&sha, hex);
    ms_cache_name(name, "attention-%d-%s-cudnn-%zu-%s", MS_DNN_GRAPH, hex, n->api.version(),
                  ms_cuda_of(d)->chip);
    (void)ms_cache_load(name, &cached, &bytes);
    TRY(ms_dnn_plan_make(e, &n->api, n->handle, shape, cached, bytes, out));
    if (ms_dnn_plan_text(*out, &text, &n_text) &&
        (cached == NULL || n_text != bytes || memcmp(text, cached, bytes) != 0))
        ms_cache_save(name, text, n_text);
done:
    free(text);
    free(cached);
    return st;
}

/* *out <- the plan for these operands, made at its first use.  One that cannot be made is not tried
 * again, unless memory was short or the device failed. */
static musec_status plan_of(ms_device *d, ms_error *e, const ms_cuda_attn *x, bool backward,
                            ms_dnn_shape *shape, const ms_dnn_plan **out)
{
    struct ms_cuda_dnn *n  = NULL;
    musec_status        st = MUSEC_OK;
    struct cached      *place;
    *out = NULL;
    TRY(library_of(d, e, &n));
    if (!n->is_open) return ms_fail(e, MUSEC_ENOTSUP, "%s", n->message.text);
    TRY(shape_of(d, e, x, backward, shape));
    TRY(place_of(d, e, n, shape, &place));
    if (place->used == 0) {
        st = make_plan(d, e, n, shape, &place->plan);
        if (st == MUSEC_ENOMEM || st == MUSEC_EDEVICE) return st;
        snprintf(place->message, sizeof place->message, "%.255s", st == MUSEC_OK ? "" : e->text);
    }
    place->used = ++n->clock;
    *out        = place->plan;
    st          = *out != NULL ? MUSEC_OK : ms_fail(e, MUSEC_ENOTSUP, "%s", place->message);
done:
    return st;
}

musec_status ms_cuda_attention_dnn_supports(ms_device *d, const ms_cuda_attn *x, bool backward,
                                            bool *supported)
{
    const ms_dnn_plan *plan;
    ms_dnn_shape       shape;
    ms_error           why;
    const musec_status st = plan_of(d, &why, x, backward, &shape, &plan);
    *supported            = st == MUSEC_OK;
    if (st == MUSEC_OK || st == MUSEC_ENOTSUP) return MUSEC_OK;
    return ms_fail(&d->error, st, "%s: attention: %s", d->name, why.text);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* The operands of a plan, with the scalars that lie in host memory. */
typedef struct call {
    ms_dnn_shape       shape;
    const ms_dnn_plan *plan;
    void              *data[MS_DNN_TENSORS];
    float              scale, one, bound, outside;
} call;

static musec_status prepare_docs(ms_device *d, const ms_cuda_attn *x, call *c)
{
    const size_t batch = (size_t)c->shape.batch;
    ms_dnn_docs  docs  = { .doc = x->a.doc.data, .rows = x->q.rows, .batch = c->shape.batch };
    void        *p;
    musec_status st;

    TRY(ms_scratch_bytes(d, (batch + 1) * sizeof *docs.start, &p));
    docs.start = p;
    TRY(ms_scratch_bytes(d, batch * sizeof *docs.length, &p));
    docs.length = c->data[MS_DNN_LENGTH] = p;
    for (int i = 0; i <= MS_DNN_SIDES; i++) {
        const bool of_rows = i == MS_DNN_SIDES; /* the last offsets are of row statistics */
        if (!of_rows && (i >= n_sides(c->shape.backward) || ms_dnn_offset_of(&c->shape, i) != i))
            continue;
        TRY(ms_scratch_bytes(d, (batch + 1) * sizeof *docs.offset[0], &p));
        docs.ld[docs.n_offsets]       = of_rows ? c->shape.heads : c->shape.side[i].ld;
        docs.offset[docs.n_offsets++] = c->data[MS_DNN_OFFSET + i] = p;
    }
    TRY(ms_dnn_docs_find(d, docs));
done:
    return st;
}

static musec_status prepare(ms_device *d, const ms_cuda_attn *x, bool backward, call *c)
{
    const ms_mat *sides[MS_DNN_SIDES];
    musec_status  st;
    *c = (call){ .scale   = (float)x->a.scale,
                 .one     = 1.0f,
                 .outside = -INFINITY,
                 .bound   = x->a.window < INT32_MAX ? (float)(x->a.window + 1) : 0.0f };
    TRY(plan_of(d, &d->error, x, backward, &c->shape, &c->plan));
    sides_of(x, sides);
    for (int i = 0; i < n_sides(backward); i++)
        c->data[i] = sides[i]->data;
    c->data[MS_DNN_SCALE] = &c->scale;
    c->data[MS_DNN_ONE]   = &c->one;
    c->data[MS_DNN_BOUND] = &c->bound;
    for (int i = MS_DNN_OUTSIDE; i <= MS_DNN_OUTSIDE_WINDOW; i++)
        c->data[i] = &c->outside;
    TRY(prepare_docs(d, x, c));
done:
    return st;
}

static musec_status run(ms_device *d, const call *c)
{
    void        *workspace = NULL;
    musec_status st;
    TRY(ms_scratch_bytes(d, ms_dnn_plan_workspace(c->plan), &workspace));
    TRY(ms_dnn_plan_run(&d->error, c->plan, ms_cuda_of(d)->dnn->handle, c->data, workspace));
done:
    return st;
}

musec_status ms_cuda_attention_dnn(ms_device *d, const ms_cuda_attn *x)
{
    const ms_mark mark  = ms_arena_mark(&d->scratch);
    const size_t  bytes = (size_t)(x->q.rows * x->q.count) * sizeof(float);
    call          c;
    ms_vec        partial = { 0 };
    musec_status  st;

    TRY(prepare(d, x, false, &c));
    TRY(ms_scratch_bytes(d, bytes, &c.data[MS_DNN_MAX]));
    TRY(ms_scratch_bytes(d, bytes, &c.data[MS_DNN_SUM]));
    TRY(ms_scratch_vec(d, x->q.count * MS_DNN_PARTIALS, &partial));
    TRY(run(d, &c));
    TRY(ms_dnn_lse_from_rows(d, c.data[MS_DNN_MAX], c.data[MS_DNN_SUM], x->lse, partial.data,
                             x->max_logit));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

musec_status ms_cuda_attention_dnn_grad(ms_device *d, const ms_cuda_attn *x)
{
    const ms_mark mark  = ms_arena_mark(&d->scratch);
    const size_t  bytes = (size_t)(x->q.rows * x->q.count) * sizeof(float);
    const int64_t last  = (x->q.rows - 1) * x->dq.ld + (x->q.count - 1) * x->dq.stride;
    call          c;
    musec_status  st;

    TRY(prepare(d, x, true, &c));
    TRY(ms_scratch_bytes(d, bytes, &c.data[MS_DNN_LSE]));
    TRY(ms_scratch_bytes(d, bytes, &c.data[MS_DNN_DELTA]));
    TRY(ms_scratch_bytes(d, (size_t)(last + x->q.cols) * sizeof(float), &c.data[MS_DNN_DQ_SUM]));
    TRY(ms_dnn_lse_to_rows(d, x->lse, c.data[MS_DNN_LSE]));
    TRY(run(d, &c));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

#else

void ms_cuda_dnn_free(ms_device *d) { (void)d; }

void ms_cuda_dnn_describe(ms_device *d, char *text, size_t bytes)
{
    (void)d;
    snprintf(text, bytes, "no cuDNN: this program was built without cudnn.h");
}

musec_status ms_cuda_attention_dnn_supports(ms_device *d, const ms_cuda_attn *x, bool backward,
                                            bool *supported)
{
    (void)d, (void)x, (void)backward;
    *supported = false;
    return MUSEC_OK;
}

musec_status ms_cuda_attention_dnn(ms_device *d, const ms_cuda_attn *x)
{
    (void)x;
    return ms_fail(&d->error, MUSEC_ENOTSUP, "this program was built without cudnn.h");
}

musec_status ms_cuda_attention_dnn_grad(ms_device *d, const ms_cuda_attn *x)
{
    return ms_cuda_attention_dnn(d, x);
}

#endif
