/* real.c - the shortest text of a double.
 *
 * 15 significant digits are enough for a number that was typed in, 17 always. */
#include "core/real.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void ms_real_text(double x, char text[MS_REAL_TEXT])
{
    if (isnan(x)) x = NAN; /* without a sign, which some systems print */
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, MS_REAL_TEXT, "%.*g", digits, x);
        if (strtod(text, NULL) == x) break;
    }
}
