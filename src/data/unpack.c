/* unpack.c - gzip, zstd and xz through their libraries, behind one loop.
 *
 * A decoder takes what it can of the input buffer and fills what it can of the output:
 *
 *     input    in[at .. n), refilled when empty, until the file has `ended`
 *     between  true where the file may end: after a whole stream
 *
 * The loop calls it until there is output.  A call that neither consumes nor produces, when no
 * input is left, is the end: a proper one between streams, otherwise the file is truncated. */
#define _POSIX_C_SOURCE 200809L
#include "data/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef MS_HAVE_ZLIB
#include <zlib.h>
#endif
#ifdef MS_HAVE_ZSTD
#include <zstd.h>
#include <zstd_errors.h>
#endif
#ifdef MS_HAVE_LZMA
#include <lzma.h>
#endif

enum { IN_BYTES = 1 << 17, MAGIC_BYTES = 6, POLL_MS = 100 };
#define MEMORY_MIN ((uint64_t)256 << 20) /* bytes: zstd --ultra takes 128 MiB, xz -9 65 */

typedef struct packing {
    const char *name, *suffix, *library, *package;
    const char *by_hand; /* command that unpacks what takes more memory than is allowed here */
    bool (*begins)(const unsigned char *magic, size_t n);
    musec_status (*open)(ms_error *e, ms_unpack *u); /* NULL: not in this build */
    musec_status (*decode)(ms_error *e, ms_unpack *u, unsigned char *out, size_t capacity,
                           size_t *got);
    void (*close)(ms_unpack *u);
    const char *(*version)(void);
} packing;

struct ms_unpack {
    char              *path;
    int                fd; /* -1: none */
    bool               own_fd, may_wait, ended, between;
    const atomic_bool *stop;
    uint64_t           memory; /* bytes that unpacking may take */
    const packing     *how;    /* NULL: not packed */
    void              *state;
    size_t             at, n;
    int64_t            read;
    unsigned char      in[IN_BYTES];
};

/* ---- input ----------------------------------------------------------------------------------- */

static musec_status damaged(ms_error *e, const ms_unpack *u, const char *why)
{
    return ms_fail(e, MUSEC_EFORMAT,
                   "%s: damaged: %s at byte %lld of its %s data; copy or download it again",
                   u->path, why, (long long)ms_unpack_consumed(u), u->how->name);
}

/* The file is valid, but needs a window or a dictionary that is too large. */
static musec_status window_too_large(ms_error *e, const ms_unpack *u)
{
    return ms_fail(e, MUSEC_ENOTSUP,
                   "%s: unpacking it takes more than %llu MiB of memory, which is the most that is "
                   "taken here; unpack it first (%s)",
                   u->path, (unsigned long long)(u->memory >> 20), u->how->by_hand);
}

static musec_status no_memory(ms_error *e, const ms_unpack *u)
{
    return ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory to unpack it; unpack it first (%s)",
                   u->path, u->how->by_hand);
}

/* Windows of gigabytes are rare but valid; a small file must not exhaust the machine with one. */
static uint64_t usual_memory(void)
{
    uint64_t half = 0;
#ifdef _SC_PHYS_PAGES
    const long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    if (pages > 0 && bytes > 0) half = (uint64_t)pages * (uint64_t)bytes / 2;
#endif
    return half > MEMORY_MIN ? half : MEMORY_MIN;
}

/* Waits until a pipe has bytes, or until `stop`. */
static musec_status await_input(ms_error *e, const ms_unpack *u)
{
    struct pollfd p = { .fd = u->fd, .events = POLLIN };
    while (u->may_wait && u->stop != NULL && poll(&p, 1, POLL_MS) == 0)
        if (atomic_load(u->stop)) return ms_fail(e, MUSEC_EIO, "%s: stopped waiting", u->path);
    return MUSEC_OK;
}

/* Reads the next bytes of the file to in[n]. */
static musec_status refill(ms_error *e, ms_unpack *u)
{
    ssize_t      got = -1;
    musec_status st;

    TRY(await_input(e, u));
    do {
        got = read(u->fd, u->in + u->n, sizeof u->in - u->n);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        TRY(ms_fail(e, MUSEC_EIO, "%s: cannot read at byte %lld (%s)", u->path, (long long)u->read,
                    strerror(errno)));
    u->ended = got == 0;
    u->n += (size_t)got;
    u->read += got;
done:
    return st;
}

/* ---- gzip ------------------------------------------------------------------------------------ */

static bool begins_gzip(const unsigned char *m, size_t n)
{
    return n >= 2 && m[0] == 0x1F && m[1] == 0x8B;
}

#ifdef MS_HAVE_ZLIB
static musec_status open_gzip(ms_error *e, ms_unpack *u)
{
    z_stream *z = calloc(1, sizeof *z);
    u->state    = z;
    if (z == NULL || inflateInit2(z, 15 + 16) != Z_OK) /* 15: any window; 16: gzip's header */
        return no_memory(e, u);
    return MUSEC_OK;
}

static musec_status decode_gzip(ms_error *e, ms_unpack *u, unsigned char *out, size_t capacity,
                                size_t *got)
{
    z_stream    *z   = u->state;
    const size_t max = capacity < INT32_MAX ? capacity : INT32_MAX; /* zlib counts in 32 bits */
    int          rc;

    if (u->between) { /* zeros after the last member are padding, as of tar */
        while (u->at < u->n && u->in[u->at] == 0)
            u->at++;
        if (u->at == u->n) return MUSEC_OK;
        inflateReset(z);
        u->between = false;
    }
    z->next_in   = u->in + u->at;
    z->avail_in  = (uInt)(u->n - u->at);
    z->next_out  = out;
    z->avail_out = (uInt)max;
    rc           = inflate(z, Z_NO_FLUSH);
    u->at        = u->n - z->avail_in;
    *got         = max - z->avail_out;
    u->between   = rc == Z_STREAM_END;
    if (rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR) return MUSEC_OK;
    return damaged(e, u, z->msg != NULL ? z->msg : "it cannot be decompressed");
}

static void close_gzip(ms_unpack *u)
{
    if (u->state != NULL) inflateEnd(u->state);
    free(u->state);
}
#endif

/* ---- zstd ------------------------------------------------------------------------------------ */

static bool begins_zstd(const unsigned char *m, size_t n) /* a frame or a skippable frame */
{
    return n >= 4 && ((m[0] == 0x28 && m[1] == 0xB5 && m[2] == 0x2F && m[3] == 0xFD) ||
                      (m[0] >> 4 == 5 && m[1] == 0x2A && m[2] == 0x4D && m[3] == 0x18));
}

#ifdef MS_HAVE_ZSTD
static musec_status open_zstd(ms_error *e, ms_unpack *u)
{
    const ZSTD_bounds bounds = ZSTD_dParam_getBounds(ZSTD_d_windowLogMax);
    int               log    = bounds.lowerBound; /* log2 of the largest window allowed */

    while (log < bounds.upperBound && (uint64_t)2 << log <= u->memory)
        log++;
    u->state = ZSTD_createDStream();
    if (u->state == NULL ||
        ZSTD_isError(ZSTD_DCtx_setParameter(u->state, ZSTD_d_windowLogMax, log)))
        return no_memory(e, u);
    return MUSEC_OK;
}

static musec_status failed_zstd(ms_error *e, const ms_unpack *u, size_t rc)
{
    switch (ZSTD_getErrorCode(rc)) {
    case ZSTD_error_frameParameter_windowTooLarge: return window_too_large(e, u);
    case ZSTD_error_memory_allocation: return no_memory(e, u);
    default: return damaged(e, u, ZSTD_getErrorName(rc));
    }
}

static musec_status decode_zstd(ms_error *e, ms_unpack *u, unsigned char *out, size_t capacity,
                                size_t *got)
{
    ZSTD_inBuffer  from = { u->in, u->n, u->at };
    ZSTD_outBuffer to   = { out, capacity, 0 };
    size_t         rc;

    if (u->between && u->at == u->n) return MUSEC_OK; /* a call would begin another frame */
    rc         = ZSTD_decompressStream(u->state, &to, &from);
    u->at      = from.pos;
    *got       = to.pos;
    u->between = rc == 0;
    return ZSTD_isError(rc) ? failed_zstd(e, u, rc) : MUSEC_OK;
}

static void close_zstd(ms_unpack *u) { ZSTD_freeDStream(u->state); }
#endif

/* ---- xz -------------------------------------------------------------------------------------- */

static bool begins_xz(const unsigned char *m, size_t n)
{
    return n >= 6 && memcmp(m,
                            "\xFD"
                            "7zXZ\0",
                            6) == 0;
}

#ifdef MS_HAVE_LZMA
static musec_status open_xz(ms_error *e, ms_unpack *u)
{
    lzma_stream *z = calloc(1, sizeof *z); /* all zeros is LZMA_STREAM_INIT */
    u->state       = z;
    if (z == NULL || lzma_stream_decoder(z, u->memory, LZMA_CONCATENATED) != LZMA_OK)
        return no_memory(e, u);
    return MUSEC_OK;
}

static musec_status failed_xz(ms_error *e, const ms_unpack *u, lzma_ret rc)
{
    switch (rc) {
    case LZMA_MEMLIMIT_ERROR: return window_too_large(e, u);
    case LZMA_MEM_ERROR: return no_memory(e, u);
    case LZMA_FORMAT_ERROR: return damaged(e, u, "what follows is no xz stream");
    case LZMA_OPTIONS_ERROR: return damaged(e, u, "it uses a filter that is not known here");
    default: return damaged(e, u, "the data is corrupt");
    }
}

static musec_status decode_xz(ms_error *e, ms_unpack *u, unsigned char *out, size_t capacity,
                              size_t *got)
{
    lzma_stream *z = u->state;
    lzma_ret     rc;

    if (u->between) return MUSEC_OK; /* the decoder is at the end of all streams */
    z->next_in   = u->in + u->at;
    z->avail_in  = u->n - u->at;
    z->next_out  = out;
    z->avail_out = capacity;
    rc           = lzma_code(z, u->ended ? LZMA_FINISH : LZMA_RUN);
    u->at        = u->n - z->avail_in;
    *got         = capacity - z->avail_out;
    u->between   = rc == LZMA_STREAM_END;
    if (rc == LZMA_OK || rc == LZMA_STREAM_END || rc == LZMA_BUF_ERROR) return MUSEC_OK;
    return failed_xz(e, u, rc);
}

static void close_xz(ms_unpack *u)
{
    if (u->state != NULL) lzma_end(u->state);
    free(u->state);
}
#endif

/* ---- the table ------------------------------------------------------------------------------- */

#ifdef MS_HAVE_ZLIB
#define GZIP_CALLS open_gzip, decode_gzip, close_gzip, zlibVersion
#else
#define GZIP_CALLS NULL, NULL, NULL, NULL
#endif
#ifdef MS_HAVE_ZSTD
#define ZSTD_CALLS open_zstd, decode_zstd, close_zstd, ZSTD_versionString
#else
#define ZSTD_CALLS NULL, NULL, NULL, NULL
#endif
#ifdef MS_HAVE_LZMA
#define XZ_CALLS open_xz, decode_xz, close_xz, lzma_version_string
#else
#define XZ_CALLS NULL, NULL, NULL, NULL
#endif

static const packing packings[] = {
    { "gzip", ".gz", "zlib", "zlib1g-dev", "gzip -d", begins_gzip, GZIP_CALLS },
    { "zstd", ".zst", "zstd", "libzstd-dev", "zstd -d --long=31", begins_zstd, ZSTD_CALLS },
    { "xz", ".xz", "liblzma", "liblzma-dev", "xz -d", begins_xz, XZ_CALLS },
};

bool ms_unpack_library_at(size_t index, ms_unpack_library *out)
{
    if (index >= COUNT(packings)) return false;
    const packing *p = &packings[index];
    *out = (ms_unpack_library){ p->library, p->name, p->package, p->open ? p->version() : NULL };
    return true;
}

static const packing *named(const char *name)
{
    const size_t n = strlen(name);
    for (size_t i = 0; i < COUNT(packings); i++) {
        const size_t suffix = strlen(packings[i].suffix);
        if (n > suffix && strcmp(name + n - suffix, packings[i].suffix) == 0) return &packings[i];
    }
    return NULL;
}

const char *ms_unpack_suffix(const char *name)
{
    const packing *p = named(name);
    return p == NULL ? NULL : name + strlen(name) - strlen(p->suffix);
}

/* ---- opening and reading --------------------------------------------------------------------- */

static musec_status open_file(ms_error *e, ms_unpack *u)
{
    struct stat sb;

    u->own_fd = strcmp(u->path, "-") != 0;
    u->fd     = u->own_fd ? open(u->path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
    if (u->fd < 0 || fstat(u->fd, &sb) != 0)
        return ms_fail(e, MUSEC_EIO, "%s: cannot open for reading (%s)", u->path, strerror(errno));
    if (S_ISDIR(sb.st_mode))
        return ms_fail(e, MUSEC_EIO, "%s: cannot read (%s)", u->path, strerror(EISDIR));
    u->may_wait = !S_ISREG(sb.st_mode);
    return MUSEC_OK;
}

static musec_status choose(ms_error *e, ms_unpack *u)
{
    const packing *by_name = named(u->path);

    for (size_t i = 0; i < COUNT(packings); i++)
        if (packings[i].begins(u->in, u->n)) u->how = &packings[i];
    if (u->how == NULL && by_name != NULL)
        return ms_fail(e, MUSEC_EFORMAT,
                       "%s: does not begin like %s: it is %s; copy or download it again, or rename "
                       "it if it is not packed",
                       u->path, by_name->name, u->n == 0 ? "empty" : "damaged or misnamed");
    if (u->how != NULL && u->how->open == NULL)
        return ms_fail(e, MUSEC_ENOTSUP,
                       "%s: is packed by %s, which this build cannot read: install the package %s "
                       "and build again, or unpack it first",
                       u->path, u->how->name, u->how->package);
    return u->how == NULL ? MUSEC_OK : u->how->open(e, u);
}

musec_status ms_unpack_open(ms_error *e, const char *path, uint64_t memory, const atomic_bool *stop,
                            ms_unpack **out)
{
    ms_unpack   *u = calloc(1, sizeof *u);
    musec_status st;

    *out = NULL;
    if (u != NULL) {
        u->fd     = -1;
        u->stop   = stop;
        u->memory = memory > 0 ? memory : usual_memory();
        u->path   = strdup(path);
    }
    if (u == NULL || u->path == NULL) TRY(ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory", path));
    TRY(open_file(e, u));
    while (u->n < MAGIC_BYTES && !u->ended)
        TRY(refill(e, u));
    TRY(choose(e, u));
    *out = u;
    u    = NULL;
done:
    ms_unpack_close(u);
    return st;
}

void ms_unpack_close(ms_unpack *u)
{
    if (u == NULL) return;
    if (u->how != NULL && u->how->close != NULL) u->how->close(u);
    if (u->fd >= 0 && u->own_fd) close(u->fd);
    free(u->path);
    free(u);
}

static musec_status decode(ms_error *e, ms_unpack *u, unsigned char *out, size_t capacity,
                           size_t *got)
{
    if (u->how != NULL) return u->how->decode(e, u, out, capacity, got);
    *got = u->n - u->at < capacity ? u->n - u->at : capacity;
    memcpy(out, u->in + u->at, *got);
    u->at += *got;
    u->between = true;
    return MUSEC_OK;
}

musec_status ms_unpack_read(ms_error *e, ms_unpack *u, void *buf, size_t capacity, size_t *got)
{
    musec_status st = MUSEC_OK;

    *got = 0;
    while (*got == 0) {
        if (u->at == u->n && !u->ended) {
            u->at = u->n = 0;
            TRY(refill(e, u));
        }
        const size_t before = u->at;
        TRY(decode(e, u, buf, capacity, got));
        if (*got > 0 || u->at != before) continue;
        if (u->at < u->n) { /* no decoder does that, but it would loop forever */
            st = damaged(e, u, "nothing can be made of what follows");
            break;
        }
        if (!u->ended) continue;
        if (!u->between)
            st = ms_fail(e, MUSEC_EFORMAT,
                         "%s: truncated: its %s data stops in the middle, at byte %lld; copy or "
                         "download it again",
                         u->path, u->how->name, (long long)u->read);
        break;
    }
done:
    return st;
}

int64_t ms_unpack_consumed(const ms_unpack *u) { return u->read - (int64_t)(u->n - u->at); }
