/* events.c - writes and truncates TensorBoard's event file.
 *
 * The file is a sequence of records:
 *     length (8 bytes), crc of the length (4), data (length bytes), crc of the data (4)
 * all little-endian.  The crc is CRC-32C, masked: rotated right by 15 bits, plus 0xa282ead8, so
 * that a crc over data that contains a crc stays a good one.  The data is a protocol buffer, Event:
 *     1 wall_time double, 2 step int64, 3 file_version string, 5 summary Summary
 *     Summary: 1 value Value, any number of times;  Value: 1 tag string, 2 simple_value float
 * The first record has the version and no summary.  In a protocol buffer a field is a key,
 * 8 * number + kind, and what the kind says: 0 a varint (7 bits a byte, the low ones first, the top
 * bit set on all but the last), 1 eight bytes, 2 a varint of bytes and the bytes, 5 four bytes. */
#define _POSIX_C_SOURCE 200809L
#include "train/events.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HEAD_BYTES = 12, CRC_BYTES = 4, EVENT_MAX = 64 /* of an Event without its data */ };
enum { KIND_VARINT = 0, KIND_8 = 1, KIND_BYTES = 2, KIND_4 = 5 };

#define KEY(number, kind) ((unsigned char)(8 * (number) + (kind)))

/* ---- crc ------------------------------------------------------------------------------------- */

/* The polynomial 0x1edc6f41, bits reversed, four bits at a time. */
static uint32_t masked_crc(const unsigned char *p, size_t bytes)
{
    static const uint32_t table[16] = {
        0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
        0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
        0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
    };
    uint32_t crc = 0xffffffff;

    for (size_t i = 0; i < bytes; i++) {
        crc ^= p[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8;
}

static void store(unsigned char *p, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        p[i] = (unsigned char)(x >> (8 * i));
}

static uint64_t load(const unsigned char *p, int bytes)
{
    uint64_t x = 0;
    for (int i = 0; i < bytes; i++)
        x |= (uint64_t)p[i] << (8 * i);
    return x;
}

/* ---- writing --------------------------------------------------------------------------------- */

static size_t put_varint(unsigned char *p, uint64_t x)
{
    size_t n = 0;
    for (; x >= 0x80; x >>= 7)
        p[n++] = (unsigned char)(x | 0x80);
    p[n++] = (unsigned char)x;
    return n;
}

static size_t put_bytes(unsigned char *p, int field, const void *data, size_t bytes)
{
    size_t n = 0;
    p[n++]   = KEY(field, KIND_BYTES);
    n += put_varint(p + n, bytes);
    memcpy(p + n, data, bytes);
    return n + bytes;
}

static double wall_time(void) /* seconds since 1970 */
{
    struct timespec now = { 0 };
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Writes an Event whose field number `field` holds `data` as one record. */
static musec_status write_event(ms_error *e, ms_append *file, int64_t step, int field,
                                const void *data, size_t bytes)
{
    unsigned char  record[HEAD_BYTES + EVENT_MAX + sizeof((ms_event *)0)->summary + CRC_BYTES];
    unsigned char *p    = record + HEAD_BYTES;
    const double   time = wall_time();
    uint64_t       time_bits;
    size_t         n = 0;

    memcpy(&time_bits, &time, sizeof time_bits);
    p[n++] = KEY(1, KIND_8);
    store(p + n, time_bits, 8);
    n += 8;
    p[n++] = KEY(2, KIND_VARINT);
    n += put_varint(p + n, (uint64_t)step);
    n += put_bytes(p + n, field, data, bytes);
    store(record, n, 8);
    store(record + 8, masked_crc(record, 8), 4);
    store(p + n, masked_crc(p, n), 4);
    return ms_append_write(e, file, record, HEAD_BYTES + n + CRC_BYTES);
}

void ms_event_begin(ms_event *ev, int64_t step)
{
    ev->step  = step;
    ev->bytes = 0;
}

void ms_event_add(ms_event *ev, const char *group, const char *tag, double value)
{
    unsigned char one[128];
    char          name[64];
    const int     chars = snprintf(name, sizeof name, "%s%s%s", group == NULL ? "" : group,
                               group == NULL ? "" : "/", tag);
    const float   x     = (float)value;
    uint32_t      bits;
    size_t        n;

    assert(chars >= 0 && (size_t)chars < sizeof name);
    memcpy(&bits, &x, sizeof bits);
    n      = put_bytes(one, 1, name, (size_t)chars);
    one[n] = KEY(2, KIND_4);
    store(one + n + 1, bits, 4);
    n += 5;
    assert(ev->bytes + n + 4 <= sizeof ev->summary);
    ev->bytes += put_bytes(ev->summary + ev->bytes, 1, one, n);
}

musec_status ms_events_write(ms_error *e, ms_events *events, const ms_event *ev)
{
    return write_event(e, &events->file, ev->step, 5, ev->summary, ev->bytes);
}

/* ---- reading and truncating ------------------------------------------------------------------ */

static bool take_varint(const unsigned char *p, size_t bytes, size_t *at, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && *at < bytes; shift += 7) {
        const unsigned char b = p[(*at)++];
        *out |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80) return true;
    }
    return false;
}

/* Reads the step of an Event, 0 if it has none; false if it is no Event. */
static bool event_step(const unsigned char *p, size_t bytes, int64_t *step)
{
    *step = 0;
    for (size_t at = 0; at < bytes;) {
        uint64_t key, x = 0;
        if (!take_varint(p, bytes, &at, &key)) return false;
        switch (key & 7) {
        case KIND_VARINT:
            if (!take_varint(p, bytes, &at, &x)) return false;
            if (key >> 3 == 2) *step = (int64_t)x;
            continue; /* nothing to skip */
        case KIND_8: x = 8; break;
        case KIND_4: x = 4; break;
        case KIND_BYTES:
            if (!take_varint(p, bytes, &at, &x)) return false;
            break;
        default: return false;
        }
        if (x > bytes - at) return false;
        at += (size_t)x;
    }
    return true;
}

typedef enum record_state { RECORD_WHOLE, RECORD_INCOMPLETE, RECORD_DAMAGED } record_state;

typedef struct record {
    unsigned char *data; /* head, event, crc */
    size_t         bytes, capacity;
    int64_t        step;
} record;

/* Reads the next record of a file with `left` more bytes. */
static musec_status read_record(ms_error *e, FILE *f, const char *path, int64_t left, record *r,
                                record_state *state)
{
    unsigned char head[HEAD_BYTES];
    uint64_t      length;
    musec_status  st = MUSEC_OK;

    *state = RECORD_INCOMPLETE;
    if (left < HEAD_BYTES) goto done;
    TRY(ms_file_read(e, f, path, head, sizeof head));
    *state = RECORD_DAMAGED;
    if (load(head + 8, 4) != masked_crc(head, 8)) goto done;
    *state = RECORD_INCOMPLETE;
    length = load(head, 8);
    if (left - HEAD_BYTES < CRC_BYTES || length > (uint64_t)(left - HEAD_BYTES - CRC_BYTES))
        goto done;
    r->bytes = HEAD_BYTES + (size_t)length + CRC_BYTES;
    if (r->bytes > r->capacity) {
        unsigned char *more = realloc(r->data, r->bytes);
        if (more == NULL)
            TRY(ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory for a record of %zu bytes", path,
                        r->bytes));
        r->data     = more;
        r->capacity = r->bytes;
    }
    memcpy(r->data, head, sizeof head);
    TRY(ms_file_read(e, f, path, r->data + HEAD_BYTES, r->bytes - HEAD_BYTES));
    *state = RECORD_DAMAGED;
    if (load(r->data + r->bytes - CRC_BYTES, 4) != masked_crc(r->data + HEAD_BYTES, (size_t)length))
        goto done;
    if (event_step(r->data + HEAD_BYTES, (size_t)length, &r->step)) *state = RECORD_WHOLE;
done:
    return st;
}

/* Replaces the file by one with the records up to from_step.  After a damaged record no other can
 * be found, which is an error only if records to be kept may be missing. */
static musec_status truncate_events(ms_error *e, const char *path, int64_t from_step)
{
    FILE        *f     = NULL;
    ms_out_file  out   = { 0 };
    record       r     = { 0 };
    record_state state = RECORD_WHOLE;
    int64_t      at = 0, last = 0, bytes;
    musec_status st;

    TRY(ms_file_open_read(e, path, &f));
    bytes = ms_file_bytes(f);
    TRY(ms_out_open(e, path, &out));
    while (at < bytes) {
        TRY(read_record(e, f, path, bytes - at, &r, &state));
        if (state == RECORD_DAMAGED && last < from_step)
            TRY(ms_fail(e, MUSEC_EFORMAT,
                        "%s: damaged at byte %lld, after step %lld, before step %lld; move it away"
                        " to resume without it",
                        path, (long long)at, (long long)last, (long long)from_step));
        if (state != RECORD_WHOLE) break;
        if (r.step > last) last = r.step;
        if (r.step <= from_step) TRY(ms_out_write(e, &out, r.data, r.bytes));
        at += (int64_t)r.bytes;
    }
    TRY(ms_out_commit(e, &out));
done:
    ms_out_abandon(&out);
    free(r.data);
    if (f != NULL) fclose(f);
    return st;
}

musec_status ms_events_open(ms_error *e, const char *path, int64_t from_step, ms_events *out)
{
    static const char version[] = "brain.Event:2";
    musec_status      st        = MUSEC_OK;

    out->file.fd = -1;
    if (from_step > 0 && access(path, F_OK) == 0) TRY(truncate_events(e, path, from_step));
    TRY(ms_append_open(e, path, from_step == 0, &out->file));
    if (out->file.bytes == 0) TRY(write_event(e, &out->file, 0, 3, version, sizeof version - 1));
done:
    if (st != MUSEC_OK) (void)ms_append_close(NULL, &out->file);
    return st;
}
