/* train_device_test.c - runs and their devices: precisions, checkpoints that are resumed on another
 * device, and the messages of a device that fails.
 *
 * The failing device is a context whose gemm fails after some calls. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/safetensors.h"
#include "device/cuda/attention_workspace.h"
#include "scratch.h"
#include "train_rig.h"

enum { STEPS = 8, HALFWAY = 4 };

static ms_train_config configure(const char *device, const char *precision)
{
    char settings[256];
    snprintf(settings, sizeof settings,
             "layers=2 width=32 heads=2 head=16 mlp=64 batch=128 max_doc=64 steps=8 val_every=0 "
             "val_tokens=64 report_every=0 x0_mix=yes lr=0.05 device=%s precision=%s",
             device, precision);
    return train_config("pico", "soft-musec", settings);
}

static void run(train_watch *w, const ms_train_config *cfg, const char *out, bool resume,
                int64_t stop_after)
{
    w->stop_after = stop_after;
    (void)train_run(cfg, w, out, resume);
}

/* Opens a run that writes nothing. */
static ms_train *open_run(const ms_train_config *cfg)
{
    const ms_train_setup setup = { .config = *cfg };
    ms_error             e     = { "" };
    ms_train            *t     = NULL;
    CHECK_OK_ERR(&e, ms_train_open(&e, &setup, &t));
    return t;
}

/* ---- precisions ------------------------------------------------------------------------------ */

TEST(precision_auto_is_the_devices_own)
{
    static const struct {
        const char *device, *precision;
        musec_dtype want;
    } cases[] = {
        { "cpu", "auto", MUSEC_F32 },  { "cpu", "f32", MUSEC_F32 }, { "ref", "auto", MUSEC_F32 },
        { "ref", "bf16", MUSEC_BF16 }, { "ref", "f16", MUSEC_F16 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const ms_train_config cfg = configure(cases[i].device, cases[i].precision);
        ms_train             *t   = open_run(&cfg);
        CHECK(ms_gpt_dtype(t->gpt) == cases[i].want, "%s, %s", cases[i].device, cases[i].precision);
        CHECK(t->ctx->deterministic && t->device_note[0] == '\0', "%s", t->device_note);
        ms_train_close(t);
    }
}

TEST(determinism_can_be_switched_off)
{
    ms_train_config cfg = configure("cpu", "auto");
    train_set(&cfg, "deterministic", "no");
    ms_train *t = open_run(&cfg);
    CHECK(!t->ctx->deterministic, "it is");
    ms_train_close(t);
}

TEST(a_precision_that_the_device_lacks_is_refused)
{
    const ms_train_config cfg = configure("cpu", "bf16");
    ms_device            *dev = check_open("cpu");
    ms_error              e   = { "" };
    musec_dtype           dtype;
    ms_device_kind        lacking;
    CHECK_OK_ERR(&e, ms_train_dtype(&e, &cfg, dev, &dtype));
    CHECK(dtype == MUSEC_BF16, "%s", ms_dtype_name(dtype));
    check_take_16bit(dev, &lacking);
    CHECK(ms_train_dtype(&e, &cfg, dev, &dtype) == MUSEC_ENOTSUP, "taken");
    CHECK(strcmp(e.text, "precision is bf16, which the device cpu does not have; choose auto or "
                         "f32") == 0,
          "%s", e.text);
    musec_ctx_destroy(dev);
}

/* ---- resuming in another precision ----------------------------------------------------------- */

/* The tensors of a checkpoint are float32, whatever the activations were. */
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

TEST(a_checkpoint_resumes_in_another_precision)
{
    static const struct {
        const char *first, *first_device, *then, *then_device;
        double      bound; /* 0: the same bits */
    } cases[] = {
        { "bf16", "ref", "bf16", "ref", 0.0 },  { "f32", "ref", "f32", "ref", 0.0 },
        { "bf16", "ref", "f32", "ref", 2e-2 },  { "f32", "ref", "bf16", "ref", 2e-2 },
        { "bf16", "ref", "auto", "cpu", 2e-2 }, { "f32", "cpu", "f16", "ref", 2e-2 },
    };
    static train_watch whole, parts;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const ms_train_config first = configure(cases[i].first_device, cases[i].first),
                              then  = configure(cases[i].then_device, cases[i].then);
        const char *dir             = fresh_dir();
        run(&whole, &then, NULL, false, -1);
        run(&parts, &first, dir, false, HALFWAY);
        check_files(dir);
        run(&parts, &then, dir, true, -1);
        for (int k = 1; k <= STEPS; k++)
            CHECK(fabs(parts.line[k].loss / whole.line[k].loss - 1.0) <= cases[i].bound,
                  "%s, then %s: step %d has %.9g, not %.9g", cases[i].first, cases[i].then, k,
                  parts.line[k].loss, whole.line[k].loss);
    }
}

/* Reads the whole temporary file as text and closes it. */
static void take_text(FILE *f, char *text, size_t bytes)
{
    rewind(f);
    text[fread(text, 1, bytes - 1, f)] = '\0';
    fclose(f);
}

/* Resumes a run and returns its warnings. */
static void resume_warnings(const ms_train_config *cfg, const char *dir, char *text, size_t bytes)
{
    FILE                *to    = tmpfile();
    ms_log               log   = ms_log_open(to, MS_LOG_QUIET);
    const ms_train_setup setup = { .config = *cfg, .out = dir, .resume = true, .log = &log };
    ms_error             e     = { "" };
    ms_train            *t     = NULL;
    CHECK_OK_ERR(&e, ms_train_open(&e, &setup, &t));
    ms_train_close(t);
    take_text(to, text, bytes);
}

TEST(a_resume_with_other_dtypes_is_warned_of)
{
    static train_watch    w     = { .stop_after = HALFWAY };
    const ms_train_config first = configure("ref", "bf16"), then = configure("ref", "f32");
    const char           *dir = fresh_dir();
    const ms_summary      s   = train_run(&first, &w, dir, false);
    char                  words[MS_PATH_MAX + 256];
    CHECK(strcmp(s.computed.device, "ref") == 0 && strcmp(s.computed.precision, "bf16") == 0 &&
              strcmp(s.computed.operands, "f32") == 0,
          "%s, %s, %s", s.computed.device, s.computed.precision, s.computed.operands);
    CHECK(s.start_s > 0.0 && s.start_s < 600.0, "%g s until the first step", s.start_s);
    resume_warnings(&first, dir, words, sizeof words);
    CHECK(words[0] == '\0', "%s", words);
    resume_warnings(&then, dir, words, sizeof words);
    CHECK(strstr(words, "was computed on ref, activations in bf16, operands in f32; it goes on on "
                        "ref, in f32 and f32") != NULL,
          "%s", words);
}

/* ---- the scratch of attention's gradient ----------------------------------------------------- */

/* The bytes of the kernels by their description: tiles of 64 rows, as many heads at once as stay
 * within 1 GiB of dS, two floats and an int for each row, 64 counters. */
static uint64_t taken(int64_t heads, int64_t rows, int64_t reach)
{
    const int64_t tiles = (rows + 63) / 64, across = (reach + 127) / 64;
    const int64_t each = tiles * (across < tiles ? across : tiles) * 8192, most = 1073741824 / each;
    const int64_t times = most > 0 ? (heads + most - 1) / most : 0;
    const int64_t now   = times > 0 ? (heads + times - 1) / times : 0;
    return (uint64_t)(now * each + tiles * 64 * (8 * heads + 4) + 256);
}

TEST(the_bound_of_attentions_scratch_is_never_exceeded)
{
    static const struct {
        int64_t heads, rows, reach;
        double  bytes;
    } cases[] = {
        { 6, 8192, 1023, 6 * 17 * 0x1p20 + 8192 * 52 + 256 },        /* 128 tiles, 17 in reach */
        { 1, 64, 0, 8192 + 64 * 12 + 256 },                          /* one tile */
        { 12, 65536, 1 << 20, 0x1p30 + 65536 * 100 + 256 },          /* a head would need 8 GiB */
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

TEST(attentions_scratch_is_part_of_a_runs_memory)
{
    ms_train_config cfg = configure("cpu", "auto");
    ms_error        e   = { "" };
    ms_train_sizes  without, with;
    char            words[2048];
    train_set(&cfg, "stages",
              "2 batch=512 micro=2 doc=48 window=99/200; rest batch=128 doc=64 window=33/16");
    ms_train *t = open_run(&cfg);
    CHECK_OK_ERR(&e, ms_train_measure(&e, t, &without));
    const ms_device_kind *own  = t->ctx->kind;
    ms_device_kind        fake = *own;
    fake.attn_workspace        = count_plan;
    t->ctx->kind               = &fake;
    CHECK_OK_ERR(&e, ms_train_measure(&e, t, &with));
    t->ctx->kind = own;
    CHECK(n_planned == 2, "%d stages", n_planned);
    CHECK(planned[0].rows == 256 && planned[0].reach == 47 && planned[0].heads == 2 &&
              planned[0].head == 16 && planned[0].dtype == MUSEC_F32,
          "%lld rows, %lld", (long long)planned[0].rows, (long long)planned[0].reach);
    CHECK(planned[1].rows == 128 && planned[1].reach == 33, "%lld rows, %lld",
          (long long)planned[1].rows, (long long)planned[1].reach);
    /* attention's scratch and the optimizer's are never needed at once */
    CHECK(without.attention == 0 && with.attention == (uint64_t)1 << 32 &&
              with.workspace == without.workspace &&
              with.total == without.total - without.workspace + with.attention,
          "%llu, then %llu bytes", (unsigned long long)without.total,
          (unsigned long long)with.total);
    FILE *to            = tmpfile();
    t->memory.available = with.total;
    ms_train_print_memory(t, &with, to);
    take_text(to, words, sizeof words);
    CHECK(strstr(words, "workspace           4096.0 MiB (optimizer's step ") != NULL &&
              strstr(words, ", attention's gradient 4096.0 at most, not at once)\n") != NULL,
          "%s", words);
    CHECK(strstr(words, "\n  available ") != NULL && strstr(words, "does not fit") == NULL, "%s",
          words);
    /* a byte less is too little */
    to = tmpfile();
    t->memory.available--;
    ms_train_print_memory(t, &with, to);
    take_text(to, words, sizeof words);
    CHECK(strstr(words, "\n  it does not fit: the run needs 4.0 GiB, 0.0 of them for ") != NULL,
          "%s", words);
    ms_train_close(t);
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

/* A run whose device fails in the step after `steps`; returns its message. */
static const char *fail_after(const ms_train_config *cfg, train_watch *w, const char *out,
                              int64_t steps, musec_status how)
{
    static ms_error e;
    ms_train_setup  setup;
    ms_train       *t = NULL;
    ms_summary      summary;

    w->stop_after = steps > 0 ? steps : -1;
    setup         = train_setup(cfg, w, out, false);
    CHECK_OK_ERR(&e, ms_train_open(&e, &setup, &t));
    if (steps > 0) {
        CHECK_OK_ERR(&e, ms_train_run(&e, t, &summary));
        CHECK(strcmp(summary.status, "interrupted") == 0, "%s", summary.status);
    }
    w->stop_after = -1, w->stop = false;
    failure = how, gemms_left = 3;
    real_gemm          = t->ctx->table.gemm;
    t->ctx->table.gemm = failing_gemm;
    CHECK(ms_train_run(&e, t, &summary) == how, "%s", e.text);
    ms_train_close(t);
    return e.text;
}

/* True if no partial checkpoint is left: their names begin with a dot. */
static bool is_clean(const char *dir)
{
    char command[MS_PATH_MAX + 64];
    snprintf(command, sizeof command, "test -z \"$(find '%s' -name '.step*')\"", dir);
    return system(command) == 0;
}

TEST(the_message_of_a_failing_device_names_the_resume_command)
{
    static train_watch    whole, parts;
    const ms_train_config cfg = configure("cpu", "auto");
    const char           *dir = fresh_dir(), *text;
    char                  want[MS_PATH_MAX + 128];
    run(&whole, &cfg, NULL, false, -1);
    text = fail_after(&cfg, &parts, dir, HALFWAY, MUSEC_EDEVICE);
    snprintf(want, sizeof want,
             "cpu: the device caught fire; the checkpoint of step %d is whole: go on with musec "
             "train --resume %s",
             HALFWAY, dir);
    CHECK(strcmp(text, want) == 0, "%s", text);
    CHECK(is_clean(dir), "something is left");
    run(&parts, &cfg, dir, true, -1);
    train_check_same(&whole, &parts, STEPS);

    dir  = fresh_dir();
    text = fail_after(&cfg, &parts, dir, 0, MUSEC_EDEVICE);
    snprintf(want, sizeof want,
             "cpu: the device caught fire; there is no checkpoint yet: go on with musec train "
             "--resume %s",
             dir);
    CHECK(strcmp(text, want) == 0, "%s", text);
    text = fail_after(&cfg, &parts, NULL, 0, MUSEC_EDEVICE);
    CHECK(strcmp(text, "cpu: the device caught fire") == 0, "%s", text);
}

TEST(the_message_of_too_little_memory_says_what_needs_it)
{
    static train_watch w;
    ms_train_config    cfg  = configure("cpu", "auto");
    const char        *text = "";
    train_set(&cfg, "ns_mode", "fast"); /* eigenvalues take more than activations do */
    text = fail_after(&cfg, &w, NULL, 0, MUSEC_ENOMEM);
    CHECK(strstr(text, "fire; the run needs 0.0 GiB, 0.0 of them for activations of 128 tokens: "
                       "more micro-batches (now 1), recompute layer or a smaller batch lower "
                       "that") != NULL,
          "%s", text);
    train_set(&cfg, "recompute", "layer");
    text = fail_after(&cfg, &w, NULL, 0, MUSEC_ENOMEM);
    CHECK(strstr(text, "more micro-batches (now 1) or a smaller batch lower that") != NULL, "%s",
          text);
    /* with few tokens and many weights, micro-batches would not help */
    train_set(&cfg, "width", "128"), train_set(&cfg, "mlp", "512");
    train_set(&cfg, "batch", "16"), train_set(&cfg, "max_doc", "16");
    train_set(&cfg, "workspace", "1");
    text = fail_after(&cfg, &w, NULL, 0, MUSEC_ENOMEM);
    CHECK(strstr(text, "of them for weights, gradients and the optimizer's state: more "
                       "micro-batches would not help") != NULL,
          "%s", text);
}

/* ---- a device that runs share ---------------------------------------------------------------- */

static ms_summary run_on(ms_train_device *shared, const ms_train_config *cfg, train_watch *w)
{
    ms_train_setup setup = train_setup(cfg, w, NULL, false);
    ms_train      *t     = NULL;
    ms_error       e     = { "" };
    ms_summary     got;
    w->stop_after = -1;
    setup.device  = shared;
    CHECK_OK_ERR(&e, ms_train_open(&e, &setup, &t));
    CHECK(shared->ctx == NULL, "a running run has the device for itself");
    CHECK_OK_ERR(&e, ms_train_run(&e, t, &got));
    ms_train_close(t);
    return got;
}

TEST(runs_on_a_device_that_stays_open_are_those_on_one_of_their_own)
{
    static train_watch      alone, shared;
    ms_train_config         cfg    = configure("cpu", "auto");
    ms_train_config         larger = cfg, other = configure("ref", "auto");
    ms_train_device         device = { 0 };
    const struct musec_ctx *first;

    larger.model.width = 48;
    run(&alone, &cfg, NULL, false, -1);
    (void)run_on(&device, &larger, &shared);
    first = device.ctx;
    CHECK(first != NULL && first->n_taken == 0, "it stays open, without memory of the run");
    (void)run_on(&device, &cfg, &shared);
    train_check_same(&alone, &shared, STEPS);
    CHECK(device.ctx == first, "another device");
    (void)run_on(&device, &other, &shared); /* a run that wants another one gets it */
    CHECK(strcmp(device.wanted, "ref") == 0 && strcmp(device.ctx->name, "ref") == 0, "%s",
          device.wanted);
    (void)run_on(&device, &cfg, &shared);
    train_check_same(&alone, &shared, STEPS);
    ms_train_device_close(&device);
    CHECK(device.ctx == NULL, "it stays open");
}
