/* library.c - CUDA's libraries: opening them at their first use, and preloading. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "core/thread.h"
#include "device/cuda/cuda.h"

/* Where installers put libraries without telling the dynamic loader. */
static const char *const places[] = { "",
                                      "/usr/local/cuda/lib64/",
                                      "/usr/local/cuda/lib/",
                                      "/opt/cuda/lib64/",
                                      "/usr/lib/x86_64-linux-gnu/",
                                      "/usr/lib/aarch64-linux-gnu/" };

/* What the process has loaded comes first, the newest of it: PyTorch brings libraries of its own,
 * and a second version of one would be hundreds of megabytes more. */
static void *open_first(const char *const *names)
{
    char  path[512];
    void *library = NULL;
    for (size_t n = 0; names[n] != NULL && library == NULL; n++)
        library = dlopen(names[n], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    for (size_t n = 0; names[n] != NULL && library == NULL; n++)
        for (size_t i = 0; i < COUNT(places) && library == NULL; i++) {
            snprintf(path, sizeof path, "%s%s", places[i], names[n]);
            library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        }
    return library;
}

musec_status ms_cuda_library_open(ms_error *e, const char *purpose, const char *const *names,
                                  const ms_cuda_symbol *symbols, size_t n_symbols, void **out)
{
    void *library = open_first(names);
    *out          = NULL;
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
    for (size_t i = 0; i < n; i++)
        (void)open_first(preloaded[i]);
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
