/* mpi_plugin.h - the calls of MPI that musec makes, as a table.
 *
 * The handles of one MPI are numbers and those of another are addresses, so that a program compiled
 * for one cannot call the other.  The program therefore never calls MPI itself: it opens
 * libmusec_mpi.so, which is mpi_plugin.c compiled by the MPI that is to be used, and finds this
 * table in it.  For an MPI other than that of the build:
 *
 *     mpicc -shared -fPIC -O2 -I. -o libmusec_mpi.so comm/plugin/mpi_plugin.c
 *
 * in share/musec/mpi of an installed musec, or in src.
 *
 * Every function but `describe`, `error` and `abort` returns 0 or MPI's error code.  Nothing here
 * blocks but `start` and `finish`.  Counts are those of one call of MPI; who calls cuts what is
 * longer. */
#ifndef MS_COMM_PLUGIN_MPI_PLUGIN_H
#define MS_COMM_PLUGIN_MPI_PLUGIN_H

enum { MS_MPI_PLUGIN_VERSION = 2 };

typedef struct ms_mpi_request { /* holds an MPI_Request */
    _Alignas(16) unsigned char raw[16];
} ms_mpi_request;

typedef enum ms_mpi_type { MS_MPI_BYTES, MS_MPI_F32, MS_MPI_F64 } ms_mpi_type;
typedef enum ms_mpi_op { MS_MPI_SUM, MS_MPI_MAX } ms_mpi_op;

typedef struct ms_mpi_plugin {
    int version; /* MS_MPI_PLUGIN_VERSION */
    /* Writes the name and version of the MPI; before `start`, too. */
    void (*describe)(char *text, int bytes);
    void (*error)(int code, char *text, int bytes);
    /* Starts MPI with calls from one thread at a time.  *serialized: it allows that. */
    int (*start)(int *rank, int *size, int *serialized);
    int (*finish)(void);
    void (*abort)(int status);
    /* Collective calls, in the same order on every rank. */
    int (*all_reduce)(void *data, int n, ms_mpi_type type, ms_mpi_op op, ms_mpi_request *r);
    int (*broadcast)(void *data, int bytes, int root, ms_mpi_request *r);
    int (*barrier)(ms_mpi_request *r);
    int (*send)(const void *data, int bytes, int to, int tag, ms_mpi_request *r);
    int (*receive)(void *data, int bytes, int from, int tag, ms_mpi_request *r);
    int (*test)(ms_mpi_request *r, int *done);
    /* Messages of their own, beside those above: sends some bytes, and takes the next message of
     * this tag from anyone, if there is one (*from: -1 if not). */
    int (*notify)(const void *data, int bytes, int to, int tag, ms_mpi_request *r);
    int (*take)(void *data, int capacity, int tag, int *from, int *bytes);
} ms_mpi_plugin;

#define MS_MPI_PLUGIN_SYMBOL "musec_mpi_plugin"
const ms_mpi_plugin *musec_mpi_plugin(void);

#endif
