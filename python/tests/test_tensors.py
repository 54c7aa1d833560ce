"""Tensors of every kind as parameters: they work, or a ValueError says why not."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import musec.torch as mt  # noqa: E402
from musec.torch import blocks  # noqa: E402


def test_what_is_no_matrix_is_refused_by_name():
    for shape in [(4,), (), (2, 3, 4)]:
        with pytest.raises(ValueError, match="blocks|adamw"):
            mt.SoftMusec([torch.nn.Parameter(torch.zeros(shape))])
        mt.SoftMusec([{"params": [torch.nn.Parameter(torch.zeros(shape))], "role": "adamw"}])


def test_tensors_of_other_kinds():
    """Sparse, complex, meta: a ValueError that says so."""
    bad = [
        (torch.zeros(3, 3, dtype=torch.complex64), "complex"),
        (torch.zeros(3, 3, device="meta"), "meta"),
        (torch.zeros(3, 3).to_sparse(), "sparse"),
    ]
    for tensor, word in bad:
        with pytest.raises(ValueError, match=word):
            mt.SoftMusec([torch.nn.Parameter(tensor)])
    table = torch.nn.Embedding(10, 4, sparse=True)
    optimizer = mt.SoftMusec(table.parameters())
    table(torch.tensor([1, 2])).sum().backward()
    with pytest.raises(ValueError, match="sparse"):
        optimizer.step()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_16_bit_weights(dtype):
    """As float32 weights that are rounded for the model: small steps are not lost."""
    torch.manual_seed(1)
    shapes, unit = [(12, 20), (20, 12), (8, 8)], torch.finfo(dtype).eps
    narrow = [torch.nn.Parameter(torch.randn(shape).to(dtype)) for shape in shapes]
    wide = [torch.nn.Parameter(n.detach().float()) for n in narrow]
    a, b = mt.SoftMusec(wide, lr=1e-4), mt.SoftMusec(narrow, lr=1e-4)
    for _ in range(30):
        for w, n in zip(wide, narrow):
            n.grad = torch.randn(w.shape).to(dtype)
            w.grad = n.grad.float()
        a.step()
        b.step()
    for w, n in zip(wide, narrow):
        apart = (w - n.float()).detach().norm() / w.detach().norm()
        assert float(apart) <= unit
    name = "low" if dtype == torch.bfloat16 else "master"
    assert name in b.state_dict()["state"][0]
    other = [torch.nn.Parameter(n.detach().clone()) for n in narrow]
    c = mt.SoftMusec(other, lr=1e-4)
    c.load_state_dict(b.state_dict())
    for n, o in zip(narrow, other):
        n.grad = torch.randn(n.shape).to(dtype)
        o.grad = n.grad.clone()
    b.step()
    c.step()
    assert all(torch.equal(n, o) for n, o in zip(narrow, other))


@pytest.mark.parametrize("kind", ["transposed", "sliced", "gradient", "channels_last"])
def test_tensors_that_are_not_contiguous(kind):
    """They give the bits of contiguous ones."""
    torch.manual_seed(0)
    plain = torch.randn(6, 10)
    strange = {
        "transposed": plain.t().contiguous().t(),
        "sliced": torch.cat([plain, plain], 1)[:, :10],
        "gradient": plain.clone(),
        "channels_last": plain.clone(),
    }[kind]
    spec = None
    if kind == "channels_last":
        plain = torch.randn(4, 3, 3, 3)
        strange = plain.clone().to(memory_format=torch.channels_last)
        spec = blocks.flatten()
    a, b = torch.nn.Parameter(plain.clone()), torch.nn.Parameter(strange)
    assert kind == "gradient" or not b.is_contiguous()
    ends = []
    for p in (a, b):
        optimizer = mt.SoftMusec([{"params": [p], "blocks": spec}], weight_decay=0.1)
        for t in range(3):
            g = torch.randn(plain.shape, generator=torch.Generator().manual_seed(t))
            p.grad = g if p is a else g.t().contiguous().t() if g.ndim == 2 else g
            optimizer.step()
        ends.append(p.detach())
    assert torch.equal(*ends)
