/* fail_device.c - lets calls of the CUDA driver fail, to be loaded with LD_PRELOAD.
 *
 *     FAULTS_CALLS=memory,load  the groups of calls that count (below); all: every one
 *     FAULTS_AT=N               the N-th of them fails
 *     FAULTS_AFTER=1            and so do all that follow
 *     FAULTS_LOST=1             and so does whatever needs the device from then on
 *     FAULTS_CODE=2             what they return: a CUresult
 *     FAULTS_CORRUPT=nan        instead, a value in device memory is changed before that call: nan,
 *                               huge, or flip for one of its bits
 *     FAULTS_SEED=N             chooses that value
 *     FAULTS_REPORT=FILE        the number of calls of each group is appended to FILE at the end,
 *                               and name and stack of the first that failed when it happens
 *     FAULTS_PROGRAM=X          only a program of this name is disturbed
 *
 * The CUDA runtime is linked statically into musec, and again into NVIDIA's libraries.  Each copy
 * opens libcuda.so.1 and asks it for the address of every function by name: dlsym for
 * cuGetProcAddress, and that for the rest.  Both are replaced here, and hand out entries of a table
 * instead.  An entry knows its number alone, not the arguments of its function: it asks decide()
 * and then jumps to the function with all registers and the stack as they were, or returns an
 * error.  So no function of the driver has to be declared, but for the few that are used here.
 * What the driver calls itself, and what a runtime calls through private tables of the driver, is
 * not seen. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef __x86_64__
#error "the entries of the table are written for x86-64"
#endif

enum { ENTRIES = 2048, ENTRY_BYTES = 16, FRAMES = 40, ALLOCATIONS = 4096, NEAR = 64 << 10 };

/* ---- groups of calls ------------------------------------------------------------------------- */

typedef enum group { MEMORY, LOAD, CREATE, LAUNCH, COPY, WAIT, OPEN, RELEASE, OTHER, GROUPS } group;

static const char *const group_names[GROUPS] = { "memory", "load", "create",  "launch", "copy",
                                                 "wait",   "open", "release", "other" };

/* the first row whose text the name begins with */
static const struct {
    const char *begins;
    group       of;
} rules[] = {
    { "cuMemAlloc", MEMORY },
    { "cuMemHostAlloc", MEMORY },
    { "cuMemHostRegister", MEMORY },
    { "cuMemCreate", MEMORY },
    { "cuMemMap", MEMORY },
    { "cuMemAddressReserve", MEMORY },
    { "cuMemPoolCreate", MEMORY },
    { "cuArrayCreate", MEMORY },
    { "cuModuleLoad", LOAD },
    { "cuModuleGet", LOAD },
    { "cuLibraryLoad", LOAD },
    { "cuLibraryGet", LOAD },
    { "cuKernel", LOAD },
    { "cuFunc", LOAD },
    { "cuLink", LOAD },
    { "cuStreamCreate", CREATE },
    { "cuEventCreate", CREATE },
    { "cuLaunch", LAUNCH },
    { "cuGraphLaunch", LAUNCH },
    { "cuMemcpy", COPY },
    { "cuMemset", COPY },
    { "cuStreamSynchronize", WAIT },
    { "cuStreamQuery", WAIT },
    { "cuStreamWaitEvent", WAIT },
    { "cuEventSynchronize", WAIT },
    { "cuEventRecord", WAIT },
    { "cuEventQuery", WAIT },
    { "cuEventElapsedTime", WAIT },
    { "cuCtxSynchronize", WAIT },
    { "cuInit", OPEN },
    { "cuDevicePrimaryCtxRetain", OPEN },
    { "cuCtxCreate", OPEN },
    { "cuMemFree", RELEASE },
    { "cuStreamDestroy", RELEASE },
    { "cuEventDestroy", RELEASE },
    { "cuModuleUnload", RELEASE },
    { "cuLibraryUnload", RELEASE },
    { "cuMemGetInfo", OTHER },
};

/* Not every function can fail: these answer for any state of the device. */
static const char *const never_fail[] = { "cuGetErrorString", "cuGetErrorName",
                                          "cuDriverGetVersion", "cuGetExportTable" };

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static group group_of(const char *name)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (begins(name, rules[i].begins)) return rules[i].of;
    return OTHER;
}

/* Does the function need the device, or may it answer without? */
static bool needs_device(const char *name)
{
    const group of = group_of(name);
    return of < OPEN || of == RELEASE || begins(name, "cuMemGetInfo");
}

/* ---- state ----------------------------------------------------------------------------------- */

typedef struct entry {
    void *function; /* the driver's */
    char  name[64];
    group of;
    bool  counts, can_fail;
} entry;

static entry           table[ENTRIES];
static int             n_entries;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
    bool        armed, after, lost;
    bool        counts[GROUPS];
    long        at;
    int         code;
    const char *corrupt;
    unsigned    seed;
    char        report[1024];
    atomic_long calls[GROUPS], counted, failed;
    atomic_bool gone; /* the device is lost */
    void       *driver;
    struct piece {
        uint64_t address;
        size_t   bytes;
    } pieces[ALLOCATIONS];
    int n_pieces;
} now;

typedef int   mem_alloc_fn(uint64_t *, size_t);
typedef int   mem_free_fn(uint64_t);
typedef int   to_host_fn(void *, uint64_t, size_t);
typedef int   to_device_fn(uint64_t, const void *, size_t);
typedef int   wait_fn(void);
typedef int   address_fn(const char *, void **, int, uint64_t, int *);
typedef int   address_1_fn(const char *, void **, int, uint64_t);
typedef void *dlsym_fn(void *, const char *);

#define FUNCTION(type, symbol, to) \
    type *to = NULL;               \
    memcpy(&to, &(void *){ symbol }, sizeof to)

/* ---- the report ------------------------------------------------------------------------------ */

static void report_line(const char *text, bool with_stack)
{
    void     *frames[FRAMES];
    const int fd =
        now.report[0] == '\0' ? -1 : open(now.report, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (fd < 0) return;
    if (write(fd, text, strlen(text)) < 0) _exit(125);
    if (with_stack) backtrace_symbols_fd(frames, backtrace(frames, FRAMES), fd);
    close(fd);
}

__attribute__((destructor)) static void tell(void)
{
    char line[512];
    int  n = 0;
    if (!now.armed) return;
    n = snprintf(line, sizeof line, "calls %ld failed %ld", atomic_load(&now.counted),
                 atomic_load(&now.failed));
    for (int i = 0; i < GROUPS; i++)
        n += snprintf(line + n, sizeof line - (size_t)n, " %s %ld", group_names[i],
                      atomic_load(&now.calls[i]));
    snprintf(line + n, sizeof line - (size_t)n, "\n");
    report_line(line, false);
}

static void read_groups(const char *list)
{
    char text[256];
    snprintf(text, sizeof text, "%s", list == NULL ? "all" : list);
    for (char *state = NULL, *word = strtok_r(text, ",", &state); word != NULL;
         word = strtok_r(NULL, ",", &state))
        for (int i = 0; i < GROUPS; i++)
            if (strcmp(word, "all") == 0 || strcmp(word, group_names[i]) == 0) now.counts[i] = true;
}

static long number_of(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text == NULL ? otherwise : strtol(text, NULL, 10);
}

__attribute__((constructor)) static void arm(void)
{
    const char *file = getenv("FAULTS_REPORT"), *program = getenv("FAULTS_PROGRAM");
    void       *frames[2];
    if (program != NULL && strcmp(program, program_invocation_short_name) != 0) return;
    (void)backtrace(frames, 2); /* loads a library the first time */
    read_groups(getenv("FAULTS_CALLS"));
    if (file != NULL) snprintf(now.report, sizeof now.report, "%s", file);
    now.at      = number_of("FAULTS_AT", 0);
    now.after   = number_of("FAULTS_AFTER", 0) != 0;
    now.lost    = number_of("FAULTS_LOST", 0) != 0;
    now.code    = (int)number_of("FAULTS_CODE", 2);
    now.seed    = (unsigned)number_of("FAULTS_SEED", 1);
    now.corrupt = getenv("FAULTS_CORRUPT");
    now.armed   = true;
}

/* ---- a changed value ------------------------------------------------------------------------- */

static dlsym_fn *real_dlsym(void)
{
    FUNCTION(dlsym_fn, dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"), found);
    return found;
}

static void corrupt_one(void)
{
    FUNCTION(wait_fn, real_dlsym()(now.driver, "cuCtxSynchronize"), wait);
    FUNCTION(to_host_fn, real_dlsym()(now.driver, "cuMemcpyDtoH_v2"), read_from);
    FUNCTION(to_device_fn, real_dlsym()(now.driver, "cuMemcpyHtoD_v2"), write_to);
    char         line[256];
    uint32_t     was = 0, is = 0;
    struct piece p = { 0 };
    size_t       words, at;
    int          code = 0;

    pthread_mutex_lock(&lock);
    if (now.n_pieces > 0) p = now.pieces[rand_r(&now.seed) % now.n_pieces];
    pthread_mutex_unlock(&lock);
    words = p.bytes / sizeof was; /* half of the times near the beginning: arenas are seldom full */
    if (rand_r(&now.seed) % 2 == 0 && words > NEAR / sizeof was) words = NEAR / sizeof was;
    if (words == 0) return;
    at   = ((size_t)rand_r(&now.seed) << 16 ^ (size_t)rand_r(&now.seed)) % words * sizeof was;
    code = wait();
    if (code == 0) code = read_from(&was, p.address + at, sizeof was);
    is = strcmp(now.corrupt, "nan") == 0    ? 0x7fff7fffu /* NaN in float32 and twice in 16 bits */
         : strcmp(now.corrupt, "huge") == 0 ? 0x7b007b00u
                                            : was ^ 1u << rand_r(&now.seed) % 32;
    if (code == 0) code = write_to(p.address + at, &is, sizeof is);
    snprintf(line, sizeof line, "changed: %08x to %08x at %zu of %zu bytes, code %d\n", was, is, at,
             p.bytes, code);
    report_line(line, false);
}

/* ---- the decision ---------------------------------------------------------------------------- */

/* Is the call of this entry to fail?  Then its error is returned, else 0. */
static int fails(const entry *e)
{
    char line[128];
    long n;
    atomic_fetch_add(&now.calls[e->of], 1);
    if (!now.armed || !e->can_fail) return 0;
    if (atomic_load(&now.gone) && needs_device(e->name)) return now.code;
    if (!e->counts) return 0;
    n = atomic_fetch_add(&now.counted, 1) + 1;
    if (now.at == 0 || !(n == now.at || (now.after && n > now.at))) return 0;
    if (now.corrupt != NULL) {
        atomic_fetch_add(&now.failed, 1);
        corrupt_one();
        return 0;
    }
    if (now.lost) atomic_store(&now.gone, true);
    if (atomic_fetch_add(&now.failed, 1) == 0) {
        snprintf(line, sizeof line, "failed: %s\n", e->name);
        report_line(line, true);
    }
    return now.code;
}

/* For the entries below: the function to go on with, or a number that is no address: the error. */
uintptr_t fail_device_decide(uint64_t index);

__attribute__((used, visibility("hidden"))) uintptr_t fail_device_decide(uint64_t index)
{
    const entry *e    = &table[index];
    const int    code = fails(e);
    return code != 0 ? (uintptr_t)code : (uintptr_t)e->function;
}

/* Entry i pushes i.  Then all that arguments may be in is kept, decide() is asked, and its answer
 * is an address to jump to or an error to return. */
__asm__(".text\n"
        ".balign 16\n"
        ".hidden fail_device_entries\n"
        ".globl fail_device_entries\n"
        "fail_device_entries:\n"
        ".set number, 0\n"
        ".rept 2048\n"
        ".balign 16\n"
        "    pushq $number\n"
        "    jmp fail_device_common\n"
        ".set number, number + 1\n"
        ".endr\n"
        ".balign 16\n"
        "fail_device_common:\n"
        ".cfi_startproc\n"
        ".cfi_def_cfa_offset 192\n" /* at the call, for stacks */
        "    pushq %rdi\n    pushq %rsi\n    pushq %rdx\n    pushq %rcx\n    pushq %r8\n"
        "    pushq %r9\n"
        "    subq $128, %rsp\n"
        "    movups %xmm0, (%rsp)\n    movups %xmm1, 16(%rsp)\n    movups %xmm2, 32(%rsp)\n"
        "    movups %xmm3, 48(%rsp)\n    movups %xmm4, 64(%rsp)\n    movups %xmm5, 80(%rsp)\n"
        "    movups %xmm6, 96(%rsp)\n    movups %xmm7, 112(%rsp)\n"
        "    movq 176(%rsp), %rdi\n"
        "    call fail_device_decide\n"
        "    movups (%rsp), %xmm0\n    movups 16(%rsp), %xmm1\n    movups 32(%rsp), %xmm2\n"
        "    movups 48(%rsp), %xmm3\n    movups 64(%rsp), %xmm4\n    movups 80(%rsp), %xmm5\n"
        "    movups 96(%rsp), %xmm6\n    movups 112(%rsp), %xmm7\n"
        "    addq $128, %rsp\n"
        "    popq %r9\n    popq %r8\n    popq %rcx\n    popq %rdx\n    popq %rsi\n    popq %rdi\n"
        "    addq $8, %rsp\n"
        "    cmpq $65536, %rax\n"
        "    jb 1f\n"
        "    jmp *%rax\n"
        "1:  ret\n"
        ".cfi_endproc\n");

extern char fail_device_entries[];

/* ---- functions that are replaced ------------------------------------------------------------- */

static entry mem_alloc = { .name = "cuMemAlloc_v2", .of = MEMORY, .can_fail = true };
static entry mem_free  = { .name = "cuMemFree_v2", .of = RELEASE, .can_fail = true };
static void *get_address, *get_address_1;

/* What is allocated is remembered, for corrupt_one. */
static int replaced_alloc(uint64_t *out, size_t bytes)
{
    FUNCTION(mem_alloc_fn, mem_alloc.function, real);
    int code         = 0;
    mem_alloc.counts = now.counts[MEMORY];
    code             = fails(&mem_alloc);
    if (code == 0) code = real(out, bytes);
    if (code != 0) return code;
    pthread_mutex_lock(&lock);
    if (now.n_pieces < ALLOCATIONS) now.pieces[now.n_pieces++] = (struct piece){ *out, bytes };
    pthread_mutex_unlock(&lock);
    return 0;
}

static int replaced_free(uint64_t address)
{
    FUNCTION(mem_free_fn, mem_free.function, real);
    int code        = 0;
    mem_free.counts = now.counts[RELEASE];
    code            = fails(&mem_free);
    if (code != 0) return code;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < now.n_pieces; i++)
        if (now.pieces[i].address == address) now.pieces[i] = now.pieces[--now.n_pieces];
    pthread_mutex_unlock(&lock);
    return real(address);
}

static void *entry_for(const char *name, void *function)
{
    entry *e = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n_entries && e == NULL; i++)
        if (table[i].function == function) e = &table[i];
    if (e == NULL && n_entries < ENTRIES) {
        e = &table[n_entries++];
        snprintf(e->name, sizeof e->name, "%s", name);
        e->function = function;
        e->of       = group_of(name);
        e->counts   = now.counts[e->of];
        e->can_fail = true;
        for (size_t i = 0; i < sizeof never_fail / sizeof *never_fail; i++)
            if (strcmp(name, never_fail[i]) == 0) e->can_fail = false;
    }
    pthread_mutex_unlock(&lock);
    return e == NULL ? function : fail_device_entries + (e - table) * ENTRY_BYTES;
}

/* A pointer to a function as one to data, as dlsym returns it. */
static void *data_of(void (*function)(void))
{
    void *data = NULL;
    memcpy(&data, &function, sizeof data);
    return data;
}

static int replaced_get(const char *name, void **out, int version, uint64_t flags, int *status);
static int replaced_get_1(const char *name, void **out, int version, uint64_t flags);

/* Returns what is handed out for a function of the driver. */
static void *replacement(const char *name, void *function, int version)
{
    if (!now.armed || function == NULL) return function;
    if (strcmp(name, "cuGetProcAddress_v2") == 0 ||
        (strcmp(name, "cuGetProcAddress") == 0 && version >= 12000)) {
        get_address = function;
        return data_of((void (*)(void))replaced_get);
    }
    if (strcmp(name, "cuGetProcAddress") == 0) {
        get_address_1 = function;
        return data_of((void (*)(void))replaced_get_1);
    }
    if (strcmp(name, "cuMemAlloc_v2") == 0 ||
        (strcmp(name, "cuMemAlloc") == 0 && version >= 3020)) {
        mem_alloc.function = function;
        return data_of((void (*)(void))replaced_alloc);
    }
    if (strcmp(name, "cuMemFree_v2") == 0 || (strcmp(name, "cuMemFree") == 0 && version >= 3020)) {
        mem_free.function = function;
        return data_of((void (*)(void))replaced_free);
    }
    return entry_for(name, function);
}

static int replaced_get(const char *name, void **out, int version, uint64_t flags, int *status)
{
    FUNCTION(address_fn, get_address, real);
    const int code = real(name, out, version, flags, status);
    if (code == 0 && out != NULL) *out = replacement(name, *out, version);
    return code;
}

static int replaced_get_1(const char *name, void **out, int version, uint64_t flags)
{
    FUNCTION(address_1_fn, get_address_1, real);
    const int code = real(name, out, version, flags);
    if (code == 0 && out != NULL) *out = replacement(name, *out, version);
    return code;
}

/* The driver's functions alone are replaced: other libraries have names that begin with "cu". */
void *dlsym(void *restrict library, const char *restrict name)
{
    void   *found = real_dlsym()(library, name);
    Dl_info from;
    if (found == NULL || !now.armed || !begins(name, "cu") || dladdr(found, &from) == 0 ||
        from.dli_fname == NULL || strstr(from.dli_fname, "libcuda.so") == NULL)
        return found;
    now.driver = library;
    return replacement(name, found, 0);
}
