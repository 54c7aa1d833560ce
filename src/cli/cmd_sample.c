/* cmd_sample.c - musec sample: samples text from a checkpoint. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "core/json_file.h"
#include "core/memory_stream.h"
#include "data/bpe.h"
#include "data/bytes.h"
#include "train/sampler.h"

struct args {
    const char *prompt;
    const char *vocab;
    int64_t     tokens;
    double      temperature;
    int64_t     top_k;
    uint64_t    seed;
    const char *device;
    int         json;
};

static const ms_option options[] = {
    { "prompt", MS_OPT_STR, AT(prompt), "TEXT", "text to continue [the start of a document]" },
    { "vocab", MS_OPT_STR, AT(vocab), "PATH",
      "GPT-2's vocabulary, a file or its directory [data/gpt2 or ~/.local/share/musec/gpt2]" },
    { "tokens", MS_OPT_I64, AT(tokens), "N", "number of tokens to write [500]" },
    { "temperature", MS_OPT_F64, AT(temperature), "X",
      "below 1 prefers likely tokens, above 1 gives more variety; 0: always the likeliest [0.8]" },
    { "top-k", MS_OPT_I64, AT(top_k), "K",
      "choose only among the K likeliest tokens; 0: among all [0]" },
    { "seed", MS_OPT_U64, AT(seed), "N",
      "seed of the choices: the same seed writes the same text [0]" },
    MS_CLI_DEVICE(struct args),
    MS_CLI_JSON(struct args),
};

const ms_command *sample_command(void)
{
    static const ms_command command = {
        .name     = "musec sample",
        .operands = "CHECKPOINT",
        .summary  = "let a trained model write text",
        .details =
            "CHECKPOINT is a run directory, whose newest checkpoint is used, or one of its\n"
            "checkpoints.  The text, prompt included, goes to stdout; where a document\n"
            "ends, a line <|endoftext|> stands and another begins.  A model of GPT-2's ids\n"
            "needs GPT-2's vocabulary (musec encode --help); without it the ids are printed.\n"
            "--json prints all at the end: text, ids and their log probabilities.\n\n"
            "Example: musec sample runs/a --prompt \"The \" --tokens 300\n",
        .options      = options,
        .n_options    = COUNT(options),
        .min_operands = 1,
        .max_operands = 1,
    };
    return &command;
}

static musec_status check(ms_error *e, const struct args *a)
{
    if (a->tokens < 0)
        return ms_fail(e, MUSEC_EINVAL, "--tokens must be 0 or more, not %lld",
                       (long long)a->tokens);
    if (a->top_k < 0)
        return ms_fail(e, MUSEC_EINVAL, "--top-k must be 0 or more, not %lld", (long long)a->top_k);
    if (!(a->temperature == 0.0 || (a->temperature >= 1e-3 && a->temperature <= 1e3)))
        return ms_fail(e, MUSEC_EINVAL, "--temperature must be 0, or 0.001 to 1000");
    return MUSEC_OK;
}

typedef struct tokenizer { /* ids to text and back; without a vocabulary: bytes, or just ids */
    ms_bpe       *bpe;
    ms_bpe_cache *cache;
    bool          bytes;
} tokenizer;

/* A vocabulary may be missing, unless it was asked for or there is a prompt. */
static musec_status open_tokenizer(ms_error *e, const struct args *a, const ms_sampler *s,
                                   tokenizer *t)
{
    char         path[MS_PATH_MAX];
    musec_status st;

    t->bytes = ms_sampler_config(s)->tokenizer == MS_TOKENIZER_BYTE;
    if (t->bytes) return MUSEC_OK;
    st = ms_bpe_find(e, a->vocab, path);
    if (st != MUSEC_OK && a->prompt == NULL) {
        fprintf(stderr, "musec sample: ids instead of text: %s\n", e->text);
        return MUSEC_OK;
    }
    if (st != MUSEC_OK) goto done;
    TRY(ms_bpe_load(e, path, &t->bpe));
    TRY(ms_bpe_cache_make(e, t->bpe, &t->cache));
done:
    return st;
}

/* ---- sampling -------------------------------------------------------------------------------- */

typedef struct sampling { /* where the output goes: for --json all is collected first */
    FILE   *to;
    bool    json;
    json_t *prompt_ids, *ids, *logprobs; /* with json */
} sampling;

static musec_status append_prompt(ms_error *e, ms_sampler *s, const tokenizer *t,
                                  const char *prompt, sampling *out)
{
    const size_t bytes = strlen(prompt);
    size_t       n     = bytes;
    int32_t     *ids   = malloc((bytes + 1) * sizeof *ids);
    uint16_t    *words = malloc(ms_bpe_max_ids(bytes) * sizeof *words);
    musec_status st;

    if (ids == NULL || words == NULL)
        TRY(ms_fail(e, MUSEC_ENOMEM, "not enough memory for the prompt"));
    if (t->bpe != NULL) n = ms_bpe_encode(t->bpe, t->cache, prompt, bytes, false, words);
    for (size_t i = 0; i < n; i++)
        ids[i] = t->bpe != NULL ? words[i] : (unsigned char)prompt[i];
    TRY(ms_sampler_append(e, s, ids, (int64_t)n));
    for (size_t i = 0; out->json && i < n; i++)
        ms_json_append(&out->prompt_ids, json_integer(ids[i]));
    if (!out->json) fputs(prompt, out->to);
done:
    free(words);
    free(ids);
    return st;
}

static void print_id(const tokenizer *t, int32_t id, FILE *to)
{
    size_t n;

    if (!t->bytes && t->bpe == NULL) {
        fprintf(to, "%d ", (int)id);
    } else if (id == (t->bytes ? (int32_t)MS_BYTES_START : (int32_t)MS_BPE_START)) {
        fputs("\n<|endoftext|>\n", to);
    } else if (t->bytes) {
        fputc(id, to);
    } else {
        const char *p = ms_bpe_bytes(t->bpe, id, &n);
        fwrite(p, 1, n, to);
    }
}

static musec_status sample(ms_error *e, const struct args *a, ms_sampler *s, const tokenizer *t,
                           sampling *out)
{
    const ms_sampling how = { a->temperature, a->top_k, a->seed };
    ms_sampled        next;
    musec_status      st = MUSEC_OK;

    if (a->prompt != NULL) TRY(append_prompt(e, s, t, a->prompt, out));
    for (int64_t i = 0; i < a->tokens; i++) {
        TRY(ms_sampler_next(e, s, &how, &next));
        print_id(t, next.id, out->to);
        if (!out->json) {
            fflush(out->to);
            continue;
        }
        ms_json_append(&out->ids, json_integer(next.id));
        ms_json_append(&out->logprobs, ms_json_real(next.logprob));
    }
    if (!out->json) fputc('\n', out->to);
done:
    return st;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* A seed from 2^63 on does not fit a JSON integer: it becomes a text. */
static json_t *seed_of(uint64_t seed)
{
    char text[32];
    if (seed <= INT64_MAX) return json_integer((json_int_t)seed);
    snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
    return json_string(text);
}

static musec_status sample_json(ms_error *e, const struct args *a, ms_sampler *s,
                                const tokenizer *t)
{
    ms_memory_stream m;
    char            *text = NULL;
    json_t          *root = json_object(), *settings = json_object();
    sampling         out  = { .to         = ms_memory_open(&m),
                              .json       = true,
                              .prompt_ids = json_array(),
                              .ids        = json_array(),
                              .logprobs   = json_array() };
    int64_t          step = 0;
    const char      *dir  = ms_sampler_checkpoint(s, &step);
    musec_status     st   = out.to == NULL ? ms_no_memory(e, "the text") : sample(e, a, s, t, &out);

    text = ms_memory_close(&m);
    if (text == NULL && st == MUSEC_OK) st = ms_no_memory(e, "the text");
    ms_json_add(&settings, "tokens=%lld temperature=%g top_k=%lld device=%s", (long long)a->tokens,
                a->temperature, (long long)a->top_k, ms_sampler_device(s));
    ms_json_add(&root,
                "checkpoint=%s step=%lld tokenizer=%s seed=%p settings=%p prompt=%s prompt_ids=%p "
                "text=%p ids=%p logprobs=%p",
                dir, (long long)step, t->bytes ? "byte" : "gpt2", (void *)seed_of(a->seed),
                (void *)settings, a->prompt != NULL ? a->prompt : "", (void *)out.prompt_ids,
                (void *)(st == MUSEC_OK && (t->bytes || t->bpe != NULL)
                             ? ms_json_bytes(text, m.bytes)
                             : json_null()),
                (void *)out.ids, (void *)out.logprobs);
    if (st == MUSEC_OK) st = ms_json_print(e, root, stdout);
    free(text);
    json_decref(root);
    return st;
}

int cmd_sample(int argc, char **argv)
{
    const ms_command *cmd   = sample_command();
    struct args       a     = { .tokens = 500, .temperature = 0.8 };
    const int         n     = ms_options_parse(cmd, &a, argc, argv);
    ms_error          error = { "" };
    ms_sampler       *s     = NULL;
    tokenizer         t     = { 0 };
    musec_status      st;

    if (n < 0) return ms_cli_parsed(n);
    TRY(check(&error, &a));
    TRY(ms_sampler_open(&error, argv[1], a.device, &s));
    if (ms_sampler_warning(s)[0] != '\0') fprintf(stderr, "warning: %s\n", ms_sampler_warning(s));
    if (ms_sampler_note(s)[0] != '\0') fprintf(stderr, "%s\n", ms_sampler_note(s));
    TRY(open_tokenizer(&error, &a, s, &t));
    if (a.json)
        TRY(sample_json(&error, &a, s, &t));
    else
        TRY(sample(&error, &a, s, &t, &(sampling){ .to = stdout }));
done:
    ms_bpe_cache_free(t.cache);
    ms_bpe_free(t.bpe);
    ms_sampler_close(s);
    return st == MUSEC_OK ? EXIT_OK : ms_cli_fail(cmd, &error);
}
