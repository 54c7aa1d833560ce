/* npy.h - NumPy .npy files: versions 1 and 2 (3 on reading), little-endian f4 and f8.
 *
 * C order is written; Fortran order is accepted on reading and transposed.  Every size is checked
 * against the file before anything is allocated. */
#ifndef MS_CORE_NPY_H
#define MS_CORE_NPY_H

#include "core/file.h"

#define MS_NPY_DIMS 8

typedef struct ms_npy { /* { 0 } is empty */
    void       *data;   /* row major, malloc'ed */
    musec_dtype dtype;
    int         ndim;
    int64_t     shape[MS_NPY_DIMS];
} ms_npy;

musec_status ms_npy_read(ms_error *e, const char *path, ms_npy *out);
musec_status ms_npy_write(ms_error *e, const char *path, const ms_npy *in); /* whole or absent */
/* Writes into a file that the caller opened and commits, for several that belong together. */
musec_status ms_npy_write_to(ms_error *e, ms_out_file *out, const ms_npy *in);
void         ms_npy_free(ms_npy *npy);

#endif
