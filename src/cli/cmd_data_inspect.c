/* cmd_data_inspect.c - musec data inspect: what is in a shard of tokens.
 *
 * A document is a start token and what follows up to the next one.  Its length does not count the
 * start token.  Tokens before the first start belong to a document of the shard before. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "core/json_file.h"
#include "core/memory_stream.h"
#include "core/table.h"
#include "core/text.h"
#include "data/bpe.h"
#include "data/bytes.h"
#include "data/shard.h"

enum { BINS = 32, BAR = 40, IDS = 65536, SAMPLE_MAX = 1000000 };

struct args {
    const char *tokenizer, *vocab, *format;
    int64_t     sample;
    int         json;
};

static const ms_option options[] = {
    { "tokenizer", MS_OPT_CHOICE, AT(tokenizer), "auto|gpt2|byte",
      "what the token ids mean; auto: bytes if all are below 320 [auto]" },
    { "data-format", MS_OPT_CHOICE, AT(format), "shard|nanogpt",
      "layout of the file: a shard with a header, or nanoGPT's bare 16-bit tokens [shard]" },
    { "vocab", MS_OPT_STR, AT(vocab), "PATH",
      "GPT-2's vocabulary, a file or its directory; without it ids are printed "
      "[data/gpt2 or ~/.local/share/musec/gpt2]" },
    { "sample", MS_OPT_I64, AT(sample), "N",
      "number of tokens to print from the first documents [200]" },
    MS_CLI_JSON(struct args),
};

const ms_command *data_inspect_command(void)
{
    static const ms_command command = {
        .name         = "musec data inspect",
        .operands     = "SHARD",
        .summary      = "show header, counts, document lengths and a sample of a token shard",
        .details      = "Lengths of documents are in tokens, without the one that starts them.\n\n"
                        "Examples: musec data inspect data/c4/train_000001.bin --vocab gpt2/\n"
                        "          musec data inspect train.bin --data-format nanogpt\n",
        .options      = options,
        .n_options    = COUNT(options),
        .min_operands = 1,
        .max_operands = 1,
    };
    return &command;
}

/* ---- counting -------------------------------------------------------------------------------- */

typedef struct shard {
    const char   *path;
    ms_shard_form form;
    uint16_t     *tokens;
    int64_t       n;
    bool          bytes; /* the byte tokenizer */
    int32_t       start, vocab;
    int64_t       documents, before; /* before: tokens ahead of the first start */
    int64_t       shortest, longest, empty;
    int64_t       beyond; /* ids that the tokenizer does not have */
    int32_t       largest;
    int64_t       bin[BINS]; /* lengths from 2^k to 2^(k+1) - 1 */
} shard;

static int bin_of(int64_t length) /* from 1 up */
{
    int k = 0;
    while (k < BINS - 1 && length >> (k + 1) > 0)
        k++;
    return k;
}

static void count_document(shard *s, int64_t length)
{
    if (s->documents == 0 || length < s->shortest) s->shortest = length;
    if (length > s->longest) s->longest = length;
    s->documents++;
    if (length == 0)
        s->empty++;
    else
        s->bin[bin_of(length)]++;
}

static void count(shard *s, const char *tokenizer)
{
    int64_t from = -1; /* start of the current document */

    for (int64_t i = 0; i < s->n; i++)
        if (s->tokens[i] > s->largest) s->largest = s->tokens[i];
    s->bytes = strcmp(tokenizer, "byte") == 0 ||
               (strcmp(tokenizer, "auto") == 0 && s->largest < MS_BYTES_VOCAB);
    s->start = s->bytes ? MS_BYTES_START : MS_BPE_START;
    s->vocab = s->start + 1;
    for (int64_t i = 0; i < s->n; i++) {
        s->beyond += s->tokens[i] >= s->vocab;
        if (s->tokens[i] != s->start) continue;
        if (from < 0)
            s->before = i;
        else
            count_document(s, i - from - 1);
        from = i;
    }
    if (from >= 0)
        count_document(s, s->n - from - 1);
    else
        s->before = s->n;
}

static double mean_length(const shard *s)
{
    return s->documents == 0 ? 0.0
                             : (double)(s->n - s->before - s->documents) / (double)s->documents;
}

/* ---- the sample ------------------------------------------------------------------------------ */

static bool is_control(const unsigned char *s) /* DEL and U+0080 to U+009F as well */
{
    return (s[0] < 0x20 && s[0] != '\n' && s[0] != '\t') || s[0] == 0x7F ||
           (s[0] == 0xC2 && s[1] < 0xA0);
}

/* Writes text, which must have a NUL after it, safely for a terminal: control characters and stray
 * bytes as \xNN. */
static void put_safely(const char *text, size_t bytes, FILE *to)
{
    const unsigned char *s = (const unsigned char *)text, *end = s + bytes;
    while (s < end) {
        const size_t n = is_control(s) ? 0 : ms_text_char((const char *)s);
        if (n == 0)
            fprintf(to, "\\x%02x", s[0]);
        else
            fwrite(s, 1, n, to);
        s += n == 0 ? 1 : n;
    }
}

/* The text of some tokens, which the caller frees; NULL without a vocabulary. */
static musec_status decode(ms_error *e, const shard *s, const ms_bpe *bpe, const uint16_t *ids,
                           int64_t n, char **out)
{
    ms_memory_stream whole, safe; /* whole first: a character may take several tokens */
    char            *raw;
    FILE            *f;

    *out = NULL;
    if (!s->bytes && bpe == NULL) return MUSEC_OK;
    f = ms_memory_open(&whole);
    for (int64_t i = 0; f != NULL && i < n; i++) {
        size_t      bytes = 1;
        const char  one   = (char)ids[i];
        const char *text  = s->bytes ? &one : ms_bpe_bytes(bpe, ids[i], &bytes);
        if (ids[i] >= s->vocab || text == NULL)
            fprintf(f, "<%u>", ids[i]);
        else
            fwrite(text, 1, bytes, f);
    }
    raw = ms_memory_close(&whole);
    f   = ms_memory_open(&safe);
    if (raw != NULL && f != NULL) put_safely(raw, whole.bytes, f);
    *out = ms_memory_close(&safe);
    if (raw == NULL) {
        free(*out);
        *out = NULL;
    }
    free(raw);
    return *out != NULL ? MUSEC_OK : ms_no_memory(e, "the sample");
}

typedef struct sampled { /* one document of the sample */
    int64_t at, length, shown;
} sampled;

/* Finds the first document that begins at `from` or later; false: there is none. */
static bool next_document(const shard *s, int64_t from, int64_t budget, sampled *out)
{
    int64_t end;
    while (from < s->n && s->tokens[from] != s->start)
        from++;
    if (from >= s->n || budget <= 0) return false;
    for (end = from + 1; end < s->n && s->tokens[end] != s->start; end++) {}
    out->at     = from + 1;
    out->length = end - from - 1;
    out->shown  = out->length < budget ? out->length : budget;
    return true;
}

static musec_status print_sample(ms_error *e, const shard *s, const ms_bpe *bpe, int64_t budget)
{
    sampled      d;
    int64_t      number = 0;
    musec_status st     = MUSEC_OK;

    for (int64_t from = s->before; next_document(s, from, budget, &d); from = d.at + d.length) {
        char *text;
        TRY(decode(e, s, bpe, s->tokens + d.at, d.shown, &text));
        printf("\ndocument %lld, %lld tokens%s\n", (long long)number++, (long long)d.length,
               d.shown < d.length ? ", cut here" : "");
        if (text != NULL) printf("%s\n", text);
        for (int64_t i = 0; text == NULL && i < d.shown; i++)
            printf("%u%s", s->tokens[d.at + i], i + 1 == d.shown || i % 16 == 15 ? "\n" : " ");
        free(text);
        budget -= d.shown + 1;
    }
done:
    return st;
}

/* NULL without memory. */
static json_t *sample_json(const shard *s, const ms_bpe *bpe, int64_t budget)
{
    json_t *list = json_array();
    sampled d;

    for (int64_t from = s->before; next_document(s, from, budget, &d); from = d.at + d.length) {
        json_t *one = json_object(), *ids = json_array();
        char   *text;
        if (decode(NULL, s, bpe, s->tokens + d.at, d.shown, &text) != MUSEC_OK) {
            json_decref(ids);
            ids = NULL;
        }
        for (int64_t i = 0; i < d.shown; i++)
            ms_json_append(&ids, json_integer(s->tokens[d.at + i]));
        ms_json_add(&one, "tokens=%lld ids=%p text=%s", (long long)d.length, (void *)ids, text);
        ms_json_append(&list, one);
        free(text);
        budget -= d.shown + 1;
    }
    return list;
}

/* ---- printing -------------------------------------------------------------------------------- */

static musec_status print_histogram(ms_error *e, const shard *s)
{
    ms_table table = { .align = "rrl" };
    int64_t  max = s->empty, first = BINS, last = -1;
    char     bar[BAR + 1];

    for (int k = BINS - 1; k >= 0; k--) {
        if (s->bin[k] > max) max = s->bin[k];
        if (s->bin[k] > 0) first = k;
        if (s->bin[k] > 0 && last < 0) last = k;
    }
    if (s->documents == 0) return MUSEC_OK;
    printf("\n");
    for (int64_t k = s->empty > 0 ? -1 : first; k <= last; k++) {
        const int64_t n     = k < 0 ? s->empty : s->bin[k];
        const int     marks = (int)((n * BAR + max - 1) / max); /* at least one for n > 0 */
        if (k >= 0 && k < first) continue;
        memset(bar, '#', (size_t)marks);
        bar[marks] = '\0';
        if (k < 1)
            ms_table_add(&table, "%d", k < 0 ? 0 : 1);
        else
            ms_table_add(&table, "%lld-%lld", 1LL << k, (2LL << k) - 1);
        ms_table_add(&table, "%lld", (long long)n);
        ms_table_add(&table, "%s", bar);
    }
    return ms_table_finish(e, &table, stdout);
}

static musec_status print_text(ms_error *e, const struct args *a, const shard *s, const ms_bpe *bpe)
{
    ms_table     table = { .align = "ll" };
    musec_status st;

#define ROW(label, ...) (ms_table_add(&table, label), ms_table_add(&table, __VA_ARGS__))
    ROW("file", "%s", s->path);
    if (s->form == MS_SHARD_BARE)
        ROW("header", "none: nanoGPT's, %lld tokens of 16 bits", (long long)s->n);
    else
        ROW("header", "%d, version 1, %lld tokens of 16 bits", MS_SHARD_MAGIC, (long long)s->n);
    ROW("tokenizer", "%s, documents start with %ld", s->bytes ? "byte" : "gpt2", (long)s->start);
    ROW("largest id", "%ld", (long)s->largest);
    ROW("beyond", "%lld ids at or beyond the vocabulary of %ld", (long long)s->beyond,
        (long)s->vocab);
    ROW("documents", "%lld", (long long)s->documents);
    if (s->before > 0)
        ROW("before", "%lld tokens of a document that began elsewhere", (long long)s->before);
    ROW("lengths", "shortest %lld, mean %.1f, longest %lld tokens", (long long)s->shortest,
        mean_length(s), (long long)s->longest);
#undef ROW
    st = ms_table_finish(e, &table, stdout);
    if (st == MUSEC_OK) st = print_histogram(e, s);
    if (st == MUSEC_OK) st = print_sample(e, s, bpe, a->sample);
    return st;
}

static musec_status print_json(ms_error *e, const struct args *a, const shard *s, const ms_bpe *bpe)
{
    json_t *root = json_object(), *bins = json_array();

    for (int k = -1; k < BINS; k++) {
        const int64_t n = k < 0 ? s->empty : s->bin[k];
        if (n > 0)
            ms_json_append(&bins, json_pack("{sI, sI, sI}", "from",
                                            k < 0 ? (json_int_t)0 : (json_int_t)1 << k, "to",
                                            k < 0 ? (json_int_t)0 : ((json_int_t)2 << k) - 1,
                                            "documents", (json_int_t)n));
    }
    ms_json_add(&root,
                "file=%s tokens=%lld tokenizer=%s start_id=%lld vocabulary=%lld largest_id=%lld "
                "beyond=%lld documents=%lld before=%lld shortest=%lld mean=%g longest=%lld "
                "lengths=%p sample=%p",
                s->path, (long long)s->n, s->bytes ? "byte" : "gpt2", (long long)s->start,
                (long long)s->vocab, (long long)s->largest, (long long)s->beyond,
                (long long)s->documents, (long long)s->before, (long long)s->shortest,
                mean_length(s), (long long)s->longest, (void *)bins,
                (void *)sample_json(s, bpe, a->sample));
    return ms_json_finish(e, root, stdout);
}

static musec_status run(ms_error *e, const struct args *a, const char *path)
{
    shard        s    = { .path = path };
    ms_bpe      *bpe  = NULL;
    ms_error     none = { "" }; /* without a vocabulary there are ids to show */
    char         vocab[MS_PATH_MAX];
    musec_status st;

    if (a->sample < 0 || a->sample > SAMPLE_MAX)
        return ms_fail(e, MUSEC_EINVAL, "--sample must be from 0 to %d, not %lld", SAMPLE_MAX,
                       (long long)a->sample);
    s.form = strcmp(a->format, "nanogpt") == 0 ? MS_SHARD_BARE : MS_SHARD_HEADED;
    TRY(ms_shard_read(e, path, s.form, IDS, &s.tokens, &s.n));
    count(&s, a->tokenizer);
    if (a->vocab != NULL || (!s.bytes && ms_bpe_find(&none, NULL, vocab) == MUSEC_OK))
        TRY(ms_bpe_load(e, a->vocab != NULL ? a->vocab : vocab, &bpe));
    TRY(a->json ? print_json(e, a, &s, bpe) : print_text(e, a, &s, bpe));
done:
    ms_bpe_free(bpe);
    free(s.tokens);
    return st;
}

int cmd_data_inspect(int argc, char **argv)
{
    const ms_command *cmd   = data_inspect_command();
    struct args       a     = { .tokenizer = "auto", .format = "shard", .sample = 200 };
    const int         n     = ms_options_parse(cmd, &a, argc, argv);
    ms_error          error = { "" };

    if (n < 0) return ms_cli_parsed(n);
    return run(&error, &a, argv[1]) == MUSEC_OK ? EXIT_OK : ms_cli_fail(cmd, &error);
}
