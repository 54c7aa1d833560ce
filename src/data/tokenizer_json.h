/* tokenizer_json.h - our tokenizers as the tokenizer.json of Hugging Face's tokenizers library. */
#ifndef MS_DATA_TOKENIZER_JSON_H
#define MS_DATA_TOKENIZER_JSON_H

#include <jansson.h>

#include "data/bpe.h"

/* Makes the JSON value of a tokenizer; a NULL bpe is the byte tokenizer.  It gives every text the
 * same ids as ours, after <|endoftext|>, the start of a document, unless special tokens are off. */
musec_status ms_tokenizer_json(ms_error *e, const ms_bpe *bpe, json_t **out);

#endif
