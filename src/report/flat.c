/* flat.c - all numbers of runs as two flat tables. */
#include "report/flat.h"

#include <math.h>
#include <string.h>

#include "core/file.h"
#include "core/real.h"
#include "core/table.h"
#include "report/section_plots.h"

/* The name of its directory, or the whole path if two runs have that name. */
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

static void put_number(double x, FILE *to) /* an empty field if it is not finite */
{
    char text[MS_REAL_TEXT];
    ms_real_text(x, text);
    fprintf(to, ",%s", isfinite(x) ? text : "");
}

static bool is_shown(const ms_run_field *f, bool times)
{
    return times || strcmp(f->name, "tok_s") != 0;
}

/* Writes a row for each step, or for each group of matrices at each step that was measured. */
static void put_table(const ms_runset *set, bool groups, bool times, FILE *to)
{
    const ms_run_field *fields = groups ? ms_run_group_fields : ms_run_line_fields;

    fputs(groups ? "run,step,group" : "run,step", to);
    for (const ms_run_field *f = fields; f->name != NULL; f++)
        if (is_shown(f, times)) fprintf(to, ",%s", f->name);
    fputs("\r\n", to);
    for (size_t i = 0; i < set->n; i++) {
        const char *name = name_of(set, &set->at[i]);
        for (size_t j = 0; j < set->at[i].n; j++) {
            const ms_run_line *line = &set->at[i].lines[j];
            const int          rows = !groups ? 1 : line->has_groups ? MS_RUN_GROUPS : 0;
            for (int g = 0; g < rows; g++) {
                const void *from = groups ? (const void *)&line->groups[g] : line;
                ms_csv_text(name, to);
                fprintf(to, ",%lld", (long long)line->step);
                if (groups) fprintf(to, ",%s", ms_run_group_names[g]);
                for (const ms_run_field *f = fields; f->name != NULL; f++)
                    if (is_shown(f, times)) put_number(number_at(from, f->offset), to);
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
    put_table(set, groups, times, out.f);
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
