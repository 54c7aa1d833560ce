/* png.c - figures to PNG files.
 *
 * The SVG of a figure and the unfinished picture are temporary files beside the final one, which
 * are removed afterwards, also after a failure. */
#include "report/png.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/directory.h"
#include "core/file.h"
#include "core/process.h"
#include "report/svg.h"

static musec_status missing(ms_error *e)
{
    return ms_fail(e, MUSEC_ENOTSUP,
                   "PNG files need rsvg-convert, which is not installed: install the package "
                   "librsvg2-bin (Debian, Ubuntu), librsvg2-tools (Fedora) or librsvg (Arch, "
                   "macOS)");
}

musec_status ms_png_ready(ms_error *e)
{
    static const char *const argv[] = { "rsvg-convert", "--version", NULL };
    const int                code   = ms_process_run(argv, "/dev/null", "/dev/null");
    if (code == MS_NO_MEMORY) return ms_no_memory(e, "rsvg-convert");
    return code == 0 ? MUSEC_OK : missing(e);
}

static musec_status write_svg(ms_error *e, const ms_figure *figure, const char *path)
{
    ms_figure_layout layout = { 0 };
    FILE            *f      = NULL;
    bool             failed;
    musec_status     st;

    TRY(ms_figure_layout_make(e, figure, &layout));
    f = fopen(path, "w");
    if (f == NULL) {
        st = ms_fail(e, MUSEC_EIO, "%s: cannot create (%s)", path, strerror(errno));
        goto done;
    }
    ms_svg_figure(&layout, f);
    failed = ferror(f) != 0;
    failed = fclose(f) != 0 || failed;
    if (failed) st = ms_fail(e, MUSEC_EIO, "%s: cannot write (%s)", path, strerror(errno));
done:
    ms_figure_layout_free(&layout);
    return st;
}

static musec_status convert(ms_error *e, const char *svg, const char *png)
{
    const char *const argv[] = { "rsvg-convert", "--output", png, svg, NULL };
    const int         code   = ms_process_run(argv, NULL, NULL);

    if (code == MS_NO_MEMORY) return ms_no_memory(e, "rsvg-convert");
    if (code == MS_NOT_RUN) return missing(e);
    if (code == MS_KILLED) return ms_fail(e, MUSEC_EIO, "rsvg-convert was interrupted");
    if (code != 0)
        return ms_fail(e, MUSEC_EIO, "rsvg-convert could not write %s (exit %d)", png, code);
    return MUSEC_OK;
}

/* On a full disk rsvg-convert may write a part of a picture and succeed: the last chunk of a whole
 * one is IEND, with its checksum. */
static musec_status check_end(ms_error *e, const char *png)
{
    static const unsigned char want[12] = {
        0, 0, 0, 0, 'I', 'E', 'N', 'D', 0xae, 0x42, 0x60, 0x82
    };
    unsigned char end[sizeof want];
    FILE         *f;
    musec_status  st;

    TRY(ms_file_open_read(e, png, &f));
    if (fseek(f, -(long)sizeof end, SEEK_END) != 0 || fread(end, 1, sizeof end, f) != sizeof end ||
        memcmp(end, want, sizeof end) != 0)
        st = ms_fail(e, MUSEC_EIO, "%s: rsvg-convert wrote no whole picture: is the disk full?",
                     png);
    fclose(f);
done:
    return st;
}

musec_status ms_png_write(ms_error *e, const ms_figure *figure, const char *dir)
{
    char         name[128], path[MS_PATH_MAX], svg[MS_PATH_MAX + 16], png[MS_PATH_MAX + 16];
    musec_status st;

    if (figure->n == 0) return MUSEC_OK;
    snprintf(name, sizeof name, "%s.png", figure->id == NULL ? "" : figure->id);
    TRY(ms_directory_make(e, dir));
    TRY(ms_path_join(e, dir, name, path));
    snprintf(svg, sizeof svg, "%s.svg.part", path);
    snprintf(png, sizeof png, "%s.part", path);
    st = write_svg(e, figure, svg);
    if (st == MUSEC_OK) st = convert(e, svg, png);
    if (st == MUSEC_OK) st = check_end(e, png);
    if (st == MUSEC_OK && rename(png, path) != 0)
        st = ms_fail(e, MUSEC_EIO, "%s: cannot write (%s)", path, strerror(errno));
    remove(svg);
    remove(png);
done:
    return st;
}
