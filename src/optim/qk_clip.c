/* qk_clip.c - QK-Clip: after the step, shrink W_q and W_k of heads whose attention logits grew
 * large.
 *
 * With S the largest logit of head h in the forward pass and gamma = min(1, tau / S):
 *     W_q of h <- gamma^a W_q,   W_k of h <- gamma^(1-a) W_k,   a = 1/2 by default,
 * so that the logits, bilinear in both, shrink by gamma.  Where query heads share a key head, S is
 * the largest of the group and all its heads are scaled alike.  Under MLA the rotary rows of a
 * query meet a key that all heads share and that is not touched: they take gamma alone. */
#include <math.h>
#include <stdlib.h>

#include "optim/optim.h"

static musec_status check_rows(musec_optim *opt, const char *what, size_t param, int64_t heads,
                               int64_t first, int64_t step, int64_t rows)
{
    if (param >= opt->n_params)
        return ms_fail(&opt->d->error, MUSEC_EINVAL, "attention: there is no parameter %zu", param);
    const ms_mat w = opt->params[param].weight;
    if (w.count != 1 || first < 0 || rows < 1 || step < 0 || rows > w.rows ||
        (heads > 1 && step < rows) || first > w.rows || step > w.rows || heads > w.rows ||
        first + (heads - 1) * step + rows > w.rows)
        return ms_fail(
            &opt->d->error, MUSEC_EINVAL,
            "attention: %lld %s heads of %lld rows, %lld apart from row %lld on, do not fit "
            "%s with its %lld rows",
            (long long)heads, what, (long long)rows, (long long)step, (long long)first,
            opt->params[param].name, (long long)w.rows);
    return MUSEC_OK;
}

musec_status musec_optim_add_attention(musec_optim *opt, const musec_attention *attention,
                                       size_t *index)
{
    musec_status st = MUSEC_OK;
    if (opt == NULL || attention == NULL) return MUSEC_EINVAL;
    if (!opt->row->qk_clip)
        return ms_fail(&opt->d->error, MUSEC_EINVAL,
                       "attention: %s does not clip logits, muonclip does", opt->row->name);
    musec_attention a     = *attention;
    ms_attention   *grown = NULL;
    double         *logits;
    if (a.heads < 1 || a.kv_heads < 1 || a.heads % a.kv_heads != 0 || a.rot_rows < 0 ||
        a.rot_rows >= a.head_rows)
        return ms_fail(&opt->d->error, MUSEC_EINVAL,
                       "attention: %lld heads, %lld key heads, %lld rows of which %lld rotary",
                       (long long)a.heads, (long long)a.kv_heads, (long long)a.head_rows,
                       (long long)a.rot_rows);
    if (a.k_head_rows == 0) a.k_head_rows = a.head_rows - a.rot_rows;
    TRY(check_rows(opt, "query", a.q, a.heads, a.q_row, a.q_step, a.head_rows));
    TRY(check_rows(opt, "key", a.k, a.kv_heads, a.k_row, a.k_step, a.k_head_rows));
    logits = malloc((size_t)a.heads * sizeof *logits);
    grown  = realloc(opt->attentions, (opt->n_attentions + 1) * sizeof *grown);
    if (grown != NULL) opt->attentions = grown;
    if (logits == NULL || grown == NULL) {
        free(logits);
        return ms_fail(&opt->d->error, MUSEC_ENOMEM, "no memory for the attention heads");
    }
    for (int64_t h = 0; h < a.heads; h++)
        logits[h] = NAN;
    if (index != NULL) *index = opt->n_attentions;
    opt->attentions[opt->n_attentions++] = (ms_attention){ .shape = a, .logits = logits };
done:
    return st;
}

musec_status musec_optim_set_logits(musec_optim *opt, size_t attention, const double *max_logit,
                                    int64_t heads)
{
    if (opt == NULL || max_logit == NULL) return MUSEC_EINVAL;
    if (attention >= opt->n_attentions || heads != opt->attentions[attention].shape.heads)
        return ms_fail(&opt->d->error, MUSEC_EINVAL, "logits of %lld heads for attention %zu",
                       (long long)heads, attention);
    for (int64_t h = 0; h < heads; h++)
        if (isinf(max_logit[h]))
            return ms_fail(&opt->d->error, MUSEC_EINVAL,
                           "the logit of head %lld is infinite: shrinking cannot mend that",
                           (long long)h);
    for (int64_t h = 0; h < heads; h++)
        opt->attentions[attention].logits[h] = max_logit[h];
    return MUSEC_OK;
}

static musec_status scale_rows_of(musec_optim *opt, size_t param, int64_t first, int64_t rows,
                                  double factor)
{
    const ms_param *p = &opt->params[param];
    const ms_mat    w = ms_param_operand(p, MS_WEIGHTS), copy = ms_param_operand(p, MS_COPIES);
    const ms_mat    part = ms_mat_part(w, first, rows, 0, w.cols);
    const ms_mark   mark = ms_arena_mark(&opt->d->scratch);
    ms_mat          wide = part, beside = copy;
    musec_status    st = MUSEC_OK;
    if (rows == 0 || p->share.elsewhere) return MUSEC_OK;
    if (copy.data != NULL) beside = ms_mat_part(copy, first, rows, 0, w.cols);
    const bool halves = w.dtype == MUSEC_BF16;
    if (halves) {
        TRY(ms_scratch_mat(opt->d, MUSEC_F32, 1, rows, w.cols, &wide));
        TRY(ms_widen(opt, part, beside, wide));
    }
    TRY(opt->d->ops->scale(opt->d, ms_const(factor), wide));
    if (halves)
        TRY(ms_narrow(opt, wide, part, beside));
    else if (copy.data != NULL)
        TRY(opt->d->ops->copy(opt->d, part, beside));
done:
    ms_arena_reset(&opt->d->scratch, mark);
    return st;
}

static musec_status clip_group(musec_optim *opt, const ms_attention *at, int64_t kv)
{
    const musec_attention *a    = &at->shape;
    const int64_t          each = a->heads / a->kv_heads;
    double                 max  = -INFINITY;
    musec_status           st   = MUSEC_OK;
    for (int64_t h = kv * each; h < (kv + 1) * each; h++)
        max = fmax(max, at->logits[h]); /* not NaN */
    if (!(max > opt->cfg.qk_tau)) return MUSEC_OK;
    const double gamma = opt->cfg.qk_tau / max;
    for (int64_t h = kv * each; h < (kv + 1) * each; h++) {
        const int64_t first = a->q_row + h * a->q_step, plain = a->head_rows - a->rot_rows;
        TRY(scale_rows_of(opt, a->q, first, plain, pow(gamma, opt->cfg.qk_alpha)));
        TRY(scale_rows_of(opt, a->q, first + plain, a->rot_rows, gamma));
    }
    TRY(scale_rows_of(opt, a->k, a->k_row + kv * a->k_step, a->k_head_rows,
                      pow(gamma, 1.0 - opt->cfg.qk_alpha)));
done:
    return st;
}

void ms_qk_forget(musec_optim *opt)
{
    for (size_t i = 0; i < opt->n_attentions; i++)
        for (int64_t h = 0; h < opt->attentions[i].shape.heads; h++)
            opt->attentions[i].logits[h] = NAN;
}

musec_status ms_qk_clip(musec_optim *opt)
{
    musec_status st = MUSEC_OK;
    for (size_t i = 0; opt->row->qk_clip && i < opt->n_attentions; i++)
        for (int64_t kv = 0; kv < opt->attentions[i].shape.kv_heads; kv++)
            TRY(clip_group(opt, &opt->attentions[i], kv));
done:
    ms_qk_forget(opt);
    return st;
}
