/* catalog_fuzz.c - any bytes as a list of data sets (data/sources.json), or as the manifest of
 * shards.
 *
 *     byte 0   c  a list of data sets
 *              m  a manifest
 *
 * The addresses of every file of a list can be made, and a manifest that is read, written and read
 * again says the same. */
#include <string.h>

#include "data/catalog.h"
#include "data/manifest.h"
#include "fuzz.h"

enum { FILES = 4 }; /* of a row, from its beginning: a range may have billions */

static void run_catalog(const uint8_t *data, size_t size)
{
    static ms_catalog_file file; /* the addresses make it large */
    const char            *path    = fuzz_file("sources.json", data, size);
    ms_catalog             catalog = { 0 };
    ms_error               e       = { "" };

    if (!fuzz_ok(ms_catalog_load(&e, path, &catalog), &e)) return;
    for (size_t s = 0; s < catalog.n; s++)
        for (size_t r = 0; r < catalog.sets[s].n_rows; r++)
            for (int64_t i = 0; i < catalog.sets[s].rows[r].n && i < FILES; i++) {
                if (!fuzz_ok(ms_catalog_expand(&e, &catalog.sets[s], r, i, NULL, 0, &file), &e))
                    continue;
                REQUIRE(file.n_urls > 0 && strchr(file.name, '/') == NULL);
            }
    ms_catalog_free(&catalog);
}

static void run_manifest(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file("manifest.json", data, size);
    ms_manifest m = { 0 }, again = { 0 };
    ms_error    e = { "" };

    if (!fuzz_ok(ms_manifest_read(&e, path, &m), &e)) return;
    REQUIRE(fuzz_ok(ms_manifest_write(&e, path, &m), &e));
    REQUIRE(fuzz_ok(ms_manifest_read(&e, path, &again), &e));
    REQUIRE(m.n == again.n && m.complete == again.complete);
    REQUIRE(ms_manifest_same(&e, path, &m, &again) == MUSEC_OK);
    ms_manifest_free(&m);
    ms_manifest_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const unsigned what = fuzz_take(&data, &size);
    if (what == 'c') run_catalog(data, size);
    if (what == 'm') run_manifest(data, size);
    return 0;
}
