/* seal.h - a JSON object whose last member is the sha256 of all bytes before its digits:
 *     {..., "sha256": "0123..."}
 * with the newlines of MS_SEAL_TAIL, so that any flipped bit is found.  It depends on the bytes
 * alone, not on how a JSON library prints them: `head -c -68 FILE | sha256sum` gives it too. */
#ifndef MS_CORE_SEAL_H
#define MS_CORE_SEAL_H

#include <stddef.h>

#include "core/sha256.h"

#define MS_SEAL_TAIL "\"\n}\n" /* follows the digits */
enum { MS_SEAL_DIGITS = MS_SHA256_HEX - 1, MS_SEAL_TAIL_BYTES = sizeof MS_SEAL_TAIL - 1 };

typedef enum ms_seal { MS_SEAL_NONE, MS_SEAL_WHOLE, MS_SEAL_BROKEN } ms_seal;

/* Computes the digits for the text that stands before them. */
void ms_seal_make(const char *head, size_t bytes, char sum[MS_SHA256_HEX]);
/* Checks a whole text; MS_SEAL_NONE: it ends in no such member. */
ms_seal ms_seal_check(const char *text, size_t bytes);

#endif
