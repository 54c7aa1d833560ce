/* train_start_test.c - run directories that never collide, the operations of a run counted by hand,
 * and the warnings before a run. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/train_start.h"
#include "scratch.h"
#include "train_rig.h"

/* ---- directories ----------------------------------------------------------------------------- */

TEST(a_run_directory_that_exists_gets_the_next_number)
{
    static const char *const want[] = { "runs/pico-muon-lr0.02-s0", "runs/pico-muon-lr0.02-s0-2",
                                        "runs/pico-muon-lr0.02-s0-3" };
    const ms_train_config    cfg    = train_config("pico", "muon", NULL);
    char                     out[MS_PATH_MAX];
    ms_error                 e = { "" };

    CHECK(chdir(fresh_dir()) == 0, "chdir");
    for (size_t i = 0; i < COUNT(want); i++) {
        CHECK_OK_ERR(&e, ms_run_directory(&e, &cfg, out));
        CHECK(strcmp(out, want[i]) == 0, "%s", out);
        CHECK(access(out, W_OK) == 0, "%s is not there", out);
    }
    put_file("runs/pico-muon-lr0.02-s0-4", "a file", 6);
    CHECK_OK_ERR(&e, ms_run_directory(&e, &cfg, out));
    CHECK(strcmp(out, "runs/pico-muon-lr0.02-s0-5") == 0, "%s", out);
}

/* Processes that start at the same time each write the number that they got to a pipe. */
TEST(two_processes_never_get_the_same_directory)
{
    enum { PROCESSES = 8, EACH = 25 };
    const ms_train_config cfg = train_config("pico", "muon", NULL);
    static bool           seen[PROCESSES * EACH + 1];
    int                   ends[2], go[2], number;

    CHECK(chdir(fresh_dir()) == 0 && pipe(ends) == 0 && pipe(go) == 0, "pipe");
    fflush(NULL);
    for (int k = 0; k < PROCESSES; k++) {
        if (fork() != 0) continue;
        char     out[MS_PATH_MAX], c;
        ms_error e;
        close(go[1]);
        if (read(go[0], &c, 1) != 0) _exit(1); /* returns when all processes exist */
        for (int i = 0; i < EACH; i++) {
            if (ms_run_directory(&e, &cfg, out) != MUSEC_OK) _exit(1);
            const char *end = strrchr(out, '-') + 1; /* "s0", or a number */
            number          = *end == 's' ? 1 : (int)strtol(end, NULL, 10);
            if (write(ends[1], &number, sizeof number) != sizeof number) _exit(1);
        }
        _exit(0);
    }
    close(ends[1]);
    close(go[0]);
    close(go[1]);
    for (int i = 0; i < PROCESSES * EACH; i++) {
        CHECK(read(ends[0], &number, sizeof number) == sizeof number, "only %d of them", i);
        CHECK(number >= 1 && number <= PROCESSES * EACH && !seen[number], "%d twice", number);
        seen[number] = true;
    }
    close(ends[0]);
    while (wait(NULL) > 0) {}
}

TEST(a_run_directory_that_cannot_be_made_is_reported)
{
    const ms_train_config cfg = train_config("pico", "muon", NULL);
    char                  out[MS_PATH_MAX];
    ms_error              e = { "" };
    CHECK(chdir(fresh_dir()) == 0, "chdir");
    put_file("runs", "a file", 6);
    CHECK(ms_run_directory(&e, &cfg, out) != MUSEC_OK && strstr(e.text, "runs") != NULL, "%s",
          e.text);
}

/* ---- operations ------------------------------------------------------------------------------ */

/* A training token takes 6 operations for each weight of matrices and head, and 12 for each column
 * of attention and visible key (half of a document of 32), forward and backward; a validation token
 * a third of that. */
TEST(the_operations_of_a_run_are_those_counted_by_hand)
{
    const double token  = 6.0 * (2.0 * (4 * 16 * 16 + 2 * 64 * 16) + 320 * 16) + 2 * 12.0 * 16 * 16;
    ms_train_config cfg = train_config("pico", "adamw",
                                       "layers=2 width=16 heads=2 head=8 mlp=64 vocab=320 batch=64 "
                                       "max_doc=32 val_every=4 steps=10 val_tokens=48 "
                                       "window_long=31 window_short=31");
    ms_schedule     s;
    ms_error        e = { "" };

    train_set(&cfg, "stages", "6 batch=64; rest batch=128");
    CHECK_OK_ERR(&e, ms_train_config_check(&e, &cfg));
    CHECK_OK_ERR(&e, ms_schedule_make(&e, &cfg, &s));
    const struct {
        int64_t first, end;
        double  tokens; /* training tokens with as many operations */
    } cases[] = {
        { 0, 1, 64 },
        { 0, 4, 4 * 64 + 48 / 3.0 },
        { 4, 7, 2 * 64 + 128 },
        { 0, 10, 6 * 64 + 4 * 128 + 3 * 48 / 3.0 }, /* validated at 4, 8 and the end */
        { 10, 10, 0 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const double got = ms_train_work(&cfg, &s, cases[i].first, cases[i].end);
        CHECK(fabs(got - token * cases[i].tokens) <= 1e-9 * (1.0 + got), "case %zu: %g, not %g", i,
              got, token * cases[i].tokens);
    }
    ms_train_config muon = cfg;
    muon.optim           = train_config("pico", "muon", NULL).optim;
    CHECK(ms_train_work(&muon, &s, 0, 1) > ms_train_work(&cfg, &s, 0, 1), "products are free");
}

/* ---- messages -------------------------------------------------------------------------------- */

TEST(counts_and_bytes_are_written_for_people)
{
    static const struct {
        int64_t     n;
        const char *want;
    } counts[] = { { 0, "0" },
                   { 999, "999" },
                   { 1000, "1,000" },
                   { 65536, "65,536" },
                   { 1234567, "1,234,567" },
                   { -1000, "-1,000" },
                   { -100000, "-100,000" } };
    char text[32];
    for (size_t i = 0; i < COUNT(counts); i++) {
        ms_count_text(counts[i].n, text, sizeof text);
        CHECK(strcmp(text, counts[i].want) == 0, "%s, not %s", text, counts[i].want);
    }
    ms_bytes_text(96468992, text, sizeof text);
    CHECK(strcmp(text, "92 MiB") == 0, "%s", text);
    ms_bytes_text((uint64_t)43 << 29, text, sizeof text);
    CHECK(strcmp(text, "21.5 GiB") == 0, "%s", text);
}

TEST(too_little_memory_is_warned_of)
{
    ms_train_start s = { .needed = (uint64_t)8 << 30,
                         .memory = { .available = (uint64_t)8 << 30, .total = (uint64_t)16 << 30 },
                         .advice = "5.0 of them for activations" };
    char           text[512];

    ms_warn_memory(&s, text, sizeof text);
    CHECK(text[0] == '\0', "%s", text);
    s.memory.available -= (uint64_t)1 << 30;
    ms_warn_memory(&s, text, sizeof text);
    CHECK(strstr(text, "8.0 GiB") != NULL && strstr(text, "7.0 GiB are available") != NULL &&
              strstr(text, "5.0 of them for activations") != NULL,
          "%s", text);
    s.memory = (ms_memory){ 0 };
    ms_warn_memory(&s, text, sizeof text);
    CHECK(text[0] == '\0', "nothing is known: %s", text);
}

TEST(runs_of_days_are_warned_of)
{
    const double    day   = 86400.0;
    ms_train_config tiny  = train_config("pico", "muon", NULL),
                    large = train_config("small", "muon", NULL);
    ms_error   e          = { "" };
    musec_ctx *ctx        = NULL;
    char       text[512];

    CHECK(musec_ctx_create(&ctx, "cpu") == MUSEC_OK, "%s", e.text);
    ms_train_start s = { .config = &large, .device = ctx };
    ms_warn_time(&s, 90.0 * day, text, sizeof text);
    CHECK(strcmp(text, "warning: about 90 days on this CPU; try --preset pico or nano, or a GPU") ==
              0,
          "%s", text);
    ms_warn_time(&s, 1.9 * day, text, sizeof text);
    CHECK(text[0] == '\0', "%s", text);
    ms_warn_time(&s, NAN, text, sizeof text);
    CHECK(text[0] == '\0', "%s", text);
    s.config = &tiny;
    ms_warn_time(&s, 3.0 * day, text, sizeof text);
    CHECK(strstr(text, "fewer --steps") != NULL && strstr(text, "--preset") == NULL, "%s", text);
    musec_ctx_destroy(ctx);
}

/* The training tokens are nine tenths of 1000 bytes of text, and a start token. */
TEST(data_read_many_times_are_warned_of)
{
    const char            *path = path_in(fresh_dir(), "book.txt");
    char                   book[1000];
    const ms_loader_config load = {
        .source     = { .path = path, .split = MS_SPLIT_TRAIN, .vocab = 320, .start_id = 256 },
        .max_tokens = 64,
        .keep_rest  = true
    };
    ms_schedule    plan = { .n_stages = 1, .stage = { { .batch = 64, .end = 225 } } };
    ms_train_start s    = { .schedule = &plan };
    ms_error       e    = { "" };
    char           text[512];

    memset(book, 'x', sizeof book);
    put_file(path, book, sizeof book);
    CHECK_OK_ERR(&e, ms_mixture_open(&e, &load, &s.train));
    ms_warn_epochs(&s, 0, text, sizeof text); /* 14,400 tokens from 901: just below 16 times */
    CHECK(text[0] == '\0', "%s", text);
    plan.stage[0].end = 450;
    ms_warn_epochs(&s, 0, text, sizeof text);
    CHECK(strstr(text, "the 901 tokens of book.txt will be read about 32 times") != NULL, "%s",
          text);
    ms_mixture_close(s.train);
    ms_loader_config endless = load;
    endless.source.path      = "builtin";
    CHECK_OK_ERR(&e, ms_mixture_open(&e, &endless, &s.train));
    ms_warn_epochs(&s, 0, text, sizeof text);
    CHECK(text[0] == '\0', "%s", text);
    ms_mixture_close(s.train);
}
