/* page.c - collects the contents of a report, and writes its files. */
#define _POSIX_C_SOURCE 200809L /* strdup */
#include "report/page.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/grow.h"
#include "core/real.h"
#include "core/text.h"
#include "report/html.h"
#include "report/png.h"

/* ---- contents -------------------------------------------------------------------------------- */

static char *copy(ms_page *p, const char *text)
{
    char *own = strdup(text);
    if (own == NULL) p->out_of_memory = true;
    return own;
}

void ms_page_begin(ms_page *p, const char *title, const char *lead)
{
    *p       = (ms_page){ 0 };
    p->title = copy(p, title);
    if (lead != NULL) p->lead = copy(p, lead);
    ms_page_footer(p, "Page made by musec %s.", musec_version());
}

static void *one_more(ms_page *p, void *at, size_t n, size_t *capacity, size_t each)
{
    void *more = ms_grow(at, n, capacity, each);
    if (more == NULL) p->out_of_memory = true;
    return more;
}

ms_section *ms_page_section(ms_page *p, const char *id, const char *title, const char *shows)
{
    ms_section *more = one_more(p, p->sections, p->n, &p->capacity, sizeof *p->sections);
    ms_section *s;

    if (more == NULL) return NULL;
    p->sections = more;
    s           = &more[p->n++];
    *s          = (ms_section){ 0 };
    s->id       = copy(p, id);
    s->title    = copy(p, title);
    s->shows    = copy(p, shows);
    return s;
}

static ms_block *add_block(ms_page *p, ms_section *s, ms_block_kind kind)
{
    ms_block *more;

    if (s == NULL) return NULL;
    more = one_more(p, s->blocks, s->n, &s->capacity, sizeof *s->blocks);
    if (more == NULL) return NULL;
    s->blocks       = more;
    s->blocks[s->n] = (ms_block){ .kind = kind };
    return &s->blocks[s->n++];
}

void ms_section_text(ms_page *p, ms_section *s, const char *fmt, ...)
{
    ms_block *b = add_block(p, s, MS_BLOCK_TEXT);
    va_list   args;

    if (b == NULL) return;
    va_start(args, fmt);
    b->text = ms_text_format(fmt, args);
    va_end(args);
    if (b->text == NULL) p->out_of_memory = true;
}

void ms_page_headline(ms_page *p, const char *text)
{
    free(p->headline);
    p->headline = copy(p, text);
}

void ms_page_counts(ms_page *p, ms_table *pairs)
{
    ms_table_free(&p->counts);
    if (pairs->out_of_memory) p->out_of_memory = true;
    p->counts = *pairs;
    *pairs    = (ms_table){ .align = pairs->align };
}

/* Appends a line and frees it. */
static void append_line(ms_page *p, char **text, char *line)
{
    const size_t n    = *text == NULL ? 0 : strlen(*text) + 1;
    char        *more = line == NULL ? NULL : realloc(*text, n + strlen(line) + 1);

    if (more == NULL) {
        p->out_of_memory = true;
    } else {
        if (n > 0) more[n - 1] = '\n';
        memcpy(more + n, line, strlen(line) + 1);
        *text = more;
    }
    free(line);
}

void ms_page_footer(ms_page *p, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    append_line(p, &p->footer, ms_text_format(fmt, args));
    va_end(args);
}

void ms_section_notes(ms_page *p, ms_section *s, const char *fmt, ...)
{
    va_list args;
    if (s == NULL || s->n == 0) return;
    va_start(args, fmt);
    append_line(p, &s->blocks[s->n - 1].notes, ms_text_format(fmt, args));
    va_end(args);
}

void ms_section_figure(ms_page *p, ms_section *s, ms_figure *figure)
{
    ms_block *b = add_block(p, s, MS_BLOCK_FIGURE);

    if (b == NULL) {
        ms_figure_free(figure);
        return;
    }
    if (figure->out_of_memory) p->out_of_memory = true;
    b->figure = *figure;
    *figure   = (ms_figure){ 0 };
    if (b->figure.id != NULL) b->id = copy(p, b->figure.id);
}

void ms_section_table(ms_page *p, ms_section *s, const char *id, const char *caption,
                      ms_table *table)
{
    ms_block *b = add_block(p, s, MS_BLOCK_TABLE);

    if (b == NULL) {
        ms_table_free(table);
        return;
    }
    b->table = *table;
    *table   = (ms_table){ .align = table->align };
    b->id    = copy(p, id);
    b->text  = copy(p, caption);
}

void ms_page_free(ms_page *p)
{
    for (size_t i = 0; i < p->n; i++) {
        ms_section *s = &p->sections[i];
        for (size_t k = 0; k < s->n; k++) {
            ms_block *b = &s->blocks[k];
            ms_figure_free(&b->figure);
            ms_table_free(&b->table);
            free(b->id);
            free(b->text);
            free(b->notes);
        }
        free(s->blocks);
        free(s->id);
        free(s->title);
        free(s->shows);
    }
    free(p->sections);
    free(p->title);
    free(p->lead);
    free(p->headline);
    ms_table_free(&p->counts);
    free(p->footer);
    *p = (ms_page){ 0 };
}

/* ---- names ----------------------------------------------------------------------------------- */

static bool is_file_name(const char *id)
{
    return id[0] != '\0' && id[0] != '.' && strlen(id) <= 100 &&
           strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") ==
               strlen(id);
}

/* Does a block before block k of section i have this id? */
static bool is_taken(const ms_page *p, size_t i, size_t k, const char *id)
{
    for (size_t s = 0; s <= i; s++)
        for (size_t b = 0; b < (s < i ? p->sections[s].n : k); b++)
            if (p->sections[s].blocks[b].id != NULL && strcmp(p->sections[s].blocks[b].id, id) == 0)
                return true;
    return false;
}

static bool has_numbers(const ms_block *b)
{
    return b->kind == MS_BLOCK_FIGURE || b->kind == MS_BLOCK_TABLE;
}

/* Ids name files and anchors in the page: they must be valid as both, and unique. */
static musec_status check_ids(ms_error *e, const ms_page *p)
{
    for (size_t i = 0; i < p->n; i++) {
        const ms_section *s = &p->sections[i];
        for (size_t k = 0; k < i; k++)
            if (strcmp(p->sections[k].id, s->id) == 0)
                return ms_fail(e, MUSEC_EINVAL, "the report has two sections called %s", s->id);
        if (!is_file_name(s->id))
            return ms_fail(e, MUSEC_EINVAL, "a section cannot be called '%s'", s->id);
        for (size_t k = 0; k < s->n; k++) {
            const char *id = s->blocks[k].id;
            if (!has_numbers(&s->blocks[k])) continue;
            if (id == NULL || !is_file_name(id))
                return ms_fail(e, MUSEC_EINVAL, "a figure or table cannot be called '%s'",
                               id == NULL ? "" : id);
            if (is_taken(p, i, k, id))
                return ms_fail(e, MUSEC_EINVAL, "the report has two figures or tables called %s",
                               id);
        }
    }
    return MUSEC_OK;
}

/* ---- CSV ------------------------------------------------------------------------------------- */

static void put_real(double x, FILE *to) /* an empty field if it is NaN */
{
    char text[MS_REAL_TEXT];
    ms_real_text(x, text);
    fprintf(to, ",%s", isnan(x) ? "" : text);
}

static void put_figure_csv(const ms_figure *f, FILE *to)
{
    fputs("panel,curve,x,y,low,high,diverged,stalled\r\n", to);
    for (size_t i = 0; i < f->n; i++)
        for (size_t k = 0; k < f->panels[i].n; k++)
            for (size_t j = 0; j < f->panels[i].curves[k].n; j++) {
                const ms_point *at = &f->panels[i].curves[k].at[j];
                if (at->extra) continue;
                if (f->panels[i].title[0] != '\0')
                    ms_csv_text(f->panels[i].title, to);
                else
                    fprintf(to, "%zu", i + 1);
                putc(',', to);
                ms_csv_text(f->panels[i].curves[k].label, to);
                put_real(at->x, to);
                put_real(at->diverged ? NAN : at->y, to);
                put_real(at->low, to);
                put_real(at->high, to);
                fprintf(to, ",%zu,%zu\r\n",
                        at->n_diverged > 0 ? at->n_diverged : (size_t)at->diverged, at->stalled);
            }
}

static musec_status write_csv(ms_error *e, const ms_block *b, const char *dir, ms_out_file *out)
{
    char         name[128], path[MS_PATH_MAX];
    musec_status st;

    snprintf(name, sizeof name, "%s.csv", b->id);
    TRY(ms_path_join(e, dir, name, path));
    TRY(ms_out_open(e, path, out));
    if (b->kind == MS_BLOCK_FIGURE)
        put_figure_csv(&b->figure, out->f);
    else
        TRY(ms_table_csv(e, &b->table, out->f));
    TRY(ms_out_commit(e, out));
done:
    ms_out_abandon(out);
    return st;
}

static musec_status write_all_csv(ms_error *e, const ms_page *p, const char *dir, ms_out_file *out)
{
    musec_status st;

    TRY(ms_directory_make(e, dir));
    for (size_t i = 0; i < p->n; i++)
        for (size_t k = 0; k < p->sections[i].n; k++)
            if (has_numbers(&p->sections[i].blocks[k]))
                TRY(write_csv(e, &p->sections[i].blocks[k], dir, out));
done:
    return st;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* PNG files are written first: without the program that converts them, no file is written. */
static musec_status write_all_png(ms_error *e, const ms_page *p, const char *dir)
{
    musec_status st;

    TRY(ms_directory_make(e, dir));
    for (size_t i = 0; i < p->n; i++)
        for (size_t k = 0; k < p->sections[i].n; k++)
            if (p->sections[i].blocks[k].kind == MS_BLOCK_FIGURE)
                TRY(ms_png_write(e, &p->sections[i].blocks[k].figure, dir));
done:
    return st;
}

static musec_status write_html(ms_error *e, const ms_page *p, const char *path, ms_out_file *out)
{
    musec_status st;

    TRY(ms_out_open(e, path, out));
    TRY(ms_html_page(e, p, out->f));
    TRY(ms_out_commit(e, out));
done:
    ms_out_abandon(out);
    return st;
}

musec_status ms_page_write(ms_error *e, const ms_page *p, const ms_page_files *files)
{
    ms_out_file *out = calloc(1, sizeof *out);
    musec_status st  = MUSEC_OK;

    if (p->out_of_memory || out == NULL) {
        st = ms_fail(e, MUSEC_ENOMEM, "not enough memory for the report");
        goto done;
    }
    TRY(check_ids(e, p));
    if (files->png_dir != NULL) TRY(write_all_png(e, p, files->png_dir));
    if (files->csv_dir != NULL) TRY(write_all_csv(e, p, files->csv_dir, out));
    if (files->html != NULL) TRY(write_html(e, p, files->html, out));
done:
    free(out);
    return st;
}
