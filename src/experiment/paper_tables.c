/* paper_tables.c - the tables that come from the presets, beside what the paper prints. */
#include <stdio.h>
#include <string.h>

#include "core/text.h"
#include "experiment/paper.h"
#include "train/schedule.h"

enum { CELL = 1024, SCALES = 16 };

/* ---- cells ----------------------------------------------------------------------------------- */

typedef struct column {
    const char     *scale;
    const json_t   *paper; /* the figures that the paper prints, or NULL */
    bool            known;
    ms_train_config cfg;
    ms_schedule     schedule;
    ms_gpt_sizes    sizes;
} column;

typedef struct line {
    const char *title;
    void (*cell)(const column *c, char *text); /* NULL: the field of the config */
    const char *field; /* name in the config and among the paper's figures */
} line;

static void count_text(double n, char *text)
{
    if (n >= 1e9)
        snprintf(text, CELL, "%.2fB", n / 1e9);
    else
        snprintf(text, CELL, "%.*fM", n >= 1e8 ? 0 : n >= 1e7 ? 1 : 2, n / 1e6);
}

static void parameters_cell(const column *c, char *text)
{
    const ms_gpt_sizes *n = &c->sizes;
    count_text((double)(n->n_matrix + n->n_embed + n->n_head + n->n_vector), text);
}

static void matrices_cell(const column *c, char *text)
{
    count_text((double)c->sizes.n_matrix, text);
}

static void batch_cell(const column *c, char *text)
{
    const ms_schedule *s = &c->schedule;
    snprintf(text, CELL, "%lld to %lld", (long long)s->stage[0].batch,
             (long long)s->stage[s->n_stages - 1].batch);
}

static void stages_cell(const column *c, char *text)
{
    const ms_schedule *s = &c->schedule;
    text[0]              = '\0';
    for (int i = 0; i < s->n_stages; i++)
        ms_text_append(text, CELL, "%s%lld: %g", i == 0 ? "" : ", ", (long long)s->stage[i].first,
                       s->stage[i].lr);
}

static void windows_cell(const column *c, char *text)
{
    const ms_train_stage *a = &c->schedule.stage[0], *b = a + c->schedule.n_stages - 1;
    snprintf(text, CELL, "%lld/%lld to %lld/%lld", (long long)a->window_short,
             (long long)a->window_long, (long long)b->window_short, (long long)b->window_long);
}

static void precision_cell(const column *c, char *text)
{
    (void)c;
    snprintf(text, CELL, "float32 on a CPU");
}

static void data_cell(const column *c, char *text)
{
    snprintf(text, CELL,
             c->cfg.tokenizer == MS_TOKENIZER_BYTE ? "built in, or any text"
                                                   : "any of GPT-2 tokens");
}

static void hardware_cell(const column *c, char *text)
{
    (void)c;
    snprintf(text, CELL, "-");
}

/* ---- a table over the scales ----------------------------------------------------------------- */

/* A scale as the items run it: the first run of an item that every scale has.  The page is told
 * where there is no memory for it. */
static void read_column(const ms_paper *p, const ms_experiment *item, size_t index, ms_page *page,
                        column *out)
{
    ms_experiment_ask    ask  = { .scale = ms_experiment_scale_at(&p->all, index) };
    ms_grid              grid = { 0 };
    ms_error             ignored;
    const ms_experiment *sweep;
    musec_status         st;

    *out       = (column){ .scale = ask.scale };
    out->paper = json_object_get(json_object_get(item->file, "paper"), ask.scale);
    TRY(ms_experiment_find(&ignored, &p->all, "threshold", &sweep));
    TRY(ms_experiment_runs(&ignored, &p->all, sweep, &ask, &grid));
    if (grid.n == 0) goto done;
    out->cfg = grid.at[0].config;
    TRY(ms_schedule_make(&ignored, &out->cfg, &out->schedule));
    TRY(ms_gpt_measure(&ignored, &out->cfg.model, MUSEC_F32, 1, 1, &out->sizes));
    out->known = true;
done:
    if (st == MUSEC_ENOMEM) page->out_of_memory = true;
    ms_grid_free(&grid);
}

static void add_scales(const ms_paper *p, const ms_experiment *item, const char *caption,
                       const line *lines, size_t n, ms_page *page)
{
    static column columns[SCALES];
    ms_section   *section = ms_page_section(page, item->name, item->title, item->shows);
    ms_table      table   = { .align = "lrrrrrrrrrrrrrrrrr" };
    char          text[CELL];
    size_t        n_scales = 0;

    ms_table_add(&table, "%s", "");
    while (n_scales < SCALES && ms_experiment_scale_at(&p->all, n_scales) != NULL)
        n_scales++;
    for (size_t i = 0; i < n_scales; i++) {
        read_column(p, item, i, page, &columns[i]);
        ms_table_add(&table, "%s", columns[i].scale);
        if (columns[i].paper != NULL) ms_table_add(&table, "%s, paper", columns[i].scale);
    }
    for (size_t k = 0; k < n; k++) {
        ms_table_add(&table, "%s", lines[k].title);
        for (size_t i = 0; i < n_scales; i++) {
            const column *c      = &columns[i];
            const char   *theirs = json_string_value(json_object_get(c->paper, lines[k].field));
            snprintf(text, sizeof text, "-");
            if (c->known && lines[k].cell != NULL)
                lines[k].cell(c, text);
            else if (c->known)
                (void)ms_train_config_get(&c->cfg, lines[k].field, text, sizeof text);
            ms_table_add(&table, "%s", text);
            if (c->paper != NULL) ms_table_add(&table, "%s", theirs != NULL ? theirs : "-");
        }
    }
    ms_section_table(page, section, item->name, caption, &table);
    ms_table_free(&table);
}

void ms_paper_architecture(const ms_paper *p, const ms_experiment *item, ms_page *page)
{
    static const line lines[] = {
        { "layers", NULL, "layers" },
        { "attention heads", NULL, "heads" },
        { "width of a head", NULL, "head" },
        { "model width", NULL, "width" },
        { "MLP width", NULL, "mlp" },
        { "longest document", NULL, "max_doc" },
        { "ids", NULL, "vocab" },
        { "parameters in matrices", matrices_cell, "matrices" },
        { "parameters", parameters_cell, "parameters" },
    };
    add_scales(p, item, "The models of the scales as they are built, beside the paper's figures.",
               lines, COUNT(lines), page);
}

void ms_paper_training(const ms_paper *p, const ms_experiment *item, ms_page *page)
{
    static const line lines[] = {
        { "steps", NULL, "steps" },
        { "tokens of a step", batch_cell, "batch" },
        { "windows, short/long", windows_cell, "windows" },
        { "first step of a stage: factor on lr", stages_cell, "stages" },
        { "last share of the steps, in which lr falls", NULL, "cooldown" },
        { "to a factor of", NULL, "cooldown_to" },
        { "gradient", NULL, "grad_reduction" },
        { "weight decay", NULL, "decay_form" },
        { "tokenizer", NULL, "tokenizer" },
        { "precision", precision_cell, "precision" },
        { "data", data_cell, "data" },
        { "hardware", hardware_cell, "hardware" },
    };
    add_scales(p, item, "The runs of the items as they are configured, beside the paper's figures.",
               lines, COUNT(lines), page);
}

/* ---- the paper's selections ------------------------------------------------------------------ */

static const json_t *row_at(const json_t *rows, double lr)
{
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (json_number_value(json_object_get(json_array_get(rows, i), "lr")) == lr)
            return json_array_get(rows, i);
    return NULL;
}

static void add_selected(const ms_paper *p, const char *scale, ms_page *page, ms_section *section)
{
    static const struct {
        const char *optimizer, *title;
    } methods[]         = { { "muon", "Muon" },
                            { "muonclip", "MuonClip" },
                            { "soft-musec", "Soft Musec, SPECTRA" } };
    const json_t *rows  = ms_experiment_selected(&p->all, scale, "soft-musec");
    ms_table      table = { .align = "rllll" };
    char          id[64], caption[128];

    ms_table_add(&table, "learning rate");
    for (size_t i = 0; i < COUNT(methods); i++)
        ms_table_add(&table, "%s", methods[i].title);
    ms_table_add(&table, "threshold");
    for (size_t k = 0; k < json_array_size(rows); k++) {
        const json_t *row = json_array_get(rows, k);
        const double  lr  = json_number_value(json_object_get(row, "lr"));
        ms_table_add(&table, "%g", lr);
        for (size_t i = 0; i < COUNT(methods); i++) {
            const char *decay = json_string_value(json_object_get(
                row_at(ms_experiment_selected(&p->all, scale, methods[i].optimizer), lr),
                "weight_decay"));
            ms_table_add(&table, "%s", decay != NULL ? decay : "-");
        }
        ms_table_add(&table, "%g", json_number_value(json_object_get(row, "threshold")));
    }
    snprintf(id, sizeof id, "selected-%s", scale);
    snprintf(caption, sizeof caption, "Selected by the paper at %s: weight decays and threshold.",
             scale);
    ms_section_table(page, section, id, caption, &table);
    ms_table_free(&table);
}

/* Shows the selections of the scale, or those of all scales if the paper has none for it. */
void ms_paper_selected(const ms_paper *p, const ms_experiment *item, ms_page *page)
{
    ms_section *section = ms_page_section(page, "selected", "What the paper selected", item->shows);
    const bool  has     = ms_experiment_selected(&p->all, p->ask.scale, "muon") != NULL;
    const char *scale;
    for (size_t i = 0; (scale = ms_experiment_scale_at(&p->all, i)) != NULL; i++)
        if (ms_experiment_selected(&p->all, scale, "muon") != NULL &&
            (!has || strcmp(scale, p->ask.scale) == 0))
            add_selected(p, scale, page, section);
}
