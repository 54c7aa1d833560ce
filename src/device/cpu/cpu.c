/* cpu.c - the CPU device: its table, its threads, and what it runs on.
 *
 * The threads are the device's, not the BLAS's.  Every op divides its work into tasks whose
 * boundaries depend on the shape of one matrix alone, and runs the tasks of the whole stack in one
 * loop of the pool, each with a sequential BLAS call.  So the bits of a result depend neither on
 * the number of threads nor on how matrices are stacked, and a stack of small matrices keeps all
 * cores busy. */
#include "device/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/thread.h"
#include "device/cpu/blas_threads.h"

#ifdef MS_HAVE_OPENBLAS
char *openblas_get_config(void); /* neither is in every cblas.h */
char *openblas_get_corename(void);
#endif

int ms_cpu_threads(const ms_device *d) { return ms_workers_threads(ms_cpu_of(d)->workers); }

void ms_cpu_run(ms_device *d, int64_t tasks, ms_worker_task *run, void *arg)
{
    ms_workers_run(ms_cpu_of(d)->workers, tasks, run, arg);
}

void ms_cpu_run_if(ms_device *d, bool parallel, int64_t tasks, ms_worker_task *run, void *arg)
{
    if (parallel) {
        ms_cpu_run(d, tasks, run, arg);
        return;
    }
    for (int64_t task = 0; task < tasks; task++)
        run(arg, task, 0);
}

void ms_cpu_run_blas(ms_device *d, int64_t tasks, ms_worker_task *run, void *arg)
{
    const int before = ms_blas_one_thread_here();
    ms_workers_run(ms_cpu_of(d)->workers, tasks, run, arg);
    ms_blas_threads_here(before);
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

musec_status ms_device_cpu_open(ms_device *d, int index)
{
    ms_cpu      *cpu = NULL;
    musec_status st  = MUSEC_OK;
    if (index != 0)
        return ms_fail(&d->error, MUSEC_EINVAL,
                       "there is one device \"cpu\", not \"%s\"; leave the number out", d->name);
    cpu = d->impl = calloc(1, sizeof *cpu);
    if (cpu == NULL) return ms_fail(&d->error, MUSEC_ENOMEM, "not enough memory");
    ms_device_ref_ops(&cpu->ref);
    cpu->stacks = cpu->ref;
    ms_cpu_level_ops(ms_cpu_level(), &cpu->stacks);
    ms_blas_one_thread();
    st = ms_device_cpu_set_threads(d, ms_thread_count());
    if (st != MUSEC_OK) ms_device_cpu_close(d);
    return st;
}

musec_status ms_device_cpu_set_threads(ms_device *d, int threads)
{
    ms_cpu     *cpu  = d->impl;
    ms_workers *pool = ms_workers_create(threads);
    if (pool == NULL)
        return ms_fail(&d->error, MUSEC_ENOMEM, "not enough memory for %d threads", threads);
    ms_workers_destroy(cpu->workers);
    cpu->workers = pool;
    return MUSEC_OK;
}

void ms_device_cpu_close(ms_device *d)
{
    ms_cpu *cpu = d->impl;
    ms_workers_destroy(cpu->workers);
    free(cpu);
}

void ms_device_cpu_describe(ms_device *d, char *text, size_t bytes)
{
    const int threads = d != NULL ? ms_cpu_threads(d) : ms_thread_count();
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
