/* options.c - the command line, --help and JSON from one table.
 *
 * A value is the next argument whatever it begins with, so that "--lr -1" works, but for one that
 * begins with "--": there a value was forgotten.  (One that must begin so is written --name=--x.)
 * Only the first mistake from the left is reported, in one line.  The status of a value that cannot
 * be read is EFORMAT; that of one that is out of range is EINVAL.  Numbers follow the C locale. */
#include "core/options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "core/names.h"
#include "core/real.h"
#include "core/text.h"
#include "core/whole.h"

#define HELP_NAME   "help"
#define HELP_LABEL  "-h, --help"
#define HELP_TEXT   "print this text and stop"
#define WIDTH       80 /* columns of --help */
#define LABEL_WIDTH 26 /* columns; longer labels get a line of their own */
#define NAME_MAX_CH 64 /* longer names get no suggestion */
#define MAX_NAMES   256

/* ---- values ---------------------------------------------------------------------------------- */

static musec_status wrong_number(ms_error *e, const ms_option *o, const char *text,
                                 const char *want)
{
    return ms_fail(e, MUSEC_EFORMAT, "--%s wants %s, not '%s'", o->name, want, text);
}

static musec_status out_of_range(ms_error *e, const ms_option *o, const char *text,
                                 const char *range)
{
    return ms_fail(e, MUSEC_EINVAL, "--%s is %s; it must be %s", o->name, text, range);
}

/* Turns the result of reading a whole number into a status. */
static musec_status whole_status(ms_error *e, const ms_option *o, const char *text, ms_whole found,
                                 const char *range)
{
    if (found == MS_WHOLE_READ) return MUSEC_OK;
    return found == MS_WHOLE_NONE ? wrong_number(e, o, text, "a whole number")
                                  : out_of_range(e, o, text, range);
}

static musec_status parse_f64(ms_error *e, const ms_option *o, const char *text, double *out)
{
    char  *end = NULL;
    double v;

    errno = 0;
    v     = ms_real_read(text, &end);
    if (end == text || *end != '\0' || isspace((unsigned char)text[0]))
        return wrong_number(
            e, o, text, strchr(text, ',') != NULL ? "one number (0.5, with a point)" : "a number");
    if (errno == ERANGE && (v == 0.0 || isinf(v))) /* subnormals pass */
        return out_of_range(e, o, text, "0, or from 4.9e-324 to 1.8e308 in size");
    if (!isfinite(v)) return wrong_number(e, o, text, "a finite number");
    *out = v;
    return MUSEC_OK;
}

static musec_status parse_choice(ms_error *e, const ms_option *o, const char *text,
                                 const char **out)
{
    if (ms_choice_index(o->meta, text) >= 0) {
        *out = text;
        return MUSEC_OK;
    }
    return ms_fail(e, MUSEC_EFORMAT, "--%s '%s' is none of %s%s", o->name, text, o->meta,
                   ms_name_hint_choices(text, o->meta).text);
}

static musec_status append(ms_error *e, const ms_option *o, const char *text, ms_option_list *list)
{
    if (list->n == MS_OPTION_LIST)
        return ms_fail(e, MUSEC_EFORMAT, "--%s is given more than %d times", o->name,
                       MS_OPTION_LIST);
    list->item[list->n++] = text;
    return MUSEC_OK;
}

static musec_status store(ms_error *e, const ms_option *o, const char *text, void *args)
{
    void *field = (char *)args + o->offset;

    switch (o->type) {
    case MS_OPT_FLAG: *(int *)field = 1; return MUSEC_OK;
    case MS_OPT_I64:
        return whole_status(e, o, text, ms_whole_i64(text, field),
                            "from -9223372036854775808 to 9223372036854775807");
    case MS_OPT_U64:
        return whole_status(e, o, text, ms_whole_u64(text, field),
                            "from 0 to 18446744073709551615");
    case MS_OPT_F64: return parse_f64(e, o, text, field);
    case MS_OPT_STR: *(const char **)field = text; return MUSEC_OK;
    case MS_OPT_CHOICE: return parse_choice(e, o, text, field);
    case MS_OPT_LIST: return append(e, o, text, field);
    }
    return MUSEC_EFORMAT;
}

/* ---- names ----------------------------------------------------------------------------------- */

const char *ms_option_pair(const char *item, char name[MS_OPTION_NAME])
{
    const size_t bytes = strcspn(item, "=");
    if (bytes == 0 || bytes >= MS_OPTION_NAME || item[bytes] == '\0') return NULL;
    memcpy(name, item, bytes);
    name[bytes] = '\0';
    return item + bytes + 1;
}

/* The name of the option that an unknown name is probably meant to be, or NULL. */
static const char *nearest_option(const ms_command *cmd, const char *name)
{
    const char *names[MAX_NAMES] = { HELP_NAME };
    size_t      n                = 1;
    for (size_t i = 0; i < cmd->n_options && n < MAX_NAMES; i++)
        names[n++] = cmd->options[i].name;
    return ms_name_nearest(name, names, n);
}

static musec_status unknown(ms_error *e, const ms_command *cmd, const char *arg)
{
    const int   bytes = (int)strcspn(arg, "="); /* with the hyphens, without a value */
    char        name[NAME_MAX_CH + 1];
    const char *meant = NULL;

    snprintf(name, sizeof name, "%.*s", bytes, arg);
    if (bytes <= NAME_MAX_CH) meant = nearest_option(cmd, name + strspn(name, "-"));
    if (meant == NULL)
        return ms_fail(e, MUSEC_EFORMAT, "unknown option %.*s (%s --help lists all)",
                       bytes < 200 ? bytes : 200, arg, cmd->name);
    return ms_fail(e, MUSEC_EFORMAT, "unknown option %s; did you mean --%s? (%s --help lists all)",
                   name, meant, cmd->name);
}

/* The option with a name of `n` bytes, or NULL. */
static const ms_option *find_option(const ms_command *cmd, const char *name, size_t n)
{
    for (size_t k = 0; k < cmd->n_options; k++)
        if (strlen(cmd->options[k].name) == n && memcmp(cmd->options[k].name, name, n) == 0)
            return &cmd->options[k];
    return NULL;
}

/* Finds an option by its name or by a synonym. */
static const ms_option *find_by_any_name(const ms_command *cmd, const char *name, size_t n)
{
    const ms_option *o = find_option(cmd, name, n);
    char             text[NAME_MAX_CH + 1];
    const char      *synonym;

    if (o != NULL || n > NAME_MAX_CH) return o;
    snprintf(text, sizeof text, "%.*s", (int)n, name);
    synonym = ms_name_synonym(text);
    return synonym == NULL ? NULL : find_option(cmd, synonym, strlen(synonym));
}

/* ---- parsing --------------------------------------------------------------------------------- */

static musec_status take_option(ms_error *e, const ms_command *cmd, void *args, int argc,
                                char **argv, int *i)
{
    const char      *arg   = argv[*i];
    const size_t     n     = strcspn(arg + 2, "=");
    const char      *value = arg[2 + n] == '=' ? arg + 2 + n + 1 : NULL;
    const ms_option *o     = find_by_any_name(cmd, arg + 2, n);

    if (o == NULL) return unknown(e, cmd, arg);
    if (o->type == MS_OPT_FLAG) {
        if (value != NULL) return ms_fail(e, MUSEC_EFORMAT, "--%s takes no value", o->name);
        value = "";
    } else if (value == NULL) {
        if (*i + 1 >= argc || strncmp(argv[*i + 1], "--", 2) == 0)
            return ms_fail(e, MUSEC_EFORMAT, "--%s needs a value: %s", o->name, o->meta);
        value = argv[++*i];
    }
    return store(e, o, value, args);
}

static musec_status check_operands(ms_error *e, const ms_command *cmd, int n, char **argv)
{
    const int max = cmd->max_operands;

    if (n == 0 && n < cmd->min_operands)
        return ms_fail(e, MUSEC_EFORMAT, "wants %s (%s --help says more)", cmd->operands,
                       cmd->name);
    if (n < cmd->min_operands)
        return ms_fail(e, MUSEC_EFORMAT, "wants %s, but got '%s' alone (%s --help says more)",
                       cmd->operands, argv[n], cmd->name);
    if (max < 0 || n <= max) return MUSEC_OK;
    if (max == 0 && cmd->instead != NULL)
        return ms_fail(e, MUSEC_EFORMAT,
                       "takes no operand, but got '%s'; did you mean %s%s? (%s --help says more)",
                       argv[1], cmd->instead, argv[1], cmd->name);
    if (max == 0)
        return ms_fail(e, MUSEC_EFORMAT, "takes no operand, but got '%s' (%s --help says more)",
                       argv[1], cmd->name);
    return ms_fail(e, MUSEC_EFORMAT, "wants only %s, but got '%s' too (%s --help says more)",
                   cmd->operands, argv[1 + max], cmd->name);
}

int ms_options_parse(const ms_command *cmd, void *args, int argc, char **argv)
{
    ms_error     e     = { "" };
    int          n     = 0; /* operands so far, now in argv[1..n] */
    bool         ended = false;
    musec_status st    = MUSEC_OK;

    for (int i = 1; i < argc; i++) {
        char *arg = argv[i];
        if (ended || arg[0] != '-' || arg[1] == '\0') {
            argv[1 + n++] = arg;
        } else if (strcmp(arg, "--") == 0) {
            ended = true;
        } else if (strcmp(arg, "-h") == 0 || strcmp(arg, "--" HELP_NAME) == 0) {
            ms_options_help(cmd, stdout);
            return MS_OPT_HELP;
        } else if (arg[1] != '-') {
            TRY(unknown(&e, cmd, arg));
        } else {
            TRY(take_option(&e, cmd, args, argc, argv, &i));
        }
    }
    TRY(check_operands(&e, cmd, n, argv));
done:
    if (st == MUSEC_OK) return n;
    fprintf(stderr, "%s: %s\n", cmd->name, e.text);
    return st == MUSEC_EINVAL ? MS_OPT_RANGE : MS_OPT_WRONG;
}

/* ---- help ------------------------------------------------------------------------------------ */

static size_t columns(const char *text, size_t bytes) /* a UTF-8 character is one column */
{
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++)
        n += ((unsigned char)text[i] & 0xC0) != 0x80;
    return n;
}

/* Prints words from column `at`, wrapped at WIDTH columns; further lines are indented. */
static void print_wrapped(FILE *to, const char *text, size_t at, size_t indent)
{
    bool first = true;
    for (text += strspn(text, " "); *text != '\0'; text += strspn(text, " ")) {
        const size_t bytes = strcspn(text, " ");
        const size_t n     = columns(text, bytes);
        if (!first && at + 1 + n > WIDTH) {
            fprintf(to, "\n%*s", (int)indent, "");
            at    = indent;
            first = true;
        }
        fprintf(to, "%s%.*s", first ? "" : " ", (int)bytes, text);
        at += n + !first;
        first = false;
        text += bytes;
    }
    fputc('\n', to);
}

static size_t label_columns(const ms_option *o) /* "  --name META" */
{
    const size_t meta = o->meta == NULL ? 0 : 1 + columns(o->meta, strlen(o->meta));
    return 4 + strlen(o->name) + meta;
}

/* Prints "  --name META"; of choices "a|b|c" those beyond WIDTH columns go to further lines. */
static void print_label(FILE *to, const ms_option *o)
{
    const size_t indent = 5 + strlen(o->name);
    size_t       at     = indent;
    fprintf(to, "  --%s%s", o->name, o->meta == NULL ? "" : " ");
    for (const char *meta = o->meta; meta != NULL && *meta != '\0';) {
        size_t bytes = strcspn(meta, "|");
        bytes += meta[bytes] == '|';
        const size_t n = columns(meta, bytes);
        if (at > indent && at + n > WIDTH) {
            fprintf(to, "\n%*s", (int)indent, "");
            at = indent;
        }
        fprintf(to, "%.*s", (int)bytes, meta);
        at += n;
        meta += bytes;
    }
}

/* Completes a row after its label of `label` columns. */
static void print_row(FILE *to, size_t label, size_t indent, const char *help)
{
    if (label + 2 > indent) {
        fputc('\n', to);
        label = 0;
    }
    fprintf(to, "%*s", (int)(indent - label), "");
    print_wrapped(to, help, indent, indent);
}

static void print_help_row(FILE *to, size_t indent)
{
    fputs("  " HELP_LABEL, to);
    print_row(to, 2 + strlen(HELP_LABEL), indent, HELP_TEXT);
}

/* The options below the titles of their groups; --help itself ends the first one. */
static void print_options(const ms_command *cmd, FILE *to, size_t indent)
{
    size_t group = 0;

    if (cmd->n_groups == 0) fputs("Options:\n", to);
    for (size_t i = 0; i < cmd->n_options; i++) {
        const ms_option *o = &cmd->options[i];
        if (group < cmd->n_groups && strcmp(cmd->groups[group].first, o->name) == 0) {
            if (group == 1) print_help_row(to, indent);
            fprintf(to, "%s%s:\n", group == 0 ? "" : "\n", cmd->groups[group].title);
            group++;
        }
        print_label(to, o);
        print_row(to, label_columns(o), indent, o->help);
    }
    if (group < 2) print_help_row(to, indent);
}

void ms_options_help(const ms_command *cmd, FILE *to)
{
    const bool has_operands = cmd->operands != NULL && cmd->operands[0] != '\0';
    size_t     indent       = 2 + strlen(HELP_LABEL);

    for (size_t i = 0; i < cmd->n_options; i++) {
        const size_t label = label_columns(&cmd->options[i]);
        if (label <= LABEL_WIDTH && label > indent) indent = label;
    }
    indent += 2;
    fprintf(to, "Usage: %s%s%s%s\n\n", cmd->name, cmd->n_options > 0 ? " [OPTION]..." : "",
            has_operands ? " " : "", has_operands ? cmd->operands : "");
    if (cmd->summary != NULL) {
        print_wrapped(to, cmd->summary, 0, 0);
        fputc('\n', to);
    }
    print_options(cmd, to, indent);
    if (cmd->details != NULL) {
        const size_t n = strlen(cmd->details);
        fprintf(to, "\n%s%s", cmd->details, n > 0 && cmd->details[n - 1] == '\n' ? "" : "\n");
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_text(FILE *to, const char *text)
{
    if (text == NULL) {
        fputs("null", to);
        return;
    }
    fputc('"', to);
    for (size_t n; *text != '\0'; text += n == 0 ? 1 : n) {
        n = ms_text_char(text);
        if (n == 0)
            fputs("\\ufffd", to); /* a file name may be any bytes, JSON may not */
        else if ((unsigned char)*text < 0x20)
            fprintf(to, "\\u%04x", (unsigned)*text);
        else
            fprintf(to, "%s%.*s", *text == '"' || *text == '\\' ? "\\" : "", (int)n, text);
    }
    fputc('"', to);
}

static void json_double(FILE *to, double v)
{
    char text[MS_REAL_TEXT];
    ms_real_text(v, text);
    fputs(isfinite(v) ? text : "null", to); /* JSON has no NaN and no infinity */
}

static void json_list(FILE *to, const ms_option_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        fputs(i == 0 ? "[" : ", ", to);
        json_text(to, list->item[i]);
    }
    fputs(list->n == 0 ? "[]" : "]", to);
}

void ms_options_json(const ms_command *cmd, const void *args, FILE *to)
{
    fputc('{', to);
    for (size_t i = 0; i < cmd->n_options; i++) {
        const ms_option *o     = &cmd->options[i];
        const void      *field = (const char *)args + o->offset;
        fputs(i == 0 ? "\"" : ", \"", to);
        for (const char *c = o->name; *c != '\0'; c++)
            fputc(*c == '-' ? '_' : *c, to);
        fputs("\": ", to);
        switch (o->type) {
        case MS_OPT_FLAG: fputs(*(const int *)field ? "true" : "false", to); break;
        case MS_OPT_I64: fprintf(to, "%lld", (long long)*(const int64_t *)field); break;
        case MS_OPT_U64: fprintf(to, "%llu", (unsigned long long)*(const uint64_t *)field); break;
        case MS_OPT_F64: json_double(to, *(const double *)field); break;
        case MS_OPT_STR:
        case MS_OPT_CHOICE: json_text(to, *(const char *const *)field); break;
        case MS_OPT_LIST: json_list(to, field); break;
        }
    }
    fputc('}', to);
}
