/* claims_rates.c - claims on the loss as a function of the learning rate. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/claims.h"

/* ---- sweeps over learning rates -------------------------------------------------------------- */

/* The sweep of a problem: the compared methods that were run at two learning rates or more, and the
 * rates at which all of them were run.  A rate of 0, which trains nothing, is left out, and so are
 * rates at which all of them stalled. */
enum { MAX_RATES = 64 };
typedef struct rate_sweep {
    bool              has[MS_COMPARED];
    double            rates[MAX_RATES]; /* ascending */
    size_t            n;
    const ms_setting *at[MS_COMPARED][MAX_RATES];
    double            loss[MS_COMPARED][MAX_RATES]; /* as of ms_loss_at() */
    const ms_setting *best[MS_COMPARED]; /* of the method at all its rates; NULL: all diverged */
    const ms_setting *best_of_all;       /* of all compared methods, or NULL */
} rate_sweep;

/* The best setting of a method, or if it is one with a rate of 0, which trains nothing, the best of
 * the others. */
static const ms_setting *best_setting(const ms_evidence *ev, int m)
{
    const ms_setting *best = ms_method_at(ev, m, NAN);
    if (best == NULL || best->lr > 0.0) return best;
    best = NULL;
    for (size_t i = 0; i < ev->c->n_rates; i++) {
        const ms_setting *s = ms_method_at(ev, m, ev->c->rates[i]);
        if (s != NULL && ev->c->rates[i] > 0.0 && ms_setting_better(s, best)) best = s;
    }
    return best;
}

static size_t count_rates(const ms_compare *c, size_t problem, const char *optimizer)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n_rates; i++)
        n += c->rates[i] > 0.0 && ms_at_rate(c, problem, optimizer, c->rates[i]) != NULL;
    return n;
}

/* False, with a note why, unless Soft Musec and Muon have two rates in common. */
static bool sweep_make(ms_evidence *ev, rate_sweep *out)
{
    const ms_compare *c    = ev->c;
    double            best = INFINITY;

    *out = (rate_sweep){ 0 };
    for (int m = 0; m < MS_COMPARED; m++) {
        const ms_setting *tuned = best_setting(ev, m);
        out->best[m]            = isfinite(ms_mean_loss(tuned)) ? tuned : NULL;
        if (ms_mean_loss(tuned) < best) {
            best             = ms_mean_loss(tuned);
            out->best_of_all = tuned;
        }
        out->has[m] = count_rates(c, ev->problem, ms_compared[m]) >= 2;
        if (!out->has[m] && (m == MS_SOFT || m == MS_MUON)) {
            ms_not_tested(ev, "there are not two learning rates of %s", ms_compared_title(m));
            return false;
        }
    }
    for (size_t i = 0; i < c->n_rates && out->n < MAX_RATES; i++) {
        bool all = c->rates[i] > 0.0, learned = false;
        for (int m = 0; m < MS_COMPARED; m++) {
            const ms_setting *s = ms_method_at(ev, m, c->rates[i]);
            if (!out->has[m]) continue;
            all                  = all && s != NULL;
            learned              = learned || (s != NULL && s->stalled < s->n);
            out->at[m][out->n]   = s;
            out->loss[m][out->n] = ms_loss_at(ev, s);
        }
        if (all && learned) out->rates[out->n++] = c->rates[i];
    }
    if (out->n < 2) ms_not_tested(ev, "the methods have not two learning rates in common");
    return out->n >= 2;
}

/* Notes the methods that were not run. */
static void note_absent(ms_evidence *ev, const bool has[MS_COMPARED])
{
    for (int m = 0; m < MS_COMPARED; m++)
        if (!has[m]) ms_note_item(ev, "without %s", ms_compared_title(m));
}

/* ---- one panel of the sweep ------------------------------------------------------------------ */

/* The rates around a method's best at which its loss stays within a bound of the best. */
typedef struct usable {
    double low, high;
    bool   is_cut; /* it goes to the smallest or the largest rate that was run */
} usable;

static bool find_usable(ms_evidence *ev, int m, usable *out)
{
    const ms_compare *c             = ev->c;
    const double      bound         = ev->claim->bound[0];
    const ms_setting *best          = best_setting(ev, m);
    const ms_setting *at[MAX_RATES] = { NULL };
    size_t            n = 0, low = 0, high;

    if (!isfinite(ms_mean_loss(best))) return false;
    for (size_t i = 0; i < c->n_rates && n < MAX_RATES; i++) {
        const ms_setting *s = c->rates[i] > 0.0 ? ms_method_at(ev, m, c->rates[i]) : NULL;
        if (s == NULL || s->stalled == s->n) continue;
        if (ms_same_number(s->lr, best->lr)) {
            low = n;
            s   = best;
        }
        (void)ms_loss_of(ev, s);
        at[n++] = s;
    }
    if (n == 0) return false; /* its best is at a rate of 0, or stalled */
    high               = low;
    const double least = ms_loss_at(ev, best);
    while (low > 0 && ms_above(ms_loss_at(ev, at[low - 1]), least) <= bound)
        low--;
    while (high + 1 < n && ms_above(ms_loss_at(ev, at[high + 1]), least) <= bound)
        high++;
    *out = (usable){ at[low]->lr, at[high]->lr, low == 0 || high + 1 == n };
    return true;
}

/* A range that is cut off by the grid is at least that long, so it decides in one direction. */
bool ms_measure_range(ms_evidence *ev, ms_measured *out)
{
    usable     at[MS_COMPARED]   = { 0 };
    bool       some[MS_COMPARED] = { false };
    rate_sweep s;

    if (!sweep_make(ev, &s)) return false;
    for (int m = 0; m < MS_COMPARED; m++) {
        if (!s.has[m]) continue;
        some[m] = find_usable(ev, m, &at[m]);
        ms_measured_set(out, m, some[m] ? at[m].high / at[m].low : 0.0);
        if (some[m])
            ms_note_item(ev, "%s %g to %g", ms_compared_title(m), at[m].low, at[m].high);
        else
            ms_note_item(ev, "%s none", ms_compared_title(m));
    }
    note_absent(ev, s.has);
    for (int m = MS_MUON; m <= MS_MUONCLIP; m++) {
        const bool longer = out->of[MS_SOFT][0] >= ev->claim->bound[1] * out->of[m][0];
        const int  cut    = longer ? m : MS_SOFT;
        if (!s.has[m] || !some[m] || !some[MS_SOFT] || !at[cut].is_cut) continue;
        ms_not_tested(ev, "at the edge of the grid: the range of %s, %g to %g, may go on beyond it",
                      ms_compared_title(cut), at[cut].low, at[cut].high);
        return false;
    }
    return true;
}

/* The losses at the smallest or the largest common rate. */
bool ms_measure_losses(ms_evidence *ev, ms_measured *out)
{
    rate_sweep s;

    if (!sweep_make(ev, &s)) return false;
    const size_t rate = ev->claim->at_largest ? s.n - 1 : 0;
    for (int m = 0; m < MS_COMPARED; m++) {
        if (!s.has[m]) continue;
        ms_measured_set(out, m, ms_loss_of(ev, s.at[m][rate]));
        ms_note_loss(ev, ms_compared_title(m), s.loss[m][rate]);
    }
    ms_note(ev, " at lr %g", s.rates[rate]);
    note_absent(ev, s.has);
    return true;
}

/* Shares by which the losses at the largest rate are above the best of all methods, or the method's
 * own best at the common rates. */
bool ms_measure_above(ms_evidence *ev, ms_measured *out)
{
    rate_sweep s;

    if (!sweep_make(ev, &s)) return false;
    for (int m = 0; m < MS_COMPARED; m++) {
        const ms_setting *least = ev->claim->own_best ? s.best[m] : s.best_of_all;
        if (!s.has[m]) continue;
        if (ms_at_edge(ev, least)) return false;
        const double last = ms_loss_of(ev, s.at[m][s.n - 1]);
        const double best = least == NULL ? INFINITY : ms_loss_of(ev, least);
        ms_measured_set(out, m, ms_above(last, best));
        ms_note_item(ev, "%s ", ms_compared_title(m));
        ms_note_share(ev, ms_above(last, best));
    }
    ms_note(ev, " at lr %g", s.rates[s.n - 1]);
    note_absent(ev, s.has);
    return true;
}

/* Shares by which the clipping methods' losses at their worst rate are above the best of all. */
bool ms_measure_worst(ms_evidence *ev, ms_measured *out)
{
    rate_sweep s;

    if (!sweep_make(ev, &s) || ms_at_edge(ev, s.best_of_all)) return false;
    for (int m = MS_SOFT; m <= MS_SPECTRA; m++) {
        size_t worst = 0;
        if (!s.has[m]) {
            ms_note_item(ev, "without %s", ms_compared_title(m));
            continue;
        }
        for (size_t i = 1; i < s.n; i++)
            if (ms_mean_loss(s.at[m][i]) > ms_mean_loss(s.at[m][worst])) worst = i;
        ms_measured_set(out, m,
                        ms_above(ms_loss_of(ev, s.at[m][worst]), ms_loss_of(ev, s.best_of_all)));
        ms_note_item(ev, "%s at worst ", ms_compared_title(m));
        ms_note_share(ev, out->of[m][0]);
        ms_note(ev, " (lr %g)", s.rates[worst]);
    }
    return true;
}

ms_verdict ms_judge_large(ms_evidence *ev)
{
    const double from = ev->claim->lr;
    rate_sweep   s;
    size_t       n = 0;

    if (!sweep_make(ev, &s)) return MS_NOT_TESTED;
    for (size_t i = 0; i < s.n; i++) {
        double clipping = -INFINITY, others = INFINITY;
        if (s.rates[i] < from && !ms_same_number(s.rates[i], from)) continue;
        for (int m = 0; m < MS_COMPARED; m++) {
            if (!s.has[m]) continue;
            (void)ms_loss_of(ev, s.at[m][i]);
            if (m <= MS_SPECTRA && s.loss[m][i] > clipping) clipping = s.loss[m][i];
            if (m > MS_SPECTRA && s.loss[m][i] < others) others = s.loss[m][i];
        }
        ms_note_item(ev, "lr %g: ", s.rates[i]);
        if (isinf(clipping))
            ms_note(ev, "clipping diverged");
        else if (isinf(others))
            ms_note(ev, "clipping %.3f, the others diverged", clipping);
        else
            ms_note(ev, "clipping at most %.3f, the others at least %.3f", clipping, others);
        const double above = isinf(clipping) ? -INFINITY : ms_above(others, clipping);
        ms_require(ev, above > ev->claim->bound[0], above - ev->claim->bound[0]);
        n++;
    }
    if (n == 0)
        return ms_not_tested(ev, "the methods have no learning rate of %g or more in common", from);
    note_absent(ev, s.has);
    return MS_HOLDS;
}

/* ---- the best over all rates ----------------------------------------------------------------- */

static double note_tuned(ms_evidence *ev, const char *optimizer)
{
    const ms_setting *s    = ms_at_rate(ev->c, ev->problem, optimizer, NAN);
    const double      loss = ms_loss_of(ev, s);
    if (s == NULL) return NAN;
    ms_note_loss(ev, ms_optimizer_title(optimizer), loss);
    if (isfinite(loss)) ms_note(ev, " (lr %g)", s->lr);
    return loss;
}

bool ms_measure_tuned(ms_evidence *ev, ms_measured *out)
{
    for (int m = 0; m < MS_COMPARED; m++) {
        if (ms_at_edge(ev, ms_method_at(ev, m, NAN))) return false;
        if (ms_method_at(ev, m, NAN) != NULL) {
            ms_measured_set(out, m, note_tuned(ev, ms_compared[m]));
        } else if (m == MS_SOFT || m == MS_MUON) {
            ms_no_run(ev, ms_compared[m], NAN);
            return false;
        }
    }
    return true;
}

ms_verdict ms_judge_adam(ms_evidence *ev)
{
    static const char *const elementwise[] = { "adam", "adamw" };
    double                   worst = -INFINITY, least = INFINITY;
    size_t                   n_matrix = 0, n_other = 0;

    for (int m = 0; m < MS_COMPARED; m++)
        if (ms_at_edge(ev, ms_method_at(ev, m, NAN))) return MS_NOT_TESTED;
    for (size_t i = 0; i < COUNT(elementwise); i++)
        if (ms_at_edge(ev, ms_at_rate(ev->c, ev->problem, elementwise[i], NAN)))
            return MS_NOT_TESTED;
    for (int m = 0; m < MS_COMPARED; m++) {
        const double loss = note_tuned(ev, ms_compared[m]);
        n_matrix += !isnan(loss);
        if (loss > worst) worst = loss;
    }
    for (size_t i = 0; i < COUNT(elementwise); i++) {
        const double loss = note_tuned(ev, elementwise[i]);
        n_other += !isnan(loss);
        if (loss < least) least = loss;
    }
    if (n_other == 0) return ms_no_run(ev, "adam", NAN);
    if (n_matrix == 0) return ms_no_run(ev, "muon", NAN);
    ms_require(ev, worst < least, isinf(worst) ? -INFINITY : ms_above(least, worst));
    return MS_HOLDS;
}

/* ---- Soft Musec beside SPECTRA --------------------------------------------------------------- */

/* Finds the next rate, from number *i on, at which both methods were run. */
static bool next_pair(const ms_evidence *ev, size_t *i, const ms_setting **soft,
                      const ms_setting **spectra)
{
    for (; *i < ev->c->n_rates; ++*i) {
        *soft    = ms_method_at(ev, MS_SOFT, ev->c->rates[*i]);
        *spectra = ms_method_at(ev, MS_SPECTRA, ev->c->rates[*i]);
        if (*soft != NULL && *spectra != NULL) return true;
    }
    return false;
}

ms_verdict ms_judge_spectra(ms_evidence *ev)
{
    const ms_setting *soft, *spectra;
    size_t            n = 0;

    for (size_t i = 0; next_pair(ev, &i, &soft, &spectra); i++, n++) {
        const double a = ms_loss_of(ev, soft), b = ms_loss_of(ev, spectra);
        ms_note_item(ev, "lr %g: ", soft->lr);
        if (isinf(a) && isinf(b)) {
            ms_note(ev, "both diverged");
            ms_require(ev, true, INFINITY);
            continue;
        }
        const double apart = a > b ? ms_above(a, b) : ms_above(b, a);
        if (isinf(b))
            ms_note(ev, "SPECTRA diverged");
        else
            ms_note_share(ev, ms_above(a, b));
        ms_require(ev, apart <= ev->claim->bound[0], ev->claim->bound[0] - apart);
    }
    if (n == 0) return ms_not_tested(ev, "Soft Musec and SPECTRA have no learning rate in common");
    ms_note(ev, " (Soft Musec above SPECTRA)");
    return MS_HOLDS;
}

ms_verdict ms_judge_spectra_better(ms_evidence *ev)
{
    const double slightly = ev->claim->bound[0];
    size_t       better = 0, worse = 0, n = 0;

    for (ev->problem = 0; ev->problem < ev->c->n_problems; ev->problem++) {
        const ms_setting *soft, *spectra;
        for (size_t i = 0; next_pair(ev, &i, &soft, &spectra); i++, n++) {
            better += ms_is_lower(soft, spectra, slightly);
            worse += ms_is_lower(spectra, soft, slightly);
        }
    }
    if (n == 0) return ms_not_tested(ev, "Soft Musec and SPECTRA have no learning rate in common");
    ms_note(ev, "of %zu settings Soft Musec is better in %zu, SPECTRA in %zu", n, better, worse);
    return ms_held((double)better >= ev->claim->bound[1]);
}

/* ---- sets and sizes -------------------------------------------------------------------------- */

enum { SWEEP_CLAIMS = 4 };

static const char *const sweep_claims[SWEEP_CLAIMS] = { "small-lr", "degrade", "largest-lr",
                                                        "stable" };

static void judge_sweep(const ms_compare *c, size_t problem, ms_verdict out[SWEEP_CLAIMS])
{
    for (size_t k = 0; k < SWEEP_CLAIMS; k++) {
        ms_evidence scratch = {
            .c = c, .problem = problem, .claim = ms_claim_find(sweep_claims[k]), .spread = NAN
        };
        out[k] = ms_claim_judge(&scratch);
        free(scratch.text);
    }
}

static bool is_decided(ms_verdict v) { return v == MS_HOLDS || v == MS_DOES_NOT_HOLD; }

ms_verdict ms_judge_sets(ms_evidence *ev)
{
    const ms_compare *c     = ev->c;
    size_t            pairs = 0, alike = 0;
    bool              decided = true;

    for (size_t p = 0; p < c->n_problems; p++) {
        ms_verdict mine[SWEEP_CLAIMS], other[SWEEP_CLAIMS];
        judge_sweep(c, p, mine);
        if (mine[0] == MS_NOT_TESTED) continue;
        ms_note(ev, "%s%s:", ev->used > 0 ? "; " : "", ms_problem_name(c, p));
        for (size_t k = 0; k < SWEEP_CLAIMS; k++)
            ms_note(ev, "%s %s %s", k > 0 ? "," : "", sweep_claims[k],
                    mine[k] == MS_HOLDS           ? "yes"
                    : mine[k] == MS_DOES_NOT_HOLD ? "no"
                                                  : "undecided");
        for (size_t q = 0; q < p; q++) {
            if (strcmp(c->problems[q].preset, c->problems[p].preset) != 0 ||
                strcmp(c->problems[q].set, c->problems[p].set) == 0)
                continue;
            judge_sweep(c, q, other);
            if (other[0] == MS_NOT_TESTED) continue;
            for (size_t k = 0; k < SWEEP_CLAIMS; k++)
                decided = decided && is_decided(mine[k]) && is_decided(other[k]);
            pairs++;
            alike += memcmp(mine, other, sizeof mine) == 0;
        }
    }
    if (pairs > 0 && !decided) return MS_NOT_DECIDED;
    if (pairs > 0) return ms_held(alike == pairs);
    return ms_not_tested(ev, "there are no sweeps on two sets of data with one model");
}

static double size_of(const ms_problem *p) { return ms_run_parameters(p->first); }

/* The share by which Muon is above Soft Musec at this rate; NaN: one was not run, or both
 * diverged. */
static double gap_at(ms_evidence *ev, size_t problem, double rate, bool by_means)
{
    const ms_compare *c    = ev->c;
    const ms_setting *s    = ms_at_rate(c, problem, ms_compared[MS_SOFT], rate);
    const ms_setting *m    = ms_at_rate(c, problem, ms_compared[MS_MUON], rate);
    const double      soft = by_means ? ms_mean_loss(s) : ms_loss_of(ev, s);
    const double      muon = by_means ? ms_mean_loss(m) : ms_loss_of(ev, m);
    return isinf(soft) && isinf(muon) ? NAN : ms_above(muon, soft);
}

static void note_gap(ms_evidence *ev, const char *label, double gap)
{
    if (isinf(gap))
        ms_note(ev, "%s: %s diverged", label, ms_compared_title(gap > 0.0 ? MS_MUON : MS_SOFT));
    else
        ms_note(ev, "%s: %+.1f%%", label, 100.0 * gap);
}

/* The largest rate at which the smaller model has a finite gap, so that growth can be seen, and the
 * larger model has any; NaN: there is none. */
static double shared_rate(ms_evidence *ev, size_t small, size_t large)
{
    const ms_compare *c = ev->c;
    for (size_t i = c->n_rates; i > 0; i--)
        if (isfinite(gap_at(ev, small, c->rates[i - 1], true)) &&
            !isnan(gap_at(ev, large, c->rates[i - 1], true)))
            return c->rates[i - 1];
    return NAN;
}

/* The next larger model on the same data that shares a rate; n_problems if there is none. */
static size_t next_size(ms_evidence *ev, size_t p)
{
    const ms_compare *c    = ev->c;
    size_t            next = c->n_problems;
    for (size_t q = 0; q < c->n_problems; q++) {
        if (strcmp(c->problems[q].set, c->problems[p].set) != 0 ||
            !(size_of(&c->problems[q]) > size_of(&c->problems[p])) || isnan(shared_rate(ev, p, q)))
            continue;
        if (next == c->n_problems || size_of(&c->problems[q]) < size_of(&c->problems[next]))
            next = q;
    }
    return next;
}

ms_verdict ms_judge_sizes(ms_evidence *ev)
{
    const ms_compare *c     = ev->c;
    size_t            pairs = 0;

    for (size_t p = 0; p < c->n_problems; p++) {
        const size_t q = next_size(ev, p);
        if (q == c->n_problems) continue;
        const double rate  = shared_rate(ev, p, q);
        const double small = gap_at(ev, p, rate, false), large = gap_at(ev, q, rate, false);
        ms_note(ev, "%s", ev->used > 0 ? "; " : "");
        note_gap(ev, c->problems[p].label, small);
        ms_note(ev, ", ");
        note_gap(ev, c->problems[q].label, large);
        ms_note(ev, " at lr %g", rate);
        pairs++;
        ms_require(ev, large > small, isinf(large) && isinf(small) ? NAN : large - small);
    }
    if (pairs > 0) return MS_HOLDS;
    return ms_not_tested(
        ev, "there are no runs of two sizes of the model on one set at one learning rate");
}
