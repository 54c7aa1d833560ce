/* train_device_test.c - runs and their devices: precisions, checkpoints that go on elsewhere, and
 * what is said when a device fails.
 *
 * A device that fails is a context whose gemm fails after a while. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/safetensors.h"
#include "device/cuda/attention_workspace.h"
#include "scratch.h"
#include "train/trainer.h"

enum { STEPS = 8, HALFWAY = 4 };

typedef struct watcher {
    double  loss[STEPS + 1]; /* by step */
    int64_t stop_after;      /* -1: never */
    int     stop;
} watcher;

static ms_stop asks_to_stop(void *arg)
{
    const watcher *w = arg;
    return w->stop ? MS_STOP_AFTER_STEP : MS_STOP_NO;
}

static void watch(void *arg, const ms_log_line *line)
{
    watcher *w          = arg;
    w->loss[line->step] = line->loss;
    if (line->step == w->stop_after) w->stop = 1;
}

static ms_train_config configure(const char *device, const char *precision)
{
    static const char *const settings[][2] = {
        { "layers", "2" },    { "width", "32" },      { "heads", "2" },        { "head", "16" },
        { "mlp", "64" },      { "batch", "128" },     { "max_doc", "64" },     { "steps", "8" },
        { "val_every", "0" }, { "val_tokens", "64" }, { "report_every", "0" }, { "x0_mix", "yes" },
        { "lr", "0.05" },
    };
    ms_train_config cfg;
    ms_error        e = { "" };
    CHECK_OK_ERR(&e, ms_train_config_init(&e, &cfg, "pico", "soft-musec"));
    for (size_t i = 0; i < COUNT(settings); i++)
        CHECK_OK_ERR(&e, ms_train_config_set(&e, &cfg, settings[i][0], settings[i][1]));
    CHECK_OK_ERR(&e, ms_train_config_set(&e, &cfg, "device", device));
    CHECK_OK_ERR(&e, ms_train_config_set(&e, &cfg, "precision", precision));
    CHECK_OK_ERR(&e, ms_train_config_check(&e, &cfg));
    return cfg;
}

static ms_train_setup setup_of(watcher *w, const ms_train_config *cfg, const char *out, bool resume,
                               int64_t stop_after)
{
    w->stop       = 0;
    w->stop_after = stop_after;
    return (ms_train_setup){ .config  = *cfg,
                             .out     = out,
                             .resume  = resume,
                             .stop    = asks_to_stop,
                             .on_step = watch,
                             .arg     = w };
}

static void run(watcher *w, const ms_train_config *cfg, const char *out, bool resume,
                int64_t stop_after)
{
    const ms_train_setup setup = setup_of(w, cfg, out, resume, stop_after);
    ms_error             e     = { "" };
    ms_train            *t     = NULL;
    ms_summary           summary;
    CHECK_OK_ERR(&e, ms_train_open(&e, &setup, &t));
    CHECK_OK_ERR(&e, ms_train_run(&e, t, &summary));
    ms_train_close(t);
}

/* ---- precisions ------------------------------------------------------------------------------ */

TEST(auto_is_what_the_device_says)
{
    static const struct {
        const char *device, *precision;
        musec_dtype want;
    } cases[] = {
        { "cpu", "auto", MUSEC_F32 },  { "cpu", "f32", MUSEC_F32 }, { "ref", "auto", MUSEC_F32 },
        { "ref", "bf16", MUSEC_BF16 }, { "ref", "f16", MUSEC_F16 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        watcher              w     = { .stop = 0 };
        ms_train_config      cfg   = configure(cases[i].device, cases[i].precision);
        const ms_train_setup setup = setup_of(&w, &cfg, NULL, false, -1);
        ms_error             e     = { "" };
        ms_train            *t     = NULL;
        CHECK_OK_ERR(&e, ms_train_open(&e, &setup, &t));
        CHECK(ms_gpt_dtype(t->gpt) == cases[i].want, "%s, %s", cases[i].device, cases[i].precision);
        CHECK(t->ctx->deterministic && t->device_note[0] == '\0', "%s", t->device_note);
        ms_train_close(t);
    }
}

TEST(a_run_may_be_not_deterministic)
{
    watcher         w   = { .stop = 0 };
    ms_train_config cfg = configure("cpu", "auto");
    ms_error        e   = { "" };
    ms_train       *t   = NULL;
    CHECK_OK_ERR(&e, ms_train_config_set(&e, &cfg, "deterministic", "no"));
    const ms_train_setup setup = setup_of(&w, &cfg, NULL, false, -1);
    CHECK_OK_ERR(&e, ms_train_open(&e, &setup, &t));
    CHECK(!t->ctx->deterministic, "it is");
    ms_train_close(t);
}

TEST(a_precision_that_is_not_there_is_refused)
{
    watcher               w     = { .stop = 0 };
    const ms_train_config cfg   = configure("cpu", "bf16");
    const char           *dir   = fresh_dir();
    const ms_train_setup  setup = setup_of(&w, &cfg, dir, false, -1);
    ms_error              e     = { "" };
    ms_train             *t     = NULL;
    CHECK(ms_train_open(&e, &setup, &t) == MUSEC_ENOTSUP && t == NULL, "opened");
    CHECK(strcmp(e.text, "precision is bf16, which the device cpu does not have; choose auto or "
                         "f32") == 0,
          "%s", e.text);
}

/* ---- going on elsewhere ---------------------------------------------------------------------- */

/* All that a checkpoint has of numbers is float32, whatever the activations were. */
static void check_files(const char *dir)
{
    static const char *const files[] = { "model", "optim" };
    for (size_t k = 0; k < COUNT(files); k++) {
        char           path[MS_PATH_MAX + 64];
        ms_safetensors file = { 0 };
        ms_error       e    = { "" };
        snprintf(path, sizeof path, "%s/checkpoint/step_%08d/%s.safetensors", dir, HALFWAY,
                 files[k]);
        CHECK_OK_ERR(&e, ms_safetensors_open(&e, path, &file));
        for (size_t i = 0; i < file.n_tensors; i++)
            CHECK(strcmp(file.tensors[i].dtype, "BF16") != 0 &&
                      strcmp(file.tensors[i].dtype, "F16") != 0,
                  "%s: %s is %s", path, file.tensors[i].name, file.tensors[i].dtype);
        ms_safetensors_close(&file);
    }
}

TEST(a_checkpoint_goes_on_in_another_precision)
{
    static const struct {
        const char *first, *first_device, *then, *then_device;
        double      bound; /* 0: the same bits */
    } cases[] = {
        { "bf16", "ref", "bf16", "ref", 0.0 },  { "f32", "ref", "f32", "ref", 0.0 },
        { "bf16", "ref", "f32", "ref", 2e-2 },  { "f32", "ref", "bf16", "ref", 2e-2 },
        { "bf16", "ref", "auto", "cpu", 2e-2 }, { "f32", "cpu", "f16", "ref", 2e-2 },
    };
    static watcher whole, parts;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const ms_train_config first = configure(cases[i].first_device, cases[i].first),
                              then  = configure(cases[i].then_device, cases[i].then);
        const char *dir             = fresh_dir();
        run(&whole, &then, NULL, false, -1);
        run(&parts, &first, dir, false, HALFWAY);
        check_files(dir);
        run(&parts, &then, dir, true, -1);
        for (int k = 1; k <= STEPS; k++)
            CHECK(fabs(parts.loss[k] / whole.loss[k] - 1.0) <= cases[i].bound,
                  "%s, then %s: step %d has %.9g, not %.9g", cases[i].first, cases[i].then, k,
                  parts.loss[k], whole.loss[k]);
    }
}

/* The warnings of a run that goes on. */
static void resumed_words(const ms_train_config *cfg, const char *dir, char *words, size_t bytes)
{
    static watcher w;
    FILE          *to    = tmpfile();
    ms_log         log   = ms_log_open(to, MS_LOG_QUIET);
    ms_train_setup setup = setup_of(&w, cfg, dir, true, -1);
    ms_error       e     = { "" };
    ms_train      *t     = NULL;
    setup.log            = &log;
    CHECK_OK_ERR(&e, ms_train_open(&e, &setup, &t));
    ms_train_close(t);
    rewind(to);
    words[fread(words, 1, bytes - 1, to)] = '\0';
    fclose(to);
}

TEST(what_auto_became_is_kept)
{
    static watcher        w;
    const ms_train_config first = configure("ref", "bf16"), then = configure("ref", "f32");
    const ms_train_setup  setup = setup_of(&w, &first, fresh_dir(), false, HALFWAY);
    ms_error              e     = { "" };
    ms_train             *t     = NULL;
    ms_summary            s;
    char                  words[MS_PATH_MAX + 256];
    CHECK_OK_ERR(&e, ms_train_open(&e, &setup, &t));
    CHECK_OK_ERR(&e, ms_train_run(&e, t, &s));
    CHECK(strcmp(s.computed.device, "ref") == 0 && strcmp(s.computed.precision, "bf16") == 0 &&
              strcmp(s.computed.operands, "f32") == 0,
          "%s, %s, %s", s.computed.device, s.computed.precision, s.computed.operands);
    CHECK(s.start_s > 0.0 && s.start_s < 600.0, "%g s until the first step", s.start_s);
    ms_train_close(t);
    resumed_words(&first, setup.out, words, sizeof words);
    CHECK(words[0] == '\0', "%s", words);
    resumed_words(&then, setup.out, words, sizeof words);
    CHECK(strstr(words, "was computed on ref, activations in bf16, operands in f32; it goes on on "
                        "ref, in f32 and f32") != NULL,
          "%s", words);
}

/* ---- the scratch of attention's gradient ----------------------------------------------------- */

/* What the kernels take, by what they are said to do: tiles of 64 rows, as many heads at once as
 * stay within 1 GiB of dS, two floats and an int of each row, 64 counters. */
static uint64_t taken(int64_t heads, int64_t rows, int64_t reach)
{
    const int64_t tiles = (rows + 63) / 64, across = (reach + 127) / 64;
    const int64_t each = tiles * (across < tiles ? across : tiles) * 8192, most = 1073741824 / each;
    const int64_t times = most > 0 ? (heads + most - 1) / most : 0;
    const int64_t now   = times > 0 ? (heads + times - 1) / times : 0;
    return (uint64_t)(now * each + tiles * 64 * (8 * heads + 4) + 256);
}

TEST(the_scratch_of_attention_is_bounded)
{
    static const struct {
        int64_t heads, rows, reach;
        double  bytes;
    } cases[] = {
        { 6, 8192, 1023, 6 * 17 * 0x1p20 + 8192 * 52 + 256 },        /* 128 tiles that 17 see */
        { 1, 64, 0, 8192 + 64 * 12 + 256 },                          /* a tile, which sees itself */
        { 12, 65536, 1 << 20, 0x1p30 + 65536 * 100 + 256 },          /* a head would have 8 GiB */
        { 16384, 1 << 26, 1 << 26, 0x1p30 + 0x1p26 * 131076 + 256 }, /* no product overflows */
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const uint64_t got = ms_attn_grad_max_bytes(cases[i].heads, cases[i].rows, cases[i].reach);
        CHECK((double)got == cases[i].bytes, "case %zu: %llu bytes", i, (unsigned long long)got);
    }
    for (int64_t heads = 1; heads < 40; heads += 3)
        for (int64_t rows = 1; rows < 40000; rows = rows * 3 / 2 + 17)
            for (int64_t reach = 0; reach < rows; reach = reach * 2 + 63)
                for (int64_t seen = 0; seen <= reach; seen = seen * 2 + 31)
                    CHECK(taken(heads, rows, seen) <= ms_attn_grad_max_bytes(heads, rows, reach),
                          "%lld heads, %lld rows, %lld of %lld", (long long)heads, (long long)rows,
                          (long long)seen, (long long)reach);
}

static ms_attn_shape planned[4];
static int           n_planned;

static uint64_t count_plan(ms_device *d, ms_attn_shape plan)
{
    (void)d;
    if (n_planned < (int)COUNT(planned)) planned[n_planned] = plan;
    n_planned++;
    return (uint64_t)1 << (plan.rows == 256 ? 32 : 30);
}

TEST(the_scratch_of_attention_is_counted)
{
    static watcher  w;
    ms_train_config cfg = configure("cpu", "auto");
    ms_error        e   = { "" };
    ms_train       *t   = NULL;
    ms_train_sizes  without, with;
    char            words[2048];
    CHECK_OK_ERR(&e, ms_train_config_set(&e, &cfg, "stages",
                                         "2 batch=512 micro=2 doc=48 window=99/200; rest "
                                         "batch=128 doc=64 window=33/16"));
    const ms_train_setup setup = setup_of(&w, &cfg, NULL, false, -1);
    CHECK_OK_ERR(&e, ms_train_open(&e, &setup, &t));
    CHECK_OK_ERR(&e, ms_train_measure(&e, t, &without));
    const ms_device_kind *own  = t->ctx->kind;
    ms_device_kind        fake = *own;
    fake.attn_workspace        = count_plan;
    t->ctx->kind               = &fake;
    CHECK_OK_ERR(&e, ms_train_measure(&e, t, &with));
    t->ctx->kind = own;
    ms_train_close(t);
    CHECK(n_planned == 2, "%d stages", n_planned);
    CHECK(planned[0].rows == 256 && planned[0].reach == 47 && planned[0].heads == 2 &&
              planned[0].head == 16 && planned[0].dtype == MUSEC_F32,
          "%lld rows, %lld", (long long)planned[0].rows, (long long)planned[0].reach);
    CHECK(planned[1].rows == 128 && planned[1].reach == 33, "%lld rows, %lld",
          (long long)planned[1].rows, (long long)planned[1].reach);
    /* they are never needed at once */
    CHECK(without.attention == 0 && with.attention == (uint64_t)1 << 32 &&
              with.workspace == without.workspace &&
              with.total == without.total - without.workspace + with.attention,
          "%llu, then %llu bytes", (unsigned long long)without.total,
          (unsigned long long)with.total);
    FILE *to = tmpfile();
    ms_train_print_memory(&with, to);
    rewind(to);
    words[fread(words, 1, sizeof words - 1, to)] = '\0';
    fclose(to);
    CHECK(strstr(words, "workspace           4096.0 MiB (optimizer's step ") != NULL &&
              strstr(words, ", attention's gradient 4096.0 at most, not at once)\n") != NULL,
          "%s", words);
}

/* ---- failures -------------------------------------------------------------------------------- */

static int          gemms_left;
static musec_status failure;
static musec_status (*real_gemm)(ms_device *d, double alpha, ms_mat a, ms_mat b, double beta,
                                 ms_mat c);

static musec_status failing_gemm(ms_device *d, double alpha, ms_mat a, ms_mat b, double beta,
                                 ms_mat c)
{
    if (gemms_left-- > 0) return real_gemm(d, alpha, a, b, beta, c);
    return ms_fail(&d->error, failure, "cpu: the device caught fire");
}

/* A run whose device fails in the step behind `steps`. */
static void fail_behind(const ms_train_setup *setup, int64_t steps, musec_status how, ms_error *e)
{
    watcher    *w = setup->arg;
    ms_train   *t = NULL;
    ms_summary  summary;
    const char *status = NULL;

    CHECK_OK_ERR(e, ms_train_open(e, setup, &t));
    w->stop_after = steps;
    if (steps > 0) {
        CHECK_OK_ERR(e, ms_train_run(e, t, &summary));
        status = summary.status;
    }
    CHECK(status == NULL || strcmp(status, "interrupted") == 0, "%s", status);
    w->stop_after = -1, w->stop = 0;
    failure = how, gemms_left = 3;
    real_gemm          = t->ctx->table.gemm;
    t->ctx->table.gemm = failing_gemm;
    CHECK(ms_train_run(e, t, &summary) == how, "%s", e->text);
    ms_train_close(t);
}

/* Nothing begins with a dot: no checkpoint is half there. */
static bool is_clean(const char *dir)
{
    char command[MS_PATH_MAX + 64];
    snprintf(command, sizeof command, "test -z \"$(find '%s' -name '.step*')\"", dir);
    return system(command) == 0;
}

TEST(a_device_that_fails_says_where_to_go_on)
{
    static watcher        whole, parts;
    const ms_train_config cfg   = configure("cpu", "auto");
    const char           *dir   = fresh_dir();
    const ms_train_setup  setup = setup_of(&parts, &cfg, dir, false, -1);
    ms_error              e     = { "" };
    char                  want[MS_PATH_MAX + 128];
    run(&whole, &cfg, NULL, false, -1);
    fail_behind(&setup, HALFWAY, MUSEC_EDEVICE, &e);
    snprintf(want, sizeof want,
             "cpu: the device caught fire; the checkpoint of step %d is whole: go on with musec "
             "train --resume %s",
             HALFWAY, dir);
    CHECK(strcmp(e.text, want) == 0, "%s", e.text);
    CHECK(is_clean(dir), "something is left");
    run(&parts, &cfg, dir, true, -1);
    for (int k = 1; k <= STEPS; k++)
        CHECK(parts.loss[k] == whole.loss[k], "step %d: %.9g, not %.9g", k, parts.loss[k],
              whole.loss[k]);
}

TEST(without_a_checkpoint_it_says_so)
{
    static watcher        w;
    const ms_train_config cfg   = configure("cpu", "auto");
    const char           *dir   = fresh_dir();
    const ms_train_setup  setup = setup_of(&w, &cfg, dir, false, -1),
                         silent = setup_of(&w, &cfg, NULL, false, -1);
    ms_error e                  = { "" };
    char     want[MS_PATH_MAX + 128];
    fail_behind(&setup, 0, MUSEC_EDEVICE, &e);
    snprintf(want, sizeof want,
             "cpu: the device caught fire; there is no checkpoint yet: go on with musec train "
             "--resume %s",
             dir);
    CHECK(strcmp(e.text, want) == 0, "%s", e.text);
    fail_behind(&silent, 0, MUSEC_EDEVICE, &e);
    CHECK(strcmp(e.text, "cpu: the device caught fire") == 0, "%s", e.text);
}

TEST(memory_that_is_missing_is_told)
{
    static watcher        w;
    const ms_train_config cfg    = configure("cpu", "auto");
    const ms_train_setup  silent = setup_of(&w, &cfg, NULL, false, -1);
    ms_error              e      = { "" };
    fail_behind(&silent, 0, MUSEC_ENOMEM, &e);
    CHECK(strstr(e.text, "fire; the run needs 0.0 GiB, 0.0 of them for activations of 128 tokens: "
                         "more micro-batches (now 1) or a smaller batch lower that") != NULL,
          "%s", e.text);
}

/* With few tokens for many weights there is nothing to save by micro-batches. */
TEST(missing_memory_of_weights_is_told)
{
    static const char *const settings[][2] = { { "width", "128" },
                                               { "mlp", "512" },
                                               { "batch", "16" },
                                               { "max_doc", "16" },
                                               { "workspace", "1" } };
    static watcher           w;
    ms_train_config          cfg = configure("cpu", "auto");
    ms_error                 e   = { "" };
    for (size_t i = 0; i < COUNT(settings); i++)
        CHECK_OK_ERR(&e, ms_train_config_set(&e, &cfg, settings[i][0], settings[i][1]));
    const ms_train_setup silent = setup_of(&w, &cfg, NULL, false, -1);
    fail_behind(&silent, 0, MUSEC_ENOMEM, &e);
    CHECK(strstr(e.text, "of them for weights, gradients and the optimizer's state: more "
                         "micro-batches would not help") != NULL,
          "%s", e.text);
}
