/* json_file.c - JSON values and files.
 *
 * Values are written here and not by jansson, which writes 0.1 as 0.10000000000000001, and without
 * memory leaves bytes out. */
#include "core/json_file.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/file.h"
#include "core/memory_stream.h"
#include "core/real.h"
#include "core/seal.h"
#include "core/text.h"

enum { MAX_DEPTH = 64 };

#define MIN_READ ((size_t)1 << 12)
#define MAX_READ ((size_t)1 << 30)

/* ---- files ----------------------------------------------------------------------------------- */

/* Reads all that is left of a file or pipe; the caller frees it. */
static musec_status read_all(ms_error *e, const char *path, FILE *f, char **out, size_t *n)
{
    char  *text     = NULL, *more;
    size_t capacity = 0, got;

    *n = 0;
    do {
        capacity = capacity == 0 ? MIN_READ : 2 * capacity;
        more     = capacity > MAX_READ ? NULL : realloc(text, capacity);
        if (more == NULL) {
            free(text);
            if (capacity > MAX_READ)
                return ms_fail(e, MUSEC_EFORMAT, "%s: has more than %zu bytes", path, MAX_READ);
            return ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory to read it", path);
        }
        text = more;
        got  = fread(text + *n, 1, capacity - *n, f);
        *n += got;
    } while (*n == capacity);
    if (ferror(f)) {
        free(text);
        return ms_fail(e, MUSEC_EIO, "%s: cannot read (%s)", path, strerror(errno));
    }
    *out = text;
    return MUSEC_OK;
}

musec_status ms_json_load(ms_error *e, const char *path, unsigned rules, json_t **out)
{
    ms_json_problem problem;
    char           *text = NULL;
    FILE           *f    = NULL;
    size_t          n;
    musec_status    st;

    *out = NULL;
    TRY(ms_file_open_read(e, path, &f));
    TRY(read_all(e, path, f, &text, &n));
    if ((rules & MS_JSON_SEALED) != 0 && ms_seal_check(text, n) == MS_SEAL_BROKEN)
        TRY(ms_fail(e, MUSEC_EFORMAT, "%s: damaged: its bytes do not have the sha256 at its end",
                    path));
    st = ms_json_parse(text, n, rules, &problem, out);
    if (st == MUSEC_ENOMEM) TRY(ms_fail(e, st, "%s: not enough memory to read it", path));
    if (st != MUSEC_OK)
        st = ms_fail(e, st, "%s:%d: is no JSON as expected here: %s", path, problem.line,
                     problem.text);
done:
    free(text);
    if (f != NULL) fclose(f);
    return st;
}

musec_status ms_json_find(ms_error *e, const char *path, unsigned rules, json_t **out)
{
    struct stat  info;
    ms_error     why = { "" };
    musec_status st;

    *out = NULL;
    if (stat(path, &info) != 0 && (errno == ENOENT || errno == ENOTDIR)) return MUSEC_OK;
    st = ms_json_load(&why, path, rules, out);
    return st == MUSEC_OK || st == MUSEC_EFORMAT ? MUSEC_OK : ms_fail(e, st, "%s", why.text);
}

musec_status ms_json_read(ms_error *e, const char *path, json_t **out)
{
    const musec_status st = ms_json_load(e, path, MS_JSON_ONCE, out);

    if (st != MUSEC_OK || json_is_object(*out)) return st;
    json_decref(*out);
    *out = NULL;
    return ms_fail(e, MUSEC_EFORMAT, "%s:1: is no JSON as expected here: not a JSON object", path);
}

musec_status ms_json_write(ms_error *e, const char *path, const json_t *value)
{
    char        *text = ms_json_dump(value, 2);
    ms_out_file  out  = { 0 };
    musec_status st;

    if (text == NULL) return ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory", path);
    TRY(ms_out_open(e, path, &out));
    TRY(ms_out_write(e, &out, text, strlen(text)));
    TRY(ms_out_write(e, &out, "\n", 1));
    TRY(ms_out_commit(e, &out));
done:
    ms_out_abandon(&out);
    free(text);
    return st;
}

/* ---- text ------------------------------------------------------------------------------------ */

typedef struct dump {
    FILE *to;
    int   indent; /* blanks a level; below 0: all on one line */
    bool  tight;  /* no blanks at all */
    bool  sorted; /* names in the order of their bytes */
    bool  failed;
} dump;

static void put_value(dump *d, const json_t *value, int depth);

static void put_real(dump *d, double x)
{
    char text[MS_REAL_TEXT];
    ms_real_text(x, text);
    fputs(text, d->to);
    if (strpbrk(text, ".en") == NULL) fputs(".0", d->to); /* so that it is read as a real again */
}

static void put_text(dump *d, const char *text, size_t bytes)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";

    fputc('"', d->to);
    for (size_t i = 0; i < bytes; i++) {
        const char  c     = text[i];
        const char *which = c == '\0' ? NULL : strchr(from, c);
        if (which != NULL)
            fprintf(d->to, "\\%c", to[which - from]);
        else if ((unsigned char)c < 0x20)
            fprintf(d->to, "\\u%04X", (unsigned)c);
        else
            fputc(c, d->to);
    }
    fputc('"', d->to);
}

/* Begins an item: the first one, or another after a comma. */
static void next_line(dump *d, size_t n, int depth)
{
    if (n > 0) fputs(d->tight || d->indent >= 0 ? "," : ", ", d->to);
    if (d->indent >= 0) fprintf(d->to, "\n%*s", d->indent * depth, "");
}

/* Ends the last item. */
static void last_line(dump *d, size_t n, int depth)
{
    if (n > 0 && d->indent >= 0) fprintf(d->to, "\n%*s", d->indent * depth, "");
}

static void put_member(dump *d, size_t n, const char *key, const json_t *item, int depth)
{
    next_line(d, n, depth + 1);
    put_text(d, key, strlen(key));
    fputs(d->tight ? ":" : ": ", d->to);
    put_value(d, item, depth + 1);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void put_sorted(dump *d, const json_t *value, int depth)
{
    const char **names = malloc((json_object_size(value) + 1) * sizeof *names), *key;
    json_t      *item;
    size_t       n = 0;

    d->failed = d->failed || names == NULL;
    if (names == NULL) return;
    json_object_foreach((json_t *)value, key, item) { names[n++] = key; }
    qsort(names, n, sizeof *names, by_name);
    for (size_t i = 0; i < n; i++)
        put_member(d, i, names[i], json_object_get(value, names[i]), depth);
    free(names);
}

static void put_object(dump *d, const json_t *value, int depth)
{
    const char *key;
    json_t     *item;
    size_t      n = 0;

    fputc('{', d->to);
    if (d->sorted) {
        put_sorted(d, value, depth);
    } else {
        json_object_foreach((json_t *)value, key, item) { put_member(d, n++, key, item, depth); }
        last_line(d, n, depth);
    }
    fputc('}', d->to);
}

static void put_array(dump *d, const json_t *value, int depth)
{
    const size_t n        = json_array_size(value);
    bool         one_line = true;

    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(value, i);
        one_line           = one_line && (json_is_number(item) || json_is_null(item));
    }
    fputc('[', d->to);
    for (size_t i = 0; i < n; i++) {
        if (!one_line)
            next_line(d, i, depth + 1);
        else if (i > 0)
            fputs(d->tight ? "," : ", ", d->to);
        put_value(d, json_array_get(value, i), depth + 1);
    }
    if (!one_line) last_line(d, n, depth);
    fputc(']', d->to);
}

static void put_value(dump *d, const json_t *value, int depth)
{
    if (value == NULL || depth > MAX_DEPTH) {
        d->failed = true;
        return;
    }
    switch (json_typeof(value)) {
    case JSON_OBJECT: put_object(d, value, depth); break;
    case JSON_ARRAY: put_array(d, value, depth); break;
    case JSON_STRING: put_text(d, json_string_value(value), json_string_length(value)); break;
    case JSON_INTEGER: fprintf(d->to, "%lld", (long long)json_integer_value(value)); break;
    case JSON_REAL: put_real(d, json_real_value(value)); break;
    case JSON_TRUE: fputs("true", d->to); break;
    case JSON_FALSE: fputs("false", d->to); break;
    default: fputs("null", d->to);
    }
}

static char *dump_value(const json_t *value, dump d)
{
    ms_memory_stream m;
    char            *text;

    d.to = ms_memory_open(&m);
    if (d.to == NULL) return NULL;
    put_value(&d, value, 0);
    text = ms_memory_close(&m);
    if (!d.failed) return text;
    free(text);
    return NULL;
}

char *ms_json_dump(const json_t *value, int indent)
{
    return dump_value(value, (dump){ .indent = indent });
}

char *ms_json_tight(const json_t *value)
{
    return dump_value(value, (dump){ .indent = -1, .tight = true });
}

char *ms_json_key(const json_t *value)
{
    return dump_value(value, (dump){ .indent = -1, .tight = true, .sorted = true });
}

/* ---- options --------------------------------------------------------------------------------- */

static bool scalar_option(const json_t *value, char *text, size_t bytes)
{
    char real[MS_REAL_TEXT];
    int  n = -1;

    if (json_is_string(value)) {
        n = snprintf(text, bytes, "%s", json_string_value(value));
    } else if (json_is_integer(value)) {
        n = snprintf(text, bytes, "%lld", (long long)json_integer_value(value));
    } else if (json_is_real(value)) {
        ms_real_text(json_real_value(value), real);
        n = snprintf(text, bytes, "%s", real);
    } else if (json_is_boolean(value)) {
        n = snprintf(text, bytes, "%s", json_is_true(value) ? "yes" : "no");
    }
    return n >= 0 && (size_t)n < bytes;
}

bool ms_json_option(const json_t *value, char *text, size_t bytes)
{
    const char *key;
    json_t     *item;
    size_t      used = 0;

    if (!json_is_object(value)) return scalar_option(value, text, bytes);
    if (json_object_size(value) == 0) return false;
    json_object_foreach((json_t *)value, key, item)
    {
        const int n = snprintf(text + used, bytes - used, "%s%s=", used == 0 ? "" : ",", key);
        if (!json_is_number(item) || n < 0 || (size_t)n >= bytes - used) return false;
        used += (size_t)n;
        if (!scalar_option(item, text + used, bytes - used)) return false;
        used += strlen(text + used);
    }
    return true;
}

musec_status ms_json_print(ms_error *e, const json_t *value, FILE *to)
{
    char        *text = ms_json_dump(value, 2);
    musec_status st   = MUSEC_OK;

    if (text == NULL)
        st = ms_fail(e, MUSEC_ENOMEM, "not enough memory for the result");
    else if (fputs(text, to) == EOF || fputc('\n', to) == EOF)
        st = ms_fail(e, MUSEC_EIO, "the result cannot be written (%s): is the disk full?",
                     strerror(errno));
    free(text);
    return st;
}

musec_status ms_json_finish(ms_error *e, json_t *value, FILE *to)
{
    const musec_status st = ms_json_print(e, value, to);
    json_decref(value);
    return st;
}

json_t *ms_json_real(double value) { return isfinite(value) ? json_real(value) : json_null(); }

double ms_json_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* Reads a value of this kind to where `out` points; false if it is of another. */
static bool read_kind(char kind, json_t *value, void *out)
{
    const char *text = json_string_value(value);

    switch (kind) {
    case 's': *(const char **)out = text; return text != NULL;
    case 'i': *(json_int_t *)out = json_integer_value(value); return json_is_integer(value);
    case 'b': *(int *)out = json_is_true(value); return json_is_boolean(value);
    default: *(json_t **)out = value; return true;
    }
}

bool ms_json_get(const json_t *object, const char *members, ...)
{
    char    name[64];
    va_list args;
    bool    ok = true;

    va_start(args, members);
    for (const char *at = members; ok && *at != '\0'; at += strspn(at, " ")) {
        const size_t bytes = strcspn(at, ":");
        const char   kind  = at[bytes + 1];
        const bool   may   = at[bytes + 2] == '?';
        void        *out   = va_arg(args, void *);
        json_t      *value;

        snprintf(name, sizeof name, "%.*s", (int)bytes, at);
        value = json_object_get(object, name);
        ok    = value == NULL ? may : read_kind(kind, value, out);
        at += strcspn(at, " ");
    }
    va_end(args);
    return ok;
}

json_t *ms_json_string(const char *text) { return ms_json_bytes(text, strlen(text)); }

json_t *ms_json_bytes(const char *text, size_t bytes)
{
    static const char mark[] = "\xef\xbf\xbd"; /* U+FFFD, the replacement character */
    json_t           *value  = json_stringn(text, bytes);
    char             *copy   = value != NULL ? NULL : malloc(3 * bytes + 1);
    size_t            n      = 0;

    if (value != NULL) return value;
    if (copy == NULL) return NULL;
    for (size_t i = 0, k; i < bytes; i += k) {
        const size_t is = text[i] == '\0' ? 1 : ms_text_char(text + i);
        k               = is == 0 || is > bytes - i ? 1 : is;
        memcpy(copy + n, k == is ? text + i : mark, k == is ? k : 3);
        n += k == is ? k : 3;
    }
    value = json_stringn(copy, n);
    free(copy);
    return value;
}

/* ---- making values --------------------------------------------------------------------------- */

static void release_if(bool failed, json_t **to)
{
    if (!failed) return;
    json_decref(*to);
    *to = NULL;
}

void ms_json_set(json_t **to, const char *key, json_t *value)
{
    release_if(json_object_set_new(*to, key, value) != 0, to);
}

void ms_json_append(json_t **to, json_t *value)
{
    release_if(json_array_append_new(*to, value) != 0, to);
}

musec_status ms_json_put(ms_error *e, json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) == 0) return MUSEC_OK;
    return ms_no_memory(e, "a JSON value");
}

musec_status ms_json_push(ms_error *e, json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) == 0) return MUSEC_OK;
    return ms_no_memory(e, "a JSON value");
}

void ms_json_update(json_t **to, const json_t *from)
{
    const char *key;
    json_t     *value;

    json_object_foreach((json_t *)from, key, value) { ms_json_set(to, key, json_incref(value)); }
}

json_t *ms_json_copy(const json_t *value)
{
    json_t *out = json_is_object(value) ? json_object() : json_array();

    if (json_is_object(value)) ms_json_update(&out, value);
    for (size_t i = 0; i < json_array_size(value); i++)
        ms_json_append(&out, json_incref(json_array_get(value, i)));
    return out;
}

json_t *ms_json_deep_copy(const json_t *value)
{
    json_t     *out, *item;
    const char *key;

    if (!json_is_object(value) && !json_is_array(value)) /* no part of it can change */
        return json_deep_copy(value);
    out = json_is_object(value) ? json_object() : json_array();
    json_object_foreach((json_t *)value, key, item)
    {
        ms_json_set(&out, key, ms_json_deep_copy(item));
    }
    for (size_t i = 0; i < json_array_size(value); i++)
        ms_json_append(&out, ms_json_deep_copy(json_array_get(value, i)));
    return out;
}

void ms_json_add(json_t **to, const char *members, ...)
{
    char    name[64];
    va_list args;

    va_start(args, members);
    for (const char *at = members; *at != '\0'; at += strspn(at, " ")) {
        const size_t bytes = strcspn(at, "?=");
        const bool   flag  = at[bytes] == '?';
        const char  *text;
        json_t      *value;

        snprintf(name, sizeof name, "%.*s", (int)bytes, at);
        at += bytes + (flag ? 3 : 2);
        switch (*at) {
        case 'l': value = json_integer(va_arg(args, long long)); break;
        case 'z': value = json_integer((json_int_t)va_arg(args, size_t)); break;
        case 'd':
            value = flag ? json_boolean(va_arg(args, int)) : json_integer(va_arg(args, int));
            break;
        case 'g': value = ms_json_real(va_arg(args, double)); break;
        case 'p': value = va_arg(args, void *); break;
        default:
            text  = va_arg(args, const char *);
            value = text != NULL ? ms_json_string(text) : json_null();
        }
        ms_json_set(to, name, value);
        at += strcspn(at, " ");
    }
    va_end(args);
}
