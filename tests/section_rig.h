/* section_rig.h - the sections of runs made up in memory, and checks of their contents. */
#ifndef MS_TESTS_SECTION_RIG_H
#define MS_TESTS_SECTION_RIG_H

#include "report/sections.h"
#include "run_rig.h"

extern struct page_rig { /* the last page that was made */
    ms_error   e;
    ms_runset  set;
    ms_compare c;
    ms_page    page;
} now;

extern const ms_report_options usual, without_times;

/* Makes the page of these runs (run_rig.h) in place of the last one. */
void make(const ms_report_options *options, const char *const *runs, size_t n);
#define MAKE(...)                                      \
    make(&usual, (const char *const[]){ __VA_ARGS__ }, \
         COUNT(((const char *const[]){ __VA_ARGS__ })))
void make_sections(const ms_report_options *options); /* of the runs in now.set */

const ms_section *section(const char *id); /* NULL: there is none */
/* These fail the test where there is none. */
const ms_block *block(const char *id);
const ms_panel *panel(const char *figure, size_t number);
const ms_curve *curve(const char *figure, size_t number, const char *label);

void check_point(const ms_curve *c, size_t at, double x, double y); /* y NaN: it diverged */
/* Row `row` of a table, 0 being the first below the names, as "a|b|c". */
void check_row(const char *table, size_t row, const char *want);
void check_rows(const char *table, size_t n);
void check_has(const char *text, const char *part);
void check_caption(const char *figure, const char *part);

#endif
