"""Clips and spectra of NumPy arrays and PyTorch tensors."""

from __future__ import annotations

import ctypes as c
import math
import sys
from dataclasses import dataclass
from typing import Any, TypeVar, Union, cast

import numpy as np

from . import _library as L

A = TypeVar("A")


@dataclass(frozen=True)
class ClipReport:
    """What was done to one matrix: the plan taken, its products of r x r matrices, and the two
    numbers of docs/operators.md (0 where the plan has no use for them)."""

    path: str
    products: int
    u_low: float
    alpha: float


@dataclass(frozen=True)
class Spectrum:
    """Singular values, descending, and numbers taken from them.

    For one matrix `values` has min(m, n) entries and the others are floats; for a stack of shape
    (..., m, n) all of them have the stack's leading dimensions.  They are float64 arrays, or tensors
    on the CPU where the input was a tensor.
    """

    values: Any
    norm2: Any
    fro: Any
    nuclear: Any
    effective_rank: Any
    share_above: Any


def operators() -> dict[str, str]:
    """The operators of `clip`, and what each does (docs/operators.md)."""
    return L.names_of(L.lib().musec_clip_op)


def optimizers() -> dict[str, str]:
    """The optimizers of the library, and what each does (docs/optimizers.md)."""
    return L.names_of(L.lib().musec_optim_name)


# ---- arrays and tensors as views -----------------------------------------------------------------

_numpy_dtypes = {np.dtype(np.float32): L.F32, np.dtype(np.float64): L.F64}


_torch_dtypes: dict[Any, int] = {}


def torch_dtype(dtype: Any) -> int:
    """The library's code of a PyTorch dtype, 0 if it has none."""
    if not _torch_dtypes:
        torch = sys.modules["torch"]
        _torch_dtypes.update(
            {
                torch.float32: L.F32,
                torch.float64: L.F64,
                torch.bfloat16: L.BF16,
                torch.float16: L.F16,
            }
        )
    return _torch_dtypes.get(dtype, 0)


def is_tensor(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def device_name(device: Any) -> str:
    """The library's name of a torch.device."""
    if device.type == "cpu":
        return "cpu"
    if device.type == "cuda":
        torch = sys.modules["torch"]
        index = device.index if device.index is not None else torch.cuda.current_device()
        return f"cuda:{index}"
    raise L.InvalidArgument(
        f'tensors on "{device}" are not supported: move them to a CPU or a CUDA device'
    )


def check_tensor(x: Any, what: str) -> None:
    """Refuses what has no dense matrix of real numbers in this process's memory."""
    torch = sys.modules["torch"]
    if x.layout != torch.strided:
        raise L.InvalidArgument(f"{what} is sparse ({x.layout}): pass a dense one, x.to_dense()")
    if x.is_meta:
        raise L.InvalidArgument(f"{what} is on the meta device: it has no numbers")
    if x.is_complex():
        raise L.InvalidArgument(f"{what} is complex ({x.dtype}): real matrices are supported")
    if not torch_dtype(x.dtype):
        raise L.InvalidArgument(
            f"{what} is {x.dtype}; float32 and float64 are supported, and bfloat16 and float16 on a "
            "GPU"
        )


def view_of(data: int, shape: tuple[int, ...], dtype: int) -> L.View:
    """A dense row-major view of shape (..., m, n)."""
    rows, cols = shape[-2:]
    count = math.prod(shape[:-2])
    return L.View(data, rows, cols, max(cols, 1), count, max(rows * cols, 1), dtype)


class _Array:
    """An input as a dense view, and what results are made of."""

    def __init__(self, x: Any) -> None:
        self.tensor = is_tensor(x)
        if self.tensor:
            check_tensor(x, "the input")
            torch = sys.modules["torch"]
            if x.requires_grad and torch.is_grad_enabled():
                raise L.InvalidArgument(
                    "the input requires a gradient, and clips and spectra have none here: pass "
                    "x.detach(), or call this under torch.no_grad()"
                )
            self.x = x.detach().contiguous()
            if self.x.is_neg():
                self.x = self.x.resolve_neg()
            dtype = torch_dtype(x.dtype)
            self.device = device_name(x.device)
            pointer = self.x.data_ptr()
        else:
            array = np.asarray(x)
            if array.dtype.kind in "iub":
                array = array.astype(np.float64)
            if array.dtype.newbyteorder("=") not in _numpy_dtypes:
                raise L.InvalidArgument(
                    f"the input is {array.dtype}; float32 and float64 are supported"
                )
            self.x = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
            dtype = _numpy_dtypes[self.x.dtype]
            self.device = "cpu"
            pointer = self.x.ctypes.data
        self.shape = tuple(int(n) for n in self.x.shape)
        if len(self.shape) < 2:
            raise L.InvalidArgument(
                f"the input has shape {self.shape}; a matrix (m, n) or a stack (..., m, n) is needed"
            )
        self.view = view_of(pointer, self.shape, dtype)
        self.empty = 0 in self.shape
        self.context = L.context(self.device)

    def begin(self) -> None:
        """The library works in PyTorch's current stream: nobody waits for anybody."""
        if self.device != "cpu":
            stream = sys.modules["torch"].cuda.current_stream(self.x.device)
            self.context.set_stream(stream.cuda_stream)

    def result(self) -> tuple[Any, L.View]:
        out: Any
        if self.tensor:
            out = sys.modules["torch"].empty_like(self.x)
            pointer = out.data_ptr()
        else:
            out = np.empty_like(self.x)
            pointer = out.ctypes.data
        return out, view_of(pointer, self.shape, self.view.dtype)

    def numbers(self, flat: np.ndarray, *last: int) -> Any:
        shaped = flat.reshape(self.shape[:-2] + last)
        if self.tensor:
            shaped = sys.modules["torch"].from_numpy(np.ascontiguousarray(shaped))
        if not self.shape[:-2] and not last:
            return float(shaped)
        return shaped


# ---- functions -----------------------------------------------------------------------------------


def clip_config(
    op: str,
    threshold: float,
    iters: Union[int, None],
    tol: Union[float, None],
    coeffs: Union[str, None],
    literal: bool,
    operands: Union[str, None],
    sharpness: Union[float, None],
) -> L.ClipConfig:
    """The C structure of these settings.  None is the default of the library."""
    config = L.ClipConfig()
    why = c.create_string_buffer(1024)
    L.check_why(
        L.lib().musec_clip_config_init_why(
            c.byref(config), c.sizeof(config), str(op).encode(), why, len(why)
        ),
        why,
    )
    config.threshold = threshold
    if iters is not None:
        config.iters = iters
    if tol is not None:
        config.tol = tol
    if coeffs is not None:
        config.coeffs = coeffs.encode()
    config.literal = int(literal)
    if operands is not None and operands != "auto":
        codes = {name: code for code, name in L.DTYPE_NAMES.items()}
        if operands not in codes:
            raise L.InvalidArgument(f'operands is "{operands}"; it must be auto, bf16 or f16')
        config.operands = codes[operands]
    if sharpness is not None:
        config.sharpness = sharpness
    return config


def clip(
    x: A,
    threshold: float = 1.0,
    op: str = "fast",
    *,
    iters: Union[int, None] = None,
    tol: Union[float, None] = None,
    coeffs: Union[str, None] = None,
    literal: bool = False,
    operands: Union[str, None] = None,
    sharpness: Union[float, None] = None,
    report: Union[list[ClipReport], None] = None,
) -> A:
    """Clips the singular values of a matrix, or of each matrix of a stack (..., m, n).

    `op` is one of `musec.operators()`: "hard" turns a singular value s into min(s, D), "soft" and
    its approximations "fast", "accurate" and "ssc" into D s / sqrt(s^2 + D^2), "polar" and "ns5"
    into 1 or nearly so.  D is `threshold`.  docs/operators.md has cost and accuracy of each, and the
    meaning of the other settings; None is the library's default.  `report` is a list to which a
    ClipReport of each matrix is appended.

    Takes arrays (also lists) of float32 or float64, and tensors, also of bfloat16 and float16 on a
    GPU; the result is a new array or tensor of the same type, on the same device.  NaN or infinity
    in x raises NonFinite, a wrong setting InvalidArgument, which is a ValueError.

    There is no gradient: a tensor that requires one raises, unless the call is made under
    torch.no_grad().  torch.compile traces `torch.ops.musec.clip`, which `musec.torch` registers and
    which this function calls there.
    """
    config = (op, threshold, iters, tol, coeffs, literal, operands, sharpness)
    torch = sys.modules.get("torch")
    if torch is not None and torch.compiler.is_compiling():
        if report is not None:
            raise L.InvalidArgument("report cannot be filled inside torch.compile")
        from .torch import _ops

        return cast(A, _ops.clip_traced(cast(Any, x), *config))
    return cast(A, _clip(x, config, report))


def _clip(x: Any, settings: tuple[Any, ...], report: Union[list[ClipReport], None]) -> Any:
    config = clip_config(*settings)
    array = _Array(x)
    out, out_view = array.result()
    if array.empty:
        return out
    reports = (L.ClipReportC * array.view.count)() if report is not None else None
    array.begin()
    array.context.check(
        L.lib().musec_clip(array.context.handle, c.byref(config), array.view, out_view, reports)
    )
    if report is not None and reports is not None:
        array.context.sync()
        report.extend(ClipReport(r.path.decode(), r.products, r.u_low, r.alpha) for r in reports)
    return out


def spectrum(x: Any, threshold: float = 0.0) -> Spectrum:
    """Singular values of a matrix or of each matrix of a stack (..., m, n), and what follows from
    them: spectral, Frobenius and nuclear norm, effective rank exp(-sum p log p) with p = s / sum s,
    and, with a `threshold` above 0, the share of singular values above it.

    There is no gradient: a tensor that requires one raises, unless under torch.no_grad().
    """
    array = _Array(x)
    rank = min(array.shape[-2:])
    count = array.view.count
    values = np.zeros(count * rank, dtype=np.float64)
    stats = (L.SpectrumStats * max(count, 1))()
    if not array.empty:
        array.begin()
        array.context.check(
            L.lib().musec_spectrum(
                array.context.handle,
                array.view,
                float(threshold),
                values.ctypes.data_as(c.POINTER(c.c_double)),
                stats,
            )
        )
    names = ("norm2", "fro", "nuclear", "effective_rank", "share_above")
    columns = [
        array.numbers(np.array([getattr(s, name) for s in stats[:count]], dtype=np.float64))
        for name in names
    ]
    return Spectrum(array.numbers(values, rank), *columns)


def norm2(x: Any, steps: int = 16, seed: int = 0) -> Any:
    """An estimate of the spectral norm from below, by Lanczos steps: far cheaper than `spectrum`.
    A float, or an array or tensor of the stack's leading dimensions."""
    array = _Array(x)
    found = np.zeros(array.view.count, dtype=np.float64)
    if not array.empty:
        array.begin()
        array.context.check(
            L.lib().musec_norm2_estimate(
                array.context.handle,
                array.view,
                steps,
                seed,
                found.ctypes.data_as(c.POINTER(c.c_double)),
            )
        )
    return array.numbers(found)
