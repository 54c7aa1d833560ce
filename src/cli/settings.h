/* settings.h - options that come from a table of the library.  They are handed on as text, so that
 * the library's own parser judges them; here it is only seen whether they can be read at all. */
#ifndef MS_CLI_SETTINGS_H
#define MS_CLI_SETTINGS_H

#include "cli/cli.h"

/* Row `index` of a table: its name (NULL behind the last), what to write and what it means. */
typedef const char *(*ms_setting_at)(size_t index, const char **values, const char **help);

/* Options for every row, parsed into an array of const char * at `offset`; returns their number,
 * `room` at most. */
size_t ms_settings_options(ms_setting_at at, size_t offset, ms_option *out, size_t room);
/* Is every value that was given (not NULL) of its kind?  EXIT_OK, or EXIT_USAGE and it said why. */
int ms_settings_usage(const ms_command *cmd, const ms_option *options, const char *const *values,
                      size_t n);
/* What a value should have been that cannot be read as what the table calls `meta`, or NULL. */
const char *ms_settings_unreadable(const char *meta, const char *value);
/* The optimizers: "a|b|c", and a line for each with its words. */
void ms_settings_optimizers(char *names, size_t names_bytes, char *words, size_t words_bytes);

#endif
