/* machine.c - the processor's name, from Linux's /proc/cpuinfo. */
#include "core/machine.h"

#include <stdio.h>

void ms_machine_cpu(char text[MS_MACHINE_TEXT])
{
    char  line[512];
    FILE *f = fopen("/proc/cpuinfo", "r");

    snprintf(text, MS_MACHINE_TEXT, "unknown");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "model name : %255[^\n]", text) == 1) break;
    if (f != NULL) fclose(f);
}
