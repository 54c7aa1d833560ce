/* epoch_rig.c - Musec in plain steps, with the library's operators. */
#include "epoch_rig.h"

#include <math.h>
#include <stdlib.h>

#include "clip_run.h"

static double *zeros(int64_t count, int64_t n)
{
    return check_alloc((size_t)(count * n) * sizeof(double));
}

run epoch_make(int64_t rows, int64_t cols, int64_t T)
{
    const int64_t n = rows * cols;
    run           r = { .n     = n,
                        .w     = zeros(T + 1, n),
                        .g     = zeros(T + 1, n),
                        .h     = zeros(T + 1, n),
                        .m_hat = zeros(T, n),
                        .m     = zeros(T, n) };
    r.e             = (ms_theory_epoch){ .rows  = rows,
                                         .cols  = cols,
                                         .T     = T,
                                         .w     = r.w,
                                         .g     = r.g,
                                         .m_hat = r.m_hat,
                                         .m     = r.m,
                                         .rank  = (double)(rows < cols ? rows : cols) };
    return r;
}

void epoch_free(run *r)
{
    free(r->w);
    free(r->g);
    free(r->h);
    free(r->m_hat);
    free(r->m);
}

static void clip(ms_device *dev, const run *r, clip_kind kind, const double *x, double *out)
{
    const double D      = r->e.D;
    const double length = run_fro(x, r->n);
    const char  *op     = kind == SOFT ? "soft" : kind == POLAR ? "polar" : "hard";
    double      *made;

    if (kind == NONE || kind == BY_ENTRY || kind == BY_LENGTH) {
        for (int64_t i = 0; i < r->n; i++)
            out[i] = kind == NONE       ? x[i]
                     : kind == BY_ENTRY ? fmin(fmax(x[i], -D), D)
                                        : x[i] * fmin(1.0, D / length);
        return;
    }
    const musec_clip_config cfg = run_config(op, kind == TWICE  ? 2.0 * D
                                                 : kind == HALF ? D / 2.0
                                                                : D);
    made                        = run_clip(dev, &cfg, MUSEC_F64, x, r->e.rows, r->e.cols, NULL);
    for (int64_t i = 0; i < r->n; i++)
        out[i] = made[i] * (kind == POLAR ? D : 1.0);
    free(made);
}

void epoch_go(ms_device *dev, run *r, clip_kind kind, gradient *of, void *arg)
{
    const int64_t n = r->n;

    for (int64_t t = 0; t <= r->e.T; t++) {
        const double *before = t == 0 ? NULL : r->m + (t - 1) * n;
        of(r, t, before, arg);
        if (t == r->e.T) break;
        for (int64_t i = 0; i < n; i++) {
            const double g      = r->g[t * n + i];
            r->m_hat[t * n + i] = t == 0 ? g : (1.0 - r->e.beta) * before[i] + r->e.beta * g;
        }
        clip(dev, r, kind, r->m_hat + t * n, r->m + t * n);
        for (int64_t i = 0; i < n; i++)
            r->w[(t + 1) * n + i] = r->w[t * n + i] - r->e.eta * r->m[t * n + i];
    }
}

void epoch_judge(ms_device *dev, const run *r, ms_theory_check out[MS_THEORY_N_INEQUALITIES])
{
    CHECK_OK(dev, ms_theory_check_epoch(dev, &r->e, out));
}

double epoch_slack(ms_device *dev, const run *r, int which)
{
    ms_theory_check out[MS_THEORY_N_INEQUALITIES];
    epoch_judge(dev, r, out);
    return ms_theory_slack(&out[which]);
}
