/* outcome_test.c - the outcomes of made-up loss curves, and entropies computed by hand. */
#include "core/outcome.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

/* ---- curves ---------------------------------------------------------------------------------- */

typedef struct piece { /* `n` losses, linearly; n 0: no more */
    int    n;
    double from, to;
} piece;

static ms_loss_track track_of(const piece *pieces)
{
    ms_loss_track t = { 0 };
    for (; pieces->n > 0; pieces++)
        for (int i = 0; i < pieces->n; i++)
            ms_loss_track_add(&t, pieces->n == 1 ? pieces->from
                                                 : pieces->from + (pieces->to - pieces->from) * i /
                                                                      (pieces->n - 1));
    return t;
}

TEST(means_are_of_the_last_ten_losses)
{
    ms_loss_track t = { 0 };

    for (int i = 1; i <= 9; i++)
        ms_loss_track_add(&t, 20.0 - i);
    CHECK(isnan(ms_loss_track_mean(&t)), "of nine: %g", ms_loss_track_mean(&t));
    CHECK(!ms_outcome_learned(&t, 100.0), "nine losses are too few");
    ms_loss_track_add(&t, NAN); /* skipped */
    ms_loss_track_add(&t, 10.0);
    CHECK(t.steps == 10 && t.first == 19.0, "%lld, %g", (long long)t.steps, t.first);
    CHECK(ms_loss_track_mean(&t) == 14.5 && t.best == 14.5, "%g", ms_loss_track_mean(&t));
    ms_loss_track_add(&t, 9.0); /* in place of 19 */
    CHECK(ms_loss_track_mean(&t) == 13.5 && t.best == 13.5 && t.best_step == 11, "%g", t.best);
    for (int i = 0; i < 10; i++)
        ms_loss_track_add(&t, 32.0);
    CHECK(ms_loss_track_mean(&t) == 32.0, "%g", ms_loss_track_mean(&t));
    CHECK(t.best == 13.5 && t.best_step == 11, "%g at %lld", t.best, (long long)t.best_step);
}

enum { DONE = MS_OUTCOME_DONE, STALLED = MS_OUTCOME_STALLED, DIVERGED = MS_OUTCOME_DIVERGED };

/* With a unigram loss of 4, a run has learned if its loss reaches 3.8. */
static const struct {
    const char *what;
    piece       curve[4];
    double      unigram, norm;
    int         want;
} cases[] = {
    { "learns", { { 100, 6, 2 } }, 4, 70, DONE },
    { "learns in a few steps", { { 10, 6, 2 }, { 10, 2, 2 } }, 4, NAN, DONE },
    { "no step", { { 0, 0, 0 } }, 4, NAN, DONE },
    { "one step", { { 1, 6, 6 } }, 4, 2, DONE },
    { "five steps", { { 5, 6, 5.9 } }, 4, 2, DONE },
    { "falling, and short", { { 99, 6, 4.5 } }, 4, 2, DONE },
    { "flat, and short", { { 99, 6, 6 } }, 4, 2, DONE },
    { "flat", { { 100, 6, 6 } }, 4, 2, STALLED },
    { "slow", { { 100, 6, 4.5 } }, 4, 2, STALLED },
    { "at the unigram loss", { { 20, 6, 4 }, { 100, 4, 4 } }, 4, 2, STALLED },
    { "4% below it", { { 20, 6, 4 }, { 100, 3.84, 3.84 } }, 4, 2, STALLED },
    { "6% below it", { { 20, 6, 4 }, { 100, 3.76, 3.76 } }, 4, 2, DONE },
    /* from a best of 2 to more, or less, than half of the way back to 4 */
    { "lost most", { { 50, 6, 2 }, { 20, 2, 2 }, { 20, 3.1, 3.1 } }, 4, 2, DIVERGED },
    { "lost some", { { 50, 6, 2 }, { 20, 2, 2 }, { 20, 2.9, 2.9 } }, 4, 2, DONE },
    { "lost all", { { 50, 6, 2 }, { 20, 2, 2 }, { 20, 4.5, 4.5 } }, 4, 2, DIVERGED },
    { "a spike that is over", { { 50, 6, 2 }, { 3, 50, 50 }, { 20, 2, 2 } }, 4, 2, DONE },
    { "one bad batch at the end", { { 50, 6, 2 }, { 20, 2, 2 }, { 1, 6, 6 } }, 4, 2, DONE },
    { "above its first", { { 10, 6, 6 }, { 10, 6.4, 6.4 } }, 4, 2, DIVERGED },
    { "hardly above its first", { { 10, 6, 6 }, { 10, 6.2, 6.2 } }, 4, 2, DONE },
    { "always below 4, at last a little worse", { { 20, 2, 2 }, { 20, 2.4, 2.4 } }, 4, 2, DONE },
    /* the spectral norm of a weight */
    { "heavy", { { 100, 6, 2 } }, 4, 1.01e4, DIVERGED },
    { "not quite", { { 100, 6, 2 } }, 4, 9.9e3, DONE },
    { "heavy in one step", { { 1, 6, 6 } }, 4, 1e6, DIVERGED },
    { "infinite", { { 100, 6, 2 } }, 4, INFINITY, DIVERGED },
    /* an unknown unigram loss, for which the first loss is taken, or that of a single token */
    { "unknown, learns", { { 100, 6, 5 } }, NAN, NAN, DONE },
    { "unknown, flat", { { 100, 6, 6 } }, NAN, NAN, STALLED },
    { "unknown, lost", { { 50, 6, 2 }, { 20, 2, 2 }, { 20, 4.5, 4.5 } }, NAN, NAN, DIVERGED },
    { "unknown, lost some", { { 50, 6, 2 }, { 20, 2, 2 }, { 20, 3.9, 3.9 } }, NAN, NAN, DONE },
    { "one token", { { 100, 6, 0.01 } }, 0.001, 2, DONE },
};

TEST(curves_have_their_outcomes)
{
    char reason[MS_OUTCOME_REASON];

    for (size_t i = 0; i < COUNT(cases); i++) {
        const ms_loss_track t   = track_of(cases[i].curve);
        const ms_outcome    got = ms_outcome_judge(&t, cases[i].unigram, cases[i].norm, reason);
        CHECK((int)got == cases[i].want, "%s: %s, not %s: %s", cases[i].what, ms_outcome_word(got),
              ms_outcome_word((ms_outcome)cases[i].want), reason);
        CHECK((reason[0] == '\0') == (got == MS_OUTCOME_DONE), "%s: %s", cases[i].what, reason);
    }
}

TEST(the_reason_of_an_outcome_names_its_numbers)
{
    static const struct {
        piece       curve[4];
        double      norm;
        const char *want;
    } said[] = {
        { { { 100, 6, 6 } },
          2,
          "its loss never fell 5% below the unigram loss of 4.0000 (best mean of ten steps: "
          "6.0000)" },
        { { { 10, 6, 6 }, { 20, 2, 2 }, { 20, 3.5, 3.5 } },
          2,
          "its loss was 2.0000 at step 20 and ends at 3.5000, nearer to the unigram loss of 4.0000 "
          "(means of ten steps)" },
        { { { 10, 6, 6 }, { 10, 7, 7 } },
          2,
          "its loss began at 6.0000 and ends above that, at 7.0000 (mean of ten steps)" },
        { { { 10, 6, 6 } },
          1.5e6,
          "the spectral norm of a weight has grown to 1.5e+06, above 10000" },
        { { { 10, 6, 6 } }, INFINITY, "a weight is not finite at the end" },
    };
    char reason[MS_OUTCOME_REASON];

    for (size_t i = 0; i < COUNT(said); i++) {
        const ms_loss_track t = track_of(said[i].curve);
        (void)ms_outcome_judge(&t, 4.0, said[i].norm, reason);
        assert_string_equal(reason, said[i].want);
    }
}

/* ---- entropies ------------------------------------------------------------------------------- */

TEST(entropies_agree_with_hand_calculations)
{
    static const struct {
        double frequency[5], want;
    } of[] = {
        { { 1, 1, 1, 1, 0 }, 1.3862943611198906 }, /* ln 4 */
        { { 7, 0, 0, 0, 0 }, 0.0 },
        { { 2, 1, 1, 0, 0 }, 1.0397207708399179 },  /* 3/2 ln 2 */
        { { 3, 1, 0, 0, 0 }, 0.56233514461880829 }, /* 2 ln 2 - 3/4 ln 3 */
        { { 0.75, 0.25, 0, 0, 0 }, 0.56233514461880829 },
        { { 0, 0, 0, 0, 0 }, NAN },
    };

    for (size_t i = 0; i < COUNT(of); i++) {
        const double got = ms_unigram_loss(of[i].frequency, 5);
        /* a few roundings of numbers up to 2 in double */
        CHECK(isnan(of[i].want) ? isnan(got) : fabs(got - of[i].want) <= 1e-14, "%zu: %.17g", i,
              got);
    }
}
