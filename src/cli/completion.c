/* completion.c - what may follow an option or an operand, and the walk over all commands that the
 * script of every shell is made from. */
#include "cli/completion.h"

#include <ctype.h>
#include <stdarg.h>
#include <string.h>

#include "core/text.h"
#include "data/catalog.h"
#include "experiment/experiment.h"
#include "report/sections.h"
#include "theory/objective.h"
#include "train/config.h"

/* ---- words that come from tables ------------------------------------------------------------- */

MS_PRINTF(2, 3) static void add(ms_completion *out, const char *fmt, ...)
{
    const size_t used = strlen(out->words);
    va_list      args;

    out->kind = MS_COMPLETE_WORDS;
    if (used + 1 >= sizeof out->words) return;
    if (used > 0) memcpy(out->words + used, " ", 2);
    va_start(args, fmt);
    vsnprintf(out->words + used + (used > 0), sizeof out->words - used - (used > 0), fmt, args);
    va_end(args);
}

/* The words of "a|b|c d": a, b and c. */
static void add_choices(ms_completion *out, const char *text)
{
    while (*text != '\0' && *text != ' ') {
        const size_t bytes = strcspn(text, "| ");
        add(out, "%.*s", (int)bytes, text);
        text += bytes + (text[bytes] == '|');
    }
}

static void add_names(ms_completion *out, const char *(*name_at)(size_t index, const char **help))
{
    for (size_t i = 0; name_at(i, NULL) != NULL; i++)
        add(out, "%s", name_at(i, NULL));
}

static void add_optimizers(ms_completion *out) { add_names(out, musec_optim_name); }
static void add_presets(ms_completion *out) { add_names(out, ms_preset_name); }

static void add_sections(ms_completion *out)
{
    const char *title, *shows, *id;
    for (size_t i = 0; (id = ms_section_at(i, &title, &shows)) != NULL; i++)
        add(out, "%s", id);
}

/* Names as config.json has them, with underscores. */
static void add_prefix(ms_completion *out, const char *name)
{
    char key[MS_CONFIG_KEY];
    add(out, "%s=", ms_train_field_key(name, key));
    out->kind = MS_COMPLETE_PREFIXES;
}

static void add_fields(ms_completion *out)
{
    ms_train_field f;
    for (size_t i = 0; ms_train_field_at(i, &f); i++)
        add_prefix(out, f.name);
}

static void add_optim_options(ms_completion *out)
{
    for (size_t i = 0; musec_optim_option(i, NULL, NULL) != NULL; i++)
        add_prefix(out, musec_optim_option(i, NULL, NULL));
}

static void add_items(ms_completion *out)
{
    ms_experiments all = { 0 };
    ms_error       ignored;

    add(out, "list");
    out->out_of_memory = ms_experiments_load(&ignored, &all) == MUSEC_ENOMEM;
    if (!out->out_of_memory)
        for (size_t i = 0; i < all.n; i++) {
            const json_t *aliases = json_object_get(all.at[i].file, "aliases");
            add(out, "%s", all.at[i].name);
            for (size_t k = 0; k < json_array_size(aliases); k++)
                add(out, "%s", json_string_value(json_array_get(aliases, k)));
        }
    ms_experiments_free(&all);
}

static void add_data_sets(ms_completion *out)
{
    ms_catalog catalog = { 0 };
    ms_error   ignored;

    out->out_of_memory = ms_catalog_load(&ignored, NULL, &catalog) == MUSEC_ENOMEM;
    if (!out->out_of_memory)
        for (size_t i = 0; i < catalog.n; i++)
            add(out, "%s", catalog.sets[i].name);
    ms_catalog_free(&catalog);
}

static void add_problems(ms_completion *out)
{
    add(out, "list");
    add_names(out, ms_objective_name);
}

static void add_scales(ms_completion *out)
{
    ms_experiments all = { 0 };
    ms_error       ignored;
    const char    *name;

    out->out_of_memory = ms_experiments_load(&ignored, &all) == MUSEC_ENOMEM;
    for (size_t i = 0; (name = ms_experiment_scale_at(&all, i)) != NULL; i++)
        add(out, "%s", name);
    ms_experiments_free(&all);
}

/* ---- options --------------------------------------------------------------------------------- */

/* What a value may be, by its placeholder in --help and, where that is not enough, the option. */
static const struct {
    const char        *meta, *name; /* name NULL: any */
    ms_completion_kind kind;
    void (*words)(ms_completion *out); /* NULL: by kind alone */
} values[] = {
    { "DEVICE", NULL, MS_COMPLETE_DEVICES, NULL },
    { "RUN", NULL, MS_COMPLETE_RUNS, NULL },
    { "DIR", NULL, MS_COMPLETE_DIRECTORIES, NULL },
    { "FILE", NULL, MS_COMPLETE_FILES, NULL },
    { "PATH", NULL, MS_COMPLETE_FILES, NULL },
    { "PATH[=WEIGHT]", NULL, MS_COMPLETE_FILES, NULL },
    { "FIELD=VALUE", NULL, MS_COMPLETE_PREFIXES, add_fields },
    { "FIELD=LIST", NULL, MS_COMPLETE_PREFIXES, add_fields },
    { "OPTION=VALUE", NULL, MS_COMPLETE_PREFIXES, add_optim_options },
    { "SCALE", NULL, MS_COMPLETE_WORDS, add_scales },
    { "A,B", "sections", MS_COMPLETE_WORDS, add_sections },
    { "LIST", "optimizer", MS_COMPLETE_WORDS, add_optimizers },
    { "NAME", "optimizer", MS_COMPLETE_WORDS, add_optimizers },
    { "LIST", "preset", MS_COMPLETE_WORDS, add_presets },
    { "NAME", "preset", MS_COMPLETE_WORDS, add_presets },
    { "LIST", "device", MS_COMPLETE_DEVICES, NULL },
};

static void complete_value(const ms_option *option, ms_completion *out)
{
    *out = (ms_completion){ .kind = MS_COMPLETE_NOTHING };
    if (option->type == MS_OPT_FLAG) return;
    if (option->type == MS_OPT_CHOICE) {
        add_choices(out, option->meta);
        return;
    }
    if (ms_text_ends_with(option->meta, ".npy") || ms_text_ends_with(option->meta, ".safetensors"))
        out->kind = MS_COMPLETE_FILES;
    for (size_t i = 0; i < COUNT(values); i++) {
        if (strcmp(values[i].meta, option->meta) != 0) continue;
        if (values[i].name != NULL && strcmp(values[i].name, option->name) != 0) continue;
        out->kind = values[i].kind;
        if (values[i].words != NULL) values[i].words(out);
    }
}

/* ---- operands -------------------------------------------------------------------------------- */

/* Operands whose name in --help does not say what they may be. */
static const struct {
    const char        *command, *part; /* part NULL: the first operand */
    ms_completion_kind kind;
    void (*words)(ms_completion *out);
} operands[] = {
    { "paper", NULL, MS_COMPLETE_WORDS, add_items },
    { "report", NULL, MS_COMPLETE_RUNS, NULL },
    { "watch", NULL, MS_COMPLETE_RUNS, NULL },
    { "sample", NULL, MS_COMPLETE_RUNS, NULL },
    { "data", "inspect", MS_COMPLETE_FILES, NULL },
    { "data", "get", MS_COMPLETE_WORDS, add_data_sets },
    { "theory", "params", MS_COMPLETE_NOTHING, NULL },
    { "theory", "run", MS_COMPLETE_WORDS, add_problems },
};

static bool look_up(const char *command, const char *part, ms_completion *out)
{
    for (size_t i = 0; i < COUNT(operands); i++) {
        const bool same = part == NULL || operands[i].part == NULL
                              ? part == operands[i].part
                              : strcmp(part, operands[i].part) == 0;
        if (!same || strcmp(operands[i].command, command) != 0) continue;
        out->kind = operands[i].kind;
        if (operands[i].words != NULL) operands[i].words(out);
        return true;
    }
    return false;
}

static void complete_operand(const ms_cli_command *command, ms_completion *out)
{
    const ms_command *cmd = command->describe();

    *out = (ms_completion){ .kind = MS_COMPLETE_NOTHING };
    if (look_up(command->name, NULL, out)) return;
    if (islower((unsigned char)cmd->operands[0]))
        add_choices(out, cmd->operands);
    else if (cmd->max_operands != 0)
        out->kind = MS_COMPLETE_FILES;
}

static bool next_word(const char *words, size_t index, char *word, size_t bytes)
{
    words += strspn(words, " ");
    for (; index > 0 && *words != '\0'; index--) {
        words += strcspn(words, " ");
        words += strspn(words, " ");
    }
    snprintf(word, bytes, "%.*s", (int)strcspn(words, " "), words);
    return *words != '\0';
}

/* ---- the walk -------------------------------------------------------------------------------- */

/* Finds the words of the first operand after which others may follow. */
static size_t find_parts(const ms_cli_command *c, const ms_completion *first,
                         ms_completion_part parts[MS_COMPLETION_PARTS])
{
    char   word[MS_OPTION_NAME];
    size_t n = 0;

    for (size_t i = 0; next_word(first->words, i, word, sizeof word); i++) {
        if (n == MS_COMPLETION_PARTS) break;
        memcpy(parts[n].word, word, sizeof word);
        parts[n].next = (ms_completion){ .kind = MS_COMPLETE_NOTHING };
        (void)look_up(c->name, word, &parts[n].next);
        n += parts[n].next.kind != MS_COMPLETE_NOTHING;
    }
    return n;
}

musec_status ms_completion_write(ms_error *e, const ms_completion_script *script)
{
    static ms_completion_part parts[MS_COMPLETION_PARTS];
    const ms_cli_command     *c;
    ms_completion             next;
    bool                      out_of_memory = false;

    script->begin();
    for (size_t i = 0; (c = ms_cli_command_at(i)) != NULL; i++) {
        const ms_command *cmd = c->describe();
        script->command(c);
        for (size_t k = 0; k < cmd->n_options; k++) {
            complete_value(&cmd->options[k], &next);
            script->option(c, &cmd->options[k], &next);
        }
        complete_operand(c, &next);
        const size_t n = find_parts(c, &next, parts);
        script->operands(c, &next, parts, n);
        out_of_memory = out_of_memory || next.out_of_memory;
        for (size_t k = 0; k < n; k++)
            out_of_memory = out_of_memory || parts[k].next.out_of_memory;
    }
    script->end();
    return out_of_memory ? ms_no_memory(e, "the words of the script") : MUSEC_OK;
}
