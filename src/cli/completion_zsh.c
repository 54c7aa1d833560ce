/* completion_zsh.c - the completion script for zsh. */
#include <string.h>

#include "cli/completion.h"

/* Text inside single quotes where zsh gives [ ] : \ a meaning of their own. */
static void put(const char *text)
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

/* The action of _arguments that offers what may follow. */
static void put_action(const ms_next *next)
{
    switch (next->kind) {
    case MS_NEXT_NOTHING: break;
    case MS_NEXT_WORDS: printf("(%s)", next->words); break;
    case MS_NEXT_STEMS: printf("{ compadd -S \"\" -- %s }", next->words); break;
    case MS_NEXT_FILES: fputs("_files", stdout); break;
    case MS_NEXT_DIRECTORIES: fputs("_files -/", stdout); break;
    case MS_NEXT_RUNS: fputs("_musec_runs", stdout); break;
    case MS_NEXT_DEVICES: fputs("_musec_devices", stdout); break;
    }
}

static void print_option(const ms_option *option)
{
    ms_next next;

    printf("                '--%s[", option->name);
    put(option->help);
    putchar(']');
    if (option->type != MS_OPT_FLAG) {
        ms_next_value(option, &next);
        putchar(':');
        put(option->type == MS_OPT_CHOICE ? "value" : option->meta);
        putchar(':');
        put_action(&next);
    }
    fputs("' \\\n", stdout);
}

/* Behind the first operand: by the word that it is. */
static void print_parts(const ms_cli_command *c, const ms_next *first)
{
    char    part[64];
    ms_next next;
    bool    any = false;

    for (size_t i = 0; ms_next_word(first->words, i, part, sizeof part); i++) {
        ms_next_behind(c, part, &next);
        if (next.kind == MS_NEXT_NOTHING) continue;
        printf("%s(( ${words[(I)%s]} )) && ", any ? " || { " : " \\\n                '*:what:{ { ",
               part);
        if (next.kind == MS_NEXT_WORDS)
            printf("compadd -- %s; }", next.words);
        else
            printf("%s; }", next.kind == MS_NEXT_RUNS ? "_musec_runs" : "_files");
        any = true;
    }
    if (any) printf(" }'");
}

static void print_command(const ms_cli_command *c)
{
    const ms_command *cmd = c->describe();
    ms_next           first;

    printf("        %s)\n"
           "            _arguments \\\n",
           c->name);
    for (size_t k = 0; k < cmd->n_options; k++)
        print_option(&cmd->options[k]);
    printf("                '--help[print this help]'");
    ms_next_operand(c, &first);
    if (first.kind == MS_NEXT_WORDS) {
        printf(" \\\n                '1:what:(%s)'", first.words);
        print_parts(c, &first);
    } else if (first.kind != MS_NEXT_NOTHING) {
        printf(" \\\n                '*:file:");
        put_action(&first);
        putchar('\'');
    }
    printf(" ;;\n");
}

void ms_completion_zsh(void)
{
    const ms_cli_command *c;

    printf("#compdef musec\n"
           "# zsh completion of musec, written by: musec completion zsh\n"
           "_musec_devices() {\n"
           "    compadd -- " MS_DEVICE_WORDS "\n"
           "}\n"
           "_musec_runs() { # run directories that begin with what is typed, else directories\n"
           "    local -a runs\n"
           "    runs=(${PREFIX}*/config.json(N:h) ${PREFIX}*/*/config.json(N:h)\n"
           "        ${PREFIX}*/*/*/config.json(N:h))\n"
           "    if (( $#runs )); then compadd -f -- $runs; else _files -/; fi\n"
           "}\n"
           "_musec() {\n"
           "    local -a subcommands\n"
           "    subcommands=(\n",
           "$program");
    for (size_t i = 0; (c = ms_cli_command_at(i)) != NULL; i++) {
        printf("        '%s:", c->name);
        put(c->describe()->summary);
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
    for (size_t i = 0; (c = ms_cli_command_at(i)) != NULL; i++)
        print_command(c);
    printf("    esac\n"
           "}\n"
           "_musec \"$@\"\n");
}
