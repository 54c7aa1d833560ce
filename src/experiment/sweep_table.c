/* sweep_table.c - the runs of a sweep as a table and as JSON.
 *
 * A field has a column if it varies among the runs of one preset and optimizer; a field that only
 * follows from the optimizer has none. */
#include <stdlib.h>
#include <string.h>

#include "core/json_file.h"
#include "core/table.h"
#include "core/text.h"
#include "experiment/sweep.h"

enum { MAX_FIELDS = 7, VALUE_BYTES = 64 };

typedef struct columns {
    bool        preset;
    const char *field[MAX_FIELDS];
    size_t      n;
} columns;

void ms_sweep_count(const ms_sweep *s, const ms_sweep_run *runs, size_t n[MS_SWEEP_STATES])
{
    memset(n, 0, MS_SWEEP_STATES * sizeof *n);
    for (size_t i = 0; i < s->grid->n; i++)
        n[runs[i].state]++;
}

/* ---- what varies ----------------------------------------------------------------------------- */

static bool has_column(const char *field)
{
    return strcmp(field, "lr") == 0 || strcmp(field, "seed") == 0;
}

static bool same_group(const ms_train_config *a, const ms_train_config *b)
{
    return a->preset == b->preset && strcmp(a->optim.name, b->optim.name) == 0;
}

/* Each run is compared with the first one of its group, which is enough. */
static bool varies(const ms_grid *grid, const size_t *group, const char *field)
{
    char a[MS_PATH_MAX], b[MS_PATH_MAX];
    for (size_t i = 0; i < grid->n; i++) {
        if (group[i] == i) continue;
        (void)ms_train_config_get(&grid->at[group[i]].config, field, a, sizeof a);
        (void)ms_train_config_get(&grid->at[i].config, field, b, sizeof b);
        if (strcmp(a, b) != 0) return true;
    }
    return false;
}

static musec_status find_columns(ms_error *e, const ms_grid *grid, columns *c)
{
    /* index of the first run with the same preset and optimizer */
    size_t        *group = calloc(grid->n + 1, sizeof *group);
    ms_train_field f;

    *c = (columns){ 0 };
    if (group == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory for the table");
    for (size_t i = 0; i < grid->n; i++) {
        if (i > 0 && same_group(&grid->at[group[i - 1]].config, &grid->at[i].config))
            group[i] = group[i - 1];
        while (!same_group(&grid->at[group[i]].config, &grid->at[i].config))
            group[i]++;
        if (grid->at[i].config.preset != grid->at[0].config.preset) c->preset = true;
    }
    for (size_t i = 0; ms_train_field_at(i, &f) && c->n < MAX_FIELDS; i++)
        if (!has_column(f.name) && varies(grid, group, f.name)) c->field[c->n++] = f.name;
    free(group);
    return MUSEC_OK;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* "matrix=0.1,qk=0.1,vo=0.1,mlp=0.1" is 0.1: a list whose values are all the same becomes it. */
static void shorten(char *text)
{
    const char  *first = strchr(text, '=');
    const size_t n     = first == NULL ? 0 : strcspn(first, ",");

    if (first == NULL) return;
    for (const char *at = text; *at != '\0';) {
        const char *equal = strchr(at, '=');
        if (equal == NULL || strcspn(at, ",") < (size_t)(equal - at)) return;
        if (strcspn(equal, ",") != n || strncmp(equal, first, n) != 0) return;
        at = equal + n + (equal[n] == ',');
    }
    memmove(text, first + 1, n - 1);
    text[n - 1] = '\0';
}

static void add_value(ms_table *t, const ms_train_config *cfg, const char *field)
{
    char text[MS_PATH_MAX];
    if (ms_train_config_get(cfg, field, text, sizeof text) != MUSEC_OK) text[0] = '\0';
    if (strcmp(field, "weight-decay") == 0) shorten(text);
    if (strlen(text) > VALUE_BYTES) /* the end of a path */
        ms_table_add(t, "...%s", text + strlen(text) - VALUE_BYTES);
    else
        ms_table_add(t, "%s", text);
}

static void add_row(ms_table *t, const columns *c, const ms_grid_run *run, const ms_sweep_run *r)
{
    const ms_train_config *cfg = &run->config;

    if (c->preset) ms_table_add(t, "%s", ms_preset_name((size_t)cfg->preset, NULL));
    ms_table_add(t, "%s", cfg->optim.name);
    add_value(t, cfg, "lr");
    for (size_t i = 0; i < c->n; i++)
        add_value(t, cfg, c->field[i]);
    add_value(t, cfg, "seed");
    ms_table_add(t, "%s", ms_sweep_state_name(r->state));
    ms_table_add(t, "%lld", (long long)r->steps);
    ms_table_number(t, "%.4f", r->val_loss);
    ms_table_number(t, "%.1f s", r->time_s);
    ms_table_add(t, "%s", run->name);
}

static void add_head(ms_table *t, const columns *c)
{
    if (c->preset) ms_table_add(t, "preset");
    ms_table_add(t, "optimizer");
    ms_table_add(t, "lr");
    for (size_t i = 0; i < c->n; i++)
        ms_table_add(t, "%s", c->field[i]);
    ms_table_row(t, "seed\tstatus\tsteps\tval loss\ttime\tdirectory");
}

static musec_status print_table(ms_error *e, const ms_sweep *s, const ms_sweep_run *runs, FILE *to)
{
    char         align[32] = "";
    ms_table     t         = { .align = align };
    columns      c;
    size_t       n[MS_SWEEP_STATES];
    musec_status st;

    TRY(find_columns(e, s->grid, &c));
    snprintf(align, sizeof align, "%sl%.*sr%s", c.preset ? "l" : "", (int)c.n + 1, "rrrrrrrrrrrr",
             "lrrrl");
    add_head(&t, &c);
    for (size_t i = 0; i < s->grid->n; i++)
        add_row(&t, &c, &s->grid->at[i], &runs[i]);
    TRY(ms_table_print(e, &t, to));
    ms_sweep_count(s, runs, n);
    fprintf(to, "\n%zu run%s in ", s->grid->n, s->grid->n == 1 ? "" : "s");
    ms_text_print("", s->out, ":", to);
    for (int i = 0, printed = 0; i < MS_SWEEP_STATES; i++)
        if (n[i] > 0)
            fprintf(to, "%s %zu %s", printed++ > 0 ? "," : "", n[i],
                    ms_sweep_state_name((ms_sweep_state)i));
    fputc('\n', to);
done:
    ms_table_free(&t);
    return st;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

json_t *ms_sweep_json(const ms_sweep *s, const ms_sweep_run *runs)
{
    json_t *all = json_array();
    for (size_t i = 0; i < s->grid->n; i++) {
        const ms_grid_run *run = &s->grid->at[i];
        json_t            *one = json_object();
        char               dir[MS_PATH_MAX];
        if (ms_path_join(NULL, s->out, run->name, dir) != MUSEC_OK) dir[0] = '\0';
        ms_json_add(&one,
                    "dir=%s key=%s optimizer=%s lr=%g status=%s was_there?=%d steps=%lld loss=%g "
                    "val_loss=%g time_s=%g config=%p",
                    dir, run->key, run->config.optim.name, run->config.optim.lr,
                    ms_sweep_state_name(runs[i].state), runs[i].was_there, (long long)runs[i].steps,
                    runs[i].loss, runs[i].val_loss, runs[i].time_s,
                    (void *)ms_train_config_json(&run->config));
        ms_json_append(&all, one);
    }
    return all;
}

musec_status ms_sweep_print(ms_error *e, const ms_sweep *s, const ms_sweep_run *runs, bool json,
                            FILE *to)
{
    return json ? ms_json_finish(e, ms_sweep_json(s, runs), to) : print_table(e, s, runs, to);
}
