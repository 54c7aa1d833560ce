/* claims.c - the paper's claims, a row each, and the evaluation of a row.
 *
 * The claims are worded by us and stand in the order of the paper, whose sections are 6
 * (experiments) and F (additional results). */
#include "report/claims.h"

#include <math.h>
#include <string.h>

/* Bounds on a loss, as shares of the lower one. */
#define COMPARABLE 0.02  /* two losses are comparable */
#define DEGRADED   0.05  /* above a method's own best: it has degraded */
#define FAILED     0.20  /* above the best of all: it has not converged */
#define SLIGHTLY   0.001 /* the smallest difference that counts as better */
#define JUMP       0.01  /* a rise that counts as a spike */

/* Sets of methods and of groups of matrices. */
#define SOFT     (1u << MS_SOFT)
#define SPECTRA  (1u << MS_SPECTRA)
#define MUON     (1u << MS_MUON)
#define MUONCLIP (1u << MS_MUONCLIP)
#define CLIPPING (SOFT | SPECTRA)
#define MUONS    (MUON | MUONCLIP)
#define ALL      (CLIPPING | MUONS)
#define QK       (1u << MS_RUN_QK)
#define VO_MLP   (1u << MS_RUN_VO | 1u << MS_RUN_MLP)

const ms_claim ms_claims[] = {
    { "range", "1",
      "Soft Musec trains well over a much wider range of learning rates than Muon and MuonClip.",
      "Largest over smallest of a method's learning rates around its best at which its loss is "
      "within {1%} of that best. Holds if Soft Musec's is at least {2} times Muon's and "
      "MuonClip's.",
      .bound = { DEGRADED, 2.0, 1.0 }, .quantity = ms_measure_range,
      .holds = { { SOFT, MS_AT_LEAST, 3, MS_ABSOLUTE },
                 { SOFT, MS_AT_LEAST, 2, MS_MUON },
                 { SOFT, MS_AT_LEAST, 2, MS_MUONCLIP } } },
    { "tuned", "1", "Well tuned, Soft Musec does as well as the other matrix methods.",
      "Least loss over all learning rates. Holds if Soft Musec's is at most {1%} above the least "
      "of Muon, MuonClip and SPECTRA.",
      .bound = { COMPARABLE }, .quantity = ms_measure_tuned,
      .holds = { { SOFT, MS_WITHIN, 1, MS_LEAST_OTHER } } },
    { "theory", "4.3",
      "Musec reaches a Goldstein stationary point of a nonconvex, nonsmooth objective at the best "
      "rate known.",
      "None: a bound on the worst case is not seen in training runs.", .judge = NULL },
    { "small-lr", "6.2, Figs. 1, 4", "At small learning rates all methods reach a similar loss.",
      "Losses at the smallest common learning rate. Holds if the largest is at most {1%} above the "
      "least.",
      .bound = { COMPARABLE }, .quantity = ms_measure_losses,
      .holds = { { ALL, MS_WITHIN, 1, MS_LEAST } } },
    { "degrade", "6.2, Figs. 1, 4",
      "As the learning rate grows Muon and MuonClip get worse, and Soft Musec does not.",
      "Loss at the largest common learning rate above the method's own best. Holds if Muon's and "
      "MuonClip's is more than {1%} (or they diverged) and Soft Musec's is "
      "not.",
      .bound = { DEGRADED }, .own_best = true, .quantity = ms_measure_above,
      .holds = { { SOFT, MS_AT_MOST, 1, MS_ABSOLUTE }, { MUONS, MS_MORE, 1, MS_ABSOLUTE } } },
    { "largest-lr", "6.2, Fig. 1",
      "At the largest learning rate Muon does not converge, and MuonClip does not or ends much "
      "worse.",
      "Loss at the largest common learning rate above the best of all methods and rates. Holds if "
      "Muon's is more than {1%} and MuonClip's more than {2%}, or they diverged.",
      .bound = { FAILED, DEGRADED }, .quantity = ms_measure_above,
      .holds = { { MUON, MS_MORE, 1, MS_ABSOLUTE }, { MUONCLIP, MS_MORE, 2, MS_ABSOLUTE } } },
    { "stable", "6.2, Fig. 1", "Soft Musec and SPECTRA converge at every learning rate.",
      "Losses at all common learning rates, above the best of all methods and rates. Holds if none "
      "of the two diverged or is more than {1%} above it at any.",
      .bound = { FAILED }, .quantity = ms_measure_worst,
      .holds = { { CLIPPING, MS_AT_MOST, 1, MS_ABSOLUTE } } },
    { "spectra", "6.2", "Soft Musec and SPECTRA do about equally well.",
      "Losses at each common learning rate. Holds if the two differ by at most {1%} at each.",
      .bound = { COMPARABLE }, .judge = ms_judge_spectra },
    { "spectra-better", "6.2", "Soft Musec is slightly better than SPECTRA in several settings.",
      "Learning rates, over all panels, at which Soft Musec's loss is lower by more than {1%} and "
      "by more than seeds explain. Holds if there are at least {2}.",
      .bound = { SLIGHTLY, 2.0 }, .judge_all = ms_judge_spectra_better },
    { "sets", "6.2, F.1", "The picture is the same on all sets of data.",
      "The claims small-lr, degrade, largest-lr and stable on each set of a model. Holds if they "
      "come out alike on two sets or more.",
      .judge_all = ms_judge_sets },
    { "spike", "6.3, Fig. 2", "Every method's loss jumps at the change of stage, at lr 0.2.",
      "Highest validation loss in the tenth of the run after the change, above the last one "
      "before. Holds if it is more than {1%} for each method.",
      .bound = { JUMP }, .lr = 0.2, .quantity = ms_measure_jump,
      .holds = { { ALL, MS_MORE, 1, MS_ABSOLUTE } } },
    { "recovery", "6.3, Fig. 2",
      "Soft Musec and SPECTRA recover from it quickly, Muon slowly and to a higher final loss.",
      "At lr {lr}, steps from the change until the validation loss is below the last one before "
      "it. Holds if Muon takes more than {1} times as long as Soft Musec and SPECTRA and ends more "
      "than {2%} above them.",
      .bound = { 2.0, COMPARABLE }, .lr = 0.2, .judge = ms_judge_recovery },
    { "muonclip-better", "6.3, Fig. 2", "MuonClip does better than Muon at a large learning rate.",
      "Losses at lr {lr}. Holds if MuonClip's is lower by more than seeds explain.", .lr = 0.2,
      .judge = ms_judge_muonclip_better },
    { "oscillation", "6.3, Fig. 2", "MuonClip's loss goes up and down, Soft Musec's is smooth.",
      "Root mean square of the second differences of the validation loss at lr {lr}, from the "
      "third validation after the change on. Holds if MuonClip's is more than {1} times Soft "
      "Musec's.",
      .bound = { 2.0 }, .lr = 0.2, .quantity = ms_measure_oscillation,
      .holds = { { MUONCLIP, MS_MORE, 1, MS_SOFT } } },
    { "norm-muon", "6.4, Fig. 3", "Muon's weights grow large in all groups of matrices.",
      "Largest spectral norm of a weight over training at lr {lr}. Holds if in QK, VO and MLP "
      "Muon's is above {1} and more than {2} times Soft Musec's.",
      .bound = { 10.0, 5.0 }, .lr = 0.2, .quantity = ms_measure_norm, .by_group = true,
      .holds = { { MUON, MS_MORE, 1, MS_ABSOLUTE }, { MUON, MS_MORE, 2, MS_SOFT } } },
    { "norm-clipping", "6.4, Fig. 3",
      "Those of Soft Musec and SPECTRA stay below 10 in all groups.",
      "The same norms. Holds if all of them are below {1}.", .bound = { 10.0 }, .lr = 0.2,
      .quantity = ms_measure_norm, .by_group = true,
      .holds = { { CLIPPING, MS_LESS, 1, MS_ABSOLUTE } } },
    { "norm-muonclip", "6.4, Fig. 3",
      "MuonClip shrinks query and key weights alone, and only in part.",
      "The same norms. Holds if MuonClip's is at most {1} times Muon's in QK, and above that in VO "
      "and in MLP.",
      .bound = { 0.8 }, .lr = 0.2, .quantity = ms_measure_norm, .by_group = true,
      .holds = { { MUONCLIP, MS_AT_MOST, 1, MS_MUON, QK },
                 { MUONCLIP, MS_MORE, 1, MS_MUON, VO_MLP } } },
    { "large-lr", "F.1, Fig. 5",
      "From lr 0.1 on, Soft Musec and SPECTRA are far better than Muon and MuonClip.",
      "Losses at the common learning rates of {lr} and more. Holds if at each the worse of the two "
      "is more than {1%} below the better of the others.",
      .bound = { COMPARABLE }, .lr = 0.1, .judge = ms_judge_large },
    { "near-best", "F.1", "Soft Musec is the best, or nearly, at the largest learning rates.",
      "Losses at the largest common learning rate. Holds if Soft Musec's is at most {1%} above the "
      "least.",
      .bound = { COMPARABLE }, .at_largest = true, .quantity = ms_measure_losses,
      .holds = { { SOFT, MS_WITHIN, 1, MS_LEAST } } },
    { "adam", "F.2", "Well tuned, the matrix methods reach a lower loss than Adam and AdamW.",
      "Least loss over all learning rates. Holds if that of each of Soft Musec, SPECTRA, Muon and "
      "MuonClip is below those of Adam and AdamW.",
      .judge = ms_judge_adam },
    { "sizes", "F.2", "The gap in stability widens with the size of the model.",
      "Muon's loss above Soft Musec's at the largest learning rate that the sizes share, for two "
      "sizes or more on one set. Holds if it is larger for each larger model.",
      .judge_all = ms_judge_sizes },
    { "rank-muon", "F.3, Fig. 9", "Muon's updates have nearly full effective rank.",
      "Effective rank of the update over the smaller side of the matrix, mean over training at lr "
      "{lr}. Holds if it is at least {1} in QK, VO and MLP.",
      .bound = { 0.9 }, .lr = 0.5, .quantity = ms_measure_rank, .by_group = true,
      .holds = { { MUON, MS_AT_LEAST, 1, MS_ABSOLUTE } } },
    { "rank-muonclip", "F.3, Fig. 9", "MuonClip does not lower it.",
      "The same means. Holds if MuonClip's is at least {1} times Muon's in each group.",
      .bound = { 0.95 }, .lr = 0.5, .quantity = ms_measure_rank, .by_group = true,
      .holds = { { MUONCLIP, MS_AT_LEAST, 1, MS_MUON } } },
    { "rank-clipping", "F.3, Fig. 9", "Soft Musec's and SPECTRA's is clearly lower than Muon's.",
      "The same means. Holds if theirs is at most {1} times Muon's in each group.",
      .bound = { 0.8 }, .lr = 0.5, .quantity = ms_measure_rank, .by_group = true,
      .holds = { { CLIPPING, MS_AT_MOST, 1, MS_MUON } } },
    { "rank-late", "F.3, Fig. 9", "Late in training, Soft Musec's is lower than SPECTRA's.",
      "The same means over the last quarter of the steps. Holds if Soft Musec's is lower in each "
      "group.",
      .bound = { 1.0 }, .lr = 0.5, .quantity = ms_measure_late_rank, .by_group = true,
      .holds = { { SOFT, MS_LESS, 1, MS_SPECTRA } } },
    { "time", "F.4, Fig. 10", "A step takes about as long with each of the matrix methods.",
      "Median wall time of a step that neither validates nor measures, of a method's quickest run. "
      "Holds if the largest of the four is at most {1%} above the least: the paper's own differ by "
      "up to 5.6%.",
      .bound = { 0.06 }, .quantity = ms_measure_time,
      .holds = { { ALL, MS_WITHIN, 1, MS_LEAST } } },
    { "slowest", "F.4, Fig. 10", "MuonClip is the slowest of them.",
      "The same times. Holds if MuonClip's is the largest.", .bound = { 1.0 },
      .quantity = ms_measure_time,
      .holds    = { { SOFT | SPECTRA | MUON, MS_LESS, 1, MS_MUONCLIP } } },
    { "threshold", "F.5, Fig. 11",
      "At learning rates of 0.1 and 0.2 the threshold D hardly matters to Soft Musec.",
      "Losses over the thresholds, each at its best decay. Holds if at each of the two rates that "
      "was run the largest is at most {1%} above the least.",
      .bound = { COMPARABLE }, .judge = ms_judge_threshold },
    { "threshold-large", "F.5, Fig. 11",
      "At 0.5 it does: large thresholds bring spikes in the loss.",
      "The largest threshold against the smallest at lr {lr}: last loss, and the largest rise of "
      "the validation loss above its lowest so far in the second half. Holds if the largest "
      "threshold's rises by more than {1%}, and by more than {2} times as much as the smallest's.",
      .bound = { JUMP, 2.0 }, .lr = 0.5, .judge = ms_judge_threshold_large },
    { "threshold-one", "F.5, Fig. 11",
      "Even with D = 1, Soft Musec converges at 0.5, where Muon and MuonClip diverge.",
      "Losses at lr {lr} above the best of all methods and rates. Holds if Soft Musec's with D = 1 "
      "is at most {1%}, and Muon's and MuonClip's are more or they diverged.",
      .bound = { FAILED }, .lr = 0.5, .quantity = ms_measure_threshold_one,
      .holds = { { SOFT, MS_AT_MOST, 1, MS_ABSOLUTE }, { MUONS, MS_MORE, 1, MS_ABSOLUTE } } },
    { "iterations", "F.5, Fig. 12",
      "The number of Newton-Schulz iterations hardly matters: three are enough.",
      "Losses over K, from 3 on, at the same learning rate, threshold and decay. Holds if the "
      "largest is everywhere at most {1%} above the least.",
      .bound = { COMPARABLE }, .judge = ms_judge_iterations },
    { "more-iterations", "F.5, Fig. 12", "More iterations are slightly better.",
      "The same losses. Holds if the largest K's is everywhere lower than the smallest K's by more "
      "than {1%}.",
      .bound = { SLIGHTLY }, .judge = ms_judge_more_iterations },
    { "effective-step", "control",
      "The advantage of clipping remains when Muon takes steps of the same size: lr times D.",
      "Loss of Soft Musec and SPECTRA at lr against Muon's at lr D, at the largest lr that has "
      "both. Holds if theirs is lower by more than {1%} and by more than seeds explain.",
      .bound = { COMPARABLE }, .judge = ms_judge_effective_step },
    { "clip-active", "control", "The clip is at work: without it these are other methods.",
      "Largest singular value of the momentum over D, median over groups and training, and the "
      "share of singular values above D, for each clipping method at its best. Holds if the median "
      "is above {1}.",
      .bound = { 1.0 }, .judge = ms_judge_clip_active },
    { "operator", "control",
      "Five iterations do what the exact and the fast operator do: the losses agree.",
      "Losses of Soft Musec by the exact and the fast operator above that of K=5, at the same "
      "learning rate, threshold and decay. Holds if all differ by at most {1%}.",
      .bound = { COMPARABLE }, .judge = ms_judge_operator },
};
const size_t ms_n_claims = COUNT(ms_claims);

/* ---- evaluation ------------------------------------------------------------------------------ */

const ms_claim *ms_claim_find(const char *id)
{
    for (size_t i = 0; i < ms_n_claims; i++)
        if (strcmp(ms_claims[i].id, id) == 0) return &ms_claims[i];
    return NULL;
}

ms_verdict ms_held(bool held) { return held ? MS_HOLDS : MS_DOES_NOT_HOLD; }

void ms_measured_set(ms_measured *out, int method, double value)
{
    out->has[method] = true;
    for (int g = 0; g < MS_RUN_GROUPS; g++)
        out->of[method][g] = value;
}

/* The smallest number for a group, over all methods or all but one (-1: none). */
static double least_of(const ms_measured *all, int group, int but)
{
    double least = INFINITY;
    for (int m = 0; m < MS_COMPARED; m++)
        if (all->has[m] && m != but && all->of[m][group] < least) least = all->of[m][group];
    return least;
}

static void require(ms_evidence *ev, const ms_condition *at, int method, const ms_measured *all,
                    int group)
{
    const double bound     = ev->claim->bound[at->bound - 1];
    const double value     = all->of[method][group];
    const double reference = at->reference == MS_ABSOLUTE      ? 1.0
                             : at->reference == MS_LEAST       ? least_of(all, group, -1)
                             : at->reference == MS_LEAST_OTHER ? least_of(all, group, method)
                                                               : all->of[at->reference][group];
    const double limit     = bound * reference;
    const double unit      = at->reference == MS_ABSOLUTE ? 1.0 : fabs(limit);
    switch (at->relation) {
    case MS_LESS: ms_require(ev, value < limit, (limit - value) / unit); break;
    case MS_AT_MOST: ms_require(ev, value <= limit, (limit - value) / unit); break;
    case MS_AT_LEAST: ms_require(ev, value >= limit, (value - limit) / unit); break;
    case MS_MORE: ms_require(ev, value > limit, (value - limit) / unit); break;
    case MS_WITHIN: {
        const double above = ms_above(value, reference);
        ms_require(ev, above <= bound, bound - above);
        break;
    }
    }
}

static ms_verdict judge(ms_evidence *ev)
{
    const ms_claim *claim = ev->claim;
    ms_measured     all   = { 0 };

    if (claim->judge != NULL) return claim->judge(ev);
    if (!claim->quantity(ev, &all)) return MS_NOT_TESTED;
    for (const ms_condition *at = claim->holds; at->methods != 0; at++)
        for (int m = 0; m < MS_COMPARED; m++)
            for (int g = 0; g < MS_RUN_GROUPS; g++) {
                if ((at->methods & 1u << m) == 0) continue;
                if (at->groups != 0 && (at->groups & 1u << g) == 0) continue;
                if (!all.has[m] || (at->reference >= 0 && !all.has[at->reference])) continue;
                if (g > 0 && !claim->by_group) continue; /* all groups have the same number */
                require(ev, at, m, &all, g);
            }
    return MS_HOLDS; /* if the conditions do */
}

ms_verdict ms_claim_judge(ms_evidence *ev) { return ms_decide(ev, judge); }
