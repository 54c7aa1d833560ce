/* paper_theory.c - the page of musec paper theory: what the theorem's quantities do when N, r, the
 * step or the clip is varied.  The runs are those of theory_suite.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/real.h"
#include "experiment/theory_suite.h"
#include "report/png.h"
#include "theory/fit.h"

enum { MOST_POINTS = 32, MOST_SERIES = 64, CAPTION = 1024, ID = 64 };

#define HULL_FLOOR 1e-5 /* a distance below is drawn there: log axes end somewhere */

typedef struct series { /* the points of one curve, in the order of x */
    const ms_theory_point *at[MOST_POINTS];
    double                 x[MOST_POINTS]; /* N, or r */
    size_t                 n;
} series;

typedef struct build {
    const ms_theory_suites *s;
    ms_page                *page;
    json_t                 *slopes; /* for --json */
} build;

/* ---- numbers of runs ------------------------------------------------------------------------- */

static double value_of(const ms_theory_point *p, size_t seed, const char *field)
{
    const json_t *run   = json_array_get(json_object_get(p->result, "runs"), seed);
    const json_t *value = json_object_get(run, field);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static double mean_of(const ms_theory_point *p, size_t seeds, const char *field, double *low,
                      double *high)
{
    double sum = 0.0;
    *low       = INFINITY;
    *high      = -INFINITY;
    for (size_t i = 0; i < seeds; i++) {
        const double x = value_of(p, i, field);
        sum += x / (double)seeds;
        *low  = fmin(*low, x);
        *high = fmax(*high, x);
    }
    return sum;
}

static series find_series(const build *b, const char *suite, const char *problem, const char *label,
                          double sigma, bool by_rank)
{
    series out = { .n = 0 };
    for (size_t i = 0; i < b->s->n && out.n < MOST_POINTS; i++) {
        const ms_theory_point *p = &b->s->at[i];
        if (p->result == NULL || strcmp(p->suite, suite) != 0 || strcmp(p->problem, problem) != 0 ||
            strcmp(p->label, label) != 0 || p->sigma != sigma)
            continue;
        out.x[out.n]    = (double)(by_rank ? p->rank : p->steps);
        out.at[out.n++] = p;
    }
    return out;
}

static ms_theory_slope fit(const build *b, const series *c, const char *field)
{
    const size_t    seeds = (size_t)b->s->seeds;
    double         *y     = calloc(seeds * MOST_POINTS, sizeof *y);
    ms_theory_slope out   = { NAN, NAN, NAN, 0 };

    for (size_t i = 0; y != NULL && i < seeds; i++)
        for (size_t k = 0; k < c->n; k++)
            y[i * c->n + k] = value_of(c->at[k], i, field);
    if (y != NULL && c->n > 1) out = ms_theory_slope_fit(c->x, y, seeds, c->n);
    free(y);
    return out;
}

/* ---- curves ---------------------------------------------------------------------------------- */

static ms_panel *log_panel(ms_figure *f, const char *title, const char *x, const char *y)
{
    ms_panel *p = ms_figure_panel(f, title, x, y);
    if (p != NULL) p->x_log = p->y_log = true;
    return p;
}

static void add_curve(const build *b, ms_figure *f, ms_panel *panel, const char *label,
                      ms_style style, const series *c, const char *field, double floor)
{
    ms_curve *curve = ms_panel_curve(f, panel, label, style);
    for (size_t i = 0; i < c->n; i++) {
        double       low, high;
        const double mean  = mean_of(c->at[i], (size_t)b->s->seeds, field, &low, &high);
        ms_point     point = { .x        = c->x[i],
                               .y        = fmax(mean, floor),
                               .low      = fmax(low, floor),
                               .high     = fmax(high, floor),
                               .diverged = !isfinite(mean) };
        if (point.diverged) point.y = point.low = point.high = NAN;
        ms_curve_point(f, curve, point, "%s: %s %g, %.4g (%.4g to %.4g)", label,
                       c->at[i]->rank > 0 ? "r" : "N", c->x[i], mean, low, high);
    }
}

/* Through the curve's first point, with a slope of theory. */
static void add_guide(const build *b, ms_figure *f, ms_panel *panel, const char *label, int dash,
                      const series *c, const char *field, double exponent)
{
    const ms_style style = { "#8a8a8a", dash, 0 };
    ms_curve      *curve = ms_panel_curve(f, panel, label, style);
    double         low, high, first;

    if (c->n == 0) return;
    first = mean_of(c->at[0], (size_t)b->s->seeds, field, &low, &high);
    for (size_t i = 0; i < c->n; i++)
        ms_curve_point(f, curve,
                       (ms_point){ .x    = c->x[i],
                                   .y    = first * pow(c->x[i] / c->x[0], exponent),
                                   .low  = NAN,
                                   .high = NAN },
                       (const char *)NULL);
}

static const ms_style style_hbar  = { "#4aa9e4", 0, MS_MARKER_SQUARE },
                      style_hull  = { "#009e73", 0, MS_MARKER_TRIANGLE },
                      style_bound = { "#6d747b", 1, MS_MARKER_NONE };

/* What the theorem speaks of: the measured mean, the hull, the bound. */
static void add_three(const build *b, ms_figure *f, ms_panel *p, const series *c)
{
    add_curve(b, f, p, "mean |Hbar|", style_hbar, c, "hbar_mean", 0.0);
    add_curve(b, f, p, "hull distance", style_hull, c, "hull_upper", HULL_FLOOR);
    add_curve(b, f, p, "the theorem's bound", style_bound, c, "bound", 0.0);
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* "-0.36 to -0.31", two columns of CSV */
static void range_fields(ms_table *t, double low, double high)
{
    char of[2][MS_REAL_TEXT];
    ms_real_text(low, of[0]);
    ms_real_text(high, of[1]);
    if (isnan(low))
        ms_table_is_fields(t, ",");
    else
        ms_table_is_fields(t, "%s,%s", of[0], of[1]);
}

static void add_slope(ms_table *t, const ms_theory_slope *s)
{
    if (isnan(s->mean))
        ms_table_add(t, "-");
    else
        ms_table_add(t, "%.3f", s->mean);
    ms_table_is(t, s->mean);
    if (isnan(s->low))
        ms_table_add(t, "-");
    else
        ms_table_add(t, "%.3f to %.3f", s->low, s->high);
    range_fields(t, s->low, s->high);
}

static const char *beside_third(const ms_theory_slope *s)
{
    const double third = -1.0 / 3.0;
    if (isnan(s->low)) return "-";
    return s->high < third ? "steeper" : s->low > third ? "flatter" : "agrees";
}

static void note_slope(const build *b, const char *suite, const ms_theory_point *p,
                       const ms_theory_slope *s)
{
    json_t *one = json_object();
    json_object_set_new(one, "suite", json_string(suite));
    json_object_set_new(one, "problem", json_string(p->problem));
    json_object_set_new(one, "method", json_string(p->label));
    json_object_set_new(one, "sigma", ms_json_real(p->sigma));
    json_object_set_new(one, "slope", ms_json_real(s->mean));
    json_object_set_new(one, "low", ms_json_real(s->low));
    json_object_set_new(one, "high", ms_json_real(s->high));
    json_array_append_new(b->slopes, one);
}

/* Slope, and where the curve ends; seeds whose mean |Hbar| is within the bound. */
static void add_row(const build *b, ms_table *t, const char *suite, const series *c, bool by_rank)
{
    const ms_theory_point *last  = c->n > 0 ? c->at[c->n - 1] : NULL;
    const size_t           seeds = (size_t)b->s->seeds;
    const ms_theory_slope  s     = fit(b, c, "hbar_mean");
    double                 low, high, hbar, hull, bound;
    size_t                 inside = 0;

    if (last == NULL) return;
    for (size_t k = 0; k < c->n; k++)
        for (size_t i = 0; i < seeds; i++)
            inside += value_of(c->at[k], i, "hbar_mean") <= value_of(c->at[k], i, "bound");
    hbar  = mean_of(last, seeds, "hbar_mean", &low, &high);
    bound = mean_of(last, seeds, "bound", &low, &high);
    ms_table_add(t, "%s", last->problem);
    ms_table_add(t, "%s", last->label);
    ms_table_add(t, "%g", last->sigma);
    ms_table_is(t, last->sigma);
    add_slope(t, &s);
    if (!by_rank) ms_table_add(t, "%s", beside_third(&s));
    hull = mean_of(last, seeds, "hull_upper", &low, &high);
    ms_table_add(t, "%.4g", hbar);
    ms_table_is(t, hbar);
    ms_table_add(t, "%.2g", hull);
    ms_table_is(t, hull);
    ms_table_add(t, "%.4g", bound);
    ms_table_is(t, bound);
    ms_table_add(t, "%.3g", bound / hbar);
    ms_table_is(t, bound / hbar);
    ms_table_add(t, "%zu of %zu", inside, c->n * seeds);
    ms_table_is_fields(t, "%zu,%zu", inside, c->n * seeds);
    note_slope(b, suite, last, &s);
}

static void begin_table(ms_table *t, bool by_rank)
{
    static const struct {
        const char *name, *csv; /* NULL: the same */
        bool        of_rate;    /* not in the table by rank */
    } columns[] = {
        { "problem", NULL, false },
        { "method", NULL, false },
        { "sigma", NULL, false },
        { "slope", NULL, false },
        { "95 %", "95 % low,95 % high", false },
        { "to -1/3", NULL, true },
        { "|Hbar| at the end", NULL, false },
        { "hull there", NULL, false },
        { "bound there", NULL, false },
        { "bound / |Hbar|", NULL, false },
        { "runs inside", "runs inside,runs", false },
    };
    t->align = by_rank ? "llrrrrrrrr" : "llrrrlrrrrr";
    for (size_t i = 0; i < COUNT(columns); i++) {
        if (by_rank && columns[i].of_rate) continue;
        ms_table_add(t, "%s", columns[i].name);
        if (columns[i].csv != NULL) ms_table_is_fields(t, "%s", columns[i].csv);
    }
}

static const char *label_of(const series *s) { return s->n > 0 ? s->at[0]->label : ""; }
static const char *problem_of(const series *s) { return s->n > 0 ? s->at[0]->problem : ""; }

/* Every curve of a suite once: its first points. */
static size_t list_series(const build *b, const char *suite, bool by_rank, series out[MOST_SERIES])
{
    size_t n = 0;
    for (size_t i = 0; i < b->s->n && n < MOST_SERIES; i++) {
        const ms_theory_point *p    = &b->s->at[i];
        bool                   seen = p->result == NULL || strcmp(p->suite, suite) != 0;
        for (size_t k = 0; k < n && !seen; k++)
            seen = strcmp(out[k].at[0]->problem, p->problem) == 0 &&
                   strcmp(out[k].at[0]->label, p->label) == 0 && out[k].at[0]->sigma == p->sigma;
        if (!seen) out[n++] = find_series(b, suite, p->problem, p->label, p->sigma, by_rank);
    }
    return n;
}

static void add_table(const build *b, ms_section *section, const char *suite, bool by_rank,
                      const char *caption)
{
    series      *all = calloc(MOST_SERIES, sizeof *all);
    ms_table     t   = { .align = "" };
    char         id[ID];
    const size_t n = all == NULL ? 0 : list_series(b, suite, by_rank, all);

    begin_table(&t, by_rank);
    for (size_t i = 0; i < n; i++)
        add_row(b, &t, suite, &all[i], by_rank);
    snprintf(id, sizeof id, "theory-%s-slopes", suite);
    ms_section_table(b->page, section, id, caption, &t);
    free(all);
}

/* ---- the sections ---------------------------------------------------------------------------- */

/* A panel for each problem of the suite at this noise. */
static void three_figure(const build *b, ms_section *section, const char *suite, double sigma,
                         bool by_rank, const char *id, const char *title, const char *caption)
{
    series      *all = calloc(MOST_SERIES, sizeof *all);
    ms_figure    f   = { 0 };
    const size_t n   = all == NULL ? 0 : list_series(b, suite, by_rank, all);

    ms_figure_begin(&f, id, title, caption);
    for (size_t i = 0; i < n; i++) {
        const ms_theory_point *p = all[i].n > 0 ? all[i].at[0] : NULL;
        ms_panel              *panel;
        if (p == NULL || p->sigma != sigma) continue;
        panel = log_panel(&f, p->problem, by_rank ? "r" : "N", "Frobenius norm");
        add_three(b, &f, panel, &all[i]);
        add_guide(b, &f, panel, by_rank ? "r^(1/2)" : "N^(-1/3)", 2, &all[i], "hbar_mean",
                  by_rank ? 0.5 : -1.0 / 3.0);
    }
    ms_section_figure(b->page, section, &f);
    free(all);
}

static void add_rate(const build *b)
{
    ms_section *s = ms_page_section(b->page, "theory-rate", "The rate in N", "Theorem, Corollary");
    ms_section_words(
        b->page, s,
        "The theorem bounds the mean over epochs of |Hbar|, the norm of an epoch's mean "
        "subgradient; with the Corollary's parameters the bound falls as N^(-1/3). It holds a "
        "fortiori for the hull distance, from zero to the subgradients within delta of the point "
        "that is returned, here from 256 of them: what is left of it where the curve is flat is "
        "the samples' doing. Below 1e-5 it is drawn at 1e-5.");
    three_figure(b, s, "rate", 0.0, false, "theory-rate-exact", "Exact subgradients",
                 "Musec with the Corollary's parameters; dotted: the slope -1/3.");
    three_figure(
        b, s, "rate", 0.5, false, "theory-rate-noise",
        "Noise of deviation 0.5 on every subgradient",
        "The same with noise. Where it drowns the subgradients, |Hbar| is near the length of "
        "those at first, far below the bound, and falls more slowly until N is larger.");
    add_table(b, s, "rate", false,
              "Slopes of mean |Hbar| over N on logarithmic axes, with the interval of 95 % over "
              "seeds; to -1/3: steeper or flatter if the interval excludes it. The problem relu is "
              "not weakly convex: the theorem does not speak of it.");
}

static void add_rank(const build *b)
{
    ms_section *s = ms_page_section(b->page, "theory-rank", "The rank", "Corollary");
    ms_section_words(b->page, s,
                     "Matrices of 2r x r at the same N and delta. The bound grows as r^(1/2) where "
                     "L and the gap do not change with r, as in kinks.");
    three_figure(b, s, "rank", 0.5, true, "theory-rank", "Dependence on r",
                 "Noise of deviation 0.5; dotted: r^(1/2).");
    add_table(b, s, "rank", true, "Slopes of mean |Hbar| over r on logarithmic axes.");
}

/* |Hbar| of every epoch of the first seed, at the largest N. */
static void add_epochs(ms_figure *f, ms_panel *panel, const char *label, ms_style style,
                       const series *c)
{
    const json_t *run  = json_array_get(json_object_get(c->at[c->n - 1]->result, "runs"), 0);
    const json_t *hbar = json_object_get(run, "hbar");
    ms_curve     *curve;

    style.marker = 0;
    curve        = ms_panel_curve(f, panel, label, style);
    for (size_t i = 0; i < json_array_size(hbar); i++)
        ms_curve_point(f, curve,
                       (ms_point){ .x    = (double)i + 1.0,
                                   .y    = json_number_value(json_array_get(hbar, i)),
                                   .low  = NAN,
                                   .high = NAN },
                       (const char *)NULL);
}

/* By their place in the suite: methods of one optimizer stand side by side here. */
static ms_style method_style(size_t index)
{
    static const ms_style styles[] = { { "#4aa9e4", 0, MS_MARKER_SQUARE },
                                       { "#d04f00", 0, MS_MARKER_DIAMOND },
                                       { "#e39c00", 1, MS_MARKER_DOWNWARD },
                                       { "#8f7be0", 3, MS_MARKER_OPEN_DIAMOND },
                                       { "#6d747b", 2, MS_MARKER_OPEN_CIRCLE } };
    return styles[index % COUNT(styles)];
}

/* Methods of the polar suite: by N, and epoch by epoch. */
static void polar_figure(const build *b, ms_section *s)
{
    series      *all = calloc(MOST_SERIES, sizeof *all);
    ms_figure    f   = { 0 };
    const size_t n   = all == NULL ? 0 : list_series(b, "polar", false, all);
    ms_panel    *p;

    ms_figure_begin(
        &f, "theory-polar", "Two crossed kinks",
        "Mean |Hbar| over N; the distance of the hull at what is returned; f at the last "
        "step; and |Hbar| epoch by epoch at the largest N, first seed.");
    p = log_panel(&f, "mean over epochs", "N", "mean |Hbar|");
    for (size_t i = 0; i < n; i++)
        add_curve(b, &f, p, label_of(&all[i]), method_style(i), &all[i], "hbar_mean", 0.0);
    p = log_panel(&f, "what is returned", "N", "hull distance");
    for (size_t i = 0; i < n; i++)
        add_curve(b, &f, p, label_of(&all[i]), method_style(i), &all[i], "hull_upper", HULL_FLOOR);
    p = log_panel(&f, "the last step", "N", "f(W_N)");
    for (size_t i = 0; i < n; i++)
        add_curve(b, &f, p, label_of(&all[i]), method_style(i), &all[i], "f_end", HULL_FLOOR);
    p = ms_figure_panel(&f, "largest N", "epoch", "|Hbar|");
    for (size_t i = 0; i < n; i++)
        add_epochs(&f, p, label_of(&all[i]), method_style(i), &all[i]);
    ms_section_figure(b->page, s, &f);
    free(all);
}

static void add_polar(const build *b)
{
    ms_section *s = ms_page_section(b->page, "theory-polar", "Where the exact polar step hops", "");
    ms_section_words(
        b->page, s,
        "f = 0.1 |<U, W>| + |<V, W>|, U and V of norm one and at right angles, with the same "
        "singular vectors and singular values 1 and +-1. At the kink of V the subgradient's part "
        "along V changes sign at every step, and momentum of weight beta averages it to +-beta / "
        "(2 - beta), a third for beta = 0.5. That is more than 0.1, so every singular value of the "
        "momentum has the sign that V gives it, and the polar factor is +-V at full size, however "
        "little of V is left: the iterate hops from one side of V's kink to the other, never moves "
        "along U, and |Hbar| stays at 0.1 for every N.");
    ms_section_words(
        b->page, s,
        "For every fixed beta and learning rate there is such a function, with a ratio that is "
        "small "
        "enough in place of 0.1; with a smaller beta Muon gets through this one. Newton-Schulz "
        "steps leave singular values of different size different: they creep along U, which f "
        "shows "
        "before |Hbar| does. Musec with beta = 0.5 is caught as well: what frees it is the "
        "Corollary's beta, which falls with N, as the theorem asks (beta <= 1/8). With that beta "
        "the "
        "exact polar step arrives here too.");
    polar_figure(b, s);
    add_table(
        b, s, "polar", false,
        "Slopes of mean |Hbar| over N. The bound is Musec's; it speaks of the first row alone.");
}

static void clip_figure(const build *b, ms_section *s)
{
    series      *all = calloc(MOST_SERIES, sizeof *all);
    ms_figure    f   = { 0 };
    ms_panel    *p   = NULL;
    const size_t n   = all == NULL ? 0 : list_series(b, "clip", false, all);

    ms_figure_begin(&f, "theory-clip", "The hard clip and the soft one",
                    "Mean |Hbar| over N, exact subgradients; dotted: N^(-1/3) and N^(-2/9).");
    for (size_t i = 0, nth = 0; i < n; i++, nth++) {
        const char *problem = problem_of(&all[i]);
        if (i == 0 || strcmp(problem, problem_of(&all[i - 1])) != 0) {
            p   = log_panel(&f, problem, "N", "mean |Hbar|");
            nth = 0;
        }
        add_curve(b, &f, p, label_of(&all[i]), method_style(nth), &all[i], "hbar_mean", 0.0);
        if (nth == 0) add_guide(b, &f, p, "N^(-1/3)", 2, &all[i], "hbar_mean", -1.0 / 3.0);
        if (nth == 1) add_guide(b, &f, p, "N^(-2/9)", 3, &all[i], "hbar_mean", -2.0 / 9.0);
    }
    ms_section_figure(b->page, s, &f);
    free(all);
}

static void add_clip(const build *b)
{
    ms_section *s = ms_page_section(b->page, "theory-clip", "Hard against soft", "");
    ms_section_words(
        b->page, s,
        "The proof needs a projection, and the soft clip h(s) = D s / sqrt(s^2 + D^2) is none: it "
        "also takes s^3 / (2 D^2) off what lies below D, at every step again. Under a steady "
        "subgradient of singular value g the momentum therefore settles near (2 beta g D^2)^(1/3) "
        "instead of min(g, D). With the Corollary's beta and D that falls as N^(-4/9) rather than "
        "N^(-1/3): the way to the minimum takes more epochs as N grows, and their share of all "
        "falls only as N^(-2/9). SPECTRA clips as softly, but does not carry the result on: its "
        "curve is like that of the hard clip.");
    clip_figure(b, s);
    add_table(b, s, "clip", false,
              "Slopes of mean |Hbar| over N. The bound is that of the hard clip.");
}

/* ---- the item -------------------------------------------------------------------------------- */

static musec_status print_state(ms_error *e, const ms_paper *p, const ms_theory_suites *s)
{
    const size_t files = ms_theory_suites_files(s), missing = ms_theory_suites_missing(s);
    json_t      *json;
    musec_status st;

    if (!p->args->json) {
        fprintf(p->to, "%zu settings of %lld seed%s in %s: %zu done, %zu waiting\n", files,
                (long long)s->seeds, s->seeds == 1 ? "" : "s", s->store, files - missing, missing);
        return MUSEC_OK;
    }
    json = json_pack("{s:I, s:I, s:I}", "settings", (json_int_t)files, "seeds",
                     (json_int_t)s->seeds, "done", (json_int_t)(files - missing));
    st   = ms_json_print(e, json, p->to);
    json_decref(json);
    return st;
}

musec_status ms_paper_theory_runs(ms_error *e, ms_paper *p, const ms_experiment *item)
{
    ms_theory_suites s = { 0 };
    musec_status     st;

    TRY(ms_theory_suites_read(e, p, item, &s));
    if (p->args->dry_run) {
        TRY(print_state(e, p, &s));
        goto done;
    }
    if (p->args->png != NULL) TRY(ms_png_ready(e)); /* before minutes of work, not after */
    if (!p->args->no_run) TRY(ms_theory_suites_make(e, p, &s));
done:
    ms_theory_suites_free(&s);
    return st;
}

musec_status ms_paper_theory(ms_error *e, ms_paper *p, const ms_experiment *item, ms_page *page,
                             json_t *result)
{
    ms_theory_suites s = { 0 };
    build            b = { .s = &s, .page = page, .slopes = json_array() };
    musec_status     st;

    TRY(ms_theory_suites_read(e, p, item, &s));
    if (ms_theory_suites_missing(&s) == ms_theory_suites_files(&s))
        TRY(ms_fail(e, MUSEC_EINVAL,
                    "none of the settings of theory is in %s; make them without "
                    "--no-run",
                    s.store));
    if (ms_theory_suites_missing(&s) > 0)
        ms_log_say(&p->log, MS_LOG_NORMAL, "note: %zu of %zu settings are not made yet",
                   ms_theory_suites_missing(&s), ms_theory_suites_files(&s));
    add_rate(&b);
    add_rank(&b);
    add_polar(&b);
    add_clip(&b);
    json_object_set(result, "slopes", b.slopes);
done:
    json_decref(b.slopes);
    ms_theory_suites_free(&s);
    return st;
}
