/* corpus.c - documents of the built-in corpus.
 *
 * Text with something to learn at every level of difficulty.  In the order in which a small model
 * finds it: which letters there are, the words (lexicon.h, fixed by the seed), which words stand
 * together, what a document is about, agreement, copying.  A document is a title and blocks, with
 * an empty line between them:
 *
 *     document   title block+
 *     title      About the NOUNs, the NOUNs and NAME.          three of the topics that follow
 *     block      story | quote | list | ask | count | sum | copy | reverse
 *     story      sentence+                                      all in one tense
 *     sentence   [Yesterday,] clause [, and clause].
 *     clause     subject verbal
 *     subject    phrase | He | She | It | They                  the last subject of the block again
 *     phrase     NAME | NAME and NAME | the [adjective] noun [near the noun] [relative]
 *     relative   who verbal | which phrase verb                 up to 3 inside each other
 *     verbal     verb phrase | verb near phrase | verb adverb | is adjective | has verbed phrase
 *
 *     quote      Bemo says: "trip mano". Tara repeats: "trip mano".       and, in a later block,
 *                Again Bemo says: "trip mano".
 *     list       List: kem=42, zot=7, ral=93. Ask zot: 7.      and later  Ask ral: 93.
 *     count      Count by 3 from 14: 14 17 20 23.              sum  Sum: 14 + 23 = 37.
 *     copy       Copy wkuz: wkuz.                              reverse  Reverse wkuz: zukw.
 *
 * A verb has the number of its subject: several plome, one plomes, whatever stands between.  Nouns,
 * names and verbs come from a few topics of the document half of the time, else by Zipf's law.
 *
 * Only integers are drawn and only ASCII is written, so the bytes are the same everywhere. */
#include "data/corpus.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/lexicon.h"

enum {
    TOPIC_NOUNS = 4,
    TOPIC_NAMES = 3,
    TOPIC_VERBS = 3,
    QUOTES      = 4,  /* that can be said again */
    PAIRS       = 16, /* that can be asked for */
    QUOTE_BYTES = 48,
    LINE_BYTES  = 128,
    DEPTH       = 3,
    SHORTEST    = 220 /* target bytes of the shortest document; the longest has 17.7 times that */
};

typedef enum number { ONE, SEVERAL } number;
typedef enum person { NOBODY, HE, SHE, IT, THEY } person;
typedef enum tense { PAST, PRESENT, FUTURE } tense;

typedef struct quote {
    const char *who;
    char        text[QUOTE_BYTES];
} quote;

typedef struct pair {
    char     key[4];
    unsigned value;
} pair;

typedef struct generator {
    ms_rand_stream random;
    ms_lexicon     lex;

    char  *text;
    size_t n, capacity;
    size_t target;  /* bytes after which no block begins */
    bool   failed;  /* out of memory */
    bool   capital; /* the next word gets a capital */

    uint32_t nouns[TOPIC_NOUNS], names[TOPIC_NAMES], verbs[TOPIC_VERBS];
    tense    when;
    person   last; /* who the last subject was, NOBODY at the start of a block */

    quote quotes[QUOTES];
    pair  pairs[PAIRS];
    int   n_quotes, n_pairs;
} generator;

/* ---- writing --------------------------------------------------------------------------------- */

static void put(generator *w, const char *text, size_t n)
{
    if (w->capacity - w->n < n) {
        const size_t capacity = 2 * (w->capacity + n);
        char        *wider    = realloc(w->text, capacity);
        if (wider == NULL) {
            w->failed = true;
            return;
        }
        w->text     = wider;
        w->capacity = capacity;
    }
    memcpy(w->text + w->n, text, n);
    w->n += n;
}

static void mark(generator *w, const char *text) /* without a blank before it */
{
    put(w, text, strlen(text));
}

/* A word and an ending.  A blank goes before it, except at the beginning of a line. */
static void inflected(generator *w, const char *stem, const char *ending)
{
    const size_t at = w->n;

    if (at > 0 && w->text[at - 1] != '\n') mark(w, " ");
    mark(w, stem);
    mark(w, ending);
    if (w->capital && !w->failed && stem[0] >= 'a' && stem[0] <= 'z')
        w->text[w->n - strlen(stem) - strlen(ending)] = (char)(stem[0] - 'a' + 'A');
    w->capital = false;
}

static void word(generator *w, const char *text) { inflected(w, text, ""); }

/* Several words at once. */
static void say(generator *w, const char *fmt, ...) MS_PRINTF(2, 3);
static void say(generator *w, const char *fmt, ...)
{
    char    text[LINE_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    word(w, text);
}

static uint32_t below(generator *w, uint32_t n) { return ms_rand_below(&w->random, n); }
static bool     one_in(generator *w, uint32_t n) { return ms_rand_one_in(&w->random, n); }

static const char *any_of(generator *w, const char *const *list, size_t n)
{
    return list[below(w, (uint32_t)n)];
}
#define ANY_OF(w, list) any_of(w, list, COUNT(list))

/* ---- words ----------------------------------------------------------------------------------- */

static uint32_t pick_noun(generator *w)
{
    if (one_in(w, 2)) return w->nouns[below(w, TOPIC_NOUNS)];
    return ms_lexicon_rank(&w->lex, &w->random, MS_NOUNS);
}

static const char *pick_name(generator *w) { return w->lex.name[w->names[below(w, TOPIC_NAMES)]]; }

static uint32_t pick_verb(generator *w)
{
    if (one_in(w, 3)) return w->verbs[below(w, TOPIC_VERBS)];
    return ms_lexicon_rank(&w->lex, &w->random, MS_VERBS);
}

static const char *pick_adjective(generator *w, uint32_t noun)
{
    if (one_in(w, 2)) return w->lex.adjective[w->lex.usual_adjective[noun]];
    return w->lex.adjective[ms_lexicon_rank(&w->lex, &w->random, MS_ADJECTIVES)];
}

static const char *pick_adverb(generator *w, uint32_t verb)
{
    if (one_in(w, 2)) return w->lex.adverb[w->lex.usual_adverb[verb]];
    return w->lex.adverb[ms_lexicon_rank(&w->lex, &w->random, MS_ADVERBS)];
}

static const char *is_or_are(const generator *w, number subject)
{
    if (w->when == FUTURE) return "will be";
    if (w->when == PAST) return subject == ONE ? "was" : "were";
    return subject == ONE ? "is" : "are";
}

static const char *has_or_have(const generator *w, number subject)
{
    if (w->when == FUTURE) return "will have";
    if (w->when == PAST) return "had";
    return subject == ONE ? "has" : "have";
}

static void verb_word(generator *w, uint32_t verb, number subject)
{
    const char *stem = w->lex.verb[verb];

    if (w->when == FUTURE) word(w, "will");
    inflected(w, stem, w->when == PAST ? "d" : w->when == PRESENT && subject == ONE ? "s" : "");
}

/* ---- sentences ------------------------------------------------------------------------------- */

static person phrase(generator *w, int depth);

static number number_of(person who) { return who == THEY ? SEVERAL : ONE; }

static void preposition(generator *w)
{
    static const char *const list[] = { "near", "under", "behind", "with", "over", "from" };
    word(w, ANY_OF(w, list));
}

/* "the drok", "these brany droks", "an ag" */
static void plain_noun(generator *w, number how_many)
{
    static const char *const one[]     = { "the", "the", "the", "this", "every", "one" };
    static const char *const several[] = { "the", "the", "these", "some", "many", "two", "three" };
    const uint32_t           noun      = pick_noun(w);
    const char              *adjective = below(w, 8) < 3 ? pick_adjective(w, noun) : NULL;
    const char              *next      = adjective != NULL ? adjective : w->lex.noun[noun];

    if (how_many == ONE && below(w, 5) < 2) {
        word(w, strchr("aeiou", next[0]) != NULL ? "an" : "a");
    } else {
        word(w, how_many == ONE ? ANY_OF(w, one) : ANY_OF(w, several));
    }
    if (adjective != NULL) word(w, adjective);
    inflected(w, w->lex.noun[noun], how_many == ONE ? "" : "s");
}

static number draw_number(generator *w) { return below(w, 5) < 2 ? SEVERAL : ONE; }

static void verbal(generator *w, number subject, int depth)
{
    const uint32_t kind = below(w, 10), verb = pick_verb(w);

    if (kind < 2) {
        word(w, is_or_are(w, subject));
        word(w, pick_adjective(w, pick_noun(w)));
        return;
    }
    if (kind == 2) {
        word(w, has_or_have(w, subject));
        inflected(w, w->lex.verb[verb], "d");
        phrase(w, depth);
        return;
    }
    verb_word(w, verb, subject);
    if (kind == 3) {
        word(w, pick_adverb(w, verb));
    } else {
        if (kind == 4) preposition(w);
        phrase(w, depth);
    }
}

static void relative(generator *w, number head, int depth)
{
    person inner;

    if (one_in(w, 2)) {
        word(w, "who");
        verbal(w, head, depth);
        return;
    }
    word(w, "which");
    inner = phrase(w, depth);
    verb_word(w, pick_verb(w), number_of(inner));
}

/* Writes a phrase and returns whom it is about.  depth: relatives that may still open. */
static person phrase(generator *w, int depth)
{
    const uint32_t kind = below(w, 16);
    number         how_many;

    if (kind < 4) {
        const uint32_t who  = below(w, TOPIC_NAMES);
        const char    *name = w->lex.name[w->names[who]];
        word(w, name);
        if (kind > 0) return name[strlen(name) - 1] == 'a' ? SHE : HE;
        word(w, "and"); /* somebody else */
        word(w, w->lex.name[w->names[(who + 1 + below(w, TOPIC_NAMES - 1)) % TOPIC_NAMES]]);
        return THEY;
    }
    how_many = draw_number(w);
    plain_noun(w, how_many);
    if (one_in(w, 6)) {
        preposition(w);
        plain_noun(w, draw_number(w));
    }
    if (depth > 0 && one_in(w, 5)) relative(w, how_many, depth - 1);
    return how_many == ONE ? IT : THEY;
}

static void clause(generator *w)
{
    static const char *const pronouns[] = {
        [HE] = "he", [SHE] = "she", [IT] = "it", [THEY] = "they"
    };

    if (w->last != NOBODY && one_in(w, 3)) {
        word(w, pronouns[w->last]);
    } else {
        w->last = phrase(w, DEPTH);
    }
    verbal(w, number_of(w->last), DEPTH);
}

static void sentence(generator *w)
{
    static const char *const times[][3] = { [PAST]    = { "yesterday", "once", "before" },
                                            [PRESENT] = { "today", "now", "often" },
                                            [FUTURE]  = { "tomorrow", "soon", "later" } };
    static const char *const links[]    = { "and", "but", "while", "because" };

    w->capital = true;
    if (one_in(w, 6)) {
        word(w, ANY_OF(w, times[w->when]));
        mark(w, ",");
    }
    clause(w);
    if (one_in(w, 5)) {
        mark(w, ",");
        word(w, ANY_OF(w, links));
        clause(w);
    }
    mark(w, ".");
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void story(generator *w)
{
    static const tense whens[]   = { PAST, PAST, PRESENT, PRESENT, PRESENT, PRESENT, FUTURE };
    const uint32_t     sentences = 2 + below(w, 5);

    w->when = whens[below(w, COUNT(whens))];
    w->last = NOBODY;
    for (uint32_t i = 0; i < sentences && (i == 0 || w->n < w->target); i++)
        sentence(w);
}

/* Two to four random words. */
static void make_quote(generator *w, quote *q)
{
    const uint32_t words = 2 + below(w, 3);
    int            n     = 0;

    q->who = pick_name(w);
    for (uint32_t i = 0; i < words; i++) { /* at most 8 bytes each */
        if (i > 0) q->text[n++] = ' ';
        if (one_in(w, 2)) n += ms_lexicon_syllable(&w->random, false, q->text + n);
        n += ms_lexicon_syllable(&w->random, true, q->text + n);
    }
    q->text[n] = '\0';
}

static void quotation(generator *w)
{
    quote *q;

    if (w->n_quotes > 0 && (w->n_quotes == QUOTES || one_in(w, 2))) {
        q = &w->quotes[below(w, (uint32_t)w->n_quotes)];
        say(w, "Again %s says: \"%s\".", q->who, q->text);
        return;
    }
    q = &w->quotes[w->n_quotes++];
    make_quote(w, q);
    say(w, "%s says: \"%s\".", q->who, q->text);
    if (one_in(w, 2)) say(w, "%s repeats: \"%s\".", pick_name(w), q->text);
}

/* A key that the document does not have yet. */
static void make_pair(generator *w, pair *p)
{
    bool fresh = false;
    while (!fresh) {
        char      key[4] = "";
        const int n      = ms_lexicon_syllable(&w->random, true, key);
        fresh            = n < (int)sizeof key;
        if (!fresh) continue;
        key[n] = '\0';
        for (int i = 0; i < w->n_pairs && fresh; i++)
            fresh = strcmp(key, w->pairs[i].key) != 0;
        memcpy(p->key, key, sizeof key);
    }
    p->value = below(w, 100);
}

static void ask(generator *w, const pair *p) { say(w, "Ask %s: %u.", p->key, p->value); }

static void list(generator *w)
{
    const int first = w->n_pairs, more = 3 + (int)below(w, 3);

    if (first > 0 && (first + more > PAIRS || one_in(w, 2))) {
        ask(w, &w->pairs[below(w, (uint32_t)first)]);
        return;
    }
    word(w, "List:");
    for (int i = 0; i < more; i++) {
        pair *p = &w->pairs[w->n_pairs];
        make_pair(w, p);
        w->n_pairs++;
        say(w, "%s=%u%s", p->key, p->value, i + 1 < more ? "," : ".");
    }
    ask(w, &w->pairs[first + (int)below(w, (uint32_t)more)]);
    if (one_in(w, 2)) ask(w, &w->pairs[first + (int)below(w, (uint32_t)more)]);
}

static void numbers(generator *w)
{
    const unsigned a = below(w, 100), step = 1 + below(w, 9), terms = 4 + below(w, 4);

    if (one_in(w, 2)) {
        say(w, "Sum: %u + %u = %u.", a, step, a + step);
        return;
    }
    say(w, "Count by %u from %u:", step, a);
    for (unsigned i = 0; i < terms; i++)
        say(w, "%u", a + i * step);
    mark(w, ".");
}

static void letters(generator *w)
{
    const bool     back  = one_in(w, 3);
    const uint32_t n     = 3 + below(w, 5);
    char           in[8] = "", out[8] = "";

    for (uint32_t i = 0; i < n; i++)
        in[i] = (char)('a' + below(w, 26)); /* ASCII has them in a row */
    for (uint32_t i = 0; i < n; i++)
        out[i] = back ? in[n - 1 - i] : in[i];
    say(w, "%s %s: %s.", back ? "Reverse" : "Copy", in, out);
}

/* ---- documents ------------------------------------------------------------------------------- */

/* Draws words of the document, by their ranks, no two alike. */
static void pick_topics(generator *w, uint32_t of, uint32_t *out, int n)
{
    for (int i = 0; i < n; i++) {
        bool fresh = false;
        while (!fresh) {
            out[i] = ms_lexicon_rank(&w->lex, &w->random, of);
            fresh  = true;
            for (int k = 0; k < i && fresh; k++)
                fresh = out[k] != out[i];
        }
    }
}

static void title(generator *w)
{
    pick_topics(w, MS_NOUNS, w->nouns, TOPIC_NOUNS);
    pick_topics(w, MS_NAMES, w->names, TOPIC_NAMES);
    pick_topics(w, MS_VERBS, w->verbs, TOPIC_VERBS);
    say(w, "About the %ss, the %ss and %s.\n", w->lex.noun[w->nouns[0]], w->lex.noun[w->nouns[1]],
        w->lex.name[w->names[0]]);
}

musec_status ms_corpus_document(ms_error *e, uint64_t seed, int64_t index, char **text, size_t *n)
{
    ms_lexicon lex;
    ms_lexicon_make(seed, &lex);
    return ms_corpus_document_from(e, &lex, seed, index, text, n);
}

musec_status ms_corpus_document_from(ms_error *e, const ms_lexicon *lex, uint64_t seed,
                                     int64_t index, char **text, size_t *n)
{
    static void (*const blocks[])(
        generator *) = { story, story,     story,     story,     story, story, story,   story,
                         story, quotation, quotation, quotation, list,  list,  numbers, letters };
    generator w      = { .capacity = 1024 };

    *text  = NULL;
    *n     = 0;
    w.text = malloc(w.capacity);
    if (w.text == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory for a document");
    w.lex    = *lex;
    w.random = ms_rand_stream_make(ms_rand_u64(ms_rand_key(seed, "document"), (uint64_t)index));
    /* One in x documents is longer than x times the shortest. */
    w.target = SHORTEST * 65536u / (3700u + below(&w, 65536u - 3700u));
    title(&w);
    while (w.n < w.target && !w.failed) {
        mark(&w, "\n");
        blocks[below(&w, COUNT(blocks))](&w);
        mark(&w, "\n");
    }
    if (w.failed) {
        free(w.text);
        return ms_fail(e, MUSEC_ENOMEM, "not enough memory for a document");
    }
    *text = w.text;
    *n    = w.n;
    return MUSEC_OK;
}
