/* bpe_load.c - vocabularies from files, in three formats.
 *
 *     encoder.json        {"!": 0, ..., "\u0120the": 262, ...}: each byte of a token is written as
 *                         one character.  Bytes that print are themselves, the other 68 are
 *                         U+0100, U+0101, ... in their order
 *     vocab.bpe           a line "#version: 0.2", then a merge a line, "\u0120 t", in the same form
 *     r50k_base.tiktoken  "IQ== 0": base64 of the bytes, and the id
 *     gpt2_tokenizer.bin  256 int32: 20240328, version 1 or 2, number of ids, and in version 2 the
 *                         id of <|endoftext|>; then for each id a byte that counts, and its bytes
 *
 * The merges follow from the tokens (bpe_table.c); those of vocab.bpe must be the same. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/file.h"
#include "core/json_parse.h"
#include "core/text.h"
#include "data/bpe_table.h"

#define MAX_FILE_BYTES ((int64_t)64 << 20)
#define BIN_MAGIC      20240328
#define HOW_TO_GET     "musec data get gpt2-vocab fetches GPT-2's"

static const char encoder_name[] = "encoder.json", merges_name[] = "vocab.bpe",
                  tiktoken_name[] = "r50k_base.tiktoken", bin_name[] = "gpt2_tokenizer.bin";

/* Takes the next line, without its end; false after the last. */
static bool next_line(char **rest, const char *end, char **line, size_t *n)
{
    char *stop;

    if (*rest >= end) return false;
    *line = *rest;
    stop  = memchr(*rest, '\n', (size_t)(end - *rest));
    *rest = stop == NULL ? *rest + (end - *rest) : stop + 1;
    *n    = (size_t)((stop == NULL ? end : stop) - *line);
    if (*n > 0 && (*line)[*n - 1] == '\r') --*n;
    return true;
}

/* ---- encoder.json and vocab.bpe -------------------------------------------------------------- */

static bool prints(int byte)
{
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

uint16_t ms_bpe_byte_id(unsigned char byte)
{
    unsigned before = 0, printing = 0;
    for (int b = 0; b < 256; b++) {
        printing += prints(b);
        before += b < byte && prints(b) == prints(byte);
    }
    return (uint16_t)(prints(byte) ? before : printing + before);
}

typedef struct alphabet { /* character -> byte, or -1 */
    int16_t byte[256 + 68];
} alphabet;

static alphabet make_alphabet(void)
{
    alphabet a;
    int      next = 256;
    for (size_t i = 0; i < COUNT(a.byte); i++)
        a.byte[i] = -1;
    for (int byte = 0; byte < 256; byte++)
        a.byte[prints(byte) ? byte : next++] = (int16_t)byte;
    return a;
}

/* Decodes the characters of `text` to bytes; false if one of them stands for no byte. */
static bool decode_bytes(const alphabet *a, const char *text, size_t n, unsigned char *out,
                         size_t *n_out)
{
    *n_out = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned c = (unsigned char)text[i];
        if (c >= 0x80) { /* all characters of the alphabet have two bytes or one */
            if (c < 0xC2 || c > 0xDF || i + 1 == n || ((unsigned char)text[i + 1] & 0xC0) != 0x80)
                return false;
            c = (c & 0x1F) << 6 | ((unsigned char)text[++i] & 0x3F);
        }
        if (c >= COUNT(a->byte) || a->byte[c] < 0 || *n_out == MS_BPE_TOKEN_BYTES) return false;
        out[(*n_out)++] = (unsigned char)a->byte[c];
    }
    return true;
}

static musec_status read_encoder(ms_error *e, const char *path, ms_bpe *bpe)
{
    const alphabet  a    = make_alphabet();
    json_t         *root = NULL, *value;
    const char     *key;
    char           *text = NULL;
    size_t          n;
    unsigned char   bytes[MS_BPE_TOKEN_BYTES];
    musec_status    st;
    ms_json_problem why;

    TRY(ms_file_text(e, path, MAX_FILE_BYTES, &text, &n));
    if (ms_json_parse(text, n, MS_JSON_ONCE, &why, &root) == MUSEC_ENOMEM)
        TRY(ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory to read it", path));
    if (!json_is_object(root))
        TRY(ms_fail(e, MUSEC_EFORMAT, "%s, line %d: is no JSON object of tokens (%s)", path,
                    why.line, root == NULL ? why.text : "another value"));
    json_object_foreach(root, key, value)
    {
        if (!json_is_integer(value))
            TRY(ms_fail(e, MUSEC_EFORMAT, "%s: token '%s' has no whole number as its id", path,
                        key));
        if (!decode_bytes(&a, key, strlen(key), bytes, &n))
            TRY(ms_fail(e, MUSEC_EFORMAT,
                        "%s: token '%s' (id %lld) is longer than %d bytes or has a character that "
                        "stands for no byte",
                        path, key, (long long)json_integer_value(value), MS_BPE_TOKEN_BYTES));
        TRY(ms_bpe_table_set(e, path, bpe, json_integer_value(value), bytes, n));
    }
    if (bpe->tokens[bpe->start].bytes == 0)
        st = ms_fail(e, MUSEC_EFORMAT, "%s: id %ld is missing, <|endoftext|>", path,
                     (long)bpe->start);
done:
    json_decref(root);
    free(text);
    return st;
}

/* Does the text decode to the bytes of this id? */
static bool is_token(const alphabet *a, const ms_bpe *bpe, const char *text, size_t n, uint16_t id)
{
    unsigned char       bytes[MS_BPE_TOKEN_BYTES];
    const ms_bpe_token *t = &bpe->tokens[id];
    size_t              n_bytes;
    return decode_bytes(a, text, n, bytes, &n_bytes) && n_bytes == t->bytes &&
           memcmp(bytes, bpe->bytes + t->at, n_bytes) == 0;
}

static musec_status check_merges(ms_error *e, const char *path, const ms_bpe *bpe)
{
    const alphabet a    = make_alphabet();
    char          *text = NULL, *rest, *line;
    size_t         bytes, n, number = 0;
    int32_t        id = 256;
    musec_status   st;

    TRY(ms_file_text(e, path, MAX_FILE_BYTES, &text, &bytes));
    rest = text;
    while (next_line(&rest, text + bytes, &line, &n)) {
        const char *blank = memchr(line, ' ', n);
        const char *end   = line + n;
        number++;
        if (n == 0 || (number == 1 && n >= 8 && memcmp(line, "#version", 8) == 0)) continue;
        if (id == bpe->start)
            TRY(ms_fail(e, MUSEC_EFORMAT, "%s, line %zu: a merge too many: GPT-2 has %ld", path,
                        number, (long)bpe->start - 256));
        if (blank == NULL ||
            !is_token(&a, bpe, line, (size_t)(blank - line), bpe->tokens[id].left) ||
            !is_token(&a, bpe, blank + 1, (size_t)(end - blank - 1), bpe->tokens[id].right))
            TRY(ms_fail(e, MUSEC_EFORMAT,
                        "%s, line %zu: '%.*s' is not the merge that makes id %ld of %s", path,
                        number, (int)(n < 80 ? n : 80), line, (long)id, encoder_name));
        id++;
    }
    if (id < bpe->start)
        st = ms_fail(e, MUSEC_EFORMAT, "%s: ends after %ld merges; GPT-2 has %ld", path,
                     (long)id - 256, (long)bpe->start - 256);
done:
    free(text);
    return st;
}

/* Loads encoder.json and vocab.bpe, of which `path` names one. */
static musec_status load_pair(ms_error *e, const char *path, ms_bpe *bpe)
{
    char         dir[MS_PATH_MAX], encoder[MS_PATH_MAX], merges[MS_PATH_MAX];
    musec_status st;

    ms_path_directory(path, dir);
    TRY(ms_path_join(e, dir, encoder_name, encoder));
    TRY(ms_path_join(e, dir, merges_name, merges));
    TRY(read_encoder(e, encoder, bpe));
    TRY(ms_bpe_table_finish(e, encoder, bpe));
    TRY(check_merges(e, merges, bpe));
done:
    return st;
}

/* ---- r50k_base.tiktoken ---------------------------------------------------------------------- */

static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decodes base64 (RFC 4648) with its padding; false if it is anything else. */
static bool read_base64(const char *text, size_t n, unsigned char *out, size_t *n_out)
{
    size_t pad = 0;

    *n_out = 0;
    if (n == 0 || n % 4 != 0 || n / 4 * 3 > MS_BPE_TOKEN_BYTES) return false;
    while (pad < 2 && text[n - 1 - pad] == '=')
        pad++;
    for (size_t i = 0; i < n; i += 4) {
        uint32_t bits = 0;
        for (size_t k = i; k < i + 4; k++) {
            const int digit = k >= n - pad ? 0 : base64_digit(text[k]);
            if (digit < 0) return false;
            bits = bits << 6 | (uint32_t)digit;
        }
        for (int shift = 16; shift >= 0; shift -= 8)
            out[(*n_out)++] = (unsigned char)(bits >> shift);
    }
    for (size_t i = 0; i < pad; i++)
        if (out[--*n_out] != 0) return false; /* bits beyond the last byte */
    return true;
}

static musec_status load_tiktoken(ms_error *e, const char *path, ms_bpe *bpe)
{
    char         *text = NULL, *rest, *line, *stop, where[MS_PATH_MAX + 32];
    size_t        bytes, n, n_token, number = 0;
    unsigned char token[MS_BPE_TOKEN_BYTES];
    musec_status  st;

    TRY(ms_file_text(e, path, MAX_FILE_BYTES, &text, &bytes));
    rest = text;
    while (next_line(&rest, text + bytes, &line, &n)) {
        char     *blank = memchr(line, ' ', n);
        long long id;

        snprintf(where, sizeof where, "%s, line %zu", path, ++number);
        if (n == 0) continue;
        if (blank == NULL || !read_base64(line, (size_t)(blank - line), token, &n_token))
            TRY(ms_fail(e, MUSEC_EFORMAT,
                        "%s: '%.*s' is not base64 of at most %d bytes, a blank and an id", where,
                        (int)(n < 80 ? n : 80), line, MS_BPE_TOKEN_BYTES));
        errno = 0;
        id    = strtoll(blank + 1, &stop, 10);
        if (blank[1] < '0' || blank[1] > '9' || stop != line + n || errno != 0)
            TRY(ms_fail(e, MUSEC_EFORMAT, "%s: no whole number behind the blank", where));
        TRY(ms_bpe_table_set(e, where, bpe, id, token, n_token));
    }
    TRY(ms_bpe_table_finish(e, path, bpe));
done:
    free(text);
    return st;
}

/* ---- gpt2_tokenizer.bin ---------------------------------------------------------------------- */

static musec_status check_header(ms_error *e, const char *path, const int32_t *h, const ms_bpe *bpe)
{
    if (h[0] != BIN_MAGIC)
        return ms_fail(e, MUSEC_EFORMAT,
                       "%s: is no table of tokens: it begins with the number %ld, not with %d",
                       path, (long)h[0], BIN_MAGIC);
    if (h[1] != 1 && h[1] != 2)
        return ms_fail(e, MUSEC_EFORMAT, "%s: version %ld; versions 1 and 2 can be read", path,
                       (long)h[1]);
    if (h[2] != bpe->n_ids)
        return ms_fail(e, MUSEC_EFORMAT, "%s: has %ld ids; GPT-2 has %ld", path, (long)h[2],
                       (long)bpe->n_ids);
    if (h[1] == 2 && h[3] != bpe->start)
        return ms_fail(e, MUSEC_EFORMAT, "%s: <|endoftext|> is id %ld; GPT-2's is %ld", path,
                       (long)h[3], (long)bpe->start);
    return MUSEC_OK;
}

static musec_status load_bin(ms_error *e, const char *path, ms_bpe *bpe)
{
    int32_t      header[256];
    char        *text = NULL;
    size_t       bytes, at = sizeof header;
    musec_status st;

    TRY(ms_file_text(e, path, MAX_FILE_BYTES, &text, &bytes));
    if (bytes < sizeof header)
        TRY(ms_fail(e, MUSEC_EFORMAT,
                    "%s: is no table of tokens: it has %zu bytes, the header alone takes %zu", path,
                    bytes, sizeof header));
    memcpy(header, text, sizeof header);
    TRY(check_header(e, path, header, bpe));
    for (int32_t id = 0; id < bpe->n_ids; id++) {
        const size_t n = at < bytes ? (unsigned char)text[at] : 0;
        if (at >= bytes || n > bytes - at - 1)
            TRY(ms_fail(e, MUSEC_EFORMAT, "%s: truncated: it ends within id %ld of %ld", path,
                        (long)id, (long)bpe->n_ids));
        TRY(ms_bpe_table_set(e, path, bpe, id, text + at + 1, n));
        at += 1 + n;
    }
    if (at != bytes)
        TRY(ms_fail(e, MUSEC_EFORMAT, "%s: too long: %zu bytes behind the last id", path,
                    bytes - at));
    TRY(ms_bpe_table_finish(e, path, bpe));
done:
    free(text);
    return st;
}

/* ---- any of them ----------------------------------------------------------------------------- */

static bool exists(const char *dir, const char *name)
{
    char        path[MS_PATH_MAX];
    struct stat sb;
    return ms_path_join(NULL, dir, name, path) == MUSEC_OK && stat(path, &sb) == 0;
}

static musec_status load_file(ms_error *e, const char *path, ms_bpe *bpe)
{
    const char *base = ms_path_name(path);

    if (strcmp(base, encoder_name) == 0 || strcmp(base, merges_name) == 0)
        return load_pair(e, path, bpe);
    if (ms_text_ends_with(path, ".tiktoken")) return load_tiktoken(e, path, bpe);
    if (ms_text_ends_with(path, ".bin")) return load_bin(e, path, bpe);
    return ms_fail(e, MUSEC_EFORMAT,
                   "%s: is no vocabulary by its name; give %s (with %s beside it), %s, %s or their "
                   "directory",
                   path, encoder_name, merges_name, tiktoken_name, bin_name);
}

static musec_status load_directory(ms_error *e, const char *dir, ms_bpe *bpe)
{
    const bool   encoder = exists(dir, encoder_name), merges = exists(dir, merges_name);
    const char  *name = encoder && merges            ? encoder_name
                        : exists(dir, tiktoken_name) ? tiktoken_name
                        : exists(dir, bin_name)      ? bin_name
                                                     : NULL;
    char         path[MS_PATH_MAX];
    musec_status st;

    if (name == NULL && (encoder || merges))
        return ms_fail(e, MUSEC_EIO, "%s: has %s but not %s, which belongs to it; " HOW_TO_GET, dir,
                       encoder ? encoder_name : merges_name, encoder ? merges_name : encoder_name);
    if (name == NULL)
        return ms_fail(e, MUSEC_EIO,
                       "%s: no vocabulary is there: neither %s and %s, nor %s, nor %s; " HOW_TO_GET,
                       dir, encoder_name, merges_name, tiktoken_name, bin_name);
    TRY(ms_path_join(e, dir, name, path));
    TRY(load_file(e, path, bpe));
done:
    return st;
}

musec_status ms_bpe_load_sized(ms_error *e, const char *path, int32_t n_ids, ms_bpe **out)
{
    ms_bpe      *bpe = NULL;
    struct stat  sb;
    musec_status st;

    *out = NULL;
    TRY(ms_bpe_table_make(e, n_ids, &bpe));
    if (stat(path, &sb) != 0)
        TRY(ms_fail(e, MUSEC_EIO, "%s: cannot open for reading (%s); " HOW_TO_GET, path,
                    strerror(errno)));
    TRY(S_ISDIR(sb.st_mode) ? load_directory(e, path, bpe) : load_file(e, path, bpe));
    *out = bpe;
    bpe  = NULL;
done:
    ms_bpe_free(bpe);
    return st;
}

musec_status ms_bpe_load(ms_error *e, const char *path, ms_bpe **out)
{
    return ms_bpe_load_sized(e, path, MS_BPE_IDS, out);
}

/* ---- where it is kept ------------------------------------------------------------------------ */

musec_status ms_bpe_default_path(ms_error *e, char out[MS_PATH_MAX])
{
    const char *home = getenv("HOME");

    out[0] = '\0';
    if (home == NULL || home[0] == '\0')
        return ms_fail(e, MUSEC_EIO,
                       "HOME is not set, so there is no place for GPT-2's vocabulary");
    return ms_path_join(e, home, ".local/share/musec/gpt2", out);
}

musec_status ms_bpe_find(ms_error *e, const char *path, char out[MS_PATH_MAX])
{
    static const char here[] = "data/gpt2";
    char              home[MS_PATH_MAX];
    struct stat       sb;

    if (path != NULL) {
        const int n = snprintf(out, MS_PATH_MAX, "%s", path);
        if (n >= 0 && n < MS_PATH_MAX) return MUSEC_OK;
        return ms_fail(e, MUSEC_EIO, "%.200s...: the path is too long", path);
    }
    memcpy(out, here, sizeof here);
    if (stat(out, &sb) == 0) return MUSEC_OK;
    if (ms_bpe_default_path(e, home) == MUSEC_OK && stat(home, &sb) == 0) {
        memcpy(out, home, sizeof home);
        return MUSEC_OK;
    }
    out[0] = '\0';
    return ms_fail(
        e, MUSEC_EIO,
        "GPT-2's vocabulary is neither in %s nor in %s: musec data get gpt2-vocab fetches "
        "it, --vocab names another place",
        here, home[0] == '\0' ? "~/.local/share/musec/gpt2" : home);
}
