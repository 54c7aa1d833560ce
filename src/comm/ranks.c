/* ranks.c - which rank this process is, as launchers say it in the environment.
 *
 * The first launcher whose variables are there counts: mpirun inside of a job of Slurm has both,
 * and its own are right.  A script that Slurm runs has SLURM_NTASKS without being one of so many
 * processes, so the number of tasks of the step is read instead, which only srun's processes
 * share. */
#include <limits.h>
#include <stdlib.h>

#include "comm/comm.h"

static const struct {
    const char *launcher, *rank, *size, *local_rank;
    bool        is_of_mpi; /* its processes are those of an MPI */
} launchers[] = {
    { "mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
      true },
    { "mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", true },
    { "srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", false },
    { "the launcher", "RANK", "WORLD_SIZE", "LOCAL_RANK", false },
};

/* Reads a variable that is set: a number of at least `min`. */
static musec_status read_number(ms_error *e, const char *name, int min, int *out)
{
    const char *text = getenv(name);
    char       *end  = NULL;
    const long  n    = text != NULL ? strtol(text, &end, 10) : 0;

    if (text == NULL || end == text || *end != '\0' || n < min || n > INT_MAX)
        return ms_fail(e, MUSEC_EINVAL,
                       "%s is \"%s\" in the environment, not a number of %d or more", name,
                       text != NULL ? text : "", min);
    *out = (int)n;
    return MUSEC_OK;
}

musec_status ms_ranks_read(ms_error *e, ms_ranks *out)
{
    musec_status st = MUSEC_OK;

    *out = (ms_ranks){ .size = 1, .local_rank = -1 };
    for (size_t i = 0; i < COUNT(launchers); i++) {
        if (getenv(launchers[i].rank) == NULL || getenv(launchers[i].size) == NULL) continue;
        TRY(read_number(e, launchers[i].rank, 0, &out->rank));
        TRY(read_number(e, launchers[i].size, 1, &out->size));
        if (getenv(launchers[i].local_rank) != NULL)
            TRY(read_number(e, launchers[i].local_rank, 0, &out->local_rank));
        if (out->rank >= out->size)
            TRY(ms_fail(e, MUSEC_EINVAL,
                        "%s is %d in the environment and %s is %d: a rank must be below that",
                        launchers[i].rank, out->rank, launchers[i].size, out->size));
        out->launcher  = launchers[i].launcher;
        out->is_of_mpi = launchers[i].is_of_mpi;
        break;
    }
done:
    return st;
}
