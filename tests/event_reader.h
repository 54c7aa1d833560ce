/* event_reader.h - a reader of TensorBoard's event files that shares no code with
 * src/train/events.c. */
#ifndef MS_TESTS_EVENT_READER_H
#define MS_TESTS_EVENT_READER_H

#include "scratch.h"

enum { EVENT_VALUES = 40 };

typedef struct scalars { /* of one event */
    double  wall;
    int64_t step;
    int     n;
    char    tag[EVENT_VALUES][32];
    float   value[EVENT_VALUES];
} scalars;

/* Reads all events but the first, which must be the version; returns how many.  Any mistake in the
 * file fails the running test. */
int  read_events(const char *path, scalars *out, int max);
void expect_scalar(const scalars *s, const char *tag, double want);

uint32_t crc32c(const unsigned char *p, size_t n);
size_t   last_event(const blob *b); /* where it begins */

#endif
