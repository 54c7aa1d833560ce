/* compare.c - groups runs into problems, methods and settings.
 *
 * A run has three keys made from its config: of the problem (all fields but the optimizer, its
 * options and the seed), of the method (the optimizer and its options that differ between runs of
 * one optimizer on one problem, except tuned ones) and of the setting.  Runs with equal keys belong
 * together, so sorting finds the groups. */
#define _POSIX_C_SOURCE 200809L /* strdup */
#include "report/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/json_file.h"
#include "core/memory_stream.h"
#include "report/compare_labels.h"

/* Fields that do not affect what is compared. */
static const char *const ignored[] = { "seed",        "checkpoint_every", "checkpoints",
                                       "keep",        "device",           "report_every",
                                       "val_every",   "deterministic",    "workspace",
                                       "data_format", "recompute" };
/* Tuned options: a method's loss is the best over the last two. */
static const char *const tuned[] = { "lr", "threshold", "weight_decay" };

typedef struct counted_run { /* a run while it is sorted */
    const ms_run *run;
    char         *problem_key, *method_key;
    size_t        problem, method;
} counted_run;

static bool is_among(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

static const char *underscored(const char *option, char name[64])
{
    snprintf(name, 64, "%s", option);
    for (char *c = name; *c != '\0'; c++)
        if (*c == '-') *c = '_';
    return name;
}

/* Option `index` of the optimizers, with underscores as in configs; NULL after the last. */
static const char *option_at(size_t index, char name[64])
{
    const char *values, *help, *option = musec_optim_option(index, &values, &help);
    return option != NULL ? underscored(option, name) : NULL;
}

static bool is_option(const char *field)
{
    char name[64];
    for (size_t i = 0; option_at(i, name) != NULL; i++)
        if (strcmp(name, field) == 0) return true;
    return strcmp(field, "optimizer") == 0;
}

bool ms_is_problem_field(const char *field)
{
    return !is_option(field) && !is_among(field, ignored, COUNT(ignored));
}

static size_t registry_index(const char *optimizer)
{
    const ms_optimizer *row;
    size_t              i = 0;
    for (; (row = ms_optimizer_at(i)) != NULL; i++)
        if (strcmp(row->name, optimizer) == 0) break;
    return i;
}

bool ms_clips(const char *optimizer)
{
    const ms_optimizer *row = ms_optimizer_find(optimizer);
    return row != NULL && row->family == MS_FAMILY_CLIPPING;
}

bool ms_same_number(double a, double b)
{
    const double larger = fabs(a) > fabs(b) ? fabs(a) : fabs(b);
    return fabs(a - b) <= 1e-9 * larger;
}

/* ---- keys ------------------------------------------------------------------------------------ */

musec_status ms_compare_no_memory(ms_error *e)
{
    return ms_fail(e, MUSEC_ENOMEM, "not enough memory to compare the runs");
}

/* Hyperball keeps the norm of a weight, zero as well, so what it begins with is a part of it. */
static const char *const of_hyperball[] = { "init_out", "init_down" };

static bool is_hyperball(const ms_run *run)
{
    return strcmp(ms_run_text(run, "decay_form"), "hyperball") == 0;
}

/* All fields of the problem with values, sorted by name, but for those left out.  An empty field
 * counts as missing. */
static char *key_without(const ms_run *run, const char *const *left_out, size_t n)
{
    json_t     *fields = json_object(), *value;
    const char *key;
    char       *text;
    json_object_foreach(run->config, key, value)
    {
        if (ms_is_problem_field(key) && !is_among(key, left_out, n) &&
            ms_run_text(run, key)[0] != '\0')
            ms_json_set(&fields, key, json_incref(value));
    }
    text = ms_json_key(fields);
    json_decref(fields);
    return text;
}

static char *problem_key(const ms_run *run) { return key_without(run, NULL, 0); }

/* Does this option differ between runs of the optimizer on one problem?  They are sorted by
 * problem, and each is compared with the first of its problem. */
static bool varies(const counted_run *entries, size_t n, const char *optimizer, const char *option)
{
    const counted_run *first = NULL;
    for (size_t i = 0; i < n; i++) {
        const counted_run *mine = &entries[i];
        if (strcmp(mine->run->optimizer, optimizer) != 0) continue;
        if (first == NULL || first->problem != mine->problem)
            first = mine;
        else if (strcmp(ms_compare_option_text(first->run, option),
                        ms_compare_option_text(mine->run, option)) != 0)
            return true;
    }
    return false;
}

/* Labels leave out what most runs of an optimizer have: the paper's five iterations in its mode,
 * and parts that it has by default. */
static bool is_usual(const char *optimizer, const char *option, const char *value)
{
    static const struct {
        const char *option, *value;
    } usual[]               = { { "ns_mode", "paper" },
                                { "ns_iters", "5" },
                                { "nesterov", "no" },
                                { "update_scale", "paper" },
                                { "beta", "0.05" } };
    const ms_optimizer *row = ms_optimizer_find(optimizer);
    char                name[64];

    for (size_t i = 0; row != NULL && row->defaults[i].option != NULL; i++)
        if (strcmp(underscored(row->defaults[i].option, name), option) == 0)
            return strcmp(value, row->defaults[i].value) == 0;
    for (size_t i = 0; i < COUNT(usual); i++)
        if (strcmp(option, usual[i].option) == 0 && strcmp(value, usual[i].value) == 0) return true;
    return value[0] == '\0';
}

typedef struct option_names {
    char   at[96][64];
    size_t n;
} option_names;

/* "Soft Musec, exact", "Soft Musec, K=3", "Soft Musec, sharpness 4", "Muon, nesterov yes". */
static char *method_label(const ms_run *run, const option_names *differing)
{
    ms_memory_stream m;
    FILE            *to = ms_memory_open(&m);
    if (to == NULL) return NULL;
    fputs(ms_optimizer_title(run->optimizer), to);
    for (size_t i = 0; i < differing->n; i++) {
        const char *option = differing->at[i], *value = ms_compare_option_text(run, option);
        if (is_usual(run->optimizer, option, value)) continue;
        if (strcmp(option, "ns_mode") == 0)
            fprintf(to, ", %s", value);
        else if (strcmp(option, "ns_iters") == 0)
            fprintf(to, ", K=%s", value);
        else
            fprintf(to, ", %s %s", option, value);
    }
    return ms_memory_close(&m);
}

/* ---- problems -------------------------------------------------------------------------------- */

static int by_problem(const void *a, const void *b)
{
    const counted_run *x = a, *y = b;
    const int preset = strcmp(ms_run_text(x->run, "preset"), ms_run_text(y->run, "preset"));
    const int data   = strcmp(ms_run_text(x->run, "data"), ms_run_text(y->run, "data"));
    const int key    = strcmp(x->problem_key, y->problem_key);
    const int dir    = strcmp(x->run->dir, y->run->dir);
    return preset != 0 ? preset : data != 0 ? data : key != 0 ? key : dir;
}

/* Splits problems whose runs had different data under the same name, by the sums of the data; runs
 * without sums stay together.  The runs are sorted by problem. */
static musec_status split_by_data(ms_error *e, counted_run *entries, size_t n)
{
    for (size_t i = 0, end; i < n; i = end) {
        const char *sums   = NULL;
        bool        differ = false;
        for (end = i; end < n && strcmp(entries[i].problem_key, entries[end].problem_key) == 0;
             end++) {
            const char *mine = entries[end].run->data_sums;
            if (sums == NULL) sums = mine;
            if (mine != NULL && strcmp(mine, sums) != 0) differ = true;
        }
        for (size_t k = i; differ && k < end; k++) {
            const ms_run *run = entries[k].run;
            if (run->data_sums == NULL) continue;
            if (ms_json_put(e, run->config, "data_sums", ms_json_string(run->data_sums)) !=
                MUSEC_OK)
                return ms_compare_no_memory(e);
            free(entries[k].problem_key);
            entries[k].problem_key = problem_key(run);
            if (entries[k].problem_key == NULL) return ms_compare_no_memory(e);
        }
    }
    return MUSEC_OK;
}

/* Gives a run of Hyperball the key of runs that differ from it only in what it begins with. */
static musec_status join_hyperball(ms_error *e, ms_runset *set, counted_run *entries, size_t n)
{
    char       **loose = calloc(n + 1, sizeof *loose);
    bool         any = false, told = false;
    musec_status st = loose != NULL ? MUSEC_OK : ms_compare_no_memory(e);

    for (size_t i = 0; i < n; i++)
        any = any || is_hyperball(entries[i].run);
    for (size_t i = 0; i < n && any && st == MUSEC_OK; i++) {
        loose[i] = key_without(entries[i].run, of_hyperball, COUNT(of_hyperball));
        if (loose[i] == NULL) st = ms_compare_no_memory(e);
    }
    for (size_t i = 0; i < n && any && st == MUSEC_OK; i++) {
        size_t k = 0;
        while (k < n && (is_hyperball(entries[k].run) || strcmp(loose[i], loose[k]) != 0))
            k++;
        if (!is_hyperball(entries[i].run) || k == n ||
            strcmp(entries[i].problem_key, entries[k].problem_key) == 0)
            continue;
        free(entries[i].problem_key);
        entries[i].problem_key = strdup(entries[k].problem_key);
        if (entries[i].problem_key == NULL) TRY(ms_compare_no_memory(e));
        if (!told)
            TRY(ms_runset_note(
                e, set,
                "Hyperball begins with weights that are not zero: init_out %s and "
                "init_down %s, not %s and %s as the others",
                ms_run_text(entries[i].run, "init_out"), ms_run_text(entries[i].run, "init_down"),
                ms_run_text(entries[k].run, "init_out"), ms_run_text(entries[k].run, "init_down")));
        told = true;
    }
done:
    for (size_t i = 0; loose != NULL && i < n; i++)
        free(loose[i]);
    free(loose);
    return st;
}

static musec_status find_problems(ms_error *e, ms_runset *set, counted_run *entries, size_t n,
                                  ms_compare *c)
{
    musec_status st;

    c->problems = calloc(n > 0 ? n : 1, sizeof *c->problems);
    if (c->problems == NULL) return ms_compare_no_memory(e);
    for (size_t i = 0; i < n; i++) {
        entries[i].problem_key = problem_key(entries[i].run);
        if (entries[i].problem_key == NULL) return ms_compare_no_memory(e);
    }
    qsort(entries, n, sizeof *entries, by_problem);
    st = split_by_data(e, entries, n);
    if (st == MUSEC_OK) st = join_hyperball(e, set, entries, n);
    if (st != MUSEC_OK) return st;
    qsort(entries, n, sizeof *entries, by_problem);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || strcmp(entries[i].problem_key, entries[i - 1].problem_key) != 0) {
            ms_problem *p = &c->problems[c->n_problems++];
            p->first      = entries[i].run;
            p->preset     = ms_run_text(p->first, "preset");
            p->set        = ms_set_label(ms_run_text(p->first, "data"));
            if (p->set == NULL) return ms_compare_no_memory(e);
        }
        entries[i].problem = c->n_problems - 1;
    }
    return ms_label_problems(e, set, c);
}

/* ---- methods --------------------------------------------------------------------------------- */

static int by_method(const void *a, const void *b)
{
    const ms_method *x = a, *y = b;
    const size_t     i = registry_index(x->optimizer), k = registry_index(y->optimizer);
    if (i != k) return i < k ? -1 : 1;
    if (x->variant != y->variant) return x->variant ? 1 : -1;
    return strcmp(x->label, y->label);
}

static size_t find_method(const ms_compare *c, const char *label)
{
    size_t i = 0;
    while (i < c->n_methods && strcmp(c->methods[i].label, label) != 0)
        i++;
    return i;
}

/* Variants of one optimizer have its colour and different dashes. */
static void dash_variants(ms_compare *c)
{
    for (size_t i = 1, number = 0; i < c->n_methods; i++) {
        number = strcmp(c->methods[i].optimizer, c->methods[i - 1].optimizer) == 0 ? number + 1 : 0;
        c->methods[i].style = ms_style_variant(c->methods[i].style, number);
    }
}

static void find_differing(const counted_run *entries, size_t n, const char *optimizer,
                           option_names *out)
{
    char name[64];
    out->n = 0;
    for (size_t i = 0; out->n < COUNT(out->at) && option_at(i, name) != NULL; i++)
        if (!is_among(name, tuned, COUNT(tuned)) && !is_among(name, ignored, COUNT(ignored)) &&
            varies(entries, n, optimizer, name))
            memcpy(out->at[out->n++], name, sizeof name);
}

/* Adds a method, which owns the label from then on. */
static void add_method(ms_compare *c, char *label, const char *optimizer)
{
    c->methods[c->n_methods++] =
        (ms_method){ .label     = label,
                     .optimizer = optimizer,
                     .variant   = strcmp(label, ms_optimizer_title(optimizer)) != 0,
                     .clips     = ms_clips(optimizer),
                     .style     = ms_style_of(optimizer) };
}

static musec_status find_methods(ms_error *e, counted_run *entries, size_t n, ms_compare *c)
{
    option_names differing;

    c->n_methods = 0;
    c->methods   = calloc(n > 0 ? n : 1, sizeof *c->methods);
    if (c->methods == NULL) return ms_compare_no_memory(e);
    for (size_t i = 0; i < n; i++) {
        const char *optimizer = entries[i].run->optimizer;
        if (entries[i].method_key != NULL) continue;
        find_differing(entries, n, optimizer, &differing);
        for (size_t k = i; k < n; k++) {
            if (strcmp(entries[k].run->optimizer, optimizer) != 0) continue;
            entries[k].method_key = method_label(entries[k].run, &differing);
            if (entries[k].method_key == NULL) return ms_compare_no_memory(e);
            if (find_method(c, entries[k].method_key) < c->n_methods) continue;
            char *label = strdup(entries[k].method_key);
            if (label == NULL) return ms_compare_no_memory(e);
            add_method(c, label, optimizer);
        }
    }
    qsort(c->methods, c->n_methods, sizeof *c->methods, by_method);
    dash_variants(c);
    for (size_t i = 0; i < n; i++)
        entries[i].method = find_method(c, entries[i].method_key);
    return MUSEC_OK;
}

/* ---- settings -------------------------------------------------------------------------------- */

static int by_number(double a, double b)
{
    if (isnan(a) || isnan(b)) return isnan(a) - isnan(b);
    return (a > b) - (a < b);
}

static const char *threshold_of(const ms_run *run)
{
    return ms_clips(run->optimizer) ? ms_run_text(run, "threshold") : "";
}

static int same_setting(const counted_run *x, const counted_run *y)
{
    const bool clipping = ms_clips(x->run->optimizer) && ms_clips(y->run->optimizer);
    int        order    = (x->problem > y->problem) - (x->problem < y->problem);
    if (order == 0) order = (x->method > y->method) - (x->method < y->method);
    if (order == 0) order = by_number(x->run->lr, y->run->lr);
    if (order == 0 && clipping) order = by_number(x->run->threshold, y->run->threshold);
    if (order == 0) order = strcmp(threshold_of(x->run), threshold_of(y->run));
    if (order == 0)
        order =
            by_number(ms_run_number(x->run, "weight_decay"), ms_run_number(y->run, "weight_decay"));
    if (order == 0)
        order = strcmp(ms_run_text(x->run, "weight_decay"), ms_run_text(y->run, "weight_decay"));
    return order;
}

static int by_setting(const void *a, const void *b)
{
    const counted_run *x = a, *y = b;
    const int          order = same_setting(x, y);
    const int seed = by_number(ms_run_number(x->run, "seed"), ms_run_number(y->run, "seed"));
    return order != 0 ? order : seed != 0 ? seed : strcmp(x->run->dir, y->run->dir);
}

/* Counts the validations and measurements of a run. */
static size_t measured(const ms_run *run)
{
    size_t n = 0;
    for (size_t i = 0; i < run->n; i++)
        n += (size_t)run->lines[i].has_val + (size_t)run->lines[i].has_groups;
    return n;
}

/* A seed counts once: of runs that differ only in ignored fields, the one that measured more. */
static musec_status add_to_setting(ms_error *e, ms_runset *set, ms_setting *s, const ms_run *run)
{
    const ms_run **last = &s->runs[s->n - 1], *out = run;
    if (strcmp(ms_run_text(*last, "seed"), ms_run_text(run, "seed")) != 0) {
        s->runs[s->n++] = run;
        return MUSEC_OK;
    }
    if (measured(run) > measured(*last)) {
        out   = *last;
        *last = run;
    }
    return ms_runset_note(e, set, "%s: the same run as %s: it counts once", out->dir, (*last)->dir);
}

static void finish_setting(ms_setting *s)
{
    double sum = 0.0;
    size_t n   = 0;
    s->loss = s->low = s->high = NAN;
    for (size_t i = 0; i < s->n; i++) {
        const double loss = s->runs[i]->val_loss;
        if (s->runs[i]->status == MS_RUN_DIVERGED || !isfinite(loss)) {
            s->diverged++;
            continue;
        }
        s->stalled += s->runs[i]->status == MS_RUN_STALLED;
        sum += loss;
        n++;
        if (!(s->low <= loss)) s->low = loss;
        if (!(s->high >= loss)) s->high = loss;
    }
    if (n > 0) s->loss = sum / (double)n;
}

static musec_status find_settings(ms_error *e, ms_runset *set, counted_run *entries, size_t n,
                                  ms_compare *c)
{
    musec_status st = MUSEC_OK;

    c->settings = calloc(n > 0 ? n : 1, sizeof *c->settings);
    if (c->settings == NULL) return ms_compare_no_memory(e);
    qsort(entries, n, sizeof *entries, by_setting);
    for (size_t i = 0, last; i < n; i = last) {
        ms_setting   *s   = &c->settings[c->n_settings];
        const ms_run *run = entries[i].run;
        for (last = i + 1; last < n && same_setting(&entries[i], &entries[last]) == 0;)
            last++;
        *s      = (ms_setting){ .problem        = entries[i].problem,
                                .method         = entries[i].method,
                                .lr             = run->lr,
                                .threshold      = ms_clips(run->optimizer) ? run->threshold : NAN,
                                .threshold_text = threshold_of(run),
                                .decay          = ms_run_text(run, "weight_decay") };
        s->runs = calloc(last - i, sizeof(void *));
        if (s->runs == NULL) return ms_compare_no_memory(e);
        c->n_settings++;
        s->runs[0] = run;
        s->n       = 1;
        for (size_t k = i + 1; k < last; k++)
            TRY(add_to_setting(e, set, s, entries[k].run));
        finish_setting(s);
    }
done:
    return st;
}

static musec_status find_rates(ms_error *e, ms_compare *c)
{
    c->rates = calloc(c->n_settings > 0 ? c->n_settings : 1, sizeof *c->rates);
    if (c->rates == NULL) return ms_compare_no_memory(e);
    for (size_t i = 0; i < c->n_settings; i++)
        c->rates[i] = c->settings[i].lr;
    ms_sort_numbers(c->rates, c->n_settings);
    for (size_t i = 0; i < c->n_settings; i++)
        if (c->n_rates == 0 || !ms_same_number(c->rates[i], c->rates[c->n_rates - 1]))
            c->rates[c->n_rates++] = c->rates[i];
    return MUSEC_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

musec_status ms_compare_build(ms_error *e, ms_runset *set, ms_compare *out)
{
    counted_run *entries = calloc(set->n > 0 ? set->n : 1, sizeof *entries);
    size_t       n       = 0;
    musec_status st;

    *out = (ms_compare){ .set = set };
    if (entries == NULL) return ms_compare_no_memory(e);
    for (size_t i = 0; i < set->n; i++)
        if (set->at[i].status != MS_RUN_UNFINISHED) entries[n++].run = &set->at[i];
    TRY(find_problems(e, set, entries, n, out));
    TRY(find_methods(e, entries, n, out));
    TRY(find_settings(e, set, entries, n, out));
    TRY(find_rates(e, out));
    TRY(ms_note_precisions(e, set, out));
    TRY(ms_note_gains(e, set, out));
done:
    for (size_t i = 0; i < n; i++) {
        free(entries[i].problem_key);
        free(entries[i].method_key);
    }
    free(entries);
    if (st != MUSEC_OK) ms_compare_free(out);
    return st;
}

void ms_compare_free(ms_compare *c)
{
    for (size_t i = 0; i < c->n_problems; i++) {
        free(c->problems[i].label);
        free(c->problems[i].set);
    }
    for (size_t i = 0; i < c->n_methods; i++)
        free(c->methods[i].label);
    for (size_t i = 0; i < c->n_settings; i++)
        free(c->settings[i].runs);
    free(c->problems);
    free(c->methods);
    free(c->settings);
    free(c->rates);
    *c = (ms_compare){ 0 };
}
