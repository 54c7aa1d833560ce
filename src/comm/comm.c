/* comm.c - chooses a way to communicate, and what is the same for all of them. */
#define _POSIX_C_SOURCE 200809L /* gethostname */
#include "comm/comm.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/size.h"

const char ms_comm_choices[] = "auto|self|mpi|tcp|nccl";

musec_status ms_comm_check(ms_error *e, const ms_comm *c, musec_status status)
{
    if (status != MUSEC_OK) ms_error_set(e, "%s", c->error.text);
    return status;
}

/* ---- opening --------------------------------------------------------------------------------- */

musec_status ms_comm_open(ms_error *e, const ms_comm_setup *setup, ms_comm **out)
{
    const bool   mpi = strcmp(setup->kind, "mpi") == 0, tcp = strcmp(setup->kind, "tcp") == 0;
    const bool   any = strcmp(setup->kind, "auto") == 0 || strcmp(setup->kind, "nccl") == 0;
    ms_ranks     ranks;
    musec_status st;

    *out = NULL;
    if (!mpi && !tcp && !any && strcmp(setup->kind, "self") != 0)
        return ms_fail(e, MUSEC_EINVAL, "there is no way to communicate named %s", setup->kind);
    *out = ms_comm_self();
    if (!mpi && !tcp && !any) return MUSEC_OK; /* whatever a launcher says */
    TRY(ms_ranks_read(e, &ranks));
    if (tcp || (any && ranks.size > 1 && !ranks.is_of_mpi && ms_comm_tcp_is_likely()))
        TRY(ms_comm_open_tcp(e, setup, &ranks, out));
    else if (mpi || ranks.size > 1)
        TRY(ms_comm_open_mpi(e, setup, &ranks, out));
done:
    return st;
}

void ms_comm_close(ms_comm *c)
{
    if (c != NULL) c->ops->close(c);
}

void ms_comm_abort(ms_comm *c, const char *why) { c->ops->abort(c, why); }

/* ---- what rows share ------------------------------------------------------------------------- */

void ms_comm_init(ms_comm *c, const ms_comm_ops *ops)
{
    c->ops        = ops;
    c->local_rank = -1;
    pthread_mutex_init(&c->health_lock, NULL);
}

musec_status ms_comm_pass_on(ms_comm *c, const ms_comm *from, musec_status status)
{
    if (status != MUSEC_OK) c->error = from->error;
    return status;
}

void ms_comm_set_health(ms_comm *c, ms_comm_health health)
{
    pthread_mutex_lock(&c->health_lock);
    c->health = health;
    pthread_mutex_unlock(&c->health_lock);
}

bool ms_comm_is_well(ms_comm *c, ms_error *why)
{
    bool well;
    pthread_mutex_lock(&c->health_lock);
    well = c->health.is_well == NULL || c->health.is_well(c->health.arg, why);
    pthread_mutex_unlock(&c->health_lock);
    return well;
}

/* ---- machines -------------------------------------------------------------------------------- */

musec_status ms_comm_machines(ms_error *e, ms_comm *c, char **out)
{
    char        *names = calloc((size_t)c->size, MS_COMM_MACHINE);
    char        *mine;
    musec_status st = MUSEC_OK;

    *out = NULL;
    if (names == NULL) TRY(ms_no_memory(e, "the names of machines"));
    mine = names + (ptrdiff_t)c->rank * MS_COMM_MACHINE;
    if (gethostname(mine, MS_COMM_MACHINE - 1) != 0) mine[0] = '\0';
    for (int r = 0; r < c->size; r++)
        TRY(ms_comm_check(
            e, c,
            c->ops->broadcast(c, names + (ptrdiff_t)r * MS_COMM_MACHINE, MS_COMM_MACHINE, r)));
    *out  = names;
    names = NULL;
done:
    free(names);
    return st;
}

musec_status ms_comm_local_rank(ms_error *e, ms_comm *c, int *out)
{
    char        *names = NULL;
    musec_status st    = MUSEC_OK;

    *out = 0;
    if (c->size == 1) return MUSEC_OK;
    TRY(ms_comm_machines(e, c, &names)); /* on every rank, whatever its launcher says */
    for (int r = 0; r < c->rank; r++)
        *out += strncmp(names + (ptrdiff_t)r * MS_COMM_MACHINE,
                        names + (ptrdiff_t)c->rank * MS_COMM_MACHINE, MS_COMM_MACHINE) == 0;
    if (c->local_rank >= 0) *out = c->local_rank;
done:
    free(names);
    return st;
}
