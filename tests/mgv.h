/* mgv.h - reader of .mgv files, the container of the golden vectors.
 *
 * Little endian: the magic "MUSECGV1", uint32 number of records, uint32 0; then for each record 32
 * bytes of name (ASCII, NUL padded), uint32 rows, uint32 cols, and rows * cols float64, row major.
 * Scalars are 1x1 records.  data/golden/README.md describes the contents of the files.
 *
 * A record notes whether it was looked up, so that a test can check that it used every record. */
#ifndef MS_TESTS_MGV_H
#define MS_TESTS_MGV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mgv_record {
    char    name[33];
    int64_t rows, cols;
    double *data; /* (rows, cols) */
    bool    used;
} mgv_record;

typedef struct mgv_file { /* { 0 } is empty */
    mgv_record *records;
    size_t      n_records;
} mgv_file;

/* Each fails the running test with a message if the file or the record is invalid or missing. */
mgv_file          mgv_load(const char *path);
const mgv_record *mgv_find(mgv_file *f, const char *name);
double            mgv_scalar(mgv_file *f, const char *name); /* of a 1x1 record */
void              mgv_free(mgv_file *f);
/* How many golden files have a name that begins with `prefix`. */
size_t mgv_count_files(const char *prefix);

#endif
