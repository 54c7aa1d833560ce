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
static void put_values(const ms_completion *next, const char *no_files, const char *files)
{
    switch (next->kind) {
    case MS_COMPLETE_NOTHING: printf(" %s", no_files); break;
    case MS_COMPLETE_WORDS:
    case MS_COMPLETE_PREFIXES: printf(" %s -a '%s'", no_files, next->words); break;
    case MS_COMPLETE_FILES: printf(" %s", files); break;
    case MS_COMPLETE_DIRECTORIES: printf(" %s -a '(__fish_complete_directories)'", no_files); break;
    case MS_COMPLETE_RUNS: printf(" %s -a '(__musec_runs)'", no_files); break;
    case MS_COMPLETE_DEVICES: printf(" %s -a '(__musec_devices)'", no_files); break;
    }
}

static const char functions[] =
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

static void begin(void) { fputs(functions, stdout); }

static void command(const ms_cli_command *c)
{
    printf("\ncomplete -c musec -n '__musec_words 1' -a %s -d '", c->name);
    put(c->describe()->summary);
    printf("'\ncomplete -c musec -n '__musec_words 2; and __musec_is help' -a %s\n", c->name);
}

static void option(const ms_cli_command *c, const ms_option *o, const ms_completion *value)
{
    printf("complete -c musec -n '__musec_is %s' -l %s", c->name, o->name);
    if (o->type != MS_OPT_FLAG) put_values(value, "-x", "-r -F");
    printf(" -d '");
    put(o->help);
    printf("'\n");
}

static void operands(const ms_cli_command *c, const ms_completion *first,
                     const ms_completion_part *parts, size_t n_parts)
{
    printf("complete -c musec -n '__musec_is %s' -l help -d 'print this help'\n", c->name);
    if (first->kind == MS_COMPLETE_NOTHING) return;
    printf("complete -c musec -n '__musec_is %s%s'", c->name,
           first->kind == MS_COMPLETE_WORDS ? "; and __musec_words 2" : "");
    put_values(first, "-f", "-F");
    printf("\n");
    for (size_t i = 0; i < n_parts; i++) {
        printf("complete -c musec -n '__musec_is %s %s'", c->name, parts[i].word);
        put_values(&parts[i].next, "-f", "-F");
        printf("\n");
    }
}

static void end(void) {}

const ms_completion_script ms_completion_fish = { "fish", begin, command, option, operands, end };
