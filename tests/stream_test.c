/* stream_test.c - a context in a stream of the caller's: its work comes in the order of the calls,
 * none of it goes elsewhere, and the thread's current device is the caller's afterwards. */
#include "check.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "device_rig.h"
#include "optim_rig.h"

TEST_EACH_DEVICE(a_device_without_streams_takes_none, dev)
{
    int other = 0;
    CHECK(musec_ctx_set_stream(NULL, NULL) == MUSEC_EINVAL, "no context");
    if (dev->kind->set_stream != NULL) SKIP_DEVICE("it has streams");
    CHECK_OK(dev, musec_ctx_set_stream(dev, NULL));
    CHECK_OK(dev, musec_ctx_set_stream(dev, MUSEC_OWN_STREAM));
    CHECK_FAILS(&dev->error, musec_ctx_set_stream(dev, &other), MUSEC_ENOTSUP, "no streams");
}

#ifdef MS_HAVE_CUDA

#include "device/cuda/cuda.h"

static ms_device *open_cuda(void)
{
    ms_device *dev = NULL;
    char       why[512];
    if (musec_ctx_create_why(&dev, "cuda", why, sizeof why) != MUSEC_OK) SKIP("%s", why);
    return dev;
}

static cudaStream_t make_stream(void)
{
    cudaStream_t stream = NULL;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess, "a stream");
    return stream;
}

static void wait_for_flag(void *flag)
{
    while (!atomic_load((atomic_bool *)flag)) {}
}

/* The caller's stream is held up by a function of the host: work of the context must wait behind
 * it, and leave the context's own stream idle. */
TEST(work_goes_to_the_callers_stream_alone)
{
    ms_device   *dev    = open_cuda();
    ms_cuda     *c      = dev->impl;
    cudaStream_t stream = make_stream();
    stack        x = stack_random(dev, MUSEC_F32, 2, 96, 64, 1), y = x;
    ms_vec       sum  = { 0 };
    atomic_bool  flag = false;
    double       got[2], want[2];
    y         = stack_make(dev, MUSEC_F32, 2, 96, 96);
    sum       = vec_make(dev, (double[]){ 0.0, 0.0 }, 2);
    ms_mat yt = x.mat;
    CHECK_OK(dev, dev->ops->gemm(dev, 1.0, yt, ms_t(yt), 0.0, y.mat)); /* its plan is made here */
    CHECK_OK(dev, dev->ops->sumsq(dev, y.mat, sum));
    CHECK_OK(dev, ms_vec_download(dev, sum, want));
    CHECK_OK(dev, dev->ops->fill(dev, 0.0, y.mat));
    CHECK_OK(dev, musec_ctx_set_stream(dev, stream));
    CHECK(cudaLaunchHostFunc(stream, wait_for_flag, &flag) == cudaSuccess, "holding up");
    CHECK_OK(dev, dev->ops->gemm(dev, 1.0, yt, ms_t(yt), 0.0, y.mat));
    CHECK_OK(dev, dev->ops->sumsq(dev, y.mat, sum));
    CHECK(cudaStreamQuery(stream) == cudaErrorNotReady, "the caller's stream is held up");
    (void)cudaGetLastError();
    CHECK(cudaStreamSynchronize(c->own_stream) == cudaSuccess, "the own stream is idle");
    atomic_store(&flag, true);
    CHECK_OK(dev, ms_vec_download(dev, sum, got));
    CHECK(run_same_bits(got, want, 2), "%g and %g", got[0], want[0]);
    dev->ops->free(dev, sum.data);
    stack_free(&x), stack_free(&y);
    musec_ctx_destroy(dev);
    CHECK(cudaStreamDestroy(stream) == cudaSuccess, "destroying");
}

/* Gradients are copied to their place by the caller's stream, at once before each step. */
TEST(steps_come_behind_what_the_caller_has_queued)
{
    static const rig_param model[] = {
        { .name = "a", .role = MUSEC_ROLE_QK, .rows = 200, .cols = 300 },
        { .name = "v", .role = MUSEC_ROLE_VECTOR, .rows = 1, .cols = 9 },
    };
    static void *const streams[] = { NULL, MUSEC_OWN_STREAM };
    for (int i = 0; i < 3; i++) {
        ms_device   *dev = open_cuda(), *other = open_cuda();
        cudaStream_t made   = make_stream();
        void *const  stream = i < 2 ? streams[i] : made;
        rig want = rig_make(other, "soft-musec", "ns-mode=fast", MUSEC_F32, model, COUNT(model), 5);
        rig got  = rig_make(dev, "soft-musec", "ns-mode=fast", MUSEC_F32, model, COUNT(model), 5);
        CHECK_OK(dev, musec_ctx_set_stream(dev, stream));
        cudaStream_t queue = ((ms_cuda *)dev->impl)->stream;
        for (int step = 0; step < 4; step++) {
            rig_step(&want, step, 1.0);
            for (size_t p = 0; p < COUNT(model); p++)
                CHECK(cudaMemcpyAsync(got.g[p].view.data, want.g[p].view.data,
                                      (size_t)rig_elems(&got, p) * sizeof(float),
                                      cudaMemcpyDeviceToDevice, queue) == cudaSuccess,
                      "copying");
            CHECK_OK(dev, rig_try(&got, 1.0));
            CHECK_OK(dev, musec_ctx_sync(dev)); /* before want's gradients change */
        }
        rig_check_same(&want, &got, "soft-musec", "in the caller's stream");
        CHECK_OK(dev, musec_ctx_set_stream(dev, MUSEC_OWN_STREAM));
        CHECK(((ms_cuda *)dev->impl)->stream == ((ms_cuda *)dev->impl)->own_stream, "its own");
        rig_free(&want), rig_free(&got);
        musec_ctx_destroy(dev), musec_ctx_destroy(other);
        CHECK(cudaStreamDestroy(made) == cudaSuccess, "destroying");
    }
}

TEST(the_current_device_is_the_callers_after_each_call)
{
    int n = 0, now = -1;
    musec_ctx_destroy(open_cuda());
    if (cudaGetDeviceCount(&n) != cudaSuccess || n < 2) SKIP("it needs two GPUs, here are %d", n);
    CHECK(cudaSetDevice(0) == cudaSuccess, "the first");
    ms_device *dev = NULL;
    CHECK(musec_ctx_create(&dev, "cuda:1") == MUSEC_OK, "the second");
    CHECK(cudaGetDevice(&now) == cudaSuccess && now == 0, "after create: %d", now);
    CHECK_OK(dev, musec_ctx_sync(dev));
    CHECK(cudaGetDevice(&now) == cudaSuccess && now == 0, "after sync: %d", now);
    CHECK_OK(dev, musec_ctx_set_stream(dev, NULL));
    CHECK(cudaGetDevice(&now) == cudaSuccess && now == 0, "after set_stream: %d", now);
    musec_ctx_destroy(dev);
    CHECK(cudaGetDevice(&now) == cudaSuccess && now == 0, "after destroy: %d", now);
}

TEST(a_stream_that_is_captured_is_not_left)
{
    ms_device   *dev    = open_cuda();
    cudaStream_t stream = make_stream();
    cudaGraph_t  graph  = NULL;
    stack        x      = stack_random(dev, MUSEC_F32, 1, 8, 8, 1);
    CHECK_OK(dev, musec_ctx_sync(dev));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess, "capture");
    CHECK_OK(dev, musec_ctx_set_stream(dev, stream));
    CHECK_OK(dev, dev->ops->fill(dev, 2.0, x.mat));
    CHECK_FAILS(&dev->error, musec_ctx_set_stream(dev, MUSEC_OWN_STREAM), MUSEC_EINVAL, "capture");
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaSuccess, "the end");
    CHECK_OK(dev, musec_ctx_set_stream(dev, MUSEC_OWN_STREAM));
    CHECK(cudaGraphDestroy(graph) == cudaSuccess, "destroying");
    stack_free(&x);
    musec_ctx_destroy(dev);
    CHECK(cudaStreamDestroy(stream) == cudaSuccess, "destroying");
}

#endif
