/* lexicon.h - the invented words of the built-in corpus, a few hundred for each seed.
 *
 * A word's end tells what it is, as in English only more so:
 *     noun       a consonant but d and y; "s" more for several        drok, droks
 *     verb       "e" of several, "es" of one, "ed" of the past        plome, plomes, plomed
 *     adjective  "y" or "ish"                                         brany, kelish
 *     adverb     "ly"                                                 modly
 *     name       a capital; "a" of a woman, "o" of a man              Tara, Bemo
 * The words that English has for grammar (the, these, which, has, ...) are in corpus.c. */
#ifndef MS_DATA_LEXICON_H
#define MS_DATA_LEXICON_H

#include <stdint.h>

#include "core/rand_stream.h"

enum {
    MS_NOUNS      = 120,
    MS_VERBS      = 72,
    MS_ADJECTIVES = 48,
    MS_ADVERBS    = 24,
    MS_NAMES      = 40,
    MS_WORD_BYTES = 16
};

typedef struct ms_lexicon {
    char     noun[MS_NOUNS][MS_WORD_BYTES];
    char     verb[MS_VERBS][MS_WORD_BYTES]; /* as of several: it ends in e */
    char     adjective[MS_ADJECTIVES][MS_WORD_BYTES];
    char     adverb[MS_ADVERBS][MS_WORD_BYTES];
    char     name[MS_NAMES][MS_WORD_BYTES];
    uint32_t zipf[MS_NOUNS];            /* sum of the weights of ranks 0..i, 2^20 / (i + 2) each */
    uint8_t  usual_adjective[MS_NOUNS]; /* collocations: words that often stand together */
    uint8_t  usual_adverb[MS_VERBS];
} ms_lexicon;

void ms_lexicon_make(uint64_t seed, ms_lexicon *out);

/* Draws a rank below n (at most MS_NOUNS) by Zipf's law. */
uint32_t ms_lexicon_rank(const ms_lexicon *lex, ms_rand_stream *random, uint32_t n);

/* Draws a syllable of at most 4 letters, which ends in a consonant if it is `closed`.  Returns its
 * length. */
int ms_lexicon_syllable(ms_rand_stream *random, bool closed, char out[4]);

#endif
