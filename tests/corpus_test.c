/* corpus_test.c - the built-in corpus: its bytes never change, and it has the structure described.
 *
 * The parser here knows the grammar as lexicon.h and corpus.c describe it and shares no code with
 * them.  Every sentence of every story must parse, with each verb in the number of its subject. */
#include "check.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/corpus.h"

#define DOCUMENTS 2000 /* of seed 0, used by all tests */

static struct {
    char  *text;
    size_t n;
} docs[DOCUMENTS];

static char *document(uint64_t seed, int64_t index, size_t *n)
{
    char    *text = NULL;
    ms_error e;
    CHECK_OK_ERR(&e, ms_corpus_document(&e, seed, index, &text, n));
    return text;
}

static int make_docs(void **state)
{
    (void)state;
    for (int i = 0; i < DOCUMENTS; i++) {
        char *text   = document(0, i, &docs[i].n);
        docs[i].text = realloc(text, docs[i].n + 1); /* ends in a NUL */
        CHECK(docs[i].text != NULL, "memory");
        docs[i].text[docs[i].n] = '\0';
    }
    return 0;
}

static int free_docs(void **state)
{
    (void)state;
    for (int i = 0; i < DOCUMENTS; i++)
        free(docs[i].text);
    return 0;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static uint64_t fnv(const char *text, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
    return h;
}

/* Runs are compared by their data, so any change of these bytes would be another corpus. */
TEST(the_bytes_never_change)
{
    static const struct {
        uint64_t seed;
        int64_t  index;
        uint64_t want;
    } cases[] = {
        { 0, 0, 0x5dc0c99ad4f72ee3 },
        { 0, 1, 0x100f3f2f478758ac },
        { 0, 1000, 0x800a82eba58f0abb },
        { 1, 0, 0x9b3df54bec2dee8b },
        { 0, (int64_t)1 << 62, 0xb808dc1f5780ccb7 },
        { UINT64_MAX, INT64_MAX, 0x17096d2d3f907b79 },
    };

    for (size_t c = 0; c < COUNT(cases); c++) {
        size_t n = 0, n2 = 0;
        char  *text  = document(cases[c].seed, cases[c].index, &n);
        char  *twice = document(cases[c].seed, cases[c].index, &n2);
        CHECK(n == n2 && memcmp(text, twice, n) == 0, "case %zu differs from itself", c);
        CHECK(fnv(text, n) == cases[c].want, "case %zu is 0x%016llx", c,
              (unsigned long long)fnv(text, n));
        free(text);
        free(twice);
    }
}

TEST(documents_are_ascii_of_many_lengths)
{
    int    longer[5] = { 0 }; /* of at least 220, 440, 880, 1760, 3520 bytes */
    size_t longest   = 0;

    for (int i = 0; i < DOCUMENTS; i++) {
        CHECK(docs[i].n >= 220, "document %d has %zu bytes", i, docs[i].n);
        longest = docs[i].n > longest ? docs[i].n : longest;
        for (int k = 0; k < 5; k++)
            longer[k] += docs[i].n >= (size_t)220 << k;
        for (size_t k = 0; k < docs[i].n; k++) {
            const char c = docs[i].text[k];
            CHECK(c == '\n' || (c >= ' ' && c <= '~'), "document %d, byte %zu is %d", i, k, c);
        }
        CHECK(docs[i].text[docs[i].n - 1] == '\n', "document %d ends in no line", i);
        CHECK(memcmp(docs[i].text, "About the ", 10) == 0, "document %d has no title", i);
    }
    CHECK(longest < 4400, "the longest has %zu", longest);
    CHECK(longer[4] > 0, "no long documents");
    for (int k = 1; k < 4; k++) /* lengths follow 1/x: each is about half of the one before */
        CHECK(longer[k] * 10 > longer[k - 1] * 2 && longer[k] * 10 < longer[k - 1] * 7,
              "%d documents have %d bytes, %d have twice that", longer[k - 1], 110 << k, longer[k]);
}

TEST(no_two_documents_are_the_same)
{
    for (int i = 0; i < DOCUMENTS; i++)
        for (int k = 0; k < i; k++)
            CHECK(docs[i].n != docs[k].n || memcmp(docs[i].text, docs[k].text, docs[i].n) != 0,
                  "documents %d and %d", i, k);
}

/* ---- entropies ------------------------------------------------------------------------------- */

/* The entropy in nats of a byte given the `order` bytes before it, from counts of 7-bit
 * characters. */
static double entropy(int order)
{
    const size_t cells = (size_t)1 << (7 * (order + 1));
    uint32_t    *joint = check_alloc(cells * sizeof *joint),
             *past     = check_alloc(cells / 128 * sizeof *past);
    double sum         = 0.0;
    size_t n           = 0;

    for (int i = 0; i < DOCUMENTS; i++)
        for (size_t k = (size_t)order; k < docs[i].n; k++, n++) {
            size_t cell = 0;
            for (size_t b = k - (size_t)order; b <= k; b++)
                cell = cell << 7 | (unsigned char)docs[i].text[b];
            joint[cell]++;
            past[cell >> 7]++;
        }
    for (size_t c = 0; c < cells; c++)
        if (joint[c] > 0) sum -= joint[c] * log((double)joint[c] / past[c >> 7]);
    free(joint);
    free(past);
    return sum / (double)n;
}

/* A model can lower its loss with each letter of context that it learns to use. */
TEST(entropy_falls_with_the_length_of_the_context)
{
    static const double low[] = { 3.1, 2.1, 1.4, 0.95 }, high[] = { 3.35, 2.35, 1.65, 1.15 };

    for (int order = 0; order < 4; order++) {
        const double h = entropy(order);
        print_message("order %d: %.3f nats/byte\n", order, h);
        CHECK(h >= low[order] && h <= high[order], "order %d: %g nats", order, h);
    }
}

/* ---- the parser ------------------------------------------------------------------------------ */

enum { WORDS = 256 };

typedef struct sentence {
    char word[WORDS][20]; /* commas are words */
    int  n, at;
    char last; /* the subject of the clause before: h(e), s(he), i(t), t(hey), or 0 */
    int  deepest, compared;
} sentence;

static const char *peek(const sentence *s) { return s->at < s->n ? s->word[s->at] : "(end)"; }

/* Whether the next word is in the list, which has blanks between its words. */
static bool is(const sentence *s, const char *list)
{
    const size_t n = strlen(peek(s));
    for (const char *p = strstr(list, peek(s)); p != NULL; p = strstr(p + 1, peek(s)))
        if ((p == list || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0')) return true;
    return false;
}

static bool accept(sentence *s, const char *list)
{
    const bool yes = is(s, list);
    s->at += yes;
    return yes;
}

static bool ends(const char *word, const char *end)
{
    const size_t n = strlen(word), m = strlen(end);
    return n > m && strcmp(word + n - m, end) == 0;
}

static bool is_name(const char *word)
{
    return isupper((unsigned char)word[0]) && (ends(word, "a") || ends(word, "o")) &&
           strcmp(word, "Two") != 0; /* two droks, at the beginning */
}

static _Noreturn void wrong(const sentence *s, const char *what)
{
    char   text[1024];
    size_t n = 0;
    for (int i = 0; i < s->n && n < sizeof text - 40; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s ", i == s->at ? ">>" : "",
                              s->word[i]);
    check_failed(__FILE__, __LINE__, what, "%s", text);
}

#define NEED(cond)                    \
    do {                              \
        if (!(cond)) wrong(s, #cond); \
    } while (0)

static char parse_phrase(sentence *s, int depth);

static void parse_noun(sentence *s, bool *several)
{
    static const char one[] = "a an this every one", many[] = "these some many two three";
    const bool sure_one = is(s, one), sure_many = is(s, many), an = is(s, "an"), a = is(s, "a");

    NEED(accept(s, "the") || accept(s, one) || accept(s, many));
    if (a || an) NEED((strchr("aeiou", peek(s)[0]) != NULL) == an);
    if (ends(peek(s), "y") || ends(peek(s), "ish")) s->at++;
    *several = ends(peek(s), "s");
    NEED(strchr("bgklmnprt", peek(s)[strlen(peek(s)) - (*several ? 2 : 1)]) != NULL);
    NEED(!(sure_one && *several) && !(sure_many && !*several));
    s->at++;
}

/* A finite verb: plural "plome", singular "plomes", "plomed" or "will plome". */
static void parse_verb(sentence *s, bool several)
{
    if (accept(s, "will")) {
        NEED(ends(peek(s), "e"));
    } else if (!ends(peek(s), "ed")) {
        NEED(ends(peek(s), several ? "e" : "es"));
        s->compared++;
    }
    s->at++;
}

static void parse_verbal(sentence *s, bool several, int depth)
{
    static const char preps[] = "near under behind with over from";
    const int         at      = s->at;
    bool              be, have;

    if (accept(s, "will")) {
        be   = accept(s, "be");
        have = !be && accept(s, "have");
        if (!be && !have) s->at = at; /* will plome */
    } else {
        s->compared += is(s, "is was has are were have");
        be   = accept(s, several ? "are were" : "is was");
        have = !be && accept(s, several ? "have had" : "has had");
    }
    if (be) {
        NEED(ends(peek(s), "y") || ends(peek(s), "ish"));
        s->at++;
        return;
    }
    if (have) {
        NEED(ends(peek(s), "ed"));
        s->at++;
        parse_phrase(s, depth);
        return;
    }
    parse_verb(s, several);
    if (ends(peek(s), "ly")) {
        s->at++;
        return;
    }
    accept(s, preps);
    parse_phrase(s, depth);
}

/* Returns the pronoun of the phrase: h(e), s(he), i(t) or t(hey). */
static char parse_phrase(sentence *s, int depth)
{
    bool several, other;

    if (depth > s->deepest) s->deepest = depth;
    if (is_name(peek(s))) {
        const char who = ends(peek(s), "a") ? 's' : 'h';
        s->at++;
        if (!is(s, "and")) return who;
        s->at++;
        NEED(is_name(peek(s)) && strcmp(peek(s), s->word[s->at - 2]) != 0);
        s->at++;
        return 't';
    }
    parse_noun(s, &several);
    if (accept(s, "near under behind with over from")) parse_noun(s, &other);
    if (accept(s, "who")) {
        parse_verbal(s, several, depth + 1);
    } else if (accept(s, "which")) {
        parse_verb(s, parse_phrase(s, depth + 1) == 't');
    }
    return several ? 't' : 'i';
}

static void parse_clause(sentence *s)
{
    if (is(s, "he she it they")) {
        NEED(s->last == peek(s)[0]);
        s->at++;
    } else {
        s->last = parse_phrase(s, 0);
    }
    parse_verbal(s, s->last == 't', 0);
}

static void parse_sentence(sentence *s)
{
    s->at = 0;
    if (!is_name(s->word[0])) {
        NEED(isupper((unsigned char)s->word[0][0]));
        s->word[0][0] = (char)tolower((unsigned char)s->word[0][0]);
    }
    if (accept(s, "yesterday once before today now often tomorrow soon later"))
        NEED(accept(s, ","));
    parse_clause(s);
    if (accept(s, ",")) {
        NEED(accept(s, "and but while because"));
        parse_clause(s);
    }
    NEED(s->at == s->n);
}

/* Splits the words up to the full stop; returns what follows it. */
static const char *split_words(const char *p, sentence *s)
{
    s->n = 0;
    while (*p != '.') {
        int n = 0;
        if (*p == ' ') p++;
        if (*p == ',') {
            s->word[s->n][n++] = *p++;
        } else {
            while (isalpha((unsigned char)*p) && n < 19)
                s->word[s->n][n++] = *p++;
        }
        CHECK(n > 0 && n < 19 && s->n < WORDS - 1, "no word at: %.60s", p);
        s->word[s->n++][n] = '\0';
    }
    return p + 1;
}

static bool is_story(const char *line, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (line[i] == ':') return false;
    return memcmp(line, "About", 5) != 0;
}

typedef struct totals {
    long sentences, compared, at_depth[4];
} totals;

static void parse_document(const char *text, size_t n, totals *sum)
{
    static sentence s;
    const char     *line = text, *end = text + n, *stop;

    for (; line < end; line = stop + 1) {
        stop = memchr(line, '\n', (size_t)(end - line));
        if (stop == line || !is_story(line, (size_t)(stop - line))) continue;
        s.last = 0;
        for (const char *p = line; p < stop; sum->sentences++) {
            if (*p == ' ') p++;
            p         = split_words(p, &s);
            s.deepest = s.compared = 0;
            parse_sentence(&s);
            CHECK(s.deepest <= 3, "%d relatives in each other", s.deepest);
            sum->compared += s.compared;
            sum->at_depth[s.deepest]++;
        }
    }
}

TEST(verbs_agree_in_every_sentence)
{
    totals sum = { 0 };

    for (int i = 0; i < DOCUMENTS; i++)
        parse_document(docs[i].text, docs[i].n, &sum);
    print_message("%ld sentences, %ld verbs with a number; relatives 0..3 deep: %ld %ld %ld %ld\n",
                  sum.sentences, sum.compared, sum.at_depth[0], sum.at_depth[1], sum.at_depth[2],
                  sum.at_depth[3]);
    CHECK(sum.sentences > 5 * DOCUMENTS && sum.compared > sum.sentences / 2, "too few");
    CHECK(sum.at_depth[1] > sum.sentences / 10 && sum.at_depth[2] > 100 && sum.at_depth[3] > 10,
          "it is flat");
}

/* The words of a seed must differ from each other and from those of the grammar. */
TEST(documents_of_other_seeds_parse)
{
    totals sum = { 0 };

    for (uint64_t seed = 1; seed <= 100; seed++)
        for (int64_t i = 0; i < 20; i++) {
            size_t n    = 0;
            char  *text = document(seed << seed % 60, i, &n);
            parse_document(text, n, &sum);
            free(text);
        }
    CHECK(sum.sentences > 10000, "%ld sentences", sum.sentences);
}

/* ---- copies ---------------------------------------------------------------------------------- */

typedef struct seen {
    long again, repeats, asked, counts, sums, copies, reversed;
} seen;

/* Whether `what` occurs in `text` before `end`. */
static bool occurs_before(const char *text, const char *end, const char *what)
{
    const char *found = strstr(text, what);
    return found != NULL && found < end;
}

static long value(const char *digits) { return strtol(digits, NULL, 10); }

static void check_count(const char *line, seen *n)
{
    char step[8], from[8], *end = NULL;
    long terms = 0;
    int  used  = 0;

    if (sscanf(line, "Count by %7[0-9] from %7[0-9]:%n", step, from, &used) != 2) return;
    for (line += used; *line == ' '; line = end, terms++) {
        const long at = strtol(line, &end, 10);
        CHECK(at == value(from) + value(step) * terms, "term %ld is %ld", terms, at);
    }
    CHECK(*line == '.' && terms >= 4, "%ld terms", terms);
    n->counts++;
}

/* Checks what a block repeats, asks or computes. */
static void check_block(const char *text, const char *line, seen *n)
{
    char a[64], b[64], c[64], want[160];
    bool within; /* inside the list: a comma follows */

    if (sscanf(line, "Again %63s says: \"%63[a-z ]\".", a, b) == 2) {
        snprintf(want, sizeof want, "%s says: \"%s\".", a, b);
        CHECK(occurs_before(text, line, want), "never said before: %.80s", line);
        n->again++;
    }
    if (sscanf(line, "%*s says: \"%63[a-z ]\". %*s repeats: \"%63[a-z ]\".", a, b) == 2) {
        CHECK(strcmp(a, b) == 0, "not repeated: %.80s", line);
        n->repeats++;
    }
    for (const char *ask = strstr(line, "Ask "); ask != NULL && ask < strchr(line, '\n');
         ask             = strstr(ask + 1, "Ask ")) {
        CHECK(sscanf(ask, "Ask %63[a-z]: %63[0-9].", a, b) == 2, "%.40s", ask);
        snprintf(want, sizeof want, " %s=%s,", a, b);
        within = occurs_before(text, ask, want);
        snprintf(want, sizeof want, " %s=%s.", a, b);
        CHECK(within || occurs_before(text, ask, want), "no such pair: %.40s", ask);
        n->asked++;
    }
    if (sscanf(line, "Sum: %63[0-9] + %63[0-9] = %63[0-9].", a, b, c) == 3) {
        CHECK(value(a) + value(b) == value(c), "%.40s", line);
        n->sums++;
    }
    if (sscanf(line, "Copy %63[a-z]: %63[a-z].", a, b) == 2) {
        CHECK(strcmp(a, b) == 0, "%.40s", line);
        n->copies++;
    }
    if (sscanf(line, "Reverse %63[a-z]: %63[a-z].", a, b) == 2) {
        const size_t m = strlen(a);
        CHECK(strlen(b) == m, "%.40s", line);
        for (size_t i = 0; i < m; i++)
            CHECK(a[i] == b[m - 1 - i], "%.40s", line);
        n->reversed++;
    }
    check_count(line, n);
}

TEST(repetitions_answers_and_sums_are_right)
{
    static const char *const heads[] = { "Again ", "Ask ",  "List: ",  "Count ",
                                         "Sum: ",  "Copy ", "Reverse " };
    seen                     n       = { 0 };
    long                     blocks  = 0;

    for (int i = 0; i < DOCUMENTS; i++) {
        const char *text = docs[i].text;
        for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
            const bool quoted = strcspn(line, "\"") < strcspn(line, "\n");
            bool       known  = quoted;
            for (size_t h = 0; h < COUNT(heads); h++)
                known = known || strncmp(line, heads[h], strlen(heads[h])) == 0;
            if (known) check_block(text, line, &n);
            blocks += known;
        }
    }
    print_message(
        "%ld blocks: again %ld, repeats %ld, asked %ld, counts %ld, sums %ld, copies %ld, "
        "reversed %ld\n",
        blocks, n.again, n.repeats, n.asked, n.counts, n.sums, n.copies, n.reversed);
    CHECK(n.again > 100 && n.repeats > 100 && n.asked > 500, "copies are rare");
    CHECK(n.counts > 50 && n.sums > 50 && n.copies > 50 && n.reversed > 25, "tasks are rare");
}

/* A model can learn a document's topic from its title. */
TEST(documents_repeat_the_noun_of_their_title)
{
    long returned = 0, elsewhere = 0;

    for (int i = 0; i + 1 < DOCUMENTS; i++) {
        char noun[32];
        CHECK(sscanf(docs[i].text, "About the %31[a-z]", noun) == 1, "document %d", i);
        noun[strlen(noun) - 1] = '\0'; /* the singular */
        returned += strstr(strchr(docs[i].text, '\n'), noun) != NULL;
        elsewhere += strstr(strchr(docs[i + 1].text, '\n'), noun) != NULL;
    }
    print_message("topics return in %ld of %d documents, come in %ld of the next ones\n", returned,
                  DOCUMENTS - 1, elsewhere);
    CHECK(returned > DOCUMENTS * 3 / 4 && elsewhere < returned * 3 / 4, "no topics");
}

TEST(seeds_give_different_documents)
{
    size_t na = 0, nb = 0;
    char  *a = document(5, 0, &na), *b = document(6, 0, &nb);
    CHECK(na != nb || memcmp(a, b, na) != 0, "the seed does not matter");
    free(a);
    free(b);
}

TEST_GROUP(make_docs, free_docs)
