/* accuracy_bench.c - the errors of the operators on real momentum, and their bounds.
 *
 * M is the matrix that an optimizer would clip next.  With its SVD in float64 the exact result of
 * an operator that maps singular values by f is U diag(f(s)) V^T, and the error of the operator is
 * measured against that in the spectral norm, in units of D:
 *     paper K=5, paper7   f = h phi_5(u): Newton-Schulz steps from alpha = |A|_F, from the spectrum
 *     fast                f = h g(u): its plan at the alpha that it reports
 *     accurate            f = h, with tol added to the bound; after reductions (1+p9x9) 1.2e-2 for
 *                         their law and twice what rounding M and M' to 16 bits does
 *     sharp-, hard-fast   f = h c G(1 - 2 c^2 zeta), c = g(u), zeta = D^2 / (s^2 + D^2): after the
 *                         plan of `fast` the chain G
 *     sharp-, hard-accurate   the law itself, with tol added; with 16-bit operands the error of the
 *                         chain of `fast` too
 *     muon                f = five quintic steps, in units of 1
 * with u = sqrt((s^2 + D^2) / alpha), h = D s / sqrt(s^2 + D^2).  The bounds are twice those of
 * docs/operators.md ("Rounding"), where a chain has those of the soft clip before it, and twice
 * them after `accurate`.  Muon amplifies small singular values, and so its own rounding errors, by
 * up to 485.  Entries of X rounded with a relative error u give a matrix error of norm
 *     u |X|_F (1/sqrt(rows) + 1/sqrt(cols))
 * and the bound is twice 485 times that, |X|_F being 1; in float32, where sums matter too, it is
 * the tests' 1e-4.
 * For `fast` the theorem is checked for the measured gains c / h, c = u_i^T result v_i, of all
 * singular values:
 *     |c - h| <= h max(1 - phi_5(u_paper), tol) + rounding.
 * The spectral norm of the error is estimated by Lanczos steps, a few percent from below. */
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/json_file.h"
#include "linalg/sharp_chain.h"
#include "optim/optim.h"
#include "run_matrices.h"

enum { OPERANDS = 3, RATIOS = 3, STEPS = 5, LANCZOS_STEPS = 24, MUON_GAIN = 485 };

static const musec_dtype operands[OPERANDS] = { MUSEC_F32, MUSEC_F16, MUSEC_BF16 };

typedef enum operator_law { LAW_PAPER, LAW_FAST, LAW_ACCURATE, LAW_MUON } operator_law;

#define PAPER_16_BITS \
    { 3e-3, 3e-3, 3e-3 }, { 2e-2, 2e-2, 2e-2 }
#define FAST_16_BITS \
    { 1e-3, 4e-3, 7e-3 }, { 5e-3, 3e-2, 7e-2 }

static const struct path {
    const char  *name, *op;
    operator_law law;
    double       sharpness;                  /* of the clip; 0: Muon's map is none */
    double       map;                        /* error of its polynomial */
    double       rounding[OPERANDS][RATIOS]; /* from the table, for s_1 / D up to 1, 10, more */
} paths[] = {
    { "paper K=5", "ssc", LAW_PAPER, MS_SOFT, 0.0, { { 3e-6, 5e-6, 6e-6 }, PAPER_16_BITS } },
    { "paper7", "paper7", LAW_PAPER, MS_SOFT, 1.6e-6, { { 3e-6, 4e-6, 4e-6 }, PAPER_16_BITS } },
    { "fast", "fast", LAW_FAST, MS_SOFT, 0.0, { { 2e-6, 3e-6, 6e-6 }, FAST_16_BITS } },
    { "accurate",
      "accurate",
      LAW_ACCURATE,
      MS_SOFT,
      0.0,
      { { 6e-7, 4e-6, 1.4e-4 }, FAST_16_BITS } },
    { "sharp-fast", "sharp-fast", LAW_FAST, 4.0, 0.0, { { 2e-6, 3e-6, 6e-6 }, FAST_16_BITS } },
    { "hard-fast", "hard-fast", LAW_FAST, MS_HARD, 0.0, { { 2e-6, 3e-6, 6e-6 }, FAST_16_BITS } },
    { "sharp-accurate",
      "sharp-accurate",
      LAW_ACCURATE,
      4.0,
      0.0,
      { { 1.2e-6, 8e-6, 2.8e-4 }, FAST_16_BITS } },
    { "hard-accurate",
      "hard-accurate",
      LAW_ACCURATE,
      MS_HARD,
      0.0,
      { { 1.2e-6, 8e-6, 2.8e-4 }, FAST_16_BITS } },
    { "muon", "ns5", LAW_MUON, 0.0, 0.0, { { 1e-4, 1e-4, 1e-4 } } },
};

typedef struct worst { /* the worst results of a path over the matrices */
    char   matrix[48], plan[32];
    double error, bound; /* of the matrix with the largest error / bound */
    double relative;     /* the largest |result - exact|_F / |exact|_F */
    double theorem;      /* `fast`: the largest deviation of a gain / its bound */
    int    count;
} worst;

typedef struct test_matrix { /* a matrix, its SVD and workspace */
    const char *name;
    ms_mat      x, out;             /* float32 */
    ms_mat      u, vt, s;           /* float64: its SVD */
    ms_mat      scaled, diff, want; /* workspace: like vt, and two like x */
    double     *values;             /* (k) singular values */
    double     *map;                /* (k) their exact images under an operator */
    int64_t     k;
    double      threshold, tol;
    double      alpha, fro; /* |A|_F and |M|_F */
} test_matrix;

/* ---- maps ------------------------------------------------------------------------------------ */

static double soft(double s, double threshold) { return threshold * s / hypot(s, threshold); }

static double phi(double u)
{
    for (int i = 0; i < STEPS; i++)
        u *= 0.5 * (3.0 - u * u);
    return u;
}

static double quintic(double x)
{
    for (int i = 0; i < STEPS; i++)
        x *= 3.4445 + x * x * (-4.7750 + x * x * 2.0315);
    return x;
}

/* What the clip of a sharpness multiplies the soft one by, zeta = D^2 / (s^2 + D^2). */
static double bend(double sharpness, double zeta)
{
    const double larger = fmax(zeta, 1.0 - zeta), ratio = (1.0 - larger) / larger;
    if (sharpness == MS_SOFT) return 1.0;
    if (sharpness == MS_HARD) return 1.0 / sqrt(larger);
    return pow(1.0 + pow(ratio, 0.5 * sharpness), -1.0 / sharpness) / sqrt(larger);
}

/* The same by a chain. */
static double chain_value(const ms_sharp_chain *chain, double zeta)
{
    double before = 0.0, y = 1.0 - 2.0 * zeta;
    for (int k = 0; k < chain->n; k++) {
        const ms_sharp_step *step = &chain->step[k];
        const double         next = step->square * y * y + step->source * before + step->diag;
        before                    = y;
        y                         = next;
    }
    return y;
}

/* The chain that `fast` took: the plan before it has seven products. */
static const ms_sharp_chain *find_chain(double sharpness, const musec_clip_report *report)
{
    const ms_sharp_chain *chain;
    for (size_t i = 0; (chain = ms_sharp_chain_at(i)) != NULL; i++)
        if (chain->sharpness == sharpness && report->products == 7 + ms_sharp_products(chain))
            return chain;
    return NULL;
}

/* u of a singular value with the paper's alpha. */
static double paper_u(const test_matrix *m, double s)
{
    return hypot(s, m->threshold) / sqrt(m->alpha);
}

/* Finds the plan that `fast` used; false: the operator promises its law. */
static bool find_plan(const struct path *p, const musec_clip_report *report, ms_poly_plan *plan)
{
    if (p->law != LAW_FAST || report->products == 0) return false; /* 0: one row or column */
    for (int i = 0; i < MS_FAST_PLANS; i++) {
        ms_poly_plan_fast(i, plan);
        const size_t n = strlen(plan->name);
        if (strncmp(report->path, plan->name, n) == 0 &&
            (report->path[n] == '\0' || report->path[n] == ' '))
            return true;
    }
    return false;
}

/* The image of s under a clip by products: c is the gain of the soft stage, chain NULL the law. */
static double clip_value(const struct path *p, double s, double D, double c,
                         const ms_sharp_chain *chain)
{
    const double zeta = pow(c * D / hypot(s, D), 2.0);
    return soft(s, D) * c * (chain != NULL ? chain_value(chain, zeta) : bend(p->sharpness, zeta));
}

/* Fills m->map; returns the bound on the error, and the tol of the plan of `fast`. */
static double make_map(const struct path *p, test_matrix *m, int type,
                       const musec_clip_report *report, double *tol)
{
    const double D = m->threshold, ratio = m->values[0] / D;
    const bool   narrow   = ms_is_16bit(operands[type]);
    const double rounding = 2.0 * p->rounding[type][ratio <= 1.0 ? 0 : ratio <= 10.0 ? 1 : 2];
    ms_poly_plan plan     = { .tol = m->tol };
    const bool   planned  = find_plan(p, report, &plan);
    const bool   reduced  = report->path[0] != '\0' && report->path[1] == '+';
    const bool   chained  = p->sharpness != MS_SOFT && p->law != LAW_MUON;
    const ms_sharp_chain *chain =
        chained && p->law == LAW_FAST ? find_chain(p->sharpness, report) : NULL;
    for (int64_t i = 0; i < m->k; i++) {
        const double s = m->values[i], u = hypot(s, D) / sqrt(report->alpha);
        if (p->law == LAW_MUON)
            m->map[i] = quintic(s / (m->fro + 1e-7));
        else if (p->law == LAW_PAPER)
            m->map[i] = soft(s, D) * phi(paper_u(m, s));
        else
            m->map[i] = clip_value(p, s, D, planned ? ms_poly_plan_gain(&plan, u) : 1.0, chain);
    }
    *tol                 = plan.tol;
    const double entries = ms_dtype_eps(operands[type]) * /* u is half of eps */
                           (1.0 / sqrt((double)m->x.rows) + 1.0 / sqrt((double)m->x.cols));
    if (p->law == LAW_MUON && narrow) return entries * MUON_GAIN;
    double bound = p->map + rounding;
    if (p->law == LAW_ACCURATE) bound += m->tol;
    if (reduced) bound += 1.2e-2 + 2.0 * entries * m->fro / D;
    if (p->law == LAW_ACCURATE && chained && narrow)
        bound += ms_sharp_chain_find(p->sharpness, 3e-2, 5e-3)->error;
    return bound;
}

/* ---- one path on one matrix ------------------------------------------------------------------ */

/* diff <- result - U diag(map) V^T, with its spectral norm and its relative Frobenius norm. */
static musec_status measure(ms_device *d, test_matrix *m, double *norm, double *relative)
{
    const ms_device_ops *op   = d->ops;
    const ms_mark        mark = ms_arena_mark(&d->scratch);
    double               sums[2];
    ms_vec               sum[2];
    musec_status         st;
    TRY(op->upload(d, m->map, (size_t)m->k * sizeof *m->map, m->s.data));
    TRY(op->copy(d, m->vt, m->scaled));
    TRY(op->scale_rows(d, m->s, m->scaled));
    TRY(op->gemm(d, 1.0, m->u, m->scaled, 0.0, m->want));
    TRY(op->copy(d, m->out, m->diff));
    TRY(op->axpby(d, ms_const(-1.0), m->want, ms_const(1.0), m->diff));
    for (int i = 0; i < 2; i++) {
        TRY(ms_scratch_vec(d, 1, &sum[i]));
        TRY(op->sumsq(d, i == 0 ? m->diff : m->want, sum[i]));
        TRY(ms_vec_download(d, sum[i], &sums[i]));
    }
    *relative = sqrt(sums[0] / sums[1]);
    TRY(ms_norm2_lanczos(d, m->diff, LANCZOS_STEPS, 1, norm));
done:
    ms_arena_reset(&d->scratch, mark);
    return st;
}

/* It is one about the soft clip by `fast`. */
static bool has_theorem(const struct path *p)
{
    return p->law == LAW_FAST && p->sharpness == MS_SOFT;
}

/* The largest deviation of a gain, divided by what the theorem allows. */
static musec_status check_theorem(ms_device *d, const test_matrix *m, double tol, double rounding,
                                  double *share)
{
    const ms_mark mark = ms_arena_mark(&d->scratch);
    double       *host = malloc((size_t)(m->k * m->k) * sizeof *host);
    ms_mat        inner;
    musec_status  st = MUSEC_OK;
    *share           = 0.0;
    if (host == NULL) TRY(ms_fail(&d->error, MUSEC_ENOMEM, "not enough memory"));
    TRY(ms_scratch_mat(d, MUSEC_F64, 1, m->k, m->k, &inner));
    TRY(d->ops->gemm(d, 1.0, ms_t(m->u), m->diff, 0.0, m->scaled));
    TRY(d->ops->gemm(d, 1.0, m->scaled, ms_t(m->vt), 0.0, inner));
    TRY(d->ops->download(d, inner.data, (size_t)(m->k * m->k) * sizeof *host, host));
    for (int64_t i = 0; i < m->k; i++) {
        const double h = soft(m->values[i], m->threshold);
        const double c = m->map[i] + host[i * inner.ld + i];
        const double allowed =
            h * fmax(1.0 - phi(paper_u(m, m->values[i])), tol) + rounding * m->threshold;
        if (!(fabs(c - h) / allowed <= *share)) *share = fabs(c - h) / allowed;
    }
done:
    free(host);
    ms_arena_reset(&d->scratch, mark);
    return st;
}

static musec_status try_path(ms_device *d, const struct path *p, int type, test_matrix *m, worst *w)
{
    const musec_view  in  = musec_view_dense(m->x.data, m->x.dtype, 1, m->x.rows, m->x.cols);
    const musec_view  out = musec_view_dense(m->out.data, m->x.dtype, 1, m->x.rows, m->x.cols);
    musec_clip_config cfg;
    musec_clip_report report;
    double            error = 0.0, relative = 0.0, tol = 0.0, share = 0.0;
    musec_status      st;
    TRY(musec_clip_config_init(&cfg, sizeof cfg, p->op));
    cfg.threshold = m->threshold;
    cfg.sharpness = p->sharpness;
    cfg.tol       = m->tol;
    cfg.iters     = STEPS;
    cfg.operands  = operands[type] == MUSEC_F32 ? 0 : (int)operands[type];
    TRY(musec_clip(d, &cfg, in, out, &report));
    const double bound = make_map(p, m, type, &report, &tol);
    TRY(measure(d, m, &error, &relative));
    if (p->law != LAW_MUON) error /= m->threshold;
    if (has_theorem(p)) TRY(check_theorem(d, m, tol, bound, &share));
    if (w->count++ == 0 || !(error / bound <= w->error / w->bound)) {
        snprintf(w->matrix, sizeof w->matrix, "%s", m->name);
        memcpy(w->plan, report.path, sizeof w->plan);
        w->error = error;
        w->bound = bound;
    }
    if (!(relative <= w->relative)) w->relative = relative;
    if (!(share <= w->theorem)) w->theorem = share;
done:
    return st;
}

/* ---- matrices -------------------------------------------------------------------------------- */

/* Whether two names are the same part of layers: "layer.3.attn.q" and "layer.4.attn.q". */
static bool is_same_part(const char *a, const char *b)
{
    static const char *const digits = "0123456789";
    for (;;) {
        a += strspn(a, digits);
        b += strspn(b, digits);
        if (*a != *b) return false;
        if (*a++ == '\0') return true;
        b++;
    }
}

/* Chooses the first, the middle and the last layer of each part. */
static bool is_chosen(const ms_run_matrices *all, int64_t matrix)
{
    int64_t before = 0, total = 0;
    for (int64_t i = 0; i < all->n; i++)
        if (is_same_part(all->list[i].name, all->list[matrix].name)) {
            before += i < matrix;
            total++;
        }
    return before == 0 || before == (total - 1) / 2 || before == total - 1;
}

/* Sets D, by the optimizer's rule, and tol. */
static musec_status set_threshold(ms_bench *b, const ms_run_matrices *all, test_matrix *m)
{
    musec_optim_config cfg;
    const ms_stacks    x   = ms_stack(ms_unscaled(m->x), m->out);
    musec_optim       *opt = NULL;
    ms_num             d;
    musec_status       st;
    TRY(musec_optim_config_init(&cfg, sizeof cfg, "soft-musec"));
    TRY(musec_optim_config_set(&cfg, "threshold", all->train != NULL ? all->threshold : "0.25"));
    if (all->train != NULL) cfg.beta = all->beta;
    TRY(musec_optim_create(&opt, b->d, &cfg));
    TRY(ms_threshold(opt, &x, NULL, &d));
    m->threshold = d.value;
    m->tol       = ms_optim_tol(&cfg);
    if (d.each.data != NULL) TRY(ms_vec_download(b->d, d.each, &m->threshold));
done:
    musec_optim_destroy(opt);
    return st;
}

static musec_status make_matrix(ms_bench *b, const ms_run_matrices *all, int64_t i, test_matrix *m)
{
    const musec_view w    = all->list[i].weight;
    const int64_t    rows = w.rows, cols = w.cols, k = rows < cols ? rows : cols;
    musec_status     st;
    *m = (test_matrix){ .name = all->list[i].name, .k = k };
    TRY(ms_scratch_mat(b->d, MUSEC_F32, 1, rows, cols, &m->x));
    TRY(ms_scratch_mat(b->d, MUSEC_F32, 1, rows, cols, &m->out));
    TRY(ms_scratch_mat(b->d, MUSEC_F64, 1, rows, k, &m->u));
    TRY(ms_scratch_mat(b->d, MUSEC_F64, 1, 1, k, &m->s));
    TRY(ms_scratch_mat(b->d, MUSEC_F64, 1, k, cols, &m->vt));
    TRY(ms_scratch_mat(b->d, MUSEC_F64, 1, k, cols, &m->scaled));
    TRY(ms_scratch_mat(b->d, MUSEC_F64, 1, rows, cols, &m->diff));
    TRY(ms_scratch_mat(b->d, MUSEC_F64, 1, rows, cols, &m->want));
    m->values = calloc((size_t)k, sizeof *m->values);
    m->map    = calloc((size_t)k, sizeof *m->map);
    if (m->values == NULL || m->map == NULL)
        TRY(ms_fail(&b->d->error, MUSEC_ENOMEM, "not enough memory"));
    TRY(ms_run_proposal(b->d, all, i, m->x));
    TRY(set_threshold(b, all, m));
    TRY(b->d->ops->copy(b->d, m->x, m->want));
    TRY(b->d->ops->svd(b->d, m->want, m->u, m->s, m->vt));
    TRY(b->d->ops->download(b->d, m->s.data, (size_t)k * sizeof *m->values, m->values));
    for (int64_t j = 0; j < k; j++) {
        m->alpha = hypot(m->alpha, pow(hypot(m->values[j], m->threshold), 2.0));
        m->fro   = hypot(m->fro, m->values[j]);
    }
done:
    return st;
}

static musec_status try_matrix(ms_bench *b, const ms_run_matrices *all, int64_t i,
                               worst (*w)[OPERANDS])
{
    const ms_mark mark = ms_arena_mark(&b->d->scratch);
    test_matrix   m    = { 0 };
    musec_status  st;
    ms_log_progress(b->log, "%s", all->list[i].name);
    TRY(make_matrix(b, all, i, &m));
    for (size_t p = 0; p < COUNT(paths) && m.values[0] > 0.0; p++)
        for (int t = 0; t < OPERANDS; t++)
            if (ms_device_has(b->d, operands[t]) &&
                ms_bench_wanted(b, "accuracy", paths[p].name, ms_dtype_name(operands[t])))
                TRY(try_path(b->d, &paths[p], t, &m, &w[p][t]));
done:
    free(m.values);
    free(m.map);
    ms_arena_reset(&b->d->scratch, mark);
    return st;
}

/* ---- output ---------------------------------------------------------------------------------- */

static void put_worst(ms_bench *b, const struct path *p, const char *type, const worst *w)
{
    const bool broken = !(w->error <= w->bound) || !(w->theorem <= 1.0);
    b->broken += broken;
    if (b->opt->json) {
        ms_json_append(&b->rows,
                       json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:s, s:s, s:i, s:b}",
                                 "section", "accuracy", "name", p->name, "operands", type, "error",
                                 w->error, "bound", w->bound, "relative", w->relative, "theorem",
                                 w->theorem, "matrix", w->matrix, "plan", w->plan, "matrices",
                                 w->count, "broken", broken));
        return;
    }
    fprintf(b->out, "  %-14s %-5s %9.2e of %8.1e %9.2e", p->name, type, w->error, w->bound,
            w->relative);
    if (has_theorem(p))
        fprintf(b->out, " %8.3f", w->theorem);
    else
        fprintf(b->out, " %8s", "");
    fprintf(b->out, "  %s, %s%s\n", w->matrix, w->plan, broken ? "  BROKEN" : "");
}

static musec_status run_all(ms_bench *b)
{
    const ms_mark   mark                      = ms_arena_mark(&b->d->scratch);
    worst           w[COUNT(paths)][OPERANDS] = { 0 };
    ms_run_matrices all                       = { 0 };
    char            shape[64];
    int             n = 0;
    musec_status    st;

    TRY(ms_bench_matrices(b, &all, shape, sizeof shape));
    for (int64_t i = 0; i < all.n; i++)
        if (b->opt->all || is_chosen(&all, i)) {
            TRY(try_matrix(b, &all, i, w));
            n++;
        }
    if (!b->opt->json) {
        fprintf(b->out, "%s, threshold %s: %d of %lld matrices\n", shape,
                all.train != NULL ? all.threshold : "0.25", n, (long long)all.n);
        fprintf(b->out, "  %-20s %-21s %9s %8s  %s\n", "", "|error|_2 / D", "relative", "theorem",
                "at");
    }
    for (size_t p = 0; p < COUNT(paths); p++)
        for (int t = 0; t < OPERANDS; t++)
            if (w[p][t].count > 0) put_worst(b, &paths[p], ms_dtype_name(operands[t]), &w[p][t]);
done:
    ms_run_matrices_close(&all);
    ms_arena_reset(&b->d->scratch, mark);
    return st;
}

musec_status ms_bench_accuracy(const ms_bench_options *opt, ms_log *log, FILE *out, ms_error *error)
{
    return ms_bench_run(opt, log, out, run_all, error);
}
