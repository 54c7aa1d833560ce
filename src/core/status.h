/* status.h - error messages, and the one macro that may jump. */
#ifndef MS_CORE_STATUS_H
#define MS_CORE_STATUS_H

#include <musec/musec.h>

/* The message of a failure, written by the lowest frame that knows the path or the shape. */
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

/* Writes the message and evaluates to `status`, so that a failure is one statement: return
 * ms_fail(...) or TRY(ms_fail(...)).  It is a macro so that static analysis of the caller sees the
 * status. */
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
