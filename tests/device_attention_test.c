/* device_attention_test.c - properties of attention that need no reference: averages, boundaries of
 * documents and windows, an exact largest logit, finite results where logits are huge.
 *
 * Bounds are a few eps of the arithmetic for each operation, and n eps for a sum of n terms; where
 * numbers are small integers and powers of two nothing is rounded, and the answer is exact.  With
 * operands of 16 bits the arithmetic is float32, but weights are rounded to 16 bits before they
 * meet the values, and so is the result: op_attention.c says how much that is. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "device_rig.h"
#include "timing.h"

typedef struct attending {
    ms_device *d;
    ms_attn    attn;
    int32_t   *doc; /* host */
    stack      q, k, v, out, lse, dout, dq, dk, dv;
    double     max_logit[2];
    ms_vec     max_vec;
} attending;

static const int32_t doc_lengths[] = { 5, 1, 30, 1, 1, 60, 200 };

static attending attending_make(ms_device *d, musec_dtype t, int64_t rows, int64_t head,
                                int64_t window)
{
    attending a    = { .d = d, .doc = check_alloc((size_t)rows * sizeof *a.doc) };
    stack    *in[] = { &a.q, &a.k, &a.v, &a.dout }, *made[] = { &a.out, &a.dq, &a.dk, &a.dv };
    for (int32_t i = 0, start = 0, l = 0; i < rows; i++) {
        if (i == start + doc_lengths[l]) start += doc_lengths[l++];
        a.doc[i] = start;
    }
    for (size_t i = 0; i < COUNT(in); i++) {
        *in[i]   = stack_random(d, t, 2, rows, head, 10 + i);
        *made[i] = stack_make(d, t, 2, rows, head);
    }
    a.lse          = stack_make(d, ms_dtype_accum(t), 2, 1, rows);
    a.attn         = (ms_attn){ .scale  = 1.0 / sqrt((double)head),
                                .window = window,
                                .doc    = ids_make(d, a.doc, rows) };
    a.max_logit[0] = a.max_logit[1] = (double)-INFINITY;
    a.max_vec                       = vec_make(d, a.max_logit, 2);
    return a;
}

/* The first may be one that fast kernels do not support, the others are those that they are for:
 * kernels for 16 bits, which `ref` lacks. */
static const int64_t head_sizes[] = { 6, 64, 128 };

static bool is_half(musec_dtype t) { return ms_dtype_bytes(t) == 2; }

static size_t n_heads(const ms_device *d, musec_dtype t)
{
    return is_half(t) && strcmp(d->kind->name, "ref") != 0 ? COUNT(head_sizes) : 1;
}

/* The error of a weighted sum by rounding to 16 bits, relative to the sum of absolute values. */
static double rounding_16bit(musec_dtype t) { return is_half(t) ? 1.5 * ms_dtype_eps(t) : 0.0; }

static bool sees(const attending *a, int64_t i, int64_t j)
{
    return j <= i && j >= a->doc[i] && j >= i - a->attn.window;
}

static void attend(attending *a)
{
    const ms_device_ops *op = a->d->ops;
    CHECK_OK(a->d, op->attention(a->d, a->attn, a->q.mat, a->k.mat, a->v.mat, a->out.mat,
                                 a->lse.mat, a->max_vec));
    stack_receive(&a->out), stack_receive(&a->lse);
    CHECK_OK(a->d, ms_vec_download(a->d, a->max_vec, a->max_logit));
}

static void attend_back(attending *a)
{
    CHECK_OK(a->d,
             a->d->ops->attention_grad(a->d, a->attn, a->q.mat, a->k.mat, a->v.mat, a->out.mat,
                                       a->lse.mat, a->dout.mat, a->dq.mat, a->dk.mat, a->dv.mat));
    stack_receive(&a->dq), stack_receive(&a->dk), stack_receive(&a->dv);
}

static void attending_free(attending *a)
{
    stack *all[] = { &a->q, &a->k, &a->v, &a->out, &a->lse, &a->dout, &a->dq, &a->dk, &a->dv };
    for (size_t i = 0; i < COUNT(all); i++)
        stack_free(all[i]);
    a->d->ops->free(a->d, a->attn.doc.data);
    a->d->ops->free(a->d, a->max_vec.data);
    free(a->doc);
}

static void check_means(const attending *a, musec_dtype t, int64_t h, int64_t i)
{
    const double eps  = ms_dtype_eps(ms_dtype_accum(t));
    double       keys = 0.0;
    for (int64_t j = 0; j <= i; j++)
        keys += sees(a, i, j) ? 1.0 : 0.0;
    CHECK(fabs(ms_at(a->lse.host, h, 0, i) - log(keys)) <= 8.0 * (1.0 + keys) * eps,
          "lse of %g keys: %g", keys, ms_at(a->lse.host, h, 0, i));
    for (int64_t l = 0; l < a->v.mat.cols; l++) {
        double sum = 0.0, size = 0.0;
        for (int64_t j = 0; j <= i; j++) {
            sum += sees(a, i, j) ? ms_at(a->v.host, h, j, l) : 0.0;
            size += sees(a, i, j) ? fabs(ms_at(a->v.host, h, j, l)) : 0.0;
        }
        CHECK(fabs(ms_at(a->out.host, h, i, l) - sum / keys) <=
                  ((keys + 8.0) * eps + rounding_16bit(t)) * size / keys,
              "%s: row %lld", ms_dtype_name(t), (long long)i);
    }
}

TEST_EACH_DEVICE(equal_logits_give_the_mean, dev)
{
    static const int64_t windows[] = { 0, 3, 64, 149, INT64_MAX };
    EACH_DTYPE_OF(dev, t, MUSEC_F16)
    for (size_t w = 0; w < COUNT(windows); w++)
        for (size_t s = 0; s < n_heads(dev, t); s++) {
            attending a = attending_make(dev, t, 150, head_sizes[s], windows[w]);
            memset(a.q.host.data, 0, a.q.bytes);
            stack_send(&a.q);
            attend(&a);
            for (int64_t h = 0; h < 2; h++)
                for (int64_t i = 0; i < 150; i++)
                    check_means(&a, t, h, i);
            CHECK(a.max_logit[0] == 0.0 && a.max_logit[1] == 0.0, "largest %g", a.max_logit[0]);
            attending_free(&a);
        }
}

static bool same_row(ms_mat x, const void *before, int64_t h, int64_t i)
{
    const size_t each = ms_dtype_bytes(x.dtype);
    const size_t at   = (size_t)ms_mat_offset(x, h, i, 0) * each;
    return memcmp((const char *)x.data + at, (const char *)before + at, (size_t)x.cols * each) == 0;
}

static void *copy_of(const stack *s)
{
    void *p = check_alloc(s->bytes);
    return memcpy(p, s->host.data, s->bytes);
}

/* Whether a row is the same exactly if the change is not seen from it.  In 16 bits a change that is
 * seen may be too small to show. */
static bool agrees_with(bool same, bool seen, musec_dtype t)
{
    return is_half(t) ? seen || same : same == !seen;
}

/* With another gradient of row `at` of head 0 exactly the keys that it sees change. */
static void check_seen_backward(attending *a, musec_dtype t, int64_t at, const void *dk,
                                const void *dv)
{
    for (int64_t l = 0; l < a->q.mat.cols; l++)
        ms_put(a->dout.host, 0, at, l, ms_at(a->dout.host, 0, at, l) + 1.0);
    stack_send(&a->dout);
    attend_back(a);
    for (int64_t j = 0; j < a->q.mat.rows; j++) {
        CHECK(agrees_with(same_row(a->dv.host, dv, 0, j), sees(a, at, j), t), "dv %lld by row %lld",
              (long long)j, (long long)at);
        CHECK(sees(a, at, j) || same_row(a->dk.host, dk, 0, j), "dk %lld by row %lld", (long long)j,
              (long long)at);
        CHECK(same_row(a->dv.host, dv, 1, j) && same_row(a->dk.host, dk, 1, j), "head 1");
    }
}

/* With another key `at` of head 0 exactly the rows that see it change. */
static void check_seen_forward(attending *a, musec_dtype t, int64_t at, const void *out)
{
    for (int64_t l = 0; l < a->q.mat.cols; l++)
        ms_put(a->k.host, 0, at, l, ms_at(a->k.host, 0, at, l) + (l % 2 == 0 ? 0.5 : -0.25));
    stack_send(&a->k);
    attend(a);
    for (int64_t i = 0; i < a->q.mat.rows; i++) {
        const bool alone = a->doc[i] == i; /* the weight of a single key is always 1 */
        CHECK(agrees_with(same_row(a->out.host, out, 0, i), sees(a, i, at) && !alone, t),
              "row %lld by key %lld", (long long)i, (long long)at);
        CHECK(same_row(a->out.host, out, 1, i), "head 1");
    }
}

/* Head 1 does not depend on head 0. */
TEST_EACH_DEVICE(rows_depend_on_what_they_see_alone, dev)
{
    static const struct {
        int64_t rows, head, window, step;
    } sizes[] = { { 40, 6, 7, 1 }, { 150, 64, 40, 7 }, { 280, 6, 64, 13 }, { 280, 128, 100, 93 } };
    EACH_DTYPE_OF(dev, t, MUSEC_F16)
    for (size_t s = 0; s < COUNT(sizes); s++) {
        if (t == MUSEC_F64 || (sizes[s].head > 6 && n_heads(dev, t) == 1 && t != MUSEC_F32))
            continue;
        attending a = attending_make(dev, t, sizes[s].rows, sizes[s].head, sizes[s].window);
        attend(&a), attend_back(&a);
        void *out = copy_of(&a.out), *dk = copy_of(&a.dk), *dv = copy_of(&a.dv);
        void *k = copy_of(&a.k), *dout = copy_of(&a.dout);
        for (int64_t at = 0; at < sizes[s].rows; at += sizes[s].step) {
            if (!check_takes_case()) continue;
            check_seen_backward(&a, t, at, dk, dv);
            check_seen_forward(&a, t, at, out);
            memcpy(a.k.host.data, k, a.k.bytes);
            memcpy(a.dout.host.data, dout, a.dout.bytes);
            stack_send(&a.k), stack_send(&a.dout);
            attend(&a); /* out and lse for the gradient */
        }
        free(out), free(dk), free(dv), free(k), free(dout);
        attending_free(&a);
    }
}

/* Operands are small integers, so that logits are exact.  Neither the cap counts nor keys that are
 * not seen: key 3 has large logits with all rows but those that see it. */
TEST_EACH_DEVICE(max_logit_is_exact_and_accumulates, dev)
{
    const double above = 4096.0;
    EACH_DTYPE_OF(dev, t, MUSEC_F16)
    for (size_t s = 0; s < n_heads(dev, t); s++) {
        attending a       = attending_make(dev, t, 150, head_sizes[s], 20);
        double    want[2] = { (double)-INFINITY, above };
        a.attn.scale      = 0.5;
        a.attn.softcap    = 3.0;
        for (int64_t h = 0; h < 2; h++)
            for (int64_t i = 0; i < 150; i++) {
                for (int64_t l = 0; l < head_sizes[s]; l++) {
                    ms_put(a.q.host, h, i, l, (double)((i * 7 + l * 3 + h) % 5 - 3));
                    ms_put(a.k.host, h, i, l, (double)((i * 5 + l * 11 + h) % 7 - 2));
                }
                ms_put(a.q.host, h, i, 0, sees(&a, i, 3) ? -1.0 : 1.0);
                ms_put(a.k.host, h, i, 0, i == 3 ? 1024.0 : 0.0);
            }
        stack_send(&a.q), stack_send(&a.k);
        dev->ops->free(dev, a.max_vec.data);
        a.max_vec = vec_make(dev, want, 2);
        for (int64_t i = 0; i < 150; i++)
            for (int64_t j = 0; j <= i; j++)
                if (sees(&a, i, j))
                    want[0] = fmax(want[0], 0.5 * row_dot(a.q.host, 0, i, a.k.host, 0, j));
        CHECK(want[0] < above, "the case is not what it was made for");
        attend(&a);
        CHECK(a.max_logit[0] == want[0], "%.17g is not %.17g", a.max_logit[0], want[0]);
        CHECK(a.max_logit[1] == above, "a larger one is lost: %g", a.max_logit[1]);
        attending_free(&a);
    }
}

static bool is_finite(ms_mat x)
{
    for (int64_t h = 0; h < x.count; h++)
        for (int64_t i = 0; i < x.rows; i++)
            for (int64_t l = 0; l < x.cols; l++)
                if (!isfinite(ms_at(x, h, i, l))) return false;
    return true;
}

/* Logits are about -1e4, but 2e4 for key 41, whose weight is 1 in every row that sees it: exactly
 * on the host, and on a GPU but for the rounding of a logit. */
TEST_EACH_DEVICE(huge_logits_choose_one_key, dev)
{
    const bool host = ms_is_on_host(dev);
    EACH_DTYPE_OF(dev, t, MUSEC_BF16) /* gradients are beyond the range of f16 */
    for (size_t s = 0; s < n_heads(dev, t); s++) {
        attending    a     = attending_make(dev, t, 150, head_sizes[s], 1000);
        const double off   = 4.0 * (ms_dtype_eps(t) + 2e4 * ms_dtype_eps(ms_dtype_accum(t)));
        const double close = host ? 0.0 : off;
        memset(a.q.host.data, 0, a.q.bytes);
        memset(a.k.host.data, 0, a.k.bytes);
        a.attn.scale = 1.0;
        for (int64_t i = 0; i < 150; i++) {
            ms_put(a.q.host, 0, i, 0, -1e4);
            ms_put(a.k.host, 0, i, 0, i == 41 ? -2.0 : 1.0);
        }
        stack_send(&a.q), stack_send(&a.k);
        attend(&a), attend_back(&a);
        for (int64_t i = 0; i < 150; i++)
            for (int64_t l = 0; l < head_sizes[s] && sees(&a, i, 41); l++) {
                const double got = ms_at(a.out.host, 0, i, l), want = ms_at(a.v.host, 0, 41, l);
                CHECK(fabs(got - want) <= close * fabs(want), "row %lld is not value 41",
                      (long long)i);
            }
        CHECK(is_finite(a.out.host) && is_finite(a.lse.host), "forward");
        CHECK(is_finite(a.dq.host) && is_finite(a.dk.host) && is_finite(a.dv.host), "backward");
        CHECK(a.max_logit[0] == -2.0 * ms_at(a.q.host, 0, 0, 0), "largest %g", a.max_logit[0]);
        attending_free(&a);
    }
}

TEST_EACH_DEVICE(a_nan_key_spoils_the_rows_that_see_it_and_the_maximum, dev)
{
    EACH_DTYPE_OF(dev, t, MUSEC_F16)
    for (size_t s = 0; s < n_heads(dev, t); s++) {
        attending a = attending_make(dev, t, 150, head_sizes[s], 20);
        ms_put(a.k.host, 0, 45, 2, (double)NAN);
        stack_send(&a.k);
        attend(&a);
        for (int64_t i = 0; i < 150; i++) {
            CHECK(isnan(ms_at(a.out.host, 0, i, 0)) == sees(&a, i, 45), "row %lld", (long long)i);
            CHECK(isnan(ms_at(a.lse.host, 0, 0, i)) == sees(&a, i, 45), "lse %lld", (long long)i);
            CHECK(!isnan(ms_at(a.out.host, 1, i, 0)), "head 1");
        }
        CHECK(isnan(a.max_logit[0]) && !isnan(a.max_logit[1]), "largest %g", a.max_logit[0]);
        attend(&a);
        CHECK(isnan(a.max_logit[0]), "the next run forgets it");
        attending_free(&a);
    }
}
