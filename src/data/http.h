/* http.h - one request to one address, by libcurl.
 *
 * Redirects are followed, certificates are checked, an address that begins with https never leads
 * to one without.  What is done about a failure is up to the caller (fetch.h). */
#ifndef MS_DATA_HTTP_H
#define MS_DATA_HTTP_H

#include <stdbool.h>

#include "core/sha256.h"

enum { MS_HTTP_TAG = 256 };

typedef struct ms_http_response {  /* of the last one, where redirects were followed */
    int     status;                /* 200, 206, 404, ...; 0: nothing came */
    int64_t bytes;                 /* of the whole file; -1: unknown */
    int64_t from;                  /* where a 206 begins; -1: unknown */
    double  retry_after_s;         /* 0: unknown */
    char    tag[MS_HTTP_TAG];      /* ETag if it is a strong one, else Last-Modified; may be "" */
    char    sha256[MS_SHA256_HEX]; /* as Hugging Face announces it for large files; may be "" */
} ms_http_response;

typedef struct ms_http_request {
    const char         *url;
    int64_t             from;    /* bytes that are here already; 0: none */
    const char         *if_tag;  /* the tag of the file that they are of; NULL: not checked */
    int64_t             stall_s; /* fail if next to nothing comes for so long */
    const volatile int *stop;    /* NULL, or: once it is not 0, fail */
    /* Called once, before the first byte, for 200 and 206 alone; then with the bytes as they come.
     * false: no more of it is wanted. */
    bool (*on_begin)(void *arg, const ms_http_response *response);
    bool (*on_data)(void *arg, const char *data, size_t bytes);
    void *arg;
} ms_http_request;

typedef enum ms_http_end {
    MS_HTTP_WHOLE,    /* a response with all of its body; the status may still say 404 */
    MS_HTTP_FAILED,   /* on the way; may work the next time */
    MS_HTTP_HOPELESS, /* the address is malformed, the certificate is wrong, ... */
    MS_HTTP_STOPPED,  /* by `stop` */
    MS_HTTP_UNWANTED, /* by a callback */
    MS_HTTP_ABSENT,   /* this build has no libcurl */
} ms_http_end;

/* Makes a request.  `why` has the message of any end but WHOLE, STOPPED and UNWANTED. */
ms_http_end ms_http_get(const ms_http_request *request, ms_http_response *response, ms_error *why);

/* Returns the reason phrase of a status, "Not Found"; "" for rare ones. */
const char *ms_http_reason(int status);

/* Returns the version of libcurl, or NULL if this build is without it. */
const char *ms_http_version(void);

#endif
