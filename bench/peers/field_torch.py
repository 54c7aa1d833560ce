#!/usr/bin/env python3
"""field_torch.py - musec's optimizers beside those of other packages: fifty steps on a CPU.

    python3 bench/peers/field_torch.py [--from DIR] [--only TEXT]

Both sides get the same weights of float64, three shapes of them, the same gradients, and settings
that mean the same.  Printed is |W - W'| / |W' - W_0| after fifty steps, the largest of the shapes,
twice: as the package comes, and in another process where its conversions to 16 and 32 bits are left
out.  What is left then is a difference of definition, and the last column says which.

Compared is what can be imported, from --from DIR too, where source files may lie: torch.optim,
pytorch_optimizer and optax, from PyPI; soap.py (nikhilvyas/SOAP), kl_opt.py (yorkerlin/KL-Methods),
dion (microsoft/dion) and distributed_shampoo (facebookresearch/optimizers).  Bases of eigenvectors
are compared on square matrices: the longer factor of another begins with a null space, whose basis
is whatever an eigensolver makes of rounding errors.
"""

import argparse
import contextlib
import importlib
import importlib.metadata
import io
import json
import os
import subprocess
import sys

os.environ["TORCHDYNAMO_DISABLE"] = "1"  # what others compile runs as it is written

import numpy  # noqa: E402
import torch  # noqa: E402

import musec.torch as mt  # noqa: E402

STEPS = 50
SHAPES = [(16, 24), (24, 16), (20, 20)]
LR, WD = 0.02, 0.1


def gradients(shape):
    g = torch.Generator().manual_seed(shape[0] * 100 + shape[1])
    return [torch.randn(shape, generator=g, dtype=torch.float64) for _ in range(STEPS + 1)]


class OfTorch:
    """An optimizer of PyTorch's kind over one weight."""

    def __init__(self, make, start):
        self.w = torch.nn.Parameter(start.clone())
        self.optimizer = make(self.w)

    def step(self, g):
        self.w.grad = g.clone()
        self.optimizer.step()


class OfOptax:
    """One of optax, on float64."""

    def __init__(self, make, start):
        import jax

        jax.config.update("jax_enable_x64", True)
        self.jnp = importlib.import_module("jax.numpy")
        self.optax = importlib.import_module("optax")
        self.rule = make(self.optax)
        self.w = start
        self.state = self.rule.init(self.jnp.asarray(start.numpy()))

    def step(self, g):
        w = self.jnp.asarray(self.w.numpy())
        update, self.state = self.rule.update(self.jnp.asarray(g.numpy()), self.state, w)
        self.w = torch.from_numpy(numpy.array(self.optax.apply_updates(w, update)))


def ends(make, kind, shapes):
    """The weights after fifty steps."""
    found = []
    for shape in shapes:
        start, *grads = gradients(shape)
        one = kind(make, start)
        for g in grads:
            one.step(g)
        found.append((start, one.w.detach()))
    return found


def difference(ours, theirs):
    return max(
        float((a - b).norm() / (b - start).norm()) for (start, a), (_, b) in zip(ours, theirs)
    )


def muon_group(w, cls, **options):
    return cls([{"params": [w], "use_muon": True, **options}])


# ---- the pairs -----------------------------------------------------------------------------------


def pairs():
    """Optimizer, package, module to import, ours, theirs, its kind, shapes, what differs."""
    t, f = torch.optim, "pytorch_optimizer"

    def peer(name):
        return getattr(importlib.import_module(f), name)

    both = {"lr": LR, "weight_decay": WD}
    betas = {"betas": (0.9, 0.99), "eps": 1e-8}
    square = [(20, 20)]
    zero, floor = {"momentum_init": "zero"}, {"ns_eps_form": "floor"}
    muon = {**both, "momentum": 0.95, "ns_mode": "paper", "nesterov": True, **zero}

    def row(name, package, module, ours, theirs, words="", kind=OfTorch, shapes=SHAPES):
        return name, package, module, ours, theirs, kind, shapes, words

    sgdm = lambda w: mt.SGDM([w], **both, momentum=0.9, decay_form="coupled")
    yield row("SGDM", "torch.optim.SGD", "torch", sgdm,
              lambda w: t.SGD([w], **both, momentum=0.9, dampening=0.9))
    yield row("Adam", "torch.optim.Adam", "torch", lambda w: mt.Adam([w], **both, **betas),
              lambda w: t.Adam([w], **both, **betas))
    adamw = lambda w: mt.AdamW([w], **both, **betas)
    yield row("AdamW", "torch.optim.AdamW", "torch", adamw, lambda w: t.AdamW([w], **both, **betas))
    yield row("AdamW", "optax.adamw", "optax", adamw,
              lambda o: o.adamw(LR, b1=0.9, b2=0.99, eps=1e-8, weight_decay=WD), kind=OfOptax)
    mix = {**both, "betas": (0.9, 0.99, 0.995)}
    ademamix = lambda w: mt.AdEMAMix([w], **mix, alpha=4.0, eps=1e-8)
    yield row("AdEMAMix", f + ".AdEMAMix", f, ademamix,
              lambda w: peer("AdEMAMix")([w], **mix, alpha=4.0, eps=1e-8, weight_decouple=True))
    yield row("AdEMAMix", "optax.contrib.ademamix", "optax", ademamix,
              lambda o: o.contrib.ademamix(LR, b1=0.9, b2=0.99, b3=0.995, alpha=4.0, eps=1e-8,
                                           weight_decay=WD), kind=OfOptax)
    lion = lambda w: mt.Lion([w], **both, betas=(0.9, 0.99))
    yield row("Lion", f + ".Lion", f, lion,
              lambda w: peer("Lion")([w], **both, betas=(0.9, 0.99), weight_decouple=True))
    yield row("Lion", "optax.lion", "optax", lion,
              lambda o: o.lion(LR, b1=0.9, b2=0.99, weight_decay=WD), kind=OfOptax)
    yield row("Signum", f + ".SignSGD", f,
              lambda w: mt.Signum([w], **both, momentum=0.9, **zero),
              lambda w: peer("SignSGD")([w], **both, momentum=0.9))
    yield row("Muon", "torch.optim.Muon", "torch",
              lambda w: mt.Muon([w], **muon, **floor, adjust_lr_fn="original"),
              lambda w: t.Muon([w], **both, momentum=0.95, nesterov=True, adjust_lr_fn="original"))
    yield row("Muon", f + ".Muon", f,
              lambda w: mt.Muon([w], **muon, **floor, adjust_lr_fn="original"),
              lambda w: muon_group(w, peer("Muon"), **both, momentum=0.95, nesterov=True,
                                   use_adjusted_lr=False))
    yield row("Muon", "optax.contrib.scale_by_muon", "optax",
              lambda w: mt.Muon([w], **{**muon, "nesterov": False}, **floor,
                                adjust_lr_fn="none"),
              lambda o: o.chain(o.contrib.scale_by_muon(beta=0.95, nesterov=False),
                                o.add_decayed_weights(WD), o.scale(-LR)),
              "",
              kind=OfOptax)
    yield row("MuonClip", f + ".MuonClip", f,
              lambda w: mt.MuonClip([w], **{**muon, "nesterov": False}, **floor,
                                    momentum_form="heavy-ball", adjust_lr_fn="match_rms_adamw"),
              lambda w: muon_group(w, peer("MuonClip"), **both, momentum=0.95),
              "no logits are given to either")
    yield row("NorMuon", f + ".NorMuon", f,
              lambda w: mt.NorMuon([w], **muon, **floor, ns_coefficients="keller",
                                   decay_form="decoupled", adjust_lr_fn="original"),
              lambda w: muon_group(w, peer("NorMuon"), **both, momentum=0.95, nesterov=True),
              "theirs adds eps to the norm that is given back, too")
    yield row("AdaMuon", f + ".AdaMuon", f,
              lambda w: mt.AdaMuon([w], **{**muon, "nesterov": False}, **floor,
                                   second_beta=0.95, second_eps=1e-8, adjust_lr_fn="fixed-rms"),
              lambda w: muon_group(w, peer("AdaMuon"), **both, betas=(0.95, 0.95), eps=1e-8),
              "theirs corrects the second moment for its start before eps is added")
    yield row("Scion", f + ".SCION", f,
              lambda w: mt.Scion([w], **both, momentum=0.9, ns_mode="paper", **floor),
              lambda w: peer("SCION")([w], **both, momentum=0.1, norm_type=2),
              "")
    soap = lambda w: mt.SOAP([w], lr=LR, weight_decay=0.0, precondition_every=5)
    first = "none but the shift s of a refresh"
    yield row("SOAP", "nikhilvyas/SOAP", "soap", soap,
              lambda w: importlib.import_module("soap").SOAP(
                  [w], lr=LR, weight_decay=0.0, precondition_frequency=5), first, shapes=square)
    yield row("SOAP", f + ".SOAP", f, soap,
              lambda w: peer("SOAP")([w], lr=LR, weight_decay=0.0, precondition_frequency=5), first,
              shapes=square)
    yield row("KL-Shampoo", "yorkerlin/KL-Methods", "kl_opt",
              lambda w: mt.KLShampoo([w], lr=LR, weight_decay=0.0, precondition_every=5),
              lambda w: importlib.import_module("kl_opt").KLOpt(
                  [w], lr=LR, weight_decay=0.0, precondition_frequency=5), first, shapes=square)

    def distributed(w):
        d = importlib.import_module("distributed_shampoo")
        return d.DistributedShampoo(
            [w], **both, betas=(0.9, 0.99), epsilon=1e-6, precondition_frequency=4,
            grafting_config=d.AdamPreconditionerConfig(beta2=0.99, epsilon=1e-8),
            distributed_config=d.SingleDeviceDistributedConfig(target_parameter_dimensionality=2))
    shampoo = {"precondition_every": 4, "precondition_eps": 1e-6}
    yield row("Shampoo", "distributed_shampoo", "distributed_shampoo",
              lambda w: mt.Shampoo([w], **both, **betas, **shampoo), distributed)
    yield row("Shampoo", f + ".Shampoo", f,
              lambda w: mt.Shampoo([w], lr=LR, graft="none", betas=(0.0, 0.9), weight_decay=0.0,
                                   precondition_beta=1.0, precondition_every=1,
                                   precondition_eps=1e-6),
              lambda w: peer("Shampoo")([w], lr=LR, matrix_eps=1e-6),
              "none: sums from eps I, no momentum, refreshed at every step")
    yield row("Dion2", "microsoft/dion", "dion",
              lambda w: mt.Dion2([w], **both, ns_mode="paper", ns_eps=1e-8),
              lambda w: importlib.import_module("dion").Dion2([w], **both))


# ---- running -------------------------------------------------------------------------------------


def keep_wide():
    """Conversions to fewer bits become none, for what is imported after this."""
    torch.bfloat16 = torch.float16 = torch.float = torch.float32 = torch.float64
    same = lambda x, *a, **k: x
    torch.Tensor.bfloat16 = torch.Tensor.half = torch.Tensor.float = same


def measure(only, wide):
    found = []
    torch.set_default_dtype(torch.float64)  # some make state in the default
    some = [p for p in pairs() if not only or only.lower() in f"{p[0]} {p[1]}".lower()]
    mine = [ends(p[3], OfTorch, p[6]) for p in some]
    if wide:
        keep_wide()
    for (name, package, module, _, theirs, kind, shapes, words), end in zip(some, mine):
        if wide and kind is OfOptax:
            continue
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                importlib.import_module(module)
                value = difference(end, ends(theirs, kind, shapes))
        except ModuleNotFoundError as e:
            value = f"no {e.name}"
        except Exception as e:  # a package may not run here: the others go on
            value = f"{type(e).__name__}: {e}"[:90]
        found.append([name, package, value, words])
    return found


def versions():
    found = ["torch " + torch.__version__]
    for name in ("pytorch-optimizer", "optax", "jax"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{name} {importlib.metadata.version(name)}")
    return ", ".join(found)


def shown(value):
    return f"{value:.1e}" if isinstance(value, float) else str(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--from", dest="source", default="", help="a folder with source files")
    parser.add_argument("--only", default="", help="rows that have this text")
    parser.add_argument("--measure", choices=["as it is", "wide"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.source:
        sys.path.append(args.source)
    if args.measure is not None:
        print(json.dumps(measure(args.only, args.measure == "wide")))
        return
    rows = []
    for how in ("as it is", "wide"):
        command = [sys.executable, __file__, "--measure", how, "--from", args.source]
        done = subprocess.run([*command, "--only", args.only], stdout=subprocess.PIPE, text=True,
                              check=True)
        rows.append(json.loads(done.stdout))
    wide = {tuple(row[:2]): row[2] for row in rows[1]}
    print(f"{STEPS} steps, {versions()}\n")
    print("| optimizer | package | as it is | without its 16 and 32 bits | differs |")
    print("|---|---|---|---|---|")
    for name, package, value, words in rows[0]:
        other = wide.get((name, package), "–")
        print(f"| {name} | {package} | {shown(value)} | {shown(other)} | {words} |")


if __name__ == "__main__":
    main()
