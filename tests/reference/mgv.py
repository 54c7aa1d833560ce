"""mgv.py - reads and writes .mgv files; data/golden/README.md has the format."""
import struct

import numpy as np


def read_mgv(path):
    """The records by name."""
    with open(path, "rb") as f:
        data = f.read()
    assert data[:8] == b"MUSECGV1", path
    (count, zero), at, records = struct.unpack_from("<II", data, 8), 16, {}
    assert zero == 0, path
    for _ in range(count):
        name = data[at:at + 32].rstrip(b"\0").decode("ascii")
        rows, cols = struct.unpack_from("<II", data, at + 32)
        records[name] = np.frombuffer(data, "<f8", rows * cols, at + 40).reshape(rows, cols)
        at += 40 + 8 * rows * cols
    assert at == len(data), path
    return records


def write_mgv(path, records):
    with open(path, "wb") as f:
        f.write(b"MUSECGV1" + struct.pack("<II", len(records), 0))
        for name, a in records.items():
            a = np.atleast_2d(np.asarray(a, dtype="<f8"))
            assert len(name) <= 32 and a.ndim == 2, name
            f.write(name.encode().ljust(32, b"\0") + struct.pack("<II", *a.shape) + a.tobytes())
