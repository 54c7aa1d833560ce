/* compare_find.c - the best settings and the plain methods of a comparison, see compare.h. */
#include <math.h>
#include <string.h>

#include "report/compare.h"

bool ms_setting_better(const ms_setting *a, const ms_setting *b)
{
    const size_t a_failed = a->stalled + a->diverged;
    const size_t b_failed = b != NULL ? b->stalled + b->diverged : 0;
    if (b == NULL) return true;
    if (a_failed * b->n != b_failed * a->n) return a_failed * b->n < b_failed * a->n;
    return a->loss < b->loss || (isnan(b->loss) && !isnan(a->loss));
}

bool ms_setting_failed(const ms_setting *s) { return s->stalled + s->diverged == s->n; }

size_t ms_compare_count(const ms_compare *c, size_t problem, size_t method)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n_settings; i++)
        if (c->settings[i].problem == problem && c->settings[i].method == method)
            n += c->settings[i].n;
    return n;
}

/* Of the setting of the method with most of them. */
static size_t most_seeds(const ms_compare *c, size_t problem, size_t method)
{
    size_t most = 0;
    for (size_t i = 0; i < c->n_settings; i++)
        if (c->settings[i].problem == problem && c->settings[i].method == method &&
            c->settings[i].n > most)
            most = c->settings[i].n;
    return most;
}

/* Where a best setting got more seeds, it is not replaced by one that was lucky with a single
 * seed: over all rates, settings with less than half of the most seeds do not count. */
const ms_setting *ms_compare_find(const ms_compare *c, size_t problem, size_t method, double lr,
                                  double threshold, const char *decay)
{
    const size_t      most = isnan(lr) ? most_seeds(c, problem, method) : 0;
    const ms_setting *best = NULL;
    for (size_t i = 0; i < c->n_settings; i++) {
        const ms_setting *s = &c->settings[i];
        if (s->problem != problem || s->method != method || 2 * s->n < most) continue;
        if (!isnan(lr) && !ms_same_number(s->lr, lr)) continue;
        if (!isnan(threshold) && !ms_same_number(s->threshold, threshold)) continue;
        if (decay != NULL && strcmp(s->decay, decay) != 0) continue;
        if (ms_setting_better(s, best)) best = s;
    }
    return best;
}

const ms_setting *ms_compare_best(const ms_compare *c, size_t problem, size_t method, double lr)
{
    return ms_compare_find(c, problem, method, lr, NAN, NULL);
}

const ms_setting *ms_compare_tuned(const ms_compare *c, size_t problem, size_t method)
{
    return ms_compare_find(c, problem, method, NAN, NAN, NULL);
}

double ms_setting_muon_rate(const ms_setting *s)
{
    const bool unit = strcmp(ms_run_text(s->runs[0], "update_scale"), "unit") == 0;
    return unit ? s->lr : s->lr * s->threshold;
}

size_t ms_compare_plain(const ms_compare *c, const char *optimizer)
{
    size_t best = c->n_methods, most = 0;
    for (size_t m = 0; m < c->n_methods; m++) {
        size_t runs = 0;
        if (strcmp(c->methods[m].optimizer, optimizer) != 0) continue;
        if (!c->methods[m].variant) return m;
        for (size_t i = 0; i < c->n_settings; i++)
            if (c->settings[i].method == m) runs += c->settings[i].n;
        if (runs > most) {
            best = m;
            most = runs;
        }
    }
    return best;
}
