/* bpe_rig.c - see bpe_rig.h. */
#define _XOPEN_SOURCE 700 /* popen */
#include "bpe_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/rng.h"
#include "scratch.h"

/* ---- merges ---------------------------------------------------------------------------------- */

static int pair_slot(const bpe_rig *r, int left, int right)
{
    unsigned at = ((unsigned)left * 65599u + (unsigned)right) % (unsigned)r->n_pairs;
    while (r->pairs[at] >= 0 &&
           (r->tokens[r->pairs[at]].left != left || r->tokens[r->pairs[at]].right != right))
        at = (at + 1) % (unsigned)r->n_pairs;
    return (int)at;
}

int bpe_rig_merge(const bpe_rig *r, const unsigned char *bytes, int n, int *ids)
{
    for (int i = 0; i < n; i++)
        ids[i] = r->byte_id[bytes[i]];
    for (;;) {
        int best = -1, at = 0;
        for (int i = 0; i + 1 < n; i++) {
            const int id = r->pairs[pair_slot(r, ids[i], ids[i + 1])];
            if (id >= 0 && (best < 0 || id < best)) {
                best = id;
                at   = i;
            }
        }
        if (best < 0) return n;
        ids[at] = best;
        for (int i = at + 1; i + 1 < n; i++)
            ids[i] = ids[i + 1];
        n--;
    }
}

int bpe_rig_encode(const bpe_rig *r, const ms_char_classes *classes, const char *text, int n,
                   int *ids)
{
    size_t *ends  = calloc((size_t)n + 1, sizeof *ends);
    size_t  words = ms_pretokenize(classes, text, (size_t)n, 0, ends, (size_t)n + 1), at = 0;
    int     count = 0;

    for (size_t i = 0; i < words; at = ends[i++])
        count +=
            bpe_rig_merge(r, (const unsigned char *)text + at, (int)(ends[i] - at), ids + count);
    CHECK(at == (size_t)n, "words end at %zu of %d", at, n);
    free(ends);
    return count;
}

/* ---- vocabularies ---------------------------------------------------------------------------- */

static bpe_rig make(int merges)
{
    bpe_rig r = { .capacity = 256 + merges, .n_pairs = 4 * merges + 16 };
    r.tokens  = check_alloc((size_t)r.capacity * sizeof *r.tokens);
    r.pairs   = check_alloc((size_t)r.n_pairs * sizeof *r.pairs);
    for (int i = 0; i < r.n_pairs; i++)
        r.pairs[i] = -1;
    return r;
}

void bpe_rig_free(bpe_rig *r)
{
    free(r->pairs);
    free(r->tokens);
    *r = (bpe_rig){ 0 };
}

static void add_byte(bpe_rig *r, int byte)
{
    r->tokens[r->n]         = (rig_token){ .bytes = 1, .left = -1, .right = -1 };
    r->tokens[r->n].text[0] = (unsigned char)byte;
    r->byte_id[byte]        = r->n++;
}

static void add_merge(bpe_rig *r, int left, int right)
{
    const rig_token *a = &r->tokens[left], *b = &r->tokens[right];
    rig_token       *t = &r->tokens[r->n];
    CHECK(r->n < r->capacity && a->bytes + b->bytes <= RIG_TOKEN_BYTES, "token %d", r->n);
    t->bytes = a->bytes + b->bytes;
    memcpy(t->text, a->text, (size_t)a->bytes);
    memcpy(t->text + a->bytes, b->text, (size_t)b->bytes);
    t->left                             = left;
    t->right                            = right;
    r->pairs[pair_slot(r, left, right)] = r->n++;
}

bpe_rig bpe_rig_draw(int merges, const char *letters, uint64_t seed)
{
    const uint64_t key    = ms_rand_key(seed, "bpe_rig");
    const int      n_from = (int)strlen(letters);
    bpe_rig        r      = make(merges);

    for (int byte = 255; byte >= 0; byte--) /* not GPT-2's order */
        add_byte(&r, byte);
    for (uint64_t draw = 0; r.n < r.capacity; draw++) {
        int           part[2], ids[RIG_TOKEN_BYTES];
        unsigned char both[2 * RIG_TOKEN_BYTES];
        for (int k = 0; k < 2; k++) { /* a letter or a token */
            const uint64_t bits = ms_rand_u64(key, 2 * draw + (uint64_t)k);
            const int      from = n_from + r.n - 256;
            const int      pick = (int)(bits % (uint64_t)from);
            part[k] = pick < n_from ? r.byte_id[(unsigned char)letters[pick]] : 256 + pick - n_from;
        }
        const rig_token *a = &r.tokens[part[0]], *b = &r.tokens[part[1]];
        if (a->bytes + b->bytes > 12) continue;
        memcpy(both, a->text, (size_t)a->bytes);
        memcpy(both + a->bytes, b->text, (size_t)b->bytes);
        if (bpe_rig_merge(&r, both, a->bytes + b->bytes, ids) == 2 && ids[0] == part[0] &&
            ids[1] == part[1])
            add_merge(&r, part[0], part[1]);
    }
    return r;
}

/* The characters that stand for bytes: first those that print. */
static bool prints(int byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

static int character(int byte)
{
    int n = 256;
    if (prints(byte)) return byte;
    for (int i = 0; i < byte; i++)
        n += !prints(i);
    return n;
}

static int put_token(const rig_token *t, char *out) /* in those characters, as UTF-8 */
{
    int n = 0;
    for (int i = 0; i < t->bytes; i++) {
        const int c = character(t->text[i]);
        if (c >= 0x80) out[n++] = (char)(0xC0 | c >> 6);
        out[n++] = (char)(c < 0x80 ? c : 0x80 | (c & 0x3F));
    }
    out[n] = '\0';
    return n;
}

typedef struct named {
    char name[2 * RIG_TOKEN_BYTES + 1];
    int  id;
} named;

static unsigned name_slot(const named *names, unsigned capacity, const char *name)
{
    unsigned at = 5381;
    for (const char *c = name; *c != '\0'; c++)
        at = at * 33 + (unsigned char)*c;
    for (at %= capacity; names[at].name[0] != '\0' && strcmp(names[at].name, name) != 0;)
        at = (at + 1) % capacity;
    return at;
}

static void add_name(named *names, unsigned capacity, const rig_token *t, int id)
{
    named n = { .id = id };
    put_token(t, n.name);
    names[name_slot(names, capacity, n.name)] = n;
}

bool bpe_rig_gpt2(bpe_rig *out)
{
    enum { MERGES = 50000, NAMES = 131072 };
    const char *shared = check_shared_data_dir();
    char       *text, *line;
    size_t      n;
    named      *names;
    bpe_rig     r;

    if (shared == NULL ||
        ms_file_text(NULL, path_in(shared, "gpt2/vocab.bpe"), INT32_MAX, &text, &n) != MUSEC_OK)
        return false;
    r     = make(MERGES);
    names = check_alloc(NAMES * sizeof *names);
    for (int pass = 0; pass < 2; pass++)
        for (int byte = 0; byte < 256; byte++)
            if (prints(byte) == (pass == 0)) add_byte(&r, byte);
    for (int id = 0; id < 256; id++)
        add_name(names, NAMES, &r.tokens[id], id);
    line = strchr(text, '\n') + 1; /* behind the version */
    for (int i = 0; i < MERGES; i++) {
        char *blank = strchr(line, ' '), *end = strchr(line, '\n');
        CHECK(blank != NULL && end != NULL && blank < end, "merge %d", i);
        *blank = *end = '\0';
        add_merge(&r, names[name_slot(names, NAMES, line)].id,
                  names[name_slot(names, NAMES, blank + 1)].id);
        add_name(names, NAMES, &r.tokens[r.n - 1], r.n - 1);
        line = end + 1;
    }
    free(names);
    free(text);
    *out = r;
    return true;
}

/* ---- files ----------------------------------------------------------------------------------- */

static FILE *create(const char *path)
{
    FILE *f;
    remove(path);
    f = fopen(path, "wb");
    CHECK(f != NULL, "%s", path);
    return f;
}

void bpe_rig_write_pair(const bpe_rig *r, const char *dir)
{
    char  name[2 * RIG_TOKEN_BYTES + 1];
    FILE *f = create(path_in(dir, "encoder.json"));

    for (int id = 0; id < r->n; id++) {
        fprintf(f, "%s\"", id == 0 ? "{" : ", ");
        put_token(&r->tokens[id], name);
        for (const char *c = name; *c != '\0'; c++)
            fprintf(f, "%s%c", *c == '"' || *c == '\\' ? "\\" : "", *c);
        fprintf(f, "\": %d", id);
    }
    fprintf(f, ", \"<|endoftext|>\": %d}", r->n);
    fclose(f);
    f = create(path_in(dir, "vocab.bpe"));
    fprintf(f, "#version: 0.2\n");
    for (int id = 256; id < r->n; id++) {
        put_token(&r->tokens[r->tokens[id].left], name);
        fprintf(f, "%s ", name);
        put_token(&r->tokens[r->tokens[id].right], name);
        fprintf(f, "%s\n", name);
    }
    fclose(f);
}

void bpe_rig_write_tiktoken(const bpe_rig *r, const char *path)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    FILE             *f        = create(path);

    for (int id = 0; id < r->n; id++) {
        const rig_token *t = &r->tokens[id];
        for (int i = 0; i < t->bytes; i += 3) {
            const int      left = t->bytes - i;
            const unsigned bits = (unsigned)t->text[i] << 16 |
                                  (left > 1 ? (unsigned)t->text[i + 1] << 8 : 0) |
                                  (left > 2 ? (unsigned)t->text[i + 2] : 0);
            for (int k = 0; k < 4; k++)
                fputc(k > left ? '=' : digits[bits >> (18 - 6 * k) & 63], f);
        }
        fprintf(f, " %d\n", id);
    }
    fclose(f);
}

void bpe_rig_write_bin(const bpe_rig *r, const char *path, int version)
{
    int32_t header[256] = { 20240328, version, r->n + 1, version == 2 ? r->n : 0 };
    FILE   *f           = create(path);

    fwrite(header, 1, sizeof header, f);
    for (int id = 0; id < r->n; id++) {
        fputc(r->tokens[id].bytes, f);
        fwrite(r->tokens[id].text, 1, (size_t)r->tokens[id].bytes, f);
    }
    fprintf(f, "%c<|endoftext|>", 13);
    fclose(f);
}

char *bpe_rig_read(const char *path, size_t *n)
{
    char *text = NULL;
    return ms_file_text(NULL, path, INT32_MAX, &text, n) == MUSEC_OK ? text : NULL;
}

char *bpe_rig_read_program(const char *command, size_t *n)
{
    FILE  *f        = popen(command, "r");
    size_t capacity = 1 << 16;
    char  *text     = check_alloc(capacity);

    *n = 0;
    while (f != NULL && !feof(f) && !ferror(f)) {
        *n += fread(text + *n, 1, capacity - *n - 1, f);
        if (*n + 1 < capacity) continue;
        capacity *= 2;
        text = realloc(text, capacity);
        CHECK(text != NULL, "no memory");
    }
    text[*n] = '\0';
    if (f != NULL && pclose(f) == 0) return text;
    free(text);
    return NULL;
}

void bpe_rig_need_utf8proc(void)
{
    if (ms_utf8proc_version() == NULL) SKIP("built without utf8proc");
}
