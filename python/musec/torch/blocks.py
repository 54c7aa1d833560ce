"""Which parts of a parameter are one matrix to the optimizer.

    {"params": [qkv.weight], "blocks": blocks.split(3)}         # Q, K and V, stacked by rows
    {"params": [q.weight], "blocks": blocks.heads(12)}          # a matrix for each head
    {"params": [experts], "blocks": blocks.stack()}             # (experts, m, n)

A value of these functions is a plain tuple, so that it goes through a state_dict.  A parameter of
two dimensions without `blocks` is one matrix.  One of three or more must say what it is: nothing is
guessed from a shape.
"""

from __future__ import annotations

import ctypes as c
import math
from typing import Any, Optional, Sequence

from .. import _library as L

Spec = tuple[Any, ...]


def rows(*sizes: int) -> Spec:
    """Matrices of these numbers of rows, one below the other: Q, K and V with fewer key heads."""
    return ("rows", *(int(n) for n in sizes))


def split(parts: int) -> Spec:
    """So many matrices of equal numbers of rows: a fused Q, K, V, or gate and up of an MLP."""
    return ("split", int(parts))


def heads(count: int) -> Spec:
    """A matrix for each head, whose rows follow each other: the same as split(count)."""
    return ("split", int(count))


def columns(count: int) -> Spec:
    """A matrix for each head of an output projection: equal numbers of columns."""
    return ("columns", int(count))


def interleaved(parts: int, heads: int) -> Spec:
    """Rows q, k, v of head 0, then those of head 1, ...: `parts` matrices that take turns."""
    return ("interleaved", int(parts), int(heads))


def stack() -> Spec:
    """A parameter (..., m, n) is a stack of m x n matrices: experts."""
    return ("stack",)


def flatten() -> Spec:
    """A parameter (m, ...) is one matrix of m rows: a convolution's (out, in, k, k)."""
    return ("flatten",)


class Block(c.Structure):
    _fields_ = [
        (name, c.c_int64)
        for name in (
            "offset",
            "rows",
            "cols",
            "row_step",
            "group_rows",
            "group_step",
            "count",
            "stride",
        )
    ]


class Layout:
    """How a parameter of some shape lies before the library: a stack of `count` matrices m x n, and
    the blocks of it, None where every matrix of the stack is one."""

    def __init__(self, shape: Sequence[int], spec: Optional[Spec], what: str) -> None:
        shape = tuple(int(n) for n in shape)
        kind = spec[0] if spec else None
        self.blocks: Optional[list[Block]] = None
        if kind == "stack":
            if len(shape) < 3:
                raise L.InvalidArgument(
                    f"{what}: blocks.stack() needs a shape (..., m, n), not {shape}"
                )
            self.count, (self.rows, self.cols) = math.prod(shape[:-2]), shape[-2:]
            return
        if kind == "flatten" and len(shape) >= 2:
            self.count, self.rows, self.cols = 1, shape[0], math.prod(shape[1:])
            return
        if len(shape) != 2:
            raise L.InvalidArgument(
                f"{what} has shape {shape}, which is not a matrix: give its group "
                '"blocks": musec.torch.blocks.stack() if it holds a matrix for each leading index, '
                'blocks.flatten() if it is one matrix by its first dimension, or "role": "adamw"'
            )
        self.count, self.rows, self.cols = 1, shape[0], shape[1]
        if spec is not None:
            self.blocks = _blocks(self.rows, self.cols, spec, what)

    def matrices(self) -> list[tuple[int, int]]:
        """The shape of every matrix."""
        if self.blocks is None:
            return [(self.rows, self.cols)] * self.count
        return [(b.rows, b.cols) for b in self.blocks for _ in range(max(b.count, 1))]

    def in_order(self) -> bool:
        """Do the matrices, one behind the other, have the order of the parameter's elements?"""
        at = 0
        for b in self.blocks or []:
            if b.offset != at or b.cols != b.row_step or b.group_rows or b.cols != self.cols:
                return False
            if b.count > 1 and b.stride != b.rows * b.cols:
                return False
            at += max(b.count, 1) * b.rows * b.cols
        return self.blocks is None or at == self.rows * self.cols

    def parts(self, x: Any) -> list[Any]:
        """The matrices of a contiguous tensor of the parameter's shape, as views (groups, rows of a
        group, cols)."""
        flat = x.reshape(-1)
        if self.blocks is None:
            return list(flat.view(self.count, 1, self.rows, self.cols))
        found = []
        for b in self.blocks:
            group_rows = b.group_rows or b.rows
            for i in range(max(b.count, 1)):
                found.append(
                    flat.as_strided(
                        (b.rows // group_rows, group_rows, b.cols),
                        (b.group_step, b.row_step, 1),
                        flat.storage_offset() + b.offset + i * b.stride,
                    )
                )
        return found


def _cut(total: int, parts: int, what: str, of: str) -> int:
    if parts < 1 or total % parts != 0:
        raise L.InvalidArgument(f"{what}: {total} {of} cannot be cut into {parts} equal parts")
    return total // parts


def _blocks(m: int, n: int, spec: Spec, what: str) -> list[Block]:
    kind, numbers = spec[0], [int(x) for x in spec[1:]]
    if kind == "rows":
        if sum(numbers) != m or min(numbers, default=0) < 1:
            raise L.InvalidArgument(
                f"{what}: blocks.rows{tuple(numbers)} of {m} rows: the sum must be {m}"
            )
        starts = [sum(numbers[:i]) for i in range(len(numbers))]
        return [
            Block(offset=at * n, rows=size, cols=n, row_step=n) for at, size in zip(starts, numbers)
        ]
    if kind == "split":
        size = _cut(m, numbers[0], what, "rows")
        return [Block(rows=size, cols=n, row_step=n, count=numbers[0], stride=size * n)]
    if kind == "columns":
        size = _cut(n, numbers[0], what, "columns")
        return [Block(rows=m, cols=size, row_step=n, count=numbers[0], stride=size)]
    if kind == "interleaved":
        parts, heads = numbers
        size = _cut(m, parts * heads, what, "rows")
        return [
            Block(
                offset=i * size * n,
                rows=size * heads,
                cols=n,
                row_step=n,
                group_rows=size,
                group_step=parts * size * n,
            )
            for i in range(parts)
        ]
    raise L.InvalidArgument(
        f"{what}: blocks is {spec!r}; it must come from a function of musec.torch.blocks"
    )
