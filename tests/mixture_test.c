/* mixture_test.c - several data sets: which is next, resumed positions, invalid lists. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "data/mixture.h"
#include "scratch.h"

enum { TOKENS = 100 };

/* A text of one letter, so that a token tells its data set. */
static void put_letters(const char *name, char letter)
{
    char text[5000];
    memset(text, letter, sizeof text);
    put_file(tmp_path(name), text, sizeof text);
}

static ms_loader_config config_of(const char *list)
{
    return (ms_loader_config){ .source     = { list, MS_SPLIT_TRAIN, 320, 256, MS_SHARD_HEADED },
                               .max_tokens = TOKENS,
                               .keep_rest  = true };
}

static ms_mixture *open_three(void)
{
    static char list[4 * 4096];
    ms_mixture *m = NULL;
    ms_error    e = { "" };
    put_letters("a.txt", 'a');
    put_letters("b.txt", 'b');
    put_letters("c.txt", 'c');
    snprintf(list, sizeof list, "%s/a.txt;%s/b.txt=2.5;%s/c.txt=0.5", check_tmp_dir(),
             check_tmp_dir(), check_tmp_dir());
    const ms_loader_config cfg = config_of(list);
    CHECK_OK_ERR(&e, ms_mixture_open(&e, &cfg, &m));
    return m;
}

static int next_letter(ms_mixture *m)
{
    ms_error e = { "" };
    ms_batch batch;
    CHECK_OK_ERR(&e, ms_mixture_next(&e, m, TOKENS, 50, &batch));
    CHECK(batch.tokens == TOKENS, "%lld tokens", (long long)batch.tokens);
    return batch.inputs[TOKENS / 2];
}

/* Three sets of one letter each have weights 1/4, 5/8 and 1/8, and each has one start token among
 * n.  Computing the entropy must not change which batch comes next. */
TEST(the_unigram_loss_is_that_of_the_mixture)
{
    ms_mixture  *m = open_three(), *other = open_three();
    ms_error     e    = { "" };
    const double q    = 1.0 / (double)ms_source_tokens(ms_loader_source(ms_mixture_set(m, 0)));
    const double p[]  = { q, 0.25 * (1.0 - q), 0.625 * (1.0 - q), 0.125 * (1.0 - q) };
    double       want = 0.0;

    for (size_t i = 0; i < COUNT(p); i++)
        want -= p[i] * log(p[i]);
    for (int i = 0; i < 50; i++) {
        double loss = NAN;
        if (i % 7 == 0) {
            CHECK_OK_ERR(&e, ms_mixture_unigram(&e, m, &loss));
            /* each share is rounded three times in double */
            CHECK(fabs(loss - want) <= 1e-12, "%.17g, not %.17g", loss, want);
        }
        CHECK(next_letter(m) == next_letter(other), "batch %d", i);
    }
    ms_mixture_close(other);
    ms_mixture_close(m);
}

/* A text of four equally frequent letters ends with the validation part in another letter, or is
 * longer than the 2^20 tokens that are counted. */
TEST(the_unigram_loss_is_of_the_first_training_tokens)
{
    static const struct {
        const char *name;
        int         first, second; /* so many letters "abcd" in turn, then "e" */
        double      want;
    } cases[]  = { { "even.txt", 9000, 1000, 1.3862943611198906 }, /* ln 4 */
                   { "long.txt", 1 << 20, 1 << 20, 1.3862943611198906 } };
    ms_error e = { "" };

    for (size_t k = 0; k < COUNT(cases); k++) {
        FILE       *f    = fopen(tmp_path(cases[k].name), "wb");
        ms_mixture *m    = NULL;
        double      loss = NAN;
        CHECK(f != NULL, "%s", cases[k].name);
        for (int i = 0; i < cases[k].first + cases[k].second; i++)
            fputc(i < cases[k].first ? "abcd"[i % 4] : 'e', f);
        fclose(f);
        const ms_loader_config cfg = config_of(tmp_path(cases[k].name));
        CHECK_OK_ERR(&e, ms_mixture_open(&e, &cfg, &m));
        CHECK_OK_ERR(&e, ms_mixture_unigram(&e, m, &loss));
        /* the start token, one of at least 9000, adds -p ln p < 0.0015 */
        CHECK(fabs(loss - cases[k].want) <= 0.0015, "%s: %.17g", cases[k].name, loss);
        ms_mixture_close(m);
    }
}

TEST(shares_follow_the_weights)
{
    static const double share[] = { 0.25, 0.625, 0.125 };
    ms_mixture         *m       = open_three();
    int                 n[3]    = { 0 };

    CHECK(ms_mixture_sets(m) == 3, "%zu sets", ms_mixture_sets(m));
    for (size_t i = 0; i < 3; i++)
        CHECK(ms_mixture_weight(m, i) == share[i], "weight %g", ms_mixture_weight(m, i));
    CHECK(strcmp(ms_mixture_name(m, 1), "b.txt") == 0, "%s", ms_mixture_name(m, 1));
    for (int i = 1; i <= 400; i++) {
        n[next_letter(m) - 'a']++;
        for (int k = 0; k < 3; k++) /* never more than one micro-batch away from its share */
            CHECK(n[k] <= share[k] * i + 1.0 && n[k] >= share[k] * i - 1.0, "%d of %d from set %d",
                  n[k], i, k);
    }
    ms_mixture_close(m);
}

TEST(a_saved_position_resumes_with_the_same_batches)
{
    ms_mixture *m = open_three(), *other = open_three();
    ms_error    e = { "" };

    for (int i = 0; i < 37; i++)
        next_letter(m);
    const ms_mixture_position where = ms_mixture_where(m);
    CHECK_OK_ERR(&e, ms_mixture_seek(&e, other, &where));
    for (int i = 0; i < 60; i++) {
        ms_batch x, y;
        CHECK_OK_ERR(&e, ms_mixture_next(&e, m, TOKENS, 50, &x));
        CHECK_OK_ERR(&e, ms_mixture_next(&e, other, TOKENS, 50, &y));
        CHECK(x.epoch == y.epoch && memcmp(x.inputs, y.inputs, TOKENS * sizeof *x.inputs) == 0 &&
                  memcmp(x.doc, y.doc, TOKENS * sizeof *x.doc) == 0,
              "micro-batch %d differs", i);
    }
    ms_mixture_close(other);
    ms_mixture_close(m);
}

TEST(a_wrong_list_is_refused)
{
    static const struct {
        const char *list, *words;
    } wrong[] = { { "", "no data are named" },      { ";;", "no data are named" },
                  { "builtin=0", "weight" },        { "builtin=-1", "weight" },
                  { "builtin;nowhere", "nowhere" }, { "builtin=1e300", "weight" } };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        const ms_loader_config cfg = config_of(wrong[i].list);
        ms_mixture            *m   = NULL;
        ms_error               e   = { "" };
        CHECK(ms_mixture_open(&e, &cfg, &m) != MUSEC_OK && m == NULL, "\"%s\"", wrong[i].list);
        CHECK(strstr(e.text, wrong[i].words) != NULL, "\"%s\": %s", wrong[i].list, e.text);
    }
}

TEST(data_sets_get_different_names)
{
    const ms_loader_config cfg = config_of("builtin;builtin:1;builtin=2");
    ms_mixture            *m   = NULL;
    ms_error               e   = { "" };
    CHECK_OK_ERR(&e, ms_mixture_open(&e, &cfg, &m));
    assert_string_equal(ms_mixture_name(m, 0), "builtin");
    assert_string_equal(ms_mixture_name(m, 1), "builtin_1");
    assert_string_equal(ms_mixture_name(m, 2), "builtin-2");
    CHECK(ms_mixture_bytes(m) > 0, "no bytes");
    ms_mixture_close(m);
}

/* Only a path that does not exist relative to the working directory is searched in the base. */
TEST(missing_paths_are_searched_in_the_base_directory)
{
    static const struct {
        const char *list;
        bool        based;
        ms_found    found; /* -1: not found */
    } cases[] = {
        { "base_only.txt", false, (ms_found)-1 },
        { "base_only.txt", true, MS_FOUND_IN_BASE },
        { "base_only.txt=2;builtin", true, MS_FOUND_IN_BASE },
        { "base_x=3", true, MS_FOUND_IN_BASE }, /* a file, not a weight */
        { "builtin", true, MS_FOUND_ANYWHERE },
        { "mixture_here.txt", true, MS_FOUND_HERE },
        { "mixture_here.txt;base_only.txt", true, MS_FOUND_IN_BASE },
    };
    put_text("mixture_here.txt", "here and nowhere else, long enough");
    put_letters("base_only.txt", 'o');
    put_letters("base_x=3", 'x');
    put_letters("builtin", 'b');
    for (size_t i = 0; i < COUNT(cases); i++) {
        ms_loader_config cfg = config_of(cases[i].list);
        ms_mixture      *m   = NULL;
        ms_error         e   = { "" };
        musec_status     st;
        cfg.base = cases[i].based ? check_tmp_dir() : NULL;
        st       = ms_mixture_open(&e, &cfg, &m);
        CHECK((st == MUSEC_OK) == (cases[i].found != (ms_found)-1), "%s: %s", cases[i].list,
              e.text);
        if (st == MUSEC_OK)
            CHECK(ms_mixture_found(m) == cases[i].found, "%s: %d", cases[i].list,
                  (int)ms_mixture_found(m));
        ms_mixture_close(m);
    }
    CHECK(remove("mixture_here.txt") == 0, "it was there");
}
