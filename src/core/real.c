/* real.c - the shortest text of a double, and a double of a text.
 *
 * 15 significant digits are enough for a number that was typed in, 17 always.  Only the calling
 * thread's locale is changed, for the duration of a call. */
#define _POSIX_C_SOURCE 200809L /* newlocale */
#include "core/real.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct c_locale {
    locale_t ours, before;
} c_locale;

static c_locale enter_c(void)
{
    const locale_t ours = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return (c_locale){ ours, uselocale(ours) };
}

static void leave_c(c_locale l)
{
    (void)uselocale(l.before);
    if (l.ours != (locale_t)0) freelocale(l.ours);
}

void ms_real_text(double x, char text[MS_REAL_TEXT])
{
    const c_locale locale = enter_c();
    if (isnan(x)) x = NAN; /* without a sign, which some systems print */
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, MS_REAL_TEXT, "%.*g", digits, x);
        if (strtod(text, NULL) == x) break;
    }
    leave_c(locale);
}

double ms_real_read(const char *text, char **end)
{
    const c_locale locale = enter_c();
    const double   x      = strtod(text, end);
    leave_c(locale);
    return x;
}
