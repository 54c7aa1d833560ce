/* section_ablations.c - one option of a clipping method varied, all others fixed: its threshold, or
 * its number of iterations.  The values that most runs have are fixed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/section_plots.h"

enum { MAX_VALUES = 32 };

typedef struct ablation_value { /* one curve */
    double x;                   /* D or K */
    size_t method;
} ablation_value;

typedef struct ablation {
    const ms_compare *c;
    size_t            problem, method; /* the first of the optimizer, the plain one if it exists */
    bool              iterations;      /* K is varied, otherwise D */
    ablation_value    values[MAX_VALUES];
    size_t            n;
    double            threshold; /* fixed, where K is varied */
    const char       *decay;     /* fixed */
} ablation;

static const ms_setting *find(const ablation *a, const ablation_value *v, double lr)
{
    return ms_compare_find(a->c, a->problem, v->method, lr, a->iterations ? a->threshold : v->x,
                           a->decay);
}

/* Counts the values that were run at this rate with the fixed options. */
static size_t count_at(const ablation *a, double lr)
{
    size_t n = 0;
    for (size_t i = 0; i < a->n; i++)
        n += find(a, &a->values[i], lr) != NULL;
    return n;
}

static bool two_at(const void *of, double lr) { return count_at(of, lr) >= 2; }

/* Counts the pairs of value and rate that can be compared. */
static size_t count_all(const ablation *a)
{
    size_t n = 0;
    for (size_t i = 0; i < a->c->n_rates; i++) {
        const size_t here = count_at(a, a->c->rates[i]);
        if (here >= 2) n += here;
    }
    return n;
}

static void add_value(ablation *a, double x, size_t method)
{
    size_t at = a->n;
    if (!isfinite(x) || a->n == MAX_VALUES) return;
    for (size_t i = 0; i < a->n; i++)
        if (ms_same_number(a->values[i].x, x))
            return; /* settings of the plainer method come first */
    for (; at > 0 && a->values[at - 1].x > x; at--)
        a->values[at] = a->values[at - 1];
    a->values[at] = (ablation_value){ x, method };
    a->n++;
}

/* Copies the label without its number of iterations. */
static void without_iterations(const char *label, char out[MS_PLOT_TEXT])
{
    static const char key[] = ", K=";
    const char       *k     = strstr(label, key);
    const size_t      n     = k != NULL ? (size_t)(k - label) : strlen(label);

    if (k != NULL) k += sizeof key - 1;
    snprintf(out, MS_PLOT_TEXT, "%.*s%s", (int)n, label,
             k != NULL ? k + strspn(k, "0123456789") : "");
}

static bool differs_in_iterations(const ms_method *a, const ms_method *b)
{
    char mine[MS_PLOT_TEXT], other[MS_PLOT_TEXT];
    without_iterations(a->label, mine);
    without_iterations(b->label, other);
    return strcmp(mine, other) == 0;
}

/* Methods that differ from this one only in the number of iterations count as well. */
static void find_values(ablation *a)
{
    const ms_compare *c = a->c;
    for (size_t i = 0; i < c->n_settings; i++) {
        const ms_setting *s = &c->settings[i];
        if (s->problem != a->problem || s->n == 0 ||
            strcmp(c->methods[s->method].optimizer, c->methods[a->method].optimizer) != 0)
            continue;
        if (!a->iterations && s->method == a->method)
            add_value(a, s->threshold, s->method);
        else if (a->iterations && strcmp(ms_run_text(s->runs[0], "ns_mode"), "paper") == 0 &&
                 differs_in_iterations(&c->methods[s->method], &c->methods[a->method]))
            add_value(a, ms_run_number(s->runs[0], "ns_iters"), s->method);
    }
}

/* Fixes the threshold and decay with the most pairs; if K is varied, prefers the paper's D. */
static size_t fix_others(ablation *a)
{
    const ms_compare *c    = a->c;
    ablation          best = *a;
    size_t            most = 0;
    for (size_t i = 0; i < c->n_settings; i++) {
        const ms_setting *s = &c->settings[i];
        size_t            n;
        if (s->problem != a->problem ||
            strcmp(c->methods[s->method].optimizer, c->methods[a->method].optimizer) != 0 ||
            (a->iterations && isnan(s->threshold)))
            continue;
        a->threshold = s->threshold;
        a->decay     = s->decay;
        n            = count_all(a);
        if (n > 0 && a->iterations && ms_same_number(s->threshold, 0.05))
            n += MAX_VALUES * c->n_rates;
        if (n > most) {
            most = n;
            best = *a;
        }
    }
    *a = best;
    return most;
}

static void value_label(const ablation *a, const ablation_value *v, char out[64])
{
    snprintf(out, 64, "%s = %g", a->iterations ? "K" : "D", v->x);
}

static void step_panel(ms_section_builder *b, const ablation *a, double lr, ms_figure *f)
{
    char      text[64];
    ms_panel *p;

    snprintf(text, sizeof text, "lr %g", lr);
    p = ms_figure_panel(f, text, "step", "validation loss");
    for (size_t i = 0; i < a->n; i++) {
        ms_trace trace = { .setting = find(a, &a->values[i], lr),
                           .read    = MS_READ_VAL_LOSS,
                           .label   = text,
                           .style   = ms_style_step(i, a->n) };
        value_label(a, &a->values[i], text);
        ms_plot_trace(b, f, p, &trace);
    }
    ms_plot_loss_panel(a->c, a->problem, f, p);
}

static void fixed_text(const ablation *a, char out[2 * MS_PLOT_TEXT])
{
    char decay[MS_PLOT_TEXT];
    ms_plot_decay_text(a->decay, decay);
    if (a->iterations)
        snprintf(out, 2 * MS_PLOT_TEXT, "D %g, weight decay %s", a->threshold, decay);
    else
        snprintf(out, 2 * MS_PLOT_TEXT, "weight decay %s", decay);
}

static void step_figure(ms_section_builder *b, const ablation *a, const char *base)
{
    const ms_compare *c      = b->c;
    const char       *method = ms_optimizer_title(c->methods[a->method].optimizer);
    double            rates[MS_PLOT_RATES];
    const size_t      n = ms_plot_rates(c, two_at, a, rates);
    ms_figure         f = { 0 };
    char              id[MS_PLOT_ID], title[MS_PLOT_TEXT], fixed[2 * MS_PLOT_TEXT];

    ms_plot_id(c, base, a->problem, id);
    fixed_text(a, fixed);
    snprintf(title, sizeof title, "%s with different %s: %s", method,
             a->iterations ? "numbers of iterations K" : "thresholds D",
             c->problems[a->problem].label);
    ms_figure_begin(&f, id, title, "");
    for (size_t i = 0; i < n; i++)
        step_panel(b, a, rates[i], &f);
    ms_plot_caption(c, a->problem, &f, "Validation loss over the steps, %s.", fixed);
    if (ms_build_figure(b, &f)) ms_plot_trace_notes(b, a->problem);
}

static void add_row(ms_table *t, const ablation *a, const ablation_value *v, const ms_setting *s)
{
    char decay[MS_PLOT_TEXT];

    ms_plot_decay_text(s->decay, decay);
    ms_table_add(t, "%s", a->c->problems[a->problem].label);
    ms_table_add(t, "%s", ms_optimizer_title(a->c->methods[a->method].optimizer));
    ms_table_number(t, "%g", s->lr);
    ms_table_number(t, "%g", v->x);
    if (a->iterations) ms_table_number(t, "%g", a->threshold);
    ms_table_add(t, "%s", decay);
    ms_plot_decay_fields(t, s->decay);
    ms_plot_loss_cells(t, s);
}

static void loss_rows(ms_table *t, const ablation *a)
{
    for (size_t i = 0; i < a->c->n_rates; i++)
        for (size_t k = 0; k < a->n && count_at(a, a->c->rates[i]) >= 2; k++) {
            const ms_setting *s = find(a, &a->values[k], a->c->rates[i]);
            if (s != NULL) add_row(t, a, &a->values[k], s);
        }
}

static void column_names(ms_table *t, bool iterations)
{
    const char *const names[] = { "problem",
                                  "method",
                                  "lr",
                                  iterations ? "K" : "D",
                                  "D",
                                  MS_PLOT_DECAY_NAMES,
                                  "validation loss",
                                  "diverged|diverged,runs" };
    const char       *here[COUNT(names)];
    size_t            n = 0;

    for (size_t i = 0; i < COUNT(names); i++)
        if (i != 4 || iterations) here[n++] = names[i];
    ms_table_names(t, here);
}

/* Is this the first method of its optimizer?  Plain methods stand before their variants. */
static bool is_first(const ms_compare *c, size_t method)
{
    return method == 0 ||
           strcmp(c->methods[method].optimizer, c->methods[method - 1].optimizer) != 0;
}

/* Builds the section for every clipping optimizer; ids of Soft Musec's figures do not name it. */
static void build(ms_section_builder *b, bool iterations, const char *base, const char *table)
{
    const ms_compare *c = b->c;
    ms_table          t = { .align = iterations ? "llrrrlrr" : "llrrlrr" };

    column_names(&t, iterations);
    for (size_t m = 0; m < c->n_methods; m++)
        for (size_t p = 0; p < c->n_problems; p++) {
            ablation   a = { .c = c, .problem = p, .method = m, .iterations = iterations };
            char       id[MS_PLOT_ID / 2];
            const bool soft = strcmp(c->methods[m].optimizer, "soft-musec") == 0;
            if (!c->methods[m].clips || !is_first(c, m)) continue;
            find_values(&a);
            if (a.n < 2 || fix_others(&a) == 0) continue;
            snprintf(id, sizeof id, "%s%s%.20s", base, soft ? "" : "-",
                     soft ? "" : c->methods[m].optimizer);
            if (ms_plot_shown(c, p)) step_figure(b, &a, id);
            loss_rows(&t, &a);
        }
    ms_build_table(b, table, "Last validation losses: the mean of the seeds that did not diverge.",
                   &t);
}

void ms_build_threshold(ms_section_builder *b) { build(b, false, "threshold", "threshold-losses"); }

void ms_build_ns_iters(ms_section_builder *b) { build(b, true, "ns-iters", "ns-iters-losses"); }
