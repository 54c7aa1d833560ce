/* optimizers.c - the rows of the registry, see optimizers.h.
 *
 * The colors begin with those of Okabe and Ito, which people with the common forms of color
 * blindness can tell apart, shifted where white or black paper would swallow them; the rest keeps
 * away from them in lightness.  No two optimizers share a marker, so a plot can be read without any
 * color.  Those that often lie on each other (MuonClip on Muon, SPECTRA on Soft Musec) differ in
 * their dashes too: the lower line shows through the gaps of the upper one. */
#include "core/optimizers.h"

#include <string.h>

#include "core/status.h"
#include "musec/musec.h"

static const ms_optimizer rows[] = {
    { .name                    = "musec",
      .title                   = "Musec",
      .description             = "clip the momentum at D, exactly (by SVD), and store it clipped",
      .family                  = MS_FAMILY_CLIPPING,
      .base                    = "sgdm",
      .spectral_fn             = MS_SPECTRAL_HARD_CLIP,
      .stores_clipped_momentum = true,
      .train_lr                = 0.1,
      .style                   = { "#4aa9e4", 1, MS_MARKER_SQUARE } }, /* sky */
    { .name        = "soft-musec",
      .title       = "Soft Musec",
      .description = "clip the momentum smoothly at D, without an SVD, and store it clipped",
      .family      = MS_FAMILY_CLIPPING,
      .base        = "sgdm",
      .spectral_fn = MS_SPECTRAL_SOFT_CLIP,
      .stores_clipped_momentum = true,
      .train_lr                = 0.2,
      .style                   = { "#0072b2", 0, MS_MARKER_CIRCLE } }, /* blue */
    { .name        = "muon",
      .title       = "Muon",
      .description = "orthogonalize the momentum (its polar factor)",
      .family      = MS_FAMILY_ORTHOGONALIZING,
      .base        = "sgdm",
      .spectral_fn = MS_SPECTRAL_POLAR,
      .style       = { "#d04f00", 0, MS_MARKER_DIAMOND } }, /* vermillion */
    { .name        = "muonclip",
      .title       = "MuonClip",
      .description = "muon, and shrink W_q and W_k of heads with large attention logits",
      .family      = MS_FAMILY_ORTHOGONALIZING,
      .base        = "sgdm",
      .spectral_fn = MS_SPECTRAL_POLAR,
      .qk_clip     = true,
      .style       = { "#e39c00", 3, MS_MARKER_DOWNWARD } }, /* orange */
    { .name        = "spectra",
      .title       = "SPECTRA",
      .description = "clip the update of another optimizer (--base), but not its state",
      .family      = MS_FAMILY_CLIPPING,
      .spectral_fn = MS_SPECTRAL_SOFT_CLIP,
      .train_lr    = 0.1,
      .style       = { "#009e73", 4, MS_MARKER_TRIANGLE } }, /* bluish green */
    { .name        = "sgdm",
      .title       = "SGDM",
      .description = "SGD with momentum",
      .family      = MS_FAMILY_GRADIENT,
      .base        = "sgdm",
      .train_lr    = 0.01,
      .style       = { "#6d747b", 0, MS_MARKER_OPEN_CIRCLE } }, /* grey */
    { .name        = "adam",
      .title       = "Adam",
      .description = "Adam with L2 regularization",
      .family      = MS_FAMILY_SIGN_LIKE,
      .base        = "adamw",
      .defaults    = { { "decay-form", "coupled" } },
      .train_lr    = 0.003,
      .style       = { "#8a5a44", 5, MS_MARKER_OPEN_PENTAGON } }, /* brown */
    { .name        = "adamw",
      .title       = "AdamW",
      .description = "Adam with decoupled weight decay",
      .family      = MS_FAMILY_SIGN_LIKE,
      .base        = "adamw",
      .train_lr    = 0.003,
      .style       = { "#c76a9e", 6, MS_MARKER_PENTAGON } }, /* reddish purple */
    { .name        = "signum",
      .title       = "Signum",
      .description = "sign of the momentum",
      .family      = MS_FAMILY_SIGN_LIKE,
      .base        = "signum",
      .train_lr    = 0.0003,
      .style       = { "#a8a632", 2, MS_MARKER_OPEN_TRIANGLE } }, /* olive */
    { .name        = "ademamix",
      .title       = "AdEMAMix",
      .description = "Adam with a fast and a slow average of the gradient",
      .family      = MS_FAMILY_SIGN_LIKE,
      .base        = "ademamix",
      .train_lr    = 0.003,
      .style       = { "#8f7be0", 1, MS_MARKER_OPEN_DIAMOND } }, /* violet */
    { .name        = "lion",
      .title       = "Lion",
      .description = "sign of an average of momentum and gradient",
      .family      = MS_FAMILY_SIGN_LIKE,
      .base        = "lion",
      .defaults    = { { "beta2", "0.99" } },
      .train_lr    = 0.001,
      .style       = { "#b3294e", 4, MS_MARKER_OPEN_SQUARE } }, /* crimson */
    { .name        = "soap",
      .title       = "SOAP",
      .description = "Adam in the eigenbasis of Shampoo's preconditioner",
      .family      = MS_FAMILY_SIGN_LIKE,
      .base        = "soap",
      .defaults    = { { "beta1", "0.95" }, { "beta2", "0.95" }, { "decay-form", "after" } },
      .train_lr    = 0.003,
      .style       = { "#4d7d5b", 3, MS_MARKER_OPEN_DOWNWARD } }, /* fern */
    { .name        = "shampoo",
      .title       = "Shampoo",
      .description = "roots of G G^T and G^T G on both sides, and the norm of Adam's update",
      .family      = MS_FAMILY_SIGN_LIKE,
      .base        = "shampoo",
      .train_lr    = 0.003,
      .style       = { "#b8860b", 5, MS_MARKER_OPEN_PLUS } }, /* goldenrod */
    { .name        = "kl-shampoo",
      .title       = "KL-Shampoo",
      .description = "whiten the momentum by factors that each see it whitened by the other",
      .family      = MS_FAMILY_SIGN_LIKE,
      .base        = "kl-shampoo",
      .defaults    = { { "beta2", "0.98" }, { "decay-form", "after" } },
      .train_lr    = 0.003,
      .style       = { "#c0563f", 6, MS_MARKER_OPEN_LEFTWARD } }, /* rust */
    { .name        = "dion2",
      .title       = "Dion2",
      .description = "orthogonalize the largest rows of the momentum, and keep the rest for later",
      .family      = MS_FAMILY_ORTHOGONALIZING,
      .base        = "dion2",
      .spectral_fn = MS_SPECTRAL_POLAR,
      .defaults    = { { "ns-coeffs", "polar-express" }, { "shape-rule", "mup" } },
      .style       = { "#557799", 1, MS_MARKER_LEFTWARD } }, /* slate */
    { .name        = "normuon",
      .title       = "NorMuon",
      .description = "muon, and divide the rows of the update by their RMS over time",
      .family      = MS_FAMILY_ORTHOGONALIZING,
      .base        = "sgdm",
      .spectral_fn = MS_SPECTRAL_POLAR,
      .defaults    = { { "second-moment", "rows" },
                       { "ns-coeffs", "polar-express" },
                       { "nesterov", "yes" },
                       { "momentum-init", "zero" },
                       { "shape-rule", "keller" },
                       { "decay-form", "cautious" } },
      .style       = { "#a3382c", 2, MS_MARKER_STAR } }, /* brick */
    { .name        = "adamuon",
      .title       = "AdaMuon",
      .description = "muon, and divide the elements of the update by their RMS over time",
      .family      = MS_FAMILY_ORTHOGONALIZING,
      .base        = "sgdm",
      .spectral_fn = MS_SPECTRAL_POLAR,
      .defaults    = { { "second-moment", "elements" },
                       { "second-beta", "0.999" },
                       { "second-eps", "1e-8" },
                       { "nesterov", "yes" },
                       { "momentum-init", "zero" },
                       { "shape-rule", "fixed-rms" } },
      .train_lr    = 0.003,
      .style       = { "#b07aa1", 3, MS_MARKER_HEXAGON } }, /* mauve */
    { .name        = "muon2",
      .title       = "Muon²",
      .description = "orthogonalize the update of Adam",
      .family      = MS_FAMILY_ORTHOGONALIZING,
      .base        = "adamw",
      .spectral_fn = MS_SPECTRAL_POLAR,
      .defaults    = { { "ns-iters", "3" }, { "shape-rule", "moonlight" } },
      .train_lr    = 0.003,
      .style       = { "#7a6cc4", 4, MS_MARKER_HOURGLASS } }, /* iris */
    { .name        = "scion",
      .title       = "Scion",
      .description = "muon with steps that change outputs alike at all widths",
      .family      = MS_FAMILY_ORTHOGONALIZING,
      .base        = "sgdm",
      .spectral_fn = MS_SPECTRAL_POLAR,
      .defaults    = { { "momentum-init", "zero" }, { "beta", "0.1" }, { "shape-rule", "mup" } },
      .style       = { "#5b8c2a", 5, MS_MARKER_OPEN_STAR } }, /* leaf */
    { .name        = "muonh",
      .title       = "Muon Hyperball",
      .description = "muon with steps and weights of fixed norm (Hyperball)",
      .family      = MS_FAMILY_ORTHOGONALIZING,
      .base        = "sgdm",
      .spectral_fn = MS_SPECTRAL_POLAR,
      .defaults    = { { "decay-form", "hyperball" } },
      .style       = { "#1f8a8a", 6, MS_MARKER_OPEN_HEXAGON } }, /* teal */
    { .name        = "mucon",
      .title       = "MuCon",
      .description = "clip the momentum at D, exactly, but store it unclipped",
      .family      = MS_FAMILY_CLIPPING,
      .base        = "sgdm",
      .spectral_fn = MS_SPECTRAL_HARD_CLIP,
      .train_lr    = 0.1,
      .style       = { "#3b6fc9", 3, MS_MARKER_PLUS } }, /* cobalt */
    { .name        = "softmuon",
      .title       = "SoftMuon",
      .description = "clip the momentum smoothly, divide by D, and store it unclipped",
      .family      = MS_FAMILY_CLIPPING,
      .base        = "sgdm",
      .spectral_fn = MS_SPECTRAL_SOFT_CLIP,
      .defaults    = { { "update-scale", "unit" } },
      .style       = { "#937200", 2, MS_MARKER_OPEN_HOURGLASS } }, /* bronze */
};

const ms_optimizer *ms_optimizer_at(size_t index)
{
    return index < COUNT(rows) ? &rows[index] : NULL;
}

const ms_optimizer *ms_optimizer_find(const char *name)
{
    for (size_t i = 0; name != NULL && i < COUNT(rows); i++)
        if (strcmp(rows[i].name, name) == 0) return &rows[i];
    return NULL;
}

const char *ms_optimizer_title(const char *name)
{
    const ms_optimizer *row = ms_optimizer_find(name);
    return row != NULL ? row->title : name;
}

const char *musec_optim_name(size_t index, const char **help)
{
    const ms_optimizer *row = ms_optimizer_at(index);
    if (row == NULL) return NULL;
    if (help != NULL) *help = row->description;
    return row->name;
}
