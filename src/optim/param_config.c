/* param_config.c - learning rate and weight decay of one parameter, in place of the optimizer's.
 *
 * Every step reads them here, so that a change takes effect at once and none of it is state. */
#include <math.h>

#include "core/sized.h"
#include "optim/optim.h"

double ms_param_lr(const musec_optim *opt, const ms_param *p)
{
    if (p->lr >= 0.0) return p->lr;
    return p->role < MUSEC_MATRIX_ROLES ? opt->cfg.lr : opt->aux_cfg.lr;
}

double ms_param_decay(const musec_optim *opt, const ms_param *p)
{
    if (p->weight_decay >= 0.0) return p->weight_decay;
    return p->role < MUSEC_MATRIX_ROLES ? opt->cfg.weight_decay[p->role]
                                        : opt->cfg.aux_weight_decay;
}

musec_status musec_param_config_init(musec_param_config *cfg, size_t size)
{
    const musec_param_config unset = { .size         = (uint32_t)size,
                                       .lr           = MUSEC_UNSET,
                                       .weight_decay = MUSEC_UNSET };
    if (cfg == NULL || !ms_sized_fits(size, MUSEC_PARAM_CONFIG_SIZE_1)) return MUSEC_EINVAL;
    ms_sized_fill(cfg, size, &unset, sizeof unset);
    return MUSEC_OK;
}

static musec_status check_value(ms_error *e, const char *param, const char *field, double x)
{
    if (x == MUSEC_UNSET || (x >= 0.0 && x <= MS_RATE_MAX)) return MUSEC_OK;
    return ms_fail(e, MUSEC_EINVAL, "%s: %s is %g; it must be from 0 to %g, or MUSEC_UNSET", param,
                   field, x, MS_RATE_MAX);
}

static musec_status find_param(const musec_optim *opt, size_t index)
{
    if (index < opt->n_params) return MUSEC_OK;
    return ms_fail(&opt->d->error, MUSEC_EINVAL, "there is no parameter %zu; there are %zu", index,
                   opt->n_params);
}

musec_status musec_optim_set_param(musec_optim *opt, size_t index, const musec_param_config *cfg)
{
    musec_param_config checked;
    musec_status       st = MUSEC_OK;
    if (opt == NULL) return MUSEC_EINVAL;
    ms_error *e = &opt->d->error;
    TRY(find_param(opt, index));
    if (cfg == NULL || !ms_sized_fits(cfg->size, MUSEC_PARAM_CONFIG_SIZE_1))
        return ms_fail(e, MUSEC_EINVAL, "the config must come from musec_param_config_init()");
    (void)musec_param_config_init(&checked, sizeof checked);
    if (!ms_sized_take(cfg, cfg->size, &checked, sizeof checked) || checked.reserved != 0)
        return ms_fail(e, MUSEC_ENOTSUP, "the config sets a field that musec %s does not have",
                       musec_version());
    TRY(check_value(e, opt->params[index].name, "lr", checked.lr));
    TRY(check_value(e, opt->params[index].name, "weight_decay", checked.weight_decay));
    opt->params[index].lr           = checked.lr;
    opt->params[index].weight_decay = checked.weight_decay;
done:
    return st;
}

musec_status musec_optim_get_param(const musec_optim *opt, size_t index, musec_param_config *cfg,
                                   size_t size)
{
    musec_status st = MUSEC_OK;
    if (opt == NULL) return MUSEC_EINVAL;
    TRY(find_param(opt, index));
    st = musec_param_config_init(cfg, size);
    if (st != MUSEC_OK)
        return ms_fail(&opt->d->error, st,
                       "get_param wants a config of sizeof(musec_param_config) bytes");
    cfg->lr           = opt->params[index].lr;
    cfg->weight_decay = opt->params[index].weight_decay;
done:
    return st;
}
