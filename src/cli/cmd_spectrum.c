/* cmd_spectrum.c - musec spectrum: singular values of every matrix in a file.
 *
 * Tensors of a .safetensors file are read one at a time, so the file may be larger than memory.
 * Everything is printed at the end: a file that fails half-way prints no half result. */
#define _POSIX_C_SOURCE 200809L

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/stack.h"
#include "core/json_file.h"
#include "core/log.h"
#include "core/safetensors.h"
#include "core/table.h"
#include "core/text.h"

enum {
    DEFAULT_TOP = 5,
    LINE_TOP    = 16, /* values that fit a line of the table */
    NOT_GIVEN   = INT_MIN
};

struct args {
    double      threshold; /* NaN: not given */
    int         values;
    int64_t     top, estimate; /* NOT_GIVEN: not given */
    const char *device, *dtype;
    int         json;
};

static const ms_option options[] = {
    { "threshold", MS_OPT_F64, AT(threshold), "D",
      "also give the share of singular values above D [none]" },
    { "values", MS_OPT_FLAG, AT(values), NULL, "print all singular values" },
    { "top", MS_OPT_I64, AT(top), "N", "print the N largest singular values [5]" },
    { "estimate", MS_OPT_I64, AT(estimate), "STEPS",
      "only estimate the spectral norm, by STEPS >= 2 Lanczos steps [exact]" },
    MS_CLI_DEVICE(struct args),
    MS_CLI_DTYPE(struct args),
    MS_CLI_JSON(struct args),
};

const ms_command *spectrum_command(void)
{
    static const ms_command command = {
        .name     = "musec spectrum",
        .operands = "FILE",
        .summary  = "singular values, norms and effective rank of every matrix in a file",
        .details =
            "FILE is an .npy array or a .safetensors file, of which every floating tensor\n"
            "that is a matrix or a 3-D stack is taken.  Four or more dimensions, a\n"
            "convolution's, are read as (d0, all others).  Effective rank: exp of the entropy\n"
            "of s / sum s.  With --values each value has a line: name, index, value.\n\n"
            "Example: musec spectrum --threshold 1 --top 3 model.safetensors\n",
        .options      = options,
        .n_options    = COUNT(options),
        .min_operands = 1,
        .max_operands = 1,
    };
    return &command;
}

struct entry { /* one matrix */
    char                *name;
    int64_t              rows, cols;
    musec_dtype          dtype;
    musec_spectrum_stats stats;  /* only norm2 where it was estimated */
    double              *values; /* (min(rows, cols)) or NULL */
};

/* Why a tensor is not read. */
enum skip { SKIP_NOT, SKIP_TYPE, SKIP_VECTOR, SKIP_EMPTY };
static const char *const skip_reasons[] = { NULL, "not floating", "not a matrix", "empty" };

struct job {
    const struct args *args;
    const char        *path;
    musec_ctx         *ctx;
    ms_log             log;
    struct entry      *entries;
    size_t             n_entries, capacity;
    json_t            *skipped;                        /* [{"name", "dtype", "why"}] */
    size_t             n_skipped[COUNT(skip_reasons)]; /* tensors, by the reason */
};

/* ---- computing ------------------------------------------------------------------------------- */

/* Appends an entry for each matrix of the view, with its name and shape. */
static musec_status add_entries(ms_error *error, struct job *j, const char *name, musec_view view,
                                int stacked)
{
    const size_t need = j->n_entries + (size_t)view.count;

    if (need > j->capacity) {
        const size_t  capacity = need + j->capacity;
        struct entry *entries  = realloc(j->entries, capacity * sizeof *entries);
        if (entries == NULL) return ms_fail(error, MUSEC_ENOMEM, "%s: not enough memory", name);
        j->entries  = entries;
        j->capacity = capacity;
    }
    for (int64_t i = 0; i < view.count; i++) {
        const size_t bytes = strlen(name) + 24;
        char        *text  = malloc(bytes);
        if (text == NULL) return ms_fail(error, MUSEC_ENOMEM, "%s: not enough memory", name);
        if (stacked)
            snprintf(text, bytes, "%s[%lld]", name, (long long)i);
        else
            snprintf(text, bytes, "%s", name);
        j->entries[j->n_entries++] = (struct entry){
            .name = text, .rows = view.rows, .cols = view.cols, .dtype = view.dtype
        };
    }
    return MUSEC_OK;
}

static musec_status estimate_view(ms_error *error, struct job *j, musec_view view)
{
    struct entry *entries = &j->entries[j->n_entries - (size_t)view.count];
    double       *norm    = calloc((size_t)view.count, sizeof *norm);
    musec_status  st;

    if (norm == NULL) return ms_fail(error, MUSEC_ENOMEM, "not enough memory for the norms");
    TRY(ms_cli_check(error, j->ctx,
                     musec_norm2_estimate(j->ctx, view, (int)j->args->estimate, 0, norm)));
    for (int64_t i = 0; i < view.count; i++)
        entries[i].stats.norm2 = norm[i];
done:
    free(norm);
    return st;
}

static musec_status measure_view(ms_error *error, struct job *j, musec_view view)
{
    const double          D       = isnan(j->args->threshold) ? 0.0 : j->args->threshold;
    const size_t          r       = (size_t)(view.rows < view.cols ? view.rows : view.cols);
    struct entry         *entries = &j->entries[j->n_entries - (size_t)view.count];
    double               *values  = calloc((size_t)view.count * r, sizeof *values);
    musec_spectrum_stats *stats   = calloc((size_t)view.count, sizeof *stats);
    musec_status          st      = MUSEC_ENOMEM;

    if (values == NULL || stats == NULL) {
        ms_fail(error, st, "not enough memory for the singular values");
        goto done;
    }
    TRY(ms_cli_check(error, j->ctx, musec_spectrum(j->ctx, view, D, values, stats)));
    for (int64_t i = 0; i < view.count; i++) {
        entries[i].stats  = stats[i];
        entries[i].values = malloc(r * sizeof *values);
        if (entries[i].values == NULL)
            TRY(ms_fail(error, MUSEC_ENOMEM, "not enough memory for the singular values"));
        memcpy(entries[i].values, values + (size_t)i * r, r * sizeof *values);
    }
done:
    free(stats);
    free(values);
    return st;
}

static musec_status take_array(ms_error *error, struct job *j, const char *name, ms_npy *array)
{
    ms_stack_shape shape;
    musec_view     view = { 0 };
    musec_status   st;

    TRY(ms_stack_shape_of(error, name, array->ndim, array->shape, 1, &shape));
    TRY(ms_stack_check_finite(error, name, array));
    TRY(ms_stack_convert(error, name, ms_cli_dtype(j->args->dtype, array->dtype), array));
    TRY(ms_stack_alloc(error, j->ctx, array->dtype, shape, &view));
    TRY(ms_stack_upload(error, j->ctx, array->data, view));
    TRY(add_entries(error, j, name, view, array->ndim == 3));
    if (j->args->estimate != NOT_GIVEN)
        TRY(estimate_view(error, j, view));
    else
        TRY(measure_view(error, j, view));
done:
    ms_stack_free(j->ctx, &view);
    return st;
}

static enum skip why_skip(const ms_tensor_info *t)
{
    if (!ms_safetensors_readable(t)) return SKIP_TYPE;
    if (t->ndim < 2) return SKIP_VECTOR;
    for (int i = 0; i < t->ndim && i < MS_NPY_DIMS; i++)
        if (t->shape[i] == 0) return SKIP_EMPTY;
    return SKIP_NOT;
}

static musec_status take_tensor(ms_error *error, struct job *j, ms_safetensors *file, size_t index)
{
    const ms_tensor_info *t     = &file->tensors[index];
    const enum skip       why   = why_skip(t);
    ms_npy                array = { 0 };
    musec_status          st    = MUSEC_OK;

    j->n_skipped[why]++;
    if (why != SKIP_NOT) {
        json_t *row = json_object();
        ms_json_add(&row, "name=%s dtype=%s why=%s", t->name, t->dtype, skip_reasons[why]);
        ms_json_append(&j->skipped, row);
        return st;
    }
    ms_log_progress(&j->log, "%zu/%zu %s", index + 1, file->n_tensors, t->name);
    TRY(ms_safetensors_read(error, file, index, &array));
    TRY(take_array(error, j, t->name, &array));
done:
    ms_npy_free(&array);
    return st;
}

static musec_status take_safetensors(ms_error *error, struct job *j)
{
    ms_safetensors file = { 0 };
    musec_status   st;

    TRY(ms_safetensors_open(error, j->path, &file));
    for (size_t i = 0; i < file.n_tensors; i++)
        TRY(take_tensor(error, j, &file, i));
    if (j->n_entries == 0)
        st = ms_fail(error, MUSEC_EINVAL,
                     "%s: no matrix among its %zu tensors (%zu vectors or scalars, %zu not "
                     "floating, %zu empty)",
                     j->path, file.n_tensors, j->n_skipped[SKIP_VECTOR], j->n_skipped[SKIP_TYPE],
                     j->n_skipped[SKIP_EMPTY]);
done:
    ms_log_end(&j->log);
    ms_safetensors_close(&file);
    return st;
}

static musec_status take_npy(ms_error *error, struct job *j)
{
    const char  *slash = strrchr(j->path, '/');
    ms_npy       array = { 0 };
    musec_status st;

    TRY(ms_npy_read(error, j->path, &array));
    TRY(take_array(error, j, slash != NULL ? slash + 1 : j->path, &array));
done:
    ms_npy_free(&array);
    return st;
}

/* ---- printing -------------------------------------------------------------------------------- */

/* The number of singular values that are shown of an entry. */
static int64_t shown_values(const struct job *j, const struct entry *entry)
{
    const int64_t r   = entry->rows < entry->cols ? entry->rows : entry->cols;
    const int64_t top = j->args->top == NOT_GIVEN ? DEFAULT_TOP : j->args->top;
    if (entry->values == NULL) return 0;
    return j->args->values || top > r ? r : top;
}

static void add_top(ms_table *table, const struct job *j, const struct entry *entry)
{
    char   text[LINE_TOP * 14] = "";
    size_t used                = 0;

    for (int64_t i = 0; i < shown_values(j, entry) && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%.5g", i == 0 ? "" : " ",
                                 entry->values[i]);
    ms_table_add(table, "%s", text);
}

/* Prints values that do not fit the table, one per line, exact to the last bit. */
static int lists_values(const struct job *j) { return j->args->values || j->args->top > LINE_TOP; }

static musec_status print_text(ms_error *error, const struct job *j, FILE *to)
{
    const int    exact = j->args->estimate == NOT_GIVEN;
    const int    share = exact && !isnan(j->args->threshold);
    const int    top   = exact && !lists_values(j) && j->args->top != 0;
    char         align[16];
    ms_table     table = { .align = align };
    musec_status st;

    snprintf(align, sizeof align, "llr%s%s%s", exact ? "rrr" : "", share ? "r" : "",
             top ? "l" : "");
    ms_table_row(&table, "matrix\tshape\t%s", exact ? "sigma1" : "sigma1 >=");
    if (exact) ms_table_row(&table, "frobenius\tnuclear\teff.rank");
    if (share) ms_table_add(&table, "above D");
    if (top) ms_table_add(&table, "largest");
    for (size_t i = 0; i < j->n_entries; i++) {
        const struct entry *entry = &j->entries[i];
        ms_table_add(&table, "%s", entry->name); /* may have tabs */
        ms_table_row(&table, "%lldx%lld\t%.6g", (long long)entry->rows, (long long)entry->cols,
                     entry->stats.norm2);
        if (exact)
            ms_table_row(&table, "%.6g\t%.6g\t%.5g", entry->stats.fro, entry->stats.nuclear,
                         entry->stats.effective_rank);
        if (share) ms_table_add(&table, "%.1f%%", 100.0 * entry->stats.share_above);
        if (top) add_top(&table, j, entry);
    }
    st = ms_table_print(error, &table, to);
    for (size_t i = 0; exact && lists_values(j) && i < j->n_entries; i++) {
        fputc('\n', to); /* a blank line between matrices: gnuplot takes them as separate curves */
        for (int64_t k = 0; k < shown_values(j, &j->entries[i]); k++) {
            ms_text_print("", j->entries[i].name, " ", to);
            fprintf(to, "%lld %.17g\n", (long long)k, j->entries[i].values[k]);
        }
    }
    ms_table_free(&table);
    return st;
}

static json_t *entry_json(const struct job *j, const struct entry *entry)
{
    const double share  = isnan(j->args->threshold) ? NAN : entry->stats.share_above;
    json_t      *object = json_object(), *values = json_array();

    ms_json_add(&object, "name=%s rows=%lld cols=%lld dtype=%s norm2=%g", entry->name,
                (long long)entry->rows, (long long)entry->cols, ms_dtype_name(entry->dtype),
                entry->stats.norm2);
    if (j->args->estimate == NOT_GIVEN) {
        ms_json_add(&object, "fro=%g nuclear=%g effective_rank=%g share_above=%g", entry->stats.fro,
                    entry->stats.nuclear, entry->stats.effective_rank, share);
        for (int64_t k = 0; k < shown_values(j, entry); k++)
            ms_json_append(&values, ms_json_real(entry->values[k]));
        ms_json_set(&object, "values", values);
        values = NULL;
    }
    json_decref(values);
    return object;
}

static musec_status print_json(ms_error *error, const struct job *j, FILE *to)
{
    const int64_t steps    = j->args->estimate;
    json_t       *matrices = json_array(), *root = json_object();

    for (size_t i = 0; i < j->n_entries; i++)
        ms_json_append(&matrices, entry_json(j, &j->entries[i]));
    ms_json_add(&root, "file=%s device=%s threshold=%g estimate=%p matrices=%p", j->path,
                musec_ctx_device(j->ctx), j->args->threshold,
                (void *)(steps == NOT_GIVEN ? json_null() : json_integer(steps)), (void *)matrices);
    ms_json_set(&root, "skipped", json_incref(j->skipped));
    return ms_json_finish(error, root, to);
}

/* ---- the command ----------------------------------------------------------------------------- */

static musec_status check_values(ms_error *error, const struct args *a)
{
    if (!isnan(a->threshold) && !(a->threshold > 0.0))
        return ms_fail(error, MUSEC_EINVAL, "--threshold must be above 0, not %g", a->threshold);
    if (a->top != NOT_GIVEN && a->top < 0)
        return ms_fail(error, MUSEC_EINVAL, "--top must be 0 or more, not %lld", (long long)a->top);
    if (a->estimate != NOT_GIVEN && (a->estimate < 2 || a->estimate > INT_MAX))
        return ms_fail(error, MUSEC_EINVAL, "--estimate must be 2 steps or more, not %lld",
                       (long long)a->estimate);
    return MUSEC_OK;
}

static musec_status run(ms_error *error, struct job *j)
{
    musec_status st;

    TRY(check_values(error, j->args));
    TRY(ms_cli_open(error, j->args->device, &j->ctx));
    TRY(ms_text_ends_with(j->path, ".safetensors") ? take_safetensors(error, j)
                                                   : take_npy(error, j));
    TRY(j->args->json ? print_json(error, j, stdout) : print_text(error, j, stdout));
    if (json_array_size(j->skipped) > 0)
        ms_log_say(&j->log, MS_LOG_NORMAL,
                   "musec spectrum: skipped %zu of the tensors: %zu vectors or scalars, %zu not "
                   "floating, %zu empty",
                   json_array_size(j->skipped), j->n_skipped[SKIP_VECTOR], j->n_skipped[SKIP_TYPE],
                   j->n_skipped[SKIP_EMPTY]);
done:
    return st;
}

int cmd_spectrum(int argc, char **argv)
{
    const ms_command *cmd   = spectrum_command();
    struct args       a     = { .threshold = NAN, .top = NOT_GIVEN, .estimate = NOT_GIVEN };
    const int         n     = ms_options_parse(cmd, &a, argc, argv);
    struct job        j     = { .args = &a };
    ms_error          error = { "" };
    int               code  = EXIT_OK;

    if (n < 0) return ms_cli_parsed(n);
    if (a.estimate != NOT_GIVEN && (a.values || a.top != NOT_GIVEN || !isnan(a.threshold)))
        return ms_cli_usage(
            cmd, "--estimate gives the norm alone: leave out --values, --top, --threshold");
    j.path    = argv[1];
    j.log     = ms_log_open(stderr, MS_LOG_NORMAL);
    j.skipped = json_array();
    if (run(&error, &j) != MUSEC_OK) code = ms_cli_fail(cmd, &error);
    json_decref(j.skipped);
    for (size_t i = 0; i < j.n_entries; i++) {
        free(j.entries[i].values);
        free(j.entries[i].name);
    }
    free(j.entries);
    musec_ctx_destroy(j.ctx);
    return code;
}
