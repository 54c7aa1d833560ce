/* fit_matrix.c - finds W with A W = B, B being noisy, by Soft Musec on |A W - B|^2 / (2 N).
 *     cc fit_matrix.c $(pkg-config --cflags --libs musec) -lm && ./a.out
 * D follows the momentum (rms:1) and a step is measured in units of D, so that the learning rate
 * does not depend on the scale of the loss. */
#include <math.h>
#include <musec/musec.h>
#include <stdio.h>

enum { N = 200, IN = 24, OUT = 16, STEPS = 300 };
static double A[N][IN], B[N][OUT], W[IN][OUT], G[IN][OUT];

static double noise(void) /* uniform, variance 1, the same in every run */
{
    static uint32_t state = 1;
    state                 = state * 1664525u + 1013904223u;
    return sqrt(12.0) * (state / 4294967296.0 - 0.5);
}

static double loss_and_gradient(void) /* G <- A^T (A W - B) / N */
{
    double loss = 0.0;
    for (int k = 0; k < IN * OUT; k++)
        G[k / OUT][k % OUT] = 0.0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < OUT; j++) {
            double r = -B[i][j];
            for (int k = 0; k < IN; k++)
                r += A[i][k] * W[k][j];
            for (int k = 0; k < IN; k++)
                G[k][j] += A[i][k] * r / N;
            loss += r * r / (2 * N);
        }
    return loss;
}

int main(void)
{
    static const char *const settings[][2] = {
        { "lr", "0.05" },           { "beta", "0.3" },     { "threshold", "rms:1" },
        { "update-scale", "unit" }, { "ns-mode", "fast" },
    };
    const musec_view  grad  = musec_view_dense(G, MUSEC_F64, 1, IN, OUT);
    const musec_param param = { .name = "W", .weight = musec_view_dense(W, MUSEC_F64, 1, IN, OUT) };
    const double      sought = 0.01 * OUT / 2; /* loss of the W sought: noise of variance 0.01 */
    musec_ctx        *ctx    = NULL;
    musec_optim      *optim  = NULL;
    musec_optim_config cfg;
    musec_status       st;

    for (int i = 0; i < N; i++) {
        for (int k = 0; k < IN; k++)
            A[i][k] = noise();
        for (int j = 0; j < OUT; j++) /* the W sought is 1 on its diagonal, else 0 */
            B[i][j] = A[i][j] + 0.1 * noise();
    }
    if (musec_ctx_create(&ctx, "cpu") != MUSEC_OK) return 1;
    st = musec_optim_config_init(&cfg, sizeof cfg, "soft-musec");
    for (size_t i = 0; i < sizeof settings / sizeof *settings && st == MUSEC_OK; i++)
        st = musec_optim_config_set(&cfg, settings[i][0], settings[i][1]);
    if (st == MUSEC_OK) st = musec_optim_create(&optim, ctx, &cfg);
    if (st == MUSEC_OK) st = musec_optim_add(optim, &param, NULL);
    for (int t = 0; t < STEPS && st == MUSEC_OK; t++) {
        const double loss = loss_and_gradient();
        if (t % 50 == 0) printf("step %3d  loss %.6f\n", t, loss);
        st = musec_optim_step(optim, &grad, 1, 1.0 - (double)t / STEPS); /* lr falls to 0 */
    }
    if (st != MUSEC_OK) fprintf(stderr, "fit_matrix: %s\n", musec_ctx_error(ctx));
    printf("step %3d  loss %.6f; the W sought has %.6f\n", STEPS, loss_and_gradient(), sought);
    musec_optim_destroy(optim);
    musec_ctx_destroy(ctx);
    return st == MUSEC_OK && loss_and_gradient() < sought ? 0 : 1;
}
