"""The optimizers in float64 PyTorch, written from the paper and docs/optimizers.md, as an independent
reference: it shares no code with the library and works by SVDs and by the printed iterations.

    M^ = (1 - b) M + b G   (M^ = G at the first step);   U = f(M^);   W <- (1 - lr wd) W - lr U
"""

from __future__ import annotations

import math

import torch


def by_svd(x, f):
    u, s, v = torch.linalg.svd(x, full_matrices=False)
    return u @ torch.diag(f(s)) @ v


def hard(x, d):
    """Algorithm Musec: singular values above D become D."""
    return by_svd(x, lambda s: s.clamp(max=d))


def soft(x, d):
    return by_svd(x, lambda s: d * s / torch.sqrt(s * s + d * d))


def ssc(x, d, steps=5):
    """Algorithm SSC: coupled Newton-Schulz steps, in the paper's own order."""
    if x.shape[0] > x.shape[1]:
        return ssc(x.T, d, steps).T
    eye = torch.eye(x.shape[0], dtype=x.dtype)
    a = x @ x.T + d * d * eye
    alpha = a.norm()
    y, z = a / alpha, eye
    for _ in range(steps):
        t = 0.5 * (3.0 * eye - z @ y)
        y, z = y @ t, t @ z
    return d / math.sqrt(alpha) * (z @ x)


def polar(x):
    u, s, v = torch.linalg.svd(x, full_matrices=False)
    return u @ v


def quintic(x, steps=5, abc=(3.4445, -4.7750, 2.0315)):
    """Muon's Newton-Schulz steps."""
    if x.shape[0] > x.shape[1]:
        return quintic(x.T, steps, abc).T
    a, b, c = abc
    x = x / (x.norm() + 1e-7)
    for _ in range(steps):
        g = x @ x.T
        x = a * x + (b * g + c * g @ g) @ x
    return x


def shape_factor(rule, m, n):
    return {
        "none": 1.0,
        "original": math.sqrt(max(1.0, m / n)),
        "match_rms_adamw": 0.2 * math.sqrt(max(m, n)),
        "spectral_unclamped": math.sqrt(m / n),
        "rms": math.sqrt(max(m, n)),
    }[rule]


class Reference:
    """One matrix.  `options` are those of a param group."""

    def __init__(self, name, weight, options):
        self.name, self.o = name, options
        self.w = weight.detach().double().clone()
        self.state = [torch.zeros_like(self.w) for _ in range(3)]
        self.t = 0

    # ---- base optimizers: the update direction, and the new state ----

    def momentum(self, g):
        o, beta = self.o, 1.0 - self.o["momentum"]
        heavy = o["momentum_form"] == "heavy-ball"
        add = 1.0 if heavy else beta
        if self.t == 1 and o["momentum_init"] == "first":
            return g.clone()
        return (1.0 - beta) * self.state[0] + add * g

    def look_ahead(self, m, g):
        beta = 1.0 - self.o["momentum"]
        add = 1.0 if self.o["momentum_form"] == "heavy-ball" else beta
        return (1.0 - beta) * m + add * g

    def moments(self, g, slow):
        o, t = self.o, self.t
        b1, b2 = o["betas"][:2]
        m, v, s = self.state
        m.mul_(b1).add_(g, alpha=1 - b1)
        v.mul_(b2).addcmul_(g, g, value=1 - b2)
        top = m / (1 - b1**t)
        if slow:
            s.mul_(o["betas"][2]).add_(g, alpha=1 - o["betas"][2])
            top = top + o["alpha"] * s
        return top / ((v / (1 - b2**t)).sqrt() + o["eps"])

    def direction(self, base, g):
        if base in ("adamw", "ademamix"):
            return self.moments(g, base == "ademamix")
        if base == "lion":
            b1, b2 = self.o["betas"][:2]
            m = self.state[0]
            u = torch.sign(b1 * m + (1 - b1) * g)
            m.mul_(b2).add_(g, alpha=1 - b2)
            return u
        m = self.momentum(g)
        self.state[0] = m
        u = self.look_ahead(m, g) if self.o["nesterov"] else m
        return torch.sign(u) if base == "signum" else u

    # ---- spectral functions ----

    def threshold(self, x):
        d = self.o["threshold"]
        if isinstance(d, str):
            assert d.startswith("rms:")
            return float(d[4:]) * float(x.norm()) / math.sqrt(min(x.shape))
        return d

    def clip(self, x, d, is_hard):
        mode = self.o["ns_mode"]
        if is_hard:
            return hard(x, d)
        return soft(x, d) if mode == "exact" else ssc(x, d, self.o["ns_steps"])

    def step(self, g):
        o, w, name = self.o, self.w, self.name
        self.t += 1
        g = g.double()
        wd, lr = o["weight_decay"], o["lr"]
        if o["decay_form"] == "coupled":
            g = g + wd * w
        d = 1.0
        if name in ("musec", "soft-musec"):
            m = self.momentum(g)
            d = self.threshold(m)
            self.state[0] = u = self.clip(m, d, name == "musec")
            if o["nesterov"]:
                u = self.clip(self.look_ahead(u, g), d, name == "musec")
        elif name == "spectra":
            x = self.direction(o["base"], g)
            d = self.threshold(x)
            u = self.clip(x, d, o["clip"] == "hard")
        elif name in ("muon", "muonclip"):
            x = self.direction("sgdm", g)
            u = polar(x) if o["ns_mode"] == "exact" else quintic(x, o["ns_steps"])
        else:
            u = self.direction({"adam": "adamw"}.get(name, name), g)
        if o.get("update_scale") == "unit":
            u = u / d
        f = shape_factor(o["adjust_lr_fn"], *w.shape)
        self.apply(u, f, lr, wd)

    def apply(self, u, f, lr, wd):
        form, w = self.o["decay_form"], self.w
        if form == "decoupled":
            w = (1 - lr * wd) * w
        elif form == "independent":
            w = (1 - wd) * w
        elif form == "lr2":
            w = (1 - lr * lr * wd) * w
        elif form == "cautious":
            w = torch.where(u * w >= 0, (1 - lr * wd) * w, w)
        elif form == "frank-wolfe":
            w = (1 - lr) * w
        w = w - lr * f * u
        if form == "after":
            w = (1 - lr * wd) * w
        self.w = w
