/* allocator.c - device memory from the caller: a framework's pool in place of malloc or cudaMalloc.
 *
 * The rows alloc and free of every context come through here.  They count what is out, because an
 * allocator can only be changed where nothing is: what one has given another cannot take back.
 *
 * A pool gives memory out again as soon as it is freed, to work on the stream that it was taken for
 * first.  Where the context's stream was changed in between, work on the new one may still use it:
 * then a free waits for that.  The workspace, which may be given back after every call, knows
 * whether it was. */
#include <stdint.h>

#include "device/device.h"

enum { ALIGN = 64 }; /* bytes, as `alloc` promises */

static void *stream_of(ms_device *d) { return d->kind->stream != NULL ? d->kind->stream(d) : NULL; }

static musec_status callers_alloc(ms_device *d, size_t bytes, void **out)
{
    const musec_allocator *a = &d->allocator;
    *out                     = a->alloc(bytes > 0 ? bytes : 1, stream_of(d), a->user);
    if (*out == NULL)
        return ms_fail(&d->error, MUSEC_ENOMEM, "%s: the caller's allocator has no %zu bytes",
                       d->name, bytes);
    if ((uintptr_t)*out % ALIGN != 0) {
        const void *where = *out;
        a->free(*out, stream_of(d), a->user);
        *out = NULL;
        return ms_fail(&d->error, MUSEC_EINVAL,
                       "%s: the caller's allocator gave the address %p, not a multiple of %d",
                       d->name, where, ALIGN);
    }
    return MUSEC_OK;
}

static musec_status counted_alloc(ms_device *d, size_t bytes, void **out)
{
    const musec_status st =
        d->allocator.alloc != NULL ? callers_alloc(d, bytes, out) : d->own_alloc(d, bytes, out);
    if (st == MUSEC_OK) d->n_taken++;
    return st;
}

static void give_back(ms_device *d, void *p, bool waits)
{
    if (p == NULL) return;
    d->n_taken--;
    if (d->allocator.alloc == NULL) {
        d->own_free(d, p);
        return;
    }
    if (waits) (void)d->ops->sync(d); /* a lost device: the memory goes with it */
    d->allocator.free(p, stream_of(d), d->allocator.user);
}

static void counted_free(ms_device *d, void *p) { give_back(d, p, d->n_streams > 0); }

static musec_status scratch_alloc(void *owner, size_t bytes, void **out)
{
    ms_device *d = owner;
    if (d->scratch.n_chunks == 0) d->scratch_streams = d->n_streams;
    return d->ops->alloc(d, bytes, out);
}

static void scratch_free(void *owner, void *p)
{
    ms_device *d = owner;
    give_back(d, p, d->scratch_streams != d->n_streams);
}

void ms_device_count_memory(ms_device *d)
{
    d->own_alloc   = d->table.alloc;
    d->own_free    = d->table.free;
    d->table.alloc = counted_alloc;
    d->table.free  = counted_free;
    ms_arena_init(&d->scratch, d, scratch_alloc, scratch_free);
}

musec_status musec_ctx_trim(musec_ctx *ctx)
{
    if (ctx == NULL) return MUSEC_EINVAL;
    const ms_caller caller = ms_device_enter(ctx);
    if (ctx->scratch.in_use == 0) ms_arena_destroy(&ctx->scratch);
    ms_device_leave(caller);
    return MUSEC_OK;
}

musec_status musec_ctx_set_allocator(musec_ctx *ctx, const musec_allocator *allocator)
{
    if (ctx == NULL) return MUSEC_EINVAL;
    if (allocator != NULL && (allocator->alloc == NULL || allocator->free == NULL))
        return ms_fail(&ctx->error, MUSEC_EINVAL,
                       "an allocator needs both functions, alloc and free");
    if (ctx->n_taken > 0)
        return ms_fail(&ctx->error, MUSEC_EINVAL,
                       "%zu pieces of memory are in use already: set the allocator right after "
                       "the context is created",
                       ctx->n_taken);
    ctx->allocator = allocator != NULL ? *allocator : (musec_allocator){ 0 };
    return MUSEC_OK;
}
