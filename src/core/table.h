/* table.h - rows of text with aligned columns, for a terminal, a page, a spreadsheet. */
#ifndef MS_CORE_TABLE_H
#define MS_CORE_TABLE_H

#include <stdio.h>

#include "core/status.h"

typedef struct ms_table { /* { .align = "lrr" } is empty: one letter per column, left or right */
    const char *align;
    char      **cells; /* row after row; the first row has the columns' names */
    size_t      n_cells, room;
    int         out_of_memory; /* said when it is printed */
} ms_table;

void ms_table_add(ms_table *table, const char *fmt, ...) MS_PRINTF(2, 3);      /* the next cell */
musec_status ms_table_print(ms_error *error, const ms_table *table, FILE *to); /* for a terminal */
musec_status ms_table_csv(ms_error *error, const ms_table *table, FILE *to);   /* RFC 4180 */
musec_status ms_table_html(ms_error *error, const ms_table *table, FILE *to);
musec_status ms_table_markdown(ms_error *error, const ms_table *table, FILE *to);
void         ms_table_free(ms_table *table);

/* A cell of CSV, in quotes where it needs them. */
void ms_csv_text(const char *text, FILE *to);
/* Text for HTML and SVG: & < > " ' are written as entities; what is no UTF-8, or no character that
 * a page may hold, is replaced. */
void ms_html_text(const char *text, FILE *to);

#endif
