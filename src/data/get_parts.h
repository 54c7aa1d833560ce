/* get_parts.h - what get.c and get_text.c share. */
#ifndef MS_DATA_GET_PARTS_H
#define MS_DATA_GET_PARTS_H

#include "data/get.h"

typedef struct ms_getting {
    const ms_get_config *cfg;
    ms_get_result       *out;
    json_t              *checksums; /* by name: bytes, sha256, url */
    ms_catalog_file      file;      /* the one at hand */
} ms_getting;

/* File `index` of a row, under its name in `dir`; g->file says what it is. */
musec_status ms_get_file(ms_error *e, ms_getting *g, const char *dir, size_t row, int64_t index,
                         char path[MS_PATH_MAX]);
/* All files of a set of texts: fetched, tokenized, removed. */
musec_status ms_get_text(ms_error *e, ms_getting *g);

/* A JSON file of DIR: an empty object where there is none; written whole or not at all. */
musec_status ms_get_load(ms_error *e, const char *dir, const char *name, json_t **out);
musec_status ms_get_save(ms_error *e, const char *dir, const char *name, const json_t *root);

#endif
