/* estimate.c - how long runs will take on this machine.
 *
 * What differs between runs of one scale is the optimizer, so every kind of it has a short run of
 * its own, with small batches: its time does not depend on them.  The time of the model comes from
 * runs with the real stages, one for each slot of the pool. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "experiment/estimate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/directory.h"
#include "core/json_file.h"
#include "core/machine.h"
#include "core/process.h"
#include "core/signals.h"
#include "core/text.h"
#include "experiment/pool.h"
#include "report/runset.h"
#include "train/schedule.h"

enum {
    FORMAT      = 1, /* of calibration.json */
    MODEL_STEPS = 12,
    VAL_EVERY   = 4,
    OPTIM_STEPS = 10,
    REPORTS     = 3, /* steps from one measurement to the next */
    OPTIM_BATCH = 256,
    KEY_TEXT    = 2048,
    MS_PER_S    = 1000,
};

/* ---- sizes of work --------------------------------------------------------------------------- */

/* The mean number of keys that a query sees, for documents of the largest length. */
static double visible_keys(int64_t window, int64_t max_doc)
{
    return fmin((double)window + 1.0, 0.5 * (double)max_doc);
}

static double keys_of(const ms_train_config *cfg, const ms_train_stage *stage, int64_t layer)
{
    const bool is_long = (cfg->model.long_layers >> layer & 1) != 0;
    return visible_keys(is_long ? stage->window_long : stage->window_short, stage->max_doc);
}

static double recomputed_flops(const ms_train_config *cfg, const ms_train_stage *stage)
{
    double flops = ms_gpt_recomputed_flops(&cfg->model, 1.0);
    for (int64_t i = 0; i < cfg->model.layers; i++)
        flops += ms_gpt_recomputed_attention(&cfg->model, i, keys_of(cfg, stage, i));
    return flops;
}

double ms_estimate_forward_flops(const ms_train_config *cfg, const ms_train_stage *stage)
{
    double flops = ms_gpt_flops(&cfg->model, 1.0);
    for (int64_t i = 0; i < cfg->model.layers; i++)
        flops += ms_gpt_attention_flops(&cfg->model, keys_of(cfg, stage, i));
    return flops / 3.0;
}

double ms_estimate_token_flops(const ms_train_config *cfg, const ms_train_stage *stage)
{
    return 3.0 * ms_estimate_forward_flops(cfg, stage) + recomputed_flops(cfg, stage);
}

double ms_estimate_recomputed(const ms_train_config *cfg, const ms_train_stage *stage)
{
    return recomputed_flops(cfg, stage) / ms_estimate_forward_flops(cfg, stage);
}

double ms_estimate_optim_work(const ms_train_config *cfg)
{
    const double w = (double)cfg->model.width, a = (double)(cfg->model.heads * cfg->model.head);
    const double m = (double)cfg->model.mlp;
    return (double)cfg->model.layers * (4.0 * w * a * fmin(w, a) + 2.0 * w * m * fmin(w, m));
}

/* The settings that an optimizer's time depends on, apart from the size of the model. */
static void optimizer_class(const ms_train_config *cfg, char *text, size_t bytes)
{
    char mode[32] = "", iters[32] = "";
    (void)ms_train_config_get(cfg, "ns_mode", mode, sizeof mode);
    (void)ms_train_config_get(cfg, "ns_iters", iters, sizeof iters);
    snprintf(text, bytes, "%s %s %s", cfg->optim.name, mode, iters);
}

/* ---- the file -------------------------------------------------------------------------------- */

static json_t *machine_here(void)
{
    char model[MS_MACHINE_TEXT];
    ms_machine_cpu(model);
    return json_pack("{s:s, s:i, s:s}", "cpu", model, "cores", ms_process_cores(), "build",
                     musec_version());
}

/* "nano, 2 at once of 1 threads on cuda:0, layers=2": what a calibration holds for. */
static void key_of(const ms_estimate_setup *setup, const char *scale, char key[KEY_TEXT])
{
    const ms_sweep *s = setup->sweep;
    snprintf(key, KEY_TEXT, "%s, %d at once of %d threads", scale, ms_sweep_width(s),
             s->threads > 0 ? s->threads : 1);
    for (size_t i = 0; i < s->n_devices; i++)
        ms_text_append(key, KEY_TEXT, " on %s", s->devices[i]);
    for (size_t i = 0; i < setup->ask->n_set; i++)
        ms_text_append(key, KEY_TEXT, ", %s", setup->ask->set[i]);
}

/* The scale whose calibration is used for `scale`. */
static const char *calibrated_scale(const char *scale)
{
    return strcmp(scale, "pico") == 0 ? "pico" : "nano";
}

static musec_status path_of(ms_error *e, const ms_estimate_setup *setup, char path[MS_PATH_MAX])
{
    return ms_path_join(e, setup->out, "calibration.json", path);
}

static void find_entry(const ms_estimate_setup *setup, ms_estimate *est)
{
    const char *scale = calibrated_scale(setup->ask->scale);
    char        key[KEY_TEXT];
    key_of(setup, scale, key);
    est->about = strcmp(scale, setup->ask->scale) != 0;
    est->width = ms_sweep_width(setup->sweep);
    est->entry = json_object_get(json_object_get(est->file, "entries"), key);
}

musec_status ms_estimate_open(ms_error *e, const ms_estimate_setup *setup, ms_estimate *out)
{
    char         path[MS_PATH_MAX];
    ms_error     ignored;
    json_t      *machine = machine_here();
    musec_status st;

    *out = (ms_estimate){ 0 };
    TRY(path_of(e, setup, path));
    st = ms_json_read(&ignored, path, &out->file);
    if (st == MUSEC_ENOMEM) TRY(ms_fail(e, st, "%s", ignored.text));
    if (st == MUSEC_OK && (json_integer_value(json_object_get(out->file, "format")) != FORMAT ||
                           !json_is_object(json_object_get(out->file, "entries")) ||
                           json_equal(json_object_get(out->file, "machine"), machine) == 0)) {
        json_decref(out->file);
        out->file = NULL;
    }
    if (out->file == NULL)
        out->file = json_pack("{s:i, s:O, s:{}}", "format", FORMAT, "machine", machine, "entries");
    st = out->file == NULL ? ms_no_memory(e, "the calibration") : MUSEC_OK;
    find_entry(setup, out);
done:
    json_decref(machine);
    return st;
}

void ms_estimate_free(ms_estimate *est)
{
    json_decref(est->file);
    *est = (ms_estimate){ 0 };
}

/* ---- runs that are measured ------------------------------------------------------------------ */

typedef struct calibration {
    ms_grid grid;
    size_t  n_model; /* runs with the real stages; each of the others is a kind of optimizer */
    double  wall_ms;
} calibration;

static musec_status add_run(ms_error *e, ms_train_config *cfg, uint64_t seed, ms_grid *grid)
{
    json_t      *description;
    musec_status st;

    cfg->seed   = seed; /* makes the runs differ */
    description = json_pack("{s:[o]}", "grids", ms_train_config_json(cfg));
    st          = description == NULL ? ms_fail(e, MUSEC_ENOMEM, "not enough memory")
                                      : ms_grid_add(e, "the calibration", description, grid);
    json_decref(description);
    return st;
}

static musec_status add_model_runs(ms_error *e, const ms_train_config *like, int width,
                                   ms_grid *grid)
{
    ms_train_config cfg = *like;
    musec_status    st  = MUSEC_OK;

    cfg.steps            = MODEL_STEPS;
    cfg.extension        = 0;
    cfg.val_every        = VAL_EVERY;
    cfg.checkpoint_every = 0;
    cfg.model.recompute  = MS_RECOMPUTE_NONE;
    TRY(ms_train_config_set(e, &cfg, "report_every", "0"));
    for (int i = 0; i < width; i++)
        TRY(add_run(e, &cfg, (uint64_t)i, grid));
done:
    return st;
}

static musec_status add_optim_run(ms_error *e, const ms_train_config *like, ms_grid *grid)
{
    ms_train_config cfg = *like;
    char            every[16];
    musec_status    st;

    TRY(ms_train_config_set(e, &cfg, "stages", ""));
    TRY(ms_train_config_set(e, &cfg, "mtp", "1"));
    cfg.steps         = OPTIM_STEPS;
    cfg.extension     = 0;
    cfg.batch         = OPTIM_BATCH;
    cfg.micro_batches = 1;
    if (cfg.max_doc > OPTIM_BATCH) cfg.max_doc = OPTIM_BATCH;
    cfg.val_every        = 0;
    cfg.val_tokens       = OPTIM_BATCH;
    cfg.checkpoint_every = 0;
    snprintf(every, sizeof every, "%d", REPORTS);
    TRY(ms_train_config_set(e, &cfg, "report_every", every));
    TRY(add_run(e, &cfg, 0, grid));
done:
    return st;
}

static bool has_class(const ms_grid *grid, size_t from, const char *name)
{
    char text[96];
    for (size_t i = from; i < grid->n; i++) {
        optimizer_class(&grid->at[i].config, text, sizeof text);
        if (strcmp(text, name) == 0) return true;
    }
    return false;
}

/* Chooses a run for every kind of optimizer that any item has at the scale. */
static musec_status choose_runs(ms_error *e, const ms_estimate_setup *setup, calibration *c)
{
    ms_experiment_ask ask   = { .scale = calibrated_scale(setup->ask->scale),
                                .full  = true,
                                .set   = setup->ask->set,
                                .n_set = setup->ask->n_set };
    ms_grid           every = { 0 };
    char              name[96];
    musec_status      st = MUSEC_OK;

    for (size_t i = 0; i < setup->all->n; i++)
        TRY(ms_experiment_runs(e, setup->all, &setup->all->at[i], &ask, &every));
    if (every.n == 0) TRY(ms_fail(e, MUSEC_EINVAL, "no item has runs at %s", ask.scale));
    TRY(add_model_runs(e, &every.at[0].config, ms_sweep_width(setup->sweep), &c->grid));
    c->n_model = c->grid.n;
    for (size_t i = 0; i < every.n; i++) {
        optimizer_class(&every.at[i].config, name, sizeof name);
        if (!has_class(&c->grid, c->n_model, name))
            TRY(add_optim_run(e, &every.at[i].config, &c->grid));
    }
done:
    ms_grid_free(&every);
    return st;
}

static musec_status make_runs(ms_error *e, const ms_estimate_setup *setup, const char *dir,
                              ms_log *log, calibration *c)
{
    ms_log        quiet = ms_log_open(stderr, MS_LOG_QUIET);
    ms_sweep      sweep = *setup->sweep;
    ms_sweep_run *runs  = calloc(c->grid.n + 1, sizeof *runs);
    const double  start = ms_clock_ms();
    musec_status  st;

    if (runs == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory");
    ms_sweep_checkpoints(&c->grid, MS_CHECKPOINTS_NONE);
    sweep.grid       = &c->grid;
    sweep.out        = dir;
    sweep.log        = log->live ? log : &quiet; /* the table that is redrawn, or nothing */
    sweep.expected_s = 0.0;
    sweep.limit_s    = 0.0;
    st               = ms_sweep_run_all(e, &sweep, runs);
    c->wall_ms       = ms_clock_ms() - start;
    free(runs);
    return st;
}

/* ---- their results --------------------------------------------------------------------------- */

typedef struct mean {
    double sum;
    int    n;
} mean;

static void add_to(mean *m, double x)
{
    if (!isfinite(x)) return;
    m->sum += x;
    m->n++;
}

static double mean_of(const mean *m) { return m->n > 0 ? m->sum / m->n : 0.0; }

static musec_status read_run(ms_error *e, const char *dir, const ms_grid_run *run, ms_runset *set)
{
    char         path[MS_PATH_MAX];
    musec_status st;

    TRY(ms_path_join(e, dir, run->name, path));
    TRY(ms_runset_add(e, set, path));
    if (set->n != 1 || set->at[0].n == 0)
        st = ms_fail(e, MUSEC_EFORMAT, "%s: the calibration's run has no log", path);
done:
    return st;
}

static double line_ms(const ms_run_line *l)
{
    return l->ms_data + l->ms_model + l->ms_optim + l->ms_rest;
}

typedef struct figures {
    mean stage[MS_STAGES], val, rest; /* ms of a step, of a validation, of a step's rest */
    mean logged;                      /* ms of all lines of a run */
} figures;

/* Means over steps leave out the first one, which is slower. */
static musec_status read_model(ms_error *e, const char *dir, const ms_grid_run *run, figures *f)
{
    ms_runset    set = { 0 };
    ms_schedule  schedule;
    double       logged = 0.0;
    musec_status st;

    TRY(read_run(e, dir, run, &set));
    TRY(ms_schedule_make(e, &run->config, &schedule));
    for (size_t i = 0; i < set.at[0].n; i++) {
        const ms_run_line *l    = &set.at[0].lines[i];
        const ms_step_plan plan = ms_schedule_at(&schedule, l->step - 1);
        logged += line_ms(l);
        if (i == 0) continue;
        add_to(&f->stage[plan.stage - schedule.stage], l->ms_data + l->ms_model);
        add_to(l->has_val ? &f->val : &f->rest, l->ms_rest);
    }
    add_to(&f->logged, logged);
done:
    ms_runset_free(&set);
    return st;
}

static musec_status read_optim(ms_error *e, const char *dir, const ms_grid_run *run, figures *f,
                               json_t **classes)
{
    ms_runset    set   = { 0 };
    mean         plain = { 0 }, measured = { 0 };
    double       logged = 0.0;
    char         name[96];
    musec_status st;

    TRY(read_run(e, dir, run, &set));
    for (size_t i = 0; i < set.at[0].n; i++) {
        const ms_run_line *l = &set.at[0].lines[i];
        logged += line_ms(l);
        if (i > 0) add_to(l->has_groups ? &measured : &plain, l->ms_optim);
    }
    add_to(&f->logged, logged);
    optimizer_class(&run->config, name, sizeof name);
    ms_json_set(classes, name,
                json_pack("{s:f, s:f}", "ms", mean_of(&plain), "report_ms",
                          fmax(0.0, mean_of(&measured) - mean_of(&plain))));
done:
    ms_runset_free(&set);
    return st;
}

static json_t *stages_json(const ms_train_config *cfg, const ms_schedule *schedule,
                           const figures *f)
{
    json_t *out = json_array();
    for (int i = 0; i < schedule->n_stages; i++) {
        const ms_train_stage *s = &schedule->stage[i];
        ms_json_append(&out,
                       json_pack("{s:f, s:f}", "ms_token", mean_of(&f->stage[i]) / (double)s->batch,
                                 "flops_token", ms_estimate_token_flops(cfg, s)));
    }
    return out;
}

static musec_status read_figures(ms_error *e, const char *dir, const calibration *c, int width,
                                 json_t **entry)
{
    const ms_train_config *cfg     = &c->grid.at[0].config;
    json_t                *classes = json_object();
    figures                f       = { 0 };
    ms_schedule            schedule;
    musec_status           st;

    for (size_t i = 0; i < c->n_model; i++)
        TRY(read_model(e, dir, &c->grid.at[i], &f));
    for (size_t i = c->n_model; i < c->grid.n; i++)
        TRY(read_optim(e, dir, &c->grid.at[i], &f, &classes));
    TRY(ms_schedule_make(e, cfg, &schedule));
    *entry = json_pack(
        "{s:f, s:f, s:f, s:f, s:o, s:O}", "start_s",
        fmax(0.0, (c->wall_ms * width - f.logged.sum) / (double)c->grid.n) / MS_PER_S, "rest_ms",
        mean_of(&f.rest), "val_ms_token",
        fmax(0.0, mean_of(&f.val) - mean_of(&f.rest)) / (double)cfg->val_tokens, "optim_work",
        ms_estimate_optim_work(cfg), "stages", stages_json(cfg, &schedule, &f), "optim", classes);
    if (*entry == NULL) st = ms_fail(e, MUSEC_ENOMEM, "not enough memory");
done:
    json_decref(classes);
    return st;
}

/* Keeps the entry; if the file cannot be written, it is still used this time. */
static musec_status save_entry(ms_error *e, const ms_estimate_setup *setup, ms_log *log,
                               json_t *entry, ms_estimate *est)
{
    char         path[MS_PATH_MAX], key[KEY_TEXT];
    ms_error     why = { "" };
    musec_status st;

    key_of(setup, calibrated_scale(setup->ask->scale), key);
    TRY(ms_json_put(e, json_object_get(est->file, "entries"), key, json_incref(entry)));
    find_entry(setup, est);
    if (ms_directory_make(&why, setup->out) != MUSEC_OK || path_of(&why, setup, path) != MUSEC_OK ||
        ms_json_write(&why, path, est->file) != MUSEC_OK)
        ms_log_say(log, MS_LOG_NORMAL, "warning: the calibration is not kept: %s", why.text);
done:
    return st;
}

musec_status ms_estimate_calibrate(ms_error *e, const ms_estimate_setup *setup, ms_log *log,
                                   ms_estimate *est)
{
    const char  *base  = getenv("TMPDIR");
    json_t      *entry = NULL;
    calibration  c     = { 0 };
    char         dir[MS_PATH_MAX];
    ms_error     ignored;
    musec_status st;

    TRY(ms_path_join(e, base != NULL && base[0] != '\0' ? base : "/tmp", "musec-calibration-XXXXXX",
                     dir));
    TRY(choose_runs(e, setup, &c));
    if (mkdtemp(dir) == NULL)
        TRY(ms_fail(e, MUSEC_EIO, "%s: cannot make a directory there; set TMPDIR", dir));
    ms_log_say(log, MS_LOG_NORMAL, "calibrating at %s: %zu short runs, %d at once",
               calibrated_scale(setup->ask->scale), c.grid.n, ms_sweep_width(setup->sweep));
    st = make_runs(e, setup, dir, log, &c);
    if (st == MUSEC_OK) st = read_figures(e, dir, &c, ms_sweep_width(setup->sweep), &entry);
    if (st == MUSEC_OK || *ms_stop_flag() != 0) /* otherwise the output of the failed run is kept */
        (void)ms_directory_remove(&ignored, dir);
    if (st != MUSEC_OK) goto done;
    TRY(save_entry(e, setup, log, entry, est));
    ms_log_say(log, MS_LOG_NORMAL, "calibrated in %.0f s", c.wall_ms / MS_PER_S);
done:
    json_decref(entry);
    ms_grid_free(&c.grid);
    return st;
}

/* ---- estimates ------------------------------------------------------------------------------- */

/* ms of all tokens of a run, by the figures of the stage with the same number. */
static double model_ms(const json_t *entry, const ms_train_config *cfg, const ms_schedule *s)
{
    const json_t *stages = json_object_get(entry, "stages");
    const size_t  n      = json_array_size(stages);
    double        sum    = 0.0;

    for (int i = 0; i < s->n_stages && n > 0; i++) {
        const ms_train_stage *g    = &s->stage[i];
        const json_t         *like = json_array_get(stages, (size_t)i < n ? (size_t)i : n - 1);
        const double ms = ms_json_number(like, "ms_token") * ms_estimate_token_flops(cfg, g) /
                          ms_json_number(like, "flops_token");
        sum += ms * (double)g->batch * (double)(g->end - g->first);
    }
    return sum;
}

double ms_estimate_run(const ms_estimate *est, const ms_train_config *cfg)
{
    const json_t *entry = est->entry, *stages = json_object_get(entry, "stages"), *kind;
    char          name[96], text[32]          = "0";
    ms_error      ignored;
    ms_schedule   s;

    if (entry == NULL || ms_schedule_make(&ignored, cfg, &s) != MUSEC_OK) return NAN;
    optimizer_class(cfg, name, sizeof name);
    kind = json_object_get(json_object_get(entry, "optim"), name);
    if (kind == NULL) return NAN;
    (void)ms_train_config_get(cfg, "report_every", text, sizeof text);
    const double every   = strtod(text, NULL);
    const double steps   = (double)s.steps;
    const double reports = every > 0.0 ? floor(steps / every) : 0.0;
    const double val     = cfg->val_every > 0 ? ceil(steps / (double)cfg->val_every) : 1.0;
    const double larger  = ms_estimate_optim_work(cfg) / ms_json_number(entry, "optim_work");
    const double slower =
        3.0 * ms_estimate_forward_flops(cfg, &s.stage[s.n_stages - 1]) /
        ms_json_number(json_array_get(stages, json_array_size(stages) - 1), "flops_token");
    const double ms =
        model_ms(entry, cfg, &s) + steps * ms_json_number(entry, "rest_ms") +
        larger *
            (steps * ms_json_number(kind, "ms") + reports * ms_json_number(kind, "report_ms")) +
        slower * val * (double)cfg->val_tokens * ms_json_number(entry, "val_ms_token");
    return ms_json_number(entry, "start_s") + ms / MS_PER_S;
}

double ms_estimate_all(const ms_estimate *est, const ms_grid *grid, const ms_sweep_run *runs)
{
    const int width               = est->width > 0 ? est->width : 1;
    double    busy[MS_POOL_WIDTH] = { 0 }; /* when each slot is free */
    double    last                = 0.0;

    for (size_t i = 0; i < grid->n; i++) {
        int first = 0;
        if (runs != NULL && ms_sweep_is_finished(&runs[i])) continue;
        for (int k = 1; k < width; k++)
            if (busy[k] < busy[first]) first = k;
        busy[first] += ms_estimate_run(est, &grid->at[i].config);
        if (!(busy[first] <= last)) last = busy[first];
        if (isnan(last)) break;
    }
    return last;
}

void ms_estimate_text(double seconds, char *text, size_t bytes)
{
    const double minute = 60.0, hour = 60.0 * minute, day = 24.0 * hour, year = 365.25 * day;

    if (!isfinite(seconds))
        snprintf(text, bytes, "-");
    else if (seconds < 1.5 * minute)
        snprintf(text, bytes, "%.0f s", seconds);
    else if (seconds < 1.5 * hour)
        snprintf(text, bytes, "%.0f min", seconds / minute);
    else if (seconds < 2.0 * day)
        snprintf(text, bytes, "%.1f h", seconds / hour);
    else if (seconds < 2.0 * year)
        snprintf(text, bytes, "%.0f days", seconds / day);
    else
        snprintf(text, bytes, "%.0f years", seconds / year);
}
