/* names.c - the nearest of some names, by edit distance and by a table of foreign names. */
#include "core/names.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/status.h"

enum { LONGEST = 64, MAX_CHOICES = 64 }; /* longer names are nobody's typing mistake */

/* ---- names of other programs ----------------------------------------------------------------- */

/* What the same thing is called elsewhere.  `same`: it means exactly that, so that an option of
 * this name is taken; the others differ in some way (nanoGPT's batch_size counts sequences, --batch
 * counts tokens), and are only suggested. */
static const struct {
    const char *foreign, *name;
    bool        same;
} synonyms[] = {
    { "learning-rate", "lr", true },
    { "wd", "weight-decay", true },
    { "max-steps", "steps", true },
    { "output", "out", true },
    { "out-dir", "out", true },
    { "output-dir", "out", true },

    { "batch-size", "batch", false },
    { "tokens-per-step", "batch", false },
    { "epochs", "steps", false },
    { "iterations", "steps", false },
    { "max-iters", "steps", false },
    { "n-steps", "steps", false },
    { "num-steps", "steps", false },
    { "optim", "optimizer", false },
    { "model", "preset", false },
    { "dataset", "data", false },
    { "input", "data", false },
    { "momentum", "beta", false },
    { "clip-threshold", "threshold", false },
    { "decay", "weight-decay", false },
    { "random-seed", "seed", false },
    { "n-layer", "layers", false },
    { "n-layers", "layers", false },
    { "num-layers", "layers", false },
    { "n-head", "heads", false },
    { "n-heads", "heads", false },
    { "num-heads", "heads", false },
    { "n-embd", "width", false },
    { "hidden-size", "width", false },
    { "d-model", "width", false },
    { "dim", "width", false },
    { "head-dim", "head", false },
    { "vocab-size", "vocab", false },
    { "block-size", "max-doc", false },
    { "context", "max-doc", false },
    { "context-length", "max-doc", false },
    { "seq-len", "max-doc", false },
    { "sequence-length", "max-doc", false },
    { "grad-accum", "micro-batches", false },
    { "gradient-accumulation-steps", "micro-batches", false },
    { "eval-every", "val-every", false },
    { "eval-interval", "val-every", false },
    { "save-every", "checkpoint-every", false },
    { "save-interval", "checkpoint-every", false },
    { "log-every", "report-every", false },
    { "dtype", "precision", false },
    { "gpu", "device", false },
    { "temp", "temperature", false },
    { "max-new-tokens", "tokens", false },
    { "length", "tokens", false },
    { "workers", "jobs", false },
    { "num-workers", "jobs", false },
    { "-v", "--version", false },
    { "-version", "--version", false },

    { "gpu", "cuda", false },
    { "cuda0", "cuda", false },
    { "mps", "cpu", false },
    { "float32", "f32", false },
    { "fp32", "f32", false },
    { "float16", "f16", false },
    { "fp16", "f16", false },
    { "half", "f16", false },
    { "bfloat16", "bf16", false },
    { "float64", "f64", false },
    { "fp64", "f64", false },
    { "double", "f64", false },
    { "true", "yes", false },
    { "on", "yes", false },
    { "1", "yes", false },
    { "false", "no", false },
    { "off", "no", false },
    { "0", "no", false },
    { "sgd", "sgdm", false },
    { "nag", "sgdm", false },
    { "tiktoken", "gpt2", false },
    { "bpe", "gpt2", false },
    { "char", "byte", false },
    { "owt", "openwebtext", false },
    { "generate", "sample", false },
    { "plot", "report", false },
    { "download", "data", false },
    { "svd", "spectrum", false },
};

/* A letter as it is compared. */
static int plain(char c) { return c == '_' ? '-' : tolower((unsigned char)c); }

static bool same_name(const char *a, const char *b)
{
    while (*a != '\0' && plain(*a) == plain(*b))
        a++, b++;
    return *a == *b;
}

const char *ms_name_synonym(const char *name)
{
    for (size_t i = 0; i < COUNT(synonyms); i++)
        if (synonyms[i].same && strcmp(synonyms[i].foreign, name) == 0) return synonyms[i].name;
    return NULL;
}

/* ---- misspellings ---------------------------------------------------------------------------- */

/* Letters to insert, delete, replace or swap with their neighbour to make b of a. */
static size_t distance(const char *a, const char *b)
{
    const size_t na = strlen(a), nb = strlen(b);
    size_t       row[3][LONGEST + 1]; /* the last two rows and this one, in turn */

    if (na > LONGEST || nb > LONGEST) return LONGEST;
    for (size_t j = 0; j <= nb; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t *const       now    = row[i % 3];
        const size_t *const above  = row[(i + 2) % 3];
        const size_t *const above2 = row[(i + 1) % 3];
        now[0]                     = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t d = above[j - 1] + (plain(a[i - 1]) != plain(b[j - 1]));
            if (d > above[j] + 1) d = above[j] + 1;
            if (d > now[j - 1] + 1) d = now[j - 1] + 1;
            if (i > 1 && j > 1 && plain(a[i - 1]) == plain(b[j - 2]) &&
                plain(a[i - 2]) == plain(b[j - 1]) && d > above2[j - 2] + 1)
                d = above2[j - 2] + 1;
            now[j] = d;
        }
    }
    return row[na % 3][nb];
}

/* May `known` be meant, and rather than what has distance *best?  A third of its letters may be
 * wrong, or its end be missing. */
static bool nearer(const char *name, const char *known, size_t *best)
{
    size_t d = distance(name, known);
    if (name[0] == '\0') return false;
    if (d > (strlen(known) + 2) / 3) {
        if (strncmp(name, known, strlen(name)) != 0) return false;
        d = LONGEST - 1; /* a beginning: better than nothing, worse than a misspelling */
    }
    if (d >= *best) return false;
    *best = d;
    return true;
}

const char *ms_name_nearest(const char *name, const char *const *names, size_t n)
{
    const char *meant = NULL;
    size_t      best  = LONGEST;

    for (size_t s = 0; s < COUNT(synonyms); s++)
        for (size_t i = 0; same_name(synonyms[s].foreign, name) && i < n; i++)
            if (strcmp(synonyms[s].name, names[i]) == 0) return names[i];
    for (size_t i = 0; strlen(name) <= LONGEST && i < n; i++)
        if (nearer(name, names[i], &best)) meant = names[i];
    return meant;
}

/* ---- hints ----------------------------------------------------------------------------------- */

ms_name_hint ms_name_hint_of(const char *name, const char *const *names, size_t n)
{
    const char  *near = ms_name_nearest(name, names, n);
    ms_name_hint hint = { "" };
    if (near != NULL) snprintf(hint.text, sizeof hint.text, "; did you mean \"%s\"?", near);
    return hint;
}

ms_name_hint ms_name_hint_or_all(const char *name, const char *const *names, size_t n)
{
    ms_name_hint hint = ms_name_hint_of(name, names, n);
    size_t       used;

    if (hint.text[0] != '\0') return hint;
    used = (size_t)snprintf(hint.text, sizeof hint.text, "; it must be one of ");
    for (size_t i = 0; i < n && used < sizeof hint.text; i++)
        used += (size_t)snprintf(hint.text + used, sizeof hint.text - used, "%s%s",
                                 i == 0 ? "" : ", ", names[i]);
    return hint;
}

ms_name_hint ms_name_hint_choices(const char *name, const char *choices)
{
    char        text[1024];
    const char *names[MAX_CHOICES];
    size_t      n = 0;

    snprintf(text, sizeof text, "%s", choices);
    for (char *at = text, *next; at != NULL && n < MAX_CHOICES; at = next) {
        next = strchr(at, '|');
        if (next != NULL) *next++ = '\0';
        names[n++] = at;
    }
    return ms_name_hint_of(name, names, n);
}

int ms_choice_index(const char *choices, const char *value)
{
    const size_t length = strlen(value);
    int          index  = 0;
    for (const char *at = choices; *at != '\0'; index++) {
        const size_t n = strcspn(at, "|");
        if (n == length && strncmp(at, value, n) == 0) return index;
        at += n + (at[n] == '|');
    }
    return -1;
}

void ms_choice_text(const char *choices, int64_t index, char *text, size_t bytes)
{
    for (; index > 0 && *choices != '\0'; index--) {
        choices += strcspn(choices, "|");
        choices += *choices == '|';
    }
    snprintf(text, bytes, "%.*s", index < 0 ? 0 : (int)strcspn(choices, "|"), choices);
}
