/* cmd_data_get.c - musec data get: data sets from the network, checked, as token shards.
 *
 * SIGINT and SIGTERM keep what was downloaded; the same command goes on from there.  A second one
 * ends the program at once. */
#include <string.h>

#include "cli/cli.h"
#include "core/clock.h"
#include "core/json_file.h"
#include "core/log.h"
#include "core/process.h"
#include "core/signals.h"
#include "data/get.h"

enum { LINE_EVERY_MS = 5000 };

struct args {
    const char    *out, *sources, *vocab;
    ms_option_list mirrors;
    int64_t        limit_tokens, shard_tokens, retries, delay, stall, max_file, threads;
    int            skip_bad, keep_raw, verify, list, quiet, json;
};

static const ms_option options[] = {
    { "out", MS_OPT_STR, AT(out), "DIR",
      "directory to write to [data/NAME; gpt2-vocab: ~/.local/share/musec/gpt2]" },
    { "limit-tokens", MS_OPT_I64, AT(limit_tokens), "N",
      "download only what this many training tokens need; 0: all [0]" },
    { "mirror", MS_OPT_LIST, AT(mirrors), "URL",
      "try this mirror first: URL/path for https://server/path; may be repeated" },
    { "sources", MS_OPT_STR, AT(sources), "FILE",
      "use another list of data sets [the built-in data/sources.json]" },
    { "vocab", MS_OPT_STR, AT(vocab), "PATH",
      "GPT-2's vocabulary, for texts [data/gpt2 or ~/.local/share/musec/gpt2]" },
    { "shard-tokens", MS_OPT_I64, AT(shard_tokens), "N",
      "largest number of tokens in a shard made from texts [100000000]" },
    { "retries", MS_OPT_I64, AT(retries), "N",
      "failures in a row before the next address is tried [5]" },
    { "retry-delay", MS_OPT_I64, AT(delay), "MS",
      "milliseconds to wait after the first failure; doubles with each [1000]" },
    { "max-file", MS_OPT_I64, AT(max_file), "BYTES", "refuse a file of more bytes [64 GiB]" },
    { "stall", MS_OPT_I64, AT(stall), "SECONDS",
      "give a connection up after this long without data [30]" },
    { "threads", MS_OPT_I64, AT(threads), "N", "number of encoding threads; 0: one per core [0]" },
    { "skip-bad", MS_OPT_FLAG, AT(skip_bad), NULL,
      "skip and count lines of texts that cannot be used, instead of failing" },
    { "keep-raw", MS_OPT_FLAG, AT(keep_raw), NULL,
      "keep downloaded texts in DIR/raw after they became shards" },
    { "verify", MS_OPT_FLAG, AT(verify), NULL, "check the sha256 of files that are there already" },
    { "list", MS_OPT_FLAG, AT(list), NULL, "print the data sets and stop" },
    { "quiet", MS_OPT_FLAG, AT(quiet), NULL, "print no progress" },
    MS_CLI_JSON(struct args),
};

const ms_command *data_get_command(void)
{
    static const ms_command command = {
        .name     = "musec data get",
        .operands = "[NAME]",
        .summary  = "download a data set as token shards, with resume and checksums",
        .details =
            "NAME: gpt2-vocab, fineweb, openwebtext or c4; --list says more of them.  A call that\n"
            "was stopped is continued by the same call, one with a larger --limit-tokens adds to\n"
            "what is there.  Checksums are known beforehand or kept from the first download, in\n"
            "DIR/checksums.json.\n\n"
            "Examples: musec data get gpt2-vocab\n"
            "          musec data get fineweb --limit-tokens 1000000000\n"
            "          musec data get c4 --limit-tokens 200000000 --mirror https://hf-mirror.com\n",
        .options      = options,
        .n_options    = COUNT(options),
        .min_operands = 0,
        .max_operands = 1,
    };
    return &command;
}

/* ---- the list -------------------------------------------------------------------------------- */

static int64_t count_files(const ms_catalog_set *set)
{
    int64_t n = 0;
    for (size_t i = 0; i < set->n_rows; i++)
        n += set->rows[i].n;
    return n;
}

static void print_list(const ms_catalog *c)
{
    static const char indent[] = "             ";
    for (size_t i = 0; i < c->n; i++) {
        const ms_catalog_set *set = &c->sets[i];
        const long long       n   = count_files(set);
        printf("%s%-12s %lld file%s, %s\n", i == 0 ? "" : "\n", set->name, n, n == 1 ? "" : "s",
               ms_catalog_kind_name(set->kind));
        if (set->about[0] != '\0') ms_text_print(indent, set->about, "\n", stdout);
        printf("%slicence: ", indent);
        ms_text_print("", set->licence, "\n", stdout);
        if (!set->tried) printf("%13sits addresses have not been tried yet\n", "");
    }
}

static musec_status print_list_json(ms_error *e, const ms_catalog *c)
{
    json_t *list = json_array();

    for (size_t i = 0; i < c->n; i++) {
        const ms_catalog_set *set = &c->sets[i];
        json_t               *row = json_object();
        ms_json_add(&row, "name=%s kind=%s files=%lld about=%s licence=%s tried?=%d", set->name,
                    ms_catalog_kind_name(set->kind), (long long)count_files(set), set->about,
                    set->licence, set->tried);
        ms_json_append(&list, row);
    }
    return ms_json_finish(e, list, stdout);
}

/* ---- while it runs --------------------------------------------------------------------------- */

struct progress {
    ms_log log;
    double last_line;
};

/* Shows progress in place on a terminal, and as occasional lines elsewhere. */
static void show(struct progress *p, const char *text)
{
    const double now = ms_clock_ms();

    ms_log_progress(&p->log, "%s", text);
    if (!p->log.live && now - p->last_line > LINE_EVERY_MS) {
        ms_log_say(&p->log, MS_LOG_NORMAL, "%s", text);
        p->last_line = now;
    }
}

static void on_fetch(void *arg, const char *name, const ms_fetch_progress *now)
{
    const double mb_s =
        now->seconds > 0 ? (double)(now->have - now->resumed) / 1e6 / now->seconds : 0;
    char text[512], total[32] = "", left[32] = "";

    if (now->total >= 0) {
        snprintf(total, sizeof total, " of %.1f", (double)now->total / 1e6);
        if (mb_s > 0) {
            const long s = (long)((double)(now->total - now->have) / 1e6 / mb_s);
            snprintf(left, sizeof left, ", %ld:%02ld left", s / 60, s % 60);
        }
    }
    snprintf(text, sizeof text, "%s: %.1f%s MB, %.1f MB/s%s", name, (double)now->have / 1e6, total,
             mb_s, left);
    show(arg, text);
}

static void on_tokenize(void *arg, const char *name, const ms_tokenize_progress *now)
{
    char text[512];
    snprintf(text, sizeof text, "%s: tokenizing, %lld tokens", name, (long long)now->tokens);
    show(arg, text);
}

static void on_notice(void *arg, const char *text)
{
    struct progress *p = arg;
    ms_log_say(&p->log, MS_LOG_NORMAL, "%s", text);
}

/* ---- the work -------------------------------------------------------------------------------- */

static musec_status print_result(ms_error *e, const struct args *a, const char *out,
                                 const ms_get_result *r, double seconds)
{
    json_t *root;

    if (!a->json) {
        ms_text_print("", out, ": ", stdout);
        printf("%lld file%s (%lld %s there), %.1f MB fetched", (long long)r->files,
               r->files == 1 ? "" : "s", (long long)r->found, r->found == 1 ? "was" : "were",
               (double)r->received / 1e6);
        if (r->shards > 0)
            printf("; %lld shard%s, %lld training and %lld validation tokens", (long long)r->shards,
                   r->shards == 1 ? "" : "s", (long long)r->tokens, (long long)r->val);
        if (r->bad > 0)
            printf(", %lld line%s passed over", (long long)r->bad, r->bad == 1 ? "" : "s");
        printf(", %.1f s\n", seconds);
        return MUSEC_OK;
    }
    root = json_object();
    ms_json_add(&root,
                "out=%s files=%lld had=%lld fetched_bytes=%lld shards=%lld tokens=%lld "
                "val_tokens=%lld bad=%lld seconds=%g",
                out, (long long)r->files, (long long)r->found, (long long)r->received,
                (long long)r->shards, (long long)r->tokens, (long long)r->val, (long long)r->bad,
                seconds);
    return ms_json_finish(e, root, stdout);
}

/* DIR as it was given, or where the set usually goes. */
static musec_status choose_out(ms_error *e, const struct args *a, const ms_catalog_set *set,
                               char out[MS_PATH_MAX])
{
    if (a->out == NULL && set->kind == MS_KIND_VOCAB) return ms_bpe_default_path(e, out);
    if (a->out == NULL) return ms_path_join(e, "data", set->name, out);
    if (snprintf(out, MS_PATH_MAX, "%s", a->out) < MS_PATH_MAX) return MUSEC_OK;
    return ms_fail(e, MUSEC_EIO, "%.200s...: the path is too long", a->out);
}

static musec_status get(ms_error *e, const struct args *a, const ms_catalog *c, const char *name)
{
    const double    begin    = ms_clock_ms();
    struct progress progress = { ms_log_open(stderr, a->quiet ? MS_LOG_QUIET : MS_LOG_NORMAL),
                                 begin };
    char            out[MS_PATH_MAX];
    ms_get_config   cfg = { .out          = out,
                            .mirrors      = a->mirrors.item,
                            .n_mirrors    = a->mirrors.n,
                            .vocab        = a->vocab,
                            .limit_tokens = a->limit_tokens,
                            .shard_tokens = a->shard_tokens,
                            .skip_bad     = a->skip_bad,
                            .keep_raw     = a->keep_raw,
                            .verify       = a->verify,
                            .retries      = a->retries,
                            .delay_ms     = a->delay,
                            .stall_s      = a->stall,
                            .max_file     = a->max_file,
                            .threads      = (int)a->threads,
                            .stop         = ms_stop_flag(),
                            .on_fetch     = on_fetch,
                            .on_tokenize  = on_tokenize,
                            .on_notice    = on_notice,
                            .arg          = &progress };
    ms_get_result   r;
    musec_status    st;

    if (a->threads == 0) cfg.threads = ms_process_cores();
    TRY(ms_catalog_find(e, c, name, &cfg.set));
    TRY(choose_out(e, a, cfg.set, out));
    ms_stop_catch(NULL);
    st = ms_get(e, &cfg, &r);
    ms_log_end(&progress.log);
    if (st == MUSEC_OK) st = print_result(e, a, out, &r, (ms_clock_ms() - begin) / 1000.0);
done:
    return st;
}

static musec_status check_ranges(ms_error *e, const struct args *a)
{
    const struct {
        const char *name;
        int64_t     value, min, max;
    } ranges[] = {
        { "limit-tokens", a->limit_tokens, 0, INT64_MAX },
        { "shard-tokens", a->shard_tokens, 1, INT32_MAX },
        { "retries", a->retries, 0, 1000 },
        { "retry-delay", a->delay, 0, 60000 },
        { "stall", a->stall, 1, 3600 },
        { "max-file", a->max_file, 1, INT64_MAX / 2 },
        { "threads", a->threads, 0, 512 },
    };
    for (size_t i = 0; i < COUNT(ranges); i++)
        if (ranges[i].value < ranges[i].min || ranges[i].value > ranges[i].max)
            return ms_fail(e, MUSEC_EINVAL, "--%s must be from %lld to %lld, not %lld",
                           ranges[i].name, (long long)ranges[i].min, (long long)ranges[i].max,
                           (long long)ranges[i].value);
    return MUSEC_OK;
}

int cmd_data_get(int argc, char **argv)
{
    const ms_command *cmd     = data_get_command();
    struct args       a       = { .shard_tokens = MS_GET_SHARD_TOKENS,
                                  .retries      = MS_FETCH_RETRIES,
                                  .delay        = MS_FETCH_DELAY_MS,
                                  .stall        = MS_FETCH_STALL_S,
                                  .max_file     = MS_FETCH_MAX_BYTES };
    const int         n       = ms_options_parse(cmd, &a, argc, argv);
    ms_catalog        catalog = { 0 };
    ms_error          error   = { "" };
    musec_status      st;

    if (n < 0) return ms_cli_parsed(n);
    if (n == 0 && !a.list)
        return ms_cli_usage(cmd, "give the NAME of a data set, or --list to see them");
    TRY(check_ranges(&error, &a));
    TRY(ms_catalog_load(&error, a.sources, &catalog));
    if (a.list) {
        if (a.json)
            TRY(print_list_json(&error, &catalog));
        else
            print_list(&catalog);
    } else {
        TRY(get(&error, &a, &catalog, argv[1]));
    }
done:
    ms_catalog_free(&catalog);
    return st == MUSEC_OK ? EXIT_OK : ms_cli_fail(cmd, &error);
}
