/* resume.c - writes the checkpoints of a run, and resumes a run from them. */
#include <stdio.h>
#include <string.h>

#include "core/json_file.h"
#include "train/ranks.h"
#include "train/trainer.h"
#include "train/weights.h"

/* ---- writing --------------------------------------------------------------------------------- */

bool ms_train_writes(const ms_train *t) { return ms_comm_of(&t->setup)->rank == 0; }

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
    const ms_checkpoint_writer writer = { write_model, write_optim, t, ms_train_check_state };
    json_t                    *state;
    int                        replica = 0;
    musec_status               st;

    t->progress.position = ms_mixture_where(t->train);
    st                   = ms_train_finish_weights(e, t);
    if (st != MUSEC_OK) return st;
    if (!ms_train_writes(t)) { /* hands over what it owns, where no other replica does */
        (void)ms_comm_replicas(ms_owners_of(t), &replica);
        st = replica == 0 ? write_optim(e, t, "") : MUSEC_OK;
        if (st == MUSEC_OK) t->saved_step = t->progress.step;
        return st;
    }
    state = ms_train_state(t);
    st    = state == NULL ? ms_no_memory(e, "the state of the run") : MUSEC_OK;
    if (st == MUSEC_OK && t->runlog != NULL) st = ms_runlog_sync(e, t->runlog);
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

/* Warns where another device or dtype will give other numbers than the run would have had. */
static void warn_of_precision(const ms_train *t, const ms_checkpoint *c)
{
    const ms_computed now = ms_train_computed(t);
    const json_t     *all = json_object_get(c->state, "computed"); /* older ones have none */
    const char       *device, *precision, *operands;

    if (t->setup.log == NULL ||
        !ms_json_get(all, "device:s precision:s operands:s", &device, &precision, &operands))
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

    snprintf(path, sizeof path, "%s/state.json", c->dir);
    TRY(ms_train_checkpoint_config(e, c, &was));
    TRY(ms_train_config_same(e, path, &was, &t->cfg));
    TRY(ms_train_read_state(e, t, c));
    if (t->progress.step > t->cfg.steps)
        return ms_fail(e, MUSEC_EINVAL, "%s is of step %lld, beyond the %lld steps asked for",
                       c->dir, (long long)t->progress.step, (long long)t->cfg.steps);
    TRY(ms_train_record_changes(e, t, c, &was));
    warn_of_precision(t, c);
    snprintf(path, sizeof path, "%s/model.safetensors", c->dir);
    TRY(ms_weights_read(e, path, t->ctx, t->gpt));
    snprintf(path, sizeof path, "%s/optim.safetensors", c->dir);
    TRY(ms_train_check(e, t->ctx, musec_optim_load(t->optim, path)));
    TRY(ms_mixture_seek(e, t->train, &t->progress.position));
done:
    return st;
}

/* ---- finding the checkpoint ------------------------------------------------------------------ */

/* Refuses a run that has ended without checkpoints: to start it again would destroy its results. */
static musec_status check_not_ended(ms_error *e, const char *dir)
{
    char         path[MS_PATH_MAX];
    json_t      *summary = NULL, *whole = NULL;
    const char  *status;
    bool         ended;
    musec_status st;

    TRY(ms_path_join(e, dir, "summary.json", path));
    TRY(ms_json_find(e, path, MS_JSON_ANY_NAMES, &summary)); /* NULL: it has not ended */
    TRY(ms_json_find(e, path, MS_JSON_SEALED, &whole));
    status = json_string_value(json_object_get(summary, "status"));
    ended  = status != NULL && (strcmp(status, "done") == 0 || strcmp(status, "diverged") == 0 ||
                               strcmp(status, "stalled") == 0);
    if (ended && whole == NULL)
        st = ms_fail(e, MUSEC_EFORMAT,
                     "%s: damaged: its bytes do not have the sha256 at its end, and there is no "
                     "checkpoint to go on from; remove it to make the run anew",
                     path);
    else if (ended)
        st = ms_fail(e, MUSEC_EINVAL,
                     "%s says that the run is %s, and there is no checkpoint to go on from (sweep "
                     "keeps them with --keep-checkpoints, train writes more with "
                     "--checkpoint-every); to go further start another run with --out",
                     path, status);
done:
    json_decref(whole);
    json_decref(summary);
    return st;
}

/* The newest checkpoint, as rank 0 finds it. */
static musec_status find_newest(ms_error *e, ms_train *t, ms_restart *out)
{
    char         warning[sizeof(ms_error)];
    musec_status st;

    TRY(ms_checkpoint_newest(e, t->setup.out, ms_train_check_state, &out->from, warning));
    out->skipped_damaged = warning[0] != '\0';
    if (out->skipped_damaged && t->setup.log != NULL)
        ms_log_say(t->setup.log, MS_LOG_QUIET, "warning: %s", warning);
    if (out->from.step < 0) {
        TRY(check_not_ended(e, t->setup.out));
        if (t->setup.log != NULL)
            ms_log_say(t->setup.log, MS_LOG_QUIET, "%s has no checkpoint yet: starting at step 0",
                       t->setup.out);
    }
done:
    return st;
}

/* Opens the same checkpoint on all ranks. */
static musec_status share_restart(ms_error *e, ms_train *t, ms_restart *out)
{
    ms_comm     *c                = ms_comm_of(&t->setup);
    char         dir[MS_PATH_MAX] = "";
    musec_status st               = MUSEC_OK;

    if (c->size == 1) return MUSEC_OK;
    if (out->from.step >= 0) memcpy(dir, out->from.dir, sizeof dir);
    TRY(ms_comm_check(e, c, c->ops->broadcast(c, dir, sizeof dir, 0)));
    if (c->rank > 0 && dir[0] != '\0') TRY(ms_checkpoint_open(e, dir, &out->from));
done:
    return st;
}

musec_status ms_train_find_restart(ms_error *e, ms_train *t, ms_restart *out)
{
    const json_t *dir;
    musec_status  st = MUSEC_OK;

    if (ms_train_writes(t)) TRY(find_newest(e, t, out));
    TRY(share_restart(e, t, out));
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
    if (r->skipped_damaged && ms_train_writes(t))
        TRY(ms_checkpoint_quarantine(e, t->setup.out, r->from.step));
    t->saved_step = r->from.step;
    if (t->setup.log != NULL)
        ms_log_say(t->setup.log, MS_LOG_NORMAL, "going on from %s", r->from.dir);
done:
    return st;
}
