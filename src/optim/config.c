/* config.c - the options of the optimizers: one table that names, explains, parses
 * and checks them. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/names.h"
#include "core/real.h"
#include "core/sized.h"
#include "core/whole.h"
#include "linalg/sharp_chain.h"
#include "optim/optim.h"

typedef enum { FIELD_REAL, FIELD_INT, FIELD_UINT, FIELD_CHOICE, FIELD_PARSED } field_type;

typedef struct field {
    const char *name;
    field_type  type;
    size_t      offset, bytes;
    double      min, max;
    const char *values; /* the choices, "a|b|c", in the order of their codes; else what to write */
    musec_status (*set)(ms_error *e, musec_optim_config *cfg, const char *value); /* PARSED */
    const char *help;
} field;

static musec_status set_threshold(ms_error *e, musec_optim_config *cfg, const char *value);
static musec_status set_decay(ms_error *e, musec_optim_config *cfg, const char *value);
static musec_status set_base(ms_error *e, musec_optim_config *cfg, const char *value);
static musec_status set_operands(ms_error *e, musec_optim_config *cfg, const char *value);
static musec_status set_sharpness(ms_error *e, musec_optim_config *cfg, const char *value);

#define AT(member) offsetof(musec_optim_config, member), sizeof((musec_optim_config *)0)->member

#define REAL(member, min, max)         FIELD_REAL, AT(member), min, max, "X", NULL
#define WHOLE(member, min, max, value) FIELD_INT, AT(member), min, max, value, NULL
#define UNSIGNED(member, value)        FIELD_UINT, AT(member), 0, 0, value, NULL
#define ONE_OF(member, choices)        FIELD_CHOICE, AT(member), 0, 0, choices, NULL
#define PARSED(set, value)             FIELD_PARSED, 0, 0, 0, 0, value, set
#define ABOVE_0                        1e-300
#define OPERANDS                       "auto|f32|bf16|f16"
#define SHARPNESS                      "auto|2|4|8|16|32|hard"
#define AUX                            "AdamW for embedding, head and vectors: "
#define MOMENTS                        "adam, adamw, ademamix: "

static const field fields[] = {
    { "lr", REAL(lr, 0, 1e9), "learning rate [0.02]" },
    { "beta", REAL(beta, 0, 1),
      "weight of the NEW gradient in the momentum: 1 minus the usual momentum [0.05]" },
    { "threshold", PARSED(set_threshold, "D|rms:K|quantile:Q"),
      "clip singular values at D: a number, K times their RMS, or their quantile Q [1]" },
    { "update-scale", ONE_OF(update_scale, "paper|unit"),
      "scale of the step: the clipped matrix as in the paper, or that divided by D, which suits "
      "learning rates of Muon [paper]" },
    { "base", PARSED(set_base, ms_base_choices),
      "spectra: the optimizer whose update is clipped [sgdm]" },
    { "clip", ONE_OF(clip, "hard|soft"), "spectra: clip exactly or smoothly [soft]" },
    { "sharpness", PARSED(set_sharpness, SHARPNESS),
      "how sharply the clip bends at D: 2 is soft; auto: soft or hard, as the optimizer is "
      "[auto]" },
    { "ns-mode", ONE_OF(ns_mode, "paper|paper7|fast|accurate|exact"),
      "how clipping is computed; musec has paper, which is exact, fast, accurate and exact; muon "
      "has paper (quintic Newton-Schulz steps) and exact [paper]" },
    { "ns-iters", WHOLE(ns_iters, 1, 100, "K"),
      "number of Newton-Schulz steps in ns-mode paper [5]" },
    { "ns-tol", REAL(ns_tol, 0, 0.5),
      "largest relative error in ns-mode accurate; 0: a hundredth of beta, since stored clipped "
      "momentum multiplies errors by 1/beta [0]" },
    { "ns-coeffs", ONE_OF(ns_coeffs, "keller|polar-express"),
      "muon: coefficients of the quintic Newton-Schulz steps [keller]" },
    { "literal", ONE_OF(literal, "no|yes"),
      "compute ns-mode paper in the paper's own order of products, which is slower [no]" },
    { "operands", PARSED(set_operands, OPERANDS),
      "number format that matrix products round their f32 inputs to; auto: f16 on a GPU, f32 on a "
      "CPU [auto]" },
    { "weight-decay", PARSED(set_decay, "X|qk=X,vo=X,mlp=X"),
      "weight decay: one number, or one each for attention (qk, vo) and MLP matrices [0]" },
    { "decay-form",
      ONE_OF(decay_form,
             "decoupled|independent|lr2|cautious|cautious-lr2|coupled|after|frank-wolfe"),
      "formula of the weight decay (docs/optimizers.md) [decoupled; adam: coupled]" },
    { "nesterov", ONE_OF(nesterov, "no|yes"),
      "use Nesterov momentum: look ahead by one gradient [no]" },
    { "shape-rule", ONE_OF(shape_rule, "none|keller|moonlight|mup|rms|normuon"),
      "factor on the update of an m x n matrix: 1, sqrt(max(1, m/n)), 0.2 sqrt(max(m, n)), "
      "sqrt(m/n), sqrt(max(m, n)), or 0.2 sqrt(m n) / |U|_F [none]" },
    { "momentum-form", ONE_OF(momentum_form, "ema|heavy-ball"),
      "momentum M with gradient G: (1-beta) M + beta G, or (1-beta) M + G [ema]" },
    { "momentum-init", ONE_OF(momentum_init, "first|zero"),
      "start the momentum as the first gradient, or at zero [first]" },
    { "momentum-dtype", ONE_OF(momentum_dtype, "own|bf16"),
      "number format of the momentum: that of the weight, or bf16 with stochastic rounding [own]" },
    { "nonfinite", ONE_OF(nonfinite, "stop|skip|defer"),
      "at a NaN or infinity in a gradient, stop the run, skip the step, or let the GPU decide to "
      "skip it, without waiting [stop]" },
    { "beta1", REAL(beta1, 0, 0.99999998),
      MOMENTS "decay rate of the first moment; lion: weight of the momentum in the update [0.9]" },
    { "beta2", REAL(beta2, 0, 0.99999998),
      MOMENTS "decay rate of the second moment; lion: of the momentum [0.999; lion: 0.99]" },
    { "eps", REAL(eps, 1e-30, 1e9), MOMENTS "added to the root of the second moment [1e-8]" },
    { "beta3", REAL(beta3, 0, 0.99999998), "ademamix: decay rate of the slow average [0.9999]" },
    { "alpha", REAL(alpha, 0, 1e9), "ademamix: weight of the slow average [8]" },
    { "alpha-warmup", WHOLE(alpha_warmup, 0, 1e15, "N"),
      "ademamix: steps in which alpha grows to its value [0]" },
    { "beta3-warmup", WHOLE(beta3_warmup, 0, 1e15, "N"),
      "ademamix: steps in which beta3 grows to its value [0]" },
    { "qk-tau", REAL(qk_tau, ABOVE_0, 1e9),
      "muonclip: shrink heads whose attention logits exceed this [100]" },
    { "qk-alpha", REAL(qk_alpha, 0, 1),
      "muonclip: share of the shrinking that W_q takes; W_k takes the rest [0.5]" },
    { "avg-steps", WHOLE(avg_steps, 0, 1e15, "T"),
      "also keep an average of the weights over an epoch of T steps [0: no]" },
    { "avg-epochs", WHOLE(avg_epochs, 0, 1e15, "K"),
      "avg-steps: average an epoch picked at random among the first K [1]" },
    { "seed", UNSIGNED(seed, "N"),
      "seed of random choices: epoch to average, norm estimates, stochastic rounding [0]" },
    { "report-every", WHOLE(report_every, 0, 1e15, "N"),
      "steps between measurements of norms and ranks; 0: never [1000]" },
    { "workspace", UNSIGNED(workspace, "BYTES"),
      "bytes of memory that an optimizer step may use [0: 1 GiB, on a GPU 8 to 16 GiB]" },
    { "aux-lr", REAL(aux_lr, 0, 1e9), AUX "learning rate [3e-4]" },
    { "aux-beta1", REAL(aux_beta1, 0, 0.99999998), AUX "decay rate of the first moment [0.9]" },
    { "aux-beta2", REAL(aux_beta2, 0, 0.99999998), AUX "decay rate of the second moment [0.95]" },
    { "aux-eps", REAL(aux_eps, 1e-30, 1e9), AUX "added to the root of the second moment [1e-8]" },
    { "aux-weight-decay", REAL(aux_weight_decay, 0, 1e9), AUX "decoupled weight decay [0]" },
};

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
    if (!parse_number(value + strlen(rules[rule]), ABOVE_0, max, &x))
        return wrong(e, "threshold", value,
                     "a number above 0, rms:K with K > 0, or quantile:Q with Q in (0, 1]");
    cfg->threshold      = x;
    cfg->threshold_rule = rule;
    return MUSEC_OK;
}

static const char *const role_names[MUSEC_MATRIX_ROLES] = { "matrix", "qk", "vo", "mlp" };

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
        while (role < MUSEC_MATRIX_ROLES && strcmp(role_names[role], part) != 0)
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

/* The codes of OPERANDS, in its order. */
static const int32_t operand_codes[] = { 0, MUSEC_F32, MUSEC_BF16, MUSEC_F16 };

static int operands_index(int32_t code) /* -1: it is none of them */
{
    for (size_t i = 0; i < COUNT(operand_codes); i++)
        if (operand_codes[i] == code) return (int)i;
    return -1;
}

static musec_status set_operands(ms_error *e, musec_optim_config *cfg, const char *value)
{
    const int index = ms_choice_index(OPERANDS, value);
    if (index < 0) return wrong_choice(e, "operands", value, OPERANDS);
    cfg->operands = operand_codes[index];
    return MUSEC_OK;
}

static musec_status set_sharpness(ms_error *e, musec_optim_config *cfg, const char *value)
{
    double x = 0.0;
    if (strcmp(value, "hard") == 0)
        x = INFINITY;
    else if (strcmp(value, "auto") != 0 && !parse_number(value, 2.0, 1e6, &x))
        return wrong_choice(e, "sharpness", value, SHARPNESS);
    cfg->sharpness = x;
    return MUSEC_OK;
}

/* The value of a whole number, of whatever size it is. */
static int64_t get_integer(const field *f, const musec_optim_config *cfg)
{
    const char *at = (const char *)cfg + f->offset;
    return f->bytes == sizeof(int32_t) ? *(const int32_t *)(const void *)at
                                       : *(const int64_t *)(const void *)at;
}

static musec_status set_integer(ms_error *e, const field *f, void *at, const char *value)
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

static musec_status set_field(ms_error *e, const field *f, musec_optim_config *cfg,
                              const char *value)
{
    void *at = (char *)cfg + f->offset;
    char  text[320];
    int   index;
    switch (f->type) {
    case FIELD_REAL:
        snprintf(text, sizeof text, "a number from %g to %g", f->min, f->max);
        return parse_number(value, f->min, f->max, at) ? MUSEC_OK : wrong(e, f->name, value, text);
    case FIELD_INT: return set_integer(e, f, at, value);
    case FIELD_UINT:
        if (ms_whole_u64(value, at) != MS_WHOLE_READ)
            return wrong(e, f->name, value, "a whole number from 0 to 18446744073709551615");
        return MUSEC_OK;
    case FIELD_CHOICE:
        index = ms_choice_index(f->values, value);
        if (index < 0) return wrong_choice(e, f->name, value, f->values);
        *(int32_t *)at = index;
        return MUSEC_OK;
    case FIELD_PARSED: return f->set(e, cfg, value);
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

static const field *find_field(const char *key)
{
    for (size_t i = 0; i < COUNT(fields); i++)
        if (same_name(fields[i].name, key)) return &fields[i];
    return NULL;
}

static musec_status unknown_key(ms_error *e, const char *key)
{
    const char *names[COUNT(fields)];

    for (size_t i = 0; i < COUNT(fields); i++)
        names[i] = fields[i].name;
    return ms_fail(e, MUSEC_EINVAL, "there is no option \"%s\"%s", key,
                   ms_name_hint_of(key, names, COUNT(names)).text);
}

musec_status ms_optim_config_set(ms_error *e, musec_optim_config *cfg, const char *key,
                                 const char *value)
{
    const field *f = find_field(key);
    return f != NULL ? set_field(e, f, cfg, value) : unknown_key(e, key);
}

/* ---- back to text ---------------------------------------------------------------------------- */

static void parsed_text(const field *f, const musec_optim_config *cfg, char *text, size_t bytes)
{
    char number[4][MS_REAL_TEXT];
    if (f->set == set_base) {
        snprintf(text, bytes, "%s", cfg->base);
    } else if (f->set == set_operands) {
        ms_choice_text(OPERANDS, operands_index(cfg->operands), text, bytes);
    } else if (f->set == set_sharpness) {
        ms_real_text(cfg->sharpness, number[0]);
        snprintf(text, bytes, "%s",
                 cfg->sharpness == 0.0       ? "auto"
                 : cfg->sharpness < INFINITY ? number[0]
                                             : "hard");
    } else if (f->set == set_threshold) {
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
    const field *f = find_field(key);
    char         number[MS_REAL_TEXT];
    if (f == NULL) return MUSEC_EINVAL;
    const void *at = (const char *)cfg + f->offset;
    switch (f->type) {
    case FIELD_REAL:
        ms_real_text(*(const double *)at, number);
        snprintf(text, bytes, "%s", number);
        break;
    case FIELD_INT: snprintf(text, bytes, "%lld", (long long)get_integer(f, cfg)); break;
    case FIELD_UINT:
        snprintf(text, bytes, "%llu", (unsigned long long)*(const uint64_t *)at);
        break;
    case FIELD_CHOICE: ms_choice_text(f->values, *(const int32_t *)at, text, bytes); break;
    case FIELD_PARSED: parsed_text(f, cfg, text, bytes); break;
    }
    return MUSEC_OK;
}

ms_value_kind ms_optim_config_kind(const musec_optim_config *cfg, const char *key)
{
    const field *f = find_field(key);
    if (f == NULL) return MS_VALUE_TEXT;
    if (f->type == FIELD_REAL) return MS_VALUE_REAL;
    if (f->type == FIELD_INT || f->type == FIELD_UINT) return MS_VALUE_WHOLE;
    if (f->set == set_decay) return MS_VALUE_PAIRS;
    const bool fixed = cfg->threshold_rule == MUSEC_THRESHOLD_FIXED;
    return f->set == set_threshold && fixed ? MS_VALUE_REAL : MS_VALUE_TEXT;
}

/* ---- public functions ------------------------------------------------------------------------ */

const char *musec_optim_option(size_t index, const char **values, const char **help)
{
    if (index >= COUNT(fields)) return NULL;
    if (values != NULL) *values = fields[index].values;
    if (help != NULL) *help = fields[index].help;
    return fields[index].name;
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
        .size         = (uint32_t)size,
        .name         = row->name,
        .base         = row->base == NULL ? MS_DEFAULT_BASE : row->base,
        .lr           = 0.02,
        .beta         = 0.05,
        .threshold    = 1.0,
        .clip         = MUSEC_CLIP_SOFT,
        .ns_iters     = 5,
        .beta1        = 0.9,
        .beta2        = 0.999,
        .beta3        = 0.9999,
        .eps          = 1e-8,
        .alpha        = 8.0,
        .aux_lr       = 3e-4,
        .aux_beta1    = 0.9,
        .aux_beta2    = 0.95,
        .aux_eps      = 1e-8,
        .qk_tau       = 100.0,
        .qk_alpha     = 0.5,
        .avg_epochs   = 1,
        .report_every = 1000,
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
    if (!ms_sized_take(from, from->size, cfg, sizeof *cfg))
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

/* ---- checking what was set by hand ----------------------------------------------------------- */

static musec_status check_field(ms_error *e, const field *f, const musec_optim_config *cfg)
{
    const void *at = (const char *)cfg + f->offset;
    if (f->type == FIELD_CHOICE) {
        char          text[64];
        const int32_t code = *(const int32_t *)at;
        ms_choice_text(f->values, code, text, sizeof text);
        if (code < 0 || text[0] == '\0')
            return ms_fail(e, MUSEC_EINVAL, "%s is code %d; it must be one of %s", f->name, code,
                           f->values);
    } else if (f->type == FIELD_REAL || f->type == FIELD_INT) {
        const double x = f->type == FIELD_REAL ? *(const double *)at : (double)get_integer(f, cfg);
        if (!(x >= f->min && x <= f->max))
            return ms_fail(e, MUSEC_EINVAL, "%s is %g; it must be from %g to %g", f->name, x,
                           f->min, f->max);
    }
    return MUSEC_OK;
}

bool ms_optim_clips_hard(const musec_optim_config *cfg)
{
    const ms_optimizer *row = ms_optimizer_find(cfg->name);
    return row->base == NULL ? cfg->clip == MUSEC_CLIP_HARD
                             : row->spectral_fn == MS_SPECTRAL_HARD_CLIP;
}

double ms_optim_sharpness(const musec_optim_config *cfg)
{
    if (cfg->sharpness != 0.0) return cfg->sharpness;
    return ms_optim_clips_hard(cfg) ? MS_HARD : MS_SOFT;
}

int ms_optim_ns_mode(const musec_optim_config *cfg)
{
    return ms_optim_clips_hard(cfg) && cfg->ns_mode == MUSEC_NS_PAPER ? MUSEC_NS_EXACT
                                                                      : cfg->ns_mode;
}

static musec_status check_clip(ms_error *e, const musec_optim_config *cfg)
{
    const double p = ms_optim_sharpness(cfg);
    if (!(p >= MS_SOFT))
        return ms_fail(e, MUSEC_EINVAL, "sharpness is %g; it must be 0 or from 2 on", p);
    if (p != MS_SOFT && ms_optim_ns_mode(cfg) != MUSEC_NS_EXACT &&
        ms_sharp_chain_find(p, 1.0, 1.0) == NULL)
        return ms_fail(
            e, MUSEC_EINVAL,
            "sharpness is %g; it must be 2, 4, 8, 16, 32 or hard, unless ns-mode is exact", p);
    if (ms_optim_clips_hard(cfg) && cfg->ns_mode == MUSEC_NS_PAPER7)
        return ms_fail(e, MUSEC_EINVAL,
                       "%s clips hard and has ns-mode paper, fast, accurate and exact only",
                       cfg->name);
    return MUSEC_OK;
}

musec_status ms_optim_config_check(ms_error *e, const musec_optim_config *cfg)
{
    musec_status        st = MUSEC_OK;
    const ms_optimizer *row;
    if ((row = ms_optimizer_find(cfg->name)) == NULL)
        return ms_fail(e, MUSEC_EINVAL, "the config must come from musec_optim_config_init()");
    for (size_t i = 0; i < COUNT(fields); i++)
        TRY(check_field(e, &fields[i], cfg));
    for (int i = 0; i < MUSEC_MATRIX_ROLES; i++)
        if (!(cfg->weight_decay[i] >= 0.0 && cfg->weight_decay[i] < INFINITY))
            return ms_fail(e, MUSEC_EINVAL, "weight-decay of %s is %g; it must be 0 or more",
                           role_names[i], cfg->weight_decay[i]);
    if (!(cfg->threshold > 0.0 && cfg->threshold < INFINITY) || cfg->threshold_rule < 0 ||
        cfg->threshold_rule > MUSEC_THRESHOLD_QUANTILE ||
        (cfg->threshold_rule == MUSEC_THRESHOLD_QUANTILE && cfg->threshold > 1.0))
        return ms_fail(e, MUSEC_EINVAL, "threshold is %g by rule %d; it must be above 0 and finite",
                       cfg->threshold, cfg->threshold_rule);
    if (row->base == NULL && ms_base_find(cfg->base) == NULL)
        return wrong_choice(e, "base", cfg->base == NULL ? "" : cfg->base, ms_base_choices);
    if (row->base != NULL && (cfg->base == NULL || strcmp(row->base, cfg->base) != 0))
        return ms_fail(e, MUSEC_EINVAL, "base is \"%s\"; it cannot be chosen for %s",
                       cfg->base == NULL ? "" : cfg->base, row->name);
    if (cfg->momentum_dtype != MUSEC_MOMENTUM_OWN &&
        strcmp(ms_base_find(cfg->base)->states[0], "momentum") != 0)
        return ms_fail(e, MUSEC_EINVAL, "momentum-dtype is bf16; %s keeps no momentum", cfg->base);
    if (operands_index(cfg->operands) < 0)
        return ms_fail(e, MUSEC_EINVAL, "operands is code %d; it must be 0, f32, bf16 or f16",
                       cfg->operands);
    if (row->spectral_fn == MS_SPECTRAL_POLAR && cfg->ns_mode != MUSEC_NS_PAPER &&
        cfg->ns_mode != MUSEC_NS_EXACT)
        return ms_fail(e, MUSEC_EINVAL, "%s has ns-mode paper and exact only", cfg->name);
    TRY(check_clip(e, cfg));
done:
    return st;
}
