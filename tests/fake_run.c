/* fake_run.c - see fake_run.h. */
#define _XOPEN_SOURCE 700
#include "fake_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "check.h"
#include "scratch.h"

static const char usual[] = "preset=pico data=data/fineweb val_data= steps=100 batch=2048 layers=2 "
                            "width=128 heads=2 head=64 "
                            "mlp=512 val_every=5 seed=0 threshold=0.5 weight_decay=0.1 "
                            "ns_mode=paper ns_iters=5 nesterov=no "
                            "qk_tau=100 report_every=10 lr_qk=1 lr_vo=1 lr_up=1 lr_down=1 "
                            "stages=40%;rest";

void fake_text(const char *dir, const char *name, const char *text)
{
    put_file(path_in(dir, name), text, strlen(text));
}

/* Whether `fields` has the field of this "name=...". */
static bool is_named(const char *fields, const char *field, size_t n)
{
    for (const char *at = fields; *at != '\0'; at += strcspn(at, " "), at += *at == ' ')
        if (strncmp(at, field, n) == 0) return true;
    return false;
}

static void put_fields(FILE *f, const char *fields, const char *but)
{
    for (const char *at = fields; *at != '\0'; at += strcspn(at, " "), at += *at == ' ') {
        const size_t name = strcspn(at, "="), all = strcspn(at, " ");
        if (but != NULL && is_named(but, at, name + 1)) continue;
        fprintf(f, ",\n \"%.*s\": \"%.*s\"", (int)name, at, (int)(all - name - 1), at + name + 1);
    }
}

/* config.json with `fields`, and those of `others` that `fields` lacks. */
static void put_config(const char *dir, const char *others, const char *fields)
{
    FILE *f = fopen(path_in(dir, "config.json"), "wb");
    CHECK(f != NULL, "%s", dir);
    fprintf(f, "{\"fake\": \"yes\"");
    put_fields(f, others, fields);
    put_fields(f, fields, NULL);
    fprintf(f, "\n}\n");
    CHECK(fclose(f) == 0, "%s", dir);
}

void fake_config(const char *dir, const char *fields) { put_config(dir, "", fields); }

static double or_usual(double value, double otherwise) { return value == 0.0 ? otherwise : value; }

/* A number, or null. */
static void put_number(FILE *to, const char *before, double x)
{
    if (isfinite(x))
        fprintf(to, "%s%.17g", before, x);
    else
        fprintf(to, "%snull", before);
}

static double validation(const fake *f, int step)
{
    double loss = f->loss * (1.5 - 0.5 * step / FAKE_STEPS);
    if (step < FAKE_CHANGE || step == FAKE_STEPS) return loss;
    if (f->recover > 0.0 && step - FAKE_CHANGE < f->recover)
        loss += f->loss * f->spike * (1.0 - (step - FAKE_CHANGE) / f->recover);
    if (step == 80) loss += f->loss * f->late;
    return loss + (step / 5 % 2 == 0 ? 1.0 : -1.0) * f->wobble * f->loss;
}

static void put_groups(FILE *to, const fake *f)
{
    static const char *const names[] = { "qk", "vo", "mlp" };
    fprintf(to, ", \"groups\": {");
    for (int g = 0; g < MS_RUN_GROUPS; g++) {
        fprintf(to, "%s\"%s\": {\"u_norm\": 1, \"u_rms\": 0.1", g > 0 ? ", " : "", names[g]);
        put_number(to, ", \"w_norm\": ", or_usual(f->norm[g], 3.0));
        put_number(to, ", \"u_erank\": ", 128.0 * or_usual(f->rank[g], 0.5));
        put_number(to, ", \"sigma1_over_d\": ", or_usual(f->sigma, 2.0));
        put_number(to, ", \"share_above\": ", or_usual(f->share, 0.5));
        fprintf(to, "}");
    }
    fprintf(to, "}");
}

static void put_log(const char *dir, const fake *f)
{
    FILE  *to     = fopen(path_in(dir, "log.jsonl"), "wb");
    double tokens = 0.0;
    CHECK(to != NULL, "%s", dir);
    for (int step = 1; step <= (f->diverged ? 60 : FAKE_STEPS); step++) {
        const bool changed = step >= FAKE_CHANGE && !f->no_change;
        tokens += changed ? 4096.0 : 2048.0;
        fprintf(to, "{\"step\": %d, \"tokens\": %.0f, \"loss\": %.17g, \"lr\": %.17g", step, tokens,
                f->idle ? FAKE_FIRST : FAKE_FIRST - 2.0 * step / FAKE_STEPS,
                f->lr * (changed ? 1.52 : 1.0));
        if (step % 5 == 0) put_number(to, ", \"val_loss\": ", validation(f, step));
        if (step % 10 == 0 && !f->no_groups) put_groups(to, f);
        fprintf(to, ", \"ms\": {\"data\": 1, \"model\": 5, \"optim\": 2");
        put_number(to, ", \"rest\": ", or_usual(f->ms, 10.0) - 8.0);
        fprintf(to, "}}\n");
    }
    CHECK(fclose(to) == 0, "%s", dir);
}

const char *fake_run(const char *root, const fake *f)
{
    static char dir[1024];
    static int  number = 0;
    char        fields[2 * FAKE_SETTINGS];

    snprintf(dir, sizeof dir, "%s/run%04d", root, number++);
    CHECK(mkdir(dir, 0777) == 0, "%s", dir);
    snprintf(fields, sizeof fields, "optimizer=%s lr=%.17g%s%s", f->optimizer, f->lr,
             f->more[0] != '\0' ? " " : "", f->more);
    put_config(dir, usual, fields);
    put_log(dir, f);
    fake_text(dir, "summary.json",
              f->diverged ? "{\"status\": \"diverged\", \"reason\": \"loss too high\"}\n"
              : f->old    ? "{\"status\": \"done\", \"reason\": null}\n"
              : f->idle   ? "{\"status\": \"stalled\", \"reason\": \"no luck\", "
                            "\"unigram_loss\": 5.5}\n"
                          : "{\"status\": \"done\", \"reason\": null, \"unigram_loss\": 5.5}\n");
    return dir;
}

void fake_read(const char *root, ms_runset *set, ms_compare *c)
{
    ms_error e = { "" };
    *set       = (ms_runset){ 0 };
    CHECK_OK_ERR(&e, ms_runset_add(&e, set, root));
    CHECK_OK_ERR(&e, ms_compare_build(&e, set, c));
}

void fake_free(ms_runset *set, ms_compare *c)
{
    ms_compare_free(c);
    ms_runset_free(set);
}
