/* flat.c - all numbers of runs as two flat tables. */
#include "report/flat.h"

#include <math.h>
#include <string.h>

#include "core/file.h"
#include "core/real.h"
#include "core/table.h"
#include "report/section_plots.h"

static const struct {
    const char *name;
    size_t      offset; /* of a double in ms_run_line */
    bool        time;
} columns[] = {
    { "tokens", offsetof(ms_run_line, tokens), false },
    { "loss", offsetof(ms_run_line, loss), false },
    { "val_loss", offsetof(ms_run_line, val_loss), false },
    { "lr", offsetof(ms_run_line, lr), false },
    { "tok_s", offsetof(ms_run_line, tok_s), true },
    { "max_logit", offsetof(ms_run_line, max_logit), false },
};

/* The name of its directory; where two runs have the same, the whole path. */
static const char *name_of(const ms_runset *set, const ms_run *run)
{
    const char *name = ms_plot_run_name(run);
    for (size_t i = 0; i < set->n; i++)
        if (&set->at[i] != run && strcmp(ms_plot_run_name(&set->at[i]), name) == 0) return run->dir;
    return name;
}

static double number_at(const void *base, size_t offset)
{
    double x;
    memcpy(&x, (const char *)base + offset, sizeof x);
    return x;
}

static void put_number(double x, FILE *to) /* nothing for what is not there */
{
    char text[MS_REAL_TEXT];
    ms_real_text(x, text);
    fprintf(to, ",%s", isfinite(x) ? text : "");
}

static void put_begin(const char *run, const ms_run_line *line, FILE *to)
{
    ms_csv_text(run, to);
    fprintf(to, ",%lld", (long long)line->step);
}

static void put_steps(const ms_runset *set, bool times, FILE *to)
{
    fputs("run,step", to);
    for (size_t k = 0; k < COUNT(columns); k++)
        if (times || !columns[k].time) fprintf(to, ",%s", columns[k].name);
    fputs("\r\n", to);
    for (size_t i = 0; i < set->n; i++) {
        const char *name = name_of(set, &set->at[i]);
        for (size_t j = 0; j < set->at[i].n; j++) {
            const ms_run_line *line = &set->at[i].lines[j];
            put_begin(name, line, to);
            for (size_t k = 0; k < COUNT(columns); k++)
                if (times || !columns[k].time) put_number(number_at(line, columns[k].offset), to);
            fputs("\r\n", to);
        }
    }
}

static void put_groups(const ms_runset *set, FILE *to)
{
    fputs("run,step,group", to);
    for (const ms_run_field *f = ms_run_group_fields; f->name != NULL; f++)
        fprintf(to, ",%s", f->name);
    fputs("\r\n", to);
    for (size_t i = 0; i < set->n; i++) {
        const char *name = name_of(set, &set->at[i]);
        for (size_t j = 0; j < set->at[i].n; j++) {
            const ms_run_line *line = &set->at[i].lines[j];
            for (size_t g = 0; line->has_groups && g < MS_RUN_GROUPS; g++) {
                put_begin(name, line, to);
                fprintf(to, ",%s", ms_run_group_names[g]);
                for (const ms_run_field *f = ms_run_group_fields; f->name != NULL; f++)
                    put_number(number_at(&line->groups[g], f->offset), to);
                fputs("\r\n", to);
            }
        }
    }
}

static musec_status write_one(ms_error *e, const ms_runset *set, const char *dir, bool groups,
                              bool times)
{
    char         path[MS_PATH_MAX];
    ms_out_file  out = { 0 };
    musec_status st;

    TRY(ms_path_join(e, dir, groups ? "groups.csv" : "steps.csv", path));
    TRY(ms_out_open(e, path, &out));
    if (groups)
        put_groups(set, out.f);
    else
        put_steps(set, times, out.f);
    TRY(ms_out_commit(e, &out));
done:
    ms_out_abandon(&out);
    return st;
}

musec_status ms_flat_write(ms_error *e, const ms_runset *set, const char *dir, bool times)
{
    musec_status st;

    TRY(ms_directory_make(e, dir));
    TRY(write_one(e, set, dir, false, times));
    TRY(write_one(e, set, dir, true, times));
done:
    return st;
}
