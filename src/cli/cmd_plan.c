/* cmd_plan.c - musec plan: what a training step takes on many ranks, before there are any.
 *
 * The config is that of musec train.  Rates of a rank are measured here, those of a chip that was
 * measured before, or given; links are given, or measured where a launcher has started several
 * ranks.  train/scaling.h has the model. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/plan.h"
#include "cli/settings.h"
#include "comm/comm.h"
#include "core/log.h"
#include "core/size.h"
#include "core/whole.h"
#include "device/device.h"
#include "experiment/chips.h"
#include "experiment/estimate.h"

enum { FIELDS = 5, SOURCE = 256 };

struct args {
    const char    *preset, *optimizer, *config, *gpus, *chip, *comm;
    const char    *fields[FIELDS];
    ms_option_list set;
    double         tokens_s, optim_ms, link_gbps, latency_us, node_gbps, node_us, memory_gib;
    int64_t        per_node;
    int            weak, json;
};

static const char *const field_names[FIELDS] = { "batch", "micro-batches", "deterministic",
                                                 "precision", "device" };

static char optimizer_names[256], help_text[2048]; /* filled by plan_command() */

static const ms_option options[] = {
    { "preset", MS_OPT_CHOICE, AT(preset),
      "pico|nano|mini|midi|small|medium|wide|small-full|medium-full|wide-full",
      "size of model and run, as of musec train [pico]" },
    { "optimizer", MS_OPT_CHOICE, AT(optimizer), optimizer_names,
      "optimizer of the attention and MLP matrices [soft-musec]" },
    { "config", MS_OPT_STR, AT(config), "FILE",
      "start from the config.json of a run instead of a preset [none]" },
    { "batch", MS_OPT_STR, AT(fields[0]), "N", "tokens of a step [the preset's last stage]" },
    { "micro-batches", MS_OPT_STR, AT(fields[1]), "N",
      "parts that it is run in; not given, more ranks get more and smaller ones [the preset's]" },
    { "deterministic", MS_OPT_CHOICE, AT(fields[2]), "yes|no",
      "add gradients in the order of micro-batches, or as MPI does [yes]" },
    { "precision", MS_OPT_CHOICE, AT(fields[3]), "auto|f32|bf16|f16",
      "dtype of activations; auto: bf16 of a chip, or what suits the device [auto]" },
    { "device", MS_OPT_STR, AT(fields[4]), "DEVICE",
      "device to measure, as musec info lists them [the best one here]" },
    { "set", MS_OPT_LIST, AT(set), "FIELD=VALUE",
      "set any field of musec train by its name in config.json; may be repeated" },
    { "gpus", MS_OPT_STR, AT(gpus), "N,N,...",
      "numbers of ranks: GPUs, or processes on CPUs [1,2,4,8,16,32,64]" },
    { "weak", MS_OPT_FLAG, AT(weak), NULL, "give every rank the batch; else all of them share it" },
    { "chip", MS_OPT_CHOICE, AT(chip), ms_chip_choices,
      "take the rates of a chip that was measured, instead of measuring here [none]" },
    { "tokens-per-s", MS_OPT_F64, AT(tokens_s), "X",
      "take this rate of a rank, forward and backward [measured]" },
    { "optim-ms", MS_OPT_F64, AT(optim_ms), "X",
      "take this time of the optimizer's step of all matrices on one rank [measured]" },
    { "link-gbps", MS_OPT_F64, AT(link_gbps), "X",
      "network between ranks, or nodes, for each rank and direction, in Gbit/s [measured]" },
    { "latency-us", MS_OPT_F64, AT(latency_us), "X",
      "latency of a message there, in microseconds [10, or measured]" },
    { "gpus-per-node", MS_OPT_I64, AT(per_node), "N", "ranks that a faster link connects [1]" },
    { "node-link-gbps", MS_OPT_F64, AT(node_gbps), "X",
      "that link, for each rank and direction, in Gbit/s [that of the network]" },
    { "node-latency-us", MS_OPT_F64, AT(node_us), "X",
      "latency of a message there, in microseconds [that of the network]" },
    { "memory-gib", MS_OPT_F64, AT(memory_gib), "X",
      "memory of a rank [that of the chip or of the GPU here]" },
    { "comm", MS_OPT_CHOICE, AT(comm), ms_comm_choices,
      "how several processes measure, as of musec train [auto]" },
    MS_CLI_JSON(struct args),
};

static const char details[] =
    "A step is worked out from the rates of a rank and the links between ranks: passes, the\n"
    "optimizer's step of the busiest rank, with matrices dealt as musec train deals them, and\n"
    "what is sent, by latency and bandwidth.  It says what breaks first.  docs/scaling.md has\n"
    "the formulas, and what they predict beside what was measured.\n\n"
    "Optimizers:\n";
static const char example[] =
    "\nExamples: musec plan --preset wide --chip h200 --gpus 8,64,512,4096 --weak\n"
    "              --link-gbps 400 --gpus-per-node 8 --node-link-gbps 3600\n"
    "          mpirun -np 2 musec plan --preset nano --gpus 1,2,4 --weak\n";

const ms_command *plan_command(void)
{
    static const ms_command command = {
        .name      = "musec plan",
        .operands  = "",
        .summary   = "step time, communication and memory of a run on many ranks, worked out",
        .details   = help_text,
        .options   = options,
        .n_options = COUNT(options),
    };
    ms_settings_list(musec_optim_name, 12, optimizer_names, sizeof optimizer_names, details,
                     example, help_text, sizeof help_text);
    return &command;
}

/* ---- usage ----------------------------------------------------------------------------------- */

/* Reads "8,64,512" into the ranks of the rows. */
static const char *read_ranks(const char *text, ms_scaling_plan *p)
{
    char word[32];
    for (p->n_rows = 0; p->n_rows < MS_PLAN_ROWS; text++) {
        const size_t n     = strcspn(text, ",");
        int64_t      ranks = 0;
        snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word - 1), text);
        if (n == 0 || ms_whole_i64(word, &ranks) != MS_WHOLE_READ || ranks < 1)
            return "whole numbers of 1 or more, with commas between them";
        if (ranks > MS_SCALING_RANKS) return "at most 1048576 ranks";
        p->row[p->n_rows++].ranks = ranks;
        text += n;
        if (*text == '\0') return NULL;
    }
    return "at most 64 numbers";
}

static int check_numbers(const ms_command *cmd, const struct args *a)
{
    const struct {
        const char *name;
        double      value;
        bool        zero;
    } all[] = {
        { "tokens-per-s", a->tokens_s, false },    { "optim-ms", a->optim_ms, true },
        { "link-gbps", a->link_gbps, false },      { "latency-us", a->latency_us, true },
        { "node-link-gbps", a->node_gbps, false }, { "node-latency-us", a->node_us, true },
        { "memory-gib", a->memory_gib, false },
    };
    for (size_t i = 0; i < COUNT(all); i++)
        if (all[i].value < 0.0 || (all[i].value == 0.0 && !all[i].zero) || all[i].value > 1e15)
            return ms_cli_usage(cmd, "--%s must be %s and at most 1e15, not %g", all[i].name,
                                all[i].zero ? "0 or more" : "above 0", all[i].value);
    return EXIT_OK;
}

static int check_usage(const ms_command *cmd, const struct args *a, ms_scaling_plan *p)
{
    char        name[MS_OPTION_NAME];
    const char *wrong = read_ranks(a->gpus != NULL ? a->gpus : "1,2,4,8,16,32,64", p);

    if (wrong != NULL) return ms_cli_usage(cmd, "--gpus wants %s, not '%s'", wrong, a->gpus);
    if (a->config != NULL && (a->preset != NULL || a->optimizer != NULL))
        return ms_cli_usage(cmd, "--preset and --optimizer are what --config says already");
    if (a->chip != NULL && !isnan(a->tokens_s))
        return ms_cli_usage(cmd, "--chip and --tokens-per-s both say how fast a rank is");
    if (!isnan(a->tokens_s) && isnan(a->optim_ms))
        return ms_cli_usage(cmd, "--tokens-per-s needs --optim-ms, the time of the optimizer");
    if (a->per_node < 1)
        return ms_cli_usage(cmd, "--gpus-per-node must be 1 or more, not %lld",
                            (long long)a->per_node);
    if (a->per_node == 1 && (!isnan(a->node_gbps) || !isnan(a->node_us)))
        return ms_cli_usage(cmd, "the link within a node needs --gpus-per-node");
    for (size_t i = 0; i < a->set.n; i++) {
        if (ms_option_pair(a->set.item[i], name) == NULL)
            return ms_cli_usage(cmd, "--set wants FIELD=VALUE, not '%s'", a->set.item[i]);
        for (size_t f = 0; f < FIELDS; f++)
            if (a->fields[f] != NULL && ms_train_field_same(field_names[f], name))
                return ms_cli_usage(cmd, "--%s and --set %s give the same field", field_names[f],
                                    a->set.item[i]);
    }
    for (size_t f = 0; f < 2; f++) {
        wrong = a->fields[f] == NULL ? NULL : ms_settings_unreadable("N", a->fields[f]);
        if (wrong != NULL)
            return ms_cli_usage(cmd, "--%s wants %s, not '%s'", field_names[f], wrong,
                                a->fields[f]);
    }
    return check_numbers(cmd, a);
}

/* ---- the config ------------------------------------------------------------------------------ */

static bool is_given(const void *arg, const char *name)
{
    const struct args *a = arg;
    char               key[MS_OPTION_NAME];
    for (size_t f = 0; f < FIELDS; f++)
        if (a->fields[f] != NULL && strcmp(field_names[f], name) == 0) return true;
    for (size_t i = 0; i < a->set.n; i++)
        if (ms_option_pair(a->set.item[i], key) != NULL && ms_train_field_same(key, name))
            return true;
    return false;
}

/* The config of the run, and then of its last stage alone. */
static musec_status configure(ms_error *e, const struct args *a, ms_train_config *cfg,
                              ms_train_stage *stage)
{
    char         key[MS_OPTION_NAME], notes[MS_CONFIG_NOTES];
    ms_schedule  schedule;
    ms_error     why = { "" };
    musec_status st;

    if (a->config != NULL)
        TRY(ms_train_config_read(e, a->config, cfg));
    else
        TRY(ms_train_config_init(e, cfg, a->preset != NULL ? a->preset : "pico",
                                 a->optimizer != NULL ? a->optimizer : "soft-musec"));
    for (size_t f = 0; f < FIELDS; f++)
        if (a->fields[f] != NULL) {
            st = ms_train_config_set(&why, cfg, field_names[f], a->fields[f]);
            if (st != MUSEC_OK) return ms_fail(e, st, "--%s", why.text);
        }
    for (size_t i = 0; i < a->set.n; i++) {
        const char *value = ms_option_pair(a->set.item[i], key);
        st                = ms_train_config_set(&why, cfg, key, value);
        if (st != MUSEC_OK) return ms_fail(e, st, "--set: %s", why.text);
    }
    ms_train_config_resolve(cfg, is_given, a, notes);
    TRY(ms_train_config_check(e, cfg));
    TRY(ms_schedule_make(e, cfg, &schedule));
    *stage             = schedule.stage[schedule.n_stages - 1];
    cfg->stages[0]     = '\0';
    cfg->batch         = stage->batch;
    cfg->micro_batches = stage->micro_batches;
    cfg->max_doc       = stage->max_doc;
    cfg->window_short  = stage->window_short;
    cfg->window_long   = stage->window_long;
done:
    return st;
}

/* ---- rates ----------------------------------------------------------------------------------- */

/* Tokens of the smallest micro-batch of the rows. */
static int64_t fewest_tokens(const ms_scaling_plan *p)
{
    const ms_scaling_job *job = &p->job;
    int64_t               min = job->batch / job->micro_batches;
    for (size_t i = 0; !job->weak && !job->fixed && i < p->n_rows; i++) {
        const int64_t n =
            (job->micro_batches - 1) / p->row[i].ranks * p->row[i].ranks + p->row[i].ranks;
        min = ms_min_i64(min, ms_max_i64(1, job->batch / n));
    }
    return min;
}

static musec_status find_rates(ms_error *e, const struct args *a, const ms_train_config *cfg,
                               const ms_train_stage *stage, ms_comm *comm, ms_scaling_plan *p,
                               ms_scaling_param *params, char source[SOURCE])
{
    ms_log       log = ms_log_open(stderr, comm->rank == 0 ? MS_LOG_NORMAL : MS_LOG_QUIET);
    musec_status st  = MUSEC_OK;

    if (a->chip != NULL) {
        const char *from = NULL;
        TRY(ms_chip_rates(e, a->chip, cfg, stage, isnan(a->optim_ms), &p->job, params, &p->machine,
                          &from));
        snprintf(source, SOURCE, "%s", from);
    } else if (!isnan(a->tokens_s)) {
        p->machine  = (ms_scaling_machine){ .token_ms = 1e3 / a->tokens_s };
        p->job.gpus = strcmp(cfg->device, "cpu") != 0; /* whatever this machine has */
        snprintf(source, SOURCE, "given");
    } else {
        ms_log_progress(&log, "measuring");
        TRY(ms_scaling_measure(e, cfg, comm, p->job.batch / p->job.micro_batches, fewest_tokens(p),
                               params, &p->machine, source, SOURCE));
    }
    if (!isnan(a->optim_ms)) ms_scaling_share_ms(a->optim_ms, true, params, p->job.n_params);
    if (!isnan(a->memory_gib)) p->machine.memory = (uint64_t)(a->memory_gib * 0x1p30);
done:
    ms_log_end(&log);
    return st;
}

static ms_scaling_link link_of(double gbps, double us, ms_scaling_link otherwise)
{
    return (ms_scaling_link){ isnan(us) ? otherwise.ms : us / 1e3,
                              isnan(gbps) ? otherwise.ms_byte : 8e-6 / gbps };
}

static musec_status find_links(ms_error *e, const struct args *a, const ms_comm *comm,
                               ms_scaling_plan *p)
{
    ms_scaling_machine *m        = &p->machine;
    const bool          measured = m->net.ms_byte > 0.0 || m->net.ms > 0.0;

    if (p->linked && !measured && isnan(a->link_gbps))
        return ms_fail(e, MUSEC_EINVAL,
                       "give the network by --link-gbps and --latency-us, or start the command by "
                       "mpirun on two ranks or more, which measure it");
    if (measured && isnan(a->link_gbps)) p->measured = comm->size;
    if (!measured) m->net.ms = 0.01;
    m->net      = link_of(a->link_gbps, a->latency_us, m->net);
    m->node     = link_of(a->node_gbps, a->node_us, m->net);
    m->per_node = a->per_node;
    return MUSEC_OK;
}

/* ---- rows and limits ------------------------------------------------------------------------- */

static bool has_limit(const ms_scaling_plan *p, ms_scaling_limit what)
{
    for (size_t i = 0; i < p->n_limits; i++)
        if (p->limit[i].what == what) return true;
    return false;
}

static void find_limits(ms_scaling_plan *p, const ms_scaling_row *row)
{
    for (int what = 0; what < MS_LIMITS; what++)
        if (!has_limit(p, what) && ms_scaling_has_limit(row, &p->machine, what))
            p->limit[p->n_limits++] = (ms_plan_limit){ what, *row };
}

/* The rows, and the limits at powers of two up to the largest and at the rows themselves. */
static musec_status work_out(ms_error *e, ms_scaling_plan *p)
{
    int64_t        max = 1;
    ms_scaling_row row;
    musec_status   st = MUSEC_OK;

    for (size_t i = 0; i < p->n_rows; i++) {
        max = ms_max_i64(max, p->row[i].ranks);
        TRY(ms_scaling_at(e, &p->job, &p->machine, p->row[i].ranks, &p->row[i]));
    }
    for (int64_t n = 1; n <= max; n *= 2) {
        for (size_t i = 0; i < p->n_rows; i++) /* those between this power and the one before */
            if (p->row[i].ranks > n / 2 && p->row[i].ranks < n) find_limits(p, &p->row[i]);
        TRY(ms_scaling_at(e, &p->job, &p->machine, n, &row));
        find_limits(p, &row);
    }
    for (size_t i = 0; i < p->n_rows; i++)
        if (p->row[i].ranks == max) find_limits(p, &p->row[i]);
done:
    return st;
}

static musec_status plan(ms_error *e, const struct args *a, ms_comm *comm, ms_scaling_plan *p)
{
    static ms_train_config cfg;
    ms_train_stage         stage;
    ms_scaling_param      *params = NULL;
    char                   source[SOURCE];
    musec_status           st;

    TRY(configure(e, a, &cfg, &stage));
    p->config = &cfg;
    p->source = source;
    p->job    = (ms_scaling_job){ .model         = &cfg.model,
                                  .batch         = cfg.batch,
                                  .micro_batches = cfg.micro_batches,
                                  .weak          = a->weak != 0,
                                  .fixed         = is_given(a, "micro-batches"),
                                  .deterministic = cfg.deterministic != 0,
                                  .recomputed    = ms_estimate_recomputed(&cfg, &stage) };
    for (size_t i = 0; i < p->n_rows; i++)
        p->linked = p->linked || p->row[i].ranks > 1;
    TRY(ms_scaling_list(e, &cfg, &p->job, &params));
    if (a->chip == NULL) TRY(ms_scaling_device(e, &cfg, &p->job));
    TRY(find_rates(e, a, &cfg, &stage, comm, p, params, source));
    TRY(find_links(e, a, comm, p));
    TRY(work_out(e, p));
    if (comm->rank == 0)
        TRY(a->json ? ms_plan_print_json(e, p, stdout) : ms_plan_print(e, p, stdout));
done:
    free(params);
    return st;
}

int cmd_plan(int argc, char **argv)
{
    const ms_command      *cmd = plan_command();
    static ms_scaling_plan p;
    struct args            a    = { .tokens_s   = NAN,
                                    .optim_ms   = NAN,
                                    .link_gbps  = NAN,
                                    .latency_us = NAN,
                                    .node_gbps  = NAN,
                                    .node_us    = NAN,
                                    .memory_gib = NAN,
                                    .per_node   = 1 };
    const int              n    = ms_options_parse(cmd, &a, argc, argv);
    ms_error               e    = { "" };
    ms_comm               *comm = NULL;
    musec_status           st;

    if (n < 0) return ms_cli_parsed(n);
    if (check_usage(cmd, &a, &p) != EXIT_OK) return EXIT_USAGE;
    st = ms_cli_open_comm(&e, cmd, a.comm, &comm);
    if (st == MUSEC_OK) {
        st = plan(&e, &a, comm, &p);
        if (st != MUSEC_OK) ms_comm_abort(comm, e.text);
        ms_comm_close(comm);
    }
    return st == MUSEC_OK ? EXIT_OK : ms_cli_fail(cmd, &e);
}
