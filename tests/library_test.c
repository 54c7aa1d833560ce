/* library_test.c - which version of a library is opened at run time. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#ifdef MS_HAVE_CUDA

#include <dlfcn.h>

#include "device/cuda/cuda.h"

static const char *const names[] = { "libms_stub.so.13", "libms_stub.so.12", NULL };

/* The version that is opened. */
static int opened(void)
{
    int (*version)(void)           = NULL;
    void                *library   = NULL;
    ms_error             e         = { 0 };
    const ms_cuda_symbol symbols[] = { { "ms_stub_version", (void **)&version } };
    CHECK_OK_ERR(&e, ms_cuda_library_open(&e, "tests", names, symbols, COUNT(symbols), &library));
    const int found = version();
    ms_cuda_library_close(library);
    return found;
}

TEST(the_newest_is_opened) { CHECK(opened() == 13, "not the first name"); }

TEST(what_the_process_has_loaded_comes_first)
{
    void *theirs = dlopen(MS_TEST_STUBS "/libms_stub.so.12", RTLD_NOW | RTLD_LOCAL);
    CHECK(theirs != NULL, "%s", dlerror());
    const int found = opened();
    dlclose(theirs);
    CHECK(found == 12, "%d", found);
    CHECK(opened() == 13, "it is no longer loaded");
}

TEST(what_is_missing_is_named)
{
    static const char *const none[]  = { "libms_none.so.13", "libms_none.so.12", NULL };
    void                    *library = NULL;
    ms_error                 e       = { 0 };
    CHECK_FAILS(&e, ms_cuda_library_open(&e, "tests", none, NULL, 0, &library), MUSEC_EDEVICE,
                "libms_none.so.13 is missing: it is needed for tests");
}

#else

TEST(this_build_has_no_cuda) { SKIP("this build has no CUDA"); }

#endif
