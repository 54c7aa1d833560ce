/* gain_table.c - what each operator makes of a singular value, as tables for gain.gp.
 *
 * Clips, at D, the diagonal matrix of N singular values log-spaced between two ends.  The result is
 * diagonal too, so the gain on a singular value is the ratio of two diagonal elements.  The gain of
 * ssc and fast on one singular value depends on all others, through the norm that normalises the
 * iteration: a table belongs to its spectrum.  Uses the public header alone; `docs/plots/draw`
 * compiles and runs it. */
#include <math.h>
#include <musec/musec.h>
#include <stdio.h>

enum { N = 256 };
#define D 1.0

static const struct spectrum {
    double top, bottom;
} spectra[] = {
    { 30.0, 1e-3 }, /* hard for the iterations */
    { 3.0, 3e-2 },  /* easy for them, and near the corner of the clips */
};
enum { N_SPECTRA = sizeof spectra / sizeof spectra[0] };

static const struct curve {
    const char *op, *label;
    int         iters;     /* ssc */
    double      sharpness; /* sharp clips */
    double      scale;     /* of the result: D for polar, which has no threshold */
} curves[] = {
    { "hard", "hard", 5, 0.0, 1.0 },
    { "soft", "soft", 5, 0.0, 1.0 },
    { "ssc", "ssc3", 3, 0.0, 1.0 },
    { "ssc", "ssc5", 5, 0.0, 1.0 },
    { "ssc", "ssc7", 7, 0.0, 1.0 },
    { "fast", "fast", 5, 0.0, 1.0 },
    { "accurate", "accurate", 5, 0.0, 1.0 },
    { "polar", "polar", 5, 0.0, D },
    { "hard-fast", "hard-fast", 5, 0.0, 1.0 },
    { "sharp", "sharp4", 5, 4.0, 1.0 },
    { "sharp", "sharp8", 5, 8.0, 1.0 },
};
enum { N_CURVES = sizeof curves / sizeof curves[0] };

static double in[N * N], out[N * N], gain[N_CURVES][N];

static musec_status measure(musec_ctx *ctx, const struct curve *curve, musec_clip_report *report,
                            double *gains)
{
    const musec_view  from = musec_view_dense(in, MUSEC_F64, 1, N, N);
    const musec_view  to   = musec_view_dense(out, MUSEC_F64, 1, N, N);
    musec_clip_config cfg;
    musec_status      st = musec_clip_config_init(&cfg, sizeof cfg, curve->op);

    if (st != MUSEC_OK) return st;
    cfg.threshold = D;
    cfg.iters     = curve->iters;
    cfg.sharpness = curve->sharpness;
    cfg.tol       = 1e-3;
    st            = musec_clip(ctx, &cfg, from, to, report);
    for (int i = 0; i < N; i++)
        gains[i] = curve->scale * out[i * N + i] / in[i * N + i];
    return st;
}

static void print_table(FILE *to)
{
    fprintf(to, "%-12s", "sigma/D");
    for (int c = 0; c < N_CURVES; c++)
        fprintf(to, " %12s", curves[c].label);
    for (int i = 0; i < N; i++) {
        fprintf(to, "\n%-12.6g", in[i * N + i] / D);
        for (int c = 0; c < N_CURVES; c++)
            fprintf(to, " %12.6g", gain[c][i]);
    }
    fprintf(to, "\n\n\n"); /* so that gnuplot takes the next table by its index */
}

static musec_status make_table(musec_ctx *ctx, const struct spectrum *s)
{
    musec_clip_report report;
    musec_status      st = MUSEC_OK;

    for (int i = 0; i < N; i++)
        in[i * N + i] = s->top * pow(s->bottom / s->top, i / (N - 1.0));
    for (int c = 0; c < N_CURVES && st == MUSEC_OK; c++) {
        st = measure(ctx, &curves[c], &report, gain[c]);
        fprintf(stderr, "%-9s %s, %d products, u_low %.4f, alpha %.1f\n", curves[c].label,
                report.path, (int)report.products, report.u_low, report.alpha);
    }
    if (st == MUSEC_OK) print_table(stdout);
    return st;
}

int main(void)
{
    musec_ctx   *ctx = NULL;
    musec_status st  = musec_ctx_create(&ctx, "cpu");

    for (int i = 0; i < N_SPECTRA && st == MUSEC_OK; i++)
        st = make_table(ctx, &spectra[i]);
    if (st != MUSEC_OK)
        fprintf(stderr, "gain_table: %s\n",
                ctx == NULL ? musec_status_text(st) : musec_ctx_error(ctx));
    musec_ctx_destroy(ctx);
    return st == MUSEC_OK ? 0 : 1;
}
