/* hull.c - subgradients sampled in a ball, and the point of their hull that is nearest to zero.
 *
 * In many dimensions random points meet few sides of a kink.  So only half of them are drawn from
 * the ball; the others lie along -x from its centre, x being the nearest point so far: if f falls
 * over that distance by less than |x| per unit, a subgradient on the way has a smaller product with
 * x, and the hull with it comes nearer to zero (the step by which Goldstein's descent method finds
 * its direction).  The solver starts from scratch each time, so the number of points grows by a
 * quarter. */
#include "theory/hull.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "core/size.h"
#include "theory/min_norm.h"

enum { FIRST = 8 };

#define SOLVER_TOL 1e-9 /* of the longest subgradient */

typedef struct sampler {
    const ms_objective *p;
    const double       *centre;
    double              delta;
    uint64_t            key;
    uint64_t            drawn; /* random numbers taken */
    double             *point; /* (size) */
    double             *g;     /* (capacity, size) */
    int64_t             n;
    double              longest;
} sampler;

static double norm(const double *x, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

/* Samples the subgradient at the centre plus `length` times direction / |direction|. */
static void sample_at(sampler *s, const double *direction, double length)
{
    const int64_t size  = ms_objective_size(s->p);
    const double  whole = norm(direction, size);
    double       *g     = s->g + s->n * size;

    for (int64_t i = 0; i < size; i++)
        s->point[i] = s->centre[i] + (whole > 0.0 ? length / whole * direction[i] : 0.0);
    (void)ms_objective_value(s->p, s->point, g);
    s->longest = fmax(s->longest, norm(g, size));
    s->n++;
}

/* Samples at a point that is uniform in the ball. */
static void sample_random(sampler *s, double *direction)
{
    const int64_t size = ms_objective_size(s->p);
    for (int64_t i = 0; i < size; i++)
        direction[i] = ms_rand_normal(s->key, s->drawn++);
    sample_at(s, direction,
              s->delta * pow(ms_rand_uniform(s->key, s->drawn++), 1.0 / (double)size));
}

static musec_status solve(ms_error *e, const sampler *s, double *nearest, ms_hull *out)
{
    ms_min_norm_result r = { 0 };
    musec_status       st;

    TRY(ms_min_norm(e, s->g, s->n, ms_objective_size(s->p), SOLVER_TOL, &r));
    memcpy(nearest, r.x, (size_t)ms_objective_size(s->p) * sizeof *nearest);
    *out =
        (ms_hull){ .upper = r.upper, .lower = r.lower, .samples = s->n, .certified = r.certified };
done:
    ms_min_norm_free(&r);
    return st;
}

static void sample_more(sampler *s, int64_t more, const double *nearest, double *direction)
{
    for (int64_t i = 0; i < more; i++) {
        if (i % 2 == 0)
            sample_random(s, direction);
        else
            sample_at(s, nearest, -s->delta * ms_rand_uniform(s->key, s->drawn++));
    }
}

musec_status ms_hull_distance(ms_error *e, const ms_objective *p, const double *centre,
                              double delta, int64_t samples, uint64_t seed, ms_hull *out)
{
    const int64_t size    = ms_objective_size(p);
    double       *nearest = NULL, *direction = NULL;
    size_t        bytes = 0, all = 0;
    sampler       s = {
              .p = p, .centre = centre, .delta = delta, .key = ms_rand_key(seed, "hull samples")
    };
    musec_status st = MUSEC_OK;

    if (samples < 1 || !(delta > 0.0))
        return ms_fail(e, MUSEC_EINVAL, "%lld samples in a ball of %g; both must be above 0",
                       (long long)samples, delta);
    if (ms_size_stack(1, 1, size, sizeof *s.g, &bytes) &&
        ms_size_stack(1, samples, size, sizeof *s.g, &all) && bytes > 0 && all > 0) {
        s.point   = malloc(bytes);
        s.g       = malloc(all);
        nearest   = calloc(1, bytes);
        direction = calloc(1, bytes);
    }
    if (s.point == NULL || s.g == NULL || nearest == NULL || direction == NULL)
        TRY(ms_fail(e, MUSEC_ENOMEM, "not enough memory for %lld subgradients",
                    (long long)samples));
    sample_at(&s, nearest, 0.0); /* at the centre */
    for (;;) {
        int64_t more = s.n < 4 * FIRST ? FIRST : s.n / 4;
        TRY(solve(e, &s, nearest, out));
        if (more > samples - s.n) more = samples - s.n;
        if (more == 0 || out->upper <= 1e-9 * s.longest) break;
        sample_more(&s, more, nearest, direction);
    }
done:
    free(direction);
    free(nearest);
    free(s.g);
    free(s.point);
    return st;
}
