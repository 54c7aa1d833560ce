"""Muon against torch.optim.Muon itself, and the takeover of a running one.

torch.optim.Muon rounds to bfloat16 before its Newton-Schulz steps, which moves the singular values of
the update by up to a few percent; the library does not round on a CPU.  So its own iteration is run
here, from its own source, with float32 in place of bfloat16, and everything else is PyTorch's.  With
its bfloat16 the two differ by no more than that rounding explains (test_bfloat16).
"""

from __future__ import annotations

import inspect
import textwrap

import pytest

torch = pytest.importorskip("torch")
if not hasattr(torch.optim, "Muon"):
    pytest.skip("this PyTorch has no torch.optim.Muon (2.9 has)", allow_module_level=True)

import torch.optim._muon as theirs  # noqa: E402

import musec.torch as mt  # noqa: E402

SHAPES = [(8, 12), (12, 8), (16, 16), (24, 6)]
# float32 has a unit of 6e-8.  Five quintic steps multiply an error of the normalised momentum by at
# most 485, their slope at 0 (docs/operators.md), a step by lr: 6e-8 * 485 * 20 steps * lr 0.02.
F32 = 2e-5


@pytest.fixture
def float32_muon(monkeypatch):
    source = textwrap.dedent(inspect.getsource(theirs._zeropower_via_newtonschulz))
    # older versions round by .bfloat16(), which copies, as their in-place division then needs
    changed = source.replace(".bfloat16()", ".clone()").replace("bfloat16", "float32")
    assert changed != source
    space = dict(vars(theirs))
    exec(changed, space)
    monkeypatch.setattr(theirs, "_zeropower_via_newtonschulz", space["_zeropower_via_newtonschulz"])


def tensors(seed, scale=1.0):
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=g) * scale for shape in SHAPES]


def run(make, steps=20, weights=None, first=0):
    weights = weights or [torch.nn.Parameter(w) for w in tensors(0)]
    optimizer = make(weights)
    for t in range(first, first + steps):
        for w, g in zip(weights, tensors(t + 1)):
            w.grad = g.clone()
        optimizer.step()
    return weights, optimizer


def difference(a, b):
    return max(float((x - y).detach().norm() / y.detach().norm()) for x, y in zip(a, b))


OPTIONS = [
    {},
    {"lr": 0.02},
    {"lr": 0.02, "nesterov": False, "momentum": 0.9},
    {"lr": 0.02, "weight_decay": 0.3, "adjust_lr_fn": "match_rms_adamw"},
    {"lr": 0.02, "ns_steps": 3, "adjust_lr_fn": "original"},
    {"lr": 0.02, "adjust_lr_fn": "spectral_unclamped"},
    {"lr": 0.02, "eps": 4.0},  # the norms of the smallest matrix are below
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_step_for_step(float32_muon, options):
    if options.get("adjust_lr_fn") == "spectral_unclamped":
        if "spectral_unclamped" not in inspect.getsource(theirs):
            pytest.skip("this torch.optim.Muon has no spectral_unclamped")
    for steps in (1, 2, 5, 20):
        ours, _ = run(lambda p: mt.Muon(p, **options), steps)
        want, _ = run(lambda p: torch.optim.Muon(p, **options), steps)
        assert difference(ours, want) <= F32, steps


def test_bfloat16():
    """Their rounding as it is: eight bits of mantissa, 2^-9 relative to each entry, grow by at most
    the same slope; measured over a step of size lr, the two agree as well as that."""
    ours, _ = run(lambda p: mt.Muon(p, lr=0.02, weight_decay=0.0), 1)
    want, _ = run(lambda p: torch.optim.Muon(p, lr=0.02, weight_decay=0.0), 1)
    start = tensors(0)
    for a, b, w in zip(ours, want, start):
        step = float((b.detach() - w).norm())
        assert float((a - b).detach().norm()) <= 2**-9 * 485 * step


def test_signature_is_torchs():
    ours = inspect.signature(mt.Muon.__init__).parameters
    for name, theirs_one in inspect.signature(torch.optim.Muon.__init__).parameters.items():
        if name in ("self", "params"):
            continue
        assert (
            list(ours)[list(inspect.signature(torch.optim.Muon.__init__).parameters).index(name)]
            == name
        )
        default = ours[name].default
        assert default == theirs_one.default, name


def test_takes_over_a_running_one(float32_muon):
    def split(p, cls, **options):
        return cls(
            [{"params": p[:2], "lr": 0.01}, {"params": p[2:], "weight_decay": 0.3}],
            lr=0.02,
            **options,
        )

    weights, running = run(lambda p: split(p, torch.optim.Muon, momentum=0.9), 7)
    taken = mt.from_torch_muon(running)
    assert [g["lr"] for g in taken.param_groups] == [0.01, 0.02]
    assert [g["weight_decay"] for g in taken.param_groups] == [0.1, 0.3]
    ours, _ = run(lambda p: taken, 13, weights, 7)
    want, _ = run(lambda p: split(p, torch.optim.Muon, momentum=0.9), 20)
    assert difference(ours, want) <= F32


def test_takes_its_state_dict(float32_muon):
    weights, running = run(lambda p: torch.optim.Muon(p, lr=0.02), 7)
    saved = running.state_dict()
    loaded = mt.Muon(weights, lr=0.5)
    loaded.load_state_dict(saved)
    assert loaded.param_groups[0]["lr"] == 0.02
    ours, _ = run(lambda p: loaded, 13, weights, 7)
    want, _ = run(lambda p: torch.optim.Muon(p, lr=0.02), 20)
    assert difference(ours, want) <= F32


def test_takes_over_its_eps(float32_muon):
    """The norms of the smallest matrix are below this one."""
    weights, running = run(lambda p: torch.optim.Muon(p, lr=0.02, eps=4.0), 7)
    want, _ = run(lambda p: torch.optim.Muon(p, lr=0.02, eps=4.0), 20)
    loaded = mt.Muon([w.detach().clone().requires_grad_() for w in weights])
    loaded.load_state_dict(running.state_dict())
    for taken in (loaded, mt.from_torch_muon(running)):
        assert [group["ns_eps"] for group in taken.param_groups] == [4.0]
        params = taken.param_groups[0]["params"]
        ours, _ = run(lambda p: taken, 13, params, 7)
        assert difference(ours, want) <= F32
    for option in ("eps", "ns_eps"):
        taken = mt.from_torch_muon(running, **{option: 0.5})
        assert [group["ns_eps"] for group in taken.param_groups] == [0.5]


def test_other_optimizers_take_over_too():
    weights, running = run(lambda p: torch.optim.Muon(p, lr=0.02), 5)
    taken = mt.SoftMusec.from_torch_muon(running, threshold="rms:2", weight_decay=0.0)
    momentum = running.state[weights[0]]["momentum_buffer"]
    assert torch.equal(taken.state[weights[0]]["momentum_buffer"], momentum)
    assert taken.param_groups[0]["threshold"] == "rms:2"
    assert taken.param_groups[0]["weight_decay"] == 0.0
    run(lambda p: taken, 3, weights, 5)
    own = {mt.AdaMuon: "fixed-rms", mt.Scion: "spectral_unclamped", mt.MuonH: "none"}
    for cls, rule in own.items():
        assert cls.from_torch_muon(running).param_groups[0]["adjust_lr_fn"] == rule
    chosen = torch.optim.Muon(weights, adjust_lr_fn="match_rms_adamw")
    taken = mt.AdaMuon.from_torch_muon(chosen)
    assert taken.param_groups[0]["adjust_lr_fn"] == "match_rms_adamw"


def test_refuses_others():
    with pytest.raises(ValueError, match="SGD"):
        mt.from_torch_muon(torch.optim.SGD([torch.nn.Parameter(torch.ones(2, 2))], lr=0.1))
    with pytest.raises(ValueError, match="eps"):
        mt.Muon([torch.nn.Parameter(torch.ones(2, 2))], eps=-1e-3)
    with pytest.raises(ValueError, match="eps is 0"):
        mt.Muon([torch.nn.Parameter(torch.ones(2, 2))], eps=0.0)
    with pytest.raises(ValueError, match="ns_eps"):
        mt.Muon([torch.nn.Parameter(torch.ones(2, 2))], eps=1e-3, ns_eps=1e-4)
    with pytest.raises(ValueError, match="ns_coefficients"):
        mt.Muon([torch.nn.Parameter(torch.ones(2, 2))], ns_coefficients=(1.0, 2.0, 3.0))
