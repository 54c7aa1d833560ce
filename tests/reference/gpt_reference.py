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

F64_BOUND, F32_BOUND = 1e-12, 1e-4  # those of model_reference_test.c
MUTANT_FACTOR = 10.0  # a mistake must exceed the wider bound by this much


class Gpt:
    """One pass.  Each part that a mutant below changes is a method."""

    def __init__(self, cfg, weights, batch, dtype=torch.float64):
        self.cfg, self.dtype = cfg, dtype
        self.w = {name: value.to(dtype).requires_grad_() for name, value in weights.items()}
        self.inputs, self.targets, self.doc = batch["inputs"], batch["targets"], batch["doc"]
        self.T = len(self.inputs)

    # ---- parts ----

    def eps(self):
        return self.cfg["norm_eps"]

    def norm(self, x):
        return x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + self.eps())

    def window(self, layer):
        is_long = self.cfg["long_layers"] >> layer & 1
        return self.cfg["window_long"] if is_long else self.cfg["window_short"]

    def visible(self, i, j, window):
        return self.doc[i] <= j and i - window <= j and j <= i

    def mask(self, layer):
        out = torch.zeros(self.T, self.T, dtype=torch.bool)
        for i in range(self.T):
            for j in range(self.T):
                out[i, j] = self.visible(i, j, self.window(layer))
        return out

    def n_pairs(self):
        return math.floor(self.cfg["head"] / 2 * self.cfg["rope_share"] + 0.5)

    def growths(self):
        windows = self.cfg["windows"]
        return list(zip(windows[:-1], windows[1:]))

    def frequency(self, j):
        pairs = self.n_pairs()
        f = 1.0 if pairs == 1 else self.cfg["rope_base"] ** (-j / (pairs - 1))
        for old, new in self.growths():
            f = self.stretched(f, old, new)
        return f

    def stretched(self, f, old, new):
        m = min(max((old * f / (2 * math.pi) - 1) / 31, 0.0), 1.0)
        return f * (old / new + m * (1 - old / new))

    def pair(self, j):
        if self.cfg["rope_adjacent"]:
            return 2 * j, 2 * j + 1
        return j, j + self.cfg["head"] // 2

    def angle(self, i, j):
        return i * self.frequency(j)

    def rope(self, x):
        """x: (T, head) of one head."""
        columns = list(x.unbind(dim=1))
        for j in range(self.n_pairs()):
            at_p, at_r = self.pair(j)
            angles = torch.tensor([self.angle(i, j) for i in range(self.T)], dtype=torch.float64)
            cos, sin = torch.cos(angles).to(self.dtype), torch.sin(angles).to(self.dtype)
            p, r = columns[at_p], columns[at_r]
            columns[at_p], columns[at_r] = p * cos + r * sin, r * cos - p * sin
        return torch.stack(columns, dim=1)

    def qk_norm(self, x):
        return self.norm(x) if self.cfg["qk_norm"] else x

    def scale(self):
        c = self.cfg["attn_scale"] or 1.0 / math.sqrt(self.cfg["head"])
        for old, new in self.growths():
            c = self.grown_scale(c, old, new)
        return c

    def grown_scale(self, c, old, new):
        return c * (1 + 0.2 * math.log(new / old))

    def softcap(self, logits):
        c = self.cfg["attn_softcap"]
        return c * torch.tanh(logits / c) if c > 0 else logits

    def seen_logits(self, logits, mask):
        """The logits whose largest one is reported."""
        return logits[mask]

    def gate_input(self, x, n):
        return n

    def gate(self, x, name):
        """The logistic function of the gate's logits: (T, rows of the weight)."""
        return torch.sigmoid(x[:, :self.cfg["gate_width"]] @ self.w[name].T)

    def attn_scale(self, layer, which):
        return self.w["layer.%d.attn.scales" % layer][0, which] if self.cfg["attn_scales"] else 1.0

    def with_values(self, layer, n, v):
        table = self.cfg["value_table"][layer]
        if table == 0:
            return v
        gate = 2 * self.gate(n, "layer.%d.attn.value_gate" % layer)
        rows = self.w["value.%d" % (table - 1)][self.inputs]
        return v + gate.repeat_interleave(self.cfg["head"], dim=1) * rows

    def offset_columns(self):
        turned = {column for j in range(self.n_pairs()) for column in self.pair(j)}
        return [c for c in range(self.cfg["head"]) if c not in turned]

    def offset(self, layer, k):
        """k: (T, head) of one head."""
        if not (self.cfg["key_offset"] and self.cfg["long_layers"] >> layer & 1):
            return k
        columns = list(k.unbind(dim=1))
        for c in self.offset_columns():
            columns[c] = torch.cat([columns[c][:1], columns[c][:-1]])
        return torch.stack(columns, dim=1)

    def attention(self, layer, x):
        """The term that is added to x, and the largest logit of each head."""
        n, mask = self.norm(x), self.mask(layer)
        q, k, v = (n @ (self.attn_scale(layer, 0) * self.w["layer.%d.attn.%s" % (layer, c)]).T
                   for c in "qkv")
        v = self.with_values(layer, n, v)
        outputs, largest = [], []
        for h in range(self.cfg["heads"]):
            of_head = slice(h * self.cfg["head"], (h + 1) * self.cfg["head"])
            qh, kh = (self.rope(self.qk_norm(a[:, of_head])) for a in (q, k))
            kh = self.offset(layer, kh)
            logits = self.scale() * (qh @ kh.T)
            largest.append(self.seen_logits(logits, mask).max().item())
            capped = self.softcap(logits).masked_fill(~mask, -math.inf)
            y = torch.softmax(capped, dim=1) @ v[:, of_head]
            if self.cfg["head_gates"]:
                u = self.w["layer.%d.attn.gate" % layer][h]
                s = self.gate_input(x, n)[:, :self.cfg["gate_width"]] @ u
                y = y * torch.sigmoid(s)[:, None]
            outputs.append(y)
        o = self.attn_scale(layer, 1) * self.w["layer.%d.attn.o" % layer]
        return torch.cat(outputs, dim=1) @ o.T, largest

    def activation(self, x):
        return torch.relu(x) ** 2

    def mlp(self, layer, x):
        up, down = self.w["layer.%d.mlp.up" % layer], self.w["layer.%d.mlp.down" % layer]
        return self.activation(self.norm(x) @ up.T) @ down

    def mix(self, layer, x, x0):
        r, a = self.w["layer.%d.mix" % layer][0, :2]
        return r * x + a * x0

    def mix2(self, layer, x, x02):
        return x + self.w["layer.%d.mix" % layer][0, 2] * x02

    def smear(self, e):
        gate = self.w["smear"][0, 0] * self.gate(e, "smear_gate")
        return torch.cat([e[:1], e[1:] + gate[1:] * e[:-1]])

    def skip(self, layer, x, x0, kept):
        """kept: x after each layer."""
        gate = 2 * self.gate(x0, "layer.%d.skip_gate" % layer)
        gate = gate * torch.sigmoid(self.w["layer.%d.skip" % layer])
        return x + gate * kept[self.cfg["skip_from"][layer] - 1]

    def backed_out(self, x, kept):
        return x - self.w["backout"][0, 0] * kept[self.cfg["backout"] - 1]

    def x0_for_next(self, layer, x0, x):
        return x0

    def embedding(self):
        return self.w["head"] if self.cfg["tied"] else self.w["embed"]

    def cap(self, raw):
        scale = self.cfg["cap_scale"]
        if self.cfg["cap"] == "tanh":
            return scale * torch.tanh(raw / scale)
        if self.cfg["cap"] == "sigmoid":
            return scale * torch.sigmoid((raw + self.cfg["cap_shift"]) / self.cfg["cap_width"])
        return raw

    def terms(self, z, t):
        """The unweighted loss terms of row t: one for each following token that exists."""
        lse = torch.logsumexp(z[t], dim=0)
        return [lse - z[t, self.targets[t + k]]
                for k in range(len(self.cfg["weights"])) if t + k < self.T]

    def grad_scale(self):
        return self.cfg["grad_scale"]

    # ---- the whole ----

    def results(self):
        e = self.embedding()[self.inputs]
        x = x0 = self.norm(self.smear(e) if self.cfg["smear"] else e)
        x02 = self.norm(self.w["embed2"][self.inputs]) if self.cfg["embed2"] else None
        max_logit, kept = [], []
        for layer in range(self.cfg["layers"]):
            if self.cfg["skip_from"][layer]:
                x = self.skip(layer, x, x0, kept)
            if self.cfg["x0_mix"]:
                x = self.mix(layer, x, x0)
            if self.cfg["embed2"]:
                x = self.mix2(layer, x, x02)
            added, largest = self.attention(layer, x)
            max_logit.append(largest)
            x = x + added
            x = x + self.mlp(layer, x)
            x0 = self.x0_for_next(layer, x0, x)
            kept.append(x)
        if self.cfg["backout"]:
            x = self.backed_out(x, kept)
        z = self.cap(self.norm(x) @ self.w["head"].T)
        objective = loss = torch.zeros((), dtype=self.dtype)
        for t in range(self.T):
            terms = self.terms(z, t)
            objective = objective + sum(w * l for w, l in zip(self.cfg["weights"], terms))
            loss = loss + terms[0]
        (self.grad_scale() * objective).backward()
        out = {"logits": z.detach(), "sums": torch.stack([objective.detach(), loss.detach()]),
               "max_logit": torch.tensor(max_logit, dtype=torch.float64)}
        for name, w in self.w.items():
            out["grad." + name] = torch.zeros_like(w) if w.grad is None else w.grad
        return {name: value.to(torch.float64) for name, value in out.items()}


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
    "OffsetInAllLayers": ("offset", lambda g, layer, k: Gpt.offset(g, int(
        g.cfg["long_layers"]).bit_length() - 1, k)),
}


# ---- files of vectors ------------------------------------------------------------------------------


def path_of(directory, case):
    return os.path.join(directory, case + ".safetensors")


def write_case(directory, case, cfg, weights, batch):
    results = Gpt(cfg, weights, batch).results()
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


def worst(model, directory, **options):
    """The largest error of all cases (error, case, tensor), and in how many cases it is large."""
    found, seen = (0.0, "-", "-"), 0
    for case in CASES:
        cfg, weights, batch, want = read_case(directory, case)
        errs = errors(model(cfg, weights, batch, **options).results(), want)
        name = max(errs, key=errs.get)
        found = max(found, (errs[name], case, name))
        seen += errs[name] > MUTANT_FACTOR * F32_BOUND
    return found, seen


def check(directory):
    ok = True
    for label, dtype, bound in (("float64", torch.float64, F64_BOUND),
                                ("float32", torch.float32, F32_BOUND)):
        (err, case, name), _ = worst(Gpt, directory, dtype=dtype)
        print("%s: largest error %.1e (%s, %s), bound %.0e" % (label, err, case, name, bound))
        ok = ok and err <= bound
    return 0 if ok else 1


def mutants(directory):
    survivors = []
    print("%-24s %9s %9s %6s  %s" % ("mistake", "error", "/ bound", "cases", "seen best in"))
    (err, case, name), _ = worst(Gpt, directory)
    print("%-24s %9.1e %9.1e %6s  %s, %s" % ("(none)", err, err / F64_BOUND, "", case, name))
    if not err <= F64_BOUND:
        survivors.append("the reference itself differs from the vectors")
    for mutant, (method, mistake) in MUTANTS.items():
        assert hasattr(Gpt, method), (mutant, method)
        (err, case, name), seen = worst(type(mutant, (Gpt,), {method: mistake}), directory)
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
