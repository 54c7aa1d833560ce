"""Clips and spectra of arrays and tensors, against NumPy's SVD and the golden vectors."""

from __future__ import annotations

import numpy as np
import pytest

import musec

import mgv
from conftest import ROOT

try:
    import torch
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
GOLDEN = ROOT / "tests/data/golden"


def hard(x, d):
    u, s, v = np.linalg.svd(x, full_matrices=False)
    return (u * np.minimum(s, d)[..., None, :]) @ v


@pytest.mark.parametrize(
    "name", ["op_16x64", "op_64x16", "op_24x40_rank5", "op_7x1", "op_8x12_zero"]
)
def test_golden(name):
    gold = mgv.load(GOLDEN / f"{name}.mgv")
    x, d = gold["M"], gold["D"].item()
    scale = max(np.linalg.norm(x), 1e-300)
    for record, op, options in [
        ("hard", "hard", {}),
        ("soft", "soft", {}),
        ("ssc5", "ssc", {"iters": 5}),
        ("ssc3", "ssc", {"iters": 3, "literal": True}),
        ("polar", "polar", {}),
        ("muon5", "ns5", {}),
    ]:
        got = musec.clip(x, d, op, **options)
        # golden/README.md: 1e-10 through eigenvalues, relative; of what an operator may return
        limit = 1e-10 * max(np.linalg.norm(gold[record]), min(scale, d))
        assert np.linalg.norm(got - gold[record]) <= limit, op
    spectrum = musec.spectrum(x, d)
    assert np.allclose(spectrum.values, gold["sv"][0], rtol=0, atol=1e-12 * scale)
    assert abs(spectrum.norm2 - gold["specnorm"].item()) <= 1e-12 * scale
    assert abs(spectrum.fro - gold["fro"].item()) <= 1e-12 * scale
    assert abs(spectrum.effective_rank - gold["erank"].item()) <= 1e-9 * max(
        1.0, gold["erank"].item()
    )


def test_stacks_have_their_shape(rng):
    x = rng.standard_normal((2, 3, 5, 4))
    out = musec.clip(x, 0.7, "hard")
    assert out.shape == x.shape and np.allclose(out, hard(x, 0.7), atol=1e-12)
    spectrum = musec.spectrum(x, 0.7)
    assert spectrum.values.shape == (2, 3, 4) and spectrum.norm2.shape == (2, 3)
    assert musec.norm2(x).shape == (2, 3)
    assert np.all(musec.norm2(x, steps=8) <= spectrum.norm2 * (1 + 1e-12))


def test_arrays_of_every_kind(rng):
    x = rng.standard_normal((6, 9))
    want = musec.clip(x, 0.5)
    for other in [np.asfortranarray(x), np.repeat(x, 2, 1)[:, ::2], x.astype(">f8"), x.tolist()]:
        assert np.array_equal(musec.clip(other, 0.5), want)
    single = musec.clip(x.astype(np.float32), 0.5)
    assert single.dtype == np.float32
    assert musec.clip([[3, 0], [0, 1]], 2.0, "hard").dtype == np.float64
    for bad in [x.astype(np.float16), x.astype(complex), np.array([["a"]])]:
        with pytest.raises(ValueError, match="float32 and float64"):
            musec.clip(bad, 1.0)
    with pytest.raises(ValueError, match="matrix"):
        musec.clip(np.ones(3), 1.0)
    for shape in [(0, 4), (4, 0), (0, 3, 3)]:
        assert musec.clip(np.zeros(shape), 1.0).shape == shape
        musec.spectrum(np.zeros(shape))


def test_reports_and_names(rng):
    report = []
    musec.clip(rng.standard_normal((2, 8, 8)), 0.1, "fast", report=report)
    assert [r.products for r in report] == [7, 7] and report[0].path
    assert "fast" in musec.operators() and "soft-musec" in musec.optimizers()


@needs_torch
def test_tensors(rng):
    x = torch.tensor(rng.standard_normal((6, 9)))
    out = musec.clip(x, 0.5)
    assert isinstance(out, torch.Tensor) and np.array_equal(out.numpy(), musec.clip(x.numpy(), 0.5))
    assert torch.equal(musec.clip(x.T, 0.5), musec.clip(x.T.contiguous(), 0.5))
    assert torch.equal(musec.clip(torch._neg_view(x), 0.5), musec.clip(-x, 0.5))
    spectrum = musec.spectrum(x)
    assert isinstance(spectrum.values, torch.Tensor) and isinstance(spectrum.norm2, float)
    w = torch.nn.Parameter(x)
    with pytest.raises(ValueError, match="detach"):
        musec.clip(w, 0.5)
    with torch.no_grad():
        assert not musec.clip(w, 0.5).requires_grad
    for bad, word in [
        (x.to_sparse(), "sparse"),
        (x.to("meta"), "meta"),
        (x.to(torch.complex128), "complex"),
        (x.to(torch.int32), "int32"),
    ]:
        with pytest.raises(ValueError, match=word):
            musec.clip(bad, 0.5)
    with pytest.raises((NotImplementedError, ValueError), match="bf16|bfloat16"):
        musec.clip(x.to(torch.bfloat16), 0.5)


@needs_torch
def test_compile_traces_it(rng):
    import musec.torch  # noqa: F401

    def work(x):
        return musec.clip(x * 2.0, 0.3, "hard") + 1.0

    compiled = torch.compile(work, backend="aot_eager", fullgraph=True)
    x = torch.tensor(rng.standard_normal((5, 7)))
    assert torch.equal(compiled(x), work(x))
    torch.library.opcheck(torch.ops.musec.clip, (x, 0.3, "fast"))
