/* fail_alloc.c - lets an allocation of a program fail, to be loaded with LD_PRELOAD.
 *
 *     FAULTS_AT=N        the N-th allocation after main() has begun fails
 *     FAULTS_AFTER=1     and so do all that follow
 *     FAULTS_REPORT=FILE the number of allocations and of failures is appended to FILE at the end,
 *                        and the stack of the first failure when it happens
 *     FAULTS_PROGRAM=X   only programs whose name begins so are disturbed, not others that they
 *                        start; each counts for itself
 *
 * Allocations of libraries, such as those of the C library on our behalf, count as well, but not
 * those before main(), where CUDA's runtime registers kernels and fails without a word. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* glibc's own, under the names by which it calls them */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *at, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);

enum { FRAMES = 40 };

static atomic_long n_calls, n_failed;
static long        fail_at;
static bool        fail_after, armed;
static char        report[1024];

static void append_line(const char *text, size_t bytes)
{
    const int fd = report[0] == '\0' ? -1 : open(report, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (fd < 0) return;
    if (write(fd, text, bytes) != (ssize_t)bytes) _exit(125);
    close(fd);
}

static void report_stack(void)
{
    const int fd = report[0] == '\0' ? -1 : open(report, O_WRONLY | O_CREAT | O_APPEND, 0666);
    void     *frames[FRAMES];
    if (fd < 0) return;
    backtrace_symbols_fd(frames, backtrace(frames, FRAMES), fd);
    close(fd);
}

static bool fails(void)
{
    long n;
    if (!armed) return false;
    n = atomic_fetch_add(&n_calls, 1) + 1;
    if (fail_at == 0 || !(n == fail_at || (fail_after && n > fail_at))) return false;
    if (atomic_fetch_add(&n_failed, 1) == 0) {
        armed = false; /* the report allocates nothing that counts */
        report_stack();
        armed = true;
    }
    errno = ENOMEM;
    return true;
}

static void arm(void)
{
    const char *at = getenv("FAULTS_AT"), *after = getenv("FAULTS_AFTER");
    const char *file = getenv("FAULTS_REPORT"), *program = getenv("FAULTS_PROGRAM");
    void       *frames[2];

    if (program != NULL && strncmp(program_invocation_short_name, program, strlen(program)) != 0)
        return;
    (void)backtrace(frames, 2); /* loads a library the first time */
    if (file != NULL) snprintf(report, sizeof report, "%s", file);
    fail_at    = at == NULL ? 0 : strtol(at, NULL, 10);
    fail_after = after != NULL && after[0] == '1';
    armed      = true;
}

static int (*program_main)(int, char **, char **);

static int armed_main(int argc, char **argv, char **environment)
{
    arm();
    return program_main(argc, argv, environment);
}

/* glibc's, by which a program begins: what it calls as main() is ours. */
int __libc_start_main(int (*run)(int, char **, char **), int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void  *stack_end)
{
    int (*start)(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void),
                 void (*)(void), void *) = NULL;
    void *const found                    = dlsym(RTLD_NEXT, "__libc_start_main");
    memcpy(&start, &found, sizeof start);
    program_main = run;
    return start(armed_main, argc, argv, init, fini, rtld_fini, stack_end);
}

__attribute__((destructor)) static void tell(void)
{
    char line[96];
    int  n;
    if (!armed) return;
    armed = false;
    n     = snprintf(line, sizeof line, "calls %ld failed %ld\n", atomic_load(&n_calls),
                     atomic_load(&n_failed));
    append_line(line, (size_t)n);
}

void *malloc(size_t bytes) { return fails() ? NULL : __libc_malloc(bytes); }
void *calloc(size_t n, size_t bytes) { return fails() ? NULL : __libc_calloc(n, bytes); }
void *realloc(void *at, size_t bytes) { return fails() ? NULL : __libc_realloc(at, bytes); }

void *reallocarray(void *at, size_t n, size_t bytes)
{
    size_t all;
    if (__builtin_mul_overflow(n, bytes, &all)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(at, all);
}

void *aligned_alloc(size_t align, size_t bytes)
{
    return fails() ? NULL : __libc_memalign(align, bytes);
}

void *memalign(size_t align, size_t bytes)
{
    return fails() ? NULL : __libc_memalign(align, bytes);
}

int posix_memalign(void **out, size_t align, size_t bytes)
{
    void *at = fails() ? NULL : __libc_memalign(align, bytes);
    if (at == NULL) return ENOMEM;
    *out = at;
    return 0;
}
