/* run_rig.c - runs made up in memory. */
#define _POSIX_C_SOURCE 200809L /* strdup */
#include "run_rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static const char *or_else(const char *text, const char *otherwise)
{
    return text != NULL ? text : otherwise;
}

static void fill_line(ms_run_line *line, const made *m, int i, int n)
{
    *line =
        (ms_run_line){ .step = i + 1,
                       .tokens =
                           128.0 * (i + 1 + (m->stages != NULL && i >= n / 3 ? i + 1 - n / 3 : 0)),
                       .loss       = 6.0 - (double)i / n,
                       .val_loss   = i + 1 == n ? m->loss : m->loss + 1.0,
                       .lr         = strtod(m->lr, NULL),
                       .tok_s      = 1000.0 + i,
                       .max_logit  = 10.0 + i,
                       .ms_data    = 1.0,
                       .ms_model   = 5.0,
                       .ms_optim   = 3.0,
                       .ms_rest    = 1.0,
                       .has_val    = (i + 1) % 2 == 0,
                       .has_groups = (i + 1) % 2 == 0 };
    for (int g = 0; g < MS_RUN_GROUPS; g++)
        line->groups[g] = (ms_run_group){ .w_norm        = 10.0 * (g + 1) + i,
                                          .u_norm        = 0.5 * (g + 1),
                                          .u_rms         = 0.25 * (g + 1),
                                          .u_erank       = 3.0 + g,
                                          .u_gain        = 0.75,
                                          .sigma1_over_d = g == 0 ? 0.0 : 2.0,
                                          .share_above   = 0.5 };
}

void run_rig_add(ms_runset *set, made m)
{
    const int n = m.lines > 0 ? m.lines : 4;
    ms_run   *run;
    char      name[32], steps[16];

    if (set->n == set->room) {
        set->room = 2 * set->room + 16;
        set->at   = realloc(set->at, set->room * sizeof *set->at);
        assert_non_null(set->at);
    }
    run = &set->at[set->n];
    snprintf(name, sizeof name, "made/run_%03zu", set->n);
    snprintf(steps, sizeof steps, "%d", n);
    *run = (ms_run){ .dir       = strdup(name),
                     .config    = json_object(),
                     .lr        = strtod(m.lr, NULL),
                     .threshold = strtod(or_else(m.threshold, "0.5"), NULL),
                     .status    = m.status == MS_RUN_UNFINISHED ? MS_RUN_DONE : m.status,
                     .reason    = m.status == MS_RUN_DIVERGED  ? strdup("loss is not finite")
                                  : m.status == MS_RUN_STALLED ? strdup("nothing was learned")
                                                               : NULL,
                     .lines     = calloc((size_t)n, sizeof *run->lines),
                     .n         = (size_t)n,
                     .room      = (size_t)n,
                     .val_loss  = m.status == MS_RUN_DIVERGED ? NAN : m.loss,
                     .steps     = n };
    const struct {
        const char *key, *value;
    } fields[] = {
        { "preset", "pico" },
        { "optimizer", m.optimizer },
        { "lr", m.lr },
        { "threshold", or_else(m.threshold, "0.5") },
        { "weight_decay", or_else(m.decay, "matrix=0,qk=0,vo=0,mlp=0") },
        { "seed", or_else(m.seed, "0") },
        { "ns_mode", or_else(m.mode, "paper") },
        { "ns_iters", or_else(m.iters, "5") },
        { "stages", or_else(m.stages, "") },
        { "data", or_else(m.data, "builtin") },
        { "steps", steps },
        { "grad_reduction", "sum8" },
        { "decay_form", strcmp(m.optimizer, "adamw") == 0 ? "decoupled" : "cautious-lr2" },
        { "qk_norm", "yes" },
        { "qk_tau", "30" },
        { "batch", "128" },
        { "layers", "2" },
        { "heads", "3" },
        { "head", "5" },
        { "width", "7" },
        { "mlp", "11" },
    };
    for (size_t i = 0; i < COUNT(fields); i++)
        json_object_set_new(run->config, fields[i].key, json_string(fields[i].value));
    if (m.more != NULL) {
        const size_t key = strcspn(m.more, "=");
        CHECK(m.more[key] == '=', "%s", m.more);
        json_object_setn_new(run->config, m.more, key, json_string(m.more + key + 1));
    }
    run->optimizer = ms_run_text(run, "optimizer");
    for (int i = 0; i < n; i++)
        fill_line(&run->lines[i], &m, i, n);
    set->n++;
}
