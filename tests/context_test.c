/* context_test.c - errors of the CUDA device: chips that are too old, missing libraries and
 * devices, allocations that are too large, a lost device; and contexts on several GPUs. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/directory.h"
#include "core/file.h"
#include "device_rig.h"
#include "scratch.h"

#ifdef MS_HAVE_CUDA

#include "device/cuda/cuda.h"

TEST(old_chips_are_refused_by_name)
{
    ms_error e = { "" };
    CHECK(ms_cuda_check_chip(&e, "Tesla V100", 70) == MUSEC_ENOTSUP, "a chip that is too old");
    CHECK(strstr(e.text, "Tesla V100") != NULL && strstr(e.text, "7.0") != NULL &&
              strstr(e.text, "8.0") != NULL,
          "the message: %s", e.text);
    CHECK(ms_cuda_check_chip(&e, "A100", 80) == MUSEC_OK, "%s", e.text);
    CHECK(ms_cuda_check_chip(&e, "a chip to come", 130) == MUSEC_OK, "%s", e.text);
}

TEST(missing_libraries_are_named)
{
    static const char *const none[] = { "libmusec-none.so.1", NULL };
    static const char *const libc[] = { "libm.so.6", NULL };
    void                    *library, *symbol;
    const ms_cuda_symbol     wanted[] = { { "no_such_function", &symbol } };
    ms_error                 e        = { "" };
    CHECK(ms_cuda_library_open(&e, "this test", none, NULL, 0, &library) == MUSEC_EDEVICE,
          "a library that is not there");
    CHECK(strstr(e.text, none[0]) != NULL && strstr(e.text, "this test") != NULL, "the message: %s",
          e.text);
    CHECK(ms_cuda_library_open(&e, "this test", libc, wanted, 1, &library) == MUSEC_EDEVICE,
          "a library without the function");
    CHECK(strstr(e.text, "no_such_function") != NULL && library == NULL, "the message: %s", e.text);
}

TEST(a_device_number_beyond_the_last_is_refused)
{
    ms_device *d = NULL;
    char       why[256];
    CHECK(musec_ctx_create_why(&d, "cuda:1023", why, sizeof why) == MUSEC_EDEVICE, "cuda:1023");
    CHECK(d == NULL && why[0] != '\0', "no message");
}

static void *fill_in_thread(void *arg)
{
    stack *s = arg;
    CHECK_OK(s->d, s->d->ops->fill(s->d, 3.0, s->mat));
    CHECK_OK(s->d, s->d->ops->sync(s->d));
    return NULL;
}

/* Contexts of two GPUs are used in turns, from two threads. */
TEST(every_context_uses_its_own_gpu)
{
    ms_device *d[2] = { check_open_cuda(), NULL };
    stack      s[2], c[2];
    pthread_t  thread;
    char       why[256];
    if (musec_ctx_create_why(&d[1], "cuda:1", why, sizeof why) != MUSEC_OK) {
        musec_ctx_destroy(d[0]);
        SKIP("%s", why);
    }
    for (int i = 0; i < 2; i++)
        s[i] = stack_random(d[i], MUSEC_F32, 1, 64, 64, 1);
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_create(&thread, NULL, fill_in_thread, &s[i]) == 0, "no thread");
        CHECK(pthread_join(thread, NULL) == 0, "no end");
        c[i] = stack_make(d[i], MUSEC_F32, 1, 64, 64);
        CHECK_OK(d[i], d[i]->ops->gemm(d[i], 1.0, s[i].mat, s[i].mat, 0.0, c[i].mat));
    }
    for (int i = 0; i < 2; i++) {
        stack_receive(&c[i]);
        CHECK(ms_at(c[i].host, 0, 63, 63) == 64.0 * 9.0, "%g", ms_at(c[i].host, 0, 63, 63));
        stack_free(&c[i]);
        stack_free(&s[i]);
        musec_ctx_destroy(d[i]);
    }
}

/* The second context that is not deterministic finds the first one's plan.  The third finds a
 * damaged file and times again; the product is the same. */
TEST(timed_plans_are_cached)
{
    ms_names    files = { 0 };
    ms_error    e     = { "" };
    const char *dir   = fresh_dir();
    setenv("MUSEC_CACHE", dir, 1);
    for (int turn = 0; turn < 3; turn++) {
        ms_device *d = check_open_cuda();
        CHECK(musec_ctx_set_deterministic(d, 0) == MUSEC_OK, "not deterministic");
        stack s = stack_make(d, MUSEC_F32, 1, 64, 64), c = stack_make(d, MUSEC_F32, 1, 64, 64);
        CHECK_OK(d, d->ops->fill(d, 3.0, s.mat));
        CHECK_OK(d, d->ops->gemm(d, 1.0, s.mat, s.mat, 0.0, c.mat));
        stack_receive(&c);
        CHECK(ms_at(c.host, 0, 63, 63) == 64.0 * 9.0, "%g", ms_at(c.host, 0, 63, 63));
        stack_free(&c), stack_free(&s);
        musec_ctx_destroy(d);
        ms_names_free(&files);
        CHECK_OK_ERR(&e, ms_directory_names(&e, dir, &files));
        CHECK(files.n == 1, "%zu files", files.n);
        if (turn == 1) put_file(path_in(dir, files.at[0]), "no plans", 8);
    }
    ms_names_free(&files);
    unsetenv("MUSEC_CACHE");
}

TEST(too_large_allocations_fail_and_the_device_goes_on)
{
    ms_device *d = check_open_cuda();
    void      *p = NULL;
    CHECK(d->ops->alloc(d, (size_t)1 << 46, &p) == MUSEC_ENOMEM && p == NULL, "64 TiB");
    CHECK(strstr(d->error.text, "free on") != NULL, "the message: %s", d->error.text);
    CHECK(ms_scratch_bytes(d, (size_t)1 << 46, &p) == MUSEC_ENOMEM && p == NULL, "workspace");
    CHECK(strstr(d->error.text, "free on") != NULL, "the message: %s", d->error.text);
    stack s = stack_random(d, MUSEC_F32, 1, 4, 4, 1);
    stack_receive(&s);
    stack_free(&s);
    musec_ctx_destroy(d);
}

/* A write to an invalid address ends all contexts of the process, so this test is the last. */
TEST(a_lost_device_reports_errors)
{
    ms_device *d = check_open_cuda();
    ms_mat     x = { .rows = 64, .cols = 64, .ld = 64, .count = 1, .stride = 64 * 64 };
    void      *p = NULL;
    x.dtype      = MUSEC_F32;
    CHECK_OK(d, d->ops->alloc(d, 64, &x.data));
    x.data = (char *)x.data + ((size_t)1 << 44); /* far beyond a GPU's memory */
    CHECK_OK(d, d->ops->fill(d, 1.0, x));
    CHECK(d->ops->sync(d) == MUSEC_EDEVICE, "writing anywhere");
    CHECK(strstr(d->error.text, "cuda") != NULL, "the message: %s", d->error.text);
    CHECK(d->ops->alloc(d, 64, &p) == MUSEC_EDEVICE, "the device goes on");
    CHECK(d->error.text[0] != '\0', "no message");
    print_message("%s\n", d->error.text);
    musec_ctx_destroy(d);
}

#else

TEST(this_build_has_no_cuda) { SKIP("this build has no CUDA"); }

#endif
