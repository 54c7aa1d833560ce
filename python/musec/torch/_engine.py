"""One optimizer of the C library, on one device, with the parameters that it steps.

Weights and gradients are PyTorch's and are passed as views.  The library's own memory comes from
PyTorch's allocator, so that its statistics count it, and so that state is a tensor here (`state`)
that lies where the library reads and writes it.  Work goes to PyTorch's current stream: nothing
waits, but where the library has to (its option `nonfinite`).
"""

from __future__ import annotations

import ctypes as c
import math
import operator
from dataclasses import dataclass
from typing import Any, Mapping, Optional, Sequence

import torch

from .. import _library as L
from .. import _registry as R
from .._operators import check_tensor, device_name, torch_dtype
from ._abi import (
    ALL,
    UNSET,
    AttentionC,
    ParamC,
    ReportC,
    StepArgs,
)
from ._exchange import inspect
from ._memory import Memory, torch_dtypes
from .blocks import Block, Layout

_strided = torch.strided
# What is asked of all tensors at every step that `_exchange` does not inspect, by `map`: that is
# several times faster than a loop.
_data_ptr = torch.Tensor.data_ptr
_dtype_of = operator.attrgetter("dtype")
_shape_of = operator.attrgetter("shape")
_stride_of = torch.Tensor.stride
_is_contiguous = torch.Tensor.is_contiguous
_is_neg = torch.Tensor.is_neg
_codes = {dtype: code for code, dtype in torch_dtypes.items() if code != L.I16}
_quick_stream: Any = getattr(torch._C, "_cuda_getCurrentRawStream", None)
# PyTorch's names of the library's state; others keep their own.
_state_names = {
    "momentum": "momentum_buffer",
    "m": "exp_avg",
    "v": "exp_avg_sq",
    "second": "second_momentum_buffer",
}


def _spread(part: torch.Tensor, n: int) -> torch.Tensor:
    """Matrices of n elements in all from one number for each row, or column, or from themselves.
    It is a view, not a copy."""
    if part.numel() == n:
        return part
    *stack, rows, cols = part.shape
    each = n // (math.prod(stack) * (rows if cols == 1 else cols))
    return part.expand(*stack, rows, each) if cols == 1 else part.expand(*stack, each, cols)


def _gathered(whole: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
    """What _spread made `whole` of, in the shape of the part."""
    if part.numel() == whole.numel():
        return whole.reshape(part.shape)
    rows, cols = part.shape
    return whole.reshape(rows, -1)[:, :1] if cols == 1 else whole.reshape(-1, cols)[:1]


@dataclass
class Entry:
    """A parameter of an engine: the tensor that is stepped, whose it is and what it is."""

    weight: torch.Tensor
    name: str
    group: Mapping[str, Any]
    layout: Layout
    key: Any  # whose state it is: what the optimizer's `state` is indexed by
    source: Any = None  # gives the weight anew, where it may be another tensor by the next step
    staging: Optional[torch.Tensor] = None  # a contiguous copy, where the weight is not
    version: int = -1
    made_as: Any = None  # dtype, device, shape and strides that the engine knows

    def __post_init__(self) -> None:
        self.made_as = self.now()

    def now(self) -> Any:
        w = self.weight
        return w.dtype, w.device, w.shape, w.stride()

    @property
    def plain(self) -> bool:
        """Is it stepped where it lies, so that only its address matters to a step?"""
        w = self.weight
        return self.source is None and self.staging is None and w.dtype != torch.float16

    @property
    def dense(self) -> torch.Tensor:
        return self.weight if self.staging is None else self.staging

    def view(self) -> L.View:
        dense, layout = self.dense, self.layout
        return L.View(
            dense.data_ptr(),
            layout.rows,
            layout.cols,
            max(layout.cols, 1),
            layout.count,
            max(layout.rows * layout.cols, 1),
            torch_dtype(dense.dtype),
        )


class Engine:
    def __init__(
        self,
        optimizer: str,
        settings: Mapping[str, Any],
        device: torch.device,
        entries: list[Entry],
    ) -> None:
        self.device = device
        self.entries = entries
        self.optimizer = optimizer
        self._lib = L.lib()
        self._opt = c.c_void_p()
        self._threads = 0
        self.memory = Memory(device)
        self.context = L.Context(device_name(device))
        self.context.keeps = self.memory  # until the context is gone
        self.lends = device.type == "cuda"
        self.check(
            self._lib.musec_ctx_set_allocator(self.context.handle, c.byref(self.memory.struct))
        )
        self.enter()
        self._create(settings)
        for entry in entries:
            self._add(entry)
        n = max(len(entries), 1)
        self._views = (L.View * n)(*[entry.view() for entry in entries])
        self._view_of = [self._views[i] for i in range(n)]  # the same memory: made once
        for view in self._view_of:
            view.data = None
        self._weights = [entry.dense.data_ptr() for entry in entries]
        self._dtypes = [entry.weight.dtype for entry in entries]
        self._pointers: list[int] = []  # all gradients' at the last step, if views have just these
        self._plain = [i for i, entry in enumerate(entries) if entry.plain]
        self._plain_weights = [entries[i].weight for i in self._plain]
        self._plain_pointers = list(map(_data_ptr, self._plain_weights))
        self._plain_made = self._now()
        self._others = [(i, entry) for i, entry in enumerate(entries) if not entry.plain]
        self._inspection = None
        if not self._others and all(entry.key is entry.weight for entry in entries):
            self._inspection = inspect(self._plain_weights, self._views)
        self._numbers = {name: (c.c_double * n)() for name in ("lr", "weight_decay", "beta")}
        self._lr_at = (c.c_void_p * n)()
        self.args = StepArgs()
        self.check(self._lib.musec_step_args_init(c.byref(self.args), c.sizeof(self.args)))
        self.args.lr = self._numbers["lr"]
        self.args.weight_decay = self._numbers["weight_decay"]
        self.args.beta = self._numbers["beta"]
        self._call = (self._opt, self._views, len(entries), c.byref(self.args))
        self._told: dict[int, tuple[Any, ...]] = {}
        self._rates: list[Any] = []  # of each group as they are in it; empty: to be looked at
        self._groups = list({id(entry.group): entry.group for entry in entries}.values())
        self._lr_copies: dict[int, torch.Tensor] = {}
        self._note_versions()

    def _note_versions(self) -> None:
        for _, entry in self._others:
            entry.version = entry.weight._version

    def check(self, status: int) -> None:
        if status != 0:
            failure, self.memory.failure = self.memory.failure, None
            if failure is not None:
                raise failure
            self.context.check(status)

    def enter(self) -> None:
        """The context works on PyTorch's current stream, or with as many threads as PyTorch."""
        if self.device.type == "cuda":
            self.context.set_stream(_raw_stream(self.device))
        else:
            threads = torch.get_num_threads()
            if threads != self._threads:
                self.context.set_threads(threads)
                self._threads = threads

    def _create(self, settings: Mapping[str, Any]) -> None:
        """`nonfinite` None: on a GPU the device decides, where the other options allow that."""
        settings = dict(settings)
        tries = [settings.get("nonfinite")]
        if tries == [None]:
            tries = ["defer", "stop"] if self.device.type == "cuda" else ["stop"]
        for policy in tries:
            config = R.new_config(self.optimizer)
            R.apply(config, {**settings, "nonfinite": policy})
            status = self._lib.musec_optim_create(
                c.byref(self._opt), self.context.handle, c.byref(config)
            )
            self.policy, self._report_every = policy, int(config.report_every)
            if status == 0 or policy == tries[-1]:
                break
        self.check(status)

    def _add(self, entry: Entry) -> None:
        role = R.ROLES[entry.group["role"]]
        blocks = entry.layout.blocks
        param = ParamC(name=entry.name.encode(), role=role, weight=entry.view())
        if blocks is not None:
            param.blocks = (Block * len(blocks))(*blocks)
            param.n_blocks = len(blocks)
        self.check(self._lib.musec_optim_add(self._opt, c.byref(param), None))

    def __del__(self) -> None:
        if getattr(self, "_opt", None) and self.context.is_ours():
            self._lib.musec_optim_destroy(self._opt)
            self._opt = c.c_void_p()

    # ---- a step ----------------------------------------------------------------------------------

    def _place(self, index: int, entry: Entry) -> None:
        """Follows a weight that lies elsewhere now, or that somebody has written."""
        if entry.source is not None:
            entry.weight = entry.source()
        weight = entry.weight
        if entry.staging is not None:
            entry.staging.copy_(weight)
        pointer = entry.dense.data_ptr()
        if pointer != self._weights[index]:
            none = L.View()
            self.check(self._lib.musec_optim_set_weight(self._opt, index, entry.view(), none))
            self._weights[index] = pointer
        if entry.version != weight._version and weight.dtype == torch.float16:
            master = self.state(index).get("master")
            if master is not None:
                written = master.to(torch.float16) != entry.dense
                master.copy_(torch.where(written, entry.dense.float(), master))

    def _live(self, group: Mapping[str, Any]) -> tuple[Any, ...]:
        """Learning rate, decay and momentum of a group as the library is told them: the rate as a
        number, or UNSET and the address of a float32 on the device."""
        lr: Any = group["lr"]
        at = None
        if isinstance(lr, torch.Tensor):
            if lr.device.type == "cpu" and self.device.type != "cpu":
                lr = float(lr)
            elif lr.dtype != torch.float32:
                copy = self._lr_copies.setdefault(
                    id(group), torch.zeros((), dtype=torch.float32, device=self.device)
                )
                copy.copy_(lr.reshape(()))
                lr = copy
        if isinstance(lr, torch.Tensor):
            lr, at = UNSET, lr.data_ptr()
        else:
            _in_range("lr", lr, 0.0, math.inf)
        decay, beta = group["weight_decay"], UNSET
        _in_range("weight_decay", decay, 0.0, math.inf)
        momentum = group.get("momentum")
        if momentum is not None and group["role"] in R.MATRIX_ROLES:
            _in_range("momentum", momentum, 0.0, 1.0)
            beta = 1.0 - float(momentum)
        return float(lr), at, float(decay), beta

    def _tell(self) -> None:
        """Tells each parameter what its group has, where that has changed."""
        if self._rates and all(
            group["lr"] is lr
            and group["weight_decay"] is decay
            and group.get("momentum") is momentum
            for group, (lr, decay, momentum) in zip(self._groups, self._rates)
        ):
            return
        live: dict[int, tuple[Any, ...]] = {}
        for group in self._groups:
            live[id(group)] = self._live(group)
        rates = [(g["lr"], g["weight_decay"], g.get("momentum")) for g in self._groups]
        fixed = all(isinstance(x, (float, int, type(None))) for row in rates for x in row)
        self._rates = rates if fixed else []  # a tensor changes in place
        if live == self._told:
            return
        self._told = live
        numbers = self._numbers
        for index, entry in enumerate(self.entries):
            lr, at, decay, beta = live[id(entry.group)]
            self._lr_at[index] = at
            numbers["lr"][index] = lr
            numbers["weight_decay"][index] = decay
            numbers["beta"][index] = beta
        if any(at is not None for _, at, _, _ in live.values()):
            self.args.lr_at = self._lr_at

    def _now(self) -> Any:
        """What the plain weights are, but for their addresses."""
        some = self._plain_weights
        return list(map(_dtype_of, some)), list(map(_shape_of, some)), list(map(_stride_of, some))

    def moved(self) -> bool:
        """Is some weight another one than the library was told of, but for its address?"""
        if self._now() != self._plain_made:
            return True
        if list(map(_data_ptr, self._plain_weights)) != self._plain_pointers:
            if any(w.device != self.device for w in self._plain_weights):
                return True
        return any(entry.now() != entry.made_as for _, entry in self._others)

    def step_at_once(
        self, grad_scale: Optional[torch.Tensor], found_inf: Optional[torch.Tensor]
    ) -> bool:
        """The step on the parameters' own gradients, if all tensors are what they were but for
        values, and gradients but for addresses.  False: `step` is to be called, nothing was done."""
        inspection = self._inspection
        grads = inspection.gradients() if inspection is not None else None
        if inspection is None or grads is None:
            return False
        self._pointers = []
        self.enter()
        self._tell()
        self._queue(grad_scale, found_inf)
        stepped = inspection.stepped(grads)
        if stepped:
            torch.autograd.graph.increment_version(stepped)
        return True

    def _queue(
        self, grad_scale: Optional[torch.Tensor], found_inf: Optional[torch.Tensor]
    ) -> None:
        self.args.grad_scale = None if grad_scale is None else grad_scale.data_ptr()
        self.args.found_inf = None if found_inf is None else found_inf.data_ptr()
        if not self.lends:
            self.check(self._lib.musec_optim_step_with(*self._call))
            return
        # The workspace is PyTorch's again after the step, for what forward and backward keep.
        every = self._report_every  # such a step takes more, which is lent to no other one
        lends = not every or (self._lib.musec_optim_steps(self._opt) + 1) % every != 0
        if lends:
            self.memory.lend()
        status = self._lib.musec_optim_step_with(*self._call)
        if status == 0:
            status = self._lib.musec_ctx_trim(self.context.handle)
        if lends:
            self.memory.take_back()
        self.check(status)

    def step(
        self,
        grads: Sequence[Optional[torch.Tensor]],
        grad_scale: Optional[torch.Tensor],
        found_inf: Optional[torch.Tensor],
    ) -> None:
        """grads: of the entries' weights, in their order.  The two tensors are float32 on this
        device, as GradScaler makes them."""
        self.enter()
        self._tell()
        pointers = list(map(_data_ptr, self._plain_weights))
        if pointers != self._plain_pointers:
            for index in self._plain:
                self._place(index, self.entries[index])
            self._plain_pointers = pointers
            if self._inspection is not None:
                self._inspection.tell(pointers)
        for index, entry in self._others:
            self._place(index, entry)
        kept = self._point_at(grads)  # what the queue reads is not freed before the call returns
        self._queue(grad_scale, found_inf)
        del kept
        for _, entry in self._others:
            if entry.staging is not None:
                entry.weight.copy_(entry.staging)
        stepped = [e.weight for e, grad in zip(self.entries, grads) if grad is not None]
        if stepped:
            torch.autograd.graph.increment_version(stepped)
        self._note_versions()

    def _point_at(self, grads: Sequence[Optional[torch.Tensor]]) -> list[torch.Tensor]:
        """Tells the views of the gradients where these are; returns the copies among them."""
        views, wanted = self._view_of, self._dtypes
        try:  # None, and a layout without memory of its own, have no address
            pointers = list(map(_data_ptr, grads))
            plain = list(map(_dtype_of, grads)) == wanted
            plain = plain and all(map(_is_contiguous, grads)) and not any(map(_is_neg, grads))
        except (TypeError, RuntimeError):
            plain = False
        if plain and pointers == self._pointers:
            return []
        self._pointers = pointers if plain else []
        copies = []
        for index, grad in enumerate(grads):
            if grad is None:
                views[index].data = None
                continue
            dtype = grad.dtype
            if dtype is not wanted[index] or grad.layout is not _strided:
                grad = self._converted(self.entries[index], grad)
                dtype = grad.dtype
                copies.append(grad)
            if grad.is_neg() or not grad.is_contiguous():
                grad = grad.resolve_neg().contiguous()
                copies.append(grad)
            views[index].data = grad.data_ptr()
            views[index].dtype = _codes[dtype]
        return copies

    def _converted(self, entry: Entry, grad: torch.Tensor) -> torch.Tensor:
        """A gradient of another kind than the weight, in a dtype that goes with it."""
        if grad.layout is not torch.strided or grad.dtype not in _codes:
            check_tensor(grad, f"the gradient of {entry.name}")
        dtypes = (grad.dtype, entry.weight.dtype)
        if self.device.type == "cpu" or torch.float64 in dtypes:
            grad = grad.to(entry.weight.dtype)
        return grad

    def poll(self) -> None:
        self.enter()
        self.check(self._lib.musec_optim_poll(self._opt))

    def can_capture(self) -> str:
        """ "" if the step just taken could be captured, else why not."""
        why = c.create_string_buffer(1024)
        if self._lib.musec_optim_can_capture(self._opt, why, len(why)):
            return ""
        return why.value.decode() or "unknown"

    # ---- state -----------------------------------------------------------------------------------

    def state_names(self, index: int) -> list[str]:
        found: list[str] = []
        while True:
            name = self._lib.musec_optim_state_name(self._opt, index, len(found))
            if name is None:
                return found
            found.append(name.decode())

    def _view(self, index: int, block: int, name: str) -> Optional[torch.Tensor]:
        view = L.View()
        status = self._lib.musec_optim_state_view(
            self._opt, index, block, name.encode(), c.byref(view)
        )
        if status != 0 and block == -1:
            return None
        self.check(status)
        found = self.memory.tensor(view)
        return found.view(torch.int16) if name == "low" else found

    def _parts(self, index: int, name: str) -> list[torch.Tensor]:
        """The state of every matrix of a parameter, where it lies."""
        if name in ("average", "low", "master"):
            found = self._view(index, 0, name)
            assert found is not None
            return [found]
        stack = self._view(index, -1, name)
        if stack is not None:
            return list(stack)
        n = len(self.entries[index].layout.matrices())
        views = [self._view(index, block, name) for block in range(n)]
        return [view[0] for view in views if view is not None]

    def state(self, index: int) -> dict[str, torch.Tensor]:
        """The state of a parameter in its own shape, by PyTorch's names.  Where the library stores
        it in the order of the parameter's elements it is not a copy, but the state itself."""
        entry, found = self.entries[index], {}
        self.enter()
        for name in self.state_names(index):
            if R.keeps_own_shape(name):
                found[name] = self._own_state(index, name)
                continue
            whole = name in ("average", "low", "master")
            stack = self._view(index, 0 if whole else -1, name)
            if stack is not None and (whole or entry.layout.in_order()):
                value = _spread(stack, entry.weight.numel()).reshape(entry.weight.shape)
            else:
                parts = self._parts(index, name)
                value = torch.zeros(
                    entry.weight.shape, dtype=parts[0].dtype, device=parts[0].device
                )
                for to, part in zip(entry.layout.parts(value), parts):
                    to.copy_(_spread(part, to.numel()).reshape(to.shape))
            found[_state_names.get(name, name)] = value
        return found

    def _own_state(self, index: int, name: str) -> torch.Tensor:
        stack = self._view(index, -1, name)
        if stack is None:
            return torch.cat([part.reshape(-1) for part in self._parts(index, name)])
        return stack[0] if len(stack) == 1 else stack

    def _set_own_state(self, index: int, name: str, value: torch.Tensor) -> None:
        parts = self._parts(index, name)
        wanted = self._own_state(index, name).shape
        if value.shape != wanted:
            raise L.InvalidArgument(
                f"{self.entries[index].name}: the loaded {name} has shape {tuple(value.shape)}; it "
                f"must be {tuple(wanted)}"
            )
        flat = value.detach().to(self.device).reshape(-1).split([part.numel() for part in parts])
        for to, source in zip(parts, flat):
            to.copy_(source.reshape(to.shape))

    def set_state(self, index: int, values: Mapping[str, torch.Tensor], steps: int) -> None:
        """Takes over the state of a parameter.  What `values` lacks stays as it is new."""
        entry = self.entries[index]
        self.enter()
        for name in self.state_names(index):
            value = values.get(_state_names.get(name, name))
            if value is None:
                if name == "master":
                    self._parts(index, name)[0].copy_(entry.dense.reshape(-1, *entry.dense.shape))
                continue
            if R.keeps_own_shape(name):
                self._set_own_state(index, name, value)
                continue
            if name == "second" and value.dim() == 2 and 1 in value.shape:
                value = value.expand(entry.weight.shape)  # as NorMuon's authors have it
            if tuple(value.shape) != tuple(entry.weight.shape):
                raise L.InvalidArgument(
                    f"{entry.name}: the loaded {_state_names.get(name, name)} has shape "
                    f"{tuple(value.shape)}, and the parameter {tuple(entry.weight.shape)}"
                )
            value = value.detach().to(self.device).contiguous()
            parts = self._parts(index, name)
            whole = name in ("average", "low", "master")
            sources = [value] if whole else entry.layout.parts(value)
            for to, source in zip(parts, sources):
                to.copy_(_gathered(source, to))
        self.check(self._lib.musec_optim_state_changed(self._opt, index))
        self.check(self._lib.musec_optim_set_steps(self._opt, index, steps))

    def forget_derived(self) -> None:
        """Scales and norms that the next step would predict from the one before."""
        for index in range(len(self.entries)):
            self.check(self._lib.musec_optim_state_changed(self._opt, index))

    def steps(self, index: int = ALL) -> int:
        found = c.c_int64()
        self.check(self._lib.musec_optim_get_steps(self._opt, index, c.byref(found)))
        return found.value

    def set_all_steps(self, steps: int) -> None:
        self.check(self._lib.musec_optim_set_steps(self._opt, ALL, steps))

    @property
    def skipped(self) -> int:
        return int(self._lib.musec_optim_skipped(self._opt))

    # ---- words -----------------------------------------------------------------------------------

    def describe(self) -> str:
        n = self._lib.musec_optim_describe(self._opt, None, 0)
        text = c.create_string_buffer(n + 1)
        self._lib.musec_optim_describe(self._opt, text, n + 1)
        return text.value.decode()

    def report(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        report = ReportC()
        while self._lib.musec_optim_get_report(self._opt, len(found), c.byref(report)) == 0:
            row = {}
            for name, *_ in ReportC._fields_:
                value = getattr(report, name)
                row[name] = value.decode() if isinstance(value, bytes) else value
            found.append(row)
        return found

    # ---- QK-Clip ---------------------------------------------------------------------------------

    def add_attention(self, shape: AttentionC) -> int:
        index = c.c_size_t()
        self.check(self._lib.musec_optim_add_attention(self._opt, c.byref(shape), c.byref(index)))
        return index.value

    def set_logits(self, attention: int, logits: Sequence[float]) -> None:
        numbers = (c.c_double * len(logits))(*logits)
        self.check(self._lib.musec_optim_set_logits(self._opt, attention, numbers, len(logits)))


def _raw_stream(device: torch.device) -> int:
    """The address of PyTorch's current stream."""
    if _quick_stream is not None and device.index is not None:
        return int(_quick_stream(device.index))
    return int(torch.cuda.current_stream(device).cuda_stream)


def _in_range(name: str, value: Any, low: float, high: float) -> None:
    number = float(value)
    if not low <= number <= high or number == math.inf:
        limit = f"from {low:g} to {high:g}" if high < math.inf else f"{low:g} or more"
        raise L.InvalidArgument(f"{name} is {value}; it must be {limit}")
