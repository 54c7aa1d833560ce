/* styles.c - the styles of curves, and their SVG.  The style of an optimizer is in its row of the
 * registry (core/optimizers.c). */
#include "report/svg.h"

ms_style ms_style_of(const char *optimizer)
{
    const ms_optimizer *row = ms_optimizer_find(optimizer);
    if (row == NULL) return (ms_style){ "#808080", 0, MS_MARKER_OPEN_SQUARE };
    return (ms_style){ row->style.color, row->style.dash, row->style.marker };
}

ms_style ms_style_stalled(void) { return (ms_style){ "#808080", 0, MS_MARKER_SQUARE }; }

ms_style ms_style_variant(ms_style style, size_t number)
{
    style.dash = (int)(((size_t)style.dash + number) % MS_DASHES);
    return style;
}

/* The colours go from violet over blue and green to ochre with growing lightness, without ends that
 * would be invisible on white or black. */
ms_style ms_style_step(size_t index, size_t n)
{
    static const char *const ramp[]  = { "#6a4ca8", "#5566b5", "#3f80b8", "#2f96ad", "#2aa893",
                                         "#4db573", "#7fba4f", "#b0b62f", "#d9ad2b" };
    static const int         marks[] = { MS_MARKER_CIRCLE,       MS_MARKER_SQUARE,
                                         MS_MARKER_TRIANGLE,     MS_MARKER_DIAMOND,
                                         MS_MARKER_DOWNWARD,     MS_MARKER_PENTAGON,
                                         MS_MARKER_OPEN_CIRCLE,  MS_MARKER_OPEN_SQUARE,
                                         MS_MARKER_OPEN_TRIANGLE };
    const size_t             last    = COUNT(ramp) - 1;
    const size_t             place   = index < n ? index : n == 0 ? 0 : n - 1;

    return (ms_style){ ramp[n < 2 ? last / 2 : place * last / (n - 1)], (int)(place % 4),
                       marks[place % COUNT(marks)] };
}

/* ---- as SVG ---------------------------------------------------------------------------------- */

void ms_svg_stroke(const char *colour, double width, int dash, FILE *to)
{
    static const char *const dashes[MS_DASHES] = { "",     "8,4",         "2,3", "9,3,2,3",
                                                   "11,4", "9,3,2,3,2,3", "4,3" };
    fprintf(to, " fill=\"none\" stroke=\"%s\" stroke-width=\"%.2g\"", colour, width);
    if (dash > 0 && dash < MS_DASHES) fprintf(to, " stroke-dasharray=\"%s\"", dashes[dash]);
}

static bool is_filled(int marker) { return marker > MS_MARKER_CROSS && marker % 2 == 1; }

void ms_svg_marker_paint(int marker, const char *colour, FILE *to)
{
    if (is_filled(marker))
        fprintf(to, " fill=\"%s\"", colour);
    else
        ms_svg_stroke(colour, 0.45, 0, to);
}

void ms_svg_marker(int marker, double x, double y, double radius, FILE *to)
{
    static const char *const shapes[] = {
        "M-1,-1L1,1M1,-1L-1,1",                                 /* cross */
        "M-1,-1h2v2h-2z",                                       /* square */
        "M-1,0a1,1 0 1,0 2,0a1,1 0 1,0 -2,0z",                  /* circle */
        "M0,-1.33L-1.33,.67h2.66z",                             /* triangle */
        "M0,1.33L-1.33,-.67h2.66z",                             /* triangle, downward */
        "M0,-1.41L-1.41,0L0,1.41L1.41,0z",                      /* diamond */
        "M0,-1.33L1.265,-.411L.782,1.076h-1.564L-1.265,-.411z", /* pentagon */
        ("M0,-1.4L.36,-.5L1.33,-.43L.58,.19L.82,1.13L0,.61"
         "L-.82,1.13L-.58,.19L-1.33,-.43L-.36,-.5z"),       /* star */
        "M-1.2,0L-.6,-1.04h1.2L1.2,0L.6,1.04h-1.2z",        /* hexagon */
        "M-1.1,-1.1h2.2L-1.1,1.1h2.2z",                     /* hourglass */
        "M-.4,-1.2h.8v.8h.8v.8h-.8v.8h-.8v-.8h-.8v-.8h.8z", /* plus */
        "M-1.33,0L.67,-1.33v2.66z",                         /* triangle, leftward */
    };
    const size_t shape = marker < MS_MARKER_CROSS ? 0 : (size_t)marker / 2 - 1;
    fprintf(to, "<path d=\"%s\" transform=\"translate(%.2f,%.2f) scale(%.2f)\"/>",
            shapes[shape % COUNT(shapes)], x, y, radius);
}

void ms_svg_sample(ms_style style, bool bar, double x, double y, FILE *to)
{
    if (bar) {
        fprintf(to, "<path d=\"M%.1f,%.1fh14v12h-14z\" fill=\"%s\"/>", x + 9.0, y - 6.0,
                style.colour);
        return;
    }
    fprintf(to, "<path d=\"M%.1f,%.1fh%d\"", x, y, MS_SAMPLE);
    ms_svg_stroke(style.colour, 2.2, style.dash, to);
    fputs("/>", to);
    if (style.marker <= 0) return;
    fputs("<g", to);
    ms_svg_marker_paint(style.marker, style.colour, to);
    putc('>', to);
    ms_svg_marker(style.marker, x + 0.5 * (double)MS_SAMPLE, y, 4.0, to);
    fputs("</g>", to);
}
