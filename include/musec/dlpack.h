/* dlpack.h - inspects all weights and gradients of a Python program by one call.
 *
 * Before each step a binding has to know whether every weight is still the tensor that was added to
 * the optimizer, and which gradients there are, of what dtype and where.  In Python that takes
 * several calls for each tensor, and longer than it takes to queue the step.  DLPack's C exchange
 * API (DLPack 1.3) has a function that describes a tensor without owning it; PyTorch 2.11 offers it
 * as the capsule "dlpack_exchange_api" in torch.Tensor.__dlpack_c_exchange_api__.
 *
 * This library is linked with neither Python nor DLPack: the caller passes their functions, holds
 * the interpreter's lock (ctypes: PyDLL), and keeps lists and tensors alive. */
#ifndef MUSEC_DLPACK_H
#define MUSEC_DLPACK_H

#include <stddef.h>
#include <stdint.h>

#include <musec/musec.h>

#ifdef __cplusplus
extern "C" {
#endif

/* DLTensor of DLPack 1: a tensor whose memory, shape and strides belong to somebody else. */
typedef struct musec_dltensor {
    void    *data;
    int32_t  device_type, device_id;
    int32_t  ndim;
    uint8_t  code, bits; /* of the dtype: 2, 32 is float32; 2, 16 float16; 4, 16 bfloat16 */
    uint16_t lanes;
    int64_t *shape, *strides; /* in elements */
    uint64_t byte_offset;
} musec_dltensor;

/* An inspection: of which tensors, and by whose functions.  Start from { 0 }. */
typedef struct musec_tensor_inspection {
    uint32_t size;           /* sizeof in the caller */
    uint32_t any_grad_dtype; /* 1: gradients may be f32, bf16 or f16 whatever the weight is; 0: they
                                have the weight's dtype */
    /* DLPackExchangeAPI.dltensor_from_py_object_no_sync: 0, or an exception is set */
    int (*describe)(void *object, musec_dltensor *tensor);
    void *(*item)(void *list, ptrdiff_t index); /* PyList_GetItem: a borrowed reference */
    void (*clear)(void);                        /* PyErr_Clear */
    const void *none;                           /* Py_None */
    /* The classes of plain tensors; any other object, also one of a derived class, is left to the
     * caller. */
    const void *types[2];
    /* Where an object has the address of its class: object.__basicsize__ - sizeof(void *). */
    size_t                type_offset;
    size_t                n;
    const musec_dltensor *expected; /* the n weights as the optimizer knows them */
    musec_view           *views;    /* of the n gradients: data and dtype are written */
    /* n: where the shapes of the weights lay when they were described, or NULL.  Read by
     * musec_prefetch_tensors() alone; they may be out of date. */
    const void *const *shape_hints;
    size_t             n_none; /* written: how many gradients are None, whose data are NULL now */
} musec_tensor_inspection;

/* Prefetches the weights, which forward and backward have driven out of the processor's caches, all
 * at once; without it the next access would wait for one after the other. */
MUSEC_API void musec_prefetch_tensors(const musec_tensor_inspection *in, void *weights);

/* Points the views at the gradients if every weight is as expected, its address included, and every
 * gradient is None or a contiguous tensor of the weight's shape, on its device and of a dtype that
 * is allowed.  Returns n then, else the index of the first that is not so: the views of those
 * before it may have been written.  weights and gradients: lists of n objects.  Returns 0 if `in`
 * is NULL or its size is not this version's.
 *
 * DLPack does not describe a tensor that is stored with its sign inverted (PyTorch's is_neg): check
 * that yourself. */
MUSEC_API size_t musec_inspect_tensors(musec_tensor_inspection *in, void *weights, void *gradients);

#ifdef __cplusplus
}
#endif
#endif
