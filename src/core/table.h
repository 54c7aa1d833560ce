/* table.h - rows of text with aligned columns, for a terminal, a page (report/html.h), a spreadsheet. */
#ifndef MS_CORE_TABLE_H
#define MS_CORE_TABLE_H

#include <stdio.h>

#include "core/status.h"

typedef struct ms_table_exact { /* what CSV has in place of a cell: fields, as they are */
    size_t cell;
    char  *fields;
} ms_table_exact;

/* { .align = "lrb" } is empty.  One letter per column: left, right, or a badge, which is a word
 * such as "done" (with more behind a colon, or not) that a page shows in a colour of its own. */
typedef struct ms_table {
    const char *align;
    char      **cells; /* row after row; the first row has the columns' names */
    size_t      n_cells, capacity;
    int         out_of_memory; /* said when it is printed */
    /* in the order of their cells */
    ms_table_exact *exact;
    size_t          n_exact, exact_capacity;
} ms_table;

void ms_table_add(ms_table *table, const char *fmt, ...) MS_PRINTF(2, 3); /* the next cell */
/* The first row: one name a column, "loss", or what is shown and the columns of CSV that it stands
 * for, "diverged|diverged,runs". */
void ms_table_names(ms_table *table, const char *const *names);
/* The last cell is this number: CSV has it with all its digits, or nothing if it is not finite. */
void ms_table_is(ms_table *table, double x);
/* The next cell is a number: `fmt` prints it, "-" stands for one that is not finite, and CSV has it
 * with all its digits. */
void ms_table_number(ms_table *table, const char *fmt, double x) MS_PRINTF(2, 0);
/* The last cell is more than one column of CSV: "diverged,runs" over "1,3".  As it is, unquoted. */
void         ms_table_is_fields(ms_table *table, const char *fmt, ...) MS_PRINTF(2, 3);
musec_status ms_table_print(ms_error *error, const ms_table *table, FILE *to); /* for a terminal */
/* RFC 4180.  A cell "-", by which a table shows that there is nothing, is empty. */
musec_status ms_table_csv(ms_error *error, const ms_table *table, FILE *to);
musec_status ms_table_markdown(ms_error *error, const ms_table *table, FILE *to);
/* The number of columns; an error where the table ran out of memory. */
musec_status ms_table_columns(ms_error *error, const ms_table *table, size_t *n_cols);
void         ms_table_free(ms_table *table);

/* A cell of CSV, in quotes where it needs them. */
void ms_csv_text(const char *text, FILE *to);

#endif
