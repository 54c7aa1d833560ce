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

/* TEST(name) { ... } is a test.  It registers itself before main() begins, and a program runs its
 * tests in the order in which they stand in the file.  A program needs no main() of its own: the
 * one in check_main.c calls check_main(). */
#define TEST(name) TEST_TEARDOWN(name, NULL)

/* The same, with a function that runs after the test, whether it passed or failed. */
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

#define SKIP(...)                    \
    do {                             \
        check_skipping(__VA_ARGS__); \
        skip();                      \
    } while (0)

/* TEST_EACH_DEVICE(name, dev) { ... } is a test that runs its body on every device of this
 * build that can be opened here, `dev` being an ms_device *.  Devices that are skipped are named; a
 * test that was skipped on all of them counts as skipped. */
#define TEST_EACH_DEVICE(name, dev)                     \
    static void name##_on(ms_device *dev);              \
    TEST(name) { check_each_device(#name, name##_on); } \
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
void check_register(const char *name, void (*body)(void), CMFixtureFunction tear_down);
void check_register_group(CMFixtureFunction set_up, CMFixtureFunction tear_down);
int  check_main(void); /* runs the registered tests, subject to the settings above */
void check_skipping(const char *fmt, ...) MS_PRINTF(1, 2);
void check_skip_device(const char *fmt, ...) MS_PRINTF(1, 2);
void check_each_device(const char *name, void (*body)(ms_device *dev));
void check_only(const char *kind); /* of the devices, this one alone */
/* A context on a GPU; skips the running test where there is none, with the reason. */
ms_device *check_open_cuda(void);
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
