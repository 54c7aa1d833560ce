/* paper_page.c - the page of an item: its notes, how it was made, its sections. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json_file.h"
#include "core/memory_stream.h"
#include "core/text.h"
#include "experiment/paper.h"
#include "report/sections.h"
#include "report/verdict.h"

enum { SECTIONS = 32, FILE_NAME = 256 };

/* ---- words ----------------------------------------------------------------------------------- */

static void put_notes(const json_t *object, FILE *to)
{
    const json_t *notes = json_object_get(object, "notes");
    for (size_t i = 0; i < json_array_size(notes); i++)
        fprintf(to, "%s ", json_string_value(json_array_get(notes, i)));
}

/* Writes an argument as a shell reads it, in quotes if it needs them. */
static void put_argument(const char *text, FILE *to)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_./,:=+%@";
    if (text[0] != '\0' && text[strspn(text, plain)] == '\0') {
        fputs(text, to);
        return;
    }
    fputc('\'', to);
    for (const char *c = text; *c != '\0'; c++)
        if (*c == '\'')
            fputs("'\\''", to);
        else
            fputc(*c, to);
    fputc('\'', to);
}

static void put_option(const char *name, const char *value, FILE *to)
{
    fprintf(to, " --%s ", name);
    put_argument(value, to);
}

/* Writes the command that makes the same runs, with only the options that decide about them. */
static void put_command(const ms_paper *p, const ms_experiment *item, FILE *to)
{
    const ms_paper_args *a = p->args;
    fprintf(to, "musec paper %s --scale %s", item->name, p->ask.scale);
    for (size_t i = 0; i < a->data.n; i++)
        put_option("data", a->data.item[i], to);
    if (a->seeds != NULL) put_option("seeds", a->seeds, to);
    if (a->target > 0.0) fprintf(to, " --target %g", a->target);
    if (a->full) fputs(" --full", to);
    if (a->quick) fputs(" --quick", to);
    for (size_t i = 0; i < a->only.n; i++)
        put_option("only", a->only.item[i], to);
    for (size_t i = 0; i < a->list.n; i++)
        put_option("list", a->list.item[i], to);
    for (size_t i = 0; i < a->set.n; i++)
        put_option("set", a->set.item[i], to);
}

static musec_status begin(ms_error *e, const ms_paper *p, const ms_paper_item *item, ms_page *page)
{
    ms_memory_stream m;
    FILE            *to = ms_memory_open(&m);
    char            *lead, title[FILE_NAME];

    if (to == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory for the page");
    put_notes(item->item->file, to);
    if (item->grid.n > 0) {
        put_notes(json_object_get(p->all.files, "scales"), to);
        put_notes(p->scale, to);
    }
    if (item->grid.n > 0 && p->ask.n_set > 0)
        fputs("What --set says stands in place of what is said here. ", to);
    fputs("Made by: ", to);
    put_command(p, item->item, to);
    lead = ms_memory_close(&m);
    if (lead == NULL) return ms_no_memory(e, "the page");
    if (item->grid.n > 0)
        snprintf(title, sizeof title, "%s, %s", item->item->title, p->ask.scale);
    else
        snprintf(title, sizeof title, "%s", item->item->title);
    ms_page_begin(page, title, lead);
    free(lead);
    return MUSEC_OK;
}

/* ---- sections -------------------------------------------------------------------------------- */

/* Chooses the sections of the item, and those that every page has. */
static size_t choose_sections(const ms_experiment *item, const char *ids[SECTIONS])
{
    static const char *const always[] = { "architecture", "training", "runs" };
    const json_t            *named    = json_object_get(item->file, "sections");
    size_t                   n        = 0;
    for (size_t i = 0; i < json_array_size(named) && n < SECTIONS; i++)
        ids[n++] = json_string_value(json_array_get(named, i));
    for (size_t i = 0; i < COUNT(always) && n < SECTIONS; i++)
        ids[n++] = always[i];
    return n;
}

static musec_status read_runs(ms_error *e, const ms_paper *p, const ms_paper_item *item,
                              ms_runset *set)
{
    char         path[MS_PATH_MAX];
    size_t       missing = 0;
    ms_error     why     = { "" };
    musec_status st      = MUSEC_OK;

    for (size_t i = 0; i < item->grid.n; i++) {
        if (!ms_sweep_is_finished(&item->runs[i])) {
            missing++;
            continue;
        }
        TRY(ms_path_join(e, p->store, item->grid.at[i].name, path));
        st = ms_runset_add(&why, set, path);
        if (st != MUSEC_OK)
            return ms_fail(e, st, "%s; remove %s, and the run is made anew", why.text, path);
    }
    if (missing == item->grid.n)
        return ms_fail(e, MUSEC_EINVAL,
                       "none of the %zu runs of %s is in %s; make them without "
                       "--no-run",
                       item->grid.n, item->item->name, p->store);
    if (missing > 0)
        TRY(ms_runset_note(e, set, "%zu of %zu runs are not made yet", missing, item->grid.n));
done:
    return st;
}

static bool is_item(const ms_paper_item *item, const char *name)
{
    return strcmp(item->item->name, name) == 0;
}

static json_t *claims_json(const ms_finding *findings, size_t n)
{
    json_t *out = json_array();
    for (size_t i = 0; i < n; i++)
        ms_json_append(&out,
                       json_pack("{s:s, s:s, s:s, s:s, s:o, s:s}", "id", findings[i].id, "where",
                                 findings[i].where, "claim", findings[i].claim, "measure",
                                 findings[i].measure, "result", ms_json_string(findings[i].result),
                                 "verdict", ms_verdict_word(findings[i].verdict)));
    return out;
}

static void print_claims(FILE *to, const ms_finding *findings, size_t n, const ms_table *counts)
{
    for (size_t i = 0; i < n; i++) {
        const ms_finding *f = &findings[i];
        fprintf(to, "%-15s  %s (%s)\n%17s%s\n", ms_verdict_word(f->verdict), f->claim, f->where, "",
                f->result);
    }
    fprintf(to, "\n%zu claims", n);
    for (size_t i = 1; i < counts->n_cells; i += 2)
        fprintf(to, "%s %s", i == 1 ? ":" : ",", counts->cells[i]);
    fputc('\n', to);
}

/* Adds the claims and their verdicts to the page, a markdown file, and stdout or `result`. */
static musec_status add_verdict(ms_error *e, const ms_paper *p, const ms_compare *c,
                                const char *markdown, ms_page *page, json_t **result)
{
    const size_t n        = ms_verdict_count();
    ms_finding  *findings = calloc(n > 0 ? n : 1, sizeof *findings);
    ms_section  *section;
    ms_table     table = { 0 }, counts = { 0 };
    ms_out_file  file = { 0 };
    musec_status st   = MUSEC_OK;

    if (findings == NULL) return ms_no_memory(e, "the claims");
    TRY(ms_verdict_find(e, c, p->args->omit_times != 0, findings));
    ms_verdict_table(findings, n, &table);
    ms_verdict_counts(findings, n, &counts);
    ms_json_add(result, "claims=%p markdown=%s", (void *)claims_json(findings, n), markdown);
    if (!p->args->json) print_claims(p->to, findings, n, &counts);
    TRY(ms_out_open(e, markdown, &file));
    TRY(ms_table_markdown(e, &table, file.f));
    TRY(ms_out_commit(e, &file));
    section = ms_page_section(page, "verdict", "The claims and what these runs say", "");
    ms_page_counts(page, &counts);
    ms_section_table(page, section, "verdict",
                     "Each claim in our words, the measurement, and what it gave at this scale.",
                     &table);
done:
    ms_out_abandon(&file);
    ms_table_free(&table);
    ms_table_free(&counts);
    ms_verdict_free(findings, n);
    free(findings);
    return st;
}

/* Notes the runs that have learned nothing: a claim that rests on them alone is not tested. */
static musec_status note_unlearned(ms_error *e, ms_runset *set)
{
    musec_status st = MUSEC_OK;
    for (size_t i = 0; i < set->n; i++) {
        const ms_run *run = &set->at[i];
        if (run->learned || run->status == MS_RUN_UNFINISHED || run->status == MS_RUN_DIVERGED)
            continue;
        TRY(ms_runset_note(e, set,
                           "%s: it has learned nothing (loss %.3f, unigram loss %.3f): no claim is "
                           "judged by such runs alone",
                           run->dir, run->val_loss, run->unigram_loss));
    }
done:
    return st;
}

static musec_status add_runs(ms_error *e, ms_paper *p, const ms_paper_item *item,
                             const char *markdown, ms_page *page, json_t **result)
{
    const char       *ids[SECTIONS];
    ms_report_options options = { .omit_times = p->args->omit_times != 0,
                                  .within     = p->args->within,
                                  .target     = p->args->target,
                                  .only       = ids,
                                  .n_only     = choose_sections(item->item, ids) };
    ms_runset         set     = { 0 };
    ms_compare        compare = { 0 };
    musec_status      st;

    TRY(read_runs(e, p, item, &set));
    TRY(ms_compare_build(e, &set, &compare));
    if (markdown != NULL) TRY(note_unlearned(e, &set));
    if (markdown != NULL) TRY(add_verdict(e, p, &compare, markdown, page, result));
    TRY(ms_sections_build(e, &compare, &options, page));
    for (size_t i = 0; i < set.n_notes; i++)
        ms_log_say(&p->log, MS_LOG_NORMAL, "note: %s", set.notes[i]);
done:
    ms_compare_free(&compare);
    ms_runset_free(&set);
    return st;
}

/* OUT/ITEM-SCALE.ENDING */
static musec_status file_of(ms_error *e, const ms_paper *p, const ms_paper_item *item,
                            const char *ending, char path[MS_PATH_MAX])
{
    char name[FILE_NAME];
    snprintf(name, sizeof name, "%s-%s.%s", item->item->name, p->ask.scale, ending);
    return ms_path_join(e, p->args->out, name, path);
}

musec_status ms_paper_page(ms_error *e, ms_paper *p, const ms_paper_item *item, json_t **result)
{
    char                path[MS_PATH_MAX], markdown[MS_PATH_MAX];
    const ms_page_files files = { .html = path, .png_dir = p->args->png, .csv_dir = p->args->csv };
    ms_page             page  = { 0 };
    musec_status        st;

    TRY(file_of(e, p, item, "html", path));
    TRY(file_of(e, p, item, "md", markdown));
    TRY(ms_directory_make(e, p->args->out));
    TRY(begin(e, p, item, &page));
    if (is_item(item, "architecture")) ms_paper_architecture(p, item->item, &page);
    if (is_item(item, "training")) ms_paper_training(p, item->item, &page);
    if (is_item(item, "hyperparameters")) ms_paper_selected(p, item->item, &page);
    if (is_item(item, "theory")) TRY(ms_paper_theory(e, p, item->item, &page, result));
    if (item->grid.n > 0)
        TRY(add_runs(e, p, item, is_item(item, "verdict") ? markdown : NULL, &page, result));
    TRY(ms_page_write(e, &page, &files));
    ms_json_set(result, "page", ms_json_string(path));
    if (!p->args->json) ms_text_print("", path, "\n", p->to);
done:
    ms_page_free(&page);
    return st;
}
