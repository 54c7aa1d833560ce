/* safetensors_test.c - .safetensors files that are assembled here, valid and damaged, and files
 * that the library writes. */
#define _XOPEN_SOURCE 700
#include "check.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/rng.h"
#include "core/safetensors.h"
#include "scratch.h"

/* A file of length, header and data; returns its bytes. */
static size_t make(unsigned char *out, const char *header, const void *data, size_t data_bytes)
{
    const size_t n = strlen(header);
    for (size_t i = 0; i < 8; i++)
        out[i] = (unsigned char)((uint64_t)n >> (8 * i));
    for (size_t i = 0; i < n; i++)
        out[8 + i] = (unsigned char)header[i];
    if (data_bytes > 0) memcpy(out + 8 + n, data, data_bytes);
    return 8 + n + data_bytes;
}

static void expect_failure(const char *path, const char *words, const char *what)
{
    ms_error       e = { "" };
    ms_safetensors s;
    CHECK(ms_safetensors_open(&e, path, &s) != MUSEC_OK, "%s was opened", what);
    CHECK(s.f == NULL && s.tensors == NULL && s.n_tensors == 0, "%s left something open", what);
    CHECK(strncmp(e.text, path, strlen(path)) == 0, "%s: no path in: %s", what, e.text);
    CHECK(strstr(e.text, words) != NULL, "%s: no '%s' in: %s", what, words, e.text);
    ms_safetensors_close(&s);
}

static void expect_bad(const void *bytes, size_t n, const char *words, const char *what)
{
    put_file(tmp_path("bad.st"), bytes, n);
    expect_failure(tmp_path("bad.st"), words, what);
}

#define MIXED                                                                   \
    "{\"__metadata__\":{\"format\":\"pt\"},"                                    \
    "\"w.bf16\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[44,48]},"   \
    "\"w.f32\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"    \
    "\"w.f64\":{\"dtype\":\"F64\",\"shape\":[1,2,1],\"data_offsets\":[24,40]}," \
    "\"w.f16\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[40,44]},"     \
    "\"ids\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[48,56]},"        \
    "\"none\":{\"dtype\":\"F32\",\"shape\":[0,3],\"data_offsets\":[56,56]},"    \
    "\"new\":{\"dtype\":\"F5_E2M2\",\"shape\":[3],\"data_offsets\":[56,58]}}      "

static size_t make_mixed(unsigned char *out)
{
    const float    f32[6]   = { 1, 2, 3, 4, 5, 6 };
    const double   f64[2]   = { 0.1, -1e300 };
    const uint16_t f16[2]   = { 0x3C00, 0xC000 }; /* 1, -2 */
    const uint16_t bf16[2]  = { 0x3F80, 0x4049 }; /* 1, 3.140625 */
    unsigned char  data[58] = { 0 };
    memcpy(data, f32, 24);
    memcpy(data + 24, f64, 16);
    memcpy(data + 40, f16, 4);
    memcpy(data + 44, bf16, 4);
    return make(out, MIXED, data, sizeof data);
}

TEST(tensors_of_all_float_types_are_read)
{
    static const struct {
        const char *name, *dtype;
        int         readable, ndim;
        musec_dtype as;
        int64_t     shape[3];
        double      first, last;
    } want[] = {
        /* in the order of their offsets */
        { "w.f32", "F32", 1, 2, MUSEC_F32, { 2, 3 }, 1, 6 },
        { "w.f64", "F64", 1, 3, MUSEC_F64, { 1, 2, 1 }, 0.1, -1e300 },
        { "w.f16", "F16", 1, 1, MUSEC_F32, { 2 }, 1, -2 },
        { "w.bf16", "BF16", 1, 1, MUSEC_F32, { 2 }, 1, 3.140625 },
        { "ids", "I64", 0, 0, 0, { 0 }, 0, 0 },
        { "none", "F32", 1, 2, MUSEC_F32, { 0, 3 }, 0, 0 },
        { "new", "F5_E2M2", 0, 1, 0, { 3 }, 0, 0 },
    };
    unsigned char  file[2048] = { 0 };
    ms_error       e;
    ms_safetensors s;
    ms_npy         a;

    put_file(tmp_path("mixed.safetensors"), file, make_mixed(file));
    CHECK_OK_ERR(&e, ms_safetensors_open(&e, tmp_path("mixed.safetensors"), &s));
    CHECK(s.n_tensors == COUNT(want), "%zu tensors", s.n_tensors);
    for (size_t i = 0; i < COUNT(want); i++) {
        const ms_tensor_info *t = &s.tensors[i];
        size_t                n = 1;
        CHECK(strcmp(t->name, want[i].name) == 0, "%zu is %s", i, t->name);
        CHECK(strcmp(t->dtype, want[i].dtype) == 0, "%s is %s", t->name, t->dtype);
        CHECK(t->ndim == want[i].ndim, "%s has %d dimensions", t->name, t->ndim);
        CHECK(memcmp(t->shape, want[i].shape, sizeof want[i].shape) == 0, "%s: shape", t->name);
        CHECK(ms_safetensors_readable(t) == want[i].readable, "%s", t->name);
        if (!want[i].readable) {
            CHECK_FAILS(&e, ms_safetensors_read(&e, &s, i, &a), MUSEC_EFORMAT, t->name);
            CHECK(strstr(e.text, t->dtype) != NULL, "%s", e.text);
            continue;
        }
        CHECK_OK_ERR(&e, ms_safetensors_read(&e, &s, i, &a));
        CHECK(a.dtype == want[i].as && a.ndim == t->ndim, "%s", t->name);
        assert_non_null(a.data); /* even of the empty one */
        for (int k = 0; k < a.ndim; k++)
            n *= (size_t)a.shape[k];
        if (n > 0) {
            const double first =
                a.dtype == MUSEC_F32 ? ((float *)a.data)[0] : ((double *)a.data)[0];
            const double last =
                a.dtype == MUSEC_F32 ? ((float *)a.data)[n - 1] : ((double *)a.data)[n - 1];
            CHECK(first == want[i].first && last == want[i].last, "%s: %g, %g", t->name, first,
                  last);
        }
        ms_npy_free(&a);
    }
    CHECK(ms_safetensors_read(&e, &s, COUNT(want), &a) == MUSEC_EINVAL, "one beyond the last");
    ms_safetensors_close(&s);
    ms_safetensors_close(&s);
}

/* All 65536 patterns of both 16-bit types, each against the definition of its format. */
TEST(f16_and_bf16_are_read_exactly)
{
    enum { N = 65536 };
    static uint16_t      half[2][N];
    static unsigned char file[sizeof half + 1024];
    ms_error             e;
    ms_safetensors       s;

    for (size_t i = 0; i < N; i++)
        half[0][i] = half[1][i] = (uint16_t)i;
    put_file(tmp_path("half.safetensors"), file,
             make(file,
                  "{\"a\":{\"dtype\":\"F16\",\"shape\":[256,256],\"data_offsets\":[0,131072]},"
                  "\"b\":{\"dtype\":\"BF16\",\"shape\":[65536],\"data_offsets\":[131072,262144]}}",
                  half, sizeof half));
    CHECK_OK_ERR(&e, ms_safetensors_open(&e, tmp_path("half.safetensors"), &s));
    for (size_t t = 0; t < 2; t++) {
        const int mant_bits = t == 0 ? 10 : 7, bias = t == 0 ? 15 : 127;
        ms_npy    a;
        CHECK_OK_ERR(&e, ms_safetensors_read(&e, &s, t, &a));
        for (unsigned i = 0; i < N; i++) {
            const float    got  = ((const float *)a.data)[i];
            const unsigned mant = i & ((1u << mant_bits) - 1), expo = (i & 0x7FFF) >> mant_bits;
            const double   sign = i & 0x8000 ? -1.0 : 1.0;
            double         want = ldexp(mant, 1 - bias - mant_bits); /* subnormal */
            if (expo > 0) want = ldexp((1u << mant_bits) + mant, (int)expo - bias - mant_bits);
            if (expo == (0x7FFFu >> mant_bits)) want = mant == 0 ? (double)INFINITY : (double)NAN;
            if (isnan(want))
                CHECK(isnan(got), "type %zu, pattern %04x: %g", t, i, (double)got);
            else
                CHECK((double)got == sign * want, "type %zu, pattern %04x: %g", t, i, (double)got);
            CHECK(!signbit(got) == !(i & 0x8000), "type %zu, pattern %04x: sign", t, i);
        }
        ms_npy_free(&a);
    }
    ms_safetensors_close(&s);
}

#define T(name, dtype, shape, offsets) \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

TEST(damaged_headers_are_refused_with_the_reason)
{
    static const struct {
        const char *header;
        size_t      data_bytes;
        const char *words;
    } cases[] = {
        { "", 0, "damaged .safetensors header" },
        { "[]", 0, "no JSON object" },
        { "{", 0, "damaged .safetensors header" },
        { "{} x", 0, "damaged .safetensors header" },
        { "{\"a\":1}", 0, "tensor 'a'" },
        { "{\"a\":{}}", 0, "tensor 'a': no dtype" },
        { "{" T("a", "F32", "[2]", "[0,8]") "," T("a", "F32", "[2]", "[0,8]") "}", 8, "duplicate" },
        { "{" T("a", "F32_OF_THE_FUTURE", "[2]", "[0,8]") "}", 8, "'a': no dtype, or one" },
        { "{\"a\":{\"dtype\":4,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "'a': no dtype" },
        { "{" T("a", "F32", "2", "[0,8]") "}", 8, "'a': no shape" },
        { "{" T("a", "F32", "[-2]", "[0,8]") "}", 8, "'a': no shape" },
        { "{" T("a", "F32", "[2.0]", "[0,8]") "}", 8, "'a': no shape" },
        { "{" T("a", "F32", "[[2]]", "[0,8]") "}", 8, "'a': no shape" },
        { "{" T("a", "F32", "[2]", "[0]") "}", 8, "'a': no data_offsets" },
        { "{" T("a", "F32", "[2]", "[0,8,9]") "}", 8, "'a': no data_offsets" },
        { "{" T("a", "F32", "[2]", "[8,0]") "}", 8, "'a': no data_offsets" },
        { "{" T("a", "F32", "[2]", "[-8,0]") "}", 8, "'a': no data_offsets" },
        { "{" T("a", "F32", "[2]", "[0,99999999999999999999]") "}", 8, "damaged" },
        { "{" T("a", "F32", "[3]", "[0,8]") "}", 8, "takes 96 bits of F32, its data_offsets" },
        { "{" T("a", "F4", "[3]", "[0,2]") "}", 2, "takes 12 bits of F4" },
        { "{" T("a", "F32", "[4611686018427387904,4611686018427387904]", "[0,8]") "}", 8,
          "'a': its shape is beyond" },
        { "{" T("a", "F32", "[4611686018427387904,0,4611686018427387904]", "[0,0]") "}", 0,
          "'a': its shape is beyond" },
        { "{" T("a", "NEW", "[4611686018427387904,4611686018427387904]", "[0,8]") "}", 8,
          "'a': its shape is beyond" },
        { "{" T("a", "F32", "[2]", "[0,8]") "," T("b", "F32", "[2]", "[4,12]") "}", 12,
          "tensor 'b': overlaps" },
        { "{" T("a", "F32", "[2]", "[0,8]") "," T("b", "F32", "[2]", "[0,8]") "}", 8,
          "tensor 'b': overlaps" },
        { "{" T("a", "F32", "[2]", "[0,8]") "," T("b", "F32", "[2]", "[12,20]") "}", 20,
          "tensor 'b': before it lies a gap" },
        { "{" T("a", "F32", "[2]", "[4,12]") "}", 12, "tensor 'a': before it lies a gap" },
        { "{" T("a", "F32", "[2]", "[0,8]") "}", 7, "truncated: its tensors take 8 bytes" },
        { "{" T("a", "F32", "[2]", "[0,8]") "}", 9, "too long: its tensors take 8 bytes" },
        { "{}", 1, "too long" },
        { "{\"__metadata__\":{}}", 1, "too long" },
        { "{\"__metadata__\":[]}", 0, "no map of texts" },
        { "{\"__metadata__\":{\"a\":\"b\",\"k\":1}}", 0, "'k' is no text" },
        { "{" T("a", "F32", "[2305843009213693951]", "[0,9223372036854775804]") "}", 8,
          "'a': its" },
        { "{" T("a", "U8", "[2305843009213693951]", "[0,2305843009213693951]") "}", 8,
          "truncated" },
        { "{" T("a\\nb", "F32", "[2]", "[0,7]") "}", 8, "tensor 'a?b'" },
        { "{" T("a\\u0000b", "F32", "[2]", "[0,8]") "}", 8, "damaged" },
    };
    const unsigned char zeros[32] = { 0 };
    unsigned char       file[512] = { 0 };

    for (size_t c = 0; c < COUNT(cases); c++)
        expect_bad(file, make(file, cases[c].header, zeros, cases[c].data_bytes), cases[c].words,
                   cases[c].header);
}

TEST(files_that_are_no_safetensors_files_are_refused)
{
    unsigned char file[64] = { 0 };

    expect_failure(tmp_path("missing.st"), "cannot open for reading (No such file", "no file");
    expect_failure(check_tmp_dir(), "Is a directory", "a directory");
    expect_failure("/dev/null", "from a pipe or device", "a device");
    expect_bad(file, 0, "only 0 bytes", "an empty file");
    expect_bad("\x93NUMPY\1\0aaaaaaaaaa", 18, "is not a .safetensors file", "an .npy file");
    memset(file, 0xFF, 8);
    expect_bad(file, sizeof file, "header of 18446744073709551615 bytes", "the longest header");
    make(file, "{}", NULL, 0);
    file[0] = 57; /* one more than there is */
    expect_bad(file, sizeof file, "header of 57 bytes in a file of 64", "a header beyond the file");
    CHECK(ms_safetensors_open(NULL, tmp_path("bad.st"), &(ms_safetensors){ 0 }) == MUSEC_EFORMAT,
          "without an ms_error");
}

TEST(too_many_dimensions_only_matter_when_read)
{
    unsigned char  file[512] = { 0 }, zeros[8] = { 0 };
    ms_error       e;
    ms_safetensors s;
    ms_npy         a;

    put_file(tmp_path("dims.st"), file,
             make(file, "{" T("a", "F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]") "}", zeros, 8));
    CHECK_OK_ERR(&e, ms_safetensors_open(&e, tmp_path("dims.st"), &s));
    CHECK(s.tensors[0].ndim == 9, "%d", s.tensors[0].ndim);
    CHECK(ms_safetensors_read(&e, &s, 0, &a) == MUSEC_EFORMAT && a.data == NULL, "nine dimensions");
    CHECK(strstr(e.text, "tensor 'a' has 9 dimensions") != NULL, "%s", e.text);
    ms_safetensors_close(&s);
}

TEST(a_file_that_shrinks_after_opening_is_an_error)
{
    unsigned char  file[2048] = { 0 };
    const size_t   n          = make_mixed(file);
    ms_error       e;
    ms_safetensors s;
    ms_npy         a;

    put_file(tmp_path("shrink.st"), file, n);
    CHECK_OK_ERR(&e, ms_safetensors_open(&e, tmp_path("shrink.st"), &s));
    CHECK(truncate(tmp_path("shrink.st"), 100) == 0, "truncate");
    CHECK(ms_safetensors_read(&e, &s, 1, &a) == MUSEC_EFORMAT && a.data == NULL, "%s", e.text);
    CHECK(strstr(e.text, "ends too early") != NULL, "%s", e.text);
    ms_safetensors_close(&s);
}

TEST(every_truncation_is_an_error)
{
    unsigned char file[2048] = { 0 };
    const size_t  n          = make_mixed(file);

    for (size_t cut = 0; cut < n; cut++) {
        char what[96];
        snprintf(what, sizeof what, "%zu of %zu bytes", cut, n);
        expect_bad(file, cut, "", what);
    }
}

/* Run under ASan, too: the reader accepts or refuses randomly damaged files and never crashes. */
TEST(random_damage_is_read_or_refused)
{
    static const char alphabet[] = "{}[],:\"0123456789FBI_-.eE \\u\n";
    const uint64_t    key        = ms_rand_key(1, "safetensors_test mutations");
    unsigned char     file[2048] = { 0 };
    uint64_t          draw       = 0;
    int               opened     = 0;

    for (int round = 0; round < 5000; round++) {
        size_t         n     = make_mixed(file);
        const int      edits = 1 + (int)(ms_rand_u64(key, draw++) % 3);
        ms_error       e     = { "" };
        ms_safetensors s;
        for (int i = 0; i < edits; i++) {
            const uint64_t r   = ms_rand_u64(key, draw++);
            const size_t   pos = (size_t)(r >> 32) % n;
            if (r % 8 == 0) { /* the length follows, so that the JSON parser sees the damage */
                memmove(file + pos, file + pos + 1, n - pos - 1);
                n--;
                file[0]--;
            } else if (r % 8 == 1) {
                file[pos] = (unsigned char)(r >> 8);
            } else {
                file[pos] = (unsigned char)alphabet[(r >> 8) % (sizeof alphabet - 1)];
            }
        }
        put_file(tmp_path("fuzz.st"), file, n);
        if (ms_safetensors_open(&e, tmp_path("fuzz.st"), &s) == MUSEC_OK) {
            opened++;
            for (size_t t = 0; t < s.n_tensors; t++) {
                ms_npy a;
                CHECK(ms_safetensors_read(&e, &s, t, &a) == MUSEC_OK ||
                          (a.data == NULL && e.text[0] != '\0'),
                      "round %d, tensor %zu", round, t);
                ms_npy_free(&a);
            }
        } else {
            CHECK(s.tensors == NULL && e.text[0] != '\0', "round %d: %s", round, e.text);
        }
        ms_safetensors_close(&s);
    }
    CHECK(opened > 0 && opened < 5000, "%d files were opened: all or nothing", opened);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* By the format's description; tensors of f64 come first, then f32, then bf16. */
TEST(written_files_have_the_bytes_of_the_format)
{
    static const char header[] =
        "{\"__metadata__\":{\"step\":\"7\",\"k\\\"\":\"\xC3\xA4\"},"
        "\"wide\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]},"
        "\"a/b\":{\"dtype\":\"F32\",\"shape\":[1,3],\"data_offsets\":[8,20]},"
        "\"none\":{\"dtype\":\"F32\",\"shape\":[0,5],\"data_offsets\":[20,20]},"
        "\"half\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[20,26]}}";
    const uint16_t      bf16[3]    = { 0x3F80, 0xC000, 0x7F80 };
    const float         f32[3]     = { 1.5f, -2.0f, 3.0f };
    const double        f64[1]     = { 0.1 };
    const char *const   words[][2] = { { "step", "7" }, { "k\"", "\xC3\xA4" } };
    const ms_tensor_out tensors[]  = { { "half", MUSEC_BF16, 1, { 3 }, bf16 },
                                       { "a/b", MUSEC_F32, 2, { 1, 3 }, f32 },
                                       { "wide", MUSEC_F64, 0, { 0 }, f64 },
                                       { "none", MUSEC_F32, 2, { 0, 5 }, NULL } };
    const size_t        length     = (sizeof header - 1 + 7) / 8 * 8;
    unsigned char       want[512]  = { 0 };
    blob                got;
    ms_error            e;

    want[0] = (unsigned char)length; /* below 65536 */
    want[1] = (unsigned char)(length >> 8);
    memset(want + 8, ' ', length);
    memcpy(want + 8, header, sizeof header - 1);
    memcpy(want + 8 + length, f64, sizeof f64);
    memcpy(want + 16 + length, f32, sizeof f32);
    memcpy(want + 28 + length, bf16, sizeof bf16);
    CHECK_OK_ERR(&e, ms_safetensors_write(&e, tmp_path("out.st"), tensors, 4, words, 2));
    get_file(tmp_path("out.st"), &got);
    CHECK(got.n == 34 + length && memcmp(got.p, want, 34 + length) == 0,
          "%zu bytes, the header is %.*s", got.n, (int)length, got.p + 8);
    CHECK_OK_ERR(&e, ms_safetensors_write(&e, tmp_path("out.st"), NULL, 0, NULL, 0));
    get_file(tmp_path("out.st"), &got);
    CHECK(got.n == 16 && memcmp(got.p, "\x8\0\0\0\0\0\0\0{}      ", 16) == 0, "an empty file");
}

static musec_status countdown(ms_error *e, void *arg, size_t index, const void **data)
{
    static float value[2];
    int         *left = arg;
    if ((*left)-- == 0) return ms_fail(e, MUSEC_EDEVICE, "nothing left");
    value[0] = (float)index;
    value[1] = -1.0f;
    *data    = value;
    return MUSEC_OK;
}

TEST(written_files_are_read_back)
{
    const char *const           words[][2] = { { "format", "musec" }, { "empty", "" } };
    const double                f64[2]     = { -0.0, 1e-310 };
    const ms_tensor_out         tensors[]  = { { "x", MUSEC_F32, 1, { 2 }, NULL },
                                               { "y", MUSEC_F64, 2, { 2, 1 }, f64 },
                                               { "z", MUSEC_F32, 1, { 2 }, NULL } };
    int                         left       = 2;
    const ms_safetensors_writer writer     = { countdown, &left };
    ms_error                    e;
    ms_safetensors              s;
    ms_npy                      a;

    CHECK_OK_ERR(&e,
                 ms_safetensors_write_from(&e, tmp_path("rt.st"), &writer, tensors, 3, words, 2));
    CHECK_OK_ERR(&e, ms_safetensors_open(&e, tmp_path("rt.st"), &s));
    CHECK(s.n_tensors == 3 && s.n_metadata == 2, "%zu and %zu", s.n_tensors, s.n_metadata);
    CHECK(strcmp(ms_safetensors_metadata(&s, "format"), "musec") == 0, "format");
    CHECK(strcmp(ms_safetensors_metadata(&s, "empty"), "") == 0, "empty");
    CHECK(ms_safetensors_metadata(&s, "none") == NULL, "none");
    CHECK_OK_ERR(&e, ms_safetensors_read(&e, &s, 0, &a));
    CHECK(a.dtype == MUSEC_F64 && a.ndim == 2 && memcmp(a.data, f64, sizeof f64) == 0, "y");
    ms_npy_free(&a);
    CHECK_OK_ERR(&e, ms_safetensors_read(&e, &s, 2, &a));
    CHECK(strcmp(s.tensors[2].name, "z") == 0 && ((float *)a.data)[0] == 2.0f, "z");
    ms_npy_free(&a);
    ms_safetensors_close(&s);

    left = 1; /* the data source fails in the middle: the old file stays */
    CHECK_FAILS(&e, ms_safetensors_write_from(&e, tmp_path("rt.st"), &writer, tensors, 3, NULL, 0),
                MUSEC_EDEVICE, "nothing left");
    assert_string_equal(e.text, "nothing left");
    CHECK_OK_ERR(&e, ms_safetensors_open(&e, tmp_path("rt.st"), &s));
    CHECK(s.n_metadata == 2, "the old file was replaced");
    ms_safetensors_close(&s);
}

static void expect_refusal(const ms_tensor_out *tensors, size_t n, const char *const (*words)[2],
                           size_t n_words, const char *why)
{
    ms_error e = { "" };
    CHECK_FAILS(&e, ms_safetensors_write(&e, tmp_path("no.st"), tensors, n, words, n_words),
                MUSEC_EINVAL, why);
    CHECK(access(tmp_path("no.st"), F_OK) != 0, "%s: a file was left", why);
}

TEST(files_that_cannot_be_written_are_refused)
{
    static const float x[2] = { 1, 2 };
    static const struct {
        ms_tensor_out t[2];
        const char   *why;
    } cases[] = {
        { { { "a", MUSEC_F32, 1, { 2 }, x }, { "a", MUSEC_F32, 1, { 1 }, x } }, "two tensors" },
        { { { "a", MUSEC_F32, 1, { 2 }, x }, { "a", MUSEC_F64, 0, { 1 }, x } }, "two tensors" },
        { { { "a", MUSEC_F32, 1, { 2 }, x }, { NULL, MUSEC_F32, 1, { 2 }, x } }, "no name" },
        { { { "a", MUSEC_F32, 1, { 2 }, x }, { "__metadata__", MUSEC_F32, 1, { 2 }, x } },
          "no name" },
        { { { "a", MUSEC_F32, 1, { 2 }, x }, { "\xFF", MUSEC_F32, 1, { 2 }, x } }, "UTF-8" },
        { { { "a", MUSEC_F32, 1, { 2 }, x }, { "b", 0, 1, { 2 }, x } },
          "none of f32, f64 and bf16" },
        { { { "a", MUSEC_F32, 1, { 2 }, x }, { "b", MUSEC_F32, 9, { 2 }, x } }, "too many" },
        { { { "a", MUSEC_F32, 1, { 2 }, x }, { "b", MUSEC_F32, 1, { -2 }, x } }, "negative" },
        { { { "a", MUSEC_F32, 1, { 2 }, x }, { "b", MUSEC_F32, 1, { 2 }, NULL } }, "no data" },
        { { { "a", MUSEC_F32, 1, { INT64_MAX }, x }, { "b", MUSEC_F32, 1, { 2 }, x } },
          "beyond any memory" },
        { { { "a", MUSEC_F64, 2, { 1LL << 59, 2 }, x }, { "b", MUSEC_F32, 0, { 0 }, x } },
          "beyond any memory" },
        { { { "a", MUSEC_F64, 3, { 1LL << 40, 0, 1LL << 40 }, x },
            { "b", MUSEC_F32, 0, { 0 }, x } },
          "beyond any memory" },
    };
    const char *const twice[][2]    = { { "k", "1" }, { "k", "2" } };
    const char *const not_utf8[][2] = { { "k", "\xC0" } };
    const char *const missing[][2]  = { { "k", NULL } };
    ms_error          e;

    for (size_t c = 0; c < COUNT(cases); c++)
        expect_refusal(cases[c].t, 2, NULL, 0, cases[c].why);
    expect_refusal(NULL, 0, twice, 2, "same key");
    expect_refusal(NULL, 0, not_utf8, 1, "UTF-8");
    expect_refusal(NULL, 0, missing, 1, "missing");
    CHECK_FAILS(&e, ms_safetensors_write(&e, "/dev/full", cases[0].t, 1, NULL, 0), MUSEC_EIO,
                "/dev/full");
    CHECK(ms_safetensors_write(&e, tmp_path("none/x.st"), cases[0].t, 1, NULL, 0) == MUSEC_EIO,
          "no folder");
}

/* ---- a system that fails --------------------------------------------------------------------- */

static int fstat_calls, fstat_fails_at;

/* In place of the C library's.
 * NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): that one's are reserved */
int fstat(int fd, struct stat *out)
{
    char path[64];
    if (++fstat_calls == fstat_fails_at) {
        errno = EIO;
        return -1;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return stat(path, out);
}

/* What cannot be read is not damaged: else a run would go back behind its newest checkpoint. */
TEST(a_file_that_cannot_be_asked_for_its_size_is_not_damaged)
{
    static const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    const float       data[2]  = { 1.0f, 2.0f };
    unsigned char     file[256];
    const char       *path = tmp_path("asked.safetensors");
    ms_error          e    = { "" };
    ms_safetensors    s;
    int               n = 0;

    put_file(path, file, make(file, header, data, sizeof data));
    for (bool reached = true; reached; n++) {
        fstat_calls           = 0;
        fstat_fails_at        = n + 1;
        const musec_status st = ms_safetensors_open(&e, path, &s);
        reached               = fstat_calls >= fstat_fails_at;
        fstat_fails_at        = 0;
        CHECK(st == (reached ? MUSEC_EIO : MUSEC_OK), "call %d: %s: %s", n + 1,
              musec_status_name(st), e.text);
        CHECK(!reached || strstr(e.text, strerror(EIO)) != NULL, "call %d: %s", n + 1, e.text);
        if (st == MUSEC_OK) ms_safetensors_close(&s);
    }
    CHECK(n > 2, "%d calls", n - 1);
}
