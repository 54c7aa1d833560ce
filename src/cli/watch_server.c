/* watch_server.c - the live page, by libmicrohttpd.
 *
 * Three addresses: / is the page, /page.css its style, /data.json the runs as the main thread last
 * read them.  The server binds to the loopback address, and answers only requests whose Host is
 * this machine: a foreign page whose name resolves to it (DNS rebinding) gets nothing. */
#define _POSIX_C_SOURCE 200809L
#include "cli/watch_server.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifdef MS_HAVE_MICROHTTPD

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>

#include "core/embedded.h"

enum { USUAL_PORT = 8420, IDLE_S = 30, CLIENTS = 16 };

struct ms_watch_server {
    struct MHD_Daemon *daemon;
    pthread_mutex_t    lock;
    char              *data; /* under the lock */
    int                port;
};

const char *ms_watch_server_version(void) { return MHD_get_version(); }

/* ---- answers --------------------------------------------------------------------------------- */

static bool is_this_host(const char *host)
{
    static const char *const names[] = { "127.0.0.1", "localhost", "[::1]" };
    for (size_t i = 0; host != NULL && i < COUNT(names); i++) {
        const size_t n = strlen(names[i]);
        if (strncmp(host, names[i], n) == 0 && (host[n] == '\0' || host[n] == ':')) return true;
    }
    return false;
}

static enum MHD_Result answer(struct MHD_Connection *c, unsigned status, const char *type,
                              const char *text, size_t bytes, enum MHD_ResponseMemoryMode mode)
{
    static const char *const headers[][2] = {
        { "Cache-Control", "no-store" },
        { "X-Content-Type-Options", "nosniff" },
        { "Content-Security-Policy",
          "default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; "
          "style-src 'self' 'unsafe-inline'" },
    };
    /* the library does not write to it */
    struct MHD_Response *r = MHD_create_response_from_buffer(bytes, (void *)text, mode);
    enum MHD_Result      queued;
    if (r == NULL) return MHD_NO;
    MHD_add_response_header(r, "Content-Type", type);
    for (size_t i = 0; i < COUNT(headers); i++)
        MHD_add_response_header(r, headers[i][0], headers[i][1]);
    queued = MHD_queue_response(c, status, r);
    MHD_destroy_response(r);
    return queued;
}

static enum MHD_Result answer_file(struct MHD_Connection *c, const char *type,
                                   const unsigned char *text, size_t bytes)
{
    return answer(c, MHD_HTTP_OK, type, (const char *)text, bytes, MHD_RESPMEM_PERSISTENT);
}

static enum MHD_Result answer_words(struct MHD_Connection *c, unsigned status, const char *words)
{
    return answer(c, status, "text/plain; charset=utf-8", words, strlen(words),
                  MHD_RESPMEM_PERSISTENT);
}

static enum MHD_Result answer_data(struct MHD_Connection *c, ms_watch_server *s)
{
    enum MHD_Result queued;
    pthread_mutex_lock(&s->lock);
    queued = s->data == NULL ? answer_words(c, MHD_HTTP_SERVICE_UNAVAILABLE, "not read yet\n")
                             : answer(c, MHD_HTTP_OK, "application/json", s->data, strlen(s->data),
                                      MHD_RESPMEM_MUST_COPY);
    pthread_mutex_unlock(&s->lock);
    return queued;
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_bytes, void **request)
{
    (void)version, (void)upload, (void)upload_bytes, (void)request;
    if (!is_this_host(MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Host")))
        return answer_words(c, MHD_HTTP_FORBIDDEN, "only this machine may watch\n");
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return answer_words(c, MHD_HTTP_METHOD_NOT_ALLOWED, "there is only something to read\n");
    if (strcmp(url, "/") == 0)
        return answer_file(c, "text/html; charset=utf-8", ms_embedded_watch_page,
                           ms_embedded_watch_page_bytes);
    if (strcmp(url, "/page.css") == 0)
        return answer_file(c, "text/css; charset=utf-8", ms_embedded_page_css,
                           ms_embedded_page_css_bytes);
    if (strcmp(url, "/data.json") == 0) return answer_data(c, arg);
    return answer_words(c, MHD_HTTP_NOT_FOUND, "there is / and /data.json\n");
}

/* ---- the server ------------------------------------------------------------------------------ */

/* Starts the server's thread with signals blocked: the main thread waits for them. */
static struct MHD_Daemon *listen_on(ms_watch_server *s, int port)
{
    struct sockaddr_in where = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    struct MHD_Daemon *daemon;
    sigset_t           all, before;

    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    daemon = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, (uint16_t)port, NULL, NULL,
                              on_request, s, MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&where,
                              MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
                              MHD_OPTION_CONNECTION_LIMIT, (unsigned)CLIENTS, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return daemon;
}

musec_status ms_watch_server_start(ms_error *e, int port, ms_watch_server **out)
{
    ms_watch_server            *s = calloc(1, sizeof *s);
    const union MHD_DaemonInfo *info;

    *out = NULL;
    if (s == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory for the page");
    pthread_mutex_init(&s->lock, NULL);
    s->daemon = listen_on(s, port != 0 ? port : USUAL_PORT);
    if (s->daemon == NULL && port == 0) s->daemon = listen_on(s, 0);
    if (s->daemon == NULL) {
        ms_watch_server_stop(s);
        return ms_fail(e, MUSEC_EIO,
                       "127.0.0.1:%d: cannot listen there; is the port taken?  Give another --port",
                       port);
    }
    info    = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_BIND_PORT);
    s->port = info != NULL ? info->port : port;
    *out    = s;
    return MUSEC_OK;
}

int ms_watch_server_port(const ms_watch_server *s) { return s->port; }

void ms_watch_server_put(ms_watch_server *s, char *text)
{
    pthread_mutex_lock(&s->lock);
    free(s->data);
    s->data = text;
    pthread_mutex_unlock(&s->lock);
}

void ms_watch_server_stop(ms_watch_server *s)
{
    if (s == NULL) return;
    if (s->daemon != NULL) MHD_stop_daemon(s->daemon);
    pthread_mutex_destroy(&s->lock);
    free(s->data);
    free(s);
}

#else

const char *ms_watch_server_version(void) { return NULL; }

musec_status ms_watch_server_start(ms_error *e, int port, ms_watch_server **out)
{
    (void)port;
    *out = NULL;
    return ms_fail(e, MUSEC_ENOTSUP,
                   "this build has no libmicrohttpd, so there is no page; install "
                   "libmicrohttpd-dev and build again");
}

int  ms_watch_server_port(const ms_watch_server *s) { return s != NULL; }
void ms_watch_server_put(ms_watch_server *s, char *text) { (void)s, free(text); }
void ms_watch_server_stop(ms_watch_server *s) { (void)s; }

#endif
