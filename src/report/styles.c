/* styles.c - how curves look.  The style of an optimizer, the same everywhere, is in its row of the
 * registry (core/optimizers.c). */
#include "report/figure.h"

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

/* From violet over blue and green to ochre: lightness grows all the way, and the ends that white
 * and black paper would swallow are left out. */
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
