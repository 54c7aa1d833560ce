/* html.c - a self-contained page: it includes style and script, and plots are SVG. */
#include "report/html.h"

#include <string.h>

#include "core/embedded.h"
#include "core/text.h"
#include "report/svg.h"

enum { MAX_OPEN_ROWS = 40 }; /* a longer table is folded */
enum { SENTENCE = 120 };     /* a cell with more characters is a sentence */

/* ---- text and tables ------------------------------------------------------------------------- */

static void put_text(const char *text, size_t n, FILE *to)
{
    const char *const end = text + n; /* between characters */
    size_t            bytes;
    for (; text < end; text += bytes == 0 ? 1 : bytes) {
        const unsigned char c = (unsigned char)*text;
        bytes                 = ms_text_char(text);
        switch (*text) {
        case '&': fputs("&amp;", to); break;
        case '<': fputs("&lt;", to); break;
        case '>': fputs("&gt;", to); break;
        case '"': fputs("&quot;", to); break;
        case '\'': fputs("&#39;", to); break;
        case '\n': putc('\n', to); break;
        default:
            if (bytes == 0)
                fputs("\xef\xbf\xbd", to); /* U+FFFD, the replacement character */
            else if (c < ' ' || c == 0x7f || (c == 0xc2 && (unsigned char)text[1] < 0xa0))
                putc(' ', to); /* control characters are not allowed in a page */
            else
                fwrite(text, 1, bytes, to);
            break;
        }
    }
}

void ms_html_text(const char *text, FILE *to) { put_text(text, strlen(text), to); }

/* The text "does not hold: why" has the class b-does-not-hold. */
void ms_html_badge(const char *tag, const char *kind, const char *text, FILE *to)
{
    fprintf(to, "<%s class=\"badge b-", tag);
    for (const char *c = kind; *c != '\0' && *c != ':'; c++)
        putc(*c >= 'a' && *c <= 'z' ? *c : '-', to);
    fputs("\">", to);
    ms_html_text(text, to);
    fprintf(to, "</%s>", tag);
}

static void put_badge(const char *text, FILE *to)
{
    char         word[64];
    const size_t n = strcspn(text, ":");

    if (text[0] < 'a' || text[0] > 'z' || n >= sizeof word) { /* "-" is none */
        ms_html_text(text, to);
        return;
    }
    snprintf(word, sizeof word, "%.*s", (int)n, text);
    ms_html_badge("span", word, word, to);
    ms_html_text(text + n, to);
}

/* Columns of sentences are too narrow on a phone: there each row of such a table is a block. */
static bool has_sentences(const ms_table *table)
{
    for (size_t i = 0; i < table->n_cells; i++)
        if (ms_text_length(table->cells[i]) > SENTENCE) return true;
    return false;
}

static void put_table_cell(const ms_table *table, size_t i, size_t n_cols, bool named, FILE *to)
{
    const char  align = table->align[i % n_cols];
    const char *text  = table->cells[i];

    fputs(i < n_cols ? "<th scope=\"col\"" : "<td", to);
    if (align == 'r' || (align == 'b' && i >= n_cols)) fprintf(to, " class=\"%c\"", align);
    if (named && i >= n_cols) {
        fputs(" data-name=\"", to);
        ms_html_text(table->cells[i % n_cols], to);
        putc('"', to);
    }
    putc('>', to);
    if (align == 'b' && i >= n_cols)
        put_badge(text, to);
    else
        ms_html_text(text, to);
    fputs(i < n_cols ? "</th>" : "</td>", to);
}

musec_status ms_html_table(ms_error *error, const ms_table *table, FILE *to)
{
    size_t             n_cols = 0;
    const musec_status st     = ms_table_columns(error, table, &n_cols);
    const bool         named  = has_sentences(table);
    if (st != MUSEC_OK || n_cols == 0) return st;
    /* A wide table scrolls inside its box. */
    fprintf(to, "<div class=\"wide\"><table%s>\n<thead>\n", named ? " class=\"stack\"" : "");
    for (size_t i = 0; i < table->n_cells; i++) {
        if (i == n_cols) fputs("</thead>\n<tbody>\n", to);
        if (i % n_cols == 0) fputs("<tr>", to);
        put_table_cell(table, i, n_cols, named, to);
        if ((i + 1) % n_cols == 0) fputs("</tr>\n", to);
    }
    fprintf(to, "</%s>\n</table></div>\n", table->n_cells > n_cols ? "tbody" : "thead");
    return st;
}

/* ---- the page -------------------------------------------------------------------------------- */

/* Writes <tag class="...">text</tag>. */
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

static void put_legend(const ms_figure *f, FILE *to)
{
    bool any = false;

    for (size_t i = 0; i < f->n; i++)
        for (size_t k = 0; k < f->panels[i].n; k++) {
            const ms_curve *c = &f->panels[i].curves[k];
            ms_style        style;
            if (!ms_figure_legend_entry(f, i, k, &style)) continue;
            fputs(any ? "" : "<ul class=\"legend\">\n", to);
            any = true;
            fputs("<li class=\"key\" data-label=\"", to);
            ms_html_text(c->label, to);
            fputs("\">", to);
            fputs("<svg viewBox=\"0 0 34 14\" aria-hidden=\"true\">", to);
            ms_svg_sample(style, f->panels[i].bars, 1.0, 7.0, to);
            fputs("</svg>", to);
            ms_html_text(c->label, to);
            fputs("</li>\n", to);
        }
    if (any) fputs("</ul>\n", to);
}

/* Writes a paragraph for each line. */
static void put_lines(const char *text, FILE *to)
{
    while (text != NULL && *text != '\0') {
        const size_t n = strcspn(text, "\n");
        fputs("<p>", to);
        put_text(text, n, to);
        fputs("</p>\n", to);
        text += n + (text[n] != '\0');
    }
}

/* The caption says what is drawn; notes on how it was made are folded. */
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

/* Four panels stand two by two; a single one is drawn twice, for a phone and for a large screen. */
static musec_status put_figure(ms_error *e, const ms_block *b, FILE *to)
{
    const size_t     n      = b->figure.n;
    ms_figure_layout layout = { 0 };
    musec_status     st;

    TRY(ms_figure_layout_make(e, &b->figure, &layout));
    fprintf(to, "<figure class=\"plots\" id=\"figure-%s\">\n", b->id);
    put_element("h3", NULL, b->figure.title, to);
    put_legend(&b->figure, to);
    fprintf(to, "<div class=\"panels%s\">\n", n == 4 ? " four" : n == 1 ? " one" : "");
    for (int wide = n == 1; wide >= 0; wide--)
        for (size_t i = 0; i < n; i++) {
            fprintf(to, "<div class=\"panel%s\">", wide ? " large" : "");
            ms_svg_panel(&layout, i, wide, to);
            fputs("</div>\n", to);
        }
    fputs("</div>\n", to);
    put_caption(b->figure.caption, b->notes, to);
    fputs("</figure>\n", to);
done:
    ms_figure_layout_free(&layout);
    return st;
}

/* A long table is folded, so that one need not scroll past it. */
static musec_status put_table(ms_error *e, const ms_block *b, FILE *to)
{
    const size_t cells = b->table.n_cells, columns = strlen(b->table.align);
    const size_t rows = columns > 0 && cells > columns ? cells / columns - 1 : 0;
    musec_status st;

    fprintf(to, "<figure class=\"table\" id=\"table-%s\">\n", b->id);
    put_caption(b->text, b->notes, to);
    if (rows > MAX_OPEN_ROWS) fprintf(to, "<details>\n<summary>%zu rows</summary>\n", rows);
    st = ms_html_table(e, &b->table, to);
    if (rows > MAX_OPEN_ROWS) fputs("</details>\n", to);
    fputs("</figure>\n", to);
    return st;
}

musec_status ms_html_page(ms_error *e, const ms_page *p, FILE *to)
{
    musec_status st = MUSEC_OK;

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
            if (b->kind == MS_BLOCK_TEXT) put_element("p", NULL, b->text, to);
            if (b->kind == MS_BLOCK_FIGURE) TRY(put_figure(e, b, to));
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
