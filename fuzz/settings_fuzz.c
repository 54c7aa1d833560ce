/* settings_fuzz.c - any text as the settings of a run.
 *
 *     line 1       a preset and an optimizer
 *     other lines  a field, = and its value, as after --set
 *
 * A setting that is refused changes nothing.  Settings are unchanged after a round trip through
 * JSON. If a config passes the check, the plan of every step is valid. */
#define _POSIX_C_SOURCE 200809L /* strndup */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "train/schedule.h"

static void set_all(ms_train_config *cfg, char *line)
{
    char *next;
    for (; line != NULL; line = next) {
        char           *equal;
        ms_train_config before;
        ms_error        e = { "" };
        next              = strchr(line, '\n');
        if (next != NULL) *next++ = '\0';
        equal = strchr(line, '=');
        if (equal == NULL) continue;
        *equal = '\0';
        memcpy(&before, cfg, sizeof before); /* with its padding */
        if (!fuzz_ok(ms_train_config_set(&e, cfg, line, equal + 1), &e))
            REQUIRE(memcmp(&before, cfg, sizeof before) == 0);
    }
}

static void check_json(const ms_train_config *cfg)
{
    json_t         *json = ms_train_config_json(cfg);
    ms_train_config again;
    ms_error        e = { "" };

    REQUIRE(json != NULL);
    REQUIRE(fuzz_ok(ms_train_config_from_json(&e, "it", json, &again), &e));
    REQUIRE(ms_train_config_differs(cfg, &again, 0) == NULL);
    json_decref(json);
}

static void check_step(const ms_schedule *s, int64_t step)
{
    const ms_step_plan p = ms_schedule_at(s, step);

    REQUIRE(p.stage >= s->stage && p.stage < s->stage + s->n_stages);
    REQUIRE(p.tokens >= 1 && p.tokens <= s->max_tokens);
    REQUIRE(p.lr_scale >= 0.0 && isfinite(p.lr_scale));
    REQUIRE(p.beta >= 0.0 && p.beta <= 1.0);
    REQUIRE(p.n_weights >= 1 && p.n_weights <= MS_XENT_TARGETS && p.weights[0] > 0.0);
    for (int i = 0; i < p.n_weights; i++)
        REQUIRE(p.weights[i] >= 0.0 && isfinite(p.weights[i]));
}

static void check_schedule(const ms_train_config *cfg)
{
    ms_schedule s;
    ms_error    e = { "" };

    if (!fuzz_ok(ms_schedule_make(&e, cfg, &s), &e)) return;
    REQUIRE(s.n_stages >= 1 && s.n_stages <= MS_STAGES);
    REQUIRE(s.stage[0].first == 0 && s.stage[s.n_stages - 1].end == s.steps);
    for (int i = 0; i < s.n_stages; i++) {
        REQUIRE(s.stage[i].first < s.stage[i].end);
        REQUIRE(i == 0 || s.stage[i].first == s.stage[i - 1].end);
        check_step(&s, s.stage[i].first);
        check_step(&s, s.stage[i].first + (s.stage[i].end - s.stage[i].first) / 2);
        check_step(&s, s.stage[i].end - 1);
    }
}

static void check_model(const ms_train_config *cfg)
{
    ms_gpt_sizes sizes;
    ms_error     e = { "" };

    if (fuzz_ok(ms_gpt_measure(&e, &cfg->model, MUSEC_F32, 1, 1, &sizes), &e))
        REQUIRE(sizes.n_matrix > 0 && sizes.weights > 0);
    (void)fuzz_ok(ms_gpt_measure(&e, &cfg->model, MUSEC_F64, 1 << 26, 1 << 28, &sizes), &e);
    (void)fuzz_ok(ms_gpt_measure(&e, &cfg->model, MUSEC_BF16, 1 << 26, 1 << 28, &sizes), &e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char           *text = strndup((const char *)data, size);
    char           *rest, *optimizer;
    ms_train_config cfg;
    ms_error        e = { "" };

    REQUIRE(text != NULL);
    rest = strchr(text, '\n');
    if (rest != NULL) *rest++ = '\0';
    optimizer = strchr(text, ' ');
    if (optimizer != NULL) {
        *optimizer++ = '\0';
        if (fuzz_ok(ms_train_config_init(&e, &cfg, text, optimizer), &e)) {
            set_all(&cfg, rest);
            check_json(&cfg);
            if (fuzz_ok(ms_train_config_check(&e, &cfg), &e)) {
                check_schedule(&cfg);
                check_model(&cfg);
            }
        }
    }
    free(text);
    return 0;
}
