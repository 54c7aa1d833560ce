/* nccl.c - NCCL for what lies on GPUs, above a communicator for all else.
 *
 * The other communicator brings the ranks together, has their numbers and reasons, and watches over
 * them.  NCCL's calls are queued on the stream of the device, behind the kernels that wrote what is
 * sent and before those that will read what has come: the host does not wait for them.
 *
 * NCCL is asked not to block.  What it has not done at once is asked for until it is done, for
 * LIMIT_MS at most; an error that it finds later is seen by the thread of the communicator below,
 * twice a second, and ends the job.  A rank that has died or stopped leaves kernels of the others
 * waiting on their GPUs: that thread ends their processes all the same, and the driver the kernels.
 *
 * NCCL is opened when it is used, and what is needed of it is declared in nccl_api.h. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "comm/nccl_api.h"
#include "core/clock.h"
#include "core/library.h"
#include "core/size.h"

enum {
    LIMIT_MS = 50000,
    GROUP    = 128, /* calls that are begun together */
    PAUSE_US = 100,
};

typedef struct nccl_comm {
    ms_comm         base;
    ms_comm        *below;
    ms_device      *d;
    ms_nccl_api     api;
    void           *library;
    ms_nccl_handle  handle;
    pthread_mutex_t busy; /* NCCL is asked for something, which one thread at a time may do */
} nccl_comm;

static nccl_comm *of(ms_comm *c) { return (nccl_comm *)c; }

/* ---- the library ----------------------------------------------------------------------------- */

static bool find(void *library, const char *name, void *to, ms_error *why)
{
    void *found = dlsym(library, name);
    if (found == NULL) ms_error_set(why, "this NCCL has no %s: it is too old", name);
    memcpy(to, &found, sizeof found);
    return found != NULL;
}

static bool find_all(void *library, ms_nccl_api *api, ms_error *why)
{
    bool all = find(library, "ncclGetErrorString", (void *)&api->ncclGetErrorString, why) &&
               find(library, "ncclGetLastError", (void *)&api->ncclGetLastError, why);
#define X(name, args) all = all && find(library, #name, (void *)&api->name, why);
    MS_NCCL_FUNCTIONS(X)
#undef X
    return all;
}

/* NULL: it is not there or too old, and `why` says so.  It stays open until the program ends. */
static void *open_library(ms_nccl_api *api, int *version, ms_error *why)
{
    static const char *const names[] = { "libnccl.so.2", NULL };
    char                     said[MS_LIBRARY_SAID];
    void                    *library = ms_library_open_first(names, said);

    *version = 0;
    if (said[0] != '\0') {
        ms_error_set(why, "libnccl.so.2 cannot be opened for want of memory: %s", said);
        return NULL;
    }
    if (library == NULL) {
        ms_error_set(why, "libnccl.so.2 was not found: install NCCL 2.14 or later, or put its "
                          "directory into LD_LIBRARY_PATH");
        return NULL;
    }
    if (!find_all(library, api, why)) return NULL;
    if (api->ncclGetVersion(version) == MS_NCCL_SUCCESS && *version >= MS_NCCL_VERSION_MIN)
        return library;
    ms_error_set(why, "NCCL %d.%d is too old: 2.14 or later is needed", *version / 10000,
                 *version / 100 % 100);
    return NULL;
}

void ms_comm_nccl_describe(char *text, size_t bytes, bool *there)
{
    ms_nccl_api api = { 0 };
    ms_error    why = { "" };
    int         v   = 0;

    *there = open_library(&api, &v, &why) != NULL;
    if (*there)
        snprintf(text, bytes, "%d.%d.%d", v / 10000, v / 100 % 100, v % 100);
    else
        snprintf(text, bytes, "%.*s", (int)ms_min_i64((int64_t)bytes - 1, 1000), why.text);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static musec_status refuse(nccl_comm *n, int code, const char *what)
{
    const char *more = n->api.ncclGetLastError(n->handle);
    n->base.failed   = true;
    return ms_fail(&n->base.error, MUSEC_EDEVICE, "NCCL failed to %s: %s%s%.400s", what,
                   n->api.ncclGetErrorString(code), more != NULL && more[0] != '\0' ? ": " : "",
                   more != NULL ? more : "");
}

/* Waits until NCCL has taken what it was asked for: which is not until it is done. */
static musec_status settle(nccl_comm *n, int code, const char *what)
{
    const double start = ms_clock_ms();

    while (code == MS_NCCL_IN_PROGRESS) {
        const int asked = n->api.ncclCommGetAsyncError(n->handle, &code);
        if (asked != MS_NCCL_SUCCESS) return refuse(n, asked, what);
        if (code != MS_NCCL_IN_PROGRESS) break;
        if (ms_clock_ms() - start > LIMIT_MS) {
            n->base.failed = true;
            return ms_fail(&n->base.error, MUSEC_EDEVICE, "NCCL did not %s within %d s", what,
                           LIMIT_MS / 1000);
        }
        ms_clock_pause_us(PAUSE_US);
    }
    return code == MS_NCCL_SUCCESS ? MUSEC_OK : refuse(n, code, what);
}

/* Asked by the thread of the communicator below.  A call that is under way looks itself. */
static bool is_well(void *arg, ms_error *why)
{
    nccl_comm *n    = arg;
    int        code = MS_NCCL_SUCCESS;
    bool       well;

    if (pthread_mutex_trylock(&n->busy) != 0) return true;
    well = n->api.ncclCommGetAsyncError(n->handle, &code) == MS_NCCL_SUCCESS &&
           (code == MS_NCCL_SUCCESS || code == MS_NCCL_IN_PROGRESS);
    if (!well)
        ms_error_set(why, "NCCL failed: %s: %.400s", n->api.ncclGetErrorString(code),
                     n->api.ncclGetLastError(n->handle));
    pthread_mutex_unlock(&n->busy);
    return well;
}

/* A call of a group, which NCCL may say is still in progress. */
static musec_status begin(nccl_comm *n, int code, const char *what)
{
    return code == MS_NCCL_SUCCESS || code == MS_NCCL_IN_PROGRESS ? MUSEC_OK
                                                                  : refuse(n, code, what);
}

/* Makes call number i of a list; *made: it is one of this rank's. */
typedef int (*call_fn)(nccl_comm *n, const void *list, size_t i, void *stream, bool *made);

/* Calls number `first` and on of a list, as one group. */
static musec_status run_group(nccl_comm *n, const void *list, size_t first, size_t end,
                              call_fn call, const char *what)
{
    void        *stream = n->d->kind->stream(n->d); /* this makes it the current device, too */
    musec_status st     = MUSEC_OK;

    pthread_mutex_lock(&n->busy);
    TRY(begin(n, n->api.ncclGroupStart(), what));
    for (size_t i = first; i < end && st == MUSEC_OK; i++) {
        bool      made = false;
        const int code = call(n, list, i, stream, &made);
        if (made) st = begin(n, code, what);
    }
    const int ended = n->api.ncclGroupEnd();
    if (st == MUSEC_OK) TRY(settle(n, ended, what));
done:
    pthread_mutex_unlock(&n->busy);
    return st;
}

/* All pieces of a list, which are the same on every rank, some at a time. */
static musec_status run_all(nccl_comm *n, const void *list, size_t count, call_fn call,
                            const char *what)
{
    musec_status st = MUSEC_OK;
    for (size_t first = 0; first < count && st == MUSEC_OK; first += GROUP)
        st = run_group(n, list, first, count - first < GROUP ? count : first + GROUP, call, what);
    return st;
}

static int type_of(musec_dtype dtype)
{
    return dtype == MUSEC_F32 ? MS_NCCL_F32 : dtype == MUSEC_F64 ? MS_NCCL_F64 : MS_NCCL_BYTES;
}

static int call_reduce(nccl_comm *n, const void *list, size_t i, void *stream, bool *made)
{
    const ms_comm_piece *p = (const ms_comm_piece *)list + i;
    *made                  = p->n > 0;
    return !*made ? MS_NCCL_SUCCESS
                  : n->api.ncclReduce(p->data, p->data, (size_t)p->n, type_of(p->dtype),
                                      MS_NCCL_SUM, p->owner, n->handle, stream);
}

static int call_gather(nccl_comm *n, const void *list, size_t i, void *stream, bool *made)
{
    const ms_comm_piece *p     = (const ms_comm_piece *)list + i;
    const size_t         bytes = (size_t)p->n * ms_dtype_bytes(p->dtype);
    *made                      = p->n > 0;
    return !*made ? MS_NCCL_SUCCESS
                  : n->api.ncclBroadcast(p->data, p->data, bytes, MS_NCCL_BYTES, p->owner,
                                         n->handle, stream);
}

static int call_pass(nccl_comm *n, const void *list, size_t i, void *stream, bool *made)
{
    const ms_comm_transfer *t    = (const ms_comm_transfer *)list + i;
    const int               rank = n->base.rank;
    *made = t->from != t->to && (t->from == rank || t->to == rank) && t->bytes > 0;
    if (!*made) return MS_NCCL_SUCCESS;
    return t->from == rank
               ? n->api.ncclSend(t->data, (size_t)t->bytes, MS_NCCL_BYTES, t->to, n->handle, stream)
               : n->api.ncclRecv(t->data, (size_t)t->bytes, MS_NCCL_BYTES, t->from, n->handle,
                                 stream);
}

/* ---- operations ------------------------------------------------------------------------------ */

static musec_status from_below(ms_comm *c, musec_status status)
{
    return ms_comm_pass_on(c, of(c)->below, status);
}

static musec_status nccl_reduce(ms_comm *c, ms_device *d, const ms_comm_piece *pieces, size_t n)
{
    ms_comm *b = of(c)->below;
    if (d != of(c)->d) return from_below(c, b->ops->reduce(b, d, pieces, n));
    for (size_t i = 0; i < n; i++)
        if (pieces[i].dtype != MUSEC_F32 && pieces[i].dtype != MUSEC_F64)
            return ms_fail(&c->error, MUSEC_ENOTSUP, "numbers in %s are not summed over ranks",
                           ms_dtype_name(pieces[i].dtype));
    return run_all(of(c), pieces, n, call_reduce, "sum over ranks");
}

static musec_status nccl_gather(ms_comm *c, ms_device *d, const ms_comm_piece *pieces, size_t n)
{
    ms_comm *b = of(c)->below;
    if (d != of(c)->d) return from_below(c, b->ops->gather(b, d, pieces, n));
    return run_all(of(c), pieces, n, call_gather, "bring data to all ranks");
}

/* Ranks have lists of their own, which would be divided in different places: so they are one group
 * each. */
static musec_status nccl_pass(ms_comm *c, ms_device *d, const ms_comm_transfer *list, size_t n)
{
    ms_comm *b = of(c)->below;
    if (d != of(c)->d) return from_below(c, b->ops->pass(b, d, list, n));
    return run_group(of(c), list, 0, n, call_pass, "pass data on");
}

static musec_status nccl_all_reduce(ms_comm *c, ms_comm_reduction op, double *x, int64_t n)
{
    ms_comm *b = of(c)->below;
    return from_below(c, b->ops->all_reduce(b, op, x, n));
}

static musec_status nccl_broadcast(ms_comm *c, void *data, int64_t bytes, int from)
{
    ms_comm *b = of(c)->below;
    return from_below(c, b->ops->broadcast(b, data, bytes, from));
}

static musec_status nccl_barrier(ms_comm *c)
{
    ms_comm *b = of(c)->below;
    return from_below(c, b->ops->barrier(b));
}

static void nccl_abort(ms_comm *c, const char *why) { ms_comm_abort(of(c)->below, why); }

static void nccl_close(ms_comm *c)
{
    nccl_comm *n = of(c);

    ms_comm_set_health(n->below, (ms_comm_health){ 0 });
    ms_comm_forget_device(n->below);
    if (n->handle != NULL) {
        (void)n->d->kind->stream(n->d);
        if (!n->base.failed) (void)settle(n, n->api.ncclCommFinalize(n->handle), "end");
        (void)(n->base.failed ? n->api.ncclCommAbort(n->handle)
                              : n->api.ncclCommDestroy(n->handle));
    }
    pthread_mutex_destroy(&n->base.health_lock);
    pthread_mutex_destroy(&n->busy);
    free(n);
}

static const ms_comm_ops nccl_ops = {
    .name       = "nccl",
    .reduce     = nccl_reduce,
    .gather     = nccl_gather,
    .pass       = nccl_pass,
    .all_reduce = nccl_all_reduce,
    .broadcast  = nccl_broadcast,
    .barrier    = nccl_barrier,
    .abort      = nccl_abort,
    .close      = nccl_close,
};

/* ---- opening --------------------------------------------------------------------------------- */

/* Has every rank a device of its own?  All ranks ask. */
static musec_status find_shared(ms_error *e, ms_comm *c, ms_device *d, bool *shared)
{
    char        *ids = calloc((size_t)c->size, MS_DEVICE_ID);
    const char  *mine;
    musec_status st = MUSEC_OK;

    *shared = false;
    if (ids == NULL) TRY(ms_no_memory(e, "the GPUs of all ranks"));
    mine = ids + (ptrdiff_t)c->rank * MS_DEVICE_ID;
    if (d->kind->identify != NULL) d->kind->identify(d, ids + (ptrdiff_t)c->rank * MS_DEVICE_ID);
    for (int r = 0; r < c->size; r++)
        TRY(ms_comm_check(
            e, c, c->ops->broadcast(c, ids + (ptrdiff_t)r * MS_DEVICE_ID, MS_DEVICE_ID, r)));
    for (int r = 0; r < c->size; r++)
        *shared = *shared || (r != c->rank &&
                              strncmp(ids + (ptrdiff_t)r * MS_DEVICE_ID, mine, MS_DEVICE_ID) == 0);
done:
    free(ids);
    return st;
}

/* Brings the reason of the first rank that has one to all; "" where none has. */
static musec_status agree(ms_error *e, ms_comm *c, ms_error *why)
{
    double       worst = why->text[0] != '\0' ? c->size - c->rank : 0.0;
    musec_status st;

    TRY(ms_comm_check(e, c, c->ops->all_reduce(c, MS_COMM_MAX, &worst, 1)));
    if (worst > 0.0)
        TRY(ms_comm_check(e, c,
                          c->ops->broadcast(c, why->text, sizeof why->text, c->size - (int)worst)));
done:
    return st;
}

static musec_status connect_all(ms_error *e, nccl_comm *n)
{
    ms_comm       *c      = n->below;
    ms_nccl_id     id     = { { 0 } };
    ms_nccl_config config = { .size     = sizeof config,
                              .magic    = MS_NCCL_CONFIG_MAGIC,
                              .version  = MS_NCCL_VERSION_MIN,
                              .blocking = 0 };
    ms_error       why    = { "" };
    musec_status   st;

    (void)n->d->kind->stream(n->d); /* the current device is the one that NCCL takes */
    if (c->rank == 0) {
        const int code = n->api.ncclGetUniqueId(&id);
        if (code != MS_NCCL_SUCCESS)
            ms_error_set(&why, "NCCL failed to begin: %s: %.400s", n->api.ncclGetErrorString(code),
                         n->api.ncclGetLastError(NULL));
    }
    TRY(agree(e, c, &why));
    if (why.text[0] != '\0') TRY(ms_fail(e, MUSEC_EDEVICE, "%s", why.text));
    TRY(ms_comm_check(e, c, c->ops->broadcast(c, id.internal, sizeof id.internal, 0)));
    TRY(settle(n, n->api.ncclCommInitRankConfig(&n->handle, c->size, id, c->rank, &config),
               "connect the ranks"));
done:
    if (st != MUSEC_OK && n->base.failed) *e = n->base.error;
    return st;
}

musec_status ms_comm_add_nccl(ms_error *e, ms_comm *below, ms_device *d, bool insist, ms_comm **out,
                              ms_error *why)
{
    nccl_comm   *n       = calloc(1, sizeof *n);
    ms_comm     *c       = below;
    bool         shared  = false;
    int          version = 0;
    musec_status st      = MUSEC_OK;

    *out         = c;
    why->text[0] = '\0';
    if (n == NULL) TRY(ms_no_memory(e, "the ranks of a job"));
    if (d->kind->stream == NULL)
        ms_error_set(why, "NCCL needs GPUs, and this rank computes on %s", d->name);
    else
        n->library = open_library(&n->api, &version, why);
    if (!insist) TRY(find_shared(e, c, d, &shared)); /* else NCCL itself says what it cannot */
    if (shared && why->text[0] == '\0') ms_error_set(why, "several ranks share a GPU");
    TRY(agree(e, c, why));
    if (why->text[0] != '\0') {
        if (insist) TRY(ms_fail(e, MUSEC_ENOTSUP, "%s", why->text));
        goto done;
    }
    ms_comm_init(&n->base, &nccl_ops);
    pthread_mutex_init(&n->busy, NULL);
    n->base.rank       = c->rank;
    n->base.size       = c->size;
    n->base.local_rank = c->local_rank;
    n->below           = c;
    n->d               = d;
    TRY(connect_all(e, n));
    ms_comm_set_health(c, (ms_comm_health){ is_well, n });
    *out = &n->base;
    n    = NULL;
done:
    if (n != NULL && n->handle != NULL) (void)n->api.ncclCommAbort(n->handle);
    free(n);
    return st;
}
