/* reader_fuzz.c - any bytes as a file of documents, compressed or not.
 *
 *     byte 0     how to read: format + 3 split + 9 skip_bad
 *     byte 1     selects the file's name
 *     byte 2     the longest document is 2^this bytes, 2^15 at most
 *     byte 3     the record to resume from
 *     the rest   the file
 *
 * Reading documents and reading records gives the same documents, and those of a text are split at
 * the separators; resuming from a record gives the same records as before.  Files of 512 KiB and
 * more when unpacked are skipped: they only take time. */
#include <stdio.h>
#include <string.h>

#include "data/reader.h"
#include "data/unpack.h"
#include "fuzz.h"

enum { MOST_BYTES = 1 << 19, MEMORY = 256 << 20 }; /* memory: less than scripts/fuzz allows */

typedef struct trace {                      /* the result of a pass */
    uint64_t     documents, records, later; /* hashes; later: from the record to resume from */
    int64_t      n_documents, bad;
    musec_status st;
} trace;

/* The whole unpacked file. */
typedef struct unpacked {
    char   text[MOST_BYTES];
    size_t bytes;
    bool   small; /* it fits */
} unpacked;

static void unpack(const char *path, unpacked *out)
{
    ms_unpack *u   = NULL;
    ms_error   e   = { "" };
    size_t     got = 1;

    out->bytes = 0;
    out->small = true;
    if (!fuzz_ok(ms_unpack_open(&e, path, MEMORY, NULL, &u), &e)) return;
    while (got > 0 && out->small) {
        const size_t room = sizeof out->text - out->bytes;
        if (!fuzz_ok(ms_unpack_read(&e, u, out->text + out->bytes, room, &got), &e)) break;
        out->bytes += got;
        out->small = out->bytes < sizeof out->text;
    }
    ms_unpack_close(u);
}

/* Hashes the documents of a text by definition: the text before, or with, each separator. */
static uint64_t cut_whole(const unpacked *u, ms_reader_split split)
{
    const char  *mark = split == MS_SPLIT_EOT ? "\n<|endoftext|>\n" : "\n\n";
    const size_t n = strlen(mark), kept = split == MS_SPLIT_BLANK ? n : 0;
    uint64_t     hash  = 0;
    size_t       begin = 0;

    for (size_t at = 0; split != MS_SPLIT_FILE && at + n <= u->bytes;) {
        if (memcmp(u->text + at, mark, n) != 0) {
            at++;
            continue;
        }
        hash  = fuzz_hash(hash, u->text + begin, at + kept - begin);
        begin = at += n;
    }
    return begin == u->bytes ? hash : fuzz_hash(hash, u->text + begin, u->bytes - begin);
}

static trace by_document(const ms_reader_config *cfg)
{
    trace       t = { 0 };
    ms_reader  *r = NULL;
    ms_error    e = { "" };
    ms_document d;

    t.st = ms_reader_open(&e, cfg, &r);
    if (!fuzz_ok(t.st, &e)) return t;
    while (fuzz_ok(t.st = ms_reader_next(&e, r, &d), &e) && d.text != NULL) {
        REQUIRE(d.number == t.n_documents && d.file == 0);
        t.documents = fuzz_hash(t.documents, d.text, d.bytes);
        t.n_documents++;
    }
    t.bad = ms_reader_bad(r);
    REQUIRE(ms_reader_consumed(r) <= ms_reader_total(r));
    REQUIRE(t.st != MUSEC_OK || ms_reader_consumed(r) == ms_reader_total(r));
    ms_reader_close(r);
    return t;
}

/* from < 0: reads from the beginning, without a seek. */
static trace by_record(const ms_reader_config *cfg, int64_t from, int64_t later)
{
    trace      t = { 0 };
    ms_reader *r = NULL;
    ms_error   e = { "" };
    ms_record  record;

    t.st = ms_reader_open(&e, cfg, &r);
    if (!fuzz_ok(t.st, &e)) return t;
    if (from >= 0) t.st = ms_reader_seek(&e, r, 0, from);
    while (t.st == MUSEC_OK && fuzz_ok(t.st = ms_reader_record(&e, r, &record), &e)) {
        const char  *text;
        size_t       bytes;
        json_t      *root;
        musec_status st;
        if (record.data == NULL) break;
        REQUIRE(record.bytes <= cfg->max_document && record.number >= from);
        t.records = fuzz_hash(t.records, record.data, record.bytes);
        if (record.number >= later) t.later = fuzz_hash(t.later, record.data, record.bytes);
        st = ms_record_text(&e, r, &record, &text, &bytes, &root);
        if (fuzz_ok(st, &e)) {
            t.documents = fuzz_hash(t.documents, text, bytes);
            t.n_documents++;
            json_decref(root);
        } else if (!cfg->skip_bad) {
            t.st = st;
        } else {
            t.bad++;
        }
    }
    (void)fuzz_ok(t.st, &e);
    ms_reader_close(r);
    return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = { "in.jsonl",   "in.txt",     "in.json",    "in",
                                         "in.json.gz", "in.txt.zst", "in.jsonl.xz" };
    const unsigned           how     = fuzz_take(&data, &size);
    const char              *name    = names[fuzz_take(&data, &size) % COUNT(names)];
    const unsigned           log2    = fuzz_take(&data, &size) % 16;
    const int64_t            from    = fuzz_take(&data, &size);
    const char              *path    = fuzz_file(name, data, size);
    ms_reader_config         cfg     = { .paths        = &path,
                                         .n_paths      = 1,
                                         .format       = (ms_reader_format)(how % 3),
                                         .split        = (ms_reader_split)(how / 3 % 3),
                                         .skip_bad     = how / 9 % 2 != 0,
                                         .field        = "text",
                                         .max_document = (size_t)1 << log2,
                                         .memory       = MEMORY };
    static unpacked          whole;
    trace                    documents, records, later;
    bool                     json;

    unpack(path, &whole);
    if (!whole.small) return 0;
    documents = by_document(&cfg);
    records   = by_record(&cfg, -1, from);
    REQUIRE(records.st == documents.st && records.bad == documents.bad);
    REQUIRE(records.documents == documents.documents);
    REQUIRE(records.n_documents == documents.n_documents);
    json = cfg.format == MS_FORMAT_JSON ||
           (cfg.format == MS_FORMAT_AUTO && strstr(name, ".json") != NULL);
    if (!json && documents.st == MUSEC_OK)
        REQUIRE(documents.documents == cut_whole(&whole, cfg.split));
    later = by_record(&cfg, from, from);
    REQUIRE(later.st != MUSEC_OK || records.st != MUSEC_OK || later.records == records.later);
    return 0;
}
