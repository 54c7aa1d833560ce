/* cmd_data.c - musec data: the table of its parts. */
#include "cli/parts.h"

enum { MAX_OPTIONS = 32 };

static const ms_cli_command table[] = {
    { "inspect", data_inspect_command, cmd_data_inspect },
    { "get", data_get_command, cmd_data_get },
};
static const ms_cli_parts parts = { table, COUNT(table) };

static ms_option options[MAX_OPTIONS]; /* of all parts; filled by data_command() */

static const ms_option_group groups[] = {
    { "inspect (get takes --vocab and --json too)", "tokenizer" },
    { "get", "out" },
};

const ms_command *data_command(void)
{
    static ms_command command = {
        .name     = "musec data",
        .operands = "inspect|get SHARD|NAME",
        .summary  = "inspect a token shard, or download a data set",
        .details  = "musec data inspect --help and musec data get --help say more.\n",
        .groups   = groups,
        .n_groups = COUNT(groups),
        .options  = options,
    };
    command.n_options = ms_cli_parts_options(parts, options, COUNT(options));
    return &command;
}

int cmd_data(int argc, char **argv) { return ms_cli_parts_run(parts, data_command(), argc, argv); }
