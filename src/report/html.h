/* html.h - pages, tables and text as HTML. */
#ifndef MS_REPORT_HTML_H
#define MS_REPORT_HTML_H

#include "report/page.h"

musec_status ms_html_page(ms_error *e, const ms_page *p, FILE *to);
musec_status ms_html_table(ms_error *e, const ms_table *table, FILE *to);
/* Writes text for HTML and SVG: & < > " ' become entities; bytes that are not UTF-8 and characters
 * that a page must not contain are replaced. */
void ms_html_text(const char *text, FILE *to);
/* Writes text in an element with a badge's classes; the kind ("does not hold") sets its colour. */
void ms_html_badge(const char *tag, const char *kind, const char *text, FILE *to);

#endif
