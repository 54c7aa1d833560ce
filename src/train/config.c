/* config.c - the fields of a config: parses, prints and checks them by their table (fields.h). */
#include "train/config.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/names.h"
#include "core/real.h"
#include "core/text.h"
#include "core/whole.h"
#include "data/bpe.h"
#include "data/bytes.h"
#include "optim/optim.h"
#include "train/fields.h"

/* ---- names ----------------------------------------------------------------------------------- */

bool ms_train_field_same(const char *a, const char *b)
{
    for (; *a != '\0' && *b != '\0'; a++, b++)
        if ((*a == '_' ? '-' : *a) != (*b == '_' ? '-' : *b)) return false;
    return *a == *b;
}

static const ms_field *find_field(const char *key)
{
    for (size_t i = 0; i < ms_n_fields; i++)
        if (ms_train_field_same(ms_fields[i].name, key)) return &ms_fields[i];
    return NULL;
}

/* Option `index` of the optimizer, without the seed, which follows from the run's. */
static const char *optim_option(size_t index, const char **values, const char **help)
{
    const char *name;
    for (size_t i = 0; (name = musec_optim_option(i, values, help)) != NULL; i++)
        if (strcmp(name, "seed") != 0 && index-- == 0) return name;
    return NULL;
}

bool ms_train_field_at(size_t index, ms_train_field *out)
{
    if (index < ms_n_fields) {
        const ms_field *f = &ms_fields[index];
        *out = (ms_train_field){ f->name, f->values, f->help, f->group, f->initial, f->flags };
        return true;
    }
    out->name                = optim_option(index - ms_n_fields, &out->values, &out->help);
    const ms_optim_field *of = ms_optim_field_find(out->name);
    out->group               = of->group;
    out->initial             = of->initial;
    out->flags               = of->flags;
    return out->name != NULL;
}

enum { MAX_NAMES = 256 };

static const char *field_name(size_t index, const char **unused)
{
    ms_train_field f;
    (void)unused;
    return ms_train_field_at(index, &f) ? f.name : NULL;
}

static musec_status unknown(ms_error *e, const char *kind, const char *name,
                            const char *(*name_at)(size_t index, const char **help))
{
    const char  *names[MAX_NAMES];
    size_t       n = 0;
    ms_name_hint hint;

    while (n < MAX_NAMES && (names[n] = name_at(n, NULL)) != NULL)
        n++;
    hint = ms_name_hint_of(name, names, n);
    return ms_fail(e, MUSEC_EINVAL, "there is no %s \"%s\"%s", kind, name,
                   hint.text[0] != '\0' ? hint.text : "; musec train --help lists them");
}

/* ---- text to value --------------------------------------------------------------------------- */

static musec_status bad_value(ms_error *e, const ms_field *f, const char *value)
{
    if (f->type == MS_FIELD_CHOICE)
        return ms_fail(e, MUSEC_EINVAL, "%s is \"%s\"; it must be one of %s%s", f->name, value,
                       f->values, ms_name_hint_choices(value, f->values).text);
    if (f->type == MS_FIELD_TEXT && strlen(value) >= f->bytes)
        return ms_fail(e, MUSEC_EINVAL, "%s is longer than %zu bytes", f->name, f->bytes - 1);
    if (f->type == MS_FIELD_TEXT)
        return ms_fail(e, MUSEC_EINVAL, "%s is \"%s\"; it must be UTF-8, to go into config.json",
                       f->name, value);
    if (f->type == MS_FIELD_UINT)
        return ms_fail(e, MUSEC_EINVAL,
                       "%s is \"%s\"; it must be a whole number from 0 to 18446744073709551615",
                       f->name, value);
    return ms_fail(e, MUSEC_EINVAL,
                   f->type == MS_FIELD_INT
                       ? "%s is \"%s\"; it must be a whole number from %.0f to %.0f"
                       : "%s is \"%s\"; it must be a number from %g to %g",
                   f->name, value, f->min, f->max);
}

static bool set_int(const ms_field *f, const char *value, int64_t *out)
{
    int64_t x;
    if (ms_whole_i64(value, &x) != MS_WHOLE_READ) return false;
    if ((double)x < f->min || (double)x > f->max) return false;
    *out = x;
    return true;
}

static bool set_real(const ms_field *f, const char *value, double *out)
{
    char        *end = NULL;
    const double x   = ms_real_read(value, &end);
    if (end == value || *end != '\0' || !(x >= f->min && x <= f->max)) return false;
    *out = x;
    return true;
}

static bool set_text(const ms_field *f, const char *value, char *out)
{
    if (!ms_text_is_utf8(value) || strlen(value) >= f->bytes) return false; /* JSON would lose it */
    snprintf(out, f->bytes, "%s", value);
    return true;
}

static musec_status set_field(ms_error *e, const ms_field *f, ms_train_config *cfg,
                              const char *value)
{
    void   *at = (char *)cfg + f->offset;
    bool    ok = false;
    int64_t index;
    switch (f->type) {
    case MS_FIELD_INT: ok = set_int(f, value, at); break;
    case MS_FIELD_UINT: ok = ms_whole_u64(value, at) == MS_WHOLE_READ; break;
    case MS_FIELD_REAL: ok = set_real(f, value, at); break;
    case MS_FIELD_TEXT: ok = set_text(f, value, at); break;
    case MS_FIELD_CHOICE:
        index = ms_choice_index(f->values, value);
        ok    = index >= 0;
        if (ok) *(int64_t *)at = index;
        break;
    }
    return ok ? MUSEC_OK : bad_value(e, f, value);
}

musec_status ms_train_config_set(ms_error *e, ms_train_config *cfg, const char *key,
                                 const char *value)
{
    const ms_field *f = find_field(key);
    const char     *name;
    if (f != NULL) return set_field(e, f, cfg, value);
    for (size_t i = 0; (name = optim_option(i, NULL, NULL)) != NULL; i++)
        if (ms_train_field_same(name, key)) return ms_optim_config_set(e, &cfg->optim, name, value);
    return unknown(e, "field", key, field_name);
}

musec_status ms_train_config_get(const ms_train_config *cfg, const char *key, char *text,
                                 size_t bytes)
{
    const ms_field *f  = find_field(key);
    const char     *at = f == NULL ? NULL : (const char *)cfg + f->offset;
    char            number[MS_REAL_TEXT];
    if (f == NULL) return ms_optim_config_get(&cfg->optim, key, text, bytes);
    switch (f->type) {
    case MS_FIELD_INT:
        snprintf(text, bytes, "%lld", (long long)*(const int64_t *)(const void *)at);
        break;
    case MS_FIELD_UINT:
        snprintf(text, bytes, "%llu", (unsigned long long)*(const uint64_t *)(const void *)at);
        break;
    case MS_FIELD_REAL:
        ms_real_text(*(const double *)(const void *)at, number);
        snprintf(text, bytes, "%s", number);
        break;
    case MS_FIELD_TEXT: snprintf(text, bytes, "%s", at); break;
    case MS_FIELD_CHOICE:
        ms_choice_text(f->values, *(const int64_t *)(const void *)at, text, bytes);
        break;
    }
    return MUSEC_OK;
}

ms_value_kind ms_train_config_kind(const ms_train_config *cfg, const char *key)
{
    const ms_field *f = find_field(key);
    if (f == NULL) return ms_optim_config_kind(&cfg->optim, key);
    if (f->type == MS_FIELD_REAL) return MS_VALUE_REAL;
    return f->type == MS_FIELD_INT || f->type == MS_FIELD_UINT ? MS_VALUE_WHOLE : MS_VALUE_TEXT;
}

/* ---- presets --------------------------------------------------------------------------------- */

const char *ms_preset_name(size_t index, const char **help)
{
    for (size_t i = 0; i <= index; i++)
        if (ms_presets[i].name == NULL) return NULL;
    if (help != NULL) *help = ms_presets[index].help;
    return ms_presets[index].name;
}

/* Applies the settings "optimizer:key=value" of one optimizer, or those without an optimizer
 * (""). */
static musec_status apply(ms_error *e, ms_train_config *cfg, const char *const *settings,
                          const char *optimizer)
{
    char         key[MS_CONFIG_KEY];
    musec_status st = MUSEC_OK;
    for (; *settings != NULL; settings++) {
        const char  *begin = *settings, *equal = strchr(begin, '=');
        const char  *colon = memchr(begin, ':', (size_t)(equal - begin));
        const size_t n     = colon == NULL ? 0 : (size_t)(colon - begin);
        if (strlen(optimizer) != n || strncmp(begin, optimizer, n) != 0) continue;
        if (colon != NULL) begin = colon + 1;
        snprintf(key, sizeof key, "%.*s", (int)(equal - begin), begin);
        TRY(ms_train_config_set(e, cfg, key, equal + 1));
    }
done:
    return st;
}

musec_status ms_train_config_apply(ms_error *e, ms_train_config *cfg, const char *const *settings)
{
    return apply(e, cfg, settings, "");
}

musec_status ms_train_config_init(ms_error *e, ms_train_config *cfg, const char *preset,
                                  const char *optimizer)
{
    musec_status   st    = MUSEC_OK;
    const int64_t  index = ms_choice_index(MS_PRESETS, preset);
    ms_train_field f;
    double         lr;

    *cfg = (ms_train_config){ .preset = index };
    if (index < 0)
        return ms_fail(e, MUSEC_EINVAL, "there is no preset \"%s\"; there are %s%s", preset,
                       MS_PRESETS, ms_name_hint_choices(preset, MS_PRESETS).text);
    if (musec_optim_config_init(&cfg->optim, sizeof cfg->optim, optimizer) != MUSEC_OK)
        return unknown(e, "optimizer", optimizer, musec_optim_name);
    for (size_t i = 0; ms_train_field_at(i, &f); i++)
        if (f.initial != NULL) TRY(ms_train_config_set(e, cfg, f.name, f.initial));
    TRY(ms_train_config_apply(e, cfg, ms_presets[index].settings));
    lr = ms_optimizer_find(cfg->optim.name)->train_lr;
    if (lr > 0.0) cfg->optim.lr = lr;
    /* last, so that the lr of a preset does not replace that of an optimizer */
    TRY(apply(e, cfg, ms_presets[index].settings, cfg->optim.name));
done:
    return st;
}

static void add_note(char notes[MS_CONFIG_NOTES], const char *fmt, ...) MS_PRINTF(2, 3);
static void add_note(char notes[MS_CONFIG_NOTES], const char *fmt, ...)
{
    const size_t n = strlen(notes);
    va_list      args;
    va_start(args, fmt);
    vsnprintf(notes + n, MS_CONFIG_NOTES - n, fmt, args);
    va_end(args);
}

/* A weight that keeps its norm would stay zero. */
static void begin_on_ball(ms_train_config *cfg, bool (*is_given)(const void *arg, const char *key),
                          const void *arg, char notes[MS_CONFIG_NOTES])
{
    const struct {
        const char *key;
        double     *init;
    } zeros[] = { { "init-out", &cfg->model.init_out }, { "init-down", &cfg->model.init_down } };
    const double some = 0.5;
    for (size_t i = 0; i < COUNT(zeros); i++) {
        if (*zeros[i].init != 0.0 || is_given(arg, zeros[i].key)) continue;
        *zeros[i].init = some;
        add_note(notes,
                 "%s is %g: decay-form hyperball keeps the norms of weights, and 0 would stay\n",
                 zeros[i].key, some);
    }
}

void ms_train_config_resolve(ms_train_config *cfg,
                             bool (*is_given)(const void *arg, const char *key), const void *arg,
                             char notes[MS_CONFIG_NOTES])
{
    static const char *const staged[] = { "batch",        "micro-batches", "max-doc",
                                          "window-short", "window-long",   "mtp" };

    notes[0] = '\0';
    if (cfg->data_bare && cfg->tokenizer == MS_TOKENIZER_BYTE && !is_given(arg, "tokenizer")) {
        cfg->tokenizer = MS_TOKENIZER_GPT2;
        add_note(notes, "data-format nanogpt: the tokens are GPT-2's\n");
    }
    if (cfg->optim.ns_mode == MUSEC_NS_ACCURATE && !is_given(arg, "ns-mode") &&
        (is_given(arg, "ns-iters") || is_given(arg, "literal"))) {
        cfg->optim.ns_mode = MUSEC_NS_PAPER;
        add_note(notes, "%s is of ns-mode paper, which replaces the preset's\n",
                 is_given(arg, "ns-iters") ? "ns-iters" : "literal");
    }
    if (cfg->optim.function == MUSEC_FUNCTION_POLAR && !is_given(arg, "ns-mode") &&
        cfg->optim.ns_mode != MUSEC_NS_PAPER) {
        cfg->optim.ns_mode = MUSEC_NS_PAPER;
        add_note(notes, "function polar has ns-mode paper, which replaces the preset's\n");
    }
    if (cfg->optim.decay_form == MUSEC_DECAY_HYPERBALL) begin_on_ball(cfg, is_given, arg, notes);
    for (size_t i = 0; i < COUNT(staged) && cfg->stages[0] != '\0'; i++) {
        if (!is_given(arg, staged[i]) || is_given(arg, "stages")) continue;
        cfg->stages[0] = '\0';
        add_note(notes, "%s replaces the preset's stages\n", staged[i]);
    }
    if (cfg->extension >= cfg->steps && !is_given(arg, "extension")) {
        cfg->extension = 0;
        add_note(notes, "a run of %lld steps has no extension\n", (long long)cfg->steps);
    }
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* Parses "all", "none" or "0,4,11", layers below `layers`. */
static musec_status read_layer_set(ms_error *e, const char *name, const char *text, int64_t layers,
                                   uint64_t *out)
{
    const char *at = text;

    *out = strcmp(text, "all") == 0 ? UINT64_MAX : 0;
    if (*out != 0 || strcmp(text, "none") == 0) return MUSEC_OK;
    for (;;) {
        char      *end   = NULL;
        const long layer = isdigit((unsigned char)*at) ? strtol(at, &end, 10) : -1;
        if (layer < 0 || layer >= MS_GPT_LAYERS || (*end != ',' && *end != '\0'))
            return ms_fail(e, MUSEC_EINVAL,
                           "%s is \"%s\"; it must be all, none, or layers such as 0,4,11", name,
                           text);
        if (layer >= layers)
            return ms_fail(e, MUSEC_EINVAL,
                           "%s names layer %ld; the last of the %lld layers is %lld", name, layer,
                           (long long)layers, (long long)layers - 1);
        *out |= (uint64_t)1 << layer;
        if (*end == '\0') return MUSEC_OK;
        at = end + 1;
    }
}

/* Parses "9:6,10:4" or "none": out[layer] <- the number after the colon, plus 1. */
static musec_status read_by_layer(ms_error *e, const char *name, const char *text,
                                  uint8_t out[MS_GPT_LAYERS])
{
    const char *at = text;

    memset(out, 0, MS_GPT_LAYERS);
    if (strcmp(text, "none") == 0) return MUSEC_OK;
    for (;;) {
        char      *end   = NULL;
        const long layer = isdigit((unsigned char)*at) ? strtol(at, &end, 10) : -1;
        long       of    = -1;
        if (layer >= 0 && *end == ':' && isdigit((unsigned char)end[1]))
            of = strtol(end + 1, &end, 10);
        if (layer < 0 || layer >= MS_GPT_LAYERS || of < 0 || of >= MS_GPT_LAYERS ||
            (*end != ',' && *end != '\0'))
            return ms_fail(e, MUSEC_EINVAL,
                           "%s is \"%s\"; it must be none, or LAYER:NUMBER pairs such as "
                           "9:6,10:4, layers and numbers below %d",
                           name, text, MS_GPT_LAYERS);
        if (out[layer] != 0)
            return ms_fail(e, MUSEC_EINVAL, "%s is \"%s\", which names layer %ld twice", name, text,
                           layer);
        out[layer] = (uint8_t)(of + 1);
        if (*end == '\0') return MUSEC_OK;
        at = end + 1;
    }
}

/* Parses a layer up to `last`, or "none": *out <- the layer plus 1, or 0. */
static musec_status read_layer(ms_error *e, const char *name, const char *text, int64_t last,
                               int64_t *out)
{
    int64_t layer = -1;
    if (strcmp(text, "none") != 0 &&
        (ms_whole_i64(text, &layer) != MS_WHOLE_READ || layer < 0 || layer > last))
        return ms_fail(e, MUSEC_EINVAL,
                       last < 0 ? "%s is \"%s\"; it must be none in a model of one layer"
                                : "%s is \"%s\"; it must be none, or a layer from 0 to %lld",
                       name, text, (long long)last);
    *out = layer + 1;
    return MUSEC_OK;
}

/* The fields that are lists of layers. */
static musec_status read_layers(ms_error *e, ms_train_config *cfg)
{
    ms_gpt_config *m = &cfg->model;
    musec_status   st;
    /* a preset's long layers stay where a model gets fewer */
    TRY(read_layer_set(e, "long-layers", cfg->long_layers, MS_GPT_LAYERS, &m->long_layers));
    TRY(read_layer_set(e, "paired-layers", cfg->paired_layers, m->layers, &m->paired_layers));
    TRY(read_layer_set(e, "bare-layers", cfg->bare_layers, m->layers, &m->bare_layers));
    TRY(read_by_layer(e, "value-tables", cfg->value_tables, m->value_table));
    TRY(read_by_layer(e, "skips", cfg->skips, m->skip_from));
    TRY(read_layer(e, "backout", cfg->backout, m->layers - 1, &m->backout));
    TRY(read_layer(e, "attn-from", cfg->attn_from, m->layers - 2, &m->attn_from)); /* later ones */
    if (cfg->untie > 0 && cfg->model.tied)
        st =
            ms_fail(e, MUSEC_EINVAL,
                    "untie is %lld, but tied is yes: a model with one matrix cannot part it; leave "
                    "one of them out",
                    (long long)cfg->untie);
done:
    return st;
}

musec_status ms_train_config_check(ms_error *e, ms_train_config *cfg)
{
    const int64_t gpt2_ids = 50304,
                  n_ids    = cfg->tokenizer == MS_TOKENIZER_BYTE ? MS_BYTES_START + 1 : MS_BPE_IDS;
    musec_status st;

    if (cfg->model.vocab == 0)
        cfg->model.vocab = cfg->tokenizer == MS_TOKENIZER_BYTE ? MS_BYTES_VOCAB : gpt2_ids;
    if (cfg->model.vocab < n_ids)
        return ms_fail(
            e, MUSEC_EINVAL,
            "vocab is %lld; the tokenizer has %lld ids: give as many or more, or leave it out",
            (long long)cfg->model.vocab, (long long)n_ids);
    cfg->optim.seed = cfg->seed;
    TRY(read_layers(e, cfg));
    TRY(ms_gpt_check(e, &cfg->model));
    TRY(ms_optim_config_check(e, &cfg->optim));
done:
    return st;
}

bool ms_train_parts(const ms_train_config *cfg, char text[MS_PARTS_TEXT])
{
    const ms_gpt_config *m = &cfg->model;
    const struct {
        bool        has;
        const char *words, *value;
    } parts[] = {
        { m->embed2 != 0, "second embedding", "" },
        { m->smear != 0, "smear", "" },
        { strcmp(cfg->skips, "none") != 0, "skips ", cfg->skips },
        { m->backout > 0, "backout of layer ", cfg->backout },
        { m->attn_scales != 0, "scales of attention", "" },
        { strcmp(cfg->value_tables, "none") != 0, "value tables ", cfg->value_tables },
        { m->key_offset != 0, "key offset", "" },
        { cfg->yarn > 0, "YaRN", "" },
        { m->bigram > 0, "bigram table", "" },
        { m->post_mix != 0, "mixes after attention and MLP", "" },
        { m->bare_layers != 0, "no attention in ", cfg->bare_layers },
        { m->paired_layers != 0, "paired heads in ", cfg->paired_layers },
        { m->xsa != 0, "XSA", "" },
        { m->attn_from > 0, "late attention from layer ", cfg->attn_from },
        { m->mudd > 0, "MUDD", "" },
        { m->spare > 0, "spare parameters", "" },
    };
    size_t n = 0;

    text[0] = '\0';
    for (size_t i = 0; i < COUNT(parts); i++)
        if (parts[i].has)
            n += (size_t)snprintf(text + n, MS_PARTS_TEXT - n, "%s%s%s", n > 0 ? ", " : "",
                                  parts[i].words, parts[i].value);
    return n > 0;
}

/* ---- comparing ------------------------------------------------------------------------------- */

const char *ms_train_config_differs(const ms_train_config *a, const ms_train_config *b,
                                    unsigned except)
{
    char           x[MS_PATH_MAX], y[MS_PATH_MAX];
    ms_train_field f;

    if (strcmp(a->optim.name, b->optim.name) != 0) return "optimizer";
    for (size_t i = 0; ms_train_field_at(i, &f); i++) {
        ms_train_config_get(a, f.name, x, sizeof x);
        ms_train_config_get(b, f.name, y, sizeof y);
        if ((f.flags & except) == 0 && strcmp(x, y) != 0) return f.name;
    }
    return NULL;
}
