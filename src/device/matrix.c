/* matrix.c - dtypes, views of matrices and vectors in device memory, and scratch to hold them. */
#include <assert.h>
#include <float.h>

#include "core/size.h"
#include "device/device.h"

size_t ms_dtype_bytes(musec_dtype dtype)
{
    static const size_t of[] = {
#define X(name, code, text, bytes) [MUSEC_##name] = (bytes),
        MUSEC_DTYPE_MAP(X)
#undef X
            [MUSEC_I16] = 2,
    };
    return (size_t)dtype < COUNT(of) ? of[dtype] : 0;
}

const char *ms_dtype_name(musec_dtype dtype)
{
    switch (dtype) {
#define X(name, code, text, bytes) \
    case MUSEC_##name: return text;
        MUSEC_DTYPE_MAP(X)
#undef X
    case MUSEC_I16: return "i16";
    }
    return "unknown";
}

musec_dtype ms_dtype_accum(musec_dtype dtype)
{
    return dtype == MUSEC_BF16 || dtype == MUSEC_F16 ? MUSEC_F32 : dtype;
}

bool ms_device_has(const ms_device *d, musec_dtype dtype)
{
    return (d->kind->dtypes >> dtype & 1u) != 0;
}

static const struct {
    double eps, tiny, max;
} limits[] = {
    [MUSEC_F32]  = { FLT_EPSILON, FLT_MIN, FLT_MAX },
    [MUSEC_F64]  = { DBL_EPSILON, DBL_MIN, DBL_MAX },
    [MUSEC_BF16] = { 0x1p-7, FLT_MIN, 0x1.fep127 },
    [MUSEC_F16]  = { 0x1p-10, 0x1p-14, 65504.0 },
    [MUSEC_I16]  = { 1.0, 1.0, 32767.0 },
};

double ms_dtype_eps(musec_dtype dtype) { return limits[dtype].eps; }

double ms_dtype_tiny(musec_dtype dtype) { return limits[dtype].tiny; }

double ms_dtype_max(musec_dtype dtype) { return limits[dtype].max; }

/* Saturates, and counts none for sizes below 1: ms_mat_from_view refuses such views. */
static int64_t elements(int64_t rows, int64_t cols)
{
    if (rows < 1 || cols < 1) return 0;
    return rows > INT64_MAX / cols ? INT64_MAX : rows * cols;
}

musec_view musec_view_dense(void *data, musec_dtype dtype, int64_t count, int64_t rows,
                            int64_t cols)
{
    return (musec_view){ .data   = data,
                         .rows   = rows,
                         .cols   = cols,
                         .ld     = cols,
                         .count  = count,
                         .stride = elements(rows, cols),
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

musec_view ms_view_of(ms_mat x)
{
    return (musec_view){ .data   = x.data,
                         .rows   = x.rows,
                         .cols   = x.cols,
                         .ld     = x.ld,
                         .count  = x.count,
                         .stride = x.stride,
                         .dtype  = x.dtype };
}

musec_status ms_mat_from_view(ms_device *d, const char *what, musec_view view, ms_mat *out)
{
    const size_t each  = ms_dtype_bytes(view.dtype);
    size_t       bytes = 0;
    if (view.data == NULL) return ms_fail(&d->error, MUSEC_EINVAL, "%s: data is NULL", what);
    if (each == 0)
        return ms_fail(&d->error, MUSEC_EINVAL, "%s: unknown dtype %d", what, (int)view.dtype);
    if (!ms_device_has(d, view.dtype))
        return ms_fail(&d->error, MUSEC_ENOTSUP, "%s: the device %s has no arithmetic in %s", what,
                       d->name, ms_dtype_name(view.dtype));
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
    if (x.ptrs != NULL) {
        x.ptrs += first;
        x.data = x.ptrs[0].data;
        x.ld   = x.ptrs[0].ld;
        if (count == 1) x.ptrs = NULL;
    } else if (x.data != NULL) {
        x.data = (char *)x.data + (size_t)(first * x.stride) * ms_dtype_bytes(x.dtype);
    }
    x.count = count;
    return x;
}

ms_num ms_num_slice(ms_num n, int64_t first, int64_t count)
{
    if (n.each.data != NULL) n.each = ms_vec_slice(n.each, first, count);
    if (n.host != NULL) n.host += first;
    return n;
}

ms_vec ms_vec_slice(ms_vec v, int64_t first, int64_t count)
{
    return (ms_vec){ .data = v.data == NULL ? NULL : v.data + first, .count = count };
}

ms_mat ms_mat_part(ms_mat x, int64_t row, int64_t rows, int64_t col, int64_t cols)
{
    const int64_t at = x.trans ? col * x.ld + row : row * x.ld + col;
    assert(x.ptrs == NULL);
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
    assert(each > 0); /* the dtype is a known one */
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
    const uint64_t     asked = d->scratch.n_allocs;
    const musec_status st    = ms_arena_take(&d->scratch, bytes, out);
    if (st == MUSEC_ENOMEM && d->scratch.n_allocs == asked) /* else the device has said why */
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
