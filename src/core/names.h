/* names.h - which name a wrong one was meant to be: misspelt, cut short, or brought along from
 * another program ("learning-rate", "float32", "gpu"). */
#ifndef MS_CORE_NAMES_H
#define MS_CORE_NAMES_H

#include <stddef.h>
#include <stdint.h>

enum { MS_NAME_HINT = 512 };

/* Returns the one of `names` that `name` is near to, or NULL.  Upper and lower case, and '-' and
 * '_', are alike. */
const char *ms_name_nearest(const char *name, const char *const *names, size_t n);

/* Returns the name that means the same here as `name` does elsewhere ("learning-rate": "lr"), or
 * NULL. */
const char *ms_name_synonym(const char *name);

/* "; did you mean "NAME"?" for the end of a message, or "" where no name is near. */
typedef struct ms_name_hint {
    char text[MS_NAME_HINT];
} ms_name_hint;
ms_name_hint ms_name_hint_of(const char *name, const char *const *names, size_t n);
/* Makes the same hint, or "; it must be one of a, b, c" where no name is near. */
ms_name_hint ms_name_hint_or_all(const char *name, const char *const *names, size_t n);
/* Makes the first kind of hint from the choices "a|b|c". */
ms_name_hint ms_name_hint_choices(const char *name, const char *choices);

/* The index of `value` among the choices "a|b|c", or -1, and the choice of an index: "" where there
 * is none. */
int  ms_choice_index(const char *choices, const char *value);
void ms_choice_text(const char *choices, int64_t index, char *text, size_t bytes);

#endif
