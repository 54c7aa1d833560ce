/* real.h - doubles and text, both ways, with the same bits and whatever the locale.
 *
 * A host of the library may have called setlocale(), and there printf writes 0.5 as "0,5", which
 * no file of ours means.  These two always follow the C locale. */
#ifndef MS_CORE_REAL_H
#define MS_CORE_REAL_H

enum { MS_REAL_TEXT = 32 }; /* bytes that hold any double as text */

/* Writes the fewest digits that read back as x: "0.1", not "0.10000000000000001".  Others are
 * "inf", "-inf" and "nan". */
void ms_real_text(double x, char text[MS_REAL_TEXT]);
/* Is strtod() in the C locale: *end points behind the number, or to `text` if there is none. */
double ms_real_read(const char *text, char **end);

#endif
