"""Where parameters are stepped: here, or divided over the processes of a group.

    plain tensors      by every process, as with any optimizer: one process, or DDP
    share=True         (DDP) each matrix by one process, which sends the new weight to the others;
                       AdamW's parameters by every process
    DTensor, by rows   (FSDP2) a matrix is gathered by its owner, stepped there and scattered back;
                       AdamW's parameters as they are, for AdamW goes element by element

The owner of a matrix keeps its state.  Owners are chosen so that the time of a step, as measured here
for each shape, is about equal.  Rows travel by all-to-all in buckets: for each bucket every process
sends its rows of a matrix to the owner, and gets them back.

In a state_dict the state has the sharding of the parameter, whoever the owner is, so that it can be
resharded, saved by torch.distributed.checkpoint, and loaded by any number of processes.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any, Iterable, Iterator, Mapping, Optional

import torch
import torch.distributed as dist

from .. import _library as L
from .. import _registry as R
from ._params import layout_of, name_of
from .blocks import Layout

BUCKET_BYTES = 64 << 20


def is_dtensor(p: Any) -> bool:
    return hasattr(p, "device_mesh") and hasattr(p, "placements")


def local_of(p: torch.Tensor) -> torch.Tensor:
    return p.detach().to_local() if is_dtensor(p) else p  # type: ignore[attr-defined, no-any-return]


def whole_of(x: Any) -> Any:
    return x.full_tensor() if is_dtensor(x) else x


def _shard_dim(p: Any, what: str) -> Optional[int]:
    """The mesh dimension over which a DTensor is cut by rows; None: each process has all of it."""
    from torch.distributed.tensor import Replicate, Shard

    found = None
    for dim, placement in enumerate(p.placements):
        if type(placement) is Replicate:
            continue
        if type(placement) is not Shard or placement.dim != 0 or found is not None:
            raise L.InvalidArgument(
                f"{what} has the placements {tuple(p.placements)}: matrices that are cut by rows, "
                "once, as fully_shard does it (Shard(0)), are supported; shard this one so, or give "
                'its group "role": "adamw"'
            )
        found = dim
    return found


@dataclass
class Sharded:
    """A matrix that is cut by rows over a group, and the process that steps it."""

    p: Any
    name: str
    group: Any
    sizes: list[int]  # rows of each process
    owner: int = 0  # a rank of the group
    full: Optional[torch.Tensor] = None  # the whole weight, at the owner
    grad: Optional[torch.Tensor] = None

    @property
    def mine(self) -> bool:
        return self.owner == dist.get_rank(self.group)

    def elements(self, rank: int) -> int:
        return self.sizes[rank] * int(self.p.numel() // max(self.p.shape[0], 1))


def _rows(rows: int, parts: int) -> list[int]:
    """How Shard(0) cuts: as torch.chunk, all parts of the same size but for the last."""
    size = -(-rows // parts)
    return [max(0, min(size, rows - i * size)) for i in range(parts)]


def _buckets(some: list[Sharded], size: int) -> Iterator[list[Sharded]]:
    bucket: list[Sharded] = []
    total = 0
    for one in some:
        total += one.p.numel() * size
        bucket.append(one)
        if total >= BUCKET_BYTES:
            yield bucket
            bucket, total = [], 0
    if bucket:
        yield bucket


def gather_rows(some: list[Sharded], local: list[torch.Tensor]) -> list[Optional[torch.Tensor]]:
    """Whole matrices at their owners (None elsewhere) out of the rows of every process."""
    found: list[Optional[torch.Tensor]] = []
    at = 0
    for bucket in _buckets(some, local[0].element_size() if local else 1):
        part = local[at : at + len(bucket)]
        at += len(bucket)
        group, n = bucket[0].group, dist.get_world_size(bucket[0].group)
        me = dist.get_rank(group)
        send = [[x.reshape(-1) for one, x in zip(bucket, part) if one.owner == r] for r in range(n)]
        owned = [one for one in bucket if one.mine]
        out = [sum(one.elements(r) for one in owned) for r in range(n)]
        received = part[0].new_empty(sum(out))
        flat = torch.cat([x for xs in send for x in xs]) if any(send) else part[0].new_empty(0)
        dist.all_to_all_single(
            received, flat, out, [sum(x.numel() for x in xs) for xs in send], group=group
        )
        starts = [sum(out[:r]) for r in range(n)]
        for one in bucket:
            if one.owner != me:
                found.append(None)
                continue
            pieces = []
            for r in range(n):
                pieces.append(received[starts[r] : starts[r] + one.elements(r)])
                starts[r] += one.elements(r)
            found.append(torch.cat(pieces).view(one.p.shape))
    return found


def scatter_rows(
    some: list[Sharded], full: list[Optional[torch.Tensor]], like: list[torch.Tensor]
) -> None:
    """The reverse: the owners' matrices into the tensors `like` of every process."""
    at = 0
    for bucket in _buckets(some, like[0].element_size() if like else 1):
        part, to = full[at : at + len(bucket)], like[at : at + len(bucket)]
        at += len(bucket)
        group, n = bucket[0].group, dist.get_world_size(bucket[0].group)
        me = dist.get_rank(group)
        send: list[list[torch.Tensor]] = [[] for _ in range(n)]
        for one, x in zip(bucket, part):
            if one.owner == me:
                assert x is not None
                for r, rows in enumerate(x.reshape(one.p.shape).split(one.sizes)):
                    send[r].append(rows.reshape(-1))
        back = [sum(one.elements(me) for one in bucket if one.owner == r) for r in range(n)]
        received = to[0].new_empty(sum(back))
        flat = torch.cat([x for xs in send for x in xs]) if any(send) else to[0].new_empty(0)
        dist.all_to_all_single(
            received, flat, back, [sum(x.numel() for x in xs) for xs in send], group=group
        )
        starts = [sum(back[:r]) for r in range(n)]
        for one, x in zip(bucket, to):
            n_mine = one.elements(me)
            first = starts[one.owner]
            x.copy_(received[first : first + n_mine].view(x.shape))
            starts[one.owner] += n_mine


def measure(optimizer: str, settings: Mapping[str, Any], p: torch.Tensor, layout: Layout) -> float:
    """Seconds of a step of one such parameter, alone."""
    from ._engine import Engine, Entry

    local = local_of(p)
    shape = (layout.count * layout.rows, layout.cols)
    weight = torch.zeros(shape, dtype=local.dtype, device=local.device)
    group = {"role": "matrix", "lr": 0.0, "weight_decay": 0.0}
    entry = Entry(weight, "weight", group, layout, None)
    engine = Engine(optimizer, settings, local.device, [entry])
    grad = torch.randn(shape, dtype=torch.float32, device=local.device).to(local.dtype)
    times = []
    for _ in range(4):
        _wait(local.device)
        start = time.perf_counter()
        engine.step([grad], None, None)
        _wait(local.device)
        times.append(time.perf_counter() - start)
    return min(times[1:])


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def assign(costs: list[float], parts: int) -> list[int]:
    """Who takes which: the most expensive first, each to whoever has the least so far."""
    load, owner = [0.0] * parts, [0] * len(costs)
    for i in sorted(range(len(costs)), key=lambda i: (-costs[i], i)):
        owner[i] = min(range(parts), key=lambda r: (load[r], r))
        load[owner[i]] += costs[i]
    return owner


@dataclass
class Placement:
    """How the parameters of an optimizer are divided."""

    sharded: dict[Any, Sharded] = field(default_factory=dict)
    shared: dict[Any, int] = field(default_factory=dict)  # owners of whole matrices: share=True
    group: Any = None  # of share
    groups: list[Any] = field(default_factory=list)  # all over which something is cut

    @property
    def distributed(self) -> bool:
        return bool(self.groups or self.shared)

    def pieces(
        self, p: torch.Tensor, group: Mapping[str, Any], name: str
    ) -> Iterable[tuple[torch.Tensor, Layout, Any]]:
        """What this process steps of a parameter, and how it is found again."""
        if p in self.sharded:
            one = self.sharded[p]
            if one.mine:
                local = local_of(p)
                one.full = torch.empty(p.shape, dtype=local.dtype, device=local.device)
                yield one.full, layout_of(p, group, name), None
        elif is_dtensor(p):
            local = local_of(p)
            yield local, layout_of(local, group, name), lambda: local_of(p)
        elif self.shared.get(p, -1) in (-1, dist.get_rank(self.group) if self.shared else -1):
            yield p, layout_of(p, group, name), None

    def is_whole(self, p: torch.Tensor) -> bool:
        """Is the state that is here the whole state of the parameter?"""
        return not is_dtensor(p) and p not in self.shared

    def any_nonfinite(self, grads: list[torch.Tensor]) -> torch.Tensor:
        """float32: 1 if some gradient, here or elsewhere, holds a NaN or an infinity, else 0."""
        local = [local_of(g) for g in grads]
        devices = [g.device for g in local] or [one.p.device for one in self.sharded.values()]
        bad = torch.zeros((), device=devices[0] if devices else "cpu")
        alike: dict[Any, list[torch.Tensor]] = {}
        for g in local:
            if g.numel() > 0:
                alike.setdefault((g.device, g.dtype), []).append(g)
        for some in alike.values():
            largest = torch.stack(torch._foreach_norm(some, ord=math.inf))
            bad = torch.maximum(bad, (~torch.isfinite(largest).all()).float().to(bad.device))
        for group in self.groups:
            dist.all_reduce(bad, dist.ReduceOp.MAX, group=group)
        return bad

    # ---- a step ----------------------------------------------------------------------------------

    def _with_grad(self, grads: Mapping[Any, torch.Tensor]) -> list[list[Sharded]]:
        """Sharded parameters that have a gradient, by group and dtype."""
        found: dict[Any, list[Sharded]] = {}
        for p, one in self.sharded.items():
            if p in grads:
                key = (id(one.group), p.dtype, grads[p].dtype)
                found.setdefault(key, []).append(one)
        return list(found.values())

    def gather(self, grads: dict[Any, torch.Tensor]) -> dict[Any, torch.Tensor]:
        """The gradients as the engines take them."""
        found: dict[Any, torch.Tensor] = {}
        for p, g in grads.items():
            if p not in self.sharded and is_dtensor(p):
                if tuple(g.placements) != tuple(p.placements):  # type: ignore[attr-defined]
                    g = g.redistribute(p.device_mesh, p.placements)  # type: ignore[attr-defined]
                found[p] = local_of(g)
            elif p not in self.sharded:
                found[p] = g
        for some in self._with_grad(grads):
            full = gather_rows(some, [local_of(one.p) for one in some])
            whole = gather_rows(some, [self._rows_of(one.p, grads[one.p]) for one in some])
            for one, w, rows in zip(some, full, whole):
                if one.full is not None and w is not None and rows is not None:
                    one.full.copy_(w)
                    found[one.p] = rows
        return found

    @staticmethod
    def _rows_of(p: Any, g: Any) -> torch.Tensor:
        if tuple(g.placements) != tuple(p.placements):
            g = g.redistribute(p.device_mesh, p.placements)
        return local_of(g)

    def scatter(self, grads: Mapping[Any, torch.Tensor]) -> None:
        """The new weights back to where they belong."""
        for some in self._with_grad(grads):
            scatter_rows(some, [one.full for one in some], [local_of(one.p) for one in some])
        if not self.shared:
            return
        for owner in range(dist.get_world_size(self.group)):
            stepped = [p for p, who in self.shared.items() if who == owner and p in grads]
            for dtype in {p.dtype for p in stepped}:
                same = [p.detach() for p in stepped if p.dtype == dtype]
                flat = torch.cat([p.reshape(-1) for p in same])
                dist.broadcast(flat, dist.get_global_rank(self._group(), owner), group=self.group)
                if owner != dist.get_rank(self.group):
                    for p, part in zip(same, flat.split([p.numel() for p in same])):
                        p.copy_(part.view(p.shape))

    def _group(self) -> Any:
        return self.group if self.group is not None else dist.group.WORLD

    # ---- state -----------------------------------------------------------------------------------

    def collect(self, optimizer: Any) -> None:
        """Brings the optimizer's `state` up to date, with state of other owners."""
        optimizer._show_state()
        if not self.distributed:
            return
        kinds = self._kinds(optimizer)
        params = [p for group in optimizer.param_groups for p in group["params"]]
        for i, p in enumerate(params):
            if self.is_whole(p) or i not in kinds:  # new, and not divided yet
                continue
            names, steps = kinds[i]
            engine, at = optimizer._where.get(p, (None, 0))
            mine = engine.state(at) if engine is not None else {}
            shown = optimizer.state[p]
            shown["step"] = torch.tensor(float(steps))
            for name, dtype, shape in names:
                shown[name] = self._state_of(p, name, dtype, shape, mine)

    def _state_of(
        self,
        p: Any,
        name: str,
        dtype: torch.dtype,
        shape: tuple[int, ...],
        mine: Mapping[str, torch.Tensor],
    ) -> torch.Tensor:
        local = local_of(p)
        if p in self.shared or (p in self.sharded and R.keeps_own_shape(name)):
            value = mine.get(name)
            if value is None:
                value = torch.empty(shape, dtype=dtype, device=local.device)
            value = value.contiguous()
            group = self._group() if p in self.shared else self.sharded[p].group
            owner = self.shared[p] if p in self.shared else self.sharded[p].owner
            dist.broadcast(value, dist.get_global_rank(group, owner), group=group)
            return value
        if p in self.sharded:
            rows = torch.empty(local.shape, dtype=dtype, device=local.device)
            scatter_rows([self.sharded[p]], [mine.get(name)], [rows])
        else:
            rows = mine.get(name, torch.empty(local.shape, dtype=dtype, device=local.device))
        return _as_dtensor(rows, p)

    def _kinds(self, optimizer: Any) -> dict[int, tuple[list[Any], int]]:
        """Names and dtypes of the state of every parameter, and its steps, from those who know."""
        params = [p for group in optimizer.param_groups for p in group["params"]]
        known = {}
        for i, p in enumerate(params):
            if p in optimizer._where:
                engine, at = optimizer._where[p]
                names = [
                    (name, x.dtype, tuple(x.shape)) for name, x in engine.state(at).items()
                ]
                known[i] = (names, engine.steps(at))
        merged: dict[int, tuple[list[Any], int]] = {}
        for group in [*self.groups, *([self.group] if self.shared else [])]:
            everyone: list[Any] = [None] * dist.get_world_size(group)
            dist.all_gather_object(everyone, known, group=group)
            for one in everyone:
                merged.update(one)
        return merged

    def localize(self, p: Any, values: Mapping[str, Any]) -> dict[str, Any]:
        """A loaded state as this process's engine takes it."""
        found: dict[str, Any] = {}
        for name, value in values.items():
            if not isinstance(value, torch.Tensor) or value.ndim == 0 and p.ndim > 0:
                found[name] = value
            elif not is_dtensor(p):
                found[name] = whole_of(value)
            else:
                found[name] = self._localize(p, value, name)
        return {name: value for name, value in found.items() if value is not None}

    def _localize(self, p: Any, value: Any, name: str) -> Optional[torch.Tensor]:
        if R.keeps_own_shape(name):
            return whole_of(value)  # type: ignore[no-any-return]
        if tuple(value.shape) != tuple(p.shape):
            raise L.InvalidArgument(
                f"the loaded {name} has shape {tuple(value.shape)}, and the parameter {tuple(p.shape)}"
            )
        if not is_dtensor(value):  # a whole tensor, which everyone has
            if p in self.sharded:
                return value  # type: ignore[no-any-return]
            from torch.distributed.tensor import distribute_tensor

            value = distribute_tensor(value.to(p.device), p.device_mesh, p.placements)
        elif tuple(value.placements) != tuple(p.placements):
            value = value.redistribute(p.device_mesh, p.placements)
        rows = local_of(value).to(local_of(p).device)
        if p not in self.sharded:
            return rows
        return gather_rows([self.sharded[p]], [rows.contiguous()])[0]


def _as_dtensor(local: torch.Tensor, p: Any) -> torch.Tensor:
    from torch.distributed.tensor import DTensor

    return DTensor.from_local(  # type: ignore[no-any-return]
        local, p.device_mesh, p.placements, run_check=False, shape=p.shape, stride=p.stride()
    )


def make_placement(optimizer: Any) -> Placement:
    """Divides the parameters of an optimizer; every process comes to the same result."""
    placement = Placement(group=optimizer.process_group)
    divided: list[tuple[Any, Any, Any]] = []
    for number, group in enumerate(optimizer.param_groups):
        for i, p in enumerate(group["params"]):
            what = name_of(group, number, i)
            matrix = group["role"] in R.MATRIX_ROLES and p.numel() > 0
            if is_dtensor(p):
                _add_dtensor(placement, p, what, matrix, divided, group)
            elif matrix and optimizer.share:
                divided.append((p, None, group))
    if optimizer.share and not dist.is_initialized():
        raise L.InvalidArgument("share=True divides work over processes: call init_process_group")
    costs: dict[Any, float] = {}
    wanted = []
    for p, one, group in divided:
        layout = layout_of(p, group, "")
        settings = optimizer._settings(group)
        key = (
            tuple(p.shape),
            group["blocks"] and tuple(group["blocks"]),
            repr(sorted(settings.items(), key=str)),
        )
        wanted.append((key, settings, layout))
    for (p, one, group), (key, settings, layout) in zip(divided, wanted):
        if key not in costs:
            costs[key] = _agreed_cost(optimizer, settings, p, layout, one, placement)
    for pg in {id(one.group if one else None): one for _, one, _ in divided}.values():
        mine = [i for i, (_, one, _) in enumerate(divided) if (one and one.group) is (pg and pg.group)]
        group = pg.group if pg else placement.group
        owners = assign([costs[wanted[i][0]] for i in mine], dist.get_world_size(group))
        for i, owner in zip(mine, owners):
            p, one, _ = divided[i]
            if one is None:
                placement.shared[p] = owner
            else:
                one.owner = owner
    return placement


def _add_dtensor(
    placement: Placement, p: Any, what: str, matrix: bool, divided: list[Any], group: Any
) -> None:
    if not matrix:
        if any(type(one).__name__ == "Partial" for one in p.placements):
            raise L.InvalidArgument(
                f"{what} has the placements {tuple(p.placements)}: a partial sum"
            )
        dims = [d for d, one in enumerate(p.placements) if type(one).__name__ != "Replicate"]
    else:
        dim = _shard_dim(p, what)
        dims = [] if dim is None else [dim]
    for dim in dims:
        pg = p.device_mesh.get_group(dim)
        if all(pg is not known for known in placement.groups):
            placement.groups.append(pg)
        if matrix:
            sizes = _rows(p.shape[0], dist.get_world_size(pg))
            one = Sharded(p, what, pg, sizes)
            placement.sharded[p] = one
            divided.append((p, one, group))


def _agreed_cost(
    optimizer: Any,
    settings: Mapping[str, Any],
    p: torch.Tensor,
    layout: Layout,
    one: Optional[Sharded],
    placement: Placement,
) -> float:
    """The first process measures, and the others hear of it."""
    group = one.group if one else placement.group
    n = dist.get_world_size(group)
    if n == 1:
        return 1.0
    cost = [
        measure(optimizer.optimizer_name, settings, p, layout) if dist.get_rank(group) == 0 else 0.0
    ]
    source = dist.get_global_rank(group or placement._group(), 0)
    dist.broadcast_object_list(cost, src=source, group=group)
    return float(cost[0])
