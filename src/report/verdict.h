/* verdict.h - the paper's claims, each with the measurement that tests it and what it gave. */
#ifndef MS_REPORT_VERDICT_H
#define MS_REPORT_VERDICT_H

#include "report/compare.h"
#include "report/page.h"

typedef enum ms_verdict { MS_NOT_TESTED, MS_HOLDS, MS_DOES_NOT_HOLD } ms_verdict;

typedef struct ms_finding {
    const char *id, *where; /* where: the paper's section */
    const char *claim;      /* in our words */
    const char *measure;    /* what is measured, and when it counts as holding */
    ms_verdict  verdict;
    const char *result;                     /* the figures; of one that was not tested, why */
    char       *result_text, *measure_text; /* owned: what they point to */
} ms_finding;

/* All claims, in the order of the paper; the number of them is returned.  `out` has room for that
 * many, or is NULL.  omit_times: claims about times are not tested, as they would differ between
 * two runs of the same config. */
size_t      ms_verdict_find(const ms_compare *c, bool omit_times, ms_finding *out);
void        ms_verdict_free(ms_finding *findings, size_t n); /* what they hold */
const char *ms_verdict_word(ms_verdict v); /* "holds", "does not hold", "not tested here" */
/* How many hold, do not hold, are not tested, as a page counts them (ms_page_counts). */
void ms_verdict_counts(const ms_finding *findings, size_t n, ms_table *pairs);
/* Fills a table with the columns section, claim, measurement, result and verdict. */
void ms_verdict_table(const ms_finding *findings, size_t n, ms_table *table);

#endif
