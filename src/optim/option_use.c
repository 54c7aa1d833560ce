/* option_use.c - which options an optimizer reads, as its other options are. */
#include <string.h>

#include "optim/optim.h"

bool ms_optim_reads(const musec_optim_config *cfg, const char *key)
{
    const ms_optimizer *row      = ms_optimizer_find(cfg->name);
    const bool          chooses  = row->base == NULL;
    const bool          hard     = ms_optim_clips_hard(cfg);
    const bool          soft     = row->spectral_fn == MS_SPECTRAL_SOFT_CLIP && !hard;
    const bool          polar    = row->spectral_fn == MS_SPECTRAL_POLAR;
    const bool          paper    = cfg->ns_mode == MUSEC_NS_PAPER;
    const bool          accurate = cfg->ns_mode == MUSEC_NS_ACCURATE;
    const struct {
        const char *key;
        bool        reads;
    } some[] = {
        { "threshold", hard || soft },
        { "update-scale", hard || soft },
        { "clip", chooses },
        { "sharpness", hard || soft },
        { "ns-mode", soft || polar || (hard && !paper) }, /* paper and exact are the same then */
        { "ns-iters", (soft || polar) && paper },
        { "ns-tol", (hard || soft) && accurate },
        { "ns-coeffs", polar && paper },
        { "literal", soft && paper },
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
