/* sniff.h - detection of files that are not text, by their first bytes.
 *
 * Text in UTF-8, Latin-1 and the like has no zero bytes; other kinds of files have a signature, or
 * a zero byte somewhere in their first block. */
#ifndef MS_DATA_SNIFF_H
#define MS_DATA_SNIFF_H

#include <stdio.h>

#include "core/status.h"

enum { MS_SNIFF_BYTES = 65536 }; /* of the first block */

/* Returns what the file is and what to do with it, as the rest of a sentence: "is a NumPy array,
 * not text; ...", or NULL if it may be text.  `head` has the first n bytes, MS_SNIFF_BYTES at
 * most. */
const char *ms_sniff(const void *head, size_t n);

/* Fails with that sentence if the file, which is open and at its beginning, is no text.  Leaves it
 * at its beginning. */
musec_status ms_sniff_text(ms_error *e, FILE *f, const char *path);

#endif
