/* halves_test.c - float32 numbers as a bf16 and 16 more bits: every number comes back, and weights
 * kept so are stepped to the bits of float32 weights. */
#include "check.h"

#include <math.h>

#include "core/half.h"
#include "core/halves.h"
#include "core/rng.h"
#include "device_rig.h"

static const uint32_t special[] = {
    0x00000000u, 0x80000000u, 0x00000001u, 0x80000001u, 0x00007fffu, 0x00008000u,
    0x0000ffffu, 0x8000ffffu, 0x3f800000u, 0x3f808000u, 0x3f818000u, 0x3f807fffu,
    0x3f7fffffu, 0x7f7fffffu, 0xff7fffffu, 0x7f7f8000u, 0x7f800000u, 0xff800000u,
};

TEST(every_number_comes_back)
{
    for (uint64_t i = 0; i < 400000; i++) {
        const uint32_t  bits = i < COUNT(special) ? special[i] : (uint32_t)ms_rand_u64(7, i);
        const float     x    = ms_float_of_bits(bits);
        const ms_halves h    = ms_halves_split(bits);
        if (isnan(x)) {
            CHECK(isnan(ms_float_of_bf16(h.high)) && isnan(ms_float_of_bits(ms_halves_join(h))),
                  "%08x became a number", bits);
            continue;
        }
        CHECK(ms_halves_join(h) == bits, "%08x became %08x", bits, ms_halves_join(h));
        if (bits << 16 >> 16 != 0x8000u) /* a tie, which goes away from zero here */
            CHECK(h.high == ms_bf16_of_double(x), "%08x: the upper half is %04x", bits, h.high);
    }
}

TEST(an_upper_half_may_be_overwritten)
{
    static const uint16_t highs[] = {
        0x0000, 0x8000, 0x0001, 0x3f80, 0xbf80, 0x7f7f, 0x7f80, 0xff80
    };
    for (size_t k = 0; k < COUNT(highs); k++)
        for (int32_t low = -32768; low < 32768; low++) {
            const ms_halves h  = { highs[k], (int16_t)low };
            const double    hi = ms_float_of_bf16(highs[k]);
            const double    x  = ms_float_of_bits(ms_halves_join(h));
            const double    up = fabsf(ms_float_of_bf16((uint16_t)(highs[k] & 0x7fffu) + 1));
            if (isinf(hi)) /* or the largest numbers, which are rounded to it */
                CHECK(x == hi || fabs(x) >= 0x1.fffp127 * (1 - 0x1p-9), "%g and %d: %g", hi, low,
                      x);
            else
                CHECK(fabs(x - hi) <= 0.5 * (up - fabs(hi)), "%g and %d: %g", hi, low, x);
        }
}

/* A stack of halves of what is in x. */
typedef struct halves {
    stack high, low;
} halves;

static halves halves_of(ms_device *d, const stack *x)
{
    const ms_mat m = x->mat;
    halves       h = { stack_make(d, MUSEC_BF16, m.count, m.rows, m.cols),
                       stack_make(d, MUSEC_I16, m.count, m.rows, m.cols) };
    CHECK_OK(d, d->ops->split_halves(d, m, h.high.mat, h.low.mat));
    return h;
}

static void check_joined(ms_device *d, halves *h, stack *want, const char *what)
{
    const ms_mat m = want->mat;
    stack        x = stack_make(d, MUSEC_F32, m.count, m.rows, m.cols);
    CHECK_OK(d, d->ops->join_halves(d, h->high.mat, h->low.mat, x.mat));
    stack_receive(&x), stack_receive(want);
    foreach (m)
        CHECK(*(uint32_t *)ms_mat_address(x.host, b, i, j) ==
                  *(uint32_t *)ms_mat_address(want->host, b, i, j),
              "%s: (%lld, %lld, %lld) is %g, not %g", what, (long long)b, (long long)i,
              (long long)j, ms_at(x.host, b, i, j), ms_at(want->host, b, i, j));
    stack_free(&x);
}

static void check_steps(ms_device *dev, int64_t rows, int64_t cols, musec_dtype of_u, bool cautious,
                        bool lists)
{
    enum { COUNT_OF = 70 }; /* more than the pointers that fit a launch of a GPU */
    const int64_t count = lists ? COUNT_OF : 3;
    stack         w     = stack_random(dev, MUSEC_F32, count, rows, cols, 1);
    stack         u     = stack_random(dev, of_u, count, rows, cols, 2);
    halves        h     = halves_of(dev, &w);
    double        step[COUNT_OF], decay[COUNT_OF];
    ms_mat_ptr    high[COUNT_OF], low[COUNT_OF];
    ms_mat        hm = h.high.mat, lm = h.low.mat;
    for (int64_t b = 0; b < count; b++) {
        step[b] = 1e-3 * (double)(b + 1), decay[b] = 1e-4 * (double)b;
        high[b] = (ms_mat_ptr){ ms_mat_slice(hm, b, 1).data, hm.ld };
        low[b]  = (ms_mat_ptr){ ms_mat_slice(lm, b, 1).data, lm.ld };
    }
    if (lists) hm.ptrs = high, lm.ptrs = low;
    for (int t = 0; t < 5; t++) {
        const ms_num s = lists ? ms_host(step) : ms_const(1e-3),
                     k = lists ? ms_host(decay) : ms_const(1e-2);
        CHECK_OK(dev, dev->ops->decay_add(dev, s, u.mat, k, cautious, w.mat, (ms_mat){ 0 }));
        CHECK_OK(dev, dev->ops->decay_add(dev, s, u.mat, k, cautious, hm, lm));
    }
    check_joined(dev, &h, &w, cautious ? "cautious" : "decay");
    stack_free(&w), stack_free(&u), stack_free(&h.high), stack_free(&h.low);
}

TEST_EACH_DEVICE(weights_in_halves_are_stepped_as_float32, dev)
{
    static const int64_t     shapes[][2] = { { 32, 64 }, { 7, 13 }, { 1, 8 }, { 5, 1 } };
    static const musec_dtype of_u[]      = { MUSEC_F32, MUSEC_F16 };
    if (!ms_device_has(dev, MUSEC_BF16)) SKIP_DEVICE("it has no 16-bit numbers");
    for (size_t k = 0; k < COUNT(shapes); k++)
        for (int i = 0; i < 8; i++)
            check_steps(dev, shapes[k][0], shapes[k][1], of_u[i % 2], i / 2 % 2 == 1, i / 4 == 1);
}

TEST_EACH_DEVICE(halves_are_joined_and_split_in_any_bits, dev)
{
    if (!ms_device_has(dev, MUSEC_BF16)) SKIP_DEVICE("it has no 16-bit numbers");
    stack x = stack_make(dev, MUSEC_F32, 2, 64, 96);
    foreach (x.host) {
        const uint64_t at   = (uint64_t)((b * 64 + i) * 96 + j);
        uint32_t       bits = at < COUNT(special) ? special[at] : (uint32_t)ms_rand_u64(9, at);
        if ((bits & 0x7f800000u) == 0x7f800000u && at >= COUNT(special)) bits ^= 0x01000000u;
        *(uint32_t *)ms_mat_address(x.host, b, i, j) = bits;
    }
    stack_send(&x);
    halves h = halves_of(dev, &x);
    check_joined(dev, &h, &x, "joined");
    CHECK_OK(dev, dev->ops->fill(dev, 0.0, h.low.mat));
    CHECK_OK(dev, dev->ops->split_halves(dev, x.mat, (ms_mat){ 0 }, h.low.mat)); /* the low alone */
    check_joined(dev, &h, &x, "the lower halves");
    stack_free(&x), stack_free(&h.high), stack_free(&h.low);
}
