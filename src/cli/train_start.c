/* train_start.c - see train_start.h.
 *
 * The time is that of the run's floating-point operations at the rate of one product, which is
 * measured in some milliseconds.  A run is slower than that by a factor: there are also loops over
 * elements, small products and attention.  It is good to a factor of two, which is enough to tell
 * minutes from days; the progress line goes by the steps made. */
#define _POSIX_C_SOURCE 200809L
#include "cli/train_start.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/stack.h"
#include "core/optimizers.h"
#include "core/size.h"
#include "experiment/estimate.h"

enum { MAX_DIRECTORIES = 100000, LINE = 512, TRIES = 10, ENOUGH_MS = 50 };

/* A run beyond these gets a warning.  Repeating data up to four times costs little, and after some
 * sixteen times most of their worth is gone (Muennighoff et al., 2023). */
static const double absurd_s = 2.0 * 24.0 * 3600.0, many_epochs = 16.0;

/* ---- the run's directory --------------------------------------------------------------------- */

musec_status ms_run_directory(ms_error *e, const ms_train_config *cfg, char out[MS_PATH_MAX])
{
    musec_status st;

    TRY(ms_directory_make(e, "runs"));
    for (int k = 1; k < MAX_DIRECTORIES; k++) {
        const int n = snprintf(out, MS_PATH_MAX, "runs/%s-%s-lr%g-s%" PRIu64,
                               ms_preset_name((size_t)cfg->preset, NULL), cfg->optim.name,
                               cfg->optim.lr, cfg->seed);
        if (k > 1) snprintf(out + n, MS_PATH_MAX - (size_t)n, "-%d", k);
        if (mkdir(out, 0777) == 0) return MUSEC_OK;
        if (errno != EEXIST)
            return ms_fail(e, MUSEC_EIO, "%s: %s; name a directory with --out", out,
                           strerror(errno));
    }
    st = ms_fail(e, MUSEC_EINVAL, "%s and all before it are there; name a directory with --out",
                 out);
done:
    return st;
}

/* ---- work and time --------------------------------------------------------------------------- */

double ms_train_work(const ms_train_config *cfg, const ms_schedule *s, int64_t first, int64_t end)
{
    /* An optimizer's products, in units of rows x cols x the smaller side: about three for each of
     * five iterations.  One without them takes no time compared to the model. */
    const bool   plain    = ms_optimizer_find(cfg->optim.name)->spectral_fn == MS_SPECTRAL_NONE;
    const double products = plain ? 0.0 : 15.0;
    const double optim    = 2.0 * products * ms_estimate_optim_work(cfg);
    double       flops    = 0.0;
    int64_t      checked  = 0; /* validations */

    if (end <= first) return 0.0;
    for (int i = 0; i < s->n_stages; i++) {
        const ms_train_stage *g    = &s->stage[i];
        const int64_t         from = g->first > first ? g->first : first;
        const int64_t         to   = g->end < end ? g->end : end;
        if (to > from)
            flops +=
                (double)(to - from) * (optim + (double)g->batch * ms_estimate_token_flops(cfg, g));
    }
    if (cfg->val_every > 0) checked = end / cfg->val_every - first / cfg->val_every;
    if (end == s->steps && (cfg->val_every <= 0 || end % cfg->val_every != 0)) checked++;
    return flops + (double)checked * (double)cfg->val_tokens *
                       ms_estimate_forward_flops(cfg, &s->stage[s->n_stages - 1]);
}

/* Operations a second of a product of the model's own kind; 0: not known. */
static double product_rate(const ms_train_start *s)
{
    const ms_gpt_config *m     = &s->config->model;
    ms_device           *d     = s->device;
    const bool           small = d->kind->memory == NULL; /* a CPU is as fast on small ones */
    const int64_t        rows  = ms_min_i64(s->schedule->max_tokens, small ? 256 : 8192);
    const int64_t        inner = ms_min_i64(m->width, small ? 512 : m->width);
    const int64_t        cols  = ms_min_i64(m->mlp, small ? 1024 : m->mlp);
    musec_view           a = { 0 }, b = { 0 }, c = { 0 };
    double               best = 0.0, from = 0.0, to = 0.0, spent = 0.0;
    ms_error             ignored;
    musec_status         st;

    TRY(ms_stack_alloc(&ignored, d, s->dtype, (ms_stack_shape){ 1, rows, inner }, &a));
    TRY(ms_stack_alloc(&ignored, d, s->dtype, (ms_stack_shape){ 1, inner, cols }, &b));
    TRY(ms_stack_alloc(&ignored, d, s->dtype, (ms_stack_shape){ 1, rows, cols }, &c));
    TRY(d->ops->fill(d, 0.5, ms_mat_of(a)));
    TRY(d->ops->fill(d, 0.25, ms_mat_of(b)));
    /* The first one opens libraries, starts threads and, on a GPU, tries kernels, so it neither
     * counts nor ends the measurement.  A busy machine only makes the others slower. */
    for (int i = 0; i < TRIES && spent < ENOUGH_MS; i++) {
        TRY(d->ops->now_ms(d, &from));
        TRY(d->ops->gemm(d, 1.0, ms_mat_of(a), ms_mat_of(b), 0.0, ms_mat_of(c)));
        TRY(d->ops->now_ms(d, &to));
        if (i == 0) continue;
        spent += to - from;
        if (to > from)
            best = fmax(best, 2e3 * (double)rows * (double)inner * (double)cols / (to - from));
    }
done:
    ms_stack_free(d, &c);
    ms_stack_free(d, &b);
    ms_stack_free(d, &a);
    return st == MUSEC_OK ? best : 0.0;
}

/* Seconds; NaN: not known. */
static double expected_time(const ms_train_start *s)
{
    const double slower = 1.5; /* nano: 1.4, pico: 1.5 (2-core Xeon, idle) */
    const double rate   = product_rate(s);
    return rate > 0.0
               ? slower * ms_train_work(s->config, s->schedule, s->step, s->schedule->steps) / rate
               : NAN;
}

/* ---- numbers as text ------------------------------------------------------------------------ */

void ms_count_text(int64_t n, char *text, size_t bytes)
{
    char      digits[24];
    const int length = snprintf(digits, sizeof digits, "%" PRId64, n);
    size_t    used   = 0;
    for (int i = 0; i < length && used + 2 < bytes; i++) {
        if (i > 0 && digits[i - 1] != '-' && (length - i) % 3 == 0) text[used++] = ',';
        text[used++] = digits[i];
    }
    text[used] = '\0';
}

void ms_bytes_text(uint64_t n, char *text, size_t bytes)
{
    const double gib = 0x1p30, mib = 0x1p20;
    if ((double)n >= gib)
        snprintf(text, bytes, "%.1f GiB", (double)n / gib);
    else
        snprintf(text, bytes, "%.0f MiB", ceil((double)n / mib));
}

/* ---- warnings -------------------------------------------------------------------------------- */

void ms_warn_memory(const ms_train_start *s, char *text, size_t bytes)
{
    char need[32], there[32];

    text[0] = '\0';
    if (s->memory.total == 0 || s->needed <= s->memory.available) return;
    ms_bytes_text(s->needed, need, sizeof need);
    ms_bytes_text(s->memory.available, there, sizeof there);
    snprintf(text, bytes,
             "warning: it needs about %s of memory and %s are available: it may be slow, or be "
             "killed; %s",
             need, there, s->advice);
}

void ms_warn_time(const ms_train_start *s, double seconds, char *text, size_t bytes)
{
    const bool  on_cpu = s->device->kind->memory == NULL;
    const char *preset = ms_preset_name((size_t)s->config->preset, NULL);
    const bool  little = strcmp(preset, "pico") == 0 || strcmp(preset, "nano") == 0;
    char        time[32];

    text[0] = '\0';
    if (!(seconds > absurd_s)) return;
    ms_estimate_text(seconds, time, sizeof time);
    snprintf(text, bytes, "warning: about %s on %s; try %s%s", time,
             on_cpu ? "this CPU" : musec_ctx_device(s->device),
             little   ? "fewer --steps or a smaller --batch"
             : on_cpu ? "--preset pico or nano"
                      : "a smaller --preset or fewer --steps",
             on_cpu ? ", or a GPU" : "");
}

static double all_tokens(const ms_schedule *s)
{
    double sum = 0.0;
    for (int i = 0; i < s->n_stages; i++)
        sum += (double)s->stage[i].batch * (double)(s->stage[i].end - s->stage[i].first);
    return sum;
}

void ms_warn_epochs(const ms_train_start *s, size_t set, char *text, size_t bytes)
{
    const int64_t there = ms_source_tokens(ms_loader_source(ms_mixture_set(s->train, set)));
    const double  taken = all_tokens(s->schedule) * ms_mixture_weight(s->train, set);
    char          count[32];

    text[0] = '\0';
    if (there <= 0 || taken <= many_epochs * (double)there) return;
    ms_count_text(there, count, sizeof count);
    snprintf(text, bytes,
             "warning: the %s tokens of %s will be read about %.0f times, and learned by heart; "
             "give more data, or take fewer --steps",
             count, ms_mixture_name(s->train, set), taken / (double)there);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void say_tokens(ms_log *log, const ms_train_start *s)
{
    const ms_schedule *plan      = s->schedule;
    int64_t            min_batch = plan->stage[0].batch, max_batch = min_batch;
    char               a[32], b[48] = "", all[32], steps[32], done[48] = "";

    for (int i = 1; i < plan->n_stages; i++) {
        min_batch = ms_min_i64(min_batch, plan->stage[i].batch);
        max_batch = ms_max_i64(max_batch, plan->stage[i].batch);
    }
    ms_count_text(min_batch, a, sizeof a);
    if (max_batch > min_batch) {
        memcpy(b, " to ", 5);
        ms_count_text(max_batch, b + 4, sizeof b - 4);
    }
    ms_count_text((int64_t)all_tokens(plan), all, sizeof all);
    ms_count_text(plan->steps, steps, sizeof steps);
    if (s->step > 0) snprintf(done, sizeof done, ", %lld of them made", (long long)s->step);
    ms_log_say(log, MS_LOG_NORMAL, "tokens: %s%s a step, %s in %s step%s%s", a, b, all, steps,
               plan->steps == 1 ? "" : "s", done);
}

static void say_device(ms_log *log, const ms_train_start *s)
{
    ms_device *d                = s->device;
    char       description[256] = "", need[32], there[48] = "";

    if (d->kind->describe != NULL) d->kind->describe(d, description, sizeof description);
    if (d->kind->memory != NULL)
        description[strcspn(description, ",")] = '\0'; /* the name of a GPU is enough */
    ms_log_say(log, MS_LOG_NORMAL, "device: %s%s%s, %s", musec_ctx_device(d),
               description[0] != '\0' ? ", " : "", description, ms_dtype_name(s->dtype));
    ms_bytes_text(s->needed, need, sizeof need);
    if (s->memory.total > 0) {
        char bytes[32];
        ms_bytes_text(s->memory.available, bytes, sizeof bytes);
        snprintf(there, sizeof there, " of %s available", bytes);
    }
    ms_log_say(log, MS_LOG_NORMAL, "memory: about %s%s%s", need, there,
               s->ranks[0] != '\0' ? ", on this rank" : "");
    if (s->ranks[0] != '\0') ms_log_say(log, MS_LOG_NORMAL, "%s", s->ranks);
}

static void say_warnings(ms_log *log, const ms_train_start *s, double expected_s)
{
    char text[2 * LINE];

    ms_warn_memory(s, text, sizeof text);
    if (text[0] != '\0') ms_log_say(log, MS_LOG_QUIET, "%s", text);
    ms_warn_time(s, expected_s, text, sizeof text);
    if (text[0] != '\0') ms_log_say(log, MS_LOG_QUIET, "%s", text);
    for (size_t i = 0; i < ms_mixture_sets(s->train); i++) {
        ms_warn_epochs(s, i, text, sizeof text);
        if (text[0] != '\0') ms_log_say(log, MS_LOG_QUIET, "%s", text);
    }
}

double ms_train_start_say(ms_log *log, const ms_train_start *s, const char *out)
{
    const ms_gpt_sizes *m         = &s->sizes.model;
    const double        slow_rate = 1e9; /* that no CPU of today is below */
    const double        work = ms_train_work(s->config, s->schedule, s->step, s->schedule->steps);
    double              expected_s = NAN;
    char                count[32], time[32];

    if (log->level >= MS_LOG_NORMAL || work / slow_rate > absurd_s) expected_s = expected_time(s);
    ms_count_text(m->n_matrix + m->n_embed + m->n_head + m->n_vector, count, sizeof count);
    ms_estimate_text(expected_s, time, sizeof time);
    ms_log_say(log, MS_LOG_NORMAL, "model: %s, %s parameters, %s at lr %g",
               ms_preset_name((size_t)s->config->preset, NULL), count, s->config->optim.name,
               s->config->optim.lr);
    say_tokens(log, s);
    say_device(log, s);
    ms_log_say(log, MS_LOG_NORMAL, "time: about %s", isnan(expected_s) ? "unknown yet" : time);
    ms_log_say(log, MS_LOG_NORMAL, "output: %s", out);
    say_warnings(log, s, expected_s);
    return expected_s;
}
