/* reader.h - documents out of files, one after the other, in memory that does not grow with the
 * file.
 *
 * Inputs: text (cut by --split), .jsonl, .ndjson and .json lines (one object a line, a field of it
 * is the document), each also as .gz, .zst or .xz (known by their first bytes, not by their names
 * alone), "-" for stdin, directories (all such files below, in the order of their names).
 *
 * There are two ways to read.  ms_reader_next gives documents.  ms_reader_record gives what the
 * file has of each, and ms_record_text makes documents of that: cutting a file is work for one
 * thread, parsing JSON is work for several. */
#ifndef MS_DATA_READER_H
#define MS_DATA_READER_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "core/status.h"
#include "data/inputs.h"

typedef enum ms_reader_split {
    MS_SPLIT_EOT,   /* documents end with "\n<|endoftext|>\n" */
    MS_SPLIT_BLANK, /* with "\n\n", which stays part of them, but for the last */
    MS_SPLIT_FILE,  /* a file is one document */
} ms_reader_split;

typedef enum ms_reader_format {
    MS_FORMAT_AUTO, /* by the names; stdin and pipes are JSON lines if they begin with '{' */
    MS_FORMAT_TEXT,
    MS_FORMAT_JSON,
} ms_reader_format;

typedef struct ms_reader_config {
    const char *const *paths;
    size_t             n_paths;
    ms_reader_format   format;
    ms_reader_split    split;
    const char        *field;        /* of JSON lines */
    bool               skip_bad;     /* count lines that cannot be used instead of failing */
    size_t             max_document; /* bytes; a longer one is an error that says so */
    const atomic_bool *stop;         /* NULL, or: once true, waiting for a pipe fails */
    uint64_t           memory;       /* as for ms_unpack_open; 0: half of the machine's */
} ms_reader_config;

typedef struct ms_document {
    char   *text; /* the reader's, until the next call */
    size_t  bytes;
    int64_t file;   /* which of the files */
    int64_t number; /* of the document in it, from 0 */
} ms_document;

typedef struct ms_record { /* a document of a text, or a line of JSON */
    const char *data;      /* the reader's, until the next call */
    size_t      bytes;
    int64_t     file;
    int64_t     number;   /* from 0: documents of a text, or lines, empty ones too */
    bool        json;     /* else the data is the document */
    bool        too_long; /* a line over max_document: it has no data and makes no document */
} ms_record;

typedef struct ms_reader ms_reader;

musec_status ms_reader_open(ms_error *e, const ms_reader_config *cfg, ms_reader **out);
void         ms_reader_close(ms_reader *r);
/* Reads the next document; its text is NULL at the end.  A failure names the file and the line. */
musec_status ms_reader_next(ms_error *e, ms_reader *r, ms_document *out);

/* Moves to a record of a file, before anything is read.  Files before it are not opened; records
 * before it are skipped. */
musec_status ms_reader_seek(ms_error *e, ms_reader *r, int64_t file, int64_t number);
/* Reads the next record; its data is NULL at the end.  Empty lines are skipped. */
musec_status ms_reader_record(ms_error *e, ms_reader *r, ms_record *out);
/* Extracts the document of a record, which is part of the record or of *root; the caller releases
 * *root, which may be NULL, with json_decref.  It fails with MUSEC_EFORMAT if the line cannot be
 * used.  Several threads may call it at once. */
musec_status ms_record_text(ms_error *e, const ms_reader *r, const ms_record *record,
                            const char **text, size_t *bytes, json_t **root);

size_t          ms_reader_files(const ms_reader *r);
const char     *ms_reader_file(const ms_reader *r, size_t index);
const ms_input *ms_reader_input(const ms_reader *r, size_t index);
/* Count the bytes of input consumed (compressed, as on disk) and of all files, or -1 if that is not
 * known (a pipe). */
int64_t ms_reader_consumed(const ms_reader *r);
int64_t ms_reader_total(const ms_reader *r);
int64_t ms_reader_bad(const ms_reader *r); /* lines that ms_reader_next passed over */

#endif
