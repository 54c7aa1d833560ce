/* plan_print.c - see plan.h. */
#include "cli/plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/train_start.h"
#include "core/json_file.h"
#include "core/table.h"

static const double gib = 0x1p30, mib = 0x1p20;

/* ---- links and rates ------------------------------------------------------------------------- */

static double gbps(const ms_scaling_link *l) { return 8e-6 / l->ms_byte; }

static void put_link(const ms_scaling_link *l, const char *where, FILE *to)
{
    if (l->ms_byte > 0.0)
        fprintf(to, "%.3g Gbit/s and %.3g us %s", gbps(l), l->ms * 1e3, where);
    else
        fprintf(to, "no limit and %.3g us %s", l->ms * 1e3, where);
}

static int64_t count_parameters(const ms_scaling_plan *p)
{
    int64_t n = 0;
    for (size_t i = 0; i < p->job.n_params; i++)
        n += p->job.params[i].rows * p->job.params[i].cols;
    return n;
}

static void print_head(const ms_scaling_plan *p, FILE *to)
{
    const ms_scaling_machine *m   = &p->machine;
    const ms_scaling_job     *job = &p->job;
    char                      parameters[32], batch[32], each[32];

    ms_count_text(count_parameters(p), parameters, sizeof parameters);
    ms_count_text(job->batch, batch, sizeof batch);
    ms_count_text(job->batch / job->micro_batches, each, sizeof each);
    fprintf(to, "model:   %s, %s parameters, %s\n", ms_preset_name((size_t)p->config->preset, NULL),
            parameters, p->config->optim.name);
    fprintf(to, "rates:   %s; %.4g tokens/s forward and backward", p->source,
            1e3 / (m->token_ms + m->pass_ms / ((double)job->batch / (double)job->micro_batches)));
    if (m->pass_ms > 0.0) fprintf(to, ", of a pass %.3g ms whatever its tokens", m->pass_ms);
    fprintf(to, "\n");
    if (p->linked) {
        fprintf(to, "links:   ");
        put_link(&m->net, m->per_node > 1 ? "between nodes" : "between ranks", to);
        if (m->per_node > 1) {
            fprintf(to, ", ");
            put_link(&m->node, "within one of ", to);
            fprintf(to, "%lld ranks", (long long)m->per_node);
        }
        if (p->measured > 0) fprintf(to, ", measured on %d ranks at once", p->measured);
        fprintf(to, "\n");
    }
    fprintf(to, "step:    %s tokens in micro-batches of %s, %s\n\n", batch, each,
            job->weak ? "on each rank" : "shared by the ranks");
}

/* ---- tables ---------------------------------------------------------------------------------- */

static musec_status print_steps(ms_error *e, const ms_scaling_plan *p, FILE *to)
{
    ms_table t = { .align = "rrrrrrrrrrrr" };

    ms_table_row(&t, "ranks\ttokens\tpasses\tof\tcompute ms\treading\toptimizer\tcommunication\t"
                     "step ms\ttokens/s\tefficiency\tmemory GiB");
    for (size_t i = 0; i < p->n_rows; i++) {
        const ms_scaling_row *r = &p->row[i];
        ms_table_row(&t, "%lld\t%lld\t%lld\t%lld\t%.4g\t%.3g\t%.3g\t%.4g\t%.4g\t%.4g\t%.3g\t%.2f",
                     (long long)r->ranks, (long long)r->batch, (long long)r->passes,
                     (long long)r->tokens, r->compute_ms, r->read_ms, r->optim_ms,
                     r->grad_ms + r->weight_ms + r->agree_ms, r->step_ms, r->tokens_s,
                     r->efficiency, r->memory / gib);
    }
    return ms_table_finish(e, &t, to);
}

static musec_status print_messages(ms_error *e, const ms_scaling_plan *p, FILE *to)
{
    ms_table t = { .align = "rrrrrrrrrr" };

    fprintf(to, "\ncommunication of the busiest rank%s; gradients by %s, weights by broadcasts\n",
            p->job.gpus ? "" : ", most of it while it computes",
            p->job.deterministic || !p->job.gpus ? "transfers to their owners" : "reductions");
    ms_table_row(&t,
                 "ranks\tgradients MiB\tweights MiB\tgradients ms\tweights\tagreements\t"
                 "latency\tbandwidth\tadding\tstep ms %s",
                 p->job.gpus ? "if overlapped" : "if it waited");
    for (size_t i = 0; i < p->n_rows; i++) {
        const ms_scaling_row *r = &p->row[i];
        ms_table_row(&t, "%lld\t%.4g\t%.4g\t%.4g\t%.4g\t%.3g\t%.3g\t%.4g\t%.3g\t%.4g",
                     (long long)r->ranks, r->grad_bytes / mib, r->weight_bytes / mib, r->grad_ms,
                     r->weight_ms, r->agree_ms, r->latency_ms, r->bandwidth_ms, r->add_ms,
                     p->job.gpus ? r->overlapped_ms : r->apart_ms);
    }
    return ms_table_finish(e, &t, to);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static const char *const limit_names[] = { "idle",   "matrix",  "communication",
                                           "memory", "reading", "half" };

static const ms_scaling_param *dearest(const ms_scaling_plan *p)
{
    const ms_scaling_param *best = NULL;
    for (size_t i = 0; i < p->job.n_params; i++) {
        const ms_scaling_param *one = &p->job.params[i];
        if (!one->split && (best == NULL || one->ms > best->ms)) best = one;
    }
    return best;
}

/* The part of a step that takes most of it, apart from the passes. */
static const char *largest_part(const ms_scaling_row *r)
{
    const double comm = r->grad_ms + r->weight_ms + r->agree_ms;
    if (comm >= r->read_ms && comm >= r->optim_ms)
        return r->add_ms + r->bandwidth_ms >= r->latency_ms ? "bytes that are sent"
                                                            : "the latency of messages";
    return r->read_ms > r->optim_ms ? "reading data" : "the optimizer";
}

static void describe_limit(const ms_scaling_plan *p, const ms_plan_limit *l, char *text,
                           size_t bytes)
{
    const ms_scaling_row   *r    = &l->row;
    const ms_scaling_param *most = dearest(p);

    switch (l->what) {
    case MS_LIMIT_IDLE:
        snprintf(text, bytes, "%lld have no micro-batch: take more --micro-batches than %lld",
                 (long long)r->idle, (long long)r->micro_batches);
        break;
    case MS_LIMIT_MATRIX:
        snprintf(text, bytes,
                 "the optimizer gains nothing: the largest matrix, %lld x %lld, is one rank's, "
                 "%.3g ms, %.1f %% of the step",
                 (long long)most->rows, (long long)most->cols, most->ms,
                 100.0 * most->ms / r->step_ms);
        break;
    case MS_LIMIT_COMM:
        snprintf(text, bytes, "a rank communicates for longer than it computes: %.4g and %.4g ms",
                 r->grad_ms + r->weight_ms + r->agree_ms, r->compute_ms);
        break;
    case MS_LIMIT_MEMORY:
        snprintf(text, bytes,
                 "a rank needs %.1f GiB of memory and has %.1f; %.1f are for gradients that come "
                 "in: --deterministic no needs none of these",
                 r->memory / gib, (double)p->machine.memory / gib, r->inbox / gib);
        if (r->inbox < 0.5 * r->memory)
            snprintf(text, bytes,
                     "a rank needs %.1f GiB of memory and has %.1f; %.1f are for activations: more "
                     "micro-batches lower that",
                     r->memory / gib, (double)p->machine.memory / gib, r->activations / gib);
        break;
    case MS_LIMIT_READING:
        snprintf(text, bytes, "every rank reads the data of all for %.4g ms, and computes for %.4g",
                 r->read_ms, r->compute_ms);
        break;
    default: snprintf(text, bytes, "efficiency is below one half, mostly for %s", largest_part(r));
    }
}

static void print_limits(const ms_scaling_plan *p, FILE *to)
{
    char text[256];

    fprintf(to, p->n_limits > 0 ? "\nwhat breaks first:\n"
                                : "\nnothing breaks up to the largest of these numbers\n");
    for (size_t i = 0; i < p->n_limits; i++) {
        describe_limit(p, &p->limit[i], text, sizeof text);
        fprintf(to, "  from %lld rank%s on %s\n", (long long)p->limit[i].row.ranks,
                p->limit[i].row.ranks == 1 ? "" : "s", text);
    }
}

musec_status ms_plan_print(ms_error *e, const ms_scaling_plan *p, FILE *to)
{
    musec_status st;

    print_head(p, to);
    TRY(print_steps(e, p, to));
    if (p->linked) TRY(print_messages(e, p, to));
    print_limits(p, to);
done:
    return st;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *row_json(const ms_scaling_row *r)
{
    json_t *o = json_object();
    ms_json_add(&o, "ranks=%lld batch=%lld micro_batches=%lld tokens=%lld passes=%lld idle=%lld",
                (long long)r->ranks, (long long)r->batch, (long long)r->micro_batches,
                (long long)r->tokens, (long long)r->passes, (long long)r->idle);
    ms_json_add(&o,
                "compute_ms=%g read_ms=%g optim_ms=%g largest_matrix_ms=%g gradient_bytes=%g "
                "weight_bytes=%g gradient_ms=%g weight_ms=%g agreement_ms=%g latency_ms=%g "
                "bandwidth_ms=%g adding_ms=%g step_ms=%g overlapped_ms=%g apart_ms=%g",
                r->compute_ms, r->read_ms, r->optim_ms, r->largest_ms, r->grad_bytes,
                r->weight_bytes, r->grad_ms, r->weight_ms, r->agree_ms, r->latency_ms,
                r->bandwidth_ms, r->add_ms, r->step_ms, r->overlapped_ms, r->apart_ms);
    ms_json_add(&o,
                "weights_bytes=%g activations_bytes=%g state_bytes=%g sums_bytes=%g "
                "incoming_bytes=%g memory_bytes=%g tokens_s=%g efficiency=%g",
                r->weights, r->activations, r->state, r->sums, r->inbox, r->memory, r->tokens_s,
                r->efficiency);
    return o;
}

static json_t *link_json(const ms_scaling_link *l)
{
    json_t *o = json_object();
    ms_json_add(&o, "gbps=%g latency_us=%g", gbps(l), l->ms * 1e3);
    return o;
}

static json_t *limit_json(const ms_scaling_plan *p, const ms_plan_limit *l)
{
    json_t *o = json_object();
    char    text[256];
    describe_limit(p, l, text, sizeof text);
    ms_json_add(&o, "limit=%s from_ranks=%lld text=%s", limit_names[l->what],
                (long long)l->row.ranks, text);
    return o;
}

musec_status ms_plan_print_json(ms_error *e, const ms_scaling_plan *p, FILE *to)
{
    const ms_scaling_machine *m    = &p->machine;
    json_t                   *root = json_object(), *rows = json_array(), *limits = json_array();

    for (size_t i = 0; i < p->n_rows; i++)
        ms_json_append(&rows, row_json(&p->row[i]));
    for (size_t i = 0; i < p->n_limits; i++)
        ms_json_append(&limits, limit_json(p, &p->limit[i]));
    ms_json_add(&root,
                "preset=%s optimizer=%s parameters=%lld weak?=%d deterministic?=%d source=%s",
                ms_preset_name((size_t)p->config->preset, NULL), p->config->optim.name,
                (long long)count_parameters(p), p->job.weak, p->job.deterministic, p->source);
    ms_json_add(&root, "pass_ms=%g token_ms=%g read_ms=%g adding_ms_byte=%g memory_bytes=%g",
                m->pass_ms, m->token_ms, m->read_ms, m->add_ms_byte, (double)m->memory);
    if (p->linked)
        ms_json_add(&root, "measured_ranks=%d link=%p node_link=%p ranks_per_node=%lld",
                    p->measured, (void *)link_json(&m->net), (void *)link_json(&m->node),
                    (long long)m->per_node);
    ms_json_add(&root, "rows=%p limits=%p", (void *)rows, (void *)limits);
    return ms_json_finish(e, root, to);
}
