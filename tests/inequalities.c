/* inequalities.c - the lemmas of the paper's appendix B, evaluated on a recorded epoch.
 *
 * With eta = beta / gamma, Lemma B.1 divided by eta reads, for t steps and S = G_1 + ... + G_t,
 *
 *     sum_i (|M_i|^2 / 2 - <G_{i+1}, M_i>) + <S, X> - (t/2) |X|^2
 *         <= sum_i (beta |G_{i+1}|^2 - |M_i|^2 / 8) + (t/2) |X|^2 + (|M_0|^2 + |X|^2) / beta.
 *
 * right - left depends on the comparator X by (t + 1/beta) |X|^2 - <S, X>, which is Proposition 1's
 * problem: with lambda = 2 (t + 1/beta) its minimum over |X|_2 <= D is at hard(S, lambda D) /
 * lambda.  So the worst of all comparators has S's singular vectors and the singular values
 * min(s_i / lambda, D): the singular values of S are all that is needed.
 *
 * Lemma 4.2 follows from f(W_{t+1}) - f(W_t) <= -eta <H_{t+1}, M_t> + (eta/2) |M_t|^2 (weak
 * convexity) and Lemma B.1 at X = D S_H / |S_H|_F, S_H = H_1 + ... + H_T.  With the noise
 * N_t = G_t - H_t kept, its right side on one path, divided by eta, is
 *
 *     -D |S_H|_F - sum |M_t|^2 / 8 + T |X|^2 + beta sum |G_{t+1}|^2 + (|M_0|^2 + |X|^2) / beta
 *         + sum <N_{t+1}, M_t - X>,
 *
 * whose mean the paper bounds by Cauchy and Schwarz, |G| <= L and |M_0|^2 <= r D^2. */
#include "inequalities.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "linalg/linalg.h"

typedef struct checker {
    ms_device             *d;
    const ms_theory_epoch *e;
    ms_theory_check       *out;
    int64_t                n, r;         /* elements of a matrix; its singular values */
    double                *stack;        /* (T, n) host: input of find_values() */
    void                  *device_stack; /* its copy on the device */
    double                *values;       /* (T, r) */
} checker;

/* ---- one inequality -------------------------------------------------------------------------- */

double ms_theory_slack(const ms_theory_check *check)
{
    const double slack = check->right - check->left;
    return slack == 0.0 ? 0.0 : slack / check->size;
}

bool ms_theory_holds(const ms_theory_check *check, double tol)
{
    return ms_theory_slack(check) >= -tol;
}

/* Keeps the worst; a NaN is worse than any number. */
static void check_one(checker *j, int which, int64_t at, double left, double right, double size)
{
    ms_theory_check *worst = &j->out[which];
    ms_theory_check  now   = { worst->name, left, right, size, at };

    if (worst->at >= 0 && isnan(ms_theory_slack(worst))) return;
    if (worst->at < 0 || !(ms_theory_slack(&now) >= ms_theory_slack(worst))) *worst = now;
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static const double *at(const checker *j, const double *stack, int64_t t)
{
    return stack + t * j->n;
}

static const double *mean_gradient(const checker *j, int64_t t)
{
    return at(j, j->e->h != NULL ? j->e->h : j->e->g, t);
}

/* The singular values of the matrices in j->stack, to j->values. */
static musec_status find_values(checker *j)
{
    const int64_t T = j->e->T;
    const ms_mat  x =
        ms_mat_of(musec_view_dense(j->device_stack, MUSEC_F64, T, j->e->rows, j->e->cols));
    musec_status st;

    TRY(j->d->ops->upload(j->d, j->stack, (size_t)(T * j->n) * sizeof(double), j->device_stack));
    TRY(ms_singular_values(j->d, x, j->values));
done:
    return st;
}

/* ---- the clip and the recursions ------------------------------------------------------------- */

static musec_status check_clip(checker *j)
{
    const ms_theory_epoch *e = j->e;
    musec_status           st;

    memcpy(j->stack, e->m, (size_t)(e->T * j->n) * sizeof(double));
    TRY(find_values(j));
    for (int64_t t = 0; t < e->T; t++)
        check_one(j, MS_THEORY_INEQUALITY_FEASIBLE, t, j->values[t * j->r], e->D, e->D);
    for (int64_t i = 0; i < e->T * j->n; i++)
        j->stack[i] = e->m_hat[i] - e->m[i];
    TRY(find_values(j));
    for (int64_t t = 0; t < e->T; t++) {
        const double *p = at(j, j->stack, t), *m = at(j, e->m, t), *hat = at(j, e->m_hat, t);
        double        nuclear = 0.0;
        for (int64_t i = 0; i < j->r; i++)
            nuclear += j->values[t * j->r + i];
        /* where nothing was clipped, the difference is the rounding error of Mhat */
        check_one(j, MS_THEORY_INEQUALITY_PROJECTION, t, e->D * nuclear, dot(p, m, j->n),
                  e->D * (nuclear + sqrt(dot(hat, hat, j->n))));
    }
done:
    return st;
}

static void check_recurrences(checker *j)
{
    const ms_theory_epoch *e = j->e;

    for (int64_t t = 0; t < e->T; t++) {
        const double *w = at(j, e->w, t), *next = at(j, e->w, t + 1), *m = at(j, e->m, t);
        double        off = 0.0, size = 0.0;
        for (int64_t i = 0; i < j->n; i++) {
            const double want = w[i] - e->eta * m[i];
            off += (next[i] - want) * (next[i] - want);
            size += w[i] * w[i] + next[i] * next[i];
        }
        check_one(j, MS_THEORY_INEQUALITY_UPDATE, t, sqrt(off), 0.0, sqrt(size));
        if (t == 0) continue; /* M_{-1} is not recorded */
        off = size = 0.0;
        for (int64_t i = 0; i < j->n; i++) {
            const double hat  = at(j, e->m_hat, t)[i];
            const double old  = (1.0 - e->beta) * at(j, e->m, t - 1)[i];
            const double news = e->beta * at(j, e->g, t)[i];
            off += (hat - old - news) * (hat - old - news);
            size += hat * hat + old * old + news * news;
        }
        check_one(j, MS_THEORY_INEQUALITY_MOMENTUM, t, sqrt(off), 0.0, sqrt(size));
    }
}

/* ---- regret ---------------------------------------------------------------------------------- */

static musec_status check_regret(checker *j)
{
    const ms_theory_epoch *e     = j->e;
    const double           first = dot(e->m, e->m, j->n);
    double                 inner = 0.0, inner_size = 0.0, momenta = 0.0, gradients = 0.0;
    musec_status           st;

    for (int64_t t = 0; t < e->T; t++) /* S after t + 1 steps */
        for (int64_t i = 0; i < j->n; i++)
            j->stack[t * j->n + i] =
                at(j, e->g, t + 1)[i] + (t == 0 ? 0.0 : j->stack[(t - 1) * j->n + i]);
    TRY(find_values(j));
    for (int64_t t = 1; t <= e->T; t++) {
        const double *g = at(j, e->g, t), *m = at(j, e->m, t - 1);
        const double *s      = j->values + (t - 1) * j->r;
        const double  lambda = 2.0 * ((double)t + 1.0 / e->beta), steps = (double)t;
        double        sx = 0.0, xx = 0.0, left, right;

        inner += dot(g, m, j->n);
        inner_size += fabs(dot(g, m, j->n));
        momenta += dot(m, m, j->n);
        gradients += dot(g, g, j->n);
        for (int64_t i = 0; i < j->r; i++) { /* the worst comparator */
            const double x = fmin(s[i] / lambda, e->D);
            sx += s[i] * x;
            xx += x * x;
        }
        left  = momenta / 2.0 - inner + sx - steps / 2.0 * xx;
        right = e->beta * gradients - momenta / 8.0 + steps / 2.0 * xx + (first + xx) / e->beta;
        check_one(j, MS_THEORY_INEQUALITY_REGRET, t, e->eta * left, e->eta * right,
                  e->eta * (momenta + inner_size + sx + steps * xx + e->beta * gradients +
                            (first + xx) / e->beta));
    }
done:
    return st;
}

/* ---- descent --------------------------------------------------------------------------------- */

static void check_descent(checker *j)
{
    const ms_theory_epoch *e = j->e;
    const double           T = (double)e->T, D2 = e->D * e->D;
    double                *sum = j->stack; /* S_H */
    double momenta = 0.0, gradients = 0.0, noise = 0.0, noise_size = 0.0, length, x2, right, size;

    memset(sum, 0, (size_t)j->n * sizeof *sum);
    for (int64_t t = 1; t <= e->T; t++)
        for (int64_t i = 0; i < j->n; i++)
            sum[i] += mean_gradient(j, t)[i];
    length = sqrt(dot(sum, sum, j->n));
    x2     = length > 0.0 ? D2 : 0.0; /* X is 0 where S_H is */
    for (int64_t t = 0; t < e->T; t++) {
        const double *m = at(j, e->m, t), *g = at(j, e->g, t + 1), *h = mean_gradient(j, t + 1);
        momenta += dot(m, m, j->n);
        gradients += dot(g, g, j->n);
        for (int64_t i = 0; i < j->n; i++) {
            const double x    = length > 0.0 ? e->D * sum[i] / length : 0.0;
            const double part = (g[i] - h[i]) * (m[i] - x);
            noise += part;
            noise_size += fabs(part);
        }
    }
    right = -e->D * length - momenta / 8.0 + T * x2 + e->beta * gradients +
            (dot(e->m, e->m, j->n) + x2) / e->beta + noise;
    size = e->D * length + momenta + T * D2 + e->beta * gradients +
           (dot(e->m, e->m, j->n) + D2) / e->beta + noise_size;
    check_one(j, MS_THEORY_INEQUALITY_DESCENT, e->T, e->f_last - e->f_first, e->eta * right,
              e->eta * size + fabs(e->f_last) + fabs(e->f_first));
    right = -e->D * length - momenta / 8.0 + e->D * e->sigma * sqrt(T) + (T + 1.0 / e->beta) * D2 +
            e->beta * e->lipschitz * e->lipschitz * T + e->rank * D2 / e->beta;
    size = e->D * length + momenta + e->D * e->sigma * sqrt(T) +
           (T + (1.0 + e->rank) / e->beta) * D2 + e->beta * e->lipschitz * e->lipschitz * T;
    check_one(j, MS_THEORY_INEQUALITY_MEAN_DESCENT, e->T, e->f_last - e->f_first, e->eta * right,
              e->eta * size + fabs(e->f_last) + fabs(e->f_first));
}

/* ---- averages -------------------------------------------------------------------------------- */

/* (1/T) sum_i |W_t - W_i|^2 is |W_t - mean|^2 + (1/T) sum_i |W_i - mean|^2. */
static void check_averages(checker *j)
{
    const ms_theory_epoch *e    = j->e;
    const double           T    = (double)e->T;
    double                *mean = j->stack, spread = 0.0, moves = 0.0, size = 0.0;
    const double           unit = e->eta * e->D * sqrt(e->rank);

    memset(mean, 0, (size_t)j->n * sizeof *mean);
    for (int64_t t = 0; t < e->T; t++)
        for (int64_t i = 0; i < j->n; i++)
            mean[i] += at(j, e->w, t)[i] / T;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t t = 0; t <= e->T; t++) {
            const double *w = at(j, e->w, t), *next = at(j, e->w, t + (t < e->T));
            double        away = 0.0;
            for (int64_t i = 0; i < j->n; i++) {
                away += (w[i] - mean[i]) * (w[i] - mean[i]);
                if (pass == 0) moves += (next[i] - w[i]) * (next[i] - w[i]);
            }
            if (pass == 0) {
                if (t < e->T) spread += away / T;
                size = fmax(size, sqrt(dot(w, w, j->n))); /* the differences cancel digits of W */
                continue;
            }
            check_one(j, MS_THEORY_INEQUALITY_AVERAGE, t, away, away + spread, away + spread);
            check_one(j, MS_THEORY_INEQUALITY_SPREAD, t, away + spread, T * moves,
                      T * moves + size * sqrt(away + spread));
            check_one(j, MS_THEORY_INEQUALITY_RADIUS, t, sqrt(away), T * unit, T * unit + size);
            check_one(j, MS_THEORY_INEQUALITY_HALF_RADIUS, t, sqrt(away), (T + 1.0) / 2.0 * unit,
                      T * unit + size);
        }
}

/* ---- an epoch -------------------------------------------------------------------------------- */

musec_status ms_theory_check_epoch(ms_device *d, const ms_theory_epoch *epoch,
                                   ms_theory_check out[MS_THEORY_N_INEQUALITIES])
{
    static const char *const names[] = {
#define X(id, name) name,
        MS_THEORY_INEQUALITIES(X)
#undef X
    };
    checker      j = { .d = d, .e = epoch, .out = out };
    musec_status st;

    for (int i = 0; i < MS_THEORY_N_INEQUALITIES; i++)
        out[i] = (ms_theory_check){ .name = names[i], .at = -1 };
    j.n      = epoch->rows * epoch->cols;
    j.r      = epoch->rows < epoch->cols ? epoch->rows : epoch->cols;
    j.stack  = calloc((size_t)(epoch->T * j.n), sizeof *j.stack);
    j.values = calloc((size_t)(epoch->T * j.r), sizeof *j.values);
    if (j.stack == NULL || j.values == NULL) {
        st = ms_fail(&d->error, MUSEC_ENOMEM, "theory: not enough memory for %lld steps",
                     (long long)epoch->T);
        goto done;
    }
    TRY(d->ops->alloc(d, (size_t)(epoch->T * j.n) * sizeof(double), &j.device_stack));
    TRY(check_clip(&j));
    check_recurrences(&j);
    TRY(check_regret(&j));
    check_descent(&j);
    check_averages(&j);
done:
    d->ops->free(d, j.device_stack);
    free(j.values);
    free(j.stack);
    return st;
}
