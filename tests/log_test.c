/* log_test.c - the bytes that a log writes. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"

typedef struct screen { /* a log that writes into memory */
    char  *text;
    size_t bytes;
    FILE  *f;
    ms_log log;
} screen;

static void screen_open(screen *s, ms_log_level level, int live)
{
    memset(s, 0, sizeof *s);
    s->f = open_memstream(&s->text, &s->bytes);
    CHECK(s->f != NULL, "open_memstream");
    s->log = ms_log_open(s->f, level);
    CHECK(!s->log.live && !s->log.dangling, "memory is no terminal");
    s->log.live = live;
}

static void screen_close(screen *s)
{
    fclose(s->f);
    free(s->text);
}

static void screen_expect(screen *s, const char *want)
{
    fflush(s->f);
    CHECK(strcmp(s->text, want) == 0, "'%s' instead of '%s'", s->text, want);
    screen_close(s);
}

TEST(messages_above_the_level_are_dropped)
{
    static const char *const want[] = { "0\n", "0\n1\n", "0\n1\n2\n" };

    for (int level = MS_LOG_QUIET; level <= MS_LOG_VERBOSE; level++) {
        screen s;
        screen_open(&s, (ms_log_level)level, 0);
        for (int i = MS_LOG_QUIET; i <= MS_LOG_VERBOSE; i++)
            ms_log_say(&s.log, (ms_log_level)i, "%d", i);
        screen_expect(&s, want[level]);
    }
}

TEST(progress_is_shown_on_terminals_unless_quiet)
{
    screen s;

    for (int live = 0; live < 2; live++) {
        screen_open(&s, live == 0 ? MS_LOG_VERBOSE : MS_LOG_QUIET, live);
        ms_log_progress(&s.log, "step 1");
        ms_log_end(&s.log);
        screen_expect(&s, "");
    }
}

TEST(a_block_is_redrawn_in_place)
{
    screen s;

    screen_open(&s, MS_LOG_NORMAL, 1);
    ms_log_block(&s.log, "a\nb\n");
    ms_log_block(&s.log, "c\n");
    ms_log_say(&s.log, MS_LOG_NORMAL, "note");
    ms_log_block(&s.log, "d\n");
    ms_log_block(&s.log, "");
    ms_log_say(&s.log, MS_LOG_NORMAL, "end");
    screen_expect(&s, "\ra\033[K\n\rb\033[K\n\033[J"
                      "\033[2A\rc\033[K\n\033[J"
                      "\033[1A\r\033[Jnote\n"
                      "\rd\033[K\n\033[J"
                      "\033[1A\033[J"
                      "end\n");
    screen_open(&s, MS_LOG_NORMAL, 0);
    ms_log_block(&s.log, "a\n");
    screen_expect(&s, "");
    screen_open(&s, MS_LOG_NORMAL, 1); /* more lines than the 24 of a screen */
    char many[200] = "";
    for (int i = 0; i < 100; i++)
        memcpy(many + i, "\n", 2);
    ms_log_block(&s.log, many);
    CHECK(s.log.lines == 23, "%d lines", s.log.lines);
    screen_close(&s);
}

TEST(messages_go_below_the_progress_line)
{
    screen s;

    screen_open(&s, MS_LOG_NORMAL, 1);
    ms_log_progress(&s.log, "step %d", 1);
    ms_log_progress(&s.log, "step %d", 2);
    ms_log_say(&s.log, MS_LOG_VERBOSE, "dropped: the progress line stays as it is");
    ms_log_say(&s.log, MS_LOG_NORMAL, "note");
    ms_log_progress(&s.log, "step %d", 3);
    ms_log_end(&s.log);
    ms_log_end(&s.log);
    screen_expect(&s, "\rstep 1\033[K\rstep 2\033[K\nnote\n\rstep 3\033[K\n");
}

TEST(long_progress_lines_are_cut_and_messages_are_not)
{
    screen s;
    char   big[6000], want[256];

    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    screen_open(&s, MS_LOG_NORMAL, 1);
    ms_log_progress(&s.log, "%s", big); /* memory has no width: 80 is assumed */
    snprintf(want, sizeof want, "\r%.79s\033[K", big);
    screen_expect(&s, want);

    memcpy(big, "\xcf\x83\xcf\x83", 4); /* two sigmas: two columns in four bytes */
    screen_open(&s, MS_LOG_NORMAL, 1);
    ms_log_progress(&s.log, "%s", big);
    snprintf(want, sizeof want, "\r%.81s\033[K", big);
    screen_expect(&s, want);

    screen_open(&s, MS_LOG_NORMAL, 0);
    ms_log_say(&s.log, MS_LOG_NORMAL, "%s", big);
    fflush(s.f);
    CHECK(s.bytes > 4000 && s.text[s.bytes - 1] == '\n', "%zu bytes", s.bytes);
    CHECK(strchr(s.text, '\n') == s.text + s.bytes - 1, "one line");
    screen_close(&s);
}
