/* sections.c - the table of sections, and the page that is built from it. */
#include "report/sections.h"

#include <math.h>
#include <string.h>

#include "core/names.h"
#include "report/section_plots.h"

/* What the paper's text says of its figures, in our words, to stand beside what the runs give. */
static const struct {
    const char *id, *said;
} paper[] = {
    { "loss-lr",
      "In the paper (11 x 768 to 16 x 2048, rates from 0.01 to 0.8): at small rates all methods "
      "reach about the same loss; at the largest one Muon fails at every size, MuonClip at the two "
      "smaller ones, and Soft Musec and SPECTRA stay stable.  It prints no losses." },
    { "dynamics",
      "In the paper (16 x 1024, rate 0.2): near step 400, where the rate rises by 52 % and the "
      "batch doubles, every loss jumps; Soft Musec and SPECTRA recover quickly, Muon slowly and to "
      "a higher loss." },
    { "weight-norm",
      "In the paper (16 x 1024, rate 0.2): Muon's norms reach 300 to 400 in QK, VO and MLP, those "
      "of Soft Musec and SPECTRA stay below 10." },
    { "effective-rank",
      "In the paper (16 x 1024, rate 0.5): nearly full with Muon and MuonClip, much lower with "
      "SPECTRA, and with Soft Musec lowest late in training." },
    { "step-time", "In the paper, ms a step: 1021 to 1049 at 11 x 768, 2550 to 2692 at 16 x 1024, "
                   "15645 to 15977 "
                   "at 16 x 2048, with MuonClip the slowest." },
    { "threshold",
      "In the paper (16 x 1024): at the rates 0.1 and 0.2 thresholds from 0.05 to 1 end alike; at "
      "0.5 0.05 and 0.25 are smooth, 0.75 and 1 have spikes late, and all of them converge." },
    { "ns-iters",
      "In the paper (16 x 1024, D = 0.05): the number of iterations hardly matters, more are "
      "slightly better, and three do most of it." },
};

static const ms_section_kind kinds[] = {
    { "loss-lr", "Loss against learning rate", "Figures 1, 4 and 5 of the paper",
      "Needs finished runs of one method at two learning rates or more.", ms_build_loss_lr },
    { "controls", "Controls of the clipping methods", "",
      "Needs runs of a clipping method, and of Muon at its learning rate times D or of its exact "
      "or "
      "fast form.",
      ms_build_controls },
    { "effective-step", "Loss against effective step", "",
      "Needs runs of one method at two learning rates or more that measured their updates "
      "(report_every).",
      ms_build_effective_step },
    { "stability", "Width of the usable learning rates", "",
      "Needs finished runs of one method at two learning rates or more.", ms_build_stability },
    { "larger-rates", "Larger learning rates than the best", "",
      "Needs finished runs of one method at 5 or 25 times its best learning rate, at the same "
      "threshold and weight decay.",
      ms_build_larger_rates },
    { "differences", "Methods beside Muon", "",
      "Needs finished runs of Muon and of another method.", ms_build_differences },
    { "race", "Steps to a target loss", "",
      "Needs to be asked for, by --sections race or --target L, and without a target runs of Muon.",
      ms_build_race },
    { "dynamics", "Loss over the steps", "Figures 2 and 6 to 8 of the paper",
      "Needs a finished run of two steps or more.", ms_build_dynamics },
    { "progress", "Learning rate, logits and speed", "", "Needs a page of six runs at most.",
      ms_build_progress },
    { "weight-norm", "Spectral norm of the weights", "Figure 3 of the paper",
      "Needs runs that measured their matrices (report_every).", ms_build_weight_norm },
    { "effective-rank", "Effective rank of the updates", "Figure 9 of the paper",
      "Needs runs that measured their matrices (report_every).", ms_build_effective_rank },
    { "clip-activity", "What the clip does", "",
      "Needs runs of a clipping method that measured their matrices (report_every).",
      ms_build_clip_activity },
    { "step-time", "Time of a step", "Figure 10 of the paper",
      "Needs runs with steps that neither validated nor measured.", ms_build_step_time },
    { "threshold", "Thresholds", "Figure 11 of the paper",
      "Needs runs of a clipping method with two thresholds at one learning rate and weight decay.",
      ms_build_threshold },
    { "ns-iters", "Iterations", "Figure 12 of the paper",
      "Needs runs of a clipping method with two numbers of iterations at one learning rate, "
      "threshold and weight decay.",
      ms_build_ns_iters },
    { "architecture", "Models", "Table 1 of the paper", "Needs a finished run.",
      ms_build_architecture },
    { "training", "Training", "Table 2 of the paper", "Needs a finished run.", ms_build_training },
    { "hyperparameters", "Selected settings", "Tables 3 to 5 of the paper", "Needs a finished run.",
      ms_build_hyperparameters },
    { "runs", "All runs", "", "Needs a run.", ms_build_runs },
};

const char *ms_section_at(size_t index, const char **title, const char **shows)
{
    if (index >= COUNT(kinds)) return NULL;
    *title = kinds[index].title;
    *shows = kinds[index].shows;
    return kinds[index].id;
}

musec_status ms_sections_check(ms_error *e, const char *const *only, size_t n)
{
    const char *names[COUNT(kinds)];

    for (size_t i = 0; i < COUNT(kinds); i++)
        names[i] = kinds[i].id;
    for (size_t i = 0; i < n; i++) {
        bool known = false;
        for (size_t k = 0; k < COUNT(names) && !known; k++)
            known = strcmp(names[k], only[i]) == 0;
        if (known) continue;
        const ms_name_hint hint = ms_name_hint_of(only[i], names, COUNT(names));
        return ms_fail(e, MUSEC_EINVAL, "there is no section \"%s\"%s", only[i],
                       hint.text[0] != '\0' ? hint.text : "; musec report --help lists them");
    }
    return MUSEC_OK;
}

static bool is_wanted(const ms_report_options *o, const char *id)
{
    if (o->only == NULL) return true;
    for (size_t i = 0; i < o->n_only; i++)
        if (strcmp(o->only[i], id) == 0) return true;
    return false;
}

static const char *why_left_out(const ms_section_kind *kind, const ms_report_options *o)
{
    const bool times = o->omit_times && kind->build == ms_build_step_time;
    return times ? "Times are left out (--omit-times)." : kind->needs;
}

static void note_paper(ms_section_builder *b)
{
    for (size_t i = 0; i < COUNT(paper); i++)
        if (strcmp(paper[i].id, b->kind->id) == 0) ms_build_text(b, "%s", paper[i].said);
}

musec_status ms_sections_build(ms_error *e, const ms_compare *c, const ms_report_options *options,
                               ms_page *page)
{
    ms_table left_out = { .align = "ll" };

    if (options->only != NULL) {
        const musec_status st = ms_sections_check(e, options->only, options->n_only);
        if (st != MUSEC_OK) return st;
    }
    if (!(options->within >= 0.0 && options->within <= 1.0))
        return ms_fail(e, MUSEC_EINVAL, "within is %g; it must be a share from 0 to 1",
                       options->within);
    if (!(options->target >= 0.0 && isfinite(options->target)))
        return ms_fail(e, MUSEC_EINVAL, "target is %g; it must be a loss above 0", options->target);
    ms_table_add(&left_out, "section");
    ms_table_add(&left_out, "why it is not here");
    for (size_t i = 0; i < COUNT(kinds); i++) {
        ms_section_builder b = { .c = c, .options = options, .page = page, .kind = &kinds[i] };
        if (!is_wanted(options, kinds[i].id)) continue;
        kinds[i].build(&b);
        if (b.section != NULL) note_paper(&b);
        if (b.section == NULL && options->only != NULL)
            ms_build_text(&b, "Left out: these runs do not allow it. %s",
                          why_left_out(&kinds[i], options));
        if (b.section != NULL) continue;
        ms_table_add(&left_out, "%s", kinds[i].title);
        ms_table_add(&left_out, "%s", why_left_out(&kinds[i], options));
    }
    if (c->set->n > 0 && left_out.n_cells > strlen(left_out.align))
        ms_section_table(page, ms_page_section(page, "left-out", "Not on this page", ""),
                         "left-out", "Sections that these runs do not allow.", &left_out);
    page->out_of_memory = page->out_of_memory || left_out.out_of_memory;
    ms_table_free(&left_out);
    ms_build_footer(c, options, page);
    if (page->out_of_memory) return ms_fail(e, MUSEC_ENOMEM, "not enough memory for the report");
    return MUSEC_OK;
}

/* ---- contents of a section ------------------------------------------------------------------- */

ms_section *ms_build_section(ms_section_builder *b)
{
    if (b->section == NULL)
        b->section = ms_page_section(b->page, b->kind->id, b->kind->title, b->kind->shows);
    return b->section;
}

bool ms_build_figure(ms_section_builder *b, ms_figure *figure)
{
    const bool any         = figure->n > 0 && ms_build_section(b) != NULL;
    b->page->out_of_memory = b->page->out_of_memory || figure->out_of_memory;
    if (any) ms_section_figure(b->page, b->section, figure);
    ms_figure_free(figure);
    return any;
}

bool ms_build_table(ms_section_builder *b, const char *id, const char *caption, ms_table *table)
{
    const bool any         = table->n_cells > strlen(table->align) && ms_build_section(b) != NULL;
    b->page->out_of_memory = b->page->out_of_memory || table->out_of_memory;
    if (any) ms_section_table(b->page, b->section, id, caption, table);
    ms_table_free(table);
    return any;
}
