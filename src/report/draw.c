/* draw.c - gnuplot, run once for all figures.
 *
 * The script and what gnuplot writes lie in a directory of their own that is gone afterwards, also
 * after a failure.  SVG is read back and made fit for a page; a PNG is copied under its name once
 * it is whole. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "report/draw.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/directory.h"
#include "core/file.h"
#include "core/process.h"
#include "report/script.h"

enum { NAME_BYTES = 64, MAX_DRAWN = 256 << 20 }; /* bytes of a name, of a picture */

static musec_status missing(ms_error *e)
{
    return ms_fail(e, MUSEC_ENOTSUP,
                   "there is no gnuplot to draw with: install it (Debian, Ubuntu: apt-get install "
                   "gnuplot-nox; elsewhere the package is called gnuplot)");
}

musec_status ms_draw_ready(ms_error *e)
{
    static const char *const argv[] = { "gnuplot", "--version", NULL };
    return ms_process_run(argv, "/dev/null", "/dev/null") == 0 ? MUSEC_OK : missing(e);
}

/* ---- the directory --------------------------------------------------------------------------- */

static musec_status workshop_make(ms_error *e, char dir[MS_PATH_MAX])
{
    const char  *base = getenv("TMPDIR");
    const int    n    = snprintf(dir, MS_PATH_MAX, "%s/musec-plots-XXXXXX",
                           base != NULL && base[0] != '\0' ? base : "/tmp");
    musec_status st   = MUSEC_OK;

    if (n >= MS_PATH_MAX)
        st = ms_fail(e, MUSEC_EIO, "%.200s...: the path of TMPDIR is too long", base);
    else if (mkdtemp(dir) == NULL)
        st = ms_fail(e, MUSEC_EIO,
                     "%s: cannot make a directory for plots (%s); TMPDIR names another place", dir,
                     strerror(errno));
    if (st != MUSEC_OK) dir[0] = '\0';
    return st;
}

static void workshop_remove(const char *dir)
{
    ms_names names = { 0 };
    ms_error ignored;
    char     path[MS_PATH_MAX];

    if (dir[0] == '\0') return;
    ms_directory_names(&ignored, dir, &names);
    for (size_t i = 0; i < names.n; i++)
        if (ms_path_join(&ignored, dir, names.at[i], path) == MUSEC_OK) remove(path);
    ms_names_free(&names);
    rmdir(dir);
}

/* All bytes of a file there and a NUL, to be freed; none is an error. */
static musec_status read_whole(ms_error *e, const char *dir, const char *name, char **text,
                               size_t *bytes)
{
    char         path[MS_PATH_MAX];
    musec_status st;

    *text = NULL;
    TRY(ms_path_join(e, dir, name, path));
    TRY(ms_file_text(e, path, MAX_DRAWN, text, bytes));
    if (*bytes > 0) return MUSEC_OK;
    free(*text);
    *text = NULL;
    st    = ms_fail(e, MUSEC_EIO, "gnuplot wrote nothing into %s", path);
done:
    return st;
}

/* ---- gnuplot --------------------------------------------------------------------------------- */

/* The first line of what it complained of. */
static void complaint(const char *dir, char *line, size_t room)
{
    ms_error ignored;
    char    *text  = NULL;
    size_t   bytes = 0, n = 0;

    line[0] = '\0';
    if (read_whole(&ignored, dir, "words", &text, &bytes) != MUSEC_OK) return;
    for (size_t i = strspn(text, " \t\r\n"); i < bytes && text[i] != '\n' && n + 1 < room; i++)
        line[n++] = text[i];
    line[n] = '\0';
    free(text);
}

static musec_status run_gnuplot(ms_error *e, const char *dir)
{
    char         script[MS_PATH_MAX], words[MS_PATH_MAX], line[300];
    int          code;
    musec_status st;

    TRY(ms_path_join(e, dir, "script", script));
    TRY(ms_path_join(e, dir, "words", words));
    code = ms_process_run((const char *const[]){ "gnuplot", "--default-settings", script, NULL },
                          "/dev/null", words);
    if (code == MS_NOT_RUN) return missing(e);
    if (code == MS_KILLED) return ms_fail(e, MUSEC_EIO, "gnuplot was interrupted");
    if (code == 0) return MUSEC_OK;
    complaint(dir, line, sizeof line);
    st = ms_fail(e, MUSEC_EIO, "gnuplot could not draw (exit %d): %s", code, line);
done:
    return st;
}

static musec_status write_script(ms_error *e, const char *dir, const ms_plans *plans, size_t n,
                                 bool svg, bool png)
{
    char         path[MS_PATH_MAX];
    FILE        *f = NULL;
    bool         wrong;
    musec_status st;

    TRY(ms_path_join(e, dir, "script", path));
    f = fopen(path, "w");
    if (f == NULL) {
        st = ms_fail(e, MUSEC_EIO, "%s: cannot create (%s)", path, strerror(errno));
        goto done;
    }
    fputs("set encoding utf8\ncd ", f);
    ms_script_quote(dir, f);
    putc('\n', f);
    for (size_t i = 0; i < n; i++) {
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "f%zu", i);
        ms_script_data(&plans[i], name, f);
        if (svg) ms_script_svg(&plans[i], name, f);
        if (png && plans[i].figure->n > 0) ms_script_png(&plans[i], name, f);
    }
    wrong = ferror(f) != 0;
    wrong = fclose(f) != 0 || wrong;
    if (wrong) st = ms_fail(e, MUSEC_EIO, "%s: cannot write (%s)", path, strerror(errno));
done:
    return st;
}

/* ---- what it made ---------------------------------------------------------------------------- */

static musec_status take_panel(ms_error *e, const char *dir, size_t figure, const ms_plans *plans,
                               size_t panel, bool wide, char **out)
{
    char         name[NAME_BYTES];
    char        *text  = NULL;
    size_t       bytes = 0;
    musec_status st;

    snprintf(name, sizeof name, "f%zu-%zu%s.svg", figure, panel, wide ? "w" : "");
    TRY(read_whole(e, dir, name, &text, &bytes));
    TRY(ms_svg_finish(e, text, &plans->at[panel], ms_frame_svg(plans, wide), out));
done:
    free(text);
    return st;
}

static musec_status take_svg(ms_error *e, const char *dir, size_t figure, const ms_plans *plans,
                             ms_drawing *out)
{
    const size_t n  = plans->figure->n;
    musec_status st = MUSEC_OK;

    if (n == 0) return MUSEC_OK;
    out->svg = calloc(n, sizeof *out->svg);
    if (out->svg == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory for the plots");
    out->n = n;
    for (size_t i = 0; i < n; i++)
        TRY(take_panel(e, dir, figure, plans, i, false, &out->svg[i]));
    if (n == 1) TRY(take_panel(e, dir, figure, plans, 0, true, &out->wide));
done:
    return st;
}

static musec_status take_png(ms_error *e, const char *dir, size_t figure, const char *id,
                             const char *png_dir)
{
    char         name[NAME_BYTES], file[MS_PATH_MAX], path[MS_PATH_MAX];
    char        *bytes = NULL;
    size_t       n     = 0;
    ms_out_file *out   = calloc(1, sizeof *out);
    musec_status st;

    if (out == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory for the plots");
    snprintf(name, sizeof name, "f%zu.png", figure);
    snprintf(file, sizeof file, "%s.png", id);
    TRY(read_whole(e, dir, name, &bytes, &n));
    TRY(ms_path_join(e, png_dir, file, path));
    TRY(ms_out_open(e, path, out));
    TRY(ms_out_write(e, out, bytes, n));
    TRY(ms_out_commit(e, out));
done:
    ms_out_abandon(out);
    free(out);
    free(bytes);
    return st;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void plans_free(ms_plans *plans, size_t n)
{
    for (size_t i = 0; plans != NULL && i < n; i++) {
        for (size_t k = 0; plans[i].at != NULL && k < plans[i].figure->n; k++)
            ms_plan_free(&plans[i].at[k]);
        free(plans[i].at);
    }
    free(plans);
}

static musec_status make_plans(ms_error *e, const ms_figure *figures, size_t n, ms_plans *plans)
{
    musec_status st = MUSEC_OK;

    for (size_t i = 0; i < n; i++) {
        plans[i].figure = &figures[i];
        plans[i].at     = calloc(figures[i].n + 1, sizeof *plans[i].at);
        if (figures[i].lost || plans[i].at == NULL)
            return ms_fail(e, MUSEC_ENOMEM, "not enough memory for the figure %s",
                           figures[i].id == NULL ? "" : figures[i].id);
        for (size_t k = 0; k < figures[i].n; k++)
            TRY(ms_plan_make(e, &figures[i].panels[k], &plans[i].at[k]));
    }
done:
    return st;
}

musec_status ms_draw(ms_error *e, const ms_figure *figures, size_t n, ms_drawing *drawings,
                     const char *png_dir)
{
    char         dir[MS_PATH_MAX] = "";
    ms_plans    *plans            = NULL;
    musec_status st               = MUSEC_OK;

    for (size_t i = 0; drawings != NULL && i < n; i++)
        drawings[i] = (ms_drawing){ 0 };
    if (n == 0) return MUSEC_OK;
    plans = calloc(n, sizeof *plans);
    if (plans == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory for the plots");
    TRY(make_plans(e, figures, n, plans));
    if (png_dir != NULL) TRY(ms_directory_make(e, png_dir));
    TRY(workshop_make(e, dir));
    TRY(write_script(e, dir, plans, n, drawings != NULL, png_dir != NULL));
    TRY(run_gnuplot(e, dir));
    for (size_t i = 0; drawings != NULL && i < n; i++)
        TRY(take_svg(e, dir, i, &plans[i], &drawings[i]));
    for (size_t i = 0; png_dir != NULL && i < n; i++)
        if (figures[i].n > 0) TRY(take_png(e, dir, i, figures[i].id, png_dir));
done:
    workshop_remove(dir);
    plans_free(plans, n);
    for (size_t i = 0; st != MUSEC_OK && drawings != NULL && i < n; i++)
        ms_drawing_free(&drawings[i]);
    return st;
}

void ms_drawing_free(ms_drawing *d)
{
    for (size_t i = 0; i < d->n; i++)
        free(d->svg[i]);
    free(d->svg);
    free(d->wide);
    *d = (ms_drawing){ 0 };
}
