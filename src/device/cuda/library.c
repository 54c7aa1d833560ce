/* library.c - CUDA's libraries: opening them at their first use, and preloading. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/thread.h"
#include "device/cuda/cuda.h"

enum { SAID = 512 };

/* Where installers put libraries without telling the dynamic loader. */
static const char *const places[] = { "",
                                      "/usr/local/cuda/lib64/",
                                      "/usr/local/cuda/lib/",
                                      "/opt/cuda/lib64/",
                                      "/usr/lib/x86_64-linux-gnu/",
                                      "/usr/lib/aarch64-linux-gnu/" };

/* What the loader says has no code but words.  Is it memory?  `there`: the file is there, so if it
 * is not found, there was no memory for its name. */
static bool is_memory(const char *said, bool there)
{
    return strstr(said, strerror(ENOMEM)) != NULL || strstr(said, "cannot create") != NULL ||
           strstr(said, " map ") != NULL || (there && strstr(said, strerror(ENOENT)) != NULL);
}

/* What the process has loaded comes first, the newest of it: PyTorch brings libraries of its own,
 * and a second version of one would be hundreds of megabytes more.  Returns NULL where none is
 * found, and where one is there but the memory for it is not: then `said` is what the loader says,
 * for another version would not give the same bits. */
static void *open_first(const char *const *names, char said[SAID])
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
            if (!is_memory(words, places[i][0] != '\0' && strncmp(words, path, strlen(path)) == 0))
                continue;
            snprintf(said, SAID, "%s", words);
            return NULL;
        }
    return library;
}

musec_status ms_cuda_library_open(ms_error *e, const char *purpose, const char *const *names,
                                  const ms_cuda_symbol *symbols, size_t n_symbols, void **out)
{
    char  said[SAID];
    void *library = open_first(names, said);
    *out          = NULL;
    if (said[0] != '\0')
        return ms_fail(e, MUSEC_ENOMEM, "%s cannot be opened for want of memory: %s", names[0],
                       said);
    if (library == NULL)
        return ms_fail(e, MUSEC_EDEVICE,
                       "%s is missing: it is needed for %s; install CUDA's libraries, or put their "
                       "directory into LD_LIBRARY_PATH",
                       names[0], purpose);
    for (size_t i = 0; i < n_symbols; i++) {
        void *found = dlsym(library, symbols[i].name);
        if (found == NULL) {
            dlclose(library);
            return ms_fail(e, MUSEC_EDEVICE, "%s has no %s, which is needed for %s: it is too old",
                           names[0], symbols[i].name, purpose);
        }
        memcpy(symbols[i].to, &found, sizeof found);
    }
    *out = library;
    return MUSEC_OK;
}

void ms_cuda_library_close(void *library)
{
    if (library != NULL) dlclose(library);
}

/* ---- preloading ------------------------------------------------------------------------------ */

/* It stays open until the program ends. */
static const char *const preloaded[] = { "libcublasLt.so.13", "libcublasLt.so.12", NULL };

static void *preload(void *arg)
{
    char said[SAID];
    (void)arg;
    (void)open_first(preloaded, said); /* who needs it opens it again, and says why not */
    return NULL;
}

void ms_cuda_library_preload(ms_cuda *c)
{
    c->is_preloading = ms_thread_start(&c->preloader, preload, NULL) == 0;
}

void ms_cuda_library_preload_join(ms_cuda *c)
{
    if (c->is_preloading) pthread_join(c->preloader, NULL);
    c->is_preloading = false;
}
