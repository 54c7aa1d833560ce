/* tcp.h - the sockets between the ranks of a job. */
#ifndef MS_COMM_TCP_H
#define MS_COMM_TCP_H

#include "comm/comm.h"

typedef struct ms_tcp_sockets {
    int *data;   /* (size) to each rank, for one thread at a time; -1 for this rank itself */
    int *notice; /* (size) for beats and reasons, between rank 0 and each other; else -1 */
} ms_tcp_sockets;

/* Meets the other ranks at MASTER_ADDR and MASTER_PORT, and connects this rank to each. */
musec_status ms_tcp_meet(ms_error *e, const ms_ranks *ranks, ms_tcp_sockets *out);
void         ms_tcp_close(ms_tcp_sockets *s, int size);

/* Send or receive all of it; false where the other side is gone (errno 0) or the system fails. */
bool ms_tcp_send(int to, const void *data, int64_t bytes);
bool ms_tcp_receive(int from, void *data, int64_t bytes);

#endif
