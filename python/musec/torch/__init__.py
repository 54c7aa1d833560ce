"""Optimizers of the library for PyTorch.

    from musec.torch import SoftMusec, groups

    optimizer = SoftMusec(groups(model), lr=0.02)

One class for each optimizer of the library, as its registry has them: Musec, SoftMusec, Muon,
MuonClip, Spectra, and those that they are measured against.  They are torch.optim.Optimizer:
param groups, schedulers, closures, GradScaler and state_dict work as everywhere.
docs/pytorch.md says how to come from torch.optim.Muon and from AdamW.
"""

from __future__ import annotations

from .. import _library as _L
from .. import _registry as _R
from . import _ops, blocks  # noqa: F401  registers torch.ops.musec
from ._groups import groups
from ._classes import make_class
from ._optimizer import MusecOptimizer

__all__ = ["MusecOptimizer", "blocks", "groups"]

for _name, _summary in _L.names_of(_L.lib().musec_optim_name).items():
    _class = make_class(_name, _summary)
    globals()[_class.__name__] = _class
    __all__.append(_class.__name__)


def from_torch_muon(optimizer, **settings):  # type: ignore[no-untyped-def]
    """Muon.from_torch_muon: takes over a running torch.optim.Muon, with its momentum."""
    return globals()["Muon"].from_torch_muon(optimizer, **settings)


__all__.append("from_torch_muon")
