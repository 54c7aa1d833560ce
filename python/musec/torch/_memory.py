"""PyTorch's memory as the library's own: its statistics count it, and state is a tensor."""

from __future__ import annotations

import bisect
import ctypes as c
from typing import Any, Optional

import torch

from .. import _library as L
from ._abi import AllocatorC, LoanC, alloc_t, free_t

torch_dtypes = {
    L.F32: torch.float32,
    L.F64: torch.float64,
    L.BF16: torch.bfloat16,
    L.F16: torch.float16,
    L.I16: torch.int16,
}


class Memory:
    """PyTorch's memory as the library's allocator."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.tensors: dict[int, torch.Tensor] = {}
        self.failure: Optional[BaseException] = None
        self.workspace = 0  # bytes that the last step asked for and gave back; 0: not known yet
        self._freed = 0  # bytes of the largest piece that came back in this step
        self._lent: Optional[torch.Tensor] = None
        # kept here, for the library keeps their addresses only
        self._loan = LoanC(next=AllocatorC(alloc_t(self._alloc), free_t(self._free), None))
        lib = L.lib()
        self.struct = AllocatorC(
            c.cast(lib.musec_loan_alloc, alloc_t),
            c.cast(lib.musec_loan_free, free_t),
            c.addressof(self._loan),
        )

    def _alloc(self, n_bytes: int, stream: Any, user: Any) -> Optional[int]:
        try:
            tensor = torch.empty(max(n_bytes, 1), dtype=torch.uint8, device=self.device)
        except Exception as e:  # no exception may cross C
            self.failure = e
            return None
        self.tensors[tensor.data_ptr()] = tensor
        return tensor.data_ptr()

    def _free(self, pointer: int, stream: Any, user: Any) -> None:
        # Work that may still use it is on the stream that it was allocated for, or done: the library
        # waits where its stream was changed in between.
        tensor = self.tensors.pop(pointer, None)
        if tensor is not None:
            self._freed = max(self._freed, tensor.numel())

    def lend(self) -> None:
        """Before a step that gives its workspace back: memory for it, as much as the last one took,
        so that the library need not call Python for it."""
        self._freed = 0
        self.take_back()  # an interrupt may have ended the step before at any place
        if not self.workspace:
            return
        loan = self._loan
        self._lent = torch.empty(self.workspace, dtype=torch.uint8, device=self.device)
        loan.data, loan.bytes, loan.was_out = self._lent.data_ptr(), self.workspace, 0

    def take_back(self) -> None:
        """The piece that was lent, unless the library still has it: then it comes by _free."""
        loan, lent = self._loan, self._lent
        if lent is not None and loan.is_out:
            self.tensors[lent.data_ptr()] = lent
        loan.data, loan.is_out, self._lent = None, 0, None
        if self._freed and not loan.was_out:
            self.workspace = self._freed

    def tensor(self, view: L.View) -> torch.Tensor:
        """The memory of a dense view, as a tensor (count, rows, cols) or of one matrix."""
        starts = sorted(self.tensors)
        start = starts[bisect.bisect_right(starts, view.data) - 1]
        dtype = torch_dtypes[view.dtype]
        size = dtype.itemsize
        first = view.data - start
        whole = self.tensors[start]
        count = (whole.numel() - first) // size
        typed = whole[first : first + count * size].view(dtype)
        return typed.as_strided(
            (view.count, view.rows, view.cols), (view.stride, view.ld, 1), typed.storage_offset()
        )
