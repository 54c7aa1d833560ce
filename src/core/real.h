/* real.h - a double as text that reads back as the same double. */
#ifndef MS_CORE_REAL_H
#define MS_CORE_REAL_H

enum { MS_REAL_TEXT = 32 }; /* room for any of them */

/* With as few digits as do: "0.1", not "0.10000000000000001".  Not finite: "inf", "-inf", "nan". */
void ms_real_text(double x, char text[MS_REAL_TEXT]);

#endif
