/* stack.c - see stack.h.  The checks come before any arithmetic, so that their messages can
 * name elements of the file. */
#include "cli/stack.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "core/size.h"

musec_status ms_stack_shape_of(ms_error *error, const char *name, int ndim, const int64_t *shape,
                               int flatten, ms_stack_shape *out)
{
    if (ndim < 2 || (ndim > 3 && !flatten))
        return ms_fail(error, MUSEC_EINVAL,
                       "%s: the array has %d dimension%s; a matrix has 2, a stack of matrices 3",
                       name, ndim, ndim == 1 ? "" : "s");
    for (int i = 0; i < ndim; i++)
        if (shape[i] < 1)
            return ms_fail(error, MUSEC_EINVAL, "%s: the array is empty (dimension %d is %lld)",
                           name, i, (long long)shape[i]);
    if (ndim == 3) {
        *out = (ms_stack_shape){ shape[0], shape[1], shape[2] };
        return MUSEC_OK;
    }
    *out = (ms_stack_shape){ 1, shape[0], 1 };
    for (int i = 1; i < ndim; i++)
        out->cols *= shape[i]; /* the elements are in memory or were counted: no overflow */
    return MUSEC_OK;
}

static size_t elements(const ms_npy *array)
{
    size_t n = 1;
    for (int i = 0; i < array->ndim; i++)
        n *= (size_t)array->shape[i];
    return n;
}

static double element(const ms_npy *array, size_t i)
{
    return array->dtype == MUSEC_F32 ? (double)((const float *)array->data)[i]
                                     : ((const double *)array->data)[i];
}

/* Writes the indices of element `at` of the array, "[1, 0, 3]". */
static void index_text(const ms_npy *array, size_t at, char *text, size_t bytes)
{
    size_t index[MS_NPY_DIMS] = { 0 };
    size_t used               = 0;

    for (int i = array->ndim; i-- > 0;) {
        index[i] = at % (size_t)array->shape[i];
        at /= (size_t)array->shape[i];
    }
    for (int i = 0; i < array->ndim && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%zu", i == 0 ? "[" : ", ", index[i]);
    if (used < bytes) snprintf(text + used, bytes - used, "]");
}

musec_status ms_stack_check_finite(ms_error *error, const char *name, const ms_npy *array)
{
    const size_t n = elements(array);
    char         place[24 * MS_NPY_DIMS];

    for (size_t i = 0; i < n; i++) {
        const double value = element(array, i);
        if (isfinite(value)) continue;
        index_text(array, i, place, sizeof place);
        return ms_fail(error, MUSEC_ENONFINITE,
                       "%s: element %s is %s; every element must be finite", name, place,
                       isnan(value) ? "nan"
                       : value > 0  ? "inf"
                                    : "-inf");
    }
    return MUSEC_OK;
}

musec_status ms_stack_convert(ms_error *error, const char *name, musec_dtype dtype, ms_npy *array)
{
    const size_t n     = elements(array);
    size_t       bytes = 0;
    void        *data;
    char         place[24 * MS_NPY_DIMS];

    if (array->dtype == dtype) return MUSEC_OK;
    data = ms_size_mul(n, ms_dtype_bytes(dtype), &bytes) && bytes > 0 ? malloc(bytes) : NULL;
    if (data == NULL) return ms_fail(error, MUSEC_ENOMEM, "%s: not enough memory", name);
    for (size_t i = 0; i < n; i++) {
        const double value = element(array, i);
        if (dtype == MUSEC_F64)
            ((double *)data)[i] = value;
        else if (!(fabs(value) > FLT_MAX) || isinf(value))
            ((float *)data)[i] = (float)value;
        else {
            free(data);
            index_text(array, i, place, sizeof place);
            return ms_fail(error, MUSEC_EINVAL,
                           "%s: element %s is %g, too large for f32; use --dtype %s", name, place,
                           value, ms_dtype_name(array->dtype));
        }
    }
    free(array->data);
    array->data  = data;
    array->dtype = dtype;
    return MUSEC_OK;
}

static size_t view_bytes(musec_view view) /* ms_stack_alloc has checked that it fits */
{
    return (size_t)view.count * (size_t)view.rows * (size_t)view.cols * ms_dtype_bytes(view.dtype);
}

musec_status ms_stack_alloc(ms_error *error, musec_ctx *ctx, musec_dtype dtype,
                            ms_stack_shape shape, musec_view *out)
{
    size_t bytes = 0;
    void  *data  = NULL;

    if (!ms_size_stack(shape.count, shape.rows, shape.cols, ms_dtype_bytes(dtype), &bytes))
        return ms_fail(error, MUSEC_ENOMEM, "the matrices do not fit into memory");
    if (ctx->ops->alloc(ctx, bytes, &data) != MUSEC_OK)
        return ms_fail(error, MUSEC_ENOMEM, "not enough memory for %zu bytes on %s", bytes,
                       musec_ctx_device(ctx));
    *out = musec_view_dense(data, dtype, shape.count, shape.rows, shape.cols);
    return MUSEC_OK;
}

musec_status ms_stack_upload(ms_error *error, musec_ctx *ctx, const void *host, musec_view view)
{
    return ms_cli_check(error, ctx, ctx->ops->upload(ctx, host, view_bytes(view), view.data));
}

musec_status ms_stack_download(ms_error *error, musec_ctx *ctx, musec_view view, void *host)
{
    return ms_cli_check(error, ctx, ctx->ops->download(ctx, view.data, view_bytes(view), host));
}

void ms_stack_free(musec_ctx *ctx, musec_view *view)
{
    if (view->data != NULL) ctx->ops->free(ctx, view->data);
    view->data = NULL;
}
