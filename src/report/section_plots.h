/* section_plots.h - what the sections of a report share while they are built: which runs they plot,
 * with which labels and captions.  It is private to sections.c and section_*.c.
 *
 * A section builds figures and tables and hands them over.  The first of them opens the section in
 * the page, so a section that hands over nothing does not appear. */
#ifndef MS_REPORT_SECTION_PLOTS_H
#define MS_REPORT_SECTION_PLOTS_H

#include "report/sections.h"

enum { MS_PLOT_TEXT = 1024, MS_PLOT_ID = 96 };
enum { MS_PLOT_MANY = 3 }; /* with more problems, some sections show one of each preset */

typedef struct ms_section_builder ms_section_builder;
typedef struct ms_section_kind { /* a row of the table of sections */
    const char *id, *title, *shows;
    const char *needs; /* "Needs ...": shown where the section was asked for and cannot be made */
    void (*build)(ms_section_builder *b);
} ms_section_kind;

struct ms_section_builder {
    const ms_compare        *c;
    const ms_report_options *options;
    ms_page                 *page;
    const ms_section_kind   *kind;
    ms_section              *section; /* NULL until there is something in it */
};

void ms_build_text(ms_section_builder *b, const char *fmt, ...) MS_PRINTF(2, 3);
/* Both take over what they are given.  A figure without panels or a table without rows is dropped,
 * and false returned. */
bool ms_build_figure(ms_section_builder *b, ms_figure *figure);
bool ms_build_table(ms_section_builder *b, const char *id, const char *caption, ms_table *table);
/* Adds a folded paragraph below what was last handed over, which tells how it was made. */
void ms_build_notes(ms_section_builder *b, const char *fmt, ...) MS_PRINTF(2, 3);

/* ---- selection ------------------------------------------------------------------------------- */

/* Is the method drawn with others on this problem?  It has runs there and is not its optimizer with
 * another iteration alone: those stand in the sections on iterations. */
bool ms_plot_drawn(const ms_compare *c, size_t problem, size_t method);
/* Adds a note where methods are left out for that reason. */
void ms_plot_left_out(ms_section_builder *b);
/* Is this one of the problems that a section of many figures shows? */
bool ms_plot_shown(const ms_compare *c, size_t problem);
/* Counts the drawn methods that were run on the problem at this rate. */
size_t ms_plot_methods_at(const ms_compare *c, size_t problem, double lr);
/* Counts the rates at which the method was run on the problem. */
size_t ms_plot_count_rates(const ms_compare *c, size_t problem, size_t method);
/* Returns the first run of a method on a problem, or NULL. */
const ms_run *ms_plot_run(const ms_compare *c, size_t problem, size_t method);
/* The rate `wanted` if methods were run there on the problem, otherwise the one nearest to it by
 * their ratio, or the largest; rates that two methods share come before those that one has alone.
 * 0: no run. */
double ms_plot_rate(const ms_compare *c, size_t problem, double wanted, bool or_largest);
/* Up to three rates that pass the test, ascending: the paper's 0.1, 0.2 and 0.5 first, then the
 * largest, where methods differ most. */
enum { MS_PLOT_RATES = 3 };
typedef bool ms_rate_test(const void *of, double lr);
size_t       ms_plot_rates(const ms_compare *c, ms_rate_test *passes, const void *of,
                           double out[MS_PLOT_RATES]);

/* ---- labels ---------------------------------------------------------------------------------- */

/* Writes the id of a figure: "loss-lr", followed by the problem's name where there are several. */
void ms_plot_id(const ms_compare *c, const char *base, size_t problem, char out[MS_PLOT_ID]);
/* Writes a title such as "pico, fineweb: RMS"; where there is one problem, only "RMS". */
void ms_plot_title(const ms_compare *c, size_t problem, const char *what, char out[MS_PLOT_TEXT]);
/* Writes the text that the pointer shows for a setting. */
void ms_plot_tip(const char *label, const ms_setting *s, char out[MS_PLOT_TEXT]);
/* Reads the weight decay of the groups QK, VO, MLP; false: the text has none. */
bool ms_plot_decay(const char *text, double out[MS_RUN_GROUPS]);
/* Writes a weight decay in short: "0.3", "qk 1.2, vo 1.2, mlp 0.3". */
void ms_plot_decay_text(const char *text, char out[MS_PLOT_TEXT]);
/* Gives the last cell of a table, a weight decay, its columns QK, VO and MLP in CSV. */
#define MS_PLOT_DECAY_NAMES "decay|decay QK,decay VO,decay MLP"
void        ms_plot_decay_fields(ms_table *t, const char *text);
const char *ms_plot_group_name(int group);       /* "QK" */
const char *ms_plot_run_name(const ms_run *run); /* its directory's name */

/* ---- points ---------------------------------------------------------------------------------- */

/* Mean of the seeds with their band; diverged if all did.  For those of which some did,
 * ms_panel_symbols() is called once all points are there. */
ms_point ms_plot_point(double x, const ms_setting *s);
/* Keeps a few bad points from flattening a panel: where one is more than three times as far above
 * the lowest as three quarters of them are, the top is twice as far. */
void ms_plot_limit(ms_panel *p);
/* Sets the figure's caption: the text, what the bands, crosses and values above a panel mean where
 * there are any, and the conditions of the problem (n_problems: of all; c NULL: none). */
void ms_plot_caption(const ms_compare *c, size_t problem, ms_figure *f, const char *fmt, ...)
    MS_PRINTF(4, 5);
/* Adds a point for a setting at its learning rate, with its tip; NULL adds none. */
void ms_plot_add(ms_figure *f, ms_curve *curve, const char *label, const ms_setting *s);

/* ---- curves over steps ----------------------------------------------------------------------- */

/* The value of a line of the log; false: it was not measured there. */
typedef bool ms_reading(const ms_run_line *line, int group, double *value);
ms_reading   ms_read_loss, ms_read_val_loss, ms_read_w_norm, ms_read_u_erank, ms_read_u_gain,
    ms_read_sigma1, ms_read_share, ms_read_lr, ms_read_max_logit, ms_read_tok_s;

typedef struct ms_trace { /* what to draw of which runs */
    const ms_setting *setting;
    ms_reading       *read;
    int               group;
    const char       *label;
    ms_style          style;
} ms_trace;

/* A curve of the setting's first run that did not diverge, with a band over the seeds; long ones
 * are thinned to means.  Each run that diverged has a point of its own, diverged, where it did.
 * Without any value no curve is added, and false returned. */
bool ms_plot_trace(ms_section_builder *b, ms_figure *f, ms_panel *p, const ms_trace *trace);
/* What notes say of such curves on a problem: which run a line is, and where it is of means. */
void ms_plot_trace_notes(ms_section_builder *b, size_t problem);
/* Sets the panel's top to the highest loss after the first steps, in which it falls from far above
 * all that follows, and not above that at the start; marks the first change of stage. */
#define MS_PLOT_SETTLING 0.04 /* of the steps */
void ms_plot_loss_panel(const ms_compare *c, size_t problem, ms_figure *f, ms_panel *p);
/* The last step of the first stage, as the logs show it; 0: there is one stage alone. */
int64_t ms_plot_stage_change(const ms_compare *c, size_t problem);

/* ---- the sections ---------------------------------------------------------------------------- */

void ms_build_loss_lr(ms_section_builder *b);
void ms_build_controls(ms_section_builder *b);
void ms_build_effective_step(ms_section_builder *b);
void ms_build_stability(ms_section_builder *b);
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

/* footer.c: where and when the runs were made, at the end of the page. */
void ms_build_footer(const ms_compare *c, const ms_report_options *options, ms_page *page);

#endif
