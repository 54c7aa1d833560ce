/* cuda.h - what the files of the CUDA device share.
 *
 * C files have the host's part: memory, libraries, plans.  .cu files have kernels and their
 * launchers, and export only the functions declared below.  All work of a context goes to one
 * stream, its own or the caller's, so memory of the scratch arena may be released while work on it
 * is still queued.
 *
 * The CUDA runtime is linked statically and starts without a driver; cuBLASLt, cuSOLVER and cuDNN
 * are opened when first needed (library.c).  So one program runs with and without a GPU. */
#ifndef MS_DEVICE_CUDA_CUDA_H
#define MS_DEVICE_CUDA_CUDA_H

#include <cuda_runtime_api.h>
#include <pthread.h>

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    MS_CUDA_CHIP_MIN      = 80,       /* compute capability 8.0 */
    MS_CUDA_CHIP_DNN      = 90,       /* Hopper, where cuDNN's attention takes packs */
    MS_CUDA_GROUP_MAX     = 64,       /* matrices of a grouped op whose pointers fit a launch */
    MS_CUDA_WORKSPACE     = 64 << 20, /* bytes, for cuBLASLt */
    MS_CUDA_STAGING       = 8 << 20,  /* bytes of a slot of page-locked memory */
    MS_CUDA_STAGING_SLOTS = 4,
    MS_CUDA_SMALL         = 64 << 10, /* bytes of a download that goes through a slot */
};

/* Kernels that need TMA and wgmma. */
typedef enum ms_cuda_hopper {
    MS_CUDA_GEMM_1X1,
    MS_CUDA_GEMM_2X1,
    MS_CUDA_ATTENTION,
    MS_CUDA_ATTENTION_GRAD,
    MS_CUDA_HOPPER_KINDS
} ms_cuda_hopper;

typedef struct ms_cuda {
    int          index, n_devices; /* which of how many */
    char         chip[256];
    int          capability;   /* 90 for 9.0 */
    int          sm_count;     /* multiprocessors */
    int          shared_bytes; /* shared memory that one block may have, opted in */
    bool         use_pdl;      /* programmatic dependent launch: pdl_wait_trigger of kernel.cuh */
    size_t       memory;       /* bytes */
    bool         is_open;
    cudaStream_t stream;       /* where all work goes: own_stream, or the caller's */
    cudaStream_t own_stream;   /* NULL, the legacy default stream, until it is made */
    cudaStream_t recorded_for; /* `stream` while own_stream is recorded in its place */
    cudaEvent_t  moved;        /* what was queued before the stream was changed is done */
    /* the driver's cuCtxGetCurrent and cuCtxSetCurrent */
    void (*get_current)(void);
    void (*set_current)(void);
    void *workspace; /* MS_CUDA_WORKSPACE bytes of device memory, for cuBLASLt */
    struct {
        void       *host; /* page-locked */
        cudaEvent_t free; /* the upload from it is done */
    } staging[MS_CUDA_STAGING_SLOTS];
    int next_slot;
    /* kernels for Hopper (tensor_map.cuh): the driver's cuTensorMapEncodeTiled, NULL until it is
     * needed, and whether each kind of kernel can be used */
    void (*encode_tensor_map)(void);
    struct {
        bool probed, usable;
    } hopper[MS_CUDA_HOPPER_KINDS];
    /* each is made at its first use and freed by its file */
    struct ms_cuda_blas   *blas;          /* gemm_plan.c */
    struct ms_cuda_solver *solver;        /* solver.c */
    struct ms_cuda_dnn    *dnn;           /* attention_dnn.c */
    pthread_t              preloader;     /* library.c: the thread that opens libraries */
    bool                   is_preloading; /* it was started */
} ms_cuda;

/* Returns the context's state and makes its GPU the calling thread's current one, since other
 * contexts or the caller may have set another since the last call.  Whatever touches the GPU calls
 * it first; public calls restore the GPU that was current before (ms_device_enter). */
ms_cuda *ms_cuda_of(ms_device *d);

/* Returns a function of the driver, which is not linked, as it was in CUDA 12.0, or NULL. */
void (*ms_cuda_driver_function(const char *name))(void);

/* Returns MUSEC_OK, or reports "cuda: attention: an illegal memory access was encountered". */
musec_status ms_cuda_status(ms_device *d, cudaError_t code, const char *what);
/* Reports "cuda: cuSOLVER: starting: an internal error", and how much memory is free: libraries do
 * not always say that it is memory that they lack.  `full`: this one does. */
musec_status ms_cuda_library_status(ms_device *d, bool full, const char *library, const char *what,
                                    const char *said);
/* May a chip of this capability be used?  The message says what is needed. */
musec_status ms_cuda_check_chip(ms_error *e, const char *chip, int capability);

void ms_cuda_find_current(ms_cuda *c); /* stream.c: what ms_device_enter needs */

/* ---- libraries that are opened at run time (library.c) --------------------------------------- */

typedef struct ms_cuda_symbol {
    const char *name;
    void      **to;
} ms_cuda_symbol;

/* Opens the first of `names` (NULL ends them) that the process has loaded, else the first that is
 * found where the system looks for libraries or where CUDA is usually installed, and resolves the
 * symbols.  The message names what is missing and its purpose. */
musec_status ms_cuda_library_open(ms_error *e, const char *purpose, const char *const *names,
                                  const ms_cuda_symbol *symbols, size_t n_symbols, void **out);
void         ms_cuda_library_close(void *library); /* accepts NULL */

/* Starts a thread that opens cuBLASLt, hundreds of megabytes, while the driver initialises the
 * device. */
void ms_cuda_library_preload(ms_cuda *c);
void ms_cuda_library_preload_join(ms_cuda *c); /* waits for the thread, if there is one */

/* ---- the files: the rows of the op table that each sets, and what each frees ----------------- */

bool ms_cuda_use_pdl(const ms_cuda *c);           /* scalars.cu: see use_pdl */
void ms_cuda_memory_ops(ms_device_ops *table);    /* context.c: memory and queue */
void ms_cuda_gemm_ops(ms_device_ops *table);      /* gemm.c: gemm */
void ms_cuda_product_ops(ms_device_ops *table);   /* product.c: product */
void ms_cuda_solver_ops(ms_device_ops *table);    /* solver.c: svd, eigh */
void ms_cuda_element_ops(ms_device_ops *table);   /* element.cu: copies, factors, diagonals */
void ms_cuda_combine_ops(ms_device_ops *table);   /* combine.cu: axpby, combine */
void ms_cuda_update_ops(ms_device_ops *table);    /* update.cu: optimizers */
void ms_cuda_random_ops(ms_device_ops *table);    /* random.cu: normal, uniform */
void ms_cuda_reduce_ops(ms_device_ops *table);    /* reduce.cu: reductions */
void ms_cuda_scalar_ops(ms_device_ops *table);    /* scalars.cu: scalars */
void ms_cuda_norm_ops(ms_device_ops *table);      /* norm.cu: rmsnorm and its gradient */
void ms_cuda_rope_ops(ms_device_ops *table);      /* rope.cu: rope and its gradient */
void ms_cuda_gate_ops(ms_device_ops *table);      /* gate.cu: gate and its gradient */
void ms_cuda_exclude_ops(ms_device_ops *table);   /* exclude.cu: exclude and its gradient */
void ms_cuda_blend_ops(ms_device_ops *table);     /* blend.cu: sums of rows, and their gradient */
void ms_cuda_network_ops(ms_device_ops *table);   /* network.cu: unary, mix, their gradients */
void ms_cuda_embed_ops(ms_device_ops *table);     /* embed.cu: embed and its gradient */
void ms_cuda_loss_ops(ms_device_ops *table);      /* loss.cu: xent */
void ms_cuda_attention_ops(ms_device_ops *table); /* attention.c: chooses among those below */

void ms_cuda_blas_free(ms_device *d); /* each does nothing where nothing was made */
void ms_cuda_solver_free(ms_device *d);
void ms_cuda_dnn_free(ms_device *d);

/* Give the handles of the libraries, where there are any, the context's present stream.  cuBLASLt
 * is given it by each call. */
musec_status ms_cuda_solver_follow(ms_device *d);
musec_status ms_cuda_dnn_follow(ms_device *d);

/* Describe the libraries for `musec info`: "cuBLASLt 13.1.0", or why it is missing. */
void ms_cuda_blas_describe(ms_device *d, char *text, size_t bytes);
void ms_cuda_solver_describe(ms_device *d, char *text, size_t bytes);
void ms_cuda_dnn_describe(ms_device *d, char *text, size_t bytes);

/* ---- attention: five implementations, operands as in the op table ---------------------------- */

typedef struct ms_cuda_attn {
    ms_attn a;
    ms_mat  q, k, v, out, lse;
    ms_vec  max_logit;        /* forward, always given */
    ms_mat  dout, dq, dk, dv; /* backward */
} ms_cuda_attn;

/* Does the implementation support these operands on this device?  Where that cannot be told, for
 * want of memory or because the device is lost, the status says so: another implementation would
 * give other bits. */
musec_status ms_cuda_attention_dnn_supports(ms_device *d, const ms_cuda_attn *x, bool backward,
                                            bool *supported);
bool         ms_cuda_attention_mma_supports(ms_device *d, const ms_cuda_attn *x, bool backward);
musec_status ms_cuda_attention_wgmma_supports(ms_device *d, const ms_cuda_attn *x, bool *supported);
musec_status ms_cuda_attention_wgmma_grad_supports(ms_device *d, const ms_cuda_attn *x,
                                                   bool *supported);

musec_status ms_cuda_attention_dnn(ms_device *d, const ms_cuda_attn *x); /* attention_dnn.c */
musec_status ms_cuda_attention_dnn_grad(ms_device *d, const ms_cuda_attn *x);
musec_status ms_cuda_attention_mma(ms_device *d, const ms_cuda_attn *x);      /* attention_mma.cu */
musec_status ms_cuda_attention_mma_grad(ms_device *d, const ms_cuda_attn *x); /* ..._grad.cu */
musec_status ms_cuda_attention_wgmma(ms_device *d, const ms_cuda_attn *x); /* attention_wgmma.cu */
musec_status ms_cuda_attention_wgmma_grad(ms_device *d, const ms_cuda_attn *x);
musec_status ms_cuda_attention_fallback(ms_device          *d,
                                        const ms_cuda_attn *x); /* attention_fallback.cu */
musec_status ms_cuda_attention_fallback_grad(ms_device *d, const ms_cuda_attn *x);

#ifdef __cplusplus
}
#endif
#endif
