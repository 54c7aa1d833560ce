/* catalog_test.c - the built-in list of data sets, and ranges in names of files. */
#include "check.h"

#include <string.h>

#include "data/catalog.h"
#include "scratch.h"

static ms_catalog      catalog;
static ms_catalog_file file;
static ms_error        error;

static int load(void **state)
{
    (void)state;
    return ms_catalog_load(&error, NULL, &catalog) == MUSEC_OK ? 0 : -1;
}

static int unload(void **state)
{
    (void)state;
    ms_catalog_free(&catalog);
    return 0;
}

static const ms_catalog_set *find(const char *name)
{
    const ms_catalog_set *set = NULL;
    CHECK_OK_ERR(&error, ms_catalog_find(&error, &catalog, name, &set));
    return set;
}

TEST(built_in_list_has_every_set_and_file)
{
    static const struct {
        const char     *name;
        ms_catalog_kind kind;
        int64_t         files, val;
    } want[] = {
        { "gpt2-vocab", MS_KIND_VOCAB, 2, 0 },
        { "fineweb", MS_KIND_SHARDS, 104, 1 },
        { "openwebtext", MS_KIND_PARQUET, 80, 1 },
        { "c4", MS_KIND_JSONL, 1025, 1 },
    };
    CHECK(catalog.n == COUNT(want), "%zu sets", catalog.n);
    for (size_t i = 0; i < COUNT(want); i++) {
        const ms_catalog_set *set   = find(want[i].name);
        int64_t               files = 0, val = 0;
        for (size_t r = 0; r < set->n_rows; r++) {
            files += set->rows[r].n;
            val += set->rows[r].val ? set->rows[r].n : 0;
            for (int64_t k = 0; k < set->rows[r].n; k++) {
                CHECK_OK_ERR(&error, ms_catalog_expand(&error, set, r, k, NULL, 0, &file));
                CHECK(strpbrk(file.name, "{}") == NULL, "%s", file.name);
                for (size_t u = 0; u < file.n_urls; u++)
                    CHECK(strncmp(file.urls[u], "https://", 8) == 0, "%s", file.urls[u]);
            }
        }
        CHECK(set->kind == want[i].kind && files == want[i].files && val == want[i].val,
              "%s: %lld files, %lld of them for validation", set->name, (long long)files,
              (long long)val);
        CHECK(set->about[0] != '\0' && set->licence[0] != '\0', "%s says too little", set->name);
    }
}

TEST(ranges_expand_to_names_and_addresses)
{
    const ms_catalog_set *set = find("openwebtext");
    CHECK_OK_ERR(&error, ms_catalog_expand(&error, set, 1, 78, NULL, 0, &file));
    CHECK(strcmp(file.name, "train-00078-of-00080.parquet") == 0, "%s", file.name);
    CHECK(file.n_urls == 2 && strstr(file.urls[0], "/train-00078-of-00080.parquet") != NULL &&
              strstr(file.urls[1], "/train/0078.parquet") != NULL,
          "%s", file.urls[1]);
    CHECK(file.bytes == -1 && file.sha256 == NULL, "a checksum that the list does not have");
}

TEST(known_files_have_checksums)
{
    const ms_catalog_set *set = find("fineweb");
    CHECK_OK_ERR(&error, ms_catalog_expand(&error, set, 1, 0, NULL, 0, &file));
    CHECK(strcmp(file.name, "train_000001.bin") == 0 && file.bytes == 200001024 &&
              strncmp(file.sha256, "771fa4a9", 8) == 0,
          "%s", file.name);
}

TEST(mirrors_come_first)
{
    static const char *const mirrors[] = { "https://mirror.example/hf/", "http://10.0.0.1:8080" };
    static const char *const refused[] = { "https://", "http:///x", "mirror.example", "" };
    static const char        path[]    = "/datasets/kjj0/fineweb10B-gpt2/resolve/main/"
                                         "fineweb_val_000000.bin";
    const ms_catalog_set    *set       = find("fineweb");
    char                     want[3][256];

    CHECK_OK_ERR(&error, ms_catalog_expand(&error, set, 0, 0, mirrors, 2, &file));
    snprintf(want[0], sizeof want[0], "https://mirror.example/hf%s", path);
    snprintf(want[1], sizeof want[1], "http://10.0.0.1:8080%s", path);
    snprintf(want[2], sizeof want[2], "https://huggingface.co%s", path);
    for (size_t i = 0; i < 3; i++)
        CHECK(strcmp(file.urls[i], want[i]) == 0, "%s", file.urls[i]);
    CHECK(file.n_urls == 3, "%zu addresses", file.n_urls);
    for (size_t i = 0; i < COUNT(refused); i++)
        CHECK(ms_catalog_expand(&error, set, 0, 0, &refused[i], 1, &file) == MUSEC_EINVAL, "'%s'",
              refused[i]);
}

TEST(malformed_ranges_are_refused)
{
    static const char *const names[] = { "f{1..}",   "f{..2}",  "f{2..1}", "f{1..2",
                                         "f1..2}",   "f{a..b}", "f{}",     "f{1..2}{1..2}",
                                         "f{1..20}", ".f",      "a/f",     "" };
    const char              *path    = path_in(fresh_dir(), "s.json");
    char                     text[512];
    ms_catalog               other;

    for (size_t i = 0; i < COUNT(names); i++) {
        const int n = snprintf(text, sizeof text,
                               "{\"sets\": [{\"name\": \"a\", \"kind\": \"vocab\", \"files\": "
                               "[{\"name\": \"%s\", \"urls\": [\"http://x/%s\"]}]}]}",
                               names[i], names[i]);
        put_file(path, text, (size_t)n);
        CHECK(ms_catalog_load(&error, path, &other) == MUSEC_EFORMAT, "'%s' was taken", names[i]);
        CHECK(strstr(error.text, path) != NULL, "%s", error.text);
    }
}

TEST_GROUP(load, unload)
