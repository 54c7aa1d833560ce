/* device_dnn_test.c - attention by cuDNN against our own in float64: packs of documents that begin
 * and end anywhere, windows, heads side by side in wider rows, gradients in another place.
 *
 * Operands have 16 bits and are read exactly; what is rounded are the weights p and ds, to 16 bits
 * before their products, and the results.  So a row is off by a few eps of the dtype, relative to
 * the rows of its kind, which have norms of 10 or so where they are not zero; a row of a wrong
 * document or window is off by all of itself. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/directory.h"
#include "device_rig.h"
#include "scratch.h"

#if defined(MS_HAVE_CUDA) && defined(MS_HAVE_CUDNN)

#include "device/cuda/cuda.h"

typedef struct kind {
    musec_dtype dtype;
    int64_t     rows, heads, head, window;
    bool        apart; /* dq and dk lie in wider rows than q and k: refused, and left to others */
} kind;

static const kind kinds[] = {
    { MUSEC_BF16, 700, 3, 128, INT64_MAX, false }, { MUSEC_BF16, 700, 3, 128, 100, false },
    { MUSEC_BF16, 700, 3, 128, 100, true },        { MUSEC_BF16, 700, 3, 128, 0, false },
    { MUSEC_F16, 700, 4, 64, 200, false },         { MUSEC_F16, 701, 2, 64, INT64_MAX, true },
    { MUSEC_BF16, 1, 2, 128, 10, false },
};

static const int32_t doc_lengths[] = { 5, 1, 130, 128, 1, 63, 300, 1000 };

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

static attending attending_make(ms_device *d, const kind *c, musec_dtype t, const stack *like[3])
{
    const int64_t  wide  = c->heads * c->head;
    const double   least = (double)-INFINITY, none[4] = { least, least, least, least };
    const int64_t  parts[] = { 2, 3, 1 };
    const uint64_t seeds[] = { 1, 2, 3 };
    int32_t       *doc     = malloc((size_t)c->rows * sizeof *doc);
    attending      a       = { .d = d };
    stack         *in[]    = { &a.qk, &a.qkv, &a.dout };
    CHECK(doc != NULL, "no memory");
    for (int i = 0; i < 3; i++) {
        *in[i] = like == NULL ? stack_random(d, t, 1, c->rows, parts[i] * wide, seeds[i])
                              : stack_make(d, t, 1, c->rows, parts[i] * wide);
        for (int64_t r = 0; like != NULL && r < c->rows; r++)
            for (int64_t j = 0; j < parts[i] * wide; j++)
                ms_put(in[i]->host, 0, r, j, ms_at(like[i]->host, 0, r, j));
        stack_send(in[i]);
    }
    a.out  = stack_make(d, t, 1, c->rows, wide);
    a.lse  = stack_make(d, ms_dtype_wide(t), c->heads, 1, c->rows);
    a.dqk  = stack_make(d, t, 1, c->rows, (c->apart ? 3 : 2) * wide);
    a.dqkv = stack_make(d, t, 1, c->rows, 3 * wide);
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
        doc[i]            = start;
        a.x.a.docs        = l + 1;
        const int64_t has = i + 1 - start;
        if (has > a.x.a.longest) a.x.a.longest = has;
    }
    a.x.a.scale   = 2.0 / sqrt((double)c->head);
    a.x.a.window  = c->window;
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

static void compare(const kind *c, size_t at, attending *got, attending *want)
{
    const int64_t wide = c->heads * c->head;
    const double  eps  = ms_dtype_eps(c->dtype);
    double        g[4], w[4];
    compare_rows("out", at, got->out.host, want->out.host, 0, wide, eps);
    compare_rows("dq", at, got->dqk.host, want->dqk.host, 0, wide, eps);
    compare_rows("dk", at, got->dqk.host, want->dqk.host, wide, wide, eps);
    compare_rows("dv", at, got->dqkv.host, want->dqkv.host, 2 * wide, wide, eps);
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

static void check_case(ms_device *gpu, ms_device *cpu, size_t at)
{
    const kind        *c       = &kinds[at];
    attending          got     = attending_make(gpu, c, c->dtype, NULL);
    const stack       *same[3] = { &got.qk, &got.qkv, &got.dout };
    attending          want    = attending_make(cpu, c, MUSEC_F64, same);
    const ms_cuda_attn x       = want.x;
    const ms_cuda_attn asked   = got.x;
    CHECK(ms_cuda_attention_dnn_serves(gpu, &asked, false), "case %zu is not served", at);
    CHECK(ms_cuda_attention_dnn_serves(gpu, &asked, true) != c->apart, "case %zu, backward", at);
    CHECK_OK(gpu, ms_cuda_attention_dnn(gpu, &asked));
    if (c->apart)
        CHECK_OK(gpu, ms_cuda_attention_any_grad(gpu, &asked));
    else
        CHECK_OK(gpu, ms_cuda_attention_dnn_grad(gpu, &asked));
    CHECK_OK(cpu, cpu->ops->attention(cpu, x.a, x.q, x.k, x.v, x.out, x.lse, x.max_logit));
    CHECK_OK(cpu, cpu->ops->attention_grad(cpu, x.a, x.q, x.k, x.v, x.out, x.lse, x.dout, x.dq,
                                           x.dk, x.dv));
    receive(&got), receive(&want);
    compare(c, at, &got, &want);
    attending_free(&got), attending_free(&want);
}

/* By plans that are made, and then by the same from what was kept of them: `made` is the files
 * that there are after. */
static void check_all(size_t *made)
{
    ms_device *gpu = NULL, *cpu = NULL;
    ms_names   files = { 0 };
    ms_error   e     = { "" };
    char       words[256];
    if (musec_ctx_create(&gpu, "cuda") != MUSEC_OK) SKIP("there is no CUDA device here");
    gpu->deterministic = false;
    ms_cuda_dnn_describe(gpu, words, sizeof words);
    if (strncmp(words, "no ", 3) == 0) {
        musec_ctx_destroy(gpu);
        SKIP("%s", words);
    }
    CHECK(musec_ctx_create(&cpu, "cpu") == MUSEC_OK, "no cpu");
    print_message("%s\n", words);
    for (size_t i = 0; i < COUNT(kinds); i++)
        check_case(gpu, cpu, i);
    musec_ctx_destroy(gpu);
    musec_ctx_destroy(cpu);
    CHECK_OK_ERR(&e, ms_directory_names(&e, getenv("MUSEC_CACHE"), &files));
    *made = files.n;
    ms_names_free(&files);
}

TEST(dnn_agrees_with_float64)
{
    size_t first = 0, then = 0;
    setenv("MUSEC_CACHE", fresh_dir(), 1);
    check_all(&first);
    CHECK(first > 0, "no plan was kept");
    check_all(&then);
    CHECK(then == first, "%zu plans, then %zu", first, then);
}

#else

TEST(dnn_agrees_with_float64) { SKIP("this build has no cuDNN"); }

#endif
