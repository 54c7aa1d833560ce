/* clip_run.h - the public operators applied to host matrices, on any device and in any layout, and
 * the scalar laws that say what they do to a singular value.
 *
 * Matrices come and go as dense float64 in host memory.  Float32 results are widened, which keeps
 * their bits, so two of them may be compared exactly. */
#ifndef MS_TESTS_CLIP_RUN_H
#define MS_TESTS_CLIP_RUN_H

#include <stdbool.h>

#include "check.h"
#include "oracle.h"

/* ---- stacks in device memory ----------------------------------------------------------------- */

typedef struct run_layout { /* { 0 } is one dense matrix */
    int64_t more;           /* matrices besides the first */
    int64_t pad, gap;       /* elements left alone behind each row, and behind each matrix */
} run_layout;

typedef struct run_stack {
    musec_view view;
    int64_t    n; /* elements, padding included */
} run_stack;

/* dense: (count, rows, cols), or NULL: every element is `padding`. */
run_stack run_stack_make(ms_device *dev, musec_dtype dtype, int64_t rows, int64_t cols,
                         run_layout layout, const double *dense, double padding);
/* The matrices, malloc'ed; fails the test if the padding is no longer what it was. */
double *run_stack_read(ms_device *dev, const run_stack *s, double padding);
bool    run_stack_holds(ms_device *dev, const run_stack *s, double value); /* and nothing else */
void   *run_stored(const double *x, int64_t n, musec_dtype dtype); /* as on the device; malloc'ed */
double  run_rounded(double x, musec_dtype dtype);                  /* x as it is stored */
/* The matrices alone, of a stack whose padding is not looked at; and others in their place. */
double *run_stack_gather(ms_device *dev, const run_stack *s);
void    run_stack_overwrite(ms_device *dev, const run_stack *s, const double *dense);
void    run_stack_free(ms_device *dev, run_stack *s);

/* ---- operators ------------------------------------------------------------------------------- */

musec_clip_config run_config(const char *op, double threshold); /* else the defaults */

/* x: (layout.more + 1, rows, cols), rounded to dtype.  Returns the result, malloc'ed.  The padding
 * of the input is NaN, which nobody may read; that of the output must stay as it is.  report: NULL
 * or one for each matrix. */
double *run_clip_in(ms_device *dev, const musec_clip_config *cfg, musec_dtype dtype,
                    const double *x, int64_t rows, int64_t cols, run_layout layout,
                    musec_clip_report *report);
/* One dense matrix. */
double *run_clip(ms_device *dev, const musec_clip_config *cfg, musec_dtype dtype, const double *x,
                 int64_t rows, int64_t cols, musec_clip_report *report);

/* Is this the device of plain loops?  Large sizes are not for it. */
bool run_is_slow(const ms_device *dev);

/* ---- comparing ------------------------------------------------------------------------------- */

double run_fro(const double *a, int64_t n);                       /* |a|_F; NaN stays NaN */
double run_fro_diff(const double *a, const double *b, int64_t n); /* |a - b|_F */
/* An upper bound of |a - b|_2: the Schatten norms of order 2, 4, 8, ..., by squaring the Gram
 * matrix, until one is not above `enough` or the order is 128, when it is at most r^(1/128) (1.05
 * for r = 256) times the norm. */
double run_norm2_diff(const double *a, const double *b, int64_t rows, int64_t cols, double enough);
bool   run_same_bits(const double *a, const double *b, int64_t n);

/* ---- random spectra and the gain on each value ----------------------------------------------- */

typedef enum run_spectrum {
    RUN_FLAT,
    RUN_DECAYING,
    RUN_SPIKE,
    RUN_GAUSSIAN,
    RUN_LOG_UNIFORM,
    RUN_SPECTRA
} run_spectrum;
extern const char *const run_spectrum_names[];

/* r singular values, descending, the first 1. */
void run_draw_spectrum(run_spectrum kind, int64_t r, uint64_t *state, double *s);
/* u_l^T out v_l: what became of singular value l. */
double run_along(const oracle *o, const double *out, int64_t l);
/* The oracle's vectors are orthonormal to some 1e-15, and so is the arithmetic: that much of |out|
 * leaks into the measured image of a small singular value, relative to it. */
double run_gain_noise(const oracle *o, double D, double s);

/* ---- scalar laws ----------------------------------------------------------------------------- */

double law_soft(double s, double threshold);            /* h(s) = D s / sqrt(s^2 + D^2) */
double law_sharp(double s, double threshold, double p); /* s / (1 + (s / D)^p)^(1/p) */
double law_steps(double u, int iters);                  /* phi_K(u): K times u (3 - u^2) / 2 */
double law_alpha_fro(const double *s, int64_t r, double threshold); /* |X X^T + D^2 I|_F */
double law_alpha_c4(const double *s, int64_t r, double threshold);  /* the fourth-moment bound */

typedef struct law_ssc {
    double threshold, alpha; /* alpha: law_alpha_fro of the spectrum */
    int    iters;
} law_ssc;
double law_ssc_of(double s, const void *arg); /* for oracle_map; arg: a law_ssc */

#endif
