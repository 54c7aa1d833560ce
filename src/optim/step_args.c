/* step_args.c - what one step is told besides its gradients: rates of each parameter, and numbers
 * that lie on the device.
 *
 * A rate of the step comes before that of musec_optim_set_param(), and that before the config's. */
#include <math.h>

#include "core/sized.h"
#include "optim/optim.h"

/* ---- the struct ------------------------------------------------------------------------------ */

musec_status musec_step_args_init(musec_step_args *args, size_t size)
{
    const musec_step_args defaults = { .size = (uint32_t)size, .lr_scale = 1.0 };
    if (args == NULL || !ms_sized_fits(size, MUSEC_STEP_ARGS_SIZE_1)) return MUSEC_EINVAL;
    ms_sized_fill(args, size, &defaults, sizeof defaults);
    return MUSEC_OK;
}

/* Checks one array: each entry is from 0 to max, or MUSEC_UNSET. */
static musec_status check_array(musec_optim *opt, const char *what, const double *x, double max)
{
    for (size_t i = 0; x != NULL && i < opt->n_params; i++)
        if (!(x[i] == MUSEC_UNSET || (x[i] >= 0.0 && x[i] <= max)))
            return ms_fail(&opt->d->error, MUSEC_EINVAL,
                           "step: %s of %s is %g; it must be from 0 to %g, or MUSEC_UNSET", what,
                           opt->params[i].name, x[i], max);
    return MUSEC_OK;
}

musec_status ms_step_args_take(musec_optim *opt, const musec_step_args *from, musec_step_args *args)
{
    ms_error    *e  = &opt->d->error;
    musec_status st = MUSEC_OK;
    (void)musec_step_args_init(args, sizeof *args);
    if (from == NULL) return MUSEC_OK;
    if (!ms_sized_fits(from->size, MUSEC_STEP_ARGS_SIZE_1))
        return ms_fail(e, MUSEC_EINVAL, "the arguments must come from musec_step_args_init()");
    if (!ms_sized_take(from, from->size, args, sizeof *args) || args->reserved != 0)
        return ms_fail(e, MUSEC_ENOTSUP,
                       "the arguments of the step set a field that musec %s does not have",
                       musec_version());
    if (!(args->lr_scale >= 0.0 && args->lr_scale < INFINITY))
        return ms_fail(e, MUSEC_EINVAL, "step: lr_scale is %g", args->lr_scale);
    TRY(check_array(opt, "lr", args->lr, MS_RATE_MAX));
    TRY(check_array(opt, "weight_decay", args->weight_decay, MS_RATE_MAX));
    TRY(check_array(opt, "beta", args->beta, 1.0));
done:
    return st;
}

/* ---- rates ----------------------------------------------------------------------------------- */

static bool is_set(const double *x, size_t i) { return x != NULL && x[i] != MUSEC_UNSET; }

double ms_step_lr(const ms_step *s, size_t param)
{
    if (is_set(s->args.lr, param)) return s->args.lr[param];
    return ms_param_lr(s->opt, &s->opt->params[param]);
}

double ms_step_decay(const ms_step *s, size_t param)
{
    if (is_set(s->args.weight_decay, param)) return s->args.weight_decay[param];
    return ms_param_decay(s->opt, &s->opt->params[param]);
}

const float *ms_step_lr_at(const ms_step *s, size_t param)
{
    return s->args.lr_at != NULL ? s->args.lr_at[param] : NULL;
}

double ms_step_beta(const ms_step *s, const ms_group *g, int64_t m)
{
    const size_t param = g->members[m].param;
    return is_set(s->args.beta, param) ? s->args.beta[param] : ms_group_config(s->opt, g)->beta;
}

musec_optim_config ms_member_config(const ms_step *s, const ms_group *g, int64_t m)
{
    musec_optim_config cfg = *ms_group_config(s->opt, g);
    cfg.beta               = ms_step_beta(s, g, m);
    return cfg;
}

/* ---- numbers on the device ------------------------------------------------------------------- */

musec_status ms_read_float(musec_optim *opt, const float *from, ms_vec to)
{
    ms_mat x = { .rows = 1, .cols = 1, .ld = 1, .count = 1, .stride = 1, .dtype = MUSEC_F32 };
    ms_mat y = x;
    x.data   = (float *)from; /* only read */
    y.data   = to.data;
    y.dtype  = MUSEC_F64;
    return opt->d->ops->copy(opt->d, x, y);
}
