/* cmd_tokenize.c - musec tokenize: texts and JSON lines, packed or not, into shards of tokens.
 *
 * SIGINT and SIGTERM leave the shards that are whole and a manifest that --resume goes on from; a
 * second one ends the program at once. */
#include <string.h>

#include "cli/cli.h"
#include "core/clock.h"
#include "core/json_file.h"
#include "core/log.h"
#include "core/names.h"
#include "core/process.h"
#include "core/signals.h"
#include "data/tokenize.h"

enum { LINE_EVERY_MS = 5000, MAX_DOCUMENT = 48 << 20 };

struct args {
    const char *out, *tokenizer, *vocab, *split, *format, *field;
    int64_t     shard_tokens, val_tokens, limit_tokens, max_document, threads;
    int         skip_bad, resume, verify, quiet, json;
};

/* The choices are in the order of ms_reader_split and ms_reader_format. */
static const char splits[] = "eot|blank|file", formats[] = "auto|text|jsonl";

static const ms_option options[] = {
    { "out", MS_OPT_STR, AT(out), "DIR", "directory for the shards, to be created" },
    { "tokenizer", MS_OPT_CHOICE, AT(tokenizer), "gpt2|byte",
      "GPT-2's tokens, or one for each byte [gpt2]" },
    { "vocab", MS_OPT_STR, AT(vocab), "PATH",
      "GPT-2's vocabulary, a file or its directory [data/gpt2 or ~/.local/share/musec/gpt2]" },
    { "split", MS_OPT_CHOICE, AT(split), splits,
      "where a document of a text ends: at a line <|endoftext|>, at an empty line, or with the "
      "file [eot]" },
    { "format", MS_OPT_CHOICE, AT(format), formats,
      "format of the input; auto goes by file names, and by the first byte of a pipe [auto]" },
    { "field", MS_OPT_STR, AT(field), "NAME", "JSON field that holds the document [text]" },
    { "shard-tokens", MS_OPT_I64, AT(shard_tokens), "N",
      "number of tokens in a shard [100000000]" },
    { "val-tokens", MS_OPT_I64, AT(val_tokens), "N",
      "put this many tokens from the beginning into a validation shard [0]" },
    { "limit-tokens", MS_OPT_I64, AT(limit_tokens), "N",
      "stop after this many tokens; 0: take all [0]" },
    { "max-document", MS_OPT_I64, AT(max_document), "BYTES",
      "longest document or line; a longer one is an error [50331648]" },
    { "threads", MS_OPT_I64, AT(threads), "N", "number of encoding threads; 0: one per core [0]" },
    { "skip-bad", MS_OPT_FLAG, AT(skip_bad), NULL,
      "skip and count JSON lines that cannot be used, instead of failing" },
    { "resume", MS_OPT_FLAG, AT(resume), NULL, "continue after the last complete shard in DIR" },
    { "verify", MS_OPT_FLAG, AT(verify), NULL,
      "with --resume: check the sha256 of the shards that are there" },
    { "quiet", MS_OPT_FLAG, AT(quiet), NULL, "print no progress" },
    MS_CLI_JSON(struct args),
};

static const ms_option_group groups[] = {
    { "Common options", "out" },
    { "Input", "split" },
    { "Shards", "shard-tokens" },
    { "How to run it", "threads" },
};

const ms_command *tokenize_command(void)
{
    static const ms_command command = {
        .name     = "musec tokenize",
        .operands = "IN...",
        .summary  = "turn texts and JSON lines, compressed or not, into token shards",
        .details =
            "IN: texts, .jsonl, .ndjson and .json files of one object a line, each also as .gz,\n"
            ".zst or .xz, directories of those, or - for stdin.  DIR gets val_000000.bin, if "
            "--val-tokens\n"
            "is given, train_000001.bin and so on, and manifest.json.  The shards are the same\n"
            "for any number of threads, and whether the run was interrupted or not.\n\n"
            "Examples: musec tokenize book.txt --tokenizer byte --out data/book\n"
            "          musec tokenize c4/ --vocab gpt2/ --out data/c4 --val-tokens 10000000\n"
            "          zstdcat web.zst | musec tokenize - --vocab gpt2/ --out data/web\n",
        .groups       = groups,
        .n_groups     = COUNT(groups),
        .options      = options,
        .n_options    = COUNT(options),
        .min_operands = 1,
        .max_operands = -1,
    };
    return &command;
}

/* ---- while it runs --------------------------------------------------------------------------- */

struct progress {
    ms_log *log;
    double  started, last_line;
    int64_t first_bytes, first_tokens; /* what a resumed run had before it began; -1: not known */
    int64_t limit_tokens;
};

/* Seconds to the end of the input or to the limit, whichever comes first; -1: not known. */
static double seconds_left(const struct progress *p, const ms_tokenize_progress *now,
                           double seconds)
{
    const double bytes = (double)(now->bytes_in - p->first_bytes);
    const double taken = (double)(now->tokens - p->first_tokens);
    double       left  = -1;

    if (now->bytes_total >= 0 && bytes > 0)
        left = (double)(now->bytes_total - now->bytes_in) * seconds / bytes;
    if (p->limit_tokens > 0 && taken > 0) {
        const double to_limit = (double)(p->limit_tokens - now->tokens) * seconds / taken;
        if (left < 0 || to_limit < left) left = to_limit;
    }
    return left;
}

static void on_progress(void *arg, const ms_tokenize_progress *now)
{
    struct progress *p       = arg;
    const double     ms      = ms_clock_ms();
    const double     seconds = (ms - p->started) / 1000.0;
    char             text[256], left[32] = "", total[32] = "";
    double           mb_s, to_come;

    if (p->first_bytes < 0) {
        p->first_bytes  = now->bytes_in;
        p->first_tokens = now->tokens;
    }
    mb_s    = (double)(now->bytes_in - p->first_bytes) / 1e6 / seconds;
    to_come = seconds_left(p, now, seconds);
    if (now->bytes_total >= 0)
        snprintf(total, sizeof total, " of %.1f", (double)now->bytes_total / 1e6);
    if (to_come >= 0)
        snprintf(left, sizeof left, ", %ld:%02ld left", (long)to_come / 60, (long)to_come % 60);
    snprintf(text, sizeof text, "%.1f%s MB, %.1f MB/s, %lld tokens, %lld shard%s%s",
             (double)now->bytes_in / 1e6, total, mb_s, (long long)now->tokens,
             (long long)now->shards, now->shards == 1 ? "" : "s", left);
    ms_log_progress(p->log, "%s", text);
    if (!p->log->live && ms - p->last_line > LINE_EVERY_MS) {
        ms_log_say(p->log, MS_LOG_NORMAL, "%s", text);
        p->last_line = ms;
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

static const char *plural(int64_t n) { return n == 1 ? "" : "s"; }

static void report_resumed(ms_log *log, const struct args *a, const ms_tokenize_progress *p)
{
    if (!a->resume || p->listed == 0) return;
    if (p->kept < p->listed)
        ms_log_say(log, MS_LOG_NORMAL,
                   "%lld of the %lld shard%s in %s %s whole; what is behind was made again",
                   (long long)p->kept, (long long)p->listed, plural(p->listed), a->out,
                   p->kept == 1 ? "was" : "were");
    else if (p->complete && p->kept == p->shards)
        ms_log_say(log, MS_LOG_NORMAL, "%s was complete already; nothing was done", a->out);
}

static musec_status print_result(ms_error *e, const struct args *a, const ms_tokenize_progress *p,
                                 double seconds)
{
    json_t *root;

    if (!a->json) {
        ms_text_print("", a->out, ": ", stdout);
        printf("%lld shard%s, %lld token%s, %lld document%s of %.1f MB (%.2f bytes a token)",
               (long long)p->shards, plural(p->shards), (long long)p->tokens, plural(p->tokens),
               (long long)p->documents, plural(p->documents), (double)p->text_bytes / 1e6,
               (double)p->text_bytes / (double)p->tokens);
        if (p->bad > 0) printf(", %lld line%s passed over", (long long)p->bad, plural(p->bad));
        printf(", %.1f s\n", seconds);
        return MUSEC_OK;
    }
    root = json_object();
    ms_json_add(&root,
                "out=%s complete?=%d shards=%lld kept=%lld tokens=%lld documents=%lld "
                "text_bytes=%lld bad=%lld seconds=%g",
                a->out, p->complete, (long long)p->shards, (long long)p->kept, (long long)p->tokens,
                (long long)p->documents, (long long)p->text_bytes, (long long)p->bad, seconds);
    return ms_json_finish(e, root, stdout);
}

static musec_status run(ms_error *e, const struct args *a, char **paths, int n)
{
    ms_log               log      = ms_log_open(stderr, a->quiet ? MS_LOG_QUIET : MS_LOG_NORMAL);
    const double         begin    = ms_clock_ms();
    struct progress      progress = { &log, begin, begin, a->resume ? -1 : 0, 0, a->limit_tokens };
    ms_tokenize_progress p        = { 0 };
    ms_bpe              *bpe      = NULL;
    ms_tokenize_config   cfg      = { .reader       = { .paths        = (const char *const *)paths,
                                                        .n_paths      = (size_t)n,
                                                        .field        = a->field,
                                                        .skip_bad     = a->skip_bad,
                                                        .max_document = (size_t)a->max_document },
                                      .out          = a->out,
                                      .shard_tokens = a->shard_tokens,
                                      .val_tokens   = a->val_tokens,
                                      .limit_tokens = a->limit_tokens,
                                      .threads      = (int)a->threads,
                                      .resume       = a->resume,
                                      .verify       = a->verify,
                                      .stop         = ms_stop_flag(),
                                      .on_progress  = on_progress,
                                      .arg          = &progress };
    char                 vocab[MS_PATH_MAX];
    musec_status         st;

    cfg.reader.split  = (ms_reader_split)ms_choice_index(splits, a->split);
    cfg.reader.format = (ms_reader_format)ms_choice_index(formats, a->format);
    if (a->threads == 0) cfg.threads = ms_process_cores();
    if (strcmp(a->tokenizer, "gpt2") == 0) {
        TRY(ms_bpe_find(e, a->vocab, vocab));
        TRY(ms_bpe_load(e, vocab, &bpe));
    }
    cfg.bpe = bpe;
    ms_stop_catch(NULL);
    TRY(ms_tokenize(e, &cfg, &p));
    ms_log_end(&log);
    report_resumed(&log, a, &p);
    if (a->val_tokens > 0 && p.tokens <= a->val_tokens)
        ms_log_say(&log, MS_LOG_QUIET,
                   "%s: there are no training shards: --val-tokens %lld took all %lld tokens",
                   a->out, (long long)a->val_tokens, (long long)p.tokens);
    TRY(print_result(e, a, &p, (ms_clock_ms() - begin) / 1000.0));
done:
    ms_log_end(&log);
    ms_bpe_free(bpe);
    return st;
}

static musec_status check_ranges(ms_error *e, const struct args *a)
{
    if (a->threads < 0 || a->threads > 512)
        return ms_fail(e, MUSEC_EINVAL, "--threads must be from 0 to 512, not %lld",
                       (long long)a->threads);
    if (a->max_document < 1 || a->max_document > INT32_MAX)
        return ms_fail(e, MUSEC_EINVAL, "--max-document must be from 1 to %ld, not %lld",
                       (long)INT32_MAX, (long long)a->max_document);
    return MUSEC_OK;
}

int cmd_tokenize(int argc, char **argv)
{
    const ms_command *cmd   = tokenize_command();
    struct args       a     = { .tokenizer    = "gpt2",
                                .split        = "eot",
                                .format       = "auto",
                                .field        = "text",
                                .shard_tokens = 100000000,
                                .max_document = MAX_DOCUMENT };
    const int         n     = ms_options_parse(cmd, &a, argc, argv);
    ms_error          error = { "" };
    musec_status      st;

    if (n < 0) return ms_cli_parsed(n);
    if (a.out == NULL) return ms_cli_usage(cmd, "--out DIR says where the shards go");
    if (a.verify && !a.resume)
        return ms_cli_usage(cmd, "--verify checks what --resume goes on from: give both");
    if (a.vocab != NULL && strcmp(a.tokenizer, "byte") == 0)
        return ms_cli_usage(cmd, "--vocab is GPT-2's; --tokenizer byte has none");
    st = check_ranges(&error, &a);
    if (st == MUSEC_OK) st = run(&error, &a, argv + 1, n);
    return st == MUSEC_OK ? EXIT_OK : ms_cli_fail(cmd, &error);
}
