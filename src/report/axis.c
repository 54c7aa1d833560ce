/* axis.c - ranges, ticks and positions.
 *
 * Ticks of a linear axis are 1, 2 or 5 times a power of ten apart.  A short logarithmic axis has
 * them at 1, 2, 5 of each decade, a longer one at decades with minor ticks between, a very long one
 * at every few decades, and one below a third of a decade has those of a linear axis. */
#include "report/axis.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WANTED = 6 }; /* approximate number of ticks */

#define LARGEST  1e300 /* differences of smaller values are finite */
#define SMALLEST 1e-300
#define SAME     1e-9 /* values with a smaller relative difference are one value */

/* ---- numbers as text ------------------------------------------------------------------------- */

/* Writes m times ten to the power of e; a factor of 1 is left out: "10⁻³". */
static void write_power(double m, int e, char text[MS_NUMBER_TEXT])
{
    static const char *const raised[] = { "⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹" };
    char                     digits[16], factor[16];
    size_t                   n;

    snprintf(digits, sizeof digits, "%d", abs(e));
    snprintf(factor, sizeof factor, "%.4g", m);
    n = (size_t)snprintf(text, MS_NUMBER_TEXT, "%s%s10%s", strcmp(factor, "1") == 0 ? "" : factor,
                         strcmp(factor, "1") == 0 ? "" : "×", e < 0 ? "⁻" : "");
    for (const char *d = digits; *d != '\0' && n + 4 < MS_NUMBER_TEXT; d++)
        n += (size_t)snprintf(text + n, MS_NUMBER_TEXT - n, "%s", raised[*d - '0']);
}

void ms_number_text(double value, char text[MS_NUMBER_TEXT])
{
    char   plain[32];
    char  *e;
    double m;

    snprintf(plain, sizeof plain, "%.4g", value);
    if (isfinite(value) && value != 0.0 && (fabs(value) >= 1e6 || fabs(value) < 1e-4))
        snprintf(plain, sizeof plain, "%.3e", value);
    else if (isfinite(value) && fabs(value) >= 1e4)
        snprintf(plain, sizeof plain, "%.0f", value);
    e = strchr(plain, 'e');
    if (e == NULL) {
        snprintf(text, MS_NUMBER_TEXT, "%s", isnan(value) ? "nan" : plain);
        return;
    }
    *e = '\0';
    m  = strtod(plain, NULL);
    write_power(m, (int)strtol(e + 1, NULL, 10), text);
}

/* ---- the range ------------------------------------------------------------------------------- */

void ms_axis_range_add(ms_axis_range *span, bool log, double value)
{
    if (!isfinite(value) || (log && !(value > 0.0))) return;
    if (value > LARGEST) value = LARGEST;
    if (value < -LARGEST) value = -LARGEST;
    if (log && value < SMALLEST) value = SMALLEST;
    if (!span->any || value < span->lo) span->lo = value;
    if (!span->any || value > span->hi) span->hi = value;
    span->any = true;
}

/* Convert a value to the linear scale of the axis, and back. */
static double to_scale(const ms_axis *a, double value) { return a->log ? log10(value) : value; }
static double from_scale(const ms_axis *a, double value)
{
    return a->log ? pow(10.0, value) : value;
}

static void set_range(ms_axis *a, ms_axis_range span, double pad_lo, double pad_hi)
{
    double lo = to_scale(a, span.lo), hi = to_scale(a, span.hi), wide = hi - lo;

    if (!(wide > SAME * fmax(fabs(lo), fabs(hi)))) { /* a single value is placed in the middle */
        const double margin = a->log ? 0.2 : fmax(0.1 * fabs(lo), lo == 0.0 ? 1.0 : DBL_MIN);
        lo -= margin;
        hi += margin;
        wide   = 0.0;
        pad_lo = pad_hi = 0.0;
    }
    a->lo = from_scale(a, lo - pad_lo * wide);
    a->hi = fmin(from_scale(a, hi + pad_hi * wide), DBL_MAX);
    if (a->log) a->lo = fmax(a->lo, DBL_MIN);
    if (!a->log && span.lo >= 0.0 && a->lo < 0.0) a->lo = 0.0;
}

/* ---- ticks ----------------------------------------------------------------------------------- */

static bool add_tick(ms_axis *a, double value, const char *label)
{
    if (a->n == MS_TICKS || value < a->lo - SAME * fabs(a->lo) ||
        value > a->hi + SAME * fabs(a->hi))
        return false;
    a->ticks[a->n].at = ms_axis_place(a, value);
    snprintf(a->ticks[a->n++].label, sizeof a->ticks[0].label, "%s", label);
    return true;
}

static void ticks_linear(ms_axis *a)
{
    const double raw    = a->hi / WANTED - a->lo / WANTED;
    const double unit   = pow(10.0, floor(log10(raw)));
    const double m      = raw / unit;
    const double step   = unit * (m <= 1.5 ? 1.0 : m <= 3.5 ? 2.0 : m <= 7.5 ? 5.0 : 10.0);
    const double most   = fmax(fabs(a->lo), fabs(a->hi));
    const int    digits = step > 0.0 ? (int)fmin(12.0, fmax(0.0, -floor(log10(step) + 1e-9)))
                                     : 0; /* after the point */
    const double first  = ceil(a->lo / step - 1e-6);

    if (!(unit > 0.0) || !isfinite(first)) return; /* the step underflows */
    for (int i = 0; i < 2 * WANTED; i++) {
        const double value = (first + i) * step;
        char         label[MS_NUMBER_TEXT];
        if (most >= 1e6 || most < 1e-3)
            ms_number_text(fabs(value) < 1e-6 * step ? 0.0 : value, label);
        else
            snprintf(label, sizeof label, "%.*f", digits, value == 0.0 ? 0.0 : value);
        add_tick(a, value, label);
    }
}

/* Adds the ticks of a logarithmic axis and returns how many have a label. */
static int ticks_log(ms_axis *a)
{
    const double decades = log10(a->hi) - log10(a->lo);
    const int    first = (int)floor(log10(a->lo)), last = (int)ceil(log10(a->hi));
    const int    every    = decades > 9.0 ? (int)ceil(decades / WANTED) : 1;
    int          big_ones = 0;

    for (int e = first; e <= last; e++)
        for (int m = 1; m < 10; m++) {
            const bool big = (m == 1 && (e % every + every) % every == 0) ||
                             (decades < 2.3 && (m == 2 || m == 5));
            const double value = m * pow(10.0, e);
            char         label[MS_NUMBER_TEXT];
            if (!big && (m == 1 ? every > 4 : decades > 5.0)) continue;
            if (abs(e) > 4)
                write_power(m, e, label);
            else
                ms_number_text(value, label);
            if (add_tick(a, value, big ? label : "") && big) big_ones++;
        }
    return decades < 0.35 ? 0 : big_ones;
}

void ms_axis_make(ms_axis *axis, bool log, ms_axis_range span, double pad_lo, double pad_hi,
                  double share)
{
    memset(axis, 0, sizeof *axis);
    axis->log   = log;
    axis->share = share;
    if (!span.any) {
        axis->lo = log ? 1.0 : 0.0;
        axis->hi = log ? 10.0 : 1.0;
        return;
    }
    set_range(axis, span, pad_lo, pad_hi);
    if (!log || ticks_log(axis) < 2) {
        axis->n = 0;
        ticks_linear(axis);
    }
}

double ms_axis_reach(const ms_axis *axis, double value)
{
    const double lo = to_scale(axis, axis->lo) / 2.0, hi = to_scale(axis, axis->hi) / 2.0;

    if (isnan(value)) return NAN;
    if (!(value > axis->lo)) return 0.0; /* also values without a logarithm */
    return (to_scale(axis, value) / 2.0 - lo) / (hi - lo) * axis->share;
}

double ms_axis_place(const ms_axis *axis, double value)
{
    const double reach = ms_axis_reach(axis, value);

    if (isnan(value)) return NAN;
    return value < axis->hi ? fmin(reach, axis->share) : axis->share;
}
