"""Where parameters are stepped: here, or divided over the processes of a group.

    Placement    every process steps everything: one process, or DDP as with any optimizer
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping

import torch

from .blocks import Layout


class Placement:
    """Every parameter is stepped where it is."""

    distributed = False

    def pieces(
        self, p: torch.Tensor, group: Mapping[str, Any], name: str
    ) -> Iterable[tuple[torch.Tensor, Layout]]:
        """What this process steps of a parameter."""
        from ._optimizer import _layout

        yield p.detach() if False else p, _layout(p, dict(group), name)

    def is_plain(self, p: torch.Tensor) -> bool:
        """Is the state that is here the whole state of the parameter?"""
        return True

    def gather(self, grads: dict[Any, torch.Tensor]) -> dict[Any, torch.Tensor]:
        return grads

    def scatter(self, grads: dict[Any, torch.Tensor]) -> None:
        pass

    def any_nonfinite(self, grads: list[torch.Tensor]) -> torch.Tensor:
        """float32: 1 if some gradient holds a NaN or an infinity, else 0; on their device."""
        device = grads[0].device if grads else torch.device("cpu")
        bad = torch.zeros((), device=device)
        for g in grads:
            bad = torch.maximum(bad, (~torch.isfinite(g).all()).float().to(device))
        return bad

    def collect(self, optimizer: Any) -> None:
        optimizer._show_state()

    def localize(self, p: torch.Tensor, values: dict[str, Any]) -> dict[str, Any]:
        return values


def make_placement(optimizer: Any) -> Placement:
    return Placement()
