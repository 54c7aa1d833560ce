/* parquet.c - another program does the reading: the format has too many compressions and encodings
 * for a reader of our own. */
#include "data/parquet.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/embedded.h"
#include "core/file.h"
#include "core/process.h"

static bool runs(const char *program, const char *option, const char *value)
{
    const char *const argv[] = { program, option, value, NULL };
    return ms_process_run(argv, "/dev/null", "/dev/null") == 0;
}

static bool has_duckdb(void) { return runs("duckdb", "--version", NULL); }
static bool has_pyarrow(void) { return runs("python3", "-c", "import pyarrow.parquet"); }

musec_status ms_parquet_check(ms_error *e)
{
    if (has_duckdb() || has_pyarrow()) return MUSEC_OK;
    return ms_fail(e, MUSEC_ENOTSUP,
                   "this data set comes as Parquet files, and there is no program to read them: "
                   "install duckdb (duckdb.org), or pyarrow for python3 (pip install pyarrow)");
}

/* The statement for duckdb, which writes to a file since its stdout may have messages.  Names are
 * in quotes, and quotes within them are doubled. */
static musec_status write_statement(ms_error *e, const char *in, const char *field, const char *out,
                                    char *sql, size_t capacity)
{
    const struct {
        const char *text;
        char        quote; /* to be doubled; 0: none */
    } pieces[] = {
        { "COPY (SELECT \"", 0 }, { field, '"' }, { "\" FROM read_parquet('", 0 }, { in, '\'' },
        { "') WHERE \"", 0 },     { field, '"' }, { "\" IS NOT NULL) TO '", 0 },   { out, '\'' },
        { "' (FORMAT JSON)", 0 },
    };
    size_t n = 0;

    for (size_t i = 0; i < COUNT(pieces); i++)
        for (const char *c = pieces[i].text; *c != '\0'; c++) {
            if (n + 3 > capacity)
                return ms_fail(e, MUSEC_EIO, "%.200s...: the path is too long", in);
            sql[n++] = *c;
            if (*c == pieces[i].quote) sql[n++] = *c;
        }
    sql[n] = '\0';
    return MUSEC_OK;
}

bool ms_parquet_is(const char *path)
{
    static const char magic[] = { 'P', 'A', 'R', '1' };
    char              begin[sizeof magic];
    FILE             *f  = fopen(path, "rb");
    const bool        is = f != NULL && fread(begin, 1, sizeof begin, f) == sizeof begin &&
                    memcmp(begin, magic, sizeof magic) == 0;

    if (f != NULL) fclose(f);
    return is;
}

musec_status ms_parquet_to_jsonl(ms_error *e, const char *in, const char *field, const char *out)
{
    char              sql[4 * MS_PATH_MAX + 256], part[MS_PATH_MAX];
    const bool        duck       = has_duckdb();
    const char       *reader     = duck ? "duckdb" : "python3 with pyarrow";
    const char *const by_duck[]  = { "duckdb", "-c", sql, NULL };
    const char *const by_arrow[] = { "python3", "-c",  (const char *)ms_embedded_parquet,
                                     in,        field, NULL };
    int               code;
    musec_status      st;

    if (snprintf(part, sizeof part, "%s.part", out) >= (int)sizeof part)
        return ms_fail(e, MUSEC_EIO, "%.200s...: the path is too long", out);
    TRY(write_statement(e, in, field, part, sql, sizeof sql));
    if (!duck) TRY(ms_parquet_check(e));
    code = ms_process_run(duck ? by_duck : by_arrow, duck ? "/dev/null" : part, NULL);
    if (code == MS_KILLED) /* which says nothing about the file */
        st =
            ms_fail(e, MUSEC_EIO, "%s: %s was ended by a signal before it had read it", in, reader);
    else if (code != 0)
        st = ms_fail(e, MUSEC_EFORMAT, "%s: %s could not read it (exit %d)", in, reader, code);
    else if (rename(part, out) != 0)
        st = ms_fail(e, MUSEC_EIO, "%s: cannot create (%s)", out, strerror(errno));
done:
    if (st != MUSEC_OK) remove(part);
    return st;
}
