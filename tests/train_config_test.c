/* train_config_test.c - the fields of a run: to text and back, to config.json and back, and the
 * messages of refusals. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "optim/optim.h"
#include "scratch.h"
#include "train_rig.h"

static const char *text_of(const ms_train_config *cfg, const char *name)
{
    static char text[MS_PATH_MAX];
    CHECK(ms_train_config_get(cfg, name, text, sizeof text) == MUSEC_OK, "%s", name);
    return text;
}

/* ---- text and back --------------------------------------------------------------------------- */

TEST(every_field_is_read_back_bit_for_bit_from_its_text)
{
    const ms_train_config start = train_config("medium", "spectra", NULL);
    ms_train_field        f;
    ms_error              e;
    size_t                n = 0;
    const char           *value;
    for (; ms_train_field_at(n, &f); n++) {
        int taken = 0;
        for (size_t v = 0; (value = train_value(&f, v)) != NULL; v++) {
            ms_train_config a, b;
            char            text[MS_PATH_MAX];
            memcpy(&a, &start, sizeof a), memcpy(&b, &start, sizeof b); /* padding too */
            if (ms_train_config_set(&e, &a, f.name, value) != MUSEC_OK) {
                CHECK(memcmp(&a, &start, sizeof a) == 0, "%s: refused and changed", f.name);
                CHECK(strstr(e.text, f.name) != NULL, "%s is \"%s\": %s", f.name, value, e.text);
                continue;
            }
            taken++;
            CHECK(ms_train_config_get(&a, f.name, text, sizeof text) == MUSEC_OK, "%s", f.name);
            CHECK_OK_ERR(&e, ms_train_config_set(&e, &b, f.name, text));
            CHECK(memcmp(&a, &b, sizeof a) == 0, "%s: \"%s\" became \"%s\"", f.name, value, text);
        }
        CHECK(taken >= 2, "%s took %d values", f.name, taken);
    }
    CHECK(n > 90, "%zu fields", n);
    CHECK(ms_train_config_get(&start, "no-such-field", (char[8]){ "" }, 8) == MUSEC_EINVAL, "get");
}

TEST(hyphens_and_underscores_are_the_same)
{
    ms_train_config cfg = train_config("pico", "muon", NULL);
    train_set(&cfg, "val_every", "17");
    train_set(&cfg, "val-tokens", "18");
    train_set(&cfg, "aux_lr", "0.5");
    CHECK(cfg.val_every == 17 && cfg.val_tokens == 18 && cfg.optim.aux_lr == 0.5, "fields");
    CHECK(strcmp(text_of(&cfg, "val_every"), "17") == 0, "get");
}

/* A run without options has the values that --help shows in brackets. */
TEST(help_names_the_defaults)
{
    const ms_train_config usual = train_config("pico", "soft-musec", NULL);
    const ms_command     *cmd   = train_command();
    ms_train_field        f;
    ms_error              e;
    for (size_t i = 0; ms_train_field_at(i, &f); i++) {
        ms_train_config copy = usual;
        char            word[64];
        size_t          k = 0;
        while (k < cmd->n_options && strcmp(cmd->options[k].name, f.name) != 0)
            k++;
        CHECK(k < cmd->n_options, "%s is no option", f.name);
        const char *help = cmd->options[k].help, *open = strrchr(help, '[');
        CHECK(open != NULL && help[strlen(help) - 1] == ']', "%s: %s", f.name, help);
        if (text_of(&usual, f.name)[0] == '\0') continue; /* an empty default is described */
        snprintf(word, sizeof word, "%.*s", (int)strcspn(open + 1, "]:;"), open + 1);
        CHECK_OK_ERR(&e, ms_train_config_set(&e, &copy, f.name, word));
        CHECK(ms_train_config_differs(&usual, &copy, 0) == NULL,
              "%s: the help says %s, a run has %s", f.name, word, text_of(&usual, f.name));
    }
}

/* Every field is in a group that --help shows, and no group is empty. */
TEST(every_field_has_a_group)
{
    ms_train_field f;
    size_t         used[16] = { 0 }, n = 0;
    for (size_t i = 0; ms_train_field_at(i, &f); i++) {
        size_t g = 0;
        while (ms_train_group(g) != NULL && strcmp(ms_train_group(g), f.group) != 0)
            g++;
        CHECK(ms_train_group(g) != NULL, "%s: no group \"%s\"", f.name, f.group);
        used[g]++;
    }
    for (; ms_train_group(n) != NULL; n++)
        CHECK(used[n] > 0, "%s is empty", ms_train_group(n));
    CHECK(n >= 7 && train_command()->n_groups == n, "%zu groups", n);
}

/* ---- refusals -------------------------------------------------------------------------------- */

TEST(for_an_unknown_name_the_nearest_is_suggested)
{
    static const struct {
        const char *key, *near;
    } cases[] = {
        { "widht", "\"width\"" },
        { "lr_qq", "\"lr-qk\"" },
        { "treshold", "\"threshold\"" },
        { "val_evry", "\"val-every\"" },
        { "weight_dekay", "\"weight-decay\"" },
        { "xyzzyxyzzy", "musec train --help" },
    };
    ms_train_config cfg = train_config("pico", "muon", NULL);
    ms_error        e;
    char            huge[3000];
    for (size_t i = 0; i < COUNT(cases); i++) {
        CHECK_FAILS(&e, ms_train_config_set(&e, &cfg, cases[i].key, "1"), MUSEC_EINVAL,
                    cases[i].key);
        CHECK(strstr(e.text, cases[i].near) != NULL, "%s: %s", cases[i].key, e.text);
    }
    memset(huge, 'w', sizeof huge - 1);
    huge[sizeof huge - 1] = '\0';
    CHECK(ms_train_config_set(&e, &cfg, huge, "1") == MUSEC_EINVAL, "a long name");
    CHECK(ms_train_config_set(&e, &cfg, "", "1") == MUSEC_EINVAL, "no name");
    CHECK(ms_train_config_set(&e, &cfg, "layers", huge) == MUSEC_EINVAL, "a long value");
    CHECK_FAILS(&e, ms_train_config_set(&e, &cfg, "stages", huge), MUSEC_EINVAL,
                "stages is longer than 1023");
    CHECK_FAILS(&e, ms_train_config_set(&e, &cfg, "data", "a\xff"), MUSEC_EINVAL, "UTF-8");
    CHECK(strstr(e.text, "data") != NULL, "%s", e.text);
}

TEST(values_out_of_range_are_refused_by_name)
{
    static const struct {
        const char *key, *values; /* separated by blanks; a leading blank is the empty value */
    } bad[] = {
        { "steps", " 0 -1 1.5 1.5e0 10x 99999999999999999999" },
        { "batch", "0" },
        { "micro-batches", "0" },
        { "max-doc", "0" },
        { "layers", "65 0" },
        { "head", "1" },
        { "vocab", "65537 -1" },
        { "precision", " f64" },
        { "deterministic", "maybe" },
        { "qk-norm", " maybe 1" },
        { "cap", "tan" },
        { "cap-scale", "-1 nan" },
        { "cap-shift", "inf" },
        { "rope-base", "0" },
        { "rope-share", "1.5" },
        { "norm-eps", "0" },
        { "cooldown", "1.1 nan" },
        { "momentum-from", "2" },
        { "seed", " -1 1.5" },
        { "diverge-factor", "0.5" },
        { "diverge-steps", "0" },
        { "tokenizer", "gpt byte|gpt2" },
        { "lr-qk", "-1" },
        { "val-tokens", "0" },
        { "keep", "-1" },
        { "lr", "-1" },
        { "beta", "2" },
        { "threshold", "0" },
        { "weight-decay", "head=1" },
    };
    for (size_t i = 0; i < COUNT(bad); i++)
        for (const char *at = bad[i].values;; at++) {
            ms_train_config start = train_config("nano", "muon", NULL), cfg;
            ms_error        e     = { "" };
            char            value[32];
            snprintf(value, sizeof value, "%.*s", (int)strcspn(at, " "), at);
            memcpy(&cfg, &start, sizeof cfg);
            CHECK(ms_train_config_set(&e, &cfg, bad[i].key, value) == MUSEC_EINVAL, "%s is \"%s\"",
                  bad[i].key, value);
            CHECK(strncmp(e.text, bad[i].key, strlen(bad[i].key)) == 0 &&
                      strstr(e.text, "must be") != NULL,
                  "%s is \"%s\": %s", bad[i].key, value, e.text);
            CHECK(memcmp(&cfg, &start, sizeof cfg) == 0, "%s: it was changed", bad[i].key);
            at += strcspn(at, " ");
            if (*at == '\0') break;
        }
}

TEST(fields_are_checked_together)
{
    static const struct {
        const char *key, *value, *what;
    } bad[] = {
        { "vocab", "256", "vocab is 256" },
        { "tokenizer", "gpt2", NULL }, /* the vocabulary follows */
        { "long-layers", "0,x", "long-layers is \"0,x\"" },
        { "long-layers", "", "long-layers" },
        { "long-layers", "0,", "long-layers" },
        { "long-layers", "64", "long-layers" },
        { "long-layers", "99999999999999999999", "long-layers" },
        { "long-layers", "-1", "long-layers" },
        { "long-layers", "0,63", NULL },
        { "head", "63", "head is 63" },
        { "cap-scale", "0", "cap_scale is 0" },
        { "width", "8", NULL }, /* narrower than the gates that are not there */
        { "ns-mode", "fast", "ns-mode" },
        { "base", "adamw", NULL },
        { "threshold-warmup", "5", "threshold-warmup" }, /* there is no threshold */
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        ms_train_config cfg = train_config("nano", "muon", NULL);
        ms_error        e   = { "" };
        CHECK_OK_ERR(&e, ms_train_config_set(&e, &cfg, bad[i].key, bad[i].value));
        const musec_status st = ms_train_config_check(&e, &cfg);
        CHECK(st == (bad[i].what == NULL ? MUSEC_OK : MUSEC_EINVAL), "%s is \"%s\": %s", bad[i].key,
              bad[i].value, e.text);
        CHECK(bad[i].what == NULL || strstr(e.text, bad[i].what) != NULL, "\"%s\"", e.text);
    }
    ms_train_config cfg = train_config("small", "muon", NULL);
    ms_error        e;
    CHECK_OK_ERR(&e, ms_train_config_set(&e, &cfg, "seed", "9"));
    CHECK_OK_ERR(&e, ms_train_config_check(&e, &cfg));
    CHECK(cfg.model.vocab == 50304 && cfg.model.long_layers == 1032 && cfg.optim.seed == 9,
          "derived fields");
}

/* ---- presets --------------------------------------------------------------------------------- */

TEST(every_preset_works_with_every_optimizer)
{
    const char *name, *optimizer, *help = NULL;
    ms_error    e;
    size_t      n = 0;
    for (; (name = ms_preset_name(n, &help)) != NULL; n++)
        for (size_t o = 0; (optimizer = musec_optim_name(o, NULL)) != NULL; o++) {
            ms_train_config cfg = train_config(name, optimizer, NULL);
            ms_schedule     s;
            ms_gpt_sizes    sizes;
            CHECK_OK_ERR(&e, ms_train_config_check(&e, &cfg));
            CHECK_OK_ERR(&e, ms_schedule_make(&e, &cfg, &s));
            CHECK_OK_ERR(&e,
                         ms_gpt_measure(&e, &cfg.model, MUSEC_F32, s.max_tokens, 1 << 21, &sizes));
            CHECK(strcmp(cfg.optim.name, optimizer) == 0 && strlen(help) > 10, "%s", name);
        }
    CHECK(n == 10, "%zu presets", n);
    ms_train_config cfg;
    CHECK_FAILS(&e, ms_train_config_init(&e, &cfg, "tiny", "muon"), MUSEC_EINVAL, "tiny");
    CHECK(strstr(e.text, "pico|nano") != NULL, "%s", e.text);
    CHECK_FAILS(&e, ms_train_config_init(&e, &cfg, "nano", "nosuch"), MUSEC_EINVAL, "nosuch");
}

/* The paper's models in full have the paper's numbers of parameters, and the plain ones those of
 * docs/training.md. */
TEST(presets_have_their_numbers_of_parameters)
{
    static const struct {
        const char *preset;
        int64_t     matrix, all;
    } presets[] = {
        { "small", 77856768, 155123712 },        { "medium", 201326592, 304351264 },
        { "wide", 805306368, 1011355680 },       { "small-full", 75497472, 490908680 },
        { "medium-full", 201326592, 613420440 }, { "wide-full", 805306368, 1629493912 },
    };
    for (size_t i = 0; i < COUNT(presets); i++) {
        ms_train_config cfg = train_config(presets[i].preset, "muon", NULL);
        ms_gpt_sizes    n;
        ms_error        e;
        CHECK_OK_ERR(&e, ms_train_config_check(&e, &cfg));
        CHECK_OK_ERR(&e, ms_gpt_measure(&e, &cfg.model, MUSEC_BF16, 1024, 1 << 21, &n));
        const int64_t all = n.n_matrix + n.n_embed + n.n_head + n.n_vector;
        CHECK(n.n_matrix == presets[i].matrix && all == presets[i].all,
              "%s: %lld in matrices, %lld", presets[i].preset, (long long)n.n_matrix,
              (long long)all);
    }
}

/* Layers, tables and sources that do not exist are named, and lists that cannot be read. */
TEST(lists_of_layers_are_checked)
{
    static const struct {
        const char *key, *value, *says;
    } bad[] = {
        { "value-tables", "0:0,4:1", "layer 4" },
        { "value-tables", "0:16", "table 16" },
        { "value-tables", "0", "LAYER:NUMBER" },
        { "value-tables", "0:0;1:0", "LAYER:NUMBER" },
        { "value-tables", "0:0,0:1", "twice" },
        { "value-tables", "1:-1", "LAYER:NUMBER" },
        { "skips", "2:2", "an earlier one" },
        { "skips", "64:1", "LAYER:NUMBER" },
        { "skips", "1:99999999999999999999", "be" },
        { "backout", "4", "a layer from 0 to 3" },
        { "attn-from", "3", "a layer from 0 to 2" },
        { "bare-layers", "4", "bare-layers names layer 4; the last of the 4 layers is 3" },
        { "paired-layers", "0,9", "names layer 9" },
        { "backout", "x", "none" },
        { "embed2", "yes", "x0_mix" },
        { "bigram", "100", "post_mix" },
        { "mudd", "4", "mudd needs" },
        { "bare-layers", "0", "layer 0" },
        { "paired-layers", "0;1", "paired-layers" },
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        ms_train_config cfg = train_config("nano", "muon", NULL);
        ms_error        e;
        train_set(&cfg, bad[i].key, bad[i].value);
        CHECK_FAILS(&e, ms_train_config_check(&e, &cfg), MUSEC_EINVAL, bad[i].says);
    }
    ms_train_config cfg = train_config("nano", "muon", NULL);
    ms_error        e;
    train_set(&cfg, "untie", "5"), train_set(&cfg, "tied", "yes");
    CHECK_FAILS(&e, ms_train_config_check(&e, &cfg), MUSEC_EINVAL, "untie is 5");
    train_set(&cfg, "tied", "no"), train_set(&cfg, "skips", "3:1,2:0");
    train_set(&cfg, "backout", "2"), train_set(&cfg, "value-tables", "0:1,3:0");
    CHECK_OK_ERR(&e, ms_train_config_check(&e, &cfg));
    CHECK(cfg.model.skip_from[3] == 2 && cfg.model.skip_from[2] == 1 && cfg.model.backout == 3 &&
              cfg.model.value_table[0] == 2 && cfg.model.value_table[3] == 1,
          "the lists");
}

/* A preset's lr is used by the optimizers that have no rate of their own. */
TEST(optimizers_keep_their_own_rates)
{
    static const struct {
        const char *preset, *optimizer;
        double      lr;
    } rates[] = {
        { "nano", "muon", 0.02 },       { "nano", "soft-musec", 0.2 },
        { "nano", "adamw", 0.003 },     { "nano", "signum", 0.0003 },
        { "small", "muon", 0.023 },     { "small", "muonclip", 0.023 },
        { "small", "soft-musec", 0.1 }, { "small", "spectra", 0.1 },
        { "small", "adamw", 0.003 },    { "medium", "muon", 0.015 },
        { "medium", "musec", 0.1 },     { "medium", "signum", 0.0003 },
        { "wide", "ademamix", 0.003 },  { "pico", "sgdm", 0.01 },
    };
    for (size_t i = 0; i < COUNT(rates); i++) {
        const ms_train_config cfg = train_config(rates[i].preset, rates[i].optimizer, NULL);
        CHECK(cfg.optim.lr == rates[i].lr, "%s, %s: lr is %g", rates[i].preset, rates[i].optimizer,
              cfg.optim.lr);
    }
}

static bool is_among(const void *given, const char *key) { return strstr(given, key) != NULL; }

TEST(nanogpt_files_imply_the_gpt2_tokenizer)
{
    static const struct {
        const char *format, *given, *tokenizer;
    } cases[] = {
        { "shard", "data-format", "byte" },
        { "nanogpt", "data-format", "gpt2" },
        { "nanogpt", "data-format tokenizer", "byte" }, /* a given tokenizer is kept */
    };
    char notes[MS_CONFIG_NOTES];
    for (size_t i = 0; i < COUNT(cases); i++) {
        ms_train_config cfg = train_config("pico", "muon", NULL);
        train_set(&cfg, "data-format", cases[i].format);
        ms_train_config_resolve(&cfg, is_among, cases[i].given, notes);
        CHECK(strcmp(text_of(&cfg, "tokenizer"), cases[i].tokenizer) == 0, "case %zu", i);
        CHECK((notes[0] != '\0') == (i == 1), "case %zu: %s", i, notes);
    }
}

/* The preset computes clips another way, and begins some weights at zero. */
TEST(compositions_replace_what_a_preset_has_for_others)
{
    char            notes[MS_CONFIG_NOTES];
    ms_train_config cfg = train_config("pico", "spectra", NULL);
    train_set(&cfg, "function", "polar");
    ms_train_config_resolve(&cfg, is_among, "function", notes);
    CHECK(cfg.optim.ns_mode == MUSEC_NS_PAPER && strstr(notes, "ns-mode paper") != NULL, "%s",
          notes);
    cfg = train_config("pico", "muonh", NULL);
    ms_train_config_resolve(&cfg, is_among, "init-down", notes);
    CHECK(cfg.model.init_out == 0.5 && cfg.model.init_down == 0.0, "%s", notes);
    CHECK(strstr(notes, "init-out is 0.5") != NULL && strstr(notes, "init-down") == NULL, "%s",
          notes);
    cfg = train_config("pico", "muon", NULL);
    ms_train_config_resolve(&cfg, is_among, "", notes);
    CHECK(cfg.model.init_out == 0.0 && notes[0] == '\0', "%s", notes);
}

/* ---- differences ----------------------------------------------------------------------------- */

TEST(each_single_change_is_found)
{
    const ms_train_config start = train_config("nano", "spectra", NULL),
                          other = train_config("nano", "muon", NULL);
    ms_train_field f;
    CHECK(ms_train_config_differs(&start, &start, 0) == NULL, "nothing was changed");
    CHECK(strcmp(ms_train_config_differs(&start, &other, 0), "optimizer") == 0, "optimizer");
    for (size_t i = 0; ms_train_field_at(i, &f); i++) {
        ms_train_config cfg = start;
        CHECK(train_change(&cfg, &f), "%s cannot be changed", f.name);
        const char *found = ms_train_config_differs(&start, &cfg, 0);
        CHECK(found != NULL && strcmp(found, f.name) == 0, "%s was changed, %s was found", f.name,
              found == NULL ? "nothing" : found);
        for (unsigned flag = 1; flag <= MS_FIELD_FUNCTION; flag <<= 1) {
            const bool ignored = ms_train_config_differs(&start, &cfg, flag) == NULL;
            CHECK(ignored == ((f.flags & flag) != 0), "%s, flag %u", f.name, flag);
        }
    }
}

/* A field that is part of the key only where it is set needs a default to compare with, its own or
 * that of the optimizer, and only changes that a resumed run may make are recorded. */
TEST(flags_of_fields_are_consistent)
{
    const musec_optim_config own = train_config("nano", "muon", NULL).optim;
    ms_train_field           f;
    char                     text[256];
    for (size_t i = 0; ms_train_field_at(i, &f); i++) {
        CHECK((f.flags & MS_FIELD_KEYED_IF_SET) == 0 || f.initial != NULL ||
                  ms_optim_config_get(&own, f.name, text, sizeof text) == MUSEC_OK,
              "%s", f.name);
        CHECK((f.flags & MS_FIELD_RECORDED) == 0 || (f.flags & MS_FIELD_RESUMABLE) != 0, "%s",
              f.name);
    }
}

/* ---- config.json ----------------------------------------------------------------------------- */

TEST(a_config_is_read_back_from_its_file)
{
    const char    *optimizer;
    ms_train_field f;
    ms_error       e;
    for (size_t o = 0; (optimizer = musec_optim_name(o, NULL)) != NULL; o++) {
        ms_train_config cfg = train_config("small", optimizer, NULL), back;
        for (size_t i = 0; o > 0 && ms_train_field_at(i, &f); i++)
            CHECK(train_change(&cfg, &f), "%s cannot be changed", f.name);
        CHECK_OK_ERR(&e, ms_train_config_write(&e, tmp_path("config.json"), &cfg));
        CHECK_OK_ERR(&e, ms_train_config_read(&e, tmp_path("config.json"), &back));
        const char *differs = ms_train_config_differs(&cfg, &back, 0);
        CHECK(differs == NULL && back.preset == cfg.preset, "%s: %s", optimizer, differs);
    }
}

static void check_damaged(const char *what, const char *bytes, size_t n, const char *says)
{
    const char     *path = tmp_path("damaged.json");
    ms_train_config cfg;
    ms_error        e = { "" };
    put_file(path, bytes, n);
    const musec_status st = ms_train_config_read(&e, path, &cfg);
    CHECK(st == MUSEC_EFORMAT || st == MUSEC_EINVAL, "%s: %s", what, musec_status_name(st));
    CHECK(strstr(e.text, path) == e.text && strlen(e.text) > strlen(path) + 8 &&
              strchr(e.text, '\n') == NULL,
          "%s: %s", what, e.text);
    CHECK(strstr(e.text, says) != NULL, "%s: %s", what, e.text);
}

/* Choices and lists are text.  A config of older versions, all text, is read as the same. */
TEST(numbers_are_json_numbers)
{
    static const struct {
        const char *key;
        json_type   type;
    } some[]            = { { "layers", JSON_INTEGER },    { "seed", JSON_INTEGER },
                            { "lr", JSON_REAL },           { "cooldown", JSON_REAL },
                            { "eps", JSON_REAL },          { "ns_iters", JSON_INTEGER },
                            { "mtp", JSON_STRING },        { "qk_norm", JSON_STRING },
                            { "workspace", JSON_INTEGER }, { "data", JSON_STRING },
                            { "threshold", JSON_REAL },    { "weight_decay", JSON_OBJECT },
                            { "long_layers", JSON_STRING } };
    ms_train_config cfg = train_config("nano", "soft-musec", NULL), back;
    ms_error        e;
    train_set(&cfg, "threshold", "1");
    train_set(&cfg, "long_layers", "0");
    json_t *json = ms_train_config_json(&cfg), *texts = ms_train_config_texts(&cfg);
    for (size_t i = 0; i < COUNT(some); i++)
        CHECK(json_typeof(json_object_get(json, some[i].key)) == some[i].type, "%s", some[i].key);
    CHECK_OK_ERR(&e, ms_train_config_from_json(&e, "texts", texts, &back));
    CHECK(ms_train_config_differs(&cfg, &back, 0) == NULL, "texts");
    json_decref(json);
    json_decref(texts);
    train_set(&cfg, "threshold", "rms:1");
    train_set(&cfg, "seed", "18446744073709551615");
    json = ms_train_config_json(&cfg);
    CHECK(json_is_string(json_object_get(json, "threshold")), "a rule is no number");
    CHECK(json_is_string(json_object_get(json, "seed")), "2^64 - 1 has no room");
    json_decref(json);
}

TEST(a_config_by_hand_may_have_numbers_and_few_fields)
{
    static const char text[] = "{\"preset\": \"nano\", \"optimizer\": \"muon\", \"layers\": 3, "
                               "\"lr\": 0.1, \"weight_decay\": 0.25, \"seed\": 7}";
    ms_train_config   cfg;
    ms_error          e;
    put_text(tmp_path("numbers.json"), text);
    CHECK_OK_ERR(&e, ms_train_config_read(&e, tmp_path("numbers.json"), &cfg));
    CHECK(cfg.model.layers == 3 && cfg.optim.lr == 0.1 && cfg.seed == 7 &&
              cfg.optim.weight_decay[MUSEC_ROLE_QK] == 0.25,
          "layers %lld, lr %g", (long long)cfg.model.layers, cfg.optim.lr);
}

TEST(damaged_files_are_refused_in_one_line)
{
#define BEGIN "{\"preset\": \"nano\", \"optimizer\": \"muon\""
    static const struct {
        const char *what, *text, *says;
    } bad[] = {
        { "empty", "", "" },
        { "no JSON", "layers = 4\n", "" },
        { "an array", "[1, 2]", "object" },
        { "a number", "7", "" },
        { "no preset", "{\"optimizer\": \"muon\"}", "preset" },
        { "no optimizer", "{\"preset\": \"nano\"}", "optimizer" },
        { "a preset of no type", "{\"preset\": 1, \"optimizer\": \"muon\"}", "preset" },
        { "no such preset", "{\"preset\": \"huge\", \"optimizer\": \"muon\"}", "huge" },
        { "no such optimizer", "{\"preset\": \"nano\", \"optimizer\": \"nosuch\"}", "nosuch" },
        { "a broken number", BEGIN ", \"layers\": 4.5}", "layers" },
        { "true", BEGIN ", \"layers\": true}", "layers" },
        { "null", BEGIN ", \"layers\": null}", "layers" },
        { "a list", BEGIN ", \"layers\": [\"4\"]}", "layers" },
        { "an object", BEGIN ", \"mtp\": {\"1\": \"2\"}}", "mtp" },
        { "twice", BEGIN ", \"layers\": \"4\", \"layers\": \"4\"}", "duplicate" },
        { "unknown", BEGIN ", \"layer\": \"4\"}", "\"layers\"" },
        { "out of range", BEGIN ", \"layers\": \"99\"}", "layers is \"99\"" },
        { "something behind", BEGIN "} {}", "" },
        { "a zero byte", BEGIN ", \"data\": \"a\\u0000b\"}", "" },
        { "not UTF-8", BEGIN ", \"data\": \"\xff\"}", "" },
    };
#undef BEGIN
    for (size_t i = 0; i < COUNT(bad); i++)
        check_damaged(bad[i].what, bad[i].text, strlen(bad[i].text), bad[i].says);
    ms_train_config cfg;
    ms_error        e;
    CHECK_FAILS(&e, ms_train_config_read(&e, tmp_path("missing.json"), &cfg), MUSEC_EIO,
                "missing.json");
    CHECK(ms_train_config_read(&e, check_tmp_dir(), &cfg) != MUSEC_OK, "a directory");
    cfg = train_config("nano", "muon", NULL);
    CHECK(ms_train_config_write(&e, tmp_path("no/such/folder.json"), &cfg) == MUSEC_EIO, "folder");
}

/* The file is cut anywhere before its last brace. */
TEST(truncated_files_are_refused)
{
    const ms_train_config cfg = train_config("medium", "spectra", NULL);
    ms_error              e;
    blob                  b;
    CHECK_OK_ERR(&e, ms_train_config_write(&e, tmp_path("whole.json"), &cfg));
    get_file(tmp_path("whole.json"), &b);
    CHECK(b.n > 1000, "%zu bytes", b.n);
    for (size_t cut = 0; cut + 2 <= b.n; cut += cut < 100 || cut + 20 > b.n ? 1 : 17)
        check_damaged("cut", (const char *)b.p, cut, "");
}
