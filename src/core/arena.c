/* arena.c - allocation in order and release in reverse.
 *
 * Invariants:
 *   - chunk[i].bytes and .used count from the first aligned address at or after .base; used is a
 *     multiple of MS_ARENA_ALIGN, so everything handed out is aligned.
 *   - chunks after `current` are empty.
 *   - in_use is the sum of all that was taken and not reset, each rounded up to MS_ARENA_ALIGN.
 *
 * A new chunk is at least half as large as all before it while the device has that much; after
 * that, at least half of what it has left.  So some 40 chunks reach a terabyte while at most a
 * third of it lies idle, and some 20 more use up the rest: MS_ARENA_CHUNKS are enough.  Chunks are
 * joined when memory is next taken, not at the reset: a reset costs nothing, and queued work may
 * still read what it gave back.  Addresses are only computed with: the memory may be a device's. */
#include "core/arena.h"

#include <string.h>

#include "core/size.h"

#define CHUNK_MIN ((size_t)64 * 1024) /* bytes: small requests share one allocation */

void ms_arena_init(ms_arena *arena, void *owner,
                   musec_status (*alloc)(void *owner, size_t bytes, void **out),
                   void (*release)(void *owner, void *p))
{
    memset(arena, 0, sizeof *arena);
    arena->owner = owner;
    arena->alloc = alloc;
    arena->free  = release;
}

static unsigned char *aligned_start(unsigned char *base)
{
    const size_t over = (size_t)((uintptr_t)base % MS_ARENA_ALIGN);
    return over == 0 ? base : base + (MS_ARENA_ALIGN - over);
}

static void free_chunks(ms_arena *arena)
{
    for (int i = arena->n_chunks - 1; i >= 0; i--)
        arena->free(arena->owner, arena->chunk[i].base);
    memset(arena->chunk, 0, sizeof arena->chunk);
    arena->n_chunks = 0;
    arena->current  = 0;
}

static size_t total_bytes(const ms_arena *arena)
{
    size_t total = 0; /* no overflow: all of it is allocated at once */
    for (int i = 0; i < arena->n_chunks; i++)
        total += arena->chunk[i].bytes;
    return total;
}

/* Appends a chunk of `wish` bytes, or where that is refused of half as many, and so on, down to
 * `need`.  Falling to `need` at once would spend a chunk on each take while there is memory. */
static musec_status add_chunk(ms_arena *arena, size_t wish, size_t need)
{
    if (arena->n_chunks == MS_ARENA_CHUNKS) return MUSEC_ENOMEM;
    for (size_t size = wish;; size = size / 2 > need ? size / 2 : need) {
        void        *base  = NULL;
        size_t       bytes = 0;
        musec_status st    = MUSEC_ENOMEM;
        if (ms_size_add(size, MS_ARENA_ALIGN, &bytes)) {
            arena->n_allocs++;
            st = arena->alloc(arena->owner, bytes, &base);
        }
        if (st == MUSEC_OK) {
            arena->chunk[arena->n_chunks].base  = base;
            arena->chunk[arena->n_chunks].bytes = size;
            arena->chunk[arena->n_chunks].used  = 0;
            arena->current                      = arena->n_chunks++;
            return MUSEC_OK;
        }
        /* Where the device failed, asking for less will not help. */
        if (st != MUSEC_ENOMEM || size == need) return st;
    }
}

/* Makes `current` a chunk that has `need` bytes left. */
static musec_status find_chunk(ms_arena *arena, size_t need)
{
    const size_t total = total_bytes(arena);
    size_t       wish  = need;

    if (arena->in_use == 0 && (arena->n_chunks > 1 || total < need)) {
        if (wish < total) wish = total;
        if (wish < CHUNK_MIN) wish = CHUNK_MIN;
        free_chunks(arena);
        return add_chunk(arena, wish, need);
    }
    for (int i = arena->current; i < arena->n_chunks; i++) {
        if (arena->chunk[i].bytes - arena->chunk[i].used >= need) {
            arena->current = i;
            return MUSEC_OK;
        }
    }
    if (wish < total / 2) wish = total / 2;
    if (wish < CHUNK_MIN) wish = CHUNK_MIN;
    return add_chunk(arena, wish, need);
}

musec_status ms_arena_take(ms_arena *arena, size_t bytes, void **out)
{
    size_t       need = 0;
    musec_status st;

    *out = NULL;
    if (bytes == 0) bytes = 1; /* so that every pointer is its own */
    if (!ms_size_add(bytes, MS_ARENA_ALIGN - 1, &need)) return MUSEC_ENOMEM;
    need -= need % MS_ARENA_ALIGN;
    TRY(find_chunk(arena, need));
    *out = aligned_start(arena->chunk[arena->current].base) + arena->chunk[arena->current].used;
    arena->chunk[arena->current].used += need;
    arena->in_use += need;
    if (arena->peak < arena->in_use) arena->peak = arena->in_use;
done:
    return st;
}

ms_mark ms_arena_mark(const ms_arena *arena)
{
    return (ms_mark){
        .chunk  = arena->current,
        .used   = arena->chunk[arena->current].used,
        .in_use = arena->in_use,
    };
}

void ms_arena_reset(ms_arena *arena, ms_mark mark)
{
    for (int i = mark.chunk + 1; i < arena->n_chunks; i++)
        arena->chunk[i].used = 0;
    arena->chunk[mark.chunk].used = mark.used;
    arena->current                = mark.chunk;
    arena->in_use                 = mark.in_use;
}

void ms_arena_destroy(ms_arena *arena)
{
    free_chunks(arena);
    arena->in_use = 0;
}
