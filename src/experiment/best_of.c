/* best_of.c - see best_of.h. */
#include "experiment/best_of.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/file.h"
#include "core/json_file.h"
#include "core/text.h"

/* The rate times each of the factors, rounded to 12 digits, so that 0.1 times 5 is 0.5. */
static json_t *rates_of(double lr, const json_t *factors)
{
    json_t *out = json_array();
    char    text[32];
    for (size_t i = 0; i < json_array_size(factors); i++) {
        snprintf(text, sizeof text, "%.12g", lr * json_number_value(json_array_get(factors, i)));
        ms_json_append(&out, json_real(strtod(text, NULL)));
    }
    return out;
}

musec_status ms_setting_config(ms_error *e, const ms_setting *s, json_t **config)
{
    static const char *const made[] = { "device", "checkpoints" };
    char                     path[MS_PATH_MAX];
    musec_status             st;

    *config = NULL;
    TRY(ms_path_join(e, s->runs[0]->dir, "config.json", path));
    TRY(ms_json_read(e, path, config));
    for (size_t i = 0; i < COUNT(made); i++)
        (void)json_object_del(*config, made[i]);
done:
    return st;
}

/* Adds the best setting as a grid. */
static musec_status add_best(ms_error *e, const ms_setting *best, const json_t *factors,
                             json_t *grids)
{
    json_t      *config = NULL;
    musec_status st;

    if (factors == NULL) TRY(ms_no_memory(e, "the factors on learning rates"));
    TRY(ms_setting_config(e, best, &config));
    ms_json_set(&config, "lr", rates_of(best->lr, factors));
    TRY(ms_json_push(e, grids, config));
    config = NULL;
done:
    json_decref(config);
    return st;
}

musec_status ms_best_of(ms_error *e, ms_log *log, const char *path, const json_t *factors,
                        json_t **out)
{
    ms_runset    set   = { 0 };
    ms_compare   c     = { 0 };
    json_t      *grids = json_array();
    musec_status st;

    *out = NULL;
    TRY(ms_runset_add(e, &set, path));
    for (size_t i = 0; i < set.n_notes; i++)
        ms_log_say(log, MS_LOG_NORMAL, "note: %s", ms_text_printable(set.notes[i]));
    TRY(ms_compare_build(e, &set, &c));
    for (size_t p = 0; p < c.n_problems; p++) {
        size_t most = 0;
        for (size_t m = 0; m < c.n_methods; m++)
            if (ms_compare_count(&c, p, m) > most) most = ms_compare_count(&c, p, m);
        for (size_t m = 0; m < c.n_methods; m++) {
            const ms_setting *best = ms_compare_tuned(&c, p, m);
            if (best != NULL && !ms_setting_failed(best) && 2 * ms_compare_count(&c, p, m) >= most)
                TRY(add_best(e, best, factors, grids));
        }
    }
    if (json_array_size(grids) == 0)
        TRY(ms_fail(e, MUSEC_EINVAL, "%s: no run in it has learned anything", path));
    *out = json_pack("{s:O}", "grids", grids);
    if (*out == NULL) st = ms_no_memory(e, "the grid");
done:
    json_decref(grids);
    ms_compare_free(&c);
    ms_runset_free(&set);
    return st;
}
