/* state.c - the state of a run as JSON, in state.json of a checkpoint.
 *
 * It holds the whole config, so that a checkpoint stands alone, and the numbers of ms_progress.
 * Real numbers are written as hexadecimal text, which keeps every bit and NaN.  Times are not
 * written, so the same step of two runs gives the same bytes.  Checkpoints of older versions have
 * no "track" of losses and no "computed". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json_file.h"
#include "core/safetensors.h"
#include "train/trainer.h"

/* ---- members of a struct --------------------------------------------------------------------- */

typedef struct state_member {
    const char *name;
    size_t      offset;
    bool        is_real; /* double; otherwise int64_t */
} state_member;

static json_t *real_json(double x)
{
    char text[40];
    snprintf(text, sizeof text, "%a", x);
    return json_string(text);
}

static bool read_real(const json_t *value, double *out)
{
    const char *text = json_string_value(value);
    char       *end  = NULL;
    if (text == NULL) return false;
    *out = strtod(text, &end);
    return end != text && *end == '\0';
}

/* No counter of a run comes near the limit, so that sums of two are no overflow. */
static bool is_count(int64_t x) { return x >= 0 && x <= (int64_t)1 << 53; }

static bool read_int(const json_t *value, int64_t *out)
{
    *out = (int64_t)json_integer_value(value);
    return json_is_integer(value) && is_count(*out);
}

static void put_members(json_t **to, const void *from, const state_member *m, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const void *at = (const char *)from + m[i].offset;
        ms_json_set(to, m[i].name,
                    m[i].is_real ? real_json(*(const double *)at)
                                 : json_integer(*(const int64_t *)at));
    }
}

/* Returns the name of the first member that cannot be read, or NULL. */
static const char *read_members(const json_t *from, void *to, const state_member *m, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        void         *at    = (char *)to + m[i].offset;
        const json_t *value = json_object_get(from, m[i].name);
        if (!(m[i].is_real ? read_real(value, at) : read_int(value, at))) return m[i].name;
    }
    return NULL;
}

static musec_status bad_state(ms_error *e, const ms_checkpoint *c, const char *inside,
                              const char *name)
{
    return ms_fail(e, MUSEC_EFORMAT, "%s/state.json: \"%s%s%s\" is missing or no number", c->dir,
                   inside, inside[0] != '\0' ? "." : "", name);
}

/* ---- progress -------------------------------------------------------------------------------- */

static const state_member progress_members[] = {
    { "step", offsetof(ms_progress, step), false },
    { "tokens", offsetof(ms_progress, tokens), false },
    { "too_high", offsetof(ms_progress, too_high), false },
    { "first_loss", offsetof(ms_progress, first_loss), true },
    { "last_loss", offsetof(ms_progress, last_loss), true },
    { "best_loss", offsetof(ms_progress, best_loss), true },
    { "last_val_loss", offsetof(ms_progress, last_val_loss), true },
    { "best_val_loss", offsetof(ms_progress, best_val_loss), true },
};

/* The position in each data set. */
static json_t *sets_json(const ms_train *t)
{
    json_t *sets = json_array();
    for (size_t i = 0; i < ms_mixture_sets(t->train); i++) {
        const ms_position *at = &t->progress.position.at[i];
        ms_json_append(&sets, json_pack("{s:o, s:I, s:I, s:I, s:I}", "name",
                                        ms_json_string(ms_mixture_name(t->train, i)), "epoch",
                                        (json_int_t)at->epoch, "piece", (json_int_t)at->piece,
                                        "token", (json_int_t)at->token, "tokens",
                                        (json_int_t)t->progress.position.tokens[i]));
    }
    return sets;
}

/* A single data set may have been moved; several must have the same names in the same order. */
static musec_status read_sets(ms_error *e, const ms_checkpoint *c, const ms_mixture *data,
                              ms_mixture_position *out)
{
    const json_t *sets = json_object_get(c->state, "sets");
    const size_t  n    = ms_mixture_sets(data);

    if (json_array_size(sets) != n)
        return ms_fail(e, MUSEC_EINVAL,
                       "%s: the run has %zu data sets, not %zu; name the same ones", c->dir,
                       json_array_size(sets), n);
    for (size_t i = 0; i < n; i++) {
        json_int_t  epoch, piece, token, tokens;
        const char *name;
        if (!ms_json_get(json_array_get(sets, i), "name:s epoch:i piece:i token:i tokens:i", &name,
                         &epoch, &piece, &token, &tokens) ||
            !is_count(epoch) || !is_count(piece) || !is_count(token) || !is_count(tokens))
            return ms_fail(e, MUSEC_EFORMAT, "%s/state.json: \"sets\" has no position in set %zu",
                           c->dir, i);
        if (n > 1 && strcmp(name, ms_mixture_name(data, i)) != 0)
            return ms_fail(e, MUSEC_EINVAL,
                           "%s: data set %zu was %s, not %s; name them in the same order", c->dir,
                           i + 1, name, ms_mixture_name(data, i));
        out->at[i]     = (ms_position){ epoch, piece, token };
        out->tokens[i] = tokens;
    }
    return MUSEC_OK;
}

/* ---- the track of losses --------------------------------------------------------------------- */

static const state_member track_members[] = {
    { "steps", offsetof(ms_loss_track, steps), false },
    { "first", offsetof(ms_loss_track, first), true },
    { "best", offsetof(ms_loss_track, best), true },
    { "best_step", offsetof(ms_loss_track, best_step), false },
};

static json_t *reals_json(const double *x, size_t n)
{
    json_t *all = json_array();
    for (size_t i = 0; i < n; i++)
        ms_json_append(&all, real_json(x[i]));
    return all;
}

static bool read_reals(const json_t *from, double *x, size_t n)
{
    bool ok = json_array_size(from) == n;
    for (size_t i = 0; ok && i < n; i++)
        ok = read_real(json_array_get(from, i), &x[i]);
    return ok;
}

static json_t *track_json(const ms_loss_track *track)
{
    json_t *all = json_object();
    put_members(&all, track, track_members, COUNT(track_members));
    ms_json_set(&all, "recent", reals_json(track->recent, MS_TRACK_MEAN));
    return all;
}

static musec_status read_track(ms_error *e, const ms_checkpoint *c, ms_loss_track *out)
{
    const json_t *track = json_object_get(c->state, "track");
    const char   *bad;

    *out = (ms_loss_track){ 0 };
    if (track == NULL) return MUSEC_OK;
    bad = read_members(track, out, track_members, COUNT(track_members));
    if (bad == NULL && !read_reals(json_object_get(track, "recent"), out->recent, MS_TRACK_MEAN))
        bad = "recent";
    return bad == NULL ? MUSEC_OK : bad_state(e, c, "track", bad);
}

/* ---- the step that awaits its validation ----------------------------------------------------- */

static const state_member pending_members[] = {
    { "tokens", offsetof(ms_log_line, tokens), false },
    { "epoch", offsetof(ms_log_line, epoch), false },
    { "skipped", offsetof(ms_log_line, skipped), false },
    { "loss", offsetof(ms_log_line, loss), true },
    { "objective", offsetof(ms_log_line, objective), true },
    { "lr", offsetof(ms_log_line, lr), true },
    { "max_logit", offsetof(ms_log_line, max_logit), true },
    { "tok_s", offsetof(ms_log_line, tok_s), true },
    { "ms_data", offsetof(ms_log_line, ms_data), true },
    { "ms_model", offsetof(ms_log_line, ms_model), true },
    { "ms_optim", offsetof(ms_log_line, ms_optim), true },
};

enum { GROUP_REALS = (int)(sizeof(ms_group_stats) / sizeof(double)) * MS_GROUPS };

static json_t *pending_json(const ms_log_line *line)
{
    json_t *all = json_object();
    double  groups[GROUP_REALS];

    memcpy(groups, line->groups, sizeof groups);
    put_members(&all, line, pending_members, COUNT(pending_members));
    ms_json_set(&all, "groups", reals_json(groups, line->has_groups ? GROUP_REALS : 0));
    return all;
}

static musec_status read_pending(ms_error *e, ms_train *t, const ms_checkpoint *c)
{
    const json_t *in     = json_object_get(c->state, "awaiting");
    const json_t *groups = json_object_get(in, "groups");
    ms_log_line   line   = { .step = t->progress.step, .has_groups = json_array_size(groups) > 0 };
    double        reals[GROUP_REALS] = { 0 };
    const char   *bad;

    if (in == NULL) return MUSEC_OK;
    bad = read_members(in, &line, pending_members, COUNT(pending_members));
    if (bad == NULL &&
        (!json_is_array(groups) || !read_reals(groups, reals, line.has_groups ? GROUP_REALS : 0)))
        bad = "groups";
    if (bad == NULL && line.step < 1) bad = "step";
    if (bad != NULL) return bad_state(e, c, "awaiting", bad);
    memcpy(line.groups, reals, sizeof reals);
    t->has_pending = true;
    t->pending     = line;
    return MUSEC_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* NULL without memory. */
json_t *ms_train_state(const ms_train *t)
{
    const ms_computed computed = ms_train_computed(t);
    json_t           *state    = json_object();

    put_members(&state, &t->progress, progress_members, COUNT(progress_members));
    ms_json_set(&state, "sets", sets_json(t));
    ms_json_set(&state, "config", ms_train_config_json(&t->cfg));
    ms_json_set(&state, "computed",
                json_pack("{s:s, s:s, s:s}", "device", computed.device, "precision",
                          computed.precision, "operands", computed.operands));
    ms_train_put_origin(t, &state);
    ms_json_set(&state, "track", track_json(&t->progress.track));
    ms_json_set(&state, "lowest_gain", real_json(t->progress.lowest_gain));
    if (t->has_pending) ms_json_set(&state, "awaiting", pending_json(&t->pending));
    return state;
}

/* Reads all but the positions in the data. */
static musec_status read_progress(ms_error *e, ms_train *t, const ms_checkpoint *c)
{
    const json_t *gain = json_object_get(c->state, "lowest_gain");
    const char   *bad =
        read_members(c->state, &t->progress, progress_members, COUNT(progress_members));
    musec_status st = MUSEC_OK;

    if (bad == NULL && gain != NULL && !read_real(gain, &t->progress.lowest_gain))
        bad = "lowest_gain";
    if (bad != NULL) return bad_state(e, c, "", bad);
    TRY(read_track(e, c, &t->progress.track));
    TRY(read_pending(e, t, c));
done:
    return st;
}

musec_status ms_train_check_state(ms_error *e, const ms_checkpoint *c)
{
    static const char *const files[] = { "model.safetensors", "optim.safetensors" };
    ms_train                *t       = calloc(1, sizeof *t); /* only to read into */
    ms_train_config          cfg;
    char                     path[MS_PATH_MAX];
    musec_status             st;

    if (t == NULL) return ms_no_memory(e, "the state of the run");
    TRY(ms_train_checkpoint_config(e, c, &cfg));
    TRY(read_progress(e, t, c));
    for (size_t i = 0; i < COUNT(files); i++) {
        ms_safetensors s = { 0 };
        TRY(ms_path_join(e, c->dir, files[i], path));
        TRY(ms_safetensors_open(e, path, &s));
        ms_safetensors_close(&s);
    }
done:
    free(t);
    return st;
}

musec_status ms_train_read_state(ms_error *e, ms_train *t, const ms_checkpoint *c)
{
    musec_status st;

    TRY(read_progress(e, t, c));
    TRY(read_sets(e, c, t->train, &t->progress.position));
done:
    return st;
}
