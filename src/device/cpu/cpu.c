/* cpu.c - the CPU device: its table, and what it runs on.
 *
 * Threads are ours, not the BLAS's.  Every op cuts its work into tasks whose borders depend on the
 * shape of one matrix alone, and runs the tasks of the whole stack in one OpenMP loop, each with a
 * sequential BLAS call.  So the bits of a result depend neither on the number of threads nor on how
 * matrices are stacked, and a stack of small matrices keeps all cores busy. */
#include "device/cpu/cpu.h"

#include <omp.h>
#include <stdio.h>
#include <string.h>

#ifdef MS_HAVE_OPENBLAS
char *openblas_get_config(void); /* none of these is in every cblas.h */
char *openblas_get_corename(void);
int   openblas_get_parallel(void);
void  openblas_set_num_threads(int n);
#endif

bool ms_cpu_needs_team(int64_t tasks)
{
#ifdef MS_HAVE_OPENBLAS
    const int on_openmp = 2;
    return tasks > 1 || openblas_get_parallel() == on_openmp;
#else
    (void)tasks;
    return true;
#endif
}

int ms_cpu_level(void)
{
#ifdef MS_CPU_HAVE_LEVELS
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
        !__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("bmi2"))
        return 0;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512cd"))
        return 4;
    return 3;
#else
    return 0;
#endif
}

void ms_cpu_level_ops(int level, ms_device_ops *table)
{
#define FILES_OF(level)                                                               \
    {                                                                                 \
        ms_cpu_element_ops##level, ms_cpu_nn_ops##level, ms_cpu_attention_ops##level, \
            ms_cpu_xent_ops##level                                                    \
    }
    static ms_cpu_ops *const files[][4] = {
        FILES_OF(),
#ifdef MS_CPU_HAVE_LEVELS
        [3] = FILES_OF(_v3),
        [4] = FILES_OF(_v4),
#endif
    };
    for (size_t i = 0; i < COUNT(files[0]); i++)
        files[level][i](table);
}

void ms_device_cpu_ops(ms_device_ops *table)
{
    ms_device_ref_ops(table);
    table->name = "cpu";
    ms_cpu_blas_ops(table);
    ms_cpu_lapack_ops(table);
    ms_cpu_level_ops(ms_cpu_level(), table);
    ms_cpu_list_ops(table);
}

/* An OpenBLAS built on OpenMP is sequential inside a parallel region by itself; one that has
 * threads of its own would start them in each of our tasks.  It counts them for the process, also
 * where it has a call for the calling thread alone; so musec.h and the README say it. */
musec_status ms_device_cpu_open(ms_device *d, int index)
{
    if (index != 0)
        return ms_fail(&d->error, MUSEC_EINVAL, "there is one device \"cpu\", not \"%s\"", d->name);
#ifdef MS_HAVE_OPENBLAS
    const int own_threads = 1;
    if (openblas_get_parallel() == own_threads) openblas_set_num_threads(1);
#endif
    return MUSEC_OK;
}

void ms_device_cpu_describe(char *text, size_t bytes)
{
    const int threads = omp_get_max_threads();
#ifdef MS_HAVE_OPENBLAS
    const char *config  = openblas_get_config(); /* "OpenBLAS 0.3.21 NO_AFFINITY ..." */
    const char *version = strchr(config, ' ');
    version             = version == NULL ? config : version + 1;
    snprintf(text, bytes, "OpenBLAS %.*s, %s kernels, %d thread%s", (int)strcspn(version, " "),
             version, openblas_get_corename(), threads, threads == 1 ? "" : "s");
#else
    snprintf(text, bytes, "CBLAS and LAPACKE as linked, %d thread%s", threads,
             threads == 1 ? "" : "s");
#endif
}
