/* two_layers.c - trains a small network with biases: matrices by Soft Musec, the rest by AdamW.
 *     cc two_layers.c $(pkg-config --cflags --libs musec) -lm && ./a.out
 *
 * The network is y = gain * (W2 tanh(W1 x + b1)) + b2.  Its target is another network of the same
 * kind, plus noise.  add_all() shows how parameters of different kinds are added to one optimizer.
 *
 *   W1, W2        role MATRIX: the optimizer that the config names clips their singular values
 *   b1, b2, gain  role VECTOR: AdamW with the aux_ settings.  A vector is a matrix of one row.
 *
 * Biases and gains must not decay, and the output bias learns faster: musec_optim_set_param() sets
 * this.  Parameter groups in PyTorch do the same:
 *     {"params": [b1, gain], "weight_decay": 0}, {"params": [b2], "weight_decay": 0, "lr": 0.03}
 *
 * On a GPU the arrays would be memory of the device: see "on a GPU" in musec.h. */
#include <math.h>
#include <musec/musec.h>
#include <stdio.h>

enum { N = 256, IN = 8, HIDDEN = 24, OUT = 4, STEPS = 400 };

typedef struct network { /* or its gradient */
    float W1[HIDDEN][IN], b1[HIDDEN], W2[OUT][HIDDEN], gain[OUT], b2[OUT];
} network;

static float inputs[N][IN], targets[N][OUT];

static float noise(void) /* uniform with variance 1, the same numbers in every run */
{
    static uint32_t state = 1;
    state                 = state * 1664525u + 1013904223u;
    return (float)(sqrt(12.0) * (state / 4294967296.0 - 0.5));
}

static void init(network *w)
{
    for (int i = 0; i < HIDDEN * IN; i++)
        w->W1[i / IN][i % IN] = noise() / sqrtf(IN);
    for (int i = 0; i < OUT * HIDDEN; i++)
        w->W2[i / HIDDEN][i % HIDDEN] = noise() / sqrtf(HIDDEN);
    for (int i = 0; i < HIDDEN; i++)
        w->b1[i] = 0.0f;
    for (int i = 0; i < OUT; i++) {
        w->gain[i] = 1.0f;
        w->b2[i]   = 0.0f;
    }
}

/* h <- tanh(W1 x + b1), z <- W2 h */
static void forward(const network *w, const float *x, float *h, float *z)
{
    for (int j = 0; j < HIDDEN; j++) {
        float s = w->b1[j];
        for (int k = 0; k < IN; k++)
            s += w->W1[j][k] * x[k];
        h[j] = tanhf(s);
    }
    for (int o = 0; o < OUT; o++) {
        z[o] = 0.0f;
        for (int j = 0; j < HIDDEN; j++)
            z[o] += w->W2[o][j] * h[j];
    }
}

/* The loss |y - targets|^2 / (2 N) and its gradient. */
static double loss_and_gradient(const network *w, network *g)
{
    double loss = 0.0;
    float  h[HIDDEN], z[OUT], dh[HIDDEN];
    *g = (network){ 0 };
    for (int i = 0; i < N; i++) {
        forward(w, inputs[i], h, z);
        for (int j = 0; j < HIDDEN; j++)
            dh[j] = 0.0f;
        for (int o = 0; o < OUT; o++) {
            const float r = w->gain[o] * z[o] + w->b2[o] - targets[i][o];
            loss += (double)(r * r) / (2 * N);
            g->b2[o] += r / N;
            g->gain[o] += r * z[o] / N;
            for (int j = 0; j < HIDDEN; j++) {
                g->W2[o][j] += r * w->gain[o] * h[j] / N;
                dh[j] += r * w->gain[o] * w->W2[o][j] / N;
            }
        }
        for (int j = 0; j < HIDDEN; j++) {
            const float ds = dh[j] * (1.0f - h[j] * h[j]);
            g->b1[j] += ds;
            for (int k = 0; k < IN; k++)
                g->W1[j][k] += ds * inputs[i][k];
        }
    }
    return loss;
}

static void make_data(void)
{
    static network target;
    float          h[HIDDEN], z[OUT];
    init(&target);
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < IN; k++)
            inputs[i][k] = noise();
        forward(&target, inputs[i], h, z);
        for (int o = 0; o < OUT; o++)
            targets[i][o] =
                2.0f * z[o] + (float)o + 0.05f * noise(); /* a gain of 2, biases 0, 1, 2, 3 */
    }
}

static musec_view matrix(float *data, int rows, int cols)
{
    return musec_view_dense(data, MUSEC_F32, 1, rows, cols);
}

/* Adds one parameter; decay and lr are its own, or MUSEC_UNSET for those of the config. */
static musec_status add(musec_optim *optim, const char *name, musec_role role, musec_view weight,
                        double decay, double lr)
{
    const musec_param  param = { .name = name, .role = role, .weight = weight };
    musec_param_config own;
    size_t             index = 0;
    musec_status       st    = musec_optim_add(optim, &param, &index);

    if (st != MUSEC_OK) return st;
    musec_param_config_init(&own, sizeof own);
    own.weight_decay = decay;
    own.lr           = lr;
    return musec_optim_set_param(optim, index, &own);
}

static musec_status add_all(musec_optim *optim, network *w)
{
    const struct {
        const char *name;
        musec_role  role;
        musec_view  weight;
        double      decay, lr;
    } params[] = {
        { "W1", MUSEC_ROLE_MATRIX, matrix(w->W1[0], HIDDEN, IN), MUSEC_UNSET, MUSEC_UNSET },
        { "b1", MUSEC_ROLE_VECTOR, matrix(w->b1, 1, HIDDEN), 0.0, MUSEC_UNSET },
        { "W2", MUSEC_ROLE_MATRIX, matrix(w->W2[0], OUT, HIDDEN), MUSEC_UNSET, MUSEC_UNSET },
        { "gain", MUSEC_ROLE_VECTOR, matrix(w->gain, 1, OUT), 0.0, MUSEC_UNSET },
        { "b2", MUSEC_ROLE_VECTOR, matrix(w->b2, 1, OUT), 0.0, 0.03 },
    };
    musec_status st = MUSEC_OK;
    for (size_t i = 0; i < sizeof params / sizeof *params && st == MUSEC_OK; i++)
        st = add(optim, params[i].name, params[i].role, params[i].weight, params[i].decay,
                 params[i].lr);
    return st;
}

/* Sets options by their command-line names; a message describes what is wrong with one. */
static int configure(musec_optim_config *cfg)
{
    static const char *const settings[][2] = {
        { "lr", "0.05" },         { "beta", "0.1" },
        { "threshold", "rms:1" }, { "update-scale", "unit" },
        { "ns-mode", "fast" },    { "weight-decay", "0.01" },
        { "aux-lr", "0.01" },     { "aux-weight-decay", "0.01" },
    };
    char         why[1024];
    musec_status st = musec_optim_config_init_why(cfg, sizeof *cfg, "soft-musec", why, sizeof why);

    for (size_t i = 0; i < sizeof settings / sizeof *settings && st == MUSEC_OK; i++)
        st = musec_optim_config_set_why(cfg, settings[i][0], settings[i][1], why, sizeof why);
    if (st != MUSEC_OK) fprintf(stderr, "two_layers: %s\n", why);
    return st == MUSEC_OK;
}

int main(void)
{
    static network     w, g;
    static char        text[4096];
    const musec_view   grads[] = { matrix(g.W1[0], HIDDEN, IN), matrix(g.b1, 1, HIDDEN),
                                   matrix(g.W2[0], OUT, HIDDEN), matrix(g.gain, 1, OUT),
                                   matrix(g.b2, 1, OUT) }; /* in the order of add_all */
    musec_ctx         *ctx     = NULL;
    musec_optim       *optim   = NULL;
    musec_optim_config cfg;
    double             loss = INFINITY;

    make_data();
    init(&w);
    if (!configure(&cfg) || musec_ctx_create(&ctx, "cpu") != MUSEC_OK) return 1;
    musec_status st = musec_optim_create(&optim, ctx, &cfg);
    if (st == MUSEC_OK) st = add_all(optim, &w);
    musec_optim_describe(optim, text, sizeof text); /* the rule of every parameter */
    fputs(text, stdout);
    for (int t = 0; t < STEPS && st == MUSEC_OK; t++) {
        loss = loss_and_gradient(&w, &g);
        if (t % 50 == 0) printf("step %3d  loss %.5f\n", t, loss);
        st = musec_optim_step(optim, grads, 5,
                              1.0 - (double)t / STEPS); /* all learning rates fall to 0 */
        if (st == MUSEC_OK) st = musec_ctx_sync(ctx);   /* a GPU may still be computing */
    }
    if (st != MUSEC_OK) fprintf(stderr, "two_layers: %s\n", musec_ctx_error(ctx));
    loss = loss_and_gradient(&w, &g);
    printf("step %3d  loss %.5f; noise alone has %.5f\n", STEPS, loss, OUT * 0.05 * 0.05 / 2);
    musec_optim_destroy(optim);
    musec_ctx_destroy(ctx);
    return st == MUSEC_OK && loss < 0.05 ? 0 : 1;
}
