/* clip_law.h - what each operator promises to make of a singular value.
 *
 * The promises are those of docs/operators.md, in exact arithmetic: an interval for each singular
 * value, of no width where the operator is an exact map.  The soft stage of an operator multiplies
 * h(s) = D s / sqrt(s^2 + D^2) by a gain c, and a sharper clip is made of its result: with zeta =
 * D^2 / (s^2 + D^2) it becomes c h(s) g(c^2 zeta), which falls as c falls, times a factor of the
 * chain in [1 - error, 1]. */
#ifndef MS_TESTS_CLIP_LAW_H
#define MS_TESTS_CLIP_LAW_H

#include "clip_run.h"
#include "linalg/sharp_chain.h"

typedef struct law_case { /* an operator with its options; 0 stands for the default */
    const char *op;
    double      sharpness; /* of the sharp operators; INFINITY is the hard clip */
    double      tol;       /* of the accurate operators */
    int         iters, literal;
} law_case;

/* Every operator with a threshold, with the options that matter. */
extern const law_case law_cases[];
extern const size_t   law_case_count;

musec_clip_config law_config(const law_case *c, double threshold);
bool              law_is_by_products(const law_case *c);
const char       *law_case_name(const law_case *c, char *name, size_t bytes); /* returns name */

typedef struct law_range {
    double least, most;
} law_range;

/* The image of s[at] of the spectrum s (r); the report is that of the matrix. */
law_range law_promised(const musec_clip_config *cfg, const musec_clip_report *report,
                       const double *s, int64_t r, int64_t at);

/* The clip of sharpness p over the soft one: g(zeta). */
double law_bend(double zeta, double p);
/* What the chain of `sharp-fast` and `hard-fast` may fall short of g by, relatively. */
double law_chain_error(double p);
/* The polynomial of a chain at x, in float64. */
double law_chain(const ms_sharp_chain *c, double x);

#endif
