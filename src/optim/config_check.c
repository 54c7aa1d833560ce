/* config_check.c - which parts an optimizer is made of, by its options, and which do not go
 * together.
 *
 * A row of the registry names a base, a spectral function and what else is its own; the options
 * `base` and `function` put others in their place.  Any base goes with any function, and any of
 * that with a second moment, Nesterov's look-ahead and every form of decay, but:
 *   - an optimizer that stores the clipped momentum needs one, so its base is sgdm, and a clip: a
 *     polar factor would forget how large the momentum was;
 *   - one without a function is its base: there is nothing to choose. */
#include <math.h>
#include <string.h>

#include "core/names.h"
#include "linalg/sharp_chain.h"
#include "optim/optim.h"
#include "optim/option_table.h"

/* ---- parts ----------------------------------------------------------------------------------- */

ms_spectral_fn ms_optim_function(const musec_optim_config *cfg)
{
    const ms_optimizer *row = ms_optimizer_find(cfg->name);
    switch (cfg->function) {
    case MUSEC_FUNCTION_POLAR: return MS_SPECTRAL_POLAR;
    case MUSEC_FUNCTION_SOFT:
    case MUSEC_FUNCTION_SHARP: return MS_SPECTRAL_SOFT_CLIP;
    case MUSEC_FUNCTION_HARD: return MS_SPECTRAL_HARD_CLIP;
    default: break;
    }
    if (row->base != NULL) return row->spectral_fn;
    return cfg->clip == MUSEC_CLIP_HARD ? MS_SPECTRAL_HARD_CLIP : MS_SPECTRAL_SOFT_CLIP;
}

static bool clips_hard(const musec_optim_config *cfg)
{
    return ms_optim_function(cfg) == MS_SPECTRAL_HARD_CLIP;
}

double ms_optim_sharpness(const musec_optim_config *cfg)
{
    const double sharp = 4.0;
    if (cfg->sharpness != 0.0) return cfg->sharpness;
    if (cfg->function == MUSEC_FUNCTION_SHARP) return sharp;
    return clips_hard(cfg) ? MS_HARD : MS_SOFT;
}

int ms_optim_ns_mode(const musec_optim_config *cfg)
{
    return clips_hard(cfg) && cfg->ns_mode == MUSEC_NS_PAPER ? MUSEC_NS_EXACT : cfg->ns_mode;
}

bool ms_optim_composes(const musec_optim_config *cfg)
{
    const ms_optimizer *row = ms_optimizer_find(cfg->name);
    return row->spectral_fn != MS_SPECTRAL_NONE && !row->stores_clipped_momentum;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static musec_status check_field(ms_error *e, const ms_optim_option *f,
                                const musec_optim_config *cfg)
{
    const void *at = (const char *)cfg + f->offset;
    if (f->type == MS_OPTIM_CHOICE) {
        char          text[64];
        const int32_t code = *(const int32_t *)at;
        ms_choice_text(f->values, code, text, sizeof text);
        if (code < 0 || text[0] == '\0')
            return ms_fail(e, MUSEC_EINVAL, "%s is code %d; it must be one of %s", f->name, code,
                           f->values);
    } else if (f->type == MS_OPTIM_REAL || f->type == MS_OPTIM_INT) {
        const double x =
            f->type == MS_OPTIM_REAL ? *(const double *)at : (double)ms_optim_integer(f, cfg);
        if (!(x >= f->min && x <= f->max))
            return ms_fail(e, MUSEC_EINVAL, "%s is %g; it must be from %g to %g", f->name, x,
                           f->min, f->max);
    }
    return MUSEC_OK;
}

static musec_status check_clip(ms_error *e, const musec_optim_config *cfg)
{
    const double p = ms_optim_sharpness(cfg);
    if (!(p >= MS_SOFT))
        return ms_fail(e, MUSEC_EINVAL, "sharpness is %g; it must be 0 or from 2 on", p);
    if (p != MS_SOFT && ms_optim_ns_mode(cfg) != MUSEC_NS_EXACT &&
        ms_sharp_chain_find(p, 1.0, 1.0) == NULL)
        return ms_fail(
            e, MUSEC_EINVAL,
            "sharpness is %g; it must be 2, 4, 8, 16, 32 or hard, unless ns-mode is exact", p);
    if (clips_hard(cfg) && cfg->ns_mode == MUSEC_NS_PAPER7)
        return ms_fail(e, MUSEC_EINVAL,
                       "%s clips hard and has ns-mode paper, fast, accurate and exact only",
                       cfg->name);
    return MUSEC_OK;
}

static musec_status check_base(ms_error *e, const musec_optim_config *cfg, const ms_optimizer *row)
{
    const char *base = cfg->base == NULL ? "" : cfg->base;
    if (ms_base_find(base) == NULL)
        return ms_fail(e, MUSEC_EINVAL, "base is \"%s\"; it must be one of %s", base,
                       ms_base_choices);
    if (row->base == NULL || strcmp(row->base, base) == 0 || ms_optim_composes(cfg))
        return MUSEC_OK;
    if (row->stores_clipped_momentum)
        return ms_fail(e, MUSEC_EINVAL,
                       "base is %s; %s stores its momentum clipped, and only sgdm has an update "
                       "that is its momentum: take spectra",
                       base, row->name);
    return ms_fail(e, MUSEC_EINVAL,
                   "base is %s; %s applies no spectral function and is a base itself: take spectra",
                   base, row->name);
}

/* Do the parts of this optimizer go together? */
static musec_status check_parts(ms_error *e, const musec_optim_config *cfg, const ms_optimizer *row)
{
    const ms_spectral_fn fn       = ms_optim_function(cfg);
    char                 text[32] = "";
    musec_status         st       = MUSEC_OK;
    TRY(check_base(e, cfg, row));
    (void)ms_optim_config_get(cfg, "function", text, sizeof text);
    if (cfg->function != MUSEC_FUNCTION_AUTO && row->spectral_fn == MS_SPECTRAL_NONE)
        return ms_fail(e, MUSEC_EINVAL,
                       "function is %s; %s applies none to its update: take spectra with base %s",
                       text, row->name, row->base);
    if (row->stores_clipped_momentum && !ms_spectral_clips(fn))
        return ms_fail(e, MUSEC_EINVAL,
                       "function is polar; %s stores what the function makes of its momentum, and "
                       "a polar factor would forget how large that was: take muon",
                       row->name);
    (void)ms_optim_config_get(cfg, "second-moment", text, sizeof text);
    if (cfg->second_moment != MUSEC_SECOND_NONE && fn == MS_SPECTRAL_NONE)
        return ms_fail(e, MUSEC_EINVAL,
                       "second-moment is %s; it follows a spectral function, and %s applies none: "
                       "take spectra with base %s",
                       text, row->name, row->base);
    if (cfg->threshold_warmup > 0 && !(ms_spectral_clips(fn) && ms_optim_composes(cfg)))
        return ms_fail(e, MUSEC_EINVAL,
                       "threshold-warmup is %lld; %s: take spectra, mucon or softmuon",
                       (long long)cfg->threshold_warmup,
                       ms_spectral_clips(fn) ? "a clipped momentum that is stored has a fixed D"
                                             : "there is no clip");
done:
    return st;
}

musec_status ms_optim_config_check(ms_error *e, const musec_optim_config *cfg)
{
    musec_status        st = MUSEC_OK;
    const ms_optimizer *row;
    if ((row = ms_optimizer_find(cfg->name)) == NULL)
        return ms_fail(e, MUSEC_EINVAL, "the config must come from musec_optim_config_init()");
    for (size_t i = 0; i < ms_n_optim_options; i++)
        TRY(check_field(e, &ms_optim_options[i], cfg));
    for (int i = 0; i < MUSEC_MATRIX_ROLES; i++)
        if (!(cfg->weight_decay[i] >= 0.0 && cfg->weight_decay[i] < INFINITY))
            return ms_fail(e, MUSEC_EINVAL, "weight-decay of %s is %g; it must be 0 or more",
                           ms_optim_role_names[i], cfg->weight_decay[i]);
    if (!(cfg->threshold > 0.0 && cfg->threshold < INFINITY) || cfg->threshold_rule < 0 ||
        cfg->threshold_rule > MUSEC_THRESHOLD_QUANTILE ||
        (cfg->threshold_rule == MUSEC_THRESHOLD_QUANTILE && cfg->threshold > 1.0))
        return ms_fail(e, MUSEC_EINVAL, "threshold is %g by rule %d; it must be above 0 and finite",
                       cfg->threshold, cfg->threshold_rule);
    TRY(check_parts(e, cfg, row));
    if (cfg->momentum_dtype != MUSEC_MOMENTUM_OWN &&
        strcmp(ms_base_find(cfg->base)->states[0], "momentum") != 0)
        return ms_fail(e, MUSEC_EINVAL, "momentum-dtype is bf16; %s keeps no momentum", cfg->base);
    if (ms_operands_index(cfg->operands) < 0)
        return ms_fail(e, MUSEC_EINVAL, "operands is code %d; it must be 0, f32, bf16 or f16",
                       cfg->operands);
    if (ms_optim_function(cfg) == MS_SPECTRAL_POLAR && cfg->ns_mode != MUSEC_NS_PAPER &&
        cfg->ns_mode != MUSEC_NS_EXACT)
        return ms_fail(e, MUSEC_EINVAL, "%s has ns-mode paper and exact only",
                       cfg->function == MUSEC_FUNCTION_POLAR ? "function polar" : cfg->name);
    TRY(check_clip(e, cfg));
done:
    return st;
}
