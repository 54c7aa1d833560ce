/* bpe.h - GPT-2's tokenizer, exactly: text is cut into words by a fixed rule, each word's bytes are
 * joined pair by pair, the pair of lowest rank first (the leftmost of equals), and what is left
 * over is looked up.
 *
 * The vocabulary is read from whichever file is there:
 *     encoder.json and vocab.bpe   OpenAI's: tokens with their ids, and the merges in order
 *     r50k_base.tiktoken           base64 of a token's bytes and its rank, a line each
 *     gpt2_tokenizer.bin           llm.c's table of bytes by id, versions 1 and 2
 * All three give the same tokenizer: id 256 + i is what merge i makes, and bytes come first.
 *
 * Any bytes can be encoded.  Those that are no valid UTF-8 are words of one byte each
 * (docs/data.md); decode(encode(x)) is x, whatever x is.  A tokenizer is never changed after
 * loading: many threads may use one, each with a cache of its own. */
#ifndef MS_DATA_BPE_H
#define MS_DATA_BPE_H

#include <stdbool.h>

#include "core/file.h"

enum { MS_BPE_IDS = 50257, MS_BPE_START = 50256 }; /* <|endoftext|> is the last id */

typedef struct ms_bpe       ms_bpe;
typedef struct ms_bpe_cache ms_bpe_cache; /* words seen and their ids; of bounded size */

/* Loads one of the files above, or from a directory that has one of the sets. */
musec_status ms_bpe_load(ms_error *e, const char *path, ms_bpe **out);
void         ms_bpe_free(ms_bpe *bpe);

/* Returns the path of the user's own vocabulary, which may not exist: ~/.local/share/musec/gpt2. */
musec_status ms_bpe_default_path(ms_error *e, char out[MS_PATH_MAX]);
/* Returns the path itself; for NULL, ./data/gpt2 or the default path, whichever exists.  If neither
 * does, it fails with a message that tells how to get one. */
musec_status ms_bpe_find(ms_error *e, const char *path, char out[MS_PATH_MAX]);

musec_status ms_bpe_cache_make(ms_error *e, const ms_bpe *bpe, ms_bpe_cache **out);
void         ms_bpe_cache_free(ms_bpe_cache *cache);

/* Returns the largest number of ids that a text of so many bytes can become. */
static inline size_t ms_bpe_max_ids(size_t bytes) { return bytes + 1; }

/* Encodes a text and returns the number of ids.  `ids` has a capacity of ms_bpe_max_ids(bytes), all
 * of which may be written to.  With `special`, the text <|endoftext|> becomes MS_BPE_START; else it
 * is text like any other. */
size_t ms_bpe_encode(const ms_bpe *bpe, ms_bpe_cache *cache, const char *text, size_t bytes,
                     bool special, uint16_t *ids);

/* Returns the id of a single byte, in any vocabulary: printing bytes come first. */
uint16_t ms_bpe_byte_id(unsigned char byte);

/* Returns the bytes of an id; MS_BPE_START is "<|endoftext|>".  NULL beyond the vocabulary. */
const char *ms_bpe_bytes(const ms_bpe *bpe, int32_t id, size_t *bytes);

#endif
