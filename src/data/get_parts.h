/* get_parts.h - what get.c and get_text.c share. */
#ifndef MS_DATA_GET_PARTS_H
#define MS_DATA_GET_PARTS_H

#include "data/get.h"

typedef struct ms_getting {
    const ms_get_config *cfg;
    ms_get_result       *out;
    json_t              *checksums; /* by name: bytes, sha256, url */
    ms_catalog_file      file;      /* the one at hand */
    ms_fetched           fetched;   /* and what came of it */
    bool                 first;     /* it came just now, and nothing was known of it before */
    int                  lock;      /* on DIR */
} ms_getting;

/* File `index` of a row, under its name in `dir`; g->file says what it is.  Its checksum is kept by
 * ms_get_keep, once the file has proved to be what it should be: what is learnt from a page of
 * excuses would refuse the file itself later on. */
musec_status ms_get_file(ms_error *e, ms_getting *g, const char *dir, size_t row, int64_t index,
                         char path[MS_PATH_MAX]);
musec_status ms_get_keep(ms_error *e, const ms_getting *g);
/* After a failure of format, whose words get an end: a first download that is `useless` is removed,
 * any other file stays. */
void ms_get_refuse(ms_error *e, const ms_getting *g, const char *path, bool useless);
/* All files of a set of texts: fetched, tokenized, removed. */
musec_status ms_get_text(ms_error *e, ms_getting *g);

/* A JSON file of DIR: an empty object where there is none; written whole or not at all. */
musec_status ms_get_load(ms_error *e, const char *dir, const char *name, json_t **out);
musec_status ms_get_save(ms_error *e, const char *dir, const char *name, const json_t *root);

#endif
