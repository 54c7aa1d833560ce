/* page.h - a report: sections of figures, tables and words, and its forms: one self-contained HTML
 * page (no network, light and dark, for a phone too, values under the pointer), PNG files, CSV. */
#ifndef MS_REPORT_PAGE_H
#define MS_REPORT_PAGE_H

#include "core/table.h"
#include "report/figure.h"

typedef enum ms_block_kind { MS_BLOCK_WORDS, MS_BLOCK_FIGURE, MS_BLOCK_TABLE } ms_block_kind;

typedef struct ms_block {
    ms_block_kind kind;
    char         *id;    /* of a figure or table: names its CSV file */
    char         *words; /* a paragraph; of a table its caption */
    char         *notes; /* of a figure or table: paragraphs, a line each, folded; or NULL */
    ms_figure     figure;
    ms_table      table;
} ms_block;

typedef struct ms_section {
    char     *id, *title, *shows; /* shows: "Figures 1, 4 and 5 of the paper", or "" */
    ms_block *blocks;
    size_t    n, room;
} ms_section;

typedef struct ms_page {      /* { .title = ... } is empty */
    char       *title, *lead; /* lead: a paragraph under the title, or NULL */
    char       *headline;     /* the result in a sentence, above the lead; or NULL */
    ms_table    counts;       /* below it as badges: pairs, kind and text ("holds", "7 hold") */
    char       *footer;       /* what made it, where and when; or NULL */
    ms_section *sections;
    size_t      n, room;
    bool        lost; /* no memory: said when it is written */
} ms_page;

void        ms_page_begin(ms_page *p, const char *title, const char *lead);
ms_section *ms_page_section(ms_page *p, const char *id, const char *title, const char *shows);
void        ms_page_headline(ms_page *p, const char *text);
void        ms_page_counts(ms_page *p, ms_table *pairs);                      /* takes over */
void        ms_page_footer(ms_page *p, const char *fmt, ...) MS_PRINTF(2, 3); /* one more line */
void        ms_section_words(ms_page *p, ms_section *s, const char *fmt, ...) MS_PRINTF(3, 4);
/* Both take over what they are given (it is empty afterwards). */
void ms_section_figure(ms_page *p, ms_section *s, ms_figure *figure);
void ms_section_table(ms_page *p, ms_section *s, const char *id, const char *caption,
                      ms_table *table);
/* One more paragraph to unfold below the last figure or table: how it was made. */
void ms_section_notes(ms_page *p, ms_section *s, const char *fmt, ...) MS_PRINTF(3, 4);
void ms_page_free(ms_page *p);

typedef struct ms_page_files { /* NULL: not wanted */
    const char *html, *png_dir, *csv_dir;
} ms_page_files;

/* All or nothing of each file: none is left under its name half written.  PNG files need
 * rsvg-convert (png.h). */
musec_status ms_page_write(ms_error *e, const ms_page *p, const ms_page_files *files);

#endif
