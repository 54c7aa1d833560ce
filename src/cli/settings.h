/* settings.h - options that come from a table of the library.  They are passed on as text to the
 * parser of the library; here it is only checked whether a value can be read at all. */
#ifndef MS_CLI_SETTINGS_H
#define MS_CLI_SETTINGS_H

#include "cli/cli.h"

/* Row `index` of a table: its name (NULL after the last), its values and its help. */
typedef const char *(*ms_setting_at)(size_t index, const char **values, const char **help);

/* Options for every row, parsed into an array of const char * at `offset`; returns their number,
 * `capacity` at most. */
size_t ms_settings_options(ms_setting_at at, size_t offset, ms_option *out, size_t capacity);
/* Checks every value that was given (not NULL): EXIT_OK, or EXIT_USAGE after a message. */
int ms_settings_usage(const ms_command *cmd, const ms_option *options, const char *const *values,
                      size_t n);
/* Describes what `value` should have been if it cannot be read as `meta`, else NULL. */
const char *ms_settings_unreadable(const char *meta, const char *value);
/* "a,b" -> ["a", "b"]; MUSEC_EINVAL: a value is missing or no text that JSON can hold. */
musec_status ms_settings_list_of(ms_error *e, const char *text, json_t **out);
/* Reads a registry: writes its names as "a|b|c", and to `text` a line for each name, of which the
 * first `width` characters are the name's, between the texts before and after. */
void ms_settings_list(const char *(*name_at)(size_t index, const char **help), int width,
                      char *names, size_t names_bytes, const char *before, const char *after,
                      char *text, size_t bytes);

#endif
