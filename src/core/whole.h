/* whole.h - whole numbers as people write them: 1000, 1e3, 2.5e2, but not 1.5 or 1e-1.  Reading is
 * exact: digits and exponent are taken as decimals, never as a double. */
#ifndef MS_CORE_WHOLE_H
#define MS_CORE_WHOLE_H

#include <stdint.h>

typedef enum ms_whole {
    MS_WHOLE_READ,
    MS_WHOLE_NONE,  /* the text is no whole number */
    MS_WHOLE_RANGE, /* it is one that the type does not hold */
} ms_whole;

/* Read a number that fills the whole text; *out is set only on success. */
ms_whole ms_whole_u64(const char *text, uint64_t *out);
ms_whole ms_whole_i64(const char *text, int64_t *out);

#endif
