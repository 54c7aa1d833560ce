/* cmd_completion.c - musec completion: shell completion, written from the tables of options. */
#include <string.h>

#include "cli/completion.h"
#include "core/names.h"

static const ms_completion_script *const shells[] = { &ms_completion_bash, &ms_completion_zsh,
                                                      &ms_completion_fish };

const ms_command *completion_command(void)
{
    static const ms_command command = {
        .name         = "musec completion",
        .operands     = "bash|zsh|fish",
        .summary      = "print a completion script for a shell",
        .details      = "Examples: source <(musec completion bash)\n"
                        "          musec completion fish >~/.config/fish/completions/musec.fish\n",
        .min_operands = 1,
        .max_operands = 1,
    };
    return &command;
}

int cmd_completion(int argc, char **argv)
{
    const ms_command *cmd   = completion_command();
    int               none  = 0; /* it has no options */
    const int         n     = ms_options_parse(cmd, &none, argc, argv);
    ms_error          error = { "" };

    if (n < 0) return ms_cli_parsed(n);
    for (size_t i = 0; i < COUNT(shells); i++)
        if (strcmp(argv[1], shells[i]->shell) == 0) {
            return ms_completion_write(&error, shells[i]) == MUSEC_OK ? EXIT_OK
                                                                      : ms_cli_fail(cmd, &error);
        }
    return ms_cli_usage(cmd, "the shells are bash, zsh and fish, not \"%s\"%s", argv[1],
                        ms_name_hint_choices(argv[1], cmd->operands).text);
}
