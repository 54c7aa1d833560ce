/* device.c - from a name ("cpu") to a device: the kinds that are compiled in, contexts, views and
 * scratch memory. */
#include "device/device.h"

#include <assert.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/size.h"

/* ---- kinds and contexts ---------------------------------------------------------------------- */

static const ms_device_kind kinds[] = {
    /* best first: the default is the first that opens */
    { "cpu", "CBLAS, LAPACKE and OpenMP", ms_device_cpu_ops, ms_device_cpu_open, NULL },
    { "ref", "plain loops in float64: slow, the definition of every op", ms_device_ref_ops, NULL,
      NULL },
};

const ms_device_kind *ms_device_kind_at(size_t index)
{
    return index < COUNT(kinds) ? &kinds[index] : NULL;
}

/* "cuda:1" is kind "cuda", index 1.  NULL: no such kind, or the index is no number. */
static const ms_device_kind *find_kind(const char *name, int *index)
{
    const size_t length = strcspn(name, ":");
    *index              = 0;
    if (name[length] == ':') {
        char      *end = NULL;
        const long n   = strtol(name + length + 1, &end, 10);
        if (end == name + length + 1 || *end != '\0' || n < 0 || n > 1023) return NULL;
        *index = (int)n;
    }
    for (size_t i = 0; i < COUNT(kinds); i++)
        if (strlen(kinds[i].name) == length && strncmp(kinds[i].name, name, length) == 0)
            return &kinds[i];
    return NULL;
}

static musec_status scratch_alloc(void *owner, size_t bytes, void **out)
{
    ms_device *d = owner;
    return d->ops->alloc(d, bytes, out);
}

static void scratch_free(void *owner, void *p)
{
    ms_device *d = owner;
    d->ops->free(d, p);
}

static musec_status open_kind(const ms_device_kind *kind, int index, musec_ctx **out)
{
    ms_device   *d  = calloc(1, sizeof *d);
    musec_status st = MUSEC_OK;
    if (d == NULL) return MUSEC_ENOMEM;
    kind->ops(&d->table);
    d->ops  = &d->table;
    d->kind = kind;
    snprintf(d->name, sizeof d->name, index > 0 ? "%s:%d" : "%s", kind->name, index);
    ms_arena_init(&d->scratch, d, scratch_alloc, scratch_free);
    if (kind->open != NULL) st = kind->open(d, index);
    if (st == MUSEC_OK)
        *out = d;
    else
        free(d);
    return st;
}

musec_status musec_ctx_create(musec_ctx **out, const char *device)
{
    musec_status st    = MUSEC_EDEVICE;
    int          index = 0;
    if (out == NULL) return MUSEC_EINVAL;
    *out = NULL;
    if (device != NULL) {
        const ms_device_kind *kind = find_kind(device, &index);
        return kind == NULL ? MUSEC_EINVAL : open_kind(kind, index, out);
    }
    for (size_t i = 0; i < COUNT(kinds) && st != MUSEC_OK; i++)
        st = open_kind(&kinds[i], 0, out);
    return st;
}

musec_status musec_ctx_sync(musec_ctx *ctx)
{
    return ctx == NULL ? MUSEC_EINVAL : ctx->ops->sync(ctx);
}

const char *musec_ctx_error(const musec_ctx *ctx) { return ctx == NULL ? "" : ctx->error.text; }

const char *musec_ctx_device(const musec_ctx *ctx) { return ctx == NULL ? "" : ctx->name; }

void musec_ctx_destroy(musec_ctx *ctx)
{
    if (ctx == NULL) return;
    ms_arena_destroy(&ctx->scratch);
    if (ctx->kind->close != NULL) ctx->kind->close(ctx);
    free(ctx);
}

/* ---- views ----------------------------------------------------------------------------------- */

size_t ms_dtype_bytes(musec_dtype dtype)
{
    switch (dtype) {
#define X(name, code, text, bytes) \
    case MUSEC_##name: return bytes;
        MUSEC_DTYPE_MAP(X)
#undef X
    }
    return 0;
}

double ms_dtype_eps(musec_dtype dtype) { return dtype == MUSEC_F32 ? FLT_EPSILON : DBL_EPSILON; }

double ms_dtype_tiny(musec_dtype dtype) { return dtype == MUSEC_F32 ? FLT_MIN : DBL_MIN; }

musec_view musec_view_dense(void *data, musec_dtype dtype, int64_t count, int64_t rows,
                            int64_t cols)
{
    return (musec_view){ .data   = data,
                         .rows   = rows,
                         .cols   = cols,
                         .ld     = cols,
                         .count  = count,
                         .stride = rows * cols,
                         .dtype  = dtype };
}

ms_mat ms_mat_of(musec_view view)
{
    return (ms_mat){ .data   = view.data,
                     .rows   = view.rows,
                     .cols   = view.cols,
                     .ld     = view.ld,
                     .count  = view.count,
                     .stride = view.stride,
                     .dtype  = view.dtype };
}

musec_status ms_mat_from_view(ms_device *d, const char *what, musec_view view, ms_mat *out)
{
    const size_t each  = ms_dtype_bytes(view.dtype);
    size_t       bytes = 0;
    if (view.data == NULL) return ms_fail(&d->error, MUSEC_EINVAL, "%s: data is NULL", what);
    if (each == 0)
        return ms_fail(&d->error, MUSEC_EINVAL, "%s: unknown dtype %d", what, (int)view.dtype);
    if (view.rows < 1 || view.cols < 1 || view.count < 1)
        return ms_fail(&d->error, MUSEC_EINVAL,
                       "%s: %lld matrices of %lld x %lld: every dimension must be at least 1", what,
                       (long long)view.count, (long long)view.rows, (long long)view.cols);
    if (view.ld < view.cols)
        return ms_fail(&d->error, MUSEC_EINVAL, "%s: ld %lld is less than cols %lld", what,
                       (long long)view.ld, (long long)view.cols);
    if (!ms_size_stack(1, view.rows, view.ld, each, &bytes) ||
        (view.count > 1 && !ms_size_stack(view.count, 1, view.stride, each, &bytes)))
        return ms_fail(&d->error, MUSEC_EINVAL, "%s: the stack is larger than memory can be", what);
    if (view.count > 1 && view.stride < (view.rows - 1) * view.ld + view.cols)
        return ms_fail(&d->error, MUSEC_EINVAL,
                       "%s: stride %lld lets matrices of %lld x %lld (ld %lld) overlap", what,
                       (long long)view.stride, (long long)view.rows, (long long)view.cols,
                       (long long)view.ld);
    *out = ms_mat_of(view);
    return MUSEC_OK;
}

ms_mat ms_mat_slice(ms_mat x, int64_t first, int64_t count)
{
    if (x.data != NULL)
        x.data = (char *)x.data + (size_t)(first * x.stride) * ms_dtype_bytes(x.dtype);
    x.count = count;
    return x;
}

ms_vec ms_vec_slice(ms_vec v, int64_t first, int64_t count)
{
    return (ms_vec){ .data = v.data == NULL ? NULL : v.data + first, .count = count };
}

ms_mat ms_mat_part(ms_mat x, int64_t row, int64_t rows, int64_t col, int64_t cols)
{
    const int64_t at = x.trans ? col * x.ld + row : row * x.ld + col;
    if (x.data != NULL) x.data = (char *)x.data + (size_t)at * ms_dtype_bytes(x.dtype);
    x.rows = rows;
    x.cols = cols;
    return x;
}

ms_mat ms_mat_heads(ms_mat x, int64_t count)
{
    assert(x.count == 1 && x.cols % count == 0 && !x.trans);
    x.cols /= count;
    x.count  = count;
    x.stride = x.cols;
    return x;
}

musec_status ms_mat_layout(ms_device *d, musec_dtype dtype, int64_t count, int64_t rows,
                           int64_t cols, ms_mat *out, size_t *bytes)
{
    const size_t each = ms_dtype_bytes(dtype), align = 64; /* bytes */
    size_t       one = 0;
    if (!ms_size_stack(1, rows, cols, each, &one) || !ms_size_add(one, align - 1, &one) ||
        !ms_size_stack(count, 1, (int64_t)(one / align * align), 1, bytes))
        return ms_fail(&d->error, MUSEC_EINVAL, "%s: a stack of %lld x %lld x %lld is too large",
                       d->name, (long long)count, (long long)rows, (long long)cols);
    *out = (ms_mat){ .rows   = rows,
                     .cols   = cols,
                     .ld     = cols,
                     .count  = count,
                     .stride = (int64_t)(one / align * align / each),
                     .dtype  = dtype };
    return MUSEC_OK;
}

/* ---- scratch --------------------------------------------------------------------------------- */

musec_status ms_scratch_bytes(ms_device *d, size_t bytes, void **out)
{
    const musec_status st = ms_arena_take(&d->scratch, bytes, out);
    if (st == MUSEC_ENOMEM)
        return ms_fail(&d->error, st, "%s: no memory for %zu bytes of workspace", d->name, bytes);
    return st;
}

musec_status ms_scratch_mat(ms_device *d, musec_dtype dtype, int64_t count, int64_t rows,
                            int64_t cols, ms_mat *out)
{
    size_t       bytes = 0;
    musec_status st    = MUSEC_OK;
    TRY(ms_mat_layout(d, dtype, count, rows, cols, out, &bytes));
    TRY(ms_scratch_bytes(d, bytes, &out->data));
done:
    return st;
}

musec_status ms_scratch_vec(ms_device *d, int64_t count, ms_vec *out)
{
    void              *p  = NULL;
    const musec_status st = ms_scratch_bytes(d, (size_t)count * sizeof(double), &p);
    *out                  = (ms_vec){ .data = p, .count = count };
    return st;
}

musec_status ms_vec_download(ms_device *d, ms_vec vec, double *host)
{
    return d->ops->download(d, vec.data, (size_t)vec.count * sizeof(double), host);
}
