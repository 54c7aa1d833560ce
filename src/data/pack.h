/* pack.h - bytes into an xz file: what unpack.h reads. */
#ifndef MS_DATA_PACK_H
#define MS_DATA_PACK_H

#include "core/status.h"

typedef struct ms_pack ms_pack;

/* Opens a file that is whole or absent (core/file.h); the same bytes give the same file. */
musec_status ms_pack_open(ms_error *e, const char *path, ms_pack **out);
musec_status ms_pack_write(ms_error *e, ms_pack *p, const void *bytes, size_t n);
musec_status ms_pack_commit(ms_error *e, ms_pack *p);
void         ms_pack_close(ms_pack *p); /* accepts NULL; what was not committed is not there */

#endif
