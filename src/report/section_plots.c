/* section_plots.c - the selection of runs for a section, and their labels and points. */
#include "report/section_plots.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/real.h"

/* ---- selection ------------------------------------------------------------------------------- */

const ms_run *ms_plot_run(const ms_compare *c, size_t problem, size_t method)
{
    for (size_t i = 0; i < c->n_settings; i++)
        if (c->settings[i].problem == problem && c->settings[i].method == method &&
            c->settings[i].n > 0)
            return c->settings[i].runs[0];
    return NULL;
}

static bool same_field(const ms_run *a, const ms_run *b, const char *field)
{
    return strcmp(ms_run_text(a, field), ms_run_text(b, field)) == 0;
}

bool ms_plot_drawn(const ms_compare *c, size_t problem, size_t method)
{
    const ms_run *run   = ms_plot_run(c, problem, method), *other;
    const size_t  plain = ms_compare_plain(c, c->methods[method].optimizer);

    if (run == NULL) return false;
    if (plain == c->n_methods || plain == method) return true;
    other = ms_plot_run(c, problem, plain);
    return other == NULL ||
           (same_field(run, other, "ns_mode") && same_field(run, other, "ns_iters"));
}

void ms_plot_left_out(ms_section_builder *b)
{
    for (size_t p = 0; p < b->c->n_problems; p++)
        for (size_t m = 0; m < b->c->n_methods; m++)
            if (ms_plot_run(b->c, p, m) != NULL && !ms_plot_drawn(b->c, p, m)) {
                ms_build_notes(b, "Other iterations of a method stand in their own sections.");
                return;
            }
}

bool ms_plot_shown(const ms_compare *c, size_t problem)
{
    return c->n_problems <= MS_PLOT_MANY || problem == 0 ||
           strcmp(c->problems[problem].preset, c->problems[problem - 1].preset) != 0;
}

size_t ms_plot_methods_at(const ms_compare *c, size_t problem, double lr)
{
    size_t n = 0;
    for (size_t m = 0; m < c->n_methods; m++)
        n += ms_plot_drawn(c, problem, m) && ms_compare_best(c, problem, m, lr) != NULL;
    return n;
}

size_t ms_plot_count_rates(const ms_compare *c, size_t problem, size_t method)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n_rates; i++)
        n += ms_compare_best(c, problem, method, c->rates[i]) != NULL;
    return n;
}

double ms_plot_rate(const ms_compare *c, size_t problem, double wanted, bool or_largest)
{
    double best = 0.0;
    for (size_t methods = 2; methods > 0 && best == 0.0; methods--) {
        double best_distance = INFINITY;
        for (size_t i = 0; i < c->n_rates; i++) {
            const double lr       = c->rates[i];
            double       distance = or_largest ? 1.0 / lr : fabs(log(lr / wanted));
            if (ms_same_number(lr, wanted)) distance = 0.0;
            if (ms_plot_methods_at(c, problem, lr) < methods || distance >= best_distance) continue;
            best          = lr;
            best_distance = distance;
        }
    }
    return best;
}

static bool has_rate(const double *rates, size_t n, double lr)
{
    for (size_t i = 0; i < n; i++)
        if (ms_same_number(rates[i], lr)) return true;
    return false;
}

static void insert_rate(double *rates, size_t *n, double lr)
{
    size_t at = (*n)++;
    for (; at > 0 && rates[at - 1] > lr; at--)
        rates[at] = rates[at - 1];
    rates[at] = lr;
}

size_t ms_plot_rates(const ms_compare *c, ms_rate_test *passes, const void *of,
                     double out[MS_PLOT_RATES])
{
    static const double paper[MS_PLOT_RATES] = { 0.1, 0.2, 0.5 };
    size_t              n                    = 0;

    for (size_t i = 0; i < MS_PLOT_RATES; i++)
        if (passes(of, paper[i])) insert_rate(out, &n, paper[i]);
    for (size_t i = c->n_rates; i > 0 && n < MS_PLOT_RATES; i--)
        if (passes(of, c->rates[i - 1]) && !has_rate(out, n, c->rates[i - 1]))
            insert_rate(out, &n, c->rates[i - 1]);
    return n;
}

const ms_setting *ms_plot_at_multiple(const ms_compare *c, const ms_setting *best, double factor)
{
    for (size_t i = 0; i < c->n_settings; i++) {
        const ms_setting *s = &c->settings[i];
        if (s->problem == best->problem && s->method == best->method &&
            ms_same_number(s->lr, factor * best->lr) &&
            strcmp(s->threshold_text, best->threshold_text) == 0 &&
            strcmp(s->decay, best->decay) == 0)
            return s;
    }
    return NULL;
}

/* ---- labels ---------------------------------------------------------------------------------- */

enum { SLUG = 41 };

/* Copies letters and digits, with hyphens between them. */
static void slug(const char *text, char out[SLUG])
{
    size_t n = 0;
    for (; *text != '\0' && n + 1 < SLUG; text++)
        if (isalnum((unsigned char)*text))
            out[n++] = (char)tolower((unsigned char)*text);
        else if (n > 0 && out[n - 1] != '-')
            out[n++] = '-';
    while (n > 0 && out[n - 1] == '-')
        n--;
    out[n] = '\0';
}

/* If slugs are equal or empty, ids have the problem's number and a '_', which no slug has. */
void ms_plot_id(const ms_compare *c, const char *base, size_t problem, char out[MS_PLOT_ID])
{
    char mine[SLUG], other[SLUG];
    bool twice = false;

    slug(c->problems[problem].label, mine);
    for (size_t p = 0; p < c->n_problems && !twice; p++) {
        slug(c->problems[p].label, other);
        twice = p != problem && strcmp(mine, other) == 0;
    }
    if (c->n_problems < 2)
        snprintf(out, MS_PLOT_ID, "%s", base);
    else if (twice || mine[0] == '\0')
        snprintf(out, MS_PLOT_ID, "%s-%zu_%s", base, problem + 1, mine);
    else
        snprintf(out, MS_PLOT_ID, "%s-%s", base, mine);
}

void ms_plot_title(const ms_compare *c, size_t problem, const char *what, char out[MS_PLOT_TEXT])
{
    const bool alone = c->n_problems == 1;
    snprintf(out, MS_PLOT_TEXT, "%s%s%s", alone ? "" : c->problems[problem].label,
             alone ? "" : ": ", what);
}

/* The threshold of MuonClip is one of the conditions: without QK-norm, it bounds the logits. */
static void problem_conditions(const ms_compare *c, size_t problem, char out[MS_PLOT_TEXT])
{
    const ms_run *run  = c->problems[problem].first;
    const size_t  clip = ms_compare_plain(c, "muonclip");
    const ms_run *of   = clip < c->n_methods ? ms_plot_run(c, problem, clip) : NULL;
    const char   *sum  = ms_run_text(run, "grad_reduction");
    int           n    = snprintf(out, MS_PLOT_TEXT, "Gradients %s, QK-norm %s,",
                     sum[0] != '\0' ? sum : "of an unknown reduction",
                     strcmp(ms_run_text(run, "qk_norm"), "no") == 0 ? "off" : "on");
    if (of != NULL && n > 0 && n < MS_PLOT_TEXT)
        snprintf(out + n, (size_t)(MS_PLOT_TEXT - n), " tau of MuonClip %s,",
                 ms_run_text(of, "qk_tau"));
}

static void seed_text(const ms_compare *c, size_t problem, char *out, size_t bytes)
{
    size_t min = SIZE_MAX, max = 0;
    for (size_t i = 0; i < c->n_settings; i++) {
        const size_t n = c->settings[i].n;
        if (problem < c->n_problems && c->settings[i].problem != problem) continue;
        if (n < min) min = n;
        if (n > max) max = n;
    }
    if (max <= 1)
        snprintf(out, bytes, " one seed.");
    else if (min == max)
        snprintf(out, bytes, " %zu seeds.", max);
    else
        snprintf(out, bytes, " %zu to %zu seeds.", min, max);
}

/* Writes "Gradients sum8, QK-norm on, 2 seeds."; with n_problems as the problem, of all. */
static void conditions(const ms_compare *c, size_t problem, char out[MS_PLOT_TEXT])
{
    const bool all = problem >= c->n_problems;
    char       other[MS_PLOT_TEXT];
    size_t     n;

    out[0] = '\0';
    if (c->n_problems == 0) return;
    problem_conditions(c, all ? 0 : problem, out);
    for (size_t p = 1; all && p < c->n_problems; p++) {
        problem_conditions(c, p, other);
        if (strcmp(out, other) == 0) continue;
        snprintf(out, MS_PLOT_TEXT,
                 "Reduction of the gradients or QK-norm differ between the panels (see Training),");
        break;
    }
    n = strlen(out);
    seed_text(c, problem, out + n, MS_PLOT_TEXT - n);
}

bool ms_plot_decay(const char *text, double out[MS_RUN_GROUPS])
{
    static const char *const names[] = { "qk", "vo", "mlp", "matrix" };
    double                   x[4]    = { NAN, NAN, NAN, NAN };
    char                    *end     = NULL;
    const double             one     = ms_real_read(text, &end);

    if (end != text && *end == '\0') {
        for (int g = 0; g < MS_RUN_GROUPS; g++)
            out[g] = one;
        return true;
    }
    while (*text != '\0') {
        size_t i = 0;
        while (i < COUNT(names) &&
               !(strncmp(text, names[i], strlen(names[i])) == 0 && text[strlen(names[i])] == '='))
            i++;
        if (i == COUNT(names)) return false;
        text += strlen(names[i]) + 1;
        x[i] = ms_real_read(text, &end);
        if (end == text || (*end != '\0' && *end != ',')) return false;
        text = end + (*end == ',');
    }
    for (int g = 0; g < MS_RUN_GROUPS; g++)
        out[g] = !isnan(x[g]) ? x[g] : !isnan(x[3]) ? x[3] : 0.0;
    return true;
}

void ms_plot_decay_text(const char *text, char out[MS_PLOT_TEXT])
{
    double x[MS_RUN_GROUPS];
    if (!ms_plot_decay(text, x))
        snprintf(out, MS_PLOT_TEXT, "%s", text);
    else if (x[0] == x[1] && x[1] == x[2])
        snprintf(out, MS_PLOT_TEXT, "%g", x[0]);
    else
        snprintf(out, MS_PLOT_TEXT, "qk %g, vo %g, mlp %g", x[0], x[1], x[2]);
}

void ms_plot_decay_fields(ms_table *t, const char *text)
{
    double x[MS_RUN_GROUPS];
    char   of[MS_RUN_GROUPS][MS_REAL_TEXT];
    if (!ms_plot_decay(text, x)) {
        ms_table_is_fields(t, ",,");
        return;
    }
    for (int g = 0; g < MS_RUN_GROUPS; g++)
        ms_real_text(x[g], of[g]);
    ms_table_is_fields(t, "%s,%s,%s", of[0], of[1], of[2]);
}

void ms_plot_loss_cells(ms_table *t, const ms_setting *s)
{
    if (isfinite(s->loss))
        ms_table_add(t, "%.4f%s", s->loss, s->stalled > 0 ? ", stalled" : "");
    else
        ms_table_add(t, "diverged");
    ms_table_is(t, s->loss);
    ms_table_add(t, "%zu of %zu", s->diverged, s->n);
    ms_table_is_fields(t, "%zu,%zu", s->diverged, s->n);
}

const char *ms_plot_group_name(int group)
{
    static const char *const names[MS_RUN_GROUPS] = { "QK", "VO", "MLP" };
    return names[group];
}

const char *ms_plot_run_name(const ms_run *run)
{
    const char *slash = strrchr(run->dir, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : run->dir;
}

static const char *divergence_reason(const ms_setting *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->runs[i]->status == MS_RUN_DIVERGED && s->runs[i]->reason != NULL)
            return s->runs[i]->reason;
    return "no loss";
}

void ms_plot_tip(const char *label, const ms_setting *s, char out[MS_PLOT_TEXT])
{
    char         loss[MS_PLOT_TEXT / 4], clip[128] = "", part[64] = "", stalled[64] = "";
    char         decay[MS_PLOT_TEXT];
    const size_t left = s->n - s->diverged;

    ms_plot_decay_text(s->decay, decay);
    if (left == 0)
        snprintf(loss, sizeof loss, "diverged: %.200s", divergence_reason(s));
    else if (left > 1)
        snprintf(loss, sizeof loss, "loss %.4f (%.4f to %.4f)", s->loss, s->low, s->high);
    else
        snprintf(loss, sizeof loss, "loss %.4f", s->loss);
    if (s->threshold_text[0] != '\0') snprintf(clip, sizeof clip, ", D %.100s", s->threshold_text);
    if (left > 0 && s->diverged > 0)
        snprintf(part, sizeof part, ", %zu of %zu diverged", s->diverged, s->n);
    if (s->stalled > 0) snprintf(stalled, sizeof stalled, ", %zu of %zu stalled", s->stalled, s->n);
    snprintf(out, MS_PLOT_TEXT, "%.100s: lr %g, %s%s, decay %.80s, %zu seed%s%s%s", label, s->lr,
             loss, clip, decay, s->n, s->n == 1 ? "" : "s", part, stalled);
}

/* ---- points ---------------------------------------------------------------------------------- */

ms_point ms_plot_point(double x, const ms_setting *s)
{
    const size_t left  = s->n - s->diverged;
    ms_point     point = ms_point_at(x, s->loss);

    point.diverged   = left == 0;
    point.n_diverged = s->diverged;
    point.stalled    = s->stalled;
    if (left > 1) {
        point.low  = s->low;
        point.high = s->high;
    }
    return point;
}

/* Explains the bands, crosses and values above a panel that the figure has; "" for none. */
static void symbol_text(const ms_figure *f, char out[MS_PLOT_TEXT])
{
    bool band = false, cross = false, above = false;

    for (size_t i = 0; i < f->n; i++)
        for (size_t k = 0; k < f->panels[i].n; k++)
            for (size_t j = 0; j < f->panels[i].curves[k].n; j++) {
                const ms_point *at = &f->panels[i].curves[k].at[j];
                band               = band || at->low < at->high;
                cross              = cross || at->diverged;
                above              = above || at->y > f->panels[i].y_max;
            }
    snprintf(out, MS_PLOT_TEXT, "%s%s%s",
             band ? " Bands reach from the lowest to the highest seed." : "",
             cross ? " Crosses at the upper edge: runs that diverged." : "",
             above ? " Lines that leave a panel at the top, and triangles there, lead to values "
                     "above it."
                   : "");
}

void ms_plot_caption(const ms_compare *c, size_t problem, ms_figure *f, const char *fmt, ...)
{
    char    text[2 * MS_PLOT_TEXT], symbols[MS_PLOT_TEXT], condition_text[MS_PLOT_TEXT] = "";
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    symbol_text(f, symbols);
    if (c != NULL) conditions(c, problem, condition_text);
    ms_figure_caption(f, "%s%s%s%s", text, symbols, c != NULL ? " " : "", condition_text);
}

void ms_plot_add(ms_figure *f, ms_curve *curve, const char *label, const ms_setting *s)
{
    char tip[MS_PLOT_TEXT];
    if (s == NULL) return;
    ms_plot_tip(label, s, tip);
    ms_curve_point(f, curve, ms_plot_point(s->lr, s), "%s", tip);
}

void ms_plot_limit(ms_figure *f, ms_panel *p)
{
    double *y = NULL, reach;
    size_t  n = 0, capacity = 0;

    if (p == NULL) return;
    for (size_t i = 0; i < p->n; i++)
        capacity += p->curves[i].n;
    y = malloc((capacity > 0 ? capacity : 1) * sizeof *y);
    if (y == NULL) {
        f->out_of_memory = true;
        return;
    }
    for (size_t i = 0; i < p->n; i++)
        for (size_t k = 0; k < p->curves[i].n; k++)
            if (isfinite(p->curves[i].at[k].y)) y[n++] = p->curves[i].at[k].y;
    if (n >= 4) {
        ms_sort_numbers(y, n);
        reach = y[(3 * n - 1) / 4] - y[0];
        if (reach > 0.0 && y[n - 1] - y[0] > 3.0 * reach) p->y_max = y[0] + 2.0 * reach;
    }
    free(y);
}
