/* state.c - the state of an optimizer, matrix by matrix and as a safetensors file.
 *
 * In the file the state of matrix m of parameter p is the tensor "p/m/NAME" (rows x cols), epoch
 * averages are "p/average", and weights of 16 bits "p/master", in float32; the metadata hold the
 * rule, the momentum form and its beta, the steps taken, for each parameter the steps it took part
 * in, and, for a run to go on with the same bits, bounds that scales of 16 bits come from and the
 * quantiles that are thresholds; files without these are read too.  Loading reads and checks all
 * before it changes anything.  Heavy-ball momentum is that of the average divided by beta; momentum
 * in bf16 is written as float32 and rounded to nearest when it is read. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/grow.h"
#include "core/half.h"
#include "core/real.h"
#include "core/size.h"
#include "optim/optim.h"

#define FORMAT         "musec-optim-1"
#define NAME_MAX_BYTES 512
#define STEPS_OF       "steps of " /* keys of the metadata, with a name behind */
#define BOUND_OF       "bound of "
#define QUANTILE_OF    "quantile of "

static musec_status no_memory(musec_optim *opt)
{
    return ms_fail(&opt->d->error, MUSEC_ENOMEM, "no memory for the state");
}

/* ---- one by one ------------------------------------------------------------------------------ */

static size_t matrix_bytes(ms_mat x) { return (size_t)(x.rows * x.cols) * ms_dtype_bytes(x.dtype); }

/* Dense matrices (stacks of them may have gaps between) to and from dense host memory. */
static musec_status fetch(ms_device *d, ms_mat x, void *host)
{
    musec_status st = MUSEC_OK;
    for (int64_t b = 0; b < x.count; b++)
        TRY(d->ops->download(d, ms_mat_slice(x, b, 1).data, matrix_bytes(x),
                             (char *)host + (size_t)b * matrix_bytes(x)));
done:
    return st;
}

static musec_status put(ms_device *d, const void *host, ms_mat x)
{
    musec_status st = MUSEC_OK;
    for (int64_t b = 0; b < x.count; b++)
        TRY(d->ops->upload(d, (const char *)host + (size_t)b * matrix_bytes(x), matrix_bytes(x),
                           ms_mat_slice(x, b, 1).data));
done:
    return st;
}

/* State in bf16 is handed out and written as the float32 numbers that it stands for. */
static musec_dtype file_dtype(ms_mat x) { return x.dtype == MUSEC_BF16 ? MUSEC_F32 : x.dtype; }

static size_t file_bytes(ms_mat x)
{
    return (size_t)(x.count * x.rows * x.cols) * ms_dtype_bytes(file_dtype(x));
}

/* bf16 numbers in the second half of a buffer become float32 throughout it, in this order. */
static void widen_in_place(void *host, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t bits;
        memcpy(&bits, (char *)host + 2 * n + 2 * i, sizeof bits);
        const float value = ms_float_of_bf16(bits);
        memcpy((char *)host + 4 * i, &value, sizeof value);
    }
}

static musec_status fetch_wide(ms_device *d, ms_mat x, void *host)
{
    const bool   rounded = x.dtype == MUSEC_BF16;
    musec_status st      = MUSEC_OK;
    TRY(fetch(d, x, rounded ? (char *)host + file_bytes(x) / 2 : host));
    if (rounded) widen_in_place(host, file_bytes(x) / 4);
done:
    return st;
}

/* One matrix of an average, which lies dense where its weight may have gaps: element by element,
 * for a block may cross the rows of the weight. */
static musec_status fetch_average(musec_optim *opt, const ms_param *p, const ms_member *m,
                                  void *host)
{
    const musec_block *b     = &p->blocks[m->block];
    const ms_mat       w     = p->weight;
    const size_t       each  = ms_dtype_bytes(p->average.dtype);
    char              *whole = malloc(file_bytes(p->average));
    musec_status       st    = MUSEC_OK;
    if (whole == NULL) TRY(ms_fail(&opt->d->error, MUSEC_ENOMEM, "no memory for the average"));
    TRY(fetch(opt->d, p->average, whole));
    for (int64_t i = 0; i < b->rows; i++)
        for (int64_t j = 0; j < b->cols; j++) {
            const int64_t at = b->offset + m->index * b->stride +
                               i / b->group_rows * b->group_step + i % b->group_rows * b->row_step +
                               j;
            const int64_t k = w.count > 1 ? at / w.stride : 0, in = at - k * w.stride;
            const int64_t from = (k * w.rows + in / w.ld) * w.cols + in % w.ld;
            memcpy((char *)host + (size_t)(i * b->cols + j) * each, whole + (size_t)from * each,
                   each);
        }
done:
    free(whole);
    return st;
}

musec_status musec_optim_get_state(musec_optim *opt, size_t param, int64_t block, const char *state,
                                   void *host, size_t bytes)
{
    const ms_group *g;
    ms_mat          x  = { 0 };
    int64_t         m  = 0;
    musec_status    st = MUSEC_OK;
    if (opt == NULL || state == NULL || host == NULL || param >= opt->n_params) return MUSEC_EINVAL;
    const ms_caller caller = ms_device_enter(opt->d);
    TRY(ms_optim_prepare(opt));
    g                  = ms_find_member(opt, param, block, &m);
    const bool average = strcmp(state, "average") == 0;
    for (int s = 0; g != NULL && g->base->states[s] != NULL; s++)
        if (strcmp(g->base->states[s], state) == 0) x = ms_mat_slice(g->state[s], m, 1);
    if (average && g != NULL)
        x = (ms_mat){ .data  = opt->params[param].average.data,
                      .rows  = g->rows,
                      .cols  = g->cols,
                      .count = 1,
                      .dtype = g->dtype };
    if (x.data == NULL || bytes != file_bytes(x))
        return ms_fail(&opt->d->error, MUSEC_EINVAL,
                       "%s keeps no \"%s\" of %zu bytes for matrix %lld", opt->params[param].name,
                       state, bytes, (long long)block);
    TRY(average ? fetch_average(opt, &opt->params[param], &g->members[m], host)
                : fetch_wide(opt->d, x, host));
done:
    ms_device_leave(caller);
    return st;
}

/* ---- all of it as a list of tensors ---------------------------------------------------------- */

typedef struct item {
    char   name[NAME_MAX_BYTES];
    ms_mat where;
    bool   momentum; /* in the units of the momentum form */
    void  *host;     /* what was read, malloc'ed */
    /* a weight of 16 bits, in float32: `where` has no data */
    const ms_param *weight;
} item;

typedef struct items {
    item  *list;
    size_t n;
} items;

static void free_items(items *all)
{
    for (size_t i = 0; all->list != NULL && i < all->n; i++)
        free(all->list[i].host);
    free(all->list);
}

/* Names of parameters are short enough (MS_PARAM_NAME_MAX) for every key that has them. */
static musec_status add_item(musec_optim *opt, items *all, ms_mat where, bool momentum,
                             const char *param, int64_t matrix, const char *state)
{
    item *grown = realloc(all->list, (all->n + 1) * sizeof *grown);
    if (grown == NULL) return no_memory(opt);
    all->list = grown;
    item *one = &grown[all->n++];
    *one      = (item){ .where = where, .momentum = momentum };
    if (matrix < 0)
        snprintf(one->name, sizeof one->name, "%s/%s", param, state);
    else
        snprintf(one->name, sizeof one->name, "%s/%lld/%s", param, (long long)matrix, state);
    return MUSEC_OK;
}

static musec_status list_items(musec_optim *opt, items *all)
{
    musec_status st = MUSEC_OK;
    for (size_t i = 0; i < opt->n_groups; i++) {
        const ms_group *g = &opt->groups[i];
        for (int64_t m = 0; m < g->count; m++)
            for (int s = 0; g->base->states[s] != NULL; s++)
                TRY(add_item(opt, all, ms_mat_slice(g->state[s], m, 1),
                             strcmp(g->base->states[s], "momentum") == 0,
                             opt->params[g->members[m].param].name, g->members[m].matrix,
                             g->base->states[s]));
    }
    for (size_t i = 0; i < opt->n_params; i++) {
        const ms_param *p    = &opt->params[i];
        ms_mat          wide = p->weight;
        if (p->average.data != NULL)
            TRY(add_item(opt, all, p->average, false, p->name, -1, "average"));
        if (p->rest.data == NULL) continue;
        wide.data  = NULL;
        wide.dtype = MUSEC_F32;
        TRY(add_item(opt, all, wide, false, p->name, -1, "master"));
        all->list[all->n - 1].weight = p;
    }
done:
    return st;
}

/* ---- save ------------------------------------------------------------------------------------ */

typedef struct metadata {
    struct pair {
        char key[NAME_MAX_BYTES], value[128];
    } * pairs;
    size_t n, capacity;
} metadata;

/* Adds the key "what name" with the printed value. */
static musec_status add_pair(musec_optim *opt, metadata *all, const char *what, const char *name,
                             const char *fmt, ...) MS_PRINTF(5, 6);
static musec_status add_pair(musec_optim *opt, metadata *all, const char *what, const char *name,
                             const char *fmt, ...)
{
    struct pair *grown = ms_grow(all->pairs, all->n, &all->capacity, sizeof *grown);
    va_list      args;
    if (grown == NULL) return no_memory(opt);
    all->pairs = grown;
    grown += all->n++;
    snprintf(grown->key, sizeof grown->key, "%s%s", what, name);
    va_start(args, fmt);
    vsnprintf(grown->value, sizeof grown->value, fmt, args);
    va_end(args);
    return MUSEC_OK;
}

typedef char member_name[NAME_MAX_BYTES - 16];

static void name_member(const musec_optim *opt, const ms_member *m, member_name name)
{
    snprintf(name, sizeof(member_name), "%s/%lld", opt->params[m->param].name,
             (long long)m->matrix);
}

/* Adds the bounds of a group that are known. */
static musec_status add_bounds(musec_optim *opt, const ms_group *g, metadata *all)
{
    const size_t bytes = (size_t)g->count * sizeof(double);
    double      *norms = calloc(2, bytes);
    musec_status st    = MUSEC_OK;
    if (norms == NULL) TRY(no_memory(opt));
    if (g->gram_norms.sumsq.data != NULL) /* the two lie in a row */
        TRY(opt->d->ops->download(opt->d, g->gram_norms.sumsq.data, 2 * bytes, norms));
    for (int64_t m = 0; m < g->count; m++) {
        const double known[] = { g->momentum_bound[m], g->last_absmax[m], norms[m],
                                 norms[g->count + m] };
        char         text[COUNT(known)][MS_REAL_TEXT];
        member_name  name;
        if (!(known[0] >= 0.0)) continue;
        for (size_t k = 0; k < COUNT(known); k++)
            ms_real_text(known[k], text[k]);
        name_member(opt, &g->members[m], name);
        TRY(add_pair(opt, all, BOUND_OF, name, "%s %s %s %s", text[0], text[1], text[2], text[3]));
    }
done:
    free(norms);
    return st;
}

static musec_status add_quantiles(musec_optim *opt, const ms_group *g, metadata *all)
{
    char         text[sizeof all->pairs->value];
    member_name  name;
    musec_status st = MUSEC_OK;
    for (int64_t m = 0; m < g->count; m++) {
        if (!ms_quantile_text(opt, g, m, text, sizeof text)) continue;
        name_member(opt, &g->members[m], name);
        TRY(add_pair(opt, all, QUANTILE_OF, name, "%s", text));
    }
done:
    return st;
}

static musec_status make_metadata(musec_optim *opt, metadata *all)
{
    const bool   heavy = opt->cfg.momentum_form == MUSEC_MOMENTUM_HEAVY;
    char         beta[MS_REAL_TEXT];
    musec_status st = MUSEC_OK;
    ms_real_text(opt->cfg.beta, beta);
    TRY(add_pair(opt, all, "format", "", "%s", FORMAT));
    TRY(add_pair(opt, all, "optimizer", "", "%s", opt->row->name));
    TRY(add_pair(opt, all, "base", "", "%s", opt->cfg.base));
    TRY(add_pair(opt, all, "momentum_form", "", "%s", heavy ? "heavy-ball" : "ema"));
    TRY(add_pair(opt, all, "beta", "", "%s", beta));
    TRY(add_pair(opt, all, "steps", "", "%lld %lld", (long long)opt->t, (long long)opt->skipped));
    for (size_t i = 0; i < opt->n_params; i++)
        TRY(add_pair(opt, all, STEPS_OF, opt->params[i].name, "%lld", (long long)opt->params[i].t));
    for (size_t i = 0; i < opt->n_groups; i++)
        if (!opt->deferred && ms_group_fuses_rounding(opt, &opt->groups[i]))
            TRY(add_bounds(opt, &opt->groups[i], all));
    for (size_t i = 0; i < opt->n_groups; i++)
        TRY(add_quantiles(opt, &opt->groups[i], all));
done:
    return st;
}

/* The state is written tensor by tensor: memory holds one of them at a time. */
struct source {
    musec_optim *opt;
    const item  *list;
    void        *host; /* holds the largest */
};

static musec_status next_item(ms_error *e, void *arg, size_t index, const void **data)
{
    const struct source *s = arg;
    (void)e; /* the device has filled its own error */
    *data = s->host;
    if (s->list[index].weight != NULL)
        return ms_fetch_weight(s->opt, s->list[index].weight, s->host);
    return fetch_wide(s->opt->d, s->list[index].where, s->host);
}

static size_t max_bytes(const items *all)
{
    size_t max = 1;
    for (size_t i = 0; i < all->n; i++)
        if (file_bytes(all->list[i].where) > max) max = file_bytes(all->list[i].where);
    return max;
}

musec_status musec_optim_save(musec_optim *opt, const char *path)
{
    items    all            = { 0 };
    metadata meta           = { 0 };
    const char *(*pairs)[2] = NULL;
    struct source  source   = { 0 };
    ms_tensor_out *tensors  = NULL;
    musec_status   st       = MUSEC_OK;
    if (opt == NULL || path == NULL) return MUSEC_EINVAL;
    const ms_caller caller = ms_device_enter(opt->d);
    TRY(ms_optim_prepare(opt));
    TRY(ms_poll_live(opt));
    TRY(list_items(opt, &all));
    TRY(make_metadata(opt, &meta));
    tensors = calloc(all.n + 1, sizeof *tensors);
    pairs   = calloc(meta.n, sizeof *pairs);
    source  = (struct source){ opt, all.list, malloc(max_bytes(&all)) };
    if (tensors == NULL || pairs == NULL || source.host == NULL) TRY(no_memory(opt));
    for (size_t i = 0; i < meta.n; i++) {
        pairs[i][0] = meta.pairs[i].key;
        pairs[i][1] = meta.pairs[i].value;
    }
    for (size_t i = 0; i < all.n; i++) {
        const item *one = &all.list[i];
        tensors[i]      = (ms_tensor_out){ .name  = one->name,
                                           .dtype = file_dtype(one->where),
                                           .ndim  = 2,
                                           .shape = { one->where.rows, one->where.cols } };
        if (one->where.count > 1) {
            tensors[i].ndim     = 3;
            tensors[i].shape[0] = one->where.count;
            tensors[i].shape[1] = one->where.rows;
            tensors[i].shape[2] = one->where.cols;
        }
    }
    TRY(ms_safetensors_write_from(&opt->d->error, path,
                                  &(ms_safetensors_writer){ next_item, &source }, tensors, all.n,
                                  (const char *const(*)[2])pairs, meta.n));
done:
    ms_device_leave(caller);
    free(source.host);
    free(pairs);
    free(tensors);
    free(meta.pairs);
    free_items(&all);
    return st;
}

/* ---- load ------------------------------------------------------------------------------------ */

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

static musec_status read_item(musec_optim *opt, ms_safetensors *s, item *one, double factor)
{
    ms_npy       npy = { 0 };
    size_t       at  = 0;
    musec_status st  = MUSEC_OK;
    while (at < s->n_tensors && strcmp(s->tensors[at].name, one->name) != 0)
        at++;
    if (at == s->n_tensors)
        return ms_fail(&opt->d->error, MUSEC_EFORMAT, "%s: there is no tensor \"%s\"", s->path,
                       one->name);
    TRY(ms_safetensors_read(&opt->d->error, s, at, &npy));
    const int     lead = one->where.count > 1;
    const int64_t rows = npy.ndim == 2 + lead ? npy.shape[lead] : -1;
    const int64_t cols = npy.ndim == 2 + lead ? npy.shape[lead + 1] : -1;
    if (rows != one->where.rows || cols != one->where.cols || npy.dtype != file_dtype(one->where) ||
        (lead && npy.shape[0] != one->where.count))
        TRY(ms_fail(&opt->d->error, MUSEC_EFORMAT,
                    "%s: \"%s\" is not %lld x %lld of this weight's dtype", s->path, one->name,
                    (long long)one->where.rows, (long long)one->where.cols));
    const size_t n = (size_t)(rows * cols * one->where.count);
    if (one->momentum && (factor != 1.0 || npy.dtype != one->where.dtype))
        convert(npy.data, n, npy.dtype, one->where.dtype, factor);
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
    size_t       n = 0, at = 0;
    char         key[NAME_MAX_BYTES];
    member_name  name;
    musec_status st = MUSEC_OK;
    for (size_t i = 0; i < opt->n_groups; i++)
        n += (size_t)opt->groups[i].count;
    *out = calloc(n + 1, sizeof **out);
    if (*out == NULL) TRY(no_memory(opt));
    for (size_t i = 0; i < opt->n_groups; i++)
        for (int64_t m = 0; m < opt->groups[i].count; m++, at++) {
            bounds *b = &(*out)[at];
            *b        = (bounds){ .momentum = -1.0 };
            name_member(opt, &opt->groups[i].members[m], name);
            snprintf(key, sizeof key, QUANTILE_OF "%s", name);
            TRY(ms_quantile_read(opt, s, key, &b->quantile));
            snprintf(key, sizeof key, BOUND_OF "%s", name);
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
            g->last_absmax[m]    = b[m].last_grad;
            g->quantile[m]       = b[m].quantile;
            norms[m]             = b[m].sumsq;
            norms[n + m]         = b[m].trace;
        }
        if (g->gram_norms.sumsq.data != NULL) {
            TRY(opt->d->ops->upload(opt->d, norms, 2 * n * sizeof *norms,
                                    g->gram_norms.sumsq.data));
            TRY(opt->d->ops->sync(opt->d)); /* norms goes */
        }
    }
done:
    free(norms);
    return st;
}

/* Sets the factor, which is 1, to what makes momentum of the file momentum of this optimizer. */
static musec_status convert_factor(musec_optim *opt, const ms_safetensors *s, double *factor)
{
    const char  *form = ms_safetensors_metadata(s, "momentum_form");
    double       beta = 0.0;
    musec_status st   = MUSEC_OK;
    TRY(read_number(opt, s, "beta", &beta, NULL));
    if (!ms_base_reads(ms_base_find(opt->cfg.base), "momentum-form")) return MUSEC_OK;
    const bool from_heavy = form != NULL && strcmp(form, "heavy-ball") == 0;
    if (form != NULL && !from_heavy && strcmp(form, "ema") != 0)
        TRY(ms_fail(&opt->d->error, MUSEC_EFORMAT, "%s: momentum_form %s", s->path, form));
    const bool to_heavy = opt->cfg.momentum_form == MUSEC_MOMENTUM_HEAVY;
    if (to_heavy && !from_heavy && !(opt->cfg.beta > 0.0))
        return ms_fail(&opt->d->error, MUSEC_EFORMAT,
                       "%s: an average with beta 0 cannot become heavy-ball momentum", s->path);
    if (from_heavy != to_heavy) *factor = to_heavy ? 1.0 / opt->cfg.beta : beta;
done:
    return st;
}

musec_status musec_optim_load(musec_optim *opt, const char *path)
{
    ms_safetensors s     = { 0 };
    items          all   = { 0 };
    bounds        *known = NULL;
    double        *steps = NULL, t = 0.0, skipped = 0.0, factor = 1.0;
    char           key[NAME_MAX_BYTES];
    musec_status   st = MUSEC_OK;
    if (opt == NULL || path == NULL) return MUSEC_EINVAL;
    const ms_caller caller = ms_device_enter(opt->d);
    TRY(ms_optim_prepare(opt));
    TRY(ms_safetensors_open(&opt->d->error, path, &s));
    TRY(want(opt, &s, "format", FORMAT));
    TRY(want(opt, &s, "optimizer", opt->row->name));
    TRY(want(opt, &s, "base", opt->cfg.base));
    TRY(convert_factor(opt, &s, &factor));
    TRY(read_number(opt, &s, "steps", &t, &skipped));
    steps = calloc(opt->n_params + 1, sizeof *steps);
    if (steps == NULL) TRY(no_memory(opt));
    for (size_t i = 0; i < opt->n_params; i++) {
        snprintf(key, sizeof key, STEPS_OF "%s", opt->params[i].name);
        TRY(read_number(opt, &s, key, &steps[i], NULL));
    }
    TRY(read_bounds(opt, &s, &known));
    TRY(list_items(opt, &all));
    if (s.n_tensors != all.n)
        TRY(ms_fail(&opt->d->error, MUSEC_EFORMAT,
                    "%s: %zu tensors, where these parameters have %zu", path, s.n_tensors, all.n));
    for (size_t i = 0; i < all.n; i++)
        TRY(read_item(opt, &s, &all.list[i], factor));
    for (size_t i = 0; i < all.n; i++)
        TRY(all.list[i].weight != NULL ? ms_put_weight(opt, all.list[i].host, all.list[i].weight)
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
    free_items(&all);
    ms_safetensors_close(&s);
    return st;
}
