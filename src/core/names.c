/* names.c - the nearest of some names, by edit distance and by a table of foreign names. */
#include "core/names.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"

enum { LONGEST = 64, MAX_CHOICES = 64 }; /* longer names get no suggestion */

/* ---- names of other programs ----------------------------------------------------------------- */

/* Names that other programs use for the same thing: `same` means exactly that, so that an option of
 * this name is accepted; `similar` differs in some way (nanoGPT's batch_size counts sequences,
 * --batch counts tokens) and is only suggested.  Of several rows that fit, the first counts. */
static const struct {
    const char *name, *same, *similar;
} synonyms[] = {
    { "lr", "learning-rate", "" },
    { "weight-decay", "wd", "decay" },
    { "steps", "max-steps", "epochs|iterations|max-iters|n-steps|num-steps" },
    { "out", "output|out-dir|output-dir", "" },
    { "batch", "", "batch-size|tokens-per-step" },
    { "optimizer", "", "optim" },
    { "preset", "", "model" },
    { "data", "", "dataset|input|download" },
    { "beta", "", "momentum" },
    { "threshold", "", "clip-threshold" },
    { "seed", "", "random-seed" },
    { "layers", "", "n-layer|n-layers|num-layers" },
    { "heads", "", "n-head|n-heads|num-heads" },
    { "width", "", "n-embd|hidden-size|d-model|dim" },
    { "head", "", "head-dim" },
    { "vocab", "", "vocab-size" },
    { "max-doc", "", "block-size|context|context-length|seq-len|sequence-length" },
    { "micro-batches", "", "grad-accum|gradient-accumulation-steps" },
    { "recompute", "", "activation-checkpointing|gradient-checkpointing|checkpoint-activations" },
    { "val-every", "", "eval-every|eval-interval" },
    { "checkpoint-every", "", "save-every|save-interval" },
    { "report-every", "", "log-every" },
    { "precision", "", "dtype" },
    { "device", "", "gpu" },
    { "temperature", "", "temp" },
    { "tokens", "", "max-new-tokens|length" },
    { "jobs", "", "workers|num-workers" },
    { "--version", "", "-v|-version" },

    { "cuda", "", "gpu|cuda0" },
    { "cpu", "", "mps" },
    { "f32", "", "float32|fp32" },
    { "f16", "", "float16|fp16|half" },
    { "bf16", "", "bfloat16" },
    { "f64", "", "float64|fp64|double" },
    { "yes", "", "true|on|1" },
    { "no", "", "false|off|0" },
    { "sgdm", "", "sgd|nag" },
    { "gpt2", "", "tiktoken|bpe" },
    { "byte", "", "char" },
    { "openwebtext", "", "owt" },
    { "sample", "", "generate" },
    { "report", "", "plot" },
    { "spectrum", "", "svd" },
};

/* The character that two names are compared by. */
static int plain(char c) { return c == '_' ? '-' : tolower((unsigned char)c); }

/* Is it one of the names "a|b|c", but for case and '_'? */
static bool is_one_of(const char *names, const char *name)
{
    char text[LONGEST + 1];
    snprintf(text, sizeof text, "%s", name);
    for (char *c = text; *c != '\0'; c++)
        *c = (char)plain(*c);
    return ms_choice_index(names, text) >= 0;
}

const char *ms_name_synonym(const char *name)
{
    for (size_t i = 0; i < COUNT(synonyms); i++)
        if (ms_choice_index(synonyms[i].same, name) >= 0) return synonyms[i].name;
    return NULL;
}

/* ---- misspellings ---------------------------------------------------------------------------- */

/* Counts the letters to insert, delete, replace or swap with their neighbour to turn a into b. */
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

/* Is `known` a better guess for `name` than one of distance *best?  A third of its letters may be
 * wrong, or its end may be missing. */
static bool nearer(const char *name, const char *known, size_t *best)
{
    size_t d = distance(name, known);
    if (name[0] == '\0') return false;
    if (d > (strlen(known) + 2) / 3) {
        if (strncmp(name, known, strlen(name)) != 0) return false;
        d = LONGEST - 1; /* a prefix is worse than a misspelling, better than nothing */
    }
    if (d >= *best) return false;
    *best = d;
    return true;
}

const char *ms_name_nearest(const char *name, const char *const *names, size_t n)
{
    const char *meant = NULL;
    size_t      best  = LONGEST;

    for (size_t s = 0; s < COUNT(synonyms); s++) {
        if (!is_one_of(synonyms[s].same, name) && !is_one_of(synonyms[s].similar, name)) continue;
        for (size_t i = 0; i < n; i++)
            if (strcmp(synonyms[s].name, names[i]) == 0) return names[i];
    }
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

    if (hint.text[0] != '\0') return hint;
    ms_text_append(hint.text, sizeof hint.text, "; it must be one of ");
    for (size_t i = 0; i < n; i++)
        ms_text_append(hint.text, sizeof hint.text, "%s%s", i == 0 ? "" : ", ", names[i]);
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
