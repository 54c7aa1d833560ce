/* log.c - lines, and one progress line or block of them, on a stream.
 *
 * A line is put together first and written in one piece, so that the lines of several processes
 * that share a terminal do not mix.  The progress line is cut to the terminal's width: a line that
 * wraps cannot be redrawn with a carriage return.  A block is cut to its height as well: the cursor
 * cannot go up to a line that has left the screen. */
#define _POSIX_C_SOURCE 200809L
#include "core/log.h"

#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/text.h"

#define LINE_MAX_BYTES 4096
#define WIDTH_DEFAULT  80
#define HEIGHT_DEFAULT 24

ms_log ms_log_open(FILE *to, ms_log_level level)
{
    const int fd = fileno(to); /* -1 for a stream in memory */
    return (ms_log){ .to = to, .level = level, .live = fd >= 0 && isatty(fd) };
}

typedef struct extent {
    size_t width, height;
} extent;

static extent terminal_extent(FILE *to)
{
#ifdef TIOCGWINSZ /* not in POSIX, but on every system with a terminal */
    struct winsize size = { 0 };
    if (ioctl(fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 1)
        return (extent){ size.ws_col, size.ws_row };
#else
    (void)to;
#endif
    return (extent){ WIDTH_DEFAULT, HEIGHT_DEFAULT };
}

/* Cuts `text` to `columns`, counting a UTF-8 character as one and never splitting it. */
static void cut_to(char *text, size_t columns)
{
    for (char *c = text; *c != '\0'; c++) {
        if (((unsigned char)*c & 0xC0) == 0x80) continue; /* inside a character */
        if (columns == 0) {
            *c = '\0';
            return;
        }
        columns--;
    }
}

static void erase_block(ms_log *log)
{
    if (log->lines > 0) fprintf(log->to, "\033[%dA\r\033[J", log->lines); /* up, erase below */
    log->lines = 0;
}

void ms_log_say(ms_log *log, ms_log_level level, const char *fmt, ...)
{
    char    line[LINE_MAX_BYTES];
    va_list args;

    if (level > log->level) return;
    erase_block(log);
    ms_log_end(log);
    va_start(args, fmt);
    if (vsnprintf(line, sizeof line - 1, fmt, args) < 0) line[0] = '\0'; /* - 1 for the newline */
    va_end(args);
    memcpy(ms_text_printable(line) + strlen(line), "\n", 2);
    fputs(line, log->to); /* a failure of stderr cannot be reported */
    fflush(log->to);
}

void ms_log_progress(ms_log *log, const char *fmt, ...)
{
    char    line[LINE_MAX_BYTES];
    va_list args;

    if (!log->live || log->level < MS_LOG_NORMAL) return;
    va_start(args, fmt);
    if (vsnprintf(line, sizeof line, fmt, args) < 0) line[0] = '\0';
    va_end(args);
    cut_to(ms_text_printable(line),
           terminal_extent(log->to).width - 1); /* some terminals wrap after the last column */
    fprintf(log->to, "\r%s\033[K", line);       /* ESC [ K erases the rest of a longer line */
    fflush(log->to);
    log->dangling = 1;
}

void ms_log_block(ms_log *log, const char *text)
{
    const extent screen = terminal_extent(log->to);
    int          n      = 0;

    if (!log->live || log->level < MS_LOG_NORMAL) return;
    ms_log_end(log);
    if (log->lines > 0) fprintf(log->to, "\033[%dA", log->lines);
    while (*text != '\0' && n + 1 < (int)screen.height) {
        char         line[LINE_MAX_BYTES];
        const size_t bytes = strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", (int)bytes, text);
        cut_to(ms_text_printable(line), screen.width - 1);
        fprintf(log->to, "\r%s\033[K\n", line);
        text += bytes + (text[bytes] == '\n');
        n++;
    }
    fputs("\033[J", log->to); /* erases the rest of a longer block */
    fflush(log->to);
    log->lines = n;
}

void ms_log_end(ms_log *log)
{
    if (!log->dangling) return;
    fputc('\n', log->to);
    fflush(log->to);
    log->dangling = 0;
}
