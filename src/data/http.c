/* http.c - a request and its response. */
#define _POSIX_C_SOURCE 200809L
#include "data/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *ms_http_reason(int status)
{
    static const struct {
        int         status;
        const char *reason;
    } known[] = {
        { 400, "Bad Request" },
        { 401, "Unauthorized" },
        { 403, "Forbidden" },
        { 404, "Not Found" },
        { 408, "Request Timeout" },
        { 410, "Gone" },
        { 416, "Range Not Satisfiable" },
        { 429, "Too Many Requests" },
        { 451, "Unavailable For Legal Reasons" },
        { 500, "Internal Server Error" },
        { 502, "Bad Gateway" },
        { 503, "Service Unavailable" },
        { 504, "Gateway Timeout" },
    };
    for (size_t i = 0; i < COUNT(known); i++)
        if (known[i].status == status) return known[i].reason;
    return "";
}

#ifdef MS_HAVE_CURL

#include <curl/curl.h>

#include "core/clock.h"

enum { CONNECT_S = 30, STALL_BYTES_S = 100, MAX_REDIRECTS = 10, MAX_IGNORED = 1 << 16 };

typedef struct exchange {
    const ms_http_request *request;
    ms_http_response      *response;
    bool                   begun, unwanted, stalled;
    double                 window_ms; /* start of the window in which enough must come */
    curl_off_t             window_bytes;
    size_t                 ignored; /* bytes of the page that came with an error */
} exchange;

/* ---- headers --------------------------------------------------------------------------------- */

/* Is it a line of this header?  Then `value` gets its value, trimmed and cut to fit. */
static bool header_is(const char *line, size_t n, const char *name, char *value, size_t capacity)
{
    const size_t length = strlen(name);

    if (n <= length || line[length] != ':' || strncasecmp(line, name, length) != 0) return false;
    line += length + 1;
    n -= length + 1;
    while (n > 0 && (*line == ' ' || *line == '\t')) {
        line++;
        n--;
    }
    while (n > 0 && (line[n - 1] == '\r' || line[n - 1] == '\n' || line[n - 1] == ' '))
        n--;
    snprintf(value, capacity, "%.*s", (int)n, line);
    return true;
}

/* The ETag of a large file in object storage is its sha256: 64 digits in quotes. */
static void parse_sha256(const char *value, char sha256[MS_SHA256_HEX])
{
    const size_t digits = strspn(value + (*value == '"'), "0123456789abcdef");

    if (digits != MS_SHA256_HEX - 1) return;
    memcpy(sha256, value + (*value == '"'), digits);
    sha256[digits] = '\0';
}

/* "bytes 1000-1999/2000"; the last may be "*". */
static void parse_range(const char *value, ms_http_response *r)
{
    char *end = NULL;

    if (strncasecmp(value, "bytes ", 6) != 0) return;
    if (value[6] >= '0' && value[6] <= '9') r->from = strtoll(value + 6, &end, 10);
    value = strchr(value, '/');
    if (value != NULL && value[1] >= '0' && value[1] <= '9')
        r->bytes = strtoll(value + 1, &end, 10);
}

static size_t on_header(char *line, size_t size, size_t n, void *arg)
{
    exchange         *x = arg;
    ms_http_response *r = x->response;
    char              value[MS_HTTP_TAG];

    n *= size;
    if (n >= 5 && strncasecmp(line, "HTTP/", 5) == 0) { /* a new response replaces the last one */
        char announced[MS_SHA256_HEX];
        memcpy(announced, r->sha256,
               sizeof announced); /* except for this, which comes before a redirect */
        *r = (ms_http_response){ .bytes = -1, .from = -1 };
        memcpy(r->sha256, announced, sizeof announced);
    } else if (header_is(line, n, "ETag", value, sizeof value)) {
        if (value[0] == '"') memcpy(r->tag, value, sizeof value); /* a weak one begins with W/ */
    } else if (header_is(line, n, "Last-Modified", value, sizeof value)) {
        if (r->tag[0] == '\0') memcpy(r->tag, value, sizeof value);
    } else if (header_is(line, n, "Content-Range", value, sizeof value)) {
        parse_range(value, r);
    } else if (header_is(line, n, "X-Linked-ETag", value, sizeof value)) {
        parse_sha256(value, r->sha256);
    }
    return n;
}

/* ---- the body -------------------------------------------------------------------------------- */

/* Completes the response after its headers. */
static void finish_response(CURL *curl, ms_http_response *r)
{
    long       status = 0;
    curl_off_t bytes = -1, wait = 0;

    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &bytes);
    curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &wait);
    r->status        = (int)status;
    r->retry_after_s = (double)wait;
    if (status == 200) r->bytes = bytes;
}

typedef struct receiver {
    CURL     *curl;
    exchange *x;
} receiver;

static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
    const receiver        *to = arg;
    exchange              *x  = to->x;
    const ms_http_request *q  = x->request;

    n *= size;
    if (!x->begun) {
        finish_response(to->curl, x->response);
        if (x->response->status != 200 && x->response->status != 206) {
            x->ignored += n;
            return x->ignored <= MAX_IGNORED ? n : 0;
        }
        x->begun    = true;
        x->unwanted = !q->on_begin(q->arg, x->response);
    }
    if (!x->unwanted) x->unwanted = !q->on_data(q->arg, data, n);
    return x->unwanted ? 0 : n;
}

/* Called with the bytes so far, once a second even if none come.  libcurl's own speed limit reacts
 * some seconds later. */
static int on_tick(void *arg, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up)
{
    exchange    *x  = arg;
    const double ms = ms_clock_ms();

    (void)total, (void)up_total, (void)up;
    if (x->request->stop != NULL && *x->request->stop != 0) return 1;
    if (now < x->window_bytes || now - x->window_bytes >= STALL_BYTES_S * x->request->stall_s) {
        x->window_ms    = ms; /* enough came, or a redirect began to count anew */
        x->window_bytes = now;
    }
    x->stalled = ms - x->window_ms > 1000.0 * (double)x->request->stall_s;
    return x->stalled;
}

/* ---- the request ----------------------------------------------------------------------------- */

static bool is_hopeless(CURLcode code)
{
    switch (code) {
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_TOO_MANY_REDIRECTS:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM: return true;
    default: return false;
    }
}

/* An option that could not be set, for lack of memory, must not be left out. */
#define SET(...) (ok = ok && curl_easy_setopt(__VA_ARGS__) == CURLE_OK)

/* https must stay https; other schemes (file:, ftp:, ...) are refused. */
static bool set_protocols(CURL *curl, const char *url)
{
    const bool secure = strncasecmp(url, "https:", 6) == 0;
    bool       ok     = true;
#if LIBCURL_VERSION_NUM >= 0x075500
    SET(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    SET(curl, CURLOPT_REDIR_PROTOCOLS_STR, secure ? "https" : "http,https");
#else
    const long both = CURLPROTO_HTTP | CURLPROTO_HTTPS;
    SET(curl, CURLOPT_PROTOCOLS, both);
    SET(curl, CURLOPT_REDIR_PROTOCOLS, secure ? (long)CURLPROTO_HTTPS : both);
#endif
    return ok;
}

/* False without memory. */
static bool set_up(CURL *curl, exchange *x, receiver *to, char *reason)
{
    const ms_http_request *q = x->request;
    char                   agent[64];
    bool                   ok = true;

    snprintf(agent, sizeof agent, "musec/%s", musec_version()); /* libcurl keeps a copy */
    SET(curl, CURLOPT_URL, q->url);
    ok = ok && set_protocols(curl, q->url);
    SET(curl, CURLOPT_USERAGENT, agent);
    SET(curl, CURLOPT_FOLLOWLOCATION, 1L);
    SET(curl, CURLOPT_MAXREDIRS, (long)MAX_REDIRECTS);
    SET(curl, CURLOPT_NOSIGNAL, 1L);
    SET(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    SET(curl, CURLOPT_HEADERFUNCTION, on_header);
    SET(curl, CURLOPT_HEADERDATA, x);
    SET(curl, CURLOPT_WRITEFUNCTION, on_body);
    SET(curl, CURLOPT_WRITEDATA, to);
    SET(curl, CURLOPT_XFERINFOFUNCTION, on_tick);
    SET(curl, CURLOPT_XFERINFODATA, x);
    SET(curl, CURLOPT_NOPROGRESS, 0L);
    SET(curl, CURLOPT_ERRORBUFFER, reason);
    return ok;
}

#undef SET

/* Sets Range and If-Range; false without memory. */
static bool set_range(CURL *curl, const ms_http_request *q, struct curl_slist **headers)
{
    char range[32], line[MS_HTTP_TAG + 16];

    if (q->from <= 0) return true;
    snprintf(range, sizeof range, "%lld-", (long long)q->from);
    if (curl_easy_setopt(curl, CURLOPT_RANGE, range) != CURLE_OK) return false;
    if (q->if_tag == NULL) return true;
    snprintf(line, sizeof line, "If-Range: %s", q->if_tag);
    *headers = curl_slist_append(NULL, line);
    return *headers != NULL && curl_easy_setopt(curl, CURLOPT_HTTPHEADER, *headers) == CURLE_OK;
}

ms_http_end ms_http_get(const ms_http_request *request, ms_http_response *response, ms_error *why)
{
    char               reason[CURL_ERROR_SIZE] = "";
    exchange           x                       = { .request = request, .response = response };
    receiver           to                      = { .x = &x };
    struct curl_slist *headers                 = NULL;
    CURL              *curl                    = curl_easy_init();
    ms_http_end        end                     = MS_HTTP_FAILED;
    CURLcode           code                    = CURLE_OUT_OF_MEMORY;

    *response   = (ms_http_response){ .bytes = -1, .from = -1 };
    to.curl     = curl;
    x.window_ms = ms_clock_ms();
    if (curl != NULL) {
        if (set_up(curl, &x, &to, reason) && set_range(curl, request, &headers))
            code = curl_easy_perform(curl);
        finish_response(curl, response);
        if (code == CURLE_OK && !x.begun && (response->status == 200 || response->status == 206))
            x.unwanted = !request->on_begin(request->arg, response); /* an empty body */
    }
    if (x.unwanted) {
        end = MS_HTTP_UNWANTED;
    } else if (code == CURLE_OK || x.ignored > MAX_IGNORED) {
        end = MS_HTTP_WHOLE;
    } else if (x.stalled) {
        ms_error_set(why, "nothing came for %lld seconds", (long long)request->stall_s);
    } else if (code == CURLE_ABORTED_BY_CALLBACK) {
        end = MS_HTTP_STOPPED;
    } else {
        end = is_hopeless(code) ? MS_HTTP_HOPELESS : MS_HTTP_FAILED;
        ms_error_set(why, "%s", reason[0] != '\0' ? reason : curl_easy_strerror(code));
    }
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    return end;
}

const char *ms_http_version(void) { return curl_version_info(CURLVERSION_NOW)->version; }

#else

ms_http_end ms_http_get(const ms_http_request *request, ms_http_response *response, ms_error *why)
{
    (void)request;
    *response = (ms_http_response){ .bytes = -1, .from = -1 };
    ms_error_set(why, "this build of musec cannot fetch: install the package libcurl4-openssl-dev "
                      "and build again");
    return MS_HTTP_ABSENT;
}

const char *ms_http_version(void) { return NULL; }

#endif
