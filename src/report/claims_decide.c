/* claims_decide.c - what a claim's conditions come to over the seeds of its runs.
 *
 * A judge states each condition once, in a fixed order, with its margin: by how much the bound is
 * kept, below 0 if it is not.  It is asked with the means over all seeds first.  Where all settings
 * that it reads have two seeds or more in common, it is asked again with each of these seeds: then
 * a condition holds if Student's interval of its margin is above 0, does not hold if it is below,
 * and is not decided otherwise.  Margins of one seed are thereby paired: what a seed does to all
 * methods alike drops out.  With one seed the means decide, which the result says. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/claims.h"

double ms_loss_at(const ms_evidence *ev, const ms_setting *s)
{
    const ms_run *run;

    if (s == NULL || !ev->one_seed) return ms_mean_loss(s);
    run = ms_run_of_seed(s, ev->seed);
    return run == NULL ? NAN : run->status == MS_RUN_DIVERGED ? INFINITY : run->val_loss;
}

/* Leaves of the seeds those that this setting has, too. */
static void keep_common_seeds(ms_evidence *ev, const ms_setting *s)
{
    size_t n = 0;
    if (!ev->has_seeds)
        for (size_t i = 0; i < s->n && i < MS_SEEDS; i++)
            ev->seeds[n++] = ms_seed_of(s->runs[i]);
    for (size_t i = 0; ev->has_seeds && i < ev->n_seeds; i++)
        if (ms_run_of_seed(s, ev->seeds[i]) != NULL) ev->seeds[n++] = ev->seeds[i];
    ev->has_seeds = true;
    ev->n_seeds   = n;
}

double ms_loss_of(ms_evidence *ev, const ms_setting *s)
{
    if (s != NULL && s->n - s->diverged > 1 && !(ev->spread >= ms_spread_of(s)))
        ev->spread = ms_spread_of(s);
    if (s != NULL && !ev->one_seed) keep_common_seeds(ev, s);
    return ms_loss_at(ev, s);
}

bool ms_is_lower(const ms_setting *a, const ms_setting *b, double share)
{
    const double      mine = ms_mean_loss(a), other = ms_mean_loss(b);
    const ms_interval apart = ms_paired_difference(b, a);

    if (apart.n >= 2) return apart.mean - apart.half > share;
    return isfinite(mine) && ms_above(other, mine) > share &&
           other - mine > fmax(ms_spread_of(a), ms_spread_of(b));
}

void ms_require(ms_evidence *ev, bool fulfilled, double margin)
{
    if (ev->n_margins == MS_MARGINS) {
        ev->out_of_memory = true; /* more conditions than any claim has */
        return;
    }
    ev->margins[ev->n_margins++] =
        (ms_margin){ fulfilled, isnan(margin) ? (fulfilled ? INFINITY : -INFINITY) : margin };
}

/* One condition over the seeds: `at` has its margins. */
static ms_verdict decide_one(const ms_margin *at, size_t n, bool by_means, ms_interval *out)
{
    double values[MS_SEEDS];
    size_t kept = 0, infinite = 0;

    for (size_t i = 0; i < n; i++) {
        values[i] = at[i].by;
        kept += at[i].fulfilled;
        infinite += isinf(at[i].by) != 0;
    }
    *out = ms_interval_of(values, n);
    if (infinite > 0) return kept == n ? MS_HOLDS : kept == 0 ? MS_DOES_NOT_HOLD : MS_NOT_DECIDED;
    if (out->half == 0.0) return ms_held(by_means);
    if (out->mean - out->half > 0.0) return MS_HOLDS;
    return out->mean + out->half < 0.0 ? MS_DOES_NOT_HOLD : MS_NOT_DECIDED;
}

ms_verdict ms_verdict_and(ms_verdict a, ms_verdict b)
{
    if (a == MS_DOES_NOT_HOLD || b == MS_DOES_NOT_HOLD) return MS_DOES_NOT_HOLD;
    return a == MS_NOT_DECIDED || b == MS_NOT_DECIDED ? MS_NOT_DECIDED : MS_HOLDS;
}

/* Asks the judge again with each seed, and decides each condition. */
static ms_verdict decide_by_seeds(ms_evidence *ev, ms_judge *judge)
{
    ms_margin(*at)[MS_SEEDS] = calloc(ev->n_margins, sizeof *at);
    ms_interval tightest     = { .mean = INFINITY };
    ms_verdict  all          = MS_HOLDS;
    bool        same         = at != NULL;

    ev->out_of_memory = ev->out_of_memory || at == NULL;
    for (size_t k = 0; same && k < ev->n_seeds; k++) {
        ms_evidence one = { .c        = ev->c,
                            .problem  = ev->problem,
                            .claim    = ev->claim,
                            .one_seed = true,
                            .seed     = ev->seeds[k],
                            .spread   = NAN };
        (void)judge(&one);
        same              = one.n_margins == ev->n_margins;
        ev->out_of_memory = ev->out_of_memory || one.out_of_memory;
        for (size_t i = 0; same && i < one.n_margins; i++)
            at[i][k] = one.margins[i];
        free(one.text);
    }
    for (size_t i = 0; same && i < ev->n_margins; i++) {
        ms_interval margin;
        all =
            ms_verdict_and(all, decide_one(at[i], ev->n_seeds, ev->margins[i].fulfilled, &margin));
        if (isfinite(margin.mean) && !(margin.mean - margin.half >= tightest.mean - tightest.half))
            tightest = margin;
    }
    free(at);
    if (!same) {
        ms_note(ev, " (%zu paired seeds, one of which does not test it alone)", ev->n_seeds);
        return MS_NOT_DECIDED;
    }
    ms_note(ev, " (%zu paired seeds", ev->n_seeds);
    if (isfinite(tightest.mean))
        ms_note(ev, ", margin %+.1f%%, %g%% interval %+.1f to %+.1f%%", 100.0 * tightest.mean,
                100.0 * MS_CONFIDENCE, 100.0 * (tightest.mean - tightest.half),
                100.0 * (tightest.mean + tightest.half));
    ms_note(ev, ")");
    return all;
}

ms_verdict ms_decide(ms_evidence *ev, ms_judge *judge)
{
    ms_verdict verdict = judge(ev);

    if (verdict == MS_NOT_TESTED) return verdict;
    if (!isnan(ev->spread)) ms_note(ev, " (seeds within %.3f)", ev->spread);
    if (ev->n_margins == 0) return verdict;
    if (ev->n_seeds >= 2) return decide_by_seeds(ev, judge);
    for (size_t i = 0; i < ev->n_margins; i++)
        verdict = ms_verdict_and(verdict, ms_held(ev->margins[i].fulfilled));
    if (ev->has_seeds)
        ms_note(ev, "%s",
                ev->n_seeds == 0    ? " (no seed in common)"
                : isnan(ev->spread) ? " (one seed)"
                                    : " (one seed in common)");
    return verdict;
}

/* ---- optima at the edge of a grid ------------------------------------------------------------ */

/* The decays of a list by role: their mean, to sort them, and the largest. */
static void read_decay(const char *text, double *mean, double *most)
{
    double sum = 0.0;
    size_t n   = 0;

    *most = 0.0;
    for (const char *at = text; *at != '\0'; at += strcspn(at, ","), at += *at == ',') {
        const char  *equal = strchr(at, '=');
        const char  *from  = equal != NULL && equal < at + strcspn(at, ",") ? equal + 1 : at;
        const double x     = strtod(from, NULL);
        sum += x;
        n++;
        *most = fmax(*most, x);
    }
    *mean = n > 0 ? sum / (double)n : 0.0;
}

typedef struct edges { /* whether a setting has the smallest or the largest of what was run */
    bool lowest_rate, highest_rate, lowest_threshold, highest_threshold, lowest_decay,
        highest_decay;
} edges;

static edges find_edges(const ms_compare *c, const ms_setting *best)
{
    edges  e = { true, true, true, true, true, true };
    double mean, most, decay, ignored;

    read_decay(best->decay, &decay, &ignored);
    for (size_t i = 0; i < c->n_settings; i++) {
        const ms_setting *s = &c->settings[i];
        if (s->problem != best->problem || s->method != best->method || !(s->lr > 0.0)) continue;
        read_decay(s->decay, &mean, &most);
        if (s->lr < best->lr && !ms_same_number(s->lr, best->lr)) e.lowest_rate = false;
        if (s->lr > best->lr && !ms_same_number(s->lr, best->lr)) e.highest_rate = false;
        if (s->threshold < best->threshold) e.lowest_threshold = false;
        if (s->threshold > best->threshold) e.highest_threshold = false;
        if (mean < decay) e.lowest_decay = false;
        if (mean > decay) e.highest_decay = false;
    }
    return e;
}

/* Ends where nothing lies beyond, or nothing that the paper tuned over. */
static const double smallest_decay = 0.0, largest_decay = 1.2;

bool ms_at_edge(ms_evidence *ev, const ms_setting *best)
{
    double mean, most;
    edges  e;

    if (best == NULL || !isfinite(ms_mean_loss(best))) return false; /* there is no optimum */
    e                 = find_edges(ev->c, best);
    const char *title = ev->c->methods[best->method].label;
    read_decay(best->decay, &mean, &most);
    if (e.lowest_rate || e.highest_rate)
        ms_not_tested(ev, "at the edge of the grid: the best learning rate of %s is %g, the %s run",
                      title, best->lr, e.lowest_rate ? "smallest" : "largest");
    else if (e.lowest_threshold != e.highest_threshold) /* with one there is nothing to choose */
        ms_not_tested(ev, "at the edge of the grid: the best threshold of %s is %s, the %s run",
                      title, best->threshold_text, e.lowest_threshold ? "smallest" : "largest");
    else if ((e.lowest_decay && !e.highest_decay && mean > smallest_decay) ||
             (e.highest_decay && !e.lowest_decay && most < largest_decay))
        ms_not_tested(ev, "at the edge of the grid: the best weight decay of %s is %s, the %s run",
                      title, best->decay, e.lowest_decay ? "smallest" : "largest");
    else
        return false;
    return true;
}
