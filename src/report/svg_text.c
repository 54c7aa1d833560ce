/* svg_text.c - text in SVG, see svg.h. */
#include <string.h>

#include "core/text.h"
#include "report/html.h"
#include "report/svg.h"

/* Estimates the width of a text in most fonts without serifs. */
double ms_svg_text_width(const char *text, double font)
{
    double width = 0.0;
    size_t bytes;

    for (; *text != '\0'; text += bytes == 0 ? 1 : bytes) {
        bytes = ms_text_char(text);
        if (strchr("ijl.,:;|!'()[]{} tfrI-", *text) != NULL)
            width += 0.37;
        else if (strchr("mwMW@%", *text) != NULL)
            width += 0.92;
        else
            width += *text >= 'A' && *text <= 'Z' ? 0.69 : 0.62;
    }
    return width * font;
}

void ms_svg_label_put(ms_svg_label l, const char *text, FILE *to)
{
    const double font  = l.font > 0.0 ? l.font : MS_SVG_FONT;
    const double width = (l.bold ? 1.12 : 1.0) * ms_svg_text_width(text, font);
    const double scale = l.max_width > 0.0 && width > l.max_width ? l.max_width / width : 1.0;

    if (text[0] == '\0') return;
    fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" dy=\".35em\" font-size=\"%.1f\"", l.x, l.y,
            scale * font);
    fprintf(to, " text-anchor=\"%s\"", l.anchor != NULL ? l.anchor : "middle");
    if (l.bold) fputs(" font-weight=\"600\"", to);
    if (l.vertical) fprintf(to, " transform=\"rotate(-90 %.1f %.1f)\"", l.x, l.y);
    putc('>', to);
    ms_html_text(text, to);
    fputs("</text>\n", to);
}
