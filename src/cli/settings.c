/* settings.c - options that come from a table of the library. */
#include "cli/settings.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/json_file.h"
#include "core/real.h"
#include "core/text.h"
#include "core/whole.h"

/* Whether the values are a list of words, "a|b-c"; names in capitals stand for others. */
static int is_choice(const char *values)
{
    for (const char *c = values; *c != '\0'; c++)
        if (!islower((unsigned char)*c) && !isdigit((unsigned char)*c) && strchr("-|", *c) == NULL)
            return 0;
    return strchr(values, '|') != NULL;
}

size_t ms_settings_options(ms_setting_at at, size_t offset, ms_option *out, size_t capacity)
{
    const char *name = NULL, *values = NULL, *help = NULL;
    size_t      n = 0;
    for (; (name = at(n, &values, &help)) != NULL; n++) {
        assert(n < capacity);
        out[n] = (ms_option){ .name   = name,
                              .type   = is_choice(values) ? MS_OPT_CHOICE : MS_OPT_STR,
                              .offset = offset + n * sizeof(const char *),
                              .meta   = values,
                              .help   = help };
    }
    return n;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static int is_number(const char *text, size_t bytes)
{
    const char first = text[text[0] == '-' || text[0] == '+']; /* a letter: "nan", "inf" */
    char      *end   = NULL;
    (void)ms_real_read(text,
                       &end); /* 1e999 can be read; the library reports that it is too large */
    return bytes > 0 && end == text + bytes && (isdigit((unsigned char)first) || first == '.');
}

static int is_whole(const char *text) /* the library checks the range */
{
    uint64_t unused;
    return ms_whole_u64(text, &unused) != MS_WHOLE_NONE;
}

/* Whether the text is a list such as "0.5", "rms:0.5" or "qk=1,mlp=2". */
static int is_list(const char *text)
{
    for (;; text++) {
        const size_t bytes = strcspn(text, ","), name = strcspn(text, ":=,");
        const size_t skip = name < bytes ? name + 1 : 0;
        if (!is_number(text + skip, bytes - skip)) return 0;
        text += bytes;
        if (*text == '\0') return 1;
    }
}

const char *ms_settings_unreadable(const char *meta, const char *value)
{
    static const char *const whole[] = { "N", "K", "T", "BYTES" };
    if (is_choice(meta)) return NULL; /* the parser of the choices reports it */
    if (strchr(meta, '|') != NULL) return is_list(value) ? NULL : meta;
    if (strcmp(meta, "X") == 0 && !is_number(value, strlen(value)))
        return strchr(value, ',') != NULL ? "one number (0.5, with a point)" : "a number";
    for (size_t i = 0; i < COUNT(whole); i++)
        if (strcmp(meta, whole[i]) == 0) return is_whole(value) ? NULL : "a whole number";
    return NULL;
}

int ms_settings_usage(const ms_command *cmd, const ms_option *options, const char *const *values,
                      size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *want =
            values[i] == NULL ? NULL : ms_settings_unreadable(options[i].meta, values[i]);
        if (want != NULL)
            return ms_cli_usage(cmd, "--%s wants %s, not '%s'", options[i].name, want, values[i]);
    }
    return EXIT_OK;
}

void ms_settings_list(const char *(*name_at)(size_t index, const char **help), int width,
                      char *names, size_t names_bytes, const char *before, const char *after,
                      char *text, size_t bytes)
{
    const char *name = NULL, *help = NULL;
    size_t      n = 0, w = (size_t)snprintf(text, bytes, "%s", before);

    for (size_t i = 0; (name = name_at(i, &help)) != NULL; i++) {
        if (n < names_bytes)
            n += (size_t)snprintf(names + n, names_bytes - n, "%s%s", i == 0 ? "" : "|", name);
        if (w < bytes) w += (size_t)snprintf(text + w, bytes - w, "  %-*s%s\n", width, name, help);
    }
    if (w < bytes) snprintf(text + w, bytes - w, "%s", after);
}

musec_status ms_settings_list_of(ms_error *e, const char *text, json_t **out)
{
    const char *between = strchr(text, ';') != NULL ? ";" : strchr(text, '=') != NULL ? "" : ",";
    json_t     *list    = json_array();

    *out = NULL;
    for (;; text++) {
        const size_t bytes = strcspn(text, between);
        size_t       first = 0, end = bytes;
        while (first < end && isspace((unsigned char)text[first]))
            first++;
        while (end > first && isspace((unsigned char)text[end - 1]))
            end--;
        if (first == end || !ms_text_is_utf8(text)) {
            json_decref(list);
            return ms_fail(e, MUSEC_EINVAL, "a value is missing, or not in UTF-8");
        }
        ms_json_append(&list, json_stringn(text + first, end - first));
        text += bytes;
        if (*text == '\0') break;
    }
    *out = list;
    return list != NULL ? MUSEC_OK : ms_no_memory(e, "a list");
}
