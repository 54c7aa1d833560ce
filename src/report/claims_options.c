/* claims_options.c - claims on thresholds and iterations, and our own controls. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/claims.h"

enum { MAX_THRESHOLDS = 64 };

/* ---- the threshold --------------------------------------------------------------------------- */

/* Soft Musec's best setting at one rate for each threshold, ascending, as settings are sorted. */
static size_t thresholds_at(const ms_evidence *ev, double lr, const ms_setting *out[MAX_THRESHOLDS])
{
    const ms_compare *c      = ev->c;
    const size_t      method = ms_compare_plain(c, ms_compared[MS_SOFT]);
    size_t            n      = 0;
    for (size_t i = 0; i < c->n_settings && n < MAX_THRESHOLDS; i++) {
        const ms_setting *s = &c->settings[i];
        if (s->problem != ev->problem || s->method != method || !ms_same_number(s->lr, lr) ||
            isnan(s->threshold) || (n > 0 && ms_same_number(out[n - 1]->threshold, s->threshold)))
            continue;
        out[n++] = ms_compare_find(c, ev->problem, method, lr, s->threshold, NULL);
    }
    return n;
}

ms_verdict ms_judge_threshold(ms_evidence *ev)
{
    static const double rates[] = { 0.1, 0.2 };
    const ms_setting   *at[MAX_THRESHOLDS];
    size_t              tested = 0;

    for (size_t r = 0; r < COUNT(rates); r++) {
        const size_t n     = thresholds_at(ev, rates[r], at);
        double       least = INFINITY, most = -INFINITY;
        if (n < 2) continue;
        for (size_t i = 0; i < n; i++) {
            const double loss = ms_loss_of(ev, at[i]);
            if (loss < least) least = loss;
            if (loss > most) most = loss;
        }
        ms_note_item(ev, "lr %g: D %g to %g ", rates[r], at[0]->threshold, at[n - 1]->threshold);
        if (isinf(most))
            ms_note(ev, "some diverged");
        else
            ms_note(ev, "%.3f to %.3f", least, most);
        ms_require(ev, ms_above(most, least) <= ev->claim->bound[0],
                   ev->claim->bound[0] - ms_above(most, least));
        tested++;
    }
    if (tested > 0) return MS_HOLDS;
    return ms_not_tested(ev, "there are not two thresholds of Soft Musec at lr 0.1 or 0.2");
}

/* The largest rise of the validation loss above its lowest so far, in the second half of the run,
 * as a share; infinite if it diverged. */
static double late_rise(const ms_run *run)
{
    double lowest = INFINITY, rise = 0.0;
    if (run->status == MS_RUN_DIVERGED) return INFINITY;
    for (size_t i = 0; i < run->n; i++) {
        const ms_run_line *line = &run->lines[i];
        if (!line->has_val || isnan(line->val_loss)) continue;
        if (2 * line->step >= run->steps && isfinite(lowest))
            rise = fmax(rise, ms_above(line->val_loss, lowest));
        lowest = fmin(lowest, line->val_loss);
    }
    return rise;
}

static double mean_late_rise(const ms_setting *s)
{
    double sum = 0.0;
    for (size_t i = 0; i < s->n; i++)
        sum += late_rise(s->runs[i]);
    return sum / (double)s->n;
}

ms_verdict ms_judge_threshold_large(ms_evidence *ev)
{
    const ms_setting *at[MAX_THRESHOLDS], *ends[2];
    const size_t      n = thresholds_at(ev, ev->claim->lr, at);
    double            loss[2], rise[2];

    if (n < 2)
        return ms_not_tested(ev, "there are not two thresholds of Soft Musec at lr %g",
                             ev->claim->lr);
    ends[0] = at[0];
    ends[1] = at[n - 1];
    for (int i = 0; i < 2; i++) {
        loss[i] = ms_loss_of(ev, ends[i]);
        rise[i] = mean_late_rise(ends[i]);
        ms_note_item(ev, "D %g: ", ends[i]->threshold);
        if (isfinite(loss[i]))
            ms_note(ev, "%.3f, rises by %.1f%%", loss[i], 100.0 * rise[i]);
        else
            ms_note(ev, "diverged");
    }
    return ms_held(isfinite(loss[0]) && rise[1] > ev->claim->bound[0] &&
                   rise[1] > ev->claim->bound[1] * rise[0]);
}

bool ms_measure_threshold_one(ms_evidence *ev, ms_measured *out)
{
    const ms_compare *c    = ev->c;
    const double      lr   = ev->claim->lr;
    const size_t      soft = ms_compare_plain(c, ms_compared[MS_SOFT]);
    const ms_setting *one =
        soft < c->n_methods ? ms_compare_find(c, ev->problem, soft, lr, 1.0, NULL) : NULL;
    const ms_setting *least = NULL;
    double            best;

    if (one == NULL) {
        ms_not_tested(ev, "there is no run of Soft Musec with D 1 at lr %g", lr);
        return false;
    }
    if (ms_method_at(ev, MS_MUON, lr) == NULL) {
        ms_no_run(ev, ms_compared[MS_MUON], lr);
        return false;
    }
    for (int m = 0; m < MS_COMPARED; m++) {
        const ms_setting *tuned = ms_method_at(ev, m, NAN);
        if (ms_mean_loss(tuned) < ms_mean_loss(least) || least == NULL) least = tuned;
    }
    if (ms_at_edge(ev, least)) return false;
    best = ms_loss_of(ev, least);
    for (int m = 0; m < MS_COMPARED; m++) {
        const ms_setting *s = m == MS_SOFT ? one : ms_method_at(ev, m, lr);
        if (s == NULL || m == MS_SPECTRA) continue;
        ms_measured_set(out, m, ms_above(ms_loss_of(ev, s), best));
        ms_note_item(ev, "%s ", ms_compared_title(m));
        ms_note_share(ev, out->of[m][0]);
    }
    return true;
}

/* ---- iterations ------------------------------------------------------------------------------ */

/* Is the method Soft Musec with only `word` in its label ("exact", "K=3"), or nothing (NULL)? */
static bool is_soft_with(const ms_method *m, const char *word)
{
    char label[128];
    if (strcmp(m->optimizer, ms_compared[MS_SOFT]) != 0) return false;
    snprintf(label, sizeof label, "%s%s%s", ms_compared_title(MS_SOFT), word != NULL ? ", " : "",
             word != NULL ? word : "");
    return strcmp(m->label, label) == 0;
}

/* The K of a setting of Soft Musec whose other options are the usual ones; 0: any other setting. */
static long iterations_of(const ms_compare *c, const ms_setting *s)
{
    const char *mode = ms_run_text(s->runs[0], "ns_mode"), *k = ms_run_text(s->runs[0], "ns_iters");
    char        word[32];
    snprintf(word, sizeof word, "K=%s", k);
    if (mode[0] != '\0' && strcmp(mode, "paper") != 0) return 0;
    if (!is_soft_with(&c->methods[s->method], NULL) && !is_soft_with(&c->methods[s->method], word))
        return 0;
    return strtol(k, NULL, 10);
}

static bool same_but_method(const ms_setting *a, const ms_setting *b)
{
    return a->problem == b->problem && ms_same_number(a->lr, b->lr) &&
           strcmp(a->threshold_text, b->threshold_text) == 0 && strcmp(a->decay, b->decay) == 0;
}

typedef struct k_series { /* settings that differ in K alone, K from 3 on */
    const ms_setting *least_k, *most_k;
    long              from, to;
    double            low, high; /* losses */
} k_series;

/* Collects the settings that differ from setting `first` in K alone; false: it is not the first of
 * them on the problem, or there is only one K. */
static bool find_series(ms_evidence *ev, size_t first, k_series *out)
{
    const ms_compare *c    = ev->c;
    const ms_setting *base = &c->settings[first];
    *out                   = (k_series){ .low = INFINITY, .high = -INFINITY };
    if (base->problem != ev->problem || iterations_of(c, base) < 3) return false;
    for (size_t i = 0; i < c->n_settings; i++) {
        const ms_setting *s = &c->settings[i];
        const long        k = iterations_of(c, s);
        if (k < 3 || !same_but_method(s, base)) continue;
        if (i < first) return false;
        const double loss = ms_loss_of(ev, s);
        if (out->from == 0 || k < out->from) {
            out->from    = k;
            out->least_k = s;
        }
        if (k > out->to) {
            out->to     = k;
            out->most_k = s;
        }
        out->low  = fmin(out->low, loss);
        out->high = fmax(out->high, loss);
    }
    return out->to > out->from;
}

static void note_series(ms_evidence *ev, const k_series *l)
{
    ms_note_item(ev, "lr %g D %s: ", l->least_k->lr, l->least_k->threshold_text);
}

ms_verdict ms_judge_iterations(ms_evidence *ev)
{
    const ms_compare *c      = ev->c;
    size_t            tested = 0;

    for (size_t i = 0; i < c->n_settings; i++) {
        k_series l;
        if (!find_series(ev, i, &l) || l.from != 3) continue;
        note_series(ev, &l);
        if (isinf(l.high))
            ms_note(ev, "some K diverged");
        else
            ms_note(ev, "K %ld to %ld %.3f to %.3f", l.from, l.to, l.low, l.high);
        ms_require(ev, ms_above(l.high, l.low) <= ev->claim->bound[0],
                   ev->claim->bound[0] - ms_above(l.high, l.low));
        tested++;
    }
    if (tested > 0) return MS_HOLDS;
    return ms_not_tested(ev,
                         "there are no runs of Soft Musec with K=3 and with more, else the same");
}

ms_verdict ms_judge_more_iterations(ms_evidence *ev)
{
    const ms_compare *c      = ev->c;
    size_t            tested = 0;

    for (size_t i = 0; i < c->n_settings; i++) {
        k_series l;
        if (!find_series(ev, i, &l)) continue;
        const double few = ms_loss_of(ev, l.least_k), many = ms_loss_of(ev, l.most_k);
        note_series(ev, &l);
        ms_note(ev, "K=%ld against K=%ld ", l.to, l.from);
        ms_note_share(ev, ms_above(many, few));
        ms_require(ev, ms_above(few, many) > ev->claim->bound[0],
                   ms_above(few, many) - ev->claim->bound[0]);
        tested++;
    }
    if (tested > 0) return MS_HOLDS;
    return ms_not_tested(ev, "there are no runs of Soft Musec that differ in K alone");
}

/* ---- controls -------------------------------------------------------------------------------- */

/* The best setting of the method at this rate that has a counterpart of Muon. */
static const ms_setting *with_counterpart(const ms_evidence *ev, size_t method, double lr,
                                          const ms_setting **muon)
{
    const ms_compare *c    = ev->c;
    const ms_setting *best = NULL;
    for (size_t i = 0; i < c->n_settings; i++) {
        const ms_setting *s = &c->settings[i];
        if (s->problem != ev->problem || s->method != method || !ms_same_number(s->lr, lr) ||
            isnan(ms_setting_muon_rate(s)))
            continue;
        const ms_setting *other = ms_method_at(ev, MS_MUON, ms_setting_muon_rate(s));
        if (other == NULL || !ms_setting_better(s, best)) continue;
        best  = s;
        *muon = other;
    }
    return best;
}

/* The settings at the largest rate, and the number of rates at which the method is better. */
typedef struct against_muon {
    const ms_setting *mine, *muon;
    size_t            better, n;
} against_muon;

static against_muon compare_with_muon(ms_evidence *ev, size_t method)
{
    const ms_compare *c   = ev->c;
    against_muon      out = { 0 };
    for (size_t i = 0; method < c->n_methods && i < c->n_rates; i++) {
        const ms_setting *muon, *s = with_counterpart(ev, method, c->rates[i], &muon);
        if (s == NULL) continue;
        out.mine = s;
        out.muon = muon;
        out.better += ms_is_lower(s, muon, ev->claim->bound[0]);
        out.n++;
    }
    return out;
}

ms_verdict ms_judge_effective_step(ms_evidence *ev)
{
    size_t tested = 0;

    for (int m = MS_SOFT; m <= MS_SPECTRA; m++) {
        const size_t       method = ms_compare_plain(ev->c, ms_compared[m]);
        const against_muon it     = compare_with_muon(ev, method);
        if (it.n == 0) continue;
        const double mine = ms_loss_of(ev, it.mine), other = ms_loss_of(ev, it.muon);
        const double above = isfinite(mine) ? ms_above(other, mine) : -INFINITY;
        ms_note_loss(ev, ms_compared_title(m), mine);
        ms_note(ev, " at lr %g with D %s", it.mine->lr, it.mine->threshold_text);
        ms_note_loss(ev, ms_compared_title(MS_MUON), other);
        ms_note(ev, " at %g (better at %zu of %zu rates)", it.muon->lr, it.better, it.n);
        ms_require(ev, ms_is_lower(it.mine, it.muon, ev->claim->bound[0]),
                   above - ev->claim->bound[0]);
        tested++;
    }
    if (tested > 0) return MS_HOLDS;
    return ms_not_tested(ev, "there is no run of Muon at lr times D of a clipping method");
}

/* The median of sigma_1 / D over groups and measurements, and the mean share above D, if any. */
static bool clip_of(ms_evidence *ev, const ms_setting *s, double *median, double *share)
{
    size_t  n = 0, capacity = 0;
    double *values;
    for (size_t i = 0; i < s->n; i++)
        capacity += MS_RUN_GROUPS * s->runs[i]->n;
    values = calloc(capacity > 0 ? capacity : 1, sizeof *values);
    *share = 0.0;
    if (values == NULL) ev->out_of_memory = true;
    for (size_t i = 0; values != NULL && i < s->n; i++)
        for (size_t k = 0; k < s->runs[i]->n; k++)
            for (int g = 0; s->runs[i]->lines[k].has_groups && g < MS_RUN_GROUPS; g++) {
                const ms_run_group *group = &s->runs[i]->lines[k].groups[g];
                if (isnan(group->sigma1_over_d) || isnan(group->share_above)) continue;
                values[n++] = group->sigma1_over_d;
                *share += group->share_above;
            }
    *median = ms_median(values, n);
    if (n > 0) *share /= (double)n;
    free(values);
    return n > 0;
}

ms_verdict ms_judge_clip_active(ms_evidence *ev)
{
    const ms_compare *c      = ev->c;
    size_t            tested = 0;
    bool              held   = true;

    for (size_t m = 0; m < c->n_methods; m++) {
        const ms_setting *s = ms_compare_tuned(c, ev->problem, m);
        double            median, share;
        if (!c->methods[m].clips || m != ms_compare_plain(c, c->methods[m].optimizer) ||
            s == NULL || !clip_of(ev, s, &median, &share))
            continue;
        ms_note_item(ev, "%s (lr %g, D %s) %.3g, %.0f%% above", c->methods[m].label, s->lr,
                     s->threshold_text, median, 100.0 * share);
        held = held && median > ev->claim->bound[0];
        tested++;
    }
    if (tested > 0) return ms_held(held);
    return ms_not_tested(ev, "no run of a clipping method measures its momentum");
}

/* The setting that differs from this one only in its operator, or NULL. */
static const ms_setting *counterpart(const ms_compare *c, const ms_setting *s, const char *operator)
{
    for (size_t i = 0; i < c->n_settings; i++)
        if (same_but_method(&c->settings[i], s) &&
            is_soft_with(&c->methods[c->settings[i].method], operator))
            return &c->settings[i];
    return NULL;
}

ms_verdict ms_judge_operator(ms_evidence *ev)
{
    const ms_compare        *c           = ev->c;
    static const char *const operators[] = { "exact", "fast" };
    size_t                   tested      = 0;

    for (size_t k = 0; k < COUNT(operators); k++) {
        double low = INFINITY, high = -INFINITY;
        size_t n = 0;
        for (size_t i = 0; i < c->n_settings; i++) {
            const ms_setting *s = &c->settings[i], *other;
            if (s->problem != ev->problem || iterations_of(c, s) != 5) continue;
            other = counterpart(c, s, operators[k]);
            if (other == NULL) continue;
            const double above = ms_above(ms_loss_of(ev, other), ms_loss_of(ev, s));
            low                = fmin(low, above);
            high               = fmax(high, above);
            n++;
        }
        if (n == 0) continue;
        ms_note_item(ev, "%s ", operators[k]);
        if (isinf(low) || isinf(high))
            ms_note(ev, "or K=5 diverged");
        else
            ms_note(ev, "%+.1f%% to %+.1f%%", 100.0 * low, 100.0 * high);
        ms_note(ev, " (%zu settings)", n);
        const double apart = fmax(high, -low);
        ms_require(ev, apart <= ev->claim->bound[0], ev->claim->bound[0] - apart);
        tested += n;
    }
    if (tested > 0) return MS_HOLDS;
    return ms_not_tested(
        ev, "there are no runs by the exact or the fast operator beside K=5, else the same");
}
