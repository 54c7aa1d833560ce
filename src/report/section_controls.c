/* section_controls.c - what a clipping method has to be held against.
 *
 * A clipped update has spectral norm D at most, Muon's about 1: at one learning rate the clipping
 * method steps by about lr D, Muon by lr.  That a method with small steps is stable at a large
 * learning rate says nothing of clipping; Muon at lr D is the control that takes steps of the same
 * size.  And K = 5 iterations are far from the operator they stand for (an unclipped direction
 * shrinks), so the exact operator and the fast polynomial at the same setting tell the operator's
 * part from the iteration's. */
#include <math.h>
#include <string.h>

#include "report/section_plots.h"

enum { EXACT, FAST, N_FORMS };

static const char *const form_names[N_FORMS] = { "exact", "fast" };

typedef struct panel_of { /* a panel: one clipping method on one problem */
    size_t problem, method, muon;
    size_t form[N_FORMS]; /* methods; n_methods: not run */
} panel_of;

typedef struct at_rate { /* what is compared at one learning rate; NULL: not run */
    const ms_setting *clip, *form[N_FORMS], *muon, *scaled;
} at_rate;

/* The optimizer's method with this ns_mode and the fewest other options: the shortest label. */
static size_t find_form(const ms_compare *c, size_t problem, size_t plain, const char *mode)
{
    size_t best = c->n_methods;
    for (size_t m = 0; m < c->n_methods; m++) {
        const ms_run *run = ms_plot_run(c, problem, m);
        if (m == plain || run == NULL || strcmp(ms_run_text(run, "ns_mode"), mode) != 0 ||
            strcmp(c->methods[m].optimizer, c->methods[plain].optimizer) != 0)
            continue;
        if (best == c->n_methods || strlen(c->methods[m].label) < strlen(c->methods[best].label))
            best = m;
    }
    return best;
}

static const ms_setting *find(const ms_compare *c, size_t problem, size_t method, double lr,
                              double threshold, const char *decay)
{
    if (method >= c->n_methods) return NULL;
    return ms_compare_find(c, problem, method, lr, threshold, decay);
}

/* Counts the forms that were run with this threshold and decay. */
static size_t count_forms(const ms_compare *c, const panel_of *of, const ms_setting *s)
{
    size_t n = 0;
    for (int k = 0; k < N_FORMS && !isnan(s->threshold); k++)
        n += find(c, of->problem, of->form[k], s->lr, s->threshold, s->decay) != NULL;
    return n;
}

/* The method's setting at this rate that most forms share, and of those the best. */
static const ms_setting *shared_setting(const ms_compare *c, const panel_of *of, double lr)
{
    const ms_setting *chosen = ms_compare_best(c, of->problem, of->method, lr);
    size_t            most   = chosen != NULL ? count_forms(c, of, chosen) : 0;
    for (size_t i = 0; chosen != NULL && i < c->n_settings; i++) {
        const ms_setting *s = &c->settings[i];
        if (s->problem != of->problem || s->method != of->method || !ms_same_number(s->lr, lr))
            continue;
        const size_t n = count_forms(c, of, s);
        if (n < most || (n == most && !ms_setting_better(s, chosen))) continue;
        chosen = s;
        most   = n;
    }
    return chosen;
}

static at_rate compare_at(const ms_compare *c, const panel_of *of, double lr)
{
    at_rate r = { .clip = shared_setting(c, of, lr) };

    if (r.clip == NULL) return r;
    r.muon = find(c, of->problem, of->muon, lr, NAN, NULL);
    if (!isnan(ms_setting_muon_rate(r.clip)))
        r.scaled = find(c, of->problem, of->muon, ms_setting_muon_rate(r.clip), NAN, NULL);
    if (!isnan(r.clip->threshold))
        for (int k = 0; k < N_FORMS; k++)
            r.form[k] = find(c, of->problem, of->form[k], lr, r.clip->threshold, r.clip->decay);
    for (int k = 0; k < N_FORMS; k++)
        if (r.form[k] == NULL) r.form[k] = find(c, of->problem, of->form[k], lr, NAN, NULL);
    return r;
}

/* "0.01 (lr 0.2 x D 0.05)": the rate at which Muon's steps have the setting's size. */
static void scaled_text(const ms_setting *s, char out[80])
{
    const double rate = ms_setting_muon_rate(s);
    if (ms_same_number(rate, s->lr))
        snprintf(out, 80, "%g", rate);
    else
        snprintf(out, 80, "%g (lr %g x D %g)", rate, s->lr, s->threshold);
}

static void scaled_curve(const ms_compare *c, const panel_of *of, ms_figure *f, ms_panel *p)
{
    const ms_style style = ms_style_variant(ms_style_of("muon"), 1);
    ms_curve      *curve = ms_panel_curve(f, p, "Muon at lr·D", style);
    char           tip[MS_PLOT_TEXT], rate[80];

    for (size_t i = 0; i < c->n_rates; i++) {
        const at_rate r = compare_at(c, of, c->rates[i]);
        if (r.clip == NULL || r.scaled == NULL) continue;
        ms_plot_tip("Muon", r.scaled, tip);
        scaled_text(r.clip, rate);
        ms_curve_point(f, curve, ms_plot_point(r.clip->lr, r.scaled),
                       "%s; at %s it steps as far as %s", tip, rate, c->methods[of->method].label);
    }
}

static void control_panel(const ms_compare *c, const panel_of *of, ms_figure *f)
{
    const ms_method *clip = &c->methods[of->method];
    char             title[MS_PLOT_TEXT];
    ms_panel        *p;
    ms_curve        *curve;

    ms_plot_title(c, of->problem, clip->label, title);
    p = ms_figure_panel(f, title, "learning rate", "validation loss");
    if (p == NULL) return;
    p->x_log = true;
    curve    = ms_panel_curve(f, p, clip->label, clip->style);
    for (size_t i = 0; i < c->n_rates; i++)
        ms_plot_add(f, curve, clip->label, compare_at(c, of, c->rates[i]).clip);
    for (int k = 0; k < N_FORMS; k++) {
        if (of->form[k] == c->n_methods) continue;
        const ms_method *form = &c->methods[of->form[k]];
        curve = ms_panel_curve(f, p, form->label, ms_style_variant(clip->style, 1 + (size_t)k));
        for (size_t i = 0; i < c->n_rates; i++)
            ms_plot_add(f, curve, form->label, compare_at(c, of, c->rates[i]).form[k]);
    }
    if (of->muon < c->n_methods && ms_plot_run(c, of->problem, of->muon) != NULL) {
        curve = ms_panel_curve(f, p, "Muon at lr", ms_style_of("muon"));
        for (size_t i = 0; i < c->n_rates; i++)
            ms_plot_add(f, curve, "Muon", compare_at(c, of, c->rates[i]).muon);
        scaled_curve(c, of, f, p);
    }
    ms_panel_symbols(f, p);
    ms_plot_limit(f, p);
}

/* Does the method have a control?  Lists the rates at which Muon is missing. */
static bool has_control(const ms_compare *c, const panel_of *of, char missing[MS_PLOT_TEXT])
{
    size_t used = 0;
    bool   any  = false;
    char   rate[80];
    missing[0] = '\0';
    for (size_t i = 0; i < c->n_rates; i++) {
        const at_rate r = compare_at(c, of, c->rates[i]);
        if (r.clip == NULL) continue;
        any = any || r.scaled != NULL || r.form[EXACT] != NULL || r.form[FAST] != NULL;
        if (r.scaled != NULL || isnan(ms_setting_muon_rate(r.clip)) || used + 84 >= MS_PLOT_TEXT)
            continue;
        scaled_text(r.clip, rate);
        used += (size_t)snprintf(missing + used, 84, "%s%s", used > 0 ? ", " : "", rate);
    }
    return any;
}

static panel_of make_panel(const ms_compare *c, size_t problem, size_t method)
{
    panel_of of = { .problem = problem, .method = method, .muon = ms_compare_plain(c, "muon") };
    for (int k = 0; k < N_FORMS; k++)
        of.form[k] = find_form(c, problem, method, form_names[k]);
    return of;
}

static bool is_clipping(const ms_compare *c, size_t problem, size_t method)
{
    return c->methods[method].clips && !c->methods[method].variant &&
           ms_plot_run(c, problem, method) != NULL;
}

static void note_missing(ms_section_builder *b)
{
    const ms_compare *c = b->c;
    char              missing[MS_PLOT_TEXT];
    for (size_t p = 0; p < c->n_problems; p++)
        for (size_t m = 0; m < c->n_methods; m++) {
            if (!is_clipping(c, p, m)) continue;
            const panel_of of = make_panel(c, p, m);
            if (!has_control(c, &of, missing) || missing[0] == '\0') continue;
            ms_build_text(b, "%s, %s: there is no run of Muon at %s.", c->problems[p].label,
                          c->methods[m].label, missing);
        }
}

void ms_build_controls(ms_section_builder *b)
{
    const ms_compare *c = b->c;
    ms_figure         f = { 0 };
    char              missing[MS_PLOT_TEXT];

    ms_figure_begin(&f, "controls", "Clipping methods and their controls", "");
    for (size_t p = 0; p < c->n_problems; p++)
        for (size_t m = 0; m < c->n_methods; m++) {
            if (!is_clipping(c, p, m)) continue;
            const panel_of of = make_panel(c, p, m);
            if (has_control(c, &of, missing)) control_panel(c, &of, &f);
        }
    ms_plot_caption(c, c->n_problems, &f,
                    "Each clipping method beside its controls. Where Muon at lr·D lies on its "
                    "curve, the size of the steps explains what is seen.");
    if (!ms_build_figure(b, &f)) return;
    ms_build_notes(
        b, "Muon at lr·D is Muon's best setting at the method's learning rate times its threshold "
           "D, drawn at the method's rate (of a method with update-scale unit, which divides its "
           "steps by D, Muon at the same rate). Exact and fast are the same operator without the "
           "five iterations; where they were run the method stands with their threshold and weight "
           "decay.");
    ms_build_notes(
        b,
        "Why these: an update clipped at D has a spectral norm of at most D, one of Muon has "
        "about 1. At the same learning rate the clipping method therefore steps by about lr·D and "
        "Muon by lr, and a method that takes small steps is stable at a large learning rate "
        "whether or not clipping helps. Where exact or fast lie elsewhere than the "
        "method itself, the difference is due to its few iterations and not to the clip.");
    note_missing(b);
}
