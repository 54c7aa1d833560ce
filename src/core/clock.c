/* clock.c - POSIX's monotonic clock: settings of the date do not move it. */
#define _POSIX_C_SOURCE 200809L
#include "core/clock.h"

#include <time.h>

double ms_clock_ms(void)
{
    struct timespec now = { 0 };
    clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail with this clock and a valid pointer */
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

void ms_clock_pause_us(long us)
{
    const struct timespec time = { us / 1000000, us % 1000000 * 1000 };
    (void)nanosleep(&time, NULL);
}
