"""groups(model): what it proposes, and that it says so; blocks."""

from __future__ import annotations

import io

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import musec.torch as mt  # noqa: E402
from musec.torch import blocks  # noqa: E402
from musec.torch.blocks import Layout  # noqa: E402


class Block(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.c_attn = nn.Linear(d, 3 * d)
        self.c_proj = nn.Linear(d, d, bias=False)
        self.experts = nn.Parameter(torch.randn(4, d, 2 * d))
        self.gate = nn.Parameter(torch.randn(d, 4))


class Model(nn.Module):
    def __init__(self, tied=True):
        super().__init__()
        self.wte = nn.Embedding(50, 16)
        self.h = nn.ModuleList([Block(), Block()])
        self.conv = nn.Conv2d(3, 8, 3)
        self.lm_head = nn.Linear(16, 50, bias=False)
        if tied:
            self.lm_head.weight = self.wte.weight


def roles(model, **options):
    text = io.StringIO()
    found = mt.groups(model, file=text, **options)
    return (
        {n: (g["role"], g["blocks"]) for g in found for n, _ in g["params"]},
        found,
        text.getvalue(),
    )


@pytest.mark.parametrize("tied", [True, False])
def test_proposal(tied):
    found, groups, text = roles(
        Model(tied), blocks={"c_attn": blocks.split(3), "experts": blocks.stack()}
    )
    assert found["wte.weight"] == ("adamw", None)
    assert ("lm_head.weight" in found) == (not tied)
    assert tied or found["lm_head.weight"] == ("adamw", None)
    assert found["h.0.c_attn.weight"] == ("matrix", ("split", 3))
    assert found["h.1.experts"] == ("matrix", ("stack",))
    assert found["h.0.c_proj.weight"] == ("matrix", None)
    assert found["h.0.c_attn.bias"] == ("adamw", None) == found["h.0.norm.weight"]
    assert found["h.0.gate"] == ("adamw", None), "a bare parameter is not known as a matrix"
    assert found["conv.weight"] == ("matrix", ("flatten",))
    for name in found:
        assert name in text
    names = [n for g in groups for n, _ in g["params"]]
    assert len(names) == len(set(names)) == len(list(Model(tied).parameters()))
    optimizer = mt.SoftMusec(groups)
    # two fused weights of 3, 2 x 4 experts, two projections, one convolution
    assert len(optimizer.report()) == 6 + 8 + 2 + 1


def test_it_is_never_silent(capsys):
    mt.groups(Model())
    assert "musec.torch.groups" in capsys.readouterr().err


def test_names_decide_otherwise():
    found, groups, _ = roles(
        Model(),
        matrix=["h.*.gate"],
        adamw=["c_proj"],
        adamw_options={"lr": 1e-3, "weight_decay": 0.1},
        matrix_options={"lr": 0.05},
    )
    assert found["h.0.gate"][0] == "matrix" and found["h.1.c_proj.weight"][0] == "adamw"
    for group in groups:
        assert group["lr"] == (0.05 if group["role"] == "matrix" else 1e-3)
    decays = {n: g.get("weight_decay") for g in groups for n, _ in g["params"]}
    assert decays["wte.weight"] == 0.1 and decays["h.0.norm.bias"] == 0.0
    with pytest.raises(ValueError, match="c_atn"):
        mt.groups(Model(), blocks={"c_atn": blocks.split(3)}, file=io.StringIO())


@pytest.mark.parametrize(
    "spec,shape,cut",
    [
        (blocks.split(3), (12, 5), lambda w: list(w.chunk(3))),
        (blocks.heads(4), (12, 5), lambda w: list(w.chunk(4))),
        (blocks.rows(6, 2, 4), (12, 5), lambda w: list(w.split([6, 2, 4]))),
        (blocks.columns(3), (5, 12), lambda w: list(w.chunk(3, 1))),
        (
            blocks.interleaved(3, 2),
            (12, 5),
            lambda w: [
                torch.cat([w[2 * i : 2 * i + 2], w[6 + 2 * i : 8 + 2 * i]]) for i in range(3)
            ],
        ),
        (blocks.stack(), (3, 4, 5), list),
        (blocks.flatten(), (4, 3, 2, 2), lambda w: [w.reshape(4, 12)]),
    ],
    ids=str,
)
def test_blocks_are_matrices_of_their_own(spec, shape, cut):
    """A parameter with blocks is stepped as its parts are, to the bit, and its state has its shape."""
    torch.manual_seed(0)
    w = nn.Parameter(torch.randn(shape, dtype=torch.float64))
    parts = [nn.Parameter(part.detach().clone().contiguous()) for part in cut(w.detach())]
    a = mt.SoftMusec([{"params": [w], "blocks": spec}], lr=0.05, weight_decay=0.1)
    b = mt.SoftMusec(parts, lr=0.05, weight_decay=0.1)
    for _ in range(3):
        w.grad = torch.randn_like(w)
        for p, g in zip(parts, cut(w.grad)):
            p.grad = g.clone().contiguous()
        a.step()
        b.step()
    for p, want in zip(cut(w.detach()), parts):
        assert torch.equal(p, want)
    a.load_state_dict(a.state_dict())
    momentum = a.state_dict()["state"][0]["momentum_buffer"]
    assert momentum.shape == w.shape
    for part, p in zip(cut(momentum), parts):
        assert torch.equal(part, b.state[p]["momentum_buffer"])


def test_blocks_that_do_not_fit():
    for spec, word in [
        (blocks.split(5), "12 rows"),
        (blocks.rows(6, 7), "the sum must be 12"),
        (blocks.columns(5), "columns"),
        (blocks.interleaved(3, 5), "rows"),
        (("heads", 3), "musec.torch.blocks"),
        (blocks.stack(), "stack"),
    ]:
        with pytest.raises(ValueError, match=word):
            Layout((12, 8), spec, "w")
