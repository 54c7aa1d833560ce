/* supervise.c - see supervise.h. */
#define _GNU_SOURCE
#include "supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_CALLS = 64, CANNOT = 125 };

#define CALL(name)         \
    {                      \
#name, __NR_##name \
    }
const supervised_call supervised_calls[] = {
#ifdef __NR_open
    CALL(open),       CALL(rename),   CALL(mkdir),      CALL(unlink),    CALL(rmdir),
#endif
    CALL(openat),     CALL(renameat), CALL(renameat2),  CALL(mkdirat),   CALL(unlinkat),
    CALL(write),      CALL(writev),   CALL(pwrite64),   CALL(pwritev),   CALL(read),
    CALL(pread64),    CALL(readv),    CALL(fsync),      CALL(fdatasync), CALL(ftruncate),
    CALL(mmap),       CALL(close),    CALL(getdents64), CALL(lseek),     CALL(fcntl),
#ifdef __NR_newfstatat
    CALL(newfstatat),
#endif
    CALL(fstat),
};
const size_t n_supervised_calls = sizeof supervised_calls / sizeof *supervised_calls;

int supervised_number(const char *name)
{
    for (size_t i = 0; i < n_supervised_calls; i++)
        if (strcmp(supervised_calls[i].name, name) == 0) return supervised_calls[i].number;
    return -1;
}

const char *supervised_name(int number)
{
    for (size_t i = 0; i < n_supervised_calls; i++)
        if (supervised_calls[i].number == number) return supervised_calls[i].name;
    return "?";
}

/* ---- the program that is supervised ---------------------------------------------------------- */

/* Installs the filter, for this process and all that it will start; returns the descriptor on which
 * the supervisor is asked. */
static int install(const int *numbers, size_t n)
{
    struct sock_filter filter[MAX_CALLS + 3];
    struct sock_fprog  program = { .filter = filter };
    size_t             at      = 0;

    filter[at++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < n; i++)
        filter[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)numbers[i],
                                                    (unsigned char)(n - i), 0);
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    program.len  = (unsigned short)at;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
    return (int)syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                        &program);
}

typedef union fd_message {
    struct cmsghdr header;
    char           room[CMSG_SPACE(sizeof(int))];
} fd_message;

static void send_fd(int to, int fd)
{
    char          byte = 0;
    struct iovec  io   = { &byte, 1 };
    fd_message    m    = { 0 };
    struct msghdr msg  = {
         .msg_iov = &io, .msg_iovlen = 1, .msg_control = &m, .msg_controllen = sizeof m
    };
    m.header = (struct cmsghdr){ .cmsg_len   = CMSG_LEN(sizeof fd),
                                 .cmsg_level = SOL_SOCKET,
                                 .cmsg_type  = SCM_RIGHTS };
    memcpy(CMSG_DATA(&m.header), &fd, sizeof fd);
    if (sendmsg(to, &msg, 0) != 1) _exit(CANNOT);
}

static int receive_fd(int from)
{
    char          byte = 0;
    int           fd   = -1;
    struct iovec  io   = { &byte, 1 };
    fd_message    m    = { 0 };
    struct msghdr msg  = {
         .msg_iov = &io, .msg_iovlen = 1, .msg_control = &m, .msg_controllen = sizeof m
    };
    if (recvmsg(from, &msg, MSG_CMSG_CLOEXEC) != 1) return -1;
    if (CMSG_FIRSTHDR(&msg) != NULL) memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof fd);
    return fd;
}

static _Noreturn void become(char *const argv[], const int *numbers, size_t n, int to)
{
    const int fd = install(numbers, n);
    if (fd < 0) _exit(CANNOT);
    send_fd(to, fd);
    execvp(argv[0], argv);
    _exit(127);
}

/* ---- the supervisor -------------------------------------------------------------------------- */

/* A close that fails has closed all the same, as Linux has it: what was open goes, and the number
 * leads nowhere. */
static void close_there(int fd, const struct seccomp_notif *call)
{
    const int                  nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct seccomp_notif_addfd add     = { .id          = call->id,
                                           .flags       = SECCOMP_ADDFD_FLAG_SETFD,
                                           .srcfd       = (unsigned)nowhere,
                                           .newfd       = (unsigned)call->data.args[0],
                                           .newfd_flags = O_CLOEXEC };
    if (nowhere < 0) return;
    (void)ioctl(fd, SECCOMP_IOCTL_NOTIF_ADDFD, &add);
    close(nowhere);
}

/* Answers one question; false when no one is left who could ask. */
static bool answer(int fd, supervise_decide *decide, void *arg)
{
    struct pollfd             wait = { .fd = fd, .events = POLLIN };
    struct seccomp_notif      call = { 0 };
    struct seccomp_notif_resp resp = { 0 };

    if (poll(&wait, 1, -1) < 0) return errno == EINTR;
    if ((wait.revents & POLLIN) == 0) return false;
    if (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) return errno == EINTR || errno == ENOENT;
    resp.id    = call.id;
    resp.error = -decide(arg, &call);
    if (resp.error == 0) resp.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    if (resp.error != 0 && call.data.nr == __NR_close) close_there(fd, &call);
    (void)ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &resp); /* ENOENT: it was killed meanwhile */
    return true;
}

int supervise(char *const argv[], const int *numbers, size_t n, supervise_decide *decide, void *arg)
{
    int   pair[2], fd, status = 0;
    pid_t child;

    if (n > MAX_CALLS || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return CANNOT;
    child = fork();
    if (child < 0) return CANNOT;
    if (child == 0) become(argv, numbers, n, pair[1]);
    close(pair[1]);
    fd = receive_fd(pair[0]);
    while (fd >= 0 && answer(fd, decide, arg)) {}
    if (waitpid(child, &status, 0) != child || fd < 0) return CANNOT;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
