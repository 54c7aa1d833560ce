/* params.c - the numbers of the Corollary, its constraints, its bound, and N for a target.
 *
 * With the parameters of the Corollary (params.h) each constraint is a threshold on N:
 *
 *     eta T D sqrt(r) <= delta   T >= 1 before rounding:   N >= 1 / delta
 *     beta <= 1/8                (delta N)^(2/3) >= 8 sqrt(r):   N >= 8^(3/2) r^(3/4) / delta
 *     eta <= 1/rho               N >= rho^3 delta^2 r^(-3/2)
 *     T <= N                     N >= delta^2
 *
 * gamma = beta / eta holds at every N.  The fifth is not among the paper's four: K = N / T falls
 * below one epoch without it.  The least N is searched for around the largest threshold with the
 * constraints themselves, so that what is printed holds to the last bit.
 *
 * The products are formed by cube roots, which are exact where the answer is: (8)^(2/3) is 4, while
 * pow gives 3.9999999999999996 and an epoch of 3 steps. */
#include "theory/params.h"

#include <math.h>
#include <stddef.h>

/* Counts beyond this are no longer exact as doubles. */
#define MAX_STEPS 0x1p53
/* Relative tolerance of an equality, whose sides have some ten roundings each. */
#define ROUNDING (16 * 0x1p-52)

/* ---- what is given --------------------------------------------------------------------------- */

static const struct field {
    const char *option;
    size_t      offset;
    double      min;
    bool        above; /* it must be above min */
} fields[] = {
    { "--delta", offsetof(ms_theory_params, delta), 0.0, true },
    { "--rank", offsetof(ms_theory_params, rank), 1.0, false },
    { "--rho", offsetof(ms_theory_params, rho), 0.0, false },
    { "--lipschitz", offsetof(ms_theory_params, lipschitz), 0.0, false },
    { "--sigma", offsetof(ms_theory_params, sigma), 0.0, false },
    { "--gap", offsetof(ms_theory_params, gap), 0.0, false },
};

static musec_status check_given(ms_error *e, const ms_theory_params *p)
{
    for (size_t i = 0; i < COUNT(fields); i++) {
        const double x = *(const double *)(const void *)((const char *)p + fields[i].offset);
        if (!isfinite(x) || !(fields[i].above ? x > fields[i].min : x >= fields[i].min))
            return ms_fail(e, MUSEC_EINVAL, "%s is %g; it must be a finite number %s %g",
                           fields[i].option, x, fields[i].above ? "above" : "of at least",
                           fields[i].min);
    }
    if (p->steps < 1 || (double)p->steps > MAX_STEPS)
        return ms_fail(e, MUSEC_EINVAL, "--steps is %lld; it must be from 1 to 2^53",
                       (long long)p->steps);
    return MUSEC_OK;
}

/* ---- the parameters at a number of steps ----------------------------------------------------- */

/* The largest whole number <= x, where x may have been rounded off one. */
static double floor_near(double x)
{
    const double near = nearbyint(x);
    return fabs(near - x) <= ROUNDING * x ? near : floor(x);
}

static double square(double x) { return x * x; }

static bool is_same(double a, double b) { return fabs(a - b) <= ROUNDING * fabs(b); }

static void set_constraints(ms_theory_params *p)
{
    static const ms_theory_constraint words[] = {
#define X(id, word, rule, reason) { .name = (word), .formula = (rule), .why = (reason) },
        MS_THEORY_CONSTRAINTS(X)
#undef X
    };
    ms_theory_constraint *c       = p->constraint;
    const double          cbrt_dN = cbrt(p->delta) * cbrt((double)p->steps);
    const double          root_r  = sqrt(p->rank);

    for (int i = 0; i < MS_THEORY_N_CONSTRAINTS; i++)
        c[i] = words[i];
    c[MS_THEORY_RADIUS].left    = p->eta * (double)p->T * p->D * root_r;
    c[MS_THEORY_RADIUS].right   = p->delta;
    c[MS_THEORY_RADIUS].steps   = 1.0 / p->delta;
    c[MS_THEORY_RADIUS].holds   = c[MS_THEORY_RADIUS].left <= p->delta * (1.0 + ROUNDING);
    c[MS_THEORY_GAMMA].left     = p->gamma;
    c[MS_THEORY_GAMMA].right    = p->rank / (p->delta * cbrt_dN); /* the paper's own formula */
    c[MS_THEORY_GAMMA].holds    = is_same(c[MS_THEORY_GAMMA].left, c[MS_THEORY_GAMMA].right);
    c[MS_THEORY_MOMENTUM].left  = p->beta;
    c[MS_THEORY_MOMENTUM].right = 0.125;
    c[MS_THEORY_MOMENTUM].steps = pow(8.0, 1.5) * pow(p->rank, 0.75) / p->delta;
    c[MS_THEORY_MOMENTUM].holds = p->beta <= 0.125;
    c[MS_THEORY_STEP].left      = p->eta;
    c[MS_THEORY_STEP].right     = 1.0 / p->rho;
    c[MS_THEORY_STEP].steps     = p->rho * square(p->rho * p->delta) / (p->rank * root_r);
    c[MS_THEORY_STEP].holds     = p->eta * p->rho <= 1.0;
    c[MS_THEORY_EPOCH].left     = (double)p->T;
    c[MS_THEORY_EPOCH].right    = (double)p->steps;
    c[MS_THEORY_EPOCH].steps    = square(p->delta);
    c[MS_THEORY_EPOCH].holds    = p->T <= p->steps;
    p->all_hold                 = true;
    for (int i = 0; i < MS_THEORY_N_CONSTRAINTS; i++)
        if (!c[i].holds) p->all_hold = false;
}

static ms_theory_bound bound_of(const ms_theory_params *p, double T, double K)
{
    ms_theory_bound b = {
        .noise = p->sigma / sqrt(T),
        .clip  = p->D,
        .start = 2.0 * p->rank * p->D / (p->beta * T),
        .steps = p->beta * square(p->lipschitz) / p->D,
        .gap   = p->gamma * p->gap / (p->beta * p->D * T * K),
    };
    if (p->gap == 0.0) b.gap = 0.0; /* also where K is 0 */
    b.total = b.noise + b.clip + b.start + b.steps + b.gap;
    return b;
}

/* Fills everything but least_steps.  Returns false if T or another number is out of range. */
static bool set_at(ms_theory_params *p, int64_t steps)
{
    const double root_d = cbrt(p->delta), root_N = cbrt((double)steps);
    const double root = cbrt(p->delta * (double)steps); /* one root, so that 8 gives 2 */

    p->steps  = steps;
    p->T_real = root * root;
    p->K_real = (double)steps / p->T_real;
    p->D      = 1.0 / root;
    p->beta   = sqrt(p->rank) / p->T_real;
    p->eta    = root_d * root_d / (sqrt(p->rank) * root_N);
    p->gamma  = p->beta / p->eta;
    if (!(p->T_real <= MAX_STEPS) || !isfinite(p->D) || !(p->D > 0.0) || !isfinite(p->beta) ||
        !(p->beta > 0.0) || !(p->eta > 0.0) || !isfinite(p->gamma) || !(p->gamma > 0.0))
        return false;
    p->T = (int64_t)fmax(1.0, floor_near(p->T_real));
    p->K = steps / p->T;
    set_constraints(p);
    p->bound      = bound_of(p, (double)p->T, (double)p->K);
    p->bound_real = bound_of(p, p->T_real, p->K_real);
    return true;
}

/* ---- the least N ----------------------------------------------------------------------------- */

static bool all_hold_at(const ms_theory_params *given, double steps)
{
    ms_theory_params p = *given;
    return set_at(&p, (int64_t)steps) && p.all_hold;
}

static double largest_threshold(const ms_theory_params *p)
{
    double steps = 1.0;
    for (int i = 0; i < MS_THEORY_N_CONSTRAINTS; i++)
        steps = fmax(steps, p->constraint[i].steps);
    return steps;
}

/* Near the threshold rounding decides, so neighbouring N are tried: a few thousand at most, where
 * N is about 2^53. */
static double least_steps(const ms_theory_params *p)
{
    double steps = ceil(largest_threshold(p));

    while (steps <= MAX_STEPS && !all_hold_at(p, steps))
        steps++;
    while (steps > 1.0 && steps <= MAX_STEPS && all_hold_at(p, steps - 1.0))
        steps--;
    return steps;
}

/* ---- for the caller -------------------------------------------------------------------------- */

static musec_status check_bound(ms_error *e, const ms_theory_params *p)
{
    const ms_theory_bound *b = &p->bound_real;
    const struct {
        const char *option;
        double      given, term;
    } terms[] = {
        { "--sigma", p->sigma, b->noise },
        { "--rank", p->rank, b->start },
        { "--lipschitz", p->lipschitz, b->steps },
        { "--gap", p->gap, b->gap },
    };
    for (size_t i = 0; i < COUNT(terms); i++)
        if (!isfinite(terms[i].term))
            return ms_fail(e, MUSEC_EINVAL,
                           "%s is %g: its term of the bound overflows; a smaller one is expected",
                           terms[i].option, terms[i].given);
    return MUSEC_OK;
}

musec_status ms_theory_params_set(ms_error *error, ms_theory_params *p)
{
    double       least;
    musec_status st;

    TRY(check_given(error, p));
    if (!set_at(p, p->steps))
        TRY(ms_fail(error, MUSEC_EINVAL,
                    "--delta %g with --steps %lld: T = (delta N)^(2/3) = %g and what follows from "
                    "it overflow; a delta of 1/N to sqrt(N) is expected",
                    p->delta, (long long)p->steps, p->T_real));
    TRY(check_bound(error, p));
    least = least_steps(p);
    if (!(least <= MAX_STEPS))
        TRY(ms_fail(error, MUSEC_EINVAL,
                    "--delta %g, --rank %g and --rho %g ask for %g steps: more than 2^53", p->delta,
                    p->rank, p->rho, least));
    p->least_steps = (int64_t)least;
done:
    return st;
}

musec_status ms_theory_complexity_of(ms_error *error, const ms_theory_params *p, double epsilon,
                                     ms_theory_complexity *out)
{
    const double     root_r = sqrt(p->rank);
    ms_theory_params at     = *p;
    double           steps;

    if (!isfinite(epsilon) || !(epsilon > 0.0))
        return ms_fail(error, MUSEC_EINVAL, "--epsilon is %g; it must be a finite number above 0",
                       epsilon);
    *out = (ms_theory_complexity){
        .constant = p->sigma + 1.0 + root_r * (2.0 + square(p->lipschitz) + p->gap),
    };
    out->steps_bound = square(out->constant / epsilon) * (out->constant / epsilon) / p->delta;
    if (!isfinite(out->steps_bound))
        return ms_fail(error, MUSEC_EINVAL,
                       "--epsilon is %g: the number of steps overflows; a larger one is expected",
                       epsilon);
    out->steps = fmax((double)p->least_steps, ceil(out->steps_bound));
    for (steps = out->steps; steps <= MAX_STEPS;) {
        if (!set_at(&at, (int64_t)steps)) break;
        if (at.all_hold && at.bound.total <= epsilon) {
            out->whole = at.steps;
            break;
        }
        /* the bound falls as N^(-1/3) */
        steps = fmax(steps + 1.0, ceil(steps * pow(at.bound.total / epsilon, 3.0)));
    }
    return MUSEC_OK;
}
