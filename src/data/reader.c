/* reader.c - splitting files into records, and getting documents from records.
 *
 * The buffer holds buf[begin .. end) of the current file.  A record ends where the separator of its
 * kind begins, or with the file:
 *
 *     JSON lines   "\n"
 *     eot          "\n<|endoftext|>\n"
 *     blank        "\n\n", which stays part of the record
 *     file         none
 *
 * No separator begins in the first `scanned` bytes of the record, so every byte is searched once
 * however long the record is.  The buffer grows up to the longest record allowed.  The separator
 * after the last record may be missing: "a|b|" and "a|b" are both two records. */
#define _POSIX_C_SOURCE 200809L
#include "data/reader.h"

#include <stdlib.h>
#include <string.h>

#include "core/json_parse.h"
#include "core/text.h"
#include "data/unpack.h"

enum { BUF_MIN = 1 << 18, READ_MIN = 1 << 16, KEYS_SHOWN = 8, MARK_BYTES = 3 };

typedef struct separator {
    const char *text; /* NULL: only the end of the file ends a record */
    size_t      bytes, kept;
} separator;

static const separator at_lines = { "\n", 1, 0 };
static const separator splits[] = {
    [MS_SPLIT_EOT]   = { "\n<|endoftext|>\n", 15, 0 },
    [MS_SPLIT_BLANK] = { "\n\n", 2, 2 },
    [MS_SPLIT_FILE]  = { NULL, 0, 0 },
};

struct ms_reader {
    ms_reader_config cfg; /* without its paths */
    char            *field;
    ms_inputs        inputs;
    size_t           file; /* the current one */
    ms_unpack       *in;   /* NULL: not open */
    bool             json, ended, dropping;
    char            *buf;
    size_t           begin, end, capacity, scanned;
    int64_t          number;     /* of the next record */
    int64_t          documents;  /* so far in this file */
    int64_t          bytes_done; /* of the files before */
    int64_t          bad;
    json_t          *root; /* of the last document */
};

/* ---- opening --------------------------------------------------------------------------------- */

musec_status ms_reader_open(ms_error *e, const ms_reader_config *cfg, ms_reader **out)
{
    ms_reader   *r  = calloc(1, sizeof *r);
    musec_status st = MUSEC_OK;

    *out = NULL;
    if (r != NULL) {
        r->cfg      = *cfg;
        r->capacity = BUF_MIN;
        r->buf      = malloc(r->capacity);
        r->field    = strdup(cfg->field);
    }
    if (r == NULL || r->buf == NULL || r->field == NULL)
        TRY(ms_fail(e, MUSEC_ENOMEM, "not enough memory to read documents"));
    if (cfg->max_document == 0 || cfg->max_document > PTRDIFF_MAX / 4)
        TRY(ms_fail(e, MUSEC_EINVAL, "documents of up to %zu bytes cannot be read",
                    cfg->max_document));
    TRY(ms_inputs_find(e, cfg->paths, cfg->n_paths, &r->inputs));
    r->cfg.paths   = NULL;
    r->cfg.n_paths = 0;
    r->cfg.field   = r->field;
    *out           = r;
    r              = NULL;
done:
    ms_reader_close(r);
    return st;
}

void ms_reader_close(ms_reader *r)
{
    if (r == NULL) return;
    json_decref(r->root);
    ms_unpack_close(r->in);
    ms_inputs_free(&r->inputs);
    free(r->field);
    free(r->buf);
    free(r);
}

/* ---- the buffer ------------------------------------------------------------------------------ */

/* Adds the line or the document to the message of a failure. */
static void add_line(ms_error *e, const ms_reader *r)
{
    ms_text_append(e->text, sizeof e->text, " (in %s %lld)", r->json ? "line" : "document",
                   (long long)r->number + 1);
}

static bool is_blank(const char *line, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r') return false;
    return true;
}

static bool has_mark(const char *text, size_t bytes) /* a byte order mark */
{
    return bytes >= MARK_BYTES && memcmp(text, "\xEF\xBB\xBF", MARK_BYTES) == 0;
}

/* Reads more of the file into the buffer. */
static musec_status fill(ms_error *e, ms_reader *r)
{
    size_t       got = 0;
    musec_status st;

    if (r->begin > 0) {
        memmove(r->buf, r->buf + r->begin, r->end - r->begin);
        r->end -= r->begin;
        r->begin = 0;
    }
    if (r->capacity - r->end < READ_MIN) {
        char *more = realloc(r->buf, 2 * r->capacity); /* at most 4 times max_document: it fits */
        if (more == NULL)
            return ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory for a document of %zu bytes",
                           ms_reader_file(r, r->file), r->end);
        r->buf = more;
        r->capacity *= 2;
    }
    st = ms_unpack_read(e, r->in, r->buf + r->end, r->capacity - r->end, &got);
    if (st != MUSEC_OK) add_line(e, r);
    r->ended = st == MUSEC_OK && got == 0;
    r->end += got;
    return st;
}

/* Does the file begin with a JSON object?  A pipe may deliver single bytes, so this reads until the
 * first one that is not blank. */
static musec_status begins_with_object(ms_error *e, ms_reader *r, bool *object)
{
    size_t       at = 0; /* the bytes before it are blank; none was consumed yet */
    musec_status st = MUSEC_OK;

    while (!r->ended && r->end < MARK_BYTES)
        TRY(fill(e, r));
    if (has_mark(r->buf, r->end)) at = MARK_BYTES;
    for (;;) {
        while (at < r->end && (r->buf[at] == '\n' || is_blank(r->buf + at, 1)))
            at++;
        if (at < r->end || r->ended || at > r->cfg.max_document) break;
        TRY(fill(e, r));
    }
    *object = at < r->end && r->buf[at] == '{';
done:
    return st;
}

static musec_status open_next(ms_error *e, ms_reader *r)
{
    const ms_input *in = &r->inputs.at[r->file];
    musec_status    st;

    r->begin = r->end = r->scanned = 0;
    r->number = r->documents = 0;
    r->ended = r->dropping = false;
    r->json                = r->cfg.format == MS_FORMAT_JSON || in->json;
    if (r->cfg.format == MS_FORMAT_TEXT) r->json = false;
    TRY(ms_unpack_open(e, in->path, r->cfg.memory, r->cfg.stop, &r->in));
    if (r->cfg.format == MS_FORMAT_AUTO && in->bytes < 0 && !in->named) /* a pipe */
        TRY(begins_with_object(e, r, &r->json));
done:
    return st;
}

static void close_file(ms_reader *r)
{
    r->bytes_done += ms_unpack_consumed(r->in);
    ms_unpack_close(r->in);
    r->in = NULL;
    r->file++;
}

/* ---- records --------------------------------------------------------------------------------- */

static const separator *separator_of(const ms_reader *r)
{
    return r->json ? &at_lines : &splits[r->cfg.split];
}

/* Finds the separator in the buffer; *bytes is its offset in the record. */
static bool find_end(ms_reader *r, const separator *s, size_t *bytes)
{
    const char  *record = r->buf + r->begin;
    const size_t n      = r->end - r->begin;
    const char  *found;

    if (s->text == NULL) return false;
    found = ms_text_find(record + r->scanned, n - r->scanned, s->text, s->bytes);
    if (found != NULL)
        *bytes = (size_t)(found - record);
    else if (n >= s->bytes)
        r->scanned = n - s->bytes + 1;
    return found != NULL;
}

static musec_status too_long(ms_error *e, const ms_reader *r)
{
    return ms_fail(e, MUSEC_EFORMAT,
                   "%s: document %lld is longer than %zu bytes; allow more with --max-document%s",
                   ms_reader_file(r, r->file), (long long)r->number + 1, r->cfg.max_document,
                   r->cfg.split == MS_SPLIT_FILE ? "" : ", or choose another --split");
}

/* Finds the length of the current record, without its separator, and the step to the next one; at
 * the end of the file *step is 0.  A line that is too long is reported at once, and the rest of it
 * is dropped by the next call. */
static musec_status find_record(ms_error *e, ms_reader *r, size_t *bytes, size_t *step,
                                bool *long_line)
{
    const separator *s  = separator_of(r);
    musec_status     st = MUSEC_OK;

    *long_line = false;
    for (;;) {
        const bool   found = find_end(r, s, bytes);
        const bool   whole = found || r->ended;
        const size_t n     = r->end - r->begin;

        *step  = found ? *bytes + s->bytes : n;
        *bytes = found ? *bytes + s->kept : n;
        if (r->dropping) {
            r->begin += *step;
            r->scanned  = 0;
            r->dropping = !whole;
            if (whole) continue;
        } else if (*bytes > r->cfg.max_document + (whole ? 0 : s->bytes)) {
            if (!r->json) return too_long(e, r);
            *long_line  = true;
            r->dropping = !whole;
            break;
        } else if (whole) {
            break;
        }
        TRY(fill(e, r));
    }
done:
    return st;
}

musec_status ms_reader_record(ms_error *e, ms_reader *r, ms_record *out)
{
    size_t       bytes, step;
    bool         long_line;
    musec_status st = MUSEC_OK;

    *out = (ms_record){ 0 };
    while (r->file < r->inputs.n) {
        if (r->in == NULL) TRY(open_next(e, r));
        TRY(find_record(e, r, &bytes, &step, &long_line));
        if (step == 0) {
            close_file(r);
            continue;
        }
        *out = (ms_record){ .data     = r->buf + r->begin,
                            .bytes    = long_line ? 0 : bytes,
                            .file     = (int64_t)r->file,
                            .number   = r->number++,
                            .json     = r->json,
                            .too_long = long_line };
        r->begin += step;
        r->scanned = 0;
        if (!r->json || long_line) goto done;
        if (out->number == 0 && has_mark(out->data, bytes)) { /* the byte order mark */
            out->data += MARK_BYTES;
            out->bytes -= MARK_BYTES;
        }
        if (!is_blank(out->data, out->bytes)) goto done;
        *out = (ms_record){ 0 };
    }
done:
    return st;
}

musec_status ms_reader_seek(ms_error *e, ms_reader *r, int64_t file, int64_t number)
{
    size_t       bytes, step;
    bool         long_line;
    musec_status st = MUSEC_OK;

    if (file < 0 || (size_t)file > r->inputs.n || number < 0)
        return ms_fail(e, MUSEC_EINVAL, "there is no file %lld, record %lld to go on from",
                       (long long)file, (long long)number);
    for (; r->file < (size_t)file; r->file++)
        if (r->inputs.at[r->file].bytes > 0) r->bytes_done += r->inputs.at[r->file].bytes;
    if (number == 0 || r->file == r->inputs.n) return st;
    TRY(open_next(e, r));
    while (r->number < number) {
        TRY(find_record(e, r, &bytes, &step, &long_line));
        if (step == 0)
            TRY(ms_fail(e, MUSEC_EFORMAT,
                        "%s: has %lld records and had %lld or more before: it was changed",
                        ms_reader_file(r, r->file), (long long)r->number, (long long)number));
        r->begin += step;
        r->scanned = 0;
        r->number++;
    }
done:
    return st;
}

/* ---- documents ------------------------------------------------------------------------------- */

/* Lists the keys of an object: "; it has a, b, c". */
static void list_keys(json_t *root, char *text, size_t bytes)
{
    size_t      used = 0, n = 0;
    const char *key;
    json_t     *value;

    text[0] = '\0';
    json_object_foreach(root, key, value)
    {
        if (used + strlen(key) + 8 > bytes || ++n > KEYS_SHOWN) break;
        used +=
            (size_t)snprintf(text + used, bytes - used, "%s%s", n == 1 ? "; it has " : ", ", key);
    }
}

static const char *type_name(const json_t *value)
{
    switch (value == NULL ? JSON_NULL : json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER:
    case JSON_REAL: return "a number";
    case JSON_NULL: return "null";
    default: return "true or false";
    }
}

/* Fails because of a line that cannot be used; `why` is a format. */
#define BAD_LINE(e, r, record, why, ...)                                                \
    ms_fail(e, MUSEC_EFORMAT, "%s:%lld: " why " (--skip-bad passes over such lines)",   \
            ms_reader_file(r, (size_t)(record)->file), (long long)(record)->number + 1, \
            __VA_ARGS__)

static musec_status json_text(ms_error *e, const ms_reader *r, const ms_record *rec,
                              const char **text, size_t *bytes, json_t **root)
{
    char            keys[256];
    ms_json_problem why;
    json_t         *value;
    musec_status    st;

    /* Integers of other fields may be too large for int64, but not for a double. */
    st = ms_json_parse(rec->data, rec->bytes, MS_JSON_ZEROS | MS_JSON_REALS, &why, root);
    if (st == MUSEC_ENOMEM)
        return ms_fail(e, st, "%s:%lld: not enough memory to read the line",
                       ms_reader_file(r, (size_t)rec->file), (long long)rec->number + 1);
    if (st != MUSEC_OK && why.too_large)
        return BAD_LINE(e, r, rec, "a number is too large at byte %zu; doubles end at 1.8e308",
                        why.byte);
    if (st != MUSEC_OK)
        return BAD_LINE(e, r, rec, "is not JSON: %s at byte %zu", why.text, why.byte);
    if (!json_is_object(*root))
        return BAD_LINE(e, r, rec, "is %s; each line must be an object", type_name(*root));
    value = json_object_get(*root, r->field);
    if (value == NULL) {
        list_keys(*root, keys, sizeof keys);
        return BAD_LINE(e, r, rec, "has no field \"%.100s\"%s; choose one with --field", r->field,
                        keys);
    }
    if (!json_is_string(value))
        return BAD_LINE(e, r, rec, "the field \"%.100s\" is %s, not a string", r->field,
                        type_name(value));
    *text  = json_string_value(value);
    *bytes = json_string_length(value);
    return MUSEC_OK;
}

musec_status ms_record_text(ms_error *e, const ms_reader *r, const ms_record *record,
                            const char **text, size_t *bytes, json_t **root)
{
    musec_status st;

    *text  = record->data;
    *bytes = record->bytes;
    *root  = NULL;
    if (record->too_long)
        return BAD_LINE(e, r, record, "is longer than %zu bytes; allow more with --max-document",
                        r->cfg.max_document);
    if (!record->json) return MUSEC_OK;
    st = json_text(e, r, record, text, bytes, root);
    if (st != MUSEC_OK) {
        json_decref(*root);
        *root = NULL;
    }
    return st;
}

musec_status ms_reader_next(ms_error *e, ms_reader *r, ms_document *out)
{
    ms_record    record;
    const char  *text;
    musec_status st;

    *out = (ms_document){ 0 };
    json_decref(r->root);
    r->root = NULL;
    for (;;) {
        TRY(ms_reader_record(e, r, &record));
        if (record.data == NULL) break;
        st = ms_record_text(e, r, &record, &text, &out->bytes, &r->root);
        if (st == MUSEC_EFORMAT && r->cfg.skip_bad) {
            r->bad++;
            continue;
        }
        if (st != MUSEC_OK) break;
        out->text   = (char *)text;
        out->file   = record.file;
        out->number = r->documents++;
        break;
    }
done:
    return st;
}

/* ---- progress -------------------------------------------------------------------------------- */

size_t      ms_reader_files(const ms_reader *r) { return r->inputs.n; }
const char *ms_reader_file(const ms_reader *r, size_t index) { return r->inputs.at[index].path; }

const ms_input *ms_reader_input(const ms_reader *r, size_t index) { return &r->inputs.at[index]; }

int64_t ms_reader_consumed(const ms_reader *r)
{
    return r->bytes_done + (r->in != NULL ? ms_unpack_consumed(r->in) : 0);
}

int64_t ms_reader_total(const ms_reader *r)
{
    int64_t total = 0;
    for (size_t i = 0; i < r->inputs.n; i++) {
        if (r->inputs.at[i].bytes < 0) return -1;
        total += r->inputs.at[i].bytes;
    }
    return total;
}

int64_t ms_reader_bad(const ms_reader *r) { return r->bad; }
