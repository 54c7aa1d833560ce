/* text.c - text made by printf, ends of names, and characters of UTF-8. */
#include "core/text.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *ms_text_format(const char *fmt, va_list args)
{
    va_list again;
    char   *text;
    int     n;

    va_copy(again, args);
    n    = vsnprintf(NULL, 0, fmt, again);
    text = n < 0 ? NULL : malloc((size_t)n + 1);
    va_end(again);
    if (text != NULL) vsnprintf(text, (size_t)n + 1, fmt, args);
    return text;
}

bool ms_text_ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

size_t ms_text_char(const char *text)
{
    static const uint32_t min_code[] = { 0, 0, 0x80, 0x800, 0x10000 }; /* shorter forms are wrong */
    const unsigned char  *s          = (const unsigned char *)text;
    size_t                n          = 0;
    uint32_t              code;

    if (s[0] < 0x80) return s[0] != '\0';
    if ((s[0] & 0xe0) == 0xc0) n = 2;
    if ((s[0] & 0xf0) == 0xe0) n = 3;
    if ((s[0] & 0xf8) == 0xf0) n = 4;
    if (n == 0) return 0;
    code = s[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0; /* the end of the text as well */
        code = code << 6 | (s[i] & 0x3fu);
    }
    return code < min_code[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : n;
}

size_t ms_text_length(const char *text)
{
    size_t n = 0;
    while (*text != '\0') {
        const size_t bytes = ms_text_char(text);
        text += bytes == 0 ? 1 : bytes;
        n++;
    }
    return n;
}
