/* bpe_table.c - a tokenizer from the bytes of its tokens.
 *
 * The merges need not be given.  Merges of lower rank turn the bytes of a token into two parts, and
 * these are what its own merge joins: of three or more parts no merge would ever make the token,
 * and a single part means two tokens with the same bytes.  So every vocabulary that is accepted has
 * the property that encoding relies on (bpe.c): the bytes of a token encode to that token. */
#include "data/bpe_table.h"

#include <stdlib.h>
#include <string.h>

static const char start_text[] = "<|endoftext|>";

/* ---- memory ---------------------------------------------------------------------------------- */

static uint64_t *free_slots(int bits)
{
    const size_t n     = (size_t)1 << bits;
    uint64_t    *slots = malloc(n * sizeof *slots);
    if (slots != NULL) memset(slots, 0xFF, n * sizeof *slots);
    return slots;
}

/* Bits of the index of a hash table that `n` entries fill at most by half. */
static int bits_for(size_t n)
{
    int bits = 4;
    while (((size_t)1 << bits) < 2 * n)
        bits++;
    return bits;
}

musec_status ms_bpe_table_make(ms_error *e, int32_t n_ids, ms_bpe **out)
{
    ms_bpe      *bpe;
    musec_status st = MUSEC_OK;

    *out = NULL;
    if (n_ids < 257 || n_ids > MS_BPE_IDS)
        return ms_fail(e, MUSEC_EINVAL, "a vocabulary has 257 to %d ids, not %ld", MS_BPE_IDS,
                       (long)n_ids);
    bpe = calloc(1, sizeof *bpe);
    if (bpe == NULL) return ms_no_memory(e, "the vocabulary");
    bpe->n_ids     = n_ids;
    bpe->start     = n_ids - 1;
    bpe->pair_bits = bits_for((size_t)n_ids);
    bpe->tokens    = calloc((size_t)n_ids, sizeof *bpe->tokens);
    bpe->bytes     = malloc(MS_BPE_ALL_BYTES);
    bpe->pairs     = free_slots(bpe->pair_bits);
    if (bpe->tokens == NULL || bpe->bytes == NULL || bpe->pairs == NULL)
        TRY(ms_no_memory(e, "the vocabulary"));
    TRY(ms_char_classes_make(e, &bpe->classes));
    *out = bpe;
    bpe  = NULL;
done:
    ms_bpe_free(bpe);
    return st;
}

void ms_bpe_free(ms_bpe *bpe)
{
    if (bpe == NULL) return;
    free(bpe->tree);
    free(bpe->pairs);
    free(bpe->bytes);
    free(bpe->tokens);
    free(bpe);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

musec_status ms_bpe_table_set(ms_error *e, const char *where, ms_bpe *bpe, int64_t id,
                              const void *bytes, size_t n)
{
    ms_bpe_token *t;

    if (id < 0 || id >= bpe->n_ids)
        return ms_fail(e, MUSEC_EFORMAT, "%s: id %lld is none of GPT-2's: they are 0 to %ld", where,
                       (long long)id, (long)bpe->n_ids - 1);
    t = &bpe->tokens[id];
    if (t->bytes != 0)
        return ms_fail(e, MUSEC_EFORMAT, "%s: id %lld is there twice", where, (long long)id);
    if (n == 0 || n > MS_BPE_TOKEN_BYTES || n > MS_BPE_ALL_BYTES - bpe->n_bytes)
        return ms_fail(e, MUSEC_EFORMAT,
                       "%s: id %lld has %zu bytes; a token has 1 to %d, all together at most %d",
                       where, (long long)id, n, MS_BPE_TOKEN_BYTES, MS_BPE_ALL_BYTES);
    if (id == bpe->start && (n != strlen(start_text) || memcmp(bytes, start_text, n) != 0))
        return ms_fail(e, MUSEC_EFORMAT, "%s: id %lld is not %s, as in GPT-2's vocabulary", where,
                       (long long)id, start_text);
    *t = (ms_bpe_token){ .at      = (uint32_t)bpe->n_bytes,
                         .bytes   = (uint16_t)n,
                         .shorter = MS_BPE_NONE,
                         .left    = MS_BPE_NONE,
                         .right   = MS_BPE_NONE };
    memcpy(bpe->bytes + bpe->n_bytes, bytes, n);
    bpe->n_bytes += n;
    return MUSEC_OK;
}

const char *ms_bpe_bytes(const ms_bpe *bpe, int32_t id, size_t *bytes)
{
    *bytes = 0;
    if (id < 0 || id >= bpe->n_ids) return NULL;
    *bytes = bpe->tokens[id].bytes;
    return bpe->bytes + bpe->tokens[id].at;
}

static musec_status check_present(ms_error *e, const char *path, const ms_bpe *bpe)
{
    for (int32_t id = 0; id < bpe->start; id++)
        if (bpe->tokens[id].bytes == 0)
            return ms_fail(e, MUSEC_EFORMAT,
                           "%s: id %ld is missing; GPT-2's vocabulary has all from 0 to %ld", path,
                           (long)id, (long)bpe->n_ids - 1);
    return MUSEC_OK;
}

static musec_status take_single_bytes(ms_error *e, const char *path, ms_bpe *bpe)
{
    memset(bpe->byte_id, 0xFF, sizeof bpe->byte_id); /* MS_BPE_NONE */
    for (int32_t id = 0; id < 256; id++) {
        const ms_bpe_token *t    = &bpe->tokens[id];
        const unsigned char byte = (unsigned char)bpe->bytes[t->at];
        if (t->bytes != 1)
            return ms_fail(e, MUSEC_EFORMAT,
                           "%s: id %ld has %d bytes; ids 0 to 255 are the single bytes", path,
                           (long)id, t->bytes);
        if (bpe->byte_id[byte] != MS_BPE_NONE)
            return ms_fail(e, MUSEC_EFORMAT, "%s: ids %d and %ld are both the byte 0x%02x", path,
                           bpe->byte_id[byte], (long)id, byte);
        bpe->byte_id[byte] = (uint16_t)id;
    }
    return MUSEC_OK;
}

/* ---- merges ---------------------------------------------------------------------------------- */

/* Merges by the definition: the pair of lowest rank first, the leftmost of equals. */
static int merge_all(const ms_bpe *bpe, uint16_t *ids, int n)
{
    for (;;) {
        uint32_t best = MS_BPE_NONE;
        int      at   = 0;
        for (int i = 0; i + 1 < n; i++) {
            const uint32_t id = ms_bpe_pair(bpe, ids[i], ids[i + 1]);
            if (id < best) {
                best = id;
                at   = i;
            }
        }
        if (best == MS_BPE_NONE) return n;
        ids[at] = (uint16_t)best;
        n--;
        memmove(ids + at + 1, ids + at + 2, (size_t)(n - at - 1) * sizeof *ids);
    }
}

static void add_pair(ms_bpe *bpe, uint32_t left, uint32_t right, uint32_t id)
{
    const size_t mask = ((size_t)1 << bpe->pair_bits) - 1;
    size_t       at   = (left << 16 | right) * 0x9E3779B1u >> (32 - bpe->pair_bits);
    while (bpe->pairs[at] != UINT64_MAX)
        at = (at + 1) & mask;
    bpe->pairs[at] = (uint64_t)left << 32 | right << 16 | id;
}

static musec_status find_merges(ms_error *e, const char *path, ms_bpe *bpe)
{
    uint16_t ids[MS_BPE_TOKEN_BYTES];

    for (int32_t id = 256; id < bpe->start; id++) {
        ms_bpe_token *t = &bpe->tokens[id];
        int           n;
        for (int i = 0; i < t->bytes; i++)
            ids[i] = bpe->byte_id[(unsigned char)bpe->bytes[t->at + (uint32_t)i]];
        n = merge_all(bpe, ids, t->bytes);
        if (n == 1)
            return ms_fail(e, MUSEC_EFORMAT, "%s: ids %d and %ld have the same bytes", path, ids[0],
                           (long)id);
        if (n != 2)
            return ms_fail(e, MUSEC_EFORMAT,
                           "%s: id %ld cannot be made of two lower ids: %d are the fewest; it is "
                           "not GPT-2's, or the file is damaged",
                           path, (long)id, n);
        t->left  = ids[0];
        t->right = ids[1];
        add_pair(bpe, ids[0], ids[1], (uint32_t)id);
    }
    return MUSEC_OK;
}

/* ---- the tree -------------------------------------------------------------------------------- */

static uint64_t *tree_slot(const ms_bpe *bpe, uint32_t node, unsigned char byte)
{
    const uint32_t key  = node << 8 | byte;
    const size_t   mask = ((size_t)1 << bpe->tree_bits) - 1;
    size_t         at   = key * 0x9E3779B1u >> (32 - bpe->tree_bits);
    while (bpe->tree[at] != UINT64_MAX && bpe->tree[at] >> 36 != key)
        at = (at + 1) & mask;
    return &bpe->tree[at];
}

/* Returns the number of nodes. */
static uint32_t fill_tree(ms_bpe *bpe)
{
    uint32_t n_nodes = 1;

    for (int32_t id = 0; id < bpe->start; id++) {
        const ms_bpe_token *t    = &bpe->tokens[id];
        uint32_t            node = 0;
        uint64_t           *slot = NULL;
        for (uint32_t i = 0; i < t->bytes; i++) {
            const unsigned char byte = (unsigned char)bpe->bytes[t->at + i];
            slot                     = tree_slot(bpe, node, byte);
            if (*slot == UINT64_MAX)
                *slot =
                    (uint64_t)(node << 8 | byte) << 36 | (uint64_t)n_nodes++ << 16 | MS_BPE_NONE;
            node = *slot >> 16 & 0xFFFFF;
        }
        if (slot != NULL) *slot = (*slot & ~(uint64_t)0xFFFF) | (uint64_t)id;
    }
    return n_nodes;
}

/* Builds the tree twice: first to count its nodes, then in a table no larger than needed. */
static musec_status grow_tree(ms_error *e, ms_bpe *bpe)
{
    size_t capacity = bpe->n_bytes;

    for (int pass = 0; pass < 2; pass++) {
        free(bpe->tree);
        bpe->tree_bits = bits_for(capacity);
        bpe->tree      = free_slots(bpe->tree_bits);
        if (bpe->tree == NULL) return ms_no_memory(e, "the vocabulary");
        capacity = fill_tree(bpe);
    }
    return MUSEC_OK;
}

static void link_shorter(ms_bpe *bpe)
{
    for (int32_t id = 0; id < bpe->start; id++) {
        ms_bpe_token *t    = &bpe->tokens[id];
        uint32_t      node = 0;
        for (uint32_t i = 0; i + 1 < t->bytes; i++) {
            const uint64_t entry =
                ms_bpe_tree_step(bpe, node, (unsigned char)bpe->bytes[t->at + i]);
            if ((entry & 0xFFFF) != MS_BPE_NONE) t->shorter = (uint16_t)(entry & 0xFFFF);
            node = entry >> 16 & 0xFFFFF;
        }
    }
}

/* Tabulates the first two steps in the tree, so that they need no search. */
static void make_byte_tables(ms_bpe *bpe)
{
    for (int a = 0; a < 256; a++) {
        const uint32_t node = ms_bpe_tree_step(bpe, 0, (unsigned char)a) >> 16 & 0xFFFFF;
        for (int b = 0; b < 256; b++) {
            const uint64_t entry = ms_bpe_tree_step(bpe, node, (unsigned char)b);
            bpe->byte_pair[a][b] = (uint16_t)ms_bpe_pair(bpe, bpe->byte_id[a], bpe->byte_id[b]);
            bpe->byte_node[a][b] = entry == UINT64_MAX ? 0 : entry >> 16 & 0xFFFFF;
        }
    }
}

musec_status ms_bpe_table_finish(ms_error *e, const char *path, ms_bpe *bpe)
{
    musec_status st;

    TRY(check_present(e, path, bpe));
    if (bpe->tokens[bpe->start].bytes == 0)
        TRY(ms_bpe_table_set(e, path, bpe, bpe->start, start_text, strlen(start_text)));
    TRY(take_single_bytes(e, path, bpe));
    TRY(find_merges(e, path, bpe));
    TRY(grow_tree(e, bpe));
    link_shorter(bpe);
    make_byte_tables(bpe);
done:
    return st;
}
