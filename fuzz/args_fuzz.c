/* args_fuzz.c - any bytes as a command line: a subcommand, its options and operands.
 *
 *     byte 0   the row of the table below, modulo its length
 *     then     arguments, each begun by a byte: an option of the subcommand and its value, an
 *              operand, "--", an option of which a character is wrong, or a text
 *     value    a byte: one of the option's choices, a number, a word, several with commas, or a
 *              text: a length and its bytes, without slashes
 *
 * All are parsed by the subcommand's own table.  Those that are quick, or are so with the options
 * that a row adds at the end, then run, in a directory with small files and a run, which has them
 * anew for every input.  The exit status is 0, 1 or 2; a failure says something on stderr, of whole
 * lines without control characters; and after --json and 0 stdout is one JSON value. */
#define _XOPEN_SOURCE 700
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "core/directory.h"
#include "fuzz.h"

enum { MOST_ARGS = 48, TEXT = 1 << 12, ARGS_BYTES = 1 << 16, SAID = 1 << 20 };

/* of the sanitizers, where there are any: where their reports go */
void __sanitizer_set_report_fd(void *fd) __attribute__((weak)); /* NOLINT */

#define SMALL                                                                              \
    "--steps", "2", "--set", "layers=1", "--set", "width=16", "--set", "heads=1", "--set", \
        "head=16", "--set", "mlp=32", "--set", "vocab=0", "--set", "batch=64", "--set",    \
        "max-doc=32", "--set", "val-tokens=64", "--set", "micro-batches=1", "--set",       \
        "stages=", "--set", "workspace=1e7", "--set", "gate-width=8"

/* ---- subcommands ----------------------------------------------------------------------------- */

static const ms_cli_command subcommands[] = {
#define X(name) { #name, name##_command, cmd_##name },
    MS_CLI_SUBCOMMANDS(X)
};

const ms_cli_command *ms_cli_command_at(size_t index) /* as the program has it, for completions */
{
    return index < COUNT(subcommands) ? &subcommands[index] : NULL;
}

typedef struct row {
    const char *words[3]; /* the subcommand, and its part */
    const ms_command *(*describe)(void);
    int (*run)(int argc, char **argv); /* NULL: it is parsed alone */
    const char *last[40];              /* options that are added */
} row;

static const row rows[] = {
    { { "train" }, train_command, cmd_train, { SMALL, "--explain" } },
    { { "train" }, train_command, cmd_train, { "--explain", "--resume", "run" } },
    { { "sweep" }, sweep_command, cmd_sweep, { SMALL, "--dry-run" } },
    { { "paper" }, paper_command, cmd_paper, { "--dry-run" } },
    { { "theory", "params" }, theory_params_command, cmd_theory, { NULL } },
    { { "theory", "run" },
      theory_run_command,
      cmd_theory,
      { "--steps", "5", "--samples", "2", "--seeds", "1", "--rank", "1" } },
    { { "clip" }, clip_command, cmd_clip, { NULL } },
    { { "spectrum" }, spectrum_command, cmd_spectrum, { NULL } },
    { { "replay" }, replay_command, cmd_replay, { "--w0", "w0.npy", "--grads", "grads.npy" } },
    { { "encode" }, encode_command, cmd_encode, { NULL } },
    { { "decode" }, decode_command, cmd_decode, { NULL } },
    { { "tokenize" }, tokenize_command, cmd_tokenize, { "--threads", "1" } },
    { { "data", "inspect" }, data_inspect_command, cmd_data, { NULL } },
    { { "data", "get" }, data_get_command, cmd_data, { "--sources", "sources.json", "--list" } },
    { { "sample" }, sample_command, cmd_sample, { "--tokens", "2" } },
    { { "export" }, export_command, cmd_export, { "--out", "out" } },
    { { "report" }, report_command, cmd_report, { "--out", "out" } },
    { { "watch" }, watch_command, cmd_watch, { "--once" } },
    { { "completion" }, completion_command, cmd_completion, { NULL } },
    { { "demo" }, demo_command, NULL, { NULL } },
    { { "bench" }, bench_command, NULL, { NULL } },
    { { "info" }, info_command, NULL, { NULL } },
    { { "theory" }, /* its part is among the operands, or missing */
      theory_command,
      cmd_theory,
      { "--steps", "5", "--samples", "2", "--seeds", "1", "--rank", "1" } },
};

static const char *const numbers[] = { "0",    "1",   "2",       "-1",   "0.5",  "1e-3", "7",
                                       "64",   "1e9", "1e308",   "1e-9", "nan",  "inf",  "0x10",
                                       "1e19", "",    "9999999", "3,5",  "1e3,", "-0" };
static const char *const words[]   = {
      "x.npy",      "w0.npy",         "grads.npy",  "texts.jsonl", "plain.txt",  "run",
      "shard.bin",  "sources.json",   "none",       "out",         "-",          "bash",
      "list",       "byte",           "cpu",        "ref",         "cpu:1",      "muon",
      "soft-musec", "adamw,muon",     "pico",       "wide",        "quadratic",  "kinks",
      "threshold",  "robustness",     "tiny",       "lr=0.1,0.2",  "layers=1,2", "seed=0,1,2",
      "betas=",     "nonfinite=skip", "ns-mode=ns", "params",      "run.json",   "inspect",
};

/* ---- the directory --------------------------------------------------------------------------- */

static char home[512];
static int  began_in; /* the fuzzer's own directory */

static void put_npy(const char *name, const char *shape, int n)
{
    float data[64];
    char  head[256] = "\x93NUMPY\x01\0v"; /* 118 bytes follow */
    FILE *f         = fopen(name, "wb");
    REQUIRE(f != NULL);
    for (int i = 0; i < n; i++)
        data[i] = (float)((i * 37) % 23) / 8.0f - 1.25f;
    snprintf(head + 10, sizeof head - 10,
             "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }%80s", shape, "");
    head[127] = '\n';
    REQUIRE(fwrite(head, 1, 128, f) == 128 && fwrite(data, 4, (size_t)n, f) == (size_t)n);
    REQUIRE(fclose(f) == 0);
}

static void put_text(const char *name, const char *text)
{
    FILE *f = fopen(name, "wb");
    REQUIRE(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void put_files(void)
{
    put_npy("x.npy", "6, 4", 24);
    put_npy("w0.npy", "4, 4", 16);
    put_npy("grads.npy", "3, 4, 4", 48);
    put_text("texts.jsonl", "{\"text\": \"One line.\"}\n{\"text\": \"And another one.\"}\n");
    put_text("plain.txt", "72 105 A first paragraph.\n\nAnd a second one.\n");
    put_text("shard.bin", "not a shard, but some bytes");
    put_text("sources.json",
             "{\"sets\": [{\"name\": \"tiny\", \"kind\": \"shards\", \"files\": [{\"name\": "
             "\"t.bin\", \"urls\": [\"http://127.0.0.1:9/t.bin\"]}]}]}");
}

/* Removes what a command wrote.  The run stays: no command that is run changes it. */
static void remove_others(void)
{
    ms_names names = { 0 };
    ms_error e     = { "" };
    REQUIRE(fuzz_ok(ms_directory_names(&e, ".", &names), &e));
    for (size_t i = 0; i < names.n; i++)
        if (strcmp(names.at[i], "run") != 0) (void)ms_directory_remove(&e, names.at[i]);
    ms_names_free(&names);
}

static void make_home(void)
{
    char *train[] = { "train", "--out", "run", "--preset", "pico", "--quiet", SMALL, NULL };
    if (home[0] != '\0') return;
    snprintf(home, sizeof home, "%s", fuzz_path("home"));
    began_in = open(".", O_RDONLY | O_DIRECTORY);
    REQUIRE(began_in >= 0 && mkdir(home, 0777) == 0 && chdir(home) == 0);
    REQUIRE(setenv("HOME", home, 1) == 0 && unsetenv("MUSEC_CACHE") == 0);
    REQUIRE(cmd_train((int)COUNT(train) - 1, train) == EXIT_OK);
    REQUIRE(fchdir(began_in) == 0);
    if (__sanitizer_set_report_fd != NULL) __sanitizer_set_report_fd((void *)(intptr_t)dup(2));
}

/* ---- from bytes to arguments ----------------------------------------------------------------- */

typedef struct line {
    const row *row;
    char      *argv[MOST_ARGS + 48];
    int        argc;
    char       text[TEXT];
    size_t     used;
} line;

/* Keeps "<before><name><middle><value>" among the texts; NULL if there is no more room. */
static char *keep(line *l, const char *before, const char *name, const char *middle,
                  const char *value)
{
    char     *at = l->text + l->used;
    const int n  = snprintf(at, sizeof l->text - l->used, "%s%s%s%s", before, name, middle, value);
    if (n < 0 || (size_t)n >= sizeof l->text - l->used) return NULL;
    l->used += (size_t)n + 1;
    return at;
}

/* Options that a row adds at the end are to be read as such: there is no "--" before them. */
static void add(line *l, char *argument)
{
    if (argument == NULL || l->argc >= MOST_ARGS) return;
    if (strcmp(argument, "--") == 0 && l->row->last[0] != NULL) return;
    if (strcmp(argument, "list") == 0 && l->row->run == cmd_paper) return; /* takes seconds */
    l->argv[l->argc++] = argument;
}

static void take_text(const uint8_t **data, size_t *size, char *out, size_t bytes)
{
    size_t n = fuzz_take(data, size) % bytes, at = 0;
    for (; at<n && * size> 0; at++) {
        const char c = (char)fuzz_take(data, size);
        out[at]      = c == '/' || c == '\0' ? '_' : c;
    }
    out[at] = '\0';
}

static void take_choice(const char *choices, unsigned which, char *out, size_t bytes)
{
    for (unsigned n = 0; choices != NULL && *choices != '\0'; n++) {
        const size_t length = strcspn(choices, "|");
        snprintf(out, bytes, "%.*s", (int)length, choices);
        if (n == which) return;
        choices += length + (choices[length] == '|');
    }
}

static void take_value(const ms_option *o, const uint8_t **data, size_t *size, char *out,
                       size_t bytes)
{
    const unsigned how = fuzz_take(data, size), which = fuzz_take(data, size);
    out[0] = '\0';
    switch (how % 6) {
    case 0: take_choice(o->meta, which % 16, out, bytes); break;
    case 1: snprintf(out, bytes, "%s", numbers[which % COUNT(numbers)]); break;
    case 2: snprintf(out, bytes, "%s", words[which % COUNT(words)]); break;
    case 3: snprintf(out, bytes, "%u", which * (1u << how / 16)); break;
    case 4:
        snprintf(out, bytes, "%s,%s", numbers[which % COUNT(numbers)],
                 numbers[fuzz_take(data, size) % COUNT(numbers)]);
        break;
    default: take_text(data, size, out, bytes); break;
    }
}

static void take_option(line *l, const ms_command *c, bool wrong, const uint8_t **data,
                        size_t *size)
{
    const ms_option *o   = &c->options[fuzz_take(data, size) % c->n_options];
    const unsigned   how = fuzz_take(data, size);
    char             name[MS_OPTION_NAME], value[64] = "";
    snprintf(name, sizeof name, "%s", o->name);
    if (wrong) name[how % strlen(name)] ^= (char)(1 + how / 16);
    if (o->type != MS_OPT_FLAG || how % 8 == 7) take_value(o, data, size, value, sizeof value);
    if (o->type == MS_OPT_FLAG && how % 8 != 7)
        add(l, keep(l, "--", name, "", ""));
    else if (how % 2 == 0)
        add(l, keep(l, "--", name, "=", value));
    else {
        add(l, keep(l, "--", name, "", ""));
        add(l, keep(l, "", "", "", value));
    }
}

static void take_argument(line *l, const ms_command *c, const uint8_t **data, size_t *size)
{
    const unsigned how = c->n_options > 0 ? fuzz_take(data, size) : fuzz_take(data, size) % 3;
    char           text[64];
    switch (how % 8) {
    case 0: add(l, keep(l, "", "", "", words[fuzz_take(data, size) % COUNT(words)])); break;
    case 1:
        take_text(data, size, text, sizeof text);
        add(l, keep(l, how < 32 ? "--" : "", text, "", ""));
        break;
    case 2:
        if (how > 240) add(l, keep(l, how > 248 ? "--" : "--help", "", "", ""));
        break;
    case 3: take_option(l, c, how > 224, data, size); break;
    default: take_option(l, c, false, data, size); break;
    }
}

/* ---- running --------------------------------------------------------------------------------- */

static void check_parse(const line *l)
{
    const row               *r = l->row;
    static _Alignas(16) char args[ARGS_BYTES];
    const ms_command        *c = r->describe();
    char                    *argv[COUNT(l->argv)];
    const int                words_used = r->words[1] != NULL ? 1 : 0;
    memset(args, 0, sizeof args);
    memcpy(argv, l->argv, sizeof argv);
    for (size_t i = 0; i < c->n_options; i++)
        REQUIRE(c->options[i].offset + sizeof(ms_option_list) <= sizeof args);
    const int n = ms_options_parse(c, args, l->argc - words_used, argv + words_used);
    REQUIRE(n >= MS_OPT_RANGE && n < l->argc);
    if (n >= 0) ms_options_json(c, args, stdout);
}

/* Reads what a stream holds, and empties it. */
static size_t said_on(int fd, char *text)
{
    const off_t n = lseek(fd, 0, SEEK_END);
    ssize_t     got;
    REQUIRE(n >= 0);
    got = pread(fd, text, SAID - 1, 0);
    REQUIRE(got >= 0 && ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0);
    text[got] = '\0';
    return n < SAID ? (size_t)got : SAID; /* SAID: more than fits */
}

static void check_said(int code, bool json, int out, int err)
{
    static char text[SAID];
    json_t     *value = NULL;
    size_t      n     = said_on(err, text);
    REQUIRE(code >= EXIT_OK && code <= EXIT_USAGE);
    REQUIRE(code == EXIT_OK || n > 0);
    REQUIRE(n == 0 || n == SAID || text[n - 1] == '\n');
    for (size_t i = 0; i < n && i < SAID; i++)
        REQUIRE((unsigned char)text[i] >= ' ' || text[i] == '\n');
    n = said_on(out, text);
    if (code != EXIT_OK || !json || n == SAID) return;
    REQUIRE(ms_json_parse(text, n, MS_JSON_ANY_NAMES, NULL, &value) == MUSEC_OK);
    json_decref(value);
}

static int scratch_stream(const char *name)
{
    const int fd = open(fuzz_path(name), O_RDWR | O_CREAT | O_TRUNC, 0600);
    REQUIRE(fd >= 0);
    return fd;
}

/* Runs it with streams of its own; the fuzzer's are put back before anything is judged. */
static void run_line(line *l)
{
    const row *r   = l->row;
    static int out = -1, err = -1;
    bool       json = false, help = false;
    const int  was_in = dup(0), was_out = dup(1), was_err = dup(2);
    int        in, code = EXIT_OK;

    if (out < 0) out = scratch_stream("out"), err = scratch_stream("err");
    for (int i = 1; i < l->argc; i++) {
        json = json || strcmp(l->argv[i], "--json") == 0;
        help = help || strcmp(l->argv[i], "--help") == 0 || strcmp(l->argv[i], "-h") == 0;
    }
    if (r->run != NULL) remove_others(), put_files();
    in = open(r->run != NULL ? "plain.txt" : "/dev/null", O_RDONLY);
    REQUIRE(in >= 0 && was_in >= 0 && was_out >= 0 && was_err >= 0);
    REQUIRE(dup2(in, 0) == 0 && dup2(out, 1) == 1 && dup2(err, 2) == 2 && close(in) == 0);
    if (r->describe != theory_command) check_parse(l);
    fflush(stdout);
    if (r->run != NULL) {
        REQUIRE(ftruncate(out, 0) == 0 && ftruncate(err, 0) == 0);
        (void)lseek(out, 0, SEEK_SET), (void)lseek(err, 0, SEEK_SET);
        (void)freopen("plain.txt", "rb", stdin);
        code = r->run(l->argc, l->argv);
        fflush(stdout);
    }
    REQUIRE(dup2(was_in, 0) == 0 && dup2(was_out, 1) == 1 && dup2(was_err, 2) == 2);
    close(was_in), close(was_out), close(was_err);
    if (r->run != NULL) check_said(code, json && !help, out, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const row        *r = &rows[fuzz_take(&data, &size) % COUNT(rows)];
    const ms_command *c = r->describe();
    static line       l;

    make_home();
    l = (line){ .row = r };
    for (size_t i = 0; r->words[i] != NULL; i++)
        add(&l, keep(&l, "", r->words[i], "", ""));
    while (size > 0 && l.argc < MOST_ARGS)
        take_argument(&l, c, &data, &size);
    for (size_t i = 0; i < COUNT(r->last) && r->last[i] != NULL; i++)
        l.argv[l.argc++] = keep(&l, "", r->last[i], "", "");
    if (l.used + 128 > sizeof l.text) return 0; /* the last options may not fit */
    REQUIRE(chdir(home) == 0);
    run_line(&l);
    REQUIRE(fchdir(began_in) == 0);
    return 0;
}
