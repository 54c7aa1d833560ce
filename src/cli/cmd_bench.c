/* cmd_bench.c - musec bench: times what the library is made of. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "cli/cli.h"
#include "core/log.h"
#include "core/memory_stream.h"
#include "core/names.h"

struct args {
    const char *filter;
    int64_t     repeats;
    int         quick, all, loose, ask;
    const char *preset, *run, *vocab, *text;
    const char *device;
    int         json;
};

static const ms_option options[] = {
    { "filter", MS_OPT_STR, AT(filter), "TEXT", "only run rows whose name contains TEXT [all]" },
    { "repeats", MS_OPT_I64, AT(repeats), "N",
      "number of rounds, whose median is shown; 0: 9, or 3 with --quick [0]" },
    { "quick", MS_OPT_FLAG, AT(quick), NULL,
      "run small sizes only, in seconds; step, accuracy: two layers; train: pico" },
    { "all", MS_OPT_FLAG, AT(all), NULL,
      "step: also run the slow ones, by SVD and in the paper's order, and thresholds by rule; "
      "accuracy: every matrix, not three "
      "of each part of a layer; ops on a GPU: decompositions" },
    { "loose", MS_OPT_FLAG, AT(loose), NULL,
      "what a GPU does with --deterministic no: products chosen by timing, whatever their "
      "bits, and attention's gradient summed in any order where cuDNN has to do it, not musec" },
    { "preset", MS_OPT_STR, AT(preset), "NAME",
      "step, accuracy, train: model to use: small, medium, wide; train: also pico, nano [small; "
      "train on a CPU: "
      "nano]" },
    { "run", MS_OPT_STR, AT(run), "RUN",
      "step, accuracy: the matrices, gradients and momentum of a run of musec train, at its newest "
      "checkpoint [those of --preset]" },
    { "vocab", MS_OPT_STR, AT(vocab), "PATH",
      "tokenize: GPT-2's vocabulary [data/gpt2 or ~/.local/share/musec/gpt2]" },
    { "text", MS_OPT_STR, AT(text), "FILE",
      "tokenize: text to encode, of 1 MB or more [the built-in corpus]" },
    { "ask", MS_OPT_FLAG, AT(ask), NULL,
      "train: time the row that each line of standard input names, and print its milliseconds, so "
      "that another program takes turns with it" },
    MS_CLI_DEVICE(struct args),
    MS_CLI_JSON(struct args),
};

const ms_command *bench_command(void)
{
    static const ms_command command = {
        .name         = "musec bench",
        .operands     = "ops|step|train|tokenize|accuracy",
        .summary      = "time operators, optimizer steps, training steps and the tokenizer",
        .details      = "ops: matrix products as a share of CBLAS called directly, each operator\n"
                        "beside the literal form of the paper, and each operation as a share of\n"
                        "the best product and the best copy seen, all in one run.\n"
                        "step: one optimizer step over the matrices of a preset, beside Muon with\n"
                        "five quintic steps, all in one run; with --run over those of a real run.\n"
                        "train: a training step of a preset and its parts, as a share of the rate\n"
                        "of a matrix product in the same run; of small, medium and wide the plain\n"
                        "model, with 32768 tokens (on a CPU 2048) and a window of 1024.\n"
                        "tokenize: GPT-2's tokenizer beside tiktoken, on two threads, and on\n"
                        "the texts that are worst for it.\n"
                        "accuracy: how far the operators are from their maps in float64, beside\n"
                        "the bounds that are documented; exit status 1 if one is broken.\n\n"
                        "Example: musec bench ops --filter fast\n",
        .options      = options,
        .n_options    = COUNT(options),
        .min_operands = 1,
        .max_operands = 1,
    };
    return &command;
}

static const struct bench {
    const char *name, *reads; /* of the options below, those that it reads */
    musec_status (*run)(const ms_bench_options *opt, ms_log *log, FILE *out, ms_error *error);
} benches[] = { { "ops", "filter", ms_bench_ops },
                { "step", "filter preset run", ms_bench_step },
                { "train", "filter preset ask", ms_bench_train },
                { "tokenize", "vocab text", ms_bench_tokenize },
                { "accuracy", "filter preset run", ms_bench_accuracy } };

/* Rejects options that the benchmark would ignore. */
static int check_usage(const ms_command *cmd, const struct args *a, const struct bench *b)
{
    const struct {
        const char *name, *value;
    } given[] = { { "filter", a->filter }, { "preset", a->preset }, { "run", a->run },
                  { "vocab", a->vocab },   { "text", a->text },     { "ask", a->ask ? "" : NULL } };

    for (size_t i = 0; i < COUNT(given); i++)
        if (given[i].value != NULL && strstr(b->reads, given[i].name) == NULL)
            return ms_cli_usage(cmd, "%s has no use for --%s", b->name, given[i].name);
    if (a->ask && (a->filter != NULL || a->json))
        return ms_cli_usage(cmd, "--ask prints numbers alone; leave %s out",
                            a->json ? "--json" : "--filter");
    if (a->run != NULL && a->preset != NULL)
        return ms_cli_usage(cmd, "--run and --preset both say which matrices; give one of them");
    return EXIT_OK;
}

/* With a filter, output is held back until a row has matched. */
static int run(const ms_command *cmd, const struct bench *b, ms_bench_options opt, ms_log *log)
{
    ms_error         error   = { "" };
    int64_t          matched = 0;
    musec_status     st      = MUSEC_OK;
    int              code    = EXIT_OK;
    char            *text    = NULL;
    ms_memory_stream m;
    FILE            *out = opt.filter != NULL ? ms_memory_open(&m) : stdout;

    opt.matched = &matched;
    if (out == NULL)
        st = ms_fail(&error, MUSEC_ENOMEM, "not enough memory");
    else
        st = b->run(&opt, log, out, &error);
    ms_log_end(log);
    if (out != NULL && out != stdout) {
        text = ms_memory_close(&m);
        if (text == NULL && st == MUSEC_OK)
            st = ms_fail(&error, MUSEC_ENOMEM, "not enough memory for the result");
    }
    if (st == MUSEC_OK && matched == 0 && opt.filter != NULL) {
        code = ms_cli_usage(cmd, "--filter %s: %s has no row whose name holds that", opt.filter,
                            b->name);
    } else {
        if (text != NULL) fwrite(text, 1, m.bytes, stdout);
        if (st != MUSEC_OK) code = ms_cli_fail(cmd, &error);
    }
    free(text);
    return code;
}

int cmd_bench(int argc, char **argv)
{
    const ms_command *cmd   = bench_command();
    struct args       a     = { 0 };
    const int         n     = ms_options_parse(cmd, &a, argc, argv);
    ms_error          error = { "" };
    ms_log            log   = ms_log_open(stderr, MS_LOG_NORMAL);
    ms_bench_options  opt;
    size_t            which = 0;

    if (n < 0) return ms_cli_parsed(n);
    while (which < COUNT(benches) && strcmp(argv[1], benches[which].name) != 0)
        which++;
    if (which == COUNT(benches))
        return ms_cli_usage(cmd, "there is nothing called \"%s\" to time, only %s%s", argv[1],
                            cmd->operands, ms_name_hint_choices(argv[1], cmd->operands).text);
    if (check_usage(cmd, &a, &benches[which]) != EXIT_OK) return EXIT_USAGE;
    if (a.repeats < 0) {
        ms_fail(&error, MUSEC_EINVAL, "--repeats must be 0 or more, not %lld",
                (long long)a.repeats);
        return ms_cli_fail(cmd, &error);
    }
    opt = (ms_bench_options){ .device  = a.device,
                              .filter  = a.filter,
                              .json    = a.json,
                              .repeats = a.repeats,
                              .quick   = a.quick,
                              .loose   = a.loose,
                              .all     = a.all,
                              .ask     = a.ask,
                              .preset  = a.preset,
                              .run     = a.run,
                              .vocab   = a.vocab,
                              .text    = a.text };
    return run(cmd, &benches[which], opt, &log);
}
