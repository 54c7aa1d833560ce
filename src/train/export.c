/* export.c - exports a checkpoint as a directory that Hugging Face's transformers loads.
 *
 * None of that library's own classes is this GPT: RoPE has other frequencies, embeddings are
 * normalised, layers may differ in their windows, and so on.  So the directory contains the model's
 * code (hf/modeling_musec.py), and config.json names it.  Weights are read and written tensor by
 * tensor, without a device.  Everything is written into "OUT.part.PID", which is renamed when it is
 * complete. */
#define _POSIX_C_SOURCE 200809L
#include "train/export.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/directory.h"
#include "core/embedded.h"
#include "core/half.h"
#include "core/json_file.h"
#include "core/memory_stream.h"
#include "core/safetensors.h"
#include "data/bytes.h"
#include "data/tokenizer_json.h"
#include "model/layout.h"
#include "train/checkpoint.h"
#include "train/hf.h"
#include "train/trainer.h"

typedef struct exporter {
    ms_checkpoint   checkpoint;
    ms_train_config config;
    ms_hf_model     model;
    ms_gpt_tensor  *params; /* names and shapes only */
    size_t          n_params;
    ms_safetensors  weights;
    ms_npy          tensor; /* the current tensor */
    void           *made;   /* its converted values */
} exporter;

/* ---- the run --------------------------------------------------------------------------------- */

static musec_status open_run(ms_error *e, const ms_export_setup *setup, exporter *x,
                             ms_export_result *out)
{
    char         path[MS_PATH_MAX], parts[MS_PARTS_TEXT];
    ms_schedule  schedule;
    ms_step_plan plan;
    musec_status st;

    TRY(ms_checkpoint_find(e, setup->run, setup->step, &x->checkpoint, out->warning));
    TRY(ms_train_checkpoint_config(e, &x->checkpoint, &x->config));
    if (ms_train_parts(&x->config, parts))
        TRY(ms_fail(e, MUSEC_ENOTSUP, "%s: the file of an exported model has no %.300s", setup->run,
                    parts));
    TRY(ms_schedule_make(e, &x->config, &schedule));
    plan     = ms_schedule_at(&schedule, x->checkpoint.step > 0 ? x->checkpoint.step - 1 : 0);
    x->model = (ms_hf_model){
        .config       = &x->config,
        .step         = x->checkpoint.step,
        .window_short = plan.stage->window_short,
        .window_long  = plan.stage->window_long,
        .context      = plan.stage->max_doc < plan.tokens ? plan.stage->max_doc : plan.tokens,
        .ids          = x->config.tokenizer == MS_TOKENIZER_BYTE ? MS_BYTES_START + 1 : MS_BPE_IDS,
        .dtype        = setup->dtype,
    };
    x->params = ms_gpt_shapes(&x->config.model, &x->n_params);
    if (x->params == NULL) TRY(ms_no_memory(e, "the export"));
    TRY(ms_path_join(e, x->checkpoint.dir, "model.safetensors", path));
    TRY(ms_safetensors_open(e, path, &x->weights));
done:
    return st;
}

/* ---- weights --------------------------------------------------------------------------------- */

static musec_status read_param(ms_error *e, exporter *x, const ms_gpt_tensor *p)
{
    const int64_t rows = p->weight.rows, cols = p->weight.cols;
    const size_t  i = ms_safetensors_find(&x->weights, p->name);
    musec_status  st;

    if (i == x->weights.n_tensors)
        return ms_fail(e, MUSEC_EFORMAT, "%s: there is no tensor %s", x->weights.path, p->name);
    ms_npy_free(&x->tensor);
    TRY(ms_safetensors_read(e, &x->weights, i, &x->tensor));
    if (x->tensor.dtype != MUSEC_F32 || x->tensor.ndim != 2 || x->tensor.shape[0] != rows ||
        x->tensor.shape[1] != cols)
        st = ms_fail(e, MUSEC_EFORMAT, "%s: tensor %s is not the model's, %lld x %lld in F32",
                     x->weights.path, p->name, (long long)rows, (long long)cols);
done:
    return st;
}

/* Converts tensor number `index`: transposed where Hugging Face stores it so, and rounded. */
static musec_status next_tensor(ms_error *e, void *arg, size_t index, const void **data)
{
    exporter            *x    = arg;
    const ms_gpt_tensor *p    = &x->params[index];
    const int64_t        rows = p->weight.rows, cols = p->weight.cols;
    const float         *from;
    char                 name[MS_HF_NAME];
    bool                 transposed;
    musec_status         st;

    TRY(read_param(e, x, p));
    ms_hf_name(&x->config.model, p->name, name, &transposed);
    free(x->made);
    x->made = malloc((size_t)rows * (size_t)cols * sizeof *from);
    if (x->made == NULL) return ms_no_memory(e, "the export");
    from = x->tensor.data;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            const int64_t at    = transposed ? j * rows + i : i * cols + j;
            const float   value = from[i * cols + j];
            if (x->model.dtype == MUSEC_BF16)
                ((uint16_t *)x->made)[at] = ms_bf16_of_double((double)value);
            else
                ((float *)x->made)[at] = value;
        }
    *data = x->made;
done:
    return st;
}

static musec_status write_weights(ms_error *e, const char *dir, exporter *x)
{
    static const char *const metadata[][2] = { { "format", "pt" } }; /* required by the library */
    ms_tensor_out           *tensors       = calloc(x->n_params, sizeof *tensors);
    char(*names)[MS_HF_NAME]               = calloc(x->n_params, sizeof *names);
    char         path[MS_PATH_MAX];
    bool         transposed;
    musec_status st = MUSEC_OK;

    if (tensors == NULL || names == NULL) TRY(ms_no_memory(e, "the export"));
    for (size_t i = 0; i < x->n_params; i++) {
        const ms_mat w = x->params[i].weight;
        ms_hf_name(&x->config.model, x->params[i].name, names[i], &transposed);
        tensors[i] = (ms_tensor_out){ .name  = names[i],
                                      .dtype = x->model.dtype,
                                      .ndim  = 2,
                                      .shape = { transposed ? w.cols : w.rows,
                                                 transposed ? w.rows : w.cols } };
    }
    TRY(ms_path_join(e, dir, "model.safetensors", path));
    TRY(ms_safetensors_write_from(e, path, &(ms_safetensors_writer){ next_tensor, x }, tensors,
                                  x->n_params, metadata, COUNT(metadata)));
done:
    free(names);
    free(tensors);
    return st;
}

/* ---- the other files ------------------------------------------------------------------------- */

static musec_status write_bytes(ms_error *e, const char *dir, const char *name, const void *bytes,
                                size_t n)
{
    char         path[MS_PATH_MAX];
    ms_out_file  out = { 0 };
    musec_status st;

    TRY(ms_path_join(e, dir, name, path));
    TRY(ms_out_open(e, path, &out));
    TRY(ms_out_write(e, &out, bytes, n));
    TRY(ms_out_commit(e, &out));
done:
    ms_out_abandon(&out);
    return st;
}

/* Takes ownership of the value. */
static musec_status write_json(ms_error *e, const char *dir, const char *name, json_t *value)
{
    char         path[MS_PATH_MAX];
    musec_status st;

    TRY(ms_path_join(e, dir, name, path));
    TRY(ms_json_write(e, path, value));
done:
    json_decref(value);
    return st;
}

/* GPT-2's vocabulary may be missing unless it was given: the weights are useful without it. */
static musec_status write_tokenizer(ms_error *e, const char *dir, const ms_export_setup *setup,
                                    const exporter *x, ms_export_result *out)
{
    const bool   is_bytes = x->config.tokenizer == MS_TOKENIZER_BYTE;
    char         path[MS_PATH_MAX];
    ms_bpe      *bpe  = NULL;
    json_t      *json = NULL;
    ms_error     why  = { "" };
    musec_status st   = MUSEC_OK;

    if (!is_bytes && ms_bpe_find(&why, setup->vocab, path) != MUSEC_OK) {
        if (setup->vocab != NULL) return ms_fail(e, MUSEC_EINVAL, "%s", why.text);
        snprintf(out->note, sizeof out->note, "no tokenizer: %.900s", why.text);
        return MUSEC_OK;
    }
    if (!is_bytes) TRY(ms_bpe_load(e, path, &bpe));
    TRY(ms_tokenizer_json(e, bpe, &json));
    TRY(write_json(e, dir, "tokenizer.json", json));
    TRY(write_json(e, dir, "tokenizer_config.json", ms_hf_tokenizer_config(&x->model)));
    out->has_tokenizer = true;
done:
    ms_bpe_free(bpe);
    return st;
}

static musec_status write_card(ms_error *e, const char *dir, const exporter *x, bool has_tokenizer)
{
    ms_memory_stream m;
    char            *text;
    musec_status     st;

    if (ms_memory_open(&m) != NULL) ms_hf_card(&x->model, x->checkpoint.state, has_tokenizer, m.to);
    text = ms_memory_close(&m);
    if (text == NULL)
        st = ms_no_memory(e, "the export");
    else
        st = write_bytes(e, dir, "README.md", text, m.bytes);
    free(text);
    return st;
}

static musec_status write_files(ms_error *e, const char *dir, const ms_export_setup *setup,
                                exporter *x, ms_export_result *out)
{
    musec_status st;

    TRY(write_tokenizer(e, dir, setup, x, out)); /* first: it may fail */
    TRY(write_weights(e, dir, x));
    TRY(write_json(e, dir, "config.json", ms_hf_config(&x->model)));
    TRY(write_json(e, dir, "generation_config.json", ms_hf_generation_config(&x->model)));
    TRY(write_bytes(e, dir, "configuration_musec.py", ms_embedded_hf_configuration,
                    ms_embedded_hf_configuration_bytes));
    TRY(write_bytes(e, dir, "modeling_musec.py", ms_embedded_hf_modeling,
                    ms_embedded_hf_modeling_bytes));
    TRY(write_card(e, dir, x, out->has_tokenizer));
done:
    return st;
}

/* ---- the directory --------------------------------------------------------------------------- */

static musec_status check_free(ms_error *e, const char *path)
{
    struct stat info;
    if (lstat(path, &info) != 0) return MUSEC_OK;
    return ms_fail(e, MUSEC_EINVAL, "%s: exists already; remove it, or choose another --out", path);
}

/* Makes the directory to write to, and its parents. */
static musec_status make_part(ms_error *e, const char *out, char part[MS_PATH_MAX])
{
    if (snprintf(part, MS_PATH_MAX, "%s.part.%ld", out, (long)getpid()) >= MS_PATH_MAX)
        return ms_fail(e, MUSEC_EINVAL, "%.200s...: the name is too long", out);
    return ms_directory_make(e, part);
}

musec_status ms_export_hf(ms_error *e, const ms_export_setup *setup, ms_export_result *out)
{
    char         part[MS_PATH_MAX] = "";
    exporter     x                 = { .checkpoint = { .step = -1 } };
    musec_status st;

    *out = (ms_export_result){ 0 };
    TRY(open_run(e, setup, &x, out));
    TRY(check_free(e, setup->out));
    TRY(make_part(e, setup->out, part));
    TRY(write_files(e, part, setup, &x, out));
    TRY(check_free(e, setup->out)); /* it may exist by now */
    if (rename(part, setup->out) != 0)
        TRY(ms_fail(e, MUSEC_EIO, "%s: cannot be put in place (%s)", setup->out, strerror(errno)));
    out->step    = x.model.step;
    out->tensors = (int64_t)x.n_params;
    for (size_t i = 0; i < x.n_params; i++)
        out->parameters += x.params[i].weight.rows * x.params[i].weight.cols;
done:
    if (st != MUSEC_OK && part[0] != '\0') (void)ms_directory_remove(NULL, part);
    ms_npy_free(&x.tensor);
    free(x.made);
    ms_safetensors_close(&x.weights);
    free(x.params);
    ms_checkpoint_close(&x.checkpoint);
    return st;
}
