/* optim_lists_test.c - many matrices in one call: spans of parameters that differ, compute copies
 * of weights, operands of 16 bits, and the number of device calls in a step.
 *
 * A compute copy is the rounded weight after every step that changes the weight, and a step writes
 * to no other element of its buffer. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/half.h"
#include "optim/optim.h"
#include "optim_rig.h"

/* ---- compute copies -------------------------------------------------------------------------- */

/* A buffer of zeros, padding included. */
static musec_view copy_make(ms_device *dev, musec_dtype dtype, int64_t rows, int64_t cols,
                            run_layout layout)
{
    musec_view v       = { .rows  = rows,
                           .cols  = cols,
                           .ld    = cols + layout.pad,
                           .count = layout.more + 1,
                           .dtype = dtype };
    v.stride           = rows * v.ld + layout.gap;
    const size_t bytes = (size_t)(v.count * v.stride) * ms_dtype_bytes(dtype);
    void        *zeros = calloc(1, bytes);
    CHECK_OK(dev, dev->ops->alloc(dev, bytes, &v.data));
    CHECK_OK(dev, dev->ops->upload(dev, zeros, bytes, v.data));
    CHECK_OK(dev, dev->ops->sync(dev));
    free(zeros);
    return v;
}

static double rounded(double x, musec_dtype dtype)
{
    if (dtype == MUSEC_BF16) return ms_float_of_bf16(ms_bf16_of_double(x));
    if (dtype == MUSEC_F16) return ms_float_of_f16(ms_f16_of_double(x));
    return dtype == MUSEC_F32 ? (float)x : x;
}

static double element_of(const void *host, musec_dtype dtype, int64_t at)
{
    if (dtype == MUSEC_BF16) return ms_float_of_bf16(((const uint16_t *)host)[at]);
    if (dtype == MUSEC_F16) return ms_float_of_f16(((const uint16_t *)host)[at]);
    return dtype == MUSEC_F32 ? ((const float *)host)[at] : ((const double *)host)[at];
}

/* The copy of parameter p must hold the weight where `changed` says so (NULL: everywhere), and
 * zeros elsewhere, padding included. */
static void check_copy(rig *r, size_t p, const bool *changed, const char *when)
{
    const musec_view v     = r->params[p].copy;
    const int64_t    n     = v.count * v.stride;
    const size_t     bytes = (size_t)n * ms_dtype_bytes(v.dtype);
    double          *w = rig_weight(r, p), *want = calloc((size_t)n, sizeof *want);
    void            *host = malloc(bytes);
    CHECK_OK(r->dev, r->dev->ops->download(r->dev, v.data, bytes, host));
    for (int64_t e = 0; e < v.count * v.rows * v.cols; e++) {
        const int64_t b = e / (v.rows * v.cols), i = e / v.cols % v.rows, j = e % v.cols;
        if (changed == NULL || changed[e])
            want[b * v.stride + i * v.ld + j] = rounded(w[e], v.dtype);
    }
    for (int64_t i = 0; i < n; i++)
        CHECK(element_of(host, v.dtype, i) == want[i], "%s, %s: element %lld is %g, not %g",
              r->params[p].name, when, (long long)i, element_of(host, v.dtype, i), want[i]);
    free(w), free(want), free(host);
}

static const struct rule {
    const char *name, *options;
} rules[] = {
    { "soft-musec", "lr=0.1 threshold=rms:0.8 update-scale=unit ns-mode=fast weight-decay=0.1" },
    { "muon", "lr=0.1 shape-rule=fixed-rms weight-decay=qk=0.2 decay-form=cautious" },
    { "adam", "lr=0.01 weight-decay=mlp=0.3" },
    { "sgdm", "lr=0.1 decay-form=after weight-decay=0.5" },
    { "normuon", "lr=0.1 weight-decay=0.2" },
    { "muonh", "lr=0.1 second-moment=elements" },
};

/* A group is split into spans by copies of other dtypes or none, by blocks of grouped rows, by step
 * counts and by missing gradients; the weights must not depend on that. */
TEST_EACH_DEVICE(compute_copies_follow_their_weights, dev)
{
    enum { N = 9, ROWS = 6, COLS = 8 };
    static const char *const names[N] = { "a", "b", "c", "d", "e", "f", "g", "h", "i" };
    /* rows 0 1 4 5 8 9 of twelve, and columns 3 to 10 of a wide weight */
    static const musec_block rows_in_groups = { .rows       = ROWS,
                                                .cols       = COLS,
                                                .row_step   = COLS + 2,
                                                .group_rows = 2,
                                                .group_step = 4 * (COLS + 2) };
    const run_layout         padded         = { .pad = 2, .gap = 3 };
    const musec_dtype        types[N] = { 0,          MUSEC_F32, MUSEC_F32, MUSEC_BF16, MUSEC_BF16,
                                          MUSEC_BF16, MUSEC_F16, 0,         MUSEC_F32 };
    for (size_t k = 0; k < COUNT(rules); k++) {
        rig_param with[N], without[N];
        bool      in_block[12 * COLS];
        for (int p = 0; p < N; p++) {
            const bool        fused = p == 2 || p == 4;
            const int64_t     rows  = fused ? 12 : ROWS;
            const musec_dtype type =
                types[p] != 0 && !ms_device_has(dev, types[p]) ? MUSEC_F64 : types[p];
            without[p] = (rig_param){ .name     = names[p],
                                      .role     = p % 2 ? MUSEC_ROLE_QK : MUSEC_ROLE_MLP,
                                      .rows     = rows,
                                      .cols     = COLS,
                                      .layout   = padded,
                                      .blocks   = fused ? &rows_in_groups : NULL,
                                      .n_blocks = fused ? 1 : 0 };
            with[p]    = without[p];
            if (type != 0) with[p].copy = copy_make(dev, type, rows, COLS, padded);
        }
        for (int64_t e = 0; e < 12 * COLS; e++)
            in_block[e] = e / COLS % 4 < 2;
        rig a        = rig_make(dev, rules[k].name, rules[k].options, MUSEC_F32, with, N, 3);
        rig b        = rig_make(dev, rules[k].name, rules[k].options, MUSEC_F32, without, N, 3);
        a.without[5] = b.without[5] = true; /* from then on its step count differs */
        rig_step(&a, 0, 1.0), rig_step(&b, 0, 1.0);
        const bool nowhere[ROWS * COLS] = { false };
        check_copy(&a, 5, nowhere, "without a gradient");
        a.without[5] = b.without[5] = false;
        rig_steps(&a, 1, 2), rig_steps(&b, 1, 2);
        for (size_t p = 0; p < N; p++) {
            CHECK(rig_alike(&a, p, &b, p), "%s: the weight %s", rules[k].name, names[p]);
            if (with[p].copy.data != NULL)
                check_copy(&a, p, with[p].n_blocks > 0 ? in_block : NULL, rules[k].name);
        }
        rig_free(&a), rig_free(&b);
        for (int p = 0; p < N; p++)
            dev->ops->free(dev, with[p].copy.data);
    }
}

TEST_EACH_DEVICE(stacks_and_vectors_have_compute_copies, dev)
{
    const musec_dtype type     = ms_device_has(dev, MUSEC_BF16) ? MUSEC_BF16 : MUSEC_F64;
    const run_layout  padded   = { .more = 2, .pad = 1, .gap = 5 };
    rig_param         params[] = { { .name = "experts", .role = MUSEC_ROLE_MLP },
                                   { .name = "table", .role = MUSEC_ROLE_EMBED },
                                   { .name = "gain", .role = MUSEC_ROLE_VECTOR },
                                   { .name = "bias", .role = MUSEC_ROLE_VECTOR } };
    for (size_t p = 0; p < COUNT(params); p++) {
        params[p].rows = p >= 2 ? 1 : 9;
        params[p].cols = 7;
        if (p == 0) params[p].layout = padded;
        params[p].copy = copy_make(dev, type, params[p].rows, 7, params[p].layout);
    }
    rig r = rig_make(dev, "muon", "aux-weight-decay=0.1", MUSEC_F32, params, COUNT(params), 5);
    rig_steps(&r, 0, 2);
    for (size_t p = 0; p < COUNT(params); p++)
        check_copy(&r, p, NULL, "after two steps");
    rig_free(&r);
    for (size_t p = 0; p < COUNT(params); p++)
        dev->ops->free(dev, params[p].copy.data);
}

/* QK-Clip scales rows after the step; the copy must hold the scaled rows. */
TEST_EACH_DEVICE(clipped_heads_are_copied_anew, dev)
{
    const musec_dtype     type     = ms_device_has(dev, MUSEC_F16) ? MUSEC_F16 : MUSEC_F64;
    rig_param             params[] = { { .name = "q" }, { .name = "k" } };
    const musec_attention heads    = {
           .q = 0, .k = 1, .heads = 3, .kv_heads = 3, .q_step = 2, .k_step = 2, .head_rows = 2
    };
    const double logits[] = { 50.0, 400.0, 120.0 };
    for (size_t p = 0; p < 2; p++) {
        params[p].role   = MUSEC_ROLE_QK;
        params[p].rows   = 6;
        params[p].cols   = 5;
        params[p].layout = (run_layout){ .pad = 1 };
        params[p].copy   = copy_make(dev, type, 6, 5, params[p].layout);
    }
    rig r = rig_make(dev, "muonclip", "lr=0.1", MUSEC_F32, params, 2, 8);
    CHECK_OK(dev, musec_optim_add_attention(r.opt, &heads, NULL));
    rig_step(&r, 0, 1.0);
    double *free_q = rig_weight(&r, 0);
    CHECK_OK(dev, musec_optim_set_logits(r.opt, 0, logits, 3));
    rig_step(&r, 1, 0.0);
    double *clipped_q = rig_weight(&r, 0);
    CHECK(run_fro_diff(free_q + 10, clipped_q + 10, 10) > 0.1, "nothing was clipped");
    check_copy(&r, 0, NULL, "clipped");
    check_copy(&r, 1, NULL, "clipped");
    free(free_q), free(clipped_q);
    rig_free(&r);
    for (size_t p = 0; p < 2; p++)
        dev->ops->free(dev, params[p].copy.data);
}

static void check_refused(ms_device *dev, musec_view weight, musec_view copy, musec_status why,
                          const char *words)
{
    const musec_optim_config cfg = rig_config("muon", "");
    const musec_param        p   = { .name = "w", .weight = weight, .copy = copy };
    musec_optim             *opt = NULL;
    CHECK_OK(dev, musec_optim_create(&opt, dev, &cfg));
    CHECK_FAILS(&dev->error, musec_optim_add(opt, &p, NULL), why, words);
    musec_optim_destroy(opt);
}

TEST_EACH_DEVICE(copies_of_another_shape_are_refused, dev)
{
    const run_layout layout = { .more = 1, .pad = 2 };
    musec_view       w      = copy_make(dev, MUSEC_F32, 4, 6, layout);
    musec_view       c = copy_make(dev, MUSEC_F32, 4, 6, layout), other = c;
    other.rows = 3, check_refused(dev, w, other, MUSEC_EINVAL, "the copy of w");
    other = c, other.ld = 7, check_refused(dev, w, other, MUSEC_EINVAL, "ld 7");
    other = c, other.stride++, check_refused(dev, w, other, MUSEC_EINVAL, "stride");
    other = c, other.count = 1, check_refused(dev, w, other, MUSEC_EINVAL, "1 x 4 x 6");
    other = c, other.data = (float *)w.data + 8;
    check_refused(dev, w, other, MUSEC_EINVAL, "overlaps");
    other = c, other.dtype = (musec_dtype)99, check_refused(dev, w, other, MUSEC_EINVAL, "dtype");
    other.dtype = MUSEC_BF16;
    if (ms_device_has(dev, MUSEC_BF16))
        check_refused(dev, other, other, MUSEC_EINVAL, "cannot have one as well");
    else
        check_refused(dev, w, other, MUSEC_ENOTSUP, "bf16");
    dev->ops->free(dev, w.data);
    dev->ops->free(dev, c.data);
}

/* ---- operands -------------------------------------------------------------------------------- */

static void check_operands(ms_device *dev, musec_dtype type, const struct rule *rule, double bound)
{
    static const rig_param params[] = {
        { .name = "a", .rows = 12, .cols = 20 },
        { .name = "b", .rows = 20, .cols = 12 },
        { .name = "c", .rows = 12, .cols = 20 },
        { .name = "v", .role = MUSEC_ROLE_VECTOR, .rows = 1, .cols = 20 },
    };
    musec_optim_config cfg  = rig_config(rule->name, rule->options);
    cfg.report_every        = 1;
    rig                wide = rig_make_with(dev, &cfg, MUSEC_F32, params, COUNT(params), 6);
    musec_optim_report report;
    char               text[4096];
    cfg.operands = type;
    rig narrow   = rig_make_with(dev, &cfg, MUSEC_F32, params, COUNT(params), 6);
    rig_steps(&wide, 0, 4), rig_steps(&narrow, 0, 4);
    for (size_t p = 0; p < 3; p++)
        CHECK(rig_apart(&narrow, p, &wide, p) <= bound && !rig_same_weight(&narrow, p, &wide, p),
              "%s, %s: apart by %g", rule->name, params[p].name, rig_apart(&narrow, p, &wide, p));
    CHECK(rig_same_weight(&narrow, 3, &wide, 3), "%s: a vector has no products", rule->name);
    CHECK(musec_optim_get_report(narrow.opt, 0, &report) == MUSEC_OK, "a report");
    const char *words = type == MUSEC_F16 ? " f16" : " bf16";
    CHECK(strstr(report.path, words) != NULL, "path \"%s\"", report.path);
    musec_optim_describe(narrow.opt, text, sizeof text);
    CHECK(strstr(text, words) != NULL && strstr(text, "operands") != NULL, "%s", text);
    rig_free(&wide), rig_free(&narrow);
}

/* With automatic operands the description names the device's dtype, for float32 weights alone. */
TEST_EACH_DEVICE(descriptions_name_rounded_operands, dev)
{
    static const rig_param   params[] = { { .name = "a", .rows = 12, .cols = 20 } };
    const ms_device_kind    *real     = dev->kind;
    ms_device_kind           other    = *real;
    static const musec_dtype dtypes[] = { MUSEC_F32, MUSEC_F64 };
    char                     text[4096];
    musec_optim_config       cfg = rig_config("soft-musec", "ns-mode=fast");
    cfg.operands                 = 0; /* auto */
    other.compute_dtype          = MUSEC_F16;
    dev->kind                    = &other;
    for (size_t i = 0; i < COUNT(dtypes); i++) {
        rig r = rig_make_with(dev, &cfg, dtypes[i], params, COUNT(params), 6);
        musec_optim_describe(r.opt, text, sizeof text);
        CHECK((strstr(text, "operands f16") != NULL) == (dtypes[i] == MUSEC_F32), "%s: %s",
              ms_dtype_name(dtypes[i]), text);
        rig_free(&r);
    }
    dev->kind = real;
}

TEST_EACH_DEVICE(operands_of_16_bits_are_accurate, dev)
{
    static const struct rule these[] = {
        { "soft-musec", "threshold=rms:0.8 ns-mode=fast" },
        { "soft-musec", "threshold=0.7 ns-mode=paper nesterov=yes" },
        { "spectra", "base=adamw threshold=rms:1 ns-mode=paper7 update-scale=unit" },
        { "muon", "nesterov=yes" },
    };
    for (size_t i = 0; i < COUNT(these); i++) {
        if (ms_device_has(dev, MUSEC_F16) && check_takes_case())
            check_operands(dev, MUSEC_F16, &these[i], 1e-2);
        if (ms_device_has(dev, MUSEC_BF16) && check_takes_case())
            check_operands(dev, MUSEC_BF16, &these[i], 8e-2);
    }
}

/* In a context of its own, so that the peak is that of one optimizer.  Matrices take more bytes
 * than the vectors that are counted with them, and two shapes are fused. */
TEST_EACH_DEVICE(a_16bit_step_keeps_to_its_workspace, dev)
{
    static const rig_param   params[] = { { .name = "a", .rows = 100, .cols = 130 },
                                          { .name = "b", .rows = 100, .cols = 130 },
                                          { .name = "c", .rows = 130, .cols = 100 } };
    static const struct rule these[]  = {
         { "soft-musec", "operands=f16 ns-mode=fast" },
         { "soft-musec", "operands=f16 ns-mode=fast threshold=rms:1" },
         { "soft-musec", "operands=f16 ns-mode=fast threshold=quantile:0.5" },
         { "spectra", "operands=bf16 base=sgdm ns-mode=fast threshold=quantile:0.5" },
         { "soft-musec", "operands=bf16 ns-mode=accurate ns-tol=0.1 nesterov=yes" },
         { "soft-musec", "operands=f16 ns-mode=accurate" }, /* which takes f32 */
         { "spectra", "operands=f16 base=adamw ns-mode=paper workspace=1" },
         { "muon", "operands=bf16 report-every=1" },
         { "muon", "operands=f16" },
         { "muon", "operands=f16 report-every=1 nesterov=yes momentum-dtype=bf16" },
         { "muon", "operands=f16 report-every=1 decay-form=coupled" },
    };
    for (size_t i = 0; ms_device_has(dev, MUSEC_F16) && i < COUNT(these); i++) {
        if (!check_takes_case()) continue;
        ms_device *own       = NULL;
        uint64_t   workspace = 0;
        CHECK(musec_ctx_create(&own, dev->name) == MUSEC_OK, "%s", dev->name);
        rig r = rig_make(own, these[i].name, these[i].options, MUSEC_F32, params, 3, 2);
        CHECK_OK(own, musec_optim_workspace(r.opt, &workspace, NULL));
        rig_steps(&r, 0, 2);
        CHECK(own->scratch.peak <= workspace, "%s %s: %llu bytes of workspace, used %llu",
              these[i].name, these[i].options, (unsigned long long)workspace,
              (unsigned long long)own->scratch.peak);
        rig_free(&r);
        musec_ctx_destroy(own);
    }
}

TEST_EACH_DEVICE(invalid_operands_are_refused, dev)
{
    musec_optim_config cfg = rig_config("muon", "operands=f16");
    musec_view         w   = copy_make(dev, MUSEC_F32, 4, 6, (run_layout){ 0 });
    musec_view         w64 = copy_make(dev, MUSEC_F64, 4, 6, (run_layout){ 0 });
    musec_param        p   = { .name = "w", .weight = w64 };
    musec_optim       *opt = NULL;
    CHECK_OK(dev, musec_optim_create(&opt, dev, &cfg));
    CHECK(musec_optim_add(opt, &p, NULL) == MUSEC_EINVAL &&
              strstr(dev->error.text, "f16") != NULL && strstr(dev->error.text, "f64") != NULL,
          "%s", dev->error.text);
    p.weight                   = w;
    const ms_device_kind *kind = dev->kind;
    ms_device_kind        lacking;
    check_take_16bit(dev, &lacking);
    CHECK_FAILS(&dev->error, musec_optim_add(opt, &p, NULL), MUSEC_ENOTSUP, "f16");
    dev->kind = kind;
    CHECK_OK(dev, musec_optim_add(opt, &p, NULL));
    musec_optim_destroy(opt);
    cfg.operands = MUSEC_F64;
    CHECK_FAILS(&dev->error, musec_optim_create(&opt, dev, &cfg), MUSEC_EINVAL, "operands");
    dev->ops->free(dev, w.data);
    dev->ops->free(dev, w64.data);
}

/* ---- device calls ---------------------------------------------------------------------------- */

static struct {
    ms_device_ops real;
    int           downloads, absmax, updates, averages, predicted, uploads;
} calls;

static musec_status count_download(ms_device *d, const void *device, size_t bytes, void *host)
{
    calls.downloads++;
    return calls.real.download(d, device, bytes, host);
}

static musec_status count_upload(ms_device *d, const void *host, size_t bytes, void *device)
{
    calls.uploads++;
    return calls.real.upload(d, host, bytes, device);
}

static musec_status count_absmax(ms_device *d, ms_mat x, ms_vec out)
{
    calls.absmax += x.ptrs != NULL;
    return calls.real.absmax(d, x, out);
}

static musec_status count_combine(ms_device *d, ms_mat x, ms_mat y, const ms_term *terms, int n)
{
    calls.averages += y.ptrs != NULL;
    return calls.real.combine(d, x, y, terms, n);
}

/* Ops that the device itself calls inside this op are not counted. */
static musec_status count_predicted(ms_device *d, ms_num x_coef, ms_mat x, ms_num y_coef, ms_mat y,
                                    ms_mat out, ms_vec top)
{
    const int          absmax = calls.absmax, averages = calls.averages;
    const musec_status st = calls.real.average(d, x_coef, x, y_coef, y, out, top);
    calls.absmax          = absmax;
    calls.averages        = averages;
    calls.predicted += y.ptrs != NULL;
    return st;
}

static musec_status count_update(ms_device *d, ms_num step, ms_mat u, ms_num decay, bool cautious,
                                 ms_mat w, ms_mat copy)
{
    calls.updates++;
    return calls.real.decay_add(d, step, u, decay, cautious, w, copy);
}

/* Ten matrices of two shapes and two vectors make three groups.  The only wait is the download of
 * the largest entries.  Where the clipped momentum is stored and rounding is fused, the gradients
 * of matrices are read once. */
static void check_calls(ms_device *dev, const char *name, const char *options, musec_dtype operands)
{
    const bool         predicted = strcmp(name, "soft-musec") == 0 && operands != MUSEC_F32;
    const int          groups = 2, all = 3;
    rig_param          params[RIG_MAX];
    char               names[RIG_MAX][16];
    musec_optim_config cfg = rig_config(name, options);
    for (int p = 0; p < RIG_MAX; p++) {
        const bool vector = p >= RIG_MAX - 2;
        snprintf(names[p], sizeof names[p], "p%d", p);
        params[p] = (rig_param){ .name      = names[p],
                                 .role      = vector  ? MUSEC_ROLE_VECTOR
                                              : p % 2 ? MUSEC_ROLE_MLP
                                                      : MUSEC_ROLE_VO,
                                 .rows      = vector  ? 1
                                              : p % 3 ? 5
                                                      : 8,
                                 .cols      = 7,
                                 .lr_factor = p % 2 ? 0.5 : 1.0 };
    }
    cfg.operands     = operands;
    cfg.report_every = 0;
    rig r            = rig_make_with(dev, &cfg, MUSEC_F32, params, RIG_MAX, 1);
    rig_step(&r, 0, 1.0);
    memset(&calls, 0, sizeof calls);
    calls.real           = dev->table;
    dev->table.download  = count_download;
    dev->table.upload    = count_upload;
    dev->table.absmax    = count_absmax;
    dev->table.combine   = count_combine;
    dev->table.average   = count_predicted;
    dev->table.decay_add = count_update;
    CHECK_OK(dev, rig_try(&r, 1.0));
    dev->table = calls.real;
    CHECK(calls.downloads == 1 && calls.uploads == 0, "%s %s: %d downloads, %d uploads", name,
          options, calls.downloads, calls.uploads);
    CHECK(calls.absmax == (predicted ? all - groups : all) && calls.updates == all &&
              calls.averages == (predicted ? 0 : groups) &&
              calls.predicted == groups - calls.averages,
          "%s %s: %d looked through, %d updates, %d averages, %d predicted", name, options,
          calls.absmax, calls.updates, calls.averages, calls.predicted);
    rig_free(&r);
}

TEST_EACH_DEVICE(a_step_takes_a_fixed_number_of_device_calls, dev)
{
    static const struct rule these[] = {
        { "soft-musec", "threshold=rms:0.8 update-scale=unit ns-mode=fast weight-decay=mlp=0.1" },
        { "soft-musec", "ns-mode=paper" },
        { "soft-musec", "ns-mode=paper literal=yes" },
        { "spectra", "ns-mode=paper7 decay-form=cautious weight-decay=vo=0.2" },
        { "muon", "shape-rule=fixed-rms" },
        { "sgdm", "" },
    };
    static const musec_dtype types[] = { MUSEC_F32, MUSEC_F16, MUSEC_BF16 };
    for (size_t i = 0; i < COUNT(these); i++)
        for (size_t t = 0; t < COUNT(types); t++)
            if (ms_device_has(dev, types[t]))
                check_calls(dev, these[i].name, these[i].options, types[t]);
}

/* ---- NaN ------------------------------------------------------------------------------------- */

/* A NaN in any matrix of a group or stack is found, its parameter is named and nothing changes. */
TEST_EACH_DEVICE(one_nan_among_many_matrices_is_found, dev)
{
    static const rig_param params[] = {
        { .name = "a", .rows = 4, .cols = 6 },
        { .name = "b", .rows = 3, .cols = 6 },
        { .name = "c", .rows = 4, .cols = 6, .layout = { .more = 2, .pad = 1, .gap = 2 } },
        { .name = "d", .rows = 4, .cols = 6 },
        { .name = "v", .role = MUSEC_ROLE_VECTOR, .rows = 1, .cols = 6 },
    };
    for (size_t bad = 0; bad < COUNT(params); bad++) {
        rig r = rig_make(dev, "muon", "", MUSEC_F32, params, COUNT(params), 4);
        rig_step(&r, 0, 1.0);
        rig same = rig_make(dev, "muon", "", MUSEC_F32, params, COUNT(params), 4);
        rig_step(&same, 0, 1.0);
        double *g = rig_normal(&r, bad, 1);
        char    words[64];
        g[rig_elems(&r, bad) - 1] = NAN;
        rig_set_grad(&r, bad, g);
        snprintf(words, sizeof words, "the gradient of %s holds", params[bad].name);
        CHECK_FAILS(&dev->error, rig_try(&r, 1.0), MUSEC_ENONFINITE, words);
        rig_check_same(&r, &same, "muon", words);
        free(g);
        rig_free(&r), rig_free(&same);
    }
}

/* A workspace for some of the matrices at a time still has the directions of all of them, averaged
 * on predictions: the same bits, and no more memory than was said. */
TEST_EACH_DEVICE(a_smaller_workspace_keeps_predictions, dev)
{
    enum { STEPS = 4, N = 3 };
    static const char *const modes[]   = { "fast", "accurate nonfinite=defer",
                                           "fast report-every=2" };
    static const rig_param   params[N] = {
          { .name = "many", .rows = 24, .cols = 40, .layout = { .more = 11 } },
          { .name = "tall", .rows = 40, .cols = 24, .layout = { .more = 2 } },
          { .name = "one", .rows = 40, .cols = 9 },
    };
    for (size_t k = 0; ms_device_has(dev, MUSEC_F16) && k < COUNT(modes); k++) {
        uint64_t all     = 0;
        int      chunked = 0;
        rig      want    = rig_makef(dev, MUSEC_F32, params, N, 5, "soft-musec",
                                     "operands=f16 threshold=rms:1 ns-mode=%s", modes[k]);
        CHECK_OK(dev, musec_optim_workspace(want.opt, &all, NULL));
        rig_steps(&want, 0, STEPS);
        for (int percent = 95; percent >= 5; percent -= 10) {
            ms_device *own       = NULL;
            uint64_t   workspace = 0;
            CHECK(musec_ctx_create(&own, dev->name) == MUSEC_OK, "%s", dev->name);
            rig r = rig_makef(own, MUSEC_F32, params, N, 5, "soft-musec",
                              "operands=f16 threshold=rms:1 ns-mode=%s workspace=%llu", modes[k],
                              (unsigned long long)all * (unsigned)percent / 100);
            CHECK_OK(own, musec_optim_workspace(r.opt, &workspace, NULL));
            const ms_group *g    = &r.opt->groups[0];
            const bool      fits = g->predictions_fit && g->chunk >= 8;
            chunked += fits && g->chunk < g->count;
            CHECK(!fits || workspace <= all * (unsigned)percent / 100, "%s, %d %%: %llu of %llu",
                  modes[k], percent, (unsigned long long)workspace, (unsigned long long)all);
            rig_steps(&r, 0, STEPS);
            CHECK(own->scratch.peak <= workspace, "%s, %d %%: %zu bytes of %llu", modes[k], percent,
                  own->scratch.peak, (unsigned long long)workspace);
            /* without predictions a deferred step rounds by scales of another kind */
            if (!dev->kind->batch_variant && (fits || strstr(modes[k], "defer") == NULL))
                rig_check_same(&want, &r, "ns-mode", modes[k]);
            rig_free(&r);
            musec_ctx_destroy(own);
        }
        CHECK(chunked >= 1, "%s: nowhere was a group stepped in chunks on predictions", modes[k]);
        rig_free(&want);
    }
}
