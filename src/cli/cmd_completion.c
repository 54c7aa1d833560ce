/* cmd_completion.c - musec completion: shell completion, written from the tables of options.
 *
 * What may follow an option is read off its row: a CHOICE lists its values, X.npy is a file, and
 * for DEVICE the script asks the program, since builds differ.  Operands are files unless they are
 * words in lower case, which stand for themselves ("ops", "bash|zsh"); behind such a word there may
 * be files ("inspect SHARD"). */
#include <ctype.h>
#include <string.h>

#include "cli/cli.h"

/* Shell text that lists the devices; %s is the program as it was called. */
#define DEVICE_WORDS "$(%s info --no-peak 2>/dev/null | sed -n 's/^device  *\\([^:]*\\):.*/\\1/p')"

const ms_command *completion_command(void)
{
    static const ms_command command = {
        .name         = "musec completion",
        .operands     = "bash|zsh",
        .summary      = "print a completion script for a shell",
        .details      = "Example: source <(musec completion bash)\n",
        .min_operands = 1,
        .max_operands = 1,
    };
    return &command;
}

/* Prints text up to a blank with every '|' as one: "a|b" -> "a b". */
static void put_words(const char *text)
{
    for (; *text != '\0' && *text != ' '; text++)
        putchar(*text == '|' ? ' ' : *text);
}

static int is_device(const ms_option *option)
{
    return option->meta != NULL && strcmp(option->meta, "DEVICE") == 0;
}

static int is_file(const ms_option *option)
{
    const size_t n = option->meta == NULL ? 0 : strlen(option->meta);
    return n > 4 && strcmp(option->meta + n - 4, ".npy") == 0;
}

static int has_literal_operands(const ms_command *cmd)
{
    return islower((unsigned char)cmd->operands[0]);
}

/* The first operand is a word, and others follow it. */
static int has_more_operands(const ms_command *cmd)
{
    return has_literal_operands(cmd) && strchr(cmd->operands, ' ') != NULL;
}

/* ---- bash ------------------------------------------------------------------------------------ */

static void bash_values(const char *command, const ms_option *option)
{
    if (option->type == MS_OPT_FLAG) return;
    printf("        %s:--%s) ", command, option->name);
    if (option->type == MS_OPT_CHOICE) {
        printf("words='");
        put_words(option->meta);
        printf("' ;;\n");
    } else if (is_device(option)) {
        printf("words=" DEVICE_WORDS " ;;\n", "\"${COMP_WORDS[0]}\"");
    } else if (is_file(option)) {
        printf("files=1 ;;\n");
    } else {
        printf("return ;;\n"); /* a number or a text of the user's own */
    }
}

static void print_bash(void)
{
    const ms_cli_command *c;

    printf("# bash completion of musec, written by: musec completion bash\n"
           "_musec() {\n"
           "    local words= files=\n"
           "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
           "    COMPREPLY=()\n"
           "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
           "        words='--help --version help");
    for (size_t i = 0; (c = ms_cli_command_at(i)) != NULL; i++)
        printf(" %s", c->name);
    printf("'\n"
           "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
           "        return\n"
           "    fi\n"
           "    case ${COMP_WORDS[1]}:$prev in\n");
    for (size_t i = 0; (c = ms_cli_command_at(i)) != NULL; i++)
        for (size_t k = 0; k < c->describe()->n_options; k++)
            bash_values(c->name, &c->describe()->options[k]);
    printf("        *)\n"
           "            case ${COMP_WORDS[1]} in\n"
           "                help) [ \"$COMP_CWORD\" -eq 2 ] && words='");
    for (size_t i = 0; (c = ms_cli_command_at(i)) != NULL; i++)
        printf("%s%s", i == 0 ? "" : " ", c->name);
    printf("' ;;\n");
    for (size_t i = 0; (c = ms_cli_command_at(i)) != NULL; i++) {
        const ms_command *cmd = c->describe();
        printf("                %s) words='--help", c->name);
        for (size_t k = 0; k < cmd->n_options; k++)
            printf(" --%s", cmd->options[k].name);
        if (has_literal_operands(cmd)) {
            putchar(' ');
            put_words(cmd->operands);
        }
        if (has_more_operands(cmd))
            printf("'; [ \"$COMP_CWORD\" -gt 2 ] && files=1 ;;\n");
        else
            printf("'%s ;;\n",
                   cmd->max_operands != 0 && !has_literal_operands(cmd) ? " files=1" : "");
    }
    printf("            esac ;;\n"
           "    esac\n"
           "    if [ -n \"$files\" ] && [[ $cur != -* ]]; then\n"
           "        compopt -o default\n"
           "        return\n"
           "    fi\n"
           "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
           "}\n"
           "complete -F _musec musec\n");
}

/* ---- zsh ------------------------------------------------------------------------------------- */

/* Text inside single quotes where zsh gives [ ] : \ a meaning of their own. */
static void put_zsh(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            fputs("'\\''", stdout);
            continue;
        }
        if (strchr("[]:\\", *text) != NULL) putchar('\\');
        putchar(*text);
    }
}

static void zsh_option(const ms_option *option)
{
    printf("                '--%s[", option->name);
    put_zsh(option->help);
    putchar(']');
    if (option->type != MS_OPT_FLAG) {
        putchar(':');
        put_zsh(option->type == MS_OPT_CHOICE ? "value" : option->meta);
        putchar(':');
        if (option->type == MS_OPT_CHOICE) {
            putchar('(');
            put_words(option->meta);
            putchar(')');
        } else if (is_device(option)) {
            fputs("_musec_devices", stdout);
        } else if (is_file(option)) {
            fputs("_files", stdout);
        }
    }
    fputs("' \\\n", stdout);
}

static void print_zsh(void)
{
    const ms_cli_command *c;

    printf("#compdef musec\n"
           "# zsh completion of musec, written by: musec completion zsh\n"
           "_musec_devices() {\n"
           "    compadd -- " DEVICE_WORDS "\n"
           "}\n"
           "_musec() {\n"
           "    local -a subcommands\n"
           "    subcommands=(\n",
           "$program");
    for (size_t i = 0; (c = ms_cli_command_at(i)) != NULL; i++) {
        printf("        '%s:", c->name);
        put_zsh(c->describe()->summary);
        printf("'\n");
    }
    printf("    )\n"
           "    if (( CURRENT == 2 )); then\n"
           "        subcommands+=('help:print what a subcommand does')\n"
           "        _describe subcommand subcommands\n"
           "        _arguments '--help[print the subcommands]' '--version[print the version]'\n"
           "        return\n"
           "    fi\n"
           "    if [[ $words[2] == help ]]; then\n"
           "        (( CURRENT == 3 )) && _describe subcommand subcommands\n"
           "        return\n"
           "    fi\n"
           "    local program=$words[1] subcommand=$words[2]\n"
           "    shift words\n"
           "    (( CURRENT-- ))\n"
           "    case $subcommand in\n");
    for (size_t i = 0; (c = ms_cli_command_at(i)) != NULL; i++) {
        const ms_command *cmd = c->describe();
        printf("        %s)\n"
               "            _arguments \\\n",
               c->name);
        for (size_t k = 0; k < cmd->n_options; k++)
            zsh_option(&cmd->options[k]);
        printf("                '--help[print this help]'");
        if (has_literal_operands(cmd)) {
            printf(" \\\n                '1:what:(");
            put_words(cmd->operands);
            printf(")'");
        }
        if (has_more_operands(cmd) || (cmd->max_operands != 0 && !has_literal_operands(cmd)))
            printf(" \\\n                '*:file:_files'");
        printf(" ;;\n");
    }
    printf("    esac\n"
           "}\n"
           "_musec \"$@\"\n");
}

int cmd_completion(int argc, char **argv)
{
    const ms_command *cmd  = completion_command();
    int               none = 0; /* it has no options */
    const int         n    = ms_options_parse(cmd, &none, argc, argv);

    if (n < 0) return ms_cli_parsed(n);
    if (strcmp(argv[1], "bash") == 0)
        print_bash();
    else if (strcmp(argv[1], "zsh") == 0)
        print_zsh();
    else
        return ms_cli_usage(cmd, "the shells are bash and zsh, not \"%s\"", argv[1]);
    return EXIT_OK;
}
