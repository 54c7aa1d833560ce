/* theory_params.c - musec theory params: the Corollary's parameters, constraints and bound. */
#include <math.h>

#include "cli/cli.h"
#include "core/json_file.h"
#include "core/table.h"
#include "theory/params.h"

struct args {
    double  delta, rho, lipschitz, sigma, gap, epsilon;
    int64_t steps, rank;
    int     json;
};

static const ms_option options[] = {
    { "delta", MS_OPT_F64, AT(delta), "X", "radius of the Goldstein subdifferential [needed]" },
    { "steps", MS_OPT_I64, AT(steps), "N", "number of stochastic gradients in all [needed]" },
    { "rank", MS_OPT_I64, AT(rank), "R", "smaller side of the matrix [needed]" },
    { "rho", MS_OPT_F64, AT(rho), "X", "weak convexity: f + (rho/2) |W|_F^2 is convex [1]" },
    { "lipschitz", MS_OPT_F64, AT(lipschitz), "L",
      "bound on the norm of stochastic gradients [1]" },
    { "sigma", MS_OPT_F64, AT(sigma), "X", "standard deviation of the stochastic gradients [1]" },
    { "gap", MS_OPT_F64, AT(gap), "X", "gap of f(W_0) above the infimum of f [1]" },
    { "epsilon", MS_OPT_F64, AT(epsilon), "E",
      "also compute the steps needed for a bound of E [no]" },
    MS_CLI_JSON(struct args),
};

const ms_command *theory_params_command(void)
{
    static const ms_command command = {
        .name     = "musec theory params",
        .operands = "",
        .summary  = "what the paper's Corollary chooses for N steps, and what it promises",
        .details  = "T and K are whole numbers, rounded down.  A constraint that does not hold is\n"
                    "named, with the least N at which all do; the bound says nothing then.  Norms\n"
                    "are Frobenius norms.  Where noise is added to a gradient of norm L, give\n"
                    "sqrt(L^2 + sigma^2) for L.\n\n"
                    "Examples: musec theory params --delta 0.1 --steps 1000000 --rank 8\n"
                    "          musec theory params --delta 1 --steps 4096 --rank 4 --epsilon 0.5\n",
        .options  = options,
        .n_options = COUNT(options),
    };
    return &command;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static musec_status print_values(ms_error *e, const ms_theory_params *p, FILE *to)
{
    ms_table t = { .align = "lrl" };

    ms_table_row(&t, "parameter\tvalue\tis");
    ms_table_row(&t, "T\t%lld\tsteps in an epoch: (delta N)^(2/3), rounded down", (long long)p->T);
    ms_table_row(&t, "K\t%lld\tepochs: N / T, rounded down", (long long)p->K);
    ms_table_row(&t, "D\t%.6g\tclipping threshold: (delta N)^(-1/3)", p->D);
    ms_table_row(&t, "beta\t%.6g\tweight of the new gradient: sqrt(r) (delta N)^(-2/3)", p->beta);
    ms_table_row(&t, "eta\t%.6g\tlearning rate: delta^(2/3) r^(-1/2) N^(-1/3)", p->eta);
    ms_table_row(&t, "gamma\t%.6g\tbeta / eta", p->gamma);
    return ms_table_finish(e, &t, to);
}

static musec_status print_constraints(ms_error *e, const ms_theory_params *p, FILE *to)
{
    ms_table     table = { .align = "llrrlr" };
    musec_status st;

    fputc('\n', to);
    ms_table_row(&table, "constraint\tis\tleft\tright\tholds\tfrom N");
    for (int i = 0; i < MS_THEORY_N_CONSTRAINTS; i++) {
        const ms_theory_constraint *c = &p->constraint[i];
        ms_table_row(&table, "%s\t%s\t%.6g\t%.6g\t%s\t%.6g", c->name, c->formula, c->left, c->right,
                     c->holds ? "yes" : "NO", fmax(1.0, c->steps));
    }
    st = ms_table_finish(e, &table, to);
    for (int i = 0; i < MS_THEORY_N_CONSTRAINTS; i++)
        if (!p->constraint[i].holds)
            fprintf(to, "%s does not hold; it is there so that %s.\n", p->constraint[i].formula,
                    p->constraint[i].why);
    fprintf(to, "%s; the least N at which they do is %lld.\n",
            p->all_hold ? "All constraints hold" : "Not all constraints hold",
            (long long)p->least_steps);
    return st;
}

static musec_status print_bound(ms_error *e, const ms_theory_params *p, FILE *to)
{
    const ms_theory_bound *b = &p->bound, *r = &p->bound_real;
    ms_table               t = { .align = "lrrl" };

    fputc('\n', to);
    ms_table_row(&t, "term\tT, K whole\tnot rounded\tis");
    ms_table_row(&t, "noise\t%.6g\t%.6g\tsigma / sqrt(T)", b->noise, r->noise);
    ms_table_row(&t, "clip\t%.6g\t%.6g\tD", b->clip, r->clip);
    ms_table_row(&t, "start\t%.6g\t%.6g\t2 r D / (beta T)", b->start, r->start);
    ms_table_row(&t, "steps\t%.6g\t%.6g\tbeta L^2 / D", b->steps, r->steps);
    ms_table_row(&t, "gap\t%.6g\t%.6g\tgamma gap / (beta D T K)", b->gap, r->gap);
    ms_table_row(&t, "bound\t%.6g\t%.6g\ton the mean distance from 0 to the subdifferential",
                 b->total, r->total);
    return ms_table_finish(e, &t, to);
}

static void print_complexity(double epsilon, const ms_theory_complexity *c, FILE *to)
{
    const bool exact = c->steps <= 0x1p53; /* above, the last digits mean nothing */
    fprintf(to, exact ? "\nA bound of %g takes N = %.0f" : "\nA bound of %g takes N = %.6g",
            epsilon, c->steps);
    fprintf(to, " steps (the bound alone asks for %.6g", c->steps_bound);
    if (c->whole > 0)
        fprintf(to, "), and N = %lld where T and K are whole.\n", (long long)c->whole);
    else
        fprintf(to, "): more than can be counted here.\n");
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *bound_json(const ms_theory_bound *b)
{
    json_t *object = json_object();
    ms_json_add(&object, "noise=%g clip=%g start=%g steps=%g gap=%g total=%g", b->noise, b->clip,
                b->start, b->steps, b->gap, b->total);
    return object;
}

static json_t *constraints_json(const ms_theory_params *p)
{
    json_t *array = json_array();
    for (int i = 0; i < MS_THEORY_N_CONSTRAINTS; i++) {
        const ms_theory_constraint *c      = &p->constraint[i];
        json_t                     *object = json_object();
        ms_json_add(&object, "name=%s formula=%s left=%g right=%g holds?=%d from_steps=%g", c->name,
                    c->formula, c->left, c->right, c->holds, c->steps);
        ms_json_append(&array, object);
    }
    return array;
}

static json_t *complexity_json(double epsilon, const ms_theory_complexity *c)
{
    json_t *object = json_object();
    ms_json_add(&object, "epsilon=%g constant=%g steps_bound=%g steps=%g steps_whole=%p", epsilon,
                c->constant, c->steps_bound, c->steps,
                (void *)(c->whole > 0 ? json_integer(c->whole) : json_null()));
    return object;
}

static musec_status print_json(ms_error *e, const struct args *a, const ms_theory_params *p,
                               const ms_theory_complexity *c, FILE *to)
{
    json_t            *root, *given = NULL;
    const musec_status st = ms_cli_options(e, theory_params_command(), a, &given);

    if (st != MUSEC_OK) return st;
    root = json_object();
    ms_json_add(&root,
                "given=%p T=%lld K=%lld D=%g beta=%g eta=%g gamma=%g T_real=%g K_real=%g "
                "constraints=%p all_hold?=%d least_steps=%lld bound=%p bound_real=%p complexity=%p",
                (void *)given, (long long)p->T, (long long)p->K, p->D, p->beta, p->eta, p->gamma,
                p->T_real, p->K_real, (void *)constraints_json(p), p->all_hold,
                (long long)p->least_steps, (void *)bound_json(&p->bound),
                (void *)bound_json(&p->bound_real),
                (void *)(c == NULL ? json_null() : complexity_json(a->epsilon, c)));
    return ms_json_finish(e, root, to);
}

/* ---- the command ----------------------------------------------------------------------------- */

static musec_status run(ms_error *e, const struct args *a)
{
    const int            wants = !isnan(a->epsilon);
    ms_theory_complexity c     = { 0 };
    ms_theory_params     p     = { .delta     = a->delta,
                                   .steps     = a->steps,
                                   .rank      = (double)a->rank,
                                   .rho       = a->rho,
                                   .lipschitz = a->lipschitz,
                                   .sigma     = a->sigma,
                                   .gap       = a->gap };
    musec_status         st;

    TRY(ms_theory_params_set(e, &p));
    if (wants) TRY(ms_theory_complexity_of(e, &p, a->epsilon, &c));
    if (a->json) return print_json(e, a, &p, wants ? &c : NULL, stdout);
    TRY(print_values(e, &p, stdout));
    TRY(print_constraints(e, &p, stdout));
    TRY(print_bound(e, &p, stdout));
    if (wants) print_complexity(a->epsilon, &c, stdout);
done:
    return st;
}

int cmd_theory_params(int argc, char **argv)
{
    const ms_command *cmd = theory_params_command();
    struct args       a   = { .delta     = NAN,
                              .epsilon   = NAN,
                              .steps     = INT64_MIN,
                              .rank      = INT64_MIN,
                              .rho       = 1.0,
                              .lipschitz = 1.0,
                              .sigma     = 1.0,
                              .gap       = 1.0 };
    const int         n   = ms_options_parse(cmd, &a, argc, argv);
    ms_error          e   = { "" };

    if (n < 0) return ms_cli_parsed(n);
    if (isnan(a.delta) || a.steps == INT64_MIN || a.rank == INT64_MIN)
        return ms_cli_usage(cmd, "needs --%s",
                            isnan(a.delta)         ? "delta, a number above 0"
                            : a.steps == INT64_MIN ? "steps, a number of 1 or more"
                                                   : "rank, a number of 1 or more");
    return run(&e, &a) == MUSEC_OK ? EXIT_OK : ms_cli_fail(cmd, &e);
}
