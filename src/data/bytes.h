/* bytes.h - the byte tokenizer: ids 0..255 are bytes, 256 starts a document, and the vocabulary is
 * padded to 320. */
#ifndef MS_DATA_BYTES_H
#define MS_DATA_BYTES_H

#include "core/status.h"

enum { MS_BYTES_START = 256, MS_BYTES_VOCAB = 320 };

/* Documents of a text end with "\n<|endoftext|>\n"; a text without that is one document.  Each
 * becomes the start id and its bytes.  *tokens is malloc'ed. */
musec_status ms_bytes_encode(ms_error *e, const char *text, size_t bytes, uint16_t **tokens,
                             int64_t *n);

#endif
