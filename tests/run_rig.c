/* run_rig.c - runs made up in memory. */
#define _POSIX_C_SOURCE 200809L /* strdup */
#include "run_rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static void fill_line(ms_run_line *line, double lr, double loss, bool staged, int i, int n)
{
    *line = (ms_run_line){ .step     = i + 1,
                           .tokens   = 128.0 * (i + 1 + (staged && i >= n / 3 ? i + 1 - n / 3 : 0)),
                           .loss     = 6.0 - (double)i / n,
                           .val_loss = i + 1 == n ? loss : loss + 1.0,
                           .lr       = lr,
                           .tok_s    = 1000.0 + i,
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

static void set_fields(json_t *config, const char *optimizer)
{
    static const struct {
        const char *key, *value;
    } fields[] = {
        { "preset", "pico" },
        { "threshold", "0.5" },
        { "weight_decay", "matrix=0,qk=0,vo=0,mlp=0" },
        { "seed", "0" },
        { "ns_mode", "paper" },
        { "ns_iters", "5" },
        { "stages", "" },
        { "data", "builtin" },
        { "grad_reduction", "sum8" },
        { "decay_form", "cautious-lr2" },
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
        json_object_set_new(config, fields[i].key, json_string(fields[i].value));
    json_object_set_new(config, "optimizer", json_string(optimizer));
    if (strcmp(optimizer, "adamw") == 0)
        json_object_set_new(config, "decay_form", json_string("decoupled"));
}

void run_rig_add(ms_runset *set, const char *text)
{
    ms_run *run;
    char    words[256], name[32], steps[16], *rest = NULL;
    double  loss   = NAN;
    bool    staged = false;
    int     n      = 4;

    if (set->n == set->capacity) {
        set->capacity = 2 * set->capacity + 16;
        set->at       = realloc(set->at, set->capacity * sizeof *set->at);
        assert_non_null(set->at);
    }
    run = &set->at[set->n];
    snprintf(name, sizeof name, "made/run_%03zu", set->n++);
    *run = (ms_run){ .dir = strdup(name), .config = json_object(), .status = MS_RUN_DONE };
    CHECK((size_t)snprintf(words, sizeof words, "%s", text) < sizeof words, "%s", text);
    set_fields(run->config, strtok_r(words, " ", &rest));
    for (char *word; (word = strtok_r(NULL, " ", &rest)) != NULL;) {
        char *value = strchr(word, '=');
        if (value != NULL) *value++ = '\0';
        if (strcmp(word, "diverged") == 0) {
            run->status = MS_RUN_DIVERGED;
            run->reason = strdup("loss is not finite");
        } else if (strcmp(word, "stalled") == 0) {
            run->status = MS_RUN_STALLED;
            run->reason = strdup("nothing was learned");
        } else if (strcmp(word, "staged") == 0) {
            staged = true;
            json_object_set_new(run->config, "stages",
                                json_string("33% batch=64; rest batch=256 lr=1.52"));
        } else {
            CHECK(value != NULL, "%s in \"%s\"", word, text);
            if (strcmp(word, "loss") == 0)
                loss = strtod(value, NULL);
            else if (strcmp(word, "lines") == 0)
                n = (int)strtol(value, NULL, 10);
            else
                json_object_set_new(run->config, word, json_string(value));
        }
    }
    CHECK(!isnan(loss) && json_object_get(run->config, "lr") != NULL, "no lr or loss: %s", text);
    snprintf(steps, sizeof steps, "%d", n);
    json_object_set_new(run->config, "steps", json_string(steps));
    run->optimizer = ms_run_text(run, "optimizer");
    run->lr        = ms_run_number(run, "lr");
    run->threshold = ms_run_number(run, "threshold");
    run->val_loss  = run->status == MS_RUN_DIVERGED ? NAN : loss;
    run->steps     = n;
    run->n = run->capacity = (size_t)n;
    run->lines             = calloc(run->n, sizeof *run->lines);
    assert_non_null(run->lines);
    for (int i = 0; i < n; i++)
        fill_line(&run->lines[i], run->lr, loss, staged, i, n);
}
