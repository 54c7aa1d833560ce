/* device_lists_test.c - grouped ops: matrices in a pointer array, called lists here, on every
 * device.
 *
 * A grouped op must give the bits that it gives for the matrices one by one; device_ops_test.c
 * tests single matrices.  The matrices lie in one buffer, with gaps, in another order than that of
 * the list, with leading dimensions of their own, and some are not aligned for vector loads.  There
 * are more of them than a launch takes at once.  What lies between them must stay unchanged. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "device_rig.h"
#include "linalg/scalar_programs.h"
#include "oracle.h"

enum { COUNT_OF_LIST = 131, ROWS = 9, COLS = 24, GAP = 7 };

/* ---- lists ----------------------------------------------------------------------------------- */

typedef struct list {
    ms_device  *d;
    ms_mat      mat;
    ms_mat_ptr *ptrs;
    void       *data; /* the buffer that they lie in */
    size_t      bytes;
} list;

/* The leading dimension: dense, or wider with or without keeping rows aligned. */
static int64_t ld_of(int64_t b, int64_t cols)
{
    static const int64_t more[] = { 0, 8, 0, 3, 1, 16 };
    return cols + more[b % (int64_t)COUNT(more)];
}

static list list_make(ms_device *d, musec_dtype dtype, int64_t rows, int64_t cols, uint64_t seed)
{
    const size_t  each = ms_dtype_bytes(dtype);
    const int64_t slot = rows * (cols + 16) + GAP; /* sometimes odd, so that some are not aligned */
    list          l    = { .d = d, .bytes = (size_t)(COUNT_OF_LIST * slot) * each };
    double       *x    = oracle_gaussian(COUNT_OF_LIST, slot, seed);
    ms_mat host = ms_mat_of(musec_view_dense(check_alloc(l.bytes), dtype, 1, COUNT_OF_LIST, slot));
    l.ptrs      = check_alloc(COUNT_OF_LIST * sizeof *l.ptrs);
    for (int64_t i = 0; i < COUNT_OF_LIST; i++)
        for (int64_t j = 0; j < slot; j++)
            ms_put(host, 0, i, j, x[i * slot + j]);
    CHECK_OK(d, d->ops->alloc(d, l.bytes, &l.data));
    CHECK_OK(d, d->ops->upload(d, host.data, l.bytes, l.data));
    CHECK_OK(d, d->ops->sync(d));
    for (int64_t b = 0; b < COUNT_OF_LIST; b++) {
        const int64_t at = b * 50 % COUNT_OF_LIST * slot + b % 3; /* 131 is a prime number */
        l.ptrs[b] =
            (ms_mat_ptr){ .data = (char *)l.data + (size_t)at * each, .ld = ld_of(b, cols) };
    }
    l.mat = (ms_mat){ .data  = l.ptrs[0].data,
                      .rows  = rows,
                      .cols  = cols,
                      .ld    = l.ptrs[0].ld,
                      .count = COUNT_OF_LIST,
                      .dtype = dtype,
                      .ptrs  = l.ptrs };
    free(host.data), free(x);
    return l;
}

static void list_free(list *l)
{
    l->d->ops->free(l->d, l->data);
    free(l->ptrs);
}

/* The buffers of two lists must be the same, gaps included. */
static void check_same(const list *got, const list *want, const char *what)
{
    unsigned char *a = malloc(got->bytes), *b = malloc(want->bytes);
    CHECK(a != NULL && b != NULL && got->bytes == want->bytes, "no memory");
    CHECK_OK(got->d, got->d->ops->download(got->d, got->data, got->bytes, a));
    CHECK_OK(got->d, got->d->ops->download(got->d, want->data, want->bytes, b));
    for (size_t i = 0; i < got->bytes; i++)
        CHECK(a[i] == b[i], "%s: byte %zu differs from that of the matrices one by one", what, i);
    free(a), free(b);
}

static void check_same_stacks(stack *got, stack *want, const char *what)
{
    stack_receive(got);
    stack_receive(want);
    CHECK(memcmp(got->host.data, want->host.data, got->bytes) == 0,
          "%s: the stack differs from its matrices one by one", what);
}

/* A stack of NaN, which no op may read. */
static stack poisoned(ms_device *d, musec_dtype dtype, int64_t rows, int64_t cols)
{
    stack s = stack_make(d, dtype, COUNT_OF_LIST, rows, cols);
    memset(s.host.data, 0xff, s.bytes);
    stack_send(&s);
    return s;
}

static ms_vec random_vec(ms_device *d, uint64_t seed)
{
    double      *x = oracle_gaussian(1, COUNT_OF_LIST, seed);
    const ms_vec v = vec_make(d, x, COUNT_OF_LIST);
    free(x);
    return v;
}

#define EACH_MATRIX(b) for (int64_t b = 0; b < COUNT_OF_LIST; b++)

/* Rows of whole vectors, rows that are not, one element, more than a thread block takes. */
static const struct {
    int64_t rows, cols;
} shapes[] = { { ROWS, COLS }, { 5, 13 }, { 1, 1 }, { 40, 130 } };

/* Calls `body` for each dtype of the device and each shape; the largest in float32 alone. */
static void each_case(ms_device *dev,
                      void (*body)(ms_device *dev, musec_dtype dtype, int64_t rows, int64_t cols))
{
    EACH_DTYPE_OF(dev, dtype, MUSEC_F16)
    for (size_t i = 0; i < COUNT(shapes); i++)
        if ((i < 3 || dtype == MUSEC_F32) && check_takes_case())
            body(dev, dtype, shapes[i].rows, shapes[i].cols);
}

#define TEST_GROUPED(op)                                                    \
    TEST_EACH_DEVICE(bits_of_grouped_##op##_are_those_of_single_calls, dev) \
    {                                                                       \
        each_case(dev, op##_case);                                          \
    }

/* ---- elements -------------------------------------------------------------------------------- */

/* From a list to a stack, also transposed; from a list to a list; from a stack to a list. */
static void copy_case(ms_device *dev, musec_dtype dtype, int64_t rows, int64_t cols)
{
    const ms_device_ops *op = dev->ops;
    list  x = list_make(dev, dtype, rows, cols, 1), to = list_make(dev, dtype, rows, cols, 2);
    list  one = list_make(dev, dtype, rows, cols, 2);
    stack s = poisoned(dev, dtype, rows, cols), t = poisoned(dev, dtype, rows, cols);
    stack trans = poisoned(dev, dtype, cols, rows), trans_one = poisoned(dev, dtype, cols, rows);

    CHECK_OK(dev, op->copy(dev, x.mat, s.mat));
    CHECK_OK(dev, op->copy(dev, ms_t(x.mat), trans.mat));
    CHECK_OK(dev, op->copy(dev, x.mat, to.mat));
    EACH_MATRIX(b)
    {
        const ms_mat from = ms_mat_slice(x.mat, b, 1);
        CHECK_OK(dev, op->copy(dev, from, ms_mat_slice(t.mat, b, 1)));
        CHECK_OK(dev, op->copy(dev, ms_t(from), ms_mat_slice(trans_one.mat, b, 1)));
        CHECK_OK(dev, op->copy(dev, from, ms_mat_slice(one.mat, b, 1)));
    }
    check_same_stacks(&s, &t, "copy");
    check_same_stacks(&trans, &trans_one, "copy of transposes");
    check_same(&to, &one, "copy to a list");

    CHECK_OK(dev, op->copy(dev, ms_t(trans.mat), to.mat));
    EACH_MATRIX(b)
    CHECK_OK(dev, op->copy(dev, ms_t(ms_mat_slice(trans.mat, b, 1)), ms_mat_slice(one.mat, b, 1)));
    check_same(&to, &one, "copy back");
    list_free(&x), list_free(&to), list_free(&one);
    stack_free(&s), stack_free(&t), stack_free(&trans), stack_free(&trans_one);
}

TEST_GROUPED(copy)

/* variant 0: constants; 1: one number per matrix; 2: y is not read */
static void axpby_case(ms_device *dev, musec_dtype dtype, int64_t rows, int64_t cols)
{
    const ms_device_ops *op    = dev->ops;
    ms_vec               alpha = random_vec(dev, 3), beta = random_vec(dev, 4);
    for (int variant = 0; variant < 3; variant++) {
        list   x = list_make(dev, dtype, rows, cols, 5), y = list_make(dev, dtype, rows, cols, 6);
        list   one = list_make(dev, dtype, rows, cols, 6);
        stack  s = poisoned(dev, dtype, rows, cols), t = poisoned(dev, dtype, rows, cols);
        ms_num by    = variant == 1 ? ms_each(alpha) : ms_const(0.7);
        ms_num keeps = variant == 1 ? ms_each(beta) : ms_const(variant == 2 ? 0.0 : -0.3);
        CHECK_OK(dev, op->axpby(dev, by, x.mat, keeps, y.mat));
        CHECK_OK(dev, op->axpby(dev, by, x.mat, ms_const(0.0), s.mat));
        EACH_MATRIX(b)
        {
            const ms_mat from = ms_mat_slice(x.mat, b, 1);
            CHECK_OK(dev, op->axpby(dev, ms_num_slice(by, b, 1), from, ms_num_slice(keeps, b, 1),
                                    ms_mat_slice(one.mat, b, 1)));
            CHECK_OK(dev, op->axpby(dev, ms_num_slice(by, b, 1), from, ms_const(0.0),
                                    ms_mat_slice(t.mat, b, 1)));
        }
        check_same(&y, &one, "axpby");
        check_same_stacks(&s, &t, "axpby to a stack");
        list_free(&x), list_free(&y), list_free(&one);
        stack_free(&s), stack_free(&t);
    }
    op->free(dev, alpha.data), op->free(dev, beta.data);
}

TEST_GROUPED(axpby)

/* x and the second out are lists, y and the first out stacks; then x in place. */
static void combine_case(ms_device *dev, musec_dtype dtype, int64_t rows, int64_t cols)
{
    const ms_device_ops *op   = dev->ops;
    ms_vec               coef = random_vec(dev, 7);
    list  x = list_make(dev, dtype, rows, cols, 8), out = list_make(dev, dtype, rows, cols, 9);
    list  same = list_make(dev, dtype, rows, cols, 8), one = list_make(dev, dtype, rows, cols, 9);
    stack y = stack_random(dev, dtype, COUNT_OF_LIST, rows, cols, 10);
    stack s = poisoned(dev, dtype, rows, cols), t = poisoned(dev, dtype, rows, cols);
    const ms_vec all      = { 0 };
    ms_term      terms[2] = {
             { ms_each(coef), ms_const(0.4), ms_const(1.5), s.mat, all },
             { ms_const(-1.25), ms_const(0.3), ms_each(coef), out.mat, all },
    };
    ms_term in_place = { ms_const(0.9), ms_each(coef), ms_const(0.0), x.mat, all };

    CHECK_OK(dev, op->combine(dev, x.mat, y.mat, terms, 2));
    CHECK_OK(dev, op->combine(dev, x.mat, y.mat, &in_place, 1));
    EACH_MATRIX(b)
    {
        const ms_mat  xs = ms_mat_slice(same.mat, b, 1), ys = ms_mat_slice(y.mat, b, 1);
        const ms_num  c         = ms_num_slice(ms_each(coef), b, 1);
        const ms_term single[2] = {
            { c, ms_const(0.4), ms_const(1.5), ms_mat_slice(t.mat, b, 1), all },
            { ms_const(-1.25), ms_const(0.3), c, ms_mat_slice(one.mat, b, 1), all },
        };
        const ms_term here = { ms_const(0.9), c, ms_const(0.0), xs, all };
        CHECK_OK(dev, op->combine(dev, xs, ys, single, 2));
        CHECK_OK(dev, op->combine(dev, xs, ys, &here, 1));
    }
    check_same(&out, &one, "combine");
    check_same(&x, &same, "combine in place");
    check_same_stacks(&s, &t, "combine");
    op->free(dev, coef.data);
    list_free(&x), list_free(&out), list_free(&same), list_free(&one);
    stack_free(&y), stack_free(&s), stack_free(&t);
}

TEST_GROUPED(combine)

/* ---- optimizers ------------------------------------------------------------------------------ */

static const ms_moments rates = { .beta1    = 0.9,
                                  .beta2    = 0.97,
                                  .beta3    = 0.99,
                                  .alpha    = -3.0,
                                  .eps      = 1e-3,
                                  .correct1 = 0.19,
                                  .correct2 = 0.0591 };

/* The states m, v and slow are stacks, the gradients and the steps are lists. */
static void moments_case(ms_device *dev, musec_dtype dtype, int64_t rows, int64_t cols)
{
    const ms_device_ops *op = dev->ops;
    for (int with_slow = 0; with_slow < 2; with_slow++) {
        list   g = list_make(dev, dtype, rows, cols, 11), u = list_make(dev, dtype, rows, cols, 12);
        list   one  = list_make(dev, dtype, rows, cols, 12);
        stack  m[2] = { { 0 } }, v[2] = { { 0 } }, slow[2] = { { 0 } };
        ms_mat none = { 0 };
        for (int i = 0; i < 2; i++) {
            m[i]    = stack_random(dev, dtype, COUNT_OF_LIST, rows, cols, 13);
            v[i]    = stack_make(dev, dtype, COUNT_OF_LIST, rows, cols);
            slow[i] = stack_random(dev, dtype, COUNT_OF_LIST, rows, cols, 14);
            CHECK_OK(dev, op->fill(dev, 0.75, v[i].mat));
        }
        CHECK_OK(dev, op->moments(dev, rates, g.mat, m[0].mat, v[0].mat,
                                  with_slow == 1 ? slow[0].mat : none, u.mat));
        EACH_MATRIX(b)
        CHECK_OK(dev, op->moments(dev, rates, ms_mat_slice(g.mat, b, 1),
                                  ms_mat_slice(m[1].mat, b, 1), ms_mat_slice(v[1].mat, b, 1),
                                  with_slow == 1 ? ms_mat_slice(slow[1].mat, b, 1) : none,
                                  ms_mat_slice(one.mat, b, 1)));
        check_same(&u, &one, "moments");
        check_same_stacks(&m[0], &m[1], "moments: m");
        check_same_stacks(&v[0], &v[1], "moments: v");
        check_same_stacks(&slow[0], &slow[1], "moments: slow");
        for (int i = 0; i < 2; i++)
            stack_free(&m[i]), stack_free(&v[i]), stack_free(&slow[i]);
        list_free(&g), list_free(&u), list_free(&one);
    }
}

TEST_GROUPED(moments)

/* Every copy must be its weight, rounded once more. */
static void check_copies(ms_device *dev, const list *w, const list *copy)
{
    unsigned char *ws = check_alloc(w->bytes), *cs = check_alloc(copy->bytes),
                  *rounded = check_alloc(8);
    CHECK_OK(dev, dev->ops->download(dev, w->data, w->bytes, ws));
    CHECK_OK(dev, dev->ops->download(dev, copy->data, copy->bytes, cs));
    EACH_MATRIX(b)
    {
        ms_mat x = ms_mat_slice(w->mat, b, 1), y = ms_mat_slice(copy->mat, b, 1), r = y;
        x.data = ws + ((char *)x.data - (char *)w->data);
        y.data = cs + ((char *)y.data - (char *)copy->data);
        r.data = rounded;
        for (int64_t i = 0; i < x.rows; i++)
            for (int64_t j = 0; j < x.cols; j++) {
                ms_put(r, 0, 0, 0, ms_at(x, 0, i, j));
                CHECK(ms_at(y, 0, i, j) == ms_at(r, 0, 0, 0), "copy (%lld, %lld, %lld): %g of %g",
                      (long long)b, (long long)i, (long long)j, ms_at(y, 0, i, j),
                      ms_at(x, 0, i, j));
            }
    }
    free(ws), free(cs), free(rounded);
}

typedef struct decay_call {
    ms_num step, decay;
    bool   cautious;
} decay_call;

/* u is a stack; the weights and their copies are lists. */
static void decay_add_once(ms_device *dev, musec_dtype u_dtype, musec_dtype dtype,
                           musec_dtype copy_dtype, int64_t rows, int64_t cols, decay_call c)
{
    const ms_device_ops *op = dev->ops;
    stack                u  = stack_random(dev, u_dtype, COUNT_OF_LIST, rows, cols, 15);
    list w = list_make(dev, dtype, rows, cols, 16), one = list_make(dev, dtype, rows, cols, 16);
    list copy = list_make(dev, copy_dtype, rows, cols, 17);
    list same = list_make(dev, copy_dtype, rows, cols, 17);
    CHECK_OK(dev, op->decay_add(dev, c.step, u.mat, c.decay, c.cautious, w.mat, copy.mat));
    EACH_MATRIX(b)
    CHECK_OK(dev, op->decay_add(dev, ms_num_slice(c.step, b, 1), ms_mat_slice(u.mat, b, 1),
                                ms_num_slice(c.decay, b, 1), c.cautious,
                                ms_mat_slice(one.mat, b, 1), ms_mat_slice(same.mat, b, 1)));
    check_same(&w, &one, "decay_add");
    check_same(&copy, &same, "decay_add: copies");
    check_copies(dev, &w, &copy);
    /* without copies, u is a list as well */
    CHECK_OK(dev, op->copy(dev, one.mat, u.mat));
    CHECK_OK(dev, op->copy(dev, u.mat, one.mat)); /* no more digits than u has */
    CHECK_OK(dev, op->copy(dev, u.mat, w.mat));
    CHECK_OK(dev, op->decay_add(dev, c.step, one.mat, c.decay, c.cautious, w.mat, (ms_mat){ 0 }));
    EACH_MATRIX(b)
    CHECK_OK(dev, op->decay_add(dev, ms_num_slice(c.step, b, 1), ms_mat_slice(u.mat, b, 1),
                                ms_num_slice(c.decay, b, 1), c.cautious,
                                ms_mat_slice(one.mat, b, 1), (ms_mat){ 0 }));
    check_same(&w, &one, "decay_add without copies");
    stack_free(&u);
    list_free(&w), list_free(&one), list_free(&copy), list_free(&same);
}

static void decay_add_case(ms_device *dev, musec_dtype dtype, int64_t rows, int64_t cols)
{
    double      *steps = oracle_gaussian(1, COUNT_OF_LIST, 18);
    double      *decay = oracle_gaussian(1, COUNT_OF_LIST, 19);
    const ms_vec vec   = random_vec(dev, 20);
    /* a number per matrix in host or in device memory, or a constant */
    const decay_call calls[] = {
        { ms_const(0.3), ms_const(0.2), false },
        { ms_host(steps), ms_host(decay), true },
        { ms_each(vec), ms_host(decay), false },
        { ms_host(steps), ms_const(0.1), false },
    };
    for (size_t i = 0; i < COUNT(calls); i++) {
        decay_add_once(dev, dtype, dtype, dtype, rows, cols, calls[i]);
        if (!ms_device_has(dev, MUSEC_BF16)) continue;
        decay_add_once(dev, dtype, dtype, MUSEC_BF16, rows, cols, calls[i]);
        if (dtype != MUSEC_F32) continue;
        decay_add_once(dev, MUSEC_F16, dtype, MUSEC_BF16, rows, cols, calls[i]);
        decay_add_once(dev, MUSEC_BF16, dtype, MUSEC_F16, rows, cols, calls[i]);
    }
    dev->ops->free(dev, vec.data);
    free(steps), free(decay);
}

TEST_GROUPED(decay_add)

TEST_EACH_DEVICE(decay_add_takes_a_host_number_per_matrix_of_a_stack, dev)
{
    double *steps = oracle_gaussian(1, COUNT_OF_LIST, 21);
    stack   u     = stack_random(dev, MUSEC_F32, COUNT_OF_LIST, ROWS, COLS, 22);
    stack   w     = stack_random(dev, MUSEC_F32, COUNT_OF_LIST, ROWS, COLS, 23);
    stack   one   = stack_random(dev, MUSEC_F32, COUNT_OF_LIST, ROWS, COLS, 23);
    CHECK_OK(dev, dev->ops->decay_add(dev, ms_host(steps), u.mat, ms_const(0.1), false, w.mat,
                                      (ms_mat){ 0 }));
    EACH_MATRIX(b)
    CHECK_OK(dev,
             dev->ops->decay_add(dev, ms_const(steps[b]), ms_mat_slice(u.mat, b, 1), ms_const(0.1),
                                 false, ms_mat_slice(one.mat, b, 1), (ms_mat){ 0 }));
    check_same_stacks(&w, &one, "decay_add");
    stack_free(&u), stack_free(&w), stack_free(&one);
    free(steps);
}

/* ---- reductions and scalars ------------------------------------------------------------------ */

static void check_vecs(ms_device *dev, ms_vec got, ms_vec want, const char *what)
{
    double a[COUNT_OF_LIST], b[COUNT_OF_LIST];
    CHECK_OK(dev, ms_vec_download(dev, got, a));
    CHECK_OK(dev, ms_vec_download(dev, want, b));
    for (size_t i = 0; i < COUNT_OF_LIST; i++)
        CHECK(memcmp(&a[i], &b[i], sizeof a[i]) == 0 || (isnan(a[i]) && isnan(b[i])),
              "%s of matrix %zu: %.17g in the list, %.17g alone", what, i, a[i], b[i]);
}

/* A few matrices get a NaN as their last element or an infinity as their first. */
static void put_nonfinite(ms_device *dev, list *l)
{
    const float  bad32[] = { NAN, INFINITY };
    const double bad64[] = { NAN, INFINITY };
    for (int64_t b = 0; b < COUNT_OF_LIST && l->mat.dtype <= MUSEC_F64; b += 10) {
        const int64_t at   = (l->mat.rows - 1) * l->ptrs[b].ld + l->mat.cols - 1;
        const size_t  each = ms_dtype_bytes(l->mat.dtype);
        const int     k    = (int)(b / 10 % 2);
        const void   *bad  = each == 4 ? (const void *)&bad32[k] : &bad64[k];
        char         *to   = (char *)l->ptrs[b].data + (k == 0 ? (size_t)at * each : 0);
        CHECK_OK(dev, dev->ops->upload(dev, bad, each, to));
        CHECK_OK(dev, dev->ops->sync(dev));
    }
}

/* x is a stack, y a list with NaN and infinity. */
static void average_case(ms_device *dev, musec_dtype dtype, int64_t rows, int64_t cols)
{
    const ms_device_ops *op = dev->ops;
    const musec_dtype    outs =
        dtype == MUSEC_F32 && ms_device_has(dev, MUSEC_F16) ? MUSEC_F16 : dtype;
    ms_vec coef = random_vec(dev, 31);
    ms_vec max = random_vec(dev, 32), max_one = random_vec(dev, 33);
    stack  x = stack_random(dev, dtype, COUNT_OF_LIST, rows, cols, 34);
    list   y = list_make(dev, dtype, rows, cols, 35);
    stack  s = poisoned(dev, outs, rows, cols), t = poisoned(dev, outs, rows, cols);
    put_nonfinite(dev, &y);
    CHECK_OK(dev, op->average(dev, ms_each(coef), x.mat, ms_const(0.4), y.mat, s.mat, max));
    EACH_MATRIX(b)
    {
        const ms_term term = { .x_coef = ms_num_slice(ms_each(coef), b, 1),
                               .y_coef = ms_const(0.4),
                               .out    = ms_mat_slice(t.mat, b, 1) };
        CHECK_OK(dev,
                 op->combine(dev, ms_mat_slice(x.mat, b, 1), ms_mat_slice(y.mat, b, 1), &term, 1));
        CHECK_OK(dev, op->absmax(dev, ms_mat_slice(y.mat, b, 1), ms_vec_slice(max_one, b, 1)));
    }
    check_same_stacks(&s, &t, "average");
    check_vecs(dev, max, max_one, "average");
    op->free(dev, coef.data), op->free(dev, max.data), op->free(dev, max_one.data);
    list_free(&y);
    stack_free(&x), stack_free(&s), stack_free(&t);
}

TEST_GROUPED(average)

static void reductions_case(ms_device *dev, musec_dtype dtype, int64_t rows, int64_t cols)
{
    typedef musec_status     reduction(ms_device * d, ms_mat x, ms_vec out);
    reduction *const         ops[]   = { dev->ops->sum, dev->ops->sumsq, dev->ops->absmax,
                                         dev->ops->count_nonfinite };
    static const char *const names[] = { "sum", "sumsq", "absmax", "count_nonfinite" };
    for (int with_nan = 0; with_nan < 2; with_nan++) {
        list   x   = list_make(dev, dtype, rows, cols, 24);
        stack  s   = stack_make(dev, dtype, COUNT_OF_LIST, rows, cols);
        ms_vec got = random_vec(dev, 25), want = random_vec(dev, 26);
        if (with_nan == 1) put_nonfinite(dev, &x);
        CHECK_OK(dev, dev->ops->copy(dev, x.mat, s.mat));
        for (size_t i = 0; i < COUNT(ops); i++) {
            CHECK_OK(dev, ops[i](dev, x.mat, got));
            EACH_MATRIX(b)
            CHECK_OK(dev, ops[i](dev, ms_mat_slice(x.mat, b, 1), ms_vec_slice(want, b, 1)));
            check_vecs(dev, got, want, names[i]);
            CHECK_OK(dev, ops[i](dev, s.mat, got)); /* sums have an order by the shape alone */
            check_vecs(dev, got, want, names[i]);
        }
        dev->ops->free(dev, got.data), dev->ops->free(dev, want.data);
        stack_free(&s);
        list_free(&x);
    }
}

TEST_GROUPED(reductions)

/* The inputs are in host memory, in device memory, and constants. */
TEST_EACH_DEVICE(scalar_programs_take_numbers_of_every_kind, dev)
{
    double *x[2] = { oracle_gaussian(1, COUNT_OF_LIST, 27), oracle_gaussian(1, COUNT_OF_LIST, 28) };
    const ms_vec          each = random_vec(dev, 29);
    const ms_handoff_vecs got  = { random_vec(dev, 30), random_vec(dev, 30) };
    const ms_handoff_vecs want = { random_vec(dev, 31), random_vec(dev, 31) };
    for (int turn = 0; turn < 2; turn++) {
        ms_handoff_nums in = { .stage    = ms_const(0.0),
                               .n_stages = ms_host(x[0]),
                               .e1       = ms_host(x[1]),
                               .e0       = turn == 0 ? ms_each(each) : ms_const(0.25) };
        CHECK_OK(dev, ms_scalar_handoff(dev, in, got));
        const ms_num last = in.e0;
        EACH_MATRIX(b)
        {
            in.n_stages = ms_const(x[0][b]);
            in.e1       = ms_const(x[1][b]);
            in.e0       = ms_num_slice(last, b, 1);
            CHECK_OK(dev, ms_scalar_handoff(dev, in,
                                            (ms_handoff_vecs){ ms_vec_slice(want.e1, b, 1),
                                                               ms_vec_slice(want.e0, b, 1) }));
        }
        check_vecs(dev, got.e1, want.e1, "scalars");
        check_vecs(dev, got.e0, want.e0, "scalars");
    }
    const ms_vec all[] = { got.e1, got.e0, want.e1, want.e0, each };
    for (size_t k = 0; k < COUNT(all); k++)
        dev->ops->free(dev, all[k].data);
    free(x[0]), free(x[1]);
}
