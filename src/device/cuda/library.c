/* library.c - CUDA's libraries: opening them at their first use, and preloading. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <string.h>

#include "core/library.h"
#include "core/thread.h"
#include "device/cuda/cuda.h"

musec_status ms_cuda_library_open(ms_error *e, const char *purpose, const char *const *names,
                                  const ms_cuda_symbol *symbols, size_t n_symbols, void **out)
{
    char  said[MS_LIBRARY_SAID];
    void *library = ms_library_open_first(names, said);
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
    char said[MS_LIBRARY_SAID];
    (void)arg;
    (void)ms_library_open_first(preloaded, said); /* who needs it opens it again */
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
