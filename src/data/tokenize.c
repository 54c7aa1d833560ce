/* tokenize.c - the caller's side of the pipeline: blocks of tokens into shards, and the manifest.
 *
 * All tokens in a row, val_tokens of them, then shard_tokens again and again:
 *
 *     S d0 d0 d0 S d1 d1 | d1 d1 S d2 | S d3 d3 ...       S the start id, | the end of a shard
 *
 * The end of each shard is known as a place in the input: (file, record, token of the record).  A
 * resumed run seeks there, encodes that record, and drops the tokens before the place.  The
 * manifest is written before the first shard, so that our directories can be recognized. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "data/tokenize.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/directory.h"
#include "core/json_file.h"
#include "core/lock.h"
#include "core/text.h"
#include "data/manifest.h"
#include "data/pipeline.h"
#include "data/shard.h"
#include "data/shard_out.h"

enum { PROGRESS_MS = 250, MANIFEST_MS = 1000 };

static const char *const split_names[]  = { "eot", "blank", "file" };
static const char *const format_names[] = { "auto", "text", "jsonl" };

typedef struct shard_writer {
    const ms_tokenize_config *cfg;
    ms_manifest               manifest;
    char                      path[MS_PATH_MAX]; /* of the manifest */
    ms_shard_info             made;              /* the shard that is open */
    ms_shard_out              shard;
    bool                      open, full; /* full: limit_tokens are written */
    int64_t                   tokens;     /* of all shards */
    int64_t                   skip;       /* tokens of the next record that were written before */
    ms_counts                 counts;
    int64_t                   kept, listed;
    int                       lock;    /* on the directory */
    double                    written; /* clock: when the manifest was */
    size_t                    on_disk; /* shards in the manifest on disk */
} shard_writer;

/* ---- what the manifest says of this run ------------------------------------------------------ */

/* Vocabularies with the same ids and bytes have the same checksum, whatever file they came from. */
static void vocabulary_sha(const ms_bpe *bpe, char hex[MS_SHA256_HEX])
{
    ms_sha256 sha;

    ms_sha256_init(&sha);
    for (int32_t id = 0; bpe != NULL && id < MS_BPE_IDS; id++) {
        size_t         bytes  = 0;
        const char    *text   = ms_bpe_bytes(bpe, id, &bytes);
        const uint32_t length = (uint32_t)bytes;
        ms_sha256_add(&sha, &length, sizeof length);
        if (text != NULL) ms_sha256_add(&sha, text, bytes);
    }
    ms_sha256_end(&sha, hex);
}

static json_t *settings_json(const ms_tokenize_config *cfg) /* NULL: no memory */
{
    char    hex[MS_SHA256_HEX];
    json_t *all;

    vocabulary_sha(cfg->bpe, hex);
    all = json_pack("{ss}", "tokenizer", cfg->bpe != NULL ? "gpt2" : "byte");
    if (cfg->bpe != NULL) ms_json_set(&all, "vocabulary_sha256", json_string(hex));
    ms_json_set(&all, "format", json_string(format_names[cfg->reader.format]));
    ms_json_set(&all, "split", json_string(split_names[cfg->reader.split]));
    ms_json_set(&all, "field", ms_manifest_text(cfg->reader.field));
    ms_json_set(&all, "skip_bad", json_boolean(cfg->reader.skip_bad));
    ms_json_set(&all, "max_document", json_integer((json_int_t)cfg->reader.max_document));
    ms_json_set(&all, "shard_tokens", json_integer((json_int_t)cfg->shard_tokens));
    ms_json_set(&all, "val_tokens", json_integer((json_int_t)cfg->val_tokens));
    ms_json_set(&all, "limit_tokens", json_integer((json_int_t)cfg->limit_tokens));
    return all;
}

static json_t *inputs_json(const ms_reader *r)
{
    json_t *list = json_array();

    for (size_t i = 0; i < ms_reader_files(r); i++) {
        const ms_input *in = ms_reader_input(r, i);
        ms_json_append(&list,
                       json_pack("{so, sI, sI}", "path", ms_manifest_text(in->path), "bytes",
                                 (json_int_t)in->bytes, "mtime_ns", (json_int_t)in->mtime_ns));
    }
    return list;
}

static musec_status describe(ms_error *e, const ms_tokenize_config *cfg, const ms_reader *r,
                             ms_manifest *m)
{
    m->settings = settings_json(cfg);
    m->inputs   = inputs_json(r);
    if (m->settings == NULL || m->inputs == NULL)
        return ms_fail(e, MUSEC_ENOMEM, "not enough memory for the manifest");
    return MUSEC_OK;
}

/* ---- the directory --------------------------------------------------------------------------- */

/* The real path of a directory, or of the nearest one above it that exists; to be freed. */
static char *real_directory(const char *path)
{
    char above[MS_PATH_MAX], *real = realpath(path, NULL), *slash;

    snprintf(above, sizeof above, "%s", path);
    while (real == NULL && errno == ENOENT) {
        const size_t n = strlen(above);
        slash          = strrchr(above, '/');
        if (slash != NULL && n > 1 && slash == above + n - 1) {
            *slash = '\0';
            continue;
        }
        if (slash == NULL) return realpath(".", NULL);
        slash[slash == above] = '\0';
        real                  = realpath(above, NULL);
    }
    return real;
}

/* Fails if the output lies within an input, since the next run would read the output too. */
static musec_status check_apart(ms_error *e, const ms_tokenize_config *cfg)
{
    char        *out = real_directory(cfg->out), *in = NULL;
    musec_status st = MUSEC_OK;

    if (out == NULL)
        return ms_fail(e, MUSEC_EIO, "%s: cannot find (%s)", cfg->out, strerror(errno));
    for (size_t i = 0; i < cfg->reader.n_paths && st == MUSEC_OK; i++) {
        struct stat sb;
        if (stat(cfg->reader.paths[i], &sb) != 0 || !S_ISDIR(sb.st_mode)) continue;
        in             = realpath(cfg->reader.paths[i], NULL);
        const size_t n = in == NULL ? 0 : strlen(in);
        if (in == NULL)
            st = ms_fail(e, errno == ENOMEM ? MUSEC_ENOMEM : MUSEC_EIO, "%s: cannot find (%s)",
                         cfg->reader.paths[i], strerror(errno));
        if (n > 0 && strncmp(in, out, n) == 0 && (out[n] == '/' || out[n] == '\0' || n == 1))
            st = ms_fail(e, MUSEC_EINVAL, "%s: lies within the input %s; write elsewhere", cfg->out,
                         cfg->reader.paths[i]);
        free(in);
    }
    free(out);
    return st;
}

/* The text after `word`, or after it and digits; NULL if the text does not begin like that. */
static const char *after_prefix(const char *text, const char *word, bool digits)
{
    const size_t n = strlen(word);
    size_t       d;

    if (text == NULL || strncmp(text, word, n) != 0) return NULL;
    d = digits ? strspn(text + n, "0123456789") : 0;
    return digits && d == 0 ? NULL : text + n + d;
}

/* Is it the name of a file that a killed run leaves, "train_000001.bin.part.7[.1]"?  Other names
 * with ".part" belong to fetched files ("...part.json") or to the user. */
static bool is_leftover(const char *name)
{
    const char *at = after_prefix(name, MS_MANIFEST_NAME, false), *again;

    if (at == NULL) at = after_prefix(after_prefix(name, "train_", true), ".bin", false);
    if (at == NULL) at = after_prefix(after_prefix(name, "val_", true), ".bin", false);
    at    = after_prefix(at, ".part.", true);
    again = after_prefix(at, ".", true);
    return at != NULL && *(again != NULL ? again : at) == '\0';
}

/* Finds a shard in the directory: `name` becomes its name, or "" if there is none. */
static musec_status find_shard(ms_error *e, const char *out, char *name, size_t bytes)
{
    ms_names     list = { 0 };
    musec_status st   = ms_directory_names(e, out, &list);

    name[0] = '\0';
    for (size_t i = 0; i < list.n; i++)
        if (ms_text_ends_with(list.at[i], ".bin")) snprintf(name, bytes, "%s", list.at[i]);
    ms_names_free(&list);
    return st;
}

/* Removes what a killed run left. */
static musec_status remove_leftovers(ms_error *e, const char *out)
{
    ms_names     list = { 0 };
    char         path[MS_PATH_MAX];
    musec_status st;

    TRY(ms_directory_names(e, out, &list));
    for (size_t i = 0; i < list.n; i++) {
        if (!is_leftover(list.at[i])) continue;
        TRY(ms_path_join(e, out, list.at[i], path));
        if (unlink(path) != 0 && errno != ENOENT)
            TRY(ms_fail(e, MUSEC_EIO, "%s: cannot remove what a killed run left (%s)", path,
                        strerror(errno)));
    }
done:
    ms_names_free(&list);
    return st;
}

/* Is the shard on disk as the manifest describes it? */
static bool is_intact(const ms_tokenize_config *cfg, const ms_shard_info *s)
{
    char     path[MS_PATH_MAX], hex[MS_SHA256_HEX];
    ms_error why = { "" };
    int64_t  n   = 0;

    if (ms_path_join(&why, cfg->out, s->name, path) != MUSEC_OK ||
        ms_shard_tokens(&why, path, MS_SHARD_HEADED, &n) != MUSEC_OK || n != s->tokens)
        return false;
    return !cfg->verify ||
           (ms_sha256_file(&why, path, hex) == MUSEC_OK && strcmp(hex, s->sha256) == 0);
}

/* Takes over the shards of an earlier run, up to the first that is not whole. */
static musec_status take_over(ms_error *e, shard_writer *w)
{
    ms_manifest  was = { 0 };
    musec_status st;

    TRY(ms_manifest_read(e, w->path, &was));
    if (!w->cfg->resume && was.n == 0) goto done; /* that run wrote nothing: begin anew */
    if (!w->cfg->resume)
        TRY(ms_fail(e, MUSEC_EINVAL, "%s: has %zu shard%s already and is %s; write elsewhere%s",
                    w->cfg->out, was.n, was.n == 1 ? "" : "s",
                    was.complete ? "complete" : "not complete",
                    was.complete ? "" : ", or go on with --resume"));
    TRY(ms_manifest_same(e, w->path, &was, &w->manifest));
    for (size_t i = 0; i < was.n && is_intact(w->cfg, &was.shards[i]); i++)
        TRY(ms_manifest_add(e, &w->manifest, &was.shards[i]));
    w->listed            = (int64_t)was.n;
    w->kept              = (int64_t)w->manifest.n;
    w->manifest.complete = was.complete && w->kept == w->listed;
    if (w->kept > 0) w->counts = was.shards[w->kept - 1].so_far;
    if (w->manifest.complete) w->counts = was.totals;
    w->manifest.totals = w->counts;
    w->tokens          = ms_manifest_tokens(&w->manifest);
done:
    ms_manifest_free(&was);
    return st;
}

static musec_status open_directory(ms_error *e, shard_writer *w)
{
    const char  *out          = w->cfg->out;
    char         foreign[256] = "";
    struct stat  sb;
    musec_status st;

    TRY(check_apart(e, w->cfg)); /* before anything is made */
    TRY(ms_directory_make(e, out));
    TRY(check_apart(e, w->cfg)); /* "new/.." is another directory once it exists */
    TRY(ms_lock_take(e, out, &w->lock));
    TRY(ms_path_join(e, out, MS_MANIFEST_NAME, w->path));
    if (stat(w->path, &sb) == 0) {
        TRY(take_over(e, w));
        if (w->manifest.complete) goto done;
    } else {
        TRY(find_shard(e, out, foreign, sizeof foreign));
    }
    if (foreign[0] != '\0')
        TRY(ms_fail(e, MUSEC_EINVAL,
                    "%s: has %s and no %s: shards of somebody else are not written over; write "
                    "elsewhere",
                    out, foreign, MS_MANIFEST_NAME));
    TRY(remove_leftovers(e, out));
    TRY(ms_manifest_write(e, w->path, &w->manifest));
    w->on_disk = w->manifest.n;
done:
    return st;
}

/* ---- the manifest on disk -------------------------------------------------------------------- */

static musec_status write_manifest(ms_error *e, shard_writer *w)
{
    musec_status st;
    TRY(ms_manifest_write(e, w->path, &w->manifest));
    w->written = ms_clock_ms();
    w->on_disk = w->manifest.n;
done:
    return st;
}

/* Writes the manifest after a shard, but at most once a second, since it is written as a whole and
 * grows with every shard.  A resumed run makes shards again that are not listed yet.  The first one
 * is listed at once: a manifest without shards means that there is nothing to resume. */
static musec_status update_manifest(ms_error *e, shard_writer *w)
{
    if (w->on_disk > 0 && ms_clock_ms() - w->written < MANIFEST_MS) return MUSEC_OK;
    return write_manifest(e, w);
}

/* ---- shards ---------------------------------------------------------------------------------- */

static musec_status open_shard(ms_error *e, shard_writer *w)
{
    const ms_tokenize_config *cfg      = w->cfg;
    const size_t              done     = w->manifest.n;
    const bool                val      = cfg->val_tokens > 0 && done == 0;
    int64_t                   capacity = val ? cfg->val_tokens : cfg->shard_tokens;
    char                      path[MS_PATH_MAX];
    musec_status              st;

    if (cfg->limit_tokens > 0 && cfg->limit_tokens - w->tokens < capacity)
        capacity = cfg->limit_tokens - w->tokens;
    w->made = (ms_shard_info){ .tokens = 0 };
    snprintf(w->made.name, sizeof w->made.name, "%s_%06zu.bin", val ? "val" : "train",
             val ? 0 : done + (cfg->val_tokens == 0));
    TRY(ms_path_join(e, cfg->out, w->made.name, path));
    TRY(ms_shard_out_open(e, path, capacity, &w->shard));
    w->open = true;
done:
    return st;
}

static musec_status close_shard(ms_error *e, shard_writer *w, ms_place next)
{
    musec_status st;

    w->open        = false;
    w->made.tokens = w->shard.n;
    w->made.next   = next;
    w->made.so_far = w->counts;
    TRY(ms_shard_out_commit(e, &w->shard, w->made.sha256));
    TRY(ms_manifest_add(e, &w->manifest, &w->made));
    w->manifest.totals = w->counts;
    TRY(update_manifest(e, w));
done:
    return st;
}

static musec_status check_stop(ms_error *e, const shard_writer *w)
{
    if (w->cfg->stop == NULL || *w->cfg->stop == 0) return MUSEC_OK;
    return ms_fail(e, MUSEC_EIO, "interrupted with %zu whole shard%s in %s; go on with --resume",
                   w->manifest.n, w->manifest.n == 1 ? "" : "s", w->cfg->out);
}

/* The bytes of text that tokens stand for, of which none starts a document. */
static int64_t text_of(const ms_bpe *bpe, const uint16_t *tokens, int64_t n)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        size_t bytes = 1;
        if (bpe != NULL) (void)ms_bpe_bytes(bpe, tokens[i], &bytes);
        sum += (int64_t)bytes;
    }
    return sum;
}

/* Writes the tokens of a record, into as many shards as they take. */
static musec_status write_piece(ms_error *e, shard_writer *w, const ms_piece *p,
                                const uint16_t *tokens)
{
    const int64_t n    = (int64_t)p->tokens;
    int64_t       from = w->skip;
    musec_status  st   = MUSEC_OK;

    w->skip = 0;
    while (from < n && !w->full) {
        if (!w->open) {
            TRY(check_stop(e, w)); /* a block may fill thousands of small shards */
            TRY(open_shard(e, w));
        }
        const int64_t capacity = w->shard.capacity - w->shard.n,
                      take     = n - from < capacity ? n - from : capacity;
        if (from == 0) {
            w->made.documents++;
            w->counts.documents++;
            w->counts.text_bytes += (int64_t)p->text_bytes;
        }
        TRY(ms_shard_out_add(e, &w->shard, tokens + from, take));
        from += take;
        w->tokens += take;
        w->full = w->cfg->limit_tokens > 0 && w->tokens == w->cfg->limit_tokens;
        if (w->full) w->counts.text_bytes -= text_of(w->cfg->bpe, tokens + from, n - from);
        if (w->shard.n == w->shard.capacity) {
            const ms_place next = { p->record.file, p->record.number + (from == n),
                                    from == n ? 0 : from };
            TRY(close_shard(e, w, next));
        }
    }
done:
    return st;
}

static musec_status write_block(ms_error *e, shard_writer *w, const ms_token_block *b)
{
    size_t       at = 0;
    musec_status st = MUSEC_OK;

    for (size_t i = 0; i < b->n && !w->full; i++) {
        const ms_piece *p = &b->pieces[i];
        if (p->bad) w->counts.bad++;
        if (!p->bad) TRY(write_piece(e, w, p, b->tokens + at));
        at += p->tokens;
    }
done:
    return st;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void count_progress(const shard_writer *w, const ms_reader *r, int64_t consumed,
                           ms_tokenize_progress *out)
{
    *out = (ms_tokenize_progress){ .bytes_in    = consumed,
                                   .bytes_total = ms_reader_total(r),
                                   .text_bytes  = w->counts.text_bytes,
                                   .documents   = w->counts.documents,
                                   .tokens      = w->tokens,
                                   .shards      = (int64_t)w->manifest.n,
                                   .bad         = w->counts.bad,
                                   .listed      = w->listed,
                                   .kept        = w->kept,
                                   .complete    = w->manifest.complete };
}

static musec_status check(ms_error *e, const ms_tokenize_config *cfg)
{
    if (cfg->shard_tokens < 1 || cfg->shard_tokens > INT32_MAX)
        return ms_fail(e, MUSEC_EINVAL, "--shard-tokens must be from 1 to %ld, not %lld",
                       (long)INT32_MAX, (long long)cfg->shard_tokens);
    if (cfg->val_tokens < 0 || cfg->val_tokens > INT32_MAX)
        return ms_fail(e, MUSEC_EINVAL, "--val-tokens must be from 0 to %ld, not %lld",
                       (long)INT32_MAX, (long long)cfg->val_tokens);
    if (cfg->limit_tokens < 0)
        return ms_fail(e, MUSEC_EINVAL, "--limit-tokens must be at least 0, not %lld",
                       (long long)cfg->limit_tokens);
    if (cfg->out[0] == '\0') return ms_fail(e, MUSEC_EINVAL, "the output directory has no name");
    return MUSEC_OK;
}

/* Writes blocks as they come, until the end of the input or the limit. */
static musec_status write_all(ms_error *e, shard_writer *w, const ms_reader *r,
                              ms_pipeline *pipeline, ms_tokenize_progress *out)
{
    const ms_tokenize_config *cfg  = w->cfg;
    double                    last = ms_clock_ms();
    bool                      end  = false;
    musec_status              st   = MUSEC_OK;

    while (!end && !w->full) {
        ms_token_block *b = ms_pipeline_next(pipeline);
        TRY(check_stop(e, w));
        if (b != NULL) {
            TRY(write_block(e, w, b));
            out->bytes_in = b->consumed;
            end           = b->last;
            if (b->st != MUSEC_OK && !w->full) {
                *e = b->error;
                st = b->st;
                goto done;
            }
            ms_pipeline_done(pipeline, b);
        }
        if (cfg->on_progress != NULL && ms_clock_ms() - last >= PROGRESS_MS) {
            count_progress(w, r, out->bytes_in, out);
            cfg->on_progress(cfg->arg, out);
            last = ms_clock_ms();
        }
    }
done:
    return st;
}

static musec_status finish(ms_error *e, shard_writer *w, const ms_reader *r)
{
    const ms_place end = { (int64_t)ms_reader_files(r), 0, 0 };
    musec_status   st  = MUSEC_OK;

    if (w->open) TRY(close_shard(e, w, end));
    if (w->tokens == 0)
        TRY(ms_fail(
            e, MUSEC_EFORMAT,
            "%s: there is no document in the input (%zu file%s); give texts that are not empty",
            ms_reader_file(r, 0), ms_reader_files(r), ms_reader_files(r) == 1 ? "" : "s"));
    w->manifest.complete = true;
    w->manifest.totals   = w->counts;
    TRY(write_manifest(e, w));
done:
    return st;
}

musec_status ms_tokenize(ms_error *e, const ms_tokenize_config *cfg, ms_tokenize_progress *out)
{
    shard_writer     w        = { .cfg = cfg, .lock = MS_NO_LOCK };
    ms_place         next     = { 0 };
    ms_reader_config reading  = cfg->reader;
    ms_reader       *r        = NULL;
    ms_pipeline     *pipeline = NULL;
    atomic_bool      quit     = false;
    musec_status     st;

    *out = (ms_tokenize_progress){ .bytes_total = -1 };
    TRY(check(e, cfg));
    reading.stop = &quit;
    TRY(ms_reader_open(e, &reading, &r));
    TRY(describe(e, cfg, r, &w.manifest));
    TRY(open_directory(e, &w));
    if (w.manifest.complete) goto done;
    if (w.manifest.n > 0) next = w.manifest.shards[w.manifest.n - 1].next;
    w.skip = next.token;
    w.full = cfg->limit_tokens > 0 && w.tokens >= cfg->limit_tokens;
    TRY(ms_pipeline_make(e,
                         &(ms_pipeline_config){ .reader   = r,
                                                .quit     = &quit,
                                                .bpe      = cfg->bpe,
                                                .threads  = cfg->threads,
                                                .skip_bad = cfg->reader.skip_bad,
                                                .file     = next.file,
                                                .record   = next.record },
                         &pipeline));
    TRY(write_all(e, &w, r, pipeline, out));
    TRY(finish(e, &w, r));
done:
    ms_pipeline_free(pipeline);
    ms_shard_out_abandon(&w.shard);
    if (st != MUSEC_OK && w.manifest.n > w.on_disk) {
        ms_error ignored = { "" }; /* the first failure is the one to report */
        (void)write_manifest(&ignored, &w);
    }
    if (r != NULL) count_progress(&w, r, out->bytes_in, out);
    ms_manifest_free(&w.manifest);
    ms_reader_close(r);
    ms_lock_free(w.lock);
    return st;
}
