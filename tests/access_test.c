/* access_test.c - what a caller reaches of an optimizer between steps: weights that moved, state as
 * it lies on the device, numbers of steps. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "optim_rig.h"

static const rig_param model[] = {
    { .name = "a", .role = MUSEC_ROLE_QK, .rows = 24, .cols = 40 },
    { .name = "b", .role = MUSEC_ROLE_MLP, .rows = 24, .cols = 40, .layout = { .more = 1 } },
    { .name = "v", .role = MUSEC_ROLE_VECTOR, .rows = 1, .cols = 9 },
};
enum { N = COUNT(model) };

static const musec_view none;

/* ---- weights that move ----------------------------------------------------------------------- */

TEST_EACH_DEVICE(a_weight_may_move, dev)
{
    rig stays = rig_make(dev, "soft-musec", "", MUSEC_F32, model, N, 5);
    rig moves = rig_make(dev, "soft-musec", "", MUSEC_F32, model, N, 5);
    rig_steps(&stays, 0, 2);
    rig_steps(&moves, 0, 2);
    for (size_t p = 0; p < N; p++) { /* to new memory; the old one is given up */
        double         *w   = rig_weight(&moves, p);
        const run_stack old = moves.w[p];
        moves.w[p] =
            run_stack_make(dev, MUSEC_F32, model[p].rows, model[p].cols, model[p].layout, w, 3.25);
        CHECK_OK(dev, musec_optim_set_weight(moves.opt, p, moves.w[p].view, none));
        run_stack_free(dev, &(run_stack){ old.view, old.n });
        free(w);
    }
    rig_steps(&stays, 2, 3);
    rig_steps(&moves, 2, 3);
    rig_check_same(&stays, &moves, "soft-musec", "moved");
    rig_free(&stays), rig_free(&moves);
}

TEST_EACH_DEVICE(two_weights_may_change_places, dev)
{
    static const rig_param two[] = { { .name = "a", .rows = 12, .cols = 8 },
                                     { .name = "b", .rows = 12, .cols = 8 } };
    rig                    stays = rig_make(dev, "muon", "", MUSEC_F64, two, 2, 5);
    rig                    swaps = rig_make(dev, "muon", "", MUSEC_F64, two, 2, 5);
    double                *a = rig_start(&swaps, 0), *b = rig_start(&swaps, 1);
    const musec_view       was = swaps.w[0].view;
    CHECK_OK(dev, musec_optim_set_weight(swaps.opt, 0, swaps.w[1].view, none));
    CHECK_OK(dev, musec_optim_set_weight(swaps.opt, 1, was, none));
    const run_stack place = swaps.w[0];
    swaps.w[0] = swaps.w[1], swaps.w[1] = place;
    rig_set_weight(&swaps, 0, a), rig_set_weight(&swaps, 1, b);
    rig_steps(&stays, 0, 3), rig_steps(&swaps, 0, 3);
    rig_check_same(&stays, &swaps, "muon", "swapped");
    free(a), free(b);
    rig_free(&stays), rig_free(&swaps);
}

TEST_EACH_DEVICE(a_move_keeps_shape_and_dtype, dev)
{
    rig        r    = rig_make(dev, "muon", "", MUSEC_F64, model, N, 5);
    musec_view view = r.w[0].view;
    view.ld++;
    CHECK_FAILS(&dev->error, musec_optim_set_weight(r.opt, 0, view, none), MUSEC_EINVAL,
                "the weight of a was");
    view = r.w[0].view, view.dtype = MUSEC_F32;
    CHECK_FAILS(&dev->error, musec_optim_set_weight(r.opt, 0, view, none), MUSEC_EINVAL, "in f32");
    CHECK_FAILS(&dev->error, musec_optim_set_weight(r.opt, 0, none, none), MUSEC_EINVAL, "NULL");
    CHECK_FAILS(&dev->error, musec_optim_set_weight(r.opt, N, view, none), MUSEC_EINVAL,
                "no parameter 3");
    view = r.w[0].view;
    CHECK_FAILS(&dev->error, musec_optim_set_weight(r.opt, 0, view, view), MUSEC_EINVAL, "no copy");
    rig_free(&r);
}

/* ---- views of state -------------------------------------------------------------------------- */

TEST_EACH_DEVICE(the_names_of_state_are_listed, dev)
{
    static const struct {
        const char *name, *options, *matrix[6], *vector[6];
    } cases[] = {
        { "soft-musec", "", { "momentum" }, { "m", "v" } },
        { "adamw", "", { "m", "v" }, { "m", "v" } },
        { "ademamix", "", { "m", "v", "slow" }, { "m", "v" } },
        { "soap", "", { "m", "v", "left", "right", "left-basis", "right-basis" }, { "m", "v" } },
        { "shampoo", "", { "m", "v", "left", "right", "left-root", "right-root" }, { "m", "v" } },
        { "muon", "avg-steps=3 avg-epochs=1", { "momentum", "average" }, { "m", "v", "average" } },
    };
    for (size_t c = 0; c < COUNT(cases); c++) {
        rig r = rig_make(dev, cases[c].name, cases[c].options, MUSEC_F64, model, N, 5);
        for (size_t p = 0; p < N; p++)
            for (size_t k = 0; k < 6; k++) {
                const char *want = p == 2 ? cases[c].vector[k] : cases[c].matrix[k];
                const char *got  = musec_optim_state_name(r.opt, p, k);
                CHECK(want == NULL ? got == NULL : got != NULL && strcmp(got, want) == 0,
                      "%s: state %zu of %s is %s", cases[c].name, k, model[p].name, got);
            }
        CHECK(musec_optim_state_name(r.opt, N, 0) == NULL, "no such parameter");
        rig_free(&r);
    }
}

/* A view shows what get_state copies. */
TEST_EACH_DEVICE(views_show_the_state, dev)
{
    rig        r = rig_make(dev, "soft-musec", "avg-steps=9 avg-epochs=1", MUSEC_F64, model, N, 5);
    musec_view view;
    rig_steps(&r, 0, 2);
    for (size_t p = 0; p < N; p++) {
        const char   *name  = p == 2 ? "v" : "momentum";
        const int64_t whole = rig_elems(&r, p), each = model[p].rows * model[p].cols;
        CHECK_OK(dev, musec_optim_state_view(r.opt, p, -1, name, &view));
        CHECK(view.rows == model[p].rows && view.cols == model[p].cols &&
                  view.count == model[p].layout.more + 1 && view.dtype == MUSEC_F64,
              "%s: %lld x %lld x %lld", model[p].name, (long long)view.count, (long long)view.rows,
              (long long)view.cols);
        run_stack s    = { view, view.count * view.stride };
        double   *seen = run_stack_gather(dev, &s);
        for (int64_t b = 0; b * each < whole; b++) {
            double *copied = rig_state(&r, p, b, name, each);
            CHECK(run_same_bits(seen + b * each, copied, each), "%s: matrix %lld", model[p].name,
                  (long long)b);
            free(copied);
            CHECK_OK(dev, musec_optim_state_view(r.opt, p, b, name, &view));
            CHECK(view.count == 1 &&
                      (char *)view.data == (char *)s.view.data + b * s.view.stride * 8,
                  "%s: matrix %lld lies elsewhere", model[p].name, (long long)b);
        }
        free(seen);
    }
    CHECK_OK(dev, musec_optim_state_view(r.opt, 0, 0, "average", &view));
    CHECK_FAILS(&dev->error, musec_optim_state_view(r.opt, 0, 1, "average", &view), MUSEC_EINVAL,
                "block is 0");
    CHECK_FAILS(&dev->error, musec_optim_state_view(r.opt, 0, 0, "slow", &view), MUSEC_EINVAL,
                "keeps no \"slow\"");
    CHECK_FAILS(&dev->error, musec_optim_state_view(r.opt, 1, 2, "momentum", &view), MUSEC_EINVAL,
                "no number 2");
    CHECK_FAILS(&dev->error, musec_optim_state_view(r.opt, 1, -2, "momentum", &view), MUSEC_EINVAL,
                "no number -2");
    rig_free(&r);
}

TEST_EACH_DEVICE(matrices_of_unlike_shape_are_seen_one_by_one, dev)
{
    static const musec_block rows[] = { { .rows = 4, .cols = 8, .row_step = 8 },
                                        { .offset = 32, .rows = 8, .cols = 8, .row_step = 8 } };
    const rig_param cut = { .name = "cut", .rows = 12, .cols = 8, .blocks = rows, .n_blocks = 2 };
    rig             r   = rig_make(dev, "muon", "", MUSEC_F64, &cut, 1, 5);
    musec_view      view;
    CHECK_FAILS(&dev->error, musec_optim_state_view(r.opt, 0, -1, "momentum", &view), MUSEC_EINVAL,
                "not all of one shape");
    CHECK_OK(dev, musec_optim_state_view(r.opt, 0, 1, "momentum", &view));
    CHECK(view.rows == 8 && view.cols == 8 && view.count == 1, "%lld rows", (long long)view.rows);
    rig_free(&r);
}

/* Momentum that is written through a view, before or long after the view was handed out, is that of
 * a fresh optimizer into which the same momentum is written before its first step. */
static void check_written(ms_device *dev, const char *name, const char *options, bool again)
{
    rig        old = rig_make(dev, name, options, MUSEC_F32, model, 2, 5);
    rig        own = rig_make(dev, name, options, MUSEC_F32, model, 2, 5);
    musec_view views[2];
    if (!again)
        for (size_t p = 0; p < 2; p++)
            CHECK_OK(dev, musec_optim_state_view(old.opt, p, -1, "momentum", &views[p]));
    rig_steps(&old, 0, 3);
    for (size_t p = 0; p < 2; p++) {
        rig *const rigs[]   = { &old, &own };
        double    *momentum = rig_normal(&old, p, 99);
        for (int64_t i = 0; i < rig_elems(&old, p); i++)
            momentum[i] *= 1e-3;
        for (int k = 0; k < 2; k++) {
            musec_view v = views[p];
            if (again || k == 1)
                CHECK_OK(dev, musec_optim_state_view(rigs[k]->opt, p, -1, "momentum", &v));
            else
                CHECK_OK(dev, musec_optim_state_changed(rigs[k]->opt, p));
            run_stack_overwrite(dev, &(run_stack){ v, v.count * v.stride }, momentum);
            CHECK_OK(dev, musec_optim_set_steps(rigs[k]->opt, p, 3));
        }
        free(momentum);
        momentum = rig_start(&own, p); /* the weights as they were */
        rig_set_weight(&old, p, momentum);
        free(momentum);
    }
    CHECK_OK(dev, musec_optim_set_steps(own.opt, MUSEC_ALL, 3));
    rig_steps(&old, 3, 3);
    rig_steps(&own, 3, 3);
    rig_check_same(&old, &own, name, options);
    rig_free(&old), rig_free(&own);
}

TEST_EACH_DEVICE(written_state_is_taken_up_by_the_next_step, dev)
{
    static const char *const names[]   = { "soft-musec", "musec", "muon", "spectra" };
    static const char *const options[] = { "", "operands=f16", "operands=f16 ns-mode=accurate" };
    for (size_t i = 0; i < COUNT(names); i++)
        for (size_t k = 0; k < COUNT(options); k++) {
            const bool polar = strcmp(names[i], "muon") == 0;
            if (k > 0 && !ms_device_has(dev, MUSEC_F16)) continue;
            if (polar && k == 2) continue; /* it has no such mode */
            check_written(dev, names[i], options[k], false);
            check_written(dev, names[i], options[k], true);
        }
}

/* ---- numbers of steps ------------------------------------------------------------------------ */

TEST_EACH_DEVICE(numbers_of_steps_are_read_and_set, dev)
{
    rig     r = rig_make(dev, "adamw", "", MUSEC_F64, model, N, 5);
    int64_t n = -1;
    rig_steps(&r, 0, 1);
    r.without[1] = true;
    rig_steps(&r, 1, 1);
    CHECK(musec_optim_get_steps(r.opt, 0, &n) == MUSEC_OK && n == 2, "%lld", (long long)n);
    CHECK(musec_optim_get_steps(r.opt, 1, &n) == MUSEC_OK && n == 1, "%lld", (long long)n);
    CHECK_OK(dev, musec_optim_set_steps(r.opt, 1, 7));
    CHECK(musec_optim_get_steps(r.opt, 1, &n) == MUSEC_OK && n == 7, "%lld", (long long)n);
    CHECK_OK(dev, musec_optim_set_steps(r.opt, MUSEC_ALL, 9));
    CHECK(musec_optim_get_steps(r.opt, MUSEC_ALL, &n) == MUSEC_OK && n == 9, "%lld", (long long)n);
    CHECK(musec_optim_steps(r.opt) == 9, "%lld", (long long)musec_optim_steps(r.opt));
    CHECK_FAILS(&dev->error, musec_optim_set_steps(r.opt, 0, -1), MUSEC_EINVAL, "-1 steps");
    CHECK_FAILS(&dev->error, musec_optim_set_steps(r.opt, N, 1), MUSEC_EINVAL, "no parameter");
    CHECK(musec_optim_get_steps(r.opt, 0, NULL) == MUSEC_EINVAL, "nowhere");
    rig_free(&r);
}
