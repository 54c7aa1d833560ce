/* compare_time.c - the times of methods, see compare.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/compare.h"

static size_t count_on(const ms_compare *c, size_t problem, const char *device)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n_settings; i++)
        for (size_t k = 0; c->settings[i].problem == problem && k < c->settings[i].n; k++) {
            char kind[MS_RUN_KIND];
            ms_run_device(c->settings[i].runs[k], kind);
            n += strcmp(kind, device) == 0;
        }
    return n;
}

/* Finds the kind of device that most runs used; of several, the first. */
static void usual_device(const ms_compare *c, size_t problem, char device[MS_RUN_KIND])
{
    size_t most = 0;
    device[0]   = '\0';
    for (size_t i = 0; i < c->n_settings; i++)
        for (size_t k = 0; c->settings[i].problem == problem && k < c->settings[i].n; k++) {
            char kind[MS_RUN_KIND];
            ms_run_device(c->settings[i].runs[k], kind);
            if (strcmp(kind, device) == 0 && most > 0) continue;
            const size_t n = count_on(c, problem, kind);
            if (n <= most) continue;
            most = n;
            snprintf(device, MS_RUN_KIND, "%s", kind);
        }
}

bool ms_compare_time(const ms_compare *c, size_t problem, size_t method, ms_step_time *out)
{
    ms_step_time best = { NAN, NAN, 0 };
    char         device[MS_RUN_KIND], kind[MS_RUN_KIND];

    *out = best;
    usual_device(c, problem, device);
    for (size_t i = 0; i < c->n_settings; i++) {
        const ms_setting *s = &c->settings[i];
        for (size_t k = 0; s->problem == problem && s->method == method && k < s->n; k++) {
            double step, optim;
            ms_run_device(s->runs[k], kind);
            if (strcmp(kind, device) != 0) continue;
            if (!ms_run_step_ms(s->runs[k], &step, &optim)) return false;
            if (isnan(step)) continue;
            best.runs++;
            if (best.step <= step) continue;
            best.step  = step;
            best.optim = optim;
        }
    }
    *out = best;
    return true;
}
