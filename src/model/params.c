/* params.c - the parameters of a GPT: names, roles, starting values.
 *
 * A draw is a function of the seed, the tensor's name and the element's place, so that it depends
 * neither on the device nor on what else the model has. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "model/layout.h"

size_t ms_gpt_count_params(const ms_gpt_config *cfg)
{
    const size_t per_layer = 6 + (size_t)cfg->head_gates + (size_t)cfg->x0_mix;
    return (size_t)cfg->layers * per_layer + (cfg->tied ? 1 : 2);
}

static void add(ms_gpt_tensor **at, int64_t layer, const char *name, musec_role role, ms_mat weight,
                ms_mat grad)
{
    ms_gpt_tensor *p = (*at)++;
    *p               = (ms_gpt_tensor){ .role = role, .weight = weight, .grad = grad };
    if (layer < 0)
        snprintf(p->name, sizeof p->name, "%s", name);
    else
        snprintf(p->name, sizeof p->name, "layer.%lld.%s", (long long)layer, name);
}

void ms_gpt_list_params(const ms_gpt_config *cfg, const ms_gpt_weights *weights,
                        const ms_gpt_weights *grads, ms_gpt_tensor *out)
{
    if (!cfg->tied) add(&out, -1, "embed", MUSEC_ROLE_EMBED, weights->embed, grads->embed);
    for (int64_t l = 0; l < cfg->layers; l++) {
        const ms_layer_weights *w = &weights->layer[l], *g = &grads->layer[l];
        if (cfg->x0_mix) add(&out, l, "mix", MUSEC_ROLE_VECTOR, w->mix, g->mix);
        add(&out, l, "attn.q", MUSEC_ROLE_QK, w->q, g->q);
        add(&out, l, "attn.k", MUSEC_ROLE_QK, w->k, g->k);
        add(&out, l, "attn.v", MUSEC_ROLE_VO, w->v, g->v);
        if (cfg->head_gates) add(&out, l, "attn.gate", MUSEC_ROLE_VECTOR, w->gate, g->gate);
        add(&out, l, "attn.o", MUSEC_ROLE_VO, w->o, g->o);
        add(&out, l, "mlp.up", MUSEC_ROLE_MLP, w->up, g->up);
        add(&out, l, "mlp.down", MUSEC_ROLE_MLP, w->down, g->down);
    }
    add(&out, -1, "head", MUSEC_ROLE_HEAD, weights->head, grads->head);
}

/* ---- starting values ------------------------------------------------------------------------- */

/* Uniform numbers of deviation sd. */
static musec_status draw_uniform(ms_device *d, uint64_t key, double sd, ms_mat out)
{
    enum { PIECE = 1 << 18 };
    const int64_t n    = out.rows * out.cols; /* parameters are dense */
    const size_t  each = ms_dtype_bytes(out.dtype);
    const double  half = sqrt(3.0) * sd;
    void         *host = malloc(PIECE * each);
    musec_status  st   = MUSEC_OK;

    if (host == NULL) return ms_fail(&d->error, MUSEC_ENOMEM, "not enough memory to draw weights");
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t m = n - at < PIECE ? n - at : PIECE;
        for (int64_t i = 0; i < m; i++) {
            const double x = half * (2.0 * ms_rand_uniform(key, (uint64_t)(at + i)) - 1.0);
            if (out.dtype == MUSEC_F32)
                ((float *)host)[i] = (float)x;
            else
                ((double *)host)[i] = x;
        }
        TRY(d->ops->upload(d, host, (size_t)m * each, (char *)out.data + (size_t)at * each));
    }
done:
    free(host);
    return st;
}

static bool ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

musec_status ms_gpt_draw(ms_device *d, const ms_gpt_config *cfg, const ms_gpt_tensor *p,
                         uint64_t seed)
{
    const uint64_t key  = ms_rand_key(seed, p->name);
    const double   unit = 1.0 / sqrt((double)cfg->width);
    const struct {
        const char *end;
        double      sd;
    } uniform[] = {
        { "attn.q", cfg->init_qkv }, { "attn.k", cfg->init_qkv }, { "attn.v", cfg->init_qkv },
        { "attn.o", cfg->init_out }, { "mlp.up", cfg->init_up },  { "mlp.down", cfg->init_down },
    };
    musec_status st = MUSEC_OK;

    for (size_t i = 0; i < COUNT(uniform); i++)
        if (ends_with(p->name, uniform[i].end))
            return uniform[i].sd > 0.0 ? draw_uniform(d, key, uniform[i].sd * unit, p->weight)
                                       : d->ops->fill(d, 0.0, p->weight);
    if (p->role == MUSEC_ROLE_EMBED) return d->ops->normal(d, key, 0.0, cfg->init_embed, p->weight);
    if (p->role == MUSEC_ROLE_HEAD) return d->ops->normal(d, key, 0.0, cfg->init_head, p->weight);
    TRY(d->ops->fill(d, 0.0, p->weight)); /* gates, and the share of x0 */
    if (ends_with(p->name, "mix"))
        TRY(d->ops->fill(d, cfg->init_residual, ms_mat_part(p->weight, 0, 1, 0, 1)));
done:
    return st;
}
