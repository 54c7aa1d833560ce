/* claims_fuzz.c - any bytes as a set of runs on which the paper's claims are judged.
 *
 *     a run      RUN_BYTES bytes: its optimizer, rate, threshold and other options, seed, end; then
 *                LINE_BYTES for each line of its log: losses, statistics, times
 *
 * The bytes choose among values that claims ask for, so that runs which belong together occur, as
 * bytes of JSON (runset_fuzz.c) hardly give.  The runs are written as files and read as any others;
 * each claim gets a result, and all tables can be made. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/directory.h"
#include "fuzz.h"
#include "report/verdict.h"

enum { RUNS = 24, FIRST = 10, LINES = 8, MOST_CLAIMS = 64, TEXT = 1 << 14 };

static const char *const optimizers[] = { "soft-musec", "muon",  "spectra", "muonclip",
                                          "musec",      "adamw", "sgdm",    "soft-musec" };
static const char *const rates[]      = { "0.1", "0.2", "0.05", "0.4", "0.8", "1.6", "0.02", "1" };
static const char *const thresholds[] = { "0.5", "0.1", "0.2", "1", "2", "5", "rms:2", "10" };
static const char *const modes[]      = { "paper", "exact", "fast", "paper" };
static const char *const iterations[] = { "5", "3", "4", "8", "12", "1", "2", "30" };
static const char *const decays[]     = { "0", "0.1", "qk=0,vo=0.1,mlp=0.1", "0.01" };
static const char *const presets[]    = { "small", "medium", "pico", "wide" };
static const char *const data_sets[]  = { "data/fineweb", "data/fineweb", "data/openwebtext", "" };
static const char *const ends[]       = { "done",    "done", "done",        "diverged",
                                          "stalled", "done", "interrupted", "done" };

#define PICK(list, byte) ((list)[(byte) % COUNT(list)])

/* ---- writing --------------------------------------------------------------------------------- */

static size_t put_group(char *text, size_t bytes, const char *name, unsigned a, unsigned b)
{
    const double   norm = (double)(a % 16) * 4.0, ratio = b % 8 == 7 ? NAN : (double)b / 64.0;
    const unsigned sixteenths = a / 16;
    const int      n =
        snprintf(text, bytes,
                 "\"%s\": {\"w_norm\": %g, \"u_norm\": %g, \"u_rms\": %g, \"u_erank\": %u, "
                 "\"u_gain\": 1, \"sigma1_over_d\": %s%g, \"share_above\": %g}",
                 name, norm, norm / 2.0, norm / 8.0, b, isnan(ratio) ? "null, \"x\": " : "",
                 isnan(ratio) ? 0.0 : ratio, (double)sixteenths / 16.0);
    return (size_t)n < bytes ? (size_t)n : bytes - 1;
}

/* Writes a line of the log from four bytes: which parts it has, and their values. */
static size_t put_line(char *text, size_t bytes, int step, const uint8_t **data, size_t *size)
{
    const unsigned parts = fuzz_take(data, size), loss = fuzz_take(data, size);
    const unsigned a = fuzz_take(data, size), b = fuzz_take(data, size);
    size_t         used = 0;
    used += (size_t)snprintf(text, bytes, "{\"step\": %d, \"tokens\": %d, \"lr\": %g, \"loss\": %g",
                             step, 64 * step, step < FIRST + (int)(parts / 32) ? 0.1 : 0.15,
                             1.0 + (double)loss / 32.0);
    if (parts % 2 == 0)
        used += (size_t)snprintf(text + used, bytes - used, ", \"val_loss\": %g",
                                 1.0 + (double)loss / 64.0);
    if (parts / 2 % 2 == 0) {
        used += (size_t)snprintf(text + used, bytes - used, ", \"groups\": {");
        used += put_group(text + used, bytes - used, "qk", a, b);
        used += (size_t)snprintf(text + used, bytes - used, ", ");
        used += put_group(text + used, bytes - used, "vo", b, a);
        used += (size_t)snprintf(text + used, bytes - used, ", ");
        used += put_group(text + used, bytes - used, "mlp", a ^ b, a);
        used += (size_t)snprintf(text + used, bytes - used, "}");
    }
    if (parts / 4 % 2 == 0)
        used += (size_t)snprintf(text + used, bytes - used,
                                 ", \"ms\": {\"data\": 1, \"model\": %u, \"optim\": %u, "
                                 "\"rest\": 0}, \"max_logit\": %u",
                                 a, b, a);
    used += (size_t)snprintf(text + used, bytes - used, "}\n");
    return used;
}

static void put_file(const char *dir, const char *name, const char *text)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    fuzz_file(path, text, strlen(text));
}

static void put_run(int number, const uint8_t **data, size_t *size)
{
    static char text[TEXT];
    char        dir[32];
    unsigned    by[8];
    size_t      used = 0;
    int         n;

    for (size_t i = 0; i < COUNT(by); i++)
        by[i] = fuzz_take(data, size);
    snprintf(dir, sizeof dir, "runs/%02d", number);
    REQUIRE(mkdir(fuzz_path(dir), 0777) == 0);
    snprintf(text, sizeof text,
             "{\"preset\": \"%s\", \"data\": \"%s\", \"steps\": \"%d\", \"width\": \"64\", "
             "\"heads\": \"1\", \"head\": \"64\", \"mlp\": \"256\", \"layers\": \"2\", "
             "\"seed\": \"%u\", \"threshold\": \"%s\", \"weight_decay\": \"%s\", "
             "\"ns_mode\": \"%s\", \"ns_iters\": \"%s\", \"optimizer\": \"%s\", \"lr\": \"%s\", "
             "\"update_scale\": \"%s\", \"stages\": \"%s\", \"device\": \"%s\"}",
             PICK(presets, by[6]), PICK(data_sets, by[6] / 4), FIRST + LINES, by[5] % 4,
             PICK(thresholds, by[2]), PICK(decays, by[4]), PICK(modes, by[3]),
             PICK(iterations, by[3] / 4), PICK(optimizers, by[0]), PICK(rates, by[1]),
             by[4] > 192 ? "unit" : "rms", by[5] > 128 ? "" : "2 batch=64 5 batch=128",
             by[7] > 200 ? "cuda" : "cpu");
    put_file(dir, "config.json", text);
    snprintf(text, sizeof text, "{\"status\": \"%s\", \"reason\": null%s}", PICK(ends, by[7]),
             by[7] / 8 % 4 != 0 ? ", \"unigram_loss\": 5, \"last_val_loss\": 2" : "");
    put_file(dir, "summary.json", text);
    n = (int)(by[0] / 8 % LINES) + 1;
    for (int i = 1; i <= FIRST; i++) /* a run of fewer has learned nothing */
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "{\"step\": %d, \"loss\": %g, \"lr\": 0.1}\n", i, 6.0 - 0.4 * i);
    for (int i = 1; i <= n; i++)
        used += put_line(text + used, sizeof text - used, FIRST + i, data, size);
    put_file(dir, "log.jsonl", text);
}

/* ---- judging --------------------------------------------------------------------------------- */

static void judge(const ms_compare *c, bool omit_times)
{
    static ms_finding findings[MOST_CLAIMS];
    const size_t      n     = ms_verdict_count();
    ms_table          table = { 0 }, counts = { 0 };
    ms_error          e = { "" };
    REQUIRE(n <= MOST_CLAIMS);
    REQUIRE(fuzz_ok(ms_verdict_find(&e, c, omit_times, findings), &e));
    for (size_t i = 0; i < n; i++)
        REQUIRE(findings[i].result[0] != '\0' && strstr(findings[i].result, "nan") == NULL);
    ms_verdict_table(findings, n, &table);
    ms_verdict_counts(findings, n, &counts);
    REQUIRE(table.n_cells >= 5 * n && counts.n_cells == 8);
    ms_table_free(&table);
    ms_table_free(&counts);
    ms_verdict_free(findings, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ms_runset  set = { 0 };
    ms_compare c;
    ms_error   e    = { "" };
    const bool omit = fuzz_take(&data, &size) % 8 == 0;

    REQUIRE(ms_directory_remove(&e, fuzz_path("runs")) == MUSEC_OK);
    REQUIRE(mkdir(fuzz_path("runs"), 0777) == 0);
    for (int i = 0; i < RUNS && size > 0; i++)
        put_run(i, &data, &size);
    if (fuzz_ok(ms_runset_add(&e, &set, fuzz_path("runs")), &e)) {
        REQUIRE(fuzz_ok(ms_compare_build(&e, &set, &c), &e));
        judge(&c, omit);
        ms_compare_free(&c);
    }
    ms_runset_free(&set);
    return 0;
}
