/* scratch.h - small files in the temporary directory of the test program. */
#ifndef MS_TESTS_SCRATCH_H
#define MS_TESTS_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

typedef struct blob { /* a small file */
    size_t        n;
    unsigned char p[1 << 18];
} blob;

void get_file(const char *path, blob *b);
void put_file(const char *path, const void *p, size_t n);
void put_text(const char *path, const char *text);

/* Makes a new empty directory and returns its path. */
const char *fresh_dir(void);
/* A path in `dir`, and in the temporary directory.  Neither has to be freed. */
const char *path_in(const char *dir, const char *name);
const char *tmp_path(const char *name);

#endif
