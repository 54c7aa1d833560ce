/* run_rig.h - runs made up in memory, for tests of figures and tables. */
#ifndef MS_TESTS_RUN_RIG_H
#define MS_TESTS_RUN_RIG_H

#include "report/runset.h"

/* Adds a run.  The text is its optimizer, then what differs from the usual run, separated by
 * blanks: fields of its config ("lr=0.1 ns_mode=exact"), loss=2.5, lines=10 (of its log; usually
 * 4), diverged, stalled, staged (its batch grows after a third of the steps).
 *
 * Line i of n (from 0) has a training loss of 6 - i / n, a speed of 1000 + i and a largest logit of
 * 10 + i; the groups' values depend on the field, the group and the line.  Every second line
 * validates: the last with the run's loss, the others with 1 more.  In a staged run the tokens of a
 * step double after a third of the lines. */
void run_rig_add(ms_runset *set, const char *text);

#endif
