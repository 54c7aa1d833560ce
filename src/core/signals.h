/* signals.h - requests to stop, for commands that run long.
 *
 * After ms_stop_catch, the first SIGINT or SIGTERM prints the answer and sets the flag, so that the
 * work can be brought to a good end; a second one, a quarter of a second later or more, ends the
 * program at once.  SIGHUP only sets the flag, however often it comes: when a terminal is closed,
 * both the terminal and the shell send one.  Where it is ignored (nohup), it stays ignored.  A file
 * over the size limit becomes a write that fails, with a message. */
#ifndef MS_CORE_SIGNALS_H
#define MS_CORE_SIGNALS_H

#include <signal.h>

void ms_stop_catch(const char *text); /* the text as for ms_stop_answer */
/* Sets the line that the handler of the first signal writes to stderr, without newline; or NULL. */
void                         ms_stop_answer(const char *text);
const volatile sig_atomic_t *ms_stop_flag(void);   /* the signal that came, or 0 */
double                       ms_stop_age_ms(void); /* since then; -1 if none came */
/* The exit status of a command: 128 + the signal if it was asked to stop, as in a shell, else
 * `otherwise`. */
int ms_stop_code(int otherwise);

#endif
