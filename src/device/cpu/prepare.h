/* prepare.h - for programs: makes OpenBLAS use the best kernels for this processor. */
#ifndef MS_DEVICE_CPU_PREPARE_H
#define MS_DEVICE_CPU_PREPARE_H

/* OpenBLAS can be told which kernels to use only before it is loaded.  Where it did not recognise a
 * newer processor and fell back to kernels without AVX (seven times slower on a recent Xeon), this
 * runs the program again, once, with the right choice in its environment; otherwise it returns.
 * Programs call it first thing in main(); the library itself never does, since the process belongs
 * to its host. */
void ms_device_cpu_prepare(char **argv);

#endif
