/* shard_out.c - see shard_out.h and the format in shard.c.
 *
 * The header comes first and says `capacity` tokens.  If fewer came, it is rewritten at the end,
 * and the file is read again for its checksum: that is only the last shard of a data set. */
#include "data/shard_out.h"

#include <errno.h>
#include <string.h>

#include "data/shard.h"

typedef struct shard_header {
    int32_t words[MS_SHARD_HEADER_BYTES / sizeof(int32_t)];
} shard_header;

static shard_header header_of(int64_t n)
{
    return (shard_header){ { MS_SHARD_MAGIC, 1, (int32_t)n } };
}

/* Writes, and updates the checksum. */
static musec_status put(ms_error *e, ms_shard_out *s, const void *data, size_t bytes)
{
    ms_sha256_add(&s->sha, data, bytes);
    return ms_out_write(e, &s->out, data, bytes);
}

musec_status ms_shard_out_open(ms_error *e, const char *path, int64_t capacity, ms_shard_out *s)
{
    const shard_header head = header_of(capacity);
    musec_status       st;

    *s = (ms_shard_out){ .capacity = capacity };
    if (capacity < 1 || capacity > INT32_MAX)
        return ms_fail(e, MUSEC_EINVAL, "%s: a shard has from 1 to %ld tokens, not %lld", path,
                       (long)INT32_MAX, (long long)capacity);
    TRY(ms_out_open(e, path, &s->out));
    if (s->out.part[0] == '\0')
        TRY(ms_fail(e, MUSEC_EIO, "%s: is no regular file; remove it first", path));
    ms_sha256_init(&s->sha);
    TRY(put(e, s, &head, sizeof head));
done:
    if (st != MUSEC_OK) ms_shard_out_abandon(s);
    return st;
}

musec_status ms_shard_out_add(ms_error *e, ms_shard_out *s, const uint16_t *tokens, int64_t n)
{
    s->n += n;
    return put(e, s, tokens, (size_t)n * sizeof *tokens);
}

static musec_status correct_header(ms_error *e, ms_shard_out *s)
{
    const shard_header head = header_of(s->n);
    musec_status       st;

    errno = 0;
    if (fseek(s->out.f, 0, SEEK_SET) != 0)
        TRY(ms_fail(e, MUSEC_EIO, "%s: cannot write its header (%s)", s->out.path,
                    strerror(errno)));
    TRY(ms_out_write(e, &s->out, &head, sizeof head));
    if (fflush(s->out.f) != 0)
        st = ms_fail(e, MUSEC_EIO, "%s: cannot write (%s)", s->out.path, strerror(errno));
done:
    return st;
}

musec_status ms_shard_out_commit(ms_error *e, ms_shard_out *s, char hex[MS_SHA256_HEX])
{
    musec_status st = MUSEC_OK;

    ms_sha256_end(&s->sha, hex);
    if (s->n != s->capacity) {
        TRY(correct_header(e, s));
        TRY(ms_sha256_file(e, s->out.part, hex));
    }
    TRY(ms_out_commit(e, &s->out));
done:
    ms_shard_out_abandon(s);
    return st;
}

void ms_shard_out_abandon(ms_shard_out *s) { ms_out_abandon(&s->out); }
