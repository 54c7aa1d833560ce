/* device.c - from a name ("cpu") to a device: the kinds that are compiled in, and contexts. */
#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/names.h"
#include "core/thread.h"
#include "device/gpus.h"

/* ---- kinds and contexts ---------------------------------------------------------------------- */

enum {
    ALL_DTYPES = 1u << MUSEC_F32 | 1u << MUSEC_F64 | 1u << MUSEC_BF16 | 1u << MUSEC_F16,
    IN_CACHE   = 1 << 21, /* elements: 8 MiB of float32 */
    ON_CPU     = 1 << 25, /* elements: 128 MiB of float32, 667 rows of GPT-2's vocabulary */
    ON_GPU     = 1 << 28, /* elements: the products are large, and there is memory enough */
};

static const ms_device_kind kinds[] = {
/* in order of preference: the default is the first that opens */
#ifdef MS_HAVE_CUDA
    { .name             = "cuda",
      .description      = "NVIDIA GPUs: cuBLASLt, cuSOLVER, cuDNN and kernels of our own",
      .dtypes           = ALL_DTYPES,
      .compute_dtype    = MUSEC_F16,
      .activation_dtype = MUSEC_BF16,
      .logits_chunk     = ON_GPU,
      .workspace        = (uint64_t)8 << 30,
      .batch_variant    = true,
      .attn_workspace   = ms_device_cuda_attn_workspace,
      .ops              = ms_device_cuda_ops,
      .open             = ms_device_cuda_open,
      .is_likely        = ms_device_cuda_is_likely,
      .close            = ms_device_cuda_close,
      .memory           = ms_device_cuda_memory,
      .alloc_host       = ms_device_cuda_alloc_host,
      .free_host        = ms_device_cuda_free_host,
      .identify         = ms_device_cuda_identify,
      .set_stream       = ms_device_cuda_set_stream,
      .stream           = ms_device_cuda_stream,
      .enter            = ms_device_cuda_enter,
      .can_record       = ms_device_cuda_can_record,
      .record           = ms_device_cuda_record,
      .record_end       = ms_device_cuda_record_end,
      .launch_graph     = ms_device_cuda_launch_graph,
      .free_graph       = ms_device_cuda_free_graph,
      .describe         = ms_device_cuda_describe },
#endif
    { .name             = "cpu",
      .description      = "CBLAS, LAPACKE and threads",
      .dtypes           = ALL_DTYPES,
      .compute_dtype    = MUSEC_F32,
      .activation_dtype = MUSEC_F32,
      .logits_chunk     = ON_CPU,
      .workspace        = (uint64_t)1 << 30,
      .widens           = true,
      .ops              = ms_device_cpu_ops,
      .open             = ms_device_cpu_open,
      .close            = ms_device_cpu_close,
      .set_threads      = ms_device_cpu_set_threads,
      .describe         = ms_device_cpu_describe },
    { .name             = "ref",
      .description      = "plain loops in float64: slow, the definition of every op",
      .dtypes           = ALL_DTYPES,
      .compute_dtype    = MUSEC_F32,
      .activation_dtype = MUSEC_F32,
      .logits_chunk     = IN_CACHE,
      .workspace        = (uint64_t)1 << 30,
      .ops              = ms_device_ref_ops },
};

const ms_device_kind *ms_device_kind_at(size_t index)
{
    return index < COUNT(kinds) ? &kinds[index] : NULL;
}

int ms_device_gpus(void)
{
#ifdef MS_HAVE_CUDA
    return ms_device_cuda_count();
#else
    return 0;
#endif
}

/* "cuda:1" is kind "cuda", index 1.  NULL: there is no such kind, or the index is not a number. */
static const ms_device_kind *find_kind(const char *name, int *index)
{
    const size_t length = strcspn(name, ":");
    *index              = 0;
    if (name[length] == ':') {
        char      *end = NULL;
        const long n   = strtol(name + length + 1, &end, 10);
        if (end == name + length + 1 || *end != '\0' || n < 0 || n > 1023) return NULL;
        *index = (int)n;
    }
    for (size_t i = 0; i < COUNT(kinds); i++)
        if (strlen(kinds[i].name) == length && strncmp(kinds[i].name, name, length) == 0)
            return &kinds[i];
    return NULL;
}

static musec_status unknown(ms_error *why, const char *name)
{
    const char *known[COUNT(kinds)];
    char        names[128] = "";
    size_t      used       = 0;

    for (size_t i = 0; i < COUNT(kinds); i++) {
        known[i] = kinds[i].name;
        if (used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i == 0 ? "" : ", ",
                                     known[i]);
    }
#ifndef MS_HAVE_CUDA
    if (strncmp(name, "cuda", 4) == 0 || strcmp(name, "gpu") == 0)
        return ms_fail(why, MUSEC_EINVAL,
                       "there is no device \"%s\": this build is without CUDA, it has %s; build "
                       "musec where nvcc is installed for GPUs",
                       name, names);
#endif
    return ms_fail(why, MUSEC_EINVAL, "there is no device \"%s\"; this build has %s%s", name, names,
                   ms_name_hint_of(name, known, COUNT(known)).text);
}

static musec_status open_kind(const ms_device_kind *kind, int index, musec_ctx **out, ms_error *why)
{
    ms_device   *d  = calloc(1, sizeof *d);
    musec_status st = MUSEC_OK;
    if (d == NULL) return ms_fail(why, MUSEC_ENOMEM, "not enough memory");
    kind->ops(&d->table);
    ms_device_count_memory(d);
    d->ops           = &d->table;
    d->kind          = kind;
    d->workspace     = kind->workspace;
    d->deterministic = true;
    snprintf(d->name, sizeof d->name, index > 0 ? "%s:%d" : "%s", kind->name, index);
    if (kind->open != NULL)
        st = kind->open(d, index);
    else if (index > 0) /* a kind without an open function has one device */
        st = ms_fail(&d->error, MUSEC_EINVAL,
                     "there is one device \"%s\", not \"%s\"; leave the number out", kind->name,
                     d->name);
    if (st == MUSEC_OK) {
        *out = d;
    } else {
        *why = d->error;
        free(d);
    }
    return st;
}

/* Like the public function; on success why->text may name a device that did not open, or is "". */
static musec_status create(musec_ctx **out, const char *device, ms_error *why)
{
    musec_status st     = MUSEC_EDEVICE;
    ms_error     failed = { "" };
    int          index  = 0;
    why->text[0]        = '\0';
    if (device != NULL) {
        const ms_device_kind *kind = find_kind(device, &index);
        if (kind != NULL) return open_kind(kind, index, out, why);
        return unknown(why, device);
    }
    for (size_t i = 0; i < COUNT(kinds) && st != MUSEC_OK && st != MUSEC_ENOMEM; i++) {
        st = open_kind(&kinds[i], 0, out, &failed);
        if (st != MUSEC_OK && st != MUSEC_ENOMEM &&
            (kinds[i].is_likely == NULL || kinds[i].is_likely()))
            *why = failed;
    }
    if (st != MUSEC_OK) *why = failed;
    return st;
}

musec_status musec_ctx_create_why(musec_ctx **out, const char *device, char *why, size_t bytes)
{
    ms_error     words = { "" };
    musec_status st    = MUSEC_EINVAL;
    if (out == NULL) {
        ms_error_set(&words, "there is nowhere to put the context: out is NULL");
    } else {
        *out = NULL;
        st   = create(out, device, &words);
    }
    ms_error_copy(&words, why, bytes);
    return st;
}

musec_status musec_ctx_create(musec_ctx **out, const char *device)
{
    return musec_ctx_create_why(out, device, NULL, 0);
}

musec_status musec_ctx_set_deterministic(musec_ctx *ctx, int deterministic)
{
    if (ctx == NULL) return MUSEC_EINVAL;
    ctx->deterministic = deterministic != 0;
    return MUSEC_OK;
}

musec_status musec_ctx_set_threads(musec_ctx *ctx, int threads)
{
    enum { MAX_THREADS = 1024 };
    if (ctx == NULL) return MUSEC_EINVAL;
    if (ctx->kind->set_threads == NULL)
        return ms_fail(&ctx->error, MUSEC_ENOTSUP, "the device \"%s\" has no threads to set",
                       ctx->name);
    if (threads < 0 || threads > MAX_THREADS)
        return ms_fail(&ctx->error, MUSEC_EINVAL, "%d threads: from 1 to %d, or 0 for the default",
                       threads, MAX_THREADS);
    return ctx->kind->set_threads(ctx, threads > 0 ? threads : ms_thread_count());
}

ms_caller ms_device_enter(ms_device *d)
{
    return d->kind->enter != NULL ? d->kind->enter(d) : (ms_caller){ 0 };
}

void ms_device_leave(ms_caller caller)
{
    if (caller.restore != NULL) caller.restore(caller);
}

musec_status musec_ctx_set_stream(musec_ctx *ctx, void *stream)
{
    if (ctx == NULL) return MUSEC_EINVAL;
    const ms_caller caller = ms_device_enter(ctx);
    musec_status    st     = MUSEC_OK;
    if (ctx->kind->set_stream != NULL) {
        void *const was = ctx->kind->stream(ctx);
        st              = ctx->kind->set_stream(ctx, stream);
        if (ctx->n_taken == 0)
            ctx->n_streams = 0;
        else if (was != ctx->kind->stream(ctx))
            ctx->n_streams++;
    } else if (stream != NULL && stream != MUSEC_OWN_STREAM)
        st = ms_fail(&ctx->error, MUSEC_ENOTSUP,
                     "the device \"%s\" has no streams: give NULL or MUSEC_OWN_STREAM", ctx->name);
    ms_device_leave(caller);
    return st;
}

musec_status musec_ctx_sync(musec_ctx *ctx)
{
    if (ctx == NULL) return MUSEC_EINVAL;
    const ms_caller    caller = ms_device_enter(ctx);
    const musec_status st     = ctx->ops->sync(ctx);
    ms_device_leave(caller);
    return st;
}

const char *musec_ctx_error(const musec_ctx *ctx) { return ctx == NULL ? "" : ctx->error.text; }

const char *musec_ctx_device(const musec_ctx *ctx) { return ctx == NULL ? "" : ctx->name; }

void musec_ctx_destroy(musec_ctx *ctx)
{
    if (ctx == NULL) return;
    const ms_caller caller = ms_device_enter(ctx);
    ms_arena_destroy(&ctx->scratch);
    if (ctx->kind->close != NULL) ctx->kind->close(ctx);
    if (ctx->free_attached != NULL) ctx->free_attached(ctx->attached);
    free(ctx);
    ms_device_leave(caller);
}
