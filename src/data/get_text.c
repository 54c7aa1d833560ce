/* get_text.c - texts fetched one at a time and made shards, so that the disk never holds more than
 * one of them beside the tokens.
 *
 * A text is tokenized in DIR/raw/NAME.shards.  Its shards are then moved after those of the texts
 * before it, between two updates of shards.json: the first reserves their names, the second marks
 * the text as made.  A process that is killed in between leaves a text that the next call makes
 * again, with the same names and the same bytes.  The last shard of a text is shorter than the
 * others, because no shard has tokens of two texts.
 *
 * A text that was cut by the limit is not "whole"; a later call that wants more makes it again.  If
 * a text ends earlier than before, shards remain after its new end; if the limit cut it, so do
 * those of the texts after it.  They are removed, or training would read them: those that
 * shards.json lists, and no others. */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/directory.h"
#include "core/json_file.h"
#include "data/get_internal.h"
#include "data/manifest.h"
#include "data/parquet.h"
#include "data/shard.h"

enum { MAX_DOCUMENT = 48 << 20, MAX_SHARDS = 10000000 };

typedef struct texts {
    ms_get_state *g;
    ms_bpe       *bpe;
    json_t       *made; /* shards.json */
    char          raw[MS_PATH_MAX];
    int64_t       shards[2], tokens[2]; /* so far, of training and of validation */
} texts;

typedef struct text_job { /* the current text */
    size_t  row;
    int64_t index;
    bool    val;
    int64_t limit; /* tokens of it; 0: all */
    bool    last;  /* the limit of the call ends in it if it is long enough */
    int64_t tokens, shards, documents;
    bool    whole;
} text_job;

typedef struct text_row { /* the row of a text in shards.json */
    const char *part;
    json_int_t  first, shards, tokens;
    int         whole;
} text_row;

/* ---- what is there --------------------------------------------------------------------------- */

/* The path of shard `number` of a side; names count from 0 for validation, from 1 for training. */
static musec_status shard_path(ms_error *e, const texts *t, bool val, int64_t number,
                               char path[MS_PATH_MAX])
{
    char            name[32];
    const long long shown = val ? number : number + 1;
    snprintf(name, sizeof name, "%s_%06lld.bin", val ? "val" : "train", shown);
    return ms_path_join(e, t->g->cfg->out, name, path);
}

static bool read_row(json_t *row, text_row *a)
{
    return ms_json_get(row, "part:s first:i shards:i tokens:i whole:b", &a->part, &a->first,
                       &a->shards, &a->tokens, &a->whole) &&
           a->first >= 0 && a->first <= MAX_SHARDS && a->shards >= 0 && a->shards <= MAX_SHARDS;
}

/* Was the text made before, at least as far as it is wanted, and are its shards still there? */
static bool is_made(const texts *t, text_job *o, const char *name)
{
    text_row was   = { 0 };
    int64_t  found = 0;
    ms_error ignored;

    if (!read_row(json_object_get(json_object_get(t->made, "texts"), name), &was)) return false;
    if (!was.whole && (o->limit == 0 || was.tokens < o->limit)) return false;
    for (int64_t i = 0; i < was.shards; i++) {
        char    path[MS_PATH_MAX];
        int64_t n = 0;
        if (shard_path(&ignored, t, o->val, t->shards[o->val] + i, path) != MUSEC_OK ||
            ms_shard_tokens(&ignored, path, MS_SHARD_HEADED, &n) != MUSEC_OK)
            return false;
        found += n;
    }
    o->tokens = was.tokens;
    o->shards = was.shards;
    return found == was.tokens;
}

static musec_status check_settings(ms_error *e, const texts *t)
{
    const int64_t shard_tokens = t->g->cfg->shard_tokens;
    const json_t *was          = json_object_get(t->made, "shard_tokens");
    musec_status  st;

    if (was != NULL && json_integer_value(was) != shard_tokens)
        return ms_fail(
            e, MUSEC_EINVAL,
            "%s: was begun with --shard-tokens %lld; go on so, or take another directory",
            t->g->cfg->out, (long long)json_integer_value(was));
    TRY(ms_json_put(e, t->made, "shard_tokens", json_integer(shard_tokens)));
    if (json_object_get(t->made, "texts") == NULL)
        TRY(ms_json_put(e, t->made, "texts", json_object()));
done:
    return st;
}

/* ---- one text -------------------------------------------------------------------------------- */

static void on_progress(void *arg, const ms_tokenize_progress *p)
{
    const ms_get_state *g = arg;
    if (g->cfg->on_tokenize != NULL) g->cfg->on_tokenize(g->cfg->arg, g->file.name, p);
}

/* After a request to stop, every failure is an interruption: the file itself is good. */
static musec_status unless_stopped(ms_error *e, const texts *t, const char *text, musec_status st)
{
    if (st == MUSEC_OK || t->g->cfg->stop == NULL || *t->g->cfg->stop == 0) return st;
    return ms_fail(e, MUSEC_EIO, "%s: interrupted; the same command goes on with this text", text);
}

static musec_status tokenize(ms_error *e, texts *t, text_job *o, const char *text, const char *dir)
{
    const ms_get_config     *cfg = t->g->cfg;
    const ms_tokenize_config how = { .reader       = { .paths        = &text,
                                                       .n_paths      = 1,
                                                       .format       = MS_FORMAT_JSON,
                                                       .field        = cfg->set->field,
                                                       .skip_bad     = cfg->skip_bad,
                                                       .max_document = MAX_DOCUMENT },
                                     .bpe          = t->bpe,
                                     .out          = dir,
                                     .shard_tokens = cfg->shard_tokens,
                                     .limit_tokens = o->limit,
                                     .threads      = cfg->threads,
                                     .stop         = cfg->stop,
                                     .on_progress  = on_progress,
                                     .arg          = t->g };
    ms_tokenize_progress     done;
    musec_status             st;

    TRY(ms_tokenize(e, &how, &done));
    o->tokens = done.tokens;
    o->shards = done.shards;
    o->whole  = o->limit == 0 || done.tokens < o->limit;
    t->g->out->bad += done.bad;
done:
    o->documents = done.documents;
    return st;
}

/* One directory has the shards of one vocabulary. */
static musec_status check_vocabulary(ms_error *e, const texts *t, const char *dir)
{
    static const char key[] = "vocabulary_sha256";
    ms_manifest       m     = { 0 };
    char              path[MS_PATH_MAX];
    const json_t     *was = json_object_get(t->made, key);
    json_t           *is;
    musec_status      st;

    TRY(ms_path_join(e, dir, MS_MANIFEST_NAME, path));
    TRY(ms_manifest_read(e, path, &m));
    is = json_object_get(m.settings, key);
    if (was == NULL)
        TRY(ms_json_put(e, t->made, key, json_incref(is)));
    else if (!json_equal(was, is))
        st = ms_fail(e, MUSEC_EINVAL,
                     "%s: was begun with another vocabulary; go on with that one, or take another "
                     "directory",
                     t->g->cfg->out);
done:
    ms_manifest_free(&m);
    return st;
}

/* Moves the shards in `dir` to their places among the others. */
static musec_status move_shards(ms_error *e, const texts *t, const text_job *o, const char *dir)
{
    char         from[MS_PATH_MAX], to[MS_PATH_MAX], name[32];
    musec_status st = MUSEC_OK;

    for (long long i = 0; i < o->shards; i++) {
        snprintf(name, sizeof name, "train_%06lld.bin", i + 1);
        TRY(ms_path_join(e, dir, name, from));
        TRY(shard_path(e, t, o->val, t->shards[o->val] + i, to));
        if (rename(from, to) != 0)
            TRY(ms_fail(e, MUSEC_EIO, "%s: cannot become %s (%s)", from, to, strerror(errno)));
    }
done:
    return st;
}

/* Is it the row of a text to remove, because the limit cuts the current one before it? */
static bool is_cut_off(const texts *t, const text_job *o, const text_row *a)
{
    return o->last && !o->whole && (strcmp(a->part, "val") == 0) == o->val &&
           a->first > t->shards[o->val] + (o->val ? 0 : 1);
}

static int64_t end_of(const text_row *a, bool val) { return a->first + a->shards - (val ? 0 : 1); }

/* Removes the listed shards after the end of the current text: those that it had before, which end
 * at `end`, and those of texts that are cut off. */
static musec_status remove_old(ms_error *e, const texts *t, const text_job *o, int64_t end)
{
    json_t      *list = json_object_get(t->made, "texts"), *row;
    const char  *key;
    void        *next;
    char         path[MS_PATH_MAX];
    text_row     a;
    musec_status st = MUSEC_OK;

    json_object_foreach_safe(list, next, key, row)
    {
        if (!read_row(row, &a) || !is_cut_off(t, o, &a)) continue;
        if (end < end_of(&a, o->val)) end = end_of(&a, o->val);
        json_object_del(list, key);
    }
    for (int64_t i = t->shards[o->val] + o->shards; i < end; i++) {
        TRY(shard_path(e, t, o->val, i, path));
        if (unlink(path) != 0 && errno != ENOENT)
            TRY(ms_fail(e, MUSEC_EIO, "%s: cannot remove (%s)", path, strerror(errno)));
    }
done:
    return st;
}

/* Writes the row of a text; 0 tokens and not whole means that it is being made. */
static musec_status write_row(ms_error *e, const texts *t, const text_job *o, const char *name,
                              int64_t shards, int64_t tokens, bool whole)
{
    const json_int_t first = o->val ? t->shards[1] : t->shards[0] + 1;
    json_t          *row =
        json_pack("{s:s, s:I, s:I, s:I, s:b}", "part", o->val ? "val" : "train", "first", first,
                  "shards", (json_int_t)shards, "tokens", (json_int_t)tokens, "whole", (int)whole);

    if (ms_json_put(e, json_object_get(t->made, "texts"), name, row) != MUSEC_OK)
        return MUSEC_ENOMEM;
    return ms_get_save(e, t->g->cfg->out, MS_GET_SHARDS, t->made);
}

/* Moves the shards in `dir` to their places and removes those that they replace. */
static musec_status put_in_place(ms_error *e, const texts *t, const text_job *o, const char *dir)
{
    const char   *name  = t->g->file.name;
    const int64_t begin = t->shards[o->val];
    int64_t       end   = begin + o->shards;
    text_row      was;
    musec_status  st;

    if (read_row(json_object_get(json_object_get(t->made, "texts"), name), &was) &&
        end < end_of(&was, o->val))
        end = end_of(&was, o->val);
    TRY(write_row(e, t, o, name, end - begin, 0, false));
    TRY(move_shards(e, t, o, dir));
    TRY(remove_old(e, t, o, end));
    TRY(write_row(e, t, o, name, o->shards, o->tokens, o->whole));
done:
    return st;
}

static musec_status make(ms_error *e, texts *t, text_job *o)
{
    const ms_get_config *cfg   = t->g->cfg;
    const bool           lines = cfg->set->kind == MS_KIND_JSONL;
    char                 raw[MS_PATH_MAX], text[MS_PATH_MAX], dir[MS_PATH_MAX];
    musec_status         st;

    TRY(ms_directory_make(e, t->raw));
    TRY(ms_get_file(e, t->g, t->raw, o->row, o->index, raw));
    if (snprintf(text, sizeof text, "%s%s", raw, lines ? "" : ".jsonl") >= (int)sizeof text ||
        snprintf(dir, sizeof dir, "%s.shards", raw) >= (int)sizeof dir)
        TRY(ms_fail(e, MUSEC_EIO, "%.200s...: the path is too long", raw));
    TRY(ms_directory_remove(e, dir));
    st = lines ? MUSEC_OK : ms_parquet_to_jsonl(e, raw, cfg->set->field, text);
    if (st == MUSEC_OK) st = tokenize(e, t, o, text, dir);
    st = unless_stopped(e, t, raw, st);
    if (st == MUSEC_EFORMAT)
        ms_get_refuse(e, t->g, raw, lines ? o->documents == 0 : !ms_parquet_is(raw));
    if (st != MUSEC_OK) goto done;
    TRY(ms_get_keep(e, t->g));
    TRY(check_vocabulary(e, t, dir));
    TRY(put_in_place(e, t, o, dir));
    TRY(ms_directory_remove(e, dir));
    if (!lines) TRY(ms_directory_remove(e, text)); /* it can be made again */
    if (!cfg->keep_raw) TRY(ms_directory_remove(e, raw));
done:
    return st;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static musec_status get_one(ms_error *e, texts *t, text_job *o)
{
    const ms_get_config  *cfg = t->g->cfg;
    const ms_catalog_row *r   = &cfg->set->rows[o->row];
    musec_status          st;

    o->val   = r->val;
    o->limit = r->limit_tokens;
    if (!r->val && cfg->limit_tokens > 0) {
        const int64_t left = cfg->limit_tokens - t->tokens[0];
        o->last            = o->limit == 0 || left <= o->limit;
        if (o->last) o->limit = left;
    }
    TRY(ms_catalog_expand(e, cfg->set, o->row, o->index, cfg->mirrors, cfg->n_mirrors,
                          &t->g->file));
    if (is_made(t, o, t->g->file.name)) {
        t->g->out->files++;
        t->g->out->found++;
    } else {
        TRY(make(e, t, o));
    }
    t->shards[o->val] += o->shards;
    t->tokens[o->val] += o->tokens;
done:
    return st;
}

musec_status ms_get_text(ms_error *e, ms_get_state *g)
{
    const ms_get_config *cfg = g->cfg;
    texts                t   = { .g = g };
    char                 vocab[MS_PATH_MAX];
    musec_status         st;

    TRY(ms_bpe_find(e, cfg->vocab, vocab)); /* before hours of fetching */
    TRY(ms_bpe_load(e, vocab, &t.bpe));
    TRY(ms_path_join(e, cfg->out, "raw", t.raw));
    TRY(ms_get_load(e, cfg->out, MS_GET_SHARDS, &t.made));
    TRY(check_settings(e, &t));
    for (size_t row = 0; row < cfg->set->n_rows; row++)
        for (int64_t i = 0; i < cfg->set->rows[row].n; i++) {
            text_job o = { .row = row, .index = i };
            if (!cfg->set->rows[row].val && cfg->limit_tokens > 0 &&
                t.tokens[0] >= cfg->limit_tokens)
                break;
            TRY(get_one(e, &t, &o));
        }
    rmdir(t.raw); /* unless something is kept in it */
done:
    g->out->shards = t.shards[0] + t.shards[1];
    g->out->tokens = t.tokens[0];
    g->out->val    = t.tokens[1];
    json_decref(t.made);
    ms_bpe_free(t.bpe);
    return st;
}
