/* verdict.h - the paper's claims, the measurements that test them, and their results. */
#ifndef MS_REPORT_VERDICT_H
#define MS_REPORT_VERDICT_H

#include "report/compare.h"
#include "report/page.h"

typedef enum ms_verdict { MS_NOT_TESTED, MS_HOLDS, MS_DOES_NOT_HOLD, MS_NOT_DECIDED } ms_verdict;

typedef struct ms_finding {
    const char *id, *where; /* where: the paper's section */
    const char *claim;      /* reworded */
    const char *measure;    /* what is measured, and when the claim holds */
    ms_verdict  verdict;
    const char *result;                     /* the numbers, or why it was not tested */
    char       *result_text, *measure_text; /* owned: what result and measure point to, or NULL */
} ms_finding;

size_t ms_verdict_count(void); /* of the claims */
/* Judges all claims, in the order of the paper; `out` has room for all.  omit_times: claims about
 * times are not tested, as times differ between two runs of the same config.  Without memory `out`
 * has nothing to be freed. */
musec_status ms_verdict_find(ms_error *e, const ms_compare *c, bool omit_times, ms_finding *out);
void         ms_verdict_free(ms_finding *findings, size_t n); /* frees their texts */
const char  *ms_verdict_word(ms_verdict v); /* "holds", ..., "not decided by these runs" */
/* Counts those that hold, do not hold, are not decided and are not tested, for ms_page_counts. */
void ms_verdict_counts(const ms_finding *findings, size_t n, ms_table *pairs);
/* Fills a table with the columns section, claim, measurement, result and verdict. */
void ms_verdict_table(const ms_finding *findings, size_t n, ms_table *table);

#endif
