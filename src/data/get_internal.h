/* get_internal.h - the state of a call of ms_get, which get.c and get_text.c share. */
#ifndef MS_DATA_GET_INTERNAL_H
#define MS_DATA_GET_INTERNAL_H

#include "data/get.h"

typedef struct ms_get_state {
    const ms_get_config *cfg;
    ms_get_result       *out;
    json_t              *checksums; /* by name: bytes, sha256, url */
    ms_catalog_file      file;      /* the current one */
    ms_fetched           fetched;   /* and its download */
    bool                 first;     /* it is a first download: its checksum was not known before */
    int                  lock;      /* on DIR */
} ms_get_state;

/* Fetches file `index` of a row into `dir`, and describes it in g->file.  Its checksum is stored by
 * ms_get_keep, after the contents have been checked: the checksum of an error page that a server
 * sent instead would refuse the file itself later on. */
musec_status ms_get_file(ms_error *e, ms_get_state *g, const char *dir, size_t row, int64_t index,
                         char path[MS_PATH_MAX]);
musec_status ms_get_keep(ms_error *e, const ms_get_state *g);
/* Completes the message of a failure of format.  Removes a first download that is `useless`; any
 * other file stays. */
void ms_get_refuse(ms_error *e, const ms_get_state *g, const char *path, bool useless);
/* Fetches, tokenizes and removes all files of a set of texts. */
musec_status ms_get_text(ms_error *e, ms_get_state *g);

/* Read and write a JSON file of DIR.  A missing file is read as an empty object; a file is written
 * whole or not at all. */
musec_status ms_get_load(ms_error *e, const char *dir, const char *name, json_t **out);
musec_status ms_get_save(ms_error *e, const char *dir, const char *name, const json_t *root);

#endif
