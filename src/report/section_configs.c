/* section_configs.c - tables of models and training options, from the configs of the runs.
 * Problems that differ only in their data share a column. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/section_plots.h"

enum { MAX_COLUMNS = 6 }; /* more columns go to the next table */

typedef void cell_text(const ms_compare *c, size_t problem, char out[MS_PLOT_TEXT]);

typedef struct config_row {
    const char *name;
    const char *field;                        /* of the config, */
    cell_text  *describe;                     /* or a function of the problem, */
    const char *(*of_run)(const ms_run *run); /* or of its runs: every value once */
} config_row;

/* ---- computed cells -------------------------------------------------------------------------- */

static void count_text(double n, char out[MS_PLOT_TEXT])
{
    if (isfinite(n))
        snprintf(out, MS_PLOT_TEXT, "%.0f", n);
    else
        snprintf(out, MS_PLOT_TEXT, "-");
}

static void matrix_parameters(const ms_compare *c, size_t problem, char out[MS_PLOT_TEXT])
{
    count_text(ms_run_parameters(c->problems[problem].first), out);
}

/* Finds the batch in the text of a stage, or takes that of the config. */
static void stage_batch(const ms_run *run, const char *stage, size_t bytes, char out[MS_PLOT_TEXT])
{
    static const char key[] = "batch=";
    for (size_t i = 0; i + sizeof key - 1 < bytes; i++)
        if ((i == 0 || stage[i - 1] == ' ') && strncmp(stage + i, key, sizeof key - 1) == 0) {
            const char *from = stage + i + sizeof key - 1;
            snprintf(out, MS_PLOT_TEXT, "%.*s", (int)strspn(from, "0123456789"), from);
            return;
        }
    snprintf(out, MS_PLOT_TEXT, "%s", ms_run_text(run, "batch"));
}

static void first_batch(const ms_compare *c, size_t problem, char out[MS_PLOT_TEXT])
{
    const ms_run *run    = c->problems[problem].first;
    const char   *stages = ms_run_text(run, "stages");
    stage_batch(run, stages, strcspn(stages, ";"), out);
}

static void last_batch(const ms_compare *c, size_t problem, char out[MS_PLOT_TEXT])
{
    const ms_run *run    = c->problems[problem].first;
    const char   *stages = ms_run_text(run, "stages"), *last = stages;
    for (const char *at = stages; *at != '\0'; at++)
        if (*at == ';' && at[1 + strspn(at + 1, " \t\n")] != '\0') last = at + 1;
    stage_batch(run, last, strcspn(last, ";"), out);
}

/* The tokens of the run of the problem that got furthest. */
static void tokens(const ms_compare *c, size_t problem, char out[MS_PLOT_TEXT])
{
    double most = NAN;
    for (size_t i = 0; i < c->n_settings; i++)
        for (size_t k = 0; c->settings[i].problem == problem && k < c->settings[i].n; k++) {
            const ms_run *run = c->settings[i].runs[k];
            if (run->n > 0) most = fmax(most, run->lines[run->n - 1].tokens);
        }
    count_text(most, out);
}

static const char *device_text(const ms_run *run)
{
    const char *name = json_string_value(json_object_get(run->computed, "device"));
    if (ms_run_text(run, "device")[0] != '\0') return ms_run_text(run, "device");
    return name != NULL ? name : "the default one";
}

/* A config without precision and device leaves it open. */
static const char *precision_text(const ms_run *run)
{
    const char *name = ms_run_precision(run);
    return strcmp(name, "bf16") == 0  ? "bfloat16, float32 masters"
           : strcmp(name, "f16") == 0 ? "float16, float32 masters"
           : name[0] == '\0'          ? "float32; on a GPU bfloat16, float32 masters"
                                      : "float32";
}

/* Lists the values of all runs of the problem, each once: "cuda:0 and cpu". */
static void list_text(const ms_compare *c, size_t problem, const char *(*describe)(const ms_run *),
                      char out[MS_PLOT_TEXT])
{
    const char *said[16];
    size_t      n = 0, used = 0;

    for (size_t i = 0; i < c->n_settings; i++)
        for (size_t k = 0; c->settings[i].problem == problem && k < c->settings[i].n; k++) {
            const char *mine  = describe(c->settings[i].runs[k]);
            bool        known = n == COUNT(said);
            for (size_t j = 0; j < n && !known; j++)
                known = strcmp(said[j], mine) == 0;
            if (known) continue;
            said[n++] = mine;
            used += (size_t)snprintf(out + used, MS_PLOT_TEXT / COUNT(said), "%s%.58s",
                                     used > 0 ? " and " : "", mine);
        }
    if (n == 0) snprintf(out, MS_PLOT_TEXT, "-");
}

/* "cautious-lr2; AdamW: decoupled": that of the first method, then of optimizers that differ. */
static void decay_forms(const ms_compare *c, size_t problem, char out[MS_PLOT_TEXT])
{
    const char *usual = NULL, *last = "";
    size_t      used = 0;

    for (size_t m = 0; m < c->n_methods && used + 96 < MS_PLOT_TEXT; m++) {
        const ms_run *run = ms_plot_run(c, problem, m);
        if (run == NULL || strcmp(run->optimizer, last) == 0) continue;
        last             = run->optimizer;
        const char *form = ms_run_text(run, "decay_form");
        if (usual != NULL && strcmp(form, usual) == 0) continue;
        used += (size_t)snprintf(out + used, 96, "%s%.30s%s%.30s", usual != NULL ? "; " : "",
                                 usual != NULL ? ms_optimizer_title(last) : "",
                                 usual != NULL ? ": " : "", form[0] != '\0' ? form : "-");
        if (usual == NULL) usual = form;
    }
}

static void tau(const ms_compare *c, size_t problem, char out[MS_PLOT_TEXT])
{
    const size_t  m   = ms_compare_plain(c, "muonclip");
    const ms_run *run = m < c->n_methods ? ms_plot_run(c, problem, m) : NULL;
    snprintf(out, MS_PLOT_TEXT, "%s", run != NULL ? ms_run_text(run, "qk_tau") : "-");
}

static void stages(const ms_compare *c, size_t problem, char out[MS_PLOT_TEXT])
{
    const char *text = ms_run_text(c->problems[problem].first, "stages");
    snprintf(out, MS_PLOT_TEXT, "%s", text[0] != '\0' ? text : "one");
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void cell(const ms_compare *c, size_t problem, const config_row *r, char out[MS_PLOT_TEXT])
{
    if (r->describe != NULL) {
        r->describe(c, problem, out);
    } else if (r->of_run != NULL) {
        list_text(c, problem, r->of_run, out);
    } else {
        const char *text = ms_run_text(c->problems[problem].first, r->field);
        snprintf(out, MS_PLOT_TEXT, "%s", text[0] != '\0' ? text : "-");
    }
}

static const config_row architecture[] = {
    { "layers", .field = "layers" },
    { "attention heads", .field = "heads" },
    { "head dimension", .field = "head" },
    { "width", .field = "width" },
    { "MLP width", .field = "mlp" },
    { "longest document", .field = "max_doc" },
    { "vocabulary", .field = "vocab" },
    { "tied embedding and head", .field = "tied" },
    { "matrix parameters", .describe = matrix_parameters },
};

static const config_row training[] = {
    { "steps", .field = "steps" },
    { "batch of the first stage, tokens", .describe = first_batch },
    { "batch of the last stage, tokens", .describe = last_batch },
    { "tokens seen", .describe = tokens },
    { "reduction of the gradients", .field = "grad_reduction" },
    { "precision", .of_run = precision_text },
    { "device", .of_run = device_text },
    { "QK-norm", .field = "qk_norm" },
    { "tau of MuonClip", .describe = tau },
    { "form of the weight decay", .describe = decay_forms },
    { "cooldown, share of the steps", .field = "cooldown" },
    { "stages", .describe = stages },
    { "tokenizer", .field = "tokenizer" },
    { "validation tokens", .field = "val_tokens" },
};

/* The first problem with the same column; itself if there is none before it. */
static size_t first_like(const ms_compare *c, size_t problem, const config_row *rows, size_t n)
{
    char mine[MS_PLOT_TEXT], other[MS_PLOT_TEXT];
    for (size_t p = 0; p < problem; p++) {
        bool same = strcmp(c->problems[p].preset, c->problems[problem].preset) == 0;
        for (size_t i = 0; same && i < n; i++) {
            cell(c, problem, &rows[i], mine);
            cell(c, p, &rows[i], other);
            same = strcmp(mine, other) == 0;
        }
        if (same) return p;
    }
    return problem;
}

/* The preset if it has one column, otherwise the problem's label. */
static const char *heading(const ms_compare *c, size_t problem, const config_row *rows, size_t n)
{
    for (size_t p = 0; p < c->n_problems; p++)
        if (strcmp(c->problems[p].preset, c->problems[problem].preset) == 0 &&
            first_like(c, p, rows, n) != problem)
            return c->problems[problem].label;
    return c->problems[problem].preset;
}

/* Lists the data sets of all problems of a column. */
static void data_row(ms_table *t, const ms_compare *c, const size_t *columns, size_t n_columns,
                     const config_row *rows, size_t n)
{
    ms_table_add(t, "data");
    for (size_t i = 0; i < n_columns; i++) {
        char   text[MS_PLOT_TEXT] = "";
        size_t used               = 0;
        for (size_t p = columns[i]; p < c->n_problems && used + 96 < sizeof text; p++)
            if (first_like(c, p, rows, n) == columns[i])
                used += (size_t)snprintf(text + used, 80, "%s%.64s", used > 0 ? ", " : "",
                                         c->problems[p].set);
        ms_table_add(t, "%s", text);
    }
}

static void add_table(ms_section_builder *b, const size_t *columns, size_t n_columns,
                      const config_row *rows, size_t n, const char *id, const char *caption)
{
    static const char *const aligns[MAX_COLUMNS + 1] = { "l",     "lr",     "lrr",    "lrrr",
                                                         "lrrrr", "lrrrrr", "lrrrrrr" };
    ms_table                 t                       = { .align = aligns[n_columns] };
    char                     text[MS_PLOT_TEXT];

    ms_table_add(&t, "%s", "");
    for (size_t i = 0; i < n_columns; i++)
        ms_table_add(&t, "%s", heading(b->c, columns[i], rows, n));
    for (size_t k = 0; k < n; k++) {
        ms_table_add(&t, "%s", rows[k].name);
        for (size_t i = 0; i < n_columns; i++) {
            cell(b->c, columns[i], &rows[k], text);
            ms_table_add(&t, "%s", text);
        }
    }
    data_row(&t, b->c, columns, n_columns, rows, n);
    ms_build_table(b, id, caption, &t);
}

static void build(ms_section_builder *b, const config_row *rows, size_t n, const char *base,
                  const char *notes)
{
    size_t columns[MAX_COLUMNS], n_columns = 0, n_tables = 0;
    char   id[MS_PLOT_ID];

    for (size_t p = 0; p < b->c->n_problems; p++) {
        if (first_like(b->c, p, rows, n) == p) columns[n_columns++] = p;
        if (n_columns == 0 || (n_columns < MAX_COLUMNS && p + 1 < b->c->n_problems)) continue;
        n_tables++;
        snprintf(id, sizeof id, "%s", base);
        if (n_tables > 1) snprintf(id, sizeof id, "%s-%zu", base, n_tables);
        add_table(b, columns, n_columns, rows, n, id, "From the configs of the runs.");
        ms_build_notes(b, "%s", notes);
        n_columns = 0;
    }
}

void ms_build_architecture(ms_section_builder *b)
{
    build(b, architecture, COUNT(architecture), "architecture",
          "Matrix parameters are those of the attention and MLP "
          "projections, which the methods update: layers x (4 x heads x head x width + 2 x width x "
          "MLP).");
}

void ms_build_training(ms_section_builder *b)
{
    build(
        b, training, COUNT(training), "training",
        "The reduction decides what a threshold means: sum8 is the "
        "sum over the tokens of the batch divided by 8, mean their mean, and the gradients differ "
        "by tokens / 8. Thresholds of one are of no use with the other.");
}
