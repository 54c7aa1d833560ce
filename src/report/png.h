/* png.h - figures to PNG files, by rsvg-convert (librsvg) run as a program. */
#ifndef MS_REPORT_PNG_H
#define MS_REPORT_PNG_H

#include "report/figure.h"

/* Is rsvg-convert installed?  If not, the error names its package. */
musec_status ms_png_ready(ms_error *e);
/* Writes DIR/ID.png, 1800 pixels wide or more.  A figure without panels has none. */
musec_status ms_png_write(ms_error *e, const ms_figure *figure, const char *dir);

#endif
