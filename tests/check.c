/* check.c - see check.h. */
#define _XOPEN_SOURCE 700
#include "check.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/directory.h"
#include <time.h>

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

void *check_alloc(size_t bytes)
{
    void *p = calloc(1, bytes > 0 ? bytes : 1);
    CHECK(p != NULL, "no memory for %zu bytes", bytes);
    return p;
}

static int         n_skipped_tests, n_skipped_parts;
static const char *only_kind;
static bool        device_skipped; /* by the body that is running */

void check_print_skipped(const char *fmt, ...)
{
    char    text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    print_message("skipped: %s\n", text);
}

_Noreturn void check_end_skipped(const char *file, int line)
{
    n_skipped_tests++;
    _skip(file, line); /* jumps out of the test, which cmocka does not declare */
    abort();
}

void check_count_skipped_part(void) { n_skipped_parts++; }

void check_skip_device(void) { device_skipped = true; }

void check_only(const char *kind) { only_kind = kind; }

ms_device *check_open(const char *device)
{
    ms_device *d = NULL;
    char       why[256];
    CHECK(musec_ctx_create_why(&d, device, why, sizeof why) == MUSEC_OK, "%s", why);
    return d;
}

void check_take_16bit(ms_device *dev, ms_device_kind *kind)
{
    *kind        = *dev->kind;
    kind->dtypes = 1u << MUSEC_F32 | 1u << MUSEC_F64;
    dev->kind    = kind;
}

ms_device *check_open_cuda(void)
{
    ms_device *d = NULL;
    char       why[256];
    if (musec_ctx_create_why(&d, "cuda", why, sizeof why) != MUSEC_OK) SKIP("%s", why);
    return d;
}

static bool has_cases; /* a test asked whether to run one */

bool check_takes_number(uint64_t number, uint64_t first)
{
    const char *text  = getenv("MUSEC_TEST_CASES");
    const char *slash = text == NULL ? NULL : strchr(text, '/');
    uint64_t    n     = text == NULL ? 1 : strtoull(slash != NULL ? slash + 1 : text, NULL, 10);
    if (slash != NULL) first = strtoull(text, NULL, 10) - 1;
    has_cases = true;
    if (n == 0) n = 1;
    return number % n == first % n;
}

bool check_takes_case(void)
{
    static uint64_t asked = 0;
    return check_takes_number(asked++, 0);
}

uint64_t check_seed(void)
{
    static uint64_t seed = 0;
    const char     *text = getenv("MUSEC_TEST_SEED");
    if (seed != 0) return seed;
    if (text != NULL && strcmp(text, "random") == 0) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        seed = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    } else if (text != NULL) {
        seed = strtoull(text, NULL, 10);
    }
    if (seed == 0) seed = 1;
    print_message("inputs are drawn with MUSEC_TEST_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

/* ---- the tests of a program ------------------------------------------------------------------ */

enum { TESTS_MAX = 256 };

static struct CMUnitTest tests[TESTS_MAX];
static void (*bodies[TESTS_MAX])(void);
static size_t            places[TESTS_MAX], n_tests;
static CMFixtureFunction group_set_up, group_tear_down;
static bool              group_is_set_up;

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

static int run_set_up(void **state)
{
    const int rc    = group_set_up == NULL ? 0 : group_set_up(state);
    group_is_set_up = rc == 0;
    return rc;
}

int check_main(void)
{
    const char *given = getenv("MUSEC_TEST_FILTER"), *kind = getenv("MUSEC_TEST_DEVICE");
    const char *filter  = given != NULL && given[0] != '\0' ? given : NULL;
    const bool  list    = getenv("MUSEC_TEST_LIST") != NULL;
    int         matches = 0;
    for (size_t i = 0; i < n_tests; i++) {
        if (filter != NULL && fnmatch(filter, tests[i].name, 0) != 0) continue;
        if (list) print_message("%s\n", tests[i].name);
        matches++;
    }
    if (matches == 0) print_error("no test is called %s\n", filter == NULL ? "anything" : filter);
    if (list || matches == 0) return matches == 0;
    if (filter != NULL) cmocka_set_test_filter(filter);
    if (kind != NULL) check_only(kind);
    const int failed =
        _cmocka_run_group_tests("tests", tests, n_tests, run_set_up, group_tear_down);
    const int passed = group_is_set_up ? matches - failed - n_skipped_tests : 0;
    if (has_cases && getenv("MUSEC_TEST_CASES") != NULL)
        print_message("of the cases: %s\n", getenv("MUSEC_TEST_CASES"));
    print_message("%d passed, %d failed, %d skipped\n", passed > 0 ? passed : 0, failed,
                  n_skipped_tests + n_skipped_parts);
    if (failed > 0) return 1;
    return passed > 0 ? 0 : 77;
}

void check_each_device(const char *name, void (*body)(ms_device *dev))
{
    int n_kinds = 0, n_skipped = 0;
    for (size_t i = 0; ms_device_kind_at(i) != NULL; i++) {
        const char *kind = ms_device_kind_at(i)->name;
        ms_device  *dev  = NULL;
        char        why[256];
        if (only_kind != NULL && strcmp(kind, only_kind) != 0) continue;
        n_kinds++;
        device_skipped = false;
        if (musec_ctx_create_why(&dev, kind, why, sizeof why) == MUSEC_OK) {
            print_message("%s on %s\n", name, kind);
            body(dev);
            musec_ctx_destroy(dev);
        } else {
            check_print_skipped("%s on %s: %s", name, kind, why);
            device_skipped = true;
        }
        n_skipped += device_skipped;
    }
    if (n_kinds == 0) SKIP("%s on %s: this build has no such device", name, only_kind);
    if (n_skipped == n_kinds) check_end_skipped(__FILE__, __LINE__);
    n_skipped_parts += n_skipped;
}

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

static void remove_tmp_dir(void) { (void)ms_directory_remove(NULL, tmp_dir); }

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
