/* comm.h - several processes that compute as one: the ranks of a job.
 *
 * A row of the table below is a way to communicate:
 *
 *     self   one rank alone; everything is a no-op
 *     mpi    MPI, opened when used (mpi.c); pieces lie in host memory
 *
 * Every rank calls the same functions in the same order with pieces of the same sizes and owners.
 * A piece lies in memory of the caller and belongs to one rank, its owner.  Calls return when the
 * caller's part is done.  One thread at a time uses a communicator, except for abort.
 *
 * Failure: a rank that fails calls ms_comm_abort, which ends the job on all ranks with one reason.
 * A rank that dies or stops is noticed by another one, which does the same (mpi.c). */
#ifndef MS_COMM_COMM_H
#define MS_COMM_COMM_H

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
    /* Sums each piece over all ranks into its owner's memory, in an order that may differ from run
     * to run.  What the others have there is undefined afterwards.  f32 and f64. */
    musec_status (*reduce)(ms_comm *c, const ms_comm_piece *pieces, size_t n);
    /* Copies each piece from its owner to all ranks. */
    musec_status (*gather)(ms_comm *c, const ms_comm_piece *pieces, size_t n);
    /* Makes the transfers of a list that are this rank's; from == to is none. */
    musec_status (*pass)(ms_comm *c, const ms_comm_transfer *list, size_t n);
    /* The sum or the maximum of x[i] over the ranks, to all of them.  The maximum of NaN is
     * undefined. */
    musec_status (*all_reduce)(ms_comm *c, ms_comm_reduction op, double *x, int64_t n);
    musec_status (*broadcast)(ms_comm *c, void *data, int64_t bytes, int from);
    musec_status (*barrier)(ms_comm *c);
    void (*abort)(ms_comm *c, const char *why);
    void (*close)(ms_comm *c);
} ms_comm_ops;

struct ms_comm {
    const ms_comm_ops *ops;
    int                rank, size;
    ms_error           error; /* of the last call that failed */
};

/* ---- ranks (ranks.c) ------------------------------------------------------------------------- */

/* What the launcher of this process says in its environment. */
typedef struct ms_ranks {
    const char *launcher; /* "mpirun", "srun", ...; NULL: none, this is the only process */
    int         rank, size;
    int         local_rank; /* among the ranks of this machine; -1: not known */
} ms_ranks;

/* Reads the variables of Open MPI, of PMI (MPICH, Intel MPI), of a step of Slurm, and RANK,
 * WORLD_SIZE, LOCAL_RANK.  Fails for numbers that make no sense, and names the variable. */
musec_status ms_ranks_read(ms_error *e, ms_ranks *out);

/* ---- opening (comm.c) ------------------------------------------------------------------------ */

extern const char ms_comm_choices[]; /* "auto|self|mpi" */

typedef struct ms_comm_setup {
    const char *kind; /* one of the choices; auto: mpi where a launcher has started several ranks */
    /* Called on one rank with the reason why the job ends, right before it does. */
    void (*on_abort)(void *arg, const char *why);
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

/* Says in words which MPI would be used, "Open MPI v4.1.4, ...", or why there is none (*there is
 * false).  Fails where it is there and cannot be read. */
musec_status ms_comm_mpi_describe(ms_error *e, char *text, size_t bytes, bool *there);

/* ---- rows ------------------------------------------------------------------------------------ */

musec_status ms_comm_open_mpi(ms_error *e, const ms_comm_setup *setup, const ms_ranks *ranks,
                              ms_comm **out);

/* ---- shares ---------------------------------------------------------------------------------- */

/* The first of n things that are rank `rank`'s, where all ranks get equal shares in order; those of
 * the next rank begin where these end. */
static inline int64_t ms_share_first(int64_t n, int rank, int size)
{
    return n / size * rank + n % size * rank / size;
}

#endif
