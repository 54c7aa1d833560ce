/* gpt_rig.h - small GPTs with random weights and streams of documents, for tests.
 *
 *     gpt_rig r = gpt_rig_make(dev, &gpt_full, MUSEC_F64, 37);
 *     gpt_stream s = gpt_stream_make(&gpt_full, 37, 5, 1);    // five documents, seed 1
 *     double objective = gpt_rig_loss(&r, &s, &gpt_full_pass, NULL);
 *     gpt_stream_free(&s);
 *     gpt_rig_free(&r);
 *
 * Weights are normally distributed and depend on the parameter's name alone.  None are zero, so
 * that no path through the model is switched off. */
#ifndef MS_TESTS_GPT_RIG_H
#define MS_TESTS_GPT_RIG_H

#include "check.h"
#include "model/gpt.h"

/* gpt_full has every option of the plain model on; gpt_plain has none, and the other choice
 * elsewhere; gpt_parts has every part of the paper's larger models, gpt_small of the smallest. */
extern const ms_gpt_config gpt_full, gpt_plain, gpt_parts, gpt_small;
extern const ms_gpt_pass   gpt_full_pass, gpt_plain_pass, gpt_parts_pass;

typedef struct gpt_rig {
    ms_device *dev;
    ms_gpt    *g;
} gpt_rig;

typedef struct gpt_stream {
    int32_t *inputs, *targets, *doc;
    int64_t  tokens;
} gpt_stream;

gpt_rig gpt_rig_make(ms_device *dev, const ms_gpt_config *cfg, musec_dtype dtype,
                     int64_t max_tokens);
void    gpt_rig_free(gpt_rig *r);

/* A parameter's index; fails the test if there is none of the name. */
size_t gpt_rig_find(const gpt_rig *r, const char *name);
/* Parameters and gradients are read and written as dense float64; malloc'ed. */
int64_t gpt_rig_elems(const gpt_rig *r, size_t p);
double *gpt_rig_read(const gpt_rig *r, ms_mat from);
void    gpt_rig_write(const gpt_rig *r, ms_mat to, const double *dense);

/* Documents of unequal lengths, the first of them a single token. */
gpt_stream gpt_stream_make(const ms_gpt_config *cfg, int64_t tokens, int64_t documents,
                           uint64_t seed);
void       gpt_stream_free(gpt_stream *s);

/* One pass over the first `tokens` of the stream. */
void gpt_rig_run(gpt_rig *r, const gpt_stream *s, int64_t tokens, const ms_gpt_pass *pass);
/* Checks that the gradients of two models differ by at most `bound`, relative to their norm. */
void gpt_rig_check_gradients(const gpt_rig *a, const gpt_rig *b, double bound);
/* The objective of a pass without gradients. */
double gpt_rig_loss(gpt_rig *r, const gpt_stream *s, const ms_gpt_pass *pass,
                    ms_gpt_result *result);
/* The next-token loss of each row, by passes over prefixes of growing length; malloc'ed. */
double *gpt_rig_rows(gpt_rig *r, const gpt_stream *s, const ms_gpt_pass *pass);

#endif
