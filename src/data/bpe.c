/* bpe.c - words to ids.
 *
 * Merging pairs by rank, as the definition says, needs a priority queue and memory for all bytes of
 * the word.  Encoding uses a consequence of the definition instead.  Write E(x) for the ids of the
 * bytes x, and call two tokens a, b neighbours if E(ab) = a b.  Then
 *
 *     E(x) is the only sequence of tokens with the bytes x in which adjacent tokens are neighbours.
 *
 * Proof: consider the first merge that crosses a boundary of such a sequence, between a and b.  All
 * merges before it stayed within tokens, so a and b were built as in E(ab), in the same order, and
 * the same merge would cross there.  Conversely, what E(x) keeps apart, E(ab) keeps apart.
 *
 * So: take the longest token that the rest of the word begins with and that is a neighbour of the
 * previous one; if there is none, remove the previous one and try a shorter one instead.  The
 * tokens up to a position are E of the bytes before it however they were found, so a position that
 * was abandoned is not tried again: the time is linear in the bytes, and no memory is needed.
 *
 * Words of ordinary text are short and recur.  Those of 15 bytes or less are merged by the
 * definition, which is faster for so few, and cached if they become 7 ids or less: 128 Ki of them,
 * in 4 MiB. */
#include "data/bpe.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "data/bpe_table.h"

enum {
    CACHE_BITS  = 16, /* sets of two words */
    CACHE_BYTES = 15, /* of a word */
    CACHE_IDS   = 7,
    DEAD_SLOTS  = 4096,
    PAIR_BITS   = 12,  /* cached answers to whether two tokens are neighbours */
    WORDS       = 256, /* pre-tokenized at once */
};

typedef struct word_key { /* the bytes, padded with zeros, and their number in the last byte */
    uint64_t low, high;
} word_key;

typedef struct cached {
    word_key key;
    uint16_t n;
    uint16_t ids[CACHE_IDS];
} cached;

struct ms_bpe_cache {
    cached sets[(size_t)1 << CACHE_BITS][2]; /* one line of the processor's cache each */
    /* Abandoned positions, by their lowest bits.  Positions are numbered on from word to word, so
     * that nothing is cleared.  One that is overwritten may be tried again: that costs time. */
    uint64_t dead[DEAD_SLOTS];
    uint64_t pairs[(size_t)1 << PAIR_BITS]; /* left << 32 | right << 16 | yes << 1 | 1 */
    uint64_t word;                          /* number of the first position of this word */
    size_t   ends[WORDS];
};

musec_status ms_bpe_cache_make(ms_error *e, const ms_bpe *bpe, ms_bpe_cache **out)
{
    const size_t  line  = 64;
    const size_t  bytes = (sizeof(ms_bpe_cache) + line - 1) / line * line;
    ms_bpe_cache *cache = aligned_alloc(line, bytes);

    (void)bpe;
    *out = cache;
    if (cache == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory for a cache of words");
    memset(cache, 0, bytes); /* no word has 0 bytes */
    cache->word = 1;
    return MUSEC_OK;
}

void ms_bpe_cache_free(ms_bpe_cache *cache) { free(cache); }

/* ---- one word -------------------------------------------------------------------------------- */

/* Is E(ab) = a b?  Undoes merges, the last one first: x and y are the last part of a and the first
 * part of b at that time, and `before` is the rank of the merge that follows in a or b.  If x and y
 * have a merge of lower rank, it comes first and crosses the boundary.  Of equal ranks the leftmost
 * comes first: a merge within a before the crossing one, and that before a merge within b. */
static bool neighbours(const ms_bpe *bpe, uint32_t x, uint32_t y)
{
    uint32_t before = MS_BPE_NONE;

    for (;;) {
        if (ms_bpe_pair(bpe, x, y) < before) return false;
        if (x > y) {
            if (x < 256) return true;
            before = x;
            x      = bpe->tokens[x].right;
        } else {
            if (y < 256) return true;
            before = y + 1;
            y      = bpe->tokens[y].left;
        }
    }
}

static bool are_neighbours(const ms_bpe *bpe, ms_bpe_cache *cache, uint32_t a, uint32_t b)
{
    const uint32_t key  = a << 16 | b;
    uint64_t      *slot = &cache->pairs[key * 0x9E3779B1u >> (32 - PAIR_BITS)];

    if (*slot >> 16 != key || *slot == 0)
        *slot = (uint64_t)key << 16 | (neighbours(bpe, a, b) ? 3 : 1);
    return (*slot & 2) != 0;
}

/* Returns the longest token that the bytes begin with. */
static uint32_t longest(const ms_bpe *bpe, const unsigned char *p, size_t bytes)
{
    uint32_t found, node;

    if (bytes == 0) return MS_BPE_NONE;
    found = bpe->byte_id[p[0]];
    if (bytes == 1) return found;
    if (bpe->byte_pair[p[0]][p[1]] != MS_BPE_NONE) found = bpe->byte_pair[p[0]][p[1]];
    node = bpe->byte_node[p[0]][p[1]];
    for (size_t i = 2; i < bytes && node != 0; i++) {
        const uint64_t entry = ms_bpe_tree_step(bpe, node, p[i]);
        if (entry == UINT64_MAX) break;
        if ((entry & 0xFFFF) != MS_BPE_NONE) found = entry & 0xFFFF;
        node = entry >> 16 & 0xFFFFF;
    }
    return found;
}

static size_t encode_word(const ms_bpe *bpe, ms_bpe_cache *cache, const unsigned char *p,
                          size_t bytes, uint16_t *ids)
{
    size_t   n = 0, at = 0, last_dead = 0;
    uint32_t id = longest(bpe, p, bytes);

    while (at < bytes) {
        if (id == MS_BPE_NONE) { /* abandon this position */
            assert(n > 0);
            cache->dead[(cache->word + at) % DEAD_SLOTS] = cache->word + at;
            if (at > last_dead) last_dead = at;
            id = ids[--n];
            at -= bpe->tokens[id].bytes;
            id = bpe->tokens[id].shorter;
            continue;
        }
        const size_t   end  = at + bpe->tokens[id].bytes;
        const uint64_t next = cache->word + end;
        if ((end <= last_dead && cache->dead[next % DEAD_SLOTS] == next) ||
            (n > 0 && !are_neighbours(bpe, cache, ids[n - 1], id))) {
            id = bpe->tokens[id].shorter;
            continue;
        }
        ids[n++] = (uint16_t)id;
        at       = end;
        id       = longest(bpe, p + at, bytes - at);
    }
    cache->word += bytes + 1;
    return n;
}

/* Merges by the definition: pairs one by one, the lowest rank first. */
static size_t merge_word(const ms_bpe *bpe, const unsigned char *p, size_t bytes, uint16_t *ids)
{
    uint16_t id[CACHE_BYTES + 1], rank[CACHE_BYTES + 1]; /* rank[i]: of the pair id[i], id[i + 1] */
    size_t   n = bytes;

    for (size_t i = 0; i < n; i++)
        id[i] = bpe->byte_id[p[i]];
    for (size_t i = 0; i + 1 < n; i++)
        rank[i] = bpe->byte_pair[p[i]][p[i + 1]];
    for (;;) {
        uint32_t best = MS_BPE_NONE;
        size_t   at   = 0;
        for (size_t i = 0; i + 1 < n; i++)
            if (rank[i] < best) {
                best = rank[i];
                at   = i;
            }
        if (best == MS_BPE_NONE) break;
        n--;
        id[at] = (uint16_t)best;
        for (size_t i = at + 1; i < n; i++) {
            id[i]   = id[i + 1];
            rank[i] = rank[i + 1];
        }
        if (at > 0) rank[at - 1] = (uint16_t)ms_bpe_pair(bpe, id[at - 1], best);
        if (at + 1 < n) rank[at] = (uint16_t)ms_bpe_pair(bpe, best, id[at + 1]);
    }
    memcpy(ids, id, n * sizeof *ids);
    return n;
}

/* ---- words of a text ------------------------------------------------------------------------- */

/* As many 0xFF as a word may have bytes, then zeros: the 16 bytes that begin n before the zeros are
 * a mask of n bytes. */
static const unsigned char ones[CACHE_BYTES + 16] = {
    0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
};

/* Makes the key of a word; `left` bytes of text begin with it. */
static word_key key_of(const unsigned char *p, size_t bytes, size_t left)
{
    unsigned char copy[16] = { 0 };
    word_key      key, mask;

    if (left < sizeof copy) { /* do not read beyond the text */
        memcpy(copy, p, bytes);
        p = copy;
    }
    memcpy(&key, p, sizeof key);
    memcpy(&mask, ones + CACHE_BYTES - bytes, sizeof mask);
    key.low &= mask.low;
    key.high = (key.high & mask.high) | (uint64_t)bytes << 56;
    return key;
}

static size_t put_ids(const cached *word, size_t left, uint16_t *ids)
{
    if (left >= CACHE_IDS) /* the buffer holds as many, and a copy of fixed size is faster */
        memcpy(ids, word->ids, sizeof word->ids);
    else
        memcpy(ids, word->ids, word->n * sizeof *ids);
    return word->n;
}

static bool is_word(const cached *word, word_key key)
{
    return word->key.low == key.low && word->key.high == key.high;
}

static size_t encode_short(const ms_bpe *bpe, ms_bpe_cache *cache, const unsigned char *p,
                           size_t bytes, size_t left, uint16_t *ids)
{
    const uint64_t odd  = 0x9E3779B97F4A7C15;
    const word_key key  = key_of(p, bytes, left);
    const uint64_t hash = key.low * odd + key.high * 0xC2B2AE3D27D4EB4F;
    cached        *set  = cache->sets[(hash ^ hash >> 32) * odd >> (64 - CACHE_BITS)];
    size_t         n;

    if (is_word(&set[0], key)) return put_ids(&set[0], left, ids);
    if (is_word(&set[1], key)) {
        const cached found = set[1]; /* the one used last is replaced last */
        set[1]             = set[0];
        set[0]             = found;
        return put_ids(&found, left, ids);
    }
    n = merge_word(bpe, p, bytes, ids);
    if (n <= CACHE_IDS) {
        set[1] = set[0];
        set[0] = (cached){ .key = key, .n = (uint16_t)n };
        memcpy(set[0].ids, ids, n * sizeof *ids);
    }
    return n;
}

static size_t encode_text(const ms_bpe *bpe, ms_bpe_cache *cache, const char *text, size_t bytes,
                          uint16_t *ids)
{
    size_t at = 0, n = 0;

    while (at < bytes) {
        const size_t words = ms_pretokenize(&bpe->classes, text, bytes, at, cache->ends, WORDS);
        for (size_t i = 0; i < words; i++) {
            const unsigned char *p   = (const unsigned char *)text + at;
            const size_t         len = cache->ends[i] - at;
            if (len <= CACHE_BYTES)
                n += encode_short(bpe, cache, p, len, bytes - at, ids + n);
            else
                n += encode_word(bpe, cache, p, len, ids + n);
            at = cache->ends[i];
        }
    }
    return n;
}

/* Returns where the next <|endoftext|> begins, or `bytes`. */
static size_t find_start(const ms_bpe *bpe, const char *text, size_t bytes, size_t at)
{
    const ms_bpe_token *t     = &bpe->tokens[bpe->start];
    const char         *found = ms_text_find(text + at, bytes - at, bpe->bytes + t->at, t->bytes);
    return found != NULL ? (size_t)(found - text) : bytes;
}

size_t ms_bpe_encode(const ms_bpe *bpe, ms_bpe_cache *cache, const char *text, size_t bytes,
                     bool special, uint16_t *ids)
{
    size_t at = 0, n = 0;

    if (!special) return encode_text(bpe, cache, text, bytes, ids);
    while (at < bytes) {
        const size_t end = find_start(bpe, text, bytes, at);
        n += encode_text(bpe, cache, text + at, end - at, ids + n);
        at = end;
        if (at < bytes) {
            ids[n++] = (uint16_t)bpe->start;
            at += bpe->tokens[bpe->start].bytes;
        }
    }
    return n;
}
