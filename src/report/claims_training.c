/* claims_training.c - claims on the course of training: the change of stage, weights, updates,
 * time. The numbers of a setting are means over its seeds. */
#include <math.h>
#include <string.h>

#include "report/claims.h"

static const char *const group_names[MS_RUN_GROUPS] = { "QK", "VO", "MLP" };

/* ---- the change of stage --------------------------------------------------------------------- */

typedef struct stage_jump {
    double before; /* the last validation loss before the change */
    double rise;   /* of the highest loss in the tenth of the run after the change, as a share */
    double steps;  /* until the loss is below `before` again; infinite: never */
} stage_jump;

static bool is_validated(const ms_run_line *line)
{
    return line->has_val && !isnan(line->val_loss);
}

/* False: there is no change, or no validation before or after it. */
static bool change_of_run(const ms_run *run, stage_jump *out)
{
    const int64_t at = ms_run_stage_change(run), until = at + run->steps / 10;
    double        top = -INFINITY;

    *out = (stage_jump){ NAN, NAN, INFINITY };
    if (at == 0) return false;
    for (size_t i = 0; i < run->n && run->lines[i].step <= until; i++) {
        const ms_run_line *line = &run->lines[i];
        if (!is_validated(line)) continue;
        if (line->step < at)
            out->before = line->val_loss;
        else if (line->val_loss > top)
            top = line->val_loss;
    }
    if (run->status == MS_RUN_DIVERGED && run->lines[run->n - 1].step <= until) top = INFINITY;
    if (isnan(out->before) || (isinf(top) && top < 0.0)) return false;
    out->rise = ms_above(top, out->before);
    if (!(out->rise > 0.0)) out->steps = 0.0;
    for (size_t i = 0, risen = 0; i < run->n && isinf(out->steps); i++) {
        const ms_run_line *line = &run->lines[i];
        if (line->step < at || !is_validated(line)) continue;
        if (line->val_loss > out->before)
            risen = 1;
        else if (risen)
            out->steps = (double)(line->step - at + 1);
    }
    return true;
}

/* The mean over seeds.  False, with a note why, if a run that did not diverge shows no change; a
 * run that diverged before the change counts as never recovered. */
static bool change_of(ms_evidence *ev, int m, stage_jump *out)
{
    const ms_setting *s = ms_method_at(ev, m, ev->claim->lr);

    *out = (stage_jump){ 0.0, 0.0, 0.0 };
    for (size_t i = 0; i < s->n; i++) {
        stage_jump one;
        if (!change_of_run(s->runs[i], &one) && s->runs[i]->status != MS_RUN_DIVERGED) {
            ms_not_tested(ev, "the runs of %s at lr %g show no change of stage between validations",
                          ms_compared_title(m), ev->claim->lr);
            return false;
        }
        out->before += one.before / (double)s->n;
        out->rise += one.rise / (double)s->n;
        out->steps += one.steps / (double)s->n;
    }
    return true;
}

/* Finds the compared methods that were run at the claim's rate.  False, with a note why, if Soft
 * Musec or `needed` was not. */
static bool has_runs(ms_evidence *ev, int needed, bool has[MS_COMPARED])
{
    for (int m = 0; m < MS_COMPARED; m++) {
        has[m] = ms_method_at(ev, m, ev->claim->lr) != NULL;
        if (has[m] || (m != MS_SOFT && m != needed)) continue;
        ms_no_run(ev, ms_compared[m], ev->claim->lr);
        return false;
    }
    return true;
}

static bool changes_of(ms_evidence *ev, bool has[MS_COMPARED], stage_jump out[MS_COMPARED])
{
    if (!has_runs(ev, MS_MUON, has)) return false;
    for (int m = 0; m < MS_COMPARED; m++)
        if (has[m] && !change_of(ev, m, &out[m])) return false;
    return true;
}

bool ms_measure_jump(ms_evidence *ev, ms_measured *out)
{
    stage_jump changes[MS_COMPARED];
    bool       has[MS_COMPARED];

    if (!changes_of(ev, has, changes)) return false;
    for (int m = 0; m < MS_COMPARED; m++) {
        if (!has[m]) continue;
        if (isnan(changes[m].rise)) {
            ms_note_item(ev, "%s diverged before it", ms_compared_title(m));
            continue;
        }
        ms_note_item(ev, "%s ", ms_compared_title(m));
        ms_note_share(ev, changes[m].rise);
        ms_measured_set(out, m, changes[m].rise);
    }
    return out->has[MS_SOFT] && out->has[MS_MUON];
}

ms_verdict ms_judge_recovery(ms_evidence *ev)
{
    const double longer = ev->claim->bound[0], above = ev->claim->bound[1];
    stage_jump   changes[MS_COMPARED];
    double       last[MS_COMPARED];
    bool         has[MS_COMPARED], held = true;

    if (!changes_of(ev, has, changes)) return MS_NOT_TESTED;
    for (int m = 0; m < MS_COMPARED; m++) {
        if (!has[m]) continue;
        last[m] = ms_loss_of(ev, ms_method_at(ev, m, ev->claim->lr));
        ms_note_loss(ev, ms_compared_title(m), last[m]);
        if (changes[m].steps == 0.0)
            ms_note(ev, " (no rise)");
        else if (isfinite(changes[m].steps))
            ms_note(ev, " (%.0f steps)", changes[m].steps);
        else
            ms_note(ev, " (never)");
    }
    for (int m = MS_SOFT; m <= MS_SPECTRA; m++)
        held = held && (!has[m] || (isfinite(changes[m].steps) && isfinite(last[m]) &&
                                    changes[MS_MUON].steps > longer * changes[m].steps &&
                                    ms_above(last[MS_MUON], last[m]) > above));
    return ms_held(held);
}

ms_verdict ms_judge_muonclip_better(ms_evidence *ev)
{
    const double      lr   = ev->claim->lr;
    const ms_setting *muon = ms_method_at(ev, MS_MUON, lr);
    const ms_setting *clip = ms_method_at(ev, MS_MUONCLIP, lr);

    if (muon == NULL) return ms_no_run(ev, ms_compared[MS_MUON], lr);
    if (clip == NULL) return ms_no_run(ev, ms_compared[MS_MUONCLIP], lr);
    const double a = ms_loss_of(ev, muon), b = ms_loss_of(ev, clip);
    ms_note_loss(ev, ms_compared_title(MS_MUON), a);
    ms_note_loss(ev, ms_compared_title(MS_MUONCLIP), b);
    ms_require(ev, ms_is_lower(clip, muon, 0.0), isfinite(b) ? ms_above(a, b) : -INFINITY);
    return MS_HOLDS;
}

/* The root mean square of the second differences of three validations at equal distances, without
 * the first two after the change, which belong to the jump.  NaN: there are fewer than three. */
static double oscillation_of_run(const ms_run *run)
{
    const int64_t      at      = ms_run_stage_change(run);
    const ms_run_line *last[2] = { NULL, NULL };
    double             squares = 0.0;
    size_t             n       = 0;
    int                skipped = 0;

    for (size_t i = 0; i < run->n; i++) {
        const ms_run_line *line = &run->lines[i];
        if (line->step < at || !is_validated(line)) continue;
        if (at > 0 && skipped < 2) {
            skipped++;
            continue;
        }
        if (last[0] != NULL && line->step - last[1]->step == last[1]->step - last[0]->step) {
            const double d = line->val_loss - 2.0 * last[1]->val_loss + last[0]->val_loss;
            squares += d * d;
            n++;
        }
        last[0] = last[1];
        last[1] = line;
    }
    return n >= 3 ? sqrt(squares / (double)n) : NAN;
}

/* Returns the mean over the seeds that did not diverge. */
static double oscillation_of(const ms_setting *s)
{
    double sum = 0.0;
    size_t n   = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (s->runs[i]->status == MS_RUN_DIVERGED) continue;
        sum += oscillation_of_run(s->runs[i]);
        n++;
    }
    return n > 0 ? sum / (double)n : NAN;
}

/* Second differences are comparable only at the same distance between validations. */
static bool same_spacing(const ms_evidence *ev)
{
    const ms_setting *soft = ms_method_at(ev, MS_SOFT, ev->claim->lr);
    const ms_setting *clip = ms_method_at(ev, MS_MUONCLIP, ev->claim->lr);
    return strcmp(ms_run_text(soft->runs[0], "val_every"),
                  ms_run_text(clip->runs[0], "val_every")) == 0;
}

bool ms_measure_oscillation(ms_evidence *ev, ms_measured *out)
{
    bool has[MS_COMPARED];

    if (!has_runs(ev, MS_MUONCLIP, has)) return false;
    if (!same_spacing(ev)) {
        ms_not_tested(ev, "the runs at lr %g validate at different distances", ev->claim->lr);
        return false;
    }
    for (int m = 0; m < MS_COMPARED; m++) {
        const ms_setting *s = ms_method_at(ev, m, ev->claim->lr);
        if (!has[m]) continue;
        const double rms = s->n == s->diverged ? INFINITY : oscillation_of(s);
        ms_measured_set(out, m, rms);
        if (isfinite(rms)) ms_note_item(ev, "%s %.2g", ms_compared_title(m), rms);
        if (isinf(rms)) ms_note_item(ev, "%s diverged", ms_compared_title(m));
    }
    if (!isnan(out->of[MS_SOFT][0]) && !isnan(out->of[MS_MUONCLIP][0])) return true;
    ms_not_tested(ev, "the runs at lr %g have too few validations after the change of stage",
                  ev->claim->lr);
    return false;
}

/* ---- groups of matrices ---------------------------------------------------------------------- */

typedef double measure(const ms_run *run, int group);

static double largest_norm(const ms_run *run, int group)
{
    double most = NAN;
    for (size_t i = 0; i < run->n; i++) {
        const double norm = run->lines[i].groups[group].w_norm;
        if (run->lines[i].has_groups && !isnan(norm) && !(most >= norm)) most = norm;
    }
    return most;
}

/* Returns the smaller side of a group's matrices. */
static double side_of(const ms_run *run, int group)
{
    const double width = ms_run_number(run, "width");
    const double other = group == MS_RUN_MLP
                             ? ms_run_number(run, "mlp")
                             : ms_run_number(run, "heads") * ms_run_number(run, "head");
    return width < other ? width : other;
}

static double mean_rank(const ms_run *run, int group, double from)
{
    double sum = 0.0;
    size_t n   = 0;
    for (size_t i = 0; i < run->n; i++) {
        const double rank = run->lines[i].groups[group].u_erank;
        if (!run->lines[i].has_groups || isnan(rank)) continue;
        if ((double)run->lines[i].step < from * (double)run->steps) continue;
        sum += rank;
        n++;
    }
    return n > 0 ? sum / (double)n / side_of(run, group) : NAN;
}

static double rank_all(const ms_run *run, int group) { return mean_rank(run, group, 0.0); }

static double rank_late(const ms_run *run, int group) { return mean_rank(run, group, 0.75); }

/* Is the method in one of the claim's conditions?  *optional: it may be missing, as a claim on
 * several methods needs only the first and the references. */
static bool is_needed(const ms_claim *claim, int method, bool *optional)
{
    bool found = false;
    *optional  = (claim->holds[0].methods & ((1u << method) - 1u)) != 0;
    for (const ms_condition *at = claim->holds; at->methods != 0; at++) {
        found = found || (at->methods & 1u << method) != 0 || at->reference == method;
        if (at->reference == method) *optional = false;
    }
    return found;
}

/* For each method of the claim, means over the seeds of its best setting at the claim's rate, noted
 * as "Muon QK 31 VO 28 MLP 44". */
static bool measure_groups(ms_evidence *ev, measure *of, ms_measured *out)
{
    for (int m = 0; m < MS_COMPARED; m++) {
        const ms_setting *s = ms_method_at(ev, m, ev->claim->lr);
        bool              optional;
        if (!is_needed(ev->claim, m, &optional) || (s == NULL && optional)) continue;
        if (s == NULL) {
            ms_no_run(ev, ms_compared[m], ev->claim->lr);
            return false;
        }
        ms_note_item(ev, "%s", ms_compared_title(m));
        for (int g = 0; g < MS_RUN_GROUPS; g++) {
            double sum = 0.0;
            size_t n   = 0;
            for (size_t i = 0; i < s->n; i++) {
                const double x = of(s->runs[i], g);
                if (isnan(x)) continue; /* it diverged before it was measured */
                sum += x;
                n++;
            }
            if (n == 0) {
                ms_not_tested(ev, "the runs of %s at lr %g do not measure the groups",
                              ms_compared_title(m), ev->claim->lr);
                return false;
            }
            out->of[m][g] = sum / (double)n;
            ms_note(ev, " %s %.3g", group_names[g], out->of[m][g]);
        }
        out->has[m] = true;
    }
    return true;
}

bool ms_measure_norm(ms_evidence *ev, ms_measured *out)
{
    return measure_groups(ev, largest_norm, out);
}

bool ms_measure_rank(ms_evidence *ev, ms_measured *out)
{
    return measure_groups(ev, rank_all, out);
}

bool ms_measure_late_rank(ms_evidence *ev, ms_measured *out)
{
    return measure_groups(ev, rank_late, out);
}

/* ---- time ------------------------------------------------------------------------------------ */

bool ms_measure_time(ms_evidence *ev, ms_measured *out)
{
    const int reference = ev->claim->holds[0].reference;
    const int needed    = reference >= 0 ? reference : MS_MUON;

    for (int m = 0; m < MS_COMPARED; m++) {
        const size_t method = ms_compare_plain(ev->c, ms_compared[m]);
        ms_step_time ms;
        if (!ms_compare_time(ev->c, ev->problem, method, &ms)) ev->out_of_memory = true;
        if (!isnan(ms.step)) {
            ms_measured_set(out, m, ms.step);
            ms_note_item(ev, "%s %.4g ms", ms_compared_title(m), ms.step);
        } else if (m == MS_SOFT || m == needed) {
            ms_not_tested(ev, "there are no step times of %s", ms_compared_title(m));
            return false;
        }
    }
    return true;
}
