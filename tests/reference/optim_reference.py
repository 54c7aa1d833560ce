#!/usr/bin/env python3
"""optim_reference.py - trajectories of every optimizer in plain NumPy float64.

    python3 tests/reference/optim_reference.py [DIRECTORY]     (default: tests/data)

writes optim_reference.txt, a line for each case, "name optimizer shape lr-factor option=value ...",
and optim_reference.mgv with their numbers:

    lr_scale                the factor on lr at each step
    SHAPE.W0, SHAPE.G       the weight before the first step; the gradients, one below the other
    CASE.W                  the weights after each step, one below the other
    CASE.momentum m v slow second left right ...-root  the state after the last step, where it does not
                            depend on the signs of eigenvectors
    mha.* gqa.* mla.*       QK-Clip, shape "qk": see qk_cases()

The option role=embed is the parameter's role, not one of the optimizer.

The numbers come from the definitions, by the singular value decomposition wherever a spectral map
is exact, and nothing is shared with the library but coefficients (spectral_maps.py).  For ns-mode
accurate the numbers are those of the exact clip, which the library must meet within ns-tol / beta.
The inputs are float32 numbers, so that a float32 run starts from the same ones.

Conventions.  G is the gradient, with lambda W added under coupled decay; eta = lr * lr_scale *
lr-factor; c the shape rule's factor of an m x n matrix; U what the optimizer proposes.

    W <- W - eta c U                            and before that, by the decay form,
    decoupled    W <- (1 - eta lambda) W        independent  W <- (1 - lambda) W
    lr2          W <- (1 - eta^2 lambda) W
    cautious     as decoupled                   cautious-lr2  W <- (1 - c eta eta_0 lambda) W
                 but only those entries where U and W do not differ in sign
    frank-wolfe  W <- (1 - eta) W               after        (1 - eta lambda) (W - eta c U)
    hyperball    W <- |W| V / |V|, V = W - eta |W| U / |U|, Frobenius norms: c and lambda are not used

A second moment comes between the spectral map and that: with v of each row, column or element,
    v <- b v + (1 - b) mean(U^2),  O = U / (sqrt(v) + eps),  U <- O |U| / |O|.
"""
import os
import sys

import numpy as np

from mgv import write_mgv
from preconditioners import (preconditioner_cases, propose_dion2, propose_kl_shampoo, propose_shampoo,
                             propose_soap)
from spectral_maps import (CHAINS, KELLER, POLAR_EXPRESS, by_products, check_chains, polar, quintic,
                           sharp, ssc)

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 8
SHAPES = {"6x9": (6, 9), "9x6": (9, 6), "7x7": (7, 7)}
LR_SCALE = [1.0, 1.0, 0.9, 0.8, 0.75, 0.6, 0.5, 0.25]

# ---- what applies a spectral map ------------------------------------------------------------------


# As their authors print them; turbo has four steps, whose last one repeats.
SETS = {
    "cans": ([(8.4703, -25.1081, 18.6293), (4.1828, -3.1087, 0.5806), (3.9619, -2.9541, 0.5630),
              (3.2866, -2.4647, 0.5074), (2.2737, -1.6447, 0.4162)], 1.01),
    "you": ([(4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037),
             (2.8769, -3.1427, 1.2046), (2.8366, -3.0525, 1.2012)], 1.0),
    "turbo": ([(4.6051, -9.6552, 5.6769), (4.7505, -6.0861, 2.1790), (2.7763, -2.3190, 0.5523)]
              + 2 * [(2.4231, -2.2861, 0.8193)], 1.0),
    "cubic": ([(3.3656576, -3.3420992, 0.0), (2.5744352, -1.4957376, 0.0),
               (2.5368962, -1.4312570, 0.0), (2.4418906, -1.2764040, 0.0),
               (2.2230472, -0.9630650, 0.0)], 1.0),
}


def with_eps(x, steps, factor, eps, form):
    """quintic(), but for the norm that it begins with."""
    norm = factor * np.linalg.norm(x)
    x = x / (max(norm, eps) if form == "floor" else norm + eps)
    for a, b, c in steps:
        g = x @ x.T
        x = a * x + (b * g + c * g @ g) @ x
    return x


def orthogonal(x, o):
    """What muon makes of its momentum."""
    if o.get("ns-mode") == "exact":
        return polar(x)
    coeffs = o.get("ns-coeffs", "keller")
    if coeffs in SETS or "ns-eps" in o or "ns-iters" in o:
        steps, factor = SETS.get(coeffs, (5 * list(KELLER[:1]), 1.0))
        return with_eps(x, steps[:o.get("ns-iters", 5)], factor, o.get("ns-eps", 1e-7),
                        o.get("ns-eps-form", "added"))
    if coeffs == "polar-express":
        return quintic(x, POLAR_EXPRESS, 1.02)
    return quintic(x, KELLER, 1.0)


def sharpness(kind, o):
    return {"auto": np.inf if kind == "hard" else 2, "hard": np.inf}.get(
        o.get("sharpness", "auto"), o.get("sharpness"))


def clipped(x, d, kind, o):
    p, mode = sharpness(kind, o), o.get("ns-mode", "paper")
    if mode in ("exact", "accurate") or (mode == "paper" and kind == "hard"):
        return sharp(x, d, p)
    return ssc(x, d, 5) if mode == "paper" and p == 2 else by_products(x, d, p, mode)


# ---- what proposes an update ---------------------------------------------------------------------


def propose_momentum(state, g, o, _t):
    beta = o["beta"]
    new = 1.0 if o.get("momentum-form") == "heavy-ball" else beta
    if "momentum" in state:
        state["momentum"] = (1.0 - beta) * state["momentum"] + new * g
    else:
        state["momentum"] = g if o.get("momentum-init", "first") == "first" else new * g
    if o.get("nesterov") == "yes":
        return (1.0 - beta) * state["momentum"] + new * g
    return state["momentum"]


def propose_sign(state, g, o, t):
    return np.sign(propose_momentum(state, g, o, t))


def moments(state, g, o):
    zero = np.zeros_like(g)
    state["m"] = o["beta1"] * state.get("m", zero) + (1.0 - o["beta1"]) * g
    state["v"] = o["beta2"] * state.get("v", zero) + (1.0 - o["beta2"]) * g * g


def propose_adam(state, g, o, t):
    moments(state, g, o)
    v_hat = state["v"] / (1.0 - o["beta2"] ** t)
    return state["m"] / (1.0 - o["beta1"] ** t) / (np.sqrt(v_hat) + o["eps"])


def warm_alpha(o, t):
    steps = o.get("alpha-warmup", 0)
    return o["alpha"] * t / steps if t < steps else o["alpha"]


def warm_beta3(o, t):
    """From beta1 to beta3, linear in the half-life."""
    def life(beta):
        return np.log(0.5) / np.log(beta + 1e-8) - 1.0
    steps = o.get("beta3-warmup", 0)
    if t >= steps:
        return o["beta3"]
    s = t / steps
    return 0.5 ** (1.0 / ((1.0 - s) * life(o["beta1"]) + s * life(o["beta3"]) + 1.0))


def propose_ademamix(state, g, o, t):
    moments(state, g, o)
    beta3 = warm_beta3(o, t)
    state["slow"] = beta3 * state.get("slow", np.zeros_like(g)) + (1.0 - beta3) * g
    top = state["m"] / (1.0 - o["beta1"] ** t) + warm_alpha(o, t) * state["slow"]
    return top / (np.sqrt(state["v"]) / np.sqrt(1.0 - o["beta2"] ** t) + o["eps"])


def propose_lion(state, g, o, _t):
    m = state.get("momentum", np.zeros_like(g))
    state["momentum"] = o["beta2"] * m + (1.0 - o["beta2"]) * g
    return np.sign(o["beta1"] * m + (1.0 - o["beta1"]) * g)


PROPOSE = {"sgdm": propose_momentum, "signum": propose_sign, "adam": propose_adam,
           "adamw": propose_adam, "ademamix": propose_ademamix, "lion": propose_lion,
           "soap": propose_soap, "shampoo": propose_shampoo,
           "kl-shampoo": propose_kl_shampoo, "dion2": propose_dion2}


def threshold(x, o):
    text = str(o["threshold"])
    if text.startswith("rms:"):
        return float(text[4:]) * np.linalg.norm(x) / np.sqrt(min(x.shape))
    return float(text)


def carry_clipped(state, g, d, kind, o):
    """The clipped momentum is what is kept; Nesterov looks ahead from it and clips again."""
    state["momentum"] = clipped(state["momentum"], d, kind, o)
    if o.get("nesterov") != "yes":
        return state["momentum"]
    new = 1.0 if o.get("momentum-form") == "heavy-ball" else o["beta"]
    return clipped((1.0 - o["beta"]) * state["momentum"] + new * g, d, kind, o)


def divided(u, state, o):
    """The update over its own size in time, with the norm that it had."""
    kind = o.get("second-moment", "none")
    if kind == "none":
        return u
    b, eps = o.get("second-beta", 0.95), o.get("second-eps", 1e-10)
    axis = {"rows": 1, "longer": int(u.shape[0] >= u.shape[1]), "elements": None}[kind]
    mean = u * u if axis is None else (u * u).mean(axis=axis, keepdims=True)
    state["second"] = b * state.get("second", 0.0) + (1.0 - b) * mean
    out = u / (np.sqrt(state["second"]) + eps)
    return out * np.linalg.norm(u) / np.linalg.norm(out)


FUNCTION = {"muon": "polar", "muonclip": "polar", "normuon": "polar", "adamuon": "polar",
            "muon2": "polar", "dion2": "polar", "scion": "polar", "muonh": "polar", "musec": "hard",
            "soft-musec": "soft", "mucon": "hard", "softmuon": "soft"}


def direction(name, state, g, o, t, eta_share):
    """U of one matrix; the state moves on."""
    if name in PROPOSE and name not in FUNCTION:
        return PROPOSE[name](state, g, o, t)
    kind = o.get("function", "auto")
    if kind == "auto":
        kind = o.get("clip") if name == "spectra" else FUNCTION[name]
    if kind == "sharp":
        kind, o = "soft", {"sharpness": 4, **o}
    x = PROPOSE[o.get("base", name if name in PROPOSE else "sgdm")](state, g, o, t)
    if kind == "polar":
        return divided(orthogonal(x, o), state, o)
    stores = name in ("musec", "soft-musec")
    d = threshold(state["momentum"] if stores else x, o)
    if t <= o.get("threshold-warmup", 0):
        d = d / eta_share
    u = carry_clipped(state, g, d, kind, o) if stores else clipped(x, d, kind, o)
    u = divided(u, state, o)
    return u / d if o.get("update-scale") == "unit" else u


# ---- the step ------------------------------------------------------------------------------------


def shape_factor(shape, rule):
    m, n = shape
    return {"none": 1.0, "keller": np.sqrt(max(1.0, m / n)), "moonlight": 0.2 * np.sqrt(max(m, n)),
            "mup": np.sqrt(m / n), "rms": np.sqrt(max(m, n)),
            "fixed-rms": 0.2 * np.sqrt(m * n)}[rule]


def decayed(w, u, o, form, base, eta, c):
    wd = o.get("weight-decay", 0.0)
    if form in ("coupled", "after"):
        return w
    rate = {"decoupled": eta * wd, "cautious": eta * wd, "independent": wd, "lr2": eta * eta * wd,
            "cautious-lr2": c * eta * base * wd, "frank-wolfe": eta}[form]
    return w - rate * w * (u * w >= 0.0) if form.startswith("cautious") else (1.0 - rate) * w


def one_step(name, w, g, state, o, t, base, lr_factor):
    eta = base * lr_factor
    form = o.get("decay-form", "coupled" if name == "adam" else "decoupled")
    if form == "coupled":
        g = g + o.get("weight-decay", 0.0) * w
    u = direction(name, state, g, o, t, base / o["lr"])
    rule = o.get("shape-rule", "none")
    c = shape_factor(w.shape, rule) / (np.linalg.norm(u) if rule == "fixed-rms" else 1.0)
    if form == "hyperball":
        size = np.linalg.norm(w)
        moved = w - eta * size * u / np.linalg.norm(u)
        return size * moved / np.linalg.norm(moved)
    moved = decayed(w, u, o, form, base, eta, c) - eta * c * u
    return (1.0 - eta * o["weight-decay"]) * moved if form == "after" else moved


def trajectory(name, w, grads, o, lr_factor):
    state, out = {}, []
    if o.get("role") == "embed":  # whatever the optimizer, AdamW with settings of its own
        name, o = "adamw", {key[4:]: value for key, value in o.items() if key.startswith("aux-")}
    for t, g in enumerate(grads, 1):
        w = one_step(name, w, g, state, o, t, o["lr"] * LR_SCALE[t - 1], lr_factor)
        out.append(w)
    return out, state


# ---- the cases -----------------------------------------------------------------------------------

MOMENTUM = {"lr": 0.05, "beta": 0.3, "weight-decay": 0.8}
ADAM = {"lr": 0.05, "beta1": 0.8, "beta2": 0.9, "eps": 1e-6, "weight-decay": 0.8}
MIX = {**ADAM, "beta3": 0.97, "alpha": 4}
LION = {"lr": 0.05, "beta1": 0.6, "beta2": 0.9, "weight-decay": 0.8}
DECAY = {"decoupled": 0.8, "independent": 0.03, "lr2": 8, "cautious": 0.8, "cautious-lr2": 8,
         "coupled": 0.8, "after": 0.8, "frank-wolfe": 0.8}


def momentum_cases():
    for rule in ("none", "keller", "moonlight", "mup", "rms", "fixed-rms"):
        for shape in SHAPES:
            yield "muon." + rule, "muon", shape, 1, {**MOMENTUM, "shape-rule": rule}
    for form, wd in DECAY.items():
        o = {**MOMENTUM, "weight-decay": wd, "decay-form": form}
        yield "muon." + form, "muon", "9x6", 0.5, {**o, "shape-rule": "keller"}
        yield "sgdm." + form, "sgdm", "6x9", 2, o
    for shape in SHAPES:
        yield "muon.express", "muon", shape, 1, {**MOMENTUM, "ns-coeffs": "polar-express"}
        yield "muon.exact", "muon", shape, 1, {**MOMENTUM, "ns-mode": "exact"}
    for name, shape in (("muon", "6x9"), ("sgdm", "7x7")):
        for form in ("ema", "heavy-ball"):
            for nesterov in ("no", "yes"):
                for init in ("first", "zero"):
                    o = {"momentum-form": form, "nesterov": nesterov, "momentum-init": init}
                    title = ".".join((name, form[0] + nesterov[0] + init[0]))
                    yield title, name, shape, 1, {**MOMENTUM, **o}


def other_cases():
    for shape in ("6x9", "9x6"):
        yield "adam", "adam", shape, 1, ADAM
        yield "adamw", "adamw", shape, 0.5, ADAM
        ahead = "no" if shape == "6x9" else "yes"
        yield "signum", "signum", shape, 1, {**MOMENTUM, "nesterov": ahead}
        yield "ademamix", "ademamix", shape, 1, MIX
    yield "ademamix.warm", "ademamix", "7x7", 1, {**MIX, "alpha-warmup": 5, "beta3-warmup": 6}
    yield "ademamix.long", "ademamix", "7x7", 1, {**MIX, "alpha-warmup": 20, "beta3-warmup": 12}
    yield "adamw.cautious", "adamw", "7x7", 1, {**ADAM, "decay-form": "cautious"}
    aux = {"aux-" + key: value for key, value in {**ADAM, "lr": 0.03}.items()}
    yield "aux", "muon", "6x9", 0.5, {**MOMENTUM, "role": "embed", **aux}
    aux["decay-form"] = "coupled"  # which concerns matrices alone
    yield "aux.coupled", "muon", "6x9", 1, {**MOMENTUM, "role": "embed", **aux}
    bases = {"sgdm": (MOMENTUM, 0.7), "adamw": (ADAM, 1.5), "signum": (MOMENTUM, 2.0),
             "ademamix": (MIX, 2.5), "lion": (LION, 2.0)}
    for i, (base, (o, d)) in enumerate(bases.items()):
        for clip in ("hard", "soft"):
            spectra = {**o, "base": base, "clip": clip, "ns-mode": "exact", "threshold": d}
            yield ".".join(("spectra", base, clip)), "spectra", list(SHAPES)[i % 3], 1, spectra
    o = {**MOMENTUM, "clip": "soft", "threshold": 0.7}
    yield "spectra.ssc", "spectra", "9x6", 1, {**o, "base": "adamw", **ADAM}
    yield "spectra.keller", "spectra", "9x6", 1, {**o, "base": "sgdm", "shape-rule": "keller"}
    yield "spectra.rms", "spectra", "7x7", 1, {**o, "base": "sgdm", "threshold": "rms:0.5",
                                                "ns-mode": "exact", "update-scale": "unit"}
    unit = {**MOMENTUM, "threshold": "rms:0.6", "update-scale": "unit"}
    for shape in SHAPES:
        yield "soft-musec.rms", "soft-musec", shape, 1, {**unit, "ns-mode": "exact"}
    yield "soft-musec.ssc", "soft-musec", "9x6", 1, unit
    yield "soft-musec.zero", "soft-musec", "6x9", 1, {**unit, "momentum-init": "zero"}
    yield "soft-musec.paper", "soft-musec", "7x7", 2, {**unit, "update-scale": "paper"}
    yield "soft-musec.fixed", "soft-musec", "6x9", 1, {**unit, "threshold": 0.5}
    yield "musec.rms", "musec", "9x6", 1, unit
    ahead = {**MOMENTUM, "threshold": 0.5, "nesterov": "yes"}
    yield "musec.ahead", "musec", "9x6", 1, ahead
    yield "musec.ahead-l2", "musec", "7x7", 1, {**ahead, "decay-form": "coupled"}
    yield "musec.heavy", "musec", "6x9", 1, {**unit, "threshold": 1.5,
                                              "momentum-form": "heavy-ball"}
    for shape in ("6x9", "9x6"):
        yield "lion", "lion", shape, 0.5, LION
    yield "lion.coupled", "lion", "7x7", 1, {**LION, "decay-form": "coupled"}


# What these optimizers set by themselves (core/optimizers.c).
OWN = {
    "normuon": {"second-moment": "rows", "ns-coeffs": "polar-express", "nesterov": "yes",
                "momentum-init": "zero", "shape-rule": "keller", "decay-form": "cautious"},
    "adamuon": {"second-moment": "elements", "second-beta": 0.999, "second-eps": 1e-8,
                "nesterov": "yes", "momentum-init": "zero", "shape-rule": "fixed-rms"},
    "muon2": {"base": "adamw", "ns-iters": 3, "shape-rule": "moonlight"},
    "scion": {"momentum-init": "zero", "shape-rule": "mup"},
    "muonh": {"decay-form": "hyperball"},
    "mucon": {},
    "softmuon": {"update-scale": "unit"},
}


def field_cases():
    """Optimizers of the field as they are, and compositions of parts."""
    for shape in SHAPES:
        for name, own in OWN.items():
            some = ADAM if name == "muon2" else MOMENTUM
            more = {"ns-mode": "exact"} if name == "softmuon" else {}
            more.update({"threshold": 0.7} if name in ("mucon", "softmuon") else {})
            yield name, name, shape, 1, {**some, **own, **more}
        for kind in ("rows", "longer", "elements"):
            o = {**MOMENTUM, "second-moment": kind, "second-beta": 0.8, "threshold": 0.5}
            yield "soft-musec." + kind, "soft-musec", shape, 1, o
            yield "muon." + kind, "muon", shape, 1, {**o, "shape-rule": "fixed-rms"}
    for coeffs in SETS:
        yield "muon." + coeffs, "muon", "6x9", 1, {**MOMENTUM, "ns-coeffs": coeffs}
    for form in ("added", "floor"):
        yield "muon.eps-" + form, "muon", "9x6", 1, {**MOMENTUM, "ns-eps": 2.0,
                                                     "ns-eps-form": form}
    bases = {"sgdm": MOMENTUM, "adamw": ADAM, "signum": MOMENTUM, "ademamix": MIX, "lion": LION}
    for i, (base, some) in enumerate(bases.items()):
        for k, function in enumerate(("polar", "soft", "sharp", "hard")):
            o = {**some, "base": base, "function": function, "ns-mode": "exact", "threshold": 0.9}
            kind = ("none", "rows", "longer", "elements")[(i + k) % 4]
            title = "mix.%s.%s" % (base, function)
            shape = list(SHAPES)[(i + k) % 3]
            yield title, "spectra", shape, 1, {**o, "second-moment": kind}
    o = {**MOMENTUM, "threshold": 0.5, "nesterov": "yes", "second-moment": "rows"}
    yield "musec.all", "musec", "9x6", 1, {**o, "shape-rule": "keller", "decay-form": "cautious"}
    yield "soft-musec.ball", "soft-musec", "6x9", 1, {**o, "decay-form": "hyperball"}
    yield "soft-musec.sharp4", "soft-musec", "6x9", 1, {**o, "function": "sharp"}
    yield "sgdm.ball", "sgdm", "7x7", 0.5, {**MOMENTUM, "decay-form": "hyperball"}
    yield from preconditioner_cases(SHAPES)
    warm = {**MOMENTUM, "clip": "soft", "base": "sgdm", "threshold-warmup": 5}
    yield "spectra.warm", "spectra", "6x9", 1, {**warm, "threshold": 0.5, "ns-mode": "exact"}
    yield "spectra.warm-rms", "spectra", "9x6", 1, {**warm, "threshold": "rms:0.5",
                                                    "ns-mode": "exact", "update-scale": "unit"}


CLIPS = {"musec": {"threshold": 1.5}, "soft": {"threshold": 1.5},
         "spectra": {"threshold": 1.2, "base": "sgdm"}}


def clip_cases():
    """Clips that are neither `hard` nor `soft` by the paper's steps: (case, shape, options)."""
    for shape in SHAPES:
        yield "musec.fast", shape, {"ns-mode": "fast"}
        yield "soft.fast", shape, {"ns-mode": "fast"}
        yield "spectra.fast", shape, {"ns-mode": "fast", "clip": "hard"}
    yield "musec.ahead-fast", "6x9", {"ns-mode": "fast", "nesterov": "yes"}
    yield "musec.rms-fast", "9x6", {"ns-mode": "fast", "threshold": "rms:0.6",
                                    "update-scale": "unit"}
    yield "spectra.adamw-fast", "7x7", {"ns-mode": "fast", "clip": "hard", "base": "adamw"}
    yield "soft.paper7", "6x9", {"ns-mode": "paper7"}
    yield "soft.paper7-4", "9x6", {"ns-mode": "paper7", "sharpness": 4}
    for i, p in enumerate((4, 8, 16, 32, "hard")):
        shape, other = list(SHAPES)[i % 3], list(SHAPES)[(i + 1) % 3]
        yield "soft.fast%s" % p, shape, {"ns-mode": "fast", "sharpness": p}
        yield "soft.paper%s" % p, other, {"sharpness": p}
        yield "soft.exact%s" % p, other, {"ns-mode": "exact", "sharpness": p}
        yield "spectra.fast%s" % p, shape, {"ns-mode": "fast", "clip": "soft", "sharpness": p}
    yield "musec.fast2", "9x6", {"ns-mode": "fast", "sharpness": 2}
    yield "musec.fast8", "7x7", {"ns-mode": "fast", "sharpness": 8}
    yield "musec.exact16", "6x9", {"sharpness": 16}
    yield "spectra.exact4", "9x6", {"clip": "hard", "sharpness": 4}
    for shape in SHAPES:
        yield "musec.tol", shape, {"ns-mode": "accurate", "ns-tol": 0.03}
        yield "soft.tol4", shape, {"ns-mode": "accurate", "ns-tol": 1e-4, "sharpness": 4}
    yield "musec.eigen", "7x7", {"ns-mode": "accurate", "ns-tol": 1e-3}  # no chain is so good
    yield "soft.tol", "9x6", {"ns-mode": "accurate", "ns-tol": 1e-6}
    yield "soft.tol32", "6x9", {"ns-mode": "accurate", "ns-tol": 3e-3, "sharpness": 32}
    yield "spectra.tol", "7x7", {"ns-mode": "accurate", "ns-tol": 0.03, "clip": "hard"}


def all_clip_cases():
    for case, shape, o in clip_cases():
        family = case.split(".")[0]
        base = ADAM if o.get("base") == "adamw" else MOMENTUM
        name = "soft-musec" if family == "soft" else family
        yield case, name, shape, 1, {**base, **CLIPS[family], **o}


# ---- QK-Clip -------------------------------------------------------------------------------------

QK = {"lr": 0.05, "beta": 0.3, "weight-decay": 0.8, "shape-rule": "moonlight",
      "momentum-form": "heavy-ball", "qk-tau": 1.5}
ALPHA = {"mha": 0.5, "gqa": 0.3, "mla": 0.5}


def gammas(logits, group, tau):
    """One for each key: from the largest logit of its query heads."""
    worst = np.array(logits).reshape(-1, group).max(axis=1)
    return np.where(worst > tau, tau / worst, 1.0)


def qk_clip_mha(q, k, logits, heads, tau):
    rows = q.shape[0] // heads
    for h, gamma in enumerate(gammas(logits, 1, tau)):
        q[h * rows:(h + 1) * rows] *= np.sqrt(gamma)
        k[h * rows:(h + 1) * rows] *= np.sqrt(gamma)


def qk_clip_gqa(q, k, logits, heads, kv_heads, tau, alpha):
    rows, group = q.shape[0] // heads, heads // kv_heads
    for j, gamma in enumerate(gammas(logits, group, tau)):
        k[j * rows:(j + 1) * rows] *= gamma ** (1.0 - alpha)
        for h in range(j * group, (j + 1) * group):
            q[h * rows:(h + 1) * rows] *= gamma ** alpha


def qk_clip_mla(q, k, logits, heads, plain, rotary, tau):
    """For each head q has `plain`, then `rotary` rows; k `plain` rows and `rotary` of others."""
    step = plain + rotary
    for h, gamma in enumerate(gammas(logits, 1, tau)):
        q[h * step:h * step + plain] *= np.sqrt(gamma)
        q[h * step + plain:(h + 1) * step] *= gamma
        k[h * step:h * step + plain] *= np.sqrt(gamma)
    assert heads * step == q.shape[0] == k.shape[0]


def qk_run(q, k, gq, gk, logits, clip):
    """The weights after each step, q and k below each other, and the momenta at the end."""
    sq, sk, out = {}, {}, []
    for t in range(1, STEPS + 1):
        eta = QK["lr"] * LR_SCALE[t - 1]
        q = one_step("muonclip", q, gq[t - 1], sq, QK, t, eta, 1.0)
        k = one_step("muonclip", k, gk[t - 1], sk, QK, t, eta, 1.0)
        if not np.isnan(logits[t - 1]).any():  # NaN: no logits came before this step
            clip(q, k, logits[t - 1])
        out.append(np.vstack((q, k)))
    return out, np.vstack((sq["momentum"], sk["momentum"]))


def qk_cases(draw):
    """mha: 3 heads of 2 rows, q and k alternating by head in one 12 x 7 weight, two matrices to the
    optimizer.  gqa: 4 query heads and 2 keys of 3 rows.  mla: 2 heads of 3 + 2 rows, and keys of 3
    rows followed by 2 that are not keys.  .W0, .G, .W, .momentum: q over k; of G and W as many as
    there are steps, below each other.  .logits: one row a step, NaN where none are given."""
    sizes = {"mha": (6, 6, 3), "gqa": (12, 6, 4), "mla": (10, 10, 2)}
    clips = {"mha": lambda q, k, s: qk_clip_mha(q, k, s, 3, QK["qk-tau"]),
             "gqa": lambda q, k, s: qk_clip_gqa(q, k, s, 4, 2, QK["qk-tau"], ALPHA["gqa"]),
             "mla": lambda q, k, s: qk_clip_mla(q, k, s, 2, 3, 2, QK["qk-tau"])}
    out = {}
    for name, (rows_q, rows_k, heads) in sizes.items():
        w = draw(rows_q + rows_k, 7)
        g = [draw(rows_q + rows_k, 7) for _ in range(STEPS)]
        logits = 1.5 + 1.5 * draw(STEPS, heads)  # some below tau, some negative
        logits[3] = np.nan
        assert (logits > 3.0).any() and (logits < 0.0).any()
        ws, momentum = qk_run(w[:rows_q], w[rows_q:], [x[:rows_q] for x in g],
                              [x[rows_q:] for x in g], logits, clips[name])
        out[name] = {"W0": w, "G": np.vstack(g), "logits": logits, "W": np.vstack(ws),
                     "momentum": momentum}
    return out


# ---- output --------------------------------------------------------------------------------------


def check_case(case, ws, state, w0, grads, name, o, factor):
    """The case must depend on its decay, and stay away from decisions that rounding makes."""
    assert all(np.isfinite(w).all() for w in ws), case
    none = {"weight-decay": 0.0, "aux-weight-decay": 0.0}
    if o.get("decay-form") in ("frank-wolfe", "hyperball"):  # no lambda: decoupled with 0
        none["decay-form"] = "decoupled"
    without, _ = trajectory(name, w0, grads, {**o, **none}, factor)
    effect = np.linalg.norm(without[-1] - ws[-1]) / np.linalg.norm(ws[-1])
    assert effect > 0.01, (case, "decay hardly matters", effect)
    if o.get("ns-mode") == "fast":
        check_fast(case, ws, state, w0, grads, name, o, factor)
    if "momentum" in state:
        s = np.linalg.svd(state["momentum"], compute_uv=False)
        assert s[-1] > 1e-3 * s[0], (case, "badly conditioned", s)


def check_fast(case, ws, state, w0, grads, name, o, factor):
    """`fast` must show the error of its chain, and stay within what is stated of it."""
    exact, other = trajectory(name, w0, grads, {**o, "ns-mode": "exact"}, factor)
    p = sharpness("hard" if name == "musec" else o.get("clip", "soft"), o)
    error = 2.0 * 2.3e-3 + (0.0 if p == 2 else CHAINS[p][0])
    assert p == 2 or np.linalg.norm(ws[-1] - exact[-1]) > 1e-8, (case, "no error of a chain")
    if name != "spectra":  # which does not keep what it clips
        off = np.linalg.norm(state["momentum"] - other["momentum"], 2)
        bound = error / o["beta"] * np.linalg.norm(other["momentum"], 2)
        assert off <= bound, (case, off, bound)


def line_of(case, name, shape, factor, o):
    return " ".join([case, name, shape, "%g" % factor] + ["%s=%s" % pair for pair in o.items()])


def main():
    check_chains()
    target = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "..", "data")
    rng = np.random.RandomState(20240817)  # its stream never changes

    def draw(rows, cols):
        return rng.standard_normal((rows, cols)).astype(np.float32).astype(np.float64)

    records, lines, inputs = {"lr_scale": LR_SCALE}, [], {}
    for shape, (m, n) in SHAPES.items():
        inputs[shape] = draw(m, n), [draw(m, n) for _ in range(STEPS)]
        records[shape + ".W0"] = inputs[shape][0]
        records[shape + ".G"] = np.vstack(inputs[shape][1])
    for generator in (momentum_cases, other_cases, all_clip_cases, field_cases):
        for title, name, shape, factor, o in generator():
            case = title + "." + shape
            assert case + ".W" not in records, case
            ws, state = trajectory(name, *inputs[shape], o, factor)
            check_case(case, ws, state, *inputs[shape], name, o, factor)
            records[case + ".W"] = np.vstack(ws)
            records.update({case + "." + key: value for key, value in state.items()
                            if not key.startswith("#")})
            lines.append(line_of(case, name, shape, factor, o))
    for name, numbers in qk_cases(draw).items():
        records.update({name + "." + key: value for key, value in numbers.items()})
        lines.append(line_of(name, "muonclip", "qk", 1, {**QK, "qk-alpha": ALPHA[name]}))
    write_mgv(os.path.join(target, "optim_reference.mgv"), records)
    with open(os.path.join(target, "optim_reference.txt"), "w", encoding="ascii") as f:
        f.write("\n".join(lines) + "\n")
    print("%d cases, %d records" % (len(lines), len(records)))


if __name__ == "__main__":
    main()
