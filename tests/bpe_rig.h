/* bpe_rig.h - a reference tokenizer by the definition of BPE, and small vocabularies in all
 * formats.
 *
 * The reference shares no code with src/data: it keeps the merges in their order and joins pairs
 * one by one, slowly.  Its vocabulary is random (bpe_rig_draw) or GPT-2's, read from vocab.bpe
 * (bpe_rig_gpt2). */
#ifndef MS_TESTS_BPE_RIG_H
#define MS_TESTS_BPE_RIG_H

#include "check.h"
#include "data/bpe_table.h"

enum { RIG_TOKEN_BYTES = 128 };

typedef struct rig_token {
    int           bytes, left, right; /* left -1: a single byte */
    unsigned char text[RIG_TOKEN_BYTES];
} rig_token;

typedef struct bpe_rig {
    int        n, capacity; /* tokens without <|endoftext|>, whose id is n */
    rig_token *tokens;
    int        byte_id[256];
    int       *pairs; /* (n_pairs) hash table of ids by their two parts, -1: free */
    int        n_pairs;
} bpe_rig;

/* Random merges over the bytes of `letters`; each is used by some text. */
bpe_rig bpe_rig_draw(int merges, const char *letters, uint64_t seed);
/* GPT-2's vocabulary from the shared data; false if that is not here. */
bool bpe_rig_gpt2(bpe_rig *out);
void bpe_rig_free(bpe_rig *r);

/* Merges the bytes of one word; returns the number of ids. */
int bpe_rig_merge(const bpe_rig *r, const unsigned char *bytes, int n, int *ids);
/* Merges each word of a text, as ms_pretokenize splits it. */
int bpe_rig_encode(const bpe_rig *r, const ms_char_classes *classes, const char *text, int n,
                   int *ids);

/* Writes the vocabulary as files; version of the .bin: 1 or 2. */
void bpe_rig_write_pair(const bpe_rig *r, const char *dir);
void bpe_rig_write_tiktoken(const bpe_rig *r, const char *path);
void bpe_rig_write_bin(const bpe_rig *r, const char *path, int version);

/* A whole file, or the output of a program ("xz -dc ..."); malloc'ed, NULL if that fails. */
char *bpe_rig_read(const char *path, size_t *n);
char *bpe_rig_read_program(const char *command, size_t *n);

/* Skips the running test if this build cannot split texts into words. */
void bpe_rig_need_utf8proc(void);

#endif
