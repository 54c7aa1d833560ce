/* compare.h - groups runs that may be compared into problems, methods and settings.
 *
 * A problem is everything that the runs of one panel share: model, data, schedule, all but the
 * optimizer, its options and the seed.  A method is an optimizer with those of its options that are
 * not tuned and differ between the runs ("Soft Musec, exact", "Muon, nesterov yes").  A setting is
 * one method on one problem at one learning rate, threshold and weight decay: its runs differ only
 * in the seed.  As in the paper, a method's loss at a learning rate is that of its best threshold
 * and weight decay at that rate. */
#ifndef MS_REPORT_COMPARE_H
#define MS_REPORT_COMPARE_H

#include "report/figure.h"
#include "report/runset.h"

typedef struct ms_problem {
    char         *label; /* "pico, fineweb": preset, data, and fields that differ from others */
    char         *set;   /* the data set: the last part of its path, "builtin" */
    const char   *preset;
    const ms_run *first; /* one of its runs, for the fields that they share */
} ms_problem;

typedef struct ms_method {
    char       *label;
    const char *optimizer;
    bool        variant; /* the label is longer than the optimizer's name */
    bool        clips;   /* at a threshold: musec, soft-musec, spectra */
    ms_style    style;   /* of the optimizer; variants are dashed */
} ms_method;

typedef struct ms_setting {
    size_t         problem, method;
    double         lr, threshold;          /* NaN: the method does not clip, or uses a rule */
    const char    *threshold_text, *decay; /* as in the config; "" if the method does not clip */
    const ms_run **runs;                   /* finished ones, by seed */
    size_t         n, diverged, stalled;
    double loss, low, high; /* mean, minimum, maximum of the last validation losses of the runs that
                               did not diverge, with stalled ones; NaN if all diverged */
} ms_setting;

typedef struct ms_compare { /* { 0 } is empty */
    const ms_runset *set;
    ms_problem      *problems; /* in the order of preset, then label */
    size_t           n_problems;
    ms_method       *methods; /* in the order of the registry, variants after their optimizer */
    size_t           n_methods;
    ms_setting      *settings; /* by problem, method, lr, threshold, decay */
    size_t           n_settings;
    double          *rates; /* all learning rates, ascending */
    size_t           n_rates;
} ms_compare;

/* Adds notes to the set: on problems of one preset and data that differ in another field, with the
 * field and both values, as they are drawn apart; and on runs of one problem that differ in their
 * precision, as with `auto`; and on clips that have not converged. */
musec_status ms_compare_build(ms_error *e, ms_runset *set, ms_compare *out);
void         ms_compare_free(ms_compare *c);

/* The best setting at a rate: fewest stalled or diverged runs, then lowest mean loss.  NULL: no
 * run. */
const ms_setting *ms_compare_best(const ms_compare *c, size_t problem, size_t method, double lr);
/* The number of runs of a method on a problem. */
size_t ms_compare_count(const ms_compare *c, size_t problem, size_t method);
/* Returns the best over all learning rates, of those with at least half of the most seeds. */
const ms_setting *ms_compare_tuned(const ms_compare *c, size_t problem, size_t method);
/* The best setting with these values; lr or threshold NaN, decay NULL: any. */
const ms_setting *ms_compare_find(const ms_compare *c, size_t problem, size_t method, double lr,
                                  double threshold, const char *decay);
/* The method of this optimizer that is not a variant; if all are variants, the one with the most
 * runs; n_methods if there is none. */
size_t ms_compare_plain(const ms_compare *c, const char *optimizer);
/* Did a smaller share of a's runs fail than of b's (NULL: all), or the same with a lower loss? */
bool ms_setting_better(const ms_setting *a, const ms_setting *b);
/* Has every run of it stalled or diverged?  Then it cannot be a method's best. */
bool ms_setting_failed(const ms_setting *s);
bool ms_clips(const char *optimizer); /* at a threshold */
/* The learning rate at which Muon's largest step is that of this setting of a clipping method: lr
 * D, or lr where update-scale unit divides the step by D.  NaN: the threshold is a rule. */
double ms_setting_muon_rate(const ms_setting *s);

typedef struct ms_step_time { /* in ms; NaN: no run has times */
    double step, optim;       /* medians over a run: a step, and the optimizer's part of it */
    size_t runs;              /* number of runs with times */
} ms_step_time;
/* The times of the method's fastest run, as other load on a machine only adds to a time.  Only runs
 * on the kind of device that most runs of the problem used count.  False: there is no memory. */
bool ms_compare_time(const ms_compare *c, size_t problem, size_t method, ms_step_time *out);
bool ms_same_number(double a, double b); /* to 1e-9 of the larger */

#endif
