/* pack.h - compressed data, made by the libraries' own compressors. */
#ifndef MS_TESTS_PACK_H
#define MS_TESTS_PACK_H

#include <stdbool.h>
#include <stddef.h>

typedef enum packer { PACK_NONE, PACK_GZIP, PACK_ZSTD, PACK_XZ, PACKERS } packer;

const char *pack_suffix(packer how);  /* "", ".gz", ".zst", ".xz" */
bool        pack_is_here(packer how); /* is the format in this build? */
/* Appends the data to the file as one compressed stream. */
void pack_append(const char *path, packer how, const char *data, size_t bytes);

#endif
