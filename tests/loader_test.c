/* loader_test.c - the loader's micro-batches against a reference that packs token by token.
 *
 * The reference knows the pieces as they were written, shares no code with the loader, and has no
 * thread.  The loader must give the same micro-batches for any sequence of requests, whatever its
 * thread has prefetched in vain, and from any saved position. */
#define _XOPEN_SOURCE 700
#include "check.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "core/rng.h"
#include "data/loader.h"
#include "data/shard.h"
#include "scratch.h"

enum { START = 40, VOCAB = 50, PIECES = 4, PIECE_MAX = 400, TOKENS_MAX = 64 };

typedef struct data {
    char     dir[256];
    int      pieces;
    int      n[PIECES];
    uint16_t tokens[PIECES][PIECE_MAX];
} data;

typedef struct draw { /* a sequence of random numbers */
    uint64_t key, at;
} draw;

static int below(draw *d, int n) { return (int)(ms_rand_u64(d->key, d->at++) % (uint64_t)n); }

/* ---- data on disk ---------------------------------------------------------------------------- */

static void put_shard(const char *dir, const char *name, const uint16_t *tokens, int n)
{
    ms_error e;
    CHECK_OK_ERR(&e, ms_shard_write(&e, path_in(dir, name), tokens, n));
}

/* Writes all pieces twice: p0.bin ... for training, val0.bin ... for validation. */
static void put_data(data *d, const char *name)
{
    char file[32];
    snprintf(d->dir, sizeof d->dir, "%s/%s", check_tmp_dir(), name);
    CHECK(mkdir(d->dir, 0777) == 0, "%s", d->dir);
    for (int i = 0; i < d->pieces; i++) {
        snprintf(file, sizeof file, "p%d.bin", i);
        put_shard(d->dir, file, d->tokens[i], d->n[i]);
        snprintf(file, sizeof file, "val%d.bin", i);
        put_shard(d->dir, file, d->tokens[i], d->n[i]);
    }
}

/* Documents of many lengths; some pieces are tiny, some have no start token, some end in one. */
static void random_data(draw *r, data *d)
{
    d->pieces = 1 + below(r, PIECES);
    for (int i = 0; i < d->pieces; i++) {
        const int longest = 1 + below(r, below(r, 2) == 0 ? 6 : 60);
        int       left    = below(r, 5) == 0 ? below(r, 10) : 0;
        d->n[i]           = 1 + below(r, below(r, 4) == 0 ? 12 : PIECE_MAX);
        if (below(r, 8) == 0) left = PIECE_MAX;
        for (int k = 0; k < d->n[i]; k++, left--) {
            d->tokens[i][k] = (uint16_t)(left <= 0 ? START : below(r, START));
            if (left <= 0) left = 1 + below(r, longest);
        }
        if (below(r, 6) == 0) d->tokens[i][d->n[i] - 1] = START;
    }
}

static ms_loader_config config(const data *d, bool keep, bool once)
{
    return (ms_loader_config){ .source     = { d->dir, once ? MS_SPLIT_VAL : MS_SPLIT_TRAIN, VOCAB,
                                               START, MS_SHARD_HEADED },
                               .max_tokens = TOKENS_MAX,
                               .keep_rest  = keep,
                               .once       = once };
}

/* ---- the reference --------------------------------------------------------------------------- */

typedef struct reference {
    const data *d;
    bool        keep, once;
    int         piece, at, epoch;
} reference;

typedef struct rows {
    int tokens, epoch;
    int x[TOKENS_MAX + 1], first[TOKENS_MAX + 1]; /* first: the row where the document begins */
} rows;

/* Collects up to tokens + 1 tokens of the piece from *at on, and moves *at behind them. */
static int collect(const reference *o, int piece, int *at, int tokens, int max_doc, rows *out)
{
    const data *d   = o->d;
    int         got = 0, in_doc = -1; /* tokens of the document so far; -1: in none */

    if (o->keep) in_doc = 0;
    while (*at < d->n[piece] && got <= tokens) {
        const int token = d->tokens[piece][(*at)++];
        if (token == START) in_doc = 0;
        if (o->keep && in_doc == max_doc) in_doc = 0;
        if (in_doc < 0 || in_doc == max_doc) continue;
        out->x[got]     = token;
        out->first[got] = got - in_doc;
        in_doc++;
        got++;
    }
    if (o->keep && got > 0) --*at; /* the last target will be an input */
    return got;
}

/* False: no piece can fill the micro-batch; *most is the largest number of tokens that one can. */
static bool expected(reference *o, int tokens, int max_doc, rows *out, int *most)
{
    bool can = o->once;
    int  at, got;

    *most = 0;
    for (int i = 0; i < o->d->pieces; i++) {
        at  = 0;
        got = collect(o, i, &at, tokens, max_doc, out);
        can = can || got == tokens + 1;
        if (got - 1 > *most) *most = got - 1;
    }
    if (!can) return false;
    for (;;) {
        if (o->piece == o->d->pieces) {
            out->tokens = 0;
            if (o->once) return true;
            o->piece = 0;
            o->epoch++;
        }
        at          = o->at;
        got         = collect(o, o->piece, &at, tokens, max_doc, out);
        out->tokens = got - 1;
        out->epoch  = o->epoch;
        o->at       = at;
        if (got == tokens + 1 || (o->once && got > 1)) return true;
        o->piece++;
        o->at = 0;
    }
}

static void compare(const ms_batch *b, const rows *want, const char *what)
{
    CHECK(b->tokens == want->tokens, "%s: %lld tokens, not %d", what, (long long)b->tokens,
          want->tokens);
    if (b->tokens == 0) return;
    CHECK(b->epoch == want->epoch, "%s: epoch %lld, not %d", what, (long long)b->epoch,
          want->epoch);
    for (int i = 0; i < want->tokens; i++) {
        CHECK(b->inputs[i] == want->x[i], "%s: input %d is %d, not %d", what, i, b->inputs[i],
              want->x[i]);
        CHECK(b->targets[i] == want->x[i + 1], "%s: target %d", what, i);
        CHECK(b->doc[i] == want->first[i], "%s: row %d is of %d, not of %d", what, i, b->doc[i],
              want->first[i]);
    }
}

static ms_loader *open_ok(const ms_loader_config *cfg)
{
    ms_loader *l = NULL;
    ms_error   e;
    CHECK_OK_ERR(&e, ms_loader_open(&e, cfg, &l));
    return l;
}

static ms_loader *open_data(const data *d, bool keep, bool once)
{
    const ms_loader_config cfg = config(d, keep, once);
    return open_ok(&cfg);
}

static ms_batch next_ok(ms_loader *l, int64_t tokens, int64_t max_doc)
{
    ms_batch b;
    ms_error e;
    CHECK_OK_ERR(&e, ms_loader_next(&e, l, tokens, max_doc, &b));
    return b;
}

/* ---- any requests ---------------------------------------------------------------------------- */

typedef struct request {
    int tokens, max_doc;
} request;

/* The request is often the same as before, which is what the thread prefetches. */
static void next_request(draw *r, request *q)
{
    if (q->tokens > 0 && below(r, 3) > 0) return;
    q->tokens  = 1 + below(r, below(r, 3) == 0 ? TOKENS_MAX : 12);
    q->max_doc = 1 + below(r, below(r, 2) == 0 ? 5 : 80);
}

/* Compares the next micro-batches of both; returns how many had tokens. */
static int follow(ms_loader *l, reference *o, draw *r, int steps)
{
    static rows want;
    request     q     = { 0 };
    int         found = 0;

    for (int i = 0; i < steps; i++) {
        ms_batch     b;
        ms_error     e    = { "" };
        int          most = 0;
        char         words[64];
        musec_status st;
        next_request(r, &q);
        st = ms_loader_next(&e, l, q.tokens, q.max_doc, &b);
        if (!expected(o, q.tokens, q.max_doc, &want, &most)) {
            CHECK(st == MUSEC_EFORMAT, "%d tokens, documents of %d: %s", q.tokens, q.max_doc,
                  musec_status_name(st));
            snprintf(words, sizeof words, "of %d tokens: its largest piece has %d", q.tokens, most);
            CHECK(strstr(e.text, most == 0 && !o->keep ? "no document" : words) != NULL,
                  "no '%s' in: %s", words, e.text);
            continue;
        }
        CHECK(st == MUSEC_OK, "%d tokens, documents of %d: %s", q.tokens, q.max_doc, e.text);
        compare(&b, &want, o->keep ? "keep" : "skip");
        found += b.tokens > 0;
    }
    return found;
}

TEST(batches_of_random_requests_are_those_of_the_reference)
{
    long found = 0, refused = 0;

    for (uint64_t round = 0; round < 160; round++) {
        static data      d;
        draw             r = { ms_rand_key(round, "round"), 0 };
        reference        o = { &d, round % 2 == 1, round % 4 >= 2, 0, 0, 0 }, there, probe;
        ms_loader_config cfg;
        ms_loader       *l = NULL;
        ms_error         e;
        char             name[32];
        static rows      one;
        int              most;
        ms_position      place;
        uint64_t         mark;

        random_data(&r, &d);
        snprintf(name, sizeof name, "round%d", (int)round);
        put_data(&d, name);
        cfg        = config(&d, o.keep, o.once);
        probe      = o;
        probe.once = false;
        if (!expected(&probe, 1, 1000, &one, &most)) { /* no micro-batch at all */
            CHECK(ms_loader_open(&e, &cfg, &l) == MUSEC_EFORMAT && l == NULL, "round %d",
                  (int)round);
            refused++;
            continue;
        }
        l = open_ok(&cfg);
        found += follow(l, &o, &r, 1 + below(&r, 20));
        place = ms_loader_position(l); /* read on, seek back and read the same again */
        there = o;
        mark  = r.at;
        found += follow(l, &o, &r, 12);
        CHECK_OK_ERR(&e, ms_loader_seek(&e, l, place));
        o    = there;
        r.at = mark;
        found += follow(l, &o, &r, 12);
        ms_loader_close(l);
        l = open_ok(&cfg);
        CHECK_OK_ERR(&e, ms_loader_seek(&e, l, place));
        o    = there;
        r.at = mark;
        found += follow(l, &o, &r, 12);
        ms_loader_close(l);
    }
    print_message("%ld micro-batches compared, %ld sources refused\n", found, refused);
    CHECK(found > 4000 && refused > 0, "too little was looked at");
}

/* ---- rules, by hand -------------------------------------------------------------------------- */

static const uint16_t example[] = { START, 1, 2, 3, 4, START, 5, START, 6, 7, 8, START, 9, 9 };

static void make_example(data *d, const char *name)
{
    *d = (data){ .pieces = 1, .n = { COUNT(example) } };
    memcpy(d->tokens[0], example, sizeof example);
    put_data(d, name);
}

static void expect_batch(ms_loader *l, int tokens, int max_doc, const int *x, const int *doc)
{
    const ms_batch b = next_ok(l, tokens, max_doc);
    CHECK(b.tokens == tokens, "%lld tokens", (long long)b.tokens);
    for (int i = 0; i < tokens; i++)
        CHECK(b.inputs[i] == x[i] && b.targets[i] == x[i + 1] && b.doc[i] == doc[i],
              "row %d: %d -> %d, document %d", i, b.inputs[i], b.targets[i], b.doc[i]);
}

TEST(the_example_of_docs_data_md_is_packed_as_described)
{
    static const int skip1[] = { START, 1, 2, START, 5, START }, doc1[] = { 0, 0, 0, 3, 3 };
    static const int keep1[] = { START, 1, 2, 3, 4, START }, kdoc1[] = { 0, 0, 0, 3, 3 };
    static const int keep2[] = { START, 5, START, 6, 7, 8 }, kdoc2[] = { 0, 0, 2, 2, 2 };
    data             d;

    make_example(&d, "example");
    ms_loader *l = open_data(&d, false, false);
    expect_batch(l, 5, 3, skip1, doc1);
    CHECK(ms_loader_position(l).token == 11, "at %lld", (long long)ms_loader_position(l).token);
    expect_batch(l, 5, 3, skip1, doc1); /* START 9 9 is too little: the next epoch */
    CHECK(ms_loader_position(l).epoch == 1, "epoch");
    ms_loader_close(l);
    l = open_data(&d, true, false);
    expect_batch(l, 5, 3, keep1, kdoc1);
    CHECK(ms_loader_position(l).token == 5, "at %lld", (long long)ms_loader_position(l).token);
    expect_batch(l, 5, 3, keep2, kdoc2);
    ms_loader_close(l);
}

TEST(keep_rest_loses_only_the_end_of_each_piece)
{
    draw        r = { 77, 0 };
    static data d;

    random_data(&r, &d);
    d.pieces = 3;
    d.n[0] = 400, d.n[1] = 131, d.n[2] = 16;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < d.n[i]; k++)
            d.tokens[i][k] = (uint16_t)(below(&r, 9) == 0 ? START : below(&r, START));
    put_data(&d, "stream");
    ms_loader *l = open_data(&d, true, false);
    for (int epoch = 0; epoch < 2; epoch++)
        for (int i = 0; i < 3; i++)
            for (int k = 0; k + 15 < d.n[i]; k += 15) {
                const ms_batch b = next_ok(l, 15, 1000);
                CHECK(b.epoch == epoch, "epoch %lld", (long long)b.epoch);
                for (int j = 0; j < 15; j++)
                    CHECK(b.inputs[j] == d.tokens[i][k + j], "piece %d, token %d", i, k + j);
            }
    ms_loader_close(l);
}

TEST(a_source_read_once_ends_and_stays_at_its_end)
{
    data        d;
    ms_batch    b;
    ms_error    e;
    ms_position end;

    make_example(&d, "once");
    ms_loader *l = open_data(&d, true, true);
    for (int left = 13; left > 0; left -= 5) { /* 14 tokens: 5, 5 and 3 pairs */
        b = next_ok(l, 5, 100);
        CHECK(b.tokens == (left < 5 ? left : 5) && b.epoch == 0, "%lld", (long long)b.tokens);
    }
    for (int i = 0; i < 3; i++) {
        b = next_ok(l, 1 + i, 100);
        CHECK(b.tokens == 0, "%lld tokens behind the end", (long long)b.tokens);
    }
    end = ms_loader_position(l);
    CHECK_OK_ERR(&e, ms_loader_seek(&e, l, (ms_position){ 0 }));
    b = next_ok(l, 60, 100);
    CHECK(b.tokens == 13, "all of it: %lld", (long long)b.tokens);
    CHECK_OK_ERR(&e, ms_loader_seek(&e, l, end));
    b = next_ok(l, 60, 100);
    CHECK(b.tokens == 0, "the end is a valid position");
    ms_loader_close(l);
}

TEST(invalid_sizes_and_positions_are_refused)
{
    static const struct {
        ms_position at;
        const char *words;
    } places[] = {
        { { -1, 0, 0 }, "no place at epoch -1" },
        { { 0, -1, 0 }, "piece -1" },
        { { 0, 0, -1 }, "token -1" },
        { { 0, 1, 0 }, "it has 1 pieces" },
        { { 0, 0, 15 }, "which has 14" },
        { { 0, INT64_MAX, 0 }, "it has 1 pieces" },
    };
    data             d;
    ms_loader_config cfg;
    ms_loader       *l = NULL;
    ms_batch         b;
    ms_error         e;

    make_example(&d, "refused");
    cfg            = config(&d, false, false);
    cfg.max_tokens = 0;
    CHECK(ms_loader_open(&e, &cfg, &l) == MUSEC_EINVAL && l == NULL, "max_tokens 0");
    cfg.max_tokens = (int64_t)INT32_MAX + 1;
    CHECK(ms_loader_open(&e, &cfg, &l) == MUSEC_EINVAL && l == NULL, "max_tokens 2^31");
    cfg.source.path = "/nothing/there";
    CHECK(ms_loader_open(&e, &cfg, &l) == MUSEC_EIO && l == NULL, "no source");
    l = open_data(&d, false, false);
    CHECK(ms_loader_next(&e, l, 0, 1, &b) == MUSEC_EINVAL, "0 tokens");
    CHECK(ms_loader_next(&e, l, TOKENS_MAX + 1, 1, &b) == MUSEC_EINVAL, "too many tokens");
    CHECK(ms_loader_next(&e, l, 1, 0, &b) == MUSEC_EINVAL, "documents of 0");
    CHECK_FAILS(&e, ms_loader_next(&e, l, 14, 99, &b), MUSEC_EFORMAT,
                "cannot fill a micro-batch of 14 tokens: its largest piece has 13");
    b = next_ok(l, 13, 99); /* a failure does not change the position */
    CHECK(b.tokens == 13 && b.epoch == 0, "%lld", (long long)b.tokens);
    for (size_t c = 0; c < COUNT(places); c++) {
        CHECK(ms_loader_seek(&e, l, places[c].at) == MUSEC_EINVAL, "place %zu", c);
        CHECK(strstr(e.text, places[c].words) != NULL, "place %zu: %s", c, e.text);
    }
    ms_loader_close(l);
    ms_loader_close(NULL);
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* The thread reads a damaged shard.  Once it is repaired, the loader goes on. */
TEST(errors_of_the_thread_are_returned_by_the_next_call)
{
    static const uint16_t bad[] = { START, VOCAB };
    data                  d     = { .pieces = 2, .n = { 8, 8 } };
    ms_batch              b;
    ms_error              e = { "" };

    for (int i = 0; i < 16; i++)
        d.tokens[i / 8][i % 8] = (uint16_t)(i % 8 == 0 ? START : i);
    put_data(&d, "failing");
    ms_loader *l = open_data(&d, true, false);
    put_shard(d.dir, "p1.bin", bad, 2);
    (void)next_ok(l, 7, 100);
    for (int i = 0; i < 3; i++) {
        CHECK(ms_loader_next(&e, l, 7, 100, &b) == MUSEC_EFORMAT && b.tokens == 0, "call %d", i);
        CHECK(strstr(e.text, "p1.bin: token 1 has the id 50") != NULL, "%s", e.text);
    }
    put_shard(d.dir, "p1.bin", d.tokens[1], 8);
    b = next_ok(l, 7, 100);
    CHECK(b.tokens == 7 && b.inputs[1] == 9, "the second piece");
    ms_loader_close(l);
}

/* The thread packs the next batch meanwhile. */
TEST(a_batch_does_not_change_until_the_next_call)
{
    ms_loader_config cfg = { .source     = { "builtin", MS_SPLIT_TRAIN, 320, 256, MS_SHARD_HEADED },
                             .max_tokens = 4096 };
    ms_loader       *l   = open_ok(&cfg);
    static int32_t   copy[4096];

    for (int i = 0; i < 20; i++) {
        const struct timespec wait = { 0, 2000000 };
        const ms_batch        b    = next_ok(l, 4096, 256);
        memcpy(copy, b.inputs, sizeof copy);
        nanosleep(&wait, NULL);
        CHECK(memcmp(copy, b.inputs, sizeof copy) == 0, "batch %d changed", i);
        CHECK(b.inputs[0] == 256 && b.doc[0] == 0, "batch %d", i);
    }
    CHECK(ms_loader_source(l) != NULL && ms_source_tokens(ms_loader_source(l)) == -1, "source");
    ms_loader_close(l);
}

/* The thread has just begun a new piece of the built-in corpus. */
TEST(a_loader_can_be_closed_while_its_thread_works)
{
    ms_loader_config cfg = { .source     = { "builtin:3", MS_SPLIT_VAL, 320, 256, MS_SHARD_HEADED },
                             .max_tokens = 1000,
                             .keep_rest  = true };

    for (int i = 0; i < 6; i++) {
        ms_loader      *l = open_ok(&cfg);
        ms_error        e;
        const uint16_t *piece;
        int64_t         n;
        ms_source      *s = NULL;
        CHECK_OK_ERR(&e, ms_source_open(&e, &cfg.source, &s));
        CHECK_OK_ERR(&e, ms_source_piece(&e, s, 0, &piece, &n));
        ms_source_close(s);
        CHECK_OK_ERR(&e, ms_loader_seek(&e, l, (ms_position){ 0, 0, n - 1001 }));
        (void)next_ok(l, 1000, 256); /* the last of its piece */
        CHECK(ms_loader_position(l).piece == 0, "still piece 0");
        if (i % 3 > 0) (void)next_ok(l, i % 3 == 1 ? 1000 : 999, 256);
        ms_loader_close(l);
    }
}

/* Otherwise the search would never end. */
TEST(an_endless_source_of_small_pieces_refuses_large_batches)
{
    ms_loader_config cfg = { .source     = { "builtin", MS_SPLIT_TRAIN, 320, 256, MS_SHARD_HEADED },
                             .max_tokens = 1 << 24 };
    ms_loader       *l   = open_ok(&cfg);
    ms_batch         b;
    ms_error         e;

    CHECK_FAILS(&e, ms_loader_next(&e, l, 1 << 24, 1 << 24, &b), MUSEC_EFORMAT,
                "its largest piece has ");
    (void)next_ok(l, 1000, 100);
    ms_loader_close(l);
}
