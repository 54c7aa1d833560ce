/* cli.c - see cli.h. */
#define _POSIX_C_SOURCE 200809L

#include "cli/cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "comm/comm.h"
#include "core/file.h"
#include "core/json_file.h"
#include "core/memory_stream.h"
#include "core/signals.h"
#include "device/device.h"

int ms_cli_parsed(int n)
{
    return n == MS_OPT_HELP ? EXIT_OK : n == MS_OPT_RANGE ? EXIT_FAILED : EXIT_USAGE;
}

int ms_cli_fail(const ms_command *cmd, const ms_error *error)
{
    fprintf(stderr, "%s: %s\n", cmd->name, error->text);
    return ms_stop_code(EXIT_FAILED);
}

int ms_cli_usage(const ms_command *cmd, const char *fmt, ...)
{
    ms_error text; /* control characters of what was typed do not reach the terminal */
    char     said[sizeof text.text];
    va_list  args;
    va_start(args, fmt);
    vsnprintf(said, sizeof said, fmt, args);
    va_end(args);
    ms_error_set(&text, "%s", said);
    const size_t n        = strlen(text.text);
    const bool   question = n > 0 && text.text[n - 1] == '?';
    fprintf(stderr, question ? "%s: %s (see %s --help)\n" : "%s: %s; see %s --help\n", cmd->name,
            text.text, cmd->name);
    return EXIT_USAGE;
}

musec_dtype ms_cli_dtype(const char *name, musec_dtype otherwise)
{
#define X(id, code, text, bytes) \
    if (name != NULL && strcmp(name, text) == 0) return MUSEC_##id;
    MUSEC_DTYPE_MAP(X)
#undef X
    return otherwise;
}

musec_status ms_cli_open(ms_error *error, const char *device, musec_ctx **out)
{
    return musec_ctx_create_why(out, device, error->text, sizeof error->text);
}

musec_status ms_cli_check(ms_error *error, const musec_ctx *ctx, musec_status status)
{
    if (status == MUSEC_OK) return status;
    return ms_fail(error, status, "%s", musec_ctx_error(ctx));
}

FILE *ms_cli_summary(const char *out_path)
{
    struct stat file, standard;
    if (out_path == NULL || stat(out_path, &file) != 0 || fstat(STDOUT_FILENO, &standard) != 0)
        return stdout;
    return file.st_dev == standard.st_dev && file.st_ino == standard.st_ino ? stderr : stdout;
}

musec_status ms_cli_options(ms_error *error, const ms_command *cmd, const void *args, json_t **out)
{
    ms_memory_stream m;
    char            *text;

    *out = NULL;
    if (ms_memory_open(&m) != NULL) ms_options_json(cmd, args, m.to);
    text = ms_memory_close(&m);
    if (text != NULL) (void)ms_json_parse(text, m.bytes, MS_JSON_ANY_NAMES, NULL, out);
    free(text);
    if (*out == NULL) return ms_fail(error, MUSEC_ENOMEM, "not enough memory for the options");
    return MUSEC_OK;
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static void on_abort(void *arg, const char *why)
{
    const ms_command *cmd = arg;
    ms_error          error;
    ms_error_set(&error, "%s", why);
    (void)ms_cli_fail(cmd, &error);
}

/* Other threads may be in the midst of something: nothing is tidied up. */
static void quit(void *unused)
{
    (void)unused;
    _Exit(EXIT_FAILED);
}

musec_status ms_cli_open_comm(ms_error *error, const ms_command *cmd, const char *kind,
                              ms_comm **out)
{
    const ms_comm_setup setup = { kind != NULL ? kind : "auto", on_abort, quit, (void *)cmd };
    return ms_comm_open(error, &setup, out);
}
