/* html.c - one page that needs nothing but itself: style and script stand in it, plots are SVG. */
#define _POSIX_C_SOURCE 200809L /* strndup */
#include "report/html.h"

#include <stdlib.h>
#include <string.h>

#include "core/embedded.h"
#include "report/script.h"

enum { MOST_ROWS = 40 }; /* of a table that stands open */

/* <tag class="...">text</tag> */
static void put_element(const char *tag, const char *class, const char *text, FILE *to)
{
    fprintf(to, "<%s", tag);
    if (class != NULL) fprintf(to, " class=\"%s\"", class);
    putc('>', to);
    ms_html_text(text, to);
    fprintf(to, "</%s>\n", tag);
}

static void put_counts(const ms_table *pairs, FILE *to)
{
    if (pairs->n_cells == 0) return;
    fputs("<ul class=\"counts\">\n", to);
    for (size_t i = 0; i + 1 < pairs->n_cells; i += 2) {
        ms_html_badge("li", pairs->cells[i], pairs->cells[i + 1], to);
        putc('\n', to);
    }
    fputs("</ul>\n", to);
}

static void put_head(const ms_page *p, FILE *to)
{
    fputs("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n",
          to);
    put_element("title", NULL, p->title, to);
    fputs("<style>\n", to);
    fwrite(ms_embedded_page_css, 1, ms_embedded_page_css_bytes, to);
    fputs("</style>\n</head>\n<body>\n<header>\n", to);
    put_element("h1", NULL, p->title, to);
    if (p->headline != NULL) put_element("p", "headline", p->headline, to);
    put_counts(&p->counts, to);
    if (p->lead != NULL) put_element("p", "lead", p->lead, to);
    fputs("</header>\n", to);
}

static void put_contents(const ms_page *p, FILE *to)
{
    if (p->n < 2) return;
    fputs("<nav aria-label=\"Contents\">\n<h2>Contents</h2>\n<ul>\n", to);
    for (size_t i = 0; i < p->n; i++) {
        fputs("<li><a href=\"#", to);
        ms_html_text(p->sections[i].id, to);
        fputs("\">", to);
        ms_html_text(p->sections[i].title, to);
        fputs("</a></li>\n", to);
    }
    fputs("</ul>\n</nav>\n", to);
}

/* A piece of line with its dash and mark, or a piece of a bar. */
static void put_sample(const ms_panel *p, ms_style style, FILE *to)
{
    fputs("<svg viewBox=\"0 0 34 14\" aria-hidden=\"true\">", to);
    if (p->bars) {
        fprintf(to, "<path d=\"M10,1h14v12h-14z\" fill=\"%s\"/>", style.colour);
    } else {
        const char *dash = ms_dash_lengths(style.dash);
        fprintf(to, "<path d=\"M1,7h32\" fill=\"none\" stroke=\"%s\" stroke-width=\"2.2\"",
                style.colour);
        if (dash[0] != '\0') fprintf(to, " stroke-dasharray=\"%s\"", dash);
        fputs("/>", to);
    }
    if (!p->bars && style.mark > 0) {
        bool        filled;
        const char *shape = ms_mark_shape(style.mark, &filled);
        fprintf(to,
                "<path d=\"%s\" transform=\"translate(17,7) scale(4)\" stroke=\"%s\" "
                "stroke-width=\"%s\" fill=\"%s\"/>",
                shape, style.colour, filled ? "0" : ".4", filled ? style.colour : "none");
    }
    fputs("</svg>", to);
}

static void put_legend(const ms_figure *f, FILE *to)
{
    bool any = false;

    for (size_t i = 0; i < f->n; i++)
        for (size_t k = 0; k < f->panels[i].n; k++) {
            const ms_curve *c = &f->panels[i].curves[k];
            ms_style        style;
            if (!ms_legend_entry(f, i, k, &style)) continue;
            fputs(any ? "" : "<ul class=\"legend\">\n", to);
            any = true;
            fputs("<li class=\"key\" data-label=\"", to);
            ms_html_text(c->label, to);
            fputs("\">", to);
            put_sample(&f->panels[i], style, to);
            ms_html_text(c->label, to);
            fputs("</li>\n", to);
        }
    if (any) fputs("</ul>\n", to);
}

/* A paragraph for each line. */
static void put_lines(const char *text, FILE *to)
{
    while (text != NULL && *text != '\0') {
        const size_t n    = strcspn(text, "\n");
        char        *line = strndup(text, n);
        put_element("p", NULL, line != NULL ? line : "", to);
        free(line);
        text += n + (text[n] != '\0');
    }
}

/* The caption says what is drawn; how it was made is there to be unfolded. */
static void put_caption(const char *caption, const char *notes, FILE *to)
{
    if (caption[0] == '\0' && notes == NULL) return;
    fputs("<figcaption>", to);
    ms_html_text(caption, to);
    if (notes != NULL) {
        fputs("\n<details class=\"notes\">\n<summary>How this is made</summary>\n", to);
        put_lines(notes, to);
        fputs("</details>\n", to);
    }
    fputs("</figcaption>\n", to);
}

static void put_figure(const ms_block *b, const ms_drawing *d, FILE *to)
{
    fprintf(to, "<figure class=\"plots\" id=\"figure-%s\">\n", b->id);
    put_element("h3", NULL, b->figure.title, to);
    put_legend(&b->figure, to);
    fprintf(to, "<div class=\"panels%s\">\n",
            d->n == 4   ? " four"
            : d->n == 1 ? " one"
                        : ""); /* four: two by two */
    if (d->wide != NULL) fprintf(to, "<div class=\"panel large\">%s</div>\n", d->wide);
    for (size_t i = 0; i < d->n; i++)
        fprintf(to, "<div class=\"panel\">%s</div>\n", d->svg[i]);
    fputs("</div>\n", to);
    put_caption(b->figure.caption, b->notes, to);
    fputs("</figure>\n", to);
}

/* A long one is folded: what follows it would be out of reach. */
static musec_status put_table(ms_error *e, const ms_block *b, FILE *to)
{
    const size_t cells = b->table.n_cells, columns = strlen(b->table.align);
    const size_t rows = columns > 0 && cells > columns ? cells / columns - 1 : 0;
    musec_status st;

    fprintf(to, "<figure class=\"table\" id=\"table-%s\">\n", b->id);
    put_caption(b->words, b->notes, to);
    if (rows > MOST_ROWS) fprintf(to, "<details>\n<summary>%zu rows</summary>\n", rows);
    st = ms_table_html(e, &b->table, to);
    if (rows > MOST_ROWS) fputs("</details>\n", to);
    fputs("</figure>\n", to);
    return st;
}

musec_status ms_html_page(ms_error *e, const ms_page *p, const ms_drawing *drawings, FILE *to)
{
    size_t       figure = 0;
    musec_status st     = MUSEC_OK;

    put_head(p, to);
    put_contents(p, to);
    fputs("<main>\n", to);
    for (size_t i = 0; i < p->n; i++) {
        const ms_section *s = &p->sections[i];
        fprintf(to, "<section id=\"%s\">\n", s->id);
        put_element("h2", NULL, s->title, to);
        if (s->shows[0] != '\0') put_element("p", "shows", s->shows, to);
        for (size_t k = 0; k < s->n; k++) {
            const ms_block *b = &s->blocks[k];
            if (b->kind == MS_BLOCK_WORDS) put_element("p", NULL, b->words, to);
            if (b->kind == MS_BLOCK_FIGURE) put_figure(b, &drawings[figure++], to);
            if (b->kind == MS_BLOCK_TABLE) TRY(put_table(e, b, to));
        }
        fputs("</section>\n", to);
    }
    fputs("</main>\n", to);
    if (p->footer != NULL) {
        fputs("<footer>\n", to);
        put_lines(p->footer, to);
        fputs("</footer>\n", to);
    }
    fputs("<script>\n", to);
    fwrite(ms_embedded_page_js, 1, ms_embedded_page_js_bytes, to);
    fputs("</script>\n</body>\n</html>\n", to);
done:
    return st;
}
