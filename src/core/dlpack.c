/* dlpack.c - weights and gradients of a Python program (include/musec/dlpack.h).
 *
 * Objects are looked at in their class alone, and in what the caller's functions say of them.  An
 * exception that such a function sets is cleared: the caller looks at that tensor by itself, and
 * meets it there. */
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

static bool describe(const musec_tensor_look *look, void *object, musec_dltensor *t)
{
    const void *type;
    if (object == NULL) {
        look->clear();
        return false;
    }
    memcpy(&type, (const char *)object + look->type_at, sizeof type);
    if (type != look->types[0] && type != look->types[1]) return false;
    *t = (musec_dltensor){ 0 };
    if (look->describe(object, t) != 0) {
        look->clear();
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

static bool is_as_told(const musec_dltensor *t, const musec_dltensor *told)
{
    return t->data == told->data && same_place(t, told) && t->code == told->code &&
           t->bits == told->bits && t->lanes == told->lanes && same_shape(t, told) &&
           (t->ndim == 0 ||
            memcmp(t->strides, told->strides, (size_t)t->ndim * sizeof *t->strides) == 0);
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

static bool point_at(const musec_tensor_look *look, const musec_dltensor *grad,
                     const musec_dltensor *weight, musec_view *view)
{
    musec_dtype dtype, other;
    if (!find_dtype(grad, &dtype) || !find_dtype(weight, &other)) return false;
    if (dtype != other && (look->mixed == 0 || dtype == MUSEC_F64 || other == MUSEC_F64))
        return false;
    if (!same_place(grad, weight) || !same_shape(grad, weight) || !is_contiguous(grad))
        return false;
    view->data  = grad->data;
    view->dtype = dtype;
    return true;
}

void musec_fetch_tensors(const musec_tensor_look *look, void *weights)
{
    enum { LINE = 64, AROUND = 2 * LINE }; /* bytes: a tensor's shape lies amid what else it is */
    if (look == NULL || look->size != sizeof *look || look->near == NULL) return;
    for (size_t i = 0; i < look->n; i++) {
        const void *weight = look->item(weights, (ptrdiff_t)i);
        if (weight == NULL) look->clear(); /* musec_look_at_tensors says which one */
        __builtin_prefetch(weight);
        for (intptr_t at = -AROUND; at <= AROUND; at += LINE)
            __builtin_prefetch((const void *)((uintptr_t)look->near[i] + (uintptr_t)at));
    }
}

size_t musec_look_at_tensors(musec_tensor_look *look, void *weights, void *gradients)
{
    size_t n_none = 0;
    if (look == NULL || look->size != sizeof *look) return 0;
    for (size_t i = 0; i < look->n; i++) {
        musec_dltensor t;
        if (!describe(look, look->item(weights, (ptrdiff_t)i), &t) ||
            !is_as_told(&t, &look->told[i]))
            return i;
        void *grad = look->item(gradients, (ptrdiff_t)i);
        if (grad == look->none) {
            look->views[i].data = NULL;
            n_none++;
        } else if (!describe(look, grad, &t) ||
                   !point_at(look, &t, &look->told[i], &look->views[i])) {
            return i;
        }
    }
    look->n_none = n_none;
    return look->n;
}
