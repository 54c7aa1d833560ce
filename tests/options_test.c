/* options_test.c - what a table of options of every type parses, prints and writes. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <float.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/options.h"

struct args {
    int         json;
    int64_t     iters;
    uint64_t    seed;
    double      threshold, lr;
    const char *out, *op;
};

static const ms_option options[] = {
    { "json", MS_OPT_FLAG, offsetof(struct args, json), NULL, "print the result as JSON" },
    { "iters", MS_OPT_I64, offsetof(struct args, iters), "K", "steps to take [5]" },
    { "seed", MS_OPT_U64, offsetof(struct args, seed), "N", "of the start vector [1]" },
    { "threshold", MS_OPT_F64, offsetof(struct args, threshold), "D",
      "singular values above D are clipped to it, or saturate there where the operator is a soft "
      "one; a number above 0 [1]" },
    { "lr-scale", MS_OPT_F64, offsetof(struct args, lr), "X", "factor [1]" },
    { "out", MS_OPT_STR, offsetof(struct args, out), "FILE", "file to write [none]" },
    { "op", MS_OPT_CHOICE, offsetof(struct args, op), "hard|soft|ssc|paper7|fast|accurate",
      "operator [fast]" },
};

static const ms_command command = {
    .name         = "musec clip",
    .operands     = "IN.npy OUT.npy",
    .summary      = "Clips singular values.",
    .details      = "Example:\n  musec clip in.npy out.npy",
    .options      = options,
    .n_options    = COUNT(options),
    .min_operands = 2,
    .max_operands = 2,
};

static const ms_command free_command = {
    /* any operands */
    .name = "musec clip",        .operands = "[FILE...]", .options = options,
    .n_options = COUNT(options), .max_operands = -1,
};

#define MAX_ARGS 12

/* The result of a parse: its return value, the fields, the operands and both output streams. */
typedef struct outcome {
    int         result;
    struct args a;
    char       *argv[MAX_ARGS];
    char        out[4096], err[1024];
} outcome;

/* Redirects a stream to a file; restore() ends that and reads the file. */
static int divert(FILE *stream, FILE *to)
{
    int saved;
    fflush(stream);
    saved = dup(fileno(stream));
    CHECK(saved >= 0 && dup2(fileno(to), fileno(stream)) >= 0, "dup2");
    return saved;
}

static void restore(FILE *stream, int saved, FILE *from, char *text, size_t size)
{
    size_t n;
    fflush(stream);
    dup2(saved, fileno(stream));
    close(saved);
    rewind(from);
    n       = fread(text, 1, size - 1, from);
    text[n] = '\0';
    fclose(from);
}

static void parse(const ms_command *cmd, const char *const *words, outcome *o)
{
    FILE *out = tmpfile(), *err = tmpfile();
    int   saved_out, saved_err, argc = 1;

    memset(o, 0, sizeof *o);
    o->a       = (struct args){ .iters = 5, .seed = 1, .threshold = 1.0, .lr = 1.0, .op = "fast" };
    o->argv[0] = (char *)"clip";
    for (; argc < MAX_ARGS && words[argc - 1] != NULL; argc++)
        o->argv[argc] = (char *)words[argc - 1];
    assert_non_null(out);
    assert_non_null(err);
    saved_out = divert(stdout, out);
    saved_err = divert(stderr, err);
    o->result = ms_options_parse(cmd, &o->a, argc, o->argv);
    restore(stderr, saved_err, err, o->err, sizeof o->err);
    restore(stdout, saved_out, out, o->out, sizeof o->out);
}

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

TEST(options_of_every_type_and_spelling_are_parsed)
{
    outcome o;

    parse(&command,
          WORDS("a", "--json", "--iters", "-7", "--seed=18446744073709551615", "b", "--threshold",
                "-1e-3", "--op", "soft"),
          &o);
    CHECK(o.result == 2, "%d: %s", o.result, o.err);
    CHECK(strcmp(o.argv[1], "a") == 0 && strcmp(o.argv[2], "b") == 0, "operands to the front");
    CHECK(o.a.json == 1 && o.a.iters == -7 && o.a.seed == UINT64_MAX, "integers");
    CHECK(o.a.threshold == -1e-3 && strcmp(o.a.op, "soft") == 0, "the others");
    CHECK(o.a.lr == 1.0 && o.a.out == NULL, "what is not given stays");
    CHECK(o.out[0] == '\0' && o.err[0] == '\0', "nothing is printed");

    parse(&command, WORDS("--iters=1", "--iters", "2", "--out=", "--op=ssc", "--", "--json", "-"),
          &o);
    CHECK(o.result == 2 && o.a.iters == 2, "the last one wins");
    CHECK(o.a.out != NULL && o.a.out[0] == '\0', "an empty value is a value");
    CHECK(o.a.json == 0 && strcmp(o.argv[1], "--json") == 0 && strcmp(o.argv[2], "-") == 0,
          "after -- all are operands");

    parse(&command, WORDS("a", "-", "--out", "-", "--lr-scale=-.5", "--out=--x=y"), &o);
    CHECK(o.result == 2 && strcmp(o.a.out, "--x=y") == 0 && o.a.lr == -0.5, "%s", o.err);

    parse(&free_command, (const char *const[]){ NULL }, &o);
    CHECK(o.result == 0, "no arguments at all: %d", o.result);
}

TEST(the_largest_and_smallest_numbers_are_parsed)
{
    outcome o;

    parse(&free_command,
          WORDS("--iters", "-9223372036854775808", "--threshold", "1.7976931348623157e308",
                "--lr-scale", "4.9e-324"),
          &o);
    CHECK(o.result == 0, "%s", o.err);
    CHECK(o.a.iters == INT64_MIN && o.a.threshold == DBL_MAX && o.a.lr == 0x1p-1074, "limits");
}

TEST(a_mistake_is_explained_in_one_line)
{
    static const struct {
        const char *words[4];
        const char *want; /* after "musec clip: " */
    } cases[] = {
        { { "--treshold", "1" },
          "unknown option --treshold; did you mean --threshold? (musec clip --help lists all)" },
        { { "--treshold=1" },
          "unknown option --treshold; did you mean --threshold? (musec clip --help lists all)" },
        { { "--thr", "1" },
          "unknown option --thr; did you mean --threshold? (musec clip --help lists all)" },
        { { "--lr_scale", "1" },
          "unknown option --lr_scale; did you mean --lr-scale? (musec clip --help lists all)" },
        { { "--jsno" },
          "unknown option --jsno; did you mean --json? (musec clip --help lists all)" },
        { { "--hepl" },
          "unknown option --hepl; did you mean --help? (musec clip --help lists all)" },
        { { "-iters", "3" },
          "unknown option -iters; did you mean --iters? (musec clip --help lists all)" },
        { { "--banana" }, "unknown option --banana (musec clip --help lists all)" },
        { { "-x" }, "unknown option -x (musec clip --help lists all)" },
        { { "--=3" }, "unknown option -- (musec clip --help lists all)" },
        { { "--new\nline" }, "unknown option --new?line (musec clip --help lists all)" },
        { { "--iters" }, "--iters needs a value: K" },
        { { "--out", "--json" }, "--out needs a value: FILE" },
        { { "--op" }, "--op needs a value: hard|soft|ssc|paper7|fast|accurate" },
        { { "--json=1" }, "--json takes no value" },
        { { "--iters", "1.5e0" }, "--iters wants a whole number, not '1.5e0'" },
        { { "--iters= 3" }, "--iters wants a whole number, not ' 3'" },
        { { "--iters=3 " }, "--iters wants a whole number, not '3 '" },
        { { "--iters", "0x10" }, "--iters wants a whole number, not '0x10'" },
        { { "--iters", "9223372036854775808" },
          "--iters is 9223372036854775808; it must be from -9223372036854775808 to "
          "9223372036854775807" },
        { { "--seed", "-1" }, "--seed is -1; it must be from 0 to 18446744073709551615" },
        { { "--seed", "18446744073709551616" },
          "--seed is 18446744073709551616; it must be from 0 to 18446744073709551615" },
        { { "--seed", "-x" }, "--seed wants a whole number, not '-x'" },
        { { "--threshold", "1,5" }, "--threshold wants one number (0.5, with a point), not '1,5'" },
        { { "--threshold", "one" }, "--threshold wants a number, not 'one'" },
        { { "--threshold", "nan" }, "--threshold wants a finite number, not 'nan'" },
        { { "--threshold", "-inf" }, "--threshold wants a finite number, not '-inf'" },
        { { "--threshold", "1e999" },
          "--threshold is 1e999; it must be 0, or from 4.9e-324 to 1.8e308 in size" },
        { { "--threshold", "1e-999" },
          "--threshold is 1e-999; it must be 0, or from 4.9e-324 to 1.8e308 in size" },
        { { "--op", "sof" },
          "--op 'sof' is none of hard|soft|ssc|paper7|fast|accurate; did you mean \"soft\"?" },
        { { "--op", "soft|ssc" }, "--op 'soft|ssc' is none of hard|soft|ssc|paper7|fast|accurate" },
        { { "--op=" }, "--op '' is none of hard|soft|ssc|paper7|fast|accurate" },
        { { "a" }, "wants IN.npy OUT.npy, but got 'a' alone (musec clip --help says more)" },
        { { "--json" }, "wants IN.npy OUT.npy (musec clip --help says more)" },
        { { "a", "b", "c" },
          "wants only IN.npy OUT.npy, but got 'c' too (musec clip --help says more)" },
    };
    const ms_command none = { .name = "musec info" };
    char             name[200];
    outcome          o;

    for (size_t c = 0; c < COUNT(cases); c++) {
        char want[256];
        snprintf(want, sizeof want, "musec clip: %s\n", cases[c].want);
        parse(&command, cases[c].words, &o);
        CHECK(o.result == (strstr(want, "it must be") != NULL ? MS_OPT_RANGE : MS_OPT_WRONG),
              "case %zu gives %d", c, o.result);
        CHECK(strcmp(o.err, want) == 0, "case %zu: %s instead of %s", c, o.err, want);
        CHECK(o.out[0] == '\0', "case %zu writes to stdout", c);
    }
    parse(&none, WORDS("x"), &o);
    assert_string_equal(
        o.err, "musec info: takes no operand, but got 'x' (musec info --help says more)\n");
    memset(name, 'j', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    memcpy(name, "--", 2);
    parse(&command, WORDS(name), &o);
    CHECK(o.result == MS_OPT_WRONG && strstr(o.err, "did you mean") == NULL, "%s", o.err);
}

TEST(an_empty_value_is_no_number)
{
    outcome o;
    parse(&command, WORDS("a", "b", "--iters", ""), &o);
    CHECK(o.result == MS_OPT_WRONG && strstr(o.err, "--iters wants a whole number, not ''") != NULL,
          "%s", o.err);
}

TEST(common_names_of_other_programs_are_understood)
{
    outcome o;
    parse(&command, WORDS("a", "b", "--output", "x", "--iters", "2.5e2"), &o);
    CHECK(o.result == 2 && strcmp(o.a.out, "x") == 0 && o.a.iters == 250, "%s", o.err);
    parse(&command, WORDS("a", "b", "--random-seed", "1"), &o); /* suggested, but not accepted */
    CHECK(o.result == MS_OPT_WRONG && strstr(o.err, "did you mean --seed?") != NULL, "%s", o.err);
    parse(&command, WORDS("a", "b", "--learning-rate", "1"), &o); /* there is no --lr here */
    CHECK(o.result == MS_OPT_WRONG && strstr(o.err, "did you mean") == NULL, "%s", o.err);
    parse(&command, WORDS("a", "b", "--output-dir=y", "--seed=1e19"), &o);
    CHECK(o.result == 2 && strcmp(o.a.out, "y") == 0 && o.a.seed == 10000000000000000000u, "%s",
          o.err);
}

TEST(pairs_have_a_name_and_a_value)
{
    static const struct {
        const char *item, *name, *value; /* value NULL: it is no pair */
    } cases[] = {
        { "a=1", "a", "1" }, { "a=", "a", "" },  { "stages=b=2", "stages", "b=2" },
        { "a", "", NULL },   { "=1", "", NULL }, { "", "", NULL },
    };
    char name[MS_OPTION_NAME], longest[MS_OPTION_NAME + 2] = "";
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *value = ms_option_pair(cases[i].item, name);
        CHECK((value == NULL) == (cases[i].value == NULL), "%s", cases[i].item);
        if (value == NULL) continue;
        assert_string_equal(value, cases[i].value);
        assert_string_equal(name, cases[i].name);
    }
    memset(longest, 'x', MS_OPTION_NAME);
    longest[MS_OPTION_NAME] = '=';
    CHECK(ms_option_pair(longest, name) == NULL, "a name that is too long");
    CHECK(ms_option_pair(longest + 1, name) != NULL, "the longest name");
}

TEST(help_lists_options_in_columns)
{
    static const char want[] =
        "Usage: musec clip [OPTION]... IN.npy OUT.npy\n"
        "\n"
        "Clips singular values.\n"
        "\n"
        "Options:\n"
        "  --json         print the result as JSON\n"
        "  --iters K      steps to take [5]\n"
        "  --seed N       of the start vector [1]\n"
        "  --threshold D  singular values above D are clipped to it, or saturate there\n"
        "                 where the operator is a soft one; a number above 0 [1]\n"
        "  --lr-scale X   factor [1]\n"
        "  --out FILE     file to write [none]\n"
        "  --op hard|soft|ssc|paper7|fast|accurate\n"
        "                 operator [fast]\n"
        "  -h, --help     print this text and stop\n"
        "\n"
        "Example:\n"
        "  musec clip in.npy out.npy\n";
    static const ms_command bare = { .name = "musec info", .summary = "Says what is here." };
    outcome                 o;

    parse(&command, WORDS("x", "--help", "--banana"), &o);
    CHECK(o.result == MS_OPT_HELP && o.err[0] == '\0', "%d", o.result);
    assert_string_equal(o.out, want);
    parse(&command, WORDS("-h"), &o);
    CHECK(o.result == MS_OPT_HELP && strcmp(o.out, want) == 0, "%s", o.out);
    parse(&bare, WORDS("-h"), &o);
    assert_string_equal(o.out, "Usage: musec info\n\nSays what is here.\n\nOptions:\n"
                               "  -h, --help  print this text and stop\n");
}

/* A title precedes the first option of its group; --help is the last of the first group. */
TEST(help_lists_options_in_groups)
{
    static const ms_option_group groups[] = { { "Common options", "json" }, { "Operator", "op" } };
    static const ms_option       rows[]   = {
                { "json", MS_OPT_FLAG, 0, NULL, "print JSON" },
                { "seed", MS_OPT_U64, offsetof(struct args, seed), "N", "a seed [1]" },
                { "op", MS_OPT_CHOICE, offsetof(struct args, op), "a|b", "which [a]" },
                { "lr", MS_OPT_F64, offsetof(struct args, lr), "X", "rate [1]" },
    };
    static const ms_command grouped = { .name      = "musec x",
                                        .options   = rows,
                                        .n_options = COUNT(rows),
                                        .groups    = groups,
                                        .n_groups  = COUNT(groups) };
    outcome                 o;
    parse(&grouped, WORDS("--help"), &o);
    assert_string_equal(o.out, "Usage: musec x [OPTION]...\n"
                               "\n"
                               "Common options:\n"
                               "  --json      print JSON\n"
                               "  --seed N    a seed [1]\n"
                               "  -h, --help  print this text and stop\n"
                               "\n"
                               "Operator:\n"
                               "  --op a|b    which [a]\n"
                               "  --lr X      rate [1]\n");
}

/* Writes the JSON of `a`, parses it with jansson and returns it, and the value of a key. */
static char *json_of(const struct args *a, const char *key, json_t **value)
{
    static char text[4096];
    FILE       *f = fmemopen(text, sizeof text, "w");
    assert_non_null(f);
    ms_options_json(&command, a, f);
    CHECK(fclose(f) == 0, "more than %zu bytes", sizeof text);
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    CHECK(root != NULL, "not JSON: %s", text);
    json_decref(*value);
    *value = json_incref(json_object_get(root, key));
    json_decref(root);
    return text;
}

TEST(json_is_read_back)
{
    static const double values[] = {
        0.0,           1.0,     0.1,     -1e-3,     1.0 / 3.0,       1e22,
        123456789.125, DBL_MAX, DBL_MIN, 0x1p-1074, 2.0 / 3.0 * 1e-7
    };
    struct args a = {
        .json = 1, .iters = INT64_MIN, .seed = 77, .threshold = 0.25, .lr = 1e-4, .op = "fast"
    };
    json_t *value = NULL;

    assert_string_equal(json_of(&a, "op", &value),
                        "{\"json\": true, \"iters\": -9223372036854775808, \"seed\": 77, "
                        "\"threshold\": 0.25, \"lr_scale\": 0.0001, \"out\": null, "
                        "\"op\": \"fast\"}");
    for (size_t i = 0; i < COUNT(values); i++) {
        a.lr             = values[i];
        const char *text = json_of(&a, "lr_scale", &value);
        CHECK(json_number_value(value) == values[i], "%s", text);
    }
    a.lr             = (double)NAN;
    const char *text = json_of(&a, "lr_scale", &value);
    CHECK(json_is_null(value), "%s", text);
    json_decref(value);
}

TEST(json_strings_are_always_valid)
{
    static const struct {
        const char *in, *out; /* NULL: comes back as it is */
    } cases[] = {
        { "plain", NULL },
        { "", NULL },
        { "quote \" backslash \\ slash /", NULL },
        { "tab\tnewline\nbell\a\x01\x1f", NULL },
        { "\xcf\x83 \xe2\x89\xa5 \xf0\x9f\x98\x80 \xed\x9f\xbf \xf4\x8f\xbf\xbf", NULL },
        { "\xff", "\xef\xbf\xbd" },                                                 /* no UTF-8 */
        { "a\xcf", "a\xef\xbf\xbd" },                                               /* cut */
        { "\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd" },                                 /* overlong */
        { "\xe0\x80\xaf", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },                 /* overlong */
        { "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },                 /* surrogate */
        { "\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" }, /* too large */
    };

    json_t *value = NULL;

    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct args a    = { .out = cases[i].in };
        const char       *text = json_of(&a, "out", &value);
        const char       *want = cases[i].out == NULL ? cases[i].in : cases[i].out;
        CHECK(strcmp(json_string_value(value), want) == 0, "case %zu: %s", i, text);
    }
    json_decref(value);
}
