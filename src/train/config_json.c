/* config_json.c - a config as JSON, and config.json.
 *
 * config.c sets fields from text and prints them as text; here the text of a number becomes a JSON
 * number and back.  Both have as few digits as give the same double, so no bit is lost. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json_file.h"
#include "core/options.h"
#include "core/real.h"
#include "train/fields.h"

/* ---- to JSON --------------------------------------------------------------------------------- */

/* An integer, or its text where it does not fit a JSON integer: a seed above 2^63. */
static json_t *int_json(const char *text)
{
    char           *end = NULL;
    const long long x   = strtoll(text, &end, 10);
    char            again[32];
    snprintf(again, sizeof again, "%lld", x);
    return strcmp(again, text) == 0 ? json_integer(x) : json_string(text);
}

static json_t *real_json(const char *text)
{
    char        *end = NULL;
    const double x   = ms_real_read(text, &end);
    return end != text && *end == '\0' ? json_real(x) : json_string(text);
}

/* {"qk": 1.2, "mlp": 0.3} for "qk=1.2,mlp=0.3". */
static json_t *pairs_json(const char *text)
{
    json_t *all = json_object();
    char    item[MS_TEXT_MAX], name[MS_OPTION_NAME];
    for (size_t n; *text != '\0'; text += n + (text[n] == ',')) {
        n = strcspn(text, ",");
        snprintf(item, sizeof item, "%.*s", (int)n, text);
        const char *value = ms_option_pair(item, name);
        if (value != NULL) ms_json_set(&all, name, real_json(value));
    }
    return all;
}

static json_t *value_json(ms_value_kind kind, const char *text)
{
    switch (kind) {
    case MS_VALUE_WHOLE: return int_json(text);
    case MS_VALUE_REAL: return real_json(text);
    case MS_VALUE_PAIRS: return pairs_json(text);
    default: return json_string(text);
    }
}

const char *ms_train_field_key(const char *name, char key[MS_CONFIG_KEY])
{
    snprintf(key, MS_CONFIG_KEY, "%s", name);
    for (char *c = key; *c != '\0'; c++)
        if (*c == '-') *c = '_';
    return key;
}

static json_t *all_fields(const ms_train_config *cfg, bool texts)
{
    json_t        *all = json_object();
    char           text[MS_PATH_MAX], key[MS_CONFIG_KEY];
    ms_train_field f;

    ms_json_set(&all, "preset", json_string(ms_presets[cfg->preset].name));
    ms_json_set(&all, "optimizer", json_string(cfg->optim.name));
    for (size_t i = 0; ms_train_field_at(i, &f); i++) {
        ms_train_config_get(cfg, f.name, text, sizeof text);
        ms_json_set(&all, ms_train_field_key(f.name, key),
                    value_json(texts ? MS_VALUE_TEXT : ms_train_config_kind(cfg, f.name), text));
    }
    return all;
}

json_t *ms_train_config_json(const ms_train_config *cfg) { return all_fields(cfg, false); }
json_t *ms_train_config_texts(const ms_train_config *cfg) { return all_fields(cfg, true); }

/* ---- from JSON ------------------------------------------------------------------------------- */

musec_status ms_train_config_set_json(ms_error *e, ms_train_config *cfg, const char *key,
                                      const json_t *value)
{
    const bool pairs = ms_train_config_kind(cfg, key) == MS_VALUE_PAIRS;
    char       text[MS_TEXT_MAX];
    if (json_is_string(value)) return ms_train_config_set(e, cfg, key, json_string_value(value));
    if ((json_is_object(value) && !pairs) || !ms_json_option(value, text, sizeof text))
        return ms_fail(e, MUSEC_EFORMAT, "%s must be a text, a number or true/false%s", key,
                       pairs ? ", or an object of numbers" : "");
    return ms_train_config_set(e, cfg, key, text);
}

musec_status ms_train_config_from_json(ms_error *e, const char *what, const json_t *json,
                                       ms_train_config *cfg)
{
    const char  *preset    = json_string_value(json_object_get(json, "preset"));
    const char  *optimizer = json_string_value(json_object_get(json, "optimizer"));
    const char  *key;
    json_t      *value;
    ms_error     why = { "" };
    musec_status st;

    if (preset == NULL || optimizer == NULL)
        return ms_fail(e, MUSEC_EFORMAT,
                       "%s: no \"preset\" or no \"optimizer\"; it must be a "
                       "config.json as musec train writes it",
                       what);
    st = ms_train_config_init(&why, cfg, preset, optimizer);
    json_object_foreach((json_t *)json, key, value)
    {
        if (st != MUSEC_OK) break;
        if (strcmp(key, "preset") == 0 || strcmp(key, "optimizer") == 0) continue;
        st = ms_train_config_set_json(&why, cfg, key, value);
    }
    if (st != MUSEC_OK) return ms_fail(e, st, "%s: %s", what, why.text);
    return MUSEC_OK;
}

musec_status ms_train_config_read(ms_error *e, const char *path, ms_train_config *cfg)
{
    json_t      *json = NULL;
    musec_status st;

    TRY(ms_json_read(e, path, &json));
    TRY(ms_train_config_from_json(e, path, json, cfg));
done:
    json_decref(json);
    return st;
}

musec_status ms_train_config_write(ms_error *e, const char *path, const ms_train_config *cfg)
{
    json_t            *json = ms_train_config_json(cfg);
    const musec_status st   = ms_json_write(e, path, json);
    json_decref(json);
    return st;
}
