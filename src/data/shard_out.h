/* shard_out.h - a shard that is written as its tokens come, in memory that does not grow. */
#ifndef MS_DATA_SHARD_OUT_H
#define MS_DATA_SHARD_OUT_H

#include "core/file.h"
#include "core/sha256.h"

typedef struct ms_shard_out { /* { 0 } is "nothing open" */
    ms_out_file out;
    ms_sha256   sha;
    int64_t     capacity, n; /* tokens that were announced, and those that came */
} ms_shard_out;

/* Opens a shard of up to `capacity` tokens.  If it is filled, the checksum needs no second pass. */
musec_status ms_shard_out_open(ms_error *e, const char *path, int64_t capacity, ms_shard_out *s);
musec_status ms_shard_out_add(ms_error *e, ms_shard_out *s, const uint16_t *tokens, int64_t n);
/* Puts the whole shard in place; `hex` becomes the file's sha256. */
musec_status ms_shard_out_commit(ms_error *e, ms_shard_out *s, char hex[MS_SHA256_HEX]);
/* Leaves nothing behind.  Does nothing after a commit (even a failed one) or on { 0 }. */
void ms_shard_out_abandon(ms_shard_out *s);

#endif
