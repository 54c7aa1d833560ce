/* signals.h - being asked to stop, for commands that run long.
 *
 * After ms_stop_catch, the first SIGINT or SIGTERM sets the flag, so that what is at hand can be
 * finished and kept, and is answered at once; a second one, a quarter of a second later or more,
 * ends the program at once.  SIGHUP sets the flag too, any number of them: of a terminal that is
 * closed both the terminal and the shell send one.  Where it is ignored (nohup) it stays so.  A
 * file over the size limit becomes a write that fails, with a message. */
#ifndef MS_CORE_SIGNALS_H
#define MS_CORE_SIGNALS_H

#include <signal.h>

void ms_stop_catch(const char *text); /* as ms_stop_answer */
/* What the handler of the first signal writes to stderr, a line without its end; NULL: nothing. */
void                         ms_stop_answer(const char *text);
const volatile sig_atomic_t *ms_stop_flag(void);   /* not 0: the signal that asked */
double                       ms_stop_age_ms(void); /* since then; below 0: none has */
/* The exit status of a command that was asked to stop before its end: 128 + the signal, as a shell
 * has it.  otherwise: that of one that was not. */
int ms_stop_code(int otherwise);

#endif
