/* clip_law.c - see clip_law.h. */
#include "clip_law.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const law_case law_cases[] = {
    { .op = "ssc", .iters = 3 },
    { .op = "ssc", .iters = 5 },
    { .op = "ssc", .iters = 5, .literal = 1 },
    { .op = "paper7" },
    { .op = "fast" },
    { .op = "accurate", .tol = 1e-2 },
    { .op = "accurate", .tol = 1e-5 },
    { .op = "sharp-fast", .sharpness = 2.0 },
    { .op = "sharp-fast", .sharpness = 4.0 },
    { .op = "sharp-fast", .sharpness = 8.0 },
    { .op = "sharp-fast", .sharpness = 16.0 },
    { .op = "sharp-fast", .sharpness = 32.0 },
    { .op = "hard-fast", .sharpness = INFINITY },
    { .op = "sharp-accurate", .sharpness = 4.0, .tol = 1e-4 },
    { .op = "sharp-accurate", .sharpness = 8.0, .tol = 1e-3 },
    { .op = "sharp-accurate", .sharpness = 32.0, .tol = 3e-2 },
    { .op = "hard-accurate", .sharpness = INFINITY, .tol = 3e-2 },
    { .op = "hard-accurate", .sharpness = INFINITY, .tol = 1e-1 },
    { .op = "soft", .sharpness = 2.0 },
    { .op = "sharp", .sharpness = 3.5 },
    { .op = "sharp", .sharpness = 32.0 },
    { .op = "hard", .sharpness = INFINITY },
};
const size_t law_case_count = COUNT(law_cases);

musec_clip_config law_config(const law_case *c, double threshold)
{
    musec_clip_config cfg = run_config(c->op, threshold);
    if (c->sharpness != 0.0) cfg.sharpness = c->sharpness;
    if (c->tol != 0.0) cfg.tol = c->tol;
    if (c->iters != 0) cfg.iters = c->iters;
    cfg.literal = c->literal;
    return cfg;
}

static bool is(const char *op, const char *name) { return strcmp(op, name) == 0; }

static bool is_exact(const char *op) { return is(op, "soft") || is(op, "sharp") || is(op, "hard"); }

bool law_is_by_products(const law_case *c) { return !is_exact(c->op); }

const char *law_case_name(const law_case *c, char *name, size_t bytes)
{
    snprintf(name, bytes, "%s, sharpness %g, tol %g, K = %d%s", c->op, c->sharpness, c->tol,
             c->iters, c->literal ? ", literal" : "");
    return name;
}

double law_bend(double zeta, double p)
{
    const double larger = fmax(zeta, 1.0 - zeta), ratio = (1.0 - larger) / larger;
    if (p == INFINITY) return 1.0 / sqrt(larger);
    return pow(1.0 + pow(ratio, 0.5 * p), -1.0 / p) / sqrt(larger);
}

double law_chain_error(double p) /* the column "error" of docs/operators.md, with one digit more */
{
    if (p == 2.0) return 0.0;
    if (p == 4.0) return 6.90e-3;
    if (p == 8.0) return 8.12e-3;
    if (p == 16.0) return 2.48e-2;
    if (p == 32.0) return 1.85e-2;
    CHECK(p == INFINITY, "sharp-fast has no sharpness of %g", p);
    return 2.94e-2;
}

/* The least gain of the soft stage of `fast` at u, for the plan that was taken. */
static double fast_gain(const char *path, double u)
{
    if (strncmp(path, "p9x9d", 5) == 0) return 1.0 - 2.63e-11;
    if (strncmp(path, "p9x9c", 5) == 0) return 1.0 - 3.34e-5;
    CHECK(strncmp(path, "p9x9", 4) == 0, "fast took %s", path);
    return u >= 0.09 ? 1.0 - 2.29e-3 : 11.08 * u;
}

static double sharpness_of(const musec_clip_config *cfg)
{
    if (strncmp(cfg->op, "hard", 4) == 0) return INFINITY;
    if (strncmp(cfg->op, "sharp", 5) != 0) return 2.0;
    return cfg->sharpness == 0.0 ? 4.0 : cfg->sharpness;
}

law_range law_promised(const musec_clip_config *cfg, const musec_clip_report *report,
                       const double *s, int64_t r, int64_t at)
{
    const double p = sharpness_of(cfg), D = cfg->threshold, value = s[at];
    const double want = law_sharp(value, D, p), h = law_soft(value, D);
    if (is_exact(cfg->op) || report->products == 0) return (law_range){ want, want };
    if (is(cfg->op, "ssc") || is(cfg->op, "paper7")) {
        const double u    = hypot(value, D) / sqrt(law_alpha_fro(s, r, D));
        const double gain = law_steps(u, is(cfg->op, "ssc") ? cfg->iters : 5);
        const double off  = is(cfg->op, "ssc") ? 0.0 : 1.6e-6;
        return (law_range){ h * (gain - off), h * (gain + off) };
    }
    if (strstr(cfg->op, "accurate") != NULL) return (law_range){ want * (1.0 - cfg->tol), want };
    const double root = hypot(value, D), c = fast_gain(report->path, root / sqrt(report->alpha));
    const double zeta = D / root * (D / root);
    return (law_range){ c * h * law_bend(c * c * zeta, p) * (1.0 - law_chain_error(p)), want };
}

double law_chain(const ms_sharp_chain *c, double x)
{
    double y[MS_SHARP_STEPS + 1] = { x };
    for (int k = 1; k <= c->n; k++)
        y[k] = c->step[k - 1].square * y[k - 1] * y[k - 1] +
               (k < 2 ? 0.0 : c->step[k - 1].source * y[k - 2]) + c->step[k - 1].diag;
    return y[c->n];
}
