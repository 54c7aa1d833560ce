/* manual.c - the manual page: hand-written prose with the lists that the program knows filled in.
 *
 * The template (docs/musec.1.in) is a manual page in which some comments are commands:
 *
 *     .\" options clip     begins the options of musec clip, from the table that makes its --help
 *     .\" more --op        writes them up to --op, so that the lines below are added to that option
 *     .\" end              writes the others
 *     .\" items            the items of musec paper, with the paper's own numbers
 *     .\" sections         the sections of musec report */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "experiment/experiment.h"
#include "report/sections.h"

enum { MAX_LINE = 4096 };

typedef struct page {
    FILE             *to;
    const ms_command *command; /* whose options are being written, or NULL */
    size_t            next;    /* its option to write next */
} page;

/* Text of the tables as roff reads it. */
static void put_text(const char *text, size_t bytes, FILE *to)
{
    for (size_t i = 0; i < bytes; i++)
        if (text[i] == '-')
            fputs("\\-", to);
        else if (text[i] == '\\')
            fputs("\\e", to);
        else if (text[i] == '^')
            fputs("\\(ha", to);
        else
            fputc(text[i], to);
}

/* ---- options --------------------------------------------------------------------------------- */

/* "number of steps [5]" becomes two sentences.  A name in front ("ssc: ...") keeps its case. */
static void put_help(const char *help, FILE *to)
{
    const char  *open   = strrchr(help, '[');
    const size_t n      = strlen(help);
    const bool   has    = open != NULL && open > help && n > 0 && help[n - 1] == ']';
    const size_t bytes  = has ? (size_t)(open - help - 1) : n;
    const size_t first  = strcspn(help, " ");
    const bool   a_name = first > 0 && strchr(":,", help[first - 1]) != NULL;

    fputc(a_name ? help[0] : toupper((unsigned char)help[0]), to);
    put_text(help + 1, bytes - 1, to);
    fputs(".\n", to);
    if (!has) return;
    if (strcmp(open, "[needed]") == 0) {
        fputs("Must be given.\n", to);
        return;
    }
    fputs("Default: ", to);
    put_text(open + 1, strlen(open) - 2, to);
    fputs(".\n", to);
}

/* The choices of an option; a line may end behind each, and is as long as it is then: it may have
 * no blank that could be widened. */
static void put_meta(const char *meta, FILE *to)
{
    fputs(" \" ", to);
    for (const char *c = meta; *c != '\0'; c++) {
        fputc(*c, to);
        if (*c == '|') fputs("\\:", to);
    }
    fputc('"', to);
}

static void put_option(const ms_option *option, FILE *to)
{
    const bool choices = option->meta != NULL && strchr(option->meta, '|') != NULL;
    fputs(choices ? ".ad l\n" : "", to);
    fprintf(to, ".TP\n.B%s \\-\\-", option->meta != NULL ? "I" : "");
    put_text(option->name, strlen(option->name), to);
    if (option->meta != NULL) put_meta(option->meta, to);
    fputs(choices ? "\n.ad b\n" : "\n", to);
    put_help(option->help, to);
}

static const ms_command *find_command(const char *name)
{
    const ms_cli_command *c;
    for (size_t i = 0; (c = ms_cli_command_at(i)) != NULL; i++)
        if (strcmp(c->name, name) == 0) return c->describe();
    return NULL;
}

/* Writes the options that are left, up to the one called `last` (NULL: all).  False: there is no
 * such option among them. */
static bool put_options(page *p, const char *last)
{
    const ms_command *cmd = p->command;

    while (cmd != NULL && p->next < cmd->n_options) {
        const ms_option *option = &cmd->options[p->next++];
        for (size_t i = 0; i < cmd->n_groups; i++)
            if (strcmp(cmd->groups[i].first, option->name) == 0)
                fprintf(p->to, ".PP\n%s:\n", cmd->groups[i].title);
        put_option(option, p->to);
        if (last != NULL && strcmp(option->name, last) == 0) return true;
    }
    return last == NULL;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static musec_status put_items(ms_error *e, FILE *to)
{
    ms_experiments all = { 0 };
    musec_status   st;

    TRY(ms_experiments_load(e, &all));
    for (size_t i = 0; i < all.n; i++) {
        char text[256];
        ms_experiment_names(&all.at[i], text, sizeof text);
        put_text(text, strlen(text), to);
        fputs(i + 1 < all.n ? ",\n" : ".\n", to);
    }
done:
    ms_experiments_free(&all);
    return st;
}

static void put_sections(FILE *to)
{
    const char *title, *shows, *id;
    for (size_t i = 0; (id = ms_section_at(i, &title, &shows)) != NULL; i++) {
        if (i > 0) fputs(",\n", to);
        put_text(id, strlen(id), to);
    }
    fputs(".\n", to);
}

/* ---- the page -------------------------------------------------------------------------------- */

/* The word after the template command `name`, or ""; NULL if the line is no such command. */
static const char *command_at(const char *line, const char *name)
{
    static const char comment[] = ".\\\" ";
    const size_t      n         = strlen(comment);

    if (strncmp(line, comment, n) != 0 || strncmp(line + n, name, strlen(name)) != 0) return NULL;
    line += n + strlen(name);
    return line + strspn(line, " -");
}

static musec_status put_line(ms_error *e, page *p, const char *line)
{
    const char *word;

    if ((word = command_at(line, "options")) != NULL) {
        p->command = find_command(word);
        p->next    = 0;
        if (p->command == NULL) return ms_fail(e, MUSEC_EFORMAT, "no subcommand %s", word);
    } else if ((word = command_at(line, "more")) != NULL) {
        if (!put_options(p, word)) return ms_fail(e, MUSEC_EFORMAT, "no option --%s here", word);
    } else if (command_at(line, "end") != NULL) {
        (void)put_options(p, NULL);
        p->command = NULL;
    } else if (command_at(line, "items") != NULL) {
        return put_items(e, p->to);
    } else if (command_at(line, "sections") != NULL) {
        put_sections(p->to);
    } else {
        fprintf(p->to, "%s\n", line);
    }
    return MUSEC_OK;
}

musec_status ms_manual_write(ms_error *e, const char *path, FILE *to)
{
    page         p = { .to = to };
    FILE        *f = fopen(path, "r");
    char         line[MAX_LINE];
    musec_status st = MUSEC_OK;

    if (f == NULL) return ms_fail(e, MUSEC_EIO, "%s: cannot be opened", path);
    while (st == MUSEC_OK && fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        st                        = put_line(e, &p, line);
    }
    fclose(f);
    return st;
}
