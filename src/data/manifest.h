/* manifest.h - manifest.json of a directory of shards: what they were made of, how, and how far.
 *
 * It is written whole after a shard.  A resumed run finds in it where the next shard begins: which
 * token of which record of which file. */
#ifndef MS_DATA_MANIFEST_H
#define MS_DATA_MANIFEST_H

#include <jansson.h>
#include <stdbool.h>

#include "core/file.h"
#include "core/sha256.h"

#define MS_MANIFEST_NAME "manifest.json"

typedef struct ms_place { /* in the input: the token of the record of the file */
    int64_t file, record, token;
} ms_place;

typedef struct ms_counts { /* up to some place */
    int64_t documents, text_bytes, bad;
} ms_counts;

typedef struct ms_shard_info {
    char      name[32];
    int64_t   tokens, documents; /* documents that begin in it */
    char      sha256[MS_SHA256_HEX];
    ms_place  next;   /* where the next one begins */
    ms_counts so_far; /* up to there */
} ms_shard_info;

typedef struct ms_manifest { /* { 0 } is empty */
    json_t        *settings; /* object: name, value */
    json_t        *inputs;   /* array of objects: path, bytes, mtime_ns */
    ms_shard_info *shards;
    size_t         n, capacity;
    ms_counts      totals;
    bool           complete;
} ms_manifest;

musec_status ms_manifest_read(ms_error *e, const char *path, ms_manifest *out);
musec_status ms_manifest_write(ms_error *e, const char *path, const ms_manifest *m);
void         ms_manifest_free(ms_manifest *m);

musec_status ms_manifest_add(ms_error *e, ms_manifest *m, const ms_shard_info *shard);
int64_t      ms_manifest_tokens(const ms_manifest *m);

/* Fails, and names the difference, if a run with the settings and inputs of `now` cannot resume
 * from `was`. */
musec_status ms_manifest_same(ms_error *e, const char *path, const ms_manifest *was,
                              const ms_manifest *now);

/* Makes a JSON string, with '?' for bytes that are not UTF-8; NULL without memory. */
json_t *ms_manifest_text(const char *text);

#endif
