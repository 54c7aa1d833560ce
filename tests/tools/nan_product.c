/* nan_product.c - a processor that computes wrongly: a library that is loaded before others, by
 * which the product number MUSEC_TEST_NAN_AT of this process has a NaN. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef void product(int order, int a_trans, int b_trans, int m, int n, int k, float alpha,
                     const float *a, int lda, const float *b, int ldb, float beta, float *c,
                     int ldc);

product cblas_sgemm; /* as CBLAS declares it, of 32-bit sizes */

static atomic_long calls;

void cblas_sgemm(int order, int a_trans, int b_trans, int m, int n, int k, float alpha,
                 const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc)
{
    const char *at = getenv("MUSEC_TEST_NAN_AT");
    product    *real;
    *(void **)&real = dlsym(RTLD_NEXT, "cblas_sgemm");
    real(order, a_trans, b_trans, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    if (at != NULL && atomic_fetch_add(&calls, 1) + 1 == strtol(at, NULL, 10)) c[0] = NAN;
}
