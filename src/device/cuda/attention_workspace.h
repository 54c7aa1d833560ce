/* attention_workspace.h - the memory that the gradient of attention takes on Hopper, where it
 * stores dS (attention_wgmma_grad.cu).  It holds sizes alone, so that one can plan without a
 * GPU. */
#ifndef MS_DEVICE_CUDA_ATTENTION_WORKSPACE_H
#define MS_DEVICE_CUDA_ATTENTION_WORKSPACE_H

#include <stdint.h>

enum {
    MS_ATTN_SIDE   = 64,                              /* rows of a tile */
    MS_ATTN_TILE   = MS_ATTN_SIDE * MS_ATTN_SIDE * 2, /* bytes of a tile of dS */
    MS_ATTN_DS_MAX = 1 << 30,                         /* bytes of dS of a chunk of heads */
    MS_ATTN_CHUNKS = 64,                              /* the most chunks of heads */
};

static inline int64_t ms_attn_tiles(int64_t rows) { return (rows - 1) / MS_ATTN_SIDE + 1; }

/* Returns the most tiles of queries that see a tile of keys; a query sees `reach` keys before its
 * own. */
static inline int64_t ms_attn_reach_tiles(int64_t rows, int64_t reach)
{
    const int64_t seen = reach < rows - 1 ? reach : rows - 1;
    const int64_t most = (MS_ATTN_SIDE - 1 + seen) / MS_ATTN_SIDE + 1;
    return most < ms_attn_tiles(rows) ? most : ms_attn_tiles(rows);
}

/* Returns the bytes of dS of one head. */
static inline uint64_t ms_attn_ds_bytes(int64_t rows, int64_t reach)
{
    return (uint64_t)ms_attn_tiles(rows) * (uint64_t)ms_attn_reach_tiles(rows, reach) *
           MS_ATTN_TILE;
}

/* Returns the bytes of the logsumexps, or of D, of all heads. */
static inline uint64_t ms_attn_stat_bytes(int64_t heads, int64_t rows)
{
    return (uint64_t)heads * (uint64_t)ms_attn_tiles(rows) * MS_ATTN_SIDE * sizeof(float);
}

/* Returns the most bytes that a call takes for any documents within `reach`: with shorter ones a
 * chunk may have more heads, so it is more than a call with that reach takes. */
static inline uint64_t ms_attn_grad_max_bytes(int64_t heads, int64_t rows, int64_t reach)
{
    const uint64_t each = ms_attn_ds_bytes(rows, reach), most = MS_ATTN_DS_MAX;
    const uint64_t ds   = each <= most / (uint64_t)heads ? (uint64_t)heads * each : most;
    const uint64_t last = (uint64_t)ms_attn_tiles(rows) * MS_ATTN_SIDE * sizeof(int32_t);
    return ds + 2 * ms_attn_stat_bytes(heads, rows) + last + MS_ATTN_CHUNKS * sizeof(int32_t);
}

#endif
