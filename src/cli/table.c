/* table.c - cells are kept as text until all are there and the widths are known. */
#include "cli/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COLUMNS = 16 };

static char *format_cell(const char *fmt, va_list args)
{
    va_list again;
    char   *text;
    int     n;

    va_copy(again, args);
    n    = vsnprintf(NULL, 0, fmt, again);
    text = n < 0 ? NULL : malloc((size_t)n + 1);
    va_end(again);
    if (text != NULL) vsnprintf(text, (size_t)n + 1, fmt, args);
    return text;
}

void ms_table_add(ms_table *table, const char *fmt, ...)
{
    va_list args;
    char   *text;

    if (table->n_cells == table->room) {
        const size_t room  = table->room == 0 ? 64 : 2 * table->room;
        char       **cells = realloc(table->cells, room * sizeof *cells);
        if (cells == NULL) {
            table->out_of_memory = 1;
            return;
        }
        table->cells = cells;
        table->room  = room;
    }
    va_start(args, fmt);
    text = format_cell(fmt, args);
    va_end(args);
    if (text == NULL)
        table->out_of_memory = 1;
    else
        table->cells[table->n_cells++] = text;
}

musec_status ms_table_print(ms_error *error, const ms_table *table, FILE *to)
{
    const size_t n_cols             = strlen(table->align);
    int          width[MAX_COLUMNS] = { 0 };

    if (table->out_of_memory || n_cols > MAX_COLUMNS)
        return ms_fail(error, MUSEC_ENOMEM, "not enough memory for the table");
    for (size_t i = 0; i < table->n_cells; i++) {
        const int w = (int)strlen(table->cells[i]);
        if (w > width[i % n_cols]) width[i % n_cols] = w;
    }
    for (size_t i = 0; i < table->n_cells; i++) {
        const size_t col  = i % n_cols;
        const int    last = col + 1 == n_cols;
        if (table->align[col] == 'r')
            fprintf(to, "%*s", width[col], table->cells[i]);
        else
            fprintf(to, "%-*s", last ? 0 : width[col], table->cells[i]); /* no blanks at the end */
        fputs(last ? "\n" : "  ", to);
    }
    return MUSEC_OK;
}

void ms_table_free(ms_table *table)
{
    for (size_t i = 0; i < table->n_cells; i++)
        free(table->cells[i]);
    free(table->cells);
    *table = (ms_table){ .align = table->align };
}
