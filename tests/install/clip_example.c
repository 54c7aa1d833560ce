/* clip_example.c - a program outside the tree: clips two matrices and checks answers by hand.
 * The first is diag(3, 0.5); the second has the same singular values off its diagonal. */
#include <math.h>
#include <musec/musec.h>
#include <stdio.h>
#include <string.h>

static int failures;

static void expect(const char *what, double got, double want, double tol)
{
    if (!(fabs(got - want) <= tol)) { /* true for NaN, too */
        printf("%s: %.17g, expected %.17g\n", what, got, want);
        failures++;
    }
}

/* D = 1, so that 3 goes to `high` and 0.5 to `low`. */
static void clip(musec_ctx *ctx, const char *op, double high, double low, double tol)
{
    double            in[8]  = { 3.0, 0.0, 0.0, 0.5, 0.0, 3.0, 0.5, 0.0 };
    double            out[8] = { 0 };
    const double      want[] = { high, 0.0, 0.0, low, 0.0, high, low, 0.0 };
    const musec_view  x      = musec_view_dense(in, MUSEC_F64, 2, 2, 2);
    const musec_view  y      = musec_view_dense(out, MUSEC_F64, 2, 2, 2);
    musec_clip_config cfg;

    if (musec_clip_config_init(&cfg, sizeof cfg, op) != MUSEC_OK) {
        printf("%s: no such operator\n", op);
        failures++;
        return;
    }
    cfg.threshold = 1.0;
    if (musec_clip(ctx, &cfg, x, y, NULL) != MUSEC_OK || musec_ctx_sync(ctx) != MUSEC_OK) {
        printf("%s: %s\n", op, musec_ctx_error(ctx));
        failures++;
        return;
    }
    for (int i = 0; i < 8; i++)
        expect(op, out[i], want[i], tol);
}

int main(void)
{
    const double high = 3.0 / sqrt(10.0), low = 0.5 / sqrt(1.25); /* D s / sqrt(s^2 + D^2) */
    musec_ctx   *ctx = NULL;
    char         version[32];

    snprintf(version, sizeof version, "%d.%d.%d", MUSEC_VERSION_MAJOR, MUSEC_VERSION_MINOR,
             MUSEC_VERSION_PATCH);
    if (strcmp(version, musec_version()) != 0) {
        printf("header %s, library %s\n", version, musec_version());
        failures++;
    }
    if (musec_ctx_create(&ctx, "cpu") != MUSEC_OK) {
        printf("no cpu device\n");
        return 1;
    }
    clip(ctx, "hard", 1.0, 0.5, 1e-14);
    clip(ctx, "soft", high, low, 1e-14);
    clip(ctx, "fast", high, low, 1e-2); /* well above the documented error of `fast` */
    musec_ctx_destroy(ctx);
    if (failures == 0) printf("musec %s: clipped as expected\n", musec_version());
    return failures == 0 ? 0 : 1;
}
