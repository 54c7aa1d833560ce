/* fuzz.h - functions that the fuzz targets share: scratch files, bytes of the input that select
 * options, and checks that must hold for every input. */
#ifndef MS_FUZZ_FUZZ_H
#define MS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); /* libFuzzer's name; returns 0 */

/* Ends the process, so that the fuzzer saves the current input as a finding. */
#define REQUIRE(condition)                                           \
    do {                                                             \
        if (!(condition)) fuzz_fail(__FILE__, __LINE__, #condition); \
    } while (0)

_Noreturn void fuzz_fail(const char *file, int line, const char *condition);

/* Returns whether it succeeded.  A failure must have a message and must not be out of memory, since
 * no input is so long that a correct reader needs more than there is. */
bool fuzz_ok(musec_status st, const ms_error *e);

/* Removes and returns the input's first byte; 0 if there is none left. */
unsigned fuzz_take(const uint8_t **data, size_t *size);

/* Returns a path in a directory of this process, which is removed when it ends.  Eight are valid at
 * a time. */
const char *fuzz_path(const char *name);
/* Writes a file with these bytes to such a path. */
const char *fuzz_file(const char *name, const void *data, size_t size);

/* Counts the bytes of all elements of an array. */
size_t fuzz_array_bytes(const ms_npy *a);

/* Extends a hash by more bytes: equal pieces in the same order give the same hash. */
uint64_t fuzz_hash(uint64_t hash, const void *data, size_t size);

#endif
