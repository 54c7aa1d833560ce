/* npy.c - NumPy's .npy format.
 *
 *     "\x93NUMPY"  major  minor  header length (2 bytes in version 1, 4 in 2 and 3)
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   spaces   newline
 *     the elements
 *
 * The header is a Python literal; we accept the dictionaries that a Python reader would accept with
 * exactly these three keys, and nothing else.  A file of known size is held against the header
 * before the elements get memory; from a pipe they get it as they arrive, so that a false shape
 * cannot ask for more than twice what was sent.
 *
 * Fortran order is the same array with its axes reversed.  The first axis, which runs fastest in
 * the file, and the last one, which runs fastest in memory, span planes that are transposed; the
 * axes between only select a plane.  It is transposed in square tiles, which stay in the cache.
 *
 * Elements are copied as they are, so the host must be little-endian, as the files are. */
#include "core/npy.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/size.h"
#include "core/text.h"

#define MAGIC         "\x93NUMPY"
#define MAGIC_BYTES   6
#define HEADER_MAX    ((size_t)1 << 20) /* bytes; the longest one we understand has some 300 */
#define ALIGN         64                /* of the elements in the file, as NumPy does */
#define GROWTH_DIGITS 21                /* that NumPy reserves for a growing first axis */
#define PIPE_CHUNK    ((size_t)1 << 20)
#define TILE          32

typedef struct npy_header {
    char    descr[64];
    bool    fortran;
    int     ndim;
    int64_t shape[MS_NPY_DIMS];
} npy_header;

typedef struct npy_type { /* an element type: in our header, in the file, in memory */
    musec_dtype dtype;
    const char *descr;
    size_t      bytes;
} npy_type;

static const npy_type elements[] = {
    { MUSEC_F32, "<f4", 4 },
    { MUSEC_F64, "<f8", 8 },
};

/* ---- the header as text ---------------------------------------------------------------------- */

typedef struct parser {
    ms_error   *e;
    const char *path;
    const char *begin, *at, *end;
} parser;

static musec_status damaged(const parser *p, const char *what)
{
    return ms_fail(p->e, MUSEC_EFORMAT, "%s: damaged .npy header: %s at its byte %zu", p->path,
                   what, (size_t)(p->at - p->begin));
}

static void skip_space(parser *p)
{
    while (p->at < p->end && (*p->at == ' ' || (*p->at >= '\t' && *p->at <= '\r')))
        p->at++;
}

static bool eat(parser *p, const char *word) /* white space before it counts for nothing */
{
    const size_t n = strlen(word);
    skip_space(p);
    if ((size_t)(p->end - p->at) < n || memcmp(p->at, word, n) != 0) return false;
    p->at += n;
    return true;
}

static musec_status parse_string(parser *p, char *out, size_t size)
{
    const char *quote = eat(p, "'") ? "'" : eat(p, "\"") ? "\"" : NULL;
    size_t      n     = 0;

    if (quote == NULL) return damaged(p, "a quoted string is missing");
    for (; p->at < p->end && *p->at != *quote; p->at++) {
        if (*p->at < ' ' || *p->at > '~' || *p->at == '\\') return damaged(p, "odd character");
        if (n + 1 >= size) return damaged(p, "string too long");
        out[n++] = *p->at;
    }
    out[n] = '\0';
    return eat(p, quote) ? MUSEC_OK : damaged(p, "a quote is missing");
}

static musec_status parse_dim(parser *p, int64_t *out)
{
    const char *first = p->at;
    int64_t     v     = 0;

    for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++) {
        const int digit = *p->at - '0';
        if (v > (INT64_MAX - digit) / 10) return damaged(p, "dimension too large");
        v = 10 * v + digit;
    }
    if (p->at == first) return damaged(p, "a dimension is missing");
    if (*first == '0' && p->at - first > 1) return damaged(p, "a dimension begins with 0");
    *out = v;
    return MUSEC_OK;
}

static musec_status parse_shape(parser *p, npy_header *h)
{
    bool         comma = true;
    musec_status st    = MUSEC_OK;

    h->ndim = 0;
    if (!eat(p, "(")) return damaged(p, "the shape is no tuple");
    while (!eat(p, ")")) {
        int64_t dim = 0;
        if (!comma) return damaged(p, "a comma is missing");
        TRY(parse_dim(p, &dim));
        if (h->ndim == MS_NPY_DIMS)
            return ms_fail(p->e, MUSEC_EFORMAT, "%s: has more than %d dimensions", p->path,
                           MS_NPY_DIMS);
        h->shape[h->ndim++] = dim;
        comma               = eat(p, ",");
    }
    if (h->ndim == 1 && !comma) st = damaged(p, "(n) is no tuple"); /* in Python it is a number */
done:
    return st;
}

static musec_status parse_value(parser *p, const char *key, npy_header *h)
{
    if (strcmp(key, "shape") == 0) return parse_shape(p, h);
    if (strcmp(key, "fortran_order") == 0) {
        h->fortran = eat(p, "True");
        return h->fortran || eat(p, "False") ? MUSEC_OK : damaged(p, "neither True nor False");
    }
    if (eat(p, "["))
        return ms_fail(p->e, MUSEC_EFORMAT,
                       "%s: holds records, not numbers; musec reads '<f4' and '<f8'", p->path);
    return parse_string(p, h->descr, sizeof h->descr);
}

static musec_status parse_header(ms_error *e, const char *path, const char *text, size_t bytes,
                                 npy_header *h)
{
    static const char *const keys[]            = { "descr", "fortran_order", "shape" };
    bool                     seen[COUNT(keys)] = { false };
    bool                     comma             = true;
    parser       p  = { .e = e, .path = path, .begin = text, .at = text, .end = text + bytes };
    musec_status st = MUSEC_OK;

    if (!eat(&p, "{")) return damaged(&p, "{ is missing");
    while (!eat(&p, "}")) {
        char   key[16];
        size_t k = 0;
        if (!comma) return damaged(&p, "a comma is missing");
        TRY(parse_string(&p, key, sizeof key));
        while (k < COUNT(keys) && strcmp(key, keys[k]) != 0)
            k++;
        if (k == COUNT(keys)) return damaged(&p, "unknown key");
        if (seen[k]) return damaged(&p, "key given twice");
        if (!eat(&p, ":")) return damaged(&p, "a colon is missing");
        TRY(parse_value(&p, key, h));
        seen[k] = true;
        comma   = eat(&p, ",");
    }
    skip_space(&p);
    if (p.at != p.end) return damaged(&p, "something after }");
    for (size_t k = 0; k < COUNT(keys); k++)
        if (!seen[k])
            return ms_fail(e, MUSEC_EFORMAT, "%s: damaged .npy header: no %s", path, keys[k]);
done:
    return st;
}

/* "(2, 3)", "(3,)", "()": as Python writes it. */
static void shape_text(int ndim, const int64_t *shape, char *out, size_t size)
{
    snprintf(out, size, "(");
    for (int i = 0; i < ndim; i++) {
        const char *sep = i + 1 < ndim ? ", " : ndim == 1 ? "," : "";
        ms_text_append(out, size, "%lld%s", (long long)shape[i], sep);
    }
    ms_text_append(out, size, ")");
}

#define SHAPE_TEXT_MAX (MS_NPY_DIMS * 22 + 4) /* 20 characters and a separator for each */

/* ---- reading --------------------------------------------------------------------------------- */

/* Magic, version and the length of the header. */
static musec_status read_preamble(ms_error *e, FILE *f, const char *path, size_t *header_bytes)
{
    unsigned char b[MAGIC_BYTES + 2 + 4];
    const size_t  got = fread(b, 1, MAGIC_BYTES + 2, f);
    size_t        length_bytes;

    if (ferror(f)) return ms_fail(e, MUSEC_EIO, "%s: cannot read (%s)", path, strerror(errno));
    if (got == 0) return ms_fail(e, MUSEC_EFORMAT, "%s: is empty, not a .npy file", path);
    if (got >= 4 && memcmp(b, "PK\3\4", 4) == 0)
        return ms_fail(e, MUSEC_EFORMAT,
                       "%s: is a zip archive (.npz?), not a .npy file; in NumPy: "
                       "np.save('x.npy', np.load(file)[name])",
                       path);
    if (memcmp(b, MAGIC, got < MAGIC_BYTES ? got : MAGIC_BYTES) != 0)
        return ms_fail(e, MUSEC_EFORMAT,
                       "%s: is not a .npy file (it does not begin with \\x93NUMPY)", path);
    if (got < MAGIC_BYTES + 2)
        return ms_fail(e, MUSEC_EFORMAT, "%s: is a .npy file truncated to %zu bytes", path, got);
    if (b[6] < 1 || b[6] > 3 || b[7] != 0)
        return ms_fail(e, MUSEC_EFORMAT, "%s: has .npy version %d.%d; musec reads 1.0, 2.0 and 3.0",
                       path, b[6], b[7]);
    length_bytes  = b[6] == 1 ? 2 : 4;
    *header_bytes = 0;
    if (fread(b + MAGIC_BYTES + 2, 1, length_bytes, f) != length_bytes)
        return ms_fail(e, MUSEC_EFORMAT, "%s: is a .npy file truncated inside its header", path);
    for (size_t i = 0; i < length_bytes; i++)
        *header_bytes |= (size_t)b[MAGIC_BYTES + 2 + i] << (8 * i);
    if (*header_bytes > HEADER_MAX)
        return ms_fail(e, MUSEC_EFORMAT, "%s: damaged .npy header: a length of %zu bytes", path,
                       *header_bytes);
    return MUSEC_OK;
}

static musec_status read_header(ms_error *e, FILE *f, const char *path, npy_header *h)
{
    char        *text  = NULL;
    size_t       bytes = 0;
    musec_status st;

    TRY(read_preamble(e, f, path, &bytes));
    text = malloc(bytes + 1);
    if (text == NULL) TRY(ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory for its header", path));
    if (fread(text, 1, bytes, f) != bytes)
        TRY(ms_fail(e, MUSEC_EFORMAT, "%s: is a .npy file truncated inside its header", path));
    TRY(parse_header(e, path, text, bytes, h));
done:
    free(text);
    return st;
}

static musec_status find_element(ms_error *e, const char *path, const npy_header *h, npy_type *out)
{
    for (size_t i = 0; i < COUNT(elements); i++) {
        if (strcmp(h->descr, elements[i].descr) == 0) {
            *out = elements[i];
            return MUSEC_OK;
        }
    }
    return ms_fail(e, MUSEC_EFORMAT,
                   "%s: holds elements of type '%s'; musec reads '<f4' and '<f8'; in NumPy: "
                   "np.save(file, np.load(file).astype('<f4'))",
                   path, h->descr);
}

/* The bytes of all elements, checked with empty axes counted as 1, so that no partial product of
 * the shape can overflow later. */
static bool data_bytes(int ndim, const int64_t *shape, size_t each, size_t *out)
{
    size_t bytes = each;
    bool   empty = false;

    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0) return false;
        empty = empty || shape[i] == 0;
        if (!ms_size_mul(bytes, shape[i] == 0 ? 1 : (size_t)shape[i], &bytes)) return false;
    }
    if (bytes > PTRDIFF_MAX) return false;
    *out = empty ? 0 : bytes;
    return true;
}

/* found: bytes of elements in the file, or -1 for more than were wanted. */
static musec_status wrong_size(ms_error *e, const char *path, const npy_header *h, size_t want,
                               long long found, const char *verdict)
{
    char shape[SHAPE_TEXT_MAX];
    shape_text(h->ndim, h->shape, shape, sizeof shape);
    return ms_fail(e, MUSEC_EFORMAT,
                   "%s: %s: shape %s of %s takes %zu bytes, the file holds %s%lld", path, verdict,
                   shape, h->descr, want, found < 0 ? "more than " : "",
                   found < 0 ? (long long)want : found);
}

/* Reads `bytes` to the end of the file.  `first` bytes are allocated at once; more as it comes. */
static musec_status read_data(ms_error *e, FILE *f, const char *path, const npy_header *h,
                              size_t bytes, size_t first, void **out)
{
    unsigned char *data     = NULL;
    size_t         capacity = 0, got = 0;
    musec_status   st = MUSEC_OK;

    do {
        const size_t   want = capacity == 0                 ? first
                              : bytes - capacity > capacity ? 2 * capacity
                                                            : bytes;
        unsigned char *more = realloc(data, want == 0 ? 1 : want); /* never NULL for no elements */
        if (more == NULL)
            TRY(ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory for its %zu bytes", path, bytes));
        data     = more;
        capacity = want;
        got += fread(data + got, 1, capacity - got, f);
    } while (got == capacity && capacity < bytes);
    if (ferror(f)) {
        st = ms_fail(e, MUSEC_EIO, "%s: cannot read (%s)", path, strerror(errno));
    } else if (got < bytes) {
        st = wrong_size(e, path, h, bytes, (long long)got, "truncated");
    } else if (fgetc(f) != EOF) {
        st = wrong_size(e, path, h, bytes, -1, "too long");
    }
    if (st != MUSEC_OK) goto done;
    *out = data;
    data = NULL;
done:
    free(data);
    return st;
}

/* out[i * out_step + j] = in[i + j * in_step] for i < rows, j < cols, counted in elements. */
static void transpose_plane(const unsigned char *in, size_t in_step, unsigned char *out,
                            size_t out_step, size_t rows, size_t cols, size_t each)
{
    for (size_t i0 = 0; i0 < rows; i0 += TILE) {
        const size_t i1 = rows - i0 < TILE ? rows : i0 + TILE;
        for (size_t j0 = 0; j0 < cols; j0 += TILE) {
            const size_t j1 = cols - j0 < TILE ? cols : j0 + TILE;
            for (size_t i = i0; i < i1; i++) {
                for (size_t j = j0; j < j1; j++) {
                    const unsigned char *from = in + each * (i + j * in_step);
                    unsigned char       *to   = out + each * (i * out_step + j);
                    if (each == 4)
                        memcpy(to, from, 4); /* sizes known to the compiler: one move each */
                    else
                        memcpy(to, from, 8);
                }
            }
        }
    }
}

/* Fortran order to C order.  The counter `at` runs over the axes between the first and the last. */
static void to_c_order(const unsigned char *in, unsigned char *out, const npy_header *h,
                       size_t each)
{
    const int last = h->ndim - 1;
    size_t    in_step[MS_NPY_DIMS], out_step[MS_NPY_DIMS], at[MS_NPY_DIMS] = { 0 };
    int       axis;

    in_step[0] = out_step[last] = 1;
    for (int k = 1; k <= last; k++) {
        in_step[k]         = in_step[k - 1] * (size_t)h->shape[k - 1];
        out_step[last - k] = out_step[last - k + 1] * (size_t)h->shape[last - k + 1];
    }
    do {
        size_t from = 0, to = 0;
        for (int k = 1; k < last; k++) {
            from += at[k] * in_step[k];
            to += at[k] * out_step[k];
        }
        transpose_plane(in + each * from, in_step[last], out + each * to, out_step[0],
                        (size_t)h->shape[0], (size_t)h->shape[last], each);
        for (axis = 1; axis < last && ++at[axis] == (size_t)h->shape[axis]; axis++)
            at[axis] = 0;
    } while (axis < last);
}

musec_status ms_npy_read(ms_error *e, const char *path, ms_npy *out)
{
    FILE        *f    = NULL;
    void        *data = NULL, *transposed = NULL;
    npy_header   h     = { 0 };
    npy_type     each  = { 0 };
    size_t       bytes = 0, first;
    int64_t      file_bytes;
    musec_status st;

    memset(out, 0, sizeof *out);
    TRY(ms_file_open_read(e, path, &f));
    TRY(read_header(e, f, path, &h));
    TRY(find_element(e, path, &h, &each));
    if (!data_bytes(h.ndim, h.shape, each.bytes, &bytes)) {
        char shape[SHAPE_TEXT_MAX];
        shape_text(h.ndim, h.shape, shape, sizeof shape);
        st = ms_fail(e, MUSEC_EFORMAT, "%s: a shape of %s is beyond any memory", path, shape);
        goto done;
    }
    first      = bytes < PIPE_CHUNK ? bytes : PIPE_CHUNK;
    file_bytes = ms_file_bytes(f);
    if (file_bytes >= 0) {
        const long long left = (long long)file_bytes - (long long)ftell(f);
        if (left != (long long)bytes)
            TRY(wrong_size(e, path, &h, bytes, left < 0 ? 0 : left,
                           left < (long long)bytes ? "truncated" : "too long"));
        first = bytes;
    }
    TRY(read_data(e, f, path, &h, bytes, first, &data));
    if (h.fortran && h.ndim > 1 && bytes > 0) {
        transposed = malloc(bytes);
        if (transposed == NULL)
            TRY(ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory to transpose its %zu bytes", path,
                        bytes));
        to_c_order(data, transposed, &h, each.bytes);
        free(data);
        data = transposed;
    }
    *out = (ms_npy){ .data = data, .dtype = each.dtype, .ndim = h.ndim };
    memcpy(out->shape, h.shape, sizeof out->shape);
    data = NULL;
done:
    free(data);
    if (f != NULL) fclose(f);
    return st;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The preamble and header as NumPy writes them: keys in this order, spare spaces for a growing
 * first axis, a newline, 1 to 64 spaces before it.  At most MS_NPY_DIMS axes keep it far below the
 * 65535 bytes at which version 2 would begin.  Returns its length. */
static size_t format_header(const ms_npy *in, const char *descr, char *out, size_t size)
{
    const size_t at = MAGIC_BYTES + 4;
    char         shape[SHAPE_TEXT_MAX];
    size_t       n, total;

    shape_text(in->ndim, in->shape, shape, sizeof shape);
    n = (size_t)snprintf(out + at, size - at,
                         "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape);
    n += at;
    total = n + 1;
    if (in->ndim > 0)
        total += GROWTH_DIGITS - (size_t)snprintf(NULL, 0, "%lld", (long long)in->shape[0]);
    total += ALIGN - total % ALIGN;
    memset(out + n, ' ', total - 1 - n);
    out[total - 1] = '\n';
    memcpy(out, MAGIC "\1\0", MAGIC_BYTES + 2);
    out[MAGIC_BYTES + 2] = (char)((total - at) & 0xFF);
    out[MAGIC_BYTES + 3] = (char)((total - at) >> 8);
    return total;
}

musec_status ms_npy_write_to(ms_error *e, ms_out_file *out, const ms_npy *in)
{
    const npy_type *each = NULL;
    char            head[512 + ALIGN];
    size_t          bytes = 0;
    musec_status    st;

    for (size_t i = 0; i < COUNT(elements); i++)
        if (elements[i].dtype == in->dtype) each = &elements[i];
    if (each == NULL || in->ndim < 0 || in->ndim > MS_NPY_DIMS ||
        !data_bytes(in->ndim, in->shape, each->bytes, &bytes) || (bytes > 0 && in->data == NULL))
        return ms_fail(e, MUSEC_EINVAL, "%s: no such array can be written: dtype %d, %d dimensions",
                       out->path, (int)in->dtype, in->ndim);
    TRY(ms_out_write(e, out, head, format_header(in, each->descr, head, sizeof head)));
    TRY(ms_out_write(e, out, in->data, bytes));
done:
    return st;
}

musec_status ms_npy_write(ms_error *e, const char *path, const ms_npy *in)
{
    ms_out_file  out = { 0 };
    musec_status st;

    TRY(ms_out_open(e, path, &out));
    TRY(ms_npy_write_to(e, &out, in));
    TRY(ms_out_commit(e, &out));
done:
    ms_out_abandon(&out);
    return st;
}

void ms_npy_free(ms_npy *npy)
{
    free(npy->data);
    memset(npy, 0, sizeof *npy);
}
