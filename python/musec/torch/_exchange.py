"""Inspects all weights and gradients of a step by one call of the C library, by DLPack's C exchange
API (include/musec/dlpack.h), which PyTorch 2.11 has.

What is out of the ordinary (a gradient that is not contiguous, of a dtype that must be converted, of
a class of its own; a weight that has moved) is left to the engine, which asks PyTorch tensor by tensor,
as it does where PyTorch has no such API.
"""

from __future__ import annotations

import ctypes as c
import operator
import sys
from typing import Any, Optional, Sequence

import torch

from .. import _library as L

# A test sets it, to go the other way.
enabled = True


class TensorC(c.Structure):
    _fields_ = [
        ("data", c.c_void_p),
        ("device_type", c.c_int32),
        ("device_id", c.c_int32),
        ("ndim", c.c_int32),
        ("code", c.c_uint8),
        ("bits", c.c_uint8),
        ("lanes", c.c_uint16),
        ("shape", c.POINTER(c.c_int64)),
        ("strides", c.POINTER(c.c_int64)),
        ("byte_offset", c.c_uint64),
    ]


class InspectionC(c.Structure):
    _fields_ = [
        ("size", c.c_uint32),
        ("any_grad_dtype", c.c_uint32),
        ("describe", c.c_void_p),
        ("item", c.c_void_p),
        ("clear", c.c_void_p),
        ("none", c.c_void_p),
        ("types", c.c_void_p * 2),
        ("type_offset", c.c_size_t),
        ("n", c.c_size_t),
        ("expected", c.POINTER(TensorC)),
        ("views", c.POINTER(L.View)),
        ("shape_hints", c.POINTER(c.c_void_p)),
        ("n_none", c.c_size_t),
    ]


class _Table(c.Structure):
    """DLPackExchangeAPI of DLPack 1.3 and later minor versions."""

    _fields_ = [
        ("major", c.c_uint32),
        ("minor", c.c_uint32),
        ("previous", c.c_void_p),
        ("allocate", c.c_void_p),
        ("own", c.c_void_p),
        ("give", c.c_void_p),
        ("describe", c.c_void_p),
        ("stream", c.c_void_p),
    ]


_CAPSULE = b"dlpack_exchange_api"
_FLOAT, _BFLOAT = 2, 4  # DLPack's codes of dtypes
_dtypes = {
    torch.float32: (_FLOAT, 32),
    torch.float64: (_FLOAT, 64),
    torch.float16: (_FLOAT, 16),
    torch.bfloat16: (_BFLOAT, 16),
}
_plain = (torch.Tensor, torch.nn.Parameter)
_is_neg = torch.Tensor.is_neg
_grad_of = operator.attrgetter("grad")


def _describer() -> int:
    """The address of PyTorch's function that describes a tensor; 0: there is none."""
    capsule = torch.Tensor.__dict__.get("__dlpack_c_exchange_api__")
    if capsule is None or sys.implementation.name != "cpython":
        return 0
    valid = c.pythonapi.PyCapsule_IsValid
    valid.restype, valid.argtypes = c.c_int, [c.py_object, c.c_char_p]
    if not valid(capsule, _CAPSULE):
        return 0
    pointer = c.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = c.c_void_p, [c.py_object, c.c_char_p]
    table = _Table.from_address(pointer(capsule, _CAPSULE))
    return (table.describe or 0) if table.major == 1 and table.minor >= 3 else 0


def _address_of(function: Any) -> Optional[int]:
    return c.cast(function, c.c_void_p).value


class Inspection:
    """What the tensors of an engine's step were, to see whether they still are."""

    def __init__(self, weights: Sequence[torch.Tensor], views: Any, describer: int) -> None:
        n = len(weights)
        self.weights = list(weights)
        self._expected = (TensorC * n)()
        self._struct = InspectionC(
            size=c.sizeof(InspectionC),
            any_grad_dtype=weights[0].device.type != "cpu",
            describe=describer,
            item=_address_of(c.pythonapi.PyList_GetItem),
            clear=_address_of(c.pythonapi.PyErr_Clear),
            none=id(None),
            types=(c.c_void_p * 2)(*map(id, _plain)),
            type_offset=object.__basicsize__ - c.sizeof(c.c_void_p),
            n=n,
            expected=self._expected,
            views=views,
        )
        describe = c.PYFUNCTYPE(c.c_int, c.py_object, c.POINTER(TensorC))(describer)
        for weight, expected in zip(self.weights, self._expected):
            describe(weight, c.byref(expected))
        shapes = [c.cast(expected.shape, c.c_void_p).value for expected in self._expected]
        self._shape_hints = (c.c_void_p * n)(*shapes)
        self._struct.shape_hints = self._shape_hints
        self._keep()
        library = c.PyDLL(None, handle=L.lib()._handle)  # with the interpreter's lock held
        self._prefetch = library.musec_prefetch_tensors
        self._prefetch.restype, self._prefetch.argtypes = None, [c.c_void_p, c.py_object]
        self._function = library.musec_inspect_tensors
        self._function.restype = c.c_size_t
        self._function.argtypes = [c.c_void_p, c.py_object, c.py_object]
        self._at = c.addressof(self._struct)
        self._n = n

    def _keep(self) -> None:
        """Copies what the descriptions point to, which is the tensors' and changes with them."""
        numbers = []
        for expected in self._expected:
            numbers += expected.shape[: expected.ndim] + expected.strides[: expected.ndim]
        self._numbers = (c.c_int64 * max(len(numbers), 1))(*numbers)
        at = c.addressof(self._numbers)
        for expected in self._expected:
            for name in ("shape", "strides"):
                setattr(expected, name, c.cast(at, c.POINTER(c.c_int64)))
                at += expected.ndim * c.sizeof(c.c_int64)

    def is_right(self) -> bool:
        """Do the descriptions say what PyTorch says?"""
        return all(
            expected.data == weight.data_ptr()
            and (expected.code, expected.bits) == _dtypes.get(weight.dtype)
            and tuple(expected.shape[: expected.ndim]) == tuple(weight.shape)
            and tuple(expected.strides[: expected.ndim]) == weight.stride()
            for weight, expected in zip(self.weights, self._expected)
        )

    def tell(self, pointers: Sequence[int]) -> None:
        """The weights lie elsewhere now."""
        for expected, pointer in zip(self._expected, pointers):
            expected.data = pointer

    def gradients(self) -> Optional[list[Any]]:
        """The weights' gradients, which the views point at now, if all else is as it was."""
        self._prefetch(self._at, self.weights)
        grads = list(map(_grad_of, self.weights))
        if self._function(self._at, self.weights, grads) != self._n:
            return None
        if self._struct.n_none:
            negated = any(grad.is_neg() for grad in grads if grad is not None)
        else:
            negated = any(map(_is_neg, grads))
        return None if negated else grads

    def stepped(self, grads: list[Any]) -> list[torch.Tensor]:
        """The weights whose gradients were found."""
        if self._struct.n_none:
            return [w for w, grad in zip(self.weights, grads) if grad is not None]
        return self.weights


def inspect(weights: Sequence[torch.Tensor], views: Any) -> Optional[Inspection]:
    """None: these tensors, or this PyTorch, must be asked one by one."""
    describer = _describer() if enabled else 0
    if not describer or not weights or any(type(w) not in _plain for w in weights):
        return None
    inspection = Inspection(weights, views, describer)
    return inspection if inspection.is_right() else None
