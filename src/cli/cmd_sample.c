/* cmd_sample.c - musec sample: draws text from a checkpoint. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
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
};

static const ms_option options[] = {
    { "prompt", MS_OPT_STR, offsetof(struct args, prompt), "TEXT",
      "text to go on from [the start of a document]" },
    { "vocab", MS_OPT_STR, offsetof(struct args, vocab), "PATH",
      "GPT-2's vocabulary [data/gpt2 or ~/.local/share/musec/gpt2]" },
    { "tokens", MS_OPT_I64, offsetof(struct args, tokens), "N", "tokens to draw [500]" },
    { "temperature", MS_OPT_F64, offsetof(struct args, temperature), "X",
      "below 1 likelier, above 1 wilder; 0: always the likeliest [0.8]" },
    { "top-k", MS_OPT_I64, offsetof(struct args, top_k), "K",
      "draw from the K likeliest only; 0: all [0]" },
    { "seed", MS_OPT_U64, offsetof(struct args, seed), "N", "the same gives the same text [0]" },
    MS_CLI_DEVICE(struct args),
};

const ms_command *sample_command(void)
{
    static const ms_command command = {
        .name     = "musec sample",
        .operands = "CHECKPOINT",
        .summary  = "draw text from a checkpoint",
        .details =
            "CHECKPOINT is a run directory, of which the newest checkpoint counts, or one\n"
            "checkpoint in it.  The text, prompt included, goes to stdout; where a document\n"
            "ends, a line <|endoftext|> stands and another begins.  A model of GPT-2's ids\n"
            "needs GPT-2's vocabulary (musec encode --help); without it the ids are printed.\n\n"
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
    if (a->tokens < 0) return ms_fail(e, MUSEC_EINVAL, "--tokens must be 0 or more");
    if (a->top_k < 0) return ms_fail(e, MUSEC_EINVAL, "--top-k must be 0 or more");
    if (!(a->temperature == 0.0 || (a->temperature >= 1e-3 && a->temperature <= 1e3)))
        return ms_fail(e, MUSEC_EINVAL, "--temperature must be 0, or 0.001 to 1000");
    return MUSEC_OK;
}

typedef struct voice { /* ids to text and back; without a vocabulary they are bytes, or just ids */
    ms_bpe       *bpe;
    ms_bpe_cache *cache;
    bool          bytes;
} voice;

/* A vocabulary may be missing, unless it was asked for or there is a prompt. */
static musec_status open_voice(ms_error *e, const struct args *a, const ms_sampler *s, voice *v)
{
    char         path[MS_PATH_MAX];
    musec_status st;

    v->bytes = ms_sampler_config(s)->tokenizer == MS_TOKENIZER_BYTE;
    if (v->bytes) return MUSEC_OK;
    st = ms_bpe_find(e, a->vocab, path);
    if (st != MUSEC_OK && a->prompt == NULL) {
        fprintf(stderr, "musec sample: ids instead of text: %s\n", e->text);
        return MUSEC_OK;
    }
    if (st != MUSEC_OK) goto done;
    TRY(ms_bpe_load(e, path, &v->bpe));
    TRY(ms_bpe_cache_make(e, v->bpe, &v->cache));
done:
    return st;
}

static void close_voice(voice *v)
{
    ms_bpe_cache_free(v->cache);
    ms_bpe_free(v->bpe);
}

static musec_status say_prompt(ms_error *e, ms_sampler *s, const voice *v, const char *prompt)
{
    const size_t bytes = strlen(prompt);
    size_t       n     = bytes;
    int32_t     *ids   = malloc((bytes + 1) * sizeof *ids);
    uint16_t    *words = malloc(ms_bpe_room(bytes) * sizeof *words);
    musec_status st;

    if (ids == NULL || words == NULL) {
        st = ms_fail(e, MUSEC_ENOMEM, "not enough memory for the prompt");
        goto done;
    }
    if (v->bpe != NULL) n = ms_bpe_encode(v->bpe, v->cache, prompt, bytes, false, words);
    for (size_t i = 0; i < n; i++)
        ids[i] = v->bpe != NULL ? words[i] : (unsigned char)prompt[i];
    TRY(ms_sampler_say(e, s, ids, (int64_t)n));
    fputs(prompt, stdout);
done:
    free(words);
    free(ids);
    return st;
}

static void print_id(const voice *v, int32_t id)
{
    size_t n;

    if (!v->bytes && v->bpe == NULL) {
        printf("%d ", (int)id);
    } else if (id == (v->bytes ? (int32_t)MS_BYTES_START : (int32_t)MS_BPE_START)) {
        fputs("\n<|endoftext|>\n", stdout);
    } else if (v->bytes) {
        putchar(id);
    } else {
        const char *p = ms_bpe_bytes(v->bpe, id, &n);
        fwrite(p, 1, n, stdout);
    }
    fflush(stdout);
}

static musec_status sample(ms_error *e, const struct args *a, ms_sampler *s, const voice *v)
{
    const ms_draw draw = { a->temperature, a->top_k, a->seed };
    int32_t       id;
    musec_status  st = MUSEC_OK;

    if (a->prompt != NULL) TRY(say_prompt(e, s, v, a->prompt));
    for (int64_t i = 0; i < a->tokens; i++) {
        TRY(ms_sampler_next(e, s, &draw, &id));
        print_id(v, id);
    }
    putchar('\n');
done:
    return st;
}

int cmd_sample(int argc, char **argv)
{
    const ms_command *cmd   = sample_command();
    struct args       a     = { .tokens = 500, .temperature = 0.8 };
    const int         n     = ms_options_parse(cmd, &a, argc, argv);
    ms_error          error = { "" };
    ms_sampler       *s     = NULL;
    voice             v     = { 0 };
    musec_status      st;

    if (n < 0) return ms_cli_parsed(n);
    TRY(check(&error, &a));
    TRY(ms_sampler_open(&error, argv[1], a.device, &s));
    if (ms_sampler_warning(s)[0] != '\0') fprintf(stderr, "warning: %s\n", ms_sampler_warning(s));
    if (ms_sampler_note(s)[0] != '\0') fprintf(stderr, "%s\n", ms_sampler_note(s));
    TRY(open_voice(&error, &a, s, &v));
    TRY(sample(&error, &a, s, &v));
done:
    close_voice(&v);
    ms_sampler_close(s);
    return st == MUSEC_OK ? EXIT_OK : ms_cli_fail(cmd, &error);
}
