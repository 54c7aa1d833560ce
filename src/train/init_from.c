/* init_from.c - see init_from.h.
 *
 * Weights of other models are refused, GPT-2's by name: no setting turns this GPT into one of them.
 * Shapes do not tell everything about a model.  Where the settings of the weights are known, as for
 * a run or an export, those that change what the weights compute are compared, and a difference is
 * a warning: to change them may be the purpose. */
#include "train/init_from.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/json_file.h"
#include "core/safetensors.h"
#include "core/sha256.h"
#include "train/checkpoint.h"
#include "train/hf.h"
#include "train/rundir.h"

enum { MAX_NAMED = 3 }; /* tensors that a message names */

static const char weights_name[] = "model.safetensors";

typedef struct init_source {
    char            file[MS_PATH_MAX];
    int64_t         step;       /* -1: unknown */
    bool            has_config; /* the config of the run that trained the weights is known */
    ms_train_config config;
    ms_safetensors  tensors;
    bool            is_export; /* the tensors have the names of hf.h */
} init_source;

/* ---- where the weights are ------------------------------------------------------------------- */

static musec_status from_checkpoint(ms_error *e, const char *dir, ms_init_result *out,
                                    init_source *s)
{
    ms_checkpoint c;
    musec_status  st;

    TRY(ms_checkpoint_find(e, dir, -1, &c, out->warning));
    s->step       = c.step;
    s->has_config = true;
    TRY(ms_path_join(e, c.dir, weights_name, s->file));
    TRY(ms_train_config_from_json(e, c.dir, json_object_get(c.state, "config"), &s->config));
done:
    ms_checkpoint_close(&c);
    return st;
}

/* An export of musec has the run's settings in its config.json. */
static musec_status from_export(ms_error *e, const char *dir, init_source *s)
{
    char          path[MS_PATH_MAX];
    json_t       *json = NULL;
    const json_t *ours, *step;
    musec_status  st;

    TRY(ms_path_join(e, dir, weights_name, s->file));
    if (!ms_rundir_has(dir, "config.json")) goto done;
    TRY(ms_path_join(e, dir, "config.json", path));
    TRY(ms_json_read(e, path, &json));
    ours = json_object_get(json, "musec");
    step = json_object_get(ours, "step");
    if (ours == NULL) goto done;
    TRY(ms_train_config_from_json(e, path, json_object_get(ours, "config"), &s->config));
    s->has_config = true;
    if (json_is_integer(step)) s->step = (int64_t)json_integer_value(step);
done:
    json_decref(json);
    return st;
}

/* Takes the weights file of a checkpoint or an export for its directory. */
static void strip_file_name(char *path)
{
    const size_t n = strlen(path), m = strlen(weights_name);
    if (n > m + 1 && path[n - m - 1] == '/' && strcmp(path + n - m, weights_name) == 0)
        path[n - m - 1] = '\0';
}

static musec_status find_weights(ms_error *e, const char *path, ms_init_result *out, init_source *s)
{
    char         dir[MS_PATH_MAX];
    struct stat  info;
    musec_status st = MUSEC_OK;

    snprintf(dir, sizeof dir, "%s", path);
    strip_file_name(dir);
    if (ms_rundir_has(dir, "state.json") || ms_rundir_has(dir, "checkpoint")) {
        TRY(from_checkpoint(e, dir, out, s));
    } else if (ms_rundir_has(dir, weights_name)) {
        TRY(from_export(e, dir, s));
    } else if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        st = ms_fail(e, MUSEC_EINVAL,
                     "%s: there are no weights in it; init-from needs a run directory, a "
                     "checkpoint, an export or a .safetensors file",
                     path);
    } else {
        snprintf(s->file, sizeof s->file, "%s", path);
    }
done:
    return st;
}

/* ---- names and shapes ------------------------------------------------------------------------ */

static bool has_tensor(const init_source *s, const char *name)
{
    return ms_safetensors_find(&s->tensors, name) < s->tensors.n_tensors;
}

static bool is_gpt2(const init_source *s)
{
    return (has_tensor(s, "wte.weight") && has_tensor(s, "h.0.attn.c_attn.weight")) ||
           (has_tensor(s, "transformer.wte.weight") &&
            has_tensor(s, "transformer.h.0.attn.c_attn.weight"));
}

/* The name of a parameter in the file, and whether it is stored transposed. */
static void name_in(const init_source *s, const ms_gpt *gpt, size_t param, char out[MS_HF_NAME],
                    bool *transposed)
{
    const char *name = ms_gpt_param(gpt, param)->name;
    *transposed      = false;
    if (s->is_export)
        ms_hf_name(ms_gpt_config_of(gpt), name, out, transposed);
    else
        snprintf(out, MS_HF_NAME, "%s", name);
}

/* A list "a, b, c and 5 more". */
typedef struct name_list {
    char   text[3 * MS_HF_NAME + 32];
    size_t used, n;
} name_list;

static void add_name(name_list *list, const char *name)
{
    if (list->n++ < MAX_NAMED)
        list->used += (size_t)snprintf(list->text + list->used, sizeof list->text - list->used,
                                       "%s%.*s", list->n == 1 ? "" : ", ", MS_HF_NAME - 2, name);
}

static void end_names(name_list *list)
{
    if (list->n > MAX_NAMED)
        snprintf(list->text + list->used, sizeof list->text - list->used, " and %zu more",
                 list->n - MAX_NAMED);
}

static bool is_wanted(const init_source *s, const ms_gpt *gpt, const char *tensor)
{
    char name[MS_HF_NAME];
    bool transposed;
    for (size_t i = 0; i < ms_gpt_n_params(gpt); i++) {
        name_in(s, gpt, i, name, &transposed);
        if (strcmp(name, tensor) == 0) return true;
    }
    return false;
}

/* Checks that the file has every parameter of the model and nothing else. */
static musec_status check_names(ms_error *e, const init_source *s, const ms_gpt *gpt)
{
    name_list missing = { .n = 0 }, extra = { .n = 0 };
    char      name[MS_HF_NAME];
    bool      transposed;

    for (size_t i = 0; i < ms_gpt_n_params(gpt); i++) {
        name_in(s, gpt, i, name, &transposed);
        if (!has_tensor(s, name)) add_name(&missing, name);
    }
    for (size_t i = 0; i < s->tensors.n_tensors; i++)
        if (!is_wanted(s, gpt, s->tensors.tensors[i].name))
            add_name(&extra, s->tensors.tensors[i].name);
    end_names(&missing);
    end_names(&extra);
    if (missing.n == 0 && extra.n == 0) return MUSEC_OK;
    return ms_fail(e, MUSEC_EFORMAT,
                   "%s: not the weights of this model: %s%s%s%s%s; give the model the layers and "
                   "options that they were trained with",
                   s->file, missing.n > 0 ? "it lacks " : "", missing.text,
                   missing.n > 0 && extra.n > 0 ? ", and " : "",
                   extra.n > 0 ? "the model has no " : "", extra.text);
}

static musec_status check_form(ms_error *e, const init_source *s, const ms_tensor_info *t,
                               ms_mat weight, bool transposed)
{
    const int64_t rows = transposed ? weight.cols : weight.rows;
    const int64_t cols = transposed ? weight.rows : weight.cols;

    if (strcmp(t->dtype, "F32") != 0 && strcmp(t->dtype, "BF16") != 0 &&
        strcmp(t->dtype, "F16") != 0)
        return ms_fail(e, MUSEC_EFORMAT, "%s: %s is of type %s; init-from takes F32, BF16 and F16",
                       s->file, t->name, t->dtype);
    if (t->ndim == 2 && t->shape[0] == rows && t->shape[1] == cols) return MUSEC_OK;
    if (t->ndim != 2)
        return ms_fail(e, MUSEC_EFORMAT,
                       "%s: %s has %d dimensions; the model's is a matrix, %lld x %lld", s->file,
                       t->name, t->ndim, (long long)rows, (long long)cols);
    return ms_fail(e, MUSEC_EFORMAT, "%s: %s is %lld x %lld, but the model's is %lld x %lld",
                   s->file, t->name, (long long)t->shape[0], (long long)t->shape[1],
                   (long long)rows, (long long)cols);
}

static musec_status check_tensors(ms_error *e, init_source *s, const ms_gpt *gpt)
{
    char         name[MS_HF_NAME];
    bool         transposed;
    musec_status st;

    if (is_gpt2(s))
        return ms_fail(
            e, MUSEC_ENOTSUP,
            "%s: these are GPT-2's weights, which this GPT cannot take: GPT-2 has learned "
            "positions "
            "(wpe), LayerNorm with gains and biases, GELU and biases in every layer; this one has "
            "RoPE, RMSNorm without gains, squared ReLU and no biases; init-from takes the weights "
            "of musec's runs and exports",
            s->file);
    s->is_export = has_tensor(s, "model.embed_tokens.weight") || has_tensor(s, "lm_head.weight");
    TRY(check_names(e, s, gpt));
    for (size_t i = 0; i < ms_gpt_n_params(gpt); i++) {
        name_in(s, gpt, i, name, &transposed);
        TRY(check_form(e, s, &s->tensors.tensors[ms_safetensors_find(&s->tensors, name)],
                       ms_gpt_param(gpt, i)->weight, transposed));
    }
done:
    return st;
}

/* ---- values ---------------------------------------------------------------------------------- */

static musec_status check_finite(ms_error *e, const init_source *s, const char *name,
                                 const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return ms_fail(e, MUSEC_ENONFINITE, "%s: element %lld of %s is not finite", s->file,
                           (long long)i, name);
    return MUSEC_OK;
}

/* Transposes (cols, rows) to (rows, cols); NULL: not enough memory. */
static float *transpose(const float *x, int64_t rows, int64_t cols)
{
    float *out = malloc((size_t)rows * (size_t)cols * sizeof *out);
    for (int64_t i = 0; out != NULL && i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            out[i * cols + j] = x[j * rows + i];
    return out;
}

/* Checks the values of a parameter, or copies them into the model. */
static musec_status read_param(ms_error *e, init_source *s, ms_device *d, ms_gpt *gpt, size_t param,
                               bool only_check)
{
    const ms_mat  w = ms_gpt_param(gpt, param)->weight;
    const int64_t n = w.rows * w.cols;
    char          name[MS_HF_NAME];
    bool          transposed;
    ms_npy        read = { 0 };
    float        *made = NULL;
    musec_status  st;

    name_in(s, gpt, param, name, &transposed);
    TRY(ms_safetensors_read(e, &s->tensors, ms_safetensors_find(&s->tensors, name), &read));
    if (only_check) {
        TRY(check_finite(e, s, name, read.data, n));
        goto done;
    }
    if (transposed) made = transpose(read.data, w.rows, w.cols);
    if (transposed && made == NULL) TRY(ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory", s->file));
    st = d->ops->upload(d, transposed ? made : read.data, (size_t)n * sizeof *made, w.data);
    if (st != MUSEC_OK) ms_error_set(e, "%s: %s", s->file, d->error.text);
done:
    free(made);
    ms_npy_free(&read);
    return st;
}

/* ---- settings and origin --------------------------------------------------------------------- */

/* Warns of settings that shapes do not show and that change what the weights compute. */
static void compare(const char *path, const init_source *s, const ms_train_config *cfg,
                    char warning[sizeof(ms_error)])
{
    size_t         used = strlen(warning), n = 0;
    char           was[MS_PATH_MAX], now[MS_PATH_MAX];
    ms_train_field f;

    for (size_t i = 0; s->has_config && ms_train_field_at(i, &f); i++) {
        if ((f.flags & MS_FIELD_FUNCTION) == 0) continue;
        ms_train_config_get(&s->config, f.name, was, sizeof was);
        ms_train_config_get(cfg, f.name, now, sizeof now);
        if (strcmp(was, now) == 0 || used + 1 >= sizeof(ms_error)) continue;
        if (n++ == 0)
            used += (size_t)snprintf(warning + used, sizeof(ms_error) - used,
                                     "%sthe weights of %.300s were trained with other settings: ",
                                     used > 0 ? "; " : "", path);
        if (used + 1 < sizeof(ms_error))
            used += (size_t)snprintf(warning + used, sizeof(ms_error) - used, "%s%s %s, here %s",
                                     n > 1 ? "; " : "", f.name, was, now);
    }
}

static musec_status describe(ms_error *e, const char *path, const init_source *s, json_t **out)
{
    char         sum[MS_SHA256_HEX];
    musec_status st;

    TRY(ms_sha256_file(e, s->file, sum));
    *out = json_pack("{s:o, s:s}", "path", ms_json_string(path), "sha256", sum);
    if (s->step >= 0) ms_json_set(out, "step", json_integer(s->step));
    if (*out == NULL) st = ms_no_memory(e, "the record of the run");
done:
    return st;
}

musec_status ms_init_from(ms_error *e, const ms_train_config *cfg, ms_device *d, ms_gpt *gpt,
                          ms_init_result *out)
{
    init_source *s = calloc(1, sizeof *s);
    musec_status st;

    *out = (ms_init_result){ .origin = NULL };
    if (s == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory");
    s->step = -1;
    TRY(find_weights(e, cfg->init_from, out, s));
    TRY(ms_safetensors_open(e, s->file, &s->tensors));
    TRY(check_tensors(e, s, gpt));
    for (int pass = 0; pass < 2; pass++) /* check all before changing any */
        for (size_t i = 0; i < ms_gpt_n_params(gpt); i++)
            TRY(read_param(e, s, d, gpt, i, pass == 0));
    st = ms_gpt_refresh(gpt);
    if (st != MUSEC_OK) TRY(ms_fail(e, st, "%s: %s", s->file, d->error.text));
    compare(cfg->init_from, s, cfg, out->warning);
    TRY(describe(e, cfg->init_from, s, &out->origin));
done:
    if (st != MUSEC_OK) {
        json_decref(out->origin);
        out->origin = NULL;
    }
    ms_safetensors_close(&s->tensors);
    free(s);
    return st;
}
