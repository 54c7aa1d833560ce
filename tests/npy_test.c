/* npy_test.c - .npy files: as NumPy writes them, unusual but legal ones, and damaged ones.
 *
 * Files to read are assembled here byte by byte; what ms_npy_write writes is compared with the
 * bytes of NumPy's own writer. */
#define _XOPEN_SOURCE 700
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/npy.h"
#include "core/rng.h"
#include "scratch.h"

#define HEAD "{'descr': '<f4', 'fortran_order': False, 'shape': "

/* A file of `version` with this header and `data_bytes` bytes 0, 1, 2, ... after it. */
static size_t make(unsigned char *out, int version, const char *header, size_t data_bytes)
{
    const size_t n = strlen(header), at_byte = version == 1 ? 10 : 12;
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (unsigned char)version;
    out[7] = 0;
    for (size_t i = 8; i < at_byte; i++)
        out[i] = (unsigned char)(n >> (8 * (i - 8)));
    memcpy(out + at_byte, header, n);
    for (size_t i = 0; i < data_bytes; i++)
        out[at_byte + n + i] = (unsigned char)i;
    return at_byte + n + data_bytes;
}

/* A failed read must name the path and the reason, and return no array. */
static void expect_failure(const char *path, const char *words, const char *what)
{
    ms_error e = { "" };
    ms_npy   a = { .data = &e };
    CHECK(ms_npy_read(&e, path, &a) != MUSEC_OK, "%s was read", what);
    CHECK(a.data == NULL && a.ndim == 0, "%s returned an array", what);
    CHECK(strncmp(e.text, path, strlen(path)) == 0, "%s: no path in: %s", what, e.text);
    CHECK(strstr(e.text, words) != NULL, "%s: no '%s' in: %s", what, words, e.text);
}

static void expect_bad(const void *bytes, size_t n, const char *words, const char *what)
{
    put_file(tmp_path("bad.npy"), bytes, n);
    expect_failure(tmp_path("bad.npy"), words, what);
}

TEST(arrays_are_written_with_numpys_bytes_and_read_back)
{
    static const struct {
        ms_npy      array;
        const char *dict;
    } cases[] = {
        { { .dtype = MUSEC_F32, .ndim = 2, .shape = { 2, 3 } }, HEAD "(2, 3), }" },
        { { .dtype = MUSEC_F64, .ndim = 1, .shape = { 3 } },
          "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }" },
        { { .dtype = MUSEC_F64, .ndim = 0 },
          "{'descr': '<f8', 'fortran_order': False, 'shape': (), }" },
        { { .dtype = MUSEC_F32, .ndim = 3, .shape = { 4, 0, 7 } }, HEAD "(4, 0, 7), }" },
        { { .dtype = MUSEC_F32, .ndim = 8, .shape = { 1, 1, 2, 1, 1, 1, 1, 3 } },
          HEAD "(1, 1, 2, 1, 1, 1, 1, 3), }" },
    };
    static unsigned char data[64];
    const char          *path = tmp_path("out.npy");

    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)i;
    for (size_t c = 0; c < COUNT(cases); c++) {
        const size_t n = strlen(cases[c].dict), head = 128;
        size_t       bytes = cases[c].array.dtype == MUSEC_F32 ? 4 : 8;
        ms_npy       a     = cases[c].array, b;
        ms_error     e;
        blob         file;

        for (int i = 0; i < a.ndim; i++)
            bytes *= (size_t)a.shape[i];
        a.data = data;
        CHECK_OK_ERR(&e, ms_npy_write(&e, path, &a));
        get_file(path, &file);
        const unsigned char *got = file.p;
        CHECK(file.n == head + bytes, "case %zu: %zu bytes", c, file.n);
        CHECK(memcmp(got, "\x93NUMPY\1\0", 8) == 0, "case %zu: magic", c);
        CHECK(got[8] + 256u * got[9] == head - 10, "case %zu: header length", c);
        CHECK(memcmp(got + 10, cases[c].dict, n) == 0, "case %zu: %.*s", c, (int)n, got + 10);
        for (size_t i = 10 + n; i < head - 1; i++)
            CHECK(got[i] == ' ', "case %zu: padding at %zu", c, i);
        CHECK(got[head - 1] == '\n', "case %zu: newline", c);
        CHECK(memcmp(got + head, data, bytes) == 0, "case %zu: elements", c);

        CHECK_OK_ERR(&e, ms_npy_read(&e, path, &b));
        CHECK(b.dtype == a.dtype && b.ndim == a.ndim && b.data != NULL, "case %zu", c);
        CHECK(memcmp(b.shape, a.shape, sizeof a.shape) == 0, "case %zu: shape", c);
        CHECK(memcmp(b.data, data, bytes) == 0, "case %zu: elements back", c);
        ms_npy_free(&b);
        CHECK(b.data == NULL, "freed");
        ms_npy_free(&b);
    }
}

/* NumPy's rule (21 digits of the first axis, padded to a multiple of 64) gives 128 bytes for every
 * possible shape, from () to the longest. */
TEST(the_header_has_128_bytes_for_every_shape)
{
    static const ms_npy arrays[] = {
        { .dtype = MUSEC_F32, .ndim = 1, .shape = { 0 } },
        { .dtype = MUSEC_F32, .ndim = 2, .shape = { INT64_C(1) << 60, 0 } },
        { .dtype = MUSEC_F32, .ndim = 2, .shape = { 0, INT64_C(1) << 60 } },
        { .dtype = MUSEC_F64, .ndim = 8, .shape = { 12345678 } },
        { .dtype = MUSEC_F64, .ndim = 8, .shape = { 0, 100, 1000, 1000, 1000, 1000, 1000, 10 } },
    };

    for (size_t c = 0; c < COUNT(arrays); c++) {
        ms_error    e;
        ms_npy      back;
        struct stat sb;
        CHECK_OK_ERR(&e, ms_npy_write(&e, tmp_path("empty.npy"), &arrays[c]));
        CHECK(stat(tmp_path("empty.npy"), &sb) == 0 && sb.st_size == 128, "case %zu: %lld bytes", c,
              (long long)sb.st_size);
        CHECK_OK_ERR(&e, ms_npy_read(&e, tmp_path("empty.npy"), &back));
        CHECK(memcmp(back.shape, arrays[c].shape, sizeof back.shape) == 0, "case %zu", c);
        ms_npy_free(&back);
    }
}

TEST(unusual_but_legal_headers_are_read)
{
    static const struct {
        int         version;
        const char *header;
        size_t      data_bytes;
        int         ndim;
        int64_t     shape[3];
    } cases[] = {
        { 1, HEAD "(2, 3), }\n", 24, 2, { 2, 3 } },
        { 1, HEAD "(2, 3)}", 24, 2, { 2, 3 } },
        { 2, HEAD "(2,3,),}  \n", 24, 2, { 2, 3 } },
        { 3, HEAD "(6,), }\n", 24, 1, { 6 } },
        { 1, HEAD "(), }\n", 4, 0, { 0 } },
        { 1, HEAD "( ), }\n", 4, 0, { 0 } },
        { 1, HEAD "(0,), }\n", 0, 1, { 0 } },
        { 1, HEAD "(3, 0, 5), }\n", 0, 3, { 3, 0, 5 } },
        { 1, "{\"shape\":(2,3),\"descr\":\"<f4\",\"fortran_order\":False}", 24, 2, { 2, 3 } },
        { 1,
          " {\n 'fortran_order' : False ,\t'shape' : ( 2 , 3 ) , 'descr' : '<f4' , } ",
          24,
          2,
          { 2, 3 } },
        { 1, "{'descr': '<f8', 'fortran_order': True, 'shape': (3,), }\n", 24, 1, { 3 } },
        { 1, "{'descr': '<f8', 'fortran_order': True, 'shape': (), }\n", 8, 0, { 0 } },
        { 1, "{'descr': '<f8', 'fortran_order': True, 'shape': (0, 3), }\n", 0, 2, { 0, 3 } },
    };
    unsigned char file[512] = { 0 };
    ms_error      e;
    ms_npy        a;

    for (size_t c = 0; c < COUNT(cases); c++) {
        const size_t n = make(file, cases[c].version, cases[c].header, cases[c].data_bytes);
        put_file(tmp_path("legal.npy"), file, n);
        CHECK_OK_ERR(&e, ms_npy_read(&e, tmp_path("legal.npy"), &a));
        CHECK(a.ndim == cases[c].ndim, "case %zu: %d dimensions", c, a.ndim);
        for (int i = 0; i < a.ndim; i++)
            CHECK(a.shape[i] == cases[c].shape[i], "case %zu: axis %d", c, i);
        CHECK(a.data != NULL &&
                  memcmp(a.data, file + n - cases[c].data_bytes, cases[c].data_bytes) == 0,
              "case %zu", c);
        ms_npy_free(&a);
    }
}

TEST(damaged_headers_are_refused_with_the_reason)
{
    static const struct {
        const char *header, *words;
    } cases[] = {
        { "{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }", "'>f4'" },
        { "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 3), }", "astype('<f4')" },
        { "{'descr': '|b1', 'fortran_order': False, 'shape': (2, 3), }", "reads '<f4' and '<f8'" },
        { "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), }", "'<f2'" },
        { "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,), }", "records" },
        { "", "{ is missing" },
        { "{", "string is missing" },
        { "{}", "no descr" },
        { "{'descr': '<f4', 'shape': (2, 3), }", "no fortran_order" },
        { "{'descr': '<f4', 'fortran_order': False, }", "no shape" },
        { HEAD "(2, 3), 'shape': (2, 3), }", "key given twice" },
        { HEAD "(2, 3), 'extra': 1, }", "unknown key" },
        { HEAD "(2, 3), 'a_very_long_key_indeed': 1, }", "string too long" },
        { HEAD "(2, 3), } x", "something after }" },
        { HEAD "(2, 3), }\n{}", "something after }" },
        { HEAD "(2, 3),, }", "string is missing" },
        { HEAD "(2, 3)", "a comma is missing" },
        { HEAD "(2, 3", "a comma is missing" },
        { HEAD "(2 3), }", "a comma is missing" },
        { HEAD "(6), }", "(n) is no tuple" },
        { HEAD "[2, 3], }", "no tuple" },
        { HEAD "(,), }", "a dimension is missing" },
        { HEAD "(2,,3), }", "a dimension is missing" },
        { HEAD "(-2, -3), }", "a dimension is missing" },
        { HEAD "(2L, 3L), }", "a comma is missing" },
        { HEAD "(02, 3), }", "begins with 0" },
        { HEAD "(9223372036854775808,), }", "dimension too large" },
        { HEAD "(99999999999999999999999999,), }", "dimension too large" },
        { HEAD "(9223372036854775807,), }", "beyond any memory" },
        { HEAD "(4611686018427387904, 4611686018427387904), }", "beyond any memory" },
        { HEAD "(4611686018427387904, 0, 4611686018427387904), }", "beyond any memory" },
        { HEAD "(4611686018427387904, 4), }", "beyond any memory" },
        { HEAD "(1152921504606846976,), }", "truncated" },
        { HEAD "(1, 1, 1, 1, 1, 1, 1, 1, 6), }", "more than 8 dimensions" },
        { "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3), }", "neither True nor False" },
        { "{'descr': '<f4', 'fortran_order': True False, 'shape': (2, 3), }",
          "a comma is missing" },
        { "{'descr': '<f4\\'', 'fortran_order': False, 'shape': (2, 3), }", "odd character" },
        { "{'descr': '<f4, 'fortran_order': False, 'shape': (2, 3), }", "a comma is missing" },
        { "{'descr': \"<f4', 'fortran_order': False, 'shape': (2, 3), }", "a quote is missing" },
        { "{'descr' '<f4', 'fortran_order': False, 'shape': (2, 3), }", "a colon is missing" },
        { "{'descr': 4, 'fortran_order': False, 'shape': (2, 3), }", "string is missing" },
        { HEAD "(2, 2), }", "too long: shape (2, 2) of <f4 takes 16 bytes, the file holds 24" },
        { HEAD "(7,), }", "truncated: shape (7,) of <f4 takes 28 bytes, the file holds 24" },
        { HEAD "(), }", "too long: shape () of <f4 takes 4 bytes, the file holds 24" },
        { HEAD "(0, 5), }", "too long" },
    };
    unsigned char file[512] = { 0 };

    for (size_t c = 0; c < COUNT(cases); c++)
        expect_bad(file, make(file, 1, cases[c].header, 24), cases[c].words, cases[c].header);
}

TEST(files_that_are_no_npy_files_are_refused)
{
    unsigned char file[512] = { 0 };
    size_t        n;

    expect_failure(tmp_path("missing.npy"), "cannot open for reading (No such file", "no file");
    expect_failure(check_tmp_dir(), "Is a directory", "a directory");
    expect_bad("", 0, "is empty", "an empty file");
    expect_bad("hello, world", 12, "is not a .npy file", "text");
    expect_bad("\x93NUM", 4, "truncated to 4 bytes", "half a magic");
    expect_bad("PK\3\4aaaaaaaaaa", 14, "zip archive", "an .npz");
    n       = make(file, 1, HEAD "(2, 3), }\n", 24);
    file[6] = 4;
    expect_bad(file, n, "version 4.0", "a later version");
    file[6] = 0;
    expect_bad(file, n, "version 0.0", "version 0");
    n = make(file, 2, HEAD "(2, 3), }\n", 24);
    memset(file + 8, 0xFF, 4);
    expect_bad(file, n, "a length of 4294967295 bytes", "a header of 4 GB");
    file[10] = file[11] = 0; /* 65535: plausible, but longer than the file */
    expect_bad(file, n, "truncated inside its header", "a header beyond the file");
    expect_bad("\x93NUMPY\1\0\xff", 9, "truncated inside its header", "half a length");
}

TEST(every_truncation_is_an_error)
{
    unsigned char file[512] = { 0 };

    for (int version = 1; version <= 3; version++) {
        const size_t n = make(file, version, HEAD "(2, 3), }         \n", 24);
        for (size_t cut = 0; cut < n; cut++) {
            char what[96];
            snprintf(what, sizeof what, "version %d, %zu of %zu bytes", version, cut, n);
            expect_bad(file, cut, "", what);
        }
    }
}

/* Element (i0, i1, ...) of a Fortran-order file lies at the sum of its strides, computed here. */
TEST(fortran_order_is_transposed)
{
    static const struct {
        int     ndim;
        int64_t shape[MS_NPY_DIMS];
    } cases[] = {
        { 1, { 5 } },
        { 2, { 3, 4 } },
        { 2, { 1, 7 } },
        { 2, { 70, 33 } }, /* more than one tile, not a multiple */
        { 3, { 2, 3, 4 } },
        { 3, { 40, 3, 35 } },
        { 4, { 2, 3, 1, 5 } },
        { 5, { 3, 2, 2, 3, 2 } },
        { 8, { 2, 1, 3, 2, 1, 2, 2, 3 } },
    };

    for (size_t c = 0; c < 2 * COUNT(cases); c++) {
        const int      ndim        = cases[c / 2].ndim;
        const int64_t *shape       = cases[c / 2].shape;
        const size_t   each        = c % 2 == 0 ? 4 : 8;
        unsigned char  file[60000] = { 0 };
        char           header[256], dims[128] = "";
        size_t         count = 1, n, at_char = 0;
        ms_error       e;
        ms_npy         a;

        for (int k = 0; k < ndim; k++) {
            count *= (size_t)shape[k];
            at_char +=
                (size_t)snprintf(dims + at_char, sizeof dims - at_char, "%d,", (int)shape[k]);
        }
        snprintf(header, sizeof header,
                 "{'descr': '<f%zu', 'fortran_order': True, 'shape': (%s)}\n", each, dims);
        n = make(file, 1, header, 0);
        for (size_t i = 0; i < count; i++) { /* element i of the file is the number i */
            const float  f = (float)i;
            const double d = (double)i;
            memcpy(file + n + each * i, each == 4 ? (const void *)&f : (const void *)&d, each);
        }
        put_file(tmp_path("f.npy"), file, n + each * count);
        CHECK_OK_ERR(&e, ms_npy_read(&e, tmp_path("f.npy"), &a));
        for (size_t i = 0; i < count; i++) { /* element i of the result */
            size_t rest = i, want = 0;
            double got;
            for (int k = ndim - 1; k >= 0; k--) {
                size_t stride = 1;
                for (int j = 0; j < k; j++)
                    stride *= (size_t)shape[j];
                want += stride * (rest % (size_t)shape[k]);
                rest /= (size_t)shape[k];
            }
            got = each == 4 ? ((float *)a.data)[i] : ((double *)a.data)[i];
            CHECK(got == (double)want, "case %zu: element %zu is %g, not %zu", c, i, got, want);
        }
        ms_npy_free(&a);
    }
}

/* Runs ms_npy_read on a fifo that a child fills with n bytes. */
static musec_status read_through_fifo(ms_error *e, const unsigned char *file, size_t n, ms_npy *a)
{
    const char  *path = tmp_path("fifo.npy");
    musec_status st;
    pid_t        child;
    int          status;

    CHECK(mkfifo(path, 0600) == 0, "mkfifo");
    child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) {
        FILE *f = fopen(path, "wb");
        if (f != NULL) fwrite(file, 1, n, f);
        _exit(f != NULL && fclose(f) == 0 ? 0 : 1);
    }
    st = ms_npy_read(e, path, a);
    CHECK(waitpid(child, &status, 0) == child, "waitpid");
    remove(path);
    return st;
}

TEST(arrays_are_read_from_pipes)
{
    const size_t   floats = 700000; /* 2.8 MB: the memory grows twice on the way */
    unsigned char *file   = malloc(4 * floats + 200);
    size_t         n      = make(file, 1, HEAD "(700, 1000), }\n", 4 * floats);
    ms_error       e;
    ms_npy         a;

    CHECK_OK_ERR(&e, read_through_fifo(&e, file, n, &a));
    CHECK(a.ndim == 2 && memcmp(a.data, file + n - 4 * floats, 4 * floats) == 0, "elements");
    ms_npy_free(&a);

    CHECK_FAILS(&e, read_through_fifo(&e, file, n - 5, &a), MUSEC_EFORMAT,
                "takes 2800000 bytes, the file holds 2799995");
    file[n] = 0;
    CHECK_FAILS(&e, read_through_fifo(&e, file, n + 1, &a), MUSEC_EFORMAT,
                "holds more than 2800000");
    CHECK_FAILS(&e, read_through_fifo(&e, file, 0, &a), MUSEC_EFORMAT, "is empty");
    /* the header promises a quarter of an exabyte and 24 bytes come: it is not allocated */
    n = make(file, 1, HEAD "(72057594037927936,)}", 24);
    CHECK_FAILS(&e, read_through_fifo(&e, file, n, &a), MUSEC_EFORMAT, "truncated");
    free(file);
}

/* Run under ASan, too: the reader accepts or refuses randomly damaged files and never crashes. */
TEST(random_damage_is_read_or_refused)
{
    static const char *const headers[] = {
        HEAD "(2, 3), }         \n",
        "{'descr': '<f8', 'fortran_order': True, 'shape': (1, 3, 1), }\n",
    };
    static const char alphabet[] = "{}()[],:'\"<>f48 0123456789TrueFalse\\\n\t-Lx";
    const uint64_t    key        = ms_rand_key(1, "npy_test mutations");
    unsigned char     file[512]  = { 0 };
    uint64_t          draw       = 0;
    int               read       = 0;

    for (int round = 0; round < 6000; round++) {
        size_t    n     = make(file, 1 + round % 3, headers[round % 2], 24);
        const int edits = 1 + (int)(ms_rand_u64(key, draw++) % 4);
        ms_error  e     = { "" };
        ms_npy    a;

        for (int i = 0; i < edits; i++) {
            const uint64_t r   = ms_rand_u64(key, draw++);
            const size_t   pos = (size_t)(r >> 32) % n;
            switch (r % 4) {
            case 0: file[pos] = (unsigned char)(r >> 8); break;
            case 1: file[pos] = (unsigned char)alphabet[(r >> 8) % (sizeof alphabet - 1)]; break;
            case 2: /* insert a copy of what is there */
                memmove(file + pos + 1, file + pos, n - pos);
                n++;
                break;
            default: /* remove a byte */ memmove(file + pos, file + pos + 1, n - pos - 1); n--;
            }
        }
        put_file(tmp_path("fuzz.npy"), file, n);
        if (ms_npy_read(&e, tmp_path("fuzz.npy"), &a) == MUSEC_OK) {
            size_t bytes = a.dtype == MUSEC_F32 ? 4 : 8;
            for (int i = 0; i < a.ndim; i++)
                bytes *= (size_t)a.shape[i];
            CHECK(bytes <= n, "round %d: %zu bytes out of %zu", round, bytes, n);
            read++;
        } else {
            CHECK(a.data == NULL && e.text[0] != '\0', "round %d: %s", round, e.text);
        }
        ms_npy_free(&a);
    }
    CHECK(read > 0 && read < 6000, "%d files were read: the damage is all or nothing", read);
}

TEST(arrays_that_cannot_be_written_are_refused)
{
    float        x[4]  = { 0 };
    const ms_npy bad[] = {
        { .data = x, .dtype = (musec_dtype)9, .ndim = 1, .shape = { 4 } },
        { .data = x, .dtype = MUSEC_F32, .ndim = -1 },
        { .data = x, .dtype = MUSEC_F32, .ndim = 9 },
        { .data = x, .dtype = MUSEC_F32, .ndim = 1, .shape = { -4 } },
        { .data = x, .dtype = MUSEC_F32, .ndim = 2, .shape = { INT64_MAX, INT64_MAX } },
        { .data = NULL, .dtype = MUSEC_F32, .ndim = 1, .shape = { 4 } },
    };
    const ms_npy good = { .data = x, .dtype = MUSEC_F32, .ndim = 1, .shape = { 4 } };
    ms_error     e;
    struct stat  sb;

    for (size_t c = 0; c < COUNT(bad); c++) {
        CHECK(ms_npy_write(&e, tmp_path("no.npy"), &bad[c]) == MUSEC_EINVAL, "case %zu", c);
        CHECK(stat(tmp_path("no.npy"), &sb) != 0, "case %zu wrote a file", c);
    }
    CHECK(ms_npy_write(&e, tmp_path("none/x.npy"), &good) == MUSEC_EIO, "no directory");
    if (stat("/dev/full", &sb) != 0) SKIP("no /dev/full here");
    CHECK_FAILS(&e, ms_npy_write(&e, "/dev/full", &good), MUSEC_EIO, "cannot write (No space left");
    CHECK(strncmp(e.text, "/dev/full: ", 11) == 0, "%s", e.text);
}
