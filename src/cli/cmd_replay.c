/* cmd_replay.c - musec replay: an optimizer on recorded gradients, from .npy to .npy.
 *
 * Optimizers and their options, with choices and help, come from the library's tables; the values
 * are passed on as text, which the library parses. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/settings.h"
#include "cli/stack.h"
#include "core/json_file.h"
#include "core/table.h"
#include "optim/optim.h"

enum { MAX_SETTINGS = 64 };

struct args {
    const char *optimizer, *w0, *grads, *out, *momentum_out, *state_in, *state_out, *role;
    int         explain;
    const char *device, *dtype;
    int         json;
    const char *settings[MAX_SETTINGS]; /* by musec_optim_option(); NULL: not given */
};

static const struct {
    musec_role  role;
    const char *name;
    int         matrix;
} roles[] = {
#define X(name, code, text, matrix) { MUSEC_ROLE_##name, text, matrix },
    MUSEC_ROLE_MAP(X)
#undef X
};

#define X(name, code, text, matrix) "|" text
static const char role_names[] = MUSEC_ROLE_MAP(X); /* "|matrix|qk|..." */
#undef X

static char optimizer_names[256], help_text[2048]; /* filled by replay_command() */

static const ms_option before[] = {
    { "optimizer", MS_OPT_CHOICE, AT(optimizer), optimizer_names,
      "optimizer to run; must be given" },
    { "w0", MS_OPT_STR, AT(w0), "W.npy",
      "weight to start from, of shape (rows, cols); must be given" },
    { "grads", MS_OPT_STR, AT(grads), "G.npy",
      "gradients of all steps, of shape (steps, rows, cols)" },
    { "out", MS_OPT_STR, AT(out), "W_all.npy",
      "write the weight after each step there, of shape (steps, rows, cols)" },
    { "momentum-out", MS_OPT_STR, AT(momentum_out), "M_all.npy",
      "also write the momentum after each step (Adam: the first moment) [none]" },
    { "state-in", MS_OPT_STR, AT(state_in), "S.safetensors",
      "start from the optimizer state that --state-out saved [none]" },
    { "state-out", MS_OPT_STR, AT(state_out), "S.safetensors",
      "save the optimizer's state after the last step [none]" },
    { "role", MS_OPT_CHOICE, AT(role), role_names + 1,
      "role of the weight in a model; embed, head and vector get AdamW [matrix]" },
    { "explain", MS_OPT_FLAG, AT(explain), NULL, "print what would be done and why, and stop" },
};
static const ms_option after[] = {
    MS_CLI_DEVICE(struct args),
    MS_CLI_DTYPE(struct args),
    MS_CLI_JSON(struct args),
};
static ms_option options[COUNT(before) + MAX_SETTINGS + COUNT(after)];

static const char details[] =
    "Results go to W_all.npy and M_all.npy, both whole or not at all.  --explain needs\n"
    "--optimizer and --w0 alone.  With --report-every N, a row for every N-th step\n"
    "tells of its spectrum; without, one for the last.  docs/optimizers.md has the rules.\n\n"
    "Optimizers:\n";
static const char example[] =
    "\nExample: musec replay --optimizer soft-musec --threshold rms:0.5 --lr 0.1 \\\n"
    "             --w0 w.npy --grads g.npy --out w_all.npy\n";

static size_t fill_options(void)
{
    size_t n = COUNT(before);
    memcpy(options, before, sizeof before);
    n += ms_settings_options(musec_optim_option, AT(settings), options + n, MAX_SETTINGS);
    for (size_t i = COUNT(before); i < n; i++) /* here it has a default of its own */
        if (strcmp(options[i].name, "report-every") == 0)
            options[i].help = "print a row for every N-th step; 0: none [the last step alone]";
    memcpy(options + n, after, sizeof after);
    return n + COUNT(after);
}

static const ms_option_group groups[] = {
    { "Common options", "optimizer" },
    { "Optimizer", "lr" },
    { "How clipping is computed", "ns-mode" },
    { "Weight decay and momentum", "weight-decay" },
    { "Options of single optimizers", "beta1" },
    { "Averages, reports and memory", "avg-steps" },
    { "AdamW of the embedding, the output head and vectors", "aux-lr" },
    { "Device and output", "device" },
};

const ms_command *replay_command(void)
{
    static ms_command command = {
        .name     = "musec replay",
        .operands = "",
        .summary  = "run an optimizer on recorded gradients",
        .details  = help_text,
        .groups   = groups,
        .n_groups = COUNT(groups),
        .options  = options,
    };
    ms_settings_list(musec_optim_name, 12, optimizer_names, sizeof optimizer_names, details,
                     example, help_text, sizeof help_text);
    command.n_options = fill_options();
    return &command;
}

/* ---- what was given -------------------------------------------------------------------------- */

/* Checks, before anything is written, that no output is another file under any name. */
static int check_files(const ms_command *cmd, const struct args *a)
{
    const struct file {
        const char *flag, *path; /* NULL: not given */
        bool        is_output;
    } files[] = { { "w0", a->w0, false },
                  { "grads", a->grads, false },
                  { "state-in", a->state_in, false },
                  { "out", a->out, true },
                  { "momentum-out", a->momentum_out, true },
                  { "state-out", a->state_out, true } };

    for (size_t i = 0; i < COUNT(files); i++)
        for (size_t k = i + 1; k < COUNT(files); k++) {
            const struct file *x = &files[i], *y = &files[k];
            if (x->path == NULL || y->path == NULL || (!x->is_output && !y->is_output)) continue;
            if (x->path == a->state_in && y->path == a->state_out)
                continue; /* it may be replaced */
            if (ms_path_same(x->path, y->path))
                return ms_cli_usage(cmd, "--%s %s and --%s %s are the same file", x->flag, x->path,
                                    y->flag, y->path);
        }
    return EXIT_OK;
}

static int check_usage(const ms_command *cmd, const struct args *a)
{
    if (a->optimizer == NULL) return ms_cli_usage(cmd, "--optimizer must say which");
    if (a->w0 == NULL) return ms_cli_usage(cmd, "--w0 must name the weight to start from");
    if (!a->explain && a->grads == NULL)
        return ms_cli_usage(cmd, "--grads must name the gradients");
    if (!a->explain && a->out == NULL) return ms_cli_usage(cmd, "--out must name the output");
    if (!a->explain && check_files(cmd, a) != EXIT_OK) return EXIT_USAGE;
    return ms_settings_usage(cmd, options + COUNT(before), a->settings,
                             cmd->n_options - COUNT(before) - COUNT(after));
}

/* ---- a run ----------------------------------------------------------------------------------- */

struct job {
    const struct args   *args;
    ms_npy               weight, grads;
    ms_npy               weights, momenta; /* (steps, rows, cols); momenta.data NULL: not wanted */
    ms_stack_shape       shape;            /* of the gradients: count is the number of steps */
    musec_optim_config   config;
    int                  matrix; /* a matrix role */
    musec_ctx           *ctx;
    musec_view           w, g; /* on the device */
    musec_optim         *optim;
    musec_optim_report  *reports; /* (steps) */
    int64_t              n_reports;
    musec_spectrum_stats last; /* of the weight that came out */
};

static size_t matrix_bytes(const struct job *j)
{
    return (size_t)j->shape.rows * (size_t)j->shape.cols * ms_dtype_bytes(j->weight.dtype);
}

static int is_given(const struct args *a, const char *setting)
{
    const char *name;
    for (size_t i = 0; (name = musec_optim_option(i, NULL, NULL)) != NULL; i++)
        if (strcmp(name, setting) == 0) return a->settings[i] != NULL;
    return 0;
}

static musec_status configure(ms_error *error, struct job *j)
{
    musec_optim_config *cfg = &j->config;
    ms_error            why = { "" };
    musec_status st = musec_optim_config_init_why(cfg, sizeof *cfg, j->args->optimizer, error->text,
                                                  sizeof error->text);
    const char  *name;

    if (st != MUSEC_OK) return st;
    for (size_t i = 0; (name = musec_optim_option(i, NULL, NULL)) != NULL; i++) {
        if (j->args->settings[i] == NULL) continue;
        st = ms_optim_config_set(&why, cfg, name, j->args->settings[i]);
        if (st != MUSEC_OK) return ms_fail(error, st, "--%s", why.text);
    }
    return MUSEC_OK;
}

static musec_status load_weight(ms_error *error, struct job *j)
{
    const char    *path = j->args->w0;
    ms_stack_shape one;
    musec_status   st;

    TRY(ms_npy_read(error, path, &j->weight));
    TRY(ms_stack_shape_of(error, path, j->weight.ndim, j->weight.shape, 0, &one));
    if (j->weight.ndim != 2)
        return ms_fail(error, MUSEC_EINVAL, "%s: the weight must be one matrix, not a stack", path);
    TRY(ms_stack_check_finite(error, path, &j->weight));
    TRY(ms_stack_convert(error, path, ms_cli_dtype(j->args->dtype, j->weight.dtype), &j->weight));
    j->shape = one;
done:
    return st;
}

static musec_status load_grads(ms_error *error, struct job *j)
{
    const char    *path = j->args->grads;
    ms_stack_shape all;
    musec_status   st;

    TRY(ms_npy_read(error, path, &j->grads));
    TRY(ms_stack_shape_of(error, path, j->grads.ndim, j->grads.shape, 0, &all));
    if (j->grads.ndim != 3)
        return ms_fail(error, MUSEC_EINVAL,
                       "%s: the gradients must be (steps, rows, cols), one matrix for each step; "
                       "this has %d dimensions",
                       path, j->grads.ndim);
    if (all.rows != j->shape.rows || all.cols != j->shape.cols)
        return ms_fail(error, MUSEC_EINVAL,
                       "%s: gradients of %lldx%lld do not fit the weight of %lldx%lld in %s", path,
                       (long long)all.rows, (long long)all.cols, (long long)j->shape.rows,
                       (long long)j->shape.cols, j->args->w0);
    TRY(ms_stack_convert(error, path, j->weight.dtype, &j->grads));
    j->shape = all;
done:
    return st;
}

static musec_status take_memory(ms_error *error, struct job *j)
{
    const size_t steps = (size_t)j->shape.count;

    j->weights      = j->grads; /* the same shape and dtype, in memory of its own */
    j->weights.data = calloc(steps, matrix_bytes(j));
    j->momenta      = j->weights;
    j->momenta.data = j->args->momentum_out == NULL ? NULL : calloc(steps, matrix_bytes(j));
    j->reports      = calloc(steps, sizeof *j->reports);
    if (j->weights.data == NULL || j->reports == NULL ||
        (j->args->momentum_out != NULL && j->momenta.data == NULL))
        return ms_fail(error, MUSEC_ENOMEM, "not enough memory for %zu steps", steps);
    return MUSEC_OK;
}

/* The optimizer, with the weight as its only parameter. */
static musec_status prepare(ms_error *error, struct job *j)
{
    const ms_stack_shape one   = { 1, j->shape.rows, j->shape.cols };
    musec_param          param = { .name = "W" };
    musec_status         st;

    for (size_t i = 0; i < COUNT(roles); i++)
        if (strcmp(roles[i].name, j->args->role) == 0) {
            param.role = roles[i].role;
            j->matrix  = roles[i].matrix;
        }
    TRY(ms_cli_open(error, j->args->device, &j->ctx));
    TRY(ms_stack_alloc(error, j->ctx, j->weight.dtype, one, &j->w));
    TRY(ms_stack_alloc(error, j->ctx, j->weight.dtype, one, &j->g));
    TRY(ms_stack_upload(error, j->ctx, j->weight.data, j->w));
    param.weight = j->w;
    TRY(ms_cli_check(error, j->ctx, musec_optim_create(&j->optim, j->ctx, &j->config)));
    TRY(ms_cli_check(error, j->ctx, musec_optim_add(j->optim, &param, NULL)));
done:
    return st;
}

static musec_status explain(ms_error *error, const struct job *j)
{
    const size_t bytes = musec_optim_describe(j->optim, NULL, 0) + 1;
    char        *text  = malloc(bytes);
    musec_status st    = MUSEC_OK;

    if (text == NULL) return ms_no_memory(error, "the description");
    musec_optim_describe(j->optim, text, bytes);
    if (j->args->json) {
        json_t *root = json_object();
        ms_json_add(&root, "optimizer=%s description=%s", j->args->optimizer, text);
        st = ms_json_finish(error, root, stdout);
    } else {
        fputs(text, stdout);
    }
    free(text);
    return st;
}

static musec_status step(ms_error *error, struct job *j, int64_t i, const char *momentum)
{
    const size_t bytes = matrix_bytes(j), at = (size_t)i * bytes;
    musec_status st;

    TRY(ms_stack_upload(error, j->ctx, (const char *)j->grads.data + at, j->g));
    st = musec_optim_step(j->optim, &j->g, 1, 1.0);
    if (st == MUSEC_OK) st = musec_optim_poll(j->optim);
    if (st != MUSEC_OK) /* it names the step */
        return ms_fail(error, st, "%s: %s", j->args->grads, musec_ctx_error(j->ctx));
    TRY(ms_stack_download(error, j->ctx, j->w, (char *)j->weights.data + at));
    if (j->momenta.data != NULL)
        TRY(ms_cli_check(
            error, j->ctx,
            musec_optim_get_state(j->optim, 0, 0, momentum, (char *)j->momenta.data + at, bytes)));
    st = musec_optim_get_report(j->optim, 0, &j->reports[j->n_reports]);
    if (st == MUSEC_ENOMEM) TRY(ms_no_memory(error, "the report of a step"));
    if (st != MUSEC_EINVAL) TRY(ms_cli_check(error, j->ctx, st)); /* EINVAL: there is none */
    if (st == MUSEC_OK && j->reports[j->n_reports].step > 0 &&
        (j->n_reports == 0 || j->reports[j->n_reports].step > j->reports[j->n_reports - 1].step))
        j->n_reports++;
    st = MUSEC_OK;
done:
    return st;
}

static musec_status compute(ms_error *error, struct job *j)
{
    const ms_base *base = ms_base_find(j->matrix ? j->config.base : MS_AUX_BASE);
    musec_status   st   = MUSEC_OK;

    assert(base != NULL); /* musec_optim_create has checked it */
    for (int64_t i = 0; i < j->shape.count; i++)
        TRY(step(error, j, i, base->states[0]));
    /* A weight that ran away to infinity is a result; only its norms are not numbers. */
    st = musec_spectrum(j->ctx, j->w, 0.0, NULL, &j->last);
    if (st == MUSEC_ENONFINITE) {
        j->last = (musec_spectrum_stats){ .norm2 = NAN, .fro = NAN };
        st      = MUSEC_OK;
    }
    TRY(ms_cli_check(error, j->ctx, st));
done:
    return st;
}

/* Renames the files only when both are complete. */
static musec_status write_results(ms_error *error, const struct job *j)
{
    ms_out_file  weights = { 0 }, momenta = { 0 };
    musec_status st;

    TRY(ms_out_open(error, j->args->out, &weights));
    TRY(ms_npy_write_to(error, &weights, &j->weights));
    if (j->momenta.data != NULL) {
        TRY(ms_out_open(error, j->args->momentum_out, &momenta));
        TRY(ms_npy_write_to(error, &momenta, &j->momenta));
        TRY(ms_out_commit(error, &momenta));
    }
    TRY(ms_out_commit(error, &weights));
done:
    ms_out_abandon(&momenta);
    ms_out_abandon(&weights);
    return st;
}

/* ---- printing -------------------------------------------------------------------------------- */

static int clips(const struct job *j) { return ms_spectral_clips(ms_optim_function(&j->config)); }

static musec_status print_text(ms_error *error, const struct job *j, FILE *to)
{
    ms_table     table = { .align = "rrrrrrrrl" };
    musec_status st    = MUSEC_OK;

    ms_table_row(&table, "step\tD\tsigma1/D\tabove D\t|U|2\tU rms\tU rank\t|W|2\tpath");
    for (int64_t i = 0; i < j->n_reports; i++) {
        const musec_optim_report *r = &j->reports[i];
        ms_table_add(&table, "%lld", (long long)r->step);
        if (clips(j)) {
            ms_table_row(&table, "%.5g\t%.4g\t%.1f%%", r->threshold, r->sigma1_over_d,
                         100.0 * r->share_above);
        } else {
            for (int k = 0; k < 3; k++)
                ms_table_add(&table, "-");
        }
        ms_table_row(&table, "%.5g\t%.4g\t%.4g\t%.5g\t%s", r->update_norm2, r->update_rms,
                     r->update_erank, r->weight_norm2, r->path[0] == '\0' ? "-" : r->path);
    }
    if (j->n_reports > 0) TRY(ms_table_print(error, &table, to));
    fprintf(to, "%s, %lld steps on %lldx%lld %s", j->args->optimizer,
            (long long)musec_optim_steps(j->optim), (long long)j->shape.rows,
            (long long)j->shape.cols, ms_dtype_name(j->weights.dtype));
    if (musec_optim_skipped(j->optim) > 0)
        fprintf(to, ", %lld skipped", (long long)musec_optim_skipped(j->optim));
    fprintf(to, ": |W|2 %.6g, |W|F %.6g\n", j->last.norm2, j->last.fro);
done:
    ms_table_free(&table);
    return st;
}

static json_t *report_json(const struct job *j, const musec_optim_report *r)
{
    const int clip   = clips(j);
    json_t   *object = json_object();

    ms_json_add(&object,
                "step=%lld path=%s threshold=%g sigma1_over_d=%g share_above=%g update_norm2=%g "
                "update_rms=%g update_erank=%g update_gain=%g weight_norm2=%g",
                (long long)r->step, r->path, clip ? r->threshold : NAN,
                clip ? r->sigma1_over_d : NAN, clip ? r->share_above : NAN, r->update_norm2,
                r->update_rms, r->update_erank, r->update_gain, r->weight_norm2);
    return object;
}

static musec_status print_json(ms_error *error, const struct job *j, FILE *to)
{
    json_t            *root, *reports, *chosen = NULL;
    const musec_status st = ms_cli_options(error, replay_command(), j->args, &chosen);

    if (st != MUSEC_OK) return st;
    root    = json_object();
    reports = json_array();
    for (int64_t i = 0; i < j->n_reports; i++)
        ms_json_append(&reports, report_json(j, &j->reports[i]));
    ms_json_add(&root,
                "optimizer=%s rows=%lld cols=%lld dtype=%s device=%s steps=%lld skipped=%lld "
                "norm2=%g fro=%g reports=%p options=%p",
                j->args->optimizer, (long long)j->shape.rows, (long long)j->shape.cols,
                ms_dtype_name(j->weights.dtype), musec_ctx_device(j->ctx),
                (long long)musec_optim_steps(j->optim), (long long)musec_optim_skipped(j->optim),
                j->last.norm2, j->last.fro, (void *)reports, (void *)chosen);
    return ms_json_finish(error, root, to);
}

static musec_status run(ms_error *error, struct job *j)
{
    FILE *to = ms_cli_summary(j->args->out);
    if (to == stdout) to = ms_cli_summary(j->args->momentum_out);
    musec_status st;

    TRY(configure(error, j));
    TRY(load_weight(error, j));
    if (!j->args->explain) {
        TRY(load_grads(error, j));
        TRY(take_memory(error, j));
        if (!is_given(j->args, "report-every")) j->config.report_every = j->shape.count;
    }
    TRY(prepare(error, j));
    if (j->args->explain) return explain(error, j);
    if (j->args->state_in != NULL)
        TRY(ms_cli_check(error, j->ctx, musec_optim_load(j->optim, j->args->state_in)));
    TRY(compute(error, j));
    if (j->args->state_out != NULL)
        TRY(ms_cli_check(error, j->ctx, musec_optim_save(j->optim, j->args->state_out)));
    TRY(write_results(error, j));
    TRY(j->args->json ? print_json(error, j, to) : print_text(error, j, to));
done:
    return st;
}

int cmd_replay(int argc, char **argv)
{
    const ms_command *cmd   = replay_command();
    struct args       a     = { .role = "matrix" };
    const int         n     = ms_options_parse(cmd, &a, argc, argv);
    struct job        j     = { .args = &a };
    ms_error          error = { "" };
    int               code  = EXIT_OK;

    if (n < 0) return ms_cli_parsed(n);
    code = check_usage(cmd, &a);
    if (code != EXIT_OK) return code;
    if (run(&error, &j) != MUSEC_OK) code = ms_cli_fail(cmd, &error);
    musec_optim_destroy(j.optim);
    ms_stack_free(j.ctx, &j.g);
    ms_stack_free(j.ctx, &j.w);
    musec_ctx_destroy(j.ctx);
    free(j.reports);
    ms_npy_free(&j.momenta);
    ms_npy_free(&j.weights);
    ms_npy_free(&j.grads);
    ms_npy_free(&j.weight);
    return code;
}
