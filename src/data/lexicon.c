/* lexicon.c - words from syllables.
 *
 * A stem is one or two open syllables (onset and vowel) and an ending that belongs to its kind of
 * word, so words of two kinds are never the same; within a kind, a repeated one is drawn again.
 * Every document makes its lexicon anew, so this has to be fast: about 300 words of four draws
 * each. */
#include "data/lexicon.h"

#include <string.h>

#define ZIPF_SCALE (1u << 20)

/* clang-format off */
static const char *const onsets[] = {
    "b", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "z",
    "bl", "br", "ch", "dr", "fl", "gr", "kl", "pl", "sh", "sk", "st", "th", "tr",
    "", /* the last one, for words that begin with a vowel */
};
/* clang-format on */
static const char vowels[] = "aeiou";
static const char codas[]  = "bgklmnprt";

/* The endings of each kind of word. */
static const char *const noun_ends[]      = { "b", "g", "k", "l", "m", "n", "p", "r", "t" };
static const char *const verb_ends[]      = { "ke", "le", "me", "ne", "pe", "re", "te", "ve" };
static const char *const adjective_ends[] = { "ny", "dy", "ky", "rish", "lish", "nish" };
static const char *const adverb_ends[]    = { "kly", "mly", "nly", "rly" };
static const char *const name_ends[]      = { "ra", "na", "la", "ro", "no", "mo" };

/* English function words that the rules below would make as well. */
static const char *const taken[] = { "an",   "are", "at",  "but",  "have", "in",  "it",
                                     "many", "on",  "one", "over", "some", "were" };

#define ENDS(list) list, (uint32_t)(sizeof list / sizeof list[0])

static int append(char *out, int n, const char *more)
{
    while (*more != '\0')
        out[n++] = *more++;
    return n;
}

static int append_open(ms_rand_stream *random, char *out, int n, bool may_be_bare)
{
    const uint32_t kinds = (uint32_t)(sizeof onsets / sizeof onsets[0]);
    n        = append(out, n, onsets[ms_rand_below(random, may_be_bare ? kinds : kinds - 1)]);
    out[n++] = vowels[ms_rand_below(random, sizeof vowels - 1)];
    return n;
}

int ms_lexicon_syllable(ms_rand_stream *random, bool closed, char out[4])
{
    int n = append_open(random, out, 0, false);
    if (closed) out[n++] = codas[ms_rand_below(random, sizeof codas - 1)];
    return n;
}

static bool is_taken(const char *word)
{
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        if (strcmp(taken[i], word) == 0) return true;
    return false;
}

/* Makes the words of one kind, no two alike.  The first, frequent ones are short. */
static void make_words(ms_rand_stream *random, const char *const *ends, uint32_t n_ends,
                       uint32_t n_words, char (*out)[MS_WORD_BYTES])
{
    for (uint32_t i = 0; i < n_words; i++) {
        bool fresh = false;
        while (!fresh) {
            char word[MS_WORD_BYTES] = { 0 };
            int  n                   = append_open(random, word, 0, true);
            if (ms_rand_below(random, n_words) < i) n = append_open(random, word, n, false);
            append(word, n, ends[ms_rand_below(random, n_ends)]);
            fresh = !is_taken(word);
            for (uint32_t k = 0; k < i && fresh; k++)
                fresh = memcmp(out[k], word, sizeof word) != 0;
            memcpy(out[i], word, sizeof word);
        }
    }
}

void ms_lexicon_make(uint64_t seed, ms_lexicon *out)
{
    ms_rand_stream random = ms_rand_stream_make(ms_rand_key(seed, "lexicon"));
    uint32_t       sum    = 0;

    make_words(&random, ENDS(noun_ends), MS_NOUNS, out->noun);
    make_words(&random, ENDS(verb_ends), MS_VERBS, out->verb);
    make_words(&random, ENDS(adjective_ends), MS_ADJECTIVES, out->adjective);
    make_words(&random, ENDS(adverb_ends), MS_ADVERBS, out->adverb);
    make_words(&random, ENDS(name_ends), MS_NAMES, out->name);
    for (size_t i = 0; i < MS_NAMES; i++) /* the letters of ASCII: the same everywhere */
        out->name[i][0] = (char)(out->name[i][0] - 'a' + 'A');
    for (uint32_t i = 0; i < MS_NOUNS; i++) {
        sum += ZIPF_SCALE / (i + 2);
        out->zipf[i] = sum;
    }
    for (uint32_t i = 0; i < MS_NOUNS; i++)
        out->usual_adjective[i] = (uint8_t)ms_lexicon_rank(out, &random, MS_ADJECTIVES);
    for (uint32_t i = 0; i < MS_VERBS; i++)
        out->usual_adverb[i] = (uint8_t)ms_lexicon_rank(out, &random, MS_ADVERBS);
}

uint32_t ms_lexicon_rank(const ms_lexicon *lex, ms_rand_stream *random, uint32_t n)
{
    const uint32_t at  = ms_rand_below(random, lex->zipf[n - 1]);
    uint32_t       low = 0, high = n - 1;
    while (low < high) { /* find the first rank whose sum is above */
        const uint32_t mid = (low + high) / 2;
        if (lex->zipf[mid] > at)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}
