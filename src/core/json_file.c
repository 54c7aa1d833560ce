/* json_file.c - JSON values and files. */
#include "core/json_file.h"

#include <stdlib.h>
#include <string.h>

#include "core/file.h"

musec_status ms_json_read(ms_error *e, const char *path, json_t **out)
{
    json_error_t where;
    json_t      *json = NULL;
    FILE        *f    = NULL;
    musec_status st;

    *out = NULL;
    TRY(ms_file_open_read(e, path, &f));
    json = json_loadf(f, JSON_REJECT_DUPLICATES, &where);
    if (json_is_object(json)) {
        *out = json;
    } else {
        st = ms_fail(e, MUSEC_EFORMAT, "%s:%d: %s", path, json == NULL ? where.line : 1,
                     json == NULL ? where.text : "not a JSON object");
        json_decref(json);
    }
done:
    if (f != NULL) fclose(f);
    return st;
}

musec_status ms_json_write(ms_error *e, const char *path, const json_t *value)
{
    char        *text = value == NULL ? NULL : json_dumps(value, JSON_INDENT(2));
    ms_out_file  out  = { 0 };
    musec_status st;

    if (text == NULL) return ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory", path);
    TRY(ms_out_open(e, path, &out));
    TRY(ms_out_write(e, &out, text, strlen(text)));
    TRY(ms_out_write(e, &out, "\n", 1));
    TRY(ms_out_commit(e, &out));
done:
    ms_out_abandon(&out);
    free(text);
    return st;
}
