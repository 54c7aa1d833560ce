/* sha256.c - SHA-256 (FIPS 180-4, section 6.2).
 *
 * The message, a 1 bit, zeros and the message's length in bits (64, big-endian) fill blocks of 64
 * bytes.  Each block is stretched to 64 words W and mixed into the eight words of the state:
 *     T1 = h + S1(e) + Ch(e, f, g) + K[t] + W[t],   T2 = S0(a) + Maj(a, b, c)
 *     (a, b, c, d, e, f, g, h) <- (T1 + T2, a, b, c, d + T1, e, f, g)
 * Eight rounds are written out with the names rotated by one each instead of the state, after which
 * every name is back in its place. */
#include "core/sha256.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/file.h"

enum { BLOCK = 64, ROUNDS = 64, CHUNK = 65536 };

/* The fractional parts of the cube roots of the first 64 primes. */
static const uint32_t k[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static inline uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

static inline uint32_t sum0(uint32_t x) { return rotate(x, 2) ^ rotate(x, 13) ^ rotate(x, 22); }
static inline uint32_t sum1(uint32_t x) { return rotate(x, 6) ^ rotate(x, 11) ^ rotate(x, 25); }
static inline uint32_t mix0(uint32_t x) { return rotate(x, 7) ^ rotate(x, 18) ^ x >> 3; }
static inline uint32_t mix1(uint32_t x) { return rotate(x, 17) ^ rotate(x, 19) ^ x >> 10; }

static inline uint32_t load32(const unsigned char *p) /* big-endian */
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* One round; the new d and h are e and a of the next round. */
static inline void mix(uint32_t a, uint32_t b, uint32_t c, uint32_t *d, uint32_t e, uint32_t f,
                       uint32_t g, uint32_t *h, uint32_t kw)
{
    const uint32_t t1 = *h + sum1(e) + (g ^ (e & (f ^ g))) + kw;
    *d += t1;
    *h = t1 + sum0(a) + ((a & b) | (c & (a | b)));
}

static void add_block(uint32_t s[8], const unsigned char *p)
{
    uint32_t w[ROUNDS];
    uint32_t a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];

    for (int t = 0; t < 16; t++)
        w[t] = load32(p + 4 * t);
    for (int t = 16; t < ROUNDS; t++)
        w[t] = mix1(w[t - 2]) + w[t - 7] + mix0(w[t - 15]) + w[t - 16];
    for (int t = 0; t < ROUNDS; t += 8) {
        mix(a, b, c, &d, e, f, g, &h, k[t] + w[t]);
        mix(h, a, b, &c, d, e, f, &g, k[t + 1] + w[t + 1]);
        mix(g, h, a, &b, c, d, e, &f, k[t + 2] + w[t + 2]);
        mix(f, g, h, &a, b, c, d, &e, k[t + 3] + w[t + 3]);
        mix(e, f, g, &h, a, b, c, &d, k[t + 4] + w[t + 4]);
        mix(d, e, f, &g, h, a, b, &c, k[t + 5] + w[t + 5]);
        mix(c, d, e, &f, g, h, a, &b, k[t + 6] + w[t + 6]);
        mix(b, c, d, &e, f, g, h, &a, k[t + 7] + w[t + 7]);
    }
    s[0] += a, s[1] += b, s[2] += c, s[3] += d, s[4] += e, s[5] += f, s[6] += g, s[7] += h;
}

void ms_sha256_init(ms_sha256 *s)
{
    *s = (ms_sha256){ .h = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                             0x1f83d9ab,
                             0x5be0cd19 } }; /* fractional parts of the square roots of 2 ... 19 */
}

void ms_sha256_add(ms_sha256 *s, const void *data, size_t bytes)
{
    const unsigned char *p    = data;
    const size_t         held = (size_t)(s->bytes % BLOCK);

    if (bytes == 0) return;
    s->bytes += bytes;
    if (held > 0) {
        const size_t capacity = BLOCK - held, n = bytes < capacity ? bytes : capacity;
        memcpy(s->block + held, p, n);
        if (n < capacity) return;
        add_block(s->h, s->block);
        p += n;
        bytes -= n;
    }
    for (; bytes >= BLOCK; p += BLOCK, bytes -= BLOCK)
        add_block(s->h, p);
    if (bytes > 0) memcpy(s->block, p, bytes);
}

void ms_sha256_end(ms_sha256 *s, char hex[MS_SHA256_HEX])
{
    static const char digits[] = "0123456789abcdef";
    const uint64_t    bits     = s->bytes * 8;
    size_t            held     = (size_t)(s->bytes % BLOCK);

    s->block[held++] = 0x80;
    if (held > BLOCK - 8) { /* the length needs another block */
        memset(s->block + held, 0, BLOCK - held);
        add_block(s->h, s->block);
        held = 0;
    }
    memset(s->block + held, 0, BLOCK - 8 - held);
    for (int i = 0; i < 8; i++)
        s->block[BLOCK - 1 - i] = (unsigned char)(bits >> (8 * i));
    add_block(s->h, s->block);
    for (int i = 0; i < 64; i++)
        hex[i] = digits[s->h[i / 8] >> (28 - 4 * (i % 8)) & 15];
    hex[64] = '\0';
}

musec_status ms_sha256_file(ms_error *e, const char *path, char hex[MS_SHA256_HEX])
{
    unsigned char chunk[CHUNK];
    FILE         *f = NULL;
    ms_sha256     s;
    size_t        got;
    musec_status  st;

    ms_sha256_init(&s);
    TRY(ms_file_open_read(e, path, &f));
    while ((got = fread(chunk, 1, sizeof chunk, f)) > 0)
        ms_sha256_add(&s, chunk, got);
    if (ferror(f)) TRY(ms_fail(e, MUSEC_EIO, "%s: cannot read (%s)", path, strerror(errno)));
    ms_sha256_end(&s, hex);
done:
    if (f != NULL) fclose(f);
    return st;
}
