/* device_fused_attention_test.c - attention and its gradient by cuDNN and by our kernels for
 * Hopper, against the CPU in float64 or float32.  The cases have documents and windows of many
 * lengths, heads side by side in wider rows, gradients in another layout, and more blocks than the
 * chip has multiprocessors.
 *
 * Operands have 16 bits and are read exactly.  Rounded are the weights p and ds, to 16 bits before
 * their products, the results, and out, from which D is computed.  So a row is off by a few eps of
 * the dtype, relative to the mean norm of the rows, which is about 10; a row that is computed with
 * a wrong document or window is off by its own norm. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/directory.h"
#include "device_rig.h"
#include "scratch.h"

#ifdef MS_HAVE_CUDA

#include "device/cuda/cuda.h"

typedef struct kind {
    musec_dtype dtype;
    int64_t     rows, heads, head, window, pad; /* pad: unused columns */
    double      sharpness;                      /* scale, times the root of head */
    bool        known;                          /* the documents, on the host */
    bool        apart; /* dq and dk have wider rows than q and k: cuDNN refuses them */
    double      softcap;
} kind;

static const kind wgmma_kinds[] = {
    { MUSEC_BF16, 1, 1, 128, 10, 0, 1.0, true, false, 0.0 },
    { MUSEC_BF16, 1, 3, 64, 0, 8, 1.0, false, false, 0.0 },
    { MUSEC_F16, 63, 2, 128, INT64_MAX, 0, 1.0, true, false, 0.0 },
    { MUSEC_F16, 64, 2, 64, INT64_MAX, 0, 1.0, false, false, 0.0 },
    { MUSEC_BF16, 65, 2, 128, 3, 0, 1.0, true, false, 0.0 },
    { MUSEC_BF16, 129, 2, 128, INT64_MAX, 16, 1.0, false, false, 0.0 },
    { MUSEC_BF16, 700, 3, 128, INT64_MAX, 0, 2.0, true, false, 0.0 },
    { MUSEC_BF16, 700, 3, 128, 100, 8, 2.0, false, false, 0.0 },
    { MUSEC_BF16, 700, 3, 64, 64, 0, -2.0, true, false, 0.0 },
    { MUSEC_BF16, 701, 2, 128, 0, 0, 1.0, true, false, 0.0 },
    { MUSEC_F16, 701, 2, 64, 200, 0, 1.0, false, false, 0.0 },
    { MUSEC_F16, 1601, 2, 128, 63, 0, -1.0, false, false, 0.0 },
    { MUSEC_BF16, 8200, 4, 128, 1024, 0, 1.0, true, false, 0.0 },
    { MUSEC_F16, 8129, 3, 64, 300, 24, 1.0, true, false, 0.0 },
};

/* Forward alone. */
static const kind capped_kinds[] = {
    { MUSEC_BF16, 65, 2, 128, 3, 0, 4.0, true, false, 1.5 },
    { MUSEC_BF16, 700, 3, 128, INT64_MAX, 8, 4.0, false, false, 1.5 },
    { MUSEC_F16, 1601, 2, 64, 200, 0, 4.0, true, false, 3.0 },
    { MUSEC_F16, 8129, 3, 128, 1024, 0, 1.0, true, false, 30.0 },
};

static const kind dnn_kinds[] = {
    { MUSEC_BF16, 700, 3, 128, INT64_MAX, 0, 2.0, true, false, 0.0 },
    { MUSEC_BF16, 700, 3, 128, 100, 0, 2.0, true, false, 0.0 },
    { MUSEC_BF16, 700, 3, 128, 100, 0, 2.0, true, true, 0.0 },
    { MUSEC_BF16, 700, 3, 128, 0, 0, 2.0, true, false, 0.0 },
    { MUSEC_F16, 700, 4, 64, 200, 0, 2.0, true, false, 0.0 },
    { MUSEC_F16, 701, 2, 64, INT64_MAX, 0, 2.0, true, true, 0.0 },
    { MUSEC_BF16, 1, 2, 128, 10, 0, 2.0, true, false, 0.0 },
};

static const int32_t doc_lengths[] = { 5, 1, 130, 128, 1, 63, 300, 1000, 2048, INT32_MAX / 2 };

/* One case on one device.  Heads lie side by side: q, k in `qk`, v in the last third of `qkv`. */
typedef struct attending {
    ms_device   *d;
    stack        qk, qkv, out, lse, dout, dqk, dqkv;
    ms_cuda_attn x;
} attending;

static ms_mat heads(const stack *s, int64_t part, const kind *c)
{
    const int64_t wide = c->heads * c->head;
    return ms_mat_heads(ms_mat_part(s->mat, 0, c->rows, part * wide, wide), c->heads);
}

static void copy_values(stack *to, const stack *from)
{
    for (int64_t h = 0; h < to->host.count; h++)
        for (int64_t i = 0; i < to->host.rows; i++)
            for (int64_t j = 0; j < to->host.cols; j++)
                ms_put(to->host, h, i, j, ms_at(from->host, h, i, j));
    stack_send(to);
}

/* With random operands, or those of `like`. */
static attending attending_make(ms_device *d, const kind *c, musec_dtype t, const attending *like)
{
    const int64_t wide  = c->heads * c->head;
    const double  least = (double)-INFINITY, none[4] = { least, least, least, least };
    int32_t      *doc = check_alloc((size_t)c->rows * sizeof *doc);
    attending     a   = { .d = d };
    a.qk              = stack_random(d, t, 1, c->rows, 2 * wide + c->pad, 1);
    a.qkv             = stack_random(d, t, 1, c->rows, 3 * wide + c->pad, 2);
    a.dout            = stack_random(d, t, 1, c->rows, wide + c->pad, 3);
    if (like != NULL) {
        copy_values(&a.qk, &like->qk), copy_values(&a.qkv, &like->qkv);
        copy_values(&a.dout, &like->dout);
    }
    a.out  = stack_make(d, t, 1, c->rows, wide + c->pad);
    a.lse  = stack_make(d, ms_dtype_accum(t), c->heads, 1, c->rows);
    a.dqk  = stack_make(d, t, 1, c->rows, (c->apart ? 3 : 2) * wide + c->pad);
    a.dqkv = stack_make(d, t, 1, c->rows, 3 * wide + c->pad);
    a.x    = (ms_cuda_attn){ .q    = heads(&a.qk, 0, c),
                             .k    = heads(&a.qk, 1, c),
                             .v    = heads(&a.qkv, 2, c),
                             .out  = heads(&a.out, 0, c),
                             .lse  = a.lse.mat,
                             .dout = heads(&a.dout, 0, c),
                             .dq   = heads(&a.dqk, 0, c),
                             .dk   = heads(&a.dqk, 1, c),
                             .dv   = heads(&a.dqkv, 2, c) };
    for (int32_t i = 0, start = 0, l = 0; i < c->rows; i++) {
        if (i == start + doc_lengths[l]) start += doc_lengths[l++];
        doc[i] = start;
        if (!c->known) continue;
        a.x.a.docs = l + 1;
        if (i + 1 - start > a.x.a.longest) a.x.a.longest = i + 1 - start;
    }
    a.x.a.scale   = c->sharpness / sqrt((double)c->head);
    a.x.a.window  = c->window;
    a.x.a.softcap = c->softcap;
    a.x.a.doc     = ids_make(d, doc, c->rows);
    a.x.max_logit = vec_make(d, none, c->heads);
    free(doc);
    return a;
}

static void attending_free(attending *a)
{
    stack *all[] = { &a->qk, &a->qkv, &a->out, &a->lse, &a->dout, &a->dqk, &a->dqkv };
    for (size_t i = 0; i < COUNT(all); i++)
        stack_free(all[i]);
    a->d->ops->free(a->d, a->x.a.doc.data);
    a->d->ops->free(a->d, a->x.max_logit.data);
}

static void receive(attending *a)
{
    stack *all[] = { &a->out, &a->lse, &a->dqk, &a->dqkv };
    for (size_t i = 0; i < COUNT(all); i++)
        stack_receive(all[i]);
}

/* Forward and backward by the op table, on the operands of `like`. */
static attending reference(ms_device *cpu, const kind *c, musec_dtype t, const attending *like)
{
    attending          a = attending_make(cpu, c, t, like);
    const ms_cuda_attn x = a.x;
    CHECK_OK(cpu, cpu->ops->attention(cpu, x.a, x.q, x.k, x.v, x.out, x.lse, x.max_logit));
    CHECK_OK(cpu, cpu->ops->attention_grad(cpu, x.a, x.q, x.k, x.v, x.out, x.lse, x.dout, x.dq,
                                           x.dk, x.dv));
    receive(&a);
    return a;
}

/* Compares `cols` columns from `col` on, row by row. */
static void compare_rows(const char *what, size_t at, ms_mat got, ms_mat want, int64_t col,
                         int64_t cols, double eps)
{
    double all = 0.0;
    for (int64_t i = 0; i < want.rows; i++)
        for (int64_t j = col; j < col + cols; j++)
            all += ms_at(want, 0, i, j) * ms_at(want, 0, i, j);
    all /= (double)want.rows;
    for (int64_t i = 0; i < want.rows; i++) {
        double off = 0.0, size = 0.0;
        for (int64_t j = col; j < col + cols; j++) {
            const double w = ms_at(want, 0, i, j), e = ms_at(got, 0, i, j) - w;
            off += e * e;
            size += w * w;
        }
        CHECK(sqrt(off) <= 4.0 * eps * sqrt(size + all) + 1e-3,
              "case %zu: row %lld of %s: off by %g of %g", at, (long long)i, what, sqrt(off),
              sqrt(size));
    }
}

static void compare_grads(const kind *c, size_t at, const attending *got, const attending *want)
{
    const int64_t wide = c->heads * c->head;
    const double  eps  = ms_dtype_eps(c->dtype);
    compare_rows("dq", at, got->dqk.host, want->dqk.host, 0, wide, eps);
    compare_rows("dk", at, got->dqk.host, want->dqk.host, wide, wide, eps);
    compare_rows("dv", at, got->dqkv.host, want->dqkv.host, 2 * wide, wide, eps);
}

/* ---- cuDNN ----------------------------------------------------------------------------------- */

static void compare_outputs(const kind *c, size_t at, attending *got, attending *want)
{
    double g[4], w[4];
    compare_rows("out", at, got->out.host, want->out.host, 0, c->heads * c->head,
                 ms_dtype_eps(c->dtype));
    for (int64_t h = 0; h < c->heads; h++)
        for (int64_t i = 0; i < c->rows; i++)
            CHECK(fabs(ms_at(got->lse.host, h, 0, i) - ms_at(want->lse.host, h, 0, i)) <= 1e-4,
                  "case %zu: lse of row %lld: %g, not %g", at, (long long)i,
                  ms_at(got->lse.host, h, 0, i), ms_at(want->lse.host, h, 0, i));
    CHECK_OK(got->d, ms_vec_download(got->d, got->x.max_logit, g));
    CHECK_OK(want->d, ms_vec_download(want->d, want->x.max_logit, w));
    for (int64_t h = 0; h < c->heads; h++)
        CHECK(fabs(g[h] - w[h]) <= 1e-4, "case %zu: largest logit %g, not %g", at, g[h], w[h]);
}

static bool by_dnn(ms_device *gpu, const ms_cuda_attn *x, bool backward)
{
    bool supported = false;
    CHECK_OK(gpu, ms_cuda_attention_dnn_supports(gpu, x, backward, &supported));
    return supported;
}

static void check_dnn(ms_device *gpu, ms_device *cpu, size_t at)
{
    const kind        *c    = &dnn_kinds[at];
    attending          got  = attending_make(gpu, c, c->dtype, NULL);
    attending          want = reference(cpu, c, MUSEC_F64, &got);
    const ms_cuda_attn x    = got.x;
    CHECK(by_dnn(gpu, &x, false), "case %zu is not supported", at);
    CHECK(by_dnn(gpu, &x, true) != c->apart, "case %zu, backward", at);
    CHECK_OK(gpu, ms_cuda_attention_dnn(gpu, &x));
    if (c->apart)
        CHECK_OK(gpu, ms_cuda_attention_fallback_grad(gpu, &x));
    else
        CHECK_OK(gpu, ms_cuda_attention_dnn_grad(gpu, &x));
    receive(&got);
    compare_outputs(c, at, &got, &want);
    compare_grads(c, at, &got, &want);
    attending_free(&got), attending_free(&want);
}

/* Checks all cases and returns how many plans are in the cache then. */
static size_t check_all_dnn(void)
{
    ms_device *gpu   = check_open_cuda(), *cpu;
    ms_names   files = { 0 };
    ms_error   e     = { "" };
    char       version[256];
    gpu->deterministic = false;
    ms_cuda_dnn_describe(gpu, version, sizeof version);
    if (strncmp(version, "no ", 3) == 0) {
        musec_ctx_destroy(gpu);
        SKIP("%s", version);
    }
    cpu = check_open("cpu");
    print_message("%s\n", version);
    for (size_t i = 0; i < COUNT(dnn_kinds); i++)
        check_dnn(gpu, cpu, i);
    musec_ctx_destroy(gpu);
    musec_ctx_destroy(cpu);
    CHECK_OK_ERR(&e, ms_directory_names(&e, getenv("MUSEC_CACHE"), &files));
    const size_t n = files.n;
    ms_names_free(&files);
    return n;
}

/* The second time all plans come from the cache. */
TEST(dnn_agrees_with_float64_and_caches_its_plans)
{
    setenv("MUSEC_CACHE", fresh_dir(), 1);
    const size_t first = check_all_dnn();
    CHECK(first > 0, "no plan was cached");
    const size_t then = check_all_dnn();
    CHECK(then == first, "%zu plans, then %zu", first, then);
}

/* ---- for Hopper ------------------------------------------------------------------------------ */

/* Runs attention twice and expects the same bits.  Outputs are NaN before each run. */
static void run_forward(attending *a, size_t at)
{
    stack *results[] = { &a->out, &a->lse };
    void  *first[]   = { check_alloc(a->out.bytes), check_alloc(a->lse.bytes) };
    for (int run = 0; run < 2; run++) {
        for (int i = 0; i < 2; i++) {
            memset(results[i]->host.data, 0xff, results[i]->bytes);
            stack_send(results[i]);
        }
        CHECK_OK(a->d, ms_cuda_attention_wgmma(a->d, &a->x));
        for (int i = 0; i < 2; i++) {
            stack_receive(results[i]);
            if (run == 0) memcpy(first[i], results[i]->host.data, results[i]->bytes);
            CHECK(memcmp(first[i], results[i]->host.data, results[i]->bytes) == 0,
                  "case %zu: other bits again", at);
        }
    }
    free(first[0]), free(first[1]);
}

static void check_forward(ms_device *gpu, ms_device *cpu, const kind *c, size_t at)
{
    const int64_t wide      = c->heads * c->head;
    attending     got       = attending_make(gpu, c, c->dtype, NULL);
    attending     want      = reference(cpu, c, MUSEC_F32, &got);
    bool          supported = false;
    CHECK_OK(gpu, ms_cuda_attention_wgmma_supports(gpu, &got.x, &supported));
    CHECK(supported == (c->sharpness > 0.0), "case %zu", at);
    if (supported) {
        run_forward(&got, at);
        compare_outputs(c, at, &got, &want);
        for (int64_t i = 0; i < c->rows; i++) /* unused columns are still NaN */
            for (int64_t j = 0; j < c->pad; j++)
                CHECK(isnan(ms_at(got.out.host, 0, i, wide + j)), "case %zu: it writes beside", at);
    }
    attending_free(&got), attending_free(&want);
}

/* Runs the gradient twice and expects the same bits.  Outputs are NaN before each run. */
static void run_grad(attending *a, size_t at)
{
    const ms_attn_shape plan    = { .dtype = a->x.q.dtype,
                                    .heads = a->x.q.count,
                                    .head  = a->x.q.cols,
                                    .rows  = a->x.q.rows,
                                    .reach = a->x.a.window };
    stack              *grads[] = { &a->dqk, &a->dqkv };
    void               *first[] = { check_alloc(a->dqk.bytes), check_alloc(a->dqkv.bytes) };
    a->d->scratch.peak          = 0;
    for (int run = 0; run < 2; run++) {
        for (int i = 0; i < 2; i++) {
            memset(grads[i]->host.data, 0xff, grads[i]->bytes);
            stack_send(grads[i]);
        }
        CHECK_OK(a->d, ms_cuda_attention_wgmma_grad(a->d, &a->x));
        for (int i = 0; i < 2; i++) {
            stack_receive(grads[i]);
            if (run == 0) memcpy(first[i], grads[i]->host.data, grads[i]->bytes);
            CHECK(memcmp(first[i], grads[i]->host.data, grads[i]->bytes) == 0,
                  "case %zu: other bits again", at);
        }
    }
    CHECK(a->d->scratch.peak <= a->d->kind->attn_workspace(a->d, plan),
          "case %zu: %zu bytes of scratch, not %llu", at, a->d->scratch.peak,
          (unsigned long long)a->d->kind->attn_workspace(a->d, plan));
    free(first[0]), free(first[1]);
}

static bool by_wgmma(ms_device *gpu, const ms_cuda_attn *x)
{
    bool supported = false;
    CHECK_OK(gpu, ms_cuda_attention_wgmma_grad_supports(gpu, x, &supported));
    return supported;
}

static void check_wgmma(ms_device *gpu, ms_device *cpu, size_t at)
{
    const kind   *c    = &wgmma_kinds[at];
    const int64_t wide = c->heads * c->head;
    attending     got  = attending_make(gpu, c, c->dtype, NULL);
    attending     want = reference(cpu, c, MUSEC_F32, &got);
    copy_values(&got.out, &want.out), copy_values(&got.lse, &want.lse);
    CHECK(by_wgmma(gpu, &got.x), "case %zu is not supported", at);
    run_grad(&got, at);
    compare_grads(c, at, &got, &want);
    for (int64_t i = 0; i < c->rows; i++) /* unused columns are still NaN */
        for (int64_t j = 0; j < c->pad; j++)
            CHECK(isnan(ms_at(got.dqk.host, 0, i, 2 * wide + j)) &&
                      isnan(ms_at(got.dqkv.host, 0, i, 3 * wide + j)),
                  "case %zu: it writes beside", at);
    attending_free(&got), attending_free(&want);
}

/* Opens a Hopper GPU, or skips the test. */
static ms_device *open_gpu(void)
{
    ms_device *gpu = check_open_cuda();
    if (ms_cuda_of(gpu)->capability != 90) {
        musec_ctx_destroy(gpu);
        SKIP("the chip is no Hopper");
    }
    return gpu;
}

TEST(wgmma_agrees_with_float32)
{
    ms_device *gpu = open_gpu(), *cpu = check_open("cpu");
    for (size_t i = 0; i < COUNT(wgmma_kinds); i++)
        check_forward(gpu, cpu, &wgmma_kinds[i], i);
    for (size_t i = 0; i < COUNT(capped_kinds); i++)
        check_forward(gpu, cpu, &capped_kinds[i], COUNT(wgmma_kinds) + i);
    musec_ctx_destroy(gpu);
    musec_ctx_destroy(cpu);
}

TEST(wgmma_grad_agrees_with_float32)
{
    ms_device *gpu = open_gpu(), *cpu = check_open("cpu");
    for (size_t i = 0; i < COUNT(wgmma_kinds); i++)
        check_wgmma(gpu, cpu, i);
    musec_ctx_destroy(gpu);
    musec_ctx_destroy(cpu);
}

/* Operands as a model has them: q, k and v of all heads side by side.  Nothing is read or
 * written. */
static ms_cuda_attn asked(int64_t rows, int64_t n_heads, int64_t head, int64_t window)
{
    static _Alignas(16) char here[16];
    const int64_t            wide = n_heads * head;
    const ms_mat             x    = { .data   = here,
                                      .rows   = rows,
                                      .cols   = head,
                                      .ld     = 3 * wide,
                                      .count  = n_heads,
                                      .stride = head,
                                      .dtype  = MUSEC_BF16 };
    return (ms_cuda_attn){ .a    = { .scale = 0.1, .window = window, .longest = 4096 },
                           .q    = x,
                           .k    = x,
                           .v    = x,
                           .out  = x,
                           .dout = x,
                           .dq   = x,
                           .dk   = x,
                           .dv   = x };
}

TEST(wgmma_supports_the_shapes_of_models)
{
    static const int64_t sizes[][4] = { /* rows, heads, head, window */
                                        { 32768, 6, 128, 1024 },  { 32768, 8, 128, 1024 },
                                        { 32768, 16, 128, 1024 }, { 32768, 16, 128, INT64_MAX },
                                        { 49152, 6, 128, 128 },   { 1024, 4, 64, 3456 }
    };
    ms_device   *gpu = open_gpu();
    ms_cuda_attn x;
    for (size_t i = 0; i < COUNT(sizes); i++) {
        x = asked(sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3]);
        CHECK(by_wgmma(gpu, &x), "size %zu is not supported", i);
    }
    x = asked(32768, 6, 128, 1024), x.a.softcap = 30.0;
    CHECK(!by_wgmma(gpu, &x), "it knows no cap");
    x = asked(32768, 6, 96, 1024);
    CHECK(!by_wgmma(gpu, &x), "nor heads of 96 columns");
    x = asked(32768, 6, 128, 1024), x.dk.ld += 4;
    CHECK(!by_wgmma(gpu, &x), "nor rows that begin anywhere");
    x = asked(1 << 20, 6, 128, INT64_MAX), x.a.longest = 0;
    CHECK(!by_wgmma(gpu, &x), "nor dS beyond its workspace");
    musec_ctx_destroy(gpu);
}

#else

TEST(this_build_has_no_cuda) { SKIP("this build has no CUDA"); }

#endif
