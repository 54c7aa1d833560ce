/* scaling.h - how long a step takes on many ranks, and how much memory each needs, worked out.
 *
 * A rank computes passes and optimizer steps at rates that are measured or given.  What ranks send
 * follows what sums.c, ranks.c and the calls of mpi.c do, and is timed by the alpha-beta model: a
 * message of b bytes takes `ms + b ms_byte` on its link, both directions at once.  Three kinds:
 *
 *     transfers    of gradients to the owners: of each micro-batch's (deterministic), or of what
 *                  each rank has accumulated; every rank sends what it does not own, an owner gets
 *                  its part from all others and adds it; the larger of both counts, on the busiest
 *                  rank
 *     trees        NCCL's reductions of accumulated gradients, broadcasts of the weights: log2 n
 *                  messages deep for each bucket or window of pieces, and pipelined, so that a rank
 *                  sends and gets once what it does not own
 *     agreements   small sums over all ranks: a reduction and a broadcast of some numbers
 *
 * Of ranks on nodes of `per_node`, transfers within a node take its own link and the others the
 * network's, both at once.  A tree crosses the network between nodes only, and its bytes are spread
 * over the links of all ranks of a node.
 *
 * On CPUs messages go on while ranks compute: gradients hide behind the backward pass, two thirds
 * of a pass that recomputes nothing, and weights behind the next forward pass, all but those of the
 * embedding, which come last and are read first.  Adding does not hide.  On GPUs nothing does: what
 * would remain if it did is worked out beside.
 *
 * It is a lower bound of what a network does: links have no contention, and ranks no jitter. */
#ifndef MS_TRAIN_SCALING_H
#define MS_TRAIN_SCALING_H

#include "train/config.h"

typedef struct ms_scaling_param { /* a parameter, as ranks own it */
    int64_t rows, cols;
    double  ms;    /* of a step of the optimizer, of the whole of it on one rank */
    int     kind;  /* equal ones have the same number */
    bool    split; /* all ranks have equal shares of its rows; else one rank has it */
} ms_scaling_param;

typedef struct ms_scaling_link {
    double ms;      /* of a message, whatever its length: alpha */
    double ms_byte; /* of each byte: beta */
} ms_scaling_link;

typedef struct ms_scaling_machine {
    double          pass_ms, token_ms; /* a forward and backward pass over m tokens takes */
    double          least_pass_ms;     /* pass_ms + m token_ms, and at least this */
    double          read_ms;           /* to read the data of a token */
    double          add_ms_byte;       /* to add a gradient to a sum */
    ms_scaling_link net, node;         /* between nodes, and within one */
    int64_t         per_node;          /* ranks of a node */
    uint64_t        memory;            /* bytes that a rank has; 0: not known */
} ms_scaling_machine;

typedef struct ms_scaling_job {
    const ms_gpt_config    *model;
    musec_dtype             dtype; /* of activations */
    int64_t                 logits_chunk;
    const ms_scaling_param *params;
    size_t                  n_params;
    int64_t                 batch, micro_batches; /* of a step on one rank */
    bool                    weak;  /* more ranks have as many times the batch; else they share it */
    bool                    fixed; /* more ranks than micro-batches get nothing; else they get more
                                      and smaller ones */
    bool                    deterministic;
    bool                    gpus;     /* ranks compute on GPUs; set by ms_scaling_device */
    double matrix_state, split_state; /* bytes of the optimizer's state for each element */
    double recomputed;                /* share of a forward pass that the backward pass repeats */
} ms_scaling_job;

typedef struct ms_scaling_row { /* a step on so many ranks; bytes and times of the busiest one */
    int64_t ranks, batch, micro_batches, tokens; /* tokens: of a micro-batch */
    int64_t passes;                              /* that a rank makes */
    int64_t idle;                                /* ranks without a micro-batch */
    double  compute_ms, read_ms, optim_ms;
    double  matrix_ms;  /* of optim_ms, without what is split: the step of its own matrices */
    double  largest_ms; /* the step of the dearest matrix alone */
    double  grad_bytes, weight_bytes;     /* sent or received, whichever is more */
    double  grad_ms, weight_ms, agree_ms; /* and these are the sum of: */
    double  latency_ms, bandwidth_ms, add_ms;
    double  apart_ms, overlapped_ms; /* a step where nothing overlaps, and where it does, */
    double  step_ms;                 /* and as it is */
    double  weights, activations, state, sums, inbox, memory; /* bytes; weights: with gradients */
    double  tokens_s, efficiency; /* efficiency: of a rank, relative to one that is alone */
} ms_scaling_row;

enum { MS_SCALING_RANKS = 1 << 20 };

/* Works out a step on `ranks` ranks, 1 to MS_SCALING_RANKS. */
musec_status ms_scaling_at(ms_error *e, const ms_scaling_job *job, const ms_scaling_machine *m,
                           int64_t ranks, ms_scaling_row *out);

/* What bounds a step, from some number of ranks on. */
typedef enum ms_scaling_limit {
    MS_LIMIT_IDLE,    /* there are fewer micro-batches than ranks */
    MS_LIMIT_MATRIX,  /* the step of the largest matrix is the optimizer's, which gains no more */
    MS_LIMIT_COMM,    /* ranks communicate for longer than they compute */
    MS_LIMIT_MEMORY,  /* a rank needs more memory than it has */
    MS_LIMIT_READING, /* to read the data of all ranks takes longer than a rank's passes */
    MS_LIMIT_HALF,    /* efficiency is below one half */
    MS_LIMITS,
} ms_scaling_limit;

/* Says whether a limit applies to a row. */
bool ms_scaling_has_limit(const ms_scaling_row *row, const ms_scaling_machine *m,
                          ms_scaling_limit limit);

/* ---- what a config has (scaling_job.c) ------------------------------------------------------- */

/* Lists the parameters of the model, with an `ms` of 0, to be freed, and what the optimizer keeps
 * of them.  Nothing of the model is allocated. */
musec_status ms_scaling_list(ms_error *e, const ms_train_config *cfg, ms_scaling_job *job,
                             ms_scaling_param **out);
/* Sets the dtype of activations and the chunk of logits of the config's device, and its kind. */
musec_status ms_scaling_device(ms_error *e, const ms_train_config *cfg, ms_scaling_job *job);
/* rows x cols x the smaller of both: what the products of an optimizer's step are proportional to;
 * 0 for those that are split. */
double ms_scaling_work(const ms_scaling_param *p);

/* ---- measuring (scaling_measure.c) ----------------------------------------------------------- */

struct ms_comm;

/* Measures this machine with a model of this config: passes over `tokens` and over `fewer` tokens,
 * or as many as a CPU computes in seconds, reading, adding, and the optimizer's step of each kind
 * of parameter, which is written to params.  Where the communicator has several ranks, all measure
 * at once and the slowest counts, and messages between them are measured too.  text: what was
 * measured, "measured on cpu, passes of 2048 and 512 tokens". */
musec_status ms_scaling_measure(ms_error *e, const ms_train_config *cfg, struct ms_comm *comm,
                                int64_t tokens, int64_t fewer, ms_scaling_param *params,
                                ms_scaling_machine *out, char *text, size_t bytes);

#endif
