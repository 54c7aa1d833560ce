/* group.c - groups of equal matrices: what a step may do with one, and where its members lie.
 *
 * Members lie anywhere in memory.  A call takes a span of them whole, by an array of pointers.
 * Where neighbours differ in what a call has for all of them (the step count, the dtype of compute
 * copies) it takes as many as agree, and a block whose rows lie in groups is gathered and goes
 * alone. */
#include <string.h>

#include "optim/optim.h"

const ms_param *ms_member_param(const musec_optim *opt, const ms_group *g, int64_t m)
{
    return &opt->params[g->members[m].param];
}

const musec_optim_config *ms_group_config(const musec_optim *opt, const ms_group *g)
{
    return g->aux ? &opt->aux_cfg : &opt->cfg;
}

void ms_state_names(const musec_optim_config *cfg, bool aux, const char *names[MS_STATES + 1])
{
    const ms_base *base = ms_base_find(aux ? MS_AUX_BASE : cfg->base);
    int            n    = 0;
    for (; base->states[n] != NULL; n++)
        names[n] = base->states[n];
    if (!aux && cfg->second_moment != MUSEC_SECOND_NONE) names[n++] = MS_SECOND_STATE;
    names[n] = NULL;
}

ms_mat ms_state_shape(const musec_optim *opt, const ms_group *g, int k)
{
    const ms_mat whole = { .rows = g->rows, .cols = g->cols, .dtype = ms_state_dtype(opt, g) };
    if (strcmp(g->states[k], MS_SECOND_STATE) == 0) return ms_second_shape(opt, g);
    if (g->base->state_shape == NULL) return whole;
    return g->base->state_shape(ms_group_config(opt, g), g->states[k], whole);
}

/* ---- what a step may do with a group --------------------------------------------------------- */

bool ms_group_stores_clipped(const musec_optim *opt, const ms_group *g)
{
    return opt->row->stores_clipped_momentum && !g->aux;
}

/* The scale of 16-bit directions follows from bounds (scale_prediction.c), which f16 holds up to
 * 2^30 elements. */
bool ms_group_fuses_rounding(const musec_optim *opt, const ms_group *g)
{
    const musec_optim_config *cfg = &opt->cfg;
    if (g->aux || !g->base->direction_is_momentum || !ms_is_16bit(g->operands) ||
        cfg->decay_form == MUSEC_DECAY_COUPLED || cfg->ns_mode == MUSEC_NS_EXACT || g->rows == 1 ||
        g->cols == 1 || g->rows > ((int64_t)1 << 30) / g->cols)
        return false;
    return g->spectral_fn == MS_SPECTRAL_POLAR || ms_spectral_clips(g->spectral_fn);
}

bool ms_group_predicts(const musec_optim *opt, const ms_group *g)
{
    return opt->row->stores_clipped_momentum && opt->cfg.momentum_dtype == MUSEC_MOMENTUM_OWN &&
           ms_group_fuses_rounding(opt, g);
}

bool ms_group_caches_gram_norms(const musec_optim *opt, const ms_group *g)
{
    const int mode = opt->cfg.ns_mode;
    return ms_group_predicts(opt, g) && (mode == MUSEC_NS_FAST || mode == MUSEC_NS_ACCURATE);
}

static int64_t min_side(const ms_group *g) { return g->rows < g->cols ? g->rows : g->cols; }

bool ms_groups_fusible(const musec_optim *opt, const ms_group *g, const ms_group *other)
{
    return min_side(g) == min_side(other) && g->dtype == other->dtype &&
           ms_group_predicts(opt, g) && ms_group_predicts(opt, other);
}

/* ---- where members lie ----------------------------------------------------------------------- */

ms_mat ms_grad_mat(const ms_param *p, musec_view view)
{
    ms_mat g = p->weight; /* the same shape; blocks are read with the weight's own strides */
    g.data   = view.data;
    g.dtype  = view.dtype;
    return g;
}

ms_part ms_member_part(const ms_step *s, const ms_group *g, int64_t m, ms_operand what)
{
    const ms_member *member = &g->members[m];
    const ms_param  *param  = ms_member_param(s->opt, g, m);
    const ms_mat     x      = what == MS_GRADS ? ms_grad_mat(param, s->grads[member->param])
                                               : ms_param_operand(param, what);
    return ms_block_part(x, &param->blocks[member->block], member->index);
}

ms_mat ms_member_list(const ms_step *s, const ms_group *g, int64_t first, int64_t n,
                      ms_operand what)
{
    ms_mat_ptr *pointers = s->host->pointers[what];
    ms_mat      x        = ms_member_part(s, g, first, what).first;
    for (int64_t i = 0; i < n; i++) {
        const ms_mat one = ms_member_part(s, g, first + i, what).first;
        pointers[i]      = (ms_mat_ptr){ one.data, one.ld };
    }
    x.count = n;
    x.ptrs  = n > 1 ? pointers : NULL;
    return x;
}

bool ms_member_has_grad(const ms_step *s, const ms_group *g, int64_t m)
{
    return s->grads[g->members[m].param].data != NULL;
}

bool ms_is_measured(const ms_step *s, const ms_group *g)
{
    return s->report && ms_spectral_clips(g->spectral_fn);
}

bool ms_group_has_grads(const ms_step *s, const ms_group *g)
{
    for (int64_t m = 0; m < g->count; m++)
        if (!ms_member_has_grad(s, g, m)) return false;
    return true;
}

bool ms_member_in_groups(const musec_optim *opt, const ms_group *g, int64_t m)
{
    const musec_block *b = &ms_member_param(opt, g, m)->blocks[g->members[m].block];
    return b->rows != b->group_rows;
}
