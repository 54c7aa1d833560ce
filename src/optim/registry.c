/* registry.c - every optimizer is one row.
 *
 * SPECTRA over SGDM and Soft Musec differ in one column here, feeds_back, and nowhere else.  A new
 * optimizer is a row, and, where its proposal is new, a base in a file of its own. */
#include <string.h>

#include "optim/optim.h"

static const ms_optim_kind kinds[] = {
    /* name, words, base, map, feeds_back, qk_clip, decay_form */
    { "musec", "clip the momentum at D, exactly, and carry it clipped", "sgdm", MS_UPDATE_HARD,
      true, false, MUSEC_DECAY_DECOUPLED },
    { "soft-musec", "the same softly and without an SVD", "sgdm", MS_UPDATE_SOFT, true, false,
      MUSEC_DECAY_DECOUPLED },
    { "muon", "polar factor of the momentum", "sgdm", MS_UPDATE_POLAR, false, false,
      MUSEC_DECAY_DECOUPLED },
    { "muonclip", "muon, then shrink W_q and W_k of heads with large logits", "sgdm",
      MS_UPDATE_POLAR, false, true, MUSEC_DECAY_DECOUPLED },
    { "spectra", "clip the update of another optimizer, not its state", NULL, MS_UPDATE_SOFT, false,
      false, MUSEC_DECAY_DECOUPLED },
    { "sgdm", "averaged gradient", "sgdm", MS_UPDATE_AS_IS, false, false, MUSEC_DECAY_DECOUPLED },
    { "adam", "moments of each element, L2 in the gradient", "adamw", MS_UPDATE_AS_IS, false, false,
      MUSEC_DECAY_COUPLED },
    { "adamw", "moments of each element, decay apart", "adamw", MS_UPDATE_AS_IS, false, false,
      MUSEC_DECAY_DECOUPLED },
    { "signum", "sign of the averaged gradient", "signum", MS_UPDATE_AS_IS, false, false,
      MUSEC_DECAY_DECOUPLED },
    { "ademamix", "adam with a fast and a slow average", "ademamix", MS_UPDATE_AS_IS, false, false,
      MUSEC_DECAY_DECOUPLED },
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
