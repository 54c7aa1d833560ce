/* optim_blocks_test.c - a block of a fused weight is updated bit for bit like the same matrix that
 * is a parameter of its own, and batching matrices changes no bits. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "optim_rig.h"
#include "oracle.h"

enum { MATRICES = 4, STEPS = 3 };

/* Where element (index, i, j) of a block lies, by the definition in musec.h. */
static int64_t place(const musec_block *b, int64_t index, int64_t i, int64_t j)
{
    const int64_t in_group = b->group_rows > 0 ? b->group_rows : b->rows;
    return b->offset + index * b->stride + i / in_group * b->group_step +
           i % in_group * b->row_step + j;
}

typedef struct fused_case {
    const char *what;
    rig_param   whole;
    musec_block blocks[MATRICES];
    int64_t     n_blocks;
} fused_case;

static const fused_case fused[] = {
    { "q, k, v one below the other",
      { .name = "w", .rows = 18, .cols = 8 },
      { { .offset = 0, .rows = 6, .cols = 8, .row_step = 8 },
        { .offset = 48, .rows = 6, .cols = 8, .row_step = 8 },
        { .offset = 96, .rows = 6, .cols = 8, .row_step = 8 } },
      3 },
    { "grouped queries: more rows of q",
      { .name = "w", .rows = 16, .cols = 8 },
      { { .offset = 0, .rows = 8, .cols = 8, .row_step = 8 },
        { .offset = 64, .rows = 4, .cols = 8, .row_step = 8 },
        { .offset = 96, .rows = 4, .cols = 8, .row_step = 8 } },
      3 },
    { "rows that alternate: two of q, one of k, one of v",
      { .name = "w", .rows = 12, .cols = 7, .layout = { .pad = 2 } },
      { { .offset = 0, .rows = 6, .cols = 7, .row_step = 9, .group_rows = 2, .group_step = 36 },
        { .offset = 18, .rows = 3, .cols = 7, .row_step = 9, .group_rows = 1, .group_step = 36 },
        { .offset = 27, .rows = 3, .cols = 7, .row_step = 9, .group_rows = 1, .group_step = 36 } },
      3 },
    { "columns, unequal",
      { .name = "w", .rows = 6, .cols = 15, .layout = { .pad = 1 } },
      { { .offset = 0, .rows = 6, .cols = 8, .row_step = 16 },
        { .offset = 8, .rows = 6, .cols = 4, .row_step = 16 },
        { .offset = 12, .rows = 6, .cols = 3, .row_step = 16 } },
      3 },
    { "heads as a batch, by rows",
      { .name = "w", .rows = 16, .cols = 10 },
      { { .rows = 4, .cols = 10, .row_step = 10, .count = 4, .stride = 40 } },
      1 },
    { "heads as a batch, by columns",
      { .name = "w", .rows = 10, .cols = 16 },
      { { .rows = 10, .cols = 4, .row_step = 16, .count = 4, .stride = 4 } },
      1 },
    { "experts: a stack with gaps",
      { .name = "w", .rows = 5, .cols = 8, .layout = { .more = 3, .pad = 1, .gap = 4 } },
      { { .rows = 5, .cols = 8, .row_step = 9, .count = 4, .stride = 49 } },
      1 },
    { "a convolution, 4 x 3 x (2 x 2), flattened",
      { .name = "w", .rows = 3, .cols = 4, .layout = { .more = 3 } },
      { { .rows = 4, .cols = 12, .row_step = 12 } },
      1 },
};

static const struct {
    const char *name, *options;
} rules[] = {
    { "musec", "threshold=1 lr=0.1 beta=0.3 weight-decay=0.2" },
    { "soft-musec", "threshold=rms:0.8 update-scale=unit lr=0.1 shape-rule=keller" },
    { "soft-musec", "threshold=0.7 ns-mode=fast nesterov=yes decay-form=cautious weight-decay=1" },
    { "muon", "lr=0.1 shape-rule=moonlight weight-decay=0.5 decay-form=cautious-lr2" },
    { "spectra", "base=ademamix threshold=1 weight-decay=0.4 decay-form=coupled" },
    { "adamw", "lr=0.1 weight-decay=0.1" },
};

/* Cautious decay depends on the sign of each entry of the update.  Where the bits depend on the
 * batch, an entry near 0 may have either sign, and then the weight differs by its whole decay. */
static musec_optim_config config_of(const musec_ctx *dev, size_t rule)
{
    musec_optim_config cfg = rig_config(rules[rule].name, rules[rule].options);
    const bool         asks =
        cfg.decay_form == MUSEC_DECAY_CAUTIOUS || cfg.decay_form == MUSEC_DECAY_CAUTIOUS_LR2;
    if (dev->kind->batch_variant && asks) cfg.decay_form = MUSEC_DECAY_DECOUPLED;
    return cfg;
}

/* Copies matrix `index` of the block out of memory with the layout of the weight. */
static void cut(const double *all, const musec_block *b, int64_t index, double *out)
{
    for (int64_t i = 0; i < b->rows; i++)
        for (int64_t j = 0; j < b->cols; j++)
            out[i * b->cols + j] = all[place(b, index, i, j)];
}

/* The dense stack in the layout of `s`, with zeros as padding; malloc'ed. */
static double *laid_out(const run_stack *s, const double *dense)
{
    const musec_view *v   = &s->view;
    double           *all = check_alloc((size_t)s->n * sizeof *all);
    for (int64_t e = 0; e < v->count * v->rows * v->cols; e++)
        all[e / (v->rows * v->cols) * v->stride + e / v->cols % v->rows * v->ld + e % v->cols] =
            dense[e];
    return all;
}

typedef struct pieces { /* each matrix of each block as a parameter of its own */
    rig     r;
    int64_t block[RIG_MAX], index[RIG_MAX];
} pieces;

static pieces make_pieces(ms_device *dev, const fused_case *c, const musec_optim_config *cfg,
                          musec_dtype dtype, uint64_t seed)
{
    static const char *const names[] = { "a", "b", "c", "d" };
    rig_param                params[MATRICES];
    pieces                   out = { .r = { 0 } };
    size_t                   n   = 0;
    for (int64_t b = 0; b < c->n_blocks; b++)
        for (int64_t k = 0; k < (c->blocks[b].count > 0 ? c->blocks[b].count : 1); k++, n++) {
            CHECK(n < MATRICES, "%s", c->what);
            params[n]    = (rig_param){ .name = names[n],
                                        .rows = c->blocks[b].rows,
                                        .cols = c->blocks[b].cols };
            out.block[n] = b;
            out.index[n] = k;
        }
    out.r = rig_make_with(dev, cfg, dtype, params, n, seed);
    return out;
}

static void check_pieces(pieces *p, rig *whole, const fused_case *c, const char *rule)
{
    double *w = rig_weight(whole, 0), *all = laid_out(&whole->w[0], w);
    for (size_t i = 0; i < p->r.n; i++) {
        const int64_t n = rig_elems(&p->r, i);
        double        want[256], *got = rig_weight(&p->r, i);
        CHECK(n <= (int64_t)COUNT(want), "%s", c->what);
        cut(all, &c->blocks[p->block[i]], p->index[i], want);
        CHECK(run_same_bits(got, want, n), "%s, %s: matrix %zu is apart by %g", c->what, rule, i,
              run_fro_diff(got, want, n));
        free(got);
    }
    free(w), free(all);
}

/* Gives each piece its part of `dense`, as its weight or its gradient. */
static void split(pieces *p, rig *whole, const fused_case *c, const double *dense,
                  void (*set)(rig *r, size_t p, const double *dense))
{
    double *all = laid_out(&whole->w[0], dense);
    for (size_t i = 0; i < p->r.n; i++) {
        double part[256];
        cut(all, &c->blocks[p->block[i]], p->index[i], part);
        set(&p->r, i, part);
    }
    free(all);
}

TEST_EACH_DEVICE(blocks_are_updated_like_separate_parameters, dev)
{
    for (size_t c = 0; c < COUNT(fused); c++) {
        for (size_t k = 0; k < COUNT(rules); k++) {
            const musec_dtype        dtype = (c + k) % 2 == 0 ? MUSEC_F32 : MUSEC_F64;
            const musec_optim_config cfg   = rig_config(rules[k].name, rules[k].options);
            rig_param                param = fused[c].whole;
            param.blocks                   = fused[c].blocks;
            param.n_blocks                 = fused[c].n_blocks;
            rig     whole                  = rig_make_with(dev, &cfg, dtype, &param, 1, c);
            pieces  p                      = make_pieces(dev, &fused[c], &cfg, dtype, c);
            double *start                  = rig_start(&whole, 0);
            split(&p, &whole, &fused[c], start, rig_set_weight);
            for (int step = 0; step < STEPS; step++) {
                double *g = rig_normal(&whole, 0, step);
                rig_set_grad(&whole, 0, g);
                split(&p, &whole, &fused[c], g, rig_set_grad);
                rig_go(&whole), rig_go(&p.r);
                free(g);
            }
            check_pieces(&p, &whole, &fused[c], rules[k].name);
            free(start);
            rig_free(&whole), rig_free(&p.r);
        }
    }
}

/* After the first step of an epoch the average is the weight that it began from. */
TEST_EACH_DEVICE(epoch_averages_are_read_by_block, dev)
{
    for (size_t c = 0; c < COUNT(fused); c++) {
        const musec_dtype        dtype = c % 2 == 0 ? MUSEC_F32 : MUSEC_F64;
        const musec_optim_config cfg   = rig_config("muon", "lr=0.1 avg-steps=5");
        rig_param                param = fused[c].whole;
        int64_t                  n     = 0;
        double                   want[256];
        param.blocks   = fused[c].blocks;
        param.n_blocks = fused[c].n_blocks;
        rig     whole  = rig_make_with(dev, &cfg, dtype, &param, 1, c);
        double *w = rig_weight(&whole, 0), *all = laid_out(&whole.w[0], w);
        rig_steps(&whole, 0, 1);
        for (int64_t b = 0; b < fused[c].n_blocks; b++) {
            const musec_block *block = &fused[c].blocks[b];
            for (int64_t k = 0; k < (block->count > 0 ? block->count : 1); k++, n++) {
                const int64_t each = block->rows * block->cols;
                double       *got  = rig_state(&whole, 0, n, "average", each);
                cut(all, block, k, want);
                CHECK(run_same_bits(got, want, each), "%s: matrix %d", fused[c].what, (int)n);
                free(got);
            }
        }
        const size_t bytes = (size_t)rig_elems(&whole, 0) * ms_dtype_bytes(dtype);
        CHECK(musec_optim_get_state(whole.opt, 0, n, "average", all, bytes) == MUSEC_EINVAL,
              "%s: behind the last", fused[c].what);
        CHECK(n == 1 ||
                  musec_optim_get_state(whole.opt, 0, 0, "average", all, bytes) == MUSEC_EINVAL,
              "%s: as large as the parameter", fused[c].what);
        free(w), free(all);
        rig_free(&whole);
    }
}

/* Reports name the same matrices before and after the first step, and a parameter may be added
 * after a report was read. */
TEST_EACH_DEVICE(reports_list_matrices_before_the_first_step, dev)
{
    static const rig_param params[] = {
        { .name = "a", .rows = 4, .cols = 6 },
        { .name = "e", .role = MUSEC_ROLE_EMBED, .rows = 4, .cols = 6 },
        { .name = "b", .rows = 5, .cols = 3, .layout = { .more = 2 } },
        { .name = "c", .rows = 4, .cols = 6 },
    };
    const musec_optim_config cfg = rig_config("muon", "report-every=1");
    rig                      r   = rig_make_with(dev, &cfg, MUSEC_F32, params, COUNT(params), 3);
    musec_optim_report       before[6] = { 0 }, after;
    size_t                   n         = 0;
    while (n < COUNT(before) && musec_optim_get_report(r.opt, n, &before[n]) == MUSEC_OK)
        n++;
    CHECK(n == 5, "%zu matrices", n);
    run_stack         late  = run_stack_make(dev, MUSEC_F32, 4, 6, (run_layout){ 0 }, NULL, 1.0);
    const musec_param param = { .name = "late", .weight = late.view };
    CHECK_OK(dev, musec_optim_add(r.opt, &param, NULL));
    CHECK_OK(dev, musec_optim_get_report(r.opt, 2, &after));
    CHECK(strcmp(after.param, "late") == 0 && after.step == 0, "%s", after.param);
    rig_free(&r);

    r = rig_make_with(dev, &cfg, MUSEC_F32, params, COUNT(params), 3);
    rig_steps(&r, 0, 1);
    for (size_t i = 0; i < n; i++) {
        CHECK_OK(dev, musec_optim_get_report(r.opt, i, &after));
        CHECK(before[i].step == 0 && after.step == 1, "matrix %zu: step %d", i, (int)after.step);
        CHECK(before[i].block == after.block && before[i].rows == after.rows &&
                  before[i].cols == after.cols && before[i].update_norm2 == 0.0,
              "matrix %zu: block %d, then %d", i, (int)before[i].block, (int)after.block);
    }
    CHECK(musec_optim_get_report(r.opt, n, &after) == MUSEC_EINVAL, "one more");
    rig_free(&r);
    run_stack_free(dev, &late);
}

/* A stack of n matrices without blocks is updated like n blocks of one matrix each. */
TEST_EACH_DEVICE(a_stack_without_blocks_is_separate_matrices, dev)
{
    static const rig_param stack = {
        .name = "w", .rows = 5, .cols = 8, .layout = { .more = 3, .pad = 1, .gap = 4 }
    };
    for (size_t k = 0; k < COUNT(rules); k++) {
        rig_param blocks = stack;
        blocks.blocks    = fused[6].blocks;
        blocks.n_blocks  = 1;
        rig a            = rig_make(dev, rules[k].name, rules[k].options, MUSEC_F32, &stack, 1, 5);
        rig b            = rig_make(dev, rules[k].name, rules[k].options, MUSEC_F32, &blocks, 1, 5);
        rig_steps(&a, 0, STEPS), rig_steps(&b, 0, STEPS);
        CHECK(rig_same_weight(&a, 0, &b, 0), "%s", rules[k].name);
        rig_free(&a), rig_free(&b);
    }
}

/* ---- batches --------------------------------------------------------------------------------- */

static const char *const eight[] = { "a", "b", "c", "d", "e", "f", "g", "h" };

/* The reference device is slow: a few steps of small matrices suffice there. */
TEST_EACH_DEVICE(batched_matrices_match_single_ones, dev)
{
    static const struct {
        int64_t rows, cols;
        bool    big;
    } sizes[] = { { 6, 10, false }, { 10, 6, false }, { 96, 160, true } };
    for (size_t s = 0; s < COUNT(sizes); s++) {
        if (sizes[s].big && run_is_slow(dev)) continue;
        for (size_t k = 0; k < COUNT(rules); k++) {
            const musec_optim_config cfg = config_of(dev, k);
            rig_param                params[COUNT(eight)];
            for (size_t p = 0; p < COUNT(eight); p++)
                params[p] =
                    (rig_param){ .name = eight[p], .rows = sizes[s].rows, .cols = sizes[s].cols };
            rig all = rig_make_with(dev, &cfg, MUSEC_F32, params, COUNT(eight), 2);
            rig_steps(&all, 0, 2);
            for (size_t p = 0; p < COUNT(eight); p++) {
                rig one = rig_make_with(dev, &cfg, MUSEC_F32, &params[p], 1, 2);
                rig_steps(&one, 0, 2);
                CHECK(rig_alike(&all, p, &one, 0), "%s, %lld x %lld: matrix %zu apart by %g",
                      rules[k].name, (long long)sizes[s].rows, (long long)sizes[s].cols, p,
                      rig_apart(&all, p, &one, 0));
                rig_free(&one);
            }
            rig_free(&all);
        }
    }
}

/* With one byte of workspace a step takes one matrix at a time. */
TEST_EACH_DEVICE(a_workspace_limit_changes_nothing, dev)
{
    rig_param params[COUNT(eight)];
    for (size_t p = 0; p < COUNT(eight); p++)
        params[p] = (rig_param){ .name = eight[p], .rows = p % 3 == 0 ? 9 : 6, .cols = 8 };
    for (size_t k = 0; k < COUNT(rules); k++) {
        musec_optim_config cfg   = rig_config(rules[k].name, rules[k].options);
        uint64_t           large = 0, small = 0;
        rig                a = rig_make_with(dev, &cfg, MUSEC_F64, params, COUNT(eight), 4);
        cfg.workspace        = 1;
        rig b                = rig_make_with(dev, &cfg, MUSEC_F64, params, COUNT(eight), 4);
        CHECK_OK(dev, musec_optim_workspace(a.opt, &large, NULL));
        CHECK_OK(dev, musec_optim_workspace(b.opt, &small, NULL));
        CHECK(small < large, "%s: %llu bytes under the cap, %llu without", rules[k].name,
              (unsigned long long)small, (unsigned long long)large);
        rig_steps(&a, 0, STEPS), rig_steps(&b, 0, STEPS);
        for (size_t p = 0; p < COUNT(eight); p++)
            CHECK(rig_alike(&a, p, &b, p), "%s: %s", rules[k].name, eight[p]);
        rig_free(&a), rig_free(&b);
    }
}

/* Missing gradients split a batch into spans, which changes nothing for the other matrices. */
TEST_EACH_DEVICE(missing_gradients_leave_the_others_alone, dev)
{
    rig_param params[COUNT(eight)];
    for (size_t p = 0; p < COUNT(eight); p++)
        params[p] = (rig_param){ .name = eight[p], .rows = 6, .cols = 8 };
    for (size_t k = 0; k < COUNT(rules); k++) {
        rig a = rig_make(dev, rules[k].name, rules[k].options, MUSEC_F32, params, COUNT(eight), 9);
        rig b = rig_make(dev, rules[k].name, rules[k].options, MUSEC_F32, params, COUNT(eight), 9);
        b.without[0] = b.without[3] = b.without[4] = true;
        rig_steps(&a, 0, STEPS), rig_steps(&b, 0, STEPS);
        for (size_t p = 0; p < COUNT(eight); p++)
            CHECK(b.without[p] ? rig_unmoved(&b, p) : rig_alike(&a, p, &b, p), "%s: %s",
                  rules[k].name, eight[p]);
        rig_free(&a), rig_free(&b);
    }
}

/* Muon's update of the second of two blocks, whose gradient is smaller than the first's by `ratio`.
 * The update must not depend on the ratio. */
static double *move_of_block(ms_device *dev, int64_t rows, int64_t cols, double ratio)
{
    musec_block blocks[] = {
        { .rows = rows, .cols = cols, .row_step = cols },
        { .offset = rows * cols, .rows = rows, .cols = cols, .row_step = cols }
    };
    const rig_param param = {
        .name = "w", .rows = 2 * rows, .cols = cols, .blocks = blocks, .n_blocks = 2
    };
    rig           r = rig_make(dev, "muon", "operands=f16 lr=1", MUSEC_F32, &param, 1, 3);
    const int64_t n = rows * cols;
    double       *g = rig_normal(&r, 0, 0), *start = rig_start(&r, 0);
    for (int64_t e = n; e < 2 * n; e++)
        g[e] *= ratio;
    rig_set_grad(&r, 0, g);
    rig_go(&r);
    double *w = rig_weight(&r, 0);
    for (int64_t e = 0; e < n; e++)
        w[e] = w[n + e] - start[n + e];
    free(g), free(start), rig_free(&r);
    return w;
}

/* Below 2^-14 the numbers of f16 have few digits: at the smallest ratio the gradient is rounded
 * with a relative error of about 1/30. */
TEST_EACH_DEVICE(muon_updates_a_block_with_tiny_gradients, dev)
{
    static const int64_t shapes[][2] = {
        { 8, 32 }, { 30, 7 }, { 48, 48 }, { 64, 160 }, { 256, 512 }
    };
    static const double ratios[] = { 0x1p-8, 0x1p-13, 0x1p-17 };
    for (size_t i = 0; i < COUNT(shapes) && ms_device_has(dev, MUSEC_F16); i++) {
        const int64_t rows = shapes[i][0], cols = shapes[i][1];
        if (run_is_slow(dev) && rows > 100) continue;
        double *usual = move_of_block(dev, rows, cols, 1.0);
        for (size_t k = 0; k < COUNT(ratios); k++) {
            double      *one = move_of_block(dev, rows, cols, ratios[k]);
            const double apart =
                run_fro_diff(one, usual, rows * cols) / run_fro(usual, rows * cols);
            CHECK(apart <= (ratios[k] < 0x1p-14 ? 0.2 : 0.02), "%lld x %lld, %g: apart by %g",
                  (long long)rows, (long long)cols, ratios[k], apart);
            free(one);
        }
        free(usual);
    }
}
