/* fuzz.h - what the fuzz targets share: scratch files, bytes to choose by, and what must hold
 * whatever the input is. */
#ifndef MS_FUZZ_FUZZ_H
#define MS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); /* libFuzzer's name; returns 0 */

/* Ends the process, so that the input at hand is kept as a finding. */
#define REQUIRE(condition)                                           \
    do {                                                             \
        if (!(condition)) fuzz_fail(__FILE__, __LINE__, #condition); \
    } while (0)

_Noreturn void fuzz_fail(const char *file, int line, const char *condition);

/* Is it a success?  A failure must say why, in UTF-8 or not, and must never be want of memory: no
 * input is so long that a right reader could ask for more than there is. */
bool fuzz_ok(musec_status st, const ms_error *e);

/* Takes the input's first byte; 0 where there is none left. */
unsigned fuzz_take(const uint8_t **data, size_t *size);

/* A path in a directory of this process, which is removed when it ends.  Eight live at a time. */
const char *fuzz_path(const char *name);
/* The same, of a file that holds these bytes. */
const char *fuzz_file(const char *name, const void *data, size_t size);

/* Bytes of all elements of an array. */
size_t fuzz_array_bytes(const ms_npy *a);

/* A hash of more bytes: of the same pieces in the same order it is the same. */
uint64_t fuzz_hash(uint64_t hash, const void *data, size_t size);

#endif
