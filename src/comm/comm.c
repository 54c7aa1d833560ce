/* comm.c - chooses a way to communicate, and what is the same for all of them. */
#include "comm/comm.h"

#include <string.h>

const char ms_comm_choices[] = "auto|self|mpi";

musec_status ms_comm_check(ms_error *e, const ms_comm *c, musec_status status)
{
    if (status != MUSEC_OK) ms_error_set(e, "%s", c->error.text);
    return status;
}

musec_status ms_comm_open(ms_error *e, const ms_comm_setup *setup, ms_comm **out)
{
    const bool   mpi = strcmp(setup->kind, "mpi") == 0, any = strcmp(setup->kind, "auto") == 0;
    ms_ranks     ranks;
    musec_status st;

    *out = NULL;
    if (!mpi && !any && strcmp(setup->kind, "self") != 0)
        return ms_fail(e, MUSEC_EINVAL, "there is no way to communicate named %s", setup->kind);
    *out = ms_comm_self();
    if (!mpi && !any) return MUSEC_OK; /* whatever a launcher says */
    TRY(ms_ranks_read(e, &ranks));
    if (mpi || ranks.size > 1) TRY(ms_comm_open_mpi(e, setup, &ranks, out));
done:
    return st;
}

void ms_comm_close(ms_comm *c)
{
    if (c != NULL) c->ops->close(c);
}

void ms_comm_abort(ms_comm *c, const char *why) { c->ops->abort(c, why); }
