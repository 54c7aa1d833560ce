/* option_table.c - the table that names, explains and bounds the options of the optimizers. */
#include "optim/option_table.h"

#include <stddef.h>

#include "optim/optim.h"

#define AT(member) offsetof(musec_optim_config, member), sizeof((musec_optim_config *)0)->member

#define REAL(member, min, max)         MS_OPTIM_REAL, AT(member), min, max, "X"
#define WHOLE(member, min, max, value) MS_OPTIM_INT, AT(member), min, max, value
#define UNSIGNED(member, value)        MS_OPTIM_UINT, AT(member), 0, 0, value
#define ONE_OF(member, choices)        MS_OPTIM_CHOICE, AT(member), 0, 0, choices
#define PARSED(type, value)            type, 0, 0, 0, 0, value
#define AUX                            "AdamW for embedding, head and vectors: "
#define MOMENTS                        "adam, adamw, ademamix, soap, shampoo, kl-shampoo: "

const ms_optim_option ms_optim_options[] = {
    { "lr", REAL(lr, 0, 1e9), "learning rate [0.02]" },
    { "beta", REAL(beta, 0, 1),
      "weight of the NEW gradient in the momentum: 1 minus the usual momentum [0.05; scion: 0.1]" },
    { "threshold", PARSED(MS_OPTIM_THRESHOLD, "D|rms:K|quantile:Q"),
      "clip singular values at D: a number, K times their RMS, or their quantile Q [1]" },
    { "threshold-warmup", WHOLE(threshold_warmup, 0, 1e15, "N"),
      "first steps in which D grows as the learning rate falls short of its peak, so that lr D "
      "stays the same [0]" },
    { "update-scale", ONE_OF(update_scale, "paper|unit"),
      "scale of the step: the clipped matrix as in the paper, or that divided by D, which suits "
      "learning rates of Muon [paper; softmuon: unit]" },
    { "base", PARSED(MS_OPTIM_BASE, ms_base_choices),
      "the optimizer whose update the spectral function is applied to [sgdm; muon2: adamw; dion2: "
      "dion2]" },
    { "function", ONE_OF(function, "auto|polar|soft|sharp|hard"),
      "what the singular values of the update become: 1 (polar), or clipped at D, smoothly, "
      "sharply or exactly; auto: as the optimizer is [auto]" },
    { "second-moment", ONE_OF(second_moment, "none|rows|longer|elements"),
      "then divide each row (rows), each row or, if m < n, column (longer), or each element of the "
      "update by its RMS over time, and keep its norm [none; normuon: rows; adamuon: elements]" },
    { "second-beta", REAL(second_beta, 0, 0.99999998),
      "decay rate of second-moment; 0: 0.95 [0; adamuon: 0.999]" },
    { "second-eps", REAL(second_eps, 0, 1e9),
      "added to the root of second-moment; 0: 1e-10 [0; adamuon: 1e-8]" },
    { "clip", ONE_OF(clip, "hard|soft"), "spectra: clip exactly or smoothly [soft]" },
    { "sharpness", PARSED(MS_OPTIM_SHARPNESS, MS_OPTIM_SHARPNESS_CHOICES),
      "how sharply the clip bends at D: 2 is soft; auto: soft or hard, as the optimizer is "
      "[auto]" },
    { "ns-mode", ONE_OF(ns_mode, "paper|paper7|fast|accurate|exact"),
      "how clipping is computed; musec has paper, which is exact, fast, accurate and exact; muon "
      "has paper (quintic Newton-Schulz steps) and exact [paper]" },
    { "ns-iters", WHOLE(ns_iters, 1, 100, "K"),
      "number of Newton-Schulz steps in ns-mode paper [5; muon2: 3]" },
    { "ns-tol", REAL(ns_tol, 0, 0.5),
      "largest relative error in ns-mode accurate; 0: a hundredth of beta, since stored clipped "
      "momentum multiplies errors by 1/beta [0]" },
    { "ns-coeffs", ONE_OF(ns_coeffs, MS_QUINTIC_LISTS),
      "muon: coefficients of the quintic Newton-Schulz steps [keller; normuon, dion2: "
      "polar-express]" },
    { "ns-eps", REAL(ns_eps, 0, 1e9),
      "muon: eps of the norm that Newton-Schulz steps divide by first; 0: 1e-7 [0]" },
    { "ns-eps-form", ONE_OF(ns_eps_form, "added|floor"),
      "muon: add ns-eps to that norm, or take it as the least norm [added]" },
    { "literal", ONE_OF(literal, "no|yes"),
      "compute ns-mode paper in the paper's own order of products, which is slower [no]" },
    { "operands", PARSED(MS_OPTIM_OPERANDS, MS_OPTIM_OPERAND_CHOICES),
      "number format that matrix products round their f32 inputs to; auto: f16 on a GPU, f32 on a "
      "CPU [auto]" },
    { "weight-decay", PARSED(MS_OPTIM_DECAY, "X|qk=X,vo=X,mlp=X"),
      "weight decay: one number, or one each for attention (qk, vo) and MLP matrices [0]" },
    { "decay-form",
      ONE_OF(decay_form,
             "decoupled|independent|lr2|cautious|cautious-lr2|coupled|after|frank-wolfe|"
             "hyperball"),
      "formula of the weight decay (docs/optimizers.md) [decoupled; adam: coupled; normuon: "
      "cautious; muonh: hyperball; soap, kl-shampoo: after]" },
    { "nesterov", ONE_OF(nesterov, "no|yes"),
      "use Nesterov momentum: look ahead by one gradient [no; normuon, adamuon: yes]" },
    { "shape-rule", ONE_OF(shape_rule, "none|keller|moonlight|mup|rms|fixed-rms"),
      "factor on the update of an m x n matrix: 1, sqrt(max(1, m/n)), 0.2 sqrt(max(m, n)), "
      "sqrt(m/n), sqrt(max(m, n)), or 0.2 sqrt(m n) / |U|_F [none; normuon: keller; adamuon: "
      "fixed-rms; muon2: moonlight; scion, dion2: mup]" },
    { "momentum-form", ONE_OF(momentum_form, "ema|heavy-ball"),
      "momentum M with gradient G: (1-beta) M + beta G, or (1-beta) M + G [ema]" },
    { "momentum-init", ONE_OF(momentum_init, "first|zero"),
      "start the momentum as the first gradient, or at zero [first; normuon, adamuon, scion: "
      "zero]" },
    { "momentum-dtype", ONE_OF(momentum_dtype, "own|bf16"),
      "number format of the momentum: that of the weight, or bf16 with stochastic rounding [own]" },
    { "nonfinite", ONE_OF(nonfinite, "stop|skip|defer"),
      "at a NaN or infinity in a gradient, stop the run, skip the step, or let the GPU decide to "
      "skip it, without waiting [stop]" },
    { "beta1", REAL(beta1, 0, 0.99999998),
      MOMENTS "decay rate of the first moment; lion: weight of the momentum in the update [0.9; "
              "soap: 0.95]" },
    { "beta2", REAL(beta2, 0, 0.99999998),
      MOMENTS "decay rate of the second moment; lion: of the momentum [0.999; lion: 0.99; soap: "
              "0.95; kl-shampoo: 0.98]" },
    { "eps", REAL(eps, 1e-30, 1e9), MOMENTS "added to the root of the second moment [1e-8]" },
    { "beta3", REAL(beta3, 0, 0.99999998), "ademamix: decay rate of the slow average [0.9999]" },
    { "alpha", REAL(alpha, 0, 1e9), "ademamix: weight of the slow average [8]" },
    { "alpha-warmup", WHOLE(alpha_warmup, 0, 1e15, "N"),
      "ademamix: steps in which alpha grows to its value [0]" },
    { "beta3-warmup", WHOLE(beta3_warmup, 0, 1e15, "N"),
      "ademamix: steps in which beta3 grows to its value [0]" },
    { "precondition-every", WHOLE(precondition_every, 1, 1e15, "N"),
      "soap, shampoo, kl-shampoo: steps from one refresh of the eigenvectors or roots to the next "
      "[10]" },
    { "precondition-beta", REAL(precondition_beta, 0, 1),
      "soap, shampoo, kl-shampoo: decay rate of the averages of G G^T and G^T G; 0: beta2; 1: sums "
      "[0]" },
    { "max-precond-dim", WHOLE(max_precond_dim, 0, 1e15, "N"),
      "soap, shampoo, kl-shampoo: a side with more rows or columns than this keeps the identity "
      "[10000]" },
    { "precondition-eps", REAL(precondition_eps, 1e-30, 1e9),
      "shampoo: added to the eigenvalues of these averages [1e-12]" },
    { "fraction", REAL(fraction, MS_OPTIM_ABOVE_0, 1),
      "dion2: share of the rows of the shorter side that a step takes [0.25]" },
    { "graft", ONE_OF(graft, "adam|none"),
      "shampoo: scale the update to the norm of Adam's, or not at all [adam]" },
    { "qk-tau", REAL(qk_tau, MS_OPTIM_ABOVE_0, 1e9),
      "muonclip: shrink heads whose attention logits exceed this [100]" },
    { "qk-alpha", REAL(qk_alpha, 0, 1),
      "muonclip: share of the shrinking that W_q takes; W_k takes the rest [0.5]" },
    { "avg-steps", WHOLE(avg_steps, 0, 1e15, "T"),
      "also keep an average of the weights over an epoch of T steps [0: no]" },
    { "avg-epochs", WHOLE(avg_epochs, 0, 1e15, "K"),
      "avg-steps: average an epoch picked at random among the first K [1]" },
    { "seed", UNSIGNED(seed, "N"),
      "seed of random choices: epoch to average, norm estimates, stochastic rounding [0]" },
    { "report-every", WHOLE(report_every, 0, 1e15, "N"),
      "steps between measurements of norms and ranks; 0: never [1000]" },
    { "workspace", UNSIGNED(workspace, "BYTES"),
      "bytes of memory that an optimizer step may use [0: 1 GiB, on a GPU 8 to 16 GiB]" },
    { "aux-lr", REAL(aux_lr, 0, 1e9), AUX "learning rate [3e-4]" },
    { "aux-beta1", REAL(aux_beta1, 0, 0.99999998), AUX "decay rate of the first moment [0.9]" },
    { "aux-beta2", REAL(aux_beta2, 0, 0.99999998), AUX "decay rate of the second moment [0.95]" },
    { "aux-eps", REAL(aux_eps, 1e-30, 1e9), AUX "added to the root of the second moment [1e-8]" },
    { "aux-weight-decay", REAL(aux_weight_decay, 0, 1e9), AUX "decoupled weight decay [0]" },
};

const size_t ms_n_optim_options = COUNT(ms_optim_options);
