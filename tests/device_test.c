/* device_test.c - names of devices, views whose sizes overflow, numbers of threads. */
#include "check.h"

#include <stdio.h>
#include <string.h>

/* ---- names ----------------------------------------------------------------------------------- */

TEST(cpu_and_ref_have_one_device_each)
{
    static const char *const good[] = { "cpu", "cpu:0", "ref", "ref:0" };
    static const char *const bad[]  = { "cpu:1", "ref:1", "ref:7", "ref:1023" };
    static const char *const none[] = { "ref:", "ref:x", "ref:-1", "ref:1024", "refs", "" };
    musec_ctx               *ctx;
    char                     why[256];

    for (size_t i = 0; i < COUNT(good); i++) {
        CHECK(musec_ctx_create(&ctx, good[i]) == MUSEC_OK, "%s", good[i]);
        CHECK(strncmp(musec_ctx_device(ctx), good[i], 3) == 0 && musec_ctx_device(ctx)[3] == '\0',
              "%s is called %s", good[i], musec_ctx_device(ctx));
        musec_ctx_destroy(ctx);
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        CHECK(musec_ctx_create_why(&ctx, bad[i], why, sizeof why) == MUSEC_EINVAL && ctx == NULL,
              "%s opens", bad[i]);
        CHECK(strstr(why, "there is one device") != NULL && strstr(why, bad[i]) != NULL, "%s", why);
    }
    for (size_t i = 0; i < COUNT(none); i++) {
        CHECK(musec_ctx_create_why(&ctx, none[i], why, sizeof why) == MUSEC_EINVAL && ctx == NULL,
              "%s opens", none[i]);
        CHECK(strstr(why, "there is no device") != NULL, "%s", why);
    }
}

/* ---- views ----------------------------------------------------------------------------------- */

TEST(huge_views_are_refused)
{
    static const struct {
        int64_t count, rows, cols, stride;
    } sizes[] = {
        { 1, (int64_t)1 << 32, (int64_t)1 << 32, INT64_MAX },
        { 2, (int64_t)1 << 32, (int64_t)1 << 32, INT64_MAX },
        { 1, INT64_MAX, INT64_MAX, INT64_MAX },
        { 3, INT64_MAX, 2, INT64_MAX },
        { 2, 3, INT64_MAX / 2, INT64_MAX },
        { 1, 7, INT64_MAX / 7, INT64_MAX / 7 * 7 },
        { 1, INT64_MAX, 1, INT64_MAX },
        { 1, INT64_MIN, 2, 0 },
        { 2, INT64_MIN, -1, 0 },
        { 2, 0, 5, 0 },
    };
    musec_clip_config cfg;
    musec_ctx        *ctx  = check_open("cpu");
    float             x[1] = { 1.0F }, y[1] = { 7.0F };

    CHECK(musec_clip_config_init(&cfg, sizeof cfg, "hard") == MUSEC_OK, "config");
    cfg.threshold = 1.0;
    for (size_t i = 0; i < COUNT(sizes); i++) {
        musec_view in =
            musec_view_dense(x, MUSEC_F32, sizes[i].count, sizes[i].rows, sizes[i].cols);
        musec_view out = in;
        out.data       = y;
        CHECK(in.stride == sizes[i].stride, "case %zu: stride %lld", i, (long long)in.stride);
        CHECK(musec_clip(ctx, &cfg, in, out, NULL) == MUSEC_EINVAL, "case %zu passes", i);
        CHECK(y[0] == 7.0F, "case %zu: the output was written", i);
    }
    CHECK(musec_view_dense(x, MUSEC_F32, 1, 3, 5).stride == 15, "3 x 5");
    musec_ctx_destroy(ctx);
}

TEST(a_context_uses_the_number_of_threads_that_was_set)
{
    static const int wrong[] = { -1, 1025 };
    musec_ctx       *cpu = check_open("cpu"), *ref = check_open("ref");
    char             text[256];

    assert_int_equal(musec_ctx_set_threads(NULL, 1), MUSEC_EINVAL);
    for (int threads = 3; threads >= 1; threads--) {
        CHECK_OK(cpu, musec_ctx_set_threads(cpu, threads));
        snprintf(text, sizeof text, "%d thread%s", threads, threads == 1 ? "" : "s");
        char what[256] = "";
        cpu->kind->describe(cpu, what, sizeof what);
        CHECK(strstr(what, text) != NULL, "%s", what);
    }
    for (size_t i = 0; i < COUNT(wrong); i++) {
        assert_int_equal(musec_ctx_set_threads(cpu, wrong[i]), MUSEC_EINVAL);
        CHECK(strstr(musec_ctx_error(cpu), "threads: from 1 to 1024") != NULL, "%s",
              musec_ctx_error(cpu));
    }
    CHECK_OK(cpu, musec_ctx_set_threads(cpu, 0));
    assert_int_equal(musec_ctx_set_threads(ref, 2), MUSEC_ENOTSUP);
    musec_ctx_destroy(ref);
    musec_ctx_destroy(cpu);
}
