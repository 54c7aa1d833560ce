/* table_test.c - one table in its forms. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/table.h"
#include "report/html.h"

typedef musec_status (*form)(ms_error *, const ms_table *, FILE *);

static void expect(form print, const ms_table *t, const char *want)
{
    ms_error e;
    char    *text  = NULL;
    size_t   bytes = 0;
    FILE    *to    = open_memstream(&text, &bytes);

    CHECK(to != NULL, "open_memstream");
    CHECK_OK_ERR(&e, print(&e, t, to));
    fclose(to);
    CHECK(strcmp(text, want) == 0, "'%s' instead of '%s'", text, want);
    free(text);
}

static ms_table example(void)
{
    ms_table t = { .align = "lr" };
    ms_table_add(&t, "name");
    ms_table_add(&t, "loss");
    ms_table_add(&t, "a,b");
    ms_table_add(&t, "%.2f", 3.25);
    ms_table_add(&t, "<i> & \"q\" | 'p'");
    ms_table_add(&t, "%s", "");
    return t;
}

TEST(every_form_has_its_quotes)
{
    ms_table t = example();

    expect(ms_table_print, &t,
           "name             loss\na,b              3.25\n<i> & \"q\" | 'p'      \n");
    expect(ms_table_csv, &t, "name,loss\r\n\"a,b\",3.25\r\n\"<i> & \"\"q\"\" | 'p'\",\r\n");
    expect(ms_table_markdown, &t,
           "| name | loss |\n|---|---:|\n| a,b | 3.25 |\n| <i> & \"q\" \\| 'p' |  |\n");
    expect(ms_html_table, &t,
           "<div class=\"wide\"><table>\n<thead>\n"
           "<tr><th scope=\"col\">name</th><th scope=\"col\" class=\"r\">loss</th></tr>\n"
           "</thead>\n<tbody>\n<tr><td>a,b</td><td class=\"r\">3.25</td></tr>\n"
           "<tr><td>&lt;i&gt; &amp; &quot;q&quot; | &#39;p&#39;</td><td class=\"r\"></td></tr>\n"
           "</tbody>\n</table></div>\n");
    ms_table_free(&t);
}

/* A badge is the word before a colon; "-" is none.  A cell of a sentence makes rows that can stand
 * below each other, with the names of their columns. */
TEST(badges_and_sentences_are_marked)
{
    char     sentence[200];
    ms_table t = { .align = "lb" };

    ms_table_add(&t, "run");
    ms_table_add(&t, "status");
    ms_table_add(&t, "a");
    ms_table_add(&t, "diverged: loss <i>");
    ms_table_add(&t, "b");
    ms_table_add(&t, "does not hold");
    ms_table_add(&t, "c");
    ms_table_add(&t, "-");
    expect(ms_html_table, &t,
           "<div class=\"wide\"><table>\n<thead>\n"
           "<tr><th scope=\"col\">run</th><th scope=\"col\">status</th></tr>\n"
           "</thead>\n<tbody>\n<tr><td>a</td><td class=\"b\">"
           "<span class=\"badge b-diverged\">diverged</span>: loss &lt;i&gt;</td></tr>\n"
           "<tr><td>b</td><td class=\"b\">"
           "<span class=\"badge b-does-not-hold\">does not hold</span></td></tr>\n"
           "<tr><td>c</td><td class=\"b\">-</td></tr>\n</tbody>\n</table></div>\n");
    expect(ms_table_csv, &t, "run,status\r\na,diverged: loss <i>\r\nb,does not hold\r\nc,\r\n");
    ms_table_free(&t);

    t.align = "l";
    memset(sentence, 'w', sizeof sentence);
    sentence[sizeof sentence - 1] = '\0';
    ms_table_add(&t, "a \"name\"");
    ms_table_add(&t, "%s", sentence);
    {
        char  *text  = NULL;
        size_t bytes = 0;
        FILE  *f     = open_memstream(&text, &bytes);
        CHECK(f != NULL, "memory");
        CHECK(ms_html_table(NULL, &t, f) == MUSEC_OK, "html");
        fclose(f);
        CHECK(strstr(text, "<table class=\"stack\">") != NULL, "%s", text);
        CHECK(strstr(text, "<td data-name=\"a &quot;name&quot;\">www") != NULL, "%s", text);
        free(text);
    }
    ms_table_free(&t);
}

TEST(newlines_stay_in_their_cell)
{
    ms_table t = { .align = "l" };

    ms_table_add(&t, "head");
    ms_table_add(&t, "two\nlines");
    expect(ms_table_csv, &t, "head\r\n\"two\nlines\"\r\n");
    expect(ms_table_markdown, &t, "| head |\n|---|\n| two lines |\n");
    ms_table_free(&t);
}

/* A name in Latin-1, as files may have: the CSV is UTF-8 all the same. */
TEST(csv_is_utf8)
{
    ms_table t = { .align = "l" };

    ms_table_add(&t, "gr\xfc\xdf, é");
    expect(ms_table_csv, &t, "\"gr\xef\xbf\xbd\xef\xbf\xbd, é\"\r\n");
    ms_table_free(&t);
}

/* CSV has numbers with all their digits, nothing for what is not there, and "1 of 3" as two. */
TEST(csv_has_numbers)
{
    static const char *const names[] = { "method", "loss", "diverged|diverged,runs" };
    ms_table                 t       = { .align = "lrr" };

    ms_table_names(&t, names);
    ms_table_add(&t, "Muon");
    ms_table_add(&t, "%.2f", 1.0 / 3.0);
    ms_table_is(&t, 1.0 / 3.0);
    ms_table_add(&t, "1 of 3");
    ms_table_is_fields(&t, "%d,%d", 1, 3);
    ms_table_add(&t, "-");
    ms_table_add(&t, "all diverged");
    ms_table_is(&t, NAN);
    ms_table_add(&t, "2 of 2");
    ms_table_is_fields(&t, "2,2");
    expect(ms_table_print, &t,
           "method          loss  diverged\nMuon            0.33    1 of 3\n"
           "-       all diverged    2 of 2\n");
    expect(ms_table_csv, &t,
           "method,loss,diverged,runs\r\nMuon,0.3333333333333333,1,3\r\n,,2,2\r\n");
    ms_table_free(&t);
    CHECK(t.exact == NULL && t.n_exact == 0, "freed");
}

/* Columns are as wide as what is seen, not as its bytes. */
TEST(characters_are_counted)
{
    ms_table t = { .align = "lr" };

    ms_table_add(&t, "σ1");
    ms_table_add(&t, "lr·D");
    ms_table_add(&t, "abc");
    ms_table_add(&t, "1");
    expect(ms_table_print, &t, "σ1   lr·D\nabc     1\n");
    ms_table_free(&t);
}

TEST(pages_hold_characters_only)
{
    char  *text  = NULL;
    size_t bytes = 0;
    FILE  *to    = open_memstream(&text, &bytes);

    ms_html_text("\xcf\x83 \xff\x01\x7f\xc2\x85.", to);
    fclose(to);
    CHECK(strcmp(text, "\xcf\x83 \xef\xbf\xbd   .") == 0, "'%s'", text);
    free(text);
}

TEST(without_memory_it_says_so)
{
    const form forms[] = { ms_table_print, ms_table_csv, ms_html_table, ms_table_markdown };
    ms_table   t       = example();

    t.out_of_memory = 1;
    for (size_t i = 0; i < COUNT(forms); i++) {
        ms_error e;
        CHECK(forms[i](&e, &t, stdout) == MUSEC_ENOMEM, "form %zu", i);
    }
    ms_table_free(&t);
}
