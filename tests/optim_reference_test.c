/* optim_reference_test.c - every optimizer against trajectories that plain NumPy computed.
 *
 * data/optim_reference.txt lists the cases and their options as the command line spells them, and
 * data/optim_reference.mgv holds their numbers; both are written by reference/optim_reference.py,
 * which says what is in them and by which formulas.  Each case is replayed through the public API
 * on every device, with weights and gradients in padded memory, and every weight on the way and
 * the state at the end are compared.
 *
 * Float64 is held to 1e-12, relative and in Frobenius norm, and to 1e-10 where singular values may
 * be found through a Gram matrix.  In ns-mode accurate, whose numbers are those of the exact clip,
 * ns-tol / beta comes on top: each step errs by ns-tol at most, and a clip takes no two matrices
 * further apart.  Float32 starts from the same numbers, which it holds exactly; its bound of 1e-4
 * is the rounding 6e-8 times what the maps may amplify it by: at most 990, the slope at 0 of five
 * Polar Express steps, and for an exact polar factor the inverse of the smallest singular value,
 * which the script keeps above a thousandth of the largest. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clip_run.h"
#include "mgv.h"
#include "oracle.h"

#define STEPS   8
#define PADDING (-3.5) /* around weights, which must stay */
#define LINE    512

static const run_layout padded = { .pad = 3 }; /* gradients with NaN, which nobody may read */

typedef struct ref_case { /* a line of the list */
    char   name[33], optimizer[16], shape[8];
    double lr_factor;
    char   options[LINE]; /* "key=value key=value ..." */
} ref_case;

typedef struct replay {
    ms_device   *dev;
    musec_dtype  dtype;
    mgv_file     f;
    musec_optim *opt;
    double       bound;  /* of the case at hand */
    int          failed; /* comparisons */
} replay;

/* ---- the list of cases ----------------------------------------------------------------------- */

static bool parse_case(const char *line, ref_case *c)
{
    int   at = 0;
    char *rest;
    *c = (ref_case){ 0 };
    if (sscanf(line, "%32s %15s %7s %n", c->name, c->optimizer, c->shape, &at) != 3) return false;
    c->lr_factor = strtod(line + at, &rest);
    if (rest == line + at || *rest != ' ') return false;
    snprintf(c->options, sizeof c->options, "%.*s", (int)strcspn(rest + 1, "\n"), rest + 1);
    return true;
}

static bool has_option(const ref_case *c, const char *option)
{
    const char  *found = strstr(c->options, option);
    const size_t n     = strlen(option);
    return found != NULL && (found == c->options || found[-1] == ' ') &&
           (found[n] == '\0' || found[n] == ' ');
}

/* Sets all options but the role, which is the parameter's. */
static void configure(const ref_case *c, musec_optim_config *cfg)
{
    char         text[LINE];
    musec_status st = musec_optim_config_init(cfg, sizeof *cfg, c->optimizer);
    CHECK(st == MUSEC_OK, "%s: no optimizer %s", c->name, c->optimizer);
    cfg->operands = MUSEC_F32; /* bounds are for that */
    snprintf(text, sizeof text, "%s", c->options);
    for (char *key = text, *next; key != NULL && *key != '\0'; key = next) {
        char *value = strchr(key, '=');
        next        = strchr(key, ' ');
        if (next != NULL) *next++ = '\0';
        CHECK(value != NULL, "%s: %s", c->name, key);
        *value++ = '\0';
        if (strcmp(key, "role") == 0) continue;
        st = musec_optim_config_set(cfg, key, value);
        CHECK(st == MUSEC_OK, "%s: %s = %s: %s", c->name, key, value, musec_status_name(st));
    }
}

static double option_of(const ref_case *c, const char *key) /* 0: it is not there */
{
    const char *found = strstr(c->options, key);
    return found == NULL ? 0.0 : strtod(found + strlen(key), NULL);
}

static double bound_of(const ref_case *c, musec_dtype dtype)
{
    const bool hard = has_option(c, "clip=hard") || has_option(c, "function=hard") ||
                      strcmp(c->optimizer, "musec") == 0 || strcmp(c->optimizer, "mucon") == 0;
    const bool   exact = has_option(c, "ns-mode=exact") || (hard && !has_option(c, "ns-mode=fast"));
    const bool   accurate = has_option(c, "ns-mode=accurate");
    const double more     = accurate ? option_of(c, "ns-tol=") / option_of(c, "beta=") : 0.0;
    if (dtype == MUSEC_F32) return 1e-4 + more;
    return (exact ? 1e-10 : 1e-12) + more;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static const mgv_record *find(replay *r, const char *of, const char *what)
{
    char name[80];
    snprintf(name, sizeof name, "%s.%s", of, what);
    return mgv_find(&r->f, name);
}

/* Says what differs and goes on: the whole list shows which option it is that is wrong. */
static void check_close(replay *r, const double *got, const double *want, int64_t n,
                        const char *name, const char *what, int step)
{
    const double err = oracle_rel_err(got, MUSEC_F64, want, n);
    if (err <= r->bound) return;
    print_error("%s, %s: %s after step %d: relative error %g, bound %g\n", name,
                r->dtype == MUSEC_F64 ? "f64" : "f32", what, step, err, r->bound);
    r->failed++;
}

/* The state of one matrix, as float64; that of its rows or columns is of that dtype. */
static double *get_state(replay *r, size_t param, int64_t block, const char *state, int64_t n,
                         musec_dtype dtype)
{
    const size_t bytes  = (size_t)n * ms_dtype_bytes(dtype);
    void        *stored = check_alloc(bytes);
    CHECK_OK(r->dev, musec_optim_get_state(r->opt, param, block, state, stored, bytes));
    double *out = oracle_loaded(stored, n, dtype);
    free(stored);
    return out;
}

/* Every record "name.X" but the weights is a state. */
static void check_states(replay *r, const char *name, int64_t n)
{
    static const char *const states[] = { "momentum", "m",     "v",         "slow",      "second",
                                          "left",     "right", "left-root", "right-root" };
    for (size_t i = 0; i < COUNT(states); i++) {
        char title[80];
        snprintf(title, sizeof title, "%s.%s", name, states[i]);
        for (size_t k = 0; k < r->f.n_records; k++) {
            if (strcmp(r->f.records[k].name, title) != 0) continue;
            const mgv_record *want    = mgv_find(&r->f, title);
            const int64_t     has     = want->rows * want->cols;
            const bool        by_rows = strcmp(states[i], "second") == 0 && has != n;
            double *got = get_state(r, 0, 0, states[i], has, by_rows ? MUSEC_F64 : r->dtype);
            check_close(r, got, want->data, has, name, states[i], STEPS);
            free(got);
        }
    }
}

/* ---- one weight ------------------------------------------------------------------------------ */

static run_stack weight_of(const replay *r, const double *dense, int64_t rows, int64_t cols)
{
    return run_stack_make(r->dev, r->dtype, rows, cols, padded, dense, PADDING);
}

static void replay_one(replay *r, const ref_case *c, const musec_optim_config *cfg)
{
    const mgv_record *w0 = find(r, c->shape, "W0"), *g = find(r, c->shape, "G");
    const mgv_record *want = find(r, c->name, "W"), *scale = mgv_find(&r->f, "lr_scale");
    const int64_t     n     = w0->rows * w0->cols;
    run_stack         w     = weight_of(r, w0->data, w0->rows, w0->cols);
    musec_param       param = {
              .name = "w", .role = MUSEC_ROLE_MATRIX, .weight = w.view, .lr_factor = c->lr_factor
    };

    CHECK(g->rows == STEPS * w0->rows && want->rows == g->rows && scale->cols == STEPS, "%s",
          c->name);
    if (has_option(c, "role=embed")) param.role = MUSEC_ROLE_EMBED;
    CHECK_OK(r->dev, musec_optim_create(&r->opt, r->dev, cfg));
    CHECK_OK(r->dev, musec_optim_add(r->opt, &param, NULL));
    for (int t = 0; t < STEPS; t++) {
        run_stack gradient =
            run_stack_make(r->dev, r->dtype, w0->rows, w0->cols, padded, g->data + t * n, NAN);
        CHECK_OK(r->dev, musec_optim_step(r->opt, &gradient.view, 1, scale->data[t]));
        double *got = run_stack_read(r->dev, &w, PADDING);
        check_close(r, got, want->data + t * n, n, c->name, "W", t + 1);
        free(got);
        run_stack_free(r->dev, &gradient);
    }
    CHECK(musec_optim_steps(r->opt) == STEPS, "%s: steps", c->name);
    check_states(r, c->name, n);
    musec_optim_destroy(r->opt);
    run_stack_free(r->dev, &w);
}

/* ---- QK-Clip --------------------------------------------------------------------------------- */

static const struct qk_case {
    const char     *name;
    int64_t         rows_q, rows_k;
    int64_t         fused; /* rows of each head's q, then of its k, in one weight; 0: two weights */
    musec_attention attention;
} qk_cases[] = {
    { "mha",
      6,
      6,
      2,
      { .heads = 3, .kv_heads = 3, .q_step = 4, .k_row = 2, .k_step = 4, .head_rows = 2 } },
    { "gqa", 12, 6, 0, { .heads = 4, .kv_heads = 2, .q_step = 3, .k_step = 3, .head_rows = 3 } },
    { "mla",
      10,
      10,
      0,
      { .heads       = 2,
        .kv_heads    = 2,
        .q_step      = 5,
        .k_step      = 5,
        .head_rows   = 5,
        .k_head_rows = 3,
        .rot_rows    = 2 } },
};

typedef struct qk_run { /* the records hold q over k */
    const struct qk_case *c;
    int64_t               cols;
    size_t                n; /* weights: 1 or 2 */
    run_stack             w[2];
} qk_run;

/* Row i of q over k as a row of the fused weight. */
static int64_t fused_row(const struct qk_case *c, int64_t i)
{
    const int64_t in_k = i >= c->rows_q, j = in_k ? i - c->rows_q : i;
    return j / c->fused * 2 * c->fused + in_k * c->fused + j % c->fused;
}

/* Between q over k and the order of the fused weight, into out. */
static void reorder(const qk_run *q, const double *in, double *out, bool to_weight)
{
    const int64_t rows = q->c->rows_q + q->c->rows_k;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t at = q->c->fused > 0 ? fused_row(q->c, i) : i;
        memcpy(out + (to_weight ? at : i) * q->cols, in + (to_weight ? i : at) * q->cols,
               (size_t)q->cols * sizeof *out);
    }
}

/* The weights, or gradients like them, of a matrix q over k. */
static void make_stacks(const replay *r, const qk_run *q, const double *dense, double padding,
                        run_stack *out)
{
    const int64_t rows    = q->c->rows_q + q->c->rows_k;
    double       *ordered = check_alloc((size_t)(rows * q->cols) * sizeof *ordered);
    reorder(q, dense, ordered, true);
    out[0] = run_stack_make(r->dev, r->dtype, q->n == 1 ? rows : q->c->rows_q, q->cols, padded,
                            ordered, padding);
    if (q->n == 2)
        out[1] = run_stack_make(r->dev, r->dtype, q->c->rows_k, q->cols, padded,
                                ordered + q->c->rows_q * q->cols, padding);
    free(ordered);
}

static size_t add_weights(const replay *r, const qk_run *q)
{
    const int64_t     ld = q->w[0].view.ld, head = q->c->fused;
    const musec_block blocks[2] = {
        { .rows       = q->c->rows_q,
          .cols       = q->cols,
          .row_step   = ld,
          .group_rows = head,
          .group_step = 2 * head * ld },
        { .offset     = head * ld,
          .rows       = q->c->rows_k,
          .cols       = q->cols,
          .row_step   = ld,
          .group_rows = head,
          .group_step = 2 * head * ld },
    };
    musec_attention attention = q->c->attention;
    size_t          index     = 99;
    for (size_t i = 0; i < q->n; i++) {
        const musec_param param = { .name     = i == 0 ? "q" : "k",
                                    .role     = MUSEC_ROLE_QK,
                                    .weight   = q->w[i].view,
                                    .blocks   = head > 0 ? blocks : NULL,
                                    .n_blocks = head > 0 ? 2 : 0 };
        CHECK_OK(r->dev, musec_optim_add(r->opt, &param, i == 0 ? &attention.q : &attention.k));
    }
    if (q->n == 1) attention.k = attention.q;
    CHECK_OK(r->dev, musec_optim_add_attention(r->opt, &attention, &index));
    return index;
}

static void check_qk_weights(replay *r, const qk_run *q, const double *want, int step)
{
    const int64_t n   = (q->c->rows_q + q->c->rows_k) * q->cols;
    double       *all = check_alloc((size_t)n * sizeof *all),
           *sorted    = check_alloc((size_t)n * sizeof *sorted);
    for (size_t i = 0; i < q->n; i++) {
        double *one = run_stack_read(r->dev, &q->w[i], PADDING);
        memcpy(all + (i == 0 ? 0 : q->c->rows_q * q->cols), one,
               (size_t)(q->w[i].view.rows * q->cols) * sizeof *one);
        free(one);
    }
    reorder(q, all, sorted, false);
    check_close(r, sorted, want, n, q->c->name, "W", step);
    free(all), free(sorted);
}

static void check_qk_momentum(replay *r, const qk_run *q, const double *want)
{
    for (int64_t i = 0; i < 2; i++) {
        const int64_t n   = (i == 0 ? q->c->rows_q : q->c->rows_k) * q->cols;
        double       *got = q->n == 1 ? get_state(r, 0, i, "momentum", n, r->dtype)
                                      : get_state(r, (size_t)i, 0, "momentum", n, r->dtype);
        check_close(r, got, want + i * q->c->rows_q * q->cols, n, q->c->name, "momentum", STEPS);
        free(got);
    }
}

static void replay_qk(replay *r, const struct qk_case *c, const musec_optim_config *cfg)
{
    const mgv_record *w0 = find(r, c->name, "W0"), *g = find(r, c->name, "G");
    const mgv_record *want = find(r, c->name, "W"), *logits = find(r, c->name, "logits");
    const int64_t     n = w0->rows * w0->cols;
    qk_run            q = { .c = c, .cols = w0->cols, .n = c->fused > 0 ? 1 : 2 };

    CHECK(w0->rows == c->rows_q + c->rows_k && logits->cols == c->attention.heads, "%s", c->name);
    make_stacks(r, &q, w0->data, PADDING, q.w);
    CHECK_OK(r->dev, musec_optim_create(&r->opt, r->dev, cfg));
    const size_t attention = add_weights(r, &q);
    for (int t = 0; t < STEPS; t++) {
        const double *max_logit = logits->data + t * logits->cols;
        run_stack     grads[2]  = { 0 };
        make_stacks(r, &q, g->data + t * n, NAN, grads);
        if (!isnan(max_logit[0]))
            CHECK_OK(r->dev, musec_optim_set_logits(r->opt, attention, max_logit, logits->cols));
        CHECK_OK(r->dev, musec_optim_step(r->opt, (musec_view[]){ grads[0].view, grads[1].view },
                                          q.n, mgv_find(&r->f, "lr_scale")->data[t]));
        check_qk_weights(r, &q, want->data + t * n, t + 1);
        for (size_t i = 0; i < q.n; i++)
            run_stack_free(r->dev, &grads[i]);
    }
    check_qk_momentum(r, &q, find(r, c->name, "momentum")->data);
    musec_optim_destroy(r->opt);
    for (size_t i = 0; i < q.n; i++)
        run_stack_free(r->dev, &q.w[i]);
}

/* ---- all cases ------------------------------------------------------------------------------- */

static const struct qk_case *find_qk(const char *name)
{
    for (size_t i = 0; i < COUNT(qk_cases); i++)
        if (strcmp(qk_cases[i].name, name) == 0) return &qk_cases[i];
    check_failed(__FILE__, __LINE__, "find_qk", "there is no case %s here", name);
}

static void replay_all(ms_device *dev, musec_dtype dtype)
{
    char   path[512], line[LINE];
    size_t cases = 0;
    replay r     = { .dev = dev, .dtype = dtype };

    snprintf(path, sizeof path, "%s/optim_reference.mgv", check_data_dir());
    r.f = mgv_load(path);
    snprintf(path, sizeof path, "%s/optim_reference.txt", check_data_dir());
    FILE *list = fopen(path, "r");
    CHECK(list != NULL, "%s cannot be opened", path);
    while (fgets(line, sizeof line, list) != NULL) {
        ref_case           c;
        musec_optim_config cfg;
        CHECK(parse_case(line, &c), "%s: %s", path, line);
        configure(&c, &cfg);
        r.bound = bound_of(&c, dtype);
        if (strcmp(c.shape, "qk") == 0)
            replay_qk(&r, find_qk(c.name), &cfg);
        else
            replay_one(&r, &c, &cfg);
        cases++;
    }
    fclose(list);
    CHECK(cases > 0, "%s is empty", path);
    for (size_t i = 0; i < r.f.n_records; i++)
        CHECK(r.f.records[i].used, "nobody looked at %s", r.f.records[i].name);
    mgv_free(&r.f);
    CHECK(r.failed == 0, "%d comparisons failed", r.failed);
}

TEST_EACH_DEVICE(trajectories_agree_in_float64, dev) { replay_all(dev, MUSEC_F64); }
TEST_EACH_DEVICE(trajectories_agree_in_float32, dev) { replay_all(dev, MUSEC_F32); }
