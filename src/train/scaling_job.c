/* scaling_job.c - the parameters of a model and what its optimizer keeps of them, from the config
 * alone: a model that no machine here could hold can be planned. */
#include <stdlib.h>
#include <string.h>

#include "model/layout.h"
#include "optim/optim.h"
#include "train/scaling.h"
#include "train/trainer.h"

static bool is_split(musec_role role)
{
    return role == MUSEC_ROLE_EMBED || role == MUSEC_ROLE_HEAD;
}

double ms_scaling_work(const ms_scaling_param *p)
{
    const double rows = (double)p->rows, cols = (double)p->cols;
    return p->split ? 0.0 : rows * cols * (rows < cols ? rows : cols);
}

/* Bytes of state that the optimizer keeps for each element of a parameter of this role. */
static musec_status count_state(ms_error *e, const ms_train_config *cfg, musec_ctx *ctx,
                                musec_role role, double *out)
{
    enum { SIDE = 16 };
    static float       place[SIDE * SIDE]; /* no step is taken: nothing is written there */
    musec_optim_config optim = cfg->optim;
    musec_optim       *opt   = NULL;
    uint64_t           bytes = 0;
    musec_status       st;
    const musec_param  param = { .name   = "one",
                                 .role   = role,
                                 .weight = musec_view_dense(place, MUSEC_F32, 1, SIDE, SIDE) };

    if (optim.operands == 0) optim.operands = MUSEC_F32;
    TRY(ms_train_check(e, ctx, musec_optim_create(&opt, ctx, &optim)));
    TRY(ms_train_check(e, ctx, musec_optim_add(opt, &param, NULL)));
    TRY(ms_train_check(e, ctx, musec_optim_workspace(opt, NULL, &bytes)));
    *out = (double)bytes / (SIDE * SIDE);
done:
    musec_optim_destroy(opt);
    return st;
}

static void describe(const ms_gpt_tensor *all, size_t n, ms_scaling_param *out)
{
    for (size_t i = 0; i < n; i++) {
        const bool split = is_split(all[i].role), matrix = all[i].role < MUSEC_MATRIX_ROLES;
        size_t     first = 0;
        out[i] = (ms_scaling_param){ .rows = all[i].weight.rows, .cols = all[i].weight.cols };
        while (first < i &&
               (out[first].rows != out[i].rows || out[first].cols != out[i].cols ||
                (all[first].role < MUSEC_MATRIX_ROLES) != matrix || out[first].split != split))
            first++;
        out[i].kind  = (int)first;
        out[i].split = split;
    }
}

musec_status ms_scaling_list(ms_error *e, const ms_train_config *cfg, ms_scaling_job *job,
                             ms_scaling_param **out)
{
    const size_t      n       = ms_gpt_count_params(&cfg->model);
    ms_carver         counter = { 0 };
    ms_gpt_weights   *shapes  = calloc(1, sizeof *shapes);
    ms_gpt_tensor    *all     = calloc(n, sizeof *all);
    ms_scaling_param *params  = calloc(n, sizeof *params);
    musec_ctx        *ctx     = NULL;
    musec_status      st      = MUSEC_OK;

    *out = NULL;
    if (shapes == NULL || all == NULL || params == NULL)
        TRY(ms_no_memory(e, "the list of parameters"));
    ms_gpt_carve_weights(&counter, &cfg->model, MUSEC_F32, shapes);
    ms_gpt_list_params(&cfg->model, shapes, shapes, shapes, all);
    describe(all, n, params);
    if (musec_ctx_create(&ctx, "cpu") != MUSEC_OK)
        TRY(ms_no_memory(e, "the optimizer that is planned"));
    TRY(count_state(e, cfg, ctx, MUSEC_ROLE_MLP, &job->matrix_state));
    TRY(count_state(e, cfg, ctx, MUSEC_ROLE_EMBED, &job->split_state));
    job->params   = params;
    job->n_params = n;
    *out          = params;
    params        = NULL;
done:
    musec_ctx_destroy(ctx);
    free(params);
    free(all);
    free(shapes);
    return st;
}

musec_status ms_scaling_device(ms_error *e, const ms_train_config *cfg, ms_scaling_job *job)
{
    char         note[sizeof(ms_error)];
    musec_ctx   *ctx = NULL;
    musec_status st;

    TRY(ms_train_open_device(e, cfg->device, note, &ctx));
    TRY(ms_train_dtype(e, cfg, ctx, &job->dtype));
    job->logits_chunk = ctx->kind->logits_chunk;
    job->gpus         = ctx->kind->memory != NULL;
done:
    musec_ctx_destroy(ctx);
    return st;
}
