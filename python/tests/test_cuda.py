"""On a GPU: the optimizers beside their float64 reference on the CPU, streams, memory, graphs, bfloat16.

Where there is none, these are skipped.  python/tests/run_on_gpu runs them from a packed tree.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU here", allow_module_level=True)

import musec  # noqa: E402
import musec.torch as mt  # noqa: E402
from musec import _registry as R  # noqa: E402
from musec.torch import _exchange  # noqa: E402

try:
    musec.clip(torch.eye(2, device="cuda"), 1.0)
except musec.Error as e:
    pytest.skip(f"this library does not open the GPU: {e}", allow_module_level=True)

from reference import Reference  # noqa: E402

SHAPES = [(48, 96), (96, 48), (64, 64)]
STEPS = 10


def gradients(shape, steps=STEPS, dtype=torch.float32):
    g = torch.Generator().manual_seed(shape[0] * 1000 + shape[1])
    return [torch.randn(shape, generator=g).to("cuda", dtype) for _ in range(steps)]


def run(optimizer, weights, steps=STEPS, first=0):
    for t in range(first, first + steps):
        for w in weights:
            w.grad = gradients(tuple(w.shape))[t].to(w.dtype)
        optimizer.step()


def parameters(dtype=torch.float32):
    return [torch.nn.Parameter(gradients(shape, 1)[0].to(dtype)) for shape in SHAPES]


# float32: as on the CPU, 3e-5.  16-bit operands err by 2^-11 (f16) of an update, whose size is lr
# against weights of size 1: after 10 steps of lr = 0.02, and twice that for the feedback.
BOUNDS = {"f32": 3e-5, "f16": 2 * 10 * 0.02 * 2**-11 * 8}


@pytest.mark.parametrize("operands", ["f32", "f16"])
@pytest.mark.parametrize(
    "name,options",
    [
        ("soft-musec", {"ns_mode": "exact"}),
        ("soft-musec", {"threshold": 20.0}),
        ("musec", {"threshold": "rms:1", "update_scale": "unit"}),
        ("muon", {"nesterov": True}),
        ("spectra", {"base": "adamw", "threshold": 5.0}),
        ("adamw", {}),
        ("lion", {}),
    ],
    ids=str,
)
def test_reference(name, options, operands):
    cls = getattr(mt, R.class_name(name))
    settings = {**cls.library_defaults, "lr": 0.02, "weight_decay": 0.1, **options}
    if "operands" in settings:
        settings["operands"] = operands
    weights = parameters()
    optimizer = cls(weights, **settings)
    references = [
        Reference(name, w.detach().cpu(), dict(optimizer.param_groups[0])) for w in weights
    ]
    run(optimizer, weights)
    for w, r in zip(weights, references):
        for g in gradients(tuple(w.shape)):
            r.step(g.cpu())
        error = float((w.detach().cpu().double() - r.w).norm() / r.w.norm())
        limit = BOUNDS[operands]
        assert error <= limit, (tuple(w.shape), error)


def test_clip_and_spectrum():
    x = torch.randn(3, 40, 24, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(10_000_000)
        y = x * 2.0  # still on its way when the clip is asked for
        out = musec.clip(y, 0.5, "hard")
    want = musec.clip((x * 2.0).cpu(), 0.5, "hard")
    assert float((out.cpu() - want).norm() / want.norm()) <= 1e-5
    values = musec.spectrum(x).values
    assert float((values - musec.spectrum(x.cpu()).values).abs().max()) <= 1e-4
    compiled = torch.compile(lambda z: musec.clip(z + z, 0.5) * 1.0, backend="aot_eager")
    assert torch.equal(compiled(x), musec.clip(x + x, 0.5))


def test_it_works_in_the_current_stream():
    """Gradients that are still being computed, and weights that are read at once."""
    a, b = parameters(), parameters()
    one, two = mt.SoftMusec(a), mt.SoftMusec(b)
    run(one, a)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for t in range(STEPS):
            for w in b:
                torch.cuda._sleep(2_000_000)
                w.grad = gradients(tuple(w.shape))[t] * 1.0
            two.step()
            reads = [w.detach() * 1.0 for w in b]
    stream.synchronize()
    assert all(torch.equal(w, r) for w, r in zip(a, reads))


def test_memory_is_pytorchs():
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    w = [torch.nn.Parameter(torch.randn(1024, 1024, device="cuda"))]
    optimizer = mt.SoftMusec(w)
    w[0].grad = torch.randn_like(w[0])
    optimizer.step()
    torch.cuda.synchronize()
    used = torch.cuda.memory_allocated() - before
    three = 3 * 4 * 1024**2  # weight, gradient and momentum: the workspace was given back
    assert three <= used <= three + (1 << 20)
    momentum = optimizer.state[w[0]]["momentum_buffer"]
    assert momentum.is_cuda and bool(momentum.any())
    del optimizer, momentum, w
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() <= before + (1 << 20)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_16_bit_weights(dtype):
    """As float32 weights that are rounded for the model: small steps are not lost."""
    wide, narrow = parameters(), parameters(dtype)
    for w, n in zip(wide, narrow):
        w.data.copy_(n.data)
    a, b = mt.SoftMusec(wide, lr=1e-4), mt.SoftMusec(narrow, lr=1e-4)
    for t in range(50):
        for w, n in zip(wide, narrow):
            n.grad = gradients(tuple(w.shape), 50)[t].to(dtype)
            w.grad = n.grad.float()
        a.step()
        b.step()
    unit = torch.finfo(dtype).eps
    for w, n in zip(wide, narrow):
        assert float((w - n.float()).norm() / w.norm()) <= unit
    saved = b.state_dict()
    name = "low" if dtype == torch.bfloat16 else "master"
    assert name in saved["state"][0]
    other = [torch.nn.Parameter(n.detach().clone()) for n in narrow]
    c = mt.SoftMusec(other, lr=1e-4)
    c.load_state_dict(saved)
    for optimizer, some in ((b, narrow), (c, other)):
        run(optimizer, some)
    assert all(torch.equal(n, o) for n, o in zip(narrow, other))


def test_state_resumes():
    a, b = parameters(), parameters()
    one = mt.Muon(a, lr=0.02)
    run(one, a)
    two = mt.Muon(b, lr=0.02)
    run(two, b, 6)
    again = mt.Muon(b, lr=0.5)
    again.load_state_dict(two.state_dict())
    run(again, b, 4, 6)
    for w, v in zip(a, b):
        # bounds that scales follow from are made anew: f16 rounds otherwise than in one run, once
        assert float((w - v).norm() / w.norm()) <= 4 * 0.02 * 2**-11 * 8


@pytest.mark.parametrize("name", ["SoftMusec", "Musec", "Muon"])
def test_saved_and_loaded_go_on_alike(name):
    """To the bit, though scales of 16 bits are predicted from the steps before."""
    a = parameters()
    one = getattr(mt, name)(a, lr=0.02)
    run(one, a, 6)
    b = [torch.nn.Parameter(w.detach().clone()) for w in a]
    two = getattr(mt, name)(b, lr=0.5)
    two.load_state_dict(one.state_dict())
    run(one, a, 4, 6)
    run(two, b, 4, 6)
    assert all(torch.equal(w, v) for w, v in zip(a, b))


def test_cuda_graph():
    """A captured step replays with the learning rate and the gradients of the moment."""
    a, b = parameters(), parameters()
    lr = torch.tensor(0.02, device="cuda")
    eager = mt.SoftMusec(a, lr=0.02)
    graphed = mt.SoftMusec(b, lr=lr, capturable=True, report_every=0)
    for w in b:
        w.grad = torch.zeros_like(w)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for t in range(3):
            for w in b:
                w.grad.copy_(gradients(tuple(w.shape))[t])
            graphed.step()
    torch.cuda.current_stream().wait_stream(stream)
    why = graphed.can_capture()
    if why:
        pytest.skip(f"this step cannot be captured: {why}")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        graphed.step()
    for t in range(3, STEPS):
        lr.fill_(0.02 / (t - 1))
        for w in b:
            w.grad.copy_(gradients(tuple(w.shape))[t])
        graph.replay()
    for t in range(STEPS):
        eager.param_groups[0]["lr"] = 0.02 if t < 3 else float(torch.tensor(0.02 / (t - 1)))
        run(eager, a, 1, t)
    for w, v in zip(a, b):
        assert float((w - v).norm() / w.norm()) <= 2e-4


def test_steps_that_repeat():
    """Steps whose gradients lie where they lay are launched as a graph of the library's own, whose
    bits are those of steps that are queued: here because each gradient lies somewhere else."""
    repeated, queued = parameters(), parameters()
    pairs = [(mt.SoftMusec(w, lr=0.02, weight_decay=0.1), w) for w in (repeated, queued)]
    schedules = [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9) for optimizer, _ in pairs]
    for w in repeated:
        w.grad = torch.zeros_like(w)
    kept = []
    for t in range(12):
        for w, v in zip(repeated, queued):
            g = torch.randn(w.shape, generator=torch.Generator().manual_seed(t)).to("cuda")
            g = float("nan") * g if t == 7 else g
            w.grad.copy_(g)
            v.grad = g
            kept.append(g)
        for (optimizer, _), schedule in zip(pairs, schedules):
            optimizer.step()
            schedule.step()
    with pytest.warns(UserWarning, match="1 step"):
        assert [optimizer.skipped for optimizer, _ in pairs] == [1, 1]
    for w, v in zip(repeated, queued):
        assert torch.equal(w, v)


def test_steps_at_once_and_tensor_by_tensor(monkeypatch):
    """All weights and gradients looked at by one call, or one by one; a report in between, whose
    workspace is another than that of other steps; and a change of streams."""
    done = []
    for at_once in (True, False):
        monkeypatch.setattr(_exchange, "enabled", at_once)
        weights = parameters()
        optimizer = mt.SoftMusec(weights, report_every=4)
        (engine,) = optimizer._engines
        assert (engine._inspection is not None) == (at_once and _exchange._describer() != 0)
        stream = torch.cuda.Stream()
        for t in range(STEPS):
            for i, w in enumerate(weights):
                w.grad = None if i == t % 3 else gradients(tuple(w.shape))[t]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream if t in (5, 6) else torch.cuda.current_stream()):
                optimizer.step()
            torch.cuda.current_stream().wait_stream(stream)
        assert engine.memory._loan.was_out == 1 and engine.memory._loan.is_out == 0
        done.append(weights)
    assert all(torch.equal(w, v) for w, v in zip(*done))


def test_a_report_takes_memory_when_it_is_made():
    weights = [torch.nn.Parameter(torch.randn(512, 512, device="cuda")) for _ in range(8)]
    for w in weights:
        w.grad = torch.randn_like(w)
    optimizer = mt.SoftMusec(weights, report_every=4)
    peaks = []
    for _ in range(8):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        optimizer.step()
        torch.cuda.synchronize()
        peaks.append(torch.cuda.max_memory_allocated() - before)
    assert peaks[4] == peaks[5] == peaks[6] < peaks[7]
    assert all(row["step"] == 8 for row in optimizer.report())


def test_grad_scaler_and_nonfinite():
    for options in ({}, {"capturable": True}):
        weights = parameters()
        optimizer = mt.SoftMusec(weights, **options)
        scaler = torch.amp.GradScaler("cuda", init_scale=256.0)
        run(optimizer, weights, 2)
        for bad in (False, True):
            for w in weights:
                w.grad = torch.ones_like(w) * 256.0
            if bad:
                weights[1].grad[0, 0] = float("inf")
            before = [w.detach().clone() for w in weights]
            scaler.scale(torch.ones((), device="cuda"))
            scaler.step(optimizer)
            scaler.update()
            assert all(torch.equal(w, v) for w, v in zip(weights, before)) == bad
    weights = parameters()
    optimizer = mt.SoftMusec(weights)
    run(optimizer, weights, 1)
    before = [w.detach().clone() for w in weights]
    weights[0].grad[0, 0] = float("nan")
    try:
        optimizer.step()
    except musec.NonFinite:
        pass
    else:
        with pytest.warns(UserWarning, match="1 steps were skipped"):
            assert optimizer.skipped == 1
    assert all(torch.equal(w, v) for w, v in zip(weights, before))


def test_a_model_may_move_to_the_gpu():
    model = torch.nn.Linear(32, 16)
    optimizer = mt.SoftMusec(mt.groups(model))
    for device in ("cpu", "cuda", "cpu"):
        model.to(device)
        optimizer.zero_grad()
        model(torch.randn(8, 32, device=device)).square().mean().backward()
        optimizer.step()
    assert optimizer.state_dict()["state"][0]["step"] == 3
