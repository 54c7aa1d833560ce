/* cmd_bench.c - musec bench: times what the library is made of. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "core/log.h"
#include "op_bench.h"

struct args {
    const char *filter;
    int64_t     repeats;
    int         quick;
    const char *device;
    int         json;
};

static const ms_option options[] = {
    { "filter", MS_OPT_STR, offsetof(struct args, filter), "TEXT",
      "only the rows whose name holds TEXT [all]" },
    { "repeats", MS_OPT_I64, offsetof(struct args, repeats), "N",
      "rounds to run, of which the median counts; 0: 9, or 3 with --quick [0]" },
    { "quick", MS_OPT_FLAG, offsetof(struct args, quick), NULL, "small sizes only, in seconds" },
    MS_CLI_DEVICE(struct args),
    MS_CLI_JSON(struct args),
};

const ms_command *bench_command(void)
{
    static const ms_command command = {
        .name      = "musec bench",
        .operands  = "ops",
        .summary   = "time operators and the operations below them, beside their naive forms",
        .details   = "ops: matrix products as a share of CBLAS called directly, and each operator\n"
                     "beside the literal form of the paper, all in one run.\n\n"
                     "Example: musec bench ops --filter fast\n",
        .options   = options,
        .n_options = COUNT(options),
        .min_operands = 1,
        .max_operands = 1,
    };
    return &command;
}

int cmd_bench(int argc, char **argv)
{
    const ms_command *cmd   = bench_command();
    struct args       a     = { 0 };
    const int         n     = ms_options_parse(cmd, &a, argc, argv);
    ms_error          error = { "" };
    ms_log            log   = ms_log_open(stderr, MS_LOG_NORMAL);
    ms_bench_options  opt;
    musec_status      st;

    if (n < 0) return n == MS_OPT_HELP ? EXIT_OK : EXIT_USAGE;
    if (strcmp(argv[1], "ops") != 0)
        return ms_cli_usage(cmd, "there is nothing called \"%s\" to time, only \"ops\"", argv[1]);
    if (a.repeats < 0) {
        ms_fail(&error, MUSEC_EINVAL, "--repeats must be 0 or more, not %lld",
                (long long)a.repeats);
        return ms_cli_fail(cmd, &error);
    }
    opt = (ms_bench_options){ .device  = a.device,
                              .filter  = a.filter,
                              .json    = a.json,
                              .repeats = a.repeats,
                              .quick   = a.quick };
    st  = ms_bench_ops(&opt, &log, stdout, &error);
    ms_log_end(&log);
    return st == MUSEC_OK ? EXIT_OK : ms_cli_fail(cmd, &error);
}
