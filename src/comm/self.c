/* self.c - the communicator of a process that is alone: what it owns is all there is. */
#include "comm/comm.h"

static musec_status no_pieces(ms_comm *c, ms_device *d, const ms_comm_piece *pieces, size_t n)
{
    (void)c, (void)d, (void)pieces, (void)n;
    return MUSEC_OK;
}

static musec_status self_pass(ms_comm *c, ms_device *d, const ms_comm_transfer *list, size_t n)
{
    (void)c, (void)d, (void)list, (void)n;
    return MUSEC_OK;
}

static musec_status self_all_reduce(ms_comm *c, ms_comm_reduction op, double *x, int64_t n)
{
    (void)c, (void)op, (void)x, (void)n;
    return MUSEC_OK;
}

static musec_status self_broadcast(ms_comm *c, void *data, int64_t bytes, int from)
{
    (void)c, (void)data, (void)bytes, (void)from;
    return MUSEC_OK;
}

static musec_status self_barrier(ms_comm *c)
{
    (void)c;
    return MUSEC_OK;
}

static void self_abort(ms_comm *c, const char *why) { (void)c, (void)why; }

static void self_close(ms_comm *c) { (void)c; }

static const ms_comm_ops self_ops = {
    .name       = "self",
    .reduce     = no_pieces,
    .gather     = no_pieces,
    .pass       = self_pass,
    .all_reduce = self_all_reduce,
    .broadcast  = self_broadcast,
    .barrier    = self_barrier,
    .abort      = self_abort,
    .close      = self_close,
};

/* It is never written, as none of its calls fails. */
ms_comm *ms_comm_self(void)
{
    static ms_comm self = {
        .ops = &self_ops, .size = 1, .local_rank = -1, .health_lock = PTHREAD_MUTEX_INITIALIZER
    };
    return &self;
}
