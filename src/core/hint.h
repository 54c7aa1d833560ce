/* hint.h - what an error says behind a name that does not exist: which one was probably meant, and
 * which ones there are.  All texts begin with "; ", or are empty. */
#ifndef MS_CORE_HINT_H
#define MS_CORE_HINT_H

#include "core/status.h"

enum { MS_HINT_TEXT = 512 };

/* `; did you mean "muon"?`, or "" where no name is near. */
void ms_hint_near(const char *name, const char *const *names, size_t n, char text[MS_HINT_TEXT]);
/* The same, or "; it must be one of muon, sgdm, ..." where no name is near. */
void ms_hint_name(const char *name, const char *const *names, size_t n, char text[MS_HINT_TEXT]);
/* `; it must be one of hard|soft; did you mean "soft"?` of choices that are written so. */
void ms_hint_choice(const char *value, const char *choices, char text[MS_HINT_TEXT]);

#endif
