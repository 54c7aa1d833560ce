/* page.h - a report made of sections with figures, tables and text, and the files written from it:
 * one self-contained HTML page (no network, light and dark theme, phone and desktop, tooltips with
 * values), PNG files of its figures, CSV files of its numbers. */
#ifndef MS_REPORT_PAGE_H
#define MS_REPORT_PAGE_H

#include "core/table.h"
#include "report/figure.h"

typedef enum ms_block_kind { MS_BLOCK_TEXT, MS_BLOCK_FIGURE, MS_BLOCK_TABLE } ms_block_kind;

typedef struct ms_block {
    ms_block_kind kind;
    char         *id;    /* of a figure or table; it names the CSV file */
    char         *text;  /* a paragraph, or the caption of a table */
    char         *notes; /* on a figure or table: folded paragraphs, one per line; or NULL */
    ms_figure     figure;
    ms_table      table;
} ms_block;

typedef struct ms_section {
    char     *id, *title, *shows; /* shows: "Figures 1, 4 and 5 of the paper", or "" */
    ms_block *blocks;
    size_t    n, capacity;
} ms_section;

typedef struct ms_page {      /* { .title = ... } is empty */
    char       *title, *lead; /* lead: a paragraph under the title, or NULL */
    char       *headline;     /* the result in one sentence, above the lead; or NULL */
    ms_table    counts;       /* badges below it: pairs of kind and text ("holds", "7 hold") */
    char       *footer;       /* program, place and date; or NULL */
    ms_section *sections;
    size_t      n, capacity;
    bool        out_of_memory; /* if set, writing the page fails */
} ms_page;

void        ms_page_begin(ms_page *p, const char *title, const char *lead);
ms_section *ms_page_section(ms_page *p, const char *id, const char *title, const char *shows);
void        ms_page_headline(ms_page *p, const char *text);
void        ms_page_counts(ms_page *p, ms_table *pairs);                      /* takes them over */
void        ms_page_footer(ms_page *p, const char *fmt, ...) MS_PRINTF(2, 3); /* adds a line */
void        ms_section_text(ms_page *p, ms_section *s, const char *fmt, ...) MS_PRINTF(3, 4);
/* Both take ownership and leave the argument empty. */
void ms_section_figure(ms_page *p, ms_section *s, ms_figure *figure);
void ms_section_table(ms_page *p, ms_section *s, const char *id, const char *caption,
                      ms_table *table);
/* Adds a folded paragraph below the last figure or table, which says how it was made. */
void ms_section_notes(ms_page *p, ms_section *s, const char *fmt, ...) MS_PRINTF(3, 4);
void ms_page_free(ms_page *p);

typedef struct ms_page_files { /* NULL: is not written */
    const char *html, *png_dir, *csv_dir;
} ms_page_files;

/* Writes the files, each completely or not at all.  PNG files need rsvg-convert (png.h). */
musec_status ms_page_write(ms_error *e, const ms_page *p, const ms_page_files *files);

#endif
