/* section_rig.c - see section_rig.h. */
#include "section_rig.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

struct page_rig now;

const ms_report_options usual         = { .within = 0.02 },
                        without_times = { .within = 0.02, .omit_times = true };

void make_sections(const ms_report_options *options)
{
    ms_page_free(&now.page);
    ms_compare_free(&now.c);
    CHECK_OK_ERR(&now.e, ms_compare_build(&now.e, &now.set, &now.c));
    ms_page_begin(&now.page, "made", NULL);
    CHECK_OK_ERR(&now.e, ms_sections_build(&now.e, &now.c, options, &now.page));
}

void make(const ms_report_options *options, const char *const *runs, size_t n)
{
    ms_runset_free(&now.set);
    for (size_t i = 0; i < n; i++)
        run_rig_add(&now.set, runs[i]);
    make_sections(options);
}

/* ---- contents of the page -------------------------------------------------------------------- */

const ms_section *section(const char *id)
{
    for (size_t i = 0; i < now.page.n; i++)
        if (strcmp(now.page.sections[i].id, id) == 0) return &now.page.sections[i];
    return NULL;
}

const ms_block *block(const char *id)
{
    for (size_t i = 0; i < now.page.n; i++)
        for (size_t k = 0; k < now.page.sections[i].n; k++) {
            const ms_block *b = &now.page.sections[i].blocks[k];
            if (b->kind == MS_BLOCK_FIGURE && strcmp(b->figure.id, id) == 0) return b;
            if (b->kind == MS_BLOCK_TABLE && strcmp(b->id, id) == 0) return b;
        }
    check_failed(__FILE__, __LINE__, "block", "there is no %s", id);
}

const ms_panel *panel(const char *figure, size_t number)
{
    const ms_figure *f = &block(figure)->figure;
    CHECK(number < f->n, "%s has %zu panels", figure, f->n);
    return &f->panels[number];
}

const ms_curve *curve(const char *figure, size_t number, const char *label)
{
    const ms_panel *p = panel(figure, number);
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->curves[i].label, label) == 0) return &p->curves[i];
    check_failed(__FILE__, __LINE__, "curve", "panel %zu of %s has no %s", number, figure, label);
}

void check_point(const ms_curve *c, size_t at, double x, double y)
{
    CHECK(at < c->n, "%s has %zu points", c->label, c->n);
    CHECK(fabs(c->at[at].x - x) <= 1e-12, "%s: x is %g, not %g", c->label, c->at[at].x, x);
    if (isnan(y))
        CHECK(isnan(c->at[at].y) && c->at[at].diverged, "%s at %g did not diverge", c->label, x);
    else
        CHECK(fabs(c->at[at].y - y) <= 1e-12, "%s at %g: y is %g, not %g", c->label, x, c->at[at].y,
              y);
}

void check_row(const char *table, size_t row, const char *want)
{
    const ms_table *t         = &block(table)->table;
    const size_t    n         = strlen(t->align);
    char            text[512] = "";
    size_t          used      = 0;
    CHECK((row + 2) * n <= t->n_cells, "%s has no row %zu", table, row);
    for (size_t i = 0; i < n; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i > 0 ? "|" : "",
                                 t->cells[(row + 1) * n + i]);
    CHECK(strcmp(text, want) == 0, "%s, row %zu: %s", table, row, text);
}

void check_rows(const char *table, size_t n)
{
    const ms_table *t = &block(table)->table;
    CHECK(t->n_cells == (n + 1) * strlen(t->align), "%s has %zu cells", table, t->n_cells);
}

void check_has(const char *text, const char *part)
{
    CHECK(strstr(text, part) != NULL, "\"%s\" is not in \"%s\"", part, text);
}

void check_caption(const char *figure, const char *part)
{
    check_has(block(figure)->figure.caption, part);
}
