#!/usr/bin/env python3
"""gpt_reference.py - the GPT of src/model/gpt.h in PyTorch float64, from its formulas alone.

    python3 tests/reference/gpt_reference.py [DIRECTORY]     writes the vectors that are not there
    python3 tests/reference/gpt_reference.py --check         compares them with a new computation,
                                                             and with one in float32
    python3 tests/reference/gpt_reference.py --mutants       shows that mistakes would be seen

DIRECTORY is tests/data/gpt unless given.  Needs torch and safetensors (seen: torch 2.15, CPU); the
test that reads the vectors, model_reference_test.c, needs neither.  It shares no code with the
library: the gradients are autograd's, attention is a dense matrix with a mask that loops fill, and
the logits of all rows are stored.

Each case is a file NAME.safetensors with

    __metadata__        "config": a flat JSON object: fields of ms_gpt_config and ms_gpt_pass
    PARAMETER           weights by name, stored as float32, which they are without loss, so that a
                        float32 run starts from the same numbers
    inputs targets doc  (T) ids; doc is the first row of the document that a row is in
    logits              (T, vocab) capped
    sums                (2) the objective (weighted multi-token loss) and the next-token loss
    max_logit           (layers, heads) the largest scale q.k among the visible pairs
    grad.PARAMETER      grad_scale times the gradient of the objective

all but the weights in float64.  Weights are (out, in) and rows are tokens:

    norm(x) = x / sqrt(mean(x^2) + eps)
    e  = embed[token];  e_t <- e_t + smear sigmoid(e_t[0:g] . smear_gate) e_(t-1)     (t > 0)
    x  = x0 = norm(e);  x02 = norm(embed2[token])
    per layer:  x <- x + 2 sigmoid(skip) sigmoid(x0[0:g] . skip_gate) h     h: x after another layer
                x <- r x + a x0 + c x02
                n  = norm(x);  q, k, v = n (l1 W)^T, head h being columns h*head ...
                q, k <- rope(norm(q)), rope(norm(k))
                k_t <- k_(t-1) in the columns that rope leaves              (t > 0, long layers)
                v_h <- v_h + 2 sigmoid(n[0:g] . w_h) table[token]_h
                y  = softmax(scale q k^T) v       keys j with max(doc_i, i - window) <= j <= i
                y_h <- y_h sigmoid(n[0:g] . u_h)                            g = gate_width
                x <- x + y (l2 Wo)^T
                x <- x + relu(norm(x) A^T)^2 B
    raw = norm(x - backout h) head^T;  z = cap(raw)
    objective = sum_t sum_{k < n, t + k < T} w_k (logsumexp(z_t) - z_t[target_{t+k}])

    rope: pairs = round(head/2 * share), f_j = base^(-j / (pairs - 1)), one pair: f_0 = 1; row i
          turns pair j by i f_j: (p, r) -> (p cos + r sin, r cos - p sin); the pairs are (2j, 2j+1)
          (adjacent) or (j, j + head/2); other columns stay
    the smallest of the paper's models, which has post_mix instead of x0_mix: see gpt_models.Small

    YaRN: for windows w, w' that follow each other, f <- f (w/w' + m (1 - w/w')) with
          m = clip((w f / 2 pi - 1) / 31, 0, 1), and scale <- scale (1 + 0.2 ln(w'/w))
    cap:  raw;  scale tanh(raw / scale);  scale sigmoid((raw + shift) / width)
    softcap c: the softmax is of c tanh(logit / c)
"""
import json
import math
import os
import sys

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from gpt_cases import CASES, COMMON, make_case, shapes
from gpt_models import Gpt, Small, model_of

F64_BOUND, F32_BOUND = 1e-12, 1e-4  # those of model_reference_test.c
MUTANT_FACTOR = 10.0  # a mistake must exceed the wider bound by this much


# ---- mutants: each is a Gpt in which one method has a mistake -----------------------------------


def past_the_end(g, z, t):
    """Targets beyond the last token are replaced by the last token instead of dropped."""
    lse = torch.logsumexp(z[t], dim=0)
    return [lse - z[t, g.targets[min(t + k, g.T - 1)]] for k in range(len(g.cfg["weights"]))]


def within_document(g, z, t):
    terms = Gpt.terms(g, z, t)
    return terms[:sum(g.doc[t + k] == g.doc[t] for k in range(len(terms)))]


def without_slope(f):
    """Method f with the values of f and the gradient of the identity."""
    return lambda g, x: x + (f(g, x) - x).detach()


MUTANTS = {  # name: the method, and what it is in the mutant
    "MaskWithoutDocuments": ("visible", lambda g, i, j, window: i - window <= j <= i),
    # the last token of the document before is visible
    "DocumentEdgeEarly": ("visible", lambda g, i, j, window:
                          g.doc[i] - 1 <= j and i - window <= j <= i),
    # the first token of a document is hidden from the later ones
    "DocumentEdgeLate": ("visible", lambda g, i, j, window:
                         i == j or (g.doc[i] + 1 <= j and i - window <= j <= i)),
    "WindowOneMore": ("window", lambda g, layer: Gpt.window(g, layer) + 1),
    "WindowOneLess": ("window", lambda g, layer: max(Gpt.window(g, layer) - 1, 0)),
    "WindowsSwapped": ("window", lambda g, layer: g.cfg[
        "window_short" if g.cfg["long_layers"] >> layer & 1 else "window_long"]),
    "OtherRopePairing": ("pair", lambda g, j: (j, j + g.cfg["head"] // 2)
                         if g.cfg["rope_adjacent"] else (2 * j, 2 * j + 1)),
    "RopeSignFlipped": ("angle", lambda g, i, j: -Gpt.angle(g, i, j)),
    "RopeDividesByPairs": ("frequency", lambda g, j: g.cfg["rope_base"] ** (-j / g.n_pairs())),
    # pairs (j, j + pairs), which is right only if all columns are rotated
    "RopePairsWithinShare": ("pair", lambda g, j:
                             Gpt.pair(g, j) if g.cfg["rope_adjacent"] else (j, j + g.n_pairs())),
    "NormEps": ("eps", lambda g: 1e-2),
    "EpsOutsideTheRoot": ("norm", lambda g, x:
                          x / (torch.sqrt((x * x).mean(dim=-1, keepdim=True)) + g.eps())),
    "QkNormWithoutEps": ("qk_norm", lambda g, x: x / x.square().mean(dim=-1, keepdim=True).sqrt()
                         if g.cfg["qk_norm"] else x),
    "NoQkNorm": ("qk_norm", lambda g, x: x),
    "QkNormAlways": ("qk_norm", lambda g, x: g.norm(x)),
    "AttentionScaleIgnored": ("scale", lambda g: 1.0 / math.sqrt(g.cfg["head"])),
    "NoSoftcap": ("softcap", lambda g, logits: logits),
    "SoftcapSlopeMissing": ("softcap", without_slope(Gpt.softcap)),
    "MaxLogitOfHiddenKeys": ("seen_logits", lambda g, logits, mask: logits),
    "MaxLogitSoftcapped": ("seen_logits", lambda g, logits, mask: g.softcap(logits)[mask]),
    "GateOnRawStream": ("gate_input", lambda g, x, n: x),
    # the gates' part of the gradient of n is missing
    "GateWithoutGradient": ("gate_input", lambda g, x, n: n.detach()),
    "ReluNotSquared": ("activation", lambda g, x: torch.relu(x)),
    "MixSwapped": ("mix", lambda g, layer, x, x0: Gpt.mix(g, layer, x0, x)),
    "MixForgetsX0Gradient": ("mix", lambda g, layer, x, x0: Gpt.mix(g, layer, x, x0.detach())),
    "X0AfterLayer0": ("x0_for_next", lambda g, layer, x0, x: x if layer == 0 else x0),
    "TiedGradientOfHeadAlone": ("embedding", lambda g: g.w["head"].detach()
                                if g.cfg["tied"] else g.w["embed"]),
    "CapSlopeMissing": ("cap", without_slope(Gpt.cap)),
    "CapWithoutShift": ("cap", lambda g, raw: Gpt.cap(g, raw - g.cfg["cap_shift"])),
    "TermsNotDropped": ("terms", past_the_end),
    "TermsStopAtDocuments": ("terms", within_document),
    "GradScaleIgnored": ("grad_scale", lambda g: 1.0),
    "YarnScaleForgotten": ("grown_scale", lambda g, c, old, new: c),
    "YarnScaleOnce": ("growths", lambda g: list(zip(g.cfg["windows"][:1], g.cfg["windows"][-1:]))
                      if len(g.cfg["windows"]) > 1 else []),
    "YarnAllPairsAlike": ("stretched", lambda g, f, old, new: f * old / new),
    "SmearOfTheNext": ("smear", lambda g, e: torch.cat([
        e[:-1] + g.w["smear"][0, 0] * g.gate(e, "smear_gate")[:-1] * e[1:], e[-1:]])),
    # what is smeared is smeared on
    "SmearGateOfTheOther": ("smear", lambda g, e: torch.cat([
        e[:1], e[1:] + g.w["smear"][0, 0] * g.gate(e, "smear_gate")[:-1] * e[:-1]])),
    "SkipOfTheLayerBefore": ("skip", lambda g, layer, x, x0, kept:
                             Gpt.skip(g, layer, x, x0, kept[:1] + kept[:-1])),
    "SkipGateOnX": ("skip", lambda g, layer, x, x0, kept: Gpt.skip(g, layer, x, x, kept)),
    "SkipWithoutGradient": ("skip", lambda g, layer, x, x0, kept:
                            Gpt.skip(g, layer, x, x0, [k.detach() for k in kept])),
    "SecondEmbeddingForgetsGradient": ("mix2", lambda g, layer, x, x02:
                                       Gpt.mix2(g, layer, x, x02.detach())),
    "BackoutAdded": ("backed_out", lambda g, x, kept: 2 * x - Gpt.backed_out(g, x, kept)),
    "ScaleOfVAlone": ("attn_scale", lambda g, layer, which: 1.0 if which == 1
                      else Gpt.attn_scale(g, layer, which)),
    "ValueGateNotDoubled": ("with_values", lambda g, layer, n, v:
                            (v + Gpt.with_values(g, layer, n, v)) / 2),
    "ValueGateWithoutGradient": ("with_values", lambda g, layer, n, v:
                                 Gpt.with_values(g, layer, n.detach(), v)),
    "OffsetOfAllColumns": ("offset_columns", lambda g: range(g.cfg["head"])),
    "NoOffset": ("offset_columns", lambda g: []),
    "BigramOfTheNext": ("rows_of_pairs", lambda g: Small.rows_of_pairs(g)[1:] +
                        [g.cfg["bigram"] - 1]),
    "BigramWithoutSigns": ("signs", lambda g: torch.ones_like(Small.signs(g))),
    "BigramInAllColumns": ("with_bigram", lambda g, x, b, row: torch.cat(
        [x[:, :-row.shape[1]], x[:, -row.shape[1]:] + b * row], dim=1)),
    "PairsBySlot": ("place", lambda g, row, slot: (row // 2, 2 * slot + row % 2)),
    "PairsAtOnePosition": ("pair_position", lambda g, t, h: 2 * t),
    "PairsAtTheirRow": ("pair_position", lambda g, t, h: 2 * t + h // (g.cfg["heads"] // 2)),
    "PairsInTheWholeWindow": ("pair_visible", lambda g, i, j, window:
                              Small.pair_visible(g, i, j, 2 * window)),
    "PairsAcrossDocuments": ("pair_visible", lambda g, i, j, window: i - window <= j <= i),
    "XsaWithoutGradientOfV": ("exclude", lambda g, alpha, y, v:
                              Small.exclude(g, alpha, y, v.detach())),
    "XsaWithoutTanh": ("exclude", lambda g, alpha, y, v: Small.exclude(
        g, torch.atanh(torch.clamp(alpha, -0.99, 0.99)), y, v)),
    "ValueGateOfInputAlone": ("value_gate_input", lambda g, n, row: n[:, :g.cfg["gate_width"]]),
    "LateAttentionOfX": ("late", lambda g, kept, x, layer: x),
    "LateWithoutGradient": ("late", lambda g, kept, x, layer:
                            Small.late(g, kept, x, layer).detach()),
    "CoefsNotScaled": ("coefs", lambda g, which, x: 10 * Small.coefs(g, which, x)),
    "CoefsWithoutGradient": ("coefs", lambda g, which, x: Small.coefs(g, which, x.detach())),
    "DynamicValuesWithoutStates": ("dynamic_values", lambda g, layer, v, m, states:
                                   Small.dynamic_values(g, layer, v, m, [0 * states[0]])),
    "FinalOfTheLastLayer": ("final", lambda g, x, x0, entered, kept:
                            Small.final(g, x, x0, x, kept)),
    "OffsetInAllLayers": ("offset", lambda g, layer, k: Gpt.offset(g, int(
        g.cfg["long_layers"]).bit_length() - 1, k)),
}


# ---- files of vectors ------------------------------------------------------------------------------


def path_of(directory, case):
    return os.path.join(directory, case + ".safetensors")


def write_case(directory, case, cfg, weights, batch):
    results = model_of(cfg)(cfg, weights, batch).results()
    for name, value in results.items():
        assert torch.isfinite(value).all(), (case, name, value)
        assert name == "grad.spare" or value.abs().max() > 1e-4, (case, name, value)
    numbers = {name: torch.tensor(ids, dtype=torch.float64) for name, ids in batch.items()}
    tensors = {**weights, **numbers, **results}
    save_file({name: value.contiguous() for name, value in tensors.items()},
              path_of(directory, case), metadata={"config": json.dumps(cfg)})


def read_case(directory, case):
    with safe_open(path_of(directory, case), framework="pt") as f:
        cfg = {**COMMON, **json.loads(f.metadata()["config"])}  # old files lack newer fields
        tensors = {name: f.get_tensor(name) for name in f.keys()}
    weights = {name: tensors[name] for name, _ in shapes(cfg)}
    batch = {name: [int(i) for i in tensors[name]] for name in ("inputs", "targets", "doc")}
    want = {name: value for name, value in tensors.items()
            if name not in weights and name not in batch}
    return cfg, weights, batch, want


# ---- comparing -----------------------------------------------------------------------------------


def errors(got, want):
    """The larger of the test's two errors of each tensor, by max |want| and by |want|_F."""
    assert got.keys() == want.keys(), (got.keys() ^ want.keys())
    out = {}
    for name in want:
        difference = got[name] - want[name]
        if name == "grad.spare":  # nothing reads it
            assert not got[name].any() and not want[name].any()
            continue
        out[name] = max((difference.abs().max() / want[name].abs().max()).item(),
                        (difference.norm() / want[name].norm()).item())
    return out


def worst(directory, mutant=lambda model: model, **options):
    """The largest error of all cases (error, case, tensor), and in how many cases it is large."""
    found, seen = (0.0, "-", "-"), 0
    for case in CASES:
        cfg, weights, batch, want = read_case(directory, case)
        model = mutant(model_of(cfg))
        errs = errors(model(cfg, weights, batch, **options).results(), want)
        name = max(errs, key=errs.get)
        found = max(found, (errs[name], case, name))
        seen += errs[name] > MUTANT_FACTOR * F32_BOUND
    return found, seen


def check(directory):
    ok = True
    for label, dtype, bound in (("float64", torch.float64, F64_BOUND),
                                ("float32", torch.float32, F32_BOUND)):
        (err, case, name), _ = worst(directory, dtype=dtype)
        print("%s: largest error %.1e (%s, %s), bound %.0e" % (label, err, case, name, bound))
        ok = ok and err <= bound
    return 0 if ok else 1


def mutants(directory):
    survivors = []
    print("%-24s %9s %9s %6s  %s" % ("mistake", "error", "/ bound", "cases", "seen best in"))
    (err, case, name), _ = worst(directory)
    print("%-24s %9.1e %9.1e %6s  %s, %s" % ("(none)", err, err / F64_BOUND, "", case, name))
    if not err <= F64_BOUND:
        survivors.append("the reference itself differs from the vectors")
    for mutant, (method, mistake) in MUTANTS.items():
        assert hasattr(Small, method), (mutant, method)
        (err, case, name), seen = worst(directory, lambda model: type(
            mutant, (model,), {method: mistake} if hasattr(model, method) else {}))
        print("%-24s %9.1e %9.1e %3d/%d   %s, %s" % (mutant, err, err / F64_BOUND, seen,
                                                    len(CASES), case, name))
        if not err > MUTANT_FACTOR * F32_BOUND:
            survivors.append(mutant)
    print("%d mistakes, not seen: %s" % (len(MUTANTS), ", ".join(survivors) or "none"))
    return 1 if survivors else 0


def main():
    torch.set_num_threads(1)
    here = os.path.dirname(os.path.abspath(__file__))
    directory = os.path.join(here, "..", "data", "gpt")
    if sys.argv[1:] == ["--check"]:
        return check(directory)
    if sys.argv[1:] == ["--mutants"]:
        return mutants(directory)
    if len(sys.argv) > 2 or sys.argv[1:2] == ["--help"]:
        print(__doc__, end="")
        return 2
    directory = sys.argv[1] if len(sys.argv) > 1 else directory
    for number, case in enumerate(CASES):
        if not os.path.exists(path_of(directory, case)):
            write_case(directory, case, *make_case(number, case))
    print("%d cases, %d bytes" % (len(CASES), sum(os.path.getsize(path_of(directory, case))
                                                  for case in CASES)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
