/* stream.c - what a CUDA context shares with its caller, a stream and the thread's current GPU; and
 * graphs of what is queued.
 *
 * Work moves from one stream to another by an event: what is queued on the new one comes behind all
 * that was queued on the old one.  A stream that is being captured does not wait so, for the graph
 * runs when it is launched, behind what its stream then has before it.
 *
 * What is current on a thread is known to the driver, and to each copy of the runtime that is
 * linked into the process: the number of a device, which it takes where the driver has no context.
 * A framework has a copy of its own, so the driver's context is what it shares with us, and putting
 * that back is what it needs.  A thread that had none is left with none, rather than with a context
 * of device 0 that nobody asked for. */
#include <cuda.h>

#include "device/cuda/cuda.h"

typedef CUresult (*get_current_fn)(CUcontext *);
typedef CUresult (*set_current_fn)(CUcontext);

void (*ms_cuda_driver_function(const char *name))(void)
{
    enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    union {
        void *data;
        void (*function)(void);
    } symbol = { NULL };
#if CUDART_VERSION >= 12050
    const cudaError_t code =
        cudaGetDriverEntryPointByVersion(name, &symbol.data, 12000, cudaEnableDefault, &found);
#else
    const cudaError_t code = cudaGetDriverEntryPoint(name, &symbol.data, cudaEnableDefault, &found);
#endif
    if (code != cudaSuccess) (void)cudaGetLastError();
    return code == cudaSuccess && found == cudaDriverEntryPointSuccess ? symbol.function : NULL;
}

/* ---- the current device ---------------------------------------------------------------------- */

void ms_cuda_find_current(ms_cuda *c)
{
    c->get_current = ms_cuda_driver_function("cuCtxGetCurrent");
    c->set_current = ms_cuda_driver_function("cuCtxSetCurrent");
}

static void restore(ms_caller then)
{
    if (then.set_current == NULL) {
        (void)cudaSetDevice(then.device);
        return;
    }
    if (then.context != NULL) (void)cudaSetDevice(then.device); /* its context is there already */
    (void)((set_current_fn)then.set_current)(then.context);
}

ms_caller ms_device_cuda_enter(ms_device *d)
{
    const ms_cuda *c      = d->impl;
    ms_caller      caller = { .set_current = c->set_current, .restore = restore };
    CUcontext      now    = NULL;
    if (c->get_current == NULL || c->set_current == NULL)
        caller.set_current = NULL;
    else if (((get_current_fn)c->get_current)(&now) == CUDA_SUCCESS)
        caller.context = now;
    if (cudaGetDevice(&caller.device) != cudaSuccess) caller.restore = NULL;
    return caller;
}

/* ---- the stream ------------------------------------------------------------------------------ */

/* The legacy stream cannot be asked, and is not being captured, while another one is. */
static bool is_captured(cudaStream_t stream)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    if (cudaStreamIsCapturing(stream, &status) != cudaSuccess) (void)cudaGetLastError();
    return status == cudaStreamCaptureStatusActive;
}

void *ms_device_cuda_stream(ms_device *d) { return ms_cuda_of(d)->stream; }

musec_status ms_device_cuda_set_stream(ms_device *d, void *stream)
{
    ms_cuda     *c    = ms_cuda_of(d);
    cudaStream_t was  = c->stream;
    cudaStream_t next = stream == MUSEC_OWN_STREAM ? c->own_stream : (cudaStream_t)stream;
    musec_status st   = MUSEC_OK;
    if (next == was) return MUSEC_OK;
    if (is_captured(was))
        return ms_fail(&d->error, MUSEC_EINVAL,
                       "%s: the context's stream is being captured; end the capture before the "
                       "context is given another stream",
                       d->name);
    if (!is_captured(next)) {
        TRY(ms_cuda_status(d, cudaEventRecord(c->moved, was), "leaving a stream"));
        TRY(ms_cuda_status(d, cudaStreamWaitEvent(next, c->moved, 0), "taking a stream"));
    }
    c->stream = next;
    TRY(ms_cuda_solver_follow(d));
    TRY(ms_cuda_dnn_follow(d));
done:
    if (st != MUSEC_OK) c->stream = was;
    return st;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* The context's own stream is recorded, whatever the caller's is: the legacy stream cannot be.  In
 * this mode other threads may allocate meanwhile. */

bool ms_device_cuda_can_record(ms_device *d) { return !is_captured(ms_cuda_of(d)->stream); }

musec_status ms_device_cuda_record(ms_device *d)
{
    ms_cuda     *c  = ms_cuda_of(d);
    musec_status st = MUSEC_OK;
    TRY(ms_cuda_status(d, cudaStreamBeginCapture(c->own_stream, cudaStreamCaptureModeThreadLocal),
                       "recording a graph"));
    c->recorded_for = c->stream;
    c->stream       = c->own_stream;
done:
    return st;
}

musec_status ms_device_cuda_record_end(ms_device *d, void **graph)
{
    ms_cuda        *c        = ms_cuda_of(d);
    cudaGraph_t     recorded = NULL;
    cudaGraphExec_t run      = NULL;
    musec_status    st       = MUSEC_OK;
    *graph                   = NULL;
    c->stream                = c->recorded_for;
    TRY(ms_cuda_status(d, cudaStreamEndCapture(c->own_stream, &recorded), "recording a graph"));
    TRY(ms_cuda_status(d, cudaGraphInstantiate(&run, recorded, 0), "making a graph"));
    *graph = run;
done:
    if (recorded != NULL) (void)cudaGraphDestroy(recorded);
    return st;
}

musec_status ms_device_cuda_launch_graph(ms_device *d, void *graph)
{
    return ms_cuda_status(d, cudaGraphLaunch(graph, ms_cuda_of(d)->stream), "launching a graph");
}

void ms_device_cuda_free_graph(ms_device *d, void *graph)
{
    (void)ms_cuda_of(d);
    (void)cudaGraphExecDestroy(graph);
}
