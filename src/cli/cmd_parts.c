/* cmd_parts.c - musec data and musec theory: subcommands whose parts, such as musec data get, are
 * commands of their own.  The part is the first operand that names one. */
#include <string.h>

#include "cli/cli.h"
#include "core/names.h"

enum { MAX_OPTIONS = 64 };

typedef struct part_list {
    const ms_cli_command *part;
    size_t                n;
} part_list;

/* Fills in the options of all parts, each name once, for the completions and for --help. */
static void add_options(part_list parts, ms_option options[MAX_OPTIONS], ms_command *whole)
{
    size_t n = 0;
    for (size_t i = 0; i < parts.n; i++) {
        const ms_command *part = parts.part[i].describe();
        for (size_t k = 0; k < part->n_options; k++) {
            size_t same = 0;
            while (same < n && strcmp(options[same].name, part->options[k].name) != 0)
                same++;
            if (same == n && n < MAX_OPTIONS) options[n++] = part->options[k];
        }
    }
    whole->options   = options;
    whole->n_options = n;
}

/* Returns the index of the argument that names a part; 0: none does. */
static int find_part(part_list parts, int argc, char **argv, const ms_cli_command **part)
{
    for (int i = 1; i < argc; i++)
        for (size_t k = 0; k < parts.n; k++)
            if (strcmp(argv[i], parts.part[k].name) == 0) {
                *part = &parts.part[k];
                return i;
            }
    return 0;
}

/* Runs the part that is named, or says what is wanted; `whole` is what --help alone describes. */
static int run_part(part_list parts, const ms_command *whole, int argc, char **argv)
{
    const ms_command      no_options = { .name = whole->name, .operands = "", .max_operands = -1 };
    const ms_cli_command *part       = NULL;
    const int             at         = find_part(parts, argc, argv, &part);
    const char           *names[8];
    size_t                n_names = 0;
    int                   none    = 0, n;

    if (at > 0) { /* the part is called as a command is: its name first */
        char *name = argv[at];
        memmove(argv + 1, argv, (size_t)at * sizeof *argv);
        argv[1] = name;
        return part->run(argc - 1, argv + 1);
    }
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            ms_options_help(whole, stdout);
            return EXIT_OK;
        }
    n = ms_options_parse(&no_options, &none, argc, argv); /* says which option is wrong */
    if (n < 0) return EXIT_USAGE;
    if (n == 0) return ms_cli_usage(whole, "wants %s", whole->operands);
    for (; n_names < parts.n && n_names < COUNT(names); n_names++)
        names[n_names] = parts.part[n_names].name;
    return ms_cli_usage(whole, "wants %s, not '%s'%s", whole->operands, argv[1],
                        ms_name_hint_of(argv[1], names, n_names).text);
}

/* ---- data ------------------------------------------------------------------------------------ */

static const ms_cli_command data_table[] = {
    { "inspect", data_inspect_command, cmd_data_inspect },
    { "get", data_get_command, cmd_data_get },
};
static const part_list       data_parts    = { data_table, COUNT(data_table) };
static const ms_option_group data_groups[] = {
    { "inspect (get takes --vocab and --json too)", "tokenizer" },
    { "get", "out" },
};

const ms_command *data_command(void)
{
    static ms_option  options[MAX_OPTIONS];
    static ms_command command = {
        .name     = "musec data",
        .operands = "inspect|get SHARD|NAME",
        .summary  = "inspect a token shard, or download a data set",
        .details  = "musec data inspect --help and musec data get --help say more.\n",
        .groups   = data_groups,
        .n_groups = COUNT(data_groups),
    };
    add_options(data_parts, options, &command);
    return &command;
}

int cmd_data(int argc, char **argv) { return run_part(data_parts, data_command(), argc, argv); }

/* ---- theory ---------------------------------------------------------------------------------- */

static const ms_cli_command theory_table[] = {
    { "params", theory_params_command, cmd_theory_params },
    { "run", theory_run_command, cmd_theory_run },
};
static const part_list       theory_parts    = { theory_table, COUNT(theory_table) };
static const ms_option_group theory_groups[] = {
    { "params (run takes --delta, --steps, --rank, --sigma and --json too)", "delta" },
    { "run", "optimizer" },
};

const ms_command *theory_command(void)
{
    static ms_option  options[MAX_OPTIONS];
    static ms_command command = {
        .name     = "musec theory",
        .operands = "params|run PROBLEM",
        .summary  = "compute what the paper's convergence theorem promises, and test it",
        .details  = "musec theory params --help and musec theory run --help say more.\n",
        .groups   = theory_groups,
        .n_groups = COUNT(theory_groups),
    };
    add_options(theory_parts, options, &command);
    return &command;
}

int cmd_theory(int argc, char **argv)
{
    return run_part(theory_parts, theory_command(), argc, argv);
}
