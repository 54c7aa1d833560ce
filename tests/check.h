/* check.h - the assertions and the runner that every test program uses, on top of cmocka.
 *
 * A bound reads `err <= tol` inside CHECK, so NaN fails.  A test that cannot run says why through
 * SKIP and counts as skipped, never as passed; a part of a test does so through SKIP_PART.  A
 * program ends with the line "N passed, N failed, N skipped", and exits with 77 if nothing ran.
 *
 * The environment selects what a test program runs:
 *     MUSEC_TEST_FILTER=PATTERN  only tests whose names match the pattern of a shell
 *     MUSEC_TEST_DEVICE=KIND     only this device, in tests that run on each device
 *     MUSEC_TEST_CASES=N         one in N of the cases of tests that have many
 *     MUSEC_TEST_CASES=K/N       piece K of N of them, from 1: all N pieces are all cases
 *     MUSEC_TEST_SEED=N          inputs drawn from seed N instead of 1; "random" draws the seed too
 *     MUSEC_TEST_LIST=1          no test; the names are printed */
#ifndef MS_TESTS_CHECK_H
#define MS_TESTS_CHECK_H

/* cmocka.h needs these before it */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "device/device.h"

/* Fails the running test with a formatted message; the condition's text is printed too. */
#define CHECK(cond, ...)                                                   \
    do {                                                                   \
        if (!(cond)) check_failed(__FILE__, __LINE__, #cond, __VA_ARGS__); \
    } while (0)

/* The call must return MUSEC_OK; otherwise the message in the device or the ms_error is shown. */
#define CHECK_OK(dev, call) CHECK_OK_ERR(&(dev)->error, call)
#define CHECK_OK_ERR(err, call)                                                            \
    do {                                                                                   \
        const musec_status check_st = (call);                                              \
        if (check_st != MUSEC_OK)                                                          \
            check_failed(__FILE__, __LINE__, #call, "%s: %s", musec_status_name(check_st), \
                         (err)->text);                                                     \
    } while (0)

/* The call must fail with this status, and its message must contain `words`. */
#define CHECK_FAILS(err, call, status, words)                                       \
    do {                                                                            \
        const musec_status check_st = (call);                                       \
        if (check_st != (status) || strstr((err)->text, words) == NULL)             \
            check_failed(__FILE__, __LINE__, #call, "%s, not %s with '%s': %s",     \
                         musec_status_name(check_st), #status, words, (err)->text); \
    } while (0)

/* TEST(name) { ... } is a test.  It registers itself before main() begins, and a program runs its
 * tests in the order in which they stand in the file.  A program needs no main() of its own: the
 * one in check_main.c calls check_main(). */
#define TEST(name) TEST_TEARDOWN(name, NULL)

/* TEST with a function that runs after the test, whether it passed or failed. */
#define TEST_TEARDOWN(name, tear_down)                             \
    static void                              name(void);           \
    __attribute__((constructor)) static void name##_register(void) \
    {                                                              \
        check_register(#name, name, tear_down);                    \
    }                                                              \
    static void name(void)

/* Functions that run once, before the first test and after the last; either may be NULL. */
#define TEST_GROUP(set_up, tear_down)                             \
    __attribute__((constructor)) static void register_group(void) \
    {                                                             \
        check_register_group(set_up, tear_down);                  \
    }

/* Ends the running test, which counts as skipped; the arguments give the reason. */
#define SKIP(...) (check_print_skipped(__VA_ARGS__), check_end_skipped(__FILE__, __LINE__))

/* Counts one part of the running test (a case, a file, a format) as skipped.  The test goes on, and
 * counts as passed as well if the rest of it passes. */
#define SKIP_PART(...) (check_print_skipped(__VA_ARGS__), check_count_skipped_part())

/* TEST_EACH_DEVICE(name, dev) { ... } is a test that runs its body on every device of this build
 * that can be opened here, `dev` being an ms_device *.  A device that cannot be opened counts as a
 * skipped part; a test that was skipped on all devices counts as skipped. */
#define TEST_EACH_DEVICE(name, dev)                     \
    static void name##_on(ms_device *dev);              \
    TEST(name) { check_each_device(#name, name##_on); } \
    static void name##_on(ms_device *dev)

/* In the body of TEST_EACH_DEVICE: the test does not apply to this device. */
#define SKIP_DEVICE(...)                  \
    do {                                  \
        check_print_skipped(__VA_ARGS__); \
        check_skip_device();              \
        return;                           \
    } while (0)

/* Runs the statement that follows for each dtype up to `last` that the device supports, in the
 * order f32, f64, bf16, f16. */
#define EACH_DTYPE_OF(dev, t, last)                                        \
    for (musec_dtype t = MUSEC_F32; t <= (last); t = (musec_dtype)(t + 1)) \
        if (ms_device_has(dev, t))

_Noreturn void check_failed(const char *file, int line, const char *cond, const char *fmt, ...)
    MS_PRINTF(4, 5);
void           check_register(const char *name, void (*body)(void), CMFixtureFunction tear_down);
void           check_register_group(CMFixtureFunction set_up, CMFixtureFunction tear_down);
void           check_print_skipped(const char *fmt, ...) MS_PRINTF(1, 2);
_Noreturn void check_end_skipped(const char *file, int line);
void           check_count_skipped_part(void);
void           check_skip_device(void);
void           check_each_device(const char *name, void (*body)(ms_device *dev));

/* Runs the registered tests as the environment says and returns the exit status. */
int check_main(void);

/* Restricts TEST_EACH_DEVICE to one kind of device. */
void check_only(const char *kind);

/* Opens a context on a device, or fails the running test. */
ms_device *check_open(const char *device);

/* Makes of dev one that has neither bf16 nor f16; *kind, which describes it then, must live on. */
void check_take_16bit(ms_device *dev, ms_device_kind *kind);

/* Opens a context on a GPU; where there is none, skips the running test with the reason. */
ms_device *check_open_cuda(void);

/* Is the case of this number to be run, by MUSEC_TEST_CASES?  One in N: the case `first`, and
 * each that is a multiple of N away. */
bool check_takes_number(uint64_t number, uint64_t first);

/* The same of the next case; the first is number 0. */
bool check_takes_case(void);

/* The seed of random inputs: 1 unless MUSEC_TEST_SEED says otherwise.  It is printed once. */
uint64_t check_seed(void);

/* Zeroed memory to be freed by the caller; the test fails where there is none. */
void *check_alloc(size_t bytes);

/* Where the tests' data is: tests/data of the source tree, or below the working directory if the
 * program was carried to another machine. */
const char *check_data_dir(void);

/* $MUSEC_DATA, or ../shared/data beside the checkout; NULL if neither exists. */
const char *check_shared_data_dir(void);

/* An empty temporary directory of this test program, removed when it exits. */
const char *check_tmp_dir(void);

#endif
