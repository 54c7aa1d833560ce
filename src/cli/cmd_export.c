/* cmd_export.c - musec export: a trained model as a directory that other programs load. */
#include <string.h>

#include "cli/cli.h"
#include "core/file.h"
#include "core/json_file.h"
#include "train/export.h"

#define NEWEST INT64_MIN

struct args {
    const char *to, *out, *dtype, *vocab;
    int64_t     step;
    int         json;
};

static const ms_option options[] = {
    { "to", MS_OPT_CHOICE, AT(to), "hf", "the form: hf for Hugging Face's transformers [hf]" },
    { "out", MS_OPT_STR, AT(out), "DIR", "directory to make [RUN-hf]" },
    { "step", MS_OPT_I64, AT(step), "N", "step of the checkpoint to take [the newest]" },
    { "dtype", MS_OPT_CHOICE, AT(dtype), "f32|bf16",
      "type of the weights; bf16 is half the size, and rounded [f32]" },
    { "vocab", MS_OPT_STR, AT(vocab), "PATH",
      "GPT-2's vocabulary [data/gpt2 or ~/.local/share/musec/gpt2]" },
    MS_CLI_JSON(struct args),
};

const ms_command *export_command(void)
{
    static const ms_command command = {
        .name     = "musec export",
        .operands = "RUN",
        .summary  = "write a trained model for Hugging Face's transformers",
        .details =
            "RUN is a run directory, of which the newest checkpoint counts, or one checkpoint\n"
            "in it.  The directory holds the weights (model.safetensors), the model's own\n"
            "Python file, configs, the tokenizer and a model card; transformers loads it with\n"
            "trust_remote_code=True, and musec train --init-from begins with its weights.  A\n"
            "model of GPT-2's ids needs GPT-2's vocabulary for its tokenizer; without it there\n"
            "is none in the directory.\n\n"
            "Example: musec export runs/a --to hf --out a-hf\n",
        .options      = options,
        .n_options    = COUNT(options),
        .min_operands = 1,
        .max_operands = 1,
    };
    return &command;
}

/* "runs/a" and "runs/a/" become "runs/a-hf". */
static musec_status default_out(ms_error *e, const char *run, char out[MS_PATH_MAX])
{
    size_t n = strlen(run);
    while (n > 1 && run[n - 1] == '/')
        n--;
    if (n == 0 || run[n - 1] == '/' || run[n - 1] == '.' ||
        snprintf(out, MS_PATH_MAX, "%.*s-hf", (int)n, run) >= MS_PATH_MAX)
        return ms_fail(e, MUSEC_EINVAL, "give the directory a name: --out");
    return MUSEC_OK;
}

static musec_status print_result(ms_error *e, const struct args *a, const char *out,
                                 const ms_export_result *r)
{
    json_t *root;

    if (!a->json) {
        ms_text_print("", out, ": ", stdout);
        printf("step %lld, %lld parameters in %lld tensors of %s%s\n", (long long)r->step,
               (long long)r->parameters, (long long)r->tensors, a->dtype,
               r->has_tokenizer ? "" : ", no tokenizer");
        return MUSEC_OK;
    }
    root = json_object();
    ms_json_add(&root, "out=%s step=%lld parameters=%lld tensors=%lld dtype=%s tokenizer?=%d", out,
                (long long)r->step, (long long)r->parameters, (long long)r->tensors, a->dtype,
                r->has_tokenizer);
    return ms_json_finish(e, root, stdout);
}

int cmd_export(int argc, char **argv)
{
    const ms_command *cmd   = export_command();
    struct args       a     = { .to = "hf", .dtype = "f32", .step = NEWEST };
    const int         n     = ms_options_parse(cmd, &a, argc, argv);
    ms_error          error = { "" };
    char              out[MS_PATH_MAX];
    ms_export_setup   setup;
    ms_export_result  result;
    musec_status      st = MUSEC_OK;

    if (n < 0) return ms_cli_parsed(n);
    if (a.step < 0 && a.step != NEWEST)
        TRY(ms_fail(&error, MUSEC_EINVAL, "--step must be 0 or more"));
    if (a.out == NULL) {
        TRY(default_out(&error, argv[1], out));
        a.out = out;
    }
    setup = (ms_export_setup){ .run   = argv[1],
                               .step  = a.step == NEWEST ? -1 : a.step,
                               .out   = a.out,
                               .dtype = strcmp(a.dtype, "bf16") == 0 ? MUSEC_BF16 : MUSEC_F32,
                               .vocab = a.vocab };
    TRY(ms_export_hf(&error, &setup, &result));
    if (result.warning[0] != '\0') fprintf(stderr, "warning: %s\n", result.warning);
    if (result.note[0] != '\0') fprintf(stderr, "musec export: %s\n", result.note);
    TRY(print_result(&error, &a, a.out, &result));
done:
    return st == MUSEC_OK ? EXIT_OK : ms_cli_fail(cmd, &error);
}
