/* pack.c - see pack.h. */
#include "pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef MS_HAVE_ZLIB
#include <zlib.h>
#endif
#ifdef MS_HAVE_ZSTD
#include <zstd.h>
#endif
#ifdef MS_HAVE_LZMA
#include <lzma.h>
#endif

#include "check.h"

const char *pack_suffix(packer how)
{
    static const char *const suffixes[PACKERS] = { "", ".gz", ".zst", ".xz" };
    return suffixes[how];
}

bool pack_is_here(packer how)
{
    static const bool here[PACKERS] = {
        [PACK_NONE] = true,
#ifdef MS_HAVE_ZLIB
        [PACK_GZIP] = true,
#endif
#ifdef MS_HAVE_ZSTD
        [PACK_ZSTD] = true,
#endif
#ifdef MS_HAVE_LZMA
        [PACK_XZ] = true,
#endif
    };
    return here[how];
}

#ifdef MS_HAVE_ZLIB
static size_t gzip(const char *data, size_t bytes, unsigned char *out, size_t room)
{
    z_stream z = { 0 };
    CHECK(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK, "zlib");
    z.next_in   = (unsigned char *)data;
    z.avail_in  = (uInt)bytes;
    z.next_out  = out;
    z.avail_out = (uInt)room;
    CHECK(deflate(&z, Z_FINISH) == Z_STREAM_END, "zlib");
    deflateEnd(&z);
    return room - z.avail_out;
}
#endif

#ifdef MS_HAVE_ZSTD
static size_t zstd(const char *data, size_t bytes, unsigned char *out, size_t room)
{
    ZSTD_CCtx *z = ZSTD_createCCtx();
    size_t     n;

    ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, 1); /* as the program zstd does */
    n = ZSTD_compress2(z, out, room, data, bytes);
    CHECK(!ZSTD_isError(n), "zstd");
    ZSTD_freeCCtx(z);
    return n;
}
#endif

#ifdef MS_HAVE_LZMA
static size_t xz(const char *data, size_t bytes, unsigned char *out, size_t room)
{
    size_t n = 0;
    CHECK(lzma_easy_buffer_encode(1, LZMA_CHECK_CRC64, NULL, (const uint8_t *)data, bytes, out, &n,
                                  room) == LZMA_OK,
          "lzma");
    return n;
}
#endif

static size_t compress_all(packer how, const char *data, size_t bytes, unsigned char *out,
                           size_t room)
{
    (void)room;
    switch (how) {
#ifdef MS_HAVE_ZLIB
    case PACK_GZIP: return gzip(data, bytes, out, room);
#endif
#ifdef MS_HAVE_ZSTD
    case PACK_ZSTD: return zstd(data, bytes, out, room);
#endif
#ifdef MS_HAVE_LZMA
    case PACK_XZ: return xz(data, bytes, out, room);
#endif
    default: memcpy(out, data, bytes); return bytes;
    }
}

void pack_append(const char *path, packer how, const char *data, size_t bytes)
{
    const size_t   room = 2 * bytes + 4096;
    unsigned char *out  = malloc(room);
    FILE          *f    = fopen(path, "ab");
    size_t         n;

    CHECK(out != NULL && f != NULL, "%s", path);
    n = compress_all(how, data, bytes, out, room);
    CHECK(fwrite(out, 1, n, f) == n && fclose(f) == 0, "%s", path);
    free(out);
}
