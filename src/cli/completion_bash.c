/* completion_bash.c - the completion script for bash. */
#include "cli/completion.h"

static void print_subcommands(void)
{
    const ms_cli_command *c;
    for (size_t i = 0; (c = ms_cli_command_at(i)) != NULL; i++)
        printf(" %s", c->name);
}

static void begin(void)
{
    printf("# bash completion of musec, written by: musec completion bash\n"
           "_musec_take() { mapfile -t COMPREPLY < <(compgen \"$@\" -- \"$cur\"); }\n"
           "_musec_runs() { # run directories that begin with what is typed\n"
           "    local f\n"
           "    for f in \"$1\"*/config.json \"$1\"*/*/config.json \"$1\"*/*/*/config.json; do\n"
           "        [ ! -e \"$f\" ] || printf '%%s\\n' \"${f%%/config.json}\"\n"
           "    done\n"
           "}\n"
           "_musec() {\n"
           "    local words='' kind=''\n"
           "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
           "    COMPREPLY=()\n"
           "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
           "        _musec_take -W '--help --version help");
    print_subcommands();
    printf("'\n"
           "        return\n"
           "    fi\n"
           "    case ${COMP_WORDS[1]} in\n"
           "        help) [ \"$COMP_CWORD\" -eq 2 ] && words='");
    print_subcommands();
    printf("' ;;\n");
}

static void command(const ms_cli_command *c)
{
    printf("        %s)\n            case $prev in\n", c->name);
}

static void option(const ms_cli_command *c, const ms_option *o, const ms_completion *value)
{
    (void)c;
    if (o->type == MS_OPT_FLAG) return;
    printf("                --%s) ", o->name);
    switch (value->kind) {
    case MS_COMPLETE_NOTHING: printf("return ;;\n"); break;
    case MS_COMPLETE_WORDS: printf("words='%s' ;;\n", value->words); break;
    case MS_COMPLETE_PREFIXES: printf("kind=prefixes words='%s' ;;\n", value->words); break;
    case MS_COMPLETE_FILES: printf("kind=files ;;\n"); break;
    case MS_COMPLETE_DIRECTORIES: printf("kind=directories ;;\n"); break;
    case MS_COMPLETE_RUNS: printf("kind=runs ;;\n"); break;
    case MS_COMPLETE_DEVICES:
        printf("words=" MS_DEVICE_WORDS " ;;\n", "\"${COMP_WORDS[0]}\"");
        break;
    }
}

/* Shell text that offers operands beside the options. */
static void print_operand(const ms_completion *operand)
{
    if (operand->kind == MS_COMPLETE_WORDS)
        printf(" words=\"$words %s\"", operand->words);
    else if (operand->kind != MS_COMPLETE_NOTHING)
        printf(" kind=%s", operand->kind == MS_COMPLETE_RUNS ? "runs" : "files");
}

static void operands(const ms_cli_command *c, const ms_completion *first,
                     const ms_completion_part *parts, size_t n_parts)
{
    const ms_command *cmd = c->describe();

    printf("                *) words='--help");
    for (size_t k = 0; k < cmd->n_options; k++)
        printf(" --%s", cmd->options[k].name);
    printf("'");
    print_operand(first);
    if (n_parts > 0) {
        printf("\n                    [ \"$COMP_CWORD\" -gt 2 ] && case ${COMP_WORDS[2]} in\n");
        for (size_t i = 0; i < n_parts; i++) {
            printf("                        %s)", parts[i].word);
            print_operand(&parts[i].next);
            printf(" ;;\n");
        }
        printf("                    esac");
    }
    printf(" ;;\n            esac ;;\n");
}

static void end(void)
{
    printf("    esac\n"
           "    if [[ $cur == -* ]]; then\n"
           "        kind=\n"
           "    fi\n"
           "    case $kind in\n"
           "        files) compopt -o default; return ;;\n"
           "        directories) compopt -o filenames; _musec_take -d; return ;;\n"
           "        runs)\n"
           "            compopt -o filenames\n"
           "            mapfile -t COMPREPLY < <(_musec_runs \"$cur\")\n"
           "            [ ${#COMPREPLY[@]} -gt 0 ] || _musec_take -d\n"
           "            return ;;\n"
           "        prefixes) compopt -o nospace ;;\n"
           "    esac\n"
           "    _musec_take -W \"$words\"\n"
           "}\n"
           "complete -F _musec musec\n");
}

const ms_completion_script ms_completion_bash = { "bash", begin, command, option, operands, end };
