/* check.c - see check.h. */
#define _XOPEN_SOURCE 700
#include "check.h"

#include <fnmatch.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char tmp_dir[64];

void check_failed(const char *file, int line, const char *cond, const char *fmt, ...)
{
    char    text[2048];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    print_error("%s:%d: CHECK(%s): %s\n", file, line, cond, text);
    _fail(file, line); /* jumps out of the test, which cmocka does not declare */
    abort();
}

static void print_skipped(const char *fmt, va_list args)
{
    char text[512];
    vsnprintf(text, sizeof text, fmt, args);
    print_message("skipped: %s\n", text);
}

void check_skipping(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    print_skipped(fmt, args);
    va_end(args);
}

static const char *only_kind;
static bool        device_skipped; /* by the body that is running */

void check_skip_device(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    print_skipped(fmt, args);
    va_end(args);
    device_skipped = true;
}

void check_only(const char *kind) { only_kind = kind; }

ms_device *check_open_cuda(void)
{
    ms_device *d = NULL;
    char       why[256];
    if (musec_ctx_create_why(&d, "cuda", why, sizeof why) != MUSEC_OK) SKIP("%s", why);
    return d;
}

bool check_takes_case(void)
{
    static long asked  = 0;
    const char *text   = getenv("MUSEC_TEST_CASES");
    const long  one_in = text == NULL ? 1 : strtol(text, NULL, 10);
    return one_in <= 1 || asked++ % one_in == 0;
}

/* ---- the tests of a program ------------------------------------------------------------------ */

enum { TESTS_MAX = 256 };

static struct CMUnitTest tests[TESTS_MAX];
static void (*bodies[TESTS_MAX])(void);
static size_t            places[TESTS_MAX], n_tests;
static CMFixtureFunction group_set_up, group_tear_down;

static void run_body(void **state) { bodies[*(size_t *)*state](); }

void check_register(const char *name, void (*body)(void), CMFixtureFunction tear_down)
{
    if (n_tests == TESTS_MAX) abort();
    bodies[n_tests] = body;
    places[n_tests] = n_tests;
    tests[n_tests]  = (struct CMUnitTest){ name, run_body, NULL, tear_down, &places[n_tests] };
    n_tests++;
}

void check_register_group(CMFixtureFunction set_up, CMFixtureFunction tear_down)
{
    group_set_up    = set_up;
    group_tear_down = tear_down;
}

int check_main(void)
{
    const char *given = getenv("MUSEC_TEST_FILTER"), *kind = getenv("MUSEC_TEST_DEVICE");
    const char *filter  = given != NULL && given[0] != '\0' ? given : NULL;
    const bool  list    = getenv("MUSEC_TEST_LIST") != NULL;
    size_t      matches = 0;
    for (size_t i = 0; i < n_tests; i++) {
        if (filter != NULL && fnmatch(filter, tests[i].name, 0) != 0) continue;
        if (list) print_message("%s\n", tests[i].name);
        matches++;
    }
    if (matches == 0) print_error("no test is called %s\n", filter == NULL ? "anything" : filter);
    if (list || matches == 0) return matches == 0;
    if (filter != NULL) cmocka_set_test_filter(filter);
    if (kind != NULL) check_only(kind);
    return _cmocka_run_group_tests("tests", tests, n_tests, group_set_up, group_tear_down);
}

void check_each_device(const char *name, void (*body)(ms_device *dev))
{
    bool known = false, ran = false;
    for (size_t i = 0; ms_device_kind_at(i) != NULL; i++) {
        const char *kind = ms_device_kind_at(i)->name;
        ms_device  *dev  = NULL;
        char        why[256];
        if (only_kind != NULL && strcmp(kind, only_kind) != 0) continue;
        known = true;
        if (musec_ctx_create_why(&dev, kind, why, sizeof why) != MUSEC_OK) {
            print_message("skipped: %s on %s: %s\n", name, kind, why);
            continue;
        }
        print_message("%s on %s\n", name, kind);
        device_skipped = false;
        body(dev);
        musec_ctx_destroy(dev);
        ran = ran || !device_skipped;
    }
    if (!known) check_skipping("%s on %s: this build has no such device", name, only_kind);
    if (!ran) skip();
}

/* Set by the build; a program that was carried elsewhere finds it where it is run. */
const char *check_data_dir(void)
{
    struct stat sb;
    return stat(MS_TEST_DATA_DIR, &sb) == 0 ? MS_TEST_DATA_DIR : "tests/data";
}

const char *check_shared_data_dir(void)
{
    static const char *const beside = MS_TEST_DATA_DIR "/../../../shared/data";
    const char              *set    = getenv("MUSEC_DATA");
    struct stat              sb;
    if (set != NULL && stat(set, &sb) == 0) return set;
    return stat(beside, &sb) == 0 ? beside : NULL;
}

static int remove_one(const char *path, const struct stat *sb, int type, struct FTW *ftw)
{
    (void)sb, (void)type, (void)ftw;
    return remove(path);
}

static void remove_tmp_dir(void) { nftw(tmp_dir, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

const char *check_tmp_dir(void)
{
    if (tmp_dir[0] == '\0') {
        snprintf(tmp_dir, sizeof tmp_dir, "/tmp/musec-test-XXXXXX");
        if (mkdtemp(tmp_dir) == NULL)
            check_failed(__FILE__, __LINE__, "mkdtemp", "no directory in /tmp");
        atexit(remove_tmp_dir);
    }
    return tmp_dir;
}
