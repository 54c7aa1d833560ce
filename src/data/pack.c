/* pack.c - see pack.h. */
#include "data/pack.h"

#include <stdlib.h>
#ifdef MS_HAVE_LZMA
#include <lzma.h>
#endif

#include "core/file.h"

#ifdef MS_HAVE_LZMA

enum { OUT_BYTES = 1 << 16, PRESET = 9 };

struct ms_pack {
    lzma_stream   stream;
    ms_out_file   file;
    unsigned char out[OUT_BYTES];
};

musec_status ms_pack_open(ms_error *e, const char *path, ms_pack **out)
{
    ms_pack     *p  = calloc(1, sizeof *p);
    musec_status st = MUSEC_OK;

    *out = NULL;
    if (p == NULL) return ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory", path);
    p->stream = (lzma_stream)LZMA_STREAM_INIT;
    if (lzma_easy_encoder(&p->stream, PRESET, LZMA_CHECK_CRC64) != LZMA_OK)
        TRY(ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory to pack it", path));
    TRY(ms_out_open(e, path, &p->file));
    *out = p;
    p    = NULL;
done:
    ms_pack_close(p);
    return st;
}

/* Packs what the stream has been given; at the end, until nothing is left in it. */
static musec_status run(ms_error *e, ms_pack *p, lzma_action action)
{
    lzma_ret     ret;
    musec_status st = MUSEC_OK;

    do {
        p->stream.next_out  = p->out;
        p->stream.avail_out = sizeof p->out;
        ret                 = lzma_code(&p->stream, action);
        if (ret != LZMA_OK && ret != LZMA_STREAM_END)
            TRY(ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory to pack it", p->file.path));
        TRY(ms_out_write(e, &p->file, p->out, sizeof p->out - p->stream.avail_out));
    } while (action == LZMA_FINISH ? ret != LZMA_STREAM_END : p->stream.avail_in > 0);
done:
    return st;
}

musec_status ms_pack_write(ms_error *e, ms_pack *p, const void *bytes, size_t n)
{
    p->stream.next_in  = bytes;
    p->stream.avail_in = n;
    return run(e, p, LZMA_RUN);
}

musec_status ms_pack_commit(ms_error *e, ms_pack *p)
{
    musec_status st;
    TRY(run(e, p, LZMA_FINISH));
    TRY(ms_out_commit(e, &p->file));
done:
    return st;
}

void ms_pack_close(ms_pack *p)
{
    if (p == NULL) return;
    lzma_end(&p->stream);
    ms_out_abandon(&p->file);
    free(p);
}

#else

musec_status ms_pack_open(ms_error *e, const char *path, ms_pack **out)
{
    *out = NULL;
    return ms_fail(e, MUSEC_ENOTSUP,
                   "%s: this musec was built without liblzma, which packs it: install its "
                   "development files (liblzma-dev) and build again",
                   path);
}

musec_status ms_pack_write(ms_error *e, ms_pack *p, const void *bytes, size_t n)
{
    (void)e, (void)p, (void)bytes, (void)n;
    return MUSEC_ENOTSUP;
}

musec_status ms_pack_commit(ms_error *e, ms_pack *p)
{
    (void)e, (void)p;
    return MUSEC_ENOTSUP;
}

void ms_pack_close(ms_pack *p) { (void)p; }

#endif
