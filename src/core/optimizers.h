/* optimizers.h - the registry of optimizers: everything that is known of one is its row.
 *
 * An optimizer is a base optimizer that computes an update direction, a spectral function that is
 * applied to the singular values of that direction, and options with defaults of its own: what the
 * update is divided by, how weights decay, the factor of a shape.  The optimizer library, the
 * trainer's presets, the theory and the reports all read these rows; no other file lists
 * optimizers.  A new optimizer is a row here and, if its update direction is new, a function in
 * optim/base_optimizers.c. */
#ifndef MS_CORE_OPTIMIZERS_H
#define MS_CORE_OPTIMIZERS_H

#include <stdbool.h>
#include <stddef.h>

/* The function of the singular values of the update direction. */
typedef enum ms_spectral_fn {
    MS_SPECTRAL_NONE,
    MS_SPECTRAL_POLAR,
    MS_SPECTRAL_HARD_CLIP,
    MS_SPECTRAL_SOFT_CLIP,
} ms_spectral_fn;

typedef enum ms_optimizer_family {
    MS_FAMILY_CLIPPING,        /* clips singular values at a threshold */
    MS_FAMILY_ORTHOGONALIZING, /* sets every singular value to 1 */
    MS_FAMILY_GRADIENT,        /* its update scales with the gradient */
    MS_FAMILY_SIGN_LIKE,       /* every entry of its update is about 1 in size */
} ms_optimizer_family;

/* Plot markers; those of a filled shape are odd. */
enum {
    MS_MARKER_NONE, /* for long curves */
    MS_MARKER_CROSS       = 2,
    MS_MARKER_OPEN_SQUARE = 4,
    MS_MARKER_SQUARE,
    MS_MARKER_OPEN_CIRCLE,
    MS_MARKER_CIRCLE,
    MS_MARKER_OPEN_TRIANGLE,
    MS_MARKER_TRIANGLE,
    MS_MARKER_OPEN_DOWNWARD,
    MS_MARKER_DOWNWARD,
    MS_MARKER_OPEN_DIAMOND,
    MS_MARKER_DIAMOND,
    MS_MARKER_OPEN_PENTAGON,
    MS_MARKER_PENTAGON,
    MS_MARKER_OPEN_STAR,
    MS_MARKER_STAR,
    MS_MARKER_OPEN_HEXAGON,
    MS_MARKER_HEXAGON,
    MS_MARKER_OPEN_HOURGLASS,
    MS_MARKER_HOURGLASS,
    MS_MARKER_OPEN_PLUS,
    MS_MARKER_PLUS,
    MS_MARKER_OPEN_LEFTWARD,
    MS_MARKER_LEFTWARD,
};

typedef struct ms_optimizer {
    const char         *name;        /* as options, configs and files spell it */
    const char         *title;       /* as tables and figures spell it */
    const char         *description; /* one line of --help */
    ms_optimizer_family family;
    const char         *base; /* the base optimizer, unless the option `base` names another; NULL:
                                 that option alone names it, and `clip` says which clip it is */
    ms_spectral_fn      spectral_fn; /* unless the option `function` names another */
    bool stores_clipped_momentum;    /* else the momentum is stored as it was averaged */
    bool qk_clip;                    /* shrinks W_q and W_k of heads with large logits */
    struct {
        const char *option, *value;
    } defaults[8];   /* of options, where they are its own; an option of NULL ends the list */
    double train_lr; /* the default of `musec train`; 0: the lr of the preset */
    struct {
        const char *color;  /* "#0072b2" */
        int         dash;   /* 0 is a solid line, the others are dashed or dotted */
        int         marker; /* MS_MARKER_... */
    } style;
} ms_optimizer;

/* The row at an index 0, 1, ...; NULL after the last. */
const ms_optimizer *ms_optimizer_at(size_t index);
/* The row of a name; NULL where there is none. */
const ms_optimizer *ms_optimizer_find(const char *name);
/* The title of an optimizer; an unknown one is called by its name. */
const char *ms_optimizer_title(const char *name);

#endif
