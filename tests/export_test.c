/* export_test.c - names of an export's tensors and its tokenizer; and a program for
 * tests/cli/export.sh, which compares its logits with those that others compute from the export:
 *
 *     export_test RUN IDS OUT.npy    the logits of RUN's newest checkpoint after every prefix of
 *                                    the ids in the text IDS, by the model library in float32 */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/npy.h"
#include "data/tokenizer_json.h"
#include "gpt_rig.h"
#include "train/checkpoint.h"
#include "train/hf.h"
#include "train/schedule.h"
#include "train/weights.h"

/* ---- logits of a run ------------------------------------------------------------------------- */

enum { MAX_IDS = 4096 };

static int64_t read_ids(const char *path, int32_t *ids)
{
    FILE   *f = fopen(path, "r");
    int64_t n = 0;
    int     id;
    CHECK(f != NULL, "%s", path);
    while (n < MAX_IDS && fscanf(f, "%d", &id) == 1) /* NOLINT(cert-err34-c): our own file */
        ids[n++] = id;
    fclose(f);
    CHECK(n > 0, "%s: no ids", path);
    return n;
}

static ms_gpt_pass pass_of(const ms_train_config *cfg, int64_t step)
{
    ms_schedule schedule;
    ms_error    e;
    CHECK_OK_ERR(&e, ms_schedule_make(&e, cfg, &schedule));
    const ms_train_stage *stage = ms_schedule_at(&schedule, step - 1).stage;
    return (ms_gpt_pass){ .window_short = stage->window_short, .window_long = stage->window_long };
}

static int write_logits(const char *run, const char *ids_path, const char *out_path)
{
    static int32_t  ids[MAX_IDS];
    const int64_t   n = read_ids(ids_path, ids);
    char            warning[sizeof(ms_error)], path[MS_PATH_MAX];
    ms_checkpoint   c;
    ms_train_config cfg;
    musec_ctx      *ctx = check_open("cpu");
    ms_gpt         *gpt = NULL;
    ms_error        e;

    CHECK_OK_ERR(&e, ms_checkpoint_find(&e, run, -1, &c, warning));
    CHECK_OK_ERR(&e, ms_train_config_from_json(&e, run, json_object_get(c.state, "config"), &cfg));
    CHECK_OK_ERR(&e, ms_train_config_check(&e, &cfg));
    const ms_gpt_pass pass = pass_of(&cfg, c.step);
    CHECK_OK(ctx, ms_gpt_create(&gpt, ctx, &cfg.model, MUSEC_F32, n));
    CHECK_OK_ERR(&e, ms_path_join(&e, c.dir, "model.safetensors", path));
    CHECK_OK_ERR(&e, ms_weights_read(&e, path, ctx, gpt));
    ms_npy out = { .data  = calloc((size_t)(n * cfg.model.vocab), sizeof(double)),
                   .dtype = MUSEC_F64,
                   .ndim  = 2,
                   .shape = { n, cfg.model.vocab } };
    for (int64_t i = 0; i < n; i++)
        CHECK_OK(ctx,
                 ms_gpt_next(gpt, ids, i + 1, &pass, (double *)out.data + i * cfg.model.vocab));
    CHECK_OK_ERR(&e, ms_npy_write(&e, out_path, &out));
    ms_npy_free(&out);
    ms_gpt_destroy(gpt);
    musec_ctx_destroy(ctx);
    ms_checkpoint_close(&c);
    return 0;
}

/* ---- names ----------------------------------------------------------------------------------- */

TEST(parameters_get_their_names_in_transformers)
{
    static const struct {
        const char *ours, *theirs;
        bool        tied, transposed;
    } cases[] = {
        { "embed", "model.embed_tokens.weight", false, false },
        { "head", "lm_head.weight", false, false },
        { "head", "model.embed_tokens.weight", true, false },
        { "layer.0.mix", "model.layers.0.mix", false, false },
        { "layer.12.attn.q", "model.layers.12.self_attn.q_proj.weight", true, false },
        { "layer.3.attn.gate", "model.layers.3.self_attn.gate_proj.weight", false, false },
        { "layer.3.mlp.up", "model.layers.3.mlp.up_proj.weight", false, false },
        { "layer.3.mlp.down", "model.layers.3.mlp.down_proj.weight", false, true },
    };
    char name[MS_HF_NAME];
    bool transposed;
    for (size_t i = 0; i < COUNT(cases); i++) {
        ms_gpt_config model = gpt_full;
        model.tied          = cases[i].tied;
        ms_hf_name(&model, cases[i].ours, name, &transposed);
        CHECK(strcmp(name, cases[i].theirs) == 0, "%s is %s", cases[i].ours, name);
        CHECK(transposed == cases[i].transposed, "%s", name);
    }
}

/* No parameter keeps its own name. */
TEST_EACH_DEVICE(no_two_parameters_get_the_same_name, dev)
{
    gpt_rig r = gpt_rig_make(dev, &gpt_full, MUSEC_F32, 4);
    char    a[MS_HF_NAME], b[MS_HF_NAME];
    bool    transposed;
    for (size_t i = 0; i < ms_gpt_n_params(r.g); i++) {
        ms_hf_name(&gpt_full, ms_gpt_param(r.g, i)->name, a, &transposed);
        CHECK(strcmp(a, ms_gpt_param(r.g, i)->name) != 0, "%s", a);
        for (size_t k = 0; k < i; k++) {
            ms_hf_name(&gpt_full, ms_gpt_param(r.g, k)->name, b, &transposed);
            CHECK(strcmp(a, b) != 0, "%s twice", a);
        }
    }
    gpt_rig_free(&r);
}

/* ---- the byte tokenizer ---------------------------------------------------------------------- */

/* Letters stand for themselves; the characters of bytes that do not print are those of GPT-2. */
TEST(the_byte_tokenizer_has_256_tokens_of_one_character)
{
    static const struct {
        const char *character;
        int         byte;
    } cases[]    = { { "A", 'A' },         { "\xC4\xA0", ' ' },  { "\xC4\x8A", '\n' },
                     { "\xC4\x80", 0 },    { "\xC3\xBF", 0xFF }, { "\xC5\x83", 0xAD },
                     { "\xC4\xA1", 0x7F }, { "\xC2\xA1", 0xA1 } };
    json_t  *all = NULL;
    ms_error e;

    CHECK_OK_ERR(&e, ms_tokenizer_json(&e, NULL, &all));
    const json_t *model = json_object_get(all, "model"), *vocab = json_object_get(model, "vocab");
    CHECK(json_object_size(vocab) == 256, "%zu tokens", json_object_size(vocab));
    CHECK(json_array_size(json_object_get(model, "merges")) == 0, "merges");
    for (size_t i = 0; i < COUNT(cases); i++) {
        const json_t *id = json_object_get(vocab, cases[i].character);
        CHECK(json_is_integer(id) && json_integer_value(id) == cases[i].byte, "byte %d is %lld",
              cases[i].byte, (long long)json_integer_value(id));
    }
    const json_t *start = json_array_get(json_object_get(all, "added_tokens"), 0);
    CHECK(json_integer_value(json_object_get(start, "id")) == 256, "the start");
    json_decref(all);
}

int main(int argc, char **argv)
{
    if (argc == 4) return write_logits(argv[1], argv[2], argv[3]);
    return check_main();
}
