/* shard.h - .bin files of tokens, as llm.c and modded-nanogpt have them: 256 little-endian int32
 * (20240520, 1, number of tokens, zeros), then that many little-endian uint16.  nanoGPT writes the
 * tokens alone: such files can be read, but not recognized, so the caller names the form. */
#ifndef MS_DATA_SHARD_H
#define MS_DATA_SHARD_H

#include "core/status.h"

enum { MS_SHARD_MAGIC = 20240520, MS_SHARD_HEADER_BYTES = 1024 };

typedef enum ms_shard_form {
    MS_SHARD_HEADED, /* header and tokens */
    MS_SHARD_BARE,   /* tokens alone */
} ms_shard_form;

/* Reads and checks the header, if there is to be one, and the file's length. */
musec_status ms_shard_tokens(ms_error *e, const char *path, ms_shard_form form, int64_t *n);
/* Reads a whole shard into malloc'ed memory; every id must be below `vocab`. */
musec_status ms_shard_read(ms_error *e, const char *path, ms_shard_form form, int64_t vocab,
                           uint16_t **tokens, int64_t *n);
/* Fails if the model's documents begin with `start` and the tokens were made by another
 * tokenizer. */
musec_status ms_shard_check_start(ms_error *e, const char *path, int32_t start,
                                  const uint16_t *tokens, int64_t n);
/* Writes the shard whole or not at all. */
musec_status ms_shard_write(ms_error *e, const char *path, const uint16_t *tokens, int64_t n);

#endif
