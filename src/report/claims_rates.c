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
    double            loss[MS_COMPARED][MAX_RATES]; /* as of ms_mean_loss() */
    size_t            best[MS_COMPARED]; /* index of the rate of its least loss; 0: all diverged */
    const ms_setting *best_of_all;       /* of all compared methods at all their rates, or NULL */
} rate_sweep;

static double best_loss(const rate_sweep *s, int m) { return s->loss[m][s->best[m]]; }

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
        const ms_setting *tuned = ms_method_at(ev, m, NAN);
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
            out->loss[m][out->n] = ms_mean_loss(s);
        }
        if (all && learned) out->rates[out->n++] = c->rates[i];
    }
    for (int m = 0; m < MS_COMPARED; m++)
        for (size_t i = 1; out->has[m] && i < out->n; i++)
            if (out->loss[m][i] < best_loss(out, m)) out->best[m] = i;
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

/* The ratio of the largest to the smallest rate around the best one at which the loss stays within
 * the claim's first bound of the best; 0 if all runs diverged. */
bool ms_measure_range(ms_evidence *ev, ms_measured *out)
{
    const double bound = ev->claim->bound[0];
    rate_sweep   s;

    if (!sweep_make(ev, &s)) return false;
    for (int m = 0; m < MS_COMPARED; m++) {
        size_t low = s.best[m], high = s.best[m];
        if (!s.has[m]) continue;
        for (size_t i = 0; i < s.n; i++)
            (void)ms_loss_of(ev, s.at[m][i]);
        while (low > 0 && ms_above(s.loss[m][low - 1], best_loss(&s, m)) <= bound)
            low--;
        while (high + 1 < s.n && ms_above(s.loss[m][high + 1], best_loss(&s, m)) <= bound)
            high++;
        if (isinf(best_loss(&s, m))) {
            ms_measured_set(out, m, 0.0);
            ms_note_item(ev, "%s none", ms_compared_title(m));
        } else {
            ms_measured_set(out, m, s.rates[high] / s.rates[low]);
            ms_note_item(ev, "%s %g to %g", ms_compared_title(m), s.rates[low], s.rates[high]);
        }
    }
    note_absent(ev, s.has);
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
        if (!s.has[m]) continue;
        const double last = ms_loss_of(ev, s.at[m][s.n - 1]);
        const double best =
            ms_loss_of(ev, ev->claim->own_best ? s.at[m][s.best[m]] : s.best_of_all);
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

    if (!sweep_make(ev, &s)) return false;
    for (int m = MS_SOFT; m <= MS_SPECTRA; m++) {
        size_t worst = 0;
        if (!s.has[m]) {
            ms_note_item(ev, "without %s", ms_compared_title(m));
            continue;
        }
        for (size_t i = 1; i < s.n; i++)
            if (s.loss[m][i] > s.loss[m][worst]) worst = i;
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
    size_t       n    = 0;
    bool         held = true;

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
        held = held && !isinf(clipping) && ms_above(others, clipping) > ev->claim->bound[0];
        n++;
    }
    if (n == 0)
        return ms_not_tested(ev, "the methods have no learning rate of %g or more in common", from);
    note_absent(ev, s.has);
    return ms_held(held);
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
    return ms_held(worst < least);
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
    size_t            n    = 0;
    bool              held = true;

    for (size_t i = 0; next_pair(ev, &i, &soft, &spectra); i++, n++) {
        const double a = ms_loss_of(ev, soft), b = ms_loss_of(ev, spectra);
        ms_note_item(ev, "lr %g: ", soft->lr);
        if (isinf(a) && isinf(b)) {
            ms_note(ev, "both diverged");
            continue;
        }
        const double apart = a > b ? ms_above(a, b) : ms_above(b, a);
        if (isinf(b))
            ms_note(ev, "SPECTRA diverged");
        else
            ms_note_share(ev, ms_above(a, b));
        held = held && apart <= ev->claim->bound[0];
    }
    if (n == 0) return ms_not_tested(ev, "Soft Musec and SPECTRA have no learning rate in common");
    ms_note(ev, " (Soft Musec above SPECTRA)");
    return ms_held(held);
}

ms_verdict ms_judge_spectra_better(ms_evidence *ev)
{
    const double slightly = ev->claim->bound[0];
    size_t       better = 0, worse = 0, n = 0;

    for (ev->problem = 0; ev->problem < ev->c->n_problems; ev->problem++) {
        const ms_setting *soft, *spectra;
        for (size_t i = 0; next_pair(ev, &i, &soft, &spectra); i++, n++) {
            const double a = ms_loss_of(ev, soft), b = ms_loss_of(ev, spectra);
            const double spread = fmax(ms_spread_of(soft), ms_spread_of(spectra));
            better += ms_above(b, a) > slightly && b - a > spread;
            worse += ms_above(a, b) > slightly && a - b > spread;
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

ms_verdict ms_judge_sets(ms_evidence *ev)
{
    const ms_compare *c     = ev->c;
    size_t            pairs = 0, alike = 0;

    for (size_t p = 0; p < c->n_problems; p++) {
        ms_verdict mine[SWEEP_CLAIMS], other[SWEEP_CLAIMS];
        judge_sweep(c, p, mine);
        if (mine[0] == MS_NOT_TESTED) continue;
        ms_note(ev, "%s%s:", ev->used > 0 ? "; " : "", ms_problem_name(c, p));
        for (size_t k = 0; k < SWEEP_CLAIMS; k++)
            ms_note(ev, "%s %s %s", k > 0 ? "," : "", sweep_claims[k],
                    mine[k] == MS_HOLDS ? "yes" : "no");
        for (size_t q = 0; q < p; q++) {
            if (strcmp(c->problems[q].preset, c->problems[p].preset) != 0 ||
                strcmp(c->problems[q].set, c->problems[p].set) == 0)
                continue;
            judge_sweep(c, q, other);
            if (other[0] == MS_NOT_TESTED) continue;
            pairs++;
            alike += memcmp(mine, other, sizeof mine) == 0;
        }
    }
    if (pairs > 0) return ms_held(alike == pairs);
    return ms_not_tested(ev, "there are no sweeps on two sets of data with one model");
}

static double size_of(const ms_problem *p) { return ms_run_parameters(p->first); }

/* The share by which Muon is above Soft Musec at this rate; NaN: one was not run, or both
 * diverged. */
static double gap_at(ms_evidence *ev, size_t problem, double rate)
{
    const ms_compare *c    = ev->c;
    const double      soft = ms_loss_of(ev, ms_at_rate(c, problem, ms_compared[MS_SOFT], rate));
    const double      muon = ms_loss_of(ev, ms_at_rate(c, problem, ms_compared[MS_MUON], rate));
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
        if (isfinite(gap_at(ev, small, c->rates[i - 1])) &&
            !isnan(gap_at(ev, large, c->rates[i - 1])))
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
    size_t            pairs = 0, grew = 0;

    for (size_t p = 0; p < c->n_problems; p++) {
        const size_t q = next_size(ev, p);
        if (q == c->n_problems) continue;
        const double rate  = shared_rate(ev, p, q);
        const double small = gap_at(ev, p, rate), large = gap_at(ev, q, rate);
        ms_note(ev, "%s", ev->used > 0 ? "; " : "");
        note_gap(ev, c->problems[p].label, small);
        ms_note(ev, ", ");
        note_gap(ev, c->problems[q].label, large);
        ms_note(ev, " at lr %g", rate);
        pairs++;
        grew += large > small;
    }
    if (pairs > 0) return ms_held(grew == pairs);
    return ms_not_tested(
        ev, "there are no runs of two sizes of the model on one set at one learning rate");
}
