/* safetensors.c - reading and writing .safetensors files.
 *
 *     8 bytes   length n of the header, little-endian
 *     n bytes   JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...,
 *               "__metadata__": {"key": "text", ...}}
 *     the rest  the tensors, which must fill it without gap or overlap
 *
 * Every number of the header is checked when the file is opened, so that a tensor can be read later
 * without further checks.  A dtype that is not in our table may have any length and is refused when
 * read: new ones appear, and the other tensors of such a file are good all the same.
 *
 * F16 and BF16 are read into the upper half of the float32 array that they become and widened from
 * its start: element i is written at or below where element i+1 is read.
 *
 * The header that we write is padded with blanks, so that the tensors begin at a multiple of 8. */
#define _POSIX_C_SOURCE 200809L /* fseeko, strdup */
#include "core/safetensors.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/half.h"
#include "core/json_file.h"
#include "core/size.h"
#include "core/text.h"

#define LENGTH_BYTES 8
#define HEADER_MAX   ((uint64_t)100 * 1000 * 1000) /* bytes, the format's own limit */
#define METADATA     "__metadata__"

/* ---- element types --------------------------------------------------------------------------- */

typedef struct tensor_type {
    const char *name;
    unsigned    bits;
    musec_dtype dtype;          /* of the array it is read into; 0: it cannot be read */
    float (*widen)(uint16_t h); /* NULL: the elements are copied */
} tensor_type;

static const tensor_type elements[] = {
    { "F32", 32, MUSEC_F32, NULL },
    { "F64", 64, MUSEC_F64, NULL },
    { "F16", 16, MUSEC_F32, ms_float_of_f16 },
    { "BF16", 16, MUSEC_F32, ms_float_of_bf16 },
    { "BOOL", 8, 0, NULL },
    { "U8", 8, 0, NULL },
    { "I8", 8, 0, NULL },
    { "U16", 16, 0, NULL },
    { "I16", 16, 0, NULL },
    { "U32", 32, 0, NULL },
    { "I32", 32, 0, NULL },
    { "U64", 64, 0, NULL },
    { "I64", 64, 0, NULL },
    { "C64", 64, 0, NULL },
    { "F8_E4M3", 8, 0, NULL },
    { "F8_E5M2", 8, 0, NULL },
    { "F8_E8M0", 8, 0, NULL },
    { "F6_E2M3", 6, 0, NULL },
    { "F6_E3M2", 6, 0, NULL },
    { "F4", 4, 0, NULL },
};

static const tensor_type *find_element(const char *name) /* NULL: unknown */
{
    for (size_t i = 0; i < COUNT(elements); i++)
        if (strcmp(elements[i].name, name) == 0) return &elements[i];
    return NULL;
}

int ms_safetensors_readable(const ms_tensor_info *t)
{
    const tensor_type *el = find_element(t->dtype);
    return el != NULL && el->dtype != 0;
}

/* ---- the header ------------------------------------------------------------------------------ */

static musec_status bad_tensor(ms_error *e, const char *path, const char *name, const char *what)
{
    return ms_fail(e, MUSEC_EFORMAT, "%s: tensor '%.100s': %s", path, name, what);
}

/* Is it a JSON array of non-negative whole numbers? */
static bool is_count_array(const json_t *array)
{
    if (!json_is_array(array)) return false;
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *v = json_array_get(array, i);
        if (!json_is_integer(v) || json_integer_value(v) < 0) return false;
    }
    return true;
}

static uint64_t count_at(const json_t *array, size_t i)
{
    return (uint64_t)json_integer_value(json_array_get(array, i));
}

/* Bits of the whole tensor.  Empty axes count as 1 in the check, so that no partial product of the
 * shape can overflow later. */
static bool tensor_bits(const json_t *shape, unsigned each, size_t *out)
{
    size_t bits  = each;
    bool   empty = false;

    for (size_t i = 0; i < json_array_size(shape); i++) {
        const uint64_t dim = count_at(shape, i);
        empty              = empty || dim == 0;
        if (!ms_size_mul(bits, dim == 0 ? 1 : (size_t)dim, &bits)) return false;
    }
    *out = empty ? 0 : bits;
    return true;
}

static musec_status read_entry(ms_error *e, const char *path, const char *name, const json_t *entry,
                               ms_tensor_info *t)
{
    const char        *dtype   = json_string_value(json_object_get(entry, "dtype"));
    const json_t      *shape   = json_object_get(entry, "shape");
    const json_t      *offsets = json_object_get(entry, "data_offsets");
    const tensor_type *el;
    size_t             bits = 0;

    if (dtype == NULL || strlen(dtype) >= sizeof t->dtype)
        return bad_tensor(e, path, name, "no dtype, or one that is no short text");
    if (!is_count_array(shape) || json_array_size(shape) > INT32_MAX)
        return bad_tensor(e, path, name, "no shape, or one that is no list of dimensions");
    if (!is_count_array(offsets) || json_array_size(offsets) != 2 ||
        count_at(offsets, 0) > count_at(offsets, 1))
        return bad_tensor(e, path, name, "no data_offsets, or not [begin, end]");
    t->begin = count_at(offsets, 0);
    t->end   = count_at(offsets, 1);
    t->ndim  = (int)json_array_size(shape);
    for (int i = 0; i < t->ndim && i < MS_NPY_DIMS; i++)
        t->shape[i] = (int64_t)count_at(shape, (size_t)i);
    memcpy(t->dtype, dtype, strlen(dtype) + 1);
    el = find_element(dtype);
    if (!tensor_bits(shape, el == NULL ? 1 : el->bits, &bits))
        return bad_tensor(e, path, name, "its shape is beyond any memory");
    if (el != NULL && (bits % 8 != 0 || bits / 8 != t->end - t->begin))
        return ms_fail(e, MUSEC_EFORMAT,
                       "%s: tensor '%.100s': its shape takes %zu bits of %s, its data_offsets "
                       "enclose %llu bytes",
                       path, name, bits, t->dtype, (unsigned long long)(t->end - t->begin));
    t->name = strdup(name);
    if (t->name == NULL) return ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory", path);
    return MUSEC_OK;
}

static int by_offset(const void *pa, const void *pb) /* empty ones first, then by name: total */
{
    const ms_tensor_info *a = pa, *b = pb;
    if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
    if (a->end != b->end) return a->end < b->end ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* The tensors, sorted, must fill `bytes` exactly. */
static musec_status check_cover(ms_error *e, const ms_safetensors *s, uint64_t bytes)
{
    uint64_t at = 0;

    for (size_t i = 0; i < s->n_tensors; i++) {
        const ms_tensor_info *t = &s->tensors[i];
        if (t->begin < at) return bad_tensor(e, s->path, t->name, "overlaps the tensor before it");
        if (t->begin > at)
            return bad_tensor(e, s->path, t->name, "before it lies a gap that is no tensor's");
        at = t->end;
    }
    if (at == bytes) return MUSEC_OK;
    return ms_fail(e, MUSEC_EFORMAT, "%s: %s: its tensors take %llu bytes, the file holds %llu",
                   s->path, at > bytes ? "truncated" : "too long", (unsigned long long)at,
                   (unsigned long long)bytes);
}

/* The metadata are strings by key, or null; other readers refuse anything else as well. */
static musec_status read_metadata(ms_error *e, json_t *map, ms_safetensors *s)
{
    const char *key;
    json_t     *text;

    if (json_is_null(map)) return MUSEC_OK;
    if (!json_is_object(map))
        return ms_fail(e, MUSEC_EFORMAT, "%s: its %s is no map of texts", s->path, METADATA);
    s->metadata = calloc(json_object_size(map) + 1, sizeof *s->metadata);
    if (s->metadata == NULL) return ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory", s->path);
    json_object_foreach(map, key, text)
    {
        char **pair = s->metadata[s->n_metadata];
        if (!json_is_string(text))
            return ms_fail(e, MUSEC_EFORMAT, "%s: its %s '%.100s' is no text", s->path, METADATA,
                           key);
        s->n_metadata++;
        pair[0] = strdup(key);
        pair[1] = strdup(json_string_value(text));
        if (pair[0] == NULL || pair[1] == NULL)
            return ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory", s->path);
    }
    return MUSEC_OK;
}

static musec_status read_entries(ms_error *e, json_t *root, ms_safetensors *s)
{
    const char  *name;
    json_t      *entry;
    musec_status st = MUSEC_OK;

    s->tensors = calloc(json_object_size(root) + 1, sizeof *s->tensors);
    if (s->tensors == NULL) return ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory", s->path);
    json_object_foreach(root, name, entry)
    {
        if (strcmp(name, METADATA) == 0) {
            TRY(read_metadata(e, entry, s));
            continue;
        }
        TRY(read_entry(e, s->path, name, entry, &s->tensors[s->n_tensors]));
        s->n_tensors++;
    }
    qsort(s->tensors, s->n_tensors, sizeof *s->tensors, by_offset);
done:
    return st;
}

static musec_status read_header(ms_error *e, uint64_t file_bytes, ms_safetensors *s)
{
    unsigned char   length[LENGTH_BYTES];
    uint64_t        bytes = 0;
    char           *text  = NULL;
    json_t         *root  = NULL;
    ms_json_problem why;
    musec_status    st;

    TRY(ms_file_read(e, s->f, s->path, length, sizeof length));
    for (size_t i = 0; i < sizeof length; i++)
        bytes |= (uint64_t)length[i] << (8 * i);
    if (bytes > HEADER_MAX || bytes > file_bytes - LENGTH_BYTES)
        TRY(ms_fail(e, MUSEC_EFORMAT,
                    "%s: is not a .safetensors file, or is truncated (a header of %llu bytes in a "
                    "file of %llu)",
                    s->path, (unsigned long long)bytes, (unsigned long long)file_bytes));
    text = malloc((size_t)bytes + 1);
    if (text == NULL)
        TRY(ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory for its header", s->path));
    TRY(ms_file_read(e, s->f, s->path, text, (size_t)bytes));
    if (ms_json_parse(text, (size_t)bytes, MS_JSON_ONCE, &why, &root) == MUSEC_ENOMEM)
        TRY(ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory for its header", s->path));
    if (!json_is_object(root))
        TRY(ms_fail(e, MUSEC_EFORMAT, "%s: damaged .safetensors header: %s", s->path,
                    root == NULL ? why.text : "it is no JSON object"));
    TRY(read_entries(e, root, s));
    s->data_at = LENGTH_BYTES + bytes;
    TRY(check_cover(e, s, file_bytes - s->data_at));
done:
    json_decref(root);
    free(text);
    return st;
}

musec_status ms_safetensors_open(ms_error *e, const char *path, ms_safetensors *out)
{
    int64_t      bytes;
    musec_status st;

    memset(out, 0, sizeof *out);
    TRY(ms_file_open_read(e, path, &out->f));
    TRY(ms_file_size(e, out->f, path, &bytes));
    out->path = strdup(path);
    if (out->path == NULL) TRY(ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory", path));
    if (bytes < 0)
        TRY(ms_fail(e, MUSEC_EIO, "%s: cannot read tensors from a pipe or device; give a file",
                    path));
    if (bytes < LENGTH_BYTES)
        TRY(ms_fail(e, MUSEC_EFORMAT, "%s: is not a .safetensors file: it has only %lld bytes",
                    path, (long long)bytes));
    TRY(read_header(e, (uint64_t)bytes, out));
done:
    if (st != MUSEC_OK) ms_safetensors_close(out);
    return st;
}

size_t ms_safetensors_find(const ms_safetensors *s, const char *name)
{
    size_t i = 0;
    while (i < s->n_tensors && strcmp(s->tensors[i].name, name) != 0)
        i++;
    return i;
}

void ms_safetensors_close(ms_safetensors *s)
{
    for (size_t i = 0; i < s->n_tensors; i++)
        free(s->tensors[i].name);
    for (size_t i = 0; i < s->n_metadata; i++) {
        free(s->metadata[i][0]);
        free(s->metadata[i][1]);
    }
    free(s->metadata);
    free(s->tensors);
    free(s->path);
    if (s->f != NULL) fclose(s->f);
    memset(s, 0, sizeof *s);
}

const char *ms_safetensors_metadata(const ms_safetensors *s, const char *key)
{
    for (size_t i = 0; i < s->n_metadata; i++)
        if (strcmp(s->metadata[i][0], key) == 0) return s->metadata[i][1];
    return NULL;
}

/* ---- a tensor -------------------------------------------------------------------------------- */

musec_status ms_safetensors_read(ms_error *e, ms_safetensors *s, size_t index, ms_npy *out)
{
    const ms_tensor_info *t;
    const tensor_type    *el;
    unsigned char        *data  = NULL;
    size_t                bytes = 0, raw, skip;
    musec_status          st    = MUSEC_OK;

    memset(out, 0, sizeof *out);
    if (index >= s->n_tensors)
        return ms_fail(e, MUSEC_EINVAL, "%s: has no tensor number %zu", s->path, index);
    t   = &s->tensors[index];
    el  = find_element(t->dtype);
    raw = (size_t)(t->end - t->begin);
    if (el == NULL || el->dtype == 0)
        return ms_fail(e, MUSEC_EFORMAT,
                       "%s: tensor '%.100s' is of type %s; musec reads F32, F64, F16 and BF16",
                       s->path, t->name, t->dtype);
    if (t->ndim > MS_NPY_DIMS)
        return ms_fail(e, MUSEC_EFORMAT,
                       "%s: tensor '%.100s' has %d dimensions; musec reads up to %d", s->path,
                       t->name, t->ndim, MS_NPY_DIMS);
    if (ms_size_mul(raw, el->widen == NULL ? 1 : 2, &bytes) && bytes <= PTRDIFF_MAX)
        data = malloc(bytes == 0 ? 1 : bytes); /* never NULL for no elements */
    if (data == NULL)
        TRY(ms_fail(e, MUSEC_ENOMEM, "%s: tensor '%.100s': not enough memory for its %zu bytes",
                    s->path, t->name, raw));
    if (fseeko(s->f, (off_t)(s->data_at + t->begin), SEEK_SET) != 0)
        TRY(ms_fail(e, MUSEC_EIO, "%s: cannot read (%s)", s->path, strerror(errno)));
    skip = bytes - raw;
    TRY(ms_file_read(e, s->f, s->path, data + skip, raw));
    for (size_t i = 0; el->widen != NULL && i < raw / 2; i++) {
        uint16_t h;
        float    wide;
        memcpy(&h, data + skip + 2 * i, sizeof h);
        wide = el->widen(h);
        memcpy(data + 4 * i, &wide, sizeof wide);
    }
    *out = (ms_npy){ .data = data, .dtype = el->dtype, .ndim = t->ndim };
    memcpy(out->shape, t->shape, sizeof out->shape);
    data = NULL;
done:
    free(data);
    return st;
}

/* ---- writing --------------------------------------------------------------------------------- */

static musec_status refuse(ms_error *e, const char *path, const char *name, const char *why)
{
    return ms_fail(e, MUSEC_EINVAL, "%s: cannot write '%.100s': %s", path, name, why);
}

static const tensor_type *element_of(musec_dtype dtype) /* as it is in memory; NULL: not written */
{
    switch (dtype) {
    case MUSEC_F32: return find_element("F32");
    case MUSEC_F64: return find_element("F64");
    case MUSEC_BF16: return find_element("BF16");
    default: return NULL;
    }
}

/* Larger elements come first: every tensor lies at a multiple of its element's size. */
static bool comes_at(const ms_tensor_out *t, int pass)
{
    return pass == (t->dtype == MUSEC_F64 ? 0 : t->dtype == MUSEC_BF16 ? 2 : 1);
}

/* Checks the tensor and enters it in the header at byte *at, which moves to its end. */
static musec_status put_entry(ms_error *e, const char *path, const ms_tensor_out *t, size_t *at,
                              json_t *root)
{
    const tensor_type *el = element_of(t->dtype);
    json_t            *shape, *entry;
    size_t             bits, end = 0;
    musec_status       st = MUSEC_OK;

    if (t->name == NULL || strcmp(t->name, METADATA) == 0)
        return refuse(e, path, t->name == NULL ? "" : t->name, "this is no name of a tensor");
    if (json_object_get(root, t->name) != NULL)
        return refuse(e, path, t->name, "two tensors have this name");
    if (el == NULL) return refuse(e, path, t->name, "its type is none of f32, f64 and bf16");
    if (t->ndim < 0 || t->ndim > MS_NPY_DIMS)
        return refuse(e, path, t->name, "it has too many dimensions");
    shape = json_array();
    for (int i = 0; i < t->ndim; i++)
        ms_json_append(&shape, json_integer(t->shape[i]));
    if (shape == NULL)
        st = ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory for its header", path);
    else if (!is_count_array(shape))
        st = refuse(e, path, t->name, "a dimension is negative");
    else if (!tensor_bits(shape, el->bits, &bits) || !ms_size_add(*at, bits / 8, &end) ||
             end > PTRDIFF_MAX)
        st = refuse(e, path, t->name, "its shape is beyond any memory");
    if (st != MUSEC_OK) {
        json_decref(shape);
        return st;
    }
    entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", el->name, "shape", shape, "data_offsets",
                      (json_int_t)*at, (json_int_t)end);
    if (!ms_text_is_utf8(t->name)) {
        json_decref(entry);
        return refuse(e, path, t->name, "its name is not UTF-8");
    }
    if (ms_json_put(NULL, root, t->name, entry) != MUSEC_OK)
        return ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory for its header", path);
    *at = end;
    return MUSEC_OK;
}

static musec_status put_metadata(ms_error *e, const char *path, const char *const (*metadata)[2],
                                 size_t n, json_t *root)
{
    json_t *map = n == 0 ? NULL : json_object();

    for (size_t i = 0; i < n; i++) {
        const char *why = NULL;
        if (metadata[i][0] == NULL || metadata[i][1] == NULL)
            why = "a key or a text is missing";
        else if (json_object_get(map, metadata[i][0]) != NULL)
            why = "two texts have the same key";
        else if (!ms_text_is_utf8(metadata[i][0]) || !ms_text_is_utf8(metadata[i][1]))
            why = "a text is not UTF-8";
        else
            ms_json_set(&map, metadata[i][0], json_string(metadata[i][1]));
        if (why != NULL) {
            json_decref(map);
            return refuse(e, path, METADATA, why);
        }
    }
    if (n > 0 && ms_json_put(NULL, root, METADATA, map) != MUSEC_OK)
        return ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory for its header", path);
    return MUSEC_OK;
}

static musec_status write_header(ms_error *e, ms_out_file *out, const json_t *root)
{
    static const char blanks[LENGTH_BYTES] = { ' ', ' ', ' ', ' ', ' ', ' ', ' ', ' ' };
    unsigned char     length[LENGTH_BYTES];
    char             *text = ms_json_tight(root);
    const size_t      n    = text == NULL ? 0 : strlen(text);
    const size_t      pad  = (LENGTH_BYTES - n % LENGTH_BYTES) % LENGTH_BYTES;
    musec_status      st;

    if (text == NULL || n + pad > HEADER_MAX)
        TRY(ms_fail(e, text == NULL ? MUSEC_ENOMEM : MUSEC_EINVAL,
                    "%s: its header of %zu bytes is more than %s", out->path, n,
                    text == NULL ? "there is memory for" : "the format allows"));
    for (size_t i = 0; i < sizeof length; i++)
        length[i] = (unsigned char)((uint64_t)(n + pad) >> (8 * i));
    TRY(ms_out_write(e, out, length, sizeof length));
    TRY(ms_out_write(e, out, text, n));
    TRY(ms_out_write(e, out, blanks, pad));
done:
    free(text);
    return st;
}

static musec_status write_tensor(ms_error *e, ms_out_file *out, const ms_safetensors_writer *writer,
                                 const ms_tensor_out *t, size_t index)
{
    const void  *data  = t->data;
    size_t       bytes = element_of(t->dtype)->bits / 8;
    musec_status st    = MUSEC_OK;

    for (int i = 0; i < t->ndim; i++)
        bytes *= (size_t)t->shape[i];
    if (bytes == 0) return MUSEC_OK;
    if (data == NULL && writer != NULL) TRY(writer->source(e, writer->arg, index, &data));
    if (data == NULL) return refuse(e, out->path, t->name, "it has no data");
    TRY(ms_out_write(e, out, data, bytes));
done:
    return st;
}

musec_status ms_safetensors_write_from(ms_error *e, const char *path,
                                       const ms_safetensors_writer *writer,
                                       const ms_tensor_out *tensors, size_t     n,
                                       const char *const (*metadata)[2], size_t n_metadata)
{
    ms_out_file  out  = { 0 };
    json_t      *root = json_object();
    size_t       at   = 0;
    musec_status st;

    TRY(put_metadata(e, path, metadata, n_metadata, root));
    for (int pass = 0; pass < 3; pass++)
        for (size_t i = 0; i < n; i++)
            if (comes_at(&tensors[i], pass)) TRY(put_entry(e, path, &tensors[i], &at, root));
    TRY(ms_out_open(e, path, &out));
    TRY(write_header(e, &out, root));
    for (int pass = 0; pass < 3; pass++)
        for (size_t i = 0; i < n; i++)
            if (comes_at(&tensors[i], pass)) TRY(write_tensor(e, &out, writer, &tensors[i], i));
    TRY(ms_out_commit(e, &out));
done:
    ms_out_abandon(&out);
    json_decref(root);
    return st;
}

musec_status ms_safetensors_write(ms_error *e, const char *path, const ms_tensor_out *tensors,
                                  size_t n, const char *const (*metadata)[2], size_t n_metadata)
{
    return ms_safetensors_write_from(e, path, NULL, tensors, n, metadata, n_metadata);
}
