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

static void this_build_has_no_cuda(void **state)
{
    (void)state;
    SKIP("this build has no CUDA");
}

int check_without_cuda(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(this_build_has_no_cuda) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

bool check_takes_case(void)
{
    static long asked  = 0;
    const char *text   = getenv("MUSEC_TEST_CASES");
    const long  one_in = text == NULL ? 1 : strtol(text, NULL, 10);
    return one_in <= 1 || asked++ % one_in == 0;
}

int check_run_tests(const char *group, const struct CMUnitTest *tests, size_t n,
                    CMFixtureFunction set_up, CMFixtureFunction tear_down)
{
    const char *given = getenv("MUSEC_TEST_FILTER"), *kind = getenv("MUSEC_TEST_DEVICE");
    const char *filter  = given != NULL && given[0] != '\0' ? given : NULL;
    const bool  list    = getenv("MUSEC_TEST_LIST") != NULL;
    size_t      matches = 0;
    for (size_t i = 0; i < n; i++) {
        if (filter != NULL && fnmatch(filter, tests[i].name, 0) != 0) continue;
        if (list) print_message("%s\n", tests[i].name);
        matches++;
    }
    if (matches == 0) print_error("no test is called %s\n", filter);
    if (list || matches == 0) return matches == 0;
    if (filter != NULL) cmocka_set_test_filter(filter);
    if (kind != NULL) check_only(kind);
    return _cmocka_run_group_tests(group, tests, n, set_up, tear_down);
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
