/* config.c - the options of the optimizers (option_table.h) from text and back to it. */
#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/names.h"
#include "core/real.h"
#include "core/sized.h"
#include "core/whole.h"
#include "optim/optim.h"
#include "optim/option_table.h"

/* ---- parsing --------------------------------------------------------------------------------- */

static musec_status wrong(ms_error *e, const char *name, const char *value, const char *expected)
{
    return ms_fail(e, MUSEC_EINVAL, "%s is \"%s\"; it must be %s", name, value, expected);
}

static musec_status wrong_choice(ms_error *e, const char *name, const char *value,
                                 const char *choices)
{
    return ms_fail(e, MUSEC_EINVAL, "%s is \"%s\"; it must be one of %s%s", name, value, choices,
                   ms_name_hint_choices(value, choices).text);
}

static bool parse_number(const char *text, double min, double max, double *out)
{
    char        *end = NULL;
    const double x   = ms_real_read(text, &end);
    if (end == text || *end != '\0' || !(x >= min && x <= max)) return false;
    *out = x;
    return true;
}

/* The prefixes of rules, by musec_threshold_rule. */
static const char *const threshold_rules[] = { "", "rms:", "quantile:" };

static musec_status set_threshold(ms_error *e, musec_optim_config *cfg, const char *value)
{
    const char *const *rules = threshold_rules;
    int                rule  = MUSEC_THRESHOLD_FIXED;
    double             x     = 0.0;
    for (int i = 1; i < (int)COUNT(threshold_rules); i++)
        if (strncmp(value, rules[i], strlen(rules[i])) == 0) rule = i;
    const double max = rule == MUSEC_THRESHOLD_QUANTILE ? 1.0 : 1e300;
    if (!parse_number(value + strlen(rules[rule]), MS_OPTIM_ABOVE_0, max, &x))
        return wrong(e, "threshold", value,
                     "a number above 0, rms:K with K > 0, or quantile:Q with Q in (0, 1]");
    cfg->threshold      = x;
    cfg->threshold_rule = rule;
    return MUSEC_OK;
}

const char *const ms_optim_role_names[MUSEC_MATRIX_ROLES] = { "matrix", "qk", "vo", "mlp" };

/* "0.1" for all roles, or "qk=1.2,mlp=0.3", which leaves the others as they are. */
static musec_status set_decay(ms_error *e, musec_optim_config *cfg, const char *value)
{
    static const char expected[] =
        "a number from 0 to 1e9, or role=number,... with roles qk, vo, mlp, matrix";
    double decay[MUSEC_MATRIX_ROLES], x = 0.0;
    char   text[256];
    if (parse_number(value, 0.0, 1e9, &x)) {
        for (int i = 0; i < MUSEC_MATRIX_ROLES; i++)
            cfg->weight_decay[i] = x;
        return MUSEC_OK;
    }
    if (strlen(value) >= sizeof text) return wrong(e, "weight-decay", value, expected);
    snprintf(text, sizeof text, "%s", value);
    memcpy(decay, cfg->weight_decay, sizeof decay);
    for (char *part = text, *next; part != NULL; part = next) {
        char *comma = strchr(part, ','), *equal = strchr(part, '=');
        int   role = 0;
        next       = comma == NULL ? NULL : comma + 1;
        if (comma != NULL) *comma = '\0';
        if (equal == NULL || (comma != NULL && equal > comma))
            return wrong(e, "weight-decay", value, expected);
        *equal = '\0';
        while (role < MUSEC_MATRIX_ROLES && strcmp(ms_optim_role_names[role], part) != 0)
            role++;
        if (role == MUSEC_MATRIX_ROLES || !parse_number(equal + 1, 0.0, 1e9, &decay[role]))
            return wrong(e, "weight-decay", value, expected);
    }
    memcpy(cfg->weight_decay, decay, sizeof decay);
    return MUSEC_OK;
}

static musec_status set_base(ms_error *e, musec_optim_config *cfg, const char *value)
{
    const ms_base *base = ms_base_find(value);
    if (base == NULL) return wrong_choice(e, "base", value, ms_base_choices);
    cfg->base = base->name;
    return MUSEC_OK;
}

/* The codes of the operands, in its order. */
static const int32_t operand_codes[] = { 0, MUSEC_F32, MUSEC_BF16, MUSEC_F16 };

int ms_operands_index(int32_t code)
{
    for (size_t i = 0; i < COUNT(operand_codes); i++)
        if (operand_codes[i] == code) return (int)i;
    return -1;
}

static musec_status set_operands(ms_error *e, musec_optim_config *cfg, const char *value)
{
    const int index = ms_choice_index(MS_OPTIM_OPERAND_CHOICES, value);
    if (index < 0) return wrong_choice(e, "operands", value, MS_OPTIM_OPERAND_CHOICES);
    cfg->operands = operand_codes[index];
    return MUSEC_OK;
}

static musec_status set_sharpness(ms_error *e, musec_optim_config *cfg, const char *value)
{
    double x = 0.0;
    if (strcmp(value, "hard") == 0)
        x = INFINITY;
    else if (strcmp(value, "auto") != 0 && !parse_number(value, 2.0, 1e6, &x))
        return wrong_choice(e, "sharpness", value, MS_OPTIM_SHARPNESS_CHOICES);
    cfg->sharpness = x;
    return MUSEC_OK;
}

/* The value of a whole number, of whatever size it is. */
int64_t ms_optim_integer(const ms_optim_option *f, const musec_optim_config *cfg)
{
    const char *at = (const char *)cfg + f->offset;
    return f->bytes == sizeof(int32_t) ? *(const int32_t *)(const void *)at
                                       : *(const int64_t *)(const void *)at;
}

static musec_status set_integer(ms_error *e, const ms_optim_option *f, void *at, const char *value)
{
    int64_t x = 0;
    char    range[64];
    if (ms_whole_i64(value, &x) != MS_WHOLE_READ || (double)x < f->min || (double)x > f->max) {
        snprintf(range, sizeof range, "a whole number from %.0f to %.0f", f->min, f->max);
        return wrong(e, f->name, value, range);
    }
    if (f->bytes == sizeof(int32_t))
        *(int32_t *)at = (int32_t)x;
    else
        *(int64_t *)at = x;
    return MUSEC_OK;
}

/* What a choice that had another name is called now: files of old runs have the old one. */
static const char *current_name(const ms_optim_option *f, const char *value)
{
    const bool shape = f->offset == offsetof(musec_optim_config, shape_rule);
    return shape && strcmp(value, "normuon") == 0 ? "fixed-rms" : value;
}

static musec_status set_field(ms_error *e, const ms_optim_option *f, musec_optim_config *cfg,
                              const char *value)
{
    void *at = (char *)cfg + f->offset;
    char  text[320];
    int   index;
    switch (f->type) {
    case MS_OPTIM_REAL:
        snprintf(text, sizeof text, "a number from %g to %g", f->min, f->max);
        return parse_number(value, f->min, f->max, at) ? MUSEC_OK : wrong(e, f->name, value, text);
    case MS_OPTIM_INT: return set_integer(e, f, at, value);
    case MS_OPTIM_UINT:
        if (ms_whole_u64(value, at) != MS_WHOLE_READ)
            return wrong(e, f->name, value, "a whole number from 0 to 18446744073709551615");
        return MUSEC_OK;
    case MS_OPTIM_CHOICE:
        index = ms_choice_index(f->values, current_name(f, value));
        if (index < 0) return wrong_choice(e, f->name, value, f->values);
        *(int32_t *)at = index;
        return MUSEC_OK;
    case MS_OPTIM_THRESHOLD: return set_threshold(e, cfg, value);
    case MS_OPTIM_DECAY: return set_decay(e, cfg, value);
    case MS_OPTIM_BASE: return set_base(e, cfg, value);
    case MS_OPTIM_OPERANDS: return set_operands(e, cfg, value);
    case MS_OPTIM_SHARPNESS: return set_sharpness(e, cfg, value);
    }
    return MUSEC_EINVAL;
}

/* Hyphens and underscores are the same in a name. */
static bool same_name(const char *a, const char *b)
{
    for (; *a != '\0' && *b != '\0'; a++, b++)
        if ((*a == '_' ? '-' : *a) != (*b == '_' ? '-' : *b)) return false;
    return *a == *b;
}

static const ms_optim_option *find_field(const char *key)
{
    for (size_t i = 0; i < ms_n_optim_options; i++)
        if (same_name(ms_optim_options[i].name, key)) return &ms_optim_options[i];
    return NULL;
}

static musec_status unknown_key(ms_error *e, const char *key)
{
    enum { MOST = 80 };
    const char *names[MOST];

    assert(ms_n_optim_options <= MOST);
    for (size_t i = 0; i < ms_n_optim_options; i++)
        names[i] = ms_optim_options[i].name;
    return ms_fail(e, MUSEC_EINVAL, "there is no option \"%s\"%s", key,
                   ms_name_hint_of(key, names, ms_n_optim_options).text);
}

musec_status ms_optim_config_set(ms_error *e, musec_optim_config *cfg, const char *key,
                                 const char *value)
{
    const ms_optim_option *f = find_field(key);
    return f != NULL ? set_field(e, f, cfg, value) : unknown_key(e, key);
}

/* ---- back to text ---------------------------------------------------------------------------- */

static void parsed_text(const ms_optim_option *f, const musec_optim_config *cfg, char *text,
                        size_t bytes)
{
    char number[4][MS_REAL_TEXT];
    if (f->type == MS_OPTIM_BASE) {
        snprintf(text, bytes, "%s", cfg->base);
    } else if (f->type == MS_OPTIM_OPERANDS) {
        ms_choice_text(MS_OPTIM_OPERAND_CHOICES, ms_operands_index(cfg->operands), text, bytes);
    } else if (f->type == MS_OPTIM_SHARPNESS) {
        ms_real_text(cfg->sharpness, number[0]);
        snprintf(text, bytes, "%s",
                 cfg->sharpness == 0.0       ? "auto"
                 : cfg->sharpness < INFINITY ? number[0]
                                             : "hard");
    } else if (f->type == MS_OPTIM_THRESHOLD) {
        ms_real_text(cfg->threshold, number[0]);
        snprintf(text, bytes, "%s%s", threshold_rules[cfg->threshold_rule], number[0]);
    } else {
        for (int i = 0; i < 4; i++)
            ms_real_text(cfg->weight_decay[i], number[i]);
        snprintf(text, bytes, "matrix=%s,qk=%s,vo=%s,mlp=%s", number[0], number[1], number[2],
                 number[3]);
    }
}

musec_status ms_optim_config_get(const musec_optim_config *cfg, const char *key, char *text,
                                 size_t bytes)
{
    const ms_optim_option *f = find_field(key);
    char                   number[MS_REAL_TEXT];
    if (f == NULL) return MUSEC_EINVAL;
    const void *at = (const char *)cfg + f->offset;
    switch (f->type) {
    case MS_OPTIM_REAL:
        ms_real_text(*(const double *)at, number);
        snprintf(text, bytes, "%s", number);
        break;
    case MS_OPTIM_INT: snprintf(text, bytes, "%lld", (long long)ms_optim_integer(f, cfg)); break;
    case MS_OPTIM_UINT:
        snprintf(text, bytes, "%llu", (unsigned long long)*(const uint64_t *)at);
        break;
    case MS_OPTIM_CHOICE: ms_choice_text(f->values, *(const int32_t *)at, text, bytes); break;
    default: parsed_text(f, cfg, text, bytes); break;
    }
    return MUSEC_OK;
}

ms_value_kind ms_optim_config_kind(const musec_optim_config *cfg, const char *key)
{
    const ms_optim_option *f = find_field(key);
    if (f == NULL) return MS_VALUE_TEXT;
    if (f->type == MS_OPTIM_REAL) return MS_VALUE_REAL;
    if (f->type == MS_OPTIM_INT || f->type == MS_OPTIM_UINT) return MS_VALUE_WHOLE;
    if (f->type == MS_OPTIM_DECAY) return MS_VALUE_PAIRS;
    const bool fixed = cfg->threshold_rule == MUSEC_THRESHOLD_FIXED;
    return f->type == MS_OPTIM_THRESHOLD && fixed ? MS_VALUE_REAL : MS_VALUE_TEXT;
}

/* ---- public functions ------------------------------------------------------------------------ */

const char *musec_optim_option(size_t index, const char **values, const char **help)
{
    if (index >= ms_n_optim_options) return NULL;
    if (values != NULL) *values = ms_optim_options[index].values;
    if (help != NULL) *help = ms_optim_options[index].help;
    return ms_optim_options[index].name;
}

/* May a config of this size be filled for an optimizer of this name? */
static musec_status check_init(ms_error *e, const musec_optim_config *cfg, size_t size,
                               const char *name)
{
    const char *names[32];
    size_t      n = 0;

    if (cfg == NULL) return ms_fail(e, MUSEC_EINVAL, "the config is NULL");
    if (!ms_sized_fits(size, MUSEC_OPTIM_CONFIG_SIZE_1))
        return ms_fail(e, MUSEC_EINVAL,
                       "the size of the config is %zu bytes; it must be sizeof(musec_optim_config)",
                       size);
    if (name == NULL) return ms_fail(e, MUSEC_EINVAL, "the name of the optimizer is NULL");
    if (ms_optimizer_find(name) != NULL) return MUSEC_OK;
    while (n < COUNT(names) && (names[n] = musec_optim_name(n, NULL)) != NULL)
        n++;
    return ms_fail(e, MUSEC_EINVAL, "there is no optimizer \"%s\"%s", name,
                   ms_name_hint_or_all(name, names, n).text);
}

static musec_status init(ms_error *e, musec_optim_config *cfg, size_t size, const char *name)
{
    const ms_optimizer *row = ms_optimizer_find(name);
    musec_status        st  = check_init(e, cfg, size, name);
    if (st != MUSEC_OK) return st;
    musec_optim_config preset = {
        .size               = (uint32_t)size,
        .name               = row->name,
        .base               = row->base == NULL ? MS_DEFAULT_BASE : row->base,
        .lr                 = 0.02,
        .beta               = 0.05,
        .threshold          = 1.0,
        .clip               = MUSEC_CLIP_SOFT,
        .ns_iters           = 5,
        .beta1              = 0.9,
        .beta2              = 0.999,
        .beta3              = 0.9999,
        .eps                = 1e-8,
        .alpha              = 8.0,
        .aux_lr             = 3e-4,
        .aux_beta1          = 0.9,
        .aux_beta2          = 0.95,
        .aux_eps            = 1e-8,
        .qk_tau             = 100.0,
        .qk_alpha           = 0.5,
        .avg_epochs         = 1,
        .report_every       = 1000,
        .precondition_every = 10,
        .precondition_eps   = 1e-12,
        .fraction           = 0.25,
        .max_precond_dim    = 10000,
    };
    for (size_t i = 0; i < COUNT(row->defaults) && row->defaults[i].option != NULL; i++)
        TRY(ms_optim_config_set(e, &preset, row->defaults[i].option, row->defaults[i].value));
    ms_sized_fill(cfg, size, &preset, sizeof preset);
done:
    return st;
}

musec_status musec_optim_config_init_why(musec_optim_config *cfg, size_t size, const char *name,
                                         char *why, size_t bytes)
{
    ms_error           e  = { "" };
    const musec_status st = init(&e, cfg, size, name);
    ms_error_copy(&e, why, bytes);
    return st;
}

musec_status musec_optim_config_init(musec_optim_config *cfg, size_t size, const char *name)
{
    return musec_optim_config_init_why(cfg, size, name, NULL, 0);
}

musec_status ms_optim_config_take(ms_error *e, const musec_optim_config *from,
                                  musec_optim_config *cfg)
{
    if (from == NULL || !ms_sized_fits(from->size, MUSEC_OPTIM_CONFIG_SIZE_1) ||
        musec_optim_config_init(cfg, sizeof *cfg, from->name) != MUSEC_OK)
        return ms_fail(e, MUSEC_EINVAL, "the config must come from musec_optim_config_init()");
    if (!ms_sized_take(from, from->size, cfg, sizeof *cfg) || cfg->reserved != 0)
        return ms_fail(e, MUSEC_ENOTSUP, "the config sets a field that musec %s does not have",
                       musec_version());
    cfg->size = sizeof *cfg;
    return MUSEC_OK;
}

static musec_status set(ms_error *e, musec_optim_config *cfg, const char *key, const char *value)
{
    musec_optim_config full, before;
    musec_status       st = MUSEC_OK;
    if (cfg == NULL || !ms_sized_fits(cfg->size, MUSEC_OPTIM_CONFIG_SIZE_1) ||
        init(NULL, &full, sizeof full, cfg->name) != MUSEC_OK)
        return ms_fail(e, MUSEC_EINVAL, "the config must come from musec_optim_config_init()");
    if (key == NULL) return ms_fail(e, MUSEC_EINVAL, "the name of the option is NULL");
    if (value == NULL) return ms_fail(e, MUSEC_EINVAL, "%s has no value: it is NULL", key);
    const size_t size = cfg->size, theirs = size < sizeof full ? size : sizeof full;
    (void)ms_sized_take(cfg, size, &full,
                        sizeof full); /* create() refuses fields that we do not know */
    before = full;
    TRY(ms_optim_config_set(e, &full, key, value));
    if (memcmp((char *)&full + theirs, (char *)&before + theirs, sizeof full - theirs) != 0)
        return ms_fail(e, MUSEC_EINVAL,
                       "%s is newer than the header that this program was compiled with", key);
    memcpy(cfg, &full, theirs);
done:
    return st;
}

musec_status musec_optim_config_set_why(musec_optim_config *cfg, const char *key, const char *value,
                                        char *why, size_t bytes)
{
    ms_error           e  = { "" };
    const musec_status st = set(&e, cfg, key, value);
    ms_error_copy(&e, why, bytes);
    return st;
}

musec_status musec_optim_config_set(musec_optim_config *cfg, const char *key, const char *value)
{
    return musec_optim_config_set_why(cfg, key, value, NULL, 0);
}
