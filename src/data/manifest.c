/* manifest.c - reading, writing and comparing manifest.json (docs/data.md has its fields). */
#define _POSIX_C_SOURCE 200809L
#include "data/manifest.h"

#include "core/grow.h"
#include "core/json_file.h"
#include "core/text.h"
#include <stdlib.h>
#include <string.h>

#define FORMAT  "musec shards"
#define VERSION 1

json_t *ms_manifest_text(const char *text)
{
    json_t *value;
    char   *copy;

    if (ms_text_is_utf8(text)) return json_string(text);
    copy = strdup(text); /* a path may have any bytes, JSON only UTF-8 */
    for (char *c = copy; c != NULL && *c != '\0'; c++)
        if ((unsigned char)*c >= 0x80) *c = '?';
    value = copy == NULL ? NULL : json_string(copy);
    free(copy);
    return value;
}

int64_t ms_manifest_tokens(const ms_manifest *m)
{
    int64_t n = 0;
    for (size_t i = 0; i < m->n; i++)
        n += m->shards[i].tokens;
    return n;
}

musec_status ms_manifest_add(ms_error *e, ms_manifest *m, const ms_shard_info *shard)
{
    ms_shard_info *more = ms_grow(m->shards, m->n, &m->capacity, sizeof *more);

    if (more == NULL) return ms_no_memory(e, "the manifest");
    m->shards         = more;
    m->shards[m->n++] = *shard;
    return MUSEC_OK;
}

void ms_manifest_free(ms_manifest *m)
{
    json_decref(m->settings);
    json_decref(m->inputs);
    free(m->shards);
    *m = (ms_manifest){ 0 };
}

/* ---- writing --------------------------------------------------------------------------------- */

static json_t *shard_json(const ms_shard_info *s)
{
    return json_pack("{ss, sI, sI, ss, s{sI, sI, sI}, s{sI, sI, sI}}", "name", s->name, "tokens",
                     (json_int_t)s->tokens, "documents", (json_int_t)s->documents, "sha256",
                     s->sha256, "next", "file", (json_int_t)s->next.file, "record",
                     (json_int_t)s->next.record, "token", (json_int_t)s->next.token, "so_far",
                     "documents", (json_int_t)s->so_far.documents, "text_bytes",
                     (json_int_t)s->so_far.text_bytes, "bad", (json_int_t)s->so_far.bad);
}

static json_t *manifest_json(const ms_manifest *m) /* NULL: no memory */
{
    json_t *shards = json_array();

    for (size_t i = 0; i < m->n; i++)
        ms_json_append(&shards, shard_json(&m->shards[i]));
    return json_pack("{ss, si, sb, sO, sO, so, s{sI, sI, sI, sI, sI}}", "format", FORMAT, "version",
                     VERSION, "complete", (int)m->complete, "settings", m->settings, "inputs",
                     m->inputs, "shards", shards, "totals", "shards", (json_int_t)m->n, "tokens",
                     (json_int_t)ms_manifest_tokens(m), "documents",
                     (json_int_t)m->totals.documents, "text_bytes",
                     (json_int_t)m->totals.text_bytes, "bad", (json_int_t)m->totals.bad);
}

musec_status ms_manifest_write(ms_error *e, const char *path, const ms_manifest *m)
{
    json_t            *root = manifest_json(m);
    const musec_status st   = ms_json_write(e, path, root);
    json_decref(root);
    return st;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Is it a plain file name?  It is joined to the directory. */
static bool is_name(const char *name)
{
    return strlen(name) < sizeof((ms_shard_info *)0)->name && strchr(name, '/') == NULL &&
           name[0] != '.' && name[0] != '\0';
}

static bool read_shard(json_t *row, ms_shard_info *out)
{
    const char *name = NULL, *sha = NULL;
    json_int_t  tokens, documents, file, record, token, all, text_bytes, bad;
    json_t     *next = NULL, *so_far = NULL;

    if (!ms_json_get(row, "name:s tokens:i documents:i sha256:s next:o so_far:o", &name, &tokens,
                     &documents, &sha, &next, &so_far) ||
        !ms_json_get(next, "file:i record:i token:i", &file, &record, &token) ||
        !ms_json_get(so_far, "documents:i text_bytes:i bad:i", &all, &text_bytes, &bad))
        return false;
    if (!is_name(name) || strlen(sha) != MS_SHA256_HEX - 1 || tokens < 1 || tokens > INT32_MAX ||
        documents < 0 || file < 0 || record < 0 || token < 0 || all < 0 || text_bytes < 0 ||
        bad < 0)
        return false;
    *out = (ms_shard_info){ .tokens    = tokens,
                            .documents = documents,
                            .next      = { file, record, token },
                            .so_far    = { all, text_bytes, bad } };
    memcpy(out->name, name, strlen(name) + 1);
    memcpy(out->sha256, sha, MS_SHA256_HEX);
    return true;
}

musec_status ms_manifest_read(ms_error *e, const char *path, ms_manifest *out)
{
    ms_error      why  = { "" };
    json_t       *root = NULL, *shards = NULL, *totals = NULL;
    const char   *format = NULL;
    int           complete;
    json_int_t    version, documents, text_bytes, bad;
    ms_shard_info shard;
    musec_status  st;

    *out = (ms_manifest){ 0 };
    st   = ms_json_load(&why, path, MS_JSON_ONCE, &root);
    if (st != MUSEC_OK)
        TRY(ms_fail(e, st, "%s%s", why.text,
                    st == MUSEC_EFORMAT ? "; remove it to start over" : ""));
    if (!ms_json_get(root, "format:s version:i complete:b settings:o inputs:o shards:o totals:o",
                     &format, &version, &complete, &out->settings, &out->inputs, &shards,
                     &totals) ||
        !ms_json_get(totals, "documents:i text_bytes:i bad:i", &documents, &text_bytes, &bad) ||
        strcmp(format, FORMAT) != 0 || version != VERSION || !json_is_object(out->settings) ||
        !json_is_array(out->inputs) || !json_is_array(shards)) {
        out->settings = out->inputs = NULL;
        st = ms_fail(e, MUSEC_EFORMAT, "%s: is no manifest of shards of version %d", path, VERSION);
        goto done;
    }
    json_incref(out->settings);
    json_incref(out->inputs);
    out->complete = complete;
    out->totals   = (ms_counts){ documents, text_bytes, bad };
    for (size_t i = 0; i < json_array_size(shards); i++) {
        if (!read_shard(json_array_get(shards, i), &shard))
            TRY(ms_fail(e, MUSEC_EFORMAT, "%s: damaged: shard %zu of its list", path, i));
        TRY(ms_manifest_add(e, out, &shard));
    }
done:
    json_decref(root);
    if (st != MUSEC_OK) ms_manifest_free(out);
    return st;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static void value_text(json_t *value, char *out, size_t bytes)
{
    char *text = value == NULL ? NULL : ms_json_dump(value, -1);
    snprintf(out, bytes, "%s", text != NULL ? text : "nothing");
    free(text);
}

/* The first key of `a` whose value differs in `b`; NULL if there is none. */
static const char *first_difference(json_t *a, json_t *b)
{
    const char *key;
    json_t     *value;
    json_object_foreach(a, key, value)
    {
        if (!json_equal(value, json_object_get(b, key))) return key;
    }
    return NULL;
}

static musec_status same_settings(ms_error *e, const char *path, json_t *was, json_t *now)
{
    const char *key = first_difference(now, was);
    char        old_text[128], new_text[128];

    if (key == NULL) key = first_difference(was, now);
    if (key == NULL) return MUSEC_OK;
    value_text(json_object_get(was, key), old_text, sizeof old_text);
    value_text(json_object_get(now, key), new_text, sizeof new_text);
    return ms_fail(e, MUSEC_EINVAL,
                   "%s: these shards were begun with %s %s, not %s; go on as they were begun, or "
                   "write elsewhere",
                   path, key, old_text, new_text);
}

static musec_status same_inputs(ms_error *e, const char *path, json_t *was, json_t *now)
{
    const size_t n_was = json_array_size(was), n_now = json_array_size(now);

    for (size_t i = 0; i < n_was && i < n_now; i++) {
        json_t     *a = json_array_get(was, i), *b = json_array_get(now, i);
        const char *file = json_string_value(json_object_get(a, "path"));
        const char *key  = first_difference(b, a);
        char        old_text[256], new_text[256];
        if (key == NULL) continue;
        value_text(json_object_get(a, key), old_text, sizeof old_text);
        value_text(json_object_get(b, key), new_text, sizeof new_text);
        return ms_fail(e, MUSEC_EINVAL,
                       "%s: input %zu, %s, has changed: its %s was %s and is %s; write elsewhere",
                       path, i, file != NULL ? file : "?", key, old_text, new_text);
    }
    if (n_was == n_now) return MUSEC_OK;
    return ms_fail(
        e, MUSEC_EINVAL,
        "%s: these shards were begun from %zu file%s, not %zu; go on as they were begun, "
        "or write elsewhere",
        path, n_was, n_was == 1 ? "" : "s", n_now);
}

musec_status ms_manifest_same(ms_error *e, const char *path, const ms_manifest *was,
                              const ms_manifest *now)
{
    const musec_status st = same_settings(e, path, was->settings, now->settings);
    return st == MUSEC_OK ? same_inputs(e, path, was->inputs, now->inputs) : st;
}
