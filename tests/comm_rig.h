/* comm_rig.h - the communicator of a test that is run alone, and by launchers on several ranks
 * (tests/tools/on_ranks): TEST_GROUP(open_comm, close_comm). */
#ifndef MS_TESTS_COMM_RIG_H
#define MS_TESTS_COMM_RIG_H

#include "comm/comm.h"

extern ms_comm *comm; /* of this process, for all its tests */

int open_comm(void **state);
int close_comm(void **state);

#endif
