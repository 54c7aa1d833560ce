/* memory_stream.h - a stream whose output becomes a text.
 *
 * open_memstream() of glibc says nothing when its text cannot grow: what is written then is lost,
 * and the next write may succeed.  This one remembers it: the text is whole, or there is none. */
#ifndef MS_CORE_MEMORY_STREAM_H
#define MS_CORE_MEMORY_STREAM_H

#include <stdbool.h>
#include <stdio.h>

typedef struct ms_memory_stream {
    FILE  *to; /* NULL: it is not open */
    char  *text;
    size_t bytes, capacity;
    bool   lost; /* something could not be kept */
} ms_memory_stream;

/* Opens it and returns the stream to write to; NULL without memory. */
FILE *ms_memory_open(ms_memory_stream *m);
/* Closes it and returns the text, of m->bytes bytes and a zero, which the caller frees; NULL if not
 * all of it could be kept, or if it is not open. */
char *ms_memory_close(ms_memory_stream *m);

#endif
