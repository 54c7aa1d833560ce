/* settings.h - options that come from a table of the library.  They are passed on as text to the
 * parser of the library; here it is only checked whether a value can be read at all. */
#ifndef MS_CLI_SETTINGS_H
#define MS_CLI_SETTINGS_H

#include "cli/cli.h"

/* Row `index` of a table: its name (NULL behind the last), its values and its help. */
typedef const char *(*ms_setting_at)(size_t index, const char **values, const char **help);

/* Options for every row, parsed into an array of const char * at `offset`; returns their number,
 * `capacity` at most. */
size_t ms_settings_options(ms_setting_at at, size_t offset, ms_option *out, size_t capacity);
/* Checks every value that was given (not NULL): EXIT_OK, or EXIT_USAGE after a message. */
int ms_settings_usage(const ms_command *cmd, const ms_option *options, const char *const *values,
                      size_t n);
/* Describes what `value` should have been if it cannot be read as `meta`, else NULL. */
const char *ms_settings_unreadable(const char *meta, const char *value);
/* Writes the names of the optimizers as "a|b|c", and a line of help for each. */
void ms_settings_optimizers(char *names, size_t names_bytes, char *lines, size_t lines_bytes);

#endif
