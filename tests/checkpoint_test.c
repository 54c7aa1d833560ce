/* checkpoint_test.c - checkpoints that are written, damaged in every byte, interrupted or
 * refused. */
#define _XOPEN_SOURCE 700
#include "check.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/sha256.h"
#include "scratch.h"
#include "train/checkpoint.h"

#define STEP_3 "checkpoint/step_00000003"
#define STEP_6 "checkpoint/step_00000006"

static const char *const files[] = { "model.safetensors", "optim.safetensors", "state.json" };

/* ---- a run that writes checkpoints ----------------------------------------------------------- */

typedef enum trouble {
    NO_TROUBLE,
    MODEL_FAILS,
    OPTIM_FAILS,
    OPTIM_WRITES_NOTHING,
    KILLED_IN_OPTIM
} trouble;

typedef struct run {
    int     fill; /* every byte of the model; the optimizer's are one more */
    size_t  bytes;
    trouble trouble;
} run;

static musec_status write_file(ms_error *e, const char *path, int byte, size_t bytes)
{
    static unsigned char data[20000];
    ms_out_file          out = { 0 };
    musec_status         st;

    memset(data, byte, bytes);
    TRY(ms_out_open(e, path, &out));
    TRY(ms_out_write(e, &out, data, bytes));
    TRY(ms_out_commit(e, &out));
done:
    ms_out_abandon(&out);
    return st;
}

static musec_status write_model(ms_error *e, void *arg, const char *path)
{
    const run *r = arg;
    if (r->trouble == MODEL_FAILS) return ms_fail(e, MUSEC_EDEVICE, "the model is on fire");
    return write_file(e, path, r->fill, r->bytes);
}

static musec_status write_optim(ms_error *e, void *arg, const char *path)
{
    const run *r = arg;
    if (r->trouble == OPTIM_FAILS) return ms_fail(e, MUSEC_EDEVICE, "the optimizer is on fire");
    if (r->trouble == OPTIM_WRITES_NOTHING) return MUSEC_OK;
    if (r->trouble == KILLED_IN_OPTIM) raise(SIGKILL);
    return write_file(e, path, r->fill + 1, r->bytes / 2);
}

static musec_status save(ms_error *e, const char *dir, int64_t step, run r, int64_t keep)
{
    const ms_checkpoint_writer writer = { write_model, write_optim, &r, NULL };
    json_t *state = json_pack("{s:I,s:f,s:{s:s}}", "step", (json_int_t)step, "loss", 0.1, "config",
                              "name", "t\xc3\xa9st \"1\"");
    const musec_status st = ms_checkpoint_write(e, dir, step, &writer, state, keep);
    json_decref(state);
    return st;
}

static void save_ok(const char *dir, int64_t step, int fill, int64_t keep)
{
    ms_error e;
    CHECK_OK_ERR(&e, save(&e, dir, step, (run){ .fill = fill, .bytes = 40 }, keep));
}

static void expect_state(const ms_checkpoint *c, int64_t step)
{
    const json_t *config = json_object_get(c->state, "config");
    CHECK(c->step == step, "step %d", (int)c->step);
    CHECK(json_object_size(c->state) == 3, "%zu", json_object_size(c->state));
    CHECK(json_integer_value(json_object_get(c->state, "step")) == step, "step");
    CHECK(json_real_value(json_object_get(c->state, "loss")) == 0.1, "loss");
    CHECK(strcmp(json_string_value(json_object_get(config, "name")), "t\xc3\xa9st \"1\"") == 0,
          "config");
}

/* The newest checkpoint of the run is of this step, and its model holds `fill`. */
static void expect_newest(const char *dir, int64_t step, int fill, const char *warned)
{
    ms_checkpoint c;
    ms_error      e;
    char          warning[1024];
    blob          b;

    CHECK_OK_ERR(&e, ms_checkpoint_newest(&e, dir, NULL, &c, warning));
    expect_state(&c, step);
    get_file(path_in(c.dir, "model.safetensors"), &b);
    CHECK(b.n == 40 && b.p[0] == fill && b.p[39] == fill, "%s", c.dir);
    if (warned == NULL)
        CHECK(warning[0] == '\0', "%s", warning);
    else
        CHECK(strstr(warning, warned) != NULL, "no '%s' in: %s", warned, warning);
    ms_checkpoint_close(&c);
    CHECK(c.step == -1 && c.state == NULL, "closed");
    ms_checkpoint_close(&c);
}

static void expect_damaged(const char *checkpoint, const char *file, const char *words)
{
    ms_checkpoint c;
    ms_error      e = { "" };
    CHECK(ms_checkpoint_open(&e, checkpoint, &c) != MUSEC_OK, "%s was opened", checkpoint);
    CHECK(c.state == NULL && c.step == -1, "%s", checkpoint);
    CHECK(strstr(e.text, file) != NULL && strstr(e.text, words) != NULL, "no '%s', '%s' in: %s",
          file, words, e.text);
}

/* Adds all names below a directory and the sums of the files. */
static void add_tree(ms_sha256 *s, const char *dir, int depth)
{
    struct dirent **list;
    const int       n = scandir(dir, &list, NULL, alphasort);
    CHECK(n >= 0, "%s", dir);
    for (int i = 0; i < n; i++) {
        char        path[MS_PATH_MAX], sum[MS_SHA256_HEX] = "";
        struct stat sb;
        if (strcmp(list[i]->d_name, ".") != 0 && strcmp(list[i]->d_name, "..") != 0) {
            CHECK(ms_path_join(NULL, dir, list[i]->d_name, path) == MUSEC_OK, "%s", dir);
            CHECK(stat(path, &sb) == 0 && depth < 9, "%s", path);
            ms_sha256_add(s, list[i]->d_name, strlen(list[i]->d_name) + 1);
            if (S_ISDIR(sb.st_mode))
                add_tree(s, path, depth + 1);
            else
                CHECK(ms_sha256_file(NULL, path, sum) == MUSEC_OK, "%s", path);
            ms_sha256_add(s, sum, sizeof sum);
        }
        free(list[i]);
    }
    free(list);
}

static const char *tree(const char *dir)
{
    static char sums[2][MS_SHA256_HEX];
    static int  turn = 0;
    ms_sha256   s;
    ms_sha256_init(&s);
    add_tree(&s, dir, 0);
    turn = !turn;
    ms_sha256_end(&s, sums[turn]);
    return sums[turn];
}

static int count_entries(const char *dir)
{
    struct dirent **list;
    const int       n = scandir(dir, &list, NULL, NULL);
    for (int i = 0; i < n; i++)
        free(list[i]);
    if (n >= 0) free(list);
    return n - 2;
}

static bool exists(const char *dir, const char *name)
{
    return access(path_in(dir, name), F_OK) == 0;
}

static void make_dir(const char *path) { CHECK(mkdir(path, 0777) == 0, "%s", path); }

/* ---- tests ----------------------------------------------------------------------------------- */

TEST(checkpoints_are_read_back_as_written)
{
    const char   *dir = fresh_dir();
    ms_error      e;
    ms_checkpoint c;
    char          warning[1024], sum[MS_SHA256_HEX];
    const char   *path = path_in(dir, STEP_3);
    json_t       *j;

    CHECK_OK_ERR(&e, ms_checkpoint_newest(&e, dir, NULL, &c, warning)); /* none yet */
    CHECK(c.step == -1 && c.state == NULL && warning[0] == '\0', "%d", (int)c.step);
    save_ok(dir, 3, 'a', 0);
    expect_newest(dir, 3, 'a', NULL);
    CHECK(count_entries(dir) == 1 && count_entries(path_in(dir, "checkpoint")) == 1, "entries");
    CHECK(count_entries(path_in(dir, STEP_3)) == 3, "files");
    CHECK_OK_ERR(&e, ms_checkpoint_open(&e, path_in(path, "/"), &c));
    expect_state(&c, 3);
    ms_checkpoint_close(&c);

    j = json_load_file(path_in(path, "state.json"), 0, NULL);
    CHECK(json_object_size(j) == 3 && json_object_size(json_object_get(j, "files")) == 2, "keys");
    for (int i = 0; i < 2; i++) {
        const json_t *said = json_object_get(json_object_get(j, "files"), files[i]);
        CHECK(ms_sha256_file(&e, path_in(path, files[i]), sum) == MUSEC_OK, "%s", e.text);
        CHECK(strcmp(json_string_value(json_object_get(said, "sha256")), sum) == 0, "%s", sum);
        CHECK(json_integer_value(json_object_get(said, "bytes")) == (i == 0 ? 40 : 20), "bytes");
    }
    json_decref(j);

    CHECK(rename(path, path_in(dir, "best")) == 0, "rename"); /* a copy may have any name */
    CHECK_OK_ERR(&e, ms_checkpoint_open(&e, path_in(dir, "best"), &c));
    expect_state(&c, 3);
    ms_checkpoint_close(&c);
}

TEST(every_flipped_byte_is_found)
{
    const char *dir = fresh_dir(), *checkpoint = path_in(dir, STEP_3);

    save_ok(dir, 3, 'a', 0);
    for (size_t f = 0; f < COUNT(files); f++) {
        const char *path = path_in(checkpoint, files[f]);
        blob        b;
        get_file(path, &b);
        for (size_t i = 0; i < b.n; i++) {
            for (unsigned bit = 0; bit <= 8; bit++) {
                const unsigned char mask = bit < 8 ? 1u << bit : '\n' ^ ' '; /* the same to JSON */
                b.p[i] ^= mask;
                put_file(path, b.p, b.n);
                expect_damaged(checkpoint, files[f], "damaged");
                b.p[i] ^= mask;
            }
        }
        for (size_t cut = 0; cut < b.n; cut++) {
            put_file(path, b.p, cut);
            expect_damaged(checkpoint, files[f], "damaged");
        }
        b.p[b.n] = '\n';
        put_file(path, b.p, b.n + 1);
        expect_damaged(checkpoint, files[f], "damaged");
        CHECK(remove(path) == 0, "remove");
        expect_damaged(checkpoint, files[f], "No such file");
        make_dir(path);
        expect_damaged(checkpoint, files[f], "Is a directory");
        CHECK(rmdir(path) == 0, "rmdir");
        put_file(path, b.p, b.n);
    }
    expect_newest(dir, 3, 'a', NULL);
}

/* The sum in state.json is right here. */
TEST(states_with_wrong_content_are_refused)
{
#define FILES                                                                 \
    "\"files\": {\"model.safetensors\": {\"bytes\": 40, \"sha256\": \"@\"}, " \
    "\"optim.safetensors\": {\"bytes\": 20, \"sha256\": \"#\"}}"
    static const struct {
        const char *text, *file, *words;
    } cases[] = {
        { "[", "state.json", "no JSON object" },
        { "{\"a\": ", "state.json", "no \"step\"" }, /* its value is the sum */
        { "{\"state\": 3, ", "state.json", "no \"step\"" },
        { "{\"state\": {}, ", "state.json", "no \"step\"" },
        { "{\"state\": {\"step\": -3}, ", "state.json", "no \"step\"" },
        { "{\"state\": {\"step\": 3.0}, ", "state.json", "no \"step\"" },
        { "{\"state\": {\"step\": \"3\"}, ", "state.json", "no \"step\"" },
        { "{\"state\": {\"step\": 4}, " FILES ", ", "state.json",
          "is of step 4, but its directory is called step_00000003" },
        { "{\"state\": {\"step\": 3}, ", "state.json",
          "\"files\" has no bytes and sha256 of model" },
        { "{\"state\": {\"step\": 3}, \"files\": [], ", "state.json", "\"files\" has no bytes" },
        { "{\"state\": {\"step\": 3}, \"files\": {\"model.safetensors\": {\"bytes\": \"40\"}}, ",
          "state.json", "\"files\" has no bytes" },
        { "{\"state\": {\"step\": 3}, \"files\": {\"model.safetensors\": {\"bytes\": 40, "
          "\"sha256\": \"@\"}}, ",
          "state.json", "\"files\" has no bytes and sha256 of optim" },
        { "{\"state\": {\"step\": 3}, \"files\": {\"model.safetensors\": {\"bytes\": 39, "
          "\"sha256\": \"@\"}}, ",
          "model.safetensors", "40 bytes instead of 39" },
        { "{\"state\": {\"step\": 3}, \"files\": {\"model.safetensors\": {\"bytes\": 40, "
          "\"sha256\": \"\"}}, ",
          "model.safetensors", "it does not have the sha256" },
        { "{\"state\": {\"step\": 3}, \"state\": {\"step\": 3}, " FILES ", ", "state.json",
          "no JSON object" },
        { "{\"state\": {\"step\": 3}, " FILES ", ", NULL, NULL },
    };
    const char *dir = fresh_dir(), *checkpoint = path_in(dir, STEP_3);
    char        sum[3][MS_SHA256_HEX];

    save_ok(dir, 3, 'a', 0);
    for (int i = 0; i < 2; i++)
        CHECK(ms_sha256_file(NULL, path_in(checkpoint, files[i]), sum[i]) == MUSEC_OK, "sum");
    for (size_t c = 0; c < COUNT(cases); c++) {
        char      head[1024], text[2048];
        int       n = 0;
        ms_sha256 s;
        for (const char *p = cases[c].text; *p != '\0'; p++) /* @ and # stand for sums */
            n +=
                snprintf(head + n, sizeof head - (size_t)n, "%.*s", *p == '@' || *p == '#' ? 64 : 1,
                         *p == '@'   ? sum[0]
                         : *p == '#' ? sum[1]
                                     : p);
        if (strcmp(cases[c].text, "{\"a\": ") != 0)
            n += snprintf(head + n, sizeof head - (size_t)n, "\"sha256\": ");
        n += snprintf(head + n, sizeof head - (size_t)n, "\"");
        ms_sha256_init(&s);
        ms_sha256_add(&s, head, (size_t)n);
        ms_sha256_end(&s, sum[2]);
        n = snprintf(text, sizeof text, "%s%s\"\n}\n", head, sum[2]);
        put_file(path_in(checkpoint, "state.json"), text, (size_t)n);
        if (cases[c].words != NULL) {
            expect_damaged(checkpoint, cases[c].file, cases[c].words);
        } else {
            ms_checkpoint ok;
            ms_error      e;
            CHECK_OK_ERR(&e, ms_checkpoint_open(&e, checkpoint, &ok));
            CHECK(ok.step == 3, "step");
            ms_checkpoint_close(&ok);
        }
    }
#undef FILES
}

static void damage(const char *checkpoint, const char *file)
{
    blob b;
    get_file(path_in(checkpoint, file), &b);
    b.p[b.n / 2] ^= 4;
    put_file(path_in(checkpoint, file), b.p, b.n);
}

TEST(damaged_checkpoints_are_skipped)
{
    const char   *dir = fresh_dir();
    char          warning[1024];
    ms_error      e = { "" };
    ms_checkpoint c;

    save_ok(dir, 3, 'a', 0);
    save_ok(dir, 6, 'b', 0);
    expect_newest(dir, 6, 'b', NULL);
    make_dir(path_in(dir, "checkpoint/step_9")); /* no names of checkpoints */
    make_dir(path_in(dir, "checkpoint/step_00000009x"));
    make_dir(path_in(dir, "checkpoint/step_99999999999999999999"));
    make_dir(path_in(dir, "checkpoint/.step_00000009.part.-1"));
    expect_newest(dir, 6, 'b', NULL);
    make_dir(path_in(dir, "checkpoint/step_123456789"));
    expect_newest(dir, 6, 'b', "step_123456789/state.json");
    damage(path_in(dir, STEP_6), "optim.safetensors");
    expect_newest(dir, 3, 'a', "2 damaged, going back to step_00000003");
    damage(path_in(dir, STEP_3), "state.json");
    CHECK(ms_checkpoint_newest(&e, dir, NULL, &c, warning) != MUSEC_OK, "opened");
    CHECK(c.step == -1 && c.state == NULL && warning[0] == '\0', "%s", warning);
    CHECK(strstr(e.text, "step_123456789/state.json: ") && strstr(e.text, "of 3 checkpoints"), "%s",
          e.text);
    CHECK(ms_checkpoint_newest(NULL, dir, NULL, &c, warning) != MUSEC_OK,
          "opened without an ms_error");
}

TEST(keep_removes_all_but_the_newest)
{
    const char *dir = fresh_dir();

    for (int64_t step = 1; step <= 4; step++)
        save_ok(dir, step, 'a', 2);
    CHECK(count_entries(path_in(dir, "checkpoint")) == 2, "entries");
    CHECK(exists(dir, STEP_3) && exists(dir, "checkpoint/step_00000004"), "the newest");
    save_ok(dir, 9, 'b', 0);
    CHECK(count_entries(path_in(dir, "checkpoint")) == 3, "0 keeps all");
    /* A run that went on from before a damaged checkpoint does not count it among the newest. */
    damage(path_in(dir, "checkpoint/step_00000009"), "model.safetensors");
    save_ok(dir, 6, 'c', 1);
    CHECK(count_entries(path_in(dir, "checkpoint")) == 2, "entries");
    expect_newest(dir, 6, 'c', "step_00000009/model.safetensors: damaged");
    save_ok(dir, 9, 'd', 1); /* replaces the damaged one */
    CHECK(count_entries(path_in(dir, "checkpoint")) == 1, "entries");
    expect_newest(dir, 9, 'd', NULL);
}

static pid_t ended_process(void)
{
    const pid_t pid = fork();
    if (pid == 0) _exit(0);
    CHECK(pid > 0 && waitpid(pid, NULL, 0) == pid, "fork");
    return pid;
}

static const char *numbered(const char *dir, const char *name, long pid)
{
    char full[256];
    snprintf(full, sizeof full, "%s%ld", name, pid);
    return path_in(dir, full);
}

TEST(parts_of_dead_processes_are_removed_or_restored)
{
    const char *dir  = fresh_dir();
    const long  gone = (long)ended_process(), own = (long)getpid();

    save_ok(dir, 3, 'a', 0);
    make_dir(numbered(dir, "checkpoint/.step_00000009.part.", gone));
    put_file(path_in(numbered(dir, "checkpoint/.step_00000009.part.", gone), "model"), "x", 1);
    make_dir(numbered(dir, "checkpoint/.step_00000006.part.", own));
    make_dir(numbered(dir, "checkpoint/.step_00000009.part.", (long)getppid()));
    expect_newest(dir, 3, 'a', NULL);
    save_ok(dir, 6, 'b', 0);
    CHECK(count_entries(path_in(dir, "checkpoint")) == 3, "entries");
    CHECK(access(numbered(dir, "checkpoint/.step_00000009.part.", (long)getppid()), F_OK) == 0,
          "the part of a process that runs was removed");
    expect_newest(dir, 6, 'b', NULL);

    /* a process that died between the two renamings of a replacement */
    CHECK(rename(path_in(dir, STEP_6), numbered(dir, "checkpoint/.step_00000006.old.", gone)) == 0,
          "rename");
    expect_newest(dir, 6, 'b', NULL);
    save_ok(dir, 3, 'c', 0);
    CHECK(exists(dir, STEP_6), "it does not have its name again");
    expect_newest(dir, 6, 'b', NULL);
    /* a process that died after them */
    make_dir(numbered(dir, "checkpoint/.step_00000006.old.", gone));
    expect_newest(dir, 6, 'b', NULL);
    save_ok(dir, 7, 'd', 0);
    CHECK(access(numbered(dir, "checkpoint/.step_00000006.old.", gone), F_OK) != 0, "left");
    expect_newest(dir, 7, 'd', NULL);
}

TEST(a_run_killed_while_writing_keeps_its_last_checkpoint)
{
    const char *dir = fresh_dir();
    int         how = 0;
    pid_t       pid;

    save_ok(dir, 3, 'a', 1);
    pid = fork();
    if (pid == 0) {
        (void)save(NULL, dir, 6, (run){ 'b', 40, KILLED_IN_OPTIM }, 1);
        _exit(0);
    }
    CHECK(pid > 0 && waitpid(pid, &how, 0) == pid && WIFSIGNALED(how), "it was not killed");
    CHECK(count_entries(path_in(dir, "checkpoint")) == 2, "nothing was begun");
    expect_newest(dir, 3, 'a', NULL);
    save_ok(dir, 6, 'c', 1);
    CHECK(count_entries(path_in(dir, "checkpoint")) == 1, "entries");
    expect_newest(dir, 6, 'c', NULL);
}

TEST(failed_writes_change_nothing)
{
    static const struct {
        trouble     trouble;
        const char *words;
    } cases[] = {
        { MODEL_FAILS, "the model is on fire" },
        { OPTIM_FAILS, "the optimizer is on fire" },
        { OPTIM_WRITES_NOTHING, "optim.safetensors: cannot open (No such file" },
    };

    for (int first = 0; first < 2; first++) { /* with two checkpoints, and without any */
        const char *dir = fresh_dir();
        char        before[MS_SHA256_HEX];
        if (first == 0) save_ok(dir, 3, 'a', 0);
        if (first == 0) save_ok(dir, 6, 'b', 0);
        snprintf(before, sizeof before, "%s", tree(dir));
        for (size_t c = 0; c < COUNT(cases); c++) {
            for (int64_t step = 6; step <= 9; step += 3) {
                ms_error  e = { "" };
                const run r = { 'c', 40, cases[c].trouble };
                CHECK(save(&e, dir, step, r, 1) != MUSEC_OK, "written");
                CHECK(strstr(e.text, cases[c].words) != NULL, "%s", e.text);
                CHECK(strcmp(tree(dir), before) == 0, "%s: something changed", cases[c].words);
            }
        }
    }
}

/* A limit on the size of files stands for a full disk. */
TEST(a_full_disk_changes_nothing)
{
    const char   *dir = fresh_dir();
    struct rlimit old, low;
    char          before[MS_SHA256_HEX];

    save_ok(dir, 3, 'a', 0);
    snprintf(before, sizeof before, "%s", tree(dir));
    CHECK(getrlimit(RLIMIT_FSIZE, &old) == 0, "getrlimit");
    signal(SIGXFSZ, SIG_IGN);
    low = old;
    for (low.rlim_cur = 0; low.rlim_cur <= 10000; low.rlim_cur += 100) {
        ms_error     e = { "" };
        musec_status st;
        const size_t bytes = low.rlim_cur < 300 ? 40 : 10001; /* only state.json is too large */
        CHECK(setrlimit(RLIMIT_FSIZE, &low) == 0, "setrlimit");
        st = save(&e, dir, 6, (run){ .fill = 'b', .bytes = bytes }, 1);
        CHECK(setrlimit(RLIMIT_FSIZE, &old) == 0, "setrlimit");
        CHECK(st == MUSEC_EIO, "written with %d bytes", (int)low.rlim_cur);
        CHECK(strstr(e.text, bytes == 40 && low.rlim_cur > 0 ? "state.json: " : "model") != NULL,
              "%s", e.text);
        CHECK(strcmp(tree(dir), before) == 0, "something changed");
    }
    save_ok(dir, 6, 'b', 0);
    expect_newest(dir, 6, 'b', NULL);
}

TEST(unwritable_paths_and_wrong_arguments_are_refused)
{
    const char                *dir    = fresh_dir();
    const ms_checkpoint_writer writer = { write_model, write_optim, NULL, NULL };
    const run                  r      = { .fill = 'a', .bytes = 40 };
    json_t                    *other  = json_pack("{s:i}", "step", 4);
    char                       before[MS_SHA256_HEX], longer[MS_PATH_MAX], warning[1024];
    ms_error                   e = { "" };
    ms_checkpoint              c;

    CHECK_FAILS(&e, save(&e, path_in(dir, "gone"), 3, r, 1), MUSEC_EIO,
                "gone/checkpoint: cannot create the directory (No such");
    put_file(path_in(dir, "checkpoint"), "x", 1);
    snprintf(before, sizeof before, "%s", tree(dir));
    CHECK_FAILS(&e, save(&e, dir, 3, r, 1), MUSEC_EIO,
                "checkpoint: cannot read the directory (Not a directory");
    CHECK(ms_checkpoint_newest(&e, dir, NULL, &c, warning) == MUSEC_EIO && c.step == -1, "a file");
    CHECK(strcmp(tree(dir), before) == 0, "something changed");
    CHECK(remove(path_in(dir, "checkpoint")) == 0, "remove");

    save_ok(dir, 3, 'a', 1);
    put_file(path_in(dir, STEP_6), "x", 1);
    snprintf(before, sizeof before, "%s", tree(dir));
    CHECK_FAILS(&e, save(&e, dir, 6, r, 1), MUSEC_EIO,
                "step_00000006: cannot put the checkpoint in place");
    CHECK(strcmp(tree(dir), before) == 0, "something changed");
    expect_newest(dir, 3, 'a', "step_00000006/state.json");

    CHECK(save(&e, dir, -1, r, 1) == MUSEC_EINVAL, "a step of -1");
    CHECK(save(&e, dir, 9, r, -1) == MUSEC_EINVAL, "keep -1");
    CHECK_FAILS(&e, ms_checkpoint_write(&e, dir, 3, &writer, other, 1), MUSEC_EINVAL, "\"step\"");
    CHECK(ms_checkpoint_write(&e, dir, 3, &writer, NULL, 1) == MUSEC_EINVAL, "no state");
    json_decref(other);
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    CHECK_FAILS(&e, save(&e, longer, 3, r, 1), MUSEC_EIO, "too long");
    CHECK(ms_checkpoint_open(&e, longer, &c) == MUSEC_EIO && c.state == NULL, "a long path");
    CHECK(strcmp(tree(dir), before) == 0, "something changed");
}

/* Stands for what a run reads of a state: step 2 is whole by its sums, and of no use. */
static musec_status refuse_step_2(ms_error *e, const ms_checkpoint *c)
{
    if (json_integer_value(json_object_get(c->state, "step")) != 2) return MUSEC_OK;
    return ms_fail(e, MUSEC_EFORMAT, "%s: it has no loss", c->dir);
}

TEST(a_whole_checkpoint_that_cannot_be_used_is_skipped)
{
    const char   *dir = fresh_dir();
    ms_checkpoint c;
    ms_error      e = { "" };
    char          warning[1024];

    save_ok(dir, 1, 'a', 0);
    save_ok(dir, 2, 'b', 0);
    CHECK_OK_ERR(&e, ms_checkpoint_newest(&e, dir, refuse_step_2, &c, warning));
    CHECK(c.step == 1 && strstr(warning, "it has no loss") != NULL, "step %d: %s", (int)c.step,
          warning);
    ms_checkpoint_close(&c);
}

TEST(a_checkpoint_that_cannot_be_used_gets_no_name)
{
    const char                *dir    = fresh_dir();
    run                        r      = { .fill = 'b', .bytes = 40 };
    const ms_checkpoint_writer writer = { write_model, write_optim, &r, refuse_step_2 };
    json_t                    *state  = json_pack("{s:i}", "step", 2);
    ms_error                   e      = { "" };

    save_ok(dir, 1, 'a', 0);
    CHECK_FAILS(&e, ms_checkpoint_write(&e, dir, 2, &writer, state, 0), MUSEC_EFORMAT,
                "it has no loss");
    expect_newest(dir, 1, 'a', NULL);
    json_decref(state);
}
