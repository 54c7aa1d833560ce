/* table.h - rows of text with aligned columns. */
#ifndef MS_CLI_TABLE_H
#define MS_CLI_TABLE_H

#include <stdio.h>

#include "core/status.h"

typedef struct ms_table { /* { .align = "lrr" } is empty: one letter per column, left or right */
    const char *align;
    char      **cells; /* row after row */
    size_t      n_cells, room;
    int         out_of_memory; /* said by ms_table_print */
} ms_table;

void ms_table_add(ms_table *table, const char *fmt, ...) MS_PRINTF(2, 3); /* the next cell */
musec_status ms_table_print(ms_error *error, const ms_table *table, FILE *to);
void         ms_table_free(ms_table *table);

#endif
