/* dlpack.h - all weights and gradients of a Python program, looked at by one call.
 *
 * Before each step a binding asks of every weight whether it is still what the library was told,
 * and of every gradient whether it is there, what it is and where it lies.  Asked in Python, that
 * is a call for each question and tensor, and takes longer than the step takes to queue.  DLPack's
 * C exchange API (DLPack 1.3) has a function that describes a tensor without owning it.  PyTorch
 * 2.11 has it: the capsule "dlpack_exchange_api" in torch.Tensor.__dlpack_c_exchange_api__.
 *
 * This library is linked with neither Python nor DLPack: their functions are handed over, and who
 * calls holds the interpreter's lock (ctypes: PyDLL) and keeps lists and tensors alive. */
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

/* What is asked, and of which library; start from { 0 }. */
typedef struct musec_tensor_look {
    uint32_t size; /* sizeof in the caller */
    /* May gradients be f32, bf16 or f16 whatever the weight is?  0: of the weight's dtype alone. */
    uint32_t mixed;
    /* DLPackExchangeAPI.dltensor_from_py_object_no_sync: 0, or an exception is set */
    int (*describe)(void *object, musec_dltensor *tensor);
    void *(*item)(void *list, ptrdiff_t index); /* PyList_GetItem: a borrowed reference */
    void (*clear)(void);                        /* PyErr_Clear */
    const void *none;                           /* Py_None */
    const void *types[2]; /* classes whose tensors are what they say; others, also those derived
                              from them, are left to the caller */
    size_t      type_at;  /* where an object has the address of its class:
                              object.__basicsize__ - sizeof(void *) */
    size_t      n;
    const musec_dltensor *told;  /* the n weights as the library was told of them */
    musec_view           *views; /* of the n gradients: data and dtype are written */
    /* n: where the shapes of the weights lay as they were described, or NULL.  A hint, which may
     * be wrong. */
    const void *const *near;
    size_t             n_none; /* written: how many gradients are None, whose data are NULL now */
} musec_tensor_look;

/* Starts to bring the weights, which forward and backward have driven out of the processor's
 * caches, back there, all at once: what asks for them next would wait for one after the other. */
MUSEC_API void musec_fetch_tensors(const musec_tensor_look *look, void *weights);

/* Points the views at the gradients if every weight is what it was, address and all, and every
 * gradient is None or a contiguous tensor of the weight's shape and device and of a dtype that may
 * be.  Returns n then, else the index of the first that is not so: the views of those before it may
 * have been written.  weights and gradients: lists of n objects.  Of `look` NULL or not of this
 * version it returns 0.
 *
 * Not seen here: a tensor that is stored with its sign turned (PyTorch's is_neg), for DLPack does
 * not know of that. */
MUSEC_API size_t musec_look_at_tensors(musec_tensor_look *look, void *weights, void *gradients);

#ifdef __cplusplus
}
#endif
#endif
