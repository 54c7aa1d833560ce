/* inputs.h - the files that a list of paths stands for. */
#ifndef MS_DATA_INPUTS_H
#define MS_DATA_INPUTS_H

#include <stdbool.h>

#include "core/status.h"

typedef struct ms_input {
    char   *path;
    int64_t bytes;    /* -1: not known (a pipe) */
    int64_t mtime_ns; /* of its last change, since 1970; 0 with a pipe */
    bool    named;    /* like documents: .txt, .jsonl, .ndjson or .json, packed or not */
    bool    json;     /* it is called one of the last three */
} ms_input;

typedef struct ms_inputs { /* { 0 } is empty */
    ms_input *at;
    size_t    n, capacity;
} ms_inputs;

/* Lists files that are named, whatever their names, and all files below named directories that are
 * called .txt, .jsonl, .ndjson or .json, compressed or not, in the order of their names and without
 * hidden ones.  A directory that leads back to one above it is an error. */
musec_status ms_inputs_find(ms_error *e, const char *const *paths, size_t n, ms_inputs *out);
void         ms_inputs_free(ms_inputs *inputs);

#endif
