/* device_network_test.c - properties of the network ops that need no reference: the order of sums,
 * norms that stay, losses that are logarithms.  device_ops_test.c compares the other devices with
 * `ref`; these tests hold for `ref` as well.  device_attention_test.c does the same for attention.
 *
 * Bounds are a few eps of the dtype for each operation, and n eps for a sum of n terms; where
 * numbers are small integers and powers of two nothing is rounded, and the answer is exact. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "device_rig.h"
#include "timing.h"

/* ---- rows ------------------------------------------------------------------------------------ */

/* The gradient of a table, whose rows get the gradients of their tokens in the tokens' order. */
static stack check_embed_grad(ms_device *dev, ms_ids ids, const int32_t *tokens, const stack *dout,
                              musec_dtype t, int64_t rows)
{
    const int64_t cols = dout->mat.cols;
    stack         dtab = stack_random(dev, t, 1, rows, cols, 2);
    stack         want = stack_random(dev, t, 1, rows, cols, 2);
    for (int64_t i = 0; i < ids.count; i++)
        for (int64_t j = 0; j < cols; j++)
            ms_put(want.host, 0, tokens[i], j,
                   ms_at(want.host, 0, tokens[i], j) + ms_at(dout->host, 0, i, j));
    CHECK_OK(dev, dev->ops->embed_grad(dev, ids, dout->mat, dtab.mat));
    stack_receive(&dtab);
    CHECK(memcmp(dtab.host.data, want.host.data, want.bytes) == 0,
          "%s, %lld columns: another order or sum", ms_dtype_name(dout->mat.dtype),
          (long long)cols);
    stack_free(&want);
    return dtab;
}

TEST_EACH_DEVICE(embed_reads_rows_and_its_gradient_adds_in_order, dev)
{
    enum { TOKENS = 9, ROWS = 4, COLS = 5 };
    static const int32_t tokens[TOKENS] = { 3, 0, 3, 3, 0, 3, 2, 3, 3 };
    const ms_ids         ids            = ids_make(dev, tokens, TOKENS);
    EACH_DTYPE(t)
    {
        stack dout = stack_random(dev, t, 1, TOKENS, COLS, 1);
        stack dtab = check_embed_grad(dev, ids, tokens, &dout, t, ROWS);
        CHECK_OK(dev, dev->ops->embed(dev, ids, dtab.mat, dout.mat));
        stack_receive(&dout);
        for (int64_t i = 0; i < TOKENS; i++)
            for (int64_t j = 0; j < COLS; j++)
                CHECK(ms_at(dout.host, 0, i, j) == ms_at(dtab.host, 0, tokens[i], j),
                      "token %lld is not row %d", (long long)i, tokens[i]);
        stack_free(&dout), stack_free(&dtab);
    }
    dev->ops->free(dev, ids.data);
}

/* Some ids occur once, some a few times, one so often that another algorithm adds its rows.  The
 * widths are read in vectors, in pairs and one by one. */
TEST_EACH_DEVICE(embed_grad_of_frequent_ids_adds_in_order, dev)
{
    enum { TOKENS = 700, ROWS = 300 };
    static const musec_dtype dtypes[] = { MUSEC_F32, MUSEC_BF16, MUSEC_F16 };
    static const int64_t     widths[] = { 264, 6, 7 };
    int32_t                  tokens[TOKENS];
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = i % 3 != 0 ? 5 : i % 2 != 0 ? 7 + i % 4 : i % ROWS;
    const ms_ids ids = ids_make(dev, tokens, TOKENS);
    for (size_t t = 0; t < COUNT(dtypes); t++)
        for (size_t w = 0; w < COUNT(widths) && ms_device_has(dev, dtypes[t]); w++) {
            stack dout = stack_random(dev, dtypes[t], 1, TOKENS, widths[w], 1);
            stack dtab = check_embed_grad(dev, ids, tokens, &dout, MUSEC_F32, ROWS);
            stack_free(&dout), stack_free(&dtab);
        }
    dev->ops->free(dev, ids.data);
}

/* Whatever the size of a row, its rms becomes 1, and its gradient is orthogonal to it. */
TEST_EACH_DEVICE(rmsnorm_gives_rms_one, dev)
{
    static const double sizes[] = { 1.0, 1e-6, 1e6, 3.0, 0.0 };
    enum { COLS = 77, ROWS = COUNT(sizes) };
    EACH_DTYPE(t)
    {
        const double eps = ms_dtype_eps(t);
        stack x = stack_random(dev, t, 1, ROWS, COLS, 3), y = stack_make(dev, t, 1, ROWS, COLS);
        stack g = stack_random(dev, t, 1, ROWS, COLS, 4), dx = stack_make(dev, t, 1, ROWS, COLS);
        for (int64_t i = 0; i < ROWS; i++)
            for (int64_t j = 0; j < COLS; j++)
                ms_put(x.host, 0, i, j, sizes[i] * ms_at(x.host, 0, i, j));
        stack_send(&x);
        CHECK_OK(dev, dev->ops->rmsnorm(dev, 1e-36, x.mat, y.mat));
        CHECK_OK(dev, dev->ops->rmsnorm_grad(dev, 1e-36, x.mat, g.mat, 0.0, dx.mat));
        stack_receive(&y), stack_receive(&dx);
        for (int64_t i = 0; i < ROWS; i++) {
            const double rms  = sqrt(row_dot(y.host, 0, i, y.host, 0, i) / COLS);
            const double want = sizes[i] == 0.0 ? 0.0 : 1.0;
            CHECK(fabs(rms - want) <= COLS * eps, "row %lld: %g", (long long)i, rms);
            if (sizes[i] == 0.0) continue;
            const double along = row_dot(dx.host, 0, i, x.host, 0, i);
            const double size  = sqrt(row_dot(g.host, 0, i, g.host, 0, i) * COLS);
            CHECK(fabs(along) <= 4.0 * COLS * eps * size, "row %lld: %g along it", (long long)i,
                  along);
        }
        stack_free(&x), stack_free(&y), stack_free(&g), stack_free(&dx);
    }
}

/* Rows of threes with eps 7 have r = 1/4.  dout is orthogonal to them: dx <- beta dx + dout / 4. */
TEST_EACH_DEVICE(rmsnorm_adds_eps_and_beta, dev)
{
    enum { COLS = 8 };
    EACH_DTYPE_OF(dev, t, MUSEC_F16)
    {
        /* exact on the host; a GPU may be off by the rounding of a square root */
        const double close = ms_is_on_host(dev) ? 0.0 : 2.0 * ms_dtype_eps(t);
        stack        x = stack_make(dev, t, 1, 1, COLS), y = stack_make(dev, t, 1, 1, COLS);
        stack        g = stack_make(dev, t, 1, 1, COLS), dx = stack_make(dev, t, 1, 1, COLS);
        for (int64_t j = 0; j < COLS; j++)
            ms_put(g.host, 0, 0, j, j % 2 == 0 ? 1.0 : -1.0);
        stack_send(&g);
        CHECK_OK(dev, dev->ops->fill(dev, 3.0, x.mat));
        CHECK_OK(dev, dev->ops->fill(dev, 8.0, dx.mat));
        CHECK_OK(dev, dev->ops->rmsnorm(dev, 7.0, x.mat, y.mat));
        CHECK_OK(dev, dev->ops->rmsnorm_grad(dev, 7.0, x.mat, g.mat, 0.5, dx.mat));
        stack_receive(&y), stack_receive(&dx);
        for (int64_t j = 0; j < COLS; j++) {
            const double out = ms_at(y.host, 0, 0, j), grad = ms_at(dx.host, 0, 0, j);
            CHECK(fabs(out - 0.75) <= close, "%g", out);
            CHECK(fabs(grad - (j % 2 == 0 ? 4.25 : 3.75)) <= 4.0 * close, "%g", grad);
        }
        stack_free(&x), stack_free(&y), stack_free(&g), stack_free(&dx);
    }
}

/* ---- rope ------------------------------------------------------------------------------------ */

enum { POSITIONS = 40, HEAD = 12, PAIRS = 4 }; /* the other two pairs of columns are not rotated */

typedef struct rotation {
    stack   cos, sin;
    ms_rope rope;
} rotation;

static rotation rotation_make(ms_device *d, musec_dtype t, bool adjacent, double norm_eps)
{
    rotation r = { .cos = stack_make(d, t, 1, POSITIONS, PAIRS),
                   .sin = stack_make(d, t, 1, POSITIONS, PAIRS) };
    for (int64_t i = 0; i < POSITIONS; i++)
        for (int64_t j = 0; j < PAIRS; j++) {
            ms_put(r.cos.host, 0, i, j, cos((double)i / (double)(j + 1)));
            ms_put(r.sin.host, 0, i, j, sin((double)i / (double)(j + 1)));
        }
    stack_send(&r.cos), stack_send(&r.sin);
    r.rope =
        (ms_rope){ .cos = r.cos.mat, .sin = r.sin.mat, .adjacent = adjacent, .norm_eps = norm_eps };
    return r;
}

static void rotation_free(rotation *r) { stack_free(&r->cos), stack_free(&r->sin); }

/* The same q and k stand at every position.  Their lengths stay, q.k depends on their distance
 * alone, columns beyond the pairs keep their bits, and the gradient rotates back. */
TEST_EACH_DEVICE(rope_is_relative, dev)
{
    EACH_DTYPE(t)
    {
        for (int adjacent = 0; adjacent < 2; adjacent++) {
            const double eps = ms_dtype_eps(t);
            rotation     r   = rotation_make(dev, t, adjacent == 1, -1.0);
            stack        x   = stack_random(dev, t, 2, POSITIONS, HEAD, 5);
            stack        y   = stack_make(dev, t, 2, POSITIONS, HEAD),
                  back       = stack_make(dev, t, 2, POSITIONS, HEAD);
            for (int64_t b = 0; b < 2; b++)
                for (int64_t i = 1; i < POSITIONS; i++)
                    for (int64_t j = 0; j < HEAD; j++)
                        ms_put(x.host, b, i, j, ms_at(x.host, b, 0, j));
            stack_send(&x);
            CHECK_OK(dev, dev->ops->rope(dev, r.rope, x.mat, y.mat));
            CHECK_OK(dev, dev->ops->rope_grad(dev, r.rope, x.mat, y.mat, back.mat));
            stack_receive(&y), stack_receive(&back);
            const double qq    = row_dot(x.host, 0, 0, x.host, 0, 0);
            const double kk    = row_dot(x.host, 1, 0, x.host, 1, 0);
            const double bound = 8.0 * eps * sqrt(qq * kk);
            for (int64_t i = 0; i < POSITIONS; i++) {
                CHECK(fabs(row_dot(y.host, 0, i, y.host, 0, i) - qq) <= 8.0 * eps * qq,
                      "position %lld changes the length", (long long)i);
                const double first = row_dot(y.host, 0, i, y.host, 1, 0);
                for (int64_t j = 0; i + j < POSITIONS; j++)
                    CHECK(fabs(row_dot(y.host, 0, i + j, y.host, 1, j) - first) <= bound,
                          "%lld and %lld differ from %lld and 0", (long long)(i + j), (long long)j,
                          (long long)i);
                for (int64_t j = 0; j < HEAD; j++) {
                    const bool free_of_position =
                        adjacent == 1 ? j >= 2 * PAIRS : j % (HEAD / 2) >= PAIRS;
                    const double was = ms_at(x.host, 0, i, j), is = ms_at(y.host, 0, i, j);
                    CHECK(!free_of_position || was == is, "column %lld turns", (long long)j);
                    CHECK(i < 2 || free_of_position || was != is, "column %lld stays",
                          (long long)j);
                    CHECK(fabs(ms_at(back.host, 0, i, j) - was) <= 8.0 * eps * sqrt(qq),
                          "column %lld does not come back", (long long)j);
                }
            }
            stack_free(&x), stack_free(&y), stack_free(&back);
            rotation_free(&r);
        }
    }
}

/* A rotation by 90 degrees takes (1, 0) to (0, -1), whichever columns are the pair. */
TEST_EACH_DEVICE(rope_rotates_the_right_pair, dev)
{
    for (int adjacent = 0; adjacent < 2; adjacent++) {
        rotation      r       = rotation_make(dev, MUSEC_F32, adjacent == 1, -1.0);
        stack         x       = stack_make(dev, MUSEC_F32, 1, 1, HEAD);
        const int64_t partner = adjacent == 1 ? 3 : 1 + HEAD / 2;
        const int64_t self    = adjacent == 1 ? 2 : 1; /* pair 1 */
        ms_put(r.cos.host, 0, 0, 1, 0.0);
        ms_put(r.sin.host, 0, 0, 1, 1.0);
        ms_put(x.host, 0, 0, self, 1.0);
        stack_send(&r.cos), stack_send(&r.sin), stack_send(&x);
        CHECK_OK(dev, dev->ops->rope(dev, r.rope, x.mat, x.mat));
        stack_receive(&x);
        for (int64_t j = 0; j < HEAD; j++)
            CHECK(ms_at(x.host, 0, 0, j) == (j == partner ? -1.0 : 0.0), "column %lld is %g",
                  (long long)j, ms_at(x.host, 0, 0, j));
        stack_free(&x);
        rotation_free(&r);
    }
}

TEST_EACH_DEVICE(rope_with_norm_eps_is_rmsnorm_then_rope, dev)
{
    EACH_DTYPE(t)
    {
        rotation r = rotation_make(dev, t, true, 1e-6);
        stack    x = stack_random(dev, t, 2, POSITIONS, HEAD, 6),
              y    = stack_make(dev, t, 2, POSITIONS, HEAD);
        CHECK_OK(dev, dev->ops->rope(dev, r.rope, x.mat, y.mat));
        stack_receive(&y);
        r.rope.norm_eps = -1.0;
        CHECK_OK(dev, dev->ops->rmsnorm(dev, 1e-6, x.mat, x.mat));
        CHECK_OK(dev, dev->ops->rope(dev, r.rope, x.mat, x.mat));
        stack_receive(&x);
        for (int64_t b = 0; b < 2; b++)
            for (int64_t i = 0; i < POSITIONS; i++)
                for (int64_t j = 0; j < HEAD; j++) /* of rows of length sqrt(HEAD) */
                    CHECK(fabs(ms_at(x.host, b, i, j) - ms_at(y.host, b, i, j)) <=
                              2.0 * HEAD * ms_dtype_eps(t),
                          "(%lld, %lld, %lld)", (long long)b, (long long)i, (long long)j);
        stack_free(&x), stack_free(&y);
        rotation_free(&r);
    }
}

/* ---- elements -------------------------------------------------------------------------------- */

TEST_EACH_DEVICE(relu2_of_special_values, dev)
{
    static const double in[]   = { -3.0, -0.0, 0.0, 0.5, 4.0, INFINITY, -INFINITY, NAN };
    static const double out[]  = { 0.0, 0.0, 0.0, 0.25, 16.0, INFINITY, 0.0, NAN };
    static const double grad[] = { 0.0, 0.0, 0.0, 3.0, 24.0, INFINITY, 0.0, NAN }; /* dout is 3 */
    enum { N = COUNT(in) };
    EACH_DTYPE_OF(dev, t, MUSEC_F16)
    {
        stack x = stack_make(dev, t, 1, 1, N), y = stack_make(dev, t, 1, 1, N);
        stack dx = stack_make(dev, t, 1, 1, N), by_out = stack_make(dev, t, 1, 1, N);
        stack_set(&x, in);
        CHECK_OK(dev, dev->ops->fill(dev, 3.0, dx.mat));
        CHECK_OK(dev, dev->ops->unary(dev, MS_UNARY_RELU2, x.mat, y.mat));
        CHECK_OK(dev, dev->ops->relu2_grad_from_out(dev, y.mat, dx.mat, by_out.mat));
        CHECK_OK(dev, dev->ops->unary_grad(dev, MS_UNARY_RELU2, x.mat, dx.mat, dx.mat));
        stack_receive(&y), stack_receive(&dx), stack_receive(&by_out);
        for (int64_t j = 0; j < N; j++) {
            const double v = ms_at(y.host, 0, 0, j), g = ms_at(dx.host, 0, 0, j);
            const double o = ms_at(by_out.host, 0, 0, j);
            CHECK(v == out[j] || (isnan(v) && isnan(out[j])), "of %g: %g", in[j], v);
            CHECK(g == grad[j] || (isnan(g) && isnan(grad[j])), "gradient at %g: %g", in[j], g);
            CHECK(o == grad[j] || (isnan(o) && isnan(grad[j])), "from out at %g: %g", in[j], o);
        }
        stack_free(&x), stack_free(&y), stack_free(&dx), stack_free(&by_out);
    }
}

/* The square root of a rounded square is the number itself, as far as squares are normal numbers.
 * The inputs have every mantissa of 16 bits, and as many of the wider dtypes. */
TEST_EACH_DEVICE(relu2_grads_from_out_and_from_x_have_the_same_bits, dev)
{
    static const int64_t widths[] = { 1024, 1023 }; /* read in vectors, and one by one */
    EACH_DTYPE_OF(dev, t, MUSEC_F16)
    for (size_t w = 0; w < COUNT(widths); w++) {
        const int     low = t == MUSEC_F16 ? -7 : -62, high = t == MUSEC_F16 ? 6 : 62;
        const int64_t rows = high - low + 1, cols = widths[w];
        stack x = stack_random(dev, t, 1, rows, cols, 3), out = stack_make(dev, t, 1, rows, cols);
        stack dout = stack_random(dev, t, 1, rows, cols, 4), dx = stack_make(dev, t, 1, rows, cols);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < cols; j++) {
                const double some = fabs(ms_at(x.host, 0, i, j)) / 4096.0; /* for f32 and f64 */
                const double more = ms_dtype_bytes(t) == 2 ? 0.0 : fmin(some, 0x1p-10);
                const double size = ldexp(1.0 + (double)j / 1024.0 + more, low + (int)i);
                ms_put(x.host, 0, i, j, (i + j / 2) % 4 == 0 ? -size : size);
            }
        stack_send(&x);
        CHECK_OK(dev, dev->ops->unary(dev, MS_UNARY_RELU2, x.mat, out.mat));
        CHECK_OK(dev, dev->ops->relu2_grad_from_out(dev, out.mat, dout.mat, dx.mat));
        CHECK_OK(dev, dev->ops->unary_grad(dev, MS_UNARY_RELU2, x.mat, dout.mat, dout.mat));
        stack_receive(&dx), stack_receive(&dout);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < cols; j++)
                CHECK(ms_at(dx.host, 0, i, j) == ms_at(dout.host, 0, i, j), "of %a: %a, not %a",
                      ms_at(x.host, 0, i, j), ms_at(dx.host, 0, i, j), ms_at(dout.host, 0, i, j));
        stack_free(&x), stack_free(&out), stack_free(&dout), stack_free(&dx);
    }
}

/* Each row and head has its own gate: closed, half open or open. */
TEST_EACH_DEVICE(gates_scale_rows_of_heads, dev)
{
    static const double gates[2][3] = { { -1e4, 0.0, 1e4 }, { 0.0, 1e4, -1e4 } };
    static const double open[2][3]  = { { 0.0, 0.5, 1.0 }, { 0.5, 1.0, 0.0 } };
    EACH_DTYPE_OF(dev, t, MUSEC_F16)
    {
        stack s = stack_make(dev, t, 1, 2, 3), y = stack_random(dev, t, 3, 2, 5, 7);
        stack out = stack_make(dev, t, 3, 2, 5), dy = stack_make(dev, t, 3, 2, 5);
        stack ds = stack_make(dev, t, 1, 2, 3);
        stack_set(&s, gates[0]);
        CHECK_OK(dev, dev->ops->gate(dev, s.mat, y.mat, out.mat));
        CHECK_OK(dev, dev->ops->gate_grad(dev, s.mat, y.mat, y.mat, dy.mat, ds.mat));
        stack_receive(&out), stack_receive(&dy), stack_receive(&ds);
        for (int64_t h = 0; h < 3; h++)
            for (int64_t i = 0; i < 2; i++) {
                const double size = row_dot(y.host, h, i, y.host, h, i);
                const double want = open[i][h] * (1.0 - open[i][h]) * size;
                for (int64_t j = 0; j < 5; j++) {
                    const double part = open[i][h] * ms_at(y.host, h, i, j);
                    CHECK(ms_at(out.host, h, i, j) == part, "head %lld", (long long)h);
                    CHECK(ms_at(dy.host, h, i, j) == part, "head %lld", (long long)h);
                }
                CHECK(fabs(ms_at(ds.host, 0, i, h) - want) <= 8.0 * ms_dtype_eps(t) * size,
                      "gate (%lld, %lld): %g", (long long)i, (long long)h, ms_at(ds.host, 0, i, h));
            }
        stack_free(&s), stack_free(&y), stack_free(&out), stack_free(&dy), stack_free(&ds);
    }
}

/* x is of ones and y of twos, so that all sums are small integers. */
TEST_EACH_DEVICE(mix_grad_accumulates, dev)
{
    enum { ROWS = 70, COLS = 3 };
    EACH_DTYPE(t)
    {
        stack w = stack_make(dev, t, 1, 1, 2), x = stack_make(dev, t, 1, ROWS, COLS);
        stack y = stack_make(dev, t, 1, ROWS, COLS), out = stack_make(dev, t, 1, ROWS, COLS);
        stack dx = stack_make(dev, t, 1, ROWS, COLS), dy = stack_make(dev, t, 1, ROWS, COLS);
        stack dw = stack_make(dev, t, 1, 1, 2);
        stack_set(&w, (double[]){ 3.0, -0.5 });
        CHECK_OK(dev, dev->ops->fill(dev, 1.0, x.mat));
        CHECK_OK(dev, dev->ops->fill(dev, 2.0, y.mat));
        CHECK_OK(dev, dev->ops->fill(dev, 10.0, dy.mat));
        CHECK_OK(dev, dev->ops->fill(dev, 100.0, dw.mat));
        CHECK_OK(dev, dev->ops->mix(dev, w.mat, x.mat, y.mat, out.mat));
        CHECK_OK(dev,
                 dev->ops->mix_grad(dev, w.mat, x.mat, y.mat, out.mat, dx.mat, dy.mat, dw.mat));
        stack_receive(&out), stack_receive(&dx), stack_receive(&dy), stack_receive(&dw);
        for (int64_t i = 0; i < ROWS; i++)
            for (int64_t j = 0; j < COLS; j++) {
                CHECK(ms_at(out.host, 0, i, j) == 2.0, "out %g", ms_at(out.host, 0, i, j));
                CHECK(ms_at(dx.host, 0, i, j) == 6.0, "dx %g", ms_at(dx.host, 0, i, j));
                CHECK(ms_at(dy.host, 0, i, j) == 9.0, "dy %g", ms_at(dy.host, 0, i, j));
            }
        CHECK(ms_at(dw.host, 0, 0, 0) == 100.0 + 2.0 * ROWS * COLS, "dw(0)");
        CHECK(ms_at(dw.host, 0, 0, 1) == 100.0 + 4.0 * ROWS * COLS, "dw(1)");
        stack_free(&w), stack_free(&x), stack_free(&y), stack_free(&out);
        stack_free(&dx), stack_free(&dy), stack_free(&dw);
    }
}

/* ---- loss ------------------------------------------------------------------------------------ */

static void run_xent(ms_device *dev, ms_xent x, stack *logits, double loss[2])
{
    const ms_vec vec = vec_make(dev, loss, 2);
    CHECK_OK(dev, dev->ops->xent(dev, x, logits->mat, vec));
    stack_receive(logits);
    CHECK_OK(dev, ms_vec_download(dev, vec, loss));
    dev->ops->free(dev, vec.data);
}

/* With equal logits each term is log(n), whatever the cap, and the gradient of a logit is sum w / n
 * less the weights of the targets with its id.  At the end of the stream targets are missing: one
 * of row 1, two of row 2. */
TEST_EACH_DEVICE(uniform_logits_cost_log_n, dev)
{
    enum { ROWS = 3, N = 50 };
    static const int32_t targets[]      = { 9, 9, 7, 7, 3 }; /* the chunk begins at 2 */
    static const double  terms[ROWS][N] = { { [7] = 1.5, [3] = 0.25 },
                                            { [7] = 1.0, [3] = 0.5 },
                                            { [3] = 1.0 } };
    static const double  weights[ROWS]  = { 1.75, 1.5, 1.0 };
    const ms_ids         ids            = ids_make(dev, targets, COUNT(targets));
    for (int cap = MS_CAP_NONE; cap <= MS_CAP_SIGMOID; cap++)
        EACH_DTYPE(t)
        {
            const double eps = ms_dtype_eps(t), each = log(N);
            stack        z       = stack_make(dev, t, 1, ROWS, N);
            double       loss[2] = { 10.0, 20.0 };
            ms_xent      x       = { .cap        = (ms_cap)cap,
                                     .cap_scale  = cap == MS_CAP_TANH ? 15.0 : 30.0,
                                     .cap_width  = 7.5,
                                     .targets    = ids,
                                     .first      = 2,
                                     .n_weights  = 3,
                                     .weights    = { 1.0, 0.5, 0.25 },
                                     .grad_scale = 2.0 }; /* caps of slope 1 at 0 */
            CHECK_OK(dev, dev->ops->fill(dev, 0.0, z.mat));
            run_xent(dev, x, &z, loss);
            const double bound = (N + 15.0) * eps; /* 15: a capped logit */
            CHECK(fabs(loss[0] - 10.0 - 4.25 * each) <= 10.0 * bound * each, "%.17g", loss[0]);
            CHECK(fabs(loss[1] - 20.0 - 3.0 * each) <= 10.0 * bound * each, "%.17g", loss[1]);
            for (int64_t i = 0; i < ROWS; i++)
                for (int64_t j = 0; j < N; j++)
                    CHECK(fabs(ms_at(z.host, 0, i, j) - 2.0 * (weights[i] / N - terms[i][j])) <=
                              8.0 * eps + 2.0 * bound * weights[i] / N,
                          "cap %d: (%lld, %lld): %g", cap, (long long)i, (long long)j,
                          ms_at(z.host, 0, i, j));
            stack_free(&z);
        }
    dev->ops->free(dev, ids.data);
}

/* With two logits the loss is log(1 + exp(z1 - z0)), z being the capped logits. */
TEST_EACH_DEVICE(caps_have_their_values, dev)
{
    static const double raw[][2] = { { -5.0, 2.5 }, { 40.0, -3.0 }, { 0.0, 1.0 }, { -30.0, 30.0 } };
    static const int32_t targets[] = { 0 };
    const ms_ids         ids       = ids_make(dev, targets, 1);
    EACH_DTYPE(t)
    for (size_t i = 0; i < COUNT(raw); i++)
        for (int cap = MS_CAP_NONE; cap <= MS_CAP_SIGMOID; cap++) {
            stack   y       = stack_make(dev, t, 1, 1, 2);
            double  loss[2] = { 0.0, 0.0 }, z[2];
            ms_xent x       = { .cap       = (ms_cap)cap,
                                .cap_scale = cap == MS_CAP_TANH ? 15.0 : 23.0,
                                .cap_shift = 5.0,
                                .cap_width = 7.5,
                                .targets   = ids,
                                .n_weights = 1,
                                .weights   = { 1.0 } };
            for (int j = 0; j < 2; j++) {
                z[j] = raw[i][j];
                if (cap == MS_CAP_TANH) z[j] = 15.0 * tanh(raw[i][j] / 15.0);
                if (cap == MS_CAP_SIGMOID) z[j] = 23.0 / (1.0 + exp(-(raw[i][j] + 5.0) / 7.5));
            }
            stack_set(&y, raw[i]);
            run_xent(dev, x, &y, loss);
            CHECK(fabs(loss[0] - log1p(exp(z[1] - z[0]))) <= 100.0 * ms_dtype_eps(t),
                  "cap %d of %g and %g: %.17g", cap, raw[i][0], raw[i][1], loss[0]);
            CHECK(loss[0] == loss[1], "%g is not %g", loss[1], loss[0]);
            for (int j = 0; j < 2; j++)
                CHECK(ms_at(y.host, 0, 0, j) == raw[i][j], "without a scale logits are kept");
            stack_free(&y);
        }
    dev->ops->free(dev, ids.data);
}

/* The logits are beyond the range of exp.  A NaN spoils its own row alone, and the loss. */
TEST_EACH_DEVICE(xent_of_huge_logits_and_nan, dev)
{
    static const int32_t targets[] = { 1, 0, 0 };
    const ms_ids         ids       = ids_make(dev, targets, 3);
    EACH_DTYPE(t)
    {
        stack   y       = stack_make(dev, t, 1, 3, 2);
        double  loss[2] = { 0.0, 0.0 };
        ms_xent x       = { .targets = ids, .n_weights = 1, .weights = { 1.0 }, .grad_scale = 1.0 };
        stack_set(&y, (double[]){ 1e4, -1e4, 1e4, -1e4, 1e4, -1e4 });
        run_xent(dev, x, &y, loss);
        CHECK(loss[0] == 2e4 && loss[1] == 2e4, "%.17g", loss[0]);
        for (int64_t i = 0; i < 3; i++)
            CHECK(ms_at(y.host, 0, i, 0) == (i == 0 ? 1.0 : 0.0) &&
                      ms_at(y.host, 0, i, 1) == (i == 0 ? -1.0 : 0.0),
                  "row %lld", (long long)i);
        ms_put(y.host, 0, 1, 0, (double)NAN);
        stack_send(&y);
        run_xent(dev, x, &y, loss);
        CHECK(isnan(loss[0]) && isnan(loss[1]), "a NaN is lost");
        CHECK(isnan(ms_at(y.host, 0, 1, 1)), "its row does not show it");
        CHECK(!isnan(ms_at(y.host, 0, 0, 0)) && !isnan(ms_at(y.host, 0, 2, 0)), "others do");
        stack_free(&y);
    }
    dev->ops->free(dev, ids.data);
}

/* The gradient by the formulas of device.h, in double. */
static double softmax_grad(const ms_xent *x, const ms_mat raw, int64_t row, int64_t j, double *z,
                           double *slope)
{
    double max = -INFINITY, sum = 0.0;
    for (int64_t k = 0; k < raw.cols; k++) {
        const double y = ms_at(raw, 0, row, k), t = tanh(y / x->cap_scale);
        const double s = 1.0 / (1.0 + exp(-(y + x->cap_shift) / x->cap_width));
        z[k] = y, slope[k] = 1.0;
        if (x->cap == MS_CAP_TANH) z[k] = x->cap_scale * t, slope[k] = 1.0 - t * t;
        if (x->cap == MS_CAP_SIGMOID)
            z[k] = x->cap_scale * s, slope[k] = x->cap_scale / x->cap_width * s * (1.0 - s);
        max = fmax(max, z[k]);
    }
    for (int64_t k = 0; k < raw.cols; k++)
        sum += exp(z[k] - max);
    return slope[j] * exp(z[j] - max) / sum;
}

/* There are more rows than a GPU has blocks, so that each block takes several.  A few elements of
 * some rows are checked: both ends, the middle, the target. */
static void check_rows(ms_device *dev, musec_dtype t, int64_t rows, int64_t cols, ms_cap cap,
                       double scale)
{
    stack    y       = stack_random(dev, t, 1, rows, cols, 77);
    stack    was     = stack_random(dev, t, 1, rows, cols, 77);
    int32_t *targets = malloc((size_t)rows * sizeof *targets);
    double  *z = malloc((size_t)cols * sizeof *z), *slope = malloc((size_t)cols * sizeof *slope);
    double   loss[2] = { 0.0, 0.0 };
    for (int64_t i = 0; i < rows; i++)
        targets[i] = (int32_t)(i * 7919 % cols);
    const ms_ids  ids = ids_make(dev, targets, rows);
    const ms_xent x   = { .cap        = cap,
                          .cap_scale  = scale,
                          .cap_shift  = 1.0,
                          .cap_width  = 2.0,
                          .targets    = ids,
                          .n_weights  = 1,
                          .weights    = { 1.0 },
                          .grad_scale = 1.0 };
    run_xent(dev, x, &y, loss);
    CHECK(isfinite(loss[0]), "loss %g", loss[0]);
    for (int64_t i = 0; i < rows; i += rows / 97 + 1) {
        const int64_t look[] = { 0, cols / 2, cols - 1, targets[i] };
        for (size_t k = 0; k < COUNT(look); k++) {
            const double p    = softmax_grad(&x, was.host, i, look[k], z, slope);
            const double want = p - (look[k] == targets[i] ? slope[look[k]] : 0.0);
            const double got  = ms_at(y.host, 0, i, look[k]);
            /* Half an eps of the dtype; a capped logit is off by some eps of float32 times the
             * cap, which is relative in p; the smallest numbers of f16 are 6e-8 apart. */
            CHECK(fabs(got - want) <=
                      0.51 * ms_dtype_eps(t) * fabs(want) + 4e-5 * p + 1e-6 * slope[look[k]] + 4e-8,
                  "%lld x %lld, cap %d of %g: (%lld, %lld) is %g, not %g", (long long)rows,
                  (long long)cols, (int)cap, scale, (long long)i, (long long)look[k], got, want);
        }
    }
    stack_free(&y), stack_free(&was);
    dev->ops->free(dev, ids.data);
    free(slope), free(z), free(targets);
}

/* The caps' scales are near the range of exp and far from it; each width has its own kernel. */
TEST_EACH_DEVICE(xent_grads_of_many_rows_follow_the_formulas, dev)
{
    if (ms_device_has(dev, MUSEC_F16)) check_rows(dev, MUSEC_F16, 1300, 264, MS_CAP_SIGMOID, 23.0);
    if (!ms_device_has(dev, MUSEC_BF16)) return;
    check_rows(dev, MUSEC_BF16, 1300, 264, MS_CAP_NONE, 1.0);
    check_rows(dev, MUSEC_BF16, 1300, 264, MS_CAP_TANH, 50.0);
    check_rows(dev, MUSEC_BF16, 280, 14400, MS_CAP_NONE, 1.0);
    check_rows(dev, MUSEC_BF16, 280, 14400, MS_CAP_TANH, 15.0);
    check_rows(dev, MUSEC_BF16, 280, 14400, MS_CAP_SIGMOID, 60.0);
}
