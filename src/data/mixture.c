/* mixture.c - several sets of data in one stream of micro-batches. */
#define _POSIX_C_SOURCE 200809L /* strtok_r, strdup */
#include "data/mixture.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "core/outcome.h"
#include "core/real.h"

struct ms_mixture {
    size_t     n;
    ms_loader *set[MS_SETS];
    char       name[MS_SETS][MS_SET_NAME];
    double     weight[MS_SETS];
    int64_t    tokens[MS_SETS]; /* delivered */
    ms_found   found;
};

/* ---- the list -------------------------------------------------------------------------------- */

static bool exists(const char *path) { return access(path, F_OK) == 0; }

/* Does the relative path exist in `base`? */
static bool is_in(const char *base, const char *path)
{
    char joined[MS_PATH_MAX];
    return base != NULL && path[0] != '/' && ms_path_join(NULL, base, path, joined) == MUSEC_OK &&
           exists(joined);
}

/* Cuts "=WEIGHT" off; a path may have an '=' that no number follows. */
static musec_status take_weight(ms_error *e, const char *base, char *text, double *weight)
{
    char  *equal = strrchr(text, '='), *end = NULL;
    double x;

    *weight = 1.0;
    if (equal == NULL || equal[1] == '\0') return MUSEC_OK;
    x = ms_real_read(equal + 1, &end);
    if (*end != '\0' || exists(text) || is_in(base, text)) return MUSEC_OK; /* part of the name */
    if (!(x > 0.0 && x < 1e9))
        return ms_fail(e, MUSEC_EINVAL, "%s: a weight must be above 0 and below 1e9", text);
    *equal  = '\0';
    *weight = x;
    return MUSEC_OK;
}

static size_t count_name(const ms_mixture *m, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n; i++)
        n += strcmp(m->name[i], name) == 0;
    return n;
}

/* Names a set by the last part of its path, with other characters than those of plain names
 * replaced and with a number if another set has that name. */
static void name_set(ms_mixture *m, const char *path)
{
    char        base[MS_SET_NAME - 16];
    const char *end = path + strlen(path), *begin;

    while (end > path + 1 && end[-1] == '/')
        end--;
    for (begin = end; begin > path && begin[-1] != '/'; begin--) {}
    snprintf(base, sizeof base, "%.*s", (int)(end - begin), begin);
    for (char *c = base; *c != '\0'; c++)
        if (!isalnum((unsigned char)*c) && strchr("._-", *c) == NULL) *c = '_';
    snprintf(m->name[m->n], MS_SET_NAME, "%s", base);
    for (int k = 2; count_name(m, m->name[m->n]) > 0; k++)
        snprintf(m->name[m->n], MS_SET_NAME, "%s-%d", base, k);
}

/* Finds the path as it is named, or in the base, for which it is written to `joined`. */
static musec_status locate(ms_error *e, ms_mixture *m, const char *base, const char *path,
                           char joined[MS_PATH_MAX], const char **out)
{
    *out = path;
    if (ms_source_is_builtin(path) || path[0] == '/') return MUSEC_OK;
    if (exists(path) || !is_in(base, path)) {
        if (m->found == MS_FOUND_ANYWHERE) m->found = MS_FOUND_HERE;
        return MUSEC_OK;
    }
    m->found = MS_FOUND_IN_BASE;
    *out     = joined;
    return ms_path_join(e, base, path, joined);
}

static musec_status open_set(ms_error *e, ms_mixture *m, const ms_loader_config *cfg, char *path)
{
    ms_loader_config one = *cfg;
    char             joined[MS_PATH_MAX];
    musec_status     st;

    if (m->n == MS_SETS) return ms_fail(e, MUSEC_EINVAL, "more than %d sets of data", MS_SETS);
    TRY(take_weight(e, cfg->base, path, &m->weight[m->n]));
    name_set(m, path);
    TRY(locate(e, m, cfg->base, path, joined, &one.source.path));
    TRY(ms_loader_open(e, &one, &m->set[m->n]));
    m->n++;
done:
    return st;
}

musec_status ms_mixture_open(ms_error *e, const ms_loader_config *cfg, ms_mixture **out)
{
    ms_mixture  *m    = calloc(1, sizeof *m);
    char        *list = strdup(cfg->source.path), *rest = NULL;
    double       sum = 0.0;
    musec_status st  = MUSEC_OK;

    *out = NULL;
    if (m == NULL || list == NULL) TRY(ms_fail(e, MUSEC_ENOMEM, "not enough memory"));
    for (char *path = strtok_r(list, ";", &rest); path != NULL; path = strtok_r(NULL, ";", &rest))
        TRY(open_set(e, m, cfg, path));
    if (m->n == 0) TRY(ms_fail(e, MUSEC_EINVAL, "no data are named"));
    for (size_t i = 0; i < m->n; i++)
        sum += m->weight[i];
    for (size_t i = 0; i < m->n; i++)
        m->weight[i] /= sum;
    *out = m;
    m    = NULL;
done:
    ms_mixture_close(m);
    free(list);
    return st;
}

void ms_mixture_close(ms_mixture *m)
{
    for (size_t i = 0; m != NULL && i < m->n; i++)
        ms_loader_close(m->set[i]);
    free(m);
}

/* ---- delivering ------------------------------------------------------------------------------ */

musec_status ms_mixture_next(ms_error *e, ms_mixture *m, int64_t tokens, int64_t max_doc,
                             ms_batch *out)
{
    size_t       turn = 0;
    musec_status st;

    for (size_t i = 1; i < m->n; i++)
        if ((double)m->tokens[i] / m->weight[i] < (double)m->tokens[turn] / m->weight[turn])
            turn = i;
    TRY(ms_loader_next(e, m->set[turn], tokens, max_doc, out));
    m->tokens[turn] += out->tokens;
done:
    return st;
}

ms_mixture_position ms_mixture_where(const ms_mixture *m)
{
    ms_mixture_position at = { 0 };
    for (size_t i = 0; i < m->n; i++) {
        at.at[i]     = ms_loader_position(m->set[i]);
        at.tokens[i] = m->tokens[i];
    }
    return at;
}

musec_status ms_mixture_seek(ms_error *e, ms_mixture *m, const ms_mixture_position *at)
{
    musec_status st = MUSEC_OK;
    for (size_t i = 0; i < m->n; i++) {
        TRY(ms_loader_seek(e, m->set[i], at->at[i]));
        m->tokens[i] = at->tokens[i];
    }
done:
    return st;
}

/* ---- the sets -------------------------------------------------------------------------------- */

size_t      ms_mixture_sets(const ms_mixture *m) { return m->n; }
ms_loader  *ms_mixture_set(const ms_mixture *m, size_t index) { return m->set[index]; }
const char *ms_mixture_name(const ms_mixture *m, size_t index) { return m->name[index]; }
double      ms_mixture_weight(const ms_mixture *m, size_t index) { return m->weight[index]; }
ms_found    ms_mixture_found(const ms_mixture *m) { return m->found; }

musec_status ms_mixture_unigram(ms_error *e, ms_mixture *m, double *loss)
{
    enum { IDS = UINT16_MAX + 1, SAMPLE = 1 << 20 };
    int64_t     *counts    = malloc(IDS * sizeof *counts);
    double      *frequency = calloc(IDS, sizeof *frequency);
    musec_status st        = MUSEC_OK;

    if (counts == NULL || frequency == NULL)
        TRY(ms_fail(e, MUSEC_ENOMEM, "not enough memory to count tokens"));
    for (size_t i = 0; i < m->n; i++) {
        int64_t n = 0;
        memset(counts, 0, IDS * sizeof *counts);
        TRY(ms_loader_count(e, m->set[i], SAMPLE, counts, &n));
        for (size_t id = 0; id < IDS; id++)
            frequency[id] += m->weight[i] * (double)counts[id] / (double)n;
    }
    *loss = ms_unigram_loss(frequency, IDS);
done:
    free(frequency);
    free(counts);
    return st;
}

uint64_t ms_mixture_bytes(const ms_mixture *m)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < m->n; i++)
        bytes += ms_loader_bytes(m->set[i]);
    return bytes;
}
