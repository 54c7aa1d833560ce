/* memory.h - how much memory this process can have. */
#ifndef MS_CORE_MEMORY_H
#define MS_CORE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ms_memory { /* bytes; 0: not known */
    uint64_t available;    /* without swapping, now */
    uint64_t total;        /* all there is, swap included */
} ms_memory;

/* Measures the memory of the machine, or of the control group that the process is in (a container),
 * whichever is less.  It is known on Linux only. */
ms_memory ms_memory_here(void);

/* Reads the line "Name:   123 kB" of /proc/meminfo; returns false if there is none. */
bool ms_memory_line(const char *meminfo, const char *name, uint64_t *bytes);

#endif
