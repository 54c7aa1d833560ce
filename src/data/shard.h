/* shard.h - .bin files of tokens, as llm.c and modded-nanogpt have them: 256 little-endian int32
 * (20240520, 1, number of tokens, zeros), then that many little-endian uint16. */
#ifndef MS_DATA_SHARD_H
#define MS_DATA_SHARD_H

#include "core/status.h"

enum { MS_SHARD_MAGIC = 20240520, MS_SHARD_HEADER_BYTES = 1024 };

/* Reads and checks the header and the file's length. */
musec_status ms_shard_tokens(ms_error *e, const char *path, int64_t *n);
/* The whole shard, malloc'ed; every id must be below `vocab`. */
musec_status ms_shard_read(ms_error *e, const char *path, int64_t vocab, uint16_t **tokens,
                           int64_t *n);
/* Whole or absent. */
musec_status ms_shard_write(ms_error *e, const char *path, const uint16_t *tokens, int64_t n);

#endif
