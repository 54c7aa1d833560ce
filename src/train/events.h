/* events.h - TensorBoard's event file: a scalar series for each tag, a record for each step. */
#ifndef MS_TRAIN_EVENTS_H
#define MS_TRAIN_EVENTS_H

#include "train/append.h"

typedef struct ms_events {
    ms_append file;
} ms_events;

/* Opens an event file.  from_step 0 empties it.  Otherwise the records up to that step stay byte
 * for byte, and later ones are removed, as is one that a killed process left incomplete.  A missing
 * file is created; one that is damaged before that step is an error. */
musec_status ms_events_open(ms_error *e, const char *path, int64_t from_step, ms_events *out);

typedef struct ms_event { /* the scalars of a step, before they are written */
    int64_t       step;
    size_t        bytes;
    unsigned char summary[4096];
} ms_event;

void ms_event_begin(ms_event *ev, int64_t step);
/* Adds the scalar "tag", or "group/tag" with a group, as float32; NaN and infinities are kept. */
void         ms_event_add(ms_event *ev, const char *group, const char *tag, double value);
musec_status ms_events_write(ms_error *e, ms_events *events, const ms_event *ev);

#endif
