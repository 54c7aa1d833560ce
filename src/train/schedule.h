/* schedule.h - the batch, windows, learning rate, loss weights and momentum of each step.
 *
 * The scheduled steps (all but the extension) are divided into stages:
 *     460 batch=131072 doc=896 window=128/384 lr=1 mtp=1,0.5,0.25>1,0.5,0; 33% batch=...; rest
 * The length of a stage is a number of steps, a share of the scheduled steps, or "rest", which
 * includes the extension.  What a stage does not set is taken from the config.  A run that is
 * shorter than its stages does not reach the later ones; a longer one stays in the last.  mtp A>B
 * goes from A to B linearly within the stage.
 *
 * The scale of the learning rate is that of the stage.  Over the last `cooldown` share of the
 * scheduled steps it goes linearly to cooldown_to:
 *     scale = stage (1 - t) + cooldown_to t
 * The extension keeps cooldown_to.  beta (the weight of the new gradient) goes from momentum_from
 * to the optimizer's own over momentum_warmup steps, and back over the last momentum_cooldown. */
#ifndef MS_TRAIN_SCHEDULE_H
#define MS_TRAIN_SCHEDULE_H

#include "train/config.h"

enum { MS_STAGES = 32 };

typedef struct ms_train_stage {
    int64_t first, end; /* 0-based steps; end is exclusive */
    int64_t batch, micro_batches, max_doc, window_short, window_long;
    double  lr;
    int     n_weights;
    double  weights[MS_XENT_TARGETS], weights_end[MS_XENT_TARGETS];
} ms_train_stage;

typedef struct ms_schedule {
    ms_train_stage stage[MS_STAGES];
    int            n_stages;
    int64_t        steps, scheduled; /* with and without the extension */
    int64_t        max_tokens;       /* of the largest micro-batch */
    double         cooldown, cooldown_to, beta, momentum_from;
    int64_t        momentum_warmup, momentum_cooldown;
    int64_t        yarn, untie; /* as in the config */
} ms_schedule;

typedef struct ms_step_plan { /* what one step uses */
    const ms_train_stage *stage;
    int64_t               tokens; /* of a micro-batch */
    double                lr_scale, beta;
    int                   n_weights; /* without trailing zeros */
    double                weights[MS_XENT_TARGETS];
} ms_step_plan;

musec_status ms_schedule_make(ms_error *e, const ms_train_config *cfg, ms_schedule *out);
ms_step_plan ms_schedule_at(const ms_schedule *s, int64_t step); /* 0-based */
/* Sets what a pass of a step takes from its stage: the windows, those that YaRN went through so
 * far, and whether embedding and head are one. */
void ms_schedule_pass(const ms_schedule *s, const ms_step_plan *plan, int64_t step,
                      ms_gpt_pass *pass);
/* Whether the first `steps` steps of both are the same. */
bool ms_schedule_same(const ms_schedule *a, const ms_schedule *b, int64_t steps);

#endif
