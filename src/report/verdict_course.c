/* verdict_course.c - judges of what happens in the course of a run: the change of stage, weights,
 * updates, time.  Figures of a setting are means over its seeds. */
#include <math.h>
#include <string.h>

#include "report/verdict_parts.h"

#define DYNAMICS_LR 0.2 /* of the paper's Figs. 2 and 3 */
#define RANK_LR     0.5 /* of Fig. 9 */

static const char *const group_names[MS_RUN_GROUPS] = { "QK", "VO", "MLP" };

/* ---- the change of stage --------------------------------------------------------------------- */

typedef struct change {
    double before; /* the last validation loss before it */
    double rise;   /* highest in the tenth of the run after it, above that, as a share */
    double steps;  /* until it is below that again; infinite: never */
} change;

static bool is_validated(const ms_run_line *line)
{
    return line->has_val && !isnan(line->val_loss);
}

/* False: there is no change, or no validation on either side of it. */
static bool change_of_run(const ms_run *run, change *out)
{
    const int64_t at = ms_run_stage_change(run), until = at + run->steps / 10;
    double        top = -INFINITY;

    *out = (change){ NAN, NAN, INFINITY };
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

/* The mean over seeds.  False, with words why, where a run that did not diverge shows no change;
 * one that diverged before it never recovers. */
static bool change_of(const ms_compare *c, size_t problem, int m, ms_words *w, change *out)
{
    const ms_setting *s = ms_at_rate(c, problem, ms_compared[m], DYNAMICS_LR);

    *out = (change){ 0.0, 0.0, 0.0 };
    if (s == NULL) {
        ms_say_missing(w, ms_compared[m], DYNAMICS_LR);
        return false;
    }
    for (size_t i = 0; i < s->n; i++) {
        change one;
        if (!change_of_run(s->runs[i], &one) && s->runs[i]->status != MS_RUN_DIVERGED) {
            w->used = 0;
            ms_say(w, "the runs of %s at lr %g show no change of stage between validations",
                   ms_compared_title(m), DYNAMICS_LR);
            return false;
        }
        out->before += one.before / (double)s->n;
        out->rise += one.rise / (double)s->n;
        out->steps += one.steps / (double)s->n;
    }
    return true;
}

/* Those of the compared methods that were run at this rate; Soft Musec and `needed` must be. */
static bool has_runs(const ms_compare *c, size_t problem, double lr, int needed, ms_words *w,
                     bool has[MS_COMPARED])
{
    for (int m = 0; m < MS_COMPARED; m++) {
        has[m] = ms_at_rate(c, problem, ms_compared[m], lr) != NULL;
        if (has[m] || (m != MS_SOFT && m != needed)) continue;
        ms_say_missing(w, ms_compared[m], lr);
        return false;
    }
    return true;
}

ms_verdict ms_judge_spike(const ms_compare *c, size_t problem, ms_words *w)
{
    const double spike = 0.01;
    change       changes[MS_COMPARED];
    bool         has[MS_COMPARED], held = true;

    if (!has_runs(c, problem, DYNAMICS_LR, MS_MUON, w, has)) return MS_NOT_TESTED;
    for (int m = 0; m < MS_COMPARED; m++)
        if (has[m] && !change_of(c, problem, m, w, &changes[m])) return MS_NOT_TESTED;
    for (int m = 0; m < MS_COMPARED; m++) {
        if (!has[m]) continue;
        if (isnan(changes[m].rise)) {
            ms_say_item(w, "%s diverged before it", ms_compared_title(m));
            continue;
        }
        ms_say_item(w, "%s ", ms_compared_title(m));
        ms_say_share(w, changes[m].rise);
        held = held && changes[m].rise > spike;
    }
    return isnan(changes[MS_SOFT].rise) || isnan(changes[MS_MUON].rise) ? MS_NOT_TESTED
                                                                        : ms_held(held);
}

ms_verdict ms_judge_recovery(const ms_compare *c, size_t problem, ms_words *w)
{
    change changes[MS_COMPARED];
    double last[MS_COMPARED];
    bool   has[MS_COMPARED], held = true;

    if (!has_runs(c, problem, DYNAMICS_LR, MS_MUON, w, has)) return MS_NOT_TESTED;
    for (int m = 0; m < MS_COMPARED; m++)
        if (has[m] && !change_of(c, problem, m, w, &changes[m])) return MS_NOT_TESTED;
    for (int m = 0; m < MS_COMPARED; m++) {
        if (!has[m]) continue;
        last[m] = ms_loss_of(w, ms_at_rate(c, problem, ms_compared[m], DYNAMICS_LR));
        ms_say_loss(w, ms_compared_title(m), last[m]);
        if (changes[m].steps == 0.0)
            ms_say(w, " (no rise)");
        else if (isfinite(changes[m].steps))
            ms_say(w, " (%.0f steps)", changes[m].steps);
        else
            ms_say(w, " (never)");
    }
    for (int m = MS_SOFT; m <= MS_SPECTRA; m++)
        held = held && (!has[m] || (isfinite(changes[m].steps) && isfinite(last[m]) &&
                                    changes[MS_MUON].steps > 2.0 * changes[m].steps &&
                                    ms_above(last[MS_MUON], last[m]) > MS_COMPARABLE));
    return ms_held(held);
}

ms_verdict ms_judge_muonclip_better(const ms_compare *c, size_t problem, ms_words *w)
{
    const ms_setting *muon = ms_at_rate(c, problem, ms_compared[MS_MUON], DYNAMICS_LR);
    const ms_setting *clip = ms_at_rate(c, problem, ms_compared[MS_MUONCLIP], DYNAMICS_LR);

    if (muon == NULL) return ms_say_missing(w, ms_compared[MS_MUON], DYNAMICS_LR);
    if (clip == NULL) return ms_say_missing(w, ms_compared[MS_MUONCLIP], DYNAMICS_LR);
    const double a = ms_loss_of(w, muon), b = ms_loss_of(w, clip);
    ms_say_loss(w, ms_compared_title(MS_MUON), a);
    ms_say_loss(w, ms_compared_title(MS_MUONCLIP), b);
    return ms_held(isfinite(b) && a - b > fmax(ms_spread_of(muon), ms_spread_of(clip)));
}

/* The root mean square of second differences where three validations stand at equal distances; the
 * first two after the change, which are the jump's, do not count.  NaN: fewer than three such. */
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

/* The mean over the seeds that did not diverge. */
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

/* Second differences grow with the distance between validations. */
static bool same_spacing(const ms_compare *c, size_t problem)
{
    const ms_setting *soft = ms_at_rate(c, problem, ms_compared[MS_SOFT], DYNAMICS_LR);
    const ms_setting *clip = ms_at_rate(c, problem, ms_compared[MS_MUONCLIP], DYNAMICS_LR);
    return strcmp(ms_run_text(soft->runs[0], "val_every"),
                  ms_run_text(clip->runs[0], "val_every")) == 0;
}

ms_verdict ms_judge_oscillation(const ms_compare *c, size_t problem, ms_words *w)
{
    double rms[MS_COMPARED];
    bool   has[MS_COMPARED];

    if (!has_runs(c, problem, DYNAMICS_LR, MS_MUONCLIP, w, has)) return MS_NOT_TESTED;
    for (int m = 0; m < MS_COMPARED; m++) {
        const ms_setting *s = ms_at_rate(c, problem, ms_compared[m], DYNAMICS_LR);
        if (!has[m]) continue;
        rms[m] = s->n == s->diverged ? INFINITY : oscillation_of(s);
        if (isfinite(rms[m])) ms_say_item(w, "%s %.2g", ms_compared_title(m), rms[m]);
        if (isinf(rms[m])) ms_say_item(w, "%s diverged", ms_compared_title(m));
    }
    if (!same_spacing(c, problem)) {
        w->used = 0;
        ms_say(w, "the runs at lr %g validate at different distances", DYNAMICS_LR);
        return MS_NOT_TESTED;
    }
    if (isnan(rms[MS_SOFT]) || isnan(rms[MS_MUONCLIP])) {
        w->used = 0;
        ms_say(w, "the runs at lr %g have too few validations after the change of stage",
               DYNAMICS_LR);
        return MS_NOT_TESTED;
    }
    return ms_held(isfinite(rms[MS_SOFT]) && rms[MS_MUONCLIP] > 2.0 * rms[MS_SOFT]);
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

/* The smaller side of a group's matrices. */
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

/* Means over the seeds of a method's best setting at this rate, said as "Muon QK 31, VO 28, MLP
 * 44". False, with other words, where there are none. */
static bool groups_of(const ms_compare *c, size_t problem, int m, double lr, measure *of,
                      ms_words *w, double out[MS_RUN_GROUPS])
{
    const ms_setting *s = ms_at_rate(c, problem, ms_compared[m], lr);
    if (s == NULL) {
        w->used = 0;
        ms_say_missing(w, ms_compared[m], lr);
        return false;
    }
    for (int g = 0; g < MS_RUN_GROUPS; g++) {
        size_t n = 0;
        out[g]   = 0.0;
        for (size_t i = 0; i < s->n; i++) {
            const double x = of(s->runs[i], g);
            if (isnan(x)) continue; /* one that diverged before it was measured */
            out[g] += x;
            n++;
        }
        if (n == 0) {
            w->used = 0;
            ms_say(w, "the runs of %s at lr %g do not measure the groups", ms_compared_title(m),
                   lr);
            return false;
        }
        out[g] /= (double)n;
        if (g == 0)
            ms_say_item(w, "%s %s %.3g", ms_compared_title(m), group_names[g], out[g]);
        else
            ms_say(w, " %s %.3g", group_names[g], out[g]);
    }
    return true;
}

ms_verdict ms_judge_norm_muon(const ms_compare *c, size_t problem, ms_words *w)
{
    double muon[MS_RUN_GROUPS], soft[MS_RUN_GROUPS];
    bool   held = true;

    if (!groups_of(c, problem, MS_MUON, DYNAMICS_LR, largest_norm, w, muon) ||
        !groups_of(c, problem, MS_SOFT, DYNAMICS_LR, largest_norm, w, soft))
        return MS_NOT_TESTED;
    for (int g = 0; g < MS_RUN_GROUPS; g++)
        held = held && muon[g] > 10.0 && muon[g] > 5.0 * soft[g];
    return ms_held(held);
}

ms_verdict ms_judge_norm_clipping(const ms_compare *c, size_t problem, ms_words *w)
{
    double norms[MS_RUN_GROUPS];
    bool   has[MS_COMPARED], held = true;

    if (!has_runs(c, problem, DYNAMICS_LR, MS_SOFT, w, has)) return MS_NOT_TESTED;
    for (int m = MS_SOFT; m <= MS_SPECTRA; m++) {
        if (!has[m]) continue;
        if (!groups_of(c, problem, m, DYNAMICS_LR, largest_norm, w, norms)) return MS_NOT_TESTED;
        for (int g = 0; g < MS_RUN_GROUPS; g++)
            held = held && norms[g] < 10.0;
    }
    return ms_held(held);
}

ms_verdict ms_judge_norm_qk(const ms_compare *c, size_t problem, ms_words *w)
{
    const double reduced = 0.8;
    double       muon[MS_RUN_GROUPS], clip[MS_RUN_GROUPS];

    if (!groups_of(c, problem, MS_MUON, DYNAMICS_LR, largest_norm, w, muon) ||
        !groups_of(c, problem, MS_MUONCLIP, DYNAMICS_LR, largest_norm, w, clip))
        return MS_NOT_TESTED;
    return ms_held(clip[MS_RUN_QK] <= reduced * muon[MS_RUN_QK] &&
                   clip[MS_RUN_VO] > reduced * muon[MS_RUN_VO] &&
                   clip[MS_RUN_MLP] > reduced * muon[MS_RUN_MLP]);
}

ms_verdict ms_judge_rank_muon(const ms_compare *c, size_t problem, ms_words *w)
{
    double rank[MS_RUN_GROUPS];
    bool   held = true;

    if (!groups_of(c, problem, MS_MUON, RANK_LR, rank_all, w, rank)) return MS_NOT_TESTED;
    for (int g = 0; g < MS_RUN_GROUPS; g++)
        held = held && rank[g] >= 0.9;
    return ms_held(held);
}

ms_verdict ms_judge_rank_muonclip(const ms_compare *c, size_t problem, ms_words *w)
{
    double muon[MS_RUN_GROUPS], clip[MS_RUN_GROUPS];
    bool   held = true;

    if (!groups_of(c, problem, MS_MUON, RANK_LR, rank_all, w, muon) ||
        !groups_of(c, problem, MS_MUONCLIP, RANK_LR, rank_all, w, clip))
        return MS_NOT_TESTED;
    for (int g = 0; g < MS_RUN_GROUPS; g++)
        held = held && clip[g] >= 0.95 * muon[g];
    return ms_held(held);
}

ms_verdict ms_judge_rank_clipping(const ms_compare *c, size_t problem, ms_words *w)
{
    double muon[MS_RUN_GROUPS], rank[MS_RUN_GROUPS];
    bool   has[MS_COMPARED], held = true;

    if (!has_runs(c, problem, RANK_LR, MS_MUON, w, has) ||
        !groups_of(c, problem, MS_MUON, RANK_LR, rank_all, w, muon))
        return MS_NOT_TESTED;
    for (int m = MS_SOFT; m <= MS_SPECTRA; m++) {
        if (!has[m]) continue;
        if (!groups_of(c, problem, m, RANK_LR, rank_all, w, rank)) return MS_NOT_TESTED;
        for (int g = 0; g < MS_RUN_GROUPS; g++)
            held = held && rank[g] <= 0.8 * muon[g];
    }
    return ms_held(held);
}

ms_verdict ms_judge_rank_late(const ms_compare *c, size_t problem, ms_words *w)
{
    double soft[MS_RUN_GROUPS], spectra[MS_RUN_GROUPS];
    bool   held = true;

    if (!groups_of(c, problem, MS_SOFT, RANK_LR, rank_late, w, soft) ||
        !groups_of(c, problem, MS_SPECTRA, RANK_LR, rank_late, w, spectra))
        return MS_NOT_TESTED;
    for (int g = 0; g < MS_RUN_GROUPS; g++)
        held = held && soft[g] < spectra[g];
    return ms_held(held);
}

/* ---- time ------------------------------------------------------------------------------------ */

static bool say_times(const ms_compare *c, size_t problem, int needed, ms_words *w,
                      double times[MS_COMPARED])
{
    for (int m = 0; m < MS_COMPARED; m++) {
        times[m] = ms_compare_time(c, problem, ms_compare_plain(c, ms_compared[m])).step;
        if (!isnan(times[m])) ms_say_item(w, "%s %.4g ms", ms_compared_title(m), times[m]);
        if (!isnan(times[m]) || (m != MS_SOFT && m != needed)) continue;
        w->used = 0;
        ms_say(w, "there are no step times of %s", ms_compared_title(m));
        return false;
    }
    return true;
}

ms_verdict ms_judge_time(const ms_compare *c, size_t problem, ms_words *w)
{
    double times[MS_COMPARED], least = INFINITY, most = 0.0;

    if (!say_times(c, problem, MS_MUON, w, times)) return MS_NOT_TESTED;
    for (int m = 0; m < MS_COMPARED; m++) {
        if (times[m] < least) least = times[m];
        if (times[m] > most) most = times[m];
    }
    return ms_held(ms_above(most, least) <= 0.06);
}

ms_verdict ms_judge_slowest(const ms_compare *c, size_t problem, ms_words *w)
{
    double times[MS_COMPARED];
    bool   held = true;

    if (!say_times(c, problem, MS_MUONCLIP, w, times)) return MS_NOT_TESTED;
    for (int m = 0; m < MS_MUONCLIP; m++)
        held = held && !(times[m] >= times[MS_MUONCLIP]);
    return ms_held(held);
}
