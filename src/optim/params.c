/* params.c - parameters as data: their blocks, and groups of equal blocks. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "core/size.h"
#include "optim/optim.h"

/* ---- blocks ---------------------------------------------------------------------------------- */

ms_part ms_block_part(ms_mat x, const musec_block *block, int64_t index)
{
    const int64_t at = block->offset + index * block->stride;
    ms_part       p  = { .first      = x,
                         .groups     = block->rows / block->group_rows,
                         .group_step = block->group_step };
    p.first.data     = (char *)x.data + (size_t)at * ms_dtype_bytes(x.dtype);
    p.first.rows     = block->group_rows;
    p.first.cols     = block->cols;
    p.first.ld       = block->row_step;
    p.first.count    = 1;
    p.first.stride   = block->group_rows * block->row_step;
    return p;
}

ms_mat ms_part_group(ms_part part, int64_t g)
{
    part.first.data =
        (char *)part.first.data + (size_t)(g * part.group_step) * ms_dtype_bytes(part.first.dtype);
    return part.first;
}

ms_mat ms_dense_group(ms_mat dense, ms_part part, int64_t g)
{
    dense.data =
        (char *)dense.data + (size_t)(g * part.first.rows * dense.ld) * ms_dtype_bytes(dense.dtype);
    dense.rows = part.first.rows;
    return dense;
}

/* Fills in the fields that a block may leave 0. */
static musec_block normalised(musec_block b)
{
    if (b.count == 0) b.count = 1;
    if (b.group_rows == 0) {
        b.group_rows = b.rows;
        b.group_step = 0;
    }
    return b;
}

/* Subtracts (n - 1) * step from what is left; false if that is less. */
static bool takes(int64_t n, int64_t step, int64_t *left)
{
    if (n > 1 && step > *left / (n - 1)) return false;
    *left -= (n - 1) * step;
    return true;
}

/* Says whether the block lies inside the weight, and its rows do not overlap. */
static bool block_fits(const musec_block *b, ms_mat w)
{
    int64_t left = (w.count - 1) * w.stride + (w.rows - 1) * w.ld + w.cols;
    if (b->rows < 1 || b->cols < 1 || b->count < 1 || b->group_rows < 1 || b->offset < 0 ||
        b->rows % b->group_rows != 0 || b->row_step < b->cols || b->group_step < 0 || b->stride < 0)
        return false;
    const int64_t groups = b->rows / b->group_rows;
    if ((groups > 1 && b->group_step == 0) || (b->count > 1 && b->stride == 0)) return false;
    if (b->offset > left || b->cols > left - b->offset) return false;
    left -= b->offset + b->cols;
    return takes(b->count, b->stride, &left) && takes(groups, b->group_step, &left) &&
           takes(b->group_rows, b->row_step, &left);
}

/* Marks the elements of one row; false if one of them was marked before. */
static bool mark_row(unsigned char *marks, int64_t first, int64_t n)
{
    for (int64_t i = first; i < first + n; i++) {
        const unsigned char bit = (unsigned char)(1u << (i % 8));
        if ((marks[i / 8] & bit) != 0) return false;
        marks[i / 8] |= bit;
    }
    return true;
}

/* Where row i of matrix k begins, in elements of the weight. */
static int64_t row_at(const musec_block *b, int64_t k, int64_t i)
{
    return b->offset + k * b->stride + i / b->group_rows * b->group_step +
           i % b->group_rows * b->row_step;
}

static bool mark_block(unsigned char *marks, const musec_block *b)
{
    for (int64_t k = 0; k < b->count; k++)
        for (int64_t i = 0; i < b->rows; i++)
            if (!mark_row(marks, row_at(b, k, i), b->cols)) return false;
    return true;
}

/* What lies between the rows and the matrices of a weight is nobody's: it counts as taken. */
static void clear_elements(unsigned char *marks, ms_mat w)
{
    for (int64_t b = 0; b < w.count; b++)
        for (int64_t i = 0; i < w.rows; i++)
            for (int64_t j = 0; j < w.cols; j++) {
                const int64_t at = b * w.stride + i * w.ld + j;
                marks[at / 8] &= (unsigned char)~(1u << (at % 8));
            }
}

/* An element in two blocks would be updated twice.  All blocks lie inside the weight. */
static musec_status check_apart(musec_optim *opt, const ms_param *p, const char *name)
{
    const ms_mat   w     = p->weight;
    const int64_t  total = (w.count - 1) * w.stride + (w.rows - 1) * w.ld + w.cols;
    unsigned char *marks = malloc((size_t)(total / 8 + 1));
    musec_status   st    = MUSEC_OK;
    if (marks == NULL)
        return ms_fail(&opt->d->error, MUSEC_ENOMEM, "no memory to check the blocks of %s", name);
    memset(marks, 0xff, (size_t)(total / 8 + 1));
    clear_elements(marks, w);
    for (int64_t i = 0; i < p->n_blocks && st == MUSEC_OK; i++)
        if (!mark_block(marks, &p->blocks[i]))
            st = ms_fail(&opt->d->error, MUSEC_EINVAL,
                         "%s: block %lld holds elements of another block, or between rows", name,
                         (long long)i);
    free(marks);
    return st;
}

enum { UNIT = 2 }; /* bytes that a mark is for, where weights may differ in dtype */

/* Marks those addresses from begin to end that a step changes of the parameter. */
static bool mark_changed(unsigned char *marks, const ms_param *p, uintptr_t begin, uintptr_t end)
{
    const size_t each = ms_dtype_bytes(p->weight.dtype);
    for (int64_t n = 0; n < p->n_blocks; n++) {
        const musec_block *b = &p->blocks[n];
        for (int64_t k = 0; k < b->count; k++)
            for (int64_t i = 0; i < b->rows; i++) {
                uintptr_t from = (uintptr_t)p->weight.data + (uintptr_t)row_at(b, k, i) * each;
                uintptr_t to   = from + (uintptr_t)b->cols * each;
                if (from < begin) from = begin;
                if (to > end) to = end;
                if (from < to && !mark_row(marks, (int64_t)((from - begin) / UNIT),
                                           (int64_t)((to - from) / UNIT)))
                    return false;
            }
    }
    return true;
}

/* Two parameters may share memory, as columns or blocks of a fused weight do, but no element. */
static musec_status check_pair(musec_optim *opt, const ms_param *old, const ms_param *p,
                               const char *name)
{
    uintptr_t      begin, end, from, to;
    unsigned char *marks;
    musec_status   st = MUSEC_OK;
    ms_mat_extent(old->weight, &begin, &end);
    ms_mat_extent(p->weight, &from, &to);
    if (from > begin) begin = from;
    if (to < end) end = to;
    if (begin >= end) return MUSEC_OK;
    marks = calloc((end - begin) / UNIT / 8 + 1, 1);
    if (marks == NULL)
        return ms_fail(&opt->d->error, MUSEC_ENOMEM, "no memory to hold %s and %s apart", old->name,
                       name);
    if (!mark_changed(marks, old, begin, end) || !mark_changed(marks, p, begin, end))
        st = ms_fail(&opt->d->error, MUSEC_EINVAL,
                     "%s has elements in the memory of %s: a step would change them twice", name,
                     old->name);
    free(marks);
    return st;
}

/* ---- adding ---------------------------------------------------------------------------------- */

static bool is_matrix_role(musec_role role) { return (int)role >= 0 && role < MUSEC_MATRIX_ROLES; }

static musec_status copy_blocks(musec_optim *opt, const musec_param *param, ms_param *p)
{
    const musec_block  whole = { .rows     = p->weight.rows,
                                 .cols     = p->weight.cols,
                                 .row_step = p->weight.ld,
                                 .count    = p->weight.count,
                                 .stride   = p->weight.stride };
    const musec_block *from  = param->n_blocks > 0 ? param->blocks : &whole;
    p->n_blocks              = param->n_blocks > 0 ? param->n_blocks : 1;
    p->blocks                = calloc((size_t)p->n_blocks, sizeof *p->blocks);
    if (p->blocks == NULL) return ms_fail(&opt->d->error, MUSEC_ENOMEM, "no memory for the blocks");
    for (int64_t i = 0; i < p->n_blocks; i++) {
        p->blocks[i] = normalised(from[i]);
        if (!block_fits(&p->blocks[i], p->weight))
            return ms_fail(&opt->d->error, MUSEC_EINVAL,
                           "%s: block %lld (%lld x %lld at %lld) does not fit the weight of %lld x "
                           "%lld x %lld",
                           param->name, (long long)i, (long long)from[i].rows,
                           (long long)from[i].cols, (long long)from[i].offset,
                           (long long)p->weight.count, (long long)p->weight.rows,
                           (long long)p->weight.cols);
        p->n_matrices += p->blocks[i].count;
    }
    return param->n_blocks > 0 ? check_apart(opt, p, param->name) : MUSEC_OK;
}

static void free_param(musec_optim *opt, ms_param *p)
{
    opt->d->ops->free(opt->d, p->average.data);
    opt->d->ops->free(opt->d, p->rest.data);
    free(p->name);
    free(p->blocks);
}

static musec_status check_copy(musec_optim *opt, const musec_param *param, ms_param *p)
{
    const ms_mat w = p->weight;
    ms_mat       c;
    char         what[MS_PARAM_NAME_MAX + 16];
    musec_status st = MUSEC_OK;
    if (param->copy.data == NULL) return MUSEC_OK;
    snprintf(what, sizeof what, "the copy of %s", param->name);
    TRY(ms_mat_from_view(opt->d, what, param->copy, &c));
    if (c.rows != w.rows || c.cols != w.cols || c.count != w.count || c.ld != w.ld ||
        (c.count > 1 && c.stride != w.stride))
        TRY(ms_fail(&opt->d->error, MUSEC_EINVAL,
                    "%s (%lld x %lld x %lld, ld %lld, stride %lld) must have the weight's shape "
                    "and steps (%lld x %lld x %lld, ld %lld, stride %lld)",
                    what, (long long)c.count, (long long)c.rows, (long long)c.cols, (long long)c.ld,
                    (long long)c.stride, (long long)w.count, (long long)w.rows, (long long)w.cols,
                    (long long)w.ld, (long long)w.stride));
    if (ms_mat_overlap(w, c))
        TRY(ms_fail(&opt->d->error, MUSEC_EINVAL, "%s overlaps the weight", what));
    p->copy = c;
done:
    return st;
}

musec_status musec_optim_add(musec_optim *opt, const musec_param *param, size_t *index)
{
    ms_param     p  = { 0 }, *grown;
    musec_status st = MUSEC_OK;
    if (opt == NULL || param == NULL) return MUSEC_EINVAL;
    ms_error *e = &opt->d->error;
    if (opt->ready)
        return ms_fail(
            e, MUSEC_EINVAL,
            "parameters must be added before the first step, save, load or look at state");
    if (param->name == NULL || param->name[0] == '\0' || strlen(param->name) > MS_PARAM_NAME_MAX)
        return ms_fail(e, MUSEC_EINVAL, "a parameter needs a name of 1 to %d bytes",
                       MS_PARAM_NAME_MAX);
    for (size_t i = 0; i < opt->n_params; i++)
        if (strcmp(opt->params[i].name, param->name) == 0)
            return ms_fail(e, MUSEC_EINVAL, "there is a parameter \"%s\" already", param->name);
    if ((int)param->role < 0 || param->role > MUSEC_ROLE_VECTOR || param->n_blocks < 0 ||
        (param->n_blocks > 0 && param->blocks == NULL) ||
        !(param->lr_factor >= 0.0 && param->lr_factor < INFINITY))
        return ms_fail(e, MUSEC_EINVAL, "%s: role %d, %lld blocks, lr_factor %g", param->name,
                       (int)param->role, (long long)param->n_blocks, param->lr_factor);
    TRY(ms_mat_from_view(opt->d, param->name, param->weight, &p.weight));
    if (ms_is_16bit(p.weight.dtype) && param->copy.data != NULL)
        TRY(ms_fail(e, MUSEC_EINVAL,
                    "%s: a weight of %s is what a copy is for: it cannot have one as well",
                    param->name, ms_dtype_name(p.weight.dtype)));
    TRY(check_copy(opt, param, &p));
    if (is_matrix_role(param->role) && opt->cfg.operands != MUSEC_F32) /* f32: never shorter */
        TRY(ms_compute_dtype_check(opt->d, param->name, ms_dtype_accum(p.weight.dtype),
                                   opt->cfg.operands));
    p.role         = param->role;
    p.lr_factor    = param->lr_factor == 0.0 ? 1.0 : param->lr_factor;
    p.lr           = MUSEC_UNSET;
    p.weight_decay = MUSEC_UNSET;
    TRY(copy_blocks(opt, param, &p));
    for (size_t i = 0; i < opt->n_params; i++)
        TRY(check_pair(opt, &opt->params[i], &p, param->name));
    p.share = (ms_share){ .all_rows = p.weight.rows };
    p.name  = malloc(strlen(param->name) + 1);
    grown   = realloc(opt->params, (opt->n_params + 1) * sizeof *grown);
    if (grown != NULL) opt->params = grown;
    if (p.name == NULL || grown == NULL)
        TRY(ms_fail(e, MUSEC_ENOMEM, "no memory for parameter %s", param->name));
    memcpy(p.name, param->name, strlen(param->name) + 1);
    if (index != NULL) *index = opt->n_params;
    opt->params[opt->n_params++] = p;
done:
    if (st != MUSEC_OK) free_param(opt, &p);
    return st;
}

/* ---- groups ---------------------------------------------------------------------------------- */

static ms_group *find_group(musec_optim *opt, int64_t all_rows, int64_t cols, musec_dtype dtype,
                            bool aux)
{
    for (size_t i = 0; i < opt->n_groups; i++) {
        ms_group *g = &opt->groups[i];
        if (g->all_rows == all_rows && g->cols == cols && g->dtype == dtype && g->aux == aux)
            return g;
    }
    return NULL;
}

musec_dtype ms_optim_operands(const musec_optim *opt, musec_dtype dtype)
{
    if (dtype != MUSEC_F32) return dtype;
    return opt->cfg.operands == 0 ? opt->d->kind->compute_dtype : (musec_dtype)opt->cfg.operands;
}

static musec_status add_member(musec_optim *opt, const musec_block *b, const ms_param *p,
                               ms_member m)
{
    const bool        aux   = !is_matrix_role(p->role);
    const musec_dtype dtype = ms_dtype_accum(p->weight.dtype);
    const int64_t     rows  = p->share.owner == MS_SPLIT ? p->share.all_rows : b->rows;
    ms_group         *g     = find_group(opt, rows, b->cols, dtype, aux);
    if (g == NULL) {
        ms_group *grown = realloc(opt->groups, (opt->n_groups + 1) * sizeof *grown);
        if (grown == NULL) return ms_fail(&opt->d->error, MUSEC_ENOMEM, "no memory for the groups");
        opt->groups = grown;
        g           = &grown[opt->n_groups++];
        *g          = (ms_group){ .rows        = b->rows,
                                  .cols        = b->cols,
                                  .all_rows    = rows,
                                  .dtype       = dtype,
                                  .aux         = aux,
                                  .spectral_fn = aux ? MS_SPECTRAL_NONE : opt->spectral_fn };
        g->base     = ms_base_find(aux ? MS_AUX_BASE : opt->cfg.base);
        g->operands = ms_optim_operands(opt, g->dtype);
        ms_state_names(&opt->cfg, aux, g->states);
    }
    ms_member *grown = realloc(g->members, (size_t)(g->count + 1) * sizeof *grown);
    if (grown == NULL) return ms_fail(&opt->d->error, MUSEC_ENOMEM, "no memory for the groups");
    g->members             = grown;
    m.slot                 = p->share.elsewhere ? -1 : g->n_slots++;
    g->members[g->count++] = m;
    return MUSEC_OK;
}

static musec_status make_groups(musec_optim *opt)
{
    musec_status st = MUSEC_OK;
    for (size_t i = 0; i < opt->n_params; i++) {
        const ms_param *p      = &opt->params[i];
        int64_t         matrix = 0;
        for (int64_t b = 0; b < p->n_blocks; b++)
            for (int64_t k = 0; k < p->blocks[b].count; k++)
                TRY(add_member(opt, &p->blocks[b], p, (ms_member){ i, b, k, matrix++, 0 }));
    }
done:
    return st;
}

musec_optim_report ms_report_empty(const musec_optim *opt, const ms_group *g, int64_t m)
{
    return (musec_optim_report){ .param = opt->params[g->members[m].param].name,
                                 .block = g->members[m].matrix,
                                 .rows  = g->all_rows,
                                 .cols  = g->cols };
}

musec_dtype ms_state_dtype(const musec_optim *opt, const ms_group *g)
{
    const bool rounded = opt->cfg.momentum_dtype == MUSEC_MOMENTUM_BF16 && !g->aux;
    return rounded && g->dtype == MUSEC_F32 ? MUSEC_BF16 : g->dtype;
}

static musec_status take_stack(musec_optim *opt, int64_t count, int64_t rows, int64_t cols,
                               musec_dtype dtype, ms_mat *out)
{
    size_t       bytes = 0;
    musec_status st    = MUSEC_OK;
    TRY(ms_mat_layout(opt->d, dtype, count, rows, cols, out, &bytes));
    TRY(opt->d->ops->alloc(opt->d, bytes, &out->data));
    TRY(opt->d->ops->fill(opt->d, 0.0, *out));
done:
    return st;
}

static musec_status take_states(musec_optim *opt, ms_group *g)
{
    musec_status st = MUSEC_OK;
    for (int k = 0; g->states[k] != NULL; k++) {
        const ms_mat x = ms_state_shape(opt, g, k);
        TRY(take_stack(opt, g->n_slots, x.rows, x.cols, x.dtype, &g->state[k]));
    }
done:
    return st;
}

static musec_status take_gram_norms(musec_optim *opt, ms_group *g)
{
    ms_mat       zeros;
    musec_status st = MUSEC_OK;
    if (!ms_group_caches_gram_norms(opt, g)) return MUSEC_OK;
    TRY(take_stack(opt, 1, 2, g->count, MUSEC_F64, &zeros));
    g->gram_norms.sumsq = (ms_vec){ zeros.data, g->count };
    g->gram_norms.trace = (ms_vec){ g->gram_norms.sumsq.data + g->count, g->count };
done:
    return st;
}

static musec_status take_live_bounds(musec_optim *opt, ms_group *g)
{
    ms_mat       zeros;
    musec_status st = MUSEC_OK;
    if (!opt->deferred || !ms_group_fuses_rounding(opt, g)) return MUSEC_OK;
    TRY(take_stack(opt, 1, 2, g->count, MUSEC_F64, &zeros));
    g->live_bound      = (ms_vec){ zeros.data, g->count };
    g->live_prediction = (ms_vec){ g->live_bound.data + g->count, g->count };
done:
    return st;
}

static void free_groups(musec_optim *opt)
{
    for (size_t i = 0; i < opt->n_groups; i++) {
        ms_group *g = &opt->groups[i];
        for (int k = 0; k < MS_STATES; k++)
            opt->d->ops->free(opt->d, g->state[k].data);
        opt->d->ops->free(opt->d, g->gram_norms.sumsq.data);
        opt->d->ops->free(opt->d, g->live_bound.data);
        free(g->members), free(g->reports), free(g->quantile);
        free(g->momentum_bound), free(g->last_absmax);
    }
    free(opt->groups);
    opt->groups   = NULL;
    opt->n_groups = 0;
}

static void free_host(musec_optim *opt)
{
    ms_step_graphs_free(opt);
    opt->d->ops->free(opt->d, opt->live.data);
    free(opt->live_host);
    opt->live      = (ms_vec){ 0 };
    opt->live_host = NULL;
    if (opt->host == NULL) return;
    free(opt->host->pointers[0]);
    free(opt->host->grad_absmax);
    free(opt->host->grad_at);
    free(opt->host->groups);
    free(opt->host);
    opt->host = NULL;
}

/* Takes the memory of all steps on the host: no step allocates. */
static musec_status take_host(musec_optim *opt)
{
    ms_step_host *h = opt->host = calloc(1, sizeof *h);
    int64_t       blocks = 0, weights = 0;
    for (size_t i = 0; i < opt->n_params; i++) {
        blocks += opt->params[i].n_matrices;
        weights += opt->params[i].weight.count;
    }
    const size_t n = (size_t)(blocks > weights ? blocks : weights);
    if (h != NULL) {
        h->capacity    = (int64_t)n;
        h->pointers[0] = calloc(MS_OPERANDS * n + 1, sizeof *h->pointers[0]);
        h->grad_absmax = calloc(8 * n + MS_STEP_NUMBERS + 1, sizeof *h->grad_absmax);
        h->grad_at     = calloc(3 * opt->n_params + 1, sizeof *h->grad_at);
        h->groups      = calloc(opt->n_groups + 1, sizeof *h->groups);
    }
    if (h == NULL || h->pointers[0] == NULL || h->grad_absmax == NULL || h->grad_at == NULL ||
        h->groups == NULL)
        return ms_fail(&opt->d->error, MUSEC_ENOMEM, "no memory for the steps");
    for (int k = 1; k < MS_OPERANDS; k++)
        h->pointers[k] = h->pointers[k - 1] + n;
    h->step_size      = h->grad_absmax + n;
    h->decay          = h->step_size + n;
    h->momentum_bound = h->decay + n;
    h->absmax         = h->momentum_bound + n;
    h->quantile       = h->absmax + 3 * n + MS_STEP_NUMBERS;
    h->weight_at      = h->grad_at + opt->n_params;
    h->observed       = h->weight_at + opt->n_params;
    return MUSEC_OK;
}

musec_status ms_optim_draft(const musec_optim *opt, musec_optim *draft)
{
    *draft                = *opt;
    draft->groups         = NULL;
    draft->n_groups       = 0;
    const musec_status st = make_groups(draft);
    if (st != MUSEC_OK) free_groups(draft);
    return st;
}

void ms_optim_draft_free(musec_optim *draft) { free_groups(draft); }

musec_status ms_optim_prepare(musec_optim *opt)
{
    musec_status st = MUSEC_OK;
    if (opt->ready) return MUSEC_OK;
    TRY(make_groups(opt));
    TRY(take_host(opt));
    for (size_t i = 0; i < opt->n_groups; i++) {
        ms_group *g = &opt->groups[i];
        TRY(take_states(opt, g));
        TRY(take_gram_norms(opt, g));
        TRY(take_live_bounds(opt, g));
        g->reports        = calloc((size_t)g->count, sizeof *g->reports);
        g->momentum_bound = calloc((size_t)g->count, sizeof *g->momentum_bound);
        g->last_absmax    = calloc((size_t)g->count, sizeof *g->last_absmax);
        g->quantile       = calloc((size_t)g->count, sizeof *g->quantile);
        if (g->reports == NULL || g->momentum_bound == NULL || g->last_absmax == NULL ||
            g->quantile == NULL)
            TRY(ms_fail(&opt->d->error, MUSEC_ENOMEM, "no memory for the reports"));
        for (int64_t m = 0; m < g->count; m++)
            g->reports[m] = ms_report_empty(opt, g, m);
    }
    for (size_t i = 0; opt->cfg.avg_steps > 0 && i < opt->n_params; i++) {
        ms_param *p = &opt->params[i];
        TRY(take_stack(opt, p->share.elsewhere ? 0 : p->weight.count, p->weight.rows,
                       p->weight.cols, ms_dtype_accum(p->weight.dtype), &p->average));
    }
    for (size_t i = 0; i < opt->n_params; i++)
        TRY(ms_take_rest(opt, &opt->params[i]));
    TRY(ms_take_live(opt));
    ms_choose_chunks(opt);
    opt->ready = true;
done:
    if (st != MUSEC_OK) { /* so that another try starts afresh */
        free_host(opt);
        free_groups(opt);
        for (size_t i = 0; i < opt->n_params; i++) {
            opt->d->ops->free(opt->d, opt->params[i].average.data);
            opt->d->ops->free(opt->d, opt->params[i].rest.data);
            opt->params[i].average = opt->params[i].rest = (ms_mat){ 0 };
        }
    }
    return st;
}

/* ---- create and destroy ---------------------------------------------------------------------- */

musec_status musec_optim_create(musec_optim **out, musec_ctx *ctx, const musec_optim_config *cfg)
{
    musec_optim       *opt = NULL;
    musec_optim_config checked;
    musec_status       st = MUSEC_OK;
    if (out == NULL) return MUSEC_EINVAL;
    *out = NULL;
    if (ctx == NULL) return MUSEC_EINVAL;
    TRY(ms_optim_config_take(&ctx->error, cfg, &checked));
    TRY(ms_optim_config_check(&ctx->error, &checked));
    if (checked.momentum_dtype == MUSEC_MOMENTUM_BF16 && !ms_device_has(ctx, MUSEC_BF16))
        return ms_fail(&ctx->error, MUSEC_ENOTSUP,
                       "momentum-dtype is bf16; the device %s has no numbers in bf16: take own",
                       ctx->name);
    opt = calloc(1, sizeof *opt);
    if (opt == NULL) return ms_fail(&ctx->error, MUSEC_ENOMEM, "no memory for the optimizer");
    opt->d                    = ctx;
    opt->comm                 = ms_comm_self();
    opt->cfg                  = checked;
    opt->row                  = ms_optimizer_find(checked.name);
    opt->cfg.name             = opt->row->name; /* the caller's strings may go */
    opt->cfg.base             = ms_base_find(checked.base)->name;
    opt->cfg.ns_mode          = ms_optim_ns_mode(&checked);
    opt->sharpness            = ms_optim_sharpness(&checked);
    opt->grad_factor          = 1.0;
    opt->spectral_fn          = ms_optim_function(&checked);
    opt->aux_cfg              = opt->cfg;
    opt->aux_cfg.beta1        = checked.aux_beta1;
    opt->aux_cfg.beta2        = checked.aux_beta2;
    opt->aux_cfg.eps          = checked.aux_eps;
    opt->aux_cfg.lr           = checked.aux_lr;
    opt->aux_cfg.decay_form   = MUSEC_DECAY_DECOUPLED;
    opt->aux_cfg.shape_rule   = MUSEC_SHAPE_NONE;
    opt->aux_cfg.update_scale = MUSEC_SCALE_PAPER;
    opt->deferred             = checked.nonfinite == MUSEC_NONFINITE_DEFER;
    TRY(ms_defer_check(ctx, opt));
    *out = opt;
done:
    if (st != MUSEC_OK) free(opt);
    return st;
}

void musec_optim_destroy(musec_optim *opt)
{
    if (opt == NULL) return;
    const ms_caller caller = ms_device_enter(opt->d);
    free_groups(opt);
    for (size_t i = 0; i < opt->n_params; i++)
        free_param(opt, &opt->params[i]);
    for (size_t i = 0; i < opt->n_attentions; i++)
        free(opt->attentions[i].logits);
    free_host(opt);
    free(opt->attentions);
    free(opt->params);
    free(opt);
    ms_device_leave(caller);
}

int64_t musec_optim_steps(const musec_optim *opt) { return opt == NULL ? 0 : opt->t; }
int64_t musec_optim_skipped(const musec_optim *opt) { return opt == NULL ? 0 : opt->skipped; }
