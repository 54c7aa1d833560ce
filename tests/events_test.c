/* events_test.c - the event file, cut at every byte, damaged at every byte, and with bad
 * records. */
#define _XOPEN_SOURCE 700
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "event_reader.h"
#include "train/events.h"

static void open_events(const char *path, int64_t from_step, ms_events *events)
{
    ms_error e;
    CHECK_OK_ERR(&e, ms_events_open(&e, path, from_step, events));
}

static void close_events(ms_events *events)
{
    ms_error e;
    CHECK_OK_ERR(&e, ms_append_close(&e, &events->file));
}

static void write_step(ms_events *events, int64_t step, double value)
{
    ms_error e;
    ms_event ev;
    ms_event_begin(&ev, step);
    ms_event_add(&ev, NULL, "loss", value);
    ms_event_add(&ev, "qk", "w_norm", 2 * value);
    CHECK_OK_ERR(&e, ms_events_write(&e, events, &ev));
}

static void make(const char *path, const int64_t *steps, size_t n, blob *b)
{
    ms_events events;
    open_events(path, 0, &events);
    for (size_t i = 0; i < n; i++)
        write_step(&events, steps[i], (double)steps[i] / 3);
    close_events(&events);
    get_file(path, b);
}

static void expect_failure(const char *path, int64_t from_step, const char *words)
{
    ms_error  e = { "" };
    ms_events events;
    CHECK(ms_events_open(&e, path, from_step, &events) == MUSEC_EFORMAT, "it was opened");
    CHECK(events.file.fd == -1, "it is open");
    CHECK(strncmp(e.text, path, strlen(path)) == 0 && strstr(e.text, words) != NULL, "%s", e.text);
}

/* The steps' varints take one to nine bytes; the values reach the ends of float32. */
TEST(numbers_of_all_sizes_are_read_back)
{
    static const int64_t steps[] = { 1, 127, 128, 16383, 16384, INT64_C(1) << 40, INT64_MAX };
    static scalars       s[COUNT(steps) + 1];
    const char          *path = path_in(fresh_dir(), "tfevents");
    blob                 b;
    ms_events            events;
    ms_error             e;
    ms_event             ev;

    CHECK(crc32c((const unsigned char *)"123456789", 9) == 0xe3069283u, "crc32c() here is wrong");
    make(path, steps, COUNT(steps), &b);
    CHECK(read_events(path, s, COUNT(steps)) == COUNT(steps), "events");
    for (size_t i = 0; i < COUNT(steps); i++) {
        CHECK(s[i].step == steps[i] && s[i].n == 2, "%zu", i);
        expect_scalar(&s[i], "loss", (double)steps[i] / 3);
        expect_scalar(&s[i], "qk/w_norm", 2 * ((double)steps[i] / 3));
    }
    open_events(path, INT64_C(1) << 40, &events);
    ms_event_begin(&ev, INT64_C(1) << 41);
    ms_event_add(&ev, NULL, "nan", (double)NAN);
    ms_event_add(&ev, NULL, "inf", -(double)INFINITY);
    ms_event_add(&ev, NULL, "small", 1e-40);
    CHECK_OK_ERR(&e, ms_events_write(&e, &events, &ev));
    close_events(&events);
    CHECK(read_events(path, s, COUNT(steps)) == COUNT(steps), "one was cut, one was added");
    expect_scalar(&s[COUNT(steps) - 1], "nan", (double)NAN);
    expect_scalar(&s[COUNT(steps) - 1], "inf", -(double)INFINITY);
    expect_scalar(&s[COUNT(steps) - 1], "small", 1e-40);
}

/* A file with three steps; returns where the last event begins. */
static size_t make_three(const char *path, blob *b)
{
    make(path, (const int64_t[]){ 1, 2, 3 }, 3, b);
    return last_event(b);
}

TEST(incomplete_events_at_the_end_are_cut)
{
    static scalars s[4];
    const char    *path = path_in(fresh_dir(), "tfevents");
    blob           b, now;
    const size_t   last = make_three(path, &b);

    for (size_t cut = 0; cut < b.n; cut++) {
        ms_events events;
        put_file(path, b.p, cut);
        open_events(path, 3, &events);
        CHECK(cut < last || events.file.bytes == (int64_t)last, "cut at %zu", cut);
        CHECK((size_t)events.file.bytes <= cut || cut < 50, "cut at %zu", cut);
        if (cut % 8 == 0) { /* closing waits for the disk */
            write_step(&events, 4, 7);
            close_events(&events);
            CHECK(read_events(path, s, 4) >= 1, "cut at %zu", cut);
            get_file(path, &now);
            CHECK(cut < last || memcmp(now.p, b.p, last) == 0, "events before it changed");
        } else {
            close_events(&events);
        }
    }
}

TEST(every_flipped_byte_is_found)
{
    const char  *path = path_in(fresh_dir(), "tfevents");
    blob         b, now;
    const size_t last = make_three(path, &b);

    for (size_t i = 0; i < b.n; i++) {
        for (unsigned bit = 0; bit < 8; bit += 7) {
            b.p[i] ^= 1u << bit;
            put_file(path, b.p, b.n);
            expect_failure(path, 3, "damaged at byte");
            get_file(path, &now);
            CHECK(now.n == b.n && memcmp(now.p, b.p, now.n) == 0, "it was changed");
            if (i >= last && i % 8 == 0) { /* after the step: it is cut off */
                ms_events events;
                open_events(path, 2, &events);
                CHECK(events.file.bytes == (int64_t)last, "byte %zu", i);
                close_events(&events);
            }
            b.p[i] ^= 1u << bit;
        }
    }
}

/* The records' lengths and sums are right. */
TEST(records_that_are_no_events_are_refused)
{
    static const struct {
        const char *bytes;
        size_t      n;
    } cases[] = {
        { "\x10", 1 },                                          /* a step without its number */
        { "\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11 }, /* a number without an end */
        { "\x09\x01", 2 },                                      /* a double of one byte */
        { "\x15\x01", 2 },                                      /* a float of one byte */
        { "\x1a\x05words", 6 },                                 /* a string beyond the end */
        { "\x1a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10 },     /* far beyond */
        { "\x1a\xf5\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11 }, /* back to its own beginning */
        { "\x0b", 1 },                                          /* an unknown wire type */
    };
    const char *path = path_in(fresh_dir(), "tfevents");

    for (size_t c = 0; c < COUNT(cases); c++) {
        unsigned char record[64] = { (unsigned char)cases[c].n };
        for (int part = 0; part < 2; part++) {
            const size_t   at  = part == 0 ? 8 : 12 + cases[c].n;
            const uint32_t crc = part == 0
                                     ? crc32c(record, 8)
                                     : crc32c((const unsigned char *)cases[c].bytes, cases[c].n);
            const uint32_t sum = (crc >> 15 | crc << 17) + 0xa282ead8u;
            for (int i = 0; i < 4; i++)
                record[at + (size_t)i] = (unsigned char)(sum >> (8 * i));
        }
        memcpy(record + 12, cases[c].bytes, cases[c].n);
        put_file(path, record, 16 + cases[c].n);
        expect_failure(path, 3, "damaged at byte 0");
    }
}
