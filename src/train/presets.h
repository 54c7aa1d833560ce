/* presets.h - the named starting points of a run: what they set beyond the defaults of fields.c. */
#ifndef MS_TRAIN_PRESETS_H
#define MS_TRAIN_PRESETS_H

typedef struct ms_preset {
    const char        *name, *help;
    const char *const *settings; /* "field=value" or "optimizer:field=value"; NULL ends */
} ms_preset;

extern const ms_preset ms_presets[]; /* A row without a name ends the list. */

#endif
