/* status.h - failures in words, and the one macro that may jump. */
#ifndef MS_CORE_STATUS_H
#define MS_CORE_STATUS_H

#include <musec/musec.h>

/* Where the lowest frame that knows the path or the shape writes what went wrong. */
typedef struct ms_error {
    char text[1024];
} ms_error;

#if defined(__GNUC__)
#define MS_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define MS_PRINTF(fmt, args)
#endif

/* Writes the message and returns `status`, so that a failure is one line: return ms_fail(...). */
musec_status ms_fail(ms_error *error, musec_status status, const char *fmt, ...) MS_PRINTF(3, 4);

/* st = call; on failure go to the function's one exit. */
#define TRY(call)                        \
    do {                                 \
        st = (call);                     \
        if (st != MUSEC_OK) goto done;   \
    } while (0)

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
