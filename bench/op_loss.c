/* op_loss.c - cases of the loss (see op_network.c).
 *
 * m rows of n logits.  Bounds: with x the argument of the cap's function, |y| / scale or
 * (|y| + |shift|) / width, a capped logit is off by (|z| + slope x) 4 u or less; Z is the largest
 * such error of a row, in units of eps.  The logsumexp is off by Z + n + |lse| (n terms of the sum,
 * differences to the largest), a loss by twice that and |z|; p = exp(z - lse) by
 * e^(2 Z + n + |lse| + 4) at most.  The gradient scale slope (total p - weights) adds the error of
 * the slope, which is 1 - tanh^2 or scale / width s (1 - s): of what it is at most, 4 + x.  eps is
 * that of float32 where logits have 16 bits; their gradient is then rounded to that once. */
#include <math.h>
#include <stdlib.h>

#include "device/cpu/ref.h"
#include "op_network.h"

/* spare: targets beyond that of the last row; a row that has less than n_weights of them scores
 * what there is. */
static const struct {
    ms_cap  cap;
    int     n_weights;
    int64_t first;
    int64_t spare;
    bool    equal; /* targets */
    bool    huge;  /* logits */
    double  grad_scale;
} variants[] = {
    { MS_CAP_NONE, 1, 0, 0, false, false, 1.0 },
    { MS_CAP_TANH, 2, 3, 0, false, false, 0.25 },   /* the last row lacks a target */
    { MS_CAP_SIGMOID, 3, 0, 0, false, false, 1.0 }, /* the last rows lack one and two */
    { MS_CAP_SIGMOID, 3, 2, 5, true, false, -2.0 }, /* the same target thrice */
    { MS_CAP_NONE, 3, 1, 1, true, false, 1.0 },     /* the same, the last row lacks one */
    { MS_CAP_TANH, 3, 1, 0, false, false, 0.0 },    /* the losses alone */
    { MS_CAP_NONE, 2, 0, 0, false, true, 1.0 },     /* logits that overflow exp */
    { MS_CAP_TANH, 1, 0, 0, false, true, 1.0 },     /* the same, capped */
    { MS_CAP_SIGMOID, 2, 0, 1, false, true, 1.0 },
};
_Static_assert(COUNT(variants) == OP_XENT_VARIANTS, "op_network.h");

static int32_t target_at(const op_args *a, int64_t i)
{
    if (variants[a->c.variant].equal) return (int32_t)(a->c.n / 2);
    const uint64_t draw = ((uint64_t)(i + 11) + a->c.seed) * 0x9e3779b97f4a7c15u >> 33;
    return (int32_t)(draw % (uint64_t)a->c.n);
}

void op_xent_operands(op_args *a)
{
    const int v = a->c.variant;
    op_mat   *logits =
        op_add_mat(a, variants[v].grad_scale == 0.0 ? OP_IN : OP_INOUT, a->c.m, a->c.n);
    logits->make                       = variants[v].huge ? OP_HUGE : OP_RANDOM;
    logits->aside                      = true; /* it is a gradient */
    op_add_vec(a, OP_INOUT)->vec.count = 2;
    op_add_ids(a, variants[v].first + a->c.m + variants[v].spare, target_at);
}

static ms_xent xent_of(const op_args *a)
{
    const int v = a->c.variant;
    ms_xent   x = { .cap        = variants[v].cap,
                    .cap_scale  = variants[v].cap == MS_CAP_TANH ? 0.75 : 23.0,
                    .cap_shift  = 5.0,
                    .cap_width  = 7.5,
                    .targets    = a->ids[0].ids,
                    .first      = variants[v].first,
                    .n_weights  = variants[v].n_weights,
                    .weights    = { 1.0, 0.5, 0.125 },
                    .grad_scale = variants[v].grad_scale };
    if (x.n_weights == 2) x.weights[0] = 0.75; /* loss[0] weights the first term, loss[1] not */
    return x;
}

musec_status op_xent_run(op_args *a)
{
    return a->d->ops->xent(a->d, xent_of(a), a->mat[0].mat, a->vec[0].vec);
}

/* g0 times what the run wrote, which is the gradient of loss[0]; and g1 times that of loss[1],
 * which is the loss of one target with weight 1. */
musec_status op_xent_grad(op_args *a, const op_cotangent *g, int by, ms_mat out)
{
    const ms_device_ops *op   = a->d->ops;
    const ms_mark        mark = ms_arena_mark(&a->d->scratch);
    const size_t         n    = (size_t)(a->c.m * a->c.n);
    const ms_mat         raw  = op_host_view(a, 0, a->mat[0].image);
    double              *host = malloc(n * sizeof *host), weight[2];
    ms_xent              x    = xent_of(a);
    ms_vec               loss;
    musec_status         st;
    (void)by;
    TRY(ms_scratch_vec(a->d, 2, &loss));
    TRY(ms_vec_download(a->d, g->vec[0], weight));
    if (host == NULL) TRY(ms_fail(&a->d->error, MUSEC_ENOMEM, "no memory for logits"));
    for (int64_t i = 0; i < raw.rows; i++)
        for (int64_t j = 0; j < raw.cols; j++)
            host[i * raw.cols + j] = ms_at(raw, 0, i, j);
    TRY(op->upload(a->d, host, n * sizeof *host, out.data));
    x.n_weights  = 1;
    x.weights[0] = 1.0;
    x.grad_scale = 1.0;
    TRY(op->xent(a->d, x, out, loss));
    TRY(op->axpby(a->d, ms_const(weight[0] / variants[a->c.variant].grad_scale), a->mat[0].mat,
                  ms_const(weight[1]), out));
    TRY(op->sync(a->d)); /* host is uploaded */
done:
    free(host);
    ms_arena_reset(&a->d->scratch, mark);
    return st;
}

/* ---- bounds ---------------------------------------------------------------------------------- */

typedef struct capped {
    double z, error;           /* error in units of eps */
    double slope, slope_error; /* the same */
    double steep;              /* factor on the part of the slope that may underflow */
} capped;

static capped cap(const ms_xent *x, double raw)
{
    capped r = { .z = raw, .slope = 1.0, .steep = 1.0 };
    if (x->cap == MS_CAP_TANH) {
        const double at = fabs(raw) / x->cap_scale, t = tanh(raw / x->cap_scale);
        r = (capped){
            .z = x->cap_scale * t, .slope = 1.0 - t * t, .slope_error = 4.0 + at, .steep = 1.0
        };
        r.error = 2.0 * (fabs(r.z) + r.slope * at * x->cap_scale);
    } else if (x->cap == MS_CAP_SIGMOID) {
        const double at    = (fabs(raw) + fabs(x->cap_shift)) / x->cap_width;
        const double s     = 1.0 / (1.0 + exp(-(raw + x->cap_shift) / x->cap_width));
        const double steep = x->cap_scale / x->cap_width;
        r       = (capped){ .z = x->cap_scale * s, .slope = steep * s * (1.0 - s), .steep = steep };
        r.error = 2.0 * (r.z + r.slope * at * x->cap_width);
        r.slope_error = steep * (4.0 * s + s * (1.0 - s) * at);
    }
    return r;
}

/* Row i: the logsumexp, and in *error the largest error of a capped logit. */
static double row_lse(const ms_xent *x, ms_mat logits, int64_t i, double *error)
{
    double max = (double)-INFINITY;
    *error     = 0.0;
    for (int64_t j = 0; j < logits.cols; j++) {
        const capped c = cap(x, ms_at(logits, 0, i, j));
        max            = fmax(max, c.z);
        *error         = fmax(*error, c.error);
    }
    double sum = exp(cap(x, ms_at(logits, 0, i, 0)).z - max);
    for (int64_t j = 1; j < logits.cols; j++)
        sum += exp(cap(x, ms_at(logits, 0, i, j)).z - max);
    return max + log(sum);
}

static void size_row(const op_args *a, const ms_xent *x, int64_t i, double *losses)
{
    const ms_mat      logits = a->mat[0].mat;
    const int64_t     t      = x->first + i;
    const musec_dtype wide   = ms_dtype_accum(a->c.dtype);
    const double      eps = ms_dtype_eps(wide), tiny = ms_dtype_tiny(wide);
    const double      stored = op_is_half(a->c.dtype) ? 0.5 * ms_dtype_eps(a->c.dtype) : 0.0;
    const double      least  = stored * ms_dtype_tiny(a->c.dtype);
    double            error, total = 0.0;
    const double      lse   = row_lse(x, logits, i, &error);
    const double      known = 2.0 * error + (double)logits.cols + fabs(lse) + 4.0;
    for (int k = 0; k < x->n_weights && t + k < x->targets.count; k++) {
        const double z = cap(x, ms_at(logits, 0, i, x->targets.data[t + k])).z;
        losses[0] += fabs(x->weights[k]) * (known + fabs(z));
        if (k == 0) losses[1] += known + fabs(z);
        total += fabs(x->weights[k]);
    }
    for (int64_t j = 0; j < logits.cols && x->grad_scale != 0.0; j++) {
        const capped c    = cap(x, ms_at(logits, 0, i, j));
        const double p    = exp(c.z - lse);
        double       size = total * (p * expm1(known * eps) + tiny) * c.slope;
        double       hit  = 0.0; /* sum of the weights of targets equal to j */
        for (int k = 0; k < x->n_weights && t + k < x->targets.count; k++)
            if (x->targets.data[t + k] == j) hit += fabs(x->weights[k]);
        size += (total * p + hit) *
                ((c.slope_error + 2.0 * c.slope) * eps + c.slope * stored + c.steep * tiny);
        ms_put(logits, 0, i, j, fabs(x->grad_scale) * size + tiny + least);
    }
}

/* Sums of losses are float64: m terms and the initial value. */
void op_xent_size(op_args *a)
{
    const ms_xent x         = xent_of(a);
    const double  eps       = ms_dtype_eps(ms_dtype_accum(a->c.dtype));
    double       *loss      = a->vec[0].vec.data;
    double        losses[2] = { 0.0, 0.0 };
    for (int64_t i = 0; i < a->c.m; i++)
        size_row(a, &x, i, losses);
    for (int k = 0; k < 2; k++)
        loss[k] = eps * losses[k] + ((double)a->c.m + 2.0) * 0x1p-52 * (fabs(loss[k]) + losses[k]);
}
