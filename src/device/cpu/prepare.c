/* prepare.c - runs the program again with better OpenBLAS kernels, see prepare.h. */
#define _POSIX_C_SOURCE 200809L
#include "device/cpu/prepare.h"

#if defined(MS_HAVE_OPENBLAS) && defined(__x86_64__) && defined(__GNUC__) && defined(__linux__)

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/status.h"

char *openblas_get_corename(void); /* not in every cblas.h */

/* The best kernels that every OpenBLAS since 0.3.8 has for what the processor can do. */
static const char *wanted_core(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return "SkylakeX";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
    return NULL;
}

void ms_device_cpu_prepare(char **argv)
{
    static const char *const old_cores[] = { "Prescott", "Core2",   "Penryn",      "Dunnington",
                                             "Nehalem",  "Generic", "Sandybridge", "Atom",
                                             "Unknown",  "Katmai",  "Northwood",   "Banias" };
    const char              *core = openblas_get_corename(), *want = wanted_core();
    bool                     old = false;
    for (size_t i = 0; i < COUNT(old_cores); i++)
        old = old || strcmp(core, old_cores[i]) == 0;
    if (!old || want == NULL || getenv("OPENBLAS_CORETYPE") != NULL) return;
    if (setenv("OPENBLAS_CORETYPE", want, 1) == 0) execv("/proc/self/exe", argv);
    /* If exec fails, the program is slower, but correct. */
}

#else

void ms_device_cpu_prepare(char **argv) { (void)argv; }

#endif
