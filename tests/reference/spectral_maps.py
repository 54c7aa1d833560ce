"""spectral_maps.py - what the operators make of a matrix, in NumPy float64.

Exact maps go through the singular value decomposition, the paper's steps and Muon's are taken in
their own order.  Clips by products are polynomials in X X^T, so they are computed as what they make
of each singular value.  The coefficients of the soft stages are those of data/golden/coeffs.txt,
those of the chains behind them stand in src/linalg/sharp_table.c; what their errors are said to be
is measured here again, by check_chains().
"""
import os
import re

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))

# ---- exact maps, and the paper's steps -----------------------------------------------------------


def on_singular_values(x, f):
    u, s, vt = np.linalg.svd(x, full_matrices=False)
    return (u * f(s)) @ vt


def polar(x):
    u, s, vt = np.linalg.svd(x, full_matrices=False)
    keep = s > max(x.shape) * 2.2e-16 * s[0]
    return u[:, keep] @ vt[keep]


def sharp_value(s, d, p):
    """s / (1 + (s/d)^p)^(1/p); with the larger of both taken out, no power overflows."""
    small, large = np.minimum(s, d), np.maximum(s, d)
    return small if p == np.inf else small / (1.0 + (small / large) ** p) ** (1.0 / p)


def sharp(x, d, p):
    """The clip of sharpness p: 2 is the soft one, infinity the hard one."""
    return on_singular_values(x, lambda s: sharp_value(s, d, p))


def small_side(f):
    def turned(x, *args):
        return f(x, *args) if x.shape[0] <= x.shape[1] else f(x.T, *args).T
    return turned


@small_side
def ssc(x, d, iters):
    eye = np.eye(x.shape[0])
    a = x @ x.T + d * d * eye
    alpha = np.linalg.norm(a)
    y, z = a / alpha, eye
    for _ in range(iters):
        t = 0.5 * (3.0 * eye - z @ y)
        y, z = y @ t, t @ z
    return d / np.sqrt(alpha) * (z @ x)


# ---- clips by products, as what they make of a singular value ------------------------------------


def read_plans():
    """The compositions of odd polynomials by name: u_d and, for each stage, its coefficients."""
    plans = {}
    with open(os.path.join(HERE, "../data/golden/coeffs.txt"), encoding="ascii") as f:
        for words in map(str.split, f):
            if words[:1] == ["plan"]:
                plans[words[1]] = (float(words[2]), [])
                stages = plans[words[1]][1]
            elif words[:1] == ["stage"]:
                stages.append([float(c) for c in words[3:]])
    return plans


def read_chains():
    """The chain that `fast` takes, (error, steps), for each sharpness: the first within 3e-2, and
    within 5e-3 below 0.7 D."""
    with open(os.path.join(HERE, "../../src/linalg/sharp_table.c"), encoding="utf-8") as f:
        text = f.read()
    number, chains = r"[-+.\deINFTY]+", {}
    row = r"\{ (%s),\s+(\d+),\s+(%s),\s+(%s),\s+\{((?:\s*\{[^{}]*\},?)+) \} \}" % ((number,) * 3)
    for p, n, error, below, steps in re.findall(row, text):
        steps = [[float(c) for c in s.split(",")] for s in re.findall(r"\{([^{}]*)\}", steps)]
        assert len(steps) == int(n), p
        if float(error) <= 3e-2 and float(below) <= 5e-3:
            chains.setdefault(np.inf if p == "INFINITY" else float(p), (float(error), steps))
    assert sorted(chains) == [4, 8, 16, 32, np.inf], chains
    return chains


def chain_value(steps, x):
    before, y = 0.0, x
    for square, source, diag in steps:
        before, y = y, square * y * y + source * before + diag
    return y


def bend(zeta, p):
    """The clip of sharpness p over the soft one, zeta = D^2 / (s^2 + D^2)."""
    if p == np.inf:
        return np.maximum(zeta, 1.0 - zeta) ** -0.5
    return (zeta ** (0.5 * p) + (1.0 - zeta) ** (0.5 * p)) ** (-1.0 / p)


PLANS, CHAINS = read_plans(), read_chains()


def check_chains():
    zeta = np.linspace(0.0, 1.0, 200001)
    for p, (error, steps) in CHAINS.items():
        off = 1.0 - chain_value(steps, 1.0 - 2.0 * zeta) / bend(zeta, p)
        assert -1e-12 <= off.min() and 0.9 * error <= off.max() <= error, (p, off.min(), off.max())


def plan_gain(name, u):
    for stage in PLANS[name][1]:
        u = sum(c * u ** (2 * j + 1) for j, c in enumerate(stage))
    return u


def soft_gain(mode, s, d):
    """What the soft stage makes of each singular value, over the soft clip."""
    a = s * s + d * d
    if mode in ("paper", "paper7"):  # alpha = |A|_F
        u = np.sqrt(a / np.linalg.norm(a))
        if mode == "paper7":
            return plan_gain("paper7", u)
        for _ in range(5):
            u = 0.5 * u * (3.0 - u * u)
        return u
    fourth = np.mean(a) + np.sqrt(np.linalg.norm((a - np.mean(a)) ** 2))
    alpha = min(np.linalg.norm(a), fourth) * (1.0 + 1e-5)
    low = d / np.sqrt(alpha)
    assert low >= 0.1, ("fast has a large error here", low)
    return plan_gain("p9x9d" if low >= 0.40 else "p9x9c" if low >= 0.16 else "p9x9",
                     np.sqrt(a / alpha))


def by_products(x, d, p, mode):
    def value(s):
        c = soft_gain(mode, s, d)
        h = c * d * s / np.sqrt(s * s + d * d)
        if p == 2:
            return h
        return h * chain_value(CHAINS[p][1], 1.0 - 2.0 * c * c * d * d / (s * s + d * d))
    return on_singular_values(x, value)


# ---- Muon's ---------------------------------------------------------------------------------------

KELLER = [(3.4445, -4.7750, 2.0315)] * 5
POLAR_EXPRESS = [  # with the safety factor 1.02
    (8.156554524902461, -22.48329292557795, 15.878769915207462),
    (4.042929935166739, -2.808917465908714, 0.5000178451051316),
    (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
    (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
    (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
]


@small_side
def quintic(x, coeffs, norm_factor):
    x = x / (np.linalg.norm(x) * norm_factor + 1e-7)
    for a, b, c in coeffs:
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x
