"""What users of torch.optim expect of every optimizer."""

from __future__ import annotations

import copy
import io
import warnings

import pytest

torch = pytest.importorskip("torch")

import musec.torch as mt  # noqa: E402
from musec import NonFinite, optimizers  # noqa: E402
from musec import _registry as R  # noqa: E402

CLASSES = [getattr(mt, R.class_name(name)) for name in optimizers()]
each = pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)


def model(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(12, 20), torch.nn.Tanh(), torch.nn.Linear(20, 8, bias=False)
    )


def two_groups(m):
    return [
        {"params": [m[0].weight, m[2].weight], "lr": 0.01},
        {"params": [m[0].bias], "role": "adamw", "lr": 0.002},
    ]


def train(m, optimizer, steps, first=0, scheduler=None):
    for t in range(first, first + steps):
        g = torch.Generator().manual_seed(t)
        x = torch.randn(16, 12, generator=g)
        optimizer.zero_grad()
        m(x).square().mean().backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters()))


# ---- state ----------------------------------------------------------------------------------------


@each
def test_state_dict_resumes_to_the_bit(cls):
    """Through torch.save, into a new optimizer: the same bits as without a stop."""
    whole, m = model(), model()
    a = cls(two_groups(whole))
    train(whole, a, 9)
    b = cls(two_groups(m))
    train(m, b, 4)
    file = io.BytesIO()
    torch.save({"model": m.state_dict(), "optim": b.state_dict()}, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    resumed = model(1)
    c = cls(two_groups(resumed), lr=0.5)
    resumed.load_state_dict(loaded["model"])
    c.load_state_dict(loaded["optim"])
    train(resumed, c, 5, 4)
    assert same(whole, resumed)
    for p, q in zip(whole.parameters(), resumed.parameters()):
        for name, value in a.state[p].items():
            if name != "step":
                assert torch.equal(value, c.state[q][name]), name
    assert c.state_dict()["state"][0]["step"] == 9


@each
def test_state_is_made_eagerly(cls):
    m = model()
    optimizer = cls(two_groups(m))
    for p in m.parameters():
        state = optimizer.state[p]
        assert state["step"] == 0
        assert len(state) >= 2
        for name, value in state.items():
            if name == "step":
                continue
            if name.startswith(("left", "right")):  # a factor of one side, or a row of its values
                assert value.shape[-1] == p.shape[name.startswith("right")], name
            else:
                assert value.shape == p.shape, name
            assert not value.any(), name


@each
def test_copies(cls):
    m = model()
    optimizer = cls(two_groups(m))
    train(m, optimizer, 3)
    both = copy.deepcopy((m, optimizer))
    train(m, optimizer, 3, 3)
    train(*both, 3, 3)
    assert same(m, both[0])


def named_groups(m, swapped=False):
    matrices = [(n, p) for n, p in m.named_parameters() if p.ndim == 2]
    others = [(n, p) for n, p in m.named_parameters() if p.ndim != 2]
    found = [{"params": matrices}, {"params": others, "role": "adamw"}]
    if swapped:
        found[0]["params"] = matrices[::-1]
        found = found[::-1]
    return found


def test_groups_in_another_order_are_matched_by_name():
    m = model()
    a = mt.SoftMusec(named_groups(m), lr=0.01)
    train(m, a, 4)
    saved, other = a.state_dict(), model()
    other.load_state_dict(m.state_dict())
    b = mt.SoftMusec(named_groups(other, swapped=True), lr=0.01)
    b.load_state_dict(saved)
    train(m, a, 4, 4)
    train(other, b, 4, 4)
    assert same(m, other)


def test_state_that_does_not_fit_is_refused_and_nothing_changes():
    m = model()
    a = mt.SoftMusec(two_groups(m))
    train(m, a, 2)
    saved = a.state_dict()
    small = [torch.nn.Parameter(torch.randn(4, 4)) for _ in range(2)]
    b = mt.SoftMusec(
        [{"params": small}, {"params": [torch.nn.Parameter(torch.ones(3))], "role": "adamw"}],
        lr=7.0,
    )
    with pytest.raises(ValueError, match="shape"):
        b.load_state_dict(saved)
    assert b.param_groups[0]["lr"] == 7.0
    with pytest.raises(ValueError, match="groups"):
        mt.SoftMusec(small).load_state_dict(saved)


def test_a_model_may_change_its_dtype():
    """State moves along; a state_dict of float32 goes into an optimizer of float64."""
    m = model()
    optimizer = mt.SoftMusec(two_groups(m))
    train(m, optimizer, 3)
    saved = copy.deepcopy(optimizer.state_dict())
    wide = model().double()
    wide.load_state_dict(m.state_dict())
    other = mt.SoftMusec(two_groups(wide))
    other.load_state_dict(saved)
    p, q = m[0].weight, wide[0].weight
    momentum = other.state[q]["momentum_buffer"]
    assert momentum.dtype == torch.float64
    assert torch.equal(momentum, optimizer.state[p]["momentum_buffer"].double())
    m.double()
    m(torch.randn(4, 12).double()).sum().backward()
    optimizer.step()
    assert optimizer.state[m[0].weight]["momentum_buffer"].dtype == torch.float64


def test_hooks_of_state_dicts_run():
    m = model()
    optimizer = mt.Muon([m[0].weight])
    seen = []
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("pre"))
    optimizer.register_state_dict_post_hook(lambda o, s: seen.append("post"))
    optimizer.register_load_state_dict_pre_hook(lambda o, s: seen.append("load pre"))
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append("load post"))
    optimizer.register_step_pre_hook(lambda o, a, k: seen.append("step pre"))
    optimizer.register_step_post_hook(lambda o, a, k: seen.append("step post"))
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.step()
    assert seen == ["pre", "post", "load pre", "load post", "step pre", "step post"]


def test_adamw_state_of_torch_is_taken():
    """torch.optim.AdamW's state_dict into ours: the same steps, but for rounding."""
    m, n = model(), model()
    a = torch.optim.AdamW(m.parameters(), lr=0.01, betas=(0.9, 0.95), weight_decay=0.1)
    b = torch.optim.AdamW(n.parameters(), lr=0.01, betas=(0.9, 0.95), weight_decay=0.1)
    train(m, a, 5)
    train(n, b, 5)
    ours = mt.SoftMusec([{"params": list(n.parameters()), "role": "adamw", "betas": (0.9, 0.95)}])
    ours.load_state_dict(b.state_dict())
    assert ours.param_groups[0]["lr"] == 0.01 and ours.param_groups[0]["weight_decay"] == 0.1
    train(m, a, 5, 5)
    train(n, ours, 5, 5)
    for p, q in zip(m.parameters(), n.parameters()):
        # float32's unit 6e-8, a handful of roundings for each of the 5 steps
        assert float((p - q).detach().abs().max()) <= 6e-8 * 5 * 10


# ---- groups and options ---------------------------------------------------------------------------


@each
def test_schedulers(cls):
    """A schedule, step by step, is the rate set by hand."""
    m, n = model(), model()
    a, b = cls(two_groups(m)), cls(two_groups(n))
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(a, T_max=6)
    rates = [g["lr"] for g in b.param_groups]
    train(m, a, 6, scheduler=scheduler)
    other = torch.optim.lr_scheduler.CosineAnnealingLR(
        torch.optim.SGD([{"params": [p], "lr": r} for p, r in zip(model().parameters(), rates)]), 6
    )
    for t in range(6):
        for g, r in zip(b.param_groups, other.get_last_lr()):
            g["lr"] = r
        train(n, b, 1, t)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            other.step()
    assert same(m, n)


def test_one_cycle_moves_the_momentum():
    m = model()
    optimizer = mt.SoftMusec([m[0].weight, m[2].weight], lr=0.01)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=8)
    seen = set()
    for t in range(8):
        train(m, optimizer, 1, t)
        seen.add(optimizer.param_groups[0]["momentum"])
        if t < 7:
            scheduler.step()
    assert len(seen) > 2 and 0.85 <= min(seen) and max(seen) == 0.95


def test_groups_have_options_of_their_own():
    """Two groups in one optimizer are two optimizers, to the bit."""
    options = [
        {"lr": 0.01, "weight_decay": 0.1, "momentum": 0.9},
        {"lr": 0.03, "threshold": 0.5, "ns_mode": "exact"},
    ]
    m, n = model(), model()
    one = mt.SoftMusec(
        [{"params": [m[0].weight], **options[0]}, {"params": [m[2].weight], **options[1]}]
    )
    two = [mt.SoftMusec([n[0].weight], **options[0]), mt.SoftMusec([n[2].weight], **options[1])]
    for t in range(5):
        train(m, one, 1, t)
        g = torch.Generator().manual_seed(t)
        n.zero_grad()
        n(torch.randn(16, 12, generator=g)).square().mean().backward()
        for optimizer in two:
            optimizer.step()
    assert same(m, n)


def test_an_option_may_change_between_steps():
    m, n = model(), model()
    a = mt.SoftMusec([m[0].weight], threshold=0.01)
    train(m, a, 3)
    b = mt.SoftMusec([n[0].weight], threshold=0.01)
    train(n, b, 3)
    assert same(m, n)
    a.param_groups[0]["threshold"] = 0.001
    kept = a.state[m[0].weight]["momentum_buffer"].clone()
    train(m, a, 1, 3)
    train(n, b, 1, 3)
    assert not same(m, n)
    assert kept.any() and a.state_dict()["state"][0]["step"] == 4


def test_groups_may_be_added():
    m, n = model(), model()
    a = mt.SoftMusec([m[0].weight], lr=0.01)
    b = mt.SoftMusec([n[0].weight], lr=0.01)
    train(m, a, 3)
    train(n, b, 3)
    a.add_param_group({"params": [m[2].weight], "lr": 0.0})
    train(m, a, 3, 3)
    train(n, b, 3, 3)
    assert same(m, n)


def test_params_without_gradient_frozen_and_empty():
    m = model()
    optimizer = mt.SoftMusec(
        [{"params": []}, {"params": [m[0].weight, m[2].weight]}], weight_decay=0.5
    )
    m[2].weight.requires_grad_(False)
    before = m[2].weight.detach().clone()
    train(m, optimizer, 2)
    assert torch.equal(m[2].weight, before)
    assert optimizer.state_dict()["state"][1]["step"] == 0
    optimizer.zero_grad()
    first = m[0].weight.detach().clone()
    optimizer.step()  # nobody has a gradient
    assert torch.equal(m[0].weight, first)
    nothing = torch.nn.Parameter(torch.zeros(0, 4))
    nothing.grad = torch.zeros(0, 4)
    mt.SoftMusec([nothing]).step()


@each
def test_wrong_options_are_named(cls):
    w = [torch.nn.Parameter(torch.randn(4, 4))]
    for options, word in [
        ({"lr": -1.0}, "lr"),
        ({"lr": float("nan")}, "lr"),
        ({"weight_decay": -0.1}, "weight_decay"),
        ({"decay_form": "no"}, "decay"),
        ({"adjust_lr_fn": "no"}, "adjust_lr_fn"),
        ({"treshold": 1.0}, "treshold"),
        ({"aux_beta1": 2.0}, "aux"),
    ]:
        with pytest.raises(ValueError, match=word):
            cls(w, **options)
    with pytest.raises(ValueError, match="lr"):
        cls([{"params": w, "lr": "fast"}])
    with pytest.raises(ValueError, match="rolle"):
        cls([{"params": w, "rolle": "adamw"}])
    with pytest.raises(ValueError, match="role"):
        cls([{"params": w, "role": "matrices"}])
    if "momentum" in cls.library_defaults:
        with pytest.raises(ValueError, match="momentum"):
            cls(w, momentum=1.5)
    if "threshold" in cls.library_defaults:
        with pytest.raises(ValueError, match="threshold"):
            cls(w, threshold="rms:-1")
    else:
        with pytest.raises(ValueError, match="threshold"):
            cls(w, threshold=1.0)


# ---- steps ----------------------------------------------------------------------------------------


@each
def test_closures(cls):
    m, n = model(), model()
    a, b = cls(two_groups(m)), cls(two_groups(n))
    x = torch.randn(16, 12, generator=torch.Generator().manual_seed(0))

    def closure():
        a.zero_grad()
        loss = m(x).square().mean()
        loss.backward()
        return loss

    loss = a.step(closure)
    train(n, b, 1)
    assert float(loss.detach()) > 0.0 and loss.requires_grad
    assert same(m, n)


@each
def test_maximize(cls):
    m, n = model(), model()
    a = cls(two_groups(m), maximize=True)
    b = cls(two_groups(n))
    for t in range(3):
        for p, q in zip(m.parameters(), n.parameters()):
            g = torch.randn(p.shape, generator=torch.Generator().manual_seed(t))
            p.grad, q.grad = -g, g
        a.step()
        b.step()
    assert same(m, n)


@each
def test_gradients_accumulate(cls):
    """Two halves of a batch, summed in .grad, are the batch."""
    m, n = model(), model()
    a, b = cls(two_groups(m)), cls(two_groups(n))
    for t in range(3):
        halves = [
            [
                torch.randn(p.shape, generator=torch.Generator().manual_seed(2 * t + h))
                for p in m.parameters()
            ]
            for h in (0, 1)
        ]
        for i, (p, q) in enumerate(zip(m.parameters(), n.parameters())):
            p.grad = halves[0][i].clone()
            p.grad += halves[1][i]
            q.grad = halves[0][i] + halves[1][i]
        a.step()
        b.step()
    assert same(m, n)


@each
def test_grad_scaler(cls):
    """With GradScaler: the steps of the unscaled gradient; none where it found an infinity."""
    m, n = model(), model()
    a, b = cls(two_groups(m)), cls(two_groups(n))
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for t in range(4):
        x = torch.randn(16, 12, generator=torch.Generator().manual_seed(t))
        for net, optimizer in ((m, a), (n, b)):
            optimizer.zero_grad()
            loss = net(x).square().mean()
            (scaler.scale(loss) if optimizer is a else loss).backward()
        if t == 2:
            m[0].weight.grad[0, 0] = float("inf")
            before = [p.detach().clone() for p in m.parameters()]
            scaler.step(a)
            assert all(torch.equal(p, q) for p, q in zip(m.parameters(), before))
        else:
            scaler.step(a)
            b.step()
        scaler.update()
    # the scale is a power of two, so nothing rounds
    assert same(m, n)


def test_not_finite():
    m = model()
    optimizer = mt.SoftMusec(two_groups(m))
    train(m, optimizer, 1)
    before = [p.detach().clone() for p in m.parameters()]
    for p in m.parameters():
        p.grad = torch.ones_like(p)
    m[0].bias.grad[1] = float("nan")
    with pytest.raises(NonFinite, match="param_groups\\[1\\]"):
        optimizer.step()
    assert all(torch.equal(p, q) for p, q in zip(m.parameters(), before))
    skip = mt.SoftMusec(two_groups(m), nonfinite="skip")
    skip.step()
    assert all(torch.equal(p, q) for p, q in zip(m.parameters(), before))
    with pytest.warns(UserWarning, match="1 steps were skipped"):
        assert skip.skipped == 1


def test_not_finite_and_the_device_decides():
    """nonfinite="defer", the default on a GPU: skipped, counted later, and said."""
    m = model()
    optimizer = mt.SoftMusec(two_groups(m), nonfinite="defer")
    train(m, optimizer, 2)
    before = [p.detach().clone() for p in m.parameters()]
    for p in m.parameters():
        p.grad = torch.ones_like(p)
    m[0].weight.grad[3, 3] = float("inf")
    optimizer.step()
    assert all(torch.equal(p, q) for p, q in zip(m.parameters(), before))
    with pytest.warns(UserWarning, match="1 steps were skipped"):
        assert optimizer.skipped == 1
    train(m, optimizer, 1)
    assert optimizer.skipped == 1 and optimizer.state_dict()["state"][0]["step"] == 3
    with pytest.raises(NotImplementedError, match="exact"):
        mt.SoftMusec([m[0].weight], ns_mode="exact", nonfinite="defer")


def test_not_finite_with_engines_of_their_own():
    """Groups with other options are computed apart, but a step is taken by all or by none."""
    m = model()
    optimizer = mt.SoftMusec(
        [{"params": [m[0].weight]}, {"params": [m[2].weight], "threshold": 0.1}]
    )
    before = [p.detach().clone() for p in m.parameters()]
    for p in m.parameters():
        p.grad = torch.ones_like(p)
    m[2].weight.grad[0, 0] = float("inf")
    with pytest.raises(NonFinite, match="param_groups\\[1\\]"):
        optimizer.step()
    for group in optimizer.param_groups:
        group["nonfinite"] = "skip"
    optimizer.step()
    assert all(torch.equal(p, q) for p, q in zip(m.parameters(), before))


def test_autograd_sees_that_weights_changed():
    m = model()
    optimizer = mt.SoftMusec([m[0].weight, m[2].weight])
    loss = m(torch.randn(4, 12)).square().mean()
    for p in m.parameters():
        p.grad = torch.ones_like(p)
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_learning_rate_may_be_a_tensor():
    m, n = model(), model()
    a = mt.SoftMusec([m[0].weight], lr=torch.tensor(0.03))
    b = mt.SoftMusec([n[0].weight], lr=float(torch.tensor(0.03)))
    train(m, a, 2)
    train(n, b, 2)
    assert same(m, n)


def test_weights_may_move():
    """p.data = ... between steps."""
    m, n = model(), model()
    a, b = mt.SoftMusec([m[0].weight]), mt.SoftMusec([n[0].weight])
    for t in range(3):
        train(m, a, 1, t)
        train(n, b, 1, t)
        m[0].weight.data = m[0].weight.data.clone()
    assert same(m, n)


# ---- what it says ---------------------------------------------------------------------------------


def test_report_and_loggers():
    m = model()
    optimizer = mt.SoftMusec(mt.groups(m, file=io.StringIO()), report_every=2)
    rows, scalars = [], []

    class Writer:
        def add_scalar(self, name, value, step):
            scalars.append((name, value, step))

    optimizer.log_to(lambda row, step: rows.append((step, row)))
    optimizer.log_to(Writer(), prefix="")
    train(m, optimizer, 5)
    report = optimizer.report()
    assert [(r["param"], r["rows"], r["cols"]) for r in report] == [
        ("0.weight", 20, 12),
        ("2.weight", 8, 20),
    ]
    for r in report:  # the clip is at most 1 in units of D, and the shape factor comes on top
        limit = max(1.0, r["rows"] / r["cols"]) ** 0.5
        assert 0.0 < r["update_norm2"] <= limit * (1.0 + 1e-5) and r["threshold"] > 0.0
    assert rows and {s for s, _ in rows} == {s for _, _, s in scalars}
    assert "musec/0.weight/0/share_above" in rows[0][1]
    assert "soft-musec" in optimizer.describe()
    with pytest.raises(ValueError, match="add_scalar"):
        optimizer.log_to(3)


def test_qk_clip():
    """The heads whose logits pass tau are shrunk by it after the step (docs/optimizers.md)."""
    q, k = (torch.nn.Parameter(torch.randn(8, 8)) for _ in range(2))
    a, b = (torch.nn.Parameter(x.detach().clone()) for x in (q, k))
    clip = mt.MuonClip([q, k], lr=0.01, qk_tau=10.0)
    plain = mt.Muon([a, b], lr=0.01)
    attention = clip.add_attention(q, k, heads=2)
    for p, r in ((q, a), (k, b)):
        p.grad = torch.randn(8, 8)
        r.grad = p.grad.clone()
    clip.set_logits(attention, torch.tensor([40.0, 5.0]))
    clip.step()
    plain.step()
    for p, r in ((q, a), (k, b)):
        assert torch.allclose(p[:4], r[:4] * 0.5, rtol=1e-6)
        assert torch.equal(p[4:], r[4:])
