/* cmd_report.c - musec report: run directories in, one self-contained page out. */
#define _POSIX_C_SOURCE 200809L /* strdup, strtok_r */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "core/file.h"
#include "core/json_file.h"
#include "core/memory_stream.h"
#include "core/text.h"
#include "experiment/archive.h"
#include "report/flat.h"
#include "report/png.h"
#include "report/sections.h"

struct args {
    const char *out, *png, *csv, *title, *sections, *archive;
    double      within, target;
    int         omit_times, json;
};

static const ms_option options[] = {
    { "out", MS_OPT_STR, AT(out), "FILE", "HTML page to write [report.html]" },
    { "png", MS_OPT_STR, AT(png), "DIR", "also write each figure as a PNG file there [no]" },
    { "csv", MS_OPT_STR, AT(csv), "DIR",
      "also write the numbers of each figure and table, and of every step and group, there [no]" },
    { "archive", MS_OPT_STR, AT(archive), "FILE",
      "also write config, summary and log of all runs there as one small file (.tar.xz) [no]" },
    { "title", MS_OPT_STR, AT(title), "TEXT", "title of the page [Training runs]" },
    { "sections", MS_OPT_STR, AT(sections), "A,B", "show only these sections [all]" },
    { "within", MS_OPT_F64, AT(within), "X",
      "stability: a rate is usable if its loss is at most this share above the best [0.02]" },
    { "target", MS_OPT_F64, AT(target), "L",
      "race: the validation loss to reach; shows that section too [1 % above Muon's best loss]" },
    { "omit-times", MS_OPT_FLAG, AT(omit_times), NULL,
      "leave out times and dates, which differ when the same runs are made again [no]" },
    MS_CLI_JSON(struct args),
};

enum { MAX_SECTIONS = 32 };

/* The list of sections comes from their table, so that it is never out of date. */
static const char *details(void)
{
    static char text[4096];
    const char *id, *title, *shows;
    size_t      used;

    used =
        (size_t)snprintf(text, sizeof text,
                         "RUN is a run directory (musec train --out), a directory that holds "
                         "some, up to four\nlevels below, or an archive of some (--archive).  The "
                         "page needs nothing but itself; its\npath goes to stdout.  Sections, each "
                         "of which appears where the runs allow it:\n\n");
    for (size_t i = 0; (id = ms_section_at(i, &title, &shows)) != NULL; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "  %-17s%s%s%s%s\n", id, title,
                                 shows[0] != '\0' ? " (" : "", shows, shows[0] != '\0' ? ")" : "");
    snprintf(text + used, sizeof text - used,
             "\nPNG files need rsvg-convert, which must be installed.\n\n"
             "Example: musec report runs --out report.html --csv numbers\n");
    return text;
}

const ms_command *report_command(void)
{
    static ms_command command = {
        .name         = "musec report",
        .operands     = "RUN...",
        .summary      = "draw training runs as one HTML page",
        .options      = options,
        .n_options    = COUNT(options),
        .min_operands = 1,
        .max_operands = -1,
    };
    command.details = details();
    return &command;
}

typedef struct names { /* of sections; they point into `text` */
    char       *text;
    const char *at[MAX_SECTIONS];
    size_t      n;
} names;

static musec_status read_names(ms_error *e, const char *list, names *out)
{
    char *rest = NULL;

    out->text = strdup(list);
    if (out->text == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory");
    for (char *at = strtok_r(out->text, ", ", &rest); at != NULL;
         at       = strtok_r(NULL, ", ", &rest)) {
        if (out->n == MAX_SECTIONS)
            return ms_fail(e, MUSEC_EINVAL, "--sections names more than %d", MAX_SECTIONS);
        out->at[out->n++] = at;
    }
    if (out->n == 0)
        return ms_fail(e, MUSEC_EINVAL, "--sections is empty; musec report --help lists them");
    return ms_sections_check(e, out->at, out->n);
}

/* "Muon at lr 0.1, pico, builtin: done, 80 of 80 steps, validation loss 2.7346." */
static void put_one_run(const ms_compare *c, const ms_run *run, FILE *to)
{
    fprintf(to, "%s at lr %g", ms_optimizer_title(run->optimizer), run->lr);
    for (size_t i = 0; i < c->n_problems; i++)
        fprintf(to, ", %s", c->problems[i].label);
    fprintf(to, ": %s, %lld of %lld steps", ms_run_status_word(run->status),
            run->n > 0 ? (long long)run->lines[run->n - 1].step : 0, (long long)run->steps);
    if (isfinite(run->val_loss)) fprintf(to, ", validation loss %.4f", run->val_loss);
    fputc('.', to);
}

/* "12 runs of 2 methods, 1 diverged. Problems: pico, fineweb; pico, c4." */
static char *lead_of(const ms_compare *c)
{
    ms_memory_stream m;
    FILE            *to       = ms_memory_open(&m);
    size_t           diverged = 0, stalled = 0, unfinished = 0;

    if (to == NULL) return NULL;
    for (size_t i = 0; i < c->set->n; i++) {
        diverged += c->set->at[i].status == MS_RUN_DIVERGED;
        stalled += c->set->at[i].status == MS_RUN_STALLED;
        unfinished += c->set->at[i].status == MS_RUN_UNFINISHED;
    }
    if (c->set->n == 1) {
        put_one_run(c, &c->set->at[0], to);
    } else {
        fprintf(to, "%zu runs of %zu method%s", c->set->n, c->n_methods,
                c->n_methods == 1 ? "" : "s");
        if (diverged > 0) fprintf(to, ", %zu diverged", diverged);
        if (stalled > 0) fprintf(to, ", %zu stalled", stalled);
        if (unfinished > 0) fprintf(to, ", %zu unfinished", unfinished);
        for (size_t i = 0; i < c->n_problems; i++)
            fprintf(to, "%s%s", i == 0 ? ". Problems: " : "; ", c->problems[i].label);
        fputc('.', to);
    }
    return ms_memory_close(&m);
}

static musec_status make_page(ms_error *e, const struct args *a, const names *only,
                              const ms_compare *c, ms_page *page)
{
    const ms_report_options o    = { .omit_times = a->omit_times != 0,
                                     .within     = a->within,
                                     .target     = a->target,
                                     .only       = only->n > 0 ? only->at : NULL,
                                     .n_only     = only->n };
    char                   *lead = lead_of(c);

    if (lead == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory for the report");
    ms_page_begin(page, a->title, lead);
    free(lead);
    return ms_sections_build(e, c, &o, page);
}

static musec_status print_json(ms_error *e, const struct args *a, const ms_compare *c,
                               const ms_page *page, FILE *to)
{
    json_t *sections = json_array(), *notes = json_array(), *all = json_object();

    for (size_t i = 0; i < page->n; i++)
        ms_json_append(&sections, ms_json_string(page->sections[i].id));
    for (size_t i = 0; i < c->set->n_notes; i++)
        ms_json_append(&notes, ms_json_string(c->set->notes[i]));
    ms_json_add(&all, "out=%s runs=%lld sections=%p notes=%p", a->out, (long long)c->set->n,
                (void *)sections, (void *)notes);
    return ms_json_finish(e, all, to);
}

/* Rejects a file that would replace one of a run, or an archive that is read. */
static musec_status check_out(ms_error *e, const char *option, const char *out,
                              const ms_runset *set, const ms_archives *archives)
{
    static const char *const files[] = { "config.json", "log.jsonl", "summary.json" };
    char                     path[MS_PATH_MAX];

    for (size_t i = 0; i < set->n; i++)
        for (size_t k = 0; k < COUNT(files); k++)
            if (ms_path_join(NULL, set->at[i].dir, files[k], path) == MUSEC_OK &&
                ms_path_same(path, out))
                return ms_fail(e, MUSEC_EINVAL, "%s %s would replace a file of a run", option, out);
    for (int i = 0; i < archives->n; i++)
        if (ms_path_same(archives->path[i], out))
            return ms_fail(e, MUSEC_EINVAL, "%s %s would replace an archive that is read", option,
                           out);
    return MUSEC_OK;
}

static musec_status add_runs(ms_error *e, ms_archives *archives, const char *path, ms_runset *set)
{
    struct stat info;
    if (stat(path, &info) == 0 && S_ISREG(info.st_mode))
        return ms_archives_add(e, archives, path, set);
    return ms_runset_add(e, set, path);
}

static void close_archives(ms_archives *all)
{
    ms_error left = { "" };
    if (ms_archives_close(&left, all) != MUSEC_OK)
        fprintf(stderr, "musec report: warning: %s\n", ms_text_printable(left.text));
}

static musec_status report(ms_error *e, const struct args *a, const names *only, int n, char **runs,
                           ms_runset *set)
{
    const ms_page_files files    = { .html = a->out, .png_dir = a->png, .csv_dir = a->csv };
    ms_compare          c        = { 0 };
    ms_page             page     = { 0 };
    ms_archives         archives = { 0 };
    FILE               *to       = ms_cli_summary(a->out); /* before a rename makes a new file */
    musec_status        st;

    if (a->png != NULL) TRY(ms_png_ready(e));
    for (int i = 0; i < n; i++)
        TRY(add_runs(e, &archives, runs[i], set));
    TRY(check_out(e, "--out", a->out, set, &archives));
    if (a->archive != NULL) TRY(check_out(e, "--archive", a->archive, set, &archives));
    if (a->archive != NULL && ms_path_same(a->archive, a->out))
        TRY(ms_fail(e, MUSEC_EINVAL, "--archive and --out are one file: %s", a->out));
    if (a->archive != NULL) TRY(ms_archive_write(e, set, a->archive));
    TRY(ms_archives_name(e, &archives, set));
    close_archives(&archives); /* before what takes long: all is in memory */
    TRY(ms_compare_build(e, set, &c));
    TRY(make_page(e, a, only, &c, &page));
    TRY(ms_page_write(e, &page, &files));
    if (a->csv != NULL) TRY(ms_flat_write(e, set, a->csv, a->omit_times == 0));
    for (size_t i = 0; i < set->n_notes; i++)
        fprintf(stderr, "musec report: note: %s\n", ms_text_printable(set->notes[i]));
    if (a->json)
        TRY(print_json(e, a, &c, &page, to));
    else
        ms_text_print("", a->out, "\n", to);
done:
    ms_page_free(&page);
    ms_compare_free(&c);
    close_archives(&archives);
    return st;
}

int cmd_report(int argc, char **argv)
{
    const ms_command *cmd  = report_command();
    struct args       a    = { .out = "report.html", .title = "Training runs", .within = 0.02 };
    const int         n    = ms_options_parse(cmd, &a, argc, argv);
    names             only = { 0 };
    ms_error          e    = { "" };
    ms_runset         set  = { 0 };
    int               code = EXIT_OK;

    if (n < 0) return ms_cli_parsed(n);
    if (!(a.within >= 0.0 && a.within <= 1.0)) {
        ms_error_set(&e, "--within is %g; it must be a share from 0 to 1", a.within);
        return ms_cli_fail(cmd, &e);
    }
    if (!(a.target >= 0.0 && isfinite(a.target))) {
        ms_error_set(&e, "--target is %g; it must be a loss above 0", a.target);
        return ms_cli_fail(cmd, &e);
    }
    if (a.sections != NULL && read_names(&e, a.sections, &only) != MUSEC_OK) {
        ms_cli_fail(cmd, &e);
        code = EXIT_USAGE;
    } else if (report(&e, &a, &only, n, argv + 1, &set) != MUSEC_OK) {
        code = ms_cli_fail(cmd, &e);
    }
    ms_runset_free(&set);
    free(only.text);
    return code;
}
