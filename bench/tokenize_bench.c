/* tokenize_bench.c - GPT-2's tokenizer on ordinary text, on its worst cases, and beside tiktoken.
 *
 * All rows take turns, round after round, and ratios are medians over the rounds of times of the
 * same round.  A megabyte is 10^6 bytes.
 *
 *     ordinary text   the --text file, or 8 MB of the built-in corpus (few words, so faster)
 *     worst cases     1 MB in a single word, beside the first 1 MB of the text; in random letters
 *                     no part repeats
 *     two threads     each encodes the whole text with its own cache, beside a loop that only
 *                     computes and shows what the machine gives two threads at this moment
 *     tiktoken        bench/peers/tiktoken_bench.py, if it is found from the working directory and
 *                     python3 has tiktoken; its start and its reading are not timed */
#define _POSIX_C_SOURCE 200809L /* popen, pthread */
#include "bench.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/json_file.h"
#include "core/rng.h"
#include "data/bpe.h"
#include "data/corpus.h"
#include "timing.h"

#define PEER "bench/peers/tiktoken_bench.py"

enum { THREADS = 2, PIECE = 1000000, BUILTIN_BYTES = 8000000, MAX_ROUNDS = 200 };

typedef struct text_span {
    const char *p;
    size_t      n;
} text_span;

typedef struct tokenize_job {
    const ms_bpe *bpe;
    ms_bpe_cache *cache[THREADS];
    uint16_t     *ids[THREADS]; /* (ms_bpe_max_ids of the text) */
    char         *all;          /* the ordinary text */
    size_t        bytes;
    char         *worst; /* (PIECE) the text of the current worst case */
    char          vocab[MS_PATH_MAX];
    const char   *text_path; /* as the peer can read it */
    char          own_text[64];
    size_t        n_ids;
} tokenize_job;

typedef struct tokenize_row {
    const char *name;
    double (*ms)(tokenize_job              *j,
                 const struct tokenize_row *r); /* times one run; negative if it failed */
    const char *repeat;                         /* worst cases: the repeated part */
    double      work;                           /* bytes, or another unit */
    int         against;                        /* the row of the ratio; -1: none */
    double      times[MAX_ROUNDS];
    bool        failed;
} tokenize_row;

/* ---- what is timed --------------------------------------------------------------------------- */

static double encode_ms(tokenize_job *j, int thread, text_span t)
{
    const double begin = ms_clock_ms();
    const size_t n     = ms_bpe_encode(j->bpe, j->cache[thread], t.p, t.n, false, j->ids[thread]);
    if (thread == 0 && t.p == j->all && t.n == j->bytes) j->n_ids = n;
    return ms_clock_ms() - begin;
}

static double time_text(tokenize_job *j, const tokenize_row *r)
{
    (void)r;
    return encode_ms(j, 0, (text_span){ j->all, j->bytes });
}

static double time_piece(tokenize_job *j, const tokenize_row *r)
{
    (void)r;
    return encode_ms(j, 0, (text_span){ j->all, PIECE });
}

static double time_worst(tokenize_job *j, const tokenize_row *r)
{
    const size_t m = strlen(r->repeat);
    for (size_t i = 0; i < PIECE; i++)
        j->worst[i] = r->repeat[i % m];
    return encode_ms(j, 0, (text_span){ j->worst, PIECE });
}

static double time_letters(tokenize_job *j, const tokenize_row *r)
{
    (void)r;
    for (size_t i = 0; i < PIECE; i++)
        j->worst[i] = (char)('a' + ms_rand_u64(1, i) % 26);
    return encode_ms(j, 0, (text_span){ j->worst, PIECE });
}

typedef struct encode_thread {
    tokenize_job *j;
    int           thread;
    bool          only_compute;
} encode_thread;

/* Four chains of operations: enough to fill a core, so that two threads on one core show. */
static void compute(void)
{
    volatile uint64_t sink;
    uint64_t          x[4] = { 1, 2, 3, 4 };
    for (int i = 0; i < 10000000; i++)
        for (int k = 0; k < 4; k++) {
            x[k] ^= x[k] << 13;
            x[k] ^= x[k] >> 7;
            x[k] ^= x[k] << 17;
        }
    sink = x[0] + x[1] + x[2] + x[3];
    (void)sink;
}

static void *work(void *arg)
{
    const encode_thread *w = arg;
    if (w->only_compute)
        compute();
    else
        encode_ms(w->j, w->thread, (text_span){ w->j->all, w->j->bytes });
    return NULL;
}

static double time_threads(tokenize_job *j, int threads, bool only_compute)
{
    encode_thread w[THREADS];
    pthread_t     id[THREADS];
    int           started = 0;
    const double  begin   = ms_clock_ms();

    for (; started < threads; started++) {
        w[started] = (encode_thread){ j, started, only_compute };
        if (pthread_create(&id[started], NULL, work, &w[started]) != 0) break;
    }
    for (int i = 0; i < started; i++)
        pthread_join(id[i], NULL);
    return started == threads ? ms_clock_ms() - begin : -1.0;
}

static double time_two(tokenize_job *j, const tokenize_row *r)
{
    (void)r;
    return time_threads(j, THREADS, false);
}
static double time_compute(tokenize_job *j, const tokenize_row *r)
{
    (void)r;
    return time_threads(j, 1, true);
}
static double time_compute_two(tokenize_job *j, const tokenize_row *r)
{
    (void)r;
    return time_threads(j, THREADS, true);
}

static double time_peer(tokenize_job *j, const tokenize_row *r)
{
    char   command[3 * MS_PATH_MAX];
    double ms = -1.0;
    long   n  = 0;
    FILE  *f;

    (void)r;
    snprintf(command, sizeof command, "python3 " PEER " '%s' '%s' 2>/dev/null", j->vocab,
             j->text_path);
    f = popen(command, "r");
    if (f == NULL) return -1.0;
    if (fscanf(f, "%lf %ld", &ms, &n) != 2) ms = -1.0; /* NOLINT(cert-err34-c): a number or none */
    return pclose(f) == 0 && (size_t)n == j->n_ids ? ms : -1.0;
}

/* ---- the text -------------------------------------------------------------------------------- */

static musec_status read_text(ms_error *e, const char *path, tokenize_job *j)
{
    FILE        *f = NULL;
    int64_t      bytes;
    musec_status st;

    TRY(ms_file_open_read(e, path, &f));
    bytes = ms_file_bytes(f);
    if (bytes < PIECE || bytes > INT32_MAX) {
        st = ms_fail(e, MUSEC_EINVAL, "%s: give a plain text file of 1 MB to 2 GB", path);
        goto done;
    }
    j->bytes = (size_t)bytes;
    j->all   = malloc(j->bytes);
    if (j->all == NULL) {
        st = ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory to read it", path);
        goto done;
    }
    TRY(ms_file_read(e, f, path, j->all, j->bytes));
    j->text_path = path;
done:
    if (f != NULL) fclose(f);
    return st;
}

/* Makes a text of the built-in corpus, and a file of it for the peer. */
static musec_status make_text(ms_error *e, tokenize_job *j)
{
    int          fd = -1;
    FILE        *f  = NULL;
    musec_status st = MUSEC_OK;

    j->all = malloc(BUILTIN_BYTES);
    if (j->all == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory for a text");
    for (int64_t i = 0; j->bytes < BUILTIN_BYTES; i++) {
        char  *document = NULL;
        size_t n        = 0;
        TRY(ms_corpus_document(e, 0, i, &document, &n));
        if (n > BUILTIN_BYTES - j->bytes) n = BUILTIN_BYTES - j->bytes;
        memcpy(j->all + j->bytes, document, n);
        j->bytes += n;
        free(document);
    }
    snprintf(j->own_text, sizeof j->own_text, "/tmp/musec-bench-XXXXXX");
    fd = mkstemp(j->own_text);
    f  = fd < 0 ? NULL : fdopen(fd, "wb");
    if (f == NULL || fwrite(j->all, 1, j->bytes, f) != j->bytes)
        st = ms_fail(e, MUSEC_EIO, "%s: cannot write", j->own_text);
    j->text_path = j->own_text;
done:
    if (f != NULL)
        fclose(f);
    else if (fd >= 0)
        close(fd);
    return st;
}

static musec_status make_job(ms_error *e, const ms_bench_options *opt, tokenize_job *j,
                             ms_bpe **bpe)
{
    musec_status st;

    TRY(ms_bpe_find(e, opt->vocab, j->vocab));
    TRY(ms_bpe_load(e, j->vocab, bpe));
    j->bpe = *bpe;
    TRY(opt->text != NULL ? read_text(e, opt->text, j) : make_text(e, j));
    if (opt->quick) j->bytes = PIECE;
    j->worst = malloc(PIECE);
    for (int i = 0; i < THREADS; i++) {
        TRY(ms_bpe_cache_make(e, j->bpe, &j->cache[i]));
        j->ids[i] = malloc(ms_bpe_max_ids(j->bytes) * sizeof *j->ids[i]);
        if (j->worst == NULL || j->ids[i] == NULL)
            TRY(ms_fail(e, MUSEC_ENOMEM, "not enough memory for the ids"));
    }
done:
    return st;
}

static void free_job(tokenize_job *j)
{
    for (int i = 0; i < THREADS; i++) {
        free(j->ids[i]);
        ms_bpe_cache_free(j->cache[i]);
    }
    if (j->own_text[0] != '\0') remove(j->own_text);
    free(j->worst);
    free(j->all);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Median over the rounds of the speed of a row over that of another in the same round. */
static double speed_ratio(const tokenize_row *r, const tokenize_row *to, int rounds)
{
    double ratios[MAX_ROUNDS] = { 0 };
    for (int i = 0; i < rounds; i++)
        ratios[i] = to->times[i] / r->times[i] * r->work / to->work;
    return ms_bench_median(ratios, rounds);
}

static void print_row(FILE *out, json_t **list, const tokenize_row *rows, const tokenize_row *r,
                      int rounds)
{
    const tokenize_row *to                = r->against < 0 ? NULL : &rows[r->against];
    double              times[MAX_ROUNDS] = { 0 }, ms, mb_s, ratio;

    memcpy(times, r->times, sizeof times);
    ms    = ms_bench_median(times, rounds);
    mb_s  = r->work > 2.0 ? 1e-3 * r->work / ms : 0.0;
    ratio = to == NULL || r->failed ? 1.0 : speed_ratio(r, to, rounds);
    if (list != NULL) {
        ms_json_append(list, json_pack("{s:s, s:b, s:f, s:f, s:f, s:s?}", "name", r->name, "timed",
                                       !r->failed, "ms", ms, "mb_s", mb_s, "ratio", ratio,
                                       "against", to == NULL ? NULL : to->name));
        return;
    }
    fprintf(out, "  %-24s", r->name);
    if (r->failed) {
        fprintf(out, "not timed: it needs python3 with tiktoken, and " PEER "\n");
        return;
    }
    fprintf(out, "%10.3f ms", ms);
    if (mb_s > 0.0)
        fprintf(out, "%10.1f MB/s", mb_s);
    else
        fprintf(out, "%15s", "");
    if (to != NULL) fprintf(out, "  %6.3f x %s", ratio, to->name);
    fputc('\n', out);
}

static void run_rounds(ms_log *log, tokenize_job *j, tokenize_row *rows, int n, int rounds)
{
    for (int round = -1; round < rounds; round++) { /* one round to warm up */
        ms_log_progress(log, "tokenize: round %d of %d", round + 1, rounds);
        for (int i = 0; i < n; i++) {
            const double ms = rows[i].failed ? -1.0 : rows[i].ms(j, &rows[i]);
            if (ms < 0.0) rows[i].failed = true;
            if (round >= 0) rows[i].times[round] = ms;
        }
    }
    ms_log_end(log);
}

static musec_status print_all(ms_error *e, const ms_bench_options *opt, FILE *out,
                              const tokenize_job *j, const tokenize_row *rows, int n, int rounds)
{
    json_t     *list = opt->json ? json_array() : NULL, *all;
    const char *name = opt->text != NULL ? opt->text : "the built-in corpus";

    if (!opt->json)
        fprintf(out,
                "GPT-2's tokenizer on %s: %.2f MB, %zu ids; medians of %d rounds; ratios are of "
                "speed\n\n",
                name, 1e-6 * (double)j->bytes, j->n_ids, rounds);
    for (int i = 0; i < n; i++)
        print_row(out, opt->json ? &list : NULL, rows, &rows[i], rounds);
    if (!opt->json) return MUSEC_OK;
    all = json_pack("{s:s, s:I, s:I, s:i, s:o}", "text", name, "bytes", (json_int_t)j->bytes, "ids",
                    (json_int_t)j->n_ids, "rounds", rounds, "rows", list);
    return ms_json_finish(e, all, out);
}

musec_status ms_bench_tokenize(const ms_bench_options *opt, ms_log *log, FILE *out, ms_error *error)
{
    const int asked =
        opt->repeats > 0 ? (int)(opt->repeats < MAX_ROUNDS ? opt->repeats : MAX_ROUNDS) : 0;
    const int     rounds = asked > 0 ? asked : opt->quick ? 3 : 9;
    tokenize_job  j      = { .bpe = NULL };
    ms_bpe       *bpe    = NULL;
    tokenize_row *rows   = NULL;
    musec_status  st;

    TRY(make_job(error, opt, &j, &bpe));
    const double       all     = (double)j.bytes;
    const tokenize_row table[] = {
        { "one thread", time_text, NULL, all, -1, { 0 }, false },
        { "tiktoken, one thread", time_peer, NULL, all, 0, { 0 }, false },
        { "two threads", time_two, NULL, THREADS * all, 0, { 0 }, false },
        { "a loop, one thread", time_compute, NULL, 1.0, -1, { 0 }, false },
        { "a loop, two threads", time_compute_two, NULL, 2.0, 3, { 0 }, false },
        { "1 MB of the text", time_piece, NULL, PIECE, -1, { 0 }, false },
        { "1 MB of \"a\"", time_worst, "a", PIECE, 5, { 0 }, false },
        { "1 MB of \" \"", time_worst, " ", PIECE, 5, { 0 }, false },
        { "1 MB of \"ab\"", time_worst, "ab", PIECE, 5, { 0 }, false },
        { "1 MB of letters", time_letters, NULL, PIECE, 5, { 0 }, false },
    };
    rows = malloc(sizeof table);
    if (rows == NULL) TRY(ms_fail(error, MUSEC_ENOMEM, "not enough memory for the rows"));
    memcpy(rows, table, sizeof table);
    run_rounds(log, &j, rows, COUNT(table), rounds);
    TRY(print_all(error, opt, out, &j, rows, COUNT(table), rounds));
done:
    free(rows);
    free_job(&j);
    ms_bpe_free(bpe);
    return st;
}
