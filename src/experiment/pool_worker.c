/* pool_worker.c - how a pool and its workers talk: see pool.h.
 *
 * A job is one message: its arguments, each with its NUL, and the descriptor of its output, which
 * thereby stays open, with its lock, as long as either side has it.  The answer is the exit code.
 * Messages keep their bounds (SOCK_SEQPACKET), and the end of either side is the end of the
 * other's stream. */
#define _GNU_SOURCE /* MSG_CMSG_CLOEXEC */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/signals.h"
#include "experiment/pool.h"

enum { MAX_ARGS = 64, MESSAGE_BYTES = 1 << 16 };

const char ms_pool_worker[] = "musec-worker";

typedef union control { /* room for one descriptor, aligned as a header must be */
    struct cmsghdr header;
    char           bytes[CMSG_SPACE(sizeof(int))];
} control;

/* ---- the pool's side ------------------------------------------------------------------------- */

musec_status ms_pool_send(ms_error *e, int socket, const ms_job *job)
{
    char            text[MESSAGE_BYTES];
    size_t          used = 0;
    struct iovec    part = { .iov_base = text };
    control         extra;
    struct msghdr   message = { .msg_iov        = &part,
                                .msg_iovlen     = 1,
                                .msg_control    = extra.bytes,
                                .msg_controllen = sizeof extra.bytes };
    struct cmsghdr *header;
    ssize_t         sent;

    for (size_t i = 0; job->args[i] != NULL; i++) {
        const size_t n = strlen(job->args[i]) + 1;
        if (i + 1 >= MAX_ARGS || n > sizeof text - used)
            return ms_fail(e, MUSEC_EINVAL, "a run has too many or too long arguments");
        memcpy(text + used, job->args[i], n);
        used += n;
    }
    part.iov_len = used;
    memset(&extra, 0, sizeof extra);
    header             = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type  = SCM_RIGHTS;
    header->cmsg_len   = CMSG_LEN(sizeof job->output);
    memcpy(CMSG_DATA(header), &job->output, sizeof job->output);
    do
        sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent != (ssize_t)used)
        return ms_fail(e, MUSEC_EIO, "a run could not be started: %s", strerror(errno));
    return MUSEC_OK;
}

/* ---- the worker's side ----------------------------------------------------------------------- */

/* The next job: its bytes, 0 at the end of the stream.  *output is its descriptor. */
static size_t receive(int socket, char text[MESSAGE_BYTES], int *output)
{
    struct iovec    part = { .iov_base = text, .iov_len = MESSAGE_BYTES };
    control         extra;
    struct msghdr   message = { .msg_iov        = &part,
                                .msg_iovlen     = 1,
                                .msg_control    = extra.bytes,
                                .msg_controllen = sizeof extra.bytes };
    struct cmsghdr *header;
    ssize_t         n;

    *output = -1;
    do
        n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR && *ms_stop_flag() == 0);
    if (n <= 0 || text[n - 1] != '\0') return 0;
    header = CMSG_FIRSTHDR(&message);
    if (header == NULL || header->cmsg_type != SCM_RIGHTS) return 0;
    memcpy(output, CMSG_DATA(header), sizeof *output);
    return (size_t)n;
}

/* Gives the command its output, or with -1 none; what was printed before is written first. */
static bool redirect(int output)
{
    const int to   = output >= 0 ? output : open("/dev/null", O_WRONLY | O_CLOEXEC);
    bool      done = fflush(stdout) == 0 && !ferror(stdout);
    clearerr(stdout);
    done = dup2(to, STDOUT_FILENO) >= 0 && dup2(to, STDERR_FILENO) >= 0 && done;
    if (to >= 0) close(to);
    return done;
}

static int run_one(int output, char *text, size_t n, int (*run)(int argc, char **argv))
{
    char *argv[MAX_ARGS];
    int   argc = 0, code;

    for (char *at = text; at < text + n && argc + 1 < MAX_ARGS; at += strlen(at) + 1)
        argv[argc++] = at;
    argv[argc] = NULL;
    if (!redirect(output)) return 1;
    code = run(argc, argv);
    if (!redirect(-1) && code == 0) code = 1; /* what it printed did not arrive */
    return code;
}

int ms_pool_serve(int socket, int (*run)(int argc, char **argv))
{
    static char text[MESSAGE_BYTES];
    int         code = 0, output;
    size_t      n;

    while (code == 0 && (n = receive(socket, text, &output)) > 0) {
        code = run_one(output, text, n, run);
        if (send(socket, &code, sizeof code, MSG_NOSIGNAL) != (ssize_t)sizeof code) break;
    }
    return code;
}
