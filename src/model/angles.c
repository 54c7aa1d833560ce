/* angles.c - the angles of rotary embeddings: base^(-j / (pairs - 1)) for pair j, times the row.
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

musec_status ms_gpt_upload_angles(ms_device *d, const ms_gpt_config *cfg, int64_t rows,
                                  const ms_gpt_acts *acts)
{
    const int64_t     pairs     = ms_gpt_rope_pairs(cfg);
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
    fill_angles(frequency, pairs, rows, false, dtype, host);
    TRY(d->ops->upload(d, host, bytes, acts->cos.data));
    fill_angles(frequency, pairs, rows, true, dtype, host);
    TRY(d->ops->upload(d, host, bytes, acts->sin.data));
done:
    free(frequency);
    free(host);
    return st;
}
