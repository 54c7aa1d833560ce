/* tcp.c - the ranks of a job that no MPI brings together, by sockets.
 *
 * Every two ranks have a socket for data, which the calling thread alone uses: a call sends and
 * receives piece after piece, in the order that all ranks have them in, so that none waits in a
 * circle.
 *
 * Rank 0 and every other have a socket for notices, and a thread that watches over the job: it
 * beats twice a second, and listens.  Rank 0 ends the job where another one fails and says why, has
 * died, which closes its socket, or has stopped, so that it beats no longer: it tells the reason to
 * its user, and all others to end.  They end without a word.  If rank 0 is who died or stopped,
 * rank 1 says so, and each of the others ends by itself. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/tcp.h"
#include "core/clock.h"
#include "core/size.h"
#include "core/thread.h"

/* A notice: one of these, and behind a reason its text. */
enum { BEAT = 'b', REASON = 'r', END = 'e', REASON_TEXT = sizeof(ms_error) };

typedef struct tcp_comm {
    ms_comm         base;
    ms_comm_setup   setup;
    ms_tcp_sockets  at;
    pthread_mutex_t sending; /* of a notice */
    pthread_t       watch;
    bool            watched; /* that thread runs */
    int             end[2];  /* a pipe: closed for writing when the job has ended well */
    int            *silent;  /* (size) pauses without a beat */
    atomic_bool     ending;
} tcp_comm;

static tcp_comm *of(ms_comm *c) { return (tcp_comm *)c; }

/* ---- data ------------------------------------------------------------------------------------ */

static musec_status lost(ms_comm *c, int rank)
{
    return ms_fail(&c->error, MUSEC_EIO, "the connection to rank %d broke%s%s", rank,
                   errno != 0 ? ": " : "", errno != 0 ? strerror(errno) : "");
}

static musec_status send_to(ms_comm *c, int to, const void *data, int64_t bytes)
{
    return ms_tcp_send(of(c)->at.data[to], data, bytes) ? MUSEC_OK : lost(c, to);
}

static musec_status receive_from(ms_comm *c, int from, void *data, int64_t bytes)
{
    return ms_tcp_receive(of(c)->at.data[from], data, bytes) ? MUSEC_OK : lost(c, from);
}

static musec_status tcp_broadcast(ms_comm *c, void *data, int64_t bytes, int from)
{
    musec_status st = MUSEC_OK;
    if (from != c->rank) return receive_from(c, from, data, bytes);
    for (int r = 0; r < c->size; r++)
        if (r != from) TRY(send_to(c, r, data, bytes));
done:
    return st;
}

static musec_status tcp_reduce(ms_comm *c, ms_device *d, const ms_comm_piece *pieces, size_t n)
{
    return ms_comm_is_apart(d) ? ms_stage_reduce(c, d, pieces, n)
                               : ms_comm_sum_by_passing(c, pieces, n);
}

static musec_status tcp_gather(ms_comm *c, ms_device *d, const ms_comm_piece *pieces, size_t n)
{
    musec_status st = MUSEC_OK;

    if (ms_comm_is_apart(d)) return ms_stage_gather(c, d, pieces, n);
    for (size_t i = 0; i < n; i++)
        TRY(tcp_broadcast(c, pieces[i].data, pieces[i].n * (int64_t)ms_dtype_bytes(pieces[i].dtype),
                          pieces[i].owner));
done:
    return st;
}

/* Of all transfers that are not made yet, the first one of the list is the next of both its ranks:
 * so one is always made. */
static musec_status tcp_pass(ms_comm *c, ms_device *d, const ms_comm_transfer *list, size_t n)
{
    musec_status st = MUSEC_OK;

    if (ms_comm_is_apart(d)) return ms_stage_pass(c, d, list, n);
    for (size_t i = 0; i < n; i++) {
        const ms_comm_transfer *t = &list[i];
        if (t->from == t->to) continue;
        if (t->from == c->rank) TRY(send_to(c, t->to, t->data, t->bytes));
        if (t->to == c->rank) TRY(receive_from(c, t->from, t->data, t->bytes));
    }
done:
    return st;
}

/* Rank 0 takes what all have, in their order, and sends the result. */
static musec_status tcp_all_reduce(ms_comm *c, ms_comm_reduction op, double *x, int64_t n)
{
    const int64_t bytes = n * (int64_t)sizeof *x;
    double       *other = NULL;
    musec_status  st    = MUSEC_OK;

    if (c->rank > 0) {
        TRY(send_to(c, 0, x, bytes));
    } else {
        other = malloc((size_t)bytes + 1);
        if (other == NULL) TRY(ms_no_memory(&c->error, "the sums of ranks"));
    }
    for (int r = 1; c->rank == 0 && r < c->size; r++) {
        TRY(receive_from(c, r, other, bytes));
        for (int64_t i = 0; i < n; i++)
            x[i] = op == MS_COMM_SUM ? x[i] + other[i] : fmax(x[i], other[i]);
    }
    TRY(tcp_broadcast(c, x, bytes, 0));
done:
    free(other);
    return st;
}

static musec_status tcp_barrier(ms_comm *c)
{
    double nothing = 0.0;
    return tcp_all_reduce(c, MS_COMM_SUM, &nothing, 1);
}

/* ---- the end of a job ------------------------------------------------------------------------ */

static void notify(tcp_comm *t, int rank, char kind, const char *text)
{
    char      notice[1 + REASON_TEXT] = { kind };
    const int bytes                   = kind == REASON ? (int)sizeof notice : 1;

    if (kind == REASON) snprintf(notice + 1, REASON_TEXT, "%s", text);
    pthread_mutex_lock(&t->sending);
    /* a rank that is stopped takes nothing: what does not fit is not sent */
    (void)send(t->at.notice[rank], notice, (size_t)bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    pthread_mutex_unlock(&t->sending);
}

static void quit(tcp_comm *t)
{
    if (t->setup.quit != NULL) t->setup.quit(t->setup.arg);
    (void)kill(getpid(), SIGKILL);
    for (;;)
        ms_clock_pause_us(1000L * MS_BEAT_MS);
}

static void say_and_quit(tcp_comm *t, const char *why)
{
    if (t->setup.on_abort != NULL) t->setup.on_abort(t->setup.arg, why);
    for (int r = 1; t->base.rank == 0 && r < t->base.size; r++)
        notify(t, r, END, NULL);
    quit(t);
}

static bool is_first_to_end(tcp_comm *t) { return !atomic_exchange(&t->ending, true); }

static void wait_for_end(void)
{
    for (;;)
        ms_clock_pause_us(1000L * MS_BEAT_MS);
}

/* Does not return.  The first thread of this process that comes here ends the job; `why` as it
 * comes from this rank. */
static void end_job(tcp_comm *t, const char *why)
{
    ms_error text;

    if (!is_first_to_end(t)) wait_for_end();
    if (t->base.rank == 0) say_and_quit(t, why);
    ms_error_set(&text, "rank %d: %s", t->base.rank, why);
    notify(t, 0, REASON, text.text);
    for (int i = 0; i < MS_BEAT_GRACE; i++) { /* rank 0 answers, or is gone */
        char          answer;
        struct pollfd p = { .fd = t->at.notice[0], .events = POLLIN };
        if (poll(&p, 1, MS_BEAT_MS) <= 0) continue;
        const ssize_t n = recv(t->at.notice[0], &answer, 1, MSG_DONTWAIT);
        if (n > 0 && answer == BEAT) continue;
        if (n > 0) quit(t);
        break;
    }
    if (t->base.rank == 1) say_and_quit(t, text.text);
    quit(t);
}

/* Rank 0 is gone or silent: one of the others says so. */
static void end_without_first(tcp_comm *t, const char *why)
{
    ms_error text;
    if (!is_first_to_end(t)) wait_for_end();
    ms_error_set(&text, "rank %d: %s", t->base.rank, why);
    if (t->base.rank == 1) say_and_quit(t, text.text);
    quit(t);
}

static void tcp_abort(ms_comm *c, const char *why) { end_job(of(c), why); }

/* ---- watching -------------------------------------------------------------------------------- */

/* Rank r is gone.  On rank 0 its reason may be what this thread will say next. */
static void find_gone(tcp_comm *t, int r)
{
    ms_error why;
    ms_error_set(&why, "rank %d has died, or left", r);
    if (t->base.rank == 0) end_job(t, why.text);
    end_without_first(t, why.text);
}

static void take_reason(tcp_comm *t, int r, bool late)
{
    ms_error why;
    for (int at = 0; at < REASON_TEXT;) {
        struct pollfd p = { .fd = t->at.notice[r], .events = POLLIN };
        const ssize_t n = poll(&p, 1, MS_BEAT_MS) > 0
                              ? recv(t->at.notice[r], why.text + at, (size_t)(REASON_TEXT - at), 0)
                              : 0;
        if (n <= 0) find_gone(t, r);
        at += (int)n;
    }
    why.text[REASON_TEXT - 1] = '\0';
    for (int i = 0; late && i < 2 * MS_BEAT_GRACE; i++) /* leaves it to those who waited */
        ms_clock_pause_us(1000L * MS_BEAT_MS);
    end_job(t, why.text);
}

/* Takes what rank r has sent. */
static void listen_to(tcp_comm *t, int r, bool late)
{
    for (char kind;;) {
        const ssize_t n = recv(t->at.notice[r], &kind, 1, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
            find_gone(t, r);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return;
        if (kind == REASON) take_reason(t, r, late);
        if (kind == END) quit(t);
        t->silent[r] = 0;
    }
}

/* A beat to those with whom this rank has a socket for notices, and theirs. */
static void beat(tcp_comm *t, bool late)
{
    ms_error why;
    for (int r = 0; r < t->base.size; r++) {
        if (t->at.notice[r] < 0) continue;
        notify(t, r, BEAT, NULL);
        t->silent[r]++;
        listen_to(t, r, late);
        if (t->silent[r] <= MS_BEAT_LIMIT) continue;
        ms_error_set(&why, "rank %d has not been heard of for %d s: it was stopped or has died", r,
                     MS_BEAT_LIMIT * MS_BEAT_MS / 1000);
        if (t->base.rank == 0) end_job(t, why.text);
        end_without_first(t, why.text);
    }
    if (!ms_comm_is_well(&t->base, &why)) end_job(t, why.text);
}

/* Waits for the next beat, or for less where something comes; false: the job has ended well. */
static bool nap(const tcp_comm *t)
{
    struct pollfd end = { .fd = t->end[0], .events = POLLIN };
    return poll(&end, 1, MS_BEAT_MS) == 0;
}

static void *watch(void *arg)
{
    tcp_comm *t    = arg;
    double    last = ms_clock_ms();

    do {
        const bool late = ms_clock_ms() - last > MS_BEAT_LATE;
        last            = ms_clock_ms();
        beat(t, late);
    } while (nap(t));
    return NULL;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void free_comm(tcp_comm *t)
{
    for (size_t i = 0; i < COUNT(t->end); i++)
        if (t->end[i] >= 0) close(t->end[i]);
    ms_comm_forget_device(&t->base);
    ms_tcp_close(&t->at, t->base.size);
    pthread_mutex_destroy(&t->base.health_lock);
    pthread_mutex_destroy(&t->sending);
    free(t->silent);
    free(t);
}

static void tcp_close(ms_comm *c)
{
    tcp_comm *t = of(c);

    if (t->watched) {
        if (tcp_barrier(c) != MUSEC_OK) end_job(t, c->error.text);
        close(t->end[1]);
        t->end[1] = -1;
        pthread_join(t->watch, NULL);
        (void)tcp_barrier(c); /* now no rank looks whether another one is there */
    }
    free_comm(t);
}

static const ms_comm_ops tcp_ops = {
    .name       = "tcp",
    .reduce     = tcp_reduce,
    .gather     = tcp_gather,
    .pass       = tcp_pass,
    .all_reduce = tcp_all_reduce,
    .broadcast  = tcp_broadcast,
    .barrier    = tcp_barrier,
    .abort      = tcp_abort,
    .close      = tcp_close,
};

musec_status ms_comm_open_tcp(ms_error *e, const ms_comm_setup *setup, const ms_ranks *ranks,
                              ms_comm **out)
{
    tcp_comm    *t  = calloc(1, sizeof *t);
    musec_status st = MUSEC_OK;

    *out = NULL;
    if (t == NULL) return ms_no_memory(e, "the ranks of a job");
    ms_comm_init(&t->base, &tcp_ops);
    pthread_mutex_init(&t->sending, NULL);
    t->base.rank       = ranks->rank;
    t->base.size       = ranks->size;
    t->base.local_rank = ranks->local_rank;
    t->setup           = *setup;
    t->end[0] = t->end[1] = -1;
    t->silent             = calloc((size_t)ranks->size, sizeof *t->silent);
    if (t->silent == NULL) TRY(ms_no_memory(e, "the ranks of a job"));
    if (ranks->size > 1) {
        TRY(ms_tcp_meet(e, ranks, &t->at));
        if (pipe(t->end) != 0 || ms_thread_start(&t->watch, watch, t) != 0)
            TRY(ms_fail(e, MUSEC_ENOMEM, "no thread can be started to watch over the ranks"));
        t->watched = true;
    }
    *out = &t->base;
    t    = NULL;
done:
    if (t != NULL) free_comm(t);
    return st;
}
