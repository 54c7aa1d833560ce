/* event_reader.c - see event_reader.h. */
#include "event_reader.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

uint32_t crc32c(const unsigned char *p, size_t n) /* by its definition, bit by bit */
{
    uint32_t crc = ~0u;
    for (size_t i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit++) {
            const uint32_t odd = (crc ^ (uint32_t)(p[i] >> bit)) & 1;
            crc                = crc >> 1 ^ (odd ? 0x82f63b78u : 0);
        }
    return ~crc;
}

static uint64_t little(const unsigned char *p, int n)
{
    uint64_t x = 0;
    while (n-- > 0)
        x = x << 8 | p[n];
    return x;
}

static void expect_crc(const unsigned char *p, size_t n, const unsigned char *stored)
{
    const uint32_t crc = crc32c(p, n);
    CHECK(((crc >> 15 | crc << 17) + 0xa282ead8u) == little(stored, 4), "crc");
}

static uint64_t varint(const unsigned char **p)
{
    uint64_t x = 0;
    for (int shift = 0;; shift += 7) {
        x |= (uint64_t)(**p & 0x7f) << shift;
        if ((*(*p)++ & 0x80) == 0) return x;
    }
}

int read_events(const char *path, scalars *out, int max)
{
    blob b;
    int  n = 0;

    get_file(path, &b);
    for (size_t i = 0; i < b.n; n++) {
        const uint64_t       length = little(b.p + i, 8);
        const unsigned char *p = b.p + i + 12, *end = p + length;
        scalars              ignored = { 0 }, *s = n == 0 ? &ignored : &out[n - 1];
        CHECK(n <= max && i + 16 + length <= b.n, "record %d", n);
        expect_crc(b.p + i, 8, b.p + i + 8);
        expect_crc(p, length, end);
        i += 16 + length;
        CHECK(*p == 0x09, "wall_time"); /* a double, field 1 */
        memcpy(&s->wall, p + 1, 8);
        p += 9;
        CHECK(*p++ == 0x10, "step");
        s->step = (int64_t)varint(&p);
        s->n    = 0;
        if (n == 0) {
            static const char version[] = { "\x1a\x0d"
                                            "brain.Event:2" };
            CHECK(end - p == 15 && memcmp(p, version, 15) == 0, "version");
            continue;
        }
        CHECK(*p++ == 0x2a, "summary");
        CHECK(varint(&p) == (uint64_t)(end - p), "summary");
        while (p < end) {
            size_t tag;
            CHECK(*p++ == 0x0a && s->n < EVENT_VALUES, "value");
            (void)varint(&p);
            CHECK(*p++ == 0x0a, "tag");
            tag = (size_t)varint(&p);
            snprintf(s->tag[s->n], sizeof s->tag[0], "%.*s", (int)tag, (const char *)p);
            p += tag;
            CHECK(*p == 0x15, "simple_value");
            memcpy(&s->value[s->n++], p + 1, 4);
            p += 5;
        }
        CHECK(p == end, "record %d", n);
    }
    return n - 1;
}

void expect_scalar(const scalars *s, const char *tag, double want)
{
    const float f = (float)want;
    for (int i = 0; i < s->n; i++) {
        if (strcmp(s->tag[i], tag) != 0) continue;
        CHECK(isnan(f) ? isnan(s->value[i]) : s->value[i] == f, "%s: %g, not %g", tag,
              (double)s->value[i], want);
        return;
    }
    CHECK(false, "step %d has no %s", (int)s->step, tag);
}

size_t last_event(const blob *b)
{
    size_t i = 0, next = 0;
    while (next < b->n) {
        i    = next;
        next = i + 16 + (size_t)little(b->p + i, 8);
    }
    return i;
}
