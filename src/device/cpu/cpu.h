/* cpu.h - what the files of the CPU device share. */
#ifndef MS_DEVICE_CPU_CPU_H
#define MS_DEVICE_CPU_CPU_H

#include "device/device.h"

/* Must this many tasks be run by a team of threads, or may the caller do them alone?  A BLAS built
 * on OpenMP is sequential only inside a team; alone it would start threads, and might give other
 * bits. */
bool ms_cpu_needs_team(int64_t tasks);

void ms_cpu_element_ops(ms_device_ops *table); /* element.c: element ops, reductions, random */
void ms_cpu_blas_ops(ms_device_ops *table);    /* blas.c: products */
void ms_cpu_lapack_ops(ms_device_ops *table);  /* lapack.c: decompositions */

#endif
