/* completion.h - what may be typed next, read off the tables of options, and written as completion
 * scripts for shells.
 *
 * What may follow an option shows in its row: a CHOICE lists its values, DIR is a directory, X.npy
 * a file, RUN a run directory.  Operands are files unless they are words in lower case, which stand
 * for themselves ("ops", "bash|zsh"); behind such a word others may follow ("get NAME"). */
#ifndef MS_CLI_COMPLETION_H
#define MS_CLI_COMPLETION_H

#include <stdbool.h>

#include "cli/cli.h"

typedef enum ms_next_kind {
    MS_NEXT_NOTHING, /* a number or a text of the user's own */
    MS_NEXT_WORDS,   /* one of `words` */
    MS_NEXT_STEMS,   /* one of `words`, which end with '=', and more right behind it */
    MS_NEXT_FILES,
    MS_NEXT_DIRECTORIES,
    MS_NEXT_RUNS,    /* run directories */
    MS_NEXT_DEVICES, /* builds and machines differ: the script asks the program */
} ms_next_kind;

typedef struct ms_next {
    ms_next_kind kind;
    char         words[4096]; /* with blanks between */
} ms_next;

void ms_next_value(const ms_option *option, ms_next *out);
/* Of the subcommand's operands, the first; MS_NEXT_NOTHING: it has none. */
void ms_next_operand(const ms_cli_command *command, ms_next *out);
/* What follows the first operand where that is the word `part` ("get"). */
void ms_next_behind(const ms_cli_command *command, const char *part, ms_next *out);
/* Word `index` of a list with blanks between; false: there are no more. */
bool ms_next_word(const char *words, size_t index, char *word, size_t bytes);

/* Shell text that lists the devices; %s is the program as it was called. */
#define MS_DEVICE_WORDS \
    "$(%s info --no-peak 2>/dev/null | sed -n 's/^device  *\\([^:]*\\):.*/\\1/p')"

void ms_completion_bash(void);
void ms_completion_zsh(void);
void ms_completion_fish(void);

#endif
