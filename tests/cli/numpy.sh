# numpy.sh - exchange of .npy files with NumPy, and every operator against its definition in a few lines
# of Python with NumPy's SVD.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"

python=$(python_with numpy)
if [ -z "$python" ]; then
    skip "no python3 with NumPy"
    finish
fi

# Threads slow hundreds of tiny matrices down, in NumPy as well.
export MUSEC OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
judged "$python" - <<'PYTHON'
import os, subprocess
import numpy as np
from judge import check, ends

musec = os.environ["MUSEC"]
rng = np.random.default_rng(7)

def clip(x, *args):
    np.save("in.npy", x)
    subprocess.run([musec, "clip", "in.npy", "out.npy", *args], check=True, stdout=subprocess.DEVNULL)
    return np.load("out.npy")

def mapped(x, f):
    u, s, vt = np.linalg.svd(x.astype(np.float64), full_matrices=False)
    return (u * f(s)[..., None, :]) @ vt

def phi(u, steps):
    for _ in range(steps):
        u = u * (3 - u * u) / 2
    return u

def soft(s, d):
    return d * s / np.sqrt(s * s + d * d)

def ssc(s, d, steps):  # s: (..., r)
    lam = s * s + d * d
    fro = np.sqrt((lam * lam).sum(-1, keepdims=True))
    return soft(s, d) * phi(np.sqrt(lam / fro), steps)

def ns5(x, steps):
    x = x.astype(np.float64)
    tall = x.shape[-2] > x.shape[-1]
    x = x.swapaxes(-1, -2) if tall else x
    x = x / (np.sqrt((x * x).sum((-1, -2), keepdims=True)) + 1e-7)
    for _ in range(steps):
        a = x @ x.swapaxes(-1, -2)
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.swapaxes(-1, -2) if tall else x

def worst(got, want):
    return np.abs(got.astype(np.float64) - want).max()

# operator, arguments, what it should be, how near in float64 (times max(D, 1))
def cases(x, d):
    D = str(d)
    yield "hard", ["--threshold", D], mapped(x, lambda s: np.minimum(s, d)), 1e-12
    yield "soft", ["--threshold", D], mapped(x, lambda s: soft(s, d)), 1e-12
    yield "polar", [], mapped(x, np.ones_like), 1e-12
    yield "ssc", ["--threshold", D], mapped(x, lambda s: ssc(s, d, 5)), 1e-10
    yield "ssc", ["--threshold", D, "--literal"], mapped(x, lambda s: ssc(s, d, 5)), 1e-10
    yield "ssc", ["--threshold", D, "--iters", "8"], mapped(x, lambda s: ssc(s, d, 8)), 1e-10
    yield "paper7", ["--threshold", D], mapped(x, lambda s: ssc(s, d, 5)), 2e-6
    yield "accurate", ["--threshold", D, "--tol", "1e-7"], mapped(x, lambda s: soft(s, d)), 1.1e-7
    yield "ns5", [], ns5(x, 5), 1e-10
    yield "ns5", ["--iters", "3"], ns5(x, 3), 1e-10

shapes = [(8, 12), (12, 8), (9, 9), (1, 7), (7, 1), (1, 1), (3, 6, 10), (2, 10, 6), (40, 33)]
for shape in shapes:
    base = rng.standard_normal(shape)
    for dtype, order in [("<f8", "C"), ("<f8", "F"), ("<f4", "C"), ("<f4", "F")]:
        x = np.asarray(base, dtype=dtype, order=order)
        for d in (0.75, 3.0) if order == "C" else (0.75,):
            for op, args, want, tol in cases(x, d):
                what = f"{op} {args} on {shape} {dtype} {order}"
                got = clip(x, "--op", op, *args)
                check(got.dtype == x.dtype and got.shape == x.shape, what + ": dtype and shape")
                check(got.flags["C_CONTIGUOUS"], what + ": C order")
                if dtype == "<f4":  # the rounding of float32, a little more for the quintic
                    tol = max(tol, 1e-4 if op == "ns5" else 2e-5)
                err = worst(got, want)
                check(err <= tol * max(d, 1), f"{what}: off by {err:g}")
            # fast: for every s the gain on h is no further from 1 than ssc's, or 2.29e-3
            s = np.linalg.svd(x.astype(np.float64), compute_uv=False)
            got = np.linalg.svd(clip(x, "--op", "fast", "--threshold", str(d)).astype(np.float64),
                                compute_uv=False)
            room = np.maximum(soft(s, d) - ssc(s, d, 5), 2.29e-3 * soft(s, d)) + 2e-5 * d
            check((np.abs(got - soft(s, d)) <= room).all(), f"fast on {shape} {dtype}")

# arithmetic in the other dtype, in both directions
x = rng.standard_normal((6, 9))
wide = clip(x.astype("<f4"), "--dtype", "f64", "--threshold", "1")
check(wide.dtype == np.float64, "f64 from f32")
check(worst(wide, mapped(x.astype("<f4"), lambda s: np.minimum(s, 1))) <= 1e-12, "f64 from f32")
narrow = clip(x, "--dtype", "f32", "--threshold", "1")
check(narrow.dtype == np.float32, "f32 from f64")
check(worst(narrow, mapped(x, lambda s: np.minimum(s, 1))) <= 2e-5, "f32 from f64")

# versions 1, 2 and 3 of the format, as NumPy itself writes them
for version in [(1, 0), (2, 0), (3, 0)]:
    with open("in.npy", "wb") as f:
        np.lib.format.write_array(f, x, version=version)
    subprocess.run([musec, "clip", "in.npy", "out.npy", "--threshold", "100"], check=True,
                   stdout=subprocess.DEVNULL)
    check(np.array_equal(np.load("out.npy"), x), f"version {version}: every bit")
np.save("same.npy", x)
check(open("same.npy", "rb").read() == open("out.npy", "rb").read(), "the very bytes of np.save")

# spectra
import json
for shape in [(6, 9), (9, 6), (3, 5, 5)]:
    x = rng.standard_normal(shape)
    np.save("in.npy", x)
    out = subprocess.run([musec, "spectrum", "in.npy", "--values", "--threshold", "1.5", "--json"],
                         check=True, stdout=subprocess.PIPE).stdout
    rows = json.loads(out)["matrices"]
    for row, m in zip(rows, x.reshape((-1,) + shape[-2:]), strict=True):
        s = np.linalg.svd(m, compute_uv=False)
        p = s / s.sum()
        check(np.abs(np.array(row["values"]) - s).max() <= 1e-12, "singular values")
        check(abs(row["norm2"] - s[0]) <= 1e-12, "spectral norm")
        check(abs(row["fro"] - np.linalg.norm(m)) <= 1e-12, "Frobenius norm")
        check(abs(row["nuclear"] - s.sum()) <= 1e-12, "nuclear norm")
        check(abs(row["effective_rank"] - np.exp(-(p * np.log(p)).sum())) <= 1e-11, "effective rank")
        check(row["share_above"] == (s > 1.5).mean(), "share above D")

ends()
PYTHON

finish
