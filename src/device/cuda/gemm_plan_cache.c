/* gemm_plan_cache.c - the algorithms chosen for products, cached in a file.
 *
 * A file is for one chip and one version of cuBLASLt, both in its name, and holds plans of both
 * kinds of context, which keys tell apart.  Its directory is that of core/cache.h. */
#include <stdlib.h>
#include <string.h>

#include "device/cuda/gemm_plan.h"

enum { CACHED_PLANS_MAX = 4096 }; /* plans in the file */

/* The header of the file; one with another header is not read.  The version is raised also when the
 * way of choosing a plan changes. */
static const uint64_t head[] = { 2 /* version */, sizeof(ms_cuda_gemm_key),
                                 sizeof(cublasLtMatmulAlgo_t) };

static ms_cuda_cached_plan *find(const ms_cuda_plan_cache *all, const ms_cuda_gemm_key *k)
{
    for (size_t i = 0; i < all->n; i++)
        if (memcmp(&all->at[i].key, k, sizeof *k) == 0) return &all->at[i];
    return NULL;
}

/* Adds a plan unless the cache is full.  One of the same key is replaced if `replaces`.  Returns
 * whether the cache changed. */
static bool add(ms_cuda_plan_cache *all, const ms_cuda_cached_plan *one, bool replaces)
{
    ms_cuda_cached_plan *was = find(all, &one->key), *grown;
    if (was != NULL && replaces) *was = *one;
    if (was != NULL || all->n == CACHED_PLANS_MAX) return was != NULL && replaces;
    grown = realloc(all->at, (all->n + 1) * sizeof *grown);
    if (grown == NULL) return false;
    all->at           = grown;
    all->at[all->n++] = *one;
    return true;
}

/* Adds the plans of the file that are not in the cache yet. */
static void read_file(ms_cuda_plan_cache *all)
{
    void               *data  = NULL;
    size_t              bytes = 0;
    ms_cuda_cached_plan one;
    all->is_read = true;
    if (!ms_cache_load(all->name, &data, &bytes)) return;
    if (bytes >= sizeof head && memcmp(data, head, sizeof head) == 0)
        for (size_t at = sizeof head; at + sizeof one <= bytes; at += sizeof one) {
            memcpy(&one, (const char *)data + at, sizeof one);
            (void)add(all, &one, false);
        }
    free(data);
}

static void write_file(const ms_cuda_plan_cache *all)
{
    const size_t bytes = sizeof head + all->n * sizeof *all->at;
    char        *data  = malloc(bytes);
    if (data == NULL) return;
    memcpy(data, head, sizeof head);
    memcpy(data + sizeof head, all->at, all->n * sizeof *all->at);
    ms_cache_save(all->name, data, bytes);
    free(data);
}

const ms_cuda_cached_plan *ms_cuda_plan_cache_find(ms_cuda_plan_cache     *all,
                                                   const ms_cuda_gemm_key *k)
{
    if (!all->is_read) read_file(all);
    return find(all, k);
}

void ms_cuda_plan_cache_add(ms_cuda_plan_cache *all, const ms_cuda_cached_plan *one)
{
    if (add(all, one, true)) all->n_new++;
}

void ms_cuda_plan_cache_close(ms_cuda_plan_cache *all)
{
    if (all->n_new > 0) {
        read_file(all);
        write_file(all);
    }
    free(all->at);
    all->at = NULL;
    all->n = all->n_new = 0;
    all->is_read        = false;
}
