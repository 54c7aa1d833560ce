"""Parameters of a group: what they are called, how their matrices lie, and which saved ones they are."""

from __future__ import annotations

import math
from typing import Any, Mapping

import torch

from .. import _library as L
from .. import _registry as R
from .blocks import Layout


def name_of(group: Mapping[str, Any], number: int, i: int) -> str:
    """What messages call parameter i of a group."""
    names = group.get("param_names")
    return str(names[i]) if names else f"param_groups[{number}]['params'][{i}]"


def layout_of(p: torch.Tensor, group: Mapping[str, Any], what: str) -> Layout:
    """How the matrices of a parameter lie in it."""
    if group["role"] not in R.MATRIX_ROLES:
        shape = tuple(p.shape)
        if len(shape) < 2:
            return Layout((1, math.prod(shape)), None, what)
        return Layout(shape, ("flatten",), what)
    return Layout(p.shape, tuple(group["blocks"]) if group["blocks"] else None, what)


def match_saved(
    groups: list[dict[str, Any]], saved: list[dict[str, Any]]
) -> list[tuple[Any, list[Any]]]:
    """For each group the saved one, and the saved index of each of its parameters."""
    if all("param_names" in g for g in [*groups, *saved]):
        home = {
            name: (source, index)
            for source in saved
            for name, index in zip(source["param_names"], source["params"])
        }
        pairs = []
        for group in groups:
            missing = [name for name in group["param_names"] if name not in home]
            if missing:
                raise L.InvalidArgument(f"the loaded state_dict has no parameter {missing[0]}")
            found = [home[name] for name in group["param_names"]]
            source = found[0][0] if found else {}
            pairs.append((source, [index for _, index in found]))
        return pairs
    sizes, saved_sizes = ([len(g["params"]) for g in side] for side in (groups, saved))
    if sizes != saved_sizes:
        raise L.InvalidArgument(
            f"the loaded state_dict has groups of {saved_sizes} parameters, this optimizer of {sizes}"
        )
    return [(source, source["params"]) for source in saved]
