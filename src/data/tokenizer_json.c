/* tokenizer_json.c - see tokenizer_json.h.
 *
 * Both tokenizers are byte-level BPE there: each byte of a text is written as one character, as in
 * GPT-2's encoder.json, words are cut by GPT-2's rule (bytes: not at all) and pairs of tokens are
 * merged in the order of the list.  The byte tokenizer has no merges: its tokens are the bytes, and
 * the id of a byte is its value. */
#include "data/tokenizer_json.h"

#include <stdio.h>

#include "core/json_file.h"
#include "data/bpe_table.h"
#include "data/bytes.h"

enum { CHARACTER = 2, N_PRINTING = 188, FIRST_OTHER = 0x100 };

static const char start_text[] = "<|endoftext|>";

typedef struct byte_characters { /* the character of each byte, in UTF-8 */
    char text[256][CHARACTER + 1];
} byte_characters;

/* The 188 printing bytes, which have the lowest ids, stand for themselves; the others become U+0100
 * and up in their order. */
static void make_alphabet(byte_characters *a)
{
    for (int byte = 0; byte < 256; byte++) {
        const unsigned id   = ms_bpe_byte_id((unsigned char)byte);
        const unsigned code = id < N_PRINTING ? (unsigned)byte : FIRST_OTHER + id - N_PRINTING;
        if (code < 0x80)
            snprintf(a->text[byte], sizeof a->text[byte], "%c", (int)code);
        else
            snprintf(a->text[byte], sizeof a->text[byte], "%c%c", (int)(0xC0 | code >> 6),
                     (int)(0x80 | (code & 0x3F)));
    }
}

static void fill_bytes(const byte_characters *a, json_t **vocab)
{
    for (int byte = 0; byte < MS_BYTES_START; byte++)
        ms_json_set(vocab, a->text[byte], json_integer(byte));
}

static size_t put_token(const byte_characters *a, const ms_bpe *bpe, int32_t id, char *out)
{
    size_t      n = 0, written = 0;
    const char *bytes = ms_bpe_bytes(bpe, id, &n);
    for (size_t i = 0; i < n; i++)
        for (const char *c = a->text[(unsigned char)bytes[i]]; *c != '\0'; c++)
            out[written++] = *c;
    return written;
}

static void fill_bpe(const byte_characters *a, const ms_bpe *bpe, json_t **vocab, json_t **merges)
{
    char text[2 * CHARACTER * MS_BPE_TOKEN_BYTES + 2];
    for (int32_t id = 0; id < bpe->start; id++) {
        const ms_bpe_token *t = &bpe->tokens[id];
        size_t              n = put_token(a, bpe, id, text);
        text[n]               = '\0';
        ms_json_set(vocab, text, json_integer(id));
        if (t->left == MS_BPE_NONE) continue;
        n         = put_token(a, bpe, t->left, text);
        text[n++] = ' ';
        n += put_token(a, bpe, t->right, text + n);
        ms_json_append(merges, json_stringn(text, n));
    }
    ms_json_set(vocab, start_text, json_integer(bpe->start));
}

/* The byte level as pre-tokenizer and as decoder.  Fields that only one of them uses are in both,
 * as the library writes them. */
static json_t *byte_level(bool cuts_words)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
                     "trim_offsets", 1, "use_regex", cuts_words ? 1 : 0);
}

static json_t *special_token(int32_t id)
{
    return json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (int)id, "content", start_text,
                     "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0, "special", 1);
}

/* The template that puts the start of a document before a text, and before each text of a pair. */
static json_t *put_start(int32_t id)
{
    return json_pack("{s:s, s:[{s:{s:s, s:i}}, {s:{s:s, s:i}}],"
                     " s:[{s:{s:s, s:i}}, {s:{s:s, s:i}}, {s:{s:s, s:i}}, {s:{s:s, s:i}}],"
                     " s:{s:{s:s, s:[i], s:[s]}}}",
                     "type", "TemplateProcessing", "single", "SpecialToken", "id", start_text,
                     "type_id", 0, "Sequence", "id", "A", "type_id", 0, "pair", "SpecialToken",
                     "id", start_text, "type_id", 0, "Sequence", "id", "A", "type_id", 0,
                     "SpecialToken", "id", start_text, "type_id", 1, "Sequence", "id", "B",
                     "type_id", 1, "special_tokens", start_text, "id", start_text, "ids", (int)id,
                     "tokens", start_text);
}

/* Takes both references. */
static json_t *bpe_model(json_t *vocab, json_t *merges)
{
    return json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout",
                     "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0,
                     "byte_fallback", 0, "vocab", vocab, "merges", merges);
}

musec_status ms_tokenizer_json(ms_error *e, const ms_bpe *bpe, json_t **out)
{
    const int32_t   start = bpe != NULL ? bpe->start : MS_BYTES_START;
    json_t         *vocab = json_object(), *merges = json_array();
    byte_characters a;

    make_alphabet(&a);
    if (bpe != NULL)
        fill_bpe(&a, bpe, &vocab, &merges);
    else
        fill_bytes(&a, &vocab);
    *out = json_pack("{s:s, s:n, s:n, s:[o], s:n, s:o, s:o, s:o, s:o}", "version", "1.0",
                     "truncation", "padding", "added_tokens", special_token(start), "normalizer",
                     "pre_tokenizer", byte_level(bpe != NULL), "post_processor", put_start(start),
                     "decoder", byte_level(true), "model", bpe_model(vocab, merges));
    return *out != NULL ? MUSEC_OK : ms_no_memory(e, "the tokenizer");
}
