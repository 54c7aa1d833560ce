/* dlpack.c - weights and gradients of a Python program (include/musec/dlpack.h).
 *
 * Of an object only its class is read, and what the caller's functions say of it.  An exception
 * that such a function sets is cleared: the caller inspects that tensor by itself, and meets it
 * there. */
#include <musec/dlpack.h>

#include <stdbool.h>
#include <string.h>

#include "core/sized.h"

enum { DL_FLOAT = 2, DL_BFLOAT = 4 }; /* DLDataTypeCode */

static const struct {
    uint8_t     code, bits;
    musec_dtype dtype;
} dtypes[] = {
    { DL_FLOAT, 32, MUSEC_F32 },
    { DL_BFLOAT, 16, MUSEC_BF16 },
    { DL_FLOAT, 16, MUSEC_F16 },
    { DL_FLOAT, 64, MUSEC_F64 },
};

/* Has a description one of our dtypes? */
static bool find_dtype(const musec_dltensor *t, musec_dtype *dtype)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (t->code != dtypes[i].code || t->bits != dtypes[i].bits || t->lanes != 1) continue;
        *dtype = dtypes[i].dtype;
        return true;
    }
    return false;
}

static bool describe(const musec_tensor_inspection *in, void *object, musec_dltensor *t)
{
    const void *type;
    if (object == NULL) {
        in->clear();
        return false;
    }
    memcpy(&type, (const char *)object + in->type_offset, sizeof type);
    if (type != in->types[0] && type != in->types[1]) return false;
    *t = (musec_dltensor){ 0 };
    if (in->describe(object, t) != 0) {
        in->clear();
        return false;
    }
    return t->data != NULL && t->byte_offset == 0 && t->ndim >= 0 &&
           (t->ndim == 0 || (t->shape != NULL && t->strides != NULL));
}

static bool same_shape(const musec_dltensor *a, const musec_dltensor *b)
{
    return a->ndim == b->ndim &&
           (a->ndim == 0 || memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0);
}

static bool same_place(const musec_dltensor *a, const musec_dltensor *b)
{
    return a->device_type == b->device_type && a->device_id == b->device_id;
}

static bool is_as_expected(const musec_dltensor *t, const musec_dltensor *expected)
{
    return t->data == expected->data && same_place(t, expected) && t->code == expected->code &&
           t->bits == expected->bits && t->lanes == expected->lanes && same_shape(t, expected) &&
           (t->ndim == 0 ||
            memcmp(t->strides, expected->strides, (size_t)t->ndim * sizeof *t->strides) == 0);
}

/* Strides of dimensions of one element mean nothing. */
static bool is_contiguous(const musec_dltensor *t)
{
    int64_t step = 1;
    for (int32_t k = t->ndim - 1; k >= 0; k--) {
        if (t->shape[k] != 1 && t->strides[k] != step) return false;
        step *= t->shape[k]; /* the weight's shape: no overflow */
    }
    return true;
}

static bool point_at(const musec_tensor_inspection *in, const musec_dltensor *grad,
                     const musec_dltensor *weight, musec_view *view)
{
    musec_dtype dtype, other;
    if (!find_dtype(grad, &dtype) || !find_dtype(weight, &other)) return false;
    if (dtype != other && (in->any_grad_dtype == 0 || dtype == MUSEC_F64 || other == MUSEC_F64))
        return false;
    if (!same_place(grad, weight) || !same_shape(grad, weight) || !is_contiguous(grad))
        return false;
    view->data  = grad->data;
    view->dtype = dtype;
    return true;
}

void musec_prefetch_tensors(const musec_tensor_inspection *in, void *weights)
{
    enum { LINE = 64, AROUND = 2 * LINE }; /* bytes: a tensor's shape lies amid what else it is */
    if (in == NULL || in->size != sizeof *in || in->shape_hints == NULL) return;
    for (size_t i = 0; i < in->n; i++) {
        const void *weight = in->item(weights, (ptrdiff_t)i);
        if (weight == NULL) in->clear(); /* musec_inspect_tensors says which one */
        __builtin_prefetch(weight);
        for (intptr_t at = -AROUND; at <= AROUND; at += LINE)
            __builtin_prefetch((const void *)((uintptr_t)in->shape_hints[i] + (uintptr_t)at));
    }
}

size_t musec_inspect_tensors(musec_tensor_inspection *in, void *weights, void *gradients)
{
    size_t n_none = 0;
    if (in == NULL || in->size != sizeof *in) return 0;
    for (size_t i = 0; i < in->n; i++) {
        musec_dltensor t;
        if (!describe(in, in->item(weights, (ptrdiff_t)i), &t) ||
            !is_as_expected(&t, &in->expected[i]))
            return i;
        void *grad = in->item(gradients, (ptrdiff_t)i);
        if (grad == in->none) {
            in->views[i].data = NULL;
            n_none++;
        } else if (!describe(in, grad, &t) || !point_at(in, &t, &in->expected[i], &in->views[i])) {
            return i;
        }
    }
    in->n_none = n_none;
    return in->n;
}
