/* nccl_stub.c - a libnccl.so.2 for tests without GPUs: what its callers promise NCCL is checked,
 * and data go from process to process in files, out of host memory.
 *
 * As the real one that need not block, it says that a call is in progress, and does it while it is
 * asked whether it is done.  Two processes name what they exchange by their numbers and by how many
 * there were before: so calls that do not agree are never done. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/nccl_api.h"

enum { INVALID = 4, REMOTE = 6, RANKS = 16, CALLS = 1024, POLLS = 3 };

typedef enum call_kind { SEND, RECEIVE, ADD } call_kind;

typedef struct call {
    call_kind kind;
    char     *data;
    size_t    n;
    int       type, peer, number;
    int       done;
} call;

typedef struct stub {
    char dir[MS_NCCL_ID];
    int  rank, size;
    int  polls;                        /* until it does something */
    int  sent[RANKS], received[RANKS]; /* to and from each */
    call calls[CALLS];
    int  n;
} stub;

static int             in_group; /* one communicator in a process */
static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;

static size_t bytes_of(const call *c)
{
    return c->n * (c->type == MS_NCCL_F32 ? 4 : c->type == MS_NCCL_F64 ? 8 : 1);
}

/* MUSEC_STUB_FAILS=now: groups fail; later: what was asked for has failed since. */
static int fails(const char *when)
{
    const char *set = getenv("MUSEC_STUB_FAILS");
    return set != NULL && strcmp(set, when) == 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

static void name_file(const stub *s, int from, int to, int number, const char *end, char *path)
{
    snprintf(path, 2 * MS_NCCL_ID, "%s/%d-%d-%d%s", s->dir, from, to, number, end);
}

static int write_all(const stub *s, const call *c)
{
    char  part[2 * MS_NCCL_ID], path[2 * MS_NCCL_ID];
    FILE *f;
    name_file(s, s->rank, c->peer, c->number, ".part", part);
    name_file(s, s->rank, c->peer, c->number, "", path);
    f = fopen(part, "wb");
    if (f == NULL) return 0;
    const size_t n = fwrite(c->data, 1, bytes_of(c), f);
    return fclose(f) == 0 && n == bytes_of(c) && rename(part, path) == 0;
}

static int read_all(const stub *s, const call *c)
{
    char   path[2 * MS_NCCL_ID], *in;
    FILE  *f;
    size_t n;
    name_file(s, c->peer, s->rank, c->number, "", path);
    f = fopen(path, "rb");
    if (f == NULL) return 0;
    in = malloc(bytes_of(c) + 1);
    n  = fread(in, 1, bytes_of(c) + 1, f);
    fclose(f);
    remove(path);
    if (n == bytes_of(c) && c->kind == RECEIVE) memcpy(c->data, in, n);
    for (size_t i = 0; n == bytes_of(c) && c->kind == ADD && i < c->n; i++) {
        if (c->type == MS_NCCL_F32) ((float *)c->data)[i] += ((float *)in)[i];
        if (c->type == MS_NCCL_F64) ((double *)c->data)[i] += ((double *)in)[i];
    }
    free(in);
    return n == bytes_of(c);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static int add(stub *s, call_kind kind, const void *data, size_t n, int type, int peer)
{
    if (!in_group || peer < 0 || peer >= s->size || peer == s->rank) return INVALID;
    pthread_mutex_lock(&asking);
    if (s->n == CALLS) abort();
    s->calls[s->n++] = (call){ .kind   = kind,
                               .data   = (char *)data,
                               .n      = n,
                               .type   = type,
                               .peer   = peer,
                               .number = kind == SEND ? s->sent[peer]++ : s->received[peer]++ };
    s->polls         = POLLS;
    pthread_mutex_unlock(&asking);
    return MS_NCCL_IN_PROGRESS;
}

int ncclSend(const void *data, size_t n, int type, int peer, ms_nccl_handle c, void *stream);
int ncclSend(const void *data, size_t n, int type, int peer, ms_nccl_handle c, void *stream)
{
    (void)stream;
    return add(c, SEND, data, n, type, peer);
}

int ncclRecv(void *data, size_t n, int type, int peer, ms_nccl_handle c, void *stream);
int ncclRecv(void *data, size_t n, int type, int peer, ms_nccl_handle c, void *stream)
{
    (void)stream;
    return add(c, RECEIVE, data, n, type, peer);
}

int ncclReduce(const void *from, void *to, size_t n, int type, int op, int root, ms_nccl_handle c,
               void *stream);
int ncclReduce(const void *from, void *to, size_t n, int type, int op, int root, ms_nccl_handle c,
               void *stream)
{
    stub *s    = c;
    int   code = MS_NCCL_SUCCESS;
    (void)stream;
    if (op != MS_NCCL_SUM || from != to || type == MS_NCCL_BYTES) return INVALID;
    if (root != s->rank) return add(s, SEND, from, n, type, root);
    for (int r = 0; r < s->size && code != INVALID; r++)
        if (r != root) code = add(s, ADD, to, n, type, r);
    return code;
}

int ncclBroadcast(const void *from, void *to, size_t n, int type, int root, ms_nccl_handle c,
                  void *stream);
int ncclBroadcast(const void *from, void *to, size_t n, int type, int root, ms_nccl_handle c,
                  void *stream)
{
    stub *s    = c;
    int   code = MS_NCCL_SUCCESS;
    (void)stream;
    if (from != to) return INVALID;
    if (root != s->rank) return add(s, RECEIVE, to, n, type, root);
    for (int r = 0; r < s->size && code != INVALID; r++)
        if (r != root) code = add(s, SEND, from, n, type, r);
    return code;
}

int ncclGroupStart(void);
int ncclGroupStart(void)
{
    in_group++;
    return MS_NCCL_SUCCESS;
}

int ncclGroupEnd(void);
int ncclGroupEnd(void)
{
    if (--in_group < 0) return INVALID;
    return fails("now") ? REMOTE : MS_NCCL_IN_PROGRESS;
}

int ncclCommGetAsyncError(ms_nccl_handle c, int *code);
int ncclCommGetAsyncError(ms_nccl_handle c, int *code)
{
    stub *s    = c;
    int   left = 0;
    pthread_mutex_lock(&asking); /* two threads ask */
    if (s->n > 0 || s->polls > 0) left = 1;
    if (left > 0 && !in_group && s->polls-- <= 0) {
        left = s->polls = 0;
        for (int i = 0; i < s->n; i++) {
            call *one = &s->calls[i];
            if (!one->done) one->done = one->kind == SEND ? write_all(s, one) : read_all(s, one);
            left += !one->done;
        }
        if (left == 0) s->n = 0;
    }
    pthread_mutex_unlock(&asking);
    *code = left > 0 ? MS_NCCL_IN_PROGRESS : fails("later") ? REMOTE : MS_NCCL_SUCCESS;
    return MS_NCCL_SUCCESS;
}

/* ---- communicators --------------------------------------------------------------------------- */

int ncclGetVersion(int *version);
int ncclGetVersion(int *version)
{
    *version = 29900;
    return MS_NCCL_SUCCESS;
}

int ncclGetUniqueId(ms_nccl_id *id);
int ncclGetUniqueId(ms_nccl_id *id)
{
    snprintf(id->internal, sizeof id->internal, "/tmp/musec-nccl-XXXXXX");
    return mkdtemp(id->internal) != NULL ? MS_NCCL_SUCCESS : INVALID;
}

int ncclCommInitRankConfig(ms_nccl_handle *c, int size, ms_nccl_id id, int rank,
                           ms_nccl_config *config);
int ncclCommInitRankConfig(ms_nccl_handle *c, int size, ms_nccl_id id, int rank,
                           ms_nccl_config *config)
{
    stub *s = calloc(1, sizeof *s);
    if (s == NULL || size > RANKS || config->magic != MS_NCCL_CONFIG_MAGIC ||
        config->size != sizeof *config || config->blocking != 0) {
        free(s);
        return INVALID;
    }
    memcpy(s->dir, id.internal, sizeof s->dir);
    s->rank  = rank;
    s->size  = size;
    s->polls = POLLS;
    *c       = s;
    return MS_NCCL_IN_PROGRESS;
}

int ncclCommFinalize(ms_nccl_handle c);
int ncclCommFinalize(ms_nccl_handle c)
{
    ((stub *)c)->polls = POLLS;
    return MS_NCCL_IN_PROGRESS;
}

int ncclCommDestroy(ms_nccl_handle c);
int ncclCommDestroy(ms_nccl_handle c)
{
    (void)rmdir(((stub *)c)->dir); /* the last rank can */
    free(c);
    return MS_NCCL_SUCCESS;
}

int ncclCommAbort(ms_nccl_handle c);
int ncclCommAbort(ms_nccl_handle c) { return ncclCommDestroy(c); }

const char *ncclGetErrorString(int code);
const char *ncclGetErrorString(int code)
{
    return code == REMOTE ? "remote process exited" : "invalid argument";
}

const char *ncclGetLastError(ms_nccl_handle c);
const char *ncclGetLastError(ms_nccl_handle c)
{
    (void)c;
    return "said by the stub";
}
