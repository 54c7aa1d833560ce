/* runset_fuzz.c - any bytes as the files of a run that is read for a report.
 *
 *     byte 0   c  config.json
 *              s  summary.json
 *              l  log.jsonl
 *              a  all three, each but the last closed by a zero byte
 *
 * The run lies beside three valid ones: all are sorted, compared and judged.  The result obeys
 * runset.h and compare.h. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"
#include "report/verdict.h"

enum { MOST_CLAIMS = 64 };

#define FIELDS(optimizer, lr)                                                                    \
    "{\"preset\": \"pico\", \"data\": \"data/fineweb\", \"steps\": \"4\", \"width\": \"64\", "   \
    "\"heads\": \"1\", \"head\": \"64\", \"mlp\": \"256\", \"layers\": \"2\", \"seed\": \"0\", " \
    "\"threshold\": \"0.5\", \"weight_decay\": \"0.1\", \"ns_mode\": \"paper\", "                \
    "\"ns_iters\": \"5\", \"optimizer\": \"" optimizer "\", \"lr\": \"" lr "\"}"

static const char done[] = "{\"status\": \"done\", \"reason\": null}";
static const char log_text[] =
    "{\"step\": 1, \"tokens\": 64, \"lr\": 0.1, \"val_loss\": 5}\n"
    "{\"step\": 2, \"tokens\": 192, \"lr\": 0.15, \"val_loss\": 6, \"groups\": {\"qk\": "
    "{\"w_norm\": "
    "2, \"u_erank\": 30}, \"vo\": {\"w_norm\": 2, \"u_erank\": 30}, \"mlp\": {\"w_norm\": 2, "
    "\"u_erank\": 30}}}\n"
    "{\"step\": 3, \"val_loss\": 4}\n"
    "{\"step\": 4, \"val_loss\": 3}\n";

static void put_text(const char *name, const char *text) { fuzz_file(name, text, strlen(text)); }

static void make_others(void)
{
    static bool made = false;

    if (made) return;
    made = true;
    REQUIRE(mkdir(fuzz_path("x"), 0777) == 0 && mkdir(fuzz_path("a"), 0777) == 0);
    REQUIRE(mkdir(fuzz_path("b"), 0777) == 0 && mkdir(fuzz_path("c"), 0777) == 0);
    put_text("a/config.json", FIELDS("muon", "0.1"));
    put_text("b/config.json", FIELDS("soft-musec", "0.1"));
    put_text("c/config.json", FIELDS("soft-musec", "0.2"));
    for (const char *run = "abc"; *run != '\0'; run++) {
        char name[] = "?/summary.json", log_name[] = "?/log.jsonl";
        name[0] = log_name[0] = *run;
        put_text(name, done);
        put_text(log_name, log_text);
    }
}

/* Writes the next part of the input, which a zero byte ends, except the last. */
static void put_part(const char *name, const uint8_t **data, size_t *size)
{
    const uint8_t *zero = *size > 0 ? memchr(*data, '\0', *size) : NULL;
    const size_t   n    = zero != NULL ? (size_t)(zero - *data) : *size;
    fuzz_file(name, *data, n);
    *data += n + (zero != NULL);
    *size -= n + (zero != NULL);
}

static void put_files(unsigned what, const uint8_t *data, size_t size)
{
    put_text("x/config.json", FIELDS("muon", "0.2"));
    put_text("x/summary.json", done);
    put_text("x/log.jsonl", log_text);
    if (what == 'c') fuzz_file("x/config.json", data, size);
    if (what == 's') fuzz_file("x/summary.json", data, size);
    if (what == 'l') fuzz_file("x/log.jsonl", data, size);
    if (what != 'a') return;
    put_part("x/config.json", &data, &size);
    put_part("x/summary.json", &data, &size);
    fuzz_file("x/log.jsonl", data, size);
}

static void check_run(const ms_run *run)
{
    double a, b;
    REQUIRE(run->optimizer[0] != '\0' && run->lr >= 0.0 && isfinite(run->lr) && run->steps >= 1);
    REQUIRE(run->status != MS_RUN_DIVERGED || isnan(run->val_loss));
    for (size_t i = 0; i < run->n; i++)
        REQUIRE(run->lines[i].step >= 1 &&
                (i == 0 || run->lines[i].step - 1 == run->lines[i - 1].step));
    ms_run_applied(run, &a, &b);
    REQUIRE(ms_run_step_ms(run, &a, &b));
    REQUIRE(ms_run_stage_change(run) >= 0);
}

static void check_compare(const ms_compare *c)
{
    static ms_finding findings[MOST_CLAIMS];

    for (size_t i = 0; i < c->n_settings; i++) {
        const ms_setting *s = &c->settings[i];
        REQUIRE(s->n >= 1 && s->diverged <= s->n && s->method < c->n_methods);
        REQUIRE(s->problem < c->n_problems && isnan(s->loss) == (s->diverged == s->n));
        REQUIRE(isnan(s->loss) || (s->low <= s->high && isfinite(s->loss)));
        REQUIRE(ms_compare_best(c, s->problem, s->method, s->lr) != NULL);
    }
    const size_t n = ms_verdict_count();
    ms_error     e = { "" };
    REQUIRE(n <= MOST_CLAIMS);
    REQUIRE(fuzz_ok(ms_verdict_find(&e, c, false, findings), &e));
    for (size_t i = 0; i < n; i++)
        REQUIRE(findings[i].result[0] != '\0');
    ms_verdict_free(findings, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const unsigned what = fuzz_take(&data, &size);
    ms_runset      set  = { 0 };
    ms_compare     c;
    ms_error       e = { "" };

    make_others();
    put_files(what, data, size);
    if (fuzz_ok(ms_runset_add(&e, &set, fuzz_path(".")), &e)) {
        REQUIRE(set.n == 4 || (set.n == 3 && set.n_notes > 0)); /* an invalid one has a note */
        for (size_t i = 0; i < set.n; i++)
            check_run(&set.at[i]);
        REQUIRE(fuzz_ok(ms_compare_build(&e, &set, &c), &e));
        check_compare(&c);
        ms_compare_free(&c);
    }
    ms_runset_free(&set);
    return 0;
}
