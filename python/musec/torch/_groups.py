"""groups(model): which tensors are matrices, and which go to AdamW.

A proposal that is printed, never silent.  Nothing in a shape says whether a matrix is a layer's
weight, an embedding or an output head, so the modules are asked:

    matrix   the weight of a Linear or a convolution, unless it is a head
    adamw    embeddings, heads, biases, gains of norms, and everything else

A head is a Linear whose weight is also an embedding's, whose outputs are as many as the entries of
an embedding, or whose name says so.
"""

from __future__ import annotations

import fnmatch
import sys
from typing import Any, Mapping, Optional, Sequence

import torch
from torch import nn

from .. import _library as L
from .blocks import Spec, flatten

_HEAD_NAMES = {"lm_head", "head", "output", "classifier", "score", "embed_out", "unembed"}
_EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    """A pattern is a glob for the whole name, or a part of it between dots."""
    parts = name.split(".")
    return any(fnmatch.fnmatchcase(name, one) or one in parts for one in patterns)


def _is_linear(module: nn.Module) -> bool:
    # transformers' Conv1D is a Linear whose weight is (in, out)
    return isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D"


def _kind(
    module: nn.Module, leaf: str, name: str, p: torch.Tensor, vocabularies: set[int]
) -> tuple[str, str]:
    """The role of a parameter, and why."""
    path = name.split(".")
    if isinstance(module, _EMBEDDINGS):
        return "adamw", "embedding"
    if leaf == "weight" and p.ndim == 2 and _is_linear(module):
        if len(path) > 1 and path[-2] in _HEAD_NAMES:
            return "adamw", "output head, by its name"
        if p.shape[0] in vocabularies and "." not in name[: -len(".weight")]:
            return "adamw", "output head, as wide as an embedding"
        return "matrix", type(module).__name__
    if leaf == "weight" and isinstance(module, _CONVOLUTIONS):
        return "matrix", f"{type(module).__name__}, one matrix by output channel"
    if leaf == "in_proj_weight" and isinstance(module, nn.MultiheadAttention):
        return "matrix", "Q, K and V of MultiheadAttention"
    if p.ndim < 2:
        return "adamw", "vector"
    return "adamw", f"{type(module).__name__}.{leaf}: not known as a matrix"


def groups(
    model: nn.Module,
    *,
    matrix: Sequence[str] = (),
    adamw: Sequence[str] = (),
    blocks: Optional[Mapping[str, Spec]] = None,
    no_decay: Sequence[str] = ("vector",),
    matrix_options: Optional[Mapping[str, Any]] = None,
    adamw_options: Optional[Mapping[str, Any]] = None,
    file: Any = None,
) -> list[dict[str, Any]]:
    """Param groups of a model, for any optimizer of musec.torch.

    The choice is printed (to stderr; `file` takes it elsewhere).  Names decide otherwise: `matrix`
    and `adamw` are lists of parameters, as "lm_head", "blocks.*.mix" or whole names.  `blocks` says
    by name which parameters hold several matrices:

        groups(model, blocks={"c_attn": blocks.split(3), "experts": blocks.stack()})

    AdamW gets no weight decay for vectors; `matrix_options` and `adamw_options` are options of the
    two, as {"lr": 3e-4, "weight_decay": 0.1}.
    """
    cut = dict(blocks or {})
    vocabularies = {m.num_embeddings for m in model.modules() if isinstance(m, _EMBEDDINGS)}
    seen: dict[torch.Tensor, str] = {}
    rows: list[tuple[str, torch.Tensor, str, str, Optional[Spec]]] = []
    used: set[str] = set()
    # embeddings first, so that a tied head is known as one
    modules = sorted(model.named_modules(), key=lambda m: not isinstance(m[1], _EMBEDDINGS))
    for prefix, module in modules:
        for leaf, p in module.named_parameters(recurse=False):
            name = f"{prefix}.{leaf}" if prefix else leaf
            if p in seen or not p.requires_grad:
                continue
            seen[p] = name
            role, why = _kind(module, leaf, name, p, vocabularies)
            spec: Optional[Spec] = None
            for pattern, value in cut.items():
                if _matches(name, [pattern]) and p.ndim >= 2:
                    role, why, spec = "matrix", f"blocks {value}", value
                    used.add(pattern)
            if _matches(name, matrix):
                role, why = "matrix", "as you say"
            if _matches(name, adamw):
                role, why, spec = "adamw", "as you say", None
            if role == "matrix" and spec is None:
                if leaf == "in_proj_weight":
                    spec = ("split", 3)
                elif p.ndim > 2 and isinstance(module, _CONVOLUTIONS):
                    spec = flatten()
            rows.append((name, p, role, why, spec))
    for pattern in cut:
        if pattern not in used:
            raise L.InvalidArgument(f'blocks: no matrix of the model is called "{pattern}"')
    order = {name: i for i, (name, _) in enumerate(model.named_parameters())}
    rows.sort(key=lambda row: order.get(row[0], 0))
    _print(rows, file if file is not None else sys.stderr)
    return _grouped(rows, no_decay, dict(matrix_options or {}), dict(adamw_options or {}))


def _grouped(
    rows: list[Any], no_decay: Sequence[str], matrix: dict[str, Any], adamw: dict[str, Any]
) -> list[dict[str, Any]]:
    found: dict[Any, dict[str, Any]] = {}
    for name, p, role, why, spec in rows:
        options = dict(matrix if role == "matrix" else adamw)
        if role == "adamw" and (why in no_decay or _matches(name, no_decay)):
            options["weight_decay"] = 0.0
        key = (role, spec, tuple(sorted((k, repr(v)) for k, v in options.items())))
        group = found.setdefault(key, {"params": [], "role": role, "blocks": spec, **options})
        group["params"].append((name, p))
    return list(found.values())


def _print(rows: list[Any], file: Any) -> None:
    if not rows:
        raise L.InvalidArgument("the model has no parameter that requires a gradient")
    width = max(len(row[0]) for row in rows)
    counts = {"matrix": 0, "adamw": 0}
    print("musec.torch.groups:", file=file)
    for name, p, role, why, _ in rows:
        counts[role] += p.numel()
        shape = " x ".join(str(n) for n in p.shape) or "1"
        print(f"  {role:6}  {name:{width}}  {shape:>14}  {why}", file=file)
    print(
        f"  {counts['matrix']:,} numbers in matrices, {counts['adamw']:,} by AdamW; "
        "matrix=[...] and adamw=[...] decide otherwise",
        file=file,
    )
