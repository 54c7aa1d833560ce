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


KELLER = [(3.4445, -4.7750, 2.0315)]
POLAR_EXPRESS = [
    (8.156554524902461, -22.48329292557795, 15.878769915207462),
    (4.042929935166739, -2.808917465908714, 0.5000178451051316),
    (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
    (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
    (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
]


def quintic(x, steps, name, eps, floor):
    """Muon's Newton-Schulz steps."""
    if x.shape[0] > x.shape[1]:
        return quintic(x.T, steps, name, eps, floor).T
    triples, factor = (POLAR_EXPRESS, 1.02) if name == "polar-express" else (KELLER, 1.0)
    norm = factor * x.norm()
    x = x / (norm.clamp(min=eps) if floor else norm + eps)
    for k in range(steps):
        a, b, c = triples[min(k, len(triples) - 1)]
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
        "fixed-rms": 0.2 * math.sqrt(m * n),
    }[rule]


# Those that orthogonalize, with the base that they do it to.
ORTHOGONAL = {
    "muon": "sgdm",
    "muonclip": "sgdm",
    "normuon": "sgdm",
    "adamuon": "sgdm",
    "scion": "sgdm",
    "muonh": "sgdm",
    "muon2": "adamw",
    "dion2": "dion2",
}


class Reference:
    """One matrix.  `options` are those of a param group."""

    def __init__(self, name, weight, options):
        self.name, self.o = name, options
        self.w = weight.detach().double().clone()
        self.state = [torch.zeros_like(self.w) for _ in range(3)]
        self.factors, self.bases = {}, [None, None]
        self.second = 0.0
        self.shift = 1e-12 if weight.dtype == torch.float64 else 5e-7
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
        if base == "soap":
            return self.soap(g)
        if base == "dion2":
            m = self.state[0] + g if self.t > 1 else g
            by_columns = g.shape[0] > g.shape[1]
            rows = m.T if by_columns else m
            k = math.ceil(self.o["fraction"] * len(rows))
            taken = torch.zeros(len(rows), 1, dtype=g.dtype)
            taken[rows.abs().sum(1).topk(k).indices] = 1.0
            taken = taken.T if by_columns else taken
            self.state[0] = m - (1.0 - self.o["momentum"]) * taken * m
            return taken * m
        if base == "kl-shampoo":
            return self.kl_shampoo(g)
        if base == "shampoo":
            return self.shampoo(g)
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

    # ---- preconditioning of both sides ----

    def sides(self, g):
        """The sides that are preconditioned, each with the matrix that sees them as rows."""
        most = self.o["max_precond_dim"]
        return [(i, x) for i, x in enumerate((g, g.T)) if x.shape[0] <= most]

    def turn(self, x, back=False):
        """Into the eigenvectors of both sides, which are columns, or back."""
        q = [b if b is None or not back else b.T for b in self.bases]
        x = x if q[0] is None else q[0].T @ x
        return x if q[1] is None else x @ q[1]

    def iterate(self, i):
        """One step of orthogonal iteration, with the shift that keeps null spaces."""
        f = self.factors[i]
        eye = torch.eye(len(f), dtype=f.dtype)
        return torch.linalg.qr((f / f.norm() + self.shift * eye) @ self.bases[i])[0]

    def start_bases(self):
        self.bases = [None, None]
        for i, f in self.factors.items():
            self.bases[i] = torch.linalg.eigh(f)[1].flip(1)

    def soap(self, g):
        o, t = self.o, self.t - 1
        b1, b2 = o["betas"][:2]
        b = o["precondition_beta"] or b2
        if t == 0:
            self.factors = {i: (1 - b) * x @ x.T for i, x in self.sides(g)}
            self.start_bases()
            return torch.zeros_like(g)
        x = self.turn(g)
        m, v, _ = self.state
        m.mul_(b1).add_(x, alpha=1 - b1)
        v.mul_(b2).addcmul_(x, x, value=1 - b2)
        u = self.turn(m / (v.sqrt() + o["eps"]), back=True)
        for i, x in self.sides(g):
            self.factors[i] = b * self.factors[i] + (1 - b) * x @ x.T
        if t % o["precondition_every"] == 0:
            m = self.turn(m, back=True)
            for i, f in self.factors.items():
                q = self.bases[i]
                order = torch.argsort(torch.diag(q.T @ f @ q), descending=True, stable=True)
                self.bases[i], v = q[:, order], v.index_select(i, order)
                self.bases[i] = self.iterate(i)
            self.state[:2] = self.turn(m), v
        return u * math.sqrt(1 - b2**t) / (1 - b1**t)

    def kl_shampoo(self, g):
        o, t = self.o, self.t - 1
        b1, b2 = o["betas"][:2]
        b, seen = o["precondition_beta"] or b2, self.sides(g)
        if t == 0:
            self.factors = {i: (1 - b) / x.shape[1] * x @ x.T for i, x in seen}
            self.start_bases()
            self.values = [torch.ones(n, dtype=g.dtype) for n in g.shape]
            for i, _ in seen:
                self.values[i] *= 0.1
            return torch.zeros_like(g)
        m = self.state[0].mul_(b1).add_(g, alpha=1 - b1)
        rows, cols = self.values[0][:, None], self.values[1][None, :]
        u = self.turn(self.turn(m) / ((rows * cols).sqrt() + o["eps"]), back=True)
        x = self.turn(g)
        for i, white in ((0, x / cols.sqrt()), (1, (x / rows.sqrt()).T)):
            if i not in self.factors:
                continue
            y = self.bases[i] @ white
            self.factors[i] = b * self.factors[i] + (1 - b) / y.shape[1] * y @ y.T
            values = b * self.values[i] + (1 - b) * white.square().mean(1)
            self.values[i] = values.clamp(min=max(10, min(len(values), 4000)) ** -2.0)
        if t % o["precondition_every"] == 0:
            for i in self.factors:
                self.bases[i] = self.iterate(i)
        return u

    def shampoo(self, g):
        o, t = self.o, self.t
        b1, b2 = o["betas"][:2]
        b, grafts = o["precondition_beta"] or b2, o["graft"] == "adam"
        adam = self.moments(g, False)
        m = self.state[0] / (1 - b1**t)
        seen = self.sides(g)
        for i, x in seen:
            old = self.factors[i] if t > 1 else 0.0 * x @ x.T
            self.factors[i] = b * old + (1 - b if b < 1 else 1) * x @ x.T
            if t % o["precondition_every"] == 0:
                values, q = torch.linalg.eigh(self.factors[i] / (1 - b**t if b < 1 else 1))
                values = (values.clamp(min=0) + o["precondition_eps"]) ** (-0.5 / len(seen))
                self.bases[i] = q @ torch.diag(values) @ q.T
        if t < o["precondition_every"]:
            return adam if grafts else m
        p = m if self.bases[0] is None else self.bases[0] @ m
        p = p if self.bases[1] is None else p @ self.bases[1]
        return p * (adam.norm() / p.norm()) if grafts else p

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

    def polar(self, x):
        o = self.o
        if o["ns_mode"] == "exact":
            return polar(x)
        name = o["ns_coefficients"]
        name = name if isinstance(name, str) else "keller"
        return quintic(x, o["ns_steps"], name, o["ns_eps"] or 1e-7, o["ns_eps_form"] == "floor")

    def divide(self, u):
        """By the second moment of rows, columns or elements, with the norm kept."""
        o = self.o
        kind = o.get("second_moment", "none")
        if kind == "none":
            return u
        b, eps = o["second_beta"] or 0.95, o["second_eps"] or 1e-10
        if kind == "elements":
            mean = u * u
        else:
            by_row = kind == "rows" or u.shape[0] >= u.shape[1]
            mean = (u * u).mean(dim=1 if by_row else 0, keepdim=True)
        self.second = b * self.second + (1 - b) * mean
        out = u / (torch.sqrt(self.second) + eps)
        return out * (u.norm() / out.norm())

    def step(self, g):
        o, w, name = self.o, self.w, self.name
        self.t += 1
        g = g.double()
        wd, lr = o["weight_decay"], o["lr"]
        if o["decay_form"] == "coupled":
            g = g + wd * w
        d = 1.0
        function = o.get("function", "auto")
        if name in ("musec", "soft-musec"):
            m = self.momentum(g)
            d = self.threshold(m)
            self.state[0] = u = self.clip(m, d, name == "musec")
            if o["nesterov"]:
                u = self.clip(self.look_ahead(u, g), d, name == "musec")
        elif name in ORTHOGONAL or (name == "spectra" and function == "polar"):
            u = self.polar(self.direction(o.get("base", ORTHOGONAL.get(name)), g))
        elif name in ("spectra", "mucon", "softmuon"):
            x = self.direction(o.get("base", "sgdm"), g)
            d = self.threshold(x)
            hard_one = o["clip"] == "hard" if function == "auto" and name == "spectra" else False
            u = self.clip(x, d, hard_one or function == "hard" or name == "mucon")
        else:
            u = self.direction({"adam": "adamw"}.get(name, name), g)
        u = self.divide(u)
        if o["decay_form"] == "hyperball":
            moved = w - lr * w.norm() * u / u.norm()
            self.w = w.norm() * moved / moved.norm()
            return
        if o.get("update_scale") == "unit":
            u = u / d
        f = shape_factor(o["adjust_lr_fn"], *w.shape)
        if o["adjust_lr_fn"] == "fixed-rms":
            f = f / float(u.norm())
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
