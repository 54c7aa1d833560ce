/* parts.c - finds the part of a subcommand that is meant, and calls it as a command is called. */
#include "cli/parts.h"

#include <string.h>

#include "core/names.h"

size_t ms_cli_parts_options(ms_cli_parts parts, ms_option *options, size_t capacity)
{
    size_t n = 0;
    for (size_t i = 0; i < parts.n; i++) {
        const ms_command *part = parts.part[i].describe();
        for (size_t k = 0; k < part->n_options; k++) {
            size_t same = 0;
            while (same < n && strcmp(options[same].name, part->options[k].name) != 0)
                same++;
            if (same == n && n < capacity) options[n++] = part->options[k];
        }
    }
    return n;
}

/* Which argument names a part; 0: none. */
static int find_part(ms_cli_parts parts, int argc, char **argv, const ms_cli_command **part)
{
    for (int i = 1; i < argc; i++)
        for (size_t k = 0; k < parts.n; k++)
            if (strcmp(argv[i], parts.part[k].name) == 0) {
                *part = &parts.part[k];
                return i;
            }
    return 0;
}

int ms_cli_parts_run(ms_cli_parts parts, const ms_command *whole, int argc, char **argv)
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
