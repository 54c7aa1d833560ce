"""Steps whose tensors are looked at by one call, and tensor by tensor: the same bits, whatever a
gradient or weight is; and what PyTorch puts around a step is still there."""

from __future__ import annotations

import weakref

import pytest

torch = pytest.importorskip("torch")

from torch.optim.optimizer import register_optimizer_step_post_hook  # noqa: E402

import musec.torch as mt  # noqa: E402
from musec.torch import _engine, _exchange  # noqa: E402

SHAPES = [(12, 20), (20, 12), (9,), (8, 8)]


class Own(torch.Tensor):
    """A class of somebody else's."""


def made(shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def parameters():
    return [torch.nn.Parameter(made(shape, i)) for i, shape in enumerate(SHAPES)]


def optimizer_of(weights, **options):
    groups = [
        {"params": [w for w in weights if w.ndim == 2]},
        {"params": [w for w in weights if w.ndim != 2], "role": "adamw"},
    ]
    return mt.SoftMusec(groups, lr=0.05, **options)


def ordinary(weights, t):
    for i, w in enumerate(weights):
        w.grad = made(w.shape, 100 * t + i).to(w.dtype)


def missing(weights, t):
    ordinary(weights, t)
    weights[t % 4].grad = None


def turned(weights, t):
    ordinary(weights, t)
    weights[1].grad = torch._neg_view(weights[1].grad)


def turned_and_missing(weights, t):
    turned(weights, t)
    weights[2].grad = None


def transposed(weights, t):
    ordinary(weights, t)
    weights[0].grad = made(weights[0].shape[::-1], t).t()


def expanded(weights, t):
    ordinary(weights, t)
    weights[0].grad = made((1, 20), t).expand(12, 20)


def of_own_class(weights, t):
    ordinary(weights, t)
    weights[0].grad = weights[0].grad.as_subclass(Own)


def moved(weights, t):
    weights[0].data = weights[0].data.clone()
    ordinary(weights, t)


def restrided(weights, t):
    weights[3].data = weights[3].data.t().clone(memory_format=torch.contiguous_format).t()
    ordinary(weights, t)


def of_another_dtype(weights, t):
    if t == 2:
        for w in weights:
            w.grad = None
            w.data = w.data.double()
    ordinary(weights, t)


def swapped(weights, t):
    if t == 2:
        torch.utils.swap_tensors(weights[3], torch.nn.Parameter(made((8, 8), 77)))
    ordinary(weights, t)


KINDS = [
    ordinary,
    missing,
    turned,
    turned_and_missing,
    transposed,
    expanded,
    of_own_class,
    moved,
    restrided,
    of_another_dtype,
    swapped,
]
AT_ONCE = (ordinary, missing)  # the others are seen


def run(kind, at_once, monkeypatch, lends=False):
    """The weights after some steps, and how many of these went tensor by tensor."""
    monkeypatch.setattr(_exchange, "enabled", at_once)
    weights = parameters()
    optimizer = optimizer_of(weights)
    apart, step = [], _engine.Engine.step
    monkeypatch.setattr(_engine.Engine, "step", lambda *args: (apart.append(1), step(*args)))
    for engine in optimizer._engines:
        engine.lends = lends
    for t in range(5):
        kind(weights, t)
        optimizer.step()
    monkeypatch.setattr(_engine.Engine, "step", step)
    return [w.detach() for w in weights], len(apart)


def here():
    if not _exchange.enabled or not _exchange._describer():
        pytest.skip("this PyTorch has no C exchange API, or it is not to be used")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_both_ways_are_one(kind, monkeypatch):
    here()
    one, some = run(kind, True, monkeypatch)
    other, all_of_them = run(kind, False, monkeypatch)
    assert all(torch.equal(a, b) for a, b in zip(one, other))
    assert all_of_them == 5
    assert (some == 0) == (kind in AT_ONCE)


@pytest.mark.parametrize("at_once", [True, False])
def test_a_workspace_is_lent_step_by_step(at_once, monkeypatch):
    """As on a GPU: the pieces that are PyTorch's again after each step change no bit."""
    kept, _ = run(missing, at_once, monkeypatch)
    lent, _ = run(missing, at_once, monkeypatch, lends=True)
    assert all(torch.equal(a, b) for a, b in zip(kept, lent))


def test_a_loan_spares_calls_of_python(monkeypatch):
    weights = parameters()
    optimizer = optimizer_of(weights, report_every=4)
    (engine,) = optimizer._engines
    engine.lends, memory, calls = True, engine.memory, []
    lend = memory.lend
    monkeypatch.setattr(memory, "lend", lambda: (calls.append(len(memory.tensors)), lend())[1])
    held = []
    for t in range(7):
        ordinary(weights, t)
        before = set(memory.tensors)
        optimizer.step()
        held.append(set(memory.tensors) == before)
        assert memory._loan.data is None and memory._loan.is_out == 0
        assert memory._loan.was_out == (t not in (0, 3))  # the first step, and one that reports
        memory._loan.was_out = 0
    assert all(held[1:]) and len(calls) == 6


def test_a_failed_step_leaves_the_memory_usable():
    weights = parameters()
    optimizer = optimizer_of(weights, nonfinite="stop")
    (engine,) = optimizer._engines
    engine.lends = True
    for t in range(6):
        ordinary(weights, t)
        if t == 3:
            weights[0].grad[0, 0] = float("nan")
            with pytest.raises(ArithmeticError):
                optimizer.step()
        else:
            optimizer.step()
        assert engine.memory._loan.data is None and engine.memory._loan.is_out == 0
    assert torch.isfinite(weights[0]).all()


def test_an_interrupted_step_keeps_what_it_has_lent(monkeypatch):
    """An interrupt is raised when a call of C returns: the library has the piece until its next."""
    kept, _ = run(ordinary, True, monkeypatch)
    weights = parameters()
    optimizer = optimizer_of(weights)
    (engine,) = optimizer._engines
    engine.lends, memory, library, pieces = True, engine.memory, engine._lib, []
    empty = torch.empty

    def noted(*sizes, **options):
        piece = empty(*sizes, **options)
        pieces.append(weakref.ref(piece))
        return piece

    class Interrupted:
        def __getattr__(self, name):
            if name == "musec_ctx_trim":
                raise KeyboardInterrupt
            return getattr(library, name)

    for t in range(5):
        ordinary(weights, t)
        monkeypatch.setattr(torch, "empty", noted)
        if t == 2:
            engine._lib = Interrupted()
            with pytest.raises(KeyboardInterrupt):
                optimizer.step()
            engine._lib = library
            assert memory._loan.is_out == 1
            assert memory._loan.data in [p().data_ptr() for p in pieces if p() is not None]
        else:
            optimizer.step()
        monkeypatch.setattr(torch, "empty", empty)
    assert memory._loan.data is None and memory._loan.is_out == 0
    assert all(torch.equal(w, v) for w, v in zip(weights, kept))


def test_a_gradient_of_another_layout_is_refused_either_way(monkeypatch):
    for at_once in (True, False):
        monkeypatch.setattr(_exchange, "enabled", at_once)
        weights = parameters()
        optimizer = optimizer_of(weights)
        ordinary(weights, 0)
        optimizer.step()
        weights[0].grad = weights[0].grad.to_sparse()
        with pytest.raises(ValueError, match="sparse"):
            optimizer.step()


def test_a_table_that_says_something_else_is_not_used(monkeypatch):
    here()
    monkeypatch.setattr(_exchange.Inspection, "is_right", lambda self: False)
    weights = parameters()
    assert optimizer_of(weights)._engines[0]._inspection is None
    monkeypatch.setattr(_exchange, "_CAPSULE", b"another name")
    assert _exchange._describer() == 0


def test_versions_count_either_way(monkeypatch):
    for at_once in (True, False):
        monkeypatch.setattr(_exchange, "enabled", at_once)
        weights = parameters()
        optimizer = optimizer_of(weights)
        ordinary(weights, 0)
        weights[3].grad = None
        before = [w._version for w in weights]
        optimizer.step()
        assert [w._version > v for w, v in zip(weights, before)] == [True, True, True, False]


# ---- what PyTorch puts around a step --------------------------------------------------------------


def test_hooks_are_called():
    weights = parameters()
    optimizer = optimizer_of(weights)
    ordinary(weights, 0)
    seen = []
    handles = [
        optimizer.register_step_pre_hook(lambda *_: seen.append("pre")),
        optimizer.register_step_post_hook(lambda *_: seen.append("post")),
    ]
    optimizer.step()
    assert seen == ["pre", "post"]
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(seen) == 2
    handle = register_optimizer_step_post_hook(lambda *_: seen.append("all"))
    optimizer.step()
    handle.remove()
    assert seen[2:] == ["all"]


def test_a_profile_names_the_step():
    weights = parameters()
    optimizer = optimizer_of(weights)
    ordinary(weights, 0)
    optimizer.step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        optimizer.step()
    names = [event.key for event in profile.key_averages()]
    assert "Optimizer.step#SoftMusec.step" in names


def test_steps_are_seen_by_schedulers_and_their_code(monkeypatch):
    weights = parameters()
    optimizer = optimizer_of(weights)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    seen = []
    monkeypatch.setattr(optimizer, "_optimizer_step_code", lambda: seen.append(1))
    ordinary(weights, 0)
    optimizer.step()
    scheduler.step()
    assert seen == [1] and optimizer.param_groups[0]["lr"] == 0.025


def test_autograd_is_as_it_was():
    weights = parameters()
    optimizer = optimizer_of(weights)
    for enabled in (True, False):
        with torch.set_grad_enabled(enabled):
            ordinary(weights, 0)
            optimizer.step()
            optimizer.step(lambda: torch.ones(()))
            weights[0].grad = None
            optimizer.step()
            assert torch.is_grad_enabled() == enabled
