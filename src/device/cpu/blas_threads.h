/* blas_threads.h - one thread for every call of BLAS and LAPACK.
 *
 * The CPU device cuts its work itself and calls BLAS from many threads at once, so a BLAS that
 * starts threads of its own would put several on each core, and its results would depend on their
 * number.  Which BLAS is loaded may be decided after the build (Debian's alternatives), so each
 * library's switch is looked for when the program runs. */
#ifndef MS_DEVICE_CPU_BLAS_THREADS_H
#define MS_DEVICE_CPU_BLAS_THREADS_H

/* OpenBLAS with threads of its own, and BLIS, count their threads for the whole process: it is
 * left with one. */
void ms_blas_one_thread(void);

/* A BLAS on OpenMP counts for the calling thread: leaves it with one, and returns the number that
 * it had, for ms_blas_threads_here(); 0: there is nothing to restore. */
int  ms_blas_one_thread_here(void);
void ms_blas_threads_here(int n);

#endif
