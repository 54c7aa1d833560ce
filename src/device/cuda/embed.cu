/* embed.cu - rows of a table, and the gradient of the table.
 *
 * The gradient adds each row of dout to the table's row of its id in the order of dout, without
 * atomics, so that the bits are those of sequential additions.  The ids are sorted with their
 * positions (radix sort is stable, so positions of equal ids stay in order); each run of equal ids
 * is then summed by warps, each for some of the columns.  Most runs are short, and a warp has as
 * many columns as its lanes can load at once.  A frequent id has thousands of rows, which can only
 * be added one after the other: there a lane has two columns and loads many rows ahead, and these
 * runs are started first.  Runs are listed in any order, since no two share a row of the table. */
#include <assert.h>

#include <cub/device/device_radix_sort.cuh>

#include "device/cuda/row.cuh"

enum {
    COPIES   = 4,  /* units that a lane copies at once */
    ROWS_FAR = 32, /* rows of a long run that are loaded at once */
    ROWS_FEW = 4,  /* rows of a short run, or of the rest of a long one, loaded at once */
    LONG     = 64, /* rows of a run that is long */
    THREADS  = 256,
};

/* ---- embed ----------------------------------------------------------------------------------- */

/* Copies rows in Units, which leading dimensions and `units` count; a warp has a row. */
template <typename Unit>
static __global__ void gather(const int32_t *ids, int64_t n, const Unit *table, int64_t table_ld,
                              int64_t units, Unit *out, int64_t out_ld)
{
    const int     lane = (int)threadIdx.x % WARP;
    const int64_t step = (int64_t)gridDim.x * blockDim.x / WARP;
    for (int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / WARP; i < n; i += step) {
        const Unit *from = table + ids[i] * table_ld;
        Unit       *to   = out + i * out_ld;
        Unit        v[COPIES];
        for (int64_t j = lane; j < units; j += COPIES * WARP) {
#pragma unroll
            for (int k = 0; k < COPIES; k++)
                if (j + k * WARP < units) v[k] = from[j + k * WARP];
#pragma unroll
            for (int k = 0; k < COPIES; k++)
                if (j + k * WARP < units) to[j + k * WARP] = v[k];
        }
    }
}

template <typename Unit>
static musec_status run_gather(ms_device *d, ms_ids ids, ms_mat table, ms_mat out)
{
    const int64_t each = (int64_t)ms_dtype_bytes(out.dtype), unit = (int64_t)sizeof(Unit);
    gather<Unit><<<row_blocks(ids.count, WARP), ROW_THREADS, 0, ms_cuda_of(d)->stream>>>(
        ids.data, ids.count, (const Unit *)table.data, table.ld * each / unit,
        out.cols * each / unit, (Unit *)out.data, out.ld * each / unit);
    return launched(d, "embed");
}

static musec_status cuda_embed(ms_device *d, ms_ids ids, ms_mat table, ms_mat out)
{
    const uint64_t each = ms_dtype_bytes(out.dtype);
    const uint64_t ends = (uintptr_t)table.data | (uintptr_t)out.data | (uint64_t)out.cols * each |
                          (uint64_t)table.ld * each | (uint64_t)out.ld * each;
    if (ids.count == 0 || out.cols == 0) return MUSEC_OK;
    if (ends % sizeof(uint4) == 0) return run_gather<uint4>(d, ids, table, out);
    if (ends % sizeof(uint64_t) == 0) return run_gather<uint64_t>(d, ids, table, out);
    if (ends % sizeof(uint32_t) == 0) return run_gather<uint32_t>(d, ids, table, out);
    return run_gather<uint16_t>(d, ids, table, out);
}

/* ---- the columns of a lane ------------------------------------------------------------------- */

template <typename T, int V> struct columns : piece<T, V> {
}; /* one, or a vector */
template <> struct columns<float, 2> {
    float2 two;
};
template <> struct columns<double, 2> {
    double2 two;
};
template <> struct columns<__nv_bfloat16, 2> {
    __nv_bfloat162 two;
};
template <> struct columns<__half, 2> {
    __half2 two;
};

template <typename T, int V> static __device__ inline columns<T, V> fetch_columns(const T *p)
{
    if constexpr (V == 2)
        return *(const columns<T, V> *)p;
    else
        return columns<T, V>{ fetch<T, V>(p) };
}

template <typename T, int V>
static __device__ inline void add(const columns<T, V> &x, wide<T> (&sum)[V])
{
    if constexpr (V == 2) {
        sum[0] += widen(x.two.x);
        sum[1] += widen(x.two.y);
    } else {
        wide<T> v[V];
        unpack<T, V>(x, v);
#pragma unroll
        for (int e = 0; e < V; e++)
            sum[e] += v[e];
    }
}

/* ---- embed_grad ------------------------------------------------------------------------------ */

struct sorted {              /* device memory */
    uint32_t *keys, *order;  /* (n) sorted ids, and their rows of dout */
    uint32_t *runs;          /* (n) where the runs of equal ids begin, in any order: short ones from
                              * the front on, long ones from the end */
    uint32_t *n_runs;        /* (2) numbers of short and of long runs */
    uint32_t *ids, *counted; /* (n) ids and rows before they are sorted */
};

static __global__ void number_ids(const int32_t *ids, int n, sorted s)
{
    const int step = (int)(gridDim.x * blockDim.x);
    if (blockIdx.x == 0 && threadIdx.x < 2) s.n_runs[threadIdx.x] = 0;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        s.ids[i]     = (uint32_t)ids[i];
        s.counted[i] = (uint32_t)i;
    }
}

static __global__ void list_runs(int n, sorted s)
{
    const int step = (int)(gridDim.x * blockDim.x);
    for (int64_t p = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; p < n; p += step)
        if (p == 0 || s.keys[p] != s.keys[p - 1]) {
            const bool     is_long = p + LONG <= n && s.keys[p + LONG - 1] == s.keys[p];
            const uint32_t at      = atomicAdd(&s.n_runs[is_long], 1u);
            s.runs[is_long ? (uint32_t)n - 1 - at : at] = (uint32_t)p;
        }
}

/* Adds up to N rows of dout to sum in order; lane k + u holds the index of row u.  The whole warp
 * calls it; rows: the number of lanes that hold one. */
template <int N, typename T, int V>
static __device__ inline void add_rows(const T *dout, int64_t ld, uint32_t row, int k, int rows,
                                       bool mine, wide<T> (&sum)[V])
{
    columns<T, V> x[N];
#pragma unroll
    for (int u = 0; u < N; u++) {
        const uint32_t i = __shfl_sync(ALL_LANES, row, (k + u) % WARP);
        if (mine && k + u < rows) x[u] = fetch_columns<T, V>(dout + (int64_t)i * ld);
    }
#pragma unroll
    for (int u = 0; u < N; u++)
        if (mine && k + u < rows) add<T, V>(x[u], sum);
}

/* Adds up the run that begins at `start`, in the columns of one tile, N rows at once, by a warp. */
template <int N, typename T, int V>
static __device__ inline void add_run(const sorted &s, int n, uint32_t start, int tile,
                                      const lines<T> &dout, int cols, const lines<wide<T>> &dtable)
{
    const int      lane = (int)threadIdx.x % WARP, col = (tile * WARP + lane) * V;
    const bool     mine = col < cols;
    const uint32_t id   = s.keys[start];
    wide<T>       *to   = dtable.row(0, id) + col;
    wide<T>        sum[V];
    int            rows = WARP;
    if constexpr (V == VECTOR) {
        piece<wide<T>, V> old = {};
        if (mine) old = fetch<wide<T>, V>(to);
        unpack(old, sum);
    } else {
#pragma unroll
        for (int e = 0; e < V; e++)
            sum[e] = mine ? to[e] : (wide<T>)0;
    }
    int64_t  at   = (int64_t)start + lane;
    bool     same = at < n && s.keys[at] == id;
    uint32_t row  = same ? s.order[at] : 0;
    while (rows == WARP) {
        const uint32_t now = row;
        int            k   = 0;
        rows               = __popc(__ballot_sync(ALL_LANES, same));
        at += WARP; /* the next indices load while these rows are added */
        same = rows == WARP && at < n && s.keys[at] == id;
        row  = same ? s.order[at] : 0;
        for (; k + N <= rows; k += N)
            add_rows<N, T, V>(dout.data + col, dout.ld, now, k, rows, mine, sum);
        for (; k < rows; k += ROWS_FEW)
            add_rows<ROWS_FEW, T, V>(dout.data + col, dout.ld, now, k, rows, mine, sum);
    }
    if (!mine) return;
    if constexpr (V == VECTOR) {
        put(to, sum);
    } else {
#pragma unroll
        for (int e = 0; e < V; e++)
            to[e] = sum[e];
    }
}

/* Adds up the short runs or the long ones, in separate kernels, because loading many rows ahead
 * takes registers. */
template <typename T, int V, bool IS_LONG>
static __global__ void __launch_bounds__(THREADS)
    add_runs(sorted s, int n, lines<T> dout, int cols, lines<wide<T>> dtable)
{
    constexpr int N     = IS_LONG ? ROWS_FAR : ROWS_FEW;
    const int64_t warps = (int64_t)gridDim.x * blockDim.x / WARP;
    const int64_t tiles = (cols + WARP * V - 1) / (WARP * V), items = s.n_runs[IS_LONG] * tiles;
    for (int64_t item = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / WARP; item < items;
         item += warps) {
        int64_t run, tile;
        divide(item, tiles, &run, &tile);
        add_run<N, T, V>(s, n, s.runs[IS_LONG ? n - 1 - run : run], (int)tile, dout, cols, dtable);
    }
}

/* Fills in s, whose memory is allocated, from the ids of dout, at most 2^31. */
static musec_status sort_ids(ms_device *d, ms_ids ids, int64_t vocab, sorted s)
{
    const cudaStream_t stream    = ms_cuda_of(d)->stream;
    const int          n         = (int)ids.count;
    const unsigned     blocks    = blocks_for(d, n, THREADS);
    int                bits      = 1; /* of the largest id */
    size_t             bytes     = 0;
    void              *workspace = NULL;
    musec_status       st;
    while (bits < 31 && (vocab - 1) >> bits != 0)
        bits++;
    number_ids<<<blocks, THREADS, 0, stream>>>(ids.data, n, s);
    st = launched(d, "embed_grad");
    for (int pass = 0; pass < 2 && st == MUSEC_OK;
         pass++) { /* the first pass asks for the size of the workspace */
        st = ms_cuda_status(d,
                            cub::DeviceRadixSort::SortPairs(workspace, bytes, s.ids, s.keys,
                                                            s.counted, s.order, n, 0, bits, stream),
                            "embed_grad");
        if (pass == 0 && st == MUSEC_OK) st = ms_scratch_bytes(d, bytes, &workspace);
    }
    if (st != MUSEC_OK) return st;
    list_runs<<<blocks, THREADS, 0, stream>>>(n, s);
    return launched(d, "embed_grad");
}

/* Do all rows begin where two elements may be read at once? */
static bool is_paired(const ms_mat *x)
{
    const uintptr_t two = 2 * ms_dtype_bytes(x->dtype);
    return (uintptr_t)x->data % two == 0 && x->ld % 2 == 0 && x->cols % 2 == 0;
}

/* V: columns of a lane in short runs, W: in long ones, which are started first. */
template <typename T, int V, int W>
static musec_status launch_runs(ms_device *d, const sorted &s, int n, ms_mat dout, ms_mat dtable)
{
    const cudaStream_t   stream   = ms_cuda_of(d)->stream;
    const lines<T>       from     = lines_of<T>(dout);
    const lines<wide<T>> to       = lines_of<wide<T>>(dtable);
    const int            cols     = (int)dout.cols;
    const int64_t        in_long  = ceil_div(n, LONG) * ceil_div(cols, WARP * W);
    const int64_t        in_short = n * ceil_div(cols, WARP * V);
    add_runs<T, W, true>
        <<<blocks_for(d, in_long, THREADS / WARP), THREADS, 0, stream>>>(s, n, from, cols, to);
    const musec_status st = launched(d, "embed_grad");
    if (st != MUSEC_OK) return st;
    add_runs<T, V, false>
        <<<blocks_for(d, in_short, THREADS / WARP), THREADS, 0, stream>>>(s, n, from, cols, to);
    return launched(d, "embed_grad");
}

static musec_status run_embed_grad(ms_device *d, ms_ids ids, ms_mat dout, ms_mat dtable)
{
    const size_t n       = (size_t)ids.count;
    void        *scratch = NULL;
    musec_status st      = ms_scratch_bytes(d, (5 * n + 2) * sizeof(uint32_t), &scratch);
    if (st != MUSEC_OK) return st;
    uint32_t    *at = (uint32_t *)scratch;
    const sorted s  = { at, at + n, at + 2 * n, at + 5 * n, at + 3 * n, at + 4 * n };
    st              = sort_ids(d, ids, dtable.rows, s);
    if (st != MUSEC_OK) return st;
    return by_dtype(dout.dtype, [&](auto tag) {
        typedef typename decltype(tag)::type T;
        if constexpr (sizeof(T) < sizeof(double))
            if (is_vector(&dout) && is_vector(&dtable))
                return launch_runs<T, VECTOR, 2>(d, s, (int)n, dout, dtable);
        if (is_paired(&dout) && is_paired(&dtable))
            return launch_runs<T, 2, 2>(d, s, (int)n, dout, dtable);
        return launch_runs<T, 1, 1>(d, s, (int)n, dout, dtable);
    });
}

static musec_status cuda_embed_grad(ms_device *d, ms_ids ids, ms_mat dout, ms_mat dtable)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    musec_status  st;
    assert(ids.count <= INT32_MAX && dout.cols <= INT32_MAX / 2);
    if (ids.count == 0 || dout.cols == 0) return MUSEC_OK;
    st = run_embed_grad(d, ids, dout, dtable);
    ms_arena_reset(&d->scratch, mark);
    return st;
}

void ms_cuda_embed_ops(ms_device_ops *table)
{
    table->embed      = cuda_embed;
    table->embed_grad = cuda_embed_grad;
}
