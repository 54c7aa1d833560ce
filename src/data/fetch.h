/* fetch.h - one file from one of several addresses: whole and checked under its name, or not there.
 *
 * PATH.part grows, PATH.part.json says what it is a part of: the address, the tag that the server
 * gave the file (ETag, Last-Modified), its length.  A later call goes on where the part ends, with
 * Range and If-Range, so that a file that has changed meanwhile is fetched anew; so does a call
 * after kill -9.  Length and sha256 are checked before the part is renamed.
 *
 * A failure that may pass (the line, 408, 429, 5xx, a checksum that a resumed part does not have)
 * is tried again at the same address, after delay_ms, twice that, four times that, ...; a try that
 * brought the file further does not count.  Other failures (404, another file than expected) and
 * `retries` of the first kind in a row lead to the next address. */
#ifndef MS_DATA_FETCH_H
#define MS_DATA_FETCH_H

#include <stdbool.h>

#include "core/file.h"
#include "core/sha256.h"

#define MS_FETCH_MAX_BYTES ((int64_t)1 << 36) /* 64 GiB */
enum { MS_FETCH_RETRIES = 5, MS_FETCH_DELAY_MS = 1000, MS_FETCH_STALL_S = 30 };

typedef struct ms_fetch_progress {
    int64_t have, total; /* bytes of the file; total -1: not known */
    int64_t resumed;     /* bytes that were there before this call */
    double  seconds;     /* since the call */
} ms_fetch_progress;

typedef struct ms_fetch_config {
    const char *const  *urls;
    size_t              n_urls;
    const char         *path;
    int64_t             bytes;  /* -1: not known before */
    const char         *sha256; /* NULL: not known before */
    const char         *learnt; /* NULL, or the file that recorded these at an earlier call: */
    bool                learnt_bytes, learnt_sha256; /* which of the two comes from there */
    int64_t             max_bytes;                   /* a file that is larger is refused */
    const char         *magic;       /* what its first bytes must be; NULL: anything */
    size_t              magic_bytes; /* up to 8 */
    const char         *what;        /* the kind of file that begins so, for messages */
    bool                verify;      /* read a file that is there already for its sha256 */
    int64_t             retries, delay_ms, stall_s;
    const volatile int *stop; /* NULL, or: once it is not 0, fail and keep the part */
    void (*on_progress)(void *arg, const ms_fetch_progress *p); /* a few times a second */
    void (*on_notice)(void *arg, const char *text); /* what went wrong and is tried again */
    void *arg;
} ms_fetch_config;

typedef struct ms_fetched {
    bool found; /* It was there before the call.  Then `url` is not set, and sha256 is "" unless it
                   was verified. */
    int64_t     bytes;    /* of the file */
    int64_t     received; /* bytes that this call received, including discarded ones */
    const char *url;      /* the one it came from, of the config's */
    char        sha256[MS_SHA256_HEX];
} ms_fetched;

musec_status ms_fetch(ms_error *e, const ms_fetch_config *cfg, ms_fetched *out);

#endif
