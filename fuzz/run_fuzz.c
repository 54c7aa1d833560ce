/* run_fuzz.c - any bytes as a file from which a run is resumed.
 *
 *     byte 0   c  config.json
 *              s  state.json of a checkpoint without the final checksum, which is added
 *              S  state.json with its checksum
 *              l  log.jsonl; byte 1 is the step to resume from
 *              e  the events file; byte 1 is the step to resume from
 *              E  events, each after a byte with its length, from which records with checksums are
 *                 made; byte 1 is the step to resume from
 *
 * What is read, written and read again is unchanged; truncating a log again changes nothing. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/sha256.h"
#include "fuzz.h"
#include "train/checkpoint.h"
#include "train/config.h"
#include "train/events.h"
#include "train/runlog.h"

enum { TEXT_BYTES = 1 << 16, RECORD_BYTES = 12 + 255 + 4 };

/* ---- config.json ----------------------------------------------------------------------------- */

static void run_config(const uint8_t *data, size_t size)
{
    const char     *path = fuzz_file("config.json", data, size);
    ms_train_config cfg, again;
    ms_error        e = { "" };

    if (!fuzz_ok(ms_train_config_read(&e, path, &cfg), &e)) return;
    REQUIRE(fuzz_ok(ms_train_config_write(&e, path, &cfg), &e));
    REQUIRE(fuzz_ok(ms_train_config_read(&e, path, &again), &e));
    REQUIRE(ms_train_config_differs(&cfg, &again, 0) == NULL);
    (void)fuzz_ok(ms_train_config_check(&e, &cfg), &e);
}

/* ---- a checkpoint ---------------------------------------------------------------------------- */

/* The seeds contain the checksums of these two files. */
static void make_checkpoint(void)
{
    static bool made = false;

    if (made) return;
    made = true;
    REQUIRE(mkdir(fuzz_path("checkpoint"), 0777) == 0);
    REQUIRE(mkdir(fuzz_path("checkpoint/step_00000003"), 0777) == 0);
    fuzz_file("checkpoint/step_00000003/model.safetensors", "model", 5);
    fuzz_file("checkpoint/step_00000003/optim.safetensors", "optim", 5);
}

static void run_state(const uint8_t *data, size_t size, bool seal)
{
    static char     text[TEXT_BYTES];
    char            warning[sizeof(ms_error)], sum[MS_SHA256_HEX];
    ms_sha256       s;
    ms_error        e = { "" };
    ms_checkpoint   c;
    ms_train_config cfg;

    make_checkpoint();
    if (size > sizeof text - 100) return;
    if (size > 0) memcpy(text, data, size);
    if (seal) {
        ms_sha256_init(&s);
        ms_sha256_add(&s, text, size);
        ms_sha256_end(&s, sum);
        size += (size_t)snprintf(text + size, sizeof text - size, "%s\"\n}\n", sum);
    }
    fuzz_file("checkpoint/step_00000003/state.json", text, size);
    if (fuzz_ok(ms_checkpoint_newest(&e, fuzz_path("."), NULL, &c, warning), &e)) {
        REQUIRE(c.step == 3 && c.state != NULL && warning[0] == '\0');
        (void)fuzz_ok(ms_train_config_from_json(&e, "it", json_object_get(c.state, "config"), &cfg),
                      &e);
    } else {
        REQUIRE(c.step == -1 && c.state == NULL);
    }
    ms_checkpoint_close(&c);
}

/* ---- log and events -------------------------------------------------------------------------- */

static int64_t bytes_of(const char *path)
{
    struct stat sb;
    REQUIRE(stat(path, &sb) == 0);
    return (int64_t)sb.st_size;
}

static void run_log(int64_t from, const uint8_t *data, size_t size)
{
    const char       *path = fuzz_file("log.jsonl", data, size);
    const ms_log_line line = { .step = from + 1, .loss = 1.0 };
    ms_runlog        *log  = NULL;
    ms_error          e    = { "" };
    int64_t           cut;
    double            time;

    fuzz_file("events.out.tfevents.musec", "", 0);
    if (!fuzz_ok(ms_runlog_open(&e, fuzz_path("."), from, &log), &e)) return;
    cut  = bytes_of(path);
    time = ms_runlog_time(log);
    REQUIRE(cut <= (int64_t)size + 1); /* a newline may be missing at the end */
    REQUIRE(fuzz_ok(ms_runlog_write(&e, log, &line), &e));
    REQUIRE(fuzz_ok(ms_runlog_close(&e, log), &e));
    REQUIRE(bytes_of(path) > cut);
    if (from == 0) return; /* the log begins anew */
    REQUIRE(fuzz_ok(ms_runlog_open(&e, fuzz_path("."), from, &log), &e));
    REQUIRE(bytes_of(path) == cut && ms_runlog_time(log) == time);
    REQUIRE(fuzz_ok(ms_runlog_close(&e, log), &e));
}

static void run_events(int64_t from, const uint8_t *data, size_t size)
{
    const char *path = fuzz_file("events.out.tfevents.musec", data, size);
    ms_events   events;
    ms_error    e = { "" };
    int64_t     cut;

    if (!fuzz_ok(ms_events_open(&e, path, from, &events), &e)) return;
    cut = events.file.bytes;
    REQUIRE(cut == bytes_of(path));
    REQUIRE(fuzz_ok(ms_append_close(&e, &events.file), &e));
    if (from == 0) return;
    REQUIRE(fuzz_ok(ms_events_open(&e, path, from, &events), &e));
    REQUIRE(cut == bytes_of(path));
    REQUIRE(fuzz_ok(ms_append_close(&e, &events.file), &e));
}

static void put_sum(unsigned char *at, const unsigned char *p, size_t n) /* CRC-32C, masked */
{
    uint32_t crc = ~0u;
    for (size_t i = 0; i < 8 * n; i++)
        crc = crc >> 1 ^ ((crc ^ p[i / 8] >> i % 8) & 1 ? 0x82F63B78u : 0);
    crc = ~crc;
    crc = (crc >> 15 | crc << 17) + 0xA282EAD8u;
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(crc >> 8 * i);
}

static void run_framed_events(int64_t from, const uint8_t *data, size_t size)
{
    static unsigned char file[TEXT_BYTES];
    size_t               n = 0;

    while (size > 0 && n + RECORD_BYTES <= sizeof file) {
        const size_t   said = fuzz_take(&data, &size), bytes = said < size ? said : size;
        unsigned char *record = file + n;
        memset(record, 0, 8);
        record[0] = (unsigned char)bytes;
        put_sum(record + 8, record, 8);
        if (bytes > 0) memcpy(record + 12, data, bytes);
        put_sum(record + 12 + bytes, record + 12, bytes);
        data += bytes;
        size -= bytes;
        n += 12 + bytes + 4;
    }
    run_events(from, file, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const unsigned what = fuzz_take(&data, &size);

    switch (what) {
    case 'c': run_config(data, size); return 0;
    case 's': run_state(data, size, true); return 0;
    case 'S': run_state(data, size, false); return 0;
    default: break;
    }
    const int64_t from = fuzz_take(&data, &size);
    if (what == 'l') run_log(from, data, size);
    if (what == 'e') run_events(from, data, size);
    if (what == 'E') run_framed_events(from, data, size);
    return 0;
}
