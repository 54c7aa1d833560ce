/* get.c - the files of a set, one after the other, and their checksums. */
#include "data/get.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/json_file.h"
#include "core/lock.h"
#include "core/text.h"
#include "data/get_internal.h"
#include "data/parquet.h"
#include "data/shard.h"

/* ---- what is kept beside the data ------------------------------------------------------------ */

musec_status ms_get_load(ms_error *e, const char *dir, const char *name, json_t **out)
{
    char         path[MS_PATH_MAX];
    ms_error     why = { "" };
    struct stat  info;
    musec_status st;

    *out = NULL;
    TRY(ms_path_join(e, dir, name, path));
    if (stat(path, &info) != 0 && errno == ENOENT) {
        *out = json_object();
        return *out != NULL ? st : ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory", path);
    }
    st = ms_json_load(&why, path, MS_JSON_ANY_NAMES, out);
    if (st == MUSEC_OK && !json_is_object(*out))
        st = ms_fail(&why, MUSEC_EFORMAT, "%s: is no object", path);
    if (st != MUSEC_OK)
        ms_error_set(e, "%s%s", why.text,
                     st == MUSEC_EFORMAT
                         ? "; it is written by musec data get: remove it to begin anew"
                         : "");
done:
    if (st != MUSEC_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return st;
}

musec_status ms_get_save(ms_error *e, const char *dir, const char *name, const json_t *root)
{
    char         path[MS_PATH_MAX];
    musec_status st;

    TRY(ms_path_join(e, dir, name, path));
    TRY(ms_json_write(e, path, root));
done:
    return st;
}

/* ---- one file -------------------------------------------------------------------------------- */

musec_status ms_get_keep(ms_error *e, const ms_get_state *g)
{
    const ms_fetched *f = &g->fetched;
    json_t           *row;

    if (f->sha256[0] == '\0') return MUSEC_OK; /* it has its row already */
    row = json_pack("{s:I, s:s}", "bytes", (json_int_t)f->bytes, "sha256", f->sha256);
    if (f->url != NULL) ms_json_set(&row, "url", ms_json_string(f->url));
    if (ms_json_put(e, g->checksums, g->file.name, row) != MUSEC_OK) return MUSEC_ENOMEM;
    return ms_get_save(e, g->cfg->out, MS_GET_CHECKSUMS, g->checksums);
}

void ms_get_refuse(ms_error *e, const ms_get_state *g, const char *path, bool useless)
{
    const bool drop = g->first && useless && remove(path) == 0;

    ms_text_append(e->text, sizeof e->text, "; %s%s", drop ? "what came was dropped" : path,
                   drop ? ": the address may give another file (--mirror, --sources)"
                        : " is kept: remove it to fetch it again");
}

/* These add the name of the file to the arguments of the callbacks. */
static void on_progress(void *arg, const ms_fetch_progress *p)
{
    const ms_get_state *g = arg;
    if (g->cfg->on_fetch != NULL) g->cfg->on_fetch(g->cfg->arg, g->file.name, p);
}

static void on_notice(void *arg, const char *text)
{
    const ms_get_state *g = arg;
    if (g->cfg->on_notice != NULL) g->cfg->on_notice(g->cfg->arg, text);
}

/* How files of each kind begin. */
typedef struct kind_magic {
    const char *bytes, *what;
    size_t      n;
} kind_magic;

static const kind_magic magics[] = {
    [MS_KIND_VOCAB]   = { NULL, NULL, 0 },
    [MS_KIND_SHARDS]  = { "\x88\xd8\x34\x01\x01\0\0\0", "a shard of tokens", 8 },
    [MS_KIND_JSONL]   = { NULL, NULL, 0 }, /* also packed, in three ways */
    [MS_KIND_PARQUET] = { "PAR1", "a Parquet file", 4 },
};

musec_status ms_get_file(ms_error *e, ms_get_state *g, const char *dir, size_t row, int64_t index,
                         char path[MS_PATH_MAX])
{
    const ms_get_config *cfg = g->cfg;
    const char          *urls[MS_CATALOG_URLS];
    char                 sums[MS_PATH_MAX];
    const char          *learnt = NULL;
    json_int_t           bytes  = -1;
    ms_fetched          *got    = &g->fetched;
    const kind_magic    *magic  = &magics[cfg->set->kind];
    musec_status         st;

    TRY(ms_path_join(e, cfg->out, MS_GET_CHECKSUMS, sums));
    TRY(ms_catalog_expand(e, cfg->set, row, index, cfg->mirrors, cfg->n_mirrors, &g->file));
    TRY(ms_path_join(e, dir, g->file.name, path));
    for (size_t i = 0; i < g->file.n_urls; i++)
        urls[i] = g->file.urls[i];
    (void)ms_json_get(json_object_get(g->checksums, g->file.name), "bytes:i sha256:s", &bytes,
                      &learnt);
    TRY(ms_fetch(e,
                 &(ms_fetch_config){
                     .urls          = urls,
                     .n_urls        = g->file.n_urls,
                     .path          = path,
                     .bytes         = g->file.bytes >= 0 ? g->file.bytes : bytes,
                     .sha256        = g->file.sha256 != NULL ? g->file.sha256 : learnt,
                     .learnt        = sums,
                     .learnt_bytes  = g->file.bytes < 0,
                     .learnt_sha256 = g->file.sha256 == NULL && learnt != NULL,
                     .max_bytes     = cfg->max_file,
                     .magic         = magic->bytes,
                     .magic_bytes   = magic->n,
                     .what          = magic->what,
                     .verify        = cfg->verify || learnt == NULL, /* not checked before */
                     .retries       = cfg->retries,
                     .delay_ms      = cfg->delay_ms,
                     .stall_s       = cfg->stall_s,
                     .stop          = cfg->stop,
                     .on_progress   = on_progress,
                     .on_notice     = on_notice,
                     .arg           = g,
                 },
                 got));
    g->out->files++;
    g->out->found += got->found;
    g->out->received += got->received;
    g->first = !got->found && learnt == NULL && g->file.sha256 == NULL;
    if (got->found && learnt != NULL) got->sha256[0] = '\0';
    if (got->found && learnt == NULL && got->sha256[0] == '\0')
        TRY(ms_sha256_file(e, path, got->sha256)); /* it was not put there by a call of ours */
done:
    return st;
}

/* ---- sets that stay as they are -------------------------------------------------------------- */

static musec_status get_vocab(ms_error *e, ms_get_state *g)
{
    const ms_catalog_set *set = g->cfg->set;
    char                  path[MS_PATH_MAX];
    musec_status          st = MUSEC_OK;

    for (size_t row = 0; row < set->n_rows; row++)
        for (int64_t i = 0; i < set->rows[row].n; i++) {
            TRY(ms_get_file(e, g, g->cfg->out, row, i, path));
            TRY(ms_get_keep(e, g));
        }
done:
    return st;
}

static musec_status get_shards(ms_error *e, ms_get_state *g)
{
    const ms_get_config *cfg = g->cfg;
    char                 path[MS_PATH_MAX];
    musec_status         st = MUSEC_OK;

    for (size_t row = 0; row < cfg->set->n_rows; row++) {
        const ms_catalog_row *r = &cfg->set->rows[row];
        for (int64_t i = 0; i < r->n; i++) {
            int64_t tokens = 0;
            if (!r->val && cfg->limit_tokens > 0 && g->out->tokens >= cfg->limit_tokens) break;
            TRY(ms_get_file(e, g, cfg->out, row, i, path));
            st = ms_shard_tokens(e, path, MS_SHARD_HEADED, &tokens);
            if (st == MUSEC_EFORMAT) ms_get_refuse(e, g, path, true);
            if (st != MUSEC_OK) goto done;
            TRY(ms_get_keep(e, g));
            *(r->val ? &g->out->val : &g->out->tokens) += tokens;
            g->out->shards++;
        }
    }
done:
    return st;
}

musec_status ms_get(ms_error *e, const ms_get_config *cfg, ms_get_result *out)
{
    ms_get_state *g = malloc(sizeof *g); /* the addresses make it large */
    musec_status  st;

    *out = (ms_get_result){ 0 };
    if (g == NULL) return ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory", cfg->set->name);
    *g = (ms_get_state){ .cfg = cfg, .out = out, .lock = MS_NO_LOCK };
    if (cfg->set->kind == MS_KIND_PARQUET) TRY(ms_parquet_check(e));
    TRY(ms_directory_make(e, cfg->out));
    TRY(ms_lock_take(e, cfg->out, &g->lock));
    TRY(ms_get_load(e, cfg->out, MS_GET_CHECKSUMS, &g->checksums));
    switch (cfg->set->kind) {
    case MS_KIND_VOCAB: st = get_vocab(e, g); break;
    case MS_KIND_SHARDS: st = get_shards(e, g); break;
    case MS_KIND_JSONL:
    case MS_KIND_PARQUET: st = ms_get_text(e, g); break;
    }
done:
    json_decref(g->checksums);
    ms_lock_free(g->lock);
    free(g);
    return st;
}
