/* table.h - rows of text with aligned columns, for a terminal, a page or a spreadsheet. */
#ifndef MS_CORE_TABLE_H
#define MS_CORE_TABLE_H

#include <stdio.h>

#include "core/status.h"

typedef struct ms_table_exact { /* CSV fields that replace a cell, unquoted */
    size_t cell;
    char  *fields;
} ms_table_exact;

/* { .align = "lrb" } is empty.  One letter per column: left, right, or a badge, which is a word
 * such as "done" (with more behind a colon, or not) that a page shows in a colour of its own. */
typedef struct ms_table {
    const char *align;
    char      **cells; /* row after row; the first row has the columns' names */
    size_t      n_cells, capacity;
    int         out_of_memory; /* reported when it is printed */
    /* in the order of their cells */
    ms_table_exact *exact;
    size_t          n_exact, exact_capacity;
} ms_table;

/* Adds the next cell. */
void ms_table_add(ms_table *table, const char *fmt, ...) MS_PRINTF(2, 3);
/* Adds the next cells, which the format has with tabs between them. */
void ms_table_row(ms_table *table, const char *fmt, ...) MS_PRINTF(2, 3);
/* Adds the first row.  A column's name is one text, "loss", or the text that is shown and the CSV
 * columns that it stands for, "diverged|diverged,runs". */
void ms_table_names(ms_table *table, const char *const *names);
/* Gives the last cell its number: CSV has all its digits, or nothing if it is not finite. */
void ms_table_is(ms_table *table, double x);
/* Adds a number as the next cell: `fmt` prints it, "-" stands for one that is not finite, and CSV
 * has all its digits. */
void ms_table_number(ms_table *table, const char *fmt, double x) MS_PRINTF(2, 0);
/* Gives the last cell its CSV fields, which may be several: "1,3" under "diverged,runs".  They are
 * written unquoted. */
void         ms_table_is_fields(ms_table *table, const char *fmt, ...) MS_PRINTF(2, 3);
musec_status ms_table_print(ms_error *error, const ms_table *table, FILE *to); /* for a terminal */
/* Prints the table and frees it. */
musec_status ms_table_finish(ms_error *error, ms_table *table, FILE *to);
/* Writes CSV by RFC 4180.  A cell "-", by which a table shows that there is no value, is empty. */
musec_status ms_table_csv(ms_error *error, const ms_table *table, FILE *to);
musec_status ms_table_markdown(ms_error *error, const ms_table *table, FILE *to);
/* Counts the columns; fails if the table ran out of memory. */
musec_status ms_table_columns(ms_error *error, const ms_table *table, size_t *n_cols);
void         ms_table_free(ms_table *table);

/* Writes a CSV field, in quotes where it needs them. */
void ms_csv_text(const char *text, FILE *to);

#endif
