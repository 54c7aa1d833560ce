/* npy_fuzz.c - any bytes as a .npy file.
 *
 * Reading from a file and from a pipe gives the same result; an array that is read, written and
 * read again is unchanged. */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/npy.h"
#include "fuzz.h"

enum { PIPE_BYTES = 4096 }; /* any pipe holds so many without a reader */

static bool same(const ms_npy *a, const ms_npy *b)
{
    return a->dtype == b->dtype && a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, sizeof a->shape) == 0 &&
           memcmp(a->data, b->data, fuzz_array_bytes(a)) == 0;
}

static void check_pipe(const uint8_t *data, size_t size, musec_status want, const ms_npy *array)
{
    ms_error e = { "" };
    ms_npy   piped;
    char     name[32];
    int      ends[2];

    if (size > PIPE_BYTES) return;
    REQUIRE(pipe(ends) == 0);
    REQUIRE(size == 0 || write(ends[1], data, size) == (ssize_t)size);
    close(ends[1]);
    snprintf(name, sizeof name, "/dev/fd/%d", ends[0]);
    REQUIRE(ms_npy_read(&e, name, &piped) == want);
    if (fuzz_ok(want, &e)) REQUIRE(same(array, &piped));
    ms_npy_free(&piped);
    close(ends[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ms_error           e    = { "" };
    const char        *path = fuzz_file("in.npy", data, size);
    ms_npy             array, again;
    const musec_status st = ms_npy_read(&e, path, &array);

    check_pipe(data, size, st, &array);
    if (fuzz_ok(st, &e)) {
        REQUIRE(fuzz_array_bytes(&array) <= size);
        REQUIRE(fuzz_ok(ms_npy_write(&e, path, &array), &e));
        REQUIRE(fuzz_ok(ms_npy_read(&e, path, &again), &e));
        REQUIRE(same(&array, &again));
        ms_npy_free(&again);
    }
    ms_npy_free(&array);
    return 0;
}
