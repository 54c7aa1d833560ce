/* cli.h - what the files of the program share: the table of subcommands, exit codes, failures,
 * JSON.
 *
 * A subcommand parses its table of options, calls the library and prints.  Results go to stdout,
 * everything else to stderr; a failure is one line there. */
#ifndef MS_CLI_CLI_H
#define MS_CLI_CLI_H

#include <jansson.h>
#include <stdio.h>

#include "core/json_file.h"
#include "core/options.h"
#include "core/text.h"

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_DIVERGED = 3 };

typedef struct ms_cli_command {
    const char *name;
    const ms_command *(*describe)(void); /* its summary, options and help */
    int (*run)(int argc, char **argv);   /* argv[0] is the name; returns the exit code */
} ms_cli_command;

/* The subcommands in the order of --help: index 0, 1, ... until NULL. */
const ms_cli_command *ms_cli_command_at(size_t index);

/* Every subcommand NAME, and every part of one, has its options in NAME_command() and is run by
 * cmd_NAME(). */
#define MS_CLI_SUBCOMMANDS(X) \
    X(demo)                   \
    X(train)                  \
    X(sample)                 \
    X(export)                 \
    X(sweep)                  \
    X(watch)                  \
    X(report)                 \
    X(paper)                  \
    X(theory)                 \
    X(tokenize)               \
    X(encode)                 \
    X(decode)                 \
    X(data)                   \
    X(clip)                   \
    X(spectrum)               \
    X(replay)                 \
    X(bench)                  \
    X(plan)                   \
    X(info)                   \
    X(completion)
#define MS_CLI_PARTS(X) \
    X(data_inspect)     \
    X(data_get)         \
    X(theory_params)    \
    X(theory_run)

#define X(name)                             \
    const ms_command *name##_command(void); \
    int               cmd_##name(int argc, char **argv);
MS_CLI_SUBCOMMANDS(X)
MS_CLI_PARTS(X)
#undef X

/* The offset of an option's value in the struct args of a subcommand. */
#define AT(field) offsetof(struct args, field)

/* Options that several subcommands have.  `args` is the struct that they are parsed into. */
#define MS_CLI_DEVICE(args)                                                      \
    {                                                                            \
        "device", MS_OPT_STR, offsetof(args, device), "DEVICE",                  \
            "device to compute on, as musec info lists them [the best one here]" \
    }
#define MS_CLI_DTYPE(args)                                        \
    {                                                             \
        "dtype", MS_OPT_CHOICE, offsetof(args, dtype), "f32|f64", \
            "precision to compute in [that of the file]"          \
    }
#define MS_CLI_JSON(args)                                                           \
    {                                                                               \
        "json", MS_OPT_FLAG, offsetof(args, json), NULL, "print the result as JSON" \
    }

/* Options of the commands that start several runs. */
#define MS_CLI_BUDGET(args)                                                                      \
    { "jobs", MS_OPT_I64, offsetof(args, jobs), "N",                                             \
      "number of runs at once, on each device if --device is given; 0: one per GPU, or as "      \
      "many as cores allow [0]" },                                                               \
        { "threads", MS_OPT_I64, offsetof(args, threads), "N", "CPU threads of each run [1]" },  \
        { "time-limit", MS_OPT_F64, offsetof(args, time_limit), "X",                             \
          "start no run that would not end within this many minutes from now, by the time that " \
          "runs of its kind have taken; 0: none [0]" },                                          \
    {                                                                                            \
        "no-checkpoints", MS_OPT_FLAG, offsetof(args, no_checkpoints), NULL,                     \
            "write no checkpoints: directories have logs and summaries only, and a run that "    \
            "is interrupted begins anew"                                                         \
    }

/* What trainings of this process compute on, one after the other (train/train.h); NULL: there is
 * one, which opens its own. */
extern struct ms_train_device *ms_cli_shared_device;
/* The clock when the process began, or this training, if it finds its device open. */
double ms_cli_training_began_ms(void);

/* The exit code after ms_options_parse returned less than 0, having printed why. */
int ms_cli_parsed(int n);
/* Prints "musec clip: <text>" to stderr and returns EXIT_FAILED. */
int ms_cli_fail(const ms_command *cmd, const ms_error *error);
/* Prints a message about wrong usage, which refers to --help, and returns EXIT_USAGE. */
int ms_cli_usage(const ms_command *cmd, const char *fmt, ...) MS_PRINTF(2, 3);

/* Opens a context on `device` (NULL: the best one); an error names where devices are listed. */
musec_status ms_cli_open(ms_error *error, const char *device, musec_ctx **out);
/* Returns a status of the library; of a failure, `error` gets the message of the context. */
musec_status ms_cli_check(ms_error *error, const musec_ctx *ctx, musec_status status);

struct ms_comm;
/* Opens the communicator of this job's ranks, of a kind (NULL: auto); a job that it ends says why
 * as `cmd` does. */
musec_status ms_cli_open_comm(ms_error *error, const ms_command *cmd, const char *kind,
                              struct ms_comm **out);

/* The stream for a summary: stdout, or stderr if the output file (may be NULL) is stdout itself.
 * To be called before a rename gives the path a new file. */
FILE *ms_cli_summary(const char *out_path);

musec_dtype ms_cli_dtype(const char *name, musec_dtype otherwise); /* `otherwise` if name is NULL */

/* Makes an object with the value of every option of `cmd`. */
musec_status ms_cli_options(ms_error *error, const ms_command *cmd, const void *args, json_t **out);

/* Writes the manual page: the template at `path`, docs/musec.1.in, with its lists filled in. */
musec_status ms_manual_write(ms_error *e, const char *path, FILE *to);

#endif
