/* parts.h - subcommands that have parts, each a command of its own: musec data get.  The part is
 * the first operand that names one. */
#ifndef MS_CLI_PARTS_H
#define MS_CLI_PARTS_H

#include "cli/cli.h"

typedef struct ms_cli_parts {
    const ms_cli_command *part;
    size_t                n;
} ms_cli_parts;

/* The options of all parts, each name once, for the completions and --help of the whole; at most
 * `capacity` of them.  Returns how many. */
size_t ms_cli_parts_options(ms_cli_parts parts, ms_option *options, size_t capacity);
/* Runs the part that is named, or says what is wanted; `whole` is what --help alone describes. */
int ms_cli_parts_run(ms_cli_parts parts, const ms_command *whole, int argc, char **argv);

#endif
