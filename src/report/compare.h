/* compare.h - which runs may be compared, and as what.
 *
 * A problem is all that runs must share to stand in one panel: model, data, schedule, everything
 * but the optimizer, its options and the seed.  A method is an optimizer with those of its options
 * that are not tuned and that differ between the runs at hand ("Soft Musec, exact", "Muon,
 * nesterov yes").  A setting is one method on one problem at one learning rate, threshold and
 * weight decay: its runs differ in the seed alone.  As in the paper, a method's loss at a learning
 * rate is that of its best threshold and weight decay there. */
#ifndef MS_REPORT_COMPARE_H
#define MS_REPORT_COMPARE_H

#include "report/figure.h"
#include "report/runset.h"

typedef struct ms_problem {
    char         *label; /* "pico, fineweb": preset, data, and what else tells it from the others */
    char         *set;   /* of the data: the last part of its path, "builtin" */
    const char   *preset;
    const ms_run *first; /* one of its runs, for what they share */
} ms_problem;

typedef struct ms_method {
    char       *label;
    const char *optimizer;
    bool        variant; /* the label says more than the optimizer */
    bool        clips;   /* at a threshold: musec, soft-musec, spectra */
    ms_style    style;   /* the optimizer's; variants are dashed */
} ms_method;

typedef struct ms_setting {
    size_t         problem, method;
    double         lr, threshold;          /* NaN: the method does not clip, or by a rule */
    const char    *threshold_text, *decay; /* as in the config; "" where the method does not clip */
    const ms_run **runs;                   /* finished ones, by seed */
    size_t         n, diverged, stalled;
    double loss, low, high; /* mean, least, largest of the last validation losses of those that
                                       did not diverge, stalled ones too; NaN if all did */
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

/* Problems of one preset and data that differ in another field are told in a note of the set, with
 * the field and both values: they are drawn apart.  Runs of one problem that differ in their
 * precision, as `auto` may have it, are told too. */
musec_status ms_compare_build(ms_error *e, ms_runset *set, ms_compare *out);
void         ms_compare_free(ms_compare *c);

/* The best setting there: fewest stalled or diverged, then least mean loss.  NULL: no run. */
const ms_setting *ms_compare_best(const ms_compare *c, size_t problem, size_t method, double lr);
/* Returns the best setting over all learning rates. */
const ms_setting *ms_compare_tuned(const ms_compare *c, size_t problem, size_t method);
/* The one with just these; lr or threshold NaN, decay NULL: whichever, the best of them. */
const ms_setting *ms_compare_find(const ms_compare *c, size_t problem, size_t method, double lr,
                                  double threshold, const char *decay);
/* The method that is this optimizer with nothing else said; where something is said of each, the
 * one with the most runs; n_methods if there is none. */
size_t ms_compare_plain(const ms_compare *c, const char *optimizer);
/* A smaller share of a's runs stalled or diverged than of b's, or the same and its loss is lower; b
 * may be NULL. */
bool ms_setting_better(const ms_setting *a, const ms_setting *b);
/* Has every run of it stalled or diverged?  Such a one is nobody's best. */
bool ms_setting_failed(const ms_setting *s);
bool ms_clips(const char *optimizer); /* at a threshold */
/* The learning rate at which Muon's largest step is that of this setting of a clipping method: lr
 * D, or lr where update-scale unit divides the step by D.  NaN: the threshold is a rule. */
double ms_setting_muon_rate(const ms_setting *s);

typedef struct ms_step_time { /* in ms; NaN: no run has times */
    double step, optim;       /* medians of a run: of its steps, and of the optimizer's part */
    size_t runs;              /* that have times */
} ms_step_time;
/* Of the method's quickest run: what else goes on in a machine only adds to a time.  Runs on
 * another kind of device than most of the problem's do not count. */
ms_step_time ms_compare_time(const ms_compare *c, size_t problem, size_t method);
bool         ms_same_number(double a, double b); /* to 1e-9 of the larger */

#endif
