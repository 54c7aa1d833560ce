/* compare_labels.h - labels of problems, and which fields tell problems apart; private to
 * compare.c and compare_labels.c. */
#ifndef MS_REPORT_COMPARE_LABELS_H
#define MS_REPORT_COMPARE_LABELS_H

#include "report/compare.h"

musec_status ms_compare_no_memory(ms_error *e);
/* Does the field tell problems apart: neither the optimizer's nor of no consequence? */
bool ms_is_problem_field(const char *field);

/* "builtin", "fineweb", "fineweb + c4": last parts of the paths, without weights; to be freed. */
char *ms_set_label(const char *data);
/* Fills in the labels, and notes which problems look alike but for a field. */
musec_status ms_label_problems(ms_error *e, ms_runset *set, ms_compare *c);
musec_status ms_note_precisions(ms_error *e, ms_runset *set, const ms_compare *c);

#endif
