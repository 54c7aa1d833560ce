/* objective.c - the table of problems, and what they share. */
#include "theory/objective.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/names.h"
#include "core/rng.h"
#include "core/size.h"
#include "theory/objective_parts.h"

enum { MAX_SIDE = 4096 };

static const ms_objective_kind kinds[] = {
    { "sensing", "robust matrix sensing: mean |<A_i, W> - b_i|, a part of the b_i wrong", 16, 8, 1,
      ms_objective_make_sensing, ms_objective_sensing },
    { "phase", "robust phase retrieval: mean | |W^T a_i|^2 - b_i |, not convex", 16, 8, 1,
      ms_objective_make_phase, ms_objective_phase },
    { "completion", "matrix completion: mean |<u_i, v_j> - y_ij|, W = (U; V), not convex", 32, 8, 2,
      ms_objective_make_completion, ms_objective_completion },
    { "relu", "two-layer network: mean |a^T relu(W x_i) - y_i|, not even weakly convex", 16, 8, 1,
      ms_objective_make_relu, ms_objective_relu },
    { "max", "the largest of affine functions, <A_j, W - W*>", 16, 8, 1, ms_objective_make_max,
      ms_objective_max },
    { "kinks", "two crossed kinks, 0.1 |<U, W>| + |<V, W>|, where a polar step hops", 16, 16, 2,
      ms_objective_make_kinks, ms_objective_kinks },
    { "quadratic", "smooth, for comparison: a weighted |W - W*|^2 / 2", 16, 8, 1,
      ms_objective_make_quadratic, ms_objective_quadratic },
};

const char *ms_objective_name(size_t index, const char **help)
{
    if (index >= COUNT(kinds)) return NULL;
    if (help != NULL) *help = kinds[index].help;
    return kinds[index].name;
}

musec_status ms_theory_unknown(ms_error *e, const char *what, const char *name,
                               const char *(*name_at)(size_t index, const char **help))
{
    char        all[256] = "";
    const char *known[32];
    size_t      used = 0, n = 0;

    for (; n < COUNT(known) && (known[n] = name_at(n, NULL)) != NULL && used < sizeof all; n++)
        used +=
            (size_t)snprintf(all + used, sizeof all - used, "%s%s", n == 0 ? "" : ", ", known[n]);
    return ms_fail(e, MUSEC_EINVAL, "there is no %s \"%s\"; there are %s%s", what, name, all,
                   ms_name_hint_of(name, known, n).text);
}

static musec_status find(ms_error *e, const char *name, const ms_objective_kind **out)
{
    for (size_t i = 0; i < COUNT(kinds); i++)
        if (strcmp(kinds[i].name, name) == 0) {
            *out = &kinds[i];
            return MUSEC_OK;
        }
    return ms_theory_unknown(e, "problem", name, ms_objective_name);
}

static musec_status check_side(ms_error *e, const ms_objective_kind *kind, const char *side,
                               int64_t value)
{
    if (value >= kind->min_side && value <= MAX_SIDE) return MUSEC_OK;
    return ms_fail(e, MUSEC_EINVAL, "%s takes %lld to %d %s, not %lld", kind->name,
                   (long long)kind->min_side, MAX_SIDE, side, (long long)value);
}

musec_status ms_objective_ranks(ms_error *e, const char *name, int64_t *min_rank, int64_t *max_rank)
{
    const ms_objective_kind *kind = NULL;
    musec_status             st;

    TRY(find(e, name, &kind));
    *min_rank = kind->min_side;
    *max_rank = MAX_SIDE / 2;
done:
    return st;
}

musec_status ms_objective_make(ms_error *e, const char *name, int64_t rows, int64_t cols,
                               uint64_t seed, ms_objective *out)
{
    const ms_objective_kind *kind = NULL;
    musec_status             st;

    *out = (ms_objective){ 0 };
    TRY(find(e, name, &kind));
    *out = (ms_objective){ .kind    = kind,
                           .rows    = rows != 0 ? rows : kind->rows,
                           .cols    = cols != 0 ? cols : kind->cols,
                           .radius  = INFINITY,
                           .minimum = NAN };
    TRY(check_side(e, kind, "rows", out->rows));
    TRY(check_side(e, kind, "columns", out->cols));
    TRY(ms_objective_alloc(e, ms_objective_size(out), &out->start));
    TRY(ms_objective_alloc(e, ms_objective_size(out), &out->target));
    TRY(kind->make(e, seed, out));
done:
    if (st != MUSEC_OK) ms_objective_free(out);
    return st;
}

void ms_objective_free(ms_objective *p)
{
    free(p->start);
    free(p->target);
    free(p->a);
    free(p->b);
    free(p->at);
    free(p->scratch);
    free(p->product);
    *p = (ms_objective){ 0 };
}

int64_t ms_objective_size(const ms_objective *p) { return p->rows * p->cols; }
int64_t ms_objective_rank(const ms_objective *p) { return p->rows < p->cols ? p->rows : p->cols; }

double ms_objective_value(const ms_objective *p, const double *w, double *h)
{
    return p->kind->value(p, w, h);
}

void ms_objective_noise(const ms_objective *p, double sigma, uint64_t seed, int64_t step, double *g)
{
    const int64_t  n         = ms_objective_size(p);
    const uint64_t key       = ms_rand_key(seed, "oracle noise");
    const uint64_t first     = (uint64_t)step * (uint64_t)n;
    const double   deviation = sigma / sqrt((double)n);

    if (sigma == 0.0) return;
    for (int64_t i = 0; i < n; i++)
        g[i] += deviation * ms_rand_normal(key, first + (uint64_t)i);
}

/* ---- numbers --------------------------------------------------------------------------------- */

musec_status ms_objective_alloc(ms_error *e, int64_t n, double **out)
{
    size_t bytes = 0;
    *out         = NULL;
    if (ms_size_stack(1, 1, n, sizeof **out, &bytes)) *out = calloc(1, bytes > 0 ? bytes : 1);
    if (*out == NULL)
        return ms_fail(e, MUSEC_ENOMEM, "not enough memory for %lld numbers of the problem",
                       (long long)n);
    return MUSEC_OK;
}

void ms_objective_draw(uint64_t seed, const char *purpose, double deviation, int64_t n, double *out)
{
    const uint64_t key = ms_rand_key(seed, purpose);
    for (int64_t i = 0; i < n; i++)
        out[i] = deviation * ms_rand_normal(key, (uint64_t)i);
}

void ms_objective_place_start(uint64_t seed, double apart, ms_objective *p)
{
    const int64_t size = ms_objective_size(p);
    double        length;

    ms_objective_draw(seed, "start", 1.0, size, p->start);
    length = ms_objective_norm(p->start, size);
    for (int64_t i = 0; i < size; i++)
        p->start[i] = p->target[i] + apart * p->start[i] / length;
}

musec_status ms_objective_norm2(ms_error *e, const double *a, int64_t rows, int64_t cols,
                                double *out)
{
    musec_spectrum_stats stats = { 0 };
    musec_ctx           *ctx   = NULL;
    musec_status         st;

    TRY(musec_ctx_create_why(&ctx, "cpu", e->text, sizeof e->text));
    st = musec_spectrum(ctx, musec_view_dense((double *)a, MUSEC_F64, 1, rows, cols), 0.0, NULL,
                        &stats);
    if (st != MUSEC_OK) st = ms_fail(e, st, "%s", musec_ctx_error(ctx));
    *out = stats.norm2;
done:
    musec_ctx_destroy(ctx);
    return st;
}

double ms_objective_dot(const double *x, const double *y, int64_t n)
{
    double  sum[8] = { 0.0 };
    int64_t i      = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++)
            sum[k] += x[i + k] * y[i + k];
    for (; i < n; i++)
        sum[0] += x[i] * y[i];
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

double ms_objective_norm(const double *x, int64_t n) { return sqrt(ms_objective_dot(x, x, n)); }

void ms_objective_axpy(double a, const double *x, int64_t n, double *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += a * x[i];
}

double ms_objective_sign(double x) { return (double)((x > 0.0) - (x < 0.0)); }
