/* registry.c - every optimizer is one row.
 *
 * SPECTRA over SGDM and Soft Musec differ in one column here, feeds_back, and nowhere else.  A new
 * optimizer is a row, and, where its proposal is new, a base in a file of its own. */
#include <string.h>

#include "optim/optim.h"

static const ms_optim_kind kinds[] = {
    /* name, words, base, map, feeds_back, qk_clip, decay_form */
    { "musec", "clip the momentum at D, exactly (by SVD), and store it clipped", "sgdm",
      MS_UPDATE_HARD, true, false, MUSEC_DECAY_DECOUPLED },
    { "soft-musec", "clip the momentum smoothly at D, without an SVD, and store it clipped", "sgdm",
      MS_UPDATE_SOFT, true, false, MUSEC_DECAY_DECOUPLED },
    { "muon", "orthogonalize the momentum (its polar factor)", "sgdm", MS_UPDATE_POLAR, false,
      false, MUSEC_DECAY_DECOUPLED },
    { "muonclip", "muon, and shrink W_q and W_k of heads with large attention logits", "sgdm",
      MS_UPDATE_POLAR, false, true, MUSEC_DECAY_DECOUPLED },
    { "spectra", "clip the update of another optimizer (--base), but not its state", NULL,
      MS_UPDATE_SOFT, false, false, MUSEC_DECAY_DECOUPLED },
    { "sgdm", "SGD with momentum", "sgdm", MS_UPDATE_AS_IS, false, false, MUSEC_DECAY_DECOUPLED },
    { "adam", "Adam with L2 regularization", "adamw", MS_UPDATE_AS_IS, false, false,
      MUSEC_DECAY_COUPLED },
    { "adamw", "Adam with decoupled weight decay", "adamw", MS_UPDATE_AS_IS, false, false,
      MUSEC_DECAY_DECOUPLED },
    { "signum", "sign of the momentum", "signum", MS_UPDATE_AS_IS, false, false,
      MUSEC_DECAY_DECOUPLED },
    { "ademamix", "Adam with a fast and a slow average of the gradient", "ademamix",
      MS_UPDATE_AS_IS, false, false, MUSEC_DECAY_DECOUPLED },
};

const ms_optim_kind *ms_optim_kind_find(const char *name)
{
    for (size_t i = 0; name != NULL && i < COUNT(kinds); i++)
        if (strcmp(kinds[i].name, name) == 0) return &kinds[i];
    return NULL;
}

const char *musec_optim_name(size_t index, const char **help)
{
    if (index >= COUNT(kinds)) return NULL;
    if (help != NULL) *help = kinds[index].words;
    return kinds[index].name;
}

const ms_base *ms_base_find(const char *name)
{
    for (const ms_base *b = ms_bases; name != NULL && b->name != NULL; b++)
        if (strcmp(b->name, name) == 0) return b;
    return NULL;
}

bool ms_optim_reads(const musec_optim_config *cfg, const char *key)
{
    const ms_optim_kind *kind    = ms_optim_kind_find(cfg->name);
    const bool           chooses = kind->base == NULL;
    const bool hard     = chooses ? cfg->clip == MUSEC_CLIP_HARD : kind->map == MS_UPDATE_HARD;
    const bool soft     = kind->map == MS_UPDATE_SOFT && !hard;
    const bool polar    = kind->map == MS_UPDATE_POLAR;
    const bool paper    = cfg->ns_mode == MUSEC_NS_PAPER;
    const bool accurate = cfg->ns_mode == MUSEC_NS_ACCURATE;
    const bool mix      = strcmp(cfg->base, "ademamix") == 0;
    const bool moments  = mix || strcmp(cfg->base, "adamw") == 0;
    const struct {
        const char *key;
        bool        reads;
    } some[] = {
        { "threshold", hard || soft },
        { "update-scale", hard || soft },
        { "clip", chooses },
        { "ns-mode", soft || polar },
        { "ns-iters", (soft || polar) && paper },
        { "ns-tol", soft && accurate },
        { "ns-coeffs", polar && paper },
        { "literal", soft && paper },
        { "qk-tau", kind->qk_clip },
        { "qk-alpha", kind->qk_clip },
        { "beta", !moments || (soft && accurate) }, /* which ns-tol may follow from */
        { "momentum-form", !moments },
        { "momentum-init", !moments },
        { "nesterov", !moments },
        { "beta1", moments },
        { "beta2", moments },
        { "eps", moments },
        { "beta3", mix },
        { "alpha", mix },
        { "alpha-warmup", mix },
        { "beta3-warmup", mix },
    };
    for (size_t i = 0; i < COUNT(some); i++)
        if (strcmp(some[i].key, key) == 0) return some[i].reads;
    return true;
}
