/* manual.h - writes the manual page of the program, docs/musec.1.in with its lists filled in. */
#ifndef MS_CLI_MANUAL_H
#define MS_CLI_MANUAL_H

#include "cli/cli.h"

musec_status ms_manual_write(ms_error *e, const char *path, FILE *to);

#endif
