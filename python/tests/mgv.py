"""Reads the golden vectors of tests/data (a container of named float64 matrices)."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np


def load(path: Path) -> dict[str, np.ndarray]:
    data = path.read_bytes()
    assert data[:8] == b"MUSECGV1"
    count = struct.unpack_from("<I", data, 8)[0]
    at, found = 16, {}
    for _ in range(count):
        name, rows, cols = struct.unpack_from("<32sII", data, at)
        at += 40
        values = np.frombuffer(data, "<f8", rows * cols, at).reshape(rows, cols)
        found[name.rstrip(b"\0").decode()] = values
        at += 8 * rows * cols
    return found
