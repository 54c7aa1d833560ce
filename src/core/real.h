/* real.h - doubles and text, both ways, with the same bits and whatever the locale.
 *
 * A host of the library may have called setlocale(), and there printf writes 0.5 as "0,5", which
 * no file of ours means.  These two always follow the C locale. */
#ifndef MS_CORE_REAL_H
#define MS_CORE_REAL_H

enum { MS_REAL_TEXT = 32 }; /* room for any of them */

/* With as few digits as do: "0.1", not "0.10000000000000001".  Not finite: "inf", "-inf", "nan". */
void ms_real_text(double x, char text[MS_REAL_TEXT]);
/* strtod() of the C locale: *end is behind the number, `text` if there is none. */
double ms_real_read(const char *text, char **end);

#endif
