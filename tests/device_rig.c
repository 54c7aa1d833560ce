/* device_rig.c - operands of single ops: see device_rig.h. */
#include "device_rig.h"

#include <stdlib.h>

#include "check.h"
#include "oracle.h"

stack stack_make(ms_device *d, musec_dtype dtype, int64_t count, int64_t rows, int64_t cols)
{
    stack s     = { .d = d, .bytes = (size_t)(count * rows * cols) * ms_dtype_bytes(dtype) };
    s.mat       = ms_mat_of(musec_view_dense(NULL, dtype, count, rows, cols));
    s.host      = s.mat;
    s.host.data = check_alloc(s.bytes);
    CHECK_OK(d, d->ops->alloc(d, s.bytes, &s.mat.data));
    return s;
}

void stack_send(stack *s)
{
    CHECK_OK(s->d, s->d->ops->upload(s->d, s->host.data, s->bytes, s->mat.data));
    CHECK_OK(s->d, s->d->ops->sync(s->d));
}

void stack_receive(stack *s)
{
    CHECK_OK(s->d, s->d->ops->download(s->d, s->mat.data, s->bytes, s->host.data));
}

void stack_free(stack *s)
{
    s->d->ops->free(s->d, s->mat.data);
    free(s->host.data);
}

void stack_set(stack *s, const double *values)
{
    for (int64_t b = 0, at = 0; b < s->host.count; b++)
        for (int64_t i = 0; i < s->host.rows; i++)
            for (int64_t j = 0; j < s->host.cols; j++, at++)
                ms_put(s->host, b, i, j, values[at]);
    stack_send(s);
}

stack stack_random(ms_device *d, musec_dtype dtype, int64_t count, int64_t rows, int64_t cols,
                   uint64_t seed)
{
    stack   s = stack_make(d, dtype, count, rows, cols);
    double *x = oracle_gaussian(count * rows, cols, seed);
    stack_set(&s, x);
    free(x);
    return s;
}

ms_ids ids_make(ms_device *d, const int32_t *host, int64_t count)
{
    void *data = NULL;
    CHECK_OK(d, d->ops->alloc(d, (size_t)count * sizeof *host, &data));
    CHECK_OK(d, d->ops->upload(d, host, (size_t)count * sizeof *host, data));
    CHECK_OK(d, d->ops->sync(d));
    return (ms_ids){ .data = data, .count = count };
}

ms_vec vec_make(ms_device *d, const double *host, int64_t count)
{
    void *data = NULL;
    CHECK_OK(d, d->ops->alloc(d, (size_t)count * sizeof *host, &data));
    CHECK_OK(d, d->ops->upload(d, host, (size_t)count * sizeof *host, data));
    CHECK_OK(d, d->ops->sync(d));
    return (ms_vec){ .data = data, .count = count };
}

double row_dot(ms_mat x, int64_t xb, int64_t xi, ms_mat y, int64_t yb, int64_t yi)
{
    double sum = 0.0;
    for (int64_t j = 0; j < x.cols; j++)
        sum += ms_at(x, xb, xi, j) * ms_at(y, yb, yi, j);
    return sum;
}
