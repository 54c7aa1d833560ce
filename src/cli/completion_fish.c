/* completion_fish.c - the completion script for fish. */
#include "cli/completion.h"

/* Text inside single quotes. */
static void put(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'' || *text == '\\') putchar('\\');
        putchar(*text);
    }
}

/* -x: a value must follow, and no file; -r -F: one must, and a file may. */
static void put_next(const ms_next *next, const char *no_files, const char *files)
{
    switch (next->kind) {
    case MS_NEXT_NOTHING: printf(" %s", no_files); break;
    case MS_NEXT_WORDS:
    case MS_NEXT_STEMS: printf(" %s -a '%s'", no_files, next->words); break;
    case MS_NEXT_FILES: printf(" %s", files); break;
    case MS_NEXT_DIRECTORIES: printf(" %s -a '(__fish_complete_directories)'", no_files); break;
    case MS_NEXT_RUNS: printf(" %s -a '(__musec_runs)'", no_files); break;
    case MS_NEXT_DEVICES: printf(" %s -a '(__musec_devices)'", no_files); break;
    }
}

static void print_option(const char *command, const ms_option *option)
{
    ms_next next;

    printf("complete -c musec -n '__musec_is %s' -l %s", command, option->name);
    if (option->type != MS_OPT_FLAG) {
        ms_next_value(option, &next);
        put_next(&next, "-x", "-r -F");
    }
    printf(" -d '");
    put(option->help);
    printf("'\n");
}

static void print_operands(const ms_cli_command *c)
{
    ms_next first, next;
    char    part[64];

    ms_next_operand(c, &first);
    if (first.kind == MS_NEXT_NOTHING) return;
    printf("complete -c musec -n '__musec_is %s%s'", c->name,
           first.kind == MS_NEXT_WORDS ? "; and __musec_words 2" : "");
    put_next(&first, "-f", "-F");
    printf("\n");
    for (size_t i = 0; ms_next_word(first.words, i, part, sizeof part); i++) {
        ms_next_behind(c, part, &next);
        if (next.kind == MS_NEXT_NOTHING) continue;
        printf("complete -c musec -n '__musec_is %s %s'", c->name, part);
        put_next(&next, "-f", "-F");
        printf("\n");
    }
}

static const char beginning[] =
    "# fish completion of musec, written by: musec completion fish\n"
    "function __musec_words # so many words stand before the one that is typed\n"
    "    test (count (commandline -opc)) -eq $argv[1]\n"
    "end\n"
    "function __musec_is # these words stand behind the program's name\n"
    "    set -l words (commandline -opc)\n"
    "    test (count $words) -gt (count $argv); or return 1\n"
    "    for i in (seq (count $argv))\n"
    "        test $words[(math $i + 1)] = $argv[$i]; or return 1\n"
    "    end\n"
    "end\n"
    "function __musec_devices\n"
    "    set -l words (commandline -opc)\n"
    "    $words[1] info --no-peak 2>/dev/null | string replace -rf '^device +([^:]*):.*' '$1'\n"
    "end\n"
    "function __musec_runs # run directories that begin with what is typed, else directories\n"
    "    set -l typed (commandline -ct)\n"
    "    set -l files $typed*/config.json $typed*/*/config.json $typed*/*/*/config.json\n"
    "    if set -q files[1]\n"
    "        string replace -r '/config.json$' '' -- $files\n"
    "    else\n"
    "        __fish_complete_directories $typed\n"
    "    end\n"
    "end\n"
    "complete -c musec -f\n"
    "complete -c musec -n '__musec_words 1' -l help -d 'print the subcommands'\n"
    "complete -c musec -n '__musec_words 1' -l version -d 'print the version'\n"
    "complete -c musec -n '__musec_words 1' -a help -d 'print what a subcommand does'\n";

void ms_completion_fish(void)
{
    const ms_cli_command *c;

    fputs(beginning, stdout);
    for (size_t i = 0; (c = ms_cli_command_at(i)) != NULL; i++) {
        const ms_command *cmd = c->describe();
        printf("\ncomplete -c musec -n '__musec_words 1' -a %s -d '", c->name);
        put(cmd->summary);
        printf("'\ncomplete -c musec -n '__musec_words 2; and __musec_is help' -a %s\n", c->name);
        for (size_t k = 0; k < cmd->n_options; k++)
            print_option(c->name, &cmd->options[k]);
        printf("complete -c musec -n '__musec_is %s' -l help -d 'print this help'\n", c->name);
        print_operands(c);
    }
}
