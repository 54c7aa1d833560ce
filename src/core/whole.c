/* whole.c - digits, a point and an exponent to a whole number, exactly. */
#include "core/whole.h"

#include <stdbool.h>
#include <string.h>

enum { FAR = 1000000 }; /* exponents are cut off here: no type holds such a number */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Reads the exponent after 'e', at most about FAR in size; false if there is none. */
static bool read_exponent(const char *text, long *out)
{
    const bool minus = text[0] == '-';
    long       value = 0;

    text += minus || text[0] == '+';
    if (!is_digit(*text)) return false;
    for (; is_digit(*text); text++)
        if (value < FAR) value = 10 * value + (*text - '0');
    *out = minus ? -value : value;
    return *text == '\0';
}

/* value <- 10 value + digit; false if that is too large. */
static bool append(uint64_t *value, unsigned digit)
{
    if (*value > (UINT64_MAX - digit) / 10) return false;
    *value = 10 * *value + digit;
    return true;
}

/* Reads the magnitude of the number. */
static ms_whole read_size(const char *text, uint64_t *out)
{
    const char *end = text + strspn(text, "0123456789."), *point = strchr(text, '.');
    long        exponent = 0;
    uint64_t    value    = 0;
    const char *last; /* after the last digit that is not 0 */

    if (!is_digit(text[0]) || (point != NULL && strchr(point + 1, '.') != NULL))
        return MS_WHOLE_NONE;
    if (*end != '\0' && ((*end != 'e' && *end != 'E') || !read_exponent(end + 1, &exponent)))
        return MS_WHOLE_NONE;
    for (last = end; last > text && (last[-1] == '0' || last[-1] == '.'); last--) {}
    if (last == text) { /* zero, whatever the exponent */
        *out = 0;
        return MS_WHOLE_READ;
    }
    if (point == NULL || point > end) point = end;
    exponent += last > point ? -(long)(last - point - 1) : (long)(point - last);
    if (exponent < 0) return MS_WHOLE_NONE;
    for (const char *c = text; c < last; c++)
        if (is_digit(*c) && !append(&value, (unsigned)(*c - '0'))) return MS_WHOLE_RANGE;
    for (; exponent > 0; exponent--)
        if (!append(&value, 0)) return MS_WHOLE_RANGE;
    *out = value;
    return MS_WHOLE_READ;
}

ms_whole ms_whole_u64(const char *text, uint64_t *out)
{
    const bool     minus = text[0] == '-';
    uint64_t       value = 0;
    const ms_whole found = read_size(text + (minus || text[0] == '+'), &value);

    if (found != MS_WHOLE_READ) return found;
    if (minus && value != 0) return MS_WHOLE_RANGE;
    *out = value;
    return MS_WHOLE_READ;
}

ms_whole ms_whole_i64(const char *text, int64_t *out)
{
    const bool     minus = text[0] == '-';
    const uint64_t max   = (uint64_t)INT64_MAX + minus;
    uint64_t       value = 0;
    const ms_whole found = read_size(text + (minus || text[0] == '+'), &value);

    if (found != MS_WHOLE_READ) return found;
    if (value > max) return MS_WHOLE_RANGE;
    *out = minus && value > 0 ? -(int64_t)(value - 1) - 1 : (int64_t)value;
    return MS_WHOLE_READ;
}
