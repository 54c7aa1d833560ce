/* stdin_text.c - see stdin_text.h. */
#include "cli/stdin_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

musec_status ms_stdin_read(ms_error *e, char **text, size_t *bytes)
{
    size_t capacity = (size_t)1 << 16, n = 0;
    char  *all = malloc(capacity);

    *text  = NULL;
    *bytes = 0;
    while (all != NULL) {
        n += fread(all + n, 1, capacity - n, stdin);
        if (n < capacity || n > MS_STDIN_MAX) break;
        capacity *= 2;
        char *more = realloc(all, capacity);
        if (more == NULL) free(all);
        all = more;
    }
    if (all == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory for what stdin has");
    if (ferror(stdin)) {
        free(all);
        return ms_fail(e, MUSEC_EIO, "stdin cannot be read (%s)", strerror(errno));
    }
    if (n > MS_STDIN_MAX) {
        free(all);
        return ms_fail(e, MUSEC_EINVAL,
                       "stdin has more than 1 GiB; give it in pieces, or use musec tokenize");
    }
    all[n] = '\0'; /* n < capacity */
    *text  = all;
    *bytes = n;
    return MUSEC_OK;
}
