/* tcp_meet.c - how the ranks of a job find each other where no MPI brings them together.
 *
 * Rank 0 listens at MASTER_PORT of its machine, whose name or address all know as MASTER_ADDR.
 * Every other rank connects to it, says who it is and at which port of its own it listens, and gets
 * the addresses of all; then each connects to those of lower ranks.  torchrun has a store of its
 * own at MASTER_PORT, and says so: then it is the next port.
 *
 * A rank that comes from the machine of rank 0 may have an address there that leads nowhere from
 * elsewhere (127.0.0.1): it stands for MASTER_ADDR.
 *
 * What comes to the port and does not know the words of this job is turned away; whoever reads the
 * network can know them: like that of MPI, it is meant to be one that can be trusted. */
#define _POSIX_C_SOURCE 200809L
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/tcp.h"
#include "core/clock.h"

enum {
    LIMIT_MS = 60000, /* until all have met */
    HELLO_MS = 5000,  /* until a connection has said who it is */
    RETRY_US = 50000,
};

typedef enum socket_kind { DATA, NOTICE } socket_kind;

typedef struct hello {
    char    magic[8];
    int32_t size, rank;
    int32_t kind; /* socket_kind */
    int32_t port; /* at which the rank listens */
} hello;

static const char magic[8] = "musec-1";

typedef struct place { /* where a rank listens */
    struct sockaddr_storage address;
    uint32_t                length; /* 0: at MASTER_ADDR */
    int32_t                 port;
} place;

typedef struct meeting {
    const ms_ranks *ranks;
    ms_tcp_sockets *sockets;
    const char     *host;
    int             port;
    double          end; /* by the clock */
    int             listener;
    int             listener_port;
    place          *places;   /* (size) */
    char            why[128]; /* the last connection, or listening, has failed */
    bool            lasts;    /* and trying again will not help */
} meeting;

/* ---- bytes ----------------------------------------------------------------------------------- */

bool ms_tcp_send(int to, const void *data, int64_t bytes)
{
    for (int64_t at = 0, n; at < bytes; at += n) {
        n = send(to, (const char *)data + at, (size_t)(bytes - at), MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            n = 0;
        else if (n < 0)
            return false;
    }
    return true;
}

bool ms_tcp_receive(int from, void *data, int64_t bytes)
{
    for (int64_t at = 0, n; at < bytes; at += n) {
        n = recv(from, (char *)data + at, (size_t)(bytes - at), 0);
        if (n == 0) errno = 0;
        if (n == 0 || (n < 0 && errno != EINTR)) return false;
        if (n < 0) n = 0;
    }
    return true;
}

static void send_at_once(int fd)
{
    const int yes = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

/* Waits until something can be read; false: it took too long. */
static bool wait_readable(int fd, double end)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    for (double left; (left = end - ms_clock_ms()) > 0.0;) {
        const int n = poll(&p, 1, (int)left + 1);
        if (n > 0) return true;
        if (n < 0 && errno != EINTR) return false;
    }
    return false;
}

static bool receive_until(int fd, void *data, int64_t bytes, double end)
{
    for (int64_t at = 0; at < bytes;) {
        if (!wait_readable(fd, end)) return false;
        const ssize_t n = recv(fd, (char *)data + at, (size_t)(bytes - at), 0);
        if (n == 0 || (n < 0 && errno != EINTR)) return false;
        if (n > 0) at += n;
    }
    return true;
}

/* ---- listening and connecting ---------------------------------------------------------------- */

static int listen_at(const struct addrinfo *a)
{
    const int yes = 1, no = 0;
    const int fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
    if (fd < 0) return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (a->ai_family == AF_INET6) /* and what comes by version 4 */
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, 1024) == 0) return fd;
    close(fd);
    return -1;
}

static int port_of(int fd)
{
    struct sockaddr_storage a = { 0 };
    socklen_t               n = sizeof a;
    if (getsockname(fd, (struct sockaddr *)&a, &n) != 0) return 0;
    return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
                                         : ((struct sockaddr_in *)&a)->sin_port);
}

/* Keeps why a call has failed: of getaddrinfo() the code, else 0 and errno. */
static void keep_reason(meeting *m, int code)
{
    const int   error = code == EAI_MEMORY ? ENOMEM : errno;
    const char *words = code == 0 || code == EAI_SYSTEM || code == EAI_MEMORY ? strerror(error)
                                                                              : gai_strerror(code);
    snprintf(m->why, sizeof m->why, "%s", words);
    m->lasts = code == EAI_MEMORY || ((code == 0 || code == EAI_SYSTEM) &&
                                      (error == ENOMEM || error == EMFILE || error == ENFILE));
}

/* Listens at a port on all addresses of this machine, by version 6 where that is; 0: at any. */
static musec_status start_listening(ms_error *e, meeting *m, int port)
{
    const int        families[] = { AF_INET6, AF_INET };
    struct addrinfo *list       = NULL;
    char             text[16];
    int              code;

    snprintf(text, sizeof text, "%d", port);
    for (size_t i = 0; i < COUNT(families) && m->listener < 0; i++) {
        const struct addrinfo hints = { .ai_flags    = AI_PASSIVE | AI_NUMERICSERV,
                                        .ai_family   = families[i],
                                        .ai_socktype = SOCK_STREAM };
        code                        = getaddrinfo(NULL, text, &hints, &list);
        if (code == 0) m->listener = listen_at(list);
        if (m->listener < 0) keep_reason(m, code);
        if (code == 0) freeaddrinfo(list);
    }
    if (m->listener < 0)
        return ms_fail(e, MUSEC_EIO, "ranks cannot meet at port %d of this machine: %s%s", port,
                       m->why, port > 0 ? "; MASTER_PORT names it" : "");
    m->listener_port = port_of(m->listener);
    return MUSEC_OK;
}

/* Connects to rank 0 at MASTER_ADDR, or to another rank at its place. */
static int try_connect(meeting *m, const place *to, int port)
{
    const struct addrinfo hints = { .ai_flags    = AI_NUMERICSERV,
                                    .ai_family   = AF_UNSPEC,
                                    .ai_socktype = SOCK_STREAM };
    struct addrinfo      *list  = NULL;
    char                  text[16];
    int                   fd = -1, code;

    if (to != NULL && to->length > 0) {
        struct sockaddr_storage a = to->address;
        if (a.ss_family == AF_INET6)
            ((struct sockaddr_in6 *)&a)->sin6_port = htons((uint16_t)port);
        else
            ((struct sockaddr_in *)&a)->sin_port = htons((uint16_t)port);
        fd = socket(a.ss_family, SOCK_STREAM, 0);
        if (fd >= 0 && connect(fd, (struct sockaddr *)&a, to->length) == 0) return fd;
        keep_reason(m, 0);
        if (fd >= 0) close(fd);
        return -1;
    }
    snprintf(text, sizeof text, "%d", port);
    code = getaddrinfo(m->host, text, &hints, &list);
    if (code != 0) {
        keep_reason(m, code);
        return -1;
    }
    for (const struct addrinfo *a = list; a != NULL && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
        if (fd < 0 || connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
            keep_reason(m, 0);
            if (fd >= 0) close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    return fd;
}

/* Connects to a rank, which may not listen yet, and says who this is. */
static musec_status meet(ms_error *e, meeting *m, int rank, socket_kind kind, int *out)
{
    const place *to   = rank == 0 ? NULL : &m->places[rank];
    const int    port = rank == 0 ? m->port : to->port;
    const hello  mine = { .magic = "musec-1",
                          .size  = m->ranks->size,
                          .rank  = m->ranks->rank,
                          .kind  = kind,
                          .port  = m->listener_port };

    for (;;) {
        *out = try_connect(m, to, port);
        if (*out >= 0 || m->lasts || ms_clock_ms() >= m->end) break;
        ms_clock_pause_us(RETRY_US);
    }
    if (*out < 0 && m->lasts)
        return ms_fail(e, MUSEC_EIO, "rank %d cannot be reached at %s, port %d: %s", rank, m->host,
                       port, m->why);
    if (*out < 0)
        return ms_fail(e, MUSEC_EIO,
                       "rank %d was not found at %s, port %d, within %d s (%s): MASTER_ADDR and "
                       "MASTER_PORT must lead to the machine of rank 0",
                       rank, m->host, port, LIMIT_MS / 1000, m->why);
    send_at_once(*out);
    if (!ms_tcp_send(*out, &mine, sizeof mine))
        return ms_fail(e, MUSEC_EIO, "rank %d hung up: %s", rank, strerror(errno));
    return MUSEC_OK;
}

/* ---- who comes ------------------------------------------------------------------------------- */

static bool is_loopback(const struct sockaddr_storage *a)
{
    if (a->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
    const struct in6_addr *x = &((const struct sockaddr_in6 *)a)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(x) || (IN6_IS_ADDR_V4MAPPED(x) && x->s6_addr[12] == 127);
}

/* Takes one connection that knows the words of this job, into the socket that it is for. */
static musec_status take_one(ms_error *e, meeting *m, int *left)
{
    place     from = { .length = sizeof from.address };
    hello     h    = { 0 };
    socklen_t n    = sizeof from.address;
    int       fd;

    if (!wait_readable(m->listener, m->end))
        return ms_fail(e, MUSEC_EIO, "%d connections of other ranks did not come within %d s",
                       *left, LIMIT_MS / 1000);
    fd = accept(m->listener, (struct sockaddr *)&from.address, &n);
    if (fd < 0) return MUSEC_OK; /* it was gone again */
    if (!receive_until(fd, &h, sizeof h, ms_clock_ms() + HELLO_MS) ||
        memcmp(h.magic, magic, sizeof magic) != 0 || h.rank < 0 || h.rank >= m->ranks->size) {
        close(fd); /* not one of ours */
        return MUSEC_OK;
    }
    int *socket_of = h.kind == NOTICE ? &m->sockets->notice[h.rank] : &m->sockets->data[h.rank];
    if (h.size != m->ranks->size || h.rank <= m->ranks->rank || *socket_of >= 0) {
        close(fd);
        return ms_fail(e, MUSEC_EINVAL,
                       "another process says that it is rank %d of %d, beside rank %d of %d here: "
                       "does another job use the same MASTER_PORT?",
                       h.rank, h.size, m->ranks->rank, m->ranks->size);
    }
    send_at_once(fd);
    *socket_of  = fd;
    from.length = is_loopback(&from.address) ? 0 : (uint32_t)n;
    from.port   = h.port;
    if (h.kind == DATA) m->places[h.rank] = from;
    (*left)--;
    return MUSEC_OK;
}

static musec_status meet_as_first(ms_error *e, meeting *m)
{
    const int    size = m->ranks->size;
    int          left = 2 * (size - 1);
    musec_status st;

    TRY(start_listening(e, m, m->port));
    while (left > 0)
        TRY(take_one(e, m, &left));
    for (int r = 1; r < size; r++)
        if (!ms_tcp_send(m->sockets->data[r], m->places,
                         (int64_t)((size_t)size * sizeof *m->places)))
            TRY(ms_fail(e, MUSEC_EIO, "rank %d hung up: %s", r, strerror(errno)));
done:
    return st;
}

static musec_status meet_the_first(ms_error *e, meeting *m)
{
    const int    size = m->ranks->size, rank = m->ranks->rank;
    int          left = size - 1 - rank;
    musec_status st;

    TRY(start_listening(e, m, 0));
    TRY(meet(e, m, 0, DATA, &m->sockets->data[0]));
    TRY(meet(e, m, 0, NOTICE, &m->sockets->notice[0]));
    if (!receive_until(m->sockets->data[0], m->places, (int64_t)((size_t)size * sizeof *m->places),
                       m->end + HELLO_MS))
        TRY(ms_fail(e, MUSEC_EIO,
                    "rank 0 has not heard of all %d ranks within %d s, or turned this one away",
                    size, LIMIT_MS / 1000));
    for (int r = 1; r < rank; r++)
        TRY(meet(e, m, r, DATA, &m->sockets->data[r]));
    while (left > 0)
        TRY(take_one(e, m, &left));
done:
    return st;
}

/* ---- the address ----------------------------------------------------------------------------- */

bool ms_comm_tcp_is_likely(void)
{
    return getenv("MASTER_ADDR") != NULL && getenv("MASTER_PORT") != NULL;
}

static musec_status read_address(ms_error *e, meeting *m)
{
    const char *port = getenv("MASTER_PORT"), *store = getenv("TORCHELASTIC_USE_AGENT_STORE");
    char       *end = NULL;

    m->host = getenv("MASTER_ADDR");
    if (m->host == NULL || port == NULL)
        return ms_fail(e, MUSEC_EINVAL,
                       "ranks meet by TCP at MASTER_ADDR and MASTER_PORT: set both to the machine "
                       "of rank 0 and a free port there");
    const long n = strtol(port, &end, 10);
    if (end == port || *end != '\0' || n < 1 || n > 65534)
        return ms_fail(e, MUSEC_EINVAL, "MASTER_PORT is \"%s\", which is no port", port);
    m->port = (int)n + (store != NULL && strcmp(store, "True") == 0);
    return MUSEC_OK;
}

musec_status ms_tcp_meet(ms_error *e, const ms_ranks *ranks, ms_tcp_sockets *out)
{
    const size_t size = (size_t)ranks->size;
    meeting      m    = { .ranks    = ranks,
                          .sockets  = out,
                          .end      = ms_clock_ms() + LIMIT_MS,
                          .listener = -1,
                          .places   = calloc(size, sizeof(place)) };
    musec_status st   = MUSEC_OK;

    *out = (ms_tcp_sockets){ malloc(size * sizeof(int)), malloc(size * sizeof(int)) };
    for (size_t r = 0; out->data != NULL && out->notice != NULL && r < size; r++)
        out->data[r] = out->notice[r] = -1;
    if (m.places == NULL || out->data == NULL || out->notice == NULL)
        TRY(ms_no_memory(e, "the sockets of a job"));
    TRY(read_address(e, &m));
    if (size > 1) TRY(ranks->rank == 0 ? meet_as_first(e, &m) : meet_the_first(e, &m));
done:
    if (m.listener >= 0) close(m.listener);
    free(m.places);
    if (st != MUSEC_OK) ms_tcp_close(out, ranks->size);
    return st;
}

void ms_tcp_close(ms_tcp_sockets *s, int size)
{
    int *const lists[] = { s->data, s->notice };
    for (size_t i = 0; i < COUNT(lists); i++) {
        for (int r = 0; lists[i] != NULL && s->data != NULL && s->notice != NULL && r < size; r++)
            if (lists[i][r] >= 0) close(lists[i][r]);
        free(lists[i]);
    }
    *s = (ms_tcp_sockets){ 0 };
}
