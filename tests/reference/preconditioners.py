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
