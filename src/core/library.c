/* library.c - see library.h. */
#define _POSIX_C_SOURCE 200809L
#include "core/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/status.h"

/* Where installers put libraries without telling the dynamic loader. */
static const char *const places[] = { "",
                                      "/usr/local/cuda/lib64/",
                                      "/usr/local/cuda/lib/",
                                      "/opt/cuda/lib64/",
                                      "/usr/lib/x86_64-linux-gnu/",
                                      "/usr/lib/aarch64-linux-gnu/" };

bool ms_library_is_memory(const char *said, bool there)
{
    return strstr(said, strerror(ENOMEM)) != NULL || strstr(said, "cannot create") != NULL ||
           strstr(said, " map ") != NULL || (there && strstr(said, strerror(ENOENT)) != NULL);
}

/* What the process has loaded comes first, the newest of it: PyTorch brings libraries of its own,
 * and a second version of one would be hundreds of megabytes more. */
void *ms_library_open_first(const char *const *names, char said[MS_LIBRARY_SAID])
{
    char        path[512];
    void       *library = NULL;
    const char *words;
    said[0] = '\0';
    for (size_t n = 0; names[n] != NULL && library == NULL; n++)
        library = dlopen(names[n], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    for (size_t n = 0; names[n] != NULL && library == NULL; n++)
        for (size_t i = 0; i < COUNT(places) && library == NULL; i++) {
            snprintf(path, sizeof path, "%s%s", places[i], names[n]);
            if (places[i][0] != '\0' && access(path, F_OK) != 0) continue;
            library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
            if (library != NULL || (words = dlerror()) == NULL) continue;
            if (!ms_library_is_memory(words, places[i][0] != '\0' &&
                                                 strncmp(words, path, strlen(path)) == 0))
                continue;
            snprintf(said, MS_LIBRARY_SAID, "%s", words);
            return NULL;
        }
    return library;
}
