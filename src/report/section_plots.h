/* section_plots.h - functions that the sections of a report share: selection of runs, labels,
 * captions, points and curves.  It is private to sections.c and section_*.c.
 *
 * A section builds figures and tables and adds them to the page.  The first of them opens the
 * section, so a section that adds nothing does not appear. */
#ifndef MS_REPORT_SECTION_PLOTS_H
#define MS_REPORT_SECTION_PLOTS_H

#include "report/sections.h"

enum { MS_PLOT_TEXT = 1024, MS_PLOT_ID = 96 };
enum { MS_PLOT_MANY = 3 }; /* with more problems, some sections show one of each preset */

typedef struct ms_section_builder ms_section_builder;
typedef struct ms_section_kind { /* a row of the table of sections */
    const char *id, *title, *shows;
    const char *needs; /* "Needs ...": shown if the section was requested and cannot be made */
    void (*build)(ms_section_builder *b);
} ms_section_kind;

struct ms_section_builder {
    const ms_compare        *c;
    const ms_report_options *options;
    ms_page                 *page;
    const ms_section_kind   *kind;
    ms_section              *section; /* NULL until something was added */
};

/* Opens the section in the page once; NULL without memory, which the page records. */
ms_section *ms_build_section(ms_section_builder *b);
/* Adds a paragraph, like printf. */
#define ms_build_text(b, ...) ms_section_text((b)->page, ms_build_section(b), __VA_ARGS__)
/* Adds a folded paragraph below the last figure or table, which says how it was made. */
#define ms_build_notes(b, ...) ms_section_notes((b)->page, (b)->section, __VA_ARGS__)
/* Both take ownership; false: a figure without panels or a table without rows was dropped. */
bool ms_build_figure(ms_section_builder *b, ms_figure *figure);
bool ms_build_table(ms_section_builder *b, const char *id, const char *caption, ms_table *table);

/* ---- selection ------------------------------------------------------------------------------- */

/* Is the method drawn with others on this problem?  It must have runs there, and not differ from
 * its optimizer in the iteration alone: the sections on iterations show those. */
bool ms_plot_drawn(const ms_compare *c, size_t problem, size_t method);
/* Adds a note if methods are left out for that reason. */
void ms_plot_left_out(ms_section_builder *b);
/* Is this one of the problems that a section of many figures shows? */
bool ms_plot_shown(const ms_compare *c, size_t problem);
/* Counts the drawn methods that were run on the problem at this rate. */
size_t ms_plot_methods_at(const ms_compare *c, size_t problem, double lr);
/* Counts the rates at which the method was run on the problem. */
size_t ms_plot_count_rates(const ms_compare *c, size_t problem, size_t method);
/* Returns the first run of a method on a problem, or NULL. */
const ms_run *ms_plot_run(const ms_compare *c, size_t problem, size_t method);
/* The rate `wanted` if methods were run at it, otherwise the one nearest to it by their ratio, or
 * the largest; rates of two methods or more come before those of one.  0: no run. */
double ms_plot_rate(const ms_compare *c, size_t problem, double wanted, bool or_largest);
/* Selects up to three rates that pass the test: the paper's 0.1, 0.2 and 0.5, then the largest,
 * where methods differ most.  They are ascending. */
enum { MS_PLOT_RATES = 3 };
typedef bool ms_rate_test(const void *of, double lr);
size_t       ms_plot_rates(const ms_compare *c, ms_rate_test *passes, const void *of,
                           double out[MS_PLOT_RATES]);

/* The setting that differs from this one by a factor on the learning rate alone; NULL: not run. */
const ms_setting *ms_plot_at_multiple(const ms_compare *c, const ms_setting *best, double factor);

/* ---- labels ---------------------------------------------------------------------------------- */

/* Writes the id of a figure: "loss-lr", followed by the problem's name where there are several. */
void ms_plot_id(const ms_compare *c, const char *base, size_t problem, char out[MS_PLOT_ID]);
/* Writes a title such as "pico, fineweb: RMS"; where there is one problem, only "RMS". */
void ms_plot_title(const ms_compare *c, size_t problem, const char *what, char out[MS_PLOT_TEXT]);
/* Writes the tooltip of a setting. */
void ms_plot_tip(const char *label, const ms_setting *s, char out[MS_PLOT_TEXT]);
/* Reads the weight decay of the groups QK, VO, MLP; false: the text is none. */
bool ms_plot_decay(const char *text, double out[MS_RUN_GROUPS]);
/* Writes a short form of a weight decay: "0.3", "qk 1.2, vo 1.2, mlp 0.3". */
void ms_plot_decay_text(const char *text, char out[MS_PLOT_TEXT]);
/* Gives the last cell of a table, a weight decay, its columns QK, VO and MLP in CSV. */
#define MS_PLOT_DECAY_NAMES "decay|decay QK,decay VO,decay MLP"
void ms_plot_decay_fields(ms_table *t, const char *text);
/* Adds the cells "3.1234" (or "diverged") and "1 of 3", the runs that diverged: three columns of
 * CSV. */
void        ms_plot_loss_cells(ms_table *t, const ms_setting *s);
const char *ms_plot_group_name(int group);       /* "QK" */
const char *ms_plot_run_name(const ms_run *run); /* its directory's name */

/* ---- points ---------------------------------------------------------------------------------- */

/* The mean of the seeds with their band; diverged if all runs did.  Call ms_panel_symbols() after
 * all points are added: it marks those of which some runs diverged. */
ms_point ms_plot_point(double x, const ms_setting *s);
/* Limits y so that a few high points do not flatten a panel: if one is more than three times as far
 * above the lowest as three quarters of them are, the upper limit is twice as far. */
void ms_plot_limit(ms_figure *f, ms_panel *p);
/* Sets the figure's caption: the text, the meaning of bands, crosses and values above a panel if
 * there are any, and the conditions of the problem (n_problems: of all; c NULL: none). */
void ms_plot_caption(const ms_compare *c, size_t problem, ms_figure *f, const char *fmt, ...)
    MS_PRINTF(4, 5);
/* Adds a point for a setting at its learning rate, with its tooltip; NULL adds none. */
void ms_plot_add(ms_figure *f, ms_curve *curve, const char *label, const ms_setting *s);

/* ---- curves over steps ----------------------------------------------------------------------- */

typedef enum ms_reading {
    MS_READ_LOSS,
    MS_READ_VAL_LOSS,
    MS_READ_LR,
    MS_READ_TOK_S,
    MS_READ_MAX_LOGIT,
    MS_READ_W_NORM, /* this and the next are of a group of matrices */
    MS_READ_U_ERANK,
    MS_READ_U_GAIN,
    MS_READ_SIGMA1,
    MS_READ_SHARE,
} ms_reading;
/* Reads a value from a line of the log; false: it was not measured there. */
bool ms_read(ms_reading what, const ms_run_line *line, int group, double *value);

typedef struct ms_trace { /* a curve to be drawn */
    const ms_setting *setting;
    ms_reading        read;
    int               group;
    const char       *label;
    ms_style          style;
} ms_trace;

/* Adds a curve of the setting's first run that did not diverge, with a band over the seeds; long
 * ones are thinned to means.  Each run that diverged adds a cross at the step where it did.
 * Without any value no curve is added, and false returned. */
bool ms_plot_trace(ms_section_builder *b, ms_figure *f, ms_panel *p, const ms_trace *trace);
/* Adds notes on such curves of a problem: which run a line is, and whether long ones are means. */
void ms_plot_trace_notes(ms_section_builder *b, size_t problem);
/* Sets the panel's upper limit to the highest loss after the first steps, in which it falls from
 * far above, or to the loss at the start if that is lower; marks the first change of stage. */
#define MS_PLOT_SETTLING 0.04 /* of the steps */
void ms_plot_loss_panel(const ms_compare *c, size_t problem, ms_figure *f, ms_panel *p);
/* The last step of the first stage, as the logs show it; 0: there is only one stage. */
int64_t ms_plot_stage_change(const ms_compare *c, size_t problem);

/* ---- the sections ---------------------------------------------------------------------------- */

void ms_build_loss_lr(ms_section_builder *b);
void ms_build_controls(ms_section_builder *b);
void ms_build_effective_step(ms_section_builder *b);
void ms_build_stability(ms_section_builder *b);
void ms_build_larger_rates(ms_section_builder *b);
void ms_build_differences(ms_section_builder *b);
void ms_build_race(ms_section_builder *b);
void ms_build_dynamics(ms_section_builder *b);
void ms_build_progress(ms_section_builder *b);
void ms_build_weight_norm(ms_section_builder *b);
void ms_build_effective_rank(ms_section_builder *b);
void ms_build_clip_activity(ms_section_builder *b);
void ms_build_step_time(ms_section_builder *b);
void ms_build_threshold(ms_section_builder *b);
void ms_build_ns_iters(ms_section_builder *b);
void ms_build_architecture(ms_section_builder *b);
void ms_build_training(ms_section_builder *b);
void ms_build_hyperparameters(ms_section_builder *b);
void ms_build_runs(ms_section_builder *b);

/* footer.c: adds where and when the runs were made to the end of the page. */
void ms_build_footer(const ms_compare *c, const ms_report_options *options, ms_page *page);

#endif
