/* claims.h - how the paper's claims are judged; private to verdict.c and claims*.c.
 *
 * A claim is a row of data (claims.c).  Most rows name a quantity, which measures one number of
 * each method, and conditions that those numbers must fulfil; the others name a judge.  Bounds
 * stand in the row: the judgement and the sentence that explains it use the same numbers. */
#ifndef MS_REPORT_CLAIMS_H
#define MS_REPORT_CLAIMS_H

#include "report/seeds.h"
#include "report/verdict.h"

/* The methods that the paper compares. */
enum { MS_SOFT, MS_SPECTRA, MS_MUON, MS_MUONCLIP, MS_COMPARED };
extern const char *const ms_compared[MS_COMPARED];
const char              *ms_compared_title(int method);

typedef struct ms_claim ms_claim;

enum { MS_MARGINS = 512 };

typedef struct ms_margin { /* of a condition */
    bool   fulfilled;
    double by; /* the share by which the bound is kept, or missed if below 0; may be infinite */
} ms_margin;

/* What is measured of one problem for one claim, and the text that reports it. */
typedef struct ms_evidence {
    const ms_compare *c;
    size_t            problem;
    const ms_claim   *claim;
    char             *text; /* owned; NULL: nothing was noted, or there was no memory */
    size_t            used, capacity;
    bool              out_of_memory; /* something could not be measured or noted */
    double spread; /* largest spread between the seeds of a setting; NaN: one seed each */
    /* claims_decide.c */
    bool      one_seed; /* losses are those of `seed` alone */
    int64_t   seed;
    bool      has_seeds;
    int64_t   seeds[MS_SEEDS]; /* that all settings have whose loss was read */
    size_t    n_seeds;
    ms_margin margins[MS_MARGINS];
    size_t    n_margins;
} ms_evidence;

/* A number for each method, or for each group of matrices of each method. */
typedef struct ms_measured {
    bool   has[MS_COMPARED];
    double of[MS_COMPARED][MS_RUN_GROUPS];
} ms_measured;

/* Sets the number of a method that is not measured by group. */
void ms_measured_set(ms_measured *out, int method, double value);

/* Measures and notes the numbers; false, with a note why, if the runs do not allow it. */
typedef bool       ms_quantity(ms_evidence *ev, ms_measured *out);
typedef ms_verdict ms_judge(ms_evidence *ev);

typedef enum ms_relation { MS_LESS, MS_AT_MOST, MS_AT_LEAST, MS_MORE, MS_WITHIN } ms_relation;
enum { MS_ABSOLUTE = -1, MS_LEAST = -2, MS_LEAST_OTHER = -3 };
enum { MS_BOUNDS = 3, MS_CONDITIONS = 4 };

/* Compares the number of each of the methods with a bound, or with a bound times the number of a
 * reference: a method, the least of all, the least of the others.  MS_WITHIN compares the share by
 * which it is above the reference.  Methods that were not run fulfil the condition. */
typedef struct ms_condition {
    unsigned    methods; /* a bit for each */
    ms_relation relation;
    int         bound; /* of the claim, counted from 1 */
    int         reference;
    unsigned    groups; /* a bit for each; 0: all */
} ms_condition;

struct ms_claim {
    const char  *id, *where, *claim;
    const char  *measure; /* {1} is the first bound, {1%} the same in percent, {lr} the rate */
    double       bound[MS_BOUNDS], lr;
    bool         at_largest; /* ms_measure_losses: at the largest rate, not the smallest */
    bool         own_best;   /* ms_measure_above: above the method's own best */
    bool         by_group;   /* the quantity is measured by group */
    ms_quantity *quantity;
    ms_condition holds[MS_CONDITIONS]; /* all must hold; one without methods ends the list */
    /* In place of quantity and conditions, a judge of one problem, or of all problems at once. */
    ms_judge *judge, *judge_all;
};

extern const ms_claim ms_claims[];
extern const size_t   ms_n_claims;

ms_verdict ms_held(bool held);
/* Two conditions of one claim together. */
ms_verdict ms_verdict_and(ms_verdict a, ms_verdict b);
/* States a condition: whether it is fulfilled, and its margin. */
void ms_require(ms_evidence *ev, bool fulfilled, double margin);
/* The verdict of a judge that has stated conditions, over the seeds; else what it returns. */
ms_verdict ms_decide(ms_evidence *ev, ms_judge *judge);
/* Evaluates the claim of the evidence on its problem. */
ms_verdict      ms_claim_judge(ms_evidence *ev);
const ms_claim *ms_claim_find(const char *id);

/* ---- notes ----------------------------------------------------------------------------------- */

void ms_note(ms_evidence *ev, const char *fmt, ...) MS_PRINTF(2, 3);
void ms_note_item(ms_evidence *ev, const char *fmt, ...) MS_PRINTF(2, 3); /* after a comma */
void ms_note_loss(ms_evidence *ev, const char *label, double loss);       /* "Muon 3.412" */
void ms_note_share(ms_evidence *ev, double share);                        /* "+1.2%" */
/* Replaces the notes by the reason why the claim is not tested. */
ms_verdict ms_not_tested(ms_evidence *ev, const char *fmt, ...) MS_PRINTF(2, 3);
/* Notes "there is no run of Muon at lr 0.2", without the rate if lr is NaN. */
ms_verdict  ms_no_run(ms_evidence *ev, const char *optimizer, double lr);
const char *ms_evidence_text(const ms_evidence *ev);
/* The name of a problem: its data set, or its label where several problems have that set. */
const char *ms_problem_name(const ms_compare *c, size_t problem);

/* ---- losses ---------------------------------------------------------------------------------- */

/* The best setting at a rate (NaN: at any).  NULL: there is none, or no run of the method on that
 * problem has learned anything. */
const ms_setting *ms_at_rate(const ms_compare *c, size_t problem, const char *optimizer, double lr);
const ms_setting *ms_method_at(const ms_evidence *ev, int method, double lr);
/* A setting's mean loss; infinite if a seed diverged, NaN without a setting. */
double ms_mean_loss(const ms_setting *s);
/* The same, or the loss of the one seed that is asked for. */
double ms_loss_at(const ms_evidence *ev, const ms_setting *s);
double ms_loss_of(ms_evidence *ev, const ms_setting *s); /* and notes the seeds */
/* Is a's loss lower than b's by more than this share: by the interval of their paired difference,
 * or with fewer than two common seeds by the means and by more than the seeds' spread? */
bool ms_is_lower(const ms_setting *a, const ms_setting *b, double share);
/* Is this optimum of a method at the edge of what was run, where more could be better?  Says so. */
bool   ms_at_edge(ms_evidence *ev, const ms_setting *best);
double ms_spread_of(const ms_setting *s); /* largest minus smallest loss of its seeds; 0 with one */
/* Returns the share by which a is above b; it is infinite where a is. */
double ms_above(double a, double b);

/* ---- quantities and judges ------------------------------------------------------------------- */

/* claims_rates.c */
ms_quantity ms_measure_range, ms_measure_tuned, ms_measure_losses, ms_measure_above,
    ms_measure_worst;
ms_judge ms_judge_spectra, ms_judge_large, ms_judge_adam, ms_judge_spectra_better, ms_judge_sets,
    ms_judge_sizes;
/* claims_training.c */
ms_quantity ms_measure_jump, ms_measure_oscillation, ms_measure_norm, ms_measure_rank,
    ms_measure_late_rank, ms_measure_time;
ms_judge ms_judge_recovery, ms_judge_muonclip_better;
/* claims_options.c */
ms_quantity ms_measure_threshold_one;
ms_judge    ms_judge_threshold, ms_judge_threshold_large, ms_judge_iterations,
    ms_judge_more_iterations, ms_judge_effective_step, ms_judge_clip_active, ms_judge_operator;

#endif
