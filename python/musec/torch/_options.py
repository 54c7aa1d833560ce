"""Which options of param groups engines were made with, and whether a group has others now."""

from __future__ import annotations

import operator
from typing import Any

# Options of a group that an engine is told with each step; the others are its own.
LIVE = ("lr", "weight_decay", "momentum")


def _is_fixed(value: Any) -> bool:
    """Can it not be changed but by another object in its place?"""
    if isinstance(value, tuple):
        return all(_is_fixed(v) for v in value)
    return isinstance(value, (str, int, float, bool, type(None)))


def _frozen(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(v) for v in value)
    return value if _is_fixed(value) else repr(value)


def _values(groups: list[dict[str, Any]]) -> list[Any]:
    """What the engines depend on."""
    return [
        (
            group["role"],
            tuple(_frozen(v) for k, v in group.items() if k not in LIVE and k != "params"),
            len(group["params"]),
        )
        for group in groups
    ]


def _objects(groups: list[dict[str, Any]]) -> list[Any]:
    """The same as objects; one that can be changed in place is like no other."""
    return [
        (
            len(group),
            len(group["params"]),
            *_named(
                {
                    k: v if _is_fixed(v) else object()
                    for k, v in group.items()
                    if k not in LIVE and k not in ("params", "param_names")
                }
            ),
        )
        for group in groups
    ]


def _named(options: dict[str, Any]) -> tuple[list[str], list[Any]]:
    return list(options), list(options.values())


class SeenOptions:
    """Compared at each step: first by identity, which is quick, and by value where that differs."""

    def __init__(self, groups: list[dict[str, Any]]) -> None:
        self._was = _values(groups)
        self._seen = _objects(groups)

    def changed(self, groups: list[dict[str, Any]]) -> bool:
        if len(groups) == len(self._seen) and all(
            len(group) == n
            and len(group["params"]) == n_params
            and all(map(operator.is_, map(group.get, names), values))
            for group, (n, n_params, names, values) in zip(groups, self._seen)
        ):
            return False
        if self._was != _values(groups):
            return True
        self._seen = _objects(groups)
        return False
