/* run_rig.h - runs made up in memory, for what is drawn of them. */
#ifndef MS_TESTS_RUN_RIG_H
#define MS_TESTS_RUN_RIG_H

#include "report/runset.h"

/* Adds a run.  The text is its optimizer, then what differs from the usual run, with blanks in
 * between: fields of its config ("lr=0.1 ns_mode=exact"), loss=2.5, lines=10 (of its log; 4),
 * diverged, stalled, staged (its batch grows after a third of the steps).
 *
 * Line i of n (from 0): the training loss is 6 - i / n; every second line validates, the last with
 * the run's loss, the others with 1 more; the groups' values name their field, group and line;
 * the speed is 1000 + i, the largest logit 10 + i.  Where it is staged, the tokens of a step double
 * after a third of the lines. */
void run_rig_add(ms_runset *set, const char *text);

#endif
