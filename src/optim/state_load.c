/* state_load.c - the state of an optimizer from a file (state.h).
 *
 * All of the file is read and checked before anything changes.  A rank reads the tensors that it
 * has a share of, and looks that the others are there. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/half.h"
#include "core/real.h"
#include "optim/state.h"

static musec_status no_memory(musec_optim *opt)
{
    return ms_fail(&opt->d->error, MUSEC_ENOMEM, "no memory for the state");
}

static size_t matrix_bytes(ms_mat x) { return (size_t)(x.rows * x.cols) * ms_dtype_bytes(x.dtype); }

static musec_status put(ms_device *d, const void *host, ms_mat x)
{
    musec_status st = MUSEC_OK;
    for (int64_t b = 0; b < x.count; b++)
        TRY(d->ops->upload(d, (const char *)host + (size_t)b * matrix_bytes(x), matrix_bytes(x),
                           ms_mat_slice(x, b, 1).data));
done:
    return st;
}

static musec_status want(musec_optim *opt, const ms_safetensors *s, const char *key,
                         const char *value)
{
    const char *found = ms_safetensors_metadata(s, key);
    if (found == NULL || strcmp(found, value) != 0)
        return ms_fail(&opt->d->error, MUSEC_EFORMAT, "%s: its %s is %s, this optimizer's is %s",
                       s->path, key, found == NULL ? "missing" : found, value);
    return MUSEC_OK;
}

/* Reads a number of 0 or more and below `limit`, and where it ends. */
static bool take_number(const char *text, double limit, double *out, char **rest)
{
    *out = ms_real_read(text, rest);
    return *rest != text && *out >= 0.0 && *out < limit;
}

/* Reads one number, or two with a blank between them, and nothing behind. */
static musec_status read_number(musec_optim *opt, const ms_safetensors *s, const char *key,
                                double *first, double *second)
{
    const double limit = 1e15;
    const char  *found = ms_safetensors_metadata(s, key);
    char        *rest  = NULL;
    if (found == NULL)
        return ms_fail(&opt->d->error, MUSEC_EFORMAT, "%s: \"%s\" is missing from its metadata",
                       s->path, key);
    bool good = take_number(found, limit, first, &rest);
    if (good && second != NULL) good = *rest == ' ' && take_number(rest + 1, limit, second, &rest);
    if (!good || *rest != '\0')
        return ms_fail(&opt->d->error, MUSEC_EFORMAT, "%s: \"%s\" is \"%s\"", s->path, key, found);
    return MUSEC_OK;
}

/* Converts momentum in place, times factor, to the dtype of the state, which is no wider. */
static void convert(void *data, size_t n, musec_dtype from, musec_dtype to, double factor)
{
    for (size_t i = 0; i < n; i++) {
        float    x;
        uint16_t bits;
        if (from == MUSEC_F64) {
            ((double *)data)[i] *= factor;
            continue;
        }
        memcpy(&x, (char *)data + 4 * i, sizeof x);
        x    = (float)(factor * x);
        bits = ms_bf16_of_double(x);
        if (to == MUSEC_F32)
            memcpy((char *)data + 4 * i, &x, sizeof x);
        else
            memcpy((char *)data + 2 * i, &bits, sizeof bits);
    }
}

/* Leaves the rows of this rank at the beginning of what was read. */
static void take_share(const ms_share *share, ms_mat where, void *host)
{
    const size_t row = (size_t)where.cols * ms_dtype_bytes(where.dtype);
    if (share->owner == MS_SPLIT)
        memmove(host, (char *)host + (size_t)share->first * row, (size_t)where.rows * row);
}

static musec_status read_item(musec_optim *opt, ms_safetensors *s, ms_state_item *one,
                              double factor)
{
    const ms_mat whole = one->whole;
    ms_npy       npy   = { 0 };
    size_t       at    = 0;
    musec_status st    = MUSEC_OK;
    while (at < s->n_tensors && strcmp(s->tensors[at].name, one->name) != 0)
        at++;
    if (at == s->n_tensors)
        return ms_fail(&opt->d->error, MUSEC_EFORMAT, "%s: there is no tensor \"%s\"", s->path,
                       one->name);
    if (one->where.data == NULL && one->weight == NULL) return MUSEC_OK; /* another rank's */
    TRY(ms_safetensors_read(&opt->d->error, s, at, &npy));
    const int     lead = whole.count > 1;
    const int64_t rows = npy.ndim == 2 + lead ? npy.shape[lead] : -1;
    const int64_t cols = npy.ndim == 2 + lead ? npy.shape[lead + 1] : -1;
    if (rows != whole.rows || cols != whole.cols || npy.dtype != whole.dtype ||
        (lead && npy.shape[0] != whole.count))
        TRY(ms_fail(&opt->d->error, MUSEC_EFORMAT,
                    "%s: \"%s\" is not %lld x %lld of this weight's dtype", s->path, one->name,
                    (long long)whole.rows, (long long)whole.cols));
    const size_t n = (size_t)(rows * cols * whole.count);
    if (one->momentum && (factor != 1.0 || npy.dtype != one->where.dtype))
        convert(npy.data, n, npy.dtype, one->where.dtype, factor);
    take_share(&one->share, one->where, npy.data);
    one->host = npy.data; /* handed over */
    npy.data  = NULL;
done:
    ms_npy_free(&npy);
    return st;
}

/* Bounds of one matrix: of its momentum, -1 if unknown; of its last gradient, and the norms of its
 * Gram matrix, 0 if unknown; and its quantile, 0 if unknown. */
typedef struct bounds {
    double momentum, last_grad, sumsq, trace, quantile;
} bounds;

/* Reads the bounds of all members of all groups, in the units of the file. */
static musec_status read_bounds(musec_optim *opt, const ms_safetensors *s, bounds **out)
{
    size_t         n = 0, at = 0;
    char           key[MS_STATE_KEY];
    ms_member_name name;
    musec_status   st = MUSEC_OK;
    for (size_t i = 0; i < opt->n_groups; i++)
        n += (size_t)opt->groups[i].count;
    *out = calloc(n + 1, sizeof **out);
    if (*out == NULL) TRY(no_memory(opt));
    for (size_t i = 0; i < opt->n_groups; i++)
        for (int64_t m = 0; m < opt->groups[i].count; m++, at++) {
            bounds *b = &(*out)[at];
            *b        = (bounds){ .momentum = -1.0 };
            ms_name_member(opt, &opt->groups[i].members[m], name);
            snprintf(key, sizeof key, MS_QUANTILE_OF "%s", name);
            TRY(ms_quantile_read(opt, s, key, &b->quantile));
            snprintf(key, sizeof key, MS_BOUND_OF "%s", name);
            const char *found = ms_safetensors_metadata(s, key);
            char       *rest  = NULL;
            if (found == NULL) continue;
            double *const more[] = { &b->last_grad, &b->sumsq, &b->trace };
            bool          good   = take_number(found, INFINITY, &b->momentum, &rest);
            for (size_t k = 0; good && *rest == ' ' && k < COUNT(more); k++)
                good = take_number(rest + 1, INFINITY, more[k], &rest);
            if (!good || *rest != '\0')
                TRY(ms_fail(&opt->d->error, MUSEC_EFORMAT, "%s: \"%s\" is \"%s\"", s->path, key,
                            found));
        }
done:
    return st;
}

static musec_status set_bounds(musec_optim *opt, const bounds *b, double factor)
{
    double      *norms = NULL;
    musec_status st    = MUSEC_OK;
    for (size_t i = 0; i < opt->n_groups; b += opt->groups[i++].count) {
        ms_group    *g     = &opt->groups[i];
        const size_t n     = (size_t)g->count;
        double      *grown = realloc(norms, 2 * n * sizeof *norms);
        if (grown == NULL) TRY(no_memory(opt));
        norms = grown;
        for (size_t m = 0; m < n; m++) {
            g->momentum_bound[m] = b[m].momentum < 0.0 ? -1.0 : b[m].momentum * factor;
            if (g->members[m].slot < 0) g->momentum_bound[m] = 0.0; /* of another rank */
            g->last_absmax[m] = b[m].last_grad;
            g->quantile[m]    = b[m].quantile;
            norms[m]          = b[m].sumsq;
            norms[n + m]      = b[m].trace;
        }
        if (g->gram_norms.sumsq.data != NULL) {
            TRY(opt->d->ops->upload(opt->d, norms, 2 * n * sizeof *norms,
                                    g->gram_norms.sumsq.data));
            TRY(opt->d->ops->sync(opt->d)); /* norms goes */
        }
    }
    TRY(ms_send_live_bounds(opt));
done:
    free(norms);
    return st;
}

/* The factor that makes momentum of the file momentum of this optimizer. */
static musec_status convert_factor(musec_optim *opt, const ms_safetensors *s, double *factor)
{
    const char  *form = ms_safetensors_metadata(s, "momentum_form");
    double       beta = 0.0;
    musec_status st   = MUSEC_OK;
    *factor           = 1.0;
    TRY(read_number(opt, s, "beta", &beta, NULL));
    if (!ms_base_reads(ms_base_find(opt->cfg.base), "momentum-form")) return MUSEC_OK;
    const bool from_heavy = form != NULL && strcmp(form, "heavy-ball") == 0;
    const bool to_heavy   = opt->cfg.momentum_form == MUSEC_MOMENTUM_HEAVY;
    if (form != NULL && !from_heavy && strcmp(form, "ema") != 0)
        return ms_fail(&opt->d->error, MUSEC_EFORMAT,
                       "%s: its momentum_form is \"%s\"; it must be ema or heavy-ball", s->path,
                       form);
    if (from_heavy && !to_heavy) *factor = beta;
    if (!from_heavy && to_heavy && !(opt->cfg.beta > 0.0))
        return ms_fail(&opt->d->error, MUSEC_EFORMAT,
                       "%s: an average with beta 0 cannot become heavy-ball momentum", s->path);
    if (!from_heavy && to_heavy) *factor = 1.0 / opt->cfg.beta;
done:
    return st;
}

musec_status musec_optim_load(musec_optim *opt, const char *path)
{
    ms_safetensors s     = { 0 };
    ms_state_items all   = { 0 };
    bounds        *known = NULL;
    double        *steps = NULL, t = 0.0, skipped = 0.0, factor = 1.0;
    char           key[MS_STATE_KEY];
    musec_status   st = MUSEC_OK;
    if (opt == NULL || path == NULL) return MUSEC_EINVAL;
    const ms_caller caller = ms_device_enter(opt->d);
    TRY(ms_optim_prepare(opt));
    TRY(ms_safetensors_open(&opt->d->error, path, &s));
    TRY(want(opt, &s, "format", MS_STATE_FORMAT));
    TRY(want(opt, &s, "optimizer", opt->row->name));
    TRY(want(opt, &s, "base", opt->cfg.base));
    TRY(convert_factor(opt, &s, &factor));
    TRY(read_number(opt, &s, "steps", &t, &skipped));
    steps = calloc(opt->n_params + 1, sizeof *steps);
    if (steps == NULL) TRY(no_memory(opt));
    for (size_t i = 0; i < opt->n_params; i++) {
        snprintf(key, sizeof key, MS_STEPS_OF "%s", opt->params[i].name);
        TRY(read_number(opt, &s, key, &steps[i], NULL));
    }
    TRY(read_bounds(opt, &s, &known));
    TRY(ms_state_list(opt, &all));
    if (s.n_tensors != all.n)
        TRY(ms_fail(&opt->d->error, MUSEC_EFORMAT,
                    "%s: %zu tensors, where these parameters have %zu", path, s.n_tensors, all.n));
    for (size_t i = 0; i < all.n; i++)
        TRY(read_item(opt, &s, &all.list[i], factor));
    for (size_t i = 0; i < all.n; i++)
        if (all.list[i].host != NULL)
            TRY(all.list[i].weight != NULL
                    ? ms_put_weight(opt, all.list[i].host, all.list[i].weight)
                    : put(opt->d, all.list[i].host, all.list[i].where));
    TRY(set_bounds(opt, known, factor));
    for (size_t i = 0; i < opt->n_params; i++)
        opt->params[i].t = (int64_t)steps[i];
    opt->t          = (int64_t)t;
    opt->skipped    = (int64_t)skipped;
    opt->live_stale = true;
done:
    ms_device_leave(caller);
    free(steps);
    free(known);
    ms_state_free(&all);
    ms_safetensors_close(&s);
    return st;
}
