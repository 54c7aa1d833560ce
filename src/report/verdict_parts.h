/* verdict_parts.h - what the judges of the paper's claims share.
 *
 * A judge looks at one problem, writes the figures that it decides by, and decides.  The bounds are
 * the same for every method and every claim, and stand in the measure's words: see below. */
#ifndef MS_REPORT_VERDICT_PARTS_H
#define MS_REPORT_VERDICT_PARTS_H

#include "report/verdict.h"

/* Of a loss, as shares of the lower one. */
#define MS_COMPARABLE 0.02  /* two losses are comparable */
#define MS_DEGRADED   0.05  /* above a method's own best: it has degraded */
#define MS_FAILED     0.20  /* above the best of all: it has not converged */
#define MS_SLIGHTLY   0.001 /* the least that counts as better at all */

typedef struct ms_words { /* a text that grows; to begin again, `used` is set to 0 */
    char  *text;          /* NULL: nothing was said, or there was no memory */
    size_t room, used;
    double
        spread; /* the largest between seeds of the settings that were asked for; NaN: one seed */
} ms_words;

#define MS_WORDS        \
    {                   \
        NULL, 0, 0, NAN \
    } /* none yet */
/* What was said, or that there was no memory for it. */
const char *ms_words_text(const ms_words *w);

void ms_say(ms_words *w, const char *fmt, ...) MS_PRINTF(2, 3);
void ms_say_item(ms_words *w, const char *fmt, ...) MS_PRINTF(2, 3); /* behind a comma */
/* "Muon 3.412", "Muon diverged" */
void ms_say_loss(ms_words *w, const char *label, double loss);
/* "+1.2%", "diverged" */
void ms_say_share(ms_words *w, double share);
/* "there is no run of Muon at lr 0.2"; lr NaN: at any. */
ms_verdict ms_say_missing(ms_words *w, const char *optimizer, double lr);
ms_verdict ms_held(bool held);

/* The methods that the paper compares. */
enum { MS_SOFT, MS_SPECTRA, MS_MUON, MS_MUONCLIP, MS_COMPARED };
extern const char *const ms_compared[MS_COMPARED];
const char              *ms_compared_title(int compared);

/* The best setting there, NULL if there is none, or no run of the method on that problem has
 * learned anything; lr NaN: over all. */
const ms_setting *ms_at_rate(const ms_compare *c, size_t problem, const char *optimizer, double lr);
/* Its mean loss; infinite if a seed diverged, NaN without a setting. */
double ms_mean_loss(const ms_setting *s);
/* The same; the seeds' spread is kept. */
double ms_loss_of(ms_words *w, const ms_setting *s);
/* Largest less least loss of its seeds; 0 with one. */
double ms_spread_of(const ms_setting *s);
/* a above b, as a share of b; infinite where a is. */
double ms_above(double a, double b);

/* A problem's sweep: those of the compared methods that were run at two learning rates or more, and
 * the rates at which all of them were.  A rate of 0, which trains nothing, is none of them, nor is
 * one at which all of them stalled. */
enum { MS_SWEEP_RATES = 64 };
typedef struct ms_sweep {
    bool              has[MS_COMPARED];
    double            rates[MS_SWEEP_RATES]; /* ascending */
    size_t            n;
    const ms_setting *at[MS_COMPARED][MS_SWEEP_RATES];
    double loss[MS_COMPARED][MS_SWEEP_RATES]; /* as of ms_mean_loss(): a judge keeps the spread */
    double best[MS_COMPARED];                 /* least of its losses at these rates */
    const ms_setting *best_at[MS_COMPARED];   /* where; NULL: all diverged */
    double            best_of_all;            /* of all compared methods, at all their rates */
    const ms_setting *best_of_all_at;
} ms_sweep;
/* False, with words why, where Soft Musec and Muon have not two rates in common. */
bool ms_sweep_make(const ms_compare *c, size_t problem, ms_words *w, ms_sweep *out);

typedef ms_verdict ms_judge(const ms_compare *c, size_t problem, ms_words *w);
/* Over all problems: their figures, one behind the other; holds where it holds on each. */
ms_verdict ms_judge_each(const ms_compare *c, ms_judge *judge, ms_words *w);
/* What a problem is called in a result: its set, or its label where sets are not enough. */
const char *ms_problem_name(const ms_compare *c, size_t problem);

/* verdict_rates.c */
ms_judge ms_judge_range, ms_judge_tuned, ms_judge_small, ms_judge_degrade, ms_judge_largest,
    ms_judge_stable, ms_judge_spectra, ms_judge_large, ms_judge_near_best, ms_judge_adam;
ms_verdict ms_judge_spectra_better(const ms_compare *c, ms_words *w);
ms_verdict ms_judge_sets(const ms_compare *c, ms_words *w);
ms_verdict ms_judge_sizes(const ms_compare *c, ms_words *w);
/* verdict_course.c */
ms_judge ms_judge_spike, ms_judge_recovery, ms_judge_muonclip_better, ms_judge_oscillation,
    ms_judge_norm_muon, ms_judge_norm_clipping, ms_judge_norm_qk, ms_judge_rank_muon,
    ms_judge_rank_muonclip, ms_judge_rank_clipping, ms_judge_rank_late, ms_judge_time,
    ms_judge_slowest;
/* verdict_options.c */
ms_judge ms_judge_threshold, ms_judge_threshold_large, ms_judge_threshold_one, ms_judge_iterations,
    ms_judge_more_iterations, ms_judge_effective_step, ms_judge_clip_active, ms_judge_operator;

#endif
