/* interrupt.c - stopping inside a step, so that the run goes on bit for bit.
 *
 * Until the optimizer's step begins, a step has changed nothing that counts: gradients are
 * scratch, and the data are sought back.  The optimizer's own step is not interrupted.  After it
 * the step is made, and only its validation may be missing.  A checkpoint of such a step keeps
 * what its line of the log has so far ("awaiting"), and the run that goes on from it validates
 * first, with the same weights, and then writes the line. */
#include <string.h>

#include "train/trainer.h"

bool ms_train_stops_now(const ms_train *t)
{
    return t->setup.stop != NULL && t->setup.stop(t->setup.arg) == MS_STOP_NOW;
}

bool ms_train_stops_pass(void *t) { return ms_train_stops_now(t); }

/* What passes have gathered since the last ms_gpt_take belongs to no step. */
static musec_status forget_passes(ms_error *e, ms_train *t)
{
    ms_gpt_result ignored;
    t->abandoned = true;
    return ms_train_check(e, t->ctx, ms_gpt_take(t->gpt, &ignored, NULL));
}

musec_status ms_train_abandon_step(ms_error *e, ms_train *t, const ms_progress *began)
{
    musec_status st;

    TRY(forget_passes(e, t));
    TRY(ms_mixture_seek(e, t->train, &began->position));
    t->progress = *began;
done:
    return st;
}

musec_status ms_train_abandon_validation(ms_error *e, ms_train *t, const ms_log_line *line)
{
    t->unvalidated = true;
    t->awaiting    = *line;
    return forget_passes(e, t);
}

/* ---- the line that awaits its validation ----------------------------------------------------- */

static const struct {
    const char *name;
    size_t      offset;
} whole[] = {
    { "tokens", offsetof(ms_log_line, tokens) },
    { "epoch", offsetof(ms_log_line, epoch) },
    { "skipped", offsetof(ms_log_line, skipped) },
}, real[] = {
    { "loss", offsetof(ms_log_line, loss) },
    { "objective", offsetof(ms_log_line, objective) },
    { "lr", offsetof(ms_log_line, lr) },
    { "max_logit", offsetof(ms_log_line, max_logit) },
    { "tok_s", offsetof(ms_log_line, tok_s) },
    { "ms_data", offsetof(ms_log_line, ms_data) },
    { "ms_model", offsetof(ms_log_line, ms_model) },
    { "ms_optim", offsetof(ms_log_line, ms_optim) },
};

/* The figures of all groups, one behind the other. */
enum { GROUP_FIGURES = (int)(sizeof(ms_group_stats) / sizeof(double)) * MS_GROUPS };

void ms_train_put_awaiting(const ms_train *t, json_t *state)
{
    const char *line = (const char *)&t->awaiting;
    json_t     *out, *groups;
    double      figures[GROUP_FIGURES];

    if (!t->unvalidated) return;
    out    = json_object();
    groups = json_array();
    memcpy(figures, t->awaiting.groups, sizeof figures);
    for (size_t i = 0; i < COUNT(whole); i++)
        json_object_set_new(out, whole[i].name,
                            json_integer(*(const int64_t *)(const void *)(line + whole[i].offset)));
    for (size_t i = 0; i < COUNT(real); i++)
        json_object_set_new(
            out, real[i].name,
            ms_train_real_json(*(const double *)(const void *)(line + real[i].offset)));
    for (int i = 0; t->awaiting.has_groups && i < GROUP_FIGURES; i++)
        json_array_append_new(groups, ms_train_real_json(figures[i]));
    json_object_set_new(out, "groups", groups);
    json_object_set_new(state, "awaiting", out);
}

static bool read_groups(const json_t *groups, ms_log_line *line)
{
    double figures[GROUP_FIGURES];

    line->has_groups = json_array_size(groups) > 0;
    if (!line->has_groups) return json_is_array(groups);
    if (json_array_size(groups) != GROUP_FIGURES) return false;
    for (int i = 0; i < GROUP_FIGURES; i++)
        if (!ms_train_read_real(json_array_get(groups, (size_t)i), &figures[i])) return false;
    memcpy(line->groups, figures, sizeof figures);
    return true;
}

musec_status ms_train_read_awaiting(ms_error *e, ms_train *t, const ms_checkpoint *c)
{
    const json_t *in   = json_object_get(c->state, "awaiting");
    ms_log_line   read = { .step = t->progress.step };
    const char   *bad  = NULL;

    if (in == NULL) return MUSEC_OK;
    for (size_t i = 0; i < COUNT(whole) && bad == NULL; i++) {
        const json_t *value = json_object_get(in, whole[i].name);
        if (!json_is_integer(value) || json_integer_value(value) < 0) bad = whole[i].name;
        *(int64_t *)(void *)((char *)&read + whole[i].offset) = json_integer_value(value);
    }
    for (size_t i = 0; i < COUNT(real) && bad == NULL; i++)
        if (!ms_train_read_real(json_object_get(in, real[i].name),
                                (double *)(void *)((char *)&read + real[i].offset)))
            bad = real[i].name;
    if (bad == NULL && !read_groups(json_object_get(in, "groups"), &read)) bad = "groups";
    if (bad == NULL && read.step < 1) bad = "step";
    if (bad != NULL)
        return ms_fail(e, MUSEC_EFORMAT,
                       "%s/state.json: \"awaiting\" has no \"%s\" that can be read", c->dir, bad);
    t->unvalidated = true;
    t->awaiting    = read;
    return MUSEC_OK;
}
