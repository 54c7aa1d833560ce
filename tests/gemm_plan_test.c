/* gemm_plan_test.c - products by cuBLASLt: the choice of an algorithm may depend on measured times
 * and on the plans that other processes cached; the bits of a deterministic context may not. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/directory.h"
#include "core/file.h"
#include "device_rig.h"
#include "scratch.h"

#ifdef MS_HAVE_CUDA

#include "device/cuda/gemm_plan.h"

/* ---- plan cache ------------------------------------------------------------------------------ */

static ms_cuda_cached_plan plan_of(int64_t rows, bool nondeterministic, uint64_t algo)
{
    ms_cuda_cached_plan p = { .key = { .count = 1, .nondeterministic = nondeterministic } };
    p.key.a.rows          = rows;
    p.first.data[0]       = algo + 1;
    p.algo.data[0]        = algo;
    return p;
}

/* The cached algorithm as another process finds it; 0: there is none. */
static uint64_t cached_algo(int64_t rows, bool nondeterministic)
{
    const ms_cuda_cached_plan  wanted = plan_of(rows, nondeterministic, 0);
    ms_cuda_plan_cache         all    = { .name = "plans" };
    const ms_cuda_cached_plan *found  = ms_cuda_plan_cache_find(&all, &wanted.key);
    const uint64_t             algo   = found == NULL ? 0 : found->algo.data[0];
    CHECK(found == NULL || found->first.data[0] == algo + 1,
          "the algorithm that it was compared with");
    ms_cuda_plan_cache_close(&all);
    return algo;
}

static void keep(int64_t rows, bool nondeterministic, uint64_t algo)
{
    const ms_cuda_cached_plan p   = plan_of(rows, nondeterministic, algo);
    ms_cuda_plan_cache        all = { .name = "plans" };
    ms_cuda_plan_cache_add(&all, &p);
    ms_cuda_plan_cache_close(&all);
}

TEST(plans_are_cached_by_shape_and_determinism)
{
    setenv("MUSEC_CACHE", fresh_dir(), 1);
    CHECK(cached_algo(64, true) == 0, "from nowhere");
    keep(64, true, 5);
    CHECK(cached_algo(64, true) == 5, "not cached");
    CHECK(cached_algo(64, false) == 0, "a plan of any bits for a deterministic context");
    keep(64, false, 7);
    keep(65, false, 8);
    CHECK(cached_algo(64, true) == 5 && cached_algo(64, false) == 7 && cached_algo(65, false) == 8,
          "%d, %d, %d", (int)cached_algo(64, true), (int)cached_algo(64, false),
          (int)cached_algo(65, false));
    keep(64, false, 9); /* replaces the plan */
    CHECK(cached_algo(64, false) == 9 && cached_algo(65, false) == 8, "not replaced");
    unsetenv("MUSEC_CACHE");
}

TEST(cached_plans_of_other_versions_are_ignored)
{
    static const uint64_t     sizes[] = { sizeof(ms_cuda_gemm_key), sizeof(cublasLtMatmulAlgo_t) };
    const ms_cuda_cached_plan p       = plan_of(64, false, 5);
    char                      data[3 * sizeof(uint64_t) + sizeof p];
    setenv("MUSEC_CACHE", fresh_dir(), 1);
    memcpy(data + sizeof(uint64_t), sizes, sizeof sizes);
    memcpy(data + sizeof(uint64_t) + sizeof sizes, &p, sizeof p);
    for (uint64_t version = 1; version <= 3; version++) {
        memcpy(data, &version, sizeof version);
        ms_cache_save("plans", data, sizeof data);
        CHECK(cached_algo(64, false) == (version == 2 ? 5 : 0), "version %d", (int)version);
    }
    unsetenv("MUSEC_CACHE");
}

/* ---- autotuning ------------------------------------------------------------------------------ */

static ms_cuda_gemm_key key_of(int64_t count, int64_t m, int64_t n, int64_t k, musec_dtype dtype)
{
    return (ms_cuda_gemm_key){ .a       = { .rows = k, .cols = m, .ld = k },
                               .b       = { .rows = n, .cols = k, .ld = n },
                               .c       = { .rows = n, .cols = m, .ld = n },
                               .dtype   = dtype,
                               .c_dtype = dtype,
                               .count   = count };
}

TEST(products_are_autotuned_where_it_saves_time)
{
    static const struct {
        int64_t     count, m, n, k;
        musec_dtype dtype;
        bool        tried;
    } cases[] = {
        { 1, 1024, 1024, 1024, MUSEC_BF16, true },    { 48, 768, 768, 768, MUSEC_BF16, true },
        { 1, 64, 64, 64, MUSEC_F32, false },          /* too small */
        { 1024, 128, 128, 128, MUSEC_BF16, false },   /* each matrix is too small in 16 bits */
        { 1024, 128, 128, 128, MUSEC_F32, true },     /* but not in 32 */
        { 1, 65536, 1024, 65536, MUSEC_BF16, false }, /* too much memory */
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        ms_cuda_gemm_key k =
            key_of(cases[i].count, cases[i].m, cases[i].n, cases[i].k, cases[i].dtype);
        CHECK(ms_cuda_gemm_is_autotuned(&k) == cases[i].tried, "case %zu", i);
        k.nondeterministic = 1;
        CHECK(ms_cuda_gemm_is_autotuned(&k), "case %zu, nondeterministic", i);
    }
}

/* ---- with a GPU ------------------------------------------------------------------------------ */

static uint64_t digest_of(ms_device *d, ms_mat c)
{
    uint64_t got = 0;
    void    *p   = NULL;
    CHECK_OK(d, d->ops->alloc(d, sizeof got, &p));
    CHECK_OK(d, d->ops->upload(d, &got, sizeof got, p));
    CHECK_OK(d, ms_cuda_autotune_digest(d, 1, c, p));
    CHECK_OK(d, d->ops->download(d, p, sizeof got, &got));
    d->ops->free(d, p);
    return got;
}

/* Bytes between the rows do not matter. */
TEST(a_digest_depends_on_every_element)
{
    ms_device *d = check_open_cuda();
    EACH_DTYPE_OF(d, t, MUSEC_F16)
    {
        const size_t each = ms_dtype_bytes(t);
        stack        s    = stack_make(d, t, 3, 5, 80);
        ms_mat       part = s.mat; /* 70 columns of 80 */
        part.cols         = 70;
        CHECK_OK(d, ms_cuda_autotune_fill(d, 1, MS_CUDA_TINY_ROWS, s.mat));
        stack_receive(&s);
        const uint64_t before = digest_of(d, part);
        CHECK(digest_of(d, part) == before, "%s: twice", ms_dtype_name(t));
        for (size_t i = 0; i < 3 * 5 * 80; i++) {
            unsigned char *at = (unsigned char *)s.host.data + i * each + i % each;
            *at ^= (unsigned char)(1u << i % 8);
            stack_send(&s);
            CHECK((digest_of(d, part) == before) == (i % 80 >= 70), "%s: element %zu",
                  ms_dtype_name(t), i);
            *at ^= (unsigned char)(1u << i % 8);
        }
        stack_free(&s);
    }
    musec_ctx_destroy(d);
}

TEST(autotuning_operands_have_many_magnitudes)
{
    ms_device *d = check_open_cuda();
    EACH_DTYPE_OF(d, t, MUSEC_F16)
    {
        stack s    = stack_make(d, t, 1, 183, 64);
        int   tiny = 0, negative = 0;
        CHECK_OK(d, ms_cuda_autotune_fill(d, 1, MS_CUDA_TINY_ROWS, s.mat));
        stack_receive(&s);
        for (int64_t i = 0; i < 183; i++)
            for (int64_t j = 0; j < 64; j++) {
                const double x = ms_at(s.host, 0, i, j), size = x < 0.0 ? -x : x;
                CHECK(size <= 2.0 && size > 0.0, "%s: %g", ms_dtype_name(t), x);
                tiny += size < 0x1.8p-8;
                negative += x < 0.0;
            }
        CHECK(tiny == 3 * 64, "%s: %d are tiny", ms_dtype_name(t), tiny);
        CHECK(negative > 5000 && negative < 6700, "%s: %d of %d", ms_dtype_name(t), negative,
              183 * 64);
        stack_free(&s);
    }
    musec_ctx_destroy(d);
}

static const struct shape {
    int64_t count, m, n, k;
    bool    at, bt;
    double  beta;
} shapes[] = {
    { 1, 1024, 1024, 1024, false, false, 0.0 }, { 1, 2048, 768, 3072, false, true, 0.0 },
    { 1, 3072, 768, 2048, true, false, 1.0 }, /* as gradients are accumulated */
    { 6, 768, 768, 768, false, false, 0.0 },    { 6, 768, 768, 768, false, false, -0.5 },
    { 1, 256, 512, 32768, true, false, 0.0 }, /* where split-k is likely */
    { 1, 1000, 1048, 1032, false, false, 0.0 },
};

static const struct kind {
    musec_dtype dtype, c_dtype;
} kinds[] = { { MUSEC_F32, MUSEC_F32 },
              { MUSEC_BF16, MUSEC_BF16 },
              { MUSEC_F16, MUSEC_F16 },
              { MUSEC_BF16, MUSEC_F32 },
              { MUSEC_F16, MUSEC_F32 } };

static stack drawn(ms_device *d, musec_dtype t, int64_t count, int64_t rows, int64_t cols,
                   uint64_t key)
{
    stack s = stack_make(d, t, count, rows, cols);
    CHECK_OK(d, d->ops->normal(d, key, 0.0, 1.0, s.mat));
    return s;
}

/* The product in host memory, computed `times` times: the first time may choose the algorithm. */
static stack product_of(ms_device *d, const struct shape *x, const struct kind *t, int times)
{
    stack  a    = drawn(d, t->dtype, x->count, x->at ? x->k : x->m, x->at ? x->m : x->k, 1);
    stack  b    = drawn(d, t->dtype, x->count, x->bt ? x->n : x->k, x->bt ? x->k : x->n, 2);
    stack  c    = stack_make(d, t->c_dtype, x->count, x->m, x->n);
    ms_mat left = x->at ? ms_t(a.mat) : a.mat, right = x->bt ? ms_t(b.mat) : b.mat;
    for (int i = 0; i < times; i++) {
        CHECK_OK(d, d->ops->normal(d, 3, 0.0, 1.0, c.mat));
        CHECK_OK(d, d->ops->gemm(d, 1.0, left, right, x->beta, c.mat));
    }
    stack_receive(&c);
    stack_free(&a);
    stack_free(&b);
    return c;
}

static void check_bits(ms_device *plain, ms_device *d, const char *when)
{
    for (size_t i = 0; i < COUNT(shapes); i++)
        for (size_t t = 0; t < COUNT(kinds); t++) {
            stack want  = product_of(plain, &shapes[i], &kinds[t], 1);
            stack first = product_of(d, &shapes[i], &kinds[t], 1);
            stack then  = product_of(d, &shapes[i], &kinds[t], 2);
            CHECK(memcmp(first.host.data, want.host.data, want.bytes) == 0,
                  "%s: shape %zu of kind %zu, the first time", when, i, t);
            CHECK(memcmp(then.host.data, want.host.data, want.bytes) == 0,
                  "%s: shape %zu of kind %zu, after", when, i, t);
            stack_free(&want), stack_free(&first), stack_free(&then);
        }
}

static size_t files_in(const char *dir)
{
    ms_names files = { 0 };
    ms_error e     = { "" };
    size_t   n;
    CHECK_OK_ERR(&e, ms_directory_names(&e, dir, &files));
    n = files.n;
    ms_names_free(&files);
    return n;
}

/* Bits are those of the heuristic's first proposal, whether proposals were timed or not, by this
 * process or another.  Plans of nondeterministic contexts are not used. */
TEST(bits_do_not_depend_on_measured_times)
{
    static const char *const turns[] = { "nothing cached", "all cached" };
    ms_device               *plain   = check_open_cuda(), *nondeterministic;
    const char              *dir     = fresh_dir();
    setenv("MUSEC_CACHE", dir, 1);
    plain->no_autotune = true;
    nondeterministic   = check_open_cuda();
    CHECK(musec_ctx_set_deterministic(nondeterministic, 0) == MUSEC_OK, "not deterministic");
    for (size_t i = 0; i < COUNT(shapes); i++)
        for (size_t t = 0; t < COUNT(kinds); t++) {
            stack any = product_of(nondeterministic, &shapes[i], &kinds[t], 1);
            stack_free(&any);
        }
    musec_ctx_destroy(nondeterministic);
    for (size_t turn = 0; turn < COUNT(turns); turn++) {
        ms_device *d = check_open_cuda();
        check_bits(plain, d, turns[turn]);
        musec_ctx_destroy(d);
    }
    musec_ctx_destroy(plain);
    CHECK(files_in(dir) == 1, "%zu files", files_in(dir));
    unsetenv("MUSEC_CACHE");
}

/* Nothing is cached with no_autotune, nor for products that are too small. */
TEST(choices_of_deterministic_contexts_are_cached)
{
    static const struct {
        int64_t size;
        bool    no_autotune;
        size_t  files;
    } cases[]              = { { 1024, false, 1 }, { 1024, true, 0 }, { 64, false, 0 } };
    const struct kind bf16 = { MUSEC_BF16, MUSEC_BF16 };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const int64_t      n   = cases[i].size;
        const struct shape x   = { 1, n, n, n, false, false, 0.0 };
        const char        *dir = fresh_dir();
        setenv("MUSEC_CACHE", dir, 1);
        ms_device *d   = check_open_cuda();
        d->no_autotune = cases[i].no_autotune;
        stack c        = product_of(d, &x, &bf16, 1);
        stack_free(&c);
        musec_ctx_destroy(d);
        CHECK(files_in(dir) == cases[i].files, "case %zu: %zu files", i, files_in(dir));
    }
    unsetenv("MUSEC_CACHE");
}

#else

TEST(this_build_has_no_cuda) { SKIP("this build has no CUDA"); }

#endif
