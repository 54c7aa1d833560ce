/* arena_test.c - the arena on an allocator that counts, refuses and misaligns. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/rng.h"

typedef struct heap {
    ms_arena     arena;
    size_t       live;  /* allocations not yet freed */
    size_t       limit; /* a larger request is refused */
    size_t       shift; /* each address modulo 256 */
    musec_status refusal;
} heap;

static musec_status heap_alloc(void *owner, size_t bytes, void **out)
{
    heap *h = owner;

    if (bytes > h->limit) return h->refusal;
    *out = aligned_alloc(256, (bytes + h->shift + 255) / 256 * 256);
    if (*out == NULL) return MUSEC_ENOMEM;
    *out = (unsigned char *)*out + h->shift;
    h->live++;
    return MUSEC_OK;
}

static void heap_free(void *owner, void *p)
{
    heap *h = owner;
    free((unsigned char *)p - h->shift);
    h->live--;
}

static void heap_init(heap *h)
{
    *h = (heap){ .limit = (size_t)1 << 30, .shift = 16, .refusal = MUSEC_ENOMEM };
    ms_arena_init(&h->arena, h, heap_alloc, heap_free);
}

static void heap_destroy(heap *h)
{
    ms_arena_destroy(&h->arena);
    CHECK(h->live == 0 && h->arena.in_use == 0, "%zu chunks left", h->live);
    ms_arena_destroy(&h->arena); /* a second call does nothing */
}

TEST(allocations_are_aligned_and_do_not_overlap)
{
    static const size_t sizes[] = { 1, 0, 255, 256, 257, 100000, 3, 1 << 20, 0, 7 };
    heap                h;
    unsigned char      *got[COUNT(sizes)];
    size_t              sum = 0;

    heap_init(&h);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        void *p = NULL;
        CHECK(ms_arena_take(&h.arena, sizes[i], &p) == MUSEC_OK && p != NULL, "take %zu", i);
        CHECK((uintptr_t)p % MS_ARENA_ALIGN == 0, "take %zu: %p", i, p);
        memset(p, (int)i, sizes[i]); /* ASan sees writes beyond a chunk, the loop below the rest */
        got[i] = p;
        sum += sizes[i] == 0 ? 256 : (sizes[i] + 255) / 256 * 256;
    }
    CHECK(h.arena.in_use == sum && h.arena.peak == sum, "%zu in use, peak %zu, not %zu",
          h.arena.in_use, h.arena.peak, sum);
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (size_t j = 0; j < sizes[i]; j++)
            CHECK(got[i][j] == i, "take %zu was overwritten at %zu", i, j);
    CHECK(got[1] != got[2], "an empty take has its own address");
    heap_destroy(&h);
}

/* One round of a computation with nested marks; allocations after the inner ones need new
 * chunks. */
static void one_round(ms_arena *a, size_t unit)
{
    const ms_mark outer = ms_arena_mark(a);
    void         *p, *q, *r;

    CHECK(ms_arena_take(a, unit, &p) == MUSEC_OK, "outer");
    memset(p, 1, unit);
    for (size_t k = 1; k <= 6; k++) {
        const ms_mark inner = ms_arena_mark(a);
        CHECK(ms_arena_take(a, k * unit, &q) == MUSEC_OK, "inner %zu", k);
        CHECK(ms_arena_take(a, 3 * k * unit, &r) == MUSEC_OK, "inner %zu", k);
        memset(q, 2, k * unit);
        memset(r, 3, 3 * k * unit);
        ms_arena_reset(a, inner);
    }
    for (size_t i = 0; i < unit; i++)
        CHECK(((unsigned char *)p)[i] == 1, "the outer take was overwritten at %zu", i);
    ms_arena_reset(a, outer);
}

TEST(second_round_joins_chunks_and_later_ones_allocate_nothing)
{
    heap            h;
    const ms_arena *a = &h.arena;

    heap_init(&h);
    one_round(&h.arena, 50000);
    CHECK(a->n_chunks > 1, "%d chunks: the round is too small for this test", a->n_chunks);
    CHECK(a->in_use == 0, "%zu", a->in_use);
    one_round(&h.arena, 50000);
    CHECK(a->n_chunks == 1 && h.live == 1, "%d chunks, %zu live", a->n_chunks, h.live);
    const size_t allocs = a->n_allocs;
    for (int i = 0; i < 5; i++)
        one_round(&h.arena, 50000);
    CHECK(a->n_allocs == allocs, "%zu more allocations", a->n_allocs - allocs);
    CHECK(a->peak == 50176 + 300032 + 900096, "%zu", a->peak); /* 1, 6 and 18 units, rounded up */
    heap_destroy(&h);
}

TEST(allocations_stay_where_they_are)
{
    enum { N = 1500 };
    static unsigned char *got[N];
    static size_t         size[N];
    heap                  h;

    heap_init(&h);
    for (size_t i = 0; i < N; i++) { /* small and large mixed, so that chunks are skipped */
        void *p = NULL;
        size[i] = ms_rand_u64(1, i) % (i % 50 == 0 ? 500000 : 3000) + 1;
        CHECK(ms_arena_take(&h.arena, size[i], &p) == MUSEC_OK, "take %zu, %d chunks", i,
              h.arena.n_chunks);
        got[i] = p;
        memset(p, (int)(i % 251), size[i]);
    }
    for (size_t i = 0; i < N; i++)
        CHECK(got[i][0] == i % 251 && got[i][size[i] - 1] == i % 251, "take %zu", i);
    heap_destroy(&h);
}

TEST(refused_allocations_are_reported_and_leave_no_trace)
{
    heap      h;
    ms_arena *a = &h.arena;
    void     *p = &h;

    heap_init(&h);
    CHECK(ms_arena_take(a, SIZE_MAX, &p) == MUSEC_ENOMEM && p == NULL, "SIZE_MAX");
    CHECK(ms_arena_take(a, SIZE_MAX - 255, &p) == MUSEC_ENOMEM, "the last multiple of 256");
    CHECK(ms_arena_take(a, SIZE_MAX - 600, &p) == MUSEC_ENOMEM, "the alignment overflows");
    CHECK(a->in_use == 0 && a->peak == 0 && h.live == 0, "a refusal leaves no trace");

    h.limit = 1100; /* less than the preferred size of a chunk, enough for the request */
    CHECK(ms_arena_take(a, 500, &p) == MUSEC_OK, "falls back to the size of the request");
    CHECK(ms_arena_take(a, 5000, &p) == MUSEC_ENOMEM && p == NULL, "but not below it");
    CHECK(ms_arena_take(a, 12, &p) == MUSEC_OK, "and goes on");

    h.refusal        = MUSEC_EDEVICE;
    const size_t was = a->n_allocs;
    CHECK(ms_arena_take(a, 5000, &p) == MUSEC_EDEVICE, "the device's own failure is passed on");
    CHECK(a->n_allocs == was + 1, "and is not tried twice");

    h.refusal = MUSEC_ENOMEM;
    for (int i = 0; i < 100; i++) /* each request needs its own chunk, until the slots run out */
        if (ms_arena_take(a, 700, &p) != MUSEC_OK) break;
    CHECK(p == NULL && a->n_chunks == MS_ARENA_CHUNKS, "%d chunks", a->n_chunks);
    heap_destroy(&h);
}

TEST(a_refused_joint_chunk_does_not_stop_the_arena)
{
    heap          h;
    ms_arena     *a     = &h.arena;
    const ms_mark empty = { 0 };
    void         *p;

    heap_init(&h);
    for (int i = 0; i < 3; i++)
        CHECK(ms_arena_take(a, 100000, &p) == MUSEC_OK, "take %d", i);
    ms_arena_reset(a, empty);
    h.limit = 150000; /* below the size of the joint chunk */
    CHECK(ms_arena_take(a, 100000, &p) == MUSEC_OK, "the request itself still fits");
    ms_arena_reset(a, empty);
    CHECK(ms_arena_take(a, 200000, &p) == MUSEC_ENOMEM, "this one does not");
    CHECK(ms_arena_take(a, 1000, &p) == MUSEC_OK, "and the arena goes on");
    heap_destroy(&h);
}

/* A device of that many bytes.  The addresses are never used, so there is no memory behind them. */
typedef struct device {
    size_t left, next;
} device;

static musec_status device_alloc(void *owner, size_t bytes, void **out)
{
    device *d = owner;

    if (bytes > d->left) return MUSEC_ENOMEM;
    *out = (void *)(uintptr_t)d->next; // NOLINT(performance-no-int-to-ptr)
    d->left -= bytes;
    d->next += bytes;
    return MUSEC_OK;
}

static void device_free(void *owner, void *p) { (void)owner, (void)p; }

/* No allocation, small or large, is refused while it fits. */
TEST(all_of_a_devices_memory_can_be_used)
{
    static const size_t devices[] = { (size_t)1 << 30, (size_t)24 << 30, (size_t)141 << 30 };

    for (size_t i = 0; i < COUNT(devices); i++)
        for (size_t each = (size_t)64 << 10; each <= (size_t)4 << 30; each *= 4) {
            device   d = { .left = devices[i], .next = MS_ARENA_ALIGN };
            ms_arena a;
            void    *p = NULL;
            ms_arena_init(&a, &d, device_alloc, device_free);
            while (ms_arena_take(&a, each, &p) == MUSEC_OK)
                CHECK(p != NULL, "no address");
            CHECK(d.left < each + MS_ARENA_ALIGN,
                  "takes of %zu bytes: refused after %zu in %d chunks, %zu of %zu left", each,
                  a.in_use, a.n_chunks, d.left, devices[i]);
            ms_arena_destroy(&a);
        }
}
