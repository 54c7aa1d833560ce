/* resume.c - a run to and from its checkpoints.
 *
 * state.json keeps the whole config, so that a checkpoint stands alone, and the numbers of
 * ms_progress in a form that gives the same bits back.  Times are not kept: the same step of two
 * runs is the same bytes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/trainer.h"
#include "train/weights.h"

/* ---- progress and JSON ----------------------------------------------------------------------- */

static const struct {
    const char *name;
    size_t      offset;
} whole[] = {
    { "step", offsetof(ms_progress, step) },
    { "tokens", offsetof(ms_progress, tokens) },
    { "too_high", offsetof(ms_progress, too_high) },
}, real[] = {
    { "first_loss", offsetof(ms_progress, first_loss) },
    { "last_loss", offsetof(ms_progress, last_loss) },
    { "best_loss", offsetof(ms_progress, best_loss) },
    { "last_val_loss", offsetof(ms_progress, last_val_loss) },
    { "best_val_loss", offsetof(ms_progress, best_val_loss) },
};

/* Where each set of data goes on. */
static json_t *sets_of(const ms_train *t)
{
    json_t *sets = json_array();
    for (size_t i = 0; i < ms_mixture_sets(t->train); i++) {
        const ms_position *at = &t->progress.position.at[i];
        json_array_append_new(sets, json_pack("{s:s, s:I, s:I, s:I, s:I}", "name",
                                              ms_mixture_name(t->train, i), "epoch",
                                              (json_int_t)at->epoch, "piece", (json_int_t)at->piece,
                                              "token", (json_int_t)at->token, "tokens",
                                              (json_int_t)t->progress.position.tokens[i]));
    }
    return sets;
}

/* One set may have moved; of several each goes on as itself. */
static musec_status read_sets(ms_error *e, const ms_checkpoint *c, const ms_mixture *data,
                              ms_mixture_position *out)
{
    const json_t *sets = json_object_get(c->state, "sets");
    const size_t  n    = ms_mixture_sets(data);

    if (json_array_size(sets) != n)
        return ms_fail(e, MUSEC_EINVAL,
                       "%s is of a run on %zu sets of data, not %zu; name the same ones", c->dir,
                       json_array_size(sets), n);
    for (size_t i = 0; i < n; i++) {
        json_int_t  epoch, piece, token, tokens;
        const char *name;
        if (json_unpack(json_array_get(sets, i), "{s:s, s:I, s:I, s:I, s:I}", "name", &name,
                        "epoch", &epoch, "piece", &piece, "token", &token, "tokens",
                        &tokens) != 0 ||
            epoch < 0 || piece < 0 || token < 0 || tokens < 0)
            return ms_fail(e, MUSEC_EFORMAT, "%s/state.json: \"sets\" has no place for set %zu",
                           c->dir, i);
        if (n > 1 && strcmp(name, ms_mixture_name(data, i)) != 0)
            return ms_fail(e, MUSEC_EINVAL,
                           "%s: set %zu of its data was %s, not %s; name them in the same order",
                           c->dir, i + 1, name, ms_mixture_name(data, i));
        out->at[i]     = (ms_position){ epoch, piece, token };
        out->tokens[i] = tokens;
    }
    return MUSEC_OK;
}

static json_t *state_of(const ms_train *t)
{
    const ms_computed computed = ms_train_computed(t);
    json_t           *state    = json_object();
    char              text[40];
    for (size_t i = 0; i < COUNT(whole); i++)
        json_object_set_new(
            state, whole[i].name,
            json_integer(
                *(const int64_t *)(const void *)((const char *)&t->progress + whole[i].offset)));
    for (size_t i = 0; i < COUNT(real); i++) { /* %a has all bits, and a form for NaN */
        snprintf(text, sizeof text, "%a",
                 *(const double *)(const void *)((const char *)&t->progress + real[i].offset));
        json_object_set_new(state, real[i].name, json_string(text));
    }
    json_object_set_new(state, "sets", sets_of(t));
    json_object_set_new(state, "config", ms_train_config_json(&t->cfg));
    json_object_set_new(state, "computed",
                        json_pack("{s:s, s:s, s:s}", "device", computed.device, "precision",
                                  computed.precision, "operands", computed.operands));
    ms_train_put_origin(t, state);
    ms_train_put_track(t, state);
    ms_train_put_awaiting(t, state);
    return state;
}

static musec_status read_state(ms_error *e, const ms_checkpoint *c, ms_progress *out)
{
    for (size_t i = 0; i < COUNT(whole); i++) {
        const json_t *value = json_object_get(c->state, whole[i].name);
        if (!json_is_integer(value) || json_integer_value(value) < 0)
            return ms_fail(e, MUSEC_EFORMAT, "%s/state.json: \"%s\" must be a whole number", c->dir,
                           whole[i].name);
        *(int64_t *)(void *)((char *)out + whole[i].offset) = json_integer_value(value);
    }
    for (size_t i = 0; i < COUNT(real); i++) {
        const char *text = json_string_value(json_object_get(c->state, real[i].name));
        char       *end  = NULL;
        if (text != NULL) *(double *)(void *)((char *)out + real[i].offset) = strtod(text, &end);
        if (text == NULL || end == text || *end != '\0')
            return ms_fail(e, MUSEC_EFORMAT, "%s/state.json: \"%s\" must be a number in a text",
                           c->dir, real[i].name);
    }
    return MUSEC_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

static musec_status write_model(ms_error *e, void *arg, const char *path)
{
    ms_train *t = arg;
    return ms_weights_write(e, path, t->ctx, t->gpt);
}

static musec_status write_optim(ms_error *e, void *arg, const char *path)
{
    ms_train *t = arg;
    return ms_train_check(e, t->ctx, musec_optim_save(t->optim, path));
}

musec_status ms_train_save(ms_error *e, ms_train *t)
{
    const ms_checkpoint_writer writer = { write_model, write_optim, t };
    json_t                    *state;
    musec_status               st;

    t->progress.position = ms_mixture_where(t->train);
    state                = state_of(t);
    st                   = t->runlog != NULL ? ms_runlog_sync(e, t->runlog) : MUSEC_OK;
    if (st == MUSEC_OK)
        st = ms_checkpoint_write(e, t->setup.out, t->progress.step, &writer, state, t->cfg.keep);
    if (st == MUSEC_OK) t->saved_step = t->progress.step;
    json_decref(state);
    return st;
}

/* ---- reading --------------------------------------------------------------------------------- */

musec_status ms_train_config_same(ms_error *e, const char *what, const ms_train_config *was,
                                  const ms_train_config *now)
{
    const char *field = ms_train_config_differs(was, now, MS_FIELD_RESUMABLE);
    char        before[256], after[256];

    if (field == NULL) return MUSEC_OK;
    if (strcmp(field, "optimizer") == 0) {
        snprintf(before, sizeof before, "%s", was->optim.name);
        snprintf(after, sizeof after, "%s", now->optim.name);
    } else {
        ms_train_config_get(was, field, before, sizeof before);
        ms_train_config_get(now, field, after, sizeof after);
    }
    return ms_fail(e, MUSEC_EINVAL,
                   "%s says %s %s, not %s: a run cannot change that; start another with --out",
                   what, field, before, after);
}

static musec_status check_config(ms_error *e, const ms_train *t, const ms_checkpoint *c,
                                 ms_train_config *was)
{
    char         what[MS_PATH_MAX + 16];
    musec_status st;

    snprintf(what, sizeof what, "%s/state.json", c->dir);
    TRY(ms_train_config_from_json(e, what, json_object_get(c->state, "config"), was));
    TRY(ms_train_config_check(e, was));
    TRY(ms_train_config_same(e, what, was, &t->cfg));
done:
    return st;
}

/* A run may go on elsewhere, but its numbers will not be those that it would have had. */
static void compare_computed(const ms_train *t, const ms_checkpoint *c)
{
    const ms_computed now = ms_train_computed(t);
    const json_t     *all = json_object_get(c->state, "computed"); /* older ones have none */
    const char       *device, *precision, *operands;

    if (t->setup.log == NULL || json_unpack((json_t *)all, "{s:s, s:s, s:s}", "device", &device,
                                            "precision", &precision, "operands", &operands) != 0)
        return;
    if (strcmp(device, now.device) != 0 || strcmp(precision, now.precision) != 0 ||
        strcmp(operands, now.operands) != 0)
        ms_log_say(t->setup.log, MS_LOG_QUIET,
                   "warning: %s was computed on %s, activations in %s, operands in %s; it goes on "
                   "on %s, in %s and %s",
                   t->setup.out, device, precision, operands, now.device, now.precision,
                   now.operands);
}

musec_status ms_train_load(ms_error *e, ms_train *t, const ms_checkpoint *c)
{
    char            path[MS_PATH_MAX + 32];
    ms_train_config was;
    musec_status    st;

    TRY(check_config(e, t, c, &was));
    TRY(read_state(e, c, &t->progress));
    TRY(ms_train_read_track(e, c, &t->progress.track));
    TRY(ms_train_read_awaiting(e, t, c));
    if (t->progress.step > t->cfg.steps)
        return ms_fail(e, MUSEC_EINVAL, "%s is of step %lld, beyond the %lld steps asked for",
                       c->dir, (long long)t->progress.step, (long long)t->cfg.steps);
    TRY(read_sets(e, c, t->train, &t->progress.position));
    TRY(ms_train_trace(e, t, c, &was));
    compare_computed(t, c);
    snprintf(path, sizeof path, "%s/model.safetensors", c->dir);
    TRY(ms_weights_read(e, path, t->ctx, t->gpt));
    snprintf(path, sizeof path, "%s/optim.safetensors", c->dir);
    TRY(ms_train_check(e, t->ctx, musec_optim_load(t->optim, path)));
    TRY(ms_mixture_seek(e, t->train, &t->progress.position));
done:
    return st;
}

/* ---- where it goes on ------------------------------------------------------------------------ */

/* A run that has ended, but for its checkpoints: to begin it anew would destroy its results. */
static musec_status check_not_ended(ms_error *e, const char *dir)
{
    char         path[MS_PATH_MAX];
    json_t      *summary = NULL;
    const char  *status;
    musec_status st;

    TRY(ms_path_join(e, dir, "summary.json", path));
    summary = json_load_file(path, 0, NULL); /* none, or a damaged one: it has not ended */
    status  = json_string_value(json_object_get(summary, "status"));
    if (status != NULL && (strcmp(status, "done") == 0 || strcmp(status, "diverged") == 0 ||
                           strcmp(status, "stalled") == 0))
        st = ms_fail(e, MUSEC_EINVAL,
                     "%s says that the run is %s, and there is no checkpoint to go on from (sweep "
                     "keeps them with --keep-checkpoints, train writes more with "
                     "--checkpoint-every); to go further start another run with --out",
                     path, status);
done:
    json_decref(summary);
    return st;
}

musec_status ms_train_find_restart(ms_error *e, ms_train *t, ms_restart *out)
{
    char          warning[sizeof(ms_error)];
    const json_t *dir;
    musec_status  st;

    TRY(ms_checkpoint_newest(e, t->setup.out, &out->from, warning));
    out->passed_over = warning[0] != '\0';
    if (out->passed_over && t->setup.log != NULL)
        ms_log_say(t->setup.log, MS_LOG_QUIET, "warning: %s", warning);
    if (out->from.step < 0) {
        TRY(check_not_ended(e, t->setup.out));
        if (t->setup.log != NULL)
            ms_log_say(t->setup.log, MS_LOG_QUIET, "%s has no checkpoint yet: starting at step 0",
                       t->setup.out);
        goto done;
    }
    dir = json_object_get(out->from.state, "data_dir");
    if (json_is_string(dir))
        snprintf(t->data_dir, sizeof t->data_dir, "%s", json_string_value(dir));
done:
    return st;
}

musec_status ms_train_restore(ms_error *e, ms_train *t, const ms_restart *r)
{
    musec_status st;

    TRY(ms_train_load(e, t, &r->from));
    if (r->passed_over) TRY(ms_checkpoint_set_aside(e, t->setup.out, r->from.step));
    t->saved_step = r->from.step;
    if (t->setup.log != NULL)
        ms_log_say(t->setup.log, MS_LOG_NORMAL, "going on from %s", r->from.dir);
done:
    return st;
}
