/* options.h - a table of options is their only description: it parses the command line, prints
 * --help, feeds shell completion, and writes what was chosen as JSON.
 *
 * Spellings: --name value, --name=value; flags take no value; "--" ends the options; operands and
 * options may be mixed.  A number must be a number to its end and in the type's range; a whole one
 * may be written 1e3.  Names use hyphens on the command line; in JSON they use underscores.  An
 * option may also be called by what it means elsewhere (names.h): --learning-rate is --lr. */
#ifndef MS_CORE_OPTIONS_H
#define MS_CORE_OPTIONS_H

#include <stddef.h>
#include <stdio.h>

#include "core/status.h"

typedef enum ms_option_type {
    MS_OPT_FLAG,   /* int: 0 or 1 */
    MS_OPT_I64,    /* int64_t */
    MS_OPT_U64,    /* uint64_t */
    MS_OPT_F64,    /* double; "nan" and "inf" are refused */
    MS_OPT_STR,    /* const char *: points into argv */
    MS_OPT_CHOICE, /* const char *: one of `meta`, "a|b|c", which --help shows as it is */
    MS_OPT_LIST,   /* ms_option_list: may be given again, all are kept */
} ms_option_type;

enum { MS_OPTION_LIST = 64, MS_OPTION_NAME = 64 };

typedef struct ms_option_list { /* { 0 } is empty */
    const char *item[MS_OPTION_LIST];
    size_t      n;
} ms_option_list;

typedef struct ms_option {
    const char    *name; /* without the hyphens */
    ms_option_type type;
    size_t         offset; /* of the field in the struct of arguments */
    const char    *meta;   /* the value's name in --help, NULL for flags; the choices of a CHOICE */
    const char    *help;   /* one line, ends with the default in brackets: "steps to take [5]" */
} ms_option;

typedef struct ms_option_group { /* options that --help shows together, up to the next group */
    const char *title;
    const char *first; /* the name of the group's first option */
} ms_option_group;

typedef struct ms_command {    /* what --help prints around the table */
    const char      *name;     /* "musec clip" */
    const char      *operands; /* "IN.npy OUT.npy" */
    const char      *summary;  /* one line */
    const char      *details;  /* paragraphs and examples below the options, or NULL */
    const ms_option *options;
    size_t           n_options;
    int              min_operands, max_operands; /* max -1: any number */
    /* what a superfluous operand was probably meant to follow, "--data ", or NULL */
    const char *instead;
    /* in the order of the options; none: all are "Options" */
    const ms_option_group *groups;
    size_t                 n_groups;
} ms_command;

enum { MS_OPT_HELP = -1, MS_OPT_WRONG = -2, MS_OPT_RANGE = -3 };

/* Fills `args` and moves the operands to the front of argv[1..]; returns their number, or
 * MS_OPT_HELP (--help or -h: printed to stdout), MS_OPT_WRONG (the reason is on stderr, in one
 * line, with the nearest option's name where one is near) or MS_OPT_RANGE (likewise, for a number
 * that does not fit the type of the option). */
int  ms_options_parse(const ms_command *cmd, void *args, int argc, char **argv);
void ms_options_help(const ms_command *cmd, FILE *to);
/* Prints the value of every option, in table order: {"threshold": 0.25, "op": "fast"}. */
void ms_options_json(const ms_command *cmd, const void *args, FILE *to);

/* Splits an item "NAME=VALUE": copies the name and returns the value, or NULL if it has no '='. */
const char *ms_option_pair(const char *item, char name[MS_OPTION_NAME]);

#endif
