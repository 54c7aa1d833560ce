/* async.h - calls of a communicator that are made while the caller computes.
 *
 * Calls are made one after the other, in the order in which they were begun, by a thread of their
 * own.  All ranks begin the same calls in the same order, and from the first of them until
 * ms_async_wait has returned for the last, nobody else calls the communicator but for abort.
 *
 * What lies on a device with memory of its own, which that thread may not touch, is communicated at
 * once, within the call that begins it.  So it is on one rank, where nothing is sent. */
#ifndef MS_COMM_ASYNC_H
#define MS_COMM_ASYNC_H

#include "comm/comm.h"

typedef struct ms_async ms_async;

/* d: the device that the data lie on. */
musec_status ms_async_create(ms_error *e, ms_comm *c, ms_device *d, ms_async **out);
/* What has begun must be done, or have failed; accepts NULL. */
void ms_async_destroy(ms_async *a);
/* Do calls go on while the caller computes? */
bool ms_async_overlaps(const ms_async *a);

/* Begin a call, whose list is copied; its data are in use until it is done.  *ticket: its number,
 * larger than those of all before. */
musec_status ms_async_pass(ms_async *a, const ms_comm_transfer *list, size_t n, int64_t *ticket);
musec_status ms_async_reduce(ms_async *a, const ms_comm_piece *pieces, size_t n, int64_t *ticket);
musec_status ms_async_gather(ms_async *a, const ms_comm_piece *pieces, size_t n, int64_t *ticket);

/* Is this call done, or will it never be?  Does not wait. */
bool ms_async_is_done(ms_async *a, int64_t ticket);
/* Waits until this call and all before are done.  The first failure is that of every later call,
 * and its message is the communicator's. */
musec_status ms_async_wait(ms_async *a, int64_t ticket);

#endif
