/* verdict.c - the table of claims, and what their judges share.
 *
 * The claims are told in our own words, in the order of the paper; its sections are 6 (experiments)
 * and F (additional results).  A claim is judged on every problem that has the runs it needs, and
 * holds where it holds on each of them.  A setting of which any seed diverged counts as diverged;
 * otherwise its loss is the mean over its seeds, of the last validation.
 *
 * Nothing is judged by runs that have learned nothing (core/outcome.h).  Where one of the compared
 * methods has no other runs, no claim is tested on that problem; a learning rate at which none of
 * them learned anything counts as little as a rate of 0.  A method that stalled at some rate where
 * another learned stands there with its loss. */
#include "report/verdict.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/verdict_parts.h"

typedef struct claim {
    const char *id, *where, *claim, *measure;
    ms_judge   *judge; /* of one problem, */
    ms_verdict (*overall)(const ms_compare *,
                          ms_words *); /* or of all; NULL both: none can be made */
    const char *why;                   /* then: why it is not tested */
} claim;

static const claim claims[] = {
    { "range", "1",
      "Soft Musec trains well over a much wider range of learning rates than Muon and MuonClip.",
      "Largest over smallest of the common learning rates around a method's best at which its "
      "loss is within 5% of that best. Holds if Soft Musec's is at least twice Muon's and "
      "MuonClip's.",
      ms_judge_range, NULL, NULL },
    { "tuned", "1", "Well tuned, Soft Musec does as well as the other matrix methods.",
      "Least loss over all learning rates. Holds if Soft Musec's is at most 2% above the least of "
      "Muon, MuonClip and SPECTRA.",
      ms_judge_tuned, NULL, NULL },
    { "theory", "4.3",
      "Musec reaches a Goldstein stationary point of a nonconvex, nonsmooth objective at the best "
      "rate known.",
      "None: a bound on the worst case is not seen in training runs.", NULL, NULL,
      "training runs do not test a proof" },
    { "small-lr", "6.2, Figs. 1, 4", "At small learning rates all methods reach a similar loss.",
      "Losses at the smallest common learning rate. Holds if the largest is at most 2% above the "
      "least.",
      ms_judge_small, NULL, NULL },
    { "degrade", "6.2, Figs. 1, 4",
      "As the learning rate grows Muon and MuonClip get worse, and Soft Musec does not.",
      "Loss at the largest common learning rate above the method's own best at the common ones. "
      "Holds if Muon's and MuonClip's is more than 5% (or they diverged) and Soft Musec's is not.",
      ms_judge_degrade, NULL, NULL },
    { "largest-lr", "6.2, Fig. 1",
      "At the largest learning rate Muon does not converge, and MuonClip does not or ends much "
      "worse.",
      "Loss at the largest common learning rate above the best of all methods and rates. Holds if "
      "Muon's is more than 20% and MuonClip's more than 5%, or they diverged.",
      ms_judge_largest, NULL, NULL },
    { "stable", "6.2, Fig. 1", "Soft Musec and SPECTRA converge at every learning rate.",
      "Losses at all common learning rates, above the best of all methods and rates. Holds if none "
      "of the two diverged or is more than 20% above it at any.",
      ms_judge_stable, NULL, NULL },
    { "spectra", "6.2", "Soft Musec and SPECTRA do about equally well.",
      "Losses at each common learning rate. Holds if the two differ by at most 2% at each.",
      ms_judge_spectra, NULL, NULL },
    { "spectra-better", "6.2", "Soft Musec is slightly better than SPECTRA in several settings.",
      "Learning rates, over all panels, at which Soft Musec's loss is lower by more than 0.1% and "
      "by more than the seeds' spread. Holds if there are at least two.",
      NULL, ms_judge_spectra_better, NULL },
    { "sets", "6.2, F.1", "The picture is the same on all sets of data.",
      "The claims small-lr, degrade, largest-lr and stable on each set of a model. Holds if they "
      "come out alike on two sets or more.",
      NULL, ms_judge_sets, NULL },
    { "spike", "6.3, Fig. 2", "Every method's loss jumps at the change of stage, at lr 0.2.",
      "Highest validation loss in the tenth of the run after the change, above the last one "
      "before. Holds if it is more than 1% for each method.",
      ms_judge_spike, NULL, NULL },
    { "recovery", "6.3, Fig. 2",
      "Soft Musec and SPECTRA recover from it quickly, Muon slowly and to a higher final loss.",
      "At lr 0.2, steps from the change until the validation loss is below the last one before "
      "it. Holds if Muon takes more than twice as long as Soft Musec and SPECTRA and ends more "
      "than 2% above them.",
      ms_judge_recovery, NULL, NULL },
    { "muonclip-better", "6.3, Fig. 2", "MuonClip does better than Muon at a large learning rate.",
      "Losses at lr 0.2. Holds if MuonClip's is lower by more than the seeds' spread.",
      ms_judge_muonclip_better, NULL, NULL },
    { "oscillation", "6.3, Fig. 2", "MuonClip's loss goes up and down, Soft Musec's is smooth.",
      "Root mean square of the second differences of the validation loss at lr 0.2, from the "
      "third validation after the change on. Holds if MuonClip's is more than twice Soft Musec's.",
      ms_judge_oscillation, NULL, NULL },
    { "norm-muon", "6.4, Fig. 3", "Muon's weights grow large in all groups of matrices.",
      "Largest spectral norm of a weight over training at lr 0.2. Holds if in QK, VO and MLP "
      "Muon's is above 10 and more than five times Soft Musec's.",
      ms_judge_norm_muon, NULL, NULL },
    { "norm-clipping", "6.4, Fig. 3",
      "Those of Soft Musec and SPECTRA stay below 10 in all groups.",
      "The same norms. Holds if all of them are below 10.", ms_judge_norm_clipping, NULL, NULL },
    { "norm-muonclip", "6.4, Fig. 3",
      "MuonClip shrinks query and key weights alone, and only in part.",
      "The same norms. Holds if MuonClip's is at most 0.8 times Muon's in QK, and above that in "
      "VO and in MLP.",
      ms_judge_norm_qk, NULL, NULL },
    { "large-lr", "F.1, Fig. 5",
      "From lr 0.1 on, Soft Musec and SPECTRA are far better than Muon and MuonClip.",
      "Losses at the common learning rates of 0.1 and more. Holds if at each the worse of the two "
      "is more than 2% below the better of the others.",
      ms_judge_large, NULL, NULL },
    { "near-best", "F.1", "Soft Musec is the best, or nearly, at the largest learning rates.",
      "Losses at the largest common learning rate. Holds if Soft Musec's is at most 2% above the "
      "least.",
      ms_judge_near_best, NULL, NULL },
    { "adam", "F.2", "Well tuned, the matrix methods reach a lower loss than Adam and AdamW.",
      "Least loss over all learning rates. Holds if that of each of Soft Musec, SPECTRA, Muon and "
      "MuonClip is below those of Adam and AdamW.",
      ms_judge_adam, NULL, NULL },
    { "sizes", "F.2", "The gap in stability widens with the size of the model.",
      "Muon's loss above Soft Musec's at the largest learning rate that the sizes share, for two "
      "sizes or more on one set. Holds if it is larger for each larger model.",
      NULL, ms_judge_sizes, NULL },
    { "rank-muon", "F.3, Fig. 9", "Muon's updates have nearly full effective rank.",
      "Effective rank of the update over the smaller side of the matrix, mean over training at lr "
      "0.5. Holds if it is at least 0.9 in QK, VO and MLP.",
      ms_judge_rank_muon, NULL, NULL },
    { "rank-muonclip", "F.3, Fig. 9", "MuonClip does not lower it.",
      "The same means. Holds if MuonClip's is at least 0.95 times Muon's in each group.",
      ms_judge_rank_muonclip, NULL, NULL },
    { "rank-clipping", "F.3, Fig. 9", "Soft Musec's and SPECTRA's is clearly lower than Muon's.",
      "The same means. Holds if theirs is at most 0.8 times Muon's in each group.",
      ms_judge_rank_clipping, NULL, NULL },
    { "rank-late", "F.3, Fig. 9", "Late in training, Soft Musec's is lower than SPECTRA's.",
      "The same means over the last quarter of the steps. Holds if Soft Musec's is lower in each "
      "group.",
      ms_judge_rank_late, NULL, NULL },
    { "time", "F.4, Fig. 10", "A step takes about as long with each of the matrix methods.",
      "Median wall time of a step that neither validates nor measures, of a method's quickest run. "
      "Holds if the largest of the four is at most 6% above the least: the paper's own differ by "
      "up to 5.6%.",
      ms_judge_time, NULL, NULL },
    { "slowest", "F.4, Fig. 10", "MuonClip is the slowest of them.",
      "The same times. Holds if MuonClip's is the largest.", ms_judge_slowest, NULL, NULL },
    { "threshold", "F.5, Fig. 11",
      "At learning rates of 0.1 and 0.2 the threshold D hardly matters to Soft Musec.",
      "Losses over the thresholds, each at its best decay. Holds if at each of the two rates that "
      "was run the largest is at most 2% above the least.",
      ms_judge_threshold, NULL, NULL },
    { "threshold-large", "F.5, Fig. 11",
      "At 0.5 it does: large thresholds bring spikes in the loss.",
      "The largest threshold against the smallest at lr 0.5: last loss, and the largest rise of "
      "the validation loss above its lowest so far in the second half. Holds if the largest "
      "threshold's rises by more than 1%, and by more than twice as much as the smallest's.",
      ms_judge_threshold_large, NULL, NULL },
    { "threshold-one", "F.5, Fig. 11",
      "Even with D = 1, Soft Musec converges at 0.5, where Muon and MuonClip diverge.",
      "Losses at lr 0.5 above the best of all methods and rates. Holds if Soft Musec's with D = 1 "
      "is at most 20%, and Muon's and MuonClip's are more or they diverged.",
      ms_judge_threshold_one, NULL, NULL },
    { "iterations", "F.5, Fig. 12",
      "The number of Newton-Schulz iterations hardly matters: three are enough.",
      "Losses over K, from 3 on, at the same learning rate, threshold and decay. Holds if the "
      "largest is everywhere at most 2% above the least.",
      ms_judge_iterations, NULL, NULL },
    { "more-iterations", "F.5, Fig. 12", "More iterations are slightly better.",
      "The same losses. Holds if the largest K's is everywhere lower than the smallest K's by more "
      "than 0.1%.",
      ms_judge_more_iterations, NULL, NULL },
    { "effective-step", "control",
      "The advantage of clipping remains when Muon takes steps of the same size: lr times D.",
      "Loss of Soft Musec and SPECTRA at lr against Muon's at lr D, at the largest lr that has "
      "both. Holds if theirs is lower by more than 2% and by more than the seeds' spread.",
      ms_judge_effective_step, NULL, NULL },
    { "clip-active", "control", "The clip is at work: without it these are other methods.",
      "Largest singular value of the momentum over D, median over groups and training, and the "
      "share of singular values above D, for each clipping method at its best. Holds if the "
      "median is above 1.",
      ms_judge_clip_active, NULL, NULL },
    { "operator", "control",
      "Five iterations do what the exact and the fast operator do: the losses agree.",
      "Losses of Soft Musec by the exact and the fast operator above that of K=5, at the same "
      "learning rate, threshold and decay. Holds if all differ by at most 2%.",
      ms_judge_operator, NULL, NULL },
};

/* ---- words ----------------------------------------------------------------------------------- */

static bool make_room(ms_words *w, size_t n)
{
    if (n <= w->room) return true;
    const size_t room = n > 2 * w->room ? n : 2 * w->room;
    char        *more = realloc(w->text, room);
    if (more == NULL) {
        free(w->text);
        *w = (ms_words){ .spread = w->spread };
        return false;
    }
    w->text = more;
    w->room = room;
    return true;
}

static void say_list(ms_words *w, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (n < 0 || !make_room(w, w->used + (size_t)n + 1)) return;
    (void)vsnprintf(w->text + w->used, (size_t)n + 1, fmt, args);
    w->used += (size_t)n;
}

const char *ms_words_text(const ms_words *w)
{
    return w->text != NULL ? w->text : "there is no memory for the words";
}

void ms_say(ms_words *w, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say_list(w, fmt, args);
    va_end(args);
}

void ms_say_item(ms_words *w, const char *fmt, ...)
{
    va_list args;
    if (w->used > 0) ms_say(w, ", ");
    va_start(args, fmt);
    say_list(w, fmt, args);
    va_end(args);
}

void ms_say_loss(ms_words *w, const char *label, double loss)
{
    if (isfinite(loss))
        ms_say_item(w, "%s %.3f", label, loss);
    else
        ms_say_item(w, "%s diverged", label);
}

void ms_say_share(ms_words *w, double share)
{
    if (isfinite(share))
        ms_say(w, "%+.1f%%", 100.0 * share);
    else
        ms_say(w, "diverged");
}

ms_verdict ms_say_missing(ms_words *w, const char *optimizer, double lr)
{
    ms_say(w, "there is no run of %s", ms_optimizer_title(optimizer));
    if (!isnan(lr)) ms_say(w, " at lr %g", lr);
    return MS_NOT_TESTED;
}

ms_verdict ms_held(bool held) { return held ? MS_HOLDS : MS_DOES_NOT_HOLD; }

/* ---- losses ---------------------------------------------------------------------------------- */

const char *const ms_compared[MS_COMPARED] = { "soft-musec", "spectra", "muon", "muonclip" };

const char *ms_compared_title(int compared) { return ms_optimizer_title(ms_compared[compared]); }

/* A run of the method on the problem, if none of those has learned anything; otherwise NULL.  That
 * all diverged is something else. */
static const ms_run *unlearned(const ms_compare *c, size_t problem, size_t method)
{
    const ms_run *found = NULL;
    for (size_t i = 0; i < c->n_settings; i++) {
        const ms_setting *s = &c->settings[i];
        if (s->problem != problem || s->method != method) continue;
        for (size_t k = 0; k < s->n; k++) {
            if (s->runs[k]->learned) return NULL;
            if (s->runs[k]->status != MS_RUN_DIVERGED) found = s->runs[k];
        }
    }
    return found;
}

const ms_setting *ms_at_rate(const ms_compare *c, size_t problem, const char *optimizer, double lr)
{
    const size_t method = ms_compare_plain(c, optimizer);
    if (method == c->n_methods || unlearned(c, problem, method) != NULL) return NULL;
    return ms_compare_best(c, problem, method, lr);
}

/* Says of which compared method there are only runs that have learned nothing, and names one. */
static bool says_unlearned(const ms_compare *c, size_t problem, ms_words *w)
{
    for (int m = 0; m < MS_COMPARED; m++) {
        const size_t  method = ms_compare_plain(c, ms_compared[m]);
        const ms_run *run    = method < c->n_methods ? unlearned(c, problem, method) : NULL;
        if (run == NULL) continue;
        ms_say(w, "no run of %s has learned anything (%s: loss %.3f", ms_compared_title(m),
               run->dir, run->val_loss);
        if (isfinite(run->unigram_loss)) ms_say(w, ", unigram loss %.3f", run->unigram_loss);
        ms_say(w, "); train longer or at other rates");
        return true;
    }
    return false;
}

double ms_spread_of(const ms_setting *s) { return s->n - s->diverged > 1 ? s->high - s->low : 0.0; }

double ms_mean_loss(const ms_setting *s)
{
    return s == NULL ? NAN : s->diverged > 0 ? INFINITY : s->loss;
}

double ms_loss_of(ms_words *w, const ms_setting *s)
{
    if (s != NULL && s->n - s->diverged > 1 && !(w->spread >= ms_spread_of(s)))
        w->spread = ms_spread_of(s);
    return ms_mean_loss(s);
}

double ms_above(double a, double b)
{
    if (isinf(a) || isinf(b)) return isinf(a) ? INFINITY : -INFINITY;
    return (a - b) / b;
}

/* ---- sweeps over learning rates -------------------------------------------------------------- */

static size_t count_rates(const ms_compare *c, size_t problem, const char *optimizer)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n_rates; i++)
        n += c->rates[i] > 0.0 && ms_at_rate(c, problem, optimizer, c->rates[i]) != NULL;
    return n;
}

bool ms_sweep_make(const ms_compare *c, size_t problem, ms_words *w, ms_sweep *out)
{
    *out = (ms_sweep){ .best_of_all = INFINITY };
    for (int m = 0; m < MS_COMPARED; m++) {
        const ms_setting *tuned = ms_at_rate(c, problem, ms_compared[m], NAN);
        if (ms_mean_loss(tuned) < out->best_of_all) {
            out->best_of_all    = ms_mean_loss(tuned);
            out->best_of_all_at = tuned;
        }
        out->has[m]  = count_rates(c, problem, ms_compared[m]) >= 2;
        out->best[m] = INFINITY;
    }
    for (int m = MS_SOFT; m <= MS_MUON; m += MS_MUON - MS_SOFT)
        if (!out->has[m]) {
            ms_say(w, "there are not two learning rates of %s", ms_compared_title(m));
            return false;
        }
    for (size_t i = 0; i < c->n_rates && out->n < MS_SWEEP_RATES; i++) {
        bool all = c->rates[i] > 0.0, learned = false;
        for (int m = 0; m < MS_COMPARED; m++) {
            const ms_setting *s = ms_at_rate(c, problem, ms_compared[m], c->rates[i]);
            if (!out->has[m]) continue;
            all                  = all && s != NULL;
            learned              = learned || (s != NULL && s->stalled < s->n);
            out->at[m][out->n]   = s;
            out->loss[m][out->n] = ms_mean_loss(s);
        }
        if (all && learned) out->rates[out->n++] = c->rates[i];
    }
    for (int m = 0; m < MS_COMPARED; m++)
        for (size_t i = 0; out->has[m] && i < out->n; i++)
            if (out->loss[m][i] < out->best[m]) {
                out->best[m]    = out->loss[m][i];
                out->best_at[m] = out->at[m][i];
            }
    if (out->n < 2) ms_say(w, "the methods have not two learning rates in common");
    return out->n >= 2;
}

/* ---- all problems ---------------------------------------------------------------------------- */

const char *ms_problem_name(const ms_compare *c, size_t problem)
{
    const ms_problem *p = &c->problems[problem];
    for (size_t i = 0; i < c->n_problems; i++)
        if (i != problem && strcmp(c->problems[i].set, p->set) == 0) return p->label;
    return p->set;
}

/* Reasons why problems were not tested: said once where they are the same. */
static void say_reason(ms_words *all, const ms_compare *c, size_t problem, const char *reason)
{
    if (all->text != NULL && strstr(all->text, reason) != NULL) return;
    ms_say(all, "%s%s: %s", all->used > 0 ? "; " : "", ms_problem_name(c, problem), reason);
}

ms_verdict ms_judge_each(const ms_compare *c, ms_judge *judge, ms_words *w)
{
    ms_words why    = MS_WORDS;
    size_t   tested = 0, held = 0;

    for (size_t p = 0; p < c->n_problems; p++) {
        ms_words         mine    = MS_WORDS;
        const ms_verdict verdict = says_unlearned(c, p, &mine) ? MS_NOT_TESTED : judge(c, p, &mine);
        if (verdict == MS_NOT_TESTED) {
            say_reason(&why, c, p, ms_words_text(&mine));
        } else {
            tested++;
            held += verdict == MS_HOLDS;
            ms_say(w, "%s%s: %s", w->used > 0 ? "; " : "", ms_problem_name(c, p),
                   ms_words_text(&mine));
            if (!isnan(mine.spread)) ms_say(w, " (seeds within %.3f)", mine.spread);
        }
        free(mine.text);
    }
    if (tested == 0)
        ms_say(w, "%s", c->n_problems == 0 ? "there are no finished runs" : ms_words_text(&why));
    free(why.text);
    return tested > 0 ? ms_held(held == tested) : MS_NOT_TESTED;
}

size_t ms_verdict_find(const ms_compare *c, bool omit_times, ms_finding *out)
{
    for (size_t i = 0; out != NULL && i < COUNT(claims); i++) {
        const claim *it = &claims[i];
        ms_finding  *f  = &out[i];
        ms_words     w  = MS_WORDS;

        *f = (ms_finding){
            .id = it->id, .where = it->where, .claim = it->claim, .measure = it->measure
        };
        if (omit_times && (it->judge == ms_judge_time || it->judge == ms_judge_slowest))
            ms_say(&w, "times are left out");
        else if (it->judge != NULL)
            f->verdict = ms_judge_each(c, it->judge, &w);
        else if (it->overall != NULL)
            f->verdict = it->overall(c, &w);
        else
            ms_say(&w, "%s", it->why);
        f->text   = w.text;
        f->result = ms_words_text(&w);
    }
    return COUNT(claims);
}

void ms_verdict_free(ms_finding *findings, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(findings[i].text);
        findings[i] = (ms_finding){ 0 };
    }
}

void ms_verdict_counts(const ms_finding *findings, size_t n, ms_table *pairs)
{
    static const struct {
        ms_verdict  verdict;
        const char *one, *many;
    } rows[] = { { MS_HOLDS, "holds", "hold" },
                 { MS_DOES_NOT_HOLD, "does not hold", "do not hold" },
                 { MS_NOT_TESTED, "not tested", "not tested" } };

    pairs->align = "ll";
    for (size_t i = 0; i < COUNT(rows); i++) {
        size_t of = 0;
        for (size_t k = 0; k < n; k++)
            of += findings[k].verdict == rows[i].verdict;
        ms_table_add(pairs, "%s", ms_verdict_word(rows[i].verdict));
        ms_table_add(pairs, "%zu %s", of, of == 1 ? rows[i].one : rows[i].many);
    }
}

const char *ms_verdict_word(ms_verdict v)
{
    static const char *const words[] = { "not tested here", "holds", "does not hold" };
    return words[v];
}

void ms_verdict_table(const ms_finding *findings, size_t n, ms_table *table)
{
    static const char *const columns[] = { "section", "claim", "measurement", "result", "verdict" };
    table->align                       = "llllb";
    for (size_t i = 0; i < COUNT(columns); i++)
        ms_table_add(table, "%s", columns[i]);
    for (size_t i = 0; i < n; i++) {
        ms_table_add(table, "%s", findings[i].where);
        ms_table_add(table, "%s", findings[i].claim);
        ms_table_add(table, "%s", findings[i].measure);
        ms_table_add(table, "%s", findings[i].result);
        ms_table_add(table, "%s", ms_verdict_word(findings[i].verdict));
    }
}
