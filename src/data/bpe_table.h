/* bpe_table.h - what a loaded tokenizer is made of, for those who load it and those who use it.
 *
 * ids 0..255          one byte each, in an order of the vocabulary's own
 * ids 256..start-1    each made by one merge of two lower ids; the id is the rank of the merge
 * id start            <|endoftext|>, which no merge makes */
#ifndef MS_DATA_BPE_TABLE_H
#define MS_DATA_BPE_TABLE_H

#include "data/bpe.h"
#include "data/pretokenize.h"

enum {
    MS_BPE_NONE        = 0xFFFF,        /* no id */
    MS_BPE_TOKEN_BYTES = 255,           /* of one token, at most */
    MS_BPE_ALL_BYTES   = (1 << 20) - 2, /* of all together: a node of the tree has 20 bits */
};

typedef struct ms_bpe_token {
    uint32_t at;          /* in ms_bpe.bytes */
    uint16_t bytes;       /* 0: not set yet */
    uint16_t shorter;     /* longest token that this one begins with, or MS_BPE_NONE */
    uint16_t left, right; /* what it is merged from; MS_BPE_NONE for a single byte */
} ms_bpe_token;

struct ms_bpe {
    int32_t         n_ids, start; /* start = n_ids - 1 */
    ms_bpe_token   *tokens;       /* (n_ids) */
    char           *bytes;        /* of all tokens */
    size_t          n_bytes;
    uint16_t        byte_id[256];
    uint16_t        byte_pair[256][256]; /* what two bytes make, by their values */
    uint32_t        byte_node[256][256]; /* node of the tree after two bytes; 0: none */
    uint64_t       *pairs; /* (1 << pair_bits) left << 32 | right << 16 | id; ~0 is free */
    uint64_t       *tree;  /* (1 << tree_bits) the tokens as a tree of bytes, see tree_step() */
    int             pair_bits, tree_bits;
    ms_char_classes classes;
};

/* An empty tokenizer of n_ids ids: 257 to MS_BPE_IDS.  *out is freed by ms_bpe_free. */
musec_status ms_bpe_table_make(ms_error *e, int32_t n_ids, ms_bpe **out);
/* where: file and line or so, for messages. */
musec_status ms_bpe_table_set(ms_error *e, const char *where, ms_bpe *bpe, int64_t id,
                              const void *bytes, size_t n);
/* Finds the merges after all tokens were set, <|endoftext|> being optional.  Fails if there is a
 * token that no merge can make. */
musec_status ms_bpe_table_finish(ms_error *e, const char *path, ms_bpe *bpe);

/* ms_bpe_load for a vocabulary of another size, as the tests have. */
musec_status ms_bpe_load_sized(ms_error *e, const char *path, int32_t n_ids, ms_bpe **out);

/* Returns what merging two ids makes, or MS_BPE_NONE. */
static inline uint32_t ms_bpe_pair(const ms_bpe *bpe, uint32_t left, uint32_t right)
{
    const uint32_t key  = left << 16 | right;
    const size_t   mask = ((size_t)1 << bpe->pair_bits) - 1;

    for (size_t at = key * 0x9E3779B1u >> (32 - bpe->pair_bits);; at = (at + 1) & mask) {
        const uint64_t entry = bpe->pairs[at];
        if (entry >> 16 == key) return entry & 0xFFFF;
        if (entry == UINT64_MAX) return MS_BPE_NONE;
    }
}

/* Goes one byte down from a node of the tree, whose root is 0.  Returns the entry:
 *     bits 36-63  the node it leaves, 20 bits, and the byte
 *     bits 16-35  the node it leads to
 *     bits 0-15   the token that ends there, or MS_BPE_NONE
 * or UINT64_MAX if no token continues like that. */
static inline uint64_t ms_bpe_tree_step(const ms_bpe *bpe, uint32_t node, unsigned char byte)
{
    const uint32_t key  = node << 8 | byte;
    const size_t   mask = ((size_t)1 << bpe->tree_bits) - 1;

    for (size_t at = key * 0x9E3779B1u >> (32 - bpe->tree_bits);; at = (at + 1) & mask) {
        const uint64_t entry = bpe->tree[at];
        if (entry >> 36 == key || entry == UINT64_MAX) return entry;
    }
}

#endif
