/* params.c - the parameters of a GPT: names, roles, initial values.
 *
 * A draw is a function of the seed, the tensor's name and the element's place, so that it depends
 * neither on the device nor on what else the model has. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/rng.h"
#include "core/text.h"
#include "model/layout.h"

size_t ms_gpt_count_params(const ms_gpt_config *cfg)
{
    const size_t per_layer = 6 + (size_t)cfg->head_gates + (size_t)cfg->x0_mix;
    return (size_t)cfg->layers * per_layer + (cfg->tied ? 1 : 2);
}

static void add(ms_gpt_tensor **at, int64_t layer, const char *name, musec_role role, ms_mat weight,
                ms_mat grad, ms_mat copy)
{
    ms_gpt_tensor *p = (*at)++;
    *p = (ms_gpt_tensor){ .role = role, .weight = weight, .grad = grad, .copy = copy };
    if (layer < 0)
        snprintf(p->name, sizeof p->name, "%s", name);
    else
        snprintf(p->name, sizeof p->name, "layer.%lld.%s", (long long)layer, name);
}

void ms_gpt_list_params(const ms_gpt_config *cfg, const ms_gpt_weights *weights,
                        const ms_gpt_weights *grads, const ms_gpt_weights *copies,
                        ms_gpt_tensor *out)
{
    if (!cfg->tied)
        add(&out, -1, "embed", MUSEC_ROLE_EMBED, weights->embed, grads->embed, copies->embed);
    for (int64_t l = 0; l < cfg->layers; l++) {
        const ms_layer_weights *w = &weights->layer[l], *g = &grads->layer[l];
        const ms_layer_weights *c = &copies->layer[l];
        if (cfg->x0_mix) add(&out, l, "mix", MUSEC_ROLE_VECTOR, w->mix, g->mix, c->mix);
        add(&out, l, "attn.q", MUSEC_ROLE_QK, w->q, g->q, c->q);
        add(&out, l, "attn.k", MUSEC_ROLE_QK, w->k, g->k, c->k);
        add(&out, l, "attn.v", MUSEC_ROLE_VO, w->v, g->v, c->v);
        if (cfg->head_gates)
            add(&out, l, "attn.gate", MUSEC_ROLE_VECTOR, w->gate, g->gate, c->gate);
        add(&out, l, "attn.o", MUSEC_ROLE_VO, w->o, g->o, c->o);
        add(&out, l, "mlp.up", MUSEC_ROLE_MLP, w->up, g->up, c->up);
        add(&out, l, "mlp.down", MUSEC_ROLE_MLP, w->down, g->down, c->down);
    }
    add(&out, -1, "head", MUSEC_ROLE_HEAD, weights->head, grads->head, copies->head);
}

/* ---- initial values ------------------------------------------------------------------------- */

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

    for (size_t i = 0; i < COUNT(uniform); i++) {
        const double half = sqrt(3.0) * (uniform[i].sd * unit); /* of the interval */
        if (ms_text_ends_with(p->name, uniform[i].end))
            return half > 0.0 ? d->ops->uniform(d, key, -half, half, p->weight)
                              : d->ops->fill(d, 0.0, p->weight);
    }
    if (p->role == MUSEC_ROLE_EMBED) return d->ops->normal(d, key, 0.0, cfg->init_embed, p->weight);
    if (p->role == MUSEC_ROLE_HEAD) return d->ops->normal(d, key, 0.0, cfg->init_head, p->weight);
    TRY(d->ops->fill(d, 0.0, p->weight)); /* gates, and the share of x0 */
    if (ms_text_ends_with(p->name, "mix"))
        TRY(d->ops->fill(d, cfg->init_residual, ms_mat_part(p->weight, 0, 1, 0, 1)));
done:
    return st;
}
