/* compare_labels.h - labels of problems, and the fields that distinguish problems; private to
 * compare.c and compare_labels.c. */
#ifndef MS_REPORT_COMPARE_LABELS_H
#define MS_REPORT_COMPARE_LABELS_H

#include "report/compare.h"

musec_status ms_compare_no_memory(ms_error *e);
/* The text of an option of a run: "" where that is what runs do that lack the option. */
const char *ms_compare_option_text(const ms_run *run, const char *option);
/* Does the field distinguish problems?  The optimizer's fields and ignored ones do not. */
bool ms_is_problem_field(const char *field);

/* "builtin", "fineweb", "fineweb + c4": last parts of the paths without weights; to be freed. */
char *ms_set_label(const char *data);
/* Fills in the labels, and notes which problems of the same name differ in a field. */
musec_status ms_label_problems(ms_error *e, ms_runset *set, ms_compare *c);
musec_status ms_note_precisions(ms_error *e, ms_runset *set, const ms_compare *c);
/* Notes which clipping methods have not converged, as their runs measured it. */
musec_status ms_note_gains(ms_error *e, ms_runset *set, const ms_compare *c);

#endif
