/* footer.c - where and when the runs of a page were made.  It is read from the summaries of the
 * runs, so that the page of the same runs is the same whenever it is drawn. */
#include <string.h>

#include "report/section_plots.h"

enum { MAX_NAMES = 4 };

typedef struct run_origin { /* where and when all runs were made */
    const char *machines[MAX_NAMES], *versions[MAX_NAMES];
    size_t      n_machines, n_versions;
    const char *first, *last; /* dates; NULL: none is known */
    size_t      unknown;      /* runs without this information */
} run_origin;

static const char *origin_text(const ms_run *run, const char *key)
{
    return json_string_value(json_object_get(run->made, key));
}

static void add_name(const char **names, size_t *n, const char *name)
{
    for (size_t i = 0; i < *n; i++)
        if (strcmp(names[i], name) == 0) return;
    if (*n < MAX_NAMES) names[(*n)++] = name;
}

static run_origin find_origin(const ms_runset *set)
{
    run_origin o = { 0 };

    for (size_t i = 0; i < set->n; i++) {
        const char *machine = origin_text(&set->at[i], "machine"),
                   *date    = origin_text(&set->at[i], "date");
        const char *version = origin_text(&set->at[i], "version");
        if (machine == NULL || date == NULL || version == NULL) {
            o.unknown++;
            continue;
        }
        add_name(o.machines, &o.n_machines, machine);
        add_name(o.versions, &o.n_versions, version);
        if (o.first == NULL || strcmp(date, o.first) < 0) o.first = date; /* 2026-11-18: by text */
        if (o.last == NULL || strcmp(date, o.last) > 0) o.last = date;
    }
    return o;
}

static void list_names(const char *const *names, size_t n, char out[MS_PLOT_TEXT])
{
    size_t used = 0;
    out[0]      = '\0';
    for (size_t i = 0; i < n; i++)
        used += (size_t)snprintf(out + used, MS_PLOT_TEXT - used, "%s%.200s", i == 0 ? "" : " and ",
                                 names[i]);
}

void ms_build_footer(const ms_compare *c, const ms_report_options *options, ms_page *page)
{
    const run_origin o = find_origin(c->set);
    const size_t     n = c->set->n;
    char             machines[MS_PLOT_TEXT], versions[MS_PLOT_TEXT], date[96] = "";

    if (options->omit_times || n == 0) return; /* they differ if the runs are made again */
    list_names(o.machines, o.n_machines, machines);
    list_names(o.versions, o.n_versions, versions);
    if (o.first != NULL && strcmp(o.first, o.last) == 0)
        snprintf(date, sizeof date, "on %.40s", o.first);
    else if (o.first != NULL)
        snprintf(date, sizeof date, "from %.40s to %.40s", o.first, o.last);
    if (o.unknown < n)
        ms_page_footer(page, "%zu run%s made %s by musec %s: %s.", n - o.unknown,
                       n - o.unknown == 1 ? "" : "s", date, versions, machines);
    if (o.unknown > 0)
        ms_page_footer(page, "Of %zu run%s it is not known where and when they were made.",
                       o.unknown, o.unknown == 1 ? "" : "s");
}
