/* json_file.h - JSON values and files: read with words for what is wrong, written for people to
 * read, whole or absent. */
#ifndef MS_CORE_JSON_FILE_H
#define MS_CORE_JSON_FILE_H

#include <jansson.h>

#include "core/status.h"

/* The file's one object, in which no name stands twice; on failure *out is NULL. */
musec_status ms_json_read(ms_error *e, const char *path, json_t **out);
/* Indented, with a newline at the end.  NULL, and what cannot be written as text, is ENOMEM. */
musec_status ms_json_write(ms_error *e, const char *path, const json_t *value);

#endif
