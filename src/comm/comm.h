/* comm.h - several processes that compute as one: the ranks of a job.
 *
 * A row of the table below is a way to communicate:
 *
 *     self   one rank alone; everything is a no-op
 *     mpi    MPI, opened when used (mpi.c)
 *     tcp    sockets between rank 0 and every other one, where there is no MPI (tcp.c)
 *     nccl   NCCL for what lies on GPUs, opened when used, above mpi or tcp for all else (nccl.c)
 *
 * Every rank calls the same functions in the same order with pieces of the same sizes and owners.
 * A piece lies in memory of the caller and belongs to one rank, its owner.  One thread at a time
 * uses a communicator, except for abort; calls that go on while the caller computes: async.h.
 *
 * Pieces may lie in the memory of a device, behind whose queued work the call comes.  Calls return
 * when the caller's part is done, or by NCCL when it is queued on the device, before what is queued
 * there later.  mpi and tcp bring pieces of a GPU through page-locked host memory (stage.c), unless
 * the MPI takes memory of GPUs by itself.
 *
 * Failure: a rank that fails calls ms_comm_abort, which ends the job on all ranks with one reason.
 * A rank that dies or stops is noticed by another one, which does the same (mpi.c, tcp.c). */
#ifndef MS_COMM_COMM_H
#define MS_COMM_COMM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "device/device.h"

typedef struct ms_comm ms_comm;

typedef struct ms_comm_piece {
    void       *data;
    int64_t     n; /* elements */
    musec_dtype dtype;
    int         owner; /* a rank */
} ms_comm_piece;

typedef struct ms_comm_transfer { /* `data` is read on rank `from` and written on rank `to` */
    void   *data;
    int64_t bytes;
    int     from, to;
} ms_comm_transfer;

typedef enum ms_comm_reduction { MS_COMM_SUM, MS_COMM_MAX } ms_comm_reduction;

typedef struct ms_comm_ops {
    const char *name;
    /* d: the device whose memory the data lie in; NULL: they lie in host memory. */
    /* Sums each piece over all ranks into its owner's memory, in an order that may differ from run
     * to run.  What the others have there is undefined afterwards.  f32 and f64. */
    musec_status (*reduce)(ms_comm *c, ms_device *d, const ms_comm_piece *pieces, size_t n);
    /* Copies each piece from its owner to all ranks. */
    musec_status (*gather)(ms_comm *c, ms_device *d, const ms_comm_piece *pieces, size_t n);
    /* Makes the transfers of a list that are this rank's; from == to is none. */
    musec_status (*pass)(ms_comm *c, ms_device *d, const ms_comm_transfer *list, size_t n);
    /* The sum or the maximum of x[i] over the ranks, to all of them.  The maximum of NaN is
     * undefined. */
    musec_status (*all_reduce)(ms_comm *c, ms_comm_reduction op, double *x, int64_t n);
    musec_status (*broadcast)(ms_comm *c, void *data, int64_t bytes, int from);
    musec_status (*barrier)(ms_comm *c);
    void (*abort)(ms_comm *c, const char *why);
    void (*close)(ms_comm *c);
} ms_comm_ops;

/* Something that a communicator asks twice a second, from a thread of its own, whether it is well;
 * if not, the job ends for the reason in *why. */
typedef struct ms_comm_health {
    bool (*is_well)(void *arg, ms_error *why);
    void *arg;
} ms_comm_health;

struct ms_comm {
    const ms_comm_ops *ops;
    int                rank, size;
    int                local_rank;    /* as the launcher says it; -1: not known */
    ms_error           error;         /* of the last call that failed */
    bool               failed;        /* close waits for no other rank */
    atomic_bool        in_background; /* the call under way should leave the cores to others */
    ms_comm           *below;         /* of a group of ranks (replicas.c): what it is made of */
    struct ms_stage   *stage;         /* stage.c: made at its first use */
    pthread_mutex_t    health_lock;
    ms_comm_health     health; /* without a function: nothing is asked */
};

/* ---- ranks (ranks.c) ------------------------------------------------------------------------- */

/* What the launcher of this process says in its environment. */
typedef struct ms_ranks {
    const char *launcher;  /* "mpirun", "srun", ...; NULL: none, this is the only process */
    bool        is_of_mpi; /* it starts processes of an MPI and no others */
    int         rank, size;
    int         local_rank; /* among the ranks of this machine; -1: not known */
} ms_ranks;

/* Reads the variables of Open MPI, of PMI (MPICH, Intel MPI), of a step of Slurm, and RANK,
 * WORLD_SIZE, LOCAL_RANK.  Fails for numbers that make no sense, and names the variable. */
musec_status ms_ranks_read(ms_error *e, ms_ranks *out);

/* ---- opening (comm.c) ------------------------------------------------------------------------ */

extern const char ms_comm_choices[]; /* "auto|self|mpi|tcp|nccl" */

typedef struct ms_comm_setup {
    /* One of the choices.  auto and nccl: mpi or tcp where a launcher has started several ranks,
     * else self; who knows the device adds NCCL to that (ms_comm_add_nccl). */
    const char *kind;
    /* Called on one rank with the reason why the job ends, right before it does. */
    void (*on_abort)(void *arg, const char *why);
    /* Ends the process at once, with exit status 1; NULL: it is killed. */
    void (*quit)(void *arg);
    void *arg;
} ms_comm_setup;

musec_status ms_comm_open(ms_error *e, const ms_comm_setup *setup, ms_comm **out);
/* Ends the communication of all ranks, when all are here; accepts NULL. */
void ms_comm_close(ms_comm *c);
/* Ends the job on all ranks with exit status 1.  Returns for `self` alone. */
void ms_comm_abort(ms_comm *c, const char *why);
/* Returns `status`; a failure copies the message of the communicator into `e`. */
musec_status ms_comm_check(ms_error *e, const ms_comm *c, musec_status status);

/* The communicator of a process that is alone: it needs no opening and is never closed. */
ms_comm *ms_comm_self(void);

/* Frees what the communicator keeps for a device, which is about to be closed. */
void ms_comm_forget_device(ms_comm *c);

/* The names of the machines of all ranks, MS_COMM_MACHINE bytes each, to be freed. */
enum { MS_COMM_MACHINE = 64 };
musec_status ms_comm_machines(ms_error *e, ms_comm *c, char **out);
/* The number of this rank among those of its machine, by the launcher or by the machines' names. */
musec_status ms_comm_local_rank(ms_error *e, ms_comm *c, int *out);

/* A communicator that uses NCCL for what lies on d, and `below` for all else.  Where not all ranks
 * can, *out is `below`, and `why` says the reason; insist: it is an error instead.  All ranks get
 * the same answer.  Close it before d and `below`. */
musec_status ms_comm_add_nccl(ms_error *e, ms_comm *below, ms_device *d, bool insist, ms_comm **out,
                              ms_error *why);

/* A communicator of the ranks of this one's group, of so many groups, or of one for each machine
 * where `replicas` is 0: its reduce sums over the ranks of all groups, into an owner in each; all
 * else goes on within the group.  *out is `below` where machines do not have several ranks each,
 * and as many.  Close it before `below`, which is mpi or tcp. */
musec_status ms_comm_add_replicas(ms_error *e, ms_comm *below, int replicas, ms_comm **out);
/* How many groups there are (1: c is no group of a job), and the number of this rank's. */
int ms_comm_replicas(const ms_comm *c, int *mine);

/* Says in words which MPI would be used, "Open MPI v4.1.4, ...", or why there is none (*there is
 * false).  Fails where it is there and cannot be read. */
musec_status ms_comm_mpi_describe(ms_error *e, char *text, size_t bytes, bool *there);

/* Says which NCCL would be used, "2.28.9", or why there is none (*there is false). */
void ms_comm_nccl_describe(char *text, size_t bytes, bool *there);

/* ---- rows ------------------------------------------------------------------------------------ */

musec_status ms_comm_open_mpi(ms_error *e, const ms_comm_setup *setup, const ms_ranks *ranks,
                              ms_comm **out);
musec_status ms_comm_open_tcp(ms_error *e, const ms_comm_setup *setup, const ms_ranks *ranks,
                              ms_comm **out);
/* Is there an address at which the ranks of a launcher can meet (tcp.c)? */
bool ms_comm_tcp_is_likely(void);

/* reduce, for host memory, by the row's pass (sum.c). */
musec_status ms_comm_sum_by_passing(ms_comm *c, const ms_comm_piece *pieces, size_t n);

/* What all rows have; a failure copies the message of `from`. */
void         ms_comm_init(ms_comm *c, const ms_comm_ops *ops);
musec_status ms_comm_pass_on(ms_comm *c, const ms_comm *from, musec_status status);
void         ms_comm_set_health(ms_comm *c, ms_comm_health health);
bool         ms_comm_is_well(ms_comm *c, ms_error *why);

/* How ranks watch over each other: every rank beats, and the job ends where one does not. */
enum {
    MS_BEAT_MS    = 500,
    MS_BEAT_LIMIT = 40,  /* pauses of MS_BEAT_MS without a beat: 20 s */
    MS_BEAT_GRACE = 10,  /* of them that rank 0 has to end the job */
    MS_BEAT_LATE  = 2500 /* ms between two beats of a rank that was stopped, or nearly so */
};

/* ---- memory of devices (stage.c) ------------------------------------------------------------- */

/* Has the device memory of its own, which the host cannot read?  d may be NULL. */
static inline bool ms_comm_is_apart(const ms_device *d)
{
    return d != NULL && d->kind->memory != NULL;
}

/* Do what the row's functions do for host memory, for the memory of such a device. */
musec_status ms_stage_reduce(ms_comm *c, ms_device *d, const ms_comm_piece *pieces, size_t n);
musec_status ms_stage_gather(ms_comm *c, ms_device *d, const ms_comm_piece *pieces, size_t n);
musec_status ms_stage_pass(ms_comm *c, ms_device *d, const ms_comm_transfer *list, size_t n);

/* ---- shares ---------------------------------------------------------------------------------- */

/* The first of n things that are rank `rank`'s, where all ranks get equal shares in order; those of
 * the next rank begin where these end. */
static inline int64_t ms_share_first(int64_t n, int rank, int size)
{
    return n / size * rank + n % size * rank / size;
}

#endif
