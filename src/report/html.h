/* html.h - a page as HTML. */
#ifndef MS_REPORT_HTML_H
#define MS_REPORT_HTML_H

#include "report/draw.h"
#include "report/page.h"

/* drawings: of the page's figures, in their order. */
musec_status ms_html_page(ms_error *e, const ms_page *p, const ms_drawing *drawings, FILE *to);

#endif
