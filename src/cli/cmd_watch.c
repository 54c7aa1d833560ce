/* cmd_watch.c - musec watch: runs while they go on, in the terminal and as a live page.
 *
 * Nothing is written to the runs.  On a terminal the table is redrawn in place; elsewhere one line
 * tells when a run ends.  It goes on until it is interrupted, since new runs may come; --once and
 * --json print what is there and end. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/watch_server.h"
#include "core/clock.h"
#include "core/json_file.h"
#include "core/log.h"
#include "core/memory_stream.h"
#include "core/signals.h"
#include "core/table.h"
#include "report/figure.h"
#include "report/live.h"

enum { ROWS = 30, PORT_MAX = 65535, TICK_MS = 100 };

struct args {
    int64_t port;
    double  every;
    int     once, no_page, json;
};

static const ms_option options[] = {
    { "port", MS_OPT_I64, AT(port), "N",
      "port of the page on 127.0.0.1; 0: 8420, or another that is free [0]" },
    { "every", MS_OPT_F64, AT(every), "S", "seconds between two looks [2]" },
    { "once", MS_OPT_FLAG, AT(once), NULL, "print the table once and end" },
    { "no-page", MS_OPT_FLAG, AT(no_page), NULL, "the terminal alone" },
    MS_CLI_JSON(struct args),
};

const ms_command *watch_command(void)
{
    static const ms_command command = {
        .name     = "musec watch",
        .operands = "RUN...",
        .summary  = "show runs while they train: a table here, a live page in the browser",
        .details =
            "RUN is a run directory (musec train --out), or a directory with runs below it, such\n"
            "as that of a sweep; runs that begin later appear by themselves.  The page is served\n"
            "to this machine alone; its address is printed.  Ctrl-C ends the watch, not the runs.\n"
            "\"silent\": the run has not ended, but its log does not grow any more.\n\n"
            "Examples: musec watch runs/a\n"
            "          musec watch runs --no-page --once\n",
        .options      = options,
        .n_options    = COUNT(options),
        .min_operands = 1,
        .max_operands = -1,
    };
    return &command;
}

/* ---- the table ------------------------------------------------------------------------------- */

static void add_real(ms_table *t, const char *format, double x)
{
    char text[32];
    snprintf(text, sizeof text, format, x); /* NOLINT: formats of this file */
    ms_table_add(t, "%s", isfinite(x) ? text : "-");
}

static void add_time(ms_table *t, double seconds)
{
    const long s = isfinite(seconds) ? (long)(seconds + 0.5) : 0;
    if (!isfinite(seconds))
        ms_table_add(t, "-");
    else if (s < 3600)
        ms_table_add(t, "%ld:%02ld", s / 60, s % 60);
    else
        ms_table_add(t, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
}

static void add_run(ms_table *t, const ms_live_run *run)
{
    const char *name = strrchr(run->dir, '/');
    ms_table_add(t, "%s", name != NULL && name[1] != '\0' ? name + 1 : run->dir);
    ms_table_add(t, "%s", ms_optimizer_title(run->optimizer));
    add_real(t, "%g", run->lr);
    ms_table_add(t, "%lld/%lld", (long long)run->step, (long long)run->steps);
    add_real(t, "%.4f", run->last.loss);
    add_real(t, "%.4f", run->n_vals > 0 ? run->vals[run->n_vals - 1].loss : NAN);
    add_real(t, "%.0f", run->last.tok_s);
    add_time(t, ms_live_left_s(run));
    ms_table_add(t, "%s", run->status);
}

/* Runs that go on come first; of many, the last ones are only counted. */
static musec_status print_table(ms_error *e, const ms_live *live, FILE *to)
{
    ms_table     t     = { .align = "llrrrrrrl" };
    size_t       shown = 0, running = 0;
    musec_status st;

    for (size_t i = 0; i < live->n; i++)
        running += ms_live_is_running(&live->at[i]);
    ms_table_row(&t, "run\toptimizer\tlr\tstep\tloss\tval\ttok/s\tleft\tstatus");
    for (int turn = 0; turn < 2; turn++)
        for (size_t i = 0; i < live->n; i++)
            if (ms_live_is_running(&live->at[i]) == (turn == 0) && shown++ < ROWS)
                add_run(&t, &live->at[i]);
    st = live->n > 0 ? ms_table_print(e, &t, to) : MUSEC_OK;
    ms_table_free(&t);
    if (shown > ROWS) fprintf(to, "and %zu more\n", shown - ROWS);
    fprintf(to, live->n > 0 ? "%zu of %zu running\n" : "no runs there yet\n", running, live->n);
    return st;
}

/* ---- watching -------------------------------------------------------------------------------- */

static musec_status show(ms_error *e, const ms_live *live, ms_log *log)
{
    ms_memory_stream m;
    char            *text;
    musec_status     st;

    if (!log->live) return MUSEC_OK;
    if (ms_memory_open(&m) == NULL) return ms_no_memory(e, "the table");
    st   = print_table(e, live, m.to);
    text = ms_memory_close(&m);
    if (text == NULL && st == MUSEC_OK) st = ms_no_memory(e, "the table");
    if (st == MUSEC_OK) ms_log_block(log, text);
    free(text);
    return st;
}

/* Elsewhere than on a terminal: one line for each run that has ended since the last look. */
static void report_ended(const ms_live *live, const ms_log *log, size_t *n_ended)
{
    size_t n = 0;
    for (size_t i = 0; i < live->n; i++)
        n += !ms_live_is_running(&live->at[i]);
    if (!log->live && n != *n_ended) fprintf(stderr, "%zu of %zu runs have ended\n", n, live->n);
    *n_ended = n;
}

static musec_status serve(ms_error *e, const ms_live *live, ms_watch_server *server)
{
    json_t *all  = ms_live_json(live);
    char   *text = all == NULL ? NULL : ms_json_dump(all, 0);
    json_decref(all);
    if (text == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory for the page's data");
    ms_watch_server_put(server, text);
    return MUSEC_OK;
}

static void wait_for(double seconds, const volatile sig_atomic_t *stop)
{
    const double          end  = ms_clock_ms() + seconds * 1e3;
    const struct timespec tick = { .tv_nsec = TICK_MS * 1000000L };
    while (ms_clock_ms() < end && *stop == 0)
        nanosleep(&tick, NULL);
}

static musec_status watch(ms_error *e, const struct args *a, ms_live *live)
{
    const volatile sig_atomic_t *stop    = ms_stop_flag();
    ms_log                       log     = ms_log_open(stderr, MS_LOG_NORMAL);
    ms_watch_server             *server  = NULL;
    ms_error                     why     = { "" };
    size_t                       n_ended = 0;
    musec_status                 st      = MUSEC_OK;

    TRY(ms_live_update(e, live)); /* before an address is printed */
    ms_stop_catch(NULL);
    if (!a->no_page) st = ms_watch_server_start(&why, (int)a->port, &server);
    if (st == MUSEC_ENOTSUP) { /* a build without pages still has the table */
        ms_log_say(&log, MS_LOG_NORMAL, "%s", why.text);
        st = MUSEC_OK;
    }
    if (st != MUSEC_OK) return ms_fail(e, st, "%s", why.text);
    if (server != NULL) {
        printf("http://127.0.0.1:%d/\n", ms_watch_server_port(server));
        fflush(stdout);
    }
    while (*stop == 0) {
        TRY(ms_live_update(e, live));
        if (server != NULL) TRY(serve(e, live, server));
        TRY(show(e, live, &log));
        report_ended(live, &log, &n_ended);
        wait_for(a->every, stop);
    }
done:
    ms_log_end(&log);
    ms_watch_server_stop(server);
    return st;
}

static musec_status look_once(ms_error *e, const struct args *a, ms_live *live)
{
    const musec_status st = ms_live_update(e, live);

    if (st != MUSEC_OK) return st;
    return a->json ? ms_json_finish(e, ms_live_json(live), stdout) : print_table(e, live, stdout);
}

int cmd_watch(int argc, char **argv)
{
    const ms_command *cmd   = watch_command();
    struct args       a     = { .every = 2.0 };
    const int         n     = ms_options_parse(cmd, &a, argc, argv);
    ms_live           live  = { 0 };
    ms_error          error = { "" };
    musec_status      st;

    if (n < 0) return ms_cli_parsed(n);
    live.paths   = (const char *const *)(argv + 1);
    live.n_paths = (size_t)n;
    if (!(a.every >= 0.1 && a.every <= 3600.0) || a.port < 0 || a.port > PORT_MAX)
        st = ms_fail(&error, MUSEC_EINVAL, "--every must be from 0.1 to 3600, --port from 0 to %d",
                     PORT_MAX);
    else
        st = a.once || a.json ? look_once(&error, &a, &live) : watch(&error, &a, &live);
    ms_live_free(&live);
    return st == MUSEC_OK ? EXIT_OK : ms_cli_fail(cmd, &error);
}
