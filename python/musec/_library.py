"""The C library: where it lies, its structures and functions, its errors.

This file restates include/musec/musec.h for ctypes; tests/test_library.py compiles a program that
compares every size and offset.  Nothing is loaded before the first call.
"""

from __future__ import annotations

import ctypes as c
import importlib.util
import os
import re
import sys
import threading
from pathlib import Path
from typing import Any, Callable, NoReturn

# ---- errors --------------------------------------------------------------------------------------


class Error(RuntimeError):
    """A call of the C library failed.  `status` is the name of its code: "EINVAL", ..."""

    status = ""

    def __init__(self, message: str, status: str = "") -> None:
        super().__init__(message)
        self.status = status or type(self).status


class InvalidArgument(Error, ValueError):
    """An argument is outside its documented range."""

    status = "EINVAL"


class NonFinite(Error, ArithmeticError):
    """The input holds a NaN or an infinity."""

    status = "ENONFINITE"


class NotSupported(Error, NotImplementedError):
    """This build or device does not support it."""

    status = "ENOTSUP"


class DeviceError(Error):
    """The device or its library failed."""

    status = "EDEVICE"


class OutOfMemory(Error, MemoryError):
    """Not enough memory."""

    status = "ENOMEM"


_errors: dict[str, type[Error]] = {
    e.status: e for e in (InvalidArgument, NonFinite, NotSupported, DeviceError, OutOfMemory)
}

# ---- structures ----------------------------------------------------------------------------------

F32, F64, BF16, F16, I16 = 1, 2, 3, 4, 5
DTYPE_NAMES = {F32: "f32", F64: "f64", BF16: "bf16", F16: "f16"}


class View(c.Structure):
    _fields_ = [
        ("data", c.c_void_p),
        ("rows", c.c_int64),
        ("cols", c.c_int64),
        ("ld", c.c_int64),
        ("count", c.c_int64),
        ("stride", c.c_int64),
        ("dtype", c.c_int),
    ]


class ClipConfig(c.Structure):
    _fields_ = [
        ("size", c.c_uint32),
        ("iters", c.c_int32),
        ("op", c.c_char_p),
        ("threshold", c.c_double),
        ("tol", c.c_double),
        ("coeffs", c.c_char_p),
        ("literal", c.c_int32),
        ("operands", c.c_int32),
        ("sharpness", c.c_double),
    ]


class ClipReportC(c.Structure):
    _fields_ = [
        ("path", c.c_char * 32),
        ("products", c.c_int32),
        ("reserved", c.c_int32),
        ("u_low", c.c_double),
        ("alpha", c.c_double),
    ]


class SpectrumStats(c.Structure):
    _fields_ = [
        ("norm2", c.c_double),
        ("fro", c.c_double),
        ("nuclear", c.c_double),
        ("effective_rank", c.c_double),
        ("share_above", c.c_double),
        ("reserved", c.c_double * 3),
    ]


# ---- loading -------------------------------------------------------------------------------------

_lock = threading.Lock()
_lib: Any = None
_path = ""

_view_p = c.POINTER(View)
# name: (result, arguments); a result of None is a musec_status
_functions: dict[str, tuple[Any, list[Any]]] = {
    "musec_version": (c.c_char_p, []),
    "musec_status_name": (c.c_char_p, [c.c_int]),
    "musec_status_text": (c.c_char_p, [c.c_int]),
    "musec_ctx_create_why": (c.c_int, [c.POINTER(c.c_void_p), c.c_char_p, c.c_char_p, c.c_size_t]),
    "musec_ctx_set_deterministic": (c.c_int, [c.c_void_p, c.c_int]),
    "musec_ctx_set_threads": (c.c_int, [c.c_void_p, c.c_int]),
    "musec_ctx_destroy": (c.c_void_p, [c.c_void_p]),
    "musec_ctx_sync": (c.c_int, [c.c_void_p]),
    "musec_ctx_set_stream": (c.c_int, [c.c_void_p, c.c_void_p]),
    "musec_ctx_error": (c.c_char_p, [c.c_void_p]),
    "musec_ctx_device": (c.c_char_p, [c.c_void_p]),
    "musec_clip_op": (c.c_char_p, [c.c_size_t, c.POINTER(c.c_char_p)]),
    "musec_clip_config_init_why": (
        c.c_int,
        [c.POINTER(ClipConfig), c.c_size_t, c.c_char_p, c.c_char_p, c.c_size_t],
    ),
    "musec_clip": (
        c.c_int,
        [c.c_void_p, c.POINTER(ClipConfig), View, View, c.POINTER(ClipReportC)],
    ),
    "musec_spectrum": (
        c.c_int,
        [c.c_void_p, View, c.c_double, c.POINTER(c.c_double), c.POINTER(SpectrumStats)],
    ),
    "musec_norm2_estimate": (
        c.c_int,
        [c.c_void_p, View, c.c_int, c.c_uint64, c.POINTER(c.c_double)],
    ),
    "musec_optim_name": (c.c_char_p, [c.c_size_t, c.POINTER(c.c_char_p)]),
    "musec_optim_option": (
        c.c_char_p,
        [c.c_size_t, c.POINTER(c.c_char_p), c.POINTER(c.c_char_p)],
    ),
}


def _bind(loaded: Any, path: str, functions: dict[str, tuple[Any, list[Any]]]) -> None:
    for name, (result, arguments) in functions.items():
        try:
            function = getattr(loaded, name)
        except AttributeError:
            raise ImportError(
                f"{path} has no {name}: it is older than this Python package; "
                "install the two from the same source"
            ) from None
        function.restype, function.argtypes = result, arguments


def declare(functions: dict[str, tuple[Any, list[Any]]]) -> None:
    """Adds functions of the library, which may be loaded already."""
    _functions.update(functions)
    if _lib is not None:
        _bind(_lib, _path, functions)


_home = Path(__file__).resolve().parent / "_lib"  # the libraries that a wheel has


def _cuda_major() -> str:
    """The major version of the CUDA that PyTorch was built with, if PyTorch is here; else "".

    PyTorch may be imported later, and takes a second to: it is not imported for its version."""
    torch = sys.modules.get("torch")
    if torch is not None:
        cuda = getattr(getattr(torch, "version", None), "cuda", None)
        return str(cuda).split(".")[0] if cuda else ""
    try:
        spec = importlib.util.find_spec("torch")
        if spec is None or not spec.origin:
            return ""
        text = Path(spec.origin).with_name("version.py").read_text()
    except (ImportError, ValueError, OSError):
        return ""
    found = re.search(r"^cuda\b.*=\s*[\"'](\d+)", text, re.MULTILINE)
    return found[1] if found else ""


def _candidates() -> list[str]:
    """Where the library may lie, best first.

    MUSEC_LIBRARY is a path of the user's choice.  A wheel has one library without CUDA and may have
    one for each major version of CUDA; PyTorch says which one goes with the libraries that it has
    loaded.  Last comes what the dynamic loader finds, such as an installed libmusec.
    """
    chosen = os.environ.get("MUSEC_LIBRARY")
    if chosen:
        return [chosen]
    major = _cuda_major() if any(_home.glob("libmusec-cu*.so")) else ""
    names = [f"libmusec-cu{major}.so"] if major else []
    names.append("libmusec.so")
    found = [str(_home / name) for name in names if (_home / name).exists()]
    return found + ["libmusec.so.0", "libmusec.so"]


def _cuda_words() -> str:
    """Why a wheel's library without CUDA was taken though it has others; "" if that is not so."""
    versions = sorted(p.stem[len("libmusec-cu") :] for p in _home.glob("libmusec-cu*.so"))
    if not versions or _path != str(_home / "libmusec.so"):
        return ""
    major = _cuda_major()
    theirs = f"PyTorch here is of CUDA {major}" if major else "no PyTorch with CUDA is here"
    return f"; this package has libraries for CUDA {', '.join(versions)}, and {theirs}"


def lib() -> Any:
    """The loaded library."""
    global _lib, _path
    if _lib is not None:
        return _lib
    with _lock:
        if _lib is not None:
            return _lib
        reasons = []
        for path in _candidates():
            try:
                loaded = c.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
            except OSError as e:
                reasons.append(str(e))
                continue
            _bind(loaded, path, _functions)
            _lib, _path = loaded, path
            return _lib
    raise ImportError(
        "libmusec.so was not found; `pip install .` in musec's source tree builds it, and "
        "MUSEC_LIBRARY=/path/to/libmusec.so names one that is there already.  Tried: "
        + "; ".join(reasons)
    )


def library_path() -> str:
    """The path or name of the C library in use."""
    lib()
    return _path


def version() -> str:
    """The version of the C library in use."""
    return str(lib().musec_version().decode())


def raise_status(status: int, words: str = "") -> NoReturn:
    name = lib().musec_status_name(status).decode()
    text = words or lib().musec_status_text(status).decode()
    raise _errors.get(name, Error)(text, name)


def check_why(status: int, why: Any) -> None:
    if status != 0:
        raise_status(status, why.value.decode())


def names_of(function: Callable[..., Any]) -> dict[str, str]:
    """Names and help of a list that the library gives by index."""
    found: dict[str, str] = {}
    text = c.c_char_p()
    for index in range(1000):
        name = function(index, c.byref(text))
        if name is None:
            break
        found[name.decode()] = (text.value or b"").decode()
    return found


# ---- contexts ------------------------------------------------------------------------------------


# Their own major versions, above that of their CUDA: cuSOLVER 11 is CUDA 12's.
_CUDA_LIBRARIES = {"libcublasLt.so": 0, "libcusolver.so": -1}
_cuda_libraries: list[Any] = []


def _take_pytorchs_cuda() -> None:
    """Loads the libraries of CUDA that the C library opens from where PyTorch's wheels have them.

    PyTorch itself loads some of them when they are first needed.  The C library asks for them by name,
    and the dynamic loader then finds what is loaded already.  Wheels of another CUDA may lie beside
    them."""
    torch = sys.modules.get("torch")
    major = _cuda_major()
    if torch is None or _cuda_libraries or not major:
        return
    home = Path(str(torch.__file__)).resolve().parent.parent / "nvidia"
    for name, offset in _CUDA_LIBRARIES.items():
        for path in sorted(home.glob(f"*/lib/{name}.{int(major) + offset}"))[:1]:
            try:
                _cuda_libraries.append(c.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_LOCAL))
            except OSError:
                pass  # the C library says what is missing, where it is needed


class Context:
    """A musec_ctx: one device and its queue, for one thread at a time."""

    def __init__(self, device: str) -> None:
        self.handle = c.c_void_p()
        self.device = device
        self.keeps: Any = None
        self._stream: Any = None
        self._pid = os.getpid()
        self._lib = lib()  # also keeps it alive until __del__
        if device.startswith("cuda"):
            _take_pytorchs_cuda()
        why = c.create_string_buffer(1024)
        status = self._lib.musec_ctx_create_why(
            c.byref(self.handle), device.encode(), why, len(why)
        )
        if status != 0:
            words = _cuda_words() if device.startswith("cuda") else ""
            raise_status(status, why.value.decode() + words)

    def check(self, status: int) -> None:
        if status != 0:
            raise_status(status, self._lib.musec_ctx_error(self.handle).decode())

    def sync(self) -> None:
        self.check(self._lib.musec_ctx_sync(self.handle))

    def set_stream(self, stream: int) -> None:
        """All work goes to this CUDA stream from now on, behind what was queued before."""
        if stream != self._stream:
            self.check(self._lib.musec_ctx_set_stream(self.handle, stream))
            self._stream = stream

    def set_threads(self, threads: int) -> None:
        self.check(self._lib.musec_ctx_set_threads(self.handle, threads))

    def is_ours(
        self,
        getpid: Callable[[], int] = os.getpid,
        is_finalizing: Callable[[], bool] = sys.is_finalizing,
    ) -> bool:
        """May what was made with it be destroyed?  A child of fork() has the memory of a context,
        but not its threads; at the end of Python nothing may be called back."""
        return self._pid == getpid() and not is_finalizing()

    def __del__(self) -> None:
        if getattr(self, "handle", None) and self.is_ours():
            self._lib.musec_ctx_destroy(self.handle)
            self.handle = c.c_void_p()


class _Contexts(threading.local):
    def __init__(self) -> None:
        self.pid = os.getpid()
        self.of: dict[str, Context] = {}


_contexts = _Contexts()


def context(device: str) -> Context:
    """This thread's own context of a device, made when it is first asked for."""
    if _contexts.pid != os.getpid():  # after a fork
        _contexts.__init__()  # type: ignore[misc]
    if device not in _contexts.of:
        _contexts.of[device] = Context(device)
    return _contexts.of[device]
