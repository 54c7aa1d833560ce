/* origin.c - what a run was made from, and what was changed when it was resumed.
 *
 * Two runs of one config are the same only if their data were the same, and if neither was resumed
 * with other settings.  state.json and summary.json therefore hold:
 *     "data"       the identity of the data: tokens and sha256 of every set (data/source.h)
 *     "data_dir"   the base directory of relative data paths; in state.json only
 *     "init_from"  {"path": "runs/a", "sha256": "...", "step": 200}: the origin of initial weights
 *                  that are not random
 *     "resumed"    [{"step": 20, "key": "steps", "from": "20", "to": "40"}, ...]: changes and the
 *                  step after which they hold.  A change without effect on the results, such as
 *                  more steps of a constant learning rate, is not listed. */
#define _POSIX_C_SOURCE 200809L /* getcwd */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/json_file.h"
#include "train/trainer.h"

/* ---- data ------------------------------------------------------------------------------------ */

static const char *const sides[] = { "train", "val" };

static musec_status identify_sets(ms_error *e, const ms_mixture *data, json_t *out)
{
    musec_status st = MUSEC_OK;
    for (size_t i = 0; i < ms_mixture_sets(data); i++) {
        ms_identity id;
        TRY(ms_source_identify(e, ms_loader_source(ms_mixture_set(data, i)), &id));
        TRY(ms_json_push(
            e, out,
            json_pack("{s:o, s:o, s:s, s:f}", "name", ms_json_string(ms_mixture_name(data, i)),
                      "tokens", id.tokens < 0 ? json_null() : json_integer((json_int_t)id.tokens),
                      "sha256", id.sha256, "weight", ms_mixture_weight(data, i))));
    }
done:
    return st;
}

musec_status ms_train_identify_data(ms_error *e, ms_train *t)
{
    const ms_mixture *const data[] = { t->train, t->val };
    ms_found                found  = MS_FOUND_ANYWHERE;
    musec_status            st     = MUSEC_OK;

    t->data = json_object();
    for (size_t i = 0; i < COUNT(sides); i++) {
        json_t *sets = json_array();
        TRY(ms_json_put(e, t->data, sides[i], sets));
        TRY(identify_sets(e, data[i], sets));
        if (ms_mixture_found(data[i]) > found) found = ms_mixture_found(data[i]);
    }
    if (found == MS_FOUND_IN_BASE) goto done; /* data_dir stays the same */
    t->data_dir[0] = '\0';
    if (found == MS_FOUND_HERE && getcwd(t->data_dir, sizeof t->data_dir) == NULL)
        t->data_dir[0] = '\0'; /* the directory was removed: paths stay relative */
done:
    return st;
}

musec_status ms_train_data(ms_error *e, const ms_train_config *cfg, json_t **out)
{
    ms_train     t = { .cfg = *cfg };
    musec_status st;

    *out = NULL;
    TRY(ms_schedule_make(e, cfg, &t.schedule));
    TRY(ms_train_open_data(e, &t));
    TRY(ms_train_identify_data(e, &t));
    *out = json_incref(t.data);
done:
    ms_train_teardown(&t);
    return st;
}

/* "90000 tokens, sha256 0123456789abcdef", or "nothing" for NULL. */
static void describe_set(const json_t *set, char *text, size_t bytes)
{
    const json_t *tokens = json_object_get(set, "tokens");
    const char   *sum    = json_string_value(json_object_get(set, "sha256"));
    char          number[32];

    snprintf(number, sizeof number, "%lld", (long long)json_integer_value(tokens));
    if (set == NULL)
        snprintf(text, bytes, "nothing");
    else
        snprintf(text, bytes, "%s tokens, sha256 %.16s", json_is_null(tokens) ? "endless" : number,
                 sum != NULL ? sum : "unknown");
}

/* Compares the training or the validation data. */
static bool side_differs(const json_t *was, const json_t *now, const char *side,
                         char how[MS_DATA_TEXT])
{
    const json_t *a = json_object_get(was, side), *b = json_object_get(now, side);
    for (size_t i = 0; i < json_array_size(a) || i < json_array_size(b); i++) {
        const json_t *x = json_array_get(a, i), *y = json_array_get(b, i);
        const char   *name = json_string_value(json_object_get(x != NULL ? x : y, "name"));
        char          before[80], after[80];
        if (json_equal(json_object_get(x, "tokens"), json_object_get(y, "tokens")) &&
            json_equal(json_object_get(x, "sha256"), json_object_get(y, "sha256")))
            continue;
        describe_set(x, before, sizeof before);
        describe_set(y, after, sizeof after);
        snprintf(how, MS_DATA_TEXT, "%s had %s, and has %s", name != NULL ? name : side, before,
                 after);
        return true;
    }
    return false;
}

bool ms_train_data_differs(const json_t *was, const json_t *now, char how[MS_DATA_TEXT])
{
    for (size_t k = 0; k < COUNT(sides); k++)
        if (side_differs(was, now, sides[k], how)) return true;
    return false;
}

/* Whether the same sets have other weights. */
static bool weights_differ(const json_t *was, const json_t *now)
{
    const json_t *a = json_object_get(was, "train"), *b = json_object_get(now, "train");
    for (size_t i = 0; i < json_array_size(b); i++) {
        const json_t *x = json_object_get(json_array_get(a, i), "weight");
        if (x != NULL && !json_equal(x, json_object_get(json_array_get(b, i), "weight")))
            return true;
    }
    return false;
}

/* ---- changes --------------------------------------------------------------------------------- */

/* Whether the run has made steps and will make more. */
static bool is_mid_run(const ms_train *t)
{
    return t->progress.step > 0 && t->progress.step < t->cfg.steps;
}

static musec_status add_change(ms_error *e, ms_train *t, const char *key, const char *from,
                               const char *to)
{
    if (t->resumed == NULL) t->resumed = json_array();
    return ms_json_push(e, t->resumed,
                        json_pack("{s:I, s:s, s:o, s:o}", "step", (json_int_t)t->progress.step,
                                  "key", key, "from", ms_json_string(from), "to",
                                  ms_json_string(to)));
}

/* Records another number of steps where it changes the schedule of the steps so far. */
static musec_status record_steps(ms_error *e, ms_train *t, const ms_train_config *was)
{
    ms_schedule  before;
    char         from[32], to[32];
    musec_status st = MUSEC_OK;

    if (was->steps == t->cfg.steps) return MUSEC_OK;
    TRY(ms_schedule_make(e, was, &before));
    if (ms_schedule_same(&before, &t->schedule, t->progress.step)) goto done;
    snprintf(from, sizeof from, "%lld", (long long)was->steps);
    snprintf(to, sizeof to, "%lld", (long long)t->cfg.steps);
    TRY(add_change(e, t, "steps", from, to));
done:
    return st;
}

/* Early versions encoded the built-in corpus as raw bytes also for GPT-2's tokenizer, and did not
 * store the identity of their data. */
static bool had_raw_bytes(const ms_train *t)
{
    for (size_t i = 0; i < ms_mixture_sets(t->train); i++)
        if (t->cfg.tokenizer == MS_TOKENIZER_GPT2 &&
            ms_source_is_builtin(ms_source_path(ms_loader_source(ms_mixture_set(t->train, i)))))
            return true;
    return false;
}

static musec_status other_data(ms_error *e, const ms_train *t, const char *how)
{
    return ms_fail(e, MUSEC_EINVAL,
                   "%s was trained on other data: %s; put the old data back, name where they are "
                   "with --data, or start another run with --out",
                   t->setup.out, how);
}

static musec_status add_data_changes(ms_error *e, ms_train *t, const ms_train_config *was)
{
    musec_status st = MUSEC_OK;
    if (strcmp(was->data, t->cfg.data) != 0) TRY(add_change(e, t, "data", was->data, t->cfg.data));
    if (strcmp(was->val_data, t->cfg.val_data) != 0)
        TRY(add_change(e, t, "val_data", was->val_data, t->cfg.val_data));
done:
    return st;
}

/* Data with another name may be the same, moved; data with the same name must be the same. */
static musec_status record_data(ms_error *e, ms_train *t, const ms_checkpoint *c,
                                const ms_train_config *was)
{
    json_t    *before = json_object_get(c->state, "data"); /* NULL in old checkpoints */
    const bool named  = strcmp(was->data, t->cfg.data) != 0;
    const bool val    = strcmp(was->val_data, t->cfg.val_data) != 0 ||
                     (named && t->cfg.val_data[0] == '\0'); /* then it is part of the data */
    char         how[MS_DATA_TEXT];
    musec_status st = MUSEC_OK;

    if (t->data == NULL) return MUSEC_OK;
    if (before == NULL && is_mid_run(t) && had_raw_bytes(t))
        return other_data(e, t, "the built-in corpus had other ids for GPT-2's tokenizer");
    if (before == NULL && t->progress.step > 0) { /* its first data are unknown */
        json_decref(t->data);
        t->data = NULL;
        return is_mid_run(t) ? add_data_changes(e, t, was) : MUSEC_OK;
    }
    if (!named && side_differs(before, t->data, "train", how)) return other_data(e, t, how);
    if (!val && side_differs(before, t->data, "val", how)) return other_data(e, t, how);
    const bool other = ms_train_data_differs(before, t->data, how);
    if (!is_mid_run(t)) {
        json_decref(t->data); /* the data that it was trained on */
        t->data = json_incref(before);
        return MUSEC_OK;
    }
    if (other && t->setup.log != NULL)
        ms_log_say(t->setup.log, MS_LOG_QUIET, "warning: %s goes on with other data: %s",
                   t->setup.out, how);
    if (other || weights_differ(before, t->data)) TRY(add_data_changes(e, t, was));
done:
    return st;
}

static musec_status record_settings(ms_error *e, ms_train *t, const ms_checkpoint *c,
                                    const ms_train_config *was)
{
    const ms_computed now  = ms_train_computed(t);
    const json_t *computed = json_object_get(c->state, "computed"); /* NULL in old checkpoints */
    const struct {
        const char *key, *now;
    } rows[] = { { "device", now.device },
                 { "precision", now.precision },
                 { "operands", now.operands } };
    char           from[MS_PATH_MAX], to[MS_PATH_MAX], key[MS_CONFIG_KEY];
    ms_train_field f;
    musec_status   st = MUSEC_OK;

    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *before = json_string_value(json_object_get(computed, rows[i].key));
        if (before != NULL && strcmp(before, rows[i].now) != 0)
            TRY(add_change(e, t, rows[i].key, before, rows[i].now));
    }
    for (size_t i = 0; ms_train_field_at(i, &f); i++) {
        if ((f.flags & MS_FIELD_RECORDED) == 0) continue;
        ms_train_config_get(was, f.name, from, sizeof from);
        ms_train_config_get(&t->cfg, f.name, to, sizeof to);
        if (strcmp(from, to) != 0) TRY(add_change(e, t, ms_train_field_key(f.name, key), from, to));
    }
done:
    return st;
}

musec_status ms_train_record_changes(ms_error *e, ms_train *t, const ms_checkpoint *c,
                                     const ms_train_config *was)
{
    const json_t *resumed = json_object_get(c->state, "resumed");
    musec_status  st      = MUSEC_OK;

    if (json_array_size(resumed) > 0) {
        t->resumed = ms_json_deep_copy(resumed);
        if (t->resumed == NULL) return ms_no_memory(e, "the record of the run");
    }
    t->init = json_incref(json_object_get(c->state, "init_from"));
    TRY(record_data(e, t, c, was));
    TRY(record_steps(e, t, was));
    if (is_mid_run(t)) TRY(record_settings(e, t, c, was));
done:
    return st;
}

void ms_train_put_origin(const ms_train *t, json_t **state)
{
    if (t->data != NULL) ms_json_set(state, "data", json_incref(t->data));
    if (t->data_dir[0] != '\0') ms_json_set(state, "data_dir", ms_json_string(t->data_dir));
    if (t->resumed != NULL) ms_json_set(state, "resumed", json_incref(t->resumed));
    if (t->init != NULL) ms_json_set(state, "init_from", json_incref(t->init));
}
