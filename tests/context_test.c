/* context_test.c - the CUDA device when something is wrong: chips that are too old, memory that is
 * not there, a device that is lost, libraries that are missing. */
#include <string.h>

#include "check.h"
#include "device_rig.h"

#ifdef MS_HAVE_CUDA

#include "device/cuda/cuda.h"

static void old_chips_are_refused_by_name(void **state)
{
    ms_error e = { "" };
    (void)state;
    CHECK(ms_cuda_check_chip(&e, "Tesla V100", 70) == MUSEC_ENOTSUP, "a chip that is too old");
    CHECK(strstr(e.text, "Tesla V100") != NULL && strstr(e.text, "7.0") != NULL &&
              strstr(e.text, "8.0") != NULL,
          "the words: %s", e.text);
    CHECK(ms_cuda_check_chip(&e, "A100", 80) == MUSEC_OK, "%s", e.text);
    CHECK(ms_cuda_check_chip(&e, "a chip to come", 130) == MUSEC_OK, "%s", e.text);
}

static void missing_libraries_are_named(void **state)
{
    static const char *const none[] = { "libmusec-none.so.1", NULL };
    static const char *const libc[] = { "libm.so.6", NULL };
    void                    *library, *symbol;
    const ms_cuda_symbol     wanted[] = { { "no_such_function", &symbol } };
    ms_error                 e        = { "" };
    (void)state;
    CHECK(ms_cuda_library_open(&e, "this test", none, NULL, 0, &library) == MUSEC_EDEVICE,
          "a library that is not there");
    CHECK(strstr(e.text, none[0]) != NULL && strstr(e.text, "this test") != NULL, "the words: %s",
          e.text);
    CHECK(ms_cuda_library_open(&e, "this test", libc, wanted, 1, &library) == MUSEC_EDEVICE,
          "a library without the function");
    CHECK(strstr(e.text, "no_such_function") != NULL && library == NULL, "the words: %s", e.text);
}

static ms_device *open_cuda(void)
{
    ms_device *d = NULL;
    char       why[256];
    if (musec_ctx_create_why(&d, "cuda", why, sizeof why) != MUSEC_OK) SKIP("%s", why);
    return d;
}

static void a_device_that_is_not_there(void **state)
{
    ms_device *d = NULL;
    char       why[256];
    (void)state;
    CHECK(musec_ctx_create_why(&d, "cuda:1023", why, sizeof why) == MUSEC_EDEVICE, "cuda:1023");
    CHECK(d == NULL && why[0] != '\0', "no words");
}

/* After a refusal, all goes on. */
static void memory_that_is_not_there(void **state)
{
    ms_device *d = open_cuda();
    (void)state;
    void *p = NULL;
    CHECK(d->ops->alloc(d, (size_t)1 << 46, &p) == MUSEC_ENOMEM && p == NULL, "64 TiB");
    CHECK(strstr(d->error.text, "free on") != NULL, "the words: %s", d->error.text);
    stack s = stack_random(d, MUSEC_F32, 1, 4, 4, 1);
    stack_receive(&s);
    stack_free(&s);
    musec_ctx_destroy(d);
}

/* A write to where there is no memory takes the whole context down: last, for others of this
 * program go with it. */
static void a_lost_device_says_so(void **state)
{
    ms_device *d = open_cuda();
    ms_mat     x = { .rows = 64, .cols = 64, .ld = 64, .count = 1, .stride = 64 * 64 };
    void      *p = NULL;
    (void)state;
    x.dtype = MUSEC_F32;
    CHECK_OK(d, d->ops->alloc(d, 64, &x.data));
    x.data = (char *)x.data + ((size_t)1 << 44); /* far beyond all that a GPU has */
    CHECK_OK(d, d->ops->fill(d, 1.0, x));
    CHECK(d->ops->sync(d) == MUSEC_EDEVICE, "writing anywhere");
    CHECK(strstr(d->error.text, "cuda") != NULL, "the words: %s", d->error.text);
    CHECK(d->ops->alloc(d, 64, &p) == MUSEC_EDEVICE, "and it is not lost");
    CHECK(d->error.text[0] != '\0', "no words");
    print_message("%s\n", d->error.text);
    musec_ctx_destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_chips_are_refused_by_name),
        cmocka_unit_test(missing_libraries_are_named),
        cmocka_unit_test(a_device_that_is_not_there),
        cmocka_unit_test(memory_that_is_not_there),
        cmocka_unit_test(a_lost_device_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static void this_build_has_no_cuda(void **state)
{
    (void)state;
    SKIP("this build has no CUDA");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(this_build_has_no_cuda) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
