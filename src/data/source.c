/* source.c - pieces of tokens from the built-in corpus, from shards and from texts.
 *
 * A piece is a file, or what one side has of it, or BUILTIN_DOCUMENTS documents of the built-in
 * corpus.  One piece is in memory at a time.  Everything else is determined when the source is
 * opened: which files there are, which part of each belongs to this side, how many tokens that is.
 * For that only the headers of shards are read, but texts as a whole.
 *
 * The documents of the built-in corpus are numbered from 0; those of the validation side begin at
 * 2^62, so that no document is on both. */
#define _POSIX_C_SOURCE 200809L /* strdup */
#include "data/source.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/directory.h"
#include "core/file.h"
#include "core/text.h"
#include "data/bpe.h"
#include "data/bytes.h"
#include "data/corpus.h"
#include "data/fingerprint.h"
#include "data/sniff.h"

#define BUILTIN           "builtin"
#define BUILTIN_DOCUMENTS 512                /* in a piece */
#define BUILTIN_VAL_FIRST ((int64_t)1 << 62) /* and as many documents on either side */
#define TEXT_MAX          ((int64_t)2 << 30) /* bytes */
#define VAL_SHARE         10                 /* one of so many tokens is for validation */

typedef struct part { /* of a file, the tokens from begin to end */
    char   *path;
    int64_t begin, end, all;
} part;

struct ms_source {
    char         *path;
    ms_split      split;
    int64_t       vocab;
    int32_t       start_id;
    ms_shard_form form;

    bool       endless; /* the built-in corpus, of this seed */
    uint64_t   seed;
    ms_lexicon lex;
    uint16_t   byte_id[256];

    bool    text;
    bool    cut; /* the last of the files is shared between the sides */
    bool    directory;
    part   *parts;
    int64_t n_parts;
    int64_t tokens;

    int64_t   loaded; /* the piece in memory, or -1 */
    uint16_t *data;   /* of the whole file */
    int64_t   n_data;
};

static const char *side(const ms_source *s)
{
    return s->split == MS_SPLIT_TRAIN ? "training" : "validation";
}

/* ---- names ----------------------------------------------------------------------------------- */

static const struct {
    const char *suffix, *unpack;
} packed[] = {
    { ".xz", "xz -dk" },     { ".gz", "gzip -dk" }, { ".zst", "zstd -dk" },
    { ".bz2", "bzip2 -dk" }, { ".lz4", "lz4 -dk" }, { ".zip", "unzip" },
};

static const char *how_to_unpack(const char *name) /* NULL if it is not packed */
{
    for (size_t i = 0; i < COUNT(packed); i++)
        if (ms_text_ends_with(name, packed[i].suffix)) return packed[i].unpack;
    return NULL;
}

/* ---- the files of a directory ---------------------------------------------------------------- */

static bool for_validation(const char *name) { return strstr(name, "val") != NULL; }

static musec_status nothing_usable(ms_error *e, const ms_source *s, const ms_names *list)
{
    for (size_t i = 0; i < list->n; i++)
        if (how_to_unpack(list->at[i]) != NULL)
            return ms_fail(e, MUSEC_EFORMAT,
                           "%s: has no *.bin and no *.txt, only packed files; musec tokenize reads "
                           "them, or decompress them first: "
                           "%s %s/%s",
                           s->path, how_to_unpack(list->at[i]), s->path, list->at[i]);
    return ms_fail(
        e, MUSEC_EFORMAT,
        "%s: has neither shards (*.bin) nor texts (*.txt); give a directory that has, or "
        "a file",
        s->path);
}

static musec_status add_part(ms_error *e, ms_source *s, const char *dir, const char *name)
{
    const size_t bytes = strlen(dir) + strlen(name) + 2;
    char        *path  = malloc(bytes);

    if (path == NULL) return ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory", s->path);
    snprintf(path, bytes, "%s%s%s", dir, dir[0] == '\0' || ms_text_ends_with(dir, "/") ? "" : "/",
             name);
    s->parts[s->n_parts++] = (part){ .path = path };
    return MUSEC_OK;
}

/* Chooses the files of this side, and whether the last is cut. */
static musec_status choose_files(ms_error *e, ms_source *s, const ms_names *list)
{
    const char  *suffix = ".txt";
    size_t       usable = 0, vals = 0;
    musec_status st = MUSEC_OK;

    for (size_t i = 0; i < list->n; i++)
        if (ms_text_ends_with(list->at[i], ".bin")) suffix = ".bin";
    for (size_t i = 0; i < list->n; i++) {
        usable += ms_text_ends_with(list->at[i], suffix);
        vals += ms_text_ends_with(list->at[i], suffix) && for_validation(list->at[i]);
    }
    if (usable == 0) return nothing_usable(e, s, list);
    if (vals == usable && s->split == MS_SPLIT_TRAIN)
        return ms_fail(
            e, MUSEC_EFORMAT,
            "%s: every *%s in it has \"val\" in its name and is for validation; training "
            "needs others",
            s->path, suffix);
    s->text  = strcmp(suffix, ".txt") == 0;
    s->cut   = vals == 0 && s->split != MS_SPLIT_VAL_ONLY;
    s->parts = calloc(usable, sizeof *s->parts);
    if (s->parts == NULL) return ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory", s->path);
    for (size_t i = 0; i < list->n; i++)
        if (ms_text_ends_with(list->at[i], suffix) &&
            (vals == 0 || for_validation(list->at[i]) == (s->split != MS_SPLIT_TRAIN)))
            TRY(add_part(e, s, s->path, list->at[i]));
done:
    return st;
}

/* ---- reading a file -------------------------------------------------------------------------- */

static musec_status read_text(ms_error *e, const char *path, uint16_t **tokens, int64_t *n)
{
    FILE        *f    = NULL;
    char        *text = NULL;
    int64_t      bytes;
    musec_status st;

    TRY(ms_file_open_read(e, path, &f));
    bytes = ms_file_bytes(f);
    if (bytes < 0)
        TRY(ms_fail(e, MUSEC_EIO,
                    "%s: cannot train on a pipe or device, which is read once; give a file", path));
    TRY(ms_sniff_text(e, f, path));
    if (bytes > TEXT_MAX)
        TRY(ms_fail(e, MUSEC_EFORMAT,
                    "%s: a text of %lld bytes is too long, up to %lld fit; split it into several "
                    "files in a directory",
                    path, (long long)bytes, (long long)TEXT_MAX));
    text = malloc((size_t)bytes + 1);
    if (text == NULL)
        TRY(ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory for its %lld bytes", path,
                    (long long)bytes));
    TRY(ms_file_read(e, f, path, text, (size_t)bytes));
    TRY(ms_bytes_encode(e, text, (size_t)bytes, tokens, n));
done:
    free(text);
    if (f != NULL) fclose(f);
    return st;
}

static void unload(ms_source *s)
{
    free(s->data);
    s->data   = NULL;
    s->n_data = 0;
    s->loaded = -1;
}

static musec_status load_file(ms_error *e, ms_source *s, int64_t index)
{
    const char  *path = s->parts[index].path;
    musec_status st   = MUSEC_OK;

    if (s->loaded == index) return MUSEC_OK;
    unload(s);
    if (s->text) {
        TRY(read_text(e, path, &s->data, &s->n_data));
    } else {
        TRY(ms_shard_read(e, path, s->form, s->vocab, &s->data, &s->n_data));
        TRY(ms_shard_check_start(e, path, s->start_id, s->data, s->n_data));
    }
    s->loaded = index;
done:
    return st;
}

/* ---- opening --------------------------------------------------------------------------------- */

static musec_status check_byte_ids(ms_error *e, const ms_source *s)
{
    if (s->vocab > MS_BYTES_START && (s->start_id == MS_BYTES_START || s->endless)) return MUSEC_OK;
    return ms_fail(
        e, MUSEC_EINVAL,
        "%s: a text is read as bytes, ids up to %d, but the model has %lld ids and starts "
        "documents with %ld; run musec tokenize %s --out DIR and train on DIR, or train "
        "with --tokenizer byte",
        s->path, MS_BYTES_START, (long long)s->vocab, (long)s->start_id, s->path);
}

/* Counts the tokens of each file.  Files without any are left out. */
static musec_status measure(ms_error *e, ms_source *s)
{
    int64_t      n  = 0;
    musec_status st = MUSEC_OK;

    for (int64_t i = 0; i < s->n_parts; i++) {
        part *p = &s->parts[i];
        if (s->text) {
            TRY(load_file(e, s, i));
            p->all = s->n_data;
        } else {
            TRY(ms_shard_tokens(e, p->path, s->form, &p->all));
        }
        p->end = p->all;
    }
    if (s->n_parts > 1) unload(s); /* the indices change below */
    for (int64_t i = 0; i < s->n_parts; i++) {
        if (s->parts[i].all > 0)
            s->parts[n++] = s->parts[i];
        else
            free(s->parts[i].path);
    }
    s->n_parts = n;
    if (n == 0)
        st = ms_fail(e, MUSEC_EFORMAT, "%s: has no tokens for %s; give a file that is not empty",
                     s->path, side(s));
done:
    return st;
}

/* The last tenth of the last file is the validation side, the rest the training side. */
static musec_status cut_last(ms_error *e, ms_source *s)
{
    const int64_t last = s->n_parts - 1;
    part          p    = s->parts[last];
    int64_t       cut = p.all - p.all / VAL_SHARE, start = cut;
    musec_status  st;

    TRY(load_file(e, s, last));
    if (s->n_data != p.all) TRY(ms_fail(e, MUSEC_EFORMAT, "%s: changes while it is read", p.path));
    while (start < p.all && s->data[start] != s->start_id)
        start++;
    if (start < p.all) cut = start;
    if (s->split == MS_SPLIT_TRAIN) {
        s->parts[last].end = cut;
        goto done;
    }
    if (cut == p.all)
        TRY(ms_fail(e, MUSEC_EFORMAT,
                    "%s: %lld tokens are too few: the last tenth would be for validation", p.path,
                    (long long)p.all));
    for (int64_t i = 0; i < last; i++)
        free(s->parts[i].path);
    s->parts[0]       = p;
    s->parts[0].begin = cut;
    s->n_parts        = 1;
    s->loaded         = 0;
done:
    return st;
}

static musec_status open_files(ms_error *e, ms_source *s)
{
    ms_names     list = { 0 };
    struct stat  sb;
    musec_status st;

    if (stat(s->path, &sb) != 0)
        TRY(ms_fail(e, MUSEC_EIO, "%s: cannot read (%s); give a file, a directory or " BUILTIN,
                    s->path, strerror(errno)));
    if (S_ISDIR(sb.st_mode)) {
        s->directory = true;
        TRY(ms_directory_names(e, s->path, &list));
        TRY(choose_files(e, s, &list));
    } else if (how_to_unpack(s->path) != NULL) {
        TRY(ms_fail(e, MUSEC_EFORMAT,
                    "%s: is packed; musec tokenize reads it, or decompress it first: %s %s",
                    s->path, how_to_unpack(s->path), s->path));
    } else {
        s->text  = !ms_text_ends_with(s->path, ".bin");
        s->cut   = s->split != MS_SPLIT_VAL_ONLY;
        s->parts = calloc(1, sizeof *s->parts);
        if (s->parts == NULL) TRY(ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory", s->path));
        TRY(add_part(e, s, "", s->path));
    }
    if (s->text) TRY(check_byte_ids(e, s));
    TRY(measure(e, s));
    if (s->cut) TRY(cut_last(e, s));
    for (int64_t i = 0; i < s->n_parts; i++)
        s->tokens += s->parts[i].end - s->parts[i].begin;
done:
    ms_names_free(&list);
    return st;
}

static musec_status open_builtin(ms_error *e, ms_source *s)
{
    const char *seed = s->path + strlen(BUILTIN);
    char       *end  = NULL;

    s->endless = true;
    s->tokens  = -1;
    for (int b = 0; b < 256; b++)
        s->byte_id[b] =
            s->start_id == MS_BPE_START ? ms_bpe_byte_id((unsigned char)b) : (uint16_t)b;
    if (seed[0] == ':') {
        errno   = 0;
        s->seed = strtoull(seed + 1, &end, 10);
        if (!isdigit((unsigned char)seed[1]) || *end != '\0' || errno != 0)
            return ms_fail(e, MUSEC_EINVAL,
                           "%s: the seed of the built-in corpus is a whole number, as in " BUILTIN
                           ":42",
                           s->path);
    }
    ms_lexicon_make(s->seed, &s->lex);
    return check_byte_ids(e, s);
}

bool ms_source_is_builtin(const char *path)
{
    return strcmp(path, BUILTIN) == 0 || strncmp(path, BUILTIN ":", sizeof BUILTIN) == 0;
}

musec_status ms_source_open(ms_error *e, const ms_source_config *cfg, ms_source **out)
{
    ms_source   *s  = NULL;
    musec_status st = MUSEC_OK;

    *out = NULL;
    if (cfg->path == NULL || cfg->path[0] == '\0')
        return ms_fail(e, MUSEC_EINVAL, "no data: give a file, a directory or " BUILTIN);
    if (cfg->start_id < 0 || cfg->start_id > UINT16_MAX || cfg->start_id >= cfg->vocab)
        return ms_fail(e, MUSEC_EINVAL,
                       "%s: the id %ld cannot start documents: with a vocabulary of %lld, ids are "
                       "from 0 to %lld",
                       cfg->path, (long)cfg->start_id, (long long)cfg->vocab,
                       (long long)cfg->vocab - 1);
    s = calloc(1, sizeof *s);
    if (s != NULL) s->path = strdup(cfg->path);
    if (s == NULL || s->path == NULL)
        TRY(ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory", cfg->path));
    s->split    = cfg->split;
    s->vocab    = cfg->vocab;
    s->start_id = cfg->start_id;
    s->form     = cfg->form;
    s->loaded   = -1;
    TRY(ms_source_is_builtin(s->path) ? open_builtin(e, s) : open_files(e, s));
    *out = s;
    s    = NULL;
done:
    ms_source_close(s);
    return st;
}

void ms_source_close(ms_source *s)
{
    if (s == NULL) return;
    unload(s);
    for (int64_t i = 0; i < s->n_parts; i++)
        free(s->parts[i].path);
    free(s->parts);
    free(s->path);
    free(s);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

int64_t     ms_source_pieces(const ms_source *s) { return s->endless ? INT64_MAX : s->n_parts; }
int64_t     ms_source_tokens(const ms_source *s) { return s->tokens; }
const char *ms_source_path(const ms_source *s) { return s->path; }

/* Makes the capacity suffice for `more` tokens after the n_data that are there. */
static bool grow(ms_source *s, int64_t *capacity, int64_t more)
{
    uint16_t *wider;
    if (s->data != NULL && *capacity - s->n_data >= more) return true;
    *capacity = 2 * (*capacity + more);
    wider     = realloc(s->data, (size_t)*capacity * sizeof *wider);
    if (wider != NULL) s->data = wider;
    return wider != NULL;
}

static int64_t first_document(const ms_source *s)
{
    return s->split == MS_SPLIT_TRAIN ? 0 : BUILTIN_VAL_FIRST;
}

static musec_status make_documents(ms_error *e, ms_source *s, int64_t index)
{
    const int64_t first    = index * BUILTIN_DOCUMENTS + first_document(s);
    int64_t       capacity = 0;
    musec_status  st       = MUSEC_OK;

    unload(s);
    for (int64_t i = 0; i < BUILTIN_DOCUMENTS; i++) {
        char  *text  = NULL;
        size_t bytes = 0;
        TRY(ms_corpus_document_from(e, &s->lex, s->seed, first + i, &text, &bytes));
        if (!grow(s, &capacity, (int64_t)bytes + 1)) {
            free(text);
            st = ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory for a piece", s->path);
            goto done;
        }
        s->data[s->n_data++] = (uint16_t)s->start_id;
        for (size_t k = 0; k < bytes; k++)
            s->data[s->n_data++] = s->byte_id[(unsigned char)text[k]];
        free(text);
    }
    s->loaded = index;
done:
    return st;
}

musec_status ms_source_piece(ms_error *e, ms_source *s, int64_t index, const uint16_t **tokens,
                             int64_t *n)
{
    const int64_t pieces = s->endless ? BUILTIN_VAL_FIRST / BUILTIN_DOCUMENTS : s->n_parts;
    musec_status  st     = MUSEC_OK;

    *tokens = NULL;
    *n      = 0;
    if (index < 0 || index >= pieces)
        return ms_fail(e, MUSEC_EINVAL, "%s: there is no piece %lld, only %lld from 0 on", s->path,
                       (long long)index, (long long)pieces);
    if (s->endless) {
        if (s->loaded != index) TRY(make_documents(e, s, index));
        *tokens = s->data;
        *n      = s->n_data;
        return MUSEC_OK;
    }
    TRY(load_file(e, s, index));
    if (s->n_data != s->parts[index].all) {
        st = ms_fail(e, MUSEC_EFORMAT,
                     "%s: had %lld tokens when it was opened and has %lld now: do not change it "
                     "while it is in use",
                     s->parts[index].path, (long long)s->parts[index].all, (long long)s->n_data);
        unload(s);
        goto done;
    }
    *tokens = s->data + s->parts[index].begin;
    *n      = s->parts[index].end - s->parts[index].begin;
done:
    return st;
}

/* ---- which tokens they are ------------------------------------------------------------------- */

static void add_number(ms_sha256 *sum, uint64_t number)
{
    unsigned char bytes[8]; /* little-endian, whatever the machine is */
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(number >> 8 * i);
    ms_sha256_add(sum, bytes, sizeof bytes);
}

static musec_status add_document(ms_error *e, const ms_source *s, ms_sha256 *sum)
{
    char        *text  = NULL;
    size_t       bytes = 0;
    musec_status st;

    add_number(sum, s->seed);
    add_number(sum, (uint64_t)s->start_id);
    TRY(ms_corpus_document(e, s->seed, first_document(s), &text, &bytes));
    for (size_t k = 0; k < bytes; k++)
        add_number(sum, s->byte_id[(unsigned char)text[k]]);
done:
    free(text);
    return st;
}

/* Reads nothing that changes while a loader's thread reads pieces. */
musec_status ms_source_identify(ms_error *e, const ms_source *s, ms_identity *out)
{
    ms_sha256    sum;
    musec_status st = MUSEC_OK;

    ms_sha256_init(&sum);
    if (s->endless) TRY(add_document(e, s, &sum));
    for (int64_t i = 0; i < s->n_parts; i++) {
        add_number(&sum, (uint64_t)s->parts[i].begin);
        add_number(&sum, (uint64_t)s->parts[i].end);
        TRY(ms_fingerprint_add(e, s->parts[i].path, &sum));
    }
    out->tokens = s->tokens;
    ms_sha256_end(&sum, out->sha256);
done:
    return st;
}

/* ---- for people ------------------------------------------------------------------------------ */

/* The names of the files as a pattern: their common prefix, a star, the suffix. */
static void describe_names(const ms_source *s, char *text, size_t bytes)
{
    const char *first = ms_path_name(s->parts[0].path);
    const char *last  = ms_path_name(s->parts[s->n_parts - 1].path);
    int         alike = 0;

    if (s->n_parts == 1) {
        snprintf(text, bytes, "%s", first);
        return;
    }
    while (first[alike] != '\0' &&
           first[alike] == last[alike]) /* sorted: the names between have the same prefix */
        alike++;
    snprintf(text, bytes, "%.*s*%s", alike, first, s->text ? ".txt" : ".bin");
}

void ms_source_describe(const ms_source *s, char *text, size_t bytes)
{
    const char *what = s->text ? "text" : "shard";
    const char *cut  = "";
    char        name[512], in[MS_PATH_MAX + 8] = "";

    if (s->endless) {
        snprintf(text, bytes, "built-in corpus, seed %llu, %s documents without end",
                 (unsigned long long)s->seed, side(s));
        return;
    }
    describe_names(s, name, sizeof name);
    if (s->cut && s->split == MS_SPLIT_VAL) cut = ", its last tenth";
    if (s->cut && s->split == MS_SPLIT_TRAIN)
        cut = s->n_parts == 1 ? ", all but its last tenth" : ", all but the last tenth of the last";
    snprintf(in, sizeof in, " in %s", s->path);
    snprintf(text, bytes, "%s%s, %lld %s%s%s, %lld tokens", s->directory ? name : s->path,
             s->directory ? in : "", (long long)s->n_parts, what, s->n_parts == 1 ? "" : "s", cut,
             (long long)s->tokens);
}

uint64_t ms_source_bytes(const ms_source *s)
{
    const uint64_t builtin =
        (uint64_t)BUILTIN_DOCUMENTS * 4096; /* a document has some 1000 bytes */
    uint64_t largest = 0;
    for (int64_t i = 0; i < s->n_parts; i++)
        if ((uint64_t)s->parts[i].all > largest) largest = (uint64_t)s->parts[i].all;
    return s->endless ? builtin : largest * (sizeof(uint16_t) + (s->text ? 1 : 0));
}
