/* gpt.c - the GPT of gpt.h: creation, forward and backward passes.
 *
 * A layer keeps the residual stream before and after attention, q, k, v as projected and as
 * rotated, the output of attention and the MLP's activation.  The backward pass recomputes norms
 * and gated outputs.
 *
 * The activation max(h, 0)^2 overwrites h.  Its gradient needs max(h, 0), which is the rounded root
 * of the rounded square: in binary arithmetic that is the number to the last bit if the square is a
 * normal number, as from 1e-19 on.  In f16 that would be 0.008, so there h is kept.
 *
 * The logits are computed, scored and replaced by their gradient chunk by chunk, and never all in
 * memory: with 50304 ids and 2048 tokens they would take more than the rest of the model. */
#include "model/gpt.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/half.h"
#include "model/pass.h"

/* ---- creation -------------------------------------------------------------------------------- */

static ms_mat row_of(void *data, musec_dtype dtype, int64_t n)
{
    return ms_mat_of(musec_view_dense(data, dtype, 1, 1, n));
}

static musec_status fill_vec(ms_gpt *g, double value, ms_vec v)
{
    return g->d->ops->fill(g->d, value, row_of(v.data, MUSEC_F64, v.count));
}

static musec_status reset_results(ms_gpt *g)
{
    musec_status st;
    g->tokens = 0;
    TRY(fill_vec(g, 0.0, g->acts.loss));
    TRY(fill_vec(g, -INFINITY, g->acts.max_logit));
done:
    return st;
}

/* Returns how many parameters each layer has, or 0 where layers have different ones, or where
 * anything but layers lies between the embedding and the head. */
static size_t count_layer_params(const ms_gpt *g)
{
    const size_t tables = g->cfg.tied ? 1 : 2, layers = (size_t)g->cfg.layers;
    const size_t each = (g->n_params - tables) / layers, first = tables - 1;
    char         start[sizeof "layer.." + 20];
    for (size_t i = 0; i < layers * each; i++) {
        snprintf(start, sizeof start, "layer.%zu.", i / each);
        if (strncmp(g->params[first + i].name, start, strlen(start)) != 0) return 0;
    }
    return first + layers * each + 1 == g->n_params ? each : 0;
}

/* Lists the parameters, and chooses which weights a pass reads. */
static musec_status list_params(ms_gpt *g, const ms_gpt_weights *copies)
{
    g->n_params = ms_gpt_list_params(&g->cfg, &g->master, &g->g, copies, NULL);
    g->params   = calloc(g->n_params, sizeof *g->params);
    if (g->params == NULL) return ms_fail(&g->d->error, MUSEC_ENOMEM, "not enough memory");
    ms_gpt_list_params(&g->cfg, &g->master, &g->g, copies, g->params);
    g->layer_params = count_layer_params(g);
    g->w            = g->copy_memory != NULL ? *copies : g->master;
    for (int64_t l = 0; l < g->cfg.layers; l++) { /* of scalars there are no copies */
        g->w.layer[l].mix    = g->master.layer[l].mix;
        g->w.layer[l].scales = g->master.layer[l].scales;
    }
    return MUSEC_OK;
}

/* The signs of the bigram table: fixed, so that others can compute them too. */
static musec_status draw_signs(ms_gpt *g)
{
    const ms_mat   to   = g->acts.signs;
    const size_t   each = ms_dtype_bytes(to.dtype), n = (size_t)(to.rows * to.cols);
    unsigned char *host = malloc(n * each);
    musec_status   st   = MUSEC_OK;

    if (host == NULL) return ms_fail(&g->d->error, MUSEC_ENOMEM, "not enough memory for signs");
    for (size_t i = 0; i < n; i++) {
        const double   sign   = ms_bigram_sign(i);
        const float    single = (float)sign;
        const uint16_t half =
            to.dtype == MUSEC_BF16 ? ms_bf16_of_double(sign) : ms_f16_of_double(sign);
        const void *from = to.dtype == MUSEC_F64   ? (const void *)&sign
                           : to.dtype == MUSEC_F32 ? (const void *)&single
                                                   : (const void *)&half;
        memcpy(host + i * each, from, each);
    }
    st = g->d->ops->upload(g->d, host, n * each, to.data);
    if (st == MUSEC_OK) st = g->d->ops->sync(g->d); /* before the host memory is freed */
    free(host);
    return st;
}

static musec_status take_memory(ms_gpt *g)
{
    const ms_gpt_config *cfg          = &g->cfg;
    const musec_dtype    wide         = ms_dtype_accum(g->dtype);
    const int64_t        logits_chunk = g->d->kind->logits_chunk;
    ms_gpt_sizes         sizes;
    ms_gpt_weights       copied  = { 0 };
    ms_carver            weights = { 0 }, copies = { 0 }, grads = { 0 }, acts = { 0 };
    musec_status         st;

    if (!ms_device_has(g->d, g->dtype))
        return ms_fail(&g->d->error, MUSEC_ENOTSUP, "the device %s has no arithmetic in %s",
                       g->d->name, ms_dtype_name(g->dtype));
    TRY(ms_gpt_measure(&g->d->error, cfg, g->dtype, g->max_tokens, logits_chunk, &sizes));
    TRY(g->d->ops->alloc(g->d, sizes.weights, &g->weight_memory));
    if (sizes.copies > 0) TRY(g->d->ops->alloc(g->d, sizes.copies, &g->copy_memory));
    TRY(g->d->ops->alloc(g->d, sizes.grads, &g->grad_memory));
    TRY(g->d->ops->alloc(g->d, sizes.activations, &g->act_memory));
    weights.base = g->weight_memory;
    grads.base   = g->grad_memory;
    acts.base    = g->act_memory;
    ms_gpt_carve_weights(&weights, cfg, wide, &g->master);
    ms_gpt_carve_weights(&grads, cfg, wide, &g->g);
    ms_gpt_carve_acts(&acts, cfg, g->dtype, g->max_tokens, logits_chunk, &g->acts);
    if (g->copy_memory != NULL) {
        copies.base = g->copy_memory;
        ms_gpt_carve_weights(&copies, cfg, g->dtype, &copied);
    }
    g->all_grads = row_of(g->grad_memory, wide, (int64_t)(sizes.grads / ms_dtype_bytes(wide)));
    TRY(list_params(g, &copied));
    TRY(ms_gpt_upload_angles(g->d, cfg, 0, NULL, &g->acts, &g->growth));
    if (g->acts.ones.data != NULL) TRY(g->d->ops->fill(g->d, 1.0, g->acts.ones));
    if (cfg->bigram) TRY(draw_signs(g));
    g->hashes = malloc(4 * (size_t)g->max_tokens * sizeof *g->hashes);
    if (g->hashes == NULL) TRY(ms_fail(&g->d->error, MUSEC_ENOMEM, "not enough memory for ids"));
    TRY(reset_results(g));
done:
    return st;
}

musec_status ms_gpt_create(ms_gpt **out, ms_device *d, const ms_gpt_config *cfg, musec_dtype dtype,
                           int64_t max_tokens)
{
    ms_gpt      *g = calloc(1, sizeof *g);
    musec_status st;

    *out = NULL;
    if (g == NULL) return ms_fail(&d->error, MUSEC_ENOMEM, "not enough memory");
    *g = (ms_gpt){ .d = d, .cfg = *cfg, .dtype = dtype, .max_tokens = max_tokens };
    st = take_memory(g);
    if (st == MUSEC_OK)
        *out = g;
    else
        ms_gpt_destroy(g);
    return st;
}

void ms_gpt_destroy(ms_gpt *g)
{
    if (g == NULL) return;
    g->d->ops->free(g->d, g->act_memory);
    g->d->ops->free(g->d, g->grad_memory);
    g->d->ops->free(g->d, g->copy_memory);
    g->d->ops->free(g->d, g->weight_memory);
    free(g->hashes);
    free(g->params);
    free(g);
}

musec_status ms_gpt_init(ms_gpt *g, uint64_t seed)
{
    musec_status st = MUSEC_OK;
    for (size_t i = 0; i < g->n_params; i++)
        TRY(ms_gpt_draw(g->d, &g->cfg, &g->params[i], seed));
    TRY(ms_gpt_refresh(g));
done:
    return st;
}

musec_status ms_gpt_refresh(ms_gpt *g)
{
    musec_status st = MUSEC_OK;
    for (size_t i = 0; i < g->n_params; i++)
        TRY(ms_gpt_refresh_param(g, i));
done:
    return st;
}

musec_status ms_gpt_refresh_param(ms_gpt *g, size_t index)
{
    const ms_gpt_tensor *p = &g->params[index];
    return p->copy.data == NULL ? MUSEC_OK : g->d->ops->copy(g->d, p->weight, p->copy);
}

/* The head comes last in the list, and first backward, unless it is the embedding too. */
size_t ms_gpt_backward_order(const ms_gpt *g, size_t i)
{
    const size_t last = g->n_params - 1;
    if (!g->cfg.tied) return last - i;
    return i < last ? last - 1 - i : last;
}

musec_status ms_gpt_tie(ms_gpt *g)
{
    musec_status st;
    TRY(g->d->ops->copy(g->d, g->master.head, g->master.embed));
    if (g->copy_memory != NULL) TRY(g->d->ops->copy(g->d, g->w.head, g->w.embed));
done:
    return st;
}

size_t               ms_gpt_n_params(const ms_gpt *g) { return g->n_params; }
const ms_gpt_tensor *ms_gpt_param(const ms_gpt *g, size_t index) { return &g->params[index]; }
const ms_gpt_config *ms_gpt_config_of(const ms_gpt *g) { return &g->cfg; }
musec_dtype          ms_gpt_dtype(const ms_gpt *g) { return g->dtype; }

ms_mat ms_gpt_grads(const ms_gpt *g) { return g->all_grads; }

musec_status ms_gpt_zero_grad(ms_gpt *g) { return g->d->ops->fill(g->d, 0.0, g->all_grads); }

/* ---- views of a pass ------------------------------------------------------------------------- */

static void shorten(ms_mat *x, int64_t rows)
{
    if (x->data != NULL) x->rows = rows;
}

/* Sets the views of a pass over `tokens`. */
static void set_tokens(ms_gpt *g, int64_t tokens)
{
    ms_gpt_acts *n = &g->now;
    *n             = g->acts;
    for (int64_t l = 0; l < g->cfg.layers; l++) {
        ms_layer_acts *y     = &n->layer[l];
        ms_mat *const  all[] = { &y->x, &y->skipped, &y->mixed,   &y->qkv,    &y->qk,    &y->y,
                                 &y->s, &y->mid,     &y->value_s, &y->skip_s, &y->dkept, &y->h };
        for (size_t i = 0; i < COUNT(all); i++)
            shorten(all[i], tokens);
        y->lse.cols = tokens;
        shorten(&y->attn_out, tokens);
        shorten(&y->mlp_out, tokens);
    }
    for (int k = 0; k < 2; k++) {
        ms_mudd_acts *m     = &n->mudd[k];
        ms_mat *const its[] = { &m->h, &m->act, &m->dact, &m->coef, &m->dcoef, &m->ds };
        for (size_t i = 0; i < COUNT(its); i++)
            shorten(its[i], tokens);
    }
    ms_mat *const all[] = { &n->x,         &n->norm,   &n->gated,   &n->dx,       &n->dx0,
                            &n->dnorm,     &n->dh,     &n->dy,      &n->dqkv,     &n->dqk,
                            &n->ds,        &n->x02,    &n->dx02,    &n->final,    &n->scaled,
                            &n->ve,        &n->dve,    &n->shifted, &n->smear_s,  &n->ones,
                            &n->sig,       &n->coef,   &n->dcoef,   &n->dsig,     &n->ds16,
                            &n->value_ds,  &n->dpart,  &n->pair_v,  &n->excluded, &n->bigram,
                            &n->row_signs, &n->dbigram };
    for (size_t i = 0; i < COUNT(all); i++)
        shorten(all[i], tokens);
    n->inputs.count = n->targets.count = n->doc.count = tokens;
    n->bigrams.count = n->sign_ids.count = tokens;
    n->pair_doc.count                    = 2 * tokens;
}

/* ---- head and loss, both ways ---------------------------------------------------------------- */

/* Leaves the gradient of the normalised state in dnorm, unless only the loss is computed. */
static musec_status head_and_loss(ms_gpt *g, const ms_gpt_pass *pass)
{
    const ms_device_ops *op     = g->d->ops;
    const int64_t        tokens = g->now.x.rows;
    ms_xent              x      = { .cap        = (ms_cap)g->cfg.cap,
                                    .cap_scale  = g->cfg.cap_scale,
                                    .cap_shift  = g->cfg.cap_shift,
                                    .cap_width  = g->cfg.cap_width,
                                    .targets    = g->now.targets,
                                    .n_weights  = pass->n_weights,
                                    .grad_scale = pass->grad_scale };
    musec_status         st     = MUSEC_OK;

    memcpy(x.weights, pass->weights, sizeof x.weights);
    for (x.first = 0; x.first < tokens && !ms_is_stopped(pass); x.first += g->now.logits.rows) {
        const int64_t rest   = tokens - x.first;
        const int64_t rows   = rest < g->now.logits.rows ? rest : g->now.logits.rows;
        const ms_mat  norm   = ms_rows_of(g->now.norm, x.first, rows);
        const ms_mat  logits = ms_rows_of(g->now.logits, 0, rows);
        TRY(op->gemm(g->d, 1.0, norm, ms_t(g->w.head), 0.0, logits));
        TRY(op->xent(g->d, x, logits, g->now.loss));
        if (pass->grad_scale == 0.0) continue;
        TRY(op->gemm(g->d, 1.0, ms_t(logits), norm, 1.0, g->g.head));
        TRY(op->gemm(g->d, 1.0, logits, g->w.head, 0.0, ms_rows_of(g->now.dnorm, x.first, rows)));
    }
done:
    return st;
}

/* ---- passes ---------------------------------------------------------------------------------- */

static musec_status upload_ids(ms_gpt *g, const int32_t *host, ms_ids to)
{
    return g->d->ops->upload(g->d, host, (size_t)to.count * sizeof *host, to.data);
}

/* The ids that parts compute from the tokens and documents. */
static musec_status upload_derived(ms_gpt *g, const int32_t *tokens, const int32_t *doc, int64_t n)
{
    int32_t     *signs = g->hashes + n, *rows = signs + n;
    musec_status st = MUSEC_OK;

    if (g->cfg.bigram) {
        ms_bigram_ids(&g->cfg, tokens, n, g->hashes, signs);
        TRY(upload_ids(g, g->hashes, g->now.bigrams));
        TRY(upload_ids(g, signs, g->now.sign_ids));
    }
    if (g->now.pair_doc.data != NULL) { /* two rows for each token */
        for (int64_t r = 0; r < 2 * n; r++)
            rows[r] = 2 * doc[r / 2];
        TRY(upload_ids(g, rows, g->now.pair_doc));
    }
done:
    return st;
}

/* Counts the documents for attention's choice of a kernel, while they are in host memory. */
static void count_documents(ms_gpt *g, const int32_t *doc, int64_t tokens)
{
    g->docs = g->longest = 0;
    for (int64_t i = 0; i < tokens; i++) {
        const int64_t length = i - doc[i] + 1;
        if (length == 1) g->docs++;
        if (length > g->longest) g->longest = length;
    }
}

static musec_status check_tokens(ms_gpt *g, int64_t tokens)
{
    if (tokens < 1 || tokens > g->max_tokens)
        return ms_fail(&g->d->error, MUSEC_EINVAL, "%lld tokens in a model made for 1 to %lld",
                       (long long)tokens, (long long)g->max_tokens);
    return MUSEC_OK;
}

/* Brings the angles to the windows of the pass, if the last one had others. */
static musec_status set_windows(ms_gpt *g, const ms_gpt_pass *pass)
{
    const size_t bytes = (size_t)pass->n_windows * sizeof pass->windows[0];
    musec_status st;

    assert(pass->n_windows <= MS_GPT_WINDOWS);
    if (pass->n_windows == g->n_windows && memcmp(pass->windows, g->windows, bytes) == 0)
        return MUSEC_OK;
    g->n_windows = -1; /* of a failure */
    TRY(ms_gpt_upload_angles(g->d, &g->cfg, pass->n_windows, pass->windows, &g->acts, &g->growth));
    memcpy(g->windows, pass->windows, bytes);
    g->n_windows = pass->n_windows;
done:
    return st;
}

musec_status ms_gpt_run(ms_gpt *g, const ms_gpt_batch *batch, const ms_gpt_pass *pass)
{
    musec_status st;

    TRY(check_tokens(g, batch->tokens));
    set_tokens(g, batch->tokens);
    count_documents(g, batch->doc, batch->tokens);
    TRY(upload_ids(g, batch->inputs, g->now.inputs));
    TRY(upload_ids(g, batch->targets, g->now.targets));
    TRY(upload_ids(g, batch->doc, g->now.doc));
    TRY(upload_derived(g, batch->inputs, batch->doc, batch->tokens));
    TRY(set_windows(g, pass));
    TRY(ms_gpt_forward(g, pass));
    TRY(head_and_loss(g, pass));
    if (pass->grad_scale != 0.0 && !ms_is_stopped(pass)) TRY(ms_gpt_backward(g, pass));
    g->tokens += batch->tokens;
done:
    return st;
}

musec_status ms_gpt_move_losses(ms_gpt *g, ms_vec to, int64_t *tokens)
{
    musec_status st;

    *tokens   = g->tokens;
    g->tokens = 0;
    TRY(g->d->ops->copy(g->d, row_of(g->acts.loss.data, MUSEC_F64, 2),
                        row_of(to.data, MUSEC_F64, 2)));
    TRY(fill_vec(g, 0.0, g->acts.loss));
done:
    return st;
}

musec_status ms_gpt_take(ms_gpt *g, ms_gpt_result *out, double *max_logit)
{
    double       loss[2];
    musec_status st;

    TRY(ms_vec_download(g->d, g->acts.loss, loss));
    if (max_logit != NULL) TRY(ms_vec_download(g->d, g->acts.max_logit, max_logit));
    *out = (ms_gpt_result){ .objective = loss[0], .loss = loss[1], .tokens = g->tokens };
    TRY(reset_results(g));
done:
    return st;
}

static double capped(const ms_gpt_config *cfg, double raw)
{
    if (cfg->cap == MS_CAP_TANH) return cfg->cap_scale * tanh(raw / cfg->cap_scale);
    if (cfg->cap == MS_CAP_SIGMOID)
        return cfg->cap_scale / (1.0 + exp(-(raw + cfg->cap_shift) / cfg->cap_width));
    return raw;
}

static double element(const void *p, musec_dtype dtype, int64_t i)
{
    switch (dtype) {
    case MUSEC_F32: return ((const float *)p)[i];
    case MUSEC_BF16: return ms_float_of_bf16(((const uint16_t *)p)[i]);
    case MUSEC_F16: return ms_float_of_f16(((const uint16_t *)p)[i]);
    default: return ((const double *)p)[i];
    }
}

musec_status ms_gpt_next(ms_gpt *g, const int32_t *ids, int64_t n, const ms_gpt_pass *pass,
                         double *logits)
{
    const int64_t vocab = g->cfg.vocab;
    const size_t  bytes = (size_t)vocab * ms_dtype_bytes(g->dtype);
    ms_gpt_pass   only  = *pass;
    int32_t      *doc   = NULL;
    void         *raw   = NULL;
    musec_status  st;

    TRY(check_tokens(g, n));
    doc = calloc((size_t)n, sizeof *doc);
    raw = malloc(bytes);
    if (doc == NULL || raw == NULL)
        TRY(ms_fail(&g->d->error, MUSEC_ENOMEM, "not enough memory for %lld ids", (long long)n));
    only.grad_scale = 0.0;
    set_tokens(g, n);
    count_documents(g, doc, n);
    TRY(upload_ids(g, ids, g->now.inputs));
    TRY(upload_ids(g, doc, g->now.doc));
    TRY(upload_derived(g, ids, doc, n));
    TRY(set_windows(g, pass));
    TRY(ms_gpt_forward(g, &only));
    TRY(g->d->ops->gemm(g->d, 1.0, ms_rows_of(g->now.norm, n - 1, 1), ms_t(g->w.head), 0.0,
                        ms_rows_of(g->now.logits, 0, 1)));
    TRY(g->d->ops->download(g->d, g->now.logits.data, bytes, raw));
    for (int64_t i = 0; i < vocab; i++)
        logits[i] = capped(&g->cfg, element(raw, g->dtype, i));
done:
    free(raw);
    free(doc);
    return st;
}
