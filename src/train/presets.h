/* presets.h - the named starting points of a run: lists of "field=value". */
#ifndef MS_TRAIN_PRESETS_H
#define MS_TRAIN_PRESETS_H

typedef struct ms_preset {
    const char        *name, *help;
    const char *const *settings; /* "field=value", or "optimizer:field=value" for one; NULL ends */
} ms_preset;

extern const char *const ms_preset_common[]; /* what all begin with */
extern const ms_preset   ms_presets[];       /* name NULL ends */

#endif
