/* sections.h - builds a page from runs: a section for each figure and table that they allow. */
#ifndef MS_REPORT_SECTIONS_H
#define MS_REPORT_SECTIONS_H

#include "report/compare.h"
#include "report/page.h"

typedef struct ms_report_options {
    bool               omit_times; /* leave out what differs between two runs of the same config */
    double             within; /* stability: share above the best loss that still counts, 0.02 */
    double             target; /* race: the validation loss to reach; 0: by Muon (race.h) */
    const char *const *only;   /* ids of sections; NULL: all */
    size_t             n_only;
} ms_report_options;

/* Checks that these are sections; the error names the nearest. */
musec_status ms_sections_check(ms_error *e, const char *const *only, size_t n);
/* Sections that the runs do not allow are left out.  Those requested by `only` say why in their
 * place; otherwise the last section of the page lists them. */
musec_status ms_sections_build(ms_error *e, const ms_compare *c, const ms_report_options *options,
                               ms_page *page);
/* The id of a section, its title and what it shows of the paper; index 0, 1, ... until NULL. */
const char *ms_section_at(size_t index, const char **title, const char **shows);

#endif
