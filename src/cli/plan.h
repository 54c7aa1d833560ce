/* plan.h - what musec plan has worked out, and how it is printed. */
#ifndef MS_CLI_PLAN_H
#define MS_CLI_PLAN_H

#include "train/scaling.h"

enum { MS_PLAN_ROWS = 64 };

typedef struct ms_plan_limit { /* from so many ranks on */
    ms_scaling_limit what;
    ms_scaling_row   row;
} ms_plan_limit;

typedef struct ms_scaling_plan {
    const ms_train_config *config;
    ms_scaling_job         job;
    ms_scaling_machine     machine;
    const char            *source;   /* of the rates, in words */
    int                    measured; /* ranks that measured the links; 0: they were given */
    bool                   linked;   /* there is more than one rank in the list */
    ms_scaling_row         row[MS_PLAN_ROWS];
    size_t                 n_rows;
    ms_plan_limit          limit[MS_LIMITS]; /* by ranks */
    size_t                 n_limits;
} ms_scaling_plan;

musec_status ms_plan_print(ms_error *e, const ms_scaling_plan *p, FILE *to);
musec_status ms_plan_print_json(ms_error *e, const ms_scaling_plan *p, FILE *to);

#endif
