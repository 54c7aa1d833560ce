/* tokenizer_json.h - our tokenizers as the tokenizer.json of Hugging Face's tokenizers library. */
#ifndef MS_DATA_TOKENIZER_JSON_H
#define MS_DATA_TOKENIZER_JSON_H

#include <jansson.h>

#include "data/bpe.h"

/* bpe NULL: the byte tokenizer.  The ids are ours for every text; <|endoftext|>, the start of a
 * document, is put before it unless special tokens are refused.  New. */
musec_status ms_tokenizer_json(ms_error *e, const ms_bpe *bpe, json_t **out);

#endif
