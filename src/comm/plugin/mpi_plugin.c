/* mpi_plugin.c - the table of mpi_plugin.h, for the MPI whose mpi.h is found when this is compiled.
 *
 * It needs nothing of musec but its header, so that it can be compiled anywhere. */
#include "comm/plugin/mpi_plugin.h"

#include <assert.h>
#include <mpi.h>
#include <string.h>

static_assert(sizeof(MPI_Request) <= sizeof(ms_mpi_request), "a request holds that of MPI");

/* What one process has of MPI: there is one world. */
static MPI_Comm data_comm, notice_comm;

static MPI_Datatype type_of(ms_mpi_type type)
{
    return type == MS_MPI_F32 ? MPI_FLOAT : type == MS_MPI_F64 ? MPI_DOUBLE : MPI_BYTE;
}

static int keep(int code, MPI_Request from, ms_mpi_request *to)
{
    memcpy(to->raw, &from, sizeof from);
    return code;
}

static void plugin_describe(char *text, int bytes)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int  n                                       = 0;
    if (bytes < 1) return;
    (void)MPI_Get_library_version(version, &n);
    version[strcspn(version, "\n")] = '\0';
    for (char *c = version; *c != '\0'; c++)
        if (*c == '\t') *c = ' ';
    n = (int)strlen(version);
    if (n > bytes - 1) n = bytes - 1;
    memcpy(text, version, (size_t)n);
    text[n] = '\0';
}

static void plugin_error(int code, char *text, int bytes)
{
    char words[MPI_MAX_ERROR_STRING] = "";
    int  n                           = 0;
    if (bytes < 1) return;
    (void)MPI_Error_string(code, words, &n);
    if (n > bytes - 1) n = bytes - 1;
    memcpy(text, words, (size_t)n);
    text[n] = '\0';
}

static int plugin_start(int *rank, int *size, int *serialized)
{
    int level = 0, code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    *serialized = level >= MPI_THREAD_SERIALIZED;
    if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (code == MPI_SUCCESS) code = MPI_Comm_dup(MPI_COMM_WORLD, &data_comm);
    if (code == MPI_SUCCESS) code = MPI_Comm_dup(MPI_COMM_WORLD, &notice_comm);
    if (code == MPI_SUCCESS) code = MPI_Comm_rank(data_comm, rank);
    if (code == MPI_SUCCESS) code = MPI_Comm_size(data_comm, size);
    return code;
}

static int plugin_finish(void)
{
    (void)MPI_Comm_free(&notice_comm);
    (void)MPI_Comm_free(&data_comm);
    return MPI_Finalize();
}

static void plugin_abort(int status) { (void)MPI_Abort(MPI_COMM_WORLD, status); }

static int plugin_all_reduce(void *data, int n, ms_mpi_type type, ms_mpi_op op, ms_mpi_request *r)
{
    MPI_Request one  = MPI_REQUEST_NULL;
    const int   code = MPI_Iallreduce(MPI_IN_PLACE, data, n, type_of(type),
                                    op == MS_MPI_SUM ? MPI_SUM : MPI_MAX, data_comm, &one);
    return keep(code, one, r);
}

static int plugin_broadcast(void *data, int bytes, int root, ms_mpi_request *r)
{
    MPI_Request one  = MPI_REQUEST_NULL;
    const int   code = MPI_Ibcast(data, bytes, MPI_BYTE, root, data_comm, &one);
    return keep(code, one, r);
}

static int plugin_barrier(ms_mpi_request *r)
{
    MPI_Request one  = MPI_REQUEST_NULL;
    const int   code = MPI_Ibarrier(data_comm, &one);
    return keep(code, one, r);
}

static int plugin_send(const void *data, int bytes, int to, int tag, ms_mpi_request *r)
{
    MPI_Request one  = MPI_REQUEST_NULL;
    const int   code = MPI_Isend(data, bytes, MPI_BYTE, to, tag, data_comm, &one);
    return keep(code, one, r);
}

static int plugin_receive(void *data, int bytes, int from, int tag, ms_mpi_request *r)
{
    MPI_Request one  = MPI_REQUEST_NULL;
    const int   code = MPI_Irecv(data, bytes, MPI_BYTE, from, tag, data_comm, &one);
    return keep(code, one, r);
}

static int plugin_test(ms_mpi_request *r, int *done)
{
    MPI_Request one;
    int         code;
    memcpy(&one, r->raw, sizeof one);
    code = MPI_Test(&one, done, MPI_STATUS_IGNORE);
    return keep(code, one, r);
}

static int plugin_notify(const void *data, int bytes, int to, int tag, ms_mpi_request *r)
{
    MPI_Request one  = MPI_REQUEST_NULL;
    const int   code = MPI_Isend(data, bytes, MPI_BYTE, to, tag, notice_comm, &one);
    return keep(code, one, r);
}

static int plugin_take(void *data, int capacity, int tag, int *from, int *bytes)
{
    MPI_Status status;
    int        there = 0, code = MPI_Iprobe(MPI_ANY_SOURCE, tag, notice_comm, &there, &status);
    *from  = -1;
    *bytes = 0;
    if (code != MPI_SUCCESS || !there) return code;
    code = MPI_Recv(data, capacity, MPI_BYTE, status.MPI_SOURCE, tag, notice_comm, &status);
    if (code != MPI_SUCCESS) return code;
    *from = status.MPI_SOURCE;
    return MPI_Get_count(&status, MPI_BYTE, bytes);
}

const ms_mpi_plugin *musec_mpi_plugin(void)
{
    static const ms_mpi_plugin table = {
        .version    = MS_MPI_PLUGIN_VERSION,
        .describe   = plugin_describe,
        .error      = plugin_error,
        .start      = plugin_start,
        .finish     = plugin_finish,
        .abort      = plugin_abort,
        .all_reduce = plugin_all_reduce,
        .broadcast  = plugin_broadcast,
        .barrier    = plugin_barrier,
        .send       = plugin_send,
        .receive    = plugin_receive,
        .test       = plugin_test,
        .notify     = plugin_notify,
        .take       = plugin_take,
    };
    return &table;
}
