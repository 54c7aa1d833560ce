/* stdin_text.h - all of stdin in memory, for commands whose input is one text. */
#ifndef MS_CLI_STDIN_TEXT_H
#define MS_CLI_STDIN_TEXT_H

#include "core/status.h"

#define MS_STDIN_MAX ((size_t)1 << 30)

/* *text is malloc'ed, with a NUL behind it; more than MS_STDIN_MAX bytes are a failure. */
musec_status ms_stdin_read(ms_error *e, char **text, size_t *bytes);

#endif
