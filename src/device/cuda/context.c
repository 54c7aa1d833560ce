/* context.c - the CUDA device: opening it, its memory, its errors.
 *
 * A context has one GPU and may be used from any thread, by one at a time: whatever touches its GPU
 * first makes it the calling thread's current one (ms_cuda_of).
 *
 * Uploads, and downloads of a few numbers, go through page-locked staging slots, so that the
 * caller's memory is free again when the call returns, and an upload waits only when all slots are
 * in use.  A failure of queued work is reported by the next call that waits; after that the context
 * cannot be used, and its message says why. */
#define _POSIX_C_SOURCE 200809L /* access */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "device/cuda/cuda.h"
#include "device/gpus.h"

/* ---- the current device ---------------------------------------------------------------------- */

ms_cuda *ms_cuda_of(ms_device *d)
{
    ms_cuda *c   = d->impl;
    int      now = -1;
    if (c == NULL || !c->is_open) return c;
    /* asking is cheaper than setting; where setting fails, the next call fails and reports it */
    if (cudaGetDevice(&now) != cudaSuccess || now != c->index) (void)cudaSetDevice(c->index);
    return c;
}

/* ---- errors ---------------------------------------------------------------------------------- */

static bool is_lost(cudaError_t code)
{
    switch (code) {
    case cudaErrorAssert:
    case cudaErrorDevicesUnavailable:
    case cudaErrorDeviceUninitialized:
    case cudaErrorECCUncorrectable:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorMisalignedAddress:
    case cudaErrorNoDevice:
    case cudaErrorSystemNotReady: return true;
    default: return false;
    }
}

musec_status ms_cuda_status(ms_device *d, cudaError_t code, const char *what)
{
    size_t left = 0, all = 0;
    if (code == cudaSuccess) return MUSEC_OK;
    d->n_failures++;
    if (code == cudaErrorMemoryAllocation && cudaMemGetInfo(&left, &all) != cudaSuccess) all = 0;
    (void)cudaGetLastError(); /* else the next launch would report it; fatal errors persist */
    if (code == cudaErrorMemoryAllocation && all > 0)
        return ms_fail(&d->error, MUSEC_ENOMEM,
                       "%s: %s: out of memory: %.1f of %.1f GiB are free on %s", d->name, what,
                       (double)left / 0x1p30, (double)all / 0x1p30, ms_cuda_of(d)->chip);
    if (code == cudaErrorMemoryAllocation)
        return ms_fail(&d->error, MUSEC_ENOMEM, "%s: %s: out of memory", d->name, what);
    return ms_fail(&d->error, MUSEC_EDEVICE, "%s: %s: %s%s", d->name, what,
                   cudaGetErrorString(code),
                   is_lost(code) ? "; the device is lost to this program" : "");
}

musec_status ms_cuda_library_status(ms_device *d, bool full, const char *library, const char *what,
                                    const char *said)
{
    const musec_status st   = full ? MUSEC_ENOMEM : MUSEC_EDEVICE;
    size_t             left = 0, all = 0;
    d->n_failures++;
    if (cudaMemGetInfo(&left, &all) == cudaSuccess && all > 0)
        return ms_fail(&d->error, st, "%s: %s: %s: %s%s; %.1f of %.1f GiB of memory are free",
                       d->name, library, what, full ? "out of memory: " : "", said,
                       (double)left / 0x1p30, (double)all / 0x1p30);
    (void)cudaGetLastError(); /* else the next launch would report it */
    return ms_fail(&d->error, st, "%s: %s: %s: %s%s", d->name, library, what,
                   full ? "out of memory: " : "", said);
}

/* ---- memory and stream ----------------------------------------------------------------------- */

static musec_status cuda_alloc(ms_device *d, size_t bytes, void **out)
{
    char what[64];
    *out = NULL;
    (void)ms_cuda_of(d);
    snprintf(what, sizeof what, "allocating %zu bytes", bytes);
    return ms_cuda_status(d, cudaMalloc(out, bytes > 0 ? bytes : 1), what);
}

static void cuda_free(ms_device *d, void *p)
{
    if (p == NULL) return; /* even cudaFree(NULL) would initialise the runtime */
    (void)ms_cuda_of(d);
    (void)cudaFree(p);
}

static musec_status upload_piece(ms_device *d, const void *host, size_t bytes, void *device)
{
    ms_cuda     *c    = ms_cuda_of(d);
    const int    slot = c->next_slot;
    musec_status st   = MUSEC_OK;
    d->n_uploads++;
    c->next_slot = (slot + 1) % MS_CUDA_STAGING_SLOTS;
    TRY(ms_cuda_status(d, cudaEventSynchronize(c->staging[slot].free), "upload"));
    memcpy(c->staging[slot].host, host, bytes);
    TRY(ms_cuda_status(
        d, cudaMemcpyAsync(device, c->staging[slot].host, bytes, cudaMemcpyHostToDevice, c->stream),
        "upload"));
    TRY(ms_cuda_status(d, cudaEventRecord(c->staging[slot].free, c->stream), "upload"));
done:
    return st;
}

static musec_status cuda_upload(ms_device *d, const void *host, size_t bytes, void *device)
{
    musec_status st = MUSEC_OK;
    for (size_t at = 0; at < bytes && st == MUSEC_OK; at += MS_CUDA_STAGING) {
        const size_t n = bytes - at < MS_CUDA_STAGING ? bytes - at : MS_CUDA_STAGING;
        st             = upload_piece(d, (const char *)host + at, n, (char *)device + at);
    }
    return st;
}

static musec_status cuda_sync(ms_device *d)
{
    d->n_waits++;
    return ms_cuda_status(d, cudaStreamSynchronize(ms_cuda_of(d)->stream), "queued work");
}

/* A few numbers go through page-locked memory, which is faster than the driver's own staging: a
 * step waits for them. */
static musec_status cuda_download(ms_device *d, const void *device, size_t bytes, void *host)
{
    ms_cuda     *c     = ms_cuda_of(d);
    const int    slot  = c->next_slot;
    const bool   small = bytes <= MS_CUDA_SMALL;
    void        *to    = small ? c->staging[slot].host : host;
    musec_status st    = MUSEC_OK;
    if (bytes == 0) return cuda_sync(d);
    if (small) {
        c->next_slot = (slot + 1) % MS_CUDA_STAGING_SLOTS;
        TRY(ms_cuda_status(d, cudaEventSynchronize(c->staging[slot].free), "download"));
    }
    TRY(ms_cuda_status(d, cudaMemcpyAsync(to, device, bytes, cudaMemcpyDeviceToHost, c->stream),
                       "download"));
    TRY(cuda_sync(d));
    if (small) memcpy(host, to, bytes);
done:
    return st;
}

static musec_status cuda_now_ms(ms_device *d, double *ms)
{
    const musec_status st = cuda_sync(d);
    *ms                   = ms_clock_ms();
    return st;
}

void ms_cuda_memory_ops(ms_device_ops *table)
{
    table->alloc    = cuda_alloc;
    table->free     = cuda_free;
    table->upload   = cuda_upload;
    table->download = cuda_download;
    table->sync     = cuda_sync;
    table->now_ms   = cuda_now_ms;
}

musec_status ms_device_cuda_alloc_host(ms_device *d, size_t bytes, void **out)
{
    *out = NULL;
    (void)ms_cuda_of(d);
    return ms_cuda_status(d, cudaMallocHost(out, bytes > 0 ? bytes : 1), "page-locked memory");
}

void ms_device_cuda_free_host(ms_device *d, void *p)
{
    if (p == NULL) return;
    (void)ms_cuda_of(d);
    (void)cudaFreeHost(p);
}

/* ---- opening and closing --------------------------------------------------------------------- */

musec_status ms_cuda_check_chip(ms_error *e, const char *chip, int capability)
{
    if (capability < MS_CUDA_CHIP_MIN)
        return ms_fail(e, MUSEC_ENOTSUP,
                       "cuda: %s has compute capability %d.%d; this program needs %d.%d or later "
                       "(A100, H100 and their like)",
                       chip, capability / 10, capability % 10, MS_CUDA_CHIP_MIN / 10,
                       MS_CUDA_CHIP_MIN % 10);
    return MUSEC_OK;
}

int ms_device_cuda_count(void)
{
    struct cudaDeviceProp p;
    ms_error              ignored;
    int                   n = 0, usable = 0;
    if (cudaGetDeviceCount(&n) != cudaSuccess) n = 0;
    while (usable < n && cudaGetDeviceProperties(&p, usable) == cudaSuccess &&
           ms_cuda_check_chip(&ignored, p.name, p.major * 10 + p.minor) == MUSEC_OK)
        usable++;
    (void)cudaGetLastError();
    return usable;
}

bool ms_device_cuda_is_likely(void)
{
    static const char *const signs[] = { "/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg",
                                         "/proc/driver/nvidia" };
    void                    *driver;

    for (size_t i = 0; i < COUNT(signs); i++)
        if (access(signs[i], F_OK) == 0) return true;
    driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver != NULL) dlclose(driver);
    return driver != NULL;
}

static musec_status find_chip(ms_device *d, ms_cuda *c, int index)
{
    const uint64_t        step_most = (uint64_t)16 << 30;
    struct cudaDeviceProp p;
    int                   n  = 0;
    const cudaError_t     rc = cudaGetDeviceCount(&n);
    if (rc == cudaErrorInsufficientDriver)
        return ms_fail(&d->error, MUSEC_EDEVICE,
                       "cuda: there is no NVIDIA driver here, or it is older than CUDA %d.%d",
                       CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    if (rc == cudaErrorMemoryAllocation) return ms_cuda_status(d, rc, "looking for devices");
    if (rc != cudaSuccess)
        return ms_fail(&d->error, MUSEC_EDEVICE, "cuda: %s", cudaGetErrorString(rc));
    if (index >= n)
        return ms_fail(&d->error, MUSEC_EDEVICE,
                       "there is no %s: this machine has %d CUDA device%s", d->name, n,
                       n == 1 ? "" : "s");
    const cudaError_t asked = cudaGetDeviceProperties(&p, index);
    if (asked != cudaSuccess) return ms_cuda_status(d, asked, "asking what the device is");
    c->index           = index;
    c->n_devices       = n;
    c->capability      = p.major * 10 + p.minor;
    d->fuses_epilogues = c->capability == 90; /* hopper_gemm_1x1.cu */
    c->sm_count        = p.multiProcessorCount;
    c->shared_bytes    = (int)p.sharedMemPerBlockOptin;
    c->memory          = p.totalGlobalMem;
    snprintf(c->chip, sizeof c->chip, "%s", p.name);
    /* Few models have so many matrices that more workspace would make a step faster. */
    if (c->memory / 8 > d->workspace)
        d->workspace = c->memory / 8 < step_most ? c->memory / 8 : step_most;
    return ms_cuda_check_chip(&d->error, c->chip, c->capability);
}

static musec_status take_queue(ms_device *d, ms_cuda *c)
{
    musec_status st = MUSEC_OK;
    TRY(ms_cuda_status(d, cudaSetDevice(c->index), "choosing the device"));
    c->use_pdl = ms_cuda_use_pdl(c);
    TRY(ms_cuda_status(d, cudaStreamCreateWithFlags(&c->own_stream, cudaStreamNonBlocking),
                       "a queue"));
    c->stream  = c->own_stream;
    c->is_open = true;
    TRY(ms_cuda_status(d, cudaEventCreateWithFlags(&c->moved, cudaEventDisableTiming), "a queue"));
    TRY(ms_cuda_status(d, cudaMalloc(&c->workspace, MS_CUDA_WORKSPACE), "workspace"));
    for (int i = 0; i < MS_CUDA_STAGING_SLOTS; i++) {
        TRY(ms_cuda_status(d, cudaMallocHost(&c->staging[i].host, MS_CUDA_STAGING), "staging"));
        TRY(ms_cuda_status(d, cudaEventCreateWithFlags(&c->staging[i].free, cudaEventDisableTiming),
                           "staging"));
    }
done:
    return st;
}

void ms_device_cuda_close(ms_device *d)
{
    ms_cuda *c = ms_cuda_of(d);
    if (c == NULL) return;
    ms_cuda_library_preload_join(c);
    if (c->is_open) (void)cudaStreamSynchronize(c->stream);
    ms_cuda_dnn_free(d);
    ms_cuda_solver_free(d);
    ms_cuda_blas_free(d);
    for (int i = 0; i < MS_CUDA_STAGING_SLOTS; i++) {
        if (c->staging[i].free != NULL) (void)cudaEventDestroy(c->staging[i].free);
        if (c->staging[i].host != NULL) (void)cudaFreeHost(c->staging[i].host);
    }
    cuda_free(d, c->workspace);
    if (c->moved != NULL) (void)cudaEventDestroy(c->moved);
    if (c->own_stream != NULL) (void)cudaStreamDestroy(c->own_stream);
    free(c);
    d->impl = NULL;
}

musec_status ms_device_cuda_open(ms_device *d, int index)
{
    ms_cuda     *c      = calloc(1, sizeof *c);
    ms_caller    caller = { 0 };
    musec_status st     = MUSEC_OK;
    if (c == NULL) return ms_fail(&d->error, MUSEC_ENOMEM, "not enough memory");
    d->impl = c;
    TRY(find_chip(d, c, index));
    ms_cuda_find_current(c);
    caller = ms_device_cuda_enter(d);
    ms_cuda_library_preload(c);
    TRY(take_queue(d, c));
done:
    if (st != MUSEC_OK) ms_device_cuda_close(d);
    ms_device_leave(caller);
    return st;
}

/* ---- description ----------------------------------------------------------------------------- */

void ms_device_cuda_describe(ms_device *d, char *text, size_t bytes)
{
    void (*const libraries[])(ms_device *, char *, size_t) = { ms_cuda_blas_describe,
                                                               ms_cuda_solver_describe,
                                                               ms_cuda_dnn_describe };
    const ms_cuda *c                                       = ms_cuda_of(d);
    int            driver                                  = 0;
    size_t         used;
    char           library[256];

    if (cudaDriverGetVersion(&driver) != cudaSuccess) driver = 0;
    used = (size_t)snprintf(text, bytes,
                            "%s (%d of %d), %.1f GiB, compute capability %d.%d, driver for CUDA "
                            "%d.%d, built with %d.%d",
                            c->chip, c->index + 1, c->n_devices, (double)c->memory / 0x1p30,
                            c->capability / 10, c->capability % 10, driver / 1000,
                            driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    for (size_t i = 0; i < COUNT(libraries) && used < bytes; i++) {
        libraries[i](d, library, sizeof library);
        used += (size_t)snprintf(text + used, bytes - used, ", %s", library);
    }
}

void ms_device_cuda_identify(ms_device *d, char text[MS_DEVICE_ID])
{
    struct cudaDeviceProp p;
    const ms_cuda        *c    = ms_cuda_of(d);
    int                   used = snprintf(text, MS_DEVICE_ID, "GPU ");

    if (cudaGetDeviceProperties(&p, c->index) != cudaSuccess) {
        snprintf(text, MS_DEVICE_ID, "%s", d->name);
        return;
    }
    for (size_t i = 0; i < sizeof p.uuid.bytes; i++)
        used += snprintf(text + used, MS_DEVICE_ID - (size_t)used, "%02x",
                         (unsigned)(unsigned char)p.uuid.bytes[i]);
}

ms_memory ms_device_cuda_memory(ms_device *d)
{
    size_t left = 0, all = 0;
    (void)d;
    if (cudaMemGetInfo(&left, &all) == cudaSuccess)
        return (ms_memory){ .available = left, .total = all };
    (void)cudaGetLastError(); /* else the next launch would report it */
    return (ms_memory){ 0 };
}

void ms_device_cuda_ops(ms_device_ops *table)
{
    *table = (ms_device_ops){ .name = "cuda" };
    ms_cuda_memory_ops(table);
    ms_cuda_gemm_ops(table);
    ms_cuda_product_ops(table);
    ms_cuda_solver_ops(table);
    ms_cuda_element_ops(table);
    ms_cuda_combine_ops(table);
    ms_cuda_update_ops(table);
    ms_cuda_random_ops(table);
    ms_cuda_reduce_ops(table);
    ms_cuda_scalar_ops(table);
    ms_cuda_norm_ops(table);
    ms_cuda_rope_ops(table);
    ms_cuda_gate_ops(table);
    ms_cuda_blend_ops(table);
    ms_cuda_exclude_ops(table);
    ms_cuda_network_ops(table);
    ms_cuda_embed_ops(table);
    ms_cuda_loss_ops(table);
    ms_cuda_attention_ops(table);
}
