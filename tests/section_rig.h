/* section_rig.h - the sections of runs made up in memory, and looks at what stands in them. */
#ifndef MS_TESTS_SECTION_RIG_H
#define MS_TESTS_SECTION_RIG_H

#include "report/sections.h"
#include "run_rig.h"

typedef struct rig {
    ms_error   e;
    ms_runset  set;
    ms_compare c;
    ms_page    page;
} rig;

extern const ms_report_options usual;

void make(rig *r, const made *runs, size_t n, const ms_report_options *options);
void release(rig *r);

const ms_section *section(const rig *r, const char *id); /* NULL: it is not there */
/* These fail where there is none. */
const ms_block *block(const rig *r, const char *id);
const ms_curve *curve(const rig *r, const char *figure, size_t panel, const char *label);

void check_point(const ms_curve *c, size_t at, double x, double y); /* y NaN: it diverged */
/* Row `row` of a table, 0 being the first below the names, as "a|b|c". */
void check_row(const rig *r, const char *table, size_t row, const char *want);
void check_rows(const rig *r, const char *table, size_t n);

#endif
