/* main.c - the musec program: the table of subcommands, and the choice of one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "core/names.h"
#include "device/cpu/prepare.h"
#include "experiment/pool.h"
#include "train/train.h"

static const ms_cli_command commands[] = {
#define X(name) { #name, name##_command, cmd_##name },
    MS_CLI_SUBCOMMANDS(X)
#undef X
};

static const struct { /* as --help shows them; a group goes on to the next one's first */
    const char *title, *first;
} groups[] = {
    { "First steps", "demo" },   { "Experiments", "sweep" },
    { "Data", "tokenize" },      { "Matrices and single optimizers", "clip" },
    { "This machine", "bench" },
};

static const char about[] =
    "Usage: musec SUBCOMMAND [--option value]...\n"
    "       musec help [SUBCOMMAND] | --help | --version\n\n"
    "Optimizers for training neural networks, an alternative to Muon, and a GPT trainer to\n"
    "try them with: they clip the singular values of what is added to each weight matrix.\n";
static const char start[] =
    "\nStart with:\n"
    "  musec demo                             compare four optimizers, and draw a page\n"
    "  musec train --out runs/first           train a small GPT, in seconds\n"
    "  musec sample runs/first --prompt The   see what it writes\n\n"
    "musec SUBCOMMAND --help says more.  Exit status: 0 done, 1 failed, 2 wrong usage,\n"
    "3 a run on several ranks has diverged, 128 + N ended early by signal N (130: Ctrl-C).\n";

const ms_cli_command *ms_cli_command_at(size_t index)
{
    return index < COUNT(commands) ? &commands[index] : NULL;
}

static void print_help(FILE *to)
{
    size_t group = 0;

    fputs(about, to);
    for (size_t i = 0; i < COUNT(commands); i++) {
        if (group < COUNT(groups) && strcmp(groups[group].first, commands[i].name) == 0)
            fprintf(to, "\n%s:\n", groups[group++].title);
        fprintf(to, "  %-12s%s\n", commands[i].name, commands[i].describe()->summary);
    }
    fputs(start, to);
}

static int unknown(const char *name)
{
    static const char *const options[] = { "--help", "--version" };
    const char              *names[COUNT(commands)];
    const char              *near;

    for (size_t i = 0; i < COUNT(commands); i++)
        names[i] = commands[i].name;
    near = name[0] == '-' ? ms_name_nearest(name, options, COUNT(options))
                          : ms_name_nearest(name, names, COUNT(names));
    if (near == NULL && name[0] == '-')
        near = ms_name_nearest(name + strspn(name, "-"), names, COUNT(names));
    fprintf(stderr, "musec: there is no %s ", name[0] == '-' ? "option" : "subcommand");
    ms_text_print("\"", name, "\"", stderr);
    if (near != NULL)
        fprintf(stderr, "; did you mean \"%s\"?\n", near);
    else
        fprintf(stderr, "; musec --help lists the subcommands\n");
    return EXIT_USAGE;
}

/* "help clip" is "clip --help"; "help" alone is "--help". */
static void turn_help(int argc, char **argv)
{
    static char option[] = "--help";
    for (int i = 1; i + 1 < argc; i++)
        argv[i] = argv[i + 1];
    argv[argc - 1] = option;
}

/* "help --man docs/musec.1.in" is for the build, which writes the manual page. */
static int write_manual(const char *path)
{
    ms_error error = { "" };

    if (ms_manual_write(&error, path, stdout) == MUSEC_OK) return EXIT_OK;
    fprintf(stderr, "musec help --man: %s\n", error.text);
    return EXIT_FAILED;
}

static int run_command(int argc, char **argv)
{
    for (size_t i = 0; i < COUNT(commands); i++)
        if (strcmp(commands[i].name, argv[0]) == 0) return commands[i].run(argc, argv);
    return unknown(argv[0]);
}

/* One command after the other, of a pool (experiment/pool.h): trainings share a device. */
static int work(const char *socket)
{
    ms_train_device device = { 0 };
    int             code;

    ms_cli_shared_device = &device;
    code                 = ms_pool_serve((int)strtol(socket, NULL, 10), run_command);
    ms_train_device_close(&device);
    return code;
}

static int dispatch(int argc, char **argv)
{
    const char *name = NULL;

    if (argc == 4 && strcmp(argv[1], "help") == 0 && strcmp(argv[2], "--man") == 0)
        return write_manual(argv[3]);
    while (argc > 1 && strcmp(argv[1], "help") == 0) /* also of itself */
        turn_help(argc, argv);
    if (argc > 1) name = argv[1];
    if (name == NULL) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        print_help(stdout);
        return EXIT_OK;
    }
    if (strcmp(name, "--version") == 0) {
        printf("musec %s\n", musec_version());
        return EXIT_OK;
    }
    return run_command(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    int code;

    ms_device_cpu_prepare(argv); /* may start the program again, so before anything else */
    if (argc == 2 && strcmp(argv[0], ms_pool_worker) == 0) return work(argv[1]);
    code = dispatch(argc, argv);
    /* Output is buffered: only now is it known whether the result arrived. */
    errno = 0;
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == EXIT_OK) {
        fprintf(stderr, "musec: stdout cannot be written: %s\n",
                errno != 0 ? strerror(errno) : "an earlier write failed");
        code = EXIT_FAILED;
    }
    return code;
}
