/* cpu.h - what the files of the CPU device share. */
#ifndef MS_DEVICE_CPU_CPU_H
#define MS_DEVICE_CPU_CPU_H

#include "core/size.h"
#include "device/cpu/workers.h"
#include "device/device.h"

/* What a CPU device has besides its table: its threads, and two tables whose rows it calls. */
typedef struct ms_cpu {
    ms_workers   *workers;
    ms_device_ops ref;    /* for layouts and dtypes that have no fast loop */
    ms_device_ops stacks; /* for grouped ops, which run matrix by matrix */
} ms_cpu;

static inline const ms_cpu *ms_cpu_of(const ms_device *d) { return (const ms_cpu *)d->impl; }

/* Counts the threads of the device's pool, with the caller's. */
int ms_cpu_threads(const ms_device *d);
/* Calls ms_workers_run() on that pool. */
void ms_cpu_run(ms_device *d, int64_t tasks, ms_worker_task *run, void *arg);
/* Does the same where `parallel`, otherwise runs all tasks on the calling thread, as thread 0. */
void ms_cpu_run_if(ms_device *d, bool parallel, int64_t tasks, ms_worker_task *run, void *arg);
/* The same for tasks that call BLAS or LAPACK, which then starts no threads of its own. */
void ms_cpu_run_blas(ms_device *d, int64_t tasks, ms_worker_task *run, void *arg);

void ms_cpu_blas_ops(ms_device_ops *table);   /* blas.c: products */
void ms_cpu_lapack_ops(ms_device_ops *table); /* lapack.c: decompositions */

/* Some files are compiled several times, each time for another level of instructions, which CMake
 * names in MS_CPU_LEVEL; without it they are for every processor.  The function that such a file
 * exports is called MS_CPU_FN(name): name, name_v3, name_v4.  It sets the file's rows of the table,
 * so the level is chosen once, when the table is made (cpu.c). */
#ifdef MS_CPU_LEVEL
#define MS_CPU_PASTE(name, level)  name##_##level
#define MS_CPU_EXPAND(name, level) MS_CPU_PASTE(name, level)
#define MS_CPU_FN(name)            MS_CPU_EXPAND(name, MS_CPU_LEVEL)
#else
#define MS_CPU_FN(name) name
#endif

typedef void ms_cpu_ops(ms_device_ops *table);

#define MS_CPU_LEVELS(name) ms_cpu_ops name, name##_v3, name##_v4

MS_CPU_LEVELS(ms_cpu_element_ops);   /* element.c: element ops, reductions, random */
MS_CPU_LEVELS(ms_cpu_nn_ops);        /* nn.c: rows and elements of networks */
MS_CPU_LEVELS(ms_cpu_xent_ops);      /* xent.c: the loss */
MS_CPU_LEVELS(ms_cpu_attention_ops); /* attention.c */

ms_cpu_ops ms_cpu_list_ops; /* lists.c: grouped ops, by the rows that take stacks */

/* Returns the best x86-64 level of this processor, 3 or 4; 0 is code for any processor. */
int ms_cpu_level(void);
/* Sets the rows of the files above, compiled for a level that this processor has. */
void ms_cpu_level_ops(int level, ms_device_ops *table);

#endif
