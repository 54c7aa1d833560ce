"""make_class: a class of musec.torch for a row of the registry, with a signature of its own.

Defaults are the library's, but where PyTorch's users expect others (docs/pytorch.md).
"""

from __future__ import annotations

import inspect
from typing import Any

import torch

from .. import _library as L
from .. import _registry as R
from ._optimizer import MusecOptimizer


def _clips(optimizer: str) -> bool:
    return R.reads(R.new_config(optimizer), "threshold")


# Those that are torch.optim.Muon, with its names and defaults.
_TORCH_MUON = ("muon", "muonclip")
_TORCH_EPS = 1e-7


def _one_eps(eps: float, ns_eps: float) -> float:
    """torch.optim.Muon's name of ns_eps; there 0 stands for the library's own."""
    if eps == 0.0:
        raise L.InvalidArgument("eps is 0; it must be above 0")
    if ns_eps and eps != _TORCH_EPS:
        raise L.InvalidArgument(f"eps is {eps} and ns_eps is {ns_eps}: they are one, give one")
    return ns_eps or eps


def make_class(optimizer: str, summary: str) -> type[MusecOptimizer]:
    """The class of a row of the registry, with a signature and a docstring of its own."""
    library = R.defaults(optimizer)
    defaults = dict(library)
    defaults["nonfinite"] = None
    notes = []
    if _clips(optimizer):
        # A threshold that follows the momentum, steps of Muon's size, and a converged clip.
        ours = {
            "threshold": "rms:1",
            "update_scale": "unit",
            "ns_mode": "fast",
            "adjust_lr_fn": "original",
        }
        defaults.update(ours)
        was = ", ".join(f"{k}={library[k]!r}" for k in ours)
        notes.append(
            "Defaults are those for a learning rate of Muon's and gradients of any scale; the "
            f"paper's are {was}: pass **{R.class_name(optimizer)}.paper."
        )
    if optimizer in _TORCH_MUON:
        # torch.optim.Muon's own defaults
        defaults.update(
            lr=1e-3,
            weight_decay=0.1,
            momentum=0.95,
            nesterov=True,
            adjust_lr_fn=None,
            momentum_init="zero",
            ns_eps_form="floor",
        )
        notes.append("Names, defaults and learning rate are those of torch.optim.Muon.")
    first = (
        "lr",
        "weight_decay",
        "momentum",
        "nesterov",
        "ns_coefficients",
        "eps",
        "ns_steps",
        "adjust_lr_fn",
    )
    positional = [name for name in first if name in defaults or name == "eps"]
    if optimizer not in _TORCH_MUON:
        positional = ["lr"]
    else:
        defaults["eps"] = _TORCH_EPS
    own = {"maximize": False, "capturable": False}
    kinds = inspect.Parameter
    parameters = [
        kinds("self", kinds.POSITIONAL_OR_KEYWORD),
        kinds("params", kinds.POSITIONAL_OR_KEYWORD),
        *(kinds(name, kinds.POSITIONAL_OR_KEYWORD, default=defaults[name]) for name in positional),
        *(
            kinds(name, kinds.KEYWORD_ONLY, default=value)
            for name, value in {**defaults, **own}.items()
            if name not in positional
        ),
        kinds("process_group", kinds.KEYWORD_ONLY, default=None),
        kinds("share", kinds.KEYWORD_ONLY, default=False),
    ]
    signature = inspect.Signature(parameters)
    name = R.class_name(optimizer)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        for given in kwargs:
            if given not in signature.parameters:
                near = R.nearest(given, signature.parameters)
                raise L.InvalidArgument(
                    f'{name} has no option "{given}"'
                    + (f'; did you mean "{near}"?' if near else "")
                )
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        settings = dict(bound.arguments)
        params = settings.pop("params")
        settings.pop("self")
        group, share = settings.pop("process_group"), settings.pop("share")
        if optimizer in _TORCH_MUON:
            settings["ns_eps"] = _one_eps(settings.pop("eps"), settings["ns_eps"])
        if settings.get("adjust_lr_fn", "") is None:
            settings["adjust_lr_fn"] = "original"
        MusecOptimizer.__init__(self, params, settings, group, share)

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    words = R.keywords()
    lines = [f"    {k}: {words[k].help}" for k in defaults if k in words]
    doc = "\n".join(
        [
            f"{name}: {summary}.",
            "",
            *notes,
            "",
            "Options (docs/optimizers.md):",
            *lines,
            "    maximize: step up the gradient",
            "    capturable: steps may be captured in CUDA graphs; a step then waits for nothing",
            "    share: divide the matrices over the processes of `process_group` (DDP)",
            "",
            "Param groups have options of their own, also `role` and `blocks` (musec.torch.groups).",
        ]
    )
    paper = (
        {
            k: library[k]
            for k in ("threshold", "update_scale", "ns_mode", "adjust_lr_fn")
            if k in library
        }
        if _clips(optimizer)
        else {}
    )
    members = {
        "__init__": __init__,
        "__doc__": doc,
        "__module__": "musec.torch",
        "optimizer_name": optimizer,
        "library_defaults": library,
        "paper": paper,
    }
    if "momentum" in library:
        members["from_torch_muon"] = classmethod(_from_torch_muon)
    return type(name, (MusecOptimizer,), members)


def _from_torch_muon(cls: Any, /, optimizer: torch.optim.Optimizer, **settings: Any) -> Any:
    """Takes over a running torch.optim.Muon: its groups with their options, and its momentum.

    `settings` are options of this class that replace those of every group."""
    if type(optimizer).__name__ != "Muon":
        raise L.InvalidArgument(
            f"the optimizer is a {type(optimizer).__name__}; torch.optim.Muon is needed"
        )
    known = inspect.signature(cls.__init__).parameters
    groups = []
    for group in optimizer.param_groups:
        params = list(group["params"])
        if "param_names" in group:
            params = list(zip(group["param_names"], params))
        mine = {k: v for k, v in group.items() if k in known and k not in ("params", "eps")}
        if mine.get("adjust_lr_fn", "") is None:
            del mine["adjust_lr_fn"]  # nobody has chosen: each class has its own
        mine.update((k, v) for k, v in settings.items() if k in known and k != "eps")
        if "ns_eps" in known and group.get("eps") and "eps" not in settings:
            mine.setdefault("ns_eps", group["eps"])
        groups.append({**mine, "params": params})
    made = cls(groups, **settings)
    with torch.no_grad():
        for p, values in optimizer.state.items():
            if "momentum_buffer" in values:
                made._load(p, {k: v for k, v in values.items() if k == "momentum_buffer"})
        for engine in made._engines:
            engine.set_all_steps(1)
    made._show_state()
    return made
