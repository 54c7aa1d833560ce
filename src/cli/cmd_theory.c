/* cmd_theory.c - musec theory: the table of its parts. */
#include "cli/parts.h"

enum { MAX_OPTIONS = 64 };

static const ms_cli_command table[] = {
    { "params", theory_params_command, cmd_theory_params },
    { "run", theory_run_command, cmd_theory_run },
};
static const ms_cli_parts parts = { table, COUNT(table) };

static ms_option options[MAX_OPTIONS]; /* of all parts; filled by theory_command() */

const ms_command *theory_command(void)
{
    static ms_command command = {
        .name     = "musec theory",
        .operands = "params|run PROBLEM",
        .summary  = "the paper's convergence theorem as numbers, and put to the test",
        .details  = "musec theory params --help and musec theory run --help say more.\n",
        .options  = options,
    };
    command.n_options = ms_cli_parts_options(parts, options, COUNT(options));
    return &command;
}

int cmd_theory(int argc, char **argv)
{
    return ms_cli_parts_run(parts, theory_command(), argc, argv);
}
