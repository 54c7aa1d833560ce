/* verdict.c - judges the claims problem by problem; notes and losses for their measurements.
 *
 * A claim is judged on every problem that has the runs it needs, and holds if it holds on each of
 * them.  A setting with a diverged seed counts as diverged; otherwise its loss is the mean over its
 * seeds of the last validation loss.  Several seeds decide by an interval (claims_decide.c); an
 * optimum at the edge of what was run decides nothing.
 *
 * Runs that have learned nothing (core/outcome.h) judge no claim.  If one of the compared methods
 * has only such runs on a problem, no claim is tested on it; a learning rate at which no method
 * learned anything is ignored, like a rate of 0.  A method that stalled at a rate where another
 * learned counts with its loss. */
#include "report/verdict.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "report/claims.h"

/* ---- notes ----------------------------------------------------------------------------------- */

static void note_list(ms_evidence *ev, const char *fmt, va_list args)
{
    char        *more  = ms_text_format(fmt, args);
    const size_t bytes = more == NULL ? 0 : strlen(more) + 1;
    char        *text  = more == NULL ? NULL : ev->text;

    if (more != NULL && ev->used + bytes > ev->capacity) {
        text = realloc(ev->text, 2 * (ev->used + bytes));
        if (text != NULL) ev->capacity = 2 * (ev->used + bytes);
    }
    if (text != NULL) {
        memcpy(text + ev->used, more, bytes);
        ev->used += bytes - 1;
        ev->text = text;
    } else {
        ev->out_of_memory = true;
    }
    free(more);
}

const char *ms_evidence_text(const ms_evidence *ev) { return ev->text != NULL ? ev->text : ""; }

void ms_note(ms_evidence *ev, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    note_list(ev, fmt, args);
    va_end(args);
}

void ms_note_item(ms_evidence *ev, const char *fmt, ...)
{
    va_list args;
    if (ev->used > 0) ms_note(ev, ", ");
    va_start(args, fmt);
    note_list(ev, fmt, args);
    va_end(args);
}

void ms_note_loss(ms_evidence *ev, const char *label, double loss)
{
    if (isfinite(loss))
        ms_note_item(ev, "%s %.3f", label, loss);
    else
        ms_note_item(ev, "%s diverged", label);
}

void ms_note_share(ms_evidence *ev, double share)
{
    if (isfinite(share))
        ms_note(ev, "%+.1f%%", 100.0 * share);
    else
        ms_note(ev, "diverged");
}

ms_verdict ms_not_tested(ms_evidence *ev, const char *fmt, ...)
{
    va_list args;
    ev->used = 0;
    va_start(args, fmt);
    note_list(ev, fmt, args);
    va_end(args);
    return MS_NOT_TESTED;
}

ms_verdict ms_no_run(ms_evidence *ev, const char *optimizer, double lr)
{
    if (isnan(lr)) return ms_not_tested(ev, "there is no run of %s", ms_optimizer_title(optimizer));
    return ms_not_tested(ev, "there is no run of %s at lr %g", ms_optimizer_title(optimizer), lr);
}

/* ---- losses ---------------------------------------------------------------------------------- */

const char *const ms_compared[MS_COMPARED] = { "soft-musec", "spectra", "muon", "muonclip" };

const char *ms_compared_title(int method) { return ms_optimizer_title(ms_compared[method]); }

/* A run of the method that did not diverge, if no run on the problem learned anything; or NULL. */
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

const ms_setting *ms_method_at(const ms_evidence *ev, int method, double lr)
{
    return ms_at_rate(ev->c, ev->problem, ms_compared[method], lr);
}

/* Is there a compared method whose runs have all learned nothing?  Notes one of the runs. */
static bool note_unlearned(ms_evidence *ev)
{
    for (int m = 0; m < MS_COMPARED; m++) {
        const size_t  method = ms_compare_plain(ev->c, ms_compared[m]);
        const ms_run *run =
            method < ev->c->n_methods ? unlearned(ev->c, ev->problem, method) : NULL;
        if (run == NULL) continue;
        ms_note(ev, "no run of %s has learned anything (%s: loss %.3f", ms_compared_title(m),
                run->dir, run->val_loss);
        if (isfinite(run->unigram_loss)) ms_note(ev, ", unigram loss %.3f", run->unigram_loss);
        ms_note(ev, "); train longer or at other rates");
        return true;
    }
    return false;
}

double ms_spread_of(const ms_setting *s) { return s->n - s->diverged > 1 ? s->high - s->low : 0.0; }

double ms_mean_loss(const ms_setting *s)
{
    return s == NULL ? NAN : s->diverged > 0 ? INFINITY : s->loss;
}

double ms_above(double a, double b)
{
    if (isinf(a) || isinf(b)) return isinf(a) ? INFINITY : -INFINITY;
    return (a - b) / b;
}

/* ---- all problems ---------------------------------------------------------------------------- */

const char *ms_problem_name(const ms_compare *c, size_t problem)
{
    const ms_problem *p = &c->problems[problem];
    for (size_t i = 0; i < c->n_problems; i++)
        if (i != problem && strcmp(c->problems[i].set, p->set) == 0) return p->label;
    return p->set;
}

/* Notes why a problem was not tested, each reason once. */
static void note_reason(ms_evidence *all, size_t problem, const char *reason)
{
    if (all->text != NULL && strstr(all->text, reason) != NULL) return;
    ms_note(all, "%s%s: %s", all->used > 0 ? "; " : "", ms_problem_name(all->c, problem), reason);
}

/* Judges the claim on each problem and notes the numbers of each. */
static ms_verdict judge_each(ms_evidence *ev)
{
    const ms_compare *c      = ev->c;
    ms_evidence       why    = { .c = c, .spread = NAN };
    size_t            tested = 0;
    ms_verdict        all    = MS_HOLDS;

    for (size_t p = 0; p < c->n_problems; p++) {
        ms_evidence      mine    = { .c = c, .problem = p, .claim = ev->claim, .spread = NAN };
        const ms_verdict verdict = note_unlearned(&mine) ? MS_NOT_TESTED : ms_claim_judge(&mine);
        if (verdict == MS_NOT_TESTED) {
            note_reason(&why, p, ms_evidence_text(&mine));
        } else {
            tested++;
            all = ms_verdict_and(all, verdict);
            ms_note(ev, "%s%s: %s", ev->used > 0 ? "; " : "", ms_problem_name(c, p),
                    ms_evidence_text(&mine));
        }
        ev->out_of_memory = ev->out_of_memory || mine.out_of_memory;
        free(mine.text);
    }
    if (tested == 0)
        ms_note(ev, "%s",
                c->n_problems == 0 ? "there are no finished runs" : ms_evidence_text(&why));
    ev->out_of_memory = ev->out_of_memory || why.out_of_memory;
    free(why.text);
    return tested > 0 ? all : MS_NOT_TESTED;
}

/* The sentence that explains a claim's measurement, with its bounds, which the caller frees; NULL
 * without memory. */
static char *measure_text(const ms_claim *claim)
{
    ms_evidence out = { .claim = claim };

    for (const char *at = claim->measure; *at != '\0';) {
        const size_t n = strcspn(at, "{");
        ms_note(&out, "%.*s", (int)n, at);
        at += n;
        if (*at == '\0') break;
        const double value   = at[1] == 'l' ? claim->lr : claim->bound[at[1] - '1'];
        const bool   percent = at[2] == '%';
        ms_note(&out, "%g%s", percent ? 100.0 * value : value, percent ? "%" : "");
        at = strchr(at, '}') + 1;
    }
    if (!out.out_of_memory) return out.text;
    free(out.text);
    return NULL;
}

size_t ms_verdict_count(void) { return ms_n_claims; }

musec_status ms_verdict_find(ms_error *e, const ms_compare *c, bool omit_times, ms_finding *out)
{
    bool whole = true;
    for (size_t i = 0; i < ms_n_claims; i++) {
        const ms_claim *claim = &ms_claims[i];
        ms_finding     *f     = &out[i];
        ms_evidence     ev    = { .c = c, .claim = claim, .spread = NAN };

        *f = (ms_finding){ .id = claim->id, .where = claim->where, .claim = claim->claim };
        if (claim->quantity == ms_measure_time && omit_times)
            ms_note(&ev, "times are left out");
        else if (claim->judge_all != NULL)
            f->verdict = ms_decide(&ev, claim->judge_all);
        else if (claim->judge != NULL || claim->quantity != NULL)
            f->verdict = judge_each(&ev);
        else
            ms_note(&ev, "training runs do not test a proof");
        f->result_text  = ev.text;
        f->result       = ms_evidence_text(&ev);
        f->measure_text = measure_text(claim);
        f->measure      = f->measure_text;
        whole           = whole && !ev.out_of_memory && f->measure_text != NULL;
    }
    if (whole) return MUSEC_OK;
    ms_verdict_free(out, ms_n_claims);
    return ms_no_memory(e, "the claims");
}

void ms_verdict_free(ms_finding *findings, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(findings[i].result_text);
        free(findings[i].measure_text);
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
                 { MS_NOT_DECIDED, "not decided", "not decided" },
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
    static const char *const words[] = { "not tested here", "holds", "does not hold",
                                         "not decided by these runs" };
    return words[v];
}

void ms_verdict_table(const ms_finding *findings, size_t n, ms_table *table)
{
    static const char *const columns[] = { "section", "claim", "measurement", "result", "verdict" };
    table->align                       = "llllb";
    ms_table_names(table, columns);
    for (size_t i = 0; i < n; i++) {
        ms_table_add(table, "%s", findings[i].where);
        ms_table_add(table, "%s", findings[i].claim);
        ms_table_add(table, "%s", findings[i].measure);
        ms_table_add(table, "%s", findings[i].result);
        ms_table_add(table, "%s", ms_verdict_word(findings[i].verdict));
    }
}
