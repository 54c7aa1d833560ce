/* pipeline.h - records in, tokens out: one thread reads, several encode, the caller gets blocks of
 * documents in the order of the input.
 *
 * The number of blocks is fixed, and a faster stage waits for a slower one.  So memory does not
 * depend on the input, except for a document that is longer than a block. */
#ifndef MS_DATA_PIPELINE_H
#define MS_DATA_PIPELINE_H

#include "data/bpe.h"
#include "data/reader.h"

typedef struct ms_piece { /* a record and its tokens */
    ms_record record;     /* its data is in the block */
    size_t    offset;     /* of its data in the block */
    bool      bad;        /* passed over: no tokens */
    size_t    text_bytes, tokens;
} ms_piece;

typedef struct ms_token_block {
    ms_piece    *pieces;
    size_t       n;        /* pieces that can be used; if there was a failure, those before it */
    uint16_t    *tokens;   /* of all pieces, one after the other */
    int64_t      consumed; /* bytes of input up to its end */
    bool         last;     /* nothing follows */
    musec_status st;       /* what came after the pieces; a failure is always in the last block */
    ms_error     error;
    /* the pipeline's own */
    char  *raw;
    size_t bytes, raw_capacity, n_records, piece_capacity, token_capacity;
    int    state;
} ms_token_block;

typedef struct ms_pipeline ms_pipeline;

/* The reader belongs to the pipeline's thread until ms_pipeline_free; `quit` is what it has as its
 * `stop`.  bpe NULL: bytes.  skip_bad: lines that cannot be used are pieces marked as bad. */
typedef struct ms_pipeline_config {
    ms_reader    *reader;
    atomic_bool  *quit;
    const ms_bpe *bpe;
    int           threads;
    bool          skip_bad;
    int64_t       file, record; /* where to begin: see ms_reader_seek */
} ms_pipeline_config;

musec_status ms_pipeline_make(ms_error *e, const ms_pipeline_config *cfg, ms_pipeline **out);
/* Returns the next block, or NULL if it is not ready within about 100 ms. */
ms_token_block *ms_pipeline_next(ms_pipeline *p);
void            ms_pipeline_done(ms_pipeline *p, ms_token_block *block); /* releases the block */
void            ms_pipeline_free(ms_pipeline *p); /* at any time; sets *quit */

#endif
