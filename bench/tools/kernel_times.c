/* kernel_times.c - a library that CUDA loads into a program to time its kernels.
 *
 *     CUDA_INJECTION64_PATH=$PWD/libkernel_times.so KERNEL_TIMES=FILE musec bench step
 *
 * When the program ends, a row for each kernel is written to FILE or standard error: the number of
 * calls, the sum and the median of its times, its share of the total time.  Names are mangled:
 * c++filt makes them readable.  Two more settings:
 *
 *     KERNEL_TIMES_SKIP=X  leaves out kernels that began in the first share X (0 to 1) of the time
 *     KERNEL_TIMES_LAST=N  lists the last N kernels, each with the gap before it
 *
 * CUPTI delivers buffers of records from its own threads while the program runs. */
#define _XOPEN_SOURCE 700 /* strdup, tsearch */
#include <cupti.h>
#include <pthread.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 8 << 20 };

typedef struct kernel {
    uint64_t    start, end; /* ns */
    const char *name;       /* one address for one name */
} kernel;

typedef struct row {
    const char *name;
    size_t      calls;
    double      total_ms, median_us;
} row;

static struct {
    pthread_mutex_t lock;
    kernel         *all;
    size_t          n, room, lost;
    void           *names; /* a tree of tsearch */
} seen = { .lock = PTHREAD_MUTEX_INITIALIZER };

static double us_of(const kernel *k) { return (double)(k->end - k->start) / 1e3; }

/* ---- receiving records ----------------------------------------------------------------------- */

static int by_text(const void *a, const void *b) { return strcmp(a, b); }

/* Copies the name, which the driver may free with its code. */
static const char *kept_name(const char *name)
{
    char *const *found = tfind(name, &seen.names, by_text);
    char        *copy;
    if (found != NULL) return *found;
    copy = strdup(name);
    if (copy == NULL || tsearch(copy, &seen.names, by_text) == NULL) return "(no memory)";
    return copy;
}

static void take(const CUpti_ActivityKernel9 *k) /* later versions begin with these members */
{
    if (k->end == 0) { /* no time stamp */
        seen.lost++;
        return;
    }
    if (seen.n == seen.room) {
        const size_t room = seen.room == 0 ? 1 << 16 : 2 * seen.room;
        kernel      *more = realloc(seen.all, room * sizeof *more);
        if (more == NULL) {
            seen.lost++;
            return;
        }
        seen.all  = more;
        seen.room = room;
    }
    seen.all[seen.n++] = (kernel){ k->start, k->end, kept_name(k->name) };
}

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *bytes, size_t *most_records)
{
    *buffer       = malloc(BUFFER_BYTES);
    *bytes        = *buffer != NULL ? BUFFER_BYTES : 0;
    *most_records = 0; /* as many as fit */
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t bytes,
                                 size_t valid_bytes)
{
    CUpti_Activity *record = NULL;
    size_t          lost   = 0;
    (void)bytes;
    pthread_mutex_lock(&seen.lock);
    while (valid_bytes > 0 &&
           cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS)
        if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
            take((const CUpti_ActivityKernel9 *)record);
    if (cuptiActivityGetNumDroppedRecords(context, stream, &lost) == CUPTI_SUCCESS)
        seen.lost += lost;
    pthread_mutex_unlock(&seen.lock);
    free(buffer);
}

/* ---- the table ------------------------------------------------------------------------------- */

static int compare(double a, double b) { return (a > b) - (a < b); }

static int by_start(const void *a, const void *b)
{
    const uint64_t x = ((const kernel *)a)->start, y = ((const kernel *)b)->start;
    return (x > y) - (x < y);
}

static int by_name_and_time(const void *a, const void *b)
{
    const kernel *x = a, *y = b;
    const int     names = strcmp(x->name, y->name);
    return names != 0 ? names : compare(us_of(x), us_of(y));
}

static int by_total(const void *a, const void *b)
{
    return compare(((const row *)b)->total_ms, ((const row *)a)->total_ms);
}

/* Makes a row of the first of n kernels that have one name, ordered by their times. */
static row row_of(const kernel *k, size_t n)
{
    row r = { .name = k->name };
    for (; r.calls < n && k[r.calls].name == k->name; r.calls++)
        r.total_ms += us_of(&k[r.calls]) / 1e3;
    r.median_us = 0.5 * (us_of(&k[(r.calls - 1) / 2]) + us_of(&k[r.calls / 2]));
    return r;
}

static void print_rows(FILE *f, kernel *k, size_t n)
{
    row   *rows   = calloc(n, sizeof *rows);
    size_t n_rows = 0;
    double all_ms = 0.0, span_ms;
    if (rows == NULL) {
        fprintf(f, "no memory for a table of %zu kernels\n", n);
        return;
    }
    span_ms = (double)(k[n - 1].end - k[0].start) / 1e6;
    qsort(k, n, sizeof *k, by_name_and_time);
    for (size_t i = 0; i < n; i += rows[n_rows++].calls) {
        rows[n_rows] = row_of(&k[i], n - i);
        all_ms += rows[n_rows].total_ms;
    }
    qsort(rows, n_rows, sizeof *rows, by_total);
    fprintf(f, "%zu kernels took %.3f ms within %.3f ms\n", n, all_ms, span_ms);
    fprintf(f, "%9s %12s %12s %7s  %s\n", "calls", "total ms", "median us", "share", "kernel");
    for (size_t i = 0; i < n_rows; i++)
        fprintf(f, "%9zu %12.3f %12.2f %5.1f %%  %s\n", rows[i].calls, rows[i].total_ms,
                rows[i].median_us, 100.0 * rows[i].total_ms / all_ms, rows[i].name);
    free(rows);
}

/* Kernels of several streams may overlap: then a gap is negative. */
static void print_last(FILE *f, const kernel *k, size_t n, size_t last)
{
    if (last > n) last = n;
    fprintf(f, "\nthe last %zu\n%12s %10s %10s  %s\n", last, "at ms", "gap us", "us", "kernel");
    for (size_t i = n - last; i < n; i++) {
        const double gap = i == 0 ? 0.0 : ((double)k[i].start - (double)k[i - 1].end) / 1e3;
        fprintf(f, "%12.4f %10.2f %10.2f  %s\n", (double)(k[i].start - k[0].start) / 1e6, gap,
                us_of(&k[i]), k[i].name);
    }
}

static double number_set(const char *name, double most)
{
    const char  *text = getenv(name);
    const double x    = text != NULL ? strtod(text, NULL) : 0.0;
    return x >= 0.0 && x <= most ? x : 0.0;
}

static void print_all(FILE *f, kernel *k, size_t n)
{
    const size_t last    = (size_t)number_set("KERNEL_TIMES_LAST", 1e9);
    size_t       skipped = 0;
    qsort(k, n, sizeof *k, by_start);
    const double until =
        number_set("KERNEL_TIMES_SKIP", 1.0) * (double)(k[n - 1].start - k[0].start);
    while (skipped + 1 < n && (double)(k[skipped].start - k[0].start) < until)
        skipped++;
    print_rows(f, k + skipped, n - skipped);
    qsort(k, n, sizeof *k, by_start); /* print_rows changes the order */
    if (last > 0) print_last(f, k, n, last);
}

static void report(void)
{
    const char *path = getenv("KERNEL_TIMES");
    FILE       *f    = NULL;

    cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    pthread_mutex_lock(&seen.lock);
    if (seen.n > 0) { /* a process without kernels must not overwrite the file of another */
        if (path != NULL && (f = fopen(path, "w")) == NULL)
            fprintf(stderr, "kernel_times: %s cannot be written\n", path);
        print_all(f != NULL ? f : stderr, seen.all, seen.n);
    }
    if (seen.lost > 0) fprintf(f != NULL ? f : stderr, "%zu kernels are missing here\n", seen.lost);
    if (f != NULL) fclose(f);
    pthread_mutex_unlock(&seen.lock);
}

/* CUDA calls this function first. */
int InitializeInjection(void);
int InitializeInjection(void)
{
    const char *why = NULL;
    CUptiResult rc  = cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
    if (rc == CUPTI_SUCCESS) rc = cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    if (rc != CUPTI_SUCCESS) {
        cuptiGetResultString(rc, &why);
        fprintf(stderr, "kernel_times: CUPTI: %s\n", why != NULL ? why : "unknown");
        return 1; /* the program runs without timing */
    }
    atexit(report);
    return 1;
}
