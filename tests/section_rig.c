/* section_rig.c - see section_rig.h. */
#include "section_rig.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

void make(rig *r, const made *runs, size_t n, const ms_report_options *options)
{
    *r = (rig){ 0 };
    for (size_t i = 0; i < n; i++)
        run_rig_add(&r->set, runs[i]);
    CHECK_OK_ERR(&r->e, ms_compare_build(&r->e, &r->set, &r->c));
    ms_page_begin(&r->page, "made", NULL);
    CHECK_OK_ERR(&r->e, ms_sections_build(&r->e, &r->c, options, &r->page));
}

const ms_report_options usual = { .within = 0.02 };

void release(rig *r)
{
    ms_page_free(&r->page);
    ms_compare_free(&r->c);
    ms_runset_free(&r->set);
}

/* ---- what is in the page --------------------------------------------------------------------- */

const ms_section *section(const rig *r, const char *id)
{
    for (size_t i = 0; i < r->page.n; i++)
        if (strcmp(r->page.sections[i].id, id) == 0) return &r->page.sections[i];
    return NULL;
}

const ms_block *block(const rig *r, const char *id)
{
    for (size_t i = 0; i < r->page.n; i++)
        for (size_t k = 0; k < r->page.sections[i].n; k++) {
            const ms_block *b = &r->page.sections[i].blocks[k];
            if (b->kind == MS_BLOCK_FIGURE && strcmp(b->figure.id, id) == 0) return b;
            if (b->kind == MS_BLOCK_TABLE && strcmp(b->id, id) == 0) return b;
        }
    check_failed(__FILE__, __LINE__, "block", "there is no %s", id);
}

const ms_curve *curve(const rig *r, const char *figure, size_t panel, const char *label)
{
    const ms_figure *f = &block(r, figure)->figure;
    CHECK(panel < f->n, "%s has %zu panels", figure, f->n);
    for (size_t i = 0; i < f->panels[panel].n; i++)
        if (strcmp(f->panels[panel].curves[i].label, label) == 0)
            return &f->panels[panel].curves[i];
    check_failed(__FILE__, __LINE__, "curve", "panel %zu of %s has no %s", panel, figure, label);
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

/* Row `row` of a table, 0 being the first below the names, as "a|b|c". */
void check_row(const rig *r, const char *table, size_t row, const char *want)
{
    const ms_table *t         = &block(r, table)->table;
    const size_t    n         = strlen(t->align);
    char            text[512] = "";
    size_t          used      = 0;
    CHECK((row + 2) * n <= t->n_cells, "%s has no row %zu", table, row);
    for (size_t i = 0; i < n; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i > 0 ? "|" : "",
                                 t->cells[(row + 1) * n + i]);
    CHECK(strcmp(text, want) == 0, "%s, row %zu: %s", table, row, text);
}

void check_rows(const rig *r, const char *table, size_t n)
{
    const ms_table *t = &block(r, table)->table;
    CHECK(t->n_cells == (n + 1) * strlen(t->align), "%s has %zu cells", table, t->n_cells);
}
