/* mixture.h - several sets of data in one stream of micro-batches, each by its weight.
 *
 * A list of sets is one text, "PATH[=WEIGHT];PATH[=WEIGHT];...", weights being 1 where none is
 * given.  The next micro-batch comes from the set that has delivered least for its weight (the
 * first of equals), so that after any number of them no set is more than one micro-batch ahead of
 * its share: which set is whose turn follows from what was delivered, not from chance. */
#ifndef MS_DATA_MIXTURE_H
#define MS_DATA_MIXTURE_H

#include "data/loader.h"

enum { MS_SETS = 16, MS_SET_NAME = 64 };

typedef struct ms_mixture ms_mixture;

typedef struct ms_mixture_position { /* { 0 } is the beginning */
    ms_position at[MS_SETS];
    int64_t     tokens[MS_SETS]; /* delivered by each */
} ms_mixture_position;

/* Opens all sets with this config, whose path is the list. */
musec_status        ms_mixture_open(ms_error *e, const ms_loader_config *cfg, ms_mixture **out);
void                ms_mixture_close(ms_mixture *m);
musec_status        ms_mixture_next(ms_error *e, ms_mixture *m, int64_t tokens, int64_t max_doc,
                                    ms_batch *out);
ms_mixture_position ms_mixture_where(const ms_mixture *m);
musec_status        ms_mixture_seek(ms_error *e, ms_mixture *m, const ms_mixture_position *at);

/* The sets can be read one by one. */
size_t      ms_mixture_sets(const ms_mixture *m);
ms_loader  *ms_mixture_set(const ms_mixture *m, size_t index);
const char *ms_mixture_name(const ms_mixture *m, size_t index);   /* the last part of its path */
double      ms_mixture_weight(const ms_mixture *m, size_t index); /* they sum to 1 */
uint64_t    ms_mixture_bytes(const ms_mixture *m);
/* The unigram loss (core/outcome.h) of all sets together, each by its weight: of the first 2^20
 * tokens of each, or all that it has.  That is some milliseconds of work, and the same wherever a
 * run is on its way. */
musec_status ms_mixture_unigram(ms_error *e, ms_mixture *m, double *loss);
/* Where the sets were found: independently of any directory, relative to the working directory, or
 * in the base. */
typedef enum ms_found { MS_FOUND_ANYWHERE, MS_FOUND_HERE, MS_FOUND_IN_BASE } ms_found;
ms_found ms_mixture_found(const ms_mixture *m);

#endif
