/* allocator_test.c - device memory from the caller: every piece comes from the caller's functions
 * and goes back to them, results do not depend on it, and a call that finds no memory changes
 * nothing. */
#include "check.h"

#include <stdlib.h>

#include "optim_rig.h"

typedef struct pool {
    ms_device *from;  /* another context of the same device */
    int64_t    out;   /* pieces that were not freed yet */
    int64_t    calls; /* of alloc */
    int64_t    first; /* the first call that fails; 0: none does */
    int64_t    failures;
    size_t     last;   /* bytes of the last piece */
    void      *stream; /* that every call must be given */
} pool;

static void *pool_alloc(size_t bytes, void *stream, void *user)
{
    pool *p = user;
    void *data;
    CHECK(stream == p->stream && bytes > 0, "%zu bytes on stream %p", bytes, stream);
    p->calls++;
    p->last = bytes;
    if (p->first > 0 && p->calls >= p->first) {
        p->failures++;
        return NULL;
    }
    CHECK_OK(p->from, p->from->ops->alloc(p->from, bytes, &data));
    p->out++;
    return data;
}

static void pool_free(void *data, void *stream, void *user)
{
    pool *p = user;
    CHECK(stream == p->stream && data != NULL, "stream %p, piece %p", stream, data);
    p->from->ops->free(p->from, data);
    p->out--;
}

static ms_device *open_on(pool *p, const ms_device *like)
{
    const musec_allocator a   = { pool_alloc, pool_free, p };
    ms_device            *dev = NULL;
    *p                        = (pool){ 0 };
    CHECK(musec_ctx_create(&p->from, like->name) == MUSEC_OK, "%s", like->name);
    CHECK(musec_ctx_create(&dev, like->name) == MUSEC_OK, "%s", like->name);
    if (dev->kind->stream != NULL) p->stream = dev->kind->stream(dev);
    CHECK_OK(dev, musec_ctx_set_allocator(dev, &a));
    return dev;
}

static void close_on(pool *p, ms_device *dev)
{
    musec_ctx_destroy(dev);
    CHECK(p->out == 0, "%lld pieces were not freed", (long long)p->out);
    musec_ctx_destroy(p->from);
}

static const rig_param model[] = {
    { .name = "a", .role = MUSEC_ROLE_QK, .rows = 24, .cols = 40 },
    { .name = "b", .role = MUSEC_ROLE_MLP, .rows = 40, .cols = 24 },
    { .name = "c", .role = MUSEC_ROLE_MLP, .rows = 70, .cols = 9, .layout = { .more = 2 } },
    { .name = "v", .role = MUSEC_ROLE_VECTOR, .rows = 1, .cols = 9 },
};

static const struct {
    const char *name, *options;
} cases[] = {
    { "soft-musec", "ns-mode=fast" },
    { "soft-musec", "ns-mode=paper nesterov=yes" },
    { "soft-musec", "ns-mode=exact" },
    { "soft-musec", "ns-mode=accurate threshold=rms:1" },
    { "soft-musec", "ns-mode=fast nonfinite=defer operands=f16" },
    { "musec", "ns-mode=exact threshold=0.2" },
    { "musec", "ns-mode=fast threshold=0.2" },
    { "spectra", "avg-steps=2 avg-epochs=1" },
    { "muon", "" },
    { "adamw", "" },
    { "normuon", "" },
    { "adamuon", "" },
    { "muonh", "report-every=2" },
    { "soft-musec", "ns-mode=fast second-moment=rows" },
};

TEST_EACH_DEVICE(memory_comes_from_the_caller_and_goes_back, dev)
{
    for (size_t c = 0; c < COUNT(cases); c++) {
        pool       p;
        ms_device *own = open_on(&p, dev);
        rig        want =
            rig_make(dev, cases[c].name, cases[c].options, MUSEC_F32, model, COUNT(model), 3);
        rig got = rig_make(own, cases[c].name, cases[c].options, MUSEC_F32, model, COUNT(model), 3);
        rig_steps(&want, 0, 3);
        rig_steps(&got, 0, 3);
        const int64_t calls = p.calls;
        rig_steps(&want, 3, 2);
        rig_steps(&got, 3, 2);
        CHECK(p.calls == calls && calls > 0, "%s %s: %lld calls, %lld of them in later steps",
              cases[c].name, cases[c].options, (long long)p.calls, (long long)(p.calls - calls));
        rig_check_same(&want, &got, cases[c].name, cases[c].options);
        rig_free(&want), rig_free(&got);
        close_on(&p, own);
    }
}

/* From its call n on the pool has nothing, for every n that the first step comes to. */
static void check_failures(const ms_device *dev, const char *name, const char *options)
{
    pool       p;
    ms_device *own  = open_on(&p, dev);
    rig        want = rig_make(own, name, options, MUSEC_F32, model, COUNT(model), 3);
    rig_step(&want, 0, 1.0);
    for (int64_t n = 1; n > 0; n++) {
        pool       q;
        ms_device *poor = open_on(&q, dev);
        rig        r    = rig_make(poor, name, options, MUSEC_F32, model, COUNT(model), 3);
        rig_set_grads(&r, 0, 1.0);
        const int64_t out     = q.out;
        q.first               = q.calls + n;
        const musec_status st = rig_try(&r, 1.0);
        if (st == MUSEC_OK) {
            CHECK(n > 3, "%s %s: a step took %lld pieces", name, options, (long long)(n - 1));
            n = -1; /* the last */
        } else {
            CHECK(st == MUSEC_ENOMEM && poor->error.text[0] != '\0', "%s %s: call %lld: %s", name,
                  options, (long long)n, musec_status_name(st));
            CHECK(musec_optim_steps(r.opt) == 0, "%s %s: the step counts", name, options);
            for (size_t i = 0; i < COUNT(model); i++)
                CHECK(rig_unmoved(&r, i), "%s %s: call %lld moved %s", name, options, (long long)n,
                      model[i].name);
            CHECK(q.out >= out, "%s %s: it freed what it did not take", name, options);
            q.first = 0;
            rig_go(&r);
        }
        rig_check_same(&want, &r, name, options);
        rig_free(&r);
        close_on(&q, poor);
    }
    rig_free(&want);
    close_on(&p, own);
}

TEST_EACH_DEVICE(a_step_without_memory_changes_nothing, dev)
{
    for (size_t c = 0; c < COUNT(cases); c++) /* a GPU's solver takes memory of its own */
        if (!dev->kind->batch_variant || strstr(cases[c].options, "exact") == NULL)
            check_failures(dev, cases[c].name, cases[c].options);
}

TEST_EACH_DEVICE(an_allocator_is_set_before_anything_is_allocated, dev)
{
    const musec_allocator half = { pool_alloc, NULL, NULL };
    ms_device            *own  = NULL;
    void                 *data = NULL;
    pool                  p    = { 0 };
    const musec_allocator a    = { pool_alloc, pool_free, &p };
    CHECK(musec_ctx_create(&own, dev->name) == MUSEC_OK, "%s", dev->name);
    CHECK(musec_ctx_set_allocator(NULL, &a) == MUSEC_EINVAL, "no context");
    CHECK_FAILS(&own->error, musec_ctx_set_allocator(own, &half), MUSEC_EINVAL, "both functions");
    CHECK_OK(own, own->ops->alloc(own, 100, &data));
    CHECK_FAILS(&own->error, musec_ctx_set_allocator(own, &a), MUSEC_EINVAL, "in use already");
    own->ops->free(own, data);
    CHECK_OK(own, musec_ctx_set_allocator(own, &a));
    CHECK_OK(own, musec_ctx_set_allocator(own, NULL));
    CHECK_OK(own, own->ops->alloc(own, 100, &data));
    own->ops->free(own, data);
    CHECK(p.calls == 0, "the allocator was unset");
    musec_ctx_destroy(own);
}

static char aligned[256] __attribute__((aligned(64)));
static int  odd_frees;

static void *odd_alloc(size_t bytes, void *stream, void *user)
{
    (void)bytes, (void)stream, (void)user;
    return aligned + 8;
}

static void odd_free(void *data, void *stream, void *user)
{
    (void)data, (void)stream, (void)user;
    odd_frees++;
}

TEST_EACH_DEVICE(an_address_that_is_not_aligned_is_refused, dev)
{
    const musec_allocator a    = { odd_alloc, odd_free, NULL };
    ms_device            *own  = NULL;
    void                 *data = NULL;
    odd_frees                  = 0;
    CHECK(musec_ctx_create(&own, dev->name) == MUSEC_OK, "%s", dev->name);
    CHECK_OK(own, musec_ctx_set_allocator(own, &a));
    CHECK_FAILS(&own->error, own->ops->alloc(own, 100, &data), MUSEC_EINVAL, "multiple of 64");
    CHECK(data == NULL && odd_frees == 1, "%d frees", odd_frees);
    musec_ctx_destroy(own);
}

/* The memory that a report needs is taken at steps that report, and what the library promises
 * bounds those too. */
TEST_EACH_DEVICE(a_report_takes_memory_when_it_is_made, dev)
{
    static const char *const options[] = { "ns-mode=fast operands=f16 report-every=3",
                                           "ns-mode=accurate report-every=3" };
    for (size_t c = 0; ms_device_has(dev, MUSEC_F16) && c < COUNT(options); c++) {
        pool       p;
        uint64_t   promise = 0;
        size_t     bytes[7];
        ms_device *own = open_on(&p, dev);
        rig        r   = rig_make(own, "soft-musec", options[c], MUSEC_F32, model, COUNT(model), 7);
        CHECK_OK(own, musec_optim_workspace(r.opt, &promise, NULL));
        for (int t = 0; t < 7; t++) {
            const uint64_t allocs = own->scratch.n_allocs;
            rig_steps(&r, t, 1);
            CHECK(t == 0 || own->scratch.n_allocs == allocs + 1, "%s: step %d took %llu pieces",
                  options[c], t, (unsigned long long)(own->scratch.n_allocs - allocs));
            CHECK(own->scratch.peak <= promise, "%s: step %d used %zu bytes of %llu", options[c], t,
                  own->scratch.peak, (unsigned long long)promise);
            bytes[t] = p.last;
            CHECK_OK(own, musec_ctx_trim(own));
        }
        for (int t = 1; t < 7; t++) {
            const bool reports = (t + 1) % 3 == 0;
            CHECK(reports ? bytes[t] > bytes[3] : bytes[t] == bytes[3],
                  "%s: step %d took %zu bytes, step 3 %zu", options[c], t, bytes[t], bytes[3]);
        }
        rig_free(&r);
        close_on(&p, own);
    }
}

/* A context that keeps its workspace takes all of it at once, and no report asks for more. */
TEST_EACH_DEVICE(a_kept_workspace_is_taken_at_the_first_step, dev)
{
    ms_device *own = NULL;
    CHECK(musec_ctx_create(&own, dev->name) == MUSEC_OK, "%s", dev->name);
    rig r = rig_make(own, "soft-musec", "report-every=3", MUSEC_F32, model, COUNT(model), 6);
    rig_steps(&r, 0, 2);
    const uint64_t allocs = own->scratch.n_allocs;
    rig_steps(&r, 2, 4);
    CHECK(own->scratch.n_allocs == allocs, "%llu more pieces",
          (unsigned long long)(own->scratch.n_allocs - allocs));
    rig_free(&r);
    musec_ctx_destroy(own);
}

/* The piece that is lent serves the step that asks for its size, and no other call. */
TEST_EACH_DEVICE(a_loan_is_the_workspace_of_a_step, dev)
{
    const char *const options = "ns-mode=fast report-every=3";
    pool              p       = { 0 };
    musec_loan        loan    = { .next = { pool_alloc, pool_free, &p } };
    ms_device        *own     = NULL;
    CHECK(musec_ctx_create(&p.from, dev->name) == MUSEC_OK, "%s", dev->name);
    CHECK(musec_ctx_create(&own, dev->name) == MUSEC_OK, "%s", dev->name);
    if (own->kind->stream != NULL) p.stream = own->kind->stream(own);
    CHECK_OK(own, musec_ctx_set_allocator(
                      own, &(musec_allocator){ musec_loan_alloc, musec_loan_free, &loan }));
    rig want = rig_make(dev, "soft-musec", options, MUSEC_F32, model, COUNT(model), 7);
    rig got  = rig_make(own, "soft-musec", options, MUSEC_F32, model, COUNT(model), 7);
    rig_steps(&want, 0, 7);
    rig_steps(&got, 0, 3); /* the first report takes what a GPU's decompositions keep */
    CHECK_OK(own, musec_ctx_trim(own));
    for (int t = 3; t < 7; t++) {
        const bool reports = (t + 1) % 3 == 0;
        if (t == 4) { /* nothing is lent, and the next allocator has nothing */
            p.first = p.calls + 1;
            rig_set_grads(&got, t, 1.0);
            CHECK(rig_try(&got, 1.0) == MUSEC_ENOMEM, "a step without memory");
            CHECK(musec_optim_steps(got.opt) == t && loan.is_out == 0, "the step counts");
            p.first = 0;
        }
        const int64_t calls = p.calls, out = p.out;
        if (t > 3) { /* step 3 has shown its size */
            CHECK_OK(p.from, p.from->ops->alloc(p.from, loan.bytes, &loan.data));
            CHECK(!loan.is_out, "step %d: nothing was asked yet", t);
        }
        rig_steps(&got, t, 1);
        CHECK(loan.is_out == (t > 3 && !reports), "step %d: is_out %d", t, loan.is_out);
        CHECK(loan.was_out == loan.is_out, "step %d: was_out %d", t, loan.was_out);
        loan.was_out = 0;
        CHECK(p.calls == calls + (t == 3 || reports), "step %d: %lld calls", t,
              (long long)(p.calls - calls));
        if (t == 3) loan.bytes = p.last;
        CHECK_OK(own, musec_ctx_trim(own));
        CHECK(loan.is_out == 0 && p.out == out, "step %d: %lld pieces are out", t,
              (long long)p.out);
        if (loan.data != NULL) p.from->ops->free(p.from, loan.data);
        loan.data = NULL;
    }
    rig_check_same(&want, &got, "soft-musec", options);
    rig_free(&want), rig_free(&got);
    close_on(&p, own);
}
