/* sections.h - runs to a page: a section for each figure and table of the paper that they allow. */
#ifndef MS_REPORT_SECTIONS_H
#define MS_REPORT_SECTIONS_H

#include "report/compare.h"
#include "report/page.h"

typedef struct ms_report_options {
    bool               omit_times; /* nothing that differs between two runs of the same config */
    double             within; /* stability: share above the best loss that still counts, 0.02 */
    const char *const *only;   /* ids of sections; NULL: all */
    size_t             n_only;
} ms_report_options;

/* Are these all sections?  If not, the nearest is named. */
musec_status ms_sections_check(ms_error *e, const char *const *only, size_t n);
/* Sections that the runs do not allow are left out.  Those that were asked for by `only` say why in
 * their place; otherwise the last section of the page lists them. */
musec_status ms_sections_build(ms_error *e, const ms_compare *c, const ms_report_options *options,
                               ms_page *page);
/* The sections: id, title and what of the paper they show; index 0, 1, ... until NULL. */
const char *ms_section_at(size_t index, const char **title, const char **shows);

#endif
