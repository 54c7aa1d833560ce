/* fit_matrix.c - solves A W = B with a noisy B by Soft Musec on the loss |A W - B|^2 / (2 N).
 *     cc fit_matrix.c $(pkg-config --cflags --libs musec) -lm && ./a.out
 * D follows the momentum (rms:1) and a step is measured in units of D, so that the learning rate
 * does not depend on the scale of the loss. */
#include <math.h>
#include <musec/musec.h>
#include <stdio.h>

enum { N = 200, IN = 24, OUT = 16, STEPS = 300 };
static double A[N][IN], B[N][OUT], W[IN][OUT], G[IN][OUT];

static double noise(void) /* uniform with variance 1, the same numbers in every run */
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
    for (int ij = 0; ij < N * OUT; ij++) {
        const int i = ij / OUT, j = ij % OUT;
        double    r = -B[i][j];
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
    const musec_view  grad  = musec_view_dense(G, MUSEC_F64, 1, IN, OUT);
    const musec_param param = { .name = "W", .weight = musec_view_dense(W, MUSEC_F64, 1, IN, OUT) };
    musec_ctx        *ctx   = NULL;
    musec_optim      *optim = NULL;
    musec_optim_config cfg;
    for (int i = 0; i < N; i++) /* the true W is 1 on its diagonal, else 0 */
        for (int k = 0; k < IN; k++)
            A[i][k] = noise();
    for (int ij = 0; ij < N * OUT; ij++)
        B[ij / OUT][ij % OUT] = A[ij / OUT][ij % OUT] + 0.1 * noise();
    if (musec_ctx_create(&ctx, "cpu") != MUSEC_OK) return 1;
    musec_optim_config_init(&cfg, sizeof cfg, "soft-musec");
    cfg.lr             = 0.05;
    cfg.beta           = 0.3; /* weighs the new gradient */
    cfg.threshold      = 1.0;
    cfg.threshold_rule = MUSEC_THRESHOLD_RMS;
    cfg.update_scale   = MUSEC_SCALE_UNIT;
    cfg.ns_mode        = MUSEC_NS_FAST;
    musec_status st    = musec_optim_create(&optim, ctx, &cfg);
    if (st == MUSEC_OK) st = musec_optim_add(optim, &param, NULL);
    for (int t = 0; t < STEPS && st == MUSEC_OK; t++) { /* the learning rate falls to 0 */
        if (t % 50 == 0) printf("step %3d  loss %.6f\n", t, loss_and_gradient());
        loss_and_gradient();
        st = musec_optim_step(optim, &grad, 1, 1.0 - (double)t / STEPS);
    }
    if (st != MUSEC_OK) fprintf(stderr, "fit_matrix: %s\n", musec_ctx_error(ctx));
    const double loss      = loss_and_gradient(),
                 true_loss = 0.01 * OUT / 2; /* noise of variance 0.01 */
    printf("step %3d  loss %.6f; the true W has %.6f\n", STEPS, loss, true_loss);
    musec_optim_destroy(optim);
    musec_ctx_destroy(ctx);
    return st == MUSEC_OK && loss < true_loss ? 0 : 1;
}
