/* cmd_train.c - musec train: trains a GPT, from a preset and what is changed of it.
 *
 * Every field of the config is an option, and --set reaches them all by the names of config.json.
 * SIGINT, SIGTERM and SIGHUP let the step at hand finish, or abandon it where it is long, write a
 * checkpoint and leave; a second one (signals.h) ends the program at once. */
#define _POSIX_C_SOURCE 200809L /* access */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/settings.h"
#include "cli/train_start.h"
#include "comm/comm.h"
#include "core/clock.h"
#include "core/json_file.h"
#include "core/signals.h"
#include "experiment/estimate.h"
#include "train/rundir.h"
#include "train/train.h"

enum {
    MAX_SETTINGS  = 256,
    MAX_GROUPS    = 16,
    VALUE_MAX     = 256,
    LINE_EVERY_MS = 5000,
    GRACE_MS      = 1000
};

struct args {
    const char    *preset, *optimizer, *config, *out, *resume, *comm, *replicas;
    ms_option_list set, data, val_data;
    int            explain, quiet, json, n_replicas; /* of --replicas 0 is auto */
    bool           is_auto;                          /* --resume auto has found a run */
    const char    *settings[MAX_SETTINGS];           /* by ms_train_field_at(); NULL: not given */
};

static const char default_preset[] = "pico", default_optimizer[] = "soft-musec";

static char optimizer_names[256], help_text[4096]; /* filled by train_command() */

static const ms_option before[] = {
    { "preset", MS_OPT_CHOICE, AT(preset),
      "pico|nano|mini|midi|small|medium|wide|small-full|medium-full|wide-full",
      "size of model and run: pico takes seconds on a laptop, wide is the paper's largest [pico]" },
    { "optimizer", MS_OPT_CHOICE, AT(optimizer), optimizer_names,
      "optimizer of the attention and MLP matrices; all else gets AdamW [soft-musec]" },
    { "out", MS_OPT_STR, AT(out), "DIR",
      "run directory to create [runs/PRESET-OPTIMIZER-lrLR-sSEED, with -2, -3, ... behind it where "
      "that exists]" },
    { "resume", MS_OPT_STR, AT(resume), "RUN",
      "continue the run in this directory from its newest checkpoint; a larger --steps extends "
      "it; auto: that of --out if it has begun, else begin it" },
    { "explain", MS_OPT_FLAG, AT(explain), NULL,
      "print what would be done, with the rule of every parameter and the memory, and stop" },
    { "set", MS_OPT_LIST, AT(set), "FIELD=VALUE",
      "set any field by its name in config.json; may be repeated" },
    { "comm", MS_OPT_CHOICE, AT(comm), ms_comm_choices,
      "how several processes train one model, where mpirun, srun or the like have started them: "
      "auto is MPI, with NCCL among GPUs where each process has one, or NCCL alone where "
      "MASTER_ADDR is set; tcp needs neither [auto]" },
    { "replicas", MS_OPT_STR, AT(replicas), "N|no|auto",
      "groups of ranks that each own all matrices; auto: one a machine with --deterministic no" },
    { "config", MS_OPT_STR, AT(config), "FILE",
      "start from the config.json of another run instead of a preset [none]" },
    { "quiet", MS_OPT_FLAG, AT(quiet), NULL, "print no progress" },
    MS_CLI_JSON(struct args),
};
static const size_t n_common = COUNT(before) - 2; /* of them; the last two go with logging */

static ms_option       rows[COUNT(before) + MAX_SETTINGS]; /* as the tables have them */
static ms_option       options[COUNT(rows)];               /* the same, by their groups */
static ms_option_group groups[MAX_GROUPS];

static const char details[] =
    "Defaults in brackets are those of the preset pico with soft-musec; others differ:\n"
    "--explain shows what applies.  --learning-rate is --lr; whole numbers may be written 1e3.\n"
    "The run directory gets config.json, log.jsonl, TensorBoard events, summary.json and\n"
    "checkpoints (docs/formats.md).  A run that diverges or stalls is a result: the\n"
    "summary says why.  Several ranks exit with 3 if the run has diverged.\n"
    "A resumed run needs the data that it began with, and a checkpoint if it has ended.\n\n"
    "Optimizers:\n";
static const char example[] =
    "\nExamples: musec train --preset nano --data book.txt --optimizer soft-musec --out runs/a\n"
    "          musec train --resume runs/a --steps 1200\n";

/* Whether `value` is the default that the text in brackets begins with: "0: no" or "1e-8]". */
static bool is_default(const ms_train_config *cfg, const char *name, const char *brackets,
                       const char *value)
{
    static ms_train_config other;
    char                   word[64], same[VALUE_MAX] = "";
    ms_error               ignored;
    other = *cfg;
    snprintf(word, sizeof word, "%.*s", (int)strcspn(brackets, "]:;"), brackets);
    return ms_train_config_set(&ignored, &other, name, word) == MUSEC_OK &&
           ms_train_config_get(&other, name, same, sizeof same) == MUSEC_OK &&
           strcmp(same, value) == 0;
}

/* The help of a field with its default in brackets. */
static const char *with_default(const ms_train_config *cfg, const ms_train_field *f, char *text,
                                size_t bytes)
{
    const size_t n                = strlen(f->help);
    const char  *brackets         = f->help[n - 1] == ']' ? strrchr(f->help, '[') : NULL;
    char         value[VALUE_MAX] = "";
    if (ms_train_config_get(cfg, f->name, value, sizeof value) != MUSEC_OK || value[0] == '\0')
        return f->help; /* the help describes it */
    if (brackets != NULL && is_default(cfg, f->name, brackets + 1, value)) return f->help;
    snprintf(text, bytes, "%.*s [%s]", brackets != NULL ? (int)(brackets - f->help) - 1 : (int)n,
             f->help, value);
    return text;
}

static const char *setting_at(size_t index, const char **values, const char **help)
{
    static char            texts[MAX_SETTINGS][2 * VALUE_MAX];
    static ms_train_config defaults;
    ms_train_field         f;
    ms_error               ignored;
    if (index >= MAX_SETTINGS || !ms_train_field_at(index, &f)) return NULL;
    if (index == 0)
        (void)ms_train_config_init(&ignored, &defaults, default_preset, default_optimizer);
    *values = f.values;
    *help   = with_default(&defaults, &f, texts[index], sizeof texts[index]);
    return f.name;
}

/* Makes lists of the options that may be repeated, which the table of fields cannot express. */
static void allow_lists(ms_option *first, size_t n)
{
    const struct {
        const char *name;
        size_t      offset;
    } lists[] = { { "data", AT(data) }, { "val-data", AT(val_data) } };
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < COUNT(lists); k++)
            if (strcmp(first[i].name, lists[k].name) == 0) {
                first[i].type   = MS_OPT_LIST;
                first[i].offset = lists[k].offset;
            }
}

static const char *group_of(size_t row)
{
    ms_train_field f;
    if (row < COUNT(before)) return row < n_common ? MS_GROUP_COMMON : MS_GROUP_LOGGING;
    return ms_train_field_at(row - COUNT(before), &f) ? f.group : NULL;
}

/* Sorts the n rows by their groups, as --help shows them; returns the number of groups. */
static size_t arrange(size_t n)
{
    const char *title;
    size_t      done = 0, g = 0;
    for (; g < MAX_GROUPS && (title = ms_train_group(g)) != NULL; g++) {
        const size_t first = done;
        for (size_t i = 0; i < n; i++)
            if (strcmp(group_of(i), title) == 0) options[done++] = rows[i];
        groups[g] = (ms_option_group){ title, options[first].name };
    }
    return g;
}

const ms_command *train_command(void)
{
    static ms_command command = {
        .name     = "musec train",
        .operands = "",
        .summary  = "train a GPT on a text, on token shards or on the built-in corpus",
        .details  = help_text,
        .options  = options,
        .groups   = groups,
        .instead  = "--data ",
    };
    ms_settings_list(musec_optim_name, 12, optimizer_names, sizeof optimizer_names, details,
                     example, help_text, sizeof help_text);
    memcpy(rows, before, sizeof before);
    command.n_options = COUNT(before) + ms_settings_options(setting_at, AT(settings),
                                                            rows + COUNT(before), MAX_SETTINGS);
    allow_lists(rows + COUNT(before), command.n_options - COUNT(before));
    command.n_groups = arrange(command.n_options);
    return &command;
}

/* ---- the config ------------------------------------------------------------------------------ */

/* "PATH=WEIGHT;PATH=WEIGHT" of an option that was repeated. */
static musec_status apply_list(ms_error *e, const char *name, const ms_option_list *list,
                               ms_train_config *cfg)
{
    char   joined[MS_PATH_MAX];
    size_t n = 0;

    if (list->n == 0) return MUSEC_OK;
    for (size_t i = 0; i < list->n; i++) {
        if (strchr(list->item[i], ';') != NULL)
            return ms_fail(e, MUSEC_EINVAL, "%s: \"%s\" holds a ';', which parts the names of sets",
                           name, list->item[i]);
        const int k =
            snprintf(joined + n, sizeof joined - n, "%s%s", i == 0 ? "" : ";", list->item[i]);
        if (k < 0 || (size_t)k >= sizeof joined - n)
            return ms_fail(e, MUSEC_EINVAL, "%s: the names are longer than %zu bytes together",
                           name, sizeof joined - 1);
        n += (size_t)k;
    }
    return ms_train_config_set(e, cfg, name, joined);
}

static musec_status apply(ms_error *e, const struct args *a, ms_train_config *cfg)
{
    ms_error       why = { "" };
    char           key[MS_OPTION_NAME];
    ms_train_field f;
    musec_status   st = MUSEC_OK;

    for (size_t i = 0; ms_train_field_at(i, &f); i++) {
        if (a->settings[i] == NULL) continue;
        st = ms_train_config_set(&why, cfg, f.name, a->settings[i]);
        if (st != MUSEC_OK) return ms_fail(e, st, "--%s", why.text);
    }
    st = apply_list(&why, "data", &a->data, cfg);
    if (st == MUSEC_OK) st = apply_list(&why, "val-data", &a->val_data, cfg);
    if (st != MUSEC_OK) return ms_fail(e, st, "--%s", why.text);
    for (size_t i = 0; i < a->set.n; i++) {
        const char *value = ms_option_pair(a->set.item[i], key); /* check_usage saw that it is */
        st                = ms_train_config_set(&why, cfg, key, value);
        if (st != MUSEC_OK) return ms_fail(e, st, "--set: %s", why.text);
    }
    return st;
}

static bool is_given(const void *arg, const char *name)
{
    const struct args *a = arg;
    ms_train_field     f;
    char               key[MS_OPTION_NAME];
    for (size_t i = 0; ms_train_field_at(i, &f); i++)
        if (strcmp(f.name, name) == 0 && a->settings[i] != NULL) return true;
    for (size_t i = 0; i < a->set.n; i++)
        if (ms_option_pair(a->set.item[i], key) != NULL && ms_train_field_same(key, name))
            return true;
    return false;
}

/* The config of a run that this command begins. */
static musec_status configure_new(ms_error *e, const struct args *a, ms_train_config *cfg,
                                  char notes[MS_CONFIG_NOTES])
{
    musec_status st;
    if (a->config != NULL)
        TRY(ms_train_config_read(e, a->config, cfg));
    else
        TRY(ms_train_config_init(e, cfg, a->preset, a->optimizer));
    TRY(apply(e, a, cfg));
    ms_train_config_resolve(cfg, is_given, a, notes);
    TRY(ms_train_config_check(e, cfg));
done:
    return st;
}

static musec_status configure(ms_error *e, const struct args *a, ms_train_config *cfg)
{
    char            path[MS_PATH_MAX], notes[MS_CONFIG_NOTES];
    ms_train_config was;
    musec_status    st;

    if (a->resume != NULL) {
        TRY(ms_rundir_check(e, a->resume));
        snprintf(path, sizeof path, "%s/config.json", a->resume);
        TRY(ms_train_config_read(e, path, cfg));
        TRY(ms_train_config_check(e, cfg));
        was = *cfg;
        if (a->is_auto) { /* it must be what the command would begin */
            TRY(configure_new(e, a, cfg, notes));
            TRY(ms_train_config_same(e, path, &was, cfg));
            *cfg = was;
        }
        TRY(apply(e, a, cfg));
        TRY(ms_train_config_check(e, cfg));
        TRY(ms_train_config_same(e, path, &was, cfg));
    } else {
        notes[0] = '\0';
        st       = configure_new(e, a, cfg, notes);
        if (!a->quiet) fputs(notes, stderr);
        if (st != MUSEC_OK) goto done;
    }
done:
    return st;
}

/* The flag of its own by which `field` is given too, or NULL. */
static const char *own_flag(const struct args *a, const char *field)
{
    ms_train_field f;
    for (size_t i = 0; ms_train_field_at(i, &f); i++)
        if (a->settings[i] != NULL && ms_train_field_same(f.name, field)) return f.name;
    if (a->data.n > 0 && ms_train_field_same("data", field)) return "data";
    return a->val_data.n > 0 && ms_train_field_same("val-data", field) ? "val-data" : NULL;
}

static int check_sets(const ms_command *cmd, const struct args *a)
{
    char        name[MS_OPTION_NAME];
    const char *own;

    for (size_t i = 0; i < a->set.n; i++) {
        if (ms_option_pair(a->set.item[i], name) == NULL)
            return ms_cli_usage(cmd, "--set wants FIELD=VALUE, not '%s'", a->set.item[i]);
        own = own_flag(a, name);
        if (own != NULL) /* neither may win silently */
            return ms_cli_usage(cmd, "--%s and --set %s give the same field", own, a->set.item[i]);
    }
    return EXIT_OK;
}

static bool wants_auto(const struct args *a)
{
    return a->resume != NULL && strcmp(a->resume, "auto") == 0;
}

static int read_replicas(const ms_command *cmd, struct args *a)
{
    const char *text = a->replicas != NULL ? a->replicas : "auto";
    const bool  word = strcmp(text, "no") == 0 || strcmp(text, "auto") == 0;
    char       *end  = NULL;
    const long  n    = strtol(text, &end, 10);

    a->n_replicas = word ? text[0] == 'n' : (int)n;
    if (word || (end != text && *end == '\0' && n > 0 && n <= INT_MAX)) return EXIT_OK;
    return ms_cli_usage(cmd, "--replicas wants a whole number of 1 or more, no or auto, not '%s'",
                        text);
}

static int check_usage(const ms_command *cmd, struct args *a)
{
    if (check_sets(cmd, a) != EXIT_OK || read_replicas(cmd, a) != EXIT_OK) return EXIT_USAGE;
    if (wants_auto(a)) {
        if (a->out == NULL)
            return ms_cli_usage(cmd, "--resume auto goes on with the run of --out DIR; ./auto is a "
                                     "directory of that name");
        return ms_settings_usage(cmd, rows + COUNT(before), a->settings,
                                 cmd->n_options - COUNT(before));
    }
    if (a->resume != NULL && (a->out != NULL || a->config != NULL))
        return ms_cli_usage(cmd, "--resume goes on in its directory: without --out and --config");
    if ((a->resume != NULL || a->config != NULL) && (a->preset != NULL || a->optimizer != NULL))
        return ms_cli_usage(cmd, "--preset and --optimizer are what %s says already",
                            a->resume != NULL ? "--resume" : "--config");
    return ms_settings_usage(cmd, rows + COUNT(before), a->settings,
                             cmd->n_options - COUNT(before));
}

/* ---- while it runs --------------------------------------------------------------------------- */

struct progress {
    const ms_train_config *config;
    ms_log                *log;
    char                   out[MS_PATH_MAX];
    ms_schedule            schedule;
    double                 started, last_line;
    int64_t                first_step;
    double                 val_loss;
    int                    has_val;
};

/* Prints what the run will do, before anything that takes long. */
static musec_status on_open(ms_error *e, void *arg, ms_train_start *start)
{
    struct progress *p = arg;
    char             time[32];
    double           expected_s;
    musec_status     st = MUSEC_OK;

    if (p->out[0] == '\0') {
        TRY(ms_run_directory(e, p->config, p->out));
        start->made_out = true;
    }
    p->schedule   = *start->schedule;
    p->first_step = start->step;
    expected_s    = ms_train_start_say(p->log, start, p->out);
    ms_estimate_text(expected_s, time, sizeof time);
    if (!isnan(expected_s))
        ms_log_progress(p->log, "step %lld/%lld: about %s left", (long long)start->step,
                        (long long)start->schedule->steps, time);
done:
    return st;
}

/* Seconds for the work that is left, at the pace of this process so far. */
static double time_left(const struct progress *p, int64_t step, double now)
{
    const double done = ms_train_work(p->config, &p->schedule, p->first_step, step);
    const double left = ms_train_work(p->config, &p->schedule, step, p->schedule.steps);
    return (now - p->started) / 1000.0 * left / done;
}

static void on_step(void *arg, const ms_log_line *line)
{
    struct progress *p   = arg;
    const double     now = ms_clock_ms();
    char             text[256], val[32] = "", left[32];

    if (line->has_val) {
        p->val_loss = line->val_loss;
        p->has_val  = 1;
    }
    if (p->has_val) snprintf(val, sizeof val, ", val %.4f", p->val_loss);
    ms_estimate_text(time_left(p, line->step, now), left, sizeof left);
    snprintf(text, sizeof text, "step %lld/%lld: loss %.4f%s, lr %.3g, %.0f tok/s, %s left",
             (long long)line->step, (long long)p->schedule.steps, line->loss, val, line->lr,
             line->tok_s, left);
    if (*ms_stop_flag() == 0) ms_log_progress(p->log, "%s", text);
    if (line->has_val || (!p->log->live && now - p->last_line > LINE_EVERY_MS)) {
        ms_log_say(p->log, MS_LOG_NORMAL, "%s", text);
        p->last_line = now;
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

static musec_status print_summary(ms_error *e, const struct args *a, const char *out,
                                  const ms_summary *s)
{
    json_t *root;

    if (!a->json) {
        printf("%s%s%s after %lld steps, %lld tokens, %.1f s: loss %.4f", s->status,
               s->reason != NULL ? ": " : "", s->reason != NULL ? s->reason : "",
               (long long)s->steps, (long long)s->tokens, s->time_s,
               isnan(s->last_loss) ? NAN : s->last_loss); /* some systems print a NaN's sign */
        if (!isnan(s->last_val_loss)) printf(", val %.4f", s->last_val_loss);
        for (int i = 0;
             s->last_val != NULL && s->last_val->n_val_sets > 1 && i < s->last_val->n_val_sets; i++)
            printf("%s%s %.4f%s", i == 0 ? " (" : ", ", s->last_val->val_names[i],
                   s->last_val->val_losses[i], i + 1 == s->last_val->n_val_sets ? ")" : "");
        if (s->skipped > 0) printf("; %lld steps skipped", (long long)s->skipped);
        ms_text_print("; ", out, "\n", stdout);
        return MUSEC_OK;
    }
    root = json_object();
    ms_json_add(&root, "out=%s status=%s reason=%s steps=%lld tokens=%lld", out, s->status,
                s->reason, (long long)s->steps, (long long)s->tokens);
    if (s->note != NULL) ms_json_set(&root, "note", json_string(s->note));
    if (s->skipped > 0) ms_json_set(&root, "skipped", json_integer(s->skipped));
    ms_json_add(&root,
                "last_loss=%g best_loss=%g last_val_loss=%g best_val_loss=%g unigram_loss=%g "
                "time_s=%g start_s=%g",
                s->last_loss, s->best_loss, s->last_val_loss, s->best_val_loss, s->unigram_loss,
                s->time_s, s->start_s);
    return ms_json_finish(e, root, stdout);
}

/* Lets a step finish that ends within the time of grace. */
static ms_stop stop_request(void *unused)
{
    const double age = ms_stop_age_ms();
    (void)unused;
    return age < 0.0 ? MS_STOP_NO : age < GRACE_MS ? MS_STOP_AFTER_STEP : MS_STOP_NOW;
}

/* One rank speaks: the others have neither a log nor callbacks. */
static musec_status run(ms_error *e, const struct args *a, const ms_train_config *cfg,
                        ms_comm *comm, int *code)
{
    const bool      speaks = comm->rank == 0, quiet = a->quiet || !speaks;
    ms_log          log      = ms_log_open(stderr, quiet ? MS_LOG_QUIET : MS_LOG_NORMAL);
    struct progress progress = { .config = cfg, .log = &log };
    char *const     out      = progress.out;
    ms_train_setup  setup    = { .config    = *cfg,
                                 .out       = out,
                                 .resume    = a->resume != NULL,
                                 .device    = ms_cli_shared_device,
                                 .began     = ms_cli_training_began_ms(),
                                 .comm      = comm,
                                 .comm_kind = a->comm,
                                 .replicas  = a->n_replicas,
                                 .log       = speaks ? &log : NULL,
                                 .stop      = stop_request,
                                 .on_open   = speaks ? on_open : NULL,
                                 .on_step   = speaks ? on_step : NULL,
                                 .arg       = &progress };
    ms_train       *t        = NULL;
    ms_summary      summary;
    musec_status    st;

    if (a->resume != NULL || a->out != NULL) {
        if (snprintf(out, MS_PATH_MAX, "%s", a->resume != NULL ? a->resume : a->out) >= MS_PATH_MAX)
            return ms_fail(e, MUSEC_EINVAL, "the name of the run's directory is too long");
        if (out[0] == '\0') return ms_fail(e, MUSEC_EINVAL, "a directory without a name");
    }
    /* before there is a directory: a run that is interrupted says so in it */
    ms_stop_catch(quiet ? NULL : "stopping; again to stop now");
    TRY(ms_train_open(e, &setup, &t));
    progress.started = progress.last_line = ms_clock_ms();
    if (!quiet) ms_stop_answer("finishing this step; again to stop now");
    TRY(ms_train_run(e, t, &summary));
    if (*ms_stop_flag() != 0) log.dangling = 0; /* the answer stands below the progress line */
    ms_log_end(&log);
    if (strcmp(summary.status, "interrupted") == 0) {
        *code = ms_stop_code(EXIT_OK);
        ms_log_say(&log, MS_LOG_NORMAL, "interrupted; go on with: musec train --resume %s", out);
    }
    if (speaks) TRY(print_summary(e, a, out, &summary));
    if (comm->size > 1 && strcmp(summary.status, "diverged") == 0) {
        *code = EXIT_DIVERGED; /* a launcher knows a job by its status */
        (void)fflush(stdout);  /* it may end rank 0 once another rank has returned this; main
                                * reports a failure */
    }
done:
    ms_log_end(&log);
    if (st != MUSEC_OK) ms_comm_abort(comm, e->text); /* while what others may read is there */
    ms_train_close(t);
    return st;
}

/* ---- ranks ----------------------------------------------------------------------------------- */

/* Decides, for all ranks, whether --resume auto goes on with a run. */
static musec_status find_begun(ms_error *e, struct args *a, ms_comm *comm)
{
    char         path[MS_PATH_MAX];
    char         begun = 0;
    musec_status st    = MUSEC_OK;

    if (!wants_auto(a)) return MUSEC_OK;
    TRY(ms_path_join(e, a->out, "config.json", path));
    if (comm->rank == 0) begun = access(path, F_OK) == 0;
    TRY(ms_comm_check(e, comm, comm->ops->broadcast(comm, &begun, 1, 0)));
    a->is_auto = begun != 0;
    a->resume  = begun != 0 ? a->out : NULL;
    if (begun != 0) a->out = NULL;
done:
    return st;
}

static musec_status train(ms_error *e, struct args *a, ms_comm *comm, int *code)
{
    static ms_train_config cfg;
    musec_status           st;

    TRY(find_begun(e, a, comm));
    if (comm->rank > 0) a->quiet = 1;
    TRY(configure(e, a, &cfg));
    TRY(run(e, a, &cfg, comm, code));
done:
    return st;
}

/* Trains on the ranks of this job; a failure of one of several ends the job, and this process. */
static int train_on_ranks(const ms_command *cmd, struct args *a, ms_error *e)
{
    ms_comm     *comm = NULL;
    int          code = EXIT_OK;
    musec_status st   = ms_cli_open_comm(e, cmd, a->comm, &comm);

    if (st == MUSEC_OK) {
        st = train(e, a, comm, &code);
        if (st != MUSEC_OK) ms_comm_abort(comm, e->text);
        ms_comm_close(comm);
    }
    return st == MUSEC_OK ? code : ms_cli_fail(cmd, e);
}

/* ---- before it runs -------------------------------------------------------------------------- */

static musec_status explain(ms_error *e, const struct args *a, const ms_train_config *cfg)
{
    json_t      *root = NULL;
    musec_status st;

    if (!a->json) return ms_train_explain(e, cfg, stdout);
    st = ms_train_explain_json(e, cfg, &root);
    return st == MUSEC_OK ? ms_json_finish(e, root, stdout) : st;
}

int cmd_train(int argc, char **argv)
{
    const ms_command *cmd   = train_command();
    struct args       a     = { 0 };
    const int         n     = ms_options_parse(cmd, &a, argc, argv);
    ms_error          error = { "" };
    ms_train_config   cfg;
    musec_status      st;
    int               code;

    if (n < 0) return ms_cli_parsed(n);
    code = check_usage(cmd, &a);
    if (code != EXIT_OK) return code;
    if (a.preset == NULL) a.preset = default_preset;
    if (a.optimizer == NULL) a.optimizer = default_optimizer;
    if (!a.explain) return train_on_ranks(cmd, &a, &error);
    if (wants_auto(&a)) a.resume = NULL;
    st = configure(&error, &a, &cfg);
    if (st == MUSEC_OK) st = explain(&error, &a, &cfg);
    return st == MUSEC_OK ? code : ms_cli_fail(cmd, &error);
}
