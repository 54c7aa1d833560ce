/* cmd_info.c - musec info: version, devices and libraries of this build, speed of this machine. */
#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/stack.h"
#include "cli/watch_server.h"
#include "comm/comm.h"
#include "core/json_file.h"
#include "core/table.h"
#include "core/thread.h"
#include "data/http.h"
#include "data/pretokenize.h"
#include "data/unpack.h"
#include "device/device.h"
#include "timing.h"

struct args {
    int         no_peak;
    const char *device;
    int         json;
};

static const ms_option options[] = {
    { "no-peak", MS_OPT_FLAG, AT(no_peak), NULL,
      "do not measure memory bandwidth and matrix-product speed" },
    MS_CLI_DEVICE(struct args),
    MS_CLI_JSON(struct args),
};

const ms_command *info_command(void)
{
    static const ms_command command = {
        .name      = "musec info",
        .operands  = "",
        .summary   = "version, devices, libraries found, peak figures of this machine",
        .details   = "The peak figures are measured on --device, through the operations that the\n"
                     "operators are made of: copying 64 MiB, or 1 GiB on a GPU, and the largest\n"
                     "product that is quick.\n",
        .options   = options,
        .n_options = COUNT(options),
    };
    return &command;
}

/* ---- how it was built ------------------------------------------------------------------------ */

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "unknown compiler"
#endif

#if defined(__x86_64__)
#define MACHINE "x86-64"
#elif defined(__aarch64__)
#define MACHINE "arm64"
#else
#define MACHINE "another architecture"
#endif

#if defined(__AVX512F__)
#define VECTORS ", AVX-512"
#elif defined(__AVX2__)
#define VECTORS ", AVX2"
#else
#define VECTORS ""
#endif

#ifdef __OPTIMIZE__
#define OPTIMIZED "optimized"
#else
#define OPTIMIZED "not optimized"
#endif

#ifdef __SANITIZE_ADDRESS__
#define SANITIZED ", sanitizers"
#else
#define SANITIZED ""
#endif

#define X(name, code, text, bytes) " " text
static const char         build_text[] =
    COMPILER ", " MACHINE VECTORS ", " OPTIMIZED SANITIZED ", arithmetic" MUSEC_DTYPE_MAP(X);
#undef X

/* ---- what is here ---------------------------------------------------------------------------- */

/* Programs that some commands or documents run; the library needs none of them. */
static const struct {
    const char *program, *package, *purpose;
} programs[] = {
    { "rsvg-convert", "librsvg2-bin", "PNG files" },
    { "duckdb", "duckdb", "Parquet files (data get openwebtext)" },
};

/* Finds `program` on PATH and writes its path; 0: it is not there. */
static int find_program(const char *program, char *path, size_t bytes)
{
    const char *dir = getenv("PATH");

    while (dir != NULL && *dir != '\0') {
        const size_t n = strcspn(dir, ":");
        snprintf(path, bytes, "%.*s/%s", n == 0 ? 1 : (int)n, n == 0 ? "." : dir, program);
        if (access(path, X_OK) == 0) return 1;
        dir += n + (dir[n] == ':');
    }
    path[0] = '\0';
    return 0;
}

enum { DESCRIPTION = 1024 };

/* Tries to open the device: if it can be, `what` may describe it, else `why` has the reason. */
static musec_status try_open(const ms_device_kind *kind, char what[DESCRIPTION], ms_error *why)
{
    musec_ctx         *ctx = NULL;
    const musec_status st  = ms_cli_open(why, kind->name, &ctx);
    what[0]                = '\0';
    if (st == MUSEC_OK && kind->describe != NULL) kind->describe(ctx, what, DESCRIPTION);
    musec_ctx_destroy(ctx);
    return st;
}

/* The description without the name of the device in front of it. */
static const char *why_not(const ms_device_kind *kind, const ms_error *why)
{
    const size_t n = strlen(kind->name);
    return strncmp(why->text, kind->name, n) == 0 && strncmp(why->text + n, ": ", 2) == 0
               ? why->text + n + 2
               : why->text;
}

/* ---- peak figures ---------------------------------------------------------------------------- */

/* The best of a few tries: other load on the machine only makes them slower.  Copies are of 64 MiB,
 * beyond most caches, and on a GPU of 1 GiB.  Products double in size until the next one would
 * exceed its share of time, so that a slow device answers as soon as a fast one.  A GPU gets random
 * numbers, as it is faster on equal ones. */
enum { TRIES = 3, GEMM_FIRST = 128 };

static const double gemm_budget_ms = 200.0; /* for each dtype */

struct peak {
    double copy_gb_s;                   /* bytes read and written */
    double gemm_gflop_s[MUSEC_F16 + 1]; /* by dtype; 0: the device does not have it */
};

static musec_status fill(ms_error *error, ms_device *d, double value, musec_view out)
{
    const ms_device_ops *op = d->ops;
    return ms_cli_check(error, d,
                        ms_is_on_host(d) ? op->fill(d, value, ms_mat_of(out))
                                         : op->uniform(d, 1, -value, value, ms_mat_of(out)));
}

static musec_status measure_copy(ms_error *error, ms_device *d, double *gb_s)
{
    const int64_t        side  = ms_is_on_host(d) ? 4096 : 16384;
    const ms_stack_shape shape = { 1, side, side };
    const double         bytes = 2.0 * sizeof(float) * (double)(side * side);
    musec_view           from = { 0 }, to = { 0 };
    musec_status         st;

    TRY(ms_stack_alloc(error, d, MUSEC_F32, shape, &from));
    TRY(ms_stack_alloc(error, d, MUSEC_F32, shape, &to));
    TRY(fill(error, d, 1.0, from)); /* the first touch maps the pages */
    TRY(fill(error, d, 0.0, to));
    *gb_s = 0.0;
    for (int i = 0; i < TRIES; i++) {
        double begin = 0.0, end = 0.0;
        TRY(ms_cli_check(error, d, d->ops->now_ms(d, &begin)));
        TRY(ms_cli_check(error, d, d->ops->copy(d, ms_mat_of(from), ms_mat_of(to))));
        TRY(ms_cli_check(error, d, d->ops->now_ms(d, &end)));
        if (end > begin && bytes / (end - begin) / 1e6 > *gb_s) *gb_s = bytes / (end - begin) / 1e6;
    }
done:
    ms_stack_free(d, &to);
    ms_stack_free(d, &from);
    return st;
}

/* Finds the best time of an n x n x n product, and subtracts the time used from `budget_ms`.
 * Repeats until a larger product would fit into the rest: one slow try never ends the search. */
static musec_status time_gemm(ms_error *error, ms_device *d, musec_dtype dtype, int64_t n,
                              double *budget_ms, double *best_ms)
{
    const ms_stack_shape shape = { 1, n, n };
    musec_view           a = { 0 }, b = { 0 }, c = { 0 };
    musec_status         st;

    TRY(ms_stack_alloc(error, d, dtype, shape, &a));
    TRY(ms_stack_alloc(error, d, dtype, shape, &b));
    TRY(ms_stack_alloc(error, d, dtype, shape, &c));
    TRY(fill(error, d, 0.5, a));
    TRY(fill(error, d, 0.25, b));
    /* the first product of its kind opens libraries and chooses a kernel */
    if (!ms_is_on_host(d))
        TRY(ms_cli_check(error, d,
                         d->ops->gemm(d, 1.0, ms_mat_of(a), ms_mat_of(b), 0.0, ms_mat_of(c))));
    *best_ms = 0.0;
    for (int i = 0; i < TRIES || (*budget_ms > 0.0 && 8.0 * TRIES * *best_ms > *budget_ms); i++) {
        double begin = 0.0, end = 0.0;
        TRY(ms_cli_check(error, d, d->ops->now_ms(d, &begin)));
        TRY(ms_cli_check(error, d,
                         d->ops->gemm(d, 1.0, ms_mat_of(a), ms_mat_of(b), 0.0, ms_mat_of(c))));
        TRY(ms_cli_check(error, d, d->ops->now_ms(d, &end)));
        if (i == 0 || end - begin < *best_ms) *best_ms = end - begin;
        *budget_ms -= end - begin;
    }
done:
    ms_stack_free(d, &c);
    ms_stack_free(d, &b);
    ms_stack_free(d, &a);
    return st;
}

static musec_status measure_gemm(ms_error *error, ms_device *d, musec_dtype dtype, double *gflop_s)
{
    const int64_t last      = ms_is_on_host(d) ? 2048 : 8192;
    double        budget_ms = gemm_budget_ms;
    musec_status  st        = MUSEC_OK;

    *gflop_s = 0.0;
    for (int64_t n = GEMM_FIRST; n <= last && budget_ms > 0.0; n *= 2) {
        const double flop = 2.0 * (double)n * (double)n * (double)n;
        double       ms   = 0.0;
        TRY(time_gemm(error, d, dtype, n, &budget_ms, &ms));
        if (ms > 0.0 && flop / ms / 1e6 > *gflop_s) *gflop_s = flop / ms / 1e6;
    }
done:
    return st;
}

static musec_status measure_peak(ms_error *error, ms_device *d, struct peak *out)
{
    musec_status st;

    TRY(measure_copy(error, d, &out->copy_gb_s));
    for (musec_dtype t = MUSEC_F32; t <= MUSEC_F16; t = (musec_dtype)(t + 1)) {
        out->gemm_gflop_s[t] = 0.0;
        if (ms_device_has(d, t)) TRY(measure_gemm(error, d, t, &out->gemm_gflop_s[t]));
    }
done:
    return st;
}

/* ---- printing -------------------------------------------------------------------------------- */

struct facts {
    char               blas[256];
    int                threads;
    bool               has_mpi;
    char               mpi[DESCRIPTION]; /* which one, or why there is none */
    bool               has_nccl;
    char               nccl[DESCRIPTION];
    const char        *measured_on; /* NULL: not measured */
    const struct peak *peak;
};

static musec_status print_text(ms_error *error, const struct facts *facts)
{
    ms_table          table = { .align = "ll" };
    ms_unpack_library library;
    char              path[1024], what[DESCRIPTION];
    ms_error          why;

#define ROW(label, ...) (ms_table_add(&table, "%s", label), ms_table_add(&table, __VA_ARGS__))
/* The version of a library, or what to install. */
#define VERSION(label, v, absent) ROW(label, "%s", (v) != NULL ? (v) : (absent))
    ROW("musec", "%s", musec_version());
    ROW("built by", "%s", build_text);
    for (size_t i = 0; ms_device_kind_at(i) != NULL; i++) {
        const ms_device_kind *kind = ms_device_kind_at(i);
        const musec_status    st   = try_open(kind, what, &why);
        const bool            yes  = st == MUSEC_OK;
        if (st == MUSEC_ENOMEM) table.out_of_memory = true; /* it says nothing of the device */
        ROW("device", "%s: %s%s%s", kind->name, kind->description,
            !yes              ? " - absent here: "
            : what[0] != '\0' ? " - here: "
                              : "",
            yes ? what : why_not(kind, &why));
    }
    ROW("blas", "%s", facts->blas);
    ROW("threads", "%d", facts->threads);
    ROW("jansson", "%s", jansson_version_str());
    VERSION("utf8proc", ms_utf8proc_version(),
            "absent; for GPT-2's tokenizer install libutf8proc-dev and build again");
    for (size_t i = 0; ms_unpack_library_at(i, &library); i++) {
        if (library.version != NULL)
            ROW(library.name, "%s", library.version);
        else
            ROW(library.name, "absent; to read %s install the package %s and build again",
                library.packing, library.package);
    }
    VERSION("libmicrohttpd", ms_watch_server_version(),
            "absent; for the page of musec watch install libmicrohttpd-dev and build again");
    VERSION("libcurl", ms_http_version(),
            "absent; for data get install libcurl4-openssl-dev and build again");
    ROW("mpi", "%s%s", facts->has_mpi ? "" : "absent; for training on several ranks: ", facts->mpi);
    ROW("nccl", "%s%s",
        facts->has_nccl ? "" : "absent; for training on several GPUs: ", facts->nccl);
    for (size_t i = 0; i < COUNT(programs); i++) {
        if (find_program(programs[i].program, path, sizeof path))
            ROW("program", "%s: %s", programs[i].program, path);
        else
            ROW("program", "%s: absent; for %s install the package %s", programs[i].program,
                programs[i].purpose, programs[i].package);
    }
    if (facts->peak != NULL) {
        ROW("peak on", "%s", facts->measured_on);
        ROW("copy", "%.1f GB/s", facts->peak->copy_gb_s);
        for (musec_dtype t = MUSEC_F32; t <= MUSEC_F16; t = (musec_dtype)(t + 1)) {
            if (facts->peak->gemm_gflop_s[t] <= 0.0) continue;
            ms_table_row(&table, "gemm %s\t%.1f GFLOP/s", ms_dtype_name(t),
                         facts->peak->gemm_gflop_s[t]);
        }
    }
#undef VERSION
#undef ROW
    return ms_table_finish(error, &table, stdout);
}

static json_t *devices_json(void)
{
    json_t *list = json_array();
    char    what[DESCRIPTION];

    for (size_t i = 0; ms_device_kind_at(i) != NULL; i++) {
        const ms_device_kind *kind = ms_device_kind_at(i);
        ms_error              why  = { "" };
        const musec_status    st   = try_open(kind, what, &why);
        const bool            yes  = st == MUSEC_OK;
        json_t               *row  = st == MUSEC_ENOMEM ? NULL : json_object();

        ms_json_add(&row, "name=%s words=%s opens?=%d here=%s error=%s", kind->name,
                    kind->description, yes, what[0] != '\0' ? what : NULL, yes ? NULL : why.text);
        ms_json_append(&list, row);
    }
    return list;
}

static json_t *programs_json(void)
{
    json_t *list = json_array();
    char    path[1024];

    for (size_t i = 0; i < COUNT(programs); i++) {
        const int found = find_program(programs[i].program, path, sizeof path);
        json_t   *row   = json_object();

        ms_json_add(&row, "name=%s package=%s purpose=%s path=%s", programs[i].program,
                    programs[i].package, programs[i].purpose, found ? path : NULL);
        ms_json_append(&list, row);
    }
    return list;
}

static json_t *peak_json(const struct facts *facts)
{
    json_t *peak;

    if (facts->peak == NULL) return json_null();
    peak = json_object();
    ms_json_add(&peak, "device=%s copy_gb_s=%g", facts->measured_on, facts->peak->copy_gb_s);
    for (musec_dtype t = MUSEC_F32; t <= MUSEC_F16; t = (musec_dtype)(t + 1)) {
        char name[32];
        snprintf(name, sizeof name, "gemm_%s_gflop_s", ms_dtype_name(t));
        if (facts->peak->gemm_gflop_s[t] > 0.0)
            ms_json_set(&peak, name, ms_json_real(facts->peak->gemm_gflop_s[t]));
    }
    return peak;
}

static musec_status print_json(ms_error *error, const struct facts *facts)
{
    json_t           *root = json_object(), *libraries = json_object();
    ms_unpack_library library;

    ms_json_add(&libraries, "blas=%s jansson=%s utf8proc=%s", facts->blas, jansson_version_str(),
                ms_utf8proc_version());
    for (size_t i = 0; ms_unpack_library_at(i, &library); i++)
        ms_json_set(&libraries, library.name,
                    library.version != NULL ? ms_json_string(library.version) : json_null());
    ms_json_add(&libraries, "libmicrohttpd=%s libcurl=%s mpi=%s nccl=%s", ms_watch_server_version(),
                ms_http_version(), facts->has_mpi ? facts->mpi : NULL,
                facts->has_nccl ? facts->nccl : NULL);
    ms_json_add(&root,
                "version=%s build=%s devices=%p threads=%lld libraries=%p programs=%p peak=%p",
                musec_version(), build_text, (void *)devices_json(), (long long)facts->threads,
                (void *)libraries, (void *)programs_json(), (void *)peak_json(facts));
    return ms_json_finish(error, root, stdout);
}

static musec_status run(ms_error *error, const struct args *a)
{
    struct facts facts = { .threads = ms_thread_count() };
    struct peak  best  = { 0 };
    musec_ctx   *ctx   = NULL;
    musec_status st;

    ms_device_cpu_describe(NULL, facts.blas, sizeof facts.blas);
    TRY(ms_comm_mpi_describe(error, facts.mpi, sizeof facts.mpi, &facts.has_mpi));
    ms_comm_nccl_describe(facts.nccl, sizeof facts.nccl, &facts.has_nccl);
    if (a->device != NULL)
        TRY(ms_cli_open(error, a->device, &ctx));
    else /* the rows of the devices have the reasons */
        TRY(ms_cli_open(error, NULL, &ctx));
    if (!a->no_peak) {
        TRY(measure_peak(error, ctx, &best));
        facts.peak        = &best;
        facts.measured_on = musec_ctx_device(ctx);
    }
    TRY(a->json ? print_json(error, &facts) : print_text(error, &facts));
done:
    musec_ctx_destroy(ctx);
    return st;
}

int cmd_info(int argc, char **argv)
{
    const ms_command *cmd   = info_command();
    struct args       a     = { 0 };
    const int         n     = ms_options_parse(cmd, &a, argc, argv);
    ms_error          error = { "" };

    if (n < 0) return ms_cli_parsed(n);
    return run(&error, &a) == MUSEC_OK ? EXIT_OK : ms_cli_fail(cmd, &error);
}
