/* real_test.c - numbers as text are read back with the same bits, in any locale of the host. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "core/real.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/file.h"
#include "core/safetensors.h"
#include "scratch.h"

/* ---- a locale with a decimal comma ----------------------------------------------------------- */

/* Compiles such a locale, as few systems have one; only its LC_NUMERIC differs from "C". */
static bool comma_locale(void)
{
    static const char source[] = "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\n"
                                 "grouping 3;3\nEND LC_NUMERIC\n";
    const char       *dir = check_tmp_dir(), *path = tmp_path("comma.src");
    char              command[3 * MS_PATH_MAX];

    put_text(path, source);
    snprintf(command, sizeof command, "localedef -c -i '%s' -f UTF-8 '%s/comma' >/dev/null 2>&1",
             path, dir);
    CHECK(system(command) != -1, "%s", command); /* it warns of missing categories, and exits 1 */
    CHECK(setenv("LOCPATH", dir, 1) == 0, "LOCPATH");
    return setlocale(LC_NUMERIC, "comma") != NULL;
}

static void use_comma(void)
{
    char shown[8];
    if (!comma_locale()) SKIP("no localedef here that makes a locale with a decimal comma");
    snprintf(shown, sizeof shown, "%g", 0.5);
    CHECK(strcmp(shown, "0,5") == 0, "the locale writes 0.5 as %s", shown);
}

static int leave_comma(void **state)
{
    (void)state;
    return setlocale(LC_NUMERIC, "C") == NULL;
}

/* ---- both ways ------------------------------------------------------------------------------- */

static const struct {
    double      x;
    const char *text;
} pairs[] = {
    { 0.1, "0.1" },
    { 0.05, "0.05" },
    { 1.0 / 3.0, "0.3333333333333333" },
    { -2.5e-300, "-2.5e-300" },
    { 1e22, "1e+22" },
    { 1234567.5, "1234567.5" },
    { INFINITY, "inf" },
};

static void check_pairs(void)
{
    for (size_t i = 0; i < COUNT(pairs); i++) {
        char  text[MS_REAL_TEXT];
        char *end = NULL;
        ms_real_text(pairs[i].x, text);
        CHECK(strcmp(text, pairs[i].text) == 0, "%s, not %s", text, pairs[i].text);
        CHECK(ms_real_read(text, &end) == pairs[i].x && *end == '\0', "%s", text);
    }
}

TEST(numbers_are_read_back_from_their_text) { check_pairs(); }

TEST_TEARDOWN(text_does_not_depend_on_the_locale, leave_comma)
{
    char       *end     = NULL;
    const char *foreign = "0,5";
    char        shown[8];
    use_comma();
    check_pairs();
    CHECK(ms_real_read(foreign, &end) == 0.0 && end == foreign + 1, "0,5 was taken for a number");
    snprintf(shown, sizeof shown, "%g", 0.5);
    CHECK(strcmp(shown, "0,5") == 0, "the host's locale was not left as it was: %s", shown);
}

/* ---- the library under such a host ----------------------------------------------------------- */

TEST_TEARDOWN(options_do_not_depend_on_the_locale, leave_comma)
{
    musec_optim_config cfg;
    use_comma();
    CHECK(musec_optim_config_init(&cfg, sizeof cfg, "soft-musec") == MUSEC_OK, "init");
    CHECK(musec_optim_config_set(&cfg, "lr", "0.5") == MUSEC_OK && cfg.lr == 0.5, "lr 0.5");
    CHECK(musec_optim_config_set(&cfg, "threshold", "rms:0.25") == MUSEC_OK, "threshold");
    CHECK(musec_optim_config_set(&cfg, "lr", "0,5") == MUSEC_EINVAL, "lr 0,5");
}

typedef struct rig {
    musec_ctx         *ctx;
    musec_optim       *opt;
    musec_optim_config cfg;
    float              w[6], g[6];
} rig;

/* With operands in bf16 the state has bounds, too, which are numbers with many digits. */
static void rig_open(rig *r, musec_momentum_form form)
{
    musec_param p = { .name = "w" };
    *r            = (rig){ .g = { 1.1f, 2, 3, 4, 5, 6.3f } };
    CHECK(musec_ctx_create(&r->ctx, "ref") == MUSEC_OK, "ref");
    CHECK(musec_optim_config_init(&r->cfg, sizeof r->cfg, "soft-musec") == MUSEC_OK, "init");
    r->cfg.operands      = MUSEC_BF16;
    r->cfg.momentum_form = form;
    p.weight             = musec_view_dense(r->w, MUSEC_F32, 1, 2, 3);
    CHECK(musec_optim_create(&r->opt, r->ctx, &r->cfg) == MUSEC_OK, "create");
    CHECK(musec_optim_add(r->opt, &p, NULL) == MUSEC_OK, "add");
}

static void rig_close(rig *r)
{
    musec_optim_destroy(r->opt);
    musec_ctx_destroy(r->ctx);
}

static void save_one_step(const char *path)
{
    rig r;
    rig_open(&r, MUSEC_MOMENTUM_HEAVY);
    const musec_view grad = musec_view_dense(r.g, MUSEC_F32, 1, 2, 3);
    CHECK(musec_optim_step(r.opt, &grad, 1, 1.0) == MUSEC_OK, "%s", musec_ctx_error(r.ctx));
    CHECK(musec_optim_save(r.opt, path) == MUSEC_OK, "%s", musec_ctx_error(r.ctx));
    rig_close(&r);
}

/* Loading converts heavy-ball momentum to an average by the beta that it reads from the file. */
static void load(const char *path, float momentum[6])
{
    rig r;
    rig_open(&r, MUSEC_MOMENTUM_EMA);
    CHECK(musec_optim_load(r.opt, path) == MUSEC_OK, "%s", musec_ctx_error(r.ctx));
    CHECK(musec_optim_get_state(r.opt, 0, 0, "momentum", momentum, 6 * sizeof *momentum) ==
              MUSEC_OK,
          "%s", musec_ctx_error(r.ctx));
    rig_close(&r);
}

TEST_TEARDOWN(state_files_do_not_depend_on_the_locale, leave_comma)
{
    float       want[6], got[6];
    const char *plain = tmp_path("plain.safetensors");
    const char *comma = tmp_path("comma.safetensors");
    save_one_step(plain);
    load(plain, want);
    use_comma();
    load(plain, got);
    CHECK(memcmp(got, want, sizeof got) == 0, "a comma reads another state");
    save_one_step(comma);
    CHECK(setlocale(LC_NUMERIC, "C") != NULL, "C");
    load(comma, got);
    CHECK(memcmp(got, want, sizeof got) == 0, "a comma writes another state");
}

/* ---- numbers of a state file ----------------------------------------------------------------- */

TEST(characters_after_a_number_are_refused)
{
    static const struct {
        const char *key, *value;
    } cases[] = {
        { "beta", "0,05" }, { "beta", "0.05x" },         { "steps", "1 0 0" },
        { "steps", "1" },   { "steps of w", "1 apple" }, { "steps", "1 x" },
    };
    static const float         zeros[6];
    static const ms_tensor_out tensor = { "w/0/momentum", MUSEC_F32, 2, { 2, 3 }, zeros };
    const char                *path   = tmp_path("rubbish.safetensors");
    for (size_t i = 0; i < COUNT(cases) + 1; i++) {
        const char *meta[][2] = { { "format", "musec-optim-1" },
                                  { "optimizer", "soft-musec" },
                                  { "base", "sgdm" },
                                  { "momentum_form", "ema" },
                                  { "beta", "0.05" },
                                  { "steps", "1 0" },
                                  { "steps of w", "1" } };
        ms_error    e;
        rig         r;
        for (size_t k = 0; i < COUNT(cases) && k < COUNT(meta); k++)
            if (strcmp(meta[k][0], cases[i].key) == 0) meta[k][1] = cases[i].value;
        CHECK_OK_ERR(&e, ms_safetensors_write(&e, path, &tensor, 1, (const char *const(*)[2])meta,
                                              COUNT(meta)));
        rig_open(&r, MUSEC_MOMENTUM_EMA);
        const musec_status st = musec_optim_load(r.opt, path);
        if (i == COUNT(cases))
            CHECK(st == MUSEC_OK, "%s", musec_ctx_error(r.ctx));
        else
            CHECK(st == MUSEC_EFORMAT && strstr(musec_ctx_error(r.ctx), cases[i].value) != NULL,
                  "%s %s: %s", cases[i].key, cases[i].value, musec_ctx_error(r.ctx));
        rig_close(&r);
    }
}
