/* params.c - the parameters of a GPT: names, roles, initial values.
 *
 * A draw is a function of the seed, the tensor's name and the element's place, so that it depends
 * neither on the device nor on what else the model has. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "core/text.h"
#include "model/layout.h"

/* The list so far; `out` NULL: parameters are only counted. */
typedef struct lister {
    ms_gpt_tensor *out;
    size_t         n;
} lister;

/* Adds a parameter that the model has: others are without rows. */
static void add(lister *to, int64_t layer, const char *name, musec_role role, ms_mat weight,
                ms_mat grad, ms_mat copy)
{
    ms_gpt_tensor *p;
    if (weight.rows == 0) return;
    to->n++;
    if (to->out == NULL) return;
    p  = &to->out[to->n - 1];
    *p = (ms_gpt_tensor){ .role = role, .weight = weight, .grad = grad, .copy = copy };
    if (layer < 0)
        snprintf(p->name, sizeof p->name, "%s", name);
    else
        snprintf(p->name, sizeof p->name, "layer.%lld.%s", (long long)layer, name);
}

static void add_layer(lister *to, int64_t l, const ms_layer_weights *w, const ms_layer_weights *g,
                      const ms_layer_weights *c)
{
    const musec_role vector = MUSEC_ROLE_VECTOR;
    add(to, l, "skip", vector, w->skip, g->skip, c->skip);
    add(to, l, "skip_gate", vector, w->skip_gate, g->skip_gate, c->skip_gate);
    add(to, l, "mix", vector, w->mix, g->mix, c->mix);
    add(to, l, "attn.scales", vector, w->scales, g->scales, c->scales);
    add(to, l, "attn.q", MUSEC_ROLE_QK, w->q, g->q, c->q);
    add(to, l, "attn.k", MUSEC_ROLE_QK, w->k, g->k, c->k);
    add(to, l, "attn.v", MUSEC_ROLE_VO, w->v, g->v, c->v);
    add(to, l, "attn.value_gate", vector, w->value_gate, g->value_gate, c->value_gate);
    add(to, l, "attn.gate", vector, w->gate, g->gate, c->gate);
    add(to, l, "attn.alpha", vector, w->alpha, g->alpha, c->alpha);
    add(to, l, "attn.o", MUSEC_ROLE_VO, w->o, g->o, c->o);
    add(to, l, "attn.mix", vector, w->attn_mix, g->attn_mix, c->attn_mix);
    add(to, l, "bigram", vector, w->bigram, g->bigram, c->bigram);
    add(to, l, "mlp.mix", vector, w->mlp_mix, g->mlp_mix, c->mlp_mix);
    add(to, l, "mlp.up", MUSEC_ROLE_MLP, w->up, g->up, c->up);
    add(to, l, "mlp.down", MUSEC_ROLE_MLP, w->down, g->down, c->down);
}

size_t ms_gpt_list_params(const ms_gpt_config *cfg, const ms_gpt_weights *w,
                          const ms_gpt_weights *g, const ms_gpt_weights *c, ms_gpt_tensor *out)
{
    const musec_role vector = MUSEC_ROLE_VECTOR;
    lister           to     = { out, 0 };
    char             name[24];

    if (!cfg->tied) add(&to, -1, "embed", MUSEC_ROLE_EMBED, w->embed, g->embed, c->embed);
    add(&to, -1, "embed2", MUSEC_ROLE_EMBED, w->embed2, g->embed2, c->embed2);
    for (int t = 0; t < MS_GPT_TABLES; t++) {
        snprintf(name, sizeof name, "value.%d", t);
        add(&to, -1, name, MUSEC_ROLE_EMBED, w->value[t], g->value[t], c->value[t]);
    }
    add(&to, -1, "bigram", MUSEC_ROLE_EMBED, w->bigram, g->bigram, c->bigram);
    add(&to, -1, "smear", vector, w->smear, g->smear, c->smear);
    add(&to, -1, "smear_gate", vector, w->smear_gate, g->smear_gate, c->smear_gate);
    for (int64_t l = 0; l < cfg->layers; l++)
        add_layer(&to, l, &w->layer[l], &g->layer[l], &c->layer[l]);
    for (int k = 0; k < 2; k++) {
        snprintf(name, sizeof name, "mudd.%d.up", k);
        add(&to, -1, name, vector, w->mudd[k].up, g->mudd[k].up, c->mudd[k].up);
        snprintf(name, sizeof name, "mudd.%d.down", k);
        add(&to, -1, name, vector, w->mudd[k].down, g->mudd[k].down, c->mudd[k].down);
        snprintf(name, sizeof name, "mudd.%d.bias", k);
        add(&to, -1, name, vector, w->mudd[k].bias, g->mudd[k].bias, c->mudd[k].bias);
    }
    add(&to, -1, "backout", vector, w->backout, g->backout, c->backout);
    add(&to, -1, "spare", vector, w->spare, g->spare, c->spare);
    add(&to, -1, "head", MUSEC_ROLE_HEAD, w->head, g->head, c->head);
    return to.n;
}

ms_gpt_tensor *ms_gpt_shapes(const ms_gpt_config *cfg, size_t *n)
{
    ms_carver       counter = { 0 };
    ms_gpt_weights *shapes  = malloc(sizeof *shapes);
    ms_gpt_tensor  *list    = NULL;

    *n = 0;
    if (shapes == NULL) return NULL;
    ms_gpt_carve_weights(&counter, cfg, MUSEC_F32, shapes);
    *n   = ms_gpt_list_params(cfg, shapes, shapes, shapes, NULL);
    list = calloc(*n, sizeof *list);
    if (list != NULL) (void)ms_gpt_list_params(cfg, shapes, shapes, shapes, list);
    free(shapes);
    return list;
}

/* ---- initial values ------------------------------------------------------------------------- */

static musec_status draw_table(ms_device *d, const ms_gpt_config *cfg, const ms_gpt_tensor *p,
                               uint64_t key)
{
    const double sd = strcmp(p->name, "embed") == 0    ? cfg->init_embed
                      : strcmp(p->name, "embed2") == 0 ? cfg->init_embed2
                      : strcmp(p->name, "bigram") == 0 ? 0.0
                                                       : cfg->init_values;
    return sd > 0.0 ? d->ops->normal(d, key, 0.0, sd, p->weight) : d->ops->fill(d, 0.0, p->weight);
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
    const struct {
        const char *end;
        int64_t     column;
        double      value;
    } scalars[] = {
        { "mix", 0, cfg->init_residual },
        { "attn.mix", 1, 1.0 },
        { "mlp.mix", 1, 1.0 },
        { "attn.scales", 0, 0.5 },
        { "attn.scales", 1, 1.0 },
        { "skip", 0, -1.5 },
        { "backout", 0, 0.5 },
        { "bigram", 0, 0.05 },
        /* ten times the coefficients (dynamic.c): those of other layers, and a backout of 0.5 */
        { "mudd.0.bias", 6, 20.0 },
        { "mudd.0.bias", 7, 20.0 },
        { "mudd.0.bias", 8, 10.0 * cfg->init_residual },
        { "mudd.0.bias", 9, 10.0 },
        { "mudd.0.bias", 11, 0.5 },
        { "mudd.0.bias", 12, 10.0 * cfg->init_residual },
        { "mudd.0.bias", 13, 10.0 },
        { "mudd.1.bias", 1, -5.0 },
    };
    musec_status st = MUSEC_OK;

    for (size_t i = 0; i < COUNT(uniform); i++) {
        const double half = sqrt(3.0) * (uniform[i].sd * unit); /* of the interval */
        if (ms_text_ends_with(p->name, uniform[i].end))
            return half > 0.0 ? d->ops->uniform(d, key, -half, half, p->weight)
                              : d->ops->fill(d, 0.0, p->weight);
    }
    if (p->role == MUSEC_ROLE_EMBED) return draw_table(d, cfg, p, key);
    if (p->role == MUSEC_ROLE_HEAD) return d->ops->normal(d, key, 0.0, cfg->init_head, p->weight);
    if (strncmp(p->name, "mudd.", 5) == 0 && ms_text_ends_with(p->name, ".up"))
        return d->ops->uniform(d, key, -unit, unit, p->weight);
    TRY(d->ops->fill(d, 0.0, p->weight)); /* gates, the shares of x0 and x02, and the smear */
    for (size_t i = 0; i < COUNT(scalars); i++)
        if (ms_text_ends_with(p->name, scalars[i].end))
            TRY(d->ops->fill(d, scalars[i].value,
                             ms_mat_part(p->weight, 0, 1, scalars[i].column, 1)));
done:
    return st;
}
