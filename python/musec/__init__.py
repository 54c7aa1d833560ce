"""Spectral clipping of matrices, and the optimizers built on it.

    import musec
    musec.clip(x, 0.5)                    # NumPy arrays and PyTorch tensors, on a CPU or a GPU
    musec.spectrum(x).effective_rank
    musec.runs.read("runs/lr")            # logs of the trainer, one flat row for each step

    from musec.torch import SoftMusec     # optimizers for PyTorch

Everything is computed by the C library (include/musec/musec.h), which is loaded through ctypes;
there is nothing to compile against NumPy or PyTorch.
"""

from . import runs
from ._library import (
    DeviceError,
    Error,
    InvalidArgument,
    NonFinite,
    NotSupported,
    library_path,
    version,
)
from ._operators import ClipReport, Spectrum, clip, norm2, operators, optimizers, spectrum

__version__ = "0.1.0"
__all__ = [
    "ClipReport",
    "DeviceError",
    "Error",
    "InvalidArgument",
    "NonFinite",
    "NotSupported",
    "Spectrum",
    "clip",
    "library_path",
    "norm2",
    "operators",
    "optimizers",
    "runs",
    "spectrum",
    "version",
]
