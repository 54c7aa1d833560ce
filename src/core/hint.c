/* hint.c - the nearest name, or a list of all names. */
#include "core/hint.h"

#include <stdio.h>
#include <string.h>

#include "core/names.h"

enum { MOST_CHOICES = 16, MOST_BYTES = 256 };

void ms_hint_near(const char *name, const char *const *names, size_t n, char text[MS_HINT_TEXT])
{
    const char *near = ms_name_nearest(name, names, n);
    text[0]          = '\0';
    if (near != NULL) snprintf(text, MS_HINT_TEXT, "; did you mean \"%s\"?", near);
}

void ms_hint_name(const char *name, const char *const *names, size_t n, char text[MS_HINT_TEXT])
{
    size_t used;

    ms_hint_near(name, names, n, text);
    if (text[0] != '\0') return;
    used = (size_t)snprintf(text, MS_HINT_TEXT, "; it must be one of ");
    for (size_t i = 0; i < n && used < MS_HINT_TEXT; i++)
        used += (size_t)snprintf(text + used, MS_HINT_TEXT - used, "%s%s", i == 0 ? "" : ", ",
                                 names[i]);
}

void ms_hint_choice(const char *value, const char *choices, char text[MS_HINT_TEXT])
{
    const char *names[MOST_CHOICES];
    char        own[MOST_BYTES], near[MS_HINT_TEXT];
    size_t      n = 0;

    snprintf(own, sizeof own, "%s", choices);
    for (char *at = own; at != NULL && n < MOST_CHOICES;) {
        char *bar  = strchr(at, '|');
        names[n++] = at;
        if (bar != NULL) *bar = '\0';
        at = bar == NULL ? NULL : bar + 1;
    }
    ms_hint_near(value, names, n, near);
    snprintf(text, MS_HINT_TEXT, "; it must be one of %.256s%.200s", choices, near);
}
