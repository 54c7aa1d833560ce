/* clock.h - a clock that never runs backwards, and pauses. */
#ifndef MS_CORE_CLOCK_H
#define MS_CORE_CLOCK_H

/* Returns the milliseconds since some fixed moment. */
double ms_clock_ms(void);

/* Waits for so many microseconds, or less if a signal comes. */
void ms_clock_pause_us(long us);

#endif
