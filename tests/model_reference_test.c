/* model_reference_test.c - the GPT against passes that PyTorch computed in float64.
 *
 * Each file of data/gpt is a case, written by reference/gpt_reference.py, which describes the file
 * and the formulas.  On every device the model is built from the file's config, its parameters are
 * set by name, and a pass must give the file's sums, largest attention logits, gradients of every
 * parameter and, row by row, capped logits.
 *
 * The logits of row t are computed from the tokens of t's document alone: only differences of
 * rotary positions matter and nothing else reaches across documents, so the row is the same.  Smear
 * and key offset do reach across: with these, only the rows of the first document are compared.
 *
 * Bounds.  PyTorch in float32 differs from its float64 by 1.5e-6 at most (--check of the script),
 * 25 unit roundoffs: so much do the products, norms and softmaxes of these cases amplify rounding.
 * In float64 the error is the largest difference over the largest entry of a tensor; 25 roundoffs
 * are 3e-15, 1.3e-14 is observed, and 1e-12 leaves room for other orders of summation and other
 * libraries' exp, tanh and cos.  In float32 it is the Frobenius norm of the difference over that of
 * the tensor; 1.7e-6 is observed, and the bound is 1e-4.  Each of the script's --mutants is off by
 * 7e-2 or more in some case. */
#define _XOPEN_SOURCE 700
#include "check.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/safetensors.h"
#include "model/gpt.h"
#include "oracle.h"

#define BOUND_F64 1e-12
#define BOUND_F32 1e-4
#define ROOM      3 /* tokens of capacity beyond those of the case */

typedef struct ref_settings {
    ms_gpt_config cfg;
    ms_gpt_pass   pass;
} ref_settings;

typedef struct ref_case {
    char           name[64];
    ref_settings   set;
    ms_safetensors file;
    bool          *used; /* by tensor */
    int32_t       *inputs, *targets, *doc;
    int64_t        tokens;
} ref_case;

typedef struct replay {
    ms_device  *dev;
    musec_dtype dtype;
    ref_case   *c;
    ms_gpt     *g;
    double      worst; /* error of any comparison */
    int         failed;
} replay;

/* ---- the config: a flat JSON object ---------------------------------------------------------- */

typedef enum field_kind {
    FIELD_INT,
    FIELD_BITS,
    FIELD_REAL,
    FIELD_CAP,
    FIELD_WEIGHTS,
    FIELD_PART, /* an integer that files before the parts lack: 0 */
    FIELD_PART_BITS,
    FIELD_LAYERS, /* the same, one per layer */
    FIELD_WINDOWS
} field_kind;

#define OF(part, field) #field, offsetof(ref_settings, part.field)

static const struct field {
    const char *name;
    size_t      offset;
    field_kind  kind;
} fields[] = {
    { OF(cfg, layers), FIELD_INT },
    { OF(cfg, width), FIELD_INT },
    { OF(cfg, heads), FIELD_INT },
    { OF(cfg, head), FIELD_INT },
    { OF(cfg, mlp), FIELD_INT },
    { OF(cfg, vocab), FIELD_INT },
    { OF(cfg, qk_norm), FIELD_INT },
    { OF(cfg, tied), FIELD_INT },
    { OF(cfg, head_gates), FIELD_INT },
    { OF(cfg, x0_mix), FIELD_INT },
    { OF(cfg, gate_width), FIELD_INT },
    { OF(cfg, cap), FIELD_CAP },
    { OF(cfg, cap_scale), FIELD_REAL },
    { OF(cfg, cap_shift), FIELD_REAL },
    { OF(cfg, cap_width), FIELD_REAL },
    { OF(cfg, attn_scale), FIELD_REAL },
    { OF(cfg, attn_softcap), FIELD_REAL },
    { OF(cfg, rope_base), FIELD_REAL },
    { OF(cfg, rope_share), FIELD_REAL },
    { OF(cfg, rope_adjacent), FIELD_INT },
    { OF(cfg, long_layers), FIELD_BITS },
    { OF(cfg, norm_eps), FIELD_REAL },
    { OF(pass, window_short), FIELD_INT },
    { OF(pass, window_long), FIELD_INT },
    { OF(pass, weights), FIELD_WEIGHTS },
    { OF(pass, grad_scale), FIELD_REAL },
    { OF(cfg, embed2), FIELD_PART },
    { OF(cfg, smear), FIELD_PART },
    { OF(cfg, attn_scales), FIELD_PART },
    { OF(cfg, key_offset), FIELD_PART },
    { OF(cfg, backout), FIELD_PART },
    { OF(cfg, spare), FIELD_PART },
    { OF(cfg, bigram), FIELD_PART },
    { OF(cfg, bigram_width), FIELD_PART },
    { OF(cfg, attn_from), FIELD_PART },
    { OF(cfg, xsa), FIELD_PART },
    { OF(cfg, post_mix), FIELD_PART },
    { OF(cfg, value_ve), FIELD_PART },
    { OF(cfg, mudd), FIELD_PART },
    { OF(cfg, paired_layers), FIELD_PART_BITS },
    { OF(cfg, bare_layers), FIELD_PART_BITS },
    { OF(cfg, value_table), FIELD_LAYERS },
    { OF(cfg, skip_from), FIELD_LAYERS },
    { OF(pass, windows), FIELD_WINDOWS },
};

static ms_cap cap_of(const char *text)
{
    static const char *const names[] = {
        [MS_CAP_NONE] = "none", [MS_CAP_TANH] = "tanh", [MS_CAP_SIGMOID] = "sigmoid"
    };
    for (size_t i = 0; text != NULL && i < COUNT(names); i++)
        if (strcmp(text, names[i]) == 0) return (ms_cap)i;
    check_failed(__FILE__, __LINE__, "cap_of", "no cap: %s", text);
}

static void parse_value(const json_t *from, const struct field *f, ref_settings *out)
{
    void *value = (char *)out + f->offset;
    CHECK(f->kind == FIELD_CAP || f->kind == FIELD_WEIGHTS || f->kind >= FIELD_LAYERS ||
              json_is_number(from),
          "%s is no number", f->name);
    switch (f->kind) {
    case FIELD_PART:
    case FIELD_INT: *(int64_t *)value = json_integer_value(from); break;
    case FIELD_PART_BITS:
    case FIELD_BITS: *(uint64_t *)value = (uint64_t)json_integer_value(from); break;
    case FIELD_REAL: *(double *)value = json_number_value(from); break;
    case FIELD_CAP: *(int64_t *)value = cap_of(json_string_value(from)); break;
    case FIELD_WEIGHTS:
        out->pass.n_weights = (int)json_array_size(from);
        CHECK(out->pass.n_weights >= 1 && out->pass.n_weights <= MS_XENT_TARGETS, "weights");
        for (int i = 0; i < out->pass.n_weights; i++)
            out->pass.weights[i] = json_number_value(json_array_get(from, (size_t)i));
        break;
    case FIELD_LAYERS:
        CHECK(json_array_size(from) <= MS_GPT_LAYERS, "%s", f->name);
        for (size_t i = 0; i < json_array_size(from); i++)
            ((uint8_t *)value)[i] = (uint8_t)json_integer_value(json_array_get(from, i));
        break;
    case FIELD_WINDOWS:
        out->pass.n_windows = (int)json_array_size(from);
        CHECK(out->pass.n_windows <= MS_GPT_WINDOWS, "%s", f->name);
        for (int i = 0; i < out->pass.n_windows; i++)
            out->pass.windows[i] = json_integer_value(json_array_get(from, (size_t)i));
    }
}

/* The object must have every field once but those of parts, and no other. */
static void parse_settings(const char *text, ref_settings *out)
{
    json_t *config = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    *out           = (ref_settings){ 0 };
    size_t found   = 0;
    for (size_t i = 0; i < COUNT(fields); i++) {
        const json_t *value = json_object_get(config, fields[i].name);
        CHECK(value != NULL || fields[i].kind >= FIELD_PART, "there is no %s", fields[i].name);
        if (value == NULL) continue;
        parse_value(value, &fields[i], out);
        found++;
    }
    CHECK(json_object_size(config) == found, "%zu fields, %zu known", json_object_size(config),
          found);
    json_decref(config);
}

/* ---- tensors of the file --------------------------------------------------------------------- */

/* The tensor as float64, malloc'ed; rows 0: a vector.  The file must have it in this shape. */
static double *load(ref_case *c, const char *prefix, const char *name, int64_t rows, int64_t cols)
{
    char     title[80];
    ms_error e;
    snprintf(title, sizeof title, "%s%s", prefix, name);
    for (size_t i = 0; i < c->file.n_tensors; i++) {
        const ms_tensor_info *t = &c->file.tensors[i];
        ms_npy                stored;
        if (strcmp(t->name, title) != 0) continue;
        CHECK(t->ndim == (rows > 0 ? 2 : 1) && t->shape[0] == (rows > 0 ? rows : cols) &&
                  t->shape[t->ndim - 1] == cols,
              "%s: %s has another shape", c->name, title);
        CHECK_OK_ERR(&e, ms_safetensors_read(&e, &c->file, i, &stored));
        double *out = oracle_loaded(stored.data, (rows > 0 ? rows : 1) * cols, stored.dtype);
        ms_npy_free(&stored);
        c->used[i] = true;
        return out;
    }
    check_failed(__FILE__, __LINE__, "load", "%s: there is no %s", c->name, title);
}

static double *load_row(ref_case *c, const char *name, int64_t n)
{
    return load(c, "", name, 0, n);
}

static int32_t *load_ids(ref_case *c, const char *name)
{
    double  *numbers = load_row(c, name, c->tokens);
    int32_t *ids     = check_alloc((size_t)c->tokens * sizeof *ids);
    for (int64_t i = 0; i < c->tokens; i++)
        ids[i] = (int32_t)numbers[i];
    free(numbers);
    return ids;
}

static void open_case(ref_case *c, const char *directory, const char *file_name)
{
    char     path[1024];
    ms_error e;
    *c = (ref_case){ 0 };
    snprintf(path, sizeof path, "%s/%s", directory, file_name);
    snprintf(c->name, sizeof c->name, "%.*s", (int)strcspn(file_name, "."), file_name);
    CHECK_OK_ERR(&e, ms_safetensors_open(&e, path, &c->file));
    const char *text = ms_safetensors_metadata(&c->file, "config");
    CHECK(text != NULL, "%s: no config", path);
    parse_settings(text, &c->set);
    c->used = check_alloc((c->file.n_tensors + 1) * sizeof *c->used);
    for (size_t i = 0; i < c->file.n_tensors; i++)
        if (strcmp(c->file.tensors[i].name, "inputs") == 0) c->tokens = c->file.tensors[i].shape[0];
    CHECK(c->tokens > 0, "%s: no inputs", path);
    c->inputs  = load_ids(c, "inputs");
    c->targets = load_ids(c, "targets");
    c->doc     = load_ids(c, "doc");
}

/* A tensor that was not read belongs to a parameter that the model does not have. */
static void close_case(ref_case *c)
{
    for (size_t i = 0; i < c->file.n_tensors; i++)
        CHECK(c->used[i], "%s: %s was not read", c->name, c->file.tensors[i].name);
    ms_safetensors_close(&c->file);
    free(c->used), free(c->inputs), free(c->targets), free(c->doc);
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* Prints what differs and continues: the whole list shows which part of the model is wrong. */
static void check_close(replay *r, const double *got, const double *want, int64_t n,
                        const char *what)
{
    const double bound = r->dtype == MUSEC_F64 ? BOUND_F64 : BOUND_F32;
    double       err = 0.0, largest = 0.0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(want[i]));
    if (r->dtype == MUSEC_F64) {
        err = oracle_max_err(got, MUSEC_F64, want, n) / largest;
    } else {
        err = oracle_rel_err(got, MUSEC_F64, want, n);
    }
    if (largest == 0.0 && oracle_max_err(got, MUSEC_F64, want, n) == 0.0) return; /* both are 0 */
    if (!(err <= r->worst)) r->worst = err;
    if (err <= bound) return;
    print_error("%s, %s: %s: relative error %g, bound %g\n", r->c->name,
                r->dtype == MUSEC_F64 ? "f64" : "f32", what, err, bound);
    r->failed++;
}

static size_t row_bytes(ms_mat x) { return (size_t)x.cols * ms_dtype_bytes(x.dtype); }

static char *row_of(ms_mat x, int64_t i)
{
    return (char *)x.data + (size_t)(i * x.ld) * ms_dtype_bytes(x.dtype);
}

static void set_weight(replay *r, size_t index)
{
    const char  *name   = ms_gpt_param(r->g, index)->name;
    const ms_mat w      = ms_gpt_param(r->g, index)->weight;
    double      *dense  = load(r->c, "", name, w.rows, w.cols);
    char        *stored = oracle_stored(dense, w.rows * w.cols, w.dtype);
    CHECK(w.count == 1 && !w.trans && w.dtype == r->dtype, "%s", name);
    for (int64_t i = 0; i < w.rows; i++)
        CHECK_OK(r->dev, r->dev->ops->upload(r->dev, stored + (size_t)i * row_bytes(w),
                                             row_bytes(w), row_of(w, i)));
    CHECK_OK(r->dev, r->dev->ops->sync(r->dev)); /* before the host memory is freed */
    free(stored), free(dense);
}

/* The gradients are the sum of `passes` passes. */
static void check_gradient(replay *r, size_t index, int passes)
{
    const char   *name   = ms_gpt_param(r->g, index)->name;
    const ms_mat  x      = ms_gpt_param(r->g, index)->grad;
    const int64_t n      = x.rows * x.cols;
    double       *want   = load(r->c, "grad.", name, x.rows, x.cols);
    char         *stored = check_alloc((size_t)n * ms_dtype_bytes(x.dtype));
    CHECK(x.count == 1 && !x.trans && x.dtype == r->dtype, "%s", name);
    for (int64_t i = 0; i < x.rows; i++)
        CHECK_OK(r->dev, r->dev->ops->download(r->dev, row_of(x, i), row_bytes(x),
                                               stored + (size_t)i * row_bytes(x)));
    double *got = oracle_loaded(stored, n, x.dtype);
    for (int64_t i = 0; i < n; i++)
        got[i] /= passes;
    check_close(r, got, want, n, name);
    free(got), free(stored), free(want);
}

static void check_gradients(replay *r, int passes)
{
    for (size_t i = 0; i < ms_gpt_n_params(r->g); i++)
        check_gradient(r, i, passes);
}

static void check_sums(replay *r, int passes)
{
    const int64_t n    = r->c->set.cfg.layers * r->c->set.cfg.heads;
    double       *sums = load_row(r->c, "sums", 2), *got = check_alloc((size_t)n * sizeof *got);
    double       *want = load(r->c, "", "max_logit", r->c->set.cfg.layers, r->c->set.cfg.heads);
    ms_gpt_result result;
    CHECK_OK(r->dev, ms_gpt_take(r->g, &result, got));
    CHECK(result.tokens == passes * r->c->tokens, "%s: %lld tokens", r->c->name,
          (long long)result.tokens);
    check_close(r, &(double){ result.objective / passes }, &sums[0], 1, "objective");
    check_close(r, &(double){ result.loss / passes }, &sums[1], 1, "loss");
    for (int64_t i = 0; i < n; i++) /* without attention there is none, and the file has 0 */
        if (r->c->set.cfg.bare_layers >> (i / r->c->set.cfg.heads) & 1)
            got[i] = got[i] == -INFINITY ? 0.0 : NAN;
    check_close(r, got, want, n, "max_logit");
    free(want), free(got), free(sums);
}

static void check_logits(replay *r)
{
    const ref_case *c      = r->c;
    const int64_t   vocab  = c->set.cfg.vocab;
    const bool      across = c->set.cfg.smear || c->set.cfg.key_offset || c->set.cfg.bigram > 0;
    int64_t         rows   = 0;
    double         *want   = load(r->c, "", "logits", c->tokens, vocab);
    double         *got    = check_alloc((size_t)(c->tokens * vocab) * sizeof *got);
    for (; rows < c->tokens && !(across && c->doc[rows] > 0); rows++)
        CHECK_OK(r->dev, ms_gpt_next(r->g, c->inputs + c->doc[rows], rows + 1 - c->doc[rows],
                                     &c->set.pass, got + rows * vocab));
    check_close(r, got, want, rows * vocab, "logits");
    free(got), free(want);
}

/* ---- all cases ------------------------------------------------------------------------------- */

/* A pass with gradients, one of the losses alone, which must leave the gradients as they are, and
 * one with gradients again, which adds to them. */
static void replay_case(replay *r)
{
    const ref_case    *c         = r->c;
    const ms_gpt_batch batch     = { c->inputs, c->targets, c->doc, c->tokens };
    ms_gpt_pass        loss_only = c->set.pass;

    loss_only.grad_scale = 0.0;
    CHECK_OK(r->dev, ms_gpt_create(&r->g, r->dev, &c->set.cfg, r->dtype, c->tokens + ROOM));
    for (size_t i = 0; i < ms_gpt_n_params(r->g); i++) {
        set_weight(r, i);
        CHECK_OK(r->dev, r->dev->ops->fill(r->dev, NAN, ms_gpt_param(r->g, i)->grad));
    }
    CHECK_OK(r->dev, ms_gpt_zero_grad(r->g));
    CHECK_OK(r->dev, ms_gpt_run(r->g, &batch, &c->set.pass));
    CHECK_OK(r->dev, ms_gpt_run(r->g, &batch, &loss_only));
    check_sums(r, 2);
    check_gradients(r, 1);
    CHECK_OK(r->dev, ms_gpt_run(r->g, &batch, &c->set.pass));
    check_sums(r, 1);
    check_gradients(r, 2);
    check_logits(r);
    ms_gpt_destroy(r->g);
}

static void replay_all(ms_device *dev, musec_dtype dtype)
{
    char   directory[512];
    size_t cases = 0;
    replay r     = { .dev = dev, .dtype = dtype };

    snprintf(directory, sizeof directory, "%s/gpt", check_data_dir());
    DIR *d = opendir(directory);
    CHECK(d != NULL, "%s cannot be opened", directory);
    for (struct dirent *entry = readdir(d); entry != NULL; entry = readdir(d)) {
        ref_case c;
        if (strstr(entry->d_name, ".safetensors") == NULL) continue;
        open_case(&c, directory, entry->d_name);
        r.c = &c;
        replay_case(&r);
        close_case(&c);
        cases++;
    }
    closedir(d);
    CHECK(cases > 0, "%s is empty", directory);
    print_message("%zu cases, %s: largest error %.1e\n", cases, dtype == MUSEC_F64 ? "f64" : "f32",
                  r.worst);
    CHECK(r.failed == 0, "%d comparisons failed", r.failed);
}

TEST_EACH_DEVICE(passes_agree_with_pytorch_in_float64, dev) { replay_all(dev, MUSEC_F64); }
TEST_EACH_DEVICE(passes_agree_with_pytorch_in_float32, dev) { replay_all(dev, MUSEC_F32); }
