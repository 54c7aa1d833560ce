/* embedded.h - files of the source tree that the program carries with it (cmake/embed.cmake). */
#ifndef MS_DATA_EMBEDDED_H
#define MS_DATA_EMBEDDED_H

#include <stddef.h>

extern const unsigned char ms_embedded_sources[]; /* data/sources.json */
extern const size_t        ms_embedded_sources_bytes;
extern const unsigned char ms_embedded_parquet[]; /* scripts/parquet_to_jsonl, ends with a NUL */
extern const size_t        ms_embedded_parquet_bytes;

#endif
