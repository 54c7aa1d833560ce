/* table_test.c - a table as text, CSV, Markdown and HTML. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/table.h"
#include "report/html.h"

typedef musec_status (*form)(ms_error *, const ms_table *, FILE *);

static char *written(form print, const ms_table *t) /* to be freed */
{
    ms_error e;
    char    *text  = NULL;
    size_t   bytes = 0;
    FILE    *to    = open_memstream(&text, &bytes);

    CHECK(to != NULL, "open_memstream");
    CHECK_OK_ERR(&e, print(&e, t, to));
    fclose(to);
    return text;
}

static void expect(form print, const ms_table *t, const char *want)
{
    char *text = written(print, t);
    CHECK(strcmp(text, want) == 0, "'%s' instead of '%s'", text, want);
    free(text);
}

static ms_table table_of(const char *align, const char *const *cells, size_t n)
{
    ms_table t = { .align = align };
    for (size_t i = 0; i < n; i++)
        ms_table_add(&t, "%s", cells[i]);
    return t;
}
#define TABLE(align, ...)                                 \
    table_of(align, (const char *const[]){ __VA_ARGS__ }, \
             COUNT(((const char *const[]){ __VA_ARGS__ })))

static ms_table example(void)
{
    return TABLE("lr", "name", "loss", "a,b", "3.25", "<i> & \"q\" | 'p'", "");
}

TEST(every_form_quotes_special_characters)
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

/* A badge is the word before a colon, unless that is "-".  If a cell holds a sentence, the rows can
 * be stacked, with the names of their columns. */
TEST(html_marks_badges_and_stacks_rows_with_sentences)
{
    char     sentence[200];
    ms_table t =
        TABLE("lb", "run", "status", "a", "diverged: loss <i>", "b", "does not hold", "c", "-");

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

    memset(sentence, 'w', sizeof sentence);
    sentence[sizeof sentence - 1] = '\0';
    t                             = TABLE("l", "a \"name\"", sentence);
    char *text                    = written(ms_html_table, &t);
    CHECK(strstr(text, "<table class=\"stack\">") != NULL, "%s", text);
    CHECK(strstr(text, "<td data-name=\"a &quot;name&quot;\">www") != NULL, "%s", text);
    free(text);
    ms_table_free(&t);
}

TEST(newlines_stay_in_their_cell)
{
    ms_table t = TABLE("l", "head", "two\nlines");

    expect(ms_table_csv, &t, "head\r\n\"two\nlines\"\r\n");
    expect(ms_table_markdown, &t, "| head |\n|---|\n| two lines |\n");
    ms_table_free(&t);
}

/* A file's name may be in Latin-1, but the CSV is always UTF-8. */
TEST(csv_is_utf8)
{
    ms_table t = TABLE("l", "gr\xfc\xdf, é");

    expect(ms_table_csv, &t, "\"gr\xef\xbf\xbd\xef\xbf\xbd, é\"\r\n");
    ms_table_free(&t);
}

/* CSV has numbers with all their digits, an empty field for a missing number, and "1 of 3" as two
 * fields. */
TEST(csv_has_exact_numbers)
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

TEST(columns_are_as_wide_as_their_characters_not_bytes)
{
    ms_table t = TABLE("lr", "σ1", "lr·D", "abc", "1");

    expect(ms_table_print, &t, "σ1   lr·D\nabc     1\n");
    ms_table_free(&t);
}

TEST(invalid_bytes_and_controls_are_replaced_in_html)
{
    char  *text  = NULL;
    size_t bytes = 0;
    FILE  *to    = open_memstream(&text, &bytes);

    ms_html_text("\xcf\x83 \xff\x01\x7f\xc2\x85.", to);
    fclose(to);
    CHECK(strcmp(text, "\xcf\x83 \xef\xbf\xbd   .") == 0, "'%s'", text);
    free(text);
}

TEST(a_table_that_ran_out_of_memory_is_not_written)
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
