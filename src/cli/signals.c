/* signals.c - being asked to stop. */
#define _XOPEN_SOURCE 700 /* SA_RESETHAND */
#include "cli/signals.h"

#include <stddef.h>

static volatile sig_atomic_t stop_asked; /* the one thing that a signal handler can tell */

static void ask_to_stop(int signal_number) { stop_asked = signal_number; }

void ms_stop_catch(void)
{
    struct sigaction act  = { .sa_handler = ask_to_stop, .sa_flags = SA_RESETHAND };
    struct sigaction none = { .sa_handler = SIG_IGN };
    struct sigaction hang = { .sa_handler = ask_to_stop }, before; /* shell and terminal send one */
    sigemptyset(&act.sa_mask);
    sigemptyset(&hang.sa_mask);
    sigemptyset(&none.sa_mask);
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN) /* nohup's */
        sigaction(SIGHUP, &hang, NULL);
    sigaction(SIGXFSZ, &none, NULL);
}

const volatile sig_atomic_t *ms_stop_flag(void) { return &stop_asked; }
