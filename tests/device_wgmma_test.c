/* device_wgmma_test.c - the gradient of attention by Hopper's own instructions against the CPU in
 * float32: packs of documents that begin and end anywhere, windows, heads side by side in wider
 * rows, more blocks than the chip has multiprocessors.
 *
 * Operands have 16 bits and are read exactly; what is rounded are the weights p and ds, to 16 bits
 * before their products, out, which D is made of, and the results.  So a row is off by a few eps of
 * the dtype, relative to the rows of its kind, which have norms of 10 or so where they are not
 * zero; a row of a wrong document or window is off by all of itself. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "device_rig.h"

#ifdef MS_HAVE_CUDA

#include "device/cuda/cuda.h"

typedef struct kind {
    musec_dtype dtype;
    int64_t     rows, heads, head, window, pad; /* pad: columns that are nobody's */
    double      sharpness;                      /* scale, times the root of head */
    bool        known;                          /* the longest document */
} kind;

static const kind kinds[] = {
    { MUSEC_BF16, 1, 1, 128, 10, 0, 1.0, true },
    { MUSEC_BF16, 1, 3, 64, 0, 8, 1.0, false },
    { MUSEC_F16, 63, 2, 128, INT64_MAX, 0, 1.0, true },
    { MUSEC_F16, 64, 2, 64, INT64_MAX, 0, 1.0, false },
    { MUSEC_BF16, 65, 2, 128, 3, 0, 1.0, true },
    { MUSEC_BF16, 129, 2, 128, INT64_MAX, 16, 1.0, false },
    { MUSEC_BF16, 700, 3, 128, INT64_MAX, 0, 2.0, true },
    { MUSEC_BF16, 700, 3, 128, 100, 8, 2.0, false },
    { MUSEC_BF16, 700, 3, 64, 64, 0, -2.0, true },
    { MUSEC_BF16, 701, 2, 128, 0, 0, 1.0, true },
    { MUSEC_F16, 701, 2, 64, 200, 0, 1.0, false },
    { MUSEC_F16, 1601, 2, 128, 63, 0, -1.0, false },
    { MUSEC_BF16, 8200, 4, 128, 1024, 0, 1.0, true },
    { MUSEC_F16, 8129, 3, 64, 300, 24, 1.0, true },
};

static const int32_t doc_lengths[] = { 5, 1, 130, 128, 1, 63, 300, 1000, 2048, INT32_MAX / 2 };

/* One case on one device: q, k and v side by side in one stack, and their gradients likewise. */
typedef struct attending {
    ms_device   *d;
    stack        qkv, out, lse, dout, dqkv;
    ms_cuda_attn x;
} attending;

static ms_mat heads(const stack *s, int64_t part, const kind *c)
{
    const int64_t wide = c->heads * c->head;
    return ms_mat_heads(ms_mat_part(s->mat, 0, c->rows, part * wide, wide), c->heads);
}

static void like(stack *to, const stack *from)
{
    for (int64_t h = 0; h < to->host.count; h++)
        for (int64_t i = 0; i < to->host.rows; i++)
            for (int64_t j = 0; j < to->host.cols; j++)
                ms_put(to->host, h, i, j, ms_at(from->host, h, i, j));
    stack_send(to);
}

static attending attending_make(ms_device *d, const kind *c, musec_dtype t)
{
    const int64_t wide    = c->heads * c->head;
    const double  none[]  = { (double)-INFINITY, (double)-INFINITY, (double)-INFINITY,
                              (double)-INFINITY };
    int32_t      *doc     = malloc((size_t)c->rows * sizeof *doc);
    attending     a       = { .d = d };
    int64_t       longest = 0;
    CHECK(doc != NULL, "no memory");
    a.qkv  = stack_random(d, t, 1, c->rows, 3 * wide + c->pad, 1);
    a.dout = stack_random(d, t, 1, c->rows, wide + c->pad, 2);
    a.out  = stack_make(d, t, 1, c->rows, wide + c->pad);
    a.dqkv = stack_make(d, t, 1, c->rows, 3 * wide + c->pad);
    a.lse  = stack_make(d, ms_dtype_wide(t), c->heads, 1, c->rows);
    a.x    = (ms_cuda_attn){ .q    = heads(&a.qkv, 0, c),
                             .k    = heads(&a.qkv, 1, c),
                             .v    = heads(&a.qkv, 2, c),
                             .out  = heads(&a.out, 0, c),
                             .lse  = a.lse.mat,
                             .dout = heads(&a.dout, 0, c),
                             .dq   = heads(&a.dqkv, 0, c),
                             .dk   = heads(&a.dqkv, 1, c),
                             .dv   = heads(&a.dqkv, 2, c) };
    for (int32_t i = 0, start = 0, l = 0; i < c->rows; i++) {
        if (i == start + doc_lengths[l]) start += doc_lengths[l++];
        doc[i] = start;
        if (i + 1 - start > longest) longest = i + 1 - start;
    }
    a.x.a.scale   = c->sharpness / sqrt((double)c->head);
    a.x.a.window  = c->window;
    a.x.a.longest = c->known ? longest : 0;
    a.x.a.doc     = ids_make(d, doc, c->rows);
    a.x.max_logit = vec_make(d, none, c->heads);
    free(doc);
    return a;
}

static void attending_free(attending *a)
{
    stack *all[] = { &a->qkv, &a->out, &a->lse, &a->dout, &a->dqkv };
    for (size_t i = 0; i < COUNT(all); i++)
        stack_free(all[i]);
    a->d->ops->free(a->d, a->x.a.doc.data);
    a->d->ops->free(a->d, a->x.max_logit.data);
}

/* Columns from `col` on, row by row. */
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

/* Twice: the same bits. */
static void run_grad(attending *a, size_t at)
{
    const size_t       bytes = a->dqkv.bytes;
    const ms_attn_plan plan  = { .dtype = a->x.q.dtype,
                                 .heads = a->x.q.count,
                                 .head  = a->x.q.cols,
                                 .rows  = a->x.q.rows,
                                 .reach = a->x.a.window };
    void              *first = malloc(bytes);
    CHECK(first != NULL, "no memory");
    a->d->scratch.peak = 0;
    for (int i = 0; i < 2; i++) {
        memset(a->dqkv.host.data, 0xff, bytes);
        stack_send(&a->dqkv);
        CHECK_OK(a->d, ms_cuda_attention_wgmma_grad(a->d, &a->x));
        stack_receive(&a->dqkv);
        if (i == 0) memcpy(first, a->dqkv.host.data, bytes);
    }
    CHECK(memcmp(first, a->dqkv.host.data, bytes) == 0, "case %zu: other bits again", at);
    CHECK(a->d->scratch.peak <= a->d->kind->attn_bytes(a->d, plan),
          "case %zu: %zu bytes of scratch, not %llu", at, a->d->scratch.peak,
          (unsigned long long)a->d->kind->attn_bytes(a->d, plan));
    free(first);
}

static void check_case(ms_device *gpu, ms_device *cpu, size_t at)
{
    const kind   *c    = &kinds[at];
    const int64_t wide = c->heads * c->head;
    const double  eps  = ms_dtype_eps(c->dtype);
    attending     got = attending_make(gpu, c, c->dtype), want = attending_make(cpu, c, MUSEC_F32);
    like(&want.qkv, &got.qkv), like(&want.dout, &got.dout);
    const ms_cuda_attn x = want.x;
    CHECK_OK(cpu, cpu->ops->attention(cpu, x.a, x.q, x.k, x.v, x.out, x.lse, x.max_logit));
    CHECK_OK(cpu, cpu->ops->attention_grad(cpu, x.a, x.q, x.k, x.v, x.out, x.lse, x.dout, x.dq,
                                           x.dk, x.dv));
    stack_receive(&want.out), stack_receive(&want.lse), stack_receive(&want.dqkv);
    like(&got.out, &want.out), like(&got.lse, &want.lse);
    CHECK(ms_cuda_attention_wgmma_serves(gpu, &got.x), "case %zu is not served", at);
    run_grad(&got, at);
    compare_rows("dq", at, got.dqkv.host, want.dqkv.host, 0, wide, eps);
    compare_rows("dk", at, got.dqkv.host, want.dqkv.host, wide, wide, eps);
    compare_rows("dv", at, got.dqkv.host, want.dqkv.host, 2 * wide, wide, eps);
    for (int64_t i = 0; i < c->rows; i++) /* what is nobody's still has the bits it was given */
        for (int64_t j = 3 * wide; j < 3 * wide + c->pad; j++)
            CHECK(isnan(ms_at(got.dqkv.host, 0, i, j)), "case %zu: it writes beside", at);
    attending_free(&got), attending_free(&want);
}

/* A Hopper, or the test is skipped. */
static ms_device *open_gpu(void)
{
    ms_device *gpu = NULL;
    if (musec_ctx_create(&gpu, "cuda") != MUSEC_OK) SKIP("there is no CUDA device here");
    if (ms_cuda_of(gpu)->capability != 90) {
        musec_ctx_destroy(gpu);
        SKIP("the chip is no Hopper");
    }
    return gpu;
}

TEST(grad_agrees_with_float32)
{
    ms_device *gpu = open_gpu(), *cpu = NULL;
    CHECK(musec_ctx_create(&cpu, "cpu") == MUSEC_OK, "no cpu");
    for (size_t i = 0; i < COUNT(kinds); i++)
        check_case(gpu, cpu, i);
    musec_ctx_destroy(gpu);
    musec_ctx_destroy(cpu);
}

/* As a model has it: q, k and v of all heads side by side.  Nothing is read or written. */
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

TEST(serves_what_models_ask_for)
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
        CHECK(ms_cuda_attention_wgmma_serves(gpu, &x), "size %zu is not served", i);
    }
    x = asked(32768, 6, 128, 1024), x.a.softcap = 30.0;
    CHECK(!ms_cuda_attention_wgmma_serves(gpu, &x), "it knows no cap");
    x = asked(32768, 6, 96, 1024);
    CHECK(!ms_cuda_attention_wgmma_serves(gpu, &x), "nor heads of 96 columns");
    x = asked(32768, 6, 128, 1024), x.dk.ld += 4;
    CHECK(!ms_cuda_attention_wgmma_serves(gpu, &x), "nor rows that begin anywhere");
    x = asked(1 << 20, 6, 128, INT64_MAX), x.a.longest = 0;
    CHECK(!ms_cuda_attention_wgmma_serves(gpu, &x), "nor dS beyond its room");
    musec_ctx_destroy(gpu);
}

#else

TEST(this_build_has_no_cuda) { SKIP("this build has no CUDA"); }

#endif
