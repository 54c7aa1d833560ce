/* compare_labels.c - labels of data sets and problems, and notes on what is compared. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json_file.h"
#include "core/memory_stream.h"
#include "core/outcome.h"
#include "core/real.h"
#include "report/compare_labels.h"

/* Options that runs of older versions do not have, and what these runs did. */
static const struct {
    const char *option, *text;
} since[] = {
    { "function", "auto" },
    { "second_moment", "none" },
    { "second_beta", "0" },
    { "second_eps", "0" },
    { "ns_eps", "0" },
    { "ns_eps_form", "added" },
    { "threshold_warmup", "0" },
    { "precondition_every", "10" },
    { "precondition_beta", "0" },
    { "max_precond_dim", "10000" },
    { "precondition_eps", "1e-12" },
    { "graft", "adam" },
    { "fraction", "0.25" },
};

/* A clip that is as sharp as its optimizer's own has "", whether the run
 * says so, leaves it to the program, or is of a version without this option; and so has every
 * option that says what runs did that do not have it. */
const char *ms_compare_option_text(const ms_run *run, const char *option)
{
    const char         *text = ms_run_text(run, option);
    const ms_optimizer *row  = ms_optimizer_find(run->optimizer);
    const bool          hard = (row != NULL && row->spectral_fn == MS_SPECTRAL_HARD_CLIP) ||
                      strcmp(ms_run_text(run, "clip"), "hard") == 0 ||
                      strcmp(ms_run_text(run, "function"), "hard") == 0;
    for (size_t i = 0; i < COUNT(since); i++)
        if (strcmp(option, since[i].option) == 0 && strcmp(text, since[i].text) == 0) return "";
    if (strcmp(option, "shape_rule") == 0 && strcmp(text, "normuon") == 0) return "fixed-rms";
    if (strcmp(option, "sharpness") == 0 && strcmp(text, hard ? "hard" : "2") == 0) return "";
    return text;
}

/* Counts the bytes of a set's path without "=WEIGHT"; other '=' are a part of the path. */
static size_t path_bytes(const char *set, size_t n)
{
    for (size_t i = n; i > 0; i--) {
        char *end;
        if (set[i - 1] != '=') continue;
        (void)ms_real_read(set + i, &end);
        return i < n && end == set + n ? i - 1 : n;
    }
    return n;
}

/* "builtin", "fineweb", "fineweb + c4": last parts of the paths, without weights. */
char *ms_set_label(const char *data)
{
    ms_memory_stream m;
    FILE            *to = ms_memory_open(&m);
    if (to == NULL) return NULL;
    for (const char *at = data; *at != '\0';) {
        const size_t n   = strcspn(at, ";");
        size_t       end = path_bytes(at, n), start;
        while (end > 1 && at[end - 1] == '/')
            end--;
        for (start = end; start > 0 && at[start - 1] != '/';)
            start--;
        fprintf(to, "%s%.*s", at == data ? "" : " + ", (int)(end - start), at + start);
        at += n + (at[n] == ';');
    }
    return ms_memory_close(&m);
}

/* ---- problems -------------------------------------------------------------------------------- */

/* Do the problems have the same preset and set? */
static bool same_name(const ms_problem *a, const ms_problem *b)
{
    return strcmp(a->preset, b->preset) == 0 && strcmp(a->set, b->set) == 0;
}

/* Do these two differ in the field, and is it one that distinguishes problems? */
static bool differ_in(const ms_problem *a, const ms_problem *b, const char *field)
{
    return ms_is_problem_field(field) &&
           strcmp(ms_run_text(a->first, field), ms_run_text(b->first, field)) != 0;
}

/* Collects all fields of the problems with the name of this one. */
static json_t *fields_of_same_name(const ms_compare *c, const ms_problem *p)
{
    json_t     *fields = json_object(), *value;
    const char *key;
    for (size_t k = 0; k < c->n_problems; k++) {
        if (!same_name(p, &c->problems[k])) continue;
        json_object_foreach(c->problems[k].first->config, key, value)
        {
            if (json_object_get(fields, key) == NULL) ms_json_set(&fields, key, json_incref(value));
        }
    }
    return fields;
}

static const char *or_none(const char *text) { return text[0] != '\0' ? text : "none"; }

/* "pico, fineweb, steps 200": the name, with the fields that distinguish it from all problems of
 * that name.  told: a flag for each problem, false. */
static void write_label(const ms_compare *c, const ms_problem *p, const json_t *fields, bool *told,
                        FILE *to)
{
    const char *key;
    json_t     *value;
    fprintf(to, "%s, %s", p->preset, p->set);
    json_object_foreach((json_t *)fields, key, value)
    {
        bool tells = false;
        for (size_t k = 0; k < c->n_problems; k++) {
            const ms_problem *other = &c->problems[k];
            if (told[k] || !same_name(p, other) || !differ_in(p, other, key)) continue;
            told[k] = tells = true;
        }
        if (tells) fprintf(to, ", %s %s", key, or_none(ms_run_text(p->first, key)));
    }
}

/* Adds a note on the first difference from the next problem of the same name. */
static musec_status note_difference(ms_error *e, ms_runset *set, const ms_compare *c, size_t i,
                                    const json_t *fields)
{
    const ms_problem *p = &c->problems[i], *next = NULL;
    const char       *key;
    json_t           *value;
    for (size_t k = i + 1; k < c->n_problems && next == NULL; k++)
        if (same_name(p, &c->problems[k])) next = &c->problems[k];
    json_object_foreach((json_t *)fields, key, value)
    {
        if (next != NULL && differ_in(p, next, key))
            return ms_runset_note(
                e, set,
                "runs on %s, %s differ in %s (%s and %s): they are no comparison, and are drawn "
                "apart",
                p->preset, p->set, key, or_none(ms_run_text(p->first, key)),
                or_none(ms_run_text(next->first, key)));
    }
    return MUSEC_OK;
}

musec_status ms_label_problems(ms_error *e, ms_runset *set, ms_compare *c)
{
    musec_status st = MUSEC_OK;
    for (size_t i = 0; i < c->n_problems && st == MUSEC_OK; i++) {
        ms_memory_stream m;
        json_t          *fields = fields_of_same_name(c, &c->problems[i]);
        bool            *told   = calloc(c->n_problems, sizeof *told);
        FILE            *to     = ms_memory_open(&m);

        if (fields != NULL && told != NULL && to != NULL)
            write_label(c, &c->problems[i], fields, told, to);
        else
            st = ms_compare_no_memory(e);
        c->problems[i].label = ms_memory_close(&m);
        if (c->problems[i].label == NULL) st = ms_compare_no_memory(e);
        if (st == MUSEC_OK) st = note_difference(e, set, c, i, fields);
        free(told);
        json_decref(fields);
    }
    return st;
}

/* A run without a known precision is taken to have that of the others. */
musec_status ms_note_precisions(ms_error *e, ms_runset *set, const ms_compare *c)
{
    for (size_t p = 0; p < c->n_problems; p++) {
        const char *first = "", *other = "";
        for (size_t i = 0; i < c->n_settings; i++)
            for (size_t k = 0; c->settings[i].problem == p && k < c->settings[i].n; k++) {
                const char *mine = ms_run_precision(c->settings[i].runs[k]);
                if (first[0] == '\0')
                    first = mine;
                else if (mine[0] != '\0' && strcmp(mine, first) != 0)
                    other = mine;
            }
        if (other[0] == '\0') continue;
        const musec_status st = ms_runset_note(
            e, set,
            "runs on %s differ in their precision (%s and %s), and are compared all the same",
            c->problems[p].label, first, other);
        if (st != MUSEC_OK) return st;
    }
    return MUSEC_OK;
}

/* The lowest gain that the run measured; NaN: none. */
static double lowest_gain(const ms_run *run)
{
    double lowest = NAN;
    for (size_t i = 0; i < run->n; i++)
        for (int g = 0; run->lines[i].has_groups && g < MS_RUN_GROUPS; g++)
            lowest = fmin(lowest, run->lines[i].groups[g].u_gain); /* ignores NaN */
    return lowest;
}

musec_status ms_note_gains(ms_error *e, ms_runset *set, const ms_compare *c)
{
    musec_status st = MUSEC_OK;
    for (size_t m = 0; m < c->n_methods && st == MUSEC_OK; m++) {
        double lowest = NAN;
        size_t low = 0, n = 0;
        char   note[MS_GAIN_NOTE];
        for (size_t i = 0; i < c->n_settings; i++)
            for (size_t k = 0; c->settings[i].method == m && k < c->settings[i].n; k++) {
                const double gain = lowest_gain(c->settings[i].runs[k]);
                lowest            = fmin(lowest, gain);
                low += gain < MS_GAIN_CONVERGED;
                n += !isnan(gain);
            }
        if (low == 0 || !c->methods[m].clips) continue;
        ms_gain_note(lowest, note);
        st = ms_runset_note(e, set, "%s: in %zu of %zu runs %s", c->methods[m].label, low, n, note);
    }
    return st;
}
