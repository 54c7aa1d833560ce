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

/* cuBLASLt, then cuDNN, which opens its sublibraries by these names when it makes its first
 * plan.  All stay open until the program ends. */
static const char *const preloaded[][3] = { { "libcublasLt.so.13", "libcublasLt.so.12", NULL },
                                            { "libcudnn.so.9", NULL },
                                            { "libcudnn_graph.so.9", NULL },
                                            { "libcudnn_heuristic.so.9", NULL },
                                            { "libcudnn_engines_runtime_compiled.so.9", NULL },
                                            { "libcudnn_engines_precompiled.so.9", NULL } };

static void *preload(void *arg)
{
    const ms_cuda *c = arg;
    const size_t   n = c->capability == MS_CUDA_CHIP_DNN ? COUNT(preloaded) : 1;
    char           said[MS_LIBRARY_SAID];
    for (size_t i = 0; i < n; i++)
        (void)ms_library_open_first(preloaded[i],
                                    said); /* who needs one opens it again, and says why not */
    return NULL;
}

void ms_cuda_library_preload(ms_cuda *c)
{
    c->is_preloading = ms_thread_start(&c->preloader, preload, c) == 0;
}

void ms_cuda_library_preload_join(ms_cuda *c)
{
    if (c->is_preloading) pthread_join(c->preloader, NULL);
    c->is_preloading = false;
}
