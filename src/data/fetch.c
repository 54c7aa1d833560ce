/* fetch.c - tries, waits, resumes, checks, renames.
 *
 * What a try may find when n bytes are here already, and what is done:
 *
 *     206 from byte n of the same file      the part grows
 *     206 from elsewhere, or another file   the part is dropped; try again
 *     200                                   the part is overwritten from its beginning
 *     416 and n is the file's length        it is complete
 *     416 otherwise                         the part is dropped; try again
 *
 * "The same file" means: the tag and the length that the part was begun with, or, at another
 * address, a file whose sha256 is known beforehand, which would reveal a mixture. */
#define _XOPEN_SOURCE 700
#include "data/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/json_file.h"
#include "core/text.h"
#include "data/http.h"

enum { MAX_DELAY_MS = 60000, NAP_MS = 100, PROGRESS_MS = 200, MAX_URL = 2048 };

typedef enum outcome { DONE, AGAIN, NEXT, FATAL } outcome;

typedef struct origin { /* what the part is a part of: PATH.part.json */
    char    url[MAX_URL], tag[MS_HTTP_TAG];
    int64_t bytes;                 /* -1: not known */
    char    sha256[MS_SHA256_HEX]; /* as announced by the server; may be "" */
} origin;

typedef struct transfer {
    const ms_fetch_config *cfg;
    ms_fetched            *out;
    ms_error              *e;
    char                   part[MS_PATH_MAX], state[MS_PATH_MAX];
    int                    fd;
    int64_t                have; /* bytes in the part; -1: not locked yet */
    int64_t                resumed;
    origin                 from;
    bool                   mixed;   /* the part is of more than one response */
    const char            *url;     /* of this try */
    int64_t                asked;   /* the byte this try began at */
    double                 wait_s;  /* that the server asked for */
    outcome                verdict; /* of a callback that ended the request */
    musec_status           st;      /* of a FATAL outcome */
    double                 started, reported;
} transfer;

/* ---- the part and its state ------------------------------------------------------------------ */

static outcome fatal(transfer *t, musec_status st)
{
    t->st = st;
    return FATAL;
}

static musec_status cannot_write(const transfer *t)
{
    const int   why  = errno;
    const char *hint = why == ENOSPC || why == EDQUOT ? "; free some space and go on" : "";
    return ms_fail(t->e, MUSEC_EIO, "%s: cannot write (%s)%s", t->part, strerror(why), hint);
}

static musec_status read_state(transfer *t)
{
    json_t      *root = NULL;
    const char  *url = "", *tag = "", *sha256 = "";
    json_int_t   bytes = -1;
    musec_status st;

    t->from = (origin){ .bytes = -1 };
    TRY(ms_json_find(t->e, t->state, MS_JSON_ANY_NAMES, &root));
    if (ms_json_get(root, "url:s tag:s bytes:i sha256:s", &url, &tag, &bytes, &sha256)) {
        t->from.bytes = bytes;
        snprintf(t->from.url, sizeof t->from.url, "%s", url);
        snprintf(t->from.tag, sizeof t->from.tag, "%s", tag);
        snprintf(t->from.sha256, sizeof t->from.sha256, "%s", sha256);
    }
done:
    json_decref(root);
    return st;
}

static musec_status write_state(transfer *t)
{
    json_t      *root;
    musec_status st;

    if (!ms_text_is_utf8(t->from.url) || !ms_text_is_utf8(t->from.tag)) { /* not to be resumed */
        remove(t->state);
        return MUSEC_OK;
    }
    root = json_pack("{s:s, s:s, s:I, s:s}", "url", t->from.url, "tag", t->from.tag, "bytes",
                     (json_int_t)t->from.bytes, "sha256", t->from.sha256);
    st   = ms_json_write(t->e, t->state, root);
    json_decref(root);
    return st;
}

static musec_status drop_part(transfer *t)
{
    if (ftruncate(t->fd, 0) != 0) return cannot_write(t);
    t->have  = 0;
    t->mixed = false;
    t->from  = (origin){ .bytes = -1 };
    return MUSEC_OK;
}

/* Opens and locks the part.  Between the two, the process that held the lock may have renamed or
 * removed the file: the lock is on a file that is no longer the part then, and we open it anew. */
static musec_status lock_part(transfer *t)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    struct stat  ours, there;

    for (;;) {
        t->fd = open(t->part, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (t->fd < 0)
            return ms_fail(t->e, MUSEC_EIO, "%s: cannot create (%s)", t->part, strerror(errno));
        if (fcntl(t->fd, F_SETLK, &lock) != 0 && (errno == EAGAIN || errno == EACCES))
            return ms_fail(t->e, MUSEC_EIO, "%s: another process is fetching it; wait for that one",
                           t->part);
        if (fstat(t->fd, &ours) != 0) return cannot_write(t);
        if (stat(t->part, &there) == 0 && there.st_dev == ours.st_dev &&
            there.st_ino == ours.st_ino)
            break;
        close(t->fd);
    }
    t->have = (int64_t)ours.st_size;
    return MUSEC_OK;
}

static musec_status open_part(transfer *t)
{
    musec_status st;

    if (snprintf(t->part, sizeof t->part, "%s.part", t->cfg->path) >= (int)sizeof t->part ||
        snprintf(t->state, sizeof t->state, "%s.part.json", t->cfg->path) >= (int)sizeof t->state)
        return ms_fail(t->e, MUSEC_EIO, "%.200s...: the path is too long", t->cfg->path);
    TRY(lock_part(t));
    TRY(read_state(t));
    if (t->from.url[0] == '\0' || (t->from.bytes >= 0 && t->have > t->from.bytes))
        st = drop_part(t);
    t->resumed = t->have;
    t->mixed   = t->have > 0;
done:
    return st;
}

/* ---- callbacks of a request ------------------------------------------------------------------ */

static void report_progress(transfer *t)
{
    const double            now = ms_clock_ms();
    const ms_fetch_progress p   = { t->have, t->from.bytes, t->resumed < t->have ? t->resumed : 0,
                                    (now - t->started) / 1000.0 };

    if (t->cfg->on_progress == NULL || now - t->reported < PROGRESS_MS) return;
    t->reported = now;
    t->cfg->on_progress(t->cfg->arg, &p);
}

/* What a callback returns to end the request. */
static bool unwanted(transfer *t, outcome verdict)
{
    t->verdict = verdict;
    return false;
}

/* Does a 206 continue the part? */
static bool continues(const transfer *t, const ms_http_response *r)
{
    const bool here = strcmp(t->from.url, t->url) == 0;

    if (t->asked == 0 || r->from != t->asked) return false;
    if (t->from.bytes >= 0 && r->bytes >= 0 && r->bytes != t->from.bytes) return false;
    if (here && t->from.tag[0] != '\0' && r->tag[0] != '\0' && strcmp(r->tag, t->from.tag) != 0)
        return false;
    return t->from.sha256[0] == '\0' || r->sha256[0] == '\0' ||
           strcmp(r->sha256, t->from.sha256) == 0;
}

/* The end of a message about an unexpected file: `advice`, or where the expectation comes from. */
static const char *expected_by(const ms_fetch_config *cfg, bool learnt, const char *advice,
                               char text[MS_PATH_MAX])
{
    if (!learnt || cfg->learnt == NULL) return advice;
    snprintf(text, MS_PATH_MAX,
             ", as at the first download (%s; remove its row to accept another file)", cfg->learnt);
    return text;
}

static outcome too_large(transfer *t, int64_t bytes, bool exact)
{
    if (drop_part(t) != MUSEC_OK) return fatal(t, MUSEC_EIO);
    ms_error_set(t->e,
                 "%s: the file has %s%lld bytes, more than the %lld that are allowed; allow more "
                 "with --max-file, or take another address (--mirror, --sources)",
                 t->url, exact ? "" : "at least ", (long long)bytes, (long long)t->cfg->max_bytes);
    return NEXT;
}

/* Compares the file's first bytes as they come with those that it must have. */
static bool begins_well(const transfer *t, const char *data, size_t bytes)
{
    const size_t want = t->cfg->magic == NULL ? 0 : t->cfg->magic_bytes, at = (size_t)t->have;
    const size_t n = at >= want ? 0 : want - at < bytes ? want - at : bytes;
    return n == 0 || memcmp(t->cfg->magic + at, data, n) == 0;
}

static outcome another_kind(transfer *t)
{
    if (drop_part(t) != MUSEC_OK) return fatal(t, MUSEC_EIO);
    ms_error_set(t->e,
                 "%s: what comes from there does not begin like %s: the address may give another "
                 "file (--mirror, --sources)",
                 t->url, t->cfg->what);
    return NEXT;
}

static bool on_begin(void *arg, const ms_http_response *r)
{
    transfer              *t   = arg;
    const ms_fetch_config *cfg = t->cfg;
    const bool             all = r->status == 200, elsewhere = strcmp(t->from.url, t->url) != 0;
    char                   text[MS_PATH_MAX];

    if (cfg->bytes >= 0 && r->bytes >= 0 && r->bytes != cfg->bytes) {
        ms_error_set(t->e, "%s: the file has %lld bytes there, %lld were expected%s", t->url,
                     (long long)r->bytes, (long long)cfg->bytes,
                     expected_by(cfg, cfg->learnt_bytes,
                                 "; it is another one now: take another address (--mirror, "
                                 "--sources)",
                                 text));
        return unwanted(t, NEXT);
    }
    if (r->bytes > cfg->max_bytes) return unwanted(t, too_large(t, r->bytes, true));
    if (!all && !continues(t, r)) {
        ms_error_set(t->e, "%s: the file has changed while it was fetched", t->url);
        if (drop_part(t) != MUSEC_OK) return unwanted(t, fatal(t, MUSEC_EIO));
        return unwanted(t, AGAIN);
    }
    if (all && drop_part(t) != MUSEC_OK) return unwanted(t, fatal(t, MUSEC_EIO));
    if (t->have > 0) t->mixed = true;
    if (lseek(t->fd, t->have, SEEK_SET) < 0) return unwanted(t, fatal(t, cannot_write(t)));
    if (r->bytes >= 0) t->from.bytes = r->bytes;
    if (t->from.bytes < 0) t->from.bytes = cfg->bytes;
    snprintf(t->from.url, sizeof t->from.url, "%s", t->url);
    /* A 206 of the same file may leave out what the 200 said. */
    if (r->tag[0] != '\0' || elsewhere) memcpy(t->from.tag, r->tag, sizeof t->from.tag);
    if (r->sha256[0] != '\0') memcpy(t->from.sha256, r->sha256, sizeof t->from.sha256);
    if (write_state(t) != MUSEC_OK) return unwanted(t, fatal(t, MUSEC_EIO));
    return true;
}

static bool on_data(void *arg, const char *data, size_t bytes)
{
    transfer *t = arg;

    if (!begins_well(t, data, bytes)) return unwanted(t, another_kind(t));
    if (t->have + (int64_t)bytes > t->cfg->max_bytes)
        return unwanted(t, too_large(t, t->cfg->max_bytes + 1, false));
    for (size_t at = 0; at < bytes;) {
        const ssize_t n = write(t->fd, data + at, bytes - at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return unwanted(t, fatal(t, cannot_write(t)));
        at += (size_t)n;
        t->have += n;
        t->out->received += n;
    }
    report_progress(t);
    return true;
}

/* ---- one try --------------------------------------------------------------------------------- */

static outcome interrupted(transfer *t)
{
    return fatal(t, ms_fail(t->e, MUSEC_EIO,
                            "%s: interrupted; %lld bytes are kept in %s, and the same command goes "
                            "on from there",
                            t->url, (long long)t->have, t->part));
}

/* Reads through our own descriptor: closing another one would release the lock. */
static musec_status hash_part(const transfer *t, char hex[MS_SHA256_HEX])
{
    ms_sha256 sha;
    char      block[1 << 16];
    int64_t   at = 0;

    ms_sha256_init(&sha);
    while (at < t->have) {
        const ssize_t n = pread(t->fd, block, sizeof block, at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return ms_fail(t->e, MUSEC_EIO, "%s: cannot read (%s)", t->part,
                           n < 0 ? strerror(errno) : "it became shorter");
        ms_sha256_add(&sha, block, (size_t)n);
        at += n;
    }
    ms_sha256_end(&sha, hex);
    return MUSEC_OK;
}

/* Checks a part of the announced length, and puts it in place. */
static outcome check_part(transfer *t)
{
    const char *want      = t->cfg->sha256 != NULL ? t->cfg->sha256 : t->from.sha256;
    const bool  was_mixed = t->mixed;
    char        hex[MS_SHA256_HEX], text[MS_PATH_MAX];

    if (fsync(t->fd) != 0) return fatal(t, cannot_write(t));
    if (hash_part(t, hex) != MUSEC_OK) return fatal(t, MUSEC_EIO);
    if (want[0] != '\0' && strcmp(want, hex) != 0) {
        ms_error_set(t->e, "%s: the sha256 of the file is %s, %s was expected%s", t->url, hex, want,
                     expected_by(t->cfg, t->cfg->learnt_sha256,
                                 t->cfg->sha256 != NULL
                                     ? "; it was damaged on its way or is another one now: take "
                                       "another address (--mirror, --sources)"
                                     : "; it was damaged on its way: try again",
                                 text));
        if (drop_part(t) != MUSEC_OK) return fatal(t, MUSEC_EIO);
        return was_mixed || t->cfg->sha256 == NULL ? AGAIN : NEXT;
    }
    if (rename(t->part, t->cfg->path) != 0)
        return fatal(
            t, ms_fail(t->e, MUSEC_EIO, "%s: cannot create (%s)", t->cfg->path, strerror(errno)));
    if (ms_entry_sync(t->e, t->cfg->path) != MUSEC_OK) return fatal(t, MUSEC_EIO);
    remove(t->state);
    memcpy(t->out->sha256, hex, sizeof hex);
    t->out->bytes = t->have;
    t->out->url   = t->url;
    return DONE;
}

/* Judges a complete response. */
static outcome judge(transfer *t, const ms_http_response *r)
{
    const int64_t want   = t->from.bytes;
    const int     status = r->status;
    const char   *reason = ms_http_reason(status);
    const char   *advice = "the address may have moved: take another one (--mirror, --sources)";

    if (status == 200 || status == 206) {
        if (want >= 0 && t->have != want) {
            ms_error_set(t->e, "%s: the file ended after %lld of %lld bytes", t->url,
                         (long long)t->have, (long long)want);
            if (t->have > want && drop_part(t) != MUSEC_OK) return fatal(t, MUSEC_EIO);
            return AGAIN;
        }
        return check_part(t);
    }
    if (status == 416 && t->asked > 0) {
        if (t->have == want) return check_part(t);
        ms_error_set(t->e, "%s: the file is shorter than the part of it that is here", t->url);
        return drop_part(t) == MUSEC_OK ? AGAIN : fatal(t, MUSEC_EIO);
    }
    if (status == 401 || status == 403) advice = "the server does not give it to everybody";
    if (status == 408 || status == 429 || status >= 500) advice = "try again later";
    ms_error_set(t->e, "%s: HTTP %d%s%s%s; %s", t->url, status, reason[0] != '\0' ? " (" : "",
                 reason, reason[0] != '\0' ? ")" : "", advice);
    t->wait_s = r->retry_after_s;
    return status == 408 || status == 429 || status >= 500 ? AGAIN : NEXT;
}

static outcome try_once(transfer *t)
{
    const bool       here = strcmp(t->from.url, t->url) == 0;
    const bool       tag  = here && t->from.tag[0] != '\0';
    ms_http_request  q    = { .url      = t->url,
                              .from     = tag || t->cfg->sha256 != NULL ? t->have : 0,
                              .if_tag   = tag ? t->from.tag : NULL,
                              .stall_s  = t->cfg->stall_s,
                              .stop     = t->cfg->stop,
                              .on_begin = on_begin,
                              .on_data  = on_data,
                              .arg      = t };
    ms_http_response r;
    ms_error         why = { "" };

    t->asked  = q.from;
    t->wait_s = 0;
    switch (ms_http_get(&q, &r, &why)) {
    case MS_HTTP_WHOLE: return judge(t, &r);
    case MS_HTTP_STOPPED: return interrupted(t);
    case MS_HTTP_UNWANTED: return t->verdict;
    case MS_HTTP_ABSENT: return fatal(t, ms_fail(t->e, MUSEC_ENOTSUP, "%s", why.text));
    case MS_HTTP_HOPELESS: ms_error_set(t->e, "%s: %s", t->url, why.text); return NEXT;
    case MS_HTTP_FAILED: break;
    }
    ms_error_set(t->e, "%s: %s", t->url, why.text);
    return AGAIN;
}

/* ---- many tries ------------------------------------------------------------------------------ */

/* Sleeps; returns false at once if interrupted. */
static bool sleep_ms(const transfer *t, double ms)
{
    const double end = ms_clock_ms() + ms;

    for (double left = ms; left > 0; left = end - ms_clock_ms()) {
        const long            nap  = (long)(left < NAP_MS ? left + 1 : NAP_MS);
        const struct timespec time = { .tv_nsec = nap * 1000000 };
        if (t->cfg->stop != NULL && *t->cfg->stop != 0) return false;
        nanosleep(&time, NULL);
    }
    return t->cfg->stop == NULL || *t->cfg->stop == 0;
}

static void notice(const transfer *t, const char *fmt, ...) MS_PRINTF(2, 3);
static void notice(const transfer *t, const char *fmt, ...)
{
    ms_error line;
    va_list  args;

    if (t->cfg->on_notice == NULL) return;
    va_start(args, fmt);
    vsnprintf(line.text, sizeof line.text, fmt, args);
    va_end(args);
    t->cfg->on_notice(t->cfg->arg, line.text);
}

/* Tries one address until it succeeds or has failed too often. */
static outcome try_address(transfer *t)
{
    const int64_t retries = t->cfg->retries;
    double        delay   = (double)t->cfg->delay_ms;
    int64_t       best    = t->have;

    for (int64_t failures = 0;;) {
        const outcome o = try_once(t);
        double        wait;
        if (o != AGAIN) return o;
        if (t->have > best) { /* progress: the connection is bad, not dead */
            best     = t->have;
            failures = 0;
            delay    = (double)t->cfg->delay_ms;
        }
        if (++failures > retries) return NEXT;
        wait = t->wait_s * 1000.0 > delay ? t->wait_s * 1000.0 : delay;
        if (wait > MAX_DELAY_MS) wait = MAX_DELAY_MS;
        notice(t, "%s; again in %.3g s (%lld of %lld)", t->e->text, wait / 1000.0,
               (long long)failures, (long long)retries);
        if (!sleep_ms(t, wait)) return interrupted(t);
        delay *= 2;
    }
}

/* Checks a file that is already there under the final name. */
static musec_status check_present(ms_error *e, const ms_fetch_config *cfg, ms_fetched *out)
{
    struct stat  sb;
    char         hex[MS_SHA256_HEX] = "", text[MS_PATH_MAX];
    musec_status st                 = MUSEC_OK;

    if (stat(cfg->path, &sb) != 0)
        return MUSEC_OK; /* missing, or a failure that opening it will report */
    if (!S_ISREG(sb.st_mode))
        return ms_fail(e, MUSEC_EIO, "%s: is no file; choose another directory", cfg->path);
    if (cfg->bytes >= 0 && (int64_t)sb.st_size != cfg->bytes)
        return ms_fail(e, MUSEC_EFORMAT,
                       "%s: has %lld bytes, %lld were expected; remove it to fetch it again%s",
                       cfg->path, (long long)sb.st_size, (long long)cfg->bytes,
                       expected_by(cfg, cfg->learnt_bytes, "", text));
    if (cfg->verify && cfg->sha256 != NULL) {
        TRY(ms_sha256_file(e, cfg->path, hex));
        if (strcmp(hex, cfg->sha256) != 0)
            TRY(ms_fail(e, MUSEC_EFORMAT,
                        "%s: its sha256 is %s, %s was expected; remove it to fetch it again%s",
                        cfg->path, hex, cfg->sha256,
                        expected_by(cfg, cfg->learnt_sha256, "", text)));
    }
    out->found = true;
    out->bytes = (int64_t)sb.st_size;
    memcpy(out->sha256, hex, sizeof hex);
done:
    return st;
}

static void clean_up(transfer *t)
{
    if (t->fd < 0) return;
    if (t->have == 0 && t->out->url == NULL) { /* nothing to resume */
        remove(t->part);
        remove(t->state);
    }
    close(t->fd);
}

musec_status ms_fetch(ms_error *e, const ms_fetch_config *cfg, ms_fetched *out)
{
    transfer     t = { .cfg = cfg, .out = out, .e = e, .fd = -1, .have = -1 };
    outcome      o = NEXT;
    musec_status st;

    *out      = (ms_fetched){ .bytes = -1 };
    t.started = ms_clock_ms();
    TRY(check_present(e, cfg, out));
    if (out->found) goto done;
    if (cfg->n_urls == 0)
        TRY(ms_fail(e, MUSEC_EINVAL, "%s: has no address to be fetched from", cfg->path));
    TRY(open_part(&t));
    for (size_t i = 0; i < cfg->n_urls && o == NEXT; i++) {
        if (i > 0) notice(&t, "%s; now from %s", e->text, cfg->urls[i]);
        t.url = cfg->urls[i];
        o     = try_address(&t);
    }
    if (o == FATAL) st = t.st;
    if (o == NEXT) st = MUSEC_EIO; /* the message is that of the last try */
done:
    clean_up(&t);
    return st;
}
