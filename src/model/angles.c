/* angles.c - the angles of rotary embeddings: base^(-j / (pairs - 1)) for pair j, times the row.
 *
 * YaRN: when the window grows from w to w', a pair that made less than one turn within w is slowed
 * down by w/w', one that made more than 32 is left alone, and those between are interpolated.
 *
 * They are computed in float64 and rounded once. */
#include <math.h>
#include <stdlib.h>

#include "model/layout.h"

/* Fills a matrix (rows, pairs) with the cosines or the sines. */
static void fill_angles(const double *frequency, int64_t pairs, int64_t rows, bool sines,
                        musec_dtype dtype, void *host)
{
    for (int64_t i = 0; i < rows * pairs; i++) {
        const int64_t row   = i / pairs;
        const double  angle = (double)row * frequency[i % pairs];
        const double  x     = sines ? sin(angle) : cos(angle);
        if (dtype == MUSEC_F64)
            ((double *)host)[i] = x;
        else
            ((float *)host)[i] = (float)x;
    }
}

/* One growth of the window; returns what attention's scale is multiplied by. */
static double stretch(double *frequency, int64_t pairs, int64_t from, int64_t to)
{
    const double two_pi = 6.283185307179586477, first = 1.0, last = 32.0; /* turns */
    const double ratio = (double)from / (double)to;
    for (int64_t j = 0; j < pairs; j++) {
        const double turns = (double)from * frequency[j] / two_pi;
        const double kept  = fmin(fmax((turns - first) / (last - first), 0.0), 1.0);
        frequency[j] *= ratio + kept * (1.0 - ratio);
    }
    return 1.0 - 0.2 * log(ratio);
}

musec_status ms_gpt_upload_angles(ms_device *d, const ms_gpt_config *cfg, int n_windows,
                                  const int64_t *windows, const ms_gpt_acts *acts, double *growth)
{
    const int64_t     pairs = ms_gpt_rope_pairs(cfg), rows = acts->cos.rows;
    const musec_dtype dtype     = acts->cos.dtype;
    const size_t      bytes     = (size_t)(rows * pairs) * ms_dtype_bytes(dtype);
    void             *host      = malloc(bytes > 0 ? bytes : 1);
    double           *frequency = calloc((size_t)(pairs > 0 ? pairs : 1), sizeof *frequency);
    musec_status      st        = MUSEC_OK;

    if (host == NULL || frequency == NULL)
        TRY(ms_fail(&d->error, MUSEC_ENOMEM, "not enough memory for angles"));
    for (int64_t j = 0; j < pairs; j++) {
        const double power = pairs > 1 ? (double)j / (double)(pairs - 1) : 0.0;
        frequency[j]       = pow(cfg->rope_base, -power);
    }
    *growth = 1.0;
    for (int i = 1; i < n_windows; i++)
        *growth *= stretch(frequency, pairs, windows[i - 1], windows[i]);
    fill_angles(frequency, pairs, rows, false, dtype, host);
    TRY(d->ops->upload(d, host, bytes, acts->cos.data));
    fill_angles(frequency, pairs, rows, true, dtype, host);
    TRY(d->ops->upload(d, host, bytes, acts->sin.data));
done:
    free(frequency);
    free(host);
    return st;
}
