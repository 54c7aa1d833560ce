/* cache_test.c - entries of the cache are read back as they were saved, or not at all. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cache.h"
#include "core/file.h"
#include "scratch.h"

static bool holds(const char *name, const void *want, size_t bytes)
{
    void      *data = NULL;
    size_t     n    = 0;
    const bool is   = ms_cache_load(name, &data, &n) && n == bytes && memcmp(data, want, n) == 0;
    free(data);
    return is;
}

static bool is_empty(const char *name)
{
    void      *data = &data;
    size_t     n    = 1;
    const bool none = !ms_cache_load(name, &data, &n);
    return none && data == NULL && n == 0;
}

TEST(saved_entries_are_read_back)
{
    static const char bytes[] = "any\0bytes\xff at all";
    setenv("MUSEC_CACHE", path_in(fresh_dir(), "a/b"), 1);
    CHECK(is_empty("one"), "there is an entry before anything was saved");
    ms_cache_save("one", bytes, sizeof bytes);
    ms_cache_save("none", "", 0);
    CHECK(holds("one", bytes, sizeof bytes) && holds("none", "", 0), "it is not what was saved");
    ms_cache_save("one", "other", 5);
    CHECK(holds("one", "other", 5), "it is the old entry");
}

TEST(damaged_entries_are_not_found)
{
    const char *dir = fresh_dir(), *path = path_in(dir, "one");
    setenv("MUSEC_CACHE", dir, 1);
    for (long at = 0; at < 64 + 8; at++) {
        ms_cache_save("one", "12345678", 8);
        FILE     *f = fopen(path, "r+b");
        const int c = f == NULL || fseek(f, at, SEEK_SET) != 0 ? EOF : fgetc(f);
        CHECK(c != EOF && fseek(f, at, SEEK_SET) == 0 && fputc(c ^ 1, f) != EOF, "byte %ld", at);
        fclose(f);
        CHECK(is_empty("one"), "a change of byte %ld was not detected", at);
        CHECK(truncate(path, at) == 0 && is_empty("one"), "cut to %ld bytes", at);
    }
}

TEST(environment_says_where_the_cache_is)
{
    const char *dir = fresh_dir(), *path = path_in(dir, "musec/one");
    unsetenv("MUSEC_CACHE");
    setenv("XDG_CACHE_HOME", dir, 1);
    ms_cache_save("one", "x", 1);
    CHECK(access(path, R_OK) == 0, "%s is not there", path);
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", dir, 1);
    CHECK(is_empty("one"), "found elsewhere");
    ms_cache_save("one", "y", 1);
    path = path_in(dir, ".cache/musec/one");
    CHECK(access(path, R_OK) == 0 && holds("one", "y", 1), "%s is not there", path);
    for (int i = 0; i < 2; i++) {
        setenv("MUSEC_CACHE", i == 0 ? "off" : "", 1);
        CHECK(is_empty("one"), "read although it is off");
        ms_cache_save("two", "z", 1);
        unsetenv("MUSEC_CACHE");
        CHECK(is_empty("two"), "written although it is off");
    }
    setenv("MUSEC_CACHE", "/proc/no/such/place", 1); /* cannot be written: no error */
    ms_cache_save("one", "y", 1);
    CHECK(is_empty("one"), "found without a directory");
}

TEST(names_of_entries_are_plain_file_names)
{
    char name[MS_CACHE_NAME];
    ms_cache_name(name, "gemm %s %d.%d", "NVIDIA H200/../x", 13, 1);
    CHECK(strcmp(name, "gemm-NVIDIA-H200-..-x-13.1") == 0, "%s", name);
}
