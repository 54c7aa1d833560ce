#!/usr/bin/env python3
"""gpt_reference.py - the GPT of src/model/gpt.h in PyTorch float64, from its formulas alone.

    python3 tests/reference/gpt_reference.py [DIRECTORY]     writes the vectors
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
    x  = x0 = norm(embed[token])
    per layer:  x <- r x + a x0
                n  = norm(x);  q, k, v = n Wq^T, n Wk^T, n Wv^T, head h being columns h*head ...
                q, k <- rope(norm(q)), rope(norm(k))
                y  = softmax(scale q k^T) v       keys j with max(doc_i, i - window) <= j <= i
                y_h <- y_h sigmoid(n[0:gate_width] . u_h)
                x <- x + y Wo^T
                x <- x + relu(norm(x) A^T)^2 B
    raw = norm(x) head^T;  z = cap(raw)
    objective = sum_t sum_{k < n, t + k < T} w_k (logsumexp(z_t) - z_t[target_{t+k}])

    rope: pairs = round(head/2 * share), f_j = base^(-j / (pairs - 1)), one pair: f_0 = 1; row i
          turns pair j by i f_j: (p, r) -> (p cos + r sin, r cos - p sin); the pairs are (2j, 2j+1)
          (adjacent) or (j, j + head/2); other columns stay
    cap:  raw;  scale tanh(raw / scale);  scale sigmoid((raw + shift) / width)
    softcap c: the softmax is of c tanh(logit / c)
"""
import json
import math
import os
import sys

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file

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

    def frequency(self, j):
        pairs = self.n_pairs()
        return 1.0 if pairs == 1 else self.cfg["rope_base"] ** (-j / (pairs - 1))

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
        return self.cfg["attn_scale"] or 1.0 / math.sqrt(self.cfg["head"])

    def softcap(self, logits):
        c = self.cfg["attn_softcap"]
        return c * torch.tanh(logits / c) if c > 0 else logits

    def seen_logits(self, logits, mask):
        """The logits whose largest one is reported."""
        return logits[mask]

    def gate_input(self, x, n):
        return n

    def attention(self, layer, x):
        """The term that is added to x, and the largest logit of each head."""
        n, mask = self.norm(x), self.mask(layer)
        q, k, v = (n @ self.w["layer.%d.attn.%s" % (layer, c)].T for c in "qkv")
        outputs, largest = [], []
        for h in range(self.cfg["heads"]):
            of_head = slice(h * self.cfg["head"], (h + 1) * self.cfg["head"])
            qh, kh = (self.rope(self.qk_norm(a[:, of_head])) for a in (q, k))
            logits = self.scale() * (qh @ kh.T)
            largest.append(self.seen_logits(logits, mask).max().item())
            capped = self.softcap(logits).masked_fill(~mask, -math.inf)
            y = torch.softmax(capped, dim=1) @ v[:, of_head]
            if self.cfg["head_gates"]:
                u = self.w["layer.%d.attn.gate" % layer][h]
                s = self.gate_input(x, n)[:, :self.cfg["gate_width"]] @ u
                y = y * torch.sigmoid(s)[:, None]
            outputs.append(y)
        return torch.cat(outputs, dim=1) @ self.w["layer.%d.attn.o" % layer].T, largest

    def activation(self, x):
        return torch.relu(x) ** 2

    def mlp(self, layer, x):
        up, down = self.w["layer.%d.mlp.up" % layer], self.w["layer.%d.mlp.down" % layer]
        return self.activation(self.norm(x) @ up.T) @ down

    def mix(self, layer, x, x0):
        r, a = self.w["layer.%d.mix" % layer][0]
        return r * x + a * x0

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
        x = x0 = self.norm(self.embedding()[self.inputs])
        max_logit = []
        for layer in range(self.cfg["layers"]):
            if self.cfg["x0_mix"]:
                x = self.mix(layer, x, x0)
            added, largest = self.attention(layer, x)
            max_logit.append(largest)
            x = x + added
            x = x + self.mlp(layer, x)
            x0 = self.x0_for_next(layer, x0, x)
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
}


# ---- cases ---------------------------------------------------------------------------------------

COMMON = {
    "layers": 2, "width": 24, "heads": 2, "head": 12, "mlp": 40, "vocab": 37,
    "qk_norm": 1, "tied": 0, "head_gates": 0, "x0_mix": 0, "gate_width": 5,
    "cap": "none", "cap_scale": 3.0, "cap_shift": 0.0, "cap_width": 1.0,
    "attn_scale": 0.0, "attn_softcap": 0.0,
    "rope_base": 1024.0, "rope_share": 0.5, "rope_adjacent": 0,
    "long_layers": 2, "window_short": 3, "window_long": 9, "norm_eps": 1.1920928955078125e-07,
    "weights": [1.0], "grad_scale": 1.0,
}
SIGMOID = {"cap": "sigmoid", "cap_scale": 23.0, "cap_shift": 5.0, "cap_width": 7.5}
TANH = {"cap": "tanh", "cap_scale": 3.0}

# name: what differs from COMMON, and the lengths of the documents
CASES = {
    "sigmoid_split": ({**SIGMOID, "grad_scale": 0.125}, [11, 1, 14, 3]),
    "tanh_adjacent_tied": ({**TANH, "rope_adjacent": 1, "rope_share": 1.0, "tied": 1,
                            "attn_scale": 0.45, "weights": [1.0, 0.5], "long_layers": 1},
                           [1, 13, 9]),
    "plain_softcap": ({"qk_norm": 0, "attn_softcap": 1.5, "head": 16, "rope_share": 1.0,
                       "weights": [1.0, 0.5, 0.25], "rope_base": 100.0}, [12, 1, 13]),
    "gates_mix_tied": ({**SIGMOID, "head_gates": 1, "x0_mix": 1, "tied": 1,
                        "weights": [1.0, 0.5, 0.25], "grad_scale": 0.125}, [10, 14, 1, 6]),
    "gates_wide_window": ({**TANH, "head_gates": 1, "rope_adjacent": 1, "window_short": 30,
                           "window_long": 100, "weights": [1.0, 0.5]}, [9, 12, 1, 4]),
    "mix_plain_tied": ({"x0_mix": 1, "qk_norm": 0, "tied": 1, "attn_scale": 0.2,
                        "rope_share": 1.0, "long_layers": 3}, [13, 11, 1]),
    "everything": ({**SIGMOID, "head_gates": 1, "x0_mix": 1, "heads": 3, "head": 8,
                    "rope_adjacent": 1, "rope_share": 0.5, "attn_softcap": 2.0,
                    "attn_scale": 0.6, "weights": [1.0, 0.5, 0.25], "window_short": 1,
                    "long_layers": 1, "norm_eps": 0.05, "grad_scale": 0.125}, [15, 1, 16, 8]),
    "one_pair_one_document": ({"rope_share": 1 / 6, "long_layers": 0, "norm_eps": 1e-5}, [23]),
    "three_tokens": ({**TANH, "layers": 1, "width": 8, "heads": 1, "head": 8, "mlp": 8,
                      "vocab": 11, "weights": [1.0, 0.5, 0.25, 0.125]}, [2, 1]),
}
SMALL_EMBEDDING = ("one_pair_one_document",)  # cases in which eps matters


def shapes(cfg):
    width, inner = cfg["width"], cfg["heads"] * cfg["head"]
    if not cfg["tied"]:
        yield "embed", (cfg["vocab"], width)
    yield "head", (cfg["vocab"], width)
    for layer in range(cfg["layers"]):
        at = "layer.%d." % layer
        for c in "qkv":
            yield at + "attn." + c, (inner, width)
        yield at + "attn.o", (width, inner)
        if cfg["head_gates"]:
            yield at + "attn.gate", (cfg["heads"], cfg["gate_width"])
        if cfg["x0_mix"]:
            yield at + "mix", (1, 2)
        yield at + "mlp.up", (cfg["mlp"], width)
        yield at + "mlp.down", (cfg["mlp"], width)


def draw_weight(rng, case, cfg, name, shape):
    """Float32 numbers, large enough that every part of the model matters."""
    kind = name.rsplit(".", 1)[-1]
    deviation = {"embed": 1.0, "head": 0.4, "q": 1.2, "k": 1.2, "v": 1.0, "o": 1.0,
                 "gate": 0.8, "mix": 0.03, "up": 1.0, "down": 0.5}[kind]
    if kind in "qkvo" or kind in ("up", "down"):
        deviation /= math.sqrt(cfg["width"])
    if kind == "embed" and case in SMALL_EMBEDDING:
        deviation = 0.005
    w = deviation * rng.standard_normal(shape)
    if kind == "mix":
        w += np.array([[1.05, 0.1]])
    return torch.from_numpy(w.astype(np.float32))


def make_case(number, case):
    changes, lengths = CASES[case]
    cfg = {**COMMON, **changes}
    rng = np.random.RandomState(20260101 + number)  # its stream never changes
    weights = {name: draw_weight(rng, case, cfg, name, shape) for name, shape in shapes(cfg)}
    stream = rng.randint(0, cfg["vocab"], size=sum(lengths) + 1)
    doc = [sum(lengths[:d]) for d, length in enumerate(lengths) for _ in range(length)]
    batch = {"inputs": stream[:-1].tolist(), "targets": stream[1:].tolist(), "doc": doc}
    return cfg, weights, batch


def path_of(directory, case):
    return os.path.join(directory, case + ".safetensors")


def write_case(directory, case, cfg, weights, batch):
    results = Gpt(cfg, weights, batch).results()
    for name, value in results.items():
        assert torch.isfinite(value).all() and value.abs().max() > 1e-4, (case, name, value)
    numbers = {name: torch.tensor(ids, dtype=torch.float64) for name, ids in batch.items()}
    tensors = {**weights, **numbers, **results}
    save_file({name: value.contiguous() for name, value in tensors.items()},
              path_of(directory, case), metadata={"config": json.dumps(cfg)})


def read_case(directory, case):
    with safe_open(path_of(directory, case), framework="pt") as f:
        cfg = json.loads(f.metadata()["config"])
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
        write_case(directory, case, *make_case(number, case))
    print("%d cases, %d bytes" % (len(CASES), sum(os.path.getsize(path_of(directory, case))
                                                  for case in CASES)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
