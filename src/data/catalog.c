/* catalog.c - sources.json read, checked and expanded to single files.
 *
 * Everything is checked on loading, so that a mistake in the list is reported before the first byte
 * is fetched. */
#include "data/catalog.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/embedded.h"
#include "core/json_file.h"
#include "core/names.h"
#include "core/text.h"

#define OWN_NAME "data/sources.json"

enum { MAX_FILES = 1000000, MAX_DIGITS = 9, MAX_LIST = 1 << 24 };

static const char *const kinds[] = { "vocab", "shards", "jsonl", "parquet" };

const char *ms_catalog_kind_name(ms_catalog_kind kind) { return kinds[kind]; }

/* ---- ranges ---------------------------------------------------------------------------------- */

typedef struct name_range { /* "{000001..000103}" in a text */
    const char *begin, *end;
    int         digits;
    int64_t     first, n;
} name_range;

/* Finds the range in braces, or n = 1 without braces; false if the braces hold no range. */
static bool find_range(const char *text, name_range *out)
{
    int64_t     last = 0;
    const char *at   = strchr(text, '{');

    *out = (name_range){ .n = 1 };
    if (at == NULL) return strchr(text, '}') == NULL;
    out->begin = at++;
    for (; isdigit((unsigned char)*at) && out->digits < MAX_DIGITS; at++, out->digits++)
        out->first = 10 * out->first + (*at - '0');
    if (out->digits == 0 || strncmp(at, "..", 2) != 0) return false;
    at += 2;
    for (int i = 0; i < out->digits; i++, at++) {
        if (!isdigit((unsigned char)*at)) return false;
        last = 10 * last + (*at - '0');
    }
    out->end = at + 1;
    out->n   = last - out->first + 1;
    return *at == '}' && out->n >= 1 && out->n <= MAX_FILES && strpbrk(out->end, "{}") == NULL;
}

/* Writes the text of the range's member `index`; false if it does not fit. */
static bool expand(const char *text, int64_t index, char *to, size_t capacity)
{
    name_range r;
    int        n;

    if (!find_range(text, &r)) return false;
    n = r.begin == NULL ? snprintf(to, capacity, "%s", text)
                        : snprintf(to, capacity, "%.*s%0*lld%s", (int)(r.begin - text), text,
                                   r.digits, (long long)(r.first + index), r.end);
    return n >= 0 && (size_t)n < capacity;
}

/* ---- reading the list ------------------------------------------------------------------------ */

typedef struct catalog_location { /* for messages */
    ms_error   *e;
    const char *path, *set;
} catalog_location;

static musec_status wrong(const catalog_location *c, const char *what, const char *text)
{
    return ms_fail(c->e, MUSEC_EFORMAT, "%s: data set %s: %s%s%s%s", c->path, c->set, what,
                   text == NULL ? "" : " '", text == NULL ? "" : text, text == NULL ? "" : "'");
}

static bool is_plain_name(const char *name)
{
    return name[0] != '\0' && name[0] != '.' && strchr(name, '/') == NULL &&
           strlen(name) < MS_CATALOG_NAME - 16;
}

static bool is_address(const char *url)
{
    size_t n = 0;
    if (strncmp(url, "https://", 8) == 0) n = 8;
    if (strncmp(url, "http://", 7) == 0) n = 7;
    return n > 0 && url[n] != '\0' && url[n] != '/';
}

static musec_status read_urls(const catalog_location *c, const json_t *urls,
                              const ms_catalog_row *row)
{
    if (!json_is_array(urls) || json_array_size(urls) == 0 ||
        json_array_size(urls) > MS_CATALOG_URLS)
        return wrong(c, "a file needs from 1 to 16 addresses in \"urls\":", row->name);
    for (size_t i = 0; i < json_array_size(urls); i++) {
        const char *url = json_string_value(json_array_get(urls, i));
        name_range  r;
        if (url == NULL || !is_address(url) || strlen(url) >= MS_CATALOG_URL - 16)
            return wrong(c, "an address begins with https:// or http://, unlike", url);
        if (!find_range(url, &r) || r.n != row->n)
            return wrong(c, "name and address must have ranges of the same number of files:", url);
    }
    return MUSEC_OK;
}

static musec_status read_row(const catalog_location *c, json_t *from, ms_catalog_row *row)
{
    const char *part  = "";
    json_t     *urls  = NULL;
    json_int_t  limit = 0;
    name_range  r;

    if (!ms_json_get(from, "name:s urls:o part:s? limit_tokens:i?", &row->name, &urls, &part,
                     &limit))
        return wrong(c, "a file has \"name\", \"urls\" and perhaps \"part\", \"limit_tokens\"",
                     NULL);
    if (!is_plain_name(row->name) || !find_range(row->name, &r))
        return wrong(c, "not the name of a file:", row->name);
    if (part[0] != '\0' && strcmp(part, "val") != 0 && strcmp(part, "train") != 0)
        return wrong(c, "\"part\" is train or val, not", part);
    if (limit < 0) return wrong(c, "\"limit_tokens\" is negative for", row->name);
    row->n            = r.n;
    row->val          = strcmp(part, "val") == 0;
    row->limit_tokens = limit;
    row->urls         = urls;
    return read_urls(c, urls, row);
}

static musec_status read_known(const catalog_location *c, json_t *known)
{
    const char *name;
    json_t     *value;

    json_object_foreach(known, name, value)
    {
        const char *sha256 = NULL;
        json_int_t  bytes  = 0;
        if (!json_is_object(value) || !ms_json_get(value, "bytes:i? sha256:s?", &bytes, &sha256) ||
            bytes < 0 ||
            (sha256 != NULL && (strlen(sha256) != 64 || strspn(sha256, "0123456789abcdef") != 64)))
            return wrong(c, "\"known\" has \"bytes\" and \"sha256\" (64 digits), unlike", name);
    }
    return MUSEC_OK;
}

static musec_status read_set(catalog_location *c, json_t *from, ms_catalog_set *set)
{
    const char  *kind  = "";
    json_t      *files = NULL, *known = NULL;
    int          tried = 0;
    size_t       k     = 0;
    musec_status st;

    set->field = "text";
    set->about = set->licence = "";
    if (!ms_json_get(from, "name:s kind:s files:o about:s? licence:s? field:s? tried:b? known:o?",
                     &set->name, &kind, &files, &set->about, &set->licence, &set->field, &tried,
                     &known))
        return wrong(c, "it needs \"name\", \"kind\" and \"files\"", NULL);
    c->set = set->name;
    while (k < COUNT(kinds) && strcmp(kinds[k], kind) != 0)
        k++;
    if (k == COUNT(kinds))
        return wrong(c, "\"kind\" is vocab, shards, jsonl or parquet, not", kind);
    if (!is_plain_name(set->name)) return wrong(c, "not a name for a data set:", set->name);
    set->kind  = (ms_catalog_kind)k;
    set->tried = tried != 0;
    set->known = known;
    if (!json_is_array(files) || json_array_size(files) == 0)
        return wrong(c, "\"files\" is a list of them", NULL);
    set->rows = calloc(json_array_size(files), sizeof *set->rows);
    if (set->rows == NULL) return ms_fail(c->e, MUSEC_ENOMEM, "%s: not enough memory", c->path);
    TRY(read_known(c, known));
    for (; set->n_rows < json_array_size(files); set->n_rows++)
        TRY(read_row(c, json_array_get(files, set->n_rows), &set->rows[set->n_rows]));
done:
    return st;
}

static musec_status parse(ms_error *e, const char *path, json_t **out)
{
    ms_json_problem problem;
    struct stat     info;
    musec_status    st;

    if (path != NULL) {
        if (stat(path, &info) == 0 && info.st_size > MAX_LIST)
            return ms_fail(e, MUSEC_EFORMAT, "%s: is no list of data sets: it is too long", path);
        return ms_json_load(e, path, MS_JSON_ANY_NAMES, out);
    }
    st = ms_json_parse((const char *)ms_embedded_sources, ms_embedded_sources_bytes,
                       MS_JSON_ANY_NAMES, &problem, out);
    return st == MUSEC_OK ? st : ms_fail(e, st, "%s:%d: %s", OWN_NAME, problem.line, problem.text);
}

musec_status ms_catalog_load(ms_error *e, const char *path, ms_catalog *out)
{
    catalog_location c = { .e = e, .path = path == NULL ? OWN_NAME : path, .set = "?" };
    const json_t    *sets;
    musec_status     st;

    *out = (ms_catalog){ 0 };
    TRY(parse(e, path, &out->root));
    sets = json_object_get(out->root, "sets");
    if (json_array_size(sets) == 0)
        TRY(ms_fail(e, MUSEC_EFORMAT, "%s: has no list \"sets\"", c.path));
    out->sets = calloc(json_array_size(sets), sizeof *out->sets);
    if (out->sets == NULL) TRY(ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory", c.path));
    for (size_t i = 0; i < json_array_size(sets); i++) {
        out->n = i + 1;
        TRY(read_set(&c, json_array_get(sets, i), &out->sets[i]));
    }
done:
    if (st != MUSEC_OK) ms_catalog_free(out);
    return st;
}

void ms_catalog_free(ms_catalog *c)
{
    for (size_t i = 0; c->sets != NULL && i < c->n; i++)
        free(c->sets[i].rows);
    free(c->sets);
    json_decref(c->root);
    *c = (ms_catalog){ 0 };
}

/* ---- lookup ---------------------------------------------------------------------------------- */

musec_status ms_catalog_find(ms_error *e, const ms_catalog *c, const char *name,
                             const ms_catalog_set **out)
{
    char        names[512] = "";
    const char *known[64];
    size_t      n = 0;

    for (size_t i = 0; i < c->n; i++) {
        if (n < COUNT(known)) known[n++] = c->sets[i].name;
        if (strcmp(c->sets[i].name, name) == 0) {
            *out = &c->sets[i];
            return MUSEC_OK;
        }
        ms_text_append(names, sizeof names, "%s%s", i == 0 ? "" : ", ", c->sets[i].name);
    }
    return ms_fail(e, MUSEC_EINVAL, "there is no data set '%s'; there are %s%s", name, names,
                   ms_name_hint_of(name, known, n).text);
}

/* Replaces the server: "https://server/path" becomes "MIRROR/path".  (For http:// the search begins
 * at the second letter of the server, which does no harm.) */
static bool at_mirror(const char *mirror, const char *url, char *to)
{
    const char *path = strchr(url + strlen("https://"), '/');
    size_t      n    = strlen(mirror);
    int         bytes;

    while (n > 0 && mirror[n - 1] == '/')
        n--;
    bytes = snprintf(to, MS_CATALOG_URL, "%.*s%s", (int)n, mirror, path == NULL ? "/" : path);
    return bytes >= 0 && bytes < MS_CATALOG_URL;
}

static bool is_listed(const ms_catalog_file *f, const char *url)
{
    for (size_t i = 0; i < f->n_urls; i++)
        if (strcmp(f->urls[i], url) == 0) return true;
    return false;
}

musec_status ms_catalog_expand(ms_error *e, const ms_catalog_set *set, size_t row, int64_t index,
                               const char *const *mirrors, size_t n_mirrors, ms_catalog_file *out)
{
    const ms_catalog_row *r     = &set->rows[row];
    json_int_t            bytes = -1;
    char                  url[MS_CATALOG_URL];

    out->n_urls = 0;
    out->sha256 = NULL;
    if (!expand(r->name, index, out->name, sizeof out->name))
        return ms_fail(e, MUSEC_EFORMAT, "%s: the name of a file is too long", r->name);
    for (size_t m = 0; m <= n_mirrors; m++) {
        for (size_t i = 0; i < json_array_size(r->urls); i++) {
            char *to;
            if (!expand(json_string_value(json_array_get(r->urls, i)), index, url, sizeof url))
                return ms_fail(e, MUSEC_EFORMAT, "%s: an address of it is too long", out->name);
            if (out->n_urls == MS_CATALOG_URLS)
                return ms_fail(e, MUSEC_EINVAL,
                               "%s: has more than %d addresses; give fewer "
                               "mirrors",
                               out->name, MS_CATALOG_URLS);
            to = out->urls[out->n_urls];
            if (m == n_mirrors) {
                memcpy(to, url, sizeof url);
            } else if (!is_address(mirrors[m]) || !at_mirror(mirrors[m], url, to)) {
                return ms_fail(e, MUSEC_EINVAL,
                               "--mirror begins with https:// or http://, unlike '%s'", mirrors[m]);
            }
            if (!is_listed(out, to)) out->n_urls++;
        }
    }
    (void)ms_json_get(json_object_get(set->known, out->name), "bytes:i? sha256:s?", &bytes,
                      &out->sha256);
    out->bytes = bytes;
    return MUSEC_OK;
}
