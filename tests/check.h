/* check.h - what every test is written with, on top of cmocka.
 *
 * A bound reads `err <= tol` inside CHECK, so NaN fails.  A test that cannot run says why through
 * SKIP and counts as skipped, never as passed.
 *
 * Under a tool that slows everything down, every test program takes a part of its tests by itself:
 *     MUSEC_TEST_FILTER=PATTERN  those whose names match it, in which * and ? stand for any text
 *     MUSEC_TEST_DEVICE=KIND     on this one of the devices alone
 *     MUSEC_TEST_CASES=N         of the cases of those with many, one in N
 *     MUSEC_TEST_SEED=N          inputs of device_ops_test drawn from another seed
 *     MUSEC_TEST_LIST=1          none, their names are printed */
#ifndef MS_TESTS_CHECK_H
#define MS_TESTS_CHECK_H

/* cmocka wants these before it */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "device/device.h"

/* Fails the running test with a formatted message; the condition's text is printed too. */
#define CHECK(cond, ...)                                                   \
    do {                                                                   \
        if (!(cond)) check_failed(__FILE__, __LINE__, #cond, __VA_ARGS__); \
    } while (0)

/* The call must return MUSEC_OK; otherwise the device's words are shown. */
#define CHECK_OK(dev, call)                                                                \
    do {                                                                                   \
        const musec_status check_st = (call);                                              \
        if (check_st != MUSEC_OK)                                                          \
            check_failed(__FILE__, __LINE__, #call, "%s: %s", musec_status_name(check_st), \
                         (dev)->error.text);                                               \
    } while (0)

/* The same for functions of core, which write to an ms_error. */
#define CHECK_OK_ERR(err, call)                                                            \
    do {                                                                                   \
        const musec_status check_st = (call);                                              \
        if (check_st != MUSEC_OK)                                                          \
            check_failed(__FILE__, __LINE__, #call, "%s: %s", musec_status_name(check_st), \
                         (err)->text);                                                     \
    } while (0)

/* Every program's main ends with it, and so obeys the settings above. */
#undef cmocka_run_group_tests
#define cmocka_run_group_tests(tests, set_up, tear_down) \
    check_run_tests(#tests, tests, sizeof(tests) / sizeof *(tests), set_up, tear_down)

#define SKIP(...)                    \
    do {                             \
        check_skipping(__VA_ARGS__); \
        skip();                      \
    } while (0)

/* TEST_EACH_DEVICE(name, dev) { ... }: a cmocka test that runs its body on every device of this
 * build that can be opened here, `dev` being an ms_device *.  Devices that are skipped are named; a
 * test that was skipped on all of them counts as skipped. */
#define TEST_EACH_DEVICE(name, dev)          \
    static void name##_on(ms_device *dev);   \
    static void name(void **state)           \
    {                                        \
        (void)state;                         \
        check_each_device(#name, name##_on); \
    }                                        \
    static void name##_on(ms_device *dev)

/* In the body of such a test: it does not apply to this device. */
#define SKIP_DEVICE(...)                \
    do {                                \
        check_skip_device(__VA_ARGS__); \
        return;                         \
    } while (0)

/* Runs what follows for each dtype up to `last` (f32, f64, bf16, f16) that the device has. */
#define EACH_DTYPE_OF(dev, t, last)                                        \
    for (musec_dtype t = MUSEC_F32; t <= (last); t = (musec_dtype)(t + 1)) \
        if (ms_device_has(dev, t))

_Noreturn void check_failed(const char *file, int line, const char *cond, const char *fmt, ...)
    MS_PRINTF(4, 5);
int  check_run_tests(const char *group, const struct CMUnitTest *tests, size_t n,
                     CMFixtureFunction set_up, CMFixtureFunction tear_down);
void check_skipping(const char *fmt, ...) MS_PRINTF(1, 2);
void check_skip_device(const char *fmt, ...) MS_PRINTF(1, 2);
void check_each_device(const char *name, void (*body)(ms_device *dev));
void check_only(const char *kind); /* of the devices, this one alone */
/* A context on a GPU; skips the running test where there is none, with the reason. */
ms_device *check_open_cuda(void);
/* The main of a program that is about CUDA alone, in a build without it: one skipped test. */
int check_without_cuda(void);
/* Is the next case one of those to take?  The first one is. */
bool check_takes_case(void);

/* The directory of tests/data in the source tree (where that is not here, in the working
 * directory), and of the shared data ($MUSEC_DATA, or
 * ../shared/data beside the checkout), NULL if there is none. */
const char *check_data_dir(void);
const char *check_shared_data_dir(void);

/* A fresh empty directory for this test program, removed at its end. */
const char *check_tmp_dir(void);

#endif
