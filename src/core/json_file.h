/* json_file.h - a JSON value as a file for people to read: whole or absent. */
#ifndef MS_CORE_JSON_FILE_H
#define MS_CORE_JSON_FILE_H

#include <jansson.h>

#include "core/status.h"

/* Indented, with a newline at the end.  NULL, and what cannot be written as text, is ENOMEM. */
musec_status ms_json_write(ms_error *e, const char *path, const json_t *value);

#endif
