/* seeds.c - see seeds.h. */
#include "report/seeds.h"

#include <math.h>
#include <stdlib.h>

int64_t ms_seed_of(const ms_run *run) { return strtoll(ms_run_text(run, "seed"), NULL, 10); }

const ms_run *ms_run_of_seed(const ms_setting *s, int64_t seed)
{
    for (size_t i = 0; i < s->n; i++)
        if (ms_seed_of(s->runs[i]) == seed) return s->runs[i];
    return NULL;
}

ms_interval ms_loss_interval(const ms_setting *s)
{
    double losses[MS_SEEDS];
    size_t n = 0;

    for (; n < s->n && n < MS_SEEDS; n++)
        losses[n] = s->runs[n]->val_loss;
    if (s->diverged > 0 || s->stalled > 0) return ms_interval_of(NULL, 0);
    return ms_interval_of(losses, n);
}

ms_interval ms_paired_difference(const ms_setting *a, const ms_setting *b)
{
    double by[MS_SEEDS];
    size_t n = 0;

    if (a->diverged + a->stalled > 0 || b->diverged + b->stalled > 0)
        return ms_interval_of(NULL, 0);
    for (size_t i = 0; i < a->n && n < MS_SEEDS; i++) {
        const ms_run *other = ms_run_of_seed(b, ms_seed_of(a->runs[i]));
        if (other != NULL) by[n++] = (a->runs[i]->val_loss - other->val_loss) / other->val_loss;
    }
    return ms_interval_of(by, n);
}
