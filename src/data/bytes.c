/* bytes.c - the byte tokenizer.
 *
 * The text is cut at each separator, from left to right, like this (| is the separator):
 *
 *     "ab|c|"   two documents, ab and c: every document is followed by a separator
 *     "ab|c"    the same: the separator after the last may be missing
 *     "ab||c"   three, of which the middle one is empty: a start id and nothing else
 *     ""        none */
#include "data/bytes.h"

#include <stdlib.h>

#include "core/size.h"
#include "core/text.h"

static const char separator[] = "\n<|endoftext|>\n";
enum { SEPARATOR_BYTES = sizeof separator - 1 };

/* Returns the end of the document that begins at `from`: a separator, or the end of the text. */
static size_t document_end(const char *text, size_t bytes, size_t from)
{
    const char *end = ms_text_find(text + from, bytes - from, separator, SEPARATOR_BYTES);
    return end != NULL ? (size_t)(end - text) : bytes;
}

/* Writes the tokens if `out` is not NULL; returns their number. */
static size_t encode(const char *text, size_t bytes, uint16_t *out)
{
    size_t n = 0, from = 0;
    while (from < bytes) {
        const size_t end = document_end(text, bytes, from);
        if (out != NULL) {
            out[n] = MS_BYTES_START;
            for (size_t i = from; i < end; i++)
                out[n + 1 + i - from] = (unsigned char)text[i];
        }
        n += 1 + end - from;
        from = end == bytes ? bytes : end + SEPARATOR_BYTES;
    }
    return n;
}

musec_status ms_bytes_encode(ms_error *e, const char *text, size_t bytes, uint16_t **tokens,
                             int64_t *n)
{
    const size_t count = encode(text, bytes, NULL); /* at most bytes + 1 */
    size_t       size  = 0;
    uint16_t    *out   = NULL;

    *tokens = NULL;
    *n      = 0;
    if (count <= INT64_MAX && ms_size_mul(count, sizeof *out, &size) && size <= PTRDIFF_MAX)
        out = malloc(size == 0 ? 1 : size);
    if (out == NULL)
        return ms_fail(e, MUSEC_ENOMEM, "not enough memory for %zu tokens of text", count);
    encode(text, bytes, out);
    *tokens = out;
    *n      = (int64_t)count;
    return MUSEC_OK;
}
