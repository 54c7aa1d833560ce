/* verdict_options.c - judges of thresholds and iterations, and of our own controls. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/verdict_parts.h"

enum { MOST = 64 };

#define LARGE_LR 0.5 /* at which the paper finds that thresholds matter */

/* ---- the threshold --------------------------------------------------------------------------- */

/* Soft Musec's best settings at one rate for each threshold, ascending: settings are sorted so. */
static size_t thresholds_at(const ms_compare *c, size_t problem, double lr,
                            const ms_setting *out[MOST])
{
    const size_t method = ms_compare_plain(c, ms_compared[MS_SOFT]);
    size_t       n      = 0;
    for (size_t i = 0; i < c->n_settings && n < MOST; i++) {
        const ms_setting *s = &c->settings[i];
        if (s->problem != problem || s->method != method || !ms_same_number(s->lr, lr) ||
            isnan(s->threshold) || (n > 0 && ms_same_number(out[n - 1]->threshold, s->threshold)))
            continue;
        out[n++] = ms_compare_find(c, problem, method, lr, s->threshold, NULL);
    }
    return n;
}

ms_verdict ms_judge_threshold(const ms_compare *c, size_t problem, ms_words *w)
{
    static const double rates[] = { 0.1, 0.2 };
    const ms_setting   *at[MOST];
    size_t              tested = 0;
    bool                held   = true;

    for (size_t r = 0; r < COUNT(rates); r++) {
        const size_t n     = thresholds_at(c, problem, rates[r], at);
        double       least = INFINITY, most = -INFINITY;
        if (n < 2) continue;
        for (size_t i = 0; i < n; i++) {
            const double loss = ms_loss_of(w, at[i]);
            if (loss < least) least = loss;
            if (loss > most) most = loss;
        }
        ms_say_item(w, "lr %g: D %g to %g ", rates[r], at[0]->threshold, at[n - 1]->threshold);
        if (isinf(most))
            ms_say(w, "some diverged");
        else
            ms_say(w, "%.3f to %.3f", least, most);
        held = held && ms_above(most, least) <= MS_COMPARABLE;
        tested++;
    }
    if (tested > 0) return ms_held(held);
    ms_say(w, "there are not two thresholds of Soft Musec at lr 0.1 or 0.2");
    return MS_NOT_TESTED;
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

ms_verdict ms_judge_threshold_large(const ms_compare *c, size_t problem, ms_words *w)
{
    const double      spike = 0.01;
    const ms_setting *at[MOST], *ends[2];
    const size_t      n = thresholds_at(c, problem, LARGE_LR, at);
    double            loss[2], rise[2];

    if (n < 2) {
        ms_say(w, "there are not two thresholds of Soft Musec at lr %g", LARGE_LR);
        return MS_NOT_TESTED;
    }
    ends[0] = at[0];
    ends[1] = at[n - 1];
    for (int i = 0; i < 2; i++) {
        loss[i] = ms_loss_of(w, ends[i]);
        rise[i] = mean_late_rise(ends[i]);
        ms_say_item(w, "D %g: ", ends[i]->threshold);
        if (isfinite(loss[i]))
            ms_say(w, "%.3f, rises by %.1f%%", loss[i], 100.0 * rise[i]);
        else
            ms_say(w, "diverged");
    }
    return ms_held(isfinite(loss[0]) && rise[1] > spike && rise[1] > 2.0 * rise[0]);
}

ms_verdict ms_judge_threshold_one(const ms_compare *c, size_t problem, ms_words *w)
{
    const size_t      soft = ms_compare_plain(c, ms_compared[MS_SOFT]);
    const ms_setting *one =
        soft < c->n_methods ? ms_compare_find(c, problem, soft, LARGE_LR, 1.0, NULL) : NULL;
    double best = INFINITY;
    bool   held;

    if (one == NULL) {
        ms_say(w, "there is no run of Soft Musec with D 1 at lr %g", LARGE_LR);
        return MS_NOT_TESTED;
    }
    if (ms_at_rate(c, problem, ms_compared[MS_MUON], LARGE_LR) == NULL)
        return ms_say_missing(w, ms_compared[MS_MUON], LARGE_LR);
    for (int m = 0; m < MS_COMPARED; m++)
        best = fmin(best, ms_loss_of(w, ms_at_rate(c, problem, ms_compared[m], NAN)));
    const double mine = ms_above(ms_loss_of(w, one), best);
    ms_say(w, "Soft Musec ");
    ms_say_share(w, mine);
    held = mine <= MS_FAILED;
    for (int m = MS_MUON; m <= MS_MUONCLIP; m++) {
        const ms_setting *s = ms_at_rate(c, problem, ms_compared[m], LARGE_LR);
        if (s == NULL) continue;
        const double above = ms_above(ms_loss_of(w, s), best);
        ms_say_item(w, "%s ", ms_compared_title(m));
        ms_say_share(w, above);
        held = held && above > MS_FAILED;
    }
    return ms_held(held);
}

/* ---- iterations ------------------------------------------------------------------------------ */

/* Is the method Soft Musec with `word` alone said of it ("exact", "K=3"), or nothing (NULL)? */
static bool is_soft_with(const ms_method *m, const char *word)
{
    char label[128];
    if (strcmp(m->optimizer, ms_compared[MS_SOFT]) != 0) return false;
    snprintf(label, sizeof label, "%s%s%s", ms_compared_title(MS_SOFT), word != NULL ? ", " : "",
             word != NULL ? word : "");
    return strcmp(m->label, label) == 0;
}

/* The K of a setting of Soft Musec that differs in nothing but K from the usual one; 0: other. */
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

typedef struct ladder { /* the settings that differ in K alone, K from 3 on */
    const ms_setting *least_k, *most_k;
    long              from, to;
    double            low, high; /* losses */
} ladder;

/* The ladder that setting `first` is the first of; false: it is not, or has one step alone. */
static bool climb(const ms_compare *c, size_t first, ms_words *w, ladder *out)
{
    const ms_setting *base = &c->settings[first];
    *out                   = (ladder){ .low = INFINITY, .high = -INFINITY };
    for (size_t i = 0; i < c->n_settings; i++) {
        const ms_setting *s = &c->settings[i];
        const long        k = iterations_of(c, s);
        if (k < 3 || !same_but_method(s, base)) continue;
        if (i < first) return false;
        const double loss = ms_loss_of(w, s);
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

static void say_ladder(ms_words *w, const ladder *l)
{
    ms_say_item(w, "lr %g D %s: ", l->least_k->lr, l->least_k->threshold_text);
}

ms_verdict ms_judge_iterations(const ms_compare *c, size_t problem, ms_words *w)
{
    size_t tested = 0;
    bool   held   = true;

    for (size_t i = 0; i < c->n_settings; i++) {
        ladder l;
        if (c->settings[i].problem != problem || iterations_of(c, &c->settings[i]) < 3 ||
            !climb(c, i, w, &l) || l.from != 3)
            continue;
        say_ladder(w, &l);
        if (isinf(l.high))
            ms_say(w, "some K diverged");
        else
            ms_say(w, "K %ld to %ld %.3f to %.3f", l.from, l.to, l.low, l.high);
        held = held && ms_above(l.high, l.low) <= MS_COMPARABLE;
        tested++;
    }
    if (tested > 0) return ms_held(held);
    ms_say(w, "there are no runs of Soft Musec with K=3 and with more, else the same");
    return MS_NOT_TESTED;
}

ms_verdict ms_judge_more_iterations(const ms_compare *c, size_t problem, ms_words *w)
{
    size_t tested = 0;
    bool   held   = true;

    for (size_t i = 0; i < c->n_settings; i++) {
        ladder l;
        if (c->settings[i].problem != problem || iterations_of(c, &c->settings[i]) < 3 ||
            !climb(c, i, w, &l))
            continue;
        const double few = ms_loss_of(w, l.least_k), many = ms_loss_of(w, l.most_k);
        say_ladder(w, &l);
        ms_say(w, "K=%ld against K=%ld ", l.to, l.from);
        ms_say_share(w, ms_above(many, few));
        held = held && ms_above(few, many) > MS_SLIGHTLY;
        tested++;
    }
    if (tested > 0) return ms_held(held);
    ms_say(w, "there are no runs of Soft Musec that differ in K alone");
    return MS_NOT_TESTED;
}

/* ---- controls -------------------------------------------------------------------------------- */

/* The best setting of the method at this rate that has a counterpart of Muon. */
static const ms_setting *with_counterpart(const ms_compare *c, size_t problem, size_t method,
                                          double lr, const ms_setting **muon)
{
    const ms_setting *best = NULL;
    for (size_t i = 0; i < c->n_settings; i++) {
        const ms_setting *s = &c->settings[i];
        if (s->problem != problem || s->method != method || !ms_same_number(s->lr, lr) ||
            isnan(ms_setting_muon_rate(s)))
            continue;
        const ms_setting *other =
            ms_at_rate(c, problem, ms_compared[MS_MUON], ms_setting_muon_rate(s));
        if (other == NULL || !ms_setting_better(s, best)) continue;
        best  = s;
        *muon = other;
    }
    return best;
}

/* The figures at the largest rate, and at how many the method is better than Muon. */
typedef struct against_muon {
    const ms_setting *mine, *muon;
    size_t            better, n;
} against_muon;

/* Is the first's loss lower than the second's by more than what counts as comparable? */
static bool is_clearly_lower(ms_words *w, const ms_setting *a, const ms_setting *b)
{
    const double mine = ms_loss_of(w, a), other = ms_loss_of(w, b);
    return isfinite(mine) && ms_above(other, mine) > MS_COMPARABLE &&
           other - mine > fmax(ms_spread_of(a), ms_spread_of(b));
}

static against_muon hold_against_muon(const ms_compare *c, size_t problem, size_t method,
                                      ms_words *w)
{
    against_muon out = { 0 };
    for (size_t i = 0; method < c->n_methods && i < c->n_rates; i++) {
        const ms_setting *muon, *s = with_counterpart(c, problem, method, c->rates[i], &muon);
        if (s == NULL) continue;
        out.mine = s;
        out.muon = muon;
        out.better += is_clearly_lower(w, s, muon);
        out.n++;
    }
    return out;
}

ms_verdict ms_judge_effective_step(const ms_compare *c, size_t problem, ms_words *w)
{
    size_t tested = 0;
    bool   held   = true;

    for (int m = MS_SOFT; m <= MS_SPECTRA; m++) {
        const size_t       method = ms_compare_plain(c, ms_compared[m]);
        const against_muon it     = hold_against_muon(c, problem, method, w);
        if (it.n == 0) continue;
        ms_say_loss(w, ms_compared_title(m), ms_loss_of(w, it.mine));
        ms_say(w, " at lr %g with D %s", it.mine->lr, it.mine->threshold_text);
        ms_say_loss(w, ms_compared_title(MS_MUON), ms_loss_of(w, it.muon));
        ms_say(w, " at %g (better at %zu of %zu rates)", it.muon->lr, it.better, it.n);
        held = held && is_clearly_lower(w, it.mine, it.muon);
        tested++;
    }
    if (tested > 0) return ms_held(held);
    ms_say(w, "there is no run of Muon at lr times D of a clipping method");
    return MS_NOT_TESTED;
}

/* Median over groups and measurements of sigma_1 / D, and the mean share above; false: none. */
static bool clip_of(const ms_setting *s, double *median, double *share)
{
    size_t  n = 0, room = 0;
    double *values;
    for (size_t i = 0; i < s->n; i++)
        room += MS_RUN_GROUPS * s->runs[i]->n;
    values = room > 0 ? calloc(room, sizeof *values) : NULL;
    *share = 0.0;
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

ms_verdict ms_judge_clip_active(const ms_compare *c, size_t problem, ms_words *w)
{
    size_t tested = 0;
    bool   held   = true;

    for (size_t m = 0; m < c->n_methods; m++) {
        const ms_setting *s = ms_compare_tuned(c, problem, m);
        double            median, share;
        if (!c->methods[m].clips || m != ms_compare_plain(c, c->methods[m].optimizer) ||
            s == NULL || !clip_of(s, &median, &share))
            continue;
        ms_say_item(w, "%s (lr %g, D %s) %.3g, %.0f%% above", c->methods[m].label, s->lr,
                    s->threshold_text, median, 100.0 * share);
        held = held && median > 1.0;
        tested++;
    }
    if (tested > 0) return ms_held(held);
    ms_say(w, "no run of a clipping method measures its momentum");
    return MS_NOT_TESTED;
}

/* The setting that differs from this one in its operator alone; NULL: none. */
static const ms_setting *counterpart(const ms_compare *c, const ms_setting *s, const char *operator)
{
    for (size_t i = 0; i < c->n_settings; i++)
        if (same_but_method(&c->settings[i], s) &&
            is_soft_with(&c->methods[c->settings[i].method], operator))
            return &c->settings[i];
    return NULL;
}

ms_verdict ms_judge_operator(const ms_compare *c, size_t problem, ms_words *w)
{
    static const char *const operators[] = { "exact", "fast" };
    size_t                   tested      = 0;
    bool                     held        = true;

    for (size_t k = 0; k < COUNT(operators); k++) {
        double low = INFINITY, high = -INFINITY;
        size_t n = 0;
        for (size_t i = 0; i < c->n_settings; i++) {
            const ms_setting *s = &c->settings[i], *other;
            if (s->problem != problem || iterations_of(c, s) != 5) continue;
            other = counterpart(c, s, operators[k]);
            if (other == NULL) continue;
            const double above = ms_above(ms_loss_of(w, other), ms_loss_of(w, s));
            low                = fmin(low, above);
            high               = fmax(high, above);
            n++;
        }
        if (n == 0) continue;
        ms_say_item(w, "%s ", operators[k]);
        if (isinf(low) || isinf(high))
            ms_say(w, "or K=5 diverged");
        else
            ms_say(w, "%+.1f%% to %+.1f%%", 100.0 * low, 100.0 * high);
        ms_say(w, " (%zu settings)", n);
        held = held && high <= MS_COMPARABLE && low >= -MS_COMPARABLE;
        tested += n;
    }
    if (tested > 0) return ms_held(held);
    ms_say(w, "there are no runs by the exact or the fast operator beside K=5, else the same");
    return MS_NOT_TESTED;
}
