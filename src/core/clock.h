/* clock.h - a clock that never runs backwards. */
#ifndef MS_CORE_CLOCK_H
#define MS_CORE_CLOCK_H

/* Returns the milliseconds since some fixed moment. */
double ms_clock_ms(void);

#endif
