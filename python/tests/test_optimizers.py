"""Fifty steps of every optimizer on a CPU, against the reference, and the golden trajectories."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import musec.torch as mt  # noqa: E402
from musec import optimizers  # noqa: E402
from musec import _registry as R  # noqa: E402

import mgv  # noqa: E402
from conftest import ROOT  # noqa: E402
from reference import Reference  # noqa: E402

SHAPES = [(8, 12), (12, 8), (10, 10), (1, 7), (7, 1)]
STEPS = 50

# Both sides are float64 and differ in the order of their operations.  An SVD or an iteration errs by
# some 1e-14 of its input, a step adds lr times that, and the polar factor divides it by the smallest
# singular value of the momentum, 1e-3 of the largest here: 50 steps stay below 1e-9.
F64 = 1e-9
# The same of float32, whose unit is 6e-8: times that 1e3, times 10 steps, times lr = 0.05.
F32, STEPS_F32 = 3e-5, 10

CASES: dict[str, list[dict]] = {
    "musec": [
        {},
        {"nesterov": True},
        {"momentum_form": "heavy-ball", "threshold": 8.0},
        {"threshold": "rms:0.7", "update_scale": "unit", "adjust_lr_fn": "original"},
    ],
    "soft-musec": [
        {},
        {"ns_mode": "exact", "nesterov": True},
        {"ns_mode": "exact", "threshold": "rms:1", "update_scale": "unit"},
        {"ns_steps": 3, "adjust_lr_fn": "match_rms_adamw"},
        {"momentum_init": "zero", "adjust_lr_fn": "rms"},
    ],
    "muon": [
        {"ns_mode": "exact"},
        {"nesterov": True, "momentum_init": "zero", "adjust_lr_fn": "original"},
        {"adjust_lr_fn": "spectral_unclamped", "ns_steps": 4},
    ],
    "muonclip": [{}, {"ns_mode": "exact", "adjust_lr_fn": "match_rms_adamw"}],
    "spectra": [
        {},
        {"clip": "hard", "nesterov": True},
        {"base": "adamw", "betas": (0.8, 0.95, 0.99)},
        {"base": "lion", "ns_mode": "exact", "threshold": "rms:0.5", "update_scale": "unit"},
    ],
    "sgdm": [{}, {"nesterov": True, "momentum_form": "heavy-ball"}],
    "adam": [{}],
    "adamw": [{}, {"betas": (0.8, 0.95)}],
    "signum": [{}, {"nesterov": True}],
    "ademamix": [{"betas": (0.9, 0.99, 0.995), "alpha": 3.0}],
    "lion": [{}],
    "soap": [
        {"max_precond_dim": 10, "precondition_every": 4},
        {"max_precond_dim": 10, "precondition_beta": 0.7, "betas": (0.8, 0.9)},
        {"max_precond_dim": 7},
    ],
    "kl-shampoo": [
        {"max_precond_dim": 10, "precondition_every": 4},
        {"max_precond_dim": 10, "precondition_beta": 0.7, "betas": (0.8, 0.9), "eps": 1e-3},
        {"max_precond_dim": 7},
    ],
    "dion2": [{}, {"fraction": 0.6, "adjust_lr_fn": "original"}, {"fraction": 1.0}],
    "shampoo": [
        {"precondition_every": 4},
        {"precondition_every": 3, "max_precond_dim": 10, "graft": "none", "betas": (0.8, 0.9)},
        {"precondition_beta": 1.0, "precondition_eps": 1e-4},
    ],
    "normuon": [
        {},
        {"second_moment": "longer", "second_beta": 0.9, "decay_form": "decoupled"},
        {"ns_coefficients": "keller", "adjust_lr_fn": "fixed-rms", "decay_form": "decoupled"},
    ],
    "adamuon": [{}, {"ns_mode": "exact", "second_beta": 0.9}],
    "muon2": [{}, {"betas": (0.8, 0.95)}],
    "scion": [{}, {"weight_decay": 0.5}],
    "muonh": [{}, {"second_moment": "rows"}],
    "mucon": [{}, {"threshold": 0.3, "nesterov": True}],
    "softmuon": [{}, {"ns_mode": "exact", "threshold": 0.3}],
}
EIGENBASES = {"soap", "shampoo", "kl-shampoo"}
# Compositions of parts.
for _kind in ("rows", "longer", "elements"):
    CASES["soft-musec"].append({"second_moment": _kind})
    CASES["musec"].append({"second_moment": _kind, "nesterov": True})
for _base in ("sgdm", "adamw", "ademamix"):
    CASES["spectra"].append({"base": _base, "function": "polar", "second_moment": "rows"})
    CASES["spectra"].append({"base": _base, "function": "hard", "decay_form": "hyperball"})
CASES["spectra"].append({"base": "soap", "max_precond_dim": 10, "clip": "hard"})
CASES["spectra"].append({"base": "shampoo", "precondition_every": 4})
CASES["spectra"].append({"base": "kl-shampoo", "max_precond_dim": 10})
CASES["spectra"].append({"base": "dion2", "function": "hard"})
CASES["muon"].append({"ns_eps": 0.5, "ns_eps_form": "floor"})
CASES["muon"].append({"ns_eps": 0.5, "ns_eps_form": "added"})

DECAYS = ["decoupled", "independent", "lr2", "cautious", "coupled", "after", "frank-wolfe"]
DECAYS += ["hyperball"]


def shapes_of(name, options):
    """Not a single row or column where eigenvectors are sought: the longer side would begin with a
    null space, whose basis is whatever an eigensolver makes of rounding errors."""
    bases = options.get("base", name) in EIGENBASES
    return [s for s in SHAPES if min(s) > 1 or not bases]


def gradients(shape, steps=STEPS):
    g = torch.Generator().manual_seed(shape[0] * 100 + shape[1])
    return [torch.randn(shape, generator=g, dtype=torch.float64) for _ in range(steps)]


def compare(name, options, dtype, tolerance, steps=STEPS):
    cls = getattr(mt, R.class_name(name))
    settings = {"lr": 0.05, "weight_decay": 0.1, **options}
    shapes = shapes_of(name, options)
    weights = [torch.nn.Parameter(gradients(shape, 1)[0].to(dtype)) for shape in shapes]
    if "ns_mode" not in settings and "ns_mode" in cls.library_defaults:
        settings["ns_mode"] = "paper"
    optimizer = cls(weights, **{**cls.library_defaults, **settings})
    group = dict(optimizer.param_groups[0])
    references = [Reference(name, w, group) for w in weights]
    given = {w: gradients(tuple(w.shape), steps) for w in weights}
    for t in range(steps):
        for w, r in zip(weights, references):
            g = given[w][t].to(dtype)
            w.grad = g
            r.step(g)
        optimizer.step()
    for w, r in zip(weights, references):
        error = float((w.detach().double() - r.w).norm() / r.w.norm())
        assert error <= tolerance, (name, tuple(w.shape), error)


@pytest.mark.parametrize(
    "name,options", [(n, o) for n, some in CASES.items() for o in some], ids=str
)
def test_reference(name, options):
    compare(name, options, torch.float64, F64)


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("signum", "lion")])
def test_reference_f32(name):
    """Signs of nearly zero entries may flip in float32: those two are left to float64."""
    options = {k: v for k, v in CASES[name][0].items()}
    compare(name, options, torch.float32, F32, STEPS_F32)


@pytest.mark.parametrize("form", DECAYS)
def test_decay_forms(form):
    compare("soft-musec", {"decay_form": form, "ns_mode": "exact"}, torch.float64, F64)


@pytest.mark.parametrize(
    "name,option",
    [
        ("Spectra", {"threshold_warmup": 5}),  # no schedule of PyTorch's tells its factor
        ("SGDM", {"second_beta": 0.9}),  # of the bases nothing is divided
        ("AdamW", {"second_eps": 0.1}),
        ("Lion", {"second_moment": "rows"}),
        ("SoftMusec", {"ns_eps": 0.1}),
        ("Muon", {"function": "soft"}),
        ("MuonH", {"base": "adamw"}),
    ],
    ids=str,
)
def test_options_that_would_mean_nothing_are_refused(name, option):
    with pytest.raises(ValueError, match=next(iter(option))):
        getattr(mt, name)([torch.nn.Parameter(torch.ones(3, 2))], **option)


@pytest.mark.parametrize("kind", ["rows", "longer", "elements"])
@pytest.mark.parametrize("cut", [None, mt.blocks.heads(2), mt.blocks.columns(2)], ids=str)
def test_second_moments_go_through_a_state_dict(kind, cut):
    """In the shape of the weight, also where the library has a number for each row or column of a
    block; and the steps after that have the same bits."""
    some = [torch.nn.Parameter(gradients(shape, 1)[0]) for shape in [(8, 12), (12, 8), (4, 4)]]
    given = [[gradients(tuple(w.shape), 6)[t] for w in some] for t in range(6)]
    ours = mt.NorMuon([{"params": some, "blocks": cut}], second_moment=kind)

    def steps(optimizer, weights, times):
        for t in times:
            for w, g in zip(weights, given[t]):
                w.grad = g
            optimizer.step()

    steps(ours, some, range(3))
    saved = ours.state_dict()
    others = [torch.nn.Parameter(w.detach().clone()) for w in some]
    loaded = mt.NorMuon([{"params": others, "blocks": cut}], second_moment=kind)
    loaded.load_state_dict(saved)
    for p in others:
        second = loaded.state[p]["second_momentum_buffer"]
        assert second.shape == p.shape and float(second.min()) > 0.0
    steps(ours, some, range(3, 6))
    steps(loaded, others, range(3, 6))
    assert all(torch.equal(w, v) for w, v in zip(some, others))


def test_every_optimizer_is_held_to_the_reference():
    assert set(optimizers()) == set(CASES)


@pytest.mark.parametrize("file", ["traj_8x12", "traj_10x6"])
@pytest.mark.parametrize("decay", ["nowd", "wd"])
def test_golden(file, decay):
    """tests/data/golden: float64 trajectories that were computed elsewhere."""
    gold = mgv.load(ROOT / "tests/data/golden" / f"{file}.mgv")
    kinds = {
        "musec": (mt.Musec, {}),
        "soft_musec": (mt.SoftMusec, {}),
        "soft_musec_exact": (mt.SoftMusec, {"ns_mode": "exact"}),
        "spectra_hard": (mt.Spectra, {"clip": "hard"}),
        "spectra_soft": (mt.Spectra, {}),
        "muon_ns5": (mt.Muon, {}),
        "muon_polar": (mt.Muon, {"ns_mode": "exact"}),
    }
    wd = gold["wd"].item() if decay == "wd" else 0.0
    for kind, (cls, options) in kinds.items():
        w = torch.nn.Parameter(torch.tensor(gold["W0"]))
        settings = {
            **cls.library_defaults,
            "lr": gold["lr"].item(),
            "momentum": 1.0 - gold["beta"].item(),
            "weight_decay": wd,
            **({"threshold": gold["D"].item()} if "threshold" in cls.library_defaults else {}),
            **options,
        }
        optimizer = cls([w], **settings)
        for t in range(10):
            w.grad = torch.tensor(gold[f"G{t}"])
            optimizer.step()
            want = torch.tensor(gold[f"{kind}.{decay}.W{t + 1}"])
            # shared/golden: 1e-10 for methods by eigenvalues; trajectories agree to 6e-15
            assert float((w.detach() - want).norm() / want.norm()) <= 1e-10, (kind, t)
            have = optimizer.state[w]["momentum_buffer"]
            want = torch.tensor(gold[f"{kind}.M{t}"])
            assert float((have - want).norm() / want.norm()) <= 1e-10, (kind, t)


def test_defaults_of_clipping_optimizers_do_not_see_the_scale():
    """threshold rms:1 with update_scale unit: gradients times 1000 give the same steps."""
    ends = []
    for scale in (1.0, 1000.0):
        w = torch.nn.Parameter(gradients((8, 12), 1)[0])
        optimizer = mt.SoftMusec([w], lr=0.05)
        for g in gradients((8, 12)):
            w.grad = g * scale
            optimizer.step()
        ends.append(w.detach())
    assert float((ends[0] - ends[1]).norm() / ends[0].norm()) <= 1e-12
