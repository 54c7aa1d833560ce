/* group.c - matrices of a group where they lie: gradients, weights and their copies.
 *
 * They lie anywhere: a run of members is a list, and a call takes it whole.  Where neighbours
 * differ in what a call has for all (the step count, the dtype of copies) it takes as many as
 * agree, and a block whose rows lie in groups is gathered and goes alone. */
#include "optim/optim.h"

const ms_param *ms_member_param(const musec_optim *opt, const ms_group *g, int64_t m)
{
    return &opt->params[g->members[m].param];
}

const musec_optim_config *ms_group_config(const musec_optim *opt, const ms_group *g)
{
    return g->aux ? &opt->aux_cfg : &opt->cfg;
}

ms_part ms_member_part(const musec_optim *opt, const ms_group *g, int64_t m, const ms_step *a,
                       ms_lies_in what)
{
    const ms_member *member = &g->members[m];
    const ms_param  *param  = ms_member_param(opt, g, m);
    const ms_mat     x      = what == MS_GRADS     ? ms_grad_mat(param, a->grads[member->param])
                              : what == MS_WEIGHTS ? param->weight
                                                   : param->copy;
    return ms_block_part(x, &param->blocks[member->block], member->index);
}

ms_mat ms_member_list(const musec_optim *opt, const ms_group *g, int64_t first, int64_t n,
                      const ms_step *a, ms_lies_in what)
{
    ms_mat_ptr *ptrs = opt->ptrs + (int64_t)what * opt->n_ptrs;
    ms_mat      x    = ms_member_part(opt, g, first, a, what).first;
    for (int64_t i = 0; i < n; i++) {
        const ms_mat one = ms_member_part(opt, g, first + i, a, what).first;
        ptrs[i]          = (ms_mat_ptr){ one.data, one.ld };
    }
    x.count = n;
    x.ptrs  = n > 1 ? ptrs : NULL;
    return x;
}

bool ms_member_has_grad(const ms_group *g, int64_t m, const ms_step *a)
{
    return a->grads[g->members[m].param].data != NULL;
}

bool ms_member_in_groups(const musec_optim *opt, const ms_group *g, int64_t m)
{
    const musec_block *b = &ms_member_param(opt, g, m)->blocks[g->members[m].block];
    return b->rows != b->group_rows;
}
