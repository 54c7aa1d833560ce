"""torch.ops.musec.clip: the clip as an operator that torch.compile traces.

It has a fake kernel, by which shapes and dtypes are known without computing, and no gradient.
"""

from __future__ import annotations

from typing import Any, Optional

import torch

from .._operators import _clip


@torch.library.custom_op("musec::clip", mutates_args=())
def clip_op(
    x: torch.Tensor,
    threshold: float,
    op: str,
    iters: Optional[int] = None,
    tol: Optional[float] = None,
    coeffs: Optional[str] = None,
    literal: bool = False,
    operands: Optional[str] = None,
    sharpness: Optional[float] = None,
) -> torch.Tensor:
    settings = (op, threshold, iters, tol, coeffs, literal, operands, sharpness)
    return _clip(x.detach(), settings, None)  # type: ignore[no-any-return]


@clip_op.register_fake
def _(
    x: torch.Tensor,
    threshold: float,
    op: str,
    iters: Optional[int] = None,
    tol: Optional[float] = None,
    coeffs: Optional[str] = None,
    literal: bool = False,
    operands: Optional[str] = None,
    sharpness: Optional[float] = None,
) -> torch.Tensor:
    torch._check(x.ndim >= 2, lambda: f"the input has shape {tuple(x.shape)}; a matrix is needed")
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def clip_traced(
    x: torch.Tensor,
    op: str,
    threshold: float,
    iters: Optional[int],
    tol: Optional[float],
    coeffs: Optional[str],
    literal: bool,
    operands: Optional[str],
    sharpness: Optional[float],
) -> Any:
    if x.requires_grad and torch.is_grad_enabled():
        raise ValueError(
            "the input requires a gradient, and clips have none here: pass x.detach(), or call this "
            "under torch.no_grad()"
        )
    return torch.ops.musec.clip(
        x.detach(), float(threshold), op, iters, tol, coeffs, literal, operands, sharpness
    )
