/* shard.c - reading and writing .bin files of tokens.
 *
 *     1024 bytes  256 int32: 20240520, 1, number of tokens n, zeros
 *     2 n bytes   the tokens, uint16
 *
 * all little-endian.  A file must be exactly as long as its header says: a shard that was truncated
 * by a full disk or a broken download is detected before training.  A bare file has only tokens. */
#include "data/shard.h"

#include <stdbool.h>
#include <stdlib.h>

#include "core/file.h"
#include "core/size.h"
#include "data/bpe.h"
#include "data/bytes.h"

#define VERSION 1
#define IDS     65536 /* a token has 16 bits */

static musec_status check_length(ms_error *e, const char *path, int64_t n, int64_t bytes)
{
    const int64_t want = MS_SHARD_HEADER_BYTES + n * (int64_t)sizeof(uint16_t); /* n < 2^31 */

    if (bytes == want) return MUSEC_OK;
    return ms_fail(e, MUSEC_EFORMAT,
                   "%s: %s: its header counts %lld tokens, which take %lld bytes, but it has %lld; "
                   "copy or write it again",
                   path, bytes < want ? "truncated" : "too long", (long long)n, (long long)want,
                   (long long)bytes);
}

/* Reads and checks the header, and leaves the file at its first token. */
static musec_status read_header(ms_error *e, FILE *f, const char *path, int64_t bytes, int64_t *n)
{
    int32_t      header[MS_SHARD_HEADER_BYTES / sizeof(int32_t)];
    musec_status st;

    if (bytes < MS_SHARD_HEADER_BYTES)
        return ms_fail(e, MUSEC_EFORMAT,
                       "%s: is no shard of tokens: it has %lld bytes, the header alone takes %d",
                       path, (long long)bytes, MS_SHARD_HEADER_BYTES);
    TRY(ms_file_read(e, f, path, header, sizeof header));
    if (header[0] != MS_SHARD_MAGIC)
        return ms_fail(e, MUSEC_EFORMAT,
                       "%s: is no shard of tokens: it begins with the number %ld, not with %d; if "
                       "it is nanoGPT's, bare 16-bit tokens, add --data-format nanogpt",
                       path, (long)header[0], MS_SHARD_MAGIC);
    if (header[1] != VERSION)
        return ms_fail(e, MUSEC_EFORMAT,
                       "%s: is a shard of version %ld; musec reads version %d (16-bit tokens)",
                       path, (long)header[1], VERSION);
    if (header[2] < 0)
        return ms_fail(e, MUSEC_EFORMAT, "%s: damaged: its header counts %ld tokens", path,
                       (long)header[2]);
    *n = header[2];
    st = check_length(e, path, *n, bytes);
done:
    return st;
}

/* Counts the tokens of a file without a header, and leaves it at the first. */
static musec_status count_bare(ms_error *e, FILE *f, const char *path, int64_t bytes, int64_t *n)
{
    int32_t      begins = 0;
    musec_status st     = MUSEC_OK;

    if (bytes % (int64_t)sizeof(uint16_t) != 0)
        return ms_fail(e, MUSEC_EFORMAT,
                       "%s: is no file of bare 16-bit tokens: it has %lld bytes, an odd number",
                       path, (long long)bytes);
    if (bytes >= (int64_t)sizeof begins) TRY(ms_file_read(e, f, path, &begins, sizeof begins));
    if (begins == MS_SHARD_MAGIC)
        return ms_fail(
            e, MUSEC_EFORMAT,
            "%s: is a shard with a header, not nanoGPT's bare tokens; leave --data-format "
            "out",
            path);
    rewind(f);
    *n = bytes / (int64_t)sizeof(uint16_t);
done:
    return st;
}

/* Counts the tokens, and leaves the file at the first. */
static musec_status count_tokens(ms_error *e, FILE *f, const char *path, ms_shard_form form,
                                 int64_t *n)
{
    const int64_t bytes = ms_file_bytes(f);

    if (bytes < 0)
        return ms_fail(e, MUSEC_EIO, "%s: cannot read tokens from a pipe or device; give a file",
                       path);
    return form == MS_SHARD_BARE ? count_bare(e, f, path, bytes, n)
                                 : read_header(e, f, path, bytes, n);
}

musec_status ms_shard_tokens(ms_error *e, const char *path, ms_shard_form form, int64_t *n)
{
    FILE        *f = NULL;
    musec_status st;

    *n = 0;
    TRY(ms_file_open_read(e, path, &f));
    TRY(count_tokens(e, f, path, form, n));
done:
    if (f != NULL) fclose(f);
    return st;
}

/* What to do about an id beyond the vocabulary. */
static const char *remedy(int64_t vocab, uint16_t largest)
{
    if (vocab < MS_BPE_IDS && largest < MS_BPE_IDS)
        return "its ids look like GPT-2's: train with --tokenizer gpt2";
    return "it was made with another tokenizer: tokenize the text anew, or train with a larger "
           "--vocab";
}

static musec_status check_ids(ms_error *e, const char *path, const uint16_t *tokens, int64_t n,
                              int64_t vocab)
{
    uint16_t largest = 0;

    if (vocab >= IDS) return MUSEC_OK;
    for (int64_t i = 0; i < n; i++) /* without an early exit, so that it is vectorized */
        largest = tokens[i] > largest ? tokens[i] : largest;
    if (largest < vocab) return MUSEC_OK;
    for (int64_t i = 0; i < n; i++)
        if (tokens[i] >= vocab)
            return ms_fail(e, MUSEC_EFORMAT,
                           "%s: token %lld has the id %u, but ids must be below %lld (the largest "
                           "in the file is %u); %s",
                           path, (long long)i, tokens[i], (long long)vocab, largest,
                           remedy(vocab, largest));
    return MUSEC_OK;
}

musec_status ms_shard_check_start(ms_error *e, const char *path, int32_t start,
                                  const uint16_t *tokens, int64_t n)
{
    bool starts = false;

    if (start != MS_BPE_START) return MUSEC_OK;
    for (int64_t i = 0; i < n; i++) {
        if (tokens[i] > MS_BYTES_START) return MUSEC_OK; /* GPT-2's ids: found soon */
        starts = starts || tokens[i] == MS_BYTES_START;
    }
    if (!starts) return MUSEC_OK;
    return ms_fail(
        e, MUSEC_EFORMAT,
        "%s: no id in it is above %d, which starts a document of bytes: it was made with "
        "the byte tokenizer; train with --tokenizer byte, or tokenize the text anew",
        path, MS_BYTES_START);
}

musec_status ms_shard_read(ms_error *e, const char *path, ms_shard_form form, int64_t vocab,
                           uint16_t **tokens, int64_t *n)
{
    FILE        *f     = NULL;
    uint16_t    *data  = NULL;
    size_t       bytes = 0;
    musec_status st;

    *tokens = NULL;
    *n      = 0;
    TRY(ms_file_open_read(e, path, &f));
    TRY(count_tokens(e, f, path, form, n));
    if (ms_size_stack(1, 1, *n, sizeof *data, &bytes)) data = malloc(bytes == 0 ? 1 : bytes);
    if (data == NULL)
        TRY(ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory for its %lld tokens", path,
                    (long long)*n));
    TRY(ms_file_read(e, f, path, data, bytes));
    TRY(check_ids(e, path, data, *n, vocab));
    *tokens = data;
    data    = NULL;
done:
    if (st != MUSEC_OK) *n = 0;
    free(data);
    if (f != NULL) fclose(f);
    return st;
}

musec_status ms_shard_write(ms_error *e, const char *path, const uint16_t *tokens, int64_t n)
{
    int32_t      header[MS_SHARD_HEADER_BYTES / sizeof(int32_t)] = { MS_SHARD_MAGIC, VERSION };
    ms_out_file  out                                             = { 0 };
    musec_status st;

    if (n < 0 || n > INT32_MAX)
        return ms_fail(e, MUSEC_EINVAL,
                       "%s: a shard of %lld tokens cannot be written: its header counts up to %ld; "
                       "write several",
                       path, (long long)n, (long)INT32_MAX);
    header[2] = (int32_t)n;
    TRY(ms_out_open(e, path, &out));
    TRY(ms_out_write(e, &out, header, sizeof header));
    TRY(ms_out_write(e, &out, tokens, (size_t)n * sizeof *tokens));
    TRY(ms_out_commit(e, &out));
done:
    ms_out_abandon(&out);
    return st;
}
