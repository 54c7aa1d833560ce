/* state.c - the state of an optimizer, matrix by matrix, and its way into a file (state.h). */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/grow.h"
#include "core/half.h"
#include "core/real.h"
#include "optim/state.h"

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

musec_dtype ms_state_file_dtype(ms_mat x) { return x.dtype == MUSEC_BF16 ? MUSEC_F32 : x.dtype; }

static size_t file_bytes(ms_mat x)
{
    return (size_t)(x.count * x.rows * x.cols) * ms_dtype_bytes(ms_state_file_dtype(x));
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
    for (int s = 0; g != NULL && g->states[s] != NULL; s++)
        if (strcmp(g->states[s], state) == 0 && g->members[m].slot >= 0)
            x = ms_state_of(g, s, m, 1);
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

void ms_state_free(ms_state_items *all)
{
    for (size_t i = 0; all->list != NULL && i < all->n; i++)
        free(all->list[i].host);
    free(all->list);
}

/* Names of parameters are short enough (MS_PARAM_NAME_MAX) for every key that has them. */
static musec_status add_item(musec_optim *opt, ms_state_items *all, ms_mat where, const ms_param *p,
                             int64_t matrix, const char *state)
{
    ms_state_item *grown = realloc(all->list, (all->n + 1) * sizeof *grown);
    if (grown == NULL) return no_memory(opt);
    all->list          = grown;
    ms_state_item *one = &grown[all->n++];
    *one               = (ms_state_item){ .whole = where, .share = p->share, .where = where };
    if (p->share.elsewhere) one->where = (ms_mat){ .dtype = where.dtype };
    if (p->share.owner == MS_SPLIT) one->whole.rows = p->share.all_rows;
    one->whole.data  = NULL;
    one->whole.dtype = ms_state_file_dtype(where);
    one->momentum    = strcmp(state, "momentum") == 0;
    if (matrix < 0)
        snprintf(one->name, sizeof one->name, "%s/%s", p->name, state);
    else
        snprintf(one->name, sizeof one->name, "%s/%lld/%s", p->name, (long long)matrix, state);
    return MUSEC_OK;
}

/* The state of a member, or its shape where that is elsewhere. */
static ms_mat member_state(const ms_group *g, int state, int64_t m)
{
    return g->members[m].slot < 0 ? (ms_mat){ .rows  = g->state[state].rows,
                                              .cols  = g->state[state].cols,
                                              .count = 1,
                                              .dtype = g->state[state].dtype }
                                  : ms_state_of(g, state, m, 1);
}

musec_status ms_state_list(musec_optim *opt, ms_state_items *all)
{
    musec_status st = MUSEC_OK;
    for (size_t i = 0; i < opt->n_groups; i++) {
        const ms_group *g = &opt->groups[i];
        for (int64_t m = 0; m < g->count; m++)
            for (int s = 0; g->states[s] != NULL; s++)
                TRY(add_item(opt, all, member_state(g, s, m), ms_member_param(opt, g, m),
                             g->members[m].matrix, g->states[s]));
    }
    for (size_t i = 0; i < opt->n_params; i++) {
        const ms_param *p       = &opt->params[i];
        ms_mat          wide    = p->weight;
        ms_mat          average = p->average;
        average.count           = p->weight.count;
        if (opt->cfg.avg_steps > 0) TRY(add_item(opt, all, average, p, -1, "average"));
        if (p->rest.data == NULL) continue;
        wide.data  = NULL;
        wide.dtype = MUSEC_F32;
        TRY(add_item(opt, all, wide, p, -1, "master"));
        all->list[all->n - 1].weight = p;
    }
done:
    return st;
}

/* ---- save ------------------------------------------------------------------------------------ */

typedef struct metadata {
    struct pair {
        char key[MS_STATE_KEY], value[128];
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

void ms_name_member(const musec_optim *opt, const ms_member *m, ms_member_name name)
{
    snprintf(name, sizeof(ms_member_name), "%s/%lld", opt->params[m->param].name,
             (long long)m->matrix);
}

/* Adds the bounds of a group that are known. */
static musec_status add_bounds(musec_optim *opt, const ms_group *g, metadata *all)
{
    enum { NUMBERS = 4 };
    ms_vec       both      = { g->gram_norms.sumsq.data, 2 * g->count }; /* they lie in a row */
    double      *norms     = calloc((size_t)both.count, sizeof *norms);
    double      *all_known = calloc((size_t)g->count, NUMBERS * sizeof *all_known);
    musec_status st        = MUSEC_OK;
    if (norms == NULL || all_known == NULL) TRY(no_memory(opt));
    if (both.data != NULL) TRY(ms_vec_download(opt->d, both, norms));
    for (int64_t m = 0; m < g->count; m++) {
        const double known[NUMBERS] = { g->momentum_bound[m], g->last_absmax[m], norms[m],
                                        norms[g->count + m] };
        memcpy(all_known + m * NUMBERS, known, sizeof known);
    }
    TRY(ms_share_bounds(opt, g, all_known, NUMBERS));
    for (int64_t m = 0; m < g->count; m++) {
        const double  *known = all_known + m * NUMBERS;
        char           text[NUMBERS][MS_REAL_TEXT];
        ms_member_name name;
        if (!(known[0] >= 0.0)) continue;
        for (size_t k = 0; k < NUMBERS; k++)
            ms_real_text(known[k], text[k]);
        ms_name_member(opt, &g->members[m], name);
        TRY(add_pair(opt, all, MS_BOUND_OF, name, "%s %s %s %s", text[0], text[1], text[2],
                     text[3]));
    }
done:
    free(all_known);
    free(norms);
    return st;
}

static musec_status add_quantiles(musec_optim *opt, const ms_group *g, metadata *all)
{
    char           text[sizeof all->pairs->value];
    ms_member_name name;
    musec_status   st = MUSEC_OK;
    for (int64_t m = 0; m < g->count; m++) {
        if (!ms_quantile_text(opt, g, m, text, sizeof text)) continue;
        ms_name_member(opt, &g->members[m], name);
        TRY(add_pair(opt, all, MS_QUANTILE_OF, name, "%s", text));
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
    TRY(add_pair(opt, all, "format", "", "%s", MS_STATE_FORMAT));
    TRY(add_pair(opt, all, "optimizer", "", "%s", opt->row->name));
    TRY(add_pair(opt, all, "base", "", "%s", opt->cfg.base));
    TRY(add_pair(opt, all, "momentum_form", "", "%s", heavy ? "heavy-ball" : "ema"));
    TRY(add_pair(opt, all, "beta", "", "%s", beta));
    TRY(add_pair(opt, all, "steps", "", "%lld %lld", (long long)opt->t, (long long)opt->skipped));
    for (size_t i = 0; i < opt->n_params; i++)
        TRY(add_pair(opt, all, MS_STEPS_OF, opt->params[i].name, "%lld",
                     (long long)opt->params[i].t));
    for (size_t i = 0; i < opt->n_groups; i++)
        if (ms_group_fuses_rounding(opt, &opt->groups[i]))
            TRY(add_bounds(opt, &opt->groups[i], all));
    for (size_t i = 0; i < opt->n_groups; i++)
        TRY(add_quantiles(opt, &opt->groups[i], all));
done:
    return st;
}

/* The state is written tensor by tensor: memory holds one of them at a time. */
struct source {
    musec_optim         *opt;
    const ms_state_item *list;
    void                *host; /* holds the largest */
};

/* The bytes of a row of a tensor in the file. */
static size_t row_bytes(const ms_state_item *one)
{
    return (size_t)one->whole.cols * ms_dtype_bytes(one->whole.dtype);
}

/* Brings a tensor to host memory of rank 0, from all ranks that have a part of it. */
static musec_status fetch_item(const struct source *s, const ms_state_item *one)
{
    char        *here = (char *)s->host + (size_t)one->share.first * row_bytes(one);
    musec_status st   = MUSEC_OK;
    if (one->weight != NULL) return ms_fetch_weight(s->opt, one->weight, s->host);
    if (one->where.data != NULL) TRY(fetch_wide(s->opt->d, one->where, here));
    TRY(ms_share_tensor(s->opt, &one->share, one->whole.rows, row_bytes(one), s->host));
done:
    return st;
}

static musec_status next_item(ms_error *e, void *arg, size_t index, const void **data)
{
    const struct source *s = arg;
    (void)e; /* the device has filled its own error */
    *data = s->host;
    return fetch_item(s, &s->list[index]);
}

static size_t max_bytes(const ms_state_items *all)
{
    size_t max = 1;
    for (size_t i = 0; i < all->n; i++)
        if (file_bytes(all->list[i].whole) > max) max = file_bytes(all->list[i].whole);
    return max;
}

musec_status musec_optim_save(musec_optim *opt, const char *path)
{
    ms_state_items all      = { 0 };
    metadata       meta     = { 0 };
    const char *(*pairs)[2] = NULL;
    struct source  source   = { 0 };
    ms_tensor_out *tensors  = NULL;
    musec_status   st       = MUSEC_OK;
    if (opt == NULL || path == NULL) return MUSEC_EINVAL;
    const ms_caller caller = ms_device_enter(opt->d);
    TRY(ms_optim_prepare(opt));
    TRY(ms_fetch_live(opt));
    TRY(ms_share_quantiles(opt));
    TRY(ms_state_list(opt, &all));
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
        const ms_state_item *one = &all.list[i];
        tensors[i]               = (ms_tensor_out){ .name  = one->name,
                                                    .dtype = one->whole.dtype,
                                                    .ndim  = 2,
                                                    .shape = { one->whole.rows, one->whole.cols } };
        if (one->whole.count > 1) {
            tensors[i].ndim     = 3;
            tensors[i].shape[0] = one->whole.count;
            tensors[i].shape[1] = one->whole.rows;
            tensors[i].shape[2] = one->whole.cols;
        }
    }
    for (int pass = 0; opt->comm->rank > 0 && pass < 2; pass++)
        for (size_t i = 0; i < all.n; i++) /* rank 0 alone writes, and tensors of float64 first */
            if ((all.list[i].whole.dtype == MUSEC_F64) == (pass == 0))
                TRY(fetch_item(&source, &all.list[i]));
    if (opt->comm->rank > 0) goto done;
    TRY(ms_safetensors_write_from(&opt->d->error, path,
                                  &(ms_safetensors_writer){ next_item, &source }, tensors, all.n,
                                  (const char *const(*)[2])pairs, meta.n));
done:
    ms_device_leave(caller);
    free(source.host);
    free(pairs);
    free(tensors);
    free(meta.pairs);
    ms_state_free(&all);
    return st;
}
