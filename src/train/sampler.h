/* sampler.h - draws tokens from a checkpoint: the same seed, the same tokens. */
#ifndef MS_TRAIN_SAMPLER_H
#define MS_TRAIN_SAMPLER_H

#include "train/config.h"

typedef struct ms_sampler ms_sampler;

typedef struct ms_sampling { /* how the next token is chosen */
    double   temperature;    /* 0: the likeliest */
    int64_t  top_k;          /* among the k likeliest; 0: all */
    uint64_t seed;
} ms_sampling;

/* path: a checkpoint, or a run directory, of which the newest counts.  The precision is what suits
 * the device, whatever the run's was. */
musec_status ms_sampler_open(ms_error *e, const char *path, const char *device, ms_sampler **out);
void         ms_sampler_close(ms_sampler *s);
const ms_train_config *ms_sampler_config(const ms_sampler *s);
const char            *ms_sampler_warning(const ms_sampler *s); /* of damaged newer ones; else "" */
const char            *ms_sampler_note(const ms_sampler *s);    /* why no better device; else "" */
const char            *ms_sampler_device(const ms_sampler *s);
/* The directory of its checkpoint, and the steps that it was trained for. */
const char *ms_sampler_checkpoint(const ms_sampler *s, int64_t *step);

/* Puts ids behind what was said so far; a new document forgets it. */
musec_status ms_sampler_append(ms_error *e, ms_sampler *s, const int32_t *ids, int64_t n);
void         ms_sampler_new_document(ms_sampler *s);
typedef struct ms_sampled {
    int32_t id;
    double  logprob; /* of it in the model's own distribution: of all ids, at temperature 1; nats */
} ms_sampled;

/* Draws the next id and says it.  The start of a document begins a new one. */
musec_status ms_sampler_next(ms_error *e, ms_sampler *s, const ms_sampling *draw, ms_sampled *out);

#endif
