/* draw.h - figures to SVG and PNG, by gnuplot run as a program.
 *
 * One look: the same fonts, margins, grid and palette everywhere.  Axis ranges and the place of the
 * axes on the canvas are set here, not by gnuplot, so that it is known where a value lies and the
 * page can show it under the pointer. */
#ifndef MS_REPORT_DRAW_H
#define MS_REPORT_DRAW_H

#include "report/figure.h"

typedef struct ms_drawing { /* the panels of one figure, in their order */
    char **svg;             /* owned texts, <svg>...</svg>, ready to stand in a page */
    size_t n;
    char  *wide; /* the same of a panel that is alone, for a large screen; or NULL */
} ms_drawing;

/* Is gnuplot there?  If not, which package has it. */
musec_status ms_draw_ready(ms_error *e);
/* drawings[i] gets figure i as SVG; NULL: none wanted.  png_dir: also DIR/ID.png of each figure
 * that has panels, 1800 px wide or more; NULL: none wanted.  gnuplot is started once for all. */
musec_status ms_draw(ms_error *e, const ms_figure *figures, size_t n, ms_drawing *drawings,
                     const char *png_dir);
void         ms_drawing_free(ms_drawing *d);

#endif
