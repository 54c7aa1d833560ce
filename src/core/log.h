/* log.h - messages and progress of the program, on stderr.
 *
 * The library does not use it, for that never prints.  A log is a value that its owner passes
 * on. */
#ifndef MS_CORE_LOG_H
#define MS_CORE_LOG_H

#include <stdio.h>

#include "core/status.h"

typedef enum ms_log_level { MS_LOG_QUIET, MS_LOG_NORMAL, MS_LOG_VERBOSE } ms_log_level;

typedef struct ms_log {
    FILE        *to;       /* usually stderr */
    ms_log_level level;    /* lines above it are dropped */
    int          live;     /* to is a terminal: a progress line may be redrawn in place */
    int          dangling; /* a progress line was printed without its newline */
    int          lines;    /* of the block on the screen */
} ms_log;

ms_log ms_log_open(FILE *to, ms_log_level level);
/* Prints one line, if `level` is not above the log's, and adds the newline. */
void ms_log_say(ms_log *log, ms_log_level level, const char *fmt, ...) MS_PRINTF(3, 4);
/* Redraws one line on a terminal; elsewhere it does nothing.  ms_log_say goes below it. */
void ms_log_progress(ms_log *log, const char *fmt, ...) MS_PRINTF(2, 3);
/* Redraws several lines on a terminal, each with its newline; elsewhere it does nothing.  "" erases
 * them.  ms_log_say prints above the block. */
void ms_log_block(ms_log *log, const char *text);
void ms_log_end(ms_log *log); /* ends a dangling progress line */

#endif
