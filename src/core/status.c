/* status.c - names and texts of the status codes, the version, and messages of failure.
 *
 * All tables here are made from MUSEC_STATUS_MAP, so a new code is one line in the public header.
 * A message is always one printable line, whatever a path or a tensor's name may hold. */
#include "core/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"

#define TEXT_OF(x)  #x
#define VALUE_OF(x) TEXT_OF(x) /* one more expansion: the number, not the macro's name */

const char *musec_version(void)
{
    return VALUE_OF(MUSEC_VERSION_MAJOR) "." VALUE_OF(MUSEC_VERSION_MINOR) "." VALUE_OF(
        MUSEC_VERSION_PATCH);
}

const char *musec_status_name(musec_status status)
{
    switch (status) {
#define X(name, code, text) \
    case MUSEC_##name: return #name;
        MUSEC_STATUS_MAP(X)
#undef X
    }
    return "UNKNOWN"; /* a code from a newer library, or no code at all */
}

const char *musec_status_text(musec_status status)
{
    switch (status) {
#define X(name, code, text) \
    case MUSEC_##name: return text;
        MUSEC_STATUS_MAP(X)
#undef X
    }
    return "an unknown status code";
}

void ms_error_set(ms_error *error, const char *fmt, ...)
{
    static const char cut[] = "...";
    ms_error          line; /* apart: an argument may be error->text itself */
    va_list           args;
    int               n;

    if (error == NULL) return;
    va_start(args, fmt);
    n = vsnprintf(line.text, sizeof line.text, fmt, args);
    va_end(args);
    if (n < 0) line.text[0] = '\0';
    if (n >= (int)sizeof line.text)
        memcpy(line.text + sizeof line.text - sizeof cut, cut, sizeof cut);
    (void)ms_text_printable(line.text);
    *error = line;
}

void ms_error_copy(const ms_error *error, char *why, size_t bytes)
{
    if (why != NULL && bytes > 0) snprintf(why, bytes, "%s", error->text);
}
