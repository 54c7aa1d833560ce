/* cmd_clip.c - musec clip: one operator on the matrices of an .npy file.
 *
 * The names of the operators, their order and their help come from the library's registry, so the
 * choices of --op, its --help and the completion cannot disagree with it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/settings.h"
#include "cli/stack.h"
#include "core/json_file.h"
#include "core/real.h"
#include "core/table.h"
#include "linalg/linalg.h"

struct args {
    const char *op;
    double      threshold; /* NaN: not given */
    int64_t     iters;
    double      tol;
    const char *coeffs, *sharpness;
    int         literal;
    const char *operands; /* NULL: not given */
    const char *device, *dtype;
    int         json;
};

static char op_names[256]; /* "hard|soft|...", filled by clip_command() */
static char help_text[2048];

static const ms_option options[] = {
    { "op", MS_OPT_CHOICE, AT(op), op_names, "operator to apply, see below [hard]" },
    { "threshold", MS_OPT_F64, AT(threshold), "D",
      "bound on the singular values, above 0; polar and ns5 need none" },
    { "iters", MS_OPT_I64, AT(iters), "K",
      "ssc, ns5: number of Newton-Schulz steps, 1 to 100 [5]" },
    { "tol", MS_OPT_F64, AT(tol), "X",
      "accurate, hard-accurate, sharp-accurate: largest relative error of the gain, 1e-12 to 0.5 "
      "[1e-3]" },
    { "sharpness", MS_OPT_STR, AT(sharpness), "X|hard",
      "sharp, sharp-fast, sharp-accurate: how sharply the clip bends at D: 2 is soft; 4, 8, 16, "
      "32, hard, and of sharp any number from 2 on [4]" },
    { "coeffs", MS_OPT_CHOICE, AT(coeffs), MS_QUINTIC_LISTS,
      "ns5: coefficients of the Newton-Schulz steps [keller]" },
    { "literal", MS_OPT_FLAG, AT(literal), NULL,
      "ssc: multiply in the paper's own order, which is slower" },
    { "operands", MS_OPT_CHOICE, AT(operands), "f32|bf16|f16",
      "number format that products of f32 matrices round their inputs to [f32]" },
    MS_CLI_DEVICE(struct args),
    MS_CLI_DTYPE(struct args),
    MS_CLI_JSON(struct args),
};

static const char details[] =
    "IN.npy holds a matrix or a 3-D stack of float32 or float64; OUT.npy gets the\n"
    "result in the dtype of the arithmetic, whole or not at all.\n\n"
    "Operators on the singular values s:\n";
static const char example[] =
    "\nExample: musec clip --op fast --threshold 0.5 grad.npy clipped.npy\n";

const ms_command *clip_command(void)
{
    static const ms_command command = {
        .name         = "musec clip",
        .operands     = "IN.npy OUT.npy",
        .summary      = "clip the singular values of the matrices in a .npy file",
        .details      = help_text,
        .options      = options,
        .n_options    = COUNT(options),
        .min_operands = 2,
        .max_operands = 2,
    };
    ms_settings_list(musec_clip_op, 16, op_names, sizeof op_names, details, example, help_text,
                     sizeof help_text);
    return &command;
}

/* One run: the arrays in host memory, and what is known of each matrix. */
struct job {
    const struct args    *args;
    const char           *in_path, *out_path;
    ms_npy                in, out;
    ms_stack_shape        shape;
    musec_clip_config     config;
    musec_ctx            *ctx;
    musec_clip_report    *report;         /* (count) */
    musec_spectrum_stats *before, *after; /* (count) */
};

static musec_status configure(ms_error *error, struct job *j)
{
    const struct args *a = j->args;
    musec_status st = musec_clip_config_init_why(&j->config, sizeof j->config, a->op, error->text,
                                                 sizeof error->text);

    if (st != MUSEC_OK) return st;
    if (!isnan(a->threshold)) {
        if (!(a->threshold > 0.0))
            return ms_fail(error, MUSEC_EINVAL, "--threshold must be above 0, not %g",
                           a->threshold);
        j->config.threshold = a->threshold;
    }
    if (a->iters < 1 || a->iters > 100)
        return ms_fail(error, MUSEC_EINVAL, "--iters must be 1 to 100, not %lld",
                       (long long)a->iters);
    if (!(a->tol >= 1e-12 && a->tol <= 0.5))
        return ms_fail(error, MUSEC_EINVAL, "--tol must be 1e-12 to 0.5, not %g", a->tol);
    if (a->sharpness != NULL) {
        char *end = NULL;
        j->config.sharpness =
            strcmp(a->sharpness, "hard") == 0 ? INFINITY : ms_real_read(a->sharpness, &end);
        if (!(j->config.sharpness >= 2.0) || (end != NULL && *end != '\0'))
            return ms_fail(error, MUSEC_EINVAL, "--sharpness must be hard or from 2 on, not %s",
                           a->sharpness);
    }
    j->config.iters   = (int32_t)a->iters;
    j->config.tol     = a->tol;
    j->config.coeffs  = a->coeffs;
    j->config.literal = a->literal;
    if (a->operands != NULL) j->config.operands = ms_cli_dtype(a->operands, MUSEC_F32);
    return MUSEC_OK;
}

static musec_status load(ms_error *error, struct job *j)
{
    musec_status st;

    TRY(ms_npy_read(error, j->in_path, &j->in));
    TRY(ms_stack_shape_of(error, j->in_path, j->in.ndim, j->in.shape, 0, &j->shape));
    TRY(ms_stack_check_finite(error, j->in_path, &j->in));
    TRY(ms_stack_convert(error, j->in_path, ms_cli_dtype(j->args->dtype, j->in.dtype), &j->in));
    j->out      = j->in; /* the same shape and dtype, in memory of its own */
    j->out.data = calloc((size_t)j->shape.count * (size_t)j->shape.rows,
                         (size_t)j->shape.cols * ms_dtype_bytes(j->in.dtype));
    j->report   = calloc((size_t)j->shape.count, sizeof *j->report);
    j->before   = calloc((size_t)j->shape.count, sizeof *j->before);
    j->after    = calloc((size_t)j->shape.count, sizeof *j->after);
    if (j->out.data == NULL || j->report == NULL || j->before == NULL || j->after == NULL)
        return ms_fail(error, MUSEC_ENOMEM, "%s: not enough memory", j->in_path);
done:
    return st;
}

static musec_status compute(ms_error *error, struct job *j)
{
    const double threshold = isnan(j->args->threshold) ? 0.0 : j->args->threshold;
    musec_view   in = { 0 }, out = { 0 };
    musec_status st;

    TRY(ms_stack_alloc(error, j->ctx, j->in.dtype, j->shape, &in));
    TRY(ms_stack_alloc(error, j->ctx, j->in.dtype, j->shape, &out));
    TRY(ms_stack_upload(error, j->ctx, j->in.data, in));
    TRY(ms_cli_check(error, j->ctx, musec_clip(j->ctx, &j->config, in, out, j->report)));
    TRY(ms_cli_check(error, j->ctx, musec_spectrum(j->ctx, in, threshold, NULL, j->before)));
    TRY(ms_cli_check(error, j->ctx, musec_spectrum(j->ctx, out, threshold, NULL, j->after)));
    TRY(ms_stack_download(error, j->ctx, out, j->out.data));
done:
    ms_stack_free(j->ctx, &out);
    ms_stack_free(j->ctx, &in);
    return st;
}

static musec_status print_table(ms_error *error, const struct job *j, FILE *to)
{
    ms_table table = { .align = "rlrrrrrrlr" };

    ms_table_row(&table,
                 "matrix\tshape\tsigma1\teff.rank\tabove D\t->\tsigma1\teff.rank\tpath\tproducts");
    for (int64_t i = 0; i < j->shape.count; i++) {
        ms_table_row(&table, "%lld\t%lldx%lld\t%.6g\t%.5g", (long long)i, (long long)j->shape.rows,
                     (long long)j->shape.cols, j->before[i].norm2, j->before[i].effective_rank);
        if (isnan(j->args->threshold))
            ms_table_add(&table, "-");
        else
            ms_table_add(&table, "%.1f%%", 100.0 * j->before[i].share_above);
        ms_table_row(&table, "->\t%.6g\t%.5g\t%s\t%d", j->after[i].norm2,
                     j->after[i].effective_rank, j->report[i].path, (int)j->report[i].products);
    }
    return ms_table_finish(error, &table, to);
}

static json_t *matrix_json(const struct job *j, int64_t i)
{
    const double share  = isnan(j->args->threshold) ? NAN : j->before[i].share_above;
    json_t      *matrix = json_object(), *before = json_object(), *after = json_object();

    ms_json_add(&before, "norm2=%g effective_rank=%g share_above=%g", j->before[i].norm2,
                j->before[i].effective_rank, share);
    ms_json_add(&after, "norm2=%g effective_rank=%g", j->after[i].norm2,
                j->after[i].effective_rank);
    ms_json_add(
        &matrix,
        "index=%lld rows=%lld cols=%lld before=%p after=%p path=%s products=%lld u_low=%g alpha=%g",
        (long long)i, (long long)j->shape.rows, (long long)j->shape.cols, (void *)before,
        (void *)after, j->report[i].path, (long long)j->report[i].products, j->report[i].u_low,
        j->report[i].alpha);
    return matrix;
}

static musec_status print_json(ms_error *error, const struct job *j, FILE *to)
{
    json_t            *root, *matrices, *chosen = NULL;
    const musec_status st = ms_cli_options(error, clip_command(), j->args, &chosen);

    if (st != MUSEC_OK) return st;
    root     = json_object();
    matrices = json_array();
    for (int64_t i = 0; i < j->shape.count; i++)
        ms_json_append(&matrices, matrix_json(j, i));
    ms_json_add(&root, "in=%s out=%s op=%s threshold=%g dtype=%s device=%s options=%p matrices=%p",
                j->in_path, j->out_path, j->args->op, j->args->threshold,
                ms_dtype_name(j->out.dtype), musec_ctx_device(j->ctx), (void *)chosen,
                (void *)matrices);
    return ms_json_finish(error, root, to);
}

static musec_status run(ms_error *error, struct job *j)
{
    FILE        *to = ms_cli_summary(j->out_path); /* before a rename gives the path a new file */
    musec_status st;

    TRY(configure(error, j));
    TRY(load(error, j));
    TRY(ms_cli_open(error, j->args->device, &j->ctx));
    TRY(compute(error, j));
    TRY(ms_npy_write(error, j->out_path, &j->out));
    TRY(j->args->json ? print_json(error, j, to) : print_table(error, j, to));
done:
    return st;
}

int cmd_clip(int argc, char **argv)
{
    const ms_command *cmd = clip_command();
    struct args a = { .op = "hard", .threshold = NAN, .iters = 5, .tol = 1e-3, .coeffs = "keller" };
    const int   n = ms_options_parse(cmd, &a, argc, argv);
    struct job  j = { .args = &a };
    ms_error    error = { "" };
    int         code  = EXIT_OK;

    if (n < 0) return ms_cli_parsed(n);
    if (ms_operator_clips(a.op) && isnan(a.threshold))
        return ms_cli_usage(cmd, "--op %s needs --threshold D, the bound to clip at", a.op);
    j.in_path  = argv[1];
    j.out_path = argv[2];
    if (run(&error, &j) != MUSEC_OK) code = ms_cli_fail(cmd, &error);
    musec_ctx_destroy(j.ctx);
    free(j.after);
    free(j.before);
    free(j.report);
    ms_npy_free(&j.out);
    ms_npy_free(&j.in);
    return code;
}
