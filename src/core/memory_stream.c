/* memory_stream.c - see memory_stream.h. */
#define _GNU_SOURCE /* fopencookie */
#include "core/memory_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "core/size.h"

enum { MIN_CAPACITY = 256 };

/* Appends the bytes and a zero. */
static ssize_t append(void *arg, const char *bytes, size_t n)
{
    ms_memory_stream *m      = arg;
    size_t            needed = 0, larger = 0;
    char             *more;

    if (!ms_size_add(m->bytes, n, &needed) || !ms_size_add(needed, 1, &needed)) m->lost = true;
    if (!m->lost && needed > m->capacity) {
        if (!ms_size_mul(m->capacity, 2, &larger) || larger < needed) larger = needed;
        if (larger < MIN_CAPACITY) larger = MIN_CAPACITY;
        more = realloc(m->text, larger);
        if (more == NULL) {
            m->lost = true;
        } else {
            m->text     = more;
            m->capacity = larger;
        }
    }
    if (m->lost) {
        errno = ENOMEM;
        return 0; /* an error of the stream */
    }
    if (n > 0) memcpy(m->text + m->bytes, bytes, n);
    m->bytes += n;
    m->text[m->bytes] = '\0';
    return (ssize_t)n;
}

FILE *ms_memory_open(ms_memory_stream *m)
{
    static const cookie_io_functions_t functions = { .write = append };

    *m = (ms_memory_stream){ 0 };
    if (append(m, "", 0) == 0 && !m->lost) m->to = fopencookie(m, "w", functions);
    if (m->to == NULL) {
        free(m->text);
        m->text = NULL;
    }
    return m->to;
}

char *ms_memory_close(ms_memory_stream *m)
{
    char *text;

    if (m->to == NULL) return NULL;
    if (fclose(m->to) != 0) m->lost = true;
    text    = m->text; /* the last bytes may have moved it */
    m->to   = NULL;
    m->text = NULL;
    if (!m->lost) return text;
    free(text);
    return NULL;
}
