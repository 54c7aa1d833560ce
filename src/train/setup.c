/* setup.c - creates the parts of a run: device, data, model, optimizer. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/async.h"
#include "core/thread.h"
#include "data/bpe.h"
#include "data/bytes.h"
#include "device/gpus.h"
#include "optim/optim.h"
#include "train/gradients.h"
#include "train/init_from.h"
#include "train/ranks.h"
#include "train/sums.h"
#include "train/trainer.h"

musec_status ms_train_check(ms_error *e, const musec_ctx *ctx, musec_status status)
{
    if (status != MUSEC_OK) ms_error_set(e, "%s", musec_ctx_error(ctx));
    return status;
}

musec_status ms_train_checkpoint_config(ms_error *e, const ms_checkpoint *c, ms_train_config *out)
{
    char         what[MS_PATH_MAX + 16];
    musec_status st;

    snprintf(what, sizeof what, "%s/state.json", c->dir);
    TRY(ms_train_config_from_json(e, what, json_object_get(c->state, "config"), out));
    TRY(ms_train_config_check(e, out));
done:
    return st;
}

/* ---- optimizer ------------------------------------------------------------------------------- */

static double lr_factor(const ms_train_config *cfg, const ms_gpt_tensor *p)
{
    const bool down = strstr(p->name, "mlp.down") != NULL;
    if (p->role == MUSEC_ROLE_QK) return cfg->lr_qk;
    if (p->role == MUSEC_ROLE_VO) return cfg->lr_vo;
    if (p->role == MUSEC_ROLE_MLP) return down ? cfg->lr_down : cfg->lr_up;
    if (p->role == MUSEC_ROLE_EMBED && strcmp(p->name, "embed") != 0) return cfg->lr_tables;
    if (p->role == MUSEC_ROLE_VECTOR && strstr(p->name, "gate") == NULL &&
        strstr(p->name, "mudd") == NULL)
        return cfg->lr_scalars;
    return 1.0;
}

/* In the list of parameters the k of a layer follows its q. */
static musec_status add_attention(musec_optim *optim, const ms_gpt_config *model, size_t q,
                                  size_t k)
{
    const musec_attention a = { .q         = q,
                                .k         = k,
                                .heads     = model->heads,
                                .kv_heads  = model->heads,
                                .q_step    = model->head,
                                .k_step    = model->head,
                                .head_rows = model->head };
    return musec_optim_add_attention(optim, &a, NULL);
}

bool ms_train_needs_logits(const ms_train_config *cfg)
{
    return ms_optimizer_find(cfg->optim.name)->qk_clip;
}

musec_status ms_train_build_optim(ms_error *e, const ms_train_config *cfg, ms_gpt *gpt,
                                  musec_ctx *ctx, ms_comm *comm, const int *owner,
                                  musec_optim **out)
{
    musec_optim_config optim = cfg->optim;
    size_t             q     = 0, index;
    musec_status       st;

    /* A run in float32 also has float32 operands in the optimizer. */
    if (ms_gpt_dtype(gpt) == MUSEC_F32 && optim.operands == 0) optim.operands = MUSEC_F32;
    TRY(ms_train_check(e, ctx, musec_optim_create(out, ctx, &optim)));
    for (size_t i = 0; i < ms_gpt_n_params(gpt); i++) {
        const ms_gpt_tensor *p     = ms_gpt_param(gpt, i);
        const musec_param    param = { .name      = p->name,
                                       .role      = p->role,
                                       .weight    = ms_view_of(p->weight),
                                       .lr_factor = lr_factor(cfg, p),
                                       .copy      = ms_view_of(p->copy) };
        if (param.lr_factor == 0.0)
            return ms_fail(e, MUSEC_EINVAL, "the factor on lr of %s is 0; it must be above 0",
                           p->name);
        const int whose = owner != NULL ? owner[i] : comm->rank;
        TRY(ms_train_check(e, ctx, ms_optim_add_share(*out, comm, &param, whose, &index)));
        if (strstr(p->name, "attn.q") != NULL) q = index;
        if (strstr(p->name, "attn.k") != NULL && ms_train_needs_logits(cfg))
            TRY(ms_train_check(e, ctx, add_attention(*out, &cfg->model, q, index)));
    }
done:
    return st;
}

/* ---- data ------------------------------------------------------------------------------------ */

musec_status ms_train_open_data(ms_error *e, ms_train *t)
{
    const ms_train_config *cfg = &t->cfg;
    const int32_t    start = cfg->tokenizer == MS_TOKENIZER_BYTE ? MS_BYTES_START : MS_BPE_START;
    ms_loader_config load  = { .source     = { .path     = cfg->data,
                                               .split    = MS_SPLIT_TRAIN,
                                               .vocab    = cfg->model.vocab,
                                               .start_id = start,
                                               .form     = cfg->data_bare != 0 ? MS_SHARD_BARE
                                                                               : MS_SHARD_HEADED },
                               .max_tokens = t->schedule.max_tokens,
                               .keep_rest  = cfg->keep_rest != 0,
                               .base       = t->data_dir[0] != '\0' ? t->data_dir : NULL };
    musec_status     st;

    TRY(ms_mixture_open(e, &load, &t->train));
    load.source.split = MS_SPLIT_VAL;
    if (cfg->val_data[0] != '\0') {
        load.source.path  = cfg->val_data;
        load.source.split = MS_SPLIT_VAL_ONLY;
    }
    load.keep_rest = true; /* validation takes every token, and cuts documents only at chunks */
    load.once      = true;
    TRY(ms_mixture_open(e, &load, &t->val));
done:
    return st;
}

/* Loads one micro-batch of every stage, so that too few data fail now and not in mid-run. */
static musec_status check_data(ms_error *e, ms_train *t)
{
    const ms_position begin = { 0 };
    ms_batch          batch;
    musec_status      st = MUSEC_OK;

    for (size_t k = 0; k < ms_mixture_sets(t->train); k++) {
        ms_loader *set = ms_mixture_set(t->train, k);
        for (int i = 0; i < t->schedule.n_stages; i++) {
            const ms_train_stage *stage = &t->schedule.stage[i];
            TRY(ms_loader_seek(e, set, begin));
            TRY(ms_loader_next(e, set, stage->batch / stage->micro_batches, stage->max_doc,
                               &batch));
        }
        TRY(ms_loader_seek(e, set, begin));
    }
done:
    return st;
}

musec_status ms_train_check_data(ms_error *e, const ms_train_config *cfg)
{
    ms_train     t = { .cfg = *cfg };
    musec_status st;

    TRY(ms_schedule_make(e, cfg, &t.schedule));
    TRY(ms_train_open_data(e, &t));
    TRY(check_data(e, &t));
done:
    ms_train_teardown(&t);
    return st;
}

/* ---- device and model ------------------------------------------------------------------------ */

musec_status ms_train_open_device(ms_error *e, const char *device, char note[sizeof(ms_error)],
                                  musec_ctx **out)
{
    const bool         best = device == NULL || device[0] == '\0';
    char               why[sizeof(ms_error) / 2];
    const musec_status st = musec_ctx_create_why(out, best ? NULL : device, why, sizeof why);

    note[0] = '\0';
    if (st != MUSEC_OK) return ms_fail(e, st, "%s", why);
    if (why[0] != '\0')
        snprintf(note, sizeof(ms_error), "%s; using %s", why, musec_ctx_device(*out));
    return MUSEC_OK;
}

musec_status ms_train_dtype(ms_error *e, const ms_train_config *cfg, const musec_ctx *ctx,
                            musec_dtype *out)
{
    static const musec_dtype dtypes[] = { [MS_PRECISION_F32]  = MUSEC_F32,
                                          [MS_PRECISION_BF16] = MUSEC_BF16,
                                          [MS_PRECISION_F16]  = MUSEC_F16 };
    *out =
        cfg->precision == MS_PRECISION_AUTO ? ctx->kind->activation_dtype : dtypes[cfg->precision];
    if (!ms_device_has(ctx, *out))
        return ms_fail(e, MUSEC_ENOTSUP,
                       "precision is %s, which the device %s does not have; choose auto or f32",
                       ms_dtype_name(*out), musec_ctx_device(ctx));
    return MUSEC_OK;
}

ms_computed ms_train_computed(const ms_train *t)
{
    return (ms_computed){ .device    = t->ctx->kind->name,
                          .precision = ms_dtype_name(ms_gpt_dtype(t->gpt)),
                          .operands  = ms_dtype_name(ms_optim_operands(t->optim, MUSEC_F32)) };
}

musec_status ms_train_build_model(ms_error *e, ms_train *t, int64_t max_tokens)
{
    musec_dtype  dtype;
    musec_status st;

    TRY(ms_train_dtype(e, &t->cfg, t->ctx, &dtype));
    TRY(ms_train_check(e, t->ctx,
                       ms_gpt_create(&t->gpt, t->ctx, &t->cfg.model, dtype, max_tokens)));
    TRY(ms_train_deal(e, t, &t->owner));
    TRY(ms_train_pieces(e, t));
    TRY(ms_async_create(e, ms_owners_of(t), t->ctx, &t->async));
    TRY(ms_sums_create(e, t, &t->sums));
    TRY(ms_train_check(e, t->ctx,
                       t->ctx->ops->alloc(t->ctx,
                                          (size_t)ms_train_records(t) * MS_LOSSES * sizeof(double),
                                          (void **)&t->losses)));
    TRY(ms_train_build_optim(e, &t->cfg, t->gpt, t->ctx, ms_owners_of(t), t->owner, &t->optim));
done:
    return st;
}

void ms_train_teardown_model(ms_train *t)
{
    ms_async_destroy(t->async);
    musec_optim_destroy(t->optim);
    if (t->ctx != NULL) t->ctx->ops->free(t->ctx, t->losses);
    ms_sums_destroy(t->sums);
    ms_gpt_destroy(t->gpt);
    free(t->grad_pieces);
    free(t->weight_pieces);
    free(t->pieces_before);
    free(t->tickets);
    free(t->owner);
    t->grad_pieces = t->weight_pieces = NULL;
    t->pieces_before                  = NULL;
    t->tickets                        = NULL;
    t->async                          = NULL;
    t->n_pieces = t->weights_here = 0;
    t->owner                      = NULL;
    t->optim                      = NULL;
    t->losses                     = NULL;
    t->sums                       = NULL;
    t->gpt                        = NULL;
}

/* Every rank of a machine takes a GPU of its own, by turns where there are fewer, unless the config
 * names one. */
static musec_status choose_device(ms_error *e, const ms_train *t, char name[MS_TRAIN_DEVICE_NAME])
{
    ms_comm     *c     = ms_comm_of(&t->setup);
    const bool   named = t->cfg.device[0] != '\0' && strcmp(t->cfg.device, "cuda") != 0;
    int          local = 0;
    musec_status st    = MUSEC_OK;

    snprintf(name, MS_TRAIN_DEVICE_NAME, "%s", t->cfg.device);
    if (c->size == 1 || named) return MUSEC_OK;
    TRY(ms_comm_local_rank(e, c, &local));
    const int gpus = ms_device_gpus();
    if (gpus > 0) snprintf(name, MS_TRAIN_DEVICE_NAME, "cuda:%d", local % gpus);
done:
    return st;
}

/* ---- a device that runs share ---------------------------------------------------------------- */

void ms_train_device_close(ms_train_device *d)
{
    musec_ctx_destroy(d->ctx);
    *d = (ms_train_device){ 0 };
}

/* Takes what the last run left open, if it is what this one wants. */
static bool take_shared(ms_train *t, const char *name)
{
    ms_train_device *d = t->setup.device;

    if (d == NULL || d->ctx == NULL) return false;
    if (strcmp(d->wanted, name) != 0) {
        ms_train_device_close(d);
        return false;
    }
    t->ctx = d->ctx;
    memcpy(t->device_note, d->note, sizeof t->device_note);
    d->ctx = NULL; /* until this run leaves it */
    return true;
}

/* Leaves the device to the next run, without the memory of this one; a device that failed is
 * closed. */
static void leave_device(ms_train *t)
{
    ms_train_device *d = t->setup.device;

    if (d == NULL || t->ctx == NULL || musec_ctx_sync(t->ctx) != MUSEC_OK ||
        musec_ctx_trim(t->ctx) != MUSEC_OK) {
        musec_ctx_destroy(t->ctx);
        return;
    }
    *d = (ms_train_device){ .ctx = t->ctx };
    snprintf(d->wanted, sizeof d->wanted, "%s", t->wanted);
    memcpy(d->note, t->device_note, sizeof d->note);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* The arguments and results of the thread that opens the device. */
typedef struct device_opening {
    ms_train    *train;
    ms_error     error;
    musec_status st;
} device_opening;

static void *run_open_device(void *arg)
{
    device_opening *o = arg;
    ms_train       *t = o->train;
    if (take_shared(t, t->wanted)) return NULL; /* o->st is MUSEC_OK */
    o->st = ms_train_open_device(&o->error, t->wanted, t->device_note, &t->ctx);
    return NULL;
}

/* Opens the device in a thread of its own and the data in this one, as both take a while.  If both
 * fail, the error is that of the data, which is wrong more often. */
static musec_status open_device_and_data(ms_error *e, ms_train *t)
{
    device_opening o = { .train = t };
    pthread_t      thread;
    bool           threaded;
    musec_status   st;

    st = choose_device(e, t, t->wanted);
    if (st != MUSEC_OK) return st;
    threaded = ms_thread_start(&thread, run_open_device, &o) == 0;
    st       = ms_train_open_data(e, t);
    if (st == MUSEC_OK) st = check_data(e, t);
    if (threaded)
        pthread_join(thread, NULL);
    else if (st == MUSEC_OK)
        (void)run_open_device(&o);
    if (st == MUSEC_OK && o.st != MUSEC_OK) {
        *e = o.error;
        st = o.st;
    }
    if (st != MUSEC_OK) { /* NULL tells the caller that the device did not fail */
        musec_ctx_destroy(t->ctx);
        t->ctx = NULL;
    }
    return st;
}

/* All ranks compute on the same kind of device. */
static musec_status check_device(ms_error *e, const ms_train *t)
{
    ms_comm     *c                          = ms_comm_of(&t->setup);
    char         kind[MS_TRAIN_DEVICE_NAME] = "";
    musec_status st;

    snprintf(kind, sizeof kind, "%s", t->ctx->kind->name);
    TRY(ms_comm_check(e, c, c->ops->broadcast(c, kind, sizeof kind, 0)));
    if (strcmp(kind, t->ctx->kind->name) != 0)
        TRY(ms_fail(e, MUSEC_EINVAL,
                    "this rank computes on %s, and rank 0 on %s: give a --device that all have",
                    t->ctx->kind->name, kind));
done:
    return st;
}

/* Adds NCCL to the ranks' way to communicate, where it is asked for, or all can use it.  TCP alone
 * is for those who ask for it: MPI and NCCL are what moves data. */
static musec_status choose_comm(ms_error *e, ms_train *t)
{
    ms_comm     *c      = ms_comm_of(&t->setup);
    const char  *kind   = t->setup.comm_kind != NULL ? t->setup.comm_kind : "auto";
    const bool   insist = strcmp(kind, "nccl") == 0, any = strcmp(kind, "auto") == 0;
    const bool   gpus = ms_comm_is_apart(t->ctx), tcp = strcmp(c->ops->name, "tcp") == 0;
    musec_status st = MUSEC_OK;

    if (!insist && (!any || c->size == 1 || (!gpus && !tcp))) return MUSEC_OK;
    TRY(ms_comm_add_nccl(e, c, t->ctx, insist, &t->setup.comm, &t->nccl_note));
    if (t->setup.comm != c) t->nccl = t->setup.comm;
    if (t->nccl == NULL && tcp)
        TRY(ms_fail(e, MUSEC_ENOTSUP,
                    "%.300s: without it ranks need an MPI: start them with mpirun, or insist on "
                    "--comm tcp",
                    t->nccl_note.text));
done:
    return st;
}

musec_status ms_train_build(ms_error *e, ms_train *t, int64_t max_tokens)
{
    const ms_gpt_config *model = &t->cfg.model;
    musec_status         st;

    TRY(ms_schedule_make(e, &t->cfg, &t->schedule));
    TRY(open_device_and_data(e, t));
    TRY(check_device(e, t));
    TRY(choose_comm(e, t));
    TRY(ms_train_choose_replicas(e, t));
    TRY(ms_train_check(e, t->ctx, musec_ctx_set_deterministic(t->ctx, t->cfg.deterministic != 0)));
    t->memory = t->ctx->kind->memory == NULL ? ms_memory_here() : t->ctx->kind->memory(t->ctx);
    if (max_tokens == 0) TRY(ms_train_check_memory(e, t));
    TRY(ms_train_build_model(e, t, max_tokens > 0 ? max_tokens : t->schedule.max_tokens));
    t->grads     = calloc(ms_gpt_n_params(t->gpt), sizeof *t->grads);
    t->max_logit = calloc((size_t)(model->layers * model->heads), 2 * sizeof *t->max_logit);
    t->records =
        calloc((size_t)ms_train_records(t), (MS_LOSS_RECORD + MS_LOSSES) * sizeof *t->records);
    if (t->grads == NULL || t->max_logit == NULL || t->records == NULL)
        return ms_fail(e, MUSEC_ENOMEM, "not enough memory");
    t->pass_logit = t->max_logit + model->layers * model->heads;
    for (size_t i = 0; i < ms_gpt_n_params(t->gpt); i++)
        t->grads[i] =
            ms_share_view(&t->optim->params[i], ms_view_of(ms_gpt_param(t->gpt, i)->grad));
done:
    return st;
}

static size_t find_param(const ms_gpt *gpt, const char *name)
{
    size_t i = 0;
    while (strcmp(ms_gpt_param(gpt, i)->name, name) != 0)
        i++;
    return i;
}

musec_status ms_train_untie(ms_error *e, ms_train *t)
{
    const size_t head = find_param(t->gpt, "head"), embed = find_param(t->gpt, "embed");
    const char  *name;
    musec_view   from, to;
    musec_status st = MUSEC_OK;

    if (t->optim->params[head].share.elsewhere) return MUSEC_OK;
    for (size_t i = 0; (name = musec_optim_state_name(t->optim, head, i)) != NULL; i++) {
        TRY(ms_train_check(e, t->ctx, musec_optim_state_view(t->optim, head, 0, name, &from)));
        TRY(ms_train_check(e, t->ctx, musec_optim_state_view(t->optim, embed, 0, name, &to)));
        TRY(ms_train_check(e, t->ctx, t->ctx->ops->copy(t->ctx, ms_mat_of(from), ms_mat_of(to))));
    }
done:
    return st;
}

static musec_status draw_weights(ms_error *e, ms_train *t)
{
    return ms_train_check(e, t->ctx, ms_gpt_init(t->gpt, t->cfg.seed));
}

static musec_status read_weights(ms_error *e, ms_train *t)
{
    ms_init_result init;
    musec_status   st;

    TRY(ms_init_from(e, &t->cfg, t->ctx, t->gpt, &init));
    t->init = init.origin;
    if (init.warning[0] != '\0' && t->setup.log != NULL)
        ms_log_say(t->setup.log, MS_LOG_QUIET, "warning: %s", init.warning);
done:
    return st;
}

musec_status ms_train_init_weights(ms_error *e, ms_train *t)
{
    musec_status st;
    TRY(t->cfg.init_from[0] == '\0' ? draw_weights(e, t) : read_weights(e, t));
    if (t->cfg.untie > 0) TRY(ms_train_check(e, t->ctx, ms_gpt_tie(t->gpt)));
done:
    return st;
}

void ms_train_teardown(ms_train *t)
{
    ms_train_teardown_model(t);
    ms_comm_close(t->group);
    ms_comm_forget_device(ms_comm_of(&t->setup));
    ms_comm_close(t->nccl);
    leave_device(t);
    ms_mixture_close(t->val);
    ms_mixture_close(t->train);
    json_decref(t->data);
    json_decref(t->resumed);
    json_decref(t->init);
    free(t->records);
    free(t->max_logit);
    free(t->grads);
}
