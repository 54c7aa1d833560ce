/* corpus.h - the built-in corpus: text that a seeded generator makes, any amount of it. */
#ifndef MS_DATA_CORPUS_H
#define MS_DATA_CORPUS_H

#include "core/status.h"
#include "data/lexicon.h"

/* Document `index` of the corpus `seed`, as bytes; the same arguments give the same bytes on every
 * machine.  *text is malloc'ed. */
musec_status ms_corpus_document(ms_error *e, uint64_t seed, int64_t index, char **text, size_t *n);

/* The same document, for callers that want many: `lex` is what ms_lexicon_make gives for the seed,
 * which takes longer to make than most documents. */
musec_status ms_corpus_document_from(ms_error *e, const ms_lexicon *lex, uint64_t seed,
                                     int64_t index, char **text, size_t *n);

#endif
