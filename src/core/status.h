/* status.h - error messages, and the one macro that may jump. */
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

#ifdef __cplusplus /* CUDA files are */
extern "C" {
#endif

void ms_error_set(ms_error *error, const char *fmt, ...) MS_PRINTF(2, 3);
/* Copies the text to the caller of the library; `why` may be NULL. */
void ms_error_copy(const ms_error *error, char *why, size_t bytes);

#ifdef __cplusplus
}
#endif

static inline musec_status ms_status_itself(musec_status status) { return status; }

/* Writes the message and is `status`, so that a failure is one line: return ms_fail(...).  A macro,
 * so that whoever reads the caller alone, a checker of null pointers for one, sees which status it
 * is. */
#define ms_fail(error, status, ...) (ms_error_set(error, __VA_ARGS__), ms_status_itself(status))

/* The failure of an allocation; `what` is a string literal that names what the memory was for. */
#define ms_no_memory(error, what) ms_fail(error, MUSEC_ENOMEM, "not enough memory for " what)

/* st = call; on failure go to the function's one exit. */
#define TRY(call)                      \
    do {                               \
        st = (call);                   \
        if (st != MUSEC_OK) goto done; \
    } while (0)

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
