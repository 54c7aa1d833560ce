/* arena.h - memory that is taken in order and given back in reverse, all at once.
 *
 * The memory comes from a pair of functions, so the same arena serves host and device.  It grows by
 * chunks and never moves what it handed out.  Reset to empty, several chunks become one of their
 * joint size at the next use: after the first round of a repeated computation nothing allocates. */
#ifndef MS_CORE_ARENA_H
#define MS_CORE_ARENA_H

#include "core/status.h"

#ifdef __cplusplus /* CUDA files are */
extern "C" {
#endif

#define MS_ARENA_ALIGN  256 /* bytes: enough for AVX-512, for cuBLASLt and for tensor-core loads */
#define MS_ARENA_CHUNKS 64

typedef struct ms_arena {
    musec_status (*alloc)(void *owner, size_t bytes, void **out);
    void (*free)(void *owner, void *p);
    void *owner;
    struct {
        unsigned char *base; /* as allocated */
        size_t         bytes, used;
    } chunk[MS_ARENA_CHUNKS];
    int    n_chunks, current;
    size_t in_use, peak; /* bytes, alignment included */
    size_t n_allocs;     /* calls of alloc so far: a test watches that it stops growing */
} ms_arena;

typedef struct ms_mark {
    int    chunk;
    size_t used, in_use;
} ms_mark;

void         ms_arena_init(ms_arena *arena, void *owner,
                           musec_status (*alloc)(void *owner, size_t bytes, void **out),
                           void (*release)(void *owner, void *p));
musec_status ms_arena_take(ms_arena *arena, size_t bytes, void **out); /* aligned; ENOMEM */
ms_mark      ms_arena_mark(const ms_arena *arena);
void         ms_arena_reset(ms_arena *arena, ms_mark mark);
void         ms_arena_destroy(ms_arena *arena); /* frees all chunks */

#ifdef __cplusplus
}
#endif
#endif
