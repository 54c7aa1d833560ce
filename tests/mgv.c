/* mgv.c - see mgv.h. */
#define _XOPEN_SOURCE 700
#include "mgv.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#define MAGIC "MUSECGV1"

static uint64_t little_endian(const unsigned char *bytes, int n)
{
    uint64_t value = 0;
    for (int i = n - 1; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
}

static uint32_t read_u32(FILE *f, const char *path)
{
    unsigned char bytes[4];
    CHECK(fread(bytes, 1, sizeof bytes, f) == sizeof bytes, "%s ends too early", path);
    return (uint32_t)little_endian(bytes, 4);
}

static void read_record(FILE *f, const char *path, mgv_record *out)
{
    unsigned char bytes[8];

    CHECK(fread(out->name, 1, 32, f) == 32, "%s ends too early", path);
    out->rows = read_u32(f, path);
    out->cols = read_u32(f, path);
    CHECK(out->rows >= 1 && out->cols >= 1 && out->rows * out->cols <= 1 << 24,
          "%s: record %s is %d x %d", path, out->name, (int)out->rows, (int)out->cols);
    out->data = check_alloc((size_t)(out->rows * out->cols) * sizeof *out->data);
    for (int64_t i = 0; i < out->rows * out->cols; i++) {
        CHECK(fread(bytes, 1, sizeof bytes, f) == sizeof bytes, "%s ends too early", path);
        const uint64_t bits = little_endian(bytes, 8);
        memcpy(&out->data[i], &bits, sizeof bits);
    }
}

mgv_file mgv_load(const char *path)
{
    char     magic[sizeof MAGIC - 1];
    mgv_file out = { 0 };
    FILE    *f   = fopen(path, "rb");

    CHECK(f != NULL, "%s cannot be opened", path);
    const size_t n = fread(magic, 1, sizeof magic, f);
    CHECK(n == sizeof magic && memcmp(magic, MAGIC, sizeof magic) == 0, "%s is no .mgv file", path);
    out.n_records = read_u32(f, path);
    CHECK(read_u32(f, path) == 0 && out.n_records <= 10000, "%s has a damaged head", path);
    out.records = check_alloc((out.n_records + 1) * sizeof *out.records);
    for (size_t i = 0; i < out.n_records; i++)
        read_record(f, path, &out.records[i]);
    CHECK(fgetc(f) == EOF, "%s has bytes after its last record", path);
    fclose(f);
    return out;
}

const mgv_record *mgv_find(mgv_file *f, const char *name)
{
    for (size_t i = 0; i < f->n_records; i++) {
        if (strcmp(f->records[i].name, name) == 0) {
            f->records[i].used = true;
            return &f->records[i];
        }
    }
    check_failed(__FILE__, __LINE__, "mgv_find", "there is no record %s", name);
    abort(); /* not reached: a failed check leaves the test */
}

double mgv_scalar(mgv_file *f, const char *name)
{
    const mgv_record *r = mgv_find(f, name);
    CHECK(r->rows == 1 && r->cols == 1, "%s is no scalar", name);
    return r->data[0];
}

void mgv_free(mgv_file *f)
{
    for (size_t i = 0; i < f->n_records; i++)
        free(f->records[i].data);
    free(f->records);
    *f = (mgv_file){ 0 };
}

size_t mgv_count_files(const char *prefix)
{
    char           path[512];
    size_t         n = 0;
    struct dirent *entry;

    snprintf(path, sizeof path, "%s/golden", check_data_dir());
    DIR *dir = opendir(path);
    CHECK(dir != NULL, "%s cannot be read", path);
    while ((entry = readdir(dir)) != NULL)
        n += strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    closedir(dir);
    return n;
}
