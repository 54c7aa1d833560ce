/* device_list.h - the devices that share the runs of a sweep, from "cuda:0,cuda:1". */
#ifndef MS_EXPERIMENT_DEVICE_LIST_H
#define MS_EXPERIMENT_DEVICE_LIST_H

#include "core/status.h"

enum { MS_DEVICE_LIST = 64 };

typedef struct ms_device_list { /* { 0 } is empty */
    char       *text;
    const char *name[MS_DEVICE_LIST];
    size_t      n;
} ms_device_list;

/* Reads the list and opens each device once, so that a wrong one is reported before the runs.  A
 * NULL list is empty. */
musec_status ms_device_list_read(ms_error *e, const char *list, ms_device_list *out);
void         ms_device_list_free(ms_device_list *list);

#endif
