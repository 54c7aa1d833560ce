/* table.c - cells are kept as text until all are there and the widths are known. */
#include "core/table.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/grow.h"
#include "core/real.h"
#include "core/text.h"

enum { MAX_COLUMNS = 16 };

void ms_table_add(ms_table *table, const char *fmt, ...)
{
    char  **cells = ms_grow(table->cells, table->n_cells, &table->capacity, sizeof *cells);
    va_list args;
    char   *text;

    if (cells == NULL) {
        table->out_of_memory = 1;
        return;
    }
    table->cells = cells;
    va_start(args, fmt);
    text = ms_text_format(fmt, args);
    va_end(args);
    if (text == NULL)
        table->out_of_memory = 1;
    else
        table->cells[table->n_cells++] = text;
}

void ms_table_row(ms_table *table, const char *fmt, ...)
{
    va_list args;
    char   *text;

    va_start(args, fmt);
    text = ms_text_format(fmt, args);
    va_end(args);
    if (text == NULL) table->out_of_memory = 1;
    for (char *cell = text, *end; cell != NULL; cell = end) {
        end = strchr(cell, '\t');
        if (end != NULL) *end++ = '\0';
        ms_table_add(table, "%s", cell);
    }
    free(text);
}

static void add_exact(ms_table *table, char *fields)
{
    ms_table_exact *more =
        ms_grow(table->exact, table->n_exact, &table->exact_capacity, sizeof *more);

    if (more != NULL) table->exact = more;
    if (more == NULL || fields == NULL || table->n_cells == 0) {
        table->out_of_memory = 1;
        free(fields);
        return;
    }
    table->exact[table->n_exact++] = (ms_table_exact){ table->n_cells - 1, fields };
}

void ms_table_number(ms_table *table, const char *fmt, double x)
{
    if (isfinite(x))
        ms_table_add(table, fmt, x);
    else
        ms_table_add(table, "-");
    ms_table_is(table, x);
}

void ms_table_is_fields(ms_table *table, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add_exact(table, ms_text_format(fmt, args));
    va_end(args);
}

void ms_table_is(ms_table *table, double x)
{
    char text[MS_REAL_TEXT];
    ms_real_text(x, text);
    ms_table_is_fields(table, "%s", isfinite(x) ? text : "");
}

void ms_table_names(ms_table *table, const char *const *names)
{
    const size_t n = strlen(table->align);
    for (size_t i = 0; i < n; i++) {
        const size_t shown = strcspn(names[i], "|");
        ms_table_add(table, "%.*s", (int)shown, names[i]);
        if (names[i][shown] == '|') ms_table_is_fields(table, "%s", names[i] + shown + 1);
    }
}

musec_status ms_table_print(ms_error *error, const ms_table *table, FILE *to)
{
    const size_t n_cols             = strlen(table->align);
    int          width[MAX_COLUMNS] = { 0 };

    assert(n_cols <= MAX_COLUMNS);
    if (table->out_of_memory)
        return ms_fail(error, MUSEC_ENOMEM, "not enough memory for the table");
    for (size_t i = 0; i < table->n_cells; i++) {
        const int w = (int)ms_text_length(table->cells[i]);
        if (w > width[i % n_cols]) width[i % n_cols] = w;
    }
    for (size_t i = 0; i < table->n_cells; i++) {
        const size_t col    = i % n_cols;
        const int    last   = col + 1 == n_cols;
        const int    blanks = width[col] - (int)ms_text_length(table->cells[i]);
        const int    right  = table->align[col] == 'r';
        fprintf(to, "%*s", right ? blanks : 0, "");
        ms_text_print("", table->cells[i], "", to);
        fprintf(to, "%*s", right || last ? 0 : blanks, ""); /* none at the end */
        fputs(last ? "\n" : "  ", to);
    }
    return MUSEC_OK;
}

/* ---- other forms ----------------------------------------------------------------------------- */

musec_status ms_table_columns(ms_error *error, const ms_table *table, size_t *n_cols)
{
    *n_cols = strlen(table->align);
    if (table->out_of_memory || *n_cols == 0)
        return ms_fail(error, MUSEC_ENOMEM, "not enough memory for the table");
    return MUSEC_OK;
}

void ms_csv_text(const char *text, FILE *to)
{
    const int quoted = strpbrk(text, "\",\r\n") != NULL;
    const int signs  = text[0] == '-' && text[1] != '\0'; /* one alone is no formula */
    if (quoted) putc('"', to);
    if (strchr("=+@\t\r", text[0]) != NULL ? text[0] != '\0' : signs)
        putc('\'', to); /* or a spreadsheet would compute it */
    for (size_t bytes; *text != '\0'; text += bytes == 0 ? 1 : bytes) {
        bytes = ms_text_char(text);
        if (*text == '"') putc('"', to);
        if (bytes == 0)
            fputs("\xef\xbf\xbd", to); /* U+FFFD, the replacement character */
        else
            fwrite(text, 1, bytes, to);
    }
    if (quoted) putc('"', to);
}

musec_status ms_table_csv(ms_error *error, const ms_table *table, FILE *to)
{
    size_t             n_cols;
    const musec_status st    = ms_table_columns(error, table, &n_cols);
    size_t             exact = 0;
    for (size_t i = 0; st == MUSEC_OK && i < table->n_cells; i++) {
        if (exact < table->n_exact && table->exact[exact].cell == i)
            fputs(table->exact[exact++].fields, to);
        else if (strcmp(table->cells[i], "-") != 0)
            ms_csv_text(table->cells[i], to);
        fputs((i + 1) % n_cols == 0 ? "\r\n" : ",", to);
    }
    return st;
}

musec_status ms_table_markdown(ms_error *error, const ms_table *table, FILE *to)
{
    size_t             n_cols;
    const musec_status st = ms_table_columns(error, table, &n_cols);
    for (size_t i = 0; st == MUSEC_OK && i < table->n_cells; i++) {
        fputs("| ", to);
        for (const char *c = table->cells[i]; *c != '\0'; c++) {
            if (*c == '|') putc('\\', to);
            putc(*c == '\n' ? ' ' : *c, to); /* a row must stay on one line */
        }
        if ((i + 1) % n_cols != 0) {
            putc(' ', to);
            continue;
        }
        fputs(" |\n", to);
        for (size_t k = 0; i + 1 == n_cols && k < n_cols; k++)
            fprintf(to, "|%s%s", table->align[k] == 'r' ? "---:" : "---",
                    k + 1 == n_cols ? "|\n" : "");
    }
    return st;
}

musec_status ms_table_finish(ms_error *error, ms_table *table, FILE *to)
{
    const musec_status st = ms_table_print(error, table, to);
    ms_table_free(table);
    return st;
}

void ms_table_free(ms_table *table)
{
    for (size_t i = 0; i < table->n_cells; i++)
        free(table->cells[i]);
    for (size_t i = 0; i < table->n_exact; i++)
        free(table->exact[i].fields);
    free(table->exact);
    free(table->cells);
    *table = (ms_table){ .align = table->align };
}
