/* get.h - a data set of the catalog, fetched, and made token shards where it is text.
 *
 * DIR gets
 *     the files as they are, of a vocabulary or of ready shards; or
 *     train_000001.bin, ... and val_000000.bin, made of one text after the other, each of which is
 *     in DIR/raw only while it is needed;
 *     checksums.json: length, sha256 and address of every file that was fetched.  What the catalog
 *     does not know is learnt at the first download and held against the next;
 *     shards.json: which shards were made of which text.
 * Files that are there already are not fetched again; one without a row in checksums.json gets it.
 * A call that was killed is continued by the same call; one with a larger limit_tokens adds to what
 * is there.  Only one process at a time works in DIR. */
#ifndef MS_DATA_GET_H
#define MS_DATA_GET_H

#include "data/catalog.h"
#include "data/fetch.h"
#include "data/tokenize.h"

#define MS_GET_CHECKSUMS "checksums.json"
#define MS_GET_SHARDS    "shards.json"

enum { MS_GET_SHARD_TOKENS = 100000000 };

typedef struct ms_get_config {
    const ms_catalog_set *set;
    const char           *out;
    const char *const    *mirrors;
    size_t                n_mirrors;
    const char           *vocab;        /* GPT-2's, for texts; NULL: the usual places */
    int64_t               limit_tokens; /* of the training side; 0: all */
    int64_t               shard_tokens; /* of the shards made of texts */
    bool                  keep_raw, verify;
    bool                  skip_bad; /* count lines of texts that cannot be used, do not fail */
    int64_t               retries, delay_ms, stall_s;
    int64_t               max_file; /* bytes that a file may have */
    int                   threads;
    const volatile int   *stop;
    void (*on_fetch)(void *arg, const char *name, const ms_fetch_progress *p);
    void (*on_tokenize)(void *arg, const char *name, const ms_tokenize_progress *p);
    void (*on_notice)(void *arg, const char *text);
    void *arg;
} ms_get_config;

typedef struct ms_get_result {
    int64_t files, found; /* files that were wanted, and those of them that were there */
    int64_t received;     /* bytes of this call */
    int64_t shards;       /* in DIR, both sides */
    int64_t tokens, val;  /* of training and of validation */
    int64_t bad;          /* lines passed over in the texts of this call */
} ms_get_result;

musec_status ms_get(ms_error *e, const ms_get_config *cfg, ms_get_result *out);

#endif
