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

void ms_text_append(char *text, size_t bytes, const char *fmt, ...)
{
    const size_t used = strlen(text);
    va_list      args;
    va_start(args, fmt);
    (void)vsnprintf(text + used, bytes - used, fmt, args);
    va_end(args);
}

bool ms_text_is_control(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    if (c[0] == 0xc2) return c[1] >= 0x80 && c[1] < 0xa0; /* U+0080 to U+009F */
    return (c[0] < 0x20 && c[0] != '\0') || c[0] == 0x7f;
}

char *ms_text_printable(char *text)
{
    for (char *c = text; *c != '\0'; c++) {
        if (!ms_text_is_control(c)) continue;
        if ((unsigned char)*c == 0xc2) *c++ = ' ';
        *c = '?';
    }
    return text;
}

void ms_text_print(const char *before, const char *text, const char *after, FILE *to)
{
    fputs(before, to);
    for (size_t n; *text != '\0'; text += n) {
        n = ms_text_char(text);
        if (n == 0) n = 1;
        if (ms_text_is_control(text))
            putc('?', to);
        else
            fwrite(text, 1, n, to);
    }
    fputs(after, to);
}

bool ms_text_ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

const char *ms_text_find(const char *text, size_t bytes, const char *part, size_t n)
{
    const char *const end = text + bytes;
    for (const char *at = text; (size_t)(end - at) >= n; at++) {
        at = memchr(at, part[0], (size_t)(end - at) - n + 1);
        if (at == NULL || memcmp(at, part, n) == 0) return at;
    }
    return NULL;
}

size_t ms_text_char(const char *text)
{
    static const uint32_t min_code[] = { 0, 0, 0x80, 0x800,
                                         0x10000 }; /* longer forms are invalid */
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
        if ((s[i] & 0xc0) != 0x80) return 0; /* at the end of the text as well */
        code = code << 6 | (s[i] & 0x3fu);
    }
    return code < min_code[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : n;
}

bool ms_text_is_utf8(const char *text)
{
    for (size_t n; *text != '\0'; text += n) {
        n = ms_text_char(text);
        if (n == 0) return false;
    }
    return true;
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
