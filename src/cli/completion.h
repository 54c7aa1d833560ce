/* completion.h - what may be typed next, read off the tables of options, and written as completion
 * scripts for shells.
 *
 * What may follow an option is read from its row: a CHOICE lists its values, DIR is a directory,
 * X.npy a file, RUN a run directory.  Operands are files unless they are words in lower case, which
 * stand for themselves ("ops", "bash|zsh"); after such a word others may follow ("get NAME"). */
#ifndef MS_CLI_COMPLETION_H
#define MS_CLI_COMPLETION_H

#include <stdbool.h>

#include "cli/cli.h"

enum { MS_COMPLETION_PARTS = 8 };

typedef enum ms_completion_kind {
    MS_COMPLETE_NOTHING,  /* a number or a text of the user's own */
    MS_COMPLETE_WORDS,    /* one of `words` */
    MS_COMPLETE_PREFIXES, /* one of `words`, which end with '=', and a value after it */
    MS_COMPLETE_FILES,
    MS_COMPLETE_DIRECTORIES,
    MS_COMPLETE_RUNS,    /* run directories */
    MS_COMPLETE_DEVICES, /* builds and machines differ: the script asks the program */
} ms_completion_kind;

typedef struct ms_completion {
    ms_completion_kind kind;
    char               words[4096]; /* with blanks between */
    bool               out_of_memory;
} ms_completion;

/* What follows an operand that is a given word, such as "get". */
typedef struct ms_completion_part {
    char          word[MS_OPTION_NAME];
    ms_completion next;
} ms_completion_part;

/* A shell: what its script has at each place of the walk over the subcommands. */
typedef struct ms_completion_script {
    const char *shell;
    void (*begin)(void);
    void (*command)(const ms_cli_command *c); /* before its options */
    void (*option)(const ms_cli_command *c, const ms_option *option, const ms_completion *value);
    /* After the options: `first` is what the first operand may be. */
    void (*operands)(const ms_cli_command *c, const ms_completion *first,
                     const ms_completion_part *parts, size_t n_parts);
    void (*end)(void);
} ms_completion_script;

extern const ms_completion_script ms_completion_bash, ms_completion_zsh, ms_completion_fish;

/* Writes the script of a shell to stdout. */
musec_status ms_completion_write(ms_error *e, const ms_completion_script *script);

/* Shell text that lists the devices; %s is the program as it was called. */
#define MS_DEVICE_WORDS \
    "$(%s info --no-peak 2>/dev/null | sed -n 's/^device  *\\([^:]*\\):.*/\\1/p')"

#endif
