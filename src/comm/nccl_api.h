/* nccl_api.h - the part of NCCL that is used, as its header declares it.
 *
 * NCCL does not come with CUDA, and where a program is built it may be absent: so its header is not
 * needed.  All of it is of NCCL 2.14, the first that needs not block, and the same since. */
#ifndef MS_COMM_NCCL_API_H
#define MS_COMM_NCCL_API_H

#include <stddef.h>

enum { MS_NCCL_VERSION_MIN = 21400, MS_NCCL_ID = 128 };

enum { MS_NCCL_SUCCESS = 0, MS_NCCL_IN_PROGRESS = 7 };        /* ncclResult_t */
enum { MS_NCCL_BYTES = 1, MS_NCCL_F32 = 7, MS_NCCL_F64 = 8 }; /* ncclDataType_t */
enum { MS_NCCL_SUM = 0 };                                     /* ncclRedOp_t */

typedef struct ms_nccl_id { /* ncclUniqueId */
    char internal[MS_NCCL_ID];
} ms_nccl_id;

/* ncclConfig_t as NCCL 2.14 had it; later ones take so much of it as `size` says, and defaults. */
typedef struct ms_nccl_config {
    size_t       size;
    unsigned int magic;
    unsigned int version;
    int          blocking;
} ms_nccl_config;

#define MS_NCCL_CONFIG_MAGIC 0xcafebeefu

typedef void *ms_nccl_handle; /* ncclComm_t */

/* name, arguments; all return an ncclResult_t */
#define MS_NCCL_FUNCTIONS(X)                                                              \
    X(ncclGetVersion, (int *))                                                            \
    X(ncclGetUniqueId, (ms_nccl_id *))                                                    \
    X(ncclCommInitRankConfig, (ms_nccl_handle *, int, ms_nccl_id, int, ms_nccl_config *)) \
    X(ncclCommGetAsyncError, (ms_nccl_handle, int *))                                     \
    X(ncclCommFinalize, (ms_nccl_handle))                                                 \
    X(ncclCommDestroy, (ms_nccl_handle))                                                  \
    X(ncclCommAbort, (ms_nccl_handle))                                                    \
    X(ncclGroupStart, (void))                                                             \
    X(ncclGroupEnd, (void))                                                               \
    X(ncclReduce, (const void *, void *, size_t, int, int, int, ms_nccl_handle, void *))  \
    X(ncclBroadcast, (const void *, void *, size_t, int, int, ms_nccl_handle, void *))    \
    X(ncclSend, (const void *, size_t, int, int, ms_nccl_handle, void *))                 \
    X(ncclRecv, (void *, size_t, int, int, ms_nccl_handle, void *))

typedef struct ms_nccl_api {
#define X(name, args) int(*name) args;
    MS_NCCL_FUNCTIONS(X)
#undef X
    const char *(*ncclGetErrorString)(int);
    const char *(*ncclGetLastError)(ms_nccl_handle);
} ms_nccl_api;

#endif
