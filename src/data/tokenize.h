/* tokenize.h - documents in, shards out: read in order, encoded by several threads, written in
 * order.
 *
 * DIR gets val_000000.bin (the first val_tokens tokens, if any are asked for), train_000001.bin,
 * train_000002.bin, ... of shard_tokens tokens each, the last one shorter, and manifest.json: the
 * inputs with their sizes, the settings, and for every shard its tokens, documents and sha256.  A
 * document may be cut by the end of a shard, as in the files of others.  A shard is whole or
 * absent; the manifest is written anew after each, at most once a second, so that a run that was
 * killed goes on behind the last whole shard that it has.  The bytes do not depend on the number
 * of threads.  Only one process at a time writes into a directory. */
#ifndef MS_DATA_TOKENIZE_H
#define MS_DATA_TOKENIZE_H

#include "data/bpe.h"
#include "data/reader.h"

typedef struct ms_tokenize_progress {
    int64_t bytes_in, bytes_total; /* of input as on disk; total -1: not known */
    int64_t text_bytes, documents, tokens, shards, bad;
    int64_t listed, kept; /* shards that a resumed run found in the manifest, and those it kept */
    bool    complete;
} ms_tokenize_progress;

typedef struct ms_tokenize_config {
    ms_reader_config reader;
    const ms_bpe    *bpe; /* NULL: bytes, 256 before each document */
    const char      *out;
    int64_t          shard_tokens, val_tokens;
    int64_t          limit_tokens; /* stop after so many; 0: all */
    int              threads;
    bool             resume;  /* continue after the shards that manifest.json lists */
    bool             verify;  /* then read its shards for their checksums, not their sizes alone */
    const volatile int *stop; /* once it is not 0, fail with the whole shards kept */
    void (*on_progress)(void *arg, const ms_tokenize_progress *p); /* a few times a second */
    void *arg;
} ms_tokenize_config;

/* *out counts what was done, also when it fails.  A complete directory is left as it is. */
musec_status ms_tokenize(ms_error *e, const ms_tokenize_config *cfg, ms_tokenize_progress *out);

#endif
