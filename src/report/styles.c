/* styles.c - one style per optimizer, everywhere.
 *
 * The colours begin with those of Okabe and Ito, which people with the common forms of colour
 * blindness can tell apart, shifted where white or black paper would swallow them; the rest keeps
 * away from them in lightness.  No two optimizers share a mark, so that a plot can be read without
 * any colour.  Those that often lie on each other (MuonClip on Muon, SPECTRA on Soft Musec) differ
 * in their dashes too: the lower line shows through the gaps of the upper one. */
#include <string.h>

#include "report/figure.h"

enum { /* gnuplot's point types */
       OPEN_SQUARE = 4,
       SQUARE,
       OPEN_CIRCLE,
       CIRCLE,
       OPEN_TRIANGLE,
       TRIANGLE,
       OPEN_DOWNWARD,
       DOWNWARD,
       OPEN_DIAMOND,
       DIAMOND,
       OPEN_PENTAGON,
       PENTAGON,
};

static const struct {
    const char *name, *title;
    ms_style    style;
} optimizers[] = {
    { "soft-musec", "Soft Musec", { "#0072b2", 0, CIRCLE } },   /* blue */
    { "musec", "Musec", { "#4aa9e4", 1, SQUARE } },             /* sky */
    { "spectra", "SPECTRA", { "#009e73", 4, TRIANGLE } },       /* bluish green */
    { "muon", "Muon", { "#d04f00", 0, DIAMOND } },              /* vermillion */
    { "muonclip", "MuonClip", { "#e39c00", 3, DOWNWARD } },     /* orange */
    { "adamw", "AdamW", { "#c76a9e", 6, PENTAGON } },           /* reddish purple */
    { "adam", "Adam", { "#8a5a44", 5, OPEN_PENTAGON } },        /* brown */
    { "signum", "Signum", { "#a8a632", 2, OPEN_TRIANGLE } },    /* olive */
    { "ademamix", "AdEMAMix", { "#8f7be0", 1, OPEN_DIAMOND } }, /* violet */
    { "sgdm", "SGDM", { "#6d747b", 0, OPEN_CIRCLE } },          /* grey */
};

const char *ms_optimizer_title(const char *optimizer)
{
    for (size_t i = 0; i < COUNT(optimizers); i++)
        if (strcmp(optimizers[i].name, optimizer) == 0) return optimizers[i].title;
    return optimizer;
}

ms_style ms_style_of(const char *optimizer)
{
    for (size_t i = 0; i < COUNT(optimizers); i++)
        if (strcmp(optimizers[i].name, optimizer) == 0) return optimizers[i].style;
    return (ms_style){ "#808080", 0, OPEN_SQUARE };
}

ms_style ms_style_stalled(void) { return (ms_style){ "#808080", 0, SQUARE }; }

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
    static const int         marks[] = { CIRCLE,   SQUARE,      TRIANGLE,    DIAMOND,      DOWNWARD,
                                         PENTAGON, OPEN_CIRCLE, OPEN_SQUARE, OPEN_TRIANGLE };
    const size_t             last    = COUNT(ramp) - 1;
    const size_t             place   = index < n ? index : n == 0 ? 0 : n - 1;

    return (ms_style){ ramp[n < 2 ? last / 2 : place * last / (n - 1)], (int)(place % 4),
                       marks[place % COUNT(marks)] };
}
