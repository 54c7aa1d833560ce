/* json_parse.c - a recursive-descent reader of JSON (RFC 8259) that makes jansson's values.
 *
 * A text without escapes is taken from where it stands; another is put together in one buffer of
 * the reader, which holds names and numbers as well, as they need a zero behind them.  Each growth
 * and each value is checked: what cannot be kept ends the reading with MUSEC_ENOMEM. */
#include "core/json_parse.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/real.h"
#include "core/size.h"
#include "core/text.h"

enum { MAX_DEPTH = 1024, SHOWN_BYTES = 20, MIN_BUFFER = 64 };

typedef struct json_reader {
    const char      *begin, *at, *end;
    unsigned         rules;
    int              depth;
    char            *buffer; /* of the text being read */
    size_t           n, capacity;
    ms_json_problem *problem;
} json_reader;

/* ---- failures -------------------------------------------------------------------------------- */

static musec_status bad(json_reader *r, const char *at, const char *fmt, ...) MS_PRINTF(3, 4);
static musec_status bad(json_reader *r, const char *at, const char *fmt, ...)
{
    ms_json_problem *p = r->problem;
    va_list          args;

    p->line = 1;
    p->byte = (size_t)(at - r->begin);
    for (const char *c = r->begin; c < at; c++)
        p->line += *c == '\n';
    va_start(args, fmt);
    (void)vsnprintf(p->text, sizeof p->text, fmt, args);
    va_end(args);
    return MUSEC_EFORMAT;
}

static musec_status no_memory(json_reader *r)
{
    (void)bad(r, r->at, "not enough memory");
    return MUSEC_ENOMEM;
}

/* Fails because something else should stand here. */
static musec_status expected(json_reader *r, const char *what)
{
    char   shown[SHOWN_BYTES + 1];
    size_t n = 0;

    if (r->at == r->end) return bad(r, r->at, "it ends where %s should follow", what);
    for (; n < SHOWN_BYTES && r->at + n < r->end && r->at[n] > ' '; n++)
        shown[n] = r->at[n];
    shown[n] = '\0';
    return bad(r, r->at, "%s expected near '%s'", what, shown);
}

/* Checks a new value. */
static musec_status made(json_reader *r, json_t *value, json_t **out)
{
    *out = value;
    return value == NULL ? no_memory(r) : MUSEC_OK;
}

/* ---- the buffer ------------------------------------------------------------------------------ */

static musec_status put(json_reader *r, const char *text, size_t bytes)
{
    size_t needed = 0, larger = 0;
    char  *more;

    if (!ms_size_add(r->n, bytes, &needed) || !ms_size_add(needed, 1, &needed)) return no_memory(r);
    if (needed > r->capacity) {
        if (!ms_size_mul(r->capacity, 2, &larger) || larger < needed) larger = needed;
        if (larger < MIN_BUFFER) larger = MIN_BUFFER;
        more = realloc(r->buffer, larger);
        if (more == NULL) return no_memory(r);
        r->buffer   = more;
        r->capacity = larger;
    }
    if (bytes > 0) memcpy(r->buffer + r->n, text, bytes);
    r->n += bytes;
    r->buffer[r->n] = '\0';
    return MUSEC_OK;
}

/* ---- texts ----------------------------------------------------------------------------------- */

static bool skip_space(json_reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t'))
        r->at++;
    return r->at < r->end;
}

/* Bytes of the UTF-8 character here; 0 if none begins. */
static size_t character(const json_reader *r)
{
    const size_t left = (size_t)(r->end - r->at);
    char         last[8];

    if (left > 4) return ms_text_char(r->at);
    memcpy(last, r->at, left); /* nothing stands behind the last character */
    last[left] = '\0';
    return ms_text_char(last);
}

/* Moves over all that stands for itself. */
static musec_status skip_plain(json_reader *r)
{
    for (;;) {
        const unsigned char c = r->at < r->end ? (unsigned char)*r->at : 0;
        size_t              n = 1;

        if (r->at == r->end) return bad(r, r->at, "it ends inside a text");
        if (c == '"' || c == '\\') return MUSEC_OK;
        if (c < 0x20) return bad(r, r->at, "control character 0x%x in a text", (unsigned)c);
        if (c >= 0x80) n = character(r);
        if (n == 0) return bad(r, r->at, "byte 0x%x is no UTF-8 here", (unsigned)c);
        r->at += n;
    }
}

/* Reads four hexadecimal digits; false if they are none. */
static bool hex4(json_reader *r, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        const char c = r->at < r->end ? *r->at : '\0';
        uint32_t   digit;
        if (c >= '0' && c <= '9')
            digit = (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            digit = (uint32_t)(c - 'a') + 10;
        else if (c >= 'A' && c <= 'F')
            digit = (uint32_t)(c - 'A') + 10;
        else
            return false;
        *out = *out << 4 | digit;
    }
    return true;
}

static size_t utf8(uint32_t code, char out[4])
{
    static const unsigned char lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    const size_t               n      = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;

    for (size_t i = n; i-- > 1; code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(lead[n] | code);
    return n;
}

/* Reads what follows "\u": one code unit of UTF-16, or two. */
static musec_status put_unicode(json_reader *r)
{
    const char *const from = r->at - 2;
    uint32_t          code, low;
    char              text[4];

    if (!hex4(r, &code)) return bad(r, from, "\\u needs four hexadecimal digits");
    if (code >= 0xd800 && code < 0xdc00) {
        if (r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u')
            return bad(r, from, "half of a character: \\u%04x", (unsigned)code);
        r->at += 2;
        if (!hex4(r, &low) || low < 0xdc00 || low > 0xdfff)
            return bad(r, from, "half of a character: \\u%04x", (unsigned)code);
        code = 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00));
    } else if (code >= 0xdc00 && code < 0xe000) {
        return bad(r, from, "half of a character: \\u%04x", (unsigned)code);
    }
    if (code == 0 && (r->rules & MS_JSON_ZEROS) == 0)
        return bad(r, from, "\\u0000 cannot be part of a text here");
    return put(r, text, utf8(code, text));
}

static musec_status put_escape(json_reader *r)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char        c = r->end - r->at > 1 ? r->at[1] : '\0';
    const char       *which;

    r->at += 2;
    if (c == 'u') return put_unicode(r);
    which = c == '\0' ? NULL : strchr(from, c);
    if (which == NULL) return bad(r, r->at - 2, "\\ before what needs none");
    return put(r, to + (which - from), 1);
}

/* Reads a text, which lasts until the next one is read. */
static musec_status read_text(json_reader *r, const char **text, size_t *bytes)
{
    const char  *from = ++r->at;
    musec_status st;

    r->n = 0;
    TRY(skip_plain(r));
    if (*r->at == '"') {
        *text  = from;
        *bytes = (size_t)(r->at++ - from);
        return MUSEC_OK;
    }
    for (;;) {
        TRY(put(r, from, (size_t)(r->at - from)));
        if (*r->at == '"') break;
        TRY(put_escape(r));
        from = r->at;
        TRY(skip_plain(r));
    }
    r->at++;
    *text  = r->buffer;
    *bytes = r->n;
done:
    return st;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static size_t skip_digits(json_reader *r)
{
    const char *const from = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9')
        r->at++;
    return (size_t)(r->at - from);
}

static bool skip_one(json_reader *r, const char *of)
{
    if (r->at == r->end || *r->at == '\0' || strchr(of, *r->at) == NULL) return false;
    r->at++;
    return true;
}

/* Moves over a number; false if there is none.  *whole: it has neither point nor exponent. */
static bool skip_number(json_reader *r, bool *whole)
{
    (void)skip_one(r, "-");
    *whole = true;
    if (!skip_one(r, "0") && skip_digits(r) == 0) return false;
    if (skip_one(r, ".")) {
        *whole = false;
        if (skip_digits(r) == 0) return false;
    }
    if (skip_one(r, "eE")) {
        *whole = false;
        (void)skip_one(r, "+-");
        if (skip_digits(r) == 0) return false;
    }
    return true;
}

static musec_status read_number(json_reader *r, json_t **out)
{
    const char *const from = r->at;
    bool              whole;
    long long         integer = 0;
    double            real    = 0.0;
    musec_status      st;

    if (!skip_number(r, &whole)) return bad(r, from, "invalid number");
    r->n = 0;
    TRY(put(r, from, (size_t)(r->at - from)));
    errno = 0;
    if (whole && (r->rules & MS_JSON_REALS) == 0) {
        integer               = strtoll(r->buffer, NULL, 10);
        r->problem->too_large = errno == ERANGE;
    } else {
        whole                 = false;
        real                  = ms_real_read(r->buffer, &(char *){ NULL });
        r->problem->too_large = isinf(real);
    }
    if (r->problem->too_large) return bad(r, from, "too large a number");
    TRY(made(r, whole ? json_integer(integer) : json_real(real), out));
done:
    return st;
}

/* ---- values ---------------------------------------------------------------------------------- */

static musec_status read_value(json_reader *r, json_t **out);

/* Reads "name": value of an object. */
static musec_status read_member(json_reader *r, json_t *object)
{
    const char  *name, *from = r->at;
    size_t       bytes;
    char        *kept  = NULL; /* the value's texts take the buffer */
    json_t      *value = NULL;
    musec_status st;

    if (*from != '"') return expected(r, "a name in quotes");
    TRY(read_text(r, &name, &bytes));
    if (memchr(name, '\0', bytes) != NULL) return bad(r, from, "\\u0000 cannot be part of a name");
    kept = malloc(bytes + 1);
    if (kept == NULL) return no_memory(r);
    memcpy(kept, name, bytes);
    kept[bytes] = '\0';
    if ((r->rules & MS_JSON_ONCE) != 0 && json_object_get(object, kept) != NULL)
        TRY(bad(r, from, "duplicate object key \"%.40s\"", kept));
    if (!skip_space(r) || *r->at != ':') TRY(expected(r, "':'"));
    r->at++;
    TRY(read_value(r, &value));
    if (json_object_set_new_nocheck(object, kept, value) != 0) st = no_memory(r);
done:
    free(kept);
    return st;
}

static musec_status read_item(json_reader *r, json_t *array)
{
    json_t            *value = NULL;
    const musec_status st    = read_value(r, &value);

    if (st != MUSEC_OK) return st;
    return json_array_append_new(array, value) == 0 ? MUSEC_OK : no_memory(r);
}

/* Reads an object or an array, whose members are separated by commas. */
static musec_status read_members(json_reader *r, json_t **out)
{
    const bool   object = *r->at++ == '{';
    const char   last   = object ? '}' : ']';
    json_t      *all    = NULL;
    musec_status st;

    if (++r->depth > MAX_DEPTH) return bad(r, r->at - 1, "nested too deeply");
    TRY(made(r, object ? json_object() : json_array(), &all));
    if (!skip_space(r) || *r->at != last) {
        for (;; r->at++) {
            if (!skip_space(r)) TRY(expected(r, object ? "a name in quotes" : "a value"));
            TRY(object ? read_member(r, all) : read_item(r, all));
            if (!skip_space(r) || *r->at != ',') break;
        }
        if (r->at == r->end || *r->at != last)
            TRY(expected(r, object ? "',' or '}'" : "',' or ']'"));
    }
    r->at++;
    r->depth--;
    *out = all;
    all  = NULL;
done:
    json_decref(all);
    return st;
}

/* Reads true, false or null. */
static musec_status read_word(json_reader *r, json_t **out)
{
    static const char *const words[] = { "true", "false", "null" };
    const size_t             left    = (size_t)(r->end - r->at);

    for (size_t i = 0; i < COUNT(words); i++) {
        const size_t n = strlen(words[i]);
        if (left < n || memcmp(r->at, words[i], n) != 0) continue;
        r->at += n;
        return made(r, i == 0 ? json_true() : i == 1 ? json_false() : json_null(), out);
    }
    return expected(r, "a value");
}

static musec_status read_value(json_reader *r, json_t **out)
{
    const char  *text;
    size_t       bytes;
    musec_status st;

    if (!skip_space(r)) return expected(r, "a value");
    if (*r->at == '{' || *r->at == '[') return read_members(r, out);
    if (*r->at == '-' || (*r->at >= '0' && *r->at <= '9')) return read_number(r, out);
    if (*r->at != '"') return read_word(r, out);
    TRY(read_text(r, &text, &bytes));
    TRY(made(r, json_stringn_nocheck(text, bytes), out));
done:
    return st;
}

musec_status ms_json_parse(const char *text, size_t bytes, unsigned rules, ms_json_problem *problem,
                           json_t **out)
{
    ms_json_problem unused = { 0 };
    json_reader     r      = { text, text, text + bytes, .rules = rules,
                               .problem = problem != NULL ? problem : &unused };
    json_t         *root   = NULL;
    musec_status    st;

    *out       = NULL;
    *r.problem = (ms_json_problem){ .line = 1 };
    if (!skip_space(&r)) TRY(bad(&r, r.at, "there is nothing in it"));
    if (*r.at != '{' && *r.at != '[' && (rules & MS_JSON_ANY_VALUES) == 0)
        TRY(expected(&r, "'{' or '['"));
    TRY(read_value(&r, &root));
    if (skip_space(&r)) TRY(expected(&r, "its end"));
    *out = root;
    root = NULL;
done:
    json_decref(root);
    free(r.buffer);
    return st;
}
