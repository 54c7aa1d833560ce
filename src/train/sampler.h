/* sampler.h - samples tokens from a checkpoint; the same seed gives the same tokens. */
#ifndef MS_TRAIN_SAMPLER_H
#define MS_TRAIN_SAMPLER_H

#include "train/config.h"

typedef struct ms_sampler ms_sampler;

typedef struct ms_sampling { /* how the next token is sampled */
    double   temperature;    /* 0: the most likely token */
    int64_t  top_k;          /* among the k most likely; 0: all */
    uint64_t seed;
} ms_sampling;

/* Opens a checkpoint, or the newest one of a run directory.  The precision is the best one of the
 * device, whatever the run used. */
musec_status ms_sampler_open(ms_error *e, const char *path, const char *device, ms_sampler **out);
void         ms_sampler_close(ms_sampler *s);
const ms_train_config *ms_sampler_config(const ms_sampler *s);
const char *ms_sampler_warning(const ms_sampler *s); /* about damaged newer ones, or "" */
const char *ms_sampler_note(const ms_sampler *s);    /* why no better device, or "" */
const char *ms_sampler_device(const ms_sampler *s);
/* The directory and the step of the checkpoint. */
const char *ms_sampler_checkpoint(const ms_sampler *s, int64_t *step);

/* Appends ids to the text so far; a new document discards it. */
musec_status ms_sampler_append(ms_error *e, ms_sampler *s, const int32_t *ids, int64_t n);
void         ms_sampler_new_document(ms_sampler *s);
typedef struct ms_sampled {
    int32_t id;
    double  logprob; /* in nats, among all ids and at temperature 1 */
} ms_sampled;

/* Samples the next id and appends it.  The start token begins a new document. */
musec_status ms_sampler_next(ms_error *e, ms_sampler *s, const ms_sampling *how, ms_sampled *out);

#endif
