/* catalog.h - which data sets there are and where: data/sources.json, which the program carries a
 * copy of, or a file like it.  docs/data.md describes the fields.
 *
 * A name and an address may hold one range, "train_{000001..000103}.bin": such a row stands for
 * several files, the third of the name having the third of each address. */
#ifndef MS_DATA_CATALOG_H
#define MS_DATA_CATALOG_H

#include <jansson.h>
#include <stdbool.h>

#include "core/file.h"

enum { MS_CATALOG_URLS = 16, MS_CATALOG_URL = 2048, MS_CATALOG_NAME = 256 };

typedef enum ms_catalog_kind {
    MS_KIND_VOCAB,   /* files as they are */
    MS_KIND_SHARDS,  /* ready token shards */
    MS_KIND_JSONL,   /* lines of JSON, packed or not, to be tokenized */
    MS_KIND_PARQUET, /* columns, to be made JSON lines first */
} ms_catalog_kind;

typedef struct ms_catalog_row {
    const char   *name; /* with its range */
    const json_t *urls;
    bool          val;          /* else training, or neither */
    int64_t       limit_tokens; /* of it; 0: all */
    int64_t       n;            /* files that it stands for */
} ms_catalog_row;

typedef struct ms_catalog_set {
    const char     *name, *about, *licence, *field;
    ms_catalog_kind kind;
    bool            tried; /* its first files were fetched with this program */
    ms_catalog_row *rows;
    size_t          n_rows;
    const json_t   *known; /* NULL, or by name: bytes, sha256 */
} ms_catalog_set;

typedef struct ms_catalog {
    json_t         *root; /* all texts are of it */
    ms_catalog_set *sets;
    size_t          n;
} ms_catalog;

/* Loads a catalog; a NULL path is the program's own. */
musec_status ms_catalog_load(ms_error *e, const char *path, ms_catalog *out);
void         ms_catalog_free(ms_catalog *c);
/* Finds a set by its name; the message of a failure lists the names there are. */
musec_status ms_catalog_find(ms_error *e, const ms_catalog *c, const char *name,
                             const ms_catalog_set **out);

typedef struct ms_catalog_file { /* one file of a row */
    char        name[MS_CATALOG_NAME];
    char        urls[MS_CATALOG_URLS][MS_CATALOG_URL];
    size_t      n_urls;
    int64_t     bytes;  /* -1: not known */
    const char *sha256; /* NULL: not known */
} ms_catalog_file;

/* A mirror has the files of all servers under their paths: MIRROR/path instead of
 * https://server/path.  Mirrors come before the addresses of the list. */
musec_status ms_catalog_expand(ms_error *e, const ms_catalog_set *set, size_t row, int64_t index,
                               const char *const *mirrors, size_t n_mirrors, ms_catalog_file *out);

const char *ms_catalog_kind_name(ms_catalog_kind kind);

#endif
