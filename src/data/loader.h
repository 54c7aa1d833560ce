/* loader.h - micro-batches of packed documents, prefetched in order from any saved position.
 *
 * A micro-batch has `tokens` inputs and, one place later, as many targets.  Documents begin at the
 * start token.  What happens to a document longer than max_doc and to the rest of the last one:
 *     skip   left out: each document is cut to max_doc, and the next micro-batch begins at the next
 *            start token (the rule of the paper's code base)
 *     keep   it goes on as a document of its own: nothing of the text is lost.  The next
 *            micro-batch begins with the last target of this one
 * The rest of a piece of the source that cannot fill a micro-batch is skipped; after the last piece
 * the first one comes again, in the next epoch.  For validation (`once`) nothing is skipped: the
 * last micro-batch of each piece is shorter, and after that of the last piece there are none.
 *
 * A thread packs the next micro-batch ahead, expecting it to be asked for with the same numbers; if
 * not, it is packed again.  The result depends on the position and the numbers asked for alone. */
#ifndef MS_DATA_LOADER_H
#define MS_DATA_LOADER_H

#include <stdbool.h>

#include "data/source.h"

typedef struct ms_batch { /* host memory, the loader's */
    const int32_t *inputs, *targets;
    const int32_t *doc; /* row of the first token of the document that row i is in */
    int64_t        tokens;
    int64_t        epoch;
} ms_batch;

typedef struct ms_position { /* the next micro-batch begins there; { 0 } is the beginning */
    int64_t epoch, piece, token;
} ms_position;

typedef struct ms_loader_config {
    ms_source_config source;
    int64_t          max_tokens; /* in one micro-batch */
    bool             keep_rest;
    bool             once;
    /* mixture.h: the directory in which a relative path is looked for that is not there; or NULL */
    const char *base;
} ms_loader_config;

typedef struct ms_loader ms_loader;

/* Fails if the source cannot fill one micro-batch of one token. */
musec_status ms_loader_open(ms_error *e, const ms_loader_config *cfg, ms_loader **out);
void         ms_loader_close(ms_loader *l);
/* *out is valid until the next call; its tokens are 0 at the end of a `once`.  tokens and max_doc
 * must be at least 1; a source whose largest piece cannot fill a micro-batch is an error that says
 * how many tokens there are. */
musec_status ms_loader_next(ms_error *e, ms_loader *l, int64_t tokens, int64_t max_doc,
                            ms_batch *out);
/* Returns the position of the next micro-batch. */
ms_position      ms_loader_position(const ms_loader *l);
musec_status     ms_loader_seek(ms_error *e, ms_loader *l, ms_position at);
const ms_source *ms_loader_source(const ms_loader *l);
/* Adds to counts[id] how often each id occurs in the first `limit` tokens of the source, and to *n
 * how many tokens those were.  `counts` has 65536 elements.  The batches that follow stay the
 * same. */
musec_status ms_loader_count(ms_error *e, ms_loader *l, int64_t limit, int64_t *counts, int64_t *n);
/* Estimates the largest amount of host memory that it will hold. */
uint64_t ms_loader_bytes(const ms_loader *l);

#endif
