/* paper_theory.c - the page of musec paper theory: the theorem's quantities over N and r, for
 * several steps and clips.  Runs and sections are described in experiments/theory.json. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/json_file.h"
#include "core/real.h"
#include "experiment/theory_suite.h"
#include "report/png.h"
#include "theory/fit.h"

enum { MAX_POINTS = 32, MAX_SERIES = 64, ID = 64 };

typedef struct series { /* the points of one curve, in the order of x */
    const ms_theory_point *first, *last;
    const ms_theory_point *at[MAX_POINTS];
    double                 x[MAX_POINTS]; /* N, or r */
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
    return ms_json_number(json_array_get(json_object_get(p->result, "runs"), seed), field);
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

/* The points of the curve that `first` belongs to. */
static series find_series(const build *b, const ms_theory_point *first)
{
    series out = { .first = first, .last = first };
    for (size_t i = 0; i < b->s->n && out.n < MAX_POINTS; i++) {
        const ms_theory_point *p = &b->s->at[i];
        if (p->result == NULL || strcmp(p->suite, first->suite) != 0 ||
            strcmp(p->problem, first->problem) != 0 || strcmp(p->label, first->label) != 0 ||
            p->sigma != first->sigma)
            continue;
        out.x[out.n]    = (double)(p->rank > 0 ? p->rank : p->steps);
        out.at[out.n++] = out.last = p;
    }
    return out;
}

static ms_theory_slope fit(const build *b, const series *c, const char *field)
{
    const size_t    seeds = (size_t)b->s->seeds;
    double         *y     = calloc(seeds * MAX_POINTS, sizeof *y);
    ms_theory_slope out   = { NAN, NAN, NAN, 0 };

    if (y == NULL) b->page->out_of_memory = true;
    for (size_t i = 0; y != NULL && i < seeds; i++)
        for (size_t k = 0; k < c->n; k++)
            y[i * c->n + k] = value_of(c->at[k], i, field);
    if (y != NULL && c->n > 1) out = ms_theory_slope_fit(c->x, y, seeds, c->n);
    free(y);
    return out;
}

/* ---- curves ---------------------------------------------------------------------------------- */

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

static void add_plain_point(ms_figure *f, ms_curve *curve, double x, double y)
{
    const ms_point point = { .x = x, .y = y, .low = NAN, .high = NAN };
    ms_curve_point(f, curve, point, (const char *)NULL);
}

/* A line through the curve's first point with a slope of the theory. */
static void add_guide(const build *b, ms_figure *f, ms_panel *panel, const json_t *guide, int dash,
                      const series *c)
{
    const double   exponent = json_number_value(json_object_get(guide, "exponent"));
    const ms_style style    = { "#8a8a8a", dash, MS_MARKER_NONE };
    ms_curve      *curve =
        ms_panel_curve(f, panel, json_string_value(json_object_get(guide, "label")), style);
    double low, high, first;

    first = mean_of(c->first, (size_t)b->s->seeds, "hbar_mean", &low, &high);
    for (size_t i = 0; i < c->n; i++)
        add_plain_point(f, curve, c->x[i], first * pow(c->x[i] / c->x[0], exponent));
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* The slope, and its range, "-0.36 to -0.31", of two columns in CSV. */
static void add_slope(ms_table *t, const ms_theory_slope *s)
{
    char low[MS_REAL_TEXT], high[MS_REAL_TEXT];

    ms_table_number(t, "%.3f", s->mean);
    if (isnan(s->low)) {
        ms_table_add(t, "-");
        ms_table_is_fields(t, ",");
        return;
    }
    ms_real_text(s->low, low);
    ms_real_text(s->high, high);
    ms_table_add(t, "%.3f to %.3f", s->low, s->high);
    ms_table_is_fields(t, "%s,%s", low, high);
}

static const char *beside_third(const ms_theory_slope *s)
{
    const double third = -1.0 / 3.0;
    if (isnan(s->low)) return "-";
    return s->high < third ? "steeper" : s->low > third ? "flatter" : "agrees";
}

static void note_slope(build *b, const char *suite, const ms_theory_point *p,
                       const ms_theory_slope *s)
{
    json_t *one = json_object();
    ms_json_add(&one, "suite=%s problem=%s method=%s sigma=%g slope=%g low=%g high=%g", suite,
                p->problem, p->label, p->sigma, s->mean, s->low, s->high);
    ms_json_append(&b->slopes, one);
}

/* Adds the slope, the values at the end of the curve, and how many runs are within the bound. */
static void add_row(build *b, ms_table *t, const char *suite, const series *c, bool by_rank)
{
    const ms_theory_point *last  = c->last;
    const size_t           seeds = (size_t)b->s->seeds;
    const ms_theory_slope  s     = fit(b, c, "hbar_mean");
    double                 low, high, hbar, hull, bound;
    size_t                 inside = 0;

    for (size_t k = 0; k < c->n; k++)
        for (size_t i = 0; i < seeds; i++)
            inside += value_of(c->at[k], i, "hbar_mean") <= value_of(c->at[k], i, "bound");
    hbar  = mean_of(last, seeds, "hbar_mean", &low, &high);
    bound = mean_of(last, seeds, "bound", &low, &high);
    ms_table_row(t, "%s\t%s\t%g", last->problem, last->label, last->sigma);
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

/* Lists every curve of a suite once. */
static size_t list_series(const build *b, const char *suite, series out[MAX_SERIES])
{
    size_t n = 0;
    for (size_t i = 0; i < b->s->n && n < MAX_SERIES; i++) {
        const ms_theory_point *p    = &b->s->at[i];
        bool                   seen = p->result == NULL || strcmp(p->suite, suite) != 0;
        for (size_t k = 0; k < n && !seen; k++)
            seen = strcmp(out[k].first->problem, p->problem) == 0 &&
                   strcmp(out[k].first->label, p->label) == 0 && out[k].first->sigma == p->sigma;
        if (!seen) out[n++] = find_series(b, p);
    }
    return n;
}

static void add_table(build *b, ms_section *section, const char *suite, const series *all, size_t n,
                      const char *caption)
{
    const bool by_rank = n > 0 && all[0].first->rank > 0;
    ms_table   t       = { .align = "" };
    char       id[ID];

    begin_table(&t, by_rank);
    for (size_t i = 0; i < n; i++)
        add_row(b, &t, suite, &all[i], by_rank);
    snprintf(id, sizeof id, "theory-%s-slopes", suite);
    ms_section_table(b->page, section, id, caption, &t);
}

/* ---- the sections ---------------------------------------------------------------------------- */

static const char *text_of(const json_t *object, const char *name)
{
    const json_t *text = json_object_get(object, name);
    return json_is_string(text) ? json_string_value(text) : "";
}

/* |Hbar| of every epoch of the first seed, at the largest N. */
static void add_epochs(ms_figure *f, ms_panel *panel, ms_style style, const series *c)
{
    const json_t *run  = json_array_get(json_object_get(c->last->result, "runs"), 0);
    const json_t *hbar = json_object_get(run, "hbar");
    ms_curve     *curve;

    style.marker = MS_MARKER_NONE;
    curve        = ms_panel_curve(f, panel, c->first->label, style);
    for (size_t i = 0; i < json_array_size(hbar); i++)
        add_plain_point(f, curve, (double)i + 1.0, json_number_value(json_array_get(hbar, i)));
}

/* Methods of one optimizer are compared here, so that styles go by their place in the suite. */
static ms_style style_at(size_t index)
{
    static const ms_style styles[] = {
        { "#4aa9e4", 0, MS_MARKER_SQUARE },      { "#d04f00", 0, MS_MARKER_DIAMOND },
        { "#e39c00", 1, MS_MARKER_DOWNWARD },    { "#8f7be0", 3, MS_MARKER_OPEN_DIAMOND },
        { "#6d747b", 2, MS_MARKER_OPEN_CIRCLE }, { "#009e73", 0, MS_MARKER_TRIANGLE },
        { "#6d747b", 1, MS_MARKER_NONE },
    };
    return styles[index % COUNT(styles)];
}

/* The curve of one field: a method's, or with a label of its own that of a quantity. */
static void add_field(const build *b, ms_figure *f, ms_panel *panel, const json_t *field,
                      const series *c, size_t nth)
{
    const json_t *label = json_object_get(field, "label"), *place = json_object_get(field, "style");
    const ms_style style = style_at(place != NULL ? (size_t)json_integer_value(place) : nth);

    if (json_is_true(json_object_get(field, "epochs")))
        add_epochs(f, panel, style, c);
    else
        add_curve(b, f, panel, label != NULL ? json_string_value(label) : c->first->label, style, c,
                  text_of(field, "field"), json_number_value(json_object_get(field, "floor")));
}

static ms_panel *new_panel(ms_figure *f, const char *title, const char *x, const json_t *from)
{
    const bool epochs = json_is_true(json_object_get(from, "epochs"));
    ms_panel  *p      = ms_figure_panel(f, title, epochs ? "epoch" : x, text_of(from, "y"));
    if (p != NULL) p->x_log = p->y_log = !epochs;
    return p;
}

/* A panel for each field, which has the curves of all methods. */
static void add_field_panels(const build *b, ms_figure *f, const json_t *fields, const series *all,
                             size_t n, const char *x)
{
    for (size_t k = 0; k < json_array_size(fields); k++) {
        const json_t *field = json_array_get(fields, k);
        ms_panel     *panel = new_panel(f, text_of(field, "title"), x, field);
        for (size_t i = 0; i < n; i++)
            add_field(b, f, panel, field, &all[i], i);
    }
}

/* A panel for each problem.  The guides begin at the first points of its first methods. */
static void add_problem_panels(const build *b, ms_figure *f, const json_t *spec, const series *all,
                               size_t n, const char *x)
{
    const json_t *fields = json_object_get(spec, "fields"), *sigma = json_object_get(spec, "sigma"),
                 *guides = json_object_get(spec, "guides");
    const char *problem  = NULL;
    ms_panel   *panel    = NULL;
    size_t      nth      = 0;

    for (size_t i = 0; i < n; i++) {
        const ms_theory_point *p = all[i].first;
        if (sigma != NULL && p->sigma != json_number_value(sigma)) continue;
        if (problem == NULL || strcmp(problem, p->problem) != 0) {
            panel = new_panel(f, p->problem, x, spec);
            nth   = 0;
        }
        problem = p->problem;
        for (size_t k = 0; k < json_array_size(fields); k++)
            add_field(b, f, panel, json_array_get(fields, k), &all[i], nth);
        if (nth < json_array_size(guides))
            add_guide(b, f, panel, json_array_get(guides, nth), 2 + (int)nth, &all[i]);
        nth++;
    }
}

static void add_section(build *b, const char *suite, const json_t *spec)
{
    const json_t *words   = json_object_get(spec, "words"),
                 *figures = json_object_get(spec, "figures");
    series      *all      = calloc(MAX_SERIES, sizeof *all);
    const size_t n        = all == NULL ? 0 : list_series(b, suite, all);
    const char  *x        = n > 0 && all[0].first->rank > 0 ? "r" : "N";
    char         id[ID];
    ms_section  *section;

    if (all == NULL) b->page->out_of_memory = true;
    snprintf(id, sizeof id, "theory-%s", suite);
    section = ms_page_section(b->page, id, text_of(spec, "title"), text_of(spec, "shows"));
    for (size_t i = 0; i < json_array_size(words); i++)
        ms_section_text(b->page, section, "%s", json_string_value(json_array_get(words, i)));
    for (size_t i = 0; i < json_array_size(figures); i++) {
        const json_t *figure = json_array_get(figures, i),
                     *fields = json_object_get(figure, "fields");
        ms_figure f          = { 0 };
        ms_figure_begin(&f, text_of(figure, "id"), text_of(figure, "title"),
                        text_of(figure, "caption"));
        if (strcmp(text_of(figure, "panels"), "fields") == 0)
            add_field_panels(b, &f, fields, all, n, x);
        else
            add_problem_panels(b, &f, figure, all, n, x);
        ms_section_figure(b->page, section, &f);
    }
    add_table(b, section, suite, all, n, text_of(spec, "slopes"));
    free(all);
}

/* ---- the item -------------------------------------------------------------------------------- */

static musec_status print_state(ms_error *e, const ms_paper *p, const ms_theory_suites *s)
{
    const size_t files = ms_theory_suites_files(s), missing = ms_theory_suites_missing(s);
    json_t      *json;

    if (!p->args->json) {
        fprintf(p->to, "%zu settings of %lld seed%s in %s: %zu done, %zu waiting\n", files,
                (long long)s->seeds, s->seeds == 1 ? "" : "s", s->store, files - missing, missing);
        return MUSEC_OK;
    }
    json = json_pack("{s:I, s:I, s:I}", "settings", (json_int_t)files, "seeds",
                     (json_int_t)s->seeds, "done", (json_int_t)(files - missing));
    return ms_json_finish(e, json, p->to);
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
                             json_t **result)
{
    ms_theory_suites s = { 0 };
    build            b = { .s = &s, .page = page, .slopes = json_array() };
    const char      *suite;
    json_t          *spec;
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
    json_object_foreach(json_object_get(item->file, "page"), suite, spec)
    {
        add_section(&b, suite, spec);
    }
    ms_json_set(result, "slopes", b.slopes);
    b.slopes = NULL;
done:
    json_decref(b.slopes);
    ms_theory_suites_free(&s);
    return st;
}
