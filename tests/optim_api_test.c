/* optim_api_test.c - what the header promises of the optimizers besides their arithmetic: options
 * and their spellings, refusals, roles, descriptions. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "optim/optim.h"
#include "optim_rig.h"
#include "oracle.h"

/* ---- config ---------------------------------------------------------------------------------- */

TEST(config_init_fills_callers_with_more_fields)
{
    struct {
        musec_optim_config cfg;
        unsigned char      more[16];
    } newer;
    for (size_t i = 0; musec_optim_name(i, NULL) != NULL; i++) {
        const char *name = musec_optim_name(i, NULL), *help = NULL;
        musec_optim_name(i, &help);
        CHECK(help != NULL && help[0] != '\0', "%s has no description", name);
        memset(&newer, 0xab, sizeof newer);
        CHECK(musec_optim_config_init(&newer.cfg, sizeof newer, name) == MUSEC_OK, "%s", name);
        CHECK(newer.cfg.size == sizeof newer && strcmp(newer.cfg.name, name) == 0, "%s", name);
        CHECK(strstr(ms_base_choices, newer.cfg.base) != NULL, "no choice of a base is %s",
              newer.cfg.base);
        for (size_t b = 0; b < sizeof newer.more; b++)
            CHECK(newer.more[b] == 0, "a field that we do not know holds %d", newer.more[b]);
        CHECK(musec_optim_config_init(&newer.cfg, MUSEC_OPTIM_CONFIG_SIZE_1 - 1, name) ==
                  MUSEC_EINVAL,
              "%s: a config too small", name);
    }
    CHECK(musec_optim_config_init(&newer.cfg, (size_t)1 << 20, "muon") == MUSEC_EINVAL,
          "too large");
    CHECK(musec_optim_config_init(&newer.cfg, sizeof newer.cfg, "nosuch") == MUSEC_EINVAL,
          "nosuch");
    CHECK(musec_optim_config_init(&newer.cfg, sizeof newer.cfg, NULL) == MUSEC_EINVAL, "NULL");
    CHECK(musec_optim_config_init(NULL, sizeof newer.cfg, "muon") == MUSEC_EINVAL, "NULL");
}

/* The config of a program that was built with a later header. */
TEST_EACH_DEVICE(unknown_fields_must_be_0, dev)
{
    struct {
        musec_optim_config cfg;
        unsigned char      more[16];
    } newer;
    musec_optim *opt = NULL;
    CHECK(musec_optim_config_init(&newer.cfg, sizeof newer, "muon") == MUSEC_OK, "init");
    CHECK(musec_optim_config_set(&newer.cfg, "lr", "0.5") == MUSEC_OK && newer.cfg.lr == 0.5,
          "set");
    CHECK(newer.cfg.size == sizeof newer, "its size is %u", (unsigned)newer.cfg.size);
    CHECK_OK(dev, musec_optim_create(&opt, dev, &newer.cfg));
    musec_optim_destroy(opt);
    newer.more[15] = 1;
    CHECK(musec_optim_config_set(&newer.cfg, "lr", "0.25") == MUSEC_OK && newer.more[15] == 1,
          "set");
    CHECK(musec_optim_create(&opt, dev, &newer.cfg) == MUSEC_ENOTSUP && opt == NULL, "create");
    CHECK(strstr(musec_ctx_error(dev), musec_version()) != NULL, "%s", musec_ctx_error(dev));
    newer.more[15] = 0, newer.cfg.reserved = 1; /* its meaning is of a later version, too */
    CHECK(musec_optim_create(&opt, dev, &newer.cfg) == MUSEC_ENOTSUP && opt == NULL, "reserved");
    newer.cfg.size = MUSEC_OPTIM_CONFIG_SIZE_1 - 1;
    CHECK(musec_optim_create(&opt, dev, &newer.cfg) == MUSEC_EINVAL, "too small");
    CHECK(musec_optim_config_set(&newer.cfg, "lr", "1") == MUSEC_EINVAL, "too small");
}

/* Finds the default of an optimizer in a help such as "... [5; muon2, mine: 3]". */
static bool find_default(const char *help, const char *name, char *text, size_t bytes)
{
    const char *at = strrchr(help, '[');
    at             = at == NULL ? NULL : strstr(at, name);
    at             = at == NULL ? NULL : strstr(at, ": ");
    if (at == NULL) return false;
    snprintf(text, bytes, "%.*s", (int)strcspn(at + 2, ";]"), at + 2);
    return true;
}

TEST(help_names_the_optimizers_with_other_defaults)
{
    char usual[160], own[160], said[160];
    for (size_t i = 0; musec_optim_option(i, NULL, NULL) != NULL; i++) {
        const char              *help = NULL, *key = musec_optim_option(i, NULL, &help), *name;
        const musec_optim_config plain = rig_config("muon", "");
        CHECK(ms_optim_config_get(&plain, key, usual, sizeof usual) == MUSEC_OK, "%s", key);
        for (size_t o = 0; (name = musec_optim_name(o, NULL)) != NULL; o++) {
            musec_optim_config cfg = rig_config(name, "");
            CHECK(ms_optim_config_get(&cfg, key, own, sizeof own) == MUSEC_OK, "%s", key);
            if (strcmp(own, usual) == 0 || !musec_optim_reads(&cfg, key)) continue;
            CHECK(find_default(help, name, said, sizeof said), "%s of %s is %s: \"%s\"", key, name,
                  own, help);
            CHECK(musec_optim_config_set(&cfg, key, said) == MUSEC_OK, "%s: \"%s\"", key, said);
            CHECK(ms_optim_config_get(&cfg, key, said, sizeof said) == MUSEC_OK, "%s", key);
            CHECK(strcmp(said, own) == 0, "%s of %s is %s, not %s", key, name, own, said);
        }
    }
}

TEST(every_listed_choice_can_be_set)
{
    for (size_t i = 0; musec_optim_option(i, NULL, NULL) != NULL; i++) {
        const char *values = NULL, *help = NULL, *name = musec_optim_option(i, &values, &help);
        char        text[160];
        CHECK(values != NULL && help != NULL && strchr(help, '[') != NULL,
              "%s: its help names no default", name);
        if (strchr(values, '|') == NULL || strpbrk(values, "XDKTQN") != NULL) continue;
        snprintf(text, sizeof text, "%s", values);
        for (char *at = text, *next; at != NULL; at = next) {
            musec_optim_config cfg = rig_config("spectra", "");
            next                   = strchr(at, '|');
            if (next != NULL) *next++ = '\0';
            CHECK(musec_optim_config_set(&cfg, name, at) == MUSEC_OK, "%s is \"%s\"", name, at);
        }
    }
}

TEST(every_spelling_of_an_option_sets_its_fields)
{
    musec_optim_config c = rig_config("spectra", "lr=3e-2 beta=1 threshold=0.5 base=ademamix");
    CHECK(c.lr == 0.03 && c.beta == 1.0 && strcmp(c.base, "ademamix") == 0, "numbers");
    CHECK(c.threshold == 0.5 && c.threshold_rule == MUSEC_THRESHOLD_FIXED, "number");
    c = rig_config("soft-musec", "threshold=rms:2.5 update-scale=unit ns-mode=accurate ns-iters=7");
    CHECK(c.threshold == 2.5 && c.threshold_rule == MUSEC_THRESHOLD_RMS, "rms");
    CHECK(c.update_scale == 1 && c.ns_mode == 3 && c.ns_iters == 7, "codes");
    c = rig_config("soft-musec", "threshold=quantile:1 update_scale=paper decay_form=cautious-lr2");
    CHECK(c.threshold == 1.0 && c.threshold_rule == MUSEC_THRESHOLD_QUANTILE, "quantile");
    CHECK(c.update_scale == 0 && c.decay_form == 4, "underscores");
    c = rig_config("muon",
                   "weight-decay=0.5 weight-decay=qk=1.2,mlp=0.3 seed=18446744073709551615");
    CHECK(c.weight_decay[MUSEC_ROLE_QK] == 1.2 && c.weight_decay[MUSEC_ROLE_MLP] == 0.3 &&
              c.weight_decay[MUSEC_ROLE_VO] == 0.5 && c.weight_decay[MUSEC_ROLE_MATRIX] == 0.5,
          "decay by role");
    CHECK(c.seed == UINT64_MAX, "seed");
    CHECK(rig_config("adam", "").decay_form == 5 && rig_config("adamw", "").decay_form == 0,
          "adam's decay is coupled");
    CHECK(rig_config("lion", "").beta2 == 0.99 && rig_config("adamw", "").beta2 == 0.999,
          "lion has a beta2 of its own");
}

/* What config_get writes sets the same bits again, for at least two values of every option. */
TEST(every_option_comes_back_bit_for_bit)
{
    static const char *const values[] = {
        "0",        "1",       "3",       "0.1",         "0.30000000000000004", /* has 17 digits */
        "1e-300",   "5e-324",  "0.75",    "rms:2.5",     "quantile:0.3",
        "rms",      "no",      "yes",     "paper",       "unit",
        "exact",    "hard",    "soft",    "ademamix",    "signum",
        "keller",   "zero",    "skip",    "lr2",         "polar-express",
        "first",    "ema",     "stop",    "coupled",     "qk=1.2,vo=0.1,mlp=3e-17",
        "matrix=1", "1e15",    "1000000", "none",        "heavy-ball",
        "sgdm",     "rms:0.1", "0.99",    "frank-wolfe", "18446744073709551615",
        "f16",      "bf16",    "own",     "rows",        "elements",
        "polar",    "sharp",   "added",   "floor",       "adam",
    };
    char text[256];
    for (size_t i = 0; musec_optim_option(i, NULL, NULL) != NULL; i++) {
        const char *name  = musec_optim_option(i, NULL, NULL);
        int         taken = 0;
        for (size_t v = 0; v < COUNT(values); v++) {
            musec_optim_config a = rig_config("spectra", ""), b = rig_config("spectra", "");
            if (musec_optim_config_set(&a, name, values[v]) != MUSEC_OK) continue;
            taken++;
            CHECK(ms_optim_config_get(&a, name, text, sizeof text) == MUSEC_OK, "%s", name);
            CHECK(musec_optim_config_set(&b, name, text) == MUSEC_OK, "%s is \"%s\"", name, text);
            CHECK(memcmp(&a, &b, sizeof a) == 0, "%s: \"%s\" became \"%s\"", name, values[v], text);
        }
        CHECK(taken >= 2, "%s took %d values", name, taken);
    }
    const musec_optim_config cfg = rig_config("spectra", "");
    CHECK(ms_optim_config_get(&cfg, "no-such-option", text, sizeof text) == MUSEC_EINVAL,
          "unknown");
    CHECK(ms_optim_config_get(&cfg, "report_every", text, 3) == MUSEC_OK && strcmp(text, "10") == 0,
          "a short buffer: %s", text);
}

TEST(bad_options_are_refused_and_change_nothing)
{
    static const struct {
        const char *key, *values[9]; /* until NULL */
    } bad[] = {
        { "learning-rate", { "1" } },
        { "", { "1" } },
        { "lr", { "", "fast", "-1", "nan", "inf", "0.1x" } },
        { "beta", { "1.5" } },
        { "beta1", { "1" } },
        { "eps", { "-1e-9", "0" } }, /* 0 / 0 for an element that never had a gradient */
        { "threshold",
          { "0", "-2", "rms:", "rms:0", "rms:nan", "quantile:1.5", "quantile", "max:2" } },
        { "update-scale", { "Unit" } },
        { "ns-mode", { "pape", "paper|fast", "" } },
        { "ns-iters", { "0", "101", "5.5", "99999999999999999999" } },
        { "base", { "muon", "" } },
        { "weight-decay", { "-1", "head=1", "qk", "qk=", "qk=1,,", "qk=1,vo=x" } },
        { "nesterov", { "true" } },
        { "seed", { "-1", "1.5", "99999999999999999999", "" } },
        { "workspace", { "1GiB", " -3" } },
        { "avg-steps", { "-1" } },
        { "qk-tau", { "0" } },
        { "qk-alpha", { "1.1" } },
        { "ns-tol", { "-1e-3" } },
    };
    for (size_t i = 0; i < COUNT(bad); i++)
        for (size_t v = 0; bad[i].values[v] != NULL; v++) {
            const musec_optim_config before = rig_config("spectra", "seed=5 weight-decay=0.25");
            musec_optim_config       after  = before;
            CHECK(musec_optim_config_set(&after, bad[i].key, bad[i].values[v]) == MUSEC_EINVAL,
                  "%s is \"%s\"", bad[i].key, bad[i].values[v]);
            CHECK(memcmp(&before, &after, sizeof after) == 0, "%s is \"%s\": it was changed",
                  bad[i].key, bad[i].values[v]);
        }
    musec_optim_config cfg = rig_config("muon", "");
    CHECK(musec_optim_config_set(NULL, "lr", "1") == MUSEC_EINVAL, "NULL");
    CHECK(musec_optim_config_set(&cfg, NULL, "1") == MUSEC_EINVAL, "NULL");
    CHECK(musec_optim_config_set(&cfg, "lr", NULL) == MUSEC_EINVAL, "NULL");
    cfg.size = MUSEC_OPTIM_CONFIG_SIZE_1 - 1;
    CHECK(musec_optim_config_set(&cfg, "lr", "1") == MUSEC_EINVAL, "an older config");
}

/* Calls without a context name the key, the value, what is allowed and the nearest name. */
TEST(config_calls_explain_their_refusals)
{
    char bases[160];
    snprintf(bases, sizeof bases, "base is \"nosuch\"; it must be one of %s", ms_base_choices);
    const struct {
        const char *key, *value, *words;
    } bad[] = {
        { "treshold", "1", "there is no option \"treshold\"; did you mean \"threshold\"?" },
        { "ns_itres", "5", "there is no option \"ns_itres\"; did you mean \"ns-iters\"?" },
        { "flavour", "5", "there is no option \"flavour\"" },
        { "lr", "fast", "lr is \"fast\"; it must be a number from 0 to 1e+09" },
        { "ns-iters", "0", "ns-iters is \"0\"; it must be a whole number from 1 to 100" },
        { "clip", "sotf", "clip is \"sotf\"; it must be one of hard|soft; did you mean \"soft\"?" },
        { "base", "nosuch", bases },
        { "lr", NULL, "lr has no value: it is NULL" },
        { NULL, "1", "the name of the option is NULL" },
        { "lr", "0.5", "" },
    };
    static const struct {
        size_t      size;
        const char *name, *words;
    } bad_inits[] = {
        { sizeof(musec_optim_config), "moun",
          "there is no optimizer \"moun\"; did you mean \"muon\"?" },
        { sizeof(musec_optim_config), "conditioner", "it must be one of musec, soft-musec, " },
        { 8, "muon", "8 bytes; it must be sizeof(musec_optim_config)" },
    };
    musec_optim_config cfg;
    char               why[256], cut[9];
    CHECK(musec_optim_config_init_why(&cfg, sizeof cfg, "spectra", why, sizeof why) == MUSEC_OK &&
              why[0] == '\0',
          "%s", why);
    for (size_t i = 0; i < COUNT(bad); i++) {
        const musec_status st =
            musec_optim_config_set_why(&cfg, bad[i].key, bad[i].value, why, sizeof why);
        CHECK((st == MUSEC_OK) == (bad[i].words[0] == '\0') && strcmp(why, bad[i].words) == 0,
              "\"%s\" is not \"%s\"", why, bad[i].words);
    }
    for (size_t i = 0; i < COUNT(bad_inits); i++)
        CHECK(musec_optim_config_init_why(&cfg, bad_inits[i].size, bad_inits[i].name, why,
                                          sizeof why) == MUSEC_EINVAL &&
                  strstr(why, bad_inits[i].words) != NULL,
              "%s", why);
    CHECK(musec_optim_config_init_why(NULL, 8, "muon", cut, sizeof cut) == MUSEC_EINVAL &&
              strcmp(cut, "the conf") == 0,
          "%s", cut);
    CHECK(musec_optim_config_init_why(NULL, 8, "muon", NULL, 9) == MUSEC_EINVAL, "no memory");
}

TEST(a_tolerance_of_0_follows_beta)
{
    musec_optim_config cfg = rig_config("soft-musec", "ns-mode=accurate");
    CHECK(cfg.ns_tol == 0.0 && ms_optim_tol(&cfg) == 0.01 * cfg.beta, "%g", ms_optim_tol(&cfg));
    cfg.beta = 0.0;
    CHECK(ms_optim_tol(&cfg) == 1e-6, "%g", ms_optim_tol(&cfg));
    cfg.ns_tol = 0.1;
    CHECK(ms_optim_tol(&cfg) == 0.1, "%g", ms_optim_tol(&cfg));
}

static void change_config(musec_optim_config *cfg, int which)
{
    switch (which) {
    case 0: cfg->lr = NAN; break;
    case 1: cfg->beta = -0.1; break;
    case 2: cfg->threshold = 0.0; break;
    case 3: cfg->threshold = INFINITY; break;
    case 4: cfg->threshold_rule = 3; break;
    case 5: cfg->ns_mode = 5; break;
    case 6: cfg->decay_form = -1; break;
    case 7: cfg->weight_decay[2] = NAN; break;
    case 8: cfg->base = "nosuch"; break;
    case 9: cfg->base = NULL; break;
    case 10: cfg->base = "adamw"; break; /* only spectra has a choice */
    case 11: cfg->size = MUSEC_OPTIM_CONFIG_SIZE_1 - 1; break;
    case 12: cfg->name = "nosuch"; break;
    case 13: cfg->ns_iters = 0; break;
    case 14: cfg->avg_steps = -1; break;
    case 15: *cfg = rig_config("muon", "ns-mode=fast"); break;    /* quintic steps or exact */
    case 16: *cfg = rig_config("musec", "ns-mode=paper7"); break; /* which leads to soft */
    case 17: *cfg = rig_config("spectra", "clip=hard ns-mode=paper7"); break;
    case 18: *cfg = rig_config("soft-musec", "sharpness=3"); break; /* has no polynomial */
    case 19: cfg->sharpness = 1.5; break;
    case 20: cfg->function = MUSEC_FUNCTION_POLAR; break; /* it stores what becomes of M */
    case 21: cfg->threshold_warmup = 5; break;
    case 22: *cfg = rig_config("adamw", "function=soft"); break; /* it is a base itself */
    case 23: *cfg = rig_config("sgdm", "second-moment=rows"); break;
    case 24: *cfg = rig_config("lion", ""), cfg->base = "sgdm"; break;
    case 25: *cfg = rig_config("muon", "threshold-warmup=5"); break; /* has no threshold */
    case 26: cfg->second_moment = 4; break;
    default: cfg->sharpness = NAN; break;
    }
}

TEST_EACH_DEVICE(create_checks_fields_that_were_set_directly, dev)
{
    musec_optim *opt = NULL;
    for (int which = 0; which <= 27; which++) {
        musec_optim_config cfg = rig_config("soft-musec", "");
        change_config(&cfg, which);
        dev->error.text[0]    = '\0';
        opt                   = (musec_optim *)dev;
        const musec_status st = musec_optim_create(&opt, dev, &cfg);
        CHECK(st == MUSEC_EINVAL && opt == NULL, "change %d: %s", which, musec_status_name(st));
        CHECK(strlen(musec_ctx_error(dev)) > 10, "change %d has no words", which);
    }
    CHECK(musec_optim_create(&opt, dev, NULL) == MUSEC_EINVAL, "NULL");
    musec_optim_destroy(NULL);
}

/* ---- adding and describing ------------------------------------------------------------------- */

static const musec_block bad_blocks[][2] = {
    { { .rows = 5, .cols = 6, .row_step = 6 } },               /* a row beyond the end */
    { { .offset = 1, .rows = 4, .cols = 6, .row_step = 6 } },  /* an element beyond the end */
    { { .offset = -1, .rows = 4, .cols = 6, .row_step = 6 } }, /* an element before the start */
    { { .rows = 0, .cols = 6, .row_step = 6 } },               /* empty */
    { { .rows = 4, .cols = 6, .row_step = 5 } },               /* rows overlap */
    { { .rows = 4, .cols = 6, .row_step = 6, .group_rows = 3, .group_step = 6 } }, /* 4 % 3 */
    { { .rows = 4, .cols = 6, .row_step = 6, .group_rows = 2, .group_step = 6 } }, /* overlap */
    { { .rows = 2, .cols = 6, .row_step = 6, .count = 2, .stride = 0 } }, /* all the same */
    { { .rows = 2, .cols = 6, .row_step = 6, .count = 2, .stride = 6 } }, /* overlap */
    { { .rows = 2, .cols = 6, .row_step = 6, .count = INT64_MAX, .stride = INT64_MAX } },
    { { .rows = 1, .cols = 1, .row_step = 1, .count = INT64_MAX / 8, .stride = 1 } },
    { { .offset = INT64_MAX, .rows = 1, .cols = 6, .row_step = 6 } },
    { { .offset     = 20, /* each step fits an int64_t, their sum does not */
        .rows       = 3,
        .cols       = 1,
        .row_step   = 1,
        .group_rows = 1,
        .group_step = INT64_MAX / 4,
        .count      = 3,
        .stride     = INT64_MAX / 4 } },
    { { .rows = 3, .cols = 6, .row_step = 6 },
      { .offset = 12, .rows = 2, .cols = 6, .row_step = 6 } },
    { { .rows = 4, .cols = 4, .row_step = 6 },
      { .offset = 3, .rows = 4, .cols = 3, .row_step = 6 } },
};

static void check_refused(rig *r, const musec_param *param, const char *what)
{
    r->dev->error.text[0] = '\0';
    const musec_status st = musec_optim_add(r->opt, param, NULL);
    CHECK(st == MUSEC_EINVAL, "%s: %s", what, musec_status_name(st));
    CHECK(strlen(musec_ctx_error(r->dev)) > 10, "%s: \"%s\"", what, musec_ctx_error(r->dev));
}

TEST_EACH_DEVICE(invalid_parameters_are_refused, dev)
{
    static const rig_param first = { .name = "w", .rows = 4, .cols = 6 };
    rig                    r     = rig_make(dev, "soft-musec", "", MUSEC_F32, &first, 1, 0);
    const musec_param      good  = { .name = "v", .weight = r.g[0].view };
    musec_param            bad   = good;
    bad.name                     = "w";
    check_refused(&r, &bad, "a name twice");
    CHECK(strstr(musec_ctx_error(dev), "w") != NULL, "%s", musec_ctx_error(dev));
    bad.name = NULL, check_refused(&r, &bad, "no name");
    bad.name = "", check_refused(&r, &bad, "an empty name");
    bad = good, bad.role = (musec_role)7, check_refused(&r, &bad, "no role");
    bad = good, bad.lr_factor = -1.0, check_refused(&r, &bad, "a factor below 0");
    bad = good, bad.lr_factor = NAN, check_refused(&r, &bad, "a factor of NaN");
    bad = good, bad.weight.data = NULL, check_refused(&r, &bad, "no weight");
    bad = good, bad.weight.ld = 5, check_refused(&r, &bad, "rows that overlap");
    bad = good, bad.n_blocks = 1, check_refused(&r, &bad, "one block, but no blocks");
    for (size_t b = 0; b < COUNT(bad_blocks); b++) {
        char what[32];
        snprintf(what, sizeof what, "blocks %zu", b);
        bad          = good;
        bad.blocks   = bad_blocks[b];
        bad.n_blocks = bad_blocks[b][1].rows > 0 ? 2 : 1;
        check_refused(&r, &bad, what);
    }
    const musec_block in_padding = { .rows = 3, .cols = 6, .row_step = 6 };
    bad = good, bad.weight.cols = 5, bad.blocks = &in_padding, bad.n_blocks = 1;
    check_refused(&r, &bad, "a block over the padding");
    rig_step(&r, 0, 1.0);
    check_refused(&r, &good, "after the first step");
    CHECK(musec_optim_add(NULL, &good, NULL) == MUSEC_EINVAL, "NULL");
    CHECK(musec_optim_add(r.opt, NULL, NULL) == MUSEC_EINVAL, "NULL");
    rig_free(&r);
}

/* Columns or blocks of one buffer may be separate parameters, but no two may share an element. */
TEST_EACH_DEVICE(parameters_may_share_a_buffer_but_no_element, dev)
{
    static const rig_param   first = { .name = "fused", .rows = 6, .cols = 8 };
    const musec_block        upper = { .rows = 2, .cols = 4, .row_step = 8 };
    const musec_block        lower = { .offset = 16, .rows = 2, .cols = 4, .row_step = 8 };
    rig                      r     = rig_make(dev, "muon", "", MUSEC_F32, &first, 1, 0);
    musec_optim             *opt   = NULL;
    const musec_optim_config cfg   = rig_config("muon", "");
    musec_param              p     = { .name = "left", .weight = r.w[0].view };
    CHECK_OK(dev, musec_optim_create(&opt, dev, &cfg));
    p.weight.cols = 4;
    p.blocks      = &upper;
    p.n_blocks    = 1;
    CHECK_OK(dev, musec_optim_add(opt, &p, NULL)); /* rows 0 and 1 of columns 0 to 3 */
    p.name   = "below";
    p.blocks = &lower;
    CHECK_OK(dev, musec_optim_add(opt, &p, NULL)); /* rows 2 and 3 */
    p.name = "right", p.blocks = NULL, p.n_blocks = 0;
    p.weight.data = (float *)r.w[0].view.data + 4;
    CHECK_OK(dev, musec_optim_add(opt, &p, NULL)); /* columns 4 to 7 */
    p.name = "again";
    CHECK(musec_optim_add(opt, &p, NULL) == MUSEC_EINVAL, "the same matrix twice");
    CHECK(strstr(dev->error.text, "again") != NULL && strstr(dev->error.text, "right") != NULL,
          "%s", dev->error.text);
    p.weight.data = (float *)r.w[0].view.data + 3;
    p.weight.cols = 1; /* the last column of left and below */
    CHECK(musec_optim_add(opt, &p, NULL) == MUSEC_EINVAL, "a column of it");
    p.weight.data = (float *)r.w[0].view.data + 32;
    p.weight.rows = 2, p.weight.cols = 4; /* rows 4 and 5, which are in no block */
    CHECK_OK(dev, musec_optim_add(opt, &p, NULL));
    CHECK(musec_optim_add(opt, &(musec_param){ .name = "all", .weight = r.w[0].view }, NULL) ==
              MUSEC_EINVAL,
          "all of it");
    musec_optim_destroy(opt);
    rig_free(&r);
}

TEST_EACH_DEVICE(the_description_names_every_parameter, dev)
{
    static const rig_param params[] = {
        { .name = "layer.0.attention", .role = MUSEC_ROLE_QK, .rows = 4, .cols = 6 },
        { .name = "layer.0.mlp", .role = MUSEC_ROLE_MLP, .rows = 9, .cols = 4, .lr_factor = 2.0 },
        { .name = "embedding", .role = MUSEC_ROLE_EMBED, .rows = 6, .cols = 4 },
    };
    static const char *const words[] = {
        "layer.0.attention", "layer.0.mlp", "embedding", "qk",  "mlp",  "embed",   "adamw",
        "rms:0.5",           "soft-musec",  "keller",    "1.5", "unit", "cautious"
    };
    const char *options =
        "threshold=rms:0.5 update-scale=unit shape-rule=keller decay-form=cautious";
    char         text[4096], part[64];
    rig          r      = rig_make(dev, "soft-musec", options, MUSEC_F32, params, COUNT(params), 0);
    const size_t length = musec_optim_describe(r.opt, text, sizeof text);
    CHECK(length == strlen(text) && length < sizeof text, "%zu characters", length);
    for (size_t i = 0; i < COUNT(words); i++)
        CHECK(strstr(text, words[i]) != NULL, "\"%s\" is missing from:\n%s", words[i], text);
    memset(part, 'x', sizeof part);
    CHECK(musec_optim_describe(r.opt, part, 32) == length, "a short buffer");
    CHECK(strlen(part) == 31 && strncmp(part, text, 31) == 0 && part[32] == 'x', "cut: %s", part);
    CHECK(musec_optim_describe(r.opt, NULL, 0) == length, "no buffer");
    rig_free(&r);
}

/* ---- roles ----------------------------------------------------------------------------------- */

TEST_EACH_DEVICE(embeddings_heads_and_vectors_get_adamw, dev)
{
    rig_param   params[] = { { .name = "a", .role = MUSEC_ROLE_EMBED, .rows = 7, .cols = 4 },
                             { .name = "b", .role = MUSEC_ROLE_HEAD, .rows = 7, .cols = 4 },
                             { .name = "c", .role = MUSEC_ROLE_VECTOR, .rows = 1, .cols = 9 },
                             { .name = "d", .role = MUSEC_ROLE_MLP, .rows = 7, .cols = 4 } };
    const char *aux = "aux-lr=0.1 aux-beta1=0.8 aux-beta2=0.9 aux-eps=1e-3 aux-weight-decay=0.4 "
                      "weight-decay=9 decay-form=coupled shape-rule=moonlight nesterov=yes "
                      "update-scale=unit threshold=0.1";
    rig         a   = rig_make(dev, "soft-musec", aux, MUSEC_F32, params, COUNT(params), 3);
    for (size_t p = 0; p < COUNT(params); p++)
        params[p].role = MUSEC_ROLE_MATRIX;
    rig b = rig_make(dev, "adamw", "lr=0.1 beta1=0.8 beta2=0.9 eps=1e-3 weight-decay=0.4",
                     MUSEC_F32, params, COUNT(params), 3);
    rig_steps(&a, 0, 4), rig_steps(&b, 0, 4);
    for (size_t p = 0; p < 3; p++)
        CHECK(rig_same_weight(&a, p, &b, p), "%s: apart by %g", params[p].name,
              rig_apart(&a, p, &b, p));
    CHECK(!rig_same_weight(&a, 3, &b, 3), "a matrix got AdamW");
    rig_free(&a), rig_free(&b);
}

/* ---- options that an optimizer reads --------------------------------------------------------- */

/* Two values of every option that some optimizers do not read. */
static const char *const values_of[][3] = {
    { "threshold", "0.1", "rms:2" },
    { "update-scale", "paper", "unit" },
    { "clip", "hard", "soft" },
    { "ns-mode", "paper", "exact" },
    { "ns-iters", "1", "7" },
    { "ns-tol", "1e-3", "0.3" },
    { "ns-coeffs", "keller", "polar-express" },
    { "literal", "no", "yes" },
    { "qk-tau", "100", "1e-3" },
    { "qk-alpha", "0.5", "1" },
    { "beta", "0.05", "0.7" },
    { "momentum-form", "ema", "heavy-ball" },
    { "momentum-init", "first", "zero" },
    { "nesterov", "no", "yes" },
    { "beta1", "0.9", "0.5" },
    { "beta2", "0.999", "0.6" },
    { "eps", "1e-8", "0.1" },
    { "beta3", "0.9999", "0.3" },
    { "alpha", "8", "1" },
    { "alpha-warmup", "0", "50" },
    { "beta3-warmup", "0", "50" },
    { "second-beta", "0.9", "0.3" },
    { "second-eps", "0.1", "1" },
    { "ns-eps", "0.5", "2" },
};

/* Options that change what an optimizer reads. */
static const char *const read_by[][2] = {
    { "soft-musec", "ns-mode=fast" },
    { "soft-musec", "ns-mode=accurate" },
    { "soft-musec", "ns-mode=exact" },
    { "muon", "ns-mode=exact" },
    { "spectra", "clip=hard" },
    { "spectra", "base=adamw" },
    { "spectra", "base=ademamix ns-mode=accurate" },
    { "spectra", "base=signum" },
    { "spectra", "function=polar" },
    { "spectra", "function=hard ns-mode=fast base=adamw" },
    { "spectra", "second-moment=rows decay-form=hyperball" },
    { "soft-musec", "second-moment=elements" },
    { "muon", "base=ademamix second-moment=longer" },
};

/* Are four steps the same with both values of the option? */
static bool moves_alike(ms_device *dev, const char *const by[2], const char *const value[3])
{
    static const rig_param param = { .name = "w", .role = MUSEC_ROLE_QK, .rows = 9, .cols = 14 };
    rig                    r[2];
    for (int i = 0; i < 2; i++) {
        r[i] = rig_makef(dev, MUSEC_F32, &param, 1, 3, by[0], "threshold=0.3 %s%s%s=%s", by[1],
                         by[1][0] != '\0' ? " " : "", value[0], value[1 + i]);
        rig_steps(&r[i], 0, 4);
    }
    const bool same = rig_same_weight(&r[0], 0, &r[1], 0);
    rig_free(&r[0]), rig_free(&r[1]);
    return same;
}

/* Returns how many of the options are not read. */
static int check_what_is_read(ms_device *dev, const char *const by[2])
{
    const musec_optim_config cfg    = rig_config(by[0], by[1]);
    int                      unread = 0;
    for (size_t k = 0; k < COUNT(values_of); k++) {
        if (strstr(by[1], values_of[k][0]) != NULL) continue;
        const bool reads  = musec_optim_reads(&cfg, values_of[k][0]) == 1;
        const bool unseen = strncmp(values_of[k][0], "qk-", 3) == 0 || /* no logits are set */
                            strcmp(values_of[k][0], "literal") == 0;   /* only rounding */
        unread += !reads;
        if (!reads || !unseen)
            CHECK(moves_alike(dev, by, values_of[k]) == !reads, "%s %s %s %s", by[0], by[1],
                  reads ? "reads" : "does not read", values_of[k][0]);
    }
    return unread;
}

TEST_EACH_DEVICE(options_that_are_not_read_change_nothing, dev)
{
    const char *name;
    int         unread = 0;
    for (size_t i = 0; (name = musec_optim_name(i, NULL)) != NULL; i++)
        unread += check_what_is_read(dev, (const char *[]){ name, "" });
    for (size_t i = 0; i < COUNT(read_by); i++)
        unread += check_what_is_read(dev, read_by[i]);
    CHECK(unread > 100, "%d", unread);
    const musec_optim_config cfg = rig_config("muon", "");
    CHECK(musec_optim_reads(&cfg, "lr") == 1, "lr");
    musec_optim_config none = rig_config("sgdm", "");
    none.second_moment      = MUSEC_SECOND_ROWS; /* which musec_optim_create() refuses */
    CHECK(musec_optim_reads(&none, "second-beta") == 0, "there is nothing that it could divide");
    CHECK(musec_optim_reads(&cfg, NULL) == 0, "NULL");
    CHECK(musec_optim_reads(NULL, "lr") == 0, "no config");
    CHECK(musec_optim_reads(&(musec_optim_config){ .size = 4 }, "lr") == 0, "not from init");
}
