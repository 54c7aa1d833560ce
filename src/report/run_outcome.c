/* run_outcome.c - judges from its log how a run ended (core/outcome.h). */
#define _POSIX_C_SOURCE 200809L /* strdup */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/outcome.h"
#include "report/runset.h"

static double last_weight_norm(const ms_run *run)
{
    const ms_run_line *last = ms_run_last_groups(run);
    double             norm = NAN;
    for (int g = 0; last != NULL && g < MS_RUN_GROUPS; g++)
        norm = fmax(norm, last->groups[g].w_norm); /* ignores NaN */
    return norm;
}

musec_status ms_run_judge(ms_error *e, ms_run *run, bool judged)
{
    ms_loss_track track = { 0 };
    char          reason[MS_OUTCOME_REASON];
    ms_outcome    outcome;

    for (size_t i = 0; i < run->n; i++)
        ms_loss_track_add(&track, run->lines[i].loss);
    run->learned = ms_outcome_learned(&track, run->unigram_loss);
    if (judged || run->status != MS_RUN_DONE) return MUSEC_OK;
    outcome = ms_outcome_judge(&track, run->unigram_loss, last_weight_norm(run), reason);
    if (outcome == MS_OUTCOME_DONE) return MUSEC_OK;
    run->status = outcome == MS_OUTCOME_STALLED ? MS_RUN_STALLED : MS_RUN_DIVERGED;
    free(run->reason);
    run->reason = strdup(reason);
    return run->reason != NULL ? MUSEC_OK : ms_no_memory(e, "the runs");
}

const char *ms_run_status_word(ms_run_status status)
{
    static const char *const words[] = { "unfinished", "done", "stalled", "diverged" };
    return words[status];
}
