/* cmd_data.c - musec data: its parts, each a command of its own, chosen by the first operand. */
#include <string.h>

#include "cli/cli.h"

enum { MAX_OPTIONS = 32 };

static const ms_cli_command parts[] = {
    { "inspect", data_inspect_command, cmd_data_inspect },
    { "get", data_get_command, cmd_data_get },
};

static ms_option options[MAX_OPTIONS]; /* of all parts; filled by data_command() */

static size_t gather_options(void)
{
    size_t n = 0;
    for (size_t i = 0; i < COUNT(parts); i++) {
        const ms_command *part = parts[i].describe();
        for (size_t k = 0; k < part->n_options; k++) {
            size_t same = 0;
            while (same < n && strcmp(options[same].name, part->options[k].name) != 0)
                same++;
            if (same == n && n < MAX_OPTIONS) options[n++] = part->options[k];
        }
    }
    return n;
}

const ms_command *data_command(void)
{
    static ms_command command = {
        .name     = "musec data",
        .operands = "inspect|get SHARD|NAME",
        .summary  = "look into a shard of tokens; fetch a data set",
        .details  = "musec data inspect --help and musec data get --help say more.\n",
        .options  = options,
    };
    command.n_options = gather_options();
    return &command;
}

/* Which argument names a part; 0: none. */
static int find_part(int argc, char **argv, const ms_cli_command **part)
{
    for (int i = 1; i < argc; i++)
        for (size_t k = 0; k < COUNT(parts); k++)
            if (strcmp(argv[i], parts[k].name) == 0) {
                *part = &parts[k];
                return i;
            }
    return 0;
}

int cmd_data(int argc, char **argv)
{
    static const ms_command no_options = { .name         = "musec data",
                                           .operands     = "",
                                           .max_operands = -1 };
    const ms_command       *cmd        = data_command();
    const ms_cli_command   *part       = NULL;
    const int               at         = find_part(argc, argv, &part);
    int                     none       = 0, n;

    if (at > 0) { /* the part is called as a command is: its name first */
        char *name = argv[at];
        memmove(argv + 1, argv, (size_t)at * sizeof *argv);
        argv[1] = name;
        return part->run(argc - 1, argv + 1);
    }
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            ms_options_help(cmd, stdout);
            return EXIT_OK;
        }
    n = ms_options_parse(&no_options, &none, argc, argv); /* says which option is wrong */
    if (n < 0) return EXIT_USAGE;
    return ms_cli_usage(cmd, "wants %s%s%s%s", cmd->operands, n > 0 ? ", not '" : "",
                        n > 0 ? argv[1] : "", n > 0 ? "'" : "");
}
