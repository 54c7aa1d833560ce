/* cmd_encode.c - musec encode and musec decode: text to ids, ids to text. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "data/bpe.h"
#include "data/bytes.h"

#define STDIN_MAX ((size_t)1 << 30)

static const char start_text[] = "<|endoftext|>";

struct args {
    const char *tokenizer;
    const char *vocab;
    int         special;
};

#define WHERE_VOCAB                                                               \
    "The vocabulary is encoder.json with vocab.bpe, or r50k_base.tiktoken, or\n"  \
    "gpt2_tokenizer.bin.  Without --vocab it is looked for in data/gpt2 and in\n" \
    "~/.local/share/musec/gpt2, where musec data get gpt2-vocab puts it.\n\n"

static const ms_option options[] = {
    { "tokenizer", MS_OPT_CHOICE, AT(tokenizer), "gpt2|byte",
      "GPT-2's ids, or one for each byte [gpt2]" },
    { "vocab", MS_OPT_STR, AT(vocab), "PATH",
      "GPT-2's vocabulary, a file or its directory [see below]" },
    { "special", MS_OPT_FLAG, AT(special), NULL, /* of encode alone */
      "take <|endoftext|> as the id that starts a document, not as text" },
};

const ms_command *encode_command(void)
{
    static const ms_command command = {
        .name     = "musec encode",
        .operands = "",
        .instead  = "<",
        .summary  = "turn the text on stdin into ids",
        .details =
            "The ids go to stdout, on one line.  Any bytes can be encoded; those that are no\n"
            "UTF-8 become an id each.  At most 1 GiB, three times which is needed as memory;\n"
            "musec tokenize takes any amount, and files.\n\n" WHERE_VOCAB
            "Example: echo 'Hello world' | musec encode\n",
        .options   = options,
        .n_options = COUNT(options),
    };
    return &command;
}

const ms_command *decode_command(void)
{
    static const ms_command command = {
        .name     = "musec decode",
        .operands = "",
        .instead  = "<",
        .summary  = "turn the ids on stdin back into text",
        .details  = "Ids are whole numbers with blanks or line ends between them.  Their bytes go\n"
                    "to stdout, and nothing else.  At most 1 GiB of ids.\n\n" WHERE_VOCAB
                   "Example: echo 15496 995 | musec decode\n",
        .options   = options,
        .n_options = COUNT(options) - 1,
    };
    return &command;
}

/* Loads the vocabulary; NULL for the byte tokenizer. */
static musec_status open_tokenizer(ms_error *e, const struct args *a, ms_bpe **out)
{
    char         path[MS_PATH_MAX];
    musec_status st = MUSEC_OK;

    *out = NULL;
    if (strcmp(a->tokenizer, "byte") == 0) goto done;
    TRY(ms_bpe_find(e, a->vocab, path));
    TRY(ms_bpe_load(e, path, out));
done:
    return st;
}

/* Reads all of stdin; the caller frees *text. */
static musec_status read_stdin(ms_error *e, char **text, size_t *bytes)
{
    size_t       capacity = (size_t)1 << 16, n = 0;
    char        *all = malloc(capacity);
    musec_status st  = MUSEC_OK;

    while (all != NULL) {
        n += fread(all + n, 1, capacity - n, stdin);
        if (n < capacity || n > STDIN_MAX) break;
        capacity *= 2;
        char *more = realloc(all, capacity);
        if (more == NULL) free(all);
        all = more;
    }
    *text  = all;
    *bytes = n;
    if (all == NULL)
        st = ms_no_memory(e, "what stdin has");
    else if (ferror(stdin))
        st = ms_fail(e, MUSEC_EIO, "stdin cannot be read (%s)", strerror(errno));
    else if (n > STDIN_MAX)
        st = ms_fail(e, MUSEC_EINVAL,
                     "stdin has more than 1 GiB; give it in pieces, or use musec tokenize");
    else
        all[n] = '\0'; /* n < capacity */
    return st;
}

/* ---- encode ---------------------------------------------------------------------------------- */

static size_t encode_bytes(const char *text, size_t bytes, bool special, uint16_t *ids)
{
    const size_t m = strlen(start_text);
    size_t       n = 0;

    for (size_t at = 0; at < bytes;) {
        if (special && bytes - at >= m && memcmp(text + at, start_text, m) == 0) {
            ids[n++] = MS_BYTES_START;
            at += m;
        } else {
            ids[n++] = (unsigned char)text[at++];
        }
    }
    return n;
}

static void print_ids(const uint16_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char     digits[8];
        unsigned id = ids[i], at = sizeof digits;
        do {
            digits[--at] = (char)('0' + id % 10);
            id /= 10;
        } while (id > 0);
        if (i > 0) digits[--at] = ' ';
        fwrite(digits + at, 1, sizeof digits - at, stdout);
    }
    putchar('\n');
}

static musec_status encode(ms_error *e, const struct args *a)
{
    ms_bpe       *bpe   = NULL;
    ms_bpe_cache *cache = NULL;
    char         *text  = NULL;
    uint16_t     *ids   = NULL;
    size_t        bytes, n;
    musec_status  st;

    TRY(open_tokenizer(e, a, &bpe));
    if (bpe != NULL) TRY(ms_bpe_cache_make(e, bpe, &cache));
    TRY(read_stdin(e, &text, &bytes));
    ids = malloc(ms_bpe_max_ids(bytes) * sizeof *ids); /* a few GiB at most */
    if (ids == NULL)
        TRY(ms_fail(e, MUSEC_ENOMEM, "not enough memory for the ids of %zu bytes", bytes));
    if (bpe != NULL)
        n = ms_bpe_encode(bpe, cache, text, bytes, a->special != 0, ids);
    else
        n = encode_bytes(text, bytes, a->special != 0, ids);
    print_ids(ids, n);
done:
    free(ids);
    free(text);
    ms_bpe_cache_free(cache);
    ms_bpe_free(bpe);
    return st;
}

/* ---- decode ---------------------------------------------------------------------------------- */

static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* The bytes of an id; NULL if there is no such id. */
static const char *bytes_of(const ms_bpe *bpe, int32_t id, char *one, size_t *n)
{
    if (bpe != NULL) return ms_bpe_bytes(bpe, id, n);
    if (id == MS_BYTES_START) {
        *n = strlen(start_text);
        return start_text;
    }
    *one = (char)id;
    *n   = 1;
    return id < MS_BYTES_START ? one : NULL;
}

/* Walks over all ids of the text, to check or to print them. */
static musec_status each_id(ms_error *e, const ms_bpe *bpe, const char *text, size_t bytes,
                            bool print)
{
    size_t at = 0, number = 0;

    for (;;) {
        size_t  from, n;
        int32_t id = 0;
        char    one;

        while (at < bytes && is_blank(text[at]))
            at++;
        if (at == bytes) return MUSEC_OK;
        number++;
        for (from = at; at < bytes && !is_blank(text[at]); at++) {
            if (text[at] < '0' || text[at] > '9') id = -1;
            if (id >= 0 && id < 1000000) id = 10 * id + (text[at] - '0');
        }
        const int   shown = at - from < 40 ? (int)(at - from) : 40;
        const char *p     = id < 0 ? NULL : bytes_of(bpe, id, &one, &n);
        if (id < 0)
            return ms_fail(e, MUSEC_EFORMAT,
                           "id number %zu, at byte %zu: '%.*s' is no whole number", number, from,
                           shown, text + from);
        if (p == NULL)
            return ms_fail(
                e, MUSEC_EFORMAT,
                "id number %zu, at byte %zu: %.*s is beyond the vocabulary, whose ids are "
                "0 to %d",
                number, from, shown, text + from, bpe != NULL ? MS_BPE_START : MS_BYTES_START);
        if (print) fwrite(p, 1, n, stdout);
    }
}

static musec_status decode(ms_error *e, const struct args *a)
{
    ms_bpe      *bpe  = NULL;
    char        *text = NULL;
    size_t       bytes;
    musec_status st;

    TRY(open_tokenizer(e, a, &bpe));
    TRY(read_stdin(e, &text, &bytes));
    TRY(each_id(e, bpe, text, bytes, false)); /* all or nothing */
    TRY(each_id(e, bpe, text, bytes, true));
done:
    free(text);
    ms_bpe_free(bpe);
    return st;
}

/* ---- both ------------------------------------------------------------------------------------ */

static int run(const ms_command *cmd, musec_status (*body)(ms_error *e, const struct args *a),
               int argc, char **argv)
{
    struct args  a     = { .tokenizer = "gpt2" };
    const int    n     = ms_options_parse(cmd, &a, argc, argv);
    ms_error     error = { "" };
    musec_status st;

    if (n < 0) return ms_cli_parsed(n);
    if (a.vocab != NULL && strcmp(a.tokenizer, "byte") == 0)
        return ms_cli_usage(cmd, "--vocab is GPT-2's; --tokenizer byte has none");
    st = body(&error, &a);
    return st == MUSEC_OK ? EXIT_OK : ms_cli_fail(cmd, &error);
}

int cmd_encode(int argc, char **argv) { return run(encode_command(), encode, argc, argv); }
int cmd_decode(int argc, char **argv) { return run(decode_command(), decode, argc, argv); }
