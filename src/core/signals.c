/* signals.c - requests to stop. */
#define _XOPEN_SOURCE 700
#include "core/signals.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"

/* A supervisor may signal a process and also its process group: signals within this time count as
 * one request. */
enum { ONE_REQUEST_MS = 250, ANSWER_BYTES = 128 };

/* Lock-free, since the handler uses them. */
static volatile sig_atomic_t stop_asked;
static atomic_llong          asked_ms;
static const char *_Atomic   answer; /* NULL: none */

static void give_answer(void)
{
    const char *text = atomic_load(&answer);
    if (text == NULL) return;
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text)); /* the handler can do no more */
    (void)ignored;
}

/* The handler, which calls only async-signal-safe functions. */
static void ask_to_stop(int number)
{
    const int       kept = errno;
    const long long now  = (long long)ms_clock_ms();

    if (stop_asked == 0) {
        atomic_store(&asked_ms, now);
        stop_asked = number;
        if (number != SIGHUP) give_answer(); /* its terminal is gone */
    } else if (number != SIGHUP && now - atomic_load(&asked_ms) > ONE_REQUEST_MS) {
        signal(number, SIG_DFL);
        raise(number); /* once this handler has returned */
    }
    errno = kept;
}

void ms_stop_catch(const char *text)
{
    struct sigaction act = { .sa_handler = ask_to_stop }, none = { .sa_handler = SIG_IGN }, before;
    sigemptyset(&act.sa_mask);
    sigemptyset(&none.sa_mask);
    ms_stop_answer(text);
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN) /* nohup's */
        sigaction(SIGHUP, &act, NULL);
    sigaction(SIGXFSZ, &none, NULL);
}

void ms_stop_answer(const char *text)
{
    static char lines[2][ANSWER_BYTES]; /* two, since a handler may be reading one of them */
    static int  next;

    if (text == NULL) {
        atomic_store(&answer, (const char *)NULL);
        return;
    }
    /* on a terminal, after a progress line and ^C */
    snprintf(lines[next], sizeof lines[next], "%s%s\n", isatty(STDERR_FILENO) ? "\n" : "", text);
    atomic_store(&answer, (const char *)lines[next]);
    next = 1 - next;
}

const volatile sig_atomic_t *ms_stop_flag(void) { return &stop_asked; }

double ms_stop_age_ms(void)
{
    return stop_asked == 0 ? -1.0 : ms_clock_ms() - (double)atomic_load(&asked_ms);
}

int ms_stop_code(int otherwise) { return stop_asked == 0 ? otherwise : 128 + (int)stop_asked; }
