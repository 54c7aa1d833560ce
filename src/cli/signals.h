/* signals.h - being asked to stop, for commands that run long.
 *
 * After ms_stop_catch, the first SIGINT or SIGTERM sets the flag, so that what is at hand can be
 * finished and kept; a second one ends the program at once.  SIGHUP sets it too, any number of
 * them: of a terminal that is closed both the terminal and the shell send one.  Where it is
 * ignored (nohup) it stays so.  A file over the size limit becomes a write that fails, with
 * words. */
#ifndef MS_CLI_SIGNALS_H
#define MS_CLI_SIGNALS_H

#include <signal.h>

void                         ms_stop_catch(void);
const volatile sig_atomic_t *ms_stop_flag(void); /* not 0: the signal that asked */

#endif
