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
static void put_action(const ms_completion *next)
{
    switch (next->kind) {
    case MS_COMPLETE_NOTHING: break;
    case MS_COMPLETE_WORDS: printf("(%s)", next->words); break;
    case MS_COMPLETE_PREFIXES: printf("{ compadd -S \"\" -- %s }", next->words); break;
    case MS_COMPLETE_FILES: fputs("_files", stdout); break;
    case MS_COMPLETE_DIRECTORIES: fputs("_files -/", stdout); break;
    case MS_COMPLETE_RUNS: fputs("_musec_runs", stdout); break;
    case MS_COMPLETE_DEVICES: fputs("_musec_devices", stdout); break;
    }
}

static void begin(void)
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
}

static void command(const ms_cli_command *c)
{
    printf("        %s)\n            _arguments \\\n", c->name);
}

static void option(const ms_cli_command *c, const ms_option *o, const ms_completion *value)
{
    (void)c;
    printf("                '--%s[", o->name);
    put(o->help);
    putchar(']');
    if (o->type != MS_OPT_FLAG) {
        putchar(':');
        put(o->type == MS_OPT_CHOICE ? "value" : o->meta);
        putchar(':');
        put_action(value);
    }
    fputs("' \\\n", stdout);
}

static void operands(const ms_cli_command *c, const ms_completion *first,
                     const ms_completion_part *parts, size_t n_parts)
{
    (void)c;
    printf("                '--help[print this help]'");
    if (first->kind != MS_COMPLETE_NOTHING) {
        printf(" \\\n                '%s:", first->kind == MS_COMPLETE_WORDS ? "1:what" : "*:file");
        put_action(first);
        putchar('\'');
    }
    for (size_t i = 0; i < n_parts; i++) {
        const ms_completion *next = &parts[i].next;
        printf("%s(( ${words[(I)%s]} )) && ",
               i > 0 ? " || { " : " \\\n                '*:what:{ { ", parts[i].word);
        if (next->kind == MS_COMPLETE_WORDS)
            printf("compadd -- %s; }", next->words);
        else
            printf("%s; }", next->kind == MS_COMPLETE_RUNS ? "_musec_runs" : "_files");
    }
    printf("%s ;;\n", n_parts > 0 ? " }'" : "");
}

static void end(void)
{
    printf("    esac\n"
           "}\n"
           "_musec \"$@\"\n");
}

const ms_completion_script ms_completion_zsh = { "zsh", begin, command, option, operands, end };
