/* experiment.c - the figures and tables of the paper as data: their files, names and scales. */
#include "experiment/experiment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/embedded.h"
#include "core/json_file.h"
#include "core/names.h"
#include "core/text.h"

enum { NAMES_MAX = 128 };

musec_status ms_experiment_broken(ms_error *e, const char *item, const char *what, const char *name)
{
    return ms_fail(e, MUSEC_EFORMAT, "experiments/%s.json: %s \"%s\"", item, what, name);
}

/* ---- the files ------------------------------------------------------------------------------- */

static bool is_item(const char *name) { return strcmp(name, "scales") != 0; }

static int by_order(const void *a, const void *b)
{
    const ms_experiment *x = a, *y = b;
    const json_int_t     i = json_integer_value(json_object_get(x->file, "order"));
    const json_int_t     k = json_integer_value(json_object_get(y->file, "order"));
    return (i > k) - (i < k);
}

static musec_status read_file(ms_error *e, const ms_embedded_file *from, json_t *files)
{
    ms_json_problem    why;
    json_t            *file = NULL;
    const musec_status st =
        ms_json_parse((const char *)from->bytes, from->n, MS_JSON_ONCE, &why, &file);
    if (st == MUSEC_ENOMEM) return ms_no_memory(e, "the grids");
    if (!json_is_object(file)) {
        json_decref(file);
        return ms_fail(e, MUSEC_EFORMAT, "experiments/%s.json:%d: %s", from->name, why.line,
                       st != MUSEC_OK ? why.text : "no object");
    }
    return ms_json_put(e, files, from->name, file);
}

static musec_status read_item(ms_error *e, const char *name, const json_t *file, ms_experiment *out)
{
    out->name  = name;
    out->title = json_string_value(json_object_get(file, "title"));
    out->shows = json_string_value(json_object_get(file, "shows"));
    out->file  = file;
    if (out->title == NULL || out->shows == NULL ||
        !json_is_integer(json_object_get(file, "order")))
        return ms_experiment_broken(e, name, "no order, title or shows of", name);
    if (!json_is_array(json_object_get(file, "grids")) ||
        !json_is_array(json_object_get(file, "sections")))
        return ms_experiment_broken(e, name, "no grids or sections of", name);
    return MUSEC_OK;
}

musec_status ms_experiments_load(ms_error *e, ms_experiments *out)
{
    const char  *name;
    json_t      *file;
    size_t       n  = 0;
    musec_status st = MUSEC_OK;

    *out = (ms_experiments){ .files = json_object() };
    if (out->files == NULL) return ms_no_memory(e, "the grids");
    for (; ms_embedded_experiments[n].name != NULL; n++)
        TRY(read_file(e, &ms_embedded_experiments[n], out->files));
    out->at = calloc(n + 1, sizeof *out->at);
    if (out->at == NULL) TRY(ms_no_memory(e, "the grids"));
    json_object_foreach(out->files, name, file)
    {
        if (is_item(name)) TRY(read_item(e, name, file, &out->at[out->n++]));
    }
    qsort(out->at, out->n, sizeof *out->at, by_order);
done:
    if (st != MUSEC_OK) ms_experiments_free(out);
    return st;
}

void ms_experiments_free(ms_experiments *all)
{
    free(all->at);
    json_decref(all->files);
    *all = (ms_experiments){ 0 };
}

/* ---- names ----------------------------------------------------------------------------------- */

musec_status ms_experiment_find(ms_error *e, const ms_experiments *all, const char *name,
                                const ms_experiment **out)
{
    static const char long_form[] = "figure";
    char              short_form[64];
    const char       *names[NAMES_MAX], *near;
    size_t            n = 0;

    for (size_t i = 0; i < all->n; i++) {
        const json_t *aliases = json_object_get(all->at[i].file, "aliases");
        *out                  = &all->at[i];
        if (strcmp((*out)->name, name) == 0) return MUSEC_OK;
        if (n < NAMES_MAX) names[n++] = (*out)->name;
        for (size_t k = 0; k < json_array_size(aliases); k++) {
            const char *alias = json_string_value(json_array_get(aliases, k));
            if (strcmp(alias, name) == 0) return MUSEC_OK;
            if (n < NAMES_MAX) names[n++] = alias;
        }
    }
    *out = NULL;
    if (strncmp(name, long_form, strlen(long_form)) == 0) { /* "figure1" for fig1 */
        snprintf(short_form, sizeof short_form, "fig%s", name + strlen(long_form));
        near = ms_name_nearest(short_form, names, n);
    } else {
        near = ms_name_nearest(name, names, n);
    }
    return ms_fail(e, MUSEC_EINVAL,
                   "there is no item \"%s\"; %s%s%smusec paper list names them all", name,
                   near != NULL ? "did you mean \"" : "", near != NULL ? near : "",
                   near != NULL ? "\"?  " : "");
}

void ms_experiment_names(const ms_experiment *item, char *text, size_t bytes)
{
    const json_t *aliases = json_object_get(item->file, "aliases");
    const size_t  n       = json_array_size(aliases);

    snprintf(text, bytes, "%s", item->name);
    for (size_t i = 0; i < n; i++)
        ms_text_append(text, bytes, "%s%s%s", i == 0 ? " (" : ", ",
                       json_string_value(json_array_get(aliases, i)), i + 1 == n ? ")" : "");
}

const char *ms_experiment_scale_at(const ms_experiments *all, size_t index)
{
    const char *name;
    json_t     *value;

    json_object_foreach(json_object_get(all->files, "scales"), name, value)
    {
        if (json_object_get(value, "data") != NULL && index-- == 0) return name;
    }
    return NULL;
}

const char *ms_experiment_preset(const json_t *scale, const char *name)
{
    const char *preset = json_string_value(json_object_get(scale, "preset"));
    return preset != NULL ? preset : name;
}

musec_status ms_experiment_scale(ms_error *e, const ms_experiments *all, const char *name,
                                 const json_t **out)
{
    char        names[256] = "";
    const char *scale, *scales[NAMES_MAX];
    size_t      n = 0;

    *out = NULL;
    for (size_t i = 0; (scale = ms_experiment_scale_at(all, i)) != NULL; i++) {
        if (strcmp(scale, name) == 0)
            *out = json_object_get(json_object_get(all->files, "scales"), name);
        ms_text_append(names, sizeof names, "%s%s", i == 0 ? "" : ", ", scale);
        if (n < NAMES_MAX) scales[n++] = scale;
    }
    if (*out == NULL)
        return ms_fail(e, MUSEC_EINVAL, "there is no scale \"%s\"; there are %s%s", name, names,
                       ms_name_hint_of(name, scales, n).text);
    return MUSEC_OK;
}

const json_t *ms_experiment_selected(const ms_experiments *all, const char *scale,
                                     const char *optimizer)
{
    const json_t *tables =
        json_object_get(json_object_get(all->files, "hyperparameters"), "selected");
    const json_t *rows = json_object_get(json_object_get(tables, scale), optimizer);
    if (json_is_string(rows)) /* the name of an optimizer that has the same rows */
        rows = json_object_get(json_object_get(tables, scale), json_string_value(rows));
    return json_is_array(rows) ? rows : NULL;
}
