/* shard_fuzz.c - any bytes as a shard of tokens.
 *
 *     byte 0     ids must be below 256 (this + 1); 255: all ids are allowed
 *     the rest   the file
 *
 * Tokens that are read, written and read again are unchanged. */
#include <stdlib.h>
#include <string.h>

#include "data/shard.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int64_t vocab  = (int64_t)256 * fuzz_take(&data, &size) + 256;
    const char   *path   = fuzz_file("in.bin", data, size);
    ms_error      e      = { "" };
    uint16_t     *tokens = NULL, *again = NULL;
    int64_t       counted = 0, n = 0, m = 0;
    const bool    whole = fuzz_ok(ms_shard_tokens(&e, path, MS_SHARD_HEADED, &counted), &e);

    if (fuzz_ok(ms_shard_read(&e, path, MS_SHARD_HEADED, vocab, &tokens, &n), &e)) {
        REQUIRE(whole && n == counted && (size_t)n * sizeof *tokens < size);
        for (int64_t i = 0; i < n; i++)
            REQUIRE(tokens[i] < vocab);
        REQUIRE(fuzz_ok(ms_shard_write(&e, path, tokens, n), &e));
        REQUIRE(fuzz_ok(ms_shard_read(&e, path, MS_SHARD_HEADED, vocab, &again, &m), &e));
        REQUIRE(m == n && memcmp(tokens, again, (size_t)n * sizeof *tokens) == 0);
    } else {
        REQUIRE(tokens == NULL && n == 0);
    }
    free(again);
    free(tokens);
    return 0;
}
