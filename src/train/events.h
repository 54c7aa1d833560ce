/* events.h - TensorBoard's event file: a curve for each tag, a record for each step. */
#ifndef MS_TRAIN_EVENTS_H
#define MS_TRAIN_EVENTS_H

#include "train/append.h"

typedef struct ms_events {
    ms_append file;
} ms_events;

/* from_step 0 begins the file anew.  Otherwise its records up to that step stay byte for byte and
 * the later ones are cut off, as is a record that a killed process left half written; a file that
 * is not there begins anew, and one that is damaged before that step is an error. */
musec_status ms_events_open(ms_error *e, const char *path, int64_t from_step, ms_events *out);

typedef struct ms_event { /* the scalars of a step, put together before they are written */
    int64_t       step;
    size_t        bytes;
    unsigned char summary[4096];
} ms_event;

void ms_event_begin(ms_event *ev, int64_t step);
/* "tag", or "group/tag" if there is a group.  Kept as float32; NaN and infinities as they are. */
void         ms_event_add(ms_event *ev, const char *group, const char *tag, double value);
musec_status ms_events_write(ms_error *e, ms_events *events, const ms_event *ev);

#endif
