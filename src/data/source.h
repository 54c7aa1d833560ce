/* source.h - where tokens come from: numbered pieces of a stream, each of which fits in memory.
 *
 * A source is named by a text:
 *     builtin, builtin:SEED   the built-in corpus (corpus.h), without end
 *     FILE.bin                one shard: 256 int32 (20240520, 1, tokens), then uint16 tokens; of
 *                             nanoGPT (`form`) the tokens alone
 *     FILE                    any other file: text, through the byte tokenizer (bytes.h)
 *     DIR                     its *.bin files in the order of their names; without any, its *.txt
 * and has two sides, training and validation, which share nothing.  Of a directory, the files whose
 * name holds "val" are the validation side, and if there are none, the last tenth of its last file;
 * of one file, its last tenth (counted in tokens, moved to the next start of a document where there
 * is one in the last tenth) is.  Of the built-in corpus, documents from number 2^62 on are.
 *
 * A piece is what this side has of a file, or 512 documents of the built-in corpus.  A text has at
 * most 2 GiB.  Files without a token are passed over; packed ones (.xz, .gz, ...) and those that
 * are no text (sniff.h) are refused. */
#ifndef MS_DATA_SOURCE_H
#define MS_DATA_SOURCE_H

#include <stdbool.h>

#include "core/sha256.h"
#include "core/status.h"
#include "data/shard.h"

typedef enum ms_split {
    MS_SPLIT_TRAIN,
    MS_SPLIT_VAL,
    MS_SPLIT_VAL_ONLY, /* all of it is for validation: also a whole file, or a directory without
                          validation files */
} ms_split;

typedef struct ms_source_config {
    const char *path;
    ms_split    split;
    int64_t     vocab; /* ids must be below it, else a failure names file, place and id */
    /* comes before each document: 50256 in GPT-2's ids, 256 in bytes.  The built-in corpus works
     * with any start, so that every model can be tried on it: it has GPT-2's ids of single bytes if
     * the start is GPT-2's, else the bytes themselves */
    int32_t       start_id;
    ms_shard_form form; /* of all .bin files */
} ms_source_config;

typedef struct ms_source ms_source;

/* Returns true if the path names the built-in corpus. */
bool ms_source_is_builtin(const char *path);

musec_status ms_source_open(ms_error *e, const ms_source_config *cfg, ms_source **out);
void         ms_source_close(ms_source *s);
/* Counts the pieces; INT64_MAX for an endless source. */
int64_t ms_source_pieces(const ms_source *s);
/* Returns piece `index`, which is never empty and valid until the next call. */
musec_status ms_source_piece(ms_error *e, ms_source *s, int64_t index, const uint16_t **tokens,
                             int64_t *n);
/* Describes the source: "train_*.bin in data/fineweb, 3 shards, 300000000 tokens". */
void ms_source_describe(const ms_source *s, char *text, size_t bytes);
/* Counts the tokens of this split; -1 for an endless source. */
int64_t     ms_source_tokens(const ms_source *s);
const char *ms_source_path(const ms_source *s);

/* What identifies these tokens, wherever the files are and whatever they are called: a checksum of
 * their sizes, of where the side is cut, and of the fingerprint of each file (fingerprint.h).  For
 * the built-in corpus: of its seed and of the side's first document in the model's ids. */
typedef struct ms_identity {
    int64_t tokens; /* of this side; -1 without end */
    char    sha256[MS_SHA256_HEX];
} ms_identity;
musec_status ms_source_identify(ms_error *e, const ms_source *s, ms_identity *out);

/* Estimates the largest amount of host memory that it will hold. */
uint64_t ms_source_bytes(const ms_source *s);

#endif
