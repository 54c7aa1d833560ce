/* verdict_rates.c - judges of what a method's loss does as the learning rate grows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/verdict_parts.h"

/* "MuonClip was not run" behind the figures: the judgement is without it. */
static void say_absent(ms_words *w, const bool has[MS_COMPARED])
{
    for (int m = 0; m < MS_COMPARED; m++)
        if (!has[m]) ms_say_item(w, "without %s", ms_compared_title(m));
}

/* All losses at one rate; the least of them is returned. */
static double say_losses(ms_words *w, const ms_sweep *s, size_t rate)
{
    double least = INFINITY;
    for (int m = 0; m < MS_COMPARED; m++) {
        if (!s->has[m]) continue;
        ms_say_loss(w, ms_compared_title(m), ms_loss_of(w, s->at[m][rate]));
        if (s->loss[m][rate] < least) least = s->loss[m][rate];
    }
    ms_say(w, " at lr %g", s->rates[rate]);
    say_absent(w, s->has);
    return least;
}

/* ---- one panel of the sweep ------------------------------------------------------------------ */

/* Around the best rate, as long as the loss stays within the bound. */
static double range_of(const ms_sweep *s, int m, double *from, double *to)
{
    size_t best = 0, low, high;
    if (isinf(s->best[m])) return 0.0;
    for (size_t i = 1; i < s->n; i++)
        if (s->loss[m][i] < s->loss[m][best]) best = i;
    for (low = best; low > 0 && ms_above(s->loss[m][low - 1], s->best[m]) <= MS_DEGRADED;)
        low--;
    for (high = best; high + 1 < s->n && ms_above(s->loss[m][high + 1], s->best[m]) <= MS_DEGRADED;)
        high++;
    *from = s->rates[low];
    *to   = s->rates[high];
    return *to / *from;
}

ms_verdict ms_judge_range(const ms_compare *c, size_t problem, ms_words *w)
{
    ms_sweep s;
    double   width[MS_COMPARED] = { 0 };
    bool     held               = true;

    if (!ms_sweep_make(c, problem, w, &s)) return MS_NOT_TESTED;
    for (int m = 0; m < MS_COMPARED; m++) {
        double from = NAN, to = NAN;
        if (!s.has[m]) continue;
        for (size_t i = 0; i < s.n; i++)
            (void)ms_loss_of(w, s.at[m][i]);
        width[m] = range_of(&s, m, &from, &to);
        if (width[m] > 0.0)
            ms_say_item(w, "%s %g to %g", ms_compared_title(m), from, to);
        else
            ms_say_item(w, "%s none", ms_compared_title(m));
        if (m == MS_MUON || m == MS_MUONCLIP)
            held = held && width[MS_SOFT] > 0.0 && width[MS_SOFT] >= 2.0 * width[m];
    }
    say_absent(w, s.has);
    return ms_held(held);
}

ms_verdict ms_judge_small(const ms_compare *c, size_t problem, ms_words *w)
{
    ms_sweep s;
    double   least, most = -INFINITY;

    if (!ms_sweep_make(c, problem, w, &s)) return MS_NOT_TESTED;
    least = say_losses(w, &s, 0);
    for (int m = 0; m < MS_COMPARED; m++)
        if (s.has[m] && s.loss[m][0] > most) most = s.loss[m][0];
    return ms_held(ms_above(most, least) <= MS_COMPARABLE);
}

/* Shares by which the methods are above `from` at the largest rate (own: above their own best). */
static void say_largest(ms_words *w, const ms_sweep *s, bool own, double above[MS_COMPARED])
{
    for (int m = 0; m < MS_COMPARED; m++) {
        if (!s->has[m]) continue;
        above[m] = ms_above(ms_loss_of(w, s->at[m][s->n - 1]), own ? s->best[m] : s->best_of_all);
        (void)ms_loss_of(w, own ? s->best_at[m] : s->best_of_all_at);
        ms_say_item(w, "%s ", ms_compared_title(m));
        ms_say_share(w, above[m]);
    }
    ms_say(w, " at lr %g", s->rates[s->n - 1]);
    say_absent(w, s->has);
}

ms_verdict ms_judge_degrade(const ms_compare *c, size_t problem, ms_words *w)
{
    ms_sweep s;
    double   above[MS_COMPARED];

    if (!ms_sweep_make(c, problem, w, &s)) return MS_NOT_TESTED;
    say_largest(w, &s, true, above);
    return ms_held(above[MS_SOFT] <= MS_DEGRADED && above[MS_MUON] > MS_DEGRADED &&
                   (!s.has[MS_MUONCLIP] || above[MS_MUONCLIP] > MS_DEGRADED));
}

ms_verdict ms_judge_largest(const ms_compare *c, size_t problem, ms_words *w)
{
    ms_sweep s;
    double   above[MS_COMPARED];

    if (!ms_sweep_make(c, problem, w, &s)) return MS_NOT_TESTED;
    say_largest(w, &s, false, above);
    return ms_held(above[MS_MUON] > MS_FAILED &&
                   (!s.has[MS_MUONCLIP] || above[MS_MUONCLIP] > MS_DEGRADED));
}

ms_verdict ms_judge_stable(const ms_compare *c, size_t problem, ms_words *w)
{
    ms_sweep s;
    bool     held = true;

    if (!ms_sweep_make(c, problem, w, &s)) return MS_NOT_TESTED;
    for (int m = MS_SOFT; m <= MS_SPECTRA; m++) {
        size_t worst = 0;
        if (!s.has[m]) continue;
        for (size_t i = 1; i < s.n; i++)
            if (s.loss[m][i] > s.loss[m][worst]) worst = i;
        const double above = ms_above(ms_loss_of(w, s.at[m][worst]), s.best_of_all);
        (void)ms_loss_of(w, s.best_of_all_at);
        ms_say_item(w, "%s at worst ", ms_compared_title(m));
        ms_say_share(w, above);
        ms_say(w, " (lr %g)", s.rates[worst]);
        held = held && above <= MS_FAILED;
    }
    if (!s.has[MS_SPECTRA]) ms_say_item(w, "without %s", ms_compared_title(MS_SPECTRA));
    return ms_held(held);
}

ms_verdict ms_judge_large(const ms_compare *c, size_t problem, ms_words *w)
{
    ms_sweep s;
    size_t   n    = 0;
    bool     held = true;

    if (!ms_sweep_make(c, problem, w, &s)) return MS_NOT_TESTED;
    for (size_t i = 0; i < s.n; i++) {
        double clipping = -INFINITY, others = INFINITY;
        if (s.rates[i] < 0.1 && !ms_same_number(s.rates[i], 0.1)) continue;
        for (int m = 0; m < MS_COMPARED; m++) {
            if (!s.has[m]) continue;
            (void)ms_loss_of(w, s.at[m][i]);
            if (m <= MS_SPECTRA && s.loss[m][i] > clipping) clipping = s.loss[m][i];
            if (m > MS_SPECTRA && s.loss[m][i] < others) others = s.loss[m][i];
        }
        ms_say_item(w, "lr %g: ", s.rates[i]);
        if (isinf(clipping))
            ms_say(w, "clipping diverged");
        else if (isinf(others))
            ms_say(w, "clipping %.3f, the others diverged", clipping);
        else
            ms_say(w, "clipping at most %.3f, the others at least %.3f", clipping, others);
        held = held && !isinf(clipping) && ms_above(others, clipping) > MS_COMPARABLE;
        n++;
    }
    if (n == 0) {
        ms_say(w, "the methods have no learning rate of 0.1 or more in common");
        return MS_NOT_TESTED;
    }
    say_absent(w, s.has);
    return ms_held(held);
}

ms_verdict ms_judge_near_best(const ms_compare *c, size_t problem, ms_words *w)
{
    ms_sweep s;
    double   least;

    if (!ms_sweep_make(c, problem, w, &s)) return MS_NOT_TESTED;
    least = say_losses(w, &s, s.n - 1);
    return ms_held(isfinite(s.loss[MS_SOFT][s.n - 1]) &&
                   ms_above(s.loss[MS_SOFT][s.n - 1], least) <= MS_COMPARABLE);
}

/* ---- the best over all rates ----------------------------------------------------------------- */

static double say_tuned(const ms_compare *c, size_t problem, const char *optimizer, ms_words *w)
{
    const ms_setting *s    = ms_at_rate(c, problem, optimizer, NAN);
    const double      loss = ms_loss_of(w, s);
    if (s == NULL) return NAN;
    ms_say_loss(w, ms_optimizer_title(optimizer), loss);
    if (isfinite(loss)) ms_say(w, " (lr %g)", s->lr);
    return loss;
}

ms_verdict ms_judge_tuned(const ms_compare *c, size_t problem, ms_words *w)
{
    const ms_setting *soft = ms_at_rate(c, problem, ms_compared[MS_SOFT], NAN);
    double            mine, least = NAN;

    if (soft == NULL) return ms_say_missing(w, ms_compared[MS_SOFT], NAN);
    if (ms_at_rate(c, problem, ms_compared[MS_MUON], NAN) == NULL)
        return ms_say_missing(w, ms_compared[MS_MUON], NAN);
    mine = say_tuned(c, problem, ms_compared[MS_SOFT], w);
    for (int m = MS_SOFT + 1; m < MS_COMPARED; m++) {
        const double loss = say_tuned(c, problem, ms_compared[m], w);
        if (!(least <= loss) && !isnan(loss)) least = loss;
    }
    return ms_held(isfinite(mine) && ms_above(mine, least) <= MS_COMPARABLE);
}

ms_verdict ms_judge_adam(const ms_compare *c, size_t problem, ms_words *w)
{
    static const char *const elementwise[] = { "adam", "adamw" };
    double                   worst = -INFINITY, least = INFINITY;
    size_t                   n_matrix = 0, n_other = 0;

    for (int m = 0; m < MS_COMPARED; m++)
        n_matrix += ms_at_rate(c, problem, ms_compared[m], NAN) != NULL;
    for (size_t i = 0; i < COUNT(elementwise); i++)
        n_other += ms_at_rate(c, problem, elementwise[i], NAN) != NULL;
    if (n_other == 0) return ms_say_missing(w, "adam", NAN);
    if (n_matrix == 0) return ms_say_missing(w, "muon", NAN);
    for (int m = 0; m < MS_COMPARED; m++) {
        const double loss = say_tuned(c, problem, ms_compared[m], w);
        if (loss > worst) worst = loss;
    }
    for (size_t i = 0; i < COUNT(elementwise); i++) {
        const double loss = say_tuned(c, problem, elementwise[i], w);
        if (loss < least) least = loss;
    }
    return ms_held(worst < least);
}

/* ---- Soft Musec beside SPECTRA --------------------------------------------------------------- */

/* The next rate, from number *i on, at which both were run. */
static bool next_pair(const ms_compare *c, size_t problem, size_t *i, const ms_setting **soft,
                      const ms_setting **spectra)
{
    for (; *i < c->n_rates; ++*i) {
        *soft    = ms_at_rate(c, problem, ms_compared[MS_SOFT], c->rates[*i]);
        *spectra = ms_at_rate(c, problem, ms_compared[MS_SPECTRA], c->rates[*i]);
        if (*soft != NULL && *spectra != NULL) return true;
    }
    return false;
}

ms_verdict ms_judge_spectra(const ms_compare *c, size_t problem, ms_words *w)
{
    const ms_setting *soft, *spectra;
    size_t            n    = 0;
    bool              held = true;

    for (size_t i = 0; next_pair(c, problem, &i, &soft, &spectra); i++, n++) {
        const double a = ms_loss_of(w, soft), b = ms_loss_of(w, spectra);
        ms_say_item(w, "lr %g: ", soft->lr);
        if (isinf(a) && isinf(b)) {
            ms_say(w, "both diverged");
            continue;
        }
        const double apart = a > b ? ms_above(a, b) : ms_above(b, a);
        if (isinf(b))
            ms_say(w, "SPECTRA diverged");
        else
            ms_say_share(w, ms_above(a, b));
        held = held && apart <= MS_COMPARABLE;
    }
    if (n == 0) {
        ms_say(w, "Soft Musec and SPECTRA have no learning rate in common");
        return MS_NOT_TESTED;
    }
    ms_say(w, " (Soft Musec above SPECTRA)");
    return ms_held(held);
}

ms_verdict ms_judge_spectra_better(const ms_compare *c, ms_words *w)
{
    size_t better = 0, worse = 0, n = 0;

    for (size_t p = 0; p < c->n_problems; p++) {
        const ms_setting *soft, *spectra;
        for (size_t i = 0; next_pair(c, p, &i, &soft, &spectra); i++, n++) {
            const double a = ms_loss_of(w, soft), b = ms_loss_of(w, spectra);
            const double spread = fmax(ms_spread_of(soft), ms_spread_of(spectra));
            better += ms_above(b, a) > MS_SLIGHTLY && b - a > spread;
            worse += ms_above(a, b) > MS_SLIGHTLY && a - b > spread;
        }
    }
    if (n == 0) {
        ms_say(w, "Soft Musec and SPECTRA have no learning rate in common");
        return MS_NOT_TESTED;
    }
    ms_say(w, "of %zu settings Soft Musec is better in %zu, SPECTRA in %zu", n, better, worse);
    return ms_held(better >= 2);
}

/* ---- sets and sizes -------------------------------------------------------------------------- */

enum { SWEEP_CLAIMS = 4 };

static const char *const sweep_claims[SWEEP_CLAIMS] = { "small-lr", "degrade", "largest-lr",
                                                        "stable" };

static void judge_sweep(const ms_compare *c, size_t problem, ms_verdict out[SWEEP_CLAIMS])
{
    static ms_judge *const judges[SWEEP_CLAIMS] = { ms_judge_small, ms_judge_degrade,
                                                    ms_judge_largest, ms_judge_stable };
    for (size_t k = 0; k < SWEEP_CLAIMS; k++) {
        ms_words unread = MS_WORDS;
        out[k]          = judges[k](c, problem, &unread);
        free(unread.text);
    }
}

ms_verdict ms_judge_sets(const ms_compare *c, ms_words *w)
{
    size_t pairs = 0, alike = 0;

    for (size_t p = 0; p < c->n_problems; p++) {
        ms_verdict mine[SWEEP_CLAIMS] = { MS_NOT_TESTED }, other[SWEEP_CLAIMS] = { MS_NOT_TESTED };
        judge_sweep(c, p, mine);
        if (mine[0] == MS_NOT_TESTED) continue;
        ms_say(w, "%s%s:", w->used > 0 ? "; " : "", ms_problem_name(c, p));
        for (size_t k = 0; k < SWEEP_CLAIMS; k++)
            ms_say(w, "%s %s %s", k > 0 ? "," : "", sweep_claims[k],
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
    w->used = 0;
    ms_say(w, "there are no sweeps on two sets of data with one model");
    return MS_NOT_TESTED;
}

static double size_of(const ms_problem *p) { return ms_run_parameters(p->first); }

/* Muon above Soft Musec at this rate; NaN: not both were run, or both diverged. */
static double gap_at(const ms_compare *c, size_t problem, double rate, ms_words *w)
{
    const double soft = ms_loss_of(w, ms_at_rate(c, problem, ms_compared[MS_SOFT], rate));
    const double muon = ms_loss_of(w, ms_at_rate(c, problem, ms_compared[MS_MUON], rate));
    return isinf(soft) && isinf(muon) ? NAN : ms_above(muon, soft);
}

static void say_gap(ms_words *w, const char *label, double gap)
{
    if (isinf(gap))
        ms_say(w, "%s: %s diverged", label, ms_compared_title(gap > 0.0 ? MS_MUON : MS_SOFT));
    else
        ms_say(w, "%s: %+.1f%%", label, 100.0 * gap);
}

/* The largest rate at which the smaller model has a finite gap, which can be seen to grow, and the
 * larger one has any; NaN: none. */
static double shared_rate(const ms_compare *c, size_t small, size_t large, ms_words *w)
{
    for (size_t i = c->n_rates; i > 0; i--)
        if (isfinite(gap_at(c, small, c->rates[i - 1], w)) &&
            !isnan(gap_at(c, large, c->rates[i - 1], w)))
            return c->rates[i - 1];
    return NAN;
}

/* The next larger model on the same data that shares a rate; n_problems if there is none. */
static size_t next_size(const ms_compare *c, size_t p, ms_words *w)
{
    size_t next = c->n_problems;
    for (size_t q = 0; q < c->n_problems; q++) {
        if (strcmp(c->problems[q].set, c->problems[p].set) != 0 ||
            !(size_of(&c->problems[q]) > size_of(&c->problems[p])) ||
            isnan(shared_rate(c, p, q, w)))
            continue;
        if (next == c->n_problems || size_of(&c->problems[q]) < size_of(&c->problems[next]))
            next = q;
    }
    return next;
}

ms_verdict ms_judge_sizes(const ms_compare *c, ms_words *w)
{
    size_t pairs = 0, grew = 0;

    for (size_t p = 0; p < c->n_problems; p++) {
        const size_t q = next_size(c, p, w);
        if (q == c->n_problems) continue;
        const double rate  = shared_rate(c, p, q, w);
        const double small = gap_at(c, p, rate, w), large = gap_at(c, q, rate, w);
        ms_say(w, "%s", w->used > 0 ? "; " : "");
        say_gap(w, c->problems[p].label, small);
        ms_say(w, ", ");
        say_gap(w, c->problems[q].label, large);
        ms_say(w, " at lr %g", rate);
        pairs++;
        grew += large > small;
    }
    if (pairs > 0) return ms_held(grew == pairs);
    ms_say(w, "there are no runs of two sizes of the model on one set at one learning rate");
    return MS_NOT_TESTED;
}
