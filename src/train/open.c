/* open.c - opens and closes a run: its directory, its parts, and the checkpoint to resume from. */
#define _POSIX_C_SOURCE 200809L /* stat, rmdir */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "train/ranks.h"
#include "train/trainer.h"

/* ---- the run directory ----------------------------------------------------------------------- */

/* Removes the directory of a run that could not start. */
static void remove_directory(ms_train *t)
{
    static const char *const files[] = { "log.jsonl", "events.out.tfevents.musec" };
    char                     path[MS_PATH_MAX + 32];

    (void)ms_runlog_close(NULL, t->runlog);
    t->runlog = NULL;
    for (size_t i = 0; i < COUNT(files); i++) {
        snprintf(path, sizeof path, "%s/%s", t->setup.out, files[i]);
        (void)remove(path);
    }
    (void)rmdir(t->setup.out);
}

/* Checks that a run may start there; `config` becomes the path of its config.json. */
static musec_status check_directory(ms_error *e, const ms_train *t, char config[MS_PATH_MAX])
{
    struct stat info;

    if (snprintf(config, MS_PATH_MAX, "%s/config.json", t->setup.out) >= MS_PATH_MAX)
        return ms_fail(e, MUSEC_EINVAL, "%s: the name is too long", t->setup.out);
    if (!t->setup.resume && stat(config, &info) == 0)
        return ms_fail(
            e, MUSEC_EINVAL,
            "%s: there is a run already; resume it with --resume %s, or choose another --out",
            t->setup.out, t->setup.out);
    if (stat(t->setup.out, &info) == 0 && !S_ISDIR(info.st_mode))
        return ms_fail(e, MUSEC_EIO, "%s: is not a directory; choose another name", t->setup.out);
    return MUSEC_OK;
}

static musec_status open_directory(ms_error *e, ms_train *t)
{
    char         path[MS_PATH_MAX];
    struct stat  info;
    bool         made = false;
    musec_status st;

    TRY(check_directory(e, t, path)); /* again: another run may have started there */
    made = t->made_out || stat(t->setup.out, &info) != 0;
    TRY(ms_directory_make(e, t->setup.out));
    if (t->lock == MS_NO_LOCK) TRY(ms_lock_take(e, t->setup.out, &t->lock));
    TRY(ms_parts_remove(e, t->setup.out));
    /* A step that still has to be validated has no line yet. */
    TRY(ms_runlog_open(e, t->setup.out, t->progress.step - (t->has_pending ? 1 : 0), &t->runlog));
    TRY(ms_train_config_write(e, path, &t->cfg)); /* last: it makes the directory a run directory */
    if ((t->progress.step < t->schedule.steps || t->has_pending) &&
        ms_path_join(NULL, t->setup.out, "summary.json", path) == MUSEC_OK)
        (void)remove(path); /* the run goes on */
    t->resumed_s = t->progress.time_s = ms_runlog_time(t->runlog);
done:
    if (st != MUSEC_OK && made) remove_directory(t);
    return st;
}

/* ---- opening and closing --------------------------------------------------------------------- */

/* Calls setup.on_open for a run that is built and has made `step` steps. */
static musec_status call_on_open(ms_error *e, ms_train *t, int64_t step)
{
    char           advice[MS_ADVICE_TEXT], ranks[MS_ADVICE_TEXT];
    ms_train_start start = { .config   = &t->cfg,
                             .schedule = &t->schedule,
                             .train    = t->train,
                             .device   = t->ctx,
                             .dtype    = ms_gpt_dtype(t->gpt),
                             .step     = step,
                             .memory   = t->memory,
                             .advice   = advice,
                             .ranks    = ranks };
    musec_status   st    = MUSEC_OK;

    TRY(ms_train_describe_ranks(e, t, ranks, sizeof ranks));
    if (t->setup.on_open == NULL) goto done;
    TRY(ms_train_measure(e, t, &start.sizes));
    start.needed = ms_train_device_bytes(t, &start.sizes);
    ms_train_memory_advice(t, &start.sizes, advice, sizeof advice);
    TRY(t->setup.on_open(e, t->setup.arg, &start));
    t->made_out = start.made_out;
done:
    return st;
}

musec_status ms_train_open(ms_error *e, const ms_train_setup *setup, ms_train **out)
{
    ms_train    *t       = calloc(1, sizeof *t);
    ms_restart   restart = { .from = { .step = -1 } };
    char         path[MS_PATH_MAX];
    musec_status st;

    *out = NULL;
    if (t == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory");
    *t = (ms_train){ .setup        = *setup,
                     .cfg          = setup->config,
                     .progress     = { .last_loss     = NAN,
                                       .best_loss     = NAN,
                                       .last_val_loss = NAN,
                                       .best_val_loss = NAN,
                                       .lowest_gain   = NAN },
                     .began        = setup->began > 0.0 ? setup->began : ms_clock_ms(),
                     .start_s      = NAN,
                     .unigram_loss = NAN,
                     .saved_step   = -1,
                     .lock         = MS_NO_LOCK };
    if (setup->out != NULL && ms_train_writes(t))
        TRY(check_directory(e, t, path)); /* before anything is printed */
    if (setup->resume) {
        if (ms_train_writes(t)) TRY(ms_lock_take(e, setup->out, &t->lock));
        TRY(ms_train_find_restart(e, t, &restart));
    }
    TRY(ms_train_build(e, t, 0));
    TRY(call_on_open(e, t, restart.from.step > 0 ? restart.from.step : 0));
    TRY(ms_train_identify_data(e, t));
    TRY(ms_train_agree_inputs(e, t));
    if (restart.from.step >= 0) TRY(ms_train_restore(e, t, &restart));
    if (restart.from.step < 0) TRY(ms_train_init_weights(e, t));
    if (setup->out != NULL && ms_train_writes(t)) TRY(open_directory(e, t));
    if (t->device_note[0] != '\0' && setup->log != NULL)
        ms_log_say(setup->log, MS_LOG_NORMAL, "%s", t->device_note);
    *out = t;
    t    = NULL;
done:
    ms_checkpoint_close(&restart.from);
    if (t != NULL) ms_train_explain_failure(e, t, st);
    if (t != NULL && t->made_out) remove_directory(t);
    ms_train_close(t);
    return st;
}

void ms_train_close(ms_train *t)
{
    ms_error ignored;
    if (t == NULL) return;
    ms_runlog_close(&ignored, t->runlog);
    ms_lock_free(t->lock);
    ms_train_teardown(t);
    free(t);
}
