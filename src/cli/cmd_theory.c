/* cmd_theory.c - musec theory: the table of its parts. */
#include "cli/parts.h"

enum { MAX_OPTIONS = 64 };

static const ms_cli_command table[] = {
    { "params", theory_params_command, cmd_theory_params },
    { "run", theory_run_command, cmd_theory_run },
};
static const ms_cli_parts parts = { table, COUNT(table) };

static ms_option options[MAX_OPTIONS]; /* of all parts; filled by theory_command() */

static const ms_option_group groups[] = {
    { "params (run takes --delta, --steps, --rank, --sigma and --json too)", "delta" },
    { "run", "optimizer" },
};

const ms_command *theory_command(void)
{
    static ms_command command = {
        .name     = "musec theory",
        .operands = "params|run PROBLEM",
        .summary  = "compute what the paper's convergence theorem promises, and test it",
        .details  = "musec theory params --help and musec theory run --help say more.\n",
        .groups   = groups,
        .n_groups = COUNT(groups),
        .options  = options,
    };
    command.n_options = ms_cli_parts_options(parts, options, COUNT(options));
    return &command;
}

int cmd_theory(int argc, char **argv)
{
    return ms_cli_parts_run(parts, theory_command(), argc, argv);
}
