/* blas_threads.c - one thread for every call of BLAS and LAPACK.
 *
 * The functions that set the number of threads are weak symbols, which are NULL if no library of
 * the process has them.  Systems without ELF use those of the library that the build found. */
#include "device/cpu/blas_threads.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __ELF__

#define WEAK __attribute__((weak))
WEAK int  openblas_get_parallel(void);
WEAK void openblas_set_num_threads(int n);
WEAK void bli_thread_set_num_threads(int64_t n);
WEAK int  omp_get_max_threads(void);
WEAK void omp_set_num_threads(int n);

void ms_blas_one_thread(void)
{
    const int own_threads = 1;
    if (openblas_get_parallel != NULL && openblas_set_num_threads != NULL &&
        openblas_get_parallel() == own_threads)
        openblas_set_num_threads(1);
    if (bli_thread_set_num_threads != NULL) bli_thread_set_num_threads(1);
}

int ms_blas_one_thread_here(void)
{
    if (omp_get_max_threads == NULL || omp_set_num_threads == NULL) return 0;
    const int before = omp_get_max_threads();
    if (before == 1) return 0;
    omp_set_num_threads(1);
    return before;
}

void ms_blas_threads_here(int n)
{
    if (n > 0) omp_set_num_threads(n);
}

#else

#ifdef MS_HAVE_OPENBLAS
void openblas_set_num_threads(int n);
void ms_blas_one_thread(void) { openblas_set_num_threads(1); }
#else
void ms_blas_one_thread(void) {}
#endif
int  ms_blas_one_thread_here(void) { return 0; }
void ms_blas_threads_here(int n) { (void)n; }

#endif
