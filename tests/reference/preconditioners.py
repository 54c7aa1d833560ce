"""preconditioners.py - optimizers that precondition both sides of a gradient, in plain NumPy float64,
for optim_reference.py.

A proposal takes the state of one matrix, which it changes, the gradient, the options and the number
of the step, and returns the update.  States whose name begins with # depend on signs of
eigenvectors, and are not written.  Bases have eigenvectors as their columns.
"""
import numpy as np


def sides(g, o):
    """The sides that are preconditioned, each with the matrix that sees them as rows."""
    most = o.get("max-precond-dim", 10000)
    return [(s, x) for s, x in (("left", g), ("right", g.T)) if x.shape[0] <= most]


def turned(bases, x, back=False):
    """Into the eigenvectors of both sides, which are columns, or back."""
    q = {s: b.T if back else b for s, b in bases.items()}
    x = q["left"].T @ x if "left" in q else x
    return x @ q["right"] if "right" in q else x


def iterated(factor, q):
    """A step of orthogonal iteration; the shift is what keeps a null space where it is."""
    n = factor / np.linalg.norm(factor) + 1e-12 * np.eye(len(factor))
    return np.linalg.qr(n @ q)[0]


def soap_refresh(state, bases):
    """The bases by falling eigenvalue estimates, with v, and then a step from there."""
    m = turned(bases, state["#m"], back=True)
    for axis, s in enumerate(("left", "right")):
        if s in bases:
            q = bases[s]
            order = np.argsort(-np.diag(q.T @ state[s] @ q), kind="stable")
            state["v"] = np.take(state["v"], order, axis=axis)
            bases[s] = iterated(state[s], q[:, order])
    state["#m"] = turned(bases, m)


def propose_soap(state, g, o, t):
    """Adam in the eigenbases of the averages of G G^T and G^T G; the first gradient is for these
    alone.  States with a # are known up to signs of eigenvectors, and not written."""
    b = o.get("precondition-beta", o["beta2"])
    zero = np.zeros_like(g)
    if t == 1:
        state.update({s: (1.0 - b) * x @ x.T for s, x in sides(g, o)})
        state["#bases"] = {s: np.linalg.eigh(state[s])[1][:, ::-1] for s, _ in sides(g, o)}
        state.update({"#m": zero, "v": zero})
        return zero
    x, t = turned(state["#bases"], g), t - 1
    state["#m"] = o["beta1"] * state["#m"] + (1.0 - o["beta1"]) * x
    state["v"] = o["beta2"] * state["v"] + (1.0 - o["beta2"]) * x * x
    scale = np.sqrt(1.0 - o["beta2"] ** t) / (1.0 - o["beta1"] ** t)
    u = turned(state["#bases"], scale * state["#m"] / (np.sqrt(state["v"]) + o["eps"]), back=True)
    for s, y in sides(g, o):
        state[s] = b * state[s] + (1.0 - b) * y @ y.T
    if t % o.get("precondition-every", 10) == 0:
        soap_refresh(state, state["#bases"])
    return u


def inverse_root(factor, eps, exponent):
    """By the SVD, which is the eigendecomposition of a matrix without negative eigenvalues."""
    u, s, _ = np.linalg.svd(factor)
    return u @ np.diag((s + eps) ** exponent) @ u.T


def propose_shampoo(state, g, o, t):
    """Roots of sums of G G^T and G^T G on both sides of m, with the norm of Adam's update."""
    b1, b2, zero = o["beta1"], o["beta2"], np.zeros_like(g)
    b, every = o.get("precondition-beta", b2), o.get("precondition-every", 10)
    grafts = o.get("graft", "adam") == "adam"
    state["m"] = b1 * state.get("m", zero) + (1.0 - b1) * g
    state["v"] = b2 * state.get("v", zero) + (1.0 - b2) * g * g
    m = state["m"] / (1.0 - b1 ** t)
    adam = m / (np.sqrt(state["v"] / (1.0 - b2 ** t)) + o["eps"])
    seen = sides(g, o)
    for s, x in seen:
        state[s] = b * state.get(s, 0.0) + (1.0 - b if b < 1.0 else 1.0) * x @ x.T
        if t % every == 0:
            correct = 1.0 - b ** t if b < 1.0 else 1.0
            state[s + "-root"] = inverse_root(state[s] / correct, o.get("precondition-eps", 1e-12),
                                              -0.5 / len(seen))
    if t < every:
        return adam if grafts else m
    for s, _ in seen:
        m = state[s + "-root"] @ m if s == "left" else m @ state[s + "-root"]
    return m * np.linalg.norm(adam) / np.linalg.norm(m) if grafts else m


def propose_kl_shampoo(state, g, o, t):
    """Whitening by factors that each see the gradient whitened by the other, with eigenvalues of
    their own."""
    b, zero, seen = o.get("precondition-beta", o["beta2"]), np.zeros_like(g), sides(g, o)
    if t == 1:
        state.update({s: (1.0 - b) / x.shape[1] * x @ x.T for s, x in seen})
        state["#bases"] = {s: np.linalg.eigh(state[s])[1][:, ::-1] for s, _ in seen}
        state.update({"#" + s: np.full(len(x), 0.1) for s, x in seen})
        state["m"] = zero
        return zero
    bases = state["#bases"]
    left, right = (state.get("#" + s, np.ones(n)) for s, n in zip(("left", "right"), g.shape))
    state["m"] = o["beta1"] * state["m"] + (1.0 - o["beta1"]) * g
    u = turned(bases, state["m"]) / (np.sqrt(np.outer(left, right)) + o["eps"])
    u = turned(bases, u, back=True)
    x = turned(bases, g)
    white = {"left": x / np.sqrt(right), "right": (x / np.sqrt(left)[:, None]).T}
    for s, y in seen:
        whole = bases[s] @ white[s]
        state[s] = b * state[s] + (1.0 - b) / y.shape[1] * whole @ whole.T
        values = b * state["#" + s] + (1.0 - b) * (white[s] ** 2).mean(axis=1)
        state["#" + s] = np.maximum(values, max(10, min(len(y), 4000)) ** -2.0)
    if (t - 1) % o.get("precondition-every", 10) == 0:
        for s, _ in seen:
            bases[s] = iterated(state[s], bases[s])
    return u


def propose_dion2(state, g, o, _t):
    """The rows of the shorter side with the largest 1-norms; the others wait."""
    m = state.get("momentum", 0.0) + g
    rows = m if g.shape[0] <= g.shape[1] else m.T
    k = int(np.ceil(o.get("fraction", 0.25) * len(rows)))
    taken = np.zeros(len(rows), dtype=bool)
    taken[np.argsort(-np.abs(rows).sum(axis=1))[:k]] = True
    taken = taken[:, None] if rows is m else taken[None, :]
    state["momentum"] = np.where(taken, (1.0 - o["beta"]) * m, m)
    return np.where(taken, m, 0.0)


# ---- cases ---------------------------------------------------------------------------------------

SOAP = {"lr": 0.05, "beta1": 0.8, "beta2": 0.9, "eps": 1e-6, "weight-decay": 0.8,
        "precondition-every": 2}


def soap_cases(shapes):
    """Both sides of a square matrix, or the smaller one of others: the larger factor would begin
    with a null space, whose basis is whatever an eigensolver makes of rounding errors."""
    yield "soap", "soap", "7x7", 1, {**SOAP, "decay-form": "after"}
    for shape in ("6x9", "9x6"):
        yield "soap", "soap", shape, 0.5, {**SOAP, "decay-form": "after", "max-precond-dim": 7}
        yield "soap.no", "soap", shape, 1, {**SOAP, "decay-form": "coupled", "max-precond-dim": 5}
    o = {**SOAP, "precondition-every": 3, "precondition-beta": 0.6, "decay-form": "decoupled"}
    yield "soap.beta", "soap", "7x7", 1, o
    yield "soap.once", "soap", "7x7", 1, {**o, "precondition-every": 50, "decay-form": "coupled"}
    over = {**SOAP, "base": "soap", "threshold": 2.0, "max-precond-dim": 7, "ns-mode": "exact"}
    for i, function in enumerate(("soft", "sharp", "hard")):
        yield "soap." + function, "spectra", list(shapes)[i], 1, {**over, "function": function}


def shampoo_cases(shapes):
    """Once two gradients were added, all factors have full rank."""
    for shape in shapes:
        yield "shampoo", "shampoo", shape, 0.5, SOAP
        yield "shampoo.none", "shampoo", shape, 1, {**SOAP, "graft": "none",
                                                    "precondition-eps": 0.01}
    o = {**SOAP, "precondition-every": 3, "precondition-eps": 1e-3, "decay-form": "coupled"}
    yield "shampoo.sums", "shampoo", "6x9", 1, {**o, "graft": "none", "precondition-beta": 1}
    yield "shampoo.each", "shampoo", "7x7", 1, {**o, "precondition-every": 1}
    yield "shampoo.beta", "shampoo", "9x6", 1, {**o, "precondition-beta": 0.6}
    yield "shampoo.left", "shampoo", "6x9", 1, {**o, "max-precond-dim": 7}
    yield "shampoo.right", "shampoo", "9x6", 1, {**o, "max-precond-dim": 7, "graft": "none"}
    over = {**SOAP, "base": "shampoo", "threshold": 2.0, "ns-mode": "exact"}
    for i, function in enumerate(("soft", "polar", "hard")):
        yield "shampoo." + function, "spectra", list(shapes)[i], 1, {**over, "function": function}


def kl_cases(shapes):
    o = {**SOAP, "eps": 1e-3}
    yield "kl", "kl-shampoo", "7x7", 1, {**o, "decay-form": "after"}
    for shape in ("6x9", "9x6"):
        yield "kl", "kl-shampoo", shape, 0.5, {**o, "decay-form": "after", "max-precond-dim": 7}
        yield "kl.no", "kl-shampoo", shape, 1, {**o, "decay-form": "coupled", "max-precond-dim": 5}
    o.update({"precondition-every": 3, "precondition-beta": 0.6, "decay-form": "decoupled"})
    yield "kl.beta", "kl-shampoo", "7x7", 1, o
    yield "kl.soft", "spectra", "7x7", 1, {**o, "base": "kl-shampoo", "threshold": 2.0,
                                           "function": "soft", "ns-mode": "exact"}


def dion2_cases(shapes):
    o = {"lr": 0.05, "beta": 0.3, "weight-decay": 0.8}
    for shape in shapes:
        yield "dion2", "dion2", shape, 1, {**o, "ns-coeffs": "polar-express", "shape-rule": "mup"}
        yield "dion2.half", "dion2", shape, 0.5, {**o, "fraction": 0.5, "ns-mode": "exact",
                                                  "ns-coeffs": "polar-express",
                                                  "shape-rule": "keller"}
        yield "dion2.soft", "spectra", shape, 1, {**o, "base": "dion2", "function": "soft",
                                                  "threshold": 1.5, "ns-mode": "exact"}


def preconditioner_cases(shapes):
    yield from soap_cases(shapes)
    yield from shampoo_cases(shapes)
    yield from kl_cases(shapes)
    yield from dion2_cases(shapes)
