/* comm_rig.c - see comm_rig.h. */
#include "comm_rig.h"

#include "check.h"

ms_comm *comm;

int open_comm(void **state)
{
    ms_error e = { "" };
    (void)state;
    CHECK_OK_ERR(&e, ms_comm_open(&e, &(ms_comm_setup){ .kind = "auto" }, &comm));
    return 0;
}

int close_comm(void **state)
{
    (void)state;
    ms_comm_close(comm);
    return 0;
}
