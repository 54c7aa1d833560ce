/* blas_threads.h - one thread for every call of BLAS and LAPACK.
 *
 * The CPU device divides its work itself and calls BLAS from many threads at once, so a BLAS that
 * starts threads of its own would put several on each core, and its results would depend on their
 * number.  Which BLAS is loaded may be decided after the build (Debian's alternatives), so the
 * functions that set its threads are looked up when the program runs. */
#ifndef MS_DEVICE_CPU_BLAS_THREADS_H
#define MS_DEVICE_CPU_BLAS_THREADS_H

/* Sets one thread for the whole process in BLIS and in an OpenBLAS with threads of its own. */
void ms_blas_one_thread(void);

/* Sets one thread for calls from this thread in a BLAS that uses OpenMP.  Returns the number that
 * it had, for ms_blas_threads_here(); 0: there is nothing to restore. */
int  ms_blas_one_thread_here(void);
void ms_blas_threads_here(int n);

#endif
