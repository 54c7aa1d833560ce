/* option_use.c - which options an optimizer reads, as its other options are. */
#include <string.h>

#include "optim/optim.h"

bool ms_optim_reads(const musec_optim_config *cfg, const char *key)
{
    const ms_optimizer  *row      = ms_optimizer_find(cfg->name);
    const bool           chooses  = row->base == NULL && cfg->function == MUSEC_FUNCTION_AUTO;
    const ms_spectral_fn fn       = ms_optim_function(cfg);
    const bool           hard     = fn == MS_SPECTRAL_HARD_CLIP;
    const bool           soft     = fn == MS_SPECTRAL_SOFT_CLIP;
    const bool           polar    = fn == MS_SPECTRAL_POLAR;
    const bool           composes = ms_optim_composes(cfg);
    const bool           ball     = cfg->decay_form == MUSEC_DECAY_HYPERBALL;
    const bool           second   = cfg->second_moment != MUSEC_SECOND_NONE;
    const bool           paper    = cfg->ns_mode == MUSEC_NS_PAPER;
    const bool           accurate = cfg->ns_mode == MUSEC_NS_ACCURATE;
    const struct {
        const char *key;
        bool        reads;
    } some[] = {
        { "threshold", hard || soft },
        { "update-scale", (hard || soft) && !ball },
        { "clip", chooses },
        { "sharpness", hard || soft },
        { "ns-mode", soft || polar || (hard && !paper) }, /* paper and exact are the same then */
        { "ns-iters", (soft || polar) && paper },
        { "ns-tol", (hard || soft) && accurate },
        { "ns-coeffs", polar && paper },
        { "ns-eps", polar && paper },
        { "ns-eps-form", polar && paper },
        { "literal", soft && paper },
        { "base", composes },
        { "function", fn != MS_SPECTRAL_NONE },
        { "second-moment", fn != MS_SPECTRAL_NONE },
        { "second-beta", second && fn != MS_SPECTRAL_NONE },
        { "second-eps", second && fn != MS_SPECTRAL_NONE },
        { "threshold-warmup", (hard || soft) && composes },
        { "qk-tau", row->qk_clip },
        { "qk-alpha", row->qk_clip },
    };
    for (size_t i = 0; i < COUNT(some); i++)
        if (strcmp(some[i].key, key) == 0) return some[i].reads;
    if (strcmp(key, "beta") == 0 && (hard || soft) && accurate)
        return true; /* ns-tol may follow from it */
    return ms_base_reads(ms_base_find(cfg->base), key) || !ms_base_reads(NULL, key);
}

int musec_optim_reads(const musec_optim_config *cfg, const char *key)
{
    musec_optim_config full;
    if (key == NULL || ms_optim_config_take(NULL, cfg, &full) != MUSEC_OK) return 0;
    return ms_optim_reads(&full, key);
}
