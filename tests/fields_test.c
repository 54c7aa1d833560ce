/* fields_test.c - groups of the fields of a config, and what follows from those that are given. */
#include <string.h>

#include "check.h"
#include "cli/cli.h"
#include "train/config.h"

static bool is_among(const void *given, const char *key) { return strstr(given, key) != NULL; }

TEST(nanogpt_files_hold_gpt2_tokens)
{
    static const struct {
        const char *format, *given, *tokenizer;
    } cases[] = {
        { "shard", "data-format", "byte" },
        { "nanogpt", "data-format", "gpt2" },
        { "nanogpt", "data-format tokenizer", "byte" }, /* one's own word stands */
    };
    char     told[MS_CONFIG_NOTES];
    ms_error e;
    for (size_t i = 0; i < COUNT(cases); i++) {
        ms_train_config cfg;
        char            tokenizer[16];
        CHECK_OK_ERR(&e, ms_train_config_init(&e, &cfg, "pico", "muon"));
        CHECK_OK_ERR(&e, ms_train_config_set(&e, &cfg, "data-format", cases[i].format));
        ms_train_config_resolve(&cfg, is_among, cases[i].given, told);
        CHECK(ms_train_config_get(&cfg, "tokenizer", tokenizer, sizeof tokenizer) == MUSEC_OK,
              "get");
        assert_string_equal(tokenizer, cases[i].tokenizer);
        CHECK((told[0] != '\0') == (i == 1), "case %zu: %s", i, told);
    }
}

/* Every field stands in a group that --help shows. */
TEST(every_field_has_a_group)
{
    ms_train_field f;
    size_t         used[16] = { 0 }, n = 0;
    for (size_t i = 0; ms_train_field_at(i, &f); i++) {
        size_t g = 0;
        while (ms_train_group(g) != NULL && strcmp(ms_train_group(g), f.group) != 0)
            g++;
        CHECK(ms_train_group(g) != NULL, "%s: no group \"%s\"", f.name, f.group);
        used[g]++;
    }
    for (; ms_train_group(n) != NULL; n++)
        CHECK(used[n] > 0, "%s is empty", ms_train_group(n));
    CHECK(n >= 7 && train_command()->n_groups == n, "%zu groups", n);
}
